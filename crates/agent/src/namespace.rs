//! Where an end is: the network namespace that it moves to.

use std::path::PathBuf;

use msgpath_core::{Exit, Problem};
use msgpath_sys::netns;

/// Moves the calling thread into a namespace.
///
/// # Errors
/// E40.
pub fn enter(file: &str) -> Result<(), Problem> {
    let path = PathBuf::from(file);
    netns::enter(&path).map_err(|error| {
        Problem::new("E40", Exit::CannotStart, format!("the namespace {} cannot be entered: {error}", path.display()))
            .hint("as root")
    })
}
