//! `explain --layers`: what each layer of the stack adds.

use msgpath_analyse::Summary;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

use super::echo::{interval_span, value_span};
use super::page::{Page, Paint, Style};
use super::table::{Align, Table};

/// The layers, the stack with most of them first, each with its median and what it adds to the next one.
pub fn layers(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let size = run.header.plan.cases.first().map_or(0, |case| case.size);
    page.head(run, summary, &[summary.target.clone(), format!("{} messages", msgpath_core::units::size(size))]);
    page.heading("layer breakdown: the same message over ever fewer layers");
    let glyphs = style.glyphs;
    let mut table = Table::new()
        .column("layer", Align::Left)
        .column("p50", Align::Right)
        .optional("range, 95 %", Align::Left, 1)
        .column("adds", Align::Right)
        .column("95 %", Align::Left);
    for layer in &summary.layers {
        let adds = layer.adds.as_ref();
        let known = adds.is_some_and(|adds| added(adds) == Added::Known);
        let paint = if known { Paint::Bold } else { Paint::Plain };
        table.row([
            layer.name.as_str().into(),
            value_span(&layer.median, glyphs),
            interval_span(&layer.median, glyphs),
            paint.span(adds.map_or_else(String::new, |adds| what_it_adds(adds, glyphs))),
            Paint::Dim.span(adds.filter(|_| known).map_or_else(String::new, |adds| interval(adds, glyphs))),
        ]);
    }
    page.table(table);
    page.text(
        2,
        "p50 is that of the round trip. What a row adds is its p50 less that of the next one, in the same pass. At most: the \
         interval includes 0, and this is its end. n/a: too few rounds, or they drift.",
        Paint::Dim,
    );
    page.gates(&summary.gates);
    let cases = crate::view::measured(summary);
    page.limits(run, summary, &cases);
    page.in_full(run, summary, &cases);
    page.gap();
    page.saved(run, summary);
    page.finish()
}

/// What is known of a difference.
#[derive(PartialEq)]
enum Added {
    /// The interval excludes 0.
    Known,
    /// It includes 0; the layer adds at most so many ns.
    AtMost(f64),
    /// There is none.
    Unknown,
}

fn added(adds: &Estimate) -> Added {
    match (adds.low, adds.high) {
        (Some(low), Some(high)) if low > 0.0 || high < 0.0 => Added::Known,
        (_, Some(high)) => Added::AtMost(high),
        _ => Added::Unknown,
    }
}

pub(super) fn what_it_adds(adds: &Estimate, glyphs: Glyphs) -> String {
    match added(adds) {
        Added::Known => glyphs.time(adds.value),
        Added::AtMost(high) => format!("at most {}", glyphs.time(high.max(0.0))),
        Added::Unknown => "n/a".into(),
    }
}

pub(super) fn interval(estimate: &Estimate, glyphs: Glyphs) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{}..{}", glyphs.time(low), glyphs.time(high)),
        _ => "no interval".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::layers::Layer;

    #[test]
    fn a_layer_has_the_median_and_the_range_of_its_case() {
        let (run, mut summary) = crate::fixture::compare();
        let case = &summary.cases[1];
        let p50 = case.latency.quantiles[0].clone();
        let known = Estimate { value: 2e3, low: Some(1e3), high: Some(3e3) };
        let layer =
            Layer { case: case.case.id, name: "tcp:send".into(), median: p50.clone(), adds: Some(known), times: None };
        let below = Estimate { value: -63.4e3, low: Some(-66.2e3), high: Some(-60.1e3) };
        let unknown = Estimate { value: 1.0, low: None, high: Some(104e3) };
        let handler = Layer { name: "tcp:send, service time 20.0 µs".into(), adds: Some(below), ..layer.clone() };
        summary.layers = vec![handler, Layer { adds: Some(unknown), ..layer.clone() }, layer];
        let narrow = layers(&run, &summary, Style { width: 80, ..Style::default() });
        assert!(narrow.contains("−66.2 µs..−60.1 µs") && narrow.contains("at most 104 µs"), "{narrow}");
        let text = layers(&run, &summary, Style { width: 100, ..Style::default() });
        let row = text.lines().find(|line| line.contains("1.00 µs..3.00 µs")).unwrap();
        let (value, range) =
            (crate::words::quantile_value(&p50, Glyphs::Unicode), crate::words::quantile_range(&p50, Glyphs::Unicode));
        assert!(row.contains(&format!(" {value} ")) && row.contains(&range), "{value} {range}: {text}");
    }

    #[test]
    fn a_difference_that_may_be_none_has_only_an_upper_bound() {
        let adds = |value, low, high| what_it_adds(&Estimate { value, low, high }, Glyphs::Ascii);
        assert_eq!(adds(2e3, Some(1e3), Some(3e3)), "2.00 us");
        assert_eq!(adds(-50.0, Some(-200.0), Some(100.0)), "at most 100 ns");
        assert_eq!(adds(50.0, Some(-20.0), Some(120.0)), "at most 120 ns");
        assert_eq!(adds(-2e3, Some(-3e3), Some(-1e3)), "-2.00 us", "fewer layers, and slower beyond doubt");
        assert_eq!(adds(-50.0, None, None), "n/a");
    }
}
