//! Writes a run, block by block, so that what was measured is on disk before the next round begins.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use msgpath_core::resume::PassRecord;
use msgpath_core::schema::{KernelEvent, MessageRow, RoundRecord, RunEnd, RunHeader};
use msgpath_sys::files::{Output, append_regular};

use crate::block::{self, Kind, MAX_ROWS};
use crate::log::RunLog;
use crate::reader::MAX_EVENTS;
use crate::{EVENTS_FILE, HEADER_FILE, MESSAGES_FILE, OfCase, ROUNDS_FILE, RecordError, columns, reader};

/// A file that can lose its tail.
pub trait Cut: Write {
    /// Leaves so many bytes.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Cut for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// How often, and with which pause, a lock is asked for.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Appends whole blocks.
pub struct Appender<F> {
    file: F,
    /// Bytes of whole blocks.
    length: u64,
}

/// Modes of new files and folders. Only the user writes them, whatever the umask is: a record that others may have written is not obeyed
/// ([`crate::owner`]). What may be about programs of others is for the user alone.
const SHARED: u32 = 0o644;
pub const FOLDER_MODE: u32 = 0o755;
/// Of the folder of what was seen of programs that may be others'.
pub const PRIVATE_FOLDER_MODE: u32 = 0o700;
const PRIVATE: u32 = 0o600;

impl Appender<File> {
    pub(crate) fn create(path: &Path) -> Result<Self, RecordError> {
        Self::create_with(path, SHARED)
    }

    /// For what was seen of programs that may be others': nobody else reads it.
    ///
    /// # Errors
    /// It is there already, or cannot be written.
    pub fn create_private(path: &Path) -> Result<Self, RecordError> {
        Self::create_with(path, PRIVATE)
    }

    fn create_with(path: &Path, mode: u32) -> Result<Self, RecordError> {
        let file = OpenOptions::new().append(true).create_new(true).mode(mode).open(path);
        let file = file.map_err(|source| RecordError::Create { file: path.into(), source })?;
        Ok(Self { file, length: 0 })
    }

    /// A new file, for the one process that writes it.
    pub fn create_locked(path: &Path) -> Result<Self, RecordError> {
        let new = Self::create(path)?;
        // A file system without locks is not a reason not to measure.
        let _ = new.file.try_lock();
        Ok(new)
    }

    /// Removes what follows so many bytes.
    pub fn cut_to(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }

    /// A file that is there, for the one process that writes it: it is locked until the process ends.
    pub fn open(folder: &Path, name: &str) -> Result<Self, RecordError> {
        let path = folder.join(name);
        let file = append_regular(&path, false);
        let file = file.map_err(|source| RecordError::Create { file: path, source })?;
        // A child that has just been forked holds the lock of a process that was killed, until it starts its program.
        let free = (0..LOCK_TRIES).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
        });
        if free { Ok(Self { file, length: 0 }) } else { Err(RecordError::Busy { folder: folder.into() }) }
    }
}

impl<F: Cut> Appender<F> {
    /// Hands the block to the kernel in one write. What a full disk took of it is removed again, so that the file stays
    /// whole; should that fail too, the reader stops before the piece.
    ///
    /// # Errors
    /// As write(2).
    pub fn append(&mut self, block: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(block) {
            let _ = self.file.cut(self.length);
            return Err(error);
        }
        self.length += block.len() as u64;
        Ok(())
    }
}

/// A run that is being recorded.
pub struct RunWriter {
    folder: PathBuf,
    rounds: Appender<File>,
    messages: Option<Appender<File>>,
    /// Created when the first events come.
    events: Option<Appender<File>>,
    /// Those of features, each created when its first rows come: what the rows are, and how many are kept.
    logs: Vec<(&'static str, Appender<File>, u64)>,
    message_limit: u64,
    rounds_kept: u64,
    messages_kept: u64,
    messages_not_kept: u64,
    events_kept: u64,
    /// Checksum of the header as it stands on disk.
    header_crc32: u32,
    finished: bool,
}

impl RunWriter {
    /// Creates `folder` (and those above it) and writes the header whole.
    ///
    /// # Errors
    /// A folder that holds something already, one that cannot be written, or a header that could not be read back.
    pub fn create(folder: &Path, header: &RunHeader) -> Result<RunWriter, RecordError> {
        let cannot = |file: &Path, source| RecordError::Create { file: file.into(), source };
        let path = folder.join(HEADER_FILE);
        let json = checked_bytes(&path, header)?;
        make_folder(folder, FOLDER_MODE).map_err(|source| cannot(folder, source))?;
        if fs::read_dir(folder).map_err(|source| cannot(folder, source))?.next().is_some() {
            return Err(RecordError::NotEmpty { folder: folder.into() });
        }
        // Until this process ends nobody else goes on with the run.
        let rounds = Appender::create_locked(&folder.join(ROUNDS_FILE))?;
        let message_limit = header.plan.message_log;
        let messages = (message_limit > 0).then(|| Appender::create(&folder.join(MESSAGES_FILE))).transpose()?;
        // Last, and under its name only when whole: a folder with a header is a run.
        write_whole(&path, &json).map_err(|source| cannot(&path, source))?;
        Ok(RunWriter {
            folder: folder.into(),
            rounds,
            messages,
            events: None,
            logs: Vec::new(),
            message_limit,
            rounds_kept: 0,
            messages_kept: 0,
            messages_not_kept: 0,
            events_kept: 0,
            header_crc32: crc32fast::hash(&json),
            finished: false,
        })
    }

    /// Goes on with a run that was cut short, from files that are whole: `rounds` is the one of that name, locked. `kept` are
    /// the rounds, the messages, those that were not kept, and the kernel events that are there.
    ///
    /// # Errors
    /// A file that cannot be written, or a header that could not be read back.
    pub(crate) fn go_on(
        folder: &Path,
        header: &RunHeader,
        rounds: Appender<File>,
        kept: [u64; 4],
    ) -> Result<RunWriter, RecordError> {
        let mut rounds = rounds;
        rounds.length = length_of(&folder.join(ROUNDS_FILE));
        let message_limit = header.plan.message_log;
        let log = |name| {
            let path = folder.join(name);
            let file = append_regular(&path, true);
            let file = file.map_err(|source| RecordError::Create { file: path.clone(), source })?;
            Ok(Appender { file, length: length_of(&path) })
        };
        let messages = (message_limit > 0).then(|| log(MESSAGES_FILE)).transpose()?;
        let events = folder.join(EVENTS_FILE).exists().then(|| log(EVENTS_FILE)).transpose()?;
        let [rounds_kept, messages_kept, messages_not_kept, events_kept] = kept;
        let mut writer = RunWriter {
            folder: folder.into(),
            rounds,
            messages,
            events,
            logs: Vec::new(),
            message_limit,
            rounds_kept,
            messages_kept,
            messages_not_kept,
            events_kept,
            header_crc32: 0,
            finished: false,
        };
        writer.replace_header(header)?;
        Ok(writer)
    }

    /// Writes the header anew: cases were added to the plan while the run went on. It is replaced whole.
    ///
    /// # Errors
    /// A write that failed (the old header stays), a header that could not be read back, or a run that has ended.
    pub fn replace_header(&mut self, header: &RunHeader) -> Result<(), RecordError> {
        self.not_ended("a header")?;
        let path = self.folder.join(HEADER_FILE);
        let json = checked_bytes(&path, header)?;
        write_whole(&path, &json).map_err(|source| RecordError::Create { file: path, source })?;
        self.header_crc32 = crc32fast::hash(&json);
        Ok(())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a round and its messages, these first. Messages beyond the limit of the plan are counted, not kept.
    ///
    /// # Errors
    /// A write that failed (what was written before stays whole), or a value that could not be read back: a message of
    /// another case or pass, an absurd number.
    pub fn round(&mut self, round: &RoundRecord, messages: &[MessageRow]) -> Result<(), RecordError> {
        self.not_ended("a round")?;
        if messages.iter().any(|row| (row.case, row.pass) != (round.case, round.pass)) {
            return Err(RecordError::Unrecordable("a message of another case or pass than its round".into()));
        }
        let block = framed(Kind::ROUND, block::encode_round(round))?;
        let room = self.message_limit.saturating_sub(self.messages_kept);
        let (kept, rest) = messages.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(messages.len()));
        for rows in kept.chunks(MAX_ROWS) {
            self.append_messages(rows)?;
            self.messages_kept += rows.len() as u64;
        }
        self.messages_not_kept += rest.len() as u64;
        // Last: a round that is there has its messages.
        self.append_round_block(&block)?;
        self.rounds_kept += 1;
        Ok(())
    }

    /// Appends the order of a pass that begins.
    ///
    /// # Errors
    /// As [`Self::round`].
    pub fn pass(&mut self, pass: &PassRecord) -> Result<(), RecordError> {
        self.not_ended("a pass")?;
        let block = framed(Kind::PASS, block::encode_pass(pass))?;
        self.append_round_block(&block)
    }

    /// Appends rows of one case and pass to the log of a feature, all of them: nothing limits their number here. They may come
    /// before or after their round, and in several calls. A row that [`RunLog::check`] refuses is damage to the reader.
    ///
    /// # Errors
    /// As [`Self::round`].
    pub fn rows<L: RunLog>(&mut self, rows: &[L::Row]) -> Result<(), RecordError> {
        self.not_ended(L::WHAT)?;
        let Some((case, pass)) = rows.first().map(OfCase::place) else { return Ok(()) };
        if rows.iter().any(|row| row.place() != (case, pass)) {
            return Err(RecordError::Unrecordable(format!("{} of several cases or passes at once", L::WHAT)));
        }
        let at = match self.logs.iter().position(|(what, ..)| *what == L::WHAT) {
            Some(at) => at,
            None => {
                self.logs.push((L::WHAT, Appender::create(&self.folder.join(L::FILE))?, 0));
                self.logs.len() - 1
            }
        };
        for rows in rows.chunks(MAX_ROWS) {
            let block = framed(L::KIND, columns::encode::<L>(case, pass, rows))?;
            self.logs[at].1.append(&block).map_err(|source| self.failed(L::FILE, source))?;
            self.logs[at].2 += rows.len() as u64;
        }
        Ok(())
    }

    /// Appends the kernel events of a traced round, in the order of time: at most [`MAX_EVENTS`]. They come before their
    /// round, so that a round that is there has its events.
    ///
    /// # Errors
    /// As [`Self::round`]; events out of order, or too many of them.
    pub fn events(&mut self, case: u32, pass: u32, events: &[KernelEvent]) -> Result<(), RecordError> {
        self.not_ended("kernel events")?;
        if events.len() > MAX_EVENTS || !events.is_sorted_by_key(|event| event.t_ns) {
            let why =
                format!("{} kernel events of a round, or some out of order; the limit is {MAX_EVENTS}", events.len());
            return Err(RecordError::Unrecordable(why));
        }
        for events in events.chunks(MAX_ROWS) {
            let block = framed(Kind::EVENTS, columns::encode::<KernelEvent>(case, pass, events))?;
            let log = match &mut self.events {
                Some(log) => log,
                none => none.insert(Appender::create(&self.folder.join(EVENTS_FILE))?),
            };
            log.append(&block).map_err(|source| self.failed(EVENTS_FILE, source))?;
            self.events_kept += events.len() as u64;
        }
        Ok(())
    }

    /// Writes how the run ended, with the number of messages that were not kept and the checksum of the header, and
    /// returns it.
    ///
    /// # Errors
    /// A write that failed, or a second end.
    pub fn finish(&mut self, end: RunEnd) -> Result<RunEnd, RecordError> {
        if self.finished {
            return Err(RecordError::Unrecordable("a second end of the run".into()));
        }
        let header_crc32 = Some(self.header_crc32);
        let end = RunEnd { messages_not_kept: self.messages_not_kept, header_crc32, ..end };
        let block = framed(Kind::END, block::encode_end(&end))?;
        self.append_round_block(&block)?;
        self.finished = true;
        Ok(end)
    }

    fn not_ended(&self, what: &str) -> Result<(), RecordError> {
        match self.finished {
            true => Err(RecordError::Unrecordable(format!("{what} after the end of the run"))),
            false => Ok(()),
        }
    }

    fn append_round_block(&mut self, block: &[u8]) -> Result<(), RecordError> {
        self.rounds.append(block).map_err(|source| self.failed(ROUNDS_FILE, source))
    }

    fn append_messages(&mut self, rows: &[MessageRow]) -> Result<(), RecordError> {
        let Some(log) = &mut self.messages else { return Ok(()) };
        let block = framed(Kind::MESSAGES, columns::encode::<MessageRow>(rows[0].case, rows[0].pass, rows))?;
        log.append(&block).map_err(|source| self.failed(MESSAGES_FILE, source))
    }

    fn failed(&self, file: &str, source: io::Error) -> RecordError {
        // Of a name in the plural.
        let count = |number: u64, things: &str| match things.strip_suffix('s') {
            Some(thing) if number == 1 => format!("1 {thing}"),
            _ => format!("{number} {things}"),
        };
        let mut kept = count(self.rounds_kept, "rounds");
        let messages = self.messages.is_some().then_some(("messages", self.messages_kept));
        let events = self.events.is_some().then_some(("kernel events", self.events_kept));
        let others = self.logs.iter().map(|(what, _, number)| (*what, *number));
        for (things, number) in messages.into_iter().chain(others).chain(events) {
            kept = format!("{kept} and {}", count(number, things));
        }
        RecordError::Write {
            file: self.folder.join(file),
            kept: format!("kept: {kept} in {}", self.folder.display()),
            source,
        }
    }
}

fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// A whole block of what was encoded.
///
/// # Errors
/// What cannot be encoded, or is too long.
pub fn framed(kind: Kind, payload: Result<Vec<u8>, String>) -> Result<Vec<u8>, RecordError> {
    payload.and_then(|payload| block::frame(kind, &payload)).map_err(RecordError::Unrecordable)
}

/// The header as it is written, if it can be read back.
fn checked_bytes(path: &Path, header: &RunHeader) -> Result<Vec<u8>, RecordError> {
    let json = reader::header_bytes(header).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
    let read_back = reader::parse_header(path, &json).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
    match read_back == *header {
        true => Ok(json),
        false => Err(RecordError::Unrecordable("the header is not read back as it was written".into())),
    }
}

/// Writes a file beside its place, forces it to the disk, and puts it there in one step.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::replacing(path)?;
    output.write_all(bytes)?;
    output.finish_on_disk()
}

/// The same for what was seen of programs that may be others': nobody else reads it.
///
/// # Errors
/// As open(2), write(2) and rename(2).
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::private(path)?;
    output.write_all(bytes)?;
    output.finish_on_disk()
}

/// Makes the folder of a record, and those above it.
///
/// # Errors
/// As mkdir(2), but for one that is there.
pub fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LOGS;
    use crate::test_run::{NOTES, Note};
    use crate::{Damage, Events, RoundLog, Rows, messages, read, test_run};
    use msgpath_core::schema::Status;
    use msgpath_core::{Exit, Problem};

    /// A disk with room for so many bytes.
    struct SmallDisk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for SmallDisk {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            let taken = buffer.len().min(self.room - self.bytes.len());
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&buffer[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Cut for SmallDisk {
        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_blocks() {
        let mut appender = Appender { file: SmallDisk { bytes: Vec::new(), room: 10 }, length: 0 };
        appender.append(b"123456").unwrap();
        assert_eq!(appender.append(b"123456").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(appender.file.bytes, b"123456");
        appender.append(b"1234").unwrap();
    }

    #[test]
    fn a_full_disk_is_an_error_that_says_what_is_kept() {
        for file in [ROUNDS_FILE, MESSAGES_FILE] {
            let place = tempfile::tempdir().unwrap();
            let mut writer = RunWriter::create(&place.path().join("run"), &test_run::header(100)).unwrap();
            writer.round(&test_run::round(0, 0), &test_run::rows(0, 0, 10)).unwrap();
            let full = File::options().append(true).open("/dev/full").unwrap();
            if file == ROUNDS_FILE {
                writer.rounds.file = full;
            } else {
                writer.messages.as_mut().unwrap().file = full;
            }
            let error = writer.round(&test_run::round(1, 0), &test_run::rows(1, 0, 10)).unwrap_err();
            let problem = Problem::from(error);
            assert_eq!((problem.code.as_str(), problem.exit), ("E12", Exit::Unfinished));
            assert!(problem.what.contains(file) && problem.what.contains("No space left"), "{problem}");
            let messages = if file == ROUNDS_FILE { "20 messages" } else { "10 messages" };
            assert!(problem.why.contains("1 round and") && problem.why.contains(messages), "{problem}");
            let run = read(writer.folder()).unwrap();
            assert_eq!((run.end, run.damage), (None, None));
        }
    }

    /// Wants a file system of a few hundred KiB in `MSGPATH_SMALL_DISK`: `mount -t tmpfs -o size=256k none FOLDER`.
    #[test]
    fn a_disk_that_fills_up_keeps_what_was_written() {
        let Some(disk) = std::env::var_os("MSGPATH_SMALL_DISK") else {
            eprintln!("skipped: MSGPATH_SMALL_DISK names no small file system");
            return;
        };
        let place = tempfile::tempdir_in(disk).unwrap();
        let mut writer = RunWriter::create(&place.path().join("run"), &test_run::header(u64::MAX)).unwrap();
        let error =
            (0..10_000).find_map(|pass| writer.round(&test_run::round(0, pass), &test_run::rows(0, pass, 100)).err());
        let run = read(writer.folder()).unwrap();
        assert_eq!(run.damage, None);
        assert_eq!(run.rounds.len() as u64, writer.rounds_kept);
        assert_eq!(messages(writer.folder()).unwrap().count() as u64, writer.messages_kept);
        assert!(run.rounds.len() > 10);
        assert_eq!(Problem::from(error.expect("the disk is too large")).exit, Exit::Unfinished);
    }

    #[test]
    fn a_run_comes_back_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let written = test_run::write(place.path(), 15);
        let run = read(place.path()).unwrap();
        assert_eq!((&run.header, &run.rounds), (&written.header, &written.rounds));
        assert_eq!((run.end.clone(), run.damage), (Some(written.end.clone()), None));
        let rows: Vec<MessageRow> = messages(place.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, written.rows[..15]);
        assert_eq!(run.end.unwrap().messages_not_kept, written.rows.len() as u64 - 15);
    }

    #[test]
    fn many_messages_are_cut_into_blocks() {
        let place = tempfile::tempdir().unwrap();
        let count = MAX_ROWS + 7;
        let mut writer = RunWriter::create(place.path(), &test_run::header(u64::MAX)).unwrap();
        let rows = test_run::rows(0, 0, count as u64);
        writer.round(&test_run::round(0, 0), &rows).unwrap();
        let mut log = messages(place.path()).unwrap();
        assert!(log.by_ref().map(Result::unwrap).eq(rows));
        assert!(log.next().is_none());
    }

    #[test]
    fn a_cut_file_is_read_up_to_its_last_whole_block() {
        let place = tempfile::tempdir().unwrap();
        let rounds = [test_run::round(0, 0), test_run::round(1, 0)];
        let mut writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
        rounds.iter().for_each(|round| writer.round(round, &[]).unwrap());
        writer.finish(test_run::end(Status::Ok)).unwrap();
        let file = place.path().join(ROUNDS_FILE);
        let bytes = fs::read(&file).unwrap();
        // Where each block ends.
        let mut ends = vec![0];
        while *ends.last().unwrap() < bytes.len() {
            let at = *ends.last().unwrap();
            let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
            ends.push(at + block::HEAD + length as usize);
        }
        assert_eq!(ends.len(), rounds.len() + 2);
        for length in (0..bytes.len()).rev() {
            File::options().write(true).open(&file).unwrap().set_len(length as u64).unwrap();
            let run = read(place.path()).unwrap();
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            assert_eq!(run.rounds, rounds[..whole]);
            assert_eq!(run.end, None);
            let damage = run.damage.map(|damage| (damage.file, damage.offset));
            let expected = (ends[whole] != length).then(|| (ROUNDS_FILE.to_string(), ends[whole] as u64));
            assert_eq!(damage, expected, "{length} bytes");
        }
    }

    #[test]
    fn a_cut_log_gives_the_messages_before_and_says_so() {
        let place = tempfile::tempdir().unwrap();
        let written = test_run::write(place.path(), 100);
        let file = place.path().join(MESSAGES_FILE);
        for length in (0..fs::metadata(&file).unwrap().len()).rev() {
            File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
            let (mut rows, mut damage) = (Vec::new(), Vec::<Damage>::new());
            for row in messages(place.path()).unwrap() {
                row.map_or_else(|found| damage.push(found), |row| rows.push(row));
            }
            assert_eq!(rows, written.rows[..rows.len()]);
            assert_eq!(rows.len() % 10, 0, "only whole blocks, and the test writes 10 messages a block");
            assert!(damage.len() <= 1 && damage.iter().all(|damage| damage.why.contains("cut off")));
            assert_eq!(read(place.path()).unwrap().damage, damage.pop());
        }
        fs::remove_file(&file).unwrap();
        assert!(read(place.path()).unwrap().damage.unwrap().why.contains("missing"));
    }

    #[test]
    fn what_cannot_be_read_back_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = |result: Result<(), RecordError>, part: &str| {
            let error = result.unwrap_err();
            assert!(matches!(&error, RecordError::Unrecordable(why) if why.contains(part)), "{error}");
        };
        let mut header = test_run::header(0);
        header.ends[0].clock.cost_ns = f64::NAN;
        refused(RunWriter::create(&place.path().join("nan"), &header).map(drop), "null");
        assert!(!place.path().join("nan").exists());
        let mut writer = RunWriter::create(&place.path().join("run"), &test_run::header(0)).unwrap();
        refused(writer.round(&test_run::round(0, 0), &test_run::rows(1, 0, 1)), "another case");
        writer.finish(test_run::end(Status::Ok)).unwrap();
        refused(writer.round(&test_run::round(0, 0), &[]), "after the end");
        refused(writer.finish(test_run::end(Status::Ok)).map(drop), "second end");
    }

    #[test]
    fn rows_of_features_and_events_come_back_as_they_were_written() {
        LOGS.add(&NOTES);
        let place = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
        writer.rows::<Note>(&[]).unwrap();
        writer.events(0, 0, &[]).unwrap();
        assert!(!place.path().join(Note::FILE).exists() && !place.path().join(EVENTS_FILE).exists());
        let (notes, others) = (test_run::notes(0, 0, MAX_ROWS as u32 + 3), test_run::notes(1, 2, 5));
        let events = test_run::events(MAX_ROWS + 5);
        writer.rows::<Note>(&notes).unwrap();
        writer.rows::<Note>(&others).unwrap();
        writer.events(0, 0, &events).unwrap();
        writer.events(1, 0, &events[..7]).unwrap();
        writer.events(1, 2, &events[7..9]).unwrap();
        let mut read_back = crate::rows::<Note>(place.path()).unwrap().map(Result::unwrap);
        assert!(notes.iter().chain(&others).copied().eq(read_back.by_ref()));
        let rounds: Vec<Events> = crate::events(place.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(
            rounds,
            [
                Events { case: 0, pass: 0, events: events.clone() },
                Events { case: 1, pass: 0, events: events[..7].to_vec() },
                Events { case: 1, pass: 2, events: events[7..9].to_vec() },
            ]
        );
        let run = read(place.path()).unwrap();
        assert_eq!(run.damage, None);
        let of_case = RoundLog::of::<Note>(&run, |case| case.id == 1).unwrap();
        assert_eq!(of_case.index(), [(1, 2, 5)]);
        of_case.rounds(&|_, _| true, &mut |rows| assert_eq!(rows, others));
        let refused = |result: Result<(), RecordError>| matches!(result, Err(RecordError::Unrecordable(_)));
        assert!(refused(writer.rows::<Note>(&[notes[0], others[0]])));
        assert!(refused(writer.events(0, 0, &[events[1], events[0]])));
        writer.finish(test_run::end(Status::Ok)).unwrap();
        assert!(refused(writer.rows::<Note>(&notes)) && refused(writer.events(0, 0, &events)));
    }

    #[test]
    fn cut_logs_of_features_and_events_are_damage_and_what_is_before_is_read() {
        LOGS.add(&NOTES);
        let place = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
        let (notes, events) = (test_run::notes(0, 0, 10), test_run::events(10));
        for pass in 0..3 {
            writer.rows::<Note>(&notes).unwrap();
            writer.events(0, pass, &events).unwrap();
        }
        for (name, rows) in [(Note::FILE, 0), (EVENTS_FILE, 1)] {
            let file = place.path().join(name);
            let whole = fs::read(&file).unwrap();
            let block = whole.len() / 3;
            for length in (block..whole.len()).rev() {
                fs::write(&file, &whole[..length]).unwrap();
                let found = read(place.path()).unwrap().damage;
                if length % block == 0 {
                    assert_eq!(found, None, "{name}: {length} bytes");
                } else {
                    let found = found.unwrap();
                    assert_eq!((found.file.as_str(), found.offset as usize), (name, length / block * block));
                    assert!(found.why.contains("cut off"), "{found}");
                }
                let (mut kept, mut damaged) = (0, 0);
                if rows == 0 {
                    crate::rows::<Note>(place.path())
                        .unwrap()
                        .for_each(|row| *if row.is_ok() { &mut kept } else { &mut damaged } += 1);
                    assert_eq!(kept, length / block * notes.len());
                } else {
                    crate::events(place.path())
                        .unwrap()
                        .for_each(|round| *if round.is_ok() { &mut kept } else { &mut damaged } += 1);
                    assert_eq!(kept, length / block);
                }
                assert_eq!(damaged, usize::from(length % block != 0));
            }
            fs::write(&file, &whole).unwrap();
        }
    }

    #[test]
    fn a_row_of_another_run_is_damage() {
        LOGS.add(&NOTES);
        for (change, part) in [
            ((|row: &mut Note| row.case = 9) as fn(&mut Note), "case 9"),
            (|row: &mut Note| row.number = u32::MAX, "a note without a number"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let mut writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
            let mut rows = test_run::notes(0, 0, 3);
            rows.iter_mut().for_each(change);
            writer.rows::<Note>(&rows).unwrap();
            writer.events(7, 0, &test_run::events(3)).unwrap();
            let damage = read(place.path()).unwrap().damage.unwrap();
            assert!(damage.file == Note::FILE && damage.offset == 0 && damage.why.contains(part), "{damage}");
            fs::remove_file(place.path().join(Note::FILE)).unwrap();
            let damage = read(place.path()).unwrap().damage.unwrap();
            assert!(damage.file == EVENTS_FILE && damage.why.contains("case 7"), "{damage}");
            fs::copy(place.path().join(EVENTS_FILE), place.path().join(Note::FILE)).unwrap();
            let among = crate::rows::<Note>(place.path()).unwrap().next().unwrap().unwrap_err().why;
            assert_eq!(among, "kernel events among the notes");
        }
    }

    #[test]
    fn a_run_is_never_written_over_another() {
        let place = tempfile::tempdir().unwrap();
        test_run::write(place.path(), 0);
        let error = RunWriter::create(place.path(), &test_run::header(0)).map(drop).unwrap_err();
        assert_eq!(Problem::from(error).exit, Exit::CannotStart);
        let file = place.path().join(HEADER_FILE).join("below");
        assert!(matches!(RunWriter::create(&file, &test_run::header(0)), Err(RecordError::Create { .. })));
    }

    #[test]
    fn another_schema_is_named() {
        let place = tempfile::tempdir().unwrap();
        drop(RunWriter::create(place.path(), &test_run::header(0)).unwrap());
        let file = place.path().join(HEADER_FILE);
        let json = fs::read_to_string(&file).unwrap();
        fs::write(&file, r#"{"schema": "msgpath/run/7", "new": 1}"#).unwrap();
        let problem = Problem::from(read(place.path()).unwrap_err());
        assert!(problem.what.contains("by a newer version") && problem.exit == Exit::CannotStart, "{problem}");
        fs::write(&file, json.replace("\"rounds\": 3", "\"rounds\": 0")).unwrap();
        assert!(matches!(read(place.path()), Err(RecordError::BadHeader { .. })));
        fs::write(&file, &json[..json.len() / 2]).unwrap();
        assert!(matches!(read(place.path()), Err(RecordError::BadHeader { .. })));
        fs::remove_file(&file).unwrap();
        assert_eq!(Problem::from(read(place.path()).unwrap_err()).code, "E08");
    }

    #[test]
    fn a_round_of_a_case_that_was_not_planned_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(place.path(), &test_run::header(0)).unwrap();
        writer.round(&test_run::round(9, 0), &[]).unwrap();
        let run = read(place.path()).unwrap();
        assert!(run.rounds.is_empty() && run.damage.unwrap().why.contains("case 9"));
    }
}
