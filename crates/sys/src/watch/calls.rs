//! System calls in which threads block, and what they wait for there.

/// What a thread that blocks in a call waits for; its number in the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Poll = 6,
    Socket = 7,
    Lock = 8,
    Disk = 9,
    Sleep = 10,
}

/// System calls that may send: what a softirq does while one is under way may be its work.
pub(super) const SENDING: [libc::c_long; 8] = [
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendfile,
    libc::SYS_connect,
    libc::SYS_io_uring_enter,
];

/// System calls in which threads usually block: number here, name, and what it means; none: just its name.
pub fn calls() -> Vec<(i16, &'static str, Option<CallKind>)> {
    use CallKind::{Disk, Lock, Poll, Sleep, Socket};
    let mut calls = vec![
        (libc::SYS_epoll_pwait, "epoll_wait", Some(Poll)),
        (libc::SYS_epoll_pwait2, "epoll_wait", Some(Poll)),
        (libc::SYS_ppoll, "poll", Some(Poll)),
        (libc::SYS_pselect6, "select", Some(Poll)),
        (libc::SYS_io_uring_enter, "io_uring_enter", Some(Poll)),
        (libc::SYS_recvfrom, "recvfrom", Some(Socket)),
        (libc::SYS_recvmsg, "recvmsg", Some(Socket)),
        (libc::SYS_recvmmsg, "recvmmsg", Some(Socket)),
        (libc::SYS_sendto, "sendto", Some(Socket)),
        (libc::SYS_sendmsg, "sendmsg", Some(Socket)),
        (libc::SYS_sendmmsg, "sendmmsg", Some(Socket)),
        (libc::SYS_accept, "accept", Some(Socket)),
        (libc::SYS_accept4, "accept4", Some(Socket)),
        (libc::SYS_connect, "connect", Some(Socket)),
        (libc::SYS_sendfile, "sendfile", Some(Socket)),
        (libc::SYS_futex, "futex", Some(Lock)),
        (libc::SYS_flock, "flock", Some(Lock)),
        (libc::SYS_fsync, "fsync", Some(Disk)),
        (libc::SYS_fdatasync, "fdatasync", Some(Disk)),
        (libc::SYS_sync_file_range, "sync_file_range", Some(Disk)),
        (libc::SYS_msync, "msync", Some(Disk)),
        (libc::SYS_pread64, "pread", Some(Disk)),
        (libc::SYS_pwrite64, "pwrite", Some(Disk)),
        (libc::SYS_nanosleep, "nanosleep", Some(Sleep)),
        (libc::SYS_clock_nanosleep, "clock_nanosleep", Some(Sleep)),
        // A pipe, a file or a socket.
        (libc::SYS_read, "read", None),
        (libc::SYS_readv, "readv", None),
        (libc::SYS_write, "write", None),
        (libc::SYS_writev, "writev", None),
        (libc::SYS_openat, "openat", None),
        (libc::SYS_wait4, "wait4", None),
        (libc::SYS_waitid, "waitid", None),
        (libc::SYS_mmap, "mmap", None),
        (libc::SYS_munmap, "munmap", None),
        (libc::SYS_sched_yield, "sched_yield", None),
        (libc::SYS_semtimedop, "semtimedop", Some(Lock)),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        (libc::SYS_epoll_wait, "epoll_wait", Some(Poll)),
        (libc::SYS_poll, "poll", Some(Poll)),
        (libc::SYS_select, "select", Some(Poll)),
        (libc::SYS_pause, "pause", None),
    ]);
    calls.into_iter().filter_map(|(number, name, kind)| Some((i16::try_from(number).ok()?, name, kind))).collect()
}
