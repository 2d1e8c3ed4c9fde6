//! Readiness of many descriptors at once: an edge-triggered epoll set, and a waker that other threads ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{check, check_int};

/// The same on every architecture, as all system calls since 424 (asm-generic/unistd.h).
const EPOLL_PWAIT2: libc::c_long = 441;

/// One report of the kernel: which descriptor, and what became possible since it was last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What the descriptor was registered with.
    pub token: u64,
    /// A read will not wait: bytes, an end, or an error.
    pub readable: bool,
    /// A write will not wait.
    pub writable: bool,
    /// The other end will send no more, or the connection is broken: reads must go on until they say so.
    pub ended: bool,
}

/// What [`ReadySet::watch`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Something to read.
    Input,
    /// Room to write.
    Output,
}

/// The directions of a descriptor that are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Something to read.
    pub input: bool,
    /// Room to write.
    pub output: bool,
}

impl Watched {
    fn any(self) -> bool {
        self.input || self.output
    }
}

/// Room for the reports of one [`ReadySet::wait`], kept by the caller so that no call allocates.
pub struct Events {
    raw: Vec<libc::epoll_event>,
    filled: usize,
}

impl Events {
    /// Room for so many at once, at least one.
    pub fn new(room: usize) -> Self {
        Self { raw: vec![libc::epoll_event { events: 0, u64: 0 }; room.max(1)], filled: 0 }
    }

    fn room(&self) -> libc::c_int {
        self.raw.len().min(libc::c_int::MAX as usize) as libc::c_int
    }

    /// What a wait has returned.
    #[inline]
    fn found(&mut self, found: libc::c_int) -> io::Result<()> {
        self.filled = 0;
        match check_int(found) {
            Ok(found) => {
                self.filled = found as usize;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the last wait found nothing.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// What the last wait found.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.raw[..self.filled].iter().map(|raw| {
            let (bits, token) = (raw.events, raw.u64);
            let has = |wanted: libc::c_int| bits & wanted as u32 != 0;
            let broken = has(libc::EPOLLERR | libc::EPOLLHUP);
            Event {
                token,
                readable: broken || has(libc::EPOLLIN | libc::EPOLLRDHUP),
                writable: broken || has(libc::EPOLLOUT),
                ended: broken || has(libc::EPOLLRDHUP),
            }
        })
    }
}

/// An epoll instance. Each descriptor is watched for input, room and end at once, edge-triggered: a report comes when
/// something *becomes* possible, so that no call is needed to change what is watched.
pub struct ReadySet {
    fd: OwnedFd,
}

impl ReadySet {
    /// epoll_create1.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check_int(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// epoll_ctl(ADD). The set forgets a descriptor when its last copy is closed.
    ///
    /// # Errors
    /// As the manual page: it is in the set already, or `max_user_watches` is reached.
    pub fn add(&self, watched: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let wanted = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: wanted as u32, u64: token };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        let done =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, watched.as_raw_fd(), &mut event) };
        check_int(done).map(drop)
    }

    /// epoll_ctl(ADD) of one direction, level-triggered: a report comes as long as it is possible.
    ///
    /// # Errors
    /// As [`ReadySet::add`].
    pub fn watch(&self, watched: BorrowedFd<'_>, direction: Direction, token: u64) -> io::Result<()> {
        let wanted = match direction {
            Direction::Input => libc::EPOLLIN,
            Direction::Output => libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: wanted as u32, u64: token };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        let done =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, watched.as_raw_fd(), &mut event) };
        check_int(done).map(drop)
    }

    /// Changes which directions of a descriptor are watched, as [`ReadySet::watch`] does: epoll_ctl with ADD, MOD or DEL.
    ///
    /// # Errors
    /// As the manual page.
    pub fn change(&self, watched: BorrowedFd<'_>, before: Watched, now: Watched, token: u64) -> io::Result<()> {
        let operation = match (before.any(), now.any()) {
            (false, false) => return Ok(()),
            (false, true) => libc::EPOLL_CTL_ADD,
            (true, true) => libc::EPOLL_CTL_MOD,
            (true, false) => libc::EPOLL_CTL_DEL,
        };
        let bit = |on: bool, bit: libc::c_int| if on { bit as u32 } else { 0 };
        let events = bit(now.input, libc::EPOLLIN) | bit(now.output, libc::EPOLLOUT);
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        let done = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, watched.as_raw_fd(), &mut event) };
        check_int(done).map(drop)
    }

    /// epoll_ctl(DEL).
    ///
    /// # Errors
    /// As the manual page: it is not in the set.
    pub fn forget(&self, watched: BorrowedFd<'_>) -> io::Result<()> {
        let null = std::ptr::null_mut();
        // SAFETY: no event is needed to remove; both descriptors are open.
        let done = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_DEL, watched.as_raw_fd(), null) };
        check_int(done).map(drop)
    }

    /// epoll_wait. No report at all: the time was over, or a signal came.
    ///
    /// # Errors
    /// As the manual page, without `Interrupted`.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ms: i32) -> io::Result<()> {
        let room = events.room();
        // SAFETY: `raw` has room for the number of events that is passed.
        let found = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.raw.as_mut_ptr(), room, timeout_ms) };
        events.found(found)
    }

    /// epoll_pwait2: the same with a time in nanoseconds, as exact as the thread's timer slack. A kernel before 5.11 does
    /// not have it; there the wait is one of whole milliseconds, and ends early.
    ///
    /// # Errors
    /// As [`ReadySet::wait`].
    pub fn wait_ns(&self, events: &mut Events, timeout_ns: u64) -> io::Result<()> {
        let room = events.room();
        let time = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as _,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: `raw` has room for the number of events that is passed, `time` is valid for the call, and no signal
        // mask is set, of which the size is 0.
        let found = unsafe {
            libc::syscall(
                EPOLL_PWAIT2,
                self.fd.as_raw_fd(),
                events.raw.as_mut_ptr(),
                room,
                &raw const time,
                no_mask,
                0_usize,
            )
        };
        match events.found(found as libc::c_int) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                self.wait(events, (timeout_ns / 1_000_000).min(i32::MAX as u64) as i32)
            }
            result => result,
        }
    }
}

impl AsFd for ReadySet {
    /// Readable when there is something to report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An eventfd: rung by any thread, seen by the one whose set watches it.
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// eventfd(2), not blocking.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check_int(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Registers it in a set.
    ///
    /// # Errors
    /// As [`ReadySet::add`].
    pub fn watch(&self, set: &ReadySet, token: u64) -> io::Result<()> {
        use std::os::fd::AsFd;
        set.add(self.fd.as_fd(), token)
    }

    /// Rings. Cannot fail but by a full counter, which has rung as well.
    pub fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the pointer and length describe `one`.
        let _ = check(unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) });
    }

    /// Takes the rings back, so that the next one is an edge again.
    pub fn quiet(&self) {
        let mut rings = 0_u64;
        // SAFETY: the pointer and length describe `rings`. The descriptor does not block.
        let _ = check(unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut rings).cast(), size_of::<u64>()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn an_edge_is_reported_once_and_an_end_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let set = ReadySet::new().unwrap();
        let mut events = Events::new(4);
        set.add(far.as_fd(), 7).unwrap();
        set.wait(&mut events, 1000).unwrap();
        let first: Vec<Event> = events.iter().collect();
        assert_eq!(first, [Event { token: 7, readable: false, writable: true, ended: false }]);
        near.write_all(&[1]).unwrap();
        set.wait(&mut events, 1000).unwrap();
        assert!(events.iter().next().is_some_and(|event| event.readable && !event.ended));
        set.wait(&mut events, 0).unwrap();
        assert_eq!(events.iter().count(), 0, "the byte still lies there, but it is not news");
        drop(near);
        set.wait(&mut events, 1000).unwrap();
        assert!(events.iter().next().is_some_and(|event| event.ended));
    }

    #[test]
    fn what_is_watched_is_reported_until_it_is_taken_or_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let set = ReadySet::new().unwrap();
        let mut events = Events::new(4);
        set.watch(far.as_fd(), Direction::Input, 3).unwrap();
        set.wait(&mut events, 0).unwrap();
        assert_eq!(events.iter().count(), 0, "room to write is not asked for");
        near.write_all(&[1]).unwrap();
        for _ in 0..2 {
            set.wait(&mut events, 1000).unwrap();
            assert!(events.iter().next().is_some_and(|event| event.token == 3 && event.readable && !event.writable));
        }
        set.forget(far.as_fd()).unwrap();
        assert!(set.forget(far.as_fd()).is_err());
        set.watch(far.as_fd(), Direction::Output, 4).unwrap();
        set.wait(&mut events, 0).unwrap();
        assert!(events.iter().next().is_some_and(|event| event.token == 4 && event.writable));
    }

    #[test]
    fn a_waker_is_heard_again_after_it_was_quieted() {
        let set = ReadySet::new().unwrap();
        let mut events = Events::new(1);
        let waker = Waker::new().unwrap();
        waker.watch(&set, 1).unwrap();
        set.wait(&mut events, 0).unwrap();
        for _ in 0..2 {
            waker.ring();
            waker.ring();
            set.wait(&mut events, 1000).unwrap();
            assert!(events.iter().next().is_some_and(|event| event.readable && event.token == 1));
            waker.quiet();
        }
    }
}
