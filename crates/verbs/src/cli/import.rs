//! `msgpath import`: logs of the RPC lab and of other programs as a run, and texts of tracers of others.

use msgpath_core::parts::Parts;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::foreign::shown;
use msgpath_core::plan::Plan;
use msgpath_core::schema::{NEAR, RpcFacts, RunHeader};
use msgpath_core::units::{self, Pieces};
use msgpath_core::{Case, PathName, Problem};
use msgpath_record::import::read_files;
use msgpath_record::utc;

use crate::feature::{self, Imported, Importer};
use crate::measure::{self, View};
use crate::options::Look;
use crate::output;
use crate::place::Place;
use crate::problems::usage;
use crate::verb::Group;
use crate::{runs, typed};

/// Logs of the RPC lab, or CSV, as a run; what other programs wrote
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Binary logs of client4 and server4, the JSON that dumplogfile4 writes, or CSV; or what a tracer wrote
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// What the run is called [default: two random words]
    #[arg(long, value_name = "NAME", value_parser = typed::run_name)]
    name: Option<String>,
    /// A title, for the report and for `export --to rpc-json`
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Speed of the wire between the machines in bits a second, for the estimate of the time on it: 1G
    #[arg(long, value_name = "RATE", value_parser = units::parse_count)]
    wire: Option<u64>,
    /// Findings and warnings only
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    look: Look,
}

const AFTER: &str = "\
Files come in any order; what each is, its content tells. The logs of a client and of its server are matched \
by the id of the call, T1 and both addresses. Nothing is aligned, clamped or invented.

CSV: the first line names the columns. t1 must be there (request sent); t2, t3, t4 (request received, reply \
sent, reply received), method, rpcid, parent, status, request_bytes, reply_bytes, client, server, connection \
and key may be. Stamps are µs since 1970, or in the unit that their column names: t1_ns, t1_us, t1_ms, t1_s.";

impl crate::verb::Verb for Arguments {
    const NAME: &str = "import";
    const GROUP: Group = Group::Keep;
    const BESIDE: Option<&str> = Some("write other formats, read foreign logs");

    fn adapted(command: clap::Command) -> clap::Command {
        let others = importers().map(|importer| format!("\n\n{}", importer.help)).collect::<String>();
        command.after_help(format!("{AFTER}{others}"))
    }

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }
}

/// The feature that takes these files; `None`: they are logs of calls.
fn taken_by(files: &[PathBuf]) -> Result<Option<&'static Importer>, Problem> {
    for importer in importers() {
        if (importer.takes)(files)? {
            return Ok(Some(importer));
        }
    }
    Ok(None)
}

fn importers() -> impl Iterator<Item = &'static Importer> {
    feature::all().iter().flat_map(|feature| feature.importers)
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    if let Some(importer) = taken_by(&arguments.files)? {
        if arguments.wire.is_some() {
            return Err(usage("--wire is of calls, and these files have none").into());
        }
        let Arguments { files, name, title, look, .. } = arguments;
        return (importer.import)(&Imported { files, name: name.as_deref(), title: title.as_ref(), look });
    }
    let import = read_files(&arguments.files).map_err(Problem::from)?;
    let place = Place::kept(arguments.name.as_deref())?;
    let title = arguments.title.clone().or_else(|| import.title.clone());
    let mut notes: Vec<String> = import.found.clone();
    notes.extend(import.notes.iter().map(|note| format!("note: {note}")));
    // The plan is made of the calls; until then one has to stand here.
    let mut plan = Plan::new(
        &msgpath_core::workload::CALLS,
        vec![Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(1))],
    );
    plan.declare(msgpath_paths::traits);
    let mut header = RunHeader {
        started: utc::now(),
        command: std::iter::once("msgpath".into()).chain(words).collect(),
        parts: Parts::default().with(RpcFacts {
            wire: arguments.wire.filter(|bits| *bits > 0).map(|bits| (bits, "--wire".to_owned())),
            ..RpcFacts::default()
        }),
        version: env!("CARGO_PKG_VERSION").into(),
        ..RunHeader::new(place.name.as_str(), "import", plan)
    };
    header.host_mut(NEAR).facts.extend(title.map(|title| ("title".to_owned(), title)));
    import.write(&place.folder, header).map_err(Problem::from)?;
    let run = runs::read(&place.folder)?;
    let summary = runs::summarise(&run)?;
    let json = serde_json::to_vec_pretty(&summary)?;
    msgpath_record::write_summary(&place.folder, &json).map_err(Problem::from)?;
    let view = View {
        trials: None,
        whole: None,
        quiet: arguments.quiet.into(),
        verbose: false,
        warnings: false,
        units: Default::default(),
        look: &arguments.look,
    };
    let mut text = String::new();
    if !arguments.quiet && !arguments.look.json {
        text = notes.iter().map(|line| shown(line)).collect::<Vec<_>>().join("\n") + "\n\n";
    }
    text += &measure::text(&run, &summary, &view, false);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
