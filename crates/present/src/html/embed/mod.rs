//! The message log inside the report: at most so many messages, chosen by [`sample`], packed by [`pack`].

pub mod pack;

use msgpath_analyse::sample::{self, CaseSample};
use msgpath_analyse::stages::Stage;
use msgpath_core::schema::MessageRow;
use msgpath_record::Messages;

use super::encode::base64;

/// Messages in a report where nobody asks for another number.
pub const DEFAULT_EMBED: usize = 100_000;

/// A message log as the report carries it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Embedded {
    /// The stages that the messages have, in the order of time.
    pub(crate) stages: Vec<Stage>,
    /// The cases, in the order of the plan.
    pub(crate) cases: Vec<CaseSample>,
    /// Base64 of raw deflate of the columns.
    pub(crate) text: String,
    /// Bytes of the columns before deflate.
    pub(crate) raw_bytes: usize,
    /// Bytes after deflate, before base64.
    pub(crate) packed_bytes: usize,
}

impl Embedded {
    /// Messages in the report.
    pub(crate) fn kept(&self) -> usize {
        self.cases.iter().map(|case| case.kept).sum()
    }

    /// Messages in the log.
    pub(crate) fn logged(&self) -> usize {
        self.cases.iter().map(|case| case.logged).sum()
    }
}

/// Chooses at most `limit` of the logged messages of these cases and packs them.
pub(crate) fn embed(messages: &dyn Messages, cases: &[u32], limit: usize) -> Embedded {
    let cases = sample::messages::<MessageRow>(messages, cases, limit);
    let rows = cases.iter().flat_map(|case: &CaseSample| case.rows.iter().map(|(row, _)| row));
    let stages = Stage::of(rows);
    let raw = pack::columns(&cases, &stages);
    let packed = pack::deflate(&raw);
    Embedded { stages, cases, raw_bytes: raw.len(), packed_bytes: packed.len(), text: base64(&packed) }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
