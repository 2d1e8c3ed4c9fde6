//! What calls add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::diff::Difference;
use msgpath_analyse::logs::Pulled;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_analyse::verify::Rebuilt;
use msgpath_core::parts::Part;
use msgpath_core::schema::RunHeader;
use msgpath_record::{RecordError, Rows, Run};

use crate::analyse::split::is_unseen;
use crate::analyse::{RpcSummary, connections, summarise};
use crate::findings::DETECTORS;
use crate::log::log;
use crate::record::{RpcFacts, RpcRow, by_round};

pub static SECTION: Section = Section { logs, summarise: add, detectors: DETECTORS, identity, verify, ..NOTHING };

impl Part for RpcSummary {
    const NAME: &str = "rpc";
}

fn logs(run: &Run, logs: &mut Logs) -> Result<(), RecordError> {
    if run.header.parts.get::<RpcFacts>().is_some() {
        logs.add::<Pulled<RpcRow>>(by_round(run)?.into());
    }
    Ok(())
}

fn add(run: &Run, logs: &Logs, summary: &mut Summary) {
    let calls = log(logs);
    if let Some(facts) = run.header.parts.get::<RpcFacts>().filter(|_| !calls.is_empty()) {
        let connections = connections(&run.rounds);
        summary.sections.set(RpcSummary { connections, ..summarise(&run.header, facts, calls, &summary.cases) });
    }
}

/// Servers are what a diff of calls compares; one that has a network between and one that has none it does not.
fn identity(a: &RunHeader, b: &RunHeader) -> Vec<Difference> {
    let (Some(a), Some(b)) = (a.parts.get::<RpcFacts>(), b.parts.get::<RpcFacts>()) else { return Vec::new() };
    let between = |facts: &RpcFacts| {
        let same = facts.pairs.iter().filter(|pair| pair.same_machine.is_some()).count();
        format!("on one machine: {same} of {} pairs", facts.pairs.len())
    };
    let difference =
        |what: &str, a: String, b: String, refuses| Difference { what: what.into(), end: String::new(), a, b, refuses };
    vec![
        difference("protocol", a.protocol.clone(), b.protocol.clone(), false),
        difference("server", a.server.clone(), b.server.clone(), false),
        difference("client and server", between(a), between(b), true),
    ]
}

/// Latencies, bytes and failures of each round that the log of calls holds whole.
fn verify(_: &Run, logs: &Logs, rebuilt: &mut Rebuilt<'_, '_>) {
    log(logs).rounds(&|_, _| true, &mut |rows| {
        let Some(round) = rebuilt.round(rows[0].case, rows[0].pass) else { return };
        if rows.len() as u64 != round.near().delivery.sent {
            return;
        }
        // The time of a call with a schedule counts from its intended send. Calls that failed and those whose T4 is not known are in
        // no histogram.
        let seen = rows.iter().filter(|row| row.status == 0 && !is_unseen(row));
        let latencies = seen.map(|row| row.latency_ns.map(|ns| ns.saturating_add(row.late_ns.unwrap_or(0))));
        rebuilt.latencies(round, "latencies against the calls", latencies);
        let sum = |of: fn(&RpcRow) -> u64| rows.iter().map(of).sum::<u64>();
        rebuilt.same(round, "bytes of the requests", round.near().bytes_sent, sum(|row| row.request_bytes));
        rebuilt.same(round, "bytes of the replies", round.near().bytes_received, sum(|row| row.reply_bytes));
    });
}
