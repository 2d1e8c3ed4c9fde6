//! Runs that others recorded: the lab's binary logs, the JSON of its viewer, and CSV. What a file is, its content tells.
//!
//! Nothing is aligned, clamped or invented. A damaged file is refused as a whole, with the place of the damage.

mod calls;
mod kinds;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use msgpath_core::schema::RunHeader;
use msgpath_core::{Exit, Problem};
use msgpath_record::RecordError;
use msgpath_rpc::csv::{self, CsvError};
use msgpath_rpc::json;
use msgpath_rpc::log::{self, RECORD_BYTES};
use msgpath_verbs::importers::ForeignFile;

use self::calls::{Calls, Counted, UNKNOWN};
use self::kinds::{About, kinds};
use super::originals::Originals;

/// The JSON that is read at once, all files together, bytes.
const MAX_JSON: u64 = 1 << 30;
/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 1 << 14;
/// Before 1990 in ns: a stamp that does not count from 1970.
const WALL_NS: i64 = 631_152_000_000_000_000;

/// Names that a JSON of the lab's viewer has at its begin.
const OF_VIEWER: [&str; 3] = ["\"events\"", "\"axisLabelX\"", "\"tracebase\""];

/// A file that is not a run of others, or a damaged one.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file that cannot be read.
    #[error("{} cannot be read ({source})", file.display())]
    Read {
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// More JSON than is read at once.
    #[error("the JSON files together have more than {} GiB", MAX_JSON >> 30)]
    TooLarge,
    /// A record, an event or a line that is none.
    #[error("{} is damaged at {place}", file.display())]
    Damaged {
        file: PathBuf,
        /// Where, and why.
        place: String,
    },
    /// No file has a call.
    #[error("{} has no calls", .files.join(", "))]
    Nothing {
        files: Vec<String>,
        /// All of them have no byte at all.
        empty: bool,
    },
    /// More kinds of calls than a run can hold.
    #[error("the files have calls of more than {} kinds", kinds::MAX_KINDS)]
    TooManyKinds,
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Problem {
        let what = error.to_string();
        match error {
            ImportError::Read { .. } => Problem::new("E13", Exit::CannotStart, what),
            ImportError::TooLarge => Problem::new("E13", Exit::CannotStart, what)
                .why("a JSON is held in memory as a whole")
                .hint("the binary logs from which they were made, which may have any length; or fewer files at once"),
            ImportError::Damaged { .. } => Problem::new("E30", Exit::CannotStart, what)
                .why("nothing of it is used: what stands before the damage may be wrong as well"),
            ImportError::Nothing { empty: true, .. } => Problem::new("E31", Exit::CannotStart, what)
                .why("a log of 0 bytes is left where the lab's client could not connect, or crashed because the server went away"),
            ImportError::Nothing { empty: false, .. } => {
                Problem::new("E31", Exit::CannotStart, what).why("they hold no request and no reply")
            }
            ImportError::TooManyKinds => Problem::new("E31", Exit::CannotStart, what)
                .why("a kind is a method of a length; these methods are not the names of calls"),
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Log,
    /// Of the lab's viewer.
    Json,
    /// A table of calls.
    Csv(csv::Table),
    /// Of no byte.
    Empty,
}

/// What was read from some files, not yet written.
#[derive(Debug)]
pub struct Import {
    calls: Calls,
    kinds: Vec<kinds::Kind>,
    files: Vec<String>,
    steps: [u64; 2],
    wall: bool,
    /// What was spoken, as far as the files say so.
    protocol: &'static str,
    /// Bytes of JSON that may still come.
    json_left: u64,
    /// The records as they were, where all files are of one form.
    originals: Option<Originals>,
    /// The title that a JSON had.
    pub title: Option<String>,
    /// One line a file: what it is and what was in it.
    pub found: Vec<String>,
    /// What else is to be said of them.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for kinds::Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kind")
    }
}

/// Reads files, in any order: logs of clients and servers, JSON and CSV. Those that have no calls are passed over.
///
/// # Errors
/// [`ImportError`]: the first file that is not what it should be.
pub fn read_files(files: &[ForeignFile]) -> Result<Import, ImportError> {
    let (files, forms): (Vec<ForeignFile>, Vec<Form>) =
        files.iter().filter_map(|file| Some((file.clone(), form(file)?))).unzip();
    let mut import = Import {
        calls: Calls::default(),
        kinds: Vec::new(),
        files: files.iter().map(|file| file.path.display().to_string()).collect(),
        steps: [1_000; 2],
        wall: true,
        protocol: "lab",
        json_left: MAX_JSON,
        originals: None,
        title: None,
        found: Vec::new(),
        notes: Vec::new(),
    };
    let lengths = files.iter().zip(&forms).filter(|(_, form)| **form == Form::Json);
    let lengths = lengths.map(|(file, _)| file.source().metadata().map_or(0, |data| data.len()));
    if lengths.fold(0, u64::saturating_add) > MAX_JSON {
        return Err(ImportError::TooLarge);
    }
    let only = |one: Form| forms.iter().all(|form| *form == one || *form == Form::Empty);
    import.originals = match (only(Form::Log), only(Form::Json)) {
        (true, false) => Some(Originals::Logs(files.clone())),
        (false, true) => Some(Originals::Events(Vec::new())),
        _ => None,
    };
    // Rows of CSV last: only records have an identity.
    for csv in [false, true] {
        for (file, form) in files.iter().zip(&forms).filter(|(_, form)| matches!(form, Form::Csv(_)) == csv) {
            match form {
                Form::Log => import.log(file)?,
                Form::Json => import.json(file)?,
                Form::Csv(table) => import.csv(file, *table)?,
                Form::Empty => import.found.push(format!("{}: empty", file.path.display())),
            }
        }
    }
    import.finish(forms.iter().all(|form| *form == Form::Empty))?;
    Ok(import)
}

/// What a file is; `None`: nothing that has calls.
pub fn form(file: &ForeignFile) -> Option<Form> {
    let begin = &file.begin;
    if begin.is_empty() {
        return Some(Form::Empty);
    }
    let text = begin.strip_prefix("\u{feff}".as_bytes()).unwrap_or(begin);
    let text = text.trim_ascii_start();
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    // Text first: printable bytes are not plausible T1.
    if text.starts_with(b"{") && text.iter().take(64).all(is_text) {
        let has = |name: &str| text.windows(name.len()).any(|window| window == name.as_bytes());
        return OF_VIEWER.into_iter().any(has).then_some(Form::Json);
    }
    if let Some(table) = csv::table(text) {
        return Some(Form::Csv(csv::Table { at: table.at + begin.len() - text.len(), ..table }));
    }
    // A log that is damaged at its very begin is one all the same, if a later record is good.
    let is_log = begin.len() < RECORD_BYTES || log::records(begin, 0).any(|record| record.is_ok());
    (is_log && !begin.iter().all(is_text)).then_some(Form::Log)
}

fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

impl Import {
    fn log(&mut self, file: &ForeignFile) -> Result<(), ImportError> {
        let (mut input, file) = (opened(file)?, &file.path);
        let cannot = |source| ImportError::Read { file: file.into(), source };
        let mut buffer = vec![0; RECORDS_AT_ONCE * RECORD_BYTES];
        let mut offset = 0;
        let mut calls = self.calls.file(false);
        loop {
            let mut filled = 0;
            while filled < buffer.len() {
                match input.read(&mut buffer[filled..]) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(cannot(error)),
                }
            }
            for record in log::records(&buffer[..filled], offset) {
                let record = record.map_err(|damage| damaged(file, &damage))?;
                calls.record(&record);
            }
            offset += filled as u64;
            if filled < buffer.len() {
                break;
            }
        }
        let rest = offset % RECORD_BYTES as u64;
        let counted = calls.end();
        self.say(file, "log", counted);
        if rest > 0 {
            self.notes.push(format!(
                "{}: the last {} are part of a record and were left out (the program that wrote it was killed)",
                file.display(),
                count(rest, "byte")
            ));
        }
        Ok(())
    }

    fn json(&mut self, file: &ForeignFile) -> Result<(), ImportError> {
        let (input, file) = (opened(file)?, &file.path);
        let cannot = |source| ImportError::Read { file: file.into(), source };
        let mut bytes = Vec::new();
        let most = self.json_left.saturating_add(1);
        let length = input.take(most).read_to_end(&mut bytes).map_err(cannot)?;
        self.json_left = self.json_left.checked_sub(length as u64).ok_or(ImportError::TooLarge)?;
        let document = json::read(&bytes).map_err(|error| damaged(file, &error))?;
        drop(bytes);
        let mut calls = self.calls.file(true);
        document.records.iter().for_each(|record| calls.record(record));
        let counted = calls.end();
        if let Some(Originals::Events(all)) = &mut self.originals {
            all.extend_from_slice(&document.records);
        }
        self.say(file, "JSON of the lab's viewer", counted);
        self.wall &= document.base_us.is_some();
        self.title = self.title.take().or(Some(document.title).filter(|title| !title.is_empty()));
        let name = file.display();
        if document.repaired {
            self.notes.push(format!("{name}: it is not valid JSON and was read line by line"));
        }
        self.notes.push(format!(
            "{name}: the lab's tool invents missing times and raises T2 to T4 where they are before T1, unless it was told \
             -raw, and does not say where: T2 and T3 may be estimates. Its date was taken for UTC. The binary log is better"
        ));
        if document.delta_t23 != 0.0 {
            self.notes
                .push(format!("{name}: deltaT23 of {} s was not applied: stamps are as recorded", document.delta_t23));
        }
        Ok(())
    }

    fn csv(&mut self, file: &ForeignFile, table: csv::Table) -> Result<(), ImportError> {
        let (mut input, file) = (opened(file)?, &file.path);
        let sought = input.seek(SeekFrom::Start(table.at as u64));
        sought.map_err(|source| ImportError::Read { file: file.into(), source })?;
        let mut rows = csv::Rows::new(BufReader::new(input), table).map_err(|error| damaged(file, &error))?;
        let (mut lines, before) = (0, self.calls.all.len());
        for row in rows.by_ref() {
            let row = row.map_err(|error| match error {
                CsvError::Csv(error) => damaged(file, &error),
                error => damaged(file, &error),
            })?;
            self.wall &= row.t[0].is_some_and(|t1| t1 >= WALL_NS);
            self.calls.row(row);
            lines += 1;
        }
        for (step, seen) in self.steps.iter_mut().zip(rows.steps) {
            *step = if seen == u64::MAX { *step } else { seen };
        }
        let name = file.display();
        let (form, lacks) = match table.writer {
            csv::Writer::Any => ("CSV", None),
            csv::Writer::Jmeter => (
                "samples of JMeter",
                Some("whole ms, from before the request is sent, connecting included, to the last byte of the reply"),
            ),
            csv::Writer::Sockperf => (
                "a full log of sockperf",
                Some("round trips; sockperf leaves out its warm-up, what had no reply, and what came out of order"),
            ),
        };
        self.protocol = match table.writer {
            csv::Writer::Any => self.protocol,
            csv::Writer::Jmeter => "jmeter",
            csv::Writer::Sockperf => "sockperf",
        };
        self.found.push(format!("{name}: {form}, {}", count(lines, "call")));
        self.notes.extend(lacks.map(|lacks| format!("{name}: {lacks}; nothing is known of the server")));
        if rows.unnamed {
            self.notes.push(format!(
                "{name}: stamps whose column names no unit were taken for µs (t1_ms, t1_s and t1_ns name others)"
            ));
        }
        if rows.speaks_http() {
            let succeeded = self.calls.all[before..].iter_mut().filter(|call| call.status < 400);
            succeeded.for_each(|call| call.status = 0);
            self.notes.push(format!("{name}: its statuses are codes of HTTP, of which those below 400 are success"));
        }
        Ok(())
    }

    fn say(&mut self, file: &Path, what: &str, counted: Counted) {
        let Counted { answered, unanswered, served, text } = counted;
        let side = match (answered + unanswered, served) {
            (0, 0) => "",
            (_, 0) => " of a client",
            (0, _) => " of a server",
            _ => " of a client and a server",
        };
        let mut parts = vec![count(answered + unanswered + served, "call")];
        if unanswered > 0 {
            parts.push(format!("{unanswered} of them without a reply"));
        }
        if text > 0 {
            parts.push(count(text, "record of text"));
        }
        self.found.push(format!("{}: {what}{side}, {}", file.display(), parts.join(", ")));
    }

    /// Brings the sides together and sorts the calls by kind.
    fn finish(&mut self, empty: bool) -> Result<(), ImportError> {
        let calls = &mut self.calls;
        calls.merge();
        if calls.all.is_empty() {
            return Err(ImportError::Nothing { files: self.files.clone(), empty });
        }
        let with_client = calls.all.iter().any(|call| call.t[3] != UNKNOWN);
        if calls.merged > 0 {
            self.notes.push(format!("{} of servers found in the logs of clients", count(calls.merged, "call")));
        }
        if calls.server_only > 0 && with_client {
            self.notes.push(format!(
                "{} of servers are in no client's log: when their replies arrived is not known",
                count(calls.server_only, "call")
            ));
        }
        if !with_client {
            self.notes.push(
                "no file has T4: only what the servers saw is known, not how long a call took and nothing of the reply's way"
                    .into(),
            );
        }
        if calls.repeated > 0 {
            self.notes.push(format!("{} found twice in the files and taken once", count(calls.repeated, "call")));
        }
        if calls.not_kept > 0 {
            self.notes.push(format!("{} beyond the limit were not kept", count(calls.not_kept, "call")));
        }
        let before = |a: usize, b: usize| {
            move |call: &&calls::Call| call.t[a] != UNKNOWN && call.t[b] != UNKNOWN && call.t[b] < call.t[a]
        };
        let back = calls.all.iter().filter(before(0, 3)).count() as u64;
        if back > 0 {
            self.notes.push(format!(
                "{} with T4 before T1: the client's clock was set back, and how long they took is not known",
                count(back, "call")
            ));
        }
        let skewed = calls.all.iter().filter(|call| before(0, 1)(call) || before(2, 3)(call)).count() as u64;
        if skewed > 0 {
            self.notes
                .push(format!("{} with T2 before T1 or T4 before T3: two clocks that differ", count(skewed, "call")));
        }
        self.kinds = kinds(calls).ok_or(ImportError::TooManyKinds)?;
        Ok(())
    }

    /// Writes it as a run; the folder must be new. `header` has the name, the command and the version; everything that the
    /// files say is filled in.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self, folder: &Path, header: RunHeader) -> Result<RunHeader, RecordError> {
        let Import { calls, kinds, files, steps, wall, protocol, originals, .. } = self;
        let header = kinds::write(&calls, &kinds, About { header, imported: files, steps, wall, protocol }, folder)?;
        // What was taken once, or not at all, must not come out twice.
        match originals.filter(|_| calls.repeated == 0 && calls.not_kept == 0) {
            Some(originals) => originals.keep(folder).map(|()| header),
            None => Ok(header),
        }
    }
}

fn opened(file: &ForeignFile) -> Result<File, ImportError> {
    File::open(file.source()).map_err(|source| ImportError::Read { file: file.path.clone(), source })
}

fn damaged(file: &Path, place: &dyn std::fmt::Display) -> ImportError {
    ImportError::Damaged { file: file.into(), place: place.to_string() }
}
