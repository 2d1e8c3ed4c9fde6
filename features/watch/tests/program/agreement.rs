//! Our own echo, which keeps its times and is traced (`explain`), watched meanwhile: every message as both have it.

use std::path::Path;

use msgpath_core::schema::MessageRow;
use msgpath_core::watch::{RequestRow, Stage};

/// One message: its time, and that of the server's work, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) total: u64,
    pub(crate) work: u64,
}

/// What is typed: each message is watched, and there is a record of both in the same folder, `watched` and `own`.
pub(crate) fn arguments<'a>(program: &'a str, service: &'a str, count: &'a str, rounds: &'a str) -> Vec<&'a str> {
    let watch = ["watch", "-q", "-t", "600s", "--slow", "1ns", "--name", "watched", "--", program];
    let load = ["explain", "-q", "-x", "tcp:send", "-o", service, "-c", count, "-r", rounds, "-w", "0"];
    [&watch[..], &load, &["--name", "own"]].concat()
}

/// How many messages were traced, and those that both have: as the echo has them, and as watch has. `None`: a record cannot be read.
/// `before`: the client's stamp is less than that before the first that is seen of its send call, ns, and the time between two messages
/// is more.
pub(crate) fn messages(runs: &Path, before: u64) -> Option<(usize, Vec<[Times; 2]>)> {
    let watched = msgpath_watch::record::read(&runs.join("watched")).ok()?;
    let mut rows: Vec<&RequestRow> = watched.rows.iter().filter(|row| row.port > 0).collect();
    rows.sort_by_key(|row| row.t0_ns);
    let log: Vec<MessageRow> = msgpath_record::messages(&runs.join("own")).ok()?.collect::<Result<_, _>>().ok()?;
    let traced: Vec<&MessageRow> = log.iter().filter(|message| message.far_sent_ns.is_some()).collect();
    let origin = origin(&rows, &log, &traced, before)?;
    let both = traced.iter().filter_map(|message| {
        let row = near(&rows, message.start_ns + origin, before)?;
        let own = Times { total: message.latency_ns?, work: message.far_sent_ns?.checked_sub(message.far_ns?)? };
        Some([own, Times { total: row.total_ns, work: work(row) }])
    });
    Some((traced.len(), both.collect()))
}

/// Messages, and rows, at the end of the run that are tried.
const TRIED: (usize, usize) = (8, 64);

/// When the run began, by the clock of the rows: where most messages have a row.
fn origin(rows: &[&RequestRow], log: &[MessageRow], traced: &[&MessageRow], before: u64) -> Option<u64> {
    let mut starts: Vec<u64> = log.iter().map(|message| message.start_ns + before / 5).collect();
    starts.sort_unstable();
    let tried = starts
        .iter()
        .rev()
        .take(TRIED.0)
        .flat_map(|start| rows.iter().rev().take(TRIED.1).filter_map(move |row| row.t0_ns.checked_sub(*start)));
    let some: Vec<&&MessageRow> = traced.iter().step_by(traced.len().div_ceil(200).max(1)).collect();
    tried.max_by_key(|origin| {
        some.iter().filter(|message| near(rows, message.start_ns + origin, before).is_some()).count()
    })
}

/// The row that begins there, or a little later.
fn near<'a>(rows: &[&'a RequestRow], at: u64, before: u64) -> Option<&'a RequestRow> {
    let next = rows.partition_point(|row| row.t0_ns < at);
    rows.get(next).copied().filter(|row| row.t0_ns - at < before)
}

fn work(row: &RequestRow) -> u64 {
    let (first, last) = (Stage::WorkOnCpu as usize, Stage::WorkElsewhere as usize);
    row.stages[first..=last].iter().sum()
}

/// The median of watch's time over the echo's own, of every message.
pub(crate) fn median(both: &[[Times; 2]], of: fn(&Times) -> u64) -> f64 {
    let mut ratios: Vec<f64> = both.iter().map(|[own, watched]| of(watched) as f64 / of(own).max(1) as f64).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}
