//! Bells of io_uring: a completion that one ring puts into another, and a futex that is slept on and woken by its operations.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{Places, early};
use crate::ring::Place;

/// Completions: somebody rang, the sleep on the futex is over, ringing failed.
const RUNG: u64 = 1;
const SLEPT: u64 = 2;
const FAILED: u64 = 3;

/// FUTEX2_SIZE_U32: a word of 32 bits that several processes share.
const FUTEX2_SIZE_U32: u32 = 2;
/// FUTEX_BITSET_MATCH_ANY.
const ANY: u64 = u32::MAX as u64;

/// One end's io_uring.
struct Own {
    ring: IoUring,
    /// Somebody has rung since the last sleep.
    rung: bool,
    /// A sleep on the futex is submitted and not over.
    asleep: bool,
}

impl Own {
    /// With the operation that is needed.
    fn new(operation: u8, name: &str) -> io::Result<Self> {
        let ring = IoUring::new(8).map_err(|error| io::Error::new(error.kind(), format!("io_uring: {error}")))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(operation) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, format!("this kernel has no {name}")));
        }
        Ok(Self { ring, rung: false, asleep: false })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entries of this file have no buffers; the word that one names belongs to a mapping that is kept beside the
        // ring. The queue is empty: every entry is submitted at once.
        unsafe { self.ring.submission().push(entry) }.expect("the submission queue is empty");
    }

    /// Submits an entry that says something only where it fails.
    fn ring(&mut self, entry: squeue::Entry) -> io::Result<()> {
        self.push(&entry.user_data(FAILED).flags(squeue::Flags::SKIP_SUCCESS));
        self.ring.submit()?;
        self.take()
    }

    /// Waits for a completion.
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.take()?;
        if !self.rung {
            let waited = match timeout {
                None => self.ring.submit_and_wait(1),
                Some(timeout) => {
                    let time = Timespec::from(timeout);
                    self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
                }
            };
            early(waited.map(drop))?;
            self.take()?;
        }
        self.rung = false;
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        for completion in self.ring.completion() {
            match (completion.user_data(), completion.result()) {
                // The word had moved before the sleep began: that is what was waited for.
                (SLEPT, result) if result >= 0 || result == -libc::EAGAIN => {
                    (self.asleep, self.rung) = (false, true);
                }
                (RUNG, _) => self.rung = true,
                (_, result) => return Err(io::Error::from_raw_os_error(-result)),
            }
        }
        Ok(())
    }
}

/// IORING_OP_MSG_RING, from ring to ring. The descriptor of an io_uring cannot be passed over a socket (since 6.7): each end writes the
/// number of its own into the shared memory, and the other fetches it with pidfd_getfd(2).
pub struct Messages {
    own: Own,
    rung: Place,
    process: i32,
    peer: Option<OwnedFd>,
}

impl Messages {
    pub(super) fn new([rung, slept_at]: Places, peer: Option<i32>) -> io::Result<Self> {
        let unknown = || io::Error::new(io::ErrorKind::Unsupported, "the other end is in another process namespace");
        let own = Own::new(opcode::MsgRingData::CODE, "IORING_OP_MSG_RING (5.18)")?;
        slept_at.word().store(own.ring.as_raw_fd() as u32, Ordering::Release);
        Ok(Self { own, rung, process: peer.ok_or_else(unknown)?, peer: None })
    }

    /// Only a descriptor of the process at the other end can come of this, whatever that has written.
    pub(super) fn meet(&mut self) -> io::Result<()> {
        if self.peer.is_some() {
            return Ok(());
        }
        let number = self.rung.word().load(Ordering::Acquire) as RawFd;
        let process = Pid::from_raw(self.process).filter(|_| number > 0).ok_or(io::ErrorKind::NotConnected)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        let refused = |error: Errno| {
            let why = format!("the io_uring of the other end cannot be had (pidfd_getfd): {error}");
            io::Error::new(io::Error::from(error).kind(), why)
        };
        self.peer = Some(pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).map_err(refused)?);
        Ok(())
    }

    pub(super) fn ring(&mut self) -> io::Result<()> {
        let peer = self.peer.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let entry = opcode::MsgRingData::new(Fd(peer.as_raw_fd()), 0, RUNG, None).build();
        self.own.ring(entry)
    }

    pub(super) fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.own.sleep(timeout)
    }
}

/// IORING_OP_FUTEX_WAIT and IORING_OP_FUTEX_WAKE on the word by which the receiver says that it sleeps.
pub struct Futexes {
    // Closed before the memory is given back.
    own: Own,
    rung: Place,
    slept_at: Place,
}

impl Futexes {
    pub(super) fn new([rung, slept_at]: Places) -> io::Result<Self> {
        Ok(Self { own: Own::new(opcode::FutexWait::CODE, "IORING_OP_FUTEX_WAIT (6.7)")?, rung, slept_at })
    }

    pub(super) fn ring(&mut self) -> io::Result<()> {
        let word = self.rung.sleeper().as_ptr();
        self.own.ring(opcode::FutexWake::new(word, 1, ANY, FUTEX2_SIZE_U32).build())
    }

    pub(super) fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.own.asleep {
            let word = self.slept_at.sleeper().as_ptr();
            self.own.push(&opcode::FutexWait::new(word, 1, ANY, FUTEX2_SIZE_U32).build().user_data(SLEPT));
            self.own.asleep = true;
        }
        self.own.sleep(timeout)
    }
}
