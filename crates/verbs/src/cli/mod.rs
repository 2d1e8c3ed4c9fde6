//! The verbs of the base, a file each, and how one is carried out.

mod agent;
mod compare;
mod complete;
mod completions;
mod diff;
mod doctor;
mod echo;
mod export;
mod import;
mod man;
mod paths;
mod report;
mod resume;
mod runs;
mod schema;
pub mod serve;
mod show;
mod stream;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use msgpath_core::Exit;

use crate::command::{from_clap, parsed, sorted};
use crate::verb::AnyVerb;
use crate::{looks, output, problems};

/// What `echo` and `stream` take where they go on beside another run.
const ASIDE: &[&str] = &["path", "len", "connections", "threads", "reverse", "rate", "reply"];

/// The verbs of the base, in the order in which the help screen has them.
pub(crate) static BASE: &[AnyVerb] = &[
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
        Err(error) => match from_clap(&error) {
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
        crate::begin(&[]);
        let words = ["msgpath"].into_iter().chain(words.split_whitespace()).map(OsString::from);
        let (verb, matches) = parsed(words.collect()).map_err(|error| from_clap(&error).expect("no help"))?;
        match verb.name {
            "echo" => verb::parsed::<echo::Arguments>(&matches).request(),
            "stream" => verb::parsed::<stream::Arguments>(&matches).request(),
            "compare" => verb::parsed::<compare::Arguments>(&matches).request(),
            other => panic!("{other} measures nothing"),
        }
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
