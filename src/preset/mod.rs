//! Presets: ready-made experiments as data. Found, checked against the verbs they name, carried out run by run, written
//! into a folder.

mod carry_out;
mod estimate;
mod folder;

use std::path::Path;

use msgpath_core::path::nearest;
use msgpath_core::program::Source;
use msgpath_core::{Exit, PathSpec, Problem, Program};
use msgpath_courses::answers::PAGES;
use msgpath_courses::preset::{LONGEST, Mistake, PRESETS, PUBLISHED, Preset, PresetOption, PresetRun, Spot};

use crate::input;
use crate::problems::{self, usage};

pub(crate) use carry_out::{Wanted, carry_out};
pub(crate) use estimate::{Estimate, estimate};

/// A preset that was asked for.
pub(crate) struct Found {
    /// Its name: that of the file without its ending.
    pub(crate) name: String,
    /// What it says.
    pub(crate) preset: Preset,
}

/// By its name, or by the file of one's own: a word with a slash or the ending `.toml`.
///
/// # Errors
/// E11: there is none; E42: a mistake, with its line and column.
pub(crate) fn find(name: &str) -> Result<Found, Problem> {
    if name.contains('/') || name.ends_with(".toml") {
        let file = Path::new(name);
        let cannot = |why: String| usage(format!("{name} cannot be read: {why}"));
        let bytes = input::read(file, LONGEST as u64).map_err(cannot)?;
        let text = String::from_utf8(bytes).map_err(|error| cannot(format!("it is not UTF-8 text: {error}")))?;
        let stem = file.file_stem().map_or_else(|| "preset".into(), |stem| stem.to_string_lossy().into_owned());
        return read(&text).map(|preset| Found { name: stem, preset }).map_err(|mistake| wrong(name, &mistake));
    }
    named(name, PRESETS, "preset", "msgpath preset")
}

/// A published table by its name.
///
/// # Errors
/// E11: there is none.
pub(crate) fn published(name: &str) -> Result<Found, Problem> {
    named(name, PUBLISHED, "published table", "msgpath preset --repro")
}

fn named(name: &str, all: &[(&str, &str)], kind: &str, command: &str) -> Result<Found, Problem> {
    let Some((_, text)) = all.iter().find(|(known, _)| *known == name) else {
        let names = || all.iter().map(|(name, _)| *name);
        let hint = nearest(name, names()).map_or_else(|| names().collect::<Vec<_>>().join(", "), Into::into);
        return Err(usage(format!("there is no {kind} {name:?}")).hint(format!("{command} {hint}")));
    };
    let preset = read(text).map_err(|mistake| wrong(name, &mistake))?;
    Ok(Found { name: name.into(), preset })
}

fn wrong(name: &str, mistake: &Mistake) -> Problem {
    let Spot { line, column } = mistake.at;
    Problem::new("E42", Exit::Usage, format!("{name}:{line}:{column}: {}", mistake.what))
        .hint("docs/presets.md describes the format; msgpath preset show NAME shows one that works")
}

/// A preset whose page exists, and whose runs are commands that parse.
fn read(text: &str) -> Result<Preset, Mistake> {
    let preset = Preset::parse(text)?;
    if let Some((page, at)) = &preset.page
        && !PAGES.iter().any(|(known, _)| known == page)
    {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        return Err(Mistake { at: *at, what: format!("there is no page {page:?} ({})", names.join(", ")) });
    }
    preset.runs.iter().try_for_each(|run| starts_nothing(run).and_then(|()| check(run, &[])))?;
    Ok(preset)
}

/// Whether a run starts no program but the examples that come with msgpath: a preset is data that people pass on.
fn starts_nothing(run: &PresetRun) -> Result<(), Mistake> {
    const FAR: &str = "far";
    let value = |option: &&PresetOption| Program::parse(option.value.as_deref().unwrap_or_default());
    let starts = |option: &&PresetOption| {
        option.name == FAR
            && !matches!(value(option).map(|far| far.source), Ok(Source::Example(_) | Source::Address(_)))
    };
    let spelled = |word: &&String| word.split('=').next() == Some("--far");
    let at = run.options.iter().find(starts).map(|option| option.at);
    match at.or_else(|| run.words.iter().find(spelled).map(|_| run.verb_at)) {
        None => Ok(()),
        Some(at) => Err(Mistake {
            at,
            what:
                "a preset starts no program but example:LANGUAGE, or names raw://HOST:PORT; yours goes behind: -- --far"
                    .into(),
        }),
    }
}

/// What was typed for a verb, with the long name of each option that was typed by its letter: by that name a preset has it.
pub(crate) fn by_long_names(verb: &str, typed: &[String]) -> Vec<String> {
    let command = crate::cli::command();
    let Some(verb) = command.find_subcommand(verb) else { return typed.to_vec() };
    let long = |letter: char| {
        let option = verb.get_arguments().find(|option| option.get_short() == Some(letter))?;
        Some((format!("--{}", option.get_long()?), option.get_action().takes_values()))
    };
    let spelled = |word: &String| {
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        match letters.next().and_then(long) {
            Some((name, true)) => {
                let value = letters.as_str().to_owned();
                std::iter::once(name).chain(Some(value).filter(|value| !value.is_empty())).collect()
            }
            Some((name, false)) if letters.as_str().is_empty() => vec![name],
            _ => vec![word.clone()],
        }
    };
    typed.iter().flat_map(spelled).collect()
}

/// Whether a run is a command that parses; a mistake stands where its option does.
fn check(run: &PresetRun, typed: &[String]) -> Result<(), Mistake> {
    let words = std::iter::once("msgpath".to_owned()).chain(run.command(typed)).map(Into::into);
    let what = match crate::cli::sorted(words.collect()) {
        Err(problem) => problem.what,
        Ok(words) => {
            let Err(error) = crate::cli::command().try_get_matches_from(words) else { return paths(run) };
            problems::from_clap(&error).map_or_else(|| error.to_string(), |problem| problem.what)
        }
    };
    let named = |option: &&PresetOption| {
        let long = format!("--{}", option.name);
        let mut words = what.split(|c: char| c.is_whitespace() || "='\"`,:;".contains(c));
        // A value that does not parse is quoted, with or without its option.
        words.any(|word| word == long)
            || option.value.as_ref().is_some_and(|value| what.contains(&format!("{value:?}")))
    };
    let at = run.options.iter().find(named).map_or(run.verb_at, |option| option.at);
    Err(Mistake { at, what })
}

/// Whether the paths of a run are known; one without a transport is, if it is that of any.
fn paths(run: &PresetRun) -> Result<(), Mistake> {
    let of_run = run.options.iter().filter(|option| option.name == "path");
    for (option, text) in of_run.filter_map(|option| Some((option, option.value.as_deref()?))) {
        for path in text.split(',').filter(|path| *path != "all") {
            let known = |spec: &PathSpec| {
                let transports =
                    msgpath_paths::registry::transports().map(|transport| Some(transport.meta().meta.name));
                let mut tried = std::iter::once(None).chain(transports.filter(|_| spec.method.is_none()));
                tried.any(|transport| msgpath_paths::resolve(spec, transport).is_ok())
            };
            let problem = match path.parse::<PathSpec>() {
                Ok(spec) if known(&spec) => continue,
                Ok(spec) => msgpath_paths::resolve(&spec, None).expect_err("it is not known"),
                Err(_) => problems::not_a_path(path),
            };
            let hint = Some(problem.hint).filter(|hint| !hint.is_empty()).map(|hint| format!("; try: {hint}"));
            return Err(Mistake { at: option.at, what: problem.what + &hint.unwrap_or_default() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_known_is_found_in_the_file() {
        let text = |path: &str| {
            format!("summary='a'\nabout='b'\n[[run]]\nname='a'\nverb='echo'\n[run.options]\nlen=64\npath='{path}'\n")
        };
        for path in ["tcp:sned", "tcp:send,udp:nothing", "carrier-pigeon", "tcp:send/yawn", "tcp::", ""] {
            let mistake = read(&text(path)).unwrap_err();
            assert_eq!((mistake.at.line, mistake.at.column), (8, 1), "{path}: {mistake}");
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("own.toml");
        std::fs::write(&file, text("tcp:sned")).unwrap();
        let Err(problem) = find(file.to_str().unwrap()) else { panic!("it was taken") };
        assert!(problem.code == "E42" && problem.what.contains("own.toml:8:1: \"tcp:sned\""), "{problem}");
        for path in ["all", "tcp", "ring", "write", "udp:send/spin,shm", "tcp:writes+nagle"] {
            assert!(read(&text(path)).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_preset_that_has_no_end_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("endless.toml");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for name in [link.to_str().unwrap(), "/dev/zero"] {
            let Err(problem) = find(name) else { panic!("{name} was taken") };
            assert!(problem.what.contains("64 KiB"), "{problem}");
        }
    }

    #[test]
    fn every_preset_is_made_of_commands_that_parse() {
        for (name, text) in PRESETS.iter().chain(PUBLISHED) {
            let preset = read(text).unwrap_or_else(|mistake| panic!("{name}: {mistake}"));
            assert!(preset.summary.chars().count() <= 90 && !preset.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_preset_of_somebody_else_starts_no_program() {
        let text = |more: &str| format!("summary='a'\nabout='b'\n[[run]]\nname='a'\nverb='compare'\n{more}\n");
        for far in ["far='rm -rf x {port}'", "far=['example:c', 'x=./a']", "far='example:c d'"] {
            let mistake = read(&text(&format!("[run.options]\nlen=64\n{far}"))).unwrap_err();
            assert!(mistake.at.line == 8 && mistake.what.contains("starts no program"), "{far}: {mistake}");
        }
        for words in ["words=['--far', './a']", "words=['--far=./a']"] {
            assert!(read(&text(words)).unwrap_err().what.contains("starts no program"), "{words}");
        }
        for far in ["far='raw://127.0.0.1:7'", "far=['example:c', 'mine=example:go']"] {
            assert!(read(&text(&format!("[run.options]\nlen=64\n{far}"))).is_ok(), "{far}");
        }
    }

    #[test]
    fn an_option_that_its_verb_does_not_have_is_found_in_the_file() {
        let text = "summary='a'\nabout='b'\n[[run]]\nname='a'\nverb='echo'\n[run.options]\nlen='64'\nproceses=3\n";
        let mistake = read(text).unwrap_err();
        assert_eq!((mistake.at.line, mistake.at.column), (8, 1), "{mistake}");
        let text = text.replace("proceses=3", "rounds='many'");
        let mistake = read(&text).unwrap_err();
        assert_eq!(mistake.at.line, 8, "{mistake}");
        let text = text.replace("about='b'", "about='b'\npage='none'");
        assert!(read(&text).unwrap_err().what.contains("no page"));
    }

    #[test]
    fn options_may_be_typed_by_their_letters() {
        let long = |words: &str| {
            let typed: Vec<String> = words.split(' ').map(Into::into).collect();
            by_long_names("compare", &typed).join(" ")
        };
        assert_eq!(long("-t 200ms -r8 --len 64 -v -5"), "--time 200ms --rounds 8 --len 64 --verbose -5");
    }

    #[test]
    fn a_name_that_is_nearly_right_is_understood() {
        let Err(problem) = find("vehicle") else { panic!("there is none") };
        assert!(problem.hint.contains("vehicles"), "{problem}");
    }
}
