//! `msgpath doctor`: what on both ends will spoil a measurement, and what this machine can tell apart today.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use msgpath_core::doctor::{Check, CheckState, Doctor, Fix};
use msgpath_core::path::PathSpec;
use msgpath_core::plan::{ChannelOptions, Extent};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, CaseRole, Exit, PathName, Plan, Problem, Target, Workload};
use msgpath_present::{json, terminal};
use msgpath_run::{DoctorRequest, examine};

use super::options::{LaunchOptions, Look};
use crate::place::Place;
use crate::{looks, progress, request, typed};

/// Rounds of each of the two equal cases.
const ROUNDS: u32 = 20;
/// Length of a round, ns.
const ROUND_NS: u64 = 50_000_000;
/// A resolution above this is worth a warning.
const COARSE: f64 = 0.05;

/// What will spoil measurements here
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// Port of the far end [default: 5210]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port)]
    port: Option<u16>,
    /// What starts the far end
    #[command(flatten)]
    launch: LaunchOptions,
    /// Judge as for receivers that spin (--poll of the measuring verbs)
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
    #[command(flatten)]
    look: Look,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let target = request::with_port(arguments.target.as_ref(), arguments.port)?;
    if arguments.apply {
        needs_root()?;
    }
    let stop = msgpath_sys::signal::stop_flag();
    let options = request::reached(&arguments.launch, &target, ChannelOptions::default())?;
    let spin = arguments.poll;
    let mut doctor =
        examine(&DoctorRequest { target: target.clone(), options: options.clone(), full: true, spin }, stop)?;
    let mut out = std::io::stdout().lock();
    if arguments.apply {
        let fixes = fixes_here(&doctor, &target);
        let failed = carry_out(&fixes, &mut out)?;
        return match failed {
            0 => Ok(ExitCode::SUCCESS),
            _ => Err(Problem::new("E22", Exit::Unfinished, format!("{failed} of {} commands failed", fixes.len()))
                .why("what the others changed stays until it is taken back")
                .into()),
        };
    }
    // The commands need no measurement, and with another server none can be made.
    let stranger = doctor.check(msgpath_run::WHO_ANSWERS, "far").is_some();
    let resolution =
        if arguments.fix || stranger { None } else { add_resolution(&mut doctor, &target, &options, stop)? };
    let style = looks::stdout(&arguments.look);
    let text = match (arguments.look.json, arguments.fix) {
        (true, _) => json::doctor(&doctor, resolution) + "\n",
        (false, true) => terminal::doctor_fix(&doctor, style),
        (false, false) => terminal::doctor(&doctor, resolution, style),
    };
    out.write_all(text.as_bytes())?;
    match stopped(&doctor).filter(|_| arguments.strict) {
        Some(problem) => {
            eprintln!("{problem}");
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
        .hint(&first.cure),
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
    Ok(resolution)
}

/// Check 21: what two equal cases differ by (docs/method/doctor.md#resolution).
fn check(measured: Result<(PathName, Option<f64>), Problem>) -> Check {
    let (state, what) = match &measured {
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
    let cure = match state {
        CheckState::Warn => "what the other checks name; more rounds (-r) and longer runs (-t) resolve more",
        _ => "",
    };
    let resolution = measured.ok().and_then(|(_, resolution)| resolution);
    Check {
        number: 21,
        name: "A/A resolution".into(),
        end: "both".into(),
        state,
        what,
        cure: cure.into(),
        commands: Vec::new(),
        evidence: resolution
            .map(|share| ("resolution_ratio".to_string(), share))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
    }
}

/// What two equal cases on the cheapest path differ by. Nothing is kept.
fn resolution(
    target: &Target,
    options: &ChannelOptions,
    stop: &AtomicBool,
) -> Result<(PathName, Option<f64>), Problem> {
    let path = cheapest(target)?;
    let place = Place::temporary();
    let request = msgpath_run::Request {
        plan: Plan { options: options.clone(), ..twice(&path) },
        target: target.clone(),
        verb: "doctor".into(),
        command: vec!["msgpath".into(), "doctor".into()],
        name: place.name.clone(),
        folder: place.folder.clone(),
        kept: false,
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
        ..Plan::new(Workload::Echo, cases)
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

/// The commands for this machine, each once. What another machine wants done is never run here.
fn fixes_here<'a>(doctor: &'a Doctor, target: &Target) -> Vec<&'a Fix> {
    let here = |check: &&Check| check.end == "near" || target.is_same_machine();
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in doctor.checks.iter().filter(here).flat_map(|check| &check.commands) {
        if fixes.iter().all(|known| known.run != fix.run) {
            fixes.push(fix);
        }
    }
    fixes
}

/// Runs the commands, says what each did, and how all of it is taken back. Returns how many failed.
fn carry_out(fixes: &[&Fix], out: &mut dyn Write) -> std::io::Result<usize> {
    let mut undo = Vec::new();
    let mut failed = 0;
    if fixes.is_empty() {
        writeln!(out, "no check has a command for this machine: nothing was changed")?;
    }
    for fix in fixes {
        writeln!(out, "run   {}", fix.run)?;
        let done = Command::new("/bin/sh").arg("-c").arg(&fix.run).output();
        match done {
            Ok(done) if done.status.success() => {
                writeln!(out, "undo  {}", if fix.undo.is_empty() { "nothing to restore" } else { &fix.undo })?;
                undo.extend(Some(&fix.undo).filter(|undo| !undo.is_empty()));
            }
            Ok(done) => {
                failed += 1;
                let message = String::from_utf8_lossy(&done.stderr);
                writeln!(out, "failed: {}: {}", done.status, message.lines().next().unwrap_or_default())?;
            }
            Err(error) => {
                failed += 1;
                writeln!(out, "failed: {error}")?;
            }
        }
    }
    if !undo.is_empty() {
        writeln!(out, "\nto take all of it back, last first:")?;
        for command in undo.iter().rev() {
            writeln!(out, "  {command}")?;
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(number: u8, end: &str, state: CheckState, run: &str) -> Check {
        Check {
            number,
            name: "governor".into(),
            end: end.into(),
            state,
            what: "powersave".into(),
            cure: "performance".into(),
            commands: vec![Fix { run: run.into(), undo: format!("undo {run}") }],
            evidence: BTreeMap::new(),
        }
    }

    #[test]
    fn commands_of_another_machine_are_not_run_here() {
        let checks = vec![
            with(3, "near", CheckState::Warn, "a"),
            with(3, "far", CheckState::Warn, "a"),
            with(4, "far", CheckState::Warn, "b"),
            with(5, "both", CheckState::Warn, "c"),
        ];
        let doctor = Doctor { checks, ..Doctor::default() };
        let runs = |target: &str| {
            let target = if target.is_empty() { Target::Local } else { target.parse().unwrap() };
            fixes_here(&doctor, &target).iter().map(|fix| fix.run.clone()).collect::<Vec<_>>()
        };
        assert_eq!(runs(""), ["a", "b", "c"]);
        assert_eq!(runs("10.0.0.2"), ["a"]);
    }

    #[test]
    fn what_was_run_is_said_with_its_undo() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("changed").display().to_string();
        let fix = |run: &str, undo: &str| Fix { run: run.into(), undo: undo.into() };
        let fixes = [
            fix(&format!("touch {file}"), &format!("rm {file}")),
            fix("echo cannot >&2; false", "never"),
            fix("true", ""),
            fix("true; true", "second"),
        ];
        let mut out = Vec::new();
        assert_eq!(carry_out(&fixes.iter().collect::<Vec<_>>(), &mut out).unwrap(), 1);
        let text = String::from_utf8(out).unwrap();
        assert!(place.path().join("changed").exists());
        assert!(text.contains("cannot") && text.contains("nothing to restore") && !text.contains("never"), "{text}");
        assert!(text.ends_with(&format!("last first:\n  second\n  rm {file}\n")), "{text}");
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
        let doctor = |state| Doctor { checks: vec![with(8, "near", state, "x")], ..Doctor::default() };
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
