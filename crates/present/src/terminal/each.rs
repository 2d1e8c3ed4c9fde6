//! `--each`: the classic trial table, one row per trial and one column per size.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_analyse::trials::{Column, trials};
use msgpath_core::plan::Case;
use msgpath_core::schema::MessageRow;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_record::Run;
use msgpath_stats::two_samples::LEVEL;

use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::view::measured;
use crate::words;

/// Trials that are printed; the summary rows are over all of them.
const SHOWN: usize = 100;

/// One row per trial, one column per case, then mean, median, spread, fastest and slowest, and whether neighbouring
/// columns differ.
pub fn each(run: &Run, summary: &Summary, rows: &[MessageRow], style: Style) -> String {
    let mut page = Page::new(style);
    let glyphs = style.glyphs;
    let cases: Vec<Case> = measured(summary).iter().map(|case| case.case.clone()).collect();
    let table = trials(&cases, rows);
    let longest = table.columns.iter().map(|column| column.trials_ns.len()).max().unwrap_or(0);
    let mut facts = vec![summary.target.clone(), words::counted(longest as u64, "trial")];
    if let Some(case) = cases.first() {
        facts.insert(0, case.path.to_string());
        facts.push(words::load(case));
    }
    page.head(run, summary, &facts);
    page.gap();

    let mut grid = Table::new().column("round trip", Align::Left);
    for (case, column) in cases.iter().zip(&table.columns) {
        let unit = glyphs.time_in(0.0, like(column)).1;
        let path =
            if cases.iter().any(|other| other.path != case.path) { format!("{} ", case.path) } else { String::new() };
        grid = grid.column(format!("{path}{}, {unit}", words::message(case)), Align::Right);
    }
    for at in 0..longest.min(SHOWN) {
        let cells = table.columns.iter().map(|column| match column.trials_ns.get(at) {
            Some(Some(ns)) => Span::from(number(*ns as f64, column, glyphs)),
            Some(None) => Paint::Red.span("lost"),
            None => Span::default(),
        });
        grid.row(std::iter::once(Span::from(format!("trial {}", at + 1))).chain(cells));
    }
    grid.row([]);
    type Pick = fn(&Column) -> Option<f64>;
    let picks: [(&str, Pick); 6] = [
        ("mean", |column| Some(column.spread?.mean_ns)),
        ("mean from trial 2", |column| column.after_first_ns),
        ("median", |column| Some(column.spread?.median_ns)),
        ("deviation", |column| column.spread?.deviation_ns),
        ("fastest", |column| Some(column.spread?.min_ns as f64)),
        ("slowest", |column| Some(column.spread?.max_ns as f64)),
    ];
    for (name, pick) in picks {
        let cells = table.columns.iter().map(|column| {
            let value = pick(column);
            Paint::Bold.span(value.map_or_else(|| "n/a".into(), |ns| number(ns, column, glyphs)))
        });
        grid.row(std::iter::once(Paint::Bold.span(name)).chain(cells));
    }
    for (at, part) in grid.split(style, style.columns() - 2).into_iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        page.table(part);
    }
    page.gap();
    if longest > SHOWN {
        let more = words::counted((longest - SHOWN) as u64, "more trial");
        page.text(2, &format!("{more}: msgpath export {} --to csv", summary.name), Paint::Dim);
    }
    page.text(2, run.header.plan.workload.duration(false).what, Paint::Dim);
    page.text(
        2,
        "Deviation is the standard deviation of the sample; a lost trial is in no row below the trials.",
        Paint::Dim,
    );
    for difference in &table.differences {
        let label = |at: usize| words::message(&cases[at]);
        let mean =
            |at: usize| table.columns[at].spread.map_or_else(|| "n/a".into(), |spread| glyphs.time(spread.mean_ns));
        let text = format!(
            "{} against {}: mean {} and {}, Welch t = {}, p {}, permutation p {}: {}",
            label(difference.first),
            label(difference.second),
            mean(difference.first),
            mean(difference.second),
            three_digits(difference.t),
            p_value(difference.p),
            p_value(difference.permutation_p),
            difference.verdict()
        );
        page.hanging(&["  ".into()], 4, &text, if difference.differs() { Paint::Plain } else { Paint::Yellow });
    }
    if !table.differences.is_empty() {
        let text = format!(
            "'No difference shown' is p of {LEVEL} or more in one of the two tests. Trials of one connection follow each other closely and are not independent: for a difference that must hold use msgpath compare."
        );
        page.text(2, &text, Paint::Dim);
    }
    page.gates(&summary.gates);
    page.limits(run, summary, &measured(summary));
    // What a handful of trials cannot tell was said above; the rest of the findings stands.
    let seen: Vec<Finding> =
        summary.findings.iter().filter(|finding| finding.confidence != Confidence::CantTell).cloned().collect();
    page.findings(&seen);
    if style.verbose {
        page.warnings(&summary.warnings);
    }
    page.gap();
    page.saved(run, summary);
    page.finish()
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".into() } else { format!("= {p:.3}") }
}

/// The value whose unit the whole column is printed in.
fn like(column: &Column) -> f64 {
    column.spread.map_or(0.0, |spread| spread.median_ns)
}

fn number(ns: f64, column: &Column, glyphs: Glyphs) -> String {
    glyphs.time_in(ns, like(column)).0
}
