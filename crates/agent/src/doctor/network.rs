//! The way of the packets: the device that leads to the other end, and what looks at each packet on it.

use std::path::Path;

use msgpath_core::remedy::{Device, Remedy};
use msgpath_core::schema::{DeviceKind, Route};
use msgpath_core::units::{BitUnits, bits_per_second};
use msgpath_sys::ethtool::{Ethtool, Offload, Stamping};
use msgpath_sys::netlink::{Family, Netlink, attributes};

use super::verdict::Verdict;
use super::{Context, read};
use crate::route::{self, Link};

const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE.
const NFT_GETRULE: u16 = (10 << 8) | 7;
/// A receive interrupt that waits longer than this shows as steps in the latency, µs.
const COALESCING_US: u32 = 10;

/// Check 14.
pub(super) fn route(context: &Context) -> Verdict {
    // Not before a run: a record goes to others, and the addresses of a machine are not part of a result.
    let own = context.order.full.then(|| match route::interfaces() {
        Ok(all) => Verdict::ok(format!("interfaces: {all}")),
        Err(reason) => Verdict::none(reason),
    });
    let Some(peer) = context.order.peer else {
        let none = Verdict::ok("no network address: the messages stay on this machine");
        return Verdict::all([none].into_iter().chain(own));
    };
    let (taken, link) = match route::to_peer(peer).and_then(|(_, link)| Ok((route::to(peer)?, link))) {
        Ok(found) => found,
        Err(reason) => return Verdict::none(reason),
    };
    let mut parts = vec![judge_kind(&taken), Verdict::ok(describe(&taken, &link))];
    parts.extend(own);
    let folder = route::in_sysfs(&link);
    if let Some(folder) = &folder {
        let driver = std::fs::read_link(Path::new(folder).join("device/driver")).ok();
        if let Some(name) = driver.as_deref().and_then(Path::file_name) {
            parts.push(Verdict::ok(format!("driver {}", name.to_string_lossy())));
        }
        parts.push(Verdict::ok(steering(folder)));
    }
    match Ethtool::open() {
        Err(error) => parts.push(Verdict::none(format!("ethtool: {error}"))),
        Ok(ethtool) => {
            parts.push(Verdict::ok(offloads(&ethtool, &link.name)));
            parts.push(match ethtool.stamping(&link.name) {
                Ok(stamping) => Verdict::ok(stamps(stamping)),
                Err(error) => Verdict::none(format!("stamps: {error}")),
            });
            match ethtool.receive_coalescing(&link.name) {
                Ok((us, _)) => parts.push(judge_coalescing(&link.name, us)),
                Err(error) => parts.push(Verdict::none(format!("coalescing: {error}"))),
            }
            match ethtool.rings(&link.name) {
                Ok((receive, send)) => parts.push(Verdict::ok(format!("rings {receive} and {send}"))),
                Err(error) => parts.push(Verdict::none(format!("rings: {error}"))),
            }
        }
    }
    Verdict::all(parts)
}

fn judge_kind(route: &Route) -> Verdict {
    let Route { to, device, .. } = route;
    let local = |what: &str| {
        Verdict::warn(
            format!("{to} is reached over {device}, {what}: numbers do not transfer to a NIC"),
            "the far end on another machine, if you want to know about the network",
        )
    };
    match route.kind {
        DeviceKind::Loopback => local("which never leaves this machine"),
        DeviceKind::Veth => local("a pair between network namespaces"),
        DeviceKind::Tun => local("a program's own device"),
        DeviceKind::Virtual => Verdict::ok(format!("{to} is reached over {device}, a virtual device")),
        DeviceKind::Nic => Verdict::ok(format!("{to} is reached over {device}")),
        DeviceKind::Unknown => Verdict::ok(format!("{to} is reached over {device}, of unknown kind")),
    }
}

fn describe(route: &Route, link: &Link) -> String {
    let mut parts = vec![format!("from {}", route.from)];
    parts.extend(link.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(route.bits_per_s.map(|bits| bits_per_second(bits as f64, BitUnits::Si)));
    parts.extend(link.qdisc.as_ref().map(|qdisc| format!("qdisc {qdisc}")));
    parts.extend(
        link.receive_queues.zip(link.send_queues).map(|(receive, send)| format!("queues {receive} in, {send} out")),
    );
    parts.join(", ")
}

/// Which queues the kernel spreads packets from or to by itself.
fn steering(folder: &str) -> String {
    let queues = read::names(&format!("{folder}/queues"));
    let masked = |kind: &str, file: &str| {
        let set = |queue: &&String| {
            read::line(&format!("{folder}/queues/{queue}/{file}"))
                .is_ok_and(|mask| mask.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0'))
        };
        queues.iter().filter(|queue| queue.starts_with(kind)).filter(set).count()
    };
    let (rps, xps) = (masked("rx-", "rps_cpus"), masked("tx-", "xps_cpus"));
    let threaded = read::line(&format!("{folder}/threaded")).is_ok_and(|on| on == "1");
    let threaded = if threaded { ", polled by threads" } else { "" };
    format!("RPS on {rps} and XPS on {xps} queues{threaded}")
}

fn offloads(ethtool: &Ethtool, device: &str) -> String {
    let all = [("TSO", Offload::TcpSegmentation), ("GSO", Offload::Segmentation), ("GRO", Offload::Receive)];
    let named = all.map(|(name, offload)| match ethtool.offload(device, offload) {
        Ok(true) => format!("{name} on"),
        Ok(false) => format!("{name} off"),
        Err(_) => format!("{name} n/a"),
    });
    named.join(", ")
}

/// Who could stamp packets: msgpath takes the stamps of the two programs, which have the wake-up of the receiver in them.
fn stamps(Stamping { hardware, software, clock }: Stamping) -> String {
    match (hardware, clock) {
        ((true, true), Some(clock)) => {
            format!("packets could be stamped by the device, whose clock is /dev/ptp{clock}")
        }
        _ if software.1 => "packets could be stamped by the kernel, not by the device".into(),
        _ => "nobody could stamp packets".into(),
    }
}

fn judge_coalescing(device: &str, us: u32) -> Verdict {
    Verdict::warn_if(
        us > COALESCING_US,
        format!("receive interrupts wait {us} µs"),
        "no interrupt coalescing, or know that latency moves in these steps",
    )
    .fix(Device::parse(device).map(|device| Remedy::Coalescing { device, was_us: us }))
    .with("rx_usecs", f64::from(us))
}

/// Check 15.
pub(super) fn packet_path(context: &Context) -> Verdict {
    let Some(peer) = context.order.peer else {
        return Verdict::ok("no network address: no packets");
    };
    let link = match route::to_peer(peer) {
        Ok((_, link)) => link,
        Err(reason) => return Verdict::none(reason),
    };
    let conntrack = match read::number("/proc/sys/net/netfilter/nf_conntrack_count") {
        Ok(count) => judge_conntrack(count),
        Err(reason) if reason.ends_with("not in this kernel") => Verdict::ok("no connection tracking"),
        Err(reason) => Verdict::none(reason),
    };
    let xdp = Verdict::warn_if(
        link.xdp,
        if link.xdp { format!("an XDP program on {}", link.name) } else { "no XDP program".into() },
        "each packet pays for it: detach it (ip link set dev DEVICE xdp off), or know that it belongs to the path",
    );
    Verdict::all([
        Verdict::read(read::text("/proc/net/packet"), |text| packet_sockets(&text, link.index)),
        conntrack,
        iptables(),
        nftables(),
        xdp,
        ingress(&link),
    ])
}

const PAYS: &str = "each message pays for it: remove it from this path, or know that it belongs to it";

/// `/proc/net/packet`: socket, references, type, protocol, device (0: all), running ...
fn packet_sockets(text: &str, device: u32) -> Verdict {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|head| head.contains("Iface")) {
        return Verdict::none("/proc/net/packet: not as expected");
    }
    let on_path = lines
        .filter(|line| {
            let mut words = line.split_whitespace().skip(4).map(str::parse::<u32>);
            let (index, running) = (words.next(), words.next());
            // A socket that is bound to no protocol receives nothing.
            matches!(index, Some(Ok(index)) if index == 0 || index == device) && !matches!(running, Some(Ok(0)))
        })
        .count();
    let what = match on_path {
        0 => "no packet socket".to_owned(),
        1 => "a packet socket (tcpdump?) sees every packet".to_owned(),
        many => format!("{many} packet sockets (tcpdump?) see every packet"),
    };
    Verdict::warn_if(on_path > 0, what, "stop tcpdump and what else listens: zero copy becomes a copy, too")
        .with("packet_sockets", on_path as f64)
}

fn judge_conntrack(count: u64) -> Verdict {
    let what = if count > 0 { format!("{count} connections tracked") } else { "no connection tracked".into() };
    Verdict::warn_if(count > 0, what, PAYS).with("tracked_connections", count as f64)
}

fn iptables() -> Verdict {
    let tables: Result<Vec<String>, String> = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]
        .into_iter()
        .map(|path| match read::text(path) {
            Err(reason) if reason.ends_with("not in this kernel") => Ok(String::new()),
            read => read,
        })
        .collect();
    match tables {
        Err(reason) => Verdict::none(reason),
        Ok(texts) => judge_tables(&texts.concat()),
    }
}

fn judge_tables(text: &str) -> Verdict {
    let mut names: Vec<&str> = text.split_whitespace().collect();
    names.dedup();
    if names.is_empty() {
        Verdict::ok("no iptables")
    } else {
        Verdict::warn(format!("iptables {} loaded", names.join(", ")), PAYS)
    }
}

fn nftables() -> Verdict {
    let rules = Netlink::open(Family::Netfilter).and_then(|netlink| netlink.dump(NFT_GETRULE, &[0; 4]));
    judge_rules(rules.map(|rules| rules.len()))
}

fn judge_rules(rules: std::io::Result<usize>) -> Verdict {
    use std::io::ErrorKind::PermissionDenied;
    match rules {
        Ok(0) => Verdict::ok("no nftables rules"),
        Ok(rules) => Verdict::warn(format!("{rules} nftables rules"), PAYS).with("nftables_rules", rules as f64),
        Err(error) if error.kind() == PermissionDenied => Verdict::none("nftables: needs root"),
        Err(error) => Verdict::none(format!("nftables: {error}")),
    }
}

/// Classifiers hang on an ingress or clsact qdisc; without one no tc program sees what comes in.
fn ingress(link: &Link) -> Verdict {
    let mut request = [0_u8; 20]; // struct tcmsg
    request[4..8].copy_from_slice(&link.index.to_ne_bytes());
    let answers = match Netlink::open(Family::Route).and_then(|netlink| netlink.dump(RTM_GETQDISC, &request)) {
        Ok(answers) => answers,
        Err(error) => return Verdict::none(format!("tc: {error}")),
    };
    let found = answers.iter().find_map(|(_, body)| hook(body, link.index));
    Verdict::warn_if(
        found.is_some(),
        found.map_or("no tc hook".into(), |name| format!("{name} on {}: tc programs may see every packet", link.name)),
        PAYS,
    )
}

fn hook(body: &[u8], device: u32) -> Option<&'static str> {
    let index = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
    let kind = attributes(body.get(20..)?).find(|(kind, _)| *kind == TCA_KIND)?.1;
    let name = ["clsact", "ingress"].into_iter().find(|name| kind.strip_suffix(b"\0") == Some(name.as_bytes()))?;
    (index == device).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;
    use msgpath_sys::netlink::push_attribute;

    #[test]
    fn local_paths_warn_and_cards_do_not() {
        let state = |kind| judge_kind(&Route { kind, ..Route::default() }).state;
        for kind in [DeviceKind::Loopback, DeviceKind::Veth, DeviceKind::Tun] {
            assert_eq!(state(kind), CheckState::Warn, "{kind:?}");
        }
        assert_eq!((state(DeviceKind::Nic), state(DeviceKind::Virtual)), (CheckState::Ok, CheckState::Ok));
    }

    #[test]
    fn who_could_stamp_packets_is_said() {
        let card = Stamping { hardware: (true, true), software: (true, true), clock: Some(1) };
        assert!(stamps(card).contains("by the device, whose clock is /dev/ptp1"));
        // A clock that nobody can read is of no use.
        assert!(stamps(Stamping { clock: None, ..card }).contains("by the kernel, not by the device"));
        assert!(
            stamps(Stamping { hardware: (false, false), software: (false, false), clock: None }).contains("nobody")
        );
    }

    #[test]
    fn coalescing_warns_with_its_way_back() {
        assert_eq!(judge_coalescing("eth0", 3).state, CheckState::Ok);
        let slow = judge_coalescing("eth0", 50);
        assert_eq!(slow.state, CheckState::Warn);
        assert_eq!(slow.remedies[0].undo().to_string(), "ethtool -C eth0 rx-usecs 50");
        assert!(judge_coalescing("eth0;id", 50).remedies.is_empty());
    }

    #[test]
    fn packet_sockets_on_this_path_warn() {
        let head = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
        let line = |device: u32, running: u32| format!("{head}000000 3 3 0003 {device} {running} 0 0 12345\n");
        assert_eq!(packet_sockets(head, 2).state, CheckState::Ok);
        assert_eq!(packet_sockets(&line(2, 1), 2).state, CheckState::Warn);
        assert_eq!(packet_sockets(&line(0, 1), 2).state, CheckState::Warn);
        assert_eq!(packet_sockets(&line(3, 1), 2).state, CheckState::Ok);
        assert_eq!(packet_sockets(&line(2, 0), 2).state, CheckState::Ok);
        assert_eq!(packet_sockets(&format!("{head}garbage\n"), 2).state, CheckState::Ok);
        assert_eq!(packet_sockets("", 2).state, CheckState::NotAvailable);
    }

    #[test]
    fn what_sees_every_packet_warns() {
        assert_eq!((judge_conntrack(0).state, judge_conntrack(9).state), (CheckState::Ok, CheckState::Warn));
        assert_eq!(
            (judge_tables("").state, judge_tables("filter\nfilter\n").state),
            (CheckState::Ok, CheckState::Warn)
        );
        assert_eq!((judge_rules(Ok(0)).state, judge_rules(Ok(4)).state), (CheckState::Ok, CheckState::Warn));
        let refused = judge_rules(Err(std::io::Error::from(std::io::ErrorKind::PermissionDenied)));
        assert_eq!(refused.what, "n/a: nftables: needs root");
        let mut body = vec![0; 20];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        push_attribute(&mut body, TCA_KIND, b"clsact\0");
        assert_eq!((hook(&body, 7), hook(&body, 8), hook(&[1, 2], 7)), (Some("clsact"), None, None));
    }
}
