//! The only `unsafe` code of msgpath: one file per kernel facility.
//!
//! Calls that are measured go through `libc`, because that is the wrapper real programs call. Calm code uses rustix or
//! the standard library. Each `unsafe` block says why it is sound; the contract of the manual page stands beside the
//! argument it governs.

pub mod address;
pub mod affinity;
pub mod area;
pub mod bell;
pub mod bpf;
pub mod child;
pub mod clock;
pub mod cmsg;
pub mod confine;
pub mod cookie;
pub mod count;
pub mod duplex;
pub mod errqueue;
pub mod ethtool;
pub mod files;
pub mod flag;
pub mod frames;
pub mod futex;
pub mod limits;
pub mod listening;
pub mod mapped_receive;
mod mapping;
pub mod mark;
pub mod memory;
pub mod mqueue;
pub mod msg;
pub mod multicast;
pub mod multishot;
pub mod netlink;
pub mod netns;
pub mod others_memory;
pub mod packet;
pub mod packet_ring;
pub mod perf;
pub mod pidfd;
pub mod poll;
pub mod ports;
pub mod priority;
pub mod process;
mod program;
pub mod queues;
pub mod random;
pub mod ready;
pub mod ring;
pub mod scatter;
pub mod schedstat;
pub mod seccomp;
pub mod segments;
pub mod sigio;
pub mod signal;
pub mod socket;
pub mod sockmap;
pub mod spent;
pub mod standard;
pub mod sysvmsg;
pub mod task_stat;
pub mod temporary;
pub mod terminal;
pub mod timer;
pub mod tracefs;
pub mod uring;
pub mod usage;
pub mod user;
pub mod veth;
pub mod watch;
pub mod xdp;
pub mod xsk;

use std::io;

/// Turns the -1 of a system call into its error.
fn check(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn check_int(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns O_NONBLOCK on or off for an open file description.
///
/// # Errors
/// As fcntl(2).
pub fn set_nonblocking(fd: std::os::fd::BorrowedFd<'_>, on: bool) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let mut flags = fcntl_getfl(fd)?;
    flags.set(OFlags::NONBLOCK, on);
    Ok(fcntl_setfl(fd, flags)?)
}
