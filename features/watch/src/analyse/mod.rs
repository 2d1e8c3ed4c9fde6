//! Watched programs: from the rows of a record to where the time of their requests goes.
//!
//! `bands` averages whole requests of one slowness, so that the stages of a band add up; `culprits` says who kept them waiting;
//! `causes` joins stages that have one cause; `usual`, `findings` and `tail` make sentences of them.

mod bands;
mod causes;
mod culprits;
mod findings;
mod gates;
mod pictures;
mod tail;
#[cfg(test)]
pub(crate) mod testing;
mod unsplit;
mod usual;
mod verify;

use std::collections::BTreeMap;

use msgpath_analyse::gates::RunGate;
use msgpath_analyse::summary::Finding;
use msgpath_core::watch::{RequestRow, ServiceCounts, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use bands::{WatchedBand, WatchedStageTimes};
pub use findings::CODE as CAUSE;
pub use pictures::{Bin, Heat, Pictures};
pub use tail::CODE as TAIL;
pub use usual::CODE as USUAL;
pub use verify::verify_watched;

use crate::record::{SCHEMA, WatchCost, WatchEnd, WatchHeader, Watched, Windows, name_of, named};
use bands::Bands;
use culprits::Known;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_stats::level::{Level, cuts, of_values};

/// The codes of all sentences.
pub const CODES: [&str; 4] = [findings::CODE, unsplit::CODE, usual::CODE, tail::CODE];

/// Below this share of complete requests nothing is said about where their time goes.
pub const ENOUGH: f64 = 0.95;
/// Fewer requests say nothing about what one costs.
const ENOUGH_FOR_COST: u64 = 1000;
/// Names of clients that are listed.
const CLIENTS: usize = 4;
/// What clients there are called.
const OTHER_HOSTS: &str = "other hosts";

/// What is known of watched programs.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "Watched")]
pub struct WatchSummary {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Name of the record.
    pub name: String,
    /// What was watched, in words.
    pub target: String,
    /// For how long, s.
    pub seconds: f64,
    /// Connections that were seen.
    pub connections: u64,
    /// Requests with a row of their own.
    pub rows: u64,
    /// Rows that found no room in the kernel's ring.
    pub lost: u64,
    /// Events of connections whose messages are told apart that found no room: requests are missing there.
    pub holes: u64,
    /// Threads and connections that found no room.
    pub no_room: u64,
    /// Pairs of addresses of datagrams that hosts in several network namespaces have: each end was split for itself.
    pub ambiguous: u64,
    /// Rows whose stages do not add up, which are left out.
    pub not_adding_up: u64,
    /// Rows beyond the limit of the record.
    pub rows_not_kept: u64,
    /// Why there is no more: the record is damaged, or was cut short.
    pub cut_short: Option<String>,
    /// Tracepoints that this kernel lacks.
    pub missing: Vec<String>,
    /// The servers, the one with most requests first.
    pub servers: Vec<WatchedServer>,
    /// What watching cost.
    pub cost: Option<WatchingCost>,
    /// Windows of time in which requests were followed, because there were more than can be paid for; none: all were.
    pub windows: Option<WatchingWindows>,
    /// Share of the CPUs' time that the hypervisor took meanwhile, 0 to 1; none: the kernel does not tell.
    pub stolen: Option<f64>,
    /// The kernel tells of single CPUs what the hypervisor takes, so that it is a stage of the server's work.
    pub steal_split: bool,
    /// What the result was to be held to.
    pub gates: Vec<RunGate>,
}

/// Windows of time in which requests were followed.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchingWindows {
    pub count: u64,
    /// How long one was, ns.
    pub mean_ns: f64,
    /// Share of the time that they are of, 0 to 1.
    pub share: f64,
    /// Requests that began in one and took at most so long were followed to their end, ns.
    pub followed_ns: u64,
    /// Windows that were compared with the time beside them.
    pub pairs: u64,
    /// Share of the servers' throughput that following took while a window was open, and the ends of its 95 % interval, 0 to 1; below 0:
    /// more was received. None: too few windows.
    pub lost: Option<[f64; 3]>,
    /// The same of the whole time, with what the programs take that only count: measured against the time without them.
    pub lost_in_all: Option<[f64; 3]>,
}

/// One server: a listening port, or a process with Unix sockets.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchedServer {
    /// Name of the threads that read requests, or the address of the host.
    pub name: String,
    /// Its address, where it is on another host; empty: it is on this one.
    pub host: String,
    /// Process of the last row; 0: on another host.
    pub process: i32,
    /// TCP or UDP port; none: Unix sockets.
    pub port: Option<u32>,
    /// Its requests and replies are datagrams.
    pub datagrams: bool,
    /// Names of its clients; those on other hosts are called so.
    pub clients: Vec<String>,
    /// Requests that were split.
    pub requests: u64,
    /// Requests that came when none was followed, estimated from how often the server received data.
    pub not_followed: u64,
    /// Requests a second, those that were not followed among them; none: several in flight are not told apart, so nobody knows how
    /// many there were.
    pub per_second: Option<f64>,
    /// Requests that were not seen from beginning to end.
    pub incomplete: u64,
    /// Requests whose copies of a thread's totals did not fit together.
    pub torn: u64,
    /// Turns on connections on which several requests were in flight.
    pub in_flight: u64,
    /// Data from the server that nobody had asked for.
    pub unasked: u64,
    /// Requests that were told apart by their protocol; the others are turns.
    pub framed: u64,
    /// Share of the turns that were split.
    pub complete: f64,
    /// Connections that speak TLS: their requests are turns of encrypted records.
    pub tls: u64,
    /// Turns of them that are no requests: flights of handshakes, and ends.
    pub handshakes: u64,
    /// Half of all requests that were split take at most so long, ns; none, as below: several in flight are not told apart.
    pub p50_ns: Option<f64>,
    /// 90 % take at most so long, ns; none, as below: too few requests.
    pub p90_ns: Option<f64>,
    /// 99 % take at most so long, ns.
    pub p99_ns: Option<f64>,
    /// 99.9 % take at most so long, ns.
    pub p999_ns: Option<f64>,
    /// Why its time is not split.
    pub not_split: Option<String>,
    /// Requests of usual length, around the median.
    pub typical: Option<WatchedBand>,
    /// Slow requests.
    pub slow: Option<WatchedBand>,
    /// Where the time of both goes; stages that take none are left out.
    pub stages: Vec<WatchedStageTimes>,
    /// Sentences about this server, the surest first.
    pub findings: Vec<Finding>,
    /// The slowest requests.
    pub slowest: Vec<SlowRequest>,
    /// What was asked for, where the protocol tells: what takes most time first.
    pub by_request: Vec<WatchedRequests>,
    /// Connections with most requests in the sample.
    pub by_connection: Vec<WatchedConnection>,
    /// What only pictures show.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// One of the slowest requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SlowRequest {
    /// When it began, s since the first row.
    pub at_s: f64,
    /// How long it took, ns.
    pub total_ns: u64,
    /// Number of the connection.
    pub connection: u64,
    /// Its number within the connection.
    pub turn: u32,
    /// What was asked for; empty: the protocol does not tell.
    pub what: String,
    /// The client's thread.
    pub client: String,
    /// Bytes of request and reply.
    pub bytes: [u32; 2],
    /// Name of its largest stage.
    pub stage: String,
    /// Time in the largest stage, ns.
    pub stage_ns: u64,
    /// Every stage that took any time, in the order of time, ns.
    pub stages: Vec<(Stage, u64)>,
    /// Who kept it waiting; empty: nobody.
    pub culprit: String,
}

/// Requests that ask for the same, by their rows.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchedRequests {
    /// `GET`, `POST /login`, `SELECT`.
    pub what: String,
    /// Requests that the rows stand for.
    pub requests: u64,
    /// Median of its rows, ns.
    pub p50_ns: f64,
    /// p99 of its rows, ns; none: too few.
    pub p99_ns: Option<f64>,
    /// The largest stage of its slowest row.
    pub stage: String,
}

/// A connection, from the rows of its requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchedConnection {
    /// Number of the connection.
    pub connection: u64,
    /// The client's thread.
    pub client: String,
    /// Requests that its rows stand for.
    pub requests: u64,
    /// Median of its rows, ns.
    pub p50_ns: f64,
    /// p99 of its rows, ns; none: too few.
    pub p99_ns: Option<f64>,
    /// The largest stage of its slowest row.
    pub stage: String,
}

/// What watching cost.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchingCost {
    /// CPU time of the BPF programs for a request, ns, at most; none: too few requests while it was measured.
    pub ns_per_request: Option<f64>,
    /// Times that they ran for a request.
    pub runs_per_request: Option<f64>,
    /// Share of one CPU that they took while requests came, 1 is all of it; none: no request came while it was counted.
    pub programs: Option<f64>,
    /// The same of msgpath itself, which reads the rows.
    pub reader: f64,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Requests that take at least this long are slow, ns; 0: those around p99.
    pub slow_ns: u64,
    /// Slowest requests that are listed of a server.
    pub slowest: usize,
}

impl Choice {
    /// What was asked for when programs were watched.
    pub fn asked(header: &WatchHeader) -> Self {
        Self { slow_ns: header.slow_ns, slowest: header.slowest as usize }
    }
}

/// What a record says.
pub fn summarise(watched: &Watched, choice: Choice) -> WatchSummary {
    let header = &watched.header;
    let end = watched.end.clone().unwrap_or_else(|| counted(&watched.rows));
    let seconds = end.duration_ns as f64 / 1e9;
    let begin = watched.rows.iter().map(|row| row.t0_ns).min().unwrap_or(0);
    let mut servers: Vec<(u32, WatchedServer)> = end
        .services
        .iter()
        .map(|counts| {
            let rows: Vec<&RequestRow> = watched.rows.iter().filter(|row| row.service == counts.service).collect();
            let call = |call| header.calls.iter().find(|(number, _)| *number == call).map(|(_, name)| name.clone());
            let known = Known {
                call: &call,
                threads: rows.iter().map(|row| row.server).collect(),
                process: rows.last().and_then(|row| end.processes.iter().find(|one| one.process == row.server_process)),
            };
            let server = server(counts, &rows, seconds, choice, begin, &known);
            (counts.service, server)
        })
        .filter(|(_, server)| {
            server.requests + server.incomplete + server.in_flight + server.torn + server.handshakes > 0
        })
        .collect();
    servers.sort_by(|(_, a), (_, b)| b.requests.cmp(&a.requests).then(a.name.cmp(&b.name)));
    let numbered: Vec<(u32, &WatchedServer)> = servers.iter().map(|(number, server)| (*number, server)).collect();
    let gates = gates::judge(&header.gates, &end.slices, &numbered);
    WatchSummary {
        schema: SCHEMA.into(),
        name: header.name.clone(),
        target: header.target.clone(),
        seconds,
        connections: end.connections,
        rows: watched.rows.len() as u64,
        lost: end.lost,
        holes: end.holes,
        no_room: end.no_room,
        ambiguous: end.ambiguous,
        not_adding_up: watched.not_adding_up,
        rows_not_kept: end.rows_not_kept,
        cut_short: watched.damage.clone().or_else(|| {
            watched.end.is_none().then(|| "watching was cut short: only the rows that were written are known".into())
        }),
        missing: header.missing.iter().chain(&end.missing).map(|(name, _)| name.clone()).collect(),
        gates,
        stolen: end.stolen,
        steal_split: end.steal_split,
        servers: servers.into_iter().map(|(_, server)| server).collect(),
        cost: end.cost.map(|cost| cost_of(&cost, end.duration_ns)),
        windows: end.windows.as_ref().map(windows_of),
    }
}

/// What the rows alone tell, where the end is missing.
fn counted(rows: &[RequestRow]) -> WatchEnd {
    let numbers: BTreeMap<u32, u64> = rows.iter().fold(Default::default(), |mut map, row| {
        *map.entry(row.service).or_default() += 1;
        map
    });
    let begin = rows.iter().map(|row| row.t0_ns).min().unwrap_or(0);
    let last = rows.iter().map(|row| row.t0_ns.saturating_add(row.total_ns)).max().unwrap_or(0);
    let services = numbers.into_iter().map(|(service, requests)| {
        let port = rows.iter().find(|row| row.service == service).map_or(0, |row| row.port);
        ServiceCounts { service, requests, port, ..ServiceCounts::default() }
    });
    WatchEnd { duration_ns: last - begin, services: services.collect(), ..WatchEnd::default() }
}

fn cost_of(cost: &WatchCost, duration_ns: u64) -> WatchingCost {
    // The programs also run for whatever else the machine does: with few requests that would be most of it.
    let each = |value: u64| (cost.requests >= ENOUGH_FOR_COST).then(|| value as f64 / cost.requests as f64);
    WatchingCost {
        ns_per_request: each(cost.programs_ns),
        runs_per_request: each(cost.runs),
        programs: (cost.window_ns > 0).then(|| cost.programs_ns as f64 / cost.window_ns as f64),
        reader: cost.reader_ns as f64 / duration_ns.max(1) as f64,
    }
}

/// The windows, and what following took of the servers' throughput: the mean of its logarithms, as rates go.
fn windows_of(windows: &Windows) -> WatchingWindows {
    let share = windows.open_ns as f64 / windows.of_ns.max(1) as f64;
    let level = |kept: &[f64]| {
        let logarithms: Vec<f64> = kept.iter().filter(|kept| **kept > 0.0).map(|kept| kept.ln()).collect();
        (logarithms.len() >= MIN_ROUNDS_FOR_CLAIMS as usize)
            .then(|| of_values(&logarithms, &cuts(&vec![0; logarithms.len()])))
    };
    let lost = |level: Level| {
        let (low, high) = level.interval();
        [level.at, high, low].map(|ln| 1.0 - ln.exp())
    };
    let (following, counting) = (level(&windows.kept), level(&windows.kept_idle));
    // Of the logarithms: what counting takes all the time, and following in its share of it.
    let both = following.zip(counting).map(|(following, counting)| {
        let error = (counting.error.powi(2) + (share * following.error).powi(2)).sqrt();
        let at = counting.at + share * following.at;
        Level { at, error, freedom: following.freedom.min(counting.freedom) }
    });
    WatchingWindows {
        count: windows.count,
        mean_ns: windows.open_ns as f64 / windows.count.max(1) as f64,
        share,
        followed_ns: windows.followed_ns,
        pairs: windows.kept.len() as u64,
        lost: following.map(lost),
        lost_in_all: both.map(lost),
    }
}

/// What a client is called: one on another host has no name here.
fn client(name: &[u8; 16]) -> String {
    if name[0] == 0 { OTHER_HOSTS.into() } else { name_of(name) }
}

/// The names that most rows have.
fn most<'a>(names: impl Iterator<Item = &'a [u8; 16]>, limit: usize) -> Vec<&'a [u8; 16]> {
    let mut counts = BTreeMap::<&[u8; 16], u64>::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    counts.into_iter().take(limit).map(|(name, _)| name).collect()
}

fn server(
    counts: &ServiceCounts,
    rows: &[&RequestRow],
    seconds: f64,
    choice: Choice,
    begin: u64,
    known: &Known,
) -> WatchedServer {
    let turns = counts.requests + counts.incomplete + counts.in_flight + counts.torn;
    let complete = counts.requests as f64 / turns.max(1) as f64;
    // No number from what is not all.
    let quantile = |p| counts.is_told_apart().then(|| bands::of_times(&counts.times, p)).flatten();
    let rate = (counts.requests + counts.not_followed()) as f64 / seconds;
    let mut server = WatchedServer {
        name: most(rows.iter().map(|row| &row.server_name), 1)
            .pop()
            .map_or_else(String::new, |name| named(counts, name)),
        host: counts.host.clone(),
        process: rows.last().map_or(counts.process, |row| row.server_process),
        port: (counts.port > 0).then_some(counts.port),
        datagrams: counts.datagrams,
        clients: most(rows.iter().map(|row| &row.client_name), CLIENTS).into_iter().map(client).collect(),
        requests: counts.requests,
        not_followed: counts.not_followed(),
        per_second: counts.is_told_apart().then_some(if seconds > 0.0 { rate } else { 0.0 }),
        incomplete: counts.incomplete,
        torn: counts.torn,
        in_flight: counts.in_flight,
        unasked: counts.unasked,
        framed: counts.framed,
        tls: counts.tls,
        handshakes: counts.handshakes,
        complete,
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        ..WatchedServer::default()
    };
    if !counts.is_told_apart() {
        let share = (100.0 * counts.in_flight as f64 / turns as f64).round();
        server.not_split =
            Some(format!("can't tell: several requests in flight on connections with {share} % of the turns"));
    } else if complete < ENOUGH {
        server.not_split =
            Some(format!("only {:.0} % of the requests were seen from beginning to end", complete * 100.0));
    }
    if server.not_split.is_none()
        && let Some(bands) = Bands::of(rows, &counts.times, choice.slow_ns)
    {
        server.stages = bands.stages();
        server.typical = Some(bands.typical.clone());
        server.slow = Some(bands.slow.clone());
        server.findings.extend(usual::of(&server, &bands, known));
        server.findings.extend(findings::of(&server, &bands, known));
        if choice.slow_ns == 0 {
            server.findings.extend(tail::of(&server, &bands, rows, known));
        }
    } else {
        server.findings = unsplit::not_split(&server);
    }
    server.slowest = slowest(rows, choice.slowest, begin, known);
    server.by_request = asked(rows);
    server.by_connection = connections(rows);
    server.pictures = Pictures::of(&counts.times, rows, begin);
    server
}

fn largest(row: &RequestRow) -> Stage {
    Stage::ALL.into_iter().max_by_key(|stage| row.stage(*stage)).expect("there are stages")
}

fn slowest(rows: &[&RequestRow], count: usize, begin: u64, known: &Known) -> Vec<SlowRequest> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    let slow = |row: &&RequestRow| {
        let stage = largest(row);
        SlowRequest {
            at_s: (row.t0_ns - begin) as f64 / 1e9,
            total_ns: row.total_ns,
            connection: row.connection,
            turn: row.turn,
            what: name_of(&row.what),
            client: client(&row.client_name),
            bytes: [row.bytes_there, row.bytes_back],
            stage: stage.words().into(),
            stage_ns: row.stage(stage),
            stages: Stage::ALL.into_iter().map(|stage| (stage, row.stage(stage))).filter(|(_, ns)| *ns > 0).collect(),
            culprit: culprits::of_row(row, stage, known).unwrap_or_default(),
        }
    };
    rows.iter().take(count).map(slow).collect()
}

/// Connections, and kinds of requests, that are listed.
const LISTED: usize = 20;

/// What is known of rows that belong together: those that they stand for, median, p99, the largest stage of the slowest.
fn of_rows(rows: &[&RequestRow]) -> (u64, f64, Option<f64>, String) {
    let weights = bands::weights(rows);
    let requests = weights.iter().map(|(_, weight)| weight).sum();
    let p50_ns = bands::quantile(&weights, 0.5).unwrap_or(0.0);
    let slowest = weights.last().map_or_else(String::new, |(row, _)| largest(row).words().into());
    (requests, p50_ns, bands::quantile(&weights, 0.99), slowest)
}

fn grouped<'a, K: Ord>(rows: &[&'a RequestRow], by: impl Fn(&'a RequestRow) -> K) -> BTreeMap<K, Vec<&'a RequestRow>> {
    rows.iter().fold(BTreeMap::new(), |mut groups, row| {
        groups.entry(by(row)).or_insert_with(Vec::new).push(*row);
        groups
    })
}

fn asked(rows: &[&RequestRow]) -> Vec<WatchedRequests> {
    let all = grouped(rows, |row| row.what).into_iter().filter(|(what, _)| *what != [0; 16]);
    let mut all: Vec<WatchedRequests> = all
        .map(|(what, rows)| {
            let (requests, p50_ns, p99_ns, stage) = of_rows(&rows);
            WatchedRequests { what: name_of(&what), requests, p50_ns, p99_ns, stage }
        })
        .collect();
    all.sort_by(|a, b| {
        (b.requests as f64 * b.p50_ns).total_cmp(&(a.requests as f64 * a.p50_ns)).then(a.what.cmp(&b.what))
    });
    all.truncate(LISTED);
    all
}

/// The connections of rows, those with most requests first.
pub fn connections(rows: &[&RequestRow]) -> Vec<WatchedConnection> {
    let mut all: Vec<WatchedConnection> = grouped(rows, |row| row.connection)
        .into_iter()
        .map(|(connection, rows)| {
            let (requests, p50_ns, p99_ns, stage) = of_rows(&rows);
            let client = rows.last().map_or_else(String::new, |row| client(&row.client_name));
            WatchedConnection { connection, client, requests, p50_ns, p99_ns, stage }
        })
        .collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.requests), one.connection));
    all.truncate(LISTED);
    all
}

#[cfg(test)]
mod tests {
    use super::testing::{Load, watched};
    use super::*;

    #[test]
    fn other_hosts_are_called_by_their_addresses() {
        let mut watched = watched(&Load { stage: Stage::Away, ..Load::default() });
        watched.rows.iter_mut().for_each(|row| (row.server_name, row.server_process) = ([0; 16], 0));
        watched.end.as_mut().unwrap().services[0].host = "10.66.0.2".into();
        let summary = summarise(&watched, Choice::default());
        let server = &summary.servers[0];
        assert_eq!(
            (server.name.as_str(), server.host.as_str(), server.clients[0].as_str()),
            ("10.66.0.2", "10.66.0.2", "app")
        );
        watched.rows.iter_mut().for_each(|row| row.client_name = [0; 16]);
        assert_eq!(
            summarise(&watched, Choice { slowest: 1, ..Choice::default() }).servers[0].slowest[0].client,
            OTHER_HOSTS
        );
    }

    #[test]
    fn a_record_without_an_end_says_so_and_shows_its_rows() {
        let mut watched = watched(&Load::default());
        watched.end = None;
        let summary = summarise(&watched, Choice::default());
        assert!(summary.cut_short.is_some() && summary.servers[0].requests == watched.rows.len() as u64);
        assert!(summarise(&Watched::default(), Choice::default()).servers.is_empty());
    }

    #[test]
    fn what_watching_costs_is_known_where_requests_came() {
        let window = WatchCost {
            programs_ns: 5_000_000,
            runs: 30_000,
            requests: 2_000,
            window_ns: 100_000_000,
            reader_ns: 1_000,
        };
        let cost = cost_of(&window, 1_000_000);
        assert_eq!((cost.programs, cost.ns_per_request, cost.reader), (Some(0.05), Some(2_500.0), 0.001));
        let nothing = cost_of(&WatchCost { reader_ns: 1_000, ..WatchCost::default() }, 1_000_000);
        assert_eq!((nothing.programs, nothing.ns_per_request, nothing.reader), (None, None, 0.001));
    }

    #[test]
    fn the_slowest_are_listed_with_what_kept_them() {
        let summary = summarise(
            &watched(&Load { stage: Stage::WorkLock, ..Load::default() }),
            Choice { slowest: 3, ..Choice::default() },
        );
        let slowest = &summary.servers[0].slowest;
        assert_eq!((slowest.len(), slowest[0].stage.as_str()), (3, "work: lock (futex)"));
        assert!(slowest[0].culprit.contains("holder") && slowest[0].what == "SET", "{slowest:?}");
    }

    #[test]
    fn requests_are_grouped_by_what_they_ask_for() {
        let summary = summarise(&watched(&Load { stage: Stage::WorkSleep, ..Load::default() }), Choice::default());
        let by = &summary.servers[0].by_request;
        let seen: Vec<(&str, u64, &str)> =
            by.iter().map(|asked| (asked.what.as_str(), asked.requests, asked.stage.as_str())).collect();
        // What takes most time together comes first.
        assert_eq!(seen, [("SET", 20, "work: sleep"), ("GET", 980, "work: on CPU")]);
        assert!(by[0].p50_ns > 2e6 && by[1].p99_ns.unwrap() < 1e5, "{by:?}");
        assert_eq!(by[0].p99_ns, None, "of 20 requests");
    }
}
