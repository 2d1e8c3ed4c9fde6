//! The bytes of the `.mpl` files of a run: a sequence of blocks, nothing before, between or
//! after them. Every block is appended by one write, so that a killed program leaves whole blocks and at most one that is
//! cut off. `crates/record/FORMAT.md` describes them byte by byte; the rows of the logs are the business of `columns`.
//!
//! No count or time of an end is above 2^48 and no other number above 2^62: so sums over a whole run fit in 64 bits.

use std::io::{self, Read};

use msgpath_core::resume::PassRecord;
use msgpath_core::schema::{KernelEvent, MessageRow, RoundRecord, RunEnd};
use msgpath_core::{SparseHistogram, varint};

use crate::columns::{self, MAX_NUMBER};
use crate::error::WrittenBy;

const MAGIC: [u8; 4] = *b"mpl\n";
/// The version of the block format.
pub const VERSION: u8 = 4;
/// Bytes before the payload.
pub(crate) const HEAD: usize = 16;
/// The most rows of one block.
pub const MAX_ROWS: usize = 1 << 16;
/// The largest count or time of one end in a round.
pub const MAX_COUNT: u64 = 1 << 48;

/// More bytes than any block has.
pub(crate) const LARGEST: u64 = (64 << 20) + HEAD as u64;

/// Why a block cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not whole, or its content is impossible.
    Damaged(String),
    /// It is whole, and another version of msgpath wrote it.
    Foreign(WrittenBy),
}

impl Fault {
    /// Which other version wrote the block, where that is all that is wrong with it.
    pub(crate) fn foreign(&self) -> Option<WrittenBy> {
        if let Fault::Foreign(by) = self { Some(*by) } else { None }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Damaged(why)
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Fault {
        Fault::Damaged(why.into())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Damaged(why) => f.write_str(why),
            Fault::Foreign(by) => by.fmt(f),
        }
    }
}

/// What a block holds. A feature whose files are made of blocks has kinds of its own; no two kinds have the same byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    byte: u8,
    name: &'static str,
    max_length: usize,
}

impl Kind {
    pub const ROUND: Kind = Kind::new(1, "rounds", 4 << 20);
    pub const MESSAGES: Kind = Kind::new(2, "messages", 4 << 20);
    pub const END: Kind = Kind::new(3, "the end of the run", 64 << 20);
    pub const EVENTS: Kind = Kind::new(5, "kernel events", 4 << 20);
    pub const PASS: Kind = Kind::new(6, "passes", 4 << 20);
    /// Those of every run.
    pub const ALL: [Kind; 5] = [Kind::ROUND, Kind::MESSAGES, Kind::END, Kind::EVENTS, Kind::PASS];

    /// `name` in the plural, `max_length` in bytes of the payload: at most those of [`Kind::END`].
    pub const fn new(byte: u8, name: &'static str, max_length: usize) -> Self {
        assert!(max_length <= 64 << 20);
        Self { byte, name, max_length }
    }

    /// What such a block holds, in the plural.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Refuses a block of another kind in a file.
    pub(crate) fn is(self, expected: Kind) -> Result<(), String> {
        let what = || format!("{} among the {}", self.name, expected.name);
        if self == expected { Ok(()) } else { Err(what()) }
    }
}

/// A whole block, ready for one write.
pub fn frame(kind: Kind, payload: &[u8]) -> Result<Vec<u8>, String> {
    if payload.len() > kind.max_length {
        return Err(format!("a block of {} bytes; the limit is {}", payload.len(), kind.max_length));
    }
    let mut out = Vec::with_capacity(HEAD + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind.byte, 0, 0]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(&out[4..12], payload).to_le_bytes());
    out.extend_from_slice(payload);
    Ok(out)
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(payload);
    crc.finalize()
}

/// The checked first bytes of a block.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What it holds.
    pub kind: Kind,
    pub(crate) length: usize,
    raw: [u8; HEAD],
}

impl Head {
    /// A head of a version that is read, or one that says that another version wrote the block. The latter is to be believed
    /// only when its checksum fits.
    fn parse(raw: [u8; HEAD], own: &[Kind]) -> Result<(Head, Option<WrittenBy>), String> {
        let [m0, m1, m2, m3, version, kind, r0, r1, l0, l1, l2, l3, ..] = raw;
        if [m0, m1, m2, m3] != MAGIC {
            return Err("no block begins here".into());
        }
        let (known, foreign) = match (Kind::ALL.iter().chain(own).copied().find(|known| known.byte == kind), version) {
            (_, ..VERSION) => (Kind::END, Some(WrittenBy::Older)),
            (Some(kind), VERSION) => (kind, None),
            // A kind that this version does not have was added later.
            _ => (Kind::END, Some(WrittenBy::Newer)),
        };
        if foreign.is_none() && (r0, r1) != (0, 0) {
            return Err("reserved bytes are not 0".into());
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > known.max_length {
            return Err(format!("a block of {length} bytes; the limit is {}", known.max_length));
        }
        Ok((Head { kind: known, length, raw }, foreign))
    }

    fn checksum(&self) -> u32 {
        let [.., c0, c1, c2, c3] = self.raw;
        u32::from_le_bytes([c0, c1, c2, c3])
    }
}

/// Reads block after block. Each call of [`Self::head`] that returns a head is followed by one of [`Self::payload`].
pub struct Blocks<R> {
    input: R,
    /// Kinds that the file may hold beside those of a run.
    own: Vec<Kind>,
    /// Where the next block begins.
    pub offset: u64,
}

impl<R: Read> Blocks<R> {
    /// From the beginning of a file.
    pub fn new(input: R) -> Self {
        Self::with(input, &[])
    }

    /// From the beginning of a file of a feature, which has kinds of its own.
    pub fn with(input: R, own: &[Kind]) -> Self {
        Self { input, own: own.to_vec(), offset: 0 }
    }

    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// The head of the next block; `None` at the end of the file.
    pub(crate) fn head(&mut self) -> Result<Option<Head>, Fault> {
        let mut raw = [0; HEAD];
        let (head, foreign) = match fill(&mut self.input, &mut raw)? {
            0 => return Ok(None),
            HEAD => Head::parse(raw, &self.own)?,
            got => return Err(format!("the block is cut off: {got} bytes of its head are there").into()),
        };
        let Some(by) = foreign else { return Ok(Some(head)) };
        // A version byte that was flipped does not fit the checksum: then this is damage.
        let at = self.offset;
        self.payload(&head, &mut Vec::new())?;
        self.offset = at;
        Err(Fault::Foreign(by))
    }

    /// Reads and checks the payload that belongs to `head` into `payload`; the memory used follows what is there, not
    /// what the head claims.
    pub(crate) fn payload(&mut self, head: &Head, payload: &mut Vec<u8>) -> Result<(), String> {
        payload.clear();
        let got = (&mut self.input).take(head.length as u64).read_to_end(payload).map_err(cannot_read)?;
        if got < head.length {
            return Err(format!("the block is cut off: {got} of {} bytes are there", head.length));
        }
        if checksum(&head.raw[4..12], payload) != head.checksum() {
            return Err("the checksum does not fit".into());
        }
        self.offset += (HEAD + head.length) as u64;
        Ok(())
    }

    /// The whole next block; `None` at the end of the file.
    ///
    /// # Errors
    /// It is damaged, or another version wrote it.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<Head>, Fault> {
        let Some(head) = self.head()? else { return Ok(None) };
        self.payload(&head, payload)?;
        Ok(Some(head))
    }
}

/// Whether `rest`, what a file has from the begin of a block on, is a block that was cut off: all that a program that was
/// killed leaves.
pub(crate) fn is_torn(rest: &[u8], own: &[Kind]) -> bool {
    let Some(head) = rest.first_chunk::<HEAD>() else {
        return MAGIC.starts_with(rest) || rest.starts_with(&MAGIC);
    };
    Head::parse(*head, own).is_ok_and(|(head, _)| rest.len() - HEAD < head.length)
}

impl<R: io::Seek> Blocks<io::BufReader<R>> {
    /// Passes over the payload that belongs to `head`, unread.
    pub(crate) fn skip(&mut self, head: &Head) -> io::Result<()> {
        self.offset += (HEAD + head.length) as u64;
        self.input.seek_relative(head.length as i64)
    }
}

fn cannot_read(error: io::Error) -> String {
    format!("it cannot be read ({error})")
}

/// Fills `buffer` as far as the input goes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, String> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot_read(error)),
        }
    }
    Ok(got)
}

/// Refuses a round whose sums over a run could overflow.
fn check(round: &RoundRecord) -> Result<(), String> {
    let value = serde_json::to_value(round).map_err(|error| error.to_string())?;
    let ends = value["ends"].as_array().into_iter().flatten();
    let of_ends = ends.flat_map(|end| ["report", "events", "threads"].map(|part| (&end[part], MAX_COUNT)));
    for (part, limit) in of_ends.chain([(&value, MAX_NUMBER)]) {
        if let Some(number) = above(part, limit) {
            return Err(format!("a number of {number} in a round; the limit is {limit}"));
        }
    }
    for histogram in histograms(round) {
        if histogram.total() > MAX_COUNT {
            return Err(format!("{} messages in a round; the limit is {MAX_COUNT}", histogram.total()));
        }
    }
    Ok(())
}

/// Histograms of a round.
const HISTOGRAMS: usize = 5;
/// What they are called.
const HISTOGRAM_NAMES: [&str; HISTOGRAMS] = ["latency", "one_way", "service", "lateness", "first"];

/// They are written in this order.
fn histograms(round: &RoundRecord) -> [&SparseHistogram; HISTOGRAMS] {
    [&round.latency, &round.one_way, &round.service, &round.lateness, &round.first]
}

/// A column as it stands in a block: what follows another one's bytes.
pub struct Section<'a> {
    pub(crate) name: &'a [u8],
    /// How its bytes are to be read: [`JSON`], [`HISTOGRAM`] or the number of a form of `columns`.
    pub(crate) kind: u64,
    pub(crate) bytes: &'a [u8],
}

/// The column of a round that holds all but the histograms.
pub const JSON: u64 = 0;
pub const HISTOGRAM: u64 = 8;
/// The most columns of a block.
const MAX_SECTIONS: usize = 256;
const NOT_FILLED: &str = "the columns do not fill their block";

pub fn put_section(out: &mut Vec<u8>, name: &str, kind: u64, bytes: &[u8]) {
    varint::put(out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
    varint::put(out, kind);
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A length and so many bytes.
fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::take(bytes)?).ok()?;
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

/// The columns that fill `bytes`, those that this version does not know among them.
pub fn sections(mut bytes: &[u8]) -> Result<Vec<Section<'_>>, Fault> {
    let mut found: Vec<Section<'_>> = Vec::new();
    while !bytes.is_empty() {
        let name = part(&mut bytes).ok_or(NOT_FILLED)?;
        let kind = varint::take(&mut bytes).ok_or(NOT_FILLED)?;
        let section = Section { name, kind, bytes: part(&mut bytes).ok_or(NOT_FILLED)? };
        if found.len() >= MAX_SECTIONS || found.iter().any(|other| other.name == section.name) {
            return Err("a block has a column twice, or too many of them".into());
        }
        found.push(section);
    }
    Ok(found)
}

/// The bytes of a column of this name and kind; `None`: it is not there.
///
/// # Errors
/// It is of another kind: that of a later version.
pub fn column<'a>(sections: &[Section<'a>], name: &str, kind: u64) -> Result<Option<&'a [u8]>, Fault> {
    match sections.iter().find(|section| section.name == name.as_bytes()) {
        Some(section) if section.kind != kind => Err(Fault::Foreign(WrittenBy::Newer)),
        section => Ok(section.map(|section| section.bytes)),
    }
}

/// A number above `limit`, anywhere in `value`.
pub(crate) fn above(value: &serde_json::Value, limit: u64) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => number.as_u64().filter(|number| *number > limit),
        serde_json::Value::Array(items) => items.iter().find_map(|item| above(item, limit)),
        serde_json::Value::Object(fields) => fields.values().find_map(|field| above(field, limit)),
        _ => None,
    }
}

pub(crate) fn encode_round(round: &RoundRecord) -> Result<Vec<u8>, String> {
    check(round)?;
    columns_of_round(round)
}

fn columns_of_round(round: &RoundRecord) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(round).map_err(|error| error.to_string())?;
    let mut out = Vec::with_capacity(json.len() + 4096);
    put_section(&mut out, "round", JSON, &json);
    for (name, histogram) in HISTOGRAM_NAMES.into_iter().zip(histograms(round)) {
        if *histogram != SparseHistogram::default() {
            put_section(&mut out, name, HISTOGRAM, &histogram.to_bytes());
        }
    }
    Ok(out)
}

/// What is wrong with the JSON of a whole block or header. A value that this version has no name for was added later.
pub fn json_fault(what: &str, error: &serde_json::Error) -> Fault {
    let why = error.to_string();
    if error.is_data() && why.starts_with("unknown variant") {
        return Fault::Foreign(WrittenBy::Newer);
    }
    Fault::Damaged(format!("{what} is not what it should be: {why}"))
}

pub(crate) fn decode_round(payload: &[u8]) -> Result<RoundRecord, Fault> {
    let sections = sections(payload)?;
    let json = column(&sections, "round", JSON)?.ok_or(Fault::Foreign(WrittenBy::Newer))?;
    let mut found = [None; HISTOGRAMS];
    for (bytes, name) in found.iter_mut().zip(HISTOGRAM_NAMES) {
        *bytes = column(&sections, name, HISTOGRAM)?;
    }
    let mut round: RoundRecord = serde_json::from_slice(json).map_err(|error| json_fault("the round", &error))?;
    let histogram = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => SparseHistogram::from_bytes(bytes).ok_or("a histogram does not add up"),
        None => Ok(SparseHistogram::default()),
    };
    let [latency, one_way, service, lateness, first] = found;
    round.latency = histogram(latency)?;
    round.one_way = histogram(one_way)?;
    round.service = histogram(service)?;
    round.lateness = histogram(lateness)?;
    round.first = histogram(first)?;
    check(&round)?;
    Ok(round)
}

pub fn encode_end(end: &RunEnd) -> Result<Vec<u8>, String> {
    serde_json::to_vec(end).map_err(|error| error.to_string())
}

pub fn decode_end(payload: &[u8]) -> Result<RunEnd, Fault> {
    serde_json::from_slice(payload).map_err(|error| json_fault("the end", &error))
}

pub(crate) fn encode_pass(pass: &PassRecord) -> Result<Vec<u8>, String> {
    serde_json::to_vec(pass).map_err(|error| error.to_string())
}

pub(crate) fn decode_pass(payload: &[u8]) -> Result<PassRecord, Fault> {
    serde_json::from_slice(payload).map_err(|error| json_fault("the pass", &error))
}

/// Runs every parser of the record over arbitrary bytes, for a fuzzer: as a file of blocks, and as the payload of each kind.
///
/// # Panics
/// Where something that was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz_blocks(bytes: &[u8]) {
    let again = |kind: Kind, payload: &[u8]| match kind {
        Kind::ROUND => {
            if let Ok(round) = decode_round(payload) {
                let encoded = encode_round(&round).expect("what was read can be written");
                assert_eq!(decode_round(&encoded).as_ref(), Ok(&round));
                let mut all = msgpath_core::Histogram::new();
                (0..3).for_each(|_| all.merge_sparse(&round.latency));
            }
        }
        Kind::MESSAGES => rows_again::<MessageRow>(payload),
        Kind::EVENTS => rows_again::<KernelEvent>(payload),
        Kind::END => drop(decode_end(payload)),
        Kind::PASS => {
            if let Ok(pass) = decode_pass(payload) {
                assert_eq!(decode_pass(&encode_pass(&pass).expect("what was read can be written")), Ok(pass));
            }
        }
        _ => {}
    };
    let (mut blocks, mut payload) = (Blocks::new(bytes), Vec::new());
    while let Ok(Some(head)) = blocks.next(&mut payload) {
        again(head.kind, &payload);
    }
    Kind::ALL.into_iter().for_each(|kind| again(kind, bytes));
}

/// Reads rows, and writes and reads them again, for a fuzzer.
///
/// # Panics
/// They are read differently then, or cannot be written: a defect.
#[doc(hidden)]
pub fn rows_again<L: columns::Logged<Row: PartialEq>>(payload: &[u8]) {
    let (mut rows, mut back) = (Vec::new(), Vec::new());
    if let Ok((case, pass)) = columns::decode::<L>(payload, &mut rows) {
        let encoded = columns::encode::<L>(case, pass, &rows).expect("what was read can be written");
        assert_eq!(columns::decode::<L>(&encoded, &mut back), Ok((case, pass)));
        assert_eq!(rows, back);
    }
}

/// Reads arbitrary bytes as `run.json` and as the end of a run, for a fuzzer.
///
/// # Panics
/// Where something that was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz_header(bytes: &[u8]) {
    let file = std::path::Path::new("run.json");
    if let Ok(header) = crate::reader::parse_header(file, bytes) {
        let again = crate::reader::header_bytes(&header).expect("what was read can be written");
        assert_eq!(crate::reader::parse_header(file, &again).expect("what was written can be read"), header);
    }
    if let Ok(end) = decode_end(bytes) {
        assert_eq!(decode_end(&encode_end(&end).expect("what was read can be written")), Ok(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run;
    use proptest::prelude::*;

    #[test]
    fn a_round_comes_back_whole() {
        let round = test_run::round(1, 3);
        assert_eq!(decode_round(&encode_round(&round).unwrap()).unwrap(), round);
    }

    #[test]
    fn absurd_numbers_are_refused_both_ways() {
        let mut round = test_run::round(0, 0);
        round.far_mut().bytes_sent = MAX_COUNT + 1;
        assert!(encode_round(&round).unwrap_err().contains("limit"));
        let payload = columns_of_round(&round).unwrap();
        assert!(decode_round(&payload).unwrap_err().to_string().contains("limit"));
    }

    #[test]
    fn what_a_round_does_not_know_is_skipped_and_what_it_lacks_is_empty() {
        let round = test_run::round(1, 2);
        let mut payload = Vec::new();
        put_section(&mut payload, "jitter", 77, b"of a later version");
        payload.extend(encode_round(&round).unwrap());
        assert_eq!(decode_round(&payload).unwrap(), round);
        let mut bare = Vec::new();
        put_section(&mut bare, "round", JSON, &serde_json::to_vec(&round).unwrap());
        let empty = RoundRecord { latency: SparseHistogram::default(), ..round.clone() };
        assert_eq!(decode_round(&bare).unwrap(), empty);
        put_section(&mut bare, "latency", 77, b"in another form");
        assert_eq!(decode_round(&bare), Err(Fault::Foreign(WrittenBy::Newer)));
        let twice = [bare.clone(), bare].concat();
        assert!(matches!(decode_round(&twice), Err(Fault::Damaged(_))));
    }

    #[test]
    fn a_length_is_not_believed() {
        let mut bytes = frame(Kind::END, b"{}").unwrap();
        bytes[8..12].copy_from_slice(&(60_u32 << 20).to_le_bytes());
        let mut payload = Vec::new();
        assert!(Blocks::new(bytes.as_slice()).next(&mut payload).unwrap_err().to_string().contains("cut off"));
        assert!(payload.capacity() < 1 << 16);
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Blocks::new(bytes.as_slice()).next(&mut payload).unwrap_err().to_string().contains("limit"));
        assert!(frame(Kind::ROUND, &vec![0; (4 << 20) + 1]).is_err());
    }

    #[test]
    fn every_flipped_bit_is_damage() {
        let whole = frame(Kind::ROUND, &encode_round(&test_run::round(0, 0)).unwrap()).unwrap();
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let fault = Blocks::new(bytes.as_slice()).next(&mut Vec::new()).unwrap_err();
            assert!(matches!(fault, Fault::Damaged(_)), "byte {at}: {fault}");
        }
    }

    /// A whole block as another version, or one with further kinds, writes it.
    fn foreign(version: u8, kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = frame(Kind::END, payload).unwrap();
        (bytes[4], bytes[5]) = (version, kind);
        let sum = checksum(&bytes[4..12], payload);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_whole_block_of_another_version_is_not_damage() {
        let of = |bytes: &[u8]| Blocks::new(bytes).next(&mut Vec::new()).unwrap_err();
        for (version, kind, by) in [
            (1, 1, WrittenBy::Older),
            (VERSION - 1, 3, WrittenBy::Older),
            (VERSION + 1, 1, WrittenBy::Newer),
            (u8::MAX, 200, WrittenBy::Newer),
            (VERSION, 99, WrittenBy::Newer),
        ] {
            let mut bytes = foreign(version, kind, b"what it holds is not looked at");
            assert_eq!(of(&bytes), Fault::Foreign(by), "version {version}, kind {kind}");
            bytes.pop();
            assert!(of(&bytes).to_string().contains("cut off"));
        }
    }

    #[test]
    fn a_block_has_a_limited_number_of_columns() {
        let mut payload = Vec::new();
        (0..=MAX_SECTIONS).for_each(|number| put_section(&mut payload, &number.to_string(), 1, &[]));
        assert!(matches!(sections(&payload), Err(Fault::Damaged(_))));
    }

    #[test]
    fn a_name_that_was_added_later_is_not_damage() {
        let json = serde_json::to_vec(&test_run::end(msgpath_core::schema::Status::Ok)).unwrap();
        let newer = String::from_utf8(json).unwrap().replace("\"ok\"", "\"superb\"");
        assert_eq!(decode_end(newer.as_bytes()), Err(Fault::Foreign(WrittenBy::Newer)));
        assert!(matches!(decode_end(b"{}"), Err(Fault::Damaged(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_blocks(&bytes);
            fuzz_header(&bytes);
            for kind in Kind::ALL {
                fuzz_blocks(&frame(kind, &bytes).unwrap());
            }
        }

        #[test]
        fn damaged_rounds_do_not_panic(at: prop::sample::Index, byte: u8) {
            let mut payload = encode_round(&test_run::round(0, 0)).unwrap();
            let at = at.index(payload.len());
            payload[at] = byte;
            fuzz_blocks(&frame(Kind::ROUND, &payload).unwrap());
        }
    }
}
