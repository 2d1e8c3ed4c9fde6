//! Does `stream` on one connection carry what a bare loop of send() and recv() carries, whose receive calls ask for as much? Both in
//! turn in one run: 128 KiB messages, and 4 KiB ones with a receive call each and with calls that take what is there.
//!
//! `cargo bench --bench throughput [-- PASSES]`. The aim is a ratio of at least 0.98.

mod bare;

use msgpath_core::Workload;

/// Bytes of a message, of a receive call, and messages.
const SHAPES: [(u32, u64, u64); 3] =
    [(128 << 10, 128 << 10, 8_000), (4 << 10, 4 << 10, 100_000), (4 << 10, 128 << 10, 100_000)];

fn main() {
    if bare::is_far_end() {
        return;
    }
    let passes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(15);
    let (mut ours, mut bare) = (vec![Vec::new(); SHAPES.len()], vec![Vec::new(); SHAPES.len()]);
    for pass in 0..passes {
        for (at, (size, read, messages)) in SHAPES.into_iter().enumerate() {
            let mut measure_ours = || {
                let mut plan = bare::plan("tcp:send", Workload::STREAM, size, messages, 1);
                plan.options.read_size = Some(read);
                // A connection is slow until its buffers have grown. The bare loop sends as many before it looks at the clock; msgpath
                // trims them as far as 20 ms go.
                plan.trim = messages / 10;
                let run = bare::execute(plan);
                let far = run.rounds[0].far();
                ours[at].push(far.bytes_received as f64 * 8.0 / far.elapsed_ns as f64);
            };
            let mut measure_bare =
                || bare[at].push(bare::stream(size as usize, read as usize, messages as usize) / 1e9);
            if pass % 2 == 0 {
                measure_ours();
                measure_bare();
            } else {
                measure_bare();
                measure_ours();
            }
        }
    }
    for (at, (size, read, _)) in SHAPES.into_iter().enumerate() {
        bare::report(&format!("{} KiB by {} KiB", size >> 10, read >> 10), "Gbit/s", &ours[at], &bare[at]);
    }
}
