//! Latency against rate: one row per rate, and where the curve ends.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{LoadCurve, LoadPoint, OpenLoop};
use msgpath_stats::quantile::Quantile;

use super::echo::{interval_span, value_span};
use super::page::{Page, Paint, Span};
use super::shape::bar_of;
use super::table::{Align, Table};
use crate::words;

/// Characters of the longest bar.
const BAR: usize = 12;

impl Page {
    /// A load curve. A rate that was not sustained shows how fast its backlog grows instead of a latency.
    pub fn load_curve(&mut self, summary: &Summary, curve: &LoadCurve) {
        let glyphs = self.style.glyphs;
        self.heading(&format!(
            "load curve   {}, {}, {}, {}",
            curve.path,
            msgpath_core::units::size(curve.size),
            words::counted(u64::from(curve.connections), "connection"),
            words::counted(u64::from(curve.threads), "thread")
        ));
        let name = words::quantile_name(curve.knee_p);
        let mut table = Table::new()
            .column("rate", Align::Right)
            .column("achieved", Align::Right)
            .column("p50", Align::Right)
            .optional("range, 95 %", Align::Right, 2)
            .column("p99", Align::Right)
            .optional("range, 95 %", Align::Right, 3)
            .optional("late", Align::Right, 4)
            .optional(format!("{name}, log"), Align::Left, 1);
        let scale = Scale::of(curve);
        for point in &curve.points {
            let ends = [words::asked(point.asked_per_s).into(), words::per_second(point.achieved_per_s).into()];
            if point.sustained == Some(false) {
                let text = format!("not sustained{}", words::backlog(point.backlog_per_s.as_ref()));
                table.row_with_note(ends.into_iter().chain([Paint::Yellow.span(text)]));
                continue;
            }
            let cells = [&point.p50, &point.p99].into_iter().flat_map(|quantile| match quantile {
                Some(quantile) => [value_span(quantile, glyphs), interval_span(quantile, glyphs)],
                None => ["n/a".into(), Span::default()],
            });
            let late = open(summary, point).map_or_else(|| "n/a".into(), |open| words::percent(open.late_share));
            let bar = height(curve, point).map_or_else(String::new, |ns| bar_of(scale.share(ns), BAR, glyphs));
            table.row(ends.into_iter().chain(cells).chain([late.into(), bar.into()]));
        }
        self.table(table);
        let quantiles = curve.points.iter().flat_map(|point| point.p50.iter().chain(&point.p99));
        for text in words::bounds("", quantiles) {
            self.text(2, &text, Paint::Dim);
        }
        self.facts(&[("knee", words::knee(curve)), ("rates", words::sustained(curve))]);
    }
}

fn open<'a>(summary: &'a Summary, point: &LoadPoint) -> Option<&'a OpenLoop> {
    summary.cases.iter().find(|case| case.case.id == point.case)?.open.as_ref()
}

/// The latency that the bar of a point stands for, ns.
fn height(curve: &LoadCurve, point: &LoadPoint) -> Option<f64> {
    let quantile: &Quantile = if curve.knee_p > 0.5 { point.p99.as_ref()? } else { point.p50.as_ref()? };
    Some(quantile.ns.filter(|ns| *ns > 0 && point.sustained != Some(false))? as f64)
}

/// A log scale from the lowest point, which has the shortest bar, to the highest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(curve: &LoadCurve) -> Self {
        let heights = || curve.points.iter().filter_map(|point| height(curve, point));
        Self { low: heights().fold(f64::INFINITY, f64::min), high: heights().fold(0.0, f64::max) }
    }

    fn share(&self, ns: f64) -> f64 {
        const SHORTEST: f64 = 1.0 / BAR as f64;
        if self.high <= self.low {
            return SHORTEST;
        }
        SHORTEST + (1.0 - SHORTEST) * (ns / self.low).ln() / (self.high / self.low).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equal_steps() {
        let scale = Scale { low: 10.0, high: 1_000.0 };
        assert!((scale.share(10.0) - 1.0 / 12.0).abs() < 1e-12 && (scale.share(1_000.0) - 1.0).abs() < 1e-12);
        assert!((2.0 * scale.share(100.0) - scale.share(10.0) - scale.share(1_000.0)).abs() < 1e-12);
        assert_eq!(Scale { low: 5.0, high: 5.0 }.share(5.0), 1.0 / 12.0);
    }
}
