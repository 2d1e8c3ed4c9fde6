//! Parts of calls by kind and slowness: where does the time of each kind of call go?

use crate::analyse::{RpcBand, RpcKind, RpcPart, RpcStage};
use crate::analyse::{RpcSummary, WireEstimate};
use crate::record::RpcFacts;
use msgpath_core::units::three_digits;

use msgpath_core::units::Glyphs;

use msgpath_present::html::Scene;
use msgpath_present::html::figures::HATCH;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture, short};
use msgpath_present::svg::{Anchor, Drawing, Svg};
use msgpath_present::words;

use crate::present::words as own;

pub(super) const FIGURE: Figure = Figure {
    name: "rpc-parts",
    heading: "Parts of a call's time, by kind of call",
    how: "Each bar averages whole calls, so its parts add up to the mean T4 - T1 on the right: of all calls, of those near \
          the median, of those near p99. Hatched parts are waiting.",
    draw: picture,
};

const WIDTH: f64 = 520.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 74.0;
const TOP: f64 = 26.0;
const BAR: f64 = 30.0;
const GAP: f64 = 14.0;
const KEY: f64 = 20.0;
/// Kinds with a drawing of their own; the table has all.
const MOST: usize = 8;

/// The parts in the order of time.
pub(super) const STAGES: [RpcStage; 7] = [
    RpcStage::ClientSend,
    RpcStage::RequestPath,
    RpcStage::ServerWait,
    RpcStage::LockWait,
    RpcStage::ServerWork,
    RpcStage::ReplyPath,
    RpcStage::BothPaths,
];

/// Number of a part's colour in the style sheet: what happens at the same place has the colour that it has in messages.
pub(super) fn colour(stage: RpcStage) -> usize {
    match stage {
        RpcStage::ClientSend => 1,
        RpcStage::RequestPath => 8,
        RpcStage::ServerWait => 0,
        RpcStage::LockWait => 3,
        RpcStage::ServerWork => 4,
        RpcStage::ReplyPath => 7,
        RpcStage::BothPaths => 10,
    }
}

/// Waiting is hatched, so that it can be told without colours.
fn hatched(stage: RpcStage) -> bool {
    matches!(stage, RpcStage::ServerWait | RpcStage::LockWait)
}

/// Its column in the CSV, without the unit.
pub(super) fn column(stage: RpcStage) -> &'static str {
    match stage {
        RpcStage::ClientSend => "client_send",
        RpcStage::RequestPath => "request_path",
        RpcStage::ServerWait => "server_wait",
        RpcStage::LockWait => "lock_wait",
        RpcStage::ServerWork => "server_work",
        RpcStage::ReplyPath => "reply_path",
        RpcStage::BothPaths => "both_paths",
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else { return Drawn::Nothing };
    let kinds: Vec<&RpcKind> = rpc.kinds.iter().filter(|kind| !kind.bands.is_empty()).collect();
    if kinds.is_empty() {
        let why =
            rpc.kinds.iter().find_map(|kind| kind.bands_why.as_deref()).unwrap_or("no call has stamps of the server");
        return Drawn::Unavailable(format!("the time of the calls cannot be split: {why}"));
    }
    let mut note = Vec::new();
    if let Some(wire) = scene.run.header.parts.get::<RpcFacts>().and_then(own::wire_of) {
        note.push(format!("A hollow bar below a path is what the wire alone takes: an estimate {wire}."));
    }
    let parts = || kinds.iter().flat_map(|kind| &kind.bands).flat_map(|band| &band.parts);
    if parts().any(|part| part.within_ns > 0.0) {
        note.push("Pale with a dashed edge: the two clocks leave open more than a quarter of that part.".into());
    }
    note.extend(
        msgpath_present::html::figures::some_of(kinds.len().min(MOST), kinds.len())
            .map(|text| text.replace("cases", "kinds")),
    );
    let shown = &kinds[..kinds.len().min(MOST)];
    let panels = shown.iter().enumerate().map(|(at, kind)| draw(kind, at == 0)).collect();
    Drawn::Picture(Picture { panels, data: numbers(&kinds), note: note.join(" "), ..Picture::default() })
}

fn numbers(kinds: &[&RpcKind]) -> DataTable {
    let mut table = DataTable::new(&[("call", "method"), ("which", "band"), ("how many", "calls")]);
    let bands = || kinds.iter().flat_map(|kind| &kind.bands);
    let used: Vec<RpcStage> = STAGES
        .into_iter()
        .filter(|stage| bands().any(|band| band.parts.iter().any(|part| part.stage == *stage)))
        .collect();
    for stage in &used {
        table.head(stage.name(), format!("{}_ns", column(*stage)));
        let doubtful = bands().flat_map(|band| &band.parts).any(|part| part.stage == *stage && part.within_ns > 0.0);
        if doubtful {
            table.head("±", format!("{}_within_ns", column(*stage)));
        }
    }
    table.head("mean T4 - T1", "latency_ns");
    let with_bound: Vec<bool> = used
        .iter()
        .map(|stage| bands().flat_map(|band| &band.parts).any(|part| part.stage == *stage && part.within_ns > 0.0))
        .collect();
    for kind in kinds {
        for band in &kind.bands {
            let mut row = vec![kind.method.as_str().into(), band.name.as_str().into(), Datum::count(band.calls)];
            for (stage, bound) in used.iter().zip(&with_bound) {
                let part = band.parts.iter().find(|part| part.stage == *stage);
                row.push(Datum::maybe_ns(part.map(|part| part.ns)));
                if *bound {
                    row.push(Datum::maybe_ns(part.map(|part| part.within_ns)));
                }
            }
            row.push(Datum::ns(band.latency_ns));
            table.row(row);
        }
    }
    table
}

/// A kind of call: a bar for each band, a key of the parts it has.
fn draw(kind: &RpcKind, first: bool) -> Svg {
    let used: Vec<RpcStage> = STAGES
        .into_iter()
        .filter(|stage| {
            kind.bands.iter().flat_map(|band| &band.parts).any(|part| part.stage == *stage && part.ns > 0.0)
        })
        .collect();
    let keys = TOP + kind.bands.len() as f64 * (BAR + GAP) + 6.0;
    let mut drawing = Drawing::new(WIDTH, keys + KEY * used.len().div_ceil(2) as f64);
    if first {
        drawing.raw(HATCH);
    }
    let method = short(&kind.method);
    drawing.text("b", (LEFT, 13.0), Anchor::Start, &method);
    drawing.text("m", (WIDTH - RIGHT + 8.0, 13.0), Anchor::Start, "mean");
    for (row, band) in kind.bands.iter().enumerate() {
        bar(&mut drawing, kind, band, TOP + row as f64 * (BAR + GAP));
    }
    for (at, stage) in used.iter().enumerate() {
        let (x, y) = (LEFT + (at % 2) as f64 * 190.0, keys + KEY * (at / 2) as f64);
        rectangle(&mut drawing, *stage, (x, y), (14.0, 12.0), false, "");
        drawing.text("m", (x + 20.0, y + 10.0), Anchor::Start, stage.name());
    }
    drawing.finish(&format!("Share of the time of {method} calls by part, for all, usual and slow ones"))
}

fn bar(drawing: &mut Drawing, kind: &RpcKind, band: &RpcBand, y: f64) {
    let room = WIDTH - LEFT - RIGHT;
    let middle = y + BAR / 2.0 + 4.0;
    drawing.text("m", (LEFT - 8.0, middle - 5.0), Anchor::End, &short(&band.name));
    drawing.text("m small", (LEFT - 8.0, middle + 9.0), Anchor::End, &words::counted(band.calls, "call"));
    // Parts below 0, which wrong clocks make, take no room; the table has them.
    let sum: f64 = band.parts.iter().map(|part| part.ns.max(0.0)).sum();
    let mut x = LEFT;
    for part in &band.parts {
        let width = if sum > 0.0 { part.ns.max(0.0) / sum * room } else { 0.0 };
        let share = if band.latency_ns > 0.0 { part.ns / band.latency_ns } else { 0.0 };
        let bound =
            if part.within_ns > 0.0 { format!(" ±{}", Glyphs::Unicode.time(part.within_ns)) } else { String::new() };
        let percent = three_digits(100.0 * share);
        let title = format!(
            "{} {}, {}: {}{bound} ({percent} %)",
            kind.method,
            band.name,
            part.stage.name(),
            Glyphs::Unicode.time(part.ns)
        );
        rectangle(drawing, part.stage, (x, y), (width, BAR), doubtful(part), &title);
        if width > 34.0 {
            let class = format!("on on{}", colour(part.stage));
            drawing.text(&class, (x + width / 2.0, middle), Anchor::Middle, &format!("{:.0} %", 100.0 * share));
        }
        let wire = kind.wire_ns.and_then(|WireEstimate { request, reply }| match part.stage {
            RpcStage::RequestPath => Some(request),
            RpcStage::ReplyPath => Some(reply),
            RpcStage::BothPaths => Some(request + reply),
            _ => None,
        });
        if let Some(ns) = wire.filter(|_| sum > 0.0 && width > 0.0) {
            let wide = (ns / sum * room).min(LEFT + room - x);
            let title = format!("wire alone: estimate {}", Glyphs::Unicode.time(ns));
            if wide >= 1.0 {
                drawing.rectangle("wire", (x, y + BAR + 2.0), (wide, 5.0), 1.0, &title);
            }
        }
        x += width;
    }
    drawing.text("b", (WIDTH - RIGHT + 8.0, middle), Anchor::Start, &Glyphs::Unicode.time(band.latency_ns));
}

/// The clocks leave open more than a quarter of it.
fn doubtful(part: &RpcPart) -> bool {
    part.within_ns > part.ns.abs() / 4.0
}

fn rectangle(drawing: &mut Drawing, stage: RpcStage, at: (f64, f64), size: (f64, f64), doubtful: bool, title: &str) {
    if size.0 <= 0.0 {
        return;
    }
    let (edge, opacity) = if doubtful { ("doubt", 0.55) } else { ("stage", 1.0) };
    drawing.rectangle(&format!("{edge} st{}", colour(stage)), at, size, opacity, title);
    if hatched(stage) {
        drawing.rectangle("hatched", at, size, 1.0, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn kinds_and_their_parts() {
        let (run, summary, _) = fixture::rpc();
        insta::assert_snapshot!("rpc-parts", drawn(&FIGURE, &Scene::new(&run, &summary)));
    }

    #[test]
    fn each_band_adds_up_in_the_table() {
        let (run, summary, _) = fixture::rpc();
        let Drawn::Picture(picture) = picture(&Scene::new(&run, &summary)) else { panic!("no picture") };
        assert_eq!(picture.data.rows.len(), 9);
        for row in &picture.data.rows {
            let value = |at: usize| match row[at] {
                Datum::Number(value, _) => value,
                _ => 0.0,
            };
            let heads = picture.data.heads.iter().map(|(_, saved)| saved.as_str()).enumerate();
            let parts = heads.filter(|(_, head)| head.ends_with("_ns") && !head.contains("within"));
            let parts: Vec<usize> = parts.map(|(at, _)| at).collect();
            let (last, parts) = parts.split_last().unwrap();
            let sum: f64 = parts.iter().map(|at| value(*at)).sum();
            assert!((sum - value(*last)).abs() < 1.0, "{row:?}");
        }
    }

    #[test]
    fn other_runs_have_no_calls() {
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
        let (run, mut summary, _) = fixture::rpc();
        summary
            .sections
            .get_mut::<RpcSummary>()
            .into_iter()
            .flat_map(|rpc| &mut rpc.kinds)
            .for_each(|kind| kind.bands.clear());
        assert!(
            drawn(&FIGURE, &Scene::new(&run, &summary)).starts_with("n/a: the time of the calls cannot be split: ")
        );
    }
}
