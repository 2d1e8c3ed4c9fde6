//! What several figures share: which cases they show, and their axes.

use msgpath_analyse::Summary;
use msgpath_analyse::heat::Column;
use msgpath_analyse::summary::CaseSummary;

use super::super::G;
use crate::svg::{Anchor, Drawing, Scale, time_ticks};
use crate::words;

/// The cases shown, each with its label, and what they have in common: all sizes of a single path, or all paths at one
/// size.
pub fn chosen<'a>(summary: &Summary, cases: &[&'a CaseSummary]) -> (Vec<(String, &'a CaseSummary)>, String) {
    let Some(first) = cases.first() else { return (Vec::new(), String::new()) };
    let one_path = cases.iter().all(|case| case.case.path == first.case.path);
    if one_path && summary.comparison.is_none() {
        let all = cases.iter().map(|case| (words::message_at(&case.case), *case)).collect();
        return (all, first.case.path.to_string());
    }
    let mut sizes: Vec<u64> = cases.iter().map(|case| case.case.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let size = sizes[sizes.len() / 2];
    let threads = cases.iter().map(|case| case.case.threads).min().unwrap_or(1);
    let pieces = cases.iter().find(|case| case.case.size == size).map_or(first.case.pieces, |case| case.case.pieces);
    let same =
        |case: &&&CaseSummary| case.case.size == size && case.case.threads == threads && case.case.pieces == pieces;
    let shown: Vec<&CaseSummary> = cases.iter().filter(same).copied().collect();
    let label = |case: &CaseSummary| {
        let path = case.case.path.to_string();
        let twice = shown.iter().filter(|other| other.case.path == case.case.path).count() > 1;
        match case.case.label.as_ref().filter(|_| twice) {
            Some(label) => format!("{path} {label}"),
            None => path,
        }
    };
    let shown: Vec<_> = shown.iter().map(|case| (label(case), *case)).collect();
    let message = shown.first().map_or_else(String::new, |(_, case)| words::message(&case.case));
    (shown, format!("{message}, {}", words::counted(u64::from(threads), "thread")))
}

/// A label that fits beside a picture; the table has the whole name.
pub fn short(label: &str) -> String {
    const LONGEST: usize = 20;
    if label.chars().count() <= LONGEST {
        label.into()
    } else {
        label.chars().take(LONGEST - 1).chain(['…']).collect()
    }
}

/// `20 µs` for a tick.
pub fn tick_name(ns: f64) -> String {
    let (number, unit) = G.time_in(ns, ns);
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{number} {unit}")
}

/// A logarithmic axis of times on the left, with its grid.
pub fn time_ticks_left(drawing: &mut Drawing, (low, high): (f64, f64), y: &Scale, left: f64, right: f64) {
    let mut last = f64::MAX;
    for tick in time_ticks(low, high) {
        let at = y.at(tick);
        drawing.line("grid", (left, at), (right, at));
        // From the bottom up; what has no room for its name is a line only.
        if last - at >= 17.0 {
            drawing.text("m", (left - 7.0, at + 4.0), Anchor::End, &tick_name(tick));
            last = at;
        }
    }
}

/// Of so many rounds every how many-th has its number on an axis.
pub fn every(rounds: usize) -> usize {
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
    steps.into_iter().find(|step| rounds.div_ceil(*step) <= 12).unwrap_or(rounds)
}

/// Rounds below columns of equal width: the time between rounds is left out, so an axis of seconds would not be even.
pub fn round_axis(drawing: &mut Drawing, columns: &[Column], (left, right): (f64, f64), y: f64) {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return };
    let step = every(last.round + 1 - first.round);
    let mut before = None;
    for (at, column) in columns.iter().enumerate() {
        let number = column.round + 1;
        if before.replace(column.round) == Some(column.round) || (number != 1 && number % step != 0) {
            continue;
        }
        // A round of several columns is named in its middle.
        let own = columns.iter().filter(|other| other.round == column.round).count() as f64;
        let x = left + (right - left) * (at as f64 + own / 2.0) / columns.len() as f64;
        drawing.line("axis", (x, y), (x, y + 4.0));
        drawing.text("m", (x, y + 17.0), Anchor::Middle, &number.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(from_ms: u64, to_ms: u64) -> Column {
        let (from_ns, to_ns) = (from_ms * 1_000_000, to_ms * 1_000_000);
        Column { from_ns, to_ns, round: 0, counts: Vec::new(), lost: 0, p50_ns: None, p99_ns: None }
    }

    #[test]
    fn rounds_are_named_in_even_steps() {
        let columns: Vec<Column> =
            (0..40).map(|round| Column { round, ..column(round as u64, round as u64 + 1) }).collect();
        let mut drawing = Drawing::new(100.0, 50.0);
        round_axis(&mut drawing, &columns, (0.0, 400.0), 0.0);
        let svg = drawing.finish("").markup();
        let named: Vec<&str> = svg.split("\"middle\">").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        assert_eq!(named, ["1", "5", "10", "15", "20", "25", "30", "35", "40"]);
    }

    #[test]
    fn cases_of_one_path_and_size_are_told_apart_by_their_labels() {
        let (_, summary) = crate::fixture::compare();
        let first = &summary.cases[0];
        let labelled = |label: &str| {
            let mut case = first.clone();
            case.case.label = Some(label.into());
            case
        };
        let cases = [labelled("alone"), labelled("beside"), first.clone()];
        let shown: Vec<&CaseSummary> = cases.iter().collect();
        let labels: Vec<String> = chosen(&summary, &shown).0.into_iter().map(|(label, _)| label).collect();
        let path = first.case.path.to_string();
        assert_eq!(labels, [format!("{path} alone"), format!("{path} beside"), path]);
    }

    #[test]
    fn the_steps_of_a_ramp_are_told_apart_by_their_rates() {
        let (_, summary) = crate::fixture::echo();
        let at = |rate: &str| {
            let mut case = summary.cases[0].clone();
            let rate = msgpath_core::units::parse_rates(rate).unwrap()[0];
            case.case.load = msgpath_core::plan::Load::Open { rate, arrivals: Default::default() };
            case
        };
        let cases = [at("1k"), at("2k")];
        let shown: Vec<&CaseSummary> = cases.iter().collect();
        let labels: Vec<String> = chosen(&summary, &shown).0.into_iter().map(|(label, _)| label).collect();
        assert!(labels[0] != labels[1] && labels[0].contains("/s"), "{labels:?}");
    }

    #[test]
    fn ticks_have_short_names() {
        assert_eq!(
            (tick_name(20_000.0), tick_name(1e6), tick_name(500.0)),
            ("20 µs".into(), "1 ms".into(), "500 ns".into())
        );
    }
}
