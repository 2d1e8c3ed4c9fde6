//! What a mesh of thousands of agents costs its coordinator, and whether it finds the slow ones. All agents are there, each speaks the
//! protocol of every agent, and all are in this process (`agents`). `benches/mesh.rs` has meshes that no machine holds.
//!
//! `cargo bench --bench mesh_scale [-- AGENTS PARTNERS AT_ONCE]`, by default 2,000 agents with 4 partners each, 50 pairs at a time. An
//! agent takes four descriptors of this process and two threads; a pair that is measured some ten descriptors more. Ends with 1 where
//! a pair has no result.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod agents;

use std::process::ExitCode;
use std::time::Duration;

use msgpath_core::Plan;
use msgpath_core::plan::Extent;
use msgpath_mesh::schema::Pairs;

/// Messages of a round, and rounds of a pair.
const MESSAGES: u64 = 20;
const ROUNDS: u32 = 2;
/// One agent in so many is slow.
const SLOW: u32 = 250;
/// Its data is later by this, each way: more than 50 pairs on one machine are by themselves.
const DELAY: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let mut words = std::env::args().filter_map(|word| word.parse::<u32>().ok());
    let mut or = |usual: u32| words.next().unwrap_or(usual);
    let (agents, partners, at_once) = (or(2_000).max(8), or(4), or(50));
    let (rounds, extent) = (ROUNDS, Extent::Count(MESSAGES * u64::from(ROUNDS)));
    let met = agents::mesh(&agents::Asked {
        agents,
        pairs: Pairs::Sample { partners },
        at_once,
        slow: Some(SLOW.min(agents / 2)),
        delay: DELAY,
        plan: agents::echo(|plan| Plan { rounds, extent, ..plan }),
    });
    println!("{met}");
    if met.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
