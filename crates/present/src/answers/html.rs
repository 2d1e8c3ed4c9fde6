//! The page as one HTML file that needs no network.

use crate::answers::{Answer, Page as Answers, Table};
use msgpath_analyse::summary::Confidence;
use msgpath_core::units::Glyphs;

use super::Pictured;
use super::cells;
use crate::html::document;
use crate::html::page::{Cell, Page};
use crate::svg::escape;

/// The page, with pictures between the tables and the questions.
pub fn html(answers: &Answers, pictures: &[Pictured]) -> String {
    let mut page = Page::new();
    page.raw(&format!("<h1>{}</h1>\n", escape(&answers.title)));
    if !answers.missing.is_empty() {
        page.raw("<ul class=\"verdict\">\n");
        for missing in &answers.missing {
            let text = escape(&format!("{}: {}", missing.name, missing.why));
            page.raw(&format!("<li class=\"warning\"><span class=\"tag\">not measured</span>{text}</li>\n"));
        }
        page.raw("</ul>\n");
    }
    for (number, answer) in answers.answers.iter().enumerate() {
        page.heading(&format!("{}. {}", number + 1, answer.question));
        says(&mut page, answer);
    }
    for picture in pictures {
        page.heading(&picture.title);
        page.raw("<figure><div class=\"panels\">");
        picture.panels.iter().for_each(|panel| page.raw(&panel.markup()));
        page.raw("</div></figure>\n");
        if !picture.how.is_empty() {
            page.note(&picture.how);
        }
    }
    for shown in &answers.tables {
        page.heading(&shown.title);
        table(&mut page, shown);
    }
    if !answers.claims.is_empty() {
        page.heading("Claims that these runs settle");
        for settled in &answers.claims {
            page.raw(&format!("<h3>{}. “{}”</h3>\n", settled.number, escape(&settled.claim)));
            says(&mut page, &settled.answer);
        }
    }
    for (part, findings) in answers.findings.iter().filter(|(_, findings)| !findings.is_empty()) {
        page.heading(&format!("Findings of the run {part}"));
        page.raw("<ul class=\"verdict\">\n");
        for finding in findings {
            item(&mut page, finding.confidence, &finding.text, &finding.next);
        }
        page.raw("</ul>\n");
    }
    document(&answers.title, &page.finish(), "")
}

fn says(page: &mut Page, answer: &Answer) {
    page.raw("<ul class=\"verdict\">\n");
    item(page, answer.confidence, &answer.text, &answer.next);
    page.raw("</ul>\n");
    for evidence in &answer.evidence {
        page.note(&evidence.title);
        table(page, evidence);
    }
}

fn item(page: &mut Page, confidence: Confidence, text: &str, next: &[String]) {
    let class = match confidence {
        Confidence::Sure => "sure",
        Confidence::Likely => "likely",
        Confidence::CantTell => "cant-tell",
    };
    page.raw(&format!("<li class=\"{class}\"><span class=\"tag\">{}</span>{}", confidence.word(), escape(text)));
    for command in next {
        page.raw(&format!("<span class=\"next\">next: <code>{}</code></span>", escape(command)));
    }
    page.raw("</li>\n");
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
