//! Of W63: ids that several calls share.

use std::collections::HashMap;

use msgpath_record::Rows;

use super::shared::{calls, counted, log};
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W63", detect };

/// Fewer are chance.
const FEWEST: u64 = 3;
/// n random ids of 32 bits have about n²/2³³ pairs that are alike; so many times more are none of chance.
const BEYOND_CHANCE: f64 = 10.0;
/// Different ids that are kept.
const KEPT: usize = 1 << 18;

fn detect(input: &Input) -> Vec<Sentence> {
    if calls(input).is_none() {
        return Vec::new();
    }
    let mut ids = Ids::default();
    log(input).rounds(&|_, _| true, &mut |rows| rows.iter().for_each(|row| ids.add(row.rpcid)));
    let (different, all) = ids.count();
    let (doubled, count) = (all - different, all as f64);
    if doubled < FEWEST || (doubled as f64) < BEYOND_CHANCE * count * count / 2f64.powi(33) {
        return Vec::new();
    }
    vec![warning(
        "W63",
        format!(
            "{} have an id that another call has as well ({} different ids in {})",
            counted(doubled),
            different,
            counted(all)
        ),
        "clients that were started with -seed1 all begin with the same ids; a search by id then finds several calls, and what \
         a server wrote can belong to any of them. Calls were told apart by id, T1 and addresses",
        "leave out -seed1 where several clients run",
        [("doubled", doubled as f64), ("ids", different as f64), ("calls", count)],
    )]
}

/// Ids with the calls of each. Of more than [`KEPT`] those are kept whose hash ends in so many zeros, all calls of an id or none:
/// as large a part of the ids, whatever they are.
#[derive(Default)]
struct Ids {
    kept: HashMap<u32, u64>,
    zeros: u32,
    all: u64,
}

impl Ids {
    fn add(&mut self, id: u32) {
        if id == 0 {
            return;
        }
        self.all += 1;
        if zeros(id) < self.zeros {
            return;
        }
        *self.kept.entry(id).or_default() += 1;
        while self.kept.len() > KEPT {
            self.zeros += 1;
            self.kept.retain(|id, _| zeros(*id) >= self.zeros);
        }
    }

    /// Different ids, estimated where not all are kept, and calls with one.
    fn count(&self) -> (u64, u64) {
        let kept: u64 = self.kept.values().sum();
        let share = self.kept.len() as f64 / kept.max(1) as f64;
        (if self.zeros == 0 { self.kept.len() as u64 } else { (share * self.all as f64).round() as u64 }, self.all)
    }
}

/// Zeros at the end of an id's hash (the finalizer of MurmurHash3): no two ids have one hash.
fn zeros(id: u32) -> u32 {
    let hash = (id ^ (id >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)).trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::{Ids, KEPT};
    use crate::testing::{Calls, S};

    #[test]
    fn speaks_of_clients_with_the_same_seed() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(90, S);
        calls.rows.iter_mut().for_each(|row| row.rpcid = (row.rpcid - 1) % 30 + 1);
        assert_eq!(
            calls.sentences(&super::DETECTOR),
            ["60 calls have an id that another call has as well (30 different ids in 90 calls)"]
        );
    }

    #[test]
    fn many_ids_are_estimated_from_some() {
        let mut ids = Ids::default();
        let different = 3 * KEPT as u32;
        (1..=different).for_each(|id| ids.add(id));
        (1..=different / 2).for_each(|id| ids.add(id));
        let (found, all) = ids.count();
        assert_eq!(all, u64::from(different + different / 2));
        assert!(ids.kept.len() <= KEPT && found.abs_diff(different.into()) < u64::from(different / 100), "{found}");
    }

    #[test]
    fn is_silent_where_ids_differ_and_where_a_protocol_has_none() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(90, S);
        assert!(calls.sentences(&super::DETECTOR).is_empty());
        calls.rows.iter_mut().for_each(|row| row.rpcid = 0);
        assert!(calls.sentences(&super::DETECTOR).is_empty());
    }
}
