//! Reads a run back, as far as it is whole.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use msgpath_core::foreign::shown;
use msgpath_core::plan::MAX_ROUNDS;
use msgpath_core::resume::PassRecord;
use msgpath_core::schema::{KernelEvent, MessageRow, RoundRecord, RunEnd, RunHeader, SCHEMA};
use msgpath_core::workload;
use msgpath_sys::files::{open_regular, read_regular};
use serde::Deserialize;

use crate::block::{self, Blocks, Fault, Head, Kind};
use crate::error::WrittenBy;
use crate::log::{AnyLog, LOGS};
use crate::{EVENTS_FILE, HEADER_FILE, ROUNDS_FILE, RecordError, columns};

/// The largest `run.json` that is read, bytes.
const MAX_HEADER: u64 = 64 << 20;

/// What is said of a header that does not fit its checksum, or the one that the end holds.
pub const CHANGED: &str = "the header was changed after it was written";
/// The begin of `run.json`: eight digits follow, then [`SUM_ENDS`] and what they are the checksum of.
const SUM_BEGINS: &[u8] = b"{ \"crc32\": \"";
const SUM_ENDS: &[u8] = b"\",\n";

/// The most kernel events of one round.
pub const MAX_EVENTS: usize = 1 << 24;

/// A run, read back.
#[derive(Clone, Debug)]
pub struct Run {
    pub folder: PathBuf,
    /// What was planned, and where.
    pub header: RunHeader,
    /// The rounds that are whole.
    pub rounds: Vec<RoundRecord>,
    /// How it ended; `None`: the program was killed.
    pub end: Option<RunEnd>,
    /// Where the file stops being whole, if it does.
    pub damage: Option<Damage>,
}

/// The first place at which a file of the run is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// File name within the folder.
    pub file: String,
    /// Byte offset of the block that cannot be read.
    pub offset: u64,
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.file.as_str() {
            header if header.ends_with(".json") => write!(f, "{header}: {}", self.why),
            file => write!(f, "{file} is whole up to byte {}: {}", self.offset, self.why),
        }
    }
}

/// The header of the run in `folder`. Its plan is valid and the id of each case is its position.
///
/// # Errors
/// No `run.json`, one that cannot be read, of another version, or damaged.
pub fn header(folder: &Path) -> Result<RunHeader, RecordError> {
    checked_header(folder).map(|found| found.header)
}

/// A header, and how far it can be believed.
struct CheckedHeader {
    header: RunHeader,
    /// CRC-32 of all bytes, to be compared with that of the end.
    sum: u32,
    /// It fits the checksum in its first line.
    whole: bool,
}

fn checked_header(folder: &Path) -> Result<CheckedHeader, RecordError> {
    let file = folder.join(HEADER_FILE);
    match read_regular(&file, MAX_HEADER) {
        Ok(bytes) => {
            let (sum, fits) = (crc32fast::hash(&bytes), fits_its_sum(&bytes));
            let changed = || match glance(folder) {
                Ok((_, Some(end))) => end.header_crc32.is_some_and(|written| written != sum),
                _ => false,
            };
            match parse_header(&file, &bytes) {
                Ok(header) => Ok(CheckedHeader { header, sum, whole: fits == Some(true) }),
                // What looks like another version's may be one of this version that somebody changed.
                Err(_) if fits == Some(false) || (fits.is_none() && changed()) => {
                    Err(RecordError::BadHeader { file, why: CHANGED.into() })
                }
                Err(error) => Err(error),
            }
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(RecordError::NotARun { folder: folder.into() })
        }
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(RecordError::BadHeader { file, why: error.to_string() })
        }
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

/// The bytes of `run.json`: its first line has the checksum of all others.
pub fn header_bytes(header: &impl serde::Serialize) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(header)?;
    let rest = json.strip_prefix(b"{\n").unwrap_or(&json);
    let digits = format!("{:08x}", crc32fast::hash(rest));
    Ok([SUM_BEGINS, digits.as_bytes(), SUM_ENDS, rest].concat())
}

/// Whether the bytes of `run.json` fit the checksum in their first line; `None`: there is none.
pub(crate) fn fits_its_sum(bytes: &[u8]) -> Option<bool> {
    let (digits, rest) = bytes.strip_prefix(SUM_BEGINS)?.split_at_checked(8)?;
    let rest = rest.strip_prefix(SUM_ENDS)?;
    Some(format!("{:08x}", crc32fast::hash(rest)).as_bytes() == digits)
}

/// The bytes of a header that is never written without its checksum, if they fit it; and their own, which the end holds.
///
/// # Errors
/// They do not fit, or have no checksum: nothing in them can be believed, not even which version wrote them.
pub fn summed(file: &Path, bytes: &[u8]) -> Result<u32, RecordError> {
    let bad = |why: &str| Err(RecordError::BadHeader { file: file.into(), why: why.into() });
    match fits_its_sum(bytes) {
        Some(true) => Ok(crc32fast::hash(bytes)),
        Some(false) => bad(CHANGED),
        None => bad("its first line has no checksum: it was changed, or written before there was one"),
    }
}

/// The header in the bytes of `run.json`; `file` is for the error.
pub(crate) fn parse_header(file: &Path, bytes: &[u8]) -> Result<RunHeader, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: String,
        plan: Option<Planned>,
    }
    #[derive(Deserialize)]
    struct Planned {
        workload: String,
    }
    let bad = |why: String| RecordError::BadHeader { file: file.into(), why };
    // The schema first: a header of another version need not have the fields of this one.
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    if versioned.schema != SCHEMA {
        let number = |schema: &str| schema.strip_prefix("msgpath/run/")?.parse::<u64>().ok();
        return Err(match number(&versioned.schema) {
            Some(found) if Some(found) > number(SCHEMA) => other_version(file, WrittenBy::Newer),
            Some(_) => other_version(file, WrittenBy::Older),
            None => bad(format!("its schema is {:?}, not {SCHEMA:?}", versioned.schema)),
        });
    }
    if let Some(Planned { workload: name }) = versioned.plan.filter(|plan| workload::find(&plan.workload).is_none()) {
        return Err(RecordError::NoWorkload { file: file.into(), name: shown(&name).into_owned() });
    }
    let header: RunHeader =
        serde_json::from_slice(bytes).map_err(|error| match block::json_fault("the header", &error) {
            Fault::Foreign(by) => other_version(file, by),
            Fault::Damaged(_) => bad(error.to_string()),
        })?;
    if header.ends.len() < 2 || header.ends.iter().any(|end| end.host >= header.hosts.len()) {
        return Err(bad("it does not say where its ends ran".into()));
    }
    header.plan.validate().map_err(|problem| bad(problem.what))?;
    if header.plan.cases.iter().enumerate().any(|(position, case)| case.id as usize != position) {
        return Err(bad("the id of a case is not its position".into()));
    }
    Ok(header)
}

pub(crate) fn other_version(file: &Path, by: WrittenBy) -> RecordError {
    RecordError::OtherVersion { file: file.into(), by }
}

/// Counts the rounds and finds the end without reading the rounds. What is not whole ends the count.
///
/// # Errors
/// Another version wrote them.
pub(crate) fn glance(folder: &Path) -> Result<(u64, Option<RunEnd>), RecordError> {
    let file = folder.join(ROUNDS_FILE);
    let (rounds, end) = heads(&file, &[], Kind::ROUND, Kind::END)?;
    match end.map(|payload| block::decode_end(&payload)) {
        None => Ok((rounds, None)),
        Some(Ok(end)) => Ok((rounds, Some(end))),
        Some(Err(Fault::Foreign(by))) => Err(other_version(&file, by)),
        Some(Err(Fault::Damaged(_))) => Ok((rounds, None)),
    }
}

/// How many blocks of a kind a file has, and what is in the one that ends it, by the heads of the others alone. `own`: kinds of a feature.
///
/// # Errors
/// Another version wrote them, or they cannot be read.
pub fn heads(file: &Path, own: &[Kind], counted: Kind, last: Kind) -> Result<(u64, Option<Vec<u8>>), RecordError> {
    let input = match open_regular(file) {
        Ok(input) => input,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, None)),
        Err(source) => return Err(RecordError::Read { file: file.into(), source }),
    };
    let length = input.metadata().map_or(0, |data| data.len());
    let (mut blocks, mut payload, mut count) = (Blocks::with(BufReader::new(input), own), Vec::new(), 0);
    loop {
        let head = match blocks.head() {
            Ok(Some(head)) => head,
            Ok(None) | Err(Fault::Damaged(_)) => return Ok((count, None)),
            Err(Fault::Foreign(by)) => return Err(other_version(file, by)),
        };
        if head.kind == last {
            return Ok((count, blocks.payload(&head, &mut payload).is_ok().then_some(payload)));
        }
        if blocks.skip(&head).is_err() || blocks.offset > length {
            return Ok((count, None));
        }
        count += u64::from(head.kind == counted);
    }
}

/// Reads the run in `folder` up to the last whole block. Only the rounds are kept in memory; the logs are
/// checked as they pass, so that [`Run::damage`] speaks for them too.
///
/// # Errors
/// As [`header`], or a file that cannot be opened. Damage is not an error: it is in the result.
pub fn read(folder: &Path) -> Result<Run, RecordError> {
    read_with_passes(folder).map(|(run, _)| run)
}

/// The same, and the order of every pass that was begun.
///
/// # Errors
/// As [`read`].
pub fn read_with_passes(folder: &Path) -> Result<(Run, Vec<PassRecord>), RecordError> {
    let mut passes = Vec::new();
    let CheckedHeader { header, sum, whole } = checked_header(folder)?;
    let mut run = Run { folder: folder.into(), header, rounds: Vec::new(), end: None, damage: None };
    let damage = |file: &str, offset, why| Some(Damage { file: file.into(), offset, why });
    if let Some(mut blocks) = open(folder, ROUNDS_FILE, &[])? {
        match read_rounds(&mut blocks, &mut run, &mut passes) {
            Ok(()) => {}
            Err(Fault::Damaged(why)) => run.damage = damage(ROUNDS_FILE, blocks.offset, why),
            Err(Fault::Foreign(by)) => return Err(other_version(&folder.join(ROUNDS_FILE), by)),
        }
    } else {
        run.damage = damage(ROUNDS_FILE, 0, "it is missing".into());
    }
    let written = run.end.as_ref().and_then(|end| end.header_crc32);
    if run.damage.is_none() && (!whole || written.is_some_and(|written| written != sum)) {
        run.damage = damage(HEADER_FILE, 0, CHANGED.into());
    }
    for log in [&AnyLog::of::<MessageRow>()].into_iter().chain(LOGS.all()) {
        if run.damage.is_none() {
            run.damage = log.damage(folder)?;
        }
    }
    if run.damage.is_none() {
        let mut events = events(folder)?;
        run.damage = events.find_map(Result::err);
        if let Some(by) = events.foreign {
            return Err(other_version(&folder.join(EVENTS_FILE), by));
        }
    }
    Ok((run, passes))
}

pub(crate) fn open(folder: &Path, name: &str, own: &[Kind]) -> Result<Option<Blocks<BufReader<File>>>, RecordError> {
    let file = folder.join(name);
    match open_regular(&file) {
        Ok(input) => Ok(Some(Blocks::with(BufReader::new(input), own))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

fn read_rounds(blocks: &mut Blocks<impl Read>, run: &mut Run, passes: &mut Vec<PassRecord>) -> Result<(), Fault> {
    let mut payload = Vec::new();
    loop {
        let at = blocks.offset;
        let block = blocks
            .next(&mut payload)
            .and_then(|head| head.map(|head| take_round(&head, &payload, run, passes)).transpose());
        match block {
            Ok(Some(())) => {}
            Ok(None) => return Ok(()),
            Err(fault) => {
                blocks.offset = at; // the damage is the block, not what follows
                return Err(fault);
            }
        }
    }
}

fn take_round(head: &Head, payload: &[u8], run: &mut Run, passes: &mut Vec<PassRecord>) -> Result<(), Fault> {
    if run.end.is_some() {
        return Err("a block after the end of the run".into());
    }
    match head.kind {
        Kind::ROUND => {
            if run.rounds.len() as u64 >= MAX_ROUNDS {
                return Err(format!("more than {MAX_ROUNDS} rounds").into());
            }
            let round = block::decode_round(payload)?;
            case_exists(round.case, &run.header)?;
            run.rounds.push(round);
        }
        Kind::PASS => {
            let pass = block::decode_pass(payload)?;
            let rounds = passes.iter().map(|pass| pass.cases.len()).sum::<usize>() + pass.cases.len();
            if pass.cases.is_empty() || rounds as u64 > MAX_ROUNDS {
                return Err(format!("an empty pass, or passes of more than {MAX_ROUNDS} rounds").into());
            }
            pass.cases.iter().try_for_each(|case| case_exists(*case, &run.header))?;
            passes.push(pass);
        }
        Kind::END => run.end = Some(block::decode_end(payload)?),
        kind => return Err(format!("{} among the rounds", kind.name()).into()),
    }
    Ok(())
}

pub(crate) fn case_exists(case: u32, header: &RunHeader) -> Result<(), String> {
    let cases = header.plan.cases.len();
    if (case as usize) < cases { Ok(()) } else { Err(format!("case {case} of a plan with {cases} cases")) }
}

/// Kernel events of one case and pass, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub case: u32,
    pub pass: u32,
    pub events: Vec<KernelEvent>,
}

/// The kernel events of the run in `folder`, round by round: at most [`MAX_EVENTS`] each. Empty where the run has none.
///
/// # Errors
/// As [`header`], or a file that cannot be opened.
pub fn events(folder: &Path) -> Result<EventsOfRounds, RecordError> {
    let header = header(folder)?;
    let blocks = open(folder, EVENTS_FILE, &[])?;
    let (payload, ahead, damage, foreign) = (Vec::new(), Events::default(), None, None);
    Ok(EventsOfRounds { header, blocks, only: None, payload, ahead, damage, foreign })
}

/// The events of one round after the other; holds one round and a block in memory. Ends with the first [`Damage`]; what
/// is whole of its round comes before it.
pub struct EventsOfRounds {
    header: RunHeader,
    blocks: Option<Blocks<BufReader<File>>>,
    only: Option<u32>,
    payload: Vec<u8>,
    /// A block that was read and not yet given: the begin of its round.
    ahead: Events,
    damage: Option<Damage>,
    /// Why it ended, where another version wrote the rest.
    foreign: Option<WrittenBy>,
}

impl EventsOfRounds {
    /// Only those of this case.
    pub fn of(self, case: u32) -> Self {
        Self { only: Some(case), ..self }
    }

    /// The next block; `None` at the end of the file.
    fn block(&mut self) -> Result<Option<Events>, Fault> {
        let Some(blocks) = &mut self.blocks else { return Ok(None) };
        let head = loop {
            let Some(head) = blocks.next(&mut self.payload)? else { return Ok(None) };
            let place = columns::take_head(&mut self.payload.as_slice());
            if self.only.is_none_or(|only| place.is_none_or(|(_, case, _)| case == only)) {
                break head;
            }
        };
        head.kind.is(Kind::EVENTS)?;
        let mut events = Vec::new();
        let (case, pass) = columns::decode::<KernelEvent>(&self.payload, &mut events)?;
        case_exists(case, &self.header)?;
        Ok(Some(Events { case, pass, events }))
    }
}

impl Iterator for EventsOfRounds {
    type Item = Result<Events, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut round = std::mem::take(&mut self.ahead);
        loop {
            let offset = self.blocks.as_ref().map_or(0, |blocks| blocks.offset);
            let next = self.block().and_then(|next| match next {
                Some(next) if !round.events.is_empty() && (next.case, next.pass) == (round.case, round.pass) => {
                    if round.events.len() + next.events.len() > MAX_EVENTS {
                        return Err(format!("more than {MAX_EVENTS} kernel events in a round").into());
                    }
                    if round.events.last().map(|event| event.t_ns) > next.events.first().map(|event| event.t_ns) {
                        return Err("kernel events that are not in the order of time".into());
                    }
                    Ok(Some(next))
                }
                next => Ok(next),
            });
            match next {
                Ok(Some(next)) if round.events.is_empty() => round = next,
                Ok(Some(next)) if (next.case, next.pass) == (round.case, round.pass) => {
                    round.events.extend(next.events)
                }
                Ok(Some(next)) => {
                    self.ahead = next;
                    return Some(Ok(round));
                }
                Ok(None) => break,
                Err(fault) => {
                    self.foreign = fault.foreign();
                    self.blocks = None;
                    self.damage = Some(Damage { file: EVENTS_FILE.into(), offset, why: fault.to_string() });
                    break;
                }
            }
        }
        if round.events.is_empty() { self.damage.take().map(Err) } else { Some(Ok(round)) }
    }
}
