//! What a verb is, and the one list of them.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use msgpath_core::parts::Parts;
use msgpath_core::plugged::Plugged;
use msgpath_core::{Plan, Problem};

use crate::options::{EvidenceOptions, Options};
use crate::problems::usage;
use crate::request::Request;
use crate::typed::{List, PathArg};

/// What a command line asks of its result.
#[derive(Debug, Default)]
pub struct Asked {
    /// Single messages are shown.
    pub each: bool,
    /// What the result is held to.
    pub evidence: EvidenceOptions,
    /// The paths that were named.
    pub paths: Option<List<PathArg>>,
}

impl Asked {
    /// What these options ask.
    pub fn of(each: bool, options: &Options) -> Self {
        Self { each, evidence: options.evidence.clone(), paths: options.message.paths.clone() }
    }
}

/// A verb, by its arguments: their help, their examples and their meaning stand where they are declared.
pub trait Verb: Args + FromArgMatches {
    /// What is typed.
    const NAME: &'static str;
    /// Where it stands on the help screen.
    const GROUP: Group;
    /// The verb of the base that it stands before, wherever verbs are listed; `None`: behind those of the base.
    const BEFORE: Option<&'static str> = None;
    /// It shares the line of the verb before it in its group: what the two are for together.
    const BESIDE: Option<&'static str> = None;
    /// Options that `-h` shows, separated by spaces, and the examples below them, which may be empty; `--help` shows all. `None`: few
    /// enough to be shown always.
    const SHORT: Option<(&'static str, &'static str)> = None;
    /// It begins at each round, or at each key: what is left over of earlier runs is not its business.
    const OFTEN: bool = false;
    /// The arguments that have a meaning where it goes on beside another run, by their long names; empty: it cannot.
    const ASIDE: &'static [&'static str] = &[];

    /// Carries it out. `words`: what was typed behind `msgpath`, for the record.
    ///
    /// # Errors
    /// A [`Problem`] wherever the program knows what to say.
    fn run(&self, words: Vec<String>) -> Result<ExitCode>;

    /// What is to be measured; `None`: nothing with a plan of cases.
    fn request(&self) -> Option<Result<Request, Problem>> {
        None
    }

    /// What it would do; `None`: nobody knows before.
    ///
    /// # Errors
    /// The arguments do not fit together.
    fn planned(&self) -> Result<Option<Planned>, Problem> {
        self.request().map(|request| Ok(Planned::Plan(Box::new(request?.plan)))).transpose()
    }

    /// What goes on beside the rounds of another run.
    ///
    /// # Errors
    /// The arguments do not fit together, or mean nothing there.
    fn aside(&self) -> Result<Aside, Problem> {
        match self.planned()? {
            Some(Planned::Plan(plan)) => Ok(Aside { plan: *plan, parts: Parts::default() }),
            _ => Err(usage(format!("{} has no plan", Self::NAME))),
        }
    }

    /// What the result is held to.
    fn asked(&self) -> Asked {
        Asked::default()
    }

    /// The words of a command line as clap can read them, where the verb has a grammar of its own.
    ///
    /// # Errors
    /// An option that nobody knows.
    fn sorted(words: Vec<OsString>) -> Result<Vec<OsString>, Problem> {
        Ok(words)
    }

    /// The command as clap has it, where the arguments alone do not say all.
    fn adapted(command: Command) -> Command {
        command
    }
}

/// What people come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// How long does it take?
    Measure,
    /// Why?
    Understand,
    /// What became of earlier runs?
    Keep,
    /// Can it be measured here?
    Prepare,
    /// Needed once, and named in the long help only.
    Once,
    /// What msgpath starts of itself.
    Hidden,
}

impl Group {
    /// Those of the help screen, in its order.
    pub const SHOWN: [Group; 4] = [Group::Measure, Group::Understand, Group::Keep, Group::Prepare];

    /// The word on the help screen.
    pub fn word(self) -> &'static str {
        match self {
            Group::Measure => "measure",
            Group::Understand => "understand",
            Group::Keep => "keep",
            Group::Prepare => "prepare",
            Group::Once => "once",
            Group::Hidden => "",
        }
    }
}

/// What a command is planned for.
pub enum Planned {
    /// Cases with their rounds.
    Plan(Box<Plan>),
    /// A number of cases and the time that they take, ns.
    Time {
        cases: u64,
        /// All of them, ns.
        ns: u64,
    },
}

/// What goes on beside the rounds of another run.
pub struct Aside {
    /// One case.
    pub plan: Plan,
    /// What its workload must know besides.
    pub parts: Parts,
}

/// A [`Verb`] in a list of them.
pub struct AnyVerb {
    /// See [`Verb::NAME`]; so are the others.
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    pub(crate) before: Option<&'static str>,
    pub(crate) beside: Option<&'static str>,
    pub(crate) short: Option<(&'static str, &'static str)>,
    pub(crate) often: bool,
    pub(crate) takes_aside: &'static [&'static str],
    pub(crate) command: fn() -> Command,
    pub(crate) sorted: fn(Vec<OsString>) -> Result<Vec<OsString>, Problem>,
    pub(crate) run: fn(&ArgMatches, Vec<String>) -> Result<ExitCode>,
    pub(crate) planned: fn(&ArgMatches) -> Result<Option<Planned>, Problem>,
    pub(crate) aside: fn(&ArgMatches) -> Result<Aside, Problem>,
    pub(crate) asked: fn(&ArgMatches) -> Asked,
}

impl AnyVerb {
    /// As a constant, for the table of the base or of a feature.
    pub const fn of<V: Verb>() -> Self {
        Self {
            name: V::NAME,
            group: V::GROUP,
            before: V::BEFORE,
            beside: V::BESIDE,
            short: V::SHORT,
            often: V::OFTEN,
            takes_aside: V::ASIDE,
            command: || V::adapted(V::augment_args(Command::new(V::NAME))).hide(matches!(V::GROUP, Group::Hidden)),
            sorted: V::sorted,
            run: |matches, words| parsed::<V>(matches).run(words),
            planned: |matches| parsed::<V>(matches).planned(),
            aside: |matches| parsed::<V>(matches).aside(),
            asked: |matches| parsed::<V>(matches).asked(),
        }
    }
}

/// # Panics
/// The matches are of another verb.
pub(crate) fn parsed<V: Verb>(matches: &ArgMatches) -> V {
    V::from_arg_matches(matches).expect("matches of this verb")
}

static ALL: Plugged<AnyVerb> = Plugged::new();

/// Lists the verbs of this program, once, before anything else: those of the base, then the others, but for the ones that stand
/// before one of the base.
pub(crate) fn list(base: &'static [AnyVerb], added: &[&'static AnyVerb]) {
    let before = |verb: &AnyVerb| added.iter().copied().filter(|own| own.before == Some(verb.name)).collect::<Vec<_>>();
    let first = base.iter().flat_map(|verb| before(verb).into_iter().chain([verb]));
    ALL.extend(first.chain(added.iter().copied().filter(|own| own.before.is_none())));
}

/// Every verb of this program, in the order in which the help has them.
pub(crate) fn all() -> impl Iterator<Item = &'static AnyVerb> {
    ALL.all()
}

/// The verb that is called so.
pub(crate) fn named(name: &str) -> Option<&'static AnyVerb> {
    all().find(|verb| verb.name == name)
}
