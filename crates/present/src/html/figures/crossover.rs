//! Crossover grid: which path, from which size. One panel per thread count; below it the ratio to the baseline.

use msgpath_analyse::summary::{CaseSummary, Comparison};
use msgpath_core::{PathName, units};

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, hue, short};
use crate::svg::{Anchor, Drawing, Scale, Svg, escape, label_positions, time_ticks};
use crate::terminal::metric_name;
use crate::view::{self, Grid};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "crossover",
    heading: "Size from which a path pays",
    how: "Below each panel the ratio to the baseline. Bands are 95 % intervals. A shaded column is the 95 % interval of the size from which a path pays.",
    draw: picture,
};

const HEIGHT: f64 = 430.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 112.0;
const TOP: f64 = 56.0;
const MIDDLE: f64 = 240.0;
const RATIO: f64 = 274.0;
const BOTTOM: f64 = 386.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(comparison) = &scene.summary.comparison else { return Drawn::Nothing };
    if grid.in_pieces() || grid.shapes.len() < 2 {
        return Drawn::Nothing;
    }
    let panels = grid.threads.iter().filter_map(|threads| panel(&grid, comparison, *threads)).collect();
    let side = if words::is_time(&comparison.metric) { "below" } else { "above" };
    let mut note = format!("The ratio is to {}; {side} the line at 1× is faster.", comparison.baseline);
    if grid.paths.len() > SERIES {
        note.push_str(&format!(" {} more paths are in the tables.", grid.paths.len() - SERIES));
    }
    let data = numbers(scene, &grid, comparison);
    let mut after = String::from("<ul class=\"mut\">\n");
    for crossover in &comparison.crossovers {
        let crossing = words::crossover(&crossover.crossing, grid.sizes());
        let details = match crossing.details() {
            details if details.is_empty() => details,
            details => format!(" ({details})"),
        };
        let threads = words::counted(u64::from(crossover.threads), "thread");
        let text = format!("{}, {threads}: {}{details}", crossover.path, crossing.text);
        after += &format!("<li>{}</li>\n", escape(&text));
    }
    after += "</ul>\n";
    Drawn::Picture(Picture { panels, data, note, after, ..Picture::default() })
}

/// Every point of the panels.
fn numbers(scene: &Scene<'_>, grid: &Grid, comparison: &Comparison) -> DataTable {
    let time = words::is_time(&comparison.metric);
    let mut data = DataTable::new(&[("path", "path"), ("threads", "threads"), ("size", "size_bytes")]);
    let name = comparison.metric.as_str();
    let unit = if time { "ns" } else { "bit_per_s" };
    for (shown, saved) in
        [(name, name.to_owned()), ("range from", format!("{name}_low")), ("to", format!("{name}_high"))]
    {
        data.head(shown, format!("{saved}_{unit}"));
    }
    for (shown, saved) in [("ratio", "ratio"), ("95 % from", "ratio_low"), ("to", "ratio_high")] {
        data.head(shown, saved);
    }
    let show = |value: f64| {
        if time { Datum::ns(value) } else { Datum::Number(value, words::throughput(value, Default::default())) }
    };
    for case in scene.measured().into_iter().filter(|case| grid.paths.contains(&&case.case.path)) {
        let Some((value, low, high)) = metric(case, comparison) else { continue };
        let ratio = view::ratio(comparison, case);
        let of = |value: Option<f64>| value.map_or(Datum::Missing, Datum::number);
        data.row([
            case.case.path.to_string().into(),
            Datum::count(u64::from(case.case.threads)),
            Datum::Number(case.case.size as f64, units::size(case.case.size)),
            show(value),
            low.map_or(Datum::Missing, show),
            high.map_or(Datum::Missing, show),
            of(ratio.map(|ratio| ratio.ratio)),
            of(ratio.and_then(|ratio| ratio.low)),
            of(ratio.and_then(|ratio| ratio.high)),
        ]);
    }
    data
}

/// The metric of a case with its interval: value, low, high.
fn metric(case: &CaseSummary, comparison: &Comparison) -> Option<(f64, Option<f64>, Option<f64>)> {
    let quantile = |p: f64| {
        let found = words::quantile(case, p)?;
        Some((found.ns? as f64, found.lo_ns.map(|ns| ns as f64), found.hi_ns.map(|ns| ns as f64)))
    };
    match comparison.metric.as_str() {
        "p50" => quantile(0.5),
        "p99" => quantile(0.99),
        "mean" => Some((case.latency.mean_ns?, None, None)),
        "cpu" => Some((case.cpu_ns()?, None, None)),
        _ => {
            let bits = &case.throughput.as_ref()?.receiver_bits;
            Some((bits.value, bits.low, bits.high))
        }
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

/// Values and what an axis shows of their intervals: an end that is far away must not flatten the rest.
fn reach(curves: &[Curve]) -> impl Iterator<Item = f64> {
    let points = curves.iter().flatten();
    points.flat_map(|(_, value, low, high)| {
        [*value, low.unwrap_or(*value).max(value / 3.0), high.unwrap_or(*value).min(value * 3.0)]
    })
}

/// Of a panel: one that stands alone is as wide as the page.
fn width(grid: &Grid) -> f64 {
    if grid.threads.len() == 1 { 1100.0 } else { 540.0 }
}

fn panel(grid: &Grid, comparison: &Comparison, threads: u32) -> Option<Svg> {
    let mut drawing = Drawing::new(width(grid), HEIGHT);
    drawing.attribute("data-paths", "");
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
    let (low, high) = range(reach(&absolute))?;
    let spread = range(reach(&ratios)).unwrap_or((1.0, 1.0));
    let (floor, top) = (spread.0.min(0.75) * 0.9, spread.1.max(1.33) * 1.1);
    let x = Scale::log(sizes, (LEFT, width(grid) - RIGHT));
    let y = Scale::log((low * 0.85, high * 1.15), (MIDDLE, TOP));
    let r = Scale::log((floor, top), (BOTTOM, RATIO));

    crossings(&mut drawing, &paths, comparison, grid, threads, &x);
    axes(&mut drawing, grid, comparison, (&x, &y, &r), (low, high), (floor, top));
    drawing.text("b", (0.0, 13.0), Anchor::Start, &words::counted(u64::from(threads), "thread"));
    let name = format!("{}, log scale", metric_name(&comparison.metric, grid.timed()));
    drawing.text("m", (0.0, TOP - 10.0), Anchor::Start, &name);
    drawing.text(
        "m",
        (0.0, RATIO - 10.0),
        Anchor::Start,
        &format!("ratio to {}", short(&comparison.baseline.to_string())),
    );

    let describe = |value: f64| {
        if words::is_time(&comparison.metric) { G.time(value) } else { words::throughput(value, Default::default()) }
    };
    let ends = [(low * 0.85, high * 1.15), (floor, top)];
    for ((curves, scale, is_ratio), (least, most)) in
        [(&absolute, &y, false), (&ratios, &r, true)].into_iter().zip(ends)
    {
        for (at, curve) in curves.iter().enumerate() {
            let colour = hue(at);
            let banded: Vec<_> =
                curve.iter().filter_map(|(size, _, low, high)| Some((*size, (*low)?, (*high)?))).collect();
            let edge = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
                banded.iter().map(|point| (x.at(point.0), scale.at(pick(point).clamp(least, most)))).collect()
            };
            drawing.band(&format!("bd f{colour}"), &edge(|point| point.2), &edge(|point| point.1));
            let line: Vec<_> = curve.iter().map(|(size, value, ..)| (x.at(*size), scale.at(*value))).collect();
            drawing.path(&format!("ln s{colour}"), &line);
            for (size, value, low, high) in curve {
                let print = |value: f64| if is_ratio { format!("{value:.3}") } else { describe(value) };
                let interval = words::ends(*low, *high, print).unwrap_or_else(|| "no interval".into());
                let title = format!("{}, {}: {} ({interval})", paths[at], units::size(*size as u64), print(*value));
                drawing.dot(&format!("f{colour}"), (x.at(*size), scale.at(*value)), 2.2, &title);
            }
        }
    }
    let ends: Vec<f64> = absolute.iter().map(|curve| curve.last().map_or(TOP, |point| y.at(point.1))).collect();
    for (at, place) in label_positions(&ends, 15.0, (TOP, MIDDLE)).into_iter().enumerate() {
        if !absolute[at].is_empty() {
            drawing.text(
                &format!("b name f{}", hue(at)),
                (width(grid) - RIGHT + 8.0, place + 4.0),
                Anchor::Start,
                &short(&paths[at].to_string()),
            );
        }
    }
    let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
    Some(drawing.finish(&format!(
        "{} against message size for {} with {threads} threads, and the ratio to the baseline",
        name,
        names.join(", ")
    )))
}

/// Shaded columns and their labels, one per path that starts to pay somewhere.
fn crossings(
    drawing: &mut Drawing,
    paths: &[&&PathName],
    comparison: &Comparison,
    grid: &Grid,
    threads: u32,
    x: &Scale,
) {
    let (left, right) = (LEFT, width(grid) - RIGHT);
    let mut row = 13.0;
    for crossover in comparison.crossovers.iter().filter(|crossover| crossover.threads == threads) {
        let Some(at) = paths.iter().position(|path| **path == &crossover.path) else { continue };
        let Some(size) = crossover.crossing.size else { continue };
        let at = hue(at);
        let from = crossover.crossing.low.map_or(left, |low| x.at(low)).clamp(left, right);
        let to = crossover.crossing.high.map_or(right, |high| x.at(high)).clamp(left, right);
        drawing.rectangle(&format!("f{at}"), (from, TOP), ((to - from).max(1.0), BOTTOM - TOP), 0.12, "");
        let middle = x.at(size).clamp(left, right);
        drawing.line(&format!("whisker t{at}"), (middle, TOP), (middle, BOTTOM));
        let words::Crossing { text, range, .. } = words::crossover(&crossover.crossing, grid.sizes());
        let range = if range.is_empty() { range } else { format!(" ({range})") };
        drawing.text(
            &format!("f{at}"),
            (width(grid), row),
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
    let right = width(grid) - RIGHT;
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
    // The line at 1 first, then as many others as have room.
    let wide: &[f64] = &[0.03125, 0.0625, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0, 16.0, 32.0];
    let narrow: &[f64] = &[0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5, 3.0];
    let others = if top / floor < 4.0 { narrow } else { wide };
    let mut drawn = vec![r.at(1.0)];
    for value in std::iter::once(&1.0).chain(others).filter(|value| (floor..=top).contains(*value)) {
        let at = r.at(*value);
        if *value != 1.0 && drawn.iter().any(|other| (other - at).abs() < 15.0) {
            continue;
        }
        drawn.push(at);
        drawing.line(if *value == 1.0 { "axis" } else { "grid" }, (LEFT, at), (right, at));
        drawing.text("m", (LEFT - 7.0, at + 4.0), Anchor::End, &format!("{value}×"));
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
