//! The pilot of a case: whether it can be measured here, how fast it is, and what the kernel granted. It warms up as
//! well, and is part of no result.

use std::sync::atomic::Ordering;

use msgpath_core::Case;
use msgpath_core::plan::{Dispatch, Extent, Load, Plan, Stamps, Workload};
use msgpath_core::schema::Granted;
use msgpath_sys::clock;

use crate::near::{Round, RoundError};
use crate::open;
use crate::orders::{Orders, is_lossy};
use crate::place::Link;

/// A pilot aims at this long, ns.
const PILOT_NS: f64 = 10e6;
/// A pilot gives up after this long, ns, and goes by what it has seen.
const PILOT_PATIENCE_NS: u64 = 200_000_000;
/// Messages of a stream that are not measured take at most this long, ns; so do those of an echo.
const TRIM_NS: f64 = 20e6;
/// Of a round of an open loop at least this part is trimmed: its queue begins empty.
const OPEN_TRIM: u64 = 10;
/// A round has at least so many messages on a connection, whatever its time.
const LEAST: u64 = 5;
/// A round has at most so many.
const MOST: u64 = 1 << 32;
/// A value below this many clock readings is measured in batches (method: 3.14).
const BATCH_BELOW: f64 = 20.0;
/// Rounds of a trial are at most this long, ns: it is there to explain, not to be measured.
const TRIAL_NS: f64 = 10e6;
/// Rounds of a traced twin: the slow messages are to be explained too, so there must be some.
const TRACED_NS: f64 = 30e6;
/// Messages of a case that are traced, all rounds together, at most.
const MOST_TRACED: u64 = 200_000;

/// What the pilot found out about a case.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time per message of all connections together, ns.
    pub message_ns: f64,
    /// Messages at the start of each connection that are not measured.
    pub trim: u64,
    /// Messages per stamp pair.
    pub batch: u64,
    /// Options as asked and granted.
    pub granted: Vec<Granted>,
    /// Median of the last pilot round, ns (echo).
    pub median_ns: Option<u64>,
}

impl Pace {
    /// Measured messages on each connection in a round: the same in every one.
    pub fn messages(&self, plan: &Plan, case: &Case, pass: u32) -> u64 {
        let connections = u64::from(case.connections);
        let messages = match plan.extent {
            Extent::Time(ns) => {
                let mut round_ns = ns as f64 / f64::from(plan.rounds);
                if case.trial.is_some() {
                    round_ns = round_ns.min(if Plan::traced(case).is_some() { TRACED_NS } else { TRIAL_NS });
                }
                ((round_ns / self.message_ns) as u64 / connections).clamp(LEAST, MOST)
            }
            Extent::Count(count) => {
                let rounds = u64::from(plan.rounds);
                let pass = u64::from(pass) % rounds;
                (count / rounds + u64::from(pass < count % rounds)).div_ceil(connections).max(1)
            }
        };
        let messages = match Plan::traced(case) {
            Some(_) => messages.min((MOST_TRACED / u64::from(plan.rounds) / connections).max(LEAST)),
            None => messages,
        };
        match case.load {
            Load::Closed => messages.next_multiple_of(self.batch),
            Load::Open { .. } => messages.min(open::MAX_MESSAGES / 2),
        }
    }

    /// Messages before them that are not measured.
    pub fn trim(&self, case: &Case, messages: u64) -> u64 {
        match case.load {
            Load::Closed => self.trim,
            Load::Open { .. } => self.trim.max(messages / OPEN_TRIM),
        }
    }
}

/// Pilots and warms up one case.
///
/// # Errors
/// The case cannot be measured here, or the run ends.
pub fn pilot(link: &mut Link, orders: &Orders<'_>, case: &Case, clock_ns: f64) -> Result<Pace, RoundError> {
    let plan = orders.plan;
    let connections = u64::from(case.connections);
    // How fast the path is shows in a closed loop, also where its load will be open.
    let closed = Case {
        load: Load::Closed,
        inflight: if case.load == Load::Closed { case.inflight } else { 1 },
        ..case.clone()
    };
    let mut measure = |messages: u64, trim: u64| -> Result<Round, RoundError> {
        let mut order = orders.round(&closed, messages, trim);
        (order.stamps, order.traced, order.events) = (Stamps::Near, false, false);
        if plan.workload == Workload::Echo {
            order.patience_ns = PILOT_PATIENCE_NS;
        }
        orders.measure(link, &order, &orders.own(&closed, 1, 0, 0), None)
    };
    let pace_of = |round: &Round| (elapsed(plan, round) as f64 / (messages_of(plan, round).max(1) as f64)).max(1.0);
    // A count that is shorter than a pilot needs no pace.
    let most = match plan.extent {
        Extent::Count(count) if count <= 1_000 => count.min(8),
        _ => 1 << 20,
    };
    let mut messages = most.min(8);
    let mut last = measure(messages, 0)?;
    while (elapsed(plan, &last) as f64) < PILOT_NS && messages < most {
        messages = (4 * messages).min(most);
        last = measure(messages, plan.trim.min(messages / 4))?;
    }
    let mut message_ns = pace_of(&last);
    let begin = clock::now();
    while clock::now() - begin < plan.warmup_ns && !orders.stop.load(Ordering::Relaxed) {
        let left = (plan.warmup_ns - (clock::now() - begin)).min(100_000_000) as f64;
        let messages = ((left / message_ns) as u64 / connections).clamp(1, MOST);
        last = measure(messages, 0)?;
        message_ns = pace_of(&last);
    }
    if let Some(rate) = case.load.rate() {
        message_ns = rate.gap_ns();
    }
    // A lossy stream knows no border between trimmed and measured messages.
    let borderless = plan.workload == Workload::Stream && is_lossy(case);
    let trim = match plan.trim {
        0 => 0,
        _ if borderless => 0,
        most => most.min(((TRIM_NS / message_ns) as u64 / connections).max(1)),
    };
    let batch = batch(plan, case, &last, clock_ns);
    let median_ns = last.latency.quantile(0.5).flatten();
    // Trimmed messages go in whole batches as well, so that numbering goes on where they end.
    Ok(Pace { message_ns, trim: trim.next_multiple_of(batch), batch, granted: last.granted, median_ns })
}

/// Messages per stamp pair: 1, unless a message takes less than 20 clock readings.
fn batch(plan: &Plan, case: &Case, pilot: &Round, clock_ns: f64) -> u64 {
    let median = pilot.latency.quantile(0.5).flatten().unwrap_or(0) as f64;
    let one_by_one = case.inflight > 1
        || case.dispatch != Dispatch::Turns
        || case.load != Load::Closed
        || case.connections > case.threads
        || is_lossy(case)
        || plan.stamps == Stamps::Both
        || Plan::traced(case).is_some()
        || plan.workload == Workload::Stream
        || matches!(plan.extent, Extent::Count(count) if count / u64::from(plan.rounds) < 1_000);
    if one_by_one || median == 0.0 || median >= BATCH_BELOW * clock_ns {
        return 1;
    }
    // The stamps themselves take one reading of the value.
    (BATCH_BELOW * clock_ns / (median - clock_ns).max(clock_ns / 2.0)).ceil() as u64
}

/// Time of a round's messages on the clock that decides.
fn elapsed(plan: &Plan, round: &Round) -> u64 {
    match plan.workload {
        Workload::Echo | Workload::Rpc | Workload::Periodic => round.near.elapsed_ns,
        Workload::Stream => round.near.elapsed_ns.max(round.far.elapsed_ns),
    }
}

fn messages_of(plan: &Plan, round: &Round) -> u64 {
    match (plan.workload, plan.reverse) {
        (Workload::Echo | Workload::Rpc | Workload::Periodic, _) | (Workload::Stream, false) => {
            round.near.delivery.sent
        }
        (Workload::Stream, true) => round.far.delivery.sent,
    }
}
