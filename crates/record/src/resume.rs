//! A run that was cut short, opened to go on: read, locked against everybody else, its torn tails found. Nothing on disk
//! changes before [`CutShort::go_on`].

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use msgpath_core::resume::PassRecord;
use msgpath_core::schema::RunHeader;
use msgpath_core::varint;
use msgpath_sys::files::{append_regular, open_regular};

#[cfg(test)]
use crate::block::HEAD;
use crate::block::{self, Kind};
use crate::reader::{self, open};
use crate::writer::Appender;
use crate::{Damage, EVENTS_FILE, MESSAGES_FILE, ROUNDS_FILE, RecordError, Run, RunWriter};

/// A run that may go on.
pub struct CutShort {
    /// As far as it is whole. [`Run::damage`] is that of blocks that cannot be read although they were written whole: such
    /// a run cannot go on. A block that was cut off is not damage here.
    pub run: Run,
    /// The passes that were begun.
    pub passes: Vec<PassRecord>,
    /// Messages in the log, by case; those of rounds that are not there do not count.
    pub messages: BTreeMap<u32, u64>,
    folder: PathBuf,
    rounds: Appender<fs::File>,
    /// The files that lose their tail, and how long they will be.
    cuts: Vec<(&'static str, u64)>,
    /// Rounds and kernel events that are kept.
    kept: [u64; 2],
}

/// What a log has of the rounds that are there.
#[derive(Default)]
struct Kept {
    /// Up to here.
    length: u64,
    /// Rows by case.
    rows: BTreeMap<u32, u64>,
    /// What is neither that nor the tail of a program that was killed.
    damage: Option<Damage>,
}

impl CutShort {
    /// Opens the run in `folder`.
    ///
    /// # Errors
    /// It cannot be read, was written in an older form that has no pilots ([`RecordError::OtherVersion`]), or goes on at
    /// this moment ([`RecordError::Busy`]).
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        let header = reader::header(folder)?;
        if header.schema != msgpath_core::schema::SCHEMA {
            let (file, by) = (folder.join(crate::HEADER_FILE), crate::WrittenBy::Older);
            return Err(RecordError::OtherVersion { file, by });
        }
        let rounds = Appender::open(folder, ROUNDS_FILE)?;
        // Read when nobody else writes.
        let (mut run, passes) = reader::read_with_passes(folder)?;
        let mut cuts = Vec::new();
        let torn = match &run.damage {
            Some(damage) if damage.file == ROUNDS_FILE => {
                is_torn(folder, ROUNDS_FILE, damage.offset, &[])?.then_some(damage.offset)
            }
            _ => None,
        };
        if let Some(length) = torn {
            cuts.push((ROUNDS_FILE, length));
            run.damage = None;
        } else if run.end.is_some() {
            cuts.push((ROUNDS_FILE, begin_of_end(folder)?));
        }
        // What a log has beyond the rounds, whole or torn, is measured again.
        let measured: HashSet<(u32, u32)> = run.rounds.iter().map(|round| (round.case, round.pass)).collect();
        let mut kept = [BTreeMap::new(), BTreeMap::new()];
        for (name, rows) in [MESSAGES_FILE, EVENTS_FILE].into_iter().zip(&mut kept) {
            let Some(log) = kept_of(folder, name, &measured)? else { continue };
            if run.damage.as_ref().is_some_and(|damage| damage.file == name) || run.damage.is_none() {
                run.damage = log.damage;
            }
            *rows = log.rows;
            if fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > log.length) {
                cuts.push((name, log.length));
            }
        }
        let [messages, events] = kept;
        let kept = [run.rounds.len() as u64, events.values().sum()];
        Ok(Self { run, passes, messages, folder: folder.into(), rounds, cuts, kept })
    }

    /// Removes the torn tails and the end, writes the header anew, and gives the writer that appends what is missing.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn go_on(self, header: &RunHeader) -> Result<RunWriter, RecordError> {
        let Self { run, messages, folder, rounds, cuts, kept: [done, events], .. } = self;
        for (name, length) in cuts {
            let path = folder.join(name);
            let cut = append_regular(&path, false).and_then(|file| file.set_len(length));
            cut.map_err(|source| RecordError::Create { file: path, source })?;
        }
        let not_kept = run.end.map_or(0, |end| end.messages_not_kept);
        let kept = [done, messages.values().sum(), not_kept, events];
        RunWriter::go_on(&folder, header, rounds, kept)
    }
}

/// Whether the file ends with a block that was cut off, which begins here.
pub fn is_torn(folder: &Path, name: &str, offset: u64, own: &[Kind]) -> Result<bool, RecordError> {
    let file = folder.join(name);
    let mut rest = Vec::new();
    let read = open_regular(&file).and_then(|mut input| {
        input.seek(SeekFrom::Start(offset))?;
        input.take(block::LARGEST).read_to_end(&mut rest)
    });
    read.map_err(|source| RecordError::Read { file, source })?;
    Ok(block::is_torn(&rest, own))
}

/// Where the last block begins, which is the end.
fn begin_of_end(folder: &Path) -> Result<u64, RecordError> {
    let (mut payload, mut begin) = (Vec::new(), 0);
    if let Some(mut blocks) = open(folder, ROUNDS_FILE, &[])? {
        loop {
            let at = blocks.offset;
            match blocks.next(&mut payload) {
                Ok(Some(head)) if head.kind == Kind::END => begin = at,
                Ok(Some(_)) => {}
                _ => break,
            }
        }
    }
    Ok(begin)
}

/// What a log has of the rounds that are there; `None`: there is no such log.
fn kept_of(folder: &Path, name: &str, measured: &HashSet<(u32, u32)>) -> Result<Option<Kept>, RecordError> {
    let Some(mut blocks) = open(folder, name, &[])? else { return Ok(None) };
    let (mut payload, mut kept, mut beyond) = (Vec::new(), Kept::default(), false);
    loop {
        let offset = blocks.offset;
        let damage = |why: String| Some(Damage { file: name.into(), offset, why });
        match blocks.next(&mut payload) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(fault) => {
                if !is_torn(folder, name, offset, &[])? {
                    kept.damage = damage(fault.to_string());
                }
                break;
            }
        }
        let mut bytes = payload.as_slice();
        let [rows, case, pass] = [(); 3].map(|()| varint::take(&mut bytes).unwrap_or(u64::MAX));
        match (u32::try_from(case), u32::try_from(pass)) {
            (Ok(case), Ok(pass)) if measured.contains(&(case, pass)) => {
                if beyond {
                    kept.damage = damage("rows of a round that is not there stand before it".into());
                    break;
                }
                // The reader has checked that there are at most 65536.
                *kept.rows.entry(case).or_default() += rows.min(block::MAX_ROWS as u64);
                kept.length = blocks.offset;
            }
            _ => beyond = true,
        }
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read, test_run};
    use msgpath_core::schema::Status;

    /// A run of two passes, the second of which lacks its last round, and no end: as a program leaves it that is killed.
    fn killed(folder: &Path) -> RunHeader {
        let header = test_run::header(1000);
        let mut writer = RunWriter::create(folder, &header).unwrap();
        for (pass, case) in [(0, 0), (0, 1), (1, 0)] {
            if case == 0 {
                writer.pass(&test_run::pass(pass)).unwrap();
            }
            writer.events(case, pass, &test_run::events(3)).unwrap();
            writer.round(&test_run::round(case, pass), &test_run::rows(case, pass, 10)).unwrap();
        }
        header
    }

    /// What is missing, as if the run had not been cut short.
    fn finish(mut writer: RunWriter) {
        writer.events(1, 1, &test_run::events(3)).unwrap();
        writer.round(&test_run::round(1, 1), &test_run::rows(1, 1, 10)).unwrap();
        writer.finish(test_run::end(Status::Ok)).unwrap();
    }

    fn bytes(folder: &Path) -> [Vec<u8>; 3] {
        [ROUNDS_FILE, MESSAGES_FILE, EVENTS_FILE].map(|name| fs::read(folder.join(name)).unwrap())
    }

    #[test]
    fn a_run_that_goes_on_is_as_if_it_had_never_stopped() {
        let place = tempfile::tempdir().unwrap();
        let (whole, cut) = (place.path().join("whole"), place.path().join("cut"));
        let header = killed(&whole);
        let before = bytes(&whole);
        finish(CutShort::open(&whole).unwrap().go_on(&header).unwrap());
        let after = bytes(&whole);
        // Killed anywhere while the last round was written: events first, then messages, then the round.
        for (file, name) in
            [EVENTS_FILE, MESSAGES_FILE, ROUNDS_FILE].into_iter().enumerate().map(|(at, name)| (2 - at, name))
        {
            let [from, to] = [before[file].len(), after[file].len()];
            for length in (from..to).step_by(7) {
                let _ = fs::remove_dir_all(&cut);
                killed(&cut);
                for (other, part) in [(2, EVENTS_FILE), (1, MESSAGES_FILE), (0, ROUNDS_FILE)] {
                    let written = match other.cmp(&file) {
                        std::cmp::Ordering::Greater => after[other].len(),
                        std::cmp::Ordering::Equal => length,
                        std::cmp::Ordering::Less => before[other].len(),
                    };
                    fs::write(cut.join(part), &after[other][..written]).unwrap();
                }
                let open = CutShort::open(&cut).unwrap();
                assert_eq!(open.run.damage, None, "{name} of {length} bytes");
                if open.run.rounds.len() == 4 {
                    continue; // what is cut is the end alone
                }
                assert_eq!((open.run.rounds.len(), open.passes.len()), (3, 2));
                assert_eq!(open.messages, [(0, 20), (1, 10)].into());
                finish(open.go_on(&header).unwrap());
                assert!(bytes(&cut) == after, "{name} of {length} bytes");
                assert_eq!(read(&cut).unwrap().damage, None);
            }
        }
    }

    #[test]
    fn the_end_of_a_run_that_was_interrupted_makes_room() {
        let place = tempfile::tempdir().unwrap();
        let header = test_run::header(1000);
        let mut writer = RunWriter::create(place.path(), &header).unwrap();
        writer.round(&test_run::round(0, 0), &test_run::rows(0, 0, 10)).unwrap();
        writer.finish(test_run::end(Status::Partial)).unwrap();
        drop(writer);
        let open = CutShort::open(place.path()).unwrap();
        assert_eq!(open.run.end.as_ref().map(|end| end.status), Some(Status::Partial));
        finish(open.go_on(&header).unwrap());
        let run = read(place.path()).unwrap();
        assert_eq!((run.rounds.len(), run.end.map(|end| end.status), run.damage), (2, Some(Status::Ok), None));
    }

    #[test]
    fn a_run_that_goes_on_is_let_alone() {
        let place = tempfile::tempdir().unwrap();
        let writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
        assert!(matches!(CutShort::open(place.path()), Err(RecordError::Busy { .. })));
        drop(writer);
        let first = CutShort::open(place.path()).unwrap();
        assert!(matches!(CutShort::open(place.path()), Err(RecordError::Busy { .. })));
        drop(first);
        assert!(CutShort::open(place.path()).is_ok());
    }

    #[test]
    fn damage_in_the_middle_stays_damage() {
        for name in [ROUNDS_FILE, MESSAGES_FILE, EVENTS_FILE] {
            let place = tempfile::tempdir().unwrap();
            killed(place.path());
            let mut bytes = fs::read(place.path().join(name)).unwrap();
            bytes[HEAD + 3] ^= 1;
            fs::write(place.path().join(name), &bytes).unwrap();
            let open = CutShort::open(place.path()).unwrap();
            let damage = open.run.damage.unwrap();
            assert!(damage.file == name && damage.offset == 0, "{damage}");
        }
    }
}
