//! Reports of runs that the program made.

use std::path::{Path, PathBuf};

use msgpath_core::Histogram;
use msgpath_record::{RunWriter, read};

use crate::command::Home;

/// Measures with the words of a line, which end with the name of the run, and writes the report beside the record.
#[track_caller]
pub(crate) fn report(home: &Home, line: &str) -> PathBuf {
    home.run(line).ends_with(0);
    let name = line.rsplit(' ').next().expect("a name");
    report_of(home, &home.runs().join(name))
}

/// What a program that is killed in its first round leaves behind: the header of a real run, and nothing else.
#[track_caller]
pub(crate) fn killed_early(home: &Home) -> PathBuf {
    home.run("echo -x unix:send -c 5 -r 1 -w 0 --name whole").ends_with(0);
    let mut header = msgpath_record::header(&home.runs().join("whole")).expect("a header");
    header.name = "killed-early".into();
    let folder = home.runs().join(&header.name);
    RunWriter::create(&folder, &header).expect("a record");
    report_of(home, &folder)
}

/// TEST DATA: a real run whose record is changed so that no message arrived.
#[track_caller]
pub(crate) fn all_lost(home: &Home) -> PathBuf {
    home.run("echo -x udp:send -c 50 -r 5 -w 0 --name arrived").ends_with(0);
    let from = home.runs().join("arrived");
    let run = read(&from).expect("a run");
    let rows: Vec<_> = msgpath_record::messages(&from).expect("its messages").map(|row| row.expect("whole")).collect();
    let folder = home.runs().join("test-data-all-lost");
    let mut header = run.header.clone();
    (header.name, header.target) = ("test-data-all-lost".into(), "TEST DATA: nothing arrived".into());
    let mut writer = RunWriter::create(&folder, &header).expect("a record");
    for mut round in run.rounds.clone() {
        let mut lost: Vec<_> =
            rows.iter().filter(|row| (row.case, row.pass) == (round.case, round.pass)).copied().collect();
        lost.iter_mut().for_each(|row| (row.latency_ns, row.far_ns) = (None, None));
        let mut latency = Histogram::new();
        latency.record_lost(lost.len() as u64);
        round.latency = latency.to_sparse();
        for end in round.reports_mut() {
            (end.delivery.received, end.delivery.verified, end.delivery.lost) = (0, 0, lost.len() as u64);
        }
        writer.round(&round, &lost).expect("a round");
    }
    writer.finish(run.end.expect("it ended")).expect("an end");
    report_of(home, &folder)
}

/// Writes the report of a recorded run, as a user does.
#[track_caller]
fn report_of(home: &Home, folder: &Path) -> PathBuf {
    let file = folder.join("report.html");
    home.msgpath(&["report", folder.to_str().expect("a plain path")])
        .ends_with(0)
        .shows(&[file.to_str().expect("a plain path")]);
    file
}
