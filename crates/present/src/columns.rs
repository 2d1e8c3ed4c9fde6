//! The columns of tables with a row for each case. Each is defined once: its name in CSV, its head, what it means, its value. Terminal,
//! page, `export --to cases-csv` and `docs/columns.md` are made of the lists here.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, EndSummary, Throughput};
use msgpath_core::Case;
use msgpath_core::foreign::shown;
use msgpath_core::schema::TcpInfo;
use msgpath_core::units::{BitUnits, Glyphs};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::Quantile;

use crate::html::figures::{DataTable, Datum};
use crate::html::page::Cell;
use crate::terminal::{Align, Paint, Span, Table};
use crate::words;

/// A column of a table whose rows are made of `Row`.
pub struct Column<Row: ?Sized> {
    /// Its name in CSV, with the unit: `p50_ns`.
    pub key: &'static str,
    /// Its head on a terminal and on a page.
    pub title: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// How long it stays on a terminal that is too narrow, of several the lowest goes first; [`PAGE`]: it is on pages only.
    pub keep: u8,
    /// The same of the column with its range; `None`: it has none.
    pub range: Option<u8>,
    /// What stands in a row.
    pub value: fn(&Row) -> Value,
}

/// A column that stays on a terminal whatever happens.
pub const ALWAYS: u8 = u8::MAX;
/// A column that a terminal does not have.
pub const PAGE: u8 = 0;
/// The head of the column with the range.
pub const RANGE: &str = "range, 95 %";

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Quantile(Quantile),
    Time(Estimate),
    /// Bits per second.
    Bits(Estimate),
    /// Something a second.
    Rate(Estimate),
    /// A share, 0 to 1.
    Share(Estimate),
    Count(u64),
    /// It cannot be had.
    Missing,
}

impl Value {
    pub fn text(&self, glyphs: Glyphs, units: BitUnits) -> String {
        match self {
            Value::Quantile(quantile) => words::quantile_value(quantile, glyphs),
            Value::Time(ns) => glyphs.time(ns.value),
            Value::Bits(bits) => words::throughput(bits.value, units),
            Value::Rate(rate) => words::per_second(rate.value),
            Value::Share(share) => words::percent(share.value),
            Value::Count(count) => count.to_string(),
            Value::Missing => "n/a".into(),
        }
    }

    pub fn range(&self, glyphs: Glyphs) -> String {
        match self {
            Value::Quantile(quantile) => words::quantile_range(quantile, glyphs),
            Value::Time(ns) => words::estimate_interval(ns, |ns| glyphs.time(ns)),
            Value::Bits(bits) => words::estimate_interval(bits, |bits| words::throughput(bits, BitUnits::Si)),
            Value::Rate(rate) => words::estimate_interval(rate, words::per_second),
            Value::Share(share) => words::estimate_interval(share, words::percent),
            Value::Count(_) | Value::Missing => String::new(),
        }
    }

    /// Whether its range is one that says less than an interval.
    pub fn is_wide(&self) -> bool {
        matches!(self, Value::Quantile(quantile) if !quantile.is_interval())
    }

    /// The value and the ends of its range as numbers, in the unit of the column's key.
    pub fn numbers(&self) -> [Option<f64>; 3] {
        match self {
            Value::Quantile(quantile) => {
                [quantile.observed(), quantile.lo_ns, quantile.hi_ns].map(|ns| ns.map(|ns| ns as f64))
            }
            Value::Time(own) | Value::Bits(own) | Value::Rate(own) | Value::Share(own) => {
                [Some(own.value), own.low, own.high]
            }
            Value::Count(count) => [Some(*count as f64), None, None],
            Value::Missing => [None; 3],
        }
    }
}

impl<Row: ?Sized> Column<Row> {
    const fn new(key: &'static str, title: &'static str, doc: &'static str, value: fn(&Row) -> Value) -> Self {
        Self { key, title, doc, keep: PAGE, range: None, value }
    }

    const fn keep(self, keep: u8) -> Self {
        Self { keep, ..self }
    }

    const fn range(self, keep: u8) -> Self {
        Self { range: Some(keep), ..self }
    }
}

/// Adds the columns of a terminal to a table.
pub(crate) fn heads<Row: ?Sized>(columns: &[Column<Row>], table: Table) -> Table {
    columns.iter().filter(|column| column.keep > PAGE).fold(table, |table, column| {
        let table = table.optional(column.title, Align::Right, column.keep);
        match column.range {
            None | Some(PAGE) => table,
            Some(keep) => table.optional(RANGE, Align::Right, keep),
        }
    })
}

/// A row of a terminal: what is looked for first is bold, unless its range is wider than an interval.
pub(crate) fn spans<Row: ?Sized>(columns: &[Column<Row>], row: &Row, glyphs: Glyphs, units: BitUnits) -> Vec<Span> {
    let cells = columns.iter().filter(|column| column.keep > PAGE).flat_map(|column| {
        let value = (column.value)(row);
        let first = column.keep == ALWAYS && column.range.is_some() && value != Value::Missing;
        let paint = |else_: Paint| if value.is_wide() { Paint::Yellow } else { else_ };
        let number = paint(if first { Paint::Bold } else { Paint::Plain }).span(value.text(glyphs, units));
        let range = column.range.filter(|keep| *keep > PAGE).map(|_| paint(Paint::Plain).span(value.range(glyphs)));
        [Some(number), range].into_iter().flatten()
    });
    cells.collect()
}

pub(crate) fn page_heads<Row: ?Sized>(columns: &[Column<Row>]) -> impl Iterator<Item = String> {
    let heads = |column: &Column<Row>| [Some(column.title), column.range.map(|_| RANGE)].into_iter().flatten();
    columns.iter().flat_map(heads).map(str::to_owned)
}

/// A row of a page.
pub(crate) fn cells<Row: ?Sized>(columns: &[Column<Row>], row: &Row, glyphs: Glyphs) -> impl Iterator<Item = Cell> {
    columns.iter().flat_map(move |column| {
        let value = (column.value)(row);
        let class = if value.is_wide() { "undecided" } else { "" };
        let range = column.range.map(|_| Cell::of(class, value.range(glyphs)));
        [Some(value.text(glyphs, BitUnits::Si).into()), range].into_iter().flatten()
    })
}

/// All columns, each once.
fn all() -> Vec<&'static CaseColumn> {
    let mut columns: Vec<&CaseColumn> = Vec::new();
    for column in [ECHO, STREAM, CALLS].into_iter().flatten() {
        if columns.iter().all(|known| known.key != column.key) {
            columns.push(column);
        }
    }
    columns
}

/// The cases of a run with what they are and all their columns, for CSV.
pub fn data(summary: &Summary) -> DataTable {
    const CASE: [&str; 8] = ["run", "case_id", "role", "path", "size_bytes", "pieces", "threads", "connections"];
    let mut table = DataTable::new(&CASE.map(|name| (name, name)));
    let columns = all();
    for column in &columns {
        table.head(column.title, column.key);
        if column.range.is_some() {
            ["low", "high"].iter().for_each(|end| table.head(*end, format!("{}_{end}", column.key)));
        }
    }
    for own in &summary.cases {
        let Case { id, role, path, threads, connections, .. } = &own.case;
        let role =
            serde_json::to_value(role).ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default();
        let what = [
            shown(&summary.name).into_owned().into(),
            Datum::count(u64::from(*id)),
            role.into(),
            shown(&path.to_string()).into_owned().into(),
            if own.case.has_size() { Datum::count(own.case.size) } else { Datum::Missing },
            if own.case.has_size() { own.case.pieces.to_string().into() } else { Datum::Missing },
            Datum::count(u64::from(*threads)),
            Datum::count(u64::from(*connections)),
        ];
        let numbers = columns.iter().flat_map(|column| {
            let ends = if column.range.is_some() { 3 } else { 1 };
            (column.value)(own).numbers().into_iter().take(ends)
        });
        table.row(what.into_iter().chain(numbers.map(|number| number.map_or(Datum::Missing, Datum::number))));
    }
    table
}

type CaseColumn = Column<CaseSummary>;

/// The column of a quantile; `P`: 99_000 is p99.
const fn quantile<const P: u32>(key: &'static str, title: &'static str, doc: &'static str) -> CaseColumn {
    let value = |case: &CaseSummary| {
        words::quantile(case, f64::from(P) / 1e5).map_or(Value::Missing, |own| Value::Quantile(own.clone()))
    };
    CaseColumn::new(key, title, doc, value).range(PAGE)
}

fn time(ns: Option<u64>) -> Value {
    ns.map_or(Value::Missing, |ns| Value::Time((ns as f64).into()))
}

/// A number of messages, where it is known.
fn counted(case: &CaseSummary, messages: u64) -> Value {
    if case.counts_messages() { Value::Count(messages) } else { Value::Missing }
}

fn of_stream(case: &CaseSummary, value: fn(&Throughput) -> Value) -> Value {
    case.throughput.as_ref().map_or(Value::Missing, value)
}

fn of_tcp(end: &EndSummary, count: fn(&TcpInfo) -> u64) -> Value {
    end.tcp.as_ref().map_or(Value::Missing, |tcp| Value::Count(count(tcp)))
}

const MESSAGES: CaseColumn =
    CaseColumn::new("messages", "messages", "Messages that were timed; of a stream those that arrived.", |case| {
        counted(case, if case.throughput.is_some() { case.delivery.received } else { case.messages })
    });
const LOST: CaseColumn = CaseColumn::new("lost", "lost", "Messages that were sent and never came.", |case| {
    counted(case, case.delivery.lost)
});

/// How long messages took.
pub const ECHO: &[CaseColumn] = &[
    CaseColumn::new("fastest_ns", "fastest", "The fastest message.", |case| time(case.latency.fastest_ns)),
    quantile::<50_000>("p50_ns", "p50", "Median: half of the messages took longer.").keep(ALWAYS).range(5),
    quantile::<90_000>("p90_ns", "p90", "One message in 10 took longer."),
    quantile::<99_000>("p99_ns", "p99", "One message in 100 took longer.").keep(ALWAYS).range(4),
    quantile::<99_900>("p99.9_ns", "p99.9", "One message in 1,000 took longer."),
    quantile::<99_990>("p99.99_ns", "p99.99", "One message in 10,000 took longer."),
    CaseColumn::new("slowest_ns", "slowest", "The slowest message that arrived.", |case| time(case.latency.slowest_ns)),
    CaseColumn::new(
        "iqr_ns",
        "IQR",
        "Interquartile range: how far the third quartile lies above the first, so that it spans half of the messages.",
        |case| case.spread.iqr_ns.clone().map_or(Value::Missing, Value::Time),
    )
    .keep(1)
    .range(PAGE),
    MESSAGES.keep(2),
    LOST.keep(3),
    CaseColumn::new("rate_per_s", "rate", "Messages a second of wall time within rounds.", |case| {
        case.rate_per_s.clone().map_or(Value::Missing, Value::Rate)
    })
    .keep(2),
];

/// How much came through.
pub const STREAM: &[CaseColumn] = &[
    CaseColumn::new("receiver_bits_per_s", "receiver", "Throughput: bytes of the receiver on its clock.", |case| {
        of_stream(case, |own| Value::Bits(own.receiver_bits.clone()))
    })
    .keep(ALWAYS)
    .range(4),
    CaseColumn::new(
        "sender_bits_per_s",
        "sender",
        "The same on the sender's clock, until the last acknowledgement or the last send call.",
        |case| of_stream(case, |own| Value::Bits(own.sender_bits.clone())),
    )
    .keep(1),
    CaseColumn::new("messages_per_s", "message rate", "Messages a second that came through.", |case| {
        if !case.counts_messages() {
            return Value::Missing;
        }
        of_stream(case, |own| Value::Rate(own.messages.clone()))
    })
    .keep(2)
    .range(PAGE),
    CaseColumn::new("of_reference", "of reference", "Share of the throughput of a bulk transfer.", |case| {
        of_stream(case, |own| own.of_reference.clone().map_or(Value::Missing, Value::Share))
    })
    .keep(3),
];

/// What became of the messages of a stream, and which calls it took: all rounds together.
pub const CALLS: &[CaseColumn] = &[
    MESSAGES.keep(ALWAYS),
    LOST.keep(2),
    CaseColumn::new("send_calls", "sends", "Send calls of the sender.", |case| {
        Value::Count(case.sender().calls.send_calls)
    })
    .keep(1),
    CaseColumn::new("recv_calls", "reads", "Read calls of the receiver.", |case| {
        Value::Count(case.receiver().calls.recv_calls)
    })
    .keep(ALWAYS),
    CaseColumn::new("recv_full", "full", "Reads that took all that was missing of the message.", |case| {
        Value::Count(case.receiver().calls.recv_full)
    })
    .keep(4),
    CaseColumn::new("recv_short", "short", "Reads that took less.", |case| {
        Value::Count(case.receiver().calls.recv_short)
    })
    .keep(5),
    CaseColumn::new("recv_empty", "empty", "Reads that took nothing.", |case| {
        Value::Count(case.receiver().calls.recv_empty)
    })
    .keep(3),
    CaseColumn::new("data_segments", "segments", "TCP segments with data that the sender sent.", |case| {
        of_tcp(case.sender(), |tcp| tcp.data_segs_out)
    })
    .keep(7),
    CaseColumn::new("retransmitted_segments", "again", "TCP segments that the sender sent again.", |case| {
        of_tcp(case.sender(), |tcp| tcp.total_retrans)
    })
    .keep(6),
];

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::fixture;

    const HEAD: &str = "# The columns of the tables of cases

Of `echo`, `stream`, their pages and `msgpath export RUN --to cases-csv`. The name in CSV has the unit: times in ns, rates a second. A column
with a range (±) has its 95 % interval beside it, in CSV as `NAME_low` and `NAME_high`. What cannot be had is empty. `--json` has the same
numbers under `cases` ([`CaseSummary`](json.md)).

";

    #[test]
    fn the_page_of_columns_is_made_of_them() {
        let mut wanted = String::from(HEAD);
        for Column { key, title, doc, range, .. } in all() {
            let range = if range.is_some() { " ±" } else { "" };
            let _ = writeln!(wanted, "* **{title}**{range} (`{key}`): {doc}");
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let file = root.join("docs/columns.md");
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(&file, wanted).unwrap();
        } else {
            let same = std::fs::read_to_string(&file).is_ok_and(|text| text == wanted);
            assert!(same, "docs/columns.md: INSTA_UPDATE=always cargo test -p msgpath-present the_page_of_columns");
        }
    }

    #[test]
    fn every_case_is_a_row_of_csv_and_what_it_lacks_is_empty() {
        for (_, summary) in [fixture::echo_sizes(), fixture::stream_sizes()] {
            let csv = data(&summary).csv();
            let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let heads = lines.next().unwrap();
            let at = |name: &str| heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}"));
            let rows: Vec<_> = lines.collect();
            assert_eq!(rows.len(), summary.cases.len());
            for (row, case) in rows.iter().zip(&summary.cases) {
                assert_eq!((row.len(), row[at("size_bytes")]), (heads.len(), case.case.size.to_string().as_str()));
                let p50 = words::quantile(case, 0.5).and_then(|own| own.ns).map_or(String::new(), |ns| ns.to_string());
                assert_eq!(row[at("p50_ns")], p50);
                let low = case.throughput.as_ref().and_then(|own| own.receiver_bits.low);
                assert_eq!(row[at("receiver_bits_per_s_low")].parse().ok(), low);
            }
        }
    }
}
