//! What is known of a case beside its numbers: labelled lines, the user's estimate, what was tried.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{AblationResult, CaseSummary};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_record::Run;
use msgpath_stats::verdict::{Verdict, may_be_the_same};

use super::page::{Page, Paint, Span};
use super::table::{Align, Table};
use crate::view::measured;
use crate::words;

/// `steadiness`, `first`, `restarts`, `tail`: what a case has of them. All are about latency, which means nothing where
/// the rate was not sustained.
pub fn known(case: &CaseSummary, glyphs: Glyphs) -> Vec<(&'static str, String)> {
    if words::overloaded(case).is_some() {
        return Vec::new();
    }
    let steady = case.steadiness.as_ref().map(|steady| words::steadiness(steady, case.rounds, glyphs));
    let first = case.first.as_ref().map(|first| words::first(first, glyphs));
    let restarts = case.repeats.restarts.as_ref().map(|restarts| words::restarts(restarts, glyphs));
    [("steadiness", steady), ("first", first), ("restarts", restarts), ("tail", words::tail(case))]
        .into_iter()
        .filter_map(|(label, text)| Some((label, text?)))
        .collect()
}

impl Page {
    /// One line for each: a label and its text. Nothing where there is none.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for (label, text) in facts {
            table.row([Paint::Bold.span(*label), text.as_str().into()]);
        }
        self.table(table);
    }

    /// The user's estimate beside what was measured and what the machine allows.
    pub fn expectation(&mut self, summary: &Summary) {
        let Some(expected) = &summary.expectation else { return };
        let glyphs = self.style.glyphs;
        let case = summary.cases.iter().find(|case| case.case.id == expected.case);
        let mut line = words::expectation(expected, case, glyphs);
        let floors = words::floors(expected, glyphs);
        if !floors.is_empty() {
            line = format!("{line}   {floors}");
        }
        self.gap();
        self.hanging(&[], 2, &line, Paint::Bold);
        for floor in expected.floors.iter().filter(|floor| !floor.basis.is_empty()) {
            self.text(2, &format!("{}: {}", floor.name, floor.basis), Paint::Dim);
        }
    }

    /// What was tried to find a cause, each against the case that it explains.
    pub fn ablations(&mut self, run: &Run, summary: &Summary) {
        if summary.ablations.is_empty() {
            return;
        }
        let plan = &run.header.plan;
        let glyphs = self.style.glyphs;
        let stream = !plan.workload.timed;
        let metric = plan.workload.metric;
        let print = |value: f64| if stream { bits_per_second(value, BitUnits::Si) } else { glyphs.time(value) };
        // A median with a widened range is yellow here as everywhere.
        let value = |id: u32, value: f64| {
            let case = summary.cases.iter().find(|case| case.case.id == id);
            let steady = case.and_then(|case| words::quantile(case, 0.5)).is_none_or(|median| median.is_interval());
            if steady { Paint::Bold.span(print(value)) } else { Paint::Yellow.span(print(value)) }
        };
        let several = measured(summary).len() > 1;
        let mut table = Table::new()
            .column("tried", Align::Left)
            .column(metric.name(), Align::Right)
            .column("was", Align::Right)
            .column("paired change", Align::Right)
            .optional("95 % interval", Align::Right, 1)
            .column("", Align::Left);
        for ablation in &summary.ablations {
            let case = summary.cases.iter().find(|case| case.case.id == ablation.of);
            let label = match case.filter(|_| several) {
                Some(case) => format!("{}, {} {}", ablation.change, case.case.path, words::message(&case.case)),
                None => ablation.change.to_string(),
            };
            table.row([
                label.into(),
                value(ablation.case, ablation.value),
                value(ablation.of, ablation.case_value),
                words::change(ablation.ratio.value).into(),
                words::ends(ablation.ratio.low, ablation.ratio.high, words::change)
                    .unwrap_or_else(|| "no interval".into())
                    .into(),
                verdict(ablation, !stream),
            ]);
        }
        self.gap();
        self.table(table);
        if summary.ablations.iter().any(|ablation| ablation.verdict == Verdict::Undecided) {
            let text = "Not decided: the interval holds both a change and none (95 %, after Holm)";
            let margin = summary.comparison.as_ref().map(|comparison| comparison.margin);
            let text = match margin.filter(|margin| !may_be_the_same(*margin)) {
                Some(margin) => {
                    format!("{text}, or a change below {}, which this run cannot see.", words::bound(margin))
                }
                None => format!("{text}."),
            };
            self.text(2, &text, Paint::Dim);
        }
    }
}

fn verdict(ablation: &AblationResult, is_time: bool) -> Span {
    let paint = match ablation.verdict {
        Verdict::Better => Paint::Green,
        Verdict::Worse => Paint::Red,
        Verdict::Equivalent => Paint::Plain,
        Verdict::Undecided => Paint::Yellow,
    };
    paint.span(words::verdict(ablation.verdict, is_time))
}
