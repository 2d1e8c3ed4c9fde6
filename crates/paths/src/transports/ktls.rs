//! TCP with TLS records made by the kernel. Never run by its makers: no kernel at hand had CONFIG_TLS.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::Unavailable;

use super::tcp::{self, Kind};
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `ktls`.
pub struct Ktls;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "ktls",
        summary: "a TCP connection on which the kernel makes and opens TLS records (never run by us)",
        manual: "As tcp, and every send call becomes records of AES-128-GCM in the kernel (TCP_ULP tls, kernel 4.17, CONFIG_TLS). There is \
                 no handshake: both ends have keys that everybody knows, so that the path shows what encrypting costs and \
                 protects nothing. Its makers had no kernel with it: what is known of this path is its probe and what the \
                 kernel's documentation promises.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    inet: true,
    device: false,
    connects: true,
    segments: true,
    stack: Stack::Network,
    headers: &[79, 99],
    copies: Copies::Unknown,
    default_method: "send",
    default_wait: "block",
};

static KIND: Kind = Kind { begin: |fd: &OwnedFd| msgpath_sys::ktls::begin(fd.as_fd()), ..Kind::like_tcp(None) };

/// What a refusal means. Asked on a connection: without one the answer is another one, also where there is TLS.
fn refused(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOENT) => {
            Unavailable::new("this kernel makes no TLS records", "modprobe tls, or a kernel with CONFIG_TLS")
        }
        _ => Unavailable::new(format!("TLS in the kernel: {error}"), ""),
    }
}

impl Transport for Ktls {
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
        for (errno, part) in [(Errno::NOENT, "no TLS records"), (Errno::ACCESS, "Permission denied")] {
            let reason = refused(&io::Error::from(errno));
            assert!(reason.why.contains(part), "{reason:?}");
        }
        if let Err(reason) = Ktls.probe() {
            assert!(reason.why.contains("TLS"), "{reason:?}");
        }
    }
}
