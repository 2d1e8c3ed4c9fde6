//! How long the calling thread was runnable and not running: `/proc/thread-self/schedstat`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads the thread's own run delay; opened once, read without allocation.
#[derive(Debug)]
pub struct RunDelay(File);

impl RunDelay {
    /// Of the calling thread, whoever reads it later.
    ///
    /// # Errors
    /// A kernel without scheduler statistics.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self)
    }

    /// So far, ns: the second field (Documentation/scheduler/sched-stats.rst). Some kernels before 5.18 leave it 0 unless
    /// delay accounting is on.
    ///
    /// # Errors
    /// A file that cannot be read, or not as expected.
    pub fn ns(&self) -> io::Result<u64> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0)?;
        std::str::from_utf8(&text[..length]).ok().and_then(waited).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The run delay in the text of a schedstat, ns.
pub fn waited(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The run delay of the calling thread so far, ns.
///
/// # Errors
/// As [`RunDelay::open`] and [`RunDelay::ns`].
pub fn run_delay() -> io::Result<u64> {
    RunDelay::open()?.ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_delay_never_falls() {
        let Ok(delay) = RunDelay::open() else {
            eprintln!("skipped: no scheduler statistics");
            return;
        };
        let before = delay.ns().unwrap();
        (0..100).for_each(|_| std::thread::yield_now());
        assert!(delay.ns().unwrap() >= before && run_delay().unwrap() >= before);
    }
}
