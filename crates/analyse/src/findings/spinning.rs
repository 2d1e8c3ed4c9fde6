//! W28: more threads than CPUs
//!
//! * **Threads that spin** outnumber the CPUs.
//! * **Both ends run on one CPU**; how long a switch there and back takes, where that was measured.
//! * **A wait spins where CPUs are short** because of other tasks; the share of time that its threads waited for a CPU.
//! * **All threads** of both ends outnumber the CPUs: the row is oversubscribed, not a point of a scaling curve.
//!
//! ## What it rests on
//!
//! Waits, thread counts, and the CPUs that each end may use or is pinned to. The sender of a stream does not spin.
//! Other tasks: check 8 of `doctor` at STOP, or a run delay of 5 % with `spin` (`busy-poll` sleeps between bursts, so
//! only `doctor` counts). Silent where an end did not name its CPUs.
//!
//! ## What to do
//!
//! Fewer threads, more CPUs (`--cpu 0,1`; a larger cpuset), CPUs that nothing else uses, or a wait that sleeps
//! (`block`, `epoll`, `futex`). A spinning thread keeps the one it waits for off the CPU: such rows measure time
//! slices, and no factor against one thread is claimed.

use msgpath_core::workload::Answer;

use super::wording::{measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W28", detect };

pub(super) use crate::threads::Crowd;

/// The ends at which `near` and `far` threads outnumber the CPUs.
pub(super) fn crowds(input: &Input, near: usize, far: usize) -> Vec<Crowd> {
    crate::threads::crowds(&input.run.header, near, far)
}

/// The ends at which the threads that spin outnumber the CPUs.
pub(super) fn spinning_crowds(input: &Input) -> Vec<Crowd> {
    let spinning = |case: &&crate::summary::CaseSummary| case.case.traits.spins && case.rounds > 0;
    let Some(threads) = measured(input).filter(spinning).map(|case| case.case.threads as usize).max() else {
        return Vec::new();
    };
    // A sender that nobody answers does not wait for messages.
    let plan = input.plan;
    if plan.workload.has_server() {
        // How a server waits is not known.
        crowds(input, threads, 0)
    } else if plan.workload.answer != Answer::None {
        crowds(input, threads, threads)
    } else if plan.reverse {
        crowds(input, threads, 0)
    } else {
        crowds(input, 0, threads)
    }
}

fn detect(input: &Input) -> Vec<Sentence> {
    let sentences = |(spinning, cpus, end): Crowd| {
        warning(
            "W28",
            format!("{spinning} threads spin on {cpus} CPU{} ({end})", if cpus == 1 { "" } else { "s" }),
            "a thread that spins keeps the one it waits for off the CPU: the rows measure time slices",
            "fewer threads, more CPUs, or a wait that sleeps (block, epoll, futex)",
            [("spinning_threads", spinning as f64), ("cpus", cpus as f64)],
        )
    };
    spinning_crowds(input).into_iter().map(sentences).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::{FAR, NEAR};

    fn texts(path: &str, cpus: &[u32], pinned: &[u32]) -> Vec<String> {
        let mut build = Build::echo(&[path], &[64]);
        build.plan.placement.set(NEAR, pinned.to_vec());
        build.plan.placement.set(FAR, pinned.to_vec());
        let mut run = build.run();
        run.header.host_mut(NEAR).cpus = cpus.to_vec();
        run.header.host_mut(FAR).cpus = cpus.to_vec();
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_threads_outnumber_cpus() {
        assert_eq!(
            texts("shm:ring/spin", &[0], &[]),
            ["2 threads spin on 1 CPU (both ends, which share this machine)"]
        );
        assert_eq!(texts("shm:ring/spin", &[0, 1, 2, 3], &[2]).len(), 1);
    }

    #[test]
    fn is_silent_where_there_is_room_or_nobody_spins() {
        assert!(texts("shm:ring/spin", &[0, 1], &[]).is_empty());
        assert!(texts("shm:ring/futex", &[0], &[]).is_empty());
        assert!(texts("shm:ring/spin", &[], &[]).is_empty());
    }
}
