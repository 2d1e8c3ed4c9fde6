//! CPU affinity of the calling thread.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs this thread may run on, in order.
pub fn allowed() -> Vec<u32> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect(),
        Err(_) => Vec::new(),
    }
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// A CPU that does not exist or is not allowed.
pub fn pin(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu as usize >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        set.set(*cpu as usize);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The calling thread, as /proc/self/task names it.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
