//! From calls to a run: one kind of call is one case, a slice of time is a round.

use std::collections::{HashMap, HashSet};

use msgpath_core::plan::{Case, Extent, MAX_CONNECTIONS, MAX_ROUNDS, MAX_SIZE, Plan};
use msgpath_core::schema::{EndReport, NEAR, RoundRecord, RunEnd, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Delivery, Histogram, PathName, Unavailable, path};
use msgpath_record::{RecordError, RunWriter, utc};
use msgpath_rpc::tenlg::tenlg;

use super::calls::{Call, Calls, UNKNOWN};
use crate::record::{RpcFacts, RpcPair, RpcRow};

/// The most rounds of a kind.
const MOST_ROUNDS: usize = 40;
/// Fewer are cut only from fewer calls.
const LEAST_ROUNDS: usize = 5;
/// Calls of a round, where there are enough for more than the least.
const CALLS_A_ROUND: usize = 20;
pub(super) const MAX_KINDS: usize = MAX_ROUNDS as usize / MOST_ROUNDS;

/// Calls of one method and of about the same lengths.
pub(super) struct Kind {
    method: u32,
    /// Positions in the calls, in the order of T1.
    calls: Vec<u32>,
}

/// Lengths within a factor of two, by the power of two next to them; `None` where nobody knows.
fn class(bytes: u64) -> Option<u8> {
    (bytes > 0).then(|| (tenlg(bytes.saturating_sub(super::calls::HEAD)) + 5) / 10)
}

/// Sorts calls by kind; kinds in the order of their first calls. `None`: there are too many.
pub(super) fn kinds(calls: &Calls) -> Option<Vec<Kind>> {
    by_size(calls, true).or_else(|| by_size(calls, false))
}

fn by_size(calls: &Calls, sizes: bool) -> Option<Vec<Kind>> {
    let class = |bytes| class(bytes).filter(|_| sizes);
    let mut order: Vec<u32> = (0..calls.all.len() as u32).collect();
    order.sort_by_key(|at| calls.all[*at as usize].t[0]);
    let mut kinds: Vec<Kind> = Vec::new();
    let mut found: HashMap<(u32, Option<u8>, Option<u8>), usize> = HashMap::new();
    let mut without_reply = Vec::new();
    for at in order {
        let call = &calls.all[at as usize];
        if call.bytes[1] == 0 && sizes {
            without_reply.push(at);
            continue;
        }
        let next = kinds.len();
        let kind = *found.entry((call.method, class(call.bytes[0]), class(call.bytes[1]))).or_insert(next);
        if kind == next {
            if next == MAX_KINDS {
                return None;
            }
            kinds.push(Kind { method: call.method, calls: Vec::new() });
        }
        kinds[kind].calls.push(at);
    }
    // A call whose reply is not known is of the most frequent kind that its request fits.
    let mut fitting: HashMap<(u32, Option<u8>), usize> = HashMap::new();
    for (key, kind) in &found {
        let best = fitting.entry((key.0, key.1)).or_insert(*kind);
        let more = |kind: usize| (kinds[kind].calls.len(), usize::MAX - kind);
        if more(*kind) > more(*best) {
            *best = *kind;
        }
    }
    for at in without_reply {
        let call = &calls.all[at as usize];
        let kind = match fitting.get(&(call.method, class(call.bytes[0]))) {
            Some(kind) => *kind,
            None if kinds.len() == MAX_KINDS => return None,
            None => {
                kinds.push(Kind { method: call.method, calls: Vec::new() });
                fitting.insert((call.method, class(call.bytes[0])), kinds.len() - 1);
                kinds.len() - 1
            }
        };
        kinds[kind].calls.push(at);
    }
    let first = |kind: &Kind| kind.calls.iter().map(|at| calls.all[*at as usize].t[0]).min();
    kinds.iter_mut().for_each(|kind| kind.calls.sort_by_key(|at| calls.all[*at as usize].t[0]));
    kinds.sort_by_key(first);
    Some(kinds)
}

/// Into how many rounds so many calls are cut.
fn rounds_of(calls: usize) -> usize {
    (calls / CALLS_A_ROUND).clamp(LEAST_ROUNDS, MOST_ROUNDS).min(calls)
}

/// What a run is made of beside the calls.
pub(super) struct About {
    pub(super) header: RunHeader,
    pub(super) imported: Vec<String>,
    /// Smallest step of the client's stamps and the server's, ns.
    pub(super) steps: [u64; 2],
    /// T1 counts from 1970.
    pub(super) wall: bool,
    /// What was spoken, as far as the files say so.
    pub(super) protocol: &'static str,
}

/// Writes the run; its folder must be new.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(
    calls: &Calls,
    kinds: &[Kind],
    about: About,
    folder: &std::path::Path,
) -> Result<RunHeader, RecordError> {
    let begin = calls.all.iter().map(|call| call.t[0]).min().unwrap_or(0);
    // Whole µs, so that nothing is lost in `begin_unix_us`.
    let begin = begin.div_euclid(1_000) * 1_000;
    let (pairs, pair_of) = pairs(calls);
    let header = header(calls, kinds, about, begin, pairs);
    let mut writer = RunWriter::create(folder, &header)?;
    let mut rows = Vec::new();
    for pass in 0..header.plan.rounds {
        for (case, kind) in kinds.iter().enumerate() {
            let rounds = rounds_of(kind.calls.len());
            if pass as usize >= rounds {
                continue;
            }
            // As even as it goes.
            let cut = |round: usize| kind.calls.len() * round / rounds;
            let slice = &kind.calls[cut(pass as usize)..cut(pass as usize + 1)];
            rows.clear();
            rows.extend(slice.iter().map(|at| {
                let call = &calls.all[*at as usize];
                row(call, begin, (case as u32, pass), pair_of[call.connection as usize])
            }));
            writer.round(&round(&rows, case as u32, pass), &[])?;
            writer.rows::<RpcRow>(&rows)?;
        }
    }
    writer.finish(RunEnd::of(Ok(true), utc::now()))?;
    Ok(header)
}

/// The pairs of machines, and the pair of each connection.
fn pairs(calls: &Calls) -> (Vec<RpcPair>, Vec<u32>) {
    let mut pairs: Vec<RpcPair> = Vec::new();
    let mut found = HashMap::new();
    let of = calls.connections.iter().map(|connection| {
        *found.entry((&connection.client, &connection.server)).or_insert_with(|| {
            let (client, server) = (connection.client.clone(), connection.server.clone());
            let same_machine = if client.starts_with("127.") && server.starts_with("127.") {
                Some("both addresses are loopback".to_owned())
            } else {
                (client == server && client != "unknown").then(|| "both addresses are the same".to_owned())
            };
            pairs.push(RpcPair { client, server, same_machine });
            pairs.len() as u32 - 1
        })
    });
    let of = of.collect();
    (pairs, of)
}

fn header(calls: &Calls, kinds: &[Kind], about: About, begin: i64, pairs: Vec<RpcPair>) -> RunHeader {
    let Case { path: usual, traits, .. } = about.header.plan.cases[0].clone();
    let mut unavailable = Vec::new();
    let cases: Vec<Case> = kinds
        .iter()
        .enumerate()
        .map(|(id, kind)| {
            let of = |at: &u32| calls.all[*at as usize];
            let bytes = [0, 1].map(|end| middle(kind.calls.iter().map(|at| of(at).bytes[end])).min(MAX_SIZE));
            // What does not tell how long its requests were does not tell over what they went.
            let mut case = match bytes[0] {
                0 => Case::new(PathName::untold(path::UNKNOWN), Pieces::whole(1)),
                size => {
                    let case = Case::new(usual.clone(), Pieces::whole(size as u32));
                    Case { traits: traits.clone(), reply: bytes[1], ..case }
                }
            };
            case.id = id as u32;
            case.label = Some(calls.methods[kind.method as usize].clone());
            let mut connections: Vec<u32> = kind.calls.iter().map(|at| of(at).connection).collect();
            connections.sort_unstable();
            connections.dedup();
            case.connections = (connections.len() as u32).min(MAX_CONNECTIONS);
            if kind.calls.iter().all(|at| of(at).t[3] == UNKNOWN) {
                let why = "T4 is in the client's log only, and the files have none of it";
                let reason = Unavailable::new(why, "import the client's log beside it");
                unavailable.push(msgpath_core::schema::UnavailableCase { case: case.clone(), reason });
            }
            case
        })
        .collect();
    let rounds = kinds.iter().map(|kind| rounds_of(kind.calls.len())).max().unwrap_or(1) as u32;
    let most = kinds.iter().map(|kind| kind.calls.len()).max().unwrap_or(1) as u64;
    let largest = cases.iter().map(|case| case.size.max(case.reply)).max().unwrap_or(1);
    let plan = Plan {
        rounds,
        extent: Extent::Count(most.min((1 << 50) / largest)),
        trim: 0,
        message_log: 0,
        ..Plan::new(&crate::workload::CALLS, cases)
    };
    let same = !pairs.is_empty() && pairs.iter().all(|pair| pair.same_machine.is_some());
    let mut header = RunHeader { plan, unavailable, target: target(calls), imported: about.imported, ..about.header };
    // The boot is the same where both clocks are one, as for a run of our own.
    let other = if same { "n/a: imported" } else { "n/a: imported, another machine" };
    let client = (machines(pairs.iter().map(|pair| &pair.client)), "n/a: imported");
    let server = (machines(pairs.iter().map(|pair| &pair.server)), other);
    for (end, (host, boot)) in [client, server].into_iter().enumerate() {
        let machine = header.host_mut(end);
        (machine.host, machine.boot_id) = (host, boot.into());
    }
    header.ends[NEAR].clock.step_ns = about.steps[0];
    // What the caller knows of the wire stays.
    let wire = header.parts.remove::<RpcFacts>().and_then(|facts| facts.wire);
    header.parts.set(RpcFacts {
        wire,
        protocol: about.protocol.into(),
        begin_unix_us: if about.wall { begin / 1_000 } else { 0 },
        client_step_ns: about.steps[0],
        server_step_ns: about.steps[1],
        pairs,
        not_kept: calls.not_kept,
        ..RpcFacts::default()
    });
    header
}

/// The median of those that are known.
fn middle(bytes: impl Iterator<Item = u64>) -> u64 {
    let mut known: Vec<u64> = bytes.filter(|bytes| *bytes > 0).collect();
    let at = known.len() / 2;
    if known.is_empty() { 0 } else { *known.select_nth_unstable(at).1 }
}

fn target(calls: &Calls) -> String {
    machines(calls.connections.iter().map(|connection| match connection.server_port {
        0 => connection.server.clone(),
        port => format!("{}:{port}", connection.server),
    }))
}

/// The first of them, and how many more.
fn machines<T: AsRef<str>>(names: impl Iterator<Item = T>) -> String {
    let (mut first, mut all) = (String::new(), HashSet::new());
    for name in names {
        if all.is_empty() {
            name.as_ref().clone_into(&mut first);
        }
        all.insert(name.as_ref().to_owned());
    }
    match all.len() {
        0 | 1 => first,
        many => format!("{first} and {} more", many - 1),
    }
}

fn row(call: &Call, begin: i64, (case, pass): (u32, u32), pair: u32) -> RpcRow {
    let since = |at: usize| (call.t[at] != UNKNOWN).then(|| call.t[at] - call.t[0]);
    RpcRow {
        case,
        pass,
        pair,
        connection: call.connection,
        rpcid: call.rpcid,
        parent: call.parent,
        status: call.status,
        request_bytes: call.bytes[0],
        reply_bytes: call.bytes[1],
        lengths_estimated: call.estimated != [false; 2],
        key: call.key,
        start_ns: (call.t[0] - begin) as u64,
        // A reply before its request: the client's clock was set back meanwhile, and nobody knows how long it took.
        latency_ns: since(3).and_then(|ns| u64::try_from(ns).ok()),
        received_ns: since(1),
        replied_ns: since(2),
        ..RpcRow::default()
    }
}

fn round(rows: &[RpcRow], case: u32, pass: u32) -> RoundRecord {
    let mut latency = Histogram::new();
    let (mut near, mut far) = (EndReport::default(), EndReport::default());
    let start_ns = rows.iter().map(|row| row.start_ns).min().unwrap_or(0);
    let mut delivery = Delivery { sent: rows.len() as u64, ..Delivery::default() };
    for row in rows {
        match (row.latency_ns, row.replied_ns) {
            (Some(ns), _) => {
                if row.is_good() {
                    latency.record(ns);
                }
                delivery.received += 1;
            }
            // The server has replied; when that came is not known.
            (None, Some(_)) => delivery.received += 1,
            (None, None) => {
                latency.record_lost(1);
                delivery.lost += 1;
            }
        }
        near.elapsed_ns = near.elapsed_ns.max(row.start_ns + row.latency_ns.unwrap_or(0) - start_ns);
        // What of it is known at the other end.
        far.delivery.received += u64::from(row.received_ns.is_some());
        far.delivery.sent += u64::from(row.replied_ns.is_some());
        near.bytes_sent += row.request_bytes;
        near.bytes_received += row.reply_bytes;
    }
    let served = rows.iter().filter_map(|row| {
        let at = |ns: Option<i64>| Some(row.start_ns as i64 + ns?);
        Some((at(row.received_ns)?, at(row.replied_ns)?))
    });
    let (first, last) = served.fold((i64::MAX, i64::MIN), |(a, b), (from, to)| (a.min(from), b.max(to)));
    far.elapsed_ns = if last > first { (last - first) as u64 } else { 0 };
    (far.bytes_sent, far.bytes_received) = (near.bytes_received, near.bytes_sent);
    near.delivery = delivery;
    RoundRecord {
        case,
        pass,
        position: case,
        start_ns,
        batch: 1,
        ends: vec![near.into(), far.into()],
        latency: latency.to_sparse(),
        ..RoundRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_from_the_number_of_calls() {
        for (calls, rounds) in [(1, 1), (4, 4), (5, 5), (10, 5), (119, 5), (200, 10), (800, 40), (5_000_000, 40)] {
            assert_eq!(rounds_of(calls), rounds, "{calls}");
        }
    }

    #[test]
    fn lengths_are_told_apart_by_powers_of_two() {
        let of = |body: u64| class(super::super::calls::HEAD + body);
        assert_eq!(of(100), of(129));
        assert_ne!(of(64), of(128));
        assert_ne!(of(0), of(9));
        assert_eq!(of(1_000_009), of(978_373), "within what a logarithm of the log leaves");
        assert_eq!(class(0), None);
    }
}
