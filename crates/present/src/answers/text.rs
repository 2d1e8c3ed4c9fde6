//! The page on a terminal.

use msgpath_analyse::summary::Confidence;

use crate::answers::{Answer, Cell, Page as Answers, Table};

use super::cells;
use crate::terminal::{self, Align, Page, Paint, Span, Style};

/// Where an answer begins.
const TEXT: usize = 14;
/// Columns that may be needed to say what a row is.
const LEAD: usize = 4;
/// A reason up to so many characters stands in its cell.
const SHORT: usize = 16;
/// Rows of evidence that a terminal shows; the rest is in the folder.
const ROWS: usize = 24;

/// Lines of the answers alone; what is not answered is counted where they are more.
const LINES: usize = 34;

/// The answers alone, on about a screen: each with its question where all have room, else a line for each; then the tables
/// that still have room.
pub fn brief(answers: &Answers, style: Style) -> String {
    let mut page = begun(answers, style);
    let questions = apart(style, |page| {
        for answer in &answers.answers {
            page.text(0, &answer.question, Paint::Bold);
            page.computed(answer.confidence, &answer.text);
        }
    });
    page.gap();
    if questions.lines().count() <= LINES {
        page.append(&questions);
    } else {
        lines(&mut page, &answers.answers);
    }
    for shown in &answers.tables {
        let text = apart(style, |page| table(page, shown));
        if page.lines() + text.lines().count() <= LINES {
            page.gap();
            page.append(&text);
        }
    }
    page.finish()
}

/// A line for each answer; where they are too many, what could not be told is only counted.
fn lines(page: &mut Page, answers: &[Answer]) {
    let room = page.style.columns() - TEXT;
    let told: Vec<&Answer> = answers.iter().filter(|answer| answer.confidence != Confidence::CantTell).collect();
    let all: Vec<&Answer> = if answers.len() > LINES { told } else { answers.iter().collect() };
    let shown = all.len().min(LINES);
    for answer in &all[..shown] {
        page.computed(answer.confidence, terminal::first_statements(&page.style.clean(&answer.text), room));
    }
    if answers.len() > shown {
        page.text(2, &format!("{} more answers with -v", answers.len() - shown), Paint::Dim);
    }
}

/// What is written on a page of its own.
fn apart(style: Style, write: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::new(style);
    write(&mut page);
    page.finish()
}

/// The heading, and what could not be measured.
fn begun(answers: &Answers, style: Style) -> Page {
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
    page
}

pub fn text(answers: &Answers, style: Style) -> String {
    let mut page = begun(answers, style);
    for shown in &answers.tables {
        table(&mut page, shown);
    }
    for answer in &answers.answers {
        page.gap();
        page.text(0, &answer.question, Paint::Bold);
        says(&mut page, answer);
        answer.evidence.iter().for_each(|evidence| table(&mut page, evidence));
    }
    page.finish()
}

fn says(page: &mut Page, answer: &Answer) {
    page.computed(answer.confidence, &answer.text);
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
    let mut table = terminal::Table::new();
    for (column, number) in shown.columns.iter().zip(cells::number_columns(shown)) {
        table = table.column(column.as_str(), if number { Align::Right } else { Align::Left });
    }
    let mut reasons = Vec::new();
    let rows: Vec<Vec<String>> = shown
        .rows
        .iter()
        .take(ROWS)
        .map(|row| row.iter().map(|cell| written(cell, page.style, &mut reasons)).collect())
        .collect();
    let lead = lead(&rows);
    for row in rows {
        table.row(row.into_iter().map(Span::from));
    }
    for (at, part) in table.split_whole(lead, page.style, page.style.columns() - 2).into_iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        page.table(part);
    }
    for (at, reason) in reasons.iter().enumerate() {
        page.text(2, &format!("[{}] {reason}", at + 1), Paint::Dim);
    }
    if shown.rows.len() > ROWS {
        let left = shown.rows.len() - ROWS;
        page.text(2, &format!("{left} more rows with -o DIR, in {}.csv", shown.name), Paint::Dim);
    }
    if let Some(note) = &shown.note {
        page.text(2, note, Paint::Dim);
    }
}

/// A cell with its interval. A long reason why there is none stands below the table, once.
fn written(cell: &Cell, style: Style, reasons: &mut Vec<String>) -> String {
    if let Cell::Missing { why } = cell
        && why.chars().count() > SHORT
    {
        let at = reasons.iter().position(|known| known == why).unwrap_or_else(|| {
            reasons.push(why.clone());
            reasons.len() - 1
        });
        return format!("n/a [{}]", at + 1);
    }
    let cell = cells::write(cell, style.glyphs);
    match cell.short {
        Some(interval) => format!("{} {interval}", cell.text),
        None => cell.text,
    }
}

/// How many of the first columns tell the rows apart, at most four.
fn lead(rows: &[Vec<String>]) -> usize {
    let apart = |lead: &usize| {
        let mut heads: Vec<_> = rows.iter().map(|row| &row[..(*lead).min(row.len())]).collect();
        heads.sort_unstable();
        heads.windows(2).all(|pair| pair[0] != pair[1])
    };
    (1..LEAD).find(apart).unwrap_or(LEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_a_preset_fit_on_forty_lines() {
        for count in [0, 1, 5, 30, 200] {
            let answer = |at: usize| {
                let confidence = if at.is_multiple_of(2) { Confidence::Sure } else { Confidence::CantTell };
                Answer::new("Does it depend on the size?", confidence, "It does, by 3 %, at all sizes. ".repeat(9))
            };
            let page = Answers {
                title: "a preset: with questions".into(),
                tables: vec![wide()],
                answers: (0..count).map(answer).collect(),
                ..Answers::default()
            };
            for width in [60, 80, 100] {
                let style = Style { width, ..Style::default() };
                let text = brief(&page, style);
                assert!(text.lines().count() <= 40, "{count} at {width}: {text}");
                assert!(text.matches("It does, by 3 %").count() >= count.min(17), "{count} at {width}: {text}");
                assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            }
        }
    }

    #[test]
    fn questions_stand_above_their_answers_where_there_is_room() {
        let answers = vec![Answer::new("Is it fast?", Confidence::Sure, "Yes.")];
        let text = brief(&Answers { title: "a preset".into(), answers, ..Answers::default() }, Style::default());
        assert!(text.contains("\nIs it fast?\n  sure        Yes.\n"), "{text}");
    }

    /// Nine columns of numbers with intervals behind two that name the row, a sentence, and reasons.
    fn wide() -> Table {
        let heads: Vec<String> = (0..9).map(|at| format!("a head of column {at}")).collect();
        let mut columns = vec!["run", "path"];
        columns.extend(heads.iter().map(String::as_str));
        columns.extend(["verdict", "copied"]);
        let mut table = Table::new("wide", "A table with many columns", &columns);
        for run in ["grid", "stream"] {
            for path in ["tcp:zerocopy-unset/epoll", "tcp:send"] {
                let number = |at: u32| {
                    let value = f64::from(at * 1000 + 123);
                    Cell::Time(crate::answers::cell::Value { value, low: Some(value * 0.9), high: Some(value * 1.2) })
                };
                let mut row = vec![Cell::text(run), Cell::text(path)];
                row.extend((0..9).map(number));
                row.push(Cell::text(format!(
                    "the path {path} of the run {run} is the one that was decided at the last size"
                )));
                row.push(Cell::missing("the kernel of this machine counts no completion of a send that it copied"));
                table.row(row);
            }
        }
        table
    }

    #[test]
    fn every_cell_of_a_table_is_in_the_text_at_any_width() {
        let shown = wide();
        for columns in [60, 80, 100, 200] {
            let style = Style { width: columns, ..Style::default() };
            let mut page = Page::new(style);
            table(&mut page, &shown);
            let text = page.finish();
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(columns)), "{columns}: {text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            for cell in shown.rows.iter().flatten() {
                let mut written = written(cell, style, &mut Vec::new());
                if let Cell::Missing { why } = cell {
                    written = format!("n/a [1] {why}");
                }
                assert!(written.split_whitespace().all(|word| words.contains(&word)), "{columns}: {written}: {text}");
            }
            for head in shown.columns.iter().flat_map(|head| head.split(' ')) {
                assert!(words.contains(&head), "{columns}: {head}: {text}");
            }
            // Every part says of each row what it is.
            let parts = text.split("\n\n").count();
            assert_eq!(text.matches("grid  ").count(), 2 * parts, "{columns}: {text}");
        }
    }
}
