//! W83: the state of receivers when data arrive
//!
//! * **Preempted**: the share of receives in which the receiver was runnable and not running when data came, and the
//!   delay. `perf sched timehist` shows 0 for it, since nothing was woken. *Sure*: the delay lies above what tracing
//!   adds, in at least 5 rounds; else *likely*.
//! * **Woken early**: the share in which the receiver was being woken already: on Unix sockets the peer's receive frees
//!   room, which wakes the reader. *Likely*.
//!
//! ## What it rests on
//!
//! The receiver's state from the scheduler's events when its socket became readable, for each message of the traced
//! replica ([states](docs/method/attribution.md#the-state-of-a-receiver)). From 5 % (preempted) and 20 % (woken early)
//! of the receives on.
//!
//! ## What to do
//!
//! * **Preempted**: fewer busy tasks on that CPU, a CPU of its own, a priority; no computing in the thread that
//!   receives.
//! * **Woken early**: nothing where the ends talk in turn; a larger buffer where messages flow one way.

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
