//! W84: slow wake-ups leave a deeper idle state
//!
//! ## What it says
//!
//! The CPU of slow messages slept in a certain idle state: which one, for which share of the slow wake-ups and of all
//! others, and how long the wake-up out of it takes. *Likely* at best: nothing was switched off to prove it.
//!
//! ## What it is computed from
//!
//! `cpu_idle` events of the receiver's CPU (full set, where the kernel has them; a virtual machine often has none): the
//! state in which the CPU was when the data became readable.
//!
//! ## When it stays silent
//!
//! Where no idle state was seen; where slow messages do not wait for a wake-up more than others; where the state is as
//! frequent among the others (less than twice).
//!
//! ## What to do
//!
//! `cpupower idle-set -D` with a limit below the exit time of the state, or `/dev/cpu_dma_latency` held open at 0. Both
//! cost power.

use msgpath_core::units::Glyphs;

use super::growth::slow;
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W84", detect };

/// Share of the slow wake-ups that left this state.
const SHARE: f64 = 0.5;
/// It is so many times as frequent among slow messages as among others.
const TIMES: f64 = 2.0;

fn detect(input: &Input) -> Vec<Sentence> {
    slow(input, &[Kind::WakeCall, Kind::InFlight]).iter().filter_map(|slow| {
        let exit = slow.stages.idle.iter().rev().find(|exit| {
            exit.share_of_slow >= SHARE && exit.share_of_slow >= TIMES * exit.share_of_others
        })?;
        let text = format!(
            "{}the CPU that slept was in idle state {}: true of {} % of the wake-ups of slow messages, {} % of others; the \
             wake-up out of it is {} in flight. To try: cpupower idle-set -D with a limit below its exit time, or \
             /dev/cpu_dma_latency held open at 0; both cost power",
            prefix(input, slow.case),
            exit.state,
            percent(exit.share_of_slow),
            percent(exit.share_of_others),
            Glyphs::Unicode.time(exit.in_flight_ns),
        );
        let numbers = [
            ("idle_state", f64::from(exit.state)),
            ("share_of_slow", exit.share_of_slow),
            ("share_of_others", exit.share_of_others),
            ("in_flight_ns", exit.in_flight_ns),
        ];
        Some(finding("W84", Confidence::Likely, sentence(&text) + ".", numbers, Vec::new()))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{FAR, Setup, Traced, sentences, traced};
    use msgpath_core::plan::StageSet;
    use msgpath_core::schema::EventKind;

    fn with_states(setup: &Setup) -> Traced {
        let mut traced = traced(setup, 50);
        for events in traced.log().events.here() {
            // The far end's wake-up of every slow message leaves the state 3.
            for at in 0..events.events.len() {
                let event = events.events[at];
                if event.kind == EventKind::CpuIdle && event.cpu == 1 && event.a < 5 {
                    let wakeup = events.events[at..]
                        .iter()
                        .find(|e| e.kind == EventKind::SchedSwitch && e.b == FAR as u32)
                        .map(|e| e.t_ns - event.t_ns);
                    events.events[at].a = if wakeup.is_some_and(|ns| ns > 60_000) { 3 } else { 1 };
                }
            }
        }
        traced
    }

    #[test]
    fn names_the_idle_state() {
        let setup = Setup { slow: Some(Kind::InFlight), set: StageSet::Full, ..Setup::over("tcp:send") };
        let texts = sentences(&with_states(&setup), "W84");
        assert!(texts[0].starts_with("likely: The CPU that slept was in idle state 3: true of 50 % of"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_every_wake_up_leaves_the_same_state() {
        let setup = Setup { slow: Some(Kind::InFlight), set: StageSet::Full, ..Setup::over("tcp:send") };
        assert!(sentences(&traced(&setup, 50), "W84").is_empty());
    }
}
