//! The plan of a script: one case a command, its calls in rounds.

use crate::agent::client::orders::MOST_CALLS_A_ROUND;
use crate::agent::client::wire::LAB_HEAD;
use crate::agent::client::{http, redis};
use msgpath_core::plan::{Dispatch, Extent, Load};
use msgpath_core::schema::NEAR;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, PathName, Plan, Problem};
use msgpath_rpc::command::Step;

use super::{Protocol, RpcRequest, speaks};
use crate::workload::CALLS;

/// Rounds of a command where there are calls enough.
pub const ROUNDS: u64 = 40;
/// Fewer calls than this are not a round of their own.
const CALLS_A_ROUND: u64 = 50;

/// The longest and the shortest round of a command that is called for a time, ns, unless rounds were asked for.
const LONGEST_NS: u64 = 250_000_000;
const SHORTEST_NS: u64 = 50_000_000;

/// Rounds of a command: as many calls in each, or as long.
pub(super) fn rounds_of(step: &Step, request: &RpcRequest) -> u32 {
    let asked = request.rounds;
    if let Some(ns) = request.duration_ns.filter(|_| request.ends_by_time()) {
        let usual = (ns / LONGEST_NS).max(ROUNDS.min(ns / SHORTEST_NS));
        return asked.map_or(usual, u64::from).clamp(1, 100_000) as u32;
    }
    let usual = (step.calls() / CALLS_A_ROUND).clamp(1, ROUNDS);
    let least = step.calls().div_ceil(MOST_CALLS_A_ROUND);
    asked.map_or(usual, u64::from).min(step.calls()).max(least) as u32
}

/// How long the next round of a command takes at most, ns, where `spent` ns of its time are over; `None`: it has had its time. No round is
/// begun with less than half of the time of the others, so that each holds about as much and has its weight rightly.
///
/// A schedule has some room beyond its time: arrivals are drawn, and the last call of each round is sent when it is due. What goes beyond it the
/// server has made.
pub(super) fn time_of_round(ns: u64, rounds: u32, load: Load, spent: u64) -> Option<u64> {
    const ROOM_NS: u64 = 100_000_000;
    let each = ns / u64::from(rounds);
    let (each, all) = match load {
        Load::Closed => (each, ns),
        Load::Open { .. } => (each + each / 10 + ROOM_NS / 10, ns + ns / 50 + ROOM_NS),
    };
    let left = all.saturating_sub(spent);
    (spent == 0 || left >= each / 2).then(|| each.min(left.max(1)))
}

/// Bytes of a request, and of its reply as far as it can be known before.
fn sizes(protocol: Protocol, step: &Step) -> (u64, u64) {
    let key = step.sent_key().map_or(0, |text| text.bytes() as u64);
    let value = step.sent_value().map_or(0, |text| text.bytes() as u64);
    match protocol {
        Protocol::Lab => {
            let whole = LAB_HEAD as u64 + step.body_bytes() as u64;
            (whole, if step.method == "ping" { whole } else { LAB_HEAD as u64 })
        }
        // Framing is a few bytes; what was sent is in the calls.
        _ => ((key + value).max(1), 1),
    }
}

/// The plan of a script: one case a command.
pub(super) fn plan(request: &RpcRequest) -> Result<Plan, Problem> {
    let transport = if request.target.socket.is_some() { "unix" } else { "tcp" };
    let speaks = speaks(request);
    let threads = request.threads(&speaks);
    let case = |step: &Step| {
        let several = threads < request.connections && request.goes_together(&speaks, step);
        let (size, reply) = sizes(request.target.protocol, step);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        Case {
            reply,
            connections: request.connections,
            threads,
            dispatch: if several { Dispatch::EventLoop } else { Dispatch::Turns },
            inflight: request.inflight,
            load: request.load,
            label: Some(label(request.target.protocol, &step.method)),
            ..Case::new(PathName::new(transport, "send", "block"), Pieces::whole(size))
        }
    };
    let mut cases: Vec<Case> = request.script.steps.iter().map(case).collect();
    for (id, case) in cases.iter_mut().enumerate() {
        case.id = id as u32;
    }
    let steps = &request.script.steps;
    let mut plan = Plan {
        rounds: steps.iter().map(|step| rounds_of(step, request)).max().unwrap_or(1),
        extent: match request.duration_ns.filter(|_| request.ends_by_time()) {
            Some(ns) => Extent::Time(ns),
            None => Extent::Count(steps.iter().map(Step::calls).max().unwrap_or(1)),
        },
        seed: request.seed,
        trim: 0,
        message_log: 0,
        gates: request.gates.clone(),
        ..Plan::new(&CALLS, cases)
    };
    plan.declare(msgpath_paths::traits);
    plan.placement.set(NEAR, request.cpus.clone());
    plan.options.between.clone_from(&request.between);
    plan.validate()?;
    Ok(plan)
}

/// What a kind of call is called.
fn label(protocol: Protocol, method: &str) -> String {
    match protocol {
        Protocol::Lab => method.chars().take(64).collect(),
        Protocol::Redis => redis::command(method),
        Protocol::Http => http::command(method),
        #[cfg(feature = "postgres")]
        Protocol::Postgres => {
            let words: Vec<&str> = method.split_whitespace().collect();
            words.join(" ").chars().take(64).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::schedule::Arrivals;
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    proptest! {
        /// Every round has the same weight in a headline: none is begun that can hold less than half of what the first one held, and the
        /// time that was asked for is kept, but for what the server takes of the last round.
        #[test]
        fn rounds_hold_about_as_much_and_end_in_time(
            ns in 50 * MS..20_000 * MS, rounds in 1_u32..60, slow in prop::collection::vec(0_u64..400 * MS, 60), open in any::<bool>()
        ) {
            let rate = serde_json::from_str("100").unwrap();
            let load = if open { Load::Open { rate, arrivals: Arrivals::Poisson } } else { Load::Closed };
            let most = if open { ns + ns / 50 + 100 * MS } else { ns };
            let (mut spent, mut first) = (0, None);
            for late in slow.iter().take(rounds as usize) {
                let Some(time) = time_of_round(ns, rounds, load, spent) else { break };
                prop_assert!(spent + time <= most, "{spent} + {time} of {ns}");
                prop_assert!(2 * time + 1 >= *first.get_or_insert(time), "{time} of {first:?}");
                spent += time + late;
            }
            prop_assert!(open || spent > ns - ns / u64::from(rounds), "{spent} of {ns}");
        }
    }
}
