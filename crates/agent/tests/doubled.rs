//! Where the way doubles datagrams, the second ones are duplicates: nothing is late or lost.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use msgpath_agent::loops::{
    Answer, FarStamps, Inbox, Messages, Row, Service, Traffic, Windows, echo_far, echo_near, echo_near_window,
};
use msgpath_agent::payload::{Payload, pattern};
use msgpath_core::Delivery;
use msgpath_core::units::Pieces;
use msgpath_paths::transport::Need;
use msgpath_paths::{Channel, Driver, End, Layout, Method, Wait, all, with_ends};

const COUNT: u64 = 300;

struct Near<'a>(&'a Payload);
struct Far<'a>(&'a Payload);

impl Driver for Near<'_> {
    type Out = Delivery;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Delivery {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: true };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), true, 1);
        let (mut rows, mut sent): (Vec<Row>, _) = (Vec::with_capacity(2 * COUNT as usize), Vec::new());
        let (mut windows, mut delivery) = (Windows::new(1, 4), Delivery::default());
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        echo_near(&mut ends, traffic, &mut inbox, (0, COUNT), &mut rows, &mut sent).unwrap();
        let traffic = Traffic { messages: &messages, delivery: &mut delivery };
        echo_near_window(&mut ends, &mut windows, traffic, &mut inbox, (COUNT, COUNT), &mut rows).unwrap();
        delivery
    }
}

impl Driver for Far<'_> {
    type Out = ();
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
        let messages = Messages { outgoing: self.0, incoming: self.0, lossy: true };
        let mut inbox = Inbox::new(self.0.len(), self.0.len(), true, 1);
        let (finish, service) = (AtomicBool::new(false), Service::new(None, 0));
        let answer = Answer { same_bytes: false, finish: &finish, service: &service };
        for range in [(0, COUNT), (COUNT, COUNT)] {
            let (mut stamps, mut delivery) = (FarStamps::default(), Delivery::default());
            let traffic = Traffic { messages: &messages, delivery: &mut delivery };
            echo_far(&mut ends, traffic, &mut inbox, range, &answer, &mut stamps).unwrap();
        }
    }
}

/// Passes datagrams on between the far end and whoever else speaks, every 20th twice; how many it sent to the latter.
fn relay(socket: &UdpSocket, far: SocketAddr, over: &AtomicBool) -> u64 {
    let (mut buffer, mut near, mut to_near) = ([0; 256], None, 0);
    for at in 1_u64.. {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
        if over.load(Ordering::Relaxed) {
            break;
        }
        let to = if from == far {
            near
        } else {
            near = Some(from);
            Some(far)
        };
        for _ in 0..1 + u64::from(at % 20 == 0) {
            to_near += u64::from(from == far);
            // Who has ended needs no more.
            let _ = to.map(|to| socket.send_to(&buffer[..length], to));
        }
    }
    to_near
}

#[test]
fn what_comes_twice_is_a_duplicate_and_never_late() {
    let entry = all().into_iter().find(|entry| entry.name.to_string() == "udp:send").expect("in the registry");
    let pieces = Pieces::whole(64);
    let payload = Payload::new(pieces);
    let layout = Layout { pieces, inflight: 4, copies: 1, content: &pattern };
    let mut need = Need::local(64);
    need.inflight = 4;
    // Nothing is lost here, however busy the machine is.
    need.limits.slice = Duration::from_secs(30);
    let between = UdpSocket::bind("127.0.0.1:0").unwrap();
    between.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let address = between.local_addr().unwrap();
    let mut offer = entry.transport.offer(&need).unwrap();
    // `DOOR PORT KEY`: the key says at the door from where the messages to the port will come. Both pass the relay.
    let offered = offer.addresses().remove(0);
    let [door, port, key] = offered.split(' ').collect::<Vec<_>>()[..] else { panic!("{offered}") };
    let door: SocketAddr = door.parse().unwrap();
    let far_address = SocketAddr::new(door.ip(), port.parse().unwrap());
    let (near, _) = entry.transport.connect(&format!("{address} {} {key}", address.port()), &need).unwrap();
    // It may be lost, so it comes three times; on loopback all have arrived.
    for _ in 0..3 {
        let mut text = [0; 64];
        let (length, _) = between.recv_from(&mut text).unwrap();
        between.send_to(&text[..length], door).unwrap();
    }
    let far = offer.accept(&[address.to_string()], Duration::from_secs(30)).unwrap().pop().unwrap();
    let over = AtomicBool::new(false);
    let (delivery, arrived) = std::thread::scope(|scope| {
        let relay = scope.spawn(|| relay(&between, far_address, &over));
        let (name, options, payload) = (&entry.name, &need.options, &payload);
        scope.spawn(move || with_ends(name, vec![far], layout, options, Far(payload)).unwrap());
        let delivery = with_ends(name, vec![near], layout, options, Near(payload)).unwrap();
        over.store(true, Ordering::Relaxed);
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0], address).unwrap();
        (delivery, relay.join().unwrap())
    });
    let Delivery { sent, received, lost, late, duplicated, .. } = delivery;
    assert_eq!((sent, received, lost, late), (2 * COUNT, 2 * COUNT, 0, 0), "{delivery:?}");
    // Those behind the last answer are not read any more.
    assert!(duplicated >= 40 && duplicated <= arrived - received, "{duplicated} duplicates, {arrived} answers");
}
