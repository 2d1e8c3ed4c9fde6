//! The tracing back ends on real traffic: threads of this test exchange messages, and every event that a message must cause is
//! there. What the kernel or the user's rights do not offer is skipped aloud.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::slice::from_ref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use msgpath_agent::observe::{Traced, Tracer};
use msgpath_core::plan::StageSet;
use msgpath_core::schema::{EventKind, KernelEvent, TracedThread, Tracing};
use msgpath_sys::msg::{SendFlags, recv, send};
use msgpath_sys::{affinity, clock, cookie, futex, usage};

const MESSAGES: u64 = 500;
const SIZE: usize = 600;

/// Tests that trace wait for each other: two of them at a time would see each other's packets.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn tracer(set: StageSet) -> Option<(Tracer, Tracing)> {
    let (tracer, tracing) = Tracer::open(set, 200_000);
    if tracer.is_none() {
        println!("skipped: {:?}", tracing.refused);
    }
    Some((tracer?, tracing))
}

/// How one end exchanges messages.
type End = Box<dyn FnMut(bool) -> io::Result<()> + Send>;

/// A thread's part in a round.
struct Part {
    tid: i32,
    switches: u64,
    sleeps: u64,
    /// Between these two times the messages went.
    first: u64,
    last: u64,
}

/// Two threads play ping-pong, traced. `ends`: what sends (true) and receives (false), with the socket's cookie.
fn ping_pong(tracer: &mut Tracer, ends: [(End, Vec<u64>); 2]) -> (Traced, [Part; 2], [TracedThread; 2]) {
    let cpus = affinity::allowed();
    std::thread::scope(|scope| {
        let mut given = Vec::new();
        let mut handles = Vec::new();
        for (at, (mut end, cookies)) in ends.into_iter().enumerate() {
            let (tell, tid) = sync_channel(1);
            let (start, started) = sync_channel::<()>(1);
            let cpu = cpus[at % cpus.len()];
            handles.push(scope.spawn(move || {
                affinity::pin(&[cpu]).unwrap();
                tell.send(affinity::thread_id()).unwrap();
                started.recv().unwrap();
                let before = usage::thread();
                let first = clock::now();
                for _ in 0..MESSAGES {
                    end(at == 0).unwrap();
                    end(at != 0).unwrap();
                }
                let last = clock::now();
                let after = usage::thread();
                let sleeps = after.voluntary - before.voluntary;
                let switches = sleeps + after.involuntary - before.involuntary;
                Part { tid: affinity::thread_id(), switches, sleeps, first, last }
            }));
            let tid = tid.recv().unwrap();
            given.push((TracedThread { tid, sends: true, receives: true, cookies }, start));
        }
        let (far, start_far) = given.pop().unwrap();
        let (near, start_near) = given.pop().unwrap();
        tracer.begin(from_ref(&near), from_ref(&far), SIZE as u32).unwrap();
        start_far.send(()).unwrap();
        start_near.send(()).unwrap();
        let mut parts = handles.into_iter().map(|handle| handle.join().unwrap());
        let parts = [parts.next().unwrap(), parts.next().unwrap()];
        (tracer.end().unwrap(), parts, [near, far])
    })
}

fn stream(fd: OwnedFd) -> (End, Vec<u64>) {
    let cookie = cookie::cookie(fd.as_fd()).unwrap();
    let mut buffer = vec![3_u8; SIZE];
    let end = move |sends: bool| {
        let moved =
            if sends { send(fd.as_fd(), &buffer, SendFlags::default())? } else { recv(fd.as_fd(), &mut buffer)? };
        assert_eq!(moved, SIZE, "one call a message");
        Ok(())
    };
    (Box::new(end), vec![cookie])
}

fn tcp() -> [(End, Vec<u64>); 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    [stream(near.into()), stream(far.into())]
}

fn udp() -> [(End, Vec<u64>); 2] {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    [stream(near.into()), stream(far.into())]
}

fn unix() -> [(End, Vec<u64>); 2] {
    let (near, far) = UnixStream::pair().unwrap();
    [stream(near.into()), stream(far.into())]
}

/// A word that each end sets and waits for.
fn futexes() -> [(End, Vec<u64>); 2] {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    [0, 1].map(|at| {
        let words = Arc::clone(&words);
        let mut seen = 0;
        let end = move |sends: bool| {
            if sends {
                words[at].fetch_add(1, Ordering::SeqCst);
                futex::wake(&words[at])?;
                return Ok(());
            }
            let word = &words[1 - at];
            while word.load(Ordering::SeqCst) == seen {
                let _ = futex::wait(word, seen, Duration::from_secs(5));
            }
            seen += 1;
            Ok(())
        };
        (Box::new(end) as End, Vec::new())
    })
}

/// Events of a kind inside the time of one end's messages, or of both, that concern these threads. Other programs' packets are
/// left out: a sender takes its packet through loopback itself, and from there on it is known by its buffer.
fn count(
    traced: &Traced,
    parts: &[Part; 2],
    of: Option<&Part>,
    kind: EventKind,
    mine: impl Fn(i32, i32) -> bool,
) -> u64 {
    let either = || of.into_iter().chain(parts.iter().filter(|_| of.is_none()));
    let from = either().map(|part| part.first).min().unwrap();
    let to = either().map(|part| part.last).max().unwrap();
    let ends = [parts[0].tid, parts[1].tid];
    let mut on_its_way = BTreeSet::new();
    let own = traced.events.iter().filter(|event| {
        let by_an_end = ends.contains(&event.tid);
        let own = match event.kind {
            EventKind::NetDevStartXmit => {
                // Whoever sends next may be given the same buffer.
                if by_an_end {
                    on_its_way.insert(event.a)
                } else {
                    on_its_way.remove(&event.a)
                };
                by_an_end
            }
            EventKind::NetifReceiveSkb => on_its_way.remove(&event.a),
            EventKind::NetDevQueue | EventKind::NetifRx => by_an_end,
            _ => true,
        };
        own && event.kind == kind
    });
    own.filter(|event| (from..=to).contains(&event.t_ns) && mine(event.tid, event.b as i32)).count() as u64
}

/// The same where an event belongs to the thread that ran, which is waiting for its start before its first message.
fn count_own(traced: &Traced, parts: &[Part; 2], kind: EventKind) -> u64 {
    parts.iter().map(|part| count(traced, parts, Some(part), kind, |tid, _| tid == part.tid)).sum()
}

fn is_of_its_thread(kind: EventKind) -> bool {
    matches!(kind, EventKind::SysEnter | EventKind::SysExit | EventKind::SkbCopy)
}

/// `expected`, or a few more or less at the edges.
#[track_caller]
fn close(what: &str, seen: u64, expected: u64) {
    assert!(seen.abs_diff(expected) <= 4, "{what}: {seen} instead of {expected}");
}

/// Sleeping, waking, being switched: as often as getrusage says. Everything else is the path's own.
/// Returns how many switches were hidden.
fn check_scheduler(tracing: &Tracing, traced: &Traced, parts: &[Part; 2]) -> u64 {
    let mut hidden = 0;
    assert_eq!(traced.lost, 0);
    assert!(traced.events.is_sorted_by_key(|event| event.t_ns));
    for part in parts {
        let own = part.tid;
        let left = count(traced, parts, Some(part), EventKind::SchedSwitch, |tid, _| tid == own);
        let came = count(traced, parts, Some(part), EventKind::SchedSwitch, |_, next| next == own);
        close("left its CPU", left, part.switches);
        // Where another task is hidden from tracing, nobody sees how its turn ends.
        let unseen = traced.unseen.get(&own).copied().unwrap_or(0);
        assert!(
            came <= part.switches + 4 && came + unseen + 4 >= part.switches,
            "{came} + {unseen} of {}",
            part.switches
        );
        hidden += unseen;
        let slept = traced.events.iter().filter(|event| {
            let blocked = event.a & 0xff != 0 && event.flags == 0;
            event.kind == EventKind::SchedSwitch && event.tid == own && blocked
        });
        assert!(slept.count() as u64 + 4 >= part.sleeps, "its sleeps are told from its preemptions");
        for kind in [EventKind::SchedWaking, EventKind::SchedWakeup] {
            if tracing.events.iter().any(|name| name == kind.name()) {
                let woken = count(traced, parts, Some(part), kind, |_, woken| woken == own);
                assert!(woken + unseen + 4 >= part.sleeps, "{}: {woken} of {}", kind.name(), part.sleeps);
            }
        }
        assert!(traced.tasks.contains_key(&own), "its name");
    }
    assert!(traced.tasks.get(&0).is_none_or(|name| name == "idle"));
    hidden
}

/// What one message causes beside the scheduler, by set and path.
fn check_messages(tracing: &Tracing, traced: &Traced, parts: &[Part; 2], per_message: &[(EventKind, u64)]) {
    for (kind, events) in per_message {
        assert!(tracing.events.iter().any(|name| name == kind.name()), "{} is not recorded: {tracing:?}", kind.name());
        let seen = match is_of_its_thread(*kind) {
            true => count_own(traced, parts, *kind),
            false => count(traced, parts, None, *kind, |_, _| true),
        };
        let expected = events * 2 * MESSAGES;
        match kind {
            // Also somebody else's packets are sent by whoever happens to run.
            EventKind::NetDevQueue | EventKind::NetDevStartXmit | EventKind::NetifRx | EventKind::NetifReceiveSkb => {
                assert!(seen + 4 >= expected, "{}: {seen} of {expected}", kind.name());
            }
            // Sockets that the second back end does not know may be anybody's.
            EventKind::SkDataReady if traced.events.iter().any(|event| event.kind == *kind && event.b == 0) => {
                assert!(seen + 4 >= expected, "{}: {seen} of {expected}", kind.name());
            }
            _ => close(kind.name(), seen, expected),
        }
    }
}

fn events_per_round_trip(traced: &Traced, parts: &[Part; 2]) -> f64 {
    use EventKind::*;
    let counted = EventKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, NapiGroReceive | SoftirqEntry | SoftirqExit | CpuIdle));
    let ends = [parts[0].tid, parts[1].tid];
    let sum: u64 = counted
        .map(|kind| match is_of_its_thread(kind) {
            true => count_own(traced, parts, kind),
            false => count(traced, parts, None, kind, |tid, other| {
                kind != SchedSwitch || ends.contains(&tid) || ends.contains(&other)
            }),
        })
        .sum();
    sum as f64 / MESSAGES as f64
}

/// As many events per round trip as `reference` says, where both receivers slept and were woken every time.
fn check_sum(set: StageSet, path: &str, traced: &Traced, parts: &[Part; 2], reference: f64, hidden: u64) {
    let sum = events_per_round_trip(traced, parts);
    let slept = parts.iter().all(|part| part.sleeps.abs_diff(MESSAGES) <= 1 && part.switches == part.sleeps);
    println!("{path}, {}: {sum:.2} events a round trip, {reference} where every receiver sleeps", set.name());
    if slept {
        let per_trip = hidden as f64 / MESSAGES as f64;
        // What others on this machine sent meanwhile: packets, and data of sockets that no device sees.
        let beyond = |kind| count(traced, parts, None, kind, |_, _| true).saturating_sub(2 * MESSAGES) as f64;
        let others = (4.0 * beyond(EventKind::NetDevStartXmit) + beyond(EventKind::SkDataReady)) / MESSAGES as f64;
        // A hidden task takes the wake-up that comes in its turn with it.
        let range = reference - 0.1 - 2.0 * per_trip..=reference + 0.1 + others;
        let kinds = || EventKind::ALL.map(|kind| (kind.name(), count(traced, parts, None, kind, |_, _| true)));
        assert!(range.contains(&sum), "{path}, {}: {sum}, {:?}", set.name(), kinds());
    }
}

fn both_sets(path: &str, ends: fn() -> [(End, Vec<u64>); 2], light: (&[EventKind], f64), full: (&[EventKind], f64)) {
    let _alone = alone();
    for (set, (kinds, reference)) in [(StageSet::Light, light), (StageSet::Full, full)] {
        let Some((mut tracer, tracing)) = tracer(set) else { return };
        println!("{tracing:?}");
        // Twice: the second round is not to see what the first left.
        for _ in 0..2 {
            let (traced, parts, _) = ping_pong(&mut tracer, ends());
            let hidden = check_scheduler(&tracing, &traced, &parts);
            let per_message: Vec<(EventKind, u64)> = kinds
                .iter()
                .map(|kind| (*kind, if matches!(kind, EventKind::SysEnter | EventKind::SysExit) { 2 } else { 1 }))
                .collect();
            check_messages(&tracing, &traced, &parts, &per_message);
            // One event less for each direction: the second back end has no `sched_wakeup`.
            let reference = if tracing.wakeups_joined { reference - 2.0 } else { reference };
            check_sum(set, path, &traced, &parts, reference, hidden);
        }
    }
}

#[test]
fn every_event_of_a_tcp_message_is_there() {
    use EventKind::*;
    both_sets(
        "TCP",
        tcp,
        (&[NetDevStartXmit, NetifReceiveSkb, SkDataReady], 14.0),
        (
            &[
                NetDevQueue,
                NetDevStartXmit,
                NetifRx,
                NetifReceiveSkb,
                TcpProbe,
                SkDataReady,
                SkbCopy,
                SysEnter,
                SysExit,
            ],
            30.0,
        ),
    );
}

#[test]
fn every_event_of_a_udp_message_is_there() {
    use EventKind::*;
    both_sets(
        "UDP",
        udp,
        (&[NetDevStartXmit, NetifReceiveSkb, SkDataReady], 14.0),
        (&[NetDevQueue, NetDevStartXmit, NetifRx, NetifReceiveSkb, SkDataReady, SysEnter, SysExit], 26.0),
    );
}

#[test]
fn every_event_of_a_unix_message_is_there() {
    let _alone = alone();
    for set in [StageSet::Light, StageSet::Full] {
        let Some((mut tracer, tracing)) = tracer(set) else { return };
        let (traced, parts, threads) = ping_pong(&mut tracer, unix());
        check_scheduler(&tracing, &traced, &parts);
        // Reading tells the peer that there is room again, which raises its `sk_data_ready` no more than once a message.
        let ready = count(&traced, &parts, None, EventKind::SkDataReady, |_, _| true);
        assert!(ready + 4 >= 2 * MESSAGES, "{ready}");
        let cookies: Vec<u32> = threads.iter().flat_map(|end| &end.cookies).map(|cookie| *cookie as u32).collect();
        let of_these =
            count(&traced, &parts, None, EventKind::SkDataReady, |_, b| b == 0 || cookies.contains(&(b as u32)));
        assert_eq!(of_these, ready);
        if set == StageSet::Full {
            use EventKind::{SkbCopy, SysEnter, SysExit};
            check_messages(&tracing, &traced, &parts, &[(SkbCopy, 1), (SysEnter, 2), (SysExit, 2)]);
        }
    }
}

#[test]
fn every_event_of_a_message_in_shared_memory_is_there() {
    let _alone = alone();
    for set in [StageSet::Light, StageSet::Full] {
        let Some((mut tracer, tracing)) = tracer(set) else { return };
        let (traced, parts, _) = ping_pong(&mut tracer, futexes());
        check_scheduler(&tracing, &traced, &parts);
        // A socket that is not known may be anybody's.
        assert_eq!(count(&traced, &parts, None, EventKind::SkDataReady, |_, b| b != 0), 0, "there is no socket");
        if set == StageSet::Full {
            // One call wakes, and one waits unless the word has changed already.
            let calls = count_own(&traced, &parts, EventKind::SysEnter);
            assert!((2 * MESSAGES - 4..=4 * MESSAGES + 4 * 100).contains(&calls), "{calls}");
            close("calls that returned", count_own(&traced, &parts, EventKind::SysExit), calls);
        }
    }
}

/// The full set knows everything that the CPUs of the ends did: softirqs, idle states, and who ran.
#[test]
fn the_full_set_tells_what_else_the_cpus_did() {
    let _alone = alone();
    let Some((mut tracer, tracing)) = tracer(StageSet::Full) else { return };
    let (traced, parts, _) = ping_pong(&mut tracer, tcp());
    let [entries, exits] =
        [EventKind::SoftirqEntry, EventKind::SoftirqExit].map(|kind| count(&traced, &parts, None, kind, |_, _| true));
    assert!(entries >= MESSAGES, "{entries} softirqs for {} packets", 2 * MESSAGES);
    close("softirqs that ended", exits, entries);
    // On each CPU every switch begins with the task with which the one before ended, but for tasks that the kernel hides.
    if tracing.backend.as_deref().is_some_and(|name| name.starts_with("BPF")) {
        let mut running = BTreeMap::new();
        let (mut whole, mut broken) = (0, BTreeMap::new());
        for event in traced.events.iter().filter(|event| event.kind == EventKind::SchedSwitch) {
            match running.insert(event.cpu, event.b as i32) {
                Some(before) if before != event.tid => *broken.entry(before).or_insert(0) += 1,
                _ => whole += 1,
            }
        }
        println!("{whole} switches follow the one before; not those that end the turn of {broken:?}");
        assert!(whole > 0);
        for hidden in broken.keys() {
            let given = traced.events.iter().any(|event| event.kind == EventKind::SchedSwitch && event.tid == *hidden);
            assert!(!given, "switches of {hidden} are seen at one time and not at another");
        }
    }
}

/// /proc knows it neither before the round nor after: its name comes with the switch.
#[test]
fn a_task_that_lived_within_the_round_has_its_name() {
    let _alone = alone();
    let Some((mut tracer, _)) = tracer(StageSet::Full) else { return };
    // The child stays on this thread's CPU, of which every switch is recorded.
    affinity::pin(&affinity::allowed()[..1]).unwrap();
    let own = TracedThread { tid: affinity::thread_id(), sends: true, receives: true, cookies: Vec::new() };
    tracer.begin(from_ref(&own), &[], 0).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    assert!(child.wait().unwrap().success());
    let traced = tracer.end().unwrap();
    assert_eq!(traced.tasks.get(&pid).map(String::as_str), Some("true"), "{:?}", traced.tasks);
}

#[test]
fn a_round_that_is_larger_than_its_room_says_what_was_lost() {
    let _alone = alone();
    let (tracer, tracing) = Tracer::open(StageSet::Full, 1);
    let Some(mut tracer) = tracer else {
        println!("skipped: {:?}", tracing.refused);
        return;
    };
    let own = TracedThread { tid: affinity::thread_id(), sends: true, receives: true, cookies: Vec::new() };
    affinity::pin(&affinity::allowed()[..1]).unwrap();
    tracer.begin(from_ref(&own), &[], 0).unwrap();
    // Each call is two events, and the room is for 16384 or, as rings are, up to four times as many.
    for _ in 0..50_000 {
        let _ = affinity::allowed();
    }
    let traced = tracer.end().unwrap();
    assert!(traced.lost > 0 && !traced.events.is_empty(), "{} lost, {} kept", traced.lost, traced.events.len());
    // And the next one has all its room again.
    tracer.begin(from_ref(&own), &[], 0).unwrap();
    let _ = affinity::allowed();
    let traced = tracer.end().unwrap();
    assert_eq!(traced.lost, 0);
    assert!(traced.events.len() < 5000, "{}", traced.events.len());
}

#[test]
fn a_round_of_threads_that_are_gone_is_empty() {
    let _alone = alone();
    let Some((mut tracer, _)) = tracer(StageSet::Light) else { return };
    let gone = TracedThread { tid: i32::MAX, sends: true, receives: true, cookies: vec![u64::MAX] };
    tracer.begin(from_ref(&gone), &[], u32::MAX).unwrap();
    let traced = tracer.end().unwrap();
    // Other programs' sockets are not known to the second back end.
    let anybodys = |event: &KernelEvent| event.kind == EventKind::SkDataReady && event.b == 0;
    assert!(traced.events.iter().all(anybodys) && traced.lost == 0, "{traced:?}");
}

/// Without a tracer every back end says why, and what would grant it.
#[test]
fn whoever_may_not_trace_is_told_why() {
    let _alone = alone();
    let (tracer, tracing) = Tracer::open(StageSet::Light, 1000);
    assert_eq!(tracer.is_some(), tracing.backend.is_some());
    match tracing.backend.as_deref() {
        Some(name) => {
            assert!(tracing.self_test.contains("events seen"), "{tracing:?}");
            assert!(tracing.events.iter().any(|name| name == "sched_switch"), "{tracing:?}");
            assert_eq!(tracing.refused.len(), usize::from(!name.starts_with("BPF")), "{tracing:?}");
        }
        None => {
            assert_eq!(tracing.refused.len(), 2);
            println!("{tracing:?}");
            assert!(tracing.refused.iter().all(|(_, why)| !why.why.is_empty()), "{tracing:?}");
        }
    }
}

/// Variable by which a test starts itself as the program that is killed, or inside a mount namespace.
const INNER: &str = "MSGPATH_TEST_INNER";

/// Program ids in the descriptors of a process.
fn programs_of(process: u32) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else { return Vec::new() };
    folder
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect()
}

#[test]
fn nothing_stays_attached_after_kill_9() {
    if std::env::var_os(INNER).is_some_and(|role| role == "killed") {
        let (tracer, _) = Tracer::open(StageSet::Full, 1000);
        let Some(mut tracer) = tracer else { return };
        let own = TracedThread { tid: affinity::thread_id(), sends: true, receives: true, cookies: Vec::new() };
        tracer.begin(from_ref(&own), &[], 0).unwrap();
        println!("tracing");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    if msgpath_sys::bpf::loaded_programs().is_err() {
        println!("skipped: no right to list BPF programs");
        return;
    }
    let _alone = alone();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_stays_attached_after_kill_9", "--nocapture"])
        .env(INNER, "killed")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = io::BufReader::new(child.stdout.take().unwrap());
    let tracing = io::BufRead::lines(output).map_while(Result::ok).any(|line| line.contains("tracing"));
    let programs = programs_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    if !tracing || programs.is_empty() {
        println!("skipped: no BPF back end here");
        return;
    }
    // The kernel frees a program when nobody can be inside it any more.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = msgpath_sys::bpf::loaded_programs().unwrap();
        let left: Vec<_> = programs.iter().filter(|id| left.contains(id)).collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "still loaded: {left:?} of {programs:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// tracefs is mounted where nobody else sees it, and the tests above run once more on the second back end.
#[test]
fn the_second_back_end_passes_the_same_tests() {
    if std::env::var_os(INNER).is_some() {
        return;
    }
    let _alone = alone();
    let script = "mount --make-rprivate / && mount -t tracefs tracefs /sys/kernel/tracing && exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--skip", "nothing_stays_attached_after_kill_9"])
        .env(INNER, "perf")
        .env(msgpath_agent::observe::CHOICE, "perf")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: unshare: {error}");
            return;
        }
    };
    let texts = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !texts.contains("running") {
        println!("skipped: no mount namespace with tracefs: {texts}");
        return;
    }
    assert!(output.status.success(), "{texts}");
    if !texts.contains("perf tracepoints and switch records") {
        println!("skipped: no perf back end here: {texts}");
    }
}
