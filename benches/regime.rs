//! Does a median depend on how the run was cut? The default `echo`, the row of a default `compare`, a burst and bare loops of
//! 20,000 and 100,000 round trips, in turn in one run; sockperf, netperf and neper too, where they are installed. Then the
//! default stream beside a bare loop and iperf3, all with the congestion control that is the machine's default.
//!
//! `cargo bench --bench regime [-- PASSES] [--only PATH,...]`. The aim is a ratio of 0.90 to 1.10 to the bare loop of 20,000, of
//! 0.95 to 1.05 for streams; the burst shows what the ratio would be without settling.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod bare;
mod peers;

use msgpath_core::plan::{Extent, Plan};
use msgpath_core::settling::State;
use msgpath_core::{Histogram, Workload};
use msgpath_tools::Printed;

const SIZE: u32 = 64;
const STREAM_SIZE: u32 = 1 << 17;
const SECOND: u64 = 1_000_000_000;

fn main() {
    if bare::is_far_end() {
        return;
    }
    let passes: usize = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(7);
    let only = std::env::args().skip_while(|word| word != "--only").nth(1);
    let wanted = |path: &str| only.as_ref().is_none_or(|only| only.split(',').any(|own| own == path));
    let kinds = [
        ("tcp:send", "tcp-block"),
        ("udp:send", "udp-block"),
        ("unix:send", "unix-block"),
        ("pipe:write", "pipe-block"),
        ("shm:ring/futex", "shm-futex"),
        ("tcp:send/spin", "tcp-spin"),
    ];
    for (path, kind) in kinds.into_iter().filter(|(path, _)| wanted(path)) {
        let names = ["default echo", "row of compare", "burst", "100,000", "sockperf", "netperf", "neper"];
        let (mut loops, mut others) = (Vec::new(), [const { Vec::<f64>::new() }; 7]);
        for _ in 0..passes {
            loops.push(bare::echo(kind, SIZE as usize, 20_000, 0, 1));
            others[0].push(echo(path, 10 * SECOND, State::Steady));
            others[1].push(echo(path, 60 * SECOND / 22, State::Steady));
            others[2].push(echo(path, 2 * SECOND, State::Burst));
            others[3].push(bare::echo(kind, SIZE as usize, 100_000, 0, 1));
            let plan = bare::plan(path, Workload::ECHO, SIZE, 1, 40);
            for (tool, values) in names[4..].iter().zip(&mut others[4..]) {
                values.extend(peers::ask(tool, &plan, 2).and_then(median));
            }
        }
        for (name, values) in names.into_iter().zip(&others).filter(|(_, values)| values.len() == passes) {
            bare::report(&format!("{path} {name}"), "ns", values, &loops);
        }
    }
    if wanted("stream") {
        let (mut ours, mut iperf, mut loops) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..passes {
            ours.push(stream());
            let plan = bare::plan("tcp:send", Workload::STREAM, STREAM_SIZE, 1, 10);
            iperf.extend(peers::ask("iperf3", &plan, 4).and_then(|printed| printed.bits));
            // About 4 s.
            let short = bare::stream(STREAM_SIZE as usize, STREAM_SIZE as usize, 10_000);
            let count = (4.0 * short / 8.0 / f64::from(STREAM_SIZE)) as usize;
            loops.push(bare::stream(STREAM_SIZE as usize, STREAM_SIZE as usize, count));
        }
        bare::report("stream", "bit/s", &ours, &loops);
        if iperf.len() == passes {
            bare::report("stream iperf3", "bit/s", &iperf, &loops);
        }
    }
}

/// The median of a default plan, all rounds together, ns.
fn echo(path: &str, time: u64, state: State) -> f64 {
    let plan = Plan {
        extent: Extent::Time(time),
        rounds: 40,
        fewest_rounds: 10,
        warmup_ns: time / 10,
        state,
        ..bare::plan(path, Workload::ECHO, SIZE, 1, 40)
    };
    let mut all = Histogram::new();
    for round in bare::execute(plan).rounds.iter().filter(|round| round.case == 0) {
        all.merge_sparse(&round.latency);
    }
    all.quantile(0.5).flatten().expect("messages arrived") as f64
}

/// Median of the round trips that a tool has measured, ns.
fn median(printed: Printed) -> Option<f64> {
    printed.p50.map(|ns| if printed.half { 2.0 * ns } else { ns })
}

/// Throughput of the default stream, the mean of its rounds, bits per second.
fn stream() -> f64 {
    let plan = Plan {
        extent: Extent::Time(10 * SECOND),
        rounds: 10,
        fewest_rounds: 5,
        warmup_ns: SECOND,
        ..bare::plan("tcp:send", Workload::STREAM, STREAM_SIZE, 1, 10)
    };
    let run = bare::execute(plan);
    let carried = |round| msgpath_core::carried::Carried::of(&run.header.plan, round).bits_per_s();
    let rates: Vec<f64> = run.rounds.iter().filter(|round| round.case == 0).filter_map(carried).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}
