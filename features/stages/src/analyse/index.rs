//! The kernel events of one round, brought into the orders in which they are looked for: one pass, then no search goes
//! over all of them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use msgpath_core::schema::{EventKind, KernelEvent};

/// No such time.
pub(super) const NEVER: u64 = u64::MAX;
/// No such position.
pub(super) const NOTHING: u32 = u32::MAX;

/// A packet on its way through this machine, joined by the address of its buffer. Addresses are used again: what comes
/// after the receive softirq is another packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The thread that ran when it was first seen.
    pub tid: i32,
    /// Length when it was first seen, bytes.
    pub len: u16,
    /// CPU of the sender's side.
    pub cpu: u16,
    /// First seen, ns.
    pub first_ns: u64,
    /// `net_dev_start_xmit`, or [`NEVER`].
    pub xmit_ns: u64,
    /// `netif_rx` or `napi_gro_receive_entry`, or [`NEVER`].
    pub arrival_ns: u64,
    /// `netif_receive_skb`, or [`NEVER`].
    pub receive_ns: u64,
    /// CPU of the receive softirq.
    pub receive_cpu: u16,
}

/// A socket has data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub t_ns: u64,
    pub tid: i32,
    /// The packet whose receive softirq began last on that CPU.
    pub packet: u32,
}

/// A task is woken or signalled, a call is entered or left, a CPU changes its idle state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub t_ns: u64,
    /// The waker, the sender of the signal, the caller; the idle state.
    pub by: i32,
}

/// A CPU goes from one task to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub t_ns: u64,
    pub previous: i32,
}

/// The events by what they concern.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub packets: Vec<Packet>,
    /// Packets by the position of their first thread in the list of threads.
    pub sent: Vec<Vec<u32>>,
    /// Data-ready events by the position of their socket's cookie in the list of cookies.
    pub ready: Vec<Vec<Ready>>,
    /// Data-ready events of sockets that nobody knows by cookie.
    pub others: Vec<Ready>,
    /// `sched_waking`, by thread woken.
    pub wakings: Vec<Vec<Mark>>,
    /// `sys_enter`, by caller.
    pub enters: Vec<Vec<Mark>>,
    /// `signal_generate`, by target.
    pub generated: Vec<Vec<Mark>>,
    /// `signal_deliver`, by receiver.
    pub delivered: Vec<Vec<Mark>>,
    pub switches: HashMap<u16, Vec<Switch>>,
    /// Idle states by CPU: entered (the state), left (-1).
    pub idle: HashMap<u16, Vec<Mark>>,
}

/// Keys are addresses of the kernel, not a guest's: a multiplication spreads them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Live = HashMap<u64, u32, BuildHasherDefault<Spread>>;

impl Index {
    /// The index of a round's events, which are in the order of time, for these threads and sockets (low 32 bits of their
    /// cookies); both lists are sorted.
    pub(super) fn new(events: &[KernelEvent], threads: &[i32], cookies: &[u32]) -> Self {
        let lists = || vec![Vec::new(); threads.len()];
        let mut index = Index {
            sent: vec![Vec::new(); threads.len()],
            ready: vec![Vec::new(); cookies.len()],
            wakings: lists(),
            enters: lists(),
            generated: lists(),
            delivered: lists(),
            ..Index::default()
        };
        let thread = |tid: i32| threads.binary_search(&tid).ok();
        let mut live = Live::default();
        // The packet whose softirq began last, by CPU.
        let mut latest: HashMap<u16, u32> = HashMap::new();
        for event in events {
            let mark = Mark { t_ns: event.t_ns, by: event.tid };
            match event.kind {
                EventKind::NetDevQueue
                | EventKind::NetDevStartXmit
                | EventKind::NetifRx
                | EventKind::NapiGroReceive
                | EventKind::NetifReceiveSkb => {
                    let at = index.packet(event, &mut live, threads);
                    if event.kind == EventKind::NetifReceiveSkb {
                        latest.insert(event.cpu, at);
                    }
                }
                EventKind::SkDataReady => {
                    let packet = latest.get(&event.cpu).copied().unwrap_or(NOTHING);
                    let ready = Ready { t_ns: event.t_ns, tid: event.tid, packet };
                    match cookies.binary_search(&event.b) {
                        Ok(at) => index.ready[at].push(ready),
                        Err(_) => index.others.push(ready),
                    }
                }
                EventKind::SchedWaking => {
                    if let Some(at) = thread(event.b as i32) {
                        index.wakings[at].push(mark);
                    }
                }
                EventKind::SysEnter => {
                    if let Some(at) = thread(event.tid) {
                        index.enters[at].push(mark);
                    }
                }
                EventKind::SignalGenerate => {
                    if let Some(at) = thread(event.a as i32) {
                        index.generated[at].push(mark);
                    }
                }
                EventKind::SignalDeliver => {
                    if let Some(at) = thread(event.tid) {
                        index.delivered[at].push(mark);
                    }
                }
                EventKind::SchedSwitch => {
                    let switch = Switch { t_ns: event.t_ns, previous: event.tid };
                    index.switches.entry(event.cpu).or_default().push(switch);
                }
                EventKind::CpuIdle => {
                    let state = if event.a >= u64::from(u32::MAX) { -1 } else { event.a as i32 };
                    index.idle.entry(event.cpu).or_default().push(Mark { by: state, ..mark });
                }
                _ => {}
            }
        }
        index
    }

    /// The packet of an event: the one with the same buffer that has not come this far, or a new one.
    fn packet(&mut self, event: &KernelEvent, live: &mut Live, threads: &[i32]) -> u32 {
        let known = live.get(&event.a).copied().filter(|at| {
            let packet = &self.packets[*at as usize];
            match event.kind {
                EventKind::NetDevQueue => false,
                EventKind::NetDevStartXmit => packet.xmit_ns == NEVER && packet.arrival_ns == NEVER,
                EventKind::NetifRx | EventKind::NapiGroReceive => packet.arrival_ns == NEVER,
                _ => true,
            }
        });
        let at = known.unwrap_or_else(|| {
            let at = self.packets.len() as u32;
            self.packets.push(Packet {
                tid: event.tid,
                len: event.len,
                cpu: event.cpu,
                first_ns: event.t_ns,
                xmit_ns: NEVER,
                arrival_ns: NEVER,
                receive_ns: NEVER,
                receive_cpu: 0,
            });
            if let Ok(thread) = threads.binary_search(&event.tid) {
                self.sent[thread].push(at);
            }
            live.insert(event.a, at);
            at
        });
        let packet = &mut self.packets[at as usize];
        match event.kind {
            EventKind::NetDevStartXmit => packet.xmit_ns = event.t_ns,
            EventKind::NetifRx | EventKind::NapiGroReceive => packet.arrival_ns = event.t_ns,
            EventKind::NetifReceiveSkb => {
                (packet.receive_ns, packet.receive_cpu) = (event.t_ns, event.cpu);
                live.remove(&event.a);
            }
            _ => {}
        }
        at
    }
}
