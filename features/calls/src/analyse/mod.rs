//! Calls of a key-value server: whose clock is how far off, and where the time of each kind of call goes.

use std::borrow::Cow;

use msgpath_core::SparseHistogram;
use msgpath_core::explained;
use msgpath_core::explained::Explained;
use msgpath_core::parts::Parts;
use msgpath_core::schema::{Floors, RoundRecord, RunHeader};
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use msgpath_analyse::clocks;
use msgpath_analyse::summary::{CaseSummary, QUANTILES};

use crate::record::{Calls, Handshakes, RpcFacts, RpcRow};

pub mod align;
mod machines;
pub(crate) mod split;

pub use machines::{ClockLoop, MachineClock};
pub use msgpath_analyse::clocks::{ClockPiece, clock_step};
pub use split::middle_and_slowest;

/// What the calls of a run say beyond the numbers that every run has.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct RpcSummary {
    /// What the record says of the calls as a whole.
    #[serde(flatten, skip_deserializing)]
    pub facts: RpcFacts,
    /// One for each case that has calls, in the order of their ids.
    pub kinds: Vec<RpcKind>,
    /// One for each pair of machines, in the order of [`RpcFacts::pairs`].
    pub clocks: Vec<PairClock>,
    /// The clocks of all machines against one of them, from all pairs together; empty with a single pair.
    pub machines: Vec<MachineClock>,
    /// Whether the offsets around each loop of pairs add up to nothing.
    pub loops: Vec<ClockLoop>,
    /// The connections, where they are of TLS or HTTP/2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<RpcConnections>,
}

impl Explained for RpcSummary {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path.rsplit('.').next().unwrap_or(path) {
            "wire" => "there is no wire, or nobody knows its speed",
            "wire_estimate_ns" => "the speed of the wire is not known",
            "same_machine" => "they are two machines, as far as is known",
            "expected" => "no estimate was typed before the run",
            "t3_minus_t2" | "t2_minus_t1" => "the server gave no stamps",
            "bands_why" => "the bands are there",
            "later_p50_ns" => "there was no later call",
            "request_bytes" | "reply_bytes" => "the log does not tell how long they were, or there was no reply",
            _ => "not a finite number",
        }
        .into()
    }
}

explained!(read RpcSummary);

/// What the calls say: the log is gone through some times, one round after the other.
pub fn summarise(header: &RunHeader, facts: &RpcFacts, calls: &dyn Calls, cases: &[CaseSummary]) -> RpcSummary {
    let plan = &header.plan;
    let rounds = header.imported.is_empty();
    let step = facts.client_step_ns.saturating_add(facts.server_step_ns);
    let mut pairs: Vec<align::Pair<'_>> =
        facts.pairs.iter().map(|pair| align::Pair::new(pair, facts.pairs.len(), step)).collect();
    let mut counts: Vec<split::Counts> = plan.cases.iter().map(|_| split::Counts::default()).collect();
    let mut latest = 0;
    calls.rounds(&|_, _| true, &mut |rows| {
        for row in rows {
            latest = latest.max(row.start_ns);
            if let Some(own) = pairs.get_mut(row.pair as usize) {
                own.add(row);
            }
            if let Some(own) = counts.get_mut(row.case as usize) {
                own.add(row, rounds);
            }
        }
    });
    let clocks: Vec<PairClock> = pairs.into_iter().zip(0..).map(|(pair, position)| pair.finish(position)).collect();
    let (machines, loops) = machines::solve(&facts.pairs, &clocks, latest / 2);
    let median = |id: u32| cases.iter().find(|case| case.case.id == id)?.latency.quantiles.first()?.ns;
    let kinds = plan
        .cases
        .iter()
        .zip(&counts)
        .filter(|(_, counts)| !counts.is_empty())
        .map(|(case, counts)| {
            let kind = split::kind(case, facts, &clocks, counts, calls, median(case.id));
            match cases.iter().find(|other| other.case.id == case.id).and_then(|case| case.open.as_ref()?.overloaded())
            {
                Some(why) => kind.without_times(why),
                None => kind,
            }
        })
        .collect();
    RpcSummary { facts: facts.clone(), kinds, clocks, machines, loops, connections: None }
}

/// Connections of TLS or HTTP/2, those made anew included.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcConnections {
    /// Version of TLS, `TLS 1.3`; empty: no TLS.
    pub tls: String,
    /// Its cipher suite, `TLS_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// What ALPN has agreed on, `h2`; empty: nothing.
    pub alpn: String,
    /// No certificate was checked: `--insecure-tls`.
    pub unchecked: bool,
    /// Handshakes of their own.
    pub full: u64,
    /// Handshakes with the session of an earlier connection.
    pub resumed: u64,
    /// Connecting by TCP.
    pub connect: Vec<Quantile>,
    /// The handshake of TLS behind it.
    pub handshake: Vec<Quantile>,
    /// HTTP/2: streams that the server lets be open at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
}

/// The connections of a run; `None`: they are of neither.
pub fn connections(rounds: &[RoundRecord]) -> Option<RpcConnections> {
    let all: Vec<&Handshakes> = rounds.iter().flat_map(|round| &round.parts).filter_map(Parts::get).collect();
    let first = all.first()?;
    let times = |which: fn(&Handshakes) -> &SparseHistogram| {
        let rounds: Vec<&SparseHistogram> = all.iter().map(|one| which(one)).collect();
        if rounds.iter().all(|times| times.total() == 0) {
            return Vec::new();
        }
        quantile::curve(&rounds, &Pooled::new(&rounds), &QUANTILES, false)
    };
    Some(RpcConnections {
        tls: first.version.clone(),
        cipher: first.cipher.clone(),
        alpn: first.alpn.clone(),
        unchecked: all.iter().any(|one| one.unchecked),
        full: all.iter().map(|one| one.full).sum(),
        resumed: all.iter().map(|one| one.resumed).sum(),
        connect: times(|one| &one.connect),
        handshake: times(|one| &one.handshake),
        streams: all.iter().filter_map(|one| one.streams).min(),
    })
}

/// One kind of call.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcKind {
    /// Id of the case.
    pub case: u32,
    /// Its name, such as `write`.
    pub method: String,
    /// Number of calls in the log.
    pub calls: u64,
    /// Replies with a status other than success.
    pub failed: u64,
    /// Calls without a reply.
    pub unanswered: u64,
    /// Calls that the server answered and whose T4 is not known: no client's log has them. They are neither failed nor
    /// without a reply.
    #[serde(rename = "t4_not_known", default)]
    pub unseen: u64,
    /// Mean bytes of a request, with all headers, over those whose length is known; `None`: no log tells it.
    pub request_bytes: Option<f64>,
    /// The same of a reply; `None` where there was none too.
    pub reply_bytes: Option<f64>,
    /// From the first T1 to the last T4, ns: of our own runs each round for itself, summed.
    pub wall_ns: u64,
    /// Sum of T4 - T1 of the calls that succeeded, ns.
    pub response_ns: u64,
    /// T4 - T1 of the first call of each connection, ns, at most 8.
    pub first_ns: Vec<u64>,
    /// Median of the later calls, ns; `None` without one.
    pub later_p50_ns: Option<u64>,
    /// The user's estimate, ns, the measured median, and the measured over the estimate.
    pub expected: Option<RpcExpected>,
    /// Mean splits: of all calls, of those near the median, of those near p99 where there are enough. Each adds up.
    pub bands: Vec<RpcBand>,
    /// Why there is no band; `None` where there is one.
    pub bands_why: Option<String>,
    /// Time that the bytes of request and reply take on the wire, where its speed is known.
    #[serde(rename = "wire_estimate_ns")]
    pub wire_ns: Option<WireEstimate>,
    /// What a wire of the speed that was told would take, where both ends are one machine and there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_wire: Option<AbsentWire>,
    /// Calls that succeeded by floor(log2(µs)): 32 buckets, as the lab has them.
    #[serde(rename = "calls_by_log2_us")]
    pub log2_us: Vec<u64>,
    /// T3 - T2, by the server's clock alone; `None` where no call has both.
    #[serde(rename = "t3_minus_t2", default)]
    pub served: Option<RpcTimes>,
    /// T2 - T1 as read from the two clocks: nothing is aligned.
    #[serde(rename = "t2_minus_t1", default)]
    pub received: Option<RpcTimes>,
    /// From T1 until the first bytes of the reply could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<RpcTimes>,
    /// T4 - T1 of the calls that failed; the other times are those of calls that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_took: Option<RpcTimes>,
}

impl RpcKind {
    /// What is left of calls at a rate that was not sustained, for this reason: their times grow as long as one measures.
    fn without_times(self, why: &str) -> Self {
        Self {
            first_ns: Vec::new(),
            later_p50_ns: None,
            expected: None,
            bands: Vec::new(),
            bands_why: Some(why.into()),
            received: None,
            first_byte: None,
            ..self
        }
    }
}

/// Time that bytes take on the wire, an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WireEstimate {
    /// Those of a request, ns.
    pub request: f64,
    /// Those of its reply, ns.
    pub reply: f64,
}

/// Time of the bytes of a call at a speed: computed, never measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct AbsentWire {
    /// Time of the request's bytes, ns.
    pub request_ns: f64,
    /// Time of the reply's bytes, ns.
    pub reply_ns: f64,
}

/// A difference of two stamps over the calls that have both: order statistics, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RpcTimes {
    /// Calls that have both.
    pub calls: u64,
    /// The smallest, ns.
    pub least_ns: i64,
    /// The median, ns.
    pub p50_ns: i64,
    /// 90th percentile, ns.
    pub p90_ns: i64,
    /// 99th percentile, ns.
    pub p99_ns: i64,
}

impl RpcKind {
    /// One copy of the bytes of a call, there and back, at the speed of a copy on this machine, ns: what no store in memory
    /// goes below.
    pub fn copy_floor_ns(&self, floors: &Floors) -> Option<f64> {
        let speed = floors.copy_bytes_per_s.filter(|speed| *speed > 0.0)?;
        Some((self.request_bytes? + self.reply_bytes?) * 1e9 / speed)
    }
}

/// Estimate first, then look.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcExpected {
    /// The user's estimate, ns.
    pub estimate_ns: f64,
    /// Median of its case, ns, as the percentiles of the run have it.
    pub measured_ns: f64,
    /// Measured over estimate.
    pub factor: f64,
    /// The largest part of the calls near the median, and its mean, ns: where most of the time is.
    pub largest: Option<(RpcStage, f64)>,
}

/// The mean split of some calls of a kind.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcBand {
    /// `all`, `p50`, `p99`.
    pub name: String,
    /// Number of calls in the band.
    pub calls: u64,
    /// Their mean T4 - T1, ns: the sum of the parts.
    pub latency_ns: f64,
    /// The parts, in the order of time.
    pub parts: Vec<RpcPart>,
}

/// One part of a call's time.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RpcPart {
    /// Which part of the call's time.
    pub stage: RpcStage,
    /// Mean time in it, ns.
    pub ns: f64,
    /// Half of the width within which the clocks of the two machines leave it, ns; 0 on one clock.
    pub within_ns: f64,
}

/// The parts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RpcStage {
    /// The client's send call.
    ClientSend,
    /// From there until the request can be read at the server (and is read, where nobody says more).
    RequestPath,
    /// The request lies at the server before it is read.
    ServerWait,
    /// The server waits for the store's lock.
    LockWait,
    /// The server works: T3 - T2 less the lock.
    ServerWork,
    /// From T3 until the client has the whole reply.
    ReplyPath,
    /// Outside the server, where the clocks do not tell the two ways apart.
    BothPaths,
}

impl RpcStage {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            RpcStage::ClientSend => "client send call",
            RpcStage::RequestPath => "request path",
            RpcStage::ServerWait => "server wait",
            RpcStage::LockWait => "lock wait",
            RpcStage::ServerWork => "server work",
            RpcStage::ReplyPath => "reply path",
            RpcStage::BothPaths => "request and reply path",
        }
    }
}

/// How the clocks of a client and a server machine stand to each other. theta(t) = offset + drift (t - t0) is what must
/// be added to the server's stamps; t0 is the start of the run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PairClock {
    /// Position in the pairs of machines.
    pub pair: u32,
    /// Both clocks are one: nothing to align.
    pub same: bool,
    /// Pieces of time, each with its own line; more than one where a clock was stepped.
    pub pieces: Vec<ClockPiece>,
    /// What was found, in a sentence: `offset +2978 µs, within ±41 µs`.
    pub text: String,
    /// Calls whose stamps contradict the bounds.
    pub contradicting: u64,
}

impl PairClock {
    /// The piece that holds at `t_ns`; `None`: nothing is known of the clocks.
    pub fn at(&self, t_ns: u64) -> Option<&ClockPiece> {
        clocks::at(&self.pieces, t_ns)
    }

    /// T2 - T1 and T3 - T1 of a call by the client's clock, ns, and how far from that they can be, at the time of this call; `None` where
    /// the server's stamps or the clocks are not known.
    pub fn aligned(&self, row: &RpcRow) -> Option<(f64, f64, f64)> {
        let (received, replied) = (row.received_ns? as f64, row.replied_ns? as f64);
        if self.same {
            return Some((received, replied, 0.0));
        }
        let piece = self.at(row.start_ns)?;
        let theta = piece.theta(row.start_ns);
        Some((received + theta, replied + theta, piece.within(row.start_ns)))
    }
}
