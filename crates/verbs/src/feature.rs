//! What a feature adds to the program. The base names none of them: the binary lists those that it was built with.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;
use msgpath_core::Problem;

use crate::beside::Beside;
use crate::cli::options::Look;
use crate::kind::Kind;
use crate::servers::Server;
use crate::verb::AnyVerb;

/// A capability beyond echo, stream and compare, whole in a crate of its own.
pub struct Feature {
    /// Its verbs.
    pub verbs: &'static [AnyVerb],
    /// What it keeps on disk.
    pub kinds: &'static [Kind],
    /// What it takes from other programs.
    pub importers: &'static [Importer],
    /// Its part of `msgpath schema` ([`msgpath_present::json::schema_part`]); empty: it prints no object of its own.
    pub schema: &'static str,
    /// What `msgpath serve` can be instead.
    pub servers: &'static [&'static dyn Server],
    /// What it measures beside a run.
    pub besides: &'static [&'static dyn Beside],
    /// What it makes known elsewhere before anything else is done, such as paths.
    pub begin: fn(),
}

/// Files of other programs that `msgpath import` takes, beside logs of calls.
pub struct Importer {
    /// What they are and how they come about, for the help.
    pub help: &'static str,
    /// Whether the files are such, by what they begin with.
    ///
    /// # Errors
    /// Only some of them are.
    pub takes: fn(&[PathBuf]) -> Result<bool, Problem>,
    /// Keeps what they say, and shows it.
    pub import: fn(&Imported<'_>) -> Result<ExitCode>,
}

/// What was typed behind `msgpath import`.
pub struct Imported<'a> {
    /// The files, in the order in which they were typed.
    pub files: &'a [PathBuf],
    /// The name of the record; `None`: two random words.
    pub name: Option<&'a str>,
    /// A title.
    pub title: Option<&'a String>,
    /// How the result is printed.
    pub look: &'a Look,
}

/// Of a feature that has nothing of it.
pub const NOTHING: Feature =
    Feature { verbs: &[], kinds: &[], importers: &[], schema: "", servers: &[], besides: &[], begin: || () };

static ALL: OnceLock<&[&Feature]> = OnceLock::new();

/// Tells the base which features there are; once, before anything else.
pub fn set(features: &'static [&'static Feature]) {
    if ALL.set(features).is_ok() {
        features.iter().for_each(|feature| (feature.begin)());
    }
}

/// The features of this program.
pub fn all() -> &'static [&'static Feature] {
    ALL.get().copied().unwrap_or_default()
}
