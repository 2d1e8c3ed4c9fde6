//! Whether a back end sees everything (docs/method/attribution.md#back-ends): messages of its own between pairs of
//! CPUs, what they must have caused against what was seen.
//!
//! How often a thread was switched is taken from getrusage, which counts rightly also where tracing does not.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use msgpath_core::schema::{EventKind, KernelEvent};
use msgpath_sys::msg::{SendFlags, recv, send};
use msgpath_sys::{affinity, cookie, socket, usage};

use super::{Back, Filter, threads, unseen};

/// Messages of one pair of CPUs, each way.
const MESSAGES: u64 = 200;
/// Most pairs that are tried.
const MOST_PAIRS: usize = 3;
/// A pair stops after this time with what it has.
const LONGEST: Duration = Duration::from_millis(70);
/// Longer than an acknowledgement, so that lengths tell the two apart.
const SIZE: usize = 600;
/// Events that may be missing at the edges: a thread that was switched between its counting and the first event.
const EDGE: u64 = 4;

/// What the test found.
pub(super) struct Verdict {
    /// For the reader.
    pub(super) sentence: String,
    /// Kinds of which events were missing, and how many.
    pub(super) short: Vec<(EventKind, String)>,
}

/// Expected against seen, of one kind of event on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    expected: u64,
    seen: u64,
    /// Of those seen: raised in the idle task.
    idle: u64,
    /// Of those expected: what tasks other than the idle task may have hidden.
    hidden: u64,
}

impl Count {
    fn is_short(&self) -> bool {
        self.seen + self.hidden + EDGE + self.expected / 100 < self.expected
    }
}

/// What one thread of a pair did between its two readings of getrusage.
#[derive(Clone, Copy, Debug, Default)]
struct Did {
    tid: i32,
    cpu: u32,
    sent: u64,
    received: u64,
    /// How often it was taken off its CPU, and how often because it slept.
    switches: u64,
    sleeps: u64,
    cookie: u64,
}

/// Tests `back` on a few pairs of the CPUs that this process may use; at most a third of a second.
///
/// # Errors
/// As the back end; `Interrupted`: `stop` was set meanwhile.
pub(super) fn run(back: &mut Back, stop: &AtomicBool) -> io::Result<Verdict> {
    let kinds = back.kinds();
    let mut counts: Vec<(EventKind, u32, Count)> = Vec::new();
    let mut names = Vec::new();
    let mut messages = 0;
    let mut lost = 0;
    let mut network = true;
    for pair in pairs(&affinity::allowed()) {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        let (near, far, device) = match sockets() {
            Ok((near, far)) => (near, far, true),
            Err(_) => {
                let (near, far) = UnixStream::pair()?;
                (near.into(), far.into(), false)
            }
        };
        network &= device;
        let (did, events, gone) = one_pair(back, pair, near, far)?;
        lost += gone;
        messages += did[0].sent + did[1].sent;
        names.push(format!("{}+{}", pair[0], pair[1]));
        for kind in &kinds {
            for (cpu, count) in compare(*kind, &did, &events, device) {
                match counts.iter_mut().find(|(own, at, _)| own == kind && *at == cpu) {
                    Some((.., sum)) => {
                        sum.expected += count.expected;
                        sum.seen += count.seen;
                        sum.idle += count.idle;
                        sum.hidden += count.hidden;
                    }
                    None => counts.push((*kind, cpu, count)),
                }
            }
        }
    }
    Ok(judge(&kinds, &counts, messages, &names, network, lost))
}

/// Neighbours, from the first CPUs to the last: at most [`MOST_PAIRS`] pairs.
fn pairs(cpus: &[u32]) -> Vec<[u32; 2]> {
    let pairs: Vec<[u32; 2]> = match cpus {
        [] => Vec::new(),
        [only] => vec![[*only, *only]],
        _ => cpus.chunks(2).map(|pair| [pair[0], *pair.last().unwrap_or(&pair[0])]).collect(),
    };
    let step = pairs.len().div_ceil(MOST_PAIRS).max(1);
    pairs.into_iter().step_by(step).collect()
}

/// Two ends of a connection over loopback.
fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect_timeout(&listener.local_addr()?, LONGEST)?;
    // Whoever connects meanwhile is somebody else.
    let (far, peer) = listener.accept()?;
    if peer != near.local_addr()? {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
    }
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near.into(), far.into()))
}

fn one_pair(
    back: &mut Back,
    cpus: [u32; 2],
    near: OwnedFd,
    far: OwnedFd,
) -> io::Result<([Did; 2], Vec<KernelEvent>, u64)> {
    for end in [&near, &far] {
        socket::set_timeouts(end.as_fd(), LONGEST, LONGEST)?;
    }
    let cookies = [cookie::cookie(near.as_fd())?, cookie::cookie(far.as_fd())?];
    std::thread::scope(|scope| {
        let mut ids = [0; 2];
        let mut starts = Vec::new();
        let mut results = Vec::new();
        for (at, end) in [near, far].into_iter().enumerate() {
            let (given, tid) = sync_channel(1);
            let (start, started) = sync_channel(1);
            let (cpu, cookie) = (cpus[at], cookies[at]);
            let part = move || {
                let did = take_part(&given, &started, cpu, end.as_fd(), at == 0);
                Did { cookie, ..did }
            };
            results.push(std::thread::Builder::new().spawn_scoped(scope, part)?);
            ids[at] = tid.recv().map_err(io::Error::other)?;
            starts.push(start);
        }
        let filter =
            Filter { threads: ids.to_vec(), sockets: cookies.to_vec(), least: SIZE as u32, cpus: threads::cpus(&ids) };
        back.begin(&filter)?;
        // The far end first: the near end's first message shall find it.
        for start in starts.iter().rev() {
            // A thread that is gone is found when it is joined.
            let _ = start.send(());
        }
        let mut did = [Did::default(); 2];
        for (place, result) in did.iter_mut().zip(results) {
            *place = result.join().map_err(|_| io::Error::other("a thread of the test panicked"))?;
        }
        let (mut events, lost) = back.end()?;
        events.sort_by_key(|event| event.t_ns);
        Ok((did, events, lost))
    })
}

/// One end: it tells its thread id, waits for the start, and plays ping-pong. `first`: it sends first.
fn take_part(given: &SyncSender<i32>, started: &Receiver<()>, cpu: u32, end: BorrowedFd<'_>, first: bool) -> Did {
    // A CPU that has gone away meanwhile: anywhere will do.
    let _ = affinity::pin(&[cpu]);
    let mut did = Did { tid: affinity::thread_id(), cpu, ..Did::default() };
    let _ = given.send(did.tid);
    if started.recv_timeout(Duration::from_secs(1)).is_err() {
        return did;
    }
    let before = usage::thread();
    let deadline = Instant::now() + LONGEST;
    let mut buffer = [7_u8; SIZE];
    while did.sent.max(did.received) < MESSAGES && Instant::now() < deadline {
        if first {
            if !put(end, &buffer) {
                break;
            }
            did.sent += 1;
        }
        if !get(end, &mut buffer) {
            break;
        }
        did.received += 1;
        if !first {
            if !put(end, &buffer) {
                break;
            }
            did.sent += 1;
        }
    }
    let after = usage::thread();
    did.sleeps = after.voluntary - before.voluntary;
    did.switches = did.sleeps + after.involuntary - before.involuntary;
    did
}

/// One system call a message: 600 bytes fit into a segment and into any buffer.
fn put(end: BorrowedFd<'_>, buffer: &[u8]) -> bool {
    send(end, buffer, SendFlags::default()).is_ok_and(|sent| sent == SIZE)
}

fn get(end: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    recv(end, buffer).is_ok_and(|received| received == SIZE)
}

/// What two threads must have caused of one kind, and what was seen, for each of their CPUs.
fn compare(kind: EventKind, did: &[Did; 2], events: &[KernelEvent], device: bool) -> Vec<(u32, Count)> {
    use EventKind::*;
    let total = did[0].sent + did[1].sent;
    let of_kind = || events.iter().filter(move |event| event.kind == kind);
    let count = |expected: u64, mine: &dyn Fn(&KernelEvent) -> bool| {
        let mut count = Count { expected, ..Count::default() };
        for event in of_kind().filter(|event| mine(event)) {
            count.seen += 1;
            count.idle += u64::from(event.tid == 0);
        }
        count
    };
    let each = |expected: &dyn Fn(&Did) -> u64, mine: &dyn Fn(&Did, &KernelEvent) -> bool| -> Vec<(u32, Count)> {
        did.iter().map(|one| (one.cpu, count(expected(one), &|event| mine(one, event)))).collect()
    };
    match kind {
        // Taken off and put on: two events each time, which one event is where the two threads follow each other.
        SchedSwitch => did
            .iter()
            .map(|one| {
                let left = count(one.switches, &|event| event.tid == one.tid);
                let came = count(one.switches, &|event| event.b as i32 == one.tid);
                let seen = left.seen.min(one.switches) + came.seen.min(one.switches);
                let hidden = unseen(events, one.tid).from_task;
                (one.cpu, Count { expected: 2 * one.switches, seen, idle: came.idle, hidden })
            })
            .collect(),
        // A wake-up that arrives in the turn of a hidden task is hidden with it.
        SchedWaking | SchedWakeup => did
            .iter()
            .map(|one| {
                let woken = count(one.sleeps, &|event| event.b as i32 == one.tid);
                (one.cpu, Count { hidden: unseen(events, one.tid).from_task, ..woken })
            })
            .collect(),
        SysEnter | SysExit => each(&|one| one.sent + one.received, &|one, event| event.tid == one.tid),
        SkbCopy => each(&|one| one.received, &|one, event| event.tid == one.tid),
        // A sender takes its packet through loopback itself.
        NetDevQueue | NetDevStartXmit | NetifRx if device => each(&|one| one.sent, &|one, event| event.tid == one.tid),
        // Who receives it is the kernel's choice, so it is known by its buffer, and both CPUs are counted together.
        NetifReceiveSkb if device => {
            let ids = [did[0].tid, did[1].tid];
            let sent: BTreeSet<u64> = events
                .iter()
                .filter(|event| event.kind == NetDevStartXmit && ids.contains(&event.tid))
                .map(|event| event.a)
                .collect();
            vec![(did[0].cpu, count(total, &|event| sent.is_empty() || sent.contains(&event.a)))]
        }
        TcpProbe if device => vec![(did[0].cpu, count(total, &|_| true))],
        SkDataReady => each(&|one| one.received, &|one, event| event.b == one.cookie as u32 || event.b == 0),
        _ => Vec::new(),
    }
}

fn judge(
    kinds: &[EventKind],
    counts: &[(EventKind, u32, Count)],
    messages: u64,
    pairs: &[String],
    network: bool,
    lost: u64,
) -> Verdict {
    if messages == 0 {
        return Verdict { sentence: "not run: no message got through".into(), short: Vec::new() };
    }
    let mut short: Vec<(EventKind, String)> = Vec::new();
    let (mut expected, mut seen, mut idle, mut hidden) = (0, 0, 0, 0);
    for (kind, cpu, count) in counts {
        expected += count.expected;
        seen += count.seen.min(count.expected);
        idle += count.idle;
        if *kind == EventKind::SchedSwitch {
            hidden += count.hidden;
        }
        if count.is_short() {
            let in_idle = if count.idle == 0 { ", none of them in the idle task" } else { "" };
            let text = format!("{} of {} {} on CPU {cpu}{in_idle}", count.seen, count.expected, kind.name());
            match short.iter_mut().find(|(own, _)| own == kind) {
                Some((_, texts)) => {
                    texts.push_str("; ");
                    texts.push_str(&text);
                }
                None => short.push((*kind, format!("lost in the self-test: {text}"))),
            }
        }
    }
    let untested: Vec<&str> =
        kinds.iter().filter(|kind| !counts.iter().any(|(own, ..)| own == *kind)).map(|kind| kind.name()).collect();
    let mut sentence =
        format!("{messages} messages between CPUs {}: {seen} of {expected} events seen", pairs.join(", "));
    // Where a CPU is busy its idle task raises nothing, and what it would lose is not found.
    match idle {
        0 => sentence.push_str("; no CPU was idle, so events of its idle task were not tested"),
        idle => sentence.push_str(&format!(", {idle} of them in the idle task")),
    }
    if hidden > 0 {
        sentence.push_str(&format!("; {hidden} switches from tasks that this kernel hides from tracing were not"));
    }
    if lost > 0 {
        sentence.push_str(&format!("; {lost} found no room"));
    }
    if !network {
        sentence.push_str("; no loopback interface, so no packet was among them");
    }
    if !untested.is_empty() {
        sentence.push_str(&format!("; not tested: {}", untested.join(", ")));
    }
    Verdict { sentence, short }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Did; 2] = [
        Did { tid: 10, cpu: 0, sent: 100, received: 100, switches: 100, sleeps: 100, cookie: 5 },
        Did { tid: 11, cpu: 1, sent: 100, received: 100, switches: 100, sleeps: 100, cookie: 6 },
    ];

    fn woken(tid: i32, by: i32) -> KernelEvent {
        KernelEvent { kind: EventKind::SchedWakeup, tid: by, b: tid as u32, ..KernelEvent::default() }
    }

    #[test]
    fn what_the_idle_task_of_one_cpu_loses_is_found_there() {
        let events: Vec<KernelEvent> = (0..100).map(|_| woken(10, 0)).chain((0..3).map(|_| woken(11, 10))).collect();
        let counts: Vec<_> = compare(EventKind::SchedWakeup, &TWO, &events, true)
            .into_iter()
            .map(|(cpu, count)| (EventKind::SchedWakeup, cpu, count))
            .collect();
        assert_eq!(counts[0].2, Count { expected: 100, seen: 100, idle: 100, hidden: 0 });
        assert_eq!(counts[1].2, Count { expected: 100, seen: 3, idle: 0, hidden: 0 });
        let verdict = judge(&[EventKind::SchedWakeup, EventKind::CpuIdle], &counts, 200, &["0+1".into()], true, 0);
        assert_eq!(
            verdict.short,
            [(
                EventKind::SchedWakeup,
                "lost in the self-test: 3 of 100 sched_wakeup on CPU 1, none of them in the idle task".into()
            )]
        );
        assert_eq!(
            verdict.sentence,
            "200 messages between CPUs 0+1: 103 of 200 events seen, 100 of them in the idle task; not tested: cpu_idle"
        );
    }

    #[test]
    fn a_few_at_the_edges_are_no_loss() {
        let of_100 = |seen, hidden| Count { expected: 100, seen, idle: 0, hidden };
        assert!(!of_100(95, 0).is_short() && of_100(94, 0).is_short());
        assert!(
            !of_100(80, 15).is_short() && of_100(80, 14).is_short(),
            "what others hide is not loss of the back end"
        );
        assert!(!Count::default().is_short());
    }

    #[test]
    fn pairs_are_few_and_span_the_machine() {
        assert!(pairs(&[]).is_empty());
        assert_eq!(pairs(&[3]), [[3, 3]]);
        assert_eq!(pairs(&[0, 1]), [[0, 1]]);
        assert_eq!(pairs(&[0, 1, 2]), [[0, 1], [2, 2]]);
        let many = pairs(&(0..64).collect::<Vec<_>>());
        assert_eq!(many, [[0, 1], [22, 23], [44, 45]]);
    }

    #[test]
    fn without_messages_nothing_is_claimed() {
        let verdict = judge(&[EventKind::SchedSwitch], &[], 0, &[], true, 0);
        assert!(verdict.sentence.starts_with("not run") && verdict.short.is_empty());
    }
}
