//! Pages of questions and answers: typed tables, sentences, and how they are laid out as text, HTML, CSV
//! and JSON. What is asked and what is answered is for whoever makes a page.

pub mod cell;
mod cells;
pub mod columns;
mod csv;
mod html;
mod text;

use msgpath_analyse::summary::{Confidence, Finding};
use schemars::JsonSchema;
use serde::Serialize;

use crate::svg::{self, Svg};

pub use cell::{Cell, Table};
pub use csv::csv;
pub use html::{answered, html};
pub use text::{brief, text};

/// A part that there is none of, and why.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Missing {
    /// Name of the part in the preset.
    pub name: String,
    /// Why it was not measured.
    pub why: String,
}

/// A question, what the runs say, and the rows that say so.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Answer {
    /// The question, as the course asks it.
    pub question: String,
    /// How sure. [`Confidence::CantTell`]: the text begins with 'cannot be answered on this path, because' or says what
    /// would settle it.
    pub confidence: Confidence,
    /// The answer, in one or a few sentences with their numbers.
    pub text: String,
    /// The rows it rests on.
    pub evidence: Vec<Table>,
    /// Commands to run next.
    pub next: Vec<String>,
}

impl Answer {
    /// An answer without rows.
    pub fn new(question: impl Into<String>, confidence: Confidence, text: impl Into<String>) -> Self {
        Self { question: question.into(), confidence, text: text.into(), evidence: Vec::new(), next: Vec::new() }
    }

    /// `cannot be answered on this path, because ...`.
    pub fn cannot(question: impl Into<String>, because: impl std::fmt::Display) -> Self {
        Self::new(question, Confidence::CantTell, format!("cannot be answered on this path, because {because}"))
    }

    /// Written as a sentence is: a capital at its beginning, unless that is a name with a colon or a path, a full stop at
    /// its end.
    #[must_use]
    pub fn whole(mut self) -> Self {
        let first = self.text.split(' ').next().unwrap_or_default();
        let word = first.trim_end_matches(',').chars().all(char::is_alphabetic);
        if word && !self.text.starts_with("cannot be answered") {
            let mut letters = self.text.chars();
            let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
            self.text = capital + letters.as_str();
        }
        if !self.text.ends_with('.') {
            self.text.push('.');
        }
        self
    }

    /// With rows.
    #[must_use]
    pub fn with(mut self, table: impl Into<Table>) -> Self {
        self.evidence.push(table.into());
        self
    }

    /// With a command to run next.
    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
        self
    }
}

/// What a preset says at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    pub title: String,
    /// Tables that come first.
    pub tables: Vec<Table>,
    /// Questions in order.
    pub answers: Vec<Answer>,
    /// The sentences of each run, by the name of the part.
    pub findings: Vec<(String, Vec<Finding>)>,
    /// Parts that there is nothing of.
    pub missing: Vec<Missing>,
}

pub struct Pictured {
    /// A name for its file: small letters, digits and dashes.
    pub name: String,
    /// The heading: the question it answers.
    pub title: String,
    /// One line: how to read it.
    pub how: String,
    /// The drawings, side by side.
    pub panels: Vec<Svg>,
}

impl Pictured {
    /// The picture as an SVG file of its own.
    pub fn file(&self) -> String {
        svg::file(&self.title, &self.panels, crate::html::FIGURES)
    }
}
