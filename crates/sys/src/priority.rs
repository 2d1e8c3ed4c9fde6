//! Scheduling priority of the calling thread: nice(2) values, which Linux keeps per thread.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// The highest priority that is not real time.
const HIGHEST: i32 = -20;

/// Gives the calling thread the highest nice value there is.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_NICE or a limit that allows it (RLIMIT_NICE).
pub fn raise() -> io::Result<()> {
    Ok(setpriority_process(Some(gettid()), HIGHEST)?)
}

/// The nice value of the calling thread.
///
/// # Errors
/// As getpriority(2).
pub fn nice() -> io::Result<i32> {
    Ok(getpriority_process(Some(gettid()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_raised_alone() {
        let before = nice().unwrap();
        let raised = std::thread::spawn(|| raise().and_then(|()| nice())).join().unwrap();
        match raised {
            Ok(nice) => assert_eq!(nice, HIGHEST),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(nice().unwrap(), before);
    }
}
