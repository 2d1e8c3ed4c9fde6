//! `msgpath doctor`: what on both ends will spoil a measurement, and what this machine can tell apart today.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use msgpath_core::Workload;
use msgpath_core::doctor::{Check, CheckState, Doctor, Observation};
use msgpath_core::foreign::{command_again, shown};
use msgpath_core::path::PathSpec;
use msgpath_core::plan::{ChannelOptions, Extent};
use msgpath_core::remedy::{Action, Remedy};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, CaseRole, Exit, PathName, Plan, Problem, Target};
use msgpath_present::{Style, json, terminal};
use msgpath_run::{DoctorRequest, Examination, examine};
use msgpath_sys::say;
use msgpath_sys::standard::Output;

use crate::options::{LaunchOptions, Look};
use crate::output;
use crate::place::Place;
use crate::progress::Doing;
use crate::verb::Group;
use crate::{looks, progress, request, typed};

/// Rounds of each of the two equal cases.
const ROUNDS: u32 = 20;
/// Length of a round, ns.
const ROUND_NS: u64 = 75_000_000;
/// A resolution above this is worth a warning.
const COARSE: f64 = 0.05;

/// What will spoil measurements here
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// What starts the far end
    #[command(flatten)]
    launch: LaunchOptions,
    /// Judge as for receivers that spin (-o wait=spin of the measuring verbs)
    #[arg(long)]
    poll: bool,
    /// Print the commands that help, each with what takes it back; nothing is changed
    #[arg(long)]
    fix: bool,
    /// With --fix: run the commands for this machine (needs root) and print what takes them back
    #[arg(long, requires = "fix", conflicts_with = "json")]
    apply: bool,
    /// A check that says STOP is an error (exit 5)
    #[arg(long)]
    strict: bool,
    /// Each check with what was seen
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "doctor";
    const GROUP: Group = Group::Prepare;

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, &words)
    }
}

fn run(arguments: &Arguments, words: &[String]) -> Result<ExitCode> {
    let target = arguments.target.clone().unwrap_or(Target::Local);
    if arguments.apply {
        needs_root()?;
    }
    let stop = msgpath_sys::signal::stop_flag();
    let options = request::reached(&arguments.launch, &target, ChannelOptions::default())?;
    let spin = arguments.poll;
    let doing = Doing::at(&format!("examining {target} (4 s)"));
    let Examination { mut doctor, remedies } =
        examine(&DoctorRequest { target: target.clone(), options: options.clone(), full: true, spin }, stop)?;
    drop(doing);
    if arguments.apply {
        let failed = carry_out(&remedies, apply, &mut Output).map_err(|error| output::cannot_print(&error))?;
        return match failed {
            0 => Ok(ExitCode::SUCCESS),
            _ => Err(Problem::new("E22", Exit::Unfinished, format!("{failed} of {} commands failed", remedies.len()))
                .why("what the others changed stays until it is taken back")
                .into()),
        };
    }
    // The commands need no measurement, and with another server none can be made.
    let stranger = doctor.check(msgpath_run::WHO_ANSWERS, "far").is_some();
    let resolution = if arguments.fix || stranger {
        None
    } else {
        let _doing = Doing::at("measuring how much two equal cases differ (3 s)");
        add_resolution(&mut doctor, &target, &options, stop)?
    };
    let style = Style { verbose: arguments.verbose, ..looks::stdout(&arguments.look) };
    let text = match (arguments.look.json, arguments.fix) {
        (true, _) => json::doctor(&doctor, resolution) + "\n",
        (false, true) => terminal::doctor_fix(&doctor, style),
        (false, false) => {
            let words: Vec<String> = std::iter::once("msgpath".into()).chain(words.iter().cloned()).collect();
            terminal::doctor(&doctor, resolution, &command_again(&words), style)
        }
    };
    output::print(text)?;
    match stopped(&doctor).filter(|_| arguments.strict) {
        Some(problem) => {
            say!("{problem}");
            Ok(problem.exit.code().into())
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What `--strict` makes of the checks.
fn stopped(doctor: &Doctor) -> Option<Problem> {
    let stops: Vec<&Check> = doctor.checks.iter().filter(|check| check.state == CheckState::Stop).collect();
    let first = stops.first()?;
    let others = if stops.len() > 1 { format!(", and {} more", stops.len() - 1) } else { String::new() };
    Some(
        Problem::new(
            "E23",
            Exit::Strict,
            format!("--strict: check {} ({}) says STOP{others}", first.number, first.name),
        )
        .why(&first.what)
        .hint(first.advice()),
    )
}

/// Measures two equal cases and appends check 21.
///
/// # Errors
/// Interrupted. That they cannot be measured is part of the check.
fn add_resolution(
    doctor: &mut Doctor,
    target: &Target,
    options: &ChannelOptions,
    stop: &AtomicBool,
) -> Result<Option<f64>, Problem> {
    let begin = Instant::now();
    let measured = resolution(target, options, stop);
    if stop.load(Ordering::Relaxed) {
        return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the A/A resolution was measured"));
    }
    doctor.took_ns += begin.elapsed().as_nanos() as u64;
    let resolution = measured.as_ref().ok().and_then(|(_, resolution)| *resolution);
    doctor.checks.push(check(measured));
    doctor.checks.sort_by_key(|check| check.number);
    Ok(resolution)
}

/// Check 21: what two equal cases differ by (docs/method/doctor.md#resolution).
fn check(measured: Result<(PathName, Option<f64>), Problem>) -> Check {
    let (state, what) = match &measured {
        // Nothing gets through to the far end.
        Err(problem) if problem.code == "E72" => (CheckState::Stop, problem.what.clone()),
        Err(problem) => (CheckState::NotAvailable, format!("n/a: {}", problem.what)),
        Ok((path, None)) => (CheckState::NotAvailable, format!("n/a: too few rounds of {path} were measured")),
        Ok((path, Some(resolution))) => (
            if *resolution < COARSE { CheckState::Ok } else { CheckState::Warn },
            format!(
                "{path} twice, {ROUNDS} rounds each, interleaved: the two differ by at most {} % (95 % of resamples)",
                msgpath_core::units::three_digits(100.0 * resolution)
            ),
        ),
    };
    let cure = match (state, &measured) {
        (CheckState::Stop, Err(problem)) => problem.hint.clone(),
        (CheckState::Warn, _) => {
            "what the other checks name; more rounds (-r) and longer runs (-t) resolve more".into()
        }
        _ => String::new(),
    };
    let resolution = measured.ok().and_then(|(_, resolution)| resolution);
    let evidence = resolution.map(|share| ("resolution_ratio".to_string(), share)).into_iter().collect();
    Check::new("both", Observation { number: 21, state, what, cure, remedies: Vec::new(), evidence })
}

/// What two equal cases on the cheapest path differ by. Nothing is kept.
fn resolution(
    target: &Target,
    options: &ChannelOptions,
    stop: &AtomicBool,
) -> Result<(PathName, Option<f64>), Problem> {
    let path = cheapest(target)?;
    let place = Place::temporary()?;
    let request = msgpath_run::Request {
        plan: Plan { options: options.clone(), ..twice(&path) },
        target: target.clone(),
        verb: "doctor".into(),
        command: vec!["msgpath".into(), "doctor".into()],
        name: place.name.clone(),
        folder: place.folder.clone(),
        kept: false,
        parts: Default::default(),
    };
    msgpath_run::execute(request, progress::silent().as_mut(), &mut |_| Vec::new(), stop)?;
    let run = crate::runs::read(&place.folder)?;
    Ok((path, msgpath_analyse::diff::resolution(&run)))
}

/// The path whose own cost hides the least: shared memory, else a local socket, else what reaches the target.
fn cheapest(target: &Target) -> Result<PathName, Problem> {
    let candidates: Vec<&str> = match (target.transport(), target) {
        (Some(transport), _) => vec![transport],
        (None, Target::Local) => vec!["shm:ring/futex", "unix:send", "tcp:send"],
        (None, _) => vec!["tcp:send"],
    };
    let mut last = None;
    for text in candidates {
        let spec: PathSpec = text.parse().expect("a well-formed path");
        let name = msgpath_paths::resolve(&spec, target.transport())?;
        match msgpath_paths::Entry::find(&name).map(|entry| entry.probe()) {
            Some(Ok(())) => return Ok(name),
            Some(Err(reason)) => last = Some(reason),
            None => {}
        }
    }
    let why = last.map_or_else(String::new, |reason| reason.why);
    Err(Problem::new("E05", Exit::CannotStart, format!("no path can be measured here: {why}")))
}

/// A case and its hidden repetition.
fn twice(path: &PathName) -> Plan {
    let case = Case::new(path.clone(), Pieces::whole(64));
    let cases = vec![case.clone(), Case { id: 1, role: CaseRole::Control, ..case }];
    Plan {
        rounds: ROUNDS,
        seed: request::random_seed(),
        extent: Extent::Time(u64::from(ROUNDS) * ROUND_NS),
        warmup_ns: 2 * ROUND_NS,
        message_log: 0,
        ..Plan::new(Workload::ECHO, cases)
    }
}

fn needs_root() -> Result<(), Problem> {
    // The owner of /proc/self is the effective user.
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Ok(());
    }
    Err(Problem::new("E21", Exit::CannotStart, "--apply changes this machine, which needs root")
        .hint("sudo msgpath doctor --fix --apply, or msgpath doctor --fix to see the commands"))
}

/// Changes this machine: by a direct write or a program with its arguments, never by a shell.
///
/// # Errors
/// Why nothing was changed.
fn apply(remedy: &Remedy) -> Result<(), String> {
    let place = remedy.place();
    if !Path::new(&place).exists() {
        return Err(format!("this machine has no {place}"));
    }
    match remedy.action() {
        Action::Write { path, value } => {
            let file = OpenOptions::new().write(true).open(&path);
            file.and_then(|mut file| file.write_all(value.as_bytes())).map_err(|error| error.to_string())
        }
        Action::Run(words) => {
            let done = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output();
            let done = done.map_err(|error| format!("{}: {error}", words[0]))?;
            let message = String::from_utf8_lossy(&done.stderr);
            let said = shown(message.lines().next().unwrap_or_default());
            if done.status.success() { Ok(()) } else { Err(format!("{}: {said}", done.status)) }
        }
    }
}

/// Applies the remedies, says what each did, and how all of it is taken back. Returns how many failed.
fn carry_out(
    remedies: &[Remedy],
    apply: impl Fn(&Remedy) -> Result<(), String>,
    out: &mut dyn Write,
) -> std::io::Result<usize> {
    let mut undo = Vec::new();
    let mut failed = 0;
    if remedies.is_empty() {
        writeln!(out, "no check has a command for this machine: nothing was changed")?;
    }
    for remedy in remedies {
        writeln!(out, "run   {}", remedy.action())?;
        match apply(remedy) {
            Ok(()) => {
                writeln!(out, "undo  {}", remedy.undo())?;
                undo.push(remedy.undo());
            }
            Err(why) => {
                failed += 1;
                writeln!(out, "failed: {why}")?;
            }
        }
    }
    if !undo.is_empty() {
        writeln!(out, "\nto take all of it back, last first:")?;
        for action in undo.iter().rev() {
            writeln!(out, "  {action}")?;
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use msgpath_core::remedy::{Cpu, Device, Setting};

    use super::*;

    fn with(number: u8, end: &str, state: CheckState) -> Check {
        let (what, cure) = ("powersave".into(), "performance".into());
        Check::new(end, Observation { number, state, what, cure, remedies: Vec::new(), evidence: BTreeMap::new() })
    }

    #[test]
    fn applied_remedies_are_printed_with_their_undo() {
        let fast = Setting::Governor(Cpu::try_from(1).unwrap()).remedy("powersave").unwrap();
        let pages = Setting::HugePages.remedy("always").unwrap();
        let refused = Setting::IoUring.remedy("2").unwrap();
        let mut out = Vec::new();
        let apply = |remedy: &Remedy| if *remedy == refused { Err("Read-only file system".into()) } else { Ok(()) };
        let all = [fast.clone(), refused.clone(), pages.clone()];
        assert_eq!(carry_out(&all, apply, &mut out).unwrap(), 1);
        let text = String::from_utf8(out).unwrap();
        let (first, last) = (pages.undo().to_string(), fast.undo().to_string());
        assert!(text.contains("failed: Read-only") && !text.contains(&refused.undo().to_string()), "{text}");
        assert!(text.ends_with(&format!("last first:\n  {first}\n  {last}\n")), "{text}");
    }

    #[test]
    fn remedies_of_what_this_machine_lacks_change_nothing() {
        let device = Device::parse("no-such-device").unwrap();
        let why = apply(&Remedy::Coalescing { device, was_us: 1 }).unwrap_err();
        assert_eq!(why, "this machine has no /sys/class/net/no-such-device");
        let cpu = Cpu::try_from(8191).unwrap();
        let why = apply(&Setting::Governor(cpu).remedy("powersave").unwrap()).unwrap_err();
        assert!(why.starts_with("this machine has no /sys/devices/system/cpu/cpu8191/"), "{why}");
    }

    #[test]
    fn advice_of_another_machine_is_no_hint_of_strict() {
        let hint = |end| {
            let checks = vec![with(8, end, CheckState::Stop)];
            stopped(&Doctor { checks, ..Doctor::default() }).unwrap().hint
        };
        assert_eq!(hint("near"), "performance");
        assert_eq!(hint("far"), "what the far end advises: performance");
    }

    #[test]
    fn a_coarse_resolution_is_a_warning_and_none_has_a_reason() {
        let path = || PathName::new("shm", "ring", "futex");
        let state = |resolution| check(Ok((path(), resolution))).state;
        assert_eq!(
            [state(Some(0.01)), state(Some(0.06)), state(None)],
            [CheckState::Ok, CheckState::Warn, CheckState::NotAvailable]
        );
        let found = check(Ok((path(), Some(0.013))));
        assert!(found.what.contains("1.30 %") && found.evidence["resolution_ratio"] == 0.013, "{found:?}");
        let none = check(Err(Problem::new("E01", Exit::CannotStart, "nobody answers")));
        assert!(none.what.starts_with("n/a: nobody") && none.evidence.is_empty());
    }

    #[test]
    fn strict_stops_at_stop() {
        let doctor = |state| Doctor { checks: vec![with(8, "near", state)], ..Doctor::default() };
        assert_eq!(stopped(&doctor(CheckState::Warn)), None);
        let problem = stopped(&doctor(CheckState::Stop)).unwrap();
        assert_eq!((problem.exit.code(), problem.why.as_str()), (5, "powersave"));
    }

    #[test]
    fn the_hidden_plan_is_a_case_and_its_control() {
        let plan = twice(&PathName::new("unix", "send", "block"));
        assert_eq!(plan.validate(), Ok(()));
        assert_eq!((plan.cases[1].role, plan.rounds), (CaseRole::Control, 20));
        let total = 2 * (1_000_000_000 + plan.warmup_ns);
        assert!(total < 3_000_000_000, "{total}");
        assert_eq!(cheapest(&"udp://10.0.0.2".parse().unwrap()).unwrap().transport, "udp");
    }
}
