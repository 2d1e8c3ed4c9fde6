//! The picture of the preset `peers`: the round trips of every tool and of msgpath, a dot a turn.

use msgpath_core::units::Glyphs;
use msgpath_present::answers::Pictured;
use msgpath_present::html::figures::tick_name;
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, time_ticks};

use msgpath_tools::section::said;
use msgpath_tools::table::{Beside, beside};

use crate::answers::{Part, part};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const ROW: f64 = 22.0;
const BOTTOM: f64 = 30.0;

/// A row: whose, and its round trips.
struct Row {
    name: String,
    own: bool,
    values: Vec<f64>,
}

pub(super) fn draw(parts: &[Part<'_>]) -> Vec<Pictured> {
    let rows = part(parts, "round-trips").map(|part| rows(&part)).unwrap_or_default();
    let panel = panel(&rows);
    let picture = |panel| {
        Pictured {
        name: "tools".into(),
        title: "What do tools of others say of the same round trip?".into(),
        how: "A dot for each run of a tool, its median or, where it prints none, its mean, as a whole round trip; of msgpath the \
              rounds around each. Time is logarithmic."
            .into(),
        panels: vec![panel],
    }
    };
    panel.map(picture).into_iter().collect()
}

fn rows(part: &Part<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let all = beside(part.run, part.summary, said(part.logs));
    let with_numbers: Vec<&Beside<'_>> = all.iter().filter(|one| !one.turns.is_empty()).collect();
    for (at, one) in with_numbers.iter().enumerate() {
        let path = one.case.case.path.to_string();
        if at == 0 || with_numbers[at - 1].case.case.id != one.case.case.id {
            rows.push(Row { name: format!("msgpath {path}"), own: true, values: one.ours() });
        }
        rows.push(Row { name: format!("{} {path}", one.tool.name), own: false, values: one.values(one.best()) });
    }
    rows
}

fn panel(rows: &[Row]) -> Option<Svg> {
    let values = || rows.iter().flat_map(|row| &row.values).copied();
    let (low, high) = (values().reduce(f64::min)? * 0.8, values().reduce(f64::max)? * 1.25);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + BOTTOM);
    let x = Scale::log((low, high), (LEFT, WIDTH - RIGHT));
    for tick in time_ticks(low, high) {
        drawing.line("grid", (x.at(tick), TOP), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 16.0), Anchor::Middle, &tick_name(tick));
    }
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        if row.own && at > 0 {
            drawing.line("grid", (0.0, y - ROW / 2.0), (WIDTH - RIGHT, y - ROW / 2.0));
        }
        drawing.text(if row.own { "b" } else { "m" }, (LEFT - 8.0, y + 4.0), Anchor::End, &row.name);
        for value in &row.values {
            let title = format!("{}: {}", row.name, Glyphs::Unicode.time(*value));
            drawing.dot(if row.own { "f0" } else { "f1" }, (x.at(*value), y), 4.0, &title);
        }
    }
    Some(drawing.finish("Round trips by tools of others and by msgpath, a dot a run, on a log scale of time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_dot_and_nothing_is_no_picture() {
        let row = |name: &str, own, values: &[f64]| Row { name: name.into(), own, values: values.into() };
        assert!(panel(&[]).is_none() && draw(&[]).is_empty());
        let rows = [row("msgpath tcp:send", true, &[20e3, 21e3]), row("<b>", false, &[22e3])];
        let picture = Pictured {
            name: String::new(),
            title: String::new(),
            how: String::new(),
            panels: vec![panel(&rows).unwrap()],
        };
        let file = picture.file();
        assert_eq!(file.matches("<circle").count(), 3, "{file}");
        assert!(file.contains("msgpath tcp:send: 20.0 µs") && !file.contains("<b>"), "{file}");
    }
}
