//! Executes a request and presents what was recorded: run, read, analyse, print. Always through the record.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use msgpath_analyse::gates::RunGate;
use msgpath_analyse::{Summary, summarise_with};
use msgpath_core::foreign::shown;
use msgpath_core::parts::Parts;
use msgpath_core::plan::Stamps;
use msgpath_core::schema::MessageRow;
use msgpath_core::units::BitUnits;
use msgpath_core::{Case, Problem, Target};
use msgpath_present::section;
use msgpath_record::Run;
use msgpath_run::{Progress, examples};
use msgpath_sys::say;

use crate::beside::Begins;
use crate::options::{Look, Options};
use crate::output::{self, OutputFile};
use crate::place::Place;
use crate::places::Places;
use crate::request::{Request, Verb};
use crate::{gates, looks, places, problems, progress, runs, verdict};

/// Measures, prints the result and says with which code the program ends.
///
/// # Errors
/// What kept the run from starting or from finishing, or a file that could not be written.
pub fn measure(verb: Verb, request: Request, options: &Options, words: Vec<String>) -> Result<ExitCode> {
    let each = matches!(verb, Verb::Echo { each: true, .. });
    let own = MeasuredBy { verb: verb.name(), each, parts: Parts::default(), beside: &|shown, _| shown };
    measure_with(own, request, options, words)
}

/// Something around what is shown of a run; the folder is that of the run.
pub type Around<'a> = dyn Fn(Box<dyn Progress>, &Path) -> Box<dyn Progress> + 'a;

/// What a verb has of its own.
pub struct MeasuredBy<'a> {
    pub verb: &'a str,
    /// Message by message.
    pub each: bool,
    /// What it adds to the header of the record.
    pub parts: Parts,
    /// What it does beside the rounds, around what is shown of them; what it measures goes into the folder of the run.
    pub beside: &'a Around<'a>,
}

/// The same for a verb that does something beside the rounds.
///
/// # Errors
/// As [`measure`].
pub fn measure_with(
    own: MeasuredBy<'_>,
    mut request: Request,
    options: &Options,
    words: Vec<String>,
) -> Result<ExitCode> {
    if options.connection.places.is_asked() && request.target != Target::Local {
        return Err(problems::usage("--between names both ends, and so does a target").hint("one of the two").into());
    }
    if request.plan.stages.is_some() && !msgpath_analyse::section::reads_traces() {
        return Err(problems::usage("this msgpath was built without stages").hint("leave out --stages").into());
    }
    let mut options = options.clone();
    // The last line is the object that --json prints.
    options.result.look.json |= options.result.jsonl;
    // Before the process may move into a namespace.
    let metrics = progress::open(&options.result)?;
    if !request.plan.options.has_hosts() {
        places::of_clients(&mut request.plan.options.clients)?;
    }
    // Before there is any other thread: threads stay where they were started.
    let mut places = options.connection.places.find()?;
    request.plan.options.between = places.as_mut().map(|places| {
        places.between.choose(request.plan.options.family);
        places.between.clone()
    });
    if options.result.quiet == 0 {
        for note in request.notes.iter().chain(places.iter().flat_map(|places| &places.notes)) {
            say!("note: {}", shown(note));
        }
    }
    examples::build(&mut request.plan.programs);
    let (options, result) = (&options, &options.result);
    let MeasuredBy { verb, each, mut parts, beside } = own;
    parts.extend(request.parts.clone());
    let execute = |place: &Place, stop: &AtomicBool| {
        let mut progress = beside(progress::progress(result, metrics), &place.folder);
        for (beside, typed) in options.evidence.besides.asked() {
            let begins =
                Begins { folder: place.folder.clone(), target: request.target.clone(), parts: request.parts.clone() };
            progress = beside.between(typed, progress, begins);
        }
        msgpath_run::execute(
            msgpath_run::Request {
                plan: request.plan,
                target: request.target,
                verb: verb.into(),
                command: std::iter::once("msgpath".into()).chain(words).collect(),
                name: place.name.clone(),
                folder: place.folder.clone(),
                kept: place.is_kept(),
                parts,
            },
            progress.as_mut(),
            &mut next_phase,
            stop,
        )
        .map(drop)
    };
    let ended = recorded(verb, each, options, execute);
    if let Some(left) = places.as_mut().and_then(Places::after) {
        say!("warning: {}", shown(&left));
    }
    ended
}

/// Executes, reads the record back, prints what it holds and says with which code the program ends. `each`: message by
/// message.
///
/// # Errors
/// As [`measure`].
pub fn recorded(
    verb: &str,
    each: bool,
    options: &Options,
    execute: impl FnOnce(&Place, &AtomicBool) -> Result<(), Problem>,
) -> Result<ExitCode> {
    let result = &options.result;
    let place = if result.no_save { Place::temporary()? } else { Place::kept(result.name.as_deref())? };
    let stop = msgpath_sys::signal::stop_flag();
    execute(&place, stop)?;
    presented(verb, each, options, &place.folder, (!result.no_save).then_some(&place.folder))
}

/// Prints what the run in `folder` holds and says with which code the program ends. `keep`: where the numbers are stored, for
/// `verify`, with the report of a comparison.
///
/// # Errors
/// As [`measure`].
pub fn presented(verb: &str, each: bool, options: &Options, folder: &Path, keep: Option<&Path>) -> Result<ExitCode> {
    let result = &options.result;
    let mut run = runs::read(folder)?;
    let trials = if each { Some(runs::each_message(&run)?) } else { None };
    let logs = runs::logs(&run)?;
    let mut summary = summarise_with(&run, &logs);
    if result.no_save {
        run.folder.clear(); // nothing may name a folder that is about to be removed
    }
    if let Some(folder) = keep {
        // What is printed below, so that `verify` can compare it with the record.
        let json = serde_json::to_vec_pretty(&summary)?;
        msgpath_record::write_summary(folder, &json).map_err(Problem::from)?;
    }
    runs::with_earlier(&run, &mut summary);
    let look = &result.look;
    let view = View {
        trials,
        whole: section::of_verb(verb),
        quiet: result.quiet,
        verbose: result.verbose,
        warnings: result.warnings,
        units: result.units.into(),
        look,
    };
    let mut text = text(&run, &summary, &view);
    for (beside, _) in options.evidence.besides.asked().filter(|_| result.quiet == 0) {
        text += &beside.text(&run, &summary, folder, looks::stdout(look))?;
    }
    if let Some(folder) = keep.filter(|_| verb == "compare") {
        let report = folder.join("report.html");
        crate::report::write_of(&run, &summary, &logs, &OutputFile::Named(report.clone()))?;
        if !result.look.json && result.quiet == 0 {
            text += &format!("report {}\n", report.display());
        }
    }
    output::print(&text)?;
    let held = verdict::of(run.header.plan.workload, &summary, options)
        .and_then(|()| gates::verdict(&summary.gates, options.evidence.strict));
    Ok(code_of(held, &summary.gates, result.quiet))
}

/// The exit code of a run that was held to what was asked for; what it comes to is said unless `-qq` forbids it.
pub fn code_of(held: Result<(), Problem>, gates: &[RunGate], quiet: u8) -> ExitCode {
    match held {
        Ok(()) => {
            if quiet < 2 {
                gates::note_undecided(gates);
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            if quiet < 2 {
                say!("{problem}");
            }
            problem.exit.code().into()
        }
    }
}

/// Cases near the crossings that the first phase has found. A run that cannot be read back yet has none: what was measured
/// stays, and the run says at its end what is wrong.
pub fn next_phase(folder: &Path) -> Vec<Case> {
    match msgpath_record::read(folder) {
        Ok(run) if run.header.plan.refine => {
            msgpath_analyse::refine::sizes_near_crossings(&run.header.plan, &msgpath_analyse::summarise(&run))
        }
        _ => Vec::new(),
    }
}

/// How a run is shown.
pub struct View<'a> {
    /// The messages to show one by one (`--each`).
    pub trials: Option<Vec<MessageRow>>,
    /// The view of the verb that was typed, instead of the usual tables.
    pub whole: Option<section::Whole>,
    /// `-q` and `-qq`.
    pub quiet: u8,
    /// `-v`.
    pub verbose: bool,
    /// `-W`.
    pub warnings: bool,
    /// Units of throughput.
    pub units: BitUnits,
    /// Colours, characters, JSON.
    pub look: &'a Look,
}

/// The result as text or JSON.
pub fn text(run: &Run, summary: &Summary, view: &View<'_>) -> String {
    use msgpath_present::{Style, json, terminal};
    let style = Style { verbose: view.verbose, warnings: view.warnings, ..looks::stdout(view.look) };
    let units = view.units;
    if view.look.json {
        return json::summary_json(run, summary) + "\n";
    }
    let plan = &run.header.plan;
    let mut text = if view.quiet > 1 {
        return String::new();
    } else if view.quiet == 1 {
        terminal::verdict(run, summary, style, units)
    } else if summary.cases.iter().all(|case| case.rounds == 0) {
        terminal::nothing(run, summary, style)
    } else if let Some(trials) = &view.trials {
        terminal::each(run, summary, trials, style)
    } else if plan.layers {
        terminal::ladder(run, summary, style)
    } else if let Some(whole) = view.whole {
        return whole(run, summary, &runs::on_one_clock(run, summary).unwrap_or_default(), style);
    } else if summary.verb == "compare" && !plan.beside {
        terminal::compare(run, summary, style)
    } else if let Some(text) = section::terminal(run, summary, style) {
        text
    } else if plan.workload.timed {
        terminal::echo(run, summary, style)
    } else if plan.cases.iter().any(|case| case.pieces.count > 1) {
        terminal::write_shape(run, summary, style, units)
    } else {
        terminal::stream(run, summary, style, units)
    };
    if view.quiet == 0 {
        text += &section::behind(run, summary, style);
    }
    if view.quiet == 0 && has_stages(run) {
        text += &terminal::stage_bars(run, summary, &runs::on_one_clock(run, summary).unwrap_or_default(), style);
    }
    if view.verbose {
        text += "\n";
        text += &terminal::machines(run, summary, style);
    }
    text
}

/// Whether messages were stamped between their start and their end, and the run is kept.
fn has_stages(run: &Run) -> bool {
    let plan = &run.header.plan;
    plan.workload.is_echoed() && plan.stamps == Stamps::Both && !run.folder.as_os_str().is_empty()
}
