//! `--tools`: measuring tools of others do the same work between the rounds of a run, so that both see the same machine. What they
//! say is kept beside the rounds.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::{Exchange, SECONDS, TOOLS, TURNS, Tool, Turn, tool};
use crate::log::{append_tool_runs, tool_runs};
use crate::section::SECTION;
use crate::table;
use clap::{ArgMatches, Args, Command};
use msgpath_analyse::Summary;
use msgpath_core::schema::{FAR, NEAR, RoundRecord, RunHeader};
use msgpath_core::{Case, Plan, Problem, Target};
use msgpath_present::Style;
use msgpath_present::answers::Page;
use msgpath_record::Run;
use msgpath_run::Progress;
use msgpath_sys::say;

use msgpath_verbs::beside::Begins;
use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::options::Options;
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::Request;

/// One tool, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    All,
    One(&'static str),
}

/// `--tools`: `all`, or names.
pub fn named(text: &str) -> Result<Named, Problem> {
    if text == "all" {
        return Ok(Named::All);
    }
    let names = || TOOLS.iter().map(|tool| tool.name);
    let unknown = || {
        let hint = msgpath_core::path::nearest(text, names());
        let hint =
            hint.map_or_else(|| format!("all, or some of {}", names().collect::<Vec<_>>().join(",")), Into::into);
        usage(format!("{text:?} is not a tool that msgpath knows")).hint(format!("--tools {hint}"))
    };
    tool(text).map(|tool| Named::One(tool.name)).ok_or_else(unknown)
}

/// The tools that are meant, each once.
pub fn wanted(named: &[Named]) -> Vec<&'static Tool> {
    let meant = |tool: &&'static Tool| named.iter().any(|one| *one == Named::All || *one == Named::One(tool.name));
    TOOLS.iter().filter(meant).collect()
}

/// The option, as the verbs that measure have it.
#[derive(Args)]
struct Typed {
    /// Measuring tools of others do the same work between the rounds, on the same CPUs, and stand beside the result: all, or some
    /// of sockperf,netperf,iperf3,qperf,neper,fortio; what is not installed is named
    #[arg(long, value_name = "TOOLS", value_delimiter = ',', value_parser = named, conflicts_with_all = ["json", "jsonl"])]
    tools: Vec<Named>,
}

pub static FEATURE: Feature =
    Feature { sections: &[&SECTION], besides: &[&Beside], importers: &[crate::import::IMPORTER], ..NOTHING };

/// The tools that were typed; none of a verb that does not have the option.
fn typed_in(typed: &ArgMatches) -> impl Iterator<Item = &Named> {
    typed.try_get_many::<Named>("tools").ok().flatten().into_iter().flatten()
}

/// The tools, as a run has them beside it.
struct Beside;

impl msgpath_verbs::beside::Beside for Beside {
    fn options(&self, verb: Command) -> Command {
        Typed::augment_args(verb)
    }

    fn is_asked(&self, typed: &ArgMatches) -> bool {
        typed_in(typed).next().is_some()
    }

    /// # Errors
    /// The far end is not on this machine beside the near one, or no case is one that a tool does.
    fn fit(&self, _: &ArgMatches, options: &Options, request: &mut Request) -> Result<(), Problem> {
        if request.target != Target::Local || options.connection.is_elsewhere() {
            return Err(usage("--tools are started on this machine, on its loopback address")
                .hint("leave out the target, --launch and --between"));
        }
        if Exchange::all_of(&request.plan).is_empty() {
            return Err(usage("no tool does what these cases do")
                .why("tools do tcp:send and udp:send, blocking or with /spin, one message in flight on one connection")
                .hint("msgpath compare -x tcp:send,udp:send -l 64 --tools all"));
        }
        Ok(())
    }

    fn between(&self, typed: &ArgMatches, shown: Box<dyn Progress>, run: Begins) -> Box<dyn Progress> {
        let named: Vec<Named> = typed_in(typed).cloned().collect();
        Box::new(Between::new(shown, wanted(&named), run.folder))
    }

    fn text(&self, run: &Run, summary: &Summary, folder: &Path, style: Style) -> Result<String, Problem> {
        let said = tool_runs(folder)?;
        let title = "the same by tools of others, between the rounds".to_owned();
        let page = Page { title, tables: table::tables("tools", run, summary, &said), ..Page::default() };
        Ok(format!("\n{}", msgpath_present::answers::text(&page, style)))
    }
}

/// What is shown, and between some of the rounds a turn of the tools.
struct Between {
    shown: Box<dyn Progress>,
    tools: Vec<&'static Tool>,
    folder: PathBuf,
    work: Vec<(u32, Exchange)>,
    near: Vec<u32>,
    far: Vec<u32>,
    turns: u32,
    stop: &'static AtomicBool,
}

impl Between {
    /// Turns of these tools; what they say goes into `folder`.
    fn new(shown: Box<dyn Progress>, tools: Vec<&'static Tool>, folder: PathBuf) -> Self {
        let stop = msgpath_sys::signal::stop_flag();
        let (work, near, far) = Default::default();
        Self { shown, tools, folder, work, near, far, turns: 0, stop }
    }

    fn turn(&mut self, pass: u32, alive: &mut dyn FnMut()) {
        let (work, tools) = (&self.work, &self.tools);
        let (near, far) = (&self.near, &self.far);
        let turn = Turn { number: self.turns, pass, work, tools, seconds: SECONDS, near, far };
        let runs = turn.take(self.stop, alive);
        self.turns += 1;
        // A full disk is not a reason to stop measuring; the run itself says so.
        if let Err(error) = append_tool_runs(&self.folder, &runs) {
            say!("warning: what the tools said is lost: {error}");
        }
    }
}

/// Whether the next of the turns is due: they are spread evenly, the first in the middle of the first share of the rounds.
fn due(turns: u32, done: u64, of: u64) -> bool {
    turns < TURNS && 2 * done * u64::from(TURNS) >= of * (2 * u64::from(turns) + 1)
}

impl Progress for Between {
    fn started(&mut self, header: &RunHeader) {
        self.shown.started(header);
    }

    fn planned(&mut self, plan: &Plan) {
        self.shown.planned(plan);
        if self.work.is_empty() {
            self.work = Exchange::all_of(plan);
            (self.near, self.far) = (plan.placement.of(NEAR).to_vec(), plan.placement.of(FAR).to_vec());
        }
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.shown.warming(case, done, of);
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.shown.round(round, done, of);
    }

    fn before(&mut self, case: &Case, alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        self.shown.before(case, alive)
    }

    fn after(&mut self, case: &Case, pass: Option<u32>) -> Result<(), Problem> {
        self.shown.after(case, pass)
    }

    fn pause(&mut self, round: &RoundRecord, done: u64, of: u64, alive: &mut dyn FnMut()) {
        self.shown.pause(round, done, of, alive);
        if due(self.turns, done, of) {
            self.turn(round.pass, alive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spread_over_the_rounds() {
        for of in [1, 5, 7, 40, 1000] {
            let (mut turns, mut at) = (0, Vec::new());
            for done in 1..=of {
                if due(turns, done, of) {
                    turns += 1;
                    at.push(done);
                }
            }
            assert_eq!(turns, TURNS.min(of as u32), "{of}");
            if of == 1000 {
                assert_eq!(at, [100, 300, 500, 700, 900]);
            }
        }
    }

    #[test]
    fn tools_are_named_one_by_one_or_all_at_once() {
        assert_eq!(wanted(&[Named::All]).len(), TOOLS.len());
        let two = [named("qperf").unwrap(), named("sockperf").unwrap(), named("qperf").unwrap()];
        assert_eq!(wanted(&two).iter().map(|tool| tool.name).collect::<Vec<_>>(), ["sockperf", "qperf"]);
        let problem = named("sokperf").unwrap_err();
        assert!(problem.what.contains("not a tool") && problem.hint == "--tools sockperf", "{problem}");
    }
}
