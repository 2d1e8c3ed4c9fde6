//! What several clients have together, how evenly, and which of them is slow (docs/method/fan.md).

use std::borrow::Cow;
use std::collections::BTreeMap;

use msgpath_core::explained;
use msgpath_core::explained::Explained;
use msgpath_core::schema::{ClientRound, RoundRecord, RunHeader, Slots};
use msgpath_stats::describe::median;
use msgpath_stats::estimate::{Estimate, log_estimate_in_time, mean_estimate};
use msgpath_stats::fairness::jain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Several clients of one server.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = explained::schema)]
pub struct FanSummary {
    /// What goes where.
    pub direction: FanDirection,
    /// Rounds in which all clients took part for a time.
    pub rounds: u64,
    /// Of each round the time that counts, in which all clients send, s: median over rounds.
    pub joint_s: Option<f64>,
    /// Payload bits a second of all clients together, counted by the receivers.
    pub bits_per_s: Option<Estimate>,
    /// Messages a second of all clients together, of an echo answered ones.
    pub messages_per_s: Option<Estimate>,
    /// Jain's index of the rates of the clients in a round, mean over rounds: 1 is equal, 1/n is one alone.
    pub fairness: Option<Estimate>,
    /// Echo: median over the clients of their median round trips in a round, mean over rounds, ns.
    pub p50_ns: Option<Estimate>,
    /// The client that is slowest in the mean over rounds, by its number.
    pub slowest: Option<u32>,
    /// In so many rounds that client was the slowest.
    pub slowest_in: u64,
    /// Retransmission timeouts in all rounds; `None`: not TCP, or not counted.
    pub timeouts: Option<u64>,
    /// Rounds with such a timeout.
    pub timeout_rounds: u64,
    /// What counted them.
    pub timeouts_by: Option<CountedBy>,
    /// The server listens on a socket for each of its threads (SO_REUSEPORT).
    pub reuse_port: bool,
    /// The clients, in their order.
    pub each: Vec<ClientSummary>,
}

/// What goes where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanDirection {
    /// The clients send, and the server answers.
    #[default]
    Both,
    /// Many send to one.
    In,
    /// One sends to many.
    Out,
}

/// What counts retransmission timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// TCP_INFO of the connections (`tcpi_total_rto`).
    Connection,
    /// The network namespaces of the clients (`TcpExtTCPTimeouts`), with whatever else goes on in them.
    Namespace,
}

/// What one of several clients got.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClientSummary {
    /// Its number, from 1.
    pub client: u32,
    /// Its place on this machine; empty: where the user is.
    pub place: String,
    /// Payload bits a second that it received, or the server received of it.
    pub bits_per_s: Option<Estimate>,
    /// Messages a second, of an echo answered ones.
    pub messages_per_s: Option<Estimate>,
    /// Its part of the joint rate by that of an equal share: mean over rounds.
    pub share: Option<Estimate>,
    /// Echo: its median round trip, mean over rounds, ns.
    pub p50_ns: Option<Estimate>,
    /// Echo: its p99, median over rounds, ns.
    pub p99_ns: Option<f64>,
    /// Echo: its median by that of the clients in the same round.
    pub times_p50: Option<Estimate>,
    /// The slowest of its connects, median over rounds, ns.
    pub connect_ns: Option<f64>,
    /// Retransmission timeouts of its connections in all rounds.
    pub timeouts: Option<u64>,
    /// Segments retransmitted in all rounds.
    pub retransmitted: Option<u64>,
}

impl Explained for FanSummary {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        let part = path.split('.').rfind(|part| !["value", "low", "high"].contains(part)).unwrap_or_default();
        match part {
            _ if path.ends_with(".low") || path.ends_with(".high") => "too few rounds for an interval",
            "timeouts" | "timeouts_by" | "retransmitted" => "not TCP, or the kernel does not count them",
            "p50_ns" | "p99_ns" | "times_p50" => "no echo, fewer than 100 messages, or they were lost",
            _ => "no round has a time in which all clients send",
        }
        .into()
    }
}

explained!(read FanSummary);

impl FanSummary {
    /// The slowest client.
    pub fn slow(&self) -> Option<&ClientSummary> {
        self.each.iter().find(|client| Some(client.client) == self.slowest)
    }
}

/// Bytes of each client in the time of a round in which all of them are to send, and how long that is, ns; `None`: nothing came from any.
/// All are told to go at once, so a client of which nothing has come yet has a rate of 0. `one_clock`: the receivers read one clock, or
/// each counts from its own begin.
pub fn joint(clients: &[ClientRound], one_clock: bool) -> Option<(Vec<u64>, u64)> {
    let begun = || clients.iter().map(|client| &client.slots).filter(|slots| slots.begin_ns > 0);
    let first_begun = begun().min_by_key(|slots| slots.begin_ns)?;
    let width = first_begun.width_ns.max(1);
    if clients.iter().any(|client| client.slots.width_ns != first_begun.width_ns) {
        return None;
    }
    let shift = |slots: &Slots| if one_clock { 0 } else { slots.begin_ns };
    let begin = first_begun.begin_ns - shift(first_begun);
    let (from, to) = (begin.saturating_add(first_begun.lead_ns), begin.saturating_add(first_begun.span_ns));
    // Whole slots only.
    let (first, last) = (from.div_ceil(width), to / width);
    let ns = last.checked_sub(first).filter(|slots| *slots > 0)?.saturating_mul(width);
    let of = |client: &ClientRound| {
        let back = shift(&client.slots) / width;
        let slots = client.slots.bytes.iter().enumerate();
        let at = |n: usize| client.slots.first.saturating_sub(back).saturating_add(n as u64);
        let counted = slots.filter(|(n, _)| (first..last).contains(&at(*n)));
        counted.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes))
    };
    Some((clients.iter().map(of).collect(), ns))
}

/// Whether the receivers of a run read one clock: they are all at the server, or all its ends read one.
pub fn one_clock(header: &RunHeader) -> bool {
    let plan = &header.plan;
    let fan_in = !plan.workload.is_echoed() && !plan.reverse;
    fan_in || header.one_clock() && !plan.options.has_hosts()
}

/// One round in which all clients took part.
struct Joint<'a> {
    /// Bytes a second of each client.
    rates: Vec<f64>,
    ns: u64,
    clients: &'a [ClientRound],
}

/// All of it; `None`: the run has one client.
pub fn summarise(header: &RunHeader, rounds: &[RoundRecord]) -> Option<FanSummary> {
    let plan = &header.plan;
    let places = &plan.options.clients;
    let case = plan.cases.first().filter(|_| places.len() > 1)?;
    let echoed = plan.workload.is_echoed();
    let recorded = || rounds.iter().filter(|round| round.case == case.id && round.clients.len() == places.len());
    let of = |round: &'_ RoundRecord| joint(&round.clients, one_clock(header));
    let joints: Vec<Joint<'_>> = recorded()
        .filter_map(|round| {
            let (bytes, ns) = of(round)?;
            let rates = bytes.iter().map(|bytes| 1e9 * *bytes as f64 / ns as f64).collect();
            Some(Joint { rates, ns, clients: &round.clients })
        })
        .collect();
    let size = if echoed { case.reply } else { case.size }.max(1) as f64;
    let total = |joint: &Joint<'_>| joint.rates.iter().sum::<f64>();
    let over = |value: &dyn Fn(&Joint<'_>) -> f64| mean_estimate(&joints.iter().map(value).collect::<Vec<f64>>());
    let fairness: Vec<f64> = joints.iter().filter_map(|joint| jain(&joint.rates)).collect();
    let middles: Vec<Option<f64>> = joints.iter().map(middle).collect();
    let each: Vec<ClientSummary> = (0..places.len())
        .map(|at| ClientSummary { place: places[at].name.clone(), ..client(at, &joints, &middles, size) })
        .collect();
    let slow = |client: &ClientSummary| {
        if echoed {
            client.times_p50.as_ref().map(|times| -times.value)
        } else {
            client.share.as_ref().map(|share| share.value)
        }
    };
    let slowest = each.iter().filter_map(|client| Some((client.client, slow(client)?)));
    let slowest = slowest.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(client, _)| client);
    let (timeouts, timeouts_by) = timeouts(&joints, places.iter().map(|place| place.name.as_str()));
    let ns: Vec<f64> = joints.iter().map(|joint| joint.ns as f64 / 1e9).collect();
    Some(FanSummary {
        direction: match (echoed, plan.reverse) {
            (true, _) => FanDirection::Both,
            (false, false) => FanDirection::In,
            (false, true) => FanDirection::Out,
        },
        rounds: joints.len() as u64,
        joint_s: (!ns.is_empty()).then(|| median(&ns)),
        bits_per_s: over(&|joint| 8.0 * total(joint)),
        messages_per_s: over(&|joint| total(joint) / size),
        fairness: mean_estimate(&fairness),
        p50_ns: mean_estimate(&middles.iter().flatten().copied().collect::<Vec<f64>>()),
        slowest,
        slowest_in: slowest
            .map_or(0, |own| joints.iter().filter(|joint| is_slowest(joint, own, echoed)).count() as u64),
        timeouts: timeouts.as_ref().map(|each| each.iter().sum()),
        timeout_rounds: timeouts.iter().flatten().filter(|count| **count > 0).count() as u64,
        timeouts_by,
        reuse_port: plan.options.reuse_port,
        each,
    })
}

/// The median over the clients of a round of their medians, ns.
fn middle(joint: &Joint<'_>) -> Option<f64> {
    let medians: Vec<f64> =
        joint.clients.iter().filter_map(|client| client.latency.p50_ns).map(|ns| ns as f64).collect();
    (!medians.is_empty()).then(|| median(&medians))
}

fn is_slowest(joint: &Joint<'_>, client: u32, echoed: bool) -> bool {
    let at = client as usize - 1;
    match echoed {
        true => {
            let p50 = |client: &ClientRound| client.latency.p50_ns.unwrap_or(u64::MAX);
            joint.clients.iter().all(|other| p50(other) <= p50(&joint.clients[at]))
        }
        false => joint.rates.iter().all(|rate| *rate >= joint.rates[at]),
    }
}

/// Mean of what is never below 0, nor is its interval.
fn mean(values: &[f64]) -> Option<Estimate> {
    mean_estimate(values).map(|estimate| Estimate { low: estimate.low.map(|low| low.max(0.0)), ..estimate })
}

fn client(at: usize, joints: &[Joint<'_>], middles: &[Option<f64>], size: f64) -> ClientSummary {
    let own = || joints.iter().map(move |joint| &joint.clients[at]);
    // Means of the rates themselves: the rates of all clients add up to the joint one.
    let rates: Vec<f64> = joints.iter().map(|joint| joint.rates[at]).collect();
    let shares = joints.iter().filter_map(|joint| {
        let sum = joint.rates.iter().sum::<f64>();
        (sum > 0.0).then(|| joint.rates[at] * joint.rates.len() as f64 / sum)
    });
    let times = own().zip(middles).filter_map(|(client, middle)| Some(client.latency.p50_ns? as f64 / (*middle)?));
    let sum = |of: fn(&ClientRound) -> Option<u64>| own().map(of).sum::<Option<u64>>().filter(|_| !joints.is_empty());
    let middle_of = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
    ClientSummary {
        client: at as u32 + 1,
        place: String::new(),
        bits_per_s: mean(&rates.iter().map(|rate| 8.0 * rate).collect::<Vec<f64>>()),
        messages_per_s: mean(&rates.iter().map(|rate| rate / size).collect::<Vec<f64>>()),
        share: mean(&shares.collect::<Vec<f64>>()),
        p50_ns: mean_estimate(
            &own().filter_map(|client| client.latency.p50_ns).map(|ns| ns as f64).collect::<Vec<f64>>(),
        ),
        p99_ns: middle_of(own().filter_map(|client| client.latency.p99_ns).map(|ns| ns as f64).collect()),
        times_p50: log_estimate_in_time(&times.collect::<Vec<f64>>()),
        connect_ns: middle_of(own().map(|client| client.connect_ns as f64).collect()),
        timeouts: sum(|client| client.timeouts),
        retransmitted: sum(|client| client.retransmitted),
    }
}

/// Timeouts in each round, by the connections, or else by the namespaces of the clients, each of which counts once.
fn timeouts<'a>(
    joints: &[Joint<'_>],
    places: impl Iterator<Item = &'a str> + Clone,
) -> (Option<Vec<u64>>, Option<CountedBy>) {
    let tcp = joints.iter().any(|joint| joint.clients.iter().any(|client| client.retransmitted.is_some()));
    if !tcp {
        return (None, None);
    }
    let by_connection = |joint: &Joint<'_>| joint.clients.iter().map(|client| client.timeouts).sum::<Option<u64>>();
    if let Some(counts) = joints.iter().map(by_connection).collect::<Option<Vec<u64>>>() {
        return (Some(counts), Some(CountedBy::Connection));
    }
    let by_namespace = |joint: &Joint<'_>| {
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        for (place, client) in places.clone().zip(joint.clients) {
            let own = most.entry(place).or_default();
            *own = (*own).max(client.namespace_timeouts?);
        }
        Some(most.values().sum())
    };
    let counts = joints.iter().map(by_namespace).collect::<Option<Vec<u64>>>();
    let by = counts.is_some().then_some(CountedBy::Namespace);
    (counts, by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, MS};

    fn summary(bed: &Bed) -> FanSummary {
        let run = bed.run();
        summarise(&run.header, &run.rounds).unwrap()
    }

    #[test]
    fn sums_shares_and_fairness_are_those_that_were_planted() {
        let fan = summary(&Bed::stream(&[125e6, 125e6, 12.5e6]));
        let close = |estimate: &Option<Estimate>, truth: f64| {
            let value = estimate.as_ref().unwrap().value;
            assert!((value / truth - 1.0).abs() < 0.01, "{value} {truth}");
        };
        close(&fan.bits_per_s, 2.1e9);
        close(&fan.fairness, jain(&[10.0, 10.0, 1.0]).unwrap());
        close(&fan.each[2].share, 3.0 / 21.0);
        close(&fan.each[2].bits_per_s, 100e6);
        assert_eq!((fan.slowest, fan.slowest_in, fan.rounds, fan.direction), (Some(3), 10, 10, FanDirection::In));
        assert!((fan.joint_s.unwrap() - 0.28).abs() < 0.02, "{:?}", fan.joint_s);
    }

    #[test]
    fn only_the_time_in_which_all_send_counts() {
        let run = Bed::stream(&[1e6, 1e6]).run();
        let mut clients = run.rounds[0].clients.clone();
        let (bytes, ns) = joint(&clients, true).unwrap();
        assert!((bytes[0] as f64 / (1e6 * ns as f64 / 1e9) - 1.0).abs() < 0.01, "{bytes:?} in {ns}");
        // One of which nothing comes for 100 ms, or never, has less, and does not shorten the time.
        let late = |clients: &mut [ClientRound], ms: u64| {
            clients[1].slots.begin_ns += ms * MS;
            clients[1].slots.first = clients[1].slots.begin_ns / clients[1].slots.width_ns;
        };
        late(&mut clients, 100);
        let (bytes, same) = joint(&clients, true).unwrap();
        assert!(same == ns && bytes[1] < bytes[0] * 4 / 5, "{bytes:?}");
        // With clocks of their own each counts from its own begin.
        let (bytes, _) = joint(&clients, false).unwrap();
        assert!(bytes[1] > bytes[0] * 9 / 10, "{bytes:?}");
        (clients[1].slots.begin_ns, clients[1].slots.first) = (0, 0);
        clients[1].slots.bytes.clear();
        let (bytes, same) = joint(&clients, true).unwrap();
        assert!(same == ns && bytes[1] == 0 && bytes[0] > 0, "{bytes:?}");
        clients.iter_mut().for_each(|client| client.slots.begin_ns = 0);
        assert_eq!(joint(&clients, true), None);
        // One that was cut off counts as nothing from then on, and does not end the time.
        let mut clients = run.rounds[0].clients.clone();
        clients[1].slots.bytes.truncate(20);
        let (bytes, same) = joint(&clients, true).unwrap();
        assert!(same == ns && bytes[1] < bytes[0] / 3, "{bytes:?}");
    }

    #[test]
    fn a_thousand_clients_are_summed_up_right_and_soon() {
        let rates: Vec<f64> =
            (0..1_000).map(|at| if at == 617 { 1e5 } else { 1e6 + f64::from(at % 7) * 1e3 }).collect();
        let run = Bed::stream(&rates).run();
        let held: usize =
            run.rounds.iter().flat_map(|round| &round.clients).map(|client| client.slots.bytes.len()).sum();
        assert!(held <= 1_000 * run.rounds.len() * 66, "{held} slots");
        let fan = summarise(&run.header, &run.rounds).unwrap();
        let sum = 8.0 * rates.iter().sum::<f64>();
        assert!((fan.bits_per_s.as_ref().unwrap().value / sum - 1.0).abs() < 0.01);
        assert!((fan.fairness.as_ref().unwrap().value - jain(&rates).unwrap()).abs() < 1e-3);
        assert_eq!((fan.slowest, fan.slowest_in, fan.each.len()), (Some(618), 10, 1_000));
        assert!((fan.slow().unwrap().share.as_ref().unwrap().value - 0.1).abs() < 0.01);
    }

    #[test]
    fn the_median_client_of_an_echo_is_that_of_each_round() {
        let fan = summary(&Bed::echo(&[40_000, 50_000, 60_000, 120_000, 45_000]));
        assert_eq!(fan.p50_ns.as_ref().unwrap().value, 50_000.0);
        assert_eq!(fan.slowest, Some(4));
        assert!((fan.each[3].times_p50.as_ref().unwrap().value - 2.4).abs() < 1e-9);
        assert_eq!((fan.each[3].p99_ns, fan.each[3].connect_ns), (Some(240_000.0), Some(50_000.0)));
    }
}
