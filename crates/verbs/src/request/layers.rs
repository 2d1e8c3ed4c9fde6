//! What layers add. A layer breakdown: one message over ever fewer layers. `compare --layers`: protocols on top of a path.

use msgpath_core::plan::{Ablation, Change, Distribution, Metric};
use msgpath_core::{Case, CaseRole, Exit, Plan, Problem, Target};
use msgpath_paths::registry::transports;

use super::{Request, Verb, request};
use crate::options::Options;
use crate::problems::usage;
use crate::typed::{List, PathArg};

/// The stacks, the one with most layers first. What this machine lacks is left out by name.
const LAYERS: [&str; 9] = [
    "tcp:send/block",
    "tcp:send/epoll",
    "tcp:send/sigio",
    "tcp:send/busy-poll",
    "tcp:send/spin",
    "eth:send/block",
    "eth:send/spin",
    "shm:ring/futex",
    "shm:ring/spin",
];
/// Service time of the handler when nobody says, ns.
const WORK_NS: u64 = 20_000;

/// The plan of a layer breakdown.
///
/// # Errors
/// As [`request`]; options that choose paths, or a service time that is not constant.
pub fn layers(options: &Options) -> Result<Request, Problem> {
    let message = &options.message;
    if message.paths.is_some() || options.settings.wait.is_some() {
        return Err(usage("--layers has its own paths, the stack with most layers first").hint("leave out -x"));
    }
    if options.timed.rate.is_some() {
        return Err(usage("--layers sends one message after the other").hint("leave out --rate"));
    }
    let service_ns = match options.settings.service_time {
        None => WORK_NS,
        Some(time) if time.distribution == Distribution::Constant => time.mean_ns,
        Some(_) => {
            return Err(usage("--layers takes a service time that is always the same").hint("-o service-time=20us"));
        }
    };
    let mut options = options.clone();
    options.settings.service_time = None;
    options.settings.refine = false;
    let known = |layer: &&&str| layer.parse().is_ok_and(|spec| msgpath_paths::resolve(&spec, None).is_ok());
    let layers = LAYERS.iter().filter(known).map(|layer| PathArg::Spec(layer.parse().expect("a well-formed path")));
    options.message.paths = Some(List(layers.collect()));
    options.message.len.get_or_insert(List(vec![64]));
    let Request { mut plan, target, notes, parts } = request(Verb::Compare { stream: false }, &options, None)?;
    plan.cases.retain(|case| matches!(case.role, CaseRole::Measured | CaseRole::Control));
    let handler = Case {
        id: plan.cases.len() as u32,
        role: CaseRole::Ablation,
        ablation: Some(Ablation { of: 0, change: Change::ServiceTime(service_ns) }),
        ..plan.cases[0].clone()
    };
    plan.cases.push(handler);
    let plan = Plan { layers: true, refine: false, try_causes: false, ..plan };
    plan.validate()?;
    Ok(Request { plan, target, notes, parts })
}

/// The plan of `compare --layers`: paths with protocols on top, each to be compared with what it stands on. `all`: every one
/// that was built in, and the paths beneath.
///
/// # Errors
/// As [`request`]; E05 where nothing was built in; options that this result has no place for.
pub fn ladder(List(typed): &List<PathArg>, options: &Options, target: Option<&Target>) -> Result<Request, Problem> {
    if transports().all(|transport| transport.over().is_empty()) {
        let problem = Problem::new("E05", Exit::CannotStart, "this msgpath was built without layers");
        return Err(problem.hint("cargo install msgpath --features layers"));
    }
    if options.compared.metric.is_some_and(|metric| metric != Metric::P50) {
        return Err(usage("--layers says what a layer adds to the median").hint("leave out --metric"));
    }
    let mut options = options.clone();
    options.settings.refine = false;
    options.message.len.get_or_insert(List(vec![64]));
    let all = || every_layer().into_iter().map(|name| PathArg::Spec(name.parse().expect("a well-formed path")));
    let paths = typed.iter().flat_map(|path| match path {
        PathArg::All => all().collect(),
        path => vec![path.clone()],
    });
    options.message.paths = Some(List(paths.collect()));
    let Request { mut plan, target, notes, parts } = request(Verb::Compare { stream: false }, &options, target)?;
    plan.layers = true;
    plan.declare(msgpath_paths::traits);
    if !plan.is_ladder() {
        return Err(usage("none of these is a layer on top of a path").hint("msgpath compare --layers all"));
    }
    Ok(Request { plan, target, notes, parts })
}

/// Every layer that was built in, behind the paths that carry them.
fn every_layer() -> Vec<&'static str> {
    let layers = || transports().filter(|transport| !transport.over().is_empty());
    let is_layer = |name: &str| layers().any(|layer| layer.meta().meta.name == name);
    let mut names: Vec<&str> = Vec::new();
    let beneath = layers().map(|layer| layer.over()).filter(|name| !is_layer(name));
    for name in beneath.chain(layers().map(|layer| layer.meta().meta.name)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
