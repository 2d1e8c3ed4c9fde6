//! Threads, memory, descriptors and files that run out: an error that says what to do, or a server that goes on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Home, Output, Running, free_port};

/// A user whom nobody else is: limits for a user count all processes of that user.
const NOBODY: [&str; 6] = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"];
const LONG: Duration = Duration::from_secs(120);

/// The program with the words of `line`, started by other programs that limit it.
fn limited(home: &Home, by: &[&str], line: &str) -> Command {
    let words: Vec<&str> =
        by.iter().copied().skip(1).chain([env!("CARGO_BIN_EXE_msgpath")]).chain(line.split_whitespace()).collect();
    let mut command = Command::new(by[0]);
    command.args(words).current_dir("/").stdin(Stdio::null());
    command.env("HOME", home.path()).env("XDG_DATA_HOME", home.path().join("data")).env("TMPDIR", home.temporary());
    command
}

/// Whether the program starts at all below those limits.
fn starts(home: &Home, by: &[&str]) -> bool {
    let mut command = limited(home, by, "--version");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// It ended by itself: with a result, or with an error that has a code and, as a rule, says what to do.
#[track_caller]
fn fine(what: &str, output: &Output) {
    let Output { code, out, err } = output;
    assert!(matches!(code, Some(0 | 2..=5)), "{what}: {code:?}\n{out}\n{err}");
    for bad in ["panicked", "memory allocation of", "fatal runtime error"] {
        assert!(!err.contains(bad), "{what}:\n{err}");
    }
    assert!(*code == Some(0) || err.contains("error[E"), "{what}: {code:?}\n{err}");
}

/// Runs all of these at the same time below limits; each must end as [`fine`] has it.
fn all_fine(home: &Home, by: &[&str], lines: &[&str]) {
    let start = |line: &&str| {
        let line = format!("{line} -c 60 -r 2 -w 0 --no-save");
        (format!("{} {line}", by.join(" ")), Running::new(limited(home, by, &line)))
    };
    let all: Vec<(String, Running)> = lines.iter().map(start).collect();
    all.into_iter().for_each(|(what, running)| fine(&what, &running.finish(LONG)));
}

/// Starts `serve` below limits and sends near ends to it, which have no limits. It must go on until it is stopped, or end
/// with an error of its own. Returns how many were served.
fn serves(home: &Home, by: &[&str], near_ends: usize) -> usize {
    let (what, port) = (by.join(" "), free_port());
    let running = Running::new(limited(home, by, &format!("serve 127.0.0.1:{port}")));
    let mut running = match running.says_or_ends("serving at", LONG) {
        Ok(running) => running,
        Err(output) => {
            assert_ne!(output.code, Some(0), "{what}: it did not serve");
            fine(&what, &output);
            return 0;
        }
    };
    let line = format!("echo 127.0.0.1:{port} -c 60 -r 2 -w 0 --no-save");
    let clients: Vec<Running> = (0..near_ends).map(|_| home.start(&line)).collect();
    let mut served = 0;
    for client in clients {
        let output = client.finish(LONG);
        fine(&format!("a near end of {what}"), &output);
        served += usize::from(output.code == Some(0));
    }
    if running.goes_on() {
        running.signal("INT");
        let output = running.finish(LONG);
        fine(&what, &output);
        assert_eq!(output.code, Some(0), "{what}:\n{}", output.err);
    } else {
        fine(&what, &running.finish(LONG));
    }
    served
}

#[test]
fn threads_that_run_out_end_no_server() {
    let home = Home::new();
    // setpriv alone would still start it by the rights that it had.
    let by: Vec<&str> = NOBODY.into_iter().chain(["prlimit", "--nproc=64:64"]).collect();
    if !starts(&home, &by) {
        return eprintln!("skipped: no root here, no setpriv, or the program is in a folder that is closed to others");
    }
    let mut served = Vec::new();
    for (folder, mode) in [(home.path(), 0o755), (home.temporary().as_path(), 0o777)] {
        std::fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
    }
    for threads in [1, 2, 4, 8, 64] {
        let limit = format!("--nproc={threads}:{threads}");
        let by: Vec<&str> = NOBODY.into_iter().chain(["prlimit", &limit]).collect();
        served.push(serves(&home, &by, 5));
        all_fine(&home, &by, &["echo"]);
    }
    assert_eq!(served.last(), Some(&5), "64 threads are enough for all: {served:?}");
}

#[test]
fn address_space_that_runs_out_is_an_error() {
    let home = Home::new();
    // The least with which the program is started at all, in steps of a mebibyte.
    let (mut too_little, mut enough) = (1_u64, 4096);
    let by = |mib: u64| format!("--as={0}:{0}", mib << 20);
    let unlimited = starts(&home, &["prlimit", &by(enough)]);
    if !unlimited {
        return eprintln!("skipped: no prlimit here, or the program needs more than {enough} MiB of address space");
    }
    while enough - too_little > 1 {
        let middle = too_little.midpoint(enough);
        match answers(&home, &["prlimit", &by(middle)]) {
            true => enough = middle,
            false => too_little = middle,
        }
    }
    let mut served = Vec::new();
    for more in [0, 28, 33, 36, 48, 512] {
        let limit = by(enough + more);
        all_fine(&home, &["prlimit", &limit], &["echo", "echo -l 8M", "stream -P 4"]);
        served.push(serves(&home, &["prlimit", &limit], 3));
    }
    assert_eq!((served.first(), served.last()), (Some(&0), Some(&3)), "{served:?}");
}

/// Whether the program comes as far as its own first line below those limits, whatever it says then.
fn answers(home: &Home, by: &[&str]) -> bool {
    let mut command = limited(home, by, "--version");
    let output = command.stdout(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() || String::from_utf8_lossy(&output.stderr).contains("error[E58]"))
}

#[test]
fn descriptors_that_run_out_are_an_error() {
    let home = Home::new();
    if !starts(&home, &["prlimit", "--nofile=64:64"]) {
        return eprintln!("skipped: no prlimit here");
    }
    let mut served = Vec::new();
    for files in [4, 8, 10, 16, 24, 256] {
        let limit = format!("--nofile={files}:{files}");
        all_fine(&home, &["prlimit", &limit], &["echo -x tcp:send/epoll", "stream -x unix:send", "echo -P 8"]);
        if files <= 16 {
            let output = Running::new(limited(&home, &["prlimit", &limit], "echo --no-save")).finish(LONG);
            output.ends_with(3).says(&["ulimit -n"]);
        }
        served.push(serves(&home, &["prlimit", &limit], 3));
    }
    assert_eq!(served.last(), Some(&3), "256 files are enough for three: {served:?}");
}

#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let home = Home::new();
    let shell = |blocks: u32| format!("ulimit -f {blocks} || exit 77; exec \"$0\" \"$@\"");
    let mut saved = Vec::new();
    // Blocks of 512 bytes or of 1 KiB, as the shell has it.
    for blocks in [0, 1, 4, 16, 1 << 20] {
        let script = shell(blocks);
        let name = format!("run-{blocks}");
        let line = format!("echo -c 2000 -r 20 -w 0 --name {name}");
        let output = Running::new(limited(&home, &["sh", "-c", &script], &line)).finish(LONG);
        if output.code == Some(77) {
            return eprintln!("skipped: ulimit -f is refused here");
        }
        fine(&format!("{blocks} blocks"), &output);
        saved.push(output.code == Some(0));
        // What was written before is a run that can be read, or none at all.
        fine(&name, &home.run(&format!("show {name}")));
    }
    assert_eq!((saved.first(), saved.last()), (Some(&false), Some(&true)), "{saved:?}");
}
