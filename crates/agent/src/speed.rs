//! A fixed piece of computing: a CPU that became slower between two rounds takes longer for it.

use std::hint::black_box;

use msgpath_sys::clock;

/// Steps of the piece: six dependent instructions each, about 20 µs on a CPU of 3 GHz.
const STEPS: u32 = 10_000;
const TRIES: u32 = 5;

/// Time of the piece on the CPU that the calling thread is on, ns: the best of five, so that an interruption of one does
/// not show.
pub fn probe() -> u64 {
    (0..TRIES)
        .map(|seed| {
            let start = clock::now();
            black_box(work(black_box(u64::from(seed))));
            clock::now().saturating_sub(start)
        })
        .min()
        .unwrap_or(0)
}

/// Marsaglia's xorshift: every step needs the one before, and compilers know no way to join two (as they do for a
/// multiplication and an addition).
fn work(seed: u64) -> u64 {
    (0..STEPS).fold(seed | 1, |mut value, _| {
        value ^= value << 13;
        value ^= value >> 7;
        value ^ (value << 17)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_piece_is_the_same_every_time_and_takes_time() {
        assert_eq!(work(1), work(1));
        assert_ne!(work(1), work(3));
        assert!(probe() > 1_000, "sixty thousand instructions in a microsecond");
    }
}
