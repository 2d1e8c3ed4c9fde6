//! Results as text for a terminal: pure functions, at most 100 columns, at least 60.
//!
//! Below 100 columns a table loses the columns it can do without. Colours repeat what words and signs already say. Only a
//! command that is to be copied is never cut. [`Page`] and [`Table`] serve results that are laid out elsewhere.

mod answer;
mod compare;
mod curve;
mod diff;
mod doctor;
mod each;
mod echo;
mod known;
pub(crate) mod ladder;
mod machines;
mod nothing;
mod page;
mod paths;
mod runs;
mod sections;
mod shape;
mod stages;
mod stream;
mod table;
mod threads;
mod verify;

pub use answer::first_statements;
pub(crate) use answer::{answers, is_answer, kinds as warning_kinds};
pub use compare::compare;
pub(crate) use compare::{absolute, metric_name, resolution};
pub use diff::diff;
pub use doctor::{doctor, doctor_fix};
pub use each::each;
pub use echo::{echo, interval_span, value_span};
pub use ladder::ladder;
pub use machines::machines;
pub use nothing::nothing;
pub use page::{Page, Paint, Span, Style, width, wrap};
pub use paths::{PathRow, SettingRow, each_path, paths, settings};
pub use runs::{RunRow, runs};
pub(crate) use sections::cost_cells;
pub use sections::{findings, verdict, warnings};
pub use shape::bar_of;
pub use stages::{bursts, stage_bars};
pub use stream::{stream, write_shape};
pub use table::{Align, Table};
pub use verify::verify;

#[cfg(test)]
mod tests;
