//! Side-by-side bars: one panel per size, one bar per path, from 0.

use msgpath_analyse::summary::CaseSummary;

use super::super::G;
use super::chart::rate_text;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, hue, short};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::view::{Grid, Shape};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "bars",
    heading: "Median of each path, by message size",
    how: "Bars begin at 0 and no axis is broken, so lengths can be compared. Lines are 95 % intervals over rounds.",
    draw: picture,
};

/// Panels at most; the rest is in the numbers.
const PANELS: usize = 12;
const WIDTH: f64 = 340.0;
const LEFT: f64 = 132.0;
const RIGHT: f64 = 74.0;
const ROW: f64 = 22.0;
const TOP: f64 = 24.0;

/// A length with its interval, and how it is printed.
struct Bar {
    name: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    text: String,
}

fn bar(case: &CaseSummary) -> Option<Bar> {
    let name = case.case.path.to_string();
    if let Some(throughput) = &case.throughput {
        let bits = &throughput.receiver_bits;
        let text = rate_text(case)(bits.value);
        return Some(Bar { name, value: bits.value, low: bits.low, high: bits.high, text });
    }
    let p50 = words::quantile(case, 0.5)?;
    let end = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let (low, high, text) = (end(p50.lo_ns), end(p50.hi_ns), words::quantile_value(p50, G));
    Some(Bar { name, value: p50.ns? as f64, low, high, text })
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let grid = scene.grid();
    let Some(threads) = grid.threads.first().copied().filter(|_| grid.paths.len() > 1) else { return Drawn::Nothing };
    let is_stream = scene.measured().iter().any(|case| case.throughput.is_some());
    let (what, saved) = if is_stream {
        ("throughput".to_owned(), "bits_per_s")
    } else {
        (format!("median {}", scene.timed().name), "p50_ns")
    };
    // One scale for all panels, unless the shortest would be too short to be seen.
    let longest = |shape: &Shape| longest(&bars_of(&grid, *shape, threads));
    let all: Vec<f64> = grid.shapes.iter().take(PANELS).map(longest).filter(|longest| *longest > 0.0).collect();
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(least, most), own| (least.min(*own), most.max(*own)));
    let scale = (most <= 6.0 * least).then_some(most);
    let width = if all.len() == 1 { 860.0 } else { WIDTH };
    let shapes = grid.shapes.iter().take(PANELS);
    let panels: Vec<Svg> = shapes.filter_map(|shape| panel(&grid, *shape, threads, &what, (width, scale))).collect();
    if panels.is_empty() {
        return Drawn::Nothing;
    }
    let mut note = match (all.len(), scale) {
        (1, _) => String::new(),
        (_, Some(_)) => "All panels have one scale. ".to_owned(),
        (_, None) => {
            "Every panel has a scale of its own: from panel to panel only the numbers can be compared. ".into()
        }
    };
    note += &format!("The {what} with {}.", words::counted(threads.into(), "thread"));
    if is_stream {
        note.push_str(" Longer is better.");
    } else {
        note.push_str(" Shorter is better.");
    }
    if grid.shapes.len() > PANELS {
        note.push_str(&format!(" The first {PANELS} sizes; the others are in the numbers below."));
    }
    let mut data = DataTable::new(&[("path", "path"), ("message", "message"), ("threads", "threads")]);
    data.head(what.clone(), saved);
    data.head("from", format!("low_{saved}"));
    data.head("to", format!("high_{saved}"));
    for case in scene.measured() {
        let Some(bar) = bar(case) else { continue };
        let datum = |value: Option<f64>| match value {
            Some(value) if is_stream => Datum::Number(value, rate_text(case)(value)),
            other => Datum::maybe_ns(other),
        };
        data.row([
            bar.name.into(),
            words::message_at(&case.case).into(),
            Datum::count(case.case.threads.into()),
            datum(Some(bar.value)),
            datum(bar.low),
            datum(bar.high),
        ]);
    }
    Drawn::Picture(Picture { panels, data, note, ..Picture::default() })
}

fn bars_of(grid: &Grid, shape: Shape, threads: u32) -> Vec<Bar> {
    grid.paths.iter().filter_map(|path| bar(grid.case(path, shape, threads)?)).collect()
}

/// The longest bar. An interval that reaches further than three bars is cut, so that it does not flatten them.
fn longest(bars: &[Bar]) -> f64 {
    bars.iter().flat_map(|bar| [bar.value, bar.high.unwrap_or(0.0).min(3.0 * bar.value)]).fold(0.0, f64::max)
}

fn panel(grid: &Grid, shape: Shape, threads: u32, what: &str, (width, scale): (f64, Option<f64>)) -> Option<Svg> {
    let bars = bars_of(grid, shape, threads);
    let longest = scale.unwrap_or_else(|| longest(&bars));
    if longest <= 0.0 {
        return None;
    }
    let height = TOP + ROW * bars.len() as f64 + 6.0;
    let mut drawing = Drawing::new(width, height);
    drawing.attribute("data-paths", "");
    let x = Scale::linear((0.0, longest), (LEFT, width - RIGHT));
    drawing.text("b", (0.0, 13.0), Anchor::Start, &grid.head(shape, false));
    drawing.text("m", (LEFT, 13.0), Anchor::Middle, "0");
    for (at, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * at as f64;
        let title = format!("{}: {}", bar.name, bar.text);
        drawing.text("m", (LEFT - 8.0, y + 14.0), Anchor::End, &short(&bar.name));
        drawing.rectangle(&format!("f{}", hue(at)), (LEFT, y + 4.0), (x.at(bar.value) - LEFT, ROW - 9.0), 0.75, &title);
        if let (Some(low), Some(high)) = (bar.low, bar.high) {
            let middle = y + 4.0 + (ROW - 9.0) / 2.0;
            let end_of_axis = x.at(longest);
            drawing.line("axis", (x.at(low), middle), (x.at(high).min(end_of_axis), middle));
            for end in [low, high].into_iter().filter(|end| *end <= longest) {
                drawing.line("axis", (x.at(end), middle - 3.5), (x.at(end), middle + 3.5));
            }
        }
        drawing.text("", (width - RIGHT + 6.0, y + 14.0), Anchor::Start, &bar.text);
    }
    drawing.line("axis", (LEFT, TOP), (LEFT, height - 4.0));
    let names: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.name, bar.text)).collect();
    Some(drawing.finish(&format!("The {what} at {}: {}", grid.head(shape, false), names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn times_and_throughputs() {
        let (run, summary) = fixture::compare();
        insta::assert_snapshot!("bars-echo", drawn(&FIGURE, &Scene::new(&run, &summary)));
        let (run, summary) = fixture::shapes();
        insta::assert_snapshot!("bars-stream", drawn(&FIGURE, &Scene::new(&run, &summary)));
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
