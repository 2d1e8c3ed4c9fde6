//! `msgpath import` of logs of calls: those of the RPC lab, and CSV of other programs.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, FromArgMatches};
use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::{NEAR, RunHeader};
use msgpath_core::units::{self, Pieces};
use msgpath_core::{PathName, Problem};
use msgpath_record::utc;
use msgpath_verbs::importers::{Imported, Importer};
use msgpath_verbs::place::Place;

use crate::record::import::{form, read_files};
use crate::record::{RpcFacts, Wire};
use crate::workload::CALLS;

/// Takes what has calls.
pub(crate) const IMPORTER: Importer = Importer {
    are: "of calls",
    forms: "a log, JSON of the lab's viewer, CSV with a column t1, a log of JMeter or sockperf",
    written_by: "a binary log of client4 or server4, the output of dumplogfile4, CSV whose first line names t1,t2,t3,t4, samples of JMeter (JTL as CSV), sockperf --full-log",
    help: HELP,
    options: Typed::augment_args,
    takes: |file| form(file).is_some(),
    import,
};

const HELP: &str = "\
Calls: binary logs of client4 and server4, the JSON that dumplogfile4 writes, or CSV, in any order, as a run. The logs \
of a client and of its server are matched by the id of the call, T1 and both addresses. Nothing is aligned, clamped or \
invented.

CSV: the first line names the columns. t1 must be there (request sent); t2, t3, t4 (request received, reply \
sent, reply received), method, rpcid, parent, status, request_bytes, reply_bytes, client, server, connection \
and key may be. Stamps are µs since 1970, or in the unit that their column names: t1_ns, t1_us, t1_ms, t1_s. A status \
of 0 is success; where all are codes of HTTP, one below 400 is.

JMeter: samples as CSV with their first line (timeStamp,elapsed,label ...): each label is a kind of call, in whole ms. \
sockperf: what --full-log wrote.";

#[derive(Args)]
struct Typed {
    /// Speed of the wire between the machines in bits a second, for the estimate of the time of calls on it: 1G
    #[arg(long, value_name = "RATE", value_parser = units::parse_count)]
    wire: Option<u64>,
}

fn import(imported: Imported<'_>) -> Result<ExitCode> {
    let typed = Typed::from_arg_matches(imported.typed)?;
    let import = read_files(&imported.files).map_err(Problem::from)?;
    let place = Place::kept(imported.name)?;
    let title = imported.title.cloned().or_else(|| import.title.clone());
    let mut notes: Vec<String> = import.found.clone();
    notes.extend(import.notes.iter().map(|note| format!("note: {note}")));
    // The plan is made of the calls; until then one has to stand here.
    let mut plan = Plan::new(&CALLS, vec![Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(1))]);
    plan.declare(msgpath_paths::traits);
    let mut header = RunHeader {
        started: utc::now(),
        command: std::iter::once("msgpath".into()).chain(imported.words.iter().cloned()).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..RunHeader::new(place.name.as_str(), "import", plan)
    };
    let wire = typed.wire.filter(|bits| *bits > 0).map(Wire::told);
    header.parts.set(RpcFacts { wire, ..RpcFacts::default() });
    header.host_mut(NEAR).facts.extend(title.map(|title| ("title".to_owned(), title)));
    import.write(&place.folder, header).map_err(Problem::from)?;
    imported.shown(&place.folder, &notes)
}
