use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use msgpath_core::Workload;
use msgpath_core::plan::{Dispatch, Distribution, ServiceTime, StageSet};
use msgpath_core::schedule::Arrivals;
use msgpath_core::schema::{EventKind, KernelEvent};
use msgpath_core::units::Pieces;
use msgpath_paths::registry::{Entry, TRANSPORTS};
use msgpath_paths::{AnyChannel, Channel, Driver, End, Family, Layout, Method, Wait, transport, with_ends};
use msgpath_sys::veth;

use super::round::{ACCEPT, runs_over_ip};
use super::*;
use crate::memory::tests::order;
use crate::payload::{Payload, pattern};
use crate::team::need;
use crate::wire::{Load, Own, TraceOrder};

/// A limit that only a session which does not end reaches.
const NEVER: Duration = Duration::from_secs(30);

/// The near end of a session, by hand.
struct Near {
    control: UnixStream,
    ended: Receiver<io::Result<()>>,
    lease: Arc<Lease>,
    /// What its orders are about, open as long as it is there.
    kept: Vec<Box<dyn std::any::Any + Send>>,
}

impl Near {
    fn new(reach: Reach, terms: Terms) -> Self {
        Self::of(Peer { reach, ..Peer::default() }, terms)
    }

    fn of(peer: Peer, terms: Terms) -> Self {
        let (control, mut far) = UnixStream::pair().unwrap();
        let (done, ended) = channel();
        let lease = Arc::new(Lease::new(Duration::from_secs(60)));
        let kept = Arc::clone(&lease);
        std::thread::spawn(move || {
            let mut write = far.try_clone().unwrap();
            let _ = done.send(session(&mut far, &mut write, Begun::default(), peer, &terms, &kept));
        });
        Self { control, ended, lease, kept: Vec::new() }
    }

    fn say(&mut self, message: &ToEnd) {
        wire::write(&mut self.control, message, &[]).unwrap();
    }

    fn asks(&mut self, message: &ToEnd) -> FromEnd {
        self.say(message);
        wire::read(&mut self.control).unwrap().unwrap().0
    }

    fn orders(&mut self, order: &RoundOrder) -> FromEnd {
        self.asks(&ToEnd::Round(Box::new(order.clone())))
    }

    /// Begins a round; this end's channels.
    fn begins(&mut self, order: &RoundOrder) -> Vec<AnyChannel> {
        let FromEnd::Offered { addresses, .. } = self.orders(order) else { panic!("{}: no offer", order.path) };
        let order = &on(order, DEVICES[0]);
        let entry = Entry::find(&order.path).unwrap();
        let need = need(order, &entry, (Ipv4Addr::LOCALHOST, 0).into(), None, Arc::default());
        let connected = addresses.iter().map(|address| entry.transport.connect(address, &need).unwrap());
        let (channels, locals) = connected.unzip();
        let ready = self.asks(&ToEnd::Connect { locals });
        assert!(matches!(ready, FromEnd::Ready { .. }), "{}: {ready:?}", order.path);
        channels
    }
}

/// What the end by hand does with its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Sends,
    Receives,
    Answers,
}

/// A pair of devices, for what wants one for each end.
const DEVICES: [&str; 2] = ["mps0", "mps1"];

fn wants_devices(path: &msgpath_core::PathName) -> bool {
    Entry::find(path).unwrap().transport.meta().family == Family::Xsk
}

/// The same order for the end that has this device.
fn on(order: &RoundOrder, device: &str) -> RoundOrder {
    let mut order = order.clone();
    if wants_devices(&order.path) {
        order.options.interface = device.into();
    }
    order
}

/// Does something where both ends of a path can be.
fn in_place<T: Send>(path: &msgpath_core::PathName, what: impl FnOnce() -> T + Send) -> T {
    if wants_devices(path) { veth::with_pair(DEVICES, what).unwrap() } else { what() }
}

/// Does it until it cannot any more, and counts the messages.
struct Traffic {
    does: Does,
    /// It stands still after so many: it neither receives nor closes.
    most: u64,
    came: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Traffic {
    /// Goes on in a thread of its own, which is left behind where nothing ends a full queue that nobody reads.
    fn goes_on(does: Does, most: u64, order: &RoundOrder, channels: Vec<AnyChannel>) -> Self {
        let (came, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let own = Self { does, most, came: Arc::clone(&came), stop: Arc::clone(&stop) };
        let (path, options) = (order.path.clone(), order.options.clone());
        std::thread::spawn(move || {
            let inflight = Layout::UNANSWERED;
            let layout = Layout { pieces: Pieces::whole(64), inflight, copies: 1, content: &pattern };
            let _ = with_ends(&path, channels, layout, &options, own);
        });
        Self { does, most, came, stop }
    }

    fn wait_for(&self, messages: u64, what: &str) {
        let begun = Instant::now();
        while self.came.load(Ordering::Relaxed) < messages && begun.elapsed() < NEVER {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(self.came.load(Ordering::Relaxed) >= messages, "{what}: nothing came");
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Driver for Traffic {
    type Out = ();
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
        let End { channel, method, wait } = &mut ends[0];
        let (mut bytes, payload) = ([0; 64], Payload::new(Pieces::whole(64)));
        while !self.stop.load(Ordering::Relaxed) {
            let sequence = self.came.load(Ordering::Relaxed);
            if sequence >= self.most {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let received = match self.does {
                Does::Sends => Ok(1),
                Does::Receives | Does::Answers => wait.recv(channel, &mut bytes),
            };
            let sequence = if self.does == Does::Answers { payload.sequence(&bytes) } else { sequence };
            let done = match received {
                Ok(length) if length > 0 && self.does != Does::Receives => method
                    .slot(channel)
                    .map(|slot| payload.number(slot, sequence))
                    .and_then(|()| method.send(channel))
                    .and_then(|()| method.flush(channel))
                    .map(|()| length),
                other => other,
            };
            match done {
                Ok(0) => return,
                Ok(_) => drop(self.came.fetch_add(1, Ordering::Relaxed)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

/// The round that never ends by itself: an echo server that waits, a receiver in a flood, a sender.
fn endless(path: &msgpath_core::PathName, role: &str) -> RoundOrder {
    let order = RoundOrder {
        path: path.clone(),
        workload: if role == "echo" { Workload::ECHO } else { Workload::STREAM },
        reverse: role == "sender",
        messages: 1 << 39,
        ..order("tcp:send")
    };
    on(&order, DEVICES[1])
}

/// Nothing must run on when the control channel has closed, whatever the near end does with its data connections.
/// How long it took: until the session had ended, and until the last message came.
fn ends_with_its_control_channel(order: &RoundOrder, role: &str, finishing: bool) -> Duration {
    let what = format!("{} {role}, finishing: {finishing}", order.path);
    let mut near = Near::new(Reach::Own, Terms::default());
    let channels = near.begins(order);
    // An echo server waits for an end that is open and silent.
    let (does, most) = match role {
        "receiver" => (Does::Sends, u64::MAX),
        "sender" => (Does::Receives, u64::MAX),
        _ => (Does::Answers, 0),
    };
    let traffic = Traffic::goes_on(does, most, order, channels);
    traffic.wait_for(most.min(100), &what);
    if finishing {
        near.say(&ToEnd::Finish);
    }
    let closed = Instant::now();
    drop(near.control);
    let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{what}: it goes on"));
    let left = ended.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(!left.contains("does not end"), "{what}: {left}");
    let mut took = closed.elapsed();
    // What lies in the kernel's buffers still comes, and then nothing more.
    let came = || traffic.came.load(Ordering::Relaxed);
    let (mut seen, mut quiet) = (came(), Instant::now());
    let begun = Instant::now();
    while role == "sender" && quiet.elapsed() < Duration::from_millis(100) {
        assert!(begun.elapsed() < NEVER, "{what}: messages keep coming");
        std::thread::sleep(Duration::from_millis(5));
        let now = came();
        if now != seen {
            (seen, quiet, took) = (now, Instant::now(), closed.elapsed());
        }
    }
    say(order, role, if finishing { "finishing" } else { "" }, took)
}

fn say(order: &RoundOrder, role: &str, when: &str, took: Duration) -> Duration {
    println!("{:<16} {role:<18} {when:<10} {:6.1} ms", order.path.to_string(), took.as_secs_f64() * 1e3);
    took
}

/// The near end of a round, whose far end is done by hand: it answers for `most` messages and then stands still,
/// keeping its connection.
fn near_ends_with_its_control_channel(order: &RoundOrder, load: Option<Load>, most: u64) -> Duration {
    let role = match (order.workload.timed, order.reverse, &load) {
        (false, false, _) => "stream sender",
        (false, true, _) => "stream receiver",
        (_, _, None) => "echo client",
        _ => "open-loop sender",
    };
    let what = format!("{} {role}, after {most} messages", order.path);
    let does = match role {
        "stream sender" => Does::Receives,
        "stream receiver" => Does::Sends,
        _ => Does::Answers,
    };
    let entry = Entry::find(&order.path).unwrap();
    let need = need(order, &entry, (Ipv4Addr::LOCALHOST, 0).into(), None, Arc::default());
    let mut offer = entry.transport.offer(&need).unwrap();
    let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 0, load };
    let mut near = Near::new(Reach::Own, Terms::default());
    let dial = Dial { order: on(order, DEVICES[0]), own, peer: None, addresses: offer.addresses() };
    let connected = near.asks(&ToEnd::Dial(Box::new(dial)));
    let FromEnd::Connected { locals, .. } = connected else { panic!("{what}: {connected:?}") };
    let traffic = Traffic::goes_on(does, most, order, offer.accept(&locals, ACCEPT).unwrap());
    let ready = near.asks(&ToEnd::Start);
    let FromEnd::Ready { threads, .. } = ready else { panic!("{what}: {ready:?}") };
    near.say(&ToEnd::Go);
    traffic.wait_for(most.min(100), &what);
    if most < u64::MAX {
        // Until queues are full and all wait; who may lose messages never does.
        let ran = || -> Vec<Option<String>> {
            let path = |tid| format!("/proc/self/task/{tid}/schedstat");
            threads.iter().map(|thread| std::fs::read_to_string(path(thread.tid)).ok()).collect()
        };
        let (begun, mut before) = (Instant::now(), Vec::new());
        while before != ran() && begun.elapsed() < Duration::from_millis(500) {
            before = ran();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    near.control.set_nonblocking(true).unwrap();
    let text = wire::read::<FromEnd>(&mut near.control);
    assert!(text.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{what}: it was over before");
    let closed = Instant::now();
    drop(near.control);
    let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{what}: it goes on"));
    let took = closed.elapsed();
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
    say(order, role, if most < u64::MAX { "stalled" } else { "" }, took)
}

/// The default path of every transport that is to be had here.
fn paths() -> Vec<msgpath_core::PathName> {
    let mut paths = Vec::new();
    for transport in TRANSPORTS {
        let meta = transport.meta();
        let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
        match transport.probe() {
            Ok(()) => paths.push(path),
            Err(reason) => eprintln!("skipped: {path}: {}", reason.why),
        }
    }
    paths
}

/// What a far end can be over a path.
fn roles(path: &msgpath_core::PathName) -> &'static [&'static str] {
    match Entry::find(path).unwrap().transport.streams() {
        Ok(()) => &["echo", "receiver", "sender"],
        Err(_) => &["echo"],
    }
}

/// Every transport and role of the far end, and the longest that one of them took.
fn all_end_with_their_control_channel() -> Duration {
    let mut longest = Duration::ZERO;
    for path in paths() {
        for role in roles(&path) {
            for finishing in [false, true] {
                let ends = || ends_with_its_control_channel(&endless(&path, role), role, finishing);
                longest = longest.max(in_place(&path, ends));
            }
        }
    }
    let spin = "shm:ring/spin".parse::<msgpath_core::path::PathSpec>().unwrap();
    let spin = msgpath_paths::resolve(&spin, None).unwrap();
    longest = longest.max(ends_with_its_control_channel(&endless(&spin, "echo"), "echo", true));
    let epoll = msgpath_core::PathName::new("tcp", "send", "epoll");
    let looping = RoundOrder { dispatch: Dispatch::EventLoop, ..endless(&epoll, "echo") };
    longest.max(ends_with_its_control_channel(&looping, "echo", true))
}

/// Every transport and role of the near end, with a far end that goes on and with one that stands still.
fn all_near_ends_end_with_their_control_channel() -> Duration {
    let load = |gap_ns| Load {
        gap_ns,
        arrivals: Arrivals::Constant,
        seed: (1, 0, 0),
        cpus: Vec::new(),
        most: 64,
        debts: vec![],
    };
    // Every message of a schedule is in memory: 40 s of them.
    let open = |path: &_| RoundOrder { messages: 200_000, ..endless(path, "echo") };
    let mut longest = Duration::ZERO;
    let mut note = |took: Duration| longest = longest.max(took);
    for path in paths() {
        for most in [u64::MAX, 100] {
            // The near end sends where the far end receives.
            for far in roles(&path) {
                let ends = || near_ends_with_its_control_channel(&endless(&path, far), None, most);
                note(in_place(&path, ends));
            }
            if Entry::find(&path).unwrap().transport.shares().is_ok() {
                note(near_ends_with_its_control_channel(&open(&path), Some(load(200_000.0)), most));
            }
        }
    }
    // Nothing is due for hours.
    let tcp = order("tcp:send").path;
    note(near_ends_with_its_control_channel(&open(&tcp), Some(load(1e13)), 0));
    let epoll = msgpath_core::PathName::new("tcp", "send", "epoll");
    for dispatch in [Dispatch::Turns, Dispatch::EventLoop] {
        let looping = RoundOrder { dispatch, inflight: 4, ..endless(&epoll, "echo") };
        note(near_ends_with_its_control_channel(&looping, None, u64::MAX));
        note(near_ends_with_its_control_channel(&looping, None, 100));
    }
    let spin = "shm:ring/spin".parse::<msgpath_core::path::PathSpec>().unwrap();
    let spin = msgpath_paths::resolve(&spin, None).unwrap();
    note(near_ends_with_its_control_channel(&endless(&spin, "echo"), None, 100));
    longest
}

/// A listener whose queue is full: who connects there waits.
struct Full {
    address: std::net::SocketAddr,
    _kept: (std::net::TcpListener, Vec<std::net::TcpStream>),
}

impl Full {
    fn new() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        msgpath_sys::socket::set_backlog(listener.as_fd(), 0).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
        let kept: Vec<_> = std::iter::from_fn(|| connect().ok()).take(16).collect();
        assert!(kept.len() < 16, "the queue takes everybody");
        Self { address, _kept: (listener, kept) }
    }
}

/// The order of a near end that dials there.
fn dial_to(address: String, order: RoundOrder) -> ToEnd {
    let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 0, load: None };
    ToEnd::Dial(Box::new(Dial { order, own, peer: None, addresses: vec![address] }))
}

/// A round with a program of others.
fn with_program(command: &str) -> RoundOrder {
    let program = msgpath_core::Program::parse(command).unwrap();
    let talk = msgpath_core::program::Talk::default();
    RoundOrder { program: Some(Box::new(crate::wire::ProgramOrder { program, talk })), ..order("tcp:send") }
}

/// A round whose addresses the far end has said, and to which nobody connects. `locals`: as if it had been connected to.
fn connects_and_does_not_come(near: &mut Near, path: &msgpath_core::PathName) {
    let offered = near.orders(&RoundOrder { path: path.clone(), ..order("tcp:send") });
    let FromEnd::Offered { addresses, .. } = offered else { panic!("{path}: {offered:?}") };
    // A local address that nobody has said anything from.
    near.say(&ToEnd::Connect { locals: vec!["127.0.0.1:9".into(); addresses.len()] });
}

/// Makes a session do something that takes long.
type Begins = Box<dyn FnOnce(&mut Near) + Send>;

/// Every kind of order, by its name.
fn orders() -> Vec<(String, Begins)> {
    roles::add(&roles::tests::ROLES);
    let mut all: Vec<(String, Begins)> = Vec::new();
    let mut add = |name: &str, begins: Begins| all.push((name.to_owned(), begins));
    let says = |order: ToEnd| -> Begins { Box::new(move |near: &mut Near| near.say(&order)) };
    let full = msgpath_core::doctor::Examine {
        end: "far".into(),
        cpus: affinity::allowed(),
        full: true,
        ..Default::default()
    };
    add("hello", says(ToEnd::Hello { version: String::new(), lease_ms: 10_000 }));
    add("examine, in full", says(ToEnd::Examine(full.clone())));
    add(
        "examine, many times",
        Box::new(move |near| {
            (0..8).for_each(|_| near.say(&ToEnd::Examine(full.clone())));
        }),
    );
    let cpus = affinity::allowed();
    let floors = FloorsOrder {
        near: cpus.first().copied(),
        far: cpus.get(1).copied(),
        one_machine: true,
        size: 1 << 20,
        peer: None,
        pieces: Some(Pieces::whole(1000)),
    };
    add("measure", says(ToEnd::Measure(floors)));
    add("trace", says(ToEnd::Trace(TraceOrder { set: StageSet::Full, room: 1 << 20 })));
    add("round", says(ToEnd::Round(Box::new(order("tcp:send")))));
    add("round, large", says(ToEnd::Round(Box::new(RoundOrder { connections: 1000, ..order("tcp:send/epoll") }))));
    // Who has the other of a pair of devices is not waited for.
    for path in paths().into_iter().filter(|path| !wants_devices(path)) {
        let name = format!("connect, {path}");
        all.push((name, Box::new(move |near| connects_and_does_not_come(near, &path))));
    }
    let mut add = |name: &str, begins: Begins| all.push((name.to_owned(), begins));
    // It comes with its key, and does not say what it passes.
    add(
        "connect, half of shm",
        Box::new(|near| {
            let FromEnd::Offered { addresses, .. } = near.orders(&order("shm:ring/futex")) else { panic!("no offer") };
            let need = need(
                &order("unix:send"),
                &Entry::find(&order("unix:send").path).unwrap(),
                (Ipv4Addr::LOCALHOST, 0).into(),
                None,
                Arc::default(),
            );
            let (silent, _) = transport("unix").unwrap().connect(&addresses[0], &need).unwrap();
            near.kept.push(Box::new(silent));
            near.say(&ToEnd::Connect { locals: vec![String::new()] });
        }),
    );
    add(
        "dial",
        Box::new(|near| {
            let full = Full::new();
            near.say(&dial_to(format!("{} {:032x}", full.address, 1), order("tcp:send")));
            near.kept.push(Box::new(full));
        }),
    );
    add(
        "dial, to a program that is silent",
        Box::new(|near| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            near.say(&dial_to(listener.local_addr().unwrap().to_string(), with_program("raw://127.0.0.1:1")));
            near.kept.push(Box::new(listener));
        }),
    );
    add("program that does not listen", says(ToEnd::Round(Box::new(with_program("sleep 60")))));
    let ignores = "sh -c 'trap \"\" TERM; sleep 60 & wait; sleep 60'";
    add("program that does not end", says(ToEnd::Round(Box::new(with_program(ignores)))));
    add("order of a role", says(roles::tests::told("wait")));
    add(
        "round of a role",
        Box::new(move |near| {
            assert!(matches!(near.asks(&roles::tests::told("round")), FromEnd::Ready { .. }));
            near.say(&ToEnd::Go);
        }),
    );
    add(
        "finish, without a reader",
        Box::new(|near| {
            let mut far = Near::new(Reach::Own, Terms::default());
            let order = RoundOrder { messages: 20_000, ..order("unix:send") };
            let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 20_000, load: None };
            let FromEnd::Offered { addresses, .. } = far.orders(&order) else { panic!("no offer") };
            let dial = Dial { order, own, peer: None, addresses };
            let FromEnd::Connected { locals, .. } = near.asks(&ToEnd::Dial(Box::new(dial))) else {
                panic!("it did not connect")
            };
            assert!(matches!(far.asks(&ToEnd::Connect { locals }), FromEnd::Ready { .. }));
            assert!(matches!(near.asks(&ToEnd::Start), FromEnd::Ready { .. }));
            assert_eq!(near.asks(&ToEnd::Go), FromEnd::Over);
            near.say(&ToEnd::Finish);
            near.kept.push(Box::new(far));
        }),
    );
    all
}

/// A near end that closes right after an order, or says no more and reads nothing. The longest time until its session had ended.
fn every_order_ends_with_its_control_channel() -> Duration {
    let mut longest = Duration::ZERO;
    for half in [false, true] {
        for (name, begins) in orders() {
            let mut near = Near::new(Reach::Own, Terms::default());
            begins(&mut near);
            // Until it waits: what it did before is no wait.
            std::thread::sleep(Duration::from_millis(30));
            let closed = Instant::now();
            near.control.shutdown(if half { std::net::Shutdown::Write } else { std::net::Shutdown::Both }).unwrap();
            let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{name}: it goes on"));
            let took = closed.elapsed();
            ended.unwrap_or_else(|error| panic!("{name}: {error}"));
            let when = if half { "half closed" } else { "" };
            println!("{name:<40} {when:<12} {:6.1} ms", took.as_secs_f64() * 1e3);
            longest = longest.max(took);
        }
    }
    longest
}

#[test]
fn no_order_outlives_its_control_channel() {
    every_order_ends_with_its_control_channel();
}

#[test]
fn nothing_runs_on_when_the_control_channel_has_closed() {
    all_end_with_their_control_channel();
}

#[test]
fn no_near_end_runs_on_when_the_control_channel_has_closed() {
    all_near_ends_end_with_their_control_channel();
}

#[test]
#[ignore = "a time limit, for a quiet machine: docs/serve.md names the command"]
fn everything_ends_within_500_ms_of_its_control_channel() {
    let longest = all_end_with_their_control_channel().max(all_near_ends_end_with_their_control_channel());
    let longest = longest.max(every_order_ends_with_its_control_channel());
    println!("the longest: {:.1} ms", longest.as_secs_f64() * 1e3);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

#[test]
fn who_came_over_a_network_gets_paths_over_ip_only() {
    let over_ip = "does not run over IP";
    for (reach, wanted) in [(Reach::Network, over_ip), (Reach::Joined, over_ip), (Reach::Machine, "network device")] {
        let mut near = Near::new(reach, Terms::default());
        for transport in TRANSPORTS {
            let meta = transport.meta();
            let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
            let answer = near.orders(&RoundOrder { path, ..order("tcp:send") });
            let refused = matches!(&answer, FromEnd::Unavailable(reason) if reason.why.contains(wanted));
            let must = if reach == Reach::Machine { meta.device } else { !meta.inet };
            assert_eq!(refused, must, "{reach:?} {}: {answer:?}", meta.meta.name);
        }
    }
    assert!(Peer::default().may_order(&order("eth:send"), transport("eth").unwrap().meta()).is_ok());
    assert!(transport("eth").unwrap().meta().device && !transport("eth").unwrap().meta().inet);
}

/// A session of a client like this one.
fn client(reach: Reach, proven: bool, terms: &Terms) -> Near {
    Near::of(Peer { reach, proven, ..Peer::default() }, terms.clone())
}

/// Clients without a token, and those that have more rights.
const STRANGERS: [(Reach, bool); 2] = [(Reach::Machine, false), (Reach::Network, false)];
const TRUSTED: [(Reach, bool); 4] =
    [(Reach::Own, false), (Reach::Joined, false), (Reach::Machine, true), (Reach::Network, true)];

#[test]
fn higher_priority_is_refused_to_clients_without_a_token() {
    let urgent = RoundOrder { urgent: true, ..order("tcp:send") };
    for (reach, proven) in STRANGERS {
        let answer = client(reach, proven, &Terms::default()).orders(&urgent);
        let FromEnd::Unavailable(reason) = &answer else { panic!("{reach:?}: {answer:?}") };
        assert!(reason.why.contains("nice -20") && reason.hint.contains("--token-file"), "{reason:?}");
    }
    for (reach, proven) in TRUSTED {
        let answer = client(reach, proven, &Terms::default()).orders(&urgent);
        assert!(matches!(answer, FromEnd::Offered { .. }), "{reach:?} {proven}: {answer:?}");
    }
}

#[test]
fn a_cpu_that_was_taken_from_the_server_is_refused_to_its_clients() {
    let other = 1 + affinity::allowed().last().unwrap();
    let pinned = RoundOrder { cpus: vec![affinity::allowed()[0], other], ..order("tcp:send") };
    for (reach, proven) in STRANGERS.into_iter().chain([(Reach::Joined, false), (Reach::Network, true)]) {
        let answer = client(reach, proven, &Terms::default()).orders(&pinned);
        let FromEnd::Unavailable(reason) = &answer else { panic!("{reach:?}: {answer:?}") };
        assert!(reason.why.contains(&format!("CPU {other}")), "{reason:?}");
    }
}

#[test]
fn clients_without_a_token_keep_all_cpus_but_one_busy_together() {
    let service_time = Some(msgpath_core::plan::ServiceTime {
        mean_ns: 1_000,
        distribution: msgpath_core::plan::Distribution::Constant,
    });
    let spins = |path: &str, threads: u32| RoundOrder { threads, connections: threads, ..order(path) };
    let all = [
        spins("tcp:send/spin", 3),
        spins("tcp:send/busy-poll", 3),
        spins("tcp:send/uring-sqpoll", 3),
        RoundOrder { service_time, ..spins("tcp:send", 3) },
    ];
    for (reach, proven) in STRANGERS {
        for order in &all {
            let terms = Terms { spinning: Spinning::new(4), ..Terms::default() };
            let (mut first, mut second) = (client(reach, proven, &terms), client(reach, proven, &terms));
            assert!(matches!(first.orders(order), FromEnd::Offered { .. }), "3 of 4 CPUs");
            let one = RoundOrder { threads: 1, connections: 1, ..order.clone() };
            let FromEnd::Unavailable(reason) = second.orders(&one) else { panic!("the last CPU was taken") };
            assert!(reason.why.contains("get 3 together, of which 0 are free"), "{reason:?}");
            // A wait that sleeps needs none; what the first session gives back the second one gets.
            assert!(matches!(second.orders(&spins("tcp:send", 8)), FromEnd::Offered { .. }));
            assert!(matches!(first.orders(&spins("tcp:send", 1)), FromEnd::Offered { .. }));
            assert!(matches!(second.orders(&one), FromEnd::Offered { .. }));
            for (reach, proven) in TRUSTED {
                let answer = client(reach, proven, &terms).orders(order);
                assert!(matches!(answer, FromEnd::Offered { .. }), "{reach:?} {proven}: {answer:?}");
            }
        }
    }
    let alone = Terms { spinning: Spinning::new(1), ..Terms::default() };
    assert!(
        matches!(client(Reach::Machine, false, &alone).orders(&spins("tcp:send/spin", 1)), FromEnd::Offered { .. }),
        "one CPU is one CPU"
    );
}

#[test]
fn an_examination_for_a_client_without_a_token_leaves_a_cpu() {
    let spinning = Spinning::new(4);
    let mine = affinity::allowed()[0];
    let mut order = msgpath_core::doctor::Examine {
        end: "near".into(),
        cpus: [mine; 9].into_iter().chain([100_000]).collect(),
        ..Default::default()
    };
    let turn = spinning.examine(&mut order);
    assert_eq!((order.end.as_str(), order.cpus), ("far", vec![mine; 3]));
    let other = spinning.clone();
    let (begun, began) = channel();
    let second = std::thread::spawn(move || {
        let _turn = other.examine(&mut Default::default());
        begun.send(()).unwrap();
    });
    assert!(began.try_recv().is_err(), "one at a time");
    drop(turn);
    began.recv_timeout(NEVER).expect("its turn");
    second.join().unwrap();
}

#[test]
fn programs_are_started_for_a_parent_and_nobody_else() {
    let program = msgpath_core::Program::parse("touch /tmp/msgpath-must-not-be-there {port}").unwrap();
    let talk = msgpath_core::program::Talk::default();
    let program = Some(Box::new(crate::wire::ProgramOrder { program, talk }));
    for reach in [Reach::Machine, Reach::Network, Reach::Joined] {
        let answer =
            Near::new(reach, Terms::default()).orders(&RoundOrder { program: program.clone(), ..order("tcp:send") });
        assert!(matches!(&answer, FromEnd::Unavailable(reason) if reason.why.contains("nobody else")), "{answer:?}");
    }
    assert!(!std::path::Path::new("/tmp/msgpath-must-not-be-there").exists());
}

#[test]
fn the_kernel_is_traced_for_a_parent_and_nobody_else() {
    let order = ToEnd::Trace(TraceOrder { set: StageSet::Light, room: usize::MAX });
    for reach in [Reach::Machine, Reach::Network, Reach::Joined] {
        let answer = Near::new(reach, Terms::default()).asks(&order);
        let FromEnd::Tracing(tracing) = answer else { panic!("{answer:?}") };
        assert!(tracing.backend.is_none() && tracing.refused[0].1.why.contains("nobody else"), "{tracing:?}");
    }
}

#[test]
fn a_far_end_that_traces_says_its_events_before_its_report() {
    let (mut near, mut far) = (Near::new(Reach::Own, Terms::default()), Near::new(Reach::Own, Terms::default()));
    let answer = far.asks(&ToEnd::Trace(TraceOrder { set: StageSet::Light, room: 10_000 }));
    let FromEnd::Tracing(tracing) = answer else { panic!("{answer:?}") };
    if tracing.backend.is_none() {
        return eprintln!("skipped: {:?}", tracing.refused);
    }
    for traced in [true, false, true] {
        let order = RoundOrder { messages: 50, traced, ..order("tcp:send") };
        let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 50, load: None };
        let FromEnd::Offered { addresses, .. } = far.orders(&order) else { panic!("no offer") };
        let dial = Dial { order, own, peer: None, addresses };
        let FromEnd::Connected { locals, .. } = near.asks(&ToEnd::Dial(Box::new(dial))) else {
            panic!("no connection")
        };
        let ready = far.asks(&ToEnd::Connect { locals });
        let FromEnd::Ready { threads, .. } = ready else { panic!("{ready:?}") };
        assert!(matches!(near.asks(&ToEnd::Start), FromEnd::Ready { .. }));
        assert_eq!(near.asks(&ToEnd::Go), FromEnd::Over);
        far.say(&ToEnd::Finish);
        let (mut incoming, mut ended) = (observe::Incoming::default(), false);
        loop {
            match wire::read::<FromEnd>(&mut far.control).unwrap().unwrap() {
                (FromEnd::Events { count }, bytes) if !ended => incoming.take(count, &bytes).unwrap(),
                (FromEnd::Traced { .. }, _) if !ended => ended = true,
                (FromEnd::Done { .. }, _) => break,
                other => panic!("{other:?}"),
            }
        }
        let (events, cookie) = (incoming.finish(), threads[0].cookies[0] as u32);
        assert_eq!(ended, traced);
        // A back end that does not know a socket by its cookie calls it 0.
        let is_ready = |event: &&KernelEvent| event.kind == EventKind::SkDataReady && [cookie, 0].contains(&event.b);
        assert!(events.iter().filter(is_ready).count() >= if traced { 50 } else { 0 }, "{events:?}");
        assert!(traced || events.is_empty());
        near.say(&ToEnd::Finish);
        while !matches!(wire::read::<FromEnd>(&mut near.control).unwrap().unwrap().0, FromEnd::Done { .. }) {}
    }
}

#[test]
fn both_ends_of_a_round_are_sessions() {
    let (mut near, mut far) = (Near::new(Reach::Own, Terms::default()), Near::new(Reach::Own, Terms::default()));
    let order = RoundOrder { messages: 50, trim: 10, ..order("unix:send") };
    let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 20, load: None };
    let dialled = |far: &mut Near, near: &mut Near| {
        let FromEnd::Offered { addresses, .. } = far.orders(&order) else { panic!("no offer") };
        let dial = Dial { order: order.clone(), own: own.clone(), peer: None, addresses };
        let FromEnd::Connected { locals, .. } = near.asks(&ToEnd::Dial(Box::new(dial))) else {
            panic!("no connection")
        };
        assert!(matches!(far.asks(&ToEnd::Connect { locals }), FromEnd::Ready { .. }));
        let ready = near.asks(&ToEnd::Start);
        assert!(matches!(&ready, FromEnd::Ready { threads, .. } if threads.len() == 1), "{ready:?}");
    };
    // A round that does not take place leaves nothing behind.
    dialled(&mut far, &mut near);
    assert_eq!(near.asks(&ToEnd::Leave), FromEnd::Left);
    assert!(matches!(far.asks(&ToEnd::Finish), FromEnd::Failed(_)), "its connections have closed");
    dialled(&mut far, &mut near);
    assert_eq!(near.asks(&ToEnd::Go), FromEnd::Over);
    near.say(&ToEnd::Finish);
    let (rows, columns) = wire::read::<FromEnd>(&mut near.control).unwrap().unwrap();
    assert_eq!((rows, columns.len()), (FromEnd::Rows { counts: [20, 20, 0, 0] }, 2 * 20 * 8));
    let (done, histograms) = wire::read::<FromEnd>(&mut near.control).unwrap().unwrap();
    let FromEnd::Done { report, times: Some(times), .. } = done else { panic!("{done:?}") };
    assert_eq!((report.delivery.sent, report.delivery.received), (50, 50));
    let [latency, first, service, lateness] = times.histograms.map(|length| length as usize);
    assert_eq!(histograms.len(), latency + first + service + lateness);
    let latency = msgpath_core::SparseHistogram::from_bytes(&histograms[..latency]).unwrap();
    assert_eq!(latency.total(), 50);
    let FromEnd::Done { report, times: None, .. } = far.asks(&ToEnd::Finish) else { panic!("no report") };
    assert_eq!(report.delivery.received, 50);
}

#[test]
fn only_a_parent_tells_an_end_to_connect_somewhere() {
    let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 0, load: None };
    let dial = Dial { order: order("tcp:send"), own, peer: None, addresses: vec!["127.0.0.1:9 0".into()] };
    let measure = FloorsOrder { near: None, far: None, one_machine: false, size: 1, peer: None, pieces: None };
    for order in [ToEnd::Dial(Box::new(dial)), ToEnd::Measure(measure)] {
        for reach in [Reach::Machine, Reach::Network] {
            let mut stranger = Near::new(reach, Terms::default());
            stranger.say(&order);
            let ended = stranger.ended.recv_timeout(NEVER).expect("it ends");
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::InvalidData, "{order:?} {reach:?}");
        }
    }
    // The coordinator of a mesh has proven who it is: over IP, and no program.
    assert!(runs_over_ip(&order("tcp:send")) && runs_over_ip(&order("udp:send")));
    let talk = msgpath_core::program::Talk::default();
    let program = msgpath_core::Program::parse("x {port}").unwrap();
    let program = Some(Box::new(crate::wire::ProgramOrder { program, talk }));
    assert!(!runs_over_ip(&order("unix:send")) && !runs_over_ip(&RoundOrder { program, ..order("tcp:send") }));
}

#[test]
fn memory_is_promised_before_it_is_taken() {
    let terms = Terms { budget: Some(Budget::new(8 << 20)), ..Terms::default() };
    let (mut first, mut second) = (Near::new(Reach::Network, terms.clone()), Near::new(Reach::Network, terms));
    let large = RoundOrder { connections: 3, threads: 3, pieces: Pieces::whole(1 << 30), ..order("tcp:send") };
    let FromEnd::Unavailable(reason) = first.orders(&large) else { panic!("it was taken") };
    assert!(reason.hint.contains("--memory"), "{reason:?}");
    let half = RoundOrder { pieces: Pieces::whole(1 << 20), reply: 1 << 20, ..order("tcp:send") };
    assert!(matches!(first.orders(&half), FromEnd::Offered { .. }));
    let FromEnd::Unavailable(reason) = second.orders(&half) else { panic!("it was taken") };
    assert!(reason.why.contains("busy"), "{reason:?}");
    // What the first one does not want any more, the second one gets; it has lost nothing by the answer.
    assert!(matches!(first.orders(&order("tcp:send")), FromEnd::Offered { .. }));
    assert!(matches!(second.orders(&half), FromEnd::Offered { .. }));
}

#[test]
fn a_round_ends_when_its_time_is_over() {
    let terms = Terms { round: Some(Duration::from_millis(30)), ..Terms::default() };
    for role in ["echo", "sender"] {
        let mut near = Near::new(Reach::Network, terms.clone());
        let _channels = near.begins(&endless(&order("tcp:send").path, role));
        let FromEnd::Failed(failure) = near.asks(&ToEnd::Finish) else { panic!("{role}: it lasted") };
        let problem = msgpath_core::Problem::from(failure);
        assert!(problem.to_string().contains("longer than"), "{problem}");
        assert!(matches!(near.orders(&order("tcp:send")), FromEnd::Offered { .. }), "the session goes on");
    }
}

/// A far end that was stopped answers a client that has given up and closed its socket: that answer is refused.
#[test]
fn answer_that_is_refused_ends_a_round_that_may_lose_messages() {
    let service_time = Some(ServiceTime { mean_ns: 50_000_000, distribution: Distribution::Constant });
    let order = RoundOrder { service_time, messages: 1_000, trim: 0, patience_ns: 0, ..order("udp:send") };
    let mut near = Near::new(Reach::Own, Terms::default());
    let channels = near.begins(&order);
    let sent = Traffic::goes_on(Does::Sends, 4, &order, channels);
    sent.wait_for(4, "udp");
    drop(sent); // the socket is closed
    let FromEnd::Done { report, .. } = near.asks(&ToEnd::Finish) else { panic!("the round failed") };
    assert!(report.delivery.received < 1_000);
    assert!(report.unattended_ns.is_some(), "somebody looked after it");
}

#[test]
fn a_lease_is_short_and_silence_ends_a_session() {
    let mut near = Near::new(Reach::Network, Terms::default());
    near.asks(&ToEnd::Hello { version: String::new(), lease_ms: 3_600_000 });
    assert_eq!(near.lease.ns.load(Ordering::Relaxed), 60_000_000_000);
    near.asks(&ToEnd::Hello { version: String::new(), lease_ms: 1 });
    let ended = near.ended.recv_timeout(NEVER).expect("it ends");
    assert!(ended.unwrap_err().to_string().contains("silent"));
}
