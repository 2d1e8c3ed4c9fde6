//! Reads a run back, as far as it is whole.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use msgpath_core::plan::MAX_ROUNDS;
use msgpath_core::schema::{MessageRow, RoundRecord, RunEnd, RunHeader, SCHEMA};
use serde::Deserialize;

use crate::block::{self, Blocks, Kind};
use crate::{HEADER_FILE, MESSAGES_FILE, ROUNDS_FILE, RecordError};

/// The largest `run.json` that is read, bytes.
const MAX_HEADER: u64 = 64 << 20;

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

/// Reads the run in `folder` up to the last whole block. Only the rounds are kept in memory; the per-message log is
/// checked as it passes, so that [`Run::damage`] speaks for it too.
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
        Kind::Messages => return Err("messages among the rounds".into()),
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
pub fn messages(folder: &Path) -> Result<Messages, RecordError> {
    let header = header(folder)?;
    let blocks = open(folder, MESSAGES_FILE)?;
    let missing = blocks.is_none() && header.plan.message_log > 0;
    Ok(Messages { header, blocks, missing, payload: Vec::new(), rows: Vec::new(), next: 0 })
}

/// One message after the other; holds one block in memory. Ends with the first [`Damage`].
pub struct Messages {
    header: RunHeader,
    blocks: Option<Blocks<BufReader<File>>>,
    missing: bool,
    payload: Vec<u8>,
    rows: Vec<MessageRow>,
    next: usize,
}

impl Messages {
    /// Reads the next block into `self.rows`; `false` at the end of the file.
    fn refill(&mut self) -> Result<bool, String> {
        (self.next, _) = (0, self.rows.clear());
        if std::mem::take(&mut self.missing) {
            return Err("it is missing".into());
        }
        let Some(blocks) = &mut self.blocks else { return Ok(false) };
        match blocks.next(&mut self.payload)? {
            None => return Ok(false),
            Some(Kind::Messages) => block::decode_messages(&self.payload, &mut self.rows)?,
            Some(_) => return Err("a round among the messages".into()),
        }
        case_exists(self.rows[0].case, &self.header)?;
        Ok(true)
    }
}

impl Iterator for Messages {
    type Item = Result<MessageRow, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.rows.len() {
            let offset = self.blocks.as_ref().map_or(0, |blocks| blocks.offset);
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(why) => {
                    self.blocks = None;
                    self.rows.clear();
                    return Some(Err(Damage { file: MESSAGES_FILE.into(), offset, why }));
                }
            }
        }
        self.next += 1;
        Some(Ok(self.rows[self.next - 1]))
    }
}
