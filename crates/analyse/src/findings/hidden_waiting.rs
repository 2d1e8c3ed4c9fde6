//! V16: waiting that a closed loop hides
//!
//! p99 from the time at which a message was due, beside p99 from the time at which it was sent.
//!
//! ## What it rests on
//!
//! Both histograms of the open loop. It speaks where both quantiles have intervals and these lie apart, for the case
//! with the largest ratio.
//!
//! ## What to do
//!
//! Use the first: it is what a user waits. If the sender itself was late: W50.

use msgpath_core::units::Glyphs;
use msgpath_stats::quantile::Quantile;

use super::wording::{finding, measured, prefix, sentence};
use super::{Detector, Input, Sentence, wording};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V16", detect };

/// The case with the largest difference, with how many others there are; only where both intervals lie apart.
fn detect(input: &Input) -> Vec<Sentence> {
    let claimed = |all: &[Quantile]| {
        let p99 = all.iter().find(|q| q.p == 0.99 && q.is_interval())?;
        Some((p99.ns? as f64, p99.lo_ns? as f64, p99.hi_ns.map(|ns| ns as f64)))
    };
    let views = |case: &CaseSummary| {
        let (intended, low, high) = claimed(&case.latency.quantiles)?;
        let (actual, actual_low, actual_high) = claimed(&case.open.as_ref()?.service)?;
        (low > actual_high?).then_some((intended, low, high, actual, actual_low, actual_high?))
    };
    let mut affected: Vec<_> = measured(input).filter_map(|case| Some((case, views(case)?))).collect();
    affected.sort_by(|a, b| (b.1.0 / b.1.3).total_cmp(&(a.1.0 / a.1.3)));
    let Some((case, (intended, low, high, actual, actual_low, actual_high))) = affected.first().copied() else {
        return Vec::new();
    };
    let time = |ns| Glyphs::Unicode.time(ns);
    let mut text = format!(
        "{}in this run p99 is {} from the intended send and {} from the actual send: the difference is waiting that a closed loop hides",
        prefix(input, case),
        time(intended),
        time(actual)
    );
    text.push_str(&wording::affected(affected.len()));
    let numbers = [
        ("intended_p99_ns", intended),
        ("intended_p99_lo_ns", low),
        ("intended_p99_hi_ns", high.unwrap_or(f64::NAN)),
        ("actual_p99_ns", actual),
        ("actual_p99_lo_ns", actual_low),
        ("actual_p99_hi_ns", actual_high),
        ("cases", affected.len() as f64),
    ];
    vec![finding("V16", Confidence::Sure, sentence(&text) + ".", numbers, vec![])]
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::testing_queue::{Queue, late, run};

    #[test]
    fn speaks_of_waiting_before_the_send() {
        let mut run = run(&[Queue::mm1(0.3, 500, 100, 5)]);
        late(&mut run, 40_000, 15);
        let texts = sentences(&run, "V16");
        assert!(texts[0].starts_with("sure: In this run p99 is 4"), "{texts:?}");
        assert!(texts[0].contains(" µs from the intended send and 6."), "{texts:?}");
    }

    #[test]
    fn is_silent_where_both_views_agree_within_their_intervals() {
        let mut run = run(&[Queue::mm1(0.3, 500, 100, 5)]);
        assert!(sentences(&run, "V16").is_empty());
        late(&mut run, 200, 15);
        assert!(sentences(&run, "V16").is_empty());
    }
}
