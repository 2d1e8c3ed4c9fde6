//! poll and epoll, as measured calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::check_int;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Something on the error queue.
    Error,
}

/// poll(2) of one descriptor. `false`: the time was over.
///
/// # Errors
/// As the manual page, `Interrupted` included.
#[inline(always)]
pub fn poll(fd: BorrowedFd<'_>, interest: Interest, timeout_ms: i32) -> io::Result<bool> {
    let events = match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
        Interest::Error => 0, // POLLERR is always reported
    };
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: `entry` is one valid pollfd.
    check_int(unsafe { libc::poll(&mut entry, 1, timeout_ms) }).map(|ready| ready > 0)
}

/// poll(2) of several descriptors for something to read: for calm code, it allocates. `false`: the time was over.
///
/// # Errors
/// As the manual page, `Interrupted` included.
pub fn any_readable(fds: &[BorrowedFd<'_>], timeout_ms: i32) -> io::Result<bool> {
    let entry = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let count = entries.len() as libc::nfds_t;
    // SAFETY: `entries` holds `count` valid pollfds.
    check_int(unsafe { libc::poll(entries.as_mut_ptr(), count, timeout_ms) }).map(|ready| ready > 0)
}

/// Whether the other end of `fd` has closed, which bytes that were not read yet do not hide.
///
/// # Errors
/// As poll(2).
pub fn is_closed(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut entry = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)];
    loop {
        match rustix::event::poll(&mut entry, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// Waits until the other end of `fd` has closed, or `other` can be read or has ended. Whether it was the former.
///
/// # Errors
/// As poll(2).
pub fn until_closed(fd: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<bool> {
    let mut entries = [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP), PollFd::from_borrowed_fd(other, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut entries, None) {
            Err(rustix::io::Errno::INTR) => {}
            other => {
                other?;
                return Ok(!entries[0].revents().is_empty());
            }
        }
    }
}

/// An epoll instance that watches one descriptor for input, level-triggered.
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// epoll_create1 and epoll_ctl(ADD, EPOLLIN).
    ///
    /// # Errors
    /// As the manual pages.
    pub fn new(watched: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check_int(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        check_int(unsafe { libc::epoll_ctl(fd.as_raw_fd(), libc::EPOLL_CTL_ADD, watched.as_raw_fd(), &mut event) })?;
        Ok(Self { fd })
    }

    /// epoll_ctl(DEL): the descriptor is waited for elsewhere.
    ///
    /// # Errors
    /// As the manual page.
    pub fn forget(&self, watched: BorrowedFd<'_>) -> io::Result<()> {
        let null = std::ptr::null_mut();
        // SAFETY: no event is needed to remove; both descriptors are open.
        let done = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_DEL, watched.as_raw_fd(), null) };
        check_int(done).map(drop)
    }

    /// epoll_wait for one event. `false`: the time was over.
    ///
    /// # Errors
    /// As the manual page, `Interrupted` included.
    #[inline(always)]
    pub fn wait(&self, timeout_ms: i32) -> io::Result<bool> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` has room for the one event asked for.
        check_int(unsafe { libc::epoll_wait(self.fd.as_raw_fd(), &mut event, 1, timeout_ms) }).map(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn closed_channel_is_seen_behind_unread_bytes() {
        let (control, mut other) = UnixStream::pair().unwrap();
        let (over, ends) = std::io::pipe().unwrap();
        other.write_all(b"unread").unwrap();
        assert!(!is_closed(control.as_fd()).unwrap());
        drop(ends);
        assert!(!until_closed(control.as_fd(), over.as_fd()).unwrap(), "the other descriptor has ended");
        let (over, _ends) = std::io::pipe().unwrap();
        drop(other);
        assert!(is_closed(control.as_fd()).unwrap());
        assert!(until_closed(control.as_fd(), over.as_fd()).unwrap());
        let (control, other) = std::io::pipe().unwrap();
        assert!(!is_closed(control.as_fd()).unwrap());
        drop(other);
        assert!(is_closed(control.as_fd()).unwrap(), "a pipe without a writer");
    }
}
