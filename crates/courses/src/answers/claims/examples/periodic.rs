//! Claims about raw Ethernet, authentication, networks and clocks, from periodic runs and from calls.

use msgpath_analyse::periodic::testing::{build, with};
use msgpath_analyse::testing_rpc::{Calls, MS, S, US};
use msgpath_core::Histogram;
use msgpath_core::schema::RoundRecord;

use super::Example;
use crate::answers::Outcome::{CannotTell, DoesNotHold, Holds};
use crate::answers::testing::Made;

/// Steady messages around this level, ns, by pass.
fn steady(level: fn(pass: u64) -> u64) -> Vec<Made> {
    let (run, logs) = with(
        |_| (),
        |round| {
            let mut latency = Histogram::new();
            // Rounds that differ by chance.
            let level = level(u64::from(round.pass)) + u64::from(round.pass) * 7_919 % 13 * 300;
            (0..400_u64).for_each(|n| latency.record(level + n * 10));
            round.latency = latency.to_sparse();
        },
    );
    vec![Made::with("barrier", run, logs)]
}

fn frames(alter: fn(&mut RoundRecord)) -> Vec<Made> {
    let (mut run, logs) = with(|_| (), alter);
    run.header.plan.options.interface = "lo".into();
    vec![Made::with("barrier", run, logs)]
}

/// So many sessions of four processes, each with its first call of the authentication and two later ones, ns.
fn authentication(sessions: usize, first: u64, later: u64) -> Vec<Made> {
    let (run, logs) = build(|facts| {
        facts.sessions = (0..sessions).map(|_| facts.sessions[0].clone()).collect();
        for (at, component) in facts.sessions.iter_mut().flat_map(|s| &mut s.components).enumerate() {
            component.mac_calls = vec![first + at as u64, later, later];
        }
    });
    vec![Made::with("barrier", run, logs)]
}

fn calls(calls: Calls) -> Vec<Made> {
    let (run, logs) = calls.run(&["ping"], 10);
    vec![Made::with("alone", run, logs)]
}

/// Between two machines with stamps of 1 ns: 0.3 µs each way.
fn quick_network() -> Vec<Made> {
    let mut all = Calls::with(3, 1, |_| 0.0);
    (0..200).for_each(|_| {
        all.call(5.0 * MS, 0.3 * US, 4.0 * US, 0.3 * US);
    });
    calls(all)
}

/// Between two machines, by a server that keeps no stamps.
fn unstamped() -> Vec<Made> {
    let mut all = Calls::new(1, 0.0, 0.0).pings(50, S);
    all.rows.iter_mut().for_each(|row| (row.received_ns, row.replied_ns) = (None, None));
    calls(all)
}

pub(super) const EXAMPLES: &[Example] = &[
    (33, Holds, "Here the engine itself takes longer", || steady(|_| 800_000)),
    (33, DoesNotHold, "The engine is not what takes 390 µs", || steady(|_| 20_000)),
    (33, CannotTell, "That may be 390 µs or not", || steady(|pass| [100_000, 900_000][pass as usize % 2])),
    (35, Holds, "30 came twice and none was lost", || frames(|round| round.near_mut().delivery.duplicated = 3)),
    (35, DoesNotHold, "none came twice and 0 were lost", || frames(|_| ())),
    (35, CannotTell, "frame was sent", || frames(|round| round.near_mut().delivery.sent = 0)),
    (36, Holds, "authentication takes 2.00 ms", || authentication(3, 3_000_000, 2_000_000)),
    (36, DoesNotHold, "what is done once is not the price of a message", || authentication(3, 40_000, 1_000)),
    (36, CannotTell, "too few processes", || authentication(1, 40_000, 1_000)),
    (37, Holds, "ways together took", quick_network),
    (37, DoesNotHold, "was no network", || calls(Calls::new(1, 0.0, 0.0).same_machine().pings(50, S))),
    (37, CannotTell, "say nothing of the ways", unstamped),
    (38, DoesNotHold, "time is negative, it is the offset", || {
        calls(Calls::new(1, -3.0 * MS, 0.0).pings(400, 2.0 * S))
    }),
    (38, CannotTell, "0 have T2 before T1", || calls(Calls::new(2, 0.0, 0.0).pings(400, 2.0 * S))),
];
