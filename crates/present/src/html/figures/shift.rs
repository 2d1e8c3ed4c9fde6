//! Shift plot: where did it get better or worse? `report A B` only.

use msgpath_analyse::diff::shift::{Shift, ShiftPoint, shift};

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::{Anchor, Drawing, Scale, Svg, stretch, unstretch};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "shift",
    heading: "Change at each percentile",
    how: "Time of the later run divided by the earlier one, at every percentile; below 1× is faster. The band along the line is its 95 % interval, cut off where it leaves the frame; the dotted part has too few messages for one. Grey: the halves of one run differ as much.",
    draw: picture,
};

/// Cases at most; the rest is in the numbers.
const PANELS: usize = 6;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 44.0;

fn picture(scene: &Scene<'_>) -> Drawn {
    let Some(earlier) = &scene.earlier else { return Drawn::Nothing };
    let shifts = shift(earlier.run, scene.run);
    if shifts.is_empty() {
        return Drawn::Unavailable("the runs have no case in common whose messages were timed".into());
    }
    let mut data = DataTable::new(&[
        ("case", "case"),
        ("percentile", "p"),
        ("earlier", "a_ns"),
        ("later", "b_ns"),
        ("ratio", "ratio"),
        ("from", "low"),
        ("to", "high"),
        ("noise", "noise"),
    ]);
    for shift in &shifts {
        for point in &shift.points {
            let ends = point.interval.map(|(low, high)| [low, high]);
            data.row([
                shift.case.as_str().into(),
                Datum::Number(point.p, format!("p{:.4}", 100.0 * point.p)),
                Datum::ns(point.a as f64),
                Datum::ns(point.b as f64),
                Datum::number(point.ratio),
                ends.map_or(Datum::Missing, |ends| Datum::number(ends[0])),
                ends.map_or(Datum::Missing, |ends| Datum::number(ends[1])),
                point.noise.map_or(Datum::Missing, Datum::number),
            ]);
        }
    }
    let mut note = format!("Earlier: {}. Later: {}.", earlier.run.header.name, scene.run.header.name);
    if shifts.len() > PANELS {
        note.push_str(&format!(" {} more cases are in the numbers below.", shifts.len() - PANELS));
    }
    Drawn::Picture(Picture { panels: shifts.iter().take(PANELS).map(draw).collect(), data, note, ..Picture::default() })
}

fn draw(shift: &Shift) -> Svg {
    let points = &shift.points;
    // The ratios and the intervals that say something; one that reaches to the moon would flatten the rest.
    let ends = points.iter().flat_map(|point| {
        let interval = point.interval.filter(|(low, high)| high / low < 2.0);
        let (low, high) = interval.unwrap_or((point.ratio, point.ratio));
        [low, high, point.ratio]
    });
    let (low, high) = ends
        .filter(|end| end.is_finite() && *end > 0.0)
        .fold((0.9, 1.1), |(low, high), end| (f64::min(low, end), f64::max(high, end)));
    let (low, high) = (low * 0.95, high * 1.05);
    let last = points.last().map_or(2.0, |point| stretch(point.p)).max(2.0);
    let x = Scale::linear((0.0, last), (LEFT, WIDTH - RIGHT));
    let y = Scale::log((low, high), (HEIGHT - BOTTOM, TOP));
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    drawing.text("b", (0.0, 13.0), Anchor::Start, &shift.case);
    drawing.text("m", (LEFT, TOP - 10.0), Anchor::Start, "later / earlier (log)");
    let inside = |ratio: f64| y.at(ratio.clamp(low, high));
    let band = |drawing: &mut Drawing, class: &str, of: &dyn Fn(&ShiftPoint) -> Option<(f64, f64)>| {
        for run in points.chunk_by(|a, b| of(a).is_some() == of(b).is_some()) {
            let ends: Vec<(f64, f64, f64)> = run
                .iter()
                .filter_map(|point| of(point).map(|(low, high)| (x.at(stretch(point.p)), low, high)))
                .collect();
            let edge = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
                ends.iter().map(|end| (end.0, inside(pick(end)))).collect()
            };
            drawing.band(class, &edge(|end| end.2), &edge(|end| end.1));
        }
    };
    band(&mut drawing, "noise", &|point| point.noise.map(|noise| (1.0 / noise, noise)));
    let step = if high / low > 8.0 {
        1.0
    } else if high / low > 2.0 {
        0.5
    } else {
        0.125
    };
    let ticks = (-48..=48).map(|tick| f64::from(tick) * step).filter(|tick| (low..=high).contains(&tick.exp2()));
    for ratio in ticks.map(f64::exp2) {
        drawing.line(if ratio == 1.0 { "axis" } else { "grid" }, (LEFT, y.at(ratio)), (WIDTH - RIGHT, y.at(ratio)));
        let text = format!("{ratio:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        drawing.text("m", (LEFT - 7.0, y.at(ratio) + 4.0), Anchor::End, &format!("{text}×"));
    }
    for p in [0.5].into_iter().chain((1..=last as i32).map(|nines| unstretch(nines.into()))) {
        let at = x.at(stretch(p));
        drawing.line("grid", (at, TOP), (at, HEIGHT - BOTTOM));
        drawing.text(
            "m",
            (at, HEIGHT - BOTTOM + 17.0),
            Anchor::Middle,
            words::quantile_name(p).trim_start_matches('p'),
        );
    }
    let name = "percentile of messages (%), stretched toward the tail";
    drawing.text("m", ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0), Anchor::Middle, name);
    band(&mut drawing, "bd f1", &|point| point.interval);
    let place = |point: &ShiftPoint| (x.at(stretch(point.p)), inside(point.ratio));
    // The parts with and without a claim share a point, so that no gap is left between them.
    let mut from = 0;
    for run in points.chunk_by(|a, b| a.interval.is_some() == b.interval.is_some()) {
        let to = (from + run.len() + 1).min(points.len());
        let class = if run[0].interval.is_some() { "ln t1" } else { "noclaim t1" };
        drawing.path(class, &points[from..to].iter().map(place).collect::<Vec<_>>());
        from += run.len();
    }
    for point in points.iter().step_by(4) {
        let interval = point
            .interval
            .map_or("too few messages for an interval".into(), |(low, high)| format!("95 %: {low:.3} to {high:.3}"));
        let title = format!(
            "p{:.3}: {} became {}, {:.3}×, {interval}",
            100.0 * point.p,
            G.time(point.a as f64),
            G.time(point.b as f64),
            point.ratio
        );
        drawing.dot("f1", place(point), 2.4, &title);
    }
    drawing.finish(&format!("Later time divided by earlier time against percentile for {}", shift.case))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;
    use crate::html::{Earlier, Messages};

    #[test]
    fn two_runs() {
        let ((a, of_a), (b, of_b)) = (fixture::echo(), fixture::slower_echo());
        let diff = msgpath_analyse::diff::diff(&a, &b, &[]);
        let scene = |a| Scene {
            earlier: Some(Earlier { run: a, summary: &of_a, diff: &diff, messages: Messages::default() }),
            ..Scene::new(&b, &of_b)
        };
        insta::assert_snapshot!("shift", drawn(&FIGURE, &scene(&a)));
        let (other, _) = fixture::stream();
        assert!(drawn(&FIGURE, &scene(&other)).starts_with("n/a: "));
        assert_eq!(drawn(&FIGURE, &Scene::new(&b, &of_b)), "nothing");
    }
}
