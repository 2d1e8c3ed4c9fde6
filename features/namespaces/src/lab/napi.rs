//! A queue behind the device of a place, which a socket can poll.

use std::io;

use msgpath_core::{Exit, Problem};
use msgpath_sys::packet::Interface;
use msgpath_sys::xdp::{self, Link};

/// What the holder is told, before the name of the device.
pub(super) const ORDER: &str = "napi";

/// Gives a device of the calling thread's namespace a queue, until the link is dropped: a virtual device hands what it gets to the
/// stack at once, and only where a program runs in its driver it has a queue (NAPI) in between.
///
/// # Errors
/// E41.
pub(super) fn attach(device: &str) -> Result<Link, Problem> {
    Interface::find(device).and_then(|found| xdp::pass_all(found.index)).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "napi=on puts an XDP program on each end's device: that takes CAP_BPF and CAP_NET_ADMIN of the whole machine, which \
                 root of a user namespace has not"
            }
            _ => {
                "napi=on puts an XDP program on each end's device: that takes a kernel with BPF, 5.9 or newer, whose virtual devices \
                 run programs, and an MTU of at most some 3500 bytes"
            }
        };
        Problem::new("E41", Exit::CannotStart, format!("the link gets no queue to poll: {error}"))
            .why(why)
            .hint("as root, or without napi=on")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_names_its_cure() {
        let problem = attach("nosuch0").unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), ("E41", Exit::CannotStart));
        assert!(problem.why.contains("XDP") && problem.hint.contains("napi=on"), "{problem}");
    }
}
