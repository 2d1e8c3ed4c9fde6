//! X40: what a usual request is made of
//!
//! Which causes take at least a fifth of a usual request (around p50), in the words of X01; with the mechanism where it
//! shows: a timer in every request, small parts that wait for a delayed acknowledgement.
//!
//! ## What it rests on
//!
//! Mean stages of the requests from p45 to p55, at least five. *Sure* where the first cause is half of the time and the
//! largest in both halves. Not where requests cannot be split (X14).
//!
//! ## What to do
//!
//! As in X01.

use std::collections::BTreeMap;

use msgpath_analyse::summary::Finding;

use super::WatchedServer;
use super::bands::Bands;
use super::causes::{self, Change, time};
use super::culprits::Known;
use super::findings::finding;

/// The code of the sentence.
pub const CODE: &str = "X40";

/// What the usual request of a server is made of.
pub(super) fn of(server: &WatchedServer, bands: &Bands, known: &Known) -> Option<Finding> {
    let changes: Vec<Change> = bands.stages().iter().map(|stage| (stage.stage, 0.0, stage.typical_ns)).collect();
    let causes = causes::of(&changes, bands.typical.mean_ns, &bands.usual_rows, known);
    let first = causes.first()?;
    let parts: Vec<String> = causes
        .iter()
        .map(|cause| format!("{:.0} % is {} ({})", cause.share * 100.0, cause.words, time(cause.now)))
        .collect();
    let text =
        format!("A usual request to {} takes {}: {}.", server.name, time(bands.typical.mean_ns), parts.join("; "));
    let evidence = BTreeMap::from([
        ("share".to_owned(), first.share),
        ("typical_ns".to_owned(), bands.typical.mean_ns),
        ("rows".to_owned(), bands.typical.rows as f64),
    ]);
    Some(finding(CODE, first.confidence, text, evidence))
}

#[cfg(test)]
mod tests {
    use msgpath_core::watch::{Culprit, RequestRow, Stage, by};

    use crate::analyse::testing::{Load, sentence, watched};
    use crate::record::{Watched, flag};

    /// Every request takes 40 ms more.
    fn every(load: Load, change: impl Fn(&mut RequestRow)) -> Watched {
        let mut watched = watched(&load);
        watched.rows.iter_mut().for_each(|row| {
            change(row);
            row.total_ns = row.stages.iter().sum();
        });
        watched
    }

    #[test]
    fn a_sleep_in_every_request_is_what_a_usual_one_is_made_of() {
        let watched = every(Load { planted_ns: 0, ..Load::default() }, |row| {
            row.stages[Stage::WorkSleep as usize] += 5_000_000;
            row.block = Culprit { ns: 5_000_000, pid: by::TIMER, call: 230, kind: 10, ..Culprit::default() };
        });
        let (level, text) = sentence(&watched, super::CODE);
        assert!(
            level == "sure" && text.contains("100 % is the server sleeping, in clock_nanosleep (5.00 ms)"),
            "{text}"
        );
    }

    #[test]
    fn small_parts_that_wait_for_an_acknowledgement_are_named_with_their_side() {
        for (stage, side, words) in [
            (Stage::WorkSocket, 0, "the client sends a request in several small parts"),
            (Stage::Rest, 1, "the server sends a reply in several small parts"),
        ] {
            let nagled = |flags| {
                every(Load { planted_ns: 0, ..Load::default() }, move |row| {
                    row.stages[stage as usize] += 40_000_000;
                    row.flags |= flags;
                })
            };
            let (level, text) = sentence(&nagled(flag::NAGLED[side]), super::CODE);
            assert!(level == "sure" && text.contains(words) && text.contains("TCP_NODELAY"), "{text}");
            assert!(!sentence(&nagled(0), super::CODE).1.contains("Nagle"));
        }
    }
}
