//! One process and no other: a number may be given to another process, a descriptor never (pidfd_open(2)).

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::task_stat::TaskStat;

/// When a process was started, clock ticks since boot (proc(5), field 22 of stat); `None`: there is none.
pub fn started(pid: u32) -> Option<u64> {
    began(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same, from the text of a stat.
pub fn began(stat: &str) -> Option<u64> {
    let stat = TaskStat::parse(stat)?;
    // What has ended and was not waited for is not a process any more.
    (stat.field(3)? != "Z").then(|| stat.number(22)).flatten()
}

/// The name of a process (`/proc/PID/comm`).
pub fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// A process that was seen to be the one that is meant.
pub struct Process {
    fd: OwnedFd,
}

impl Process {
    /// The process `pid`, if it was started at `start` and is named `wanted`.
    ///
    /// # Errors
    /// `NotFound`: it has ended, or the number is another's.
    pub fn find(pid: u32, start: u64, wanted: &str) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        // Opened first: what is checked afterwards is then checked of the process that will be ended.
        let fd = pidfd_open(number, PidfdFlags::empty()).map_err(|_| gone())?;
        if started(pid) == Some(start) && name(pid).as_deref() == Some(wanted) { Ok(Self { fd }) } else { Err(gone()) }
    }

    /// Ends it (SIGKILL) and waits up to `timeout_ns` until it is gone. `false`: it is still there.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn end(&self, timeout_ns: u64) -> io::Result<bool> {
        match pidfd_send_signal(&self.fd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Vec::new();
        crate::frames::wait(&[std::os::fd::AsFd::as_fd(&self.fd)], Some(timeout_ns), &mut ready)?;
        Ok(ready == [true])
    }
}

/// Makes the calling process the leader of a new session: no terminal's signals reach it any more.
///
/// # Errors
/// It leads a process group already.
pub fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_process_that_is_meant_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let start = started(pid).unwrap();
        // Its name is that of the test until it has called execve.
        for _ in 0..1000 {
            if name(pid).as_deref() == Some("sleep") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(Process::find(pid, start + 1, "sleep").is_err(), "another start");
        assert!(Process::find(pid, start, "other").is_err(), "another name");
        assert!(Process::find(u32::MAX, start, "sleep").is_err());
        assert!(child.try_wait().unwrap().is_none(), "it lives on");
        assert!(Process::find(pid, start, "sleep").unwrap().end(5_000_000_000).unwrap());
        assert!(started(pid).is_none(), "what has ended is not there, waited for or not");
        child.wait().unwrap();
    }
}
