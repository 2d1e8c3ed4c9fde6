//! The page as one HTML file that needs no network.

use crate::answers::{Answer, Page as Answers, Table};
use msgpath_core::units::Glyphs;

use super::Pictured;
use super::cells;
use crate::html::page::{Cell, Page};
use crate::html::{document, script};
use crate::svg::escape;

/// The page, with pictures between the tables and the questions.
pub fn html(answers: &Answers, pictures: &[Pictured]) -> String {
    let mut page = Page::new();
    page.raw(&format!("<h1>{}</h1>\n", escape(&answers.title)));
    write(page, answers, 0, pictures)
}

/// The same for a page with one question: its first answer is the heading.
pub fn answered(answers: &Answers, pictures: &[Pictured]) -> String {
    let Some(first) = answers.answers.first() else { return html(answers, pictures) };
    let mut page = Page::new();
    page.raw(&format!("<p class=\"subject\">{}</p>\n", escape(&answers.title)));
    page.headline(first.confidence, &first.text, first.next.first());
    write(page, answers, 1, pictures)
}

/// What comes below the heading, which has `told` of the answers.
fn write(mut page: Page, answers: &Answers, told: usize, pictures: &[Pictured]) -> String {
    if !answers.missing.is_empty() {
        page.raw("<ul class=\"verdict\">\n");
        for missing in &answers.missing {
            let text = escape(&format!("{}: {}", missing.name, missing.why));
            page.raw(&format!("<li class=\"warning\"><span class=\"tag\">not measured</span>{text}</li>\n"));
        }
        page.raw("</ul>\n");
    }
    if let Some(first) = pictures.first() {
        page.raw("<div class=\"first n1\">\n");
        picture(&mut page, "picture-1", first, true);
        page.raw("</div>\n");
    }
    for (number, answer) in answers.answers.iter().enumerate().skip(told) {
        page.listed(&format!("question-{}", number + 1), &answer.question);
        page.raw(&format!("<div id=\"question-{}\">\n", number + 1));
        page.heading(&format!("{}. {}", number + 1, answer.question));
        says(&mut page, answer);
        page.raw("</div>\n");
    }
    for (number, other) in pictures.iter().enumerate().skip(1) {
        page.fold(&format!("picture-{}", number + 1), &other.title, false);
        picture(&mut page, "", other, false);
    }
    for shown in &answers.tables {
        page.section(&shown.title);
        table(&mut page, shown);
    }
    for (part, findings) in answers.findings.iter().filter(|(_, findings)| !findings.is_empty()) {
        page.section(&format!("Findings of the run {part}"));
        page.raw("<ul class=\"verdict\">\n");
        for finding in findings {
            page.computed(finding.confidence, &finding.text, &finding.next);
        }
        page.raw("</ul>\n");
    }
    document(&answers.title, page, &script())
}

/// A picture; with its title where it does not stand in a section that has it.
fn picture(page: &mut Page, id: &str, picture: &Pictured, titled: bool) {
    if titled {
        page.listed(id, &picture.title);
        page.raw(&format!("<figure id=\"{}\">\n<h2>{}</h2>\n", escape(id), escape(&picture.title)));
    } else {
        page.raw("<figure>\n");
    }
    if !picture.how.is_empty() {
        page.raw(&format!("<p class=\"q\">{}</p>\n", escape(&picture.how)));
    }
    page.raw("<div class=\"panels\">\n");
    picture.panels.iter().for_each(|panel| page.raw(&panel.markup()));
    page.raw("</div>\n</figure>\n");
}

fn says(page: &mut Page, answer: &Answer) {
    page.raw("<ul class=\"verdict\">\n");
    page.computed(answer.confidence, &answer.text, &answer.next);
    page.raw("</ul>\n");
    for evidence in &answer.evidence {
        page.note(&evidence.title);
        table(page, evidence);
    }
}

fn table(page: &mut Page, shown: &Table) {
    let numbers = cells::number_columns(shown);
    let cell = |(cell, number): (&crate::answers::Cell, &bool)| {
        let written = cells::write(cell, Glyphs::Unicode);
        let class = if *number { "" } else { "w l" };
        Cell::of(class, written.text).with_note(written.interval.unwrap_or_default())
    };
    let rows: Vec<Vec<Cell>> = shown.rows.iter().map(|row| row.iter().zip(&numbers).map(cell).collect()).collect();
    page.long_table(&shown.columns, &rows);
    if let Some(note) = &shown.note {
        page.note(note);
    }
}
