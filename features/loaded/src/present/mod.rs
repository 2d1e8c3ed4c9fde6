//! Latency under load on a terminal, in the report, in the JSON.

mod distributions;
#[cfg(test)]
mod json;
mod queue;
mod terminal;

use msgpath_present::section::{NOTHING, Section};

use crate::mix;

pub static SECTION: Section = Section {
    terminal: |run, summary, style| {
        terminal::view(run, summary, style).or_else(|| mix::view::terminal(run, summary, style))
    },
    leading: &[mix::figure::FIGURE],
    figures: &[distributions::FIGURE, queue::FIGURE],
    answers: &["loaded-queue"],
    sentences: &[crate::findings::ANSWER, crate::findings::MIX_ANSWERS[0], crate::findings::MIX_ANSWERS[1]],
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
