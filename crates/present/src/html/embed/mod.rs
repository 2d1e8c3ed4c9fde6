//! The message log inside the report: at most so many messages, chosen by [`select`], packed by [`pack`].

mod calls;
mod pack;
mod select;

use msgpath_analyse::stages::Stage;
use msgpath_core::schema::MessageRow;

use super::encode::base64;
pub(crate) use calls::kind::{CONTRADICTS, PLACED};
pub(crate) use calls::{EmbeddedCalls, embed_calls, key_text, split};

/// Messages in a report where nobody asks for another number.
pub const DEFAULT_EMBED: usize = 100_000;

/// The messages of one case in the report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EmbeddedCase {
    /// Id of the case.
    pub(crate) case: u32,
    /// How many are in the report.
    pub(crate) kept: usize,
    /// How many the log has.
    pub(crate) logged: usize,
    /// How many a sampled one stands for.
    pub(crate) weight: f64,
    /// Highest connection number and one.
    pub(crate) connections: u32,
    /// Positions in the log given to [`embed`], in the order of the report.
    pub(crate) rows: Vec<u32>,
}

/// A message log as the report carries it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Embedded {
    /// The stages that the messages have, in the order of time.
    pub(crate) stages: Vec<Stage>,
    /// The cases, in the order of the plan.
    pub(crate) cases: Vec<EmbeddedCase>,
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
pub(crate) fn embed(messages: &[MessageRow], cases: &[u32], limit: usize) -> Embedded {
    let mut by_case: Vec<(u32, Vec<u32>)> = cases.iter().map(|case| (*case, Vec::new())).collect();
    for (at, row) in messages.iter().enumerate() {
        if let Some((_, positions)) = by_case.iter_mut().find(|(case, _)| *case == row.case) {
            positions.push(at as u32);
        }
    }
    let counts: Vec<usize> = by_case.iter().map(|(_, positions)| positions.len()).collect();
    let shares = select::shares(&counts, limit);
    let (mut cases, mut chosen) = (Vec::new(), Vec::new());
    for ((case, mut positions), share) in by_case.into_iter().zip(shares) {
        positions.sort_by_key(|at| (messages[*at as usize].start_ns, messages[*at as usize].connection));
        let rows: Vec<&MessageRow> = positions.iter().map(|at| &messages[*at as usize]).collect();
        let selection = select::select(&rows, share);
        if selection.picked.is_empty() {
            continue;
        }
        cases.push(EmbeddedCase {
            case,
            kept: selection.picked.len(),
            logged: rows.len(),
            weight: selection.weight,
            connections: rows.iter().map(|row| row.connection).max().unwrap_or(0).saturating_add(1),
            rows: selection.picked.iter().map(|(at, _)| positions[*at as usize]).collect(),
        });
        chosen.push(selection.picked.iter().map(|(at, sampled)| (rows[*at as usize], *sampled)).collect());
    }
    let stages = Stage::of(chosen.iter().flat_map(|case: &Vec<(&MessageRow, bool)>| case.iter().map(|(row, _)| *row)));
    let raw = pack::columns(&chosen, &stages);
    let packed = pack::deflate(&raw);
    Embedded { stages, cases, raw_bytes: raw.len(), packed_bytes: packed.len(), text: base64(&packed) }
}

#[cfg(test)]
mod tests;
