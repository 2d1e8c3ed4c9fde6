//! W194: packets are limited by another MTU than that of an end's device
//!
//! A link between the two ends carries smaller packets than the device by which an end sends, or the devices of the two
//! ends differ (jumbo frames at one end alone).
//!
//! ## What it rests on
//!
//! The path MTU that the kernel has learned of each connection (IP_MTU, IPV6_MTU at the end of a round) against the MTU of
//! the device (`ends.device.mtu_bytes`), both ends; else the MTUs of the two devices. A black hole is named by the probe
//! before the run.
//!
//! ## What to do
//!
//! Set one MTU on all links (`ip link set dev NAME mtu N`). TCP adapts: its segments are as small as the smallest packet.
//! Larger datagrams go as fragments (W189); between two devices of one link they never arrive.

use msgpath_core::schema::{EndDevice, FAR, NEAR};

use super::wording::{affected, measured, prefix, sentence, warning, worst};
use super::{Detector, Input, Sentence};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W194", detect };

/// Bytes of the largest packet of IPv4 (RFC 791): the path over a device with a larger MTU, as loopback has, is no narrower for it.
const LARGEST: u64 = 65_535;

/// Bytes of the largest packet, of a path and of the device that leads to it.
struct Limits<'a> {
    path: u64,
    device: u64,
    name: &'a str,
}

fn device<'a>(input: &Input<'a>, end: usize) -> Option<(&'a EndDevice, u64)> {
    let device = input.run.header.ends.get(end)?.device.as_ref()?;
    Some((device, device.mtu_bytes?))
}

/// What an end has learned of its way in a case, if that is less than its device takes.
fn narrowed<'a>(input: &Input<'a>, case: &CaseSummary, end: usize) -> Option<Limits<'a>> {
    let (device, mtu) = device(input, end)?;
    let path = u64::from(case.ends.get(end)?.path_mtu_bytes?);
    (path < mtu.min(LARGEST)).then_some(Limits { path, device: mtu, name: &device.name })
}

fn detect(input: &Input) -> Vec<Sentence> {
    let over_ip = || measured(input).filter(|case| case.case.traits.inet);
    for (end, who, other) in [(NEAR, "client", "server"), (FAR, "server", "client")] {
        let cases = over_ip().filter_map(|case| {
            let Limits { path, device, .. } = narrowed(input, case, end)?;
            Some(((device - path) as f64, case))
        });
        if let Some((case, cases)) = worst(cases)
            && let Some(Limits { path, device, name }) = narrowed(input, case, end)
        {
            let text = format!(
                "{}from {who} to {other} a packet has at most {path} B: a link on the way has a smaller MTU than {name} ({device})",
                prefix(input, case)
            );
            return vec![say(&(sentence(&text) + &affected(cases)), (path, device))];
        }
    }
    let (Some((near, near_mtu)), Some((far, far_mtu))) = (device(input, NEAR), device(input, FAR)) else {
        return Vec::new();
    };
    if near_mtu == far_mtu || over_ip().next().is_none() {
        return Vec::new();
    }
    let text = format!(
        "The MTU of {} at the client is {near_mtu}, that of {} at the server {far_mtu}: packets of both have at most {} B",
        near.name,
        far.name,
        near_mtu.min(far_mtu)
    );
    vec![say(&text, (near_mtu.min(far_mtu), near_mtu.max(far_mtu)))]
}

fn say(text: &str, (path, device): (u64, u64)) -> Sentence {
    warning(
        "W194",
        text.into(),
        "TCP makes its segments that small; larger datagrams are cut into fragments or lost",
        "one MTU on all links: ip link set dev NAME mtu N",
        [("path_mtu_bytes", path as f64), ("mtu_bytes", device as f64)],
    )
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{EndDevice, FAR, NEAR};
    use msgpath_record::Run;

    use crate::testing::{Build, sentences};

    fn run(path: &str, mtus: [u64; 2], path_mtus: [u32; 2]) -> Run {
        let mut run = Build::echo(&[path], &[64]).run();
        for end in [NEAR, FAR] {
            let name = ["a0", "b0"][end].into();
            run.header.ends[end].device = Some(EndDevice { name, mtu_bytes: Some(mtus[end]), ..EndDevice::default() });
            run.rounds.iter_mut().for_each(|round| round.end_mut(end).report.path_mtu = Some(path_mtus[end]));
        }
        run
    }

    #[test]
    fn speaks_where_a_link_on_the_way_is_narrower() {
        assert!(sentences(&run("tcp:send", [65_536; 2], [65_535; 2]), &super::DETECTOR).is_empty(), "loopback");
        assert_eq!(
            sentences(&run("tcp:send", [1500, 1500], [1300, 1500]), &super::DETECTOR),
            ["From client to server a packet has at most 1300 B: a link on the way has a smaller MTU than a0 (1500)"]
        );
        assert_eq!(
            sentences(&run("udp:send", [1500, 9000], [1500, 1400]), &super::DETECTOR),
            ["From server to client a packet has at most 1400 B: a link on the way has a smaller MTU than b0 (9000)"]
        );
    }

    #[test]
    fn speaks_where_the_devices_of_the_ends_differ() {
        assert_eq!(
            sentences(&run("tcp:send", [1500, 9000], [1500, 9000]), &super::DETECTOR),
            ["The MTU of a0 at the client is 1500, that of b0 at the server 9000: packets of both have at most 1500 B"]
        );
    }

    #[test]
    fn is_silent_where_all_are_alike_or_nothing_goes_over_ip() {
        assert!(sentences(&run("tcp:send", [1500, 1500], [1500, 1500]), &super::DETECTOR).is_empty());
        assert!(sentences(&run("unix:send", [1500, 9000], [1500, 9000]), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
