//! Futexes between threads of this process.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

/// Sleeps while `word` holds `expected`, at most `timeout`. May return early: look at the word again.
///
/// # Errors
/// As futex(2), without `EAGAIN`, `EINTR` and `ETIMEDOUT`.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) -> io::Result<()> {
    let time = futex::Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
    match futex::wait(word, futex::Flags::PRIVATE, expected, Some(&time)) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes one thread that sleeps on `word`.
///
/// # Errors
/// As futex(2).
#[inline]
pub fn wake(word: &AtomicU32) -> io::Result<()> {
    futex::wake(word, futex::Flags::PRIVATE, 1)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_sleeper_is_woken_and_a_changed_word_is_not_slept_on() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                word.store(1, Ordering::SeqCst);
                wake(&word).unwrap();
            });
            while word.load(Ordering::SeqCst) == 0 {
                wait(&word, 0, Duration::from_secs(5)).unwrap();
            }
        });
        wait(&word, 0, Duration::from_secs(600)).unwrap();
    }
}
