//! Load curve: how much load before it falls over. Rates that messages were offered at, by schedule, against latency
//! from the intended send.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, LoadCurve, LoadPoint, yes_or_no};

use msgpath_core::units;
use msgpath_stats::quantile::Quantile;

use super::super::G;
use super::chart::{Axis, Chart, Line, Point, beside, extent, range};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::{Anchor, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "load",
    heading: "Latency, by offered load",
    how: "Latency from the intended send, against the rate that was offered. A tick below a point is the rate achieved; a rate that was not sustained has no latency. A line across marks the knee, where the quantile named has doubled; where its 95 % interval is known, a column is shaded.",
    draw: picture,
};

/// The quantiles shown, the first two from the curve, the last from the case.
const SHOWN: [f64; 3] = [0.5, 0.99, 0.999];

fn picture(scene: &Scene<'_>) -> Drawn {
    let summary = scene.summary;
    if summary.load_curves.is_empty() {
        return Drawn::Nothing;
    }
    let panels = summary.load_curves.iter().filter_map(|curve| panel(scene, curve)).collect();
    let mut data = DataTable::new(&[
        ("path", "path"),
        ("size", "size_bytes"),
        ("offered", "asked_per_s"),
        ("achieved", "achieved_per_s"),
        ("sustained", "sustained"),
    ]);
    for p in SHOWN {
        let name = words::quantile_name(p);
        data.head(name.clone(), format!("{name}_ns"));
        data.head("range", format!("{name}_interval"));
    }
    for curve in &summary.load_curves {
        for point in &curve.points {
            let mut row = vec![
                curve.path.to_string().into(),
                Datum::Number(curve.size as f64, units::size(curve.size)),
                Datum::Number(point.asked_per_s, words::per_second(point.asked_per_s)),
                Datum::Number(point.achieved_per_s, words::per_second(point.achieved_per_s)),
                yes_or_no(point.sustained).into(),
            ];
            for p in SHOWN {
                let quantile = quantile(summary, point, p);
                row.push(Datum::maybe_ns(quantile.and_then(|quantile| quantile.observed()).map(|ns| ns as f64)));
                row.push(quantile.map_or(Datum::Missing, |quantile| words::quantile_range(quantile, G).into()));
            }
            data.row(row);
        }
    }
    Drawn::Picture(Picture { panels, data, ..Picture::default() })
}

/// A quantile of one rate, where that was sustained.
fn quantile<'a>(summary: &'a Summary, point: &LoadPoint, p: f64) -> Option<&'a Quantile> {
    let case: Option<&CaseSummary> = summary.cases.iter().find(|case| case.case.id == point.case);
    words::quantile(case.filter(|_| point.sustained != Some(false))?, p)
}

/// The lines of a curve, one for each quantile.
fn lines<'a>(summary: &'a Summary, curve: &'a LoadCurve) -> impl Iterator<Item = Line> + 'a {
    SHOWN.iter().map(move |p| {
        let points = curve.points.iter().filter_map(|point| {
            let title = format!("{} offered", words::per_second(point.asked_per_s));
            Point::quantile(point.asked_per_s, quantile(summary, point, *p)?, &title)
        });
        Line { label: words::quantile_name(*p), points: points.collect(), ..Line::default() }
    })
}

fn panel(scene: &Scene<'_>, curve: &LoadCurve) -> Option<Svg> {
    let summary = scene.summary;
    let mut lines: Vec<Line> = lines(summary, curve).collect();
    let mut rates: Vec<f64> = curve.points.iter().map(|point| point.asked_per_s).collect();
    let before = scene.earlier.as_ref().and_then(|earlier| {
        let same =
            |other: &&LoadCurve| (&other.path, other.size, other.threads) == (&curve.path, curve.size, curve.threads);
        Some((earlier.summary, earlier.summary.load_curves.iter().find(same)?))
    });
    if let Some((summary, curve)) = before {
        rates.extend(curve.points.iter().map(|point| point.asked_per_s));
        beside(&mut lines, self::lines(summary, curve), (0.0, f64::INFINITY));
    }
    let rates = range(rates.into_iter())?;
    let of = format!("{} {}", curve.path, units::size(curve.size));
    let print = |rate: f64| words::chosen(&words::decimal(rate));
    let x = Axis::values("messages a second offered (log)", rates, print);
    // Where no rate was sustained there is no latency: the frame still shows the rates.
    let y = Axis::times(&format!("{of}: latency from the intended send (log)"), extent(&lines).unwrap_or((1e3, 1e6)));
    let mut chart = Chart::new((960.0, 420.0), &x, &y);
    let (left, right, top, bottom) = chart.frame();
    if let Some(knee) = &curve.knee_per_s {
        if knee.low.is_some() || knee.high.is_some() {
            let from = knee.low.map_or(left, |low| chart.x.at(low)).clamp(left, right);
            let to = knee.high.map_or(right, |high| chart.x.at(high)).clamp(left, right);
            chart.drawing.rectangle("f1", (from, top), ((to - from).max(1.0), bottom - top), 0.12, "");
        }
        let at = chart.x.at(knee.value).clamp(left, right);
        chart.drawing.line("whisker t1", (at, top), (at, bottom));
    }
    let overloaded = curve.overloaded_per_s.map_or(right, |rate| chart.x.at(rate));
    for point in &curve.points {
        let (asked, achieved) = (chart.x.at(point.asked_per_s), chart.x.at(point.achieved_per_s).max(left));
        chart.drawing.line("axis", (achieved, bottom - 6.0), (achieved, bottom));
        if point.sustained == Some(false) {
            let title = format!(
                "{} offered, {} achieved: not sustained",
                words::per_second(point.asked_per_s),
                words::per_second(point.achieved_per_s)
            );
            chart.drawing.line("whisker mark t2", (achieved, bottom - 3.0), (asked, bottom - 3.0));
            chart.drawing.dot("hollow t2", (asked, bottom - 3.0), 4.0, &title);
        }
    }
    if curve.overloaded_per_s.is_some() {
        chart.drawing.text("f2", (overloaded.min(right), bottom - 12.0), Anchor::End, "not sustained");
    }
    chart.lines(&lines);
    if let Some(knee) = &curve.knee_per_s {
        let at = chart.x.at(knee.value).clamp(left, right);
        let name = format!("{} doubled", words::quantile_name(curve.knee_p));
        chart.drawing.text("f1 over", (at - 6.0, (top + bottom) / 2.0), Anchor::End, &name);
    }
    Some(chart.finish(&format!("Latency of {of} against the rate offered")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn a_curve_with_a_knee_and_an_overload() {
        let (run, summary) = fixture::load_curve();
        insta::assert_snapshot!("load", drawn(&FIGURE, &Scene::new(&run, &summary)));
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }

    #[test]
    fn a_knee_without_an_interval_shades_nothing() {
        let (run, mut summary) = fixture::load_curve();
        let knee = summary.load_curves[0].knee_per_s.as_mut().unwrap();
        (knee.low, knee.high) = (None, None);
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert!(text.contains("p99 doubled") && !text.contains("<rect class=\"f1\""), "{text}");
    }

    #[test]
    fn no_rate_sustained_is_no_latency() {
        let (run, mut summary) = fixture::load_curve();
        summary.load_curves[0].points.iter_mut().for_each(|point| point.sustained = Some(false));
        summary.load_curves[0].knee_per_s = None;
        let text = drawn(&FIGURE, &Scene::new(&run, &summary));
        assert_eq!(text.matches(": not sustained</title>").count(), 7);
        assert!(!text.contains("p99: "), "{text}");
    }
}
