//! The random order of a pass, reproduced exactly by a stored seed.
//!
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) and Fisher-Yates, written here so that a seed in an old record gives
//! the same order for ever, whatever a library changes.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator with this seed.
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
    let mut random = SplitMix64::new(seed ^ (u64::from(pass) + 1).wrapping_mul(0xa076_1d64_78bd_642f));
    let mut order: Vec<usize> = (0..cases).collect();
    for i in (1..cases).rev() {
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
        let mut first = [0_u32; 5];
        for pass in 0..10_000 {
            let order = order(42, pass, 5);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            first[order[0]] += 1;
        }
        assert!(first.iter().all(|count| (1_800..2_200).contains(count)), "{first:?}");
    }
}
