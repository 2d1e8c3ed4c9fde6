//! The pictures and files of the presets about writes.

use crate::answers::{Part, Waits, classic, part, waits};
use msgpath_core::units::Glyphs;

use msgpath_present::answers::Pictured;

use super::File;
use msgpath_present::html::figures::tick_name;
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, time_ticks};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 30.0;
/// Timers of the kernel, ns: the delayed acknowledgement and the least retransmission timeout.
const TIMERS: [(f64, &str); 2] = [(40e6, "40 ms"), (200e6, "200 ms")];

/// Where the round trips of each case lie, with the kernel's timers.
pub(super) fn timers(parts: &[Part<'_>]) -> Vec<Pictured> {
    let all: Vec<Waits> =
        ["requests", "held"].into_iter().filter_map(|name| part(parts, name)).flat_map(|part| waits(&part)).collect();
    let panel = draw(&all);
    panel
        .map(|panel| Pictured {
            name: "timers".into(),
            title: "Where the round trips lie, and where the kernel's timers do".into(),
            how: "One row per case on one log scale. The higher a bar, the more of the case's requests took that long; each row \
                  is scaled to its own highest bar."
                .into(),
            panels: vec![panel],
        })
        .into_iter()
        .collect()
}

fn draw(all: &[Waits]) -> Option<Svg> {
    let bins = || all.iter().flat_map(|waits| &waits.bins);
    let low = bins().map(|bin| bin.0).reduce(f64::min)?;
    let high = bins().map(|bin| bin.1).fold(400e6, f64::max);
    let bottom = TOP + ROW * all.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + BOTTOM);
    let x = Scale::log((low, high), (LEFT, WIDTH - RIGHT));
    for tick in time_ticks(low, high) {
        drawing.line("grid", (x.at(tick), TOP), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 16.0), Anchor::Middle, &tick_name(tick));
    }
    for (timer, name) in TIMERS {
        drawing.line("axis mark", (x.at(timer), TOP - 6.0), (x.at(timer), bottom));
        drawing.text("b", (x.at(timer), TOP - 10.0), Anchor::Middle, name);
    }
    for (at, waits) in all.iter().enumerate() {
        let base = TOP + ROW * (at + 1) as f64;
        drawing.line("grid", (LEFT, base), (WIDTH - RIGHT, base));
        drawing.text("m", (LEFT - 8.0, base - 8.0), Anchor::End, &waits.name);
        let most = waits.bins.iter().map(|bin| bin.2).max().unwrap_or(1) as f64;
        let total: u64 = waits.bins.iter().map(|bin| bin.2).sum();
        for (from, to, count) in &waits.bins {
            let height = (ROW - 6.0) * *count as f64 / most;
            let title = format!(
                "{}: {count} of {total} requests from {} to {}",
                waits.name,
                Glyphs::Unicode.time(*from),
                Glyphs::Unicode.time(*to)
            );
            let (left, right) = (x.at(*from), x.at(*to));
            drawing.rectangle("f1", (left, base - height), ((right - left).max(1.0), height), 0.8, &title);
        }
    }
    Some(drawing.finish("Round trips of each case on a log scale of time, with marks at 40 ms and 200 ms"))
}

/// The rows of the write-shape course in its own format.
pub(super) fn course(parts: &[Part<'_>]) -> Vec<File> {
    let Some(part) = part(parts, "shapes") else { return Vec::new() };
    let mut text = String::new();
    let mut setting = None;
    for row in classic(&part) {
        if setting.as_ref() != Some(&row.setting) {
            text += &format!(
                "# {}: all repetitions; 1 Gbps is 2^30 bit/s in lines with seconds, 10^9 bit/s in the others\n",
                row.setting
            );
            setting = Some(row.setting.clone());
        }
        text += &format!("# {}\n{}\n{}\n", row.pieces, row.seconds(), row.microseconds());
    }
    vec![File { name: "classic.txt".into(), text }]
}
