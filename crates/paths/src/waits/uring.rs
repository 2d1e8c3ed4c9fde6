//! `uring`: a read through io_uring, submitted and waited for with one call.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::uring;

use crate::channel::Fds;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part};

pub struct Uring {
    ring: uring::Uring,
}

impl Part for Uring {
    const META: Meta = Meta {
        name: "uring",
        summary: "a read through io_uring, submitted and waited for with one call",
        manual: "IORING_OP_READ, one io_uring_enter a message, task work deferred to that call where the kernel can (6.1). Needs \
                 io_uring (kernel.io_uring_disabled = 0).",
    };
}

/// A ring for the calling thread, or why there is none.
pub(crate) fn ring(entries: u32) -> Result<uring::Uring, Unavailable> {
    or_why(uring::Uring::new(entries))
}

/// What was made of io_uring, or why not.
pub(crate) fn or_why<T>(made: io::Result<T>) -> Result<T, Unavailable> {
    made.map_err(|error| {
        let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        refusal(switch.trim(), &error)
    })
}

/// Why there is no io_uring, where `switch` is kernel.io_uring_disabled.
fn refusal(switch: &str, error: &io::Error) -> Unavailable {
    let container = "a container whose filter of system calls lets io_uring pass, or another wait";
    match (switch, error.kind()) {
        ("1" | "2", _) => Unavailable::new(
            format!("io_uring is switched off on this machine (kernel.io_uring_disabled = {switch})"),
            "ask the administrator for sysctl kernel.io_uring_disabled=0",
        ),
        (_, io::ErrorKind::PermissionDenied) => Unavailable::new(
            format!("a filter of system calls (seccomp, as of a container) refuses io_uring: {error}"),
            container,
        ),
        (_, io::ErrorKind::Unsupported) => Unavailable::new(
            format!("this kernel has no io_uring, or a filter of system calls hides it: {error}"),
            container,
        ),
        _ => Unavailable::new(format!("io_uring: {error}"), "a kernel and a container that allow io_uring"),
    }
}

impl<C: Fds> NewWait<C> for Uring {
    fn new(_: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { ring: ring(8)? })
    }
}

impl<C: Fds> Wait<C> for Uring {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        let slice = channel.limits().timed.then_some(channel.limits().slice);
        self.ring.read(channel.recv_fd(), buffer, slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_that_is_refused_says_by_whom() {
        let why = |switch, errno| refusal(switch, &io::Error::from_raw_os_error(errno)).why;
        assert!(why("2", 1).contains("io_uring_disabled = 2"));
        assert!(why("0", 1).contains("seccomp") && why("", 38).contains("no io_uring"));
        assert!(why("0", 12).contains("io_uring: Cannot allocate"));
    }
}
