//! W88: packets are held back after the send call
//!
//! Packets leave after their send call has returned, by a timer or an acknowledgement: how long on average and in slow
//! messages, and which option explains it (Nagle, a cork, pacing). *Sure*: above what tracing adds, in at least 5
//! rounds; else *likely*.
//!
//! ## What it rests on
//!
//! A packet of the message reaches the driver after the stamp behind the send call, or while another task runs. From 5
//! % of the mean round trip on.
//!
//! ## What to do
//!
//! `-o nodelay=yes`, no cork, one send a message (W25).

use msgpath_core::units::Glyphs;

use super::growth::traced;
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::{again_set, finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W88", detect };

/// A smaller share of the mean round trip is not worth a sentence.
const SHARE: f64 = 0.05;

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter_map(|(case, stages)| {
        let all = stages.band("all")?;
        let held = stages.mean_ns(all, Kind::HeldBack);
        let share = held / all.mean_ns;
        if share < SHARE || held.is_nan() {
            return None;
        }
        let slow = stages.band("p98.5–99.5").map_or(f64::NAN, |band| stages.mean_ns(band, Kind::HeldBack));
        let time = |ns| Glyphs::Unicode.time(ns);
        let options = input.plan.options_of(&case.case);
        let why = if options.cork || options.hold_cork {
            "a cork holds them"
        } else if !options.nodelay && case.case.traits.segments {
            "TCP_NODELAY is off, so a small packet waits for the acknowledgement of the one before (Nagle)"
        } else {
            "pacing, a full window or a full queue holds them"
        };
        let at_slow = if slow > held { format!(", {} at p98.5 to p99.5", time(slow)) } else { String::new() };
        let text = format!(
            "{}packets leave after their send call has returned: {} of {} a round trip on average ({} %){at_slow}. They left \
             in the context of a timer or of an acknowledgement: {why}",
            prefix(input, case),
            time(held),
            time(all.mean_ns),
            percent(share),
        );
        let next = match (options.nodelay, case.case.traits.segments) {
            (false, true) => vec![again_set(&input.run.header, "nodelay=yes")],
            _ => Vec::new(),
        };
        let sure = all.claim && stages.observer.as_ref().is_some_and(|observer| held > observer.added_high_ns.max(0.0));
        let confidence = if sure { Confidence::Sure } else { Confidence::Likely };
        let numbers = [("held_ns", held), ("held_slow_ns", slow), ("mean_ns", all.mean_ns), ("share_of_mean", share)];
        Some(finding("W88", confidence, sentence(&text) + ".", numbers, next))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn speaks_of_packets_that_wait() {
        let mut traced = traced(&Setup { slow: Some(Kind::HeldBack), ..Setup::over("tcp:send") }, 50);
        traced.run.header.plan.options.nodelay = false;
        let texts = sentences(&traced, "W88");
        assert!(texts[0].starts_with("sure: Packets leave after their send call has returned: "), "{texts:?}");
        assert!(texts[0].contains("40.0 ms at p98.5 to p99.5") && texts[0].contains("(Nagle)"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_they_leave_at_once() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::Transmit), ..Setup::over("tcp:send") }, 50), "W88").is_empty()
        );
    }
}
