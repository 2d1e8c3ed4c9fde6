//! Begins what goes on beside a round ([`msgpath_run::traffic`]), waits until its streams are steady, looks at what it does while the
//! round lasts, and ends it. Once in each pass, before a round that chance chooses, it goes on without any.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_core::parts::Parts;
use msgpath_core::plan::{ChannelOptions, Extent, Placement};
use msgpath_core::schema::{NEAR, RoundRecord, RunHeader};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{Case, Histogram, Plan, Problem, Target};
use msgpath_run::traffic::{self, Sent, Traffic, Wanted};
use msgpath_run::{Link, Progress};
use msgpath_sys::{clock, say};

use super::record::{MixRound, Other, OtherRound, append};
use super::setting::Setting;
use crate::record::QueueLog;
use crate::run::steady::{Budget, LOOK, Look, Waits, is_steady};
use crate::run::watcher::Watcher;
use crate::run::{LEASE, MOST_MESSAGES, PILOT_DRAIN, paced};

/// Streams that are not steady after this long are measured, and said to be not steady.
const MOST_WAIT: Duration = Duration::from_secs(5);
/// Echoes alone go on for this long before the round begins.
const BEGINS: Duration = Duration::from_millis(100);
/// What streams left in queues is waited for as long as something leaves, and this long at most.
const MOST_DRAIN: Duration = Duration::from_secs(5);
/// The part at the begin of a round that is not looked at: the case of the run begins in it.
const SKIPPED: u64 = 4;
/// It is this long at most, ns.
const MOST_SKIPPED: u64 = 500_000_000;
/// One that goes on.
struct Part {
    plan: Plan,
    parts: Parts,
    ends: Option<Box<dyn Traffic>>,
    /// Of a stream: reads its sockets at the near end.
    watcher: Option<Watcher>,
    /// Whether it goes on now.
    goes: bool,
}

impl Part {
    fn is_stream(&self) -> bool {
        !self.plan.workload.timed
    }

    /// Messages on each connection.
    fn messages(&self) -> u64 {
        let case = &self.plan.cases[0];
        case.load.rate().map_or(MOST_MESSAGES, |rate| paced(rate.value(), case.connections))
    }

    /// Bytes that came through its sockets, as the near end knows.
    fn bytes(&self, log: &QueueLog) -> Option<u64> {
        let at = log.samples.last()?;
        if self.plan.reverse { at.socket_received } else { at.socket_acknowledged }
    }
}

/// What is shown of a run, and what goes on beside its rounds.
pub struct Mixing {
    shown: Box<dyn Progress>,
    parts: Vec<Part>,
    target: Target,
    folder: PathBuf,
    options: ChannelOptions,
    /// Rounds of a pass.
    cases: u64,
    /// Cases piloted, and then rounds begun.
    begun: u64,
    /// The rounds have begun.
    measures: bool,
    seed: u64,
    /// How long a round is to be, ns.
    round_ns: u64,
    /// When the round began that something goes on beside, ns; whether its streams were steady.
    window: Option<(u64, bool)>,
    /// Bytes a second that came through of the streams that went on last.
    bytes_per_s: f64,
    /// What waiting for steady streams may take.
    budget: Budget,
    /// Streams went on, and nothing has looked since whether what they left in queues is gone.
    drains: bool,
    stop: &'static AtomicBool,
}

impl Mixing {
    /// Around what is shown.
    pub fn new(shown: Box<dyn Progress>, others: &[Other], target: Target, folder: PathBuf) -> Self {
        let part = |other: &Other| Part {
            plan: other.plan.clone(),
            parts: other.parts.clone(),
            ends: None,
            watcher: None,
            goes: false,
        };
        Self {
            shown,
            parts: others.iter().map(part).collect(),
            target,
            folder,
            options: ChannelOptions::default(),
            cases: 1,
            begun: 0,
            measures: false,
            seed: 0,
            round_ns: 0,
            window: None,
            bytes_per_s: 0.0,
            budget: Budget::default(),
            drains: false,
            stop: msgpath_sys::signal::stop_flag(),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins those that go on in this setting.
    fn begin(&mut self, setting: Setting) -> Result<(), Problem> {
        for (at, part) in self.parts.iter_mut().enumerate().filter(|(at, _)| setting.has(*at)) {
            if part.ends.is_none() {
                let plan = Plan {
                    options: self.options.clone(),
                    placement: Placement::default(),
                    unpinned: true,
                    seed: self.seed.wrapping_add(at as u64),
                    ..part.plan.clone()
                };
                part.ends = Some(traffic::open(Wanted {
                    target: &self.target,
                    plan,
                    parts: part.parts.clone(),
                    messages: part.messages(),
                    lease: LEASE,
                })?);
                if part.is_stream() {
                    part.watcher = Some(Watcher::new(Link::near_here()?, LEASE)?);
                }
            }
            let Some(ends) = &mut part.ends else { continue };
            let begun = ends.begin(self.stop)?;
            part.goes = true;
            if let Some(watcher) = &mut part.watcher {
                let peer = begun.data.map_or_else(String::new, |data| data.far);
                watcher.watch(&peer, begun.cookies[NEAR].clone())?;
            }
        }
        Ok(())
    }

    /// Looks at the streams that go on, all together.
    fn look(&mut self) -> Result<Look, Problem> {
        let mut look = Look { t_ns: clock::now(), ..Look::default() };
        for part in self.parts.iter_mut().filter(|part| part.goes) {
            if let Some(ends) = &mut part.ends {
                ends.look()?;
            }
            let Some(log) = part.watcher.as_mut().map(Watcher::look).transpose()? else { continue };
            look.bytes += part.bytes(&log).unwrap_or(0);
            look.depths[1] += log.samples.last().and_then(|at| at.rtt_ns).unwrap_or(0) as f64;
        }
        Ok(look)
    }

    /// Waits until the streams that go on are steady: whether they are; `None`: interrupted.
    fn settle(&mut self, alive: &mut dyn FnMut()) -> Result<Option<bool>, Problem> {
        let streams = self.parts.iter().any(|part| part.goes && part.is_stream());
        let limits = match streams {
            true => (self.budget.least(), self.budget.next(MOST_WAIT)),
            false => (Duration::ZERO, BEGINS),
        };
        let begun = Instant::now();
        let mut waits = Waits { stop: self.stop, alive };
        let settled = waits.settle(limits, || self.look(), |looks| streams && is_steady(looks))?;
        let Some((steady, rate)) = settled else { return Ok(None) };
        if streams {
            self.budget.took(begun.elapsed());
        }
        self.bytes_per_s = rate;
        Ok(Some(steady || !streams))
    }

    /// Waits until what streams have left in queues is gone; `false`: interrupted.
    fn drain(&mut self, most: Duration, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        let loaded = self.bytes_per_s;
        let mut waits = Waits { stop: self.stop, alive };
        let drained = waits.drain(most, || self.passed(), loaded)?;
        self.drains &= !drained;
        Ok(drained)
    }

    /// What has passed the near device in both directions.
    fn passed(&mut self) -> Result<Look, Problem> {
        let mut look = Look { t_ns: clock::now(), ..Look::default() };
        if let Some(watcher) = self.parts.iter_mut().find_map(|part| part.watcher.as_mut()) {
            let log = watcher.look()?;
            let at = log.samples.last().copied().unwrap_or_default();
            look.bytes = at.received.unwrap_or(0) + at.sent.unwrap_or(0);
        }
        Ok(look)
    }

    /// Begins what goes on in this setting, and looks at it from now on; `false`: interrupted.
    fn open(&mut self, setting: Setting, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        self.begin(setting)?;
        let Some(steady) = self.settle(alive)? else {
            return self.close().map(|_| false);
        };
        self.parts
            .iter_mut()
            .filter(|part| part.goes)
            .filter_map(|part| part.watcher.as_mut())
            .try_for_each(Watcher::begin)?;
        self.window = Some((clock::now(), steady));
        Ok(true)
    }

    /// Ends what goes on: what each did since it was looked at.
    fn close(&mut self) -> Result<Option<MixRound>, Problem> {
        let end = clock::now();
        let window = self.window.take().map(|(from, steady)| (skipped(from, end), steady));
        let mut others = vec![None; self.parts.len()];
        // Streams last: what is still under way waits behind them as before.
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|at| self.parts[*at].is_stream());
        for at in order {
            let part = &mut self.parts[at];
            let goes = std::mem::take(&mut part.goes);
            let Some(ends) = part.ends.as_mut().filter(|_| goes) else { continue };
            let mut round = OtherRound::default();
            if let Some(watcher) = &mut part.watcher {
                self.drains = true;
                if let Some((from, _)) = window {
                    round = streamed(&watcher.end()?, (from, end), part.plan.reverse);
                }
                ends.look()?;
                ends.end()?;
            } else {
                ends.look()?;
                let sent = ends.measured()?;
                if let Some((from, _)) = window {
                    round = echoed(&sent, (from, end));
                }
            }
            others[at] = Some(round);
        }
        Ok(window.map(|(_, steady)| MixRound { steady, others, ..MixRound::default() }))
    }

    /// A round of what goes on beside the others, without them; `false`: interrupted.
    fn without(&mut self, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        if !self.open(Setting::All, alive)? {
            return Ok(false);
        }
        let begun = Instant::now();
        while (begun.elapsed().as_nanos() as u64) < self.round_ns {
            if self.is_stopped() {
                return self.close().map(|_| false);
            }
            alive();
            std::thread::sleep(LOOK.min(Duration::from_nanos(self.round_ns)));
        }
        let round = self.close()?;
        if let Some(round) = round.filter(|_| self.measures) {
            keep(&self.folder, &MixRound { pass: self.pass() as u32, ..round });
        }
        Ok(true)
    }

    /// The pass of the round that is about to begin.
    fn pass(&self) -> u64 {
        self.begun / self.cases
    }

    /// Whether the round of the pass in which the cases of the run are switched off stands before the one that is about to begin. The
    /// first pilot has one as well, so that the time that it takes is known.
    fn is_due(&self) -> bool {
        if !self.measures {
            return self.begun == 0;
        }
        let mut chance = SplitMix64::new(self.seed ^ (self.pass() << 20));
        chance.next_u64() % self.cases == self.begun % self.cases
    }
}

/// Where the part of a round begins that is looked at, ns.
fn skipped(from: u64, end: u64) -> u64 {
    from + (end.saturating_sub(from) / SKIPPED).min(MOST_SKIPPED)
}

/// What messages that are timed did between two times.
fn echoed(sent: &[Sent], (from, end): (u64, u64)) -> OtherRound {
    let inside = || sent.iter().filter(|sent| (from..end).contains(&sent.at_ns));
    let mut times: Vec<u64> = inside().map(|sent| sent.took_ns.unwrap_or(u64::MAX)).collect();
    times.sort_unstable();
    // A lost message is infinitely slow.
    let quantile = |p: f64| {
        let at = (p * times.len() as f64).ceil().max(1.0) as usize - 1;
        times.get(at).copied().filter(|ns| *ns < u64::MAX)
    };
    let mut latency = Histogram::new();
    for one in inside() {
        match one.took_ns {
            Some(ns) => latency.record(ns),
            None => latency.record_lost(1),
        }
    }
    OtherRound {
        window_ns: end.saturating_sub(from),
        latency: latency.to_sparse(),
        messages: times.len() as u64,
        lost: inside().filter(|sent| sent.took_ns.is_none()).count() as u64,
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        bits: None,
    }
}

/// What came through of a stream between two times, by the counters of its sockets at the near end.
fn streamed(log: &QueueLog, (from, end): (u64, u64), reverse: bool) -> OtherRound {
    let bytes = |at: &crate::record::At| if reverse { at.socket_received } else { at.socket_acknowledged };
    let mut inside =
        log.samples.iter().filter(|at| (from..=end).contains(&at.t_ns)).filter_map(|at| Some((at.t_ns, bytes(at)?)));
    let first = inside.next();
    let Some(((t0, before), (t1, after))) = first.zip(inside.next_back()) else { return OtherRound::default() };
    let window_ns = t1.saturating_sub(t0);
    let bits = (window_ns > 0).then(|| 8e9 * after.saturating_sub(before) as f64 / window_ns as f64);
    OtherRound { window_ns, bits, ..OtherRound::default() }
}

/// A full disk is not a reason to stop measuring; the run itself says so.
fn keep(folder: &std::path::Path, round: &MixRound) {
    if let Err(error) = append(folder, round) {
        say!("warning: what went on beside a round is lost: {error}");
    }
}

/// How long a round of a plan is to be, ns.
fn round_ns(plan: &Plan) -> u64 {
    let Extent::Time(ns) = plan.extent else { return 0 };
    plan.rounds_ns.unwrap_or(ns) / u64::from(plan.rounds.max(1))
}

impl Progress for Mixing {
    fn started(&mut self, header: &RunHeader) {
        self.options = header.plan.options.clone();
        (self.seed, self.round_ns) = (header.plan.seed, round_ns(&header.plan));
        self.shown.started(header);
    }

    fn planned(&mut self, plan: &Plan) {
        (self.cases, self.round_ns) = (plan.cases.len().max(1) as u64, round_ns(plan));
        (self.begun, self.measures) = (0, true);
        self.budget.plan(plan.rounds);
        self.shown.planned(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.shown.warming(case, done, of);
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.shown.round(round, done, of);
    }

    fn pause(&mut self, round: &RoundRecord, done: u64, of: u64, alive: &mut dyn FnMut()) {
        self.shown.pause(round, done, of, alive);
    }

    fn before(&mut self, case: &Case, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        if !self.shown.before(case, alive)? {
            return Ok(false);
        }
        for part in &mut self.parts {
            part.ends.as_mut().map_or(Ok(()), |ends| ends.look())?;
            part.watcher.as_mut().map_or(Ok(()), Watcher::keep_alive)?;
        }
        if self.is_due() && !self.without(alive)? {
            return Ok(false);
        }
        match Setting::labelled(case.label.as_deref()) {
            None | Some(Setting::Alone) if self.drains => self.drain(MOST_DRAIN, alive),
            None | Some(Setting::Alone) => Ok(true),
            Some(setting) => self.open(setting, alive),
        }
    }

    fn after(&mut self, case: &Case, pass: Option<u32>) -> Result<(), Problem> {
        if self.window.is_some() {
            let round = self.close()?;
            if let (Some(pass), Some(round)) = (pass, round) {
                keep(&self.folder, &MixRound { case: Some(case.id), pass, ..round });
            }
            // What the rounds of a case will cost is known with that.
            if pass.is_none() && self.drains {
                self.drain(PILOT_DRAIN, &mut || ())?;
            }
        }
        self.begun += 1;
        self.shown.after(case, pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::At;

    #[test]
    fn only_messages_of_the_window_count_and_a_lost_one_is_the_slowest() {
        let sent = |at_ns, took_ns| Sent { at_ns, took_ns };
        let all = [
            sent(5, Some(900)),
            sent(10, Some(30)),
            sent(11, None),
            sent(12, Some(10)),
            sent(19, Some(20)),
            sent(20, Some(1)),
        ];
        let round = echoed(&all, (10, 20));
        assert_eq!((round.messages, round.lost, round.window_ns), (4, 1, 10));
        assert_eq!((round.p50_ns, round.p90_ns, round.bits), (Some(20), None, None));
        assert_eq!((round.latency.total(), round.latency.lost()), (4, 1));
        assert_eq!(echoed(&[], (10, 20)).p50_ns, None);
    }

    #[test]
    fn bits_are_those_between_the_readings_of_the_window() {
        let at = |n: u64| At {
            t_ns: n * 10_000_000,
            socket_acknowledged: Some(n * 12_500),
            socket_received: Some(n * 25_000),
            ..At::default()
        };
        let log = QueueLog { samples: (0..100).map(at).collect(), ..QueueLog::default() };
        let window = (200_000_000, 700_000_000);
        let round = streamed(&log, window, false);
        assert_eq!((round.window_ns, round.bits.map(f64::round)), (500_000_000, Some(10e6)));
        assert_eq!(streamed(&log, window, true).bits.map(f64::round), Some(20e6));
        assert_eq!(streamed(&log, (2_000_000_000, 3_000_000_000), false).bits, None);
        assert_eq!(streamed(&QueueLog::default(), window, false), OtherRound::default());
    }

    #[test]
    fn a_quarter_is_skipped_and_half_a_second_at_most() {
        assert_eq!(skipped(100, 500), 200);
        assert_eq!(skipped(0, 10_000_000_000), MOST_SKIPPED);
        assert_eq!(skipped(500, 100), 500);
    }
}
