//! Signals that say that a descriptor has something to read (O_ASYNC, fcntl(2), signal(7)).
//!
//! The signals of a descriptor go to one thread (F_SETOWN_EX) and stay blocked there except while it sleeps in ppoll(2):
//! one that comes between the look at the descriptor and the sleep ends the sleep at once, so no wake-up is lost. The
//! handler does three atomic operations. What it counts belongs to its thread.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::{check_int, clock};

const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}

thread_local! {
    // Without a destructor and made of constants: reading them takes no lock and allocates nothing, also in a handler.
    static COUNT: AtomicU64 = const { AtomicU64::new(0) };
    static FIRST: AtomicU64 = const { AtomicU64::new(0) };
    /// When the signal was handled that ended the last sleep; 0: none since it was asked.
    static LAST: Cell<u64> = const { Cell::new(0) };
    /// Descriptors of this thread, and the mask that it had before the first of them.
    static ARMED: Cell<u32> = const { Cell::new(0) };
    static MASK: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

extern "C" fn on_signal(_: libc::c_int) {
    // Async-signal-safe: atomics of this thread, and clock_gettime(2), which signal-safety(7) lists.
    COUNT.with(|count| count.fetch_add(1, Ordering::Relaxed));
    FIRST.with(|first| {
        if first.load(Ordering::Relaxed) == 0 {
            first.store(clock::now(), Ordering::Relaxed);
        }
    });
}

/// The real-time signal that is asked for with F_SETSIG: one is queued for every event.
fn queued_signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

fn both() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in [libc::SIGIO, queued_signal()] {
        // SAFETY: the set is initialised and both are signals.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

/// Installs the handler, once a process. SIGIO as well where queued signals are asked for: the kernel falls back to it when
/// its queue is full, and without a handler SIGIO ends the process.
fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        let pointer = action.as_mut_ptr();
        // SAFETY: `pointer` points to a zeroed sigaction that we own.
        unsafe { (*pointer).sa_sigaction = on_signal as *const () as usize };
        // SAFETY: as above. SA_RESTART: other calls of this thread are not interrupted; ppoll always is.
        unsafe { (*pointer).sa_flags = libc::SA_RESTART };
        for signal in [libc::SIGIO, queued_signal()] {
            // SAFETY: `pointer` is a valid sigaction whose mask is empty (zero); the old one is not wanted.
            unsafe { libc::sigaction(signal, pointer, std::ptr::null_mut()) };
        }
    });
}

/// Whether the descriptor takes O_ASYNC at all: some files ignore it without an error.
///
/// # Errors
/// `Unsupported` where it was ignored; as fcntl(2).
pub fn probe(fd: BorrowedFd<'_>) -> io::Result<()> {
    install();
    let own = Owner { kind: F_OWNER_TID, pid: crate::affinity::thread_id() };
    set_owner(fd, &own)?;
    let flags = fcntl_getfl(fd)?;
    fcntl_setfl(fd, flags | OFlags::from_bits_retain(libc::O_ASYNC as u32))?;
    let granted = fcntl_getfl(fd)?.bits() & libc::O_ASYNC as u32 != 0;
    fcntl_setfl(fd, flags)?;
    if granted { Ok(()) } else { Err(io::Error::from(io::ErrorKind::Unsupported)) }
}

fn set_owner(fd: BorrowedFd<'_>, owner: &Owner) -> io::Result<()> {
    // SAFETY: F_SETOWN_EX reads one f_owner_ex.
    check_int(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETOWN_EX, std::ptr::from_ref(owner)) })?;
    Ok(())
}

/// The signals of one descriptor, directed at the thread that made this.
pub struct Signals {
    fd: OwnedFd,
    sleeping: libc::sigset_t,
    /// Not to be sent to another thread: the mask is that of the one that made it.
    _own: std::marker::PhantomData<*const ()>,
}

impl Signals {
    /// Directs the signals of the descriptor at this thread, blocked but for [`Signals::sleep`]. `queued`: a real-time
    /// signal for every event (F_SETSIG) instead of SIGIO, of which one stands for many.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn arm(fd: BorrowedFd<'_>, queued: bool) -> io::Result<Self> {
        install();
        let fd = fd.try_clone_to_owned()?;
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are valid for the call; `before` is written.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &both(), before.as_mut_ptr()) };
        // SAFETY: written by pthread_sigmask, which fails only for an unknown first argument.
        let before = unsafe { before.assume_init() };
        if ARMED.get() == 0 {
            MASK.set(Some(before));
        }
        ARMED.set(ARMED.get() + 1);
        let mut sleeping = MASK.get().unwrap_or(before);
        for signal in [libc::SIGIO, queued_signal()] {
            // SAFETY: an initialised set and a signal.
            unsafe { libc::sigdelset(&mut sleeping, signal) };
        }
        let signals = Self { fd, sleeping, _own: std::marker::PhantomData };
        // From here on `drop` restores the mask.
        set_owner(signals.fd.as_fd(), &Owner { kind: F_OWNER_TID, pid: crate::affinity::thread_id() })?;
        let signal = if queued { queued_signal() } else { 0 };
        // SAFETY: F_SETSIG takes a number; 0 is SIGIO.
        check_int(unsafe { libc::fcntl(signals.fd.as_raw_fd(), F_SETSIG, signal) })?;
        let flags = fcntl_getfl(&signals.fd)?;
        fcntl_setfl(&signals.fd, flags | OFlags::from_bits_retain(libc::O_ASYNC as u32))?;
        Ok(signals)
    }

    /// Sleeps until a signal comes, one that is pending already included. `false`: none came in time.
    ///
    /// # Errors
    /// As ppoll(2).
    #[inline(always)]
    pub fn sleep(&self, most: Duration) -> io::Result<bool> {
        let timeout = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
        // SAFETY: no descriptors; timeout and mask are valid for the call.
        let result = check_int(unsafe { libc::ppoll(std::ptr::null_mut(), 0, &timeout, &self.sleeping) });
        match result {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Ok(flags) = fcntl_getfl(&self.fd) {
            let _ = fcntl_setfl(&self.fd, flags.difference(OFlags::from_bits_retain(libc::O_ASYNC as u32)));
        }
        ARMED.set(ARMED.get().saturating_sub(1));
        if ARMED.get() == 0
            && let Some(before) = MASK.take()
        {
            // What is still pending runs the handler now, and is counted.
            // SAFETY: a mask that this thread had before; the old one is not wanted.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
        }
    }
}

/// What the handler saw in this thread since the last call: signals, and when the first of them was handled (ns of the
/// monotonic clock; 0: none).
#[inline(always)]
pub fn take() -> (u64, u64) {
    let first = FIRST.with(|first| first.swap(0, Ordering::Relaxed));
    if first != 0 {
        LAST.set(first);
    }
    (COUNT.with(|count| count.swap(0, Ordering::Relaxed)), first)
}

/// When the handler ran that [`take`] last told of, ns of the monotonic clock; 0: not since this was asked.
#[inline(always)]
pub fn handled() -> u64 {
    LAST.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    #[test]
    fn a_signal_between_the_look_and_the_sleep_is_not_lost() {
        let (mut near, mut far) = pair();
        let signals = Signals::arm(far.as_fd(), false).unwrap();
        take();
        for _ in 0..100 {
            assert_eq!(far.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            near.write_all(&[1]).unwrap(); // the signal comes now, while it is blocked
            assert!(signals.sleep(Duration::from_secs(5)).unwrap());
            assert_eq!(far.read(&mut [0]).unwrap(), 1);
        }
        let (count, first) = take();
        assert!(count == 100 && first > 0, "{count}");
        assert!(!signals.sleep(Duration::from_millis(1)).unwrap(), "nothing is left over");
    }

    #[test]
    fn standard_signals_merge_and_queued_ones_do_not() {
        let (mut near, far) = pair();
        for (queued, expected) in [(false, 1), (true, 5)] {
            let signals = Signals::arm(far.as_fd(), queued).unwrap();
            take();
            (0..5).for_each(|_| near.write_all(&[1]).unwrap());
            let woken = (0..8).take_while(|_| signals.sleep(Duration::from_millis(20)).unwrap()).count() as u64;
            assert_eq!((woken, take().0), (expected, expected), "queued: {queued}");
        }
    }

    #[test]
    fn the_mask_comes_back_when_the_last_one_goes() {
        let blocked = || {
            let mut now = MaybeUninit::uninit();
            // SAFETY: a null set asks for the mask only.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr()) };
            // SAFETY: written above.
            let now = unsafe { now.assume_init() };
            // SAFETY: an initialised set.
            unsafe { libc::sigismember(&now, libc::SIGIO) == 1 }
        };
        let ((_a, b), (_c, d)) = (pair(), pair());
        assert!(!blocked());
        let first = Signals::arm(b.as_fd(), false).unwrap();
        let second = Signals::arm(d.as_fd(), false).unwrap();
        drop(first);
        assert!(blocked(), "the other one still sleeps by it");
        drop(second);
        assert!(!blocked());
    }

    #[test]
    fn a_file_that_knows_no_signal_says_so() {
        assert!(probe(pair().1.as_fd()).is_ok());
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(probe(file.as_fd()).is_err());
    }
}
