//! A small run for the tests of this crate.

use std::path::Path;

use msgpath_core::Workload;
use msgpath_core::plan::{Extent, Plan};
use msgpath_core::resume::{PassRecord, Pilot};
use msgpath_core::schema::{
    ClockFacts, EndReport, Environment, EventKind, Granted, KernelEvent, MessageRow, RoundRecord, RunEnd, RunHeader,
    Status, TcpInfo,
};
use msgpath_core::units::Pieces;
use msgpath_core::workload::Answer;
use msgpath_core::{CallCounts, Case, Delivery, Histogram, PathName, ZeroCopyCounts};

use crate::block::Kind;
use crate::columns::{Column, Logged, Stored, stored};
use crate::{AnyLog, OfCase, RunLog, RunWriter};

/// What [`write`] put on disk.
pub(crate) struct Written {
    pub(crate) header: RunHeader,
    pub(crate) rounds: Vec<RoundRecord>,
    pub(crate) rows: Vec<MessageRow>,
    pub(crate) end: RunEnd,
}

/// Of a server that reports nothing of itself.
pub(crate) static ASKED: Workload = Workload { name: "asked", answer: Answer::Server, ..*Workload::ECHO };

/// Two cases of three rounds.
pub(crate) fn header(message_log: u64) -> RunHeader {
    let case = |id, method: &str, size: u32| {
        let pieces = Pieces::of(1 + id, size / (1 + id));
        Case { id, reply: 64, ..Case::new(PathName::new("tcp", method, "block"), pieces) }
    };
    let cases = vec![case(0, "send", 64), case(1, "zerocopy", 65_536)];
    let plan = Plan {
        rounds: 3,
        seed: u64::MAX,
        extent: Extent::Count(30),
        trim: 0,
        message_log,
        ..Plan::new(Workload::ECHO, cases)
    };
    let mut header = RunHeader {
        started: "2026-11-21T10:04:05Z".into(),
        command: vec!["msgpath".into(), "compare".into()],
        version: "0.1.0".into(),
        target: "this machine".into(),
        pilots: vec![pilot(0), pilot(1)],
        ..RunHeader::new("brisk-otter", "compare", plan)
    };
    header.set_hosts(["a", "b"].map(|host| Environment { host: host.into(), ..Environment::default() }));
    header.ends[0].clock = ClockFacts { cost_ns: 23.7, step_ns: 1 };
    header
}

/// Ten messages of a case, the last one lost in case 1.
pub(crate) fn round(case: u32, pass: u32) -> RoundRecord {
    let mut latency = Histogram::new();
    let lost = u64::from(case == 1);
    (0..10 - lost).for_each(|n| latency.record(latency_ns(case, pass, n)));
    latency.record_lost(lost);
    let end = EndReport {
        calls: CallCounts { send_calls: 10, recv_calls: 11, recv_full: 10, recv_short: 1, ..CallCounts::default() },
        user_ns: 1_000,
        system_ns: 90_000,
        elapsed_ns: 100_000,
        bytes_sent: 640,
        bytes_received: 640,
        delivery: Delivery { sent: 10, received: 10 - lost, lost, ..Delivery::default() },
        tcp: Some(TcpInfo { segs_out: 12, snd_mss: 65_483, ..TcpInfo::default() }),
        ..EndReport::default()
    };
    let zerocopy =
        ZeroCopyCounts { asked: 10, copied: 9, unanswered: 1, notifications: 2, ..ZeroCopyCounts::default() };
    RoundRecord {
        case,
        pass,
        position: case,
        start_ns: start_ns(case, pass),
        batch: 1,
        connect_ns: Some(40_000),
        ends: vec![
            EndReport { zerocopy: if case == 1 { zerocopy } else { ZeroCopyCounts::default() }, ..end }.into(),
            EndReport { run_delay_ns: Some(77), ..end }.into(),
        ],
        flags: if pass == 2 { vec!["migrated".into(), "throttled".into()] } else { Vec::new() },
        latency: latency.to_sparse(),
        ..RoundRecord::default()
    }
}

fn start_ns(case: u32, pass: u32) -> u64 {
    u64::from(pass * 2 + case) * 1_500_000_000
}

fn latency_ns(case: u32, pass: u32, n: u64) -> u64 {
    8_000 + u64::from(case) * 5_000 + u64::from(pass) * 10 + n * 100
}

pub(crate) fn pass(pass: u32) -> PassRecord {
    PassRecord { pass, cases: vec![0, 1], ..PassRecord::default() }
}

/// What a pilot found of a case.
pub(crate) fn pilot(case: u32) -> Pilot {
    Pilot { case, message_ns: 8_123.4, messages: 10, trim: 100, batch: 1, median_ns: Some(8_100), ..Pilot::default() }
}

/// `count` messages of a round.
pub(crate) fn rows(case: u32, pass: u32, count: u64) -> Vec<MessageRow> {
    (0..count)
        .map(|n| MessageRow {
            case,
            pass,
            connection: 0,
            sequence: 100 + n,
            start_ns: start_ns(case, pass) + n * 20_000,
            latency_ns: (n + 1 < 10 || case == 0).then(|| latency_ns(case, pass, n)),
            late_ns: None,
            far_ns: (case == 0).then_some(4_000 + n),
            far_sent_ns: (pass == 2).then_some(5_000 + n),
            sent_ns: (pass == 2).then_some(1_000 + n),
            ..MessageRow::default()
        })
        .collect()
}

/// A row of the log of a feature, with every form that those of the base lack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Note {
    pub(crate) case: u32,
    pub(crate) pass: u32,
    pub(crate) number: u32,
    pub(crate) key: [u8; 16],
    pub(crate) since_ns: Option<i64>,
}

pub(crate) static NOTES: AnyLog = AnyLog::of::<Note>();

static COLUMNS: [Column<Note>; 3] = [
    Column::<Note>::stored("number", "", "its number", stored!(Itself, number)).required(),
    Column::stored("key", "", "what it is about", Stored::Key(|row| &row.key, |row| &mut row.key)),
    Column::stored("since_ns", "ns", "since when", stored!(?OptionalDifference, since_ns)),
];

impl OfCase for Note {
    fn place(&self) -> (u32, u32) {
        (self.case, self.pass)
    }
}

impl Logged for Note {
    type Row = Self;
    const WHAT: &str = "notes";
    const COLUMNS: &[Column<Self>] = &COLUMNS;

    fn set_place(row: &mut Self, case: u32, pass: u32) {
        (row.case, row.pass) = (case, pass);
    }
}

impl RunLog for Note {
    const FILE: &str = "notes.mpl";
    const KIND: Kind = Kind::new(77, "notes", 1 << 20);

    fn check(rows: &[Self], _: &RunHeader) -> Result<(), String> {
        match rows.iter().find(|row| row.number == u32::MAX) {
            Some(_) => Err("a note without a number".into()),
            None => Ok(()),
        }
    }
}

/// `count` notes of a round.
pub(crate) fn notes(case: u32, pass: u32, count: u32) -> Vec<Note> {
    let note = |number| Note { case, pass, number, key: *b"kkkkk\0\0\0\0\0\0\0\0\0\0\0", since_ns: Some(-3) };
    (0..count).map(note).collect()
}

/// Kernel events of a round.
pub(crate) fn events(count: usize) -> Vec<KernelEvent> {
    (0..count)
        .map(|n| KernelEvent {
            t_ns: 1_000_000 + n as u64 * 700,
            kind: EventKind::ALL[n % EventKind::ALL.len()],
            cpu: n as u16 % 2,
            tid: 1_000 + n as i32 % 3,
            a: 0xffff_9c00_0000_0000 + n as u64 % 7 * 256,
            b: n as u32 % 5,
            len: 130,
            flags: n as u16 % 2,
            end: n as u8 % 2,
        })
        .collect()
}

pub(crate) fn end(status: Status) -> RunEnd {
    let granted = Granted {
        end: "near".into(),
        option: "TCP_NODELAY".into(),
        asked: "1".into(),
        granted: "1".into(),
        same: true,
    };
    RunEnd {
        status,
        ended: "2026-11-21T10:05:00Z".into(),
        problem: None,
        messages_not_kept: 0,
        granted: [(0, vec![granted])].into(),
        header_crc32: None,
    }
}

/// Writes a run of six rounds and sixty messages.
pub(crate) fn write(folder: &Path, message_log: u64) -> Written {
    let header = header(message_log);
    let mut writer = RunWriter::create(folder, &header).unwrap();
    let (mut rounds, mut all) = (Vec::new(), Vec::new());
    for (pass, case) in (0..3).flat_map(|pass| [(pass, 0), (pass, 1)]) {
        if case == 0 {
            writer.pass(&self::pass(pass)).unwrap();
        }
        let (round, rows) = (round(case, pass), rows(case, pass, 10));
        writer.round(&round, &rows).unwrap();
        rounds.push(round);
        all.extend(rows);
    }
    let end = writer.finish(end(Status::Ok)).unwrap();
    Written { header, rounds, rows: all, end }
}
