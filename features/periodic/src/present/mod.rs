//! Periodic runs on a terminal, in the report, in the JSON.

#[cfg(test)]
mod json;
mod senders;
mod terminal;

use msgpath_present::section::{NOTHING, Section};

/// All of it.
pub static SECTION: Section =
    Section { terminal: terminal::view, figures: &[senders::FIGURE], answers: &["senders"], ..NOTHING };

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
