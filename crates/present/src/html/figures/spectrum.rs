//! Percentile spectrum: how slow, for how many. x is the percentile stretched to the tail, y the time, logarithmic.
//!
//! For the script: `data-spectrum` is `{"names", "range": {"low", "high"}, "s": [[[u, value, low, high], ...], ...]}`, times in ns, null where there
//! is not bounded from above; the SVG has `data-geo` `{"w", "h", "left", "right", "top", "bottom", "end"}`, `end` on the stretched axis.

use msgpath_analyse::spectrum::{Place, spectrum};
use msgpath_analyse::summary::CaseSummary;

use super::super::G;
use super::super::encode::json_block;
use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, chosen, hue, short, time_ticks_left};
use crate::svg::{Anchor, Drawing, Scale, Svg, label_positions, stretch, unstretch};
use crate::words;
use msgpath_core::workload::Duration;

pub(super) const FIGURE: Figure = Figure {
    name: "spectrum",
    heading: "Percentiles",
    how: "Read across to a percentile, up to a time. Bands are 95 % intervals over rounds, or the wider range of what levels, drift or few rounds leave open; dotted is not bounded from above. Beyond a factor of 3 a band is cut; an arrow says that it goes on.",
    draw: picture,
};

/// Bands that can be told apart where they overlap.
const BANDS: usize = 2;
/// Ranges are drawn up to so many times their value, and down to as small a part of it.
const CUT: u64 = 3;
/// The longest axis, as `-log10(1 - p)`.
const LONGEST: f64 = 6.0;
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

struct Series<'a> {
    label: String,
    /// Position of the series of which this is the earlier run.
    of: Option<usize>,
    case: &'a CaseSummary,
    places: Vec<Place>,
}

impl Series<'_> {
    /// The last place whose range has both ends, on the stretched axis.
    fn bounded(&self) -> f64 {
        self.places.iter().filter(|place| bounded(place)).map(|place| place.u).fold(0.0, f64::max)
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, what) = chosen(scene.summary, &cases);
    let more = shown.len().saturating_sub(SERIES);
    let messages = shown.iter().map(|(_, case)| case.messages).max().unwrap_or(0).max(1) as f64;
    let end = messages.log10().clamp(2.0, LONGEST);
    let series: Vec<Series> = shown
        .into_iter()
        .take(SERIES)
        .map(|(label, case)| Series { label, of: None, case, places: spectrum(scene.run, case, end) })
        .filter(|series| !series.places.is_empty())
        .collect();
    let before: Vec<Series> = scene.earlier.iter().flat_map(|earlier| before(earlier, &series, end)).collect();
    let series: Vec<Series> = series.into_iter().chain(before).collect();
    if series.is_empty() {
        return Drawn::Nothing;
    }
    let mut note = format!("{what}.");
    if series.len() > BANDS {
        note += &format!(" Bands of the first {BANDS} only; points tell the intervals of all.");
    }
    for series in series.iter().filter(|series| series.bounded() == 0.0) {
        if let Some(why) = series.case.latency.quantiles.iter().find_map(|quantile| quantile.why.as_ref()) {
            note += &format!(" {} is not bounded from above: {why}.", series.label);
        }
    }
    if more > 0 {
        note += &format!(" {more} more in the table of all cases.");
    }
    if let Some(text) = series.iter().find_map(|series| words::batch(series.case)) {
        note = format!("{note} {text}");
    }
    let panels = vec![draw(&series, &what, end, scene.timed())];
    Drawn::Picture(Picture { panels, data: numbers(&series), note, after: read_off(&series), ..Picture::default() })
}

/// The same cases in the run that this one is compared with.
fn before<'a>(earlier: &super::super::scene::Earlier<'a>, later: &[Series], end: f64) -> Vec<Series<'a>> {
    let same = |case: &CaseSummary, other: &CaseSummary| {
        let (a, b) = (&case.case, &other.case);
        a.path == b.path && a.size == b.size && a.pieces == b.pieces && a.threads == b.threads && a.role == b.role
    };
    let of = |(at, series): (usize, &Series)| {
        let case = earlier.summary.cases.iter().find(|case| same(case, series.case))?;
        let label = format!("{}, earlier", series.label);
        Some(Series { label, of: Some(at), case, places: spectrum(earlier.run, case, end) })
    };
    let same: Vec<Series> =
        later.iter().enumerate().filter_map(of).filter(|series| !series.places.is_empty()).collect();
    if !same.is_empty() {
        return same;
    }
    // No case in common: what the earlier run measured stands beside it.
    let measured = crate::view::measured(earlier.summary);
    let other = |case: &&'a CaseSummary| Series {
        label: format!("{}, earlier", case.case.path),
        of: None,
        case,
        places: spectrum(earlier.run, case, end),
    };
    measured.iter().map(other).filter(|series| !series.places.is_empty()).take(SERIES / 2).collect()
}

/// The numbers for the read-off line of the script.
fn read_off(series: &[Series]) -> String {
    /// Place on the stretched axis, value and interval.
    type Spot = (f64, Option<u64>, Option<u64>, Option<u64>);
    #[derive(serde::Serialize)]
    struct ReadOff<'a> {
        names: Vec<&'a str>,
        /// Ends of the axis of times, ns.
        range: Ends,
        s: Vec<Vec<Spot>>,
    }
    #[derive(serde::Serialize)]
    struct Ends {
        low: f64,
        high: f64,
    }
    let (low, high) = times(series);
    let places = |series: &Series| {
        let place = |place: &Place| {
            let u = (place.u * 1e4).round() / 1e4;
            (u, place.quantile.ns, place.quantile.lo_ns, place.quantile.hi_ns)
        };
        series.places.iter().map(place).collect()
    };
    let names = series.iter().map(|series| series.label.as_str()).collect();
    let range = Ends { low, high };
    json_block("data-spectrum", &ReadOff { names, range, s: series.iter().map(places).collect() })
}

fn numbers(series: &[Series]) -> DataTable {
    let mut table = DataTable::new(&[("", "series")]);
    for quantile in &series[0].case.latency.quantiles {
        let name = words::quantile_name(quantile.p);
        table.head(name.clone(), format!("{name}_ns"));
        table.head("from", format!("{name}_low_ns"));
        table.head("to", format!("{name}_high_ns"));
    }
    for series in series {
        let quantiles = series.case.latency.quantiles.iter();
        let cells = quantiles.flat_map(|q| {
            let value = Datum::maybe_ns(q.observed().map(|ns| ns as f64));
            let [low, high] = [q.lo_ns, q.hi_ns].map(|ns| Datum::maybe_ns(ns.map(|ns| ns as f64)));
            [value, low, high]
        });
        table.row(std::iter::once(Datum::from(series.label.as_str())).chain(cells));
    }
    table
}

/// The ends of the axis of times, ns.
fn times(series: &[Series]) -> (f64, f64) {
    let values = || series.iter().flat_map(|series| &series.places).map(|place| &place.quantile);
    let low = values().filter_map(|quantile| quantile.ns).min().unwrap_or(1).max(1) as f64 * 0.9;
    let high = values().filter_map(|quantile| quantile.ns).max().unwrap_or(1).max(1) as f64 * 1.3;
    (low, high)
}

fn draw(series: &[Series], what: &str, end: f64, time_is: Duration) -> Svg {
    let (low, high) = times(series);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = Scale::linear((0.0, end), (LEFT, right));
    let y = Scale::log((low, high), (bottom, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    drawing.attribute("data-paths", "");
    drawing.attribute(
        "data-geo",
        &format!("{{\"w\":{WIDTH},\"h\":{HEIGHT},\"left\":{LEFT},\"right\":{right},\"top\":{TOP},\"bottom\":{bottom},\"end\":{end:.4}}}"),
    );
    let bounded = series.iter().map(Series::bounded).fold(0.0, f64::max);
    if bounded < end {
        let from = x.at(bounded);
        drawing.rectangle("zone", (from, TOP), (right - from, bottom - TOP), 1.0, "");
        // Why differs from run to run; the table of all cases says it.
        if right - from > 80.0 {
            drawing.text("m", (right - 5.0, bottom - 8.0), Anchor::End, "no upper end");
        }
    }
    time_ticks_left(&mut drawing, (low, high), &y, LEFT, right);
    let nines = (1..=end as i32).map(|nines| unstretch(f64::from(nines)));
    for p in [0.0, 0.5].into_iter().chain(nines) {
        let at = x.at(stretch(p));
        drawing.line("grid", (at, TOP), (at, bottom));
        drawing.text("m", (at, bottom + 17.0), Anchor::Middle, words::quantile_name(p).trim_start_matches('p'));
    }
    drawing.line("axis", (LEFT, bottom), (right, bottom));
    drawing.text("m", (0.0, 13.0), Anchor::Start, &format!("{}, log scale", time_is.name));
    let name = "percentile of messages (%), stretched toward the tail";
    drawing.text("m", ((LEFT + right) / 2.0, HEIGHT - 6.0), Anchor::Middle, name);

    for (at, series) in series.iter().enumerate().take(BANDS) {
        let at = hue(series.of.unwrap_or(at));
        band(&mut drawing, at, &series.places, &x, &y);
    }
    let mut ends = Vec::new();
    for (at, series) in series.iter().enumerate() {
        let at = hue(series.of.unwrap_or(at));
        let was = if series.of.is_some() { " was" } else { "" };
        let point = |place: &Place| Some((x.at(place.u), y.at(place.quantile.ns? as f64)));
        for (bounded, piece) in pieces(&series.places) {
            let class = if bounded { format!("ln s{at}{was}") } else { format!("noclaim t{at}{was}") };
            drawing.path(&class, &piece.iter().filter_map(point).collect::<Vec<_>>());
        }
        ends.push(series.places.iter().rev().find_map(point).map_or(HEIGHT / 2.0, |(_, y)| y));
        for quantile in &series.case.latency.quantiles {
            let Some(ns) = quantile.observed().filter(|_| stretch(quantile.p) <= end + 1e-9) else { continue };
            let name = words::quantile_name(quantile.p);
            let range = words::quantile_range(quantile, G);
            let title = format!("{} {name}: {}, {range}", series.label, G.time(ns as f64));
            drawing.dot(&format!("f{at}"), (x.at(stretch(quantile.p)), y.at(ns as f64)), 2.6, &title);
        }
    }
    let places = label_positions(&ends, 15.0, (TOP + 6.0, bottom));
    for (at, (series, place)) in series.iter().zip(places).enumerate() {
        let at = hue(series.of.unwrap_or(at));
        let (was, name) = if series.of.is_some() { (" was", "") } else { ("", "b name ") };
        drawing.path(&format!("ln s{at}{was}"), &[(right + 6.0, place - 4.0), (right + 24.0, place - 4.0)]);
        drawing.text(&format!("{name}f{at}"), (right + 29.0, place), Anchor::Start, &short(&series.label));
    }
    let names: Vec<&str> = series.iter().map(|series| series.label.as_str()).collect();
    drawing.finish(&format!(
        "{} against percentile for {} ({what}); the table has the numbers",
        time_is.many,
        names.join(", ")
    ))
}

fn bounded(place: &Place) -> bool {
    place.quantile.lo_ns.is_some() && place.quantile.hi_ns.is_some()
}

/// Runs of places with both ends and of such without; neighbouring runs share a place, so that the line is whole.
fn pieces(places: &[Place]) -> Vec<(bool, &[Place])> {
    let mut out = Vec::new();
    let mut from = 0;
    for at in 1..places.len() {
        // The fastest message has no range by itself: the line starts as it goes on.
        let both = bounded(&places[at]);
        if at + 1 == places.len() || bounded(&places[at + 1]) != both {
            out.push((both, &places[from..=at]));
            from = at;
        }
    }
    out
}

/// The ranges, in as many pieces as there are. A quantile grows with the percentile, so do the ends of its range.
fn band(drawing: &mut Drawing, at: usize, places: &[Place], x: &Scale, y: &Scale) {
    for (both, piece) in pieces(places) {
        if !both {
            continue;
        }
        let own: Vec<&Place> = piece.iter().filter(|place| bounded(place)).collect();
        let mut high = 0;
        let upper: Vec<(f64, f64)> = own
            .iter()
            .map(|place| {
                let cut = place.quantile.ns.unwrap_or(u64::MAX).saturating_mul(CUT);
                high = high.max(place.quantile.hi_ns.unwrap_or(1).min(cut));
                (x.at(place.u), y.at(high as f64).max(TOP))
            })
            .collect();
        let mut low = u64::MAX;
        let mut lower: Vec<(f64, f64)> = own
            .iter()
            .rev()
            .map(|place| {
                low = low.min(place.quantile.lo_ns.unwrap_or(1).max(place.quantile.ns.unwrap_or(1) / CUT));
                (x.at(place.u), y.at(low as f64))
            })
            .collect();
        lower.reverse();
        drawing.band(&format!("bd f{at}"), &upper, &lower);
        // Where the range goes on beyond what is drawn, an arrow says so.
        let beyond = |place: &&&Place| match (place.quantile.hi_ns, place.quantile.ns) {
            (Some(high), Some(ns)) => high > ns.saturating_mul(CUT),
            _ => false,
        };
        for place in own.iter().filter(beyond).step_by(12) {
            let (x, top) = (x.at(place.u), y.at((place.quantile.ns.unwrap_or(1) * CUT) as f64).max(TOP));
            let head = [(x - 3.5, top + 1.0), (x, top - 5.0), (x + 3.5, top + 1.0)];
            drawing.band(&format!("f{at}"), &head, &[(x - 3.5, top + 1.0), (x, top + 1.0), (x + 3.5, top + 1.0)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use msgpath_stats::quantile::Quantile;

    #[test]
    fn one_path_and_several() {
        let (run, summary) = crate::fixture::echo();
        insta::assert_snapshot!("spectrum", drawn(&FIGURE, &Scene::new(&run, &summary)));
        let (run, summary) = crate::fixture::compare();
        let several = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert_eq!(
            (several.matches("class=\"ln s2\"").count() > 1, several.matches("class=\"bd f2\"").count()),
            (true, 0)
        );
        assert!(several.contains("Bands of the first 2 only"), "{several}");
    }

    #[test]
    fn a_line_changes_where_the_upper_end_goes_and_has_no_gap() {
        let place = |(at, both): (usize, bool)| Place {
            u: at as f64,
            quantile: Quantile { p: 0.5, ns: Some(1), lo_ns: Some(1), hi_ns: both.then_some(1), ..Quantile::default() },
        };
        let places: Vec<Place> = [false, true, true, false, true].into_iter().enumerate().map(place).collect();
        let cut: Vec<(bool, f64, f64)> =
            pieces(&places).into_iter().map(|(both, piece)| (both, piece[0].u, piece[piece.len() - 1].u)).collect();
        assert_eq!(cut, [(true, 0.0, 2.0), (false, 2.0, 3.0), (true, 3.0, 4.0)]);
        assert!(pieces(&places[..1]).is_empty());
    }
}
