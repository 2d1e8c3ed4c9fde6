//! W26: messages that were lost, doubled, late or out of order
//!
//! * **How many** messages were lost, doubled, late or out of order: the worst case, and how many cases are affected.
//! * **Where** UDP lost them: at a full receive buffer, for lack of socket memory, in a CPU's backlog (softnet), merely
//!   too late, in rounds in which an end stood still (W41), or unexplained. *Sure* where the counts fit within 1 in 50,
//!   *likely* else, *can't tell* where nothing was counted. Of an echo also on which way.
//!
//! ## What it rests on
//!
//! * **How many**: sequence numbers at both ends. Not back within the loss timeout is lost; later than that is late.
//!   Calls: W71.
//! * **Where**: `Udp.RcvbufErrors`, `Udp.MemErrors` (and `Udp6.`), `softnet.dropped` during the rounds. NIC losses are
//!   among the unexplained. The way: what each end sent less what the other received. A zero-copy send is charged by
//!   whole pages: 15 pieces of 100 B take 60 KiB.
//!
//! ## What to do
//!
//! A larger receive buffer (`-o rcvbuf`, `net.core.rmem_max`), fewer messages in flight, a longer backlog
//! (`net.core.netdev_max_backlog`); between machines `ethtool -S`. Lost messages count as infinitely slow, so tails may
//! read *lost*. `--fail-if 'loss > 0.1%'` makes it an error.

use super::wording::{list, measured, percent, prefix, sentence, warning};
use super::{Detector, Input, Sentence, wording};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W26", detect };

/// The worst case, with how many others there are.
fn detect(input: &Input) -> Vec<Sentence> {
    let Some(fix) = input.plan.workload.loss_cure else { return Vec::new() };
    let fault = |case: &CaseSummary| {
        let delivery = &case.delivery;
        delivery.lost + delivery.duplicated + delivery.reordered + delivery.late
    };
    let mut affected: Vec<&CaseSummary> = measured(input).filter(|case| fault(case) > 0).collect();
    affected.sort_by_key(|case| std::cmp::Reverse(fault(case)));
    let Some(case) = affected.first() else { return Vec::new() };
    let delivery = &case.delivery;
    let counted = [
        (delivery.lost, "lost"),
        (delivery.duplicated, "came twice"),
        (delivery.reordered, "came out of order"),
        (delivery.late, "came after they were given up"),
    ];
    let parts: Vec<String> =
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", count)).collect();
    let sent = delivery.sent.max(1);
    let mut text = format!("{}of {} messages {}", prefix(input, case), sent, list(&parts));
    if delivery.lost > 0 {
        text.push_str(&format!(" ({} % lost)", percent(delivery.lost as f64 / sent as f64)));
    }
    text.push_str(&wording::affected(affected.len()));
    let silent = measured(input).filter(|case| case.delivery.sent > 0 && case.delivery.received == 0);
    let mut silent: Vec<String> = silent.map(|case| case.case.path.to_string()).collect();
    silent.dedup();
    if !silent.is_empty() {
        text.push_str(&format!("; nothing arrived over {}", list(&silent)));
    }
    let numbers = [
        ("sent", delivery.sent as f64),
        ("lost", delivery.lost as f64),
        ("duplicated", delivery.duplicated as f64),
        ("reordered", delivery.reordered as f64),
        ("late", delivery.late as f64),
        ("cases", affected.len() as f64),
    ];
    let why = "a lost message counts as infinitely slow in every quantile; none is left out";
    vec![warning("W26", sentence(&text), why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_every_kind_with_its_count() {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        run.rounds[0].near_mut().delivery.lost = 13;
        run.rounds[1].far_mut().delivery.reordered = 2;
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts, ["Of 8000 messages 13 lost and 2 came out of order (0.16 % lost)"]);
    }

    #[test]
    fn the_end_of_a_stream_that_never_came_is_lost() {
        let mut run = Build::stream(&["udp:send"], &[64]).run();
        run.rounds[0].far_mut().delivery.received -= 10;
        assert!(sentences(&run, &super::DETECTOR)[0].contains("10 lost"));
    }

    #[test]
    fn is_silent_where_all_arrived() {
        assert!(sentences(&Build::echo(&["udp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
