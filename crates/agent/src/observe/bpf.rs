//! The first back end: BTF tracepoint programs that write into a log in memory (docs/method/attribution.md#back-ends).

use std::collections::BTreeMap;
use std::io;

use msgpath_core::Unavailable;
use msgpath_core::schema::{EventKind, KernelEvent};
use msgpath_sys::bpf::{Bpf, Missing, Record, Refusal, grace};

use super::{Filter, GRANT, Opened, first_pid_namespace, threads};

pub(super) const NAME: &str = "BPF tracepoints";

/// Parts of the log: an end usually stays on one CPU, and one part for each is enough.
const SEGMENTS: usize = 4;
/// Most memory that the log takes, bytes.
const MOST_MEMORY: usize = 256 << 20;

pub(super) struct Back {
    bpf: Bpf,
    /// Every switch, softirq and idle state of the CPUs of the ends.
    full: bool,
    /// Names of the tasks of the last round as they were when they left a CPU.
    names: BTreeMap<i32, String>,
}

fn kind_of(tracepoint: &str) -> Option<EventKind> {
    EventKind::ALL.into_iter().find(|kind| kind.name() == tracepoint)
}

fn named(missing: Missing) -> impl Iterator<Item = (EventKind, String)> {
    missing.into_iter().filter_map(|(name, why)| Some((kind_of(name)?, why)))
}

impl Back {
    pub(super) fn open(kinds: &[EventKind], full: bool, room: usize) -> Opened<Self> {
        first_pid_namespace()?;
        let segments = SEGMENTS.min(threads::possible().len());
        // All events of a round may come from one CPU.
        let capacity = room.min(MOST_MEMORY / size_of::<Record>() / segments);
        let names: Vec<&'static str> = kinds.iter().map(|kind| kind.name()).collect();
        let (mut bpf, missing) = Bpf::open(&names, segments, capacity).map_err(explain)?;
        let mut missing: Vec<_> = named(missing).collect();
        for (kind, why) in named(bpf.attach()) {
            bpf.leave_out(kind.name());
            missing.push((kind, why));
        }
        bpf.detach();
        if !bpf.tracepoints().any(|name| name == EventKind::SchedSwitch.name()) {
            let why = missing.into_iter().find(|(kind, _)| *kind == EventKind::SchedSwitch).map(|(_, why)| why);
            return Err(Unavailable::new(format!("sched_switch: {}", why.unwrap_or_default()), ""));
        }
        Ok((Self { bpf, full, names: BTreeMap::new() }, missing))
    }

    pub(super) fn kinds(&self) -> Vec<EventKind> {
        self.bpf.tracepoints().filter_map(kind_of).collect()
    }

    pub(super) fn leave_out(&mut self, kind: EventKind) {
        self.bpf.leave_out(kind.name());
    }

    pub(super) fn names(&mut self) -> BTreeMap<i32, String> {
        std::mem::take(&mut self.names)
    }

    pub(super) fn begin(&mut self, filter: &Filter) -> io::Result<()> {
        self.bpf.clear();
        self.bpf.set_filter(&filter.threads, &filter.sockets, filter.least);
        let everything: &[u32] = if self.full { &filter.cpus } else { &[] };
        self.bpf.set_cpus(everything, |cpu| filter.cpus.iter().position(|own| *own == cpu).unwrap_or(cpu as usize));
        if let Some((name, why)) = self.bpf.attach().into_iter().next() {
            self.bpf.detach();
            return Err(io::Error::other(format!("{name} cannot be attached any more: {why}")));
        }
        self.bpf.switch(true);
        Ok(())
    }

    pub(super) fn end(&mut self) -> io::Result<(Vec<KernelEvent>, u64)> {
        self.bpf.switch(false);
        self.bpf.detach();
        grace();
        self.names = self.bpf.take_names();
        let log = self.bpf.read();
        let events: Vec<KernelEvent> = log.records.iter().filter_map(event).collect();
        let not_understood = (log.records.len() - events.len()) as u64;
        Ok((events, log.lost + log.unwritten + not_understood))
    }
}

fn event(record: &Record) -> Option<KernelEvent> {
    Some(KernelEvent {
        t_ns: record.t,
        kind: EventKind::from_number(u8::try_from(record.ev).ok()?)?,
        cpu: record.cpu,
        tid: record.tid,
        a: record.a,
        b: record.b,
        len: record.len,
        flags: record.flags,
        end: 0,
    })
}

/// Whether this process has CAP_BPF or CAP_SYS_ADMIN.
fn may_use_bpf() -> bool {
    const BITS: u64 = 1 << 39 | 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & BITS != 0)
}

/// Why BPF is refused, and what would grant it.
pub fn explain(refusal: Refusal) -> Unavailable {
    match refusal {
        Refusal::NoBtf(why) => Unavailable::new(
            format!("no type information of the kernel: {why}"),
            "a kernel with CONFIG_DEBUG_INFO_BTF=y",
        ),
        Refusal::Maps(error) if may_use_bpf() => Unavailable::new(
            format!(
                "bpf is denied though this process has CAP_BPF, by a filter of system calls (a container's?) or because it is \
                 root in its own user namespace alone: {error}"
            ),
            "a container whose filter lets bpf pass, or msgpath outside of it",
        ),
        Refusal::Maps(error) => Unavailable::new(format!("no right to use BPF, CAP_BPF: {error}"), GRANT),
        Refusal::Programs(error) => {
            let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
            if lockdown.contains("[confidentiality]") {
                Unavailable::new("the kernel is locked down (confidentiality)", "boot without lockdown=confidentiality")
            } else {
                Unavailable::new(format!("no right to trace, CAP_PERFMON: {error}"), GRANT)
            }
        }
        Refusal::Other(why) => Unavailable::new(why, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_events_and_unknown_ones_do_not() {
        let record = Record { t: 5, a: 1, b: 8, tid: 7, ev: 3, cpu: 1, len: 0, flags: 1 };
        let switch = event(&record).unwrap();
        assert_eq!((switch.kind, switch.tid, switch.b, switch.flags), (EventKind::SchedSwitch, 7, 8, 1));
        for ev in [0, 19, 255, 256 + 3] {
            assert_eq!(event(&Record { ev, ..record }), None);
        }
    }

    #[test]
    fn each_refusal_says_what_would_grant_it() {
        let denied = || io::Error::from_raw_os_error(1);
        assert!(explain(Refusal::Maps(denied())).why.contains("CAP_BPF"));
        assert_eq!(explain(Refusal::Maps(denied())).hint == GRANT, !may_use_bpf());
        assert!(!explain(Refusal::Programs(denied())).hint.is_empty());
        assert!(explain(Refusal::NoBtf("nothing there".into())).hint.contains("BTF"));
    }
}
