//! The first calls of each kind, all from T1 = 0, as notched lines: is the first call slower than the later ones?

use super::calls_of;
use crate::analyse::RpcSummary;
use crate::record::{Calls, RpcFacts, RpcRow};
use std::collections::HashSet;

use crate::analyse::{PairClock, RpcKind};

use msgpath_core::units::Glyphs;

use crate::present::embed::kind::{CONTRADICTS, PLACED};
use crate::present::embed::{key_text, split};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture, short, tick_name};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, round_step};

use crate::present::words as own;

pub(super) const FIGURE: Figure = Figure {
    name: "rpc-first",
    heading: "First calls and later ones",
    how: "The first calls of each kind from T1 = 0: the request from T1 to T2, the notch down from T2 to T3 is the server, \
          the reply up again to T4. ● the first of its kind on its connection. The dashed line is the median of the later \
          calls.",
    draw: picture,
};

/// Calls of each kind.
const FIRST: usize = 20;
/// Kinds with a drawing; the table has all.
const MOST: usize = 8;
const WIDTH: f64 = 520.0;
const LEFT: f64 = 108.0;
const RIGHT: f64 = 74.0;
const TOP: f64 = 40.0;
const ROW: f64 = 16.0;
/// Thickness of the line, and how far the server's part lies lower.
const THICK: f64 = 8.0;
const NOTCH: f64 = 4.0;
const BOTTOM: f64 = 24.0;

/// Numbers of the colours of the kinds in the style sheet, in their order; their names say the same.
pub(super) const KINDS: [usize; 9] = [1, 5, 4, 9, 8, 7, 3, 10, 0];

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else { return Drawn::Nothing };
    if calls_of(scene).index().is_empty() {
        return Drawn::Unavailable("the run has no log of calls".into());
    }
    let kinds: Vec<(&RpcKind, Vec<Shown>)> = rpc
        .kinds
        .iter()
        .map(|kind| (kind, first_of(calls_of(scene), kind.case, &rpc.clocks)))
        .filter(|(_, calls)| !calls.is_empty())
        .collect();
    if kinds.is_empty() {
        return Drawn::Unavailable("the run's log of calls has no call of its cases".into());
    }
    let mut note = Vec::new();
    let wire = scene.run.header.parts.get::<RpcFacts>().and_then(own::wire_of);
    if let Some(wire) = &wire {
        note.push(format!(
            "Hollow with a dashed edge: what the wire alone takes, an estimate {wire}, not a measurement."
        ));
    }
    if kinds.iter().flat_map(|(_, calls)| calls).any(|call| call.doubtful().contains(&true)) {
        note.push(
            "Pale with dashed edges: the clocks leave T2 and T3 open by that much; T4 - T1 and T3 - T2 stand.".into(),
        );
    }
    if kinds.iter().flat_map(|(_, calls)| calls).any(|call| call.row.status != 0) {
        note.push("× and an outline: the server said that the call failed.".into());
    }
    let panels = kinds.iter().take(MOST).enumerate().map(|(at, (kind, calls))| draw(kind, calls, at)).collect();
    Drawn::Picture(Picture { panels, data: numbers(&kinds), note: note.join(" "), ..Picture::default() })
}

/// A call as it is drawn.
pub(super) struct Shown {
    pub(super) row: RpcRow,
    /// The first of its kind on its connection.
    first: bool,
    /// T2 - T1 by the client's clock and T3 - T2, and within what the first is known, ns; the bits that say how much of
    /// it is known.
    pub(super) received: i64,
    pub(super) server: i64,
    within: u64,
    pub(super) known: u64,
}

impl Shown {
    /// A call, with what the clocks say of it.
    pub(super) fn new(row: RpcRow, clocks: &[PairClock]) -> Self {
        let (received, server, within, known) = split(&row, clocks);
        Self { row, first: false, received, server, within, known }
    }

    /// Whether the clocks leave open more than a quarter of its way there, and of its way back.
    fn doubtful(&self) -> [bool; 2] {
        let Some(latency) = self.row.latency_ns.filter(|_| self.known & PLACED != 0) else { return [false; 2] };
        [self.received, latency as i64 - self.received - self.server]
            .map(|direction| self.within as i64 * 4 > direction)
    }
}

fn first_of(calls: &dyn Calls, case: u32, clocks: &[PairClock]) -> Vec<Shown> {
    let mut first: Vec<RpcRow> = Vec::new();
    calls.rounds(&|own, _| own == case, &mut |rows| {
        first.extend_from_slice(rows);
        first.sort_by_key(|row| row.start_ns);
        first.truncate(FIRST);
    });
    let mut seen = HashSet::new();
    let shown = |row: RpcRow| Shown { first: seen.insert(row.connection), ..Shown::new(row, clocks) };
    first.into_iter().map(shown).collect()
}

fn numbers(kinds: &[(&RpcKind, Vec<Shown>)]) -> DataTable {
    let mut table = DataTable::new(&[
        ("call", "method"),
        ("rpcid", "rpcid"),
        ("connection", "connection"),
        ("first", "first_on_connection"),
        ("key", "key"),
        ("status", "status"),
        ("T4 - T1", "latency_ns"),
        ("T2 - T1", "received_ns"),
        ("±", "received_within_ns"),
        ("T3 - T2", "server_ns"),
        ("T2 - T1 as read", "received_raw_ns"),
    ]);
    for (kind, calls) in kinds {
        for call in calls {
            let placed = call.known & PLACED != 0;
            let stamped = call.row.received_ns.zip(call.row.replied_ns);
            table.row([
                kind.method.as_str().into(),
                Datum::Number(call.row.rpcid.into(), call.row.rpcid.to_string()),
                Datum::count(call.row.connection.into()),
                if call.first { "first" } else { "" }.into(),
                key_text(&call.row.key).into(),
                Datum::count(call.row.status.into()),
                call.row.latency_ns.map_or_else(|| "no reply".into(), |ns| Datum::ns(ns as f64)),
                Datum::maybe_ns(placed.then_some(call.received as f64)),
                Datum::maybe_ns(placed.then_some(call.within as f64)),
                Datum::maybe_ns(stamped.map(|_| call.server as f64)),
                Datum::maybe_ns(call.row.received_ns.map(|ns| ns as f64)),
            ]);
        }
    }
    table
}

fn draw(kind: &RpcKind, calls: &[Shown], at: usize) -> Svg {
    let later = kind.later_p50_ns.map(|ns| ns as f64);
    let longest = calls.iter().filter_map(|call| call.row.latency_ns).max().unwrap_or(0) as f64;
    let end = longest.max(later.unwrap_or(0.0)).max(1.0);
    let x = Scale::linear((0.0, end), (LEFT, WIDTH - RIGHT));
    let bottom = TOP + calls.len() as f64 * ROW + 4.0;
    let mut drawing = Drawing::new(WIDTH, bottom + BOTTOM);
    let method = short(&kind.method);
    drawing.text("b", (LEFT, 13.0), Anchor::Start, &method);
    for tick in ticks(end) {
        drawing.line("grid", (x.at(tick), TOP - 6.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 15.0), Anchor::Middle, &tick_name(tick));
    }
    for (row, call) in calls.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let mark = if call.first { "● " } else { "" };
        drawing.text("m small", (LEFT - 8.0, y + 10.0), Anchor::End, &format!("{mark}call {}", row + 1));
        notched(&mut drawing, kind, call, KINDS[at % KINDS.len()], y, &x);
    }
    if let Some(later) = later {
        drawing.line("axis mark", (x.at(later), TOP - 8.0), (x.at(later), bottom));
        let (anchor, shift) = if later > end * 0.6 { (Anchor::End, 4.0) } else { (Anchor::Start, -4.0) };
        let text = format!("later p50 {}", Glyphs::Unicode.time(later));
        drawing.text("m small", (x.at(later) + shift, TOP - 12.0), anchor, &text);
    }
    drawing.finish(&format!(
        "The first {} {method} calls from T1 = 0, each with its request, server and reply",
        calls.len()
    ))
}

/// One call: request, notch down to the server, up again for the reply.
fn notched(drawing: &mut Drawing, kind: &RpcKind, call: &Shown, colour: usize, y: f64, x: &Scale) {
    let Some(latency) = call.row.latency_ns.map(|ns| ns as f64) else {
        drawing.text("fail", (x.at(0.0), y + 11.0), Anchor::Start, "× no reply");
        return;
    };
    let placed = call.known & PLACED != 0;
    let contradicts = call.known & CONTRADICTS != 0;
    let part = |drawing: &mut Drawing, from: f64, to: f64, low: f64, doubtful: bool, name: &str| {
        let (class, opacity) = match (contradicts, doubtful) {
            (true, _) => ("doubt st0".to_owned(), 1.0),
            (false, true) => (format!("doubt st{colour}"), 0.4),
            (false, false) => (format!("stage st{colour}"), 1.0),
        };
        if to > from {
            let size = ((x.at(to) - x.at(from)).max(0.5), THICK);
            let title = format!("{} {}, {name}: {}", kind.method, call.row.rpcid, Glyphs::Unicode.time(to - from));
            drawing.rectangle(&class, (x.at(from), y + low), size, opacity, &title);
        }
    };
    if placed {
        let (received, replied) = (call.received as f64, (call.received + call.server) as f64);
        let [there, back] = call.doubtful();
        part(drawing, 0.0, received, 0.0, there, "request, T1 to T2");
        part(drawing, received.max(0.0), replied, NOTCH, false, "server, T2 to T3");
        // A reply that seems to begin after its end steps further down, as in the lab's picture.
        let low = if contradicts { 2.0 * NOTCH } else { 0.0 };
        part(drawing, replied.min(latency), latency, low, back, "reply, T3 to T4");
        for (at, ns) in [(received, 0.0), (replied, latency)] {
            let within = call.within as f64;
            if x.at(within) - x.at(0.0) >= 2.0 {
                let (from, to) = (x.at((at - within).max(0.0)), x.at((at + within).min(latency)));
                let middle = y + if ns == 0.0 { THICK + NOTCH } else { THICK + NOTCH + 1.5 };
                drawing.line("within", (from, middle), (to, middle));
            }
        }
        let wires = kind.wire_ns.map_or([None, None], |wire| [Some((0.0, wire.request)), Some((replied, wire.reply))]);
        for (from, ns) in wires.into_iter().flatten() {
            let wide = (x.at(ns) - x.at(0.0)).min(WIDTH - RIGHT + 4.0 - x.at(from));
            if wide >= 2.0 {
                let title = format!("wire alone: estimate {}", Glyphs::Unicode.time(ns));
                drawing.rectangle("wire", (x.at(from), y + THICK / 2.0 - 1.5), (wide, 3.0), 1.0, &title);
            }
        }
    } else {
        part(drawing, 0.0, latency, 0.0, false, "not split, T1 to T4");
    }
    let mut text = Glyphs::Unicode.time(latency);
    if call.row.status != 0 {
        let size = (x.at(latency) - x.at(0.0) + 2.0, THICK + NOTCH + 2.0);
        drawing.rectangle("failed", (x.at(0.0) - 1.0, y - 1.0), size, 0.0, "");
        text = format!("× {text}");
    }
    let class = if call.row.status != 0 { "fail small" } else { "m small" };
    drawing.text(class, (WIDTH - RIGHT + 10.0, y + 10.0), Anchor::Start, &text);
}

/// About four ticks of 1, 2 or 5 from 0 to `end`, ns.
pub(super) fn ticks(end: f64) -> Vec<f64> {
    let step = round_step(end / 4.0);
    (0..=5).map(|at| f64::from(at) * step).take_while(|tick| *tick <= end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fixture;
    use msgpath_present::html::figures::testing::drawn as of_scene;

    type Fixture = (msgpath_record::Run, msgpath_analyse::Summary, Vec<RpcRow>);

    fn drawn((run, summary, rows): &Fixture) -> String {
        let logs = fixture::logs(rows);
        of_scene(&FIGURE, &Scene { logs: Some(&logs), ..Scene::new(run, summary) })
    }

    #[test]
    fn first_calls_are_notched_lines() {
        insta::assert_snapshot!("rpc-first", drawn(&fixture::rpc()));
    }

    #[test]
    fn on_one_clock_nothing_is_doubtful_and_no_wire_is_drawn() {
        let text = drawn(&fixture::rpc_here());
        assert!(!text.contains("\"within\"") && !text.contains("\"wire\"") && !text.contains("\"doubt"), "{text}");
        assert_eq!(text.matches("server, T2 to T3").count(), 60);
    }

    #[test]
    fn without_clocks_calls_are_whole() {
        let mut fixture = fixture::rpc();
        fixture.1.sections.get_mut::<RpcSummary>().unwrap().clocks.clear();
        let text = drawn(&fixture);
        assert!(text.contains("not split, T1 to T4") && !text.contains("T2 to T3<"), "{text}");
        fixture.2.clear();
        assert_eq!(drawn(&fixture), "n/a: the run has no log of calls");
    }

    #[test]
    fn the_failed_and_the_impossible_are_marked_by_form() {
        let mut fixture = fixture::rpc();
        fixture.2[0].status = 1;
        fixture.2[1].received_ns = Some(-9_000_000);
        let text = drawn(&fixture);
        assert!(text.contains("class=\"failed\"") && text.contains("× ") && text.contains("doubt st0"), "{text}");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(9.4e6), [0.0, 5e6]);
        assert_eq!(ticks(4e3), [0.0, 1e3, 2e3, 3e3, 4e3]);
    }
}
