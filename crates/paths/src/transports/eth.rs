//! Raw Ethernet: AF_PACKET sockets of one EtherType each, with a filter in the kernel.
//!
//! Every connection has two random tags, one for each direction, which the filter of its receiver looks for. So both ends
//! may stand on one interface, and several connections on one EtherType: what is not for a socket never wakes its owner.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use msgpath_core::Unavailable;
use msgpath_core::plan::{ChannelOptions, ETHERTYPES};
use msgpath_sys::packet::{self, BROADCAST, Destination, HEAD, Interface, Wanted};

use super::{set_buffers, unique_number};
use crate::channel::{AnyChannel, Packet};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Eth;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "eth",
        summary: "raw Ethernet frames (AF_PACKET), without IP; may be lost",
        manual: "One frame a message: 14 bytes of Ethernet header, 8 bytes by which the kernel's filter knows the \
                 connection and the receiver the length (a frame below 60 bytes is padded on a real link), then the \
                 message, at most the MTU less 8 bytes. EtherTypes 0x88B5 there and 0x88B6 back (local experimental) \
                 unless -o ethertype names another; device by -o device, lo by default; MAC address by -o mac. Needs \
                 CAP_NET_RAW. What finds no room in the receiver's buffer is dropped and counted (PACKET_STATISTICS). On lo \
                 a frame passes every packet socket of the machine; those of others and the sender's own copies are \
                 dropped by the filter.",
    },
    family: Family::Packet,
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
    default_wait: "block",
};

/// The EtherTypes there and back.
pub fn ethertypes(options: &ChannelOptions) -> (u16, u16) {
    options.ethertype.map_or(ETHERTYPES, |one| (one, one))
}

/// A MAC address as it is typed and printed: `02:00:00:00:00:01`, or `broadcast`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    if text == "broadcast" {
        return Some(BROADCAST);
    }
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| part.bytes().all(|b| b.is_ascii_hexdigit()))?;
    }
    parts.next().is_none().then_some(mac)
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Whether an EtherType is one, and nobody's who lives on this machine.
///
/// # Errors
/// Why it cannot be used, and which can.
pub fn check_ethertype(ethertype: u16) -> Result<(), Unavailable> {
    let hint = "-o ethertype=0x88b5 or 0x88b6: set aside for local experiments";
    let owner = match ethertype {
        0x0800 => "IPv4",
        0x0806 => "ARP",
        0x86dd => "IPv6",
        0x8100 | 0x88a8 => "VLAN tags",
        0x888e => "802.1X",
        0x88cc => "LLDP",
        ..0x0600 => {
            let why =
                format!("{ethertype:#06x} is not an EtherType: below 0x0600 the field is the length of the frame");
            return Err(Unavailable::new(why, hint));
        }
        _ => return Ok(()),
    };
    Err(Unavailable::new(format!("the EtherType {ethertype:#06x} belongs to {owner} on this machine"), hint))
}

/// How long an interface may take until it has a carrier: the other end of a virtual link comes up a little later.
const CARRIER: Duration = Duration::from_secs(2);

/// An interface as it is when it has a carrier, or has had its time to get one.
fn settled(name: &str, patience: Duration) -> io::Result<Interface> {
    let until = Instant::now() + patience;
    loop {
        let found = Interface::find(name)?;
        if !found.up || !found.ethernet || found.running || Instant::now() > until {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The interface of the options, if frames of so many bytes of message can pass it.
///
/// # Errors
/// It is missing, down, without carrier for two seconds or not Ethernet, or its MTU is too small; and the cure.
pub fn interface(options: &ChannelOptions, largest: u64) -> Result<Interface, Unavailable> {
    let name = &options.interface;
    let found = settled(name, CARRIER).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            Unavailable::new(format!("{name:?} is not a name of an interface"), "ip link   lists them")
        }
        _ => Unavailable::new(format!("there is no interface {name} here ({error})"), "ip link   lists them"),
    })?;
    if !found.up {
        return Err(Unavailable::new(format!("the interface {name} is down"), format!("sudo ip link set {name} up")));
    }
    if !found.ethernet {
        return Err(Unavailable::new(
            format!("the frames of {name} have no Ethernet header"),
            "-o device with lo, a veth or a NIC",
        ));
    }
    if !found.running {
        return Err(Unavailable::new(
            format!("the interface {name} has no carrier: nothing is connected to it"),
            "plug it in, or bring the other end of the veth up",
        ));
    }
    if largest > found.room() as u64 {
        let room = found.room();
        return Err(Unavailable::new(
            format!(
                "{largest} bytes do not fit in one frame of {name} (MTU {}, {HEAD} of them are msgpath's: largest here {room})",
                found.mtu
            ),
            format!("-l {room} or less"),
        ));
    }
    Ok(found)
}

fn refused(error: &io::Error) -> Unavailable {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Unavailable::new("packet sockets need CAP_NET_RAW", "sudo, or sudo setcap cap_net_raw+ep on msgpath")
        }
        _ if error.raw_os_error() == Some(97) => {
            Unavailable::new("this kernel has no packet sockets (CONFIG_PACKET)", "modprobe af_packet")
        }
        _ => Unavailable::new(format!("a packet socket: {error}"), ""),
    }
}

pub(super) fn failed(reason: Unavailable) -> io::Error {
    io::Error::other(reason.why)
}

/// What one end tells the other: its MAC address and the tags there and back.
pub(super) struct Address {
    pub(super) mac: [u8; 6],
    pub(super) there: u32,
    pub(super) back: u32,
}

impl Address {
    /// With tags that nobody else has.
    pub(super) fn new(mac: [u8; 6]) -> io::Result<Self> {
        Ok(Self { mac, there: unique_number()?, back: unique_number()? })
    }

    pub(super) fn text(&self) -> String {
        format!("{} {:08x} {:08x}", mac_text(self.mac), self.there, self.back)
    }

    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{text:?} is not an address of eth"));
        let mut parts = text.split(' ');
        let mut part = || parts.next().ok_or_else(invalid);
        let mac = parse_mac(part()?).ok_or_else(invalid)?;
        let tag = |text: &str| u32::from_str_radix(text, 16).map_err(|_| invalid());
        Ok(Self { mac, there: tag(part()?)?, back: tag(part()?)? })
    }

    /// The near end's, which answers this offer.
    pub(super) fn answered(&self, local: &str) -> io::Result<Self> {
        let near = Self::parse(local)?;
        if (near.there, near.back) != (self.there, self.back) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the near end answers another offer"));
        }
        Ok(near)
    }
}

/// The MAC address to send to: the one that was asked for, or the one that the other end named.
pub(super) fn destination(options: &ChannelOptions, named: [u8; 6]) -> io::Result<[u8; 6]> {
    match &options.mac_address {
        None => Ok(named),
        Some(text) => parse_mac(text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{text:?} is not a MAC address: 02:00:00:00:00:01 or broadcast"),
            )
        }),
    }
}

/// How frames are received.
#[derive(Clone, Copy)]
pub(super) enum Receiving {
    /// By a receive call.
    Call,
    /// Out of a ring.
    Ring,
}

/// Bytes of a ring, where nobody asks for so many.
const RING: u64 = 4 << 20;
/// Most bytes of a ring.
const LARGEST_RING: u64 = 64 << 20;

impl Receiving {
    /// A socket whose frames go somewhere under a tag.
    fn channel(
        self,
        fd: OwnedFd,
        (to, tag): (Destination, u32),
        interface: &Interface,
        need: &Need,
    ) -> io::Result<AnyChannel> {
        let packet = Packet::new(fd, to, tag, &interface.name, need.limits.clone())?;
        let bytes = need.options.receive_buffer.unwrap_or(RING).min(LARGEST_RING) as usize;
        Ok(match self {
            Receiving::Call => AnyChannel::Packet(packet),
            Receiving::Ring => AnyChannel::PacketRing(packet.with_ring(need.largest as usize, bytes)?),
        })
    }
}

struct Open {
    sockets: Vec<(OwnedFd, Address)>,
    interface: Interface,
    need: Need,
    receiving: Receiving,
}

impl Offer for Open {
    fn addresses(&self) -> Vec<String> {
        self.sockets.iter().map(|(_, address)| address.text()).collect()
    }

    fn accept(&mut self, locals: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        let sockets = std::mem::take(&mut self.sockets);
        let make = |((fd, address), local): ((OwnedFd, Address), &String)| {
            let near = address.answered(local)?;
            let to = Destination::new(self.interface.index, ethertypes(&self.need.options).1, near.mac);
            self.receiving.channel(fd, (to, address.back), &self.interface, &self.need)
        };
        sockets.into_iter().zip(locals).map(make).collect()
    }
}

fn open(interface: &Interface, ethertype: u16, tag: u32, need: &Need) -> io::Result<OwnedFd> {
    let fd = packet::open(interface.index, ethertype, Wanted { tag, not_from: None })?;
    set_buffers(fd.as_fd(), &need.options)?;
    Ok(fd)
}

/// Connections made ready, to receive in one way or the other.
pub(super) fn offer(need: &Need, receiving: Receiving) -> io::Result<Box<dyn Offer>> {
    let found = interface(&need.options, need.largest).map_err(failed)?;
    let sockets = (0..need.connections).map(|_| {
        let address = Address::new(found.mac)?;
        Ok((open(&found, ethertypes(&need.options).0, address.there, need)?, address))
    });
    let sockets = sockets.collect::<io::Result<_>>()?;
    Ok(Box::new(Open { sockets, interface: found, need: need.clone(), receiving }))
}

/// Connects to one of them.
pub(super) fn connect(address: &str, need: &Need, receiving: Receiving) -> io::Result<(AnyChannel, String)> {
    let far = Address::parse(address)?;
    let found = interface(&need.options, need.largest).map_err(failed)?;
    let (there, back) = ethertypes(&need.options);
    let fd = open(&found, back, far.back, need)?;
    let to = Destination::new(found.index, there, destination(&need.options, far.mac)?);
    // The far end answers to the NIC that really sends, also where broadcast was asked for.
    let local = Address { mac: found.mac, ..far };
    Ok((receiving.channel(fd, (to, local.there), &found, need)?, local.text()))
}

impl Transport for Eth {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        // The loopback device has the largest MTU there is; what another interface takes is `suits`' business.
        Some(Interface::find("lo").map_or(u64::from(u16::MAX), |lo| lo.room() as u64))
    }

    fn suits(&self, options: &ChannelOptions, largest: u64) -> Result<(), Unavailable> {
        check_ethertype(ethertypes(options).0)?;
        let found = interface(options, largest)?;
        if let Some(text) = options.mac_address.as_ref().filter(|text| parse_mac(text).is_none()) {
            let hint = "-o mac=02:00:00:00:00:01, or -o mac=broadcast";
            return Err(Unavailable::new(format!("{text:?} is not a MAC address"), hint));
        }
        packet::open(found.index, ethertypes(options).0, Wanted { tag: 0, not_from: None })
            .map(drop)
            .map_err(|error| refused(&error))
    }

    fn probe(&self) -> Result<(), Unavailable> {
        self.suits(&ChannelOptions::default(), 64)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        offer(need, Receiving::Call)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect(address, need, Receiving::Call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_sys::veth;

    #[test]
    fn mac_addresses_are_six_bytes() {
        assert_eq!(parse_mac("02:00:00:00:00:1f"), Some([2, 0, 0, 0, 0, 0x1f]));
        assert_eq!(parse_mac("broadcast"), Some([255; 6]));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "+2:00:00:00:00:00", "all"] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_come_back_and_nonsense_does_not() {
        let address = Address { mac: [2, 0, 0, 0, 0, 1], there: 7, back: u32::MAX };
        let again = Address::parse(&address.text()).unwrap();
        assert_eq!((again.mac, again.there, again.back), ([2, 0, 0, 0, 0, 1], 7, u32::MAX));
        for bad in ["", "02:00:00:00:00:01", "02:00:00:00:00:01 7", "x 1 2", "02:00:00:00:00:01 1 100000000"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_carrier_may_come_a_little_later() {
        let names = ["mpe0", "mpe1"];
        let tried = veth::with_pair(names, || {
            veth::pair(("mpe2", true), ("mpe3", false)).unwrap();
            // The kernel does not know of the carrier at once either: until then a device counts as one that has it.
            let begun = Instant::now();
            while Interface::find("mpe2").unwrap().running && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let early = settled("mpe2", Duration::from_millis(1)).unwrap();
            // A thread of this one is in the same namespace.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    veth::switch_on("mpe3").unwrap();
                });
                (early, settled("mpe2", Duration::from_secs(20)).unwrap())
            })
        });
        match tried {
            Ok((early, later)) => assert!(early.up && !early.running && later.running, "{early:?}, {later:?}"),
            Err(error) => println!("skipped: no pair of devices here ({error})"),
        }
    }

    #[test]
    fn what_cannot_be_had_names_its_cure() {
        let why = |options: ChannelOptions, largest| Eth.suits(&options, largest).unwrap_err();
        let with = |ethertype| ChannelOptions { ethertype: Some(ethertype), ..ChannelOptions::default() };
        assert!(why(with(0x05ff), 1).why.contains("length of the frame"));
        for (ethertype, owner) in [(0x0800, "IPv4"), (0x0806, "ARP"), (0x86dd, "IPv6")] {
            let reason = why(with(ethertype), 1);
            assert!(reason.why.contains(owner) && reason.hint.contains("0x88b5"), "{reason:?}");
        }
        let on = |name: &str| ChannelOptions { interface: name.into(), ..ChannelOptions::default() };
        assert!(why(on("nosuch0"), 1).why.contains("no interface nosuch0"));
        assert!(why(on("a-name-of-16-bytes"), 1).why.contains("not a name"));
        let large = why(on("lo"), 1 << 20);
        assert!(large.why.contains("MTU") && large.hint.contains("or less"), "{large:?}");
    }
}
