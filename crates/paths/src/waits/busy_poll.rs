//! `busy-poll`: SO_BUSY_POLL: the kernel polls the device's queue inside the receive call.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::socket::{self, IntOption};

use crate::channel::{Channel, Receive, Socket};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, TransportMeta};

pub struct BusyPoll;

impl Part for BusyPoll {
    const META: Meta = Meta {
        name: "busy-poll",
        summary: "SO_BUSY_POLL: the kernel polls the device's queue inside the receive call",
        manual: "Needs a device with a queue of its own (NAPI), and CAP_NET_ADMIN on some kernels. On loopback and on a plain virtual \
                 link none stands behind the socket (SO_INCOMING_NAPI_ID is 0): then it is the wait block, and msgpath says so \
                 (W22). --between lab --link napi=on makes a virtual link with queues.",
    };
    const POLLS_DEVICE: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.inet { Ok(()) } else { Err("only sockets over IP have a device queue to poll") }
    }
}

impl NewWait<Socket> for BusyPoll {
    fn new(channel: &mut Socket, options: &ChannelOptions) -> Result<Self, Unavailable> {
        let asked = options.busy_poll_us as i32;
        let hint = "sudo setcap cap_net_admin+ep on msgpath, or sysctl net.core.busy_read";
        socket::set(channel.fd(), IntOption::BusyPoll, asked)
            .map_err(|error| Unavailable::new(format!("SO_BUSY_POLL: {error}"), hint))?;
        match socket::get(channel.fd(), IntOption::BusyPoll) {
            Ok(granted) if granted == asked => Ok(Self),
            Ok(granted) => Err(Unavailable::new(format!("SO_BUSY_POLL: asked {asked} µs, granted {granted} µs"), hint)),
            Err(error) => Err(Unavailable::new(format!("SO_BUSY_POLL: {error}"), hint)),
        }
    }
}

impl Wait<Socket> for BusyPoll {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        channel.recv(buffer)
    }
}
