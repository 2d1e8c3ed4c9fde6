//! W173: a client that is slower than the others
//!
//! Which client has less than its share, and how much. *Sure*: it was the slowest in every round of six or more.
//! *Likely*: in most.
//!
//! ## What it rests on
//!
//! Rates of the clients (echo: medians) while all send ([method](docs/method/fan.md)). The whole interval lies below
//! 0.8 of an equal share, or above 1.25 times the median client.
//!
//! ## What to do
//!
//! Measure that client alone. As slow: its link or machine. Else what it shares treats it worse: a longer way (TCP
//! shares by round trip), another congestion control, a queue that is full when its packets come.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, three_digits};

use super::fan;
use crate::analyse::{FanDirection, FanSummary};

pub(super) const CODE: &str = "W173";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };

/// Of an equal share.
const LEAST_SHARE: f64 = 0.8;
/// By the median client.
const MOST_TIMES: f64 = 1.25;
/// Rounds in which chance alone hardly names the same of two clients each time.
const ROUNDS: u64 = 6;

fn detect(input: &Input) -> Vec<Sentence> {
    fan(input).and_then(say).into_iter().collect()
}

fn say(fan: &FanSummary) -> Option<Sentence> {
    let slow = fan.slow()?;
    if 2 * fan.slowest_in <= fan.rounds {
        return None;
    }
    let rounds = format!("the slowest in {} of {} rounds", fan.slowest_in, fan.rounds);
    let place = if slow.place.is_empty() { String::new() } else { format!(" ({})", slow.place) };
    let (text, value) = match fan.direction {
        FanDirection::Both => {
            let times = slow.times_p50.as_ref().filter(|times| times.low.is_some_and(|low| low > MOST_TIMES))?;
            let p50 = Glyphs::Unicode.time(slow.p50_ns.as_ref()?.value);
            let times_text = three_digits(times.value);
            (
                format!(
                    "Client {}{place} is slow: p50 {p50}, {times_text} times the median client; {rounds}.",
                    slow.client
                ),
                times,
            )
        }
        _ => {
            let share = slow.share.as_ref().filter(|share| share.high.is_some_and(|high| high < LEAST_SHARE))?;
            let bits = bits_per_second(slow.bits_per_s.as_ref()?.value, BitUnits::Si);
            (
                format!("Client {}{place} has {:.2} of an equal share, {bits}; {rounds}.", slow.client, share.value),
                share,
            )
        }
    };
    let always = fan.slowest_in == fan.rounds && fan.rounds >= ROUNDS;
    let confidence = if always { Confidence::Sure } else { Confidence::Likely };
    let numbers = [("client", f64::from(slow.client)), ("value", value.value), ("rounds", fan.slowest_in as f64)];
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
    fn the_client_with_less_is_named() {
        let text = &said(&Bed::stream(&[125e6, 1.25e6, 125e6]))[0];
        assert!(text.starts_with("sure: Client 2 has 0.01 of an equal share, 10.0 Mbit/s"), "{text}");
        let text = &said(&Bed::echo(&[50_000, 50_000, 200_000]))[0];
        assert!(text.starts_with("sure: Client 3 is slow: p50 200 µs, 4.00 times the median client"), "{text}");
    }

    #[test]
    fn equal_clients_have_no_slow_one() {
        assert!(said(&Bed::stream(&[125e6; 8])).is_empty());
        assert!(said(&Bed::echo(&[50_000, 51_000, 52_000])).is_empty());
    }
}
