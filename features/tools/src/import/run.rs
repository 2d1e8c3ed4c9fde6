//! What a file tells, kept as a run.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, FromArgMatches};
use msgpath_core::path::UNKNOWN;
use msgpath_core::plan::{Extent, MAX_CONNECTIONS, MAX_SIZE, Plan};
use msgpath_core::schema::{EndReport, FAR, NEAR, RoundRecord, RunEnd, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Delivery, Exit, PathName, Problem, Workload};
use msgpath_record::{RunWriter, utc};
use msgpath_verbs::importers::{ForeignFile, Imported, Importer};
use msgpath_verbs::input;
use msgpath_verbs::place::Place;
use msgpath_verbs::problems::usage;

use crate::findings::ImportFacts;

use super::{FORMS, Form, MOST_BYTES, Round, Told, Unread};

/// Takes what measuring tools wrote.
pub const IMPORTER: Importer = Importer {
    are: "of a measuring tool",
    forms: "JSON of iperf3, omni output of netperf, a distribution or a log of HdrHistogram (wrk2, hgrm, hlog), a capture (pcap, pcapng)",
    written_by: "iperf3 -J, netperf -- -k, wrk2 --latency, logs of HdrHistogram, tcpdump -w",
    help: HELP,
    options: Times::augment_args,
    takes: |file| form(file).is_some(),
    import,
};

const HELP: &str = "\
Measuring tools: what iperf3 -J wrote, intervals as rounds of a stream; what netperf wrote with -k or -o; a percentile distribution of HdrHistogram, also in the output \
of wrk2 --latency, and its logs (hlog), intervals as rounds; a capture (pcap, pcapng) as round trips of TCP, a case for each server. What the file \
does not tell is said.";

#[derive(Args)]
struct Times {
    /// Unit of the times in a file of HdrHistogram that does not name it: ns, us, ms or s
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    unit: Option<f64>,
}

fn unit(text: &str) -> Result<f64, Problem> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.into_iter().find(|(name, _)| *name == text).map(|(_, ns)| ns);
    found.ok_or_else(|| usage(format!("{text:?} is no unit of time")).hint("--unit us   or ns, ms, s"))
}

fn form(file: &ForeignFile) -> Option<&'static Form> {
    FORMS.into_iter().find(|form| (form.is)(&file.begin))
}

fn import(imported: Imported<'_>) -> Result<ExitCode> {
    let [file] = &imported.files[..] else {
        return Err(usage("the result of a measuring tool is a run of its own")
            .hint("one import for each file")
            .into());
    };
    let unit = Times::from_arg_matches(imported.typed)?.unit;
    let path = file.path.display().to_string();
    let form = form(file).expect("it was taken");
    let text = input::read(&file.source(), MOST_BYTES)
        .map_err(|why| Problem::new("E13", Exit::CannotStart, format!("{path} cannot be read ({why})")))?;
    let told = (form.read)(&text, unit).map_err(|Unread { why, hint }| {
        let what = format!("{path} is {}, and nothing could be read of it", form.name);
        Problem::new("E31", Exit::CannotStart, what).why(why).hint(hint)
    })?;
    let place = Place::kept(imported.name)?;
    let header = header(&imported, &told, &place.name, &path);
    let mut writer = RunWriter::create(&place.folder, &header).map_err(Problem::from)?;
    for pass in 0..header.plan.rounds {
        for (case, told_case) in told.cases.iter().enumerate() {
            if let Some(round) = told_case.rounds.get(pass as usize) {
                let round = record(&told, told_case, round, (case as u32, pass));
                writer.round(&round, &[]).map_err(Problem::from)?;
            }
        }
    }
    writer.finish(RunEnd::of(Ok(true), utc::now())).map_err(Problem::from)?;
    let rounds: usize = told.cases.iter().map(|case| case.rounds.len()).sum();
    let plural = if rounds == 1 { "" } else { "s" };
    let mut notes = vec![format!("{path}: {} ({}), {rounds} round{plural}", form.name, told.tool)];
    notes.extend(told.lacks.iter().map(|lack| format!("note: {lack}")));
    imported.shown(&place.folder, &notes)
}

fn header(imported: &Imported<'_>, told: &Told, name: &str, path: &str) -> RunHeader {
    let workload = if told.stream { Workload::STREAM } else { Workload::ECHO };
    let case = |(id, told): (usize, &super::Case)| {
        let transport = if told.transport.is_empty() { UNKNOWN } else { told.transport };
        let path = if told.method.is_empty() {
            PathName::untold(transport)
        } else {
            PathName::new(transport, told.method, UNKNOWN)
        };
        let size = told.size.clamp(1, MAX_SIZE as u32);
        let mut case = msgpath_core::Case::new(path, Pieces::whole(size));
        case.id = id as u32;
        (case.connections, case.threads) = (told.connections.clamp(1, MAX_CONNECTIONS), 1);
        case.label = (!told.name.is_empty()).then(|| told.name.chars().take(64).collect());
        case
    };
    let cases = told.cases.iter().enumerate().map(case).collect();
    let rounds = || told.cases.iter().flat_map(|case| &case.rounds);
    let extent = match told.stream {
        true => Extent::Time(rounds().map(|round| round.ns).max().unwrap_or(1)),
        false => Extent::Count(rounds().map(|round| round.times.total()).max().unwrap_or(1)),
    };
    let mut plan = Plan {
        rounds: told.cases.iter().map(|case| case.rounds.len()).max().unwrap_or(1) as u32,
        extent,
        reverse: told.reverse,
        trim: 0,
        message_log: 0,
        ..Plan::new(workload, cases)
    };
    plan.declare(msgpath_paths::traits);
    let mut header = RunHeader {
        started: if told.began > 0 { utc::text(told.began) } else { utc::now() },
        command: std::iter::once("msgpath".into()).chain(imported.words.iter().cloned()).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        imported: vec![path.into()],
        target: told.target.clone(),
        ..RunHeader::new(name, "import", plan)
    };
    let server = told.target.rsplit_once(':').map_or("", |(host, _)| host);
    for (end, host) in [(NEAR, told.client.as_str()), (FAR, server)] {
        let machine = header.host_mut(end);
        (machine.host, machine.boot_id) = (host.into(), "n/a: imported".into());
    }
    let facts = &mut header.host_mut(NEAR).facts;
    facts.insert("measured by".into(), told.tool.clone());
    facts.extend(told.lacks.iter().enumerate().map(|(at, lack)| (format!("not told {}", at + 1), lack.clone())));
    if let Some((sent, received)) = told.shared_out {
        header.parts.set(ImportFacts { sent_bits_per_s: sent, received_bits_per_s: received });
    }
    let facts = &mut header.host_mut(NEAR).facts;
    facts.extend(imported.title.map(|title| ("title".to_owned(), title.clone())));
    header
}

/// A round as it is recorded. Where the size of a message is not told, its bytes are not either; of a stream they are all there is.
fn record(told: &Told, told_case: &super::Case, round: &Round, (case, pass): (u32, u32)) -> RoundRecord {
    let times = &round.times;
    let is_known = told.stream || !told_case.method.is_empty();
    let size = if is_known { u64::from(told_case.size.max(1)) } else { 0 };
    let sent = if told.stream { round.bytes / size } else { times.total() };
    let delivery = Delivery { sent, received: sent - times.lost(), lost: times.lost(), ..Delivery::default() };
    let near = EndReport {
        elapsed_ns: round.ns,
        bytes_sent: sent * size,
        bytes_received: if told.stream { 0 } else { delivery.received * size },
        delivery,
        ..EndReport::default()
    };
    let replies = Delivery { sent: delivery.received, received: delivery.received, ..Delivery::default() };
    let far = EndReport {
        elapsed_ns: round.ns,
        bytes_sent: if told.stream { 0 } else { delivery.received * size },
        bytes_received: delivery.received * size,
        delivery: if told.stream { delivery } else { replies },
        ..EndReport::default()
    };
    let (near, far) = if told.reverse { (far, near) } else { (near, far) };
    RoundRecord {
        case,
        pass,
        position: case,
        start_ns: round.start_ns,
        batch: 1,
        ends: vec![near.into(), far.into()],
        latency: times.clone(),
        ..RoundRecord::default()
    }
}
