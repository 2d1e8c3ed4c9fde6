//! `msgpath export`: a run in a format that others read.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use msgpath_core::Problem;
use msgpath_record::export::{EXPORTERS, Exporter, exporter};

use crate::problems::usage;
use crate::runs;

/// Convert a run for other programs
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// A name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN", default_value = "@last")]
    run: String,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = formats())]
    to: Format,
    /// Where to write [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// A format of the record's list.
#[derive(Clone, Copy)]
struct Format(&'static dyn Exporter);

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

/// The values of `--to`, with what each is for.
fn formats() -> impl TypedValueParser<Value = Format> {
    let values = EXPORTERS.iter().map(|format| PossibleValue::new(format.name()).help(format.summary()));
    PossibleValuesParser::new(values).map(|name| Format(exporter(&name).expect("one of the possible values")))
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let run = runs::read(&runs::find(&arguments.run)?)?;
    let Format(format) = arguments.to;
    if let Some(file) = &arguments.out {
        runs::export_to(&run, format, file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stdout = std::io::stdout();
    if format.extension() == "parquet" && stdout.is_terminal() {
        return Err(usage("parquet is not for a terminal")
            .hint(format!("msgpath export {} --to parquet -o FILE", arguments.run))
            .into());
    }
    let mut out = BufWriter::new(stdout.lock());
    match format.export(&run, &mut out) {
        Ok(()) => out.flush()?,
        Err(error) if error.is_broken_pipe() => {}
        Err(error) => return Err(Problem::from(error).into()),
    }
    Ok(ExitCode::SUCCESS)
}
