//! Raw Ethernet, received out of a ring that the kernel and the program share (TPACKET_V2).

use std::io;

use msgpath_core::Unavailable;
use msgpath_core::plan::ChannelOptions;

use super::eth::{self, Eth, Receiving};
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct EthRing;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "eth-ring",
        summary: "the same frames as eth, received out of a ring in memory (PACKET_RX_RING, TPACKET_V2); may be lost",
        manual: "Frames, EtherTypes, -o device and mac as for eth, and sent as there. The kernel puts what arrives into \
                 memory that the program sees: the receiver looks there, which is not a system call, and sleeps in poll() or not at \
                 all. -o rcvbuf is the size of the ring, 4 MiB by default. What finds it full is dropped and counted \
                 (PACKET_STATISTICS). Version 2 of the ring: version 3 hands over whole blocks, and one message waits for the \
                 block's timer. Needs CAP_NET_RAW.",
    },
    family: Family::PacketRing,
    framed: true,
    lossy: true,
    inet: false,
    device: true,
    connects: false,
    segments: false,
    stack: Stack::Frames,
    headers: &[14, 0],
    copies: Copies::Unknown,
    default_method: "send",
    default_wait: "poll",
};

impl Transport for EthRing {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Eth.max_message()
    }

    fn suits(&self, options: &ChannelOptions, largest: u64) -> Result<(), Unavailable> {
        Eth.suits(options, largest)
    }

    fn probe(&self) -> Result<(), Unavailable> {
        Eth.probe()?;
        let no_ring = |error| Unavailable::new(format!("no receive ring here: {error}"), "CONFIG_PACKET, memory");
        self.connects_here().map(drop).map_err(no_ring)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        eth::offer(need, Receiving::Ring)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        eth::connect(address, need, Receiving::Ring)
    }
}
