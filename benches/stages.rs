//! What tracing the light stages costs a message: the time that the kernel counts for its own programs, which no noise of the host
//! hides, beside the ratio of traced to untraced rounds, which it does.
//!
//! `cargo bench --bench stages -- [TURNS [PROGRAM ...]]`: 5 turns of the program just built, unless others are named; several are
//! measured in turn. The kernel's counting (BPF_ENABLE_STATS; two clock readings a run) is part of what it counts. Wants root and a
//! kernel that lets BPF trace, and says so where it has not.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use msgpath_sys::process;
use msgpath_sys::watch::count_run_time;

/// Between two looks at what was counted: it is gone with the process.
const LOOK: Duration = Duration::from_millis(5);
/// What is measured.
const ARGUMENTS: &str = "echo -x tcp:send --stages light -r 20 -w 0 -o what-ifs=no --no-save --json -q";

/// What one run of a program has shown.
struct Seen {
    /// A message, untraced, ns.
    untraced_ns: f64,
    /// Traced to untraced.
    ratio: f64,
    /// Events of a message.
    events: f64,
    /// Runs of the programs for a message, and their time, ns.
    runs: f64,
    ns: f64,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let turns: usize = arguments.next().map_or(5, |count| count.parse().expect("a number of turns"));
    let mut programs: Vec<String> = arguments.collect();
    if programs.is_empty() {
        programs.push(env!("CARGO_BIN_EXE_msgpath").into());
    }
    // As long as this lives.
    let _counting = match count_run_time() {
        Ok(counting) => counting,
        Err(error) => {
            println!("skipped: BPF_ENABLE_STATS: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let mut all: Vec<Vec<Seen>> = programs.iter().map(|_| Vec::new()).collect();
    for turn in 0..turns {
        for at in 0..programs.len() {
            let at = if turn % 2 == 0 { at } else { programs.len() - 1 - at };
            match seen(&programs[at]) {
                Ok(seen) => all[at].push(seen),
                Err(why) => {
                    println!("{}: {why}", programs[at]);
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("  events    runs   ns a message (range)   untraced p50    share   traced/untraced (range)");
    for (program, seen) in programs.iter().zip(&all) {
        let of = |pick: fn(&Seen) -> f64| {
            let mut values: Vec<f64> = seen.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            (values[values.len() / 2], values[0], values[values.len() - 1])
        };
        let (ns, ratio, untraced) = (of(|seen| seen.ns), of(|seen| seen.ratio), of(|seen| seen.untraced_ns).0);
        println!(
            "{:>8.1} {:>7.1} {:>8.0} ({:.0} to {:.0}) {:>11.1} µs {:>7.1} %   {:.3} ({:.3} to {:.3})   {program}",
            of(|seen| seen.events).0,
            of(|seen| seen.runs).0,
            ns.0,
            ns.1,
            ns.2,
            untraced / 1e3,
            100.0 * of(|seen| seen.ns / seen.untraced_ns).0,
            ratio.0,
            ratio.1,
            ratio.2,
        );
    }
    ExitCode::SUCCESS
}

fn seen(program: &str) -> Result<Seen, String> {
    let output = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let into = output.reopen().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(ARGUMENTS.split(' ')).stdin(Stdio::null()).stdout(into).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // By number of the BPF program: its time, ns, and its runs.
    let mut counted = BTreeMap::new();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None => process::tree(child.id()).into_iter().for_each(|pid| look(pid, &mut counted)),
        }
        std::thread::sleep(LOOK);
    };
    let text = fs::read(output.path()).map_err(|error| error.to_string())?;
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| format!("{status}: {error}"))?;
    let attribution = &value["attribution"][0];
    let number = |pointer: &str| {
        attribution
            .pointer(pointer)
            .and_then(serde_json::Value::as_f64)
            .ok_or(format!("{status}: no {pointer}: {attribution}"))
    };
    let messages = number("/messages")?;
    let (ns, runs) = counted.values().fold((0, 0), |(ns, runs), (time, times)| (ns + time, runs + times));
    Ok(Seen {
        untraced_ns: number("/observer/untraced_ns")?,
        ratio: number("/observer/ratio/value")?,
        events: number("/events_per_message")?,
        runs: runs as f64 / messages,
        ns: ns as f64 / messages,
    })
}

/// Adds what a process holds: fdinfo of a BPF program, `run_time_ns` and `run_cnt`.
fn look(pid: u32, counted: &mut BTreeMap<u64, (u64, u64)>) {
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().filter_map(Result::ok) {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
        };
        if let (Some(id), Some(ns), Some(runs)) = (field("prog_id"), field("run_time_ns"), field("run_cnt")) {
            let most = counted.entry(id).or_insert((0, 0));
            *most = (most.0.max(ns), most.1.max(runs));
        }
    }
}
