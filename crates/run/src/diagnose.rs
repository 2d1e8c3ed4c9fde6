//! Both ends examined: before every run for a moment, for `msgpath doctor` at full length.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_agent::doctor::both;
use msgpath_agent::wire::{FloorsOrder, FromEnd, ToEnd};
use msgpath_core::doctor::{Check, CheckState, Doctor, Examine, Observation, parse_report};
use msgpath_core::plan::{ChannelOptions, Family, Placement};
use msgpath_core::remedy::Remedy;
use msgpath_core::schema::{ClockFacts, FAR, Floors, NEAR};
use msgpath_core::{Exit, Plan, Problem, Target};
use msgpath_sys::clock;

use crate::link::{Link, Pair, Side};
use crate::placement::placement;
use crate::round::out_of_turn;
use crate::who::{Who, who};

/// What `msgpath doctor` examines.
#[derive(Clone, Debug)]
pub struct DoctorRequest {
    /// The far end.
    pub target: Target,
    /// Address family and bind address of the way there.
    pub options: ChannelOptions,
    /// Measure the noise floor at full length.
    pub full: bool,
    /// Spin waits are going to be measured.
    pub spin: bool,
}

/// What an examination brought.
pub struct Examination {
    /// All checks, for people: their commands are text.
    pub doctor: Doctor,
    /// What helps on this machine, each once: of agents that this process started here, and of no other end, whatever it says.
    pub remedies: Vec<Remedy>,
}

/// Examines both ends. Check 21, the A/A resolution, is left to the caller: it takes a measurement. Where something else
/// than `msgpath serve` answers, this end is examined and check 22 says who it is.
///
/// # Errors
/// The far end cannot be reached, or the user interrupted.
pub fn examine(request: &DoctorRequest, stop: &AtomicBool) -> Result<Examination, Problem> {
    if let (Target::Host { host, port, .. }, None) = (&request.target, &request.options.launch) {
        let found = who(host, *port, &request.options)?;
        if found != Who::Msgpath {
            return near_only(request, &found, host, *port);
        }
    }
    let mut pair = Pair::open(&request.target, &request.options)?;
    let chosen = placement(&pair.near.cpus, &pair.far.cpus, pair.one_machine(), 1);
    let mut examination = examine_pair(&mut pair, &chosen, request.full, request.spin)?;
    let passes = crate::reach::check(&mut pair, &request.target, &request.options, stop)?;
    examination.doctor.checks.extend(passes.map(|observation| Check::new("both", observation)));
    if stop.load(Ordering::Relaxed) {
        return Err(Problem::new("E15", Exit::Interrupted, "interrupted before both ends were examined"));
    }
    Ok(examination)
}

/// The check that says who answers where that is not `msgpath serve`.
pub const WHO_ANSWERS: u8 = 22;

/// Examines this end and says who answers at the other, which msgpath cannot examine.
///
/// # Errors
/// No near end can be had.
fn near_only(request: &DoctorRequest, found: &Who, host: &str, port: u16) -> Result<Examination, Problem> {
    let peer = (host, port).to_socket_addrs().ok().and_then(|mut all| all.next());
    let mut near = Link::near_here()?;
    let cpus = near.cpus.iter().take(1).copied().collect();
    let order = Examine { end: "near".into(), cpus, full: request.full, peer, spin: request.spin, other_cpu: None };
    let mut alone = examine_alone(&mut near, order)?;
    let verb = found.verb(host, port);
    let who = Observation {
        number: WHO_ANSWERS,
        state: CheckState::Warn,
        what: format!("{found}; it is not msgpath serve, so the far end was not examined"),
        cure: if verb.is_empty() {
            "msgpath serve   on the far machine".into()
        } else {
            format!("to measure it: {verb}")
        },
        remedies: Vec::new(),
        evidence: BTreeMap::new(),
    };
    alone.doctor.checks.push(Check::new("far", who));
    Ok(alone)
}

/// Examines the machine of a near end that has no far end of msgpath.
///
/// # Errors
/// It is gone.
pub fn examine_alone(near: &mut Link, order: Examine) -> Result<Examination, Problem> {
    let (start, full) = (clock::now(), order.full);
    near.send(&ToEnd::Examine(order))?;
    let FromEnd::Examined { checks } = near.answer()?.0 else { return Err(out_of_turn()) };
    let observed = parse_report(checks).map_err(|why| out_of_turn().why(why))?;
    let remedies = each_once(&observed);
    let checks = observed.into_iter().map(|observation| Check::new("near", observation)).collect();
    Ok(Examination { doctor: Doctor { checks, took_ns: clock::now() - start, full }, remedies })
}

/// The checks of both ends before a run.
///
/// # Errors
/// The far end is gone.
pub(crate) fn diagnose(pair: &mut Pair, placement: &Placement, full: bool, spin: bool) -> Result<Doctor, Problem> {
    Ok(examine_pair(pair, placement, full, spin)?.doctor)
}

/// Examines both ends, at the same time where they run on different CPUs.
///
/// # Errors
/// The far end is gone.
fn examine_pair(pair: &mut Pair, placement: &Placement, full: bool, spin: bool) -> Result<Examination, Problem> {
    let start = clock::now();
    let one_machine = pair.one_machine();
    let other = |cpus: &[u32]| cpus.first().copied().filter(|_| one_machine);
    let order = |end: &str, cpus: &[u32], others: &[u32], peer| Examine {
        end: end.into(),
        cpus: cpus.to_vec(),
        full,
        peer,
        spin,
        other_cpu: other(others),
    };
    let peer = pair.far.peer.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    if !pair.away {
        pair.far.send(&ToEnd::Examine(order("far", placement.of(FAR), placement.of(NEAR), None)))?;
    }
    let near_order = ToEnd::Examine(order("near", placement.of(NEAR), placement.of(FAR), Some(peer)));
    let one_cpu = one_machine && placement.of(NEAR) == placement.of(FAR);
    let (near_checks, far_checks) = if pair.away {
        pair.near.send(&near_order)?;
        (examined(pair, Side::Near)?, Vec::new())
    } else if one_cpu {
        let far = examined(pair, Side::Far)?;
        pair.near.send(&near_order)?;
        (examined(pair, Side::Near)?, far)
    } else {
        pair.near.send(&near_order)?;
        (examined(pair, Side::Near)?, examined(pair, Side::Far)?)
    };
    let mut checks = match pair.away {
        true => Vec::new(),
        false => both(&near_checks, &far_checks, &pair.near.environment, &pair.far.environment),
    };
    let started_here = [(&pair.near, &near_checks), (&pair.far, &far_checks)];
    let ours = started_here.into_iter().filter(|(link, _)| link.started_here);
    let remedies = each_once(ours.flat_map(|(_, observed)| observed));
    // Who answered says which end it is.
    checks.extend(near_checks.into_iter().map(|observation| Check::new("near", observation)));
    checks.extend(far_checks.into_iter().map(|observation| Check::new("far", observation)));
    let rank = |end: &str| ["near", "far"].iter().position(|name| *name == end).unwrap_or(2);
    checks.sort_by_key(|check| (check.number, rank(&check.end)));
    Ok(Examination { doctor: Doctor { checks, took_ns: clock::now() - start, full }, remedies })
}

/// E03 where an end reports anything but checks.
fn examined(pair: &mut Pair, from: Side) -> Result<Vec<Observation>, Problem> {
    match pair.answer(from)?.0 {
        FromEnd::Examined { checks } => parse_report(checks).map_err(|why| out_of_turn().why(why)),
        _ => Err(out_of_turn()),
    }
}

fn each_once<'a>(observed: impl IntoIterator<Item = &'a Observation>) -> Vec<Remedy> {
    let mut remedies: Vec<Remedy> = Vec::new();
    for remedy in observed.into_iter().flat_map(|observation| &observation.remedies) {
        if !remedies.contains(remedy) {
            remedies.push(remedy.clone());
        }
    }
    remedies
}

/// The physical floors for the largest message of a plan, and what reading the clock costs, at the near end.
///
/// # Errors
/// It is gone.
pub(crate) fn floors_of(plan: &Plan, pair: &mut Pair) -> Result<(Floors, ClockFacts), Problem> {
    let size = plan.cases.iter().map(|case| case.size.max(case.reply)).max().unwrap_or(1);
    let first = |cpus: &[u32]| cpus.first().copied();
    let (near, far) = (first(plan.placement.of(NEAR)), first(plan.placement.of(FAR)));
    let peer = pair.far.peer.or_else(|| peer_here(plan));
    let in_pieces = plan.cases.iter().filter(|case| case.traits.pages && case.pieces.count > 1);
    let pieces = in_pieces.map(|case| case.pieces).max_by_key(|pieces| pieces.total());
    let order = FloorsOrder { near, far, one_machine: pair.one_machine(), size, peer, pieces };
    pair.near.send(&ToEnd::Measure(order))?;
    measured_floors(pair.answer(Side::Near)?.0)
}

/// The same of a near end that has no far end of msgpath.
///
/// # Errors
/// It is gone.
pub fn floors_alone(near: &mut Link, order: FloorsOrder) -> Result<(Floors, ClockFacts), Problem> {
    near.send(&ToEnd::Measure(order))?;
    measured_floors(near.answer()?.0)
}

fn measured_floors(said: FromEnd) -> Result<(Floors, ClockFacts), Problem> {
    let FromEnd::Measured { floors, clock } = said else { return Err(out_of_turn()) };
    let measured = |measured: Option<f64>| measured.map(|value| (value * 10.0).round() / 10.0);
    let floors = Floors {
        wake_round_trip_ns: measured(floors.wake_round_trip_ns),
        switch_round_trip_ns: measured(floors.switch_round_trip_ns),
        spin_round_trip_ns: measured(floors.spin_round_trip_ns),
        copy_bytes_per_s: floors.copy_bytes_per_s.map(f64::round),
        ..*floors
    };
    Ok((floors, clock))
}

/// Where the packets of a far end on this machine go, where any path of the plan sends some.
fn peer_here(plan: &Plan) -> Option<SocketAddr> {
    let inet = |case: &msgpath_core::Case| case.traits.inet;
    if !plan.cases.iter().any(inet) {
        return None;
    }
    let address: IpAddr = match (&plan.options.between, plan.options.family) {
        (Some(between), _) => between.of(FAR).address.parse().ok()?,
        (None, Family::V6) => Ipv6Addr::LOCALHOST.into(),
        (None, Family::Any | Family::V4) => Ipv4Addr::LOCALHOST.into(),
    };
    Some((address, 0).into())
}
