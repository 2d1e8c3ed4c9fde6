//! The page on a terminal.

use msgpath_analyse::answers::{Answer, Page as Answers, Table};
use msgpath_analyse::summary::Confidence;

use super::cells;
use crate::terminal::{self, Align, Page, Paint, Span, Style};

/// Where an answer begins.
const TEXT: usize = 14;
/// Rows of evidence that a terminal shows; the rest is in the folder.
const ROWS: usize = 24;

/// The page as text.
pub fn text(answers: &Answers, style: Style) -> String {
    let mut page = Page::new(style);
    page.heading(&answers.title);
    for missing in &answers.missing {
        page.hanging(
            &[Paint::Yellow.span("not measured"), "  ".into()],
            TEXT,
            &format!("{}: {}", missing.name, missing.why),
            Paint::Plain,
        );
    }
    for shown in &answers.tables {
        table(&mut page, shown);
    }
    for answer in &answers.answers {
        page.gap();
        page.text(0, &answer.question, Paint::Bold);
        says(&mut page, answer);
        answer.evidence.iter().for_each(|evidence| table(&mut page, evidence));
    }
    if !answers.claims.is_empty() {
        page.heading("claims that these runs settle");
        for settled in &answers.claims {
            page.gap();
            let lead = [format!("{:>4}  ", settled.number).into()];
            page.hanging(&lead, 6, &format!("“{}”", settled.claim), Paint::Bold);
            says(&mut page, &settled.answer);
        }
    }
    page.finish()
}

fn says(page: &mut Page, answer: &Answer) {
    let paint = match answer.confidence {
        Confidence::Sure => Paint::Green,
        Confidence::Likely => Paint::Blue,
        Confidence::CantTell => Paint::Yellow,
    };
    let word = answer.confidence.word();
    let lead = ["  ".into(), paint.span(word), " ".repeat(TEXT - 2 - word.chars().count()).into()];
    page.hanging(&lead, TEXT, &answer.text, Paint::Plain);
    for command in &answer.next {
        page.hanging(&[" ".repeat(TEXT).into(), "next: ".into()], TEXT + 6, command, Paint::Plain);
    }
}

fn table(page: &mut Page, shown: &Table) {
    if shown.rows.is_empty() {
        return;
    }
    page.gap();
    page.text(2, &shown.title, Paint::Dim);
    let numbers = cells::number_columns(shown);
    let mut table = terminal::Table::new();
    for (at, (column, number)) in shown.columns.iter().zip(numbers).enumerate() {
        let align = if number { Align::Right } else { Align::Left };
        // The first columns say what a row is; of the others the last go first.
        table = match at {
            0 | 1 => table.column(column.as_str(), align),
            at => table.optional(column.as_str(), align, (shown.columns.len() - at).min(200) as u8),
        };
    }
    for row in shown.rows.iter().take(ROWS) {
        let written = row.iter().map(|cell| cells::write(cell, page.style.glyphs));
        let spans = written.map(|cell| -> Span {
            match cell.short {
                Some(interval) => format!("{} {interval}", cell.text).into(),
                None => cell.text.into(),
            }
        });
        table.row(spans.collect::<Vec<_>>());
    }
    let lost = table.without_room(page.style, page.style.columns() - 2);
    page.table(table);
    if !lost.is_empty() {
        page.text(2, &format!("no room here for: {}; with -o DIR in {}.csv", lost.join(", "), shown.name), Paint::Dim);
    }
    if shown.rows.len() > ROWS {
        let left = shown.rows.len() - ROWS;
        page.text(2, &format!("{left} more rows with -o DIR, in {}.csv", shown.name), Paint::Dim);
    }
    if let Some(note) = &shown.note {
        page.text(2, note, Paint::Dim);
    }
}
