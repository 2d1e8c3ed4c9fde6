//! `explain --peel`: what each layer of the stack adds.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::Estimate;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use super::page::{Page, Paint, Style};
use super::table::{Align, Table};

/// The layers, the thickest stack first, each with its median and what it adds to the next one.
pub fn peel(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let size = run.header.plan.cases.first().map_or(0, |case| case.size);
    page.head(run, summary, &[summary.target.clone(), format!("{} messages", msgpath_core::units::size(size))]);
    page.warnings(&summary.warnings);
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
        // Whether the layer adds anything at all is not known where the interval spans nothing.
        let known =
            adds.is_some_and(|adds| adds.low.is_some_and(|low| low > 0.0) || adds.high.is_some_and(|high| high < 0.0));
        let paint = if known { Paint::Bold } else { Paint::Plain };
        table.row([
            layer.name.as_str().into(),
            glyphs.time(layer.median.value).as_str().into(),
            Paint::Dim.span(interval(&layer.median, glyphs)),
            paint.span(adds.map_or_else(String::new, |adds| signed(adds.value, glyphs))),
            Paint::Dim.span(adds.map_or_else(String::new, |adds| interval(adds, glyphs))),
        ]);
    }
    page.table(table);
    page.text(
        2,
        "Each row less the next one, in the same pass. An interval that spans 0: no difference shown.",
        Paint::Dim,
    );
    page.unavailable(summary);
    page.saved(run, summary);
    page.finish()
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
