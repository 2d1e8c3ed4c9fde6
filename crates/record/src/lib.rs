//! The run on disk: written so that a killed program loses only its last unfinished block, read back as far as it is
//! whole, and exported to formats that others read.
//!
//! A run is a folder:
//!
//! | file | what |
//! |---|---|
//! | `run.json` | [`RunHeader`](msgpath_core::schema::RunHeader), written whole before the first round |
//! | `rounds.mpl` | one block a pass and a round, and one that says how the run ended |
//! | `messages.mpl` | the per-message log, where one was asked for |
//! | `events.mpl` | the kernel events of traced rounds, where the run has any |
//! | `summary.json` | the numbers that were printed when the run ended, to be checked against the rest |
//!
//! Features have further kinds of folders, which are made of the same blocks and columns, and may keep a file of their own beside
//! the rounds of a run: a log of rows ([`RunLog`]), or another.
//!
//! [`block`] describes the bytes of the `.mpl` files.
//!
//! `writer.rs` appends whole blocks, `reader.rs` reads up to the last whole one and says where it stopped, `resume.rs` opens a run
//! that was cut short so that it can go on, `block.rs` is the format (crates/record/FORMAT.md), `columns/` the one list of columns of which the codec of the logs, CSV, Parquet and the
//! tables of that page are made, `store.rs` the folder of runs, meshes and watched programs and what `@last` means, `export/` one file per format.
//!
//! Invariant: the reader trusts nothing: lengths, checksums, indices and sums are checked, and damage is a
//! result, not an error. Invariant: no quantile or ratio is stored; they are computed again.
#![forbid(unsafe_code)]

pub mod block;
pub mod columns;
mod error;
pub mod export;
#[cfg(test)]
mod golden;
pub mod lines;
pub mod log;
mod messages;
pub mod owner;
mod reader;
mod resume;
pub mod store;
mod summary;
mod temporary;
#[cfg(test)]
mod test_run;
pub mod utc;
mod writer;

pub use block::{fuzz_blocks, fuzz_header};
pub use columns::OfCase;
pub use error::{RecordError, WrittenBy};
pub use log::{AnyLog, Log, RunLog, messages, rows};
pub use messages::{MessageLog, Messages, NO_MESSAGES, RoundLog, Rows};
pub use reader::{
    CHANGED, Damage, Events, EventsOfRounds, MAX_EVENTS, Run, events, header, header_bytes, heads, read,
    read_with_passes, summed,
};
pub use resume::{CutShort, is_torn};
pub use summary::{read_summary, write_summary};
pub use writer::{
    Appender, FOLDER_MODE, PRIVATE_FOLDER_MODE, RunWriter, framed, make_folder, write_private, write_whole,
};

/// The header, within the folder.
pub const HEADER_FILE: &str = "run.json";
/// The rounds, within the folder.
pub const ROUNDS_FILE: &str = "rounds.mpl";
/// The per-message log, within the folder.
pub const MESSAGES_FILE: &str = "messages.mpl";
/// The kernel events of traced rounds, within the folder.
pub const EVENTS_FILE: &str = "events.mpl";
/// The numbers that were printed, within the folder.
pub const SUMMARY_FILE: &str = "summary.json";
