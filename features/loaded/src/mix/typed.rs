//! `--beside` of `echo` and `stream`, `--under-load` of `compare`: the text of another command line becomes a plan.

use std::path::Path;

use clap::{ArgMatches, Args, Command};
use msgpath_analyse::Summary;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{Extent, Load};
use msgpath_core::program::words;
use msgpath_core::{Case, CaseRole, Plan, Problem};
use msgpath_present::Style;
use msgpath_record::Run;
use msgpath_run::Progress;
use msgpath_verbs::beside::Begins;
use msgpath_verbs::command::aside;
use msgpath_verbs::options::Options;
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::Request;
use msgpath_verbs::verb::Aside;

use super::record::{MOST, MixFacts, Other};
use super::run::Mixing;
use super::setting::Setting;
use crate::run::MOST_ROUND;

/// The load of `--under-load` where nothing is said.
const LOAD: &str = "stream -P 4";
/// Measuring time of a case when nothing is asked, ns, and its rounds: what goes on beside begins anew in each.
const TIME: u64 = 20_000_000_000;
const ROUNDS: u32 = 10;
/// The same of `compare`, which has more cases.
const COMPARED_TIME: u64 = 15_000_000_000;

/// As `echo` and `stream` have it.
#[derive(Args)]
struct Beside {
    /// What goes on beside, as it would be typed: 'echo -l 64 --rate 1k', 'stream -l 128K -P 2', 'periodic -x shm -n 3'; each is
    /// switched off in turn, and what it does to the others said; repeatable
    #[arg(long, value_name = "VERB ...", value_parser = one, help_heading = "Evidence")]
    beside: Vec<One>,
}

/// As `compare` has it.
#[derive(Args)]
struct UnderLoad {
    /// Each path alone and beside a load in turn: which of them suffers least [default load: 'stream -P 4']
    #[arg(long, value_name = "VERB ...", value_parser = one, num_args = 0..=1, default_missing_value = LOAD)]
    #[arg(help_heading = "Evidence", require_equals = true)]
    under_load: Option<One>,
}

/// One that was typed.
#[derive(Clone, Debug)]
struct One {
    text: String,
    verb: &'static str,
    plan: Plan,
    parts: Parts,
}

/// A text of `--beside`.
fn one(text: &str) -> Result<One, Problem> {
    let of_text = |problem: Problem| {
        let what = format!("beside: {}", problem.what);
        Problem { what, ..problem }
    };
    let words = words(text).map_err(|error| usage(format!("beside: {error}")))?;
    let (verb, Aside { plan, parts }) = aside(&words).map_err(of_text)?;
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).count();
    if measured != 1 || plan.cases[0].of_capacity.is_some() {
        return Err(usage("beside: one path, one size and one rate go on").hint("'echo -x tcp:send -l 64 --rate 1k'"));
    }
    let case = &plan.cases[0];
    if !plan.workload.timed && case.path.transport != "tcp" {
        return Err(usage(format!("beside: a stream over {} is not counted there", case.path.transport))
            .why("the kernel counts the bytes of TCP sockets; those of others are counted when a stream ends")
            .hint("'stream -x tcp:send', or an echo over that path"));
    }
    if plan.workload.in_rounds && case.inflight > 1 && case.load == Load::Closed {
        return Err(usage("beside: a closed loop has one message in flight").hint("--rate"));
    }
    Ok(One { text: text.trim().into(), verb, plan, parts })
}

/// What was typed; nothing of a verb that does not have the options.
fn typed_in(typed: &ArgMatches) -> impl Iterator<Item = &One> {
    let many = |name| typed.try_get_many::<One>(name).ok().flatten().into_iter().flatten();
    many("beside").chain(many("under_load"))
}

/// Names that tell them apart, and from the case of the run where that is of this verb: it is the first then.
fn named(all: &[&One], of_run: Option<&str>) -> Vec<Other> {
    let name = |at: usize, one: &One| {
        let same = |other: &&&One| other.verb == one.verb;
        let first = if of_run == Some(one.verb) { 2 } else { 1 };
        match (all.iter().filter(same).count(), first) {
            (1, 1) => one.verb.to_owned(),
            _ => format!("{} {}", one.verb, first + all[..at].iter().filter(same).count()),
        }
    };
    let other = |(at, one): (usize, &&One)| Other {
        text: one.text.clone(),
        name: name(at, one),
        plan: one.plan.clone(),
        parts: one.parts.clone(),
    };
    all.iter().enumerate().map(other).collect()
}

/// The cases of a plan in each of their settings.
fn in_settings(cases: Vec<Case>, count: usize) -> Vec<Case> {
    let measured = cases.into_iter().filter(|case| case.role == CaseRole::Measured);
    let labelled = measured.flat_map(|case| {
        Setting::of(count).into_iter().map(move |setting| Case { label: Some(setting.label()), ..case.clone() })
    });
    labelled.enumerate().map(|(id, case)| Case { id: id as u32, ..case }).collect()
}

/// The options, and what they do.
pub struct Mix;

impl msgpath_verbs::beside::Beside for Mix {
    fn options(&self, verb: Command) -> Command {
        match verb.get_name() {
            "echo" | "stream" => Beside::augment_args(verb),
            "compare" => UnderLoad::augment_args(verb),
            _ => verb,
        }
    }

    fn is_asked(&self, typed: &ArgMatches) -> bool {
        typed_in(typed).next().is_some()
    }

    fn fit(&self, typed: &ArgMatches, options: &Options, request: &mut Request) -> Result<(), Problem> {
        let all: Vec<&One> = typed_in(typed).collect();
        let evidence = &options.evidence;
        if all.len() > MOST {
            return Err(usage(format!("{} go on beside, {MOST} may", all.len())).hint("fewer of them"));
        }
        let compares = typed.try_contains_id("under_load").is_ok();
        let plan = &mut request.plan;
        if compares && options.message.len.is_none() {
            // Many sizes by many paths, each twice, would take long to say what one says.
            let first = plan.cases.first().map(|case| case.size);
            plan.cases.retain(|case| Some(case.size) == first);
        }
        plan.cases = in_settings(std::mem::take(&mut plan.cases), all.len());
        if plan.stages.is_some() || plan.trim == 0 {
            return Err(usage("beside other traffic, single messages and their stages are not looked at")
                .hint("without --stages and --each"));
        }
        if evidence.rounds.is_none() && !evidence.quick {
            plan.rounds = ROUNDS;
        }
        match plan.extent {
            Extent::Count(_) => {
                return Err(
                    usage("what goes on beside goes on for a time, and so do the rounds").hint("-t 20s instead of -c")
                );
            }
            Extent::Time(_) if evidence.time.is_none() && !evidence.quick => {
                plan.extent = Extent::Time(if compares { COMPARED_TIME } else { TIME });
            }
            Extent::Time(ns) if ns / u64::from(plan.rounds) > MOST_ROUND => {
                let rounds = ns.div_ceil(MOST_ROUND);
                return Err(usage("a round beside other traffic takes 5 s at most")
                    .hint(format!("-r {rounds}, or a shorter -t")));
            }
            Extent::Time(_) => {}
        }
        plan.beside = true;
        // What goes on beside begins anew in each round: neither more rounds nor cases that explain others are worth it.
        (plan.fewest_rounds, plan.extend, plan.try_causes, plan.events, plan.refine) = (0, false, false, false, false);
        plan.validate()?;
        request.notes.clear();
        // Those of a comparison are called by their paths.
        let of_run = (!compares).then_some(plan.workload.name);
        request.parts.set(MixFacts { besides: named(&all, of_run) });
        Ok(())
    }

    fn between(&self, _: &ArgMatches, shown: Box<dyn Progress>, run: Begins) -> Box<dyn Progress> {
        match run.parts.get::<MixFacts>() {
            Some(facts) => Box::new(Mixing::new(shown, &facts.besides, run.target, run.folder)),
            None => shown,
        }
    }

    fn text(&self, _: &Run, _: &Summary, _: &Path, _: Style) -> Result<String, Problem> {
        Ok(String::new())
    }
}
