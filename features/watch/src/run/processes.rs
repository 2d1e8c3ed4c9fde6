//! What is known of the processes of servers: the runtime that they run in, and the CPU quota that keeps them from a CPU.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use msgpath_agent::doctor::cgroup;
use msgpath_core::units::Glyphs;
use msgpath_core::watch::{QUOTA, RequestRow};

use crate::record::{Process, Runtime};

/// Processes that are looked at.
const MOST: usize = 256;
/// Names of sections of a file, bytes.
const MOST_NAMES: u64 = 1 << 16;

/// Those that have answered requests.
#[derive(Default)]
pub(super) struct Processes(BTreeMap<i32, Process>);

impl Processes {
    /// Looks at those that are new in these rows, and at the quotas of those that were kept from a CPU by one.
    pub(super) fn look(&mut self, rows: &[RequestRow]) {
        for row in rows.iter().filter(|row| row.server_process > 0) {
            if self.0.len() >= MOST && !self.0.contains_key(&row.server_process) {
                continue;
            }
            let process = row.server_process;
            let new = || Process { process, runtime: runtime(process), quota: None };
            let known = self.0.entry(process).or_insert_with(new);
            if known.quota.is_none() && [&row.run_there, &row.run_work].iter().any(|run| run.call == QUOTA) {
                known.quota = quota(process);
            }
        }
    }

    /// Those of which there is something to know.
    pub(super) fn known(self) -> Vec<Process> {
        self.0.into_values().filter(|process| process.runtime.is_some() || process.quota.is_some()).collect()
    }
}

/// The tightest quota of the groups of a process.
fn quota(process: i32) -> Option<String> {
    let groups = cgroup::of(&process.to_string()).ok()?;
    let (group, quota) = cgroup::tightest(&groups)?;
    let time = |us: u64| Glyphs::Unicode.time(us as f64 * 1e3);
    Some(format!("{} ({} in {})", group.folder.display(), time(quota.time_us), time(quota.period_us)))
}

fn runtime(process: i32) -> Option<Runtime> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    if maps.contains("/libjvm.so") {
        return Some(Runtime::Jvm);
    }
    let names = section_names(&File::open(format!("/proc/{process}/exe")).ok()?)?;
    let name = b".gopclntab\0";
    names.windows(name.len()).any(|window| window == name).then_some(Runtime::Go)
}

/// The names of the sections of an ELF file of 64 bits, in the order of this machine's bytes.
fn section_names(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let wide = |bytes: &[u8], at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    if !header.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let place = wide(&header, 0x28)?.checked_add(u64::from(half(0x3a)) * u64::from(half(0x3e)))?;
    let mut section = [0; 64];
    file.read_exact_at(&mut section, place).ok()?;
    let (offset, size) = (wide(&section, 0x18)?, wide(&section, 0x20)?);
    let mut names = vec![0; usize::try_from(size.min(MOST_NAMES)).ok()?];
    file.read_exact_at(&mut names, offset).ok()?;
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_of_this_program_are_read() {
        let own = File::open("/proc/self/exe").unwrap();
        let names = section_names(&own).unwrap();
        assert!(names.windows(6).any(|name| name == b".text\0"), "{}", String::from_utf8_lossy(&names));
        assert_eq!(section_names(&File::open("/proc/self/maps").unwrap()), None);
        assert_eq!(runtime(std::process::id() as i32), None);
    }
}
