//! A cgroup (version 2) that is watched: found by its folder or its name, with the processes that are in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use msgpath_core::{Exit, Problem};

/// Cgroups of one tree, and processes of one cgroup, that are looked at.
const MOST_GROUPS: usize = 4096;
const MOST_PROCESSES: usize = 65_536;

pub(super) struct Cgroup {
    folder: PathBuf,
    /// What the kernel calls it: the inode of its folder.
    pub(super) id: u64,
}

impl Cgroup {
    /// `typed` is a folder, or a name as in /proc/PID/cgroup.
    ///
    /// # Errors
    /// E61: there is no such cgroup.
    pub(super) fn find(typed: &str) -> Result<Self, Problem> {
        let below = |mount: PathBuf| mount.join(typed.trim_start_matches('/'));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = std::iter::once(PathBuf::from(typed)).chain(mount(&mounts).map(below));
        let found = places.into_iter().find_map(|folder| {
            // Every cgroup of version 2 has this file, and nothing else has.
            folder.join("cgroup.controllers").is_file().then_some(())?;
            Some(Self { id: fs::metadata(&folder).ok()?.ino(), folder })
        });
        found.ok_or_else(|| {
            Problem::new("E61", Exit::CannotStart, format!("there is no cgroup {typed}"))
                .why("a folder of cgroup version 2 is meant, or a name as in /proc/PID/cgroup behind 0::")
                .hint("systemd-cgls; docker inspect -f '{{.State.Pid}}' NAME, then cat /proc/PID/cgroup")
        })
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        format!("cgroup {}", self.folder.display())
    }

    /// Processes in it and below it.
    pub(super) fn processes(&self) -> Vec<i32> {
        let (mut open, mut processes, mut looked_at) = (vec![self.folder.clone()], Vec::new(), 0);
        while let Some(folder) = open.pop()
            && looked_at < MOST_GROUPS
        {
            looked_at += 1;
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            processes.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).take(MOST_PROCESSES));
            open.extend(folders(&folder).take(MOST_GROUPS));
        }
        processes
    }
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Where cgroups of version 2 are, of the lines of /proc/self/mounts.
fn mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let folder = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!((mount("cgroup2 /a"), mount("")), (None, None));
    }

    #[test]
    fn what_is_no_cgroup_is_refused() {
        for typed in ["/proc", "/no/such/folder"] {
            let Err(problem) = Cgroup::find(typed) else { panic!("{typed} is none") };
            assert!(problem.to_string().contains(typed), "{problem}");
        }
    }

    #[test]
    fn a_process_is_in_its_own_cgroup() {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let name = own.lines().find_map(|line| line.strip_prefix("0::"));
        let Some(cgroup) = name.and_then(|name| Cgroup::find(name).ok()) else {
            return println!("skipped: no cgroups of version 2 are seen here");
        };
        assert!(cgroup.id > 0 && cgroup.processes().contains(&(std::process::id() as i32)), "{}", cgroup.words());
    }
}
