//! Gates in words: what they looked at, and what they come to.

use msgpath_analyse::gates::{CaseGate, GateState, RunGate};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};

use super::{per_second, with_interval};

/// What a gate comes to.
pub fn state(state: GateState) -> &'static str {
    match state {
        GateState::Passed => "passed",
        GateState::Failed => "failed (sure)",
        GateState::Undecided => "can't tell",
    }
}

/// A value in a unit of [`RunGate::unit`].
pub fn value(value: f64, unit: &str, glyphs: Glyphs) -> String {
    match unit {
        "bit/s" => bits_per_second(value, BitUnits::Si),
        "1/s" => per_second(value),
        "share" => format!("{:.3} %", 100.0 * value.max(0.0)),
        _ => glyphs.time(value),
    }
}

/// `1.32 ms (95 %: 1.20 to 1.41 ms)`, or `≥ 1.20 ms`; empty where nothing is known.
pub fn range(case: &CaseGate, unit: &str, glyphs: Glyphs) -> String {
    let print = |number: f64| value(number, unit, glyphs);
    match (case.value, case.low, case.high) {
        (Some(at), low, high @ Some(_)) => with_interval(at, low, high, print),
        (Some(_), Some(low), None) => format!("≥ {}", print(low)),
        (Some(at), ..) => print(at),
        _ => String::new(),
    }
}

/// One case of a gate: its value with the range, and why where it is not decided.
pub fn judged(case: &CaseGate, unit: &str, glyphs: Glyphs) -> String {
    let why = case.because.as_deref().unwrap_or_default();
    match (range(case, unit, glyphs), why) {
        (range, "") => range,
        (range, why) if range.is_empty() => why.to_owned(),
        (range, why) => format!("{range}; {why}"),
    }
}

/// The worst case of a gate, and of how many: `1.32 ms (95 %: 1.20 to 1.41 ms) for unix:send 64 B, and 3 more of 30 cases`.
pub fn sentence(gate: &RunGate, glyphs: Glyphs) -> String {
    let Some(worst) = gate.worst() else { return "nothing was measured".into() };
    let all = gate.cases.len();
    let alike = gate.cases.iter().filter(|case| case.state == gate.state).count();
    let which = match (all, gate.state, alike) {
        (1, ..) => String::new(),
        (_, GateState::Passed, _) => format!(" for {}, the worst of {all} cases", worst.name),
        (_, _, 1) => format!(" for {}, 1 of {all} cases", worst.name),
        (..) => format!(" for {}, and {} more of {all} cases", worst.name, alike - 1),
    };
    let why = worst.because.as_deref().unwrap_or_default();
    match (range(worst, &gate.unit, glyphs), why) {
        (range, "") => range + &which,
        (range, why) if range.is_empty() => format!("{why}{which}"),
        (range, why) => format!("{range}{which}; {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::gate::Side;

    fn case(id: u32, state: GateState, value: Option<f64>) -> CaseGate {
        let (low, high) = (value.map(|value| value * 0.9), value.map(|value| value * 1.1));
        CaseGate { case: id, name: format!("case {id}"), state, value, low, high, p: None, because: None }
    }

    fn gate(state: GateState, cases: Vec<CaseGate>) -> RunGate {
        let worst = cases.first().map(|case| case.case);
        let (gate, watched, unit) = ("p99 > 1ms".into(), "p99".into(), "ns".into());
        RunGate { gate, watched, unit, limit: 1e6, fails: Side::Above, state, worst, cases }
    }

    #[test]
    fn the_worst_case_is_named_with_its_range() {
        use GateState::{Failed, Passed, Undecided};
        let text = |state, cases| sentence(&gate(state, cases), Glyphs::Unicode);
        let slow = |state| case(0, state, Some(2e6));
        assert_eq!(text(Failed, vec![slow(Failed)]), "2.00 ms (95 %: 1.80 to 2.20 ms)");
        assert_eq!(
            text(Failed, vec![slow(Failed), slow(Failed), slow(Passed)]),
            "2.00 ms (95 %: 1.80 to 2.20 ms) for case 0, and 1 more of 3 cases"
        );
        assert_eq!(
            text(Failed, vec![slow(Failed), slow(Passed)]),
            "2.00 ms (95 %: 1.80 to 2.20 ms) for case 0, 1 of 2 cases"
        );
        assert_eq!(
            text(Passed, vec![slow(Passed), slow(Passed)]),
            "2.00 ms (95 %: 1.80 to 2.20 ms) for case 0, the worst of 2 cases"
        );
        assert_eq!(text(Undecided, Vec::new()), "nothing was measured");
        let why = CaseGate { because: Some("too few".into()), ..case(0, Undecided, None) };
        assert_eq!(text(Undecided, vec![why.clone()]), "too few");
        let bound = CaseGate { because: Some("it grows".into()), high: None, ..slow(Undecided) };
        assert_eq!(text(Undecided, vec![bound.clone(), why]), "≥ 1.80 ms for case 0, and 1 more of 2 cases; it grows");
        assert_eq!(judged(&bound, "ns", Glyphs::Unicode), "≥ 1.80 ms; it grows");
    }

    #[test]
    fn values_have_the_unit_of_what_is_watched() {
        let text = |number, unit| value(number, unit, Glyphs::Unicode);
        assert_eq!(text(5.5e9, "bit/s"), "5.50 Gbit/s");
        assert_eq!(text(0.0012, "share"), "0.120 %");
        assert_eq!(text(1e6, "ns"), "1.00 ms");
        assert!(text(40_800.0, "1/s").starts_with("40.8 k"), "{}", text(40_800.0, "1/s"));
    }
}
