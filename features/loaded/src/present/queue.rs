//! The queue over time under the latency over time, in the round of each direction whose median is that of its case.

use msgpath_core::schema::MessageRow;
use msgpath_core::units::{Glyphs, size};
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};

use crate::analyse::{LoadedSummary, UnderLoad, end_name, typical};
use crate::record::LoadedRound;
use crate::section::Read;

pub(super) const FIGURE: Figure = Figure {
    name: "loaded-queue",
    heading: "Latency over the queue, in one round of each direction",
    how: "Above: each message of the round by the time at which it was sent, and how long it took. Below: the bytes that waited in the queue of the end that sends the load, at the same time. Both from 0.",
    draw: picture,
};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 28.0;
const TALL: f64 = 150.0;
const GAP: f64 = 34.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(loaded) = scene.summary.sections.get::<LoadedSummary>() else { return Drawn::Nothing };
    let Some(read) = scene.logs.and_then(|logs| logs.own::<Read>()).filter(|read| !read.0.is_empty()) else {
        return Drawn::Unavailable("the queues of no round were read".into());
    };
    let mut data = DataTable::new(&[("load", "direction"), ("end", "end"), ("at", "t_ns"), ("queued", "queued_bytes")]);
    let mut panels = Vec::new();
    for under in &loaded.directions {
        let Some(round) = typical(scene.run, &read.0, under.case) else { continue };
        let mut sent: Vec<(f64, f64)> = Vec::new();
        scene.messages.logged.rounds(&|case, pass| (case, pass) == (round.case, round.pass), &mut |rows| {
            sent.extend(rows.iter().filter_map(point));
        });
        for end in under.direction.senders() {
            let Some(samples) = queue(round, *end) else { continue };
            for (at, bytes) in &samples {
                let name = under.direction.name();
                data.row([name.into(), end_name(*end).into(), Datum::ns(*at), Datum::count(*bytes as u64)]);
            }
            // Both begin when the ends begin to read; where that was not kept, with their first.
            let begin = round.from_ns.map_or_else(|| sent.first().map_or(0.0, |point| point.0), |ns| ns as f64);
            let since: Vec<(f64, f64)> = sent.iter().map(|(at, ns)| ((at - begin).max(0.0), *ns)).collect();
            panels.push(draw(under, *end, &since, &samples));
        }
    }
    if panels.is_empty() {
        return Drawn::Unavailable("no queue of an end that sends was read".into());
    }
    Drawn::Picture(Picture { panels, data, ..Picture::default() })
}

/// When a message was sent and how long it took, ns.
fn point(row: &MessageRow) -> Option<(f64, f64)> {
    Some((row.start_ns as f64, row.latency_ns? as f64))
}

/// Bytes in the queue of an end, by the time since its first sample, ns.
fn queue(round: &LoadedRound, end: usize) -> Option<Vec<(f64, f64)>> {
    let log = round.ends[end].as_ref()?;
    let first = log.samples.first()?.t_ns;
    let samples = log.samples.iter();
    let points: Vec<(f64, f64)> =
        samples.filter_map(|at| Some((at.t_ns.saturating_sub(first) as f64, at.backlog_bytes? as f64))).collect();
    (points.len() > 1).then_some(points)
}

fn draw(under: &UnderLoad, end: usize, sent: &[(f64, f64)], queued: &[(f64, f64)]) -> Svg {
    let last = |points: &[(f64, f64)]| points.last().map_or(0.0, |point| point.0);
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let span = last(sent).max(last(queued)).max(1.0);
    let mut drawing = Drawing::new(WIDTH, TOP + 2.0 * TALL + GAP + 34.0);
    let x = Scale::linear((0.0, span), (LEFT, WIDTH - RIGHT));
    let head = format!("load {}, queue at the {}", under.direction, end_name(end));
    drawing.text("b", (0.0, 14.0), Anchor::Start, &head);
    let (upper, lower) = ((TOP, TOP + TALL), (TOP + TALL + GAP, TOP + 2.0 * TALL + GAP));
    let times = axis(&mut drawing, upper, most(sent), &|ns| Glyphs::Unicode.time(ns));
    for (at, ns) in sent {
        let title = format!("{} after {}", Glyphs::Unicode.time(*ns), Glyphs::Unicode.time(*at));
        drawing.dot("f0", (x.at(*at), times.at(*ns)), 2.5, &title);
    }
    let bytes = axis(&mut drawing, lower, most(queued), &|bytes| size(bytes as u64));
    let line: Vec<(f64, f64)> = queued.iter().map(|(at, queued)| (x.at(*at), bytes.at(*queued))).collect();
    drawing.path("ln s1", &line);
    for share in [0.0, 0.5, 1.0] {
        let at = x.at(share * span);
        drawing.text("m small", (at, lower.1 + 18.0), Anchor::Middle, &Glyphs::Unicode.time(share * span));
    }
    let label = format!(
        "{head}: messages of up to {} over a queue of up to {}",
        Glyphs::Unicode.time(most(sent)),
        size(most(queued) as u64)
    );
    drawing.finish(&label)
}

/// An axis from 0 to `most` on the left, with a line at each end.
fn axis(drawing: &mut Drawing, (top, bottom): (f64, f64), most: f64, print: &dyn Fn(f64) -> String) -> Scale {
    let scale = Scale::linear((0.0, most.max(1.0)), (bottom, top));
    for value in [0.0, most] {
        let y = scale.at(value);
        drawing.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
        let name = if value == 0.0 { "0".to_owned() } else { print(value) };
        drawing.text("m", (LEFT - 7.0, y + 4.0), Anchor::End, &name);
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MS};
    use msgpath_present::html::Messages;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn the_queue_is_drawn_under_the_messages() {
        let bed = Bed { queue_bytes: 151_400, added_ns: 121.12 * MS, ..Bed::default() };
        let (run, logs) = bed.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let pass = typical(&run, &logs.own::<Read>().unwrap().0, 1).unwrap().pass;
        let row =
            |start_ns| MessageRow { case: 1, pass, start_ns, latency_ns: Some(121_000_000), ..MessageRow::default() };
        let rows = vec![row(5_000_000), row(130_000_000)];
        let messages = Messages { logged: &rows, ..Messages::default() };
        let text = drawn(&FIGURE, &Scene { messages, logs: Some(&logs), ..Scene::new(&run, &summary) });
        assert!(text.contains("load down, queue at the server") && text.contains("148 KiB"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
        assert!(drawn(&FIGURE, &Scene::new(&run, &summary)).starts_with("n/a: "));
    }
}
