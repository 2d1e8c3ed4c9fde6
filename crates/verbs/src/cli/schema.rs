//! `msgpath schema`: what `--json` prints, as a JSON Schema.

use crate::verb::Group;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// Print the JSON Schema of what --json prints
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath schema >msgpath.schema.json
  msgpath schema | jq '.\"$defs\".Quantile'     one shape

docs/json.md: which verb prints which shape, how to find a field.")]
pub(crate) struct Arguments {}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "schema";
    const GROUP: Group = Group::Once;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run()
    }
}

fn run() -> Result<ExitCode> {
    let parts: Vec<&str> =
        crate::feature::all().iter().map(|feature| feature.schema).filter(|part| !part.is_empty()).collect();
    crate::output::print(msgpath_present::json::schema(&parts))?;
    Ok(ExitCode::SUCCESS)
}
