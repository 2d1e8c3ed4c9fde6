//! One point per message over time, from the per-message log.

use std::collections::BTreeSet;
use std::fmt::Write;

use msgpath_analyse::stretches::{Chosen, STRETCHES, choose};
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::foreign::command_again;
use msgpath_core::schema::MessageRow;
use msgpath_record::Run;

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, some_of, time_ticks_left};
use crate::svg::{Anchor, Drawing, Scale, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "points",
    heading: "Time of each message, in order",
    how: "A point is a message: when it started, how long it took (log). A ring is the slowest of its stretch of time; × on top is a lost message.",
    draw: picture,
};

/// Points of all panels together.
const POINTS: usize = 5_000;
/// Cases at most.
const PANELS: usize = super::SERIES;
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let run = scene.run;
    // Calls have a timeline of their own.
    if !run.header.plan.workload.logged || run.rounds.is_empty() {
        return Drawn::Nothing;
    }
    let all = scene.messages.logged;
    let logged: BTreeSet<u32> = all.index().into_iter().map(|(case, ..)| case).collect();
    if logged.is_empty() {
        return Drawn::Unavailable(missing(run));
    }
    let shown: Vec<&CaseSummary> =
        scene.chosen().into_iter().filter(|case| logged.contains(&case.case.id)).take(PANELS).collect();
    if shown.is_empty() {
        return Drawn::Unavailable("the log holds no message of the cases that would be shown".into());
    }
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("message", "message"),
        ("start", "start_ns"),
        ("connection", "connection"),
        ("sequence", "sequence"),
        ("latency", "latency_ns"),
    ]);
    let mut panels = Vec::new();
    let mut drawn = 0;
    let mut of = 0;
    let all_chosen: Vec<Chosen> = shown.iter().map(|case| choose(all, case.case.id, POINTS / shown.len())).collect();
    // One scale for all panels.
    let (low, high) = all_chosen
        .iter()
        .filter_map(|chosen| chosen.range)
        .fold((u64::MAX, 1), |(low, high), own| (low.min(own.0), high.max(own.1)));
    let span = all_chosen.iter().fold((u64::MAX, 0), |span, own| (span.0.min(own.span.0), span.1.max(own.span.1)));
    for (case, mut chosen) in shown.iter().zip(all_chosen) {
        chosen.span = span;
        chosen.range = chosen.range.map(|_| (low, high));
        drawn += chosen.slowest.len() + chosen.others.len() + chosen.lost.len();
        of += chosen.of;
        for row in &chosen.slowest {
            data.row([
                case.case.path.to_string().into(),
                words::message_at(&case.case).into(),
                Datum::Number(row.start_ns as f64, G.time(row.start_ns as f64)),
                Datum::count(row.connection.into()),
                Datum::Number(row.sequence as f64, row.sequence.to_string()),
                Datum::maybe_ns(row.latency_ns.map(|ns| ns as f64)),
            ]);
        }
        panels.extend(panel(case, &chosen));
    }
    let mut note = format!(
        "{} of the {} logged messages: the slowest of each of {STRETCHES} stretches of time, and an even sample of the others. The numbers are those of the slowest.",
        (drawn as u64),
        of
    );
    if scene.messages.not_kept > 0 {
        note.push_str(&format!(" The log did not keep {} more.", scene.messages.not_kept));
    }
    if let Some(some) = some_of(shown.len(), scene.measured().len()) {
        note.push_str(&format!(" {some}"));
    }
    Drawn::Picture(Picture { panels, data, note, ..Picture::default() })
}

/// Why there are no messages, and what to type to have them.
fn missing(run: &Run) -> String {
    let again = command_again(&run.header.command);
    match (run.header.plan.message_log, run.rounds.iter().any(|round| round.batch > 1)) {
        (0, _) => format!("the run kept no messages; without -o message-log=0 it does: {again}"),
        (_, true) => {
            format!("several messages share a pair of clock readings; this times each of them: {again} -o stamps=both")
        }
        (_, false) => "this report was made without the per-message log; msgpath report reads it".into(),
    }
}

fn panel(case: &CaseSummary, chosen: &Chosen) -> Option<Svg> {
    let range = chosen.range.map(|(low, high)| (low as f64, high as f64));
    let (low, high) = range.or_else(|| (!chosen.lost.is_empty()).then_some((1e3, 1e6)))?;
    let (from, to) = chosen.span;
    let x = Scale::linear((from as f64, to as f64), (LEFT, WIDTH - RIGHT));
    let y = Scale::log((low * 0.9, high * 1.15), (HEIGHT - BOTTOM, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    drawing.attribute(
        "data-geo",
        &format!("{{\"left\":{LEFT},\"right\":{right},\"top\":{TOP},\"bottom\":{bottom},\"from\":{from},\"to\":{to}}}"),
    );
    let name = format!("{}, {}", case.case.path, words::message_at(&case.case));
    drawing.text("b", (0.0, 13.0), Anchor::Start, &name);
    time_ticks_left(&mut drawing, (low * 0.9, high * 1.15), &y, LEFT, WIDTH - RIGHT);
    drawing.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    for (at, anchor) in [(from, Anchor::Start), (from + (to - from) / 2, Anchor::Middle), (to, Anchor::End)] {
        drawing.text("m", (x.at(at as f64), HEIGHT - BOTTOM + 17.0), anchor, &G.time(at as f64));
    }
    drawing.text("m", ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0), Anchor::Middle, "time since the start of the run");
    let place = |row: &MessageRow| (x.at(row.start_ns as f64), y.at(row.latency_ns.unwrap_or(0).max(1) as f64));
    // One path of dots: thousands of elements would make the page slow.
    let mut dots = String::new();
    for row in &chosen.others {
        let (x, y) = place(row);
        // Writing to a String cannot fail.
        let _ = write!(dots, "M{x:.1},{y:.1}h0");
    }
    drawing.raw(&format!("<path class=\"pts t1\" d=\"{dots}\"/>"));
    for row in &chosen.slowest {
        let time = G.time(row.latency_ns.unwrap_or(0) as f64);
        let title = format!(
            "{time} at {}, connection {}, message {}",
            G.time(row.start_ns as f64),
            row.connection,
            row.sequence
        );
        drawing.dot("hollow t2", place(row), 2.2, &title);
    }
    for row in &chosen.lost {
        drawing.text("f2", (x.at(row.start_ns as f64), TOP - 6.0), Anchor::Middle, "×");
    }
    Some(drawing.finish(&format!("Latency of single messages over time: {name}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;
    use crate::html::Messages;

    #[test]
    fn messages_of_three_sizes() {
        let (run, summary, rows) = fixture::trials();
        let messages = Messages { logged: &rows, not_kept: 7, ..Messages::default() };
        let scene = Scene { messages, ..Scene::new(&run, &summary) };
        insta::assert_snapshot!("points", drawn(&FIGURE, &scene));
        assert!(drawn(&FIGURE, &Scene::new(&run, &summary)).starts_with("n/a: the run kept no messages"));
    }
}
