//! Whether a case settled, and the ranges of its numbers if not: from the fastest to the slowest level that was seen, since
//! the next minute may bring either. Whatever is paired within a pass or a round still holds.

use msgpath_core::carried::Carried;
use msgpath_core::plan::{Case, Load, Plan};
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::settling::Settling;
use msgpath_stats::restarts::Timed;
use msgpath_stats::steady::{self, Steadiness, SteadyClass};

use crate::summary::CaseSummary;
use crate::words::levels_in_words;

/// The rounds by the time of a message, see `time`. Rounds without one are left out.
pub fn timed(plan: &Plan, case: &Case, rounds: &[&RoundRecord]) -> Vec<Timed> {
    rounds.iter().filter_map(|round| Some((round.restart, time(plan, case, round)?))).collect()
}

/// Median round trip of a round, of an open loop from the actual send, since what waited before belongs to its schedule; or
/// (streams) the receiver's time per message, ns.
fn time(plan: &Plan, case: &Case, round: &RoundRecord) -> Option<f64> {
    let ns = if plan.workload.timed {
        let times = if round.service.total() > 0 { &round.service } else { &round.latency };
        times.quantile(0.5).flatten()? as f64
    } else {
        1e9 * 8.0 * case.size as f64 / Carried::of(plan, round).bits_per_s()?
    };
    (ns > 0.0 && ns.is_finite()).then_some(ns)
}

/// `never settled: 5 levels between 4.20 and 7.10 µs` for a closed loop of which that is true.
pub fn unsettled(case: &CaseSummary) -> Option<String> {
    let steadiness = case.steadiness.as_ref().filter(|found| found.class == SteadyClass::NeverSettled)?;
    (case.case.load == Load::Closed).then(|| format!("never settled: {}", levels_in_words(steadiness)))
}

/// How long a case takes to settle whose rounds are too short for it; `None`: they are long enough, or nobody looked.
pub fn cut_short(header: &RunHeader, case: &Case) -> Option<Settling> {
    let settling = header.pilots.iter().find(|pilot| pilot.case == case.id)?.settling?;
    header.plan.is_cut_short(case, settling).then_some(settling)
}

/// How long a round of a case was to measure, ns, as its pilot was; `None`: rounds hold a count, or there was no pilot.
pub fn planned_ns(header: &RunHeader, case: &Case) -> Option<u64> {
    let pilot = header.pilots.iter().find(|pilot| pilot.case == case.id)?;
    Some(header.plan.spans(case, pilot.settling)?.measured)
}

/// The rounds of each level of a closed loop that never settled; empty for any other case. `rounds` are those of
/// [`timed`], and `steadiness` is what [`msgpath_stats::steady::within_restarts`] makes of them.
pub fn levels<'a>(
    plan: &Plan,
    case: &Case,
    rounds: &[&'a RoundRecord],
    steadiness: Option<&Steadiness>,
) -> Vec<Vec<&'a RoundRecord>> {
    let unsettled = |found: &&Steadiness| found.class == SteadyClass::NeverSettled && case.load == Load::Closed;
    let Some(steadiness) = steadiness.filter(unsettled) else { return Vec::new() };
    let own: Vec<&RoundRecord> = rounds.iter().copied().filter(|round| time(plan, case, round).is_some()).collect();
    let rounds_of = |level: Vec<usize>| level.into_iter().map(|at| own[at]).collect();
    steady::levels(steadiness, own.len()).into_iter().map(rounds_of).collect()
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, ramp, relevel};
    use msgpath_stats::quantile::Range;
    use msgpath_stats::simulate::lognormal_rounds;
    use msgpath_stats::steady::SteadyClass;

    #[test]
    fn what_never_settled_spans_its_levels_and_keeps_its_ratios() {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        // Both paths drift alike; the second is 20 % slower all the time.
        for round in &mut run.rounds {
            let level = 20_000.0 * (1.0 + f64::from(round.pass) / 20.0) * (1.0 + 0.2 * f64::from(round.case));
            let seed = u64::from(round.pass) * 2 + u64::from(round.case);
            round.latency = lognormal_rounds(seed, 1, 400, level, 0.1, 0.0).remove(0);
        }
        let summary = summarise(&run);
        let case = &summary.cases[0];
        assert_eq!(case.steadiness.as_ref().unwrap().class, SteadyClass::NeverSettled);
        for quantile in case.latency.quantiles.iter().filter(|quantile| quantile.range != Range::NotYet) {
            assert_eq!(quantile.range, Range::Levels);
            assert!(quantile.why.as_ref().unwrap().ends_with(" levels"), "{quantile:?}");
        }
        // From 20 to 59 µs; a level is the middle of its rounds.
        let p50 = &case.latency.quantiles[0];
        assert!(p50.ns.is_some() && p50.lo_ns.unwrap() < 25_000 && p50.hi_ns.unwrap() > 54_000, "{p50:?}");
        let rate = case.rate_per_s.as_ref().unwrap();
        assert!(rate.low.unwrap() <= rate.value && rate.value <= rate.high.unwrap());
        let ratio = &summary.comparison.unwrap().ratios[0];
        assert!((ratio.ratio - 1.2).abs() < 0.02 && ratio.low.unwrap() > 1.15 && ratio.holm, "{ratio:?}");
    }

    #[test]
    fn a_stream_that_never_settled_spans_its_levels() {
        let run = Build::stream(&["tcp:send"], &[65_536]).rounds(40).rates(|_, pass| 1e9 / ramp(pass)).run();
        let case = summarise(&run).cases[0].clone();
        let (steadiness, throughput) = (case.steadiness.unwrap(), case.throughput.unwrap());
        assert_eq!(steadiness.class, SteadyClass::NeverSettled);
        assert!(
            throughput.receiver_bits.value > 4e8 && throughput.receiver_bits.low.unwrap() < 0.65e9,
            "{throughput:?}"
        );
        assert!(throughput.receiver_bits.high.unwrap() > 0.9e9, "{throughput:?}");
        // 65,536 bytes at 1 Gbit/s.
        assert!((steadiness.range_ns.0 / 524_288.0 - 1.0).abs() < 0.01, "{steadiness:?}");
        let steady = Build::stream(&["tcp:send"], &[65_536]).rounds(40).run();
        assert!(summarise(&steady).cases[0].throughput.as_ref().unwrap().receiver_bits.low.is_some());
    }

    #[test]
    fn levels_of_restarts_are_no_unrest() {
        let mut run = Build::echo(&["tcp:send"], &[64]).restarts(4).run();
        relevel(&mut run, |pass| [20_000.0, 30_000.0, 24_000.0, 36_000.0][pass as usize / 10]);
        let case = summarise(&run).cases[0].clone();
        let steadiness = case.steadiness.unwrap();
        assert_eq!(steadiness.class, SteadyClass::Flat);
        assert!(steadiness.range_ns.1 > 35_000.0);
        assert!(case.repeats.restarts.unwrap().dominate);
    }
}
