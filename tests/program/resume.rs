//! Runs that were cut short go on: every planned round is there once, whatever ended the program, and what cannot go on is
//! refused with its reason.

use std::collections::HashMap;
use std::path::Path;

use msgpath_core::schema::{NEAR, RoundRecord, Status};
use msgpath_record::Run;

use crate::command::{Home, LIMIT, free_port};

/// Two paths, 20 rounds, of 40 messages each; a round takes 120 ms at least, so that the run can be met in its middle.
const LONG: &str = "echo -x tcp:send,unix:send -c 400 -r 10 -w 0 -o service-time=3ms,restarts=2,what-ifs=no,extend=no,events=off \
                    --name cut";
/// The same in no time.
pub(crate) const SHORT: &str =
    "echo -x tcp:send,unix:send -c 60 -r 6 -w 0 -o what-ifs=no,extend=no,events=off --name cut";

fn read(home: &Home) -> Run {
    msgpath_record::read(&home.runs().join("cut")).unwrap()
}

/// Asserts that every round of every case is there once, with all its messages, in the order that was drawn, and that all
/// numbers can be computed again.
#[track_caller]
fn is_whole(home: &Home, messages: u64) -> Run {
    let run = read(home);
    assert_eq!(run.damage, None);
    assert_eq!(run.end.as_ref().map(|end| end.status), Some(Status::Ok));
    let plan = &run.header.plan;
    let mut places: Vec<(u32, u32)> = run.rounds.iter().map(|round| (round.pass, round.case)).collect();
    let measured = places.clone();
    places.sort_unstable();
    let planned: Vec<(u32, u32)> =
        (0..plan.rounds).flat_map(|pass| (0..plan.cases.len() as u32).map(move |case| (pass, case))).collect();
    assert_eq!(places, planned);
    let order = |pass| msgpath_core::shuffle::order(plan.seed, pass, plan.cases.len());
    let drawn: Vec<(u32, u32)> =
        (0..plan.rounds).flat_map(|pass| order(pass).into_iter().map(move |case| (pass, case as u32))).collect();
    assert_eq!(measured, drawn);
    assert!(run.rounds.is_sorted_by_key(|round| round.start_ns), "the clock of the run goes on");
    let mut rows: HashMap<(u32, u32), u64> = HashMap::new();
    for row in msgpath_record::messages(&run.folder).unwrap().map(Result::unwrap) {
        *rows.entry((row.pass, row.case)).or_default() += 1;
    }
    let of_round = messages / u64::from(plan.rounds);
    assert!(planned.iter().all(|place| rows.get(place) == Some(&of_round)), "{rows:?}");
    assert!(run.rounds.iter().all(|round| round.latency.total() == of_round));
    home.run("verify cut").ends_with(0);
    run
}

#[test]
fn a_run_that_is_killed_again_and_again_has_every_round_once() {
    let home = Home::new();
    let mut restarts = 0;
    let mut command = LONG;
    for (rounds, signal) in [(1, "KILL"), (6, "KILL"), (9, "INT"), (15, "KILL"), (19, "KILL")] {
        let mut running = home.start(command);
        // A machine that stood still may have let it end.
        if running.meets(&home.runs().join("cut"), rounds) {
            running.signal(signal);
        }
        running.finish(LIMIT);
        if read(&home).end.is_some_and(|end| end.status == Status::Ok) {
            break;
        }
        restarts += 1;
        command = "resume cut --json";
    }
    let cut = read(&home);
    let whole = cut.end.is_some_and(|end| end.status == Status::Ok);
    let pilots = cut.header.pilots;
    let output = home.run("resume cut").ends_with(0).shows(&["tcp:send", "unix:send"]);
    assert!(whole || output.err.contains("note: cut goes on after"), "{}", output.err);
    let run = is_whole(&home, 400);
    assert_eq!(run.header.pilots, pilots, "nothing is piloted again");
    assert!(run.header.resumed.len() >= restarts, "{:?}", run.header.resumed);
    assert!(run.header.resumed.iter().all(|resumed| resumed.differs.is_empty()));
    // Every part that was resumed and had a round to measure, and every planned restart, is a process of its own.
    let last = |rounds: &[RoundRecord]| rounds.iter().map(|round| round.restart).max();
    let measured = run.header.resumed.iter().filter(|resumed| (resumed.rounds as usize) < run.rounds.len()).count();
    assert_eq!(last(&run.rounds), Some(1 + measured as u32));
    assert!(run.rounds.is_sorted_by_key(|round| round.restart));
    assert!(!home.run("show cut -W").ends_with(0).out.contains("the run was resumed although"));
}

/// Copies of a whole run, cut as a program leaves them that is killed.
#[test]
fn a_run_that_is_cut_anywhere_goes_on() {
    let whole = Home::new();
    whole.run(SHORT).ends_with(0);
    let folder = whole.runs().join("cut");
    let rounds = std::fs::read(folder.join("rounds.mpl")).unwrap();
    let log = std::fs::read(folder.join("messages.mpl")).unwrap();
    let ends = ends_of_blocks(&rounds);
    let count = ends.len();
    // Without its end; in the middle of a round; between two; within the first; without any.
    for (length, of_log) in [
        (ends[count - 2], log.len()),
        (ends[count - 2] - 1, log.len()),
        (ends[count / 2], log.len() / 2 + 30),
        (ends[1] / 2, log.len()),
        (0, 5),
    ] {
        let home = Home::new();
        copy(&folder, &home.runs().join("cut"));
        std::fs::remove_file(home.runs().join("cut/summary.json")).unwrap();
        std::fs::write(home.runs().join("cut/rounds.mpl"), &rounds[..length]).unwrap();
        // The log has at least what the rounds that are there need, as it is written before them.
        let needed = ends_of_blocks(&log)[ends.iter().filter(|end| **end <= length).count().saturating_sub(1) * 2 / 3];
        std::fs::write(home.runs().join("cut/messages.mpl"), &log[..of_log.max(needed)]).unwrap();
        home.run("resume cut -q").ends_with(0);
        is_whole(&home, 60);
        home.run("resume cut").ends_with(0).says(&["nothing is missing of cut"]);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Where each block of a file ends; 0 stands before the first.
fn ends_of_blocks(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while ends[ends.len() - 1] < bytes.len() {
        let at = ends[ends.len() - 1];
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        ends.push(at + 16 + length as usize);
    }
    ends
}

/// Takes the last two rounds and the end of the run `cut` away.
pub(crate) fn cut_short(home: &Home) {
    let file = home.runs().join("cut/rounds.mpl");
    let bytes = std::fs::read(&file).unwrap();
    let ends = ends_of_blocks(&bytes);
    std::fs::write(&file, &bytes[..ends[ends.len() - 4]]).unwrap();
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Changes the header as if it had been written so.
#[track_caller]
pub(crate) fn rewrite(home: &Home, name: &str, from: &str, to: &str) {
    let file = home.runs().join(name).join("run.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let rest = text.split_once('\n').unwrap().1;
    assert!(rest.contains(from), "{from} is not in {rest}");
    let rest = rest.replace(from, to);
    std::fs::write(&file, format!("{{ \"crc32\": \"{:08x}\",\n{rest}", crc32(rest.as_bytes()))).unwrap();
}

#[test]
fn a_run_that_lacks_nothing_is_shown_again() {
    let home = Home::new();
    home.run(&format!("{SHORT} --fail-if loss>50%")).ends_with(0);
    let before = std::fs::read(home.runs().join("cut/rounds.mpl")).unwrap();
    let shown = home.run("show cut --json").ends_with(0).json();
    let resumed = home.run("resume @last --json").ends_with(0).says(&["nothing is missing"]).json();
    assert_eq!(resumed["cases"], shown["cases"]);
    assert_eq!(std::fs::read(home.runs().join("cut/rounds.mpl")).unwrap(), before);
    home.run("resume other").ends_with(2).says(&["error[E08]"]);
}

/// The lab of a run that made one for itself.
const OWN_LAB: &str = r#""between": {
  "ends": [
    { "name": "lab a", "namespace": "/proc/1/ns/net", "address": "10.66.0.1" },
    { "name": "lab b", "namespace": "/proc/1/ns/net", "address": "10.66.0.2" }
  ], "link": null, "properties": "" }"#;

#[test]
fn what_is_damaged_newer_or_of_another_kind_is_refused() {
    let home = Home::new();
    home.run(SHORT).ends_with(0);
    cut_short(&home);
    let folder = home.runs().join("cut");
    let [rounds, header] = ["rounds.mpl", "run.json"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let refused = |code: &str, parts: &[&str]| {
        let output = home.run("resume cut").ends_with(3).says(&[code]).says(parts);
        assert!(output.out.is_empty(), "{}", output.out);
    };
    let mut damaged = rounds.clone();
    damaged[rounds.len() / 2] ^= 0xff;
    std::fs::write(folder.join("rounds.mpl"), &damaged).unwrap();
    refused("error[E59]", &["cannot be resumed: rounds.mpl is whole up to byte", "nobody knows what is missing"]);
    assert_eq!(std::fs::read(folder.join("rounds.mpl")).unwrap(), damaged, "it is left as it is");
    std::fs::write(folder.join("rounds.mpl"), &rounds).unwrap();

    let changed = String::from_utf8(header.clone()).unwrap().replace("\"trim\": 0", "\"trim\": 1");
    std::fs::write(folder.join("run.json"), changed.replace("\"restarts\": 1", "\"restarts\": 2")).unwrap();
    refused("error[E59]", &["the header was changed"]);

    let put_back = || std::fs::write(folder.join("run.json"), &header).unwrap();
    for (from, to, code, part) in [
        ("msgpath/run/3", "msgpath/run/4", "error[E37]", "written by a newer version"),
        ("msgpath/run/3", "msgpath/run/2", "error[E37]", "written by an older version"),
        ("\"workload\": \"echo\"", "\"workload\": \"rpc\"", "error[E59]", "made in one go"),
        ("\"between\": null", OWN_LAB, "error[E59]", "its network namespaces are gone"),
        ("\"pilots\"", "\"pilates\"", "error[E59]", "what the pilot found"),
        ("\"message_ns\"", "\"message_ns\": 0.0, \"was\"", "error[E59]", "what the pilot found"),
        ("\"target\": \"this machine\"", "\"target\": \"no target\"", "error[E59]", "is not a target"),
    ] {
        put_back();
        rewrite(&home, "cut", from, to);
        refused(code, &[part]);
    }
    put_back();
    home.run("resume cut").ends_with(0);
    is_whole(&home, 60);
}

#[test]
fn another_boot_needs_force_and_is_named_in_the_result() {
    let home = Home::new();
    home.run(SHORT).ends_with(0);
    cut_short(&home);
    let boot = read(&home).header.host(NEAR).boot_id.clone();
    rewrite(&home, "cut", &boot, "00000000-0000-0000-0000-000000000000");
    let refused = home.run("resume cut").ends_with(3);
    refused.says(&["error[E59]", "was started again since", "msgpath resume cut --force"]);
    home.run("resume cut --force -W").ends_with(0).shows(&["W49", "was started again since"]);
    let run = is_whole(&home, 60);
    assert_eq!((run.header.resumed.len(), run.header.resumed[0].differs.len()), (1, 1));
    home.run("show cut -v").ends_with(0).shows(&["resumed 2"]);
}

/// Sizes that were added near a crossing are a second phase, whose passes follow those of the first.
#[test]
fn a_run_goes_on_in_its_second_phase() {
    let home = Home::new();
    home.run(SHORT).ends_with(0);
    cut_short(&home);
    let header = std::fs::read_to_string(home.runs().join("cut/run.json")).unwrap();
    let (first, second) = header.split_at(header.rfind("\"phase\": 0").expect("of the last case"));
    let changed = format!("{first}{}", second.replacen("\"phase\": 0", "\"phase\": 1", 1));
    let body = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    rewrite(&home, "cut", &body(&header), &body(&changed).replace("\"refine\": false", "\"refine\": true"));
    let rounds = home.runs().join("cut/rounds.mpl");
    std::fs::write(&rounds, []).unwrap();
    for blocks in [8, 18, 21] {
        home.run("resume cut").ends_with(0);
        let run = read(&home);
        let places: Vec<(u32, u32)> = run.rounds.iter().map(|round| (round.pass, round.case)).collect();
        let planned: Vec<(u32, u32)> = (0..12).map(|pass| (pass, pass / 6)).collect();
        assert_eq!((places, run.damage), (planned, None));
        home.run("verify cut").ends_with(0);
        // A pass and its round in turn: in the first phase, in the second, and within a pass of that.
        let bytes = std::fs::read(&rounds).unwrap();
        std::fs::write(&rounds, &bytes[..ends_of_blocks(&bytes)[blocks]]).unwrap();
    }
}

#[test]
fn a_run_that_goes_on_is_not_resumed_by_a_second_process() {
    let home = Home::new();
    let mut running = home.start("echo -t 60s -r 200 -w 0 -o what-ifs=no --name cut");
    assert!(running.meets(&home.runs().join("cut"), 1));
    home.run("resume cut").ends_with(3).says(&["error[E59]", "is still being recorded"]);
    running.signal("KILL");
    running.finish(LIMIT);
}

#[test]
fn a_far_end_that_was_a_serve_is_called_again() {
    let home = Home::new();
    let port = free_port();
    let serve = |home: &Home| {
        let server = home.start(&format!("serve -p {port}"));
        server.until_it_says("serving at");
        server
    };
    let server = serve(&home);
    let line = LONG.replace("echo", &format!("echo 127.0.0.1:{port}")).replace("unix:send", "tcp:writev");
    let mut running = home.start(&line);
    let cut_short = running.meets(&home.runs().join("cut"), 3);
    if cut_short {
        running.signal("KILL");
    }
    running.finish(LIMIT);
    server.signal("INT");
    server.finish(LIMIT);
    if cut_short {
        home.run("resume cut").ends_with(3).says(&["error[E01]"]);
    }
    let server = serve(&home);
    home.run("resume cut").ends_with(0);
    is_whole(&home, 400);
    server.signal("INT");
    server.finish(LIMIT);
}

#[test]
fn of_an_import_nothing_is_missing() {
    let home = Home::new();
    std::fs::write(home.path().join("calls.csv"), "t1,t2,t3,t4\n1000,1010,1020,1030\n2000,2010,2020,2040\n").unwrap();
    home.run("import calls.csv --name cut").ends_with(0);
    home.run("resume cut").ends_with(0).says(&["nothing is missing of cut"]);
    let file = home.runs().join("cut/rounds.mpl");
    let bytes = std::fs::read(&file).unwrap();
    let ends = ends_of_blocks(&bytes);
    std::fs::write(&file, &bytes[..ends[ends.len() - 2]]).unwrap();
    home.run("resume cut").ends_with(3).says(&["error[E59]", "it was imported"]);
}
