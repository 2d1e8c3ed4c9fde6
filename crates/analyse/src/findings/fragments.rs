//! W189: messages that were cut into fragments
//!
//! A datagram is larger than a packet of the way: into how many fragments IP cuts it, of how many bytes, and how many
//! the kernel made. The case with the most is named.
//!
//! ## What it rests on
//!
//! The larger of message and reply with UDP's header, over what a packet of the device's MTU, or of a smaller path MTU
//! (IP_MTU), carries behind IP's (20 bytes; IPv6 48 with that of a fragment). `Ip.FragCreates`, `Ip6.FragCreates`:
//! others in the network namespace may add to them.
//!
//! ## What to do
//!
//! One lost fragment loses the message, and firewalls may drop fragments. Send messages that fit (`-l`), use jumbo
//! frames at both ends, or TCP.

use std::net::IpAddr;

use msgpath_core::schema::NEAR;
use msgpath_core::units::size;

use super::counters::rose;
use super::wording::{affected, measured, prefix, sentence, warning, worst};
use super::{Detector, Input, Sentence};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W189", detect };

/// Header of UDP.
const UDP: u64 = 8;

/// The headers of a packet, and those of a fragment.
struct Headers {
    packet: u64,
    fragment: u64,
}

/// Fragments of a datagram; 1: it fits into a packet.
fn fragments(bytes: u64, mtu: u64, headers: &Headers) -> u64 {
    if bytes + UDP + headers.packet <= mtu {
        return 1;
    }
    // The offset of a fragment is in units of 8 bytes (RFC 791, RFC 8200).
    let each = mtu.saturating_sub(headers.fragment) & !7;
    if each == 0 { 1 } else { (bytes + UDP).div_ceil(each) }
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(route) = input.run.header.floors.as_ref().and_then(|floors| floors.route.as_ref()) else {
        return Vec::new();
    };
    let Some(mtu) = route.mtu else { return Vec::new() };
    let to = route.to.split('%').next().and_then(|address| address.parse::<IpAddr>().ok());
    let headers = match to {
        Some(IpAddr::V6(_)) => Headers { packet: 40, fragment: 48 },
        _ => Headers { packet: 20, fragment: 20 },
    };
    let least = |case: &CaseSummary| case.end(NEAR).path_mtu_bytes.map_or(mtu, |bytes| mtu.min(bytes.into()));
    let of_case = |case: &CaseSummary| fragments(case.case.size.max(case.case.reply), least(case), &headers);
    let datagrams = measured(input).filter(|case| case.case.traits.framed && case.case.traits.inet);
    let cut = datagrams.map(|case| (of_case(case) as f64, case)).filter(|(count, _)| *count > 1.0);
    let say = |(case, cases)| {
        let bytes = least(case);
        let limit = if bytes < mtu { "the path MTU".to_owned() } else { format!("the MTU of {}", route.device) };
        say(input, (case, cases), (of_case(case), bytes, &limit))
    };
    worst(cut).map(say).into_iter().collect()
}

fn say(input: &Input, (case, cases): (&CaseSummary, usize), (count, mtu, limit): (u64, u64, &str)) -> Sentence {
    let made = rose(input, case, &["Ip.FragCreates", "Ip6.FragCreates"]);
    let largest = size(case.case.size.max(case.case.reply));
    let mut text =
        format!("{}a message of {largest} is {count} fragments of at most {mtu} B, {limit}", prefix(input, case));
    if let Some(made) = made.filter(|made| *made > 0) {
        text.push_str(&format!("; the kernel made {made} of them"));
    }
    text.push_str(&affected(cases));
    warning(
        "W189",
        sentence(&text),
        "one lost fragment loses the whole message, and firewalls and queues of a NIC treat fragments unlike other packets",
        "a smaller -l, jumbo frames at both ends, or tcp:send",
        [
            ("fragments", count as f64),
            ("mtu_bytes", mtu as f64),
            ("made", made.map_or(f64::NAN, |made| made as f64)),
            ("cases", cases as f64),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::{Headers, fragments};
    use crate::testing::{Build, count, route, sentences};
    use msgpath_core::schema::DeviceKind;
    use msgpath_record::Run;

    fn run(path: &str, size: u64, to: &str) -> Run {
        let mut run = Build::echo(&[path], &[size]).run();
        route(&mut run, DeviceKind::Nic, "eth0", to);
        run.header.floors.as_mut().unwrap().route.as_mut().unwrap().mtu = Some(1500);
        run
    }

    #[test]
    fn datagram_is_cut_in_steps_of_eight_bytes() {
        let v4 = Headers { packet: 20, fragment: 20 };
        let v6 = Headers { packet: 40, fragment: 48 };
        assert_eq!([1472, 1473, 65_507].map(|bytes| fragments(bytes, 1500, &v4)), [1, 2, 45]);
        assert_eq!([1452, 1453, 65_527].map(|bytes| fragments(bytes, 1500, &v6)), [1, 2, 46]);
        assert_eq!(fragments(65_507, 65_536, &v4), 1, "loopback");
        assert_eq!(fragments(100, 27, &v4), 1, "no such MTU");
    }

    #[test]
    fn speaks_where_a_datagram_is_larger_than_a_packet() {
        let mut over = run("udp:send", 65_507, "10.0.0.2");
        count(&mut over, 0, "Ip.FragCreates", 90);
        let texts = sentences(&over, &super::DETECTOR);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("is 45 fragments of at most 1500 B, the MTU of eth0"), "{texts:?}");
        assert!(texts[0].contains("the kernel made 3600 of them"), "{texts:?}");
        assert!(sentences(&run("udp:send", 1460, "fd00::2"), &super::DETECTOR)[0].contains("is 2 fragments"));
        let mut narrow = run("udp:send", 1400, "10.0.0.2");
        narrow.rounds.iter_mut().for_each(|round| round.near_mut().path_mtu = Some(1300));
        let texts = sentences(&narrow, &super::DETECTOR);
        assert!(texts[0].contains("is 2 fragments of at most 1300 B, the path MTU"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_it_fits_or_there_are_no_datagrams() {
        assert!(sentences(&run("udp:send", 1460, "10.0.0.2"), &super::DETECTOR).is_empty());
        assert!(sentences(&run("tcp:send", 65_507, "10.0.0.2"), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["udp:send"], &[9_000]).run(), &super::DETECTOR).is_empty(), "no route");
    }
}
