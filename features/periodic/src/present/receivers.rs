//! Receivers of a multicast group, one below the other: median with its range, 99th percentile, share of lost messages.

use msgpath_core::units::Glyphs;
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, time_ticks};
use msgpath_present::words;
use msgpath_stats::quantile::Quantile;

use crate::analyse::{GroupReceiver, PeriodicSummary};

pub(super) const FIGURE: Figure = Figure {
    name: "receivers",
    heading: "Delay and loss of each receiver",
    how: "A row is a receiver of the multicast group. The dot is its median, the bar the median's range, the mark to the right its 99th percentile (time is log, one scale for all engines). On the right is the share of messages that it lost.",
    draw: picture,
};

const WIDTH: f64 = 560.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 34.0;
const ROW: f64 = 22.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(periodic) = scene.summary.sections.get::<PeriodicSummary>() else { return Drawn::Nothing };
    let engines: Vec<(String, &[GroupReceiver])> = scene
        .measured()
        .into_iter()
        .filter_map(|case| {
            let engine = periodic.engines.iter().find(|engine| engine.case == case.case.id)?;
            Some((case.case.path.to_string(), engine.receivers.as_slice()))
        })
        .filter(|(_, receivers)| !receivers.is_empty())
        .collect();
    if engines.is_empty() {
        return Drawn::Nothing;
    }
    let times = || engines.iter().flat_map(|(_, all)| all.iter()).flat_map(times_of);
    let (Some(least), Some(most)) = (times().min(), times().max()) else {
        return Drawn::Unavailable("no message of the group is in the log".into());
    };
    let mut data = DataTable::new(&[
        ("engine", "path"),
        ("receiver", "receiver"),
        ("messages", "messages"),
        ("lost", "lost"),
        ("p50", "p50_ns"),
        ("from", "p50_low_ns"),
        ("to", "p50_high_ns"),
        ("p99", "p99_ns"),
        ("out of order", "reordered"),
        ("no room", "overflowed"),
    ]);
    for (name, receivers) in &engines {
        for one in *receivers {
            let ns = |ns: Option<u64>| Datum::maybe_ns(ns.map(|ns| ns as f64));
            let end = |pick: fn(&Quantile) -> Option<u64>| ns(one.p50.as_ref().and_then(pick));
            data.row([
                name.as_str().into(),
                Datum::count(one.receiver.into()),
                Datum::count(one.messages),
                Datum::count(one.lost),
                end(|p50| p50.ns),
                end(|p50| p50.lo_ns),
                end(|p50| p50.hi_ns),
                ns(one.p99.as_ref().and_then(|p99| p99.ns)),
                Datum::count(one.reordered),
                one.overflowed.map_or_else(|| "".into(), Datum::count),
            ]);
        }
    }
    let scale = Scale::log((least as f64 / 1.1, most as f64 * 1.1), (LEFT, RIGHT));
    let panels = engines.iter().map(|(name, all)| draw(name, all, scale, (least as f64 / 1.1, most as f64 * 1.1)));
    Drawn::Picture(Picture { panels: panels.collect(), data, ..Picture::default() })
}

/// What is drawn of a receiver, ns.
fn times_of(one: &GroupReceiver) -> impl Iterator<Item = u64> {
    let p50 = one.p50.as_ref();
    let ends = [p50.and_then(|p50| p50.ns), p50.and_then(|p50| p50.lo_ns), p50.and_then(|p50| p50.hi_ns)];
    ends.into_iter().chain([one.p99.as_ref().and_then(|p99| p99.ns)]).flatten()
}

fn draw(engine: &str, receivers: &[GroupReceiver], scale: Scale, (low, high): (f64, f64)) -> Svg {
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let bottom = TOP + ROW * receivers.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 30.0);
    drawing.text("b", (0.0, 14.0), Anchor::Start, engine);
    drawing.text("m small", (WIDTH - 4.0, TOP - 8.0), Anchor::End, "lost");
    let mut free = f64::MIN;
    for tick in time_ticks(low, high) {
        let x = scale.at(tick);
        drawing.line("grid", (x, TOP), (x, bottom));
        if x - free >= 44.0 {
            drawing.text("m small", (x, bottom + 14.0), Anchor::Middle, &words::chosen(&Glyphs::Unicode.time(tick)));
            free = x;
        }
    }
    for (at, one) in receivers.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        let name: String = match one.place.as_str() {
            "" => format!("receiver {}", one.receiver),
            place => format!("{} in {place}", one.receiver),
        };
        let name: String =
            if name.chars().count() > 18 { name.chars().take(17).chain(['…']).collect() } else { name };
        drawing.text("small", (LEFT - 10.0, y + 4.0), Anchor::End, &name);
        if let Some((p50, ns)) = one.p50.as_ref().and_then(|p50| Some((p50, p50.ns?))) {
            if let (Some(from), Some(to)) = (p50.lo_ns, p50.hi_ns) {
                let (from, to) = (scale.at(from as f64), scale.at(to as f64));
                drawing.rectangle("cell f1", (from, y - 5.0), ((to - from).max(1.0), 10.0), 0.35, "");
            }
            let p99 = one.p99.as_ref().and_then(|p99| p99.ns);
            if let Some(p99) = p99 {
                let x = scale.at(p99 as f64);
                drawing.line("axis", (x, y - 6.0), (x, y + 6.0));
            }
            let title = format!(
                "receiver {}: p50 {}{}, {} lost",
                one.receiver,
                time(ns),
                p99.map_or_else(String::new, |ns| format!(", p99 {}", time(ns))),
                words::counted(one.lost, "message")
            );
            drawing.dot("f1", (scale.at(ns as f64), y), 4.0, &title);
        } else {
            drawing.text("m small", ((LEFT + RIGHT) / 2.0, y + 4.0), Anchor::Middle, "nothing arrived");
        }
        let share = match one.lost {
            0 => "0".into(),
            lost => words::percent(lost as f64 / one.expected().max(1) as f64),
        };
        drawing.text(if one.lost > 0 { "b small" } else { "m small" }, (WIDTH - 4.0, y + 4.0), Anchor::End, &share);
    }
    let worst = receivers.iter().map(|one| one.lost).max().unwrap_or(0);
    drawing.finish(&format!(
        "{engine}: median delay and loss of {}; at most {} lost",
        words::counted(receivers.len() as u64, "receiver"),
        words::counted(worst, "message")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::Summary;
    use msgpath_present::fixture;
    use msgpath_present::html::figures::testing::drawn;

    use crate::analyse::Engine;

    #[test]
    fn every_receiver_is_a_row() {
        let (run, mut summary): (_, Summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
        let p50 = summary.cases[0].latency.quantiles.iter().find(|quantile| quantile.p == 0.5).cloned();
        let whole = GroupReceiver { receiver: 1, messages: 100, p50, ..GroupReceiver::default() };
        let silent = GroupReceiver {
            receiver: 2,
            lost: 100,
            place: "a place with a long name".into(),
            ..GroupReceiver::default()
        };
        let engine = Engine { case: summary.cases[0].case.id, receivers: vec![whole, silent], ..Engine::default() };
        summary.sections.set(PeriodicSummary { engines: vec![engine] });
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(text.contains("<title>receiver 1: p50 ") && text.contains("nothing arrived"), "{text}");
        assert!(text.contains(">100 %<") && text.contains("2 in a place with…"), "{text}");
    }
}
