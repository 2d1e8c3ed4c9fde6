//! The lab: network namespaces on this machine, joined by virtual links, with addresses of their own.
//!
//! Two kinds. A lab that somebody puts up by hand has names (`/run/netns/NAME`) and stays until it is taken down. A lab
//! that a run makes for itself has none: its namespaces are held by the processes of the run and end with them, whatever
//! ends these, so nothing can be left behind.

mod held;
mod iproute;
mod kept;
mod napi;
mod offloads;
mod relay;
pub mod shape;
mod spec;

use msgpath_core::schema::{FAR, NEAR};
use std::path::{Path, PathBuf};
use std::thread::Builder;

use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::{Exit, Problem};

use msgpath_agent::team::no_thread;

pub use held::{HELD_NEAR, HOLDER, HeldLab, hold};
pub use kept::{KeptLab, KeptRelay, LabState, LostRelay};
pub use relay::{Counts, ROLE as RELAY, serve as relay};
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

/// What `--between` names: `lab` is the lab of that name where it is up, else one that is made for this run, with a link
/// like `link`; a name is a lab; two names, separated by a comma, are places of labs or network namespaces. Moves this
/// process to the near end's place, and is called before it has any other thread: threads stay where they were started.
///
/// # Errors
/// E11: a link for a lab that has links of its own. E40, E41.
pub fn places(named: &str, link: Option<&Shape>) -> Result<Places, Problem> {
    let kept = match named.split_once(',') {
        Some((near, far)) => Some(joined(near.trim(), far.trim())?),
        None => KeptLab::find(named).map(|lab| lab.between(None, None)).transpose()?,
    };
    match (kept, link) {
        (Some(_), Some(_)) => Err(Problem::new("E11", Exit::Usage, format!("{named} is there, with links of its own"))
            .why("--link is the link of a lab that is made for the run")
            .hint(format!("without --link, or msgpath lab down {named}"))),
        (Some(between), None) => {
            msgpath_agent::namespace::enter(&between.of(NEAR).namespace)?;
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

/// Whether the places of a run outlive it: they are namespaces with names, not held by processes of the run.
pub fn is_kept(between: &Between) -> bool {
    [between.of(NEAR), between.of(FAR)].iter().all(|place| place.namespace.starts_with(NAMED))
}

/// The places of a run that goes on, where they are still what they were. Moves this process, as [`places`] does.
///
/// # Errors
/// E40, E48: they are gone. E59: others have their names.
pub fn places_again(between: &Between) -> Result<Places, Problem> {
    let found = joined(&between.of(NEAR).name, &between.of(FAR).name)?;
    let ends = |between: &Between| (between.of(NEAR).clone(), between.of(FAR).clone());
    if ends(&found) != ends(between) || found.properties != between.properties {
        let what = format!("{} and {} are not the places that they were", between.of(NEAR).name, between.of(FAR).name);
        return Err(Problem::new("E59", Exit::CannotStart, what)
            .why("their addresses, or the link between them, are others")
            .hint("the lab as it was: msgpath lab status"));
    }
    msgpath_agent::namespace::enter(&between.of(NEAR).namespace)?;
    Ok(Places { between: between.clone(), notes: Vec::new(), held: None })
}

/// Where namespaces with names are.
const NAMED: &str = "/run/netns/";

/// Two places that were named.
fn joined(near: &str, far: &str) -> Result<Between, Problem> {
    let lab = |name: &str| KeptLab::find(name.split_once('.')?.0);
    match (lab(near), lab(far)) {
        (Some(one), Some(other)) if one.name == other.name => one.between(Some(near), Some(far)),
        (Some(_), Some(_)) => Err(Problem::new("E48", Exit::CannotStart, format!("no link joins {near} and {far}"))
            .why("they are places of two labs; the same address may be in both")
            .hint("two places of one lab: msgpath lab status")),
        _ => Ok(Between { ends: vec![place(near)?, place(far)?], ..Between::default() }),
    }
}

/// A place of a lab, or a namespace that somebody else made.
fn place(name: &str) -> Result<EndPlace, Problem> {
    let lab = name.split_once('.').and_then(|(lab, _)| KeptLab::find(lab));
    if let Some(place) = lab.and_then(|lab| lab.places.into_iter().find(|place| place.name == name)) {
        return Ok(place);
    }
    let namespace = format!("/run/netns/{name}");
    if name.is_empty() || name.starts_with(['-', '.']) || name.contains('/') || !PathBuf::from(&namespace).exists() {
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
    let done = Builder::new().spawn(move || msgpath_agent::namespace::enter(&file).map(|()| what())).map_err(cannot)?;
    done.join()
        .unwrap_or_else(|_| Err(Problem::new("E40", Exit::CannotStart, "the lab could not be made: a thread ended")))
}

/// The problem of a run between two places, where it is that their link is gone; else as it was.
pub(crate) fn explain(between: Option<&Between>, problem: Problem) -> Problem {
    let Some(between) = between else { return problem };
    let (near, far) = (between.of(NEAR), between.of(FAR));
    // An interruption, or what could not start, has its own reason.
    if problem.exit != Exit::Unfinished {
        return problem;
    }
    let direction = |from: &EndPlace, to: &EndPlace| -> Result<(), String> {
        let to: std::net::IpAddr = to.address.parse().map_err(|_| String::new())?;
        within(Path::new(&from.namespace), move || msgpath_agent::route::to(to).map(drop))
            .map_err(|problem| problem.what)
            .and_then(|found| found)
    };
    match (direction(near, far), direction(far, near)) {
        (Ok(()), Ok(())) => problem,
        (Err(why), _) | (_, Err(why)) => {
            Problem::new("E46", Exit::Unfinished, format!("the link between {} and {} is gone", near.name, far.name))
                .why(format!("{why}; the run ended with {}: {}", problem.code, problem.what))
        }
    }
}
