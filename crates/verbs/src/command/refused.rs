//! What clap refuses of a command line, told as all problems are: what happened, why, what to type.

use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use msgpath_core::Problem;
use msgpath_core::path::nearest;

use crate::problems::{bad_value, usage};
use crate::settings::KEYS;
use crate::verb::{self, AnyVerb, Group};

/// An error lists so many possible values at most.
const MOST_VALUES: usize = 20;

/// What clap refused, in the form all errors have. `None`: not an error (help, version), clap prints it.
pub fn from_clap(error: &clap::Error) -> Option<Problem> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        // What is most alike comes last.
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    if let Some(source) = error.source() {
        let own = source.downcast_ref::<Problem>().cloned();
        let option = argument.split(' ').next().unwrap_or_default();
        return Some(own.unwrap_or_else(|| bad_value(option, source.to_string())));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(problem) = left_out_on_purpose(&argument)
    {
        return Some(problem);
    }
    let rendered = error.render().to_string();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(problem) = of_another_verb(&argument, &verb_of(&rendered))
    {
        return Some(problem);
    }
    let mut lines =
        rendered.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_string();
    // Nobody reads the names of 800 paths in an error.
    let is_long = |line: &str| line.starts_with("[possible values:") && line.matches(", ").count() > MOST_VALUES;
    let rest: Vec<&str> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("tip:"))
        .filter(|line| !is_long(line))
        .collect();
    let suggestion = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(text)
        // What is hardly alike leads astray.
        .filter(|near| error.kind() != ErrorKind::UnknownArgument || nearest(&argument, [near.as_str()]).is_some())
        .or_else(|| known_elsewhere(&argument).map(str::to_owned));
    let suggestion = as_setting(&argument).or(suggestion).unwrap_or_else(|| help_of(&rendered));
    Some(usage(first).why(rest.join(" ")).hint(suggestion))
}

/// The help of the verb whose usage clap has printed, or else of the one that was typed.
fn help_of(rendered: &str) -> String {
    [&["msgpath".into()], &verb_of(rendered)[..], &["-h".into()]].concat().join(" ")
}

/// That verb; empty: none.
fn verb_of(rendered: &str) -> Vec<String> {
    let usage = rendered.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let typed = || std::env::args().nth(1).filter(|word| verb::all().any(|verb| verb.name == word));
    match usage {
        Some(usage) => usage
            .split(' ')
            .skip(1)
            .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
            .map(Into::into)
            .collect(),
        None => typed().into_iter().collect(),
    }
}

/// An option of a measuring verb that another one of them takes.
fn of_another_verb(argument: &str, verb: &[String]) -> Option<Problem> {
    let measures = |verb: &&AnyVerb| verb.group == Group::Measure;
    let name = argument.split('=').next()?;
    let typed = verb::named(verb.first()?).filter(measures)?;
    if known_elsewhere(name).is_some() || as_setting(name).is_some() {
        return None;
    }
    let takes = |verb: &&AnyVerb| {
        (verb.command)().get_arguments().any(|arg| {
            arg.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long))
                || arg.get_short().is_some_and(|short| name.chars().eq(['-', short]))
        })
    };
    let other = verb::all().filter(measures).find(takes)?;
    let what = format!("{name} is an option of {}; {} does not take it", other.name, typed.name);
    Some(usage(what).hint(format!("msgpath {} -h", other.name)))
}

/// Options of other tools that are called otherwise here.
fn known_elsewhere(argument: &str) -> Option<&'static str> {
    Some(match argument.split('=').next()? {
        "--duration" | "--seconds" | "--runtime" | "--timeout" => "-t TIME, --time TIME",
        "--size" | "--length" | "--bytes" | "--payload" => "-l SIZE, --len SIZE",
        "--messages" | "--requests" | "--iterations" => "-c N, --count N",
        "--qps" | "--rps" => "--rate N",
        "-p" | "--port" => "HOST:PORT as the target",
        "--output" | "--out" => "> FILE, or --json > FILE",
        "--parallel" | "--clients" => "-P N, --connections N",
        _ => return None,
    })
}

/// A rare setting, typed as an option.
fn as_setting(argument: &str) -> Option<String> {
    let name = argument.strip_prefix("--")?;
    let key = KEYS.iter().find(|key| Some(key.name) == name.split('=').next())?;
    Some(format!("-o {}={}", key.name, key.value))
}

/// Letters that ping, iperf3 and others use in different senses.
fn left_out_on_purpose(argument: &str) -> Option<Problem> {
    let (why, hint) = match argument.get(..2)? {
        "-i" => (
            "ping means the gap between messages by it, iperf3 the time between reports",
            "--rate N for the gap (10 a second: --rate 10), --progress line for a report each second",
        ),
        "-s" => ("ping means the size by it, iperf3 the server", "-l SIZE for the size, or the verb: msgpath serve"),
        "-n" => (
            "iperf3 means bytes by it, others a number of requests",
            "-c N for a number of messages, -t TIME for a duration",
        ),
        "-b" => (
            "iperf3 means a bit rate by it, others a size of blocks or buffers",
            "-l SIZE for the size, --rate N for messages a second",
        ),
        _ => return None,
    };
    (argument.len() == 2 || !argument.starts_with("--"))
        .then(|| usage(format!("{} is not used here", &argument[..2])).why(why).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_leads_to_the_help_of_its_verb() {
        crate::begin(&[]);
        let hint = |line: &str| {
            let error = crate::command::command().try_get_matches_from(line.split(' ')).unwrap_err();
            from_clap(&error).unwrap().hint
        };
        assert_eq!(hint("msgpath echo --duration 3"), "-t TIME, --time TIME");
        assert_eq!(hint("msgpath echo --nothing-like-it"), "msgpath echo -h");
        assert_eq!(hint("msgpath verify -t 2s"), "msgpath verify -h");
        assert_eq!(hint("msgpath echo --tiem 3"), "--time");
        assert_eq!(hint("msgpath echo --sndbuf 64K"), "-o sndbuf=SIZE");
        assert_eq!(hint("msgpath echo HOST -p 7"), "HOST:PORT as the target");
        assert_eq!(hint("msgpath echo --metric p99"), "msgpath compare -h");
        assert_eq!(hint("msgpath ech"), "echo");
    }

    #[test]
    fn ambiguous_letters_get_a_hint() {
        for letter in ["-i", "-s", "-n", "-b"] {
            let problem = left_out_on_purpose(letter).unwrap();
            assert!(problem.what.starts_with(letter) && !problem.hint.is_empty());
        }
        assert_eq!(left_out_on_purpose("--"), None);
        assert_eq!(left_out_on_purpose("--ip"), None);
        assert_eq!(left_out_on_purpose(""), None);
    }
}
