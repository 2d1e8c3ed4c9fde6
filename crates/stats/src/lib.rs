//! The statistics of msgpath: numbers in, numbers out. What a run, a case or a finding is, it does not know; a round is a
//! number, a histogram of nanoseconds or a pair of them, in the order of time where that counts.
//!
//! Every formula stands with its source in a page of `docs/method`, which the comments cite. Whatever is drawn at random
//! is seeded by the caller: the same numbers give the same answer.
#![forbid(unsafe_code)]

pub mod additive;
pub mod association;
pub mod control;
pub mod crossover;
pub mod dependence;
pub mod describe;
pub mod distributions;
pub mod estimate;
pub mod level;
pub mod paired;
pub mod pooled;
pub mod prediction;
pub mod quantile;
pub mod resample;
pub mod restarts;
pub mod ridge;
pub mod robust;
pub mod shape;
pub mod simulate;
pub mod steady;
pub mod tails;
pub mod two_samples;
pub mod verdict;
