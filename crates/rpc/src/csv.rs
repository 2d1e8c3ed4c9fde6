//! Calls of any program as CSV: a line with the names of the columns, then one line a call.
//!
//! | column | what |
//! |---|---|
//! | `t1` | request sent. The only one that must be there |
//! | `t2`, `t3`, `t4` | request received, reply sent, reply received; empty or 0: not known |
//! | `method` | kind of call |
//! | `rpcid` (or `id`), `parent` | numbers |
//! | `status` | a number, or `Success`, `Fail`, `TooBusy`; empty: success. [`Rows::speaks_http`]: codes of HTTP |
//! | `request_bytes`, `reply_bytes` | lengths |
//! | `client`, `server` | the machines |
//! | `connection`, `key` | any text |
//!
//! Samples of JMeter (JTL) are known by `timeStamp` and `elapsed`, both in ms: `label` is the method, `threadName` the connection,
//! `sentBytes` and `bytes` are the lengths; `success` decides, and `responseCode` is the status of what failed. A full log of
//! sockperf is known by the head of its messages, which stands behind its statistics.
//!
//! A stamp is a decimal number. Its unit stands in the name of its column (`t1_ns`, `t1_us`, `t1_ms`, `t1_s`); without
//! one it is µs, as in the lab; one that would be a date of our time in another unit is refused. Stamps count from 1970, or from any moment that is the same for `t1` and `t4`. Columns are
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

/// Who wrote calls as a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Any program, with columns of ours.
    Any,
    /// JMeter: samples (JTL as CSV).
    Jmeter,
    /// `sockperf --full-log`.
    Sockperf,
}

/// Where a table of calls begins in a file, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Byte at which the line with the names of the columns begins.
    pub at: usize,
    /// What columns are separated by.
    pub delimiter: u8,
    /// Who wrote it.
    pub writer: Writer,
}

/// The head of the messages in a full log of sockperf, behind its statistics.
const SOCKPERF: &[u8] = b"\npacket, txTime(sec), rxTime(sec)";

/// The table of a file that begins so, if its first line is a list of columns with `t1` among them, or those of a known program.
pub fn table(begin: &[u8]) -> Option<Table> {
    let whole = begin;
    let begin = begin.strip_prefix("\u{feff}".as_bytes()).unwrap_or(begin);
    let line = std::str::from_utf8(begin.split(|byte| *byte == b'\n').next()?).ok();
    let of = |by: u8, line: &str| {
        let names = || line.split(char::from(by));
        if names().any(|name| stamp(name).is_some_and(|(at, _)| at == 0)) {
            return Some(Writer::Any);
        }
        let has = |column| names().any(|name| sample(name) == column);
        (has(Column::Began) && has(Column::Took)).then_some(Writer::Jmeter)
    };
    let found = line.and_then(|line| b",;\t".iter().find_map(|by| Some((*by, of(*by, line)?))));
    if let Some((delimiter, writer)) = found {
        return Some(Table { at: 0, delimiter, writer });
    }
    let at = whole.windows(SOCKPERF.len()).position(|window| window == SOCKPERF)?;
    Some(Table { at: at + 1, delimiter: b',', writer: Writer::Sockperf })
}

/// Number from 0 and unit (ns) of a column of stamps; `None`: it names no unit.
fn stamp(name: &str) -> Option<(usize, Option<i64>)> {
    let name = name.trim().trim_matches('"').to_ascii_lowercase();
    let (name, unit) = name.split_once('_').map_or((name.as_str(), None), |(name, unit)| (name, Some(unit)));
    let at = ["t1", "t2", "t3", "t4"].iter().position(|stamp| *stamp == name)?;
    let Some(unit) = unit else { return Some((at, None)) };
    let unit = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    Some((at, Some(unit.1)))
}

/// Units of stamps, ns.
const UNITS: [(&str, i64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// A millisecond, the unit of JMeter.
const MS: i64 = 1_000_000;
/// The unit of a column that names none.
const UNNAMED: i64 = 1_000;
/// Seconds since 1970 from 1990 to 2100.
const OUR_TIME: std::ops::Range<i64> = 631_152_000..4_102_444_800;

/// Why a stamp of a column that names no unit is not in µs: it would be long ago, and is a date of our time in the other unit.
fn other_unit(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let unit = match fraction.len() {
        // Nobody writes less than a ns.
        4.. if OUR_TIME.contains(&whole) => "s",
        _ if OUR_TIME.contains(&(whole / 1_000)) => "ms",
        _ if OUR_TIME.contains(&(whole / 1_000_000_000)) => "ns",
        _ => return None,
    };
    Some(format!(
        "{text} is a date of our time in {unit}, not in µs: name the unit in the first line, t1_{unit} or t1_us"
    ))
}

/// Lines of a file.
pub struct Rows<R> {
    lines: csv::Reader<R>,
    columns: Vec<Column>,
    record: csv::StringRecord,
    /// Smallest step of the client's stamps and of the server's, ns, as their digits tell so far.
    pub steps: [u64; 2],
    /// A column of stamps names no unit.
    pub unnamed: bool,
    /// Statuses so far that are codes of HTTP, and that are not.
    codes: [u64; 2],
    writer: Writer,
}

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Stamp(usize, Option<i64>),
    Method,
    Id,
    Parent,
    Status,
    Bytes(usize),
    Client,
    Server,
    Connection,
    Key,
    /// Of JMeter: T1 and T4 - T1 in ms, the code of the reply, whether it is a success.
    Began,
    Took,
    Code,
    Success,
    Other,
}

impl<R: Read> Rows<R> {
    /// Reads the names of the columns.
    ///
    /// # Errors
    /// No `t1` among them, or no CSV.
    pub fn new(input: R, Table { delimiter, writer, .. }: Table) -> Result<Self, CsvError> {
        let mut lines =
            csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).flexible(true).from_reader(input);
        let head = lines.headers()?;
        let names = || head.iter().map(|name| name.trim_start_matches('\u{feff}'));
        let columns: Vec<Column> = match writer {
            Writer::Any => names().map(column).collect(),
            Writer::Jmeter => names().map(sample).collect(),
            Writer::Sockperf => names().map(packet).collect(),
        };
        if writer == Writer::Any && !columns.iter().any(|column| matches!(column, Column::Stamp(0, _))) {
            return Err(CsvError::NoStamps);
        }
        let unnamed = columns.iter().any(|column| matches!(column, Column::Stamp(_, None)));
        Ok(Self {
            lines,
            columns,
            record: csv::StringRecord::new(),
            steps: [u64::MAX; 2],
            unnamed,
            codes: [0; 2],
            writer,
        })
    }

    /// Whether every status so far is a code of HTTP: one below 400 is success.
    pub fn speaks_http(&self) -> bool {
        self.codes[0] > 0 && self.codes[1] == 0
    }

    fn row(&mut self) -> Result<Row, String> {
        let mut row = Row::default();
        let (mut took, mut succeeded, mut code) = (None, None, 0);
        for (column, cell) in self.columns.iter().zip(&self.record) {
            let number = || match cell {
                "" => Ok(None),
                _ => cell.parse::<u64>().map(Some).map_err(|_| format!("{cell:?} is not a whole number")),
            };
            let small =
                || number().and_then(|n| u32::try_from(n.unwrap_or(0)).map_err(|_| format!("{cell} is too large")));
            match *column {
                Column::Stamp(at, unit) => {
                    if let Some(why) = other_unit(cell).filter(|_| unit.is_none()) {
                        return Err(why);
                    }
                    let unit = unit.unwrap_or(UNNAMED);
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
                    self.codes[usize::from(!(100..600).contains(&row.status))] += 1;
                }
                Column::Bytes(at) => row.bytes[at] = number()?,
                Column::Client => text_of_cell(cell).clone_into(&mut row.client),
                Column::Server => text_of_cell(cell).clone_into(&mut row.server),
                Column::Connection => text_of_cell(cell).clone_into(&mut row.connection),
                Column::Key => text_of_cell(cell).clone_into(&mut row.key),
                Column::Began | Column::Took => {
                    let known = decimal(cell, MS).ok_or_else(|| format!("{cell:?} is not a time in ms"))?;
                    let ns = known.map(|(ns, _)| ns);
                    if *column == Column::Began {
                        row.t[0] = ns
                    } else {
                        took = ns
                    }
                    self.steps[0] = MS as u64;
                }
                Column::Code => code = cell.parse().unwrap_or(0),
                Column::Success => succeeded = Some(cell.eq_ignore_ascii_case("true")),
                Column::Other => {}
            }
        }
        if self.writer == Writer::Jmeter {
            row.t[3] = row.t[0].zip(took).map(|(began, took)| began + took);
            row.status = if succeeded.unwrap_or(true) { 0 } else { u32::max(code, 1) };
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

/// A column of sockperf.
fn packet(name: &str) -> Column {
    match name {
        "txTime(sec)" => Column::Stamp(0, Some(1_000_000_000)),
        "rxTime(sec)" => Column::Stamp(3, Some(1_000_000_000)),
        _ => Column::Other,
    }
}

/// A column of JMeter.
fn sample(name: &str) -> Column {
    match name.trim().trim_matches('"').to_ascii_lowercase().as_str() {
        "timestamp" => Column::Began,
        "elapsed" => Column::Took,
        "label" => Column::Method,
        "responsecode" => Column::Code,
        "success" => Column::Success,
        "sentbytes" => Column::Bytes(0),
        "bytes" => Column::Bytes(1),
        "threadname" => Column::Connection,
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
        // A line closes the table of sockperf; those of other servers, and a histogram, may follow.
        if self.writer == Writer::Sockperf && self.record.get(0).is_some_and(|cell| cell.starts_with("--")) {
            return None;
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
        let table = table(text.as_bytes()).ok_or(CsvError::NoStamps)?;
        let mut rows = Rows::new(&text.as_bytes()[table.at..], table)?;
        let all = rows.by_ref().collect::<Result<Vec<Row>, CsvError>>()?;
        Ok((all, rows.steps))
    }

    #[test]
    fn samples_of_jmeter_are_calls() {
        let text = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,sentBytes,Latency,Connect\n\
                    1700000000123,20,home,200,OK,t 1-1,true,1000,100,18,5\n\
                    1700000000150,7,home,404,\"Not, found\",t 1-2,false,300,100,7,0\n\
                    1700000000160,3,home,Non HTTP response code: java.net.ConnectException,x,t 1-2,false,0,0,0,3\n";
        let (rows, steps) = read(text).unwrap();
        let told: Vec<_> = rows.iter().map(|row| (row.t[3].unwrap() - row.t[0].unwrap(), row.status)).collect();
        assert_eq!(told, [(20_000_000, 0), (7_000_000, 404), (3_000_000, 1)]);
        assert_eq!(rows[0].t[0], Some(1_700_000_000_123_000_000));
        assert_eq!(
            (rows[0].method.as_str(), rows[0].connection.as_str(), rows[0].bytes),
            ("home", "t 1-1", [Some(100), Some(1000)])
        );
        assert_eq!((steps[0], table(b"timeStamp,label\n")), (1_000_000, None));
    }

    #[test]
    fn messages_of_sockperf_are_calls() {
        let text = "sockperf: == version #3.10 ==\nsockperf: [Valid Duration] RunTime=0.5 sec\n------------------------------\n\
                    packet, txTime(sec), rxTime(sec), latency(usec)\n\
                    0, 73703.403575001, 73703.403595003, 10.001\n1, 73703.404575000, 73703.404605000, 15.000\n\
                    ------------------------------\nhistogram\n";
        let (rows, steps) = read(text).unwrap();
        let took: Vec<_> = rows.iter().map(|row| row.t[3].unwrap() - row.t[0].unwrap()).collect();
        assert_eq!((took, rows[0].t[0], steps[0]), (vec![20_002, 30_000], Some(73_703_403_575_001), 1));
    }

    #[test]
    fn a_date_in_another_unit_is_refused() {
        for (cell, unit) in
            [("1795705730123", "t1_ms"), ("1795705730.123456", "t1_s"), ("1795705730123456789", "t1_ns")]
        {
            let why = read(&format!("t1,t4\n{cell},{cell}\n")).unwrap_err().to_string();
            assert!(why.contains("line 2") && why.contains(unit), "{why}");
            assert!(read(&format!("{unit}\n{cell}\n")).is_ok(), "{cell}");
        }
        // µs of our time, since the start of a machine, and since any moment.
        for cell in ["1795705730123456", "1795705730", "1795705730.123", "100", "0"] {
            assert!(read(&format!("t1,t4\n{cell},{cell}\n")).is_ok(), "{cell}");
        }
        let unnamed = |head: &str| Rows::new(head.as_bytes(), table(head.as_bytes()).unwrap()).unwrap().unnamed;
        assert!(unnamed("t1_ms,t4\n") && !unnamed("t1_ms,t4_ms\n"));
    }

    #[test]
    fn codes_of_http_are_told_from_other_statuses() {
        let http = |cells: &str| {
            let text = format!(
                "t1,status\n{}\n",
                cells.split(' ').map(|cell| format!("1,{cell}")).collect::<Vec<_>>().join("\n")
            );
            let mut rows = Rows::new(text.as_bytes(), table(text.as_bytes()).unwrap()).unwrap();
            assert!(rows.by_ref().all(|row| row.is_ok()), "{cells}");
            rows.speaks_http()
        };
        assert!(http("200 404 301") && !http("200 0") && !http("0 1") && !http("7") && !http("200 Success"));
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
        assert!(table(b"t1\tt2\n").is_some() && table(b"t2,t3\n").is_none() && table(b"").is_none());
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
