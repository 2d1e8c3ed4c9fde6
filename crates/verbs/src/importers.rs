//! What `msgpath import` takes: files of other programs, of which features say whether they know them.

mod known_forms;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{ArgMatches, Command};
use flate2::read::MultiGzDecoder;
use msgpath_core::foreign::{shell_word, shown, shown_bytes};
use msgpath_core::plugged::Plugged;
use msgpath_core::{Exit, Problem, units};

use crate::added::{Added, Adds, typed_among};
use crate::measure::{self, View};
use crate::options::Look;
use crate::problems::usage;
use crate::{output, runs};

/// Bytes by which a file is known.
const BEGIN: u64 = 8192;
/// Of those, how many are shown of a file that nobody knows.
const SHOWN: usize = 16;
/// The most that is taken from a pipe, or inflated, bytes.
const MOST_HELD: u64 = 512 << 20;
/// How what gzip has compressed begins.
const GZIP: &[u8] = b"\x1f\x8b\x08";

/// Files of other programs that `msgpath import` takes, all of one import.
pub struct Importer {
    /// What its files are: `of a tracer`.
    pub are: &'static str,
    /// What one is, behind `it is not`.
    pub forms: &'static str,
    /// Who writes them, for a hint.
    pub written_by: &'static str,
    /// What they are and how they come about, for the help.
    pub help: &'static str,
    /// The command with options that only its files have.
    pub options: fn(Command) -> Command,
    /// Whether a file is one.
    pub takes: fn(&ForeignFile) -> bool,
    /// Keeps what they say, and shows it.
    pub import: fn(Imported<'_>) -> Result<ExitCode>,
}

/// A file of another program, or what came through a pipe.
#[derive(Clone, Debug)]
pub struct ForeignFile {
    /// As typed.
    pub path: PathBuf,
    /// What it begins with.
    pub begin: Vec<u8>,
    /// What a pipe has carried, or what was inflated, held in memory: a pipe is read once.
    held: Option<Arc<File>>,
}

impl ForeignFile {
    /// Reads what a file begins with, and all of what is no file or was compressed with gzip.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: PathBuf) -> Result<Self, Problem> {
        let opened = || {
            let input = File::open(&path)?;
            let piped = if input.metadata()?.is_file() { None } else { Some(Arc::new(held(input, PIPED)?)) };
            let mut file = Self { path: path.clone(), begin: Vec::new(), held: piped };
            file.begin = file.first(BEGIN)?;
            if file.begin.starts_with(GZIP) {
                let inflated = MultiGzDecoder::new(File::open(file.source())?);
                file.held = Some(Arc::new(held(inflated, INFLATED)?));
                file.begin = file.first(BEGIN)?;
            }
            Ok(file)
        };
        opened().map_err(|error: io::Error| {
            Problem::new("E13", Exit::CannotStart, format!("{} cannot be read ({error})", path.display()))
        })
    }

    /// Where all of it is read from, as often as one likes, while this value lives.
    pub fn source(&self) -> PathBuf {
        let held = |file: &Arc<File>| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        self.held.as_ref().map_or_else(|| self.path.clone(), held)
    }

    /// The first bytes of it, at most so many.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first(&self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut begin = Vec::new();
        File::open(self.source())?.take(bytes).read_to_end(&mut begin)?;
        Ok(begin)
    }
}

/// Why a file is held in memory.
const PIPED: &str = "it is no file";
const INFLATED: &str = "it is compressed";

/// All that can be read, in a file of memory.
fn held(input: impl Read, why: &str) -> io::Result<File> {
    let mut file = msgpath_sys::files::in_memory()?;
    if io::copy(&mut input.take(MOST_HELD + 1), &mut file)? > MOST_HELD {
        let why = format!("{why} and has more than {}: another file may have any length", units::size(MOST_HELD));
        return Err(io::Error::other(why));
    }
    Ok(file)
}

/// What was typed behind `msgpath import`.
pub struct Imported<'a> {
    /// The files, in the order in which they were typed.
    pub files: Vec<ForeignFile>,
    /// All words behind `msgpath`.
    pub words: Vec<String>,
    /// The name of the record; `None`: two random words.
    pub name: Option<&'a str>,
    pub title: Option<&'a String>,
    /// Findings and warnings only.
    pub quiet: bool,
    /// How the result is printed.
    pub look: &'a Look,
    /// Its own options.
    pub typed: &'a ArgMatches,
}

impl Imported<'_> {
    /// Keeps what the run in `folder` says, and shows it behind these notes.
    ///
    /// # Errors
    /// It cannot be read, written or printed.
    pub fn shown(&self, folder: &Path, notes: &[String]) -> Result<ExitCode> {
        let run = runs::read(folder)?;
        let summary = runs::summarise(&run)?;
        msgpath_record::write_summary(folder, &serde_json::to_vec_pretty(&summary)?).map_err(Problem::from)?;
        let view = View {
            trials: None,
            whole: None,
            quiet: self.quiet.into(),
            verbose: false,
            warnings: false,
            units: Default::default(),
            look: self.look,
        };
        let mut text = String::new();
        if !self.quiet && !self.look.json {
            text = notes.iter().map(|line| shown(line)).collect::<Vec<_>>().join("\n") + "\n\n";
        }
        text += &measure::text(&run, &summary, &view);
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All of the features.
pub(crate) static ALL: Plugged<Importer> = Plugged::new();

/// The one that takes all of these files.
pub(crate) fn of(files: &[ForeignFile]) -> Result<&'static Importer, Problem> {
    let mut found: Option<(&'static Importer, &ForeignFile)> = None;
    for file in files {
        if let Some(form) = known_forms::known(&file.begin) {
            let what = format!("{} is {}, which is not imported", file.path.display(), form.name);
            let path = file.path.display().to_string();
            let path = if file.path.is_file() { shell_word(&path) } else { "FILE".into() };
            return Err(Problem::new("E29", Exit::CannotStart, what).hint(form.hint.replace("FILE", &path)));
        }
        let importer = ALL.all().find(|importer| (importer.takes)(file)).ok_or_else(|| unknown(file))?;
        match found {
            Some((first, known)) if !std::ptr::eq(first, importer) => {
                let (path, other) = (known.path.display(), file.path.display());
                return Err(usage(format!("{path} is {}, {other} is {}", first.are, importer.are))
                    .why("what one import keeps is one record")
                    .hint(format!("msgpath import {path}")));
            }
            Some(_) => {}
            None => found = Some((importer, file)),
        }
    }
    found.map(|(importer, _)| importer).ok_or_else(|| usage("there is no file to import"))
}

fn unknown(file: &ForeignFile) -> Problem {
    let list = |last: &str, of: fn(&Importer) -> &'static str| ALL.all().map(of).collect::<Vec<_>>().join(last);
    let forms = list(" or ", |importer| importer.forms);
    let forms = if forms.is_empty() { "anything that this msgpath imports".to_owned() } else { forms };
    let json = if known_forms::is_json(&file.begin) { "it is JSON of another program; " } else { "" };
    let begins = shown_bytes(&file.begin[..file.begin.len().min(SHOWN)], 128);
    Problem::new("E29", Exit::CannotStart, format!("{} is not {forms}", file.path.display()))
        .why(format!("{json}it begins with \"{begins}\""))
        .hint(list(", or ", |importer| importer.written_by))
}

/// Adds the options of all importers.
#[derive(Clone, Debug)]
pub(crate) struct OfImporters;

impl Adds for OfImporters {
    fn to(command: Command) -> Command {
        ALL.all().fold(command, |command, importer| (importer.options)(command))
    }
}

/// The options of importers, among those of `import`.
pub(crate) type Options = Added<OfImporters>;

impl Options {
    /// Whether an option of another importer than this was typed.
    ///
    /// # Errors
    /// It was.
    pub(crate) fn misplaced(&self, asked: &Importer) -> Result<(), Problem> {
        for other in ALL.all().filter(|other| !std::ptr::eq(*other, asked)) {
            if let Some(option) = typed_among(&(other.options)(Command::new("import")), &self.0) {
                return Err(usage(format!("{option} is {}, and these files are {}", other.are, asked.are)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_through_a_pipe_is_read_as_often_as_a_file() {
        let (reader, mut writer) = io::pipe().unwrap();
        let text = "a line\n".repeat(3000);
        let writes = std::thread::spawn(move || io::Write::write_all(&mut writer, text.as_bytes()));
        let file = ForeignFile::open(format!("/proc/self/fd/{}", reader.as_raw_fd()).into()).unwrap();
        writes.join().unwrap().unwrap();
        assert_eq!(file.begin.len() as u64, BEGIN);
        for _ in 0..2 {
            assert_eq!(std::fs::read(file.source()).unwrap().len(), 21_000);
        }
        assert!(ForeignFile::open("/dev/full/x".into()).is_err());
    }

    #[test]
    fn what_gzip_compressed_is_read_as_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.gz");
        let gzip = |text: &str| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        // Two files one behind the other are one, as gzip has it.
        std::fs::write(&path, [gzip("t1,t4\n"), gzip("1,2\n")].concat()).unwrap();
        let file = ForeignFile::open(path.clone()).unwrap();
        assert_eq!((file.begin.as_slice(), std::fs::read(file.source()).unwrap().len()), (&b"t1,t4\n1,2\n"[..], 10));
        let whole = gzip(&"a line\n".repeat(9));
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        assert!(ForeignFile::open(path).unwrap_err().to_string().contains("log.gz cannot be read"));
    }
}
