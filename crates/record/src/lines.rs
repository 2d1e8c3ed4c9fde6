//! A file that a feature keeps beside the rounds of a run, a line of JSON for each row.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use msgpath_sys::files::{append_regular, open_regular};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::RecordError;

/// What is read of such a file at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest line, bytes.
    pub line: u64,
    /// Most lines.
    pub lines: usize,
}

/// Appends a line for each row.
///
/// # Errors
/// The file cannot be written.
pub fn append<T: Serialize>(file: &Path, rows: &[T]) -> Result<(), RecordError> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row).map_err(|error| RecordError::Unrecordable(error.to_string()))?;
        lines.push(b'\n');
    }
    let written = append_regular(file, true).and_then(|mut out| out.write_all(&lines));
    written.map_err(|source| RecordError::Create { file: file.into(), source })
}

/// All rows up to the first line that is not whole or none; none where there is no file.
///
/// # Errors
/// The file cannot be read.
pub fn read<T: DeserializeOwned>(file: &Path, limits: Limits) -> Result<Vec<T>, RecordError> {
    let cannot = |source: io::Error| RecordError::Read { file: file.into(), source };
    let mut input = match open_regular(file) {
        Ok(input) => BufReader::new(input),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot(error)),
    };
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    while rows.len() < limits.lines {
        line.clear();
        input.by_ref().take(limits.line).read_until(b'\n', &mut line).map_err(cannot)?;
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let Ok(row) = serde_json::from_slice(text) else { break };
        rows.push(row);
    }
    Ok(rows)
}
