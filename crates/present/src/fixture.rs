//! TEST DATA: runs and summaries that nobody measured, for the snapshots. Every name in them says so.

#[path = "../../paths/tests/traits/declared.rs"]
mod declared;
mod doctor;
mod known;
mod load;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::*;
use msgpath_core::Workload;
use msgpath_core::plan::*;
use msgpath_core::schema::*;
use msgpath_core::units::Pieces;
use msgpath_core::{CallCounts, Delivery, Histogram, PathName, Unavailable, ZeroCopyCounts};
use msgpath_record::Run;
use msgpath_stats::crossover::{Crossing, CrossoverKind};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{Quantile, Range, iqr_ns};
use msgpath_stats::restarts::Restarts;
use msgpath_stats::shape::ShapeBin;
use msgpath_stats::steady::{Steadiness, SteadyClass};
use msgpath_stats::verdict::Verdict;

pub use declared::declared;
pub use doctor::doctor;
pub use known::{crossings, unsettled};
pub use load::{load_curve, open_loop, overloaded};

/// Every run that has no log of calls.
pub fn all() -> Vec<(Run, Summary)> {
    vec![
        echo(),
        echo_sizes(),
        gated(),
        compare(),
        shapes(),
        stream(),
        open_loop(),
        overloaded(),
        load_curve(),
        unsettled(),
        crossings(),
    ]
}

pub const ROUNDS: u64 = 8;
const MESSAGES: u64 = 2_000;
/// Rounds that hold the far-out messages.
const WITH_TAIL: u64 = 2;

/// Figures of a case with more threads than CPUs.
pub fn crowd(threads: u64, cpus: u64) -> msgpath_analyse::threads::ThreadFigures {
    let end = "both ends, which share this machine".into();
    let oversubscribed = Some(msgpath_analyse::threads::Oversubscribed { threads, cpus, end });
    msgpath_analyse::threads::ThreadFigures { oversubscribed, in_flight: threads / 2, ..Default::default() }
}

pub fn case(id: u32, path: &str, size: u64, threads: u32) -> Case {
    let path: PathName = path.parse().unwrap();
    let traits = declared(&path);
    Case { id, connections: threads, threads, traits, ..Case::new(path, Pieces::whole(size as u32)) }
}

/// What the second of these cases adds to the first one: the layers of both, the one beneath first.
pub fn layers(cases: &[CaseSummary]) -> [Layer; 2] {
    let [beneath, above] = [0, 1].map(|at| {
        let case = &cases[at];
        let (name, median) = (case.case.path.to_string(), case.latency.quantiles[0].clone());
        Layer { case: case.case.id, name, median, adds: None, times: None }
    });
    let times = Ratio {
        case: above.case,
        baseline: beneath.case,
        ratio: 1.14,
        low: Some(1.1),
        high: Some(1.18),
        p: Some(0.001),
        holm: true,
        verdict: Verdict::Worse,
        rounds_needed: None,
    };
    let adds = Estimate { value: 3_100.0, low: Some(2_900.0), high: Some(3_300.0) };
    [beneath, Layer { adds: Some(adds), times: Some(times), ..above }]
}

/// A round of messages: most near `base`, one in 16 in a second hump, a few far out in two of the rounds.
pub fn histogram(base: f64, round: u64) -> Histogram {
    let mut histogram = Histogram::new();
    let mut state = round + 1;
    for at in 0..MESSAGES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let mut value = base * (0.85 + 0.3 * uniform * uniform);
        if at % 16 == 0 {
            value *= 2.3;
        }
        if round < WITH_TAIL && at % 400 == 7 {
            value *= 20.0 + at as f64 / 20.0;
        }
        histogram.record(value as u64);
    }
    histogram
}

pub fn round(case: &Case, base: f64, at: u64) -> RoundRecord {
    RoundRecord {
        case: case.id,
        pass: at as u32,
        start_ns: at * 100_000_000,
        batch: 1,
        latency: histogram(base, at).to_sparse(),
        ..RoundRecord::default()
    }
}

/// The summary of a case whose histograms are those of [`round`].
pub fn summary_of(case: Case, base: f64, rounds: &[RoundRecord]) -> CaseSummary {
    let mut all = Histogram::new();
    rounds.iter().filter(|round| round.case == case.id).for_each(|round| all.merge_sparse(&round.latency));
    let quantile = |p: f64| {
        let ns = all.quantile(p).unwrap().unwrap();
        let beyond = all.total() - all.count_at_most(ns);
        let bursts = if p > 0.998 { WITH_TAIL } else { ROUNDS };
        let bounded = bursts >= 5;
        Quantile {
            p,
            ns: Some(ns),
            lo_ns: Some((ns as f64 * 0.98) as u64),
            hi_ns: bounded.then_some((ns as f64 * 1.03) as u64),
            beyond,
            bursts,
            range: if bounded { Range::Interval } else { Range::Bound },
            why: (!bounded).then(|| "all slower messages lie in 2 rounds".into()),
        }
    };
    let edges: Vec<u64> = (0..=30).map(|at| (base * 0.8 * 1.25_f64.powi(at)) as u64).collect();
    let shape = edges
        .windows(2)
        .map(|pair| ShapeBin {
            from_ns: pair[0],
            to_ns: pair[1],
            count: all.count_at_most(pair[1] - 1) - all.count_at_most(pair[0].saturating_sub(1)),
        })
        .collect();
    let of_case: Vec<_> = rounds.iter().filter(|round| round.case == case.id).map(|round| &round.latency).collect();
    let messages = all.total();
    let calls = CallCounts { send_calls: messages, recv_calls: messages, recv_full: messages, ..CallCounts::default() };
    let cost = Cost {
        unread: false,
        cpu_only: false,
        calls_unread: false,
        user_ns: 1_200.0,
        system_ns: 6_900.0,
        calls: 2.0,
        voluntary: 1.0,
        involuntary: 0.002,
        faults: 0.0,
        run_delay_ns: Some(810.0),
    };
    CaseSummary {
        rounds: ROUNDS,
        messages,
        batch: 1,
        latency: Latency {
            fastest_ns: all.min(),
            slowest_ns: all.max(),
            slowest_at_ns: Some(6_204_000_000),
            mean_ns: all.mean(),
            quantiles: [0.5, 0.9, 0.99, 0.999, 0.9999].map(quantile).to_vec(),
            effective_messages: Some(3_210.0),
            of_rounds: ROUNDS,
            of_times: messages,
            round_medians: vec![base; ROUNDS as usize],
            beside: None,
        },
        rate_per_s: Some(Estimate { value: 1e9 / base, low: Some(0.99e9 / base), high: Some(1.01e9 / base) }),
        throughput: None,
        spread: Spread {
            iqr_ns: iqr_ns(&of_case, &Pooled::new(&of_case)),
            shape,
            time_share_over_10x: Some(0.021),
            message_share_over_10x: Some(0.000_31),
            time_share_over_100x: Some(0.0),
            message_share_over_100x: Some(0.0),
        },
        steadiness: Some(Steadiness {
            class: SteadyClass::Flat,
            change_points: Vec::new(),
            stretches: vec![0],
            levels: 1,
            warm_up_rounds: 0,
            spread: 0.0,
            kpss: None,
            drifting: false,
            range_ns: (0.92 * base, 0.95 * base),
        }),
        delivery: Delivery { sent: messages, received: messages, verified: messages, ..Delivery::default() },
        ends: vec![
            EndSummary {
                name: "near".into(),
                calls,
                cost: Cost { involuntary: 0.0004, run_delay_ns: None, ..cost },
                tcp: Some(TcpInfo { data_segs_out: messages, total_retrans: 3, snd_mss: 65_483, ..TcpInfo::default() }),
                ..EndSummary::default()
            },
            EndSummary {
                name: "far".into(),
                receives: true,
                calls,
                cost: Cost { user_ns: 1_100.0, system_ns: 6_700.0, ..cost },
                tcp: Some(TcpInfo { data_segs_out: messages, snd_mss: 65_483, ..TcpInfo::default() }),
                ..EndSummary::default()
            },
        ],
        copied: Copied {
            zerocopy: None,
            bytes: Some(2.0 * case.size as f64),
            why: "by the kernel, into and out of the socket".into(),
        },
        transit: Transit { connect_ns: Some(45_000.0), ..Transit::default() },
        conditions: Conditions {
            granted: vec![Granted {
                end: "near".into(),
                option: "SO_SNDBUF".into(),
                asked: "1048576".into(),
                granted: "425984".into(),
                same: false,
            }],
            flags: BTreeMap::from([("the clock source changed".to_owned(), 1)]),
        },
        ..CaseSummary::empty(case)
    }
}

pub fn finding(code: &str, confidence: Confidence, text: &str, next: &[&str]) -> Finding {
    Finding {
        code: code.into(),
        confidence,
        text: text.into(),
        evidence: BTreeMap::from([("p50_ns".to_owned(), 23_900.0)]),
        next: next.iter().map(|text| (*text).to_owned()).collect(),
    }
}

pub fn header(verb: &str, plan: Plan) -> RunHeader {
    let environment = |host: &str| Environment {
        host: host.into(),
        kernel: "6.18.0-test".into(),
        cpu: "Test CPU".into(),
        cpus: vec![0, 1],
        boot_id: "test".into(),
        facts: BTreeMap::from([("governor".to_owned(), "n/a: not readable".to_owned())]),
    };
    let mut header = RunHeader {
        started: "2026-01-15T10:04:00Z".into(),
        command: vec!["msgpath".into(), verb.into()],
        version: "0.1.0".into(),
        target: "10.0.0.2:5210".into(),
        ..RunHeader::new("test-data", verb, plan)
    };
    header.set_hosts(["near-host", "far-host"].map(environment));
    header.ends[NEAR].clock = ClockFacts { cost_ns: 22.4, step_ns: 1 };
    header
}

pub fn build(verb: &str, workload: &'static Workload, cases: Vec<(Case, f64)>) -> (Run, Summary) {
    let rounds: Vec<RoundRecord> =
        cases.iter().flat_map(|(case, base)| (0..ROUNDS).map(move |at| round(case, *base, at))).collect();
    let plan = Plan {
        rounds: ROUNDS as u32,
        seed: 7,
        placement: Placement::pair([3], [11]),
        message_log: 0,
        ..Plan::new(workload, cases.iter().map(|(case, _)| case.clone()).collect())
    };
    let cases: Vec<CaseSummary> = cases.into_iter().map(|(case, base)| summary_of(case, base, &rounds)).collect();
    let summary = Summary {
        target: "10.0.0.2:5210".into(),
        totals: Totals {
            rounds: ROUNDS * cases.len() as u64,
            messages: Some(cases.iter().map(|case| case.messages).sum()),
            lost: 0,
            elapsed_ns: 10_000_000_000,
            verified: cases.iter().map(|case| case.delivery.verified).sum(),
        },
        cases,
        findings: vec![
            finding(
                "V01",
                Confidence::Sure,
                "Half of the messages came back within 24 µs; 1 in 100 took longer than 61 µs.",
                &[],
            ),
            finding(
                "V05",
                Confidence::Likely,
                "The hump at 55 µs is the receiver being woken from sleep (7 % of messages), which a receiver that spins does not need.",
                &["msgpath explain test-data", "msgpath echo 10.0.0.2 -o wait=spin"],
            ),
            finding("V09", Confidence::CantTell, "p99.99: three bursts decide it.", &["msgpath echo 10.0.0.2 -t 3m"]),
        ],
        warnings: vec![Warning {
            code: "W07".into(),
            text: "cpu 3 also ran other work for 2.1 % of the run; the slowest messages overlap it.".into(),
            why: "A message that waits for a busy cpu measures that work.".into(),
            fix: "isolate it, or pick a quiet one with --cpu 5,13   (msgpath doctor lists them)".into(),
            evidence: BTreeMap::new(),
            strict: false,
        }],
        ..Summary::empty("test-data", verb, Status::Ok)
    };
    let end = RunEnd::of(Ok(true), "2026-01-15T10:04:10Z");
    let run =
        Run { folder: "/runs/test-data".into(), header: header(verb, plan), rounds, end: Some(end), damage: None };
    (run, summary)
}

/// One case of `echo`.
pub fn echo() -> (Run, Summary) {
    build("echo", Workload::ECHO, vec![(case(0, "tcp:send", 64, 1), 23_000.0)])
}

/// The same, a tenth slower.
pub fn slower_echo() -> (Run, Summary) {
    let (mut run, summary) = build("echo", Workload::ECHO, vec![(case(0, "tcp:send", 64, 1), 25_300.0)]);
    run.header.name = "test-data-later".into();
    (run, summary)
}

/// [`echo_sizes`] with gates of which one failed, one passed, and one is not decided.
pub fn gated() -> (Run, Summary) {
    use msgpath_analyse::gates::{CaseGate, GateState, RunGate};
    use msgpath_core::gate::Side;
    let (run, mut summary) = echo_sizes();
    let gate = |text: &str, watched: &str, unit: &str, limit: f64, value: f64, states: [GateState; 4]| {
        let case = |(summary, state): (&CaseSummary, GateState)| {
            let value = value * (1.0 + f64::from(summary.case.id));
            CaseGate {
                case: summary.case.id,
                name: format!("{} {}", summary.case.path, msgpath_core::units::size(summary.case.size)),
                state,
                value: Some(value),
                low: Some(value * 0.95),
                high: Some(value * 1.05),
                p: Some(0.01),
                because: (state == GateState::Undecided).then(|| "the range has the limit in it".into()),
            }
        };
        let cases: Vec<CaseGate> = summary.cases.iter().zip(states).map(case).collect();
        let state = states[3];
        RunGate {
            gate: text.into(),
            watched: watched.into(),
            unit: unit.into(),
            limit,
            fails: Side::Above,
            state,
            worst: Some(3),
            cases,
        }
    };
    use GateState::{Failed, Passed, Undecided};
    let gates = vec![
        gate("p99 > 1ms", "p99", "ns", 1e6, 400_000.0, [Passed, Passed, Failed, Failed]),
        gate("p50 > 10s", "p50", "ns", 1e10, 23_000.0, [Passed; 4]),
        gate("loss > 0.1%", "loss", "share", 0.001, 0.000_25, [Passed, Passed, Passed, Undecided]),
    ];
    summary.gates = gates;
    (run, summary)
}

/// Four sizes of `echo`, lossy at the largest.
pub fn echo_sizes() -> (Run, Summary) {
    let sizes = [64_u64, 1_024, 16_384, 1 << 20];
    let cases = sizes
        .iter()
        .enumerate()
        .map(|(at, size)| (case(at as u32, "udp:send", *size, 1), 20_000.0 + *size as f64 / 8.0));
    let (run, mut summary) = build("echo", Workload::ECHO, cases.collect());
    let last = summary.cases.last_mut().unwrap();
    last.delivery = Delivery { lost: 31, received: last.messages - 31, reordered: 2, verified: 0, ..last.delivery };
    last.latency.quantiles[4].ns = None;
    last.rate_per_s = None;
    summary.cases[0].batch = 16;
    (run, summary)
}

/// Three paths by eight sizes by two thread counts.
pub fn compare() -> (Run, Summary) {
    static ONCE: LazyLock<(Run, Summary)> = LazyLock::new(build_compare);
    ONCE.clone()
}

fn build_compare() -> (Run, Summary) {
    let sizes: Vec<u64> = (0..8).map(|at| 64_u64 << (2 * at)).collect();
    let paths = ["tcp:send", "tcp:writev", "tcp:zerocopy"];
    let mut cases = Vec::new();
    for threads in [1, 2] {
        for path in paths {
            for size in &sizes {
                let kib = *size as f64 / 1024.0;
                let base = match path {
                    "tcp:send" => 8_000.0 + 140.0 * kib,
                    "tcp:writev" => 8_080.0 + 122.0 * kib,
                    _ => 11_200.0 + 40.0 * kib,
                };
                cases.push((
                    case(cases.len() as u32, path, *size, threads),
                    base * (1.0 + 0.1 * f64::from(threads - 1)),
                ));
            }
        }
    }
    let (run, mut summary) = build("compare", Workload::ECHO, cases);
    let zero_copy = summary.cases.iter_mut().filter(|case| case.case.path.method == "zerocopy");
    for case in zero_copy {
        let asked = case.messages;
        case.copied.zerocopy =
            Some(ZeroCopyCounts { asked, copied: asked, notifications: asked, ..ZeroCopyCounts::default() });
        case.copied.bytes = None;
        case.copied.why = "n/a: the kernel answered for none of the sends".into();
    }
    let median = |case: &CaseSummary| case.latency.quantiles[0].ns.unwrap() as f64;
    let mut ratios = Vec::new();
    let mut winners = Vec::new();
    let mut crossovers = Vec::new();
    for threads in [1_u32, 2] {
        for size in &sizes {
            let row: Vec<&CaseSummary> =
                summary.cases.iter().filter(|case| case.case.size == *size && case.case.threads == threads).collect();
            for case in &row[1..] {
                let ratio = median(case) / median(row[0]);
                let verdict = match ratio {
                    r if r > 1.05 => Verdict::Worse,
                    r if r < 0.95 => Verdict::Better,
                    r if r < 0.98 => Verdict::Undecided,
                    _ => Verdict::Equivalent,
                };
                ratios.push(Ratio {
                    case: case.case.id,
                    baseline: row[0].case.id,
                    ratio,
                    low: Some(ratio * 0.97),
                    high: Some(ratio * 1.04),
                    p: Some(0.001),
                    holm: true,
                    verdict,
                    rounds_needed: (verdict == Verdict::Undecided).then_some(60),
                });
            }
            let best = row.iter().min_by(|a, b| median(a).total_cmp(&median(b))).unwrap();
            let decided = *size >= 16_384;
            winners.push(Winner {
                size: *size,
                pieces: best.case.pieces.to_string(),
                threads,
                path: decided.then(|| best.case.path.clone()),
                best: best.case.path.clone(),
                margin: decided.then_some(1.0 + *size as f64 / 700_000.0),
                unbeaten: if decided {
                    vec![best.case.path.clone()]
                } else {
                    row.iter().take(2).map(|case| case.case.path.clone()).collect()
                },
            });
        }
        crossovers.push(Crossover {
            path: PathName::new("tcp", "writev", "block"),
            threads,
            crossing: Crossing {
                kind: CrossoverKind::Undecided,
                size: None,
                low: None,
                high: None,
                crossings: Vec::new(),
                undecided: None,
                outside: 0.0,
                refined: false,
            },
        });
        crossovers.push(Crossover {
            path: PathName::new("tcp", "zerocopy", "block"),
            threads,
            crossing: Crossing {
                kind: CrossoverKind::At,
                size: Some(32_768.0),
                low: Some(24_000.0),
                high: Some(41_000.0),
                crossings: vec![32_768.0],
                undecided: Some((16_384, 65_536)),
                outside: 0.0,
                refined: false,
            },
        });
    }
    summary.comparison = Some(Comparison {
        baseline: PathName::new("tcp", "send", "block"),
        metric: "p50".into(),
        ratios,
        tails: Vec::new(),
        winners,
        standing: None,
        crossovers,
        resolution: Some(0.013),
        control_failed: false,
        margin: 0.02,
    });
    summary.warnings = vec![Warning {
        code: "W20".into(),
        text: "the kernel copied 100 % of zero-copy sends (256000 of 256000).".into(),
        why: "Messages that stay on this machine are always copied (loopback, veth, containers), so the tcp:zerocopy rows below measure copying plus bookkeeping, not zero copy.".into(),
        fix: "a second machine, or two NICs joined by a link".into(),
        evidence: BTreeMap::from([("copied_share".to_owned(), 1.0)]),
        strict: true,
    }];
    summary.unavailable = vec![UnavailableCase {
        case: case(900, "tcp:uring", 64, 1),
        reason: Unavailable::new(
            "io_uring is switched off on this machine (kernel.io_uring_disabled = 2)",
            "ask the administrator for sysctl kernel.io_uring_disabled=0",
        ),
    }];
    (run, summary)
}

fn throughput(bits: f64, size: u64) -> Throughput {
    let around = |value: f64| Estimate { value, low: Some(value * 0.99), high: Some(value * 1.01) };
    Throughput {
        receiver_bits: around(bits),
        sender_bits: Estimate { value: bits * 1.004, low: None, high: None },
        messages: around(bits / 8.0 / size as f64),
        bounds: 0,
        beginning_bits: Some(around(bits * 0.8)),
        beginning_ns: Some(48e6),
        sender_ns: 2_500.0 * size as f64 * 8.0 / bits * 1e9,
        receiver_ns: 2_510.0 * size as f64 * 8.0 / bits * 1e9,
        of_reference: Some(around(bits / 9.4e9)),
    }
}

/// What a stream leaves out: no single message was timed.
fn untime(run: &mut Run, summary: &mut Summary) {
    run.rounds.iter_mut().for_each(|round| round.latency = Default::default());
    for case in &mut summary.cases {
        *case = CaseSummary {
            messages: 0,
            latency: Latency { beside: case.latency.beside.clone(), ..Latency::default() },
            rate_per_s: None,
            spread: Spread::default(),
            steadiness: None,
            ..case.clone()
        };
    }
}

/// The nine rows of the write-shape lab, and their reference.
pub fn shapes() -> (Run, Summary) {
    let mut cases = Vec::new();
    for (count, size) in [(15, 100), (30, 50), (60, 25)] {
        for path in ["tcp:writes", "tcp:writev", "tcp:send"] {
            let case = Case { pieces: Pieces::of(count, size), ..case(cases.len() as u32, path, 1_500, 1) };
            cases.push((case, 30_000.0));
        }
    }
    let reference = Case { role: CaseRole::Reference, ..case(9, "tcp:send", 1 << 20, 1) };
    cases.push((reference, 30_000.0));
    let (mut run, mut summary) = build("stream", Workload::STREAM, cases);
    untime(&mut run, &mut summary);
    for case in &mut summary.cases {
        let bits = match (case.case.role, case.case.path.method.as_str()) {
            (CaseRole::Reference, _) => 9.4e9,
            (_, "writes") => 7.2e9 / f64::from(case.case.pieces.count),
            _ => 3.9e9,
        };
        case.throughput = Some(throughput(bits, case.case.size));
        case.end_mut(FAR).calls.recv_short = 2_978;
        case.end_mut(FAR).calls.recv_calls += 2_978;
    }
    (run, summary)
}

/// One case of `stream`.
pub fn stream() -> (Run, Summary) {
    let (mut run, mut summary) = build("stream", Workload::STREAM, vec![(case(0, "tcp:send", 65_536, 1), 30_000.0)]);
    untime(&mut run, &mut summary);
    summary.cases[0].throughput = Some(throughput(5.47e9, 65_536));
    (run, summary)
}

/// Two paths by five sizes of `stream`.
pub fn stream_sizes() -> (Run, Summary) {
    let mut cases = Vec::new();
    for path in ["tcp:send", "tcp:writev"] {
        for at in 0..5 {
            cases.push((case(cases.len() as u32, path, 64 << (3 * at), 1), 30_000.0));
        }
    }
    let (mut run, mut summary) = build("stream", Workload::STREAM, cases);
    untime(&mut run, &mut summary);
    for case in &mut summary.cases {
        let size = case.case.size as f64;
        let top = if case.case.path.method == "send" { 9.4e9 } else { 8.1e9 };
        case.throughput = Some(throughput(top * size / (size + 3_000.0), case.case.size));
    }
    (run, summary)
}

/// Ten messages of three sizes.
pub fn trials() -> (Run, Summary, Vec<MessageRow>) {
    let sizes = [(10_u64, 6.1), (1_000, 4.9), (10_000, 14.6)];
    let cases = sizes.iter().enumerate().map(|(at, (size, base))| (case(at as u32, "tcp:send", *size, 1), base * 1e3));
    let (run, summary) = build("echo", Workload::ECHO, cases.collect());
    let mut rows = Vec::new();
    for (at, (_, base)) in sizes.iter().enumerate() {
        for trial in 0..10_u64 {
            let latency = base * 1e3 * (1.0 + (trial * 7 % 10) as f64 / 20.0);
            rows.push(MessageRow {
                case: at as u32,
                pass: 0,
                connection: 0,
                sequence: trial,
                start_ns: trial * 50_000,
                latency_ns: (at != 2 || trial != 6).then_some(latency as u64),
                ..MessageRow::default()
            });
        }
    }
    (run, summary, rows)
}

/// Text that must never reach a page unescaped.
pub const HOSTILE: &str = "</style></title><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";

/// [`compare`] with that text wherever a run carries text of others.
pub fn hostile() -> (Run, Summary) {
    let (mut run, mut summary) = compare();
    run.header.name = HOSTILE.into();
    run.header.target = HOSTILE.into();
    run.header.command.push(HOSTILE.into());
    run.header.host_mut(NEAR).host = HOSTILE.into();
    run.header.host_mut(NEAR).facts.insert(HOSTILE.into(), HOSTILE.into());
    run.folder = HOSTILE.into();
    summary.name = HOSTILE.into();
    summary.target = HOSTILE.into();
    summary.verb = HOSTILE.into();
    for finding in &mut summary.findings {
        finding.text = HOSTILE.into();
        finding.next = vec![HOSTILE.into()];
    }
    for warning in &mut summary.warnings {
        (warning.code, warning.text, warning.why, warning.fix) =
            (HOSTILE.into(), HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
    }
    summary.unavailable[0].reason = Unavailable::new(HOSTILE, HOSTILE);
    summary.cases[0].copied.why = HOSTILE.into();
    summary.cases[0].conditions.granted[0].granted = HOSTILE.into();
    summary.cases[0].conditions.flags.insert(HOSTILE.into(), 2);
    let path = PathName::new("tcp", HOSTILE, "block");
    for case in summary.cases.iter_mut().filter(|case| case.case.path.method == "zerocopy") {
        case.case.path = path.clone();
    }
    if let Some(comparison) = &mut summary.comparison {
        comparison.crossovers.iter_mut().for_each(|crossover| crossover.path = path.clone());
    }
    (run, summary)
}
