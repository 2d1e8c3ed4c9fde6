//! An open loop: whether the rate was sustained, who was late, and whether the counts agree (docs/method/open-loop.md).

use std::borrow::Cow;

use msgpath_core::SparseHistogram;
use msgpath_core::plan::{Case, Load, Plan};
use msgpath_core::schedule::Arrivals;
use msgpath_core::schema::{OpenRound, RoundRecord};
use msgpath_core::units::{per_second, range};
use msgpath_record::Run;
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::level::Level;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Estimated, Quantile, Range};
use msgpath_stats::robust::ratio;

use crate::summary::{CaseSummary, Latency, OpenLoop, QUANTILES, Repeats, Spread};

/// A rate of which more than this share is not answered may not be sustained.
const TOLERANCE: f64 = 0.005;
/// Pieces of the line of a case whose growth makes the interval; a round is one, or more where rounds are few.
const PIECES: usize = 20;
/// Threads at the near end for each schedule: one sends, one receives; an event loop is one that does both.
fn near_threads(case: &Case) -> u64 {
    if case.dispatch.is_turns() { 2 } else { 1 }
}
/// Little's law is not looked at where fewer messages than this should have been seen in flight.
const FEWEST_SEEN: f64 = 30.0;
/// Nor where a round has fewer messages than this times those in flight: what is in flight at its ends, about as many in
/// so many, then counts.
const EDGES: f64 = 50.0;
/// Nor where the sends were late by more than this share of the round trips: they are then no Poisson process.
const PUNCTUAL: f64 = 0.05;

type OpenRounds<'a> = [(&'a RoundRecord, &'a OpenRound)];

/// What the open loop of a case shows; `None` for a closed one and without a round.
pub fn open_loop(case: &Case, rounds: &[&RoundRecord]) -> Option<OpenLoop> {
    let Load::Open { rate, arrivals } = case.load else { return None };
    let rounds = open_rounds(rounds);
    let line = Line::of(case, &rounds)?;
    let (sustained, why) = line.verdict();
    let sum = |of: &dyn Fn(&RoundRecord, &OpenRound) -> u64| {
        rounds.iter().map(|(round, open)| of(round, open)).sum::<u64>() as f64
    };
    let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    let schedules = u64::from(case.schedules().max(1));
    let lateness = sum(&|_, open| open.lateness_ns);
    let busy = sum(&|round, open| (round.near().user_ns + round.near().system_ns).saturating_sub(open.spun_ns));
    let time = sum(&|round, _| round.near().elapsed_ns * schedules * near_threads(case));
    let mut out = OpenLoop {
        asked_per_s: rate.value(),
        offered_per_s: line.offered_per_s,
        achieved_per_s: line.achieved(),
        sustained,
        why,
        backlog_per_s: Some(line.growth.clone()),
        service: quantiles(&rounds, |round| &round.service, quantile::estimate_queued),
        lateness: quantiles(&rounds, |round| &round.lateness, quantile::estimate),
        late_share: share(sum(&|_, open| open.late), sum(&|_, open| open.offered)),
        blocked_share: share(sum(&|_, open| open.blocked_ns), lateness),
        not_running_share: share(sum(&|_, open| open.not_running_ns), lateness),
        own_share: share(sum(&|_, open| open.own_ns), lateness),
        mean_in_flight: line.mean_in_flight,
        most_in_flight: rounds.iter().map(|(_, open)| open.in_flight_most).max().unwrap_or(0),
        little: (arrivals == Arrivals::Poisson).then(|| little(case, &rounds, schedules)).flatten(),
        client_busy: (time > 0.0 && busy > 0.0).then(|| busy / time),
    };
    if let Some(why) = out.overloaded().map(str::to_owned) {
        (out.service, out.lateness, out.little) = (withheld(&why), withheld(&why), None);
    }
    Some(out)
}

/// The rounds of an open loop, with its account.
fn open_rounds<'a>(rounds: &[&'a RoundRecord]) -> Vec<(&'a RoundRecord, &'a OpenRound)> {
    let rounds = rounds.iter().filter_map(|round| Some((*round, round.open.as_ref()?)));
    rounds.filter(|(_, open)| open.span_ns > 0).collect()
}

/// Why the rate of these rounds of a case was not sustained, where it was not.
pub(crate) fn overloaded(plan: &Plan, rounds: &[&RoundRecord]) -> Option<String> {
    let rounds = open_rounds(rounds);
    let case = plan.cases.get(rounds.first()?.0.case as usize)?;
    let (sustained, why) = Line::of(case, &rounds)?.verdict();
    why.filter(|_| sustained == Some(false))
}

/// The logarithm of the messages a second that the rounds of an open loop answered; `None`: there are none.
pub(crate) fn rate_level(plan: &Plan, rounds: &[&RoundRecord]) -> Option<Level> {
    let rounds = open_rounds(rounds);
    let line = Line::of(plan.cases.get(rounds.first()?.0.case as usize)?, &rounds)?;
    let (value, freedom) = (line.achieved().value, line.pieces - 1.0);
    let half = (line.growth.high? - line.growth.low?) / 2.0;
    Some(Level { at: value.ln(), error: half / t_quantile(0.975, freedom) / value, freedom })
}

/// The run without the times of rates that were not sustained, so that nothing is drawn, told or exported of them. What was
/// counted stays.
pub fn without_times(run: &Run) -> Cow<'_, Run> {
    let plan = &run.header.plan;
    let is_overloaded = |case: &&Case| {
        let own: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case.id).collect();
        overloaded(plan, &own).is_some()
    };
    let open = plan.cases.iter().filter(|case| case.load != Load::Closed);
    let cases: Vec<u32> = open.filter(is_overloaded).map(|case| case.id).collect();
    if cases.is_empty() {
        return Cow::Borrowed(run);
    }
    let mut run = run.clone();
    for round in run.rounds.iter_mut().filter(|round| cases.contains(&round.case)) {
        let RoundRecord { latency, service, lateness, one_way, first, .. } = round;
        for times in [latency, service, lateness, one_way, first] {
            *times = SparseHistogram::default();
        }
    }
    Cow::Owned(run)
}

/// The usual quantiles without a number.
fn withheld(why: &str) -> Vec<Quantile> {
    QUANTILES
        .iter()
        .map(|p| Quantile { p: *p, range: Range::Withheld, why: Some(why.into()), ..Quantile::default() })
        .collect()
}

/// Takes the latencies of a case whose rate was not sustained away: they grow as long as the case goes on.
pub(crate) fn withhold(case: &mut CaseSummary) {
    let Some(why) = case.open.as_ref().and_then(OpenLoop::overloaded).map(str::to_owned) else { return };
    case.latency = Latency { quantiles: withheld(&why), ..Latency::default() };
    case.transit.one_way = None;
    case.spread = Spread::default();
    (case.steadiness, case.first, case.repeats) = (None, None, Repeats::default());
}

/// The rounds of a case on one line of time (docs/method/open-loop.md#sustained-rates).
struct Line {
    offered_per_s: f64,
    /// Growth of the backlog, messages a second.
    growth: Estimate,
    /// Messages that were due and not answered when the line ended.
    left: f64,
    /// Share of the messages that were lost.
    lost: Estimate,
    /// Messages in flight just before a send, on average.
    mean_in_flight: f64,
    /// Pieces whose growth makes the interval.
    pieces: f64,
}

impl Line {
    /// `None` without a round.
    fn of(case: &Case, rounds: &OpenRounds<'_>) -> Option<Self> {
        let sum = |of: &dyn Fn(&RoundRecord, &OpenRound) -> u64| {
            rounds.iter().map(|(round, open)| of(round, open)).sum::<u64>() as f64
        };
        let schedules = f64::from(case.schedules().max(1));
        let offered_per_s = 1e9 * sum(&|_, open| open.offered) / sum(&|_, open| open.span_ns);
        let sent = sum(&|round, _| round.near().delivery.sent);
        if rounds.is_empty() {
            return None;
        }
        let each = PIECES.div_ceil(rounds.len());
        let pieces: Vec<(f64, f64)> = rounds
            .iter()
            .flat_map(|(round, open)| {
                let behind = |ns: u64| offered_per_s * ns as f64 / schedules / 1e9;
                let [begin, end] = open.debt_ns.map(behind);
                let wall = (open.schedule_ns + open.debt_ns[1]).saturating_sub(open.debt_ns[0]);
                let each = if open.backlog.len() >= each { each } else { 1 };
                // What is lost is never answered. It is another reason, so the growth is that of the rest.
                let lost = round.near().delivery.lost as f64 / each as f64;
                let sample = move |at: usize| {
                    let backlog = open.backlog[at * open.backlog.len() / each - 1].1;
                    backlog as f64 - lost * at as f64
                };
                let edge = move |at: usize| match at {
                    0 => begin,
                    at if at == each => end,
                    at => sample(at),
                };
                let seconds = wall as f64 / schedules / 1e9 / each as f64;
                (0..each).map(move |at| (edge(at + 1) - edge(at), seconds))
            })
            .collect();
        let lost: Vec<(f64, f64)> =
            rounds.iter().map(|(round, open)| (round.near().delivery.lost as f64, open.offered as f64)).collect();
        Some(Self {
            offered_per_s,
            growth: ratio(&pieces)?,
            left: pieces.iter().map(|(messages, _)| messages).sum(),
            lost: ratio(&lost)?,
            mean_in_flight: schedules * sum(&|_, open| open.in_flight_sum) / sent.max(1.0),
            pieces: pieces.len() as f64,
        })
    }

    /// Messages a second that were answered: what was due in the same time, less what was left and what was lost. No more
    /// than what was due can be.
    fn achieved(&self) -> Estimate {
        let (due, lost) = (self.offered_per_s, self.lost.value);
        let less = |growth: f64| due * (1.0 - lost) - growth;
        Estimate {
            value: less(self.growth.value).min(due),
            low: self.growth.high.map(less),
            high: self.growth.low.map(|growth| less(growth).min(due)),
        }
    }

    /// Whether the rate was sustained, and why it was not or cannot be told: what the intervals of growth and loss say, and
    /// nothing else.
    fn verdict(&self) -> (Option<bool>, Option<String>) {
        let Self { offered_per_s, growth, left, lost, mean_in_flight, .. } = self;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let rates = format!("{} of {}", per_second(self.achieved().value), per_second(*offered_per_s));
        if growth.low.is_some_and(|low| low > 0.0) {
            let text = format!("not sustained ({rates}): the backlog grows by {}", per_second(growth.value));
            return (Some(false), Some(text));
        }
        if lost.low.is_some_and(|low| low > TOLERANCE) {
            let text = format!("not sustained ({rates}): {} of the messages were lost", percent(lost.value));
            return (Some(false), Some(text));
        }
        // What is in flight by chance at the end of a line is no backlog.
        let behind = growth.value > TOLERANCE * offered_per_s && *left > 1.0 + mean_in_flight;
        let cause = if behind {
            match growth.low.zip(growth.high) {
                Some((low, high)) => {
                    format!("the backlog grows (95 %: {})", range(per_second(low), per_second(high)))
                }
                None => format!("the backlog grew by {} in too few rounds", per_second(growth.value)),
            }
        } else if lost.value > TOLERANCE {
            format!("{} of the messages were lost, in too few rounds", percent(lost.value))
        } else {
            return (Some(true), None);
        };
        (None, Some(format!("whether it was sustained cannot be told ({rates}): {cause}")))
    }
}

/// A count below zero as well.
type Estimator = fn(&[&SparseHistogram], &Pooled, f64) -> Option<Estimated>;

fn quantiles<'a>(
    rounds: &[(&'a RoundRecord, &'a OpenRound)],
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
///
/// A send that is held up finds fewer in flight than one at a time of its own: where no more are allowed, where the far end
/// has made a debt, and wherever sends are late, nothing is said.
fn little(case: &Case, rounds: &OpenRounds<'_>, schedules: u64) -> Option<Estimate> {
    let sent = |round: &RoundRecord| round.near().delivery.sent as f64;
    let full = u64::from(case.inflight) * schedules;
    if rounds.iter().any(|(_, open)| open.in_flight_most + schedules >= full) {
        return None;
    }
    let punctual = |round: &RoundRecord, open: &OpenRound| {
        let in_flight = sent(round) * round.service.mean().unwrap_or(0.0);
        open.lateness_ns as f64 <= PUNCTUAL * in_flight
    };
    let pairs: Option<Vec<(f64, f64)>> = rounds
        .iter()
        .filter(|(round, open)| round.near().delivery.sent > 1 && open.sent_ns > 0 && punctual(round, open))
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
    use msgpath_core::plan::{Distribution, ServiceTime};

    fn of(run: &Run) -> OpenLoop {
        open_loop(&run.header.plan.cases[0], &run.rounds.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_rate_that_is_kept_in_numbers() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 1)]);
        let law = of(&run).little.unwrap();
        assert!(law.low.unwrap() <= 1.0 && 1.0 <= law.high.unwrap() && law.high.unwrap() < 1.1, "{law:?}");
        late(&mut run, 20_000, 10);
        for round in &mut run.rounds {
            let elapsed_ns = round.near().elapsed_ns;
            (round.near_mut().user_ns, round.near_mut().system_ns) = (elapsed_ns / 4, elapsed_ns / 2);
            let open = round.open.as_mut().unwrap();
            (open.blocked_ns, open.own_ns) = (open.lateness_ns / 4, open.lateness_ns * 3 / 4);
            open.spun_ns = elapsed_ns / 4;
        }
        let open = of(&run);
        assert!(open.sustained == Some(true) && open.why.is_none() && open.asked_per_s == 5e5);
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
        assert!(open.little.is_none(), "late sends are no Poisson process");
    }

    /// Leaves `messages(pass)` of them unanswered behind each round, for good.
    fn leave(run: &mut Run, messages: impl Fn(u32) -> u64) {
        let mut debt = 0;
        for round in &mut run.rounds {
            let open = round.open.as_mut().unwrap();
            open.debt_ns = [debt, debt + messages(round.pass) * open.span_ns / open.offered];
            debt = open.debt_ns[1];
        }
    }

    #[test]
    fn verdict_follows_from_the_interval_of_the_growth() {
        let calm = || run(&[Queue::mm1(0.2, 500, 100, 1)]);
        let mut always = calm();
        leave(&mut always, |pass| 8 + u64::from(pass % 5));
        let mut sometimes = calm();
        leave(&mut sometimes, |pass| if pass % 6 == 0 { 180 } else { 0 });
        let mut once = calm();
        leave(&mut once, |pass| if pass == 39 { 400 } else { 0 });
        for (run, expected) in [(calm(), Some(true)), (always, Some(false)), (sometimes, Some(false)), (once, None)] {
            let open = of(&run);
            let growth = open.backlog_per_s.clone().unwrap();
            assert_eq!(open.sustained, expected, "{open:?}");
            assert_eq!(growth.low.unwrap() > 0.0, expected == Some(false), "{growth:?}");
            assert_eq!(open.achieved_per_s.high.unwrap() < open.offered_per_s, expected == Some(false), "{open:?}");
            assert_eq!(open.why.is_some(), expected != Some(true));
        }
    }

    #[test]
    fn rounds_of_a_few_messages_and_a_few_rounds_tell_an_overload() {
        for rounds in [1, 2, 3, 5] {
            for seed in 0..10 {
                let queue = |utilisation, messages| Queue { rounds, ..Queue::mm1(utilisation, messages, 0, seed) };
                let over = of(&run(&[queue(1.5, 2_000)]));
                assert_eq!(over.sustained, Some(false), "{rounds} rounds: {over:?}");
                let calm = of(&run(&[queue(0.3, 2_000)]));
                assert_eq!(calm.sustained, Some(true), "{rounds} rounds: {calm:?}");
                let short = of(&run(&[queue(1.1, 20)]));
                let growth = short.backlog_per_s.unwrap();
                let above = growth.low.is_some_and(|low| low > 0.0);
                assert_eq!(short.sustained == Some(false), above, "{rounds} rounds: {growth:?}");
            }
        }
    }

    #[test]
    fn rates_that_were_not_sustained_have_no_times() {
        let run = run(&[Queue::mm1(1.25, 500, 100, 1), Queue::mm1(0.25, 500, 100, 1)]);
        let summary = summarise(&run);
        let run = without_times(&run);
        assert!(run.rounds.iter().all(|round| (round.latency.total() == 0) == (round.case == 0)));
        assert!(summarise(&run) == summary, "what is not read is not missed");
        let case = &summary.cases[0];
        let open = case.open.as_ref().unwrap();
        let why = open.overloaded().unwrap();
        assert!(why.starts_with("not sustained (") && why.contains(" M/s): the backlog grows by 2"), "{why}");
        for quantile in case.latency.quantiles.iter().chain(&open.service).chain(&open.lateness) {
            assert_eq!((quantile.ns, quantile.lo_ns, quantile.hi_ns), (None, None, None));
            assert_eq!(quantile.why.as_deref(), Some(why));
        }
        let Latency { mean_ns, round_medians, fastest_ns, slowest_ns, .. } = &case.latency;
        assert!(mean_ns.is_none() && round_medians.is_empty() && fastest_ns.is_none() && slowest_ns.is_none());
        assert!(case.steadiness.is_none() && case.spread.shape.is_empty() && case.first.is_none());
    }

    #[test]
    fn stalls_are_no_overload_and_lost_messages_are_not_answered() {
        let stalled = Queue { rounds: 5, stall: Some((2, 100_000, 300_000)), ..Queue::mm1(0.5, 500, 100, 1) };
        assert_eq!(of(&run(&[stalled])).sustained, Some(true));
        let mut run = run(&[Queue::mm1(0.2, 500, 100, 1)]);
        (run.rounds[3].near_mut().delivery.lost, run.rounds[3].near_mut().delivery.received) = (400, 100);
        let once = of(&run);
        assert_eq!(once.sustained, None, "one round's loss is not the rate's");
        assert!(once.why.unwrap().ends_with(": 2.0 % of the messages were lost, in too few rounds"));
        for round in &mut run.rounds {
            (round.near_mut().delivery.lost, round.near_mut().delivery.received) = (10, 490);
        }
        let open = of(&run);
        assert!(open.overloaded().unwrap().ends_with(" k/s): 2.0 % of the messages were lost"), "{:?}", open.why);
        assert!((open.achieved_per_s.value / open.offered_per_s - 0.98).abs() < 0.002 && open.little.is_none());
    }

    #[test]
    fn stall_counts_with_its_wait_however_long_it_is() {
        // 16 s at 100 a second, a service of 10 µs; for 4 s of them the server stands still. What was due then waits 4 s
        // down to nothing: a quarter of the messages, so a tenth waits longer than 2.4 s.
        for (rounds, messages) in [(40, 40), (160, 10), (16, 100), (5, 320)] {
            let service_time = ServiceTime { mean_ns: 10_000, distribution: Distribution::Constant };
            let stall = Some((rounds / 3, 30_000_000, 4_000_000_000));
            let queue = Queue { rate: 100.0, rounds, stall, service_time, ..Queue::mm1(0.1, messages, 0, 7) };
            let run = run(&[Queue { arrivals: Arrivals::Constant, ..queue }]);
            let summary = summarise(&run);
            let case = &summary.cases[0];
            let p90 = case.latency.quantiles[1].ns.unwrap() as f64 / 1e9;
            assert!((p90 - 2.4).abs() < 0.05, "{rounds} rounds: {p90}");
            let open = case.open.as_ref().unwrap();
            assert_eq!(open.sustained, Some(true), "{rounds} rounds: {open:?}");
            assert!((open.achieved_per_s.value / 100.0 - 1.0).abs() < 0.01, "{open:?}");
        }
    }

    #[test]
    fn one_call_in_flight_breaks_no_law() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 1)]);
        run.header.plan.cases[0].inflight = 1;
        for open in run.rounds.iter_mut().filter_map(|round| round.open.as_mut()) {
            (open.in_flight_sum, open.in_flight_most) = (0, 1);
        }
        assert!(of(&run).little.is_none(), "a sender that is held up finds nobody");
    }

    #[test]
    fn equal_gaps_and_closed_loops_have_no_law_of_little_here() {
        let constant = Queue { arrivals: Arrivals::Constant, ..Queue::mm1(0.5, 500, 100, 1) };
        let open = of(&run(&[constant]));
        assert!(open.sustained == Some(true) && open.little.is_none());
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
