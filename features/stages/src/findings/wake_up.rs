//! W80: slow messages wait for a wake-up
//!
//! ## What it says
//!
//! Slow messages are slow because their receiver slept and had to be woken: how much of their extra time is
//! the wake-up call or the wake-up in flight (the interrupt to the other CPU, its exit from idle).
//!
//! *Sure*: the interval of the difference, over rounds drawn again, lies above what tracing itself adds to a round trip
//! at most, and the same stage grew most in both halves of the run. Else *likely*.
//!
//! ## What it is computed from
//!
//! Messages of the traced replica of a case, whose rounds are interleaved with those of the case itself. Each message is
//! joined with the kernel's events of its round, and every nanosecond of it is charged to a stage; the stages of a
//! message add up to its round trip. Slow messages are those from p98.5 to p99.5, usual ones those from p45 to p55; whole
//! messages are averaged in both bands, and the stage whose mean differs most is the cause.
//!
//! ## When it stays silent
//!
//! Without a traced replica (`--stages light` or `full`); where fewer than 95 % of the messages are attributed; where slow
//! messages take less than 20 % longer than usual ones; where the stage holds less than 30 % of the difference, or
//! another grew more.
//!
//! ## What to do
//!
//! A receiver that spins or busy-polls (`-o wait=spin`) is never woken, for the price of a CPU. Ends that talk in turn can
//! share a CPU (`--cpu 1,1`). Where the run has tried one of these beside the case, the sentence prints what came of it
//! instead.

use super::growth::{against_waiting, slow};
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W80", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let kinds = [Kind::WakeCall, Kind::InFlight];
    slow(input, &kinds).iter().map(|slow| {
        let (try_, next) = against_waiting(
            input,
            slow.case,
            "a receiver that spins or busy-polls, for the price of a CPU; both ends on one CPU where they talk in turn",
        );
        let text = slow.says(input, "a sleeping thread had to be woken") + &try_ + ".";
        finding("W80", slow.confidence(), text, slow.numbers(), next)
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Found, Setup, sentences, traced};
    use msgpath_core::plan::{Ablation, CaseRole, Change};

    #[test]
    fn speaks_of_the_wake_up() {
        let texts = sentences(&traced(&Setup { slow: Some(Kind::InFlight), ..Setup::over("tcp:send") }, 50), "W80");
        assert!(
            texts[0].starts_with("sure: Slow messages are slow because a sleeping thread had to be woken: "),
            "{texts:?}"
        );
        assert!(texts[0].contains(" of the extra ") && texts[0].contains(" is wake-up in flight ("), "{texts:?}");
        assert!(texts[0].contains("To try: "), "{texts:?}");
    }

    #[test]
    fn is_not_sure_where_tracing_costs_more() {
        let mut traced = traced(&Setup { slow: Some(Kind::InFlight), ..Setup::over("tcp:send") }, 50);
        for round in traced.run.rounds.iter_mut().filter(|round| round.case == 0) {
            let mut histogram = msgpath_core::Histogram::new();
            (0..200).for_each(|at| histogram.record(4_000_000 + at * 500));
            round.latency = histogram.to_sparse();
        }
        // The replica takes 100 us more than its case of 4 ms.
        for round in traced.run.rounds.iter_mut().filter(|round| round.case == 1) {
            let mut histogram = msgpath_core::Histogram::new();
            (0..200).for_each(|at| histogram.record(4_400_000 + at * 500));
            round.latency = histogram.to_sparse();
        }
        assert!(sentences(&traced, "W80")[0].starts_with("likely: "));
    }

    #[test]
    fn what_was_tried_replaces_the_guess() {
        let mut traced = traced(&Setup { slow: Some(Kind::InFlight), ..Setup::over("tcp:send") }, 50);
        let ablation = Some(Ablation { of: 0, change: Change::Spin });
        let case = traced.run.header.plan.cases[0].clone();
        traced.run.header.plan.cases.push(msgpath_core::Case { id: 2, role: CaseRole::Ablation, ablation, ..case });
        let mut rounds: Vec<_> = traced.run.rounds.iter().filter(|round| round.case == 0).cloned().collect();
        for round in &mut rounds {
            round.case = 2;
            let mut histogram = msgpath_core::Histogram::new();
            (0..200).for_each(|at| histogram.record(8_000 + u64::from(round.pass % 3) * 40 + at));
            round.latency = histogram.to_sparse();
        }
        traced.run.rounds.extend(rounds);
        let text = &sentences(&traced, "W80")[0];
        assert!(
            text.contains("Tried here: spin, p50 ") && text.contains(" to 8.1") && !text.contains("To try"),
            "{text}"
        );
    }

    #[test]
    fn is_silent_where_another_stage_grows_or_none() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::Delay), ..Setup::over("tcp:send") }, 50), "W80").is_empty()
        );
        let spins = Setup { found: vec![Found::Running], ..Setup::over("tcp:send") };
        assert!(sentences(&traced(&spins, 50), "W80").is_empty());
    }
}
