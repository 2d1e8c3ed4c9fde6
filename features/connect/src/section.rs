//! What connections add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::diff::Difference;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::{QUANTILES, Summary};
use msgpath_core::SparseHistogram;
use msgpath_core::parts::Part;
use msgpath_core::schema::{FAR, NEAR, RoundRecord, RunHeader};
use msgpath_record::Run;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::DETECTORS;
use crate::record::{Asked, Failed, Made};

pub static SECTION: Section = Section { summarise: add, detectors: DETECTORS, identity, ..NOTHING };

/// The connections of a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ConnectSummary {
    /// One entry a case.
    pub cases: Vec<Connections>,
}

impl Part for ConnectSummary {
    const NAME: &str = "connect";
}

/// The connections of a case, all rounds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Connections {
    /// Id of the case.
    pub case: u32,
    /// Time from just before socket(2) until the connection was there, ns.
    pub connect: Vec<Quantile>,
    /// From when the connection was there until both ends had agreed on TLS. Empty without TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handshake: Vec<Quantile>,
    /// Version and cipher of TLS (rustls' names); absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// Requests after the first of a connection: from just before the send until the first byte of the reply. Empty with one request.
    pub kept: Vec<Quantile>,
    /// Connections that were begun.
    pub begun: u64,
    /// Connections that brought no reply.
    pub failed: u64,
    /// Why, the most frequent first.
    pub reasons: Vec<Reason>,
    /// Connections whose SYN went again.
    pub syn_retried: u64,
    /// How often SYNs went again for them.
    pub syns: u64,
    /// Times that an accept queue of the server's network namespace had no room (ListenOverflows).
    pub overflows: u64,
    /// Connections that it therefore or otherwise dropped (ListenDrops).
    pub drops: u64,
    /// SYNs that the client's network namespace sent again, whosever they were (TCPSynRetrans).
    pub syns_of_all: u64,
}

/// Connections that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Reason {
    /// What became of them.
    pub what: String,
    /// How many, and what the first of them met.
    #[serde(flatten)]
    pub failed: Failed,
}

fn add(run: &Run, _: &Logs, summary: &mut Summary) {
    if run.header.plan.parts.get::<Asked>().is_none() {
        return;
    }
    let cases = run.header.plan.cases.iter().map(|case| {
        let rounds: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case.id).collect();
        connections(case.id, &rounds)
    });
    summary.sections.set(ConnectSummary { cases: cases.collect() });
}

fn connections(case: u32, rounds: &[&RoundRecord]) -> Connections {
    let made: Vec<Made> = rounds.iter().filter_map(|round| Made::of_round(round)).collect();
    let times = |which: fn(&Made) -> &SparseHistogram| {
        let all: Vec<&SparseHistogram> = made.iter().map(which).collect();
        quantile::curve(&all, &Pooled::new(&all), &QUANTILES, false)
    };
    let counter = |end: usize, name: &str| -> u64 {
        rounds.iter().map(|round| round.end(end).kernel.0.get(name).copied().unwrap_or(0)).sum()
    };
    let mut all = Made::default();
    made.iter().for_each(|made| all.add_counts(made));
    let mut reasons: Vec<Reason> = all.failed.into_iter().map(|(what, failed)| Reason { what, failed }).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.failed.count));
    Connections {
        case,
        connect: times(|made| &made.connect),
        handshake: times(|made| &made.handshake),
        tls: made.iter().find_map(|made| made.agreed.clone()),
        kept: times(|made| &made.kept),
        begun: rounds.iter().map(|round| round.near().delivery.sent).sum(),
        failed: rounds.iter().map(|round| round.near().delivery.lost).sum(),
        reasons,
        syn_retried: all.retried,
        syns: all.syns,
        overflows: counter(FAR, "TcpExt.ListenOverflows"),
        drops: counter(FAR, "TcpExt.ListenDrops"),
        syns_of_all: counter(NEAR, "TcpExt.TCPSynRetrans"),
    }
}

/// Requests of a connection, who closes it and the server's queue are the question.
fn identity(a: &RunHeader, b: &RunHeader) -> Vec<Difference> {
    let (Some(a), Some(b)) = (a.plan.parts.get::<Asked>(), b.plan.parts.get::<Asked>()) else { return Vec::new() };
    let difference =
        |what: &str, a: String, b: String| Difference { what: what.into(), end: String::new(), a, b, refuses: false };
    let queue = |asked: &Asked| asked.backlog.map_or_else(|| "the kernel's".into(), |most| most.to_string());
    let close =
        |asked: &Asked| serde_json::to_value(asked.close).map_or_else(|_| String::new(), |close| close.to_string());
    vec![
        difference("requests on a connection", a.requests.to_string(), b.requests.to_string()),
        difference("closed by", close(a), close(b)),
        difference("accept queue", queue(a), queue(b)),
        difference("TLS", a.tls.to_string(), b.tls.to_string()),
    ]
}
