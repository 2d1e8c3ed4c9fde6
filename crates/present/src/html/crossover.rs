//! Crossover grid: which path, from which size. One panel per thread count; below it the ratio to the baseline.

use msgpath_analyse::summary::{CaseSummary, Comparison};
use msgpath_core::PathName;

use super::G;
use super::page::{Cell, Page};
use super::spectrum::short;
use crate::svg::{Anchor, Drawing, Scale, label_positions, time_ticks};
use crate::view::{self, Grid};
use crate::words;

/// Paths in one panel: as many as there are colours with a dash pattern.
const SERIES: usize = 4;
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 112.0;
const TOP: f64 = 56.0;
const MIDDLE: f64 = 240.0;
const RATIO: f64 = 274.0;
const BOTTOM: f64 = 386.0;

/// The figure; nothing with a single size, or where messages are handed over in pieces.
pub(crate) fn figure(page: &mut Page, grid: &Grid, comparison: &Comparison) {
    if grid.in_pieces() || grid.shapes.len() < 2 {
        return;
    }
    let pictures: String = grid.threads.iter().map(|threads| panel(grid, comparison, *threads)).collect();
    let side = if words::is_time(&comparison.metric) { "below" } else { "above" };
    let mut how = format!(
        "Below each panel: the ratio to {}; {side} the line at 1× is faster. Bands are 95 % intervals. A shaded column is the 95 % interval of the size from which a path pays.",
        comparison.baseline
    );
    if grid.paths.len() > SERIES {
        how.push_str(&format!(" {} more paths are in the tables.", grid.paths.len() - SERIES));
    }
    let heads = ["path", "threads", "against the baseline", "95 % interval"].map(String::from);
    let rows: Vec<Vec<Cell>> = comparison
        .crossovers
        .iter()
        .map(|crossover| {
            let (text, range) = words::crossover(crossover);
            vec![
                crossover.path.to_string().into(),
                crossover.threads.to_string().into(),
                Cell::of("l", text),
                Cell::of("l", range),
            ]
        })
        .collect();
    page.figure("Which path, from which size?", &how, &pictures, &heads, &rows);
}

/// The metric of a case with its interval.
fn metric(case: &CaseSummary, comparison: &Comparison) -> Option<(f64, Option<f64>, Option<f64>)> {
    if words::is_time(&comparison.metric) {
        let median = words::quantile(case, 0.5)?;
        Some((median.ns? as f64, median.lo_ns.map(|ns| ns as f64), median.hi_ns.map(|ns| ns as f64)))
    } else {
        let bits = &case.throughput.as_ref()?.receiver_bits;
        Some((bits.value, bits.low, bits.high))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

/// One line with its band: x, value, low, high.
type Curve = Vec<(f64, f64, Option<f64>, Option<f64>)>;

fn panel(grid: &Grid, comparison: &Comparison, threads: u32) -> String {
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let paths: Vec<&&PathName> = grid.paths.iter().take(SERIES).collect();
    let cases = |path: &PathName| -> Vec<&CaseSummary> {
        grid.shapes.iter().filter_map(|shape| grid.case(path, *shape, threads)).collect()
    };
    let absolute: Vec<Curve> = paths
        .iter()
        .map(|path| {
            let metrics = cases(path).into_iter();
            metrics
                .filter_map(|case| metric(case, comparison).map(|(v, low, high)| (case.case.size as f64, v, low, high)))
                .collect()
        })
        .collect();
    let ratios: Vec<Curve> = paths
        .iter()
        .map(|path| {
            let own = cases(path).into_iter();
            own.filter_map(|case| {
                view::ratio(comparison, case).map(|r| (case.case.size as f64, r.ratio, r.low, r.high))
            })
            .collect()
        })
        .collect();
    let sizes = range(grid.shapes.iter().map(|shape| shape.size as f64)).unwrap_or((1.0, 2.0));
    let Some((low, high)) = range(absolute.iter().flatten().map(|point| point.1)) else { return String::new() };
    let spread = range(ratios.iter().flatten().map(|point| point.1)).unwrap_or((1.0, 1.0));
    let (floor, top) = (spread.0.min(0.75) * 0.9, spread.1.max(1.33) * 1.1);
    let x = Scale::log(sizes, (LEFT, WIDTH - RIGHT));
    let y = Scale::log((low * 0.85, high * 1.15), (MIDDLE, TOP));
    let r = Scale::log((floor, top), (BOTTOM, RATIO));

    crossings(&mut drawing, &paths, comparison, threads, &x);
    axes(&mut drawing, grid, comparison, (&x, &y, &r), (low, high), (floor, top));
    drawing.text("b", (0.0, 13.0), Anchor::Start, &words::counted(u64::from(threads), "thread", G));
    let name = if words::is_time(&comparison.metric) { "p50 round trip (log)" } else { "throughput, bit/s (log)" };
    drawing.text("m", (0.0, TOP - 10.0), Anchor::Start, name);
    drawing.text(
        "m",
        (0.0, RATIO - 10.0),
        Anchor::Start,
        &format!("ratio to {}", short(&comparison.baseline.to_string())),
    );

    let describe = |value: f64| {
        if words::is_time(&comparison.metric) { G.time(value) } else { words::throughput(value, Default::default()) }
    };
    for (curves, scale, is_ratio) in [(&absolute, &y, false), (&ratios, &r, true)] {
        for (at, curve) in curves.iter().enumerate() {
            let banded: Vec<_> =
                curve.iter().filter_map(|(size, _, low, high)| Some((*size, (*low)?, (*high)?))).collect();
            let edge = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
                banded.iter().map(|point| (x.at(point.0), scale.at(pick(point)))).collect()
            };
            drawing.band(&format!("bd f{at}"), &edge(|point| point.2), &edge(|point| point.1));
            let line: Vec<_> = curve.iter().map(|(size, value, ..)| (x.at(*size), scale.at(*value))).collect();
            drawing.path(&format!("ln s{at}"), &line);
            for (size, value, low, high) in curve {
                let print = |value: f64| if is_ratio { format!("{value:.3}") } else { describe(value) };
                let interval = words::interval(*low, *high, print).unwrap_or_else(|| "no interval".into());
                let title = format!("{}, {}: {} ({interval})", paths[at], words::about_size(*size), print(*value));
                drawing.dot(&format!("f{at}"), (x.at(*size), scale.at(*value)), 2.2, &title);
            }
        }
    }
    let ends: Vec<f64> = absolute.iter().map(|curve| curve.last().map_or(TOP, |point| y.at(point.1))).collect();
    for (at, place) in label_positions(&ends, 15.0, (TOP, MIDDLE)).into_iter().enumerate() {
        if !absolute[at].is_empty() {
            drawing.text(
                &format!("b f{at}"),
                (WIDTH - RIGHT + 8.0, place + 4.0),
                Anchor::Start,
                &short(&paths[at].to_string()),
            );
        }
    }
    let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
    drawing.finish(&format!(
        "{} against message size for {} with {threads} threads, and the ratio to the baseline",
        name,
        names.join(", ")
    ))
}

/// Shaded columns and their labels, one per path that starts to pay somewhere.
fn crossings(drawing: &mut Drawing, paths: &[&&PathName], comparison: &Comparison, threads: u32, x: &Scale) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
    let mut row = 13.0;
    for crossover in comparison.crossovers.iter().filter(|crossover| crossover.threads == threads) {
        let Some(at) = paths.iter().position(|path| **path == &crossover.path) else { continue };
        let Some(size) = crossover.size else { continue };
        let from = crossover.low.map_or(left, |low| x.at(low)).clamp(left, right);
        let to = crossover.high.map_or(right, |high| x.at(high)).clamp(left, right);
        drawing.rectangle(&format!("f{at}"), (from, TOP), ((to - from).max(1.0), BOTTOM - TOP), 0.12, "");
        let middle = x.at(size).clamp(left, right);
        drawing.line(&format!("whisker t{at}"), (middle, TOP), (middle, BOTTOM));
        let (text, range) = words::crossover(crossover);
        let range = if range.is_empty() { range } else { format!(" ({range})") };
        drawing.text(
            &format!("f{at}"),
            (WIDTH, row),
            Anchor::End,
            &format!("{} {text}{range}", short(&crossover.path.to_string())),
        );
        row += 15.0;
    }
}

fn axes(
    drawing: &mut Drawing,
    grid: &Grid,
    comparison: &Comparison,
    (x, y, r): (&Scale, &Scale, &Scale),
    (low, high): (f64, f64),
    (floor, top): (f64, f64),
) {
    let right = WIDTH - RIGHT;
    for tick in time_ticks(low * 0.85, high * 1.15) {
        let text = if words::is_time(&comparison.metric) {
            let (number, unit) = G.time_in(tick, tick);
            format!("{} {unit}", trimmed(&number))
        } else {
            let text = words::throughput(tick, Default::default());
            text.split_once(' ').map_or(text.clone(), |(number, unit)| {
                format!("{} {}", trimmed(number), unit.trim_end_matches("bit/s"))
            })
        };
        drawing.line("grid", (LEFT, y.at(tick)), (right, y.at(tick)));
        drawing.text("m", (LEFT - 7.0, y.at(tick) + 4.0), Anchor::End, &text);
    }
    for (value, text) in
        [(0.125, "⅛×"), (0.25, "¼×"), (0.5, "½×"), (1.0, "1×"), (2.0, "2×"), (4.0, "4×"), (8.0, "8×"), (16.0, "16×")]
    {
        if (floor..=top).contains(&value) {
            drawing.line(if value == 1.0 { "axis" } else { "grid" }, (LEFT, r.at(value)), (right, r.at(value)));
            drawing.text("m", (LEFT - 7.0, r.at(value) + 4.0), Anchor::End, text);
        }
    }
    let mut free = f64::MIN;
    for shape in &grid.shapes {
        let at = x.at(shape.size as f64);
        if at > free {
            drawing.text("m", (at, BOTTOM + 17.0), Anchor::Middle, &grid.head(*shape, true));
            free = at + 34.0;
        }
    }
    drawing.text("m", ((LEFT + right) / 2.0, HEIGHT - 6.0), Anchor::Middle, "message size in bytes (log)");
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}
