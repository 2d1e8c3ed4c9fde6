//! The pilot of a case: whether it can be measured here, how fast it is, and what the kernel granted. It warms up as
//! well, and is part of no result.

use std::sync::atomic::Ordering;

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Dispatch, Extent, Load, OfCapacity, Plan, Stamps};
use msgpath_core::resume::Pilot;
use msgpath_core::schema::Granted;
use msgpath_core::settling::{COUNTED_NS, LEAST_OF_TIME, Settling, State};
use msgpath_sys::clock;

use crate::clients;
use crate::link::Pair;
use crate::orders::Orders;
use crate::round::{Round, RoundError};
use crate::settling;
use msgpath_agent::open;

/// A pilot aims at this long, ns.
const PILOT_NS: f64 = 10e6;
/// A pilot gives up after this long, ns, and goes by what it has seen.
const PILOT_PATIENCE_NS: u64 = 200_000_000;
/// It never has more patience than this, however long it was meant to take, ns.
const MOST_PATIENCE_NS: u64 = 5_000_000_000;
/// The warm-up goes in about so many slices.
const SLICES: u64 = 9;
/// A slice of the warm-up is at most this long, ns.
const SLICE_NS: u64 = 100_000_000;
/// It has at least so many where rounds are to hold a time.
const FEWEST_SLICES: usize = 3;
/// Slices as long as a round that are slower by this factor, ...
const SLOWER: f64 = 3.0;
/// ... so many in a row, set the pace.
const SLOW_LOOKS: u32 = 3;
/// One that is quicker by this factor sets the pace, ...
const FASTER: f64 = 1.5;
/// ... and is confirmed by another, so many times.
const CONFIRMATIONS: u32 = 5;
/// Messages of a stream that are not measured take at most this long, ns; so do those of an echo.
const TRIM_NS: f64 = 20e6;
/// Of a round of an open loop at least this part is trimmed: its queue begins empty.
const OPEN_TRIM: u64 = 10;
/// A round has at least so many messages on a connection, whatever its time.
const LEAST: u64 = 5;
/// A round has at most so many.
const MOST: u64 = 1 << 32;
/// A value below this many clock readings is measured in batches (docs/method/clocks.md#batches).
const BATCH_BELOW: f64 = 20.0;
/// Messages of a case that are traced, all rounds together, at most.
const MOST_TRACED: u64 = 200_000;

/// The time per message of each slice of a warm-up, ns. Other work makes slices slower and none quicker, so the pace is that of the
/// quicker quarter; the quickest alone may be a fluke.
#[derive(Debug, Default)]
struct Slices(Vec<f64>);

impl Slices {
    fn pace(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 4).copied().unwrap_or(1.0)
    }
}

/// Messages on each connection that take so long together, where all connections take `message_ns` for one.
fn each_in(ns: f64, message_ns: f64, case: &Case) -> u64 {
    (ns / message_ns) as u64 / u64::from(case.connections)
}

/// The pace by slices as long as a round. A path is never quicker than it is: where a slice is, the pace before was that of a
/// disturbed pilot, and its rounds would be too short. One that is much slower may be disturbed itself; three in a row are the pace.
///
/// # Errors
/// Those of `measure`, which runs such a slice at a pace and says what it was.
fn confirmed<E>(mut pace: f64, mut measure: impl FnMut(f64) -> Result<f64, E>) -> Result<f64, E> {
    for _ in 0..CONFIRMATIONS {
        let seen = measure(pace)?;
        if FASTER * seen < pace {
            pace = seen;
            continue;
        }
        if seen <= SLOWER * pace {
            break;
        }
        let mut quickest = seen;
        for _ in 1..SLOW_LOOKS {
            quickest = quickest.min(measure(pace)?);
            if quickest <= SLOWER * pace {
                return Ok(pace.min(quickest));
            }
        }
        return Ok(quickest);
    }
    Ok(pace)
}

/// Position of the case whose count a case takes, among those that were piloted: that of its baseline for a control, and of the
/// case that it explains for an ablation. Two counts would make two medians of one distribution: an A/A of 65 messages against 9
/// is none.
pub fn model(piloted: &[Case], case: &Case) -> Option<usize> {
    let bare = |case: &Case| Case {
        id: 0,
        role: CaseRole::Measured,
        // The rate of a share is found once, by the first case that has it.
        load: if case.of_capacity.is_some() { Load::Closed } else { case.load },
        of_capacity: case.of_capacity.as_ref().map(|of| OfCapacity { attempts: Vec::new(), ..of.clone() }),
        ..case.clone()
    };
    match (&case.ablation, case.role) {
        (Some(ablation), _) => piloted.iter().position(|other| other.id == ablation.of),
        (None, CaseRole::Control) => {
            piloted.iter().position(|other| other.role == CaseRole::Measured && bare(other) == bare(case))
        }
        (None, _) => None,
    }
}

/// Whether a case does the very work of its model, so that it needs no pilot: a control, and a replica that is watched.
pub fn is_a_replica(case: &Case) -> bool {
    case.role == CaseRole::Control || Plan::traced(case).is_some() || Plan::counted(case)
}

/// What the pilot found out about a case.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time per message of all connections together, ns.
    pub message_ns: f64,
    /// Messages at the start of each connection that are never measured.
    pub trim: u64,
    /// How long the load runs until it is steady; `None`: not looked for.
    pub settling: Option<Settling>,
    /// Messages per stamp pair.
    pub batch: u64,
    /// Options as asked and granted.
    pub granted: Vec<Granted>,
    /// Median of the last pilot round, ns (echo).
    pub median_ns: Option<u64>,
    /// Around the messages of a round, ns: orders, connections, threads, counters. Of a run that goes on it is not known, and 0.
    pub around_ns: u64,
}

impl Pace {
    /// Measured messages on each connection in a round: the same in every one.
    pub fn messages(&self, plan: &Plan, case: &Case, pass: u32) -> u64 {
        let connections = u64::from(case.connections);
        let messages = match plan.extent {
            Extent::Time(_) => {
                let spans = plan.spans(case, self.settling);
                self.in_time(spans.map_or(0.0, |spans| spans.measured as f64), case)
            }
            Extent::Count(count) => {
                let rounds = u64::from(plan.rounds);
                let pass = u64::from(pass) % rounds;
                let each = (count / rounds + u64::from(pass < count % rounds)).div_ceil(connections).max(1);
                // Counts need few messages, however many were asked for.
                if Plan::counted(case) { each.min(self.in_time(COUNTED_NS as f64, case)) } else { each }
            }
        };
        let messages = match Plan::traced(case) {
            Some(_) => messages.min((MOST_TRACED / u64::from(plan.rounds) / connections).max(LEAST)),
            None => messages,
        };
        match case.load {
            Load::Closed => messages.next_multiple_of(self.batch),
            Load::Open { .. } => messages.min(open::MAX_MESSAGES / 2 / u64::from(case.connections_a_schedule())).max(1),
        }
    }

    /// Messages on each connection that take so long. An event loop has so many connections that one on each is many.
    fn in_time(&self, ns: f64, case: &Case) -> u64 {
        let least = if case.dispatch == Dispatch::EventLoop { 1 } else { LEAST };
        each_in(ns, self.message_ns, case).clamp(least, MOST)
    }

    /// What a pilot has recorded; `None`: it is not that of this case, or its rounds would not be those that it planned.
    pub fn from_record(plan: &Plan, case: &Case, pilot: &Pilot) -> Option<Self> {
        let fits = pilot.case == case.id
            && pilot.message_ns.is_finite()
            && pilot.message_ns > 0.0
            && (1..=u64::from(u32::MAX)).contains(&pilot.batch)
            && pilot.trim <= MOST;
        let pace = Self {
            message_ns: pilot.message_ns,
            trim: pilot.trim,
            settling: pilot.settling,
            batch: pilot.batch,
            granted: pilot.granted.clone(),
            median_ns: pilot.median_ns,
            around_ns: 0,
        };
        (fits && pace.messages(plan, case, 0) == pilot.messages).then_some(pace)
    }

    /// As the record has it; `model` is the case whose count it takes.
    pub fn recorded(&self, plan: &Plan, case: &Case, model: Option<usize>) -> Pilot {
        Pilot {
            case: case.id,
            like: model.map(|at| at as u32),
            message_ns: self.message_ns,
            messages: self.messages(plan, case, 0),
            trim: self.trim,
            settling: self.settling,
            batch: self.batch,
            median_ns: self.median_ns,
            granted: self.granted.clone(),
        }
    }

    /// The pace of a case whose rounds are to hold as many messages as those of its model.
    pub fn like(self, model: &Pace) -> Self {
        let trim = model.trim.next_multiple_of(self.batch);
        Self { message_ns: model.message_ns, settling: model.settling, trim, ..self }
    }

    /// The pace of a case that does the very work of its model.
    pub fn replica(&self, case: &Case) -> Self {
        // What is traced is traced message by message.
        let batch = if Plan::traced(case).is_some() { 1 } else { self.batch };
        Self { batch, ..self.clone() }
    }

    /// How long a round of the case is expected to take, ns.
    pub fn round_ns(&self, plan: &Plan, case: &Case) -> u64 {
        if let Some(timed) = clients::timed(plan, case, self) {
            return timed.ns + self.around_ns;
        }
        let messages = self.messages(plan, case, 0);
        let each = messages + self.trim(plan, case, messages);
        (each as f64 * f64::from(case.connections) * self.message_ns) as u64 + self.around_ns
    }

    /// Messages before them that are not measured.
    pub fn trim(&self, plan: &Plan, case: &Case, messages: u64) -> u64 {
        let thrown_ns = plan.spans(case, self.settling).map_or(0, |spans| spans.thrown);
        let settling = each_in(thrown_ns as f64, self.message_ns, case);
        let trim = self.trim.max(settling.min(MOST).next_multiple_of(self.batch));
        match case.load {
            Load::Closed => trim,
            Load::Open { .. } => trim.max(messages / OPEN_TRIM),
        }
    }
}

/// How long a case takes to settle, before its pilot.
#[derive(Clone, Copy, Debug)]
pub enum Sought {
    /// As others of its kind do.
    Known(Settling),
    /// The pilot looks, in a run where all cases together are measured for so long, ns; 0: not for what changes late, as it is no
    /// longer the first kind.
    In(u64),
}

/// Pilots and warms up one case.
///
/// # Errors
/// The case cannot be measured here, or the run ends.
pub fn pilot(
    pair: &mut Pair,
    orders: &Orders<'_>,
    case: &Case,
    clock_ns: f64,
    sought: Sought,
) -> Result<Pace, RoundError> {
    let plan = orders.plan;
    // How fast the path is shows in a closed loop, also where its load will be open.
    let closed = Case {
        load: Load::Closed,
        inflight: if case.load == Load::Closed { case.inflight } else { 1 },
        ..case.clone()
    };
    let begin = clock::now();
    let (mut tries, mut last) = Tries::begin(pair, orders, &closed)?;
    // By a schedule CPUs sleep between messages: there is no other state to come.
    let settles = plan.trim > 0 && !tries.is_borderless() && case.load == Load::Closed;
    let settling = match (plan.extent, sought) {
        (Extent::Time(_), Sought::Known(known)) if settles => Some(known),
        (Extent::Time(ns), Sought::In(run_ns)) if settles => settling::find(&mut tries, ns, run_ns)?,
        _ => None,
    };
    // A stream has shown its steady pace by then; a what-if goes at that of its case.
    if case.ablation.is_none()
        && (plan.workload.is_echoed() || settling.is_none() || matches!(sought, Sought::Known(_)))
    {
        last = tries.warm_up(begin, settling, last)?;
    }
    if case.ablation.is_none() && case.load.rate().is_none() {
        last = tries.confirm(settling, last)?;
    }
    let message_ns = case.load.rate().map_or(tries.message_ns, |rate| rate.gap_ns());
    let batch = batch(plan, case, &last, clock_ns);
    let trim = match plan.state {
        State::Steady if plan.trim > 0 && !tries.is_borderless() => {
            plan.trim.min(each_in(TRIM_NS, message_ns, case).max(1))
        }
        _ => 0,
    };
    let median_ns = last.latency.quantile(0.5).flatten();
    // Trimmed messages go in whole batches as well, so that numbering goes on where they end.
    let trim = trim.next_multiple_of(batch);
    Ok(Pace { message_ns, trim, settling, batch, granted: last.granted, median_ns, around_ns: tries.around_ns() })
}

/// Rounds of a pilot: none is recorded.
pub(crate) struct Tries<'a, 'b> {
    pair: &'a mut Pair,
    orders: &'a Orders<'b>,
    /// In a closed loop.
    case: &'a Case,
    /// Time per message of all connections together, ns, as far as it is known.
    pub(crate) message_ns: f64,
    /// What was around the messages of each round, ns.
    around: Vec<u64>,
}

impl<'a, 'b> Tries<'a, 'b> {
    /// Ever more messages until they last for a pilot. A count that is shorter needs no pace.
    fn begin(pair: &'a mut Pair, orders: &'a Orders<'b>, case: &'a Case) -> Result<(Self, Round), RoundError> {
        let plan = orders.plan;
        let mut tries = Self { pair, orders, case, message_ns: 1.0, around: Vec::new() };
        let most = match plan.extent {
            Extent::Count(count) if count <= 1_000 => count.min(8),
            _ => 1 << 20,
        };
        let mut messages = most.min(8);
        let mut last = tries.round(messages, 0, 0)?;
        while (elapsed(plan, &last) as f64) < PILOT_NS && messages < most {
            messages = (4 * messages).min(most);
            let trim = if tries.is_borderless() { 0 } else { plan.trim.min(messages / 4) };
            last = tries.round(messages, trim, 0)?;
        }
        tries.message_ns = tries.pace_of(&last);
        Ok((tries, last))
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        self.orders.plan
    }

    /// Messages on each connection that take so long, ns; at least one.
    pub(crate) fn in_time(&self, ns: f64) -> u64 {
        each_in(ns, self.message_ns, self.case).clamp(1, MOST)
    }

    /// Whether trimmed and measured messages cannot be told apart: those of a stream that loses some.
    fn is_borderless(&self) -> bool {
        !self.plan().workload.is_echoed() && self.case.traits.lossy
    }

    /// Whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.orders.stop.load(Ordering::Relaxed)
    }

    /// A round of so many messages on each connection behind `trim` others, with the first `keep` of them one by one.
    pub(crate) fn round(&mut self, messages: u64, trim: u64, keep: usize) -> Result<Round, RoundError> {
        let mut order = self.orders.round(self.case, messages, trim);
        (order.stamps, order.traced, order.events) = (Stamps::Near, false, false);
        if self.plan().workload.is_echoed() {
            let expected = 2.0 * self.message_ns * messages as f64 * f64::from(self.case.connections);
            order.patience_ns = PILOT_PATIENCE_NS.max((expected as u64).min(MOST_PATIENCE_NS));
        }
        let begun = clock::now();
        let round = self.orders.measure(self.pair, &order, &self.orders.own(self.case, 1, keep, 0), None)?;
        let messages_ns = [round.near(), round.far()].map(|end| end.trimmed_ns + end.elapsed_ns);
        self.around.push((clock::now() - begun).saturating_sub(messages_ns[0].max(messages_ns[1])));
        Ok(round)
    }

    /// The median of what was around the messages of a round, ns.
    fn around_ns(&mut self) -> u64 {
        self.around.sort_unstable();
        self.around.get(self.around.len() / 2).copied().unwrap_or(0)
    }

    /// The time per message of the measured part of a round, ns.
    pub(crate) fn pace_of(&self, round: &Round) -> f64 {
        (elapsed(self.plan(), round) as f64 / (messages_of(self.plan(), round).max(1) as f64)).max(1.0)
    }

    /// Goes on until the warm-up of the plan, which began then, is over, in slices that tell the pace: each in the state
    /// that rounds will be in.
    fn warm_up(&mut self, began: u64, settling: Option<Settling>, mut last: Round) -> Result<Round, RoundError> {
        let plan = self.plan();
        let slice_ns = (plan.warmup_ns / SLICES).clamp(PILOT_NS as u64, SLICE_NS);
        let mut slices = Slices::default();
        loop {
            let left = plan.warmup_ns.saturating_sub(clock::now() - began);
            let enough = slices.0.len() >= FEWEST_SLICES || matches!(plan.extent, Extent::Count(_));
            if (left == 0 && enough) || self.is_stopped() {
                return Ok(last);
            }
            let span = if left == 0 { PILOT_NS } else { left.min(slice_ns) as f64 };
            last = self.round(self.in_time(span), self.thrown(settling), 0)?;
            slices.0.push(self.pace_of(&last));
            self.message_ns = slices.pace();
        }
    }

    /// Slices as long as a round, in the state that rounds will be in: a connection may change its ways after more messages than a
    /// slice of the warm-up has, as TCP does when its quick acknowledgements end.
    fn confirm(&mut self, settling: Option<Settling>, mut last: Round) -> Result<Round, RoundError> {
        let Extent::Time(ns) = self.plan().extent else { return Ok(last) };
        let span_ns = (ns / LEAST_OF_TIME / u64::from(self.plan().rounds)).min(PILOT_PATIENCE_NS) as f64;
        self.message_ns = confirmed(self.message_ns, |pace| {
            self.message_ns = pace;
            if !self.is_stopped() {
                last = self.round(self.in_time(span_ns), self.thrown(settling), 0)?;
            }
            Ok::<f64, RoundError>(self.pace_of(&last))
        })?;
        Ok(last)
    }

    /// Messages on each connection before those of a slice.
    fn thrown(&self, settling: Option<Settling>) -> u64 {
        let thrown_ns = settling.map_or(0, Settling::ns).min(SLICE_NS);
        if thrown_ns > 0 { self.in_time(thrown_ns as f64) } else { 0 }
    }
}

/// Messages per stamp pair: 1, unless a message takes less than 20 clock readings.
fn batch(plan: &Plan, case: &Case, pilot: &Round, clock_ns: f64) -> u64 {
    let median = pilot.latency.quantile(0.5).flatten().unwrap_or(0) as f64;
    let one_by_one = case.inflight > 1
        || case.dispatch != Dispatch::Turns
        || case.load != Load::Closed
        || case.connections > case.threads
        || case.traits.lossy
        || plan.stamps == Stamps::Both
        || Plan::traced(case).is_some()
        || !plan.workload.timed
        || matches!(plan.extent, Extent::Count(count) if count / u64::from(plan.rounds) < 1_000);
    if one_by_one || median == 0.0 || median >= BATCH_BELOW * clock_ns {
        return 1;
    }
    // The stamps themselves take one reading of the value.
    (BATCH_BELOW * clock_ns / (median - clock_ns).max(clock_ns / 2.0)).ceil() as u64
}

/// Time of a round's messages on the clock that decides.
fn elapsed(plan: &Plan, round: &Round) -> u64 {
    if plan.workload.timed { round.near().elapsed_ns } else { round.near().elapsed_ns.max(round.far().elapsed_ns) }
}

fn messages_of(plan: &Plan, round: &Round) -> u64 {
    if plan.reverse { round.far().delivery.sent } else { round.near().delivery.sent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Workload;
    use msgpath_core::plan::{Ablation, Change, StageSet};
    use msgpath_core::units::Pieces;

    fn pace(message_ns: f64, trim: u64, batch: u64) -> Pace {
        Pace { message_ns, trim, settling: None, batch, granted: Vec::new(), median_ns: None, around_ns: 0 }
    }

    fn cases() -> (Plan, [Case; 4]) {
        let case = |id| Case { id, ..Case::new("tcp:send".parse().unwrap(), Pieces::whole(64)) };
        let ablation =
            |id, change| Case { role: CaseRole::Ablation, ablation: Some(Ablation { of: 1, change }), ..case(id) };
        let other = Case { id: 0, size: 128, ..case(0) };
        let control = Case { role: CaseRole::Control, ..case(2) };
        let plan = Plan { extent: Extent::Time(4_000_000_000), ..Plan::new(Workload::ECHO, vec![other, case(1)]) };
        let more =
            [ablation(3, Change::Spin), ablation(4, Change::Traced(StageSet::Light)), ablation(5, Change::Counted)];
        let [spin, traced, counted] = more;
        (plan, [control, spin, traced, counted])
    }

    #[test]
    fn one_slow_or_fast_slice_does_not_set_the_pace() {
        let steady = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0];
        for odd in [10_000.0, 3.0] {
            for at in 0..=steady.len() {
                let mut slices = steady.to_vec();
                slices.insert(at, odd);
                let pace = Slices(slices).pace();
                assert!((98.0..=102.0).contains(&pace), "{odd} at {at}: {pace}");
            }
        }
        assert_eq!(Slices(vec![7.0]).pace(), 7.0);
    }

    /// The pace after slices that were seen like this, and how many were run.
    fn after(pace: f64, seen: &[f64]) -> (f64, usize) {
        let mut run = 0;
        let measure = |_| {
            run += 1;
            Ok::<f64, ()>(seen[(run - 1).min(seen.len() - 1)])
        };
        let pace = confirmed(pace, measure).unwrap();
        (pace, run)
    }

    #[test]
    fn what_is_slow_again_in_slices_as_long_as_a_round_sets_the_pace() {
        // Nagle and a delayed acknowledgement, seen only after the quick acknowledgements of a new connection.
        assert_eq!(after(100.0, &[12_000.0, 11_000.0, 12_000.0]), (11_000.0, 3));
        assert_eq!(after(100.0, &[11_000.0, 12_000.0, 104.0]), (100.0, 3), "disturbed twice");
        assert_eq!(after(100.0, &[11_000.0, 105.0]), (100.0, 2), "disturbed once");
        assert_eq!(after(100.0, &[103.0]), (100.0, 1));
    }

    #[test]
    fn a_disturbed_pilot_does_not_make_short_rounds() {
        // 62 ms a round: 40 messages at the pace of the pilot, 984 at that of the path.
        let (path, pilot) = (63_000.0, 1_550_000.0);
        assert_eq!(after(pilot, &[path]), (path, 2));
        // Each slice is less disturbed than the one before.
        assert_eq!(after(pilot, &[800_000.0, 300_000.0, path]), (path, 4));
        // The next one is disturbed again.
        assert_eq!(after(pilot, &[path, pilot, path]), (path, 3));
        // It ends, also where every one is quicker.
        let ever_quicker: Vec<f64> = (0..20).map(|at| pilot / f64::powi(2.0, at + 1)).collect();
        assert_eq!(after(pilot, &ever_quicker).1, 5);
    }

    #[test]
    fn rows_that_are_compared_hold_alike_numbers_beside_other_work() {
        // A path of 63 µs a message on a machine on which every second slice takes 1 to 30 times as long, piloted 100 times.
        let mut random = fastrand::Rng::with_seed(7);
        let (plan, _) = cases();
        let case = &plan.cases[1];
        let counts: Vec<u64> = (0..100)
            .map(|_| {
                let mut slice = || 63_000.0 * if random.bool() { 1.0 } else { 1.0 + 29.0 * random.f64() };
                let begun = Slices((0..9).map(|_| slice()).collect()).pace();
                let message_ns = confirmed(begun, |_| Ok::<f64, ()>(slice())).unwrap();
                pace(message_ns, 0, 1).messages(&plan, case, 0)
            })
            .collect();
        let asked = pace(63_000.0, 0, 1).messages(&plan, case, 0);
        let short = counts.iter().filter(|count| 2 * **count < asked).count();
        assert!(short <= 15, "{short} of 100 rounds hold less than half of what was asked for: {counts:?}");
    }

    #[test]
    fn a_pilot_that_was_recorded_plans_the_same_rounds() {
        let (plan, _) = cases();
        let case = &plan.cases[1];
        let recorded = pace(25_000.25, 80, 3).recorded(&plan, case, None);
        let again = Pace::from_record(&plan, case, &recorded).unwrap();
        assert_eq!(again.recorded(&plan, case, None), recorded);
        for wrong in [
            Pilot { case: 0, ..recorded.clone() },
            Pilot { message_ns: 0.0, ..recorded.clone() },
            Pilot { message_ns: 26_000.0, ..recorded.clone() },
            Pilot { batch: 0, ..recorded.clone() },
            Pilot { messages: recorded.messages + 3, ..recorded.clone() },
            Pilot { trim: u64::MAX, ..recorded.clone() },
        ] {
            assert!(Pace::from_record(&plan, case, &wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_control_and_an_ablation_hold_what_their_baseline_holds() {
        let (plan, more) = cases();
        assert!(more.iter().all(|case| model(&plan.cases, case) == Some(1)));
        assert_eq!(model(&plan.cases, &plan.cases[1]), None, "a measured case is piloted");
        assert_eq!(model(&plan.cases[..1], &more[0]), None, "of another size");
        let (base, [control, spin, traced, counted]) = (pace(25_000.0, 80, 1), &more);
        let messages = base.messages(&plan, &plan.cases[1], 0);
        assert_eq!(messages, 4_000, "100 ms");
        assert_eq!(base.replica(control).messages(&plan, control, 7), messages);
        // Found to be five times as fast, but what is compared is as many messages.
        let own = pace(5_000.0, 400, 1).like(&base);
        assert_eq!((own.messages(&plan, spin, 0), own.trim(&plan, spin, 400)), (1_600, 80), "40 ms of the baseline");
        assert_eq!(base.replica(traced).messages(&plan, traced, 0), 1_200, "30 ms of the baseline");
        assert_eq!(base.replica(counted).messages(&plan, counted, 0), 400);
        assert_eq!(pace(25_000.0, 80, 20).replica(traced).batch, 1);
        let count = Plan { extent: Extent::Count(4_000_000), ..plan.clone() };
        assert_eq!(base.messages(&count, &plan.cases[1], 0), 100_000);
        assert_eq!(base.replica(counted).messages(&count, counted, 0), 400, "counts need few");
    }

    #[test]
    fn a_rate_that_is_a_share_is_that_of_the_replica() {
        let (mut plan, [mut control, ..]) = cases();
        let of = OfCapacity { share_ppm: 500_000, attempts: Vec::new() };
        let rate = msgpath_core::schedule::Rate::per_second(5_000.0).unwrap();
        let arrivals = msgpath_core::schedule::Arrivals::Poisson;
        control.of_capacity = Some(of.clone());
        assert_eq!(model(&plan.cases, &control), None);
        plan.cases[1].of_capacity = Some(OfCapacity { attempts: vec![rate], ..of });
        plan.cases[1].load = Load::Open { rate, arrivals };
        assert_eq!(model(&plan.cases, &control), Some(1));
    }
}
