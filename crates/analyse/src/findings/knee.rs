//! V15: how much load a path takes
//!
//! * **The knee**: the rate at which p99 (or p50) has doubled against the lowest rate, with its interval; the highest
//!   rate that was sustained, the lowest that was not.
//! * **The capacity**: of `--rate 50%` and `10%..110%/12`: what 100 % was, the lowest attempt, and whether the attempts
//!   agree.
//!
//! ## What it rests on
//!
//! * **The knee**: interpolation between rates, 2,000 resamples of the passes ([load
//!   curves](docs/method/open-loop.md#load-curves-and-the-knee)). p50 stands in where p99 has no interval at most
//!   rates. *Sure* with both ends of the interval, *likely* with the lower one.
//! * **The capacity**: five attempts of at least 0.2 s with 10 million messages a second offered, 64 in flight on a
//!   connection; the best counts, since other work only makes one worse. *Sure* where they agree within 1.25. With
//!   random gaps a path sustains less.
//!
//! Silent with a single rate, and where none was sustained (W52).
//!
//! ## What to do
//!
//! Stay below the knee. Measure rates between the two bounds to narrow the capacity. To repeat a curve, type the rates
//! as they were resolved (`msgpath show NAME`).

use msgpath_core::units::per_second;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::{Quantile, name};

use super::wording::{finding, interval, measured, message, sentence, threads};
use super::{Detector, Input, Sentence};
use crate::load_curve::which_sustained;
use crate::summary::{Confidence, LoadCurve, LoadPoint};

pub(super) const DETECTOR: Detector = Detector { code: "V15", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    input.summary.load_curves.iter().filter_map(|curve| say(input, curve)).collect()
}

/// Nothing where no rate was sustained: W52 says that.
fn say(input: &Input, curve: &LoadCurve) -> Option<Sentence> {
    let sustained = curve.sustained_per_s?;
    let (confidence, knee) = knee(curve, sustained)?;
    let text = format!("{}{knee}; {}", prefix(input, curve), which_sustained(curve, per_second));
    let none = Estimate { value: f64::NAN, low: None, high: None };
    let knee = curve.knee_per_s.as_ref().unwrap_or(&none);
    let numbers = [
        ("knee_per_s", knee.value),
        ("knee_lo_per_s", knee.low.unwrap_or(f64::NAN)),
        ("knee_hi_per_s", knee.high.unwrap_or(f64::NAN)),
        ("knee_p", curve.knee_p),
        ("sustained_per_s", sustained),
        ("overloaded_per_s", curve.overloaded_per_s.unwrap_or(f64::NAN)),
    ];
    Some(finding("V15", confidence, sentence(&text) + ".", numbers, vec![]))
}

/// The knee in words; without one whether the quantile really stayed below twice its lowest.
fn knee(curve: &LoadCurve, sustained: f64) -> Option<(Confidence, String)> {
    let p = name(curve.knee_p);
    let Some(knee) = &curve.knee_per_s else {
        let at = |point: &LoadPoint| -> Option<Quantile> {
            [&point.p50, &point.p99].into_iter().flatten().find(|q| q.p == curve.knee_p).cloned()
        };
        let top = curve.points.iter().find(|point| point.asked_per_s == sustained).and_then(at);
        let low = curve.points.first().and_then(at);
        let sure = top.and_then(|q| q.hi_ns).zip(low.and_then(|q| q.lo_ns)).is_some_and(|(top, low)| top < 2 * low);
        let confidence = if sure { Confidence::Sure } else { Confidence::CantTell };
        let text = format!("up to {} {p} has not doubled", per_second(sustained));
        let timed = curve.points.iter().filter(|point| point.sustained != Some(false)).count();
        return (timed > 1).then_some((confidence, text));
    };
    let confidence = confidence_of(knee);
    let interval = interval(knee.low, knee.high, per_second).unwrap_or_else(|| "too few rounds for an interval".into());
    Some((confidence, format!("at {} ({interval}) {p} is twice that of the lowest rate", per_second(knee.value))))
}

/// How sure it is where the curve bends: *sure* between two ends, *likely* beyond one.
pub fn confidence_of(knee: &Estimate) -> Confidence {
    match (knee.low, knee.high) {
        (Some(_), Some(_)) => Confidence::Sure,
        (None, None) => Confidence::CantTell,
        _ => Confidence::Likely,
    }
}

fn prefix(input: &Input, curve: &LoadCurve) -> String {
    if input.summary.load_curves.len() == 1 {
        return String::new();
    }
    let case = measured(input).find(|case| curve.points.iter().any(|point| point.case == case.case.id));
    let message = case.map_or_else(String::new, |case| message(&case.case));
    let mut parts = vec![curve.path.to_string(), message];
    if input.summary.load_curves.iter().any(|other| other.threads != curve.threads) {
        parts.push(threads(curve.threads));
    }
    format!("{}: ", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::testing_queue::{Queue, run};

    fn texts(utilisations: &[f64]) -> Vec<String> {
        let queues: Vec<Queue> = utilisations.iter().map(|rho| Queue::mm1(*rho, 600, 100, 9)).collect();
        sentences(&run(&queues), &super::DETECTOR)
    }

    #[test]
    fn speaks_of_the_knee_and_the_bounds() {
        // p99 of M/M/1 is 4.6 µs / (1 - utilisation): it has doubled against 0.1 at 0.55.
        let texts = texts(&[0.1, 0.3, 0.5, 0.6, 0.8, 1.3]);
        assert!(texts[0].starts_with("sure: At 5") && texts[0].contains(" k/s (95 %: "), "{texts:?}");
        let end = ") p99 is twice that of the lowest rate; 800 k/s was sustained, 1.30 M/s was not.";
        assert!(texts[0].ends_with(end), "{texts:?}");
    }

    #[test]
    fn says_that_there_was_no_knee() {
        let texts = texts(&[0.1, 0.2, 0.3]);
        assert_eq!(texts, ["sure: Up to 300 k/s p99 has not doubled; every rate was sustained, up to 300 k/s."]);
    }

    #[test]
    fn is_silent_on_a_single_rate_and_where_none_was_sustained() {
        assert!(texts(&[0.5]).is_empty());
        assert!(texts(&[1.5, 2.0]).is_empty());
    }
}
