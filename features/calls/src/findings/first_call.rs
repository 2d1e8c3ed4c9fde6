//! W67: the first call of a connection is slow
//!
//! The first call of a connection takes so many times as long as later ones. *Sure* where the first calls of at least 6
//! connections are slower than the later median (sign test, p = 1/64); *can't tell* with one connection.
//!
//! ## What it rests on
//!
//! T4 − T1 of the first successful call of each connection, at most 8, against the median of the others; from a factor
//! of 2 on.
//!
//! ## What to do
//!
//! Keep connections: opening one for each call pays this every time.

use msgpath_core::units::{Glyphs, three_digits};

use super::shared::{kinds, of};
use crate::analyse::RpcKind;
use msgpath_analyse::findings::wording::{finding, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W67", detect };

/// Less is not worth a sentence.
const FACTOR: f64 = 2.0;
/// So many connections whose first calls are all slower than the median of the later ones: the sign test has p = 1/64.
const CONNECTIONS: usize = 6;

fn detect(input: &Input) -> Vec<Sentence> {
    kinds(input).filter_map(|kind| say(input, kind)).collect()
}

fn say(input: &Input, kind: &RpcKind) -> Option<Sentence> {
    let later = kind.later_p50_ns.filter(|ns| *ns > 0)? as f64;
    let mut first: Vec<u64> = kind.first_ns.clone();
    first.sort_unstable();
    let middle = *first.get(first.len().checked_sub(1)? / 2)? as f64;
    if middle < FACTOR * later {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let all_slower = first.iter().all(|ns| *ns as f64 > later);
    let sure = first.len() >= CONNECTIONS && all_slower;
    let factor = three_digits(middle / later);
    let (confidence, text) = match first.len() {
        1 => (
            Confidence::CantTell,
            format!(
                "the first {} took {}, the later ones {} (median), {factor} times less. With one connection this may be the \
                 first call or chance; several connections would tell",
                kind.method,
                time(middle),
                time(later)
            ),
        ),
        count => (
            if sure { Confidence::Sure } else { Confidence::Likely },
            format!(
                "{}the first call of a connection takes {} (median of {count} connections), the later ones {}: {factor} times \
                 less. The first one meets cold caches, memory that nobody has touched and a small congestion window",
                of(input, kind),
                time(middle),
                time(later)
            ),
        ),
    };
    let numbers = [
        ("first_ns", middle),
        ("later_p50_ns", later),
        ("factor", middle / later),
        ("connections", first.len() as f64),
        ("calls", kind.calls as f64),
    ];
    Some(finding("W67", confidence, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, US};

    fn reads(connections: u32, first: f64) -> Calls {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for connection in 0..connections {
            for at in 0..10 {
                let leg = if at == 0 { first } else { 140.0 * US };
                calls.call(MS, leg, 10.0 * US, 140.0 * US).connection = connection;
            }
        }
        calls
    }

    #[test]
    fn is_sure_over_several_connections() {
        let sentences = reads(8, 900.0 * US).sentences("W67");
        assert!(sentences[0].starts_with("sure: The first call of a connection takes 1.05 ms"), "{sentences:?}");
        assert!(
            sentences[0].contains("(median of 8 connections), the later ones 290 µs: 3.62 times less"),
            "{sentences:?}"
        );
        assert!(reads(3, 900.0 * US).sentences("W67")[0].starts_with("likely: "));
    }

    #[test]
    fn cannot_tell_with_one_connection() {
        let sentences = reads(1, 900.0 * US).sentences("W67");
        assert!(
            sentences[0].starts_with("can't tell: The first ping took 1.05 ms, the later ones 290 µs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn is_silent_where_the_first_is_like_the_rest() {
        assert!(reads(8, 150.0 * US).sentences("W67").is_empty());
        let mut one = reads(1, 900.0 * US);
        one.rows.truncate(1);
        assert!(one.sentences("W67").is_empty());
    }
}
