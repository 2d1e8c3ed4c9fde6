//! Does what reads a run back stay within 512 MiB, however many messages the run has logged?
//!
//! `cargo bench --bench memory -- [MESSAGES [PROGRAM]]`: 10 million messages and the program just built, unless others are
//! named. A synthetic run with a stamp at the far end for every message is written by the record's writer; then `show`,
//! `report`, `verify`, and `export` to `messages-csv` and `parquet` read it, each a process of its own. Ends with 1 where one of them needs
//! more memory, or fails.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use msgpath_core::Workload;
use msgpath_core::plan::{Case, Plan, Stamps};
use msgpath_core::schema::{MessageRow, RoundRecord, RunEnd, RunHeader, Status};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName};
use msgpath_record::{RecordError, RunWriter};

const MESSAGES: u64 = 10_000_000;
const MOST_MIB: u64 = 512;
const METHODS: [&str; 4] = ["send", "write", "writev", "sendmsg"];
const ROUNDS: u64 = 25;
/// As many messages of a round as agents keep.
const MOST_OF_A_ROUND: u64 = 1 << 18;
/// First argument of the process that starts the program and says how large it became: a process for each, because the
/// kernel keeps the largest of all that one has waited for.
const WATCH: &str = "--watch";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == WATCH) {
        return watch(&arguments[1..]);
    }
    let messages = arguments.first().map_or(MESSAGES, |count| count.parse().expect("a number of messages"));
    let program = arguments.get(1).map_or(env!("CARGO_BIN_EXE_msgpath"), String::as_str);
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().join("data/msgpath/large");
    let begun = Instant::now();
    write(&folder, messages).expect("the run");
    let log = std::fs::metadata(folder.join(msgpath_record::MESSAGES_FILE)).map_or(0, |file| file.len());
    println!("{messages} messages written in {:.1} s, {} MB", begun.elapsed().as_secs_f64(), log / 1_000_000);
    let report = home.path().join("report.html");
    let report = report.to_str().expect("a text");
    let parquet = home.path().join("messages.parquet");
    let parquet = parquet.to_str().expect("a text");
    let all: [&[&str]; 5] = [
        &["show", "large"],
        &["report", "large", "-o", report],
        &["verify", "large"],
        &["export", "large", "--to", "messages-csv"],
        &["export", "large", "--to", "parquet", "-o", parquet],
    ];
    let met = all.map(|line| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([WATCH, program]).args(line).env("XDG_DATA_HOME", home.path().join("data"));
        command.status().is_ok_and(|status| status.success())
    });
    println!("the page has {:.2} MB", std::fs::metadata(report).map_or(0, |file| file.len()) as f64 / 1e6);
    if met.iter().all(|met| *met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a program, and prints how long it took and how large it became.
fn watch(line: &[String]) -> ExitCode {
    let begun = Instant::now();
    let status = Command::new(&line[0]).args(&line[1..]).stdout(Stdio::null()).status().expect("the program");
    let (seconds, mib) = (begun.elapsed().as_secs_f64(), msgpath_sys::usage::largest_child().div_ceil(1 << 20));
    let met = status.success() && mib < MOST_MIB;
    let verdict = if met { "met".into() } else { format!("MISSED ({status})") };
    let what = line.iter().skip_while(|word| *word != "--to").nth(1).unwrap_or(&line[1]);
    println!("{what:<12} {seconds:>7.2} s {mib:>6} MiB  target < {MOST_MIB} MiB: {verdict}");
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The run: four paths, round trips of 15 to 25 µs, one in 500 ten times as slow on its way there.
fn write(folder: &Path, messages: u64) -> Result<(), RecordError> {
    let case =
        |(method, id): (&str, u32)| Case { id, ..Case::new(PathName::new("tcp", method, "block"), Pieces::whole(64)) };
    let cases: Vec<Case> = METHODS.into_iter().zip(0..).map(case).collect();
    let rounds = ROUNDS.max(messages.div_ceil(cases.len() as u64 * MOST_OF_A_ROUND)) as u32;
    let mut plan = Plan { rounds, stamps: Stamps::Both, message_log: messages, ..Plan::new(Workload::ECHO, cases) };
    plan.declare(msgpath_paths::traits);
    let mut writer = RunWriter::create(folder, &RunHeader::new("large", "compare", plan.clone()))?;
    let mut random = SplitMix64::new(1);
    let (mut histogram, mut rows) = (Histogram::new(), Vec::new());
    let count = messages / u64::from(rounds) / METHODS.len() as u64;
    let mut now = 0;
    for pass in 0..rounds {
        for case in &plan.cases {
            (_, _) = (histogram.clear(), rows.clear());
            let start_ns = now;
            for sequence in 0..count {
                let slow = if random.below(500) == 0 { 180_000 } else { 0 };
                let there = 6_000 + random.below(4_000) as u64 + slow;
                let latency = there + 9_000 + random.below(6_000) as u64;
                histogram.record(latency);
                rows.push(MessageRow {
                    case: case.id,
                    pass,
                    sequence,
                    start_ns: now,
                    latency_ns: Some(latency),
                    far_ns: Some(there),
                    ..MessageRow::default()
                });
                now += latency + 200;
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
                (end.delivery.sent, end.delivery.received, end.delivery.verified) = (count, count, count);
                (end.bytes_sent, end.bytes_received) = (count * case.size, count * case.reply);
                (end.elapsed_ns, end.user_ns) = (now - start_ns, count * 1_000);
            }
            writer.round(&round, &rows)?;
            now += 1_000_000;
        }
    }
    writer.finish(RunEnd {
        status: Status::Ok,
        ended: String::new(),
        problem: None,
        messages_not_kept: 0,
        granted: Default::default(),
        header_crc32: None,
    })?;
    let summary = msgpath_analyse::summarise(&msgpath_record::read(folder)?);
    msgpath_record::write_summary(folder, &serde_json::to_vec(&summary).expect("numbers"))
}
