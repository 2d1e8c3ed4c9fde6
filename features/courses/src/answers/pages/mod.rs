//! One file per page.

mod aa_control;
mod bulk_split;
mod copy_ladder;
mod echo_sizes;
mod ipc_zoo;
mod languages;
mod load_curve;
pub(crate) mod nagle_trap;
mod notify_modes;
mod peers;
mod rpc_timeline;
mod threads_and_queues;
mod vehicles;
pub(crate) mod write_shape;
mod zerocopy_truth;

use super::Make;

/// By name.
pub(super) const ALL: &[(&str, Make)] = &[
    ("aa-control", aa_control::page),
    ("bulk-split", bulk_split::page),
    ("copy-ladder", copy_ladder::page),
    ("echo-sizes", echo_sizes::page),
    ("ipc-zoo", ipc_zoo::page),
    ("languages", languages::page),
    ("load-curve", load_curve::page),
    ("nagle-trap", nagle_trap::page),
    ("notify-modes", notify_modes::page),
    ("peers", peers::page),
    ("rpc-timeline", rpc_timeline::page),
    ("threads-and-queues", threads_and_queues::page),
    ("vehicles", vehicles::page),
    ("write-shape", write_shape::page),
    ("zerocopy-truth", zerocopy_truth::page),
];
