//! The first datagram of a stream may be lost as any other: the next one starts the receiver's clock.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::loops::{Arrivals, Inbox, Messages, Traffic, stream_receive, stream_send};
use msgpath_agent::payload::{Payload, pattern};
use msgpath_core::Delivery;
use msgpath_core::units::Pieces;
use msgpath_paths::transport::Need;
use msgpath_paths::{Channel, Driver, End, Layout, Method, Wait, all, with_ends};

const COUNT: u64 = 100;

struct Sender<'a>(&'a Payload);
struct Receiver<'a>(&'a Payload);

impl Driver for Sender<'_> {
    type Out = ();
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: true };
        // All but the first.
        stream_send(&mut ends, &messages, (1, COUNT - 1), &mut Delivery::default()).unwrap();
    }
}

impl Driver for Receiver<'_> {
    type Out = [Delivery; 2];
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> [Delivery; 2] {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: true };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), true, 1);
        let (mut arrivals, finish) = (vec![Arrivals::new(COUNT)], AtomicBool::new(true));
        let mut delivery = Delivery::default();
        [(0, 1), (1, COUNT - 1)].map(|range| {
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            stream_receive(&mut ends, traffic, &mut inbox, range, &mut arrivals, &finish).unwrap();
            delivery
        })
    }
}

#[test]
fn a_first_datagram_that_is_lost_costs_itself_and_not_its_round() {
    let entry = all().into_iter().find(|entry| entry.name.to_string() == "udp:send").expect("in the registry");
    let pieces = Pieces::whole(64);
    let payload = Payload::new(pieces);
    let layout = Layout { pieces, inflight: Layout::UNANSWERED, copies: 1, content: &pattern };
    let mut need = Need::local(64);
    // All that was sent lies in the socket before anything is received, so that a short silence is the end.
    need.limits.slice = Duration::from_millis(10);
    let mut offer = entry.transport.offer(&need).unwrap();
    let (near, local) = entry.transport.connect(&offer.addresses()[0], &need).unwrap();
    let far = offer.accept(&[local], Duration::from_secs(30)).unwrap().pop().unwrap();
    let (name, options) = (&entry.name, &need.options);
    with_ends(name, vec![near], layout, options, Sender(&payload)).unwrap();
    let [started, all] = with_ends(name, vec![far], layout, options, Receiver(&payload)).unwrap();
    assert_eq!((started.received, started.lost), (1, 0), "{started:?}");
    assert_eq!((all.received, all.lost, all.duplicated), (COUNT - 1, 1, 0), "{all:?}");
}
