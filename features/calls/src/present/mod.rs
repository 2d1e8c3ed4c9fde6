//! Calls on a terminal, in the report, in the JSON.

mod embed;
mod ends;
mod figures;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod json;
mod terminal;
mod words;

use msgpath_present::section::{NOTHING, Section};

pub use terminal::histogram;

pub static SECTION: Section = Section {
    terminal: terminal::view,
    figures: figures::FIGURES,
    answers: &["rpc-waterfall"],
    once: &["rpc-calls"],
    script: include_str!("calls.js"),
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
