//! SIGINT, SIGTERM and SIGHUP: the first asks the run to stop, a second SIGINT ends the program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    // Only async-signal-safe operations: an atomic swap and _exit. A second Ctrl-C is impatience; a second SIGTERM is
    // not: timeout(1) sends one to the program and one to its process group.
    if STOP.swap(true, Ordering::SeqCst) && signal == libc::SIGINT {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(130) };
    }
}

/// The flag that the first SIGINT, SIGTERM or SIGHUP sets. Installs the handlers at the first call; a SIGINT after that exits
/// with 130 at once. A SIGHUP that is ignored stays so: nohup(1) asks for it.
pub fn stop_flag() -> &'static AtomicBool {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        let pointer = action.as_mut_ptr();
        // SAFETY: `pointer` points to a zeroed sigaction that we own.
        unsafe { (*pointer).sa_sigaction = on_signal as *const () as usize };
        // SAFETY: as above. SA_RESTART: calm code needs no EINTR handling.
        unsafe { (*pointer).sa_flags = libc::SA_RESTART };
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: `pointer` is a valid sigaction whose mask is empty (zero); the old one is not wanted.
            unsafe { libc::sigaction(signal, pointer, std::ptr::null_mut()) };
        }
        let mut before = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: null asks for the disposition alone; `before` has room for it.
        unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), before.as_mut_ptr()) };
        // SAFETY: all zeros is a valid sigaction, and the call has only written over it.
        if unsafe { before.assume_init() }.sa_sigaction != libc::SIG_IGN {
            // SAFETY: as above.
            unsafe { libc::sigaction(libc::SIGHUP, pointer, std::ptr::null_mut()) };
        }
    });
    &STOP
}

extern "C" fn on_kick(_: libc::c_int) {}

/// Interrupts whatever call a thread of this process waits in (EINTR), where that call has no other end: SIGURG with a
/// handler that does nothing and without SA_RESTART. A thread that is about to wait is missed: kick it again.
pub fn kick(thread: i32) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        let pointer = action.as_mut_ptr();
        // SAFETY: `pointer` points to a zeroed sigaction that we own; zero flags, an empty mask.
        unsafe { (*pointer).sa_sigaction = on_kick as *const () as usize };
        // SAFETY: `pointer` is a valid sigaction; the old one is not wanted. on_kick does nothing, so it is safe anywhere.
        unsafe { libc::sigaction(libc::SIGURG, pointer, std::ptr::null_mut()) };
    });
    // SAFETY: tgkill(2) takes numbers only. A thread that has ended is ESRCH, and the number of another process's thread
    // is refused because the process is named too.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGURG) };
}

/// Ignores SIGXFSZ: a file that may not grow (`ulimit -f`) is an error of the write call, EFBIG, not the end of the
/// process.
pub fn ignore_file_size() {
    // SAFETY: SIG_IGN is a valid disposition for SIGXFSZ.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Sends SIGTERM to a process. One that has ended meanwhile is not an error.
pub fn ask_to_end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Ignores SIGINT, SIGTERM and SIGHUP: the far end on this machine ends when its control channel does, not when Ctrl-C,
/// timeout(1) or the end of a terminal reach the whole process group.
pub fn ignore_interrupt() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for all three.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ends this process when the thread that started it ends (PR_SET_PDEATHSIG): nothing outlives a parent that was killed.
/// A parent that is gone already has left this process to another: then it ends here.
///
/// # Errors
/// As prctl(2); `NotFound`: the parent is not the process that was expected.
pub fn die_with_parent(parent: i32) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
    }
}
