//! Clock offset of each pair of machines over time, with its bounds: how far can the ways of a call be trusted?

use super::calls_of;
use crate::analyse::PairClock;
use crate::analyse::RpcSummary;
use crate::record::{Calls, RpcFacts, RpcRow};

use msgpath_core::units::{Glyphs, signed};

use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture, short, tick_name};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, round_step};

use crate::present::words as own;

pub(super) const FIGURE: Figure = Figure {
    name: "rpc-clock",
    heading: "Offset of the clocks, with its bounds",
    how: "What must be added to the server's stamps. A request cannot arrive before it was sent (∧: at least that much), a \
          reply neither (∨: at most). The band is what both leave open, the line its middle; whether the two ways are \
          equally long cannot be known.",
    draw: picture,
};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 26.0;
/// Columns into which the marks are gathered, in each the two that say most.
const COLUMNS: usize = 110;
/// Pairs with a drawing; the table has all.
const MOST: usize = 6;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(rpc) = scene.summary.sections.get::<RpcSummary>() else { return Drawn::Nothing };
    let facts = scene.run.header.parts.get::<RpcFacts>();
    let other: Vec<&PairClock> = rpc.clocks.iter().filter(|clock| !clock.same).collect();
    if other.is_empty() {
        return Drawn::Nothing;
    }
    let lines: Vec<String> = rpc.clocks.iter().map(|clock| own::clock(facts, clock)).collect();
    let known: Vec<&&PairClock> = other.iter().filter(|clock| !clock.pieces.is_empty()).collect();
    if known.is_empty() {
        return Drawn::Unavailable(lines.join(". "));
    }
    let name = |clock: &PairClock| {
        let pair = facts.and_then(|facts| facts.pairs.get(clock.pair as usize));
        pair.map_or_else(String::new, |pair| format!("{} → {}", pair.client, pair.server))
    };
    let panels = known.iter().take(MOST).map(|clock| draw(clock, &name(clock), calls_of(scene))).collect();
    let mut table = DataTable::new(&[
        ("pair", "pair"),
        ("from", "from_ns"),
        ("to", "to_ns"),
        ("offset", "offset_ns"),
        ("±", "within_ns"),
        ("drift, ppm", "drift_ppm"),
        ("drift", "drift_known"),
        ("contradicting calls", "contradicting"),
    ]);
    for clock in &known {
        for piece in &clock.pieces {
            let seconds = |ns: u64| Datum::Number(ns as f64, format!("{:.3} s", ns as f64 / 1e9));
            table.row([
                name(clock).into(),
                seconds(piece.from_ns),
                seconds(piece.to_ns),
                Datum::ns(piece.offset_ns),
                Datum::ns(piece.within_ns),
                Datum::number(piece.drift * 1e6),
                if piece.drift_known { "known" } else { "not determined" }.into(),
                Datum::count(clock.contradicting),
            ]);
        }
    }
    Drawn::Picture(Picture { panels, data: table, note: lines.join(". "), ..Picture::default() })
}

/// In each column of time the call that says most: at least this much, at most that much.
fn marks(calls: &dyn Calls, pair: u32, (from, to): (f64, f64)) -> Vec<[Option<f64>; 2]> {
    let mut columns = vec![[None, None]; COLUMNS];
    of_pair(calls, pair, &mut |row| {
        let at = ((row.start_ns as f64 - from) / (to - from).max(1.0) * COLUMNS as f64) as usize;
        let [least, most]: &mut [Option<f64>; 2] = &mut columns[at.min(COLUMNS - 1)];
        if let Some(received) = row.received_ns {
            let bound = -received as f64;
            *least = Some(least.map_or(bound, |least| least.max(bound)));
        }
        if let Some((replied, latency)) = row.replied_ns.zip(row.latency_ns) {
            let bound = latency as f64 - replied as f64;
            *most = Some(most.map_or(bound, |most| most.min(bound)));
        }
    });
    columns
}

fn of_pair(calls: &dyn Calls, pair: u32, each: &mut dyn FnMut(&RpcRow)) {
    calls.rounds(&|_, _| true, &mut |rows| rows.iter().filter(|row| row.pair == pair).for_each(&mut *each));
}

fn draw(clock: &PairClock, name: &str, calls: &dyn Calls) -> Svg {
    let mut from = clock.pieces.iter().map(|piece| piece.from_ns as f64).fold(f64::INFINITY, f64::min);
    let mut to = clock.pieces.iter().map(|piece| piece.to_ns as f64).fold(0.0, f64::max);
    of_pair(calls, clock.pair, &mut |row| {
        (from, to) = (from.min(row.start_ns as f64), to.max(row.start_ns as f64));
    });
    let columns = marks(calls, clock.pair, (from, to));
    let ends: Vec<[f64; 3]> = clock
        .pieces
        .iter()
        .flat_map(|piece| [piece.from_ns, piece.to_ns].map(|at| [at as f64, piece.theta(at), piece.within_ns]))
        .collect();
    // The axis shows the band with room on both sides; marks far outside say nothing about it.
    let low = ends.iter().map(|[_, theta, within]| theta - within).fold(f64::INFINITY, f64::min);
    let high = ends.iter().map(|[_, theta, within]| theta + within).fold(f64::NEG_INFINITY, f64::max);
    // The calls that bound it are on the axis as well.
    let [least, most] = [0, 1].map(|side| columns.iter().filter_map(move |column| column[side]));
    let low = least.fold(f64::NEG_INFINITY, f64::max).min(low).max(low - (high - low));
    let high = most.fold(f64::INFINITY, f64::min).max(high).min(high + (high - low));
    let margin = ((high - low) * 0.25).max(1_000.0);
    let (low, high) = (low - margin, high + margin);
    let x = Scale::linear((from, to.max(from + 1.0)), (LEFT, WIDTH - RIGHT));
    let y = Scale::linear((low, high), (HEIGHT - BOTTOM, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    drawing.text("b", (LEFT, 13.0), Anchor::Start, &short_pair(name));
    let step = round_step(((high - low) / 4.0).max(1.0));
    let lowest = (low / step).ceil();
    for tick in (0..8).map(|at| (lowest + f64::from(at)) * step).take_while(|tick| *tick <= high) {
        drawing.line("grid", (LEFT, y.at(tick)), (WIDTH - RIGHT, y.at(tick)));
        drawing.text("m", (LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, &offset_name(tick, step));
    }
    for (at, [least, most]) in columns.iter().enumerate() {
        let middle = LEFT + (at as f64 + 0.5) / COLUMNS as f64 * (WIDTH - RIGHT - LEFT);
        for (bound, class, rise) in [(least, "low", 5.0), (most, "high", -5.0)] {
            if let Some(bound) = bound.filter(|bound| (low..=high).contains(bound)) {
                drawing.path(
                    class_of(class),
                    &[(middle - 3.0, y.at(bound) + rise), (middle, y.at(bound)), (middle + 3.0, y.at(bound) + rise)],
                );
            }
        }
    }
    for piece in &clock.pieces {
        let at = |ns: u64, side: f64| (x.at(ns as f64), y.at(piece.theta(ns) + side * piece.within_ns));
        let ends = [piece.from_ns, piece.to_ns];
        drawing.band("possible", &ends.map(|ns| at(ns, 1.0)), &ends.map(|ns| at(ns, -1.0)));
        drawing.path("bound", &ends.map(|ns| at(ns, 0.0)));
    }
    let last = clock.pieces.last().map_or(0.0, |piece| piece.within_ns);
    drawing.text(
        "m small",
        (WIDTH - RIGHT, 13.0),
        Anchor::End,
        &format!("within ±{} at the end", Glyphs::Unicode.time(last)),
    );
    for (ns, anchor) in [(from, Anchor::Start), (to, Anchor::End)] {
        drawing.text("m", (x.at(ns), HEIGHT - 8.0), anchor, &format!("{:.3} s", ns / 1e9));
    }
    drawing.finish(&format!("Clock offset of {name} over the run with what the stamps leave open"))
}

fn class_of(class: &str) -> &'static str {
    if class == "low" { "ln low" } else { "ln high" }
}

/// A pair's name as far as it fits above its drawing.
fn short_pair(name: &str) -> String {
    name.split(" → ").map(short).collect::<Vec<_>>().join(" → ")
}

/// `2.94 ms`: as many digits as the distance of two ticks needs.
fn offset_name(ns: f64, step: f64) -> String {
    if ns.abs() < step / 2.0 {
        return "0".into();
    }
    signed(ns, |ns| {
        let (unit, name) =
            [(1e9, "s"), (1e6, "ms"), (1e3, "µs")].into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1.0, "ns"));
        let digits = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
        if digits == 0 { tick_name(ns) } else { format!("{:.digits$} {name}", ns / unit) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::ClockPiece;
    use crate::present::fixture;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn an_offset_with_its_bounds() {
        let (run, summary, rows) = fixture::rpc();
        let logs = fixture::logs(&rows);
        let scene = Scene { logs: Some(&logs), ..Scene::new(&run, &summary) };
        insta::assert_snapshot!("rpc-clock", drawn(&FIGURE, &scene));
    }

    #[test]
    fn a_step_is_two_pieces() {
        let (run, mut summary, rows) = fixture::rpc();
        let clock = &mut summary.sections.get_mut::<RpcSummary>().unwrap().clocks[0];
        clock.pieces[0].to_ns = 1_400_000_000;
        let after = ClockPiece { from_ns: 1_500_000_000, to_ns: 2_900_000_000, offset_ns: 12.9e6, ..clock.pieces[0] };
        clock.pieces.push(after);
        let logs = fixture::logs(&rows);
        let scene = Scene { logs: Some(&logs), ..Scene::new(&run, &summary) };
        let text = drawn(&FIGURE, &scene);
        assert_eq!(text.matches("class=\"possible\"").count(), 2);
        assert_eq!(text.lines().filter(|line| line.starts_with("10.9.0.1 → 10.9.0.2,")).count(), 2);
    }

    #[test]
    fn one_machine_has_one_clock_and_nothing_to_draw() {
        let (run, mut summary, rows) = fixture::rpc_here();
        let here = drawn(&FIGURE, &Scene { logs: Some(&fixture::logs(&rows)), ..Scene::new(&run, &summary) });
        assert_eq!(here, "nothing");
        let clock = &mut summary.sections.get_mut::<RpcSummary>().unwrap().clocks[0];
        (clock.same, clock.text) = (false, "too few calls".into());
        let text = drawn(&FIGURE, &Scene { logs: Some(&fixture::logs(&rows)), ..Scene::new(&run, &summary) });
        assert!(text.starts_with("n/a: ") && text.contains("too few calls"), "{text}");
    }

    #[test]
    fn ticks_have_the_digits_they_need() {
        assert_eq!(offset_name(2_940_000.0, 20_000.0), "+2.94 ms");
        assert_eq!(offset_name(-3_000_000.0, 1_000_000.0), "−3 ms");
        assert_eq!(offset_name(0.0, 1_000.0), "0");
        assert_eq!(round_step(41_000.0), 50_000.0);
    }
}
