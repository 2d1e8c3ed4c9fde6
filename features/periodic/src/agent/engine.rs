//! What carries the messages of a periodic run: one component sends to all others.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use msgpath_core::{CallCounts, PathName, Unavailable};
use msgpath_paths::channel::{Packet, Polled, Receive, Socket};
use msgpath_paths::transports::eth::{ethertypes, interface, parse_mac};
use msgpath_paths::waits::{block::Block, epoll::Epoll, poll::Poll, sigio::SigIo, spin::Spin};
use msgpath_paths::{Limits, NewWait};
use msgpath_sys::area::{Area, Reader, Writer};
use msgpath_sys::packet::{self, BROADCAST, Destination, Head, Wanted};

use super::group;
use super::orders::Order;
use crate::record::JoinedGroup;

/// How long a receiver waits before it looks around.
const SLICE: Duration = Duration::from_millis(50);

/// Whether a path can carry periodic messages at all.
///
/// # Errors
/// Which can.
pub fn carries(path: &PathName) -> Result<(), Unavailable> {
    let waits: &[&str] = match (path.transport.as_str(), path.method.as_str()) {
        ("eth" | "udp", "send") => &["block", "spin", "poll", "epoll", "sigio"],
        ("shm", "ring") => &["futex", "spin"],
        _ => &[],
    };
    if waits.contains(&path.wait.as_str()) {
        return Ok(());
    }
    Err(Unavailable::new(
        format!("{path} does not carry one message to many receivers"),
        "eth, udp (with the waits block, poll, epoll, sigio, spin) or shm (futex, spin)",
    ))
}

/// The sending side of a component.
pub enum Outgoing {
    /// One broadcast frame reaches all; the frame's head stands before the message.
    Eth(OwnedFd, Destination, Vec<u8>),
    /// One datagram for each.
    Udp(UdpSocket, Vec<SocketAddrV4>),
    /// Written once, read by all.
    Shm(Writer),
    /// One datagram to a multicast group.
    Group(group::Sender),
    Nothing,
}

impl Outgoing {
    /// Hands a message over to all others. Counts the calls; what a receiver has no room for is lost, not an error.
    ///
    /// # Errors
    /// As the system call.
    pub fn send(&mut self, message: &[u8], calls: &mut CallCounts) -> io::Result<()> {
        match self {
            Outgoing::Eth(fd, to, frame) => {
                frame[packet::HEAD..].copy_from_slice(message);
                calls.send_calls += 1;
                packet::send_to(fd.as_fd(), frame, to).map(drop)
            }
            Outgoing::Udp(socket, peers) => {
                for peer in peers {
                    calls.send_calls += 1;
                    socket.send_to(message, *peer)?;
                }
                Ok(())
            }
            Outgoing::Shm(writer) => {
                writer.publish(message)?;
                calls.send_calls = writer.wakes();
                Ok(())
            }
            Outgoing::Group(sender) => {
                calls.send_calls += 1;
                sender.send(message)
            }
            Outgoing::Nothing => Ok(()),
        }
    }
}

/// The receiving side of a component, before its wait is chosen.
pub enum Incoming {
    /// A packet socket.
    Eth(Packet),
    Udp(Socket),
    /// The slots of the others.
    Shm(Reader),
    /// A socket that has joined a multicast group.
    Group(Box<group::Receiver>),
    Nothing,
}

/// Both sides of one component.
///
/// # Errors
/// What this machine does not offer, and the cure.
pub fn open(order: &Order, number: u32) -> Result<(Outgoing, Incoming), Unavailable> {
    let failed = |error: io::Error| Unavailable::new(format!("{}: {error}", order.path), "");
    if let Some(to) = &order.group {
        return Ok(match order.sends(number) {
            true => (Outgoing::Group(group::sender(order, to)?), Incoming::Nothing),
            false => (Outgoing::Nothing, Incoming::Group(Box::new(group::receiver(order, to, limits())?))),
        });
    }
    match order.path.transport.as_str() {
        "eth" => {
            let found = interface(&order.options, u64::from(order.size))?;
            let ethertype = ethertypes(&order.options).0;
            let wanted = Wanted { tag: order.tag, not_from: Some(number as u16) };
            let fd = packet::open(found.index, ethertype, wanted).map_err(failed)?;
            buffers(fd.as_fd(), order).map_err(failed)?;
            let mac = order.options.mac_address.as_deref().and_then(parse_mac).unwrap_or(BROADCAST);
            let to = Destination::new(found.index, ethertype, mac);
            let mut frame = Head { tag: order.tag, length: order.size as u16, sender: number as u16 }.bytes().to_vec();
            frame.resize(packet::HEAD + order.size as usize, 0);
            let outgoing = Outgoing::Eth(fd.try_clone().map_err(failed)?, to, frame);
            Ok((outgoing, Incoming::Eth(Packet::new(fd, to, order.tag, &found.name, limits()).map_err(failed)?)))
        }
        "udp" => {
            let address = |number: u32| {
                let [a, b] = order.network;
                SocketAddrV4::new(Ipv4Addr::new(127, a, b, number as u8 + 1), order.port)
            };
            let socket = UdpSocket::bind(address(number)).map_err(failed)?;
            buffers(socket.as_fd(), order).map_err(failed)?;
            let fd = socket.try_clone().map_err(failed)?.into();
            let peers = (0..order.of).filter(|other| *other != number).map(address).collect();
            Ok((Outgoing::Udp(socket, peers), Incoming::Udp(Socket::new(fd, true, limits()).map_err(failed)?)))
        }
        _ => {
            let place = order.area.as_deref().unwrap_or_default();
            let hint = "a program that is not set-user-id and has no file capabilities";
            let file = std::fs::OpenOptions::new().read(true).write(true).open(place);
            let file: OwnedFd =
                file.map_err(|e| Unavailable::new(format!("shared memory ({place}): {e}"), hint))?.into();
            let area = Area::attach(&file).map_err(failed)?;
            Ok((Outgoing::Shm(area.writer(number as usize)), Incoming::Shm(area.reader(number as usize))))
        }
    }
}

/// The buffers that were asked for, or room for a burst of everybody: a receiver that is off its CPU for a while must not
/// lose what it would have read.
pub(super) fn buffers(fd: std::os::fd::BorrowedFd<'_>, order: &Order) -> io::Result<()> {
    use msgpath_sys::socket::{self, IntOption};
    let bytes = order.options.receive_buffer.unwrap_or(4 << 20);
    // Beyond net.core.rmem_max with CAP_NET_ADMIN only; without it the kernel grants what it grants.
    let forced = socket::set(fd, IntOption::ReceiveBufferForce, bytes as i32);
    forced.or_else(|_| socket::set(fd, IntOption::ReceiveBuffer, bytes as i32))
}

fn limits() -> Limits {
    Limits::new(SLICE, Duration::from_secs(3600))
}

/// What a receiver does with what arrives.
pub trait Deliver {
    /// A message is in the buffer: when the receive call returned, and what was counted so far.
    fn message(&mut self, bytes: &[u8], calls: &CallCounts);
    /// Whether to go on; asked between messages and at least once in a slice of time.
    fn next(&self) -> Next;
}

/// What a receiver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Wait,
    /// Takes what has arrived and was not read yet, and ends: what a busy receiver has not come to is not lost.
    Drain,
    End,
}

/// What a receiver has at its end.
#[derive(Default)]
pub struct Received {
    /// What was counted.
    pub calls: CallCounts,
    /// Slots that were overwritten before they were read.
    pub overrun: u64,
    /// What it saw of the multicast group.
    pub joined: Option<JoinedGroup>,
}

/// Receives until [`Deliver::next`] ends it.
///
/// # Errors
/// What the wait cannot have here, or a receive call that failed.
pub fn receive(incoming: Incoming, order: &Order, deliver: &mut impl Deliver) -> Result<Received, Unavailable> {
    let of_socket = |calls| Received { calls, ..Received::default() };
    match incoming {
        Incoming::Eth(channel) => by_wait(channel, order, deliver).map(|(_, calls)| of_socket(calls)),
        Incoming::Udp(channel) => by_wait(channel, order, deliver).map(|(_, calls)| of_socket(calls)),
        Incoming::Group(channel) => {
            let (channel, calls) = by_wait(*channel, order, deliver)?;
            Ok(Received { joined: Some(channel.facts()), ..of_socket(calls) })
        }
        Incoming::Shm(reader) => {
            let (calls, overrun) = shared(reader, order, deliver)?;
            Ok(Received { calls, overrun, joined: None })
        }
        Incoming::Nothing => Ok(Received::default()),
    }
}

fn by_wait<C: Polled>(channel: C, order: &Order, deliver: &mut impl Deliver) -> Result<(C, CallCounts), Unavailable> {
    match order.path.wait.as_str() {
        "block" => socket::<C, Block>(channel, order, deliver),
        "poll" => socket::<C, Poll>(channel, order, deliver),
        "epoll" => socket::<C, Epoll>(channel, order, deliver),
        "spin" => socket::<C, Spin>(channel, order, deliver),
        _ => socket::<C, SigIo>(channel, order, deliver),
    }
}

fn socket<C: Receive, W: NewWait<C>>(
    mut channel: C,
    order: &Order,
    deliver: &mut impl Deliver,
) -> Result<(C, CallCounts), Unavailable> {
    let mut wait = W::new(&mut channel, &order.options)?;
    let mut buffer = vec![0; order.size as usize];
    while let next @ (Next::Wait | Next::Drain) = deliver.next() {
        match wait.recv(&mut channel, &mut buffer) {
            Ok(length) => {
                channel.counts().recv_full += 1;
                deliver.message(&buffer[..length], channel.counts());
            }
            Err(error) if next == Next::Drain && error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(Unavailable::new(format!("{}: {error}", order.path), "")),
        }
    }
    channel.settle_counts();
    let calls = *channel.counts();
    Ok((channel, calls))
}

fn shared(mut reader: Reader, order: &Order, deliver: &mut impl Deliver) -> Result<(CallCounts, u64), Unavailable> {
    let mut buffer = vec![0; order.size as usize];
    let mut calls = CallCounts::default();
    while let next @ (Next::Wait | Next::Drain) = deliver.next() {
        match reader.next(&mut buffer) {
            Some((_, length)) => {
                calls.recv_full += 1;
                calls.wait_calls = reader.sleeps();
                deliver.message(&buffer[..length], &calls);
            }
            None if next == Next::Drain => break,
            None if order.path.wait == "spin" => std::hint::spin_loop(),
            None => reader.sleep(SLICE).map_err(|error| Unavailable::new(format!("{}: {error}", order.path), ""))?,
        }
    }
    calls.wait_calls = reader.sleeps();
    Ok((calls, reader.overrun()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mac::Mac;
    use super::super::orders::Start;
    use super::*;

    /// Three components that talk over UDP, at addresses of the loopback device that only this process uses.
    pub fn order(wait: &str) -> Order {
        let [low, high, ..] = std::process::id().to_le_bytes();
        let network = [192 + low % 32, high];
        let probe = UdpSocket::bind((Ipv4Addr::new(127, network[0], network[1], 1), 0)).unwrap();
        let port = probe.local_addr().unwrap().port();
        Order {
            process: 0,
            components: 3,
            of: 3,
            path: format!("udp:send/{wait}").parse().unwrap(),
            options: Default::default(),
            size: 64,
            messages: 10,
            first: 0,
            slices: 1,
            period_ns: 1_000_000,
            jitter_ns: 0,
            seed: 0,
            start: Start::Barrier,
            mac: Mac::None,
            tag: 0,
            port,
            network,
            beyond: None,
            border: 0,
            area: None,
            group: None,
            spawned_ns: Some(0),
        }
    }

    /// What a receiver is told, and how much it was given.
    struct Told(Next, usize);

    impl Deliver for Told {
        fn message(&mut self, _: &[u8], _: &CallCounts) {
            self.1 += 1;
        }

        fn next(&self) -> Next {
            self.0
        }
    }

    #[test]
    fn a_receiver_that_is_told_to_end_takes_what_has_arrived() {
        for wait in ["block", "spin", "poll", "epoll", "sigio"] {
            let order = order(wait);
            let mut all: Vec<_> = (0..3).map(|number| open(&order, number).unwrap()).collect();
            let mut calls = CallCounts::default();
            for (at, (outgoing, _)) in all.iter_mut().enumerate() {
                for _ in 0..=at {
                    outgoing.send(&[0; 64], &mut calls).unwrap();
                }
            }
            let given = |incoming, next| {
                let mut told = Told(next, 0);
                receive(incoming, &order, &mut told).unwrap();
                told.1
            };
            let mut incoming: Vec<_> = all.into_iter().map(|(_, incoming)| incoming).collect();
            assert_eq!(given(incoming.remove(0), Next::Drain), 5, "{wait}: of the second and the third");
            assert_eq!(given(incoming.remove(0), Next::End), 0, "{wait}");
        }
    }
}
