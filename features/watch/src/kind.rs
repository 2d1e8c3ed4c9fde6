//! What was watched, among what is kept.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use msgpath_core::Problem;
use msgpath_core::watch::ServiceCounts;
use msgpath_record::RecordError;
use msgpath_verbs::kind::{Exporter, Kind, Verbosity, Writes};
use msgpath_verbs::metrics::Exposition;
use msgpath_verbs::options::Look;

use crate::analyse::{Choice, summarise, verify_watched};
use crate::present::{self, SLOWEST, WatchMetrics};
use crate::record::{self, WATCHED, Watched, named, read};
use crate::verb::{code, print};

pub(crate) const KIND: Kind = Kind {
    stored: &WATCHED,
    no_run: "was watched, not measured: it has no rounds",
    instead: "watch {}, with --json for programs",
    show,
    page,
    verify: |folder, stored, version| Ok(verify_watched(&read(folder)?, stored, version)),
    exporters: &[
        Exporter {
            name: "csv",
            summary: "a row each request",
            writes: Writes::Text(|folder, out| rows(record::csv, folder, out)),
        },
        #[cfg(feature = "parquet")]
        Exporter {
            name: "parquet",
            summary: "a row each request",
            writes: Writes::Bytes(|folder, out| rows(record::parquet, folder, out)),
        },
        Exporter {
            name: "perfetto",
            summary: "requests and their stages as tracks",
            writes: Writes::Bytes(|folder, out| rows(record::perfetto, folder, out)),
        },
        Exporter { name: "json", summary: "all that is printed", writes: Writes::Text(all) },
        Exporter {
            name: "openmetrics",
            summary: "of what was watched: its servers, for a monitoring system",
            writes: Writes::Text(|folder, out| {
                Ok(out.write_all(metrics(&read(folder).map_err(Problem::from)?).text().as_bytes())?)
            }),
        },
    ],
    diff: None,
    limits: "msgpath watch --fail-if 'p99 > 1ms'",
};

type Format = fn(&Watched, &mut dyn Write) -> Result<(), RecordError>;

/// The requests in one of the record's formats.
fn rows(format: Format, folder: &Path, out: &mut dyn Write) -> Result<()> {
    let watched = read(folder).map_err(Problem::from)?;
    Ok(format(&watched, out).map_err(Problem::from)?)
}

fn all(folder: &Path, out: &mut dyn Write) -> Result<()> {
    let watched = read(folder).map_err(Problem::from)?;
    let text = present::json(&summarise(&watched, Choice::default())) + "\n";
    Ok(out.write_all(text.as_bytes())?)
}

/// What a record says, for a monitoring system.
fn metrics(watched: &Watched) -> WatchMetrics {
    let (header, end) = (&watched.header, watched.end.clone().unwrap_or_default());
    let name = |counts: &ServiceCounts| {
        let row = watched.rows.iter().rev().find(|row| row.service == counts.service);
        row.map_or_else(|| counts.host.clone(), |row| named(counts, &row.server_name))
    };
    let servers = end.services.iter().map(|counts| (name(counts), counts.clone())).collect();
    let (run, target) = (header.name.clone(), header.command.join(" "));
    WatchMetrics { run, target, seconds: end.duration_ns as f64 / 1e9, servers }
}

/// A record once more, for `msgpath show`.
fn show(folder: &Path, look: &Look, _: Verbosity) -> Result<ExitCode> {
    let watched = read(folder).map_err(Problem::from)?;
    let summary = summarise(&watched, Choice::asked(&watched.header));
    print(&summary, look)?;
    Ok(code(&summary))
}

fn page(folder: &Path) -> Result<String, Problem> {
    let watched = read(folder)?;
    let choice = Choice::asked(&watched.header);
    Ok(present::page(&summarise(&watched, Choice { slowest: choice.slowest.max(SLOWEST), ..choice })))
}
