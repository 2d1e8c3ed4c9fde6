//! Of W56: page faults inside the rounds.

use msgpath_core::schema::EndReport;
use msgpath_core::units::three_digits;

use super::conditions::{End, ends, of_rounds, pressure};
use super::wording::{finding, list, measured, percent, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W56", detect };

/// Minor faults a message; buffers are touched before the first message, so hardly any are left.
const PER_MESSAGE: f64 = 0.01;
/// Fewer faults than this are those of a start, whatever the number of messages.
const FEWEST: u64 = 20;

fn detect(input: &Input) -> Vec<Sentence> {
    measured(input).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let rounds = &input.all[case.case.id as usize];
    let ends = ends(input);
    let total = |of: fn(&EndReport) -> u64| -> u64 {
        rounds.iter().flat_map(|round| ends.iter().map(|end| of(end.report(round)))).sum()
    };
    let major = total(|report| report.major_faults);
    let minor: Vec<(&End, f64)> = ends
        .iter()
        .filter_map(|end| {
            let sum = |of: fn(&EndReport) -> u64| rounds.iter().map(|round| of(end.report(round))).sum::<u64>();
            let faults = sum(|r| r.minor_faults);
            let messages = sum(|r| r.delivery.sent.max(r.delivery.received));
            (faults >= FEWEST && faults as f64 > PER_MESSAGE * messages as f64)
                .then(|| (end, faults as f64 / messages.max(1) as f64))
        })
        .collect();
    if major == 0 && minor.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if major > 0 {
        let with = rounds.iter().filter(|round| round.near().major_faults + round.far().major_faults > 0).count();
        parts.push(format!(
            "{} page fault{} in {} had to read from a disk or from swap",
            major,
            if major == 1 { "" } else { "s" },
            of_rounds(with, rounds.len())
        ));
    }
    if !minor.is_empty() {
        let each: Vec<String> = minor
            .iter()
            .map(|(end, faults)| format!("{} page faults a message at {}", three_digits(*faults), end.name))
            .collect();
        parts.push(format!("{}: memory is touched for the first time in the measured part", list(&each)));
    }
    let pressure = ends.iter().filter_map(|end| pressure(end, rounds, "pressure.memory.some_usec"));
    let pressure = pressure.max_by(f64::total_cmp);
    if let Some(share) = pressure.filter(|share| *share >= 0.01) {
        parts.push(format!("tasks waited for memory {} % of the time", percent(share.min(1.0))));
    }
    let text = format!("{}{}", prefix(input, case), parts.join("; "));
    let numbers = [
        ("major_faults", major as f64),
        ("most_minor_faults_per_message", minor.iter().map(|(_, faults)| *faults).fold(f64::NAN, f64::max)),
        ("memory_pressure_share", pressure.unwrap_or(f64::NAN)),
    ];
    Some(finding("W56", Confidence::Likely, sentence(&text) + ".", numbers, vec!["msgpath doctor".into()]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::{NEAR, RoundRecord};

    fn texts(change: impl Fn(&mut RoundRecord)) -> Vec<String> {
        let mut run = Build::echo(&["shm:ring/futex"], &[64]).run();
        run.rounds.iter_mut().for_each(change);
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_of_first_touches() {
        assert_eq!(
            texts(|round| round.far_mut().minor_faults = 100),
            [
                "likely: 0.500 page faults a message at the far end: memory is touched for the first time in the measured part."
            ]
        );
    }

    #[test]
    fn speaks_of_swap() {
        let texts = texts(|round| {
            round.near_mut().major_faults = u64::from(round.pass == 3) * 5;
            round.end_mut(NEAR).kernel.0.insert("pressure.memory.some_usec".into(), 4_000);
        });
        assert_eq!(
            texts,
            [
                "likely: 5 page faults in 1 of 40 rounds had to read from a disk or from swap; tasks waited for memory 10 % of the time."
            ]
        );
    }

    #[test]
    fn a_fault_now_and_then_is_not_one_a_message() {
        assert!(texts(|_| ()).is_empty());
        assert!(texts(|round| round.near_mut().minor_faults = 2).is_empty());
        // 19 faults in a run of few messages.
        assert!(texts(|round| round.near_mut().minor_faults = u64::from(round.pass < 19)).is_empty());
    }
}
