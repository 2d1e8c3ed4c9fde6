//! What goes through the messages of a periodic run holds a round of them, however many the run has.

use std::path::Path;

use msgpath_analyse::testing::finished;
use msgpath_analyse::{Logs, section, summarise_with};
use msgpath_core::plan::{Case, Plan, Stamps};
use msgpath_core::schema::{MessageRow, RoundRecord, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName};
use msgpath_periodic::analyse::PeriodicSummary;
use msgpath_periodic::record::PeriodicFacts;
use msgpath_periodic::section::SECTION;
use msgpath_record::{Run, RunWriter};

/// Messages of a round.
const ROUND: u64 = 2_000;

/// A periodic run in so many rounds.
fn logged(folder: &Path, rounds: u32) -> (Run, Logs) {
    section::add(&SECTION);
    let case = Case::new(PathName::new("udp", "send", "block"), Pieces::whole(64));
    let plan = Plan { rounds, stamps: Stamps::Both, ..Plan::new(&msgpath_periodic::workload::PERIODIC, vec![case]) };
    msgpath_core::workload::add(&msgpath_periodic::workload::PERIODIC);
    let mut header = RunHeader::new("long", "periodic", plan);
    header.parts.set(PeriodicFacts { processes: 2, components: 1, ..PeriodicFacts::default() });
    let mut writer = RunWriter::create(folder, &header).unwrap();
    for pass in 0..rounds {
        let start_ns = u64::from(pass) * ROUND * 1_000_000;
        let mut histogram = Histogram::new();
        let mut rows = Vec::new();
        for sequence in 0..ROUND {
            let latency = 15_000 + sequence * 7_919 % 6_000 + if sequence % 500 < 9 { 800_000 } else { 0 };
            histogram.record(latency);
            rows.push(MessageRow {
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
        let mut round = RoundRecord { pass, start_ns, batch: 1, latency, ..RoundRecord::default() };
        for end in round.reports_mut() {
            (end.delivery.sent, end.delivery.received, end.elapsed_ns) = (ROUND, ROUND, ROUND * 1_000_000);
        }
        writer.round(&round, &rows).unwrap();
    }
    let run = finished(writer, folder);
    let logs = Logs::of(&run).unwrap();
    (run, logs)
}

#[test]
fn four_times_the_messages_do_not_take_more_memory() {
    let peak = |rounds: u32| {
        let place = tempfile::tempdir().unwrap();
        let (run, logs) = logged(place.path(), rounds);
        let of = |logs: &Logs, messages: u64| {
            let summarised = || {
                let summary = summarise_with(&run, logs);
                assert_eq!(summary.sections.get::<PeriodicSummary>().unwrap().engines[0].logged, messages);
            };
            allocation_counter::measure(summarised).bytes_max
        };
        of(&logs, u64::from(rounds) * ROUND).saturating_sub(of(&Logs::default(), 0))
    };
    let (few, many) = (peak(20), peak(80));
    let more = many.saturating_sub(few) as f64 / (60 * ROUND) as f64;
    assert!(more < 5.0, "{few} bytes became {many}, {more:.1} a message");
}
