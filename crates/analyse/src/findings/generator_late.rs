//! W50: the client of an open loop
//!
//! * **Late**: how late the sends of an open loop were, how many by more than a mean gap, and the larger cause: this
//!   machine's scheduler, the server (no room), or the generator.
//! * **Saturated**: the client was busy for more than half of its time.
//!
//! ## What it rests on
//!
//! * **Late**: p99 of the lateness above 10 % of the median latency and 5 µs, or more than 1 % of the sends later than
//!   a mean gap ([causes](docs/method/open-loop.md#lateness-and-its-causes)). Silent where the server made most of it:
//!   then it is part of the latency.
//! * **Saturated**: CPU time of sending and receiving threads, without spinning until a message is due. Not for `spin`
//!   and `busy-poll`.
//!
//! ## What to do
//!
//! Scheduler: a quieter machine, CPUs of its own. Generator or saturated: a lower rate, more threads on CPUs of their
//! own.

use msgpath_core::units::Glyphs;

use super::wording::{measured, percent, prefix, sentence, warning};
use super::{Detector, Input, Sentence, wording};
use crate::summary::{CaseSummary, OpenLoop};

pub(super) const DETECTOR: Detector = Detector { code: "W50", detect };

/// p99 of the lateness may be this share of the median latency ...
const OF_MEDIAN: f64 = 0.1;
/// ... or this many ns, whichever is more.
const LEAST_NS: f64 = 5_000.0;
/// Share of the sends that may be later than one mean gap.
const LATE: f64 = 0.01;

/// p50 of the latency and p99 of the lateness, ns, where the rule is broken. It is about the sends of this run, so p99 is
/// taken as it is, claim or not.
fn broken(case: &CaseSummary, open: &OpenLoop) -> Option<(f64, f64)> {
    let median = case.latency.quantiles.iter().find(|q| q.p == 0.5)?.ns? as f64;
    let late = open.lateness.iter().find(|q| q.p == 0.99)?.ns? as f64;
    let slow = late > OF_MEDIAN * median && late > LEAST_NS;
    // A far end that holds the sender up makes its messages wait, as it must: that is no fault of the sender.
    let held_up = open.blocked_share > 0.5;
    ((slow || open.late_share > LATE) && !held_up).then_some((median, late))
}

/// Whose the larger part of the lateness is.
fn cause_of(open: &OpenLoop) -> Option<String> {
    let parts = [
        (open.not_running_share, "this machine's scheduler, not the server"),
        (open.blocked_share, "the far end holding the sender up"),
        (open.own_share, "the generator's own work"),
    ];
    let (share, whose) = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (share > 0.0).then(|| format!("{} % of that is {whose}", percent(share)))
}

/// The worst case, with how many others there are.
fn detect(input: &Input) -> Vec<Sentence> {
    let mut affected: Vec<(&CaseSummary, &OpenLoop, f64, f64)> = measured(input)
        .filter_map(|case| {
            let open = case.open.as_ref()?;
            broken(case, open).map(|(median, late)| (case, open, median, late))
        })
        .collect();
    affected.sort_by(|a, b| (b.3 / b.2).total_cmp(&(a.3 / a.2)));
    let Some((case, open, median, late)) = affected.first().copied() else { return Vec::new() };
    let time = |ns| Glyphs::Unicode.time(ns);
    let mut text = format!(
        "{}1 in 100 sends was later than {} (median latency {}), and {} % were later than one mean gap",
        prefix(input, case),
        time(late),
        time(median),
        percent(open.late_share)
    );
    text.extend(cause_of(open).map(|cause| format!("; {cause}")));
    text.push_str(&wording::affected(affected.len()));
    let numbers = [
        ("lateness_p99_ns", late),
        ("latency_p50_ns", median),
        ("late_share", open.late_share),
        ("not_running_share", open.not_running_share),
        ("blocked_share", open.blocked_share),
        ("own_share", open.own_share),
        ("cases", affected.len() as f64),
    ];
    let why = "latency counts from the intended send, so what this end is late is in it; times from the actual send are not \
               touched";
    let fix = "a quieter machine, CPUs of their own for the near end, or a lower rate";
    vec![warning("W50", sentence(&text), why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::testing_queue::{Queue, late, run};

    #[test]
    fn speaks_of_lateness_and_whose_it_is() {
        // 3 % of the sends are 40 µs late: the median latency is 1.4 µs.
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 3)]);
        late(&mut run, 40_000, 15);
        for open in run.rounds.iter_mut().filter_map(|round| round.open.as_mut()) {
            (open.not_running_ns, open.own_ns) = (open.lateness_ns * 24 / 25, open.lateness_ns / 25);
        }
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].starts_with("1 in 100 sends was later than 40.0 µs (median latency 1."), "{texts:?}");
        assert!(
            texts[0].ends_with(
                "and 3 % were later than one mean gap; 96 % of that is this machine's scheduler, not the server"
            ),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_on_punctual_senders() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 3)]);
        late(&mut run, 4_000, 4);
        assert_eq!(sentences(&run, &super::DETECTOR), Vec::<String>::new());
    }

    #[test]
    fn an_overloaded_far_end_is_not_blamed_on_the_sender() {
        let mut run = run(&[Queue::mm1(1.3, 500, 100, 3)]);
        late(&mut run, 40_000, 15);
        for open in run.rounds.iter_mut().filter_map(|round| round.open.as_mut()) {
            (open.blocked_ns, open.own_ns) = (open.lateness_ns, 0);
        }
        assert_eq!(sentences(&run, &super::DETECTOR), Vec::<String>::new());
    }
}
