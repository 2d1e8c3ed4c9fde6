//! vsock over its loopback transport. Never run by its makers: no kernel at hand had that transport.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::Unavailable;
use msgpath_sys::vsock;
use rustix::net;

use super::{BACKLOG, Listening, admission, set_buffers};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `vsock`.
pub struct Vsock;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "vsock",
        summary: "a vsock stream within this machine, over the loopback transport (never run by us)",
        manual: "The byte stream between a virtual machine and its host, here from a machine to itself (VMADDR_CID_LOCAL, kernel \
                 5.6, module vsock_loopback). Its makers had no kernel with it: what is known of this path is its probe \
                 and what vsock(7) promises.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    inet: false,
    device: false,
    connects: true,
    segments: false,
    stack: Stack::Local,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// What a refusal means. Bound first: to connect without the loopback transport would ask the hypervisor.
fn refused(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::AFNOSUPPORT) => {
            Unavailable::new("this kernel has no vsock", "modprobe vsock_loopback, or a kernel with CONFIG_VSOCKETS")
        }
        Some(rustix::io::Errno::ADDRNOTAVAIL) => Unavailable::new(
            "this kernel has vsock, but no loopback transport for it",
            "modprobe vsock_loopback, or a kernel with CONFIG_VSOCKETS_LOOPBACK",
        ),
        _ => Unavailable::new(format!("vsock: {error}"), ""),
    }
}

impl Transport for Vsock {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn refused(&self, error: &io::Error) -> Unavailable {
        refused(error)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let fd = vsock::stream()?;
        let port = vsock::bind_local(fd.as_fd())?;
        net::listen(&fd, BACKLOG)?;
        let channel = |fd: OwnedFd, need: &Need| {
            set_buffers(fd.as_fd(), &need.options)?;
            Ok(AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?))
        };
        Ok(Box::new(Listening::at(fd, port.to_string(), need, |_| true, channel)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let (port, key) = admission::parse(address)?;
        let port = port.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a port of vsock"))?;
        let fd = vsock::stream()?;
        // The near end's own kernel must have the loopback transport, too: its bind says so.
        vsock::bind_local(fd.as_fd())?;
        set_buffers(fd.as_fd(), &need.options)?;
        vsock::connect_local(fd.as_fd(), port)?;
        admission::introduce(&fd, &key)?;
        Ok((AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?), String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_missing_loopback_transport_is_told_from_missing_vsock() {
        let parts =
            [(Errno::AFNOSUPPORT, "no vsock"), (Errno::ADDRNOTAVAIL, "no loopback"), (Errno::ACCESS, "vsock: ")];
        for (errno, part) in parts {
            let reason = refused(&io::Error::from(errno));
            assert!(reason.why.contains(part), "{reason:?}");
        }
        if let Err(reason) = Vsock.probe() {
            assert!(reason.why.contains("vsock"), "{reason:?}");
        }
    }
}
