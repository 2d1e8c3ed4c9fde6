//! What the analysis hands to the presenters: every number that is printed, with what it rests on.
//!
//! Times are nanoseconds. A number that cannot be had is `None` with a `why` beside it, never 0.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use msgpath_core::parts::Parts;
use msgpath_core::plan::{Case, Change, Expectation};
use msgpath_core::schema::{FAR, Granted, NEAR, SCHEMA, Status, TcpInfo, UnavailableCase};
use msgpath_core::{CallCounts, Delivery, PathName, ZeroCopyCounts};
use msgpath_stats::crossover::Crossing;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::Quantile;
use msgpath_stats::restarts::Restarts;
use msgpath_stats::shape::ShapeBin;
use msgpath_stats::steady::Steadiness;
use msgpath_stats::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::between::Between;
use crate::gates::RunGate;
use crate::one_way::{FarClock, Ways};
use crate::threads::ThreadFigures;

/// The quantiles that are reported.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// A run, analysed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Summary {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
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
    /// One entry per measured case (controls and references included), in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// How many rounds were calm, and whether the headline is theirs; `None`: written by a version that did not ask.
    pub calm: Option<CalmRounds>,
    /// Ratios to the baseline; `None` with a single path.
    pub comparison: Option<Comparison>,
    /// One entry per path, size and thread count that was measured at more than one rate.
    pub load_curves: Vec<LoadCurve>,
    /// What was tried to find a cause: measured cases with one thing changed.
    pub ablations: Vec<AblationResult>,
    /// The user's estimate beside what was measured.
    pub expectation: Option<Expected>,
    /// What the result was to be held to (`--fail-if`), and what it comes to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<RunGate>,
    /// What features add.
    #[serde(flatten)]
    #[schemars(skip)]
    pub sections: Parts,
    /// The clock of the far end, where it is another one than the near end's and both took stamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_clock: Option<FarClock>,
    /// What each layer adds, where the plan is a layer breakdown.
    pub layers: Vec<Layer>,
    /// Computed sentences.
    pub findings: Vec<Finding>,
    /// Things that change what the numbers mean, printed before the tables.
    pub warnings: Vec<Warning>,
    /// Cases that could not be measured.
    pub unavailable: Vec<UnavailableCase>,
}

/// Sums over all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Totals {
    /// Rounds that were recorded.
    pub rounds: u64,
    /// Messages measured; `None`: the file of another program does not tell how many.
    pub messages: Option<u64>,
    /// Number of messages lost.
    pub lost: u64,
    /// Wall time from the first round to the end of the last, ns.
    pub elapsed_ns: u64,
    /// Messages whose every byte was compared.
    pub verified: u64,
}

/// The rounds of the cases that were asked for, by what disturbed them. A round may count in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CalmRounds {
    /// Number of rounds.
    pub rounds: u64,
    /// Number of rounds that nothing disturbed.
    pub calm: u64,
    /// Rounds in which the hypervisor took CPU time.
    pub stolen: u64,
    /// Rounds in which a CPU quota stopped an end.
    pub throttled: u64,
    /// Rounds in which other work shared the CPUs.
    pub shared: u64,
    /// Quantiles, ratios and verdicts are those of the calm rounds; else of all.
    pub used: bool,
}

/// The disturbed rounds of a case, which its headline leaves out.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Beside {
    /// Number of disturbed rounds.
    pub rounds: u64,
    /// Their p50 and p99.
    pub quantiles: Vec<Quantile>,
    /// Their slowest message that arrived, ns.
    pub slowest_ns: Option<u64>,
}

/// Cost per message, mean over all rounds. `None`: not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Cost {
    /// CPU time in user mode, ns.
    pub user_ns: f64,
    /// CPU time in the kernel, ns.
    pub system_ns: f64,
    /// Nobody read the counters of this end: all of it is n/a, not 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// Only the sum of the CPU time is known, and stands in `user_ns`: all else is n/a, not 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cpu_only: bool,
    /// System calls are those of a library, which nobody counted: `calls` is n/a, not 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_unread: bool,
    /// System calls a message.
    pub calls: f64,
    /// Voluntary context switches a message.
    pub voluntary: f64,
    /// Involuntary context switches a message.
    pub involuntary: f64,
    /// Page faults a message.
    pub faults: f64,
    /// Time runnable and not running, ns.
    pub run_delay_ns: Option<f64>,
}

/// A hardware or kernel event of one end, over rounds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct EventRate {
    /// As perf(1) calls it: `cycles`, `cpu_core/cycles/`, `L1-dcache-load-misses`.
    pub name: String,
    /// Per message; `None`: not counted.
    pub per_message: Option<Estimate>,
    /// Share of it in user mode, 0 to 1; `None`: not counted apart.
    pub user_share: Option<f64>,
    /// Share of the time in which it was counted, 0 to 1: below 1 the count is scaled (multiplexing).
    pub running_share: Option<f64>,
    /// Simulated by cachegrind, not counted.
    pub simulated: bool,
    /// Why it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Throughput of a stream, over rounds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Throughput {
    /// Bits per second that came through: the receiver's bytes, on its clock where its rounds are steady
    /// (docs/method/rounds.md#throughput).
    #[serde(rename = "receiver_bits_per_s")]
    pub receiver_bits: Estimate,
    /// Bits per second on the sender's clock, until the last acknowledgement; where messages may be lost, until the last send
    /// call returned.
    #[serde(rename = "sender_bits_per_s")]
    pub sender_bits: Estimate,
    /// Messages per second that came through; see [`CaseSummary::counts_messages`].
    #[serde(rename = "messages_per_s")]
    #[schemars(with = "Option<Estimate>")]
    pub messages: Estimate,
    /// Rounds that the buffers between the ends swallowed: what came through in them is a lower bound.
    pub bounds: u64,
    /// Bits per second in the part of a round that was thrown away: a fresh connection. `None`: nothing was.
    #[serde(rename = "beginning_bits_per_s")]
    pub beginning_bits: Option<Estimate>,
    /// How long that part was on average, ns.
    pub beginning_ns: Option<f64>,
    /// Mean time of a round on the sender's clock, ns.
    pub sender_ns: f64,
    /// Mean time of a round on the receiver's clock, ns.
    pub receiver_ns: f64,
    /// Share of the reference throughput, where one was measured.
    pub of_reference: Option<Estimate>,
}

/// Everything about one case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct CaseSummary {
    /// What was measured: path, size, threads and load.
    pub case: Case,
    /// Number of rounds recorded.
    pub rounds: u64,
    /// Messages in the histograms; see [`CaseSummary::counts_messages`].
    #[schemars(with = "Option<u64>")]
    pub messages: u64,
    /// Messages per histogram entry (batch mode when above 1: every value is a mean of that many messages).
    pub batch: u32,
    /// How long its messages took.
    #[serde(flatten)]
    pub latency: Latency,
    /// Messages per second of wall time inside rounds (echo).
    pub rate_per_s: Option<Estimate>,
    /// What the receiver took in; streams only.
    pub throughput: Option<Throughput>,
    /// How its times lie around their median.
    #[serde(flatten)]
    pub spread: Spread,
    /// Whether the rounds settled; `None`: too few rounds to say.
    pub steadiness: Option<Steadiness>,
    /// The first messages of the connections, apart from the rest.
    pub first: Option<FirstMessages>,
    /// Threads, connections and depth, where the run has several of one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadFigures>,
    /// What another start gives.
    #[serde(flatten)]
    pub repeats: Repeats,
    /// How well the rate was kept; open loop only.
    pub open: Option<OpenLoop>,
    /// What each end spent, in the order of the ends.
    pub ends: Vec<EndSummary>,
    /// What became of the messages, both ends; see [`CaseSummary::counts_messages`].
    #[schemars(with = "Option<Delivery>")]
    pub delivery: Delivery,
    /// What was copied of a message.
    #[serde(flatten)]
    pub copied: Copied,
    /// From one end to the other.
    #[serde(flatten)]
    pub transit: Transit,
    /// Under which conditions it was measured.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// How long the messages of a case took, from the send to the reply.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Latency {
    /// Fastest message, ns.
    pub fastest_ns: Option<u64>,
    /// Slowest message that arrived, ns.
    pub slowest_ns: Option<u64>,
    /// When the round with the slowest message started, ns since the start of the run.
    pub slowest_at_ns: Option<u64>,
    /// Mean over all messages, ns.
    pub mean_ns: Option<f64>,
    /// p50, p90, p99, p99.9, p99.99.
    pub quantiles: Vec<Quantile>,
    /// Rounds that they are made of: the undisturbed ones, where there are enough.
    pub of_rounds: u64,
    /// Times in these rounds, of which each quantile counts those beyond it: one a message, or (batch mode) one for the mean of
    /// `batch` messages.
    pub of_times: u64,
    /// How many independent messages the messages are worth at the median.
    pub effective_messages: Option<f64>,
    /// Median of each round, ns, in the order of the rounds.
    pub round_medians: Vec<f64>,
    /// The disturbed rounds, where the numbers of this case are those of its calm rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// How the times of a case lie around their median, and what the slow ones of them take.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Spread {
    /// Interquartile range, ns: how far the third quartile of the messages lies above the first.
    pub iqr_ns: Option<Estimate>,
    /// The distribution in log bins.
    pub shape: Vec<ShapeBin>,
    /// Share of wall time spent inside messages slower than 10 medians (closed loop), 0 to 1.
    pub time_share_over_10x: Option<f64>,
    /// Share of the messages slower than 10 medians, 0 to 1.
    pub message_share_over_10x: Option<f64>,
    /// Share of wall time spent inside messages slower than 100 medians (closed loop), 0 to 1.
    pub time_share_over_100x: Option<f64>,
    /// Share of the messages slower than 100 medians, 0 to 1.
    pub message_share_over_100x: Option<f64>,
}

/// What is known of a case from its other starts: within this run, and from earlier ones.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Repeats {
    /// Restarts as a level of the design; `None` with a single one.
    pub restarts: Option<Restarts>,
    /// Range of p50, p90 and p99 over earlier runs of the same plan, or over restarts; empty without either.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Between>,
}

/// What was copied of a message on its way, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Copied {
    /// Both ends' zero-copy bookkeeping; `None` where nothing asked for zero copy.
    pub zerocopy: Option<ZeroCopyCounts>,
    /// Bytes copied per message as far as known: by the program and by the kernel, both ends, with the reading.
    #[serde(rename = "copied_bytes")]
    pub bytes: Option<f64>,
    /// What `copied_bytes` counts, or why it is not known.
    #[serde(rename = "copied_why")]
    pub why: String,
}

/// The way from one end to the other: to connect, and then each way by itself.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Transit {
    /// Time to connect, ns: median over rounds.
    pub connect_ns: Option<f64>,
    /// One way near to far, p50 and its interval, ns; only with stamps at both ends and one clock.
    pub one_way: Option<Quantile>,
    /// Both ways by two clocks, with their bound; only with stamps at both ends that have no common clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
}

/// What the options came to, and what disturbed the rounds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Conditions {
    /// Options as asked and granted.
    pub granted: Vec<Granted>,
    /// Conditions that were lost, with the number of rounds each.
    pub flags: BTreeMap<String, u64>,
}

impl CaseSummary {
    /// A count of all rounds per message that was sent; `None` without one.
    pub fn per_message(&self, count: u64) -> Option<f64> {
        (self.delivery.sent > 0).then(|| count as f64 / self.delivery.sent as f64)
    }

    /// Whether it is known how many messages there were: of a stream in a file of another program, where it tells how long they were.
    pub fn counts_messages(&self) -> bool {
        self.case.has_size() || self.throughput.is_none()
    }

    /// A case of which nothing was recorded.
    pub fn empty(case: Case) -> Self {
        Self {
            case,
            rounds: 0,
            messages: 0,
            batch: 1,
            latency: Latency::default(),
            rate_per_s: None,
            throughput: None,
            spread: Spread::default(),
            steadiness: None,
            first: None,
            threads: None,
            repeats: Repeats::default(),
            open: None,
            ends: Vec::new(),
            delivery: Delivery::default(),
            copied: Copied::default(),
            transit: Transit::default(),
            conditions: Conditions::default(),
        }
    }
}

/// What one end of a case spent, all rounds together.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct EndSummary {
    /// `near`, `far`.
    pub name: String,
    /// Messages go to this end: the receiver of a stream, who answers an echo.
    pub receives: bool,
    /// System calls; `None`: they were not counted.
    #[schemars(with = "Option<CallCounts>")]
    pub calls: CallCounts,
    /// Cost per message.
    pub cost: Cost,
    /// TCP_INFO summed over rounds (segments) or of the last round (times).
    pub tcp: Option<TcpInfo>,
    /// Least path MTU at the end of a round, bytes; absent where no connected socket of IP was there to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu_bytes: Option<u32>,
    /// Kernel counters summed over the rounds, by name; a name that is listed in the run's header and missing here has not
    /// changed. In one network namespace all ends count the same events.
    pub kernel: BTreeMap<String, u64>,
    /// Hardware and kernel events per message, in the order of the run's header: those that are not counted with their
    /// reason.
    pub events: Vec<EventRate>,
    /// What its whole process spent, where somebody looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessCost>,
}

/// What the whole process of an end spent while a case was measured, read from outside: more than its messages took.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ProcessCost {
    /// CPU time a message, ns.
    pub cpu_ns: f64,
    /// Voluntary context switches a message.
    pub voluntary: f64,
    /// Involuntary context switches a message.
    pub involuntary: f64,
    /// Page faults without I/O a message.
    pub minor_faults: f64,
    /// Page faults with I/O a message.
    pub major_faults: f64,
    /// Bytes fetched from block devices in all rounds.
    pub disk_read_bytes: Option<u64>,
    /// Bytes sent to block devices in all rounds.
    pub disk_written_bytes: Option<u64>,
    /// Time a message for which its threads were runnable and did not run, ns.
    pub run_queue_ns: Option<f64>,
    /// System calls a message, in the rounds in which they were counted.
    pub system_calls: Option<f64>,
    /// By how much the memory that it has resident grew in all rounds, bytes.
    pub resident_growth_bytes: Option<i64>,
    /// By how much the memory that it has mapped for heap and other private data grew in all rounds, bytes.
    pub data_growth_bytes: Option<i64>,
    /// The most that it ever had resident, bytes.
    pub peak_resident_bytes: Option<u64>,
}

impl Cost {
    /// CPU time in user mode and in the kernel, ns; `None`: it was not read.
    pub fn cpu_ns(&self) -> Option<f64> {
        (!self.unread).then_some(self.user_ns + self.system_ns)
    }

    /// Whether all of it was read.
    pub fn is_whole(&self) -> bool {
        !self.unread && !self.cpu_only
    }

    /// System calls; `None`: nobody counted them.
    pub fn system_calls(&self) -> Option<f64> {
        (self.is_whole() && !self.calls_unread).then_some(self.calls)
    }
}

impl CaseSummary {
    /// CPU time of both ends, ns a message; `None`: that of one of them was not read.
    pub fn cpu_ns(&self) -> Option<f64> {
        self.ends.iter().map(|end| end.cost.cpu_ns()).sum()
    }

    /// What an end spent; nothing where the case does not have it.
    pub fn end(&self, end: usize) -> &EndSummary {
        static NONE: LazyLock<EndSummary> = LazyLock::new(EndSummary::default);
        self.ends.get(end).unwrap_or(&NONE)
    }

    /// The end that messages go to.
    pub fn receiver(&self) -> &EndSummary {
        self.ends.iter().find(|end| end.receives).unwrap_or_else(|| self.end(FAR))
    }

    /// The end that messages come from.
    pub fn sender(&self) -> &EndSummary {
        self.ends.iter().find(|end| !end.receives).unwrap_or_else(|| self.end(NEAR))
    }

    /// The same, for writing.
    pub fn end_mut(&mut self, end: usize) -> &mut EndSummary {
        if self.ends.len() <= end {
            self.ends.resize_with(end + 1, EndSummary::default);
        }
        &mut self.ends[end]
    }
}

/// The first messages of every connection: trimmed, so in no other number.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FirstMessages {
    /// Messages of all connections and rounds together.
    pub messages: u64,
    /// Mean number of them per connection.
    pub per_connection: f64,
    /// Their median, ns.
    pub p50_ns: Option<u64>,
    /// Their slowest, ns.
    pub slowest_ns: Option<u64>,
    /// Their median divided by the steady one, paired by round.
    pub ratio: Option<Estimate>,
}

/// An open loop: what was offered, what was achieved, and who was late (docs/method/open-loop.md).
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct OpenLoop {
    /// Messages a second that were asked for.
    pub asked_per_s: f64,
    /// Messages a second that the schedules held.
    pub offered_per_s: f64,
    /// Messages a second that were answered, over the time from the first to the last reply, stalls included.
    pub achieved_per_s: Estimate,
    /// Whether the rate was sustained. `None`: that cannot be told.
    pub sustained: Option<bool>,
    /// Why not, or why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Growth of the backlog, messages a second: not sustained where its interval lies above 0.
    pub backlog_per_s: Option<Estimate>,
    /// From the actual send to the reply.
    pub service: Vec<Quantile>,
    /// From the intended to the actual send: p50, p99 and so on.
    pub lateness: Vec<Quantile>,
    /// Share of the sends that were later than one mean gap.
    pub late_share: f64,
    /// Share of the summed lateness while the far end held the sender up.
    pub blocked_share: f64,
    /// Share of it while the sender was runnable and not running.
    pub not_running_share: f64,
    /// Share of it that is the generator's own.
    pub own_share: f64,
    /// Mean number of messages in flight just before a send.
    pub mean_in_flight: f64,
    /// Most messages in flight.
    pub most_in_flight: u64,
    /// Mean in flight divided by rate times mean round trip: 1 by Little's law.
    pub little: Option<Estimate>,
    /// CPU time of the near end's threads divided by their time and number: above 0.5 the client may be what is measured.
    pub client_busy: Option<f64>,
}

impl CaseSummary {
    /// Whether it was measured at a rate that was not sustained: then it has no times.
    pub fn is_overloaded(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.overloaded().is_some())
    }
}

impl OpenLoop {
    /// Why the rate was not sustained, where it was not: its times grow as long as one measures, and mean nothing.
    pub fn overloaded(&self) -> Option<&str> {
        self.why.as_deref().filter(|_| self.sustained == Some(false))
    }
}

/// Whether a rate was sustained, as a cell of a table says it.
pub fn yes_or_no(sustained: Option<bool>) -> &'static str {
    match sustained {
        Some(true) => "yes",
        Some(false) => "no",
        None => "can't tell",
    }
}

/// Latency against rate of one path.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct LoadCurve {
    /// Path of every point.
    pub path: PathName,
    /// Size of the message, bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Measuring threads at each end.
    pub threads: u32,
    /// Connections of all threads together.
    pub connections: u32,
    /// The points by rising rate.
    pub points: Vec<LoadPoint>,
    /// Quantile that the knee is about: 0.99, or 0.5 where the data carry no more.
    pub knee_p: f64,
    /// The rate at which that quantile has doubled against the lowest rate, messages a second; `None`: it never did.
    /// An end of the interval that lies outside the rates measured is `None`.
    pub knee_per_s: Option<Estimate>,
    /// Highest rate that was sustained, below every rate that was not.
    pub sustained_per_s: Option<f64>,
    /// Lowest rate that was not sustained.
    pub overloaded_per_s: Option<f64>,
}

/// One rate of a load curve.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LoadPoint {
    /// Id of the case.
    pub case: u32,
    /// Messages a second that were asked for.
    pub asked_per_s: f64,
    /// Messages a second that were answered.
    pub achieved_per_s: f64,
    /// Whether it was sustained; `None`: that cannot be told.
    pub sustained: Option<bool>,
    /// Growth of the backlog, messages a second.
    pub backlog_per_s: Option<Estimate>,
    /// p50; `None` where the rate was not sustained.
    pub p50: Option<Quantile>,
    /// p99; `None` where the rate was not sustained.
    pub p99: Option<Quantile>,
}

/// An ablation against the case that it explains, paired by pass.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct AblationResult {
    /// Id of the ablation's case.
    pub case: u32,
    /// Id of the case that it explains.
    pub of: u32,
    /// What was changed.
    pub change: Change,
    /// Median of the ablation divided by that of the case (throughput of streams likewise).
    pub ratio: Estimate,
    /// p-value of the sign-flip test.
    pub p: Option<f64>,
    /// Of the ablation against the case, after Holm over all ablations.
    pub verdict: Verdict,
    /// Unit of the values: `ns` or `bit/s`.
    pub unit: String,
    /// p50 of the ablation (echo), or its throughput (stream).
    pub value: f64,
    /// p50 of the case (echo), or its throughput (stream).
    pub case_value: f64,
}

/// Estimate first, then look.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct Expected {
    /// What the user typed.
    pub expected: Expectation,
    /// Id of the case it is compared with: the baseline's first.
    pub case: u32,
    /// What was measured, in the unit of `expected`.
    pub measured: f64,
    /// Measured divided by expected.
    pub factor: f64,
    /// What the machine allows at best, in the unit of `expected`, each with its name and where it comes from.
    pub floors: Vec<Floor>,
}

/// A physical limit: no message is faster, or no stream quicker.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "ExpectedFloor")]
pub struct Floor {
    /// `copies`, `wake-ups`, `link` ...
    pub name: String,
    /// The least time, ns, or the highest rate, bits per second.
    pub value: f64,
    /// How it is computed, in a few words with its numbers.
    pub basis: String,
}

/// One case against the baseline's case of the same size, pieces and threads.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Ratio {
    /// Id of the case.
    pub case: u32,
    /// Id of the baseline's case.
    pub baseline: u32,
    /// Metric of the case divided by that of the baseline, paired by pass (time: above 1 is slower; rate: above 1 is
    /// faster).
    pub ratio: f64,
    /// Lower end of the interval that the verdict was read from: at 95 %, or where the difference stands after Holm at the
    /// level of its rank, so that all claimed differences hold together. `None`: no interval, or not resolvable.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// p-value: sign flips of the passes (tails: the level at which the bootstrap interval ends at 1).
    pub p: Option<f64>,
    /// Whether it stands after Holm.
    pub holm: bool,
    /// Whether the case is better than the baseline, worse or the same.
    pub verdict: Verdict,
    /// Rounds that would decide it, where it is undecided.
    pub rounds_needed: Option<u64>,
}

/// One layer, in a breakdown the stack with most layers first.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct Layer {
    /// Id of the case in which it was measured.
    pub case: u32,
    /// What it is: the path, and the work of a handler where there is some.
    pub name: String,
    /// Median round trip: that of its case, as every other place prints it.
    pub median: Quantile,
    /// What this layer adds to the one that it stands on, ns: the mean of the differences of the medians in the same pass, with
    /// its 95 % t interval. `None` where it stands on none, and where no pass has both.
    #[serde(rename = "adds_ns")]
    pub adds: Option<Estimate>,
    /// The same as a ratio, against the case that it is added to, judged with all steps of the run.
    pub times: Option<Ratio>,
}

/// The best path of one cell (size and threads).
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Winner {
    /// Size of the message, bytes.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Pieces of the message, as typed.
    pub pieces: String,
    /// Measuring threads at each end.
    pub threads: u32,
    /// The winner; `None`: none at 95 %.
    pub path: Option<PathName>,
    /// The path with the best estimate, winner or not.
    pub best: PathName,
    /// Second best divided by best (times), at least 1.
    pub margin: Option<f64>,
    /// The paths that nothing beats at 95 %, the best estimate first: the winner alone, or those that tie.
    pub unbeaten: Vec<PathName>,
}

/// The order of the paths over all cells (size, pieces, threads) that every path was measured in, by the geometric mean
/// of the metric.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Standing {
    /// The path with the best mean.
    pub best: PathName,
    /// The other paths, from the second best to the worst.
    pub others: Vec<Rank>,
    /// Number of cells.
    pub cells: u32,
}

/// A path behind the best one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Rank {
    /// The path that is behind.
    pub path: PathName,
    /// How many times the best path's time it takes (rates: how many times its rate the best path has), paired by pass.
    pub behind: f64,
    /// Lower end of its interval, at 95 % or at the level of its rank after Holm; `None`: no interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether the best path is shown to be better: after Holm over the other paths, and beyond the margin.
    pub beaten: bool,
    /// Whether both halves of the run have it behind.
    pub halves_agree: bool,
}

/// From which size a path beats the baseline.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Crossover {
    /// The path that is compared with the baseline.
    pub path: PathName,
    /// Measuring threads at each end.
    pub threads: u32,
    /// Where its sizes cross those of the baseline.
    #[serde(flatten)]
    pub crossing: Crossing,
}

/// The paths of a run against its baseline.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct Comparison {
    /// The path that the others are divided by.
    pub baseline: PathName,
    /// `p50`, `p99`, `mean`, `cpu` (ns, smaller is better) or `throughput` (bits per second, larger is better).
    pub metric: String,
    /// One entry per case that has a counterpart.
    pub ratios: Vec<Ratio>,
    /// The same for p99, beside a metric that is not about tails: only where both p99 are claims. Echo only. A family of
    /// its own, whose margin is 2 % or what the control resolves at p99.
    pub tails: Vec<Ratio>,
    /// One entry per size, pieces and thread count.
    pub winners: Vec<Winner>,
    /// The paths over all sizes and thread counts together; `None` with less than three paths, and for tails.
    pub standing: Option<Standing>,
    /// One entry per path and thread count.
    pub crossovers: Vec<Crossover>,
    /// p95 of |A'/A - 1| over the hidden controls, by round pairs' means: what this machine resolves today.
    pub resolution: Option<f64>,
    /// Whether a control differed from the baseline: then the comparison is void.
    pub control_failed: bool,
    /// The margin that verdicts use: max(2 %, resolution). Beyond 10 % nothing is called the same.
    pub margin: f64,
}

/// How sure a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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

impl Summary {
    /// A summary without cases.
    pub fn empty(name: impl Into<String>, verb: impl Into<String>, status: Status) -> Self {
        Self {
            schema: SCHEMA.into(),
            status,
            name: name.into(),
            verb: verb.into(),
            target: String::new(),
            totals: Totals::default(),
            calm: None,
            cases: Vec::new(),
            comparison: None,
            load_curves: Vec::new(),
            ablations: Vec::new(),
            expectation: None,
            gates: Vec::new(),
            sections: Parts::default(),
            far_clock: None,
            layers: Vec::new(),
            findings: Vec::new(),
            warnings: Vec::new(),
            unavailable: Vec::new(),
        }
    }
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code, `V01` ...
    pub code: String,
    /// How far the evidence carries the sentence.
    pub confidence: Confidence,
    /// The sentence, with its numbers.
    pub text: String,
    /// The numbers it rests on, by name with the unit in the name.
    pub evidence: BTreeMap<String, f64>,
    /// Commands to run next.
    #[serde(rename = "try")]
    pub next: Vec<String>,
}

/// Something that changes what the numbers mean.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Warning {
    /// Stable code, `W20` ...
    pub code: String,
    /// What was found, in a sentence.
    pub text: String,
    /// Why it changes what the numbers mean.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// The numbers it rests on.
    pub evidence: BTreeMap<String, f64>,
    /// Whether `--strict` makes it an error (exit 5).
    pub strict: bool,
}
