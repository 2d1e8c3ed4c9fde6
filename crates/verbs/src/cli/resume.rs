//! `msgpath resume`: a run that was cut short goes on.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{ArgAction, Args};
use msgpath_core::Problem;
use msgpath_core::foreign::shown;
use msgpath_core::schema::RunHeader;
use msgpath_record::CutShort;
use msgpath_run::resume;
use msgpath_sys::say;

use crate::measure::{self, next_phase};
use crate::options::{Look, MessageOptions, Options, ProgressStyle, ResultOptions, UnitsArg};
use crate::verb::{Asked, Group};
use crate::{again, places, progress, runs};

/// Go on with a run that was cut short
#[derive(Args, Debug)]
#[command(
    after_help = "A run that was killed, interrupted or left by its far end goes on where it stopped: only the rounds \
that are missing are measured, in the order that was drawn when it began, without new pilots. The \
result is shown as the run's own verb shows it. Of a run that lacks nothing the result is shown again.

Where the machine was started again since, or has another kernel, other CPUs or another msgpath, the \
run does not go on without --force: its rounds would not belong together. See docs/resume.md."
)]
pub(crate) struct Arguments {
    /// A name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN", default_value = "@last")]
    run: String,
    /// Also where the machine is not as it was; the record and the result say what differs
    #[arg(long)]
    force: bool,
    /// Progress on standard error [default: block on a terminal, else a line every 10 s]
    #[arg(long, value_enum, value_name = "STYLE")]
    progress: Option<ProgressStyle>,
    /// The result in a sentence or two and a line for each kind of warning; -qq: nothing but the exit code
    #[arg(short = 'q', long, action = ArgAction::Count)]
    quiet: u8,
    /// More: costs, steadiness, all findings and warnings, options, both machines
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Warnings in full
    #[arg(short = 'W', long)]
    warnings: bool,
    /// Units of throughput: si (Gbit/s = 10^9) or binary (Gibit/s = 2^30 beside it)
    #[arg(long, value_enum, value_name = "UNITS", default_value_t)]
    units: UnitsArg,
    /// One JSON object for each round on standard output, as soon as it is recorded, and as the last line what --json prints
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    /// Metrics for Prometheus while the run goes on: into a text file (metrics.prom), or for whoever asks at an address of
    /// this machine (127.0.0.1:9464)
    #[arg(long, value_name = "FILE|ADDR", value_parser = crate::typed::metrics)]
    open_metrics: Option<crate::metrics::MetricsTo>,
    #[command(flatten)]
    look: Look,
    #[command(flatten)]
    again: again::Typed,
}

impl Arguments {
    /// How the result is shown, as typed now; what it is held to (`--strict`), as typed when the run began.
    fn options(&self, asked: Asked) -> Options {
        let result = ResultOptions {
            progress: self.progress,
            quiet: self.quiet,
            verbose: self.verbose,
            warnings: self.warnings,
            units: self.units,
            jsonl: self.jsonl,
            open_metrics: self.open_metrics.clone(),
            look: Look { json: self.look.json || self.jsonl, ..self.look.clone() },
            ..ResultOptions::default()
        };
        let message = MessageOptions { paths: asked.paths, ..MessageOptions::default() };
        Options { message, evidence: asked.evidence, result, ..Options::default() }
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "resume";
    const GROUP: Group = Group::Keep;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = runs::find(&arguments.run)?;
    let run = runs::recorded(&folder)?;
    let asked = crate::command::asked(&run.header.command);
    let each = asked.each && run.header.plan.workload.is_echoed();
    let options = arguments.options(asked);
    let note = |text: String| {
        if options.result.quiet == 0 {
            say!("note: {}", shown(&text));
        }
    };
    let name = run.header.name.clone();
    if resume::is_complete(&run) {
        note(format!("nothing is missing of {name}"));
        return measure::presented(&run.header.verb, each, &options, &folder, None);
    }
    let cut = CutShort::open(&folder).map_err(Problem::from)?;
    resume::check(&cut)?;
    again::run(&cut.run.header, &folder, "resume", &arguments.again)?;
    // Before the process may move into a namespace.
    let metrics = progress::open(&options.result)?;
    // Before there is any other thread: threads stay where they were started.
    let between = cut.run.header.plan.options.between.as_ref();
    let _places = between.map(places::again).transpose()?;
    note(in_words(&cut));
    let stop: &AtomicBool = msgpath_sys::signal::stop_flag();
    let mut progress = progress::progress(&options.result, metrics);
    resume::resume(cut, arguments.force, progress.as_mut(), &mut next_phase, stop)?;
    measure::presented(&run.header.verb, each, &options, &folder, Some(&folder))
}

/// What there is of the run.
fn in_words(cut: &CutShort) -> String {
    let RunHeader { name, plan, .. } = &cut.run.header;
    let count = |number: u64| format!("{number} round{}", if number == 1 { "" } else { "s" });
    let (done, planned) = (cut.run.rounds.len() as u64, plan.total_rounds());
    // It may have gone on beyond the plan, for want of calm rounds.
    match planned.saturating_sub(done) {
        0 => format!("{name} goes on after {}", count(done)),
        _ => format!("{name} goes on after {} of {planned}", count(done)),
    }
}
