//! SIGINT and SIGTERM: the first asks the run to stop, the second ends the program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    // Only async-signal-safe operations: an atomic swap and _exit.
    if STOP.swap(true, Ordering::SeqCst) {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(130) };
    }
}

/// The flag that the first SIGINT or SIGTERM sets. Installs the handlers at the first call; a second signal exits
/// with 130 at once.
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
    });
    &STOP
}

/// Ignores SIGINT: the far end on this machine ends when its control channel does, not when Ctrl-C reaches the whole
/// process group.
pub fn ignore_interrupt() {
    // SAFETY: SIG_IGN is a valid disposition for SIGINT.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Asks the kernel to send SIGKILL to this process when its parent dies (PR_SET_PDEATHSIG).
///
/// # Errors
/// The kernel refused.
pub fn die_with_parent() -> std::io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}
