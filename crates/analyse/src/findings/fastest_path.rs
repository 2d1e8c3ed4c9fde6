//! V06: the best of all paths (with two paths the comparison with the baseline says it already).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::units::three_digits;
use msgpath_core::{Case, PathName};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::halves_agree;

use super::wording::{finding, list, measured, range};
use super::{Detector, Input, Sentence};
use crate::summary::{Confidence, Winner};

pub(super) const DETECTOR: Detector = Detector { code: "V06", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = input.summary.comparison.as_ref().filter(|comparison| !comparison.control_failed) else {
        return Vec::new();
    };
    let paths: BTreeSet<&PathName> = measured(input).map(|case| &case.case.path).collect();
    // A cell counts for its winner only if both halves of the run have it ahead of every other path.
    let won: Vec<(&PathName, f64)> = comparison
        .winners
        .iter()
        .filter(|winner| winner.path.is_some() && ahead_in_both_halves(input, winner))
        .filter_map(|winner| Some((winner.path.as_ref()?, winner.margin?)))
        .collect();
    if paths.len() < 3 || won.is_empty() {
        return Vec::new();
    }
    let mut cells: BTreeMap<&PathName, usize> = BTreeMap::new();
    won.iter().for_each(|(path, _)| *cells.entry(path).or_default() += 1);
    let all = comparison.winners.len();
    let quality = if comparison.metric == "p50" { "fastest" } else { "highest throughput" };
    let margins = won.iter().map(|(_, margin)| *margin);
    let (least, most) = margins.fold((f64::INFINITY, 0.0_f64), |(low, high), m| (low.min(m), high.max(m)));
    let text = if cells.len() == 1 && won.len() == all {
        let second = if comparison.metric == "p50" { "the second takes" } else { "it carries" };
        let than = if comparison.metric == "p50" { "as long" } else { "what the second does" };
        let margin = range(three_digits(least), three_digits(most));
        let everywhere = everywhere(&comparison.winners);
        format!("{} is the {quality} of {} paths{everywhere}: {second} {margin} times {than}.", won[0].0, paths.len())
    } else {
        let mut ranked: Vec<_> = cells.iter().collect();
        ranked.sort_by_key(|(_, cells)| std::cmp::Reverse(**cells));
        let ranked: Vec<String> = ranked.into_iter().map(|(path, cells)| format!("{path} in {cells}")).collect();
        let open = all - won.len();
        let rest = match (open, tied(&comparison.winners)) {
            (0, _) => String::new(),
            (_, Some(set)) => format!("; in {open} nothing beats {}", list(&set)),
            (_, None) => format!("; in {open} several tie"),
        };
        format!("The {quality} of {} paths, by size and thread count: {} of {all}{rest}.", paths.len(), list(&ranked))
    };
    let numbers =
        [("cells", all as f64), ("cells_won", won.len() as f64), ("least_margin", least), ("largest_margin", most)];
    vec![finding("V06", Confidence::Sure, text, numbers, vec![])]
}

/// All cells in words: ` at both sizes`; empty where there is one.
fn everywhere(cells: &[Winner]) -> String {
    let sizes: BTreeSet<(u64, &str)> = cells.iter().map(|cell| (cell.size, cell.pieces.as_str())).collect();
    let threads: BTreeSet<u32> = cells.iter().map(|cell| cell.threads).collect();
    let what = match (sizes.len(), threads.len()) {
        (_, 1) => "sizes",
        (1, _) => "thread counts",
        (..) => "combinations of size and thread count",
    };
    match cells.len() {
        1 => String::new(),
        2 => format!(" at both {what}"),
        count => format!(" at all {count} {what}"),
    }
}

/// The paths that tie wherever none wins, if they are the same everywhere.
fn tied(winners: &[Winner]) -> Option<Vec<String>> {
    let mut open = winners.iter().filter(|winner| winner.path.is_none()).map(|winner| {
        let mut names: Vec<String> = winner.unbeaten.iter().map(ToString::to_string).collect();
        names.sort();
        names
    });
    let first = open.next().filter(|names| (2..=4).contains(&names.len()))?;
    open.all(|names| names == first).then_some(first)
}

fn ahead_in_both_halves(input: &Input, winner: &Winner) -> bool {
    let own: Vec<&Case> = measured(input)
        .map(|case| &case.case)
        .filter(|case| {
            (case.size, case.threads) == (winner.size, winner.threads) && case.pieces.to_string() == winner.pieces
        })
        .collect();
    let Some(best) = own.iter().find(|case| case.path == winner.best) else { return false };
    own.iter().filter(|other| other.id != best.id).all(|other| {
        let d = log_ratios(&input.series[best.id as usize], &input.series[other.id as usize]);
        halves_agree(&d.into_iter().map(|(_, d)| d).collect::<Vec<_>>())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn paths() -> Build {
        Build::echo(&["tcp:send", "unix:send", "shm:ring/spin"], &[64, 4096])
    }

    #[test]
    fn speaks_of_the_winner() {
        let run = paths().factor(|case| match case.path.transport.as_str() {
            "shm" => 0.1,
            "unix" => 0.5,
            _ => 1.0,
        });
        let texts = sentences(&run.run(), "V06");
        assert!(
            texts[0].starts_with("sure: shm:ring/spin is the fastest of 3 paths at both sizes: the second takes "),
            "{texts:?}"
        );
        let run = paths().factor(|case| if (case.path.transport == "unix") == (case.size == 64) { 0.5 } else { 1.0 });
        let texts = sentences(&run.run(), "V06");
        assert!(texts[0].contains("unix:send in 1 of 2; in 1 nothing beats shm:ring/spin and tcp:send."), "{texts:?}");
    }

    #[test]
    fn is_silent_without_a_winner() {
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
