//! The plan of a script: one case a command, its calls in rounds.

use crate::agent::client::orders::MOST_CALLS_A_ROUND;
use crate::agent::client::wire::LAB_HEAD;
use crate::agent::client::{http, redis};
use msgpath_core::plan::{Dispatch, Extent};
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
    if let Some(ns) = request.duration_ns {
        let usual = (ns / LONGEST_NS).max(ROUNDS.min(ns / SHORTEST_NS));
        return asked.map_or(usual, u64::from).clamp(1, 100_000) as u32;
    }
    let usual = (step.calls() / CALLS_A_ROUND).clamp(1, ROUNDS);
    let least = step.calls().div_ceil(MOST_CALLS_A_ROUND);
    asked.map_or(usual, u64::from).min(step.calls()).max(least) as u32
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
        extent: match request.duration_ns {
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
