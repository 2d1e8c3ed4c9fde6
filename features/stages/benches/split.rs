//! One million messages with fourteen events each are split into stages within 2 s.
//!
//! ```text
//! cargo bench -p msgpath-stages --bench split
//! ```
//!
//! TCP round trips as the light set of events tells them, in 40 rounds; every message must be attributed and add up.
//! Making them is not timed. Exit code 1 beyond the limit.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Instant;

use msgpath_analyse::Logs;
use msgpath_core::PathName;
use msgpath_core::Workload;
use msgpath_core::plan::{Ablation, Case, CaseRole, Change, Plan, StageSet};
use msgpath_core::schema::{
    EventKind, KernelEvent, MessageRow, RoundRecord, RunHeader, TraceRound, TracedThread, Tracing,
};
use msgpath_core::units::Pieces;
use msgpath_record::{Events, Run};
use msgpath_stages::analyse::attribute;
use msgpath_stages::log::{KernelEvents, TracedLog, log};

const ROUNDS: u32 = 40;
const MESSAGES: u64 = 25_000;
const MOST_SECONDS: f64 = 2.0;
const TIDS: [i32; 2] = [100, 200];
const COOKIES: [u64; 2] = [11, 22];

fn main() -> ExitCode {
    let (run, logs) = recorded();
    let KernelEvents::Here(all) = &log(&logs).events else { return ExitCode::FAILURE };
    let events: usize = all.iter().map(|events| events.events.len()).sum();
    let began = Instant::now();
    let attributed = attribute(&run, &logs, &[]).remove(0);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} messages, {events} events: {} complete, residual {} ns, split in {seconds:.2} s (limit {MOST_SECONDS} s)",
        attributed.messages, attributed.complete, attributed.residual_ns
    );
    let whole = attributed.complete == u64::from(ROUNDS) * MESSAGES && attributed.residual_ns == 0;
    if whole && seconds <= MOST_SECONDS { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn recorded() -> (Run, Logs) {
    let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
    let ablation = Some(Ablation { of: 0, change: Change::Traced(StageSet::Light) });
    let replica = Case { id: 1, role: CaseRole::Ablation, ablation, ..case.clone() };
    let mut header =
        RunHeader::new("split", "echo", Plan { rounds: ROUNDS, ..Plan::new(Workload::ECHO, vec![case, replica]) });
    let kinds = [
        EventKind::SchedWaking,
        EventKind::SchedWakeup,
        EventKind::SchedSwitch,
        EventKind::NetDevStartXmit,
        EventKind::NetifReceiveSkb,
        EventKind::SkDataReady,
    ];
    header.tracing = Some(Tracing {
        backend: Some("synthetic".into()),
        events: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        ..Tracing::default()
    });
    let thread = |end: usize| TracedThread { tid: TIDS[end], sends: true, receives: true, cookies: vec![COOKIES[end]] };
    let trace = TraceRound { threads: vec![vec![thread(0)], vec![thread(1)]], ..TraceRound::default() };
    let (mut rows, mut kernel) = (Vec::new(), Vec::new());
    let mut rounds = Vec::new();
    for pass in 0..ROUNDS {
        rounds.push(RoundRecord { case: 1, pass, trace: Some(trace.clone()), ..RoundRecord::default() });
        kernel.push(round(pass, &mut rows));
    }
    let log = TracedLog { messages: rows.into(), events: KernelEvents::Here(kernel) };
    let logs = Logs::default().with(log);
    (Run { folder: Default::default(), header, rounds, end: None, damage: None }, logs)
}

/// Stages of about a microsecond each, as many ns as a fixed sequence of numbers says.
fn round(pass: u32, rows: &mut Vec<MessageRow>) -> Events {
    let mut random = fastrand::Rng::with_seed(u64::from(pass));
    let mut events = Vec::with_capacity(MESSAGES as usize * 14 + 4);
    let mut t = u64::from(pass) << 32;
    let mut put = |t_ns, kind, cpu, tid: i32, a, b: i32, len| {
        events.push(KernelEvent { t_ns, kind, cpu, tid, a, b: b as u32, len, flags: 0, end: 0 });
    };
    put(t, EventKind::SchedSwitch, 1, 0, 0, TIDS[1], 0);
    put(t + 1, EventKind::SchedSwitch, 1, TIDS[1], 1, 0, 0);
    put(t + 2, EventKind::SchedSwitch, 0, 0, 0, TIDS[0], 0);
    for sequence in 0..MESSAGES {
        let start = t + 500;
        let mut stamps = [0; 3];
        t = start;
        for end in [0_usize, 1] {
            let (own, other) = (TIDS[end], TIDS[1 - end]);
            let (cpu, home) = (end as u16, 1 - end as u16);
            let mut step = |mean: u64| {
                t += mean / 2 + random.u64(..mean);
                t
            };
            let buffer = 0xffff_8880_0000_0000 + 256 * (sequence % 64);
            put(step(2_000), EventKind::NetDevStartXmit, cpu, own, buffer, 0, 130);
            put(step(1_200), EventKind::NetifReceiveSkb, cpu, own, buffer, 0, 116);
            put(step(1_800), EventKind::SkDataReady, cpu, own, 0, COOKIES[1 - end] as i32, 0);
            put(step(450), EventKind::SchedWaking, cpu, own, 0, other, 0);
            put(step(800), EventKind::SchedSwitch, cpu, own, 1, 0, 0);
            put(step(3_000), EventKind::SchedWakeup, home, 0, 0, other, 0);
            put(step(800), EventKind::SchedSwitch, home, 0, 0, other, 0);
            stamps[end * 2] = step(2_600) - start;
            if end == 0 {
                stamps[1] = step(60) - start;
            }
        }
        rows.push(MessageRow {
            case: 1,
            pass,
            sequence,
            start_ns: start,
            far_ns: Some(stamps[0]),
            far_sent_ns: Some(stamps[1]),
            latency_ns: Some(stamps[2]),
            ..MessageRow::default()
        });
    }
    Events { case: 1, pass, events }
}
