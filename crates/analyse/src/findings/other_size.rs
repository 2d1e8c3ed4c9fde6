//! W34: the size asked for is not the size sent
//!
//! A message should have had so many bytes and had another number on average, or a granted limit is below the message.
//! An error with `--strict`.
//!
//! ## What it rests on
//!
//! Payload bytes and messages of each end by direction, against the sizes asked for; limits as read back: `mq_msgsize`,
//! SO_SNDBUF of Unix datagrams, SO_RCVBUF of UDP where messages were lost. msgpath ends a round on a wrong length, so
//! this speaks of records in which it happened all the same. Rounds with doubled or late messages are left out. A
//! smaller limit that still holds a message: W22.
//!
//! ## What to do
//!
//! A size that the path carries whole, or a higher limit: `net.core.wmem_max`, `net.core.rmem_max`,
//! `fs.mqueue.msgsize_max`.

use msgpath_core::Plan;
use msgpath_core::schema::{EndReport, Granted, RoundRecord};
use msgpath_core::traits::Stack;
use msgpath_core::units::size;

use super::wording::{about_size, evidence, measured, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Warning};

pub(super) const DETECTOR: Detector = Detector { code: "W34", detect };

/// Bytes of a send buffer that a Unix datagram cannot use (unix_dgram_sendmsg).
const UNIX_OVERHEAD: u64 = 32;

fn detect(input: &Input) -> Vec<Sentence> {
    let known = measured(input).filter(|case| case.rounds > 0 && case.case.has_size());
    known.filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let counted = ENDS.iter().find_map(|end| end.counted(input, case));
    let limit = case.conditions.granted.iter().find(|entry| too_small(case, entry));
    let largest = size(largest(case));
    let (seen, fix) = match (&counted, limit) {
        (None, None) => return None,
        (Some(counted), _) => (
            format!(
                "{} was asked for, {} {} on average",
                size(counted.asked),
                counted.what,
                about_size(counted.bytes as f64 / counted.messages as f64)
            ),
            "ask for a size that the path carries whole",
        ),
        (None, Some(limit)) => (
            format!("a message has {largest}, and {} at the {} end is {} B", limit.option, limit.end, limit.granted),
            "raise the limit (net.core.wmem_max, net.core.rmem_max, fs.mqueue.msgsize_max), or ask for less",
        ),
    };
    let limited = match (&counted, limit) {
        (Some(_), Some(limit)) => format!(" ({} at the {} end is {} B)", limit.option, limit.end, limit.granted),
        _ => String::new(),
    };
    Some(Sentence::Warning(Warning {
        code: "W34".into(),
        text: sentence(&format!("{}size asked is not size sent: {seen}{limited}", prefix(input, case))),
        why: "the row bears the size that was asked for; its times and rates are those of other messages".into(),
        fix: fix.into(),
        evidence: evidence([
            ("asked_bytes", case.case.size as f64),
            ("counted_bytes", counted.as_ref().map_or(f64::NAN, |counted| counted.bytes as f64)),
            ("counted_messages", counted.as_ref().map_or(f64::NAN, |counted| counted.messages as f64)),
            ("limit_bytes", limit.and_then(|limit| limit.granted.parse().ok()).unwrap_or(f64::NAN)),
        ]),
        strict: true,
    }))
}

/// The largest message of a case, bytes.
fn largest(case: &CaseSummary) -> u64 {
    case.case.size.max(case.case.reply)
}

/// Whether an option was granted so small that a message of the case does not fit in whole. A datagram's receive buffer
/// counts only where messages were lost: an empty one takes any datagram.
pub(super) fn too_small(case: &CaseSummary, entry: &Granted) -> bool {
    let Ok(granted) = entry.granted.parse::<u64>() else { return false };
    // Where a size was asked for, the half that the kernel keeps for its own bookkeeping is taken off (socket(7)).
    let all = if entry.asked == "-" { granted } else { 2 * granted };
    let traits = &case.case.traits;
    match entry.option.as_str() {
        "mq_msgsize" => granted < largest(case),
        "SO_SNDBUF" if traits.framed && traits.stack == Stack::Local => {
            all.saturating_sub(UNIX_OVERHEAD) < largest(case)
        }
        "SO_RCVBUF" if traits.framed && traits.inet => case.delivery.lost > 0 && all < largest(case),
        _ => false,
    }
}

/// Messages that an end counted in bytes, and what each should have had.
struct Counted {
    asked: u64,
    messages: u64,
    bytes: u64,
    what: &'static str,
}

/// One direction at one end.
struct Direction {
    what: &'static str,
    near: bool,
    received: bool,
}

const ENDS: [Direction; 4] = [
    Direction { what: "the far end received", near: false, received: true },
    Direction { what: "the near end received", near: true, received: true },
    Direction { what: "the near end sent", near: true, received: false },
    Direction { what: "the far end sent", near: false, received: false },
];

impl Direction {
    /// Bytes of a message in this direction; `None`: none travels that way.
    fn asked(&self, plan: &Plan, case: &CaseSummary) -> Option<u64> {
        let request = self.near != self.received;
        if !plan.workload.in_rounds {
            // Calls differ in size, headers and all; one message of a periodic run goes to many.
            None
        } else if plan.workload.is_echoed() {
            Some(if request { case.case.size } else { case.case.reply })
        } else {
            (request != plan.reverse).then_some(case.case.size)
        }
    }

    /// What was counted, where it is not what was asked for.
    fn counted(&self, input: &Input, case: &CaseSummary) -> Option<Counted> {
        let asked = self.asked(input.plan, case).filter(|bytes| *bytes > 0)?;
        let end = |round: &&RoundRecord| -> EndReport { *if self.near { round.near() } else { round.far() } };
        let (mut messages, mut bytes) = (0, 0);
        for end in input.all[case.case.id as usize].iter().map(end) {
            let delivery = end.delivery;
            // Bytes that came twice or too late belong to no message that was counted.
            if delivery.duplicated + delivery.late > 0 {
                continue;
            }
            messages += if self.received { delivery.received } else { delivery.sent };
            bytes += if self.received { end.bytes_received } else { end.bytes_sent };
        }
        // A stream's receiver leaves out what came before its clock ran: a few whole messages.
        let early = !input.plan.workload.timed && self.received;
        let whole = bytes % asked == 0 && bytes <= messages * asked && 2 * bytes > messages * asked;
        let alike = if early { whole } else { bytes == messages * asked };
        (messages > 0 && !alike).then_some(Counted { asked, messages, bytes, what: self.what })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, sentences};

    #[test]
    fn speaks_where_an_end_counted_other_bytes() {
        let mut run = Build::echo(&["udp:send"], &[4096]).run();
        run.rounds.iter_mut().for_each(|round| round.far_mut().bytes_received /= 4);
        assert_eq!(
            sentences(&run, "W34"),
            ["Size asked is not size sent: 4 KiB was asked for, the far end received 1.00 KiB on average"]
        );
        let mut stream = Build::stream(&["tcp:send"], &[4096]).reverse().run();
        stream
            .rounds
            .iter_mut()
            .for_each(|round| round.near_mut().bytes_received = round.near().delivery.received * 100);
        assert!(sentences(&stream, "W34")[0].contains("the near end received 100 B"));
    }

    #[test]
    fn speaks_instead_of_w22_where_a_limit_is_below_the_message() {
        let mut run = Build::echo(&["mq:send"], &[16_384]).run();
        grant(&mut run, 0, "mq_msgsize", "16384", "8192");
        assert_eq!(
            sentences(&run, "W34"),
            ["Size asked is not size sent: a message has 16 KiB, and mq_msgsize at the near end is 8192 B"]
        );
        assert!(sentences(&run, "W22").is_empty());
        let mut run = Build::echo(&["unixgram:send"], &[65_536]).run();
        grant(&mut run, 0, "SO_SNDBUF", "65536", "16384");
        assert_eq!((sentences(&run, "W34").len(), sentences(&run, "W22").len()), (1, 0));
    }

    #[test]
    fn names_the_limit_beside_what_was_counted() {
        let mut run = Build::echo(&["udp:send"], &[32_768]).run();
        grant(&mut run, 0, "SO_RCVBUF", "-", "4096");
        assert!(sentences(&run, "W34").is_empty(), "nothing was lost");
        run.rounds[0].near_mut().delivery.lost = 5;
        run.rounds.iter_mut().for_each(|round| round.far_mut().bytes_received -= 1);
        let texts = sentences(&run, "W34");
        assert!(texts[0].ends_with("on average (SO_RCVBUF at the near end is 4096 B)"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_every_byte_arrived() {
        let mut run = Build::echo(&["unixgram:send", "mq:send"], &[8192]).run();
        grant(&mut run, 0, "SO_SNDBUF", "4128", "4128");
        grant(&mut run, 1, "mq_msgsize", "-", "8192");
        assert!(sentences(&run, "W34").is_empty());
        let mut other = Build::echo(&["tcp:send"], &[8192]).run();
        grant(&mut other, 0, "SO_SNDBUF", "4096", "2048");
        assert_eq!((sentences(&other, "W34").len(), sentences(&other, "W22").len()), (0, 1));
    }

    #[test]
    fn is_silent_where_a_stream_left_out_what_came_before_its_clock() {
        let mut run = Build::stream(&["tcp:send"], &[4096]).run();
        run.rounds.iter_mut().for_each(|round| round.far_mut().bytes_received -= 4096);
        assert!(sentences(&run, "W34").is_empty());
    }

    #[test]
    fn is_silent_where_messages_were_lost_or_came_twice() {
        let mut run = Build::echo(&["udp:send"], &[4096]).run();
        run.rounds[3].far_mut().delivery.duplicated = 1;
        run.rounds[3].far_mut().bytes_received += 4096;
        run.rounds[4].far_mut().delivery.received -= 1;
        run.rounds[4].far_mut().bytes_received -= 4096;
        assert!(sentences(&run, "W34").is_empty());
    }
}
