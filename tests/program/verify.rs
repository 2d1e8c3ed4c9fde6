//! `msgpath verify` on every kind of record: whole, with a byte changed anywhere, cut, and with a part taken out.

use std::fs;
use std::path::{Path, PathBuf};

use msgpath_core::schema::{RunEnd, Status};
use msgpath_core::units::Pieces;
use msgpath_core::watch::{RequestRow, ServiceCounts, Stage, Times};
use msgpath_core::{Case, Histogram, Launch, Plan, Workload};
use msgpath_mesh::analyse::{Fold, MeshCheck};
use msgpath_mesh::record::{MeshWriter, PairBlock};
use msgpath_mesh::schema::{MeshHeader, PairCase, PairRecord, PairRound, Slot};
use msgpath_tracers::record::{self as tracers, TracersHeader};
use msgpath_watch::analyse::{Choice, summarise};
use msgpath_watch::record::{self as watch, WatchWriter};
use msgpath_watch::record::{SCHEMA, WatchEnd, WatchHeader};

use crate::command::{Home, harmless};

/// The records of one home, by their names.
const KINDS: [&str; 4] = ["run", "mesh", "watch", "tracers"];
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Two calls as strace -ttt -T prints them.
const STRACE: &str =
    "1700000000.000001 read(3, \"a\", 1) = 1 <0.000012>\n1700000000.000101 write(3, \"b\", 1) = 1 <0.000034>\n";

fn folder(home: &Home, kind: &str) -> PathBuf {
    home.runs().join(kind)
}

/// What was watched: requests of one server, `limit` of them with a row, and the summary of them.
fn watched(folder: &Path, requests: u64) {
    let header = WatchHeader {
        schema: SCHEMA.into(),
        name: "watch".into(),
        started: "2026-01-01T00:00:00Z".into(),
        target: "port 6379".into(),
        version: VERSION.into(),
        slowest: 3,
        ..WatchHeader::default()
    };
    let mut writer = WatchWriter::create(folder, &header, requests).unwrap();
    let mut times = Times::default();
    for number in 0..requests {
        let total_ns = 20_000 + number * 100;
        let mut row =
            RequestRow { t0_ns: number * 1_000_000, total_ns, weight: 1, port: 6379, ..RequestRow::default() };
        row.stages[Stage::WorkOnCpu as usize] = total_ns;
        // A block each, so that one can be taken out.
        writer.requests(&[row]).unwrap();
        times.add(&Times(vec![(Times::bucket(total_ns), 1)]));
    }
    let counts = ServiceCounts { port: 6379, requests, times, ..ServiceCounts::default() };
    writer.finish(WatchEnd { duration_ns: 1_000_000_000, services: vec![counts], ..WatchEnd::default() }).unwrap();
    let back = watch::read(folder).unwrap();
    let summary = summarise(&back, Choice::asked(&back.header));
    msgpath_record::write_summary(folder, &serde_json::to_vec_pretty(&summary).unwrap()).unwrap();
}

fn pair(near: u32, far: u32) -> PairBlock {
    let round = |ns: u64| {
        let mut latency = Histogram::new();
        (0..20).for_each(|at| latency.record(ns + at * 100));
        let latency = latency.to_sparse();
        PairRound { sent: 20, received: 20, lost: 0, elapsed_ns: 20 * ns, ends: Vec::new(), latency }
    };
    let cases = vec![PairCase { case: 0, rounds: vec![round(20_000), round(21_000)], unavailable: None }];
    let slot = Slot { near, far, step: near, ..Slot::default() };
    PairBlock::Pair(Box::new(PairRecord { slot, start_ns: 7, tries: 0, cases }))
}

/// A mesh of three hosts with its summary.
fn mesh(folder: &Path) {
    let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
    let header: MeshHeader = serde_json::from_value(serde_json::json!({
        "schema": msgpath_mesh::schema::MESH_SCHEMA, "name": "mesh", "started": "2026-01-01T00:00:00Z", "command": [],
        "version": VERSION, "planned": 3,
        "plan": Plan { rounds: 2, ..Plan::new(Workload::ECHO, vec![case]) },
        "launch": Launch::parse("ssh").unwrap(),
        "hosts": [{ "name": "n1" }, { "name": "n2" }, { "name": "n3" }],
        "order": { "pairs": "all", "retests": 0 },
    }))
    .unwrap();
    let mut writer = MeshWriter::create(folder, &header).unwrap();
    [(0, 1), (1, 2), (2, 0)].iter().for_each(|(near, far)| writer.append(&pair(*near, *far)).unwrap());
    let (ended, granted) = ("2026-01-01T00:01:00Z".into(), Default::default());
    let end = RunEnd { status: Status::Ok, ended, problem: None, messages_not_kept: 0, granted, header_crc32: None };
    writer.finish(&end).unwrap();
    let (mut fold, mut check) = (Fold::new(&header.sla), MeshCheck::default());
    let each = |block: PairBlock| {
        fold.take(&block);
        check.take(&header, &block);
    };
    let mesh = msgpath_mesh::record::read_mesh(folder, each).unwrap();
    let summary = fold.finish(&mesh.header, mesh.end.as_ref(), None);
    let stored = serde_json::to_vec_pretty(&check.stored(&summary)).unwrap();
    msgpath_record::write_summary(folder, &stored).unwrap();
}

/// A record of each kind.
fn recorded() -> Home {
    let home = Home::new();
    home.run("compare -x tcp:send,unix:send -l 64 -c 40 -r 3 -w 0 -o what-ifs=no --name run");
    assert!(folder(&home, "run").is_dir());
    mesh(&folder(&home, "mesh"));
    watched(&folder(&home, "watch"), 40);
    let header = TracersHeader {
        schema: tracers::SCHEMA.into(),
        name: "tracers".into(),
        started: "2026-01-01T00:00:00Z".into(),
        version: VERSION.into(),
        files: vec!["trace.txt".into()],
        ..TracersHeader::default()
    };
    tracers::write(&folder(&home, "tracers"), &header, &[STRACE.as_bytes().to_vec()]).unwrap();
    home
}

/// The files of a record that `verify` reads, with what is in them; not the page of a comparison.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|file| file.extension().is_none_or(|ending| ending != "html"));
    all.sort();
    let read = all.into_iter().map(|file| (file.clone(), fs::read(file).unwrap()));
    read.filter(|(_, bytes)| bytes.len() > 1).collect()
}

#[test]
fn verify_computes_every_kind_of_record_again() {
    let home = recorded();
    for (kind, compared) in KINDS.into_iter().zip(["rounds", "3 pairs", "40 requests", "1 text"]) {
        let output = home.run(&format!("verify {kind}")).ends_with(0);
        output.shows(&[kind, compared, "All agree."]);
        let json = home.run(&format!("verify {} --json", folder(&home, kind).display())).ends_with(0).json();
        assert_eq!(
            (&json["status"], &json["disagreements"]),
            (&"ok".into(), &crate::printed::Value::Array(Vec::new())),
            "{kind}"
        );
        assert!(kind == "tracers" || json["numbers"].as_u64() > Some(10), "{json}");
    }
}

#[test]
fn a_changed_byte_or_a_cut_of_any_file_of_a_record_is_found() {
    let home = recorded();
    for kind in KINDS {
        for (file, whole) in files(&folder(&home, kind)) {
            // Digits beyond those that a number of JSON keeps may be changed unseen there; another test changes its numbers.
            let is_summary = file.ends_with("summary.json");
            let check = |what: &str| {
                let output = home.run(&format!("verify {kind}"));
                let place = format!("{}, {what}", file.display());
                assert!(matches!(output.code, Some(0..=5)), "{place}: {output:?}");
                assert!(is_summary || output.code != Some(0), "{place}: not found:\n{}", output.out);
                assert!(harmless(&output.out) && harmless(&output.err), "{place}: {output:?}");
            };
            for part in 0..8 {
                let at = (whole.len() - 1) * part / 7;
                let mut bytes = whole.clone();
                bytes[at] ^= 0x15;
                fs::write(&file, bytes).unwrap();
                check(&format!("byte {at}"));
            }
            // Inside a block: a log that ends between two of its blocks is only said to be short.
            for cut in [1, 17.min(whole.len() - 1), whole.len() - 1] {
                fs::write(&file, &whole[..cut]).unwrap();
                check(&format!("cut at {cut}"));
            }
            fs::write(&file, &whole).unwrap();
        }
        home.run(&format!("verify {kind}")).ends_with(0);
    }
}

#[test]
fn any_byte_of_any_file_may_be_changed_and_no_reader_panics() {
    let home = recorded();
    for kind in KINDS {
        for (file, whole) in files(&folder(&home, kind)) {
            let step = (whole.len() / 150).max(1);
            for at in (0..whole.len()).step_by(step) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (at % 8);
                fs::write(&file, &bytes).unwrap();
                read(&folder(&home, kind), kind);
                fs::write(&file, &whole[..at]).unwrap();
                read(&folder(&home, kind), kind);
            }
            fs::write(&file, &whole).unwrap();
        }
    }
}

/// Reads a record as far as it goes, and sums up what is there.
fn read(folder: &Path, kind: &str) {
    match kind {
        "run" => {
            let Ok(run) = msgpath_record::read(folder) else { return };
            let Ok(messages) = msgpath_record::MessageLog::open(&run) else { return };
            let stored = msgpath_record::read_summary(folder).ok().flatten();
            msgpath_analyse::verify::verify(&run, &messages, stored.as_deref(), VERSION);
        }
        "mesh" => {
            let Ok(header) = msgpath_mesh::record::mesh_header(folder) else { return };
            let (mut fold, mut check) = (Fold::new(&header.sla), MeshCheck::default());
            let each = |block: PairBlock| {
                fold.take(&block);
                check.take(&header, &block);
            };
            let Ok(mesh) = msgpath_mesh::record::read_mesh(folder, each) else { return };
            let summary = fold.finish(&mesh.header, mesh.end.as_ref(), mesh.damage.as_ref());
            let stored = msgpath_record::read_summary(folder).ok().flatten();
            check.finish(&mesh, &summary, stored.as_deref(), VERSION);
        }
        "watch" => {
            let Ok(watched) = watch::read(folder) else { return };
            let stored = msgpath_record::read_summary(folder).ok().flatten();
            msgpath_watch::analyse::verify_watched(&watched, stored.as_deref(), VERSION);
        }
        _ => drop(tracers::read(folder)),
    }
}

/// The blocks of a file, by the lengths in their heads.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut all) = (bytes, Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (block, after) = rest.split_at(length);
        all.push(block);
        rest = after;
    }
    all
}

#[test]
fn a_row_or_a_pair_that_was_taken_out_is_found() {
    let home = recorded();
    for (kind, file, said) in [
        ("watch", "requests.mpl", "requests with a row"),
        ("mesh", "pairs.mpl", "totals.pairs"),
        ("run", "rounds.mpl", "rounds"),
    ] {
        let file = folder(&home, kind).join(file);
        let whole = fs::read(&file).unwrap();
        let all = blocks(&whole);
        // The last before the end is a row, a pair, a round.
        let without = [&all[..all.len() - 2], &all[all.len() - 1..]].concat().concat();
        fs::write(&file, without).unwrap();
        home.run(&format!("verify {kind}")).ends_with(1).says(&["E27"]).shows(&[said]);
        // Without its end it is not whole.
        fs::write(&file, all[..all.len() - 1].concat()).unwrap();
        home.run(&format!("verify {kind}")).ends_with(4).says(&["E28"]);
        fs::write(&file, [&whole[..], all[0]].concat()).unwrap();
        home.run(&format!("verify {kind}")).ends_with(4).says(&["E28", "is not whole"]);
        fs::write(&file, whole).unwrap();
    }
}

#[test]
fn a_number_of_a_summary_that_was_changed_or_a_summary_that_is_missing_is_found() {
    let home = recorded();
    for (kind, was, is, said) in [
        ("watch", "\"connections\": 0", "\"connections\": 1", "connections"),
        ("mesh", "\"planned\": 3", "\"planned\": 4", "planned"),
        ("run", "\"fastest_ns\": ", "\"fastest_ns\": 1", "fastest_ns"),
    ] {
        let file = folder(&home, kind).join("summary.json");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(was), "{kind}: {text}");
        fs::write(&file, text.replacen(was, is, 1)).unwrap();
        home.run(&format!("verify {kind}")).ends_with(1).says(&["E27", said]);
        fs::remove_file(&file).unwrap();
        home.run(&format!("verify {kind}")).ends_with(1).says(&["E27", "summary.json", "missing"]);
        fs::write(&file, text).unwrap();
    }
}

#[test]
fn a_header_without_a_checksum_is_refused() {
    let home = recorded();
    for (kind, header) in [("watch", "watch.json"), ("mesh", "mesh.json"), ("tracers", "tracers.json")] {
        let file = folder(&home, kind).join(header);
        let text = fs::read_to_string(&file).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(&file, format!("{{\n{rest}")).unwrap();
        home.run(&format!("verify {kind}")).ends_with(3).says(&["E13", header, "no checksum"]);
        home.run(&format!("show {kind}")).ends_with(3).says(&["E13", header]);
    }
}
