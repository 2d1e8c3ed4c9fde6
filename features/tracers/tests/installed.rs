//! Texts of the tracers that are installed here, with each combination of their options: every line is understood.
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::process::{Command, Stdio};

use msgpath_tracers::parse::{Text, Tracer, parse, tracer_of};

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
fn every_line_of_strace_and_perf_is_understood_whatever_their_options() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts.sh");
    // What it says of tracers that are not here goes to whoever runs the test.
    let made = Command::new("bash").arg(script).arg(folder.path()).stdin(Stdio::null()).status().unwrap();
    assert!(made.success());
    let options = std::fs::read_to_string(folder.path().join("options")).unwrap();
    let mut seen = [0; 2];
    for line in options.lines() {
        let (name, options) = line.split_once('\t').unwrap();
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        let is_strace = name.starts_with("strace");
        let text = understood(if is_strace { Tracer::Strace } else { Tracer::Timehist }, options, &bytes);
        seen[usize::from(!is_strace)] += 1;
        let has = |option: &str| options.split_whitespace().any(|word| word == option);
        if !is_strace {
            continue;
        }
        // Where nothing of a filter came, the ends of threads are all there is.
        assert!(!text.is_empty() || options.contains("-e ") || has("-P") || has("-z") || has("-Z"), "{options}");
        if has("-ttt") {
            let is_now = |ns: u64| ns > 1_700_000_000_000_000_000;
            assert!(text.calls.iter().all(|call| call.at_ns.is_some_and(is_now)), "{options}");
        }
        if has("-T") && !has("-c") {
            // The last call of a thread does not return.
            let timed = text.calls.iter().filter(|call| call.took_ns.is_some()).count();
            assert!(timed > 0 || text.calls.is_empty(), "{options}");
        }
    }
    eprintln!("{} texts of strace and {} of perf sched timehist", seen[0], seen[1]);
}
