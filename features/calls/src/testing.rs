//! Calls with a known truth, for tests: two clocks whose offset and drift are known, and delays that are.

use std::path::PathBuf;

use msgpath_core::Histogram;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::{ClockFacts, Environment, RoundRecord, RunEnd, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_record::Run;

use crate::analyse::align::Pair;
use crate::analyse::{PairClock, RpcSummary};
use crate::record::{Handshakes, RpcFacts, RpcPair, RpcRow, Shaken};
use crate::section::SECTION;
use msgpath_analyse::logs::{Logs, Pulled};
use msgpath_analyse::section;
use msgpath_analyse::summary::Summary;
use msgpath_analyse::testing::{Asked, said_with};

/// Seconds, milliseconds and microseconds in ns.
pub const S: f64 = 1e9;
/// See [`S`].
pub const MS: f64 = 1e6;
/// See [`S`].
pub const US: f64 = 1e3;

/// What must be added to the server's clock at a time of the client's, ns: the truth.
type Theta = Box<dyn Fn(f64) -> f64>;

/// Calls, one after the other.
pub struct Calls {
    theta: Theta,
    step: f64,
    now: f64,
    /// Where delays come from.
    pub random: fastrand::Rng,
    /// The calls so far.
    pub rows: Vec<RpcRow>,
    /// Which machines, and how fine their stamps are.
    pub facts: RpcFacts,
    /// Connections of TLS or HTTP/2.
    pub handshakes: Option<Handshakes>,
}

/// So many handshakes of 1.2 ms after 0.1 ms of connecting, some of which resumed a session.
pub fn shaken(made: u64, resumed: u64) -> Handshakes {
    let mut handshakes = Handshakes::default();
    for at in 0..made {
        let shaken = Shaken { ns: 1_200_000, version: "TLS 1.3".into(), resumed: at < resumed, ..Shaken::default() };
        handshakes.note(100_000, Some(&shaken), None);
    }
    handshakes
}

impl Calls {
    /// Between 10.9.0.1 and 10.9.0.2, with stamps of 1 µs. The truth is `offset` + `drift` t.
    pub fn new(seed: u64, offset: f64, drift: f64) -> Self {
        Self::with(seed, 1_000, move |t| offset + drift * t)
    }

    /// Stamps of `step` ns and any truth.
    pub fn with(seed: u64, step: u64, theta: impl Fn(f64) -> f64 + 'static) -> Self {
        let pair = RpcPair { client: "10.9.0.1".into(), server: "10.9.0.2".into(), same_machine: None };
        let facts = RpcFacts {
            protocol: "lab".into(),
            client_step_ns: step,
            server_step_ns: step,
            pairs: vec![pair],
            ..RpcFacts::default()
        };
        let random = fastrand::Rng::with_seed(seed);
        Self {
            theta: Box::new(theta),
            step: step as f64,
            now: 5.0 * MS,
            random,
            rows: Vec::new(),
            facts,
            handshakes: None,
        }
    }

    /// Both ends on one machine.
    pub fn same_machine(mut self) -> Self {
        self.facts.pairs[0].same_machine = Some("both addresses are the same".into());
        self
    }

    /// Over connections of TLS or HTTP/2.
    pub fn over(self, handshakes: Handshakes) -> Self {
        Self { handshakes: Some(handshakes), ..self }
    }

    pub fn theta(&self, t: f64) -> f64 {
        (self.theta)(t)
    }

    /// A value between `least` and about ten times `spread` more, mostly near `least`.
    pub fn delay(&mut self, least: f64, spread: f64) -> f64 {
        least - spread * (1.0 - self.random.f64()).ln()
    }

    /// A call: `gap` after the last one the request is sent, `there` later it is read, the server takes `work`, and `back`
    /// later the reply is read.
    pub fn call(&mut self, gap: f64, there: f64, work: f64, back: f64) -> &mut RpcRow {
        let sent = self.now + gap;
        let (received, replied, end) = (sent + there, sent + there + work, sent + there + work + back);
        let stamp = |t: f64| ((t / self.step).floor() * self.step) as i64;
        let server = |t: f64| stamp(t - (self.theta)(t));
        let start = stamp(sent);
        self.now = end;
        let id = self.rows.len() as u32 + 1;
        self.rows.push(RpcRow {
            rpcid: id,
            request_bytes: 152,
            reply_bytes: 152,
            start_ns: start as u64,
            latency_ns: Some((stamp(end) - start) as u64),
            received_ns: Some(server(received) - start),
            replied_ns: Some(server(replied) - start),
            ..RpcRow::default()
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// So many pings of 64 bytes over `span`: a round trip of about 300 µs, as between two namespaces.
    pub fn pings(mut self, count: usize, span: f64) -> Self {
        for _ in 0..count {
            let (there, back) = (self.delay(120.0 * US, 40.0 * US), self.delay(110.0 * US, 40.0 * US));
            self.call((span / count as f64 - 300.0 * US).max(0.0), there, 4.0 * US, back);
        }
        self
    }

    /// Writes of 1 MB over 1 Gbit/s.
    pub fn writes(mut self, count: usize) -> Self {
        for _ in 0..count {
            let (there, back) = (self.delay(8.9 * MS, 500.0 * US), self.delay(60.0 * US, 20.0 * US));
            let row = self.call(100.0 * US, there, 700.0 * US, back);
            (row.request_bytes, row.reply_bytes) = (1_000_101, 88);
        }
        self
    }

    /// The clocks of the first pair.
    pub fn clock(&self) -> PairClock {
        let step_ns = self.facts.client_step_ns + self.facts.server_step_ns;
        let mut pair = Pair::new(&self.facts.pairs[0], 1, step_ns);
        self.rows.iter().filter(|row| row.pair == 0).for_each(|row| pair.add(row));
        pair.finish(0)
    }

    /// The truth lies within the bound wherever it is asked for.
    #[track_caller]
    pub fn assert_covered(&self, clock: &PairClock) {
        for piece in &clock.pieces {
            for part in 0..=20 {
                let t = piece.from_ns + (piece.to_ns - piece.from_ns) / 20 * part;
                let (truth, found) = (self.theta(t as f64), piece.theta(t));
                let within = piece.within(t);
                assert!(
                    within <= piece.within_ns && (truth - found).abs() <= within,
                    "{truth} at {t}: {found} in {piece:?}"
                );
            }
        }
    }

    /// A run of them: a case for each method, the calls of each in so many rounds.
    pub fn run(&self, methods: &[&str], rounds: u32) -> (Run, Logs) {
        let path = "tcp:send".parse().expect("a path");
        let case = |(at, method): (usize, &&str)| Case {
            id: at as u32,
            label: Some((*method).into()),
            traits: msgpath_analyse::testing::declared(&path),
            ..Case::new(std::clone::Clone::clone(&path), Pieces::whole(64))
        };
        let cases: Vec<Case> = methods.iter().enumerate().map(case).collect();
        let plan = Plan { seed: 7, rounds, trim: 0, message_log: 0, ..Plan::new(&crate::workload::CALLS, cases) };
        let mut rows = self.rows.clone();
        let mut records = Vec::new();
        for case in 0..methods.len() as u32 {
            let mut own: Vec<&mut RpcRow> = rows.iter_mut().filter(|row| row.case == case).collect();
            let each = own.len().div_ceil(rounds as usize).max(1);
            for (pass, rows) in own.chunks_mut(each).enumerate() {
                rows.iter_mut().for_each(|row| row.pass = pass as u32);
                records.push(round(case, pass as u32, rows));
            }
        }
        records.sort_by_key(|round| round.start_ns);
        if let (Some(handshakes), Some(first)) = (&self.handshakes, records.first_mut()) {
            first.parts.push(Parts::default().with(handshakes.clone()));
        }
        let near = Environment { host: "anna".into(), cpus: vec![0, 1], boot_id: "one".into(), ..Default::default() };
        let mut header = RunHeader::new("calm-heron", "rpc", plan);
        header.set_hosts([near, Environment::default()]);
        header.ends[0].clock = ClockFacts { cost_ns: 25.0, step_ns: 1 };
        let run = Run {
            folder: PathBuf::new(),
            header: RunHeader {
                started: "2026-11-21T10:00:00Z".into(),
                command: ["/usr/bin/msgpath", "rpc", "10.9.0.2:12345", "ping"].map(String::from).to_vec(),
                version: "0.1.0".into(),
                target: "10.9.0.2:12345".into(),
                parts: Parts::default().with(self.facts.clone()),
                ..header
            },
            rounds: records,
            end: Some(RunEnd::of(Ok(true), "2026-11-21T10:00:10Z")),
            damage: None,
        };
        section::add(&SECTION);
        (run, Logs::default().with(Pulled::from(rows)))
    }

    /// The summary of [`run`](Self::run) with one method.
    pub fn summary(&self) -> Summary {
        let (run, logs) = self.run(&["ping"], 10);
        msgpath_analyse::summarise_with(&run, &logs)
    }

    /// What it says of the calls.
    pub fn rpc(&self) -> RpcSummary {
        self.summary().sections.remove().expect("calls")
    }

    /// The sentences of the run under `code`.
    pub fn sentences<'a>(&self, asked: impl Into<Asked<'a>>) -> Vec<String> {
        let (run, logs) = self.run(&["ping"], 10);
        said_with(&run, &logs, asked)
    }
}

/// The near end's report of a round of these calls; a server that is not an agent of ours reports nothing.
fn round(case: u32, pass: u32, rows: &[&mut RpcRow]) -> RoundRecord {
    let mut latency = Histogram::new();
    rows.iter().filter(|row| row.status == 0).filter_map(|row| row.latency_ns).for_each(|ns| latency.record(ns));
    let start_ns = rows.iter().map(|row| row.start_ns).min().unwrap_or(0);
    let end = rows.iter().map(|row| row.start_ns + row.latency_ns.unwrap_or(0)).max().unwrap_or(start_ns);
    let mut round =
        RoundRecord { case, pass, start_ns, batch: 1, latency: latency.to_sparse(), ..RoundRecord::default() };
    round.near_mut().delivery.sent = rows.len() as u64;
    round.near_mut().delivery.received = rows.iter().filter(|row| row.latency_ns.is_some()).count() as u64;
    round.near_mut().bytes_sent = rows.iter().map(|row| row.request_bytes).sum();
    round.near_mut().bytes_received = rows.iter().map(|row| row.reply_bytes).sum();
    round.near_mut().elapsed_ns = end - start_ns;
    (round.near_mut().user_ns, round.near_mut().system_ns) =
        (round.near().elapsed_ns / 10, round.near().elapsed_ns / 5);
    round.connect_ns = Some(200_000);
    round
}
