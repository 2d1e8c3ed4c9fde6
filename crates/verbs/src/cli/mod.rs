//! The command line: one file per verb, and the help screen.

mod agent;
mod compare;
mod complete;
mod completions;
mod diff;
mod doctor;
mod echo;
mod export;
mod help;
mod import;
mod man;
mod paths;
mod report;
mod resume;
mod runs;
mod schema;
mod serve;
mod show;
mod stream;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, Command, FromArgMatches};
use msgpath_core::{Exit, Problem};

use crate::options::EvidenceOptions;
use crate::verb::{AnyVerb, Planned};
use crate::{feature, looks, output, problems};

/// The verbs of the base, in the order in which the help screen has them.
static BASE: &[AnyVerb] = &[
    AnyVerb::of::<serve::Arguments>(),
    AnyVerb::of::<echo::Arguments>(),
    AnyVerb::of::<stream::Arguments>(),
    AnyVerb::of::<compare::Arguments>(),
    AnyVerb::of::<diff::Arguments>(),
    AnyVerb::of::<report::Arguments>(),
    AnyVerb::of::<runs::Arguments>(),
    AnyVerb::of::<show::Arguments>(),
    AnyVerb::of::<resume::Arguments>(),
    AnyVerb::of::<verify::Arguments>(),
    AnyVerb::of::<export::Arguments>(),
    AnyVerb::of::<import::Arguments>(),
    AnyVerb::of::<doctor::Arguments>(),
    AnyVerb::of::<paths::Arguments>(),
    AnyVerb::of::<completions::Arguments>(),
    AnyVerb::of::<man::Arguments>(),
    AnyVerb::of::<schema::Arguments>(),
    AnyVerb::of::<agent::Arguments>(),
    AnyVerb::of::<complete::Arguments>(),
];

/// Every verb of this program: those of the base, then those of its features, but for the ones that stand before one of the base.
pub(crate) fn verbs() -> impl Iterator<Item = &'static AnyVerb> {
    let added = || feature::all().iter().flat_map(|feature| feature.verbs);
    let base = BASE.iter().flat_map(move |verb| added().filter(|own| own.before == Some(verb.name)).chain([verb]));
    base.chain(added().filter(|own| own.before.is_none()))
}

fn verb(name: &str) -> Option<&'static AnyVerb> {
    verbs().find(|verb| verb.name == name)
}

/// The command with its verbs as they are declared.
fn bare() -> Command {
    let command = Command::new("msgpath")
        .about("How long does a message take from one program to another, and where does the time go?")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100);
    command.subcommands(verbs().map(|verb| (verb.command)()))
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
    match words.get(1).and_then(|word| verb(word.to_str()?)) {
        Some(verb) => (verb.sorted)(words),
        None => Ok(words),
    }
}

/// The verb of a command line, and its arguments.
fn parsed(words: Vec<OsString>) -> Result<(&'static AnyVerb, ArgMatches), clap::Error> {
    let mut matches = command().try_get_matches_from(words)?;
    let (name, matches) = matches.remove_subcommand().expect("a verb is required");
    Ok((verb(&name).expect("a verb of the command"), matches))
}

/// The arguments of `serve` in a whole command line.
pub(crate) fn serve(words: Vec<OsString>) -> Result<serve::Arguments, Problem> {
    let wrong = || problems::usage("these are no options of a server");
    let (_, matches) = parsed(words).map_err(|error| problems::from_clap(&error).unwrap_or_else(wrong))?;
    serve::Arguments::from_arg_matches(&matches).map_err(|_| wrong())
}

/// What the words after `msgpath` would do; `None`: nobody knows before.
///
/// # Errors
/// They do not fit together.
pub fn planned(words: &[String]) -> Result<Option<Planned>, Problem> {
    let words = sorted(std::iter::once("msgpath".into()).chain(words.iter().map(OsString::from)).collect())?;
    let (verb, matches) = parsed(words).map_err(|error| {
        problems::from_clap(&error).unwrap_or_else(|| problems::usage("an option that prints a text is not a run"))
    })?;
    (verb.planned)(&matches)
}

/// Of a command line that was recorded: whether single messages were to be shown, and what the result is held to. Nothing else
/// of it is believed, no name of a file above all.
pub(crate) fn asked(command: &[String]) -> (bool, EvidenceOptions) {
    let words = sorted(command.iter().map(OsString::from).collect()).unwrap_or_default();
    parsed(words).map_or_else(|_| Default::default(), |(verb, matches)| (verb.asked)(&matches))
}

/// Parses and executes. `Ok` is the exit code of a verb that did its work.
///
/// # Errors
/// A [`msgpath_core::Problem`] wherever the program knows what to say; under `--json` it was also printed as an
/// object on standard output.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json =
        arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| asks_for_json(&word.to_string_lossy()));
    dispatch(arguments).inspect_err(|error| {
        if json {
            // Where nobody reads standard output, the exit code and standard error still tell.
            let _ = output::print(msgpath_present::json::problem_json(&problems::as_problem(error)) + "\n");
        }
    })
}

/// `--json`, `-J`, or `-J` among other switches (`-qJ`). Asked of the bare words, because a command line that cannot be
/// parsed must be answered in JSON as well.
fn asks_for_json(word: &str) -> bool {
    let switches =
        word.strip_prefix('-').is_some_and(|letters| letters.chars().all(|letter| "JqvuZR46".contains(letter)));
    word == "--json" || word == "--jsonl" || switches && word.contains('J')
}

/// Help or version. Without a verb the help goes to standard error, and the command line was wrong.
fn print_help(error: &clap::Error) -> Result<ExitCode> {
    if error.use_stderr() {
        let _ = error.print();
        return Ok(Exit::Usage.code().into());
    }
    let text = error.render();
    output::print(if looks::color_by_default() { text.ansi().to_string() } else { text.to_string() })?;
    Ok(ExitCode::SUCCESS)
}

fn dispatch(arguments: Vec<OsString>) -> Result<ExitCode> {
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (verb, matches) = match parsed(sorted(arguments)?) {
        Ok(parsed) => parsed,
        Err(error) => match problems::from_clap(&error) {
            Some(problem) => return Err(problem.into()),
            None => {
                return print_help(&error);
            }
        },
    };
    if !verb.often {
        msgpath_sys::temporary::sweep(&std::env::temp_dir());
    }
    (verb.run)(&matches, words)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::request::Request;
    use crate::verb;
    use msgpath_core::Problem;

    /// What the words after `msgpath` ask for.
    pub(crate) fn typed(words: &str) -> Result<Request, Problem> {
        let words = ["msgpath"].into_iter().chain(words.split_whitespace()).map(OsString::from);
        let (verb, matches) = parsed(words.collect()).map_err(|error| problems::from_clap(&error).expect("no help"))?;
        match verb.name {
            "echo" => verb::parsed::<echo::Arguments>(&matches).request(),
            "stream" => verb::parsed::<stream::Arguments>(&matches).request(),
            "compare" => verb::parsed::<compare::Arguments>(&matches).request(),
            other => panic!("{other} measures nothing"),
        }
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn json_is_seen_in_words_that_do_not_parse() {
        for (word, asked) in [
            ("--json", true),
            ("--jsonl", true),
            ("-J", true),
            ("-qqJ", true),
            ("-oJ", false),
            ("J", false),
            ("-", false),
            ("-q", false),
        ] {
            assert_eq!(asks_for_json(word), asked, "{word}");
        }
    }
}
