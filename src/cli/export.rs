//! `msgpath export`: a run in a format that others read.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use msgpath_analyse::watch::{Choice, summarise};
use msgpath_core::foreign::shown_json;
use msgpath_core::path::nearest;
use msgpath_core::{Exit, Problem};
use msgpath_present::html::figures::{self, FIGURES, Figure};
use msgpath_present::{export as analysed, html, json};
use msgpath_record::Run;
use msgpath_record::export::{EXPORTERS, Exporter, WATCHED_EXPORTERS, exporter};
use msgpath_record::store::What;
use msgpath_sys::standard::Output;

use crate::output::{self, OutputFile, write_typed};
use crate::problems::usage;
use crate::report::Reported;
use crate::{meshes, runs};

/// Convert a run for other programs
#[derive(Args, Debug)]
pub(super) struct Arguments {
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

/// A figure by its name.
fn figure(name: &str) -> Result<&'static Figure, Problem> {
    figures::figure(name).ok_or_else(|| {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
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

/// A format: one of the record's list, or one that needs the analysis.
#[derive(Clone, Copy)]
enum Format {
    Record(&'static dyn Exporter),
    Analysed(&'static analysed::Exporter),
    /// Of a mesh only.
    OpenMetrics,
}

/// Its name, and what it is for.
const OPEN_METRICS: (&str, &str) =
    ("openmetrics", "of a mesh: effects of its hosts and its levels, for a monitoring system");

impl Format {
    fn name(&self) -> &'static str {
        match self {
            Format::Record(format) => format.name(),
            Format::Analysed(format) => format.name,
            Format::OpenMetrics => OPEN_METRICS.0,
        }
    }

    fn find(name: &str) -> Option<Self> {
        let of_a_run = exporter(name).map(Format::Record).or_else(|| analysed::exporter(name).map(Format::Analysed));
        of_a_run.or((name == OPEN_METRICS.0).then_some(Format::OpenMetrics))
    }

    fn write(&self, run: &Run, out: &mut dyn Write) -> Result<()> {
        match self {
            Format::Record(format) => Ok(format.export(run, out).map_err(Problem::from)?),
            Format::OpenMetrics => {
                Err(usage("openmetrics is a format of a mesh").hint("a format of runs: csv, json, junit").into())
            }
            Format::Analysed(format) => Ok(out.write_all((format.text)(run, &runs::summarise(run)?).as_bytes())?),
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
    let record = EXPORTERS.iter().map(|format| (format.name(), format.summary()));
    let values = record.chain(analysed::EXPORTERS.iter().map(|format| (format.name, format.summary)));
    let values = values.chain([OPEN_METRICS]);
    PossibleValuesParser::new(values.map(|(name, help)| PossibleValue::new(name).help(help)))
        .map(|name| Format::find(&name).expect("one of the names"))
}

/// A mesh: its tables, its metrics, or all that it says.
fn of_a_mesh(folder: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let (_header, summary) = meshes::summary(folder)?;
    let text = match arguments.to.name() {
        "openmetrics" => analysed::openmetrics(&summary),
        "json" => shown_json(&serde_json::to_string_pretty(&summary)?).into_owned() + "\n",
        #[cfg(feature = "parquet")]
        "parquet" => {
            let into = arguments.out.as_ref().ok_or_else(|| {
                usage("the tables of a mesh are files in a folder")
                    .hint(format!("msgpath export {} --to parquet -o DIR", arguments.run))
            })?;
            let written = crate::mesh_tables::write(folder, &_header, &summary, into)?;
            output::print(format!("{}: {}\n", into.display(), written.join(", ")))?;
            return Ok(ExitCode::SUCCESS);
        }
        other => {
            return Err(usage(format!("a mesh is not exported as {other}"))
                .hint("--to parquet -o DIR, openmetrics or json")
                .into());
        }
    };
    match &arguments.out {
        Some(file) => write_typed(file, text)?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What was watched: its requests, its metrics, or all that it says.
fn of_watched(folder: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let name = arguments.to.name();
    let watched = msgpath_record::watch::read(folder).map_err(Problem::from)?;
    let format = WATCHED_EXPORTERS.iter().find(|format| format.name == name);
    let write: Writing = match (name, format) {
        ("json", _) => text(json::watched(&summarise(&watched, Choice::default())) + "\n"),
        ("openmetrics", _) => text(super::watch::metrics(&watched).text()),
        (_, Some(format)) => {
            Box::new(move |out: &mut dyn Write| Ok((format.export)(&watched, out).map_err(Problem::from)?))
        }
        _ => {
            let known: Vec<&str> = WATCHED_EXPORTERS.iter().map(|format| format.name).collect();
            return Err(usage(format!("what was watched is not exported as {name}"))
                .hint(format!("--to {}, json or openmetrics", known.join(", ")))
                .into());
        }
    };
    written(arguments, format.is_some_and(|format| format.binary), write)
}

/// Writes something.
type Writing = Box<dyn FnOnce(&mut dyn Write) -> Result<()>>;

fn text(text: String) -> Writing {
    Box::new(move |out| Ok(out.write_all(text.as_bytes())?))
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

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(figure) = arguments.figure {
        let svg = drawn(&arguments.run, figure)?;
        match &arguments.out {
            Some(file) => write_typed(file, svg)?,
            None => output::print(&svg)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (what, folder) = runs::find_among(&arguments.run, &[What::Run, What::Mesh, What::Watched])?;
    match what {
        What::Mesh => return of_a_mesh(&folder, arguments),
        What::Watched => return of_watched(&folder, arguments),
        _ => {}
    }
    let run = runs::read(&folder)?;
    let format = arguments.to;
    let binary = matches!(format, Format::Record(format) if format.binary());
    written(arguments, binary, |out| format.write(&run, out))
}
