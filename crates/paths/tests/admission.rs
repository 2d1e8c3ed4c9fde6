//! Several connections find each other by their keys: in whatever order they come, and whoever else knocks.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use msgpath_core::PathName;
use msgpath_core::units::Pieces;
use msgpath_paths::registry::{Entry, TRANSPORTS, transport};
use msgpath_paths::{AnyChannel, Channel, Driver, End, Layout, Method, Need, Wait, with_ends};

const SIZE: u32 = 64;

/// Sends a message, and asks what was heard of it while the end is still there: it may be lent.
struct Sends<F>(F);

impl<F: FnOnce() -> u8> Driver for Sends<F> {
    type Out = u8;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> u8 {
        let End { channel, method, .. } = &mut ends[0];
        method.slot(channel).unwrap();
        method.send(channel).unwrap();
        method.flush(channel).unwrap();
        (self.0)()
    }
}

struct Receives;

impl Driver for Receives {
    type Out = u8;
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> u8 {
        let mut bytes = [0; SIZE as usize];
        let End { channel, wait, .. } = &mut ends[0];
        assert_eq!(wait.recv(channel, &mut bytes).unwrap(), bytes.len());
        bytes[0]
    }
}

/// Each near end says which it is; the far ends must hear it in the order of the offer.
fn joined(path: &PathName, near: Vec<AnyChannel>, far: Vec<AnyChannel>, need: &Need) {
    let contents: [fn(usize) -> u8; 4] = [|_| 10, |_| 11, |_| 12, |_| 13];
    for (at, (near, far)) in near.into_iter().zip(far).enumerate() {
        let layout = Layout { pieces: Pieces::of(1, SIZE), inflight: 1, copies: 1, content: &contents[at] };
        let heard = || with_ends(path, vec![far], layout, &need.options, Receives).unwrap();
        let heard = with_ends(path, vec![near], layout, &need.options, Sends(heard)).unwrap();
        assert_eq!(heard, 10 + at as u8, "{path}");
    }
}

fn four() -> Need {
    Need { connections: 4, ..Need::local(u64::from(SIZE)) }
}

#[test]
fn connections_that_come_in_another_order_are_not_mixed_up() {
    for transport in TRANSPORTS {
        let meta = transport.meta();
        let path = PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
        if let Err(reason) = transport.probe() {
            eprintln!("skipped: {path}: {}", reason.why);
            continue;
        }
        if let Err(reason) = transport.shares() {
            eprintln!("skipped: {path}: {}", reason.why);
            continue;
        }
        let wakes = Entry::find(&path).unwrap().wakes();
        let need = Need { wakes, ..four() };
        let mut offer = transport.offer(&need).unwrap();
        let addresses = offer.addresses();
        let mut near: Vec<(usize, (AnyChannel, String))> =
            [2, 0, 3, 1].map(|at| (at, transport.connect(&addresses[at], &need).unwrap())).into();
        near.sort_by_key(|(at, _)| *at);
        let (near, locals): (Vec<_>, Vec<_>) = near.into_iter().map(|(_, connected)| connected).unzip();
        let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
        joined(&path, near, far, &need);
    }
}

#[test]
fn strangers_at_a_data_port_end_no_round() {
    let tcp = transport("tcp").unwrap();
    let need = four();
    let mut offer = tcp.offer(&need).unwrap();
    let addresses = offer.addresses();
    let port: SocketAddr = addresses[0].split(' ').next().unwrap().parse().unwrap();
    // More of them than may wait: silent ones, half a key, another key, and one that is gone again.
    let mut strangers = Vec::new();
    for at in 0..200 {
        let mut stranger = TcpStream::connect(port).unwrap();
        match at % 4 {
            0 => {}
            1 => stranger.write_all(&[7; 5]).unwrap(),
            2 => stranger.write_all(&[7; 100]).unwrap(),
            _ => continue,
        }
        strangers.push(stranger);
    }
    let (near, locals): (Vec<_>, Vec<_>) = addresses.iter().map(|address| tcp.connect(address, &need).unwrap()).unzip();
    let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
    joined(&PathName::new("tcp", "send", "block"), near, far, &need);
}

#[test]
fn a_key_serves_once() {
    let tcp = transport("tcp").unwrap();
    let need = four();
    let mut offer = tcp.offer(&need).unwrap();
    let addresses = offer.addresses();
    let (place, key) = addresses[0].split_once(' ').unwrap();
    let key = u128::from_str_radix(key, 16).unwrap().to_be_bytes();
    let first = tcp.connect(&addresses[0], &need).unwrap();
    // Somebody who has heard the first connection's key says it again, while others are still waited for.
    let mut replay = TcpStream::connect(place).unwrap();
    replay.write_all(&key).unwrap();
    let rest = addresses[1..].iter().map(|address| tcp.connect(address, &need).unwrap());
    let (near, locals): (Vec<_>, Vec<_>) = std::iter::once(first).chain(rest).unzip();
    let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
    replay.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(replay.read(&mut [0]), Ok(0) | Err(_)), "it was taken");
    joined(&PathName::new("tcp", "send", "block"), near, far, &need);
}

#[test]
fn a_far_end_does_not_wait_for_ever_for_who_does_not_come() {
    for name in ["tcp", "unix", "unixseq", "shm", "pipe"] {
        let transport = transport(name).unwrap();
        let need = four();
        let mut offer = transport.offer(&need).unwrap();
        let (_near, _) = transport.connect(&offer.addresses()[0], &need).unwrap();
        let Err(error) = offer.accept(&vec![String::new(); 4], Duration::from_millis(50)) else { panic!("{name}") };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{name}: {error}");
        assert!(error.to_string().contains("3 of 4"), "{name}: {error}");
    }
}

#[test]
fn datagrams_that_came_before_the_near_end_are_not_messages() {
    let udp = transport("udp").unwrap();
    let need = four();
    let mut offer = udp.offer(&need).unwrap();
    let addresses = offer.addresses();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for address in &addresses {
        let mut parts = address.split(' ');
        let door: SocketAddr = parts.next().unwrap().parse().unwrap();
        let port: u16 = parts.next().unwrap().parse().unwrap();
        for to in [door, SocketAddr::new(door.ip(), port)] {
            stranger.send_to(&[99; SIZE as usize], to).unwrap();
            stranger.send_to(&[99; 16], to).unwrap();
        }
    }
    let (near, mut locals): (Vec<_>, Vec<_>) =
        addresses.iter().map(|address| udp.connect(address, &need).unwrap()).unzip();
    // What the near end believes to be its own addresses is another thing behind a router that translates.
    locals.iter_mut().for_each(|local| *local = "127.0.0.1:9".into());
    let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
    joined(&PathName::new("udp", "send", "block"), near, far, &need);
}

#[test]
fn who_does_not_know_a_key_hears_nothing_before_or_during_a_round() {
    // UDP: of any length, at the door and at the ports that are measured. A source can be forged, so nothing may go back.
    let udp = transport("udp").unwrap();
    let need = four();
    let mut offer = udp.offer(&need).unwrap();
    let addresses = offer.addresses();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let knock = || {
        for address in &addresses {
            let mut parts = address.split(' ');
            let door: SocketAddr = parts.next().unwrap().parse().unwrap();
            let port: u16 = parts.next().unwrap().parse().unwrap();
            for to in [door, SocketAddr::new(door.ip(), port)] {
                for length in [0, 1, 15, 16, 17, 64, 1_400] {
                    // A port that is connected to somebody else refuses: that is the kernel's answer, and no datagram.
                    let _ = stranger.send_to(&vec![7; length], to);
                }
            }
        }
    };
    knock();
    let (near, locals): (Vec<_>, Vec<_>) = addresses.iter().map(|address| udp.connect(address, &need).unwrap()).unzip();
    let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
    knock();
    joined(&PathName::new("udp", "send", "block"), near, far, &need);
    assert_eq!(stranger.recv(&mut [0; 2_000]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // TCP: whoever says something else than a key is let go without a byte.
    let tcp = transport("tcp").unwrap();
    let mut offer = tcp.offer(&need).unwrap();
    let addresses = offer.addresses();
    let port: SocketAddr = addresses[0].split(' ').next().unwrap().parse().unwrap();
    let mut strangers: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(port).unwrap()).collect();
    strangers.iter_mut().for_each(|stranger| stranger.write_all(&[7; 16]).unwrap());
    let (near, locals): (Vec<_>, Vec<_>) = addresses.iter().map(|address| tcp.connect(address, &need).unwrap()).unzip();
    let far = offer.accept(&locals, Duration::from_secs(10)).unwrap();
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(stranger.read(&mut [0; 64]), Ok(0) | Err(_)), "it was told something");
    }
    joined(&PathName::new("tcp", "send", "block"), near, far, &need);
}
