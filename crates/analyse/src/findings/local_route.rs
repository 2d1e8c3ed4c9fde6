//! W33: no network was between the ends
//!
//! * **The way**: the target is a network address, and packets to it take loopback or a veth pair of this machine. No
//!   NIC was measured.
//! * **Calls**: the server is the client's own machine, reached by a network address; how that is known.
//! * **More than a wire carries**: calls move more MB/s than the wire can, so they did not cross it. Assumed speed if
//!   unknown: 1 Gbit/s.
//!
//! ## What it rests on
//!
//! * **The way**: the kernel's route to the server (`floors.route`). Any local address goes over lo, whichever NIC has
//!   it.
//! * **Calls**: equal addresses, equal boot ids, or a local route.
//! * **More than a wire carries**: successful calls of at least 64 KiB: bytes of the larger direction by T4 − T1 less
//!   T3 − T2; the speed of the interface, or `-o wire`.
//!
//! Silent for `localhost`, 127.x and the own host name, which say it themselves, and for a veth whose other end leads
//! out of a container.
//!
//! ## What to do
//!
//! Run `msgpath serve` on a second machine, or use a network namespace with a shaped link: numbers between namespaces
//! compare programs, not networks. `ip route get ADDRESS` shows the device; `ip route add OWN via GATEWAY` changes
//! nothing.

use std::net::IpAddr;

use msgpath_core::schema::{DeviceKind, NEAR};
use msgpath_core::target::Target;

use super::wording::{measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W33", detect };

/// The host that was typed, unless it says itself that it is this machine.
fn elsewhere(input: &Input) -> Option<String> {
    let Ok(Target::Host { host, .. }) = input.run.header.target.parse() else { return None };
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let here = match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => {
            let own = input.run.header.host(NEAR).host.to_ascii_lowercase();
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            name == "localhost" || name.ends_with(".localhost") || (!own.is_empty() && short(&name) == short(&own))
        }
    };
    (!here).then_some(host)
}

fn detect(input: &Input) -> Vec<Sentence> {
    let header = &input.run.header;
    let network = measured(input).any(|case| case.case.traits.inet);
    let (Some(host), Some(route)) = (elsewhere(input), header.floors.as_ref().and_then(|floors| floors.route.as_ref()))
    else {
        return Vec::new();
    };
    // A container's veth leads out of the machine where the other end runs on another one.
    let one_machine = header.one_machine();
    let relation = match route.kind {
        DeviceKind::Loopback => "an address of this machine",
        DeviceKind::Veth if one_machine => "another network namespace of this machine",
        _ => return Vec::new(),
    };
    // W33 says it of calls, with what it means for their parts.
    if !network || input.plan.workload.has_server() {
        return Vec::new();
    }
    vec![warning(
        "W33",
        format!("{host} is {relation}: the way there is {}, and no NIC is measured", route.device),
        "no interrupt, no checksum, larger packets, and the receiver's work runs inside the sender's call: the numbers do \
         not transfer to a network",
        "run msgpath serve on a second machine and name that as the target",
        [("mtu", route.mtu.map_or(f64::NAN, |mtu| mtu as f64))],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, route, sentences};
    use msgpath_core::schema::{DeviceKind, FAR, NEAR};

    fn texts(target: &str, kind: DeviceKind, path: &str, far_boot: &str) -> Vec<String> {
        let mut run = Build::echo(&[path], &[64]).run();
        run.header.target = target.into();
        run.header.host_mut(NEAR).host = "anna.example".into();
        run.header.host_mut(FAR).boot_id = far_boot.into();
        route(&mut run, kind, "lo", "10.0.0.2");
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_an_address_of_the_network_stays_here() {
        assert_eq!(
            texts("10.0.0.2:5210", DeviceKind::Loopback, "tcp:send", "one"),
            ["10.0.0.2 is an address of this machine: the way there is lo, and no NIC is measured"]
        );
        assert!(texts("[fd00::2]:5210", DeviceKind::Veth, "udp:send", "one")[0].contains("another network namespace"));
        assert_eq!(texts("berta:5210", DeviceKind::Loopback, "tcp:send", "one").len(), 1);
    }

    #[test]
    fn is_silent_where_the_target_says_so_itself() {
        for target in [
            "this machine",
            "localhost:5210",
            "127.0.0.2:5210",
            "[::1]:5210",
            "anna:5210",
            "Anna.example:5210",
            "shm:x",
        ] {
            assert!(texts(target, DeviceKind::Loopback, "tcp:send", "one").is_empty(), "{target}");
        }
    }

    #[test]
    fn is_silent_where_the_way_leaves_the_machine() {
        assert!(texts("10.0.0.2:5210", DeviceKind::Nic, "tcp:send", "two").is_empty());
        assert!(texts("10.0.0.2:5210", DeviceKind::Unknown, "tcp:send", "one").is_empty());
        assert!(texts("10.0.0.2:5210", DeviceKind::Veth, "tcp:send", "two").is_empty());
        assert!(texts("10.0.0.2:5210", DeviceKind::Loopback, "shm:ring", "one").is_empty());
    }
}
