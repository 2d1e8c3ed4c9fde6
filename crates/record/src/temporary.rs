//! The folder for runs of a user without a home, below the one for temporary files: no other user can have made it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How the name of a folder begins that holds runs for lack of a home.
const RUNS: &str = "msgpath-runs-";

/// Whether this is a folder, no link to one, and this user's.
fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|data| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw())
}

/// The folder in `root` that keeps runs of users without a home: whose it is decides, not its name. One that could be
/// written by others does not count. `None`: there is none yet.
pub(crate) fn kept_runs(root: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(RUNS)))
        .map(|entry| entry.path())
        .filter(|folder| is_own(folder) && fs::symlink_metadata(folder).is_ok_and(|data| data.mode() & 0o077 == 0))
        .collect();
    found.sort();
    found.into_iter().next()
}

/// The same, made where there is none, under a name that nobody can guess.
///
/// # Errors
/// It cannot be made.
pub(crate) fn keep_runs(root: &Path) -> io::Result<PathBuf> {
    if let Some(folder) = kept_runs(root) {
        return Ok(folder);
    }
    let folder = root.join(format!("{RUNS}{:016x}", msgpath_sys::random::number()?));
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn what_others_made_or_can_write_keeps_no_runs() {
        let root = tempfile::tempdir().unwrap();
        let made = |name: &str, mode: u32| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            folder
        };
        made("msgpath-runs-0", 0o777);
        made("msgpath-runs-1", 0o750);
        let private = made("private", 0o700);
        symlink(&private, root.path().join("msgpath-runs-2")).unwrap();
        match chown(made("msgpath-runs-3", 0o700), Some(4_711), None) {
            Ok(()) => {}
            // Who is not root cannot make one for somebody else.
            Err(_) => fs::remove_dir(root.path().join("msgpath-runs-3")).unwrap(),
        }
        assert_eq!(kept_runs(root.path()), None);
        let own = keep_runs(root.path()).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!((kept_runs(root.path()), keep_runs(root.path()).ok()), (Some(own.clone()), Some(own)));
    }
}
