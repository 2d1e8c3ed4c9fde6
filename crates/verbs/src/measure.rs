//! Executes a request and presents what was recorded: run, read, analyse, print. Always through the record.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use msgpath_analyse::gates::RunGate;
use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::{Summary, summarise_with};
use msgpath_core::Workload;
use msgpath_core::foreign::shown;
use msgpath_core::plan::{MIN_ROUNDS_FOR_CLAIMS, Stamps};
use msgpath_core::schema::{MessageRow, Status};
use msgpath_core::units::BitUnits;
use msgpath_core::{Case, CaseRole, Exit, Problem, Target};
use msgpath_present::section;
use msgpath_record::Run;
use msgpath_run::examples;
use msgpath_stats::quantile::Range;
use msgpath_sys::say;

use crate::options::{Look, Options};
use crate::output::{self, OutputFile};
use crate::place::Place;
use crate::places::Places;
use crate::request::{Request, Verb};
use crate::{gates, looks, problems, progress, runs};

/// Measures, prints the result and says with which code the program ends.
///
/// # Errors
/// What kept the run from starting or from finishing, or a file that could not be written.
pub fn measure(verb: Verb, mut request: Request, options: &Options, words: Vec<String>) -> Result<ExitCode> {
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
    // Before there is any other thread: threads stay where they were started.
    let mut places = options.connection.places.find()?;
    request.plan.options.between = places.as_ref().map(|places| places.between.clone());
    if options.result.quiet == 0 {
        for note in request.notes.iter().chain(places.iter().flat_map(|places| &places.notes)) {
            say!("note: {}", shown(note));
        }
    }
    examples::build(&mut request.plan.programs);
    let (options, result) = (&options, &options.result);
    let each = matches!(verb, Verb::Echo { each: true, .. });
    let execute = |place: &Place, stop: &AtomicBool| {
        let mut progress = progress::progress(result, metrics);
        for (beside, typed) in options.evidence.besides.asked() {
            progress = beside.between(typed, progress, place.folder.clone());
        }
        msgpath_run::execute(
            msgpath_run::Request {
                plan: request.plan,
                target: request.target,
                verb: verb.name().into(),
                command: std::iter::once("msgpath".into()).chain(words).collect(),
                name: place.name.clone(),
                folder: place.folder.clone(),
                kept: place.is_kept(),
            },
            progress.as_mut(),
            &mut next_phase,
            stop,
        )
        .map(drop)
    };
    let ended = recorded(verb.name(), each, options, execute);
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
    let held = verdict(run.header.plan.workload, &summary, options)
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
        terminal::verdict(run, summary, style)
    } else if summary.cases.iter().all(|case| case.rounds == 0) {
        terminal::nothing(run, summary, style)
    } else if let Some(trials) = &view.trials {
        terminal::each(run, summary, trials, style)
    } else if plan.layers {
        terminal::ladder(run, summary, style)
    } else if let Some(whole) = view.whole {
        return whole(run, summary, &runs::on_one_clock(run, summary).unwrap_or_default(), style);
    } else if summary.verb == "compare" {
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

/// Whether messages were sent and not one of them arrived.
fn nothing_arrived(case: &CaseSummary) -> bool {
    case.delivery.sent > 0 && case.delivery.received == 0
}

/// Whether the result is what was asked for.
pub fn verdict(workload: &Workload, summary: &Summary, options: &Options) -> Result<(), Problem> {
    let measured: Vec<_> = summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured).collect();
    let interrupted = summary.status == Status::Partial;
    if measured.iter().all(|case| case.rounds == 0) && !interrupted {
        let reason = summary.unavailable.first().map(|case| case.reason.clone());
        let problem = Problem::new("E05", Exit::CannotStart, "nothing could be measured");
        return Err(match reason {
            Some(reason) => problem.why(reason.why).hint(reason.hint),
            None => problem,
        });
    }
    let (silent, heard): (Vec<&CaseSummary>, Vec<&CaseSummary>) =
        measured.iter().filter(|case| case.rounds > 0).copied().partition(|case| nothing_arrived(case));
    if heard.is_empty() && !silent.is_empty() {
        let what = silent[0];
        let other = match silent.len() - 1 {
            0 => String::new(),
            1 => ", and 1 other case alike".into(),
            more => format!(", and {more} other cases alike"),
        };
        let unit = workload.messages;
        let why = format!("0 {unit} of {}{other}", what.delivery.sent);
        return Err(problems::nothing_came(format!("nothing arrived over {}", what.case.path), why));
    }
    let enough = |case: &&CaseSummary| {
        if workload.timed {
            case.latency.quantiles.iter().any(|quantile| quantile.p == 0.5 && quantile.range != Range::Few)
        } else {
            case.rounds >= u64::from(MIN_ROUNDS_FOR_CLAIMS)
        }
    };
    if interrupted && (measured.is_empty() || !measured.iter().all(enough)) {
        if measured.iter().all(|case| case.rounds == 0) {
            return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the first round was whole"));
        }
        return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the medians could be vouched for")
            .why("what was measured until then is shown"));
    }
    if options.evidence.strict
        && let Some(warning) = summary.warnings.iter().find(|warning| warning.strict)
    {
        return Err(Problem::new(&warning.code, Exit::Strict, format!("--strict: {}", warning.text))
            .why(&warning.why)
            .hint(&warning.fix));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::summary::{Latency, Warning};
    use msgpath_core::schema::UnavailableCase;
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, Delivery, PathName, Unavailable};
    use msgpath_stats::quantile::Quantile;

    fn case() -> Case {
        Case::new(PathName::new("udp", "send", "block"), Pieces::whole(64))
    }

    /// One case of 40 rounds whose median is a claim, with nothing lost.
    fn good() -> Summary {
        let median = Quantile {
            p: 0.5,
            ns: Some(8_000),
            lo_ns: Some(7_900),
            hi_ns: Some(8_100),
            beyond: 500,
            bursts: 40,
            ..Quantile::default()
        };
        let measured = CaseSummary {
            rounds: 40,
            messages: 1000,
            latency: Latency { quantiles: vec![median], ..Latency::default() },
            delivery: Delivery { sent: 1000, received: 1000, ..Delivery::default() },
            ..CaseSummary::empty(case())
        };
        Summary {
            target: "this machine".into(),
            cases: vec![measured],
            ..Summary::empty("brisk-otter", "echo", Status::Ok)
        }
    }

    /// The exit code of a summary that was changed, under options that were changed.
    fn code(workload: &Workload, change: impl Fn(&mut Summary, &mut Options)) -> u8 {
        let (mut summary, mut options) = (good(), Options::default());
        change(&mut summary, &mut options);
        verdict(workload, &summary, &options).map_or_else(|problem| problem.exit.code(), |()| 0)
    }

    #[test]
    fn a_valid_result_ends_with_0() {
        assert_eq!(code(Workload::ECHO, |_, _| ()), 0);
        assert_eq!(code(Workload::ECHO, |_, options| options.evidence.strict = true), 0);
    }

    #[test]
    fn measuring_nothing_never_ends_with_0() {
        let nothing = |summary: &mut Summary, _: &mut Options| {
            summary.cases.clear();
            let reason = Unavailable::new("io_uring is switched off", "leave it out");
            summary.unavailable.push(UnavailableCase { case: case(), reason });
        };
        assert_eq!(code(Workload::ECHO, nothing), 3);
        assert_eq!(code(Workload::ECHO, |summary, _| summary.cases[0].rounds = 0), 3);
    }

    #[test]
    fn where_nothing_arrived_nothing_was_measured() {
        let lose = |summary: &mut Summary, which: usize| {
            let case = &mut summary.cases[which];
            case.delivery = Delivery { sent: 10, lost: 10, ..Delivery::default() };
        };
        for workload in [Workload::ECHO, Workload::STREAM] {
            assert_eq!(code(workload, |summary, _| lose(summary, 0)), 4);
            // One path of two that answers is a result; W26 names the other.
            let two = |summary: &mut Summary, _: &mut Options| {
                summary.cases.push(summary.cases[0].clone());
                lose(summary, 1);
            };
            assert_eq!(code(workload, two), 0);
        }
    }

    #[test]
    fn an_interrupted_run_counts_when_its_medians_do() {
        let partial = |summary: &mut Summary| summary.status = Status::Partial;
        assert_eq!(code(Workload::ECHO, |summary, _| partial(summary)), 0);
        let early = |summary: &mut Summary, _: &mut Options| {
            partial(summary);
            summary.cases[0].latency.quantiles[0].range = Range::Few;
        };
        assert_eq!(code(Workload::ECHO, early), 130);
        assert_eq!(code(Workload::STREAM, early), 0, "a stream has no median; its rounds are enough");
        let few = |summary: &mut Summary, _: &mut Options| {
            partial(summary);
            summary.cases[0].rounds = u64::from(MIN_ROUNDS_FOR_CLAIMS) - 1;
        };
        assert_eq!(code(Workload::STREAM, few), 130);
        let empty = |summary: &mut Summary, _: &mut Options| {
            partial(summary);
            summary.cases.clear();
        };
        assert_eq!(code(Workload::ECHO, empty), 130);
    }

    #[test]
    fn checks_that_were_asked_for() {
        let warned = |strict| {
            move |summary: &mut Summary, options: &mut Options| {
                options.evidence.strict = true;
                summary.warnings.push(Warning {
                    code: "W20".into(),
                    text: "the kernel copied all".into(),
                    why: String::new(),
                    fix: String::new(),
                    evidence: Default::default(),
                    strict,
                });
            }
        };
        assert_eq!(code(Workload::ECHO, warned(true)), 5);
        assert_eq!(code(Workload::ECHO, warned(false)), 0);
    }
}
