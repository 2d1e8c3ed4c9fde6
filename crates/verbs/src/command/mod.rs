//! The whole command, from its verbs, and what a line of words means to it.

mod help;
mod refused;

use std::ffi::OsString;

use clap::{ArgMatches, Command};
use msgpath_core::Problem;

use crate::problems::usage;
use crate::verb::{self, AnyVerb, Asked, Planned};

pub use refused::from_clap;

/// The command with its verbs as they are declared.
fn bare() -> Command {
    let command = Command::new("msgpath")
        .about("How long does a message take from one program to another, and where does the time go?")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100);
    command.subcommands(verb::all().map(|verb| (verb.command)()))
}

/// The whole command, from which the parser, the help, the completions and the manual are made.
pub fn command() -> Command {
    let command = help::shorten(bare());
    let screen = help::screen(&command);
    command.help_template("{before-help}{after-help}").before_help(screen).after_long_help(help::MORE)
}

/// The words of a command as clap can read them: a verb may have a grammar of its own.
///
/// # Errors
/// An option that nobody knows.
pub fn sorted(words: Vec<OsString>) -> Result<Vec<OsString>, Problem> {
    match words.get(1).and_then(|word| verb::named(word.to_str()?)) {
        Some(verb) => (verb.sorted)(words),
        None => Ok(words),
    }
}

/// The verb of a command line, and its arguments.
///
/// # Errors
/// What clap refuses, or a text that it prints.
pub(crate) fn parsed(words: Vec<OsString>) -> Result<(&'static AnyVerb, ArgMatches), clap::Error> {
    let mut matches = command().try_get_matches_from(words)?;
    let (name, matches) = matches.remove_subcommand().expect("a verb is required");
    Ok((verb::named(&name).expect("a verb of the command"), matches))
}

/// What the words after `msgpath` would do; `None`: nobody knows before.
///
/// # Errors
/// They do not fit together.
pub fn planned(words: &[String]) -> Result<Option<Planned>, Problem> {
    let words = sorted(std::iter::once("msgpath".into()).chain(words.iter().map(OsString::from)).collect())?;
    let (verb, matches) = parsed(words)
        .map_err(|error| from_clap(&error).unwrap_or_else(|| usage("an option that prints a text is not a run")))?;
    (verb.planned)(&matches)
}

/// What a recorded command line asked of its result. Nothing else of it is believed, no name of a file above all.
pub(crate) fn asked(command: &[String]) -> Asked {
    let words = sorted(command.iter().map(OsString::from).collect()).unwrap_or_default();
    parsed(words).map_or_else(|_| Default::default(), |(verb, matches)| (verb.asked)(&matches))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_is_consistent() {
        crate::begin(&[]);
        super::command().debug_assert();
    }
}
