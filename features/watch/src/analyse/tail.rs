//! X41: requests far beyond p99
//!
//! A few requests take at least three times p99: how many, and what most of their extra time is, in the words of X01.
//!
//! ## What it rests on
//!
//! The rows of these requests, at least five. *Sure* as in X01. Silent with `--slow`.
//!
//! ## What to do
//!
//! Watch with the proposed `--slow`: the table then splits them, `--slowest` lists them.

use std::collections::BTreeMap;

use msgpath_analyse::summary::Finding;
use msgpath_core::watch::{RequestRow, Stage};

use super::WatchedServer;
use super::bands::{Bands, FEWEST, means};
use super::causes::{self, Change, time};
use super::culprits::Known;
use super::findings::finding;

/// The code of the sentence.
pub const CODE: &str = "X41";

/// From so many times p99 on.
const FAR: f64 = 3.0;

/// What is said of requests far beyond p99.
pub(super) fn of(server: &WatchedServer, bands: &Bands, rows: &[&RequestRow], known: &Known) -> Option<Finding> {
    let p99 = server.p99_ns?;
    let mut tail: Vec<&RequestRow> = rows.iter().copied().filter(|row| row.total_ns as f64 >= FAR * p99).collect();
    if tail.len() < FEWEST {
        return None;
    }
    tail.sort_by_key(|row| row.t0_ns);
    let slowest = means(&tail);
    let changes: Vec<Change> =
        Stage::ALL.into_iter().map(|stage| (stage, bands.mean(stage)[0], slowest[stage as usize])).collect();
    let mean = slowest.iter().sum::<f64>();
    let causes = causes::of(&changes, mean - bands.typical.mean_ns, &tail, known);
    let cause = causes.first()?;
    let text = format!(
        "{} of {} requests to {} take at least {:.0} times as long as p99, {} on average: {:.0} % of their extra time is {}.",
        tail.len(),
        server.requests,
        server.name,
        FAR,
        time(mean),
        cause.share * 100.0,
        cause.words,
    );
    let from = tail.iter().map(|row| row.total_ns).min().unwrap_or(0) / 1_000;
    let evidence = BTreeMap::from([
        ("share".to_owned(), cause.share),
        ("rows".to_owned(), tail.len() as f64),
        ("mean_ns".to_owned(), mean),
        ("p99_ns".to_owned(), p99),
    ]);
    let text = format!("{text} They are split with --slow {from}us.");
    Some(Finding {
        next: vec![format!("msgpath watch ... --slow {from}us --slowest 10")],
        ..finding(CODE, cause.confidence, text, evidence)
    })
}

#[cfg(test)]
mod tests {
    use msgpath_core::watch::Stage;

    use crate::analyse::testing::{Load, said, sentence, watched};

    /// 8 of 1000: p99 is that of the others.
    #[test]
    fn a_few_requests_far_beyond_p99_are_said_with_their_cause() {
        let load = Load { stage: Stage::WorkSleep, every: 125, planted_ns: 140_000_000, ..Load::default() };
        let (level, text) = sentence(&watched(&load), super::CODE);
        assert!(
            level == "sure" && text.starts_with("8 of 1000 requests to redis-server take at least 3 times"),
            "{text}"
        );
        assert!(
            text.contains("100 % of their extra time is the server sleeping") && text.contains("--slow 140"),
            "{text}"
        );
        let usual = said(&watched(&Load { planted_ns: 0, ..Load::default() }));
        assert!(usual.iter().all(|(_, code, _)| code != super::CODE), "{usual:?}");
    }
}
