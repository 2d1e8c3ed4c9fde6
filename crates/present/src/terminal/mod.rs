//! Results as text for a terminal: pure functions, at most 100 columns, at least 60.
//!
//! Below 100 columns a table loses the columns it can do without. Colours repeat what words and signs already say.

mod compare;
mod each;
mod echo;
mod nothing;
mod page;
mod paths;
mod runs;
mod sections;
mod shape;
mod stream;
mod table;

pub use compare::compare;
pub(crate) use compare::{absolute, letter, metric_name, resolution};
pub use each::each;
pub(crate) use echo::WHAT_TIME_IS;
pub use echo::echo;
pub use nothing::nothing;
pub use page::Style;
pub use paths::{PathRow, paths};
pub use runs::{RunRow, runs};
pub(crate) use sections::cost_cells;
pub use sections::{findings, verdict, warnings};
pub use stream::{stream, write_shape};

#[cfg(test)]
mod tests;
