//! Where results go: files and standard output. What cannot be written is an error.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use msgpath_core::{Exit, Problem};
use msgpath_sys::files::{self, Output};
use msgpath_sys::standard;

use crate::problems::{cannot_write, usage};

/// A file for a result. Whether the user typed its path decides what may stand there already.
#[derive(Clone, Debug)]
pub enum OutputFile {
    /// The user typed the path: it may be a device, a FIFO, or a link of their own.
    Typed(PathBuf),
    /// The program chose the name: whatever stands there is replaced and not opened, since the folder may be somebody else's.
    Named(PathBuf),
}

impl OutputFile {
    /// As typed, else under this name.
    pub fn or_named(typed: Option<&PathBuf>, name: impl FnOnce() -> PathBuf) -> Self {
        typed.cloned().map_or_else(|| Self::Named(name()), Self::Typed)
    }

    pub fn path(&self) -> &Path {
        match self {
            OutputFile::Typed(path) | OutputFile::Named(path) => path,
        }
    }

    /// Opens it. Without [`Output::finish`] nothing changes there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(&self) -> Result<Output, Problem> {
        let opened = match self {
            OutputFile::Typed(path) => Output::typed(path),
            OutputFile::Named(path) => Output::replacing(path),
        };
        opened.map_err(|error| cannot_write(self.path(), &error))
    }

    /// Writes it whole.
    ///
    /// # Errors
    /// It cannot be written; then what was there stays.
    pub fn write(&self, bytes: impl AsRef<[u8]>) -> Result<(), Problem> {
        self.fill(|out| out.write_all(bytes.as_ref()).map_err(|error| cannot_write(self.path(), &error)))
    }

    /// Writes it piece by piece.
    ///
    /// # Errors
    /// Those of `write`, or it cannot be written; then what was there stays.
    pub fn fill<E: From<Problem>>(&self, write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E> {
        let mut out = BufWriter::new(self.open()?);
        write(&mut out)?;
        let finished = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(Output::finish);
        Ok(finished.map_err(|error| cannot_write(self.path(), &error))?)
    }
}

/// Writes a file whose path the user typed.
///
/// # Errors
/// It cannot be written.
pub fn write_typed(file: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Problem> {
    files::write_typed(file, bytes).map_err(|error| cannot_write(file, &error))
}

/// Said before the measurement, not after it.
pub fn can_be_written(file: &Path) -> Result<(), Problem> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if file.is_dir() || !folder.is_dir() {
        return Err(usage(format!(
            "{} cannot be written: it is a folder, or its folder does not exist",
            file.display()
        )));
    }
    Ok(())
}

/// Writes a file of this name into a folder.
///
/// # Errors
/// It cannot be written.
pub fn write_named(file: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Problem> {
    files::replace(file, bytes).map_err(|error| cannot_write(file, &error))
}

/// Makes a folder under a name that the program chose, where it is not there yet.
///
/// # Errors
/// It cannot be made, or something else has its name: a link would lead elsewhere.
pub fn make_subfolder(folder: &Path) -> Result<(), Problem> {
    files::make_subfolder(folder).map_err(|error| cannot_write(folder, &error))
}

/// Prints a result. A reader that has left (`| head`) has what it wanted, so that the verb ends as it would have.
///
/// # Errors
/// E12.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Problem> {
    standard::print(text.as_ref()).map_err(|error| cannot_print(&error))
}

/// E12: standard output is closed, or on a disk that is full.
pub fn cannot_print(error: &io::Error) -> Problem {
    Problem::new("E12", Exit::Unfinished, format!("cannot write standard output: {error}"))
        .why("the result was not printed, or a part of it")
        .hint("another file or disk; a run that was kept is printed by msgpath show @last")
}
