//! The random order of a pass, reproduced exactly by a stored seed.
//!
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) and Fisher-Yates, written here so that a seed in an old record gives
//! the same order for ever, whatever a library changes.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (bound > 0); the bias of the multiplication is below 2^-32 for the bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// The order of `cases` cases in pass number `pass`.
pub fn order(seed: u64, pass: u32, cases: usize) -> Vec<usize> {
    shuffled(&mut of_pass(seed, pass), cases)
}

/// The order of the cases of pass number `pass`: positions in `blocks`, which gives the block of each case. The cases of
/// a block stand together, in random order, and the blocks are in random order: what is compared lies close in time
/// (docs/method/rounds.md).
pub fn order_in_blocks<B: Ord>(seed: u64, pass: u32, blocks: &[B]) -> Vec<usize> {
    let mut random = of_pass(seed, pass);
    let distinct: BTreeSet<&B> = blocks.iter().collect();
    let places = shuffled(&mut random, distinct.len());
    let place: BTreeMap<&B, usize> = distinct.into_iter().zip(places).collect();
    let mut order = shuffled(&mut random, blocks.len());
    order.sort_by_key(|position| place[&blocks[*position]]);
    order
}

fn of_pass(seed: u64, pass: u32) -> SplitMix64 {
    SplitMix64::new(seed ^ (u64::from(pass) + 1).wrapping_mul(0xa076_1d64_78bd_642f))
}

/// The numbers below `count` in random order.
fn shuffled(random: &mut SplitMix64, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, random.below(i + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reproduces_its_order() {
        assert_eq!(order(7, 0, 6), order(7, 0, 6));
        assert_ne!(order(7, 0, 30), order(7, 1, 30));
        assert_eq!(SplitMix64::new(0).next_u64(), 0xe220_a839_7b1d_cdaf); // published first output for seed 0
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut first = [0_u32; 6];
        let blocks = [64, 1024, 64, 1024, 64, 1024];
        for pass in 0..12_000 {
            let order = order_in_blocks(42, pass, &blocks);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            first[order[0]] += 1;
        }
        assert!(first.iter().all(|count| (1_800..2_200).contains(count)), "{first:?}");
    }

    #[test]
    fn cases_of_a_block_stand_together() {
        let blocks = ["b", "a", "c", "a", "b", "a"];
        for pass in 0..100 {
            let mut seen: Vec<&str> = order_in_blocks(3, pass, &blocks).into_iter().map(|at| blocks[at]).collect();
            seen.dedup();
            assert_eq!(seen.len(), 3, "pass {pass}: {seen:?}");
        }
    }
}
