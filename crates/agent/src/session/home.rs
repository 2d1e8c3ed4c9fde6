//! What the threads of an end bring home from a round.

use std::io::{self, Write};
use std::iter::repeat;

use msgpath_core::Histogram;
use msgpath_core::parts::Parts;
use msgpath_core::schema::{EndReport, KernelCounts, OpenRound};

use crate::events;
use crate::loops::FarStamps;
use crate::team::{Team, problem, thread_records};
use crate::thread::{Outcome, ThreadError};
use crate::wire::{self, FromEnd, Times, put_histograms};

/// What the threads of an end bring home. The rows of a near end's threads are said at once, the rest is returned.
pub(super) fn collect_outcomes(
    team: Team,
    (kernel, watched_ns): (KernelCounts, u64),
    speed_ns: u64,
    near: bool,
    to: &mut impl Write,
) -> io::Result<(FromEnd, Vec<u8>)> {
    let outcomes = match team.outcomes() {
        Ok(outcomes) => outcomes,
        Err(ThreadError::Unavailable(reason)) => return Ok((FromEnd::Unavailable(reason), Vec::new())),
        Err(error) => {
            let end = if near { "near" } else { "far" };
            return Ok((FromEnd::Failed(problem(&error, end).into()), Vec::new()));
        }
    };
    let mut bytes = Vec::new();
    let (stamps, times) = match near {
        true => {
            outcomes.iter().try_for_each(|outcome| say_rows(outcome, to))?;
            (Box::default(), Some(Box::new(times(&outcomes, &mut bytes))))
        }
        false => (outcomes.iter().map(|outcome| put_stamps(outcome, &mut bytes)).collect(), None),
    };
    let sum = |mut sum: EndReport, one: EndReport| {
        sum.add(&one);
        sum
    };
    let report = Box::new(outcomes.iter().map(|outcome| outcome.report).reduce(sum).unwrap_or_default());
    let events = events::together(outcomes.iter().map(|outcome| &outcome.events));
    let threads = thread_records(&outcomes);
    Ok((FromEnd::Done { report, kernel, watched_ns, speed_ns, events, threads, stamps, times }, bytes))
}

/// Adds the stamps of a far end's thread; how many. A frame is limited: what does not fit is not sent, and the coordinator
/// sees how many there are.
fn put_stamps(outcome: &Outcome, bytes: &mut Vec<u8>) -> u32 {
    let FarStamps { arrived, left } = &outcome.stamps;
    let columns = if left.is_empty() { 1 } else { 2 };
    let sent = arrived.len().min((wire::MAX_BYTES - bytes.len()) / 8 / columns);
    bytes.reserve(8 * columns * sent);
    for column in [arrived, left].into_iter().take(columns) {
        // The stamps of a message that was cut off before its reply are of different length.
        bytes.extend(column.iter().copied().chain(repeat(0)).take(sent).flat_map(u64::to_le_bytes));
    }
    sent as u32
}

/// Says the rows of a near end's thread.
fn say_rows(outcome: &Outcome, to: &mut impl Write) -> io::Result<()> {
    let Outcome { rows, late, sent, .. } = outcome;
    let counts = [rows.len(), rows.len(), late.len(), sent.len()].map(|count| count as u32);
    let columns = rows.iter().map(|row| row.start).chain(rows.iter().map(|row| row.latency));
    let columns = columns.chain(late.iter().chain(sent).copied());
    wire::write(to, &FromEnd::Rows { counts }, &columns.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
}

/// What a workload of a feature has to say of each thread; nothing, where it has nothing to say of any.
fn parts(outcomes: &[Outcome]) -> Vec<Parts> {
    let silent = outcomes.iter().all(|outcome| outcome.parts.is_empty());
    if silent { Vec::new() } else { outcomes.iter().map(|outcome| outcome.parts.clone()).collect() }
}

/// What a near end's threads have timed; adds the histograms.
fn times(outcomes: &[Outcome], bytes: &mut Vec<u8>) -> Times {
    let of: [fn(&Outcome) -> &Histogram; 4] =
        [|one| &one.latency, |one| &one.first, |one| &one.service, |one| &one.lateness];
    let sums = of.map(|of| {
        let mut sum = Histogram::new();
        outcomes.iter().for_each(|outcome| sum.merge(of(outcome)));
        sum
    });
    let histograms = put_histograms(sums.each_ref(), bytes);
    let sum = |mut sum: OpenRound, one: OpenRound| {
        sum.add(&one);
        sum
    };
    let open = outcomes.iter().filter_map(|outcome| outcome.open.clone()).reduce(sum);
    Times {
        histograms,
        open,
        debts: outcomes.iter().filter_map(|outcome| outcome.debt).collect(),
        parts: parts(outcomes),
    }
}
