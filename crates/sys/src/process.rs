//! Other processes: their CPU time (clock_getcpuclockid(3)), their descendants (`/proc`), their end.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_child_subreaper};

use crate::task_stat::TaskStat;

/// USER_HZ is 100 on Linux: what `/proc` counts in ticks, in ns each.
const TICK_NS: u64 = 10_000_000;

/// CPU time of a whole process, its ended threads included, ns; `None`: there is none.
pub fn cpu_time(pid: u32) -> Option<u64> {
    // CPUCLOCK_SCHED of a process, as clock_getcpuclockid(3) makes it.
    let clock = (!(pid as libc::clockid_t) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; a clock that does not exist is an error.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    (done == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A process and its descendants.
pub fn tree(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = stats().collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let own = found[at];
        found.extend(all.iter().filter(|(pid, parent)| *parent == own && *pid != root).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

/// Every process with its parent.
fn stats() -> impl Iterator<Item = (u32, u32)> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, TaskStat::parse(&stat)?.number(4)?))
    })
}

/// CPU time of these processes and of their children that have ended, ns. The latter is told in ticks.
pub fn cpu_time_of(pids: &[u32]) -> u64 {
    let each = |pid: &u32| {
        let ended = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| {
            let stat = TaskStat::parse(&stat)?;
            Some(stat.number::<u64>(16)? + stat.number::<u64>(17)?)
        });
        cpu_time(*pid).unwrap_or(0) + ended.unwrap_or(0) * TICK_NS
    };
    pids.iter().map(each).sum()
}

/// Whether one of these processes holds the socket of this inode.
pub fn hold(pids: &[u32], inode: u64) -> bool {
    let link = format!("socket:[{inode}]");
    pids.iter().any(|pid| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|to| to.as_os_str() == link.as_str())
    })
}

/// The process that holds the socket of this inode, as far as this one may look; of several the oldest.
pub fn holder(inode: u64) -> Option<u32> {
    stats().map(|(pid, _)| pid).filter(|pid| hold(&[*pid], inode)).min_by_key(|pid| crate::pidfd::started(*pid))
}

/// Whether a process was started with this in its environment, `NAME=value`, as far as this one may look; one that has ended has none.
pub fn has_variable(pid: u32, entry: &str) -> bool {
    /// How long execve(2) may take, during which a process shows neither variables nor words.
    const EXECUTES: Duration = Duration::from_millis(200);
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let is_executing = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        TaskStat::parse(&stat).is_some_and(|stat| stat.field(3) != Some("Z")) && read("cmdline").is_empty()
    };
    let asked = Instant::now();
    let mut environment = read("environ");
    while environment.is_empty() && asked.elapsed() < EXECUTES {
        let executes = is_executing();
        // What was executed meanwhile shows them now.
        environment = read("environ");
        if !executes {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
}

/// Asks the processes of a group to end (SIGTERM), or ends them (SIGKILL). `false`: there is none.
pub fn end_group(leader: u32, at_once: bool) -> bool {
    let signal = if at_once { Signal::KILL } else { Signal::TERM };
    let group = i32::try_from(leader).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    group.is_some_and(|group| kill_process_group(group, signal).is_ok())
}

/// Descendants whose parent ends become children of this process, and stay in its tree.
///
/// # Errors
/// As prctl(2).
pub fn adopt_orphans() -> io::Result<()> {
    // Any process that is named means yes.
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_with_its_descendants_and_their_time() {
        let mut child = Command::new("sh").args(["-c", "sh -c 'while :; do :; done' & wait"]).spawn().unwrap();
        let found = |least: usize| {
            (0..2000).find_map(|_| {
                let tree = tree(child.id());
                if tree.len() < least {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                (tree.len() >= least).then_some(tree)
            })
        };
        let tree = found(2).expect("a child of the child");
        assert_eq!(tree[0], child.id());
        let before = cpu_time_of(&tree);
        let later = (0..5000).map(|_| cpu_time_of(&tree)).find(|now| *now > before);
        assert!(later.is_some(), "it runs");
        // The inner one is not a child of ours, so it is ended by its own number.
        for pid in tree.into_iter().skip(1) {
            let pid = Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert_eq!(cpu_time(child.id()), None);
    }

    #[test]
    fn a_socket_is_found_with_whoever_holds_it() {
        let own = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let inode = rustix::fs::fstat(&own).unwrap().st_ino;
        assert_eq!((holder(inode), holder(0)), (Some(std::process::id()), None));
        assert!(hold(&[std::process::id()], inode) && !hold(&[u32::MAX], inode) && !hold(&[std::process::id()], 0));
    }
}
