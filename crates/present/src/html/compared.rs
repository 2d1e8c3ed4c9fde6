//! Two runs: what became of the earlier one, in sentences and as a table.

use msgpath_analyse::diff::DiffRow;
use msgpath_analyse::summary::Confidence;
use msgpath_stats::verdict::{Verdict, may_be_the_same};

use super::G;
use super::page::{Cell, Page};
use super::scene::Earlier;
use crate::words;

/// Sentences on changes; the rest is in the table.
const SENTENCES: usize = 8;

fn value(row: &DiffRow, value: Option<f64>) -> String {
    match (value, row.unit.as_str()) {
        (None, _) => "n/a".into(),
        (Some(value), "ns") => G.time(value),
        (Some(value), _) => words::throughput(value, Default::default()),
    }
}

fn interval(row: &DiffRow) -> Option<String> {
    words::ends(row.low, row.high, words::change)
}

/// What changed, or why that cannot be said.
pub(crate) fn verdict(page: &mut Page, earlier: &Earlier<'_>) {
    let diff = earlier.diff;
    page.raw("<ul class=\"verdict\">\n");
    for difference in diff.refusals() {
        let end = if difference.end.is_empty() { String::new() } else { format!(" ({})", difference.end) };
        let text = format!(
            "The runs must not be compared: {}{end} was {} and is {}.",
            difference.what, difference.a, difference.b
        );
        page.item("warning", "void", &text, &[]);
    }
    if !diff.refusals().is_empty() {
        page.raw("<li>The numbers of both stand in a table below the pictures.</li>\n</ul>\n");
        return;
    }
    let changed = |row: &&DiffRow| matches!(row.verdict, Verdict::Better | Verdict::Worse);
    for row in diff.rows.iter().filter(changed).take(SENTENCES) {
        let change = row.ratio.map_or_else(|| "n/a".into(), words::change);
        let range = interval(row).map_or_else(String::new, |range| format!(", 95 %: {range}"));
        let word = words::verdict(row.verdict, words::is_time(&row.metric));
        let text = format!(
            "{}: {} is {word}, {} → {} ({change}{range}).",
            row.case,
            row.metric,
            value(row, row.a),
            value(row, row.b)
        );
        page.computed(Confidence::Sure, &text, &[]);
    }
    let count = |wanted: Verdict| diff.rows.iter().filter(|row| row.verdict == wanted).count() as u64;
    let more = diff.rows.iter().filter(changed).count().saturating_sub(SENTENCES) as u64;
    if more > 0 {
        let text = format!("{} more are in the table below.", words::counted(more, "change"));
        page.computed(Confidence::Sure, &text, &[]);
    }
    let same = count(Verdict::Equivalent);
    if same > 0 {
        let text = format!("{} the same within {}.", words::counted(same, "number"), words::bound(diff.margin));
        page.computed(Confidence::Sure, &text, &[]);
    }
    let undecided = count(Verdict::Undecided);
    if undecided > 0 {
        let numbers = words::counted(undecided, "number");
        let margin = words::bound(diff.margin);
        let text = if may_be_the_same(diff.margin) {
            format!("Whether {numbers} changed by more than {margin}.")
        } else {
            format!("Whether {numbers} changed: below {margin} these runs cannot show a change.")
        };
        page.computed(Confidence::CantTell, &text, &[]);
    }
    if diff.rows.is_empty() {
        page.computed(Confidence::CantTell, "The runs have no case in common.", &[]);
    }
    page.raw("</ul>\n");
}

/// Every number of both runs, and in what they differ.
pub(crate) fn tables(page: &mut Page, earlier: &Earlier<'_>) {
    let diff = earlier.diff;
    page.open_section(&format!("{} against {}", diff.b.name, diff.a.name));
    let heads = ["case", "number", "earlier", "later", "change", "95 % interval", "verdict"].map(String::from);
    let rows: Vec<Vec<Cell>> = diff
        .rows
        .iter()
        .map(|row| {
            let class = match row.verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Equivalent => "",
                // The reason is a sentence, and may need several lines.
                Verdict::Undecided => "undecided w",
            };
            vec![
                row.case.as_str().into(),
                row.metric.as_str().into(),
                value(row, row.a).into(),
                value(row, row.b).into(),
                row.ratio.map_or_else(|| "n/a".into(), words::change).into(),
                interval(row).unwrap_or_else(|| "no interval".into()).into(),
                Cell::of(class, words::verdict(row.verdict, words::is_time(&row.metric)))
                    .with_note(row.why.clone().unwrap_or_default()),
            ]
        })
        .collect();
    page.table(&heads, &rows);
    for case in &diff.unpaired {
        page.note(case);
    }
    if !diff.identity.is_empty() {
        let heads = ["in what the runs differ", "end", "earlier", "later"].map(String::from);
        let rows: Vec<Vec<Cell>> = diff
            .identity
            .iter()
            .map(|one| {
                [&one.what, &one.end, &one.a, &one.b].into_iter().map(|text| Cell::of("w l", text.as_str())).collect()
            })
            .collect();
        page.table(&heads, &rows);
    }
}
