//! The places of a run: `--between`, and `--link` of what is made for it.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command};
use msgpath_core::plan::{Between, EndPlace, Family};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::{Exit, Problem};
use msgpath_verbs::places::{Held, Maker, Places};

use crate::lab::{self, HeldLab, KeptLab, LabSpec, Shape};

/// What names a lab that is made for a run, where none of that name is up.
const OWN: &str = "lab";

/// The option about the link.
#[derive(Args)]
struct LinkOption {
    /// Link of the lab that --between lab makes for this run: rate=1G,queue=100,delay=1ms,loss=0.1%,duplicate=0.1%,reorder=1%,
    /// mtu=1400,offloads=off,netem=no,napi=on
    #[arg(long, value_name = "SHAPE", requires = "between", value_parser = Shape::parse)]
    link: Option<Shape>,
}

/// Labs, and network namespaces that somebody else made.
pub(crate) struct Labs;

impl Maker for Labs {
    fn help(&self) -> &'static str {
        "lab (that of `msgpath lab up`, else one made for this run), a lab's name, or two places: lab.a,lab.c, or two namespaces by name"
    }

    fn options(&self, verb: Command) -> Command {
        LinkOption::augment_args(verb)
    }

    fn find(&self, named: &str, typed: &ArgMatches) -> Result<Places, Problem> {
        places(named, typed.try_get_one::<Shape>("link").ok().flatten())
    }

    fn place(&self, named: &str) -> Result<EndPlace, Problem> {
        place(named)
    }

    fn alike(&self, between: &Between) -> Result<Places, Problem> {
        if between.is_kept() {
            return entered(joined(&between.of(NEAR).name, &between.of(FAR).name)?);
        }
        // The lab of that run has ended with it.
        held(between.link.as_deref().and_then(|words| Shape::parse(words).ok()))
    }

    /// # Errors
    /// E40, E48: they are gone. E59: others have their names.
    fn again(&self, between: &Between) -> Result<Places, Problem> {
        let found = joined(&between.of(NEAR).name, &between.of(FAR).name)?;
        let is_same = |end: usize| {
            let (found, had) = (found.of(end), between.of(end));
            let has = found.address == had.address || found.addresses.contains(&had.address);
            has && (&found.name, &found.namespace) == (&had.name, &had.namespace)
        };
        if ![NEAR, FAR].into_iter().all(is_same) || found.properties != between.properties {
            let [near, far] = [NEAR, FAR].map(|end| between.of(end).name.as_str());
            let what = format!("{near} and {far} are not the places that they were");
            return Err(Problem::new("E59", Exit::CannotStart, what)
                .why("their addresses, or the link between them, are others")
                .hint("the lab as it was: msgpath lab status"));
        }
        entered(between.clone())
    }
}

impl Held for HeldLab {
    fn after(&mut self) -> Option<String> {
        let dropped = self.counts()?.no_room;
        (dropped > 0).then(|| {
            format!("msgpath's relay had no room for {dropped} packets: they were lost without being asked to")
        })
    }
}

/// What `--between` names: `lab` is the lab of that name where it is up, else one that is made for this run, with a link like `link`; a
/// name is a lab; two names, separated by a comma, are places of labs or network namespaces.
///
/// # Errors
/// E11: a link for a lab that has links of its own. E40, E41.
fn places(named: &str, link: Option<&Shape>) -> Result<Places, Problem> {
    let kept = match named.split_once(',') {
        Some(_) => Some(all_joined(&named.split(',').map(str::trim).collect::<Vec<_>>())?),
        None => KeptLab::find(named).map(|lab| lab.between(None, None)).transpose()?,
    };
    match (kept, link) {
        (Some(_), Some(_)) => Err(Problem::new("E11", Exit::Usage, format!("{named} is there, with links of its own"))
            .why("--link is the link of a lab that is made for the run")
            .hint(format!("without --link, or msgpath lab down {named}"))),
        (Some(between), None) => entered(between),
        (None, _) if named == OWN => held(link.cloned()),
        (None, _) => Err(Problem::new("E40", Exit::CannotStart, format!("there is no lab named {named}"))
            .hint("msgpath lab up, or --between lab, which makes one for this run")),
    }
}

/// Places that stay. Moves this process to the near one.
fn entered(between: Between) -> Result<Places, Problem> {
    msgpath_agent::namespace::enter(&between.of(NEAR).namespace)
        .map_err(|problem| problem.hint("as root, or --between lab, which makes one of your own"))?;
    Ok(Places { between, notes: Vec::new(), held: None })
}

/// A lab for one run.
fn held(link: Option<Shape>) -> Result<Places, Problem> {
    let lab = HeldLab::make(&LabSpec { shape: link.unwrap_or_default(), ..LabSpec::default() })?;
    Ok(Places { between: lab.between().clone(), notes: lab.notes().to_vec(), held: Some(Box::new(lab)) })
}

/// Places that were named: the near one, and those that each have a link to it.
fn all_joined(names: &[&str]) -> Result<Between, Problem> {
    let [near, far, more @ ..] = names else {
        return Err(Problem::new("E11", Exit::Usage, "one place has no other").hint("--between A,B"));
    };
    let mut between = joined(near, far)?;
    for name in more {
        between.ends.extend(joined(near, name)?.ends.pop());
    }
    Ok(between)
}

/// Two places that were named.
fn joined(near: &str, far: &str) -> Result<Between, Problem> {
    let lab = |name: &str| KeptLab::find(name.split_once('.')?.0);
    match (lab(near), lab(far)) {
        (Some(one), Some(other)) if one.name == other.name => one.between(Some(near), Some(far)),
        (Some(_), Some(_)) => Err(Problem::new("E48", Exit::CannotStart, format!("no link joins {near} and {far}"))
            .why("they are places of two labs; the same address may be in both")
            .hint("two places of one lab: msgpath lab status")),
        _ => {
            let mut between = Between { ends: vec![place(near)?, place(far)?], ..Between::default() };
            between.choose(Family::Any);
            Ok(between)
        }
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
    let addresses: Vec<String> = lab::addresses(name)?.iter().map(ToString::to_string).collect();
    Ok(EndPlace { name: name.into(), namespace, address: addresses.first().cloned().unwrap_or_default(), addresses })
}
