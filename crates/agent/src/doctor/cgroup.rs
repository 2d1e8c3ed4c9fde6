//! The control group of this process that may limit its CPU time, in version 2 and version 1.

use std::path::{Path, PathBuf};

use super::read;

/// Where the quota of this process is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its folder.
    pub folder: PathBuf,
    /// CPUs that the quota amounts to; `None`: no quota.
    pub cpus: Option<f64>,
}

impl Group {
    /// The file that counts throttling.
    pub fn stat(&self) -> PathBuf {
        self.folder.join("cpu.stat")
    }
}

/// The innermost group of this process with a quota; its own where none has one.
pub fn own() -> Result<Group, String> {
    let groups = read::text("/proc/self/cgroup")?;
    let mounts = read::text("/proc/self/mountinfo")?;
    let mut own = None;
    for (version, path) in paths(&groups) {
        let Some(mount) = mount(&mounts, version) else { continue };
        let mut folder = mount.join(path.trim_start_matches('/'));
        // A container may see its path but not the folders above its own: then the mount is its group.
        if !folder.join("cpu.stat").exists() {
            folder.clone_from(&mount);
        }
        while folder.starts_with(&mount) {
            if let Some(cpus) = quota(&folder, version) {
                return Ok(Group { folder, cpus: Some(cpus) });
            }
            if own.is_none()
                && throttling(&std::fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default()).is_some()
            {
                own = Some(Group { folder: folder.clone(), cpus: None });
            }
            if !folder.pop() {
                break;
            }
        }
    }
    own.ok_or_else(|| "no control group of this process counts CPU time".into())
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

fn quota(folder: &Path, version: u8) -> Option<f64> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    match version {
        2 => cpu_max(&text("cpu.max")?),
        _ => cpu_max(&format!("{} {}", text("cpu.cfs_quota_us")?.trim(), text("cpu.cfs_period_us")?.trim())),
    }
}

/// CPUs of `cpu.max` (`200000 100000`); `None` for `max`, or -1 in version 1.
pub fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
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
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max("-1 100000"), None);
        assert_eq!(cpu_max(""), None);
        assert_eq!(cpu_max("1 0"), None);
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
