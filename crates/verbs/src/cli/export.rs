//! `msgpath export`: a run in a format that others read.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use msgpath_core::path::nearest;
use msgpath_core::{Exit, Problem};
use msgpath_present::html::figures::{self, Figure};
use msgpath_present::{export as analysed, html};
use msgpath_record::Run;
use msgpath_record::export::{self, Exporter};
use msgpath_sys::standard::Output;

use crate::kind::{self, Kind, Writes};
use crate::output::{self, OutputFile, write_typed};
use crate::problems::usage;
use crate::report::Reported;
use crate::runs;
use crate::verb::Group;

/// Convert a run for other programs
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN", default_value = "@last")]
    run: String,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = formats())]
    to: Format,
    /// Instead of a format: one figure of the report as SVG (spectrum, heat, crossover ...)
    #[arg(long, value_name = "NAME", conflicts_with = "to", value_parser = figure)]
    figure: Option<&'static Figure>,
    /// Where to write [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
}

fn figure(name: &str) -> Result<&'static Figure, Problem> {
    figures::figure(name).ok_or_else(|| {
        let names: Vec<&str> = figures::all().iter().map(|figure| figure.name).collect();
        let problem = usage(format!("{name:?} is not a figure")).why(format!("figures: {}", names.join(", ")));
        match nearest(name, names.iter().copied()) {
            Some(name) => problem.hint(format!("--figure {name}")),
            None => problem,
        }
    })
}

/// The figure as an SVG file.
fn drawn(run: &str, figure: &Figure) -> Result<String, Problem> {
    let reported = Reported::find(run)?;
    html::figure_file(&reported.scene(0, None), figure).map_err(|why| {
        Problem::new("E14", Exit::CannotStart, format!("the run has no figure {}", figure.name)).why(why)
    })
}

/// A format: one of runs, one that needs the analysis, or one of other records than runs.
#[derive(Clone, Copy)]
enum Format {
    Record(&'static dyn Exporter),
    Analysed(&'static analysed::Exporter),
    Other(&'static kind::Exporter),
}

impl Format {
    fn name(&self) -> &'static str {
        match self {
            Format::Record(format) => format.name(),
            Format::Analysed(format) => format.name,
            Format::Other(format) => format.name,
        }
    }

    fn summary(&self) -> String {
        match self {
            Format::Record(format) => {
                let same = export::all().filter(|other| other.name() == format.name());
                same.map(Exporter::summary).collect::<Vec<_>>().join("; ")
            }
            Format::Analysed(format) => format.summary.to_owned(),
            Format::Other(format) => {
                let same = kind::ALL.all().flat_map(|kind| kind.exporters).filter(|other| other.name == format.name);
                same.map(|format| format.summary).collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Each name once: what runs have in common with other records is named for runs.
    fn all() -> Vec<Self> {
        let record = export::all().map(Format::Record).chain(analysed::EXPORTERS.iter().map(Format::Analysed));
        let others = kind::ALL.all().flat_map(|kind| kind.exporters).map(Format::Other);
        let mut all: Vec<Self> = Vec::new();
        for format in record.chain(others) {
            if !all.iter().any(|known| known.name() == format.name()) {
                all.push(format);
            }
        }
        all
    }

    fn write(&self, run: &Run, out: &mut dyn Write) -> Result<()> {
        match self {
            Format::Record(format) => {
                let of_run = export::exporter(format.name(), run).unwrap_or(*format);
                Ok(of_run.export(run, out).map_err(Problem::from)?)
            }
            Format::Analysed(format) => Ok(out.write_all((format.text)(run, &runs::summarise(run)?).as_bytes())?),
            Format::Other(format) => Err(usage(format!("{} is no format of a run", format.name))
                .hint("a format of runs: csv, json, junit")
                .into()),
        }
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The values of `--to`, with what each is for.
fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::all().into_iter().map(|format| PossibleValue::new(format.name()).help(format.summary()));
    PossibleValuesParser::new(values).map(|name| {
        let found = Format::all().into_iter().find(|format| format.name() == name);
        found.expect("one of the names")
    })
}

/// A record that is no run, in one of its own formats.
fn of_another_kind(kind: &Kind, folder: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let typed = arguments.to.name();
    let Some(format) = kind.exporters.iter().find(|format| format.name == typed) else {
        let known: Vec<&str> = kind.exporters.iter().map(|format| format.name).collect();
        if known.is_empty() {
            return Err(kind.is_no_run(&arguments.run).into());
        }
        let what = format!("a {} is not exported as {typed}", kind.stored.name);
        return Err(usage(what).hint(format!("--to {}", known.join(", "))).into());
    };
    match format.writes {
        Writes::Text(write) => written(arguments, false, |out| write(folder, out)),
        Writes::Bytes(write) => written(arguments, true, |out| write(folder, out)),
        Writes::Folder(write) => {
            let into = arguments.out.as_ref().ok_or_else(|| {
                usage(format!("the tables of a {} are files in a folder", kind.stored.name))
                    .hint(format!("msgpath export {} --to {typed} -o DIR", arguments.run))
            })?;
            let files = write(folder, into)?;
            output::print(format!("{}: {}\n", into.display(), files.join(", ")))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Standard output, and the error that ended it: what a format makes of that error tells no broken pipe from a full disk.
struct Printed {
    error: Option<io::Error>,
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Output.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.error = Some(error).filter(|_| kind != io::ErrorKind::Interrupted);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Into the file that is named, or to standard output, which is not a terminal where the bytes are nothing for one.
fn written(arguments: &Arguments, binary: bool, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<ExitCode> {
    if let Some(file) = &arguments.out {
        OutputFile::Typed(file.clone()).fill(write)?;
        return Ok(ExitCode::SUCCESS);
    }
    if binary && std::io::stdout().is_terminal() {
        let name = arguments.to.name();
        return Err(usage(format!("{name} is not for a terminal"))
            .hint(format!("msgpath export {} --to {name} -o FILE", arguments.run))
            .into());
    }
    let mut out = BufWriter::new(Printed { error: None });
    let result = write(&mut out).and_then(|()| Ok(out.flush()?));
    match out.get_mut().error.take() {
        // A reader that has left has what it wanted.
        Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Some(error) => Err(output::cannot_print(&error).into()),
        None => result.map(|()| ExitCode::SUCCESS),
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "export";
    const GROUP: Group = Group::Keep;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(figure) = arguments.figure {
        let svg = drawn(&arguments.run, figure)?;
        match &arguments.out {
            Some(file) => write_typed(file, svg)?,
            None => output::print(&svg)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (other, folder) = runs::find_to_export(&arguments.run)?;
    if let Some(kind) = other {
        return of_another_kind(kind, &folder, arguments);
    }
    let run = runs::read(&folder)?;
    let format = arguments.to;
    let binary = matches!(format, Format::Record(format) if format.binary());
    written(arguments, binary, |out| format.write(&run, out))
}
