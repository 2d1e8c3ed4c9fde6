//! What was seen of watched programs: a folder of its own kind, because nothing in it was planned.
//!
//! | file | what |
//! |---|---|
//! | `watch.json` | [`WatchHeader`], written whole before the first request |
//! | `requests.mpl` | blocks of requests, and one that says how watching ended |

mod export;
mod perfetto;
mod requests;
mod schema;

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use msgpath_core::schema::Status;
use msgpath_core::watch::RequestRow;
use msgpath_record::block::{Blocks, Fault, Kind, MAX_ROWS, json_fault, rows_again};
use msgpath_record::{Appender, PRIVATE_FOLDER_MODE, RecordError, columns, store};
use msgpath_record::{CHANGED, framed, header_bytes, heads, make_folder, summed, write_private};
use msgpath_sys::files::{open_regular, read_regular};

#[cfg(feature = "parquet")]
pub(crate) use export::parquet;
pub(crate) use export::{csv, perfetto};
pub use requests::Requests;
pub use schema::{Process, Runtime, SCHEMA, Slice, WatchCost, WatchEnd, WatchHeader, Windows, flag, name_of, named};

/// What was watched, within the folder.
pub const WATCH_FILE: &str = "watch.json";
/// Requests and the end, within the folder.
pub const REQUESTS_FILE: &str = "requests.mpl";
const REQUESTS: Kind = Kind::new(9, "requests", 16 << 20);
const WATCH_END: Kind = Kind::new(10, "the end of watching", 16 << 20);
const KINDS: [Kind; 2] = [REQUESTS, WATCH_END];
/// The most rows that a record has, unless less was asked for.
pub const MOST_ROWS: u64 = 200_000;
/// The largest header that is read, bytes.
const MAX_HEADER: u64 = 1 << 20;

/// A record that is being written.
pub struct WatchWriter {
    folder: PathBuf,
    log: Appender<File>,
    /// Checksum of the header.
    header_crc32: u32,
    limit: u64,
    kept: u64,
    not_kept: u64,
}

impl WatchWriter {
    /// Creates `folder` and writes the header. At most `limit` rows are kept. No other user reads them: they are of programs that may be
    /// anybody's, and name what was asked of them.
    ///
    /// # Errors
    /// A folder that holds something already, or one that cannot be written.
    pub fn create(folder: &Path, header: &WatchHeader, limit: u64) -> Result<Self, RecordError> {
        let cannot = |file: &Path, source| RecordError::Create { file: file.into(), source };
        make_folder(folder, PRIVATE_FOLDER_MODE).map_err(|source| cannot(folder, source))?;
        if fs::read_dir(folder).map_err(|source| cannot(folder, source))?.next().is_some() {
            return Err(RecordError::NotEmpty { folder: folder.into() });
        }
        let json = header_bytes(header).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
        let log = Appender::create_private(&folder.join(REQUESTS_FILE))?;
        let path = folder.join(WATCH_FILE);
        write_private(&path, &json).map_err(|source| cannot(&path, source))?;
        let (folder, header_crc32) = (folder.into(), crc32fast::hash(&json));
        Ok(Self { folder, log, header_crc32, limit: limit.min(MOST_ROWS), kept: 0, not_kept: 0 })
    }

    /// Appends requests; those beyond the limit are counted.
    ///
    /// # Errors
    /// A write that failed; what was written before stays whole.
    pub fn requests(&mut self, rows: &[RequestRow]) -> Result<(), RecordError> {
        let room = usize::try_from(self.limit - self.kept).unwrap_or(usize::MAX).min(rows.len());
        let (kept, rest) = rows.split_at(room);
        for rows in kept.chunks(MAX_ROWS / 4) {
            let block = framed(REQUESTS, columns::encode::<Requests>(0, 0, rows))?;
            self.append(&block)?;
            self.kept += rows.len() as u64;
        }
        self.not_kept += rest.len() as u64;
        Ok(())
    }

    /// Whether further rows are only counted.
    pub fn is_full(&self) -> bool {
        self.kept == self.limit
    }

    /// Writes how it ended.
    ///
    /// # Errors
    /// A write that failed.
    pub fn finish(mut self, end: WatchEnd) -> Result<(), RecordError> {
        let (rows_kept, rows_not_kept, header_crc32) = (self.kept, self.not_kept, self.header_crc32);
        let end = WatchEnd { rows_kept, rows_not_kept, header_crc32, ..end };
        let block = framed(WATCH_END, encode_end(&end))?;
        self.append(&block)
    }

    fn append(&mut self, block: &[u8]) -> Result<(), RecordError> {
        self.log.append(block).map_err(|source| RecordError::Write {
            file: self.folder.join(REQUESTS_FILE),
            kept: format!("kept: {} requests in {}", self.kept, self.folder.display()),
            source,
        })
    }
}

/// A record that was read back, as far as it is whole.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// What was watched.
    pub header: WatchHeader,
    /// Rows whose stages add up.
    pub rows: Vec<RequestRow>,
    /// Rows whose stages do not: damage, or a defect.
    pub not_adding_up: u64,
    /// How it ended; `None`: it was cut short.
    pub end: Option<WatchEnd>,
    /// Why what follows was not read.
    pub damage: Option<String>,
}

/// What was watched, among what is kept.
pub static WATCHED: store::Kind = store::Kind {
    name: "record of watching",
    file: WATCH_FILE,
    recorded_by: "msgpath watch",
    listing: |folder| {
        let header = watch_header(folder)?;
        let (_, end) = heads(&folder.join(REQUESTS_FILE), &KINDS, REQUESTS, WATCH_END)?;
        Ok(store::Listing {
            started: header.started,
            verb: "watch".into(),
            target: header.target,
            cases: None,
            rounds: None,
            status: end.map(|_| Status::Ok),
        })
    },
};

/// What was watched, without the requests.
///
/// # Errors
/// There is no such record, or its header cannot be read.
pub fn watch_header(folder: &Path) -> Result<WatchHeader, RecordError> {
    summed_header(folder).map(|(header, _)| header)
}

/// The same, with the checksum of its file.
fn summed_header(folder: &Path) -> Result<(WatchHeader, u32), RecordError> {
    let file = folder.join(WATCH_FILE);
    let bytes = match read_regular(&file, MAX_HEADER) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordError::NotARun { folder: folder.into() });
        }
        Err(source) => return Err(RecordError::Read { file, source }),
    };
    let sum = summed(&file, &bytes)?;
    Ok((parse(&file, &bytes)?, sum))
}

/// The header in the bytes of `watch.json`; `file` is for the error.
fn parse(file: &Path, bytes: &[u8]) -> Result<WatchHeader, RecordError> {
    let bad = |why: String| RecordError::BadHeader { file: file.into(), why };
    let header: WatchHeader = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    match header.schema == SCHEMA {
        true => Ok(header),
        false => Err(bad(format!("its schema is {}, and this version reads {SCHEMA}", header.schema))),
    }
}

/// Reads a record.
///
/// # Errors
/// As [`watch_header`].
pub fn read(folder: &Path) -> Result<Watched, RecordError> {
    let (header, sum) = summed_header(folder)?;
    let mut watched = Watched { header, ..Watched::default() };
    let file = folder.join(REQUESTS_FILE);
    let input = open_regular(&file).map_err(|source| RecordError::Read { file, source })?;
    if let Err(fault) = fill(&mut watched, &mut Blocks::with(BufReader::new(input), &KINDS)) {
        watched.damage = Some(format!("{REQUESTS_FILE}: {fault}"));
    } else if watched.end.as_ref().is_some_and(|end| end.header_crc32 != sum) {
        watched.damage = Some(format!("{WATCH_FILE}: {CHANGED}"));
    }
    Ok(watched)
}

fn fill<R: Read>(watched: &mut Watched, blocks: &mut Blocks<R>) -> Result<(), Fault> {
    let (mut payload, mut rows) = (Vec::new(), Vec::new());
    while let Some(head) = blocks.next(&mut payload)? {
        match head.kind {
            _ if watched.end.is_some() => return Err("a block after the end of watching".to_owned().into()),
            REQUESTS => {
                columns::decode::<Requests>(&payload, &mut rows)?;
                if watched.rows.len() as u64 + rows.len() as u64 > MOST_ROWS {
                    return Err(format!("more than {MOST_ROWS} requests").into());
                }
                let before = rows.len();
                rows.retain(RequestRow::adds_up);
                watched.not_adding_up += (before - rows.len()) as u64;
                watched.rows.append(&mut rows);
            }
            WATCH_END => watched.end = Some(decode_end(&payload)?),
            kind => return Err(format!("a block of {} among requests", kind.name()).into()),
        }
    }
    Ok(())
}

fn encode_end(end: &WatchEnd) -> Result<Vec<u8>, String> {
    serde_json::to_vec(end).map_err(|error| error.to_string())
}

fn decode_end(payload: &[u8]) -> Result<WatchEnd, Fault> {
    serde_json::from_slice(payload).map_err(|error| json_fault("the end of watching", &error))
}

/// Runs every parser of the record over arbitrary bytes, for a fuzzer: as the payload of each kind of block, and as the header.
///
/// # Panics
/// Where something that was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let again = |kind: Kind, payload: &[u8]| match kind {
        REQUESTS => rows_again::<Requests>(payload),
        WATCH_END => {
            if let Ok(end) = decode_end(payload) {
                assert_eq!(decode_end(&encode_end(&end).expect("what was read can be written")), Ok(end));
            }
        }
        _ => {}
    };
    let (mut blocks, mut payload) = (Blocks::with(bytes, &KINDS), Vec::new());
    while let Ok(Some(head)) = blocks.next(&mut payload) {
        again(head.kind, &payload);
    }
    KINDS.into_iter().for_each(|kind| again(kind, bytes));
    let file = Path::new(WATCH_FILE);
    if let Ok(header) = parse(file, bytes) {
        let again = header_bytes(&header).expect("what was read can be written");
        assert_eq!(parse(file, &again).expect("what was written can be read"), header);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use msgpath_core::watch::Stage;
    use proptest::prelude::*;

    fn row(ns: u64) -> RequestRow {
        let mut row = RequestRow { t0_ns: 1000 - ns, total_ns: ns, weight: 1, ..RequestRow::default() };
        row.stages[Stage::WorkLock as usize] = ns;
        row
    }

    #[test]
    fn a_record_comes_back_up_to_where_it_was_cut() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a");
        let header = WatchHeader { schema: SCHEMA.into(), name: "a".into(), ..WatchHeader::default() };
        let mut writer = WatchWriter::create(&folder, &header, 3).unwrap();
        writer.requests(&[row(5), RequestRow { total_ns: 9, ..row(5) }]).unwrap();
        writer.requests(&[row(7), row(8)]).unwrap();
        assert!(writer.is_full());
        writer.finish(WatchEnd { connections: 2, ..WatchEnd::default() }).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| mode(&entry.unwrap().path())).collect();
        assert_eq!((mode(&folder), files), (0o700, vec![0o600; 2]), "other users read nothing");
        let back = read(&folder).unwrap();
        assert_eq!((back.rows, back.not_adding_up, back.damage), (vec![row(5), row(7)], 1, None));
        let end = back.end.unwrap();
        assert_eq!((back.header, end.rows_kept, end.rows_not_kept), (header, 3, 1));

        let file = folder.join(REQUESTS_FILE);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let back = read(&folder).unwrap();
        assert!(back.rows.len() == 2 && back.end.is_none() && back.damage.is_some());
        assert!(WatchWriter::create(&folder, &back.header, 3).is_err() && read(place.path()).is_err());
    }

    #[test]
    fn any_changed_byte_of_the_header_is_found() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a");
        let header = WatchHeader { schema: SCHEMA.into(), name: "a".into(), slow_ns: 7, ..WatchHeader::default() };
        WatchWriter::create(&folder, &header, 3).unwrap().finish(WatchEnd::default()).unwrap();
        let file = folder.join(WATCH_FILE);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).unwrap();
            assert!(matches!(read(&folder), Err(RecordError::BadHeader { .. })), "byte {at}");
            fs::write(&file, &whole[..at]).unwrap();
            assert!(matches!(read(&folder), Err(RecordError::BadHeader { .. })), "cut at {at}");
        }
        // A header that fits its own checksum, and not the end.
        fs::write(&file, header_bytes(&WatchHeader { slow_ns: 8, ..header }).unwrap()).unwrap();
        assert_eq!(read(&folder).unwrap().damage, Some(format!("{WATCH_FILE}: {CHANGED}")));
    }

    #[test]
    fn a_block_after_the_end_is_damage() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a");
        let header = WatchHeader { schema: SCHEMA.into(), ..WatchHeader::default() };
        let mut writer = WatchWriter::create(&folder, &header, 3).unwrap();
        writer.requests(&[row(5)]).unwrap();
        writer.finish(WatchEnd::default()).unwrap();
        let file = folder.join(REQUESTS_FILE);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, [&bytes[..], &bytes[..]].concat()).unwrap();
        let back = read(&folder).unwrap();
        assert!(back.rows.len() == 1 && back.damage.unwrap().contains("after the end"));
    }

    #[test]
    fn requests_that_are_a_fifo_are_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("watched");
        let header = WatchHeader { schema: SCHEMA.into(), name: "a".into(), ..Default::default() };
        WatchWriter::create(&folder, &header, 3).unwrap().finish(Default::default()).unwrap();
        let file = folder.join(REQUESTS_FILE);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        match read(&folder) {
            Err(error @ RecordError::Read { .. }) => assert!(error.to_string().contains(REQUESTS_FILE), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz(&bytes);
            for kind in KINDS {
                fuzz(&framed(kind, Ok(bytes.clone())).unwrap());
            }
        }
    }
}
