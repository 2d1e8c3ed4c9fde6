//! The control groups of this process that may limit its CPU time, its own and all above it, in version 2 and version 1.

use std::path::{Path, PathBuf};

use super::read;

/// A control group that this process is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub folder: PathBuf,
    /// CPU time that it may use in a period, and the period, µs; `None`: no quota.
    pub quota: Option<Quota>,
}

/// CPU time in a period, µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// CPU time that may be used.
    pub time_us: u64,
    /// In this time.
    pub period_us: u64,
}

impl Quota {
    /// CPUs that it amounts to.
    pub fn cpus(self) -> f64 {
        self.time_us as f64 / self.period_us as f64
    }
}

impl Group {
    /// The file that counts throttling.
    pub fn stat(&self) -> PathBuf {
        self.folder.join("cpu.stat")
    }
}

/// The groups of this process that count throttling.
///
/// # Errors
/// As [`of`].
pub fn all() -> Result<Vec<Group>, String> {
    of("self")
}

/// The groups of a process (its number, or `self`) that count throttling, innermost first: a quota of any of them stops it.
///
/// # Errors
/// None does, or the groups cannot be read.
pub fn of(process: &str) -> Result<Vec<Group>, String> {
    let groups = read::text(&format!("/proc/{process}/cgroup"))?;
    let mounts = read::text("/proc/self/mountinfo")?;
    let found =
        paths(&groups).into_iter().filter_map(|(version, path)| Some((version, path, mount(&mounts, version)?)));
    let all: Vec<Group> = found.flat_map(|(version, path, mount)| upwards(&mount, path, version)).collect();
    if all.is_empty() { Err("no control group of this process counts CPU time".into()) } else { Ok(all) }
}

/// The group at this path of a hierarchy that is mounted there, and those above it.
fn upwards(mount: &Path, path: &str, version: u8) -> Vec<Group> {
    let own = mount.join(path.trim_start_matches('/'));
    // A container may see its path but not the folders above its own: then the mount is its group.
    let own = if own.join("cpu.stat").exists() { own } else { mount.to_path_buf() };
    let folders = own.ancestors().take_while(|folder| folder.starts_with(mount));
    let counts =
        |folder: &&Path| throttling(&std::fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default()).is_some();
    let folders = folders.filter(counts);
    folders.map(|folder| Group { folder: folder.to_path_buf(), quota: quota(folder, version) }).collect()
}

/// The group whose quota is the least.
pub fn tightest(groups: &[Group]) -> Option<(&Group, Quota)> {
    let limited = groups.iter().filter_map(|group| Some((group, group.quota?)));
    limited.min_by(|(_, a), (_, b)| a.cpus().total_cmp(&b.cpus()))
}

/// The least quota of the groups of this process as `cpu.max` has it, and the folder of its group; `max` where none has one.
pub fn fact() -> (String, String) {
    let found = all().map(|groups| {
        let least = tightest(&groups);
        let least = least.map(|(group, Quota { time_us, period_us })| {
            (format!("{time_us} {period_us}"), group.folder.display().to_string())
        });
        least.unwrap_or_else(|| ("max".into(), "none".into()))
    });
    found.unwrap_or_else(|reason| (format!("n/a: {reason}"), "n/a".into()))
}

/// Version and path of the groups that may hold the CPU controller.
fn paths(groups: &str) -> Vec<(u8, &str)> {
    let mut found: Vec<(u8, &str)> = groups
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            match (parts.next()?, parts.next()?, parts.next()?) {
                ("0", "", path) => Some((2, path)),
                (_, controllers, path) if controllers.split(',').any(|one| one == "cpu") => Some((1, path)),
                _ => None,
            }
        })
        .collect();
    found.sort_by_key(|(version, _)| *version); // where version 1 has the controller, version 2 has not
    found
}

fn mount(mounts: &str, version: u8) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        let fits = match version {
            2 => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|one| one == "cpu"),
        };
        fits.then(|| PathBuf::from(before.split(' ').nth(4).unwrap_or_default()))
    })
}

fn quota(folder: &Path, version: u8) -> Option<Quota> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    match version {
        2 => cpu_max(&text("cpu.max")?),
        _ => cpu_max(&format!("{} {}", text("cpu.cfs_quota_us")?.trim(), text("cpu.cfs_period_us")?.trim())),
    }
}

/// `cpu.max` (`200000 100000`); `None` for `max`, or -1 in version 1.
pub fn cpu_max(text: &str) -> Option<Quota> {
    let mut words = text.split_whitespace();
    let (time_us, period_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (time_us > 0 && period_us > 0).then_some(Quota { time_us, period_us })
}

/// Times throttled and for how long, µs, of `cpu.stat` in either version.
pub fn throttling(text: &str) -> Option<(u64, u64)> {
    let value =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    let time = value("throttled_usec").or_else(|| Some(value("throttled_time")? / 1_000))?;
    Some((value("nr_throttled")?, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_cpus() {
        assert_eq!(cpu_max("150000 100000\n").map(Quota::cpus), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max("-1 100000"), None);
        assert_eq!(cpu_max(""), None);
        assert_eq!(cpu_max("1 0"), None);
    }

    /// A hierarchy of either version as files: the group of the process has a quota that is wide, its parent one that is not.
    #[test]
    fn the_quota_of_a_parent_counts() {
        for version in [1, 2] {
            let root = msgpath_sys::temporary::Temporary::new().unwrap();
            let group = |path: &str, quota: Option<(&str, &str)>| {
                let folder = root.path().join(path);
                std::fs::create_dir_all(&folder).unwrap();
                let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
                write("cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 12345678\n");
                let Some((time, period)) = quota else { return };
                if version == 2 {
                    write("cpu.max", &format!("{time} {period}\n"));
                } else {
                    write("cpu.cfs_quota_us", time);
                    write("cpu.cfs_period_us", period);
                }
            };
            group("", None);
            group("a", Some(("50000", "100000")));
            group("a/b", Some(("150000", "100000")));
            group("a/b/c", Some((if version == 2 { "max" } else { "-1" }, "100000")));
            let groups = upwards(root.path(), "/a/b/c", version);
            assert_eq!(
                groups.iter().map(|group| group.quota.map(Quota::cpus)).collect::<Vec<_>>(),
                [None, Some(1.5), Some(0.5), None]
            );
            let (group, quota) = tightest(&groups).unwrap();
            assert_eq!((group.folder.clone(), quota.period_us), (root.path().join("a"), 100_000));
            assert_eq!(upwards(root.path(), "/not/seen/here", version).len(), 1, "the mount is the group");
        }
    }

    #[test]
    fn throttling_is_read_in_both_versions() {
        let two = "usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 12345\n";
        let one = "nr_periods 4\nnr_throttled 3\nthrottled_time 12345678\n";
        assert_eq!(throttling(two), Some((3, 12345)));
        assert_eq!(throttling(one), Some((3, 12345)));
        assert_eq!(throttling("usage_usec 9\n"), None);
        assert_eq!(throttling("nr_throttled x\nthrottled_usec\n"), None);
    }

    #[test]
    fn the_group_is_found_among_both_versions() {
        let groups = "3:cpuset:/\n2:cpu,cpuacct:/a\n0::/b\n";
        assert_eq!(paths(groups), [(1, "/a"), (2, "/b")]);
        assert_eq!(paths("garbage\n1:2\n"), []);
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n41 31 0:38 / /u rw shared:3 - cgroup2 none rw\n";
        assert_eq!(mount(mounts, 1), Some("/sys/fs/cgroup/cpu".into()));
        assert_eq!(mount(mounts, 2), Some("/u".into()));
        assert_eq!(mount("x", 2), None);
    }
}
