//! W72: several calls share an id: clients that were started with -seed1.

use super::rpc_calls::{calls, counted};
use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W72", detect };

/// Fewer are chance.
const FEWEST: u64 = 3;
/// n random ids of 32 bits have about n²/2³³ pairs that are alike; so many times more are none of chance.
const BEYOND_CHANCE: f64 = 10.0;

fn detect(input: &Input) -> Vec<Sentence> {
    if calls(input).is_none() {
        return Vec::new();
    }
    let mut ids: Vec<u32> = input.logs.rpcs.iter().map(|row| row.rpcid).filter(|id| *id != 0).collect();
    ids.sort_unstable();
    let count = ids.len() as f64;
    let all = ids.len() as u64;
    ids.dedup();
    let doubled = all - ids.len() as u64;
    if doubled < FEWEST || (doubled as f64) < BEYOND_CHANCE * count * count / 2f64.powi(33) {
        return Vec::new();
    }
    vec![warning(
        "W72",
        format!(
            "{} have an id that another call has as well ({} different ids in {})",
            counted(doubled),
            (ids.len() as u64),
            counted(all)
        ),
        "clients that were started with -seed1 all begin with the same ids; a search by id then finds several calls, and what \
         a server wrote can belong to any of them. Calls were told apart by id, T1 and addresses",
        "leave out -seed1 where several clients run",
        [("doubled", doubled as f64), ("ids", ids.len() as f64), ("calls", count)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing_rpc::{Calls, S};

    #[test]
    fn speaks_of_clients_with_the_same_seed() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(90, S);
        calls.rows.iter_mut().for_each(|row| row.rpcid = (row.rpcid - 1) % 30 + 1);
        assert_eq!(
            calls.sentences("W72"),
            ["60 calls have an id that another call has as well (30 different ids in 90 calls)"]
        );
    }

    #[test]
    fn is_silent_where_ids_differ_and_where_a_protocol_has_none() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(90, S);
        assert!(calls.sentences("W72").is_empty());
        calls.rows.iter_mut().for_each(|row| row.rpcid = 0);
        assert!(calls.sentences("W72").is_empty());
    }
}
