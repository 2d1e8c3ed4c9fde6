//! Whether the data connections of two hosts come about, found out before anything else is measured; and where they go.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use msgpath_core::Workload;
use msgpath_core::plan::{ChannelOptions, Family, Plan};
use msgpath_core::schema::DataRoute;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, PathName, Problem};
use msgpath_paths::registry::traits;
use msgpath_paths::transport;

use crate::link::{Link, Pair};
use crate::orders::Orders;
use crate::round::RoundError;

/// Messages that prove a connection: where some may be lost, one of them comes back.
const MESSAGES: u64 = 4;
/// How long they may take, ns.
const PATIENCE_NS: u64 = 3_000_000_000;

/// Where data connections go, as the first one shows: `local` is the near end's address as it knows it itself.
pub(crate) fn data(pair: &Pair, local: &str, seen: Option<std::net::IpAddr>) -> Option<DataRoute> {
    let near: SocketAddr = local.parse().ok()?;
    Some(DataRoute {
        far: pair.far.peer?.to_string(),
        found: pair.far.found.map(|found| found.to_string()),
        near: near.ip().to_canonical().to_string(),
        near_seen: seen?.to_string(),
    })
}

/// Whether the control stream goes through a tunnel to another network (ssh -L, a published port of a container): it seems to
/// lead to this machine, and data connections would.
///
/// # Errors
/// E72.
pub(crate) fn no_tunnel(pair: &Pair) -> Result<(), Problem> {
    let network = |link: &Link| {
        let text = link.environment.facts.get("network namespace")?;
        let number: u64 = text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
        Some((link.environment.boot_id.clone(), number))
    };
    let (Some(peer), Some(near), Some(far)) = (pair.far.peer, network(&pair.near), network(&pair.far)) else {
        return Ok(());
    };
    if near == far || !peer.is_loopback() || pair.far.found.is_some() {
        return Ok(());
    }
    let what =
        format!("{peer} leads to {} through a tunnel, which data connections do not take", pair.far.environment.host);
    Err(Problem::new("E72", Exit::CannotStart, what)
        .why(format!("from {peer} here nothing goes to {peer} there, which is another network"))
        .hint("msgpath echo HOST --launch ssh, or msgpath serve at an address of that machine which this one reaches"))
}

/// Sends a few messages to a far end that a launcher started on `host`, over the transport of the first case: it found its
/// address by a rule, and nobody has tried it yet.
///
/// # Errors
/// E72: no message came back. As the ends otherwise.
pub(crate) fn prove(pair: &mut Pair, host: &str, plan: &Plan, stop: &AtomicBool) -> Result<(), Problem> {
    let wrong_family = pair.far.peer.filter(|far| match plan.options.family {
        Family::Any => false,
        Family::V4 => far.is_ipv6(),
        Family::V6 => far.is_ipv4(),
    });
    if let Some(far) = wrong_family {
        let what = format!("{host} was found at {far}, which is not an address of the family asked for");
        return Err(Problem::new("E72", Exit::CannotStart, what).hint("--address ADDR, or without -o ip"));
    }
    let first = plan.cases.iter().find(|case| traits(&case.path).inet);
    let Some(meta) = first.and_then(|case| transport(&case.path.transport)).map(|found| found.meta()) else {
        return Ok(());
    };
    let path = PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
    let case = Case { traits: traits(&path), ..Case::new(path, Pieces::whole(64)) };
    let options = ChannelOptions { family: plan.options.family, bind: plan.options.bind.clone(), ..Default::default() };
    let small = Plan { options, ..Plan::new(Workload::ECHO, vec![case.clone()]) };
    let orders = Orders { plan: &small, one_clock: false, spare: &[], stop };
    let mut order = orders.round(&case, MESSAGES, 0);
    order.patience_ns = PATIENCE_NS;
    match orders.measure(pair, &order, &orders.own(&case, 1, 0, 0), None) {
        Ok(round) if round.near().delivery.received > 0 => Ok(()),
        Ok(_) => Err(no_connection(pair, host, "nothing came back of what was sent there")),
        Err(RoundError::Unavailable(reason)) => Err(no_connection(pair, host, &reason.why)),
        Err(RoundError::Problem(problem)) => Err(problem),
        Err(RoundError::Stopped) => Err(Problem::new("E15", Exit::Interrupted, "interrupted before the first round")),
    }
}

/// E72, with both addresses.
fn no_connection(pair: &Pair, host: &str, why: &str) -> Problem {
    let far = pair.far.peer;
    let near = far.and_then(msgpath_agent::route::source);
    let address =
        |address: Option<std::net::IpAddr>| address.map_or("an unknown address".into(), |one| one.to_string());
    let found = pair.far.found.map(|found| format!(" ({found})")).unwrap_or_default();
    let what = format!("no data connection from {} here to {} on {host}{found}", address(near), address(far));
    Problem::new("E72", Exit::CannotStart, what)
        .why(why)
        .hint("--address ADDR   another address of that host; -o bind=ADDRESS   another one of this end")
}
