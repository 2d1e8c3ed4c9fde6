//! Latency heat map: when was it slow, and is there more than one speed?
//!
//! For the script: `data-heat` is `{"maps": [{"case", "name", "rows", "low", "high", "columns": [{"from", "to", "lost",
//! "first", "counts"}]}]}`, times in ns; `counts` starts at row `first` from the bottom. The SVG at the same position has
//! `data-geo` `{"w", "h", "left", "right", "top", "bottom"}` in its own units.

use msgpath_analyse::heat::{Column, Heat, ROWS, extent, heat};
use msgpath_core::units::three_digits;
use serde::Serialize;

use super::super::encode::{base64, json_block};
use super::super::png;
use super::{DataTable, Datum, Drawn, Figure, Picture, SERIES, Scene, chosen, round_axis};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::words;
use msgpath_core::workload::Duration;

pub(super) const FIGURE: Figure = Figure {
    name: "heat",
    heading: "Times over the run",
    how: "Every message is in one cell; the stronger the colour, the more messages. Lines: p50 and p99 of each column. \
          A click on a cell shows its messages in the timeline.",
    draw: picture,
};

/// The picture; the strips below share its width and margins.
pub(super) const WIDTH: f64 = 1132.0;
pub(super) const LEFT: f64 = 76.0;
pub(super) const RIGHT: f64 = 104.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 40.0;

/// From few messages to many, on white and on black.
const LIGHT: [[u8; 3]; 6] = [
    [0x8f, 0xc1, 0xe3],
    [0x5f, 0xa6, 0xd4],
    [0x3b, 0x8b, 0xc2],
    [0x17, 0x64, 0xab],
    [0x08, 0x30, 0x6b],
    [0x04, 0x1a, 0x3d],
];
const DARK: [[u8; 3]; 6] = [
    [0x3f, 0x5a, 0x8f],
    [0x5a, 0x6f, 0x86],
    [0x7d, 0x7d, 0x78],
    [0xa5, 0x9a, 0x6f],
    [0xcf, 0xbd, 0x62],
    [0xff, 0xea, 0x46],
];
/// Colours of a palette; index 0 is an empty cell.
const SHADES: u64 = 63;

#[derive(Serialize)]
struct Map<'a> {
    case: u32,
    name: &'a str,
    rows: usize,
    low: f64,
    high: f64,
    columns: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    from: u64,
    to: u64,
    lost: u64,
    first: usize,
    counts: &'a [u64],
}

#[derive(Serialize)]
struct Maps<'a> {
    maps: Vec<Map<'a>>,
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, common) = chosen(scene.summary, &cases);
    let more = shown.len().saturating_sub(SERIES);
    let drawn: Vec<u32> = shown.iter().take(SERIES).map(|(_, case)| case.case.id).collect();
    // One scale for all of them.
    let within = extent(scene.run, &drawn);
    let maps: Vec<(String, u32, Heat)> = shown
        .into_iter()
        .take(SERIES)
        .filter_map(|(label, case)| {
            Some((label, case.case.id, heat(scene.run, case.case.id, scene.messages.logged, within)?))
        })
        .collect();
    let Some((_, _, first)) = maps.first() else { return Drawn::Nothing };
    let rounds = cases.iter().map(|case| case.rounds).max().unwrap_or(0);
    let mut note = match (first.cut, first.columns.len() as u64) {
        (cut @ 2.., _) => format!("A column is 1/{cut} of a round."),
        (_, columns) if columns < rounds => format!("A column is {} rounds.", rounds.div_ceil(columns)),
        _ => "A column is a round.".to_owned(),
    };
    if maps.len() > 1 {
        note +=
            " Each picture has the rounds of its case only, one after the other; the time between them is left out.";
    }
    if maps.len() > 1 && !common.is_empty() {
        note += &format!(" {common}.");
    }
    if more > 0 {
        note += &format!(" {} not shown.", words::counted(more as u64, "more case"));
    }
    let height = match maps.len() {
        1 => 320.0,
        2..=4 => 220.0,
        _ => 160.0,
    };
    let time_is = scene.timed();
    let panels = maps.iter().map(|(label, _, heat)| draw(heat, label, (height, maps.len() > 1), time_is)).collect();
    let blocks = Maps { maps: maps.iter().map(|(name, case, heat)| map(name, *case, heat)).collect() };
    Drawn::Picture(Picture {
        panels,
        data: numbers(&maps),
        note,
        after: json_block("data-heat", &blocks),
        ..Picture::default()
    })
}

fn map<'a>(name: &'a str, case: u32, heat: &'a Heat) -> Map<'a> {
    let block = |column: &'a Column| {
        let first = column.counts.iter().position(|count| *count > 0).unwrap_or(0);
        let end = column.counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        let (from, to, lost) = (column.from_ns, column.to_ns, column.lost);
        Block { from, to, lost, first, counts: &column.counts[first..end] }
    };
    let columns = heat.columns.iter().map(block).collect();
    Map { case, name, rows: ROWS, low: heat.low_ns, high: heat.high_ns, columns }
}

fn numbers(maps: &[(String, u32, Heat)]) -> DataTable {
    let mut table = DataTable::new(&[
        ("case", "case"),
        ("from", "from_ns"),
        ("to", "to_ns"),
        ("messages", "messages"),
        ("lost", "lost"),
        ("p50", "p50_ns"),
        ("p99", "p99_ns"),
    ]);
    for (label, _, heat) in maps {
        for column in &heat.columns {
            let seconds = |ns: u64| Datum::Number(ns as f64, format!("{:.3} s", ns as f64 / 1e9));
            table.row([
                label.as_str().into(),
                seconds(column.from_ns),
                seconds(column.to_ns),
                Datum::count(column.counts.iter().sum()),
                Datum::count(column.lost),
                Datum::maybe_ns(column.p50_ns.map(|ns| ns as f64)),
                Datum::maybe_ns(column.p99_ns.map(|ns| ns as f64)),
            ]);
        }
    }
    table
}

fn draw(heat: &Heat, label: &str, (height, named): (f64, bool), time_is: Duration) -> Svg {
    let mut drawing = Drawing::new(WIDTH, height);
    let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
    drawing.attribute(
        "data-geo",
        &format!(
            "{{\"w\":{WIDTH},\"h\":{height},\"left\":{LEFT},\"right\":{right},\"top\":{TOP},\"bottom\":{bottom}}}"
        ),
    );
    let y = Scale::log((heat.low_ns, heat.high_ns), (bottom, TOP));
    let axis = format!("{}, log scale", time_is.name);
    let title = if named { format!("{label}: {axis}") } else { axis };
    drawing.text("m", (0.0, 12.0), Anchor::Start, &title);
    super::time_ticks_left(&mut drawing, (heat.low_ns, heat.high_ns), &y, LEFT, right);
    let columns = &heat.columns;
    let at = |place: f64| LEFT + (right - LEFT) * place / columns.len() as f64;

    let pixels = pixels(heat);
    for (class, stops) in [("lt", LIGHT), ("dk", DARK)] {
        let png = png::indexed(columns.len(), &pixels, &palette(&stops));
        drawing.raw(&format!(
            "<image class=\"{class}\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
            right - LEFT,
            bottom - TOP,
            base64(&png)
        ));
    }
    let mut ends = Vec::new();
    for (class, name, value) in [
        ("heat50", "p50", (|column: &Column| column.p50_ns) as fn(&Column) -> Option<u64>),
        ("heat99", "p99", |column| column.p99_ns),
    ] {
        let points = |(at_column, column): (usize, &Column)| {
            value(column).map(|ns| (at(at_column as f64 + 0.5), y.at(ns as f64)))
        };
        let all: Vec<Option<(f64, f64)>> = columns.iter().enumerate().map(points).collect();
        // A column without the quantile breaks the line.
        for piece in all.split(Option::is_none) {
            drawing.path(class, &piece.iter().flatten().copied().collect::<Vec<_>>());
        }
        ends.extend(all.iter().rev().flatten().next().map(|(_, end)| (name, *end)));
    }
    let wanted: Vec<f64> = ends.iter().map(|(_, end)| *end).collect();
    for ((name, _), place) in ends.iter().zip(crate::svg::label_positions(&wanted, 14.0, (TOP + 60.0, bottom))) {
        drawing.text("b heatname", (right + 6.0, place + 4.0), Anchor::Start, name);
    }
    for (at_column, column) in columns.iter().enumerate().filter(|(_, column)| column.lost > 0) {
        let title = format!("{} lost", column.lost);
        let width = (at(1.0) - at(0.0)).max(2.0);
        drawing.rectangle("lost", (at(at_column as f64), TOP - 8.0), (width, 6.0), 1.0, &title);
    }
    if columns.iter().any(|column| column.lost > 0) {
        drawing.text("m", (right + 6.0, TOP - 2.0), Anchor::Start, "lost");
    }
    legend(&mut drawing, heat.most(), right + 6.0);
    drawing.line("axis", (LEFT, bottom), (right, bottom));
    round_axis(&mut drawing, columns, (LEFT, right), bottom);
    let most = heat.most().to_string();
    drawing.text(
        "m",
        ((LEFT + right) / 2.0, height - 5.0),
        Anchor::Middle,
        &format!("round, in the order of time; colour: messages in a cell (log), 1 to {most}"),
    );
    let messages: u64 = columns.iter().flat_map(|column| &column.counts).sum();
    drawing.finish(&format!(
        "Heat map of the {} of {label} over the run: {} messages in {} columns; the table has the numbers of each column",
        time_is.many.to_lowercase(),
        messages,
        columns.len()
    ))
}

/// Indices of the colours, from the top left.
fn pixels(heat: &Heat) -> Vec<u8> {
    let full = (heat.most().max(2) as f64).ln();
    let shade = |count: u64| match count {
        0 => 0,
        n => 1 + ((SHADES - 1) as f64 * (n as f64).ln() / full).round() as u8,
    };
    (0..ROWS).rev().flat_map(|row| heat.columns.iter().map(move |column| shade(column.counts[row]))).collect()
}

fn between(stops: &[[u8; 3]; 6], share: f64) -> [u8; 3] {
    let place = share * 5.0;
    let from = (place as usize).min(4);
    let part = place - from as f64;
    std::array::from_fn(|at| {
        (f64::from(stops[from][at]) * (1.0 - part) + f64::from(stops[from + 1][at]) * part).round() as u8
    })
}

fn palette(stops: &[[u8; 3]; 6]) -> Vec<[u8; 4]> {
    let shade = |at: u64| {
        let [red, green, blue] = between(stops, at as f64 / (SHADES - 1) as f64);
        [red, green, blue, 255]
    };
    std::iter::once([0; 4]).chain((0..SHADES).map(shade)).collect()
}

/// The key of the colours, many at the top.
fn legend(drawing: &mut Drawing, most: u64, x: f64) {
    for step in 0..6 {
        let share = 1.0 - f64::from(step) / 5.0;
        for (class, stops) in [("lt", LIGHT), ("dk", DARK)] {
            let [red, green, blue] = between(&stops, share);
            drawing.raw(&format!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"8\" fill=\"rgb({red},{green},{blue})\"/>",
                TOP + 8.0 * f64::from(step)
            ));
        }
    }
    let most = if most < 10_000 { most.to_string() } else { three_digits(most as f64 / 1e3) + " k" };
    drawing.text("m", (x + 17.0, TOP + 9.0), Anchor::Start, &most);
    drawing.text("m", (x + 17.0, TOP + 48.0), Anchor::Start, "1");
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;

    /// The picture itself is bytes of a compressor; what is in it is tested below.
    fn without_bytes(text: &str) -> String {
        let mut parts = text.split("base64,");
        let head = parts.next().unwrap_or_default().to_owned();
        parts.fold(head, |out, part| {
            out + "base64,..."
                + part.split_once('"').map_or("", |_| "\"")
                + part.split_once('"').map_or("", |(_, rest)| rest)
        })
    }

    #[test]
    fn one_case_and_several() {
        let (run, summary) = crate::fixture::echo();
        insta::assert_snapshot!("heat", without_bytes(&drawn(&FIGURE, &Scene::new(&run, &summary))));
        let (run, summary) = crate::fixture::compare();
        let several = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert_eq!(several.matches("<svg").count(), 3);
        assert!(several.contains("Each picture has the rounds of its case only"));
        let (stream, summary) = crate::fixture::shapes();
        assert_eq!(drawn(&FIGURE, &Scene::new(&stream, &summary)), "nothing");
    }

    #[test]
    fn lost_messages_are_marked_on_top() {
        let (mut run, summary) = crate::fixture::echo();
        let mut some_lost = msgpath_core::Histogram::new();
        some_lost.merge_sparse(&run.rounds[2].latency);
        some_lost.record_lost(7);
        run.rounds[2].latency = some_lost.to_sparse();
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(text.contains("<title>7 lost</title>") && text.contains("\"lost\":7"));
    }

    #[test]
    fn one_message_can_be_seen_and_many_have_the_strongest_colour() {
        let mut counts = vec![0; ROWS];
        (counts[0], counts[ROWS - 1]) = (1_000, 1);
        let column = Column { from_ns: 0, to_ns: 1, round: 0, counts, lost: 0, p50_ns: None, p99_ns: None };
        let heat = Heat { columns: vec![column], low_ns: 1.0, high_ns: 10.0, cut: 1 };
        let pixels = pixels(&heat);
        assert_eq!((pixels[0], pixels[1], pixels[ROWS - 1]), (1, 0, 63));
        let palette = palette(&LIGHT);
        assert_eq!(
            (palette.len(), palette[0][3], palette[1], palette[63]),
            (64, 0, [0x8f, 0xc1, 0xe3, 255], [4, 0x1a, 0x3d, 255])
        );
    }
}
