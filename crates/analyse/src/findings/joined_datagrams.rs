//! W131: messages that one call or one signal stood for
//!
//! * **Datagrams a call**: how many one receive call of a `/gro` stream took. One: nothing was joined, and the copy was
//!   for nothing.
//! * **Signals of a run**: fewer signals than messages: SIGIO is not queued. *Sure*: counted.
//! * **Signals in a trace**: messages without a signal of their own. *Sure*: counted.
//!
//! ## What it rests on
//!
//! Datagrams by receive calls; the handler's count by messages received, from 1 in 100 on; in the traced replica
//! (`sigio`), messages without a `signal_generate` between data and stamp.
//!
//! ## What to do
//!
//! * **Datagrams**: on one machine the sender must hand them over together (`udp:gso`); from a network the device joins
//!   equal sizes of one flow (ethtool -k: rx-gro, rx-udp-gro-forwarding).
//! * **Signals**: receive until EAGAIN at every signal. `-o queued-signals=yes` asks for a real-time signal (F_SETSIG),
//!   queued up to a limit.

use super::wording::{finding, measured, message};
use super::{Detector, Input, Sentence};
use crate::series::receiver;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W131", detect };

/// Datagrams a call from which on some were joined: what is below is the last of a batch.
const SOME: f64 = 1.05;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.plan.workload.timed {
        return Vec::new();
    }
    measured(input).filter(|case| case.case.traits.coalesces).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let rounds = input.all[case.case.id as usize].iter();
    let calls = rounds.map(|round| &receiver(input.plan, round).calls);
    let (taken, calls) = calls.fold((0, 0), |(taken, all), calls| (taken + calls.recv_full, all + calls.recv_calls));
    if taken == 0 || calls == 0 {
        return None;
    }
    let each = taken as f64 / calls as f64;
    let then = if each < SOME { ": the kernel joined none, and each was copied once more for nothing" } else { "" };
    let text = format!("{} {}: {each:.1} datagrams a receive call{then}", case.case.path, message(&case.case));
    let numbers = [("datagrams", taken as f64), ("calls", calls as f64)];
    Some(finding("W131", Confidence::Sure, text, numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn texts(path: &str, full: u64, calls: u64) -> Vec<String> {
        let mut run = Build::stream(&[path], &[1200]).run();
        for round in &mut run.rounds {
            let counted = &mut round.far_mut().calls;
            (counted.recv_full, counted.recv_calls) = (full, calls);
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn says_how_many_came_with_a_call() {
        assert_eq!(texts("udp:gso/gro", 540, 10), ["sure: udp:gso/gro 1200 B: 54.0 datagrams a receive call"]);
        let none = "sure: udp:send/gro 1200 B: 1.0 datagrams a receive call: the kernel joined none, and each was copied \
                    once more for nothing";
        assert_eq!(texts("udp:send/gro", 500, 500), [none]);
    }

    #[test]
    fn is_silent_where_a_call_takes_one_and_in_an_echo() {
        assert!(texts("udp:gso", 540, 540).is_empty() && texts("udp:gso/gro", 0, 0).is_empty());
        assert!(sentences(&Build::echo(&["udp:gso/gro"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
