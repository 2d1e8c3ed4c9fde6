//! What was typed behind `--`: options in place of those of a preset, and a target in place of its network namespaces.

use clap::{Arg, Command};
use msgpath_core::Problem;
use msgpath_verbs::command::command;
use msgpath_verbs::problems::usage;

use crate::preset::{Preset, PresetRun};

/// Verbs whose runs may have a far end elsewhere.
const WITH_TARGET: [&str; 3] = ["echo", "stream", "compare"];
/// The option that a target stands for.
const BETWEEN: &str = "between";

/// The words after `msgpath` of a run of a preset.
///
/// # Errors
/// E11: more than one target, or a target for a run that starts both of its ends.
pub(crate) fn words(preset: &Preset, run: &PresetRun, typed: &[String]) -> Result<Vec<String>, Problem> {
    let whole = command();
    let Some(verb) = whole.find_subcommand(&run.verb) else { return Ok(run.command(typed, &|_| false)) };
    let (mut options, mut targets) = sorted(verb, typed);
    if targets.len() > 1 {
        return Err(usage(format!("{} and {}: the runs of a preset have one target", targets[0], targets[1])));
    }
    let has = |run: &PresetRun, name: &str| run.options.iter().any(|option| option.name == name);
    // Trials are counted, in one round: time and rounds are for the other runs.
    for name in ["--time", "--rounds", "--restarts"].into_iter().filter(|_| has(run, "each")) {
        if let Some(at) = options.iter().position(|word| word == name) {
            options.drain(at..(at + 2).min(options.len()));
        }
    }
    // Where some of the runs are between namespaces, the others are about this machine.
    if !has(run, BETWEEN) && preset.runs.iter().any(|run| has(run, BETWEEN)) {
        targets.clear();
    }
    let conflicting = |name: &str| {
        let own = argument(verb, name);
        own.is_some_and(|own| {
            options.iter().any(|word| typed_argument(verb, word).is_some_and(|other| conflict(verb, own, other)))
        })
    };
    let Some(target) = targets.pop() else {
        return Ok(run.command(&options, &conflicting));
    };
    if !WITH_TARGET.contains(&run.verb.as_str()) {
        let why = format!("the run {} starts both of its ends, so {target} cannot be its target", run.name);
        return Err(usage(why));
    }
    let mut words = run.command(&options, &|name| name == BETWEEN || conflicting(name));
    words.push(target);
    Ok(words)
}

/// Options with their values, each by its long name, which is the one that a preset uses; and the words that belong to none.
fn sorted(verb: &Command, typed: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut options, mut targets) = (Vec::new(), Vec::new());
    let mut words = typed.iter();
    while let Some(word) = words.next() {
        let Some(option) = typed_argument(verb, word) else {
            if word.starts_with('-') { &mut options } else { &mut targets }.push(word.clone());
            continue;
        };
        let takes = option.get_action().takes_values();
        let long = option.get_long().map(|long| format!("--{long}"));
        match (word.strip_prefix("--"), long) {
            (None, Some(long)) if word.len() > 2 && takes => options.extend([long, word[2..].to_owned()]),
            (None, Some(long)) if word.len() == 2 => options.push(long),
            _ => options.push(word.clone()),
        }
        let has_value = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
        let optional = option.get_num_args().is_some_and(|count| count.min_values() == 0);
        if takes && !has_value && !optional {
            options.extend(words.next().cloned());
        }
    }
    (options, targets)
}

fn argument<'a>(verb: &'a Command, long: &str) -> Option<&'a Arg> {
    let is = |arg: &&Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(long) || aliases.contains(&long)
    };
    verb.get_arguments().find(is)
}

/// The option that a typed word is: `--time`, `--time=5s`, `-t`, `-t5s`.
fn typed_argument<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    if let Some(long) = word.strip_prefix("--") {
        return argument(verb, long.split('=').next().unwrap_or_default());
    }
    let letter = word.strip_prefix('-')?.chars().next()?;
    verb.get_arguments().find(|arg| arg.get_short() == Some(letter))
}

/// Whether the two cannot be said together.
fn conflict(verb: &Command, one: &Arg, other: &Arg) -> bool {
    let of = |one: &Arg, other: &Arg| verb.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id());
    one.get_id() != other.get_id() && (of(one, other) || of(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{PRESETS, PUBLISHED};
    use msgpath_verbs::command::planned;

    fn preset(name: &str) -> Preset {
        msgpath_verbs::begin(crate::verbs::ALONE);
        Preset::parse(PRESETS.iter().find(|(own, _)| *own == name).unwrap().1).unwrap()
    }

    fn words_of(name: &str, run: &str, typed: &str) -> String {
        let preset = preset(name);
        let typed: Vec<String> = typed.split_whitespace().map(Into::into).collect();
        let run = preset.runs.iter().find(|own| own.name == run).unwrap();
        words(&preset, run, &typed).unwrap().join(" ")
    }

    #[test]
    fn a_target_takes_the_place_of_the_namespaces() {
        let there = words_of("echo-sizes", "there-fresh", "n2 -t 5s -r 5");
        assert_eq!(there, "echo --count 10 --each --len 10,100,1000,10000 --path tcp:send --set fresh=yes n2");
        let here = words_of("echo-sizes", "here-one", "n2");
        assert_eq!(here, "echo --count 10 --each --len 10,100,1000,10000 --path tcp:send", "it is about this machine");
        let steady = words_of("echo-sizes", "there-steady", "-r 5 n2:7000");
        assert!(steady.ends_with(" n2:7000") && !steady.contains("--between"), "{steady}");
        // Without namespaces every run has it.
        assert!(words_of("write-shape", "shapes", "n2").ends_with("--warmup 100ms n2"));
        let typed = words_of("copy-ladder", "grid", "n2 -x tcp:send,tcp:writev");
        assert!(typed.ends_with(" --path tcp:send,tcp:writev n2"), "{typed}");
        let typed = words_of("copy-ladder", "grid", "n2 --path=tcp:send");
        assert!(typed.ends_with(" --path=tcp:send n2") && typed.matches("--path").count() == 1, "{typed}");
    }

    #[test]
    fn an_option_replaces_those_that_it_cannot_stand_beside() {
        assert_eq!(
            words_of("write-shape", "shapes", "-t5s"),
            "stream --path tcp:writes+nagle,tcp:writes+nodelay,tcp:writev+nagle,tcp:writev+nodelay,tcp:send+nagle,tcp:send+nodelay \
             --pieces 15x100,30x50,60x25,100x15 --rounds 10 --warmup 100ms --time 5s"
        );
    }

    #[test]
    fn options_may_be_typed_by_their_letters() {
        msgpath_verbs::begin(crate::verbs::ALONE);
        let whole = command();
        let typed: Vec<String> = "-t 200ms -r8 --len 64 -v -5".split(' ').map(Into::into).collect();
        let (options, targets) = sorted(whole.find_subcommand("compare").unwrap(), &typed);
        assert_eq!(options.join(" "), "--time 200ms --rounds 8 --len 64 --verbose -5");
        assert!(targets.is_empty(), "{targets:?}");
    }

    #[test]
    fn one_target_and_only_where_there_can_be_one() {
        let of = |name: &str, typed: &[&str]| {
            let preset = preset(name);
            let typed: Vec<String> = typed.iter().map(|word| (*word).into()).collect();
            words(&preset, &preset.runs[0], &typed)
        };
        assert!(of("write-shape", &["a", "b"]).unwrap_err().what.contains("one target"));
        assert!(of("vehicles", &["n2"]).unwrap_err().what.contains("starts both of its ends"));
    }

    /// A shorter time, and what its own text and the pages say to type behind `--`.
    #[test]
    fn what_may_be_typed_can_be_planned_in_every_run() {
        msgpath_verbs::begin(crate::verbs::ALONE);
        let mut told = 0;
        for (name, text) in PRESETS.iter().chain(PUBLISHED) {
            let preset = Preset::parse(text).unwrap();
            let check = |run: &PresetRun, typed: &str| {
                let typed: Vec<String> = typed.split_whitespace().map(Into::into).collect();
                let words = words(&preset, run, &typed).unwrap_or_else(|problem| panic!("{name}: {problem}"));
                if let Err(problem) = planned(&words) {
                    // A pause between messages may be longer than what was typed: then it says how long is enough.
                    let pauses = run.options.iter().any(|own| own.name == "rate") && typed.contains(&"-t".to_string());
                    let enough = problem.hint.starts_with("-t ") && problem.hint.contains("or more");
                    assert!(pauses && enough, "{name} {}: {}: {problem}", run.name, words.join(" "));
                }
            };
            for run in preset.runs.iter().filter(|run| WITH_TARGET.contains(&run.verb.as_str())) {
                check(run, "-t 0.5s");
            }
            let about = preset.about.replace('\n', " ");
            for typed in about.split(" -- ").skip(1) {
                // An option and its value, or a target.
                let mut words = typed.split_whitespace().map(|word| word.trim_end_matches([',', ';', '.', ':']));
                let count = if typed.starts_with('-') { 2 } else { 1 };
                let typed = words.by_ref().take(count).collect::<Vec<_>>().join(" ");
                preset.runs.iter().for_each(|run| check(run, &typed));
                told += 1;
            }
            if ["bulk-split", "copy-ladder", "echo-sizes", "nagle-trap", "write-shape"].contains(name) {
                preset.runs.iter().for_each(|run| check(run, "n2"));
            }
        }
        assert!(told >= 4, "only {told} were found");
    }
}
