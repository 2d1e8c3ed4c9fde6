//! POSIX message queues.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{check, check_int};

/// One end of a queue. On Linux a queue descriptor is a file descriptor, so it can be polled.
pub struct Queue {
    fd: OwnedFd,
}

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Most messages in the queue.
    pub max_messages: usize,
    /// Most bytes of a message.
    pub max_size: usize,
}

impl Queue {
    /// mq_open(O_CREAT | O_EXCL) for this user only.
    ///
    /// # Errors
    /// `EINVAL`: beyond `/proc/sys/fs/mqueue`; `EMFILE`: RLIMIT_MSGQUEUE; `ENOSYS`: not in this kernel.
    pub fn create(name: &str, attributes: Attributes) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: all-zero is a valid mq_attr.
        let mut raw: libc::mq_attr = unsafe { std::mem::zeroed() };
        raw.mq_maxmsg = attributes.max_messages as _;
        raw.mq_msgsize = attributes.max_size as _;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: `name` is NUL-terminated; with O_CREAT the mode and a valid mq_attr follow.
        let fd = check_int(unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw mut raw) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// mq_open of a queue that exists.
    ///
    /// # Errors
    /// As the manual page.
    pub fn open(name: &str) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: `name` is NUL-terminated; without O_CREAT no further argument is read.
        let fd = check_int(unsafe { libc::mq_open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The same open queue once more, flags included.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// mq_unlink. Both ends keep what they have open.
    ///
    /// # Errors
    /// As the manual page.
    pub fn unlink(name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        // SAFETY: `name` is NUL-terminated.
        check_int(unsafe { libc::mq_unlink(name.as_ptr()) }).map(drop)
    }

    /// mq_getattr.
    ///
    /// # Errors
    /// As the manual page.
    pub fn attributes(&self) -> io::Result<Attributes> {
        // SAFETY: all-zero is a valid mq_attr.
        let mut raw: libc::mq_attr = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is valid to write to.
        check_int(unsafe { libc::mq_getattr(self.fd.as_raw_fd(), &mut raw) })?;
        Ok(Attributes { max_messages: raw.mq_maxmsg as usize, max_size: raw.mq_msgsize as usize })
    }

    /// mq_send with priority 0.
    ///
    /// # Errors
    /// `EMSGSIZE`; `WouldBlock` where the descriptor does not block and the queue is full.
    #[inline(always)]
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and length describe `bytes`.
        check_int(unsafe { libc::mq_send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }).map(drop)
    }

    /// mq_receive. `bytes` must hold the queue's largest message.
    ///
    /// # Errors
    /// `EMSGSIZE` where it does not; `WouldBlock` where the descriptor does not block and the queue is empty.
    #[inline(always)]
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the pointer and length describe `bytes`; the priority is not wanted.
        check(unsafe {
            libc::mq_receive(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), std::ptr::null_mut())
        })
    }

    /// mq_timedreceive with an absolute CLOCK_REALTIME deadline `timeout_ms` from now.
    ///
    /// # Errors
    /// `TimedOut`; else as [`Queue::receive`].
    pub fn receive_within(&self, bytes: &mut [u8], deadline: &Deadline) -> io::Result<usize> {
        // SAFETY: the pointer and length describe `bytes`; the deadline is a valid timespec.
        check(unsafe {
            libc::mq_timedreceive(
                self.fd.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                std::ptr::null_mut(),
                &deadline.0,
            )
        })
    }

    /// Turns O_NONBLOCK on or off for this descriptor.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        crate::set_nonblocking(self.fd.as_fd(), on)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An absolute time of CLOCK_REALTIME, as mq_timedreceive takes it.
#[derive(Clone, Copy)]
pub struct Deadline(libc::timespec);

impl Deadline {
    /// `ns` from now.
    pub fn after(ns: u64) -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to; CLOCK_REALTIME always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
        let nanos = time.tv_nsec as u64 + ns % 1_000_000_000;
        let seconds = time.tv_sec as u64 + ns / 1_000_000_000 + nanos / 1_000_000_000;
        Self(libc::timespec { tv_sec: seconds as _, tv_nsec: (nanos % 1_000_000_000) as _ })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_and_limits_are_read() {
        let name = format!("/msgpath-test-{}", std::process::id());
        let queue = match Queue::create(&name, Attributes { max_messages: 4, max_size: 128 }) {
            Ok(queue) => queue,
            Err(error) => return println!("skipped: no message queues here ({error})"),
        };
        Queue::unlink(&name).unwrap();
        assert_eq!(queue.attributes().unwrap(), Attributes { max_messages: 4, max_size: 128 });
        queue.send(b"hello").unwrap();
        let mut buffer = [0; 128];
        assert_eq!(queue.receive(&mut buffer).unwrap(), 5);
        assert_eq!(
            queue.receive_within(&mut buffer, &Deadline::after(1_000_000)).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert!(queue.send(&[0; 129]).is_err());
    }
}
