//! W172: what several clients have together
//!
//! What all clients of a server have together, and how evenly: an echo's median round trip of all and of the slowest
//! client, a stream's joint goodput and the slowest client's part of an equal share; Jain's index of fairness. *Sure*:
//! all have an interval; else *can't tell*.
//!
//! ## What it rests on
//!
//! What the receivers counted while all clients send, in each round ([method](docs/method/fan.md)).
//!
//! ## What to do
//!
//! More rounds: `-r 40`. Which client is slow: W173. Whether TCP waited for timeouts: W174.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;
use msgpath_analyse::words;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, three_digits};
use msgpath_stats::estimate::Estimate;

use super::fan;
use crate::analyse::{FanDirection, FanSummary};

pub(super) const CODE: &str = "W172";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };

fn detect(input: &Input) -> Vec<Sentence> {
    fan(input).and_then(say).into_iter().collect()
}

/// A value with its range.
fn with_range(estimate: &Estimate, print: impl Fn(f64) -> String) -> String {
    words::with_interval(estimate.value, estimate.low, estimate.high, print)
}

fn say(fan: &FanSummary) -> Option<Sentence> {
    let (fairness, bits) = (fan.fairness.as_ref()?, fan.bits_per_s.as_ref()?);
    let fair = format!("fairness {:.3} (Jain)", fairness.value);
    let count = fan.each.len();
    let rate = |bits| bits_per_second(bits, BitUnits::Si);
    let (text, main) = match fan.direction {
        FanDirection::Both => {
            let p50 = fan.p50_ns.as_ref()?;
            let slow = fan.slow().and_then(|client| Some((client.client, client.times_p50.as_ref()?)));
            let slow = slow.map_or_else(String::new, |(client, times)| {
                format!("; slowest client {client}: {} times that", three_digits(times.value))
            });
            let time = with_range(p50, |ns| Glyphs::Unicode.time(ns));
            (format!("p50 of {count} clients {time}{slow}, {fair}."), p50)
        }
        direction => {
            let slow = fan.slow().and_then(|client| Some((client.client, client.share.as_ref()?)));
            let slow = slow.map_or_else(String::new, |(client, share)| {
                format!("; slowest client {client}: {:.2} of an equal share", share.value)
            });
            let whose = if direction == FanDirection::In { "from" } else { "to" };
            (format!("Together {} {whose} {count} clients{slow}, {fair}.", with_range(bits, rate)), bits)
        }
    };
    let confidence = if main.low.is_some() { Confidence::Sure } else { Confidence::CantTell };
    let numbers = [("clients", count as f64), ("fairness", fairness.value), ("bits_per_s", bits.value)];
    Some(finding(CODE, confidence, text, numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::Bed;

    fn said(bed: &Bed) -> Vec<String> {
        said_with(&bed.run(), &Default::default(), &super::DETECTOR)
    }

    #[test]
    fn a_stream_is_said_by_its_sum_and_its_slowest_client() {
        let sentences = said(&Bed::stream(&[125e6, 125e6, 12.5e6]));
        assert_eq!(sentences.len(), 1);
        let text = &sentences[0];
        assert!(text.starts_with("sure: Together 2.10 Gbit/s (95 %: "), "{text}");
        assert!(text.contains("from 3 clients; slowest client 3: 0.14 of an equal share, fairness 0.73"), "{text}");
    }

    #[test]
    fn an_echo_is_said_by_the_median_client() {
        let text = &said(&Bed::echo(&[50_000, 50_000, 50_000, 105_000]))[0];
        assert!(text.starts_with("sure: p50 of 4 clients 50.0 µs"), "{text}");
        assert!(text.contains("slowest client 4: 2.10 times that"), "{text}");
    }

    #[test]
    fn one_client_is_no_fan() {
        let mut run = Bed::stream(&[1e6, 1e6]).run();
        run.header.plan.options.clients.clear();
        assert!(said_with(&run, &Default::default(), &super::DETECTOR).is_empty());
    }
}
