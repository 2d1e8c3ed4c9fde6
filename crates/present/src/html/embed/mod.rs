//! The message log inside the report: at most so many messages, chosen by [`select`], packed by [`pack`].

mod calls;
mod pack;
mod select;

use std::cell::Cell;
use std::collections::BTreeMap;

use msgpath_analyse::stages::Stage;
use msgpath_core::schema::MessageRow;
use msgpath_record::Messages;

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
    /// The messages in the order of the report, and whether each is sampled.
    pub(crate) rows: Vec<(MessageRow, bool)>,
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

/// The messages of one case, by rising start: rounds follow each other, and within one connections may mix.
struct OfCase<'a> {
    messages: &'a dyn Messages,
    case: u32,
    count: usize,
    /// Of each pass the position of its first message, and its first and last start, as far as they are known.
    rounds: BTreeMap<u32, (usize, Cell<(u64, u64)>)>,
}

impl OfCase<'_> {
    /// As [`select::Walk`].
    fn walk(&self, wanted: select::Wanted<'_>, each: select::Each<'_, MessageRow>) {
        let is_wanted = |case: u32, pass: u32| {
            let starts = self.rounds.get(&pass).filter(|_| case == self.case).map(|(_, starts)| starts.get());
            starts.is_some_and(|(first, last)| wanted(first, last))
        };
        self.messages.rounds(&is_wanted, &mut |rows| {
            let Some((base, starts)) = self.rounds.get(&rows[0].pass) else { return };
            let mut order: Vec<&MessageRow> = rows.iter().collect();
            order.sort_by_key(|row| (row.start_ns, row.connection));
            starts.set((order[0].start_ns, order[order.len() - 1].start_ns));
            order.into_iter().zip(*base as u32..).for_each(|(row, at)| each(at, row));
        });
    }
}

/// Chooses at most `limit` of the logged messages of these cases and packs them.
pub(crate) fn embed(messages: &dyn Messages, cases: &[u32], limit: usize) -> Embedded {
    let mut all: Vec<OfCase<'_>> =
        cases.iter().map(|case| OfCase { messages, case: *case, count: 0, rounds: BTreeMap::new() }).collect();
    for (case, pass, count) in messages.index() {
        if let Some(own) = all.iter_mut().find(|own| own.case == case) {
            own.rounds.insert(pass, (own.count, Cell::new((0, u64::MAX))));
            own.count += count;
        }
    }
    let counts: Vec<usize> = all.iter().map(|own| own.count).collect();
    let mut cases = Vec::new();
    for (own, share) in all.iter().zip(select::shares(&counts, limit)) {
        let selection = select::select::<MessageRow>(own.count, share, &|wanted, each| own.walk(wanted, each));
        if selection.picked.is_empty() {
            continue;
        }
        let mut picked = selection.picked.iter().peekable();
        let (mut rows, mut connections) = (Vec::with_capacity(selection.picked.len()), 0);
        own.walk(&|_, _| true, &mut |at, row| {
            connections = connections.max(row.connection.saturating_add(1));
            if let Some((_, sampled)) = picked.next_if(|(next, _)| *next == at) {
                rows.push((*row, *sampled));
            }
        });
        let (kept, logged) = (rows.len(), own.count);
        cases.push(EmbeddedCase { case: own.case, kept, logged, weight: selection.weight, connections, rows });
    }
    let rows = cases.iter().flat_map(|case: &EmbeddedCase| case.rows.iter().map(|(row, _)| row));
    let stages = Stage::of(rows);
    let raw = pack::columns(&cases, &stages);
    let packed = pack::deflate(&raw);
    Embedded { stages, cases, raw_bytes: raw.len(), packed_bytes: packed.len(), text: base64(&packed) }
}

#[cfg(test)]
mod tests;
