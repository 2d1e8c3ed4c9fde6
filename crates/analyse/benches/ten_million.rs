//! Ten million messages, recorded and read back, become numbers within 2 s and 512 MiB.
//!
//! ```text
//! cargo bench -p msgpath-analyse --bench ten_million
//! ```
//!
//! A synthetic run of 4 paths and a control, 40 rounds each of 50,000 messages, and the per-message log that a run keeps
//! by default, is written to a temporary folder, read with `msgpath_record` and analysed. Exit code 1 beyond the limits.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use msgpath_analyse::summarise;
use msgpath_core::Workload;
use msgpath_core::plan::{Case, CaseRole, DEFAULT_MESSAGE_LOG, Plan};
use msgpath_core::schema::{MessageRow, RoundRecord, RunEnd, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName};
use msgpath_record::{RecordError, RunWriter};

const ROUNDS: u32 = 40;
const MESSAGES: u64 = 50_000;
const MOST_SECONDS: f64 = 2.0;
const MOST_MIB: u64 = 512;

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("msgpath-ten-million-{}", std::process::id()));
    let outcome = write(&folder).and_then(|()| measure(&folder));
    // What cannot be removed is the system's to clean up.
    let _ = std::fs::remove_dir_all(&folder);
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn plan() -> Plan {
    let methods = ["send", "write", "writev", "sendmsg"];
    let mut cases: Vec<Case> =
        methods.map(|method| Case::new(PathName::new("tcp", method, "block"), Pieces::whole(64))).into();
    cases.push(Case { role: CaseRole::Control, ..cases[0].clone() });
    cases.iter_mut().zip(0..).for_each(|(case, id)| case.id = id);
    Plan { rounds: ROUNDS, ..Plan::new(Workload::ECHO, cases) }
}

/// The run: lognormal round trips of about 20 µs, every 500th ten times as slow.
fn write(folder: &Path) -> Result<(), RecordError> {
    let plan = plan();
    let mut writer = RunWriter::create(folder, &RunHeader::new("ten-million", "compare", plan.clone()))?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut histogram = Histogram::new();
    let mut left = DEFAULT_MESSAGE_LOG;
    for pass in 0..ROUNDS {
        for case in &plan.cases {
            histogram.clear();
            let mut rows = Vec::new();
            let start_ns = (u64::from(pass) * plan.cases.len() as u64 + u64::from(case.id)) * 1_000_000_000;
            for sequence in 0..MESSAGES {
                let normal = (0..6).map(|_| random.f64()).sum::<f64>() * 2.0_f64.sqrt() - 18.0_f64.sqrt();
                let slow = if random.u32(..500) == 0 { 10.0 } else { 1.0 };
                let ns = (20_000.0 * slow * (0.3 * normal).exp()) as u64;
                histogram.record(ns);
                if left > 0 {
                    left -= 1;
                    let case = case.id;
                    let connection = 0;
                    let start_ns = start_ns + sequence * 20_000;
                    rows.push(MessageRow {
                        case,
                        pass,
                        connection,
                        sequence,
                        start_ns,
                        latency_ns: Some(ns),
                        ..Default::default()
                    });
                }
            }
            let mut round = RoundRecord {
                case: case.id,
                pass,
                start_ns,
                batch: 1,
                latency: histogram.to_sparse(),
                ..Default::default()
            };
            for end in round.reports_mut() {
                (end.delivery.sent, end.delivery.received, end.delivery.verified) = (MESSAGES, MESSAGES, MESSAGES);
                (end.bytes_sent, end.bytes_received) = (MESSAGES * case.size, MESSAGES * case.size);
                end.elapsed_ns = histogram.sum() as u64;
                end.user_ns = MESSAGES * 1_000;
            }
            writer.round(&round, &rows)?;
        }
    }
    writer.finish(RunEnd::of(Ok(true), ""))?;
    Ok(())
}

/// Prints times and memory; whether both are within the limits.
fn measure(folder: &Path) -> Result<bool, RecordError> {
    let start = Instant::now();
    let run = msgpath_record::read(folder)?;
    let read = start.elapsed().as_secs_f64();
    let summary = summarise(&run);
    let all = start.elapsed().as_secs_f64();
    let expected = u64::from(ROUNDS) * run.header.plan.cases.len() as u64 * MESSAGES;
    let tails = summary.comparison.as_ref().map_or(0, |comparison| comparison.tails.len());
    assert_eq!((summary.totals.messages, tails), (Some(expected), 3), "the run was not analysed whole");
    let peak = peak_mib();
    let memory = peak.map_or("n/a: /proc/self/status has no VmHWM".into(), |mib| format!("{mib} MiB"));
    println!("{expected} messages in {} rounds, {DEFAULT_MESSAGE_LOG} of them in the log", run.rounds.len());
    println!("read {read:.3} s, summarise {:.3} s, together {all:.3} s (limit {MOST_SECONDS} s)", all - read);
    println!("peak memory, writing included: {memory} (limit {MOST_MIB} MiB)");
    Ok(all <= MOST_SECONDS && peak.is_some_and(|mib| mib <= MOST_MIB))
}

/// The largest resident set of this process so far.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.div_ceil(1024))
}
