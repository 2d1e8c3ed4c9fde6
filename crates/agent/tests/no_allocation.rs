//! No measured loop allocates: every path of the registry, both ends, counted by a counting allocator.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use msgpath_agent::loops::{
    Answer, Arrivals, FarStamps, Inbox, Messages, Row, Service, Traffic, Windows, echo_far, echo_near,
    echo_near_window, relay_far, stream_receive, stream_send,
};
use msgpath_agent::payload::{Payload, pattern};
use msgpath_core::Delivery;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::units::Pieces;
use msgpath_paths::transport::Need;
use msgpath_paths::{AnyChannel, Channel, Driver, End, Family, Layout, Method, Wait, all, with_ends};
use msgpath_sys::veth;

const COUNT: u64 = 60;
/// Messages before the counted ones: buffers that are made at first use are made then.
const FIRST: u64 = 70;

struct Near<'a>(&'a Payload, bool);
struct Far<'a>(&'a Payload, bool);

fn allocations(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

impl Driver for Near<'_> {
    type Out = u64;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> u64 {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: self.1 };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), ends[0].channel.framed(), 1);
        let mut rows = vec![Row { start: 0, latency: 0 }; 4 * COUNT as usize];
        let mut sent = Vec::with_capacity(FIRST as usize + 10);
        let mut windows = Windows::new(1, 2);
        let mut delivery = Delivery::default();
        rows.clear();
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        echo_near(&mut ends, traffic, &mut inbox, (0, FIRST), &mut rows, &mut sent).unwrap();
        rows.clear();
        let counted = allocations(|| {
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_near(&mut ends, traffic, &mut inbox, (FIRST, COUNT), &mut rows, &mut sent).unwrap();
            let range = (FIRST + COUNT, COUNT);
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_near_window(&mut ends, &mut windows, traffic, &mut inbox, range, &mut rows).unwrap();
            stream_send(&mut ends, &messages, (FIRST + 2 * COUNT, COUNT), &mut delivery).unwrap();
        });
        assert_eq!(delivery.received, FIRST + 2 * COUNT);
        // A zero-copy buffer that is freed too early arrives as something else: the far end would notice.
        let End { channel, method, .. } = &mut ends[0];
        method.drain(channel).unwrap();
        counted
    }
}

impl Driver for Far<'_> {
    type Out = u64;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> u64 {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: self.1 };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), ends[0].channel.framed(), 1);
        let finish = AtomicBool::new(true);
        let service = Service::new(None, 0);
        let relays = ends[0].method.relays();
        let answer = Answer { same_bytes: relays, finish: &finish, service: &service };
        let mut stamps = FarStamps { arrived: Vec::with_capacity(500), left: Vec::with_capacity(500) };
        let mut delivery = Delivery::default();
        let mut arrivals = vec![Arrivals::new(FIRST + 3 * COUNT)];
        let mut echo = |ends: &mut [End<C, S, W>], inbox: &mut Inbox, range, delivery: &mut Delivery| match relays {
            true => relay_far(ends, inbox, range, &answer, &mut stamps, delivery).unwrap(),
            false => {
                let traffic = Traffic { messages: &messages, delivery };
                echo_far(ends, traffic, inbox, range, &answer, &mut stamps).unwrap();
            }
        };
        echo(&mut ends, &mut inbox, (0, FIRST), &mut delivery);
        allocations(|| {
            echo(&mut ends, &mut inbox, (FIRST, 2 * COUNT), &mut delivery);
            let range = (FIRST + 2 * COUNT, COUNT);
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            stream_receive(&mut ends, traffic, &mut inbox, range, &mut arrivals, &finish).unwrap();
        })
    }
}

/// Where pages are lent, each message that can be unread has a buffer of its own: few of them.
fn options(entry: &msgpath_paths::Entry) -> ChannelOptions {
    let few = msgpath_paths::traits(&entry.name).lends.then_some(64 << 10);
    ChannelOptions { send_buffer: few, receive_buffer: few, ..Need::local(64).options }
}

/// A pair of devices, for what wants one for each end.
const DEVICES: [&str; 2] = ["mpa0", "mpa1"];

fn wants_devices(entry: &msgpath_paths::Entry) -> bool {
    entry.transport.meta().family == Family::Xsk
}

fn pair(entry: &msgpath_paths::Entry, size: u64) -> (AnyChannel, AnyChannel) {
    let mut need = Need { options: options(entry), ..Need::local(size) };
    need.wakes = entry.wakes();
    need.inflight = 2;
    // Longer than a busy machine keeps a thread from its CPU: what may be lost is given up then.
    need.limits.slice = Duration::from_secs(5);
    let on = |device: &str| {
        let mut need = need.clone();
        if wants_devices(entry) {
            need.options.interface = device.into();
        }
        need
    };
    let mut offer = entry.transport.offer(&on(DEVICES[1])).unwrap();
    let (near, local) = entry.transport.connect(&offer.addresses()[0], &on(DEVICES[0])).unwrap();
    (near, offer.accept(&[local], Duration::from_secs(2)).unwrap().pop().unwrap())
}

fn allocates_nothing(entry: &msgpath_paths::Entry) {
    let pieces = Pieces::of(4, 16);
    let payload = Payload::new(pieces);
    let layout = Layout { pieces, inflight: Layout::UNANSWERED, copies: 1, content: &pattern };
    let options = options(entry);
    let lossy = entry.transport.meta().lossy;
    let (near, far) = pair(entry, pieces.total());
    std::thread::scope(|scope| {
        let (result, far_count) = channel();
        let (payload, options) = (&payload, &options);
        scope.spawn(move || {
            result.send(with_ends(&entry.name, vec![far], layout, options, Far(payload, lossy)).unwrap()).unwrap();
        });
        let near = with_ends(&entry.name, vec![near], layout, options, Near(payload, lossy)).unwrap();
        let far = far_count.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!((near, far), (0, 0), "{}: allocations at the near and the far end", entry.name);
    });
}

#[test]
fn no_measured_loop_allocates() {
    let mut tried = 0;
    for entry in all() {
        if let Err(reason) = entry.probe() {
            println!("skipped: {}: {reason}", entry.name);
            continue;
        }
        if wants_devices(&entry) {
            veth::with_pair(DEVICES, || allocates_nothing(&entry)).unwrap();
        } else {
            allocates_nothing(&entry);
        }
        tried += 1;
    }
    assert!(tried > 20, "only {tried} paths could be tried");
}
