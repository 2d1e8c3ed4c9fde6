//! What several formats need: the trait of all, what they read of a run, and how they write a table.

use std::io::{self, Write};

use msgpath_core::Case;
use msgpath_core::carried::Carried;
use msgpath_core::foreign::cell;
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{Counted, EndReport, MessageRow, RoundRecord};

use crate::columns::{Cell, Column, Context};
use crate::{RecordError, Run};

pub trait Exporter: Sync {
    /// What is typed after `--to`.
    fn name(&self) -> &'static str;
    /// Of the file, without a dot.
    fn extension(&self) -> &'static str;
    /// One line for help texts, lower case, no full stop.
    fn summary(&self) -> &'static str;
    /// Whether it is how this run is exported under that name.
    fn is_for(&self, _run: &Run) -> bool {
        true
    }
    /// Whether the bytes are nothing for a terminal.
    fn binary(&self) -> bool {
        false
    }
    /// Writes the run.
    ///
    /// # Errors
    /// [`RecordError::Export`] where `out` cannot be written, [`RecordError::NoRows`] where a format of rows finds none.
    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError>;
}

/// The messages of the run as far as they are whole; at least one.
pub(super) fn messages(run: &Run) -> Result<impl Iterator<Item = MessageRow>, RecordError> {
    let mut rows = crate::messages(&run.folder)?.map_while(Result::ok).peekable();
    match rows.peek() {
        Some(_) => Ok(rows),
        None => Err(RecordError::NoRows {
            run: run.header.name.clone(),
            what: "per-message log",
            why: "none was asked for when it was measured, or it ended before the first message was kept",
            hint: "a format of rounds: csv, json, hgrm or hlog",
        }),
    }
}

/// The case of a round or a message; the reader has checked that it exists.
pub fn case(run: &Run, id: u32) -> &Case {
    &run.header.plan.cases[id as usize]
}

pub(crate) fn role_word(role: CaseRole) -> &'static str {
    match role {
        CaseRole::Measured => "measured",
        CaseRole::Control => "control",
        CaseRole::Reference => "reference",
        CaseRole::Ablation => "ablation",
    }
}

/// What is known of what the ends spent in a round.
pub(super) fn counted(run: &Run, round: &RoundRecord) -> [Counted; 2] {
    run.header.counted(case(run, round.case))
}

/// Fields of an end's report that count messages.
const MESSAGES: [&str; 9] =
    ["untimed", "sent", "received", "lost", "duplicated", "reordered", "late", "verified", "delivery"];

/// Whether a field of an end's report is known although an imported file does not tell how long messages were.
pub(super) fn is_told(field: &str, end: &EndReport, run: &Run, round: &RoundRecord) -> bool {
    let is_stream = !run.header.plan.workload.timed;
    case(run, round.case).has_size()
        || match field {
            "bytes_sent" => is_stream || end.bytes_sent > 0,
            "bytes_received" => is_stream || end.bytes_received > 0,
            _ => !is_stream || !MESSAGES.contains(&field),
        }
}

/// What is counted of system calls: a field of the report, and its columns.
pub(super) const CALLS: [&str; 14] = [
    "calls",
    "send_calls",
    "recv_calls",
    "wait_calls",
    "other_calls",
    "recv_full",
    "recv_short",
    "recv_empty",
    "send_short",
    "copied_bytes",
    "signals",
    "dropped",
    "redirected",
    "mapped_bytes",
];

/// Whether a field of an end's report is known: where nobody read its counters, what the stamps and lengths of calls tell.
pub(super) fn is_known(field: &str, end: &EndReport, counted: Counted) -> bool {
    match counted {
        Counted::All => return true,
        Counted::AllButCalls => return !CALLS.contains(&field),
        Counted::CpuTime => return field == "user_ns",
        Counted::Nothing => {}
    }
    let always = ["elapsed_ns", "bytes_sent", "bytes_received", "sent", "received", "lost", "delivery"];
    always.contains(&field) && *end != EndReport::default()
}

/// A part of the CPU time, ns. The kernel tells user mode and its own apart by ticks: where none fell into a part, it may
/// still have taken some of the time, so that a 0 was not counted.
pub(super) fn nonzero(ns: u64) -> Option<u64> {
    Some(ns).filter(|ns| *ns > 0)
}

/// Bytes of the reply of an echo; nothing else has one of a known size.
pub(crate) fn reply(run: &Run, case: &Case) -> Option<u64> {
    (run.header.plan.workload.is_echoed() && case.has_size()).then_some(case.reply)
}

/// Bits per second of a stream, as the program says it: on the receiver's clock where the round is steady (`core::carried`).
pub(super) fn receiver_bits_per_s(run: &Run, round: &RoundRecord) -> Option<f64> {
    let plan = &run.header.plan;
    let stream = !plan.workload.timed;
    stream.then(|| Carried::of(plan, round).bits_per_s())?
}

/// A table; its rows are made one at a time. Text of others is harmless in a terminal and in a spreadsheet.
pub(super) fn write_csv(
    head: impl Iterator<Item = String>,
    rows: impl Iterator<Item = Vec<String>>,
    out: &mut dyn Write,
) -> Result<(), RecordError> {
    let mut csv = csv::Writer::from_writer(out);
    let record = |cells: &[String]| cells.iter().map(|text| cell(text).into_owned()).collect::<Vec<_>>();
    csv.write_record(record(&head.collect::<Vec<_>>())).map_err(failed)?;
    // Wrapped, the error would not be known for a closed pipe.
    let refused = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => failed(error),
        other => failed(io::Error::other(format!("{other:?}"))),
    };
    for row in rows {
        csv.write_record(record(&row)).map_err(refused)?;
    }
    csv.flush().map_err(failed)
}

/// A table of these columns, a line each row.
///
/// # Errors
/// `out` cannot be written.
pub fn write_columns<R: 'static>(
    run: &Run,
    columns: &[&'static Column<R>],
    rows: impl Iterator<Item = R>,
    out: &mut dyn Write,
) -> Result<(), RecordError> {
    let of = Context::new(run);
    let rows = rows.map(|row| columns.iter().map(|column| field(column.cell(&of, &row))).collect());
    write_csv(columns.iter().map(|column| column.name.to_owned()), rows, out)
}

pub(super) fn field(cell: Cell<'_>) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) => text.into_owned(),
    }
}

/// An error of the writer, or of what writes to it.
pub fn failed(error: impl Into<io::Error>) -> RecordError {
    RecordError::Export(error.into())
}
