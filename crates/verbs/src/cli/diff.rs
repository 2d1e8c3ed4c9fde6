//! `msgpath diff`: did it change between two runs, and may CI pass?

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_analyse::diff::{Diff, GateState, Judged, ORDER, diff};
use msgpath_core::foreign::shown_json;
use msgpath_core::gate::Gate;
use msgpath_core::{Exit, Problem};
use msgpath_present::terminal;
use msgpath_sys::say;

use crate::kind::Kind;
use crate::options::Look;
use crate::output;
use crate::problems::usage;
use crate::verb::Group;
use crate::{gates, looks, runs, typed};

/// Did it change; --fail-if for CI
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The run before: a name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN")]
    before: String,
    /// The run after
    #[arg(value_name = "RUN")]
    after: String,
    /// Fail (exit 1) where this is surely so: 'p99 > +5%', 'throughput < -3%', or of the run after alone 'p50 > 200us',
    /// 'rate < 10k msg/s', 'loss > 0.1%'; repeatable
    #[arg(long, value_name = "GATE", value_parser = typed::gate)]
    fail_if: Vec<Gate>,
    /// Compare runs of other machines, days or options all the same
    #[arg(long)]
    i_know: bool,
    /// A gate that cannot be decided is an error (exit 5), not a pass
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "diff";
    const GROUP: Group = Group::Understand;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(code) = of_another_kind(arguments)? {
        return Ok(code);
    }
    let read = |name: &str| runs::read(&runs::find(name)?);
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    gates::suit(&arguments.fail_if, after.header.plan.workload)?;
    let found = diff(&before, &after, &arguments.fail_if);
    comparable(&found, arguments.i_know).map_err(|problem| turned_round(problem, &found, arguments))?;
    let text = if arguments.look.json {
        shown_json(&serde_json::to_string(&found)?).into_owned() + "\n"
    } else {
        terminal::diff(&found, looks::stdout(&arguments.look))
    };
    output::print(&text)?;
    Ok(match verdict(&found, arguments.strict) {
        Ok(()) => {
            for gate in found.gates_that(GateState::Undecided) {
                gates::pass_undecided(&gate.gate, &gate.case);
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            say!("{problem}");
            problem.exit.code().into()
        }
    })
}

/// Two records of one kind that are no runs; `None`: they are runs.
fn of_another_kind(arguments: &Arguments) -> Result<Option<ExitCode>> {
    let (before, after) = (runs::find_to_compare(&arguments.before)?, runs::find_to_compare(&arguments.after)?);
    let (kind, before, after) = match (before, after) {
        ((None, _), (None, _)) => return Ok(None),
        ((Some(kind), before), (Some(other), after)) if kind.stored == other.stored => (kind, before, after),
        ((one, _), (other, _)) => {
            let name = |kind: Option<&Kind>| kind.map_or("run", |kind| kind.stored.name);
            let what = format!("a {} and a {} have nothing to compare", name(one), name(other));
            return Err(usage(what).hint("two of one kind").into());
        }
    };
    let Some(diff) = kind.diff else { return Err(kind.is_no_run(&arguments.before).into()) };
    if !arguments.fail_if.is_empty() {
        return Err(usage("--fail-if is for two runs").hint(kind.limits).into());
    }
    diff(&before, &after, &arguments.look).map(Some)
}

/// Runs that differ in more than the program are refused.
fn comparable(diff: &Diff, i_know: bool) -> Result<(), Problem> {
    let refusals = diff.refusals();
    if let Some(first) = refusals.first().filter(|_| !i_know) {
        let others = match refusals.len() {
            1 => String::new(),
            more => format!(", and {} more", more - 1),
        };
        let all: Vec<String> = refusals
            .iter()
            .take(6)
            .map(|one| {
                format!("{}{}{}: {} → {}", one.end, if one.end.is_empty() { "" } else { " " }, one.what, one.a, one.b)
            })
            .collect();
        return Err(Problem::new("E24", Exit::CannotStart, format!("these runs differ in {}{others}", first.what))
            .why(format!("a change of the numbers could come from there: {}", all.join("; ")))
            .hint("two runs of one machine with the same options, or --i-know"));
    }
    if diff.rows.is_empty() {
        let what = "these runs have no case in common";
        return Err(Problem::new("E24", Exit::CannotStart, what)
            .why(diff.unpaired.iter().take(4).cloned().collect::<Vec<_>>().join("; "))
            .hint("the same paths, sizes, rates and threads in both"));
    }
    Ok(())
}

/// Where the runs are refused because the first is the later one and for nothing else, the hint is the command that has them in order.
fn turned_round(problem: Problem, diff: &Diff, arguments: &Arguments) -> Problem {
    if diff.refusals().iter().any(|one| one.what != ORDER) || diff.refusals().is_empty() {
        return problem;
    }
    problem
        .why(format!(
            "{} began at {}, {} at {}: better would be called worse",
            diff.a.name, diff.a.started, diff.b.name, diff.b.started
        ))
        .hint(format!("msgpath diff {} {}, or --i-know", arguments.after, arguments.before))
}

/// Whether the gates let it pass.
fn verdict(diff: &Diff, strict: bool) -> Result<(), Problem> {
    let named = |gates: &[&Judged]| {
        let first = format!("{} for {}", gates[0].gate, gates[0].case);
        if gates.len() > 1 { format!("{first}, and {} more", gates.len() - 1) } else { first }
    };
    let failed = diff.gates_that(GateState::Failed);
    if !failed.is_empty() {
        let why = "the whole interval lies beyond the limit and the margin, after Holm over all gates and cases";
        return Err(gates::failed_gate(&named(&failed), why));
    }
    let undecided = diff.gates_that(GateState::Undecided);
    if strict && !undecided.is_empty() {
        let hint = "longer runs (-t), more restarts, or both programs in one compare";
        return Err(gates::undecided_gate(&named(&undecided), undecided[0].why.clone(), hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::diff::{Compared, Difference};
    use msgpath_core::schema::Status;

    fn found(states: &[GateState]) -> Diff {
        let run = Compared {
            name: "brisk-otter".into(),
            started: String::new(),
            version: String::new(),
            binary: None,
            resolution: None,
            status: Status::Ok,
        };
        let judged = |state: &GateState| Judged {
            gate: "p99 > +5%".into(),
            case_b: 0,
            case: "tcp:send 64 B".into(),
            state: *state,
            value: None,
            low: None,
            high: None,
            p: None,
            why: Some("too few".into()),
        };
        Diff {
            schema: String::new(),
            status: Status::Ok,
            a: run.clone(),
            b: run,
            identity: Vec::new(),
            margin: 0.02,
            common: Vec::new(),
            rows: Vec::new(),
            gates: states.iter().map(judged).collect(),
            unpaired: Vec::new(),
        }
    }

    /// The first run is the later one.
    #[test]
    fn runs_in_reverse_order_are_refused_with_the_command_that_has_them_in_order() {
        let arguments = |i_know| Arguments {
            before: "@last".into(),
            after: "@-2".into(),
            fail_if: vec![],
            i_know,
            strict: false,
            look: Look::default(),
        };
        let mut diff = found(&[]);
        let order =
            Difference { what: ORDER.into(), end: String::new(), a: "12:00".into(), b: "11:00".into(), refuses: true };
        diff.identity = vec![order.clone()];
        let refused = comparable(&diff, false).map_err(|problem| turned_round(problem, &diff, &arguments(false)));
        assert_eq!(refused.unwrap_err().hint, "msgpath diff @-2 @last, or --i-know");
        diff.identity.push(Difference { what: "kernel".into(), ..order });
        let refused = comparable(&diff, false).map_err(|problem| turned_round(problem, &diff, &arguments(false)));
        assert!(refused.unwrap_err().hint.starts_with("two runs of one machine"));
    }

    #[test]
    fn only_what_is_sure_fails() {
        use GateState::{Failed, Passed, Undecided};
        let code = |states: &[GateState], strict| {
            verdict(&found(states), strict).map_or_else(|problem| problem.exit.code(), |()| 0)
        };
        assert_eq!(code(&[], true), 0);
        assert_eq!(code(&[Passed, Undecided], false), 0);
        assert_eq!(code(&[Passed, Undecided], true), 5);
        assert_eq!(code(&[Passed, Undecided, Failed], true), 1);
        let problem = verdict(&found(&[Failed, Failed, Failed]), false).unwrap_err();
        assert_eq!(problem.what, "--fail-if: p99 > +5% for tcp:send 64 B, and 2 more");
    }

    #[test]
    fn runs_that_differ_are_refused_with_what_differs() {
        let mut diff = found(&[]);
        let kernel =
            Difference { what: "kernel".into(), end: "both".into(), a: "6.1".into(), b: "6.2".into(), refuses: true };
        diff.identity = vec![kernel.clone(), Difference { what: "binary".into(), refuses: false, ..kernel }];
        let problem = comparable(&diff, false).unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), ("E24", Exit::CannotStart));
        assert!(
            problem.what.ends_with("differ in kernel") && problem.why.contains("both kernel: 6.1 → 6.2"),
            "{problem}"
        );
        assert!(problem.hint.contains("--i-know"));
        diff.unpaired = vec!["tcp:send 64 B (only in a)".into()];
        assert!(comparable(&diff, true).unwrap_err().what.contains("no case in common"));
    }
}
