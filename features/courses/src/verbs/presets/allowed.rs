//! What a preset file may say. A preset is data that people pass on, so it says what is measured and how; it starts no program,
//! reaches nothing that the user did not name, and reads or writes no file.
//!
//! [`OPTIONS`] judges every option of every verb that a preset may name, and of the server that `rpc --serve` starts: a test
//! compares it with the parser. What is judged is what the parser makes of the whole command, not how it is spelled.

use std::net::IpAddr;

use crate::preset::{Mistake, PresetRun, Spot};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use msgpath_core::program::{Source, words};
use msgpath_core::{Program, Target};

/// What a preset may do with an option.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    /// It says what is measured, how, or what the result is held to.
    Measures,
    /// It starts programs: after `--allow-programs`, or where the preset is one of those that come with msgpath.
    Starts(&'static str),
    /// Only the user says it.
    Refused(&'static str),
    /// That depends on its value.
    ByValue(fn(&str) -> Verdict),
    /// Its value is rare settings, each of which is judged by its key.
    Settings,
    /// Its value is a command line of this verb, which is judged in turn.
    CommandOf(&'static str),
    /// Its value is a command line with its verb, the same.
    CommandLine,
}

use Verdict::{ByValue, CommandLine, CommandOf, Measures, Refused, Settings, Starts};

const WRITES: Verdict = Refused("it writes a file");
const READS: Verdict = Refused("it reads a file");
const REACHES: Verdict = Refused("it says which machine is reached");
const SHOWS: Verdict = Refused("how the result is shown is for the user to say");
const LISTENS: Verdict = Refused("it says where a server listens, or who is let in");
const KEPT: Verdict = Refused("the runs of a preset are kept under names of their own");

/// Every option by its long name, and every word that is no option by the name of its place, in capitals.
pub(super) const OPTIONS: &[(&str, Verdict)] = &[
    // The message and its path.
    ("path", Measures),
    ("layers", Measures),
    ("stream", Measures),
    ("len", Measures),
    ("reply", Measures),
    ("pieces", Measures),
    ("connections", Measures),
    ("clients", Measures),
    ("threads", Measures),
    ("event-loop", Measures),
    ("inflight", Measures),
    ("rate", Measures),
    ("reverse", Measures),
    // How much is measured, and what the result is held to.
    ("each", Measures),
    ("time", Measures),
    ("count", Measures),
    ("warmup", Measures),
    ("rounds", Measures),
    ("quick", Measures),
    ("seed", Measures),
    ("baseline", Measures),
    ("metric", Measures),
    ("expect", Measures),
    ("stages", Measures),
    ("max-loss", Measures),
    ("fail-if", Measures),
    ("strict", Measures),
    ("tools", Starts("it starts measuring tools of others")),
    ("beside", CommandLine),
    ("under-load", CommandLine),
    // The connection.
    ("TARGET", ByValue(target)),
    ("RUN", Refused("it measures again what a record says")),
    ("port", REACHES),
    ("between", ByValue(between)),
    ("link", Measures),
    ("wire", Measures),
    ("cpu", Measures),
    ("set", Settings),
    // The server.
    ("server", ByValue(server)),
    ("launch", Refused("it starts a program that reaches another machine")),
    ("program", Refused("it names a program of another machine")),
    ("address", REACHES),
    ("token-file", READS),
    ("password-file", READS),
    ("body", READS),
    ("no-keepalive", Measures),
    ("cluster", Refused("it connects to addresses that a server names")),
    ("http2", Measures),
    ("cacert", READS),
    ("cert", READS),
    ("cert-key", READS),
    ("insecure-tls", Refused("it takes the certificate of anybody")),
    ("header", Refused("it may name a file")),
    // The result.
    ("open-metrics", Refused("it writes a file, or listens")),
    ("lab-log", WRITES),
    ("name", KEPT),
    ("no-save", KEPT),
    ("json", SHOWS),
    ("jsonl", SHOWS),
    ("legacy", SHOWS),
    ("color", SHOWS),
    ("progress", SHOWS),
    ("quiet", Refused("it hides what the user must know")),
    ("verbose", Measures),
    ("warnings", Measures),
    ("units", Measures),
    ("histogram", Measures),
    // `periodic`.
    ("processes", Measures),
    ("period", Measures),
    ("jitter", Measures),
    ("first", Measures),
    ("start", Measures),
    ("mac", Measures),
    ("GROUP", REACHES),
    ("receivers", Measures),
    ("ttl", REACHES),
    ("join", REACHES),
    // `rpc`. Its words are the grammar of the lab, which makes calls and nothing else.
    ("COMMAND", Measures),
    ("arrivals", Measures),
    ("duration", Measures),
    ("verify", Measures),
    ("timeout", Measures),
    ("connect-timeout", Measures),
    ("serve", CommandOf("serve")),
    // The server of a run of `rpc`.
    ("ADDR", LISTENS),
    ("bind", LISTENS),
    ("rpc", LISTENS),
    ("insecure", LISTENS),
    ("behind-nat", LISTENS),
    ("ports", LISTENS),
    ("data-ports", LISTENS),
    ("memory", Measures),
    ("idle-timeout", Measures),
    ("message-timeout", Measures),
    ("allow-quit", Measures),
    ("kernel-stamps", Measures),
    ("lock-hog", Measures),
    ("cpu-hog", Measures),
    ("compat", COURSE),
    ("size", COURSE),
    ("longest-line", COURSE),
    ("iteration", COURSE),
    ("older", COURSE),
    ("reads", COURSE),
    ("tell-nothing", COURSE),
];

/// Every key of `-o`.
const KEYS: &[(&str, Verdict)] = &[
    ("nodelay", Measures),
    ("cork", Measures),
    ("congestion", Measures),
    ("sndbuf", Measures),
    ("rcvbuf", Measures),
    ("read-size", Measures),
    ("reuseport", Measures),
    ("poll-time", Measures),
    ("queued-signals", Measures),
    ("ip", Measures),
    ("bind", Refused("it says which networks are reached")),
    ("device", ByValue(device)),
    ("tos", Measures),
    ("ethertype", Measures),
    ("mac", Measures),
    ("wait", Measures),
    ("wire", Measures),
    ("arrivals", Measures),
    ("service-time", Measures),
    ("working-set", Measures),
    ("stamps", Measures),
    ("message-log", Measures),
    ("frame", Measures),
    ("request-file", READS),
    ("patience", Measures),
    ("fresh", Measures),
    ("burst", Measures),
    ("restarts", Measures),
    ("seed", Measures),
    ("what-ifs", Measures),
    ("extend", Measures),
    ("refine", Measures),
    ("events", Measures),
    ("simulate-cache", Starts("it starts valgrind")),
];

const COURSE: Verdict = Refused("a server of a course is no server of rpc");

/// A far end of msgpath on loopback, the server of the run itself, or a program that listens on loopback.
fn target(text: &str) -> Verdict {
    let is_here = text == "here";
    let on_loopback = match text.parse() {
        Ok(Target::Host { host, .. }) => is_loopback(&host),
        Ok(Target::Program { source, .. }) => runs_here(&source),
        _ => false,
    };
    if is_here || on_loopback { Measures } else { REACHES }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The same of a program that runs already. Which one answers at a path of the file system nobody knows.
fn runs_here(source: &Source) -> bool {
    let Source::Address(address) = source else { return false };
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    is_loopback(host.trim_start_matches('[').trim_end_matches(']'))
}

/// The lab, which msgpath makes. Other places are networks of the user's.
fn between(text: &str) -> Verdict {
    if text == "lab" { Measures } else { Refused("it enters network namespaces other than --between lab") }
}

fn device(text: &str) -> Verdict {
    if text == "lo" { Measures } else { Refused("it sends frames into a network other than -o device=lo") }
}

fn server(text: &str) -> Verdict {
    match Program::parse(text).map(|program| program.source) {
        Ok(source @ (Source::Address(_) | Source::Socket(_))) => {
            if runs_here(&source) {
                Measures
            } else {
                REACHES
            }
        }
        _ => Starts("it starts a program"),
    }
}

/// What a run of a preset starts, and where the preset says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) option: String,
    /// Its value; empty where it has none.
    pub(crate) value: String,
    /// What that starts.
    pub(crate) why: &'static str,
    /// Where it stands.
    pub(crate) at: Spot,
}

impl Started {
    /// For people.
    pub(crate) fn words(&self) -> String {
        match self.value.as_str() {
            "" => format!("--{}", self.option),
            value => format!("--{} {value}", self.option),
        }
    }
}

/// The name of an option, or of the place of a word, in [`OPTIONS`].
fn name_of(argument: &clap::Arg) -> String {
    match argument.get_long() {
        Some(long) => long.to_owned(),
        None => {
            let shown = argument.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
            shown.unwrap_or_else(|| argument.get_id().as_str().to_uppercase())
        }
    }
}

/// A new name is refused until it has a verdict; the tests below ask for that.
fn verdict_of(list: &[(&str, Verdict)], name: &str) -> Verdict {
    list.iter().find(|(known, _)| *known == name).map_or(Refused("it has no verdict yet"), |(_, verdict)| *verdict)
}

/// Judges what the parser made of a run of a preset: what it starts.
///
/// # Errors
/// The first option that a preset may not have.
pub(super) fn judge(run: &PresetRun, command: &Command, matches: &ArgMatches) -> Result<Vec<Started>, Mistake> {
    let mut started = Vec::new();
    if let Some((verb, matches)) = matches.subcommand()
        && let Some(verb) = command.find_subcommand(verb)
    {
        let words = Words { run, command, inside: None };
        words.judge(verb, matches, &mut started)?;
    }
    Ok(started)
}

/// The words of a run, or of a command line that is the value of one of its options.
#[derive(Clone, Copy)]
struct Words<'a> {
    run: &'a PresetRun,
    command: &'a Command,
    /// Where that option stands.
    inside: Option<Spot>,
}

impl Words<'_> {
    fn judge(self, verb: &Command, matches: &ArgMatches, started: &mut Vec<Started>) -> Result<(), Mistake> {
        let typed = |argument: &&clap::Arg| {
            let id = argument.get_id().as_str();
            matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        for argument in verb.get_arguments().filter(typed) {
            let (name, at) = (name_of(argument), self.spot(argument));
            let raw = matches.get_raw(argument.get_id().as_str()).filter(|_| argument.get_action().takes_values());
            let values: Vec<String> = match raw {
                Some(raw) => raw.map(|value| value.to_string_lossy().into_owned()).collect(),
                None => vec![String::new()],
            };
            for value in values {
                self.judge_value((&name, argument), verdict_of(OPTIONS, &name), &value, at, started)?;
            }
        }
        Ok(())
    }

    fn judge_value(
        self,
        (name, argument): (&str, &clap::Arg),
        verdict: Verdict,
        value: &str,
        at: Spot,
        started: &mut Vec<Started>,
    ) -> Result<(), Mistake> {
        match verdict {
            Measures => Ok(()),
            ByValue(judged) => self.judge_value((name, argument), judged(value), value, at, started),
            Starts(why) => {
                started.push(Started { option: name.to_owned(), value: value.to_owned(), why, at });
                Ok(())
            }
            Refused(why) => Err(refused(name, argument, why, at)),
            CommandOf(inner) => {
                let words = value.split_whitespace().map(str::to_owned);
                self.judge_inner(std::iter::once(inner.to_owned()).chain(words).collect(), value, at, started)
            }
            CommandLine => self.judge_inner(words(value).unwrap_or_default(), value, at, started),
            Settings => self.judge_settings(value, at, started),
        }
    }

    /// The same of rare settings, which the parser has accepted.
    fn judge_settings(self, settings: &str, at: Spot, started: &mut Vec<Started>) -> Result<(), Mistake> {
        for (key, value) in settings.split(',').filter_map(|setting| setting.split_once('=')) {
            let mut verdict = verdict_of(KEYS, key);
            if let ByValue(judged) = verdict {
                verdict = judged(value);
            }
            match verdict {
                Starts(_) if value == "no" => {}
                Starts(why) => {
                    started.push(Started { option: "set".into(), value: format!("{key}={value}"), why, at });
                }
                Refused(why) => {
                    let what = format!("a preset may not say -o {key}: {why}; yours goes behind: -- -o {key}={value}");
                    return Err(Mistake { at, what });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The same of the command line that is the value of an option.
    fn judge_inner(self, words: Vec<String>, value: &str, at: Spot, started: &mut Vec<Started>) -> Result<(), Mistake> {
        let parsed = self.command.clone().try_get_matches_from(std::iter::once("msgpath".to_owned()).chain(words));
        if let Ok(Some((verb, matches))) = parsed.as_ref().map(ArgMatches::subcommand)
            && let Some(verb) = self.command.find_subcommand(verb)
        {
            return Self { inside: Some(at), ..self }.judge(verb, matches, started);
        }
        Err(Mistake { at, what: format!("{value:?} is not a command line that msgpath takes") })
    }

    /// Where the preset has an option, under its name or another that means the same; else where its words stand.
    fn spot(self, argument: &clap::Arg) -> Spot {
        let names = argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default());
        let names: Vec<&str> = names.collect();
        let option = self.run.options.iter().find(|option| names.contains(&option.name.as_str()));
        self.inside.or(option.map(|option| option.at)).unwrap_or(self.run.words_at)
    }
}

fn refused(name: &str, argument: &clap::Arg, why: &str, at: Spot) -> Mistake {
    let what = match argument.get_long() {
        Some(long) => format!("a preset may not say --{long}: {why}; yours goes behind: -- --{long}"),
        None => format!("a preset may not name {name} here: {why}; yours goes behind: -- {name}"),
    };
    Mistake { at, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::VERBS;

    /// A new option must be judged: it is on the list, or this fails.
    #[test]
    fn every_option_of_a_verb_of_presets_is_judged() {
        msgpath_verbs::begin(crate::verbs::ALONE);
        let command = msgpath_verbs::command::command();
        let mut there = std::collections::BTreeSet::new();
        for verb in VERBS.into_iter().chain(["serve"]) {
            let verb = command.find_subcommand(verb).unwrap_or_else(|| panic!("no verb {verb}"));
            for argument in verb.get_arguments().filter(|argument| argument.get_id() != "help") {
                let name = name_of(argument);
                assert!(OPTIONS.iter().any(|(known, _)| *known == name), "{} {name} is not judged", verb.get_name());
                there.insert(name);
            }
        }
        for (at, (name, _)) in OPTIONS.iter().enumerate() {
            assert!(there.contains(*name), "{name} is no option of these verbs");
            assert!(OPTIONS[..at].iter().all(|(other, _)| other != name), "{name} is judged twice");
        }
    }

    #[test]
    fn every_key_of_rare_settings_is_judged() {
        let known: Vec<&str> = msgpath_verbs::settings::KEYS.iter().map(|key| key.name).collect();
        let judged: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
        assert_eq!(judged, known);
        assert!(matches!(device("eth0"), Refused(_)) && matches!(device("lo"), Measures));
    }

    #[test]
    fn targets_are_on_loopback_and_programs_are_started_with_leave() {
        let measures = |verdict| matches!(verdict, Measures);
        for text in
            ["127.0.0.1", "127.0.0.1:7", "[::1]:7", "tcp://127.0.0.2", "here", "raw://127.0.0.1:7", "raw://[::1]:7"]
        {
            assert!(measures(target(text)), "{text}");
        }
        for text in
            ["n2", "10.0.0.1", "u@127.0.0.1", "unix:/run/x", "shm:x", "raw://10.0.0.1:7", "here:7", "", "0.0.0.0"]
        {
            assert!(!measures(target(text)), "{text}");
        }
        assert!(matches!(server("./a"), Starts(_)) && matches!(server("example:go"), Starts(_)));
        assert!(matches!(server("raw://n2:7"), Refused(_)) && measures(server("x=raw://127.0.0.1:7")));
        for text in ["lab2", "lab.a,lab.c", "a,b", "../x", ""] {
            assert!(!measures(between(text)), "{text}");
        }
    }
}
