//! What a load adds to the time of a message, and where that time stands (docs/method/loaded.md).

use std::borrow::Cow;
use std::collections::BTreeMap;

use msgpath_analyse::Summary;
use msgpath_analyse::series::series;
use msgpath_core::explained;
use msgpath_core::explained::Explained;
use msgpath_core::histogram::SparseHistogram;
use msgpath_core::plan::Metric;
use msgpath_core::schema::{NEAR, RoundRecord};
use msgpath_record::Run;
use msgpath_stats::describe::{mean, median};
use msgpath_stats::estimate::{Estimate, jackknife, log_estimate, mean_estimate};
use msgpath_stats::paired::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{At, Direction, LoadFacts, LoadedRound, Probe, QueueLog};

/// Queueing disciplines in which a message does not wait behind those of other connections.
const FAIR: [&str; 5] = ["fq_codel", "fq", "cake", "sfq", "fq_pie"];
/// The part of the fastest round trips of which a trimmed mean is made.
const TRIMMED: f64 = 0.95;
/// Fewer samples of a round say too little of its queue.
const FEWEST_SAMPLES: usize = 10;

/// Latency under load.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = explained::schema)]
pub struct LoadedSummary {
    /// The load.
    pub load: LoadFacts,
    /// The idle case.
    pub idle: Option<u32>,
    /// Round trips a minute without load.
    pub idle_per_minute: Option<Estimate>,
    /// No link is between the ends: what they share is CPUs and caches.
    pub no_link: bool,
    /// Each direction of the load.
    pub directions: Vec<UnderLoad>,
}

impl Explained for LoadedSummary {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        let part = path.split('.').rfind(|part| !["value", "low", "high"].contains(part)).unwrap_or_default();
        match part {
            _ if path.ends_with(".low") || path.ends_with(".high") => "too few rounds for an interval",
            "rate_bits" => "as much as passes",
            "marks" => "its queueing disciplines do not mark",
            "device_bytes" => "the device has no byte queue limits, or sysfs shows another network namespace",
            "unsent_bytes" | "unacknowledged_bytes" | "rtt_ns" => "no TCP socket of the load was found there",
            "beyond_ns" | "shares" => {
                "the queue of an end that sends was not read, or these queues surely hold more than is added: the parts cannot be told apart"
            }
            "excess_ns" => "the queues hold no more than is added, within the margin",
            "connect_ns" | "request_ns" | "foreign_rpm" if path.contains("responsiveness") => {
                "new connections were not probed, or more than a twentieth of them had no reply in time"
            }
            "round_trip_ns" | "loaded_rpm" => "no TCP socket of the load was read at an end that sends",
            "rpm" => "it needs both of its parts",
            "per_minute" | "idle_per_minute" => "messages were lost, or none came",
            "added_ns" | "connect_ns" | "idle" => "no round was recorded",
            _ => "the queues of this end were not read, or the kernel does not tell",
        }
        .into()
    }
}

explained!(read LoadedSummary);

/// One direction of the load.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct UnderLoad {
    /// Id of the case.
    pub case: u32,
    /// Where the load goes.
    pub direction: Direction,
    /// Median under load less that of the idle round of the same pass, mean over passes, ns.
    pub added_ns: Option<Estimate>,
    /// Round trips a minute: of the mean of the fastest 95 % of each round.
    pub per_minute: Option<Estimate>,
    /// Time to connect under load, median over rounds, ns.
    pub connect_ns: Option<f64>,
    /// Responsiveness as the draft of the IETF has it, without TLS.
    #[serde(default)]
    pub responsiveness: Responsiveness,
    /// Bits a second that passed the near device in this direction, with the headers of the link and those of the messages.
    pub load_bits: Option<Estimate>,
    /// Rounds of which queues were read.
    pub read: u64,
    /// Those of them that began before the load was steady.
    pub unsteady: u64,
    /// The queues of the ends that send.
    pub queues: Vec<EndQueue>,
    /// What is added and does not stand in these queues, ns: 0 at least.
    pub beyond_ns: Option<Estimate>,
    /// What is added, by where it stands: parts of it, which sum to all of it.
    #[serde(default)]
    pub shares: Option<Vec<Share>>,
    /// What these queues hold more than is added, where that is sure, ns: then the parts cannot be told apart.
    #[serde(default)]
    pub excess_ns: Option<Estimate>,
}

/// A part of what is added.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Share {
    /// `queue`: that of the device of an end; `beyond`: devices, modems, routers, the other end.
    pub place: String,
    /// The end whose queue it is: `client`, `server`; empty: none.
    pub end: String,
    /// Of the mean over passes, ns.
    pub ns: f64,
    /// Of what is added: 0 to 1.
    pub share: f64,
}

/// Responsiveness under working conditions, in round trips a minute (RPM): `draft-ietf-ippm-responsiveness` for TCP without TLS
/// (docs/method/loaded.md#rpm).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Responsiveness {
    /// Mean of the two below.
    pub rpm: Option<Estimate>,
    /// Of new connections: a minute by the mean of `connect_ns` and `request_ns`.
    pub foreign_rpm: Option<Estimate>,
    /// Of the connections of the load: a minute by `round_trip_ns`.
    pub loaded_rpm: Option<Estimate>,
    /// Time to connect, of new connections: mean of the fastest 95 %, ns (`tcp_f`).
    pub connect_ns: Option<Estimate>,
    /// From then until the reply to a request, the same, ns (`http_f`).
    pub request_ns: Option<Estimate>,
    /// Round trip of the load as its kernel sees it, the same, ns: in place of requests on its connections (`http_l`).
    pub round_trip_ns: Option<Estimate>,
    /// New connections that were begun in the rounds.
    pub probes: u64,
    /// Those of them that had no reply 0.5 s after their round.
    pub unanswered: u64,
}

/// What stands at an end that sends the load.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct EndQueue {
    /// `client`, `server`.
    pub end: String,
    /// The device that leads to the other end.
    pub device: Option<String>,
    /// Its queueing disciplines, the root first.
    pub qdiscs: Vec<String>,
    /// They keep the connections apart: a message does not wait behind those of others.
    pub fair: bool,
    /// Bytes that wait in them, with the headers of the link.
    pub queued_bytes: Option<Estimate>,
    /// Packets that wait in them.
    pub queued_packets: Option<Estimate>,
    /// Bits a second that left them while something waited there.
    pub left_bits: Option<Estimate>,
    /// How long a message of the echo waits there: bytes by that rate, the median over the times at which messages come, ns. Where both
    /// ends send, the part of this one of the median of both together.
    pub queue_ns: Option<Estimate>,
    /// Packets dropped in all rounds.
    pub drops: Option<u64>,
    /// Packets marked in all rounds (ECN).
    pub marks: Option<u64>,
    /// Bytes that the device has taken and not sent (BQL).
    pub device_bytes: Option<Estimate>,
    /// Bytes of the load in its sockets that have not left them: they delay the load itself.
    pub unsent_bytes: Option<Estimate>,
    /// Bytes of the load that the other end has not acknowledged.
    pub unacknowledged_bytes: Option<Estimate>,
    /// Round trip of the load as the kernel sees it, ns.
    pub rtt_ns: Option<Estimate>,
}

impl UnderLoad {
    /// The queue in which most of the added time stands; `None`: in none of them is half of it.
    pub fn stands(&self) -> Option<&EndQueue> {
        let added = self.added_ns.as_ref()?.value;
        let queued = |queue: &EndQueue| queue.queue_ns.as_ref().filter(|_| !queue.fair).map_or(0.0, |ns| ns.value);
        let most = self.queues.iter().max_by(|a, b| queued(a).total_cmp(&queued(b)))?;
        (added > 0.0 && queued(most) >= 0.5 * added).then_some(most)
    }

    /// Whether the load surely adds something.
    pub fn adds(&self) -> bool {
        self.added_ns.as_ref().is_some_and(|added| added.low.is_some_and(|low| low > 0.0))
    }
}

/// The name of an end, for people.
pub fn end_name(end: usize) -> &'static str {
    if end == NEAR { "client" } else { "server" }
}

/// All of it.
pub fn summarise(run: &Run, facts: &LoadFacts, read: &[LoadedRound], summary: &Summary) -> LoadedSummary {
    let plan = &run.header.plan;
    let of_case = |id: u32| run.rounds.iter().filter(|round| round.case == id).collect::<Vec<&RoundRecord>>();
    let idle = plan.cases.iter().find(|case| Direction::of(case.label.as_deref()).is_none()).map(|case| case.id);
    let idle_rounds = idle.map(of_case).unwrap_or_default();
    let medians = series(plan, Metric::P50, &idle_rounds);
    let closed = !plan.has_schedules();
    let directions = plan.cases.iter().filter_map(|case| {
        let direction = Direction::of(case.label.as_deref())?;
        let rounds = of_case(case.id);
        let start = |pass: u32| rounds.iter().find(|round| round.pass == pass).map(|round| round.start_ns);
        let own: BTreeMap<u32, LoadedRound> = read
            .iter()
            .filter(|round| round.case == case.id)
            .map(|round| (round.pass, meanwhile(round, start(round.pass))))
            .collect();
        let connect = summary.cases.iter().find(|one| one.case.id == case.id).and_then(|one| one.transit.connect_ns);
        let added = added(&medians, &series(plan, Metric::P50, &rounds));
        let queues: Vec<EndQueue> =
            direction.senders().iter().map(|end| end_queue(*end, direction, &own, (&medians, closed))).collect();
        let standing = added.iter().filter_map(|(pass, ns)| {
            let idle = (*medians.get(pass)?, closed);
            Some((*ns, waits(direction, own.get(pass)?, idle)?))
        });
        let stands = Stands::of(direction, &standing.collect::<Vec<_>>());
        let probed: Vec<&LoadedRound> = read.iter().filter(|round| round.case == case.id).collect();
        Some(UnderLoad {
            case: case.id,
            direction,
            added_ns: mean_estimate(&added.values().copied().collect::<Vec<f64>>()),
            per_minute: per_minute(&rounds),
            connect_ns: connect,
            responsiveness: responsiveness(direction, &probed),
            load_bits: over(&own, |round| through(round.ends[NEAR].as_ref()?, direction)),
            read: own.len() as u64,
            unsteady: own.values().filter(|round| !round.steady).count() as u64,
            beyond_ns: stands.beyond_ns,
            shares: stands.shares,
            excess_ns: stands.excess_ns,
            queues,
        })
    });
    let on_loopback =
        |round: &LoadedRound| round.ends[NEAR].as_ref().and_then(|log| log.device.as_deref()) == Some("lo");
    LoadedSummary {
        load: facts.clone(),
        idle,
        idle_per_minute: per_minute(&idle_rounds),
        no_link: facts.shared_machine || read.iter().any(on_loopback),
        directions: directions.collect(),
    }
}

/// What was read while the round lasted, which began then, ns since the start of the run: connecting comes before. All of it where too
/// little is left.
fn meanwhile(read: &LoadedRound, start_ns: Option<u64>) -> LoadedRound {
    let mut round = read.clone();
    let Some(before) = start_ns.zip(read.from_ns).map(|(start, from)| start.saturating_sub(from)) else { return round };
    for log in round.ends.iter_mut().flatten() {
        let from = log.samples.first().map_or(0, |at| at.t_ns) + before;
        let first = log.samples.partition_point(|at| at.t_ns < from);
        if log.samples.len() - first >= FEWEST_SAMPLES {
            log.samples.drain(..first);
        }
    }
    round
}

/// What is added, by where it stands.
#[derive(Debug, Default, PartialEq)]
struct Stands {
    beyond_ns: Option<Estimate>,
    shares: Option<Vec<Share>>,
    excess_ns: Option<Estimate>,
}

impl Stands {
    /// Of passes: what is added, and how long a message waits at each of the ends that send, ns. Queues that hold more than is added, and
    /// not surely more, hold all of it.
    fn of(direction: Direction, passes: &[(f64, Vec<f64>)]) -> Self {
        let over = |(added, waits): &(f64, Vec<f64>)| added - waits.iter().sum::<f64>();
        let Some(beyond) = mean_estimate(&passes.iter().map(over).collect::<Vec<f64>>()) else {
            return Self::default();
        };
        if beyond.high.is_some_and(|high| high < 0.0) {
            let turned = |value: Option<f64>| value.map(|value| -value);
            let excess = Estimate { value: -beyond.value, low: turned(beyond.high), high: turned(beyond.low) };
            return Self { excess_ns: Some(excess), ..Self::default() };
        }
        let added = mean(&passes.iter().map(|(added, _)| *added).collect::<Vec<f64>>());
        let at = |end: usize| mean(&passes.iter().map(|(_, waits)| waits[end]).collect::<Vec<f64>>());
        let queued: Vec<f64> = (0..direction.senders().len()).map(at).collect();
        let sum: f64 = queued.iter().sum();
        let fits = if sum > added { added.max(0.0) / sum } else { 1.0 };
        let part =
            |place: &str, end: &str, ns: f64| Share { place: place.into(), end: end.into(), ns, share: ns / added };
        let mut shares: Vec<Share> =
            direction.senders().iter().zip(&queued).map(|(end, ns)| part("queue", end_name(*end), ns * fits)).collect();
        shares.push(part("beyond", "", (added - sum).max(0.0)));
        let least = |value: f64| value.max(0.0);
        Self {
            beyond_ns: Some(Estimate {
                value: least(beyond.value),
                low: beyond.low.map(least),
                high: beyond.high.map(least),
            }),
            // Of nothing there are no parts.
            shares: (added > 0.0).then_some(shares),
            excess_ns: None,
        }
    }
}

/// What is added in each pass that has both, ns.
fn added(idle: &Series, loaded: &Series) -> Series {
    loaded.iter().filter_map(|(pass, ns)| Some((*pass, ns - idle.get(pass)?))).collect()
}

/// The mean of a value over rounds; `None`: no round has it.
fn over(rounds: &BTreeMap<u32, LoadedRound>, value: impl Fn(&LoadedRound) -> Option<f64>) -> Option<Estimate> {
    mean_estimate(&rounds.values().filter_map(value).collect::<Vec<f64>>())
}

/// Round trips a minute, from the trimmed mean of each round.
fn per_minute(rounds: &[&RoundRecord]) -> Option<Estimate> {
    let each: Vec<f64> = rounds.iter().filter_map(|round| trimmed_mean(&round.latency)).map(|ns| 60e9 / ns).collect();
    log_estimate(&each)
}

/// The mean of the fastest 95 % of a round, ns; `None`: more than the others were lost, or there are none.
fn trimmed_mean(latency: &SparseHistogram) -> Option<f64> {
    let all = latency.total();
    let kept = (TRIMMED * all as f64).round().max(1.0) as u64;
    if all - latency.lost() < kept {
        return None;
    }
    let (mut left, mut sum) = (kept, 0.0);
    for (from, to, count) in latency.ranges() {
        let taken = count.min(left);
        sum += taken as f64 * (from as f64 + to as f64) / 2.0;
        left -= taken;
    }
    (left == 0).then(|| sum / kept as f64)
}

/// The mean of the fastest 95 % of these times, ns; `None`: more than the others have none, or there are none.
fn trimmed(times: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    let mut times: Vec<u64> = times.map(|time| time.unwrap_or(u64::MAX)).collect();
    times.sort_unstable();
    times.truncate((TRIMMED * times.len() as f64).round().max(1.0) as usize);
    let slowest = times.last()?;
    (*slowest < u64::MAX).then(|| mean(&times.iter().map(|ns| *ns as f64).collect::<Vec<f64>>()))
}

/// RPM of the rounds of a direction, without TLS.
fn responsiveness(direction: Direction, rounds: &[&LoadedRound]) -> Responsiveness {
    let probes = |rounds: &[&LoadedRound], of: fn(&Probe) -> Option<u64>| {
        trimmed(rounds.iter().flat_map(|round| round.probes.iter().flatten()).map(of))
    };
    let connect = |rounds: &[&LoadedRound]| probes(rounds, |probe| probe.connect_ns);
    let request = |rounds: &[&LoadedRound]| probes(rounds, |probe| probe.reply_ns);
    let round_trip = |rounds: &[&LoadedRound]| {
        let logs =
            rounds.iter().flat_map(|round| direction.senders().iter().filter_map(move |end| round.ends[*end].as_ref()));
        let known = logs.flat_map(|log| &log.samples).filter_map(|at| at.rtt_ns).filter(|ns| *ns > 0);
        trimmed(known.map(Some))
    };
    let foreign = |rounds: &[&LoadedRound]| Some(60e9 / ((connect(rounds)? + request(rounds)?) / 2.0));
    let loaded = |rounds: &[&LoadedRound]| Some(60e9 / round_trip(rounds)?);
    let rpm = |rounds: &[&LoadedRound]| Some((foreign(rounds)? + loaded(rounds)?) / 2.0);
    let all = || rounds.iter().flat_map(|round| round.probes.iter().flatten());
    Responsiveness {
        rpm: jackknife(rounds, rpm),
        foreign_rpm: jackknife(rounds, foreign),
        loaded_rpm: jackknife(rounds, loaded),
        connect_ns: jackknife(rounds, connect),
        request_ns: jackknife(rounds, request),
        round_trip_ns: jackknife(rounds, round_trip),
        probes: all().count() as u64,
        unanswered: all().filter(|probe| probe.reply_ns.is_none()).count() as u64,
    }
}

/// The mean of a value over the samples of a round; `None`: it was not known.
fn sampled(log: &QueueLog, of: fn(&At) -> Option<u64>) -> Option<f64> {
    let values: Vec<f64> = log.samples.iter().filter_map(of).map(|value| value as f64).collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// How much a counter grew in a round, with the time, ns.
fn grown(log: &QueueLog, of: fn(&At) -> Option<u64>) -> Option<(u64, u64)> {
    let (first, last) = (log.samples.first()?, log.samples.last()?);
    let ns = last.t_ns.checked_sub(first.t_ns).filter(|ns| *ns > 0)?;
    Some((of(last)?.saturating_sub(of(first)?), ns))
}

/// Bits a second by a counter of bytes.
fn bits(log: &QueueLog, of: fn(&At) -> Option<u64>) -> Option<f64> {
    grown(log, of).map(|(bytes, ns)| 8e9 * bytes as f64 / ns as f64)
}

/// Bits a second that passed a near device in a direction.
fn through(log: &QueueLog, direction: Direction) -> Option<f64> {
    let (received, sent) = (bits(log, |at| at.received), bits(log, |at| at.sent));
    match direction {
        Direction::Down => received,
        Direction::Up => sent,
        Direction::Both => Some(received? + sent?),
    }
}

/// Bits a second that left while something waited: a queue that was empty meanwhile would have taken more. The mean of the round where
/// nothing waited from one sample to the next.
fn drain_bits(log: &QueueLog) -> Option<f64> {
    let (mut bytes, mut ns) = (0, 0);
    for pair in log.samples.windows(2) {
        let [before, after] = pair else { continue };
        if let (Some(1..), Some(1..)) = (before.backlog_bytes, after.backlog_bytes)
            && let Some((from, to)) = before.left_bytes.zip(after.left_bytes)
        {
            bytes += to.saturating_sub(from);
            ns += after.t_ns.saturating_sub(before.t_ns);
        }
    }
    let standing = (ns > 0 && bytes > 0).then(|| 8e9 * bytes as f64 / ns as f64);
    standing.or_else(|| bits(log, |at| at.left_bytes).filter(|bits| *bits > 0.0))
}

/// When, since an end began to read, a message that comes would wait so long in its queues, ns: what stands there by the rate at which it
/// leaves.
fn queued(log: &QueueLog) -> Option<Vec<(u64, f64)>> {
    let begin = log.samples.first()?.t_ns;
    let bytes: Vec<(u64, u64)> =
        log.samples.iter().filter_map(|at| Some((at.t_ns.saturating_sub(begin), at.backlog_bytes?))).collect();
    if bytes.is_empty() || bytes.iter().all(|(_, bytes)| *bytes == 0) {
        return (!bytes.is_empty()).then(|| bytes.iter().map(|(t_ns, _)| (*t_ns, 0.0)).collect());
    }
    let rate = drain_bits(log)?;
    Some(bytes.into_iter().map(|(t_ns, bytes)| (t_ns, 8e9 * bytes as f64 / rate)).collect())
}

/// How long a message of the echo waits in all of these queues, and which part of that in each, ns: the median of what stands in them
/// together. A message that waits for its answer comes 1 / (idle + queues) times a second, so what stands is weighed by that in a closed
/// loop; by a schedule messages come at any moment (docs/method/loaded.md#where-it-stands).
fn together(queues: &[Vec<(u64, f64)>], (idle_ns, closed): (f64, bool)) -> Option<Vec<f64>> {
    let at = |queue: &[(u64, f64)], t_ns: u64| {
        let after = queue.partition_point(|(other, _)| *other <= t_ns);
        queue.get(after.saturating_sub(1)).map(|(_, wait)| *wait)
    };
    // One that is fair has one moment.
    let longest = queues.iter().max_by_key(|queue| queue.len())?;
    let mut moments = Vec::with_capacity(longest.len());
    for (t_ns, _) in longest {
        let each = queues.iter().map(|queue| at(queue, *t_ns)).collect::<Option<Vec<f64>>>()?;
        moments.push((each.iter().sum::<f64>(), each));
    }
    moments.sort_by(|a, b| a.0.total_cmp(&b.0));
    let weight = |all: f64| if closed { 1.0 / (all + idle_ns).max(1.0) } else { 1.0 };
    let half = moments.iter().map(|(all, _)| weight(*all)).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let (middle, _) = moments.iter().find(|(all, _)| {
        below += weight(*all);
        below >= half
    })?;
    let mut parts = vec![0.0; queues.len()];
    for (all, each) in &moments {
        parts.iter_mut().zip(each).for_each(|(part, wait)| *part += weight(*all) * wait);
    }
    let sum: f64 = parts.iter().sum();
    Some(parts.into_iter().map(|part| if sum > 0.0 { middle * part / sum } else { 0.0 }).collect())
}

fn is_fair(kinds: &[String]) -> bool {
    kinds.iter().any(|kind| FAIR.contains(&kind.as_str()))
}

/// What a message waited at each of the senders of a round, ns; `None`: nobody knows of one of them.
fn waits(direction: Direction, round: &LoadedRound, idle: (f64, bool)) -> Option<Vec<f64>> {
    let of_end = |end: &usize| {
        let log = round.ends[*end].as_ref()?;
        // It does not wait behind the load.
        if is_fair(&log.kinds) { Some(vec![(0, 0.0)]) } else { queued(log) }
    };
    together(&direction.senders().iter().map(of_end).collect::<Option<Vec<_>>>()?, idle)
}

/// What a message waits in the queues of an end, ns; of fair ones, what it would wait if it did.
fn wait_of(end: usize, direction: Direction, round: &LoadedRound, idle: (f64, bool)) -> Option<f64> {
    let log = round.ends[end].as_ref()?;
    let at = direction.senders().iter().position(|sender| *sender == end);
    let both = at.filter(|_| !is_fair(&log.kinds)).and_then(|at| Some(waits(direction, round, idle)?[at]));
    both.or_else(|| together(&[queued(log)?], idle)?.first().copied())
}

fn end_queue(
    end: usize,
    direction: Direction,
    rounds: &BTreeMap<u32, LoadedRound>,
    (idle, closed): (&Series, bool),
) -> EndQueue {
    let logs = || rounds.values().filter_map(|round| round.ends[end].as_ref());
    let Some(last) = logs().next_back() else { return EndQueue { end: end_name(end).into(), ..EndQueue::default() } };
    let mean_of = |of: fn(&At) -> Option<u64>| over(rounds, |round| sampled(round.ends[end].as_ref()?, of));
    let sum_of = |of: fn(&At) -> Option<u64>| logs().filter_map(|log| Some(grown(log, of)?.0)).reduce(|a, b| a + b);
    EndQueue {
        end: end_name(end).into(),
        device: last.device.clone(),
        qdiscs: last.kinds.clone(),
        fair: is_fair(&last.kinds),
        queued_bytes: mean_of(|at| at.backlog_bytes),
        queued_packets: mean_of(|at| at.backlog_packets),
        left_bits: over(rounds, |round| drain_bits(round.ends[end].as_ref()?)),
        queue_ns: over(rounds, |round| wait_of(end, direction, round, (*idle.get(&round.pass)?, closed))),
        drops: sum_of(|at| at.drops),
        marks: sum_of(|at| at.marks),
        device_bytes: mean_of(|at| at.device_bytes),
        unsent_bytes: mean_of(|at| at.unsent_bytes),
        unacknowledged_bytes: mean_of(|at| at.unacknowledged_bytes),
        rtt_ns: mean_of(|at| at.rtt_ns),
    }
}

/// The queue of the ends that send over the time of the round of a case whose median is that of the case: for a picture.
pub fn typical<'a>(run: &Run, read: &'a [LoadedRound], case: u32) -> Option<&'a LoadedRound> {
    let own: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case).collect();
    let medians = series(&run.header.plan, Metric::P50, &own);
    let middle = median(&medians.values().copied().collect::<Vec<f64>>());
    let far = |round: &&LoadedRound| (medians.get(&round.pass).copied().unwrap_or(f64::MAX) - middle).abs();
    read.iter().filter(|round| round.case == case).min_by(|a, b| far(a).total_cmp(&far(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MS};

    #[test]
    fn the_time_that_is_added_stands_in_a_queue_of_known_length() {
        // 100 packets of 1514 bytes at 10 Mbit/s: 121.12 ms.
        let loaded = Bed { queue_bytes: 151_400, rate_bits: 10e6, added_ns: 121.12 * MS, ..Bed::default() }.summary();
        let down = &loaded.directions[0];
        assert_eq!((down.direction, down.read, down.unsteady), (Direction::Down, 10, 0));
        let added = down.added_ns.as_ref().unwrap().value;
        assert!((added / (121.12 * MS) - 1.0).abs() < 0.05, "{added}");
        let queue = down.stands().unwrap();
        assert!((queue.queue_ns.as_ref().unwrap().value / (121.12 * MS) - 1.0).abs() < 0.01, "{queue:?}");
        assert!(down.adds() && queue.end == "server" && queue.drops == Some(90), "{queue:?}");
        assert!(down.beyond_ns.as_ref().unwrap().value.abs() < 5.0 * MS);
        assert!((down.load_bits.as_ref().unwrap().value / 10e6 - 1.0).abs() < 0.01);
        let per_minute = down.per_minute.as_ref().unwrap().value;
        assert!((per_minute / (60e9 / (121.12 * MS)) - 1.0).abs() < 0.06, "{per_minute}");
        assert!(loaded.idle_per_minute.unwrap().value > 100.0 * per_minute && !loaded.no_link);
    }

    #[test]
    fn a_queue_is_weighed_by_the_messages_that_meet_it() {
        // 1.25 MB a second leave. Half of the time 10 ms stand, half 30 ms; 1/11 of a message a ms meets the first, 1/31 the other.
        let at = |n: u64| At {
            t_ns: 1 + n * 10_000_000,
            backlog_bytes: Some(if n.is_multiple_of(2) { 12_500 } else { 37_500 }),
            left_bytes: Some(12_500 * n),
            ..At::default()
        };
        let mut log = QueueLog { samples: (0..100).map(at).collect(), ..QueueLog::default() };
        let queue_ns = |log: &QueueLog, idle| together(&[queued(log)?], idle).map(|each| each[0]);
        assert!((queue_ns(&log, (MS, true)).unwrap() / MS - 10.0).abs() < 1e-6);
        // Four times as long it is the longer one that most meet.
        log.samples.iter_mut().filter(|at| at.t_ns % 50_000_000 != 1).for_each(|at| at.backlog_bytes = Some(37_500));
        assert!((queue_ns(&log, (MS, true)).unwrap() / MS - 30.0).abs() < 1e-6);
        // Every third is short: most messages of a closed loop meet those, and most that come at any moment the others.
        for (n, at) in log.samples.iter_mut().enumerate() {
            at.backlog_bytes = Some(if n.is_multiple_of(3) { 12_500 } else { 37_500 });
        }
        assert!((queue_ns(&log, (MS, true)).unwrap() / MS - 10.0).abs() < 1e-6);
        assert!((queue_ns(&log, (MS, false)).unwrap() / MS - 30.0).abs() < 1e-6);
        log.samples.iter_mut().for_each(|at| at.backlog_bytes = Some(0));
        assert_eq!((queue_ns(&log, (MS, true)), queue_ns(&QueueLog::default(), (MS, true))), (Some(0.0), None));
    }

    /// As a TCP load did on a link of 10 Mbit/s: for half of the round it waited for a timeout, and nothing stood or left.
    #[test]
    fn the_rate_is_that_while_something_stands() {
        let at = |n: u64| At {
            t_ns: 1 + n * 10_000_000,
            backlog_bytes: Some(if n < 50 { 0 } else { 125_000 }),
            left_bytes: Some(12_500 * n.saturating_sub(50)),
            ..At::default()
        };
        let log = QueueLog { samples: (0..100).map(at).collect(), ..QueueLog::default() };
        let all = bits(&log, |at| at.left_bytes).unwrap();
        assert!((all / 4.95e6 - 1.0).abs() < 0.01, "half of the round by the mean of it: {all}");
        assert!((drain_bits(&log).unwrap() / 10e6 - 1.0).abs() < 1e-9);
        let waits = queued(&log).unwrap();
        assert_eq!(waits.iter().filter(|(_, ns)| (ns / MS - 100.0).abs() < 1e-6).count(), 50, "{waits:?}");
        // Of a queue that nothing stood in, the rate is that of the round.
        let empty = |at: &At| At { backlog_bytes: Some(0), left_bytes: Some(at.t_ns), ..*at };
        let log = QueueLog { samples: log.samples.iter().map(empty).collect(), ..log };
        assert!((drain_bits(&log).unwrap() / 8e9 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn two_queues_are_weighed_by_both() {
        // One is long while the other is short: 10 + 30 or 30 + 30 ms. Of the first moments there are as many as of the second.
        let queue = |even: f64, odd: f64| -> Vec<(u64, f64)> {
            (0..100).map(|n: u64| (n * 10_000_000, MS * if n.is_multiple_of(2) { even } else { odd })).collect()
        };
        let each = together(&[queue(10.0, 30.0), queue(30.0, 30.0)], (MS, true)).unwrap();
        assert!((each.iter().sum::<f64>() / MS - 40.0).abs() < 1e-6, "{each:?}");
        // 1/41 of a message a ms meets 10 and 30, 1/61 meets 30 and 30.
        let near = (10.0 / 41.0 + 30.0 / 61.0) / (40.0 / 41.0 + 60.0 / 61.0);
        assert!((each[0] / MS - 40.0 * near).abs() < 1e-6, "{each:?}");
        let fair = together(&[vec![(0, 0.0)], queue(20.0, 20.0)], (MS, true)).unwrap();
        assert!(fair[0] == 0.0 && (fair[1] / MS - 20.0).abs() < 1e-6, "{fair:?}");
        assert_eq!(together(&[Vec::new(), queue(1.0, 1.0)], (MS, true)), None);
    }

    #[test]
    fn parts_sum_to_what_is_added_and_none_is_below_0() {
        let passes = |queues: &[f64], added: &[f64]| -> Vec<(f64, Vec<f64>)> {
            added.iter().zip(queues).map(|(added, queue)| (added * MS, vec![queue * MS])).collect()
        };
        let of = |queues: &[f64], added: &[f64]| Stands::of(Direction::Up, &passes(queues, added));
        let sum = |stands: &Stands| stands.shares.as_ref().unwrap().iter().map(|share| share.share).sum::<f64>();
        // Most stands in the queue.
        let most = of(&[90.0, 88.0, 92.0, 90.0, 90.0], &[100.0, 101.0, 99.0, 100.0, 100.0]);
        let shares = most.shares.as_ref().unwrap();
        assert_eq!(
            (shares[0].place.as_str(), shares[0].end.as_str(), shares[1].place.as_str()),
            ("queue", "client", "beyond")
        );
        assert!((shares[0].share - 0.9).abs() < 1e-9 && (sum(&most) - 1.0).abs() < 1e-9, "{most:?}");
        assert!((most.beyond_ns.as_ref().unwrap().value / MS - 10.0).abs() < 1e-6);
        // A little more than all of it, within the margin: all of it.
        let within = of(&[130.0, 90.0, 110.0, 70.0, 130.0], &[100.0; 5]);
        let shares = within.shares.as_ref().unwrap();
        assert!((shares[0].share - 1.0).abs() < 1e-9 && shares[1].ns == 0.0, "{within:?}");
        let beyond = within.beyond_ns.as_ref().unwrap();
        assert!(beyond.value == 0.0 && beyond.low == Some(0.0) && beyond.high.unwrap() > 0.0, "{beyond:?}");
        // Surely more, by 211 ms: nobody can say what stands where.
        let more = of(&[311.0, 309.0, 311.0, 312.0, 312.0], &[100.0; 5]);
        let excess = more.excess_ns.as_ref().unwrap();
        assert!((excess.value / MS - 211.0).abs() < 1.0 && excess.low.unwrap() > 0.0, "{excess:?}");
        assert_eq!((&more.shares, &more.beyond_ns), (&None, &None));
        // Nothing is added: there are no parts of it.
        let nothing = of(&[0.0; 5], &[0.0, -1.0, 0.5, -0.5, 0.0]);
        assert!(nothing.shares.is_none() && nothing.excess_ns.is_none() && nothing.beyond_ns.is_some(), "{nothing:?}");
        assert_eq!(of(&[], &[]), Stands::default());
    }

    #[test]
    fn what_was_read_before_the_round_is_not_of_it() {
        let at = |n: u64| At { t_ns: 500 + n, backlog_bytes: Some(n), ..At::default() };
        let log = QueueLog { samples: (0..40).map(at).collect(), ..QueueLog::default() };
        let round = LoadedRound { from_ns: Some(1_000), ends: [Some(log), None], ..LoadedRound::default() };
        let first = |start| meanwhile(&round, start).ends[NEAR].as_ref().unwrap().samples[0].t_ns;
        // 20 ns after the first sample the round began.
        assert_eq!((first(Some(1_020)), first(Some(900)), first(None)), (520, 500, 500));
        assert_eq!(first(Some(1_035)), 500, "five samples say too little");
    }

    #[test]
    fn a_message_does_not_wait_in_a_queue_that_is_fair() {
        let bed =
            Bed { kinds: &["fq_codel"], queue_bytes: 151_400, rate_bits: 10e6, added_ns: 2.0 * MS, ..Bed::default() };
        let loaded = bed.summary();
        let down = &loaded.directions[0];
        assert!(down.queues[0].fair && down.stands().is_none(), "{down:?}");
        assert!((down.beyond_ns.as_ref().unwrap().value / (2.0 * MS) - 1.0).abs() < 0.2, "{down:?}");
    }

    #[test]
    fn what_stands_elsewhere_is_beyond() {
        let bed = Bed { queue_bytes: 3_000, rate_bits: 10e6, added_ns: 300.0 * MS, ..Bed::default() };
        let loaded = bed.summary();
        let down = &loaded.directions[0];
        assert!(down.stands().is_none() && down.beyond_ns.as_ref().unwrap().value > 280.0 * MS, "{down:?}");
        let unseen = Bed { read: false, ..bed }.summary();
        assert_eq!((unseen.directions[0].beyond_ns.clone(), unseen.directions[0].read), (None, 0));
    }

    #[test]
    fn the_rpm_is_that_of_the_draft_without_tls() {
        // Connecting takes 100 ms, a request 140 ms, a round trip of the load 150 ms: 60 s by 120 ms are 500, by 150 ms 400.
        let bed = Bed {
            queue_bytes: 151_400,
            added_ns: 150.0 * MS,
            probes: Some([100.0 * MS, 140.0 * MS]),
            ..Bed::default()
        };
        let loaded = bed.summary();
        let own = &loaded.directions[0].responsiveness;
        for (value, known) in [
            (&own.rpm, 450.0),
            (&own.foreign_rpm, 500.0),
            (&own.loaded_rpm, 400.0),
            (&own.connect_ns, 100.0 * MS),
            (&own.request_ns, 140.0 * MS),
            (&own.round_trip_ns, 150.0 * MS),
        ] {
            let value = value.as_ref().unwrap();
            assert!((value.value / known - 1.0).abs() < 1e-6, "{value:?} {known}");
            assert!(value.low.is_some_and(|low| low <= value.value * 1.000_001), "{value:?}");
        }
        assert_eq!((own.probes, own.unanswered), (200, 0));
        let unprobed = Bed { probes: None, ..bed.clone() }.summary();
        let own = &unprobed.directions[0].responsiveness;
        assert!(own.rpm.is_none() && own.foreign_rpm.is_none() && own.loaded_rpm.is_some(), "{own:?}");
        let text = serde_json::to_string(&unprobed).unwrap();
        assert!(
            text.contains("it needs both of its parts") && text.contains("new connections were not probed"),
            "{text}"
        );
    }

    #[test]
    fn a_twentieth_of_new_connections_may_have_no_reply() {
        let times = |lost: usize| trimmed((0..100).map(|at| (at >= lost).then_some(7)));
        assert_eq!((times(5), times(6), trimmed(std::iter::empty())), (Some(7.0), None, None));
        assert_eq!(trimmed([None].into_iter()), None);
    }

    #[test]
    fn a_trimmed_mean_leaves_out_the_slowest_twentieth() {
        let mut histogram = msgpath_core::Histogram::new();
        histogram.record_n(1_000_000, 95);
        histogram.record_n(900_000_000, 5);
        assert!((trimmed_mean(&histogram.to_sparse()).unwrap() / 1e6 - 1.0).abs() < 0.01);
        // Of 102 the slowest five are left out, the lost ones first.
        histogram.record_lost(2);
        let few = trimmed_mean(&histogram.to_sparse()).unwrap() / 1e6;
        assert!((few / ((95.0 + 2.0 * 900.0) / 97.0) - 1.0).abs() < 0.01, "{few}");
        histogram.record_lost(20);
        assert_eq!(trimmed_mean(&histogram.to_sparse()), None, "more were lost than are left out");
        assert_eq!(trimmed_mean(&msgpath_core::Histogram::new().to_sparse()), None);
    }
}
