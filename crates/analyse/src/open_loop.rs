//! An open loop: whether the rate was sustained, who was late, and whether the counts agree (docs/method/open-loop.md).

use msgpath_core::SparseHistogram;
use msgpath_core::plan::{Case, Load};
use msgpath_core::schedule::Arrivals;
use msgpath_core::schema::{OpenRound, RoundRecord};
use msgpath_stats::describe::mean;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Estimated, Quantile, Range, count};
use msgpath_stats::robust::{Trimmed, ratio};

use crate::summarise::QUANTILES;
use crate::summary::{CaseSummary, OpenLoop};

/// A rate of which more than this share is not answered is not sustained.
const TOLERANCE: f64 = 0.005;
/// Nor is one that is missed by more than this, beyond its interval.
const SHORT: f64 = 0.02;
/// One-sided level at which growth over rounds is no chance.
const LEVEL: f64 = 0.975;
/// Fewer samples of the backlog than this show no slope.
const FEWEST_SAMPLES: usize = 8;
/// Threads at the near end for each schedule: one sends, one receives; an event loop is one that does both.
fn near_threads(case: &Case) -> u64 {
    if case.dispatch.is_turns() { 2 } else { 1 }
}
/// Little's law is not looked at where fewer messages than this should have been seen in flight.
const FEWEST_SEEN: f64 = 30.0;
/// Nor where a round has fewer messages than this times those in flight: what is in flight at its ends, about as many in
/// so many, then counts.
const EDGES: f64 = 50.0;

/// What the open loop of a case shows; `None` for a closed one and without a round.
pub fn open_loop(case: &Case, rounds: &[&RoundRecord]) -> Option<OpenLoop> {
    let Load::Open { rate, arrivals } = case.load else { return None };
    let rounds: Vec<(&RoundRecord, &OpenRound)> = rounds
        .iter()
        .filter_map(|round| Some((*round, round.open.as_ref()?)))
        .filter(|(_, open)| open.span_ns > 0)
        .collect();
    if rounds.is_empty() {
        return None;
    }
    let sum = |of: &dyn Fn(&RoundRecord, &OpenRound) -> u64| {
        rounds.iter().map(|(round, open)| of(round, open)).sum::<u64>() as f64
    };
    let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    let schedules = u64::from(case.schedules().max(1));
    let offered = sum(&|_, open| open.offered);
    let offered_per_s = 1e9 * offered / sum(&|_, open| open.span_ns);
    let growth: Vec<Growth> = rounds.iter().map(|(round, open)| Growth::of(round, open)).collect();
    let over_rounds = Trimmed::of(&growth.iter().map(|growth| growth.per_s).collect::<Vec<_>>())?;
    // What was not answered when the schedule ended, less what was not when it began, and what never was.
    let answered: Vec<(f64, f64)> = rounds
        .iter()
        .zip(&growth)
        .map(|((round, open), growth)| {
            let seconds = open.span_ns as f64 / 1e9;
            let gone = round.near().delivery.lost as f64 + growth.per_s * seconds;
            ((open.offered as f64 - gone).max(0.0), seconds)
        })
        .collect();
    let achieved_per_s = ratio(&answered)?;
    let lost =
        |(round, open): &(&RoundRecord, &OpenRound)| share(round.near().delivery.lost as f64, open.offered as f64);
    let lost = Trimmed::of(&rounds.iter().map(lost).collect::<Vec<_>>())?.mean;
    let mean_in_flight =
        share(sum(&|_, open| open.in_flight_sum * schedules), sum(&|round, _| round.near().delivery.sent));
    // What a round falls behind by, against what is in flight by chance. Where it falls behind, most of what is in flight
    // is what it is behind by, so half of that is the measure.
    let seconds = sum(&|_, open| open.span_ns) / 1e9 / rounds.len() as f64;
    let beyond_chance = |per_s: f64| per_s * seconds > (mean_in_flight / 2.0).max(1.0);
    let short = achieved_per_s.high.is_some_and(|high| high < offered_per_s);
    let behind = offered_per_s - achieved_per_s.value;
    // A tenth that is missing beyond the interval is no chance, however much was in flight when the rounds began.
    let far_short = achieved_per_s.high.is_some_and(|high| high < 0.9 * offered_per_s);
    let shown = short && beyond_chance(over_rounds.mean) || far_short;
    let cause = if overloaded(&growth, &over_rounds, offered_per_s, shown) {
        Some(format!("the backlog grows by {} messages/s", count(over_rounds.mean)))
    } else if lost > TOLERANCE {
        Some(format!("{:.1} % of the messages were lost", 100.0 * lost))
    } else if short && behind > SHORT * offered_per_s && beyond_chance(behind) {
        Some(format!("{:.0} % of what was due was not answered in its time", 100.0 * behind / offered_per_s))
    } else {
        None
    };
    let why = cause.map(|cause| {
        format!("not sustained ({} of {} msg/s): {cause}", count(achieved_per_s.value), count(offered_per_s))
    });
    let lateness = sum(&|_, open| open.lateness_ns);
    let busy = sum(&|round, open| (round.near().user_ns + round.near().system_ns).saturating_sub(open.spun_ns));
    let time = sum(&|round, _| round.near().elapsed_ns * schedules * near_threads(case));
    let mut out = OpenLoop {
        asked_per_s: rate.value(),
        offered_per_s,
        achieved_per_s,
        sustained: why.is_none(),
        why,
        backlog_per_s: Some(over_rounds.estimate()),
        service: quantiles(&rounds, |round| &round.service, quantile::estimate_queued),
        lateness: quantiles(&rounds, |round| &round.lateness, quantile::estimate),
        late_share: share(sum(&|_, open| open.late), offered),
        blocked_share: share(sum(&|_, open| open.blocked_ns), lateness),
        not_running_share: share(sum(&|_, open| open.not_running_ns), lateness),
        own_share: share(sum(&|_, open| open.own_ns), lateness),
        mean_in_flight,
        most_in_flight: rounds.iter().map(|(_, open)| open.in_flight_most).max().unwrap_or(0),
        little: (arrivals == Arrivals::Poisson).then(|| little(&rounds, schedules)).flatten(),
        client_busy: (time > 0.0 && busy > 0.0).then(|| busy / time),
    };
    if let Some(why) = &out.why {
        out.service.iter_mut().chain(&mut out.lateness).for_each(|quantile| bound(quantile, why));
    }
    Some(out)
}

/// Leaves the latencies of a case whose rate was not sustained their lower ends alone: they grow as long as the round
/// goes on.
pub(crate) fn withhold(case: &mut CaseSummary) {
    if let Some(why) = case.open.as_ref().and_then(|open| open.why.as_ref()) {
        case.latency.quantiles.iter_mut().chain(&mut case.transit.one_way).for_each(|quantile| bound(quantile, why));
        case.latency.effective_messages = None;
    }
}

pub(crate) fn bound(quantile: &mut Quantile, why: &str) {
    (quantile.range, quantile.hi_ns) = (Range::Bound, None);
    quantile.why = Some(why.into());
}

/// How the backlog of one round moves.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// Messages a second.
    per_s: f64,
    /// The test within the round (docs/method/open-loop.md#sustained-rates): slope * T > 3 s_resid + 10 messages.
    overloaded: bool,
}

impl Growth {
    fn of(round: &RoundRecord, open: &OpenRound) -> Self {
        if open.backlog.len() < FEWEST_SAMPLES {
            return Self::from_the_end(round, open);
        }
        let seconds = open.span_ns as f64 / 1e9;
        let t: Vec<f64> = open.backlog.iter().map(|(ns, _)| *ns as f64 / 1e9).collect();
        let n: Vec<f64> = open.backlog.iter().map(|(_, messages)| *messages as f64).collect();
        let (mean_t, mean_n) = (mean(&t), mean(&n));
        let squares: f64 = t.iter().map(|t| (t - mean_t).powi(2)).sum();
        let products: f64 = t.iter().zip(&n).map(|(t, n)| (t - mean_t) * (n - mean_n)).sum();
        let slope = if squares > 0.0 { products / squares } else { 0.0 };
        let residuals: f64 = t.iter().zip(&n).map(|(t, n)| (n - mean_n - slope * (t - mean_t)).powi(2)).sum();
        let residual = (residuals / (t.len() - 2) as f64).sqrt();
        // What is lost stays in the backlog. It is another reason, so the slope is that of the rest.
        let slope = slope - round.near().delivery.lost as f64 / seconds;
        Self { per_s: slope, overloaded: slope * seconds > 3.0 * residual + 10.0 }
    }

    /// Without samples the last reply tells. Where the backlog stays level the last message is one like all others and
    /// takes the mean on average. Where it grows from nothing the times grow as well, the last takes twice the mean, and
    /// what it takes beyond the mean is half of the time by which the far end is behind when the schedule ends.
    fn from_the_end(round: &RoundRecord, open: &OpenRound) -> Self {
        let messages = open.offered as f64;
        let span = open.span_ns as f64;
        let last = round.near().elapsed_ns as f64 - (span - span / messages.max(1.0));
        let behind = 2.0 * (last - round.latency.mean().unwrap_or(last));
        let per_s = 1e9 * messages * (1.0 / span - 1.0 / (span + behind.max(-0.5 * span)));
        Self { per_s, overloaded: per_s * span / 1e9 > 10.0 && per_s > 0.05 * 1e9 * messages / span }
    }
}

/// Overloaded as a case: the growth is there beyond chance over rounds, and it is more than [`TOLERANCE`] of the rate. The
/// mean over rounds is trimmed, so a stall in a few of them does not make it, and rounds that are each too short to tell
/// do so together; but not where what a round is behind by is no more than what is in flight by chance when it ends. Rounds
/// too few for that tell where most of them show it each by itself.
fn overloaded(rounds: &[Growth], mean: &Trimmed, offered_per_s: f64, beyond_chance: bool) -> bool {
    let together = mean.lower(LEVEL).is_some_and(|low| low > 0.0) && mean.mean > TOLERANCE * offered_per_s;
    together && beyond_chance || 2 * rounds.iter().filter(|growth| growth.overloaded).count() > rounds.len()
}

type Estimator = fn(&[&SparseHistogram], &Pooled, f64) -> Option<Estimated>;

fn quantiles<'a>(
    rounds: &[(&'a RoundRecord, &OpenRound)],
    of: impl Fn(&'a RoundRecord) -> &'a SparseHistogram,
    estimate: Estimator,
) -> Vec<Quantile> {
    let all: Vec<&SparseHistogram> = rounds.iter().map(|(round, _)| of(round)).collect();
    let pooled = Pooled::new(&all);
    QUANTILES.iter().filter_map(|p| estimate(&all, &pooled, *p)).map(|estimated| estimated.quantile).collect()
}

/// Little's law over rounds: L = lambda W for the messages between their actual send and their reply. W is then the mean
/// *service* time (the time since the intended send would need the messages that were due and not sent in L as well), and
/// lambda the rate of the actual sends. L is a mean over time, and what was counted is a mean over sends: by PASTA they
/// are the same where the sends are Poisson, so nothing is said of equal gaps. A schedule counts its own messages and has
/// 1/schedules of the rate, so its count is multiplied by them. With a lost message W is unknown.
fn little(rounds: &[(&RoundRecord, &OpenRound)], schedules: u64) -> Option<Estimate> {
    let sent = |round: &RoundRecord| round.near().delivery.sent as f64;
    let pairs: Option<Vec<(f64, f64)>> = rounds
        .iter()
        .filter(|(round, open)| round.near().delivery.sent > 1 && open.sent_ns > 0)
        .map(|(round, open)| {
            let per_ns = (sent(round) - 1.0) / open.sent_ns as f64;
            let expected = sent(round) * per_ns * round.service.mean()?;
            (round.near().delivery.lost == 0).then_some(((open.in_flight_sum * schedules) as f64, expected))
        })
        .collect();
    let pairs = pairs?;
    let expected: f64 = pairs.iter().map(|(_, expected)| expected).sum();
    let all: f64 = rounds.iter().map(|(round, _)| sent(round)).sum();
    let edges = EDGES * pairs.len() as f64 * expected / all;
    (expected >= FEWEST_SEEN * schedules as f64 && edges <= all).then(|| ratio(&pairs))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing_queue::{Queue, late, run};
    use msgpath_record::Run;

    fn of(run: &Run) -> OpenLoop {
        open_loop(&run.header.plan.cases[0], &run.rounds.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_rate_that_is_kept_in_numbers() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 1)]);
        late(&mut run, 20_000, 10);
        for round in &mut run.rounds {
            let elapsed_ns = round.near().elapsed_ns;
            (round.near_mut().user_ns, round.near_mut().system_ns) = (elapsed_ns / 4, elapsed_ns / 2);
            let open = round.open.as_mut().unwrap();
            (open.blocked_ns, open.own_ns) = (open.lateness_ns / 4, open.lateness_ns * 3 / 4);
            open.spun_ns = elapsed_ns / 4;
        }
        let open = of(&run);
        assert!(open.sustained && open.why.is_none() && open.asked_per_s == 5e5);
        assert!(
            (open.offered_per_s / 5e5 - 1.0).abs() < 0.02
                && (open.achieved_per_s.value / open.offered_per_s - 1.0).abs() < 0.01
        );
        assert_eq!(
            (open.late_share, open.blocked_share, open.not_running_share, open.own_share),
            (0.02, 0.25, 0.0, 0.75)
        );
        assert_eq!((open.lateness[0].ns, open.lateness[2].ns), (Some(0), Some(20_000)));
        // rho / (1 - rho) in flight; half of the time of one of two threads.
        assert!((open.mean_in_flight - 1.0).abs() < 0.1 && open.most_in_flight >= 5, "{}", open.mean_in_flight);
        assert!((open.client_busy.unwrap() - 0.25).abs() < 1e-3);
        let law = open.little.unwrap();
        assert!(law.low.unwrap() <= 1.0 && 1.0 <= law.high.unwrap() && law.high.unwrap() < 1.1, "{law:?}");
    }

    #[test]
    fn a_last_reply_that_is_late_by_chance_is_no_backlog() {
        let calm = Queue { arrivals: Arrivals::Constant, rate: 1e3, ..Queue::mm1(0.5, 26, 3, 1) };
        let mut run = run(&[calm]);
        for round in &mut run.rounds {
            round.open.as_mut().unwrap().backlog.clear();
            // The last of 26 messages of each round takes 90 us more than the others.
            round.near_mut().elapsed_ns += 90_000;
        }
        let open = of(&run);
        let growth = open.backlog_per_s.as_ref().unwrap();
        assert!(growth.low.unwrap() > 0.0 && growth.value > TOLERANCE * open.offered_per_s, "{growth:?}");
        assert!(open.sustained, "a sixth of a message a round: {:?}", open.why);
    }

    #[test]
    fn a_rate_that_some_rounds_miss_by_far_is_not_sustained() {
        let mut run = run(&[Queue::mm1(0.8, 500, 100, 1)]);
        assert!(of(&run).sustained);
        for round in run.rounds.iter_mut().filter(|round| round.pass % 6 == 0) {
            let samples = &mut round.open.as_mut().unwrap().backlog;
            let all = samples.len();
            samples.iter_mut().zip(1..).for_each(|(sample, at)| sample.1 += (180 * at / all) as u64);
        }
        let open = of(&run);
        let (achieved, offered) = (&open.achieved_per_s, open.offered_per_s);
        assert!(achieved.high.unwrap() < offered && achieved.value < 0.96 * offered, "{achieved:?} {offered}");
        assert!(open.why.unwrap().ends_with(" % of what was due was not answered in its time"));
    }

    #[test]
    fn what_was_not_sustained_is_bounded_from_below_alone() {
        let summary = summarise(&run(&[Queue::mm1(1.25, 500, 100, 1)]));
        let case = &summary.cases[0];
        let open = case.open.as_ref().unwrap();
        let why = open.why.as_ref().unwrap();
        assert!(why.starts_with("not sustained (") && why.contains(" msg/s): the backlog grows by 2"), "{why}");
        for quantile in case.latency.quantiles.iter().chain(&open.service) {
            assert!(quantile.ns.is_some() && !quantile.is_interval() && quantile.hi_ns.is_none());
            assert_eq!(quantile.why.as_ref(), Some(why));
        }
    }

    #[test]
    fn the_last_reply_tells_where_the_backlog_was_not_sampled() {
        for (utilisation, sustained) in [(0.2, true), (0.8, true), (1.15, false), (1.5, false)] {
            let mut run = run(&[Queue::mm1(utilisation, 1_000, 100, 6)]);
            run.rounds.iter_mut().filter_map(|round| round.open.as_mut()).for_each(|open| open.backlog.clear());
            let open = of(&run);
            assert_eq!(open.sustained, sustained, "{utilisation}: {open:?}");
            if !sustained {
                let growth = open.backlog_per_s.unwrap().value / (1e6 * (utilisation - 1.0));
                assert!((growth - 1.0).abs() < 0.25, "{utilisation}: {growth}");
            }
        }
    }

    #[test]
    fn a_stalled_round_is_no_overload_and_lost_messages_are_not_answered() {
        let stalled = Queue { rounds: 5, stall: Some((2, 100_000, 300_000)), ..Queue::mm1(0.5, 500, 100, 1) };
        assert!(of(&run(&[stalled])).sustained);
        let mut run = run(&[Queue::mm1(0.2, 500, 100, 1)]);
        (run.rounds[3].near_mut().delivery.lost, run.rounds[3].near_mut().delivery.received) = (400, 100);
        assert!(of(&run).sustained, "one round's loss is not the rate's");
        for round in &mut run.rounds {
            (round.near_mut().delivery.lost, round.near_mut().delivery.received) = (10, 490);
            // A lost message stays in the backlog.
            let samples = &mut round.open.as_mut().unwrap().backlog;
            samples.iter_mut().zip(1..).for_each(|(sample, at)| sample.1 += 10 * at / 64);
        }
        let open = of(&run);
        assert!(open.why.unwrap().ends_with(" msg/s): 2.0 % of the messages were lost"));
        assert!((open.achieved_per_s.value / open.offered_per_s - 0.98).abs() < 0.002 && open.little.is_none());
    }

    #[test]
    fn equal_gaps_and_closed_loops_have_no_law_of_little_here() {
        let constant = Queue { arrivals: Arrivals::Constant, ..Queue::mm1(0.5, 500, 100, 1) };
        let open = of(&run(&[constant]));
        assert!(open.sustained && open.little.is_none());
        let mut run = run(&[constant]);
        run.header.plan.cases[0].load = Load::Closed;
        assert!(summarise(&run).cases[0].open.is_none());
    }

    #[test]
    fn connections_count_their_own_messages() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 1)]);
        let one = of(&run);
        (run.header.plan.cases[0].threads, run.header.plan.cases[0].connections) = (2, 2);
        for open in run.rounds.iter_mut().filter_map(|round| round.open.as_mut()) {
            open.in_flight_sum /= 2;
        }
        let two = of(&run);
        assert!((two.mean_in_flight / one.mean_in_flight - 1.0).abs() < 0.05);
        assert!((two.little.unwrap().value / one.little.unwrap().value - 1.0).abs() < 0.05);
    }
}
