//! Of V15: the capacity that rates are shares of.

use msgpath_core::units::per_second;

use super::wording::{finding, measured, message, sentence};
use super::{Detector, Input, Sentence};
use crate::load_curve::same_line;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V15", detect };

/// Attempts that differ by more than this factor do not tell the capacity well.
const SPREAD: f64 = 1.25;

/// Once for all rates of a path.
fn detect(input: &Input) -> Vec<Sentence> {
    let shares: Vec<&CaseSummary> = measured(input).filter(|case| case.case.of_capacity.is_some()).collect();
    let first = |case: &&&CaseSummary| {
        shares.iter().find(|other| same_line(&other.case, &case.case)).is_some_and(|one| one.case.id == case.case.id)
    };
    shares.iter().filter(first).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let of = case.case.of_capacity.as_ref()?;
    let capacity = of.capacity()?.value();
    let (low, high) = (of.attempts.first()?.value(), of.attempts.last()?.value());
    let prefix = if measured(input).all(|other| same_line(&other.case, &case.case)) {
        String::new()
    } else {
        format!("{}, {}: ", case.case.path, message(&case.case))
    };
    let mut text = format!(
        "{prefix}the rates are shares of {}, what was answered while more was offered (best of {} attempts, the lowest {})",
        per_second(capacity),
        of.attempts.len(),
        per_second(low)
    );
    let steady = high <= SPREAD * low;
    if !steady {
        text.push_str("; the attempts differ so much that another run may find another capacity");
    }
    let numbers = [
        ("capacity_per_s", capacity),
        ("lowest_per_s", low),
        ("highest_per_s", high),
        ("attempts", of.attempts.len() as f64),
    ];
    let confidence = if steady { Confidence::Sure } else { Confidence::Likely };
    Some(finding("V15", confidence, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::OfCapacity;
    use msgpath_core::schedule::Rate;

    use crate::testing::sentences;
    use crate::testing_queue::{Queue, run};

    fn texts(attempts: &[f64]) -> Vec<String> {
        let mut run = run(&[0.2, 0.4].map(|rho| Queue::mm1(rho, 100, 10, 1)));
        for case in run.header.plan.cases.iter_mut().filter(|_| !attempts.is_empty()) {
            let attempts = attempts.iter().map(|per_s| Rate::per_second(*per_s).unwrap()).collect();
            case.of_capacity = Some(OfCapacity { share_ppm: 200_000, attempts });
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_once_for_all_rates() {
        let texts = texts(&[95e3, 100e3, 110e3]);
        let text = "sure: The rates are shares of 110 k/s, what was answered while more was offered (best of 3 \
                    attempts, the lowest 95.0 k/s).";
        assert_eq!(texts, [text]);
    }

    #[test]
    fn says_where_the_ablations_differ() {
        let texts = texts(&[50e3, 100e3, 110e3]);
        assert!(texts[0].starts_with("likely: ") && texts[0].ends_with("another capacity."), "{texts:?}");
    }

    #[test]
    fn is_silent_on_rates_that_were_typed() {
        assert!(texts(&[]).is_empty());
    }
}
