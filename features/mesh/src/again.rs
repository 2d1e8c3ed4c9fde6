//! Whether a mesh that goes on starts what its record says.

use std::path::Path;

use msgpath_core::Problem;
use msgpath_core::foreign::shell_word;
use msgpath_verbs::again::{Record, Typed, command_of, of_launch, said};

use crate::hosts;
use crate::schema::MeshHeader;

/// Whether a mesh goes on as its record says: its launcher on its hosts. `list`: hosts that were typed.
///
/// # Errors
/// As [`Record::allow`].
pub(crate) fn mesh(
    header: &MeshHeader,
    folder: &Path,
    list: Option<Vec<String>>,
    typed: &Typed,
) -> Result<(), Problem> {
    let names: Vec<&str> = header.hosts.iter().map(|host| host.spec.name.as_str()).collect();
    let fold = |names: &[&str]| said("", hosts::fold(names.iter().copied()));
    let mut says = vec![fold(&names)];
    says.extend(of_launch(&header.launch));
    // Data goes to them, and no option of a mesh that goes on names them.
    says.extend(
        header.hosts.iter().filter_map(|host| host.spec.address).map(|address| said("--address", address.to_string())),
    );
    let mut given = typed.said();
    given.extend(list.map(|list| fold(&list.iter().map(String::as_str).collect::<Vec<_>>())));
    let starts = header.hosts.first().and_then(|host| header.launch_on(host).ok()).map(|launch| {
        let more = header.hosts.len() - 1;
        format!(
            "{}{}",
            command_of(&launch),
            if more > 0 { format!(", and the same for {more} hosts more") } else { String::new() }
        )
    });
    let verb = format!("msgpath mesh --resume {}", shell_word(&folder.to_string_lossy()));
    Record { name: &header.name, folder, verb, says, starts: starts.into_iter().collect() }.allow(&given)
}
