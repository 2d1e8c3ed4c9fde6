//! Whether a case settled, and what it may claim if not: no absolute value, since the next minute may bring another
//! (method.md 3.6). Whatever is paired within a pass or a round still holds.

use msgpath_core::plan::{Case, Load, Plan, Workload};
use msgpath_core::schema::RoundRecord;

use crate::restarts::{Timed, levelled};
use crate::series::receiver;
use crate::steady::{ends, in_words, steadiness};
use crate::summary::{CaseSummary, Steadiness, SteadyClass};

/// The rounds by time: median round trip, or (streams) the receiver's time per message, ns. Rounds without one are left
/// out.
pub fn timed(plan: &Plan, case: &Case, rounds: &[&RoundRecord]) -> Vec<Timed> {
    let time = |round: &RoundRecord| match plan.workload {
        Workload::Echo | Workload::Rpc | Workload::Periodic => {
            round.latency.quantile(0.5).flatten().map(|ns| ns as f64)
        }
        Workload::Stream => {
            let end = receiver(plan, round);
            Some(end.elapsed_ns as f64 * case.size as f64 / end.bytes_received as f64)
        }
    };
    let finite = |ns: &f64| *ns > 0.0 && ns.is_finite();
    rounds.iter().filter_map(|round| Some((round.restart, time(round).filter(finite)?))).collect()
}

/// [`steadiness`] within restarts: their different levels are no unrest.
pub fn of_rounds(rounds: &[Timed]) -> Option<Steadiness> {
    let all: Vec<f64> = rounds.iter().map(|(_, ns)| *ns).collect();
    steadiness(&levelled(rounds)).map(|found| Steadiness { range_ns: ends(&all), ..found })
}

/// `never settled: 5 levels between 4.20 and 7.10 µs` for a closed loop of which that is true.
pub fn unsettled(case: &CaseSummary) -> Option<String> {
    let steadiness = case.steadiness.as_ref().filter(|found| found.class == SteadyClass::NeverSettled)?;
    (case.case.load == Load::Closed).then(|| format!("never settled: {}", in_words(steadiness)))
}

/// Takes back every absolute claim of a closed loop that never settled. Values stay; quantiles say why.
pub fn withdraw(case: &mut CaseSummary) {
    let Some(why) = unsettled(case) else { return };
    for quantile in case.quantiles.iter_mut().chain(&mut case.one_way) {
        (quantile.claim, quantile.lo_ns, quantile.hi_ns) = (false, None, None);
        quantile.why = Some(why.clone());
    }
    let rate = case.rate_per_s.iter_mut();
    let restarts = case.restarts.iter_mut().map(|restarts| &mut restarts.p50_ns);
    let throughput =
        case.throughput.iter_mut().flat_map(|of| [&mut of.receiver_bits, &mut of.sender_bits, &mut of.messages]);
    for estimate in rate.chain(restarts).chain(throughput) {
        (estimate.low, estimate.high) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::summary::SteadyClass;
    use crate::testing::{Build, lognormal_rounds, ramp, relevel};

    #[test]
    fn what_never_settled_claims_nothing_and_keeps_its_ratios() {
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
        for quantile in &case.quantiles {
            assert!(quantile.ns.is_some() && !quantile.claim && quantile.lo_ns.is_none() && quantile.hi_ns.is_none());
            assert!(quantile.why.as_ref().unwrap().starts_with("never settled: "), "{quantile:?}");
        }
        let rate = case.rate_per_s.as_ref().unwrap();
        assert!(rate.value > 0.0 && rate.low.is_none() && rate.high.is_none());
        let ratio = &summary.comparison.unwrap().ratios[0];
        assert!((ratio.ratio - 1.2).abs() < 0.02 && ratio.low.unwrap() > 1.15 && ratio.holm, "{ratio:?}");
    }

    #[test]
    fn a_stream_that_never_settled_has_no_interval() {
        let run = Build::stream(&["tcp:send"], &[65_536]).rounds(40).rates(|_, pass| 1e9 / ramp(pass)).run();
        let case = summarise(&run).cases[0].clone();
        let (steadiness, throughput) = (case.steadiness.unwrap(), case.throughput.unwrap());
        assert_eq!(steadiness.class, SteadyClass::NeverSettled);
        assert!(throughput.receiver_bits.value > 4e8 && throughput.receiver_bits.low.is_none(), "{throughput:?}");
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
        assert!(case.restarts.unwrap().dominate);
    }
}
