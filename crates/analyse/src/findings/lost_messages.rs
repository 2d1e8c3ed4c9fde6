//! W26: messages that were lost, doubled, late or out of order
//!
//! ## What it says
//!
//! **How many**: How many of how many, for the worst case, and how many cases are affected.
//!
//! **Where**: The lost messages of a case by place: at a full receive buffer, for lack of socket memory, in the backlog of a CPU
//! (softnet), merely too late, in rounds in which an end did not run for a while (W41), and unexplained.
//!
//! *Sure* where the counts fit the loss within one in fifty, *likely* where they do not (part is unexplained, or other
//! sockets lost messages too), *can't tell* where no place counted anything.
//!
//! Of an echo it says on which way they were lost, there or back, where both ends count alike.
//!
//! Where a zero-copy path sends small pieces, it also says what they fill: the kernel charges a zero-copy send by whole
//! pages, so 15 pieces of 100 B take 60 KiB of the receive buffer.
//!
//! ## What it is computed from
//!
//! **How many**: Sequence numbers at both ends. A message that did not come back within the loss timeout is lost; one that comes after
//! that is late.
//!
//! **Where**: `Udp.RcvbufErrors`, `Udp.MemErrors` (and `Udp6.`) and `softnet.dropped` during the rounds. Counts of two ends are added
//! only where the ends do not share a network namespace (for softnet: a machine). A counter that cannot be read is named
//! with n/a. Counters of NICs are not in the record: what a NIC loses is among the unexplained.
//!
//! The way: what the near end sent, less what the far end received, and what that answered, less what came back. Rounds in which
//! a message before the measured ones was lost, or one arrived twice, do not tell, and are left out.
//!
//! ## When it stays silent
//!
//! **How many**: Where every message arrived once and in order; of calls, whose missing replies are in W71.
//!
//! **Where**: Where nothing was lost; for transports other than UDP. One sentence stands for all cases: that of the case that lost
//! most.
//!
//! ## What to do
//!
//! **How many**: A lost message counts as infinitely slow in every quantile, so tails may read *lost*. Use fewer messages in flight, or
//! a larger receive buffer (`-o rcvbuf`). `--fail-if 'loss > 0.1%'` turns a share into an error.
//!
//! **Where**: As the sentence says: a larger receive buffer (`-o rcvbuf`, `net.core.rmem_max`), fewer messages in flight, a longer
//! backlog (`net.core.netdev_max_backlog`), or `ethtool -S` at both ends for what is unexplained between two machines. On one machine no NIC is on the way.

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
