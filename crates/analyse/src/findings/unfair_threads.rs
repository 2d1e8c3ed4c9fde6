//! Of W108: a thread got much less than its share.

use super::wording::{measured, percent, prefix, sentence, worst};
use super::{Detector, Input, Sentence, wording::warning};
use crate::summary::CaseSummary;
use crate::threads::ThreadShare;
use msgpath_core::schema::NEAR;

pub(super) const DETECTOR: Detector = Detector { code: "W108", detect };

/// The whole interval of its share lies below this part of the mean.
const MUCH_LESS: f64 = 0.8;

/// The slowest thread of the near end, where it is surely much slower than the mean: its number from 1, and its share.
fn slowest(case: &CaseSummary) -> Option<(usize, &ThreadShare, f64)> {
    let threads = case.threads.as_ref()?.of(NEAR);
    let shares = threads.iter().enumerate().filter_map(|(at, thread)| {
        let share = thread.share.as_ref()?;
        Some((at + 1, thread, share.value, share.high?))
    });
    let (number, thread, share, high) = shares.min_by(|a, b| a.2.total_cmp(&b.2))?;
    (high < MUCH_LESS).then_some((number, thread, share))
}

fn detect(input: &Input) -> Vec<Sentence> {
    let unfair = |case: &'_ CaseSummary| slowest(case).map(|(_, _, share)| -share);
    let Some((case, cases)) = worst(measured(input).filter_map(|case| Some((unfair(case)?, case)))) else {
        return Vec::new();
    };
    let (number, thread, share) = slowest(case).expect("the worst case has one");
    let figures = case.threads.as_ref().expect("with threads");
    let cpu = thread.cpu.map_or_else(String::new, |cpu| format!(" (CPU {cpu})"));
    let text = format!(
        "{}thread {number} of {}{cpu} got {} % of its share{}",
        prefix(input, case),
        figures.of(NEAR).len(),
        percent(share),
        super::wording::affected(cases)
    );
    let estimate = thread.share.clone().unwrap_or_default();
    let numbers = [
        ("thread", number as f64),
        ("share", share),
        ("share_low", estimate.low.unwrap_or(f64::NAN)),
        ("share_high", estimate.high.unwrap_or(f64::NAN)),
        ("cases", cases as f64),
    ];
    vec![warning(
        "W108",
        sentence(&text),
        "what all threads do together hides it, and the round lasts until the slowest is done",
        "look at what shares its CPU (--cpu, msgpath doctor), or pin no thread (--cpu none) and compare",
        numbers,
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::threads::testing::closed;
    use msgpath_core::schema::NEAR;

    fn run(slower: f64) -> msgpath_record::Run {
        let mut run = closed(&[1, 4], 4.0, 16);
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            let report = &mut round.end_mut(NEAR).threads[2].report;
            report.elapsed_ns = (report.elapsed_ns as f64 * slower) as u64;
        }
        run
    }

    #[test]
    fn speaks_of_the_slowest_thread() {
        // Three at full speed and one at half: 0.5 of a mean of 0.875.
        assert_eq!(
            sentences(&run(2.0), &super::DETECTOR),
            ["tcp:send, 64 B, 4 threads: thread 3 of 4 (CPU 0) got 57 % of its share"]
        );
    }

    #[test]
    fn is_silent_where_all_are_about_as_fast() {
        assert!(sentences(&run(1.0), &super::DETECTOR).is_empty());
        assert!(sentences(&run(1.2), &super::DETECTOR).is_empty());
    }
}
