//! `-o simulate-cache`: the near end's loop of each case once more under cachegrind (valgrind), where no PMU counts.
//!
//! What comes out is simulated and says so: user mode only, so nothing of what the kernel does and copies, on caches
//! that are modelled after this machine's. Two runs of different length are compared, so that start and end of the program
//! cancel out; what is left of each message is the loop with its stamps, its check of the payload and its entry in the
//! histogram. The near end is an agent that valgrind runs; the far end runs as ever. Nobody asks the near end what it has measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_agent::role::Role;
use msgpath_agent::wire::{Own, RoundOrder};
use msgpath_core::plan::{Load, Plan};
use msgpath_core::schema::{NEAR, Simulated};
use msgpath_core::{Case, CaseRole, Target, Unavailable};
use msgpath_sys::child::MakerEnds;
use msgpath_sys::temporary::Temporary;

use crate::launch::{Stream, local};
use crate::link::{Link, Pair};
use crate::orders::Orders;
use crate::round::{RoundError, carry_out};

/// Cases that are simulated at most.
pub const MOST_CASES: usize = 8;
/// Time for both runs of a case.
const PATIENCE: Duration = Duration::from_secs(60);
/// Messages of the longer run on each connection.
const MESSAGES: std::ops::RangeInclusive<u64> = 24..=1200;
/// Payload bytes of the longer run, about: simulating is some fifty times slower than running.
const BYTES: u64 = 4 << 20;
/// Cachegrind's events, and those of perf(1) that they stand for.
const EVENTS: [(&str, &str); 3] =
    [("Ir", "instructions"), ("D1mr", "L1-dcache-load-misses"), ("DLmr", "LLC-load-misses")];
/// Most bytes of a file of cachegrind that are read: it ends with the sums.
const MOST_BYTES: u64 = 64 << 20;

/// Simulates the measured cases of a plan, the first [`MOST_CASES`] of them; each of the others has a reason.
pub(crate) fn cases(plan: &Plan, target: &Target, stop: &AtomicBool) -> BTreeMap<u32, Simulated> {
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured && case.ablation.is_none());
    let tool = tool(target);
    let one = |(at, case): (usize, &Case)| {
        let result = match &tool {
            _ if at >= MOST_CASES => {
                Err(Unavailable::new(format!("only the first {MOST_CASES} cases are simulated"), ""))
            }
            _ if stop.load(Ordering::Relaxed) => Err(Unavailable::new("interrupted before it", "")),
            Ok(tool) => suits(case).and_then(|()| simulate(tool, plan, case, stop)),
            Err(reason) => Err(reason.clone()),
        };
        (case.id, result.unwrap_or_else(|reason| Simulated { why: Some(reason), ..Simulated::default() }))
    };
    measured.enumerate().map(one).collect()
}

/// What simulates.
struct Tool {
    valgrind: PathBuf,
    version: String,
    program: PathBuf,
}

fn tool(target: &Target) -> Result<Tool, Unavailable> {
    if *target != Target::Local {
        return Err(Unavailable::new("the far end was not started by this run", "a run without a target"));
    }
    let absent = || Unavailable::new("valgrind is not installed", "sudo apt install valgrind");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let valgrind = std::env::split_paths(&paths)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("valgrind"))
        .find(|file| file.is_file())
        .ok_or_else(absent)?;
    let written = Command::new(&valgrind).arg("--version").stdin(Stdio::null()).output();
    let written = written.map_err(|error| Unavailable::new(format!("valgrind does not start: {error}"), ""))?;
    let version: String = String::from_utf8_lossy(&written.stdout).trim().chars().take(40).collect();
    // Under valgrind /proc/self/exe is valgrind, so the file is named; a new one may have taken its place meanwhile.
    let program = std::env::current_exe().ok().filter(|file| file.is_file());
    let program = program.ok_or_else(|| Unavailable::new("the file of this program is gone", "start it again"))?;
    Ok(Tool { valgrind, version, program })
}

/// Whether the instructions of a message say anything.
fn suits(case: &Case) -> Result<(), Unavailable> {
    if case.traits.never_sleeps() {
        let why =
            "a receiver that spins executes as many instructions as it has to wait, and waits longer when simulated";
        return Err(Unavailable::new(why, "a wait that sleeps: /block"));
    }
    if case.traits.program {
        return Err(Unavailable::new("the far end is a program of others", "a case without --server"));
    }
    if case.load != Load::Closed {
        return Err(Unavailable::new("a schedule is a matter of time, which is not simulated", "no --rate"));
    }
    Ok(())
}

/// Messages on each connection of the shorter and of the longer run.
fn lengths(case: &Case) -> [u64; 2] {
    let many = (BYTES / (case.size + case.reply).max(1) / u64::from(case.connections))
        .clamp(*MESSAGES.start(), *MESSAGES.end())
        .next_multiple_of(u64::from(case.inflight.max(1)));
    [many / 6, many]
}

fn simulate(tool: &Tool, plan: &Plan, case: &Case, stop: &AtomicBool) -> Result<Simulated, Unavailable> {
    let deadline = Instant::now() + PATIENCE;
    let orders = Orders { plan, one_clock: true, spare: &[], stop, usual_ns: None };
    let lengths = lengths(case);
    let mut runs = Vec::new();
    for messages in lengths {
        let order = RoundOrder {
            events: false,
            departures: false,
            traced: false,
            urgent: false,
            stamps: msgpath_core::plan::Stamps::Near,
            ..orders.round(case, messages, 0)
        };
        runs.push(once(tool, plan, &order, plan.placement_of(case).of(NEAR), deadline, stop)?);
    }
    let connections = u64::from(case.connections);
    let counts = EVENTS.into_iter().filter_map(|(event, name)| {
        let of = |run: &BTreeMap<String, u64>| run.get(event).copied();
        Some((name.to_owned(), [of(&runs[0])?, of(&runs[1])?]))
    });
    let messages = lengths.map(|messages| messages * connections);
    Ok(Simulated { messages, counts: counts.collect(), by: tool.version.clone(), why: None })
}

/// A child that is not left behind.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// One run under cachegrind; its sums.
fn once(
    tool: &Tool,
    plan: &Plan,
    order: &RoundOrder,
    cpus: &[u32],
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<BTreeMap<String, u64>, Unavailable> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| Unavailable::new(format!("{what}: {error}"), "");
    let scratch = Temporary::new().map_err(|error| cannot("no folder for the result", &error))?;
    let (sums, written) = (scratch.path().join("sums"), scratch.path().join("said"));
    let errors = std::fs::File::create(&written).map_err(|error| cannot("no file for errors", &error))?;
    let mut program = Command::new(&tool.valgrind);
    program
        // Killed, a valgrind that a debugger may join would leave its pipes behind.
        .args(["-q", "--vgdb=no", "--tool=cachegrind", "--cache-sim=yes", "--trace-children=no"])
        .arg(format!("--cachegrind-out-file={}", sums.display()))
        .arg(&tool.program)
        .arg(local::VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors);
    let role = Role::End { places: None };
    let (near, to, from) = local::start(&mut program, MakerEnds::Kills, &role)
        .map_err(|error| cannot("valgrind does not start", &error))?;
    let mut near = Owned(near);
    let stream = Stream::new(from, to);
    let own = Own { near: true, cpus: cpus.to_vec(), batch: 1, keep: 0, load: None };
    let done = Link::near(stream, PATIENCE).map_err(RoundError::Problem).and_then(|near| {
        // An agent that hears nothing ends, and valgrind takes its time to start: the far end is started at its first word.
        let mut pair = Pair::of(near, Link::open(&Target::Local, &plan.options)?);
        carry_out(&mut pair, order, &own, deadline, stop)
    });
    let status = loop {
        match near.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(cannot("valgrind", &error)),
        }
        still_worth_it(deadline, stop)?;
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        let written = std::fs::read_to_string(&written).unwrap_or_default();
        let first = first_word(&written);
        return Err(Unavailable::new(format!("under valgrind it ended with {status}: {first}"), ""));
    }
    match done {
        Ok(()) => read(&sums).ok_or_else(|| Unavailable::new("cachegrind left no sums", "")),
        Err(RoundError::Unavailable(reason)) => Err(reason),
        Err(RoundError::Problem(problem)) => Err(Unavailable::new(problem.what, problem.hint)),
        Err(RoundError::Stopped) => Err(Unavailable::new("interrupted", "")),
    }
}

/// Neither too late nor interrupted.
fn still_worth_it(deadline: Instant, stop: &AtomicBool) -> Result<(), Unavailable> {
    if Instant::now() > deadline {
        let why = format!("it took more than {} s", PATIENCE.as_secs());
        return Err(Unavailable::new(why, "a quieter machine, or fewer bytes a message"));
    }
    if stop.load(Ordering::Relaxed) { Err(Unavailable::new("interrupted", "")) } else { Ok(()) }
}

/// The first line that is not valgrind's own.
fn first_word(written: &str) -> String {
    let own = |line: &&str| !line.trim().is_empty() && !line.starts_with("--") && !line.starts_with("==");
    written.lines().find(own).unwrap_or("no word").chars().take(200).collect()
}

/// The sums at the end of a file of cachegrind.
fn read(file: &Path) -> Option<BTreeMap<String, u64>> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    sums(&text)
}

/// The lines `events: NAMES` and `summary: NUMBERS` brought together.
fn sums(text: &str) -> Option<BTreeMap<String, u64>> {
    let line = |key: &str| text.lines().rev().find_map(|line| line.strip_prefix(key));
    let (names, numbers) = (line("events:")?, line("summary:")?);
    let sums: Option<BTreeMap<String, u64>> = names
        .split_whitespace()
        .zip(numbers.split_whitespace())
        .map(|(name, number)| Some((name.to_owned(), number.parse().ok().filter(|number| *number < 1 << 62)?)))
        .collect();
    sums.filter(|sums| !sums.is_empty() && names.split_whitespace().count() == numbers.split_whitespace().count())
}

/// Whether a plan can be simulated at all: messages there and back, or a stream.
pub(crate) fn is_asked(plan: &Plan) -> bool {
    plan.simulate && plan.workload.in_rounds
}

#[cfg(test)]
mod tests {
    use msgpath_core::PathName;
    use msgpath_core::schedule::{Arrivals, Rate};
    use msgpath_core::units::Pieces;

    use super::*;

    #[test]
    fn sums_are_those_of_the_last_lines() {
        let text = "desc: I1 cache: 32768 B\ncmd: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfl=a.c\nfn=f\n1 2 3\n\
                    summary: 120 1 2 30 4 5 6 7 8\n";
        let sums = sums(text).unwrap();
        assert_eq!((sums["Ir"], sums["D1mr"], sums["DLmr"]), (120, 4, 5));
        for broken in
            ["", "events: Ir\n", "events: Ir Dr\nsummary: 1\n", "events: Ir\nsummary: x\n", "events:\nsummary:\n"]
        {
            assert_eq!(super::sums(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_went_wrong_is_not_what_valgrind_warns_of() {
        assert_eq!(first_word("--7-- warning: L3 cache\n==7== x\nerror[E17]: gone\n  why\n"), "error[E17]: gone");
        assert_eq!(first_word("--7-- warning\n"), "no word");
    }

    #[test]
    fn long_messages_are_fewer() {
        let case = |size| Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(size));
        assert_eq!(lengths(&case(64)), [200, 1200]);
        assert_eq!(lengths(&case(1 << 20)), [4, 24]);
        let window = Case { inflight: 32, ..case(1 << 20) };
        assert_eq!(lengths(&window)[1] % 32, 0);
    }

    #[test]
    fn what_depends_on_time_is_not_simulated() {
        let case = |wait| {
            let path = PathName::new("tcp", "send", wait);
            Case { traits: msgpath_paths::traits(&path), ..Case::new(path, Pieces::whole(64)) }
        };
        assert!(suits(&case("block")).is_ok());
        assert!(suits(&case("spin")).unwrap_err().why.contains("spins"));
        let load = Load::Open { rate: Rate::per_second(1000.0).unwrap(), arrivals: Arrivals::Poisson };
        assert!(suits(&Case { load, ..case("block") }).is_err());
    }
}
