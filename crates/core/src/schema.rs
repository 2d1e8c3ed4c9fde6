//! The schema of the record. The serialized types have a version; fields may be added within it, never renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counts::{CallCounts, Delivery, ZeroCopyCounts};
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
    /// Round trips (echo) or message intervals (not used by stream), ns. Stored apart from the JSON.
    #[serde(skip)]
    pub latency: SparseHistogram,
    /// One way near to far by the same clock, only with stamps at both ends. Stored apart from the JSON.
    #[serde(skip)]
    pub one_way: SparseHistogram,
}

/// One message in the per-message log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Case.
    pub case: u32,
    /// Pass.
    pub pass: u32,
    /// Connection, from 0.
    pub connection: u32,
    /// Sequence number within the connection, trimmed messages included.
    pub sequence: u64,
    /// Just before the send call, ns since the start of the run.
    pub start_ns: u64,
    /// Round trip, ns; `None`: lost.
    pub latency_ns: Option<u64>,
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
