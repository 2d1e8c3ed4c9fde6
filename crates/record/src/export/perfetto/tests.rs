//! Every packet is read again by the schema of Perfetto, by numbers and types as its `.proto` files have them.

use msgpath_core::plan::{Load, Plan};
use msgpath_core::schedule::{Arrivals, Rate};

use super::test_trace::{Read, Slice, read};
use super::*;
use crate::export::tests::exported;
use crate::{RunWriter, test_run};

/// The trace of these messages of case 0, in a run of the plan.
fn trace(change: impl FnOnce(&mut Plan), rows: &[MessageRow]) -> Read {
    let place = tempfile::tempdir().unwrap();
    let mut header = test_run::header(u64::MAX);
    change(&mut header.plan);
    let mut writer = RunWriter::create(place.path(), &header).unwrap();
    writer.round(&test_run::round(0, 0), rows).unwrap();
    let mut out = Vec::new();
    Perfetto.export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
    read(&out)
}

fn row(start_ns: u64, latency_ns: u64) -> MessageRow {
    MessageRow { start_ns, latency_ns: Some(latency_ns), ..MessageRow::default() }
}

#[test]
fn every_message_is_a_slice_and_every_round_a_counter() {
    let (bytes, written) = exported("perfetto");
    let read = read(&bytes);
    assert_eq!(read.processes, ["near end a, brisk-otter", "far end b, brisk-otter"]);
    let of_messages = |slice: &&Slice| slice.depth == 0 && slice.track.contains("slot");
    let outer: Vec<(u64, u64)> = read.slices.iter().filter(of_messages).map(|slice| (slice.from, slice.to)).collect();
    let (lost, arrived): (Vec<&MessageRow>, Vec<&MessageRow>) =
        written.rows.iter().partition(|row| row.latency_ns.is_none());
    assert_eq!(
        outer,
        arrived.iter().map(|row| (row.start_ns, row.start_ns + row.latency_ns.unwrap())).collect::<Vec<_>>()
    );
    let instants = |name: &str| -> Vec<u64> {
        read.instants.iter().filter(|(_, instant, _)| instant == name).map(|(_, _, ns)| *ns).collect()
    };
    assert_eq!(instants("lost"), lost.iter().map(|row| row.start_ns).collect::<Vec<_>>());
    // Where the far end stamped its reply as well, its work is a slice instead, and the reply flows back.
    let worked = written.rows.iter().filter(|row| row.far_ns.is_some() && row.far_sent_ns.is_some()).count();
    assert_eq!((instants("arrives at the far end").len(), worked), (20, 10));
    assert_eq!((read.flows.len(), read.notes), (30 + worked, 2 * written.rows.len()));
    let of_rounds = written.rounds.iter().map(|round| (round.start_ns, round.latency.quantile(0.5).flatten().unwrap()));
    let mut counters: Vec<_> = read.counters.iter().map(|(_, ns, value)| (*ns, *value)).collect();
    counters.sort_unstable();
    assert_eq!(counters, of_rounds.collect::<Vec<_>>());
    assert_eq!(read.counters[0].0, "p50 of the round, tcp:send 64 B");
    assert!(read.slices.iter().any(|slice| slice.name == "tcp:zerocopy 2x32768"), "{:?}", read.slices.last());
}

#[test]
fn a_message_consists_of_its_stages() {
    let late = MessageRow { late_ns: Some(30), far_ns: Some(50), ..row(1000, 90) };
    let open = |plan: &mut Plan| {
        plan.cases[0].load = Load::Open { rate: Rate::per_second(10e3).unwrap(), arrivals: Arrivals::Poisson };
    };
    let read = trace(open, &[late, MessageRow { far_ns: None, ..late }, row(2000, 5)]);
    let of = |track: &str| -> Vec<(String, u64, u64, usize)> {
        let own = read.slices.iter().filter(|slice| slice.track.ends_with(track));
        own.map(|slice| (slice.name.clone(), slice.from, slice.to, slice.depth)).collect()
    };
    let stage = |name: &str, from, to| (name.to_owned(), from, to, 1);
    let first = of("slot 0");
    assert_eq!(
        first[..3],
        [stage("waiting to be sent", 1000, 1030), stage("request", 1030, 1050), stage("far end and reply", 1050, 1090)]
    );
    assert!(first[3].0.starts_with("tcp:send 64 B 10") && (first[3].1, first[3].2, first[3].3) == (1000, 1090, 0));
    assert_eq!((first[4].1, first[4].2, first[4].3), (2000, 2005, 0));
    assert_eq!(of("slot 1")[1], stage("send to reply", 1030, 1090));
}

#[test]
fn messages_in_flight_together_have_tracks_of_their_own() {
    let rows: Vec<MessageRow> = (0..200).map(|n| row(n * 10, 5 + n * 37 % 90)).collect();
    let read = trace(|plan| plan.cases[0].inflight = 16, &rows);
    assert_eq!(read.slices.len(), rows.len());
    let in_flight = |at: u64| {
        let is_in_flight = |row: &&MessageRow| row.start_ns <= at && at < row.start_ns + row.latency_ns.unwrap();
        rows.iter().filter(is_in_flight).count()
    };
    let most = rows.iter().map(|row| in_flight(row.start_ns)).max().unwrap();
    let tracks: std::collections::HashSet<_> = read.slices.iter().map(|slice| &slice.track).collect();
    assert!(most > 5 && tracks.len() == most, "{most} in flight, {tracks:?}");
}

#[test]
fn stamps_that_contradict_each_other_make_no_stages() {
    let wrong = MessageRow { late_ns: Some(500), far_ns: Some(20), ..row(10, 100) };
    let read = trace(|_| {}, &[wrong, MessageRow { far_ns: Some(9_000), late_ns: None, ..row(200, 100) }]);
    assert_eq!(read.slices.len(), 2);
    assert!(read.instants.is_empty() && read.flows.is_empty());
}

#[test]
fn a_traced_message_leads_to_the_far_end_and_back() {
    let traced = MessageRow { far_ns: Some(40), far_sent_ns: Some(60), ..row(1_000, 100) };
    let place = tempfile::tempdir().unwrap();
    drop(RunWriter::create(place.path(), &test_run::header(0)).unwrap());
    let run = crate::read(place.path()).unwrap();
    let mut out = Vec::new();
    let mut trace = Trace::new(&run, BufWriter::new(&mut out));
    trace.head(&[], &NOTES).unwrap();
    // The second arrives while the far end works on the first, which only a damaged record has.
    trace.round(&mut vec![traced, MessageRow { start_ns: 1_010, ..traced }]).unwrap();
    trace.out.flush().unwrap();
    drop(trace);
    let read = read(&out);
    let of = |name: &str| -> Vec<(u64, u64)> {
        read.slices.iter().filter(|slice| slice.name == name).map(|slice| (slice.from, slice.to)).collect()
    };
    assert_eq!((of("request"), of("reply")), (vec![(1_000, 1_040), (1_010, 1_050)], vec![(1_060, 1_100)]));
    assert_eq!(of("handler"), [(1_040, 1_060), (1_040, 1_060)], "once for each end");
    assert_eq!(of("far end and reply"), [(1_050, 1_110)]);
    let flows: std::collections::BTreeSet<_> = read.flows.values().copied().collect();
    let flow = |from, to| (Some(from), Some(to));
    assert_eq!(flows, [flow(1_000, 1_040), flow(1_010, 1_050), flow(1_040, 1_060)].into());
}

#[test]
fn the_kernel_has_tracks_of_its_own() {
    use msgpath_core::schema::{EventKind, KernelEvent, TraceRound, Tracing};
    let place = tempfile::tempdir().unwrap();
    let mut header = test_run::header(0);
    header.tracing = Some(Tracing::default());
    drop(RunWriter::create(place.path(), &header).unwrap());
    let mut run = crate::read(place.path()).unwrap();
    let mut round = test_run::round(0, 0);
    round.trace = Some(TraceRound { tasks: [(7, "worker".to_owned())].into(), ..TraceRound::default() });
    run.rounds.push(round);
    let event = |t_ns, kind, tid: i32, a, b| KernelEvent { t_ns, kind, tid, a, b, cpu: 1, ..KernelEvent::default() };
    let events = vec![
        event(10, EventKind::SchedSwitch, 0, 0, 7),
        event(20, EventKind::SysEnter, 7, 44, 0),
        KernelEvent { len: 130, ..event(25, EventKind::NetDevStartXmit, 7, 0xf00, 0) },
        event(30, EventKind::SysExit, 7, 64, 0),
        event(40, EventKind::SchedSwitch, 7, 1, 0),
        event(35, EventKind::SchedWaking, 9, 0, 7), // a clock that goes back
        event(50, EventKind::SysEnter, 7, 45, 0),
    ];
    let mut out = Vec::new();
    let mut trace = Trace::new(&run, BufWriter::new(&mut out));
    trace.head(&[], &NOTES).unwrap();
    trace.kernel(&crate::Events { case: 0, pass: 0, events }).unwrap();
    trace.out.flush().unwrap();
    drop(trace);
    let read = read(&out);
    assert_eq!(read.processes[2], "kernel a, brisk-otter");
    let mut slices: Vec<_> =
        read.slices.iter().map(|slice| (slice.track.as_str(), slice.name.as_str(), slice.from, slice.to)).collect();
    slices.sort_unstable();
    assert_eq!(
        slices,
        [
            ("CPU 1", "idle", 40, 50),
            ("CPU 1", "worker 7", 10, 40),
            ("thread 7, system calls", "system call 44", 20, 30),
            ("thread 7, system calls", "system call 45", 50, 50),
        ]
    );
    let instants: Vec<_> = read.instants.iter().map(|(track, name, ns)| (track.as_str(), name.as_str(), *ns)).collect();
    assert_eq!(instants, [("CPU 1, events", "net_dev_start_xmit", 25), ("CPU 1, events", "sched_waking", 40)]);
}
