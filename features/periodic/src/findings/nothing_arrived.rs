//! W178: nothing from the group reached a receiver
//!
//! A receiver had no message at all, and what stands in the way, the first of these that holds:
//!
//! * it joined on another device than the one that datagrams leave by, in the same place (*likely*: the two may be one network);
//! * its membership was not in the kernel's list when the last message was due (*sure*);
//! * a router stands between it and the sender: each takes one from the TTL, and what reaches 0 ends there (*sure* with TTL 1); a larger
//!   TTL passes only where a multicast routing daemon runs on the router (*likely*);
//! * else the network between, a firewall, a switch that has not seen the membership (*can't tell*).
//!
//! ## What it rests on
//!
//! The devices of both ends, /proc/net/igmp and /proc/net/igmp6, the route from the receiver to the sender, the TTL that was granted.
//!
//! ## What to do
//!
//! `--join DEVICE` with the sender's device; `--ttl N` and a multicast route on the router; a switch with snooping wants a querier
//! (`ip link set BRIDGE type bridge mcast_querier 1`); a firewall must let the group's UDP port in, and IGMP or MLD.

use super::group;
use crate::analyse::GroupReceiver;
use crate::record::{PeriodicFacts, SendsToGroup};
use msgpath_analyse::findings::wording::{finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W178", detect };

/// Receivers that are named one by one.
const MOST: usize = 3;

fn detect(input: &Input) -> Vec<Sentence> {
    let (Some(name), Some(facts)) = (group::name(input), input.run.header.parts.get::<PeriodicFacts>()) else {
        return Vec::new();
    };
    let Some(sends) = group::senders(facts).next().and_then(|sender| sender.sends.clone()) else { return Vec::new() };
    let silent = group::engines(input).flat_map(|(case, engine)| {
        let all = engine.receivers.iter().filter(|one| one.messages == 0 && one.lost > 0);
        all.take(MOST).map(|one| {
            let (confidence, why) = reason(one, &sends);
            let place = if one.place.is_empty() { String::new() } else { format!(" in {}", one.place) };
            let text =
                format!("{}nothing of {name} reached receiver {}{place}: {why}", prefix(input, case), one.receiver);
            let numbers =
                [("receiver", f64::from(one.receiver)), ("lost", one.lost as f64), ("ttl", f64::from(sends.hops))];
            finding("W178", confidence, sentence(&text) + ".", numbers, Vec::new())
        })
    });
    silent.collect()
}

fn reason(one: &GroupReceiver, sends: &SendsToGroup) -> (Confidence, String) {
    if one.place == sends.place && one.device != sends.device {
        let why = format!(
            "it joined on {}, and the datagrams leave by {}; a group is joined on each device by itself (--join {})",
            one.device, sends.device, sends.device
        );
        return (Confidence::Likely, why);
    }
    if one.member == Some(false) {
        return (Confidence::Sure, format!("the kernel had no membership on {} any more", one.device));
    }
    match &one.router {
        Some(router) if sends.hops <= 1 => (
            Confidence::Sure,
            format!(
                "the router {router} stands between, and TTL 1 reaches 0 there; --ttl 2 or more, and a multicast route on it"
            ),
        ),
        Some(router) => (
            Confidence::Likely,
            format!(
                "the router {router} stands between, and passes a group on only with a multicast route (pimd, smcroute)"
            ),
        ),
        None => (
            Confidence::CantTell,
            format!(
                "it is a member on {} and no router is known between; a firewall, or a switch that does not forward the group to its port",
                one.device
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{group, joined, sentences};
    use crate::record::JoinedGroup;

    fn said(change: impl Fn(&mut JoinedGroup), ttl: u32) -> String {
        let run = group(|facts| {
            let own = joined(facts, 2);
            (own.delivered, own.lost, own.overflowed, own.hops) = (0, 1000, Some(0), None);
            change(own);
            facts.sessions[0].components[0].sends.as_mut().unwrap().hops = ttl;
        });
        let all = sentences(&run, &super::DETECTOR);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let on_another = said(|own| own.device = "v1".into(), 1);
        assert!(
            on_another.starts_with("likely") && on_another.contains("joined on v1, and the datagrams leave by v0"),
            "{on_another}"
        );
        assert!(said(|own| own.member = Some(false), 1).contains("no membership on v0"));
        let router = |own: &mut JoinedGroup| own.router = Some("10.0.0.1".into());
        assert!(said(router, 1).contains("TTL 1 reaches 0") && said(router, 8).contains("multicast route (pimd"));
        assert!(said(|_| (), 1).starts_with("can't tell"));
    }

    #[test]
    fn a_receiver_that_had_one_message_is_none() {
        assert!(sentences(&group(|_| ()), &super::DETECTOR).is_empty());
    }
}
