//! The statistics of msgpath: numbers in, numbers out. What a run, a case or a finding is, it does not know; a round is a
//! number, a histogram of nanoseconds or a pair of them, in the order of time where that counts.
//!
//! Every formula stands with its source in a page of `docs/method`, which the comments cite. Whatever is drawn at random
//! is seeded by the caller: the same numbers give the same answer.
//!
//! A round is a number or a histogram here, a case a slice of them in the order of time. `describe`, `distributions` and
//! `estimate` have the small pieces, `fairness` Jain's index (means, Student's t, a mean with its interval), `robust` means that one bad round does not
//! move. `pooled` weighs all rounds of a case equally, `quantile` gives the interval of a quantile of theirs, `shape` and `ridge`
//! the distribution in rows, `dependence` says how many independent rounds those are worth that go together. Comparisons:
//! `paired`, `tails`, `control`, judged by `verdict`; `resample` draws passes again; `level` is for runs that cannot be paired,
//! `two_samples` for single messages. Changes in time: `steady` (PELT, MSER, KPSS, halves), `restarts`, `prediction` (the next
//! run). `crossover` finds where a line of sizes crosses its baseline, `association` what rises together. `order` finds order statistics of more values than fit into memory. `simulate` has seeded
//! values of known truth, for the tests of whoever uses the crate.
//!
//! Invariant: it sees `core` for its plain values (histograms, units), but no run, no path, no case, no finding.
//! Invariant: whatever is drawn at random is seeded by the caller.
#![forbid(unsafe_code)]

pub mod association;
pub mod control;
pub mod crossover;
pub mod dependence;
pub mod describe;
pub mod distributions;
pub mod estimate;
pub mod fairness;
pub mod level;
pub mod order;
pub mod paired;
pub mod pooled;
pub mod prediction;
pub mod quantile;
pub mod resample;
pub mod restarts;
pub mod ridge;
pub mod robust;
pub mod settling;
pub mod shape;
pub mod simulate;
pub mod steady;
pub mod tails;
pub mod two_samples;
pub mod verdict;
