//! Each effect of a mix in a small drawing of its own: without beside with, from 0.

use msgpath_core::units::Glyphs;
use msgpath_present::html::Scene;
use msgpath_present::html::figures::{DataTable, Datum, Drawn, Figure, Picture};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg};
use msgpath_stats::estimate::Estimate;

use super::analyse::{Compared, Effect, MixSummary};
use super::view::print;
use crate::findings::mixed::change;

pub(crate) const FIGURE: Figure = Figure {
    name: "mix",
    heading: "Each alone and beside the others",
    how: "A drawing for each that notices another: its median, or its throughput, while that other is switched off and while everything goes on, both from 0. The thin line is the interval of the mean over rounds.",
    draw: picture,
};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 118.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 96.0;
const BAR: f64 = 22.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(mix) = scene.summary.sections.get::<MixSummary>() else { return Drawn::Nothing };
    let heads = [
        ("who", "who"),
        ("by", "by"),
        ("what", "metric"),
        ("without", "without"),
        ("with", "with"),
        ("ratio", "ratio"),
    ];
    let mut data = DataTable::new(&heads);
    let mut panels = Vec::new();
    for effect in mix.mains.iter().flat_map(|main| &main.effects) {
        let (Some(without), Some(with)) = (&effect.without, &effect.with) else { continue };
        let what = match effect.metric {
            Compared::P50 => "p50_ns",
            Compared::OneWayP50 => "one_way_p50_ns",
            Compared::Throughput => "bits_per_s",
        };
        let number = |value: f64| Datum::Number(value, print(effect.metric, value, Glyphs::Unicode));
        let ratio = effect.ratio.value;
        data.row([
            effect.on.as_str().into(),
            effect.by.as_str().into(),
            what.into(),
            number(without.value),
            number(with.value),
            Datum::Number(ratio, msgpath_core::units::three_digits(ratio)),
        ]);
        panels.push(draw(effect, without, with));
    }
    match panels.is_empty() {
        true => Drawn::Unavailable("no pass has rounds with and without".into()),
        false => Drawn::Picture(Picture { panels, data, ..Picture::default() }),
    }
}

fn draw(effect: &Effect, without: &Estimate, with: &Estimate) -> Svg {
    let most = [without, with].iter().map(|one| one.high.unwrap_or(one.value).min(2.0 * one.value)).fold(0.0, f64::max);
    let scale = Scale::linear((0.0, most.max(1e-9)), (LEFT, WIDTH - RIGHT));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let head = format!("{}{}, by {}", effect.on, effect.metric.suffix(), effect.by);
    drawing.text("b", (0.0, 14.0), Anchor::Start, &head);
    let (what, ends) = change(effect);
    let what = ends.map_or(what.clone(), |ends| format!("{what} ({ends})"));
    for (at, (name, estimate)) in [("without", without), ("with", with)].into_iter().enumerate() {
        let top = 28.0 + at as f64 * (BAR + 8.0);
        let value = print(effect.metric, estimate.value, Glyphs::Unicode);
        let middle = top + BAR / 2.0;
        drawing.text("m", (LEFT - 7.0, middle + 4.0), Anchor::End, name);
        drawing.rectangle(
            &format!("f{at}"),
            (LEFT, top),
            (scale.at(estimate.value) - LEFT, BAR),
            0.55,
            &format!("{name}: {value}"),
        );
        let (low, high) = (estimate.low.unwrap_or(estimate.value), estimate.high.unwrap_or(estimate.value));
        drawing.line("axis", (scale.at(low.max(0.0)), middle), (scale.at(high.min(most)), middle));
        drawing.text("m", (scale.at(high.min(most).max(estimate.value)) + 7.0, middle + 4.0), Anchor::Start, &value);
    }
    drawing.text("m small", (LEFT, 28.0 + 2.0 * (BAR + 8.0) + 12.0), Anchor::Start, &what);
    drawing.finish(&format!("{head}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MixBed;
    use msgpath_present::html::figures::testing::drawn;

    #[test]
    fn each_effect_has_a_drawing_with_two_bars() {
        let (run, logs) = MixBed { slower: 12.0, stream_keeps: 0.8, ..MixBed::default() }.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let text = drawn(&FIGURE, &Scene { logs: Some(&logs), ..Scene::new(&run, &summary) });
        for part in ["echo p50, by stream", "stream, by echo", " times slower", "loses 20 %"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("<rect").count(), 4, "{text}");
        let other = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        let summary = msgpath_analyse::summarise(&other);
        assert!(matches!((FIGURE.draw)(&Scene::new(&other, &summary)), Drawn::Nothing));
    }
}
