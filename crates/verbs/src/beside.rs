//! What a feature adds to the verbs that measure by an option of its own: it changes what is measured, or measures beside the paths of a
//! run, between its rounds or beside some of them, so that both see the same machine.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use msgpath_analyse::Summary;
use msgpath_core::parts::Parts;
use msgpath_core::plugged::Plugged;
use msgpath_core::{Problem, Target};
use msgpath_present::Style;
use msgpath_record::Run;
use msgpath_run::Progress;

use crate::added::{Added, Adds};
use crate::options::Options;
use crate::request::Request;

/// What a feature measures beside a run.
pub trait Beside: Sync {
    /// The command of a verb that measures, with the option that asks for it.
    fn options(&self, verb: Command) -> Command;

    /// Whether it was asked for.
    fn is_asked(&self, typed: &ArgMatches) -> bool;

    /// Whether it can do anything of what is measured, which it may change, with parts of its own for the header of the record.
    /// `options`: all that was typed.
    ///
    /// # Errors
    /// It cannot.
    fn fit(&self, typed: &ArgMatches, options: &Options, request: &mut Request) -> Result<(), Problem>;

    /// What is shown of the rounds, and its turns between some of them.
    fn between(&self, _typed: &ArgMatches, shown: Box<dyn Progress>, _run: Begins) -> Box<dyn Progress> {
        shown
    }

    /// What it measured, beside the result of the run in `folder`, as text.
    ///
    /// # Errors
    /// It cannot be read.
    fn text(&self, _run: &Run, _summary: &Summary, _folder: &Path, _style: Style) -> Result<String, Problem> {
        Ok(String::new())
    }
}

/// The run that it is beside.
#[derive(Clone, Debug)]
pub struct Begins {
    /// Its folder: what is measured beside it goes there.
    pub folder: PathBuf,
    /// Its far end.
    pub target: Target,
    /// What features added to its request.
    pub parts: Parts,
}

/// Adds the options of all features that measure beside a run.
#[derive(Clone, Debug, Default)]
pub struct OfBesides;

impl Adds for OfBesides {
    fn to(command: Command) -> Command {
        ALL.all().fold(command, |command, beside| beside.options(command))
    }
}

/// What was asked for beside a run.
pub type Besides = Added<OfBesides>;

impl Besides {
    /// Each, and what was typed for it.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (&'static dyn Beside, &ArgMatches)> {
        ALL.all().filter(|beside| beside.is_asked(&self.0)).map(|beside| (beside, &self.0))
    }
}

/// All of the features.
pub(crate) static ALL: Plugged<dyn Beside> = Plugged::new();
