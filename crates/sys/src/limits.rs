//! What the kernel allows this process: open descriptors.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of descriptors that this process may have open to `wanted`, as far as it may itself. Returns how
/// many are allowed now; it is never lowered.
///
/// # Errors
/// As setrlimit(2).
pub fn allow_open_files(wanted: u64) -> io::Result<u64> {
    let now = getrlimit(Resource::Nofile);
    let (current, most) = (now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX));
    let raised = wanted.min(most);
    if raised <= current {
        return Ok(current);
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: now.maximum })?;
    Ok(raised)
}

/// Descriptors that a process may have open at most, unless somebody has raised fs.nr_open (proc_sys_fs(5)).
const USUAL_MOST: u64 = 1 << 20;

/// Raises the number of descriptors as far as this process may itself.
///
/// # Errors
/// As setrlimit(2).
pub fn allow_all_open_files() -> io::Result<u64> {
    allow_open_files(USUAL_MOST)
}

/// What to do where a call was refused because a limit was reached; nothing where it was another reason.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "a higher limit on open files: ulimit -n",
        Some(libc::ENFILE) => "fewer open files on this machine, or more of them: sysctl fs.file-max",
        Some(libc::ENOMEM) => "a higher limit on memory: ulimit -v, memory.max of the control group",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = super::allow_open_files(0).unwrap();
        let after = super::allow_open_files(before.saturating_add(1)).unwrap();
        assert!(after >= before);
        assert_eq!(super::allow_open_files(10).unwrap(), after);
    }
}
