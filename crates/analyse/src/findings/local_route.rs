//! W33: no network was between the ends
//!
//! ## What it says
//!
//! **The way**: A name or address of the network was given as the target, and packets to it take the loopback device, or a veth pair to
//! another namespace of this machine. No NIC was measured.
//!
//! **Calls**: The server that was dialled is the client's own machine, by an address of the network, and how that is known. No
//! network was measured.
//!
//! **More than a wire carries**: The larger direction of the calls moves so many MB/s while it is outside the server: the server's own time is left out,
//! and the rate with it, as the table of rates has it, stands in brackets. That is more than the wire carries. So the bytes did not cross such a wire. Where no speed is known, the guard is 1 Gbit/s (125 MB/s).
//!
//! ## What it is computed from
//!
//! **The way**: The kernel's route to the far end (`floors.route` of the record): its device and kind. Any local address goes over lo,
//! whichever NIC it belongs to.
//!
//! **Calls**: The pairs of machines of the run: both addresses are the same, both ends have the same boot id, or the route to the
//! server is local.
//!
//! **More than a wire carries**: Successful calls of at least 64 KiB: bytes of the larger direction by T4 - T1 less T3 - T2. The speed of the wire is
//! that of the interface or the one that was typed (`-o wire`).
//!
//! ## When it stays silent
//!
//! **The way**: Without a target; for `localhost`, 127.x, ::1 and this machine's own host name, which say it themselves; for a veth
//! whose far end runs on another machine (a container's way out); where the route is not known; for paths without TCP or
//! UDP.
//!
//! **Calls**: Between two machines; where the target says so itself (127.0.0.1, localhost).
//!
//! **More than a wire carries**: Below the speed of the wire; for small calls, which wait more than they carry.
//!
//! ## What to do
//!
//! **The way**: Run `msgpath serve` on a second machine. Between namespaces of one machine the numbers are good for comparing what
//! programs do, not for what a network does: there is no interrupt, no checksum, the packets are larger, and the receiver's
//! work runs inside the sender's call.
//!
//! **Calls**: Adding a route to the own address (`ip route add OWN via GATEWAY`) changes nothing: the kernel asks the table `local`
//! first (rule 0). Use a second machine, or a network namespace for the server with a shaped link between.
//!
//! **More than a wire carries**: Look at the way to the server (`ip route get ADDRESS`: `dev lo` is this machine). An estimate made with the speed of a link does not apply to such a
//! run.

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
