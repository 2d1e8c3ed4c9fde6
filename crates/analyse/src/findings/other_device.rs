//! W191: another device carried the packets
//!
//! `-o bind` named an address of one network device, and the client's packets went through another: two NICs in one
//! subnet, or a device of a VRF.
//!
//! ## What it rests on
//!
//! The device of the address (`data.near_device`; with `-o device` that one) against the packets that each device sent
//! in the rounds (`dev.DEVICE.tx_packets`). Silent where it sent half as many as the busiest or more, and where that
//! sent fewer than half of the messages.
//!
//! ## What to do
//!
//! `-o device=NAME` (SO_BINDTODEVICE), or rules by source address: `ip rule add from ADDRESS table N`, `ip route add
//! default via GATEWAY dev NAME table N`. By itself the kernel chooses by the other end's address alone.

use std::collections::BTreeMap;

use msgpath_core::schema::NEAR;

use super::wording::{measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W191", detect };

/// Packets that each device sent at the near end in the rounds of cases over IP, and the messages of these.
fn sent<'a>(input: &Input<'a>) -> (BTreeMap<&'a str, u64>, u64) {
    let (mut packets, mut messages) = (BTreeMap::new(), 0);
    for case in measured(input).filter(|case| case.case.traits.inet) {
        messages += case.delivery.sent;
        for round in &input.all[case.case.id as usize] {
            for (name, count) in &round.end(NEAR).kernel.0 {
                let device = name.strip_prefix("dev.").and_then(|name| name.strip_suffix(".tx_packets"));
                if let Some(device) = device {
                    *packets.entry(device).or_default() += count;
                }
            }
        }
    }
    (packets, messages)
}

fn detect(input: &Input) -> Vec<Sentence> {
    let options = &input.plan.options;
    let data = input.run.header.data.as_ref();
    let (Some(data), Some(_)) = (data, &options.bind) else { return Vec::new() };
    let Some(expected) = options.through.as_ref().or(data.near_device.as_ref()) else { return Vec::new() };
    let (packets, messages) = sent(input);
    let Some((device, count)) = packets.iter().max_by_key(|(_, count)| **count) else { return Vec::new() };
    let own = packets.get(expected.as_str()).copied().unwrap_or(0);
    if *device == expected.as_str() || 2 * own >= *count || *count < messages / 2 || messages == 0 {
        return Vec::new();
    }
    vec![warning(
        "W191",
        format!("{} is an address of {expected}, and the packets left through {device}", data.near),
        "the kernel chooses the device by the address of the other end, not by that of the socket",
        &format!("-o device={expected}, or a rule by source address: ip rule add from {} table N", data.near),
        [("packets", *count as f64), ("packets_of_its_device", own as f64), ("messages", messages as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, sentences};
    use msgpath_core::schema::DataRoute;
    use msgpath_record::Run;

    fn bound(path: &str) -> Run {
        let mut run = Build::echo(&[path], &[64]).run();
        run.header.plan.options.bind = Some("10.7.0.9".into());
        run.header.data =
            Some(DataRoute { near: "10.7.0.9".into(), near_device: Some("eth1".into()), ..DataRoute::default() });
        count(&mut run, 0, "dev.eth0.tx_packets", 210);
        run
    }

    #[test]
    fn speaks_where_another_device_sent_the_packets() {
        assert_eq!(
            sentences(&bound("tcp:send"), &super::DETECTOR),
            ["10.7.0.9 is an address of eth1, and the packets left through eth0"]
        );
    }

    #[test]
    fn is_silent_where_its_own_device_sent_them_or_nothing_was_bound() {
        let mut own = bound("tcp:send");
        count(&mut own, 0, "dev.eth1.tx_packets", 200);
        assert!(sentences(&own, &super::DETECTOR).is_empty());
        let mut free = bound("udp:send");
        free.header.plan.options.bind = None;
        assert!(sentences(&free, &super::DETECTOR).is_empty());
        assert!(sentences(&bound("unix:send"), &super::DETECTOR).is_empty());
        let mut few = bound("tcp:send");
        count(&mut few, 0, "dev.eth0.tx_packets", 3);
        assert!(sentences(&few, &super::DETECTOR).is_empty(), "what others sent");
    }
}
