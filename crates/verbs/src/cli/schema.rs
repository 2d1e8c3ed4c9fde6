//! `msgpath schema`: what `--json` prints, as a JSON Schema or a line for each field.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::path::nearest;
use msgpath_present::json;

use crate::problems::usage;
use crate::verb::Group;

/// Print the JSON Schema of what --json prints
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath schema lateness                     the fields about it, a line each
  msgpath schema Quantile                     the fields of one shape
  msgpath schema 'cases[].open.'              the fields below a path
  msgpath schema >msgpath.schema.json         everything, for a program

docs/json.md: which verb prints which shape, how to find a field.")]
pub(crate) struct Arguments {
    /// Only fields whose name or description has this word, or whose path has it where it has a dot: path, type (?: may be null),
    /// description
    #[arg(value_name = "WORD")]
    word: Option<String>,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "schema";
    const GROUP: Group = Group::Once;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let parts: Vec<&str> =
        crate::feature::all().iter().map(|feature| feature.schema).filter(|part| !part.is_empty()).collect();
    let schema = json::schema(&parts);
    let Some(word) = &arguments.word else {
        crate::output::print(schema)?;
        return Ok(ExitCode::SUCCESS);
    };
    let found = json::fields(&schema, word);
    if found.is_empty() {
        let names = json::field_names(&schema);
        let problem = usage(format!("no field of --json has {word:?} in its name or description"));
        return Err(match nearest(word, names.iter().map(String::as_str)) {
            Some(name) => problem.hint(format!("msgpath schema {name}")),
            None => problem.hint("msgpath schema, without a word: all of them"),
        }
        .into());
    }
    crate::output::print(found)?;
    Ok(ExitCode::SUCCESS)
}
