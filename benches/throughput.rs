//! Does `stream` on one connection with 128 KiB messages carry what a bare loop of send() and recv() carries? Both in
//! turn in one run.
//!
//! `cargo bench --bench throughput [-- PASSES]`. The aim is a ratio of at least 0.98.

mod bare;

use msgpath_core::Workload;

const SIZE: u32 = 128 * 1024;
const MESSAGES: u64 = 8_000;

fn main() {
    if bare::is_far_end() {
        return;
    }
    let passes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(15);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        let mut measure_ours = || {
            let run = bare::msgpath("tcp:send", Workload::Stream, SIZE, MESSAGES, 1);
            let far = run.rounds[0].far();
            ours.push(far.bytes_received as f64 * 8.0 / far.elapsed_ns as f64);
        };
        let mut measure_bare = || bare.push(bare::stream(SIZE as usize, MESSAGES as usize) / 1e9);
        if pass % 2 == 0 {
            measure_ours();
            measure_bare();
        } else {
            measure_bare();
            measure_ours();
        }
    }
    bare::report("tcp:send stream", "Gbit/s", &ours, &bare);
}
