//! What the analysis hands to the presenters: every number that is printed, with what it rests on.
//!
//! Times are nanoseconds. A number that cannot be had is `None` with a `why` beside it, never 0.

use std::collections::BTreeMap;

use msgpath_core::plan::Case;
use msgpath_core::schema::{Granted, Status, TcpInfo, UnavailableCase};
use msgpath_core::{CallCounts, Delivery, PathName, ZeroCopyCounts};
use serde::{Deserialize, Serialize};

/// A run, analysed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`msgpath_core::schema::SCHEMA`].
    pub schema: String,
    /// How the run ended.
    pub status: Status,
    /// Name of the run.
    pub name: String,
    /// `echo`, `stream` or `compare`.
    pub verb: String,
    /// The far end.
    pub target: String,
    /// All cases together.
    pub totals: Totals,
    /// One entry per measured case (controls and yardsticks included), in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// Ratios to the baseline; `None` with a single path.
    pub comparison: Option<Comparison>,
    /// Computed sentences.
    pub findings: Vec<Finding>,
    /// Things that change what the numbers mean, printed before the tables.
    pub warnings: Vec<Warning>,
    /// Cases that could not be measured.
    pub unavailable: Vec<UnavailableCase>,
}

/// Sums over all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Rounds that were recorded.
    pub rounds: u64,
    /// Messages measured.
    pub messages: u64,
    /// Messages lost.
    pub lost: u64,
    /// Wall time from the first round to the end of the last, ns.
    pub elapsed_ns: u64,
    /// Messages whose every byte was compared.
    pub verified: u64,
}

/// An estimate with its 95 % interval over rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end; `None`: no interval can be claimed.
    pub low: Option<f64>,
    /// Upper end; `None`: no interval, or not resolvable.
    pub high: Option<f64>,
}

/// A quantile of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// 0.5, 0.9, 0.99 ...
    pub p: f64,
    /// The value, ns. `None`: the quantile is a lost message.
    pub ns: Option<u64>,
    /// Lower end of the interval, ns.
    pub lo_ns: Option<u64>,
    /// Upper end of the interval, ns.
    pub hi_ns: Option<u64>,
    /// Messages slower than this.
    pub beyond: u64,
    /// Rounds that contain at least one of them.
    pub bursts: u64,
    /// Whether the number is a claim: enough independent messages, and the tail in enough rounds.
    pub claim: bool,
    /// Why it is not.
    pub why: Option<String>,
}

/// One row of the shape: a log bin and its count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeBin {
    /// Lowest value, ns.
    pub from_ns: u64,
    /// First value above, ns.
    pub to_ns: u64,
    /// Messages.
    pub count: u64,
}

/// Cost per message, mean over all rounds. `None`: not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time in user mode, ns.
    pub user_ns: f64,
    /// CPU time in the kernel, ns.
    pub system_ns: f64,
    /// System calls.
    pub calls: f64,
    /// Voluntary context switches.
    pub voluntary: f64,
    /// Involuntary context switches.
    pub involuntary: f64,
    /// Page faults.
    pub faults: f64,
    /// Time runnable and not running, ns.
    pub run_delay_ns: Option<f64>,
}

/// Throughput of a stream, over rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bits per second: the receiver's bytes on the receiver's clock.
    pub receiver_bits: Estimate,
    /// Bits per second on the sender's clock, until the last acknowledgement.
    pub sender_bits: Estimate,
    /// Messages per second on the receiver's clock.
    pub messages: Estimate,
    /// Mean time of a round on the sender's clock, ns.
    pub sender_ns: f64,
    /// Mean time of a round on the receiver's clock, ns.
    pub receiver_ns: f64,
    /// Share of the yardstick's throughput, where one was measured.
    pub of_yardstick: Option<Estimate>,
}

/// Everything about one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseSummary {
    /// The case.
    pub case: Case,
    /// Rounds recorded.
    pub rounds: u64,
    /// Messages in the histograms.
    pub messages: u64,
    /// Messages per histogram entry (batch mode when above 1: every value is a mean of that many messages).
    pub batch: u32,
    /// Fastest, ns.
    pub fastest_ns: Option<u64>,
    /// Slowest that arrived, ns.
    pub slowest_ns: Option<u64>,
    /// When the round with the slowest message started, ns since the start of the run.
    pub slowest_at_ns: Option<u64>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    /// p50, p90, p99, p99.9, p99.99.
    pub quantiles: Vec<Quantile>,
    /// How many independent messages the messages are worth at the median.
    pub effective_messages: Option<f64>,
    /// Median of each round, ns, in the order of the rounds.
    pub round_medians: Vec<f64>,
    /// Messages per second of wall time inside rounds (echo).
    pub rate_per_s: Option<Estimate>,
    /// Stream only.
    pub throughput: Option<Throughput>,
    /// The distribution in log bins.
    pub shape: Vec<ShapeBin>,
    /// Share of wall time spent inside messages slower than 10 medians (closed loop), 0 to 1.
    pub time_share_over_10x: Option<f64>,
    /// Share of the messages slower than 10 medians, 0 to 1.
    pub message_share_over_10x: Option<f64>,
    /// What became of the messages, both ends.
    pub delivery: Delivery,
    /// System calls of the near end, all rounds.
    pub near_calls: CallCounts,
    /// System calls of the far end, all rounds.
    pub far_calls: CallCounts,
    /// Cost per message at the near end.
    pub near_cost: Cost,
    /// Cost per message at the far end.
    pub far_cost: Cost,
    /// Both ends' zero-copy bookkeeping; `None` where nothing asked for zero copy.
    pub zerocopy: Option<ZeroCopyCounts>,
    /// TCP_INFO of the sender's side summed over rounds (segments) or of the last round (times).
    pub near_tcp: Option<TcpInfo>,
    /// The same of the far end.
    pub far_tcp: Option<TcpInfo>,
    /// Bytes copied per message as far as known: by the program and by the kernel, both ends, with the reading.
    pub copied_bytes: Option<f64>,
    /// What `copied_bytes` counts, or why it is not known.
    pub copied_why: String,
    /// Time to connect, ns: median over rounds.
    pub connect_ns: Option<f64>,
    /// One way near to far, p50 and its interval, ns; only with stamps at both ends and one clock.
    pub one_way: Option<Quantile>,
    /// Options as asked and granted.
    pub granted: Vec<Granted>,
    /// Conditions that were lost, with the number of rounds each.
    pub flags: BTreeMap<String, u64>,
}

/// What a ratio means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline by more than the margin.
    Better,
    /// Worse than the baseline by more than the margin.
    Worse,
    /// The same within the margin.
    Equivalent,
    /// The interval does not decide.
    Undecided,
}

/// One case against the baseline's case of the same size, pieces and threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Id of the case.
    pub case: u32,
    /// Id of the baseline's case.
    pub baseline: u32,
    /// Metric of the case divided by that of the baseline, paired by pass (time: above 1 is slower; rate: above 1 is
    /// faster).
    pub ratio: f64,
    /// Interval of the ratio.
    pub low: Option<f64>,
    /// Interval of the ratio.
    pub high: Option<f64>,
    /// p-value of the sign-flip test.
    pub p: Option<f64>,
    /// Whether it stands after Holm.
    pub holm: bool,
    /// What it means.
    pub verdict: Verdict,
    /// Rounds that would decide it, where it is undecided.
    pub rounds_needed: Option<u64>,
}

/// The best path of one cell (size and threads).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// Size of the message, bytes.
    pub size: u64,
    /// Pieces of the message, as typed.
    pub pieces: String,
    /// Threads.
    pub threads: u32,
    /// The winner; `None`: none at 95 %.
    pub path: Option<PathName>,
    /// The path with the best estimate, winner or not.
    pub best: PathName,
    /// Second best divided by best (times), at least 1.
    pub margin: Option<f64>,
}

/// From which size a path beats the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The path.
    pub path: PathName,
    /// Threads.
    pub threads: u32,
    /// What was found.
    pub kind: CrossoverKind,
    /// The size, bytes (for [`CrossoverKind::At`] and [`CrossoverKind::Several`]: the last crossing).
    pub size: Option<f64>,
    /// Interval, bytes; `None` at an end that lies outside the sizes measured.
    pub low: Option<f64>,
    /// Interval, bytes.
    pub high: Option<f64>,
}

/// The ways two curves can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossoverKind {
    /// Faster at every size measured.
    AlwaysFaster,
    /// Slower at every size measured.
    NeverFaster,
    /// No difference was shown at any size.
    Equivalent,
    /// Slower below, faster above.
    At,
    /// Faster below, slower above.
    FasterBelow,
    /// More than one crossing.
    Several,
    /// The data do not decide.
    Undecided,
}

/// A comparison of paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The path that the others are divided by.
    pub baseline: PathName,
    /// `p50` (ns, smaller is better) or `throughput` (bits per second, larger is better).
    pub metric: String,
    /// One entry per case that has a counterpart.
    pub ratios: Vec<Ratio>,
    /// One entry per size, pieces and thread count.
    pub winners: Vec<Winner>,
    /// One entry per path and thread count.
    pub crossovers: Vec<Crossover>,
    /// p95 of |A'/A - 1| over the hidden controls, by round pairs' means: what this machine resolves today.
    pub resolution: Option<f64>,
    /// Whether a control differed from the baseline: then the comparison is void.
    pub control_failed: bool,
    /// The margin that verdicts use: max(2 %, resolution).
    pub margin: f64,
}

/// How sure a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confidence {
    /// The interval says so and the halves of the run agree.
    #[serde(rename = "sure")]
    Sure,
    /// One mechanism fits in sign, size and timing; nothing was switched off to prove it.
    #[serde(rename = "likely")]
    Likely,
    /// Says what would settle it.
    #[serde(rename = "can't tell")]
    CantTell,
}

impl Confidence {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Sure => "sure",
            Confidence::Likely => "likely",
            Confidence::CantTell => "can't tell",
        }
    }
}

/// A computed sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code, `V01` ...
    pub code: String,
    /// How sure.
    pub confidence: Confidence,
    /// The sentence.
    pub text: String,
    /// The numbers it rests on, by name with the unit in the name.
    pub evidence: BTreeMap<String, f64>,
    /// Commands to run next.
    pub next: Vec<String>,
}

/// Something that changes what the numbers mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable code, `W20` ...
    pub code: String,
    /// What.
    pub text: String,
    /// Why it matters.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// The numbers it rests on.
    pub evidence: BTreeMap<String, f64>,
    /// Whether `--strict` makes it an error (exit 5).
    pub strict: bool,
}
