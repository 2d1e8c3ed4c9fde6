//! What goes through the messages of a run holds a round of them, however many the run has.

use std::path::Path;

use msgpath_analyse::summarise;
use msgpath_analyse::testing::finished;
use msgpath_analyse::verify::verify;
use msgpath_core::Workload;
use msgpath_core::plan::{Case, Plan, Stamps};
use msgpath_core::schema::{MessageRow, RoundRecord, RunHeader, Status};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName};
use msgpath_present::html::{self, Scene};
use msgpath_present::{Style, terminal};
use msgpath_record::{MessageLog, Messages, NO_MESSAGES, Run, RunWriter};

/// Messages of a round: a row of them has 112 bytes in memory.
const ROUND: u64 = 2_000;

/// A run of this many rounds, all of whose messages are logged and stamped at both ends.
fn recorded(folder: &Path, rounds: u32) -> Run {
    let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
    let plan = Plan { rounds, stamps: Stamps::Both, ..Plan::new(Workload::ECHO, vec![case]) };
    let mut writer = RunWriter::create(folder, &RunHeader::new("long", "echo", plan)).unwrap();
    let mut now = 0;
    for pass in 0..rounds {
        let start_ns = now;
        let mut histogram = Histogram::new();
        let mut rows = Vec::new();
        for sequence in 0..ROUND {
            let there = 6_000 + sequence * 7_919 % 4_000 + if sequence % 500 == 3 { 180_000 } else { 0 };
            let latency = there + 9_000 + sequence * 104_729 % 6_000;
            histogram.record(latency);
            let (latency_ns, far_ns) = (Some(latency), Some(there));
            rows.push(MessageRow { pass, sequence, start_ns: now, latency_ns, far_ns, ..MessageRow::default() });
            now += latency + 200;
        }
        let mut round =
            RoundRecord { pass, start_ns, batch: 1, latency: histogram.to_sparse(), ..RoundRecord::default() };
        for end in round.reports_mut() {
            (end.delivery.sent, end.delivery.received, end.delivery.verified) = (ROUND, ROUND, ROUND);
            (end.bytes_sent, end.bytes_received) = (ROUND * 64, ROUND * 64);
            (end.elapsed_ns, end.user_ns) = (now - start_ns, ROUND * 1_000);
        }
        writer.round(&round, &rows).unwrap();
    }
    finished(writer, folder)
}

/// How much more memory verifying and showing the run took at once because of its messages, bytes; and reading it.
fn peaks(rounds: u32) -> [(&'static str, u64); 4] {
    let place = tempfile::tempdir().unwrap();
    let run = recorded(place.path(), rounds);
    let summary = summarise(&run);
    let stored = serde_json::to_vec(&summary).unwrap();
    let log = MessageLog::open(&run).unwrap();
    let peak = |work: &dyn Fn()| allocation_counter::measure(work).bytes_max;
    let more = |work: &dyn Fn(&dyn Messages)| peak(&|| work(&log)).saturating_sub(peak(&|| work(&NO_MESSAGES)));
    let verified = |messages: &dyn Messages| {
        let check = verify(&run, messages, Some(&stored), &run.header.version);
        assert_eq!((check.status, check.disagreements.len()), (Status::Ok, 0), "{:?}", check.disagreements);
        assert_eq!(check.cases_from_messages, u64::from(!messages.index().is_empty()));
    };
    let barred = |messages: &dyn Messages| {
        let bars = terminal::stage_bars(&run, &summary, messages, Style::default());
        assert_eq!(bars.contains("request"), !messages.index().is_empty(), "{bars}");
    };
    let reported = |logged: &dyn Messages| {
        let messages = html::Messages { logged, embed: 1_000, not_kept: 0 };
        let page = html::report(&Scene { messages, ..Scene::new(&run, &summary) });
        assert_eq!(page.contains("id=\"log\""), !logged.index().is_empty());
    };
    [
        ("read", peak(&|| drop(msgpath_record::read(place.path()).unwrap()))),
        ("verify", more(&verified)),
        ("stages", more(&barred)),
        ("report", more(&reported)),
    ]
}

#[test]
fn four_times_the_messages_do_not_take_more_memory() {
    for ((what, few), (_, many)) in peaks(20).into_iter().zip(peaks(80)) {
        // What a round leaves behind, its histogram and its place in pictures, is little beside its messages.
        let more = many.saturating_sub(few) as f64 / (60 * ROUND) as f64;
        assert!(more < 5.0, "{what}: {few} bytes became {many}, {more:.1} a message");
    }
}
