//! The meshes that are kept, as the verbs need them: found, read, shown.

use std::path::{Path, PathBuf};

use msgpath_analyse::mesh::{Fold, MeshSummary};
use msgpath_core::Problem;
use msgpath_core::mesh::MeshHeader;
use msgpath_present::{Style, terminal};
use msgpath_record::{mesh_header, read_mesh, store};

use crate::cli::options::Look;
use crate::looks;

/// The folder of the mesh that the user means.
///
/// # Errors
/// E08: there is none.
pub(crate) fn find(text: &str) -> Result<PathBuf, Problem> {
    store::resolve_mesh(&store::default_root(), text)
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

/// Pairs of a mesh that is whole so far which are worth a second look; none where it cannot be read.
pub(crate) fn suspects(folder: &Path) -> Vec<(u32, u32)> {
    let mut fold = Fold::new(&[]);
    read_mesh(folder, |block| fold.take(&block)).map_or_else(|_| Vec::new(), |mesh| fold.suspects(&mesh.header))
}

/// The answer, as text or JSON.
pub(crate) fn text(header: &MeshHeader, summary: &MeshSummary, verbose: bool, look: &Look) -> String {
    match look.json {
        true => serde_json::to_string_pretty(summary).unwrap_or_default() + "\n",
        false => terminal::mesh(header, summary, Style { verbose, ..looks::stdout(look) }),
    }
}
