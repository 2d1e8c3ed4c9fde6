//! SCTP, one-to-one sockets. Never run by its makers: no kernel at hand had the module.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::Unavailable;
use msgpath_sys::socket::sctp_nodelay;
use rustix::net::ipproto;

use super::tcp::{self, Kind};
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `sctp`.
pub struct Sctp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "sctp",
        summary: "an SCTP association, one-to-one, message boundaries are preserved (never run by us)",
        manual: "Messages in order over one stream (RFC 9260), SCTP_NODELAY on unless asked otherwise. Needs the module sctp. \
                 Its makers had no kernel with it: what is known of this path is its probe and what the manual pages \
                 promise.",
    },
    family: Family::Socket,
    framed: true,
    lossy: false,
    inet: true,
    device: false,
    connects: true,
    segments: false,
    stack: Stack::Network,
    headers: &[62, 82],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

static KIND: Kind = Kind {
    framed: true,
    nodelay: |fd: &OwnedFd, on| sctp_nodelay(fd.as_fd(), on),
    ..Kind::like_tcp(Some(ipproto::SCTP))
};

/// What a refused socket means.
fn refused(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PROTONOSUPPORT | rustix::io::Errno::SOCKTNOSUPPORT) => {
            Unavailable::new("this kernel has no SCTP", "modprobe sctp, or a kernel with CONFIG_IP_SCTP")
        }
        _ => Unavailable::new(format!("SCTP: {error}"), ""),
    }
}

impl Transport for Sctp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn refused(&self, error: &io::Error) -> Unavailable {
        refused(error)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        tcp::offer(need, &KIND)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        tcp::connect_to_offer(address, need, &KIND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_kernel_without_it_is_told_from_other_failures() {
        for (errno, part) in [(Errno::PROTONOSUPPORT, "has no SCTP"), (Errno::ACCESS, "Permission denied")] {
            let reason = refused(&io::Error::from(errno));
            assert!(reason.why.contains(part), "{reason:?}");
        }
        if let Err(reason) = Sctp.probe() {
            assert!(reason.why.contains("SCTP"), "{reason:?}");
        }
    }
}
