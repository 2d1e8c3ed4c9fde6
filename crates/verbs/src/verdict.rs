//! Whether a result is what was asked for: the exit code of a measuring verb.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::schema::{NEAR, Status, UnavailableCase};
use msgpath_core::{CaseRole, Exit, PathName, Problem, Workload};
use msgpath_stats::quantile::Range;

use crate::options::Options;
use crate::problems;
use crate::request::fits;
use crate::typed::{List, PathArg};

/// Whether the result is what was asked for.
///
/// # Errors
/// It was interrupted, nothing or not all of it could be measured, nothing arrived, or a check that was asked for failed.
pub fn of(workload: &Workload, summary: &Summary, options: &Options) -> Result<(), Problem> {
    let measured: Vec<_> = summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured).collect();
    if summary.status == Status::Partial {
        return Err(interrupted(workload, &measured));
    }
    if measured.iter().all(|case| case.rounds == 0) {
        let problem = Problem::new("E05", Exit::CannotStart, "nothing could be measured");
        return Err(because(problem, summary.unavailable.first()));
    }
    all_that_was_named(summary, options)?;
    something_arrived(workload, &measured)?;
    if options.settings.simulate_cache && workload.in_rounds {
        something_was_simulated(&measured)?;
    }
    if options.evidence.strict
        && let Some(warning) = summary.warnings.iter().find(|warning| warning.strict)
    {
        return Err(Problem::new(&warning.code, Exit::Strict, format!("--strict: {}", warning.text))
            .why(&warning.why)
            .hint(&warning.fix));
    }
    Ok(())
}

fn interrupted(workload: &Workload, measured: &[&CaseSummary]) -> Problem {
    let enough = |case: &&CaseSummary| {
        if workload.timed {
            case.latency.quantiles.iter().any(|quantile| quantile.p == 0.5 && quantile.range != Range::Few)
        } else {
            case.rounds >= u64::from(MIN_ROUNDS_FOR_CLAIMS)
        }
    };
    let problem = |what: &str| Problem::new("E15", Exit::Interrupted, what);
    if measured.iter().all(|case| case.rounds == 0) {
        return problem("interrupted before the first round was whole");
    }
    let what = if measured.iter().all(enough) {
        "interrupted before all rounds were measured"
    } else {
        "interrupted before the medians could be vouched for"
    };
    problem(what).why("what was measured until then is shown")
}

fn because(problem: Problem, missing: Option<&UnavailableCase>) -> Problem {
    match missing.map(|case| &case.reason) {
        Some(reason) => problem.why(&reason.why).hint(&reason.hint),
        None => problem,
    }
}

/// Whether each path that was named, and each program, was measured. Of those that msgpath chose, and of `all`, some may be
/// missing; and so may some sizes or rates of a path, and messages that it is known not to carry.
fn all_that_was_named(summary: &Summary, options: &Options) -> Result<(), Problem> {
    let named = options.message.paths.as_ref().is_some_and(|List(paths)| !paths.contains(&PathArg::All));
    let measured = |path: &PathName| summary.cases.iter().any(|case| case.case.path == *path && case.rounds > 0);
    let asked = |missing: &&UnavailableCase| {
        let case = &missing.case;
        case.role == CaseRole::Measured
            && !measured(&case.path)
            && case.ablation.is_none()
            && (named || case.path.program.is_some())
            && fits(case)
    };
    let missing: Vec<&UnavailableCase> = summary.unavailable.iter().filter(asked).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let mut paths: Vec<String> = missing.iter().map(|missing| missing.case.path.to_string()).collect();
    paths.dedup();
    let what = format!("not measured: {}", paths.join(", "));
    Err(because(Problem::new("E05", Exit::Unfinished, what), Some(first)))
}

fn something_arrived(workload: &Workload, measured: &[&CaseSummary]) -> Result<(), Problem> {
    let silent = |case: &&&CaseSummary| case.delivery.sent > 0 && case.delivery.received == 0;
    let silent: Vec<&&CaseSummary> = measured.iter().filter(silent).collect();
    let Some(first) = silent.first() else { return Ok(()) };
    let other = match silent.len() - 1 {
        0 => String::new(),
        1 => ", and 1 other case alike".into(),
        more => format!(", and {more} other cases alike"),
    };
    let why = format!("0 {} of {}{other}", workload.messages, first.delivery.sent);
    Err(problems::nothing_came(format!("nothing arrived over {}", first.case.path), why))
}

fn something_was_simulated(measured: &[&CaseSummary]) -> Result<(), Problem> {
    let rates = || measured.iter().flat_map(|case| &case.end(NEAR).events).filter(|rate| rate.simulated);
    if rates().any(|rate| rate.per_message.is_some()) {
        return Ok(());
    }
    let why = rates().find_map(|rate| rate.why.clone()).unwrap_or_default();
    Err(Problem::new("E05", Exit::Unfinished, "simulate-cache: no case could be simulated").why(&why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::summary::{EventRate, Latency, Warning};
    use msgpath_core::schema::UnavailableCase;
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, Delivery, PathName, Unavailable};
    use msgpath_stats::estimate::Estimate;
    use msgpath_stats::quantile::Quantile;

    fn case() -> Case {
        Case::new(PathName::new("udp", "send", "block"), Pieces::whole(64))
    }

    /// One case of 40 rounds whose median is a claim, with nothing lost.
    fn good() -> Summary {
        let median = Quantile {
            p: 0.5,
            ns: Some(8_000),
            lo_ns: Some(7_900),
            hi_ns: Some(8_100),
            beyond: 500,
            bursts: 40,
            ..Quantile::default()
        };
        let measured = CaseSummary {
            rounds: 40,
            messages: 1000,
            latency: Latency { quantiles: vec![median], ..Latency::default() },
            delivery: Delivery { sent: 1000, received: 1000, ..Delivery::default() },
            ..CaseSummary::empty(case())
        };
        Summary {
            target: "this machine".into(),
            cases: vec![measured],
            ..Summary::empty("brisk-otter", "echo", Status::Ok)
        }
    }

    /// The exit code of a summary that was changed, under options that were changed.
    fn code(workload: &Workload, change: impl Fn(&mut Summary, &mut Options)) -> u8 {
        let (mut summary, mut options) = (good(), Options::default());
        change(&mut summary, &mut options);
        of(workload, &summary, &options).map_or_else(|problem| problem.exit.code(), |()| 0)
    }

    #[test]
    fn a_valid_result_ends_with_0() {
        assert_eq!(code(Workload::ECHO, |_, _| ()), 0);
        assert_eq!(code(Workload::ECHO, |_, options| options.evidence.strict = true), 0);
    }

    #[test]
    fn measuring_nothing_never_ends_with_0() {
        let nothing = |summary: &mut Summary, _: &mut Options| {
            summary.cases.clear();
            let reason = Unavailable::new("io_uring is switched off", "leave it out");
            summary.unavailable.push(UnavailableCase { case: case(), reason });
        };
        assert_eq!(code(Workload::ECHO, nothing), 3);
        assert_eq!(code(Workload::ECHO, |summary, _| summary.cases[0].rounds = 0), 3);
    }

    #[test]
    fn where_nothing_arrived_nothing_was_measured() {
        let lose = |summary: &mut Summary, which: usize| {
            let case = &mut summary.cases[which];
            case.delivery = Delivery { sent: 10, lost: 10, ..Delivery::default() };
        };
        for workload in [Workload::ECHO, Workload::STREAM] {
            assert_eq!(code(workload, |summary, _| lose(summary, 0)), 4);
            let one_of_two = |summary: &mut Summary, _: &mut Options| {
                summary.cases.push(summary.cases[0].clone());
                lose(summary, 1);
            };
            assert_eq!(code(workload, one_of_two), 4);
        }
    }

    #[test]
    fn a_simulation_that_failed_for_every_case_is_an_error() {
        let simulated = |per_message: [Option<f64>; 2]| {
            code(Workload::ECHO, move |summary, options| {
                options.settings.simulate_cache = true;
                summary.cases.push(summary.cases[0].clone());
                for (case, value) in summary.cases.iter_mut().zip(per_message) {
                    let per_message = value.map(Estimate::from);
                    let why = per_message.is_none().then(|| "valgrind is not installed".into());
                    let rate = EventRate {
                        name: "instructions".into(),
                        simulated: true,
                        per_message,
                        why,
                        ..EventRate::default()
                    };
                    case.end_mut(NEAR).events = vec![rate];
                }
            })
        };
        assert_eq!(simulated([None, None]), 4);
        assert_eq!(simulated([None, Some(500.0)]), 0, "one of them was");
    }

    #[test]
    fn a_path_that_was_named_and_not_measured_is_an_error() {
        let missing = |typed: &'static str, change: fn(&mut Case)| {
            code(Workload::ECHO, move |summary, options| {
                let reason = Unavailable::new("the far end could not be started", "another program");
                let mut case = Case::new(PathName::new("udp", "sendmsg", "block"), Pieces::whole(64));
                change(&mut case);
                summary.unavailable.push(UnavailableCase { case, reason });
                let paths: Vec<PathArg> = typed
                    .split_terminator(',')
                    .map(|path| match path {
                        "all" => PathArg::All,
                        path => PathArg::Spec(path.parse().unwrap()),
                    })
                    .collect();
                options.message.paths = (!paths.is_empty()).then_some(List(paths));
            })
        };
        assert_eq!(missing("tcp,udp", |_| ()), 4);
        assert_eq!(missing("", |case| case.path.program = Some("missing".into())), 4);
        assert_eq!((missing("all", |_| ()), missing("", |_| ())), (0, 0));
        assert_eq!(missing("tcp,udp", |case| case.size = 1 << 20), 0, "a datagram is known not to carry it");
        assert_eq!(missing("tcp,udp", |case| case.role = CaseRole::Control), 0);
        assert_eq!(missing("udp", |case| case.path.method = "send".into()), 0, "another rate of it was measured");
    }

    #[test]
    fn an_interrupted_run_ends_with_130() {
        let said = |workload, change: fn(&mut Summary)| {
            let mut summary = good();
            summary.status = Status::Partial;
            change(&mut summary);
            let problem = of(workload, &summary, &Options::default()).unwrap_err();
            assert_eq!(problem.exit.code(), 130);
            problem.what
        };
        assert!(said(Workload::ECHO, |_| ()).contains("before all rounds"));
        let few: fn(&mut Summary) = |summary| summary.cases[0].latency.quantiles[0].range = Range::Few;
        assert!(said(Workload::ECHO, few).contains("medians"));
        assert!(said(Workload::STREAM, few).contains("before all rounds"), "a stream has no median");
        let rounds: fn(&mut Summary) = |summary| summary.cases[0].rounds = u64::from(MIN_ROUNDS_FOR_CLAIMS) - 1;
        assert!(said(Workload::STREAM, rounds).contains("medians"));
        assert!(said(Workload::ECHO, |summary| summary.cases.clear()).contains("before the first round"));
    }

    #[test]
    fn checks_that_were_asked_for() {
        let warned = |strict| {
            move |summary: &mut Summary, options: &mut Options| {
                options.evidence.strict = true;
                summary.warnings.push(Warning {
                    code: "W20".into(),
                    text: "the kernel copied all".into(),
                    why: String::new(),
                    fix: String::new(),
                    evidence: Default::default(),
                    strict,
                });
            }
        };
        assert_eq!(code(Workload::ECHO, warned(true)), 5);
        assert_eq!(code(Workload::ECHO, warned(false)), 0);
    }
}
