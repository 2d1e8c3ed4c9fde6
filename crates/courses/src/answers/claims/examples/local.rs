//! Claims about mechanisms of one machine, tails and signals.

use msgpath_analyse::testing::{Build, grant, stalls};
use msgpath_core::Histogram;

use super::Example;
use crate::answers::Outcome::{CannotTell, DoesNotHold, Holds};
use crate::answers::testing::Made;

/// Local mechanisms at 64 bytes: what shm takes asleep and a FIFO by a pipe asleep, and what a pipe takes that spins.
fn zoo(shm_asleep: f64, fifo: f64, pipe_spinning: f64, noise: f64) -> Vec<Made> {
    let block = Build::echo(&["pipe:write", "fifo:write", "shm:ring/futex", "mq:send"], &[64]).noise(noise).factor(
        move |case| match case.path.transport.as_str() {
            "shm" => shm_asleep,
            "fifo" => fifo,
            "mq" => 2.0,
            _ => 1.0,
        },
    );
    let spin = Build::echo(&["pipe:write/spin", "shm:ring/spin"], &[64])
        .factor(move |case| if case.path.transport == "shm" { 0.005 } else { pipe_spinning });
    let mut run = block.run();
    grant(&mut run, 3, "mq_msgsize", "64", "64");
    vec![Made::from("block", run), Made::of("spin", &spin)]
}

/// Ten rounds with two messages of 5 ms and a thread that was taken off its CPU.
fn slow_ones() -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send"], &[64]).run();
    for round in run.rounds.iter_mut().take(10) {
        stalls(round, 2, 5_000_000);
        round.near_mut().involuntary_switches = 3;
    }
    vec![Made::from("closed", run)]
}

/// Round trips from 20 to 24 µs.
fn even() -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send"], &[64]).run();
    for round in &mut run.rounds {
        let mut latency = Histogram::new();
        (0..200).for_each(|n| latency.record(20_000 + n * 20));
        round.latency = latency.to_sparse();
    }
    vec![Made::from("closed", run)]
}

/// Signals of each round of 200 messages there and back.
fn signals(each: u64) -> Vec<Made> {
    let mut run = Build::echo(&["udp:send/sigio"], &[64]).run();
    run.rounds.iter_mut().for_each(|round| round.far_mut().calls.signals = each);
    vec![Made::from("flood", run)]
}

pub(super) const EXAMPLES: &[Example] = &[
    (29, Holds, "both asleep", || zoo(0.005, 1.0, 4.0, 0.01)),
    (29, DoesNotHold, "the rest is the waiting", || zoo(0.9, 1.0, 0.1, 0.01)),
    (29, CannotTell, "the same waiting", || zoo(0.9, 1.0, 4.0, 0.01)),
    (30, Holds, "granted: 64 B", || zoo(3.0, 1.0, 0.1, 0.01)),
    (30, DoesNotHold, "granted: 64 B", || zoo(0.9, 1.0, 0.1, 0.01)),
    (30, CannotTell, "granted: 64 B", || zoo(2.0, 1.0, 0.1, 0.01)),
    (31, Holds, "a FIFO is faster in 1", || zoo(1.0, 0.8, 0.1, 0.01)),
    (31, DoesNotHold, "Neither beats the other", || zoo(1.0, 1.0, 0.1, 0.001)),
    (31, CannotTell, "No difference is shown", || zoo(1.0, 1.0, 0.1, 0.3)),
    (32, Holds, "none lies beyond 1.5 IQR", even),
    (
        32,
        DoesNotHold,
        "20 are slower than 10 medians. Of the 10 rounds that have them: taken off the CPU in 10.",
        slow_ones,
    ),
    (32, CannotTell, "10 messages are too few", || {
        vec![Made::of("closed", &Build::echo(&["tcp:send"], &[64]).messages(1).rounds(10))]
    }),
    (34, Holds, "1.00 a signal", || signals(400)),
    (34, DoesNotHold, "4.00 a signal", || signals(100)),
    (34, CannotTell, "0.500 a signal", || signals(800)),
];
