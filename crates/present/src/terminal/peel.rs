//! `explain --peel`: what each layer of the stack adds.

use msgpath_analyse::Summary;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

use super::page::{Page, Paint, Style};
use super::table::{Align, Table};

/// The layers, the thickest stack first, each with its median and what it adds to the next one.
pub fn peel(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let size = run.header.plan.cases.first().map_or(0, |case| case.size);
    page.head(run, summary, &[summary.target.clone(), format!("{} messages", msgpath_core::units::size(size))]);
    page.heading("the same message over ever thinner stacks");
    let glyphs = style.glyphs;
    let mut table = Table::new()
        .column("layer", Align::Left)
        .column("round trip p50", Align::Right)
        .optional("95 %", Align::Left, 1)
        .column("this layer adds", Align::Right)
        .column("95 %", Align::Left);
    for layer in &summary.layers {
        let adds = layer.adds.as_ref();
        let known = adds.is_some_and(|adds| added(adds) == Added::Known);
        let paint = if known { Paint::Bold } else { Paint::Plain };
        table.row([
            layer.name.as_str().into(),
            glyphs.time(layer.median.value).as_str().into(),
            Paint::Dim.span(interval(&layer.median, glyphs)),
            paint.span(adds.map_or_else(String::new, |adds| what_it_adds(adds, glyphs))),
            Paint::Dim.span(adds.filter(|_| known).map_or_else(String::new, |adds| interval(adds, glyphs))),
        ]);
    }
    page.table(table);
    page.text(
        2,
        "Each row less the next one, in the same pass. Not more than: the interval includes 0, and this is its end.",
        Paint::Dim,
    );
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

fn what_it_adds(adds: &Estimate, glyphs: Glyphs) -> String {
    match added(adds) {
        Added::Known => signed(adds.value, glyphs),
        Added::AtMost(high) => format!("not more than {}", glyphs.time(high.max(0.0))),
        Added::Unknown => "not known: too few rounds, or they drift".into(),
    }
}

fn interval(estimate: &Estimate, glyphs: Glyphs) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{}..{}", signed(low, glyphs), signed(high, glyphs)),
        _ => "no interval".into(),
    }
}

/// A time that may be below 0.
fn signed(ns: f64, glyphs: Glyphs) -> String {
    match ns < 0.0 {
        true => format!("-{}", glyphs.time(-ns)),
        false => glyphs.time(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_may_be_none_has_only_an_upper_bound() {
        let adds = |value, low, high| what_it_adds(&Estimate { value, low, high }, Glyphs::Ascii);
        assert_eq!(adds(2e3, Some(1e3), Some(3e3)), "2.00 us");
        assert_eq!(adds(-50.0, Some(-200.0), Some(100.0)), "not more than 100 ns");
        assert_eq!(adds(50.0, Some(-20.0), Some(120.0)), "not more than 120 ns");
        assert_eq!(adds(-2e3, Some(-3e3), Some(-1e3)), "-2.00 us", "thinner, and slower beyond doubt");
        assert!(adds(-50.0, None, None).starts_with("not known"));
    }
}
