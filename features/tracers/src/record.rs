//! Imported texts on disk, as they were.
//!
//! | file | what |
//! |---|---|
//! | `tracers.json` | [`TracersHeader`] |
//! | `1.txt`, `2.txt` ... | the texts, in the order of the header |
//!
//! Nothing but the texts is kept: what they say is read from them anew by whoever shows it.

use std::fs;
use std::io;
use std::path::Path;

use msgpath_core::schema::Status;
use msgpath_record::store;
use msgpath_record::{PRIVATE_FOLDER_MODE, RecordError, header_bytes, make_folder, summed, write_private};
use msgpath_sys::files;
use serde::{Deserialize, Serialize};

use crate::parse::{Text, parse, tracer_of};

/// What was imported, within the folder.
pub const TRACERS_FILE: &str = "tracers.json";
/// The version of its shape.
pub const SCHEMA: &str = "msgpath.tracers/1";
/// The longest text that is read, bytes.
pub const MAX_TEXT: u64 = 512 << 20;
/// Texts of one import.
pub const MAX_TEXTS: usize = 32;
/// The largest header that is read, bytes.
const MAX_HEADER: u64 = 1 << 20;

/// What was imported, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracersHeader {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of its folder.
    pub name: String,
    /// When it was imported, RFC 3339 in UTC.
    pub started: String,
    /// The version of msgpath that did.
    pub version: String,
    /// A title that the user gave.
    pub title: Option<String>,
    /// The files as they were typed.
    pub files: Vec<String>,
    /// CRC-32 of each text. [`write()`] fills it in.
    pub text_crc32: Vec<u32>,
}

/// Keeps texts in `folder`, which must not be there yet. Each is what [`parse`] has read.
///
/// # Errors
/// It cannot be written, or there are too many.
pub fn write(folder: &Path, header: &TracersHeader, texts: &[Vec<u8>]) -> Result<(), RecordError> {
    let cannot = |file: &Path, source| RecordError::Create { file: file.into(), source };
    if texts.len() != header.files.len() || texts.len() > MAX_TEXTS {
        return Err(RecordError::Unrecordable(format!("{} texts of {} files", texts.len(), header.files.len())));
    }
    make_folder(folder, PRIVATE_FOLDER_MODE).map_err(|source| cannot(folder, source))?;
    if fs::read_dir(folder).map_err(|source| cannot(folder, source))?.next().is_some() {
        return Err(RecordError::NotEmpty { folder: folder.into() });
    }
    for (number, text) in texts.iter().enumerate() {
        let file = folder.join(format!("{}.txt", number + 1));
        write_private(&file, text).map_err(|source| cannot(&file, source))?;
    }
    let header =
        TracersHeader { text_crc32: texts.iter().map(|text| crc32fast::hash(text)).collect(), ..header.clone() };
    let json = header_bytes(&header).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
    let file = folder.join(TRACERS_FILE);
    write_private(&file, &json).map_err(|source| cannot(&file, source))
}

/// Texts of tracers, among what is kept.
pub static TRACERS: store::Kind = store::Kind {
    name: "text of a tracer",
    file: TRACERS_FILE,
    recorded_by: "msgpath import FILE",
    listing: |folder| {
        let header = header(folder)?;
        Ok(store::Listing {
            started: header.started,
            verb: "import".into(),
            target: header.files.join(", "),
            cases: None,
            rounds: None,
            status: Some(Status::Ok),
        })
    },
};

/// What was imported, without the texts.
///
/// # Errors
/// There is no such record, or its header cannot be read.
pub fn header(folder: &Path) -> Result<TracersHeader, RecordError> {
    let file = folder.join(TRACERS_FILE);
    let bytes = match files::read_regular(&file, MAX_HEADER) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RecordError::NotARun { folder: folder.into() });
        }
        Err(source) => return Err(RecordError::Read { file, source }),
    };
    summed(&file, &bytes)?;
    parse_header(&file, &bytes)
}

/// The header in the bytes of `tracers.json`; `file` is for the error.
fn parse_header(file: &Path, bytes: &[u8]) -> Result<TracersHeader, RecordError> {
    let bad = |why: String| RecordError::BadHeader { file: file.into(), why };
    let header: TracersHeader = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    match (header.schema == SCHEMA, header.files.len()) {
        (true, 1..=MAX_TEXTS) if header.text_crc32.len() == header.files.len() => Ok(header),
        (true, files) => {
            Err(bad(format!("it names {files} files and has the checksums of {}", header.text_crc32.len())))
        }
        _ => Err(bad(format!("its schema is {}, and this version reads {SCHEMA}", header.schema))),
    }
}

/// The header, and what the texts say.
///
/// # Errors
/// As [`header`], or a text that cannot be read or is of none of the tracers.
pub fn read(folder: &Path) -> Result<(TracersHeader, Vec<Text>), RecordError> {
    let header = header(folder)?;
    let mut texts = Vec::new();
    for (number, name) in header.files.iter().enumerate() {
        let file = folder.join(format!("{}.txt", number + 1));
        let bytes =
            files::read_regular(&file, MAX_TEXT).map_err(|source| RecordError::Read { file: file.clone(), source })?;
        let bad = |why: &str| RecordError::BadHeader { file: file.clone(), why: why.into() };
        if crc32fast::hash(&bytes) != header.text_crc32[number] {
            return Err(bad("it was changed after it was imported"));
        }
        let tracer = tracer_of(&bytes).ok_or_else(|| bad("it is not text of a tracer"))?;
        texts.push(parse(tracer, name, &bytes));
    }
    Ok((header, texts))
}

/// Reads arbitrary bytes as `tracers.json`, for a fuzzer.
///
/// # Panics
/// What was read cannot be written again or is read differently then: a defect.
#[doc(hidden)]
pub fn fuzz_header(bytes: &[u8]) {
    let file = Path::new(TRACERS_FILE);
    if let Ok(header) = parse_header(file, bytes) {
        let again = header_bytes(&header).expect("what was read can be written");
        assert_eq!(parse_header(file, &again).expect("what was written can be read"), header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Tracer, strace, timehist};

    #[test]
    fn a_record_has_the_texts_as_they_were() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a");
        let texts = vec![timehist::tests::TEXT.as_bytes().to_vec(), strace::tests::TEXT.as_bytes().to_vec()];
        let written = TracersHeader {
            schema: SCHEMA.into(),
            name: "a".into(),
            files: vec!["sched.txt".into(), "trace.txt".into()],
            ..TracersHeader::default()
        };
        write(&folder, &written, &texts).unwrap();
        assert!(folder.join(TRACERS_FILE).is_file() && !place.path().join(TRACERS_FILE).exists());
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for path in files.chain([folder.clone()]) {
            let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o077, 0, "{}: other users read nothing", path.display());
        }
        let (back, read_back) = read(&folder).unwrap();
        let text_crc32 = texts.iter().map(|text| crc32fast::hash(text)).collect();
        assert_eq!(back, TracersHeader { text_crc32, ..written.clone() });
        let of = |text: &Text| (text.tracer, text.file.clone(), text.slices.len() + text.calls.len());
        assert_eq!(of(&read_back[0]), (Tracer::Timehist, "sched.txt".into(), read_back[0].slices.len()));
        assert_eq!(of(&read_back[1]), (Tracer::Strace, "trace.txt".into(), read_back[1].calls.len()));
        assert!(read_back.iter().all(|text| !text.is_empty()));
        assert!(matches!(write(&folder, &written, &texts), Err(RecordError::NotEmpty { .. })));
        // A changed byte of a text or of the header is found, as is a header of another version, and one that names nothing.
        for name in ["2.txt", TRACERS_FILE] {
            let whole = fs::read(folder.join(name)).unwrap();
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                fs::write(folder.join(name), bytes).unwrap();
                assert!(matches!(read(&folder), Err(RecordError::BadHeader { .. })), "{name}, byte {at}");
            }
            fs::write(folder.join(name), whole).unwrap();
        }
        let spoilt = |header: TracersHeader| {
            fs::write(folder.join(TRACERS_FILE), header_bytes(&header).unwrap()).unwrap();
            matches!(super::header(&folder), Err(RecordError::BadHeader { .. }))
        };
        assert!(spoilt(TracersHeader { schema: "msgpath.tracers/9".into(), ..written.clone() }));
        assert!(spoilt(TracersHeader { files: Vec::new(), ..written }));
        assert!(matches!(super::header(place.path()), Err(RecordError::NotARun { .. })));
    }
}
