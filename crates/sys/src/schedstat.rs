//! How long a thread ran, and how long it was runnable and not running: `/proc/.../schedstat`
//! (Documentation/scheduler/sched-stats.rst).

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

    /// So far, ns: the second field. Some kernels before 5.18 leave it 0 unless delay accounting is on.
    ///
    /// # Errors
    /// A file that cannot be read, or not as expected.
    pub fn ns(&self) -> io::Result<u64> {
        read(&self.0, waited)
    }
}

/// Reads the CPU time of a thread of this process.
#[derive(Debug)]
pub struct CpuTime(File);

impl CpuTime {
    /// Of the thread with this id.
    ///
    /// # Errors
    /// There is none, or a kernel without scheduler statistics.
    pub fn of_thread(id: u32) -> io::Result<Self> {
        File::open(format!("/proc/self/task/{id}/schedstat")).map(Self)
    }

    /// So far, ns: the first field.
    ///
    /// # Errors
    /// As [`RunDelay::ns`].
    pub fn ns(&self) -> io::Result<u64> {
        read(&self.0, |text| text.split_whitespace().next()?.parse().ok())
    }
}

fn read(file: &File, field: impl Fn(&str) -> Option<u64>) -> io::Result<u64> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0)?;
    std::str::from_utf8(&text[..length]).ok().and_then(field).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The run delay in the text of a schedstat, ns.
pub fn waited(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The same; `None` also where the kernel writes three zeros because it counts nothing.
pub fn waited_if_counted(text: &str) -> Option<u64> {
    waited(text).filter(|_| text.split_whitespace().any(|number| number != "0"))
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
    fn what_the_kernel_does_not_count_is_no_delay() {
        assert_eq!(waited_if_counted("250 40 3\n"), Some(40));
        assert_eq!(waited_if_counted("250 0 3\n"), Some(0));
        assert_eq!((waited_if_counted("0 0 0\n"), waited_if_counted(""), waited_if_counted("7")), (None, None, None));
    }

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
