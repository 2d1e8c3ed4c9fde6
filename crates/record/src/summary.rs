//! What was printed at the end of a run, kept beside it so that it can be checked. The record itself holds no quantile
//! and no ratio: nothing reads these numbers but the check.

use std::io;
use std::path::Path;

use msgpath_sys::files::read_regular;

use crate::writer::write_whole;
use crate::{RecordError, SUMMARY_FILE};

/// The largest summary that is read, bytes.
const MAX_SUMMARY: u64 = 256 << 20;

/// Stores the summary, JSON, in the folder of its run; one that is there already is replaced in one step.
///
/// # Errors
/// The file cannot be written.
pub fn write_summary(folder: &Path, json: &[u8]) -> Result<(), RecordError> {
    let file = folder.join(SUMMARY_FILE);
    write_whole(&file, json).map_err(|source| RecordError::Create { file, source })
}

/// The stored summary as it is; `None` where the run has none: it was killed, or failed before anything was printed.
///
/// # Errors
/// It cannot be read, or has more than 256 MiB.
pub fn read_summary(folder: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    let file = folder.join(SUMMARY_FILE);
    match read_regular(&file, MAX_SUMMARY) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read { file, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run;

    #[test]
    fn a_summary_is_kept_beside_the_run_and_does_not_disturb_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        test_run::write(&folder, 100);
        assert_eq!(read_summary(&folder).unwrap(), None);
        write_summary(&folder, b"{}").unwrap();
        write_summary(&folder, b"{\"a\":1}").unwrap();
        assert_eq!(read_summary(&folder).unwrap().unwrap(), b"{\"a\":1}");
        assert!(crate::read(&folder).unwrap().damage.is_none());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4, "nothing is left beside it");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error() {
        let error = write_summary(Path::new("/nowhere/at/all"), b"{}").unwrap_err();
        assert!(error.to_string().contains("summary.json"), "{error}");
    }
}
