//! The lab: network namespaces on this machine, joined by virtual cables, with addresses of their own.
//!
//! Two kinds. A lab that somebody puts up by hand has names (`/run/netns/NAME`) and stays until it is taken down. A lab
//! that a run makes for itself has none: its namespaces are held by the processes of the run and end with them, whatever
//! ends these, so nothing can be left behind.

mod held;
mod iproute;
mod kept;
mod spec;

use std::path::PathBuf;

use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};
use msgpath_sys::netns;

pub use held::{HELD_NEAR, HeldLab, hold};
pub use kept::{KeptLab, LabState};
pub use spec::{LabSpec, Shape};

/// Moves this process to the near end's place. Called before it has any other thread.
///
/// # Errors
/// E40.
pub fn enter(between: &Between) -> Result<(), Problem> {
    enter_namespace(&between.near.namespace)
}

/// Where two ends run, and whatever must live as long as they do.
pub struct Places {
    /// Where.
    pub between: Between,
    _held: Option<HeldLab>,
}

/// What `--between` names: `lab` is the lab of that name where it is up, else one that is made for this run; a name is a
/// lab; two names, separated by a comma, are places of labs or network namespaces. Called before the process has any other
/// thread: it may move the process to its place already.
///
/// # Errors
/// E40, E41.
pub fn places(named: &str) -> Result<Places, Problem> {
    let kept = |between| Ok(Places { between, _held: None });
    if let Some((near, far)) = named.split_once(',') {
        return kept(Between { near: place(near.trim())?, far: place(far.trim())? });
    }
    match KeptLab::find(named) {
        Some(lab) => kept(lab.between(None, None)?),
        None if named == "lab" => {
            let held = HeldLab::make(&LabSpec::default())?;
            Ok(Places { between: held.between().clone(), _held: Some(held) })
        }
        None => Err(Problem::new("E40", Exit::CannotStart, format!("there is no lab named {named}"))
            .hint("msgpath lab up, or --between lab, which makes one for this run")),
    }
}

/// A place of a lab, or a namespace that somebody else made.
fn place(name: &str) -> Result<EndPlace, Problem> {
    let lab = name.split_once('.').and_then(|(lab, _)| KeptLab::find(lab));
    if let Some(place) = lab.and_then(|lab| lab.places.into_iter().find(|place| place.name == name)) {
        return Ok(place);
    }
    let namespace = format!("/run/netns/{name}");
    if name.is_empty() || name.contains('/') || !PathBuf::from(&namespace).exists() {
        return Err(Problem::new("E40", Exit::CannotStart, format!("there is no place or namespace named {name:?}"))
            .hint("msgpath lab status, or ip netns"));
    }
    let address = iproute::address(name)?;
    Ok(EndPlace { name: name.into(), namespace, address: address.to_string() })
}

/// Moves the calling thread into a namespace.
///
/// # Errors
/// E40.
pub(crate) fn enter_namespace(file: &str) -> Result<(), Problem> {
    let path = PathBuf::from(file);
    netns::enter(&path).map_err(|error| {
        Problem::new("E40", Exit::CannotStart, format!("the namespace {} cannot be entered: {error}", path.display()))
            .hint("as root, or --between lab, which makes one of your own")
    })
}
