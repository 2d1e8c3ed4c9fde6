//! An open loop ends with its last answer, where messages may be lost, too: not after a slice of silence.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use msgpath_agent::loops::{Answer, FarStamps, Inbox, Messages, Service, Traffic, echo_far};
use msgpath_agent::open::{Flow, Generator, open_receive, open_send};
use msgpath_agent::payload::{Payload, pattern};
use msgpath_agent::wire::Load;
use msgpath_core::Delivery;
use msgpath_core::schedule::Arrivals;
use msgpath_core::units::Pieces;
use msgpath_paths::transport::Need;
use msgpath_paths::{Channel, Driver, End, Layout, Method, Wait, all, with_ends};

const COUNT: u64 = 40;

struct Near(Payload);
struct Far(Payload);

impl Driver for Near {
    type Out = Delivery;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Delivery {
        let messages = Messages { outgoing: &self.0, incoming: &self.0, lossy: true };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), true, 1);
        let load = Load {
            gap_ns: 1_000.0,
            arrivals: Arrivals::Constant,
            seed: (1, 0, 0),
            cpus: vec![],
            most: COUNT,
            debts: vec![],
        };
        let flow = Flow::new(&load, 0, 0, COUNT);
        let (mut arrived, mut delivery) = ([0; COUNT as usize], Delivery::default());
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        open_send(&mut ends[0], traffic, &mut Generator::new(&flow), 0..COUNT).unwrap();
        // Nobody says that the sender is over: that may come after the last answer.
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        open_receive(&mut ends[0], traffic, &mut inbox, &flow, 0..COUNT, &mut arrived).unwrap();
        assert!(arrived.iter().all(|at| *at > 0));
        delivery
    }
}

impl Driver for Far {
    type Out = ();
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
        let messages = Messages { outgoing: &self.0, incoming: &self.0, lossy: true };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), true, 1);
        let (finish, service) = (AtomicBool::new(false), Service::new(None, 0));
        let answer = Answer { same_bytes: false, finish: &finish, service: &service };
        let (mut stamps, mut delivery) = (FarStamps::default(), Delivery::default());
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        echo_far(&mut ends, traffic, &mut inbox, (0, COUNT), &answer, &mut stamps).unwrap();
    }
}

#[test]
fn an_open_loop_ends_with_its_last_answer() {
    let entry = all().into_iter().find(|entry| entry.name.to_string() == "udp:send").expect("in the registry");
    let pieces = Pieces::whole(64);
    let layout = Layout { pieces, inflight: COUNT as u32, copies: 1, content: &pattern };
    let mut need = Need::local(64);
    need.inflight = COUNT as u32;
    // Longer than this test waits for it: silence cannot be what ends the loop.
    need.limits.slice = Duration::from_secs(600);
    let mut offer = entry.transport.offer(&need).unwrap();
    let (near, own) = entry.transport.connect(&offer.addresses().remove(0), &need).unwrap();
    let far = offer.accept(&[own], Duration::from_secs(30)).unwrap().pop().unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || {
        let (name, options) = (&entry.name, &need.options);
        std::thread::scope(|scope| {
            scope.spawn(move || with_ends(name, vec![far], layout, options, Far(Payload::new(pieces))).unwrap());
            let near = with_ends(name, vec![near], layout, options, Near(Payload::new(pieces)));
            let _ = ended.send(near.unwrap());
        });
    });
    let delivery = end.recv_timeout(Duration::from_secs(60)).expect("it ends without silence");
    assert_eq!((delivery.sent, delivery.verified, delivery.lost), (COUNT, COUNT, 0), "{delivery:?}");
}
