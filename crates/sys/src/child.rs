//! Processes that this program starts for itself: they hold nothing of the caller and end with who started them.
//! close_range(2), PR_SET_PDEATHSIG in prctl(2).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// `CLOSE_RANGE_CLOEXEC` of linux/close_range.h.
const CLOEXEC: libc::c_uint = 1 << 2;
/// Kernels before 5.11 cannot mark a range: so many descriptors are then marked one by one.
const ONE_BY_ONE: libc::c_int = 4096;

/// How a process of ours learns that the thread which started it has ended, whatever ended that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerEnds {
    /// It is killed. The kernel forgets this where the file of the program has capabilities: what must not outlive its maker
    /// calls [`crate::signal::die_with_parent`] as well, or ends with its standard input.
    Kills,
    /// SIGTERM: it brings what it does to an end.
    Asks,
    /// Its standard input ends: it has names in the system to remove.
    ClosesInput,
}

/// This program once more, not yet started: the same file, whatever has taken its name meanwhile. Where /proc is not mounted,
/// as in an image that holds nothing else, the name it was started by (`AT_EXECFN` in getauxval(3)).
pub fn this_program() -> Command {
    const OPEN: &str = "/proc/self/exe";
    if Path::new(OPEN).exists() {
        return Command::new(OPEN);
    }
    Command::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()))
}

/// The same command for a process of our own. It gets standard input, output and error and no other descriptor: a lock
/// or a pipe that the caller left open to this program is released when this program ends.
pub fn own(command: &mut Command, end: MakerEnds) -> &mut Command {
    let maker = std::process::id() as libc::pid_t;
    let signal = match end {
        MakerEnds::Kills => Some(Signal::KILL),
        MakerEnds::Asks => Some(Signal::TERM),
        MakerEnds::ClosesInput => None,
    };
    let begin = move || {
        set_parent_process_death_signal(signal)?;
        // A maker that ended before that call has left this process to another one, and its end is missed.
        // SAFETY: getppid(2) takes nothing and cannot fail.
        if unsafe { libc::getppid() } != maker {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        mark_foreign();
        Ok(())
    };
    // SAFETY: between fork and exec `begin` only makes system calls; it neither allocates nor locks.
    unsafe { command.pre_exec(begin) }
}

/// The same command for a program of others: also the leader of a process group of its own, on these CPUs (none: wherever
/// it is put), and with the signals as a shell would leave them, whatever this process ignores.
///
/// # Errors
/// A CPU that no set of CPUs has.
pub fn of_others<'a>(command: &'a mut Command, cpus: &[u32]) -> io::Result<&'a mut Command> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = *cpu as usize;
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        set.set(cpu);
    }
    let pinned = !cpus.is_empty();
    let begin = move || {
        for signal in [libc::SIGINT, libc::SIGXFSZ, libc::SIGTERM] {
            // SAFETY: SIG_DFL is a valid disposition for each of them.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        if pinned {
            sched_setaffinity(None, &set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec `begin` only makes system calls; it neither allocates nor locks.
    unsafe { command.process_group(0).pre_exec(begin) };
    Ok(own(command, MakerEnds::Kills))
}

/// Lives on when who started it ends.
///
/// # Errors
/// As prctl(2).
pub fn live_on() -> io::Result<()> {
    Ok(set_parent_process_death_signal(None)?)
}

/// Marks everything but the standard streams to be closed by exec. Not closed at once: the standard library tells the
/// maker over a descriptor of its own what kept exec from working.
fn mark_foreign() {
    // SAFETY: close_range(2) takes three numbers; marking closes nothing that anybody uses.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, CLOEXEC) };
    if marked != 0 {
        for fd in 3..ONE_BY_ONE {
            // SAFETY: fcntl(2) with F_SETFD; a number that is not a descriptor is an error that does not matter.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    #[test]
    fn a_process_of_ours_holds_no_descriptor_of_the_caller() {
        let (mut read, write) = std::io::pipe().unwrap();
        // Inherited by whatever is started the usual way.
        rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new("sleep");
        let mut child = own(command.arg("60"), MakerEnds::Kills).spawn().unwrap();
        let held = format!("/proc/{}/fd/{}", child.id(), write.as_raw_fd());
        drop(write);
        let mut rest = Vec::new();
        // Ends only when nobody else can write. A child that holds it would keep this test from going on for a minute.
        read.read_to_end(&mut rest).unwrap();
        assert!(child.try_wait().unwrap().is_none() && !std::path::Path::new(&held).exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_of_ours_ends_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| own(Command::new("sleep").arg("60"), MakerEnds::Kills).spawn().unwrap());
        let mut child = started.join().unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
    }

    #[test]
    fn a_program_of_others_leads_a_group_on_its_cpu_and_can_be_interrupted() {
        let cpu = crate::affinity::allowed()[0];
        crate::signal::ignore_file_size();
        let mut command = Command::new("sleep");
        let mut child = of_others(command.arg("60"), &[cpu]).unwrap().spawn().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().to_owned()
        };
        assert_eq!(field("Cpus_allowed_list:"), cpu.to_string());
        assert_eq!(u64::from_str_radix(&field("SigIgn:"), 16).unwrap() & (1 << (libc::SIGXFSZ - 1)), 0);
        assert!(crate::process::end_group(child.id(), false));
        child.wait().unwrap();
        assert!(of_others(&mut Command::new("sleep"), &[u32::MAX]).is_err());
    }

    #[test]
    fn what_cannot_be_started_still_says_why() {
        assert_eq!(
            own(&mut Command::new("/nowhere/at/all"), MakerEnds::Kills).spawn().unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let mut command = Command::new("echo");
        let mut child = own(command.arg("heard").stdout(Stdio::piped()), MakerEnds::Kills).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "heard\n");
        child.wait().unwrap();
    }
}
