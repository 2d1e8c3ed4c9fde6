//! Folders that last as long as their value. Its process holds a lock (flock(2)) on each, which the kernel releases however
//! the process ends: a folder whose lock is free was left by a process that was killed, and the next `msgpath` removes it.
//!
//! The lock, not a process number in the name, says who lives: numbers are used again, and containers that share a folder
//! count them from 1.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::random;

/// How the names begin; a random number of 32 hexadecimal digits follows.
const PREFIX: &str = "msgpath-tmp-";
const DIGITS: usize = 32;
/// A folder may be swept between its making and its lock. Then another one is made.
const TRIES: usize = 16;

/// A folder for this user alone, removed with all that is in it.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

impl Temporary {
    /// Makes one in the folder for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    /// The same, in another folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new_in(root: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let number = u128::from_le_bytes(random::bytes()?);
            let path = root.join(format!("{PREFIX}{number:0DIGITS$x}"));
            DirBuilder::new().mode(0o700).create(&path)?;
            let Some(lock) = opened_again(&path)? else { continue };
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) => continue,
                // A file system without locks: nobody can lock the folder to remove it either.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            if opened_again(&path)?.and_then(|now| same(&now, &lock)).is_some() {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("folders in {} vanish", root.display())))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The owner may have moved it away.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes from `root` the folders whose processes have ended.
pub fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_name) {
            remove_abandoned(&entry.path());
        }
    }
}

/// Whether a name is of the form that [`Temporary`] makes.
pub fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == DIGITS && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn remove_abandoned(path: &Path) {
    let Ok(folder) = opened(path) else { return };
    let is_own = folder.metadata().is_ok_and(|data| data.uid() == rustix::process::geteuid().as_raw());
    if is_own && folder.try_lock().is_ok() {
        // It follows no symbolic link, in the folder or in its place.
        let _ = fs::remove_dir_all(path);
    }
}

/// The folder that was just made; `None`: it was swept meanwhile. Where it cannot be opened it goes.
fn opened_again(path: &Path) -> io::Result<Option<File>> {
    match opened(path) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let _ = fs::remove_dir(path);
            Err(error)
        }
    }
}

/// A folder that is no link to one.
fn opened(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn same(one: &File, other: &File) -> Option<()> {
    let (one, other) = (one.metadata().ok()?, other.metadata().ok()?);
    ((one.dev(), one.ino()) == (other.dev(), other.ino())).then_some(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_private_and_goes_with_its_value() {
        let root = Temporary::new().unwrap();
        let folder = Temporary::new_in(root.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), "text").unwrap();
        drop(folder);
        assert_eq!(names(root.path()), [""; 0]);
        assert!(Temporary::new_in(&root.path().join("none")).is_err());
    }

    #[test]
    fn folders_without_an_owner_are_swept_and_nothing_else() {
        let root = Temporary::new().unwrap();
        let at = |name: &str| root.path().join(name);
        let numbered = |digit: &str| format!("{PREFIX}{}", digit.repeat(DIGITS));
        let kept = Temporary::new_in(root.path()).unwrap();
        let victim = at("victim");
        for name in ["victim", "msgpath-tmp-1", "msgpath-runs-00000000000000aa", &numbered("A"), &numbered("0")] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "text").unwrap();
        }
        fs::write(at(&numbered("1")), "no folder").unwrap();
        symlink(&victim, at(&numbered("2"))).unwrap();
        symlink(&victim, at(&numbered("0")).join("link")).unwrap();
        fs::create_dir(at(&numbered("3"))).unwrap();
        // Only root can make a folder for another user.
        let foreign = chown(at(&numbered("3")), Some(4_711), None).is_ok();
        sweep(root.path());
        let mut expected = vec![
            "msgpath-runs-00000000000000aa".to_owned(),
            "msgpath-tmp-1".to_owned(),
            kept.path().file_name().unwrap().to_str().unwrap().to_owned(),
            numbered("1"),
            numbered("2"),
            numbered("A"),
            "victim".to_owned(),
        ];
        expected.extend(foreign.then(|| numbered("3")));
        expected.sort();
        assert_eq!(names(root.path()), expected);
        assert!(victim.join("file").exists(), "a link was followed");
    }

    #[test]
    fn a_sweep_removes_no_folder_that_is_being_made() {
        let root = Temporary::new().unwrap();
        let folder = root.path().to_path_buf();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(&folder);
                }
            });
            for _ in 0..200 {
                let made = Temporary::new_in(&folder).unwrap();
                fs::write(made.path().join("file"), "text").unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(names(root.path()), [""; 0]);
    }
}
