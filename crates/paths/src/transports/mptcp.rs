//! Multipath TCP. What a connection became is asked of the kernel: it falls back to TCP without a word.

use std::io;

use msgpath_core::Unavailable;
use msgpath_sys::socket::is_mptcp;
use rustix::net::ipproto;

use super::tcp;
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Mptcp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "mptcp",
        summary: "a Multipath TCP connection with the one subflow that it begins with",
        manual: "The byte stream of TCP with sequence numbers of its own above those of its subflows (RFC 8684). Where the \
                 other end or something on the way does not speak it, the connection becomes one of TCP and no call says \
                 so; msgpath reads TCP_IS_MPTCP at both ends (W22). msgpath adds no subflows: what it measures is the cost \
                 of the layer. Needs kernel 5.6 and net.mptcp.enabled; 5.16 to tell what a connection is.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    inet: true,
    device: false,
    connects: true,
    segments: true,
    stack: Stack::Network,
    headers: &[94, 114, 66, 86],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// What a refused socket means.
fn refused(error: &io::Error) -> Unavailable {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOPROTOOPT) => {
            Unavailable::new("MPTCP is switched off in this network namespace", "sysctl net.mptcp.enabled=1")
        }
        Some(rustix::io::Errno::PROTONOSUPPORT | rustix::io::Errno::INVAL) => {
            Unavailable::new("this kernel has no MPTCP", "a kernel with CONFIG_MPTCP, 5.6 or newer")
        }
        _ => Unavailable::new(format!("MPTCP: {error}"), ""),
    }
}

impl Transport for Mptcp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn probe(&self) -> Result<(), Unavailable> {
        let [near, _far] = self.connects_here().map_err(|error| refused(&error))?;
        match near.socket().map(is_mptcp) {
            Some(Ok(Some(true))) => Ok(()),
            Some(Err(error)) => Err(Unavailable::new(
                format!("this kernel does not tell whether a connection is one of MPTCP ({error})"),
                "kernel 5.16 or newer",
            )),
            _ => Err(Unavailable::new("a connection to oneself fell back to TCP", "look for a firewall on lo")),
        }
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        tcp::offer(need, Some(ipproto::MPTCP))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        tcp::connect_to_offer(address, need, Some(ipproto::MPTCP))
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        tcp::connect_to_program(address, need, Some(ipproto::MPTCP))
    }
}
