//! What a run of calls keeps: what is known of them as a whole in the header, and a log with a row for each; where it comes from
//! and what it is exported to.

mod columns;
pub mod export;
mod handshakes;
pub mod import;
mod originals;
#[cfg(test)]
pub(crate) mod test_run;

pub use handshakes::{Handshakes, Shaken};

use std::collections::BTreeMap;
use std::path::Path;

use msgpath_analyse::sample::Timed;
use msgpath_core::parts::Part;
use msgpath_core::schema::RunHeader;
use msgpath_record::block::Kind;
use msgpath_record::{Log, OfCase, RecordError, RoundLog, Rows, Run, RunLog};
use msgpath_rpc::log::DATA_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of the calls of an RPC run as a whole.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcFacts {
    /// Protocol: `lab` (client4 and server4), `redis`, `http`, `http2`, `postgres`.
    pub protocol: String,
    /// What answers, as far as it says so: `msgpath`, or empty.
    pub server: String,
    /// Start of the run on the client's wall clock, µs since 1970-01-01 UTC: T1 of a call is this plus its `start_ns`.
    pub begin_unix_us: i64,
    /// Smallest step of the client's stamps, ns: 1000 for the lab's logs.
    pub client_step_ns: u64,
    /// Smallest step of the server's stamps, ns.
    pub server_step_ns: u64,
    /// The pairs of machines; [`RpcRow::pair`] is a position here.
    pub pairs: Vec<RpcPair>,
    /// The wire between the machines; `None`: there is none, or nobody knows its speed.
    pub wire: Option<Wire>,
    /// The user's estimates, typed before: one a case, by id; ns of the median.
    #[serde(rename = "expect_ns", alias = "expect")]
    pub expect: BTreeMap<u32, u64>,
    /// Calls that the log of calls did not keep because its limit was reached.
    #[serde(rename = "calls_not_kept", alias = "not_kept")]
    pub not_kept: u64,
    /// What the server said of single calls: its errors, and what it answered instead of what was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RpcRemark>,
    /// Why the system calls of client and server were not counted; `None`: they were, at least of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls_uncounted: Option<String>,
}

/// The wire between the machines.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Wire {
    /// Its speed, bits per second.
    pub bits_per_s: u64,
    /// Where that is known from: `link speed of eth0`, `--wire`, `--link`.
    pub from: String,
}

/// Where the speed of a link is known from that the run has shaped.
const SHAPED: &str = "--link";

impl Wire {
    /// As the user says.
    pub fn told(bits_per_s: u64) -> Self {
        Self { bits_per_s, from: "--wire".into() }
    }

    /// The link that the run has made between two namespaces, which carries no more than it was told to.
    pub fn shaped(bits_per_s: u64) -> Self {
        Self { bits_per_s, from: SHAPED.into() }
    }

    /// Whether it is such a link: all bytes cross it, though both ends are on one machine.
    pub fn is_shaped(&self) -> bool {
        self.from == SHAPED
    }
}

/// What the server said of some calls of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RpcRemark {
    /// Their case.
    pub case: u32,
    /// What it said.
    pub text: String,
    /// They failed.
    pub failed: bool,
    /// How many.
    pub calls: u64,
}

/// Texts of a kind of calls that are counted one by one.
const TEXTS: usize = 16;

impl RpcRemark {
    /// Counts some calls among others.
    pub fn count(remarks: &mut Vec<RpcRemark>, more: RpcRemark) {
        let like = |other: &&mut RpcRemark, text: &str| {
            (other.case, other.failed, other.text.as_str()) == (more.case, more.failed, text)
        };
        let texts = remarks.iter().filter(|other| other.case == more.case).count();
        if let Some(known) = remarks.iter_mut().find(|other| like(other, &more.text)) {
            known.calls += more.calls;
        } else if texts < TEXTS {
            remarks.push(more);
        } else {
            match remarks.iter_mut().find(|other| like(other, OTHERS)) {
                Some(others) => others.calls += more.calls,
                None => remarks.push(RpcRemark { text: OTHERS.into(), ..more }),
            }
        }
    }
}

/// Stands for all texts beyond [`TEXTS`].
const OTHERS: &str = "other texts";

impl Part for RpcFacts {
    const NAME: &str = "rpc";
}

/// A client and a server machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RpcPair {
    /// Address of the client.
    pub client: String,
    /// Address of the server.
    pub server: String,
    /// Both are one machine, so that both clocks are one; why that is known (`both addresses are the same`).
    pub same_machine: Option<String>,
}

/// One call. Stamps are as both clocks had them: nothing is aligned, clamped or invented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcRow {
    /// Case: one kind of call.
    pub case: u32,
    pub pass: u32,
    /// Position in [`RpcFacts::pairs`].
    pub pair: u32,
    /// Connection, from 0 within the run.
    pub connection: u32,
    /// Id of the call.
    pub rpcid: u32,
    /// Id of the call that made it; 0: none.
    pub parent: u32,
    /// Status of the reply; 0: success.
    pub status: u32,
    /// Bytes of the request, and of the reply, with all headers.
    pub request_bytes: u64,
    /// See `request_bytes`.
    pub reply_bytes: u64,
    /// The lengths come from the one-byte logarithm of a log (within 4.5 %).
    pub lengths_estimated: bool,
    /// First bytes of the key, zero filled.
    pub key: [u8; 16],
    /// T1, just before the request is sent: ns since the start of the run.
    pub start_ns: u64,
    /// T4 - T1, ns: the whole reply was read; `None`: no reply.
    pub latency_ns: Option<u64>,
    /// T2 - T1 as read from the two clocks, ns: the server has read the whole request; `None`: not known.
    pub received_ns: Option<i64>,
    /// T3 - T1 as read from the two clocks, ns: just before the server sends its reply.
    pub replied_ns: Option<i64>,
    /// The send call of the client returned, ns after T1.
    pub sent_ns: Option<u64>,
    /// The first bytes of the reply could be read, ns after T1.
    pub first_ns: Option<u64>,
    /// How long the request lay at the server before it began to read it, ns, by the server's clock.
    pub waited_ns: Option<u64>,
    /// Part of T3 - T2 in which the server waited for a lock, ns.
    pub lock_ns: Option<u64>,
    /// Open loop: from the intended send to T1, ns.
    pub late_ns: Option<u64>,
    /// Port of the client; `None`: not known.
    pub client_port: Option<u16>,
    /// First bytes of the request's body and of the reply's in the lab's protocol, zero filled: what its log keeps of them.
    pub request_begin: [u8; DATA_BYTES],
    /// See `request_begin`.
    pub reply_begin: [u8; DATA_BYTES],
}

impl RpcRow {
    /// Answered, with success: only these are in the histograms.
    pub fn is_good(&self) -> bool {
        self.status == 0 && self.latency_ns.is_some()
    }
}

pub const NO_CALLS: [RpcRow; 0] = [];

/// Calls of a server.
pub trait Calls: Rows<RpcRow> {}
impl<C: Rows<RpcRow> + ?Sized> Calls for C {}

impl OfCase for RpcRow {
    fn place(&self) -> (u32, u32) {
        (self.case, self.pass)
    }
}

impl RunLog for RpcRow {
    const FILE: &str = "rpcs.mpl";
    const KIND: Kind = Kind::new(4, "calls", 16 << 20);

    fn check(rows: &[Self], header: &RunHeader) -> Result<(), String> {
        let pairs = header.parts.get::<RpcFacts>().map_or(0, |facts| facts.pairs.len());
        match rows.iter().find(|row| row.pair as usize >= pairs) {
            Some(row) => Err(format!("pair {} of a run with {pairs} pairs of machines", row.pair)),
            None => Ok(()),
        }
    }
}

impl Timed for RpcRow {
    fn connection(&self) -> u32 {
        self.connection
    }

    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn latency_ns(&self) -> Option<u64> {
        self.latency_ns
    }

    fn remarkable(&self) -> bool {
        self.status != 0
    }
}

/// The log of the run in `folder`, in the order in which it was written. Empty where the run has none.
///
/// # Errors
/// As [`msgpath_record::rows`].
pub fn calls(folder: &Path) -> Result<Log<RpcRow>, RecordError> {
    msgpath_record::rows(folder)
}

/// The same round by round.
///
/// # Errors
/// It cannot be opened.
pub fn by_round(run: &Run) -> Result<RoundLog<RpcRow>, RecordError> {
    RoundLog::of::<RpcRow>(run, |_| true)
}

/// T1 to T4 in ns since 1970 (or since the start of a run whose date is not known), as recorded.
fn stamps(facts: &RpcFacts, row: &RpcRow) -> [Option<i64>; 4] {
    let t1 = facts.begin_unix_us.saturating_mul(1_000).saturating_add_unsigned(row.start_ns);
    let after = |ns: Option<i64>| ns.map(|ns| t1.saturating_add(ns));
    [
        Some(t1),
        after(row.received_ns),
        after(row.replied_ns),
        after(row.latency_ns.and_then(|ns| i64::try_from(ns).ok())),
    ]
}
