//! Latency under load on a terminal, in the report, in the JSON.

#[cfg(test)]
mod json;
mod queue;
mod terminal;

use msgpath_present::section::{NOTHING, Section};

/// All of it.
pub static SECTION: Section = Section {
    terminal: terminal::view,
    figures: &[queue::FIGURE],
    answers: &["loaded-queue"],
    sentences: &[crate::findings::ANSWER],
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
