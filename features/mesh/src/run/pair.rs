//! One pair: what a run does with its two ends, with agents that are there already and nothing on disk.

use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::Placement;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::settling::Settling;
use msgpath_core::shuffle::order;
use msgpath_core::{Exit, Plan, Problem, Unavailable};
use msgpath_run::{Orders, Pace, Pair, RoundError, Sought, patience, pilot, placement};

use crate::schema::{EndWait, PairCase, PairRound};

/// What a host's agent measures on.
pub(super) struct Cpus {
    /// As typed.
    pub(super) typed: [Vec<u32>; 2],
    /// Other pairs share the machine.
    pub(super) crowded: bool,
}

/// Pilots and measures every case of a plan between two agents. Their links say when it must be over.
///
/// # Errors
/// No case could be measured, or an end failed.
pub(super) fn measure(pair: &mut Pair, plan: &Plan, cpus: &Cpus, stop: &AtomicBool) -> Result<Vec<PairCase>, Problem> {
    let one_machine = pair.one_machine();
    let mut plan = plan.clone();
    plan.unpinned |= cpus.crowded;
    if !plan.unpinned {
        let chosen = placement(&pair.near.cpus, &pair.far.cpus, one_machine, 1);
        for end in [NEAR, FAR] {
            let typed = &cpus.typed[end];
            plan.placement.set(end, if typed.is_empty() { chosen.of(end).to_vec() } else { typed.clone() });
        }
    } else {
        plan.placement = Placement::default();
    }
    let orders = Orders { plan: &plan, one_clock: pair.one_clock(), spare: &[], stop, usual_ns: None };
    let mut found: Vec<PairCase> = Vec::new();
    let mut paces: Vec<Option<Pace>> = Vec::new();
    for case in &plan.cases {
        let mut own = PairCase { case: case.id, ..PairCase::default() };
        // Between hosts a message takes longer than a clock reading: nothing is measured in batches. A mesh has no time to look
        // how long a pair takes to settle.
        paces.push(match pilot(pair, &orders, case, 0.0, Sought::Known(Settling::WithinNs(0))) {
            Ok(pace) => Some(pace),
            Err(RoundError::Unavailable(reason)) => {
                own.unavailable = Some(reason);
                None
            }
            Err(RoundError::Problem(problem)) => return Err(problem),
            Err(RoundError::Stopped) => return Err(interrupted()),
        });
        found.push(own);
    }
    if let (true, Some(first)) = (paces.iter().all(Option::is_none), found.first()) {
        return Err(nothing(first.unavailable.as_ref()));
    }
    for pass in 0..plan.rounds {
        for at in order(plan.seed, pass, plan.cases.len()) {
            let (case, Some(pace)) = (&plan.cases[at], &paces[at]) else { continue };
            if stop.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            let messages = pace.messages(&plan, case, pass);
            let mut round = orders.round(case, messages, pace.trim(&plan, case, messages));
            round.patience_ns = patience(&plan, case, messages);
            match orders.measure(pair, &round, &orders.own(case, pace.batch, 0, pass), None) {
                Ok(measured) => {
                    let delivery = measured.near().delivery;
                    let cpus = [pair.near.cpus.len(), pair.far.cpus.len()];
                    let ends = [NEAR, FAR].map(|end| {
                        EndWait::of(
                            &measured.ends[end],
                            measured.near().elapsed_ns,
                            plan.placement_of(case).of(end),
                            cpus[end],
                        )
                    });
                    found[at].rounds.push(PairRound {
                        sent: delivery.sent,
                        received: delivery.received,
                        lost: delivery.lost,
                        elapsed_ns: measured.near().elapsed_ns,
                        ends: ends.into(),
                        latency: measured.latency.to_sparse(),
                    });
                }
                Err(RoundError::Unavailable(reason)) => return Err(nothing(Some(&reason))),
                Err(RoundError::Problem(problem)) => return Err(problem),
                Err(RoundError::Stopped) => return Err(interrupted()),
            }
        }
    }
    Ok(found)
}

/// E05.
fn nothing(reason: Option<&Unavailable>) -> Problem {
    let (why, hint) = reason.map_or(("", ""), |reason| (&reason.why, &reason.hint));
    Problem::new("E05", Exit::Unfinished, why).hint(hint)
}

/// E15.
pub(super) fn interrupted() -> Problem {
    Problem::new("E15", Exit::Interrupted, "interrupted")
}
