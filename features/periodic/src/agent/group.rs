//! A multicast group as an engine: one socket that sends, and receivers that join.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use msgpath_agent::route;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_paths::Limits;
use msgpath_paths::channel::{Channel, Polled, Receive};
use msgpath_sys::address;
use msgpath_sys::multicast::{self, Arrival};
use msgpath_sys::packet::Interface;
use msgpath_sys::socket::{self, IntOption};

use super::membership;
use super::orders::{GroupOrder, Order};
use crate::record::{JoinedGroup, SendsToGroup};

/// How long a device that was just made may take until the kernel has checked its IPv6 address (RFC 4862, 5.4).
const ADDRESS: Duration = Duration::from_secs(5);
/// EADDRNOTAVAIL.
const NO_ADDRESS: i32 = 99;

/// The sender's socket, connected to the group.
pub struct Sender {
    fd: OwnedFd,
    /// How it sends.
    pub facts: SendsToGroup,
}

impl Sender {
    /// Sends one datagram.
    ///
    /// # Errors
    /// As send(2).
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        msgpath_sys::msg::send(self.fd.as_fd(), message, Default::default()).map(drop)
    }
}

/// A receiver's socket.
pub struct Receiver {
    fd: OwnedFd,
    counts: CallCounts,
    limits: Limits,
    /// Of the datagrams so far: smallest and largest TTL, the last one's device.
    hops: Option<(u8, u8)>,
    came_by: Option<u32>,
    group: IpAddr,
    interface: Interface,
    place: String,
    router: Option<String>,
}

/// Makes the sender's socket.
///
/// # Errors
/// No device that takes it, and what to type.
pub fn sender(order: &Order, to: &GroupOrder) -> Result<Sender, Unavailable> {
    let interface = device(order, to, None)?;
    let refused = |error: io::Error| refusal(&error, to, &interface.name);
    let index = interface.index.cast_unsigned();
    let opened = || multicast::sender(to.group.address, to.group.port, index, to.hops, to.looped);
    let until = Instant::now() + ADDRESS;
    let (fd, granted) = loop {
        match opened() {
            Err(error) if error.raw_os_error() == Some(NO_ADDRESS) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => break opened.map_err(refused)?,
        }
    };
    let facts =
        SendsToGroup { device: interface.name, place: to.place.clone(), hops: granted.hops, looped: granted.looped };
    Ok(Sender { fd, facts })
}

/// Joins the group.
///
/// # Errors
/// As [`sender`].
pub fn receiver(order: &Order, to: &GroupOrder, limits: Limits) -> Result<Receiver, Unavailable> {
    let interface = device(order, to, Some(to.join.as_deref()))?;
    let refused = |error: io::Error| refusal(&error, to, &interface.name);
    let fd = multicast::receiver(to.group.address, to.group.port, interface.index.cast_unsigned()).map_err(refused)?;
    super::engine::buffers(fd.as_fd(), order).map_err(refused)?;
    if limits.timed {
        socket::set_timeouts(fd.as_fd(), limits.slice, limits.slice).map_err(refused)?;
    }
    let router = order.beyond.and_then(|sender| route::router((sender, 0)));
    Ok(Receiver {
        fd,
        counts: CallCounts::default(),
        limits,
        hops: None,
        came_by: None,
        group: to.group.address,
        interface,
        place: to.place.clone(),
        router: router.map(|router| router.to_string()),
    })
}

/// The device: as named, else that of the route to the other place, else that of the route to the group. `joins`: of a receiver, with the
/// device that those join on.
fn device(order: &Order, to: &GroupOrder, joins: Option<Option<&str>>) -> Result<Interface, Unavailable> {
    let group = &to.group;
    let named = joins.flatten().or(group.device.as_deref());
    let with_device = || {
        let devices = route::devices();
        let named = |device: &String| {
            if joins.is_some() {
                return format!("--join {device}");
            }
            let device = Some(device.clone());
            msgpath_core::group::Group { device, ..group.clone() }.to_string()
        };
        match devices.first() {
            Some(device) => format!("name the device: {} (there are lo, {})", named(device), devices.join(", ")),
            None => format!("name the device: {}", named(&"lo".into())),
        }
    };
    let name = match named {
        Some(name) => name.to_owned(),
        None => {
            let routed = |to: SocketAddr| route::to(to).map(|route| route.device);
            let beyond = order.beyond.map(|beyond| routed((beyond, 0).into()));
            let found = beyond.unwrap_or_else(|| routed((group.address, group.port).into()));
            found.map_err(|why| Unavailable::new(format!("no device for {}: {why}", group.address), with_device()))?
        }
    };
    let found = Interface::find(&name)
        .map_err(|error| Unavailable::new(format!("no device named {name} here: {error}"), with_device()))?;
    if !found.up {
        return Err(Unavailable::new(format!("{name} is down"), format!("ip link set dev {name} up")));
    }
    if found.loopback && group.address.is_ipv6() {
        return Err(Unavailable::new(
            format!("datagrams to an IPv6 group do not come back over {name}: the kernel has no multicast route there"),
            "another device, or --between lab, which makes a link of its own",
        ));
    }
    if !found.multicast && !found.loopback {
        return Err(Unavailable::new(
            format!("{name} does no multicast (it has no MULTICAST flag)"),
            format!("ip link set dev {name} multicast on, or another device"),
        ));
    }
    Ok(found)
}

/// What the kernel refused, in words.
fn refusal(error: &io::Error, to: &GroupOrder, device: &str) -> Unavailable {
    let group = &to.group;
    // linux/errno-base.h, asm-generic/errno.h
    let (why, hint) = match error.raw_os_error() {
        Some(98) => (
            format!("port {} of {} is taken by a socket without SO_REUSEADDR", group.port, group.address),
            "another port: behind the group, as in udp://239.1.1.1:5999".into(),
        ),
        Some(101 | NO_ADDRESS) => (
            format!("nothing can be sent to {} by {device}: it has no route or no address for it", group.address),
            match group.address {
                IpAddr::V4(_) => format!("ip route add 224.0.0.0/4 dev {device}, or another device"),
                IpAddr::V6(_) => format!("ip -6 route add multicast ff00::/8 dev {device} table local"),
            },
        ),
        Some(105) => (
            "this user has joined as many groups as a socket may (net.ipv4.igmp_max_memberships)".to_owned(),
            "sysctl net.ipv4.igmp_max_memberships".into(),
        ),
        _ => (format!("{} on {device}: {error}", group.address), String::new()),
    };
    Unavailable::new(why, hint)
}

impl Receiver {
    /// What it saw, at its end; the counts of messages are made where the sender's are known.
    pub fn facts(&self) -> JoinedGroup {
        let listed = membership::listed(self.group, &self.interface.name);
        let came_by = self.came_by.filter(|index| *index != self.interface.index.cast_unsigned());
        JoinedGroup {
            device: self.interface.name.clone(),
            place: self.place.clone(),
            buffer: socket::get(self.fd.as_fd(), IntOption::ReceiveBuffer).map_or(0, |bytes| bytes.max(0) as u64),
            overflowed: multicast::overflowed(self.fd.as_fd()).ok().map(u64::from),
            hops: self.hops,
            came_by: came_by.map(address::device_name),
            member: listed.as_ref().map(|listed| listed.member),
            igmp: listed.and_then(|listed| listed.version),
            router: self.router.clone(),
            ..JoinedGroup::default()
        }
    }

    #[inline]
    fn note(&mut self, arrival: Arrival) {
        if let Some(hops) = arrival.hops {
            let (least, most) = self.hops.unwrap_or((hops, hops));
            self.hops = Some((least.min(hops), most.max(hops)));
        }
        self.came_by = arrival.device.or(self.came_by);
    }
}

impl Channel for Receiver {
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        None
    }
    fn granted(&self, _: &str, _: &ChannelOptions) -> Vec<Granted> {
        Vec::new()
    }
}

impl Receive for Receiver {
    fn never_block(&mut self) -> io::Result<()> {
        Ok(()) // MSG_DONTWAIT in recv_now
    }
    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (length, arrival) = multicast::recv(self.fd.as_fd(), buffer, false)?;
        self.note(arrival);
        Ok(length)
    }
    #[inline]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (length, arrival) = multicast::recv(self.fd.as_fd(), buffer, true)?;
        self.note(arrival);
        Ok(length)
    }
}

impl Polled for Receiver {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
