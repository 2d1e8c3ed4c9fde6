//! Of W26: where datagrams were lost.

use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{Glyphs, size};

use super::counters::{fits, namespaces_differ, rose};
use super::wording::{affected, finding, list, measured, prefix, sentence, worst};
use super::{Detector, Input, Sentence, stood_still};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W26", detect };

/// Places where the kernel counts what it drops, and under which names.
const PLACES: [(&str, &str, &[&str]); 3] = [
    ("at a full receive buffer", "receive_buffer", &["Udp.RcvbufErrors", "Udp6.RcvbufErrors"]),
    ("for lack of socket memory (net.ipv4.udp_mem)", "socket_memory", &["Udp.MemErrors", "Udp6.MemErrors"]),
    ("in the backlog of a CPU (softnet)", "softnet", &["softnet.dropped"]),
];

/// Bytes of a page: what the kernel charges for a piece of a zero-copy send at least.
const PAGE: u64 = 4096;

fn detect(input: &Input) -> Vec<Sentence> {
    let lossy = measured(input).filter(|case| case.case.traits.lossy && case.case.traits.inet);
    let lossy = lossy.filter(|case| case.delivery.lost > 0).map(|case| (case.delivery.lost as f64, case));
    worst(lossy).map(|(case, cases)| say(input, case, cases)).into_iter().collect()
}

fn say(input: &Input, case: &CaseSummary, cases: usize) -> Sentence {
    let lost = case.delivery.lost;
    let counts = PLACES.map(|(_, _, names)| rose(input, case, names));
    let counted = counts.iter().flatten().sum::<u64>();
    let late = case.delivery.late.min(lost);
    let mut parts: Vec<String> = PLACES
        .iter()
        .zip(counts)
        .filter_map(|((place, ..), count)| Some((place, count.filter(|count| *count > 0)?)))
        .map(|(place, count)| format!("{} dropped {place}", count))
        .collect();
    if late > 0 {
        parts.push(format!("{} that only came too late", late));
    }
    let still = lost_while_still(input, case).min(lost.saturating_sub(counted + late));
    if still > 0 {
        parts.push(format!("{still} in rounds in which an end did not run for a while"));
    }
    let unexplained = lost.saturating_sub(counted + late + still);
    if unexplained > 0 {
        parts.push(format!("{} unexplained", unexplained));
    }
    let mut text = format!("{}of {} lost messages: {}", prefix(input, case), lost, list(&parts));
    text.push_str(&affected(cases));
    let directions = by_direction(input, case);
    if let Some((there, back)) = directions {
        text.push_str(&match there + back {
            all if all == lost => format!(". {there} were lost on the way there, {back} on the way back"),
            told => {
                format!(". Counts at both ends place {told} of them: {there} on the way there, {back} on the way back")
            }
        });
    }
    let unread: Vec<String> = PLACES
        .iter()
        .zip(counts)
        .filter(|(_, count)| count.is_none())
        .map(|((place, ..), _)| (*place).to_owned())
        .collect();
    if !unread.is_empty() {
        text.push_str(&format!(". n/a: what is dropped {} could not be read", list(&unread)));
    }
    // Trimmed messages are lost in the kernel's counters as well.
    let trimmed: u64 = input.all[case.case.id as usize].iter().map(|round| round.first.lost()).sum();
    let explained = counted + late + still;
    if explained > lost + trimmed {
        text.push_str(". The counters belong to all sockets of the network namespace, and others lost messages too");
    }
    if let Some(charged) = charged_by_page(case).filter(|_| counts[0] > Some(0)) {
        text.push_str(&charged);
    }
    text.push_str(&advice(input, counts, unexplained));
    let confidence = match explained {
        0 => Confidence::CantTell,
        _ if still == 0 && fits(explained, lost, lost + trimmed) => Confidence::Sure,
        _ => Confidence::Likely,
    };
    let value = |count: Option<u64>| count.map_or(f64::NAN, |count| count as f64);
    let numbers = [
        ("lost", lost as f64),
        (PLACES[0].1, value(counts[0])),
        (PLACES[1].1, value(counts[1])),
        (PLACES[2].1, value(counts[2])),
        ("late", case.delivery.late as f64),
        ("while_still", still as f64),
        ("unexplained", unexplained as f64),
        ("there", value(directions.map(|(there, _)| there))),
        ("back", value(directions.map(|(_, back)| back))),
    ];
    finding("W26", confidence, sentence(&text) + ".", numbers, vec![])
}

/// Messages of a case that were lost in rounds in which an end did not run for a while.
fn lost_while_still(input: &Input, case: &CaseSummary) -> u64 {
    let rounds = input.all[case.case.id as usize].iter();
    rounds.filter(|round| stood_still::in_round(input, round)).map(|round| round.near().delivery.lost).sum()
}

/// What helps against what was counted, or where to look for what was not.
fn advice(input: &Input, [buffer, _, softnet]: [Option<u64>; 3], unexplained: u64) -> String {
    if buffer > Some(0) {
        ". A larger receive buffer (-o rcvbuf, net.core.rmem_max) or fewer messages in flight helps".into()
    } else if softnet > Some(0) {
        ". A longer backlog (net.core.netdev_max_backlog) helps".into()
    } else if unexplained > 0 && namespaces_differ(input) {
        ". What no counter of the two ends explains was lost by a NIC or on the way: ethtool -S at both ends would tell"
            .into()
    } else if unexplained > 0 {
        let patience = Glyphs::Unicode.time(input.plan.options.loss_timeout_ns as f64);
        format!(
            ". No NIC is on this way: what no counter explains was not answered within {patience}, the time limit for a loss"
        )
    } else {
        String::new()
    }
}

/// Messages that were lost on the way there and on the way back, in the rounds whose ends agree about it; `None`: in none.
fn by_direction(input: &Input, case: &CaseSummary) -> Option<(u64, u64)> {
    if !input.plan.workload.is_echoed() || case.case.traits.program {
        return None;
    }
    let told = input.all[case.case.id as usize].iter().filter_map(|round| {
        let (there, back) = (round.flow(NEAR, FAR), round.flow(FAR, NEAR));
        // The far end counts from the message on that it takes for the first measured one: a trimmed one that is lost
        // moves that, and one that comes twice is answered twice.
        let agree = |(there, back): &(u64, u64)| round.first.lost() == 0 && there + back == round.near().delivery.lost;
        Some((there.lost()?, back.lost()?)).filter(agree)
    });
    told.reduce(|all, one| (all.0 + one.0, all.1 + one.1)).filter(|(there, back)| there + back > 0)
}

/// Zero copy fills the receive buffer by pages: every piece is charged with those it touches, however short it is.
fn charged_by_page(case: &CaseSummary) -> Option<String> {
    let pieces = case.case.pieces;
    let pages = |bytes: u64| bytes.div_ceil(PAGE) * PAGE;
    let (each, last) = (u64::from(pieces.size), u64::from(pieces.size) + u64::from(pieces.rest));
    let charge = u64::from(pieces.count.saturating_sub(1)) * pages(each) + pages(last);
    if !case.case.traits.pages || charge < 2 * pieces.total() {
        return None;
    }
    let mut text = format!(
        ". A zero-copy send is charged by whole pages: {} pieces of {} fill {} of the receive buffer instead of {}",
        pieces.count,
        size(u64::from(pieces.size)),
        size(charge),
        size(pieces.total())
    );
    let room = case.conditions.granted.iter().find(|entry| entry.end == "far" && entry.option == "SO_RCVBUF").and_then(
        |entry| {
            let granted: u64 = entry.granted.parse().ok()?;
            Some(if entry.asked == "-" { granted } else { 2 * granted })
        },
    );
    if let Some(room) = room {
        text.push_str(&format!(", which holds {} of them", (room / charge).max(1)));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, grant, route, sentences};
    use msgpath_core::schema::{DeviceKind, FAR};
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    /// 400 lost messages, 10 a round.
    fn lossy(path: &str, change: impl Fn(&mut Build)) -> Run {
        let mut build = Build::echo(&[path], &[1500]);
        change(&mut build);
        let mut run = build.run();
        run.rounds.iter_mut().for_each(|round| round.near_mut().delivery.lost = 10);
        run
    }

    /// With so many drops a round in the receive buffer and in softnet.
    fn counted(buffer: u64, softnet: u64) -> Run {
        let mut run = lossy("udp:send", |_| ());
        count(&mut run, 0, "Udp.RcvbufErrors", buffer);
        count(&mut run, 0, "Udp.MemErrors", 0);
        count(&mut run, 0, "softnet.dropped", softnet);
        run
    }

    #[test]
    fn is_sure_where_the_counts_fit() {
        let texts = sentences(&counted(9, 1), &super::DETECTOR);
        assert!(
            texts[0].starts_with(
                "sure: Of 400 lost messages: 360 dropped at a full receive buffer and 40 dropped in the backlog of a \
                 CPU (softnet). A larger receive buffer"
            ),
            "{texts:?}"
        );
    }

    #[test]
    fn is_likely_where_some_are_unexplained_or_others_lose_too() {
        let texts = sentences(&counted(5, 0), &super::DETECTOR);
        assert!(texts[0].starts_with("likely: Of 400 lost messages: 200 dropped at a full"), "{texts:?}");
        assert!(texts[0].contains("and 200 unexplained"), "{texts:?}");
        let texts = sentences(&counted(20, 0), &super::DETECTOR);
        assert!(texts[0].starts_with("likely: ") && texts[0].contains("others lost messages too"), "{texts:?}");
    }

    #[test]
    fn counts_of_one_namespace_are_not_added_and_those_of_two_machines_are() {
        let mut run = counted(5, 0);
        run.header.host_mut(FAR).boot_id = "two".into();
        assert!(sentences(&run, &super::DETECTOR)[0].starts_with("sure: Of 400 lost messages: 400 dropped at a full"));
        // Two namespaces of one machine have counters of their own, but one softnet.
        let mut run = counted(4, 2);
        route(&mut run, DeviceKind::Veth, "veth0", "10.0.0.2");
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with("sure: Of 400 lost messages: 320 dropped") && texts[0].contains("80 dropped in the")
        );
    }

    #[test]
    fn cannot_tell_where_nothing_was_counted_or_read() {
        let texts = sentences(&counted(0, 0), &super::DETECTOR);
        assert!(texts[0].starts_with("can't tell: Of 400 lost messages: 400 unexplained"), "{texts:?}");
        assert!(texts[0].ends_with("was not answered within 250 ms, the time limit for a loss."), "{texts:?}");
        let mut apart = counted(0, 0);
        apart.header.host_mut(FAR).boot_id = "two".into();
        assert!(
            sentences(&apart, &super::DETECTOR)[0].contains("lost by a NIC or on the way: ethtool -S"),
            "{texts:?}"
        );
        let unread = sentences(&lossy("udp:send", |_| ()), &super::DETECTOR);
        assert!(unread[0].contains("n/a: what is dropped at a full receive buffer,"), "{unread:?}");
    }

    #[test]
    fn loss_while_the_server_is_stopped_is_its_own() {
        let mut run = counted(0, 0);
        run.rounds.iter_mut().for_each(|round| round.near_mut().delivery.lost = 0);
        run.rounds[3].near_mut().delivery.lost = 28;
        run.rounds[3].far_mut().unattended_ns = Some(7_000_000_000);
        assert_eq!(
            sentences(&run, &super::DETECTOR),
            ["likely: Of 28 lost messages: 28 in rounds in which an end did not run for a while."]
        );
    }

    #[test]
    fn says_on_which_way_where_both_ends_count_alike() {
        let one_way = |rounds: usize, there: u64| {
            let mut run = lossy("udp:send", |_| ());
            for round in run.rounds.iter_mut().take(rounds) {
                let sent = round.near().delivery.sent;
                round.near_mut().delivery.received = sent - 10;
                (round.far_mut().delivery.received, round.far_mut().delivery.sent) = (sent - there, sent - there);
            }
            sentences(&run, &super::DETECTOR).remove(0)
        };
        assert!(
            one_way(40, 7).contains(". 280 were lost on the way there, 120 on the way back. "),
            "{}",
            one_way(40, 7)
        );
        assert!(one_way(40, 10).contains(". 400 were lost on the way there, 0 on the way back. "));
        // The ends of the other rounds do not tell: no reply is missing there.
        let some = one_way(4, 3);
        assert!(
            some.contains(". Counts at both ends place 40 of them: 12 on the way there, 28 on the way back"),
            "{some}"
        );
        // A message that came twice was answered twice.
        let mut run = lossy("udp:send", |_| ());
        for round in &mut run.rounds {
            let sent = round.near().delivery.sent;
            round.near_mut().delivery.received = sent - 10;
            (round.far_mut().delivery.received, round.far_mut().delivery.sent) = (sent - 7, sent - 6);
        }
        assert!(!sentences(&run, &super::DETECTOR)[0].contains("on the way back"));
    }

    #[test]
    fn names_the_pages_that_small_pieces_fill() {
        let mut run = lossy("udp:zerocopy", |build| build.plan.cases[0].pieces = Pieces::of(15, 100));
        count(&mut run, 0, "Udp.RcvbufErrors", 10);
        grant(&mut run, 0, "SO_RCVBUF", "-", "212992");
        run.end.as_mut().unwrap().granted.get_mut(&0).unwrap()[0].end = "far".into();
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].contains("15 pieces of 100 B fill 60 KiB of the receive buffer instead of 1500 B, which holds 3"),
            "{texts:?}"
        );
        let mut whole = lossy("udp:zerocopy", |build| build.plan.cases[0].pieces = Pieces::whole(4096));
        count(&mut whole, 0, "Udp.RcvbufErrors", 10);
        assert!(!sentences(&whole, &super::DETECTOR)[0].contains("pages"));
    }

    #[test]
    fn is_silent_where_nothing_was_lost_or_the_transport_loses_nothing() {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        count(&mut run, 0, "Udp.RcvbufErrors", 10);
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        assert!(sentences(&lossy("unixgram:send", |_| ()), &super::DETECTOR).is_empty());
    }
}
