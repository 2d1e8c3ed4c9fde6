//! What a record holds so that a run that was cut short can go on: what the pilot found, the order of every pass, and when
//! the run was resumed.

use serde::{Deserialize, Serialize};

use crate::schema::{Granted, Status};
use crate::settling::Settling;

/// What the pilot found of a case that can be measured here. What cannot be is in
/// [`RunHeader::unavailable`](crate::schema::RunHeader::unavailable), with the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    pub case: u32,
    /// The case whose count of messages it takes: a control and an ablation are compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<u32>,
    /// Time per message of all connections together, ns.
    pub message_ns: f64,
    /// Measured messages on each connection in the first pass; in every pass the same, but for the remainder of a count.
    pub messages: u64,
    /// Messages at the start of each connection that are never measured; those until it is steady come on top.
    pub trim: u64,
    /// How long its load runs until it is steady, as the time that so many steady messages take; `None`: not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Messages per stamp pair.
    pub batch: u64,
    /// Median of the last pilot round, ns; `None`: a stream.
    pub median_ns: Option<u64>,
    /// Options as asked and granted.
    pub granted: Vec<Granted>,
}

/// The order of a pass, written before its first round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassRecord {
    /// Number of the pass, from 0.
    pub pass: u32,
    /// Phase of its cases.
    pub phase: u32,
    /// Beyond the rounds of the plan: too few of the planned ones were calm.
    pub extra: bool,
    /// Its cases in the order in which they are measured.
    pub cases: Vec<u32>,
}

/// A run that was cut short went on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    /// UTC, RFC 3339.
    pub at: String,
    /// Rounds that were there.
    pub rounds: u64,
    /// Where the clock of the run goes on, ns: the pause is not a part of it.
    pub start_ns: u64,
    /// How it had ended before; `None`: the program was killed.
    pub ended: Option<Status>,
    /// What is not as it was before, sentence by sentence; empty: nothing that is looked at.
    pub differs: Vec<String>,
}
