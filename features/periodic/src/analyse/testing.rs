//! A periodic run whose truth is known: four processes, one engine, ten slices.

use msgpath_core::plan::{Extent, Plan, Stamps};
use msgpath_core::schema::{MessageRow, RoundRecord, RunEnd, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Delivery, Histogram, PathName};
use msgpath_record::Run;

use msgpath_analyse::logs::Logs;
use msgpath_analyse::testing::{Asked, said_with};

use crate::record::{Component, GroupFacts, JoinedGroup, PeriodicFacts, PeriodicSession, SendsToGroup};

/// Four processes of one component on two CPUs.
pub fn facts() -> PeriodicFacts {
    let component = |process: u32| Component {
        process,
        pid: 100 + process as i32,
        sender: 200 + process as i32,
        receiver: 300 + process as i32,
        setup: vec![("process start".into(), 900_000), ("open engine".into(), 60_000)],
        ready_ns: 3_000_000,
        sent: 383,
        received: 1_150,
        sender_delay_ns: Some(383_000),
        receiver_delay_ns: Some(1_150_000),
        ..Component::default()
    };
    PeriodicFacts {
        processes: 4,
        components: 1,
        period_ns: 10_000_000,
        jitter_ns: 0,
        messages: 383,
        first: 50,
        start: "barrier".into(),
        mac: "none".into(),
        cpus: 8,
        group: None,
        sessions: vec![PeriodicSession {
            case: 0,
            restart: 0,
            go_ns: Some(5_000_000),
            before_ready: 0,
            components: (0..4).map(component).collect(),
        }],
    }
}

/// A message to `receiver`, authenticated in 1 µs and checked in 0.5 µs.
pub fn row(receiver: u32, sender: u32, number: u64, start_ns: u64, latency_ns: u64) -> MessageRow {
    MessageRow {
        connection: receiver * 4 + sender,
        sequence: number,
        start_ns,
        latency_ns: Some(latency_ns),
        late_ns: Some(1_000),
        far_ns: Some(latency_ns - 500),
        sent_ns: Some(2_500),
        ..MessageRow::default()
    }
}

/// The run, with what `change` makes of its facts: 600 first messages of 100 to 160 µs, ten slices of 400 of 20 to 24 µs.
pub fn build(change: impl FnOnce(&mut PeriodicFacts)) -> (Run, Logs) {
    with(change, |_| ())
}

/// The same with what `alter` makes of its rounds.
pub fn with(change: impl FnOnce(&mut PeriodicFacts), alter: impl Fn(&mut RoundRecord)) -> (Run, Logs) {
    let case =
        Case { connections: 4, threads: 4, ..Case::new(PathName::new("eth", "send", "sigio"), Pieces::whole(256)) };
    let plan = Plan {
        rounds: 10,
        extent: Extent::Count(383),
        trim: 50,
        stamps: Stamps::Both,
        ..Plan::new(&crate::workload::PERIODIC, vec![case])
    };
    msgpath_analyse::section::add(&crate::section::SECTION);
    let mut header = RunHeader::new("brisk-otter", "periodic", plan);
    header.command = ["msgpath", "periodic", "-x", "eth/sigio", "-n", "4"].map(Into::into).to_vec();
    let mut facts = facts();
    change(&mut facts);
    header.parts.set(facts);
    let rounds = (0..10_u32).map(|pass| {
        let (mut latency, mut first) = (Histogram::new(), Histogram::new());
        (0..400_u64).for_each(|n| latency.record(20_000 + n * 10 + u64::from(pass)));
        if pass == 0 {
            (0..600_u64).for_each(|n| first.record(100_000 + n * 100));
        }
        let messages = latency.total() + first.total();
        let mut round = RoundRecord {
            pass,
            batch: 1,
            start_ns: u64::from(pass) * 400_000_000,
            latency: latency.to_sparse(),
            one_way: latency.to_sparse(),
            first: first.to_sparse(),
            ..RoundRecord::default()
        };
        round.near_mut().delivery =
            Delivery { sent: messages, received: messages, verified: messages, ..Delivery::default() };
        round.far_mut().calls.recv_full = messages;
        (round.near_mut().elapsed_ns, round.far_mut().elapsed_ns) = (400_000_000, 400_000_000);
        alter(&mut round);
        round
    });
    let rounds = rounds.collect();
    let end = RunEnd::of(Ok(true), "");
    (Run { header, rounds, end: Some(end), damage: None, folder: Default::default() }, Logs::default())
}

/// A group of two receivers, the second of which loses every tenth message, with its messages: ten rounds of 100.
pub fn grouped() -> (PeriodicFacts, Vec<MessageRow>) {
    let joined = |lost| JoinedGroup {
        device: "v0".into(),
        buffer: 8 << 20,
        overflowed: Some(lost),
        hops: Some((1, 1)),
        member: Some(true),
        igmp: Some("V3".into()),
        delivered: 1000 - lost,
        lost,
        lost_in_a_row: lost.min(1),
        ..JoinedGroup::default()
    };
    let receives = |lost| Component { received: 1000 - lost, joined: Some(joined(lost)), ..Component::default() };
    let sends = SendsToGroup { device: "v0".into(), hops: 1, looped: true, ..SendsToGroup::default() };
    let sender = Component { sent: 1000, sends: Some(sends), ..Component::default() };
    let facts = PeriodicFacts {
        processes: 3,
        messages: 1000,
        first: 0,
        group: Some(GroupFacts { group: "udp://239.1.1.1%v0:5210".into(), hops: 1, join: None, hosts: Vec::new() }),
        sessions: vec![PeriodicSession {
            components: vec![sender, receives(0), receives(100)],
            ..PeriodicSession::default()
        }],
        ..facts()
    };
    let rows = (0..1000_u64).flat_map(|sequence| {
        (1..3_u32).map(move |receiver| MessageRow {
            connection: receiver * 3,
            sequence,
            pass: (sequence / 100) as u32,
            start_ns: sequence * 1_000_000,
            latency_ns: (receiver == 1 || sequence % 10 != 0)
                .then(|| 20_000 + (sequence * 37 % 100) * 10 * u64::from(receiver) + 4_000 * u64::from(receiver - 1)),
            ..MessageRow::default()
        })
    });
    (facts, rows.collect())
}

/// The run of [`grouped`] with its log, and what `change` makes of its facts.
pub fn group(change: impl FnOnce(&mut PeriodicFacts)) -> (Run, Logs) {
    let (facts, rows) = grouped();
    let (run, mut logs) = build(|own| {
        *own = facts;
        change(own);
    });
    logs.add(crate::log::Sent(rows.into()));
    (run, logs)
}

/// What a receiver of [`group`] saw.
///
/// # Panics
/// It is none.
pub fn joined(facts: &mut PeriodicFacts, number: usize) -> &mut JoinedGroup {
    facts.sessions[0].components[number].joined.as_mut().expect("a receiver")
}

/// What was found out, each after its confidence word.
pub fn sentences<'a>((run, logs): &(Run, Logs), asked: impl Into<Asked<'a>>) -> Vec<String> {
    said_with(run, logs, asked)
}
