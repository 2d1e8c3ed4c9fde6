//! The program from outside, as a user starts it.
#![forbid(unsafe_code)]

#[path = "program/borders.rs"]
mod borders;
#[path = "program/command.rs"]
mod command;
#[path = "program/documents.rs"]
mod documents;
#[path = "program/usage.rs"]
mod usage;
