//! `msgpath show`: a run once more, from its record.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_present::section;

use crate::kind::Verbosity;
use crate::measure::{self, View};
use crate::options::{Look, UnitsArg};
use crate::output;
use crate::problems::usage;
use crate::runs;
use crate::verb::Group;

/// Print a run again
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN", default_value = "@last")]
    run: String,
    /// Single messages in a table, one column per case
    #[arg(long)]
    each: bool,
    /// More: costs, steadiness, all findings and warnings, options, both machines
    #[arg(short = 'v', long, visible_alias = "all")]
    verbose: bool,
    /// Warnings in full
    #[arg(short = 'W', long)]
    warnings: bool,
    /// The result in a sentence or two, and a line for each kind of warning
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Units of throughput: si (Gbit/s = 10^9) or binary (Gibit/s = 2^30 beside it)
    #[arg(long, value_enum, value_name = "UNITS", default_value_t)]
    units: UnitsArg,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "show";
    const GROUP: Group = Group::Keep;
    const BESIDE: Option<&str> = Some("list saved runs, print one again");

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (other, folder) = runs::find_any(&arguments.run)?;
    if let Some(kind) = other {
        let verbosity = if arguments.verbose { Verbosity::Verbose } else { Verbosity::Usual };
        return (kind.show)(&folder, &arguments.look, verbosity);
    }
    let run = runs::read(&folder)?;
    let mut summary = runs::summarise(&run)?;
    runs::with_earlier(&run, &mut summary);
    if arguments.each && !run.header.plan.workload.timed {
        return Err(usage("the messages of a stream are not timed one by one").hint("leave out --each").into());
    }
    let trials = if arguments.each { Some(runs::each_message(&run)?) } else { None };
    let view = View {
        trials,
        whole: section::of_verb(&run.header.verb),
        quiet: arguments.quiet.into(),
        verbose: arguments.verbose,
        warnings: arguments.warnings,
        units: arguments.units.into(),
        look: &arguments.look,
    };
    output::print(measure::text(&run, &summary, &view))?;
    Ok(ExitCode::SUCCESS)
}
