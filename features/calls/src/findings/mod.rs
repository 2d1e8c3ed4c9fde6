//! Computed sentences on calls, one file each.

use msgpath_analyse::findings::Detector;

mod above_wire;
mod altered_stamps;
mod clock_bound;
mod clock_loop;
mod clock_step;
mod clocks;
mod duplicate_ids;
mod estimate;
pub(crate) mod failed;
mod few_streams;
mod first_call;
mod handshakes;
mod lengths;
mod same_machine;
mod shared;
mod slow_part;
mod stalls;
mod unchecked;
mod waits;

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[
    same_machine::DETECTOR,
    above_wire::DETECTOR,
    clocks::DETECTOR,
    altered_stamps::DETECTOR,
    clock_step::DETECTOR,
    clock_bound::DETECTOR,
    clock_loop::DETECTOR,
    first_call::DETECTOR,
    waits::DETECTOR,
    slow_part::DETECTOR,
    failed::DETECTOR,
    duplicate_ids::DETECTOR,
    estimate::DETECTOR,
    lengths::DETECTOR,
    stalls::DETECTOR,
    unchecked::DETECTOR,
    few_streams::DETECTOR,
    handshakes::DETECTOR,
];
