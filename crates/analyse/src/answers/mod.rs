//! Pages that answer questions from several runs: what a preset is for.
//!
//! A page is one file in `pages/` and one line in [`PAGES`]; it finds the runs of its preset by their names and says what
//! follows from them, or why nothing does. The claims that people get wrong (`claims/`) are settled from whatever runs
//! there are. Everything is typed cells and sentences; `present` lays them out.

pub mod cell;
pub mod claims;
mod evidence;
pub mod ladder;
mod pages;
mod published;
mod rows;

use msgpath_core::preset::Preset;
use msgpath_record::Run;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Logs;
use crate::summary::{Confidence, Finding, Summary};

pub use cell::{Cell, Table};
pub use pages::nagle_trap::{Waits, waits};
pub use pages::write_shape::{ClassicRow, classic};

/// A run of a preset, as pages and claims look at it.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its name in the preset.
    pub name: &'a str,
    /// As recorded.
    pub run: &'a Run,
    /// Its numbers.
    pub summary: &'a Summary,
    /// Its logs.
    pub logs: &'a Logs,
}

/// A part that there is none of, and why.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Missing {
    /// Its name in the preset.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A question, what the runs say, and the rows that say so.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Answer {
    /// The question.
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

    /// Written as a sentence is: a capital at its begin, unless that is a name with a colon or a path, a stop at its end.
    fn whole(mut self) -> Self {
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
    pub fn with(mut self, table: Table) -> Self {
        self.evidence.push(table);
        self
    }

    /// With a command to run next.
    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
        self
    }
}

/// A claim that people make, settled.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Settled {
    /// Its number in the list of forty.
    pub number: u8,
    /// The claim as it is seen.
    pub claim: String,
    /// What these runs say of it; the question is the claim.
    pub answer: Answer,
}

/// What a preset says at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// Tables that come first.
    pub tables: Vec<Table>,
    /// Questions in order.
    pub answers: Vec<Answer>,
    /// Claims that these runs settle, by number.
    pub claims: Vec<Settled>,
    /// The sentences of each run, by the name of the part.
    pub findings: Vec<(String, Vec<Finding>)>,
    /// Parts that there is nothing of.
    pub missing: Vec<Missing>,
}

/// Makes a page of the runs of a preset.
pub type Make = fn(&[Part<'_>]) -> Page;

/// Every page: the name that a preset gives, and what makes it.
pub const PAGES: &[(&str, Make)] = pages::ALL;

/// The page of a preset. Without one of its own, tables and answers are left to the findings of its runs.
///
/// # Panics
/// There is no page of that name; the preset was checked against [`PAGES`].
pub fn page(preset: &Preset, title: &str, parts: &[Part<'_>], missing: Vec<Missing>) -> Page {
    let made = preset.page.as_ref().map(|(name, _)| {
        let (_, make) = PAGES.iter().find(|(known, _)| known == name).expect("a page that exists");
        make(parts)
    });
    let mut page = made.unwrap_or_default();
    if !preset.published.is_empty() {
        let (table, answer) = published::beside(&preset.source, &preset.published, parts);
        page.tables.push(table);
        page.answers.push(answer);
    }
    page.answers = page.answers.into_iter().map(Answer::whole).collect();
    let findings = parts.iter().map(|part| (part.name.to_owned(), part.summary.findings.clone()));
    Page { title: title.into(), claims: claims::settled(parts), findings: findings.collect(), missing, ..page }
}

/// A run by its name in the preset.
pub fn part<'a>(parts: &[Part<'a>], name: &str) -> Option<Part<'a>> {
    parts.iter().copied().find(|part| part.name == name)
}
