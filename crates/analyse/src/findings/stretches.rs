//! Ratios that say the same, put into one sentence: neighbouring sizes, and thread counts where they agree.

use std::collections::BTreeMap;

use msgpath_core::{Case, PathName};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::{halves_agree, halves_within};
use msgpath_stats::verdict::Verdict;

use super::Input;
use super::wording::{list, message, threads};
use crate::series::cell;
use crate::summary::{Comparison, Ratio};

/// Neighbouring sizes of one path with the same verdict.
pub(super) struct Stretch<'a> {
    pub(super) path: &'a PathName,
    /// Its ratios, from small to large messages, thread count by thread count.
    pub(super) ratios: Vec<&'a Ratio>,
    /// Where it holds: `up to 4 KiB`, `at 64 B with 2 threads`.
    pub(super) place: String,
}

impl Stretch<'_> {
    /// Smallest and largest of a number of the ratios.
    pub(super) fn ends(&self, of: impl Fn(&Ratio) -> f64) -> (f64, f64) {
        let values = self.ratios.iter().map(|ratio| of(ratio));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// Whether both halves of the run say what the whole says, at every size.
    pub(super) fn halves_agree(&self, input: &Input, margin: f64) -> bool {
        self.ratios.iter().all(|ratio| {
            let d = log_ratios(&input.series[ratio.case as usize], &input.series[ratio.baseline as usize]);
            let d: Vec<f64> = d.into_iter().map(|(_, d)| d).collect();
            match ratio.verdict {
                Verdict::Equivalent => halves_within(&d, margin),
                _ => halves_agree(&d),
            }
        })
    }
}

/// The thread counts that share a place, and their ratios.
type Shared<'a> = (Vec<u32>, Vec<&'a Ratio>);

/// The stretches of a verdict, path by path in the order of the plan. A comparison whose control failed has none.
pub(super) fn stretches<'a>(input: &Input<'a>, comparison: &'a Comparison, verdict: Verdict) -> Vec<Stretch<'a>> {
    if comparison.control_failed {
        return Vec::new();
    }
    let case = |ratio: &Ratio| -> &'a Case { &input.plan.cases[ratio.case as usize] };
    let mut paths: Vec<&PathName> = Vec::new();
    let mut counts: Vec<u32> = Vec::new();
    for ratio in &comparison.ratios {
        if !paths.contains(&&case(ratio).path) {
            paths.push(&case(ratio).path);
        }
        if !counts.contains(&case(ratio).threads) {
            counts.push(case(ratio).threads);
        }
    }
    counts.sort_unstable();
    let mut out = Vec::new();
    for path in paths {
        // By place in the line of sizes: the thread counts and ratios that share it.
        let mut by_place: BTreeMap<(usize, usize, String), Shared<'a>> = BTreeMap::new();
        for count in &counts {
            let own =
                comparison.ratios.iter().filter(|ratio| case(ratio).path == *path && case(ratio).threads == *count);
            let mut line: Vec<&Ratio> = own.collect();
            line.sort_by_key(|ratio| cell(case(ratio)));
            let messages: Vec<String> = line.iter().map(|ratio| message(case(ratio))).collect();
            let whole = line.iter().all(|ratio| case(ratio).pieces.count == 1);
            let mut from = 0;
            for run in line.chunk_by(|a, b| a.verdict == b.verdict) {
                let to = from + run.len();
                if run[0].verdict == verdict {
                    let place = (from, to, place(&messages, from, to, whole));
                    let entry = by_place.entry(place).or_default();
                    entry.0.push(*count);
                    entry.1.extend(run);
                }
                from = to;
            }
        }
        for ((_, _, place), (own, ratios)) in by_place {
            let place = match own.len() {
                _ if counts.len() == 1 => place,
                all if all == counts.len() => format!("{place} at every thread count"),
                1 => format!("{place} with {}", threads(own[0])),
                _ => format!("{place} with {} threads", list(&own.iter().map(u32::to_string).collect::<Vec<_>>())),
            };
            out.push(Stretch { path, ratios, place });
        }
    }
    out
}

fn place(messages: &[String], from: usize, to: usize, whole: bool) -> String {
    let (first, last) = (&messages[from], &messages[to - 1]);
    match (from, to) {
        _ if to - from == 1 => format!("at {first}"),
        _ if !whole => format!("at {}", list(&messages[from..to])),
        (0, to) if to == messages.len() => format!("at all {to} sizes from {first} to {last}"),
        (0, _) => format!("up to {last}"),
        (_, to) if to == messages.len() => format!("from {first} up"),
        _ => format!("from {first} to {last}"),
    }
}
