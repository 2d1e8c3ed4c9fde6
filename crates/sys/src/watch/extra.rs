//! Programs that only some watches need: what datagrams need, and where they go.

use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};

use crate::bpf::{Missing, attempt, brief, program};

/// What datagrams need: second programs at these tracepoints. The last one begins it.
const OF_DATAGRAMS: [(&str, &str); 3] = [
    ("sock_recv_length", "on_sock_recv_length_datagrams"),
    ("sock_send_length", "on_sock_send_length_datagrams"),
    ("sk_data_ready", "on_sk_data_ready_datagrams"),
];
/// Where datagrams go that are sent to other hosts by sockets that are not connected.
const OF_ADDRESSES: [(&str, &str); 1] = [("net_dev_queue", "on_net_dev_queue")];

/// Programs that are loaded and attached when they are needed: the verifier takes its time for each.
pub(super) struct Extra {
    /// In `missing` they are called so.
    name: &'static str,
    programs: &'static [(&'static str, &'static str)],
    left_out: bool,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Loaded,
    Attached,
    Refused,
}

impl Extra {
    pub(super) fn of_datagrams(without: &[String]) -> Self {
        Self::new("sk_data_ready of datagrams", &OF_DATAGRAMS, without)
    }

    pub(super) fn of_addresses(without: &[String]) -> Self {
        Self::new("net_dev_queue", &OF_ADDRESSES, without)
    }

    fn new(name: &'static str, programs: &'static [(&'static str, &'static str)], without: &[String]) -> Self {
        let left_out = without.iter().any(|out| programs.iter().any(|(tracepoint, _)| tracepoint == out));
        Self { name, programs, left_out, state: State::Absent }
    }

    /// Why they cannot be had, if that was found out just now.
    pub(super) fn load(&mut self, ebpf: &mut Ebpf) -> Missing {
        if self.state != State::Absent {
            return Missing::new();
        }
        if self.left_out {
            return self.settle(Err("left out".into()), State::Loaded);
        }
        let mut load =
            |btf: Btf| self.programs.iter().try_for_each(|(tracepoint, name)| attempt(ebpf, name, tracepoint, &btf));
        let btf = Btf::from_sys_fs().map_err(|error| brief(&error));
        let result = btf.and_then(|btf| load(btf).map_err(|error| brief(&error)));
        self.settle(result, State::Loaded)
    }

    pub(super) fn attach(&mut self, ebpf: &mut Ebpf) -> Missing {
        let missing = self.load(ebpf);
        if self.state != State::Loaded {
            return missing;
        }
        let mut attach = |name: &str| program(ebpf, name).and_then(BtfTracePoint::attach).map(drop);
        let result = self.programs.iter().try_for_each(|(_, name)| attach(name)).map_err(|error| brief(&error));
        self.settle(result, State::Attached)
    }

    fn settle(&mut self, result: Result<(), String>, done: State) -> Missing {
        self.state = if result.is_ok() { done } else { State::Refused };
        result.err().map(|why| (self.name, why)).into_iter().collect()
    }

    /// Names of those that run.
    pub(super) fn attached(&self) -> impl Iterator<Item = &'static str> + use<> {
        let attached = self.state == State::Attached;
        self.programs.iter().filter(move |_| attached).map(|(_, name)| *name)
    }
}
