//! Logs round by round and as often as somebody asks: whoever folds over one holds a round at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};

use msgpath_core::schema::{MessageRow, RunHeader};
use msgpath_core::{Case, Plan};

use crate::block::{Blocks, Fault, Head, Kind};
use crate::columns::OfCase;
use crate::log::{self, RunLog};
use crate::reader::{self, Run};
use crate::{RecordError, columns};

pub const NO_MESSAGES: [MessageRow; 0] = [];

/// Rows of a log that can be gone through again and again.
pub trait Rows<T> {
    /// Case, pass and number of rows of each round, in the order of the log.
    fn index(&self) -> Vec<(u32, u32, usize)>;

    /// Gives `each` the rows of every round whose case and pass are `wanted`, in the order of the log.
    fn rounds(&self, wanted: &dyn Fn(u32, u32) -> bool, each: &mut dyn FnMut(&[T]));
}

pub trait Messages: Rows<MessageRow> {}
impl<M: Rows<MessageRow> + ?Sized> Messages for M {}

/// What is in memory: a round is where its first row is.
impl<T: OfCase + Copy, S: AsRef<[T]> + ?Sized> Rows<T> for S {
    fn index(&self) -> Vec<(u32, u32, usize)> {
        let mut all = Vec::new();
        self.rounds(&|_, _| true, &mut |rows| {
            let (case, pass) = rows[0].place();
            all.push((case, pass, rows.len()));
        });
        all
    }

    fn rounds(&self, wanted: &dyn Fn(u32, u32) -> bool, each: &mut dyn FnMut(&[T])) {
        let mut places = BTreeMap::new();
        let mut rounds: Vec<Vec<T>> = Vec::new();
        for row in self.as_ref() {
            let (case, pass) = row.place();
            if wanted(case, pass) {
                let at = *places.entry((case, pass)).or_insert(rounds.len());
                rounds.resize_with(rounds.len().max(at + 1), Vec::new);
                rounds[at].push(*row);
            }
        }
        rounds.iter().for_each(|rows| each(rows));
    }
}

/// Reads the rows of a block.
type Decode<T> = fn(&Head, &[u8], &mut Vec<T>, &RunHeader) -> Result<(), Fault>;

/// A log of a run on disk, as far as it is whole.
#[derive(Debug)]
pub struct RoundLog<T> {
    from: Option<Opened<T>>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Opened<T> {
    file: File,
    header: RunHeader,
    own: Kind,
    decode: Decode<T>,
}

/// The per-message log.
pub type MessageLog = RoundLog<MessageRow>;

#[derive(Debug)]
struct Block {
    case: u32,
    pass: u32,
    rows: usize,
    offset: u64,
}

impl<T> Default for RoundLog<T> {
    fn default() -> Self {
        Self { from: None, blocks: Vec::new() }
    }
}

impl MessageLog {
    /// The messages of a run's measured cases; empty where the log is not kept or has none. Those of ablations explain them.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(run: &Run) -> Result<Self, RecordError> {
        Self::of::<MessageRow>(run, |case| case.ablation.is_none())
    }

    /// The messages of a run's measured cases and of their traced replicas.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_traced(run: &Run) -> Result<Self, RecordError> {
        Self::of::<MessageRow>(run, |case| case.ablation.is_none() || Plan::traced(case).is_some())
    }

    /// The messages of a run's traced replicas.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn traced(run: &Run) -> Result<Self, RecordError> {
        Self::of::<MessageRow>(run, |case| Plan::traced(case).is_some())
    }
}

impl<T> RoundLog<T> {
    /// The rows of a run that are of these cases; empty where the log is not kept or has none.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of<L: RunLog<Row = T>>(run: &Run, kept: impl Fn(&Case) -> bool) -> Result<Self, RecordError> {
        let cases = &run.header.plan.cases;
        let unkept = run.folder.as_os_str().is_empty();
        let Some(mut input) = (if unkept { None } else { reader::open(&run.folder, L::FILE, &[L::KIND])? }) else {
            return Ok(Self::default());
        };
        let (mut blocks, mut payload) = (Vec::new(), Vec::new());
        loop {
            let offset = input.offset;
            let Ok(Some(head)) = input.next(&mut payload) else { break };
            let place = columns::take_head(&mut payload.as_slice()).filter(|_| head.kind == L::KIND);
            let Some((rows, case, pass)) = place else { break };
            match cases.get(case as usize) {
                Some(known) if kept(known) => blocks.push(Block { case, pass, rows, offset }),
                Some(_) => {}
                None => break,
            }
        }
        let (file, header) = (input.into_inner().into_inner(), run.header.clone());
        Ok(Self { from: Some(Opened { file, header, own: L::KIND, decode: log::decode::<L> }), blocks })
    }
}

impl<T> Rows<T> for RoundLog<T> {
    fn index(&self) -> Vec<(u32, u32, usize)> {
        let rounds = self.blocks.chunk_by(|a, b| (a.case, a.pass) == (b.case, b.pass));
        rounds.map(|round| (round[0].case, round[0].pass, round.iter().map(|block| block.rows).sum())).collect()
    }

    fn rounds(&self, wanted: &dyn Fn(u32, u32) -> bool, each: &mut dyn FnMut(&[T])) {
        let Some(Opened { file, header, own, decode }) = &self.from else { return };
        let mut input = BufReader::new(file);
        let (mut payload, mut rows, mut round) = (Vec::new(), Vec::new(), Vec::new());
        for blocks in self.blocks.chunk_by(|a, b| (a.case, a.pass) == (b.case, b.pass)) {
            if !wanted(blocks[0].case, blocks[0].pass) {
                continue;
            }
            round.clear();
            for block in blocks {
                // What was whole a moment ago and is not any more ends the log.
                let Ok(_) = input.seek(SeekFrom::Start(block.offset)) else { return };
                let Ok(Some(head)) = Blocks::with(&mut input, &[*own]).next(&mut payload) else { return };
                let Ok(()) = decode(&head, &payload, &mut rows, header) else { return };
                match round.is_empty() {
                    true => std::mem::swap(&mut round, &mut rows),
                    false => round.append(&mut rows),
                }
            }
            each(&round);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::MAX_ROWS;
    use crate::{MESSAGES_FILE, RunWriter, test_run};

    fn all(messages: &dyn Messages, wanted: &dyn Fn(u32, u32) -> bool) -> Vec<Vec<MessageRow>> {
        let mut found = Vec::new();
        messages.rounds(wanted, &mut |rows| found.push(rows.to_vec()));
        found
    }

    #[test]
    fn rounds_come_whole_and_as_often_as_they_are_wanted() {
        let place = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(place.path(), &test_run::header(u64::MAX)).unwrap();
        let mut written = Vec::new();
        for (case, pass, count) in [(0, 0, MAX_ROWS as u64 + 7), (1, 0, 10), (1, 1, 5), (0, 1, 3)] {
            let rows = test_run::rows(case, pass, count);
            writer.round(&test_run::round(case, pass), &rows).unwrap();
            written.push(rows);
        }
        let run = reader::read(place.path()).unwrap();
        let log = MessageLog::open(&run).unwrap();
        let index = [(0, 0, MAX_ROWS + 7), (1, 0, 10), (1, 1, 5), (0, 1, 3)];
        assert_eq!((log.index().as_slice(), written.concat().index().as_slice()), (&index[..], &index[..]));
        for _ in 0..2 {
            assert!(all(&log, &|_, _| true) == written);
            assert!(all(&log, &|case, pass| (case, pass) != (0, 0)) == written[1..]);
            assert!(all(&written.concat(), &|case, _| case == 1) == written[1..3]);
        }
        // A log that is cut off is read as far as it is whole; a run that is not kept has none.
        let file = place.path().join(MESSAGES_FILE);
        let length = std::fs::metadata(&file).unwrap().len();
        File::options().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
        assert!(all(&log, &|_, _| true) == written[..3]);
        assert_eq!(MessageLog::open(&run).unwrap().index(), index[..3]);
        assert!(MessageLog::open(&Run { folder: Default::default(), ..run }).unwrap().index().is_empty());
        assert!(all(&MessageLog::default(), &|_, _| true).is_empty());
    }
}
