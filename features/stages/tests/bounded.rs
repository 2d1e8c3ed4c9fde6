//! What goes through the traced messages of a run holds a round of them, however many the run has.

use std::path::Path;

use msgpath_analyse::testing::finished;
use msgpath_analyse::{Logs, section, summarise_with};
use msgpath_core::plan::{Ablation, Case, CaseRole, Change, Plan, StageSet, Stamps};
use msgpath_core::schema::{MessageRow, RoundRecord, RunHeader, Tracing};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName, Workload};
use msgpath_record::{MessageLog, Run, RunWriter};
use msgpath_stages::analyse::attribution;
use msgpath_stages::log::TracedLog;
use msgpath_stages::section::SECTION;

/// Messages of a round: a row of them has 112 bytes in memory.
const ROUND: u64 = 2_000;

/// A run whose messages are those of the traced replica of an echo (case 1).
fn traced(folder: &Path, rounds: u32) -> (Run, Logs) {
    let case = Case::new(PathName::new("udp", "send", "block"), Pieces::whole(64));
    let ablation = Some(Ablation { of: 0, change: Change::Traced(StageSet::Light) });
    let replica = Case { id: 1, role: CaseRole::Ablation, ablation, ..case.clone() };
    let plan = Plan { rounds, stamps: Stamps::Both, ..Plan::new(Workload::ECHO, vec![case, replica]) };
    let mut header = RunHeader::new("long", "echo", plan);
    header.tracing = Some(Tracing { backend: Some("none".into()), ..Tracing::default() });
    let mut writer = RunWriter::create(folder, &header).unwrap();
    for pass in 0..rounds {
        let start_ns = u64::from(pass) * ROUND * 1_000_000;
        let mut histogram = Histogram::new();
        let mut rows = Vec::new();
        for sequence in 0..ROUND {
            let latency = 15_000 + sequence * 7_919 % 6_000 + if sequence % 500 < 9 { 800_000 } else { 0 };
            histogram.record(latency);
            rows.push(MessageRow {
                case: 1,
                pass,
                sequence,
                start_ns: start_ns + sequence * 1_000_000,
                latency_ns: Some(latency),
                late_ns: Some(1_000),
                far_ns: Some(latency - 500),
                sent_ns: Some(3_000),
                ..MessageRow::default()
            });
        }
        let latency = histogram.to_sparse();
        let mut round = RoundRecord { case: 1, pass, start_ns, batch: 1, latency, ..RoundRecord::default() };
        for end in round.reports_mut() {
            (end.delivery.sent, end.delivery.received, end.elapsed_ns) = (ROUND, ROUND, ROUND * 1_000_000);
        }
        writer.round(&round, &rows).unwrap();
    }
    let run = finished(writer, folder);
    let log = TracedLog { messages: MessageLog::traced(&run).unwrap().into(), ..TracedLog::default() };
    (run, Logs::default().with(log))
}

#[test]
fn four_times_the_traced_messages_do_not_take_more_memory() {
    section::add(&SECTION);
    let peak = |rounds: u32| {
        let place = tempfile::tempdir().unwrap();
        let (run, logs) = traced(place.path(), rounds);
        let of = |logs: &Logs, messages: u64| {
            let summary = || assert_eq!(attribution(&summarise_with(&run, logs))[0].messages, messages);
            allocation_counter::measure(summary).bytes_max
        };
        of(&logs, u64::from(rounds) * ROUND).saturating_sub(of(&Logs::default(), 0))
    };
    let (few, many) = (peak(20), peak(80));
    let more = many.saturating_sub(few) as f64 / (60 * ROUND) as f64;
    assert!(more < 5.0, "{few} bytes became {many}, {more:.1} a message");
}
