//! Every layer by the same suite: messages of all sizes come back as they were sent, over one connection that is what it claims to
//! be on the wire, and whatever becomes of that connection is an error in bounded time.

mod tap;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use msgpath_core::Unavailable;
use msgpath_layers::{LAYERS, register};
use msgpath_paths::channel::Limits;
use msgpath_paths::{AnyChannel, Layered, Need, Transport};
use tap::{Passing, Seen};

/// A wait that is over after this long has hung.
const HUNG: Duration = Duration::from_secs(20);
const ACCEPT: Duration = Duration::from_secs(5);
const LARGEST: usize = 64 << 10;

fn layers() -> impl Iterator<Item = &'static dyn Transport> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
    LAYERS.iter().copied()
}

/// Does the same with every layer, with all of them at a time: most of it is waiting.
fn every(check: impl Fn(&'static dyn Transport) + Sync) {
    thread::scope(|scope| {
        for layer in layers() {
            let check = &check;
            scope.spawn(move || check(layer));
        }
    });
}

fn is_encrypted(layer: &dyn Transport) -> bool {
    ["tls", "https2", "quic"].contains(&name(layer))
}

fn name(layer: &dyn Transport) -> &'static str {
    layer.meta().meta.name
}

fn is_over_udp(layer: &dyn Transport) -> bool {
    layer.over() == "udp"
}

/// A need of one connection whose silence is an error after `stall`.
fn need(stall: Duration) -> Need {
    Need { limits: Limits::new(Duration::from_millis(50), stall), ..Need::local(LARGEST as u64) }
}

fn layered(channel: AnyChannel) -> Layered {
    let AnyChannel::Layer(layered) = channel else { panic!("no channel of a layer") };
    layered
}

/// Both ends, not begun.
fn pair(layer: &dyn Transport, need: &Need) -> (Layered, Layered) {
    let mut offer = layer.offer(need).unwrap();
    let (near, local) = layer.connect(&offer.addresses()[0], need).unwrap();
    (layered(near), layered(offer.accept(&[local], ACCEPT).unwrap().remove(0)))
}

/// The same with a tap between them, and a need of each end.
fn tapped(layer: &dyn Transport, need: &Need, of_far: &Need) -> (Layered, Layered, Arc<Seen>) {
    let mut offer = layer.offer(of_far).unwrap();
    let address = offer.addresses().remove(0);
    let words: Vec<&str> = address.split(' ').collect();
    if is_over_udp(layer) {
        // The certificate, the door for keys, the port, the key. No key comes: the far end takes the address that it is told.
        let [trust, door, port, key] = words[..] else { panic!("{address}") };
        let host = door.rsplit_once(':').unwrap().0;
        let (place, from, seen) = tap::udp(format!("{host}:{port}").parse().unwrap());
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = format!("{trust} {} {} {key}", nobody.local_addr().unwrap(), place.port());
        let (near, _) = layer.connect(&address, need).unwrap();
        let far = offer.accept(&[from.to_string()], Duration::from_millis(1)).unwrap().remove(0);
        (layered(near), layered(far), seen)
    } else {
        let [trust, place, key] = words[..] else { panic!("{address}") };
        let (place, seen) = tap::tcp(place.parse().unwrap());
        let (near, local) = layer.connect(&format!("{trust} {place} {key}"), need).unwrap();
        (layered(near), layered(offer.accept(&[local], ACCEPT).unwrap().remove(0)), seen)
    }
}

/// Receives one message of so many bytes, in as many parts as bytes that stream come.
fn receive(end: &mut Layered, framed: bool, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; LARGEST];
    let mut got = 0;
    loop {
        // A message that is framed has all the room that there is.
        let room = if framed { LARGEST } else { bytes };
        match end.layer()?.recv(&mut buffer[got..room])? {
            0 if !framed && bytes > 0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            more => got += more,
        }
        if framed || got >= bytes {
            buffer.truncate(got);
            return Ok(buffer);
        }
    }
}

/// Answers messages of these sizes, then lets the near end close.
fn answer(mut far: Layered, framed: bool, sizes: &[usize]) -> io::Result<()> {
    far.begin().map_err(|reason| io::Error::other(reason.to_string()))?;
    for bytes in sizes {
        let message = receive(&mut far, framed, *bytes)?;
        far.layer()?.send(&message)?;
    }
    far.layer()?.drain();
    Ok(())
}

fn ask(near: &mut Layered, framed: bool, message: &[u8]) -> io::Result<Vec<u8>> {
    near.layer()?.send(message)?;
    receive(near, framed, message.len())
}

/// Bytes that no protocol has by chance.
fn message(bytes: usize, number: usize) -> Vec<u8> {
    let mark = format!("<this is readable: {number}>");
    mark.bytes().cycle().take(bytes).collect()
}

/// Runs one end in a thread of its own and waits for it, but not for ever.
fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T {
    let (done, over) = channel();
    thread::spawn(move || {
        let _ = done.send(work());
    });
    let what = what.to_owned();
    move || over.recv_timeout(HUNG).unwrap_or_else(|error| panic!("{what} hangs: {error}"))
}

#[test]
fn messages_come_back_as_they_were_sent() {
    every(|layer| {
        let (name, framed) = (name(layer), layer.meta().framed);
        // Where bytes stream there is no message without one.
        let smallest = if framed { 0 } else { 1 };
        let sizes = [64, 1, LARGEST, smallest, 1000, LARGEST - 1, 64];
        let (mut near, far) = pair(layer, &need(ACCEPT));
        let answered = within(name, move || answer(far, framed, &sizes));
        near.begin().unwrap_or_else(|reason| panic!("{name}: {reason}"));
        for (number, bytes) in sizes.into_iter().enumerate() {
            let sent = message(bytes, number);
            let came = ask(&mut near, framed, &sent).unwrap_or_else(|error| panic!("{name}, {bytes} bytes: {error}"));
            assert!(came == sent, "{name}: {} of {bytes} bytes came back, or others", came.len());
        }
        drop(near);
        answered().unwrap_or_else(|error| panic!("{name}: {error}"));
    });
}

#[test]
fn the_probe_sends_a_message_there_and_back() {
    every(|layer| {
        layer.probe().unwrap_or_else(|reason| panic!("{}: {reason}", name(layer)));
    });
}

#[test]
fn the_wire_has_what_the_layer_claims() {
    const MESSAGES: usize = 20;
    every(|layer| {
        let (name, framed) = (name(layer), layer.meta().framed);
        let (mut near, far, seen) = tapped(layer, &need(ACCEPT), &need(ACCEPT));
        let answered = within(name, move || answer(far, framed, &[64; MESSAGES]));
        near.begin().unwrap_or_else(|reason| panic!("{name}: {reason}"));
        for number in 0..MESSAGES {
            assert!(ask(&mut near, framed, &message(64, number)).unwrap() == message(64, number), "{name}");
        }
        let agreed = near.layer().unwrap().agreed();
        drop(near);
        answered().unwrap_or_else(|error| panic!("{name}: {error}"));
        seen.let_pass(Passing::Over);

        assert_eq!(seen.connections.load(Ordering::SeqCst), 1, "{name}: all messages go over one connection");
        assert_eq!(seen.has(b"<this is readable"), !is_encrypted(layer), "{name}");
        let said = |what: &str| agreed.iter().find(|(said, _)| *said == what).map(|(_, value)| value.as_str());
        let suite = ["tls", "https2"].contains(&name);
        assert_eq!(said("TLS version").is_some_and(|version| version == "TLSv1_3"), suite, "{name}: {agreed:?}");
        assert_eq!(said("TLS cipher suite").is_some(), suite, "{name}: {agreed:?}");
        assert_eq!(
            said("ALPN protocol"),
            match name {
                "https2" => Some("h2"),
                "quic" => Some("msgpath"),
                _ => None,
            }
        );
        assert_eq!(
            said("HTTP version"),
            match name {
                "http1" => Some("HTTP/1.1"),
                "http2" | "https2" => Some("HTTP/2.0"),
                _ => None,
            }
        );
        // What a client of HTTP/2 begins with; of HTTP/1.1 a request line for each message.
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(seen.has(preface), ["http2", "grpc"].contains(&name), "{name}");
        let posts = seen.sent.lock().unwrap().windows(15).filter(|part| part == b"POST / HTTP/1.1").count();
        assert_eq!(posts, if name == "http1" { MESSAGES } else { 0 }, "{name}");
        // The first datagram of a QUIC client: a long header and version 1.
        let quic = seen.sent.lock().unwrap()[..5].to_vec();
        assert_eq!(quic[0] & 0xc0 == 0xc0 && quic[1..] == [0, 0, 0, 1], name == "quic", "{name}: {quic:?}");
    });
}

/// How long the near end waits where something becomes of its connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// A layer whose first message came back, behind a tap. The far end is more patient: it never gives up first.
fn warm(layer: &dyn Transport) -> (Layered, impl FnOnce() -> io::Result<()>, Arc<Seen>) {
    let framed = layer.meta().framed;
    let (mut near, far, seen) = tapped(layer, &need(PATIENCE), &need(2 * PATIENCE));
    let answered = within(name(layer), move || answer(far, framed, &[64; 3]));
    near.begin().unwrap_or_else(|reason| panic!("{}: {reason}", name(layer)));
    ask(&mut near, framed, &message(64, 0)).unwrap_or_else(|error| panic!("{}: {error}", name(layer)));
    (near, answered, seen)
}

#[test]
fn a_connection_that_is_cut_is_an_error_at_both_ends() {
    every(|layer| {
        let (mut near, answered, seen) = warm(layer);
        seen.let_pass(Passing::Cut);
        let framed = layer.meta().framed;
        let asked = within(name(layer), move || ask(&mut near, framed, &message(64, 1)));
        assert!(asked().is_err(), "{}", name(layer));
        assert!(answered().is_err(), "{}", name(layer));
    });
}

#[test]
fn a_peer_that_says_nothing_any_more_is_given_up() {
    every(|layer| {
        let (mut near, answered, seen) = warm(layer);
        seen.let_pass(Passing::Nothing);
        let (framed, began) = (layer.meta().framed, Instant::now());
        let asked = within(name(layer), move || ask(&mut near, framed, &message(64, 1)));
        let error = asked().expect_err(name(layer));
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{}: {error}", name(layer));
        assert!(began.elapsed() >= PATIENCE, "{}", name(layer));
        assert!(answered().is_err(), "{}", name(layer));
        seen.let_pass(Passing::Over);
    });
}

#[test]
fn bytes_that_were_changed_are_never_taken_for_an_answer() {
    every(|layer| {
        let (mut near, answered, seen) = warm(layer);
        seen.let_pass(Passing::Spoilt);
        let framed = layer.meta().framed;
        let asked = within(name(layer), move || {
            let came = ask(&mut near, framed, &message(64, 1));
            drop(near);
            came
        });
        match asked() {
            // Nothing protects bytes over TCP alone: the loop that measures compares them.
            Ok(came) => assert!(name(layer) == "tokio" && came != message(64, 1), "{}: {came:?}", name(layer)),
            Err(error) => assert!(name(layer) != "tokio", "{error}"),
        }
        let _ = answered();
        seen.let_pass(Passing::Over);
    });
}

#[test]
fn a_far_end_that_goes_before_it_answers_is_an_error() {
    every(|layer| {
        let (name, framed) = (name(layer), layer.meta().framed);
        let (mut near, mut far) = pair(layer, &need(ACCEPT));
        let gone = within(name, move || {
            far.begin().unwrap();
            receive(&mut far, framed, 64).map(|_| ()) // and closes
        });
        let asked = within(name, move || {
            near.begin().map_err(|reason| io::Error::other(reason.to_string()))?;
            ask(&mut near, framed, &message(64, 0))
        });
        assert!(asked().is_err(), "{name}");
        gone().unwrap_or_else(|error| panic!("{name}: {error}"));
    });
}

#[test]
fn a_message_that_is_too_long_is_an_error() {
    every(|layer| {
        if !layer.meta().framed {
            return;
        }
        let (mut near, mut far) = pair(layer, &need(PATIENCE));
        let refused = within(name(layer), move || {
            far.begin().unwrap();
            receive(&mut far, true, 0)
        });
        let asked = within(name(layer), move || {
            near.begin().map_err(|reason| io::Error::other(reason.to_string()))?;
            ask(&mut near, true, &vec![1; LARGEST + 1])
        });
        assert!(asked().is_err() && refused().is_err(), "{}", name(layer));
    });
}

#[test]
fn a_far_end_that_never_answers_is_not_waited_for_for_ever() {
    every(|layer| {
        // They say nothing before the first message.
        if ["tokio", "grpc"].contains(&name(layer)) {
            return;
        }
        let need = need(PATIENCE);
        let mut offer = layer.offer(&need).unwrap();
        let (near, _) = layer.connect(&offer.addresses()[0], &need).unwrap();
        let mut near = layered(near);
        // Nobody takes the connection.
        let begun = within(name(layer), move || near.begin());
        let reason: Unavailable = begun().expect_err(name(layer));
        assert!(reason.why.contains("silent") || reason.why.contains("timed out"), "{}: {reason}", name(layer));
        assert!(offer.admission().is_some() || is_over_udp(layer));
    });
}

#[test]
fn a_round_that_is_given_up_ends_every_wait() {
    every(|layer| {
        // As in a round: nothing limits a wait but its end from outside.
        let mut need = need(ACCEPT);
        need.limits.timed = false;
        let (name, framed) = (name(layer), layer.meta().framed);
        let mut offer = layer.offer(&need).unwrap();
        let (near, local) = layer.connect(&offer.addresses()[0], &need).unwrap();
        let far = offer.accept(&[local], ACCEPT).unwrap().remove(0);
        let breaker = far.breaker().expect(name);
        let (mut near, far) = (layered(near), layered(far));
        let (abort, waits) = (Arc::clone(&need.limits.abort), within(name, move || answer(far, framed, &[64, 64])));
        near.begin().unwrap_or_else(|reason| panic!("{name}: {reason}"));
        ask(&mut near, framed, &message(64, 0)).unwrap();
        abort.store(true, Ordering::Relaxed);
        breaker.shut();
        assert!(waits().is_err(), "{name}: it waits for a second message");
    });
}

#[test]
fn a_far_end_with_another_certificate_is_refused() {
    assert_eq!(layers().filter(|layer| is_encrypted(*layer)).count(), 3);
    every(|layer| {
        if !is_encrypted(layer) {
            return;
        }
        let need = need(PATIENCE);
        let (mut offer, other) = (layer.offer(&need).unwrap(), layer.offer(&need).unwrap());
        let (own, other) = (offer.addresses().remove(0), other.addresses().remove(0));
        let address = format!("{} {}", other.split_once(' ').unwrap().0, own.split_once(' ').unwrap().1);
        let (near, local) = layer.connect(&address, &need).unwrap();
        let (mut near, far) = (layered(near), layered(offer.accept(&[local], ACCEPT).unwrap().remove(0)));
        let framed = layer.meta().framed;
        let answered = within(name(layer), move || answer(far, framed, &[64]));
        let begun = within(name(layer), move || near.begin());
        let reason = begun().expect_err(name(layer));
        assert!(reason.why.to_lowercase().contains("certificate"), "{}: {reason}", name(layer));
        assert!(answered().is_err(), "{}", name(layer));
    });
}

#[test]
fn what_is_no_offer_is_refused() {
    every(|layer| {
        for address in ["", "-", "zz 127.0.0.1:9 00", "- ", "00 127.0.0.1:9", "- nowhere 00"] {
            assert!(layer.connect(address, &need(ACCEPT)).is_err(), "{}: {address:?}", name(layer));
        }
        assert!(layer.streams().is_err() && !layer.over().is_empty(), "{}", name(layer));
    });
}
