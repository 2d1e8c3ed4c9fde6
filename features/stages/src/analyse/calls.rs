//! System calls of the measuring threads: how many, and how long, without strace's cost.

use std::collections::BTreeMap;

use msgpath_core::schema::{EventKind, KernelEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One system call of one end.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CallTimes {
    /// `near end` or `far end`.
    pub who: String,
    /// Its name; `call 123` where it is none of those that msgpath makes.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Calls for each message.
    pub per_message: f64,
    /// Mean time of a call, sleeping included, ns.
    pub mean_ns: f64,
    /// Time for each message, ns.
    pub ns_per_message: f64,
}

/// Adds up calls by end and number.
#[derive(Debug, Default)]
pub(super) struct Counted {
    calls: BTreeMap<(bool, u64), (u64, u64)>,
}

impl Counted {
    /// The calls of a round that begin and end in `from_ns..to_ns`. `near`, `far`: thread ids, sorted.
    pub(super) fn add(&mut self, events: &[KernelEvent], near: &[i32], far: &[i32], (from_ns, to_ns): (u64, u64)) {
        let mut open: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
        for event in events.iter().filter(|event| (from_ns..=to_ns).contains(&event.t_ns)) {
            match event.kind {
                EventKind::SysEnter => drop(open.insert(event.tid, (event.a, event.t_ns))),
                EventKind::SysExit => {
                    let Some((number, began)) = open.remove(&event.tid) else { continue };
                    let end = if near.binary_search(&event.tid).is_ok() {
                        false
                    } else if far.binary_search(&event.tid).is_ok() {
                        true
                    } else {
                        continue;
                    };
                    let (calls, ns) = self.calls.entry((end, number)).or_default();
                    (*calls, *ns) = (*calls + 1, ns.saturating_add(event.t_ns - began));
                }
                _ => {}
            }
        }
    }

    /// The table, the calls with most time first. `machines`: as `uname -m` says at each end.
    pub(super) fn finish(self, messages: u64, machines: [&str; 2]) -> Vec<CallTimes> {
        let each = |value: u64| value as f64 / messages.max(1) as f64;
        let mut table: Vec<CallTimes> = self
            .calls
            .into_iter()
            .map(|((far, number), (calls, ns))| CallTimes {
                who: if far { "far end" } else { "near end" }.into(),
                name: name(number, machines[usize::from(far)]).map_or_else(|| format!("call {number}"), String::from),
                calls,
                per_message: each(calls),
                mean_ns: ns as f64 / calls.max(1) as f64,
                ns_per_message: each(ns),
            })
            .collect();
        table.sort_by(|a, b| b.who.cmp(&a.who).then(b.ns_per_message.total_cmp(&a.ns_per_message)));
        table
    }
}

/// Names of the calls that msgpath's paths make.
fn name(number: u64, machine: &str) -> Option<&'static str> {
    /// Name, number on x86_64 (absent from the others: 999), number in the table that aarch64 and riscv64 share.
    const CALLS: [(&str, u64, u64); 50] = [
        ("read", 0, 63),
        ("write", 1, 64),
        ("poll", 7, 999),
        ("readv", 19, 65),
        ("writev", 20, 66),
        ("sched_yield", 24, 124),
        ("pause", 34, 999),
        ("nanosleep", 35, 101),
        ("sendto", 44, 206),
        ("recvfrom", 45, 207),
        ("sendmsg", 46, 211),
        ("recvmsg", 47, 212),
        ("shutdown", 48, 210),
        ("setsockopt", 54, 208),
        ("getsockopt", 55, 209),
        ("rt_sigprocmask", 14, 135),
        ("rt_sigreturn", 15, 139),
        ("rt_sigtimedwait", 128, 137),
        ("rt_sigsuspend", 130, 133),
        ("futex", 202, 98),
        ("epoll_wait", 232, 999),
        ("epoll_ctl", 233, 21),
        ("mq_timedsend", 242, 182),
        ("mq_timedreceive", 243, 183),
        ("clock_gettime", 228, 113),
        ("clock_nanosleep", 230, 115),
        ("ppoll", 271, 73),
        ("pselect6", 270, 72),
        ("vmsplice", 278, 75),
        ("splice", 275, 76),
        ("sendfile", 40, 71),
        ("msgsnd", 69, 189),
        ("msgrcv", 70, 188),
        ("process_vm_readv", 310, 270),
        ("epoll_pwait", 281, 22),
        ("signalfd4", 289, 74),
        ("recvmmsg", 299, 243),
        ("sendmmsg", 307, 269),
        ("timerfd_settime", 286, 86),
        ("getrusage", 98, 165),
        ("gettid", 186, 178),
        ("sched_setaffinity", 203, 122),
        ("io_uring_enter", 426, 426),
        ("io_uring_register", 427, 427),
        ("epoll_pwait2", 441, 441),
        ("futex_wait", 455, 455),
        ("futex_wake", 454, 454),
        ("openat", 257, 56),
        ("close", 3, 57),
        ("munmap", 11, 215),
    ];
    let of = |call: &&(&str, u64, u64)| {
        number != 999 && if machine == "x86_64" { call.1 == number } else { call.2 == number }
    };
    matches!(machine, "x86_64" | "aarch64" | "riscv64").then(|| CALLS.iter().find(of).map(|call| call.0)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(t_ns: u64, kind: EventKind, tid: i32, a: u64) -> KernelEvent {
        KernelEvent { t_ns, kind, tid, a, ..KernelEvent::default() }
    }

    #[test]
    fn calls_are_paired_by_thread_and_named_by_machine() {
        use EventKind::{SysEnter, SysExit};
        let events = [
            event(5, SysExit, 1, 0),    // began before anybody looked
            event(10, SysEnter, 1, 44), // sendto
            event(12, SysEnter, 2, 45), // recvfrom
            event(20, SysExit, 1, 64),
            event(30, SysEnter, 9, 44), // somebody else's
            event(40, SysExit, 9, 0),
            event(90, SysExit, 2, 64),
            event(95, SysEnter, 1, 7777),
            event(99, SysExit, 1, 0),
        ];
        let counted = || {
            let mut counted = Counted::default();
            counted.add(&events, &[1], &[2], (0, 100));
            counted
        };
        let table = counted().finish(2, ["x86_64"; 2]);
        let rows: Vec<_> =
            table.iter().map(|row| (row.who.as_str(), row.name.as_str(), row.calls, row.mean_ns)).collect();
        assert_eq!(
            rows,
            [("near end", "sendto", 1, 10.0), ("near end", "call 7777", 1, 4.0), ("far end", "recvfrom", 1, 78.0)]
        );
        assert_eq!((table[0].per_message, table[0].ns_per_message), (0.5, 5.0));
        assert_eq!(counted().finish(2, ["s390x"; 2])[0].name, "call 44");
        assert_eq!(name(206, "aarch64"), Some("sendto"));
        assert_eq!(name(999, "aarch64"), None);
    }
}
