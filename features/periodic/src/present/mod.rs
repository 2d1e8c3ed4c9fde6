//! Periodic runs on a terminal, in the report, in the JSON.

#[cfg(test)]
mod json;
mod receivers;
mod senders;
mod terminal;

use msgpath_present::section::{NOTHING, Section};

pub static SECTION: Section = Section {
    terminal: terminal::view,
    leading: &[receivers::FIGURE],
    figures: &[senders::FIGURE],
    answers: &["receivers", "senders"],
    sentences: &["W176", "W177", "W178", "W179"],
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
