//! W54: the counts contradict each other
//!
//! More or fewer messages were in flight than rate and times say (Little's law).
//!
//! ## What it rests on
//!
//! Messages in flight before each send, by rate times mean round trip, over rounds. It speaks where the interval is
//! more than 10 % away from 1, and only where [the law can be checked](docs/method/open-loop.md#littles-law): Poisson
//! gaps, sustained, nothing lost or held up.
//!
//! ## What to do
//!
//! Look at the lateness: bursts break the law. If sends are punctual, a counter is wrong: please report it with the
//! run's folder.

use msgpath_core::units::three_digits;

use super::wording::{measured, percent, prefix, sentence, warning};
use super::{Detector, Input, Sentence, wording};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W54", detect };

/// The interval must lie beyond 1 by more than this: what is in flight at the ends of a round makes a few per cent.
const TOLERANCE: f64 = 0.1;

/// The worst case, with how many others there are. In an overload there is no steady state that the law is about.
fn detect(input: &Input) -> Vec<Sentence> {
    let broken = |case: &CaseSummary| {
        let open = case.open.as_ref().filter(|open| open.overloaded().is_none())?;
        let law = open.little.as_ref()?;
        let (low, high) = (law.low?, law.high?);
        (low > 1.0 + TOLERANCE || high < 1.0 - TOLERANCE).then_some((law.value, low, high, open.mean_in_flight))
    };
    let mut affected: Vec<_> = measured(input).filter_map(|case| Some((case, broken(case)?))).collect();
    affected.sort_by(|a, b| (b.1.0 - 1.0).abs().total_cmp(&(a.1.0 - 1.0).abs()));
    let Some((case, (value, low, high, in_flight))) = affected.first().copied() else { return Vec::new() };
    let mut text = format!(
        "{}{} messages were in flight on average, {} % {} than their rate and their times say (Little's law)",
        prefix(input, case),
        three_digits(in_flight),
        percent((value - 1.0).abs()),
        if value > 1.0 { "more" } else { "fewer" }
    );
    text.push_str(&wording::affected(affected.len()));
    let numbers = [
        ("in_flight_over_rate_times_service", value),
        ("low", low),
        ("high", high),
        ("mean_in_flight", in_flight),
        ("cases", affected.len() as f64),
    ];
    let why = "rate, times and messages in flight are counted apart; where they do not fit, one of them is wrong, or the \
               sends came in bursts that were not planned";
    let fix = "look at the lateness of the sends; if they are punctual, report it as a bug with the run's folder";
    vec![warning("W54", sentence(&text), why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::testing_queue::{Queue, run};

    #[test]
    fn speaks_where_counts_do_not_fit() {
        let mut run = run(&[Queue::mm1(0.5, 500, 100, 4)]);
        run.rounds.iter_mut().filter_map(|round| round.open.as_mut()).for_each(|open| open.in_flight_sum *= 2);
        let texts = sentences(&run, "W54");
        assert!(
            texts[0].contains(" messages were in flight on average, ") && texts[0].contains(" % more than"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_where_they_fit_and_in_an_overload() {
        for utilisation in [0.05, 0.5, 0.8, 0.9, 1.2] {
            assert!(sentences(&run(&[Queue::mm1(utilisation, 500, 100, 4)]), "W54").is_empty(), "{utilisation}");
        }
    }
}
