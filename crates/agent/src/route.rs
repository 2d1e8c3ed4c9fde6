//! The way to an address: which device carries the packets, and what that device is.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use msgpath_core::schema::{DeviceKind, EndDevice, Route};
use msgpath_core::units::{BitUnits, bits_per_second};
use msgpath_sys::address::{canonical, shown};
use msgpath_sys::ethtool::{Ethtool, Offload};
use msgpath_sys::netlink::{Family, Netlink, attributes, push_attribute};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RT_SCOPE_LINK: u8 = 253;
const IFF_LOOPBACK: u32 = 8;
const IFF_UP: u32 = 1;
/// Devices that are named one by one.
const LISTED: usize = 32;

/// A network device, as the kernel describes it (RTM_GETLINK).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub index: u32,
    pub name: String,
    pub loopback: bool,
    /// What made it: `veth`, `tun`, `bridge`; empty for a NIC and for lo.
    pub made_by: String,
    pub mtu: Option<u64>,
    /// Of a packet with GSO: most bytes, most of them over IPv4 where that is another limit, most segments.
    pub gso_max_bytes: Option<u64>,
    pub gso_ipv4_max_bytes: Option<u64>,
    pub gso_max_segments: Option<u64>,
    pub qdisc: Option<String>,
    pub receive_queues: Option<u32>,
    pub send_queues: Option<u32>,
    /// An XDP program is attached.
    pub xdp: bool,
}

/// The way to `peer`; nothing is sent.
///
/// # Errors
/// Why it is not known: no route, or a kernel that does not tell.
pub fn to(peer: impl Into<SocketAddr>) -> Result<Route, String> {
    let (route, link) = to_peer(peer.into())?;
    let kind = kind(&link, in_sysfs(&link).is_some_and(|folder| Path::new(&folder).join("device").exists()));
    Ok(Route { kind, ..route })
}

/// The way and the device; the kind is left open.
pub(crate) fn to_peer(peer: SocketAddr) -> Result<(Route, Link), String> {
    let (address, peer) = (canonical(peer), shown(canonical(peer)));
    let netlink = Netlink::open(Family::Route).map_err(|error| format!("netlink: {error}"))?;
    let answers =
        netlink.get(RTM_GETROUTE, &route_request(address)).map_err(|error| format!("no route to {peer}: {error}"))?;
    let found = answers.iter().find(|(kind, _)| *kind == RTM_NEWROUTE).and_then(|(_, body)| parse_route(body));
    let (index, from) = found.ok_or_else(|| format!("the kernel names no device for {peer}"))?;
    let mut request = vec![0_u8; 16];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let answers = netlink.get(RTM_GETLINK, &request).map_err(|error| format!("device {index}: {error}"))?;
    let link = answers.iter().find(|(kind, _)| *kind == RTM_NEWLINK).and_then(|(_, body)| parse_link(body));
    let link = link.ok_or_else(|| format!("the kernel does not describe device {index}"))?;
    let from = from.or_else(|| source(address.ip())).map_or_else(String::new, |from| from.to_string());
    let bits_per_s = in_sysfs(&link).and_then(|folder| speed(&fs::read_to_string(format!("{folder}/speed")).ok()?));
    let route =
        Route { to: peer, from, device: link.name.clone(), kind: DeviceKind::Unknown, mtu: link.mtu, bits_per_s };
    Ok((route, link))
}

/// The device by which packets to `peer` leave: `bound` (SO_BINDTODEVICE), or the one of the route. Nothing is sent.
pub fn device(peer: SocketAddr, bound: Option<&str>) -> Option<EndDevice> {
    let peer = canonical(peer);
    let link = match bound {
        Some(name) => links().into_iter().find(|link| link.name == name)?,
        None => to_peer(peer).ok()?.1,
    };
    let gso_max_bytes = link.gso_ipv4_max_bytes.filter(|_| peer.is_ipv4()).or(link.gso_max_bytes);
    let ethtool = Ethtool::open().ok();
    let offload = |offload| ethtool.as_ref()?.offload(&link.name, offload).ok();
    Some(EndDevice {
        mtu_bytes: link.mtu,
        gso_max_bytes,
        gso_max_segments: link.gso_max_segments,
        gso: offload(Offload::Segmentation),
        tso: offload(Offload::TcpSegmentation),
        name: link.name,
    })
}

/// All devices of this network namespace.
fn links() -> Vec<Link> {
    let answers = Netlink::open(Family::Route).and_then(|netlink| netlink.dump(RTM_GETLINK, &[0; 16]));
    let answers = answers.unwrap_or_default();
    answers.iter().filter(|(kind, _)| *kind == RTM_NEWLINK).filter_map(|(_, body)| parse_link(body)).collect()
}

/// The router that packets to `peer` go to first; `None`: none, it is on a link of this network namespace, or no route is known.
pub fn router(peer: impl Into<SocketAddr>) -> Option<IpAddr> {
    let answers = Netlink::open(Family::Route).ok()?.get(RTM_GETROUTE, &route_request(canonical(peer.into()))).ok()?;
    let (_, body) = answers.iter().find(|(kind, _)| *kind == RTM_NEWROUTE)?;
    attributes(body.get(12..)?).find(|(kind, _)| *kind == RTA_GATEWAY).and_then(|(_, value)| address(value))
}

/// Its folder, if sysfs shows the devices of this network namespace: it may show those of another.
pub(crate) fn in_sysfs(link: &Link) -> Option<String> {
    let folder = format!("/sys/class/net/{}", link.name);
    let index: u32 = fs::read_to_string(format!("{folder}/ifindex")).ok()?.trim().parse().ok()?;
    (index == link.index).then_some(folder)
}

/// The folder of a device by its name, as [`in_sysfs`].
pub fn folder(device: &str) -> Option<String> {
    in_sysfs(&links().into_iter().find(|link| link.name == device)?)
}

/// The devices of this network namespace but loopback, by name. sysfs may show those of another one.
pub fn devices() -> Vec<String> {
    let links = links().into_iter().filter(|link| !link.loopback);
    let mut names: Vec<String> = links.map(|link| link.name).take(LISTED).collect();
    names.sort_unstable();
    names
}

/// The addresses of this network namespace that others can reach it by, as far as its own devices tell.
pub fn addresses() -> Vec<IpAddr> {
    let Ok(netlink) = Netlink::open(Family::Route) else { return Vec::new() };
    let answers = netlink.dump(RTM_GETADDR, &[0; 8]).unwrap_or_default();
    answers.iter().filter(|(kind, _)| *kind == RTM_NEWADDR).filter_map(|(_, body)| parse_address(body)).collect()
}

/// The device of this network namespace that has an address.
pub fn device_of(address: IpAddr) -> Option<String> {
    let netlink = Netlink::open(Family::Route).ok()?;
    let answers = netlink.dump(RTM_GETADDR, &[0; 8]).ok()?;
    let prefix = format!("{address}/");
    let index = answers.iter().filter(|(kind, _)| *kind == RTM_NEWADDR).filter_map(|(_, body)| with_prefix(body));
    let (index, _) = index.into_iter().find(|(_, own)| own.starts_with(&prefix))?;
    links().into_iter().find(|link| link.index == index).map(|link| link.name)
}

/// The only device of this network namespace that is up, beside lo.
///
/// # Errors
/// There is none, or there are several.
pub fn only_device() -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("netlink: {error}");
    let netlink = Netlink::open(Family::Route).map_err(cannot)?;
    let links = netlink.dump(RTM_GETLINK, &[0; 16]).map_err(cannot)?;
    let is_up = |body: &[u8]| body.get(8..12).and_then(number).is_some_and(|flags| flags & IFF_UP != 0);
    let up = links.iter().filter(|(_, body)| is_up(body)).filter_map(|(_, body)| parse_link(body));
    let mut up: Vec<String> = up.filter(|link| !link.loopback).map(|link| link.name).collect();
    match up.len() {
        1 => Ok(up.remove(0)),
        0 => Err("no device is up here but lo".into()),
        _ => Err(format!("no address tells which device is meant: {}", up.join(", "))),
    }
}

/// The devices of this network namespace with their addresses, one line for people: `lo 127.0.0.1/8, eth0 10.0.0.2/24 (1 Gbit/s,
/// MTU 1500), eth1 down`.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn interfaces() -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("netlink: {error}");
    let netlink = Netlink::open(Family::Route).map_err(cannot)?;
    let addresses = netlink.dump(RTM_GETADDR, &[0; 8]).map_err(cannot)?;
    let links = netlink.dump(RTM_GETLINK, &[0; 16]).map_err(cannot)?;
    let own: Vec<(u32, String)> =
        addresses.iter().filter(|(kind, _)| *kind == RTM_NEWADDR).filter_map(|(_, body)| with_prefix(body)).collect();
    let links: Vec<String> =
        links.iter().filter(|(kind, _)| *kind == RTM_NEWLINK).filter_map(|(_, body)| interface(body, &own)).collect();
    let more = match links.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(links[..links.len().min(LISTED)].join(", ") + &more)
}

/// A device of [`interfaces`].
fn interface(body: &[u8], addresses: &[(u32, String)]) -> Option<String> {
    let (link, flags) = (parse_link(body)?, number(body.get(8..12)?)?);
    let mut words = vec![link.name.clone()];
    words.extend(addresses.iter().filter(|(index, _)| *index == link.index).map(|(_, address)| address.clone()));
    if flags & IFF_UP == 0 {
        words.push("down".into());
    }
    let speed = in_sysfs(&link).and_then(|folder| speed(&fs::read_to_string(format!("{folder}/speed")).ok()?));
    let speed = speed.map(|bits| bits_per_second(bits as f64, BitUnits::Si));
    let facts: Vec<String> = speed.into_iter().chain(link.mtu.map(|mtu| format!("MTU {mtu}"))).collect();
    if !link.loopback && !facts.is_empty() {
        words.push(format!("({})", facts.join(", ")));
    }
    Some(words.join(" "))
}

/// Index of the device and the address with the length of its prefix (struct ifaddrmsg).
fn with_prefix(body: &[u8]) -> Option<(u32, String)> {
    let (prefix, index, rest) = (*body.get(1)?, number(body.get(4..8)?)?, body.get(8..)?);
    let named = |wanted| attributes(rest).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| address(value));
    let own = named(IFA_LOCAL).or_else(|| named(IFA_ADDRESS))?;
    Some((index, format!("{own}/{prefix}")))
}

/// An address whose scope is more than its link (struct ifaddrmsg).
fn parse_address(body: &[u8]) -> Option<IpAddr> {
    let (scope, rest) = (*body.get(3)?, body.get(8..)?);
    let named = |wanted| attributes(rest).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| address(value));
    // Where a link has two ends, IFA_ADDRESS is the other one.
    (scope < RT_SCOPE_LINK).then(|| named(IFA_LOCAL).or_else(|| named(IFA_ADDRESS))).flatten()
}

/// The local address that a UDP socket takes; connecting one sends nothing.
pub fn source(peer: IpAddr) -> Option<IpAddr> {
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn route_request(peer: SocketAddr) -> Vec<u8> {
    let (family, bits, address) = match peer.ip() {
        IpAddr::V4(address) => (AF_INET, 32, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, 128, address.octets().to_vec()),
    };
    let mut request = vec![0_u8; 12]; // struct rtmsg
    (request[0], request[1]) = (family, bits);
    push_attribute(&mut request, RTA_DST, &address);
    if let SocketAddr::V6(peer) = peer
        && peer.scope_id() > 0
    {
        push_attribute(&mut request, RTA_OIF, &peer.scope_id().to_ne_bytes());
    }
    request
}

/// Device and preferred source of a route.
fn parse_route(body: &[u8]) -> Option<(u32, Option<IpAddr>)> {
    let (mut device, mut from) = (None, None);
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            RTA_OIF => device = number(value),
            RTA_PREFSRC => from = address(value),
            _ => {}
        }
    }
    Some((device?, from))
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let word = |at: usize| number(body.get(at..at + 4)?);
    let mut link = Link { index: word(4)?, loopback: word(8)? & IFF_LOOPBACK != 0, ..Link::default() };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            3 => link.name = string(value),                                         // IFLA_IFNAME
            4 => link.mtu = number(value).map(u64::from),                           // IFLA_MTU
            6 => link.qdisc = Some(string(value)),                                  // IFLA_QDISC
            18 => link.made_by = nested(value, 1).map_or_else(String::new, string), // IFLA_LINKINFO, IFLA_INFO_KIND
            31 => link.send_queues = number(value),                                 // IFLA_NUM_TX_QUEUES
            32 => link.receive_queues = number(value),                              // IFLA_NUM_RX_QUEUES
            40 => link.gso_max_segments = number(value).map(u64::from),             // IFLA_GSO_MAX_SEGS
            41 => link.gso_max_bytes = number(value).map(u64::from),                // IFLA_GSO_MAX_SIZE
            63 => link.gso_ipv4_max_bytes = number(value).map(u64::from),           // IFLA_GSO_IPV4_MAX_SIZE
            43 => link.xdp = nested(value, 2).and_then(<[u8]>::first).is_some_and(|mode| *mode != 0), // IFLA_XDP_ATTACHED
            _ => {}
        }
    }
    Some(link)
}

fn nested(value: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

fn string(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    }
}

fn kind(link: &Link, has_bus: bool) -> DeviceKind {
    match link.made_by.as_str() {
        _ if link.loopback => DeviceKind::Loopback,
        "veth" => DeviceKind::Veth,
        "tun" => DeviceKind::Tun,
        _ if has_bus => DeviceKind::Nic,
        // No maker and no bus: a NIC whose sysfs this process does not see, or an old virtual device.
        "" => DeviceKind::Unknown,
        _ => DeviceKind::Virtual,
    }
}

/// Bits per second of `speed`, which is in Mbit/s; -1 where the link is down or has none.
fn speed(text: &str) -> Option<u64> {
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|megabits| *megabits > 0)?.checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::process::Command;

    #[test]
    fn device_of_an_address_is_found() {
        assert_eq!(device_of("192.0.2.77".parse().unwrap()), None);
        // A namespace may have left it down.
        assert!(device_of("127.0.0.1".parse().unwrap()).is_none_or(|device| device == "lo"));
    }

    #[test]
    fn every_device_is_named_with_its_addresses() {
        let text = interfaces().unwrap();
        let lo = text.split(", ").find(|one| one.split(' ').next() == Some("lo")).expect("lo");
        // A namespace may have left it down, and then it has no address.
        assert!(lo.contains(" 127.0.0.1/8") || lo.ends_with(" down"), "{text}");
        assert!(!text.contains('\n') && !lo.contains("MTU"), "{text}");
        let mut body = vec![2, 24, 0, 0, 3, 0, 0, 0];
        push_attribute(&mut body, IFA_LOCAL, &[10, 0, 0, 2]);
        assert_eq!(with_prefix(&body), Some((3, "10.0.0.2/24".into())));
        assert_eq!((with_prefix(&body[..7]), interface(&[], &[])), (None, None));
    }

    #[test]
    fn own_addresses_lead_to_the_loopback_device() {
        let route = to(("127.0.0.1".parse::<IpAddr>().unwrap(), 0)).unwrap();
        assert_eq!((route.kind, route.device.as_str(), route.from.as_str()), (DeviceKind::Loopback, "lo", "127.0.0.1"));
        assert!(route.mtu.unwrap() >= 1280);
        assert_eq!(to(("::ffff:127.0.0.1".parse::<IpAddr>().unwrap(), 0)).unwrap(), route);
    }

    #[test]
    fn what_the_kernel_says_is_not_trusted() {
        assert_eq!(parse_route(&[0; 5]), None);
        assert_eq!(parse_link(&[0; 15]), None);
        assert_eq!((parse_address(&[0; 3]), parse_address(&[0; 8])), (None, None));
        let mut body = vec![0; 16];
        push_attribute(&mut body, 4, &[1, 2]); // an MTU that is cut
        push_attribute(&mut body, 18, &[9, 0, 1, 0, b'v']); // a nested attribute longer than its frame
        let link = parse_link(&body).unwrap();
        assert_eq!((link.mtu, link.made_by.as_str()), (None, ""));
        assert_eq!(speed("-1\n"), None);
        assert_eq!(speed("10000\n"), Some(10_000_000_000));
        assert_eq!(speed("fast"), None);
    }

    #[test]
    fn kinds_are_told_apart() {
        let made_by = |name: &str| Link { made_by: name.into(), ..Link::default() };
        assert_eq!(kind(&made_by("veth"), false), DeviceKind::Veth);
        assert_eq!(kind(&made_by("tun"), false), DeviceKind::Tun);
        assert_eq!(kind(&made_by("bridge"), false), DeviceKind::Virtual);
        assert_eq!(kind(&made_by(""), true), DeviceKind::Nic);
        assert_eq!(kind(&made_by(""), false), DeviceKind::Unknown);
        assert_eq!(kind(&Link { loopback: true, ..made_by("") }, false), DeviceKind::Loopback);
    }

    /// Runs [`inside_a_namespace`] in a network namespace of its own, with real devices.
    #[test]
    fn real_devices_are_recognised() {
        let script = "ip link add a0 type veth peer name a1 && ip addr add 198.18.0.1/30 dev a0 && ip link set a0 up \
                      && ip link set a1 up && ip link set lo up && ip tuntap add dev t0 mode tun \
                      && ip addr add 198.18.1.1/30 dev t0 && ip link set t0 up || exit 77; \
                      exec \"$0\" --ignored --exact route::tests::inside_a_namespace";
        let this = std::env::current_exe().unwrap();
        let done = Command::new("unshare").args(["-n", "sh", "-c", script]).arg(this).output();
        let Ok(done) = done else { return eprintln!("skipped: no unshare") };
        let message = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        if !done.status.success() && !message.contains("running 1 test") {
            return eprintln!("skipped: no namespace or no devices: {message}");
        }
        assert!(done.status.success() && message.contains("1 passed"), "{message}");
    }

    #[test]
    #[ignore = "started by real_devices_are_recognised inside a namespace"]
    fn inside_a_namespace() {
        let to = |address: &str| to((address.parse::<IpAddr>().unwrap(), 0));
        let veth = to("198.18.0.2").unwrap();
        assert_eq!((veth.kind, veth.device.as_str(), veth.mtu), (DeviceKind::Veth, "a0", Some(1500)));
        assert_eq!(veth.from, "198.18.0.1");
        let device = |bound| device((Ipv4Addr::new(198, 18, 0, 2), 0).into(), bound).unwrap();
        assert_eq!(
            (device(None).name.as_str(), device(None).mtu_bytes, device(None).gso),
            ("a0", Some(1500), Some(true))
        );
        assert_eq!(device(Some("t0")).name, "t0");
        assert!(device(None).gso_max_bytes >= Some(1500) && device(None).gso_max_segments > Some(0));
        assert_eq!(to("198.18.0.1").unwrap().kind, DeviceKind::Loopback, "an own address");
        assert_eq!(to("198.18.1.2").unwrap().kind, DeviceKind::Tun);
        let own = ["198.18.0.1", "198.18.1.1"].map(|address| address.parse::<IpAddr>().unwrap());
        assert_eq!(addresses(), own, "neither loopback nor link-local");
        assert_eq!(source("198.18.0.2".parse().unwrap()), Some(own[0]));
        assert!(to("203.0.113.1").unwrap_err().contains("no route"));
    }
}
