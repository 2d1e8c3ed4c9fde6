//! What a run with a mix keeps: what goes on beside it, in the header; what that did in each round, a line of JSON in `mix.jsonl`.

use std::path::Path;

use msgpath_core::parts::{Part, Parts};
use msgpath_core::{Plan, SparseHistogram};
use msgpath_record::RecordError;
use msgpath_record::lines::{self, Limits};
use serde::{Deserialize, Serialize};

/// Its name, within the folder of the run.
const FILE: &str = "mix.jsonl";
const LIMITS: Limits = Limits { line: 256 << 10, lines: 200_000 };
/// Most that goes on beside a case.
pub const MOST: usize = 4;

/// What goes on beside the cases of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixFacts {
    /// Each, in the order typed.
    pub besides: Vec<Other>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Other {
    /// As typed: `stream -l 128K`.
    pub text: String,
    /// Its verb, with its number where several have the same.
    pub name: String,
    /// What it does: one case.
    pub plan: Plan,
    /// What its workload must know besides.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
}

impl Part for MixFacts {
    const NAME: &'static str = "mix";
}

/// What went on beside a round, or without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MixRound {
    /// The case of the round; `None`: the cases of the run were switched off.
    pub case: Option<u32>,
    pub pass: u32,
    /// Streams were steady when it began.
    pub steady: bool,
    /// Each of what was typed; `None`: switched off.
    pub others: Vec<Option<OtherRound>>,
}

/// What one of them did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherRound {
    /// How long it was looked at, ns.
    pub window_ns: u64,
    /// An echo, and what has a clock: messages that were sent meanwhile.
    pub messages: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// Their times, ns: p50.
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// All of them.
    #[serde(with = "msgpath_core::histogram::hex", skip_serializing_if = "is_empty")]
    pub latency: SparseHistogram,
    /// A stream: payload bits a second that came through.
    pub bits: Option<f64>,
}

fn is_empty(latency: &SparseHistogram) -> bool {
    latency.total() == 0
}

/// Appends a round.
///
/// # Errors
/// The file cannot be written.
pub fn append(folder: &Path, round: &MixRound) -> Result<(), RecordError> {
    lines::append(&folder.join(FILE), std::slice::from_ref(round))
}

/// All rounds up to the first line that is not whole; none of a run without a mix.
///
/// # Errors
/// The file cannot be read.
pub fn rounds(folder: &Path) -> Result<Vec<MixRound>, RecordError> {
    lines::read(&folder.join(FILE), LIMITS)
}
