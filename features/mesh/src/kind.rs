//! Meshes, among what is kept.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use msgpath_core::foreign::shown_json;
use msgpath_verbs::kind::{Exporter, Kind, Verbosity, Writes};
use msgpath_verbs::options::Look;
use msgpath_verbs::{looks, output};

use crate::kept;
use crate::present::{self, openmetrics, page};
use crate::record::MESH;

pub(crate) const KIND: Kind = Kind {
    stored: &MESH,
    no_run: "is a mesh: its rounds are those of its pairs",
    instead: "show {}",
    show: |folder, look, verbosity| {
        let (header, summary) = kept::summary(folder)?;
        output::print(kept::text(&header, &summary, verbosity == Verbosity::Verbose, look))?;
        Ok(ExitCode::SUCCESS)
    },
    page: |folder| kept::summary(folder).map(|(header, summary)| page::mesh(&header, &summary)),
    verify: kept::verify,
    exporters: &[
        #[cfg(feature = "parquet")]
        Exporter {
            name: "parquet",
            summary: "its tables, each a file",
            writes: Writes::Folder(|folder, into| {
                let (header, summary) = kept::summary(folder)?;
                crate::tables::write(folder, &header, &summary, into)
            }),
        },
        Exporter {
            name: "openmetrics",
            summary: "of a mesh: effects of its hosts and its levels, for a monitoring system",
            writes: Writes::Text(|folder, out| {
                Ok(out.write_all(openmetrics::openmetrics(&kept::summary(folder)?.1).as_bytes())?)
            }),
        },
        Exporter { name: "json", summary: "all that is printed", writes: Writes::Text(all) },
    ],
    diff: Some(diff),
    limits: "msgpath mesh --fail-if 'p99 > 200us'",
};

fn all(folder: &Path, out: &mut dyn Write) -> Result<()> {
    let text = shown_json(&serde_json::to_string_pretty(&kept::summary(folder)?.1)?).into_owned() + "\n";
    Ok(out.write_all(text.as_bytes())?)
}

/// What changed between two meshes.
fn diff(before: &Path, after: &Path, look: &Look) -> Result<ExitCode> {
    let found = kept::diff(before, after)?;
    let text = match look.json {
        true => shown_json(&serde_json::to_string(&found)?).into_owned() + "\n",
        false => present::diff::diff(&found, looks::stdout(look)),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
