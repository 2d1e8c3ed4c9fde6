//! Pages that answer questions from several runs: what a preset is for.
//!
//! A page is one file in `pages/` and one line in [`PAGES`]; it finds the runs of its preset by their names and says what
//! follows from them, or why nothing does. Everything is typed cells and sentences; `present` lays them out.

mod answered;
mod evidence;
pub mod ladder;
mod pages;
mod part;
mod published;
#[cfg(test)]
mod testing;
mod words;

use crate::preset::Preset;
use msgpath_present::answers::columns;
pub use msgpath_present::answers::{Answer, Cell, Missing, Page, Table, cell};
pub use pages::nagle_trap::{Waits, waits};
pub use pages::write_shape::{ClassicRow, classic};
pub use part::{Make, Part, part};

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
    Page { title: title.into(), findings: findings.collect(), missing, ..page }
}
