//! Texts of the tracers that are installed here, with each of their options: every line is understood.
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use msgpath_tracers::parse::{Text, Tracer, parse, tracer_of};

/// Of strace 6.1; `-c` and what belongs to it makes a table.
const STRACE: [&str; 38] = [
    "-f",
    "-f -r",
    "-f -t",
    "-f -tt -T",
    "-f -ttt -T",
    "-f -r -ttt",
    "-f -r -tt -T",
    "-f -k",
    "-f -k -ttt",
    "-f -y",
    "-f -yy -T",
    "-f -i -T",
    "-f -n -i -r -T",
    "-f -x -T",
    "-f -xx",
    "-f -e write=all -e read=all",
    "-f -ttt -T -e write=all -e read=all",
    "-f -v -s 4096",
    "-f -Y -ttt",
    "-f --decode-pids=comm,pidns -T",
    "-f --relative-timestamps=ns -T",
    "-f --absolute-timestamps=format:unix,precision:ns --syscall-times=ns",
    "-f -X raw -T",
    "-f -X verbose",
    "-f -a 0 -T",
    "-f -a 100 -T",
    "-q -f",
    "-qq -f -ttt -T",
    "-f -z -T",
    "-f -Z -T",
    "-f -e abbrev=none -T",
    "-f -ttt -e raw=all",
    "-f -e verbose=none",
    "-f -e signal=none",
    "-f --seccomp-bpf -T",
    "-f -c",
    "-f -w -c -S time",
    "-f -C",
];

/// A program with children, a pipe, a signal and an error, whose name has a blank.
const PROGRAM: &str =
    "ls / >/dev/null; (sleep 0.01; cat /etc/hostname /nowhere) 2>/dev/null | wc -c >/dev/null & wait; kill -USR1 $$";

fn run(command: &mut Command) -> Option<Output> {
    command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()
}

/// What a text says; every line of it is understood.
#[track_caller]
fn understood(tracer: Tracer, options: &str, bytes: &[u8]) -> Text {
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    assert_eq!(tracer_of(bytes), Some(tracer), "{options}: {begin}");
    let text = parse(tracer, "", bytes);
    assert_eq!((text.lines.unknown, &text.lines.first), (0, &None), "{options}");
    text
}

#[test]
fn every_line_of_strace_is_understood_whatever_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("text"), folder.path().join("my prog"));
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let mut seen = 0;
    for options in STRACE {
        let _ = std::fs::remove_file(&file);
        let mut strace = Command::new("strace");
        strace.args(options.split(' ')).arg("-o").arg(&file).arg(&program).args(["-c", PROGRAM]);
        if run(&mut strace).is_none() {
            return eprintln!("skipped: no strace");
        }
        // Another version may lack an option, and a container may deny ptrace.
        let Some(bytes) = std::fs::read(&file).ok().filter(|bytes| !bytes.is_empty()) else { continue };
        let text = understood(Tracer::Strace, options, &bytes);
        assert!(!text.is_empty(), "{options}");
        if options.contains("-ttt") && !options.contains("-c") {
            assert!(
                text.calls.iter().all(|call| call.at_ns.is_some_and(|ns| ns > 1_700_000_000_000_000_000)),
                "{options}"
            );
        }
        seen += 1;
    }
    if seen == 0 {
        eprintln!("skipped: strace traces nothing here");
    }
}

/// What `perf sched record` wrote; `None`: it cannot here.
fn recorded(file: &Path) -> Option<()> {
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-o"]).arg(file).args(["--", "sh", "-c", PROGRAM]);
    run(&mut perf)?;
    std::fs::metadata(file).ok().filter(|data| data.len() > 0).map(|_| ())
}

#[test]
fn every_line_of_perf_sched_timehist_is_understood_whatever_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let Some(()) = recorded(&file) else { return eprintln!("skipped: no perf sched record") };
    for options in ["", "-V", "-w", "-M", "-S", "-n", "-V -w", "--state", "--show-prio", "--pid 0"] {
        let mut perf = Command::new("perf");
        perf.args(["sched", "timehist", "-i"]).arg(&file).args(options.split_whitespace());
        // Another version may lack an option.
        let Some(output) = run(&mut perf).filter(|output| output.status.success() && !output.stdout.is_empty()) else {
            continue;
        };
        understood(Tracer::Timehist, options, &output.stdout);
    }
}
