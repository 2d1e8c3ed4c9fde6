//! Calls of any program as CSV: a line with the names of the columns, then one line a call.
//!
//! | column | what |
//! |---|---|
//! | `t1` | request sent. The only one that must be there |
//! | `t2`, `t3`, `t4` | request received, reply sent, reply received; empty or 0: not known |
//! | `method` | kind of call |
//! | `rpcid` (or `id`), `parent` | numbers |
//! | `status` | a number, or `Success`, `Fail`, `TooBusy`; empty: success |
//! | `request_bytes`, `reply_bytes` | lengths |
//! | `client`, `server` | the machines |
//! | `connection`, `key` | any text |
//!
//! A stamp is a decimal number. Its unit stands in the name of its column (`t1_ns`, `t1_us`, `t1_ms`, `t1_s`); without
//! one it is µs, as in the lab. Stamps count from 1970, or from any moment that is the same for `t1` and `t4`. Columns are
//! in any order, in any case, separated by comma, semicolon or tab; others are not looked at. An apostrophe before a text that
//! begins with `=`, `+`, `-` or `@` keeps a spreadsheet from computing it, and is not part of the text.

use std::io::Read;

use msgpath_core::foreign::text_of_cell;

use crate::message::Status;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// T1 to T4, ns; `None`: not known. T1 is always there.
    pub t: [Option<i64>; 4],
    /// Kind of call; empty without such a column.
    pub method: String,
    /// Id.
    pub rpcid: u32,
    /// Id of the call that made it.
    pub parent: u32,
    /// Status; 0: success.
    pub status: u32,
    /// Bytes of request and reply.
    pub bytes: [Option<u64>; 2],
    /// The machines; empty: not known.
    pub client: String,
    /// See `client`.
    pub server: String,
    /// Connection; empty: not known.
    pub connection: String,
    /// Key.
    pub key: String,
}

/// Why a file is none of this form.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The first line names no `t1`.
    #[error("its first line names no column t1")]
    NoStamps,
    /// A cell that is not what it should be.
    #[error("line {line} (byte {offset}): {why}")]
    Cell {
        /// From 1.
        line: u64,
        /// Of its begin.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// It cannot be read, or is not CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// What a file is separated by, if its first line is a list of columns with `t1` among them.
pub fn delimiter(first: &[u8]) -> Option<u8> {
    let first = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(first);
    let line = first.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    b",;\t"
        .iter()
        .copied()
        .find(|by| line.split(char::from(*by)).any(|name| stamp(name).is_some_and(|(at, _)| at == 0)))
}

/// Number from 0 and unit (ns) of a column of stamps.
fn stamp(name: &str) -> Option<(usize, i64)> {
    let name = name.trim().trim_matches('"').to_ascii_lowercase();
    let (name, unit) = name.split_once('_').unwrap_or((&name, "us"));
    let at = ["t1", "t2", "t3", "t4"].iter().position(|stamp| *stamp == name)?;
    let unit = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
        .into_iter()
        .find(|(name, _)| *name == unit)?;
    Some((at, unit.1))
}

/// Lines of a file.
pub struct Rows<R> {
    lines: csv::Reader<R>,
    columns: Vec<Column>,
    record: csv::StringRecord,
    /// Smallest step of the client's stamps and of the server's, ns, as their digits tell so far.
    pub steps: [u64; 2],
}

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Stamp(usize, i64),
    Method,
    Id,
    Parent,
    Status,
    Bytes(usize),
    Client,
    Server,
    Connection,
    Key,
    Other,
}

impl<R: Read> Rows<R> {
    /// Reads the names of the columns.
    ///
    /// # Errors
    /// No `t1` among them, or no CSV.
    pub fn new(input: R, delimiter: u8) -> Result<Self, CsvError> {
        let mut lines =
            csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).flexible(true).from_reader(input);
        let columns: Vec<Column> =
            lines.headers()?.iter().map(|name| column(name.trim_start_matches('\u{feff}'))).collect();
        if !columns.iter().any(|column| matches!(column, Column::Stamp(0, _))) {
            return Err(CsvError::NoStamps);
        }
        Ok(Self { lines, columns, record: csv::StringRecord::new(), steps: [u64::MAX; 2] })
    }

    fn row(&mut self) -> Result<Row, String> {
        let mut row = Row::default();
        for (column, cell) in self.columns.iter().zip(&self.record) {
            let number = || match cell {
                "" => Ok(None),
                _ => cell.parse::<u64>().map(Some).map_err(|_| format!("{cell:?} is not a whole number")),
            };
            let small =
                || number().and_then(|n| u32::try_from(n.unwrap_or(0)).map_err(|_| format!("{cell} is too large")));
            match *column {
                Column::Stamp(at, unit) => {
                    let known = decimal(cell, unit).ok_or_else(|| format!("T{} of {cell:?} is not a time", at + 1))?;
                    row.t[at] = known.map(|(ns, _)| ns).filter(|ns| at == 0 || *ns != 0);
                    if let Some((_, step)) = known {
                        let end = usize::from(at == 1 || at == 2);
                        // A clock of whole µs whose stamps are written in ns still ticks in µs.
                        let ticks = if known.is_some_and(|(ns, _)| ns % 1_000 == 0) { 1_000 } else { 1 };
                        self.steps[end] = self.steps[end].min(step.max(ticks));
                    }
                }
                Column::Method => text_of_cell(cell).clone_into(&mut row.method),
                Column::Id => row.rpcid = small()?,
                Column::Parent => row.parent = small()?,
                Column::Status => {
                    let named = [Status::SUCCESS, Status::FAIL, Status::TOO_BUSY];
                    let named = named.into_iter().find(|status| status.name().eq_ignore_ascii_case(cell));
                    row.status = named.map_or_else(small, |status| Ok(status.0))?;
                }
                Column::Bytes(at) => row.bytes[at] = number()?,
                Column::Client => text_of_cell(cell).clone_into(&mut row.client),
                Column::Server => text_of_cell(cell).clone_into(&mut row.server),
                Column::Connection => text_of_cell(cell).clone_into(&mut row.connection),
                Column::Key => text_of_cell(cell).clone_into(&mut row.key),
                Column::Other => {}
            }
        }
        if row.t[0].is_none() { Err("T1 is empty".into()) } else { Ok(row) }
    }
}

fn column(name: &str) -> Column {
    if let Some((at, unit)) = stamp(name) {
        return Column::Stamp(at, unit);
    }
    match name.to_ascii_lowercase().as_str() {
        "method" => Column::Method,
        "rpcid" | "id" => Column::Id,
        "parent" => Column::Parent,
        "status" => Column::Status,
        "request_bytes" => Column::Bytes(0),
        "reply_bytes" => Column::Bytes(1),
        "client" => Column::Client,
        "server" => Column::Server,
        "connection" => Column::Connection,
        "key" => Column::Key,
        _ => Column::Other,
    }
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<Row, CsvError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.read_record(&mut self.record) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(error.into())),
        }
        let place = self.record.position().map_or((0, 0), |place| (place.line(), place.byte()));
        Some(self.row().map_err(|why| CsvError::Cell { line: place.0, offset: place.1, why }))
    }
}

/// A decimal number of `unit` ns as whole ns, and the value of its last digit, ns (1 at least). `Some(None)`: an empty
/// cell; `None`: no number, or one beyond ±2^61 ns.
fn decimal(text: &str, unit: i64) -> Option<Option<(i64, u64)>> {
    if text.is_empty() || text == "-" {
        return Some(None);
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return None;
    }
    let mut ns = whole.parse::<i64>().ok()?.checked_mul(unit)?;
    let mut step = unit;
    for digit in fraction.bytes() {
        step /= 10;
        ns = ns.checked_add(i64::from(digit - b'0') * step)?;
    }
    let ns = if negative { -ns } else { ns };
    (ns.unsigned_abs() < 1 << 61).then_some(Some((ns, step.max(1) as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<(Vec<Row>, [u64; 2]), CsvError> {
        let delimiter = delimiter(text.as_bytes()).ok_or(CsvError::NoStamps)?;
        let mut rows = Rows::new(text.as_bytes(), delimiter)?;
        let all = rows.by_ref().collect::<Result<Vec<Row>, CsvError>>()?;
        Ok((all, rows.steps))
    }

    #[test]
    fn columns_in_any_order_with_their_units() {
        let (rows, steps) = read(
            "Method, T4_us ,t1_s,t2_ms,T3,status,key,client,other\n\
             write,1700000000123456,1700000000.123400,1700000000123.41,1700000000123420,fail,\"a,b\",h1,x\n\
             read,,1700000001.5,,0,,,,\n",
        )
        .unwrap();
        let base = 1_700_000_000_123_400_000;
        assert_eq!(rows[0].t, [Some(base), Some(base + 10_000), Some(base + 20_000), Some(base + 56_000)]);
        assert_eq!((rows[0].status, rows[0].key.as_str(), rows[0].client.as_str()), (1, "a,b", "h1"));
        assert_eq!(rows[1].t, [Some(1_700_000_001_500_000_000), None, None, None]);
        assert_eq!((rows[1].status, rows[1].method.as_str()), (0, "read"));
        assert_eq!(steps, [1_000, 1_000]);
    }

    #[test]
    fn other_separators_a_mark_at_the_front_and_relative_times() {
        let (rows, steps) = read("\u{feff}t1_ns;t4_ns;rpcid;request_bytes\r\n0;12;7;100\r\n-5;3;8;\r\n").unwrap();
        assert_eq!((rows[0].t, rows[0].rpcid, rows[0].bytes), ([Some(0), None, None, Some(12)], 7, [Some(100), None]));
        assert_eq!(rows[1].t[0], Some(-5));
        assert_eq!(steps, [1, u64::MAX]);
        let text = "t1_ns,t2_ns,t3_ns,t4_ns\n1234567,1240000,1241000,1250001\n2234567,2240000,2241000,2250001\n";
        assert_eq!(read(text).unwrap().1, [1, 1_000], "the server's stamps are whole µs, written in ns");
        assert!(delimiter(b"t1\tt2\n").is_some() && delimiter(b"t2,t3\n").is_none() && delimiter(b"").is_none());
    }

    #[test]
    fn what_is_no_number_is_named_with_its_line() {
        for (text, part) in [
            ("t1,t4\n1,2\nx,3\n", "line 3"),
            ("t1,t4\n,3\n", "T1 is empty"),
            ("t1,rpcid\n1,-3\n", "whole number"),
            ("t1,rpcid\n1,4294967296\n", "too large"),
            ("t1,status\n1,nice\n", "nice"),
            ("t1_s\n99999999999999999999\n", "not a time"),
            ("t1\n1e3\n", "not a time"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(matches!(read("a,b\n1,2\n"), Err(CsvError::NoStamps)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(t1|t2|x|\"|,|;|\n|[0-9.-]{0,20}){0,30}", first in any::<bool>()) {
            let _ = read(&if first { format!("t1,t4_s,status\n{text}") } else { text });
        }

        #[test]
        fn decimals(whole in 0_i64..1_000_000_000, fraction in 0_i64..1_000_000) {
            let text = format!("{whole}.{fraction:06}");
            let expected = whole * 1_000_000_000 + fraction * 1_000;
            prop_assert_eq!(decimal(&text, 1_000_000_000), Some(Some((expected, 1_000))));
            prop_assert_eq!(decimal(&format!("-{text}"), 1_000_000_000), Some(Some((-expected, 1_000))));
        }
    }
}
