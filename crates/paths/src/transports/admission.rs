//! Who may join a round: every connection of an offer has a random key, which travels with its address over the control
//! channel and comes back in the connection's first bytes. The key says which connection it is. So neither the order in
//! which connections arrive nor the address from which they seem to come matters (a lost handshake, NAT), and who does
//! not know a key is turned away without ending the round.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use msgpath_sys::mark::take_with_traffic_class;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::ready::{Direction, Events, ReadySet};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags};

use crate::channel::Limits;

/// Connections whose key has not come yet; beyond that the oldest goes.
const WAITING: usize = 128;
/// How long the near end tries to hand its key over.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether the round was given up.
const LOOK: Duration = Duration::from_millis(50);
/// A datagram with a key may be lost: so many of them go.
const REPEATS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key([u8; Key::LENGTH]);

impl Key {
    /// Bytes of a key: the number of its connection (u32 big-endian), by which it is found, and a random number.
    const LENGTH: usize = 16;
    const NUMBER: usize = 4;

    /// A key of this connection that nobody can guess.
    fn random(number: u32) -> io::Result<Self> {
        let mut key: [u8; Self::LENGTH] = msgpath_sys::random::bytes()?;
        key[..Self::NUMBER].copy_from_slice(&number.to_be_bytes());
        Ok(Self(key))
    }

    /// Takes the time that a comparison of all bytes takes, wherever they differ.
    fn is(&self, other: &[u8]) -> bool {
        other.len() == Self::LENGTH && self.0.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }

    fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 2 * Self::LENGTH)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// From where a datagram with a key came, and with which traffic class.
pub(crate) type Learnt = (SocketAddr, Option<u8>);

/// The keys of an offer, in the order of its connections.
pub(crate) struct Keys(Vec<Key>);

impl Keys {
    pub(crate) fn new(connections: u32) -> io::Result<Self> {
        (0..connections).map(Key::random).collect::<io::Result<_>>().map(Self)
    }

    /// What the near end is told: the place of each connection and its key.
    pub(crate) fn addresses(&self, place: impl Fn(usize) -> String) -> Vec<String> {
        self.0.iter().enumerate().map(|(at, key)| format!("{} {key}", place(at))).collect()
    }

    fn position(&self, bytes: &[u8]) -> Option<usize> {
        let at = u32::from_be_bytes(*bytes.first_chunk::<{ Key::NUMBER }>()?) as usize;
        self.0.get(at).filter(|key| key.is(bytes)).map(|_| at)
    }

    /// From where each connection's datagrams come, as their keys say at `door`; `None` where no key came. `may`: whether
    /// that address may take part.
    ///
    /// # Errors
    /// As recvfrom(2); `ConnectionAborted`: the round was given up.
    pub(crate) fn learn(
        &self,
        door: &OwnedFd,
        timeout: Duration,
        limits: &Limits,
        may: impl Fn(SocketAddr) -> bool,
    ) -> io::Result<Vec<Option<Learnt>>> {
        let mut learnt = vec![None; self.0.len()];
        let start = Instant::now();
        while learnt.contains(&None) {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            limits.look()?;
            match poll(door.as_fd(), Interest::Read, left.min(LOOK).as_millis().max(1) as i32) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let mut bytes = [0_u8; Key::LENGTH + 1];
            let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let Ok((got, _, from)) = net::recvfrom(door, &mut bytes, peek) else { continue };
            let Ok(class) = take_with_traffic_class(door.as_fd()) else { continue };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok()).filter(|from| may(*from));
            if let (Some(from), Some(at)) = (from, self.position(&bytes[..got.min(bytes.len())])) {
                learnt[at].get_or_insert((from, class));
            }
        }
        Ok(learnt)
    }
}

/// The connections of an offer that come to a listening socket, as far as they have come.
pub struct Admission {
    /// Several where they share a port, among which the kernel chooses.
    listeners: Vec<OwnedFd>,
    keys: Keys,
    waiting: Waiting,
    /// In the order of the keys.
    joined: Vec<Option<OwnedFd>>,
    missing: usize,
    /// Whether whoever connected may at all.
    may: fn(&OwnedFd) -> bool,
    broken: Option<io::Error>,
}

impl Admission {
    /// The socket that listens, once more.
    pub(crate) fn listening(&self) -> io::Result<OwnedFd> {
        self.listeners[0].try_clone()
    }

    /// For so many connections.
    pub(crate) fn new(listeners: Vec<OwnedFd>, connections: u32, may: fn(&OwnedFd) -> bool) -> io::Result<Self> {
        listeners.iter().try_for_each(|listener| msgpath_sys::set_nonblocking(listener.as_fd(), true))?;
        let (keys, waiting) = (Keys::new(connections)?, Waiting::new(&listeners)?);
        let joined = keys.0.iter().map(|_| None).collect();
        Ok(Self { listeners, keys, waiting, joined, missing: connections as usize, may, broken: None })
    }

    /// What the near end is told: the place of the socket with each key.
    pub(crate) fn addresses(&self, place: &str) -> Vec<String> {
        self.keys.addresses(|_| place.to_owned())
    }

    /// What can be read when somebody knocks; `None` once all have come, or once nobody can be let in any more.
    pub fn door(&self) -> Option<BorrowedFd<'_>> {
        (self.missing > 0 && self.broken.is_none()).then(|| self.waiting.set.as_fd())
    }

    /// Lets in whoever has come, without waiting. What goes wrong is said by what takes the connections in the end.
    pub fn admit(&mut self) {
        if self.broken.is_none()
            && let Err(error) = self.look(Duration::ZERO)
        {
            self.broken = Some(error);
        }
    }

    fn look(&mut self, left: Duration) -> io::Result<()> {
        for (bytes, fd) in self.waiting.news(&self.listeners, left, self.may)? {
            // A key serves once: whoever comes with it again is a stranger.
            if let Some(slot) = self.keys.position(&bytes).map(|at| &mut self.joined[at]).filter(|slot| slot.is_none())
            {
                *slot = Some(fd);
                self.missing -= 1;
            }
        }
        Ok(())
    }

    /// Every connection of the offer, in the order of the keys.
    ///
    /// # Errors
    /// One of them did not come in time; `ConnectionAborted`: the round was given up.
    pub(crate) fn accept(&mut self, timeout: Duration, limits: &Limits) -> io::Result<Vec<OwnedFd>> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let start = Instant::now();
        while self.missing > 0 {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                let what = format!("{} of {} connections did not come", self.missing, self.joined.len());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            limits.look()?;
            self.look(left.min(LOOK))?;
        }
        Ok(self.joined.drain(..).flatten().collect())
    }
}

/// Connections whose key has not come whole.
struct Waiting {
    set: ReadySet,
    events: Events,
    /// Oldest first, with the token by which the set names each.
    each: VecDeque<(u64, OwnedFd, Vec<u8>)>,
    next: u64,
}

impl Waiting {
    const LISTENER: u64 = 0;

    fn new(listeners: &[OwnedFd]) -> io::Result<Self> {
        let set = ReadySet::new()?;
        listeners.iter().try_for_each(|listener| set.watch(listener.as_fd(), Direction::Input, Self::LISTENER))?;
        Ok(Self { set, events: Events::new(64), each: VecDeque::new(), next: 1 })
    }

    /// Waits for something to happen; the connections whose key is whole now.
    fn news(
        &mut self,
        listeners: &[OwnedFd],
        left: Duration,
        may: fn(&OwnedFd) -> bool,
    ) -> io::Result<Vec<(Vec<u8>, OwnedFd)>> {
        let wait_ms = if left.is_zero() { 0 } else { left.as_millis().max(1) as i32 };
        self.set.wait(&mut self.events, wait_ms)?;
        let mut touched: Vec<u64> = self.events.iter().map(|event| event.token).collect();
        for listener in listeners.iter().filter(|_| touched.contains(&Self::LISTENER)).collect::<Vec<_>>() {
            // As many as came, but not for ever: those that wait are looked at between, and those of this look must not
            // push out the one that came just before them.
            for _ in 0..WAITING / 2 {
                match net::accept_with(listener, SocketFlags::CLOEXEC) {
                    Ok(fd) if may(&fd) => touched.push(self.wait_for(fd)?),
                    Ok(_) => {}
                    // Whoever was there has gone again.
                    Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => break,
                    // No descriptor is left: one comes back as soon as a stranger is turned away.
                    Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) if self.each.pop_front().is_some() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let mut whole = Vec::new();
        for token in touched {
            let Some(at) = self.each.iter().position(|(own, ..)| *own == token) else { continue };
            let (_, fd, bytes) = &mut self.each[at];
            let mut buffer = [0_u8; Key::LENGTH];
            let room = Key::LENGTH - bytes.len();
            match net::recv(&*fd, &mut buffer[..room], RecvFlags::DONTWAIT) {
                Ok((0, _)) => drop(self.each.remove(at)),
                Ok((got, _)) => {
                    bytes.extend_from_slice(&buffer[..got.min(room)]);
                    if bytes.len() == Key::LENGTH
                        && let Some((_, fd, bytes)) = self.each.remove(at)
                    {
                        let _ = self.set.forget(fd.as_fd());
                        whole.push((bytes, fd));
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(_) => drop(self.each.remove(at)),
            }
        }
        Ok(whole)
    }

    fn wait_for(&mut self, fd: OwnedFd) -> io::Result<u64> {
        if self.each.len() == WAITING {
            self.each.pop_front();
        }
        let token = self.next;
        self.next += 1;
        self.set.watch(fd.as_fd(), Direction::Input, token)?;
        self.each.push_back((token, fd, Vec::with_capacity(Key::LENGTH)));
        Ok(token)
    }
}

/// The place and the key of an address that the far end offered.
pub(crate) fn parse(address: &str) -> io::Result<(&str, Key)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("{address:?} has no key"));
    let (place, key) = address.rsplit_once(' ').ok_or_else(invalid)?;
    Ok((place, Key::parse(key).ok_or_else(invalid)?))
}

/// Says on a connection which one it is: its first bytes.
pub(crate) fn introduce(fd: &OwnedFd, key: &Key) -> io::Result<()> {
    let (start, mut done) = (Instant::now(), 0);
    while done < Key::LENGTH {
        match net::send(fd, &key.0[done..], SendFlags::NOSIGNAL) {
            Ok(sent) => done += sent,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) if start.elapsed() < PATIENCE => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Says by datagrams to the far end's door which connection this socket will be.
pub(crate) fn introduce_to(fd: &OwnedFd, door: SocketAddr, key: &Key) -> io::Result<()> {
    for _ in 0..REPEATS {
        net::sendto(fd, &key.0, SendFlags::NOSIGNAL, &door)?;
    }
    Ok(())
}

/// Throws away what came before a datagram socket was connected: it may be anybody's.
pub(crate) fn drain(fd: &OwnedFd) {
    let mut byte = [0_u8; 1];
    // Bounded: who fills the queue faster than it is emptied cannot go on once the socket is connected.
    for _ in 0..1 << 16 {
        match net::recv(fd, &mut byte, RecvFlags::DONTWAIT) {
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNREFUSED) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_their_text_and_are_never_the_same() {
        let keys = Keys::new(64).unwrap();
        for (at, address) in keys.addresses(|_| "[::1]:80".into()).iter().enumerate() {
            let (place, key) = parse(address).unwrap();
            assert_eq!((place, keys.position(&key.0)), ("[::1]:80", Some(at)));
        }
        assert_eq!(keys.position(&[0; Key::LENGTH]), None);
        assert_eq!(keys.position(b"short"), None);
        assert_eq!(keys.position(b"no"), None);
        let mut other = keys.0[3].0;
        other[Key::LENGTH - 1] ^= 1;
        assert_eq!(keys.position(&other), None, "the number alone opens nothing");
        for bad in ["", "127.0.0.1:80", "127.0.0.1:80 ", "127.0.0.1:80 12"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
