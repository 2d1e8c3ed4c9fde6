//! W83: the state of receivers when data arrive
//!
//! ## What it says
//!
//! **Preempted**: The share of the receives in which the receiver was runnable and not running when its data became readable, and the
//! scheduling delay that comes of it. No wake-up exists then: `perf sched timehist` reports a delay of 0 for it.
//!
//! *Sure*: the delay lies above what tracing adds at most, in at least 5 rounds. Else *likely*.
//!
//! **Woken early**: The share of the receives in which the receiver was being woken already when its data arrived: on Unix sockets the
//! peer's receive frees room in the buffer, and that wakes the reader as well. *Likely*: the mechanism fits.
//!
//! ## What it is computed from
//!
//! **Preempted**: The receiver's state is rebuilt from `sched_switch`, `sched_waking` and `sched_wakeup`; its state at the time at which
//! the data became readable is counted for each message of the traced replica.
//!
//! **Woken early**: The receiver's state when its socket became readable, counted over all messages of the traced replica.
//!
//! ## When it stays silent
//!
//! **Preempted**: Below 5 % of the receives; without a traced replica, or where fewer than 95 % of the messages are attributed.
//!
//! **Woken early**: Below 20 % of the receives; for transports that do not say when data are readable (pipes, queues, shared memory).
//!
//! ## What to do
//!
//! **Preempted**: Fewer busy tasks on the receiver's CPU, a CPU of its own, a higher priority. A program that computes in the thread
//! that receives is preempted by its own time slice: let another thread compute.
//!
//! **Woken early**: Nothing, where the ends talk in turn: the wake-up overlaps the send. Where many messages flow one way, a larger buffer
//! makes such wake-ups rare.

use msgpath_core::units::Glyphs;

use super::growth::{against_waiting, holders, traced};
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W83", detect };

/// A smaller share of the receives is not worth a sentence.
const SHARE: f64 = 0.05;

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter_map(|(case, stages)| {
        let found = stages.at_ready.iter().map(|states| states.runnable).sum::<u64>() as f64;
        let total = stages.at_ready.iter().map(|states| states.total()).sum::<u64>().max(1) as f64;
        let share = found / total;
        if share < SHARE {
            return None;
        }
        let all = stages.band("all")?;
        let delay = stages.mean_ns(all, Kind::Delay);
        let holders = holders(&stages.occupants.all);
        let who = if holders.is_empty() { String::new() } else { format!("; meanwhile ran: {holders}") };
        let (try_, next) =
            against_waiting(input, case, "fewer busy tasks on its CPU, a CPU of its own (--cpu), a higher priority");
        let text = format!(
            "{}in {} % of the receives the receiver was runnable and not running when the data arrived. No wake-up exists \
             then, and tools that count from the wake-up see no delay; the scheduling delay is {} of {} a round trip{who}",
            prefix(input, case),
            percent(share),
            Glyphs::Unicode.time(delay),
            Glyphs::Unicode.time(all.mean_ns),
        );
        // A count, not an estimate: what could differ is how it came about.
        let sure = if all.claim && stages.observer.as_ref().is_some_and(|o| delay > o.added_high_ns.max(0.0)) {
            Confidence::Sure
        } else {
            Confidence::Likely
        };
        let numbers = [("share_of_receives", share), ("delay_ns", delay), ("mean_ns", all.mean_ns)];
        Some(finding("W83", sure, sentence(&text) + &try_ + ".", numbers, next))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Found, Setup, sentences, traced};

    #[test]
    fn speaks_of_preempted_receivers() {
        let found = vec![Found::Asleep, Found::Preempted, Found::Preempted];
        let texts = sentences(&traced(&Setup { found, ..Setup::over("tcp:send") }, 50), &super::DETECTOR);
        assert!(texts[0].contains("% of the receives the receiver was runnable and not running"), "{texts:?}");
        assert!(texts[0].contains("meanwhile ran: ffmpeg (thread 666, "), "{texts:?}");
    }

    #[test]
    fn is_silent_where_receivers_sleep() {
        assert!(sentences(&traced(&Setup::over("tcp:send"), 50), &super::DETECTOR).is_empty());
    }
}
