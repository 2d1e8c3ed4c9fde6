//! The command line: one file per verb, the options they share, and the help screen.

mod agent;
mod compare;
mod compat;
mod complete;
mod completions;
mod diff;
mod doctor;
mod echo;
mod explain;
mod export;
mod frames;
mod gang;
pub(crate) mod help;
mod import;
mod lab;
mod man;
pub(crate) mod mesh;
pub(crate) mod options;
mod paths;
mod periodic;
mod preset;
mod report;
mod resume;
mod rpc;
mod runs;
mod schema;
mod serve;
mod show;
mod stream;
mod verify;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use msgpath_core::Exit;

use crate::{looks, output, problems};

/// How long does a message take from one program to another, and where does the time go?
#[derive(Parser, Debug)]
#[command(
    name = "msgpath",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Serve(Box<serve::Arguments>),
    Echo(Box<echo::Arguments>),
    Stream(Box<stream::Arguments>),
    Compare(Box<compare::Arguments>),
    Explain(Box<explain::Arguments>),
    Watch(Box<watch::Arguments>),
    Rpc(Box<rpc::Arguments>),
    Periodic(Box<periodic::Arguments>),
    Mesh(Box<mesh::Arguments>),
    Preset(preset::Arguments),
    Compat(compat::Arguments),
    Diff(diff::Arguments),
    Runs(runs::Arguments),
    Show(show::Arguments),
    Resume(resume::Arguments),
    Report(report::Arguments),
    Export(export::Arguments),
    Import(import::Arguments),
    Verify(verify::Arguments),
    Doctor(doctor::Arguments),
    Paths(paths::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Schema(schema::Arguments),
    Lab(lab::Arguments),
    #[command(name = "__agent", hide = true)]
    Agent(agent::Arguments),
    #[command(name = "__complete", hide = true)]
    Complete(complete::Arguments),
}

/// The whole command, from which the parser, the help, the completions and the manual are made.
pub(crate) fn command() -> clap::Command {
    let command = help::shorten(Cli::command());
    let screen = help::screen(&command);
    command.help_template("{before-help}{after-help}").before_help(screen).after_long_help(help::MORE)
}

/// The words of a command as clap can read them: `rpc` has a grammar of its own.
///
/// # Errors
/// An option that nobody knows.
pub(crate) fn sorted(words: Vec<OsString>) -> Result<Vec<OsString>, msgpath_core::Problem> {
    rpc::sorted(words)
}

/// What a command is planned for.
pub(crate) enum Planned {
    /// Cases with their rounds.
    Plan(Box<msgpath_core::Plan>),
    /// A number of cases and the time that they take, ns.
    Time { cases: u64, ns: u64 },
}

/// What the words after `msgpath` would do; `None`: nobody knows before.
///
/// # Errors
/// They do not fit together.
pub(crate) fn planned(words: &[String]) -> Result<Option<Planned>, msgpath_core::Problem> {
    let words = rpc::sorted(std::iter::once("msgpath".into()).chain(words.iter().map(OsString::from)).collect())?;
    let parsed = command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| {
        problems::from_clap(&error).unwrap_or_else(|| problems::usage("an option that prints a text is not a run"))
    })?;
    let plan = |request: crate::request::Request| Some(Planned::Plan(Box::new(request.plan)));
    match cli.verb {
        Verb::Echo(arguments) => arguments.request().map(plan),
        Verb::Stream(arguments) => arguments.request().map(plan),
        Verb::Compare(arguments) => arguments.request().map(plan),
        Verb::Explain(arguments) => arguments.request().map(plan),
        Verb::Periodic(arguments) => Ok(Some(arguments.planned())),
        _ => Ok(None),
    }
}

/// Of a command line that was recorded: whether single messages were to be shown, and what the result is held to. Nothing else
/// of it is believed, no name of a file above all.
pub(crate) fn asked(command: &[String]) -> (bool, options::EvidenceOptions) {
    let words = rpc::sorted(command.iter().map(OsString::from).collect()).unwrap_or_default();
    let parsed = self::command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed.map(|cli| cli.verb) {
        Ok(Verb::Echo(arguments)) => arguments.asked(),
        Ok(Verb::Stream(arguments)) => (false, arguments.options.evidence),
        Ok(Verb::Compare(arguments)) => (false, arguments.options.evidence),
        Ok(Verb::Explain(arguments)) => (false, arguments.options.evidence),
        _ => (false, options::EvidenceOptions::default()),
    }
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
    let arguments = rpc::sorted(arguments)?;
    let parsed = command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => match problems::from_clap(&error) {
            Some(problem) => return Err(problem.into()),
            None => {
                return print_help(&error);
            }
        },
    };
    // Not by what a program of ours starts at each round, nor at each key that completes a word.
    if !matches!(cli.verb, Verb::Agent(_) | Verb::Complete(_)) {
        msgpath_sys::temporary::sweep(&std::env::temp_dir());
    }
    match cli.verb {
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Echo(arguments) => echo::run(&arguments, words),
        Verb::Stream(arguments) => stream::run(&arguments, words),
        Verb::Compare(arguments) => compare::run(&arguments, words),
        Verb::Explain(arguments) => explain::run(&arguments, words),
        Verb::Watch(arguments) => watch::run(&arguments, words),
        Verb::Rpc(arguments) => rpc::run(&arguments, words),
        Verb::Periodic(arguments) => periodic::run(&arguments, words),
        Verb::Mesh(arguments) => mesh::run(&arguments, words),
        Verb::Preset(arguments) => preset::run(&arguments),
        Verb::Compat(arguments) => compat::run(&arguments),
        Verb::Diff(arguments) => diff::run(&arguments),
        Verb::Runs(arguments) => runs::run(&arguments),
        Verb::Show(arguments) => show::run(&arguments),
        Verb::Resume(arguments) => resume::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Import(arguments) => import::run(&arguments, words),
        Verb::Verify(arguments) => verify::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Paths(arguments) => paths::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
        Verb::Schema(_) => schema::run(),
        Verb::Lab(arguments) => lab::run(&arguments),
        Verb::Agent(arguments) => agent::run(&arguments),
        Verb::Complete(arguments) => complete::run(&arguments),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::request::Request;
    use msgpath_core::Problem;

    /// What the words after `msgpath` ask for.
    pub(crate) fn typed(words: &str) -> Result<Request, Problem> {
        let words = ["msgpath"].into_iter().chain(words.split_whitespace());
        let matches =
            command().try_get_matches_from(words).map_err(|error| problems::from_clap(&error).expect("no help"))?;
        match Cli::from_arg_matches(&matches).expect("matches of this command").verb {
            Verb::Echo(arguments) => arguments.request(),
            Verb::Stream(arguments) => arguments.request(),
            Verb::Compare(arguments) => arguments.request(),
            Verb::Explain(arguments) => arguments.request(),
            verb => panic!("{verb:?} measures nothing"),
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

    /// The words behind `msgpath` in a line of a shell; `None`: it starts another program.
    fn in_a_shell(line: &str) -> Option<Vec<String>> {
        let line = line.trim_start().trim_start_matches("$ ");
        let behind = ["docker ", "sudo ", "XDG_"].iter().any(|other| line.starts_with(other));
        let rest = match line.strip_prefix("msgpath ") {
            Some(rest) => rest,
            None => line.split_once(" msgpath ").filter(|_| behind)?.1,
        };
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for letter in rest.chars().chain([' ']) {
            match letter {
                '\'' => quoted = !quoted,
                '#' | '>' | '|' | '&' | ';' if !quoted && word.is_empty() => break,
                ' ' if !quoted && word.is_empty() => {}
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                letter => word.push(letter),
            }
        }
        Some(words)
    }

    #[test]
    fn every_command_that_the_book_tells_to_type_parses() {
        assert_eq!(in_a_shell("$ msgpath diff a b --fail-if 'p99 > +5%'  # c").unwrap().len(), 5);
        assert!(in_a_shell("cargo run -- msgpath echo").is_none() && in_a_shell("sudo msgpath echo").is_some());
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for page in ["README.md", "docs/tutorial.md", "docs/how-to/two-machines.md", "docs/how-to/ci.md"]
            .into_iter()
            .chain(["docs/how-to/containers.md", "docs/how-to/other-hosts.md", "docs/parquet.md"])
        {
            let text = std::fs::read_to_string(root.join(page)).unwrap();
            let mut fenced = false;
            for (at, line) in text.lines().enumerate() {
                fenced ^= line.starts_with("```");
                let Some(words) = in_a_shell(line).filter(|_| fenced || line.starts_with("    ")) else { continue };
                if words == ["--version"] {
                    continue;
                }
                count += 1;
                if let Err(problem) = planned(&words) {
                    panic!("{page}:{}: {words:?}: {problem}", at + 1);
                }
            }
        }
        assert!(count > 30, "only {count} commands were found: they are looked for in the wrong way");
    }

    #[test]
    fn a_mesh_without_hosts_is_a_bad_command_line() {
        let run = run(["msgpath", "mesh", "--pairs", "k:9"].map(OsString::from));
        assert_eq!(problems::as_problem(&run.unwrap_err()).exit, Exit::Usage);
    }
}
