//! Shape rows: one hump or several? A row for each case, none over another.
//!
//! For the script: `data-shapes` is `{"left", "right", "low", "high", "tall", "rows": [{"case", "base"}]}`: the ends of the axis
//! in pixels and in ns, the height of a row, and the line on which each stands.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::SparseHistogram;
use msgpath_stats::ridge::{Ridge, ridge};

use super::super::G;
use super::super::encode::json_block;
use super::chart::{range, times_between};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, short, some_of};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "shapes",
    heading: "Distribution of times",
    how: "Histograms of log time, fastest case on top; the height is the square root of the count, so that small humps show, and every row has its own scale. Below a row: | median, bars from the quartiles outwards, each step half as many messages, as far as it is a claim.",
    draw: picture,
};

/// Rows at most.
const ROWS: usize = 24;
const WIDTH: f64 = 860.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const ROW: f64 = 68.0;
const RIDGE: f64 = 34.0;

struct Row<'a> {
    case: &'a CaseSummary,
    ridge: Ridge,
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let measured = scene.chosen();
    let all = scene.measured().len();
    let ends = measured
        .iter()
        .flat_map(|case| [case.latency.fastest_ns, case.latency.slowest_ns])
        .flatten()
        .map(|ns| ns.max(1) as f64);
    let Some((low, high)) = range(ends) else { return Drawn::Nothing };
    let mut rows: Vec<Row> = measured
        .into_iter()
        .filter_map(|case| {
            let own = scene.run.rounds.iter().filter(|round| round.case == case.case.id);
            let latency: Vec<&SparseHistogram> = own.map(|round| &round.latency).collect();
            Some(Row { case, ridge: ridge(&latency, (low as u64, high as u64))? })
        })
        .collect();
    if rows.is_empty() {
        return Drawn::Nothing;
    }
    rows.sort_by_key(|row| words::quantile(row.case, 0.5).and_then(|quantile| quantile.ns));
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("message", "message"),
        ("threads", "threads"),
        ("hump", "hump"),
        ("at", "hump_ns"),
        ("share", "hump_share"),
        ("first quartile", "q1_ns"),
        ("third quartile", "q3_ns"),
    ]);
    for row in &rows {
        let quartiles = row.ridge.letters.get(1);
        for (at, hump) in row.ridge.humps.iter().enumerate() {
            data.row([
                row.case.case.path.to_string().into(),
                words::message_at(&row.case.case).into(),
                Datum::count(row.case.case.threads.into()),
                Datum::count(at as u64 + 1),
                Datum::ns(hump.at_ns),
                Datum::Number(hump.share, words::percent(hump.share)),
                Datum::maybe_ns(quartiles.map(|letter| letter.low_ns as f64)),
                Datum::maybe_ns(quartiles.map(|letter| letter.high_ns as f64)),
            ]);
        }
    }
    let mut notes: Vec<String> = Vec::new();
    rows.truncate(ROWS);
    notes.extend(some_of(rows.len(), all));
    notes.extend(rows.iter().find_map(|row| words::batch(row.case)));
    Drawn::Picture(Picture {
        panels: vec![draw(&rows, (low, high), scene.timed().name)],
        after: places(&rows, (low, high)),
        data,
        note: notes.join(" "),
        ..Picture::default()
    })
}

/// Where the rows lie, for the script.
fn places(rows: &[Row], (low, high): (f64, f64)) -> String {
    #[derive(serde::Serialize)]
    struct Place {
        case: u32,
        base: f64,
    }
    #[derive(serde::Serialize)]
    struct Places {
        left: f64,
        right: f64,
        low: f64,
        high: f64,
        tall: f64,
        rows: Vec<Place>,
    }
    let place = |(at, row): (usize, &Row)| Place { case: row.case.case.id, base: base(at) };
    let rows = rows.iter().enumerate().map(place).collect();
    let places = Places { left: LEFT, right: WIDTH - RIGHT, low: low * 0.97, high: high * 1.03, tall: RIDGE, rows };
    json_block("data-shapes", &places)
}

/// The line on which a row stands.
fn base(row: usize) -> f64 {
    TOP + ROW * row as f64 + RIDGE + 18.0
}

/// `time`: what the times are.
fn draw(rows: &[Row], (low, high): (f64, f64), time: &str) -> Svg {
    let bottom = TOP + ROW * rows.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 6.0);
    let x = Scale::log((low * 0.97, high * 1.03), (LEFT, WIDTH - RIGHT));
    for (tick, name) in times_between(low * 0.97, high * 1.03) {
        drawing.line("grid", (x.at(tick), TOP - 6.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), 13.0), Anchor::Middle, &name);
    }
    for (at, Row { case, ridge }) in rows.iter().enumerate() {
        let base = base(at);
        let threads = if case.case.threads > 1 { format!(" ×{}", case.case.threads) } else { String::new() };
        let name = format!("{}{threads}", short(&case.case.path.to_string()));
        drawing.text("", (LEFT - 12.0, base - 12.0), Anchor::End, &name);
        drawing.text("m", (LEFT - 12.0, base + 4.0), Anchor::End, &words::message_at(&case.case));
        let tallest = ridge.bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
        let height = |count: u64| base - RIDGE * (count as f64 / tallest).sqrt();
        let upper: Vec<(f64, f64)> = ridge
            .bins
            .iter()
            .flat_map(|bin| [bin.from_ns, bin.to_ns].map(|ns| (x.at(ns as f64), height(bin.count))))
            .collect();
        let lower: Vec<(f64, f64)> = upper.iter().map(|(x, _)| (*x, base)).collect();
        drawing.band("f1 ridge", &upper, &lower);
        drawing.line("axis", (LEFT, base), (WIDTH - RIGHT, base));
        for (depth, letter) in ridge.letters.iter().enumerate() {
            let (from, to) = (x.at(letter.low_ns as f64), x.at(letter.high_ns as f64));
            let title = format!(
                "{name}: {} to {}, {} of the messages outside on each side",
                G.time(letter.low_ns as f64),
                G.time(letter.high_ns as f64),
                words::percent(letter.outside)
            );
            let half = (5.0 - depth as f64).max(1.0);
            match depth {
                0 => drawing.rectangle("f0", (from - 1.0, base + 2.0), (2.0, 10.0), 1.0, &title),
                _ => drawing.rectangle("f0", (from, base + 7.0 - half), (to - from, 2.0 * half), 0.22, &title),
            }
        }
        if ridge.humps.len() > 1 {
            let mut free = f64::MIN;
            for hump in &ridge.humps {
                // Names that would lie over each other stand in the numbers only.
                if x.at(hump.at_ns) < free {
                    continue;
                }
                free = x.at(hump.at_ns) + 90.0;
                let text = format!("{}: {}", G.time(hump.at_ns), words::percent(hump.share));
                let bin = ridge.bins.iter().find(|bin| (bin.from_ns as f64..bin.to_ns as f64).contains(&hump.at_ns));
                let top = bin.map_or(base, |bin| height(bin.count));
                let (at, anchor) = match x.at(hump.at_ns) {
                    at if at > WIDTH - RIGHT - 40.0 => (WIDTH - RIGHT, Anchor::End),
                    at => (at, Anchor::Middle),
                };
                drawing.text("m", (at, top - 4.0), anchor, &text);
            }
        }
    }
    drawing.finish(&format!(
        "Histograms of the logarithm of the {time} of {}, by median",
        words::counted(rows.len() as u64, "case")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn rows_lie_below_each_other() {
        let (run, summary) = fixture::echo_sizes();
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        insta::assert_snapshot!("shapes", text);
        assert_eq!(text.matches("class=\"f1 ridge\"").count(), 4);
        let (run, summary) = fixture::stream();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
