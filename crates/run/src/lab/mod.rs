//! The lab: network namespaces on this machine, joined by virtual cables, with addresses of their own.
//!
//! Two kinds. A lab that somebody puts up by hand has names (`/run/netns/NAME`) and stays until it is taken down. A lab
//! that a run makes for itself has none: its namespaces are held by the processes of the run and end with them, whatever
//! ends these, so nothing can be left behind.

mod held;
mod iproute;
mod kept;
mod offloads;
mod relay;
pub mod shape;
mod spec;

use std::path::{Path, PathBuf};
use std::thread::Builder;

use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};
use msgpath_sys::netns;

use crate::team::no_thread;

pub use held::{HELD_NEAR, HeldLab, hold};
pub use kept::{KeptLab, KeptRelay, LabState, LostRelay};
pub use relay::{Counts, serve as relay};
pub use shape::Shape;
pub use spec::LabSpec;

/// Where two ends run, and whatever must live as long as they do.
pub struct Places {
    /// Where.
    pub between: Between,
    /// What the user must know, sentence by sentence.
    pub notes: Vec<String>,
    held: Option<HeldLab>,
}

impl Places {
    /// What the run's own relay has to say when all is over; `None`: nothing, or there is none.
    pub fn after(&mut self) -> Option<String> {
        let dropped = self.held.as_mut()?.counts()?.no_room;
        (dropped > 0).then(|| {
            format!("msgpath's relay had no room for {dropped} packets: they were lost without being asked to")
        })
    }
}

/// What `--between` names: `lab` is the lab of that name where it is up, else one that is made for this run, with a cable
/// like `link`; a name is a lab; two names, separated by a comma, are places of labs or network namespaces. Moves this
/// process to the near end's place, and is called before it has any other thread: threads stay where they were started.
///
/// # Errors
/// E11: a link for a lab that has cables of its own. E40, E41.
pub fn places(named: &str, link: Option<&Shape>) -> Result<Places, Problem> {
    let kept = match named.split_once(',') {
        Some((near, far)) => Some(joined(near.trim(), far.trim())?),
        None => KeptLab::find(named).map(|lab| lab.between(None, None)).transpose()?,
    };
    match (kept, link) {
        (Some(_), Some(_)) => {
            Err(Problem::new("E11", Exit::Usage, format!("{named} is there, with cables of its own"))
                .why("--link is the cable of a lab that is made for the run")
                .hint(format!("without --link, or msgpath lab down {named}")))
        }
        (Some(between), None) => {
            enter_namespace(&between.near.namespace)?;
            Ok(Places { between, notes: Vec::new(), held: None })
        }
        (None, _) if named == "lab" => {
            let shape = link.cloned().unwrap_or_default();
            let held = HeldLab::make(&LabSpec { shape, ..LabSpec::default() })?;
            Ok(Places { between: held.between().clone(), notes: held.notes().to_vec(), held: Some(held) })
        }
        (None, _) => Err(Problem::new("E40", Exit::CannotStart, format!("there is no lab named {named}"))
            .hint("msgpath lab up, or --between lab, which makes one for this run")),
    }
}

/// Two places that were named.
fn joined(near: &str, far: &str) -> Result<Between, Problem> {
    let lab = |name: &str| KeptLab::find(name.split_once('.')?.0);
    match (lab(near), lab(far)) {
        (Some(one), Some(other)) if one.name == other.name => one.between(Some(near), Some(far)),
        (Some(_), Some(_)) => Err(Problem::new("E48", Exit::CannotStart, format!("no cable joins {near} and {far}"))
            .why("they are places of two labs; the same address may be in both")
            .hint("two places of one lab: msgpath lab status")),
        _ => Ok(Between { near: place(near)?, far: place(far)?, ..Between::default() }),
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

/// Whether what is asked takes msgpath's relay. Called where new namespaces may be made.
fn needs_relay(shape: &Shape) -> bool {
    shape.wants_netem() && (shape.netem == Some(false) || !iproute::has_netem())
}

/// Carries something out in another namespace, on a thread that ends with it.
///
/// # Errors
/// E40.
fn within<T: Send + 'static>(namespace: &Path, what: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let file = namespace.display().to_string();
    let cannot = |error| Problem::new("E40", Exit::CannotStart, "the lab could not be made").why(no_thread(&error).why);
    let done = Builder::new().spawn(move || enter_namespace(&file).map(|()| what())).map_err(cannot)?;
    done.join()
        .unwrap_or_else(|_| Err(Problem::new("E40", Exit::CannotStart, "the lab could not be made: a thread ended")))
}

/// The problem of a run between two places, where it is that their cable is gone; else as it was.
pub(crate) fn blame(between: Option<&Between>, problem: Problem) -> Problem {
    let Some(Between { near, far, .. }) = between else { return problem };
    // An interruption, or what could not start, has its own reason.
    if problem.exit != Exit::Unfinished {
        return problem;
    }
    let way = |from: &EndPlace, to: &EndPlace| -> Result<(), String> {
        let to: std::net::IpAddr = to.address.parse().map_err(|_| String::new())?;
        within(Path::new(&from.namespace), move || crate::route::way(to).map(drop))
            .map_err(|problem| problem.what)
            .and_then(|found| found)
    };
    match (way(near, far), way(far, near)) {
        (Ok(()), Ok(())) => problem,
        (Err(why), _) | (_, Err(why)) => {
            Problem::new("E46", Exit::Unfinished, format!("the cable between {} and {} is gone", near.name, far.name))
                .why(format!("{why}; the run ended with {}: {}", problem.code, problem.what))
        }
    }
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
