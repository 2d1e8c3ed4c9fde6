//! What a lab should be like.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use msgpath_core::{Exit, Problem};

use super::shape::Shape;

/// Most places of a lab.
pub const MOST_HOSTS: u32 = 16;
/// Network of the second addresses in a lab that a run holds, where the kernel has IPv6.
const V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 0)), 64);
/// The least MTU of a link with IPv6 (RFC 8200, 5).
const LEAST_V6_MTU: u32 = 1280;
/// Longest delay, ns.
const MOST_DELAY_NS: u64 = 10_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabSpec {
    /// Number of places, 2 to 16: two are joined by one link, more by a bridge.
    pub hosts: u32,
    /// Their network, of either family; host number i has address i + 1 in it.
    pub network: (IpAddr, u8),
    /// What the links do.
    pub shape: Shape,
}

impl Default for LabSpec {
    fn default() -> Self {
        Self { hosts: 2, network: (Ipv4Addr::new(10, 66, 0, 0).into(), 24), shape: Shape::default() }
    }
}

impl LabSpec {
    /// Checks what no parser can see.
    ///
    /// # Errors
    /// A number of places out of range, a network that is not in 10.0.0.0/8 or too small.
    pub fn check(&self) -> Result<(), Problem> {
        let usage = |what: String, hint: &str| Err(Problem::new("E11", Exit::Usage, what).hint(hint));
        if !(2..=MOST_HOSTS).contains(&self.hosts) {
            return usage(format!("a lab has 2 to {MOST_HOSTS} places, not {}", self.hosts), "--hosts 2");
        }
        let (address, prefix) = self.network;
        let fits = match address {
            IpAddr::V4(address) => address.octets()[0] == 10 && (8..=29).contains(&prefix),
            IpAddr::V6(address) => address.octets()[0] == 0xfd && (8..=120).contains(&prefix),
        };
        if !fits {
            return usage(
                format!(
                    "{address}/{prefix} is not a network for a lab: it lies in 10.0.0.0/8 or fd00::/8 and has room for places"
                ),
                "--net 10.66.0.0/24, or --net fd66::/64",
            );
        }
        let room = match address {
            IpAddr::V4(_) => (1_u64 << (32 - prefix)) - 2,
            IpAddr::V6(_) => u64::MAX,
        };
        if u64::from(self.hosts) > room {
            return usage(format!("{address}/{prefix} has room for {room} places"), "a larger network");
        }
        if address.is_ipv6() && self.shape.mtu.is_some_and(|mtu| mtu < LEAST_V6_MTU) {
            return usage(format!("IPv6 needs an MTU of {LEAST_V6_MTU}"), "a larger --mtu, or a network of IPv4");
        }
        if self.shape.rate.is_some_and(|rate| !(8_000..=1_000_000_000_000).contains(&rate)) {
            return usage("a rate is 8 kbit/s to 1 Tbit/s".into(), "--rate 1G");
        }
        if self.shape.queue.is_some() && self.shape.rate.is_none() {
            return usage("packets wait where there is a rate".into(), "--rate 10M as well");
        }
        if self.shape.queue.is_some() && self.shape.netem != Some(false) && self.shape.wants_netem() {
            return usage(
                "netem stands in the place of the queue".into(),
                "without delay, loss, duplicates and reordering, or with netem=no",
            );
        }
        if self.shape.delay_ns.is_some_and(|ns| ns > MOST_DELAY_NS) {
            return usage("a delay is at most 10 s".into(), "--delay 1ms");
        }
        if self.shape.offloads == Some(true) && self.shape.netem == Some(false) && self.shape.wants_netem() {
            return usage(
                "msgpath's relay takes whole packets, so offloads are off with it".into(),
                "without --offloads on",
            );
        }
        if self.shape.reorder_ppm.is_some() && self.shape.delay_ns.is_none() {
            return usage("packets are reordered by sending some without the delay".into(), "--delay 1ms as well");
        }
        Ok(())
    }

    /// Address of a place.
    pub fn address(&self, host: u32) -> IpAddr {
        in_network(self.network, host)
    }

    /// The IPv6 address of a place that has one beside its IPv4 address: where the kernel has IPv6, and the MTU is large enough.
    pub(super) fn second_address(&self, host: u32) -> Option<IpAddr> {
        let may = self.network.0.is_ipv4() && self.shape.mtu.is_none_or(|mtu| mtu >= LEAST_V6_MTU);
        (may && Path::new("/proc/net/if_inet6").exists()).then(|| in_network(V6, host))
    }

    /// The commands that make the device `device` of place `host` ready, for its own namespace.
    pub(super) fn configure(&self, device: &str, host: u32) -> Vec<String> {
        let mut lines = vec!["link set dev lo up".to_owned()];
        if let Some(mtu) = self.shape.mtu {
            lines.push(format!("link set dev {device} mtu {mtu}"));
        }
        lines.push(add_address((self.address(host), self.network.1), device));
        lines.push(format!("link set dev {device} up"));
        lines
    }

    /// The same of a lab that a run holds, with addresses of both families.
    pub(super) fn configure_held(&self, device: &str, host: u32) -> Vec<String> {
        let second = self.second_address(host).map(|address| add_address((address, V6.1), device));
        self.configure(device, host).into_iter().chain(second).collect()
    }

    /// The commands for tc that shape what `device` sends; none where nothing is asked. `relayed`: what netem would do is
    /// the relay's.
    pub(super) fn shape(&self, device: &str, relayed: bool) -> Vec<String> {
        let rate = self.shape.rate;
        let shape = if relayed { &Shape::default() } else { &self.shape };
        let mut netem = String::new();
        if let Some(ns) = shape.delay_ns {
            netem += &format!(" delay {}us", ns as f64 / 1e3);
        }
        let share = |ppm: u32| format!("{}%", f64::from(ppm) / 1e4);
        for (word, ppm) in
            [("loss", shape.loss_ppm), ("duplicate", shape.duplicate_ppm), ("reorder", shape.reorder_ppm)]
        {
            if let Some(ppm) = ppm {
                netem += &format!(" {word} {}", share(ppm));
            }
        }
        let tbf = rate.map(|rate| format!("tbf rate {rate}bit burst {} latency 50ms", burst(rate)));
        let alone = |kind: String| vec![format!("qdisc add dev {device} root {kind}")];
        let below = |tbf: String, kind: String| {
            vec![
                format!("qdisc add dev {device} root handle 1: {tbf}"),
                format!("qdisc add dev {device} parent 1: handle 10: {kind}"),
            ]
        };
        match (netem.is_empty(), tbf) {
            (true, None) => Vec::new(),
            (true, Some(tbf)) => match self.shape.queue {
                None => alone(tbf),
                Some(packets) => below(tbf, format!("pfifo limit {packets}")),
            },
            (false, None) => alone(format!("netem{netem}")),
            (false, Some(tbf)) => below(tbf, format!("netem{netem}")),
        }
    }

    /// What tc said, where the reason is known.
    pub(super) fn explain(&self, problem: Problem) -> Problem {
        if self.shape.rate.is_some() && problem.what.contains("qdisc kind is unknown") {
            return Problem::new(
                "E41",
                Exit::CannotStart,
                "this kernel has no token bucket filter (CONFIG_NET_SCH_TBF)",
            )
            .why("a rate needs it")
            .hint("without --rate, or a kernel that has it");
        }
        problem
    }

    /// The offloads that are asked for: a relay takes whole frames with whole checksums.
    pub(super) fn offloads(&self, relayed: bool) -> Option<bool> {
        if relayed { Some(false) } else { self.shape.offloads }
    }
}

/// The address of place number `host` of a network.
fn in_network((network, prefix): (IpAddr, u8), host: u32) -> IpAddr {
    match network {
        IpAddr::V4(network) => {
            let mask = u32::MAX << (32 - prefix);
            Ipv4Addr::from((u32::from(network) & mask) + host + 1).into()
        }
        IpAddr::V6(network) => {
            let mask = u128::MAX << (128 - prefix);
            Ipv6Addr::from((u128::from(network) & mask) + u128::from(host) + 1).into()
        }
    }
}

/// The command that gives a device an address. Nobody else is on the link who could have it (nodad).
fn add_address((address, prefix): (IpAddr, u8), device: &str) -> String {
    let at_once = if address.is_ipv6() { " nodad" } else { "" };
    format!("addr add {address}/{prefix} dev {device}{at_once}")
}

/// Bucket of a token bucket filter: what passes in 250 µs, at least one large segment.
fn burst(rate: u64) -> u64 {
    (rate / 8 / 4_000).max(32 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_addresses_in_their_network() {
        let lab = |network: &str| LabSpec { network: (network.parse().unwrap(), 24), ..LabSpec::default() };
        assert_eq!([0, 1].map(|host| lab("10.9.0.77").address(host).to_string()), ["10.9.0.1", "10.9.0.2"]);
        assert_eq!([0, 1].map(|host| lab("fd66::77").address(host).to_string()), ["fd66::1", "fd66::2"]);
        assert!(lab("fd66::").configure("mp0", 1).contains(&"addr add fd66::2/24 dev mp0 nodad".to_owned()));
        assert_eq!(lab("fd66::").second_address(0), None, "IPv6 alone");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut LabSpec)| {
            let mut spec = LabSpec::default();
            change(&mut spec);
            spec.check().unwrap_err().exit == Exit::Usage
        };
        assert!(LabSpec::default().check().is_ok());
        assert!(refused(|spec| spec.hosts = 1) && refused(|spec| spec.hosts = 17));
        assert!(refused(|spec| spec.network.0 = Ipv4Addr::new(192, 168, 0, 0).into()));
        assert!(refused(|spec| spec.network = ("fe80::".parse().unwrap(), 64)));
        let narrow = |spec: &mut LabSpec| (spec.network, spec.shape.mtu) = (V6, Some(1279));
        assert!(refused(narrow));
        assert!(refused(|spec| spec.network.1 = 30));
        assert!(refused(|spec| (spec.hosts, spec.network.1) = (7, 29)));
        assert!(refused(|spec| spec.shape.reorder_ppm = Some(1)));
        assert!(refused(|spec| spec.shape.queue = Some(100)), "without a rate");
        assert!(refused(|spec| spec.shape = Shape::parse("rate=10M,queue=100,delay=1ms").unwrap()));
        assert!(refused(|spec| spec.shape.rate = Some(0)) && refused(|spec| spec.shape.delay_ns = Some(u64::MAX)));
        let relayed = |spec: &mut LabSpec| {
            spec.shape = Shape::parse("delay=1ms,netem=no,offloads=on").unwrap();
        };
        assert!(refused(relayed));
    }

    #[test]
    fn shapes_are_written_for_tc() {
        let shaped = |shape: Shape| LabSpec { shape, ..LabSpec::default() }.shape("mp0", false);
        assert_eq!(shaped(Shape::default()), Vec::<String>::new());
        let rate = Shape { rate: Some(1_000_000_000), ..Shape::default() };
        assert_eq!(shaped(rate.clone()), ["qdisc add dev mp0 root tbf rate 1000000000bit burst 32768 latency 50ms"]);
        let queue = Shape { queue: Some(100), ..rate.clone() };
        assert_eq!(
            shaped(queue),
            [
                "qdisc add dev mp0 root handle 1: tbf rate 1000000000bit burst 32768 latency 50ms",
                "qdisc add dev mp0 parent 1: handle 10: pfifo limit 100",
            ]
        );
        let both = Shape { delay_ns: Some(1_500_000), loss_ppm: Some(5_000), ..rate };
        assert_eq!(
            LabSpec { shape: both.clone(), ..LabSpec::default() }.shape("mp0", true),
            ["qdisc add dev mp0 root tbf rate 1000000000bit burst 32768 latency 50ms"],
            "the rate stays where it is"
        );
        assert_eq!(
            shaped(both),
            [
                "qdisc add dev mp0 root handle 1: tbf rate 1000000000bit burst 32768 latency 50ms",
                "qdisc add dev mp0 parent 1: handle 10: netem delay 1500us loss 0.5%",
            ]
        );
    }
}
