//! Several clients on a terminal, in the report, in the JSON.

#[cfg(test)]
mod json;
mod multiples;
mod terminal;

use msgpath_present::section::{NOTHING, Section};

pub static SECTION: Section =
    Section { terminal: terminal::view, leading: &[multiples::FIGURE], sentences: crate::findings::ANSWERS, ..NOTHING };

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");
