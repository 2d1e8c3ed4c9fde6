//! What a restart costs (docs/method/steadiness.md#restarts).

use msgpath_core::schema::RoundRecord;
use msgpath_stats::describe::{mean, median};

/// What a restart costs, in passes (one round of every case): the time between the last round of a restart and the first
/// of the next, beyond the usual time between rounds, over the time of a pass. `None` where the record does not show it.
pub fn cost(rounds: &[RoundRecord]) -> Option<f64> {
    let mut order: Vec<&RoundRecord> = rounds.iter().collect();
    order.sort_by_key(|round| round.start_ns);
    let cases = order.iter().map(|round| round.case).collect::<std::collections::BTreeSet<_>>().len();
    let (mut usual, mut across, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for pair in order.windows(2) {
        let end = pair[0].start_ns + pair[0].near().elapsed_ns.max(pair[0].far().elapsed_ns);
        let gap = pair[1].start_ns as f64 - end as f64;
        if pair[0].restart == pair[1].restart {
            usual.push(gap);
            starts.push((pair[1].start_ns - pair[0].start_ns) as f64);
        } else {
            across.push(gap);
        }
    }
    let restart = median(&across) - median(&usual);
    let pass = mean(&starts) * cases as f64;
    // Nothing to compare makes NaN, which is not above 0 either.
    (restart > 0.0 && pass > 0.0).then(|| restart / pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn a_restart_costs_what_the_gap_shows() {
        let mut run = Build::echo(&["tcp:send", "unix:send"], &[64]).restarts(4).run();
        assert_eq!(cost(&run.rounds), None);
        // Rounds start 50 ms apart, a pass is 100 ms; before each new restart another 400 ms went by.
        run.rounds.iter_mut().for_each(|round| round.start_ns += u64::from(round.restart) * 400_000_000);
        assert!((cost(&run.rounds).unwrap() - 4.0).abs() < 1e-9);
    }
}
