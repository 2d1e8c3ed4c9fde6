//! `msgpath preset`: ready-made experiments. Each is data, a TOML file in `presets/`: a verb and its options.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::Problem;
use msgpath_core::path::nearest;
use msgpath_record::{export, store};
use serde::Deserialize;

use crate::problems::{cannot_write, usage};
use crate::report::{self, Reported};
use crate::request::random_seed;
use crate::runs;

/// Every preset: its name and its file.
const PRESETS: [(&str, &str); 2] = [
    ("notify-modes", include_str!("../../presets/notify-modes.toml")),
    ("vehicles", include_str!("../../presets/vehicles.toml")),
];

/// Verbs that a preset may name.
const VERBS: [&str; 4] = ["echo", "stream", "compare", "periodic"];

/// Ready-made experiments
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// list, show, or the name of a preset
    #[arg(value_name = "NAME")]
    name: String,
    /// With show: the preset to show
    #[arg(value_name = "PRESET")]
    shown: Option<String>,
    /// Write report.html, table.csv and series.csv (one row per message) into this folder
    #[arg(short = 'o', long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Options of its verb, in place of those of the preset: msgpath preset vehicles -- --processes 5
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// What a file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preset {
    /// One line, lower case.
    summary: String,
    /// A paragraph.
    about: String,
    /// The verb that measures.
    verb: String,
    /// Long options of the verb, without their dashes. `true`: an option that takes no value.
    options: BTreeMap<String, Value>,
}

/// The value of an option.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    /// Whether an option is given that takes none.
    Given(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl Preset {
    fn find(name: &str) -> Result<Self, Problem> {
        let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
            let names = PRESETS.map(|(name, _)| name);
            let hint = nearest(name, names).map_or_else(|| names.join(", "), Into::into);
            return Err(usage(format!("there is no preset {name:?}")).hint(format!("msgpath preset {hint}")));
        };
        read(text).map_err(|why| usage(format!("the preset {name} cannot be used: {why}")))
    }

    /// The words after `msgpath`: options that were typed replace those of the preset.
    fn words(&self, typed: &[String]) -> Vec<String> {
        let mut words = vec![self.verb.clone()];
        for (name, value) in &self.options {
            let long = format!("--{name}");
            if typed.iter().any(|word| *word == long || word.starts_with(&format!("{long}="))) {
                continue;
            }
            match value {
                Value::Given(true) => words.push(long),
                Value::Given(false) => {}
                Value::Number(number) => words.extend([long, number.to_string()]),
                Value::Text(text) => words.extend([long, text.clone()]),
            }
        }
        words.extend(typed.iter().cloned());
        words
    }
}

fn read(text: &str) -> Result<Preset, String> {
    let preset: Preset = toml::from_str(text).map_err(|error| error.to_string())?;
    if !VERBS.contains(&preset.verb.as_str()) {
        return Err(format!("{:?} is no verb that measures", preset.verb));
    }
    Ok(preset)
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match (arguments.name.as_str(), &arguments.shown) {
        ("list", None) => {
            for (name, _) in PRESETS {
                writeln!(out, "{name:<14} {}", Preset::find(name)?.summary)?;
            }
        }
        ("show", Some(name)) => out.write_all(show(name, &Preset::find(name)?).as_bytes())?,
        ("show", None) => return Err(usage("which preset?").hint("msgpath preset list").into()),
        (name, None) => {
            drop(out);
            return measure(&Preset::find(name)?, arguments);
        }
        (_, Some(word)) => {
            return Err(usage(format!("{word:?} is one word too many")).hint("msgpath preset show NAME").into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, preset: &Preset) -> String {
    let mut text = format!("{name}: {}\n\n{}\n\n", preset.summary, preset.about);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "msgpath {}", preset.words(&[]).join(" "));
    text
}

fn measure(preset: &Preset, arguments: &Arguments) -> Result<ExitCode> {
    let mut words = preset.words(&arguments.options);
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let has = |option: &str| words.iter().any(|word| word == option || word.starts_with(&format!("{option}=")));
    if arguments.out.is_some() && (has("--name") || has("--no-save")) {
        return Err(usage("with -o the run is kept under a name of its own")
            .hint("leave out --name and --no-save")
            .into());
    }
    let name = store::new_name(&store::default_root(), random_seed());
    if arguments.out.is_some() {
        words.extend(["--name".into(), name.clone()]);
    }
    let exit = super::run(std::iter::once("msgpath".into()).chain(words.iter().map(Into::into)))?;
    if let Some(folder) = &arguments.out {
        write(&name, folder)?;
    }
    Ok(exit)
}

/// The report, the rounds and the messages of the run.
fn write(name: &str, folder: &Path) -> Result<(), Problem> {
    let reported = Reported::find(name)?;
    let report = folder.join("report.html");
    report::write(&reported.scene(msgpath_present::html::DEFAULT_EMBED, None), &report)?;
    for (file, format) in [("table.csv", "csv"), ("series.csv", "messages-csv")] {
        let exporter = export::exporter(format).expect("a format of the record");
        runs::export_to(&reported.run, exporter, &folder.join(file))?;
    }
    eprintln!("note: {} has report.html, table.csv and series.csv", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_preset_is_a_command_that_parses() {
        for (name, text) in PRESETS {
            let preset = read(text).unwrap();
            let words: Vec<String> = std::iter::once("msgpath".into()).chain(preset.words(&[])).collect();
            crate::cli::Cli::command().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(preset.summary.chars().count() <= 90 && !preset.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn options_that_were_typed_replace_those_of_the_preset() {
        let preset =
            read("summary='a'\nabout='b'\nverb='echo'\n[options]\nlen=64\npath='tcp'\npoll=true\nverbose=false")
                .unwrap();
        assert_eq!(preset.words(&[]).join(" "), "echo --len 64 --path tcp --poll");
        let typed = ["--len".to_string(), "1K".into(), "--path=udp".into()];
        assert_eq!(preset.words(&typed).join(" "), "echo --poll --len 1K --path=udp");
    }

    #[test]
    fn a_file_that_is_no_preset_is_refused() {
        for bad in [
            "",
            "verb='echo'",
            "summary='a'\nabout='b'\nverb='serve'\n[options]",
            "summary='a'\nabout='b'\nverb='echo'\nextra=1\n[options]",
            "[",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(Preset::find("vehicle").unwrap_err().hint.contains("vehicles"));
    }
}
