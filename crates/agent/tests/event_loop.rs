//! One event loop at both ends: every path that has one, several sizes, connections and messages in flight, every byte
//! compared, no allocation in the loop.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::event_loop::{EventLoop, Sizes, echo_far, echo_near, open_echo};
use msgpath_agent::loops::{Answer, FarStamps, LoopError, Messages, Row, Service, Traffic};
use msgpath_agent::open::{Flow, Generator, settle};
use msgpath_agent::payload::{Payload, pattern};
use msgpath_agent::wire::Load;
use msgpath_core::schedule::Arrivals;
use msgpath_core::units::Pieces;
use msgpath_core::{CallCounts, Delivery};
use msgpath_paths::transport::Need;
use msgpath_paths::{AnyChannel, Channel, Driver, End, Entry, Layout, Method, Wait, all, with_ends};

/// Messages on each connection before the counted ones, and counted ones.
const FIRST: u64 = 3;

#[derive(Clone, Copy)]
struct Shape {
    pieces: Pieces,
    connections: u32,
    inflight: u32,
    count: u64,
    /// Bytes that a receive call asks for.
    read: usize,
}

struct Near(Shape);
/// The same by a schedule.
struct OnTime(Shape);
struct Far(Shape);

type Outcome = Result<(Delivery, CallCounts, Vec<Row>), LoopError>;

/// A method that gathers pieces makes a list of those that found no room; nothing else may allocate.
fn allocates_only_the_rest(counted: u64, calls: &CallCounts) {
    assert!(counted == 0 || calls.send_short > 0, "{counted} allocations, {calls:?}");
}

fn sizes(shape: Shape) -> Sizes {
    Sizes {
        incoming: shape.pieces,
        largest: shape.pieces.total(),
        inflight: shape.inflight,
        copies: 1,
        read: shape.read,
    }
}

fn calls<C: Channel, S, W>(ends: &mut [End<C, S, W>]) -> CallCounts {
    let mut sum = CallCounts::default();
    ends.iter_mut().for_each(|end| sum.add(end.channel.counts()));
    sum
}

impl Driver for Near {
    type Out = Outcome;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Outcome {
        let shape = self.0;
        let payload = Payload::new(shape.pieces).thorough();
        let messages = Messages { outgoing: &payload, incoming: &payload, lossy: false };
        let mut event_loop = EventLoop::new(&mut ends, sizes(shape)).expect("an event loop");
        let mut rows = Vec::with_capacity((shape.count as usize + FIRST as usize) * ends.len());
        let mut delivery = Delivery::default();
        let mut run = |range: (u64, u64), rows: &mut Vec<Row>| {
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_near(&mut ends, &mut event_loop, traffic, range, rows)
        };
        run((0, FIRST), &mut rows)?;
        let mut result = Ok(());
        let counted = allocation_counter::measure(|| result = run((FIRST, shape.count), &mut rows)).count_total;
        result?;
        let calls = calls(&mut ends);
        allocates_only_the_rest(counted, &calls);
        Ok((delivery, calls, rows))
    }
}

impl Driver for OnTime {
    type Out = Outcome;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Outcome {
        let shape = self.0;
        let payload = Payload::new(shape.pieces).thorough();
        let messages = Messages { outgoing: &payload, incoming: &payload, lossy: false };
        let mut event_loop = EventLoop::new(&mut ends, sizes(shape)).expect("an event loop");
        let most = shape.inflight.into();
        let load =
            Load { gap_ns: 40_000.0, arrivals: Arrivals::Poisson, seed: (1, 0, 0), cpus: vec![], most, debts: vec![] };
        let flow = Flow::of_event_loop(&load, 0, ends.len() as u64, FIRST, shape.count);
        let mut arrived = vec![0; flow.count() as usize];
        let mut generator = Generator::new(&flow);
        let mut delivery = Delivery::default();
        let mut run = |range| {
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            open_echo(&mut ends, &mut event_loop, traffic, &mut generator, range, &mut arrived)
        };
        // The border of what is measured is no place to wait at: the far end has to keep the two apart.
        run(0..flow.trim())?;
        let mut result = Ok(());
        let counted = allocation_counter::measure(|| result = run(flow.trim()..flow.count())).count_total;
        result?;
        let calls = calls(&mut ends);
        allocates_only_the_rest(counted, &calls);
        let settled = settle(&flow, &arrived, arrived.len());
        assert_eq!(settled.latency.total() + settled.first.total(), flow.count());
        assert_eq!(settled.delivery.received, flow.count() - flow.trim());
        let rows = arrived.iter().zip(flow.schedule()).map(|(arrived, due)| Row { start: *due, latency: *arrived });
        Ok((delivery, calls, rows.collect()))
    }
}

impl Driver for Far {
    type Out = Outcome;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Outcome {
        let shape = self.0;
        let payload = Payload::new(shape.pieces).thorough();
        let messages = Messages { outgoing: &payload, incoming: &payload, lossy: false };
        let mut event_loop = EventLoop::new(&mut ends, sizes(shape)).expect("an event loop");
        let (finish, service) = (AtomicBool::new(false), Service::new(None, 0));
        let answer = Answer { same_bytes: false, finish: &finish, service: &service };
        let mut stamps = FarStamps { arrived: vec![0; shape.count as usize * ends.len()], left: Vec::new() };
        let mut delivery = Delivery::default();
        let mut run = |range, stamps: &mut FarStamps| {
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_far(&mut ends, &mut event_loop, traffic, range, &answer, stamps)
        };
        run((0, FIRST), &mut FarStamps::default())?;
        let mut result = Ok(());
        let counted = allocation_counter::measure(|| result = run((FIRST, shape.count), &mut stamps)).count_total;
        result?;
        let calls = calls(&mut ends);
        allocates_only_the_rest(counted, &calls);
        let rows = stamps.arrived.iter().map(|start| Row { start: *start, latency: 0 }).collect();
        Ok((delivery, calls, rows))
    }
}

fn connect(entry: &Entry, shape: Shape) -> (Vec<AnyChannel>, Vec<AnyChannel>) {
    let mut need = Need::local(shape.pieces.total());
    need.connections = shape.connections;
    need.inflight = shape.inflight;
    need.wakes = entry.wakes();
    let mut offer = entry.transport.offer(&need).unwrap();
    let addresses = offer.addresses();
    let (near, locals): (Vec<_>, Vec<_>) =
        addresses.iter().map(|address| entry.transport.connect(address, &need).unwrap()).unzip();
    let far = offer.accept(&locals, Duration::from_secs(2)).unwrap();
    (near, far)
}

fn exchange(entry: &Entry, shape: Shape) {
    let Shape { pieces, connections, inflight, count, read } = shape;
    println!("{} {pieces} on {connections} connections, {inflight} in flight, {read} bytes a call", entry.name);
    let (near, far) = connect(entry, shape);
    let layout = Layout { pieces, inflight, copies: 1, content: &pattern };
    let options = Need::local(64).options;
    let (path, own) = (entry.name.clone(), options.clone());
    let other = std::thread::spawn(move || with_ends(&path, far, layout, &own, Far(shape)));
    let near = with_ends(&entry.name, near, layout, &options, Near(shape)).unwrap();
    let far = other.join().unwrap().unwrap();
    let (delivery, calls, rows) = near.unwrap_or_else(|error| panic!("{}: {error}; far: {far:?}", entry.name));
    let (answered, far_calls, arrived) = far.unwrap();
    let all = (count + FIRST) * u64::from(connections);
    assert_eq!((delivery.sent, delivery.received, delivery.verified), (all, all, all), "{}", entry.name);
    assert_eq!((answered.received, answered.verified), (all, all), "{}", entry.name);
    assert!(calls.send_calls >= all, "{calls:?}");
    // A call that asks for more may complete several messages.
    let full = if read as u64 > pieces.total() { 1..=all } else { all..=all };
    assert!(full.contains(&calls.recv_full) && full.contains(&far_calls.recv_full), "{calls:?} {far_calls:?}");
    assert!(calls.wait_calls >= 1 && calls.wait_calls <= calls.recv_calls + calls.send_calls, "{calls:?}");
    assert_eq!(rows.len() as u64, all);
    // Rows and stamps go connection by connection in turn: each arrival lies within its own round trip.
    for (row, arrival) in rows[(FIRST * u64::from(connections)) as usize..].iter().zip(&arrived) {
        assert!(row.start <= arrival.start && arrival.start <= row.start + row.latency, "{}", entry.name);
    }
}

#[test]
fn every_byte_arrives_over_every_path_that_has_one() {
    let mut paths = 0;
    for entry in all().into_iter().filter(|entry| entry.event_loop().is_ok()) {
        if let Err(reason) = entry.probe() {
            println!("skipped: {}: {reason}", entry.name);
            continue;
        }
        paths += 1;
        let limit = entry.transport.max_message().unwrap_or(u64::MAX);
        let queue = entry.name.transport == "mq";
        for (pieces, count) in [
            (Pieces::whole(1), 20),
            (Pieces::of(15, 100), 20),
            (Pieces::whole(1 << 16), 8),
            (Pieces::whole(1 << 20), 3),
        ] {
            for (connections, inflight, read) in [(1, 1, 0), (16, 1, 0), (4, 4, 0), (4, 4, 64 << 10), (1, 16, 4 << 10)]
            {
                // A user may have some 800 KiB in queues, and a queue of ten messages is no place for four and four.
                if pieces.total() <= limit && !(queue && (connections, inflight) != (1, 1)) {
                    exchange(&entry, Shape { pieces, connections, inflight, count, read });
                }
            }
        }
    }
    assert!(paths >= 8, "tcp, unix and pipe at least: {paths}");
}

#[test]
fn a_schedule_is_kept_over_every_path_that_has_one() {
    for entry in all().into_iter().filter(|entry| entry.event_loop().is_ok() && entry.name.transport != "mq") {
        if let Err(reason) = entry.probe() {
            println!("skipped: {}: {reason}", entry.name);
            continue;
        }
        for (pieces, count) in [(Pieces::whole(64), 40), (Pieces::of(15, 100), 20), (Pieces::whole(1 << 18), 5)] {
            for (connections, inflight, read) in [(1, 1, 0), (16, 4, 0), (16, 4, 64 << 10)] {
                let shape = Shape { pieces, connections, inflight, count, read };
                if entry.transport.max_message().is_some_and(|limit| pieces.total() > limit) {
                    continue;
                }
                println!("{} {pieces} on {connections} connections, {inflight} in flight", entry.name);
                let (near, far) = connect(&entry, shape);
                let layout = Layout { pieces, inflight, copies: 1, content: &pattern };
                let options = Need::local(64).options;
                let (path, own) = (entry.name.clone(), options.clone());
                let other = std::thread::spawn(move || with_ends(&path, far, layout, &own, Far(shape)));
                let near = with_ends(&entry.name, near, layout, &options, OnTime(shape)).unwrap();
                let far = other.join().unwrap().unwrap();
                let (delivery, ..) = near.unwrap_or_else(|error| panic!("{}: {error}; far: {far:?}", entry.name));
                let (answered, ..) = far.unwrap();
                let all = (count + FIRST) * u64::from(connections);
                assert_eq!((delivery.sent, delivery.verified), (all, all), "{}", entry.name);
                assert_eq!((answered.received, answered.verified), (all, all), "{}", entry.name);
            }
        }
    }
}

#[test]
fn a_path_without_one_says_why() {
    for (path, why) in [
        ("tcp:send", "the wait block serves one connection at a time"),
        ("tcp:writes/epoll", "writes does not go on where it found no room"),
        ("udp:send/epoll", "may lose messages"),
        ("shm:ring/futex", "the wait futex serves"),
    ] {
        let reason = Entry::find(&path.parse::<msgpath_core::PathName>().unwrap()).unwrap().event_loop().unwrap_err();
        assert!(reason.why.contains(why), "{path}: {reason}");
    }
}

/// The other end closes in the middle.
#[test]
fn a_closed_connection_ends_the_loop() {
    for path in ["tcp:send/epoll", "unix:write/epoll", "pipe:write/epoll"] {
        let entry = Entry::find(&path.parse::<msgpath_core::PathName>().unwrap()).unwrap();
        let shape = Shape { pieces: Pieces::whole(64), connections: 4, inflight: 1, count: 10, read: 0 };
        let (near, mut far) = connect(&entry, shape);
        far.pop();
        let layout = Layout { pieces: shape.pieces, inflight: 1, copies: 1, content: &pattern };
        let ended = with_ends(&entry.name, near, layout, &Need::local(64).options, Near(shape)).unwrap();
        assert!(matches!(ended, Err(LoopError::Io(_))), "{path}: {ended:?}");
    }
}
