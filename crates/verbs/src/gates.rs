//! What a result is held to: gates of `--fail-if`, of one run and of two.

use msgpath_analyse::gates::{GateState, RunGate};
use msgpath_core::Workload;
use msgpath_core::foreign::shown;
use msgpath_core::gate::Gate;
use msgpath_core::{Exit, Problem};
use msgpath_sys::say;

use crate::problems::usage;

/// A gate must watch what runs of this workload have.
///
/// # Errors
/// The first one that does not.
pub fn suit(gates: &[Gate], workload: &Workload) -> Result<(), Problem> {
    let Some(gate) = gates.iter().find(|gate| !workload.has(gate.watched)) else { return Ok(()) };
    Err(usage(format!("--fail-if '{gate}': {} have no {}", workload.runs, gate.watched))
        .hint(format!("watch {}", workload.watched_names())))
}

/// The same for a run that is measured now: a change needs an earlier one.
///
/// # Errors
/// The first gate that has no meaning.
pub fn of_one_run(gates: &[Gate], workload: &Workload) -> Result<(), Problem> {
    suit(gates, workload)?;
    let Some(gate) = gates.iter().find(|gate| gate.is_relative()) else { return Ok(()) };
    Err(usage(format!("--fail-if '{gate}': a change needs an earlier run, and here one is measured"))
        .why("the limit of one run has a unit: 'p99 > 1ms', 'throughput < 5 Gbit/s', 'rate < 10k msg/s', 'loss > 0.1%'")
        .hint(format!("a limit with a unit, or afterwards: msgpath diff OLD NEW --fail-if '{gate}'")))
}

/// The same for programs of others.
///
/// # Errors
/// The first gate that has no meaning.
pub fn of_watched(gates: &[Gate]) -> Result<(), Problem> {
    let wrong = |gate: &&Gate| gate.is_relative() || !gate.watched.is_of_watched();
    let Some(gate) = gates.iter().find(wrong) else { return Ok(()) };
    let what = match gate.is_relative() {
        true => "a change needs an earlier run".into(),
        false => format!("watched programs have no {}", gate.watched),
    };
    Err(usage(format!("--fail-if '{gate}': {what}"))
        .hint("p50, p99, mean or rate with a limit: 'p99 > 1ms', 'rate < 10k msg/s'"))
}

/// Whether the gates of a run let it pass.
///
/// # Errors
/// E25: a gate failed. E26: `strict`, and one was not decided.
pub fn verdict(gates: &[RunGate], strict: bool) -> Result<(), Problem> {
    let that = |state| gates.iter().filter(move |gate| gate.state == state);
    let named = |state| {
        let of = |gate: &RunGate| match gate.worst() {
            Some(worst) => format!("{} for {}", gate.gate, worst.name),
            None => gate.gate.clone(),
        };
        let cases = |gate: &RunGate| gate.cases.iter().filter(|case| case.state == state).count().max(1);
        let first = that(state).next().map(of)?;
        let more = that(state).map(cases).sum::<usize>() - 1;
        Some(if more > 0 { format!("{first}, and {more} more") } else { first })
    };
    if let Some(failed) = named(GateState::Failed) {
        return Err(failed_gate(&failed, "the whole range lies beyond the limit, after Holm over all gates and cases"));
    }
    match named(GateState::Undecided).filter(|_| strict) {
        Some(undecided) => {
            let why = that(GateState::Undecided).find_map(|gate| gate.worst()?.because.clone());
            Err(undecided_gate(&undecided, why, "a longer run (-t), more rounds (-r), or another limit"))
        }
        None => Ok(()),
    }
}

/// E25: a gate failed.
pub fn failed_gate(named: &str, why: &str) -> Problem {
    Problem::new("E25", Exit::CheckFailed, format!("--fail-if: {named}")).why(why)
}

/// E26: under `--strict` a gate was not decided.
pub fn undecided_gate(named: &str, why: Option<String>, hint: &str) -> Problem {
    let what = format!("--strict: not decided: {named}");
    Problem::new("E26", Exit::Strict, what).why(why.unwrap_or_default()).hint(hint)
}

/// Says on standard error which gates pass although they were not decided.
pub fn note_undecided(gates: &[RunGate]) {
    for gate in gates.iter().filter(|gate| gate.state == GateState::Undecided) {
        pass_undecided(&gate.gate, gate.worst().map_or("this run", |worst| worst.name.as_str()));
    }
}

/// Says it of one gate.
pub fn pass_undecided(gate: &str, case: &str) {
    say!("{}", shown(&format!("warning: {gate} was not decided for {case}, and passes")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::gates::CaseGate;
    use msgpath_core::gate::Side;
    use msgpath_core::workload::Answer;

    fn gates(texts: &[&str]) -> Vec<Gate> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_gate_must_watch_what_there_is() {
        assert_eq!(suit(&gates(&["p99 > +5%", "cpu > +5%", "loss > 1%", "rate < -1%"]), Workload::ECHO), Ok(()));
        assert_eq!(suit(&gates(&["throughput < -3%", "rate < 10k msg/s", "cpu > +5%"]), Workload::STREAM), Ok(()));
        let refused = |text: &str, workload| suit(&gates(&[text]), workload).unwrap_err();
        assert!(
            refused("throughput < -3%", Workload::ECHO).what.ends_with("'throughput < -3%': echoes have no throughput")
        );
        static ASKED: Workload =
            Workload { name: "asked", runs: "questions", answer: Answer::Server, has_rate: false, ..*Workload::ECHO };
        assert!(refused("cpu > 1us", &ASKED).hint.contains("p50, p99"));
        assert!(refused("rate < 1 msg/s", &ASKED).what.contains("questions have no rate"));
        assert_eq!(refused("p99 > +5%", Workload::STREAM).exit, Exit::Usage);
    }

    #[test]
    fn one_run_has_no_change() {
        assert_eq!(of_one_run(&gates(&["p99 > 1ms", "loss > 0.1%"]), Workload::ECHO), Ok(()));
        let problem = of_one_run(&gates(&["p99 > 1ms", "p50 > +5%"]), Workload::ECHO).unwrap_err();
        assert!(problem.exit == Exit::Usage && problem.what.contains("'p50 > +5%'"), "{problem}");
        assert!(problem.why.contains("'p99 > 1ms'") && problem.hint.contains("msgpath diff OLD NEW"), "{problem}");
        assert!(of_one_run(&gates(&["p99 > 1ms"]), Workload::STREAM).is_err());
    }

    /// A gate with cases in these states.
    fn judged(state: GateState, cases: &[GateState]) -> RunGate {
        let of_case = |(id, state): (u32, &GateState)| CaseGate {
            case: id,
            name: format!("case {id}"),
            state: *state,
            value: None,
            low: None,
            high: None,
            p: None,
            because: (*state == GateState::Undecided).then(|| "too few".into()),
        };
        let cases: Vec<CaseGate> = (0..).zip(cases).map(of_case).collect();
        RunGate {
            gate: "p99 > 1ms".into(),
            watched: "p99".into(),
            unit: "ns".into(),
            limit: 1e6,
            fails: Side::Above,
            state,
            worst: cases.iter().find(|case| case.state == state).map(|case| case.case),
            cases,
        }
    }

    #[test]
    fn only_what_is_sure_fails() {
        use GateState::{Failed, Passed, Undecided};
        let code =
            |gates: &[RunGate], strict| verdict(gates, strict).map_or_else(|problem| problem.exit.code(), |()| 0);
        assert_eq!(code(&[], true), 0);
        let undecided = judged(Undecided, &[Passed, Undecided]);
        assert_eq!(code(&[judged(Passed, &[Passed]), undecided.clone()], false), 0);
        assert_eq!(code(std::slice::from_ref(&undecided), true), 5);
        assert_eq!(code(&[judged(Undecided, &[])], true), 5);
        let failed = judged(Failed, &[Passed, Failed, Failed]);
        assert_eq!(code(&[undecided.clone(), failed.clone()], true), 1);
        let problem = verdict(&[failed, judged(Failed, &[Failed])], false).unwrap_err();
        assert_eq!(
            (problem.code.as_str(), problem.what.as_str()),
            ("E25", "--fail-if: p99 > 1ms for case 1, and 2 more")
        );
        assert_eq!(verdict(&[undecided], true).unwrap_err().why, "too few");
    }
}
