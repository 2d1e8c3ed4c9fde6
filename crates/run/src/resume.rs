//! A run that was cut short goes on: the same plan, the pilots' results, the same random order, and only the rounds that are
//! missing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use msgpath_core::foreign::command_again;
use msgpath_core::resume::{PassRecord, Resumption};
use msgpath_core::schema::{Environment, FAR, NEAR, RoundRecord, RunEnd, RunHeader, Status, Tracing};
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::{Exit, Plan, Problem, Target};
use msgpath_record::{CutShort, Run as Recorded};

use crate::execute::{NextPhase, Progress, Run, carry_out, with_resume};
use crate::link::{Link, Pair};
use crate::pilot::Pace;
use crate::program;

/// What a record holds already, for a run that goes on; by default nothing.
#[derive(Default)]
pub(crate) struct Before {
    /// Rounds by case and pass.
    pub(crate) rounds: HashMap<(u32, u32), RoundRecord>,
    /// Passes that were begun, by number.
    pub(crate) passes: BTreeMap<u32, PassRecord>,
    /// Where the clock of the run goes on, ns.
    pub(crate) start_ns: u64,
    /// How often the run went on, this time included. Every time the far end is a fresh process: a restart.
    pub(crate) times: u32,
}

/// E59.
fn refused(what: impl Into<String>) -> Problem {
    Problem::new("E59", Exit::CannotStart, what)
}

/// Whether a run has all that was planned.
pub fn is_complete(run: &Recorded) -> bool {
    run.damage.is_none() && run.end.as_ref().is_some_and(|end| end.status == Status::Ok)
}

/// Whether a run can go on at all, as far as its record tells.
///
/// # Errors
/// E59: it cannot, and why.
pub fn check(cut: &CutShort) -> Result<(), Problem> {
    let CutShort { run, passes, .. } = cut;
    let (header, name) = (&run.header, &run.header.name);
    // Under another name: this one is taken.
    let again = || {
        let mut words = header.command.clone();
        if let Some(at) = words.iter().position(|word| word == "--name") {
            words.drain(at..(at + 2).min(words.len()));
        }
        if words.is_empty() { "measure it again".to_owned() } else { command_again(&words) }
    };
    if let Some(damage) = &run.damage {
        return Err(refused(format!("{name} cannot be resumed: {damage}"))
            .why("what is damaged was not cut off by a program that was killed, so nobody knows what is missing")
            .hint(format!("msgpath show {name}   for what is before that place")));
    }
    if !header.imported.is_empty() {
        return Err(refused(format!("{name} cannot be resumed: it was imported"))
            .why("what others recorded is not measured again")
            .hint("msgpath import, once more"));
    }
    let beside = header.plan.beside.then_some("what went on beside its rounds has ended with it");
    let why = header.plan.workload.resumes.err().or(beside);
    if let Some(why) = why {
        return Err(refused(format!("{name} cannot be resumed: a run of `{}` is made in one go", header.verb))
            .why(why)
            .hint(again()));
    }
    if header.plan.options.between.as_ref().is_some_and(|between| !between.is_kept()) {
        return Err(refused(format!("{name} cannot be resumed: its network namespaces are gone"))
            .why("they were made for this run alone and went with its processes")
            .hint(again()));
    }
    target(header)?;
    paces(header)?;
    fits_the_plan(run, passes)
        .map_err(|why| refused(format!("{name} cannot be resumed: {why}")).why("its rounds are not those of its plan"))
}

/// Where the far end of the run is.
///
/// # Errors
/// E59: the record does not say it in a way that can be read.
fn target(header: &RunHeader) -> Result<Target, Problem> {
    if let Some(launch) = &header.plan.options.launch {
        return Ok(Target::Host { host: launch.host.clone(), port: DEFAULT_PORT, transport: None });
    }
    let started_here = header.plan.options.between.is_some() || !header.plan.programs.is_empty();
    if started_here || header.target == Target::Local.to_string() {
        return Ok(Target::Local);
    }
    let unknown = |_| refused(format!("{} cannot be resumed: {:?} is not a target", header.name, header.target));
    header.target.parse().map_err(unknown)
}

/// What the pilot found of every case, if it was this version's pilot.
fn paces(header: &RunHeader) -> Result<Vec<Pace>, Problem> {
    let plan = &header.plan;
    let pace = |(case, pilot)| Pace::from_record(plan, case, pilot);
    let paces: Option<Vec<Pace>> = match header.pilots.len() == plan.cases.len() {
        true => plan.cases.iter().zip(&header.pilots).map(pace).collect(),
        false => None,
    };
    paces.ok_or_else(|| {
        refused(format!("{} cannot be resumed: it lacks what the pilot found of its cases", header.name))
            .why("its rounds would not be those that were planned")
    })
}

/// Every pass has the cases that are planned for it, every round is one of its pass, and none is there twice.
fn fits_the_plan(run: &Recorded, passes: &[PassRecord]) -> Result<(), String> {
    let plan = &run.header.plan;
    for (number, pass) in (0..).zip(passes) {
        // Those of the second phase follow those of the first.
        let at = passes[..number as usize].iter().filter(|before| before.phase == pass.phase).count() as u32;
        let planned = plan.cases.iter().filter(|case| case.phase == pass.phase && plan.measures_in(case, at));
        let planned: HashSet<u32> = planned.map(|case| case.id).collect();
        let own: HashSet<u32> = pass.cases.iter().copied().collect();
        if pass.pass != number || own.len() != pass.cases.len() || own != planned {
            return Err(format!("pass {number} is not one of its plan"));
        }
    }
    let mut seen = HashSet::new();
    for round in &run.rounds {
        let planned = passes.get(round.pass as usize).is_some_and(|pass| pass.cases.contains(&round.case));
        if !planned || !seen.insert((round.case, round.pass)) {
            return Err(format!(
                "the round of case {} in pass {} is not planned, or there twice",
                round.case, round.pass
            ));
        }
    }
    Ok(())
}

/// Goes on with a run that [`check`] has let pass. `force`: also where the machine is not as it was.
///
/// # Errors
/// As [`execute`](crate::execute()), and E59 where something differs.
pub fn resume(
    mut cut: CutShort,
    force: bool,
    progress: &mut dyn Progress,
    next_phase: NextPhase<'_>,
    stop: &AtomicBool,
) -> Result<RunEnd, Problem> {
    check(&cut)?;
    let header = cut.run.header.clone();
    let (target, paces) = (target(&header)?, paces(&header)?);
    let mut pair = Pair::open(&target, &header.plan.options)?;
    program::place(&header.plan, &mut pair)?;
    let mut differs = differences(&header, &pair.near.environment, &pair.far);
    differs.extend(program::differences(&header));
    let rounds = std::mem::take(&mut cut.run.rounds);
    let done = rounds.len() as u64;
    let start_ns = rounds.iter().map(|round| round.start_ns.saturating_add(round.near().elapsed_ns)).max();
    let before = Before {
        rounds: rounds.into_iter().map(|round| ((round.case, round.pass), round)).collect(),
        passes: cut.passes.iter().map(|pass| (pass.pass, pass.clone())).collect(),
        start_ns: start_ns.unwrap_or(0),
        times: header.resumed.len() as u32 + 1,
    };
    let name = header.name.clone();
    let mut run = Run::again(header, pair, &target, paces, before);
    let traced =
        |case: &u32| run.header.plan.cases.get(*case as usize).is_some_and(|case| Plan::traced(case).is_some());
    let (of_traced, others): (Vec<_>, Vec<_>) = cut.messages.iter().partition(|(case, _)| traced(case));
    let sum = |rows: Vec<(&u32, &u64)>| rows.into_iter().map(|(_, rows)| *rows).sum::<u64>();
    let recorded = [run.header.tracing.clone(), run.header.end(FAR).tracing.clone()];
    run.open_tracer()?;
    run.reserved = run.reserved.saturating_sub(sum(of_traced));
    run.kept = sum(others);
    let backend = |tracing: &Option<Tracing>| tracing.as_ref().and_then(|tracing| tracing.backend.clone());
    let now = [run.header.tracing.clone(), run.header.end(FAR).tracing.clone()];
    for ((then, now), of) in recorded.iter().zip(&now).zip(["", " of the far end"]) {
        if backend(then) != backend(now) {
            let named = |backend: Option<String>| backend.unwrap_or_else(|| "stamps in user space only".into());
            let (then, now) = (named(backend(then)), named(backend(now)));
            differs.push(format!("the kernel{of} was traced by {then}, now by {now}"));
        }
    }
    [run.header.tracing, run.header.ends[FAR].tracing] = recorded;
    if !differs.is_empty() && !force {
        return Err(refused(format!("{name} cannot go on as it began: {}", differs[0]))
            .why(format!("{}; rounds from before and after would not belong together", differs.join("; ")))
            .hint(format!("msgpath resume {name} --force   goes on all the same, and the record says what differs")));
    }
    run.header.resumed.push(Resumption {
        at: msgpath_record::utc::now(),
        rounds: done,
        start_ns: run.before.start_ns,
        ended: cut.run.end.as_ref().map(|end| end.status),
        differs,
    });
    progress.started(&run.header);
    let writer = cut.go_on(&run.header).map_err(Problem::from)?;
    let name = run.header.name.clone();
    carry_out(run, writer, progress, next_phase, stop).map_err(|problem| with_resume(problem, &name))
}

/// What is not as it was when the run began, sentence by sentence.
fn differences(header: &RunHeader, near: &Environment, link: &Link) -> Vec<String> {
    let mut found = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    if header.version != version {
        found.push(format!("it was begun by msgpath {}, this is {version}", header.version));
    }
    let (near_then, far_then) = (header.host(NEAR), header.host(FAR));
    let one_machine = near_then.boot_id == far_then.boot_id && near.boot_id == link.environment.boot_id;
    found.extend(between(if one_machine { "" } else { " of the near end" }, near_then, near));
    if !one_machine {
        found.extend(between(" of the far end", far_then, &link.environment));
    }
    found
}

/// The same of one machine.
fn between(which: &str, then: &Environment, now: &Environment) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: &str, then: &str, now: &str| {
        if then != now {
            found.push(format!("the {what}{which} was {then}, now it is {now}"));
        }
    };
    say("host", &then.host, &now.host);
    say("kernel", &then.kernel, &now.kernel);
    say("CPU", &then.cpu, &now.cpu);
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    say("set of CPUs", &list(&then.cpus), &list(&now.cpus));
    if then.boot_id != now.boot_id {
        found.push(format!("the machine{which} was started again since"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Case;
    use msgpath_core::Workload;
    use msgpath_core::units::Pieces;

    fn environment() -> Environment {
        Environment { host: "a".into(), kernel: "6.1".into(), cpus: vec![0, 1], ..Environment::default() }
    }

    #[test]
    fn what_differs_is_said() {
        let then = environment();
        assert_eq!(between("", &then, &environment()), [""; 0]);
        let booted = Environment { boot_id: "2".into(), kernel: "6.2".into(), cpus: vec![0], ..environment() };
        assert_eq!(
            between(" of the far end", &then, &booted),
            [
                "the kernel of the far end was 6.1, now it is 6.2",
                "the set of CPUs of the far end was 0,1, now it is 0",
                "the machine of the far end was started again since"
            ]
        );
    }

    fn recorded() -> Recorded {
        let case = |id| Case { id, ..Case::new("tcp:send".parse().unwrap(), Pieces::whole(64)) };
        let plan = Plan { rounds: 2, ..Plan::new(Workload::ECHO, vec![case(0), case(1)]) };
        let rounds = [(0, 1), (0, 0), (1, 0)];
        let rounds = rounds.map(|(pass, case)| RoundRecord { case, pass, ..RoundRecord::default() }).into();
        Recorded { folder: "x".into(), header: RunHeader::new("x", "echo", plan), rounds, end: None, damage: None }
    }

    #[test]
    fn rounds_that_were_not_planned_are_noticed() {
        let pass = |pass, cases: &[u32]| PassRecord { pass, cases: cases.into(), ..PassRecord::default() };
        let passes = [pass(0, &[1, 0]), pass(1, &[0, 1])];
        assert_eq!(fits_the_plan(&recorded(), &passes), Ok(()));
        for wrong in [
            vec![pass(0, &[1, 0])],
            vec![pass(0, &[1, 0]), pass(2, &[0, 1])],
            vec![pass(0, &[1, 1]), pass(1, &[0, 1])],
            vec![pass(0, &[1, 0]), pass(1, &[0, 9])],
            vec![pass(0, &[1, 0]), PassRecord { phase: 1, ..pass(1, &[0, 1]) }],
        ] {
            assert!(fits_the_plan(&recorded(), &wrong).is_err(), "{wrong:?}");
        }
        let mut twice = recorded();
        twice.rounds.push(twice.rounds[0].clone());
        assert!(fits_the_plan(&twice, &passes).is_err());
    }
}
