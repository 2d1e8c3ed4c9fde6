//! CPU affinity of the calling thread.

use std::io;

use msgpath_core::Unavailable;
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

/// Whether threads may be pinned at all: a filter of system calls can deny it.
///
/// # Errors
/// Why not.
pub fn may_pin() -> Result<(), Unavailable> {
    let set = sched_getaffinity(None);
    let tried = set.and_then(|set| sched_setaffinity(None, &set)).map_err(io::Error::from);
    tried.map_err(|error| if_filtered(&error).unwrap_or_else(|| Unavailable::new(error.to_string(), "--cpu none")))
}

/// A call that the kernel grants every process, and that was denied.
fn if_filtered(error: &io::Error) -> Option<Unavailable> {
    let name = match error.raw_os_error()? {
        libc::EPERM => "EPERM",
        libc::ENOSYS => "ENOSYS",
        _ => return None,
    };
    let why = format!("sched_setaffinity is denied by a filter of system calls (a container's?): {name}");
    Some(Unavailable::new(why, "--cpu none, or a filter that lets it pass"))
}

/// Why a thread could not be pinned to `cpu`, where `allowed` are the CPUs of this process.
pub fn refusal(cpu: u32, allowed: &[u32], error: &io::Error) -> Unavailable {
    if let Some(reason) = if_filtered(error) {
        return reason;
    }
    if allowed.contains(&cpu) {
        return Unavailable::new(format!("this thread could not be pinned to cpu {cpu}: {error}"), "--cpu none");
    }
    let list = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let why = format!("cpu {cpu} is not there, or this process may not use it; it may use {list}: {error}");
    Unavailable::new(why, "others with --cpu; a control group (cpuset.cpus) or taskset may have taken it away")
}

/// The calling thread, as /proc/self/task names it.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_system_calls_is_named() {
        for (number, name) in [(libc::EPERM, "EPERM"), (libc::ENOSYS, "ENOSYS")] {
            let reason = refusal(0, &[0, 1], &io::Error::from_raw_os_error(number));
            assert!(reason.why.contains("denied by a filter") && reason.why.ends_with(name), "{reason:?}");
        }
        assert_eq!(may_pin(), Ok(()));
    }

    #[test]
    fn a_cpu_that_is_not_allowed_is_named_with_those_that_are() {
        let error = pin(&[CpuSet::MAX_CPU as u32 - 1]).unwrap_err();
        let reason = refusal(5, &[0, 1], &error);
        assert!(reason.why.starts_with("cpu 5 is not there") && reason.why.contains("may use 0,1: "), "{reason:?}");
        assert!(reason.why.ends_with(&error.to_string()) && reason.hint.contains("--cpu"), "{reason:?}");
    }
}
