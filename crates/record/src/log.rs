//! Logs of rows beside the rounds of a run: that of messages, and those of features.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use msgpath_core::plugged::Plugged;
use msgpath_core::schema::{MessageRow, RunHeader};

use crate::block::{Blocks, Fault, Head, Kind};
use crate::columns::{self, Logged};
use crate::error::WrittenBy;
use crate::reader::{self, case_exists, other_version};
use crate::{Damage, MESSAGES_FILE, OfCase, RecordError};

/// A log of a run: blocks of one case and pass each, in a file of its own.
pub trait RunLog: Logged<Row: OfCase + Copy> {
    /// Its file, within the folder of the run.
    const FILE: &'static str;
    const KIND: Kind;

    /// Whether a run of this header has the file, however few rows it holds.
    fn is_kept(_header: &RunHeader) -> bool {
        false
    }

    /// What the rows of a block cannot say in a run of this header.
    ///
    /// # Errors
    /// They say it.
    fn check(_rows: &[Self::Row], _header: &RunHeader) -> Result<(), String> {
        Ok(())
    }
}

impl RunLog for MessageRow {
    const FILE: &str = MESSAGES_FILE;
    const KIND: Kind = Kind::MESSAGES;

    fn is_kept(header: &RunHeader) -> bool {
        header.plan.message_log > 0
    }
}

/// A log as far as every reader of a run asks it.
pub struct AnyLog {
    damage: fn(&Path) -> Result<Option<Damage>, RecordError>,
}

/// Logs of features, which are checked where a run is read.
pub static LOGS: Plugged<AnyLog> = Plugged::new();

impl AnyLog {
    /// That of these rows.
    pub const fn of<L: RunLog>() -> Self {
        Self { damage: damage::<L> }
    }

    /// The first place at which it is not whole.
    ///
    /// # Errors
    /// As [`rows`], or another version wrote it.
    pub(crate) fn damage(&self, folder: &Path) -> Result<Option<Damage>, RecordError> {
        (self.damage)(folder)
    }
}

fn damage<L: RunLog>(folder: &Path) -> Result<Option<Damage>, RecordError> {
    let mut log = rows::<L>(folder)?;
    let damage = log.find_map(Result::err);
    match log.foreign {
        Some(by) => Err(other_version(&folder.join(L::FILE), by)),
        None => Ok(damage),
    }
}

/// The per-message log of the run in `folder`, in the order in which it was written. Empty where the run has none.
///
/// # Errors
/// As [`rows`].
pub fn messages(folder: &Path) -> Result<Log<MessageRow>, RecordError> {
    rows(folder)
}

/// A log of the run in `folder`, in the order in which it was written. Empty where the run has none. The case of every row is one
/// of the header.
///
/// # Errors
/// As [`header`](reader::header), or a log that cannot be opened.
pub fn rows<L: RunLog>(folder: &Path) -> Result<Log<L>, RecordError> {
    let header = reader::header(folder)?;
    let blocks = reader::open(folder, L::FILE, &[L::KIND])?;
    let missing = blocks.is_none() && L::is_kept(&header);
    let (foreign, payload, rows) = (None, Vec::new(), Vec::new());
    Ok(Log { header, blocks, missing, foreign, payload, rows, next: 0 })
}

/// Replaces the rows by those of a block, and checks them.
pub(crate) fn decode<L: RunLog>(
    head: &Head,
    payload: &[u8],
    rows: &mut Vec<L::Row>,
    header: &RunHeader,
) -> Result<(), Fault> {
    head.kind.is(L::KIND)?;
    case_exists(columns::decode::<L>(payload, rows)?.0, header)?;
    Ok(L::check(rows, header)?)
}

/// One row after the other; holds one block in memory. Ends with the first [`Damage`].
pub struct Log<L: RunLog> {
    header: RunHeader,
    blocks: Option<Blocks<BufReader<File>>>,
    missing: bool,
    /// Why it ended, where another version wrote the rest.
    foreign: Option<WrittenBy>,
    payload: Vec<u8>,
    rows: Vec<L::Row>,
    next: usize,
}

impl<L: RunLog> Log<L> {
    /// Reads the next block into `self.rows`; `false` at the end of the file.
    fn refill(&mut self) -> Result<bool, Fault> {
        (self.next, _) = (0, self.rows.clear());
        if std::mem::take(&mut self.missing) {
            return Err("it is missing".into());
        }
        let Some(blocks) = &mut self.blocks else { return Ok(false) };
        let Some(head) = blocks.next(&mut self.payload)? else { return Ok(false) };
        decode::<L>(&head, &self.payload, &mut self.rows, &self.header)?;
        Ok(true)
    }
}

impl<L: RunLog> Iterator for Log<L> {
    type Item = Result<L::Row, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.rows.len() {
            let offset = self.blocks.as_ref().map_or(0, |blocks| blocks.offset);
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => {
                    self.foreign = fault.foreign();
                    self.blocks = None;
                    self.rows.clear();
                    return Some(Err(Damage { file: L::FILE.into(), offset, why: fault.to_string() }));
                }
            }
        }
        self.next += 1;
        Some(Ok(self.rows[self.next - 1]))
    }
}
