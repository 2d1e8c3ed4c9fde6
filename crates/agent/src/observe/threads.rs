//! What /proc says of threads, those of other processes too.

use std::collections::BTreeMap;

use crate::doctor::read::{cpu_list, field};

fn status(tid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{tid}/status")).ok()
}

/// A task's name; that of 0 is `idle`. `None`: it is gone.
pub(super) fn name(tid: i32) -> Option<String> {
    if tid == 0 {
        return Some("idle".into());
    }
    let name = std::fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// Names of the processes of this machine, the newest first, at most so many: who ends soon started late.
pub(super) fn processes(most: usize) -> BTreeMap<i32, String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let mut pids: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    pids.into_iter().take(most).filter_map(|pid| Some((pid, name(pid)?))).collect()
}

pub(super) fn process(tid: i32) -> Option<i32> {
    field(&status(tid)?, "Tgid")?.parse().ok()
}

/// The CPUs that there may ever be.
pub(super) fn possible() -> Vec<u32> {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").map(|text| cpu_list(&text));
    cpus.ok().filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| (0..1024).collect())
}

/// The CPUs on which these threads may run, in order; all, where one of them cannot be asked.
pub(super) fn cpus(tids: &[i32]) -> Vec<u32> {
    let mut cpus = Vec::new();
    for tid in tids {
        match status(*tid).as_deref().and_then(|text| field(text, "Cpus_allowed_list")).map(cpu_list) {
            Some(allowed) if !allowed.is_empty() => cpus.extend(allowed),
            _ => return possible(),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_known() {
        let tid = msgpath_sys::affinity::thread_id();
        assert!(name(tid).is_some_and(|name| !name.is_empty() && !name.contains('\n')));
        assert_eq!(process(tid), i32::try_from(std::process::id()).ok());
        assert_eq!(cpus(&[tid]), msgpath_sys::affinity::allowed());
        assert_eq!(name(0).as_deref(), Some("idle"));
    }

    #[test]
    fn a_process_that_ends_was_known_before() {
        let mut child = match std::process::Command::new("sleep").arg("60").spawn() {
            Ok(child) => child,
            Err(error) => return eprintln!("skipped: sleep cannot be started: {error}"),
        };
        let (pid, own) = (child.id() as i32, std::process::id() as i32);
        let before = processes(1 << 22);
        let ended = child.kill().and_then(|()| child.wait());
        assert!(ended.is_ok() && name(pid).is_none() && before.contains_key(&pid));
        assert!(before.contains_key(&own) && processes(2).len() <= 2);
    }

    #[test]
    fn a_thread_that_is_gone_may_have_run_anywhere() {
        assert_eq!(name(i32::MAX), None);
        assert_eq!(process(-1), None);
        assert_eq!(cpus(&[i32::MAX]), possible());
    }
}
