//! What `-o DIR` writes: the page, the tables as CSV, pictures, a report and the rounds of each run.

use std::path::{Path, PathBuf};

use crate::answers::{Page, Part};
use crate::files;
use msgpath_calls::record::RpcFacts;
use msgpath_core::Problem;
use msgpath_present::html;
use msgpath_present::html::figures;
use msgpath_record::export;

use msgpath_verbs::output::{OutputFile, make_subfolder, write_named};
use msgpath_verbs::problems::{cannot_write, usage};
use msgpath_verbs::report::{self, Reported};
use msgpath_verbs::runs;

/// Said before the measurement, not after it.
pub(super) fn can_be_made(folder: &Path) -> Result<(), Problem> {
    if folder.exists() && !folder.is_dir() {
        return Err(usage(format!("{} is a file; -o takes a folder", folder.display())));
    }
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))
}

/// Writes the page alone, for a browser and as text; the former.
pub(super) fn write_page(
    folder: &Path,
    page_name: Option<&str>,
    page: &Page,
    parts: &[Part<'_>],
) -> Result<PathBuf, Problem> {
    for file in files::of(page_name, page, parts) {
        if ["answers.html", "answers.txt"].contains(&file.name.as_str()) {
            write_named(&folder.join(&file.name), file.text)?;
        }
    }
    Ok(folder.join("answers.html"))
}

/// Writes everything; what there is, for people.
pub(super) fn write(
    folder: &Path,
    page_name: Option<&str>,
    page: &Page,
    parts: &[Part<'_>],
    reported: &[(String, Reported)],
) -> Result<Vec<String>, Problem> {
    let put = |name: &str, text: &[u8]| {
        let file = folder.join(name);
        write_named(&file, text)
    };
    let mut written = Vec::new();
    for file in files::of(page_name, page, parts) {
        put(&file.name, file.text.as_bytes())?;
        written.push(file.name);
    }
    for (name, one) in reported {
        let own = folder.join(name);
        make_subfolder(&own)?;
        let scene = one.scene(html::DEFAULT_EMBED, None);
        report::write(&scene, &OutputFile::Named(own.join("report.html")))?;
        for figure in figures::all() {
            let Ok(svg) = html::figure_file(&scene, figure) else { continue };
            let file = own.join(format!("{}.svg", figure.name));
            write_named(&file, svg)?;
        }
        let mut formats = vec![("rounds.csv", "csv")];
        // Calls have a log of their own.
        if one.run.header.plan.workload.logged {
            formats.push(("messages.csv", "messages-csv"));
        }
        if one.run.header.parts.get::<RpcFacts>().is_some() {
            formats.push(("calls.csv", "rpc-csv"));
        }
        for (file, format) in formats {
            let exporter = export::exporter(format, &one.run).expect("a format of the record");
            runs::export_to(&one.run, exporter, &OutputFile::Named(own.join(file)))?;
        }
        written.push(format!("{name}/"));
    }
    Ok(written)
}
