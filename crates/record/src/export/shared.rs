//! What several formats need: the trait of all, what they read of a run, and how they write a table.

use std::io::{self, Write};

use msgpath_core::Case;
use msgpath_core::foreign::cell;
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{Counted, EndReport, MessageRow, RoundRecord, RpcFacts, RpcRow};
use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, Kind, MARKER_BYTES, Method, RPC_HEADER_BYTES};

use crate::columns::Cell;
use crate::{RecordError, Run};

/// A format.
pub trait Exporter: Sync {
    /// What is typed after `--to`.
    fn name(&self) -> &'static str;
    /// Of the file, without a dot.
    fn extension(&self) -> &'static str;
    /// One line for help texts, lower case, no full stop.
    fn summary(&self) -> &'static str;
    /// Whether the bytes are nothing for a terminal.
    fn binary(&self) -> bool {
        false
    }
    /// Writes the run.
    ///
    /// # Errors
    /// [`RecordError::Export`] where `out` cannot be written, [`RecordError::NoMessages`] where a format of messages
    /// finds none, [`RecordError::NoCalls`] where one of calls does.
    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError>;
}

/// The messages of the run as far as they are whole; at least one.
pub(super) fn messages(run: &Run) -> Result<impl Iterator<Item = MessageRow>, RecordError> {
    let mut rows = crate::messages(&run.folder)?.map_while(Result::ok).peekable();
    match rows.peek() {
        Some(_) => Ok(rows),
        None => Err(RecordError::NoMessages { run: run.header.name.clone() }),
    }
}

/// The calls of the run as far as they are whole, and what is known of them; at least one.
pub(super) fn calls(run: &Run) -> Result<(&RpcFacts, impl Iterator<Item = RpcRow>), RecordError> {
    let mut rows = crate::rpcs(&run.folder)?.map_while(Result::ok).peekable();
    match (run.header.parts.get::<RpcFacts>(), rows.peek()) {
        (Some(facts), Some(_)) => Ok((facts, rows)),
        _ => Err(RecordError::NoCalls { run: run.header.name.clone() }),
    }
}

/// T1 to T4 in ns since 1970 (or since the start of a run whose date is not known), as recorded.
pub(crate) fn stamps(facts: &RpcFacts, row: &RpcRow) -> [Option<i64>; 4] {
    let t1 = facts.begin_unix_us.saturating_mul(1_000).saturating_add_unsigned(row.start_ns);
    let after = |ns: Option<i64>| ns.map(|ns| t1.saturating_add(ns));
    [
        Some(t1),
        after(row.received_ns),
        after(row.replied_ns),
        after(row.latency_ns.and_then(|ns| i64::try_from(ns).ok())),
    ]
}

/// A call as the lab's header has it: everything that a record of it may need, cut to µs. What the record does not keep
/// stands in for it: the number of the connection (from 1) for the client's port.
pub(super) fn lab_header(run: &Run, facts: &RpcFacts, row: &RpcRow) -> Header {
    let pair = &facts.pairs[row.pair as usize];
    let address = |text: &str| text.parse::<std::net::Ipv4Addr>().map_or(0, u32::from);
    let port = run.header.target.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
    let label = case(run, row.case).label.as_deref();
    Header {
        rpcid: row.rpcid,
        parent: row.parent,
        t: stamps(facts, row).map(|t| t.map_or(0, |ns| ns.div_euclid(1_000))),
        client_ip: address(&pair.client),
        server_ip: address(&pair.server),
        client_port: (row.connection as u16).wrapping_add(1),
        server_port: port,
        lglen1: tenlg(body(row.request_bytes)),
        lglen2: tenlg(body(row.reply_bytes)),
        kind: Kind::RespRcv as u16,
        method: Method::new(label.unwrap_or("call")),
        status: row.status,
        pad: 0,
    }
}

/// Bytes of the body of a message with all its headers.
pub(super) fn body(message: u64) -> u64 {
    message.saturating_sub((MARKER_BYTES + RPC_HEADER_BYTES) as u64)
}

/// The case of a round or a message; the reader has checked that it exists.
pub(super) fn case(run: &Run, id: u32) -> &Case {
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
    run.header.plan.workload.is_echoed().then_some(case.reply)
}

/// Bits per second of a stream: the receiver's bytes on the receiver's clock.
pub(super) fn receiver_bits_per_s(run: &Run, round: &RoundRecord) -> Option<f64> {
    let receiver = if run.header.plan.reverse { round.near() } else { round.far() };
    let stream = !run.header.plan.workload.timed && receiver.elapsed_ns > 0;
    stream.then(|| receiver.bytes_received as f64 * 8e9 / receiver.elapsed_ns as f64)
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

pub(super) fn field(cell: Cell<'_>) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) => text.into_owned(),
    }
}

pub(super) fn failed(error: impl Into<io::Error>) -> RecordError {
    RecordError::Export(error.into())
}
