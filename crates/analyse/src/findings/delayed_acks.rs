//! W36: counters of TCP that rose with the messages
//!
//! * **Delayed acknowledgements** with TCP_NODELAY on: how many, the timer at the end, the share of time at the
//!   receiver's window, and whether messages wait for the timer. *Likely*: the counter belongs to the whole network
//!   namespace.
//! * **Autocorking**: how often the kernel held a small write because a packet of the socket was queued. Good for the
//!   rate, bad for latency. *Sure* where the count fits the messages, else *likely*.
//!
//! ## What it rests on
//!
//! * **Delayed acknowledgements**: `TcpExt.DelayedACKs` by messages sent, from 1 in 5 on; `tcpi_ato`,
//!   `tcpi_rwnd_limited`, data segments both ways; round trips of 32 to 48 (64 to 96) ms. Nagle or a cork: W25.
//! * **Autocorking**: `TcpExt.TCPAutoCorking` by messages sent, from 1 in 10 on; it fits from 49 in 50 messages up to
//!   the send calls. Silent where nothing can be held: more than 64 KiB in one write, or one write a message with one
//!   in flight; and with `tcp_autocorking` off.
//!
//! ## What to do
//!
//! * **Delayed acknowledgements**: where the sentence names the server's sends, it wrote its reply in several calls:
//!   TCP_NODELAY or one call there. Where messages wait otherwise: reply within the timer, or TCP_QUICKACK after each
//!   receive. Where none waits: nothing.
//! * **Autocorking**: one call a message (`tcp:writev`), or `net.ipv4.tcp_autocorking=0`. TCP_NODELAY does not switch
//!   it off.

use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::Glyphs;

use super::counters::{rose, sent};
use super::modes::{DELAYED_ACK, SHARE};
use super::wording::{affected, finding, measured, percent, prefix, sentence, worst};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W36", detect };

const COUNTER: &str = "TcpExt.DelayedACKs";
/// Delayed acknowledgements per message below which they are what any connection has now and then.
const MANY: f64 = 0.2;

fn detect(input: &Input) -> Vec<Sentence> {
    // Workloads that have a loop of their own know when each part of a reply came, and say it.
    if !input.plan.workload.in_rounds {
        return Vec::new();
    }
    let at_once = |case: &&CaseSummary| {
        let options = input.plan.options_of(&case.case);
        case.case.traits.segments && options.nodelay && !options.cork && !options.hold_cork
    };
    let many = measured(input).filter(at_once).filter_map(|case| {
        // Against the most messages there can have been: trimmed ones are acknowledged as well.
        let each = rose(input, case, &[COUNTER])? as f64 / sent(input, case).most as f64;
        (case.rounds > 0 && each >= MANY).then_some((each, case))
    });
    worst(many).and_then(|(case, cases)| say(input, case, cases)).into_iter().collect()
}

/// Data segments of a reply from which it was written in several sends, and of a request up to which it was written in one.
const SEVERAL: f64 = 1.5;
const ONE: f64 = 1.2;

/// Data segments that came and replies that they were, where a far end that does not report its connection wrote replies in several
/// sends: the whole request was there, so what waits for an acknowledgement is the rest of the reply.
fn replies_in_sends(case: &CaseSummary) -> Option<(u64, u64)> {
    let (near, replies) = (case.end(NEAR).tcp?, case.delivery.received);
    let of = |segments: u64| segments as f64 / replies.max(1) as f64;
    // Longer replies have several segments in any case.
    let short = case.case.reply <= u64::from(near.snd_mss) && case.case.size <= u64::from(near.snd_mss);
    let seen = short && of(near.data_segs_in) >= SEVERAL && of(near.data_segs_out) <= ONE;
    (seen && case.end(FAR).tcp.is_none()).then_some((near.data_segs_in, replies))
}

fn say(input: &Input, case: &CaseSummary, cases: usize) -> Option<Sentence> {
    let delayed = rose(input, case, &[COUNTER])?;
    let sent = sent(input, case);
    let waiting = DELAYED_ACK.of(input, case.case.id);
    let in_sends = replies_in_sends(case).filter(|_| waiting.as_ref().is_some_and(|waiting| waiting.share >= SHARE));
    if let (Some((segments, replies)), Some(waiting)) = (in_sends, &waiting) {
        let text = format!(
            "{}the server writes a reply in several sends with Nagle's algorithm on ({segments} data segments came for {replies} \
             replies): {} % of the messages take {}, for a delayed acknowledgement. At the server: set TCP_NODELAY, or write a \
             reply in one call{}",
            prefix(input, case),
            percent(waiting.share),
            waiting.time(),
            affected(cases)
        );
        let numbers = [
            ("delayed_acks", delayed as f64),
            ("messages", sent.least as f64),
            ("mode_share", waiting.share),
            ("segments", segments as f64),
        ];
        return Some(finding("W36", Confidence::Likely, sentence(&text) + ".", numbers, vec![]));
    }
    let counted = format!("DelayedACKs +{delayed} in {} messages with TCP_NODELAY on", sent.least);
    // What a program of others sets at its end nobody knows.
    let mut text = prefix(input, case)
        + &match case.end(FAR).tcp {
            Some(_) => format!("delayed acknowledgements without Nagle: {counted}; the receiver has"),
            None => format!(
                "delayed acknowledgements: {counted} at this end; where not Nagle's algorithm at the other, the receiver has"
            ),
        }
        + " nothing to send them with before their timer runs out";
    let timeout =
        [case.end(NEAR).tcp, case.end(FAR).tcp].into_iter().flatten().map(|tcp| tcp.ato_us).max().filter(|us| *us > 0);
    if let Some(us) = timeout {
        text.push_str(&format!(" ({} at the end)", Glyphs::Unicode.time(f64::from(us) * 1e3)));
    }
    let limited = case.end(NEAR).tcp.filter(|tcp| tcp.busy_us > 0 && tcp.rwnd_limited_us > 0);
    let limited = limited.map(|tcp| tcp.rwnd_limited_us as f64 / tcp.busy_us as f64);
    if let Some(share) = limited {
        text.push_str(&format!(". For {} % of the busy time the receiver's window was the limit", percent(share)));
    }
    match &waiting {
        Some(waiting) if waiting.share >= SHARE => {
            let share = percent(waiting.share);
            let time = waiting.time();
            text.push_str(&format!(". {share} % of the messages take as long as that timer, most of them {time}: "));
            text.push_str("reply earlier, or set TCP_QUICKACK again after each receive call");
        }
        Some(_) => {
            text.push_str(". The latency has no mode there: the messages do not wait for them, each costs a packet")
        }
        None => {}
    }
    text.push_str(&affected(cases));
    let numbers = [
        ("delayed_acks", delayed as f64),
        ("messages", sent.least as f64),
        ("mode_share", waiting.map_or(f64::NAN, |waiting| waiting.share)),
        ("ack_timeout_us", timeout.map_or(f64::NAN, f64::from)),
        ("window_limited_share", limited.unwrap_or(f64::NAN)),
    ];
    Some(finding("W36", Confidence::Likely, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, sentences};
    use msgpath_core::schema::TcpInfo;

    /// 200 messages a round with so many delayed acknowledgements.
    fn texts(path: &str, ms: f64, delayed: u64, change: impl Fn(&mut Build)) -> Vec<String> {
        let mut build = Build::echo(&[path], &[64]).factor(move |_| ms * 50.0);
        build.plan.trim = 0;
        change(&mut build);
        let mut run = build.run();
        count(&mut run, 0, "TcpExt.DelayedACKs", delayed);
        for round in &mut run.rounds {
            round.far_mut().tcp = Some(TcpInfo { ato_us: 40_000, ..TcpInfo::default() });
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_with_the_count_and_of_what_it_costs() {
        let waiting = texts("tcp:send", 40.0, 190, |_| ());
        assert!(waiting[0].starts_with("likely: Delayed acknowledgements without Nagle: DelayedACKs +7600 in"));
        assert!(waiting[0].contains("(40.0 ms at the end)") && waiting[0].contains("TCP_QUICKACK"), "{waiting:?}");
        let harmless = texts("tcp:send", 0.02, 190, |_| ());
        assert!(harmless[0].contains("The latency has no mode there"), "{harmless:?}");
    }

    #[test]
    fn replies_of_two_writes_are_the_servers_doing() {
        let text = |segments: u64, reported: bool| {
            let mut build = Build::echo(&["tcp:send"], &[64]).factor(|_| 40.0 * 50.0);
            build.plan.trim = 0;
            let mut run = build.run();
            count(&mut run, 0, "TcpExt.DelayedACKs", 190);
            for round in &mut run.rounds {
                let received = round.near().delivery.received;
                let tcp = TcpInfo { snd_mss: 1448, data_segs_out: received, ..TcpInfo::default() };
                round.near_mut().tcp = Some(TcpInfo { data_segs_in: segments * received, ..tcp });
                round.far_mut().tcp = reported.then_some(tcp);
            }
            sentences(&run, "W36").remove(0)
        };
        let two = text(2, false);
        assert!(two.contains("in several sends") && two.contains("At the server: set TCP_NODELAY"), "{two}");
        assert!(two.contains("data segments came for") && !two.contains("QUICKACK"), "{two}");
        assert!(text(1, false).contains("QUICKACK") && text(2, true).contains("QUICKACK"));
    }

    #[test]
    fn is_silent_below_one_in_five_and_where_nagle_or_a_cork_is_on() {
        assert!(texts("tcp:send", 0.02, 39, |_| ()).is_empty());
        assert!(texts("tcp:send", 0.02, 190, |build| build.plan.options.nodelay = false).is_empty());
        assert!(texts("tcp:send", 0.02, 190, |build| build.plan.options.hold_cork = true).is_empty());
        assert!(texts("unix:send", 0.02, 190, |_| ()).is_empty());
        // 1000 trimmed messages beside the 200 measured: 190 is not many.
        assert!(texts("tcp:send", 0.02, 190, |build| build.plan.trim = 1000).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
