//! Records of watched programs with a known truth.

use msgpath_core::watch::{Culprit, RequestRow, ServiceCounts, Stage, Times};

use msgpath_analyse::summary::Finding;

use super::{Choice, summarise};
use crate::record::{SCHEMA, WatchEnd, WatchHeader, Watched, flag};

/// A server of which every 50th request is slow for one reason.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Where the slow requests spend their time.
    pub(crate) stage: Stage,
    /// One in so many is slow.
    pub(crate) every: u64,
    /// How much more, ns.
    pub(crate) planted_ns: u64,
    /// Page faults of the slow requests.
    pub(crate) faults: u32,
    /// Turns with several requests in flight, and requests that were not seen whole.
    pub(crate) in_flight: u64,
    pub(crate) incomplete: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self { stage: Stage::WorkOnCpu, every: 50, planted_ns: 2_000_000, faults: 0, in_flight: 0, incomplete: 0 }
    }
}

fn name(text: &str) -> [u8; 16] {
    std::array::from_fn(|at| text.as_bytes().get(at).copied().unwrap_or(0))
}

/// The calls that the culprits name.
const CALLS: [(i16, &str); 5] =
    [(202, "futex"), (74, "fsync"), (230, "clock_nanosleep"), (232, "epoll_wait"), (45, "recvfrom")];

fn culprit(stage: Stage, ns: u64) -> Culprit {
    let (call, who) = match stage {
        Stage::WorkLock => (202, "lock-holder"),
        Stage::WorkDisk => (74, "kworker/1:2"),
        Stage::WorkSleep => (230, "ffmpeg"),
        Stage::WorkPoll => (232, "postgres"),
        _ => (-1, "ffmpeg"),
    };
    let kind = (stage as u8).saturating_sub(Stage::WorkOnCpu as u8);
    Culprit { ns, pid: 77, call, kind, cpu: 1, name: name(who) }
}

fn bucket(ns: u64) -> u16 {
    (0..Times::BUCKETS as u16).find(|bucket| Times::range(*bucket).1 > ns).expect("there is a bucket")
}

/// 1000 requests of 20 µs.
pub(crate) fn watched(load: &Load) -> Watched {
    let row = |n: u64| {
        let planted = if n.is_multiple_of(load.every) { load.planted_ns } else { 0 };
        let mut row = RequestRow {
            t0_ns: 1_000_000_000 + n * 3_000_000,
            connection: 1 + n % 3,
            flags: flag::SAMPLED,
            weight: 1,
            turn: n as u32,
            bytes_there: 32,
            bytes_back: 100,
            server: 5,
            server_process: 5,
            client: 6,
            client_process: 6,
            faults: if planted > 0 { load.faults } else { 0 },
            port: 6379,
            server_name: name("redis-server"),
            client_name: name("app"),
            what: name(if n.is_multiple_of(load.every) { "SET" } else { "GET" }),
            ..RequestRow::default()
        };
        for (stage, ns) in
            [(Stage::Send, 3_000), (Stage::RunQueue, 2_000), (Stage::WorkOnCpu, 10_000), (Stage::Reply, 5_000)]
        {
            row.stages[stage as usize] = ns + n % 7;
        }
        row.stages[load.stage as usize] += planted;
        row.total_ns = row.stages.iter().sum();
        let who = culprit(load.stage, planted);
        match load.stage {
            Stage::WorkRunnable => row.run_work = who,
            Stage::RunQueue => row.run_there = who,
            Stage::Stopped | Stage::WorkStopped => row.stop = Culprit { call: 19, ..who },
            _ => row.block = who,
        }
        row
    };
    let rows: Vec<RequestRow> = (0..1000).map(row).collect();
    let mut buckets = std::collections::BTreeMap::<u16, u64>::new();
    rows.iter().for_each(|row| *buckets.entry(bucket(row.total_ns)).or_default() += 1);
    let counts = ServiceCounts {
        port: 6379,
        requests: rows.len() as u64,
        in_flight: load.in_flight,
        incomplete: load.incomplete,
        times: Times(buckets.into_iter().collect()),
        ..ServiceCounts::default()
    };
    Watched {
        header: WatchHeader {
            schema: SCHEMA.into(),
            name: "brisk-otter".into(),
            target: "port 6379".into(),
            calls: CALLS.map(|(number, name)| (number, name.to_owned())).into(),
            ..WatchHeader::default()
        },
        rows,
        end: Some(WatchEnd {
            duration_ns: 3_000_000_000,
            connections: 3,
            services: vec![counts],
            ..WatchEnd::default()
        }),
        ..Watched::default()
    }
}

/// Level, code and text of each sentence on the first server.
pub(crate) fn said(watched: &Watched) -> Vec<(String, String, String)> {
    let findings = &summarise(watched, Choice::default()).servers[0].findings;
    let said = |finding: &Finding| (finding.confidence.word().to_owned(), finding.code.clone(), finding.text.clone());
    findings.iter().map(said).collect()
}

/// Level and text of the first sentence of a code.
#[track_caller]
pub(crate) fn sentence(watched: &Watched, code: &str) -> (String, String) {
    let all = said(watched);
    let found = all.iter().find(|(_, other, _)| other == code);
    found.map(|(level, _, text)| (level.clone(), text.clone())).unwrap_or_else(|| panic!("no {code} in {all:?}"))
}
