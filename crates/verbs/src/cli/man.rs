//! `msgpath man DIR`: the manual, from the same description that parses the command line, and from the registry.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_paths::{Meta, registry};

use crate::output::write_named;
use crate::problems::{cannot_write, usage};
use crate::verb::Group;

/// Write the manual pages
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The folder; it is made where it does not exist
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "out")]
    dir: Option<PathBuf>,
    /// The same as DIR
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "man";
    const GROUP: Group = Group::Once;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(dir) = arguments.dir.as_ref().or(arguments.out.as_ref()) else {
        return Err(usage("man writes several pages, so it needs a folder").hint("msgpath man DIR").into());
    };
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    for (name, text) in pages() {
        write(&dir.join(name), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    write_named(file, text)?;
    Ok(crate::output::print(format!("{}\n", file.display()))?)
}

/// File name and troff text of every page.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut command = crate::command::command();
    command.build();
    let mut pages = vec![("msgpath.1".to_string(), page(command.clone()))];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("msgpath-{}", verb.get_name());
        pages.push((format!("{name}.1"), page(verb.clone().display_name(name))));
    }
    pages.push(("msgpath-paths.7".into(), paths_page().into_bytes()));
    pages
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).expect("writing to memory cannot fail");
    text
}

/// `msgpath-paths(7)`: what each transport, send method and wait does, in its own words.
fn paths_page() -> String {
    let mut out = format!(
        ".TH msgpath\\-paths 7 \"\" \"msgpath {}\"\n.SH NAME\nmsgpath\\-paths \\- message paths: transport, send method and wait\n",
        env!("CARGO_PKG_VERSION")
    );
    out.push_str(
        ".SH DESCRIPTION\nA path is written transport:send\\-method, and /wait follows where it is not the default.\n",
    );
    for (title, list) in parts() {
        let _ = writeln!(out, ".SH {title}");
        for meta in list {
            let _ = write!(out, ".TP\n.B {}\n{}\n", troff(meta.name), troff(meta.summary));
            for paragraph in meta.manual.split("\n\n").filter(|text| !text.trim().is_empty()) {
                let _ = write!(out, ".IP\n{}\n", troff(paragraph.trim()));
            }
        }
    }
    out.push_str(".SH SEE ALSO\n.BR msgpath (1),\n.BR msgpath\\-paths (1)\n");
    out
}

/// What a path is made of, in the order in which it is written.
fn parts() -> [(&'static str, Vec<&'static Meta>); 3] {
    let transports = registry::transports().map(|transport| &transport.meta().meta).collect();
    [("TRANSPORTS", transports), ("SEND METHODS", registry::methods()), ("WAITS", registry::waits())]
}

/// Text that troff prints as it stands: no line starts a request, hyphens and backslashes stay what they are.
fn troff(text: &str) -> String {
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let line = line.trim();
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        out.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_and_every_part_of_a_path_has_its_place() {
        crate::begin(&[]);
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.starts_with(&["msgpath.1", "msgpath-serve.1"]) && names.ends_with(&["msgpath-paths.7"]),
            "{names:?}"
        );
        assert!(!names.iter().any(|name| name.contains("__")), "{names:?}");
        let paths = paths_page();
        for (_, list) in parts() {
            for meta in list {
                assert!(paths.contains(&format!(".B {}\n", troff(meta.name))), "{}", meta.name);
            }
        }
        let first = String::from_utf8(pages[0].1.clone()).unwrap();
        assert!(first.contains("Exit codes"), "{first}");
    }

    #[test]
    fn no_text_becomes_a_request() {
        assert_eq!(troff(".TH x\n'y\na-b\\"), "\\&.TH x\n\\&'y\na\\-b\\e");
    }
}
