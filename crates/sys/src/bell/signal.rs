//! Bells of real-time signals: sent with rt_tgsigqueueinfo(2) to the thread that sleeps, which has them blocked and takes them by
//! sigtimedwait(2), or reads them from a signalfd(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Places, early, timespec};
use crate::poll::{Interest, poll};
use crate::ring::Place;
use crate::{check, check_int, msg};

/// Bytes of a `struct signalfd_siginfo`.
const RECORD: usize = 128;

/// One end's signals.
pub struct Signals {
    /// The process that is signalled, as the kernel names it. Its thread stands in the shared memory; one of another process is
    /// refused by the kernel, so a hostile peer directs signals at nobody else.
    peer: libc::pid_t,
    rung: Place,
    slept_at: Place,
    by_descriptor: bool,
    /// The sleeping thread's: made by its first sleep.
    armed: Option<Armed>,
}

struct Armed {
    set: libc::sigset_t,
    fd: Option<OwnedFd>,
}

/// Another than those of [`crate::sigio`].
fn number() -> libc::c_int {
    libc::SIGRTMIN() + 4
}

fn only_that() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised, and the number is that of a signal.
    unsafe { libc::sigaddset(set.as_mut_ptr(), number()) };
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

impl Signals {
    pub(super) fn new([rung, slept_at]: Places, peer: Option<i32>, by_descriptor: bool) -> io::Result<Self> {
        let unknown = || io::Error::new(io::ErrorKind::Unsupported, "the other end is in another process namespace");
        Ok(Self { peer: peer.ok_or_else(unknown)?, rung, slept_at, by_descriptor, armed: None })
    }

    pub(super) fn duplicate(&self) -> Self {
        let Self { peer, by_descriptor, .. } = *self;
        Self { peer, rung: self.rung.clone(), slept_at: self.slept_at.clone(), by_descriptor, armed: None }
    }

    /// Blocks the signal in this thread, which stays so, and says which thread it is.
    pub(super) fn arm(&mut self) -> io::Result<()> {
        if self.armed.is_some() {
            return Ok(());
        }
        let set = only_that();
        // SAFETY: `set` is initialised; the old mask is not wanted.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        let fd = if self.by_descriptor {
            // SAFETY: `set` is initialised; -1 asks for a new descriptor.
            let fd = check_int(unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) })?;
            // SAFETY: `fd` was just returned and is owned by nobody else.
            Some(unsafe { OwnedFd::from_raw_fd(fd) })
        } else {
            None
        };
        self.armed = Some(Armed { set, fd });
        self.slept_at.word().store(crate::affinity::thread_id() as u32, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn ring(&self) -> io::Result<()> {
        let thread = self.rung.word().load(Ordering::SeqCst) as libc::pid_t;
        // SAFETY: all-zero is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        (info.si_signo, info.si_code) = (number(), libc::SI_QUEUE);
        // SAFETY: `info` is valid for the call; the other arguments are numbers.
        let sent = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, self.peer, thread, number(), &raw const info) };
        match check(sent as libc::ssize_t) {
            // The thread has ended: nobody sleeps any more.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other.map(drop),
        }
    }

    pub(super) fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let Some(Armed { set, fd }) = &self.armed else { return Ok(()) };
        let Some(fd) = fd else {
            let time = timeout.map(timespec);
            let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: `set` is initialised and the signal blocked; what came with it is not wanted; the time is valid or null.
            return early(check_int(unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), time) }).map(drop));
        };
        if let Some(timeout) = timeout {
            match poll(fd.as_fd(), Interest::Read, timeout.as_millis() as i32) {
                Ok(true) => {}
                other => return early(other.map(drop)),
            }
        }
        early(msg::read(fd.as_fd(), &mut [0; RECORD]).map(drop))
    }
}
