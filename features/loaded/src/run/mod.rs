//! Begins the load of a loaded round, waits until it is steady, has the queues read while the round lasts, and ends it.

pub(crate) mod steady;
pub(crate) mod watcher;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use msgpath_core::parts::Parts;
use msgpath_core::plan::{ChannelOptions, Load, OPEN_INFLIGHT, Placement};
use msgpath_core::schedule::{Arrivals, Rate};
use msgpath_core::schema::{FAR, NEAR, RoundRecord, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, PathName, Plan, Problem, Target, Workload};
use msgpath_run::traffic::{self, Begun, Traffic, Wanted};
use msgpath_run::{Link, Progress};
use msgpath_sys::{clock, say};

use crate::probes;
use crate::record::{At, Direction, LoadFacts, LoadedRound, Probe, append};
use steady::{Budget, Look, Waits, is_steady};
use watcher::Watcher;

/// A load that is not steady after this long is measured, and said to be not steady.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// What stood in queues has left them after this long, or other traffic keeps the device busy.
const MOST_DRAIN: Duration = Duration::from_secs(10);
/// After a pilot nobody keeps the ends of the run waiting.
pub(crate) const PILOT_DRAIN: Duration = Duration::from_secs(5);
/// How long nobody looks after the load and what is read beside it: a round, which is cut short after ten times its time.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// The longest round that ends within that, ns.
pub const MOST_ROUND: u64 = 5_000_000_000;
/// Bytes of a message of the load: over TCP, and over UDP one packet.
const MESSAGE: u32 = 128 << 10;
const PACKET: u32 = 1400;
/// Bytes of a message of a load with a rate, and of its answer.
const PACED: u32 = 8 << 10;
const ANSWER: u64 = 16;
/// Most messages of a load on a connection: it ends long before.
pub(crate) const MOST_MESSAGES: u64 = 1 << 32;
/// The same with a rate: as many as its ends have room for.
const MOST_PACED: u64 = 1 << 21;
/// A load with a rate has messages for this long.
const PACED_FOR_S: f64 = 120.0;

/// What it takes to begin a load.
pub struct Setup {
    /// The far end.
    pub target: Target,
    pub facts: LoadFacts,
    /// Where what was read goes.
    pub folder: PathBuf,
}

/// What is shown of a run, and the load beside its loaded rounds.
pub struct Loading {
    shown: Box<dyn Progress>,
    setup: Setup,
    options: ChannelOptions,
    /// Reads the queues of each end; `None`: nobody may there.
    watchers: [Option<Watcher>; 2],
    /// The ends that send down, and those that send up.
    loads: [Option<Box<dyn Traffic>>; 2],
    /// New connections beside them.
    probes: Option<Box<dyn Traffic>>,
    /// They cannot be made, or there is no link to probe.
    unprobed: bool,
    /// The round that is loaded now, and when it began, ns.
    round: Option<(LoadedRound, u64)>,
    /// When the first round could begin, ns.
    run_ns: Option<u64>,
    /// Bytes a second that passed the near device under load.
    passed: f64,
    /// What waiting for a steady load may take.
    budget: Budget,
    /// A load was ended, and no idle round came yet.
    drains: bool,
    stop: &'static AtomicBool,
}

impl Loading {
    /// Around what is shown.
    pub fn new(shown: Box<dyn Progress>, setup: Setup) -> Self {
        Self {
            shown,
            options: ChannelOptions::default(),
            watchers: [None, None],
            loads: [None, None],
            probes: None,
            unprobed: setup.facts.shared_machine,
            round: None,
            run_ns: None,
            passed: 0.0,
            budget: Budget::default(),
            drains: false,
            stop: msgpath_sys::signal::stop_flag(),
            setup,
        }
    }

    /// Sessions that read queues, once.
    fn open_watchers(&mut self) -> Result<(), Problem> {
        if self.watchers[NEAR].is_none() {
            self.watchers[NEAR] = Some(Watcher::new(Link::near_here()?, LEASE)?);
            // Whoever serves does not read its queues for others; on one machine without namespaces both ends have the same.
            let told = matches!(self.setup.target, Target::Local) || self.options.launch.is_some();
            if told && !self.setup.facts.shared_machine {
                self.watchers[FAR] = Some(Watcher::new(Link::open(&self.setup.target, &self.options)?, LEASE)?);
            }
        }
        Ok(())
    }

    /// What the new connections do; a run goes on without them where they fail.
    fn probe<T>(&mut self, go: impl FnOnce(&mut dyn Traffic) -> Result<T, Problem>) -> Result<Option<T>, Problem> {
        let done = self.probes.as_mut().map(|probes| go(probes.as_mut())).transpose();
        done.or_else(|problem| self.without_probes(problem).map(|()| None))
    }

    fn without_probes(&mut self, problem: Problem) -> Result<(), Problem> {
        if problem.exit == Exit::Interrupted {
            return Err(problem);
        }
        say!("note: there is no RPM, new connections beside the load cannot be made: {}", problem.what);
        (self.probes, self.unprobed) = (None, true);
        Ok(())
    }

    /// Begins new connections. That of their own round is made before the load is there.
    fn begin_probes(&mut self) -> Result<(), Problem> {
        if self.probes.is_none() && !self.unprobed {
            match open(&self.setup.target, probes::plan(&self.options), probes::MOST as u64) {
                Ok(opened) => self.probes = Some(opened),
                Err(problem) => return self.without_probes(problem),
            }
        }
        let stop = self.stop;
        self.probe(|probes| probes.begin(stop)).map(drop)
    }

    /// Ends them, when those under way had time for their replies: those that were begun between these times.
    fn end_probes(&mut self, window: (u64, u64)) -> Result<Option<Vec<Probe>>, Problem> {
        let rows = self.probe(|probes| probes.measured())?;
        Ok(rows.map(|rows| probes::of_window(&rows, window)))
    }

    /// Begins the load of a direction; the ends are told apart by who sends.
    fn begin(&mut self, direction: Direction) -> Result<(), Problem> {
        self.open_watchers()?;
        self.begin_probes()?;
        let (mut cookies, mut data) = ([Vec::new(), Vec::new()], None);
        for sender in direction.senders() {
            let load = &mut self.loads[*sender];
            if load.is_none() {
                let (plan, messages) = plan(&self.setup.facts, &self.options, *sender);
                *load = Some(open(&self.setup.target, plan, messages)?);
            }
            let Some(load) = load else { continue };
            let Begun { data: route, cookies: own } = load.begin(self.stop)?;
            data = route;
            cookies[*sender].extend_from_slice(&own[*sender]);
        }
        let peers = data.map_or_else(Default::default, |data| [data.far, data.near_seen]);
        for ((watcher, peer), cookies) in self.watchers.iter_mut().zip(&peers).zip(cookies) {
            if let Some(watcher) = watcher {
                watcher.watch(peer, cookies)?;
            }
        }
        Ok(())
    }

    /// Looks at everything once, and keeps it alive.
    fn look(&mut self, direction: Direction) -> Result<Look, Problem> {
        self.look_after_loads()?;
        let mut look = Look { t_ns: clock::now(), ..Look::default() };
        for (end, watcher) in self.watchers.iter_mut().enumerate() {
            let Some(log) = watcher.as_mut().map(Watcher::look).transpose()? else { continue };
            let Some(at) = log.samples.last().copied() else { continue };
            if end == NEAR {
                look.bytes = passed(&at, direction);
            }
            if direction.senders().contains(&end) {
                look.depths[0] += at.backlog_bytes.unwrap_or(0) as f64;
                look.depths[1] += at.rtt_ns.unwrap_or(0) as f64;
            }
        }
        Ok(look)
    }

    /// Waits until the load is steady: whether it is; `None`: interrupted.
    fn settle(&mut self, direction: Direction, alive: &mut dyn FnMut()) -> Result<Option<bool>, Problem> {
        let mut waits = Waits { stop: self.stop, alive };
        let (begun, limits) = (Instant::now(), (self.budget.least(), self.budget.next(MOST_WAIT)));
        let Some((steady, rate)) = waits.settle(limits, || self.look(direction), is_steady)? else {
            return Ok(None);
        };
        self.budget.took(begun.elapsed());
        self.passed = rate;
        Ok(Some(steady))
    }

    /// Waits until what the last load left in queues is gone, so long at most; `false`: interrupted.
    fn drain(&mut self, most: Duration, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        let loaded = self.passed;
        let mut waits = Waits { stop: self.stop, alive };
        let drained = waits.drain(most, || self.look(Direction::Both), loaded)?;
        self.drains &= !drained;
        Ok(drained)
    }

    /// Keeps what idles between its rounds from ending.
    fn keep_alive(&mut self) -> Result<(), Problem> {
        self.watchers.iter_mut().flatten().try_for_each(Watcher::keep_alive)?;
        self.look_after_loads()
    }

    fn look_after_loads(&mut self) -> Result<(), Problem> {
        self.probe(|probes| probes.look())?;
        self.loads.iter_mut().flatten().try_for_each(|load| load.look())
    }

    /// The load of a round begins and becomes steady, and the queues are read from now on; `false`: interrupted.
    fn load(&mut self, case: &Case, direction: Direction, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        let begun = Instant::now();
        self.begin(direction)?;
        let Some(steady) = self.settle(direction, alive)? else {
            return self.end().map(|()| false);
        };
        let before_ns = begun.elapsed().as_nanos() as u64;
        let from = clock::now();
        self.watchers.iter_mut().flatten().try_for_each(Watcher::begin)?;
        let from_ns = self.run_ns.map(|run| from.saturating_sub(run));
        let round = LoadedRound { case: case.id, steady, before_ns, from_ns, ..LoadedRound::default() };
        self.round = Some((round, from));
        Ok(true)
    }

    /// Ends every load that goes on.
    fn end(&mut self) -> Result<(), Problem> {
        self.drains = true;
        self.probe(|probes| probes.end())?;
        self.loads.iter_mut().flatten().try_for_each(|load| load.end())
    }
}

/// Ends of traffic beside the rounds.
fn open(target: &Target, plan: Plan, messages: u64) -> Result<Box<dyn Traffic>, Problem> {
    traffic::open(Wanted { target, plan, parts: Parts::default(), messages, lease: LEASE })
}

/// Bytes that passed a near device in the direction of a load.
fn passed(at: &At, direction: Direction) -> u64 {
    let (sent, received) = (at.sent.unwrap_or(0), at.received.unwrap_or(0));
    match direction {
        Direction::Down => received,
        Direction::Up => sent,
        Direction::Both => sent + received,
    }
}

/// Messages on each connection by a schedule.
pub(crate) fn paced(per_s: f64, connections: u32) -> u64 {
    (PACED_FOR_S * per_s / f64::from(connections)).clamp(1.0, MOST_PACED as f64) as u64
}

/// The plan of a load that this end sends, and how many messages it has at most on each connection.
fn plan(facts: &LoadFacts, options: &ChannelOptions, sender: usize) -> (Plan, u64) {
    let path = PathName::new(&facts.transport, "send", "block");
    let size = if facts.transport == "udp" { PACKET } else { MESSAGE };
    let case = Case { connections: facts.streams, threads: facts.streams, ..Case::new(path, Pieces::whole(size)) };
    let unpinned = Plan {
        options: ChannelOptions { whole_messages: true, ..options.clone() },
        placement: Placement::default(),
        unpinned: true,
        ..Plan::new(Workload::STREAM, vec![case.clone()])
    };
    let Some(bits) = facts.rate_bits else {
        return (Plan { reverse: sender == FAR, ..unpinned }, MOST_MESSAGES);
    };
    // A schedule sends from the near end alone: what the far end is to send is its answers.
    let large = if facts.transport == "udp" { PACKET } else { PACED };
    let (size, reply) = if sender == FAR { (ANSWER as u32, large.into()) } else { (large, ANSWER) };
    let per_s = bits / 8.0 / f64::from(large);
    let load = Rate::per_second(per_s).map_or(Load::Closed, |rate| Load::Open { rate, arrivals: Arrivals::Constant });
    let case = Case { reply, load, inflight: OPEN_INFLIGHT, pieces: Pieces::whole(size), size: size.into(), ..case };
    let messages = paced(per_s, facts.streams);
    (Plan { workload: Workload::ECHO, cases: vec![case], ..unpinned }, messages)
}

/// Rates that a load can have: at least a message a second, at most what messages of its size allow.
pub fn check_rate(bits: f64) -> Result<f64, Problem> {
    let least = 8.0 * f64::from(PACED);
    if (least..=400e9).contains(&bits) {
        return Ok(bits);
    }
    let what = format!("a load of {bits} bits a second cannot be sent");
    Err(Problem::new("E11", Exit::Usage, what).hint("--load-rate 1M to 400G"))
}

impl Progress for Loading {
    fn started(&mut self, header: &RunHeader) {
        self.options = header.plan.options.clone();
        self.shown.started(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.budget.plan(plan.rounds);
        self.run_ns.get_or_insert_with(clock::now);
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
        self.keep_alive()?;
        match Direction::of(case.label.as_deref()) {
            Some(direction) => self.load(case, direction, alive),
            None if self.drains => self.drain(MOST_DRAIN, alive),
            None => Ok(true),
        }
    }

    fn after(&mut self, case: &Case, pass: Option<u32>) -> Result<(), Problem> {
        if let Some((mut round, from)) = self.round.take() {
            let until = clock::now();
            for (log, watcher) in round.ends.iter_mut().zip(&mut self.watchers) {
                *log = watcher.as_mut().map(Watcher::end).transpose()?;
            }
            round.probes = self.end_probes((from, until))?;
            self.loads.iter_mut().flatten().try_for_each(|load| load.look())?;
            self.end()?;
            match pass {
                Some(pass) => keep(&self.setup.folder, &LoadedRound { pass, ..round }),
                // What its rounds will cost is known with that.
                None => drop(self.drain(PILOT_DRAIN, &mut || ())?),
            }
        }
        self.shown.after(case, pass)
    }
}

/// A full disk is not a reason to stop measuring; the run itself says so.
fn keep(folder: &Path, round: &LoadedRound) {
    if let Err(error) = append(folder, round) {
        say!("warning: what was read of the queues is lost: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_goes_in_its_direction() {
        let facts = LoadFacts { transport: "tcp".into(), streams: 4, ..LoadFacts::default() };
        for (sender, reverse) in [(NEAR, false), (FAR, true)] {
            let (plan, _) = plan(&facts, &ChannelOptions::default(), sender);
            assert!(plan.validate().is_ok() && plan.unpinned && plan.reverse == reverse && plan.options.whole_messages);
            assert_eq!((plan.cases[0].connections, plan.workload.timed), (4, false));
        }
        let at = At { sent: Some(7), received: Some(5), ..At::default() };
        assert_eq!(Direction::ALL.map(|direction| passed(&at, direction)), [5, 7, 12]);
    }

    #[test]
    fn a_load_with_a_rate_has_its_bits_in_one_direction() {
        for (transport, size) in [("tcp", 8192.0), ("udp", 1400.0)] {
            let facts =
                LoadFacts { transport: transport.into(), streams: 2, rate_bits: Some(8e6), shared_machine: false };
            for sender in [NEAR, FAR] {
                let (plan, messages) = plan(&facts, &ChannelOptions::default(), sender);
                let case = &plan.cases[0];
                assert!(plan.validate().is_ok(), "{:?}", plan.validate());
                let bytes = if sender == NEAR { case.size } else { case.reply };
                assert_eq!(bytes as f64, size);
                let rate = case.load.rate().unwrap().value();
                assert!((rate * size * 8.0 / 8e6 - 1.0).abs() < 1e-3, "{rate}");
                assert!((messages as f64 - PACED_FOR_S * rate / 2.0).abs() <= 1.0);
            }
        }
        assert!(check_rate(1e6).is_ok() && check_rate(1.0).is_err() && check_rate(f64::NAN).is_err());
    }
}
