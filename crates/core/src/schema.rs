//! The schema of the record. The serialized types have a version; fields may be added within it, never renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counts::{CallCounts, Delivery, ZeroCopyCounts};
use crate::doctor::Doctor;
use crate::histogram::SparseHistogram;
use crate::plan::{Case, Plan};
use crate::problem::Unavailable;

/// The version of the record and of `--json`.
pub const SCHEMA: &str = "msgpath/run/1";

/// What `run.json` holds: written before the first round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run, such as `brisk-otter`.
    pub name: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The command line.
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
    /// Where the near end ran.
    pub near: Environment,
    /// Where the far end ran.
    pub far: Environment,
    /// Cost and smallest step of the clock at the near end.
    pub clock: ClockFacts,
    /// What `doctor` says of both ends, its quick checks at least.
    #[serde(default)]
    pub doctor: Option<Doctor>,
    /// The physical floors of this machine, measured before the first round.
    #[serde(default)]
    pub floors: Option<Floors>,
    /// Names of the kernel counters that could be read at the near end. One that is listed and not in a
    /// [`KernelCounts`] has not changed.
    #[serde(default)]
    pub near_counters: Vec<String>,
    /// The same at the far end.
    #[serde(default)]
    pub far_counters: Vec<String>,
}

impl RunHeader {
    /// The header of a run of this plan; everything else is empty and left to the caller.
    pub fn new(name: impl Into<String>, verb: impl Into<String>, plan: Plan) -> Self {
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
            near: Environment::default(),
            far: Environment::default(),
            clock: ClockFacts::default(),
            doctor: None,
            floors: None,
            near_counters: Vec::new(),
            far_counters: Vec::new(),
        }
    }
}

/// What a message cannot be faster than here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub last_level_cache: Option<u64>,
    /// The way to the far end.
    pub route: Option<Route>,
}

/// The device that leads to the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Address of the far end.
    pub to: String,
    /// Local address.
    pub from: String,
    /// The device, such as `eth0`.
    pub device: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
    /// Speed of the link, bits per second; virtual devices have none or claim one.
    pub bits_per_s: Option<u64>,
}

/// What carries packets to the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A card, real or emulated.
    Card,
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
    /// Messages under way just before each send, summed.
    pub under_way_sum: u64,
    /// Most messages under way.
    pub under_way_most: u64,
    /// Samples of the backlog, at most 64: ns since the first intended send, messages that were due and not answered.
    pub backlog: Vec<(u64, u64)>,
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
        self.under_way_sum += other.under_way_sum;
        self.under_way_most += other.under_way_most;
        match self.backlog.as_slice() {
            [] => self.backlog.clone_from(&other.backlog),
            _ => self.backlog.iter_mut().zip(&other.backlog).for_each(|(mine, other)| mine.1 += other.1),
        }
        self.idle_gaps += other.idle_gaps;
        let fall = |cwnd: &Option<(u32, u32)>| cwnd.map_or(0, |(before, after)| before.saturating_sub(after));
        if self.idle_cwnd.is_none() || fall(&other.idle_cwnd) > fall(&self.idle_cwnd) {
            self.idle_cwnd = other.idle_cwnd.or(self.idle_cwnd);
        }
    }
}

/// A case that is not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnavailableCase {
    /// The case; its id is not a position in the plan.
    pub case: Case,
    /// Why.
    pub reason: Unavailable,
}

/// The machine of one end: what is part of a result's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs this process may use.
    pub cpus: Vec<u32>,
    /// Same value on both ends: one machine, one boot, so one CLOCK_MONOTONIC.
    pub boot_id: String,
    /// Everything else by name; `n/a: reason` where it cannot be read.
    pub facts: BTreeMap<String, String>,
}

/// What one clock reading costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Mean cost of one reading, ns.
    pub cost_ns: f64,
    /// Smallest non-zero step seen, ns.
    pub step_ns: u64,
}

/// An option, as asked for and as the kernel granted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Segments sent, with acknowledgements.
    pub segs_out: u64,
    /// Segments received.
    pub segs_in: u64,
    /// Segments sent that carried data.
    pub data_segs_out: u64,
    /// Segments received that carried data.
    pub data_segs_in: u64,
    /// Segments sent again.
    pub total_retrans: u64,
    /// Smoothed round trip of the last connection, µs.
    pub rtt_us: u32,
    /// Smallest round trip seen, µs.
    pub min_rtt_us: u32,
    /// Congestion window of the last connection, segments.
    pub snd_cwnd: u32,
    /// Largest segment, bytes.
    pub snd_mss: u32,
    /// Bytes sent again.
    pub bytes_retrans: u64,
    /// Timeout of the receiver's delayed acknowledgement at the end, µs.
    #[serde(default)]
    pub ato_us: u32,
    /// Receive buffer that autotuning has reached at the end, bytes.
    #[serde(default)]
    pub rcv_space: u32,
    /// Time with data under way, µs.
    #[serde(default)]
    pub busy_us: u64,
    /// Part of it that the receiver's window limited, µs.
    #[serde(default)]
    pub rwnd_limited_us: u64,
    /// Part of it that the send buffer limited, µs.
    #[serde(default)]
    pub sndbuf_limited_us: u64,
    /// Pacing rate at the end, bytes per second; `None`: not paced.
    #[serde(default)]
    pub pacing_rate: Option<u64>,
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
            ..next
        }
    }
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
    /// From the first measured message to the last, on this end's clock, ns; the longest of the threads.
    pub elapsed_ns: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// What became of the messages, as this end sees it.
    pub delivery: Delivery,
    /// Zero-copy bookkeeping.
    pub zerocopy: ZeroCopyCounts,
    /// TCP_INFO, where the transport is TCP.
    pub tcp: Option<TcpInfo>,
}

impl EndReport {
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
        self.elapsed_ns = self.elapsed_ns.max(one.elapsed_ns);
        self.bytes_sent += one.bytes_sent;
        self.bytes_received += one.bytes_received;
        self.delivery.add(&one.delivery);
        self.zerocopy.add(&one.zerocopy);
        self.tcp = match (self.tcp, one.tcp) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
    }
}

/// One round of one case: the unit of evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Which case.
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
    /// The near end.
    pub near: EndReport,
    /// The far end.
    pub far: EndReport,
    /// Steal of all CPUs during the round, clock ticks of `/proc/stat`; `None` where it cannot be read.
    pub steal_ticks: Option<u64>,
    /// Conditions that were lost during the round. A flagged round stays in the result.
    pub flags: Vec<String>,
    /// Kernel counters of the near end during the round.
    #[serde(default)]
    pub near_kernel: KernelCounts,
    /// Kernel counters of the far end during the round.
    #[serde(default)]
    pub far_kernel: KernelCounts,
    /// Time of a fixed piece of computing on the near end's CPU just before the round, ns, the best of a few: a CPU that
    /// became slower shows here.
    #[serde(default)]
    pub near_speed_ns: Option<u64>,
    /// The same at the far end.
    #[serde(default)]
    pub far_speed_ns: Option<u64>,
    /// Open loop only.
    #[serde(default)]
    pub open: Option<OpenRound>,
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

/// One message in the per-message log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageRow {
    /// Case.
    pub case: u32,
    /// Pass.
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
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All planned rounds are there.
    Ok,
    /// Interrupted, or the program was killed: what is there is whole.
    Partial,
    /// Ended by an error.
    Failed,
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
}
