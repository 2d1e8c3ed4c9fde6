//! The whole command, from its verbs, and what a line of words means to it.

mod help;
mod refused;

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use msgpath_core::Problem;

use crate::problems::usage;
use crate::verb::{self, AnyVerb, Aside, Asked, Planned};

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

/// A command line inside another one, of a verb that can go on beside the rounds of a run, with arguments that have a meaning there: its
/// verb, and what goes on.
///
/// # Errors
/// Another verb, an argument that has no meaning there, or what the verb itself refuses.
pub fn aside(words: &[String]) -> Result<(&'static str, Aside), Problem> {
    let one_of =
        |names: &[&str], mark: &str| names.iter().map(|name| format!("{mark}{name}")).collect::<Vec<_>>().join(", ");
    let verbs = || verb::all().filter(|verb| !verb.takes_aside.is_empty()).map(|verb| verb.name);
    let first = words.first().map_or("", String::as_str);
    if !verbs().any(|name| name == first) {
        let first = msgpath_core::foreign::shown_bytes(first.as_bytes(), 40);
        return Err(
            usage(format!("`{first}` is not what can go on here")).hint(one_of(&verbs().collect::<Vec<_>>(), ""))
        );
    }
    let words = std::iter::once("msgpath".into()).chain(words.iter().map(OsString::from)).collect();
    let (verb, matches) = parsed(words)
        .map_err(|error| from_clap(&error).unwrap_or_else(|| usage("an option that prints a text measures nothing")))?;
    let command = (verb.command)();
    let typed = |arg: &&clap::Arg| {
        let id = arg.get_id().as_str();
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let name = |arg: &clap::Arg| arg.get_long().unwrap_or(arg.get_id().as_str()).to_owned();
    let refused = command.get_arguments().filter(typed).find(|arg| !verb.takes_aside.contains(&name(arg).as_str()));
    if let Some(arg) = refused {
        let name = arg.get_long().map_or_else(|| name(arg).to_uppercase(), |name| format!("--{name}"));
        return Err(usage(format!("{name} has no meaning here")).hint(one_of(verb.takes_aside, "--")));
    }
    Ok((verb.name, (verb.aside)(&matches)?))
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
