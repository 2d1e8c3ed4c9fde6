//! The machine of one end: what is part of a result's identity.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::sync::OnceLock;

use msgpath_core::schema::{Environment, LIMITED_GROUP, QUOTA_FACT, TIME_NAMESPACE};
use msgpath_sys::affinity;

use crate::confine;
use crate::doctor::cgroup;
use crate::doctor::read::field;
use crate::doctor::stat::ticks;

/// Files whose one line is a fact, by the name it gets.
const FILES: [(&str, &str); 24] = [
    ("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpu governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("loadavg", "/proc/loadavg"),
    ("tcp congestion control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("tcp available congestion control", "/proc/sys/net/ipv4/tcp_available_congestion_control"),
    ("tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"),
    ("tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem"),
    ("tcp_slow_start_after_idle", "/proc/sys/net/ipv4/tcp_slow_start_after_idle"),
    ("tcp_autocorking", "/proc/sys/net/ipv4/tcp_autocorking"),
    ("optmem_max", "/proc/sys/net/core/optmem_max"),
    ("default qdisc", "/proc/sys/net/core/default_qdisc"),
    ("io_uring_disabled", "/proc/sys/kernel/io_uring_disabled"),
    ("randomize_va_space", "/proc/sys/kernel/randomize_va_space"),
    ("transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("kernel command line", "/proc/cmdline"),
    ("tcp_notsent_lowat", "/proc/sys/net/ipv4/tcp_notsent_lowat"),
    ("busy_poll", "/proc/sys/net/core/busy_poll"),
    ("busy_read", "/proc/sys/net/core/busy_read"),
    ("rmem_max", "/proc/sys/net/core/rmem_max"),
    ("wmem_max", "/proc/sys/net/core/wmem_max"),
    ("mqueue msgsize_max", "/proc/sys/fs/mqueue/msgsize_max"),
    ("mqueue msg_max", "/proc/sys/fs/mqueue/msg_max"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    ("numa nodes", "/sys/devices/system/node/online"),
];

fn line(path: &str) -> Result<String, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()),
        Err(error) => Err(format!("n/a: {}", error.kind())),
    }
}

fn either(value: Result<String, String>) -> String {
    value.unwrap_or_else(|reason| reason)
}

/// Reads it. What cannot be read says why.
pub fn read() -> Environment {
    let mut facts: BTreeMap<String, String> =
        FILES.iter().map(|(name, path)| ((*name).to_owned(), either(line(path)))).collect();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| field(&cpuinfo, name).map(str::to_owned);
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &str| flags.split(' ').any(|one| one == flag);
    facts.insert("hypervisor".into(), if has("hypervisor") { "yes".into() } else { "none seen".into() });
    facts.insert("constant_tsc".into(), has("constant_tsc").to_string());
    facts.insert("microcode".into(), field("microcode").unwrap_or_else(|| "n/a: not in /proc/cpuinfo".into()));
    facts.insert("build".into(), if cfg!(debug_assertions) { "debug" } else { "release" }.into());
    facts.insert("machine".into(), std::env::consts::ARCH.into());
    facts.insert("mitigations".into(), mitigations());
    facts.insert("steal".into(), if steal_ticks().is_some() { "counted" } else { "n/a: not in /proc/stat" }.into());
    for (name, path) in [(TIME_NAMESPACE, "/proc/self/ns/time"), ("network namespace", "/proc/self/ns/net")] {
        let link = fs::read_link(path).map(|link| link.to_string_lossy().into_owned());
        facts.insert(name.into(), link.unwrap_or_else(|error| format!("n/a: {}", error.kind())));
    }
    facts.extend(quota());
    facts.insert("binary".into(), binary());
    facts.extend(confine::state().map(|state| ("confinement".into(), state.into())));
    Environment {
        host: either(line("/proc/sys/kernel/hostname")),
        kernel: either(line("/proc/sys/kernel/osrelease")),
        cpu: field("model name").unwrap_or_else(|| "n/a: not in /proc/cpuinfo".into()),
        cpus: affinity::allowed(),
        boot_id: boot_id(),
        facts,
    }
}

/// The least CPU quota of the groups of this process, and its group: facts of an [`Environment`].
pub fn quota() -> [(String, String); 2] {
    let (quota, group) = cgroup::fact();
    [(QUOTA_FACT.into(), quota), (LIMITED_GROUP.into(), group)]
}

/// What tells this machine since its start from all others.
pub fn boot_id() -> String {
    either(line("/proc/sys/kernel/random/boot_id"))
}

/// CRC-32 of this program's file, read once. It tells builds apart; it is not proof against forgery.
fn binary() -> String {
    static BINARY: OnceLock<String> = OnceLock::new();
    let read = || {
        // A debug build is large, slow to hash and makes no claims.
        if cfg!(debug_assertions) {
            return "n/a: a debug build is not hashed".into();
        }
        match fs::File::open("/proc/self/exe").and_then(crc32) {
            Ok(crc) => format!("crc32 {crc:08x}"),
            Err(error) => format!("n/a: {}", error.kind()),
        }
    };
    BINARY.get_or_init(read).clone()
}

fn crc32(mut file: impl Read) -> io::Result<u32> {
    let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 256 << 10]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The mitigations of CPU vulnerabilities that are active, by name.
pub(crate) fn mitigations() -> String {
    let Ok(files) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return "n/a: no vulnerabilities in sysfs".into();
    };
    let mut active: Vec<String> = files
        .filter_map(Result::ok)
        .filter(|file| fs::read_to_string(file.path()).is_ok_and(|text| text.starts_with("Mitigation")))
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    active.sort();
    if active.is_empty() { "none active".into() } else { active.join(" ") }
}

/// Steal of all CPUs so far, clock ticks; `None` where `/proc/stat` does not tell.
pub fn steal_ticks() -> Option<u64> {
    ticks(&fs::read_to_string("/proc/stat").ok()?).map(|ticks| ticks.steal)
}

/// The CPUs of this process, one of each core first, hyper-threads of the same core last.
pub fn cpu_order() -> Vec<u32> {
    let allowed = affinity::allowed();
    let core_of = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        std::fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
    };
    let (mut first, mut rest, mut seen) = (Vec::new(), Vec::new(), std::collections::HashSet::new());
    for cpu in allowed {
        if seen.insert(core_of(cpu)) { first.push(cpu) } else { rest.push(cpu) }
    }
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_who_it_is() {
        let environment = read();
        assert!(!environment.kernel.is_empty() && !environment.cpus.is_empty() && !environment.boot_id.is_empty());
        assert!(environment.facts["time namespace"].starts_with("time:["), "{:?}", environment.facts);
    }

    #[test]
    fn the_checksum_is_crc_32() {
        assert_eq!(crc32(&b"123456789"[..]).unwrap(), 0xcbf4_3926); // the check value of CRC-32/ISO-HDLC
        assert!(crc32(fs::File::open("/proc/self").unwrap()).is_err(), "a folder");
    }
}
