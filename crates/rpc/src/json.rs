//! The JSON of the lab's viewer: written so that every reader takes it, and read as the lab's tool writes it, which is
//! not always JSON.
//!
//! One line an event: `[ t1, t2, t3, t4, "client", "server", lg1, lg2, rpcid, parent, "type", "method", "status", length,
//! "data"],` with times in seconds since a base minute. Stamps are as they were recorded. One that is not known is drawn
//! where the one before it is, and such an event has a sixteenth element that names it: `"not known: T2 T3"`.

use std::fmt::Write;

use msgpath_core::calendar;
use msgpath_core::foreign::shown_json;
use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};

use crate::log::{DATA_BYTES, Record};
use crate::message::{Header, Kind, Method, Status};

/// The last lines of the file.
pub const FOOTER: &str = "[999.0, 0.0, 0.0, 0.0, \"\", \"\", 0.0, 0.0, 0, 0, \"\", \"\", \"\", 0, \"\"]\n]}\n";
const MINUTE: i64 = 60_000_000;

/// Times are written relative to this: the minute in which `t1_us` lies.
pub fn base_of(t1_us: i64) -> i64 {
    t1_us.div_euclid(MINUTE) * MINUTE
}

/// The first lines of the file. `tracebase` is in UTC. A file of more than 999 s says that it is sorted already, because
/// the lab's tool compares the first four characters of a line.
pub fn header(title: &str, base_us: i64, last_us: i64) -> String {
    let title = serde_json::to_string(title).expect("a text");
    let title = shown_json(&title);
    let sorted = if last_us - base_us < 999_000_000 { "" } else { " \"presorted\" : 1,\n" };
    format!(
        "  {{\n \"Comment\" : \"V4 flat RPCs\",\n \"axisLabelX\" : \"Time (sec)\",\n \"axisLabelY\" : \"RPC Number\",\n \
         \"deltaT23\" : 0,\n \"flags\" : 0,\n \"gbs\" : 1,\n{sorted} \"shortMulX\" : 1,\n \"shortUnitsX\" : \"s\",\n \
         \"thousandsX\" : 1000,\n \"title\" : {title},\n \"tracebase\" : \"{}\",\n \"version\" : 4,\n\"events\" : [\n",
        date(base_us)
    )
}

/// `2023-11-14_22:13:00`, UTC.
fn date(us: i64) -> String {
    let ((year, month, day), (hour, minute, second)) = calendar::date_and_time(us.div_euclid(1_000_000));
    format!("{year:04}-{month:02}-{day:02}_{hour:02}:{minute:02}:{second:02}")
}

/// µs of such a date; `None`: it is none.
fn of_date(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('_')?;
    let numbers = |text: &str, by| -> Option<[i64; 3]> {
        let numbers: Vec<i64> =
            text.split(by).map(|part| part.parse::<u16>().ok().map(i64::from)).collect::<Option<_>>()?;
        numbers.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    let fits = (1970..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(((calendar::days(year, month, day) * 24 + hour) * 60 + minute) * MINUTE + second * 1_000_000)
}

/// The line of one record, with the line feed. Its T1 must be known.
pub fn event(record: &Record, base_us: i64) -> String {
    let header = &record.header;
    let mut line = String::with_capacity(200);
    let (mut last, mut unknown) = (header.t[0], String::new());
    for (at, t) in header.t.into_iter().enumerate() {
        if t == 0 {
            let _ = write!(unknown, " T{}", at + 1);
        } else {
            last = t;
        }
        line += if at == 0 { "[" } else { ", " };
        put_seconds(&mut line, last - base_us);
    }
    let kind = record.kind();
    let method = String::from_utf8_lossy(header.method.bytes());
    let method = if method.is_empty() { "unknown".into() } else { shown(method.as_bytes()) };
    let _ = write!(
        line,
        ", \"{}\", \"{}\", {}, {}, {}, {}, \"{:<8}\", \"{method}\", \"{}\", {}, \"{}\"",
        address(header.client_ip),
        address(header.server_ip),
        tenths(header.lglen1),
        tenths(header.lglen2),
        header.rpcid,
        header.parent,
        kind.name(),
        status(header.status),
        record.length,
        shown(&record.data),
    );
    if !unknown.is_empty() {
        let _ = write!(line, ", \"not known:{unknown}\"");
    }
    line += "],\n";
    line
}

/// `%3d.%06d`, with one sign.
fn put_seconds(out: &mut String, us: i64) {
    let sign = if us < 0 { "-" } else { "" };
    let whole = format!("{sign}{}", us.unsigned_abs() / 1_000_000);
    let _ = write!(out, "{whole:>3}.{:06}", us.unsigned_abs() % 1_000_000);
}

fn tenths(lg: u8) -> String {
    format!("{}.{}", lg / 10, lg % 10)
}

fn address(ip: u32) -> String {
    if ip == 0 { "unk:unk".into() } else { std::net::Ipv4Addr::from(ip).to_string() }
}

/// Eight characters; unknown ones are as long as they are.
fn status(status: u32) -> String {
    format!("{:<width$}", Status(status).name(), width = if status > 2 { 0 } else { 8 })
}

/// Bytes as the lab shows them, with a dot for what cannot be printed; here also for what neither JSON nor the lab's page
/// (which puts the whole file between single quotes of JavaScript) can hold.
fn shown(bytes: &[u8]) -> String {
    let plain = |byte: &u8| (0x21..0x7f).contains(byte) && !b"\"'\\".contains(byte);
    bytes.iter().map(|byte| if plain(byte) { *byte as char } else { '.' }).collect()
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub title: String,
    /// The base minute, µs since 1970, its date read as UTC (the lab writes local time and does not say which); `None`:
    /// there is none, so that all times are relative.
    pub base_us: Option<i64>,
    /// Seconds that a viewer was told to add to T2 and T3. They are not added here.
    pub delta_t23: f64,
    /// The events as records: stamps in µs since 1970, 0 where not known. Ports are not in the file; `data` is as printed,
    /// dots and all.
    pub records: Vec<Record>,
    /// It was no JSON and was read line by line.
    pub repaired: bool,
}

/// Why bytes are no such file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// There is no list of events.
    #[error("it has no \"events\"")]
    NoEvents,
    /// One event is none.
    #[error("line {line} (byte {offset}): {why}")]
    Event {
        /// From 1; 0: not known.
        line: usize,
        /// Of its begin.
        offset: u64,
        /// What is wrong.
        why: String,
    },
}

/// Reads a file, strictly if it is JSON, otherwise line by line as the lab's tool writes them: negative fractions
/// (`-2.-576088`), any bytes and quotes in the data.
///
/// # Errors
/// [`JsonError`].
pub fn read(bytes: &[u8]) -> Result<Document, JsonError> {
    if let Ok(strict) = serde_json::from_slice::<Strict>(bytes) {
        let base_us = strict.tracebase.as_deref().and_then(of_date);
        let mut document = Document {
            title: strict.title,
            base_us,
            delta_t23: strict.delta_t23,
            records: Vec::with_capacity(strict.events.len()),
            repaired: false,
        };
        for (at, event) in strict.events.into_iter().enumerate() {
            let place = |why: String| JsonError::Event { line: 0, offset: 0, why: format!("event {}: {why}", at + 1) };
            document.records.extend(event.record(base_us.unwrap_or(0)).map_err(place)?);
        }
        return Ok(document);
    }
    read_lines(bytes)
}

#[derive(Deserialize)]
struct Strict {
    #[serde(default)]
    title: String,
    tracebase: Option<String>,
    #[serde(default, rename = "deltaT23")]
    delta_t23: f64,
    events: Vec<Event>,
}

/// The elements of an event.
#[derive(Clone, Debug, Default)]
struct Event {
    /// µs since the base.
    t: [Option<i64>; 4],
    client: String,
    server: String,
    lg: [f64; 2],
    rpcid: u32,
    parent: u32,
    kind: String,
    method: String,
    status: String,
    length: u32,
    data: Vec<u8>,
    /// The sixteenth element.
    unknown: String,
}

impl Event {
    /// `None`: the row that ends the file, or one that another program put between.
    fn record(self, base_us: i64) -> Result<Option<Record>, String> {
        if self.kind.is_empty() && self.method.is_empty() {
            return Ok(None);
        }
        let kind = [Kind::ReqSend, Kind::ReqRcv, Kind::RespSend, Kind::RespRcv, Kind::Text]
            .into_iter()
            .find(|kind| kind.name() == self.kind.trim())
            .ok_or_else(|| format!("{:?} is not a type of an event", self.kind))?;
        // What the tool invents for a record is dropped: a request has no later stamps.
        let stamps = match kind {
            Kind::ReqSend => 1,
            Kind::ReqRcv => 2,
            Kind::RespSend => 3,
            Kind::RespRcv | Kind::Text => 4,
        };
        let mut t = [0; 4];
        for (at, stamp) in self.t.into_iter().enumerate().take(stamps) {
            let us = stamp.ok_or_else(|| format!("T{} is not a time", at + 1))?;
            let marked = self.unknown.contains(&format!("T{}", at + 1));
            // A missing stamp is 0 of 1970 in the tool's raw form, give or take the time zone.
            let missing = base_us != 0 && (base_us + us).abs() < 86_400_000_000;
            t[at] = if marked || missing { 0 } else { base_us + us };
        }
        if t[0] == 0 && base_us != 0 {
            return Err("T1 is not known".into());
        }
        let mut data = [0; DATA_BYTES];
        let length = self.data.len().min(DATA_BYTES);
        data[..length].copy_from_slice(&self.data[..length]);
        let header = Header {
            rpcid: self.rpcid,
            parent: self.parent,
            t,
            client_ip: address_of(&self.client)?,
            server_ip: address_of(&self.server)?,
            lglen1: lg_of(self.lg[0])?,
            lglen2: lg_of(self.lg[1])?,
            kind: kind as u16,
            method: Method::new(if self.method == "unknown" { "" } else { &self.method }),
            status: status_of(&self.status)?,
            ..Header::default()
        };
        Ok(Some(Record { header, length: self.length, data }))
    }
}

fn address_of(text: &str) -> Result<u32, String> {
    match text {
        "unk:unk" | "" => Ok(0),
        _ => text.parse::<std::net::Ipv4Addr>().map(u32::from).map_err(|_| format!("{text:?} is not an address")),
    }
}

fn lg_of(value: f64) -> Result<u8, String> {
    let tenths = (value * 10.0).round();
    if (0.0..=255.0).contains(&tenths) {
        Ok(tenths as u8)
    } else {
        Err(format!("{value} is not a logarithm of a length"))
    }
}

fn status_of(text: &str) -> Result<u32, String> {
    match text.trim() {
        "Success" => Ok(0),
        "Fail" => Ok(1),
        "TooBusy" => Ok(2),
        other => other
            .strip_prefix("ERROR_")
            .and_then(|number| number.parse().ok().or_else(|| number.parse::<i32>().ok().map(|number| number as u32)))
            .ok_or_else(|| format!("{text:?} is not a status")),
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Event;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event of 15 elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Event, A::Error> {
                fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A) -> Result<T, A::Error> {
                    seq.next_element()?.ok_or_else(|| serde::de::Error::custom("an event of fewer than 15 elements"))
                }
                let mut event = Event::default();
                for t in &mut event.t {
                    let seconds: Option<f64> = next(&mut seq)?;
                    *t = seconds.map(|seconds| seconds * 1e6).filter(|us| us.abs() < 9e15).map(|us| us.round() as i64);
                }
                (event.client, event.server) = (next(&mut seq)?, next(&mut seq)?);
                event.lg = [next(&mut seq)?, next(&mut seq)?];
                (event.rpcid, event.parent) = (next(&mut seq)?, next(&mut seq)?);
                (event.kind, event.method, event.status) = (next(&mut seq)?, next(&mut seq)?, next(&mut seq)?);
                event.length = next(&mut seq)?;
                event.data = next::<String, A>(&mut seq)?.into_bytes();
                event.unknown =
                    seq.next_element::<serde_json::Value>()?.and_then(|v| Some(v.as_str()?.into())).unwrap_or_default();
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(event)
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

fn read_lines(bytes: &[u8]) -> Result<Document, JsonError> {
    let mut document = Document { repaired: true, ..Document::default() };
    let (mut offset, mut among_events) = (0, false);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let begin = offset;
        offset += line.len() as u64 + 1;
        let text = line.trim_ascii();
        if !among_events {
            let text = String::from_utf8_lossy(text);
            let value =
                |name: &str| Some(text.strip_prefix(name)?.trim().strip_prefix(':')?.trim().trim_end_matches(','));
            let unquoted = |value: &str| value.trim_matches('"').to_owned();
            if let Some(title) = value("\"title\"") {
                document.title = unquoted(title);
            } else if let Some(date) = value("\"tracebase\"") {
                document.base_us = of_date(&unquoted(date));
            } else if let Some(delta) = value("\"deltaT23\"") {
                document.delta_t23 = delta.parse().unwrap_or(0.0);
            }
            // Several files that were sorted together have several headers, one after the other.
            among_events = text.starts_with("\"events\"");
            continue;
        }
        let Some(inner) = text.strip_prefix(b"[") else { continue };
        let inner = inner.strip_suffix(b",").unwrap_or(inner).trim_ascii_end();
        let place = |why: String| JsonError::Event { line: at + 1, offset: begin, why };
        let inner = inner.strip_suffix(b"]").ok_or_else(|| place("an event that does not end with ]".into()))?;
        let event = event_of_line(inner).map_err(place)?;
        document.records.extend(event.record(document.base_us.unwrap_or(0)).map_err(place)?);
    }
    if among_events { Ok(document) } else { Err(JsonError::NoEvents) }
}

/// What stands between the brackets of a line.
fn event_of_line(inner: &[u8]) -> Result<Event, String> {
    let mut rest = inner;
    let mut fields: [&str; 14] = [""; 14];
    for field in &mut fields {
        let comma = rest.iter().position(|byte| *byte == b',').ok_or("an event of fewer than 15 elements")?;
        *field = std::str::from_utf8(&rest[..comma]).map_err(|_| "bytes that are not text")?.trim();
        rest = &rest[comma + 1..];
    }
    let text = |at: usize| fields[at].trim_matches('"').to_owned();
    let number = |at: usize| fields[at].parse::<u32>().map_err(|_| format!("{:?} is not a number", fields[at]));
    let lg = |at: usize| fields[at].parse::<f64>().map_err(|_| format!("{:?} is not a number", fields[at]));
    let data = rest.trim_ascii();
    let (data, unknown) = match data.windows(14).rposition(|part| part == b"\", \"not known:") {
        Some(at) => (&data[..=at], String::from_utf8_lossy(&data[at + 3..]).into_owned()),
        None => (data, String::new()),
    };
    let data = data.strip_prefix(b"\"").and_then(|data| data.strip_suffix(b"\"")).ok_or("the data has no quotes")?;
    Ok(Event {
        t: [fields[0], fields[1], fields[2], fields[3]].map(seconds),
        client: text(4),
        server: text(5),
        lg: [lg(6)?, lg(7)?],
        rpcid: number(8)?,
        parent: number(9)?,
        kind: text(10),
        method: text(11),
        status: text(12),
        length: number(13)?,
        data: data.to_vec(),
        unknown,
    })
}

/// µs of ` 20.123456`, also of `-2.-576088` and `0.-500000`, which the tool prints for negative times.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let negative = whole.starts_with('-') || fraction.starts_with('-');
    let (whole, fraction) = (whole.trim_start_matches('-'), fraction.trim_start_matches('-'));
    let digits = |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let us = whole.parse::<i64>().ok()? * 1_000_000 + format!("{fraction:0<6}")[..6].parse::<i64>().ok()?;
    Some(if negative { -us } else { us })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{self, golden};
    use proptest::prelude::*;

    fn client() -> Vec<Record> {
        log::records(&golden::bytes(&golden::CLIENT), 0).map(Result::unwrap).collect()
    }

    /// What the lab's tool prints for the six records.
    const LAB: &str = concat!(
        "  {\n \"Comment\" : \"V4 flat RPCs\",\n \"axisLabelX\" : \"Time (sec)\",\n \"axisLabelY\" : \"RPC Number\",\n",
        " \"deltaT23\" : 0,\n \"flags\" : 0,\n \"gbs\" : 1,\n \"shortMulX\" : 1,\n \"shortUnitsX\" : \"s\",\n",
        " \"thousandsX\" : 1000,\n \"title\" : \"title\",\n \"tracebase\" : \"2023-11-14_22:13:00\",\n \"version\" : 4,\n",
        "\"events\" : [\n",
        "[ 20.123456,  20.123546,  20.123551,  20.123636, \"10.9.0.1\", \"10.9.0.2\", 4.9, 0.0, 8192, 0, \"RespRcv \", \"write\", \"Success \", 0, \"........................\"],\n",
        "[ 20.124456,  20.124546,  20.124551,  20.124636, \"10.9.0.1\", \"10.9.0.2\", 2.6, 0.0, 16384, 5, \"RespRcv \", \"read\", \"Fail    \", 0, \"........................\"],\n",
        "[ 20.125456,  20.125456,  20.125456,  20.125756, \"10.9.0.1\", \"10.9.0.2\", 16.6, 16.6, 32768, 0, \"RespRcv \", \"ping\", \"Success \", 100004, \"@@..vvvvv_bcei_qaaa_aaaa\"],\n",
        "[ 20.126456,  20.126458,  20.126460,  20.126460, \"unk:unk\", \"unk:unk\", 0.0, 0.0, 65536, 0, \"RespRcv \", \"Work\", \"TooBusy \", 0, \"........................\"],\n",
        "[ 20.127456,  20.127457,  20.127458,  20.127459, \"10.9.0.1\", \"10.9.0.2\", 0.0, 0.0, 131072, 0, \"RespRcv \", \"methodna\", \"ERROR_7\", 0, \"\".......................\"],\n",
        "[999.0, 0.0, 0.0, 0.0, \"\", \"\", 0.0, 0.0, 0, 0, \"\", \"\", \"\", 0, \"\"]\n]}\n",
    );

    /// The same with the two bytes that are not UTF-8.
    fn lab() -> Vec<u8> {
        let mut bytes = LAB.as_bytes().to_vec();
        let at = bytes.windows(2).position(|pair| pair == b"@@").unwrap();
        bytes[at..at + 2].copy_from_slice(&[0xa0, 0x86]);
        bytes
    }

    fn written(records: &[Record]) -> String {
        let base = base_of(records[0].header.t[0]);
        let events: String = records.iter().map(|record| event(record, base)).collect();
        header("title", base, records.last().unwrap().header.t[0]) + &events + FOOTER
    }

    #[test]
    fn what_is_valid_of_the_lab_is_written_byte_for_byte() {
        let records: Vec<Record> = client().into_iter().filter(|record| record.kind() == Kind::RespRcv).collect();
        let text = written(&records);
        let (ours, theirs): (Vec<&str>, Vec<&str>) = (text.lines().collect(), LAB.lines().collect());
        assert_eq!(ours.len(), theirs.len());
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            match at {
                // A ping to a server whose clock is behind: its stamps as they are, and no byte that is not UTF-8.
                16 => {
                    assert_eq!(ours.replace("20.122456,  20.122460", "20.125456,  20.125456"), theirs.replace('@', "."))
                }
                // A dropped call: the tool invented T2.
                17 => assert_eq!(
                    *ours,
                    "[ 20.126456,  20.126456,  20.126456,  20.126456, \"unk:unk\", \"unk:unk\", 0.0, 0.0, 65536, 0, \"RespRcv \", \"Work\", \"TooBusy \", 0, \"........................\", \"not known: T2 T3\"],"
                ),
                18 => assert_eq!(*ours, theirs.replace("\"\"...", "\"....")),
                _ => assert_eq!(ours, theirs),
            }
        }
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["events"].as_array().unwrap().len(), 6);
        let lines: Vec<&str> = text.lines().take_while(|line| !line.starts_with("[999")).collect();
        assert!(lines.is_sorted_by_key(|line| line.as_bytes()), "as the lab's tool wants it");
    }

    #[test]
    fn what_the_lab_writes_is_read_although_it_is_no_json() {
        let document = read(&lab()).unwrap();
        assert!(document.repaired && serde_json::from_slice::<serde_json::Value>(&lab()).is_err());
        assert_eq!((document.title.as_str(), document.base_us), ("title", Some(1_699_999_980_000_000)));
        let [write, read, ping, work, odd] = document.records[..] else { panic!("{:?}", document.records) };
        let log = client();
        // Ports are not in the file, the length of the request is its logarithm.
        let port = |record: Record| Record {
            header: Header { client_port: 0, server_port: 0, ..record.header },
            data: [b'.'; DATA_BYTES],
            ..record
        };
        assert_eq!((write, read), (port(log[1]), port(log[2])));
        assert_eq!(ping.header.t[1], ping.header.t[0], "as the tool clamped it");
        assert_eq!((&ping.data[..4], ping.length), (&[0xa0, 0x86, b'.', b'.'][..], 100_004));
        assert_eq!((work.header.client_ip, work.header.status), (0, 2));
        assert_eq!((odd.header.status, &odd.data[..3]), (7, &b"\".."[..]));
    }

    #[test]
    fn ours_is_read_back_strictly_with_what_was_not_known() {
        let records = client();
        let document = read(written(&records).as_bytes()).unwrap();
        assert!(!document.repaired);
        let stamps = |records: &[Record]| records.iter().map(|record| record.header.t).collect::<Vec<_>>();
        assert_eq!(stamps(&document.records), stamps(&records));
        let mut damaged = written(&records).into_bytes();
        let at = damaged.iter().rposition(|byte| *byte == b'5').unwrap();
        damaged[at] = b'\\';
        assert!(read(&damaged).is_err() || read(&damaged).unwrap().repaired);
        // Line by line as well: a byte of the data is not UTF-8.
        let mut bytes = written(&records).into_bytes();
        let at = bytes.windows(5).position(|part| part == b"vvvvv").unwrap();
        bytes[at] = 0xff;
        let document = read(&bytes).unwrap();
        assert!(document.repaired);
        assert_eq!(stamps(&document.records), stamps(&records));
    }

    #[test]
    fn negative_and_raw_times() {
        assert_eq!(seconds("-2.-576088"), Some(-2_576_088));
        assert_eq!(seconds("0.-500000"), Some(-500_000));
        assert_eq!(seconds("-0.500000"), Some(-500_000));
        assert_eq!(seconds("20.1"), Some(20_100_000));
        assert_eq!((seconds("x"), seconds("1.x"), seconds(""), seconds("99999999999.0")), (None, None, None, None));
        let raw = LAB.replace("20.126458,  20.126460", "-1699999980.000000, -1699999980.000000");
        let work = read(raw.as_bytes()).unwrap().records[3];
        assert_eq!(work.header.t[1..3], [0, 0]);
        let mut before = String::new();
        put_seconds(&mut before, -2_576_088);
        put_seconds(&mut before, -500_000);
        assert_eq!(before, " -2.576088 -0.500000");
    }

    #[test]
    fn what_is_not_it_is_refused_with_its_line() {
        assert_eq!(read(b"{}"), Err(JsonError::NoEvents));
        assert_eq!(read(b""), Err(JsonError::NoEvents));
        let cut = &LAB.as_bytes()[..LAB.len() - 300];
        assert!(matches!(read(cut), Err(JsonError::Event { line: 18, .. })), "{:?}", read(cut).map(|_| ()));
        let other = LAB.replace("\"RespRcv \", \"read\"", "\"Nothing \", \"read\"");
        assert!(read(other.as_bytes()).unwrap_err().to_string().contains("line 16"));
    }

    #[test]
    fn dates_and_back() {
        for (date_text, us) in [
            ("1970-01-01_00:00:00", 0),
            ("2000-02-29_12:00:00", 951_825_600_000_000),
            ("2023-11-14_22:13:00", 1_699_999_980_000_000),
            ("2099-12-31_23:59:59", 4_102_444_799_000_000),
        ] {
            assert_eq!((date(us).as_str(), of_date(date_text)), (date_text, Some(us)));
        }
        assert_eq!(of_date("2023-13-01_00:00:00").or(of_date("x")).or(of_date("2023-01-01")), None);
        assert!(header("a \"b\"", 0, 999_000_000).contains("\"presorted\""));
        assert!(header("a \"b\"", 0, 0).contains(r#" "title" : "a \"b\"","#));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, byte: u8) {
            let _ = read(&bytes);
            let mut lab = lab();
            let at = at.index(lab.len());
            lab[at] = byte;
            let _ = read(&lab);
        }
    }
}
