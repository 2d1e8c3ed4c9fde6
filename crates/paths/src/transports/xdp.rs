//! Raw Ethernet past the stack: sockets of AF_XDP on queue 0 of a device at each end.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use msgpath_core::Unavailable;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::units::Pieces;
use msgpath_sys::packet::{HEAD, Interface};
use msgpath_sys::veth;
use msgpath_sys::xdp::{self, Link};
use msgpath_sys::xsk::{ETHERNET, LONGEST, Xsk};
use rustix::io::Errno;

use super::eth::{self, Address, ethertypes};
use crate::channel::{AnyChannel, Receive, XskEnd};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::methods::send::Send as OneCall;
use crate::transport::{Need, Offer, Transport};

pub struct Xdp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "xdp",
        summary: "raw Ethernet frames past the stack (AF_XDP), in memory shared with the kernel; may be lost",
        manual: "The frames of eth, -o ethertype and mac included, between queue 0 of a device at each end: --between lab \
                 -o device=mp0, or two NICs (a NIC with several queues must bring the frames to the first). An XDP program hands \
                 them to the socket, in the driver where that runs programs, else behind it; all others pass. Receiving is a look \
                 into memory, sending one sendto() without bytes. The kernel copies each frame unless the driver has zero copy, \
                 which a virtual link has not: what was granted is shown (XDP mode, XDP_OPTIONS; W22). At most 3818 bytes, one \
                 connection. What finds no room is dropped and counted (XDP_STATISTICS). Needs CAP_NET_RAW, CAP_BPF and \
                 CAP_NET_ADMIN of the machine, kernel 5.9.",
    },
    family: Family::Xsk,
    framed: true,
    lossy: true,
    inet: false,
    device: true,
    connects: false,
    segments: false,
    // No packet is made of a frame on its way in: only the socket says that it has one.
    stack: Stack::Local,
    headers: &[14, 0],
    copies: Copies::Unknown,
    default_method: "send",
    default_wait: "poll",
};

const ROOM: usize = LONGEST - ETHERNET - HEAD;
/// How long a queue may take until the kernel has taken it back from the socket before.
const QUEUE: Duration = Duration::from_secs(2);

/// The interface of the options, where both ends can have one of their own.
fn interface(options: &ChannelOptions, largest: u64) -> Result<Interface, Unavailable> {
    let found = eth::interface(options, largest)?;
    if found.loopback {
        return Err(Unavailable::new(
            format!("{} has one queue, and each end of AF_XDP needs one for itself", found.name),
            "--between lab -o device=mp0, or the NICs of two machines",
        ));
    }
    Ok(found)
}

/// A socket on queue 0, and the program that hands it the frames with a tag.
fn open(interface: &Interface, ethertype: u16, tag: u32) -> io::Result<(Xsk, Link)> {
    let until = Instant::now() + QUEUE;
    let busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until;
    loop {
        let opened = Xsk::open(interface.index).and_then(|socket| {
            let link = xdp::hand_over(interface.index, ethertype, tag, socket.as_fd())?;
            Ok((socket, link))
        });
        match opened {
            Err(error) if busy(&error) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) if [io::ErrorKind::ResourceBusy, io::ErrorKind::AlreadyExists].contains(&error.kind()) => {
                let name = &interface.name;
                return Err(io::Error::other(format!(
                    "queue 0 of {name} has a socket of AF_XDP already, or {name} an XDP program (napi=on is one): {error}"
                )));
            }
            opened => return opened,
        }
    }
}

/// What the frames of an end begin with.
fn ethernet(to: [u8; 6], from: [u8; 6], ethertype: u16) -> [u8; ETHERNET] {
    let mut bytes = [0; ETHERNET];
    bytes[..6].copy_from_slice(&to);
    bytes[6..12].copy_from_slice(&from);
    bytes[12..].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}

struct Open {
    made: Option<(Xsk, Link)>,
    address: Address,
    interface: Interface,
    need: Need,
}

impl Offer for Open {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.text()]
    }

    fn accept(&mut self, locals: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        let (Some(made), [local]) = (self.made.take(), locals) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let near = self.address.answered(local)?;
        let head = ethernet(near.mac, self.interface.mac, ethertypes(&self.need.options).1);
        let end = XskEnd::new(made, (head, self.address.back), &self.interface.name, self.need.limits.clone());
        Ok(vec![AnyChannel::Xsk(end)])
    }
}

/// One message between two devices that are made for it.
fn try_it() -> io::Result<()> {
    const NAMES: [&str; 2] = ["mpa0", "mpb0"];
    veth::with_pair(NAMES, || {
        let on = |name: &str| {
            let mut need = Need::local(64);
            need.options.interface = name.into();
            need
        };
        let mut offer = Xdp.offer(&on(NAMES[1]))?;
        let (near, local) = Xdp.connect(&offer.addresses()[0], &on(NAMES[0]))?;
        let far = offer.accept(&[local], Duration::from_secs(1))?.pop();
        let (AnyChannel::Xsk(mut near), Some(AnyChannel::Xsk(mut far))) = (near, far) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        let layout = Layout { pieces: Pieces::whole(64), inflight: 1, copies: 1, content: &|_| 0 };
        let mut method = OneCall::new(&mut near, layout, &ChannelOptions::default()).map_err(eth::failed)?;
        method.slot(&mut near)?;
        method.send(&mut near)?;
        match far.recv(&mut [0; 64])? {
            64 => Ok(()),
            other => Err(io::Error::other(format!("{other} of 64 bytes arrived"))),
        }
    })?
}

impl Transport for Xdp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(ROOM as u64)
    }

    fn suits(&self, options: &ChannelOptions, largest: u64) -> Result<(), Unavailable> {
        eth::Eth.suits(options, largest)?;
        interface(options, largest).map(drop)
    }

    fn shares(&self) -> Result<(), Unavailable> {
        let why = "AF_XDP has one socket on a queue, and one thread on a socket";
        Err(Unavailable::new(why, "one connection, without --rate"))
    }

    fn probe(&self) -> Result<(), Unavailable> {
        try_it().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Unavailable::new(
                format!("XDP is not allowed here: {error}"),
                "as root: CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN, and CAP_SYS_ADMIN to try it between two devices of its own",
            ),
            _ if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                Unavailable::new("this kernel has no AF_XDP", "a kernel with CONFIG_XDP_SOCKETS, 5.9 or newer")
            }
            _ if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => Unavailable::new(
                "XDP is not allowed here: its frames are more memory than this user may lock",
                "as root, or with a higher limit: ulimit -l",
            ),
            _ => Unavailable::new(format!("no AF_XDP here: {error}"), "a kernel with BPF and CONFIG_XDP_SOCKETS, 5.9 or newer"),
        })
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        if need.connections != 1 {
            self.shares().map_err(eth::failed)?;
        }
        let found = interface(&need.options, need.largest).map_err(eth::failed)?;
        let address = Address::new(found.mac)?;
        let made = open(&found, ethertypes(&need.options).0, address.there)?;
        Ok(Box::new(Open { made: Some(made), address, interface: found, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let far = Address::parse(address)?;
        let found = interface(&need.options, need.largest).map_err(eth::failed)?;
        let (there, back) = ethertypes(&need.options);
        let made = open(&found, back, far.back)?;
        let head = ethernet(eth::destination(&need.options, far.mac)?, found.mac, there);
        // The far end answers to the NIC that really sends, also where broadcast was asked for.
        let local = Address { mac: found.mac, ..far };
        let end = XskEnd::new(made, (head, local.there), &found.name, need.limits.clone());
        Ok((AnyChannel::Xsk(end), local.text()))
    }
}
