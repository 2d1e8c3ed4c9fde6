//! The slowest call beside the one in the middle: which part of it swells. A block for each kind of call.

use super::calls_of;
use crate::analyse::RpcSummary;
use crate::analyse::{RpcKind, middle_and_slowest};

use msgpath_core::units::Glyphs;

use super::first::{Shown, ticks};
use crate::present::embed::kind::{CONTRADICTS, PLACED};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture, short, tick_name};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};
use msgpath_present::words;

pub(super) const FIGURE: Figure = Figure {
    name: "rpc-waterfall",
    heading: "The slowest call beside a usual one",
    how: "Of each kind of call the median one and the slowest, on one scale: the request to the server, the server's own time, the reply. Time runs to the right.",
    draw: picture,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 30.0;
const BAR: f64 = 17.0;
const ROW: f64 = 22.0;
const GAP: f64 = 16.0;
/// Kinds at most; the numbers have all.
const MOST: usize = 4;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else { return Drawn::Nothing };
    let found: Vec<(&RpcKind, [Shown; 2])> = rpc
        .kinds
        .iter()
        .filter_map(|kind| {
            let pair = middle_and_slowest(calls_of(scene), kind.case)?;
            Some((kind, pair.map(|row| Shown::new(row, &rpc.clocks))))
        })
        .collect();
    if found.is_empty() {
        return Drawn::Unavailable("the run has no log of calls with a reply".into());
    }
    let mut data = DataTable::new(&[
        ("call", "method"),
        ("which", "which"),
        ("at", "start_ns"),
        ("T4 - T1", "latency_ns"),
        ("request", "request_ns"),
        ("server", "server_ns"),
        ("reply", "reply_ns"),
    ]);
    for (kind, pair) in &found {
        for (which, call) in WHICH.iter().zip(pair) {
            let parts = parts(call);
            let of = |at: usize| {
                let split = parts.len() == 3;
                parts.get(at).filter(|_| split).map_or(Datum::Missing, |part| Datum::ns(part.to - part.from))
            };
            data.row([
                kind.method.as_str().into(),
                (*which).into(),
                Datum::Number(call.row.start_ns as f64, Glyphs::Unicode.time(call.row.start_ns as f64)),
                Datum::maybe_ns(call.row.latency_ns.map(|ns| ns as f64)),
                of(0),
                of(1),
                of(2),
            ]);
        }
    }
    let note = msgpath_present::html::figures::some_of(found.len().min(MOST), found.len())
        .map(|text| text.replace("cases", "kinds"));
    let panels = found.iter().take(MOST).map(|(kind, pair)| draw(kind, pair)).collect();
    Drawn::Picture(Picture { panels, data, note: note.unwrap_or_default(), ..Picture::default() })
}

const WHICH: [&str; 2] = ["median", "slowest"];

/// A part of a call, from and to ns after its start.
struct Part {
    name: &'static str,
    colour: usize,
    from: f64,
    to: f64,
}

/// Request, server and reply where the clocks place the server's stamps; else the whole.
fn parts(call: &Shown) -> Vec<Part> {
    let latency = call.row.latency_ns.unwrap_or(0) as f64;
    let (received, replied) = (call.received as f64, (call.received + call.server) as f64);
    let in_order = 0.0 <= received && received <= replied && replied <= latency;
    if call.known & PLACED == 0 || call.known & CONTRADICTS != 0 || !in_order {
        return vec![Part { name: "send to reply", colour: 10, from: 0.0, to: latency }];
    }
    vec![
        Part { name: "request", colour: 8, from: 0.0, to: received },
        Part { name: "server", colour: 4, from: received, to: replied },
        Part { name: "reply", colour: 7, from: replied, to: latency },
    ]
}

fn draw(kind: &RpcKind, pair: &[Shown; 2]) -> Svg {
    let rows: usize = pair.iter().map(|call| parts(call).len()).sum();
    let bottom = TOP + rows as f64 * ROW + GAP;
    let mut drawing = Drawing::new(WIDTH, bottom + 26.0);
    let longest = pair.iter().filter_map(|call| call.row.latency_ns).max().unwrap_or(1).max(1) as f64;
    let x = Scale::linear((0.0, longest), (LEFT, WIDTH - RIGHT));
    drawing.text("b", (0.0, 14.0), Anchor::Start, &short(&kind.method));
    for tick in ticks(longest) {
        drawing.line("grid", (x.at(tick), TOP - 8.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 16.0), Anchor::Middle, &tick_name(tick));
    }
    let mut y = TOP;
    for (which, call) in WHICH.iter().zip(pair) {
        let latency = call.row.latency_ns.unwrap_or(0) as f64;
        drawing.text(
            "",
            (LEFT - 12.0, y + BAR - 4.0),
            Anchor::End,
            &format!("{which}: {}", Glyphs::Unicode.time(latency)),
        );
        let parts = parts(call);
        for (at, part) in parts.iter().enumerate() {
            let wide = (x.at(part.to) - x.at(part.from)).max(0.8);
            let share = words::percent((part.to - part.from) / latency.max(1.0));
            let text = format!("{} {}", part.name, Glyphs::Unicode.time(part.to - part.from));
            let title = format!("{}, {which}: {text}, {share} of {}", kind.method, Glyphs::Unicode.time(latency));
            drawing.rectangle(&format!("stage st{}", part.colour), (x.at(part.from), y), (wide, BAR), 1.0, &title);
            let end = x.at(part.to);
            let long = text.chars().count() as f64 * 6.4;
            if wide > long + 10.0 {
                let class = format!("on on{}", part.colour);
                drawing.text(&class, (x.at(part.from) + wide / 2.0, y + BAR - 4.0), Anchor::Middle, &text);
            } else if end + 6.0 + long < WIDTH {
                drawing.text("small", (end + 6.0, y + BAR - 4.0), Anchor::Start, &text);
            } else {
                drawing.text("small", (x.at(part.from) - 6.0, y + BAR - 4.0), Anchor::End, &text);
            }
            y += ROW;
            if at + 1 < parts.len() {
                drawing.line("axis", (end, y - ROW + BAR), (end, y));
            }
        }
        y += GAP;
    }
    drawing.finish(&format!("The parts of the median {} call and of the slowest", kind.method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn the_usual_and_the_slowest_call_of_each_kind() {
        let (run, summary, calls) = fixture::rpc_here();
        let text = drawn(&FIGURE, &Scene { logs: Some(&fixture::logs(&calls)), ..Scene::new(&run, &summary) });
        assert!(text.contains("median: ") && text.contains("slowest: ") && text.contains(">server "), "{text}");
        assert!(drawn(&FIGURE, &Scene::new(&run, &summary)).starts_with("n/a: the run has no log"));
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }
}
