//! The schema of the record. The serialized types have a version; fields may be added within it, never renamed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counts::{CallCounts, Delivery, ZeroCopyCounts};
use crate::doctor::Doctor;
use crate::explained::Explained;
use crate::histogram::SparseHistogram;
use crate::parts::Parts;
use crate::plan::{Case, Plan};
use crate::problem::Unavailable;
use crate::program::{ProgramFacts, Source};
use crate::resume::{Pilot, Resumption};
use crate::units::Pieces;

/// The version of the record and of `--json`.
pub const SCHEMA: &str = "msgpath/run/3";

/// What `run.json` holds: written before the first round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// [`SCHEMA`], or an older one.
    pub schema: String,
    /// Name of the run, such as `brisk-otter`.
    pub name: String,
    /// UTC, RFC 3339.
    pub started: String,
    pub command: Vec<String>,
    /// Version of msgpath.
    pub version: String,
    /// The verb: `echo`, `stream`, `compare`.
    pub verb: String,
    /// The far end, as the user reads it.
    pub target: String,
    /// What was planned.
    pub plan: Plan,
    /// Cases that cannot be measured here, and why.
    pub unavailable: Vec<UnavailableCase>,
    /// The machines on which the ends ran, each once; an end in a network namespace of its own has an entry of its own.
    pub hosts: Vec<Environment>,
    /// The ends: 0 is the near end, 1 the far end.
    pub ends: Vec<End>,
    /// What `doctor` says of both ends, its quick checks at least.
    #[serde(default)]
    pub doctor: Option<Doctor>,
    /// The physical floors of this machine, measured before the first round.
    #[serde(default)]
    pub floors: Option<Floors>,
    /// What was simulated of each case, by its id; empty unless it was asked for. Written when the rounds are recorded.
    #[serde(default)]
    pub simulated: BTreeMap<u32, Simulated>,
    /// Tasks of others at the near end that used most CPU time while the rounds were measured, most first. Written when
    /// the rounds are recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherTask>,
    /// Why the list of them lacks the tasks of others; `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_unseen: Option<String>,
    /// How the kernel was traced in the traced cases, where there are any.
    #[serde(default)]
    pub tracing: Option<Tracing>,
    /// Files that it was imported from; empty: msgpath measured it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<String>,
    /// What features know of the run as a whole.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    /// What the pilot found of each case; empty where there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pilots: Vec<Pilot>,
    /// Where data connections over IP went; `None`: both ends were here, or nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataRoute>,
    /// When the run went on after it had been cut short, the first time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
    /// Programs of others that were far ends, as they were started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramFacts>,
}

/// What is known of what an end spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    All,
    /// Everything but system calls: those of a layer are its library's.
    AllButCalls,
    /// The sum of its CPU time: a program of others that the run started.
    CpuTime,
    Nothing,
}

impl RunHeader {
    /// The header of a run of this plan; everything else is empty and left to the caller.
    pub fn new(name: impl Into<String>, verb: impl Into<String>, plan: Plan) -> Self {
        let mut roles = plan.workload.ends;
        if plan.reverse {
            roles.reverse();
        }
        let ends = ["near", "far"].into_iter().zip(roles);
        let ends = ends.map(|(name, role)| End { name: name.into(), role: role.into(), ..End::default() }).collect();
        Self {
            schema: SCHEMA.into(),
            name: name.into(),
            started: String::new(),
            command: Vec::new(),
            version: String::new(),
            verb: verb.into(),
            target: String::new(),
            plan,
            unavailable: Vec::new(),
            hosts: vec![Environment::default()],
            ends,
            doctor: None,
            floors: None,
            simulated: BTreeMap::new(),
            others: Vec::new(),
            others_unseen: None,
            tracing: None,
            imported: Vec::new(),
            parts: Parts::default(),
            pilots: Vec::new(),
            data: None,
            resumed: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// What is known of what each end of a case spent.
    pub fn counted(&self, case: &Case) -> [Counted; 2] {
        if !self.imported.is_empty() {
            return [Counted::Nothing; 2];
        }
        if self.plan.workload.has_server() {
            return [Counted::All, Counted::Nothing];
        }
        let far = match self.plan.program_of(case).map(|program| &program.source) {
            None => Counted::All,
            Some(Source::Command(_) | Source::Example(_)) => Counted::CpuTime,
            Some(Source::Address(_) | Source::Socket(_) | Source::Missing { .. }) => Counted::Nothing,
        };
        if case.traits.is_layer() {
            return [Counted::AllButCalls; 2];
        }
        [Counted::All, far]
    }

    /// An end; one that the record does not have knows nothing.
    pub fn end(&self, end: usize) -> &End {
        static NONE: LazyLock<End> = LazyLock::new(End::default);
        self.ends.get(end).unwrap_or(&NONE)
    }

    pub fn host(&self, end: usize) -> &Environment {
        static NONE: LazyLock<Environment> = LazyLock::new(Environment::default);
        self.hosts.get(self.end(end).host).unwrap_or(&NONE)
    }

    /// The machine of an end, for changing it: other ends keep theirs as it is.
    ///
    /// # Panics
    ///
    /// There is no such end.
    pub fn host_mut(&mut self, end: usize) -> &mut Environment {
        let own = self.ends[end].host;
        if self.ends.iter().filter(|other| other.host == own).count() > 1 {
            self.hosts.push(self.hosts[own].clone());
            self.ends[end].host = self.hosts.len() - 1;
        }
        &mut self.hosts[self.ends[end].host]
    }

    /// Says where the ends ran, in their order: ends with the same environment share one.
    pub fn set_hosts(&mut self, environments: impl IntoIterator<Item = Environment>) {
        self.hosts.clear();
        for (end, environment) in self.ends.iter_mut().zip(environments) {
            end.host = self.hosts.iter().position(|known| *known == environment).unwrap_or(self.hosts.len());
            if end.host == self.hosts.len() {
                self.hosts.push(environment);
            }
        }
    }

    /// Whether both ends of a pair ran on one machine since one boot.
    pub fn one_machine(&self) -> bool {
        self.host(NEAR).is_machine_of(self.host(FAR))
    }

    /// Whether both ends of a pair read one CLOCK_MONOTONIC.
    pub fn one_clock(&self) -> bool {
        self.host(NEAR).shares_clock(self.host(FAR))
    }
}

/// Position of the near end of a pair among the ends.
pub const NEAR: usize = 0;
/// Position of the far end of a pair among the ends.
pub const FAR: usize = 1;

/// Where the data connections of a pair went over IP, as the first of them showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DataRoute {
    /// Address of the far end to which the near end connects.
    pub far: String,
    /// How it was found, where a launcher started the far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Address of the near end as it knows it itself.
    pub near: String,
    /// The device that has this address; nothing: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_device: Option<String>,
    /// The same as the far end sees it. Where it is another one, something in between translates addresses.
    pub near_seen: String,
    /// Other addresses that the name of the target has.
    #[serde(default, skip_serializing_if = "is_none_more")]
    pub more: usize,
}

fn is_none_more(more: &usize) -> bool {
    *more == 0
}

/// A process that takes part in a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct End {
    /// `near`, `far`.
    pub name: String,
    /// What it does: `echo client`, `sender` ...
    #[serde(default)]
    pub role: String,
    /// Its machine: a position in the list of hosts. Ends whose machines have the same boot id and time namespace read one
    /// clock.
    pub host: usize,
    /// CPUs of its measuring threads, used in turn; empty: not pinned.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Cost and smallest step of its clock; zero where nobody asked.
    #[serde(default)]
    pub clock: ClockFacts,
    /// Names of the kernel counters that could be read there. One that is listed and not in a [`KernelCounts`] has not
    /// changed.
    #[serde(default)]
    pub counters: Vec<String>,
    /// Which hardware and kernel events are counted there.
    #[serde(default)]
    pub events: EventFacts,
    /// How the kernel there was traced, where the end has a clock of its own and traces itself: what [`RunHeader::tracing`] says
    /// holds for the near end alone then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// The network device by which its data leaves; nothing: none of it goes over IP, or the kernel did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<EndDevice>,
}

/// The network device by which the data of an end leaves for the other end, and how large its packets may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EndDevice {
    /// Its name there, such as `eth0`.
    pub name: String,
    /// Largest packet on the wire, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u64>,
    /// Largest packet that the kernel hands to it, of segments that are cut later (GSO), bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso_max_bytes: Option<u64>,
    /// Most segments of such a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso_max_segments: Option<u64>,
    /// Whether the kernel cuts as late as it can (generic segmentation offload).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso: Option<bool>,
    /// Whether the device cuts TCP segments itself (TCP segmentation offload).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
}

/// Which back end traced, and why no better one.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Tracing {
    /// The back end: `BPF tracepoints`, `perf tracepoints and switch records`; `None`: stamps in user space only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Each better back end with the reason why it was not used, and the one command that would grant it.
    pub refused: Vec<(String, Unavailable)>,
    /// Kernel events that are recorded, by name (`sched_switch`).
    pub events: Vec<String>,
    /// Tracepoints that this kernel lacks or that lost events in the self-test, by name, and why.
    pub missing: Vec<(String, String)>,
    /// The completeness self-test in a sentence: events expected against events seen.
    pub self_test: String,
    /// Wake-up in flight and scheduling delay cannot be told apart by this back end.
    pub wakeups_joined: bool,
}

/// What is known of a round beside its kernel events, where it was traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRound {
    /// The threads of each end, in the order of their first connection.
    pub threads: Vec<Vec<TracedThread>>,
    /// Events that found no room. Those that are kept are whole up to that time on each CPU.
    pub lost: u64,
    /// Switches to a measuring thread that must have happened and were not seen, by thread id.
    #[serde(default)]
    pub unseen: BTreeMap<i32, u64>,
    /// Tasks that ran on the CPUs of the ends, by thread id: their names.
    pub tasks: BTreeMap<i32, String>,
    /// The same of ends that have a clock of their own and traced themselves: the rest is about the near end alone then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<EndTrace>,
}

/// What the tracer of an end with a clock of its own left of a round, beside its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndTrace {
    /// The end: its position. Its events have the same number.
    pub end: u8,
    /// What the end's clock had where the times of its events are 0, less what the near end's clock had at the start of the
    /// run, ns: both as they were read.
    pub origin_ns: i64,
    /// As [`TraceRound::lost`].
    pub lost: u64,
    /// As [`TraceRound::unseen`].
    #[serde(default)]
    pub unseen: BTreeMap<i32, u64>,
    /// As [`TraceRound::tasks`].
    pub tasks: BTreeMap<i32, String>,
}

impl TraceRound {
    pub fn of(&self, end: usize) -> &[TracedThread] {
        self.threads.get(end).map_or(&[], Vec::as_slice)
    }
}

/// A measuring thread as the kernel knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedThread {
    /// Thread id.
    pub tid: i32,
    /// It sends.
    pub sends: bool,
    /// It receives.
    pub receives: bool,
    /// SO_COOKIE of the socket of each of its connections, in order; empty where the path has no socket.
    pub cookies: Vec<u64>,
}

/// A message of more bytes may be cut into segments, of which each is at least so long but the last.
pub const SEGMENT: u64 = 1000;

/// One kernel event of a traced round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelEvent {
    /// CLOCK_MONOTONIC, ns since the start of the run; of an end that traced itself by its own clock ([`EndTrace::origin_ns`]).
    pub t_ns: u64,
    /// What happened.
    pub kind: EventKind,
    pub cpu: u16,
    /// Thread that ran there (the waker, the previous task of a switch, the caller ...).
    pub tid: i32,
    /// `sched_switch`: state of the previous task; packets: address of the buffer; `sk_data_ready`: of the socket; calls:
    /// number or result.
    pub a: u64,
    /// Scheduler: the task concerned (woken, next); `tcp_probe` and `sk_data_ready`: low 32 bits of the socket's cookie;
    /// signals: the signal.
    pub b: u32,
    /// Packets: length, at most 65535.
    pub len: u16,
    /// `sched_switch`: 1 where the previous task was preempted.
    pub flags: u16,
    /// The end that traced it, where each traced itself; else 0.
    pub end: u8,
}

/// What a kernel event tells, as numbered on disk and by the BPF programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EventKind {
    /// `sched_waking`: somebody wakes a task.
    #[default]
    SchedWaking = 1,
    /// `sched_wakeup`: the task is runnable.
    SchedWakeup = 2,
    /// `sched_switch`: a CPU goes from one task to another.
    SchedSwitch = 3,
    /// `net_dev_queue`: the stack hands a packet to its device's queue.
    NetDevQueue = 4,
    /// `net_dev_start_xmit`: the driver takes it.
    NetDevStartXmit = 5,
    /// `netif_rx`: a packet arrives without NAPI.
    NetifRx = 6,
    /// `netif_receive_skb`: the receive softirq begins with it.
    NetifReceiveSkb = 7,
    /// `tcp_probe`: TCP has it.
    TcpProbe = 8,
    /// `sk_data_ready`: a socket has data.
    SkDataReady = 9,
    /// `skb_copy_datagram_iovec`: copied to the receiver.
    SkbCopy = 10,
    SysEnter = 11,
    SysExit = 12,
    SignalGenerate = 13,
    SignalDeliver = 14,
    /// `napi_gro_receive_entry`: a packet arrives by NAPI.
    NapiGroReceive = 15,
    /// `softirq_entry`: `a` is the vector.
    SoftirqEntry = 16,
    SoftirqExit = 17,
    /// `cpu_idle`: `a` is the idle state, 2^32-1 on leaving it.
    CpuIdle = 18,
}

impl EventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [EventKind; 18] = [
        EventKind::SchedWaking,
        EventKind::SchedWakeup,
        EventKind::SchedSwitch,
        EventKind::NetDevQueue,
        EventKind::NetDevStartXmit,
        EventKind::NetifRx,
        EventKind::NetifReceiveSkb,
        EventKind::TcpProbe,
        EventKind::SkDataReady,
        EventKind::SkbCopy,
        EventKind::SysEnter,
        EventKind::SysExit,
        EventKind::SignalGenerate,
        EventKind::SignalDeliver,
        EventKind::NapiGroReceive,
        EventKind::SoftirqEntry,
        EventKind::SoftirqExit,
        EventKind::CpuIdle,
    ];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Name of the kernel's tracepoint.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::SchedWaking => "sched_waking",
            EventKind::SchedWakeup => "sched_wakeup",
            EventKind::SchedSwitch => "sched_switch",
            EventKind::NetDevQueue => "net_dev_queue",
            EventKind::NetDevStartXmit => "net_dev_start_xmit",
            EventKind::NetifRx => "netif_rx",
            EventKind::NetifReceiveSkb => "netif_receive_skb",
            EventKind::TcpProbe => "tcp_probe",
            EventKind::SkDataReady => "sk_data_ready",
            EventKind::SkbCopy => "skb_copy_datagram_iovec",
            EventKind::SysEnter => "sys_enter",
            EventKind::SysExit => "sys_exit",
            EventKind::SignalGenerate => "signal_generate",
            EventKind::SignalDeliver => "signal_deliver",
            EventKind::NapiGroReceive => "napi_gro_receive_entry",
            EventKind::SoftirqEntry => "softirq_entry",
            EventKind::SoftirqExit => "softirq_exit",
            EventKind::CpuIdle => "cpu_idle",
        }
    }
}

/// What a message cannot be faster than here.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = crate::explained::schema)]
pub struct Floors {
    /// Waking a thread on the other end's CPU and being woken by it, ns: median of futex round trips.
    pub wake_round_trip_ns: Option<f64>,
    /// The same with both threads on one CPU, ns.
    pub switch_round_trip_ns: Option<f64>,
    /// A cache line there and back between the CPUs, both spinning, ns.
    pub spin_round_trip_ns: Option<f64>,
    /// Bytes a second of one copy of a buffer of the plan's largest message, in the cache as far as it fits.
    pub copy_bytes_per_s: Option<f64>,
    /// Bytes of the last-level cache.
    #[serde(rename = "last_level_cache_bytes", alias = "last_level_cache")]
    pub last_level_cache: Option<u64>,
    /// Bytes of each level of cache that holds data, from the first; empty: not read.
    #[serde(rename = "caches_bytes", alias = "caches", default)]
    pub caches: Vec<u64>,
    /// The way to the far end.
    pub route: Option<Route>,
    /// What handing a message over is made of; `None`: no case in pieces asks for zero copy, or it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<SendCosts>,
}

impl Explained for Floors {
    fn reason(&self, _: &str) -> Cow<'_, str> {
        "could not be measured or read on this machine".into()
    }
}

crate::explained!(read Floors);

/// What handing a message over is made of, each piece by itself: medians at the near end, over a connection of its process to
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SendCosts {
    /// The segments of the message.
    pub pieces: Pieces,
    /// Writing the array of its iovecs, ns.
    pub iovec_ns: f64,
    /// sendmsg(2) of no bytes, ns: into the kernel, to the socket and back.
    pub empty_ns: f64,
    /// sendmsg(2) of the message, which the kernel copies, ns.
    pub copied_ns: f64,
    /// The same with MSG_ZEROCOPY, ns: its pages are pinned and a notification is prepared. What receives over the loopback
    /// device copies within this call.
    pub pinned_ns: f64,
    /// Reading one notification, ns; `None`: none came.
    pub reaped_ns: Option<f64>,
}

/// The device that leads to the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Route {
    /// Address of the far end.
    pub to: String,
    /// Local address.
    pub from: String,
    /// The device, such as `eth0`.
    pub device: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Largest packet, bytes.
    #[serde(rename = "mtu_bytes", alias = "mtu")]
    pub mtu: Option<u64>,
    /// Speed of the link, bits per second; virtual devices have none or claim one.
    pub bits_per_s: Option<u64>,
}

/// What carries packets to the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// lo, also where a LAN address was given that is this machine's own.
    Loopback,
    /// A pair between network namespaces.
    Veth,
    /// tun or tap: a program behind it.
    Tun,
    /// Any other virtual device (bridge, dummy, VLAN ...).
    Virtual,
    /// A NIC, real or emulated.
    Nic,
    /// It could not be found out.
    #[default]
    Unknown,
}

/// Kernel counters of one end, after a round minus before it, by name (`TcpExt.DelayedACKs`): only those that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelCounts(pub BTreeMap<String, u64>);

/// What an open loop knows of a round beyond its histograms: the near end, all threads together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRound {
    /// Messages that the schedule has.
    pub offered: u64,
    /// From the first intended send to the end of the schedule (the last intended send plus a mean gap), ns.
    pub span_ns: u64,
    /// From the first intended send to the last actual one, ns.
    pub sent_ns: u64,
    /// Sends later than one mean gap of their connection.
    pub late: u64,
    /// Lateness summed, ns. The three below are its parts.
    pub lateness_ns: u64,
    /// Part while the far end held the sender up: no room in the socket or in the window, ns.
    pub blocked_ns: u64,
    /// Part while the sending thread was runnable and not running (schedstat), ns.
    pub not_running_ns: u64,
    /// The rest, the generator's own, ns.
    pub own_ns: u64,
    /// CPU time that the sending threads spent spinning until a message was due, ns: not work.
    pub spun_ns: u64,
    /// Messages in flight just before each send, summed.
    pub in_flight_sum: u64,
    /// Most messages in flight.
    pub in_flight_most: u64,
    /// Samples of the backlog, at most 64: ns since the round began, messages that were due and not answered.
    pub backlog: Vec<(u64, u64)>,
    /// By how much the schedules were behind when the round began, and when it ended, ns, summed over them.
    #[serde(default)]
    pub debt_ns: [u64; 2],
    /// From the begin of the schedules to the last message of them that was sent, ns, summed over them.
    #[serde(default)]
    pub schedule_ns: u64,
    /// Gaps between sends of more than 200 ms (TCP's least retransmission timeout).
    pub idle_gaps: u64,
    /// Congestion window before and after the idle gap that cost most of it, segments.
    pub idle_cwnd: Option<(u32, u32)>,
}

impl OpenRound {
    /// Adds another thread of the same round.
    pub fn add(&mut self, other: &OpenRound) {
        self.offered += other.offered;
        self.span_ns = self.span_ns.max(other.span_ns);
        self.sent_ns = self.sent_ns.max(other.sent_ns);
        self.late += other.late;
        self.lateness_ns += other.lateness_ns;
        self.blocked_ns += other.blocked_ns;
        self.not_running_ns += other.not_running_ns;
        self.own_ns += other.own_ns;
        self.spun_ns += other.spun_ns;
        self.in_flight_sum += other.in_flight_sum;
        self.in_flight_most += other.in_flight_most;
        match self.backlog.as_slice() {
            [] => self.backlog.clone_from(&other.backlog),
            _ => self.backlog.iter_mut().zip(&other.backlog).for_each(|(mine, other)| mine.1 += other.1),
        }
        for (sum, ns) in self.debt_ns.iter_mut().zip(other.debt_ns) {
            *sum += ns;
        }
        self.schedule_ns += other.schedule_ns;
        self.idle_gaps += other.idle_gaps;
        let fall = |cwnd: &Option<(u32, u32)>| cwnd.map_or(0, |(before, after)| before.saturating_sub(after));
        if self.idle_cwnd.is_none() || fall(&other.idle_cwnd) > fall(&self.idle_cwnd) {
            self.idle_cwnd = other.idle_cwnd.or(self.idle_cwnd);
        }
    }
}

/// A case that is not measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct UnavailableCase {
    /// The case; its id is not a position in the plan.
    pub case: Case,
    /// Why it cannot be measured here.
    pub reason: Unavailable,
}

/// The machine of one end: what is part of a result's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs this process may use.
    pub cpus: Vec<u32>,
    /// Same value on both ends: one machine, one boot.
    pub boot_id: String,
    /// Everything else by name; `n/a: reason` where it cannot be read.
    pub facts: BTreeMap<String, String>,
}

impl Environment {
    /// Whether this is the machine of another end, since the same boot.
    pub fn is_machine_of(&self, other: &Environment) -> bool {
        self.boot_id == other.boot_id
    }

    /// The time namespace; `None`: it cannot be read, or the kernel has none.
    pub fn time_namespace(&self) -> Option<&str> {
        self.facts.get(TIME_NAMESPACE).map(String::as_str).filter(|name| !name.starts_with("n/a"))
    }

    /// Whether an end there and one here read the same CLOCK_MONOTONIC: one machine since one boot, and no time namespace
    /// that moves the clock of one of them (time_namespaces(7)).
    pub fn shares_clock(&self, other: &Environment) -> bool {
        let known = !self.boot_id.starts_with("n/a");
        known && self.is_machine_of(other) && self.time_namespace() == other.time_namespace()
    }
}

/// The fact that names an end's time namespace.
pub const TIME_NAMESPACE: &str = "time namespace";
/// The fact that has the least CPU quota of an end's control groups as `cpu.max` has it; `max`: none.
pub const QUOTA_FACT: &str = "cgroup cpu.max";
/// The fact of a machine that names the control group whose CPU quota is the least.
pub const LIMITED_GROUP: &str = "cgroup with the least quota";

/// A task that is none of the run's, and what it used of the CPUs meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherTask {
    /// Its process id.
    pub pid: u32,
    /// Its name as the kernel has it (comm), without control characters.
    pub name: String,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Of the time that the rounds took: 1 is one CPU all the time.
    pub share: f64,
    /// CPU on which it last ran.
    pub cpu: Option<u32>,
}

/// What one clock reading costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Mean cost of one reading, ns.
    pub cost_ns: f64,
    /// Smallest non-zero step seen, ns.
    pub step_ns: u64,
}

/// The option of [`Granted`] that says with which traffic class the first packet of the other end came.
pub const ARRIVED: &str = "traffic class on arrival";

/// An option, as asked for and as the kernel granted it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Granted {
    /// `near` or `far`.
    pub end: String,
    /// `SO_SNDBUF`, `TCP_NODELAY`, `mq_msgsize` ...
    pub option: String,
    /// What was asked, `-` where nothing was.
    pub asked: String,
    /// What was read back.
    pub granted: String,
    /// Whether they agree.
    pub same: bool,
}

/// Fields of TCP_INFO at the end of a round, summed over the connections where that means something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Segments sent, with acknowledgements.
    pub segs_out: u64,
    /// Segments received.
    pub segs_in: u64,
    /// Segments sent that carried data.
    pub data_segs_out: u64,
    /// Segments received that carried data.
    pub data_segs_in: u64,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// Smoothed round trip of the last connection, µs.
    pub rtt_us: u32,
    /// Smallest round trip seen, µs.
    pub min_rtt_us: u32,
    /// Congestion window of the last connection, segments.
    pub snd_cwnd: u32,
    /// Largest segment, bytes.
    pub snd_mss: u32,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Timeout of the receiver's delayed acknowledgement at the end, µs.
    #[serde(default)]
    pub ato_us: u32,
    /// Receive buffer that autotuning has reached at the end, bytes.
    #[serde(rename = "rcv_space_bytes", alias = "rcv_space", default)]
    pub rcv_space: u32,
    /// Time with data in flight, µs.
    #[serde(default)]
    pub busy_us: u64,
    /// Part of it that the receiver's window limited, µs.
    #[serde(default)]
    pub rwnd_limited_us: u64,
    /// Part of it that the send buffer limited, µs.
    #[serde(default)]
    pub sndbuf_limited_us: u64,
    /// Pacing rate at the end, bytes per second; `None`: not paced.
    #[serde(rename = "pacing_bytes_per_s", alias = "pacing_rate", default)]
    pub pacing_rate: Option<u64>,
    /// Segments received out of order; `None`: the kernel does not count them (before Linux 5.4).
    #[serde(default)]
    pub out_of_order: Option<u64>,
    /// Retransmission timeouts; `None`: the kernel does not count them for a connection (before Linux 6.7).
    #[serde(default)]
    pub timeouts: Option<u64>,
}

impl TcpInfo {
    /// Both together: segments and bytes are summed, the smallest round trip is kept, everything else is `next`'s.
    #[must_use]
    pub fn plus(self, next: TcpInfo) -> TcpInfo {
        TcpInfo {
            segs_out: self.segs_out + next.segs_out,
            segs_in: self.segs_in + next.segs_in,
            data_segs_out: self.data_segs_out + next.data_segs_out,
            data_segs_in: self.data_segs_in + next.data_segs_in,
            total_retrans: self.total_retrans + next.total_retrans,
            bytes_retrans: self.bytes_retrans + next.bytes_retrans,
            busy_us: self.busy_us + next.busy_us,
            rwnd_limited_us: self.rwnd_limited_us + next.rwnd_limited_us,
            sndbuf_limited_us: self.sndbuf_limited_us + next.sndbuf_limited_us,
            min_rtt_us: self.min_rtt_us.min(next.min_rtt_us),
            out_of_order: self.out_of_order.zip(next.out_of_order).map(|(own, next)| own + next),
            timeouts: self.timeouts.zip(next.timeouts).map(|(own, next)| own + next),
            ..next
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What one end reports of a round: all its measuring threads together, measured messages only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndReport {
    /// System calls.
    pub calls: CallCounts,
    /// CPU time in user mode, ns (getrusage RUSAGE_THREAD).
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Time runnable and not running, ns (`/proc/thread-self/schedstat`); `None` where it cannot be read.
    pub run_delay_ns: Option<u64>,
    /// From before the first of these was read to after the last, ns; the sum of the threads. What they are shares of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered_ns: Option<u64>,
    /// From the first measured message to the last, on this end's clock, ns; the longest of the threads.
    pub elapsed_ns: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received in `elapsed_ns`: without those of the messages that are `untimed`.
    pub bytes_received: u64,
    /// Received messages that started the clock of a stream's receiver, one a connection, where nothing was warmed up before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untimed: u64,
    /// Stream: how long the messages took that were trimmed, ns; at the receiver without the first of each connection.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed_ns: u64,
    /// Stream, receiver: the bytes that came in `trimmed_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed_bytes: u64,
    /// Stream, sender: from the return of its last send call until the receiver said that it has everything, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drain_ns: u64,
    /// What became of the messages, as this end sees it.
    pub delivery: Delivery,
    /// Zero-copy bookkeeping.
    pub zerocopy: ZeroCopyCounts,
    /// TCP_INFO, where the transport is TCP.
    pub tcp: Option<TcpInfo>,
    /// Path MTU at the end of the round, bytes (IP_MTU, IPV6_MTU); the least of the connections. `None`: not a connected socket of IP.
    #[serde(rename = "path_mtu_bytes", default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Where the kernel was asked to poll a device's queue: the id of the one by which the last message came, 0 where there was
    /// none; the least of its connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled_queue: Option<u32>,
    /// The longest time, ns, in which its process did not look after the round, which it does at least four times a second: longer
    /// where it was stopped or did not get to run. `None`: nobody looked, as for one thread of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended_ns: Option<u64>,
}

impl EndReport {
    /// CPUs that one thread of it kept busy while it was metered: at most 1.
    pub fn busy(&self) -> Option<f64> {
        let metered = self.metered_ns.filter(|ns| *ns > 0)? as f64;
        Some((self.user_ns + self.system_ns) as f64 / metered)
    }

    /// Adds the report of another thread of the same end and round: everything is summed but the time, of which the
    /// longest is kept.
    pub fn add(&mut self, one: &EndReport) {
        self.calls.add(&one.calls);
        self.user_ns += one.user_ns;
        self.system_ns += one.system_ns;
        self.voluntary_switches += one.voluntary_switches;
        self.involuntary_switches += one.involuntary_switches;
        self.minor_faults += one.minor_faults;
        self.major_faults += one.major_faults;
        self.run_delay_ns = self.run_delay_ns.zip(one.run_delay_ns).map(|(a, b)| a + b);
        self.metered_ns = self.metered_ns.zip(one.metered_ns).map(|(a, b)| a + b);
        self.elapsed_ns = self.elapsed_ns.max(one.elapsed_ns);
        self.bytes_sent += one.bytes_sent;
        self.bytes_received += one.bytes_received;
        self.untimed += one.untimed;
        self.trimmed_ns = self.trimmed_ns.max(one.trimmed_ns);
        self.trimmed_bytes += one.trimmed_bytes;
        self.drain_ns = self.drain_ns.max(one.drain_ns);
        self.delivery.add(&one.delivery);
        self.zerocopy.add(&one.zerocopy);
        self.tcp = match (self.tcp, one.tcp) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        self.path_mtu = least(self.path_mtu, one.path_mtu);
        self.polled_queue = least(self.polled_queue, one.polled_queue);
        self.unattended_ns = self.unattended_ns.max(one.unattended_ns);
    }
}

/// What the CPU and the kernel counted of threads, measured messages only; by the name of the event
/// (`cycles`, `cpu_core/cycles/`, `L1-dcache-load-misses`, `context-switches`). An event that is listed in the header and
/// missing here was not counted in this round.
pub type EventCounts = BTreeMap<String, EventCount>;

/// One event (perf_event_open(2)), summed over the threads that counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCount {
    /// How often, user and kernel mode together where both may be counted; scaled where the event shared its counter.
    pub count: u64,
    /// The part in user mode; `None`: not counted apart (software clocks ignore it, or the kernel forbids the rest).
    pub user: Option<u64>,
    /// Time for which the event was to be counted, ns.
    pub enabled_ns: u64,
    /// Time for which it was: less than `enabled_ns` where events took turns on a counter (multiplexing).
    pub running_ns: u64,
}

impl EventCount {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &EventCount) {
        self.count += other.count;
        self.user = self.user.zip(other.user).map(|(a, b)| a + b);
        self.enabled_ns += other.enabled_ns;
        self.running_ns += other.running_ns;
    }
}

/// Which events are counted at one end, and which are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EventFacts {
    /// Events that are counted, by name.
    pub counted: Vec<String>,
    /// Events that cannot be, each with its reason (`no PMU driver: ENOENT`).
    pub refused: Vec<(String, Unavailable)>,
    /// Only user mode may be counted here (perf_event_paranoid).
    pub user_only: bool,
}

/// One measuring thread of an end in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// The CPU that it was pinned to.
    pub cpu: Option<u32>,
    /// What it counted.
    pub report: EndReport,
    #[serde(default)]
    pub events: EventCounts,
    /// What it received, slot by slot, in a round that goes on for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Slots>,
}

/// What came in equal slots of time, by the clock of the end that counted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Slots {
    /// Length of a slot, ns.
    pub width_ns: u64,
    /// When the first message came, ns of that clock.
    pub begin_ns: u64,
    /// From then on so long is not measured, ns.
    pub lead_ns: u64,
    /// From then on the round goes on for so long, ns.
    pub span_ns: u64,
    /// Number of the first slot: slot n begins at n times the length.
    pub first: u64,
    /// Payload bytes that came in each; of an echo those of the replies.
    pub bytes: Vec<u64>,
}

impl Slots {
    /// Most slots of a round.
    pub const MOST: usize = 128;

    /// Slots of this length of a round that begins now.
    pub fn new(width_ns: u64, begin_ns: u64, (lead_ns, span_ns): (u64, u64)) -> Self {
        let width_ns = width_ns.max(1);
        let first = begin_ns / width_ns;
        Self { width_ns, begin_ns, lead_ns, span_ns, first, bytes: Vec::with_capacity(Self::MOST) }
    }

    /// Adds what came at `ns`; what came before the first slot or after the last one that there may be is left out.
    pub fn add(&mut self, ns: u64, bytes: u64) {
        let at = ns.checked_div(self.width_ns).and_then(|at| at.checked_sub(self.first));
        let Some(at) = at.filter(|at| *at < Self::MOST as u64) else { return };
        if self.bytes.len() <= at as usize {
            self.bytes.resize(at as usize + 1, 0);
        }
        self.bytes[at as usize] += bytes;
    }

    /// Adds what another receiver of the same clock counted in slots of the same length.
    pub fn merge(&mut self, other: &Slots) {
        if self.width_ns == 0 {
            return self.clone_from(other);
        }
        if other.width_ns != self.width_ns {
            return;
        }
        let first = self.first.min(other.first);
        let end = |slots: &Slots| slots.first + slots.bytes.len() as u64;
        let length = (end(self).max(end(other)) - first).min(Self::MOST as u64) as usize;
        let mut bytes = vec![0; length];
        for slots in [&*self, other] {
            let from = (slots.first - first) as usize;
            bytes.iter_mut().skip(from).zip(&slots.bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        (self.first, self.bytes, self.begin_ns) = (first, bytes, self.begin_ns.min(other.begin_ns));
    }
}

/// One of several near ends in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientRound {
    /// Messages that it sent, received and lost, measured ones only; those that it sends in a stream as its receiver counted them.
    pub delivery: Delivery,
    /// How long it measured, ns of its clock.
    pub elapsed_ns: u64,
    /// The slowest of its connects, ns.
    pub connect_ns: u64,
    /// What its receiver counted in slots of time: the far end, or itself in an echo and where the far end sends.
    pub slots: Slots,
    /// Retransmission timeouts of the sender of its connections, of both ends in an echo; `None`: not TCP, or the kernel does not count.
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// Segments that they retransmitted; `None`: not TCP.
    #[serde(default)]
    pub retransmitted: Option<u64>,
    /// TCP's retransmission timeouts of its whole network namespace meanwhile (`TcpExt.TCPTimeouts`); `None`: not read there.
    #[serde(default)]
    pub namespace_timeouts: Option<u64>,
    /// Round trips of an echo, ns: 64 quantiles at equal distances, and how many messages they are of.
    #[serde(default)]
    pub latency: KeptQuantiles,
}

/// A distribution by its quantiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct KeptQuantiles {
    /// Values that it is of, lost ones included.
    pub count: u64,
    /// The quantiles (n + 0.5) / length, ns; `None`: the message was lost.
    pub quantiles_ns: Vec<Option<u64>>,
    /// The quantile 0.5, ns.
    pub p50_ns: Option<u64>,
    /// The quantile 0.99, ns; `None`: fewer than 100 messages, or it was lost.
    pub p99_ns: Option<u64>,
}

/// What one end reports of a round, and what was read there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndRound {
    /// All its measuring threads together.
    pub report: EndReport,
    /// Kernel counters that changed there during the round.
    #[serde(default)]
    pub kernel: KernelCounts,
    /// How long these counters were watched, ns: the measured messages, those of the warm-up and what is between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_ns: Option<u64>,
    /// Time of a fixed piece of computing on its CPU just before the round, ns, the best of a few: a CPU that became
    /// slower shows here.
    #[serde(default)]
    pub speed_ns: Option<u64>,
    /// Events counted there, all of its threads together.
    #[serde(default)]
    pub events: EventCounts,
    /// Its threads in order, where there are several.
    #[serde(default)]
    pub threads: Vec<ThreadRecord>,
    /// What its whole process spent during the round, read from outside; `None`: nobody looked, or nobody may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSpent>,
}

/// What a process spent, whatever it did: more than its messages took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProcessSpent {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Voluntary context switches, without those of threads that ended meanwhile.
    pub voluntary_switches: u64,
    /// Involuntary ones, likewise.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes fetched from block devices; `None`: not to be read.
    pub disk_read_bytes: Option<u64>,
    /// Bytes sent to block devices; `None`: not to be read.
    pub disk_written_bytes: Option<u64>,
    /// Time for which its threads were runnable and did not run, ns; `None`: one of them ended, or the kernel does not count it.
    #[serde(default)]
    pub run_queue_ns: Option<u64>,
    /// System calls, also of threads and processes that it started meanwhile; `None`: not counted in this round.
    #[serde(default)]
    pub system_calls: Option<u64>,
    /// By how much the memory that it has resident grew, bytes; `None`: not to be read.
    #[serde(default)]
    pub resident_growth_bytes: Option<i64>,
    /// By how much the memory grew that it has mapped for heap and other private data, touched or not, bytes; `None`: not to be read.
    #[serde(default)]
    pub data_growth_bytes: Option<i64>,
    /// The most that it ever had resident, bytes; `None`: not to be read.
    #[serde(default)]
    pub peak_resident_bytes: Option<u64>,
}

impl ProcessSpent {
    /// Adds that of another round; system calls are counted in some rounds alone, and those of both are added.
    pub fn add(&mut self, one: &ProcessSpent) {
        fn both<T>(a: Option<T>, b: Option<T>, add: fn(T, T) -> T) -> Option<T> {
            a.zip(b).map(|(a, b)| add(a, b))
        }
        let sum = |a, b| both(a, b, u64::saturating_add);
        let grown = |a, b| both(a, b, i64::saturating_add);
        self.cpu_ns = self.cpu_ns.saturating_add(one.cpu_ns);
        self.voluntary_switches = self.voluntary_switches.saturating_add(one.voluntary_switches);
        self.involuntary_switches = self.involuntary_switches.saturating_add(one.involuntary_switches);
        self.minor_faults = self.minor_faults.saturating_add(one.minor_faults);
        self.major_faults = self.major_faults.saturating_add(one.major_faults);
        self.disk_read_bytes = sum(self.disk_read_bytes, one.disk_read_bytes);
        self.disk_written_bytes = sum(self.disk_written_bytes, one.disk_written_bytes);
        self.run_queue_ns = sum(self.run_queue_ns, one.run_queue_ns);
        self.system_calls = sum(self.system_calls, one.system_calls).or(self.system_calls).or(one.system_calls);
        self.resident_growth_bytes = grown(self.resident_growth_bytes, one.resident_growth_bytes);
        self.data_growth_bytes = grown(self.data_growth_bytes, one.data_growth_bytes);
        self.peak_resident_bytes = self.peak_resident_bytes.max(one.peak_resident_bytes);
    }
}

/// Kernel counters of the control groups of an end, its own and those above it: how often and for how long, µs, a CPU quota
/// stopped one of them.
pub const QUOTA: [&str; 2] = ["cgroup.nr_throttled", "cgroup.throttled_usec"];

impl EndRound {
    /// Share of the time of its threads in which they were runnable and did not run because others did: without the time for
    /// which a CPU quota stopped them. `None`: not known.
    pub fn waiting_share(&self) -> Option<f64> {
        let metered = self.report.metered_ns.filter(|ns| *ns > 0)?;
        let throttled_ns = self.kernel.0.get(QUOTA[1]).map_or(0, |usec| usec.saturating_mul(1_000));
        self.report.run_delay_ns.map(|delay| delay.saturating_sub(throttled_ns) as f64 / metered as f64)
    }
}

impl From<EndReport> for EndRound {
    fn from(report: EndReport) -> Self {
        Self { report, ..Self::default() }
    }
}

/// One round of one case: the unit of evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    pub case: u32,
    /// Which pass, from 0.
    pub pass: u32,
    /// Which restart, from 0.
    pub restart: u32,
    /// Position in its pass, from 0.
    pub position: u32,
    /// Start since the start of the run, ns.
    pub start_ns: u64,
    /// Messages per histogram entry: 1, or k in batch mode (each entry is the mean of k messages).
    pub batch: u32,
    /// Time to connect, ns, the slowest connection (`None` where the transport does not connect).
    pub connect_ns: Option<u64>,
    /// What each end of the case reports, in their order.
    pub ends: Vec<EndRound>,
    /// Steal of all CPUs during the round, clock ticks of `/proc/stat`; `None` where it cannot be read.
    pub steal_ticks: Option<u64>,
    /// Conditions that were lost during the round. A flagged round stays in the result.
    pub flags: Vec<String>,
    /// Open loop only.
    #[serde(default)]
    pub open: Option<OpenRound>,
    /// Traced rounds only. The events are in a file of their own.
    #[serde(default)]
    pub trace: Option<TraceRound>,
    /// What the workload of a feature has to say of the round, one for each thread of the near end; empty for other workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Parts>,
    /// The near ends one by one, where there are several (`ChannelOptions::clients`). What `ends` has of the near end is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientRound>,
    /// Latency, ns: from the send (closed loop) or from the intended send (open loop) to the reply. Stored apart from
    /// the JSON, like the four below.
    #[serde(skip)]
    pub latency: SparseHistogram,
    /// One way near to far by the same clock, only with stamps at both ends. Stored apart from the JSON.
    #[serde(skip)]
    pub one_way: SparseHistogram,
    /// Open loop: from the actual send to the reply, ns.
    #[serde(skip)]
    pub service: SparseHistogram,
    /// Open loop: from the intended send to the actual one, ns.
    #[serde(skip)]
    pub lateness: SparseHistogram,
    /// Round trips of the messages that were trimmed: the first of each connection, ns.
    #[serde(skip)]
    pub first: SparseHistogram,
}

impl RoundRecord {
    /// What an end reports, and what was read there; nothing of an end that the round does not have.
    pub fn end(&self, end: usize) -> &EndRound {
        static NONE: LazyLock<EndRound> = LazyLock::new(EndRound::default);
        self.ends.get(end).unwrap_or(&NONE)
    }

    /// The same, for writing.
    pub fn end_mut(&mut self, end: usize) -> &mut EndRound {
        if self.ends.len() <= end {
            self.ends.resize_with(end + 1, EndRound::default);
        }
        &mut self.ends[end]
    }

    /// The near end's report.
    pub fn near(&self) -> &EndReport {
        &self.end(NEAR).report
    }

    /// The far end's report.
    pub fn far(&self) -> &EndReport {
        &self.end(FAR).report
    }

    /// The near end's report, for writing.
    pub fn near_mut(&mut self) -> &mut EndReport {
        &mut self.end_mut(NEAR).report
    }

    /// The reports of the near and the far end, for writing.
    pub fn reports_mut(&mut self) -> [&mut EndReport; 2] {
        self.end_mut(FAR);
        let [near, far, ..] = self.ends.as_mut_slice() else { unreachable!("there is a far end now") };
        [&mut near.report, &mut far.report]
    }

    /// The far end's report, for writing.
    pub fn far_mut(&mut self) -> &mut EndReport {
        &mut self.end_mut(FAR).report
    }

    /// What went from one end to the other. A round has two ends, so that what an end sent is what it sent to the other.
    pub fn flow(&self, from: usize, to: usize) -> Flow {
        let (from, to) = (&self.end(from).report, &self.end(to).report);
        Flow {
            sent: from.delivery.sent,
            received: to.delivery.received,
            bytes_sent: from.bytes_sent,
            bytes_received: to.bytes_received,
        }
    }
}

/// What went from one end of a round to another: as its sender counted what it handed over, and as its receiver counted what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages handed to the transport.
    pub sent: u64,
    /// Messages that arrived in time.
    pub received: u64,
    /// Payload bytes handed to the transport.
    pub bytes_sent: u64,
    /// Payload bytes that arrived while the receiver measured.
    pub bytes_received: u64,
}

impl Flow {
    /// Messages that were sent and did not arrive; `None` where more arrived than were sent.
    pub fn lost(&self) -> Option<u64> {
        self.sent.checked_sub(self.received)
    }
}

/// One message in the per-message log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageRow {
    pub case: u32,
    pub pass: u32,
    /// Connection, from 0.
    pub connection: u32,
    /// Sequence number within the connection, trimmed messages included.
    pub sequence: u64,
    /// Just before the send call, ns since the start of the run; in an open loop the intended send.
    pub start_ns: u64,
    /// From there to the reply, ns; `None`: lost.
    pub latency_ns: Option<u64>,
    /// Open loop: the actual send, ns after `start_ns`.
    pub late_ns: Option<u64>,
    /// Arrival at the far end, ns after `start_ns`; only with stamps at both ends and one clock.
    pub far_ns: Option<u64>,
    /// The far end begins to send its reply, ns after `start_ns`; only in traced rounds, and with one clock.
    pub far_sent_ns: Option<u64>,
    /// The near end's send call returned, ns after `start_ns`; only in traced rounds.
    pub sent_ns: Option<u64>,
    /// Arrival at the far end less `start_ns` as read from the two clocks, ns; only with stamps at both ends that have no
    /// common clock. Nothing is aligned.
    pub received_ns: Option<i64>,
    /// The same of the moment when the far end begins to send its reply.
    pub replied_ns: Option<i64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All planned rounds are there.
    Ok,
    /// Interrupted, or the program was killed: what is there is whole.
    Partial,
    /// Ended by an error.
    Failed,
}

/// What cachegrind simulated of the near end of a case: user mode only, so nothing of what the kernel does. The loop ran
/// twice, once with fewer and once with more messages, and what the two differ by belongs to the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulated {
    /// Messages of the two runs.
    pub messages: [u64; 2],
    /// Counts of the two runs, by the name of the event that they stand for.
    pub counts: BTreeMap<String, [u64; 2]>,
    /// What simulated it (`valgrind-3.19.0`).
    pub by: String,
    /// Why there is nothing.
    pub why: Option<Unavailable>,
}

/// The last block of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How it ended.
    pub status: Status,
    /// UTC, RFC 3339.
    pub ended: String,
    /// The error, where there was one.
    pub problem: Option<crate::Problem>,
    /// Messages that the per-message log did not keep because its limit was reached.
    pub messages_not_kept: u64,
    /// Options as asked and as granted, per case id.
    pub granted: BTreeMap<u32, Vec<Granted>>,
    /// CRC-32 of the bytes of `run.json`; `None`: an earlier version wrote the run. The writer of the record fills it in.
    #[serde(default)]
    pub header_crc32: Option<u32>,
}

impl RunEnd {
    /// Of a run whose rounds went so: to the last one or not, or to a problem.
    pub fn of(rounds: Result<bool, &crate::Problem>, ended: impl Into<String>) -> Self {
        let status = match rounds {
            Ok(true) => Status::Ok,
            Ok(false) => Status::Partial,
            Err(_) => Status::Failed,
        };
        Self {
            status,
            ended: ended.into(),
            problem: rounds.err().cloned(),
            messages_not_kept: 0,
            granted: BTreeMap::new(),
            header_crc32: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_two_receivers_are_added_slot_by_slot() {
        let slots = |begin_ns: u64, at: &[(u64, u64)]| {
            let mut slots = Slots::new(10, begin_ns, (0, 100));
            at.iter().for_each(|(ns, bytes)| slots.add(*ns, *bytes));
            slots
        };
        let mut early = slots(1_003, &[(1_003, 1), (1_009, 2), (1_031, 4), (900, 8), (9_999, 16)]);
        assert_eq!((early.first, early.bytes.as_slice()), (100, &[3, 0, 0, 4][..]), "what is outside is left out");
        let late = slots(1_025, &[(1_025, 5), (1_049, 7)]);
        let mut other = late.clone();
        other.merge(&early);
        early.merge(&late);
        assert_eq!((early.first, early.begin_ns, early.bytes.as_slice()), (100, 1_003, &[3, 0, 5, 4, 7][..]));
        assert_eq!(other.bytes, early.bytes, "in either order");
        let mut none = Slots::default();
        none.add(5, 7);
        none.merge(&late);
        assert_eq!(none, late);
        early.merge(&Slots::new(20, 0, (0, 1)));
        assert_eq!(early.bytes.len(), 5, "of another length nothing is added");
    }

    #[test]
    fn a_clock_is_shared_within_one_boot_and_one_time_namespace() {
        let of = |boot: &str, namespace: &str| Environment {
            boot_id: boot.into(),
            facts: BTreeMap::from([(TIME_NAMESPACE.into(), namespace.into())]),
            ..Environment::default()
        };
        let here = of("a", "time:[1]");
        assert!(here.shares_clock(&here) && !here.shares_clock(&of("b", "time:[1]")));
        let moved = of("a", "time:[2]");
        assert!(here.is_machine_of(&moved) && !here.shares_clock(&moved));
        // A kernel without time namespaces has one clock; who does not say which boot it is may be anywhere.
        assert!(of("a", "n/a: not found").shares_clock(&Environment { boot_id: "a".into(), ..Environment::default() }));
        assert!(!of("n/a: x", "time:[1]").shares_clock(&of("n/a: x", "time:[1]")));
    }
}
