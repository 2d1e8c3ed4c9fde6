//! Traced rounds with a known truth, for tests: messages whose every stage is drawn first and then told as the kernel
//! would tell it, among the events of others.

use std::collections::BTreeMap;

use msgpath_core::plan::{Change, StageSet};
use msgpath_core::schema::{EventKind, KernelEvent, MessageRow, TraceRound, TracedThread, Tracing};
use msgpath_core::units::Pieces;
use msgpath_record::{Events, Run};

use crate::analyse::stage::{Kind, LEGS};
use crate::log::{TracedLog, log};
use crate::section::SECTION;
use msgpath_analyse::section;
use msgpath_analyse::testing::{Asked, Build, claims_beyond_this_run, said_with};
use msgpath_analyse::{Logs, Summary, summarise_with};
use msgpath_core::traits::Stack;

/// Thread ids of the ends, of a task that takes their CPUs from them, and of a stranger.
pub(crate) const NEAR: i32 = 100;
pub(crate) const FAR: i32 = 200;
pub(crate) const HOG: i32 = 666;
const STRANGER: i32 = 31;
/// Cookies of the sockets of the ends; the high half is nothing that events tell.
const COOKIES: [u64; 2] = [0x1_0000_0011, 0x1_0000_0022];

/// In which state a receiver is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Asleep,
    /// Preempted before it could sleep.
    Preempted,
    /// It spins.
    Running,
    /// Somebody wakes it before there are data (Unix sockets: room in the peer's buffer).
    Woken,
}

/// How the messages travel.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub path: &'static str,
    pub size: u64,
    pub set: StageSet,
    pub same_core: bool,
    /// State of the receivers, in turn.
    pub found: Vec<Found>,
    /// Events of others in between, over the same buffers.
    pub foreign: bool,
    /// One message in 40 spends twenty times as long in this stage of its request.
    pub slow: Option<Kind>,
    /// Tracepoints that are not recorded.
    pub without: Vec<EventKind>,
    /// The first messages of connections are in the log, and so much slower.
    pub cold: f64,
    /// One message in so many has no signal of its own (0: none).
    pub coalesce: u64,
    pub open: bool,
    pub joined: bool,
    pub seed: u64,
}

impl Setup {
    pub(crate) fn over(path: &'static str) -> Self {
        Self {
            path,
            size: 64,
            set: StageSet::Light,
            same_core: false,
            found: vec![Found::Asleep],
            foreign: false,
            slow: None,
            without: Vec::new(),
            cold: 1.0,
            coalesce: 0,
            open: false,
            joined: false,
            seed: 1,
        }
    }
}

/// The truth of one message: stages of request and reply, waiting and handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    pub legs: [[u32; LEGS]; 2],
    pub waiting: u32,
    pub handler: u32,
    pub coalesced: bool,
}

/// A run with its logs and the truth about every message, in the order of the rows.
pub(crate) struct Traced {
    pub run: Run,
    pub logs: Logs,
    pub truth: Vec<Truth>,
}

struct Maker<'a> {
    setup: &'a Setup,
    stack: Stack,
    random: fastrand::Rng,
    events: Vec<KernelEvent>,
    /// The state in which each end was left, and since when.
    left: [Found; 2],
    buffers: u64,
}

/// A task, and the CPU that it runs on.
#[derive(Clone, Copy)]
struct Task {
    cpu: u16,
    tid: i32,
}

/// Events that this set records.
fn recorded(setup: &Setup) -> Vec<EventKind> {
    use EventKind::*;
    let mut events = vec![SchedWaking, SchedWakeup, SchedSwitch, NetDevStartXmit, NetifReceiveSkb, SkDataReady];
    if setup.path.ends_with("sigio") {
        events.extend([SignalGenerate, SignalDeliver]);
    }
    if setup.set == StageSet::Full {
        events.extend([NetDevQueue, NetifRx, TcpProbe, SkbCopy, SysEnter, SysExit, CpuIdle]);
    }
    events.retain(|kind| !setup.without.contains(kind));
    events
}

impl Maker<'_> {
    fn put(&mut self, t_ns: u64, kind: EventKind, on: Task, a: u64, b: i32) {
        let Task { cpu, tid } = on;
        self.events.push(KernelEvent { t_ns, kind, cpu, tid, a, b: b as u32, len: 0, flags: 0, end: 0 });
    }

    fn packet(&mut self, t_ns: u64, kind: EventKind, on: Task, buffer: u64, len: u16) {
        let Task { cpu, tid } = on;
        self.events.push(KernelEvent { t_ns, kind, cpu, tid, a: buffer, b: 0, len, flags: 0, end: 0 });
    }

    fn switch(&mut self, t_ns: u64, cpu: u16, previous: i32, next: i32, preempted: bool) {
        let flags = u16::from(preempted);
        let a = u64::from(!preempted && previous != 0);
        self.events.push(KernelEvent {
            t_ns,
            kind: EventKind::SchedSwitch,
            cpu,
            tid: previous,
            a,
            b: next as u32,
            len: 0,
            flags,
            end: 0,
        });
    }

    /// A stage of about `mean` ns, at least 2.
    fn draw(&mut self, mean: u64, kind: Kind, slow: bool) -> u64 {
        let ns = 2 + mean / 2 + self.random.u64(..mean.max(1));
        if slow && self.setup.slow == Some(kind) { ns * 20 } else { ns }
    }

    fn cpu(&self, end: usize) -> u16 {
        if self.setup.same_core { 0 } else { end as u16 }
    }

    /// One direction: the stamp after the receive, and the stages. The sender goes to sleep or is preempted afterwards.
    fn leg(&mut self, start: u64, direction: usize, slow: bool, then: Found, coalesced: bool) -> (u64, [u32; LEGS]) {
        let full = self.setup.set == StageSet::Full;
        let (sender, receiver) = (direction, 1 - direction);
        let tids = [NEAR, FAR];
        let (tid, other) = (tids[sender], tids[receiver]);
        let (cpu, home) = (self.cpu(sender), self.cpu(receiver));
        let mut ns = [0_u32; LEGS];
        let mut t = start;
        let mut add = |kind: Kind, time: u64| ns[kind as usize - 1] += time as u32;
        let found = self.left[receiver];
        // Where nothing says when the data are there, the receiver's state is told from the send on.
        let first = match found {
            _ if self.stack.has_device() => Kind::SendCall,
            _ if self.stack.has_ready() => Kind::Transmit,
            Found::Asleep | Found::Woken => Kind::WakeCall,
            Found::Preempted => Kind::Delay,
            Found::Running => Kind::Return,
        };
        if full {
            let entry = self.draw(200, Kind::SendCall, slow);
            t += entry;
            self.put(t, EventKind::SysEnter, Task { cpu, tid }, 44, 0);
            add(first, entry);
        }
        if self.stack.has_device() {
            let (with, without) = match self.setup.path.split(':').next() {
                Some("tcp") => (66, 52),
                Some("udp") => (42, 28),
                _ => (14, 0),
            };
            let len = |headers: u64| (self.setup.size + headers).min(u64::from(u16::MAX)) as u16;
            let (outer, inner) = (len(with), len(without));
            let buffer = 0xffff_8880_0000_0000 + 256 * self.buffers;
            // Four buffers, used again and again.
            self.buffers = (self.buffers + 1) % 4;
            let transmit = self.draw(1600, Kind::Transmit, slow);
            if full {
                self.packet(t + transmit / 2, EventKind::NetDevQueue, Task { cpu, tid }, buffer, outer);
            }
            t += transmit;
            add(Kind::Transmit, transmit);
            let held = if self.setup.slow == Some(Kind::HeldBack) && slow { 40_000_000 } else { 0 };
            // Held back: an acknowledgement pushes it out, in the context of whoever runs.
            let context = if held > 0 { 0 } else { tid };
            add(Kind::HeldBack, held);
            t += held;
            self.packet(t, EventKind::NetDevStartXmit, Task { cpu, tid: context }, buffer, outer);
            let device = self.draw(1200, Kind::Device, slow);
            if full {
                self.packet(t + device / 3, EventKind::NetifRx, Task { cpu, tid: context }, buffer, inner);
            }
            t += device;
            add(Kind::Device, device);
            self.packet(t, EventKind::NetifReceiveSkb, Task { cpu, tid: context }, buffer, inner);
            if self.setup.foreign && self.random.bool() {
                self.foreign(t, buffer);
            }
            let softirq = self.draw(1800, Kind::Softirq, slow);
            if full {
                self.put(t + softirq / 2, EventKind::TcpProbe, Task { cpu, tid: context }, buffer, 0);
            }
            t += softirq;
            add(Kind::Softirq, softirq);
            if self.stack == Stack::Frames {
                // Every listening socket gets a copy, the sender's own first.
                self.put(t - 1, EventKind::SkDataReady, Task { cpu, tid: context }, 0xaaaa, COOKIES[sender] as i32);
            }
            self.put(t, EventKind::SkDataReady, Task { cpu, tid: context }, 0xbbbb, COOKIES[receiver] as i32);
        } else if self.stack.has_ready() {
            let handed = self.draw(1300, Kind::Transmit, slow);
            t += handed;
            add(Kind::Transmit, handed);
            if found == Found::Woken {
                self.put(t - 1, EventKind::SchedWaking, Task { cpu, tid }, 0, other);
            }
            self.put(t, EventKind::SkDataReady, Task { cpu, tid }, 0xbbbb, COOKIES[receiver] as i32);
        }
        let ready = t;
        if self.setup.path.ends_with("sigio") && !coalesced {
            let signal = self.draw(300, Kind::Signal, slow);
            t += signal;
            add(Kind::Signal, signal);
            self.put(t, EventKind::SignalGenerate, Task { cpu, tid }, other as u64, 29);
        }
        let mut occupant = 0;
        match found {
            Found::Running => {
                let load = self.draw(400, Kind::Return, slow);
                add(Kind::Return, load);
                t += load;
                self.leave(ready, sender, then);
                return (t, ns);
            }
            Found::Preempted => {
                let delay = self.draw(9_000, Kind::Delay, slow);
                add(Kind::Delay, delay);
                t += delay;
                occupant = HOG;
            }
            Found::Asleep | Found::Woken => {
                if found == Found::Asleep {
                    let wake = self.draw(450, Kind::WakeCall, slow);
                    t += wake;
                    add(Kind::WakeCall, wake);
                    self.put(t, EventKind::SchedWaking, Task { cpu, tid }, 0, other);
                }
                let flight = self.draw(4_000, Kind::InFlight, slow);
                add(Kind::InFlight, flight);
                t += flight;
                self.put(t, EventKind::SchedWakeup, Task { cpu: home, tid: 0 }, 0, other);
                let delay = self.draw(800, Kind::Delay, slow);
                add(Kind::Delay, delay);
                t += delay;
                if slow && self.setup.slow == Some(Kind::Delay) {
                    occupant = HOG;
                }
            }
        }
        if self.setup.same_core {
            occupant = tid;
        } else {
            self.leave(ready, sender, then);
        }
        if full && !self.setup.same_core {
            self.put(t - 1, EventKind::CpuIdle, Task { cpu: home, tid: 0 }, u64::from(u32::MAX), 0);
        }
        self.switch(t, home, occupant, other, false);
        if self.setup.same_core {
            self.left[sender] = Found::Asleep;
        }
        if self.setup.path.ends_with("sigio") {
            let run = self.draw(500, Kind::Return, slow);
            t += run;
            add(Kind::Return, run);
            if !coalesced {
                self.put(t, EventKind::SignalDeliver, Task { cpu: home, tid: other }, 0, 29);
            }
            let handler = self.draw(900, Kind::Deliver, slow);
            t += handler;
            add(Kind::Deliver, handler);
        } else {
            let back = self.draw(2_600, Kind::Return, slow);
            if full {
                self.put(t + back / 2, EventKind::SysExit, Task { cpu: home, tid: other }, 64, 0);
            }
            t += back;
            add(Kind::Return, back);
        }
        (t, ns)
    }

    /// The sender, after its send at `t_ns`: it sleeps, is preempted, or spins on.
    fn leave(&mut self, t_ns: u64, end: usize, how: Found) {
        let tid = [NEAR, FAR][end];
        let cpu = self.cpu(end);
        self.left[end] = how;
        match how {
            Found::Asleep | Found::Woken => {
                self.switch(t_ns + 1, cpu, tid, 0, false);
                if self.setup.set == StageSet::Full {
                    self.put(t_ns + 2, EventKind::CpuIdle, Task { cpu, tid: 0 }, 2, 0);
                }
            }
            Found::Preempted => self.switch(t_ns + 1, cpu, tid, HOG, true),
            Found::Running => {}
        }
    }

    /// A packet of somebody else in the same buffer on another CPU, and tasks that nobody asked about.
    fn foreign(&mut self, t_ns: u64, buffer: u64) {
        self.packet(t_ns + 1, EventKind::NetDevStartXmit, Task { cpu: 2, tid: STRANGER }, buffer, 200);
        self.packet(t_ns + 2, EventKind::NetifReceiveSkb, Task { cpu: 2, tid: STRANGER }, buffer, 186);
        self.put(t_ns + 3, EventKind::SkDataReady, Task { cpu: 2, tid: STRANGER }, 0xcccc, 0x77);
        self.switch(t_ns + 4, 2, STRANGER, 32, true);
        self.switch(t_ns + 5, 2, 32, STRANGER, false);
        self.put(t_ns + 6, EventKind::SchedWaking, Task { cpu: 2, tid: STRANGER }, 0, 32);
    }
}

/// `messages` in each of 40 rounds.
pub(crate) fn traced(setup: &Setup, messages: u64) -> Traced {
    section::add(&SECTION);
    let mut build = Build::echo(&[setup.path], &[setup.size]).ablation(0, Change::Traced(setup.set)).messages(messages);
    build.plan.stages = Some(setup.set);
    build.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces::whole(setup.size as u32));
    let mut run = build.factor(|case| if case.id == 1 { 1.05 } else { 1.0 }).run();
    let kinds = recorded(setup);
    run.header.tracing = Some(Tracing {
        backend: Some("BPF tracepoints".into()),
        events: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        missing: setup.without.iter().map(|kind| (kind.name().to_owned(), "this kernel has none".to_owned())).collect(),
        self_test: "2800 of 2800 events".into(),
        wakeups_joined: setup.joined,
        ..Tracing::default()
    });
    run.header.host_mut(0).facts.insert("machine".into(), "x86_64".into());
    let thread = |tid, cookie| TracedThread { tid, sends: true, receives: true, cookies: vec![cookie] };
    let tasks = BTreeMap::from([(HOG, "ffmpeg".to_owned()), (NEAR, "msgpath".into()), (FAR, "msgpath".into())]);
    let trace = TraceRound {
        threads: vec![vec![thread(NEAR, COOKIES[0])], vec![thread(FAR, COOKIES[1])]],
        lost: 0,
        tasks,
        ..TraceRound::default()
    };
    let mut logged = TracedLog::default();
    let mut truth = Vec::new();
    let mut random = fastrand::Rng::with_seed(setup.seed);
    for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
        round.trace = Some(trace.clone());
        let mut maker = Maker {
            setup,
            stack: msgpath_analyse::testing::declared(&setup.path.parse().expect("a path")).stack,
            random: random.fork(),
            events: Vec::new(),
            left: [Found::Running, Found::Asleep],
            buffers: 0,
        };
        // Both are seen before the first message: the far end goes to sleep.
        let mut t = round.start_ns + 1_000;
        maker.switch(t, maker.cpu(1), 0, FAR, false);
        maker.leave(t + 10, 1, setup.found[0]);
        t += 30;
        maker.switch(t, maker.cpu(0), if setup.found[0] == Found::Preempted { HOG } else { 0 }, NEAR, false);
        t += 1_000;
        for sequence in 0..messages {
            let slow = sequence % 40 == 7;
            let next = |at: u64| setup.found[(at % setup.found.len() as u64) as usize];
            let coalesced = setup.coalesce > 0 && sequence % setup.coalesce == 5;
            let waiting = if setup.open { maker.draw(700, Kind::Waiting, slow) } else { 0 };
            let start = t;
            let (far, mut there) = maker.leg(start + waiting, 0, slow, next(sequence), coalesced);
            let mut handler = maker.draw(60, Kind::Handler, slow);
            if sequence == 0 {
                handler = (handler as f64 * setup.cold) as u64;
            }
            let sent = far + handler;
            let (end, mut back) = maker.leg(sent, 1, false, next(sequence + 1), coalesced);
            for leg in [&mut there, &mut back] {
                settle(leg, setup, maker.stack);
            }
            let message = Truth { legs: [there, back], waiting: waiting as u32, handler: handler as u32, coalesced };
            truth.push(message);
            logged.messages.here().push(MessageRow {
                case: 1,
                pass: round.pass,
                sequence,
                start_ns: start,
                latency_ns: Some(end - start),
                late_ns: setup.open.then_some(waiting),
                far_ns: Some(far - start),
                far_sent_ns: Some(sent - start),
                // The send call returned when its packet had left, or before one that is held back.
                sent_ns: (setup.slow == Some(Kind::HeldBack) && slow)
                    .then(|| waiting + u64::from(there[0]) + u64::from(there[1])),
                ..MessageRow::default()
            });
            t = end + 500;
        }
        let mut events = maker.events;
        events.retain(|event| kinds.contains(&event.kind));
        events.sort_by_key(|event| event.t_ns);
        logged.events.here().push(Events { case: 1, pass: round.pass, events });
    }
    Traced { run, logs: Logs::default().with(logged), truth }
}

/// What is charged where a boundary is missing: to the stage before it.
fn settle(leg: &mut [u32; LEGS], setup: &Setup, stack: Stack) {
    let mut merge = |from: Kind, to: Kind| {
        leg[to as usize - 1] += leg[from as usize - 1];
        leg[from as usize - 1] = 0;
    };
    if setup.joined {
        merge(Kind::Delay, Kind::InFlight);
    }
    let without = |kind| setup.without.contains(&kind);
    if stack.has_device() && without(EventKind::NetifReceiveSkb) {
        merge(Kind::Softirq, Kind::Device);
    }
    if without(EventKind::SkDataReady) && stack.has_device() {
        merge(Kind::WakeCall, Kind::Softirq);
    }
    if without(EventKind::SchedWakeup) && !setup.joined {
        merge(Kind::Delay, Kind::InFlight);
    }
}

/// A run with its logs, analysed by all that a program with this feature has.
pub(crate) fn summarised(run: &Run, logs: &Logs) -> Summary {
    section::add(&SECTION);
    let summary = summarise_with(run, logs);
    let texts = summary.findings.iter().map(|one| &one.text).chain(summary.warnings.iter().map(|one| &one.text));
    texts.for_each(|text| assert!(!claims_beyond_this_run(text), "a quantile is that of this run: {text}"));
    summary
}

/// What the run found out under `code`, with its logs: as [`msgpath_analyse::testing::said_with`].
pub(crate) fn sentences<'a>(traced: &Traced, asked: impl Into<Asked<'a>>) -> Vec<String> {
    summarised(&traced.run, &traced.logs);
    said_with(&traced.run, &traced.logs, asked)
}

impl Traced {
    /// Its log, to be changed.
    pub(crate) fn log(&mut self) -> &mut TracedLog {
        self.logs.own_mut()
    }

    /// The same with logs of its own.
    pub(crate) fn copied(&self) -> Self {
        let logs = Logs { one_way: self.logs.one_way.clone(), ..Logs::default() }.with(log(&self.logs).clone());
        Self { run: self.run.clone(), logs, truth: self.truth.clone() }
    }
}
