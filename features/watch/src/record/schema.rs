//! What a record says beside its rows, and how the parts of a row are to be read.

use msgpath_core::gate::Gate;
use msgpath_core::watch::{ServiceCounts, Times};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the shapes below.
pub const SCHEMA: &str = "msgpath.watch/1";

/// Marks of a row.
pub mod flag {
    /// It took at least what counted as slow then.
    pub const SLOW: u32 = 1;
    pub const SAMPLED: u32 = 2;
    /// The client sent again before it was answered.
    pub const AGAIN: u32 = 8;
    /// Another thread replied than the one that read it.
    pub const HANDED: u32 = 16;
    /// The reply came in several parts.
    pub const PARTS: u32 = 32;
    /// Its protocol told where it begins and ends; the other ones are turns.
    pub const FRAMED: u32 = 64;
    /// A part of the request, and of the reply, waited for an acknowledgement before it was sent (Nagle's algorithm).
    pub const NAGLED: [u32; 2] = [128, 256];
}

/// The text of a name as the kernel keeps it.
pub fn name_of(name: &[u8; 16]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// What a server is called: as its thread, or by its address where it is on another host.
pub fn named(counts: &ServiceCounts, thread: &[u8; 16]) -> String {
    if counts.host.is_empty() { name_of(thread) } else { counts.host.clone() }
}

/// What was asked for and found when the programs began to be watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchHeader {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the folder.
    pub name: String,
    /// When, RFC 3339 in UTC.
    pub started: String,
    /// What was typed.
    pub command: Vec<String>,
    /// What is watched, in words.
    pub target: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs of this machine.
    pub cpus: u32,
    /// Tracepoints that this kernel lacks, and why.
    pub missing: Vec<(String, String)>,
    /// Names of this machine's system calls, by number.
    pub calls: Vec<(i16, String)>,
    /// Version of msgpath.
    pub version: String,
    /// How messages are told apart, as it is typed; empty: by turns, and nothing of what is sent was read.
    #[serde(default)]
    pub framing: String,
    /// What the result is held to.
    #[serde(default)]
    pub gates: Vec<Gate>,
    /// Requests that take at least this long are slow, as it was asked for, ns; 0: those around p99.
    pub slow_ns: u64,
    /// Slowest requests of each server that were asked for.
    pub slowest: u32,
}

/// A part of the time in which programs were watched: the unit of evidence, as a round is of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its length, ns.
    pub ns: u64,
    /// Times of the requests that ended in it, by server.
    pub times: Vec<(u32, Times)>,
    /// Requests that were not followed, by server, estimated from how often it received data.
    #[serde(default)]
    pub not_followed: Vec<(u32, u64)>,
}

/// Windows of time in which requests were followed, because there were more than can be paid for.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Windows {
    pub count: u64,
    /// How long they were together, ns.
    pub open_ns: u64,
    /// From the beginning of the first to the end, ns.
    pub of_ns: u64,
    /// Requests that began in a window and took at most so long were followed to their end, ns.
    pub followed_ns: u64,
    /// How often the servers received data a second within a window, divided by the mean of the times beside it: for each window.
    pub kept: Vec<f64>,
    /// The same without following, divided by what it was without the programs that follow: what they take while they only count.
    #[serde(default)]
    pub kept_idle: Vec<f64>,
}

/// What watching cost.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchCost {
    /// CPU time of the BPF programs in the windows in which the kernel counted it and requests came, ns.
    pub programs_ns: u64,
    /// How often they ran in them.
    pub runs: u64,
    /// Requests in them.
    pub requests: u64,
    /// How long they were together, ns; 0: no request came while it was counted.
    pub window_ns: u64,
    /// CPU time of msgpath itself over the whole run, ns.
    pub reader_ns: u64,
}

/// What moves requests between threads, or stops all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Goroutines run on changing threads.
    Go,
    /// Its safepoints stop all threads.
    Jvm,
}

/// What is known of the process of a server beside its requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub process: i32,
    /// What it runs in.
    pub runtime: Option<Runtime>,
    /// The cgroup whose CPU quota has kept it from a CPU, and how much that is.
    pub quota: Option<String>,
}

/// How watching ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchEnd {
    /// How long programs were watched, ns.
    pub duration_ns: u64,
    /// Connections that were seen.
    pub connections: u64,
    /// Rows that found no room.
    pub lost: u64,
    /// Threads and connections that found no room.
    pub no_room: u64,
    /// Pairs of addresses of datagrams that hosts in several network namespaces have: each end was split for itself.
    #[serde(default)]
    pub ambiguous: u64,
    /// Events of connections whose messages are told apart that found no room.
    #[serde(default)]
    pub holes: u64,
    /// Rows of the record. Its writer fills this in, and the next two.
    pub rows_kept: u64,
    /// Rows beyond the limit of the record.
    pub rows_not_kept: u64,
    /// CRC-32 of the bytes of `watch.json`.
    pub header_crc32: u32,
    /// By server.
    pub services: Vec<ServiceCounts>,
    /// Processes of servers of which there is something to know.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// `None`: the kernel did not let it be measured.
    pub cost: Option<WatchCost>,
    /// The time in parts of the same length.
    #[serde(default)]
    pub slices: Vec<Slice>,
    /// `None`: every request was followed.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Share of the CPUs' time that the hypervisor took meanwhile, 0 to 1; `None`: the kernel does not tell.
    #[serde(default)]
    pub stolen: Option<f64>,
    /// The kernel tells of single CPUs what the hypervisor takes, so that it is a stage of its own.
    #[serde(default)]
    pub steal_split: bool,
    /// Tracepoints that were needed later on and that this kernel lacks, and why.
    #[serde(default)]
    pub missing: Vec<(String, String)>,
}
