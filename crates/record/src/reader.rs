//! Reads a run back, as far as it is whole.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use msgpath_core::plan::MAX_ROUNDS;
use msgpath_core::schema::{KernelEvent, MessageRow, RoundRecord, RpcRow, RunEnd, RunHeader, SCHEMA};
use serde::Deserialize;

use crate::block::{self, Blocks, Kind};
use crate::{EVENTS_FILE, HEADER_FILE, MESSAGES_FILE, ROUNDS_FILE, RPCS_FILE, RecordError, columns};

/// The largest `run.json` that is read, bytes.
const MAX_HEADER: u64 = 64 << 20;

/// The most kernel events of one round.
pub const MAX_EVENTS: usize = 1 << 24;

/// A run, read back.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its folder.
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
    /// Why.
    pub why: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is whole up to byte {}: {}", self.file, self.offset, self.why)
    }
}

/// The header of the run in `folder`. Its plan is valid and the id of each case is its position.
///
/// # Errors
/// No `run.json`, one that cannot be read, of another schema, or damaged.
pub fn header(folder: &Path) -> Result<RunHeader, RecordError> {
    let file = folder.join(HEADER_FILE);
    let mut bytes = Vec::new();
    let read = File::open(&file).and_then(|input| input.take(MAX_HEADER + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 > MAX_HEADER => {
            Err(RecordError::BadHeader { file, why: format!("it has more than {MAX_HEADER} bytes") })
        }
        Ok(_) => parse_header(&file, &bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(RecordError::NotARun { folder: folder.into() })
        }
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

/// The header in the bytes of `run.json`; `file` is for the error.
pub(crate) fn parse_header(file: &Path, bytes: &[u8]) -> Result<RunHeader, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: String,
    }
    let bad = |why: String| RecordError::BadHeader { file: file.into(), why };
    // The schema first: a header of another version need not have the fields of this one.
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    if versioned.schema != SCHEMA {
        return Err(RecordError::Version { file: file.into(), found: versioned.schema });
    }
    let header: RunHeader = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    header.plan.validate().map_err(|problem| bad(problem.what))?;
    if header.plan.cases.iter().enumerate().any(|(position, case)| case.id as usize != position) {
        return Err(bad("the id of a case is not its position".into()));
    }
    Ok(header)
}

/// Reads the run in `folder` up to the last whole block. Only the rounds are kept in memory; the logs are
/// checked as they pass, so that [`Run::damage`] speaks for them too.
///
/// # Errors
/// As [`header`], or a file that cannot be opened. Damage is no error: it is in the result.
pub fn read(folder: &Path) -> Result<Run, RecordError> {
    let header = header(folder)?;
    let mut run = Run { folder: folder.into(), header, rounds: Vec::new(), end: None, damage: None };
    if let Some(mut blocks) = open(folder, ROUNDS_FILE)? {
        if let Err(why) = read_rounds(&mut blocks, &mut run) {
            run.damage = Some(Damage { file: ROUNDS_FILE.into(), offset: blocks.offset, why });
        }
    } else {
        run.damage = Some(Damage { file: ROUNDS_FILE.into(), offset: 0, why: "it is missing".into() });
    }
    if run.damage.is_none() {
        run.damage = messages(folder)?.find_map(Result::err);
    }
    if run.damage.is_none() {
        run.damage = rpcs(folder)?.find_map(Result::err);
    }
    if run.damage.is_none() {
        run.damage = events(folder)?.find_map(Result::err);
    }
    Ok(run)
}

fn open(folder: &Path, name: &str) -> Result<Option<Blocks<BufReader<File>>>, RecordError> {
    let file = folder.join(name);
    match File::open(&file) {
        Ok(input) => Ok(Some(Blocks::new(BufReader::new(input)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

fn read_rounds(blocks: &mut Blocks<impl Read>, run: &mut Run) -> Result<(), String> {
    let mut payload = Vec::new();
    loop {
        let at = blocks.offset;
        let block =
            blocks.next(&mut payload).and_then(|kind| kind.map(|kind| take_round(kind, &payload, run)).transpose());
        match block {
            Ok(Some(())) => {}
            Ok(None) => return Ok(()),
            Err(why) => {
                blocks.offset = at; // the damage is the block, not what follows
                return Err(why);
            }
        }
    }
}

fn take_round(kind: Kind, payload: &[u8], run: &mut Run) -> Result<(), String> {
    if run.end.is_some() {
        return Err("a block after the end of the run".into());
    }
    match kind {
        Kind::Round => {
            if run.rounds.len() as u64 >= MAX_ROUNDS {
                return Err(format!("more than {MAX_ROUNDS} rounds"));
            }
            let round = block::decode_round(payload)?;
            case_exists(round.case, &run.header)?;
            run.rounds.push(round);
        }
        Kind::End => run.end = Some(block::decode_end(payload)?),
        Kind::Messages | Kind::Calls | Kind::Events => return Err(format!("{} among the rounds", kind.name())),
    }
    Ok(())
}

fn case_exists(case: u32, header: &RunHeader) -> Result<(), String> {
    let cases = header.plan.cases.len();
    if (case as usize) < cases { Ok(()) } else { Err(format!("case {case} of a plan with {cases} cases")) }
}

/// The per-message log of the run in `folder`, in the order in which it was written. Empty where the run has none.
///
/// # Errors
/// As [`header`], or a log that cannot be opened.
pub fn messages(folder: &Path) -> Result<Log<MessageRow>, RecordError> {
    let header = header(folder)?;
    let mut log = Log::open(folder, MESSAGES_FILE, header, decode_messages)?;
    log.missing = log.blocks.is_none() && log.header.plan.message_log > 0;
    Ok(log)
}

fn decode_messages(kind: Kind, payload: &[u8], rows: &mut Vec<MessageRow>, header: &RunHeader) -> Result<(), String> {
    expect(kind, Kind::Messages)?;
    columns::decode_messages(payload, rows)?;
    case_exists(rows[0].case, header)
}

/// The log of calls of the run in `folder`, in the order in which it was written. Empty where the run has none. The case
/// and the pair of every row are those of the header.
///
/// # Errors
/// As [`header`], or a log that cannot be opened.
pub fn rpcs(folder: &Path) -> Result<Log<RpcRow>, RecordError> {
    Log::open(folder, RPCS_FILE, header(folder)?, decode_calls)
}

fn decode_calls(kind: Kind, payload: &[u8], rows: &mut Vec<RpcRow>, header: &RunHeader) -> Result<(), String> {
    expect(kind, Kind::Calls)?;
    columns::decode_calls(payload, rows)?;
    case_exists(rows[0].case, header)?;
    let pairs = header.rpc.as_ref().map_or(0, |rpc| rpc.pairs.len());
    match rows.iter().find(|row| row.pair as usize >= pairs) {
        Some(row) => Err(format!("pair {} of a run with {pairs} pairs of machines", row.pair)),
        None => Ok(()),
    }
}

fn expect(found: Kind, expected: Kind) -> Result<(), String> {
    let what = || format!("{} among the {}", found.name(), expected.name());
    if found == expected { Ok(()) } else { Err(what()) }
}

/// Replaces the rows by those of a block, and checks them.
type Decode<T> = fn(Kind, &[u8], &mut Vec<T>, &RunHeader) -> Result<(), String>;

/// One row after the other; holds one block in memory. Ends with the first [`Damage`].
pub struct Log<T> {
    name: &'static str,
    header: RunHeader,
    decode: Decode<T>,
    blocks: Option<Blocks<BufReader<File>>>,
    missing: bool,
    payload: Vec<u8>,
    rows: Vec<T>,
    next: usize,
}

impl<T> Log<T> {
    fn open(folder: &Path, name: &'static str, header: RunHeader, decode: Decode<T>) -> Result<Self, RecordError> {
        let blocks = open(folder, name)?;
        Ok(Self { name, header, decode, blocks, missing: false, payload: Vec::new(), rows: Vec::new(), next: 0 })
    }

    /// Reads the next block into `self.rows`; `false` at the end of the file.
    fn refill(&mut self) -> Result<bool, String> {
        (self.next, _) = (0, self.rows.clear());
        if std::mem::take(&mut self.missing) {
            return Err("it is missing".into());
        }
        let Some(blocks) = &mut self.blocks else { return Ok(false) };
        let Some(kind) = blocks.next(&mut self.payload)? else { return Ok(false) };
        (self.decode)(kind, &self.payload, &mut self.rows, &self.header)?;
        Ok(true)
    }
}

impl<T: Copy> Iterator for Log<T> {
    type Item = Result<T, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.rows.len() {
            let offset = self.blocks.as_ref().map_or(0, |blocks| blocks.offset);
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(why) => {
                    self.blocks = None;
                    self.rows.clear();
                    return Some(Err(Damage { file: self.name.into(), offset, why }));
                }
            }
        }
        self.next += 1;
        Some(Ok(self.rows[self.next - 1]))
    }
}

/// Kernel events of one case and pass, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Case.
    pub case: u32,
    /// Pass.
    pub pass: u32,
    /// The events.
    pub events: Vec<KernelEvent>,
}

/// The kernel events of the run in `folder`, round by round: at most [`MAX_EVENTS`] each. Empty where the run has none.
///
/// # Errors
/// As [`header`], or a file that cannot be opened.
pub fn events(folder: &Path) -> Result<EventsOfRounds, RecordError> {
    let header = header(folder)?;
    let blocks = open(folder, EVENTS_FILE)?;
    Ok(EventsOfRounds { header, blocks, payload: Vec::new(), ahead: Events::default(), damage: None })
}

/// The events of one round after the other; holds one round and a block in memory. Ends with the first [`Damage`]; what
/// is whole of its round comes before it.
pub struct EventsOfRounds {
    header: RunHeader,
    blocks: Option<Blocks<BufReader<File>>>,
    payload: Vec<u8>,
    /// A block that was read and not yet given: the begin of its round.
    ahead: Events,
    damage: Option<Damage>,
}

impl EventsOfRounds {
    /// The next block; `None` at the end of the file.
    fn block(&mut self) -> Result<Option<Events>, String> {
        let Some(blocks) = &mut self.blocks else { return Ok(None) };
        let Some(kind) = blocks.next(&mut self.payload)? else { return Ok(None) };
        expect(kind, Kind::Events)?;
        let mut events = Vec::new();
        let (case, pass) = columns::decode_events(&self.payload, &mut events)?;
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
                        return Err(format!("more than {MAX_EVENTS} kernel events in a round"));
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
                Err(why) => {
                    self.blocks = None;
                    self.damage = Some(Damage { file: EVENTS_FILE.into(), offset, why });
                    break;
                }
            }
        }
        if round.events.is_empty() { self.damage.take().map(Err) } else { Some(Ok(round)) }
    }
}
