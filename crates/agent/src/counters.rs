//! Kernel counters of one end (docs/method/kernel.md#counters), read before and after every round, outside its timed
//! part.
//!
//! The files stay open; the kernel makes their text anew at every read from the start. Network counters are those of the
//! network namespace that the process was in when the reader was made, and count every socket in it.

mod clock;
mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use msgpath_core::schema::KernelCounts;
use msgpath_sys::{affinity, clock as monotonic};

use crate::doctor::{cgroup, read};
use clock::{Changes, Clocks};
use parse::{Emit, SNMP, SNMP6, cpu_stat, interrupts, number, pairs, pressure, snmp, snmp6, softnet, stat};

const TCP_EXT: &[&str] = &[
    "DelayedACKs",
    "DelayedACKLocked",
    "DelayedACKLost",
    "ListenDrops",
    "ListenOverflows",
    "PruneCalled",
    "RcvPruned",
    "TCPAutoCorking",
    "TCPBacklogDrop",
    "TCPFastRetrans",
    "TCPFromZeroWindowAdv",
    "TCPHystartDelayDetect",
    "TCPHystartTrainDetect",
    "TCPLossProbes",
    "TCPLostRetransmit",
    "TCPMemoryPressures",
    "TCPOFOQueue",
    "TCPRcvCollapsed",
    "TCPRcvQDrop",
    "TCPSlowStartRetrans",
    "TCPSpuriousRTOs",
    "TCPSynRetrans",
    "TCPTimeWaitOverflow",
    "TCPTimeouts",
    "TCPToZeroWindowAdv",
    "TCPWantZeroWindowAdv",
    "TCPZeroWindowDrop",
];
/// Most network devices that are watched, NICs first: each costs three reads.
const MOST_DEVICES: usize = 8;

struct Source {
    file: File,
    parse: fn(&str, Emit),
    /// Names as `parse` emits them, at the places from `first` on.
    names: Vec<String>,
    first: usize,
}

/// The counters that could be read when this was made.
pub struct Reader {
    sources: Vec<Source>,
    names: Arc<[String]>,
    clocks: Clocks,
    /// CPUs that this process might use when this was made.
    allowed: Vec<u32>,
    text: Vec<u8>,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    names: Arc<[String]>,
    values: Vec<Option<u64>>,
    /// Before this sample was read, and with it.
    clocks: [Changes; 2],
    /// CPUs that this process may no longer use.
    taken: Vec<u32>,
    read_ns: u64,
}

impl Reader {
    /// Opens what there is. `cpus` are those whose interrupts are counted.
    pub fn new(cpus: &[u32]) -> Reader {
        let (text, clocks) = (Vec::with_capacity(16 << 10), Clocks::new());
        let mut reader =
            Reader { sources: Vec::new(), names: Arc::default(), clocks, allowed: affinity::allowed(), text };
        let mut all = Vec::new();
        for (path, prefix, wanted, parse) in sources(cpus) {
            let Ok(file) = File::open(&path) else { continue };
            let mut found = Vec::new();
            if let Some(text) = whole(&file, &mut reader.text) {
                parse(text, &mut |name, _| found.push(name.to_owned()));
            }
            let names: Vec<String> = wanted.into_iter().filter(|name| found.contains(name)).collect();
            if !names.is_empty() {
                let first = all.len();
                all.extend(names.iter().map(|name| format!("{prefix}{name}")));
                reader.sources.push(Source { file, parse, names, first });
            }
        }
        reader.names = all.into();
        reader
    }

    /// Names of the counters that can be read here, such as `TcpExt.DelayedACKs`. A name that several sources have, as
    /// control groups within each other, is their sum.
    pub fn names(&self) -> Vec<String> {
        let clocks = self.clocks.names().map(str::to_owned);
        self.names.iter().cloned().chain(clocks).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads all of them. One that can no longer be read is left out of every difference.
    pub fn read(&mut self) -> Sample {
        let mut values = vec![None; self.names.len()];
        for source in &self.sources {
            let Some(text) = whole(&source.file, &mut self.text) else { continue };
            let values = &mut values[source.first..source.first + source.names.len()];
            (source.parse)(text, &mut |name, value| {
                if let Some(at) = source.names.iter().position(|one| one == name) {
                    // Names that come more than once are summed (softnet: one line a CPU).
                    values[at] = Some(values[at].unwrap_or(0_u64).wrapping_add(value));
                }
            });
        }
        let clocks = self.clocks.look(&mut self.text);
        let now = affinity::allowed();
        let taken = self.allowed.iter().copied().filter(|cpu| !now.contains(cpu)).collect();
        Sample { names: Arc::clone(&self.names), values, clocks, taken, read_ns: monotonic::now() }
    }
}

impl Sample {
    /// What has changed since `before`, a sample of the same reader, and how much later this is, ns.
    pub fn since(&self, before: &Sample) -> (KernelCounts, u64) {
        let changes = self.names.iter().zip(self.values.iter().zip(&before.values));
        let mut counts = BTreeMap::new();
        for (name, (after, before)) in changes {
            let change = before.zip(*after).map_or(0, |(before, after)| difference(name, before, after));
            if change > 0 {
                *counts.entry(name.clone()).or_insert(0) += change;
            }
        }
        let clocks = self.clocks[1].since(before.clocks[0]).into_iter().filter(|(_, change)| *change > 0);
        counts.extend(clocks.map(|(name, change)| (name.to_owned(), change)));
        counts.extend(self.taken.iter().map(|cpu| (format!("taken.cpu{cpu}"), 1)));
        (KernelCounts(counts), self.read_ns - before.read_ns)
    }
}

/// The softnet counters have 32 bits and wrap, so their sum is right modulo 2^32. The others have 64; one that went
/// backwards (a device that was reset, the kernel's rounding of steal) has no known change.
fn difference(name: &str, before: u64, after: u64) -> u64 {
    if name.starts_with("softnet.") {
        u64::from((after as u32).wrapping_sub(before as u32))
    } else {
        after.saturating_sub(before)
    }
}

type Description = (String, String, Vec<String>, fn(&str, Emit));

fn sources(cpus: &[u32]) -> Vec<Description> {
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let of_cpus = cpus.iter().flat_map(|cpu| ["busy", "steal"].map(|what| format!("cpu{cpu}.{what}")));
    let of_stat = strings(&["steal", "ctxt", "intr"]).into_iter().chain(of_cpus).collect();
    let irq = cpus.iter().map(|cpu| format!("cpu{cpu}")).collect();
    let packets = devices_with_packets().into_iter().chain(["lo".to_owned()]);
    let packets =
        packets.flat_map(|device| ["rx_packets", "tx_packets"].map(|what| format!("{device}.{what}"))).collect();
    let mut all: Vec<Description> = vec![
        ("/proc/net/netstat".into(), "TcpExt.".into(), strings(TCP_EXT), |text, emit| pairs(text, "TcpExt:", emit)),
        ("/proc/net/snmp".into(), String::new(), strings(&SNMP.map(|(_, _, name)| name)), snmp),
        ("/proc/net/snmp6".into(), String::new(), strings(&SNMP6.map(|(_, name)| name)), snmp6),
        ("/proc/net/softnet_stat".into(), "softnet.".into(), strings(&["dropped", "time_squeeze"]), softnet),
        ("/proc/net/dev".into(), "dev.".into(), packets, parse::devices),
        ("/proc/stat".into(), "stat.".into(), of_stat, stat),
        ("/proc/interrupts".into(), "irq.".into(), irq, interrupts),
    ];
    for group in cgroup::all().unwrap_or_default() {
        let path = group.stat().to_string_lossy().into_owned();
        all.push((path, "cgroup.".into(), strings(&["nr_throttled", "throttled_usec"]), cpu_stat));
    }
    for kind in ["cpu", "memory", "io"] {
        let prefix = format!("pressure.{kind}.");
        all.push((format!("/proc/pressure/{kind}"), prefix, strings(&["some_usec"]), pressure));
    }
    for device in devices() {
        for (name, file, parse) in [
            ("rx_dropped", "rx_dropped", (|text, emit| number(text, "rx_dropped", emit)) as fn(&str, Emit)),
            ("rx_missed", "rx_missed_errors", |text, emit| number(text, "rx_missed", emit)),
            ("tx_dropped", "tx_dropped", |text, emit| number(text, "tx_dropped", emit)),
        ] {
            let path = format!("/sys/class/net/{device}/statistics/{file}");
            all.push((path, format!("nic.{device}."), strings(&[name]), parse));
        }
    }
    all
}

/// Devices of this network namespace, NICs first: sysfs may show those of another namespace.
fn devices_with_packets() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let here: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    let mut found: Vec<String> = devices().into_iter().filter(|device| here.contains(&device.as_str())).collect();
    for device in here.into_iter().filter(|device| *device != "lo") {
        if found.len() < MOST_DEVICES && !found.iter().any(|known| known == device) {
            found.push(device.to_owned());
        }
    }
    found
}

fn devices() -> Vec<String> {
    let mut devices = read::names("/sys/class/net");
    devices.retain(|device| device != "lo");
    devices.sort_by_key(|device| !Path::new(&format!("/sys/class/net/{device}/device")).exists());
    devices.truncate(MOST_DEVICES);
    devices
}

/// The whole text from the start; `None` where it cannot be read.
fn whole<'a>(file: &File, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    let mut length = 0;
    loop {
        if buffer.len() < length + 4096 {
            buffer.resize((length + 4096).next_power_of_two(), 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => return std::str::from_utf8(&buffer[..length]).ok(),
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: u64) -> (String, u64) {
        (name.to_owned(), value)
    }

    #[test]
    fn counters_wrap_or_start_again() {
        let before = u64::from(u32::MAX) + u64::from(u32::MAX) - 2; // two CPUs just before their wrap
        assert_eq!(difference("softnet.dropped", before, u64::from(u32::MAX) + 4), 7);
        assert_eq!(difference("stat.steal", 10, 9), 0);
        let names: Arc<[String]> = ["a".to_owned(), "b".to_owned(), "c".to_owned(), "b".to_owned()].into();
        let sample = |read_ns, values: [Option<u64>; 4]| {
            let (names, values) = (Arc::clone(&names), values.to_vec());
            Sample { names, values, clocks: [Changes::default(); 2], taken: vec![], read_ns }
        };
        let before = sample(1_000, [Some(5), Some(3), None, Some(1)]);
        let (changes, watched_ns) = sample(8_000, [Some(5), Some(7), Some(1), Some(3)]).since(&before);
        assert_eq!((changes.0.into_iter().collect::<Vec<_>>(), watched_ns), (vec![one("b", 6)], 7_000));
    }

    #[test]
    fn this_kernel_counts() {
        let mut reader = Reader::new(&[0]);
        let names = reader.names();
        assert!(names.contains(&"stat.ctxt".to_owned()), "{names:?}");
        let before = reader.read();
        assert_eq!(
            before.values.iter().flatten().count() + reader.clocks.names().count(),
            names.len(),
            "all that is listed is read again"
        );
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        drop(socket);
        let after = reader.read();
        let capacity = reader.text.capacity();
        assert!(after.since(&before).0.0["stat.ctxt"] >= 1, "a sleep is a context switch");
        assert!(before.since(&before).0.0.is_empty());
        for _ in 0..20 {
            reader.read();
        }
        assert_eq!(reader.text.capacity(), capacity);
    }
}
