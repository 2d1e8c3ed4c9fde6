//! Events of CPU and kernel in words: a row for each end, and why some of them are not there.

use msgpath_analyse::events::{
    CYCLES, INSTRUCTIONS, L1D_MISSES, LAST_LEVEL_MISSES, SIMULATED, cycles_per_byte, find, find_simulated,
    instructions_per_cycle,
};
use msgpath_analyse::summary::{CaseSummary, EventRate};
use msgpath_core::schema::{FAR, NEAR};

use super::{per_message, percent};
use crate::view::push_new;

/// The columns of [`row`].
pub const HEADS: [&str; 7] =
    ["cycles", "instructions", "a cycle", "cycles a byte", "L1d misses", "LLC misses", "in user mode"];

/// Who counted or simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The near end's threads.
    Near,
    /// The far end's threads.
    Far,
    /// Cachegrind, of the near end.
    Simulated,
}

impl By {
    /// In the order of the rows.
    pub const ALL: [By; 3] = [By::Near, By::Far, By::Simulated];

    /// As a row is labelled.
    pub fn name(self) -> &'static str {
        match self {
            By::Near => "near end",
            By::Far => "far end",
            By::Simulated => "near, simulated",
        }
    }
}

/// What is known of the hardware events of a case, per message; `None` where nothing is.
pub fn row(case: &CaseSummary, by: By) -> Option<[String; 7]> {
    let end = if by == By::Far { FAR } else { NEAR };
    let value = |event| match by {
        By::Simulated => find_simulated(case, NEAR, event),
        _ => find(case, end, event),
    };
    let print = |value: Result<f64, String>| value.ok().map(per_message);
    let event = |name| print(value(name).map(|value| value.value));
    let derived = |value: Result<f64, String>| if by == By::Simulated { None } else { print(value) };
    let user = case.end(end).events.iter().filter(|_| by != By::Simulated).find(|rate| rate.name.contains(CYCLES));
    let cells = [
        event(CYCLES),
        event(INSTRUCTIONS),
        derived(instructions_per_cycle(case, end).map(|value| value.value)),
        derived(cycles_per_byte(case, end).map(|value| value.value)),
        event(L1D_MISSES),
        event(LAST_LEVEL_MISSES),
        user.and_then(|rate| rate.user_share).map(percent),
    ];
    cells.iter().any(Option::is_some).then(|| cells.map(|cell| cell.unwrap_or_else(|| "n/a".into())))
}

/// Why events are not there, one sentence for each reason, and what simulated figures are.
pub fn reasons(cases: &[&CaseSummary]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>, [bool; 2])> = Vec::new();
    let mut simulated = false;
    for case in cases {
        for (end, rates) in [&case.end(NEAR).events, &case.end(FAR).events].into_iter().enumerate() {
            simulated |= rates.iter().any(|rate| rate.simulated && rate.per_message.is_some());
            for (rate, why) in rates.iter().filter_map(|rate| Some((rate, rate.why.as_ref()?))) {
                let why = if rate.simulated { format!("not simulated: {why}") } else { why.clone() };
                match reasons.iter_mut().find(|(other, ..)| *other == why) {
                    Some((_, names, ends)) => {
                        ends[end] = true;
                        push_new(names, rate.name.as_str());
                    }
                    None => reasons.push((why, vec![&rate.name], [end == 0, end == 1])),
                }
            }
        }
    }
    let text = reasons.into_iter().map(|(why, names, ends)| {
        let end = match ends {
            [true, true] => "both ends",
            [true, false] => "the near end",
            _ => "the far end",
        };
        format!("n/a at {end}: {}: {why}", names.join(", "))
    });
    text.chain(simulated.then(|| format!("{}: {SIMULATED}", By::Simulated.name()))).collect()
}

/// The cells of one event in a long table: per message, 95 % interval, in user mode, time counted, why not.
pub fn cells(rate: &EventRate) -> [String; 5] {
    let estimate = rate.per_message.as_ref();
    let share = |share: Option<f64>| share.map_or_else(String::new, percent);
    [
        estimate.map_or_else(|| "n/a".into(), |estimate| per_message(estimate.value)),
        estimate.map_or_else(String::new, |estimate| super::estimate_interval(estimate, per_message)),
        share(rate.user_share),
        share(rate.running_share),
        if rate.simulated && rate.why.is_none() { SIMULATED.into() } else { rate.why.clone().unwrap_or_default() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use msgpath_stats::estimate::Estimate;

    fn counted(name: &str, value: f64) -> EventRate {
        let estimate = Estimate { value, low: Some(value * 0.9), high: Some(value * 1.1) };
        EventRate { name: name.into(), per_message: Some(estimate), user_share: Some(0.25), ..EventRate::default() }
    }

    fn refused(name: &str) -> EventRate {
        EventRate { name: name.into(), why: Some("no PMU driver: ENOENT".into()), ..EventRate::default() }
    }

    #[test]
    fn a_row_has_what_was_counted_and_reasons_stand_once() {
        let (_, summary) = fixture::echo();
        let mut case = summary.cases[0].clone();
        case.end_mut(NEAR).events = vec![counted("cycles", 8_000.0), counted("instructions", 12_000.0)];
        case.end_mut(FAR).events = vec![refused("cycles"), refused("instructions")];
        let row = row(&case, By::Near).unwrap();
        assert_eq!(
            (row[0].as_str(), row[2].as_str(), row[4].as_str(), row[6].as_str()),
            ("8000", "1.50", "n/a", "25.0 %")
        );
        assert_eq!(super::row(&case, By::Far), None);
        assert_eq!(super::row(&case, By::Simulated), None);
        assert_eq!(reasons(&[&case, &case]), ["n/a at the far end: cycles, instructions: no PMU driver: ENOENT"]);
        case.end_mut(NEAR).events = case.end(FAR).events.clone();
        assert_eq!(reasons(&[&case]), ["n/a at both ends: cycles, instructions: no PMU driver: ENOENT"]);
    }

    #[test]
    fn simulated_figures_have_a_row_of_their_own_and_say_what_they_are() {
        let (_, summary) = fixture::echo();
        let mut case = summary.cases[0].clone();
        case.end_mut(NEAR).events =
            vec![refused("cycles"), EventRate { simulated: true, ..counted("instructions", 700.0) }];
        assert_eq!(row(&case, By::Near), None);
        let simulated = row(&case, By::Simulated).unwrap();
        assert_eq!((simulated[0].as_str(), simulated[1].as_str(), simulated[2].as_str()), ("n/a", "700", "n/a"));
        assert!(reasons(&[&case])[1].contains("the kernel's copies are not in it"));
    }
}
