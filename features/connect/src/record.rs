//! What a run of connections is asked, and what its threads saw.

use std::collections::BTreeMap;

use msgpath_core::parts::Part;
use msgpath_core::{Histogram, SparseHistogram};
use serde::{Deserialize, Serialize};

/// Most requests on a connection.
pub const MOST_REQUESTS: u32 = 1_000_000;
/// Most reasons that are told apart; beyond that the others are one.
const MOST_REASONS: usize = 16;

/// What both ends are told beside a round: part of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Requests on a connection, one after the other.
    pub requests: u32,
    /// Who closes it.
    pub close: Close,
    /// Connections that wait until they are accepted; `None`: as many as the kernel takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// TLS 1.3 on each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { requests: 1, close: Close::Server, backlog: None, tls: false }
    }
}

impl Part for Asked {
    const NAME: &str = "connect";
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// The server closes first, after the last reply: TIME_WAIT is at its port, and takes none of the client's
    #[default]
    Server,
    /// The client resets it (SO_LINGER 0): no TIME_WAIT at either end
    Reset,
}

/// What a thread of the client saw of a round beside its times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// From just before socket(2) until the connection was there, ns.
    #[serde(with = "msgpath_core::histogram::hex")]
    pub connect: SparseHistogram,
    /// From when the connection was there until both ends had agreed on TLS, ns; empty without.
    #[serde(default, with = "msgpath_core::histogram::hex", skip_serializing_if = "is_empty")]
    pub handshake: SparseHistogram,
    /// Version and cipher of TLS, as the first connection had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
    /// Requests after the first of a connection: from just before the send until the first byte of the reply, ns.
    #[serde(with = "msgpath_core::histogram::hex")]
    pub kept: SparseHistogram,
    /// Connections whose SYN went again.
    pub retried: u64,
    /// How often.
    pub syns: u64,
    /// Connections that failed, by reason.
    pub failed: BTreeMap<String, Failed>,
}

fn is_empty(times: &SparseHistogram) -> bool {
    times.total() == 0
}

impl Part for Made {
    const NAME: &str = "connect";
}

/// Connections that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failed {
    /// How many.
    pub count: u64,
    /// What the first of them met, with its numbers.
    pub example: String,
}

impl Made {
    /// Counts a connection that failed.
    pub fn fail(&mut self, reason: &str, example: impl FnOnce() -> String) {
        let known = self.failed.len() < MOST_REASONS || self.failed.contains_key(reason);
        let failed = self.failed.entry(if known { reason } else { "other" }.to_owned()).or_default();
        failed.count += 1;
        if failed.count == 1 {
            failed.example = example();
        }
    }

    /// With what another thread saw, or another round, but for times.
    pub fn add_counts(&mut self, other: &Made) {
        self.retried += other.retried;
        self.syns += other.syns;
        for (reason, failed) in &other.failed {
            let sum = self.failed.entry(reason.clone()).or_default();
            if sum.count == 0 {
                sum.example.clone_from(&failed.example);
            }
            sum.count += failed.count;
        }
    }

    /// What the threads of a round saw together; `None`: it is no round of connections.
    pub fn of_round(round: &msgpath_core::schema::RoundRecord) -> Option<Made> {
        let threads: Vec<&Made> = round.parts.iter().filter_map(|parts| parts.get::<Made>()).collect();
        let together = |times: fn(&Made) -> &SparseHistogram| {
            let mut sum = Histogram::new();
            threads.iter().for_each(|made| sum.merge_sparse(times(made)));
            sum.to_sparse()
        };
        let first = threads.first()?;
        let mut all = match threads.len() {
            1 => return Some((*first).clone()),
            _ => Made {
                connect: together(|made| &made.connect),
                handshake: together(|made| &made.handshake),
                agreed: first.agreed.clone(),
                kept: together(|made| &made.kept),
                ..Made::default()
            },
        };
        threads.iter().for_each(|made| all.add_counts(made));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::parts::Parts;
    use msgpath_core::schema::RoundRecord;

    use super::*;

    fn made(ns: u64) -> Made {
        let mut connect = Histogram::new();
        connect.record(ns);
        let mut made = Made { connect: connect.to_sparse(), retried: 1, syns: 2, ..Made::default() };
        made.fail("refused", || format!("after {ns}"));
        made
    }

    #[test]
    fn threads_of_a_round_come_together_from_its_record() {
        let round = RoundRecord {
            parts: vec![Parts::default().with(made(1000)), Parts::default().with(made(3000))],
            ..RoundRecord::default()
        };
        let read: RoundRecord = serde_json::from_str(&serde_json::to_string(&round).unwrap()).unwrap();
        let all = Made::of_round(&read).unwrap();
        assert_eq!((all.connect.total(), all.retried, all.syns), (2, 2, 4));
        assert_eq!(all.failed["refused"], Failed { count: 2, example: "after 1000".into() });
        assert_eq!(Made::of_round(&RoundRecord::default()), None);
    }

    #[test]
    fn histograms_that_are_none_are_refused() {
        let text = serde_json::to_string(&made(5)).unwrap();
        for (from, to) in [("\"connect\":\"", "\"connect\":\"zz"), ("\"connect\":\"", "\"connect\":\"ff")] {
            assert!(serde_json::from_str::<Made>(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }

    #[test]
    fn reasons_are_bounded() {
        let mut made = Made::default();
        (0..100).for_each(|at| made.fail(&at.to_string(), || "x".repeat(at)));
        assert_eq!((made.failed.len(), made.failed["other"].count), (MOST_REASONS + 1, 100 - MOST_REASONS as u64));
    }
}
