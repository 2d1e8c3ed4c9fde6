//! Whole distributions in one drawing for each workload: idle and under load, alone and beside others.

use msgpath_core::units::Glyphs;
use msgpath_present::html::Scene;
use msgpath_present::html::figures::chart::{range, times_between};
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture, hue};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};

use crate::analyse::LoadedSummary;
use crate::mix::analyse::MixSummary;
use crate::mix::record::MixFacts;
use crate::section::Mixed;
use crate::shapes::{Curve, loaded, mixed};

pub(super) const FIGURE: Figure = Figure {
    name: "with-and-without",
    heading: "All times, with the others and without",
    how: "What part of the messages took up to how long: a line for each of what goes on beside them. The further right a line lies, the slower; where it ends below 100 % messages were lost.",
    draw: picture,
};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 30.0;
/// Of a name in the line above, by its characters.
const CHARACTER: f64 = 7.2;

fn picture(scene: &Scene<'_>) -> Drawn {
    let sections = &scene.summary.sections;
    let shapes = if let Some(summary) = sections.get::<LoadedSummary>() {
        loaded(scene.run, summary)
    } else if let Some((summary, facts)) = sections.get::<MixSummary>().zip(scene.run.header.parts.get::<MixFacts>()) {
        let rounds = scene.logs.and_then(|logs| logs.own::<Mixed>()).map_or(&[][..], |mixed| mixed.0.as_slice());
        mixed(scene.run, facts, rounds, summary)
    } else {
        return Drawn::Nothing;
    };
    let mut data = DataTable::new(&[("who", "who"), ("while", "while"), ("part", "part"), ("up to", "time_ns")]);
    let mut panels = Vec::new();
    for (who, curves) in &shapes {
        for curve in curves {
            for (ns, part) in curve.points.iter().step_by(5) {
                let percent = format!("{:.0} %", 100.0 * part);
                data.row([
                    who.as_str().into(),
                    curve.name.as_str().into(),
                    Datum::Number(*part, percent),
                    Datum::ns(*ns),
                ]);
            }
        }
        panels.extend(draw((who.as_str(), curves.as_slice()), shapes.len() > 1));
    }
    match panels.is_empty() {
        true => Drawn::Unavailable("no message is timed one by one".into()),
        false => Drawn::Picture(Picture { panels, data, ..Picture::default() }),
    }
}

/// `named`: the drawing says whose times it shows.
fn draw((who, curves): (&str, &[Curve]), named: bool) -> Option<Svg> {
    let (low, high) = range(curves.iter().flat_map(|curve| &curve.points).map(|(ns, _)| ns.max(1.0)))?;
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = Scale::log((low * 0.97, high * 1.03), (LEFT, right));
    let y = Scale::linear((0.0, 1.0), (bottom, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    if named {
        drawing.text("b", (0.0, 14.0), Anchor::Start, who);
    }
    for (tick, name) in times_between(low * 0.97, high * 1.03) {
        drawing.line("grid", (x.at(tick), TOP), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 18.0), Anchor::Middle, &name);
    }
    for percent in [0, 25, 50, 75, 100] {
        let at = y.at(f64::from(percent) / 100.0);
        drawing.line("grid", (LEFT, at), (right, at));
        drawing.text("m", (LEFT - 7.0, at + 4.0), Anchor::End, &format!("{percent} %"));
    }
    let mut next = LEFT;
    for (at, curve) in curves.iter().enumerate() {
        let hue = hue(at);
        let line: Vec<(f64, f64)> = curve.points.iter().map(|(ns, part)| (x.at(ns.max(1.0)), y.at(*part))).collect();
        drawing.path(&format!("ln s{hue}"), &line);
        drawing.path(&format!("ln s{hue}"), &[(next, TOP - 20.0), (next + 26.0, TOP - 20.0)]);
        let half = curve.points.iter().find(|(_, part)| *part >= 0.5).map(|(ns, _)| *ns);
        let name = half.map_or_else(|| curve.name.clone(), |ns| format!("{}, half within {}", curve.name, time(ns)));
        drawing.text(&format!("b f{hue}"), (next + 32.0, TOP - 16.0), Anchor::Start, &name);
        next += 60.0 + CHARACTER * name.chars().count() as f64;
        if let Some(ns) = half {
            drawing.dot(&format!("f{hue}"), (x.at(ns), y.at(0.5)), 3.0, &name);
        }
    }
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    Some(drawing.finish(&format!("times of {who}: {}", names.join(", "))))
}

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MS, MixBed};
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn idle_and_loaded_times_are_in_one_drawing() {
        let (run, logs) = Bed { queue_bytes: 151_400, added_ns: 121.12 * MS, ..Bed::default() }.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let text = drawn(&FIGURE, &Scene { logs: Some(&logs), ..Scene::new(&run, &summary) });
        assert!(text.contains("idle, half within") && text.contains("down, half within 121 ms"), "{text}");
        assert_eq!(text.matches("<svg").count(), 1, "{text}");
    }

    #[test]
    fn a_mix_has_what_is_alone_and_beside() {
        let (run, logs) = MixBed { slower: 12.0, ..MixBed::default() }.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let text = drawn(&FIGURE, &Scene { logs: Some(&logs), ..Scene::new(&run, &summary) });
        assert!(text.contains("alone, half within") && text.contains("beside, half within"), "{text}");
        let other = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        let summary = msgpath_analyse::summarise(&other);
        assert!(matches!((FIGURE.draw)(&Scene::new(&other, &summary)), Drawn::Nothing));
    }
}
