//! W176: what each receiver of a multicast group had
//!
//! How many receivers had every message, in order; which one lost the most; the median delay over all of them, with its range, and how much
//! slower the slowest receiver's is than the fastest one's. *Sure*: messages have numbers, and each receiver's are compared with the sender's.
//!
//! ## What it rests on
//!
//! The numbers in the messages, from the sender's log and each receiver's. Delay is from when a message was made to its delivery, by the one
//! clock of this machine; of receivers on other hosts by two clocks, read over their control channels before and after, and what is left open
//! between them is part of every range. Ranges are for 95 %, from the spread between rounds. A share of lost messages is the mean over rounds.
//!
//! ## What to do
//!
//! Where messages were lost, W177, W178 or W179 says where. Ratios between receivers on one machine are
//! those of its scheduler: the kernel copies a datagram for one receiver after the other.

use msgpath_core::units::Glyphs;

use super::group;
use crate::analyse::{Engine, GroupReceiver};
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W176", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(name) = group::name(input) else { return Vec::new() };
    group::engines(input).filter_map(|(case, engine)| say(input, &name, case, engine)).collect()
}

fn say(input: &Input, name: &str, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let all = &engine.receivers;
    if all.iter().all(|one| one.messages == 0) {
        return None;
    }
    let text = format!(
        "{}{} of {name}: {}{}",
        prefix(input, case),
        match all.len() {
            1 => "the receiver".into(),
            count => format!("{count} receivers"),
        },
        had(all),
        delay(case, all)
    );
    let numbers = [
        ("receivers", all.len() as f64),
        ("lost", all.iter().map(|one| one.lost).sum::<u64>() as f64),
        ("reordered", all.iter().map(|one| one.reordered).sum::<u64>() as f64),
        ("slowest_by", ratio(all).map_or(1.0, |(_, ratio)| ratio)),
    ];
    Some(finding("W176", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new()))
}

/// Who had all messages and who did not, and in what order.
fn had(all: &[GroupReceiver]) -> String {
    let expected = all.iter().map(GroupReceiver::expected).max().unwrap_or(0);
    let messages = format!("{} messages", expected);
    let losing: Vec<&GroupReceiver> = all.iter().filter(|one| one.lost > 0).collect();
    let each = if all.len() == 1 { "had" } else { "each had" };
    let mut text = match losing.iter().max_by_key(|one| one.lost) {
        None => format!("{each} all {messages}"),
        Some(worst) => {
            let whole = match all.len() - losing.len() {
                0 => format!("none had all {messages}"),
                whole => format!("{whole} had all {messages}"),
            };
            let most = if losing.len() > 1 { "most, " } else { "" };
            format!("{whole}, receiver {} lost {most}{}", worst.receiver, share(worst))
        }
    };
    let (reordered, twice): (u64, u64) =
        all.iter().fold((0, 0), |(order, again), one| (order + one.reordered, again + one.duplicated));
    match reordered {
        0 => text += ", in order",
        count => text += &format!(", {} behind a newer one", count),
    }
    if twice > 0 {
        text += &format!(", {} again", twice);
    }
    if losing.is_empty() {
        text += "; none was lost";
    }
    text
}

/// `123 (1.2 %, 1.1 to 1.3 %)`.
pub(super) fn share(one: &GroupReceiver) -> String {
    let lost = one.lost as f64 / one.expected().max(1) as f64;
    let range = match one.loss.as_ref().map(|loss| (loss.low, loss.high)) {
        Some((Some(low), Some(high))) if percent(low) != percent(high) => {
            format!(", {} to {} %", percent(low), percent(high))
        }
        _ => String::new(),
    };
    format!("{} ({} %{range})", one.lost, percent(lost))
}

/// The median of all receivers' messages, and the slowest receiver.
fn delay(case: &CaseSummary, all: &[GroupReceiver]) -> String {
    let (lost, expected) = all.iter().fold((0, 0), |(lost, all), one| (lost + one.lost, all + one.expected()));
    let fastest = all.iter().filter(|one| one.p50.as_ref().is_some_and(|p50| p50.ns.is_some()));
    let fastest = fastest.min_by_key(|one| one.p50.as_ref().and_then(|p50| p50.ns));
    // A lost message is an infinite time: where a receiver lost many, the median of all says little of those that arrived.
    let (quantile, whose) = match fastest.filter(|_| lost * 10 > expected) {
        Some(one) => (one.p50.as_ref(), format!(" at receiver {}, the fastest", one.receiver)),
        None => (case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5), String::new()),
    };
    let Some(quantile) = quantile else { return String::new() };
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let Some(ns) = quantile.ns else { return String::new() };
    let range = match (quantile.lo_ns, quantile.hi_ns) {
        (Some(low), Some(high)) => format!(" ({} to {})", time(low), time(high)),
        _ => String::new(),
    };
    let slowest = ratio(all).filter(|(_, ratio)| *ratio >= 1.005).map_or_else(String::new, |(receiver, ratio)| {
        format!(", the slowest receiver ({receiver}) {ratio:.2} times the fastest")
    });
    let apart = all.iter().filter_map(|one| one.clock_within_ns).max();
    let clocks = apart.map_or_else(String::new, |ns| format!(", by clocks that are known within ±{}", time(ns)));
    format!("; delay p50 {}{range}{whose}{clocks}{slowest}", time(ns))
}

/// The receiver with the longest median, and how many times that of the one with the shortest it is; where their clocks leave open which is
/// longer, there is none.
fn ratio(all: &[GroupReceiver]) -> Option<(u32, f64)> {
    let medians = || all.iter().filter_map(|one| Some((one, one.p50.as_ref()?.ns?)));
    let (slowest, most) = medians().max_by_key(|(_, ns)| *ns)?;
    let (fastest, least) = medians().min_by_key(|(_, ns)| *ns)?;
    let open = [slowest, fastest].iter().filter_map(|one| one.clock_within_ns).sum::<u64>();
    let told = medians().count() > 1 && (open == 0 || most - least > open);
    told.then(|| (slowest.receiver, most as f64 / least.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{group, sentences};
    use crate::record::OtherClock;

    #[test]
    fn a_receiver_that_lost_messages_is_named() {
        let said = sentences(&group(|_| ()), &super::DETECTOR);
        assert_eq!(said.len(), 1);
        for part in [
            "sure",
            "2 receivers of 239.1.1.1 on v0",
            "1 had all 1000 messages",
            "receiver 2 lost 100 (10 %)",
            "in order",
            "delay p50",
            "slowest receiver (2)",
        ] {
            assert!(said[0].contains(part), "{part}: {said:?}");
        }
        let whole = sentences(&group(|facts| facts.sessions[0].components.truncate(2)), &super::DETECTOR);
        assert!(
            whole[0].contains("The receiver of 239.1.1.1 on v0: had all 1000 messages, in order; none was lost"),
            "{whole:?}"
        );
    }

    #[test]
    fn what_two_clocks_leave_open_is_said_and_no_ratio_made_of_it() {
        let said = sentences(
            &group(|facts| {
                for component in &mut facts.sessions[0].components {
                    let clock = Some(OtherClock { offset_ns: 5, within_ns: 40_000 });
                    component.joined.iter_mut().for_each(|joined| joined.clock.clone_from(&clock));
                }
            }),
            &super::DETECTOR,
        );
        assert!(said[0].contains("by clocks that are known within ±40.0 µs"), "{said:?}");
        assert!(!said[0].contains("slowest receiver"), "{said:?}");
    }

    #[test]
    fn a_run_without_a_group_has_none() {
        assert!(sentences(&group(|facts| facts.group = None), &super::DETECTOR).is_empty());
    }
}
