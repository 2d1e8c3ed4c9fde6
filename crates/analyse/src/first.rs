//! The first messages of every connection: trimmed from all other numbers, and compared with the rest of their round.

use msgpath_core::SparseHistogram;
use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::paired::paired;
use msgpath_stats::pooled::Pooled;

use crate::summary::FirstMessages;

/// The trimmed messages of a case; `None` where none was recorded. Their ratio to the rest pairs the medians of the same
/// round, so that a slow stretch of the machine cancels out; its interval needs 5 rounds with both.
pub fn first_messages(plan: &Plan, case: &Case, rounds: &[&RoundRecord]) -> Option<FirstMessages> {
    let own: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.first).collect();
    let pooled = Pooled::new(&own);
    if pooled.total() == 0 {
        return None;
    }
    let connections = own.iter().filter(|first| first.total() > 0).count() as u64 * u64::from(case.connections.max(1));
    let paired = paired(&log_ratios(rounds), 1, plan.seed ^ u64::from(case.id));
    Some(FirstMessages {
        messages: pooled.total(),
        per_connection: pooled.total() as f64 / connections as f64,
        p50_ns: pooled.quantile(0.5).flatten(),
        slowest_ns: pooled.max(),
        ratio: paired.map(|paired| paired.ratio()),
    })
}

/// ln(median of the first messages / median of the rest) of every round that has both.
pub(crate) fn log_ratios(rounds: &[&RoundRecord]) -> Vec<f64> {
    let median = |of: &SparseHistogram| of.quantile(0.5).flatten().filter(|ns| *ns > 0).map(|ns| ns as f64);
    rounds.iter().filter_map(|round| Some((median(&round.first)? / median(&round.latency)?).ln())).collect()
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_stats::simulate::lognormal_rounds;

    #[test]
    fn they_are_compared_with_the_rest_of_their_round() {
        // The machine is three times slower in every second round; the first messages always take twice as long.
        let level = |pass: usize| if pass.is_multiple_of(2) { 20_000.0 } else { 60_000.0 };
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.plan.cases[0].connections = 4;
        for (pass, round) in run.rounds.iter_mut().enumerate() {
            round.latency = lognormal_rounds(pass as u64, 1, 400, level(pass), 0.1, 0.0).remove(0);
            round.first = lognormal_rounds(1_000 + pass as u64, 1, 400, 2.0 * level(pass), 0.1, 0.0).remove(0);
        }
        let summary = summarise(&run);
        let first = summary.cases[0].first.as_ref().unwrap();
        assert_eq!((first.messages, first.per_connection), (16_000, 100.0));
        assert_eq!(first.slowest_ns, run.rounds.iter().filter_map(|round| round.first.max()).max());
        let ratio = first.ratio.as_ref().unwrap();
        assert!((ratio.value - 2.0).abs() < 0.02, "{ratio:?}");
        assert!(ratio.low.unwrap() > 1.95 && ratio.high.unwrap() < 2.05, "{ratio:?}");
        // They are in no other number.
        assert_eq!(summary.cases[0].messages, 16_000);
    }

    #[test]
    fn nothing_trimmed_is_nothing_and_few_rounds_have_no_interval() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        assert_eq!(summarise(&run).cases[0].first, None);
        for round in run.rounds.iter_mut().take(4) {
            round.first = round.latency.clone();
        }
        let first = summarise(&run).cases[0].first.clone().unwrap();
        let ratio = first.ratio.unwrap();
        assert_eq!((ratio.value, ratio.low, first.per_connection), (1.0, None, 200.0));
    }
}
