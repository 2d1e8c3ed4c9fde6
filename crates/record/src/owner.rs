//! Whose a record or a file is: what others may have written is not obeyed.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whoever is not the owner may write.
const OTHERS_WRITE: u32 = 0o022;
/// Of a folder: entries are removed and renamed by their owners alone (S_ISVTX, inode(7)).
const STICKY: u32 = 0o1000;

/// Why somebody else may have written the record in this folder; `None`: only this user can have. A record is this user's where
/// it lies among the runs in `root`, and the folder and its files can be written by nobody else: one that lies elsewhere was passed on.
pub fn others_record(root: &Path, folder: &Path) -> Option<String> {
    let (root, place) = (fs::canonicalize(root), fs::canonicalize(folder));
    match (&root, &place) {
        (Ok(root), Ok(place)) if place.parent() == Some(root) => {}
        _ => return Some(format!("{} is not among the runs of this user", folder.display())),
    }
    others_file(folder).or_else(|| {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return Some(format!("{} cannot be read: {error}", folder.display())),
        };
        let is_of_record = |name: &str| [".json", ".jsonl", ".mpl"].iter().any(|kind| name.ends_with(kind));
        let files = entries.flatten().filter(|entry| is_of_record(&entry.file_name().to_string_lossy()));
        files.into_iter().find_map(|entry| others_entry(&entry.path()))
    })
}

/// Why somebody else may have written this file or made this folder; `None`: only this user, or root, can have.
pub fn others_file(file: &Path) -> Option<String> {
    let cannot = |error| Some(format!("{} cannot be looked at: {error}", file.display()));
    if fs::symlink_metadata(file).is_ok_and(|data| data.is_symlink() && data.uid() != this_user()) {
        return Some(format!("{} is a symbolic link of another user", file.display()));
    }
    let place = match fs::canonicalize(file) {
        Ok(place) => place,
        Err(error) => return cannot(error),
    };
    let entry = match fs::metadata(&place) {
        Ok(data) => others(&data, &place),
        Err(error) => return cannot(error),
    };
    // Who can rename a folder above it can put another one in its place.
    let above = || {
        place.ancestors().skip(1).find_map(|folder| {
            let data = fs::metadata(folder).ok()?;
            let owned = data.uid() == 0 || data.uid() == this_user();
            let kept = data.mode() & OTHERS_WRITE == 0 || data.mode() & STICKY != 0;
            (!owned || !kept).then(|| format!("{} above it can be changed by other users", folder.display()))
        })
    };
    entry.or_else(above)
}

/// The same of an entry of a folder that is this user's.
fn others_entry(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Ok(data) if !data.is_file() => Some(format!("{} is not a plain file", path.display())),
        Ok(data) => others(&data, path),
        Err(error) => Some(format!("{} cannot be looked at: {error}", path.display())),
    }
}

fn others(data: &Metadata, path: &Path) -> Option<String> {
    if data.uid() != this_user() {
        return Some(format!("{} is owned by the user {}, not by {}", path.display(), data.uid(), this_user()));
    }
    (data.mode() & OTHERS_WRITE != 0).then(|| format!("{} can be written by other users", path.display()))
}

fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A record among the runs of this user: the root, its folder, and a file of it.
    fn record() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("otter");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("run.json");
        fs::write(&file, "{}").unwrap();
        mode(root.path(), 0o755);
        mode(&folder, 0o755);
        mode(&file, 0o644);
        (root, folder, file)
    }

    #[track_caller]
    fn is_others(root: &Path, folder: &Path, part: &str) {
        let why = others_record(root, folder).unwrap_or_else(|| panic!("{folder:?} is this user's"));
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn a_record_is_this_users_where_nobody_else_can_have_written_it() {
        let (root, folder, file) = record();
        assert_eq!(others_record(root.path(), &folder), None);
        mode(&folder, 0o777);
        is_others(root.path(), &folder, "otter can be written by other users");
        mode(&folder, 0o755);
        mode(&file, 0o664);
        is_others(root.path(), &folder, "run.json can be written by other users");
        mode(&file, 0o644);
        symlink("/etc/passwd", folder.join("rounds.mpl")).unwrap();
        is_others(root.path(), &folder, "rounds.mpl is not a plain file");
        fs::remove_file(folder.join("rounds.mpl")).unwrap();
        mode(root.path(), 0o777);
        is_others(root.path(), &folder, "above it can be changed");
        mode(root.path(), 0o1777);
        assert_eq!(others_record(root.path(), &folder), None, "others cannot rename it");
    }

    #[test]
    fn a_record_that_was_passed_on_is_not_this_users() {
        let (root, folder, _) = record();
        let (elsewhere, other, _) = record();
        is_others(root.path(), &other, "not among the runs");
        symlink(&other, root.path().join("link")).unwrap();
        is_others(root.path(), &root.path().join("link"), "not among the runs");
        is_others(&elsewhere.path().join("none"), &folder, "not among the runs");
    }

    #[test]
    fn a_record_of_another_owner_is_not_this_users() {
        let (root, folder, file) = record();
        if chown(&file, Some(54_321), None).is_err() {
            println!("skipped: only root can give a file to another user");
            return;
        }
        is_others(root.path(), &folder, "run.json is owned by the user 54321");
        chown(&file, Some(0), None).unwrap();
        chown(&folder, Some(54_321), None).unwrap();
        is_others(root.path(), &folder, "otter is owned by the user 54321");
        chown(&folder, Some(0), None).unwrap();
        chown(root.path(), Some(54_321), None).unwrap();
        is_others(root.path(), &folder, "above it can be changed");
    }
}
