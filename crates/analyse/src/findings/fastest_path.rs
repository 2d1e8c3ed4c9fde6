//! V06: the best of all paths
//!
//! The fastest path over all sizes and thread counts, how many times faster than the baseline (or than the next path),
//! which paths tie with it, and at which sizes another path wins.
//!
//! ## What it rests on
//!
//! Ratios of all pairs of paths, paired by pass, averaged over sizes and threads
//! ([comparison](docs/method/comparison.md#over-all-sizes)). *Sure* where both halves of the run agree. Silent with two
//! paths (V04), where the best is not shown to beat another, where the control failed (W24).
//!
//! ## What to do
//!
//! Look at your own size in the table: a mean over sizes hides where the order changes.

use std::collections::BTreeSet;

use msgpath_core::PathName;
use msgpath_core::plan::Metric;
use msgpath_core::units::{size, three_digits};

use super::wording::{list, of_both_halves, range, threads};
use super::{Detector, Input, Sentence};
use crate::summary::{Comparison, Rank, Standing, Winner};
use crate::words::compared;

pub(super) const DETECTOR: Detector = Detector { code: "V06", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = input.summary.comparison.as_ref().filter(|comparison| !comparison.control_failed) else {
        return Vec::new();
    };
    let Some(standing) = &comparison.standing else { return Vec::new() };
    let Some(than) = reference(standing, &comparison.baseline) else { return Vec::new() };
    let ties: Vec<String> =
        standing.others.iter().filter(|rank| !rank.beaten).map(|rank| rank.path.to_string()).collect();
    let metric = input.plan.metric();
    let head = match metric {
        Metric::Throughput => "Highest throughput",
        Metric::Cpu => "Least CPU time",
        Metric::P50 | Metric::P99 | Metric::Mean => "Fastest",
    };
    let more = compared(metric, metric.larger_is_better());
    let digits = |end: Option<f64>| three_digits(end.unwrap_or(than.behind));
    let times = range(digits(than.low), digits(than.high));
    let mut text =
        format!("{head}: {}, {times} times {more} {}{}", standing.best, than.path, over(comparison, standing));
    if !ties.is_empty() {
        let tie = if ties.len() == 1 { "ties" } else { "tie" };
        text += &format!("; {} {tie} with it", list(&ties));
    }
    text += &exceptions(comparison, standing);
    let numbers = [
        ("cells", f64::from(standing.cells)),
        ("times", than.behind),
        ("low", than.low.unwrap_or(f64::NAN)),
        ("high", than.high.unwrap_or(f64::NAN)),
    ];
    vec![of_both_halves(input, "V06", than.halves_agree, text, numbers)]
}

/// The path that the best one is set beside: the baseline where that is beaten, else the next best that is.
fn reference<'a>(standing: &'a Standing, baseline: &PathName) -> Option<&'a Rank> {
    let beaten = || standing.others.iter().filter(|rank| rank.beaten);
    beaten().find(|rank| rank.path == *baseline).or_else(|| beaten().next())
}

/// ` over 4 sizes`; empty where there is one cell.
fn over(comparison: &Comparison, standing: &Standing) -> String {
    let cells = &comparison.winners;
    let sizes: BTreeSet<(u64, &str)> = cells.iter().map(|cell| (cell.size, cell.pieces.as_str())).collect();
    let threads: BTreeSet<u32> = cells.iter().map(|cell| cell.threads).collect();
    let what = match (sizes.len(), threads.len()) {
        (_, 1) => "sizes",
        (1, _) => "thread counts",
        (..) => "combinations of size and thread count",
    };
    if standing.cells == 1 { String::new() } else { format!(" over {} {what}", standing.cells) }
}

/// `; at 64 KiB it is pipe:write`: the cells that another path wins.
fn exceptions(comparison: &Comparison, standing: &Standing) -> String {
    let other = |winner: &&Winner| winner.path.as_ref().is_some_and(|path| *path != standing.best);
    let mut by_path: Vec<(&PathName, Vec<String>)> = Vec::new();
    for winner in comparison.winners.iter().filter(other) {
        let Some(path) = &winner.path else { continue };
        let place = place(winner, comparison);
        match by_path.iter_mut().find(|(known, _)| *known == path) {
            Some((_, places)) => places.push(place),
            None => by_path.push((path, vec![place])),
        }
    }
    by_path.into_iter().map(|(path, places)| format!("; at {} it is {path}", list(&places))).collect()
}

/// `64 KiB`, `64 KiB with 2 threads`.
fn place(winner: &Winner, comparison: &Comparison) -> String {
    let message = if winner.pieces.starts_with("1x") { size(winner.size) } else { winner.pieces.clone() };
    let several = comparison.winners.iter().any(|other| other.threads != winner.threads);
    if several { format!("{message} with {}", threads(winner.threads)) } else { message }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn paths() -> Build {
        Build::echo(&["tcp:send", "unix:send", "shm:ring/spin"], &[64, 4096])
    }

    #[test]
    fn speaks_of_the_best_path_and_by_how_much() {
        let run = paths().factor(|case| match case.path.transport.as_str() {
            "shm" => 0.1,
            "unix" => 0.5,
            _ => 1.0,
        });
        let texts = sentences(&run.run(), "V06");
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sure: Fastest: shm:ring/spin, "), "{texts:?}");
        assert!(texts[0].ends_with(" times faster than tcp:send over 2 sizes."), "{texts:?}");
    }

    #[test]
    fn names_the_size_at_which_another_path_wins() {
        let run = paths().factor(|case| match (case.path.transport.as_str(), case.size) {
            ("unix", 64) => 0.2,
            ("unix", _) => 0.9,
            ("shm", 4096) => 0.5,
            _ => 1.0,
        });
        let texts = sentences(&run.run(), "V06");
        assert!(texts[0].starts_with("sure: Fastest: unix:send, "), "{texts:?}");
        assert!(texts[0].ends_with(" over 2 sizes; at 4 KiB it is shm:ring/spin."), "{texts:?}");
    }

    #[test]
    fn paths_that_are_not_beaten_tie() {
        let run = paths().factor(|case| if case.path.transport == "shm" { 2.0 } else { 1.0 });
        let texts = sentences(&run.run(), "V06");
        assert!(texts[0].contains(" times faster than shm:ring/spin over 2 sizes; "), "{texts:?}");
        assert!(texts[0].ends_with(":send ties with it."), "{texts:?}");
    }

    #[test]
    fn is_silent_without_a_difference() {
        assert!(sentences(&paths().run(), "V06").is_empty());
        assert!(
            sentences(
                &Build::echo(&["tcp:send", "unix:send"], &[64]).factor(|case| f64::from(case.id + 1)).run(),
                "V06"
            )
            .is_empty()
        );
    }
}
