//! A run of this version of the schema, kept in `tests/golden`, and what readers say of other versions.

use std::fs;
use std::path::{Path, PathBuf};

use msgpath_core::schema::{KernelEvent, MessageRow, Status};
use msgpath_core::{Exit, Problem};

use crate::columns::{self, Logged};
use crate::{
    EVENTS_FILE, HEADER_FILE, MESSAGES_FILE, ROUNDS_FILE, RecordError, WrittenBy, block, events, messages, read, store,
    test_run,
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/run-3-block-4")
}

/// The golden run, in a folder that may be changed.
fn copy() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("golden")).unwrap();
    for name in [HEADER_FILE, ROUNDS_FILE, MESSAGES_FILE, EVENTS_FILE] {
        fs::copy(golden().join(name), place.path().join("golden").join(name)).unwrap();
    }
    place
}

/// Writes the golden run: `cargo test -p msgpath-record write_the_golden_run -- --ignored`. Only for a new version. Features with a log
/// of their own add theirs.
#[test]
#[ignore = "writes into the sources"]
fn write_the_golden_run() {
    let mut writer = crate::RunWriter::create(&golden(), &test_run::header(15)).unwrap();
    for (pass, case) in (0..3).flat_map(|pass| [(pass, 0), (pass, 1)]) {
        if case == 0 {
            writer.pass(&test_run::pass(pass)).unwrap();
        }
        writer.round(&test_run::round(case, pass), &test_run::rows(case, pass, 10)).unwrap();
    }
    writer.events(1, 0, &test_run::events(30)).unwrap();
    writer.finish(test_run::end(Status::Ok)).unwrap();
}

#[test]
fn the_golden_run_reads_as_ever() {
    let folder = &golden();
    let (run, passes) = crate::read_with_passes(folder).unwrap();
    assert_eq!(run.header.schema, "msgpath/run/3");
    assert_eq!((passes.len(), passes[2].pass, passes[2].cases.as_slice()), (3, 2, [0, 1].as_slice()));
    let pilot = &run.header.pilots[1];
    assert_eq!((pilot.case, pilot.message_ns, pilot.messages, pilot.batch), (1, 8_123.4, 10, 1));
    assert_eq!(run.damage, None);
    assert_eq!((run.header.name.as_str(), run.header.plan.seed), ("brisk-otter", u64::MAX));
    let labels: Vec<String> = run.header.plan.cases.iter().map(|case| case.path.to_string()).collect();
    assert_eq!(labels, ["tcp:send", "tcp:zerocopy"]);
    assert_eq!(run.rounds.len(), 6);
    let round = &run.rounds[5];
    assert_eq!((round.case, round.pass, round.start_ns), (1, 2, 7_500_000_000));
    assert_eq!((round.latency.total(), round.latency.lost()), (10, 1));
    assert_eq!(
        (round.near().calls.send_calls, round.far().run_delay_ns, round.near().zerocopy.copied),
        (10, Some(77), 9)
    );
    assert_eq!(round.flags, ["migrated", "throttled"]);
    let end = run.end.unwrap();
    assert_eq!(
        (end.status, end.messages_not_kept, end.granted[&0][0].option.as_str()),
        (Status::Ok, 45, "TCP_NODELAY")
    );
    let rows: Vec<_> = messages(folder).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[3].latency_ns, rows[3].far_ns), (15, Some(8_300), Some(4_003)));
    let rounds: Vec<_> = events(folder).unwrap().map(Result::unwrap).collect();
    assert_eq!((rounds.len(), rounds[0].events[29].t_ns, rounds[0].events[29].tid), (1, 1_020_300, 1_002));
}

#[test]
fn the_logs_of_the_golden_run_are_written_to_the_bit() {
    fn again<L: Logged>(file: &str) -> usize {
        let bytes = fs::read(golden().join(file)).unwrap();
        let (mut blocks, mut payload, mut rows) =
            (block::Blocks::new(bytes.as_slice()), Vec::new(), Vec::<L::Row>::new());
        let mut count = 0;
        while blocks.next(&mut payload).unwrap().is_some() {
            let (case, pass) = columns::decode::<L>(&payload, &mut rows).unwrap();
            assert_eq!(columns::encode::<L>(case, pass, &rows).unwrap(), payload);
            count += rows.len();
        }
        count
    }
    assert_eq!((again::<MessageRow>(MESSAGES_FILE), again::<KernelEvent>(EVENTS_FILE)), (15, 30));
}

/// The block that begins at `at`, made one of another version, checksum and all.
fn as_version(bytes: &mut [u8], at: usize, version: u8) {
    let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    bytes[at + 4] = version;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[at + 4..at + 12]);
    crc.update(&bytes[at + block::HEAD..at + block::HEAD + length]);
    bytes[at + 12..at + 16].copy_from_slice(&crc.finalize().to_le_bytes());
}

#[track_caller]
fn is_of_another_version(folder: &Path, by: WrittenBy) {
    let error = read(folder).unwrap_err();
    assert!(matches!(&error, RecordError::OtherVersion { by: found, .. } if *found == by), "{error}");
    let problem = Problem::from(error);
    assert_eq!((problem.code.as_str(), problem.exit), ("E37", Exit::CannotStart));
    assert!(problem.what.contains(&by.to_string()), "{problem}");
}

#[test]
fn blocks_of_other_versions_are_named_and_not_called_damaged() {
    for (version, by) in
        [(1, WrittenBy::Older), (block::VERSION - 1, WrittenBy::Older), (block::VERSION + 1, WrittenBy::Newer)]
    {
        for name in [ROUNDS_FILE, MESSAGES_FILE, EVENTS_FILE] {
            let place = copy();
            let folder = place.path().join("golden");
            let mut bytes = fs::read(folder.join(name)).unwrap();
            as_version(&mut bytes, 0, version);
            fs::write(folder.join(name), bytes).unwrap();
            is_of_another_version(&folder, by);
            if name == ROUNDS_FILE {
                let store = store::Store::new(place.path().into(), []);
                assert!(store.kept().is_empty());
                assert!(matches!(store.unreadable().as_slice(), [RecordError::OtherVersion { .. }]));
            }
        }
    }
}

/// As the header of `json` would be written, with the checksum of its first line.
fn sealed(json: &str) -> Vec<u8> {
    let rest = json.split_once('\n').unwrap().1;
    format!("{{ \"crc32\": \"{:08x}\",\n{rest}", crc32fast::hash(rest.as_bytes())).into_bytes()
}

#[test]
fn headers_of_other_versions_are_named_and_not_called_damaged() {
    let schema = "msgpath/run/3";
    let json = fs::read_to_string(golden().join(HEADER_FILE)).unwrap();
    // Without its end, and so without the checksum that it holds: as while it goes on.
    let place = copy();
    let folder = place.path().join("golden");
    fs::write(folder.join(ROUNDS_FILE), "").unwrap();
    for (from, to, by) in [(schema, "msgpath/run/4", WrittenBy::Newer), (schema, "msgpath/run/2", WrittenBy::Older)] {
        assert!(json.contains(from));
        fs::write(folder.join(HEADER_FILE), sealed(&json.replacen(from, to, 1))).unwrap();
        is_of_another_version(&folder, by);
    }
    // A feature that is not in this program.
    fs::write(
        folder.join(HEADER_FILE),
        sealed(&json.replacen("\"workload\": \"echo\"", "\"workload\": \"gossip\"", 1)),
    )
    .unwrap();
    let problem = Problem::from(read(&folder).unwrap_err());
    assert_eq!((problem.code.as_str(), problem.exit), ("E37", Exit::CannotStart));
    assert!(problem.what.ends_with("lacks: gossip") && problem.why.contains("echo, stream"), "{problem}");
    // Schema 1 had no checksum in its first line.
    let bare = format!("{{\n{}", json.split_once('\n').unwrap().1).replacen(schema, "msgpath/run/2", 1);
    fs::write(folder.join(HEADER_FILE), bare).unwrap();
    is_of_another_version(&folder, WrittenBy::Older);
    for other in ["schema of nobody", "msgpath/run/x"] {
        fs::write(folder.join(HEADER_FILE), sealed(&json.replacen(schema, other, 1))).unwrap();
        assert!(matches!(read(&folder), Err(RecordError::BadHeader { .. })));
    }
}

/// Also while the run goes on, when there is no end yet that holds a checksum.
#[test]
fn a_header_that_does_not_fit_its_first_line_is_damaged_whatever_it_says() {
    let json = fs::read_to_string(golden().join(HEADER_FILE)).unwrap();
    let place = copy();
    let folder = place.path().join("golden");
    fs::write(folder.join(ROUNDS_FILE), "").unwrap();
    fs::write(folder.join(HEADER_FILE), json.replacen("msgpath/run/3", "msgpath/run/4", 1)).unwrap();
    assert!(matches!(read(&folder), Err(RecordError::BadHeader { .. })), "it only looks like a newer one");
    fs::write(folder.join(HEADER_FILE), json.replacen("\"rounds\": 3", "\"rounds\": 4", 1)).unwrap();
    let damage = read(&folder).unwrap().damage.unwrap();
    assert!(damage.file == HEADER_FILE && damage.why.contains("was changed"), "{damage}");
    let bare = format!("{{\n{}", json.split_once('\n').unwrap().1);
    fs::write(folder.join(HEADER_FILE), bare).unwrap();
    assert!(read(&folder).unwrap().damage.is_some(), "the checksum was taken away");
}

/// Every byte of the header becomes another one that JSON lets through: no change of a finished run goes unseen.
#[test]
fn every_changed_byte_of_the_header_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let mut writer = crate::RunWriter::create(&folder, &test_run::header(0)).unwrap();
    writer.finish(test_run::end(Status::Ok)).unwrap();
    let whole = fs::read(folder.join(HEADER_FILE)).unwrap();
    let mut survived = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] = match bytes[at] {
            b'9' => b'8',
            digit @ b'0'..=b'8' => digit + 1,
            b'z' => b'y',
            letter @ b'a'..=b'y' => letter + 1,
            b' ' => b'\n',
            b'\n' => b' ',
            other => other ^ 1,
        };
        fs::write(folder.join(HEADER_FILE), &bytes).unwrap();
        match read(&folder) {
            Ok(run) => {
                let damage = run.damage.unwrap_or_else(|| panic!("byte {at} was changed and nothing noticed it"));
                survived += usize::from(damage.file == HEADER_FILE && damage.why.contains("was changed"));
            }
            Err(error) => assert!(matches!(error, RecordError::BadHeader { .. }), "byte {at}: {error}"),
        }
    }
    assert!(survived > whole.len() / 4, "{survived} of {} bytes survived the parser", whole.len());
}

#[test]
fn a_header_that_was_replaced_during_the_run_is_not_called_changed() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = crate::RunWriter::create(place.path(), &test_run::header(0)).unwrap();
    let later = msgpath_core::schema::RunHeader { target: "another".into(), ..test_run::header(0) };
    writer.replace_header(&later).unwrap();
    let end = writer.finish(test_run::end(Status::Ok)).unwrap();
    assert!(end.header_crc32.is_some() && writer.replace_header(&later).is_err());
    let run = read(place.path()).unwrap();
    assert_eq!((run.header, run.damage), (later, None));
}
