//! Stages on a terminal, in the report, in the JSON.

mod anatomy;
mod divided;
#[cfg(test)]
mod fixture;
mod json;
mod tables;
pub mod terminal;

use msgpath_present::section::{NOTHING, Section};

/// All of it.
pub static SECTION: Section = Section {
    of_verb: Some((crate::verb::NAME, terminal::explain)),
    behind: terminal::stages_of,
    tables: tables::tables,
    divided: divided::divided,
    leading: &[anatomy::FIGURE],
    json: json::json,
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
