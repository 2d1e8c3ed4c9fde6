//! The meshes that are kept, as the verbs need them: found, read, shown.

use std::path::{Path, PathBuf};

use msgpath_analyse::verify::Verification;
use msgpath_core::foreign::shown_json;
use msgpath_core::{Exit, Problem};
use msgpath_present::Style;
use msgpath_record::write_summary;
use msgpath_verbs::options::Look;
use msgpath_verbs::problems::cannot_write;
use msgpath_verbs::{looks, runs};

use crate::analyse::{self, Fold, MeshCheck, MeshDiff, MeshSummary};
use crate::present::terminal;
use crate::record::{MESH, Mesh, mesh_header, read_mesh};
use crate::schema::MeshHeader;

/// The folder of the mesh that the user means.
///
/// # Errors
/// E08: there is none.
pub(crate) fn find(text: &str) -> Result<PathBuf, Problem> {
    runs::find_kind(text, &MESH)
}

/// The header of a mesh and what it says.
///
/// # Errors
/// It cannot be read.
pub(crate) fn summary(folder: &Path) -> Result<(MeshHeader, MeshSummary), Problem> {
    let mut fold = Fold::new(&mesh_header(folder)?.sla);
    let mesh = read_mesh(folder, |block| fold.take(&block))?;
    let summary = fold.finish(&mesh.header, mesh.end.as_ref(), mesh.damage.as_ref());
    Ok((mesh.header, summary))
}

/// What a mesh says, kept beside it for `verify`.
///
/// # Errors
/// It cannot be read, or the summary cannot be written.
pub(crate) fn kept(folder: &Path) -> Result<(MeshHeader, MeshSummary), Problem> {
    let (mesh, summary, check) = checked(folder)?;
    let cannot = |error| cannot_write(folder, &std::io::Error::from(error));
    write_summary(folder, &serde_json::to_vec_pretty(&check.stored(&summary)).map_err(cannot)?)?;
    Ok((mesh.header, summary))
}

/// Every number of a mesh once more.
///
/// # Errors
/// It cannot be read.
pub(crate) fn verify(folder: &Path, stored: Option<&[u8]>, version: &str) -> Result<Verification, Problem> {
    let (mesh, summary, check) = checked(folder)?;
    Ok(check.finish(&mesh, &summary, stored, version))
}

/// A mesh, what it says, and what its blocks say of each other.
fn checked(folder: &Path) -> Result<(Mesh, MeshSummary, MeshCheck), Problem> {
    let header = mesh_header(folder)?;
    let (mut fold, mut check) = (Fold::new(&header.sla), MeshCheck::default());
    let mesh = read_mesh(folder, |block| {
        fold.take(&block);
        check.take(&header, &block);
    })?;
    let summary = fold.finish(&mesh.header, mesh.end.as_ref(), mesh.damage.as_ref());
    Ok((mesh, summary, check))
}

/// Pairs of a mesh that is whole so far which are worth a second look; none where it cannot be read.
pub(crate) fn suspects(folder: &Path) -> Vec<(u32, u32)> {
    let mut fold = Fold::new(&[]);
    read_mesh(folder, |block| fold.take(&block)).map_or_else(|_| Vec::new(), |mesh| fold.suspects(&mesh.header))
}

/// Two meshes compared.
///
/// # Errors
/// One cannot be read, or they have nothing in common.
pub(crate) fn diff(before: &Path, after: &Path) -> Result<MeshDiff, Problem> {
    let (before, after) = (summary(before)?, summary(after)?);
    let found = analyse::diff((&before.0, &before.1), (&after.0, &after.1));
    if found.cases.iter().all(|case| case.pairs == 0) {
        let problem = Problem::new("E24", Exit::CannotStart, "these meshes have no pair and case in common");
        return Err(problem.why(found.differs.join("; ")).hint("the same hosts, paths and sizes in both"));
    }
    Ok(found)
}

/// The answer, as text or JSON.
pub(crate) fn text(header: &MeshHeader, summary: &MeshSummary, verbose: bool, look: &Look) -> String {
    match look.json {
        true => shown_json(&serde_json::to_string_pretty(summary).unwrap_or_default()).into_owned() + "\n",
        false => terminal::mesh(header, summary, Style { verbose, ..looks::stdout(look) }),
    }
}
