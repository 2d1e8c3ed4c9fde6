//! From the record to findings: pure functions, no clock, no I/O.
//!
//! `summarise.rs` puts together `Summary` (`summary.rs`) with the statistics of `stats`: quantiles, the one number per round
//! that comparisons are made of (`series.rs`), paths against the baseline (`compare.rs`), control (`control.rs`), crossover and
//! the sizes to add near it (`crossover.rs`, `refine.rs`), open loops and load curves (`open_loop.rs`, `load_curve.rs`),
//! whether the rounds settled (`settled.rs`), the range between runs (`between.rs`), ablations (`causes.rs`), throughput, cost,
//! the layers of a stack (`layers.rs`). `clocks/` has the clocks of two machines (a polygon of possible lines, no assumption
//! about the path), `one_way.rs` both ways of an echo by them.
//! `rpc/` is about calls: `align.rs` asks `clocks` for each pair of machines, `machines.rs` has all pairs together, `split.rs` the
//! parts of each kind of call.
//! `periodic/` judges periodic runs. What they need beside the rounds is in `Logs`. `diff/` compares two runs, `gates.rs`
//! holds a run to the limits of its plan (`--fail-if`), `verify.rs`
//! computes again what was printed. `findings/` has one file per sentence, listed in `DETECTORS`. `events.rs` and `threads.rs`
//! derive figures from counted events and from the threads of a case. `examples/coverage` simulates runs whose truth is known
//! and writes benches/coverage.md.
//!
//! Invariant: pure functions: the same record gives the same summary, without clock, files or privileges.
//! Random resampling is seeded by the plan. Invariant: it never sees `run`, `paths` or `sys`, so a report is
//! made anywhere.
#![forbid(unsafe_code)]

pub mod between;
pub mod calm;
pub mod causes;
pub mod clocks;
pub mod compare;
pub mod control;
pub mod cost;
pub mod crossover;
pub mod diff;
pub mod events;
pub mod expected;
pub mod findings;
pub mod first;
pub mod gates;
pub mod headline;
pub mod heat;
#[cfg(test)]
mod known_answers;
pub mod layers;
pub mod load_curve;
pub mod logs;
mod logs_of_run;
pub mod one_way;
pub mod open_loop;
mod reasons;
pub mod refine;
pub mod restarts;
pub mod results;
pub mod round_line;
pub mod sample;
pub mod section;
pub mod series;
pub mod settled;
pub mod spectrum;
pub mod stages;
mod standing;
pub mod stretches;
pub mod strips;
pub mod summarise;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod testing_queue;
pub mod threads;
pub mod throughput;
pub mod trials;
pub mod verify;
pub mod words;

pub use logs::Logs;
pub use summarise::{summarise, summarise_with};
pub use summary::Summary;
