//! Where the time of messages goes: whole messages, averaged by how slow they were.
//!
//! Each band averages the messages inside it, so the parts add up to the mean of the band; percentiles of parts would
//! not.

use std::collections::BTreeMap;

use msgpath_core::Histogram;
use msgpath_core::foreign::command_again;
use msgpath_core::plan::{Case, MIN_ROUNDS_FOR_CLAIMS, Stamps};
use msgpath_core::schema::MessageRow;
use msgpath_record::{Messages, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a message's time. Which ones there are depends on where the run took stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Open loop: from the intended send to the actual one.
    Waiting,
    /// From the send to the arrival at the far end.
    Request,
    /// From the arrival at the far end to the reply's.
    Reply,
    /// From the arrival at the far end to the send of its reply, where that was stamped.
    FarEnd,
    /// From there to the reply's arrival.
    Return,
    /// From the send to the reply, of a message without a stamp of the far end.
    Whole,
}

impl Stage {
    /// All of them, in the order of time.
    pub const ALL: [Stage; 6] =
        [Stage::Waiting, Stage::Request, Stage::Reply, Stage::FarEnd, Stage::Return, Stage::Whole];

    /// Its name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Waiting => "waiting to be sent",
            Stage::Request => "request: send to arrival",
            Stage::Reply => "far end and reply",
            Stage::FarEnd => "far end: arrival to its send",
            Stage::Return => "reply: its send to arrival",
            Stage::Whole => "send to reply",
        }
    }

    /// Time that a message spent in it, ns; 0 where the message has no such stage or its end is not known. Of a message
    /// that arrived the stages add up to its latency.
    pub fn ns(self, row: &MessageRow) -> u64 {
        let late = row.late_ns.unwrap_or(0);
        if let (Some(far), Some(sent), Some(latency)) = (row.far_ns, row.far_sent_ns, row.latency_ns) {
            let (far, sent) = (far.clamp(late, latency.max(late)), sent.min(latency));
            match self {
                Stage::Reply => return 0,
                Stage::FarEnd => return sent.saturating_sub(far),
                Stage::Return => return latency.saturating_sub(sent.max(far)),
                Stage::Waiting | Stage::Request | Stage::Whole => {}
            }
        }
        match (self, row.far_ns, row.latency_ns) {
            (Stage::Waiting, _, Some(latency)) => late.min(latency),
            (Stage::Waiting, _, None) => late,
            (Stage::Request, Some(far), Some(latency)) => far.min(latency).saturating_sub(late),
            (Stage::Request, Some(far), None) => far.saturating_sub(late),
            (Stage::Reply, Some(far), Some(latency)) => latency.saturating_sub(far.max(late)),
            (Stage::Whole, None, Some(latency)) => latency.saturating_sub(late),
            _ => 0,
        }
    }

    /// Whether a message has it.
    fn occurs(self, row: &MessageRow) -> bool {
        match self {
            Stage::Waiting => row.late_ns.is_some(),
            Stage::Request => row.far_ns.is_some(),
            Stage::Reply => row.far_ns.is_some() && row.far_sent_ns.is_none(),
            Stage::FarEnd | Stage::Return => row.far_ns.is_some() && row.far_sent_ns.is_some(),
            Stage::Whole => row.far_ns.is_none(),
        }
    }

    /// The stages that occur in `rows`, in the order of time.
    pub fn of<'a>(rows: impl Iterator<Item = &'a MessageRow> + Clone) -> Vec<Stage> {
        Stage::ALL.into_iter().filter(|stage| rows.clone().any(|row| stage.occurs(row))).collect()
    }
}

/// Part of a message's way in one direction. Where a boundary between two of them cannot be seen, the time of both is
/// charged to the first, and its name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "StageKind")]
pub enum Kind {
    /// Open loop: from the intended send to the actual one.
    Waiting,
    /// Into the send call.
    SendCall,
    /// Send call to driver: the transmit stack.
    Transmit,
    /// The send call has returned, the packet has not left: Nagle, a cork, pacing.
    HeldBack,
    /// Driver, wire or virtual device, until the receive softirq begins.
    Device,
    /// The receive softirq: protocol and socket queue, until the data are readable.
    Softirq,
    /// SIGIO: the data are readable, the signal is not raised.
    Signal,
    /// The data are there and nobody has woken the receiver yet.
    WakeCall,
    /// The receiver is being woken: interrupt to its CPU, exit from idle.
    InFlight,
    /// The receiver is runnable and another task runs.
    Delay,
    /// The receiver has run and sleeps again: the rest of the message is not there.
    Again,
    /// The receiver runs: its receive call returns.
    Return,
    /// SIGIO: from the delivery of the signal to the stamp of the handler.
    Deliver,
    /// The far end's program, from the receive stamp to the send stamp.
    Handler,
}

/// Mean stages of the messages in one band of slowness.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "StageBand")]
pub struct Band {
    /// `p45–55`, `slowest 50`.
    pub name: String,
    /// Number of messages in the band.
    pub messages: u64,
    /// Rounds that contain at least one of them.
    pub bursts: u64,
    /// Enough rounds for the shares to be a claim.
    pub claim: bool,
    /// Mean latency, ns: the sum of the parts.
    pub mean_ns: f64,
    /// Mean time in each stage, ns.
    pub parts_ns: Vec<f64>,
}

/// Where the time of one case goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages {
    /// The stages, in the order of time.
    pub stages: Vec<Stage>,
    /// The bands from usual to slowest, as far as there are messages for them.
    pub bands: Vec<Band>,
    /// Messages of the case that were logged and arrived.
    pub messages: u64,
}

/// Bands of rank, as shares of the messages.
const BANDS: [(f64, f64, &str); 4] =
    [(0.45, 0.55, "p45–55"), (0.85, 0.95, "p85–95"), (0.985, 0.995, "p98.5–99.5"), (0.9985, 0.9995, "p99.85–99.95")];
/// Messages of the last band, where they are less than one in 200.
const SLOWEST: usize = 50;
/// A band of fewer messages is not drawn: it would show single messages.
const FEWEST: usize = 10;

/// The stages of a case by slowness, from the per-message log (`logged`, of all cases).
///
/// # Errors
/// Why it cannot be said, with the command that records what is missing.
pub fn stages(run: &Run, case: &Case, logged: &dyn Messages) -> Result<Stages, String> {
    let left_out = crate::calm::left_out(run, case);
    let walk = |each: &mut dyn FnMut(&MessageRow, u64)| {
        logged.rounds(&|own, pass| own == case.id && !left_out.contains(&pass), &mut |rows| {
            rows.iter().filter_map(|row| Some((row, row.latency_ns?))).for_each(|(row, ns)| each(row, ns));
        });
    };
    let mut latencies = Histogram::new();
    let mut occur = [false; Stage::ALL.len()];
    walk(&mut |row, ns| {
        latencies.record(ns);
        occur.iter_mut().zip(Stage::ALL).for_each(|(occurs, stage)| *occurs |= stage.occurs(row));
    });
    let stages: Vec<Stage> =
        Stage::ALL.into_iter().zip(occur).filter_map(|(stage, occurs)| occurs.then_some(stage)).collect();
    if stages.len() < 2 {
        return Err(missing(run, case, latencies.total() == 0));
    }
    let ranks = ranks(latencies.total() as usize);
    let edges = ranks.iter().flat_map(|(from, to, _)| [*from as u64, *to as u64 - 1]).collect::<Vec<_>>();
    let edges = at_ranks(&latencies, &edges, |each| walk(&mut |_, ns| each(ns)));
    let mut bands: Vec<Sums> = edges.chunks(2).map(|edges| Sums::new(edges[0], edges[1], stages.len())).collect();
    walk(&mut |row, ns| bands.iter_mut().filter(|band| band.holds(ns)).for_each(|band| band.add(&stages, row)));
    let bands = bands.into_iter().zip(ranks).map(|(band, (.., name))| band.finish(name)).collect();
    Ok(Stages { stages, bands, messages: latencies.total() })
}

/// The values at these ranks (from 0), exact: their bins are known from the histogram of all values, and what is in those
/// bins is counted once more, value by value.
fn at_ranks(of: &Histogram, ranks: &[u64], walk: impl Fn(&mut dyn FnMut(u64))) -> Vec<u64> {
    // Each with the first value of its bin, that of the next, and how many values are below.
    let places: Vec<(u64, u64, u64)> = (ranks.iter())
        .map(|rank| {
            let mut below = 0;
            let bin = of.bins().find(|(.., count)| {
                below += count;
                below > *rank
            });
            bin.map_or((1 << 40, u64::MAX, below), |(from, to, count)| (from, to, below - count))
        })
        .collect();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    walk(&mut |value| {
        if places.iter().any(|(from, to, _)| (*from..*to).contains(&value)) {
            *counts.entry(value).or_default() += 1;
        }
    });
    let exact = |(rank, (from, to, below)): (&u64, &(u64, u64, u64))| {
        let mut below = *below;
        let mut values = counts.range(*from..*to);
        let value = values.find(|(_, count)| {
            below += *count;
            below > *rank
        });
        value.map_or(*from, |(value, _)| *value)
    };
    ranks.iter().zip(&places).map(exact).collect()
}

/// The bands of `n` messages that hold enough of them: first rank, last rank plus 1, name.
pub fn ranks(n: usize) -> Vec<(usize, usize, String)> {
    let slowest = SLOWEST.min(n / 200);
    let at = |share: f64| (share * n as f64) as usize;
    let bands = BANDS.iter().map(|(from, to, name)| (at(*from), at(*to), (*name).to_owned()));
    bands.chain([(n - slowest, n, format!("slowest {slowest}"))]).filter(|(from, to, _)| to - from >= FEWEST).collect()
}

/// The messages of a band, added up.
struct Sums {
    edges: (u64, u64),
    messages: u64,
    /// Rounds with a message of the band, and the last of them.
    rounds: (u64, Option<u32>),
    latency_ns: u128,
    parts_ns: Vec<u128>,
}

impl Sums {
    fn new(low_ns: u64, high_ns: u64, stages: usize) -> Self {
        Self { edges: (low_ns, high_ns), messages: 0, rounds: (0, None), latency_ns: 0, parts_ns: vec![0; stages] }
    }

    /// Those at its edges belong to it.
    fn holds(&self, latency_ns: u64) -> bool {
        (self.edges.0..=self.edges.1).contains(&latency_ns)
    }

    /// Messages come round by round.
    fn add(&mut self, stages: &[Stage], row: &MessageRow) {
        self.messages += 1;
        self.latency_ns += u128::from(row.latency_ns.unwrap_or(0));
        self.parts_ns.iter_mut().zip(stages).for_each(|(sum, stage)| *sum += u128::from(stage.ns(row)));
        if self.rounds.1 != Some(row.pass) {
            self.rounds = (self.rounds.0 + 1, Some(row.pass));
        }
    }

    fn finish(self, name: String) -> Band {
        let mean = |sum: u128| sum as f64 / self.messages.max(1) as f64;
        let bursts = self.rounds.0;
        Band {
            name,
            messages: self.messages,
            bursts,
            claim: bursts >= u64::from(MIN_ROUNDS_FOR_CLAIMS),
            mean_ns: mean(self.latency_ns),
            parts_ns: self.parts_ns.into_iter().map(mean).collect(),
        }
    }
}

/// Why there are no stages, and what to type to have them.
fn missing(run: &Run, case: &Case, empty: bool) -> String {
    let plan = &run.header.plan;
    let again = |option: &str| format!("{} {option}", command_again(&run.header.command));
    if let Err(why) = plan.workload.stages {
        return why.into();
    }
    if plan.message_log == 0 {
        return format!("the run kept no messages; without -o message-log=0 it does: {}", again("-o stamps=both"));
    }
    if run.rounds.iter().any(|round| round.case == case.id && round.batch > 1) {
        return "several messages share a pair of clock readings, so no message has stages; -o stamps=both times each of them: "
            .to_owned()
            + &again("-o stamps=both");
    }
    if empty {
        return "no message of this case was logged and arrived".into();
    }
    if plan.stamps == Stamps::Both {
        return if run.header.one_clock() {
            "the far end's stamps could not be matched with the messages (some were lost)".into()
        } else {
            "the two ends have no common clock, and no stamps that bound the difference of theirs".into()
        };
    }
    format!("the far end took no stamps; this command records them: {}", again("-o stamps=both"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use msgpath_record::NO_MESSAGES;
    use proptest::prelude::*;

    /// One message in 50 is slow on its way there, all others spend most of their time at the far end.
    fn rows(n: u64) -> Vec<MessageRow> {
        let row = |at: u64| {
            let slow = at % 50 == 3;
            let far = if slow { 90_000 + at % 7 } else { 3_000 };
            let latency = far + 7_000 + at % 11;
            MessageRow {
                pass: (at * 40 / n) as u32,
                sequence: at,
                start_ns: at * 200_000,
                latency_ns: Some(latency),
                far_ns: Some(far),
                ..MessageRow::default()
            }
        };
        (0..n).map(row).collect()
    }

    #[test]
    fn the_tail_goes_elsewhere_than_the_median() {
        let run = Build::echo(&["tcp:send"], &[64]).run();
        let found = stages(&run, &run.header.plan.cases[0], &rows(20_000)).unwrap();
        assert_eq!((found.stages.as_slice(), found.messages), ([Stage::Request, Stage::Reply].as_slice(), 20_000));
        let names: Vec<_> = found.bands.iter().map(|band| band.name.as_str()).collect();
        assert_eq!(names, ["p45–55", "p85–95", "p98.5–99.5", "p99.85–99.95", "slowest 50"]);
        let share = |at: usize| found.bands[at].parts_ns[0] / found.bands[at].mean_ns;
        assert!((share(0) - 0.3).abs() < 0.01 && share(2) > 0.9 && share(4) > 0.9, "{found:?}");
        assert!(found.bands.iter().all(|band| band.claim));
        // Ties at the border of a band belong to it.
        assert!(found.bands[0].messages >= 2_000);
    }

    #[test]
    fn a_band_within_few_rounds_is_no_claim_and_small_bands_are_left_out() {
        let run = Build::echo(&["tcp:send"], &[64]).run();
        let mut few = rows(2_000);
        few.iter_mut().for_each(|row| row.pass = if row.latency_ns > Some(50_000) { 1 } else { row.pass });
        let found = stages(&run, &run.header.plan.cases[0], &few).unwrap();
        assert_eq!(found.bands.iter().map(|band| band.claim).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!((found.bands[2].bursts, found.bands[3].name.as_str()), (1, "slowest 10"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_command() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        let case = run.header.plan.cases[0].clone();
        run.header.command = ["msgpath", "echo"].map(String::from).to_vec();
        run.header.plan.message_log = 100;
        let mut near_only = rows(1_000);
        near_only.iter_mut().for_each(|row| row.far_ns = None);
        let why = stages(&run, &case, &near_only).unwrap_err();
        assert!(why.ends_with("msgpath echo -o stamps=both"), "{why}");
        assert!(stages(&run, &case, &NO_MESSAGES).unwrap_err().contains("no message"));
        run.header.plan.message_log = 0;
        assert!(stages(&run, &case, &NO_MESSAGES).unwrap_err().contains("message-log=0"));
        // An open loop knows how long a message waited, stamps or not.
        near_only.iter_mut().for_each(|row| row.late_ns = Some(1_000));
        assert_eq!(stages(&run, &case, &near_only).unwrap().stages, [Stage::Waiting, Stage::Whole]);
    }

    proptest! {
        #[test]
        fn ranks_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(prop_oneof![0_u64..50, 20_000_u64..21_000, 0_u64..1 << 45], 1..300),
            of in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            let ranks: Vec<u64> = of.iter().map(|rank| rank.index(values.len()) as u64).collect();
            let found = at_ranks(&histogram, &ranks, |each| values.iter().for_each(|value| each(*value)));
            values.sort_unstable();
            let sorted: Vec<u64> = ranks.iter().map(|rank| values[*rank as usize]).collect();
            prop_assert_eq!(found, sorted);
        }

        #[test]
        fn the_stages_of_a_message_add_up(
            latency in 0_u64..1 << 40,
            late in prop::option::of(0_u64..1 << 40),
            far in prop::option::of(0_u64..1 << 40),
            served in prop::option::of(0_u64..1 << 40),
        ) {
            // An arrival lies between the send and the reply; the recorder sees to it.
            let late = late.map(|ns| ns.min(latency));
            let far = far.map(|ns| ns.clamp(late.unwrap_or(0), latency));
            let far_sent_ns = far.zip(served).map(|(far, served)| (far + served).min(latency));
            let (latency_ns, late_ns, far_ns) = (Some(latency), late, far);
            let row = MessageRow { latency_ns, late_ns, far_ns, far_sent_ns, ..MessageRow::default() };
            prop_assert_eq!(Stage::ALL.iter().map(|stage| stage.ns(&row)).sum::<u64>(), latency);
        }
    }
}
