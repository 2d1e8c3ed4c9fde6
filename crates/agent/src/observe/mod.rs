//! What the kernel says while a round is measured: tracing back ends, the better one first.
//!
//! | back end | needs | tells |
//! |---|---|---|
//! | BPF tracepoints | CAP_BPF, CAP_PERFMON, type information of the kernel | everything |
//! | perf tracepoints and switch records | CAP_PERFMON, a readable tracefs | all but when a woken task became runnable |
//! | none | | stamps in user space only |
//!
//! [`Tracer::open`] takes the first that works and is complete: each is tried on messages of its own, and what it was
//! expected to see is compared with what it saw. The environment variable `MSGPATH_TRACE` names the only one that is tried:
//! `bpf`, `perf`, or `off`.
//!
//! A tracer tells of the kernel under its own process, by the clock of that process: on one clock the coordinator's tells of
//! both ends, else each end has one ([`Traced::put`] and [`Incoming`] take what it saw to the coordinator).
//!
//! Between [`Tracer::end`] and the next [`Tracer::begin`] nothing is attached, so that a round that is not traced pays
//! nothing. Whatever is attached lives in file descriptors of this process and ends with it.

mod bpf;
mod carried;
mod perf;
mod self_test;
mod threads;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::StageSet;
use msgpath_core::schema::{EventKind, KernelEvent, SEGMENT, TracedThread, Tracing};
use msgpath_core::{Exit, Problem, Unavailable};

use crate::wire::RoundOrder;
pub use bpf::explain;
pub use carried::{Incoming, MAX_CARRIED};

/// Environment variable that names the only back end to try.
pub const CHOICE: &str = "MSGPATH_TRACE";
/// What is refused where no back end is even tried.
pub const KERNEL: &str = "kernel tracing";
/// The command that lets a user trace.
const GRANT: &str =
    "sudo, or for everybody who can execute that file: sudo setcap cap_bpf,cap_perfmon+ep $(command -v msgpath)";
/// The events of a round have at least this much room: the self-test's have to fit.
const LEAST_ROOM: usize = 1 << 14;
/// Most tasks whose names are looked up after a round.
const MOST_NAMES: usize = 4096;
/// Most processes whose names are read before a round.
const MOST_BEFORE: usize = 1024;

/// What opens a back end: the kinds that are wanted, whether every switch of the CPUs, room for events.
type Open = fn(&[EventKind], bool, usize) -> Opened<Back>;

/// What [`CHOICE`] calls them, their names, and what opens them: the better one first.
const BACK_ENDS: [(&str, &str, Open); 2] = [
    ("bpf", bpf::NAME, |kinds, full, room| {
        bpf::Back::open(kinds, full, room).map(|(back, missing)| (Back::Bpf(Box::new(back)), missing))
    }),
    ("perf", perf::NAME, |kinds, full, room| {
        perf::Back::open(kinds, full, room).map(|(back, missing)| (Back::Perf(Box::new(back)), missing))
    }),
];

/// A back end that is loaded and idle.
pub struct Tracer {
    back: Back,
    /// Kinds that are recorded and were not found incomplete.
    kinds: Vec<EventKind>,
    /// The round's threads.
    threads: Vec<i32>,
    tasks: BTreeMap<i32, String>,
    /// Names of the processes that there were before the round: some of them end while it runs.
    before: BTreeMap<i32, String>,
    /// What the clock of this process has more than the kernel's, ns.
    ahead_ns: i64,
    /// It records.
    on: bool,
}

/// What a traced round left.
#[derive(Debug, Default)]
pub struct Traced {
    /// The events of all CPUs in the order of time; `t_ns` is CLOCK_MONOTONIC as this process reads it.
    pub events: Vec<KernelEvent>,
    /// Events that found no room, and records that were begun and not finished.
    pub lost: u64,
    /// Names of the tasks that the events name, by thread id. 0 is a CPU's idle task.
    pub tasks: BTreeMap<i32, String>,
    /// Measured threads of which switches must have been that nobody saw (they left a CPU without having come to it), with
    /// how many. A kernel may hide some tasks from tracing: what happens while such a task has the CPU is missing.
    pub unseen: BTreeMap<i32, u64>,
}

/// The least length of a packet that has a part of a message: acknowledgements are shorter. A packet is never longer than 64 KiB with
/// its headers, and a message may be cut into shorter ones.
pub fn least_packet(order: &RoundOrder) -> u32 {
    order.pieces.total().min(order.reply).min(SEGMENT) as u32
}

/// What concerns a round.
#[derive(Clone, Debug, Default)]
struct Filter {
    threads: Vec<i32>,
    sockets: Vec<u64>,
    least: u32,
    /// CPUs on which the threads may run; all that there are, where somebody's are not known.
    cpus: Vec<u32>,
}

enum Back {
    Bpf(Box<bpf::Back>),
    Perf(Box<perf::Back>),
}

impl Back {
    fn begin(&mut self, filter: &Filter) -> io::Result<()> {
        match self {
            Back::Bpf(back) => back.begin(filter),
            Back::Perf(back) => back.begin(filter),
        }
    }

    /// Events in any order, and how many were lost.
    fn end(&mut self) -> io::Result<(Vec<KernelEvent>, u64)> {
        match self {
            Back::Bpf(back) => back.end(),
            Back::Perf(back) => back.end(),
        }
    }

    /// Names of tasks that the events of the last round brought with them.
    fn names(&mut self) -> BTreeMap<i32, String> {
        match self {
            Back::Bpf(back) => back.names(),
            Back::Perf(back) => back.names(),
        }
    }

    fn kinds(&self) -> Vec<EventKind> {
        match self {
            Back::Bpf(back) => back.kinds(),
            Back::Perf(back) => back.kinds(),
        }
    }

    fn leave_out(&mut self, kind: EventKind) {
        match self {
            Back::Bpf(back) => back.leave_out(kind),
            // Opened events stay; what they say is not used.
            Back::Perf(_) => {}
        }
    }
}

/// A back end that works, and the tracepoints that it lacks with the reason for each.
type Opened<T> = Result<(T, Vec<(EventKind, String)>), Unavailable>;

/// The kinds of events that a set wants. `signals`: also those of signals, which the light set leaves out otherwise.
pub fn kinds(set: StageSet, signals: bool) -> Vec<EventKind> {
    use EventKind::*;
    let light = [SchedWaking, SchedWakeup, SchedSwitch, NetDevStartXmit, NetifReceiveSkb, SkDataReady];
    EventKind::ALL
        .into_iter()
        .filter(|kind| {
            set == StageSet::Full || light.contains(kind) || signals && matches!(kind, SignalGenerate | SignalDeliver)
        })
        .collect()
}

impl Tracer {
    /// Loads the best back end for `set` that works here, and tests that it is complete. `room`: events of one round, all
    /// CPUs together. Without a tracer, [`Tracing`] says why.
    pub fn open(set: StageSet, room: usize) -> (Option<Self>, Tracing) {
        Self::open_with(set, set == StageSet::Full, room)
    }

    /// As [`Tracer::open`]; given up when `stop` is set meanwhile.
    pub(crate) fn open_unless(set: StageSet, room: usize, stop: &AtomicBool) -> (Option<Self>, Tracing) {
        Self::choose(std::env::var(CHOICE).ok().as_deref(), set, set == StageSet::Full, room, stop)
    }

    /// As [`Tracer::open`]; `signals`: with the events of signals, for receivers that are woken by one.
    pub fn open_with(set: StageSet, signals: bool, room: usize) -> (Option<Self>, Tracing) {
        Self::choose(std::env::var(CHOICE).ok().as_deref(), set, signals, room, &AtomicBool::new(false))
    }

    /// `choice`: the only back end to try.
    fn choose(
        choice: Option<&str>,
        set: StageSet,
        signals: bool,
        room: usize,
        stop: &AtomicBool,
    ) -> (Option<Self>, Tracing) {
        let wanted = kinds(set, signals);
        let room = room.max(LEAST_ROOM);
        let mut tracing = Tracing::default();
        let ahead_ns = match time::ahead_ns() {
            Ok(ahead_ns) => ahead_ns,
            Err(why) => {
                tracing.refused.push((KERNEL.into(), why));
                return (None, tracing);
            }
        };
        let with = |tracer: Tracer| Some(Tracer { ahead_ns, ..tracer });
        let excluded = |name: &str| match choice {
            None => false,
            Some(choice) => choice != name,
        };
        for (word, name, open) in BACK_ENDS {
            let opened = match excluded(word) {
                _ if stop.load(Ordering::Relaxed) => Err(Unavailable::new("nobody waits for it", "")),
                true => Err(Unavailable::new(format!("{CHOICE} excludes it"), format!("unset {CHOICE}"))),
                false => open(&wanted, set == StageSet::Full, room)
                    .and_then(|(back, missing)| tested(back, missing, name, stop)),
            };
            match opened {
                Ok((tracer, found)) => return (with(tracer), Tracing { refused: tracing.refused, ..found }),
                Err(why) => tracing.refused.push((name.to_owned(), why)),
            }
        }
        (None, tracing)
    }

    /// Starts recording what concerns these threads and their sockets, all of them on this machine. Packets shorter than
    /// `least` bytes (without the Ethernet header) are left out. What was begun and not ended is forgotten.
    ///
    /// # Errors
    /// As the back end.
    pub fn begin(&mut self, near: &[TracedThread], far: &[TracedThread], least: u32) -> io::Result<()> {
        if std::mem::take(&mut self.on) {
            let _ = self.back.end();
        }
        let ends = || near.iter().chain(far);
        let threads: Vec<i32> = ends().map(|thread| thread.tid).filter(|tid| *tid > 0).collect();
        self.tasks = threads.iter().filter_map(|tid| Some((*tid, threads::name(*tid)?))).collect();
        self.before = threads::processes(MOST_BEFORE);
        let cpus = threads::cpus(&threads);
        self.threads.clone_from(&threads);
        let sockets = ends().flat_map(|thread| thread.cookies.iter().copied()).collect();
        self.back.begin(&Filter { threads, sockets, least, cpus })?;
        self.on = true;
        Ok(())
    }

    /// Stops recording and reads what there is.
    ///
    /// # Errors
    /// As the back end.
    pub fn end(&mut self) -> io::Result<Traced> {
        self.on = false;
        let (mut events, lost) = self.back.end()?;
        events.retain(|event| self.kinds.contains(&event.kind));
        events.iter_mut().for_each(|event| event.t_ns = event.t_ns.saturating_add_signed(self.ahead_ns));
        events.sort_by_key(|event| event.t_ns);
        let (mut tasks, seen) = (std::mem::take(&mut self.tasks), self.back.names());
        let named: BTreeSet<i32> = events
            .iter()
            .filter(|event| event.kind == EventKind::SchedSwitch)
            .flat_map(|event| [event.tid, event.b as i32])
            .take(events.len().saturating_mul(2))
            .collect();
        for tid in named.into_iter().take(MOST_NAMES) {
            if let std::collections::btree_map::Entry::Vacant(entry) = tasks.entry(tid)
                && let Some(name) =
                    seen.get(&tid).cloned().or_else(|| threads::name(tid)).or_else(|| self.before.get(&tid).cloned())
            {
                entry.insert(name);
            }
        }
        let unseen = self
            .threads
            .iter()
            .map(|tid| (*tid, unseen(&events, *tid).total()))
            .filter(|(_, count)| *count > 0)
            .collect();
        Ok(Traced { events, lost, tasks, unseen })
    }
}

/// Why a round cannot be traced that could be before.
pub fn refused(error: &io::Error) -> Unavailable {
    Unavailable::new(format!("the kernel could not be traced: {error}"), "--stages off")
}

/// E60: the events of a round are lost.
pub fn unreadable(error: &io::Error) -> Problem {
    Problem::new("E60", Exit::Unfinished, format!("the kernel's events could not be read: {error}"))
        .hint("--stages off")
}

/// Lets a back end show that it is complete, and says what it is.
fn tested(
    mut back: Back,
    missing: Vec<(EventKind, String)>,
    name: &str,
    stop: &AtomicBool,
) -> Result<(Tracer, Tracing), Unavailable> {
    let verdict = self_test::run(&mut back, stop)
        .map_err(|error| Unavailable::new(format!("the completeness test failed: {error}"), ""))?;
    if let Some((_, why)) = verdict.short.iter().find(|(kind, _)| *kind == EventKind::SchedSwitch) {
        return Err(Unavailable::new(format!("it loses events: {why}"), ""));
    }
    for (kind, _) in &verdict.short {
        back.leave_out(*kind);
    }
    let mut kinds = back.kinds();
    kinds.retain(|kind| !verdict.short.iter().any(|(short, _)| short == kind));
    let missing = missing.into_iter().chain(verdict.short).map(|(kind, why)| (kind.name().to_owned(), why)).collect();
    let tracing = Tracing {
        backend: Some(name.to_owned()),
        refused: Vec::new(),
        events: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        missing,
        self_test: verdict.sentence,
        wakeups_joined: !kinds.contains(&EventKind::SchedWakeup),
    };
    Ok((
        Tracer {
            back,
            kinds,
            threads: Vec::new(),
            tasks: BTreeMap::new(),
            before: BTreeMap::new(),
            ahead_ns: 0,
            on: false,
        },
        tracing,
    ))
}

/// Switches to a thread that must have been and were not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unseen {
    /// The last that was heard of the CPU is that its idle task has it.
    from_idle: u64,
    /// Another task has it.
    from_task: u64,
}

impl Unseen {
    fn total(self) -> u64 {
        self.from_idle + self.from_task
    }
}

/// `events`: in the order of time.
fn unseen(events: &[KernelEvent], tid: i32) -> Unseen {
    let mut unseen = Unseen::default();
    // To whom the thread left its CPU when it was seen last.
    let mut left_to: Option<u32> = None;
    for event in events.iter().filter(|event| event.kind == EventKind::SchedSwitch) {
        if event.tid == tid {
            match left_to.replace(event.b) {
                Some(0) => unseen.from_idle += 1,
                Some(_) => unseen.from_task += 1,
                None => {}
            }
        }
        if event.b as i32 == tid {
            left_to = None;
        }
    }
    unseen
}

/// Thread ids mean the same to the kernel and to this process only in the first pid namespace.
///
/// # Errors
/// It is another one, or cannot be read.
pub fn first_pid_namespace() -> Result<(), Unavailable> {
    // PROC_PID_INIT_INO of the kernel.
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link.as_os_str() == "pid:[4026531836]" => Ok(()),
        Ok(_) => Err(Unavailable::new(
            "in a pid namespace the kernel's thread ids are not those seen here",
            "start msgpath outside the container, or with --pid=host",
        )),
        Err(error) => Err(Unavailable::new(format!("/proc/self/ns/pid: {error}"), "mount /proc")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_light_set_is_the_seven_events_of_a_direction() {
        assert_eq!(kinds(StageSet::Light, false).len(), 6);
        assert_eq!(kinds(StageSet::Light, true).len(), 8);
        assert_eq!(kinds(StageSet::Full, false), EventKind::ALL);
    }

    #[test]
    fn a_thread_that_leaves_twice_has_come_unseen() {
        let switch = |tid, b| KernelEvent { kind: EventKind::SchedSwitch, tid, b, ..KernelEvent::default() };
        let whole = [switch(7, 0), switch(0, 7), switch(7, 9), switch(9, 7)];
        assert_eq!(unseen(&whole, 7), Unseen::default());
        let broken = [switch(7, 0), switch(7, 9), switch(7, 9), switch(9, 7), switch(7, 0)];
        assert_eq!(unseen(&broken, 7), Unseen { from_idle: 1, from_task: 1 });
        assert_eq!(unseen(&[], 7).total(), 0);
    }

    #[test]
    fn without_a_back_end_both_say_why() {
        let (tracer, tracing) = Tracer::choose(Some("off"), StageSet::Light, false, 1000, &AtomicBool::new(false));
        assert!(tracer.is_none() && tracing.backend.is_none());
        let names: Vec<&str> = tracing.refused.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [bpf::NAME, perf::NAME]);
        assert!(tracing.refused.iter().all(|(_, why)| why.why.contains(CHOICE) && why.hint.contains("unset")));
    }
}
