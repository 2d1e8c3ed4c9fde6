//! `explain --layers` and `compare --layers`: what each layer adds to what it stands on.

use msgpath_analyse::Summary;
use msgpath_analyse::layers::short_name;
use msgpath_analyse::summary::Layer;
use msgpath_analyse::summary::{CaseSummary, Cost};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{Glyphs, size, three_digits};
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::verdict::Verdict;

use super::echo::value_span;
use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::{view, words};

/// A sentence for each step, then all rows with what they add to what, and what both ends agreed on.
pub fn ladder(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    let cases = view::measured(summary);
    let rounds = format!("{} rounds", run.header.plan.rounds);
    page.head(run, summary, &[summary.target.clone(), rounds]);
    let void = summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed);
    page.gap();
    if void {
        page.text(0, "The baseline differed from its own hidden repetition: no step is claimed.", Paint::Yellow);
    }
    for finding in summary.findings.iter().filter(|finding| finding.code == "V17") {
        page.finding(finding);
    }
    let mut sizes = Vec::new();
    rows(summary).for_each(|(_, case)| view::push_new(&mut sizes, case.case.size));
    for bytes in sizes {
        page.heading(&format!("median round trip and what each layer adds, {} messages", size(bytes)));
        page.table(table(summary, bytes, style));
    }
    page.text(
        2,
        "A layer adds its p50 less that of the row named under `to`, in the same pass; both in the same interleaved run. At most: the \
         interval includes 0, and this is its end. CPU: time of the measuring thread a message, libraries and runtime included.",
        Paint::Dim,
    );
    for layer in &summary.layers {
        about(&mut page, summary, layer);
    }
    page.gates(&summary.gates);
    page.limits(run, summary, &cases);
    page.in_full(run, summary, &cases);
    page.more(run, summary, &[], &[]);
    page.finish()
}

/// Every layer with its case.
pub(crate) fn rows(summary: &Summary) -> impl Iterator<Item = (&Layer, &CaseSummary)> {
    summary.layers.iter().filter_map(|layer| Some((layer, summary.cases.get(layer.case as usize)?)))
}

/// The rows of one size.
fn table(summary: &Summary, bytes: u64, style: Style) -> Table {
    let glyphs = style.glyphs;
    let mut table = Table::new()
        .column("layer", Align::Left)
        .column("p50", Align::Right)
        .optional("p99", Align::Right, 3)
        .column("adds", Align::Right)
        .optional("95 %", Align::Left, 2)
        .column("times", Align::Right)
        .column("to", Align::Left)
        .optional("cpu near", Align::Right, 1)
        .optional("cpu far", Align::Right, 1);
    let time = |cost: &Cost| -> Span { cost.cpu_ns().map_or_else(|| "n/a".into(), |ns| glyphs.time(ns)).into() };
    for (layer, case) in rows(summary).filter(|(_, case)| case.case.size == bytes) {
        let p99 = words::quantile(case, 0.99).map_or_else(String::new, |p99| words::quantile_value(p99, glyphs));
        let adds = layer.adds.as_ref();
        let paint = if decided(layer) { Paint::Bold } else { Paint::Plain };
        let times = layer.times.as_ref();
        table.row([
            name(summary, layer).into(),
            value_span(&layer.median, glyphs),
            p99.into(),
            paint.span(adds.map_or_else(String::new, |adds| what_it_adds(adds, glyphs))),
            Paint::Dim.span(adds.map_or_else(String::new, |adds| interval(adds, glyphs))),
            paint.span(times.map_or_else(String::new, |times| three_digits(times.ratio))),
            beneath(summary, layer).map_or_else(String::new, |beneath| name(summary, beneath)).into(),
            time(&case.end(NEAR).cost),
            time(&case.end(FAR).cost),
        ]);
    }
    table
}

/// Whether the run shows that there is a difference.
fn decided(layer: &Layer) -> bool {
    layer.times.as_ref().is_some_and(|times| matches!(times.verdict, Verdict::Better | Verdict::Worse))
}

/// A layer as short as it is clear in this run.
pub(crate) fn name(summary: &Summary, layer: &Layer) -> String {
    let paths = || summary.cases.iter().map(|case| &case.case.path);
    match summary.cases.get(layer.case as usize).filter(|case| case.case.ablation.is_none()) {
        Some(case) => short_name(&case.case.path, paths()),
        None => layer.name.clone(),
    }
}

/// What a layer adds to.
pub(crate) fn beneath<'a>(summary: &'a Summary, layer: &Layer) -> Option<&'a Layer> {
    let to = layer.times.as_ref()?.baseline;
    summary.layers.iter().find(|layer| layer.case == to)
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

pub(crate) fn what_it_adds(adds: &Estimate, glyphs: Glyphs) -> String {
    match added(adds) {
        Added::Known if adds.value < 0.0 => format!("{} less", glyphs.time(-adds.value)),
        Added::Known => glyphs.time(adds.value),
        Added::AtMost(high) => format!("at most {}", glyphs.time(high.max(0.0))),
        Added::Unknown => "n/a".into(),
    }
}

pub(crate) fn interval(estimate: &Estimate, glyphs: Glyphs) -> String {
    words::estimate_interval(estimate, |ns| glyphs.time(ns))
}

/// What the ends of a layer agreed on, as its library said, and what it stands on where that was not measured.
fn about(page: &mut Page, summary: &Summary, layer: &Layer) {
    let Some(case) = summary.cases.get(layer.case as usize).filter(|case| case.case.traits.is_layer()) else { return };
    let mut said: Vec<String> =
        case.conditions.granted.iter().map(|granted| format!("{} {}", granted.option, granted.granted)).collect();
    let over = &case.case.traits.over;
    let is_over = |beneath: &&Layer| {
        summary.cases.get(beneath.case as usize).is_some_and(|case| case.case.path.transport == *over)
    };
    if let Some(beneath) = beneath(summary, layer).filter(|beneath| !is_over(beneath)) {
        said.push(format!(
            "it stands on {over}, which is not in this run and part of what it adds to {}",
            name(summary, beneath)
        ));
    }
    if !said.is_empty() {
        page.hanging(&["  ".into()], 4, &format!("{}: {}", name(summary, layer), said.join(", ")), Paint::Dim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_row_says_what_it_adds_to_what() {
        let (mut run, mut summary) = fixture::compare();
        run.header.plan.layers = true;
        let cases: Vec<CaseSummary> = view::measured(&summary).into_iter().take(2).cloned().collect();
        summary.layers = fixture::layers(&cases).into();
        let text = ladder(&run, &summary, Style { width: 120, glyphs: Glyphs::Ascii, ..Style::default() });
        let row = text.lines().find(|line| line.contains("3.10 us")).unwrap_or_else(|| panic!("{text}"));
        let to = name(&summary, &summary.layers[0]);
        assert!(row.contains("2.90 to 3.30 us") && row.contains("1.14") && row.contains(&to), "{text}");
    }

    #[test]
    fn a_difference_that_may_be_none_has_only_an_upper_bound() {
        let adds = |value, low, high| what_it_adds(&Estimate { value, low, high }, Glyphs::Ascii);
        assert_eq!(adds(2e3, Some(1e3), Some(3e3)), "2.00 us");
        assert_eq!(adds(-50.0, Some(-200.0), Some(100.0)), "at most 100 ns");
        assert_eq!(adds(50.0, Some(-20.0), Some(120.0)), "at most 120 ns");
        assert_eq!(
            adds(-2e3, Some(-3e3), Some(-1e3)),
            "2.00 us less",
            "it is quicker than what it stands on, beyond doubt"
        );
        assert_eq!(adds(-50.0, None, None), "n/a");
    }
}
