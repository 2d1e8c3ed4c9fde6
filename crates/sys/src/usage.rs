//! getrusage of the calling thread.

/// Resources used by the calling thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

/// `getrusage(RUSAGE_THREAD)`.
pub fn thread() -> Usage {
    let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is valid for writing one rusage; RUSAGE_THREAD is a valid `who`, so the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, raw.as_mut_ptr()) };
    // SAFETY: zeroed is a valid rusage, whatever the call wrote.
    let raw = unsafe { raw.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Usage {
        user_ns: ns(raw.ru_utime),
        system_ns: ns(raw.ru_stime),
        voluntary: raw.ru_nvcsw as u64,
        involuntary: raw.ru_nivcsw as u64,
        minor_faults: raw.ru_minflt as u64,
        major_faults: raw.ru_majflt as u64,
    }
}

/// The largest resident set of any process that this one started and waited for, bytes: `getrusage(RUSAGE_CHILDREN)`.
pub fn largest_child() -> u64 {
    let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is valid for writing one rusage; RUSAGE_CHILDREN is a valid `who`, so the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, raw.as_mut_ptr()) };
    // SAFETY: zeroed is a valid rusage, whatever the call wrote.
    unsafe { raw.assume_init() }.ru_maxrss as u64 * 1024
}
