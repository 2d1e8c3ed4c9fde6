//! Percentile spectrum: how slow, for how many. x is the percentile stretched to the tail, y the time, logarithmic.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::Histogram;
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;

use super::G;
use super::page::{Cell, Page};
use crate::svg::{Anchor, Drawing, Scale, label_positions, stretch, time_ticks, unstretch};
use crate::words;

/// Series in one picture: as many as there are colours with a dash pattern.
const SERIES: usize = 4;
const POINTS: usize = 200;
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 44.0;

struct Series<'a> {
    label: String,
    case: &'a CaseSummary,
    histogram: Histogram,
    /// Up to here on the stretched axis the summary claims a quantile.
    claimed: f64,
    /// Last place that the number of messages resolves.
    end: f64,
}

/// The cases shown: all sizes of a single path, or all paths at one size.
fn chosen<'a>(summary: &Summary, cases: &[&'a CaseSummary]) -> (Vec<(String, &'a CaseSummary)>, String) {
    let Some(first) = cases.first() else { return (Vec::new(), String::new()) };
    let one_path = cases.iter().all(|case| case.case.path == first.case.path);
    if one_path && summary.comparison.is_none() {
        let all = cases.iter().map(|case| (words::message(&case.case), *case)).collect();
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
    let shown: Vec<_> = cases.iter().filter(same).map(|case| (case.case.path.to_string(), *case)).collect();
    let message = shown.first().map_or_else(String::new, |(_, case)| words::message(&case.case));
    (shown, format!("{message}, {}", words::counted(u64::from(threads), "thread", G)))
}

fn merged(rounds: &[RoundRecord], case: u32) -> Histogram {
    let mut all = Histogram::new();
    rounds.iter().filter(|round| round.case == case).for_each(|round| all.merge_sparse(&round.latency));
    all
}

/// The figure; nothing where no message was timed.
pub(crate) fn figure(page: &mut Page, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
    let (shown, what) = chosen(summary, cases);
    let more = shown.len().saturating_sub(SERIES);
    let series: Vec<Series> = shown
        .into_iter()
        .take(SERIES)
        .map(|(label, case)| {
            let histogram = merged(&run.rounds, case.case.id);
            let claims = case.quantiles.iter().filter(|quantile| quantile.claim).map(|quantile| stretch(quantile.p));
            let end = (histogram.total() as f64).max(1.0).log10();
            Series { label, case, claimed: claims.fold(0.0, f64::max).min(end), end, histogram }
        })
        .filter(|series| series.histogram.max().is_some())
        .collect();
    if series.is_empty() {
        return;
    }
    let mut how = format!(
        "{what}. Read across to a percentile, up to a time. Bars are 95 % intervals over rounds; dotted is no claim."
    );
    if more > 0 {
        how.push_str(&format!(" {more} more in the table of all cases."));
    }
    let batched = series.iter().filter_map(|series| words::batch(series.case)).next();
    if let Some(text) = batched {
        how = format!("{how} {text}");
    }
    let (heads, rows) = numbers(&series);
    page.figure("How slow, for how many?", &how, &draw(&series, &what), &heads, &rows);
}

fn numbers(series: &[Series]) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut heads = vec![String::new()];
    for quantile in &series[0].case.quantiles {
        heads.extend([words::quantile_name(quantile.p), "95 % interval".into()]);
    }
    let rows = series.iter().map(|series| {
        let cells = series.case.quantiles.iter();
        let cells = cells.flat_map(|q| [words::quantile_value(q, G).into(), words::quantile_interval(q, G).into()]);
        std::iter::once(Cell::from(series.label.as_str())).chain(cells).collect()
    });
    (heads, rows.collect())
}

fn draw(series: &[Series], what: &str) -> String {
    let last = series.iter().map(|series| series.end).fold(2.0, f64::max).min(7.0);
    let low = series.iter().filter_map(|series| series.histogram.min()).min().unwrap_or(1).max(1) as f64 * 0.9;
    let high = series.iter().filter_map(|series| series.histogram.max()).max().unwrap_or(1).max(1) as f64 * 1.1;
    let x = Scale::linear((0.0, last), (LEFT, WIDTH - RIGHT));
    let y = Scale::log((low, high), (HEIGHT - BOTTOM, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);

    let claimed = series.iter().map(|series| series.claimed).fold(0.0, f64::max);
    if claimed < last {
        let from = x.at(claimed);
        drawing.rectangle("zone", (from, TOP), (WIDTH - RIGHT - from, HEIGHT - BOTTOM - TOP), 1.0, "");
        let text = if WIDTH - RIGHT - from > 110.0 { "no claim: too few slow messages" } else { "no claim" };
        drawing.text("m", ((from + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM - 8.0), Anchor::Middle, text);
    }
    for tick in time_ticks(low, high) {
        drawing.line("grid", (LEFT, y.at(tick)), (WIDTH - RIGHT, y.at(tick)));
        let (number, unit) = G.time_in(tick, tick);
        let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
        drawing.text("m", (LEFT - 7.0, y.at(tick) + 4.0), Anchor::End, &format!("{number} {unit}"));
    }
    let nines = (1..=last as i32).map(|nines| unstretch(f64::from(nines)));
    for p in [0.0, 0.5].into_iter().chain(nines) {
        let at = x.at(stretch(p));
        drawing.line("grid", (at, TOP), (at, HEIGHT - BOTTOM));
        let name = words::quantile_name(p);
        drawing.text("m", (at, HEIGHT - BOTTOM + 17.0), Anchor::Middle, name.trim_start_matches('p'));
    }
    drawing.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    drawing.text("m", (LEFT, TOP - 9.0), Anchor::Start, "round trip, log scale");
    drawing.text(
        "m",
        ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0),
        Anchor::Middle,
        "percentile of messages (%), stretched toward the tail",
    );

    let mut ends = Vec::new();
    for (at, series) in series.iter().enumerate() {
        let point = |u: f64| {
            let ns = series.histogram.quantile(unstretch(u)).flatten()?;
            Some((x.at(u), y.at(ns as f64)))
        };
        let between = |from: f64, to: f64| -> Vec<(f64, f64)> {
            (0..=POINTS).filter_map(|step| point(from + (to - from) * step as f64 / POINTS as f64)).collect()
        };
        drawing.path(&format!("ln s{at}"), &between(0.0, series.claimed));
        let tail = between(series.claimed, series.end);
        drawing.path(&format!("noclaim t{at}"), &tail);
        ends.push(tail.last().or(between(0.0, series.claimed).last()).map_or(HEIGHT / 2.0, |(_, y)| *y));
        for quantile in &series.case.quantiles {
            let Some(ns) = quantile.ns else { continue };
            // Neighbours are set apart a little, so that their bars can be told from each other.
            let place = x.at(stretch(quantile.p)) + (at as f64 - 1.5) * 3.0;
            if let (true, Some(low), Some(high)) = (quantile.claim, quantile.lo_ns, quantile.hi_ns) {
                drawing.line(&format!("whisker t{at}"), (place, y.at(low as f64)), (place, y.at(high as f64)));
            }
            if stretch(quantile.p) <= series.end {
                let title = format!(
                    "{} {}: {}, {}",
                    series.label,
                    words::quantile_name(quantile.p),
                    G.time(ns as f64),
                    words::quantile_interval(quantile, G)
                );
                drawing.dot(&format!("f{at}"), (place, y.at(ns as f64)), 2.4, &title);
            }
        }
    }
    let places = label_positions(&ends, 15.0, (TOP + 6.0, HEIGHT - BOTTOM));
    for (at, (series, place)) in series.iter().zip(places).enumerate() {
        let from = WIDTH - RIGHT + 8.0;
        drawing.path(&format!("ln s{at}"), &[(from, place - 4.0), (from + 24.0, place - 4.0)]);
        drawing.text(&format!("b f{at}"), (from + 29.0, place), Anchor::Start, &short(&series.label));
    }
    let names: Vec<&str> = series.iter().map(|series| series.label.as_str()).collect();
    drawing.finish(&format!("Round trip against percentile for {} ({what})", names.join(", ")))
}

/// A label that fits beside a picture; the table has the whole name.
pub(crate) fn short(label: &str) -> String {
    const LONGEST: usize = 20;
    if label.chars().count() <= LONGEST {
        label.into()
    } else {
        label.chars().take(LONGEST - 1).chain(['…']).collect()
    }
}
