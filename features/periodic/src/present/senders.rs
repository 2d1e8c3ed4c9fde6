//! Sender by receiver: who is slow to whom, in a periodic run. Views: the median of each pair, and its slowest message.

use crate::analyse::pairs::{Pair, pairs};
use crate::record::PeriodicFacts;

use msgpath_core::units::Glyphs;

use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::svg::{Anchor, Drawing, Svg};
use msgpath_present::words;

pub(super) const FIGURE: Figure = Figure {
    name: "senders",
    heading: "Delay from each sender to each receiver",
    how: "A cell is the messages of a sender to a receiver: the stronger its colour, the longer they took (log, one scale for all engines). × are lost messages. A strong row is a slow receiver, a strong column a slow sender.",
    draw: picture,
};

/// Components beyond which cells would be too small.
const MOST: usize = 64;
/// A time of a pair, ns.
type Time = fn(&Pair) -> Option<u64>;

const LEFT: f64 = 92.0;
const TOP: f64 = 56.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(facts) = scene.run.header.parts.get::<PeriodicFacts>() else { return Drawn::Nothing };
    // The figure of receivers says it.
    if facts.group.is_some() {
        return Drawn::Nothing;
    }
    if facts.processes * facts.components > MOST as u32 {
        return Drawn::Unavailable(format!("more than {MOST} components: their pairs are in the log (msgpath export)"));
    }
    let engines: Vec<(String, Vec<Pair>)> = scene
        .measured()
        .into_iter()
        .map(|case| (case.case.path.to_string(), pairs(scene.messages.logged, case.case.id, facts)))
        .filter(|(_, pairs)| !pairs.is_empty())
        .collect();
    if engines.is_empty() {
        return Drawn::Unavailable("this report was made without the per-message log; msgpath report reads it".into());
    }
    let mut data = DataTable::new(&[
        ("engine", "path"),
        ("sender", "sender"),
        ("receiver", "receiver"),
        ("messages", "messages"),
        ("lost", "lost"),
        ("p50", "p50_ns"),
        ("slowest", "slowest_ns"),
    ]);
    for (name, pairs) in &engines {
        for pair in pairs {
            data.row([
                name.as_str().into(),
                Datum::count(pair.sender.into()),
                Datum::count(pair.receiver.into()),
                Datum::count(pair.messages),
                Datum::count(pair.lost),
                Datum::maybe_ns(pair.p50_ns.map(|ns| ns as f64)),
                Datum::maybe_ns(pair.slowest_ns.map(|ns| ns as f64)),
            ]);
        }
    }
    let (mut panels, mut views) = (Vec::new(), Vec::new());
    let ways: [(&str, Time); 2] = [("median", |pair| pair.p50_ns), ("slowest", |pair| pair.slowest_ns)];
    for (name, of) in ways {
        let values = || engines.iter().flat_map(|(_, pairs)| pairs).filter_map(of);
        let (Some(low), Some(high)) = (values().min(), values().max()) else { continue };
        panels.extend(engines.iter().map(|(engine, pairs)| draw(engine, pairs, name, of, (low, high))));
        views.push((name.to_owned(), engines.len()));
    }
    Drawn::Picture(Picture { panels, views, data, ..Picture::default() })
}

fn draw(engine: &str, pairs: &[Pair], name: &str, of: fn(&Pair) -> Option<u64>, (low, high): (u64, u64)) -> Svg {
    let count = pairs.iter().map(|pair| pair.sender.max(pair.receiver) + 1).max().unwrap_or(1) as usize;
    let cell = (400.0 / count as f64).clamp(8.0, 62.0);
    let edge = cell * count as f64;
    let mut drawing = Drawing::new(LEFT + edge + 24.0, TOP + edge + 30.0);
    drawing.text("b", (0.0, 14.0), Anchor::Start, &format!("{engine}: {name} of each pair"));
    drawing.text("m", (LEFT + edge / 2.0, TOP - 18.0), Anchor::Middle, "sender");
    drawing.text("m", (0.0, TOP + edge / 2.0), Anchor::Start, "receiver");
    // As many numbers as have room.
    let step = (18.0 / cell).ceil() as usize;
    for at in (0..count).step_by(step.max(1)) {
        let middle = cell * (at as f64 + 0.5);
        drawing.text("m small", (LEFT + middle, TOP - 4.0), Anchor::Middle, &at.to_string());
        drawing.text("m small", (LEFT - 5.0, TOP + middle + 4.0), Anchor::End, &at.to_string());
    }
    let span = (high.max(1) as f64 / low.max(1) as f64).ln();
    for pair in pairs {
        let (x, y) = (LEFT + cell * f64::from(pair.sender), TOP + cell * f64::from(pair.receiver));
        let Some(ns) = of(pair) else {
            drawing.rectangle(
                "cell empty",
                (x, y),
                (cell, cell),
                1.0,
                &format!("{} to {}: all lost", pair.sender, pair.receiver),
            );
            drawing.text("f2", (x + cell / 2.0, y + cell / 2.0 + 4.0), Anchor::Middle, "×");
            continue;
        };
        let share = if span > 0.0 { (ns.max(1) as f64 / low.max(1) as f64).ln() / span } else { 0.0 };
        let lost = if pair.lost > 0 { format!(", {} lost", pair.lost) } else { String::new() };
        let title = format!(
            "{} to {}: p50 {}, slowest {}, {}{lost}",
            pair.sender,
            pair.receiver,
            Glyphs::Unicode.time(pair.p50_ns.unwrap_or(0) as f64),
            Glyphs::Unicode.time(pair.slowest_ns.unwrap_or(0) as f64),
            words::counted(pair.messages, "message")
        );
        drawing.rectangle("cell f1", (x, y), (cell, cell), 0.06 + 0.7 * share, &title);
        if cell >= 50.0 {
            drawing.text(
                "small",
                (x + cell / 2.0, y + cell / 2.0 + 4.0),
                Anchor::Middle,
                &Glyphs::Unicode.time(ns as f64),
            );
        }
        if pair.lost > 0 {
            drawing.text("f2", (x + cell - 6.0, y + 10.0), Anchor::Middle, "×");
        }
    }
    let key = format!("{} to {}", Glyphs::Unicode.time(low as f64), Glyphs::Unicode.time(high as f64));
    drawing.text("m small", (LEFT, TOP + edge + 20.0), Anchor::Start, &format!("colour: {key}, log"));
    drawing.finish(&format!("{engine}: {name} time of the messages of each sender to each receiver, {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PeriodicFacts;
    use msgpath_core::schema::MessageRow;
    use msgpath_present::fixture;
    use msgpath_present::html::Messages;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn every_pair_is_a_cell() {
        let (mut run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
        run.header.parts.set(PeriodicFacts { processes: 2, components: 1, ..PeriodicFacts::default() });
        assert!(drawn(&FIGURE, &Scene::new(&run, &summary)).starts_with("n/a: "));
        let case = summary.cases[0].case.id;
        let row = |connection, latency_ns| MessageRow { case, connection, latency_ns, ..MessageRow::default() };
        let rows = vec![row(1, Some(10_000)), row(2, Some(90_000)), row(2, None)];
        let messages = Messages { logged: &rows, ..Messages::default() };
        let text = drawn(&FIGURE, &Scene { messages, ..Scene::new(&run, &summary) });
        assert!(text.contains("<title>0 to 1: p50 90.0 µs, slowest 90.0 µs, 1 message, 1 lost</title>"), "{text}");
        assert_eq!(text.matches("class=\"cell f1\"").count(), 4, "two views of two pairs");
    }
}
