//! Presets: ready-made experiments as data. Found, checked against the verbs they name, carried out run by run, written
//! into a folder.

mod allowed;
mod carry_out;
mod estimate;
mod folder;
mod typed;

use std::path::Path;

use crate::answers::PAGES;
use crate::preset::{LONGEST, Mistake, PRESETS, PUBLISHED, Preset, PresetOption, PresetRun, Spot};
use msgpath_core::path::nearest;
use msgpath_core::{Exit, PathSpec, Problem};

use msgpath_verbs::command::{command, from_clap, sorted};
use msgpath_verbs::input;
use msgpath_verbs::problems::{self, usage};

pub(crate) use allowed::Started;
pub(crate) use carry_out::{Wanted, carry_out};
pub(crate) use estimate::{Estimate, estimate};

/// A preset that was asked for.
pub(crate) struct Found {
    /// Its name: that of the file without its ending.
    pub(crate) name: String,
    /// How it was asked for.
    typed: String,
    /// What it says.
    pub(crate) preset: Preset,
    /// What its runs start, beside msgpath.
    pub(crate) started: Vec<Started>,
    /// It comes with msgpath; else it is a file that anybody may have written.
    comes_with_msgpath: bool,
}

impl Found {
    /// Whether what it starts may be started. `allowed`: the user has seen that it starts programs.
    ///
    /// # Errors
    /// E42, with the first option that starts something.
    pub(crate) fn may_start(&self, allowed: bool) -> Result<(), Problem> {
        match self.started.first() {
            Some(first) if !allowed && !self.comes_with_msgpath => {
                let what = format!("{}: {}, and this preset did not come with msgpath", first.words(), first.why);
                let hint =
                    format!("msgpath preset show {0}   for all of it; msgpath preset {0} --allow-programs", self.typed);
                Err(wrong(&self.typed, &Mistake { at: first.at, what }).hint(hint))
            }
            _ => Ok(()),
        }
    }
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
        let (preset, started) = read(&text).map_err(|mistake| wrong(name, &mistake))?;
        return Ok(Found { name: stem, typed: name.into(), preset, started, comes_with_msgpath: false });
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
    let (preset, started) = read(text).map_err(|mistake| wrong(name, &mistake))?;
    Ok(Found { name: name.into(), typed: name.into(), preset, started, comes_with_msgpath: true })
}

fn wrong(name: &str, mistake: &Mistake) -> Problem {
    let Spot { line, column } = mistake.at;
    Problem::new("E42", Exit::Usage, format!("{name}:{line}:{column}: {}", mistake.what))
        .hint("docs/presets.md describes the format; msgpath preset show NAME shows one that works")
}

/// A preset whose page exists, and whose runs are commands that parse and say nothing but what a preset may; and what they start.
fn read(text: &str) -> Result<(Preset, Vec<Started>), Mistake> {
    let preset = Preset::parse(text)?;
    if let Some((page, at)) = &preset.page
        && !PAGES.iter().any(|(known, _)| known == page)
    {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        return Err(Mistake { at: *at, what: format!("there is no page {page:?} ({})", names.join(", ")) });
    }
    let started: Vec<Vec<Started>> = preset.runs.iter().map(check).collect::<Result<_, _>>()?;
    Ok((preset, started.concat()))
}

/// Whether a run is a command that parses and that a preset may give; a mistake stands where its option does. What it starts.
fn check(run: &PresetRun) -> Result<Vec<Started>, Mistake> {
    let words = std::iter::once("msgpath".to_owned()).chain(run.command(&[], &|_| false)).map(Into::into);
    let whole = command();
    let what = match sorted(words.collect()) {
        Err(problem) => problem.what,
        Ok(words) => match whole.clone().try_get_matches_from(words) {
            Ok(matches) => {
                let started = allowed::judge(run, &whole, &matches)?;
                return paths(run).map(|()| started);
            }
            Err(error) => from_clap(&error).map_or_else(|| error.to_string(), |problem| problem.what),
        },
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

    /// With the options of this feature.
    fn read(text: &str) -> Result<(Preset, Vec<Started>), Mistake> {
        msgpath_verbs::begin(crate::verbs::ALONE);
        super::read(text)
    }

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
            let (preset, _) = read(text).unwrap_or_else(|mistake| panic!("{name}: {mistake}"));
            assert!(preset.summary.chars().count() <= 90 && !preset.about.is_empty(), "{name}");
        }
    }

    #[track_caller]
    fn of_run(verb: &str, more: &str) -> Result<Vec<Started>, Mistake> {
        read(&format!("summary='a'\nabout='b'\n[[run]]\nname='a'\nverb='{verb}'\n{more}\n")).map(|(_, started)| started)
    }

    #[test]
    fn an_option_that_is_not_for_presets_is_a_mistake_at_its_place() {
        let loopback = "words=['here','ping']\n[run.options]\n";
        for (verb, begin, option) in [
            ("echo", "[run.options]\n", "launch='sh -c x'"),
            ("echo", "[run.options]\n", "open-metrics='/x'"),
            ("compare", "[run.options]\n", "open-metrics='/x'"),
            ("explain", "[run.options]\n", "set='request-file=/x'"),
            ("echo", "[run.options]\n", "token-file='/x'"),
            ("echo", "[run.options]\n", "between='a,b'"),
            ("periodic", "[run.options]\n", "between='lab2'"),
            ("periodic", "[run.options]\n", "set='device=eth0'"),
            ("compare", "[run.options]\n", "set='what-ifs=no,device=eth0'"),
            ("echo", "[run.options]\n", "set='bind=0.0.0.0'"),
            ("echo", "[run.options]\n", "name='x'"),
            ("echo", "[run.options]\n", "no-save=true"),
            ("echo", "[run.options]\n", "json=true"),
            ("compare", "[run.options]\n", "jsonl=true"),
            ("echo", "[run.options]\n", "quiet=true"),
            ("compare", "[run.options]\n", "server='raw://n2:7'"),
            ("rpc", loopback, "lab-log='/x'"),
            ("rpc", loopback, "between='a,b'"),
            ("rpc", loopback, "serve='--lab-log /x'"),
            ("rpc", loopback, "serve='--lab-log=/x'"),
            ("rpc", loopback, "serve='--insecure'"),
            ("rpc", loopback, "port=80"),
            ("rpc", loopback, "legacy=true"),
        ] {
            let mistake = of_run(verb, &format!("{begin}{option}")).unwrap_err();
            let line = 6 + begin.matches('\n').count();
            assert!(mistake.at.line == line && mistake.what.contains("may not say"), "{verb} {option}: {mistake}");
        }
    }

    #[test]
    fn an_option_in_disguise_is_a_mistake() {
        for (verb, more) in [
            // As the value of an option that takes none, of one that does, or as a part of a name.
            ("echo", "[run.options]\neach='--open-metrics=/x'"),
            ("echo", "[run.options]\nlen='--open-metrics=/x'"),
            ("echo", "[run.options]\n'open-metrics=/x'=true"),
            ("echo", "[run.options]\n'each --open-metrics'='/x'"),
            // Abbreviated, and by its letter.
            ("echo", "[run.options]\nopen-met='/x'"),
            ("echo", "[run.options]\no='/x'"),
            // Among the words.
            ("echo", "words=['--open-metrics=/x']"),
            ("echo", "words=['--open-metrics', '/x']"),
            ("echo", "words=['-orequest-file=/x']"),
            ("echo", "words=['--launch=sh -c x', '127.0.0.1']"),
            ("compare", "words=['127.0.0.1', '--open-metrics', '/x']"),
            ("compare", "words=['--', '--server=./a']"),
            ("rpc", "words=['here', 'ping', '--open-metrics', '/x']"),
            ("rpc", "words=['here', 'ping', '--serve=--lab-log=/x']"),
            ("rpc", "words=['here', 'ping', '--lab-log=/x']"),
        ] {
            assert!(of_run(verb, more).is_err(), "{verb} {more}");
        }
    }

    #[test]
    fn a_target_that_the_user_did_not_type_is_a_mistake() {
        for (verb, words) in [
            ("echo", "'n2'"),
            ("echo", "'10.0.0.1:5210'"),
            ("stream", "'unix:/run/x'"),
            ("compare", "'n2'"),
            ("compare", "'raw://n2:7'"),
            ("explain", "'@last'"),
            ("explain", "'/tmp/x'"),
            ("rpc", "'n2', 'ping'"),
            ("rpc", "'redis://127.0.0.1', 'ping'"),
            ("rpc", "'http://127.0.0.1/x', 'DELETE'"),
            ("rpc", "'here', '80', 'ping'"),
        ] {
            let mistake = of_run(verb, &format!("words=[{words}]")).unwrap_err();
            assert!(mistake.at.line == 6 && mistake.at.column == 7, "{verb} {words}: {mistake}");
            assert!(mistake.what.contains("may not name"), "{verb} {words}: {mistake}");
        }
        assert_eq!(of_run("echo", "words=['127.0.0.1:5300']"), Ok(Vec::new()));
    }

    #[test]
    fn what_goes_on_beside_is_judged_as_a_run_is() {
        let beside = |text: &str| of_run("echo", &format!("[run.options]\nbeside=['stream -l 16K', '{text}']"));
        assert_eq!(beside("periodic -x shm -n 3 --period 5ms"), Ok(Vec::new()));
        let mistake = beside("periodic udp://239.1.1.1").unwrap_err();
        assert!(mistake.at.line == 7 && mistake.what.contains("may not name GROUP"), "{mistake}");
        assert!(beside("echo n2").is_err() && beside("echo --launch ssh").is_err());
    }

    #[test]
    fn what_a_preset_starts_is_known_before() {
        let starts = |verb, more: &str| {
            let started = of_run(verb, more).unwrap_or_else(|mistake| panic!("{more}: {mistake}"));
            started.iter().map(Started::words).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            starts("compare", "[run.options]\nlen=64\nserver=['example:c', './a {port}']"),
            "--server example:c; --server ./a {port}"
        );
        assert_eq!(starts("compare", "[run.options]\ntools='all'"), "--tools all");
        assert_eq!(starts("echo", "[run.options]\nset='what-ifs=no,simulate-cache=yes'"), "--set simulate-cache=yes");
        assert_eq!(starts("compare", "words=['127.0.0.1', '--server=./a']"), "--server ./a");
        assert_eq!(starts("compare", "[run.options]\nlen=64\nserver='raw://127.0.0.1:7'"), "");
    }

    #[test]
    fn presets_that_come_with_msgpath_start_what_comes_with_it_or_is_known() {
        let all = PRESETS.iter().chain(PUBLISHED).flat_map(|(_, text)| read(text).unwrap().1);
        let words: Vec<String> = all.map(|started| started.words()).collect();
        assert!(!words.is_empty(), "none was found");
        let known = |words: &&String| words.starts_with("--tools ") || words.starts_with("--server example:");
        assert_eq!(words.iter().find(|words| !known(words)), None);
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
    fn a_name_that_is_nearly_right_is_understood() {
        let Err(problem) = find("vehicle") else { panic!("there is none") };
        assert!(problem.hint.contains("vehicles"), "{problem}");
    }
}
