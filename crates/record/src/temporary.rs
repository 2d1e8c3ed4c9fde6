//! Folders below the one for temporary files: nobody else can have made them for us, and what a killed program left there
//! is removed by the next one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How the name of a folder begins that holds runs for lack of a home.
const RUNS: &str = "msgpath-runs-";

/// A folder that does not last, not yet made: for one run of this process. Those of processes that have ended are removed.
pub fn folder(seed: u64) -> PathBuf {
    let root = std::env::temp_dir();
    let namespace = namespace();
    sweep(&root, namespace, |pid| Path::new("/proc").join(pid.to_string()).exists());
    root.join(format!("msgpath-{}-{namespace}-{seed:016x}", std::process::id()))
}

/// The namespace of process numbers (pid_namespaces(7)): containers may share a folder and not their numbers.
fn namespace() -> u64 {
    let name = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    name.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// Removes the folders of processes that have ended.
fn sweep(root: &Path, namespace: u64, lives: impl Fn(u32) -> bool) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| maker(name, namespace));
        if pid.is_some_and(|pid| !lives(pid)) && is_own(&entry.path()) {
            // It follows no symbolic link, in the folder or in its place.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made the folder of this name; `None`: it is not one of ours, or made elsewhere.
fn maker(name: &str, namespace: u64) -> Option<u32> {
    let (pid, rest) = name.strip_prefix("msgpath-")?.split_once('-')?;
    let (made_in, seed) = rest.split_once('-')?;
    let ours = made_in.parse() == Ok(namespace) && seed.len() == 16 && u64::from_str_radix(seed, 16).is_ok();
    pid.parse().ok().filter(|_| ours)
}

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
    fn only_folders_of_processes_that_have_ended_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let victim = at("victim");
        let there = [
            "msgpath-7-40-00000000000000aa", // lives
            "msgpath-8-41-00000000000000aa", // of another container
            "msgpath-8-40-aa",               // not our form
            "msgpath-8-0-00000000000000aa",  // of a program that has other names
            "msgpath-runs-00000000000000aa",
            "photos",
            "victim",
        ];
        for name in there.iter().chain(&["msgpath-8-40-00000000000000aa"]) {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "text").unwrap();
        }
        symlink(&victim, at("msgpath-9-40-00000000000000bb")).unwrap();
        symlink(&victim, at("msgpath-8-40-00000000000000aa").join("link")).unwrap();
        sweep(root.path(), 40, |pid| pid == 7);
        assert!(!at("msgpath-8-40-00000000000000aa").exists());
        assert!(there.iter().all(|name| at(name).join("file").exists()));
        assert!(at("msgpath-9-40-00000000000000bb").is_symlink(), "no folder");
    }

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
