//! W108: what more threads and messages in flight bring
//!
//! * **A queue**: more in flight made round trips longer in proportion while the rate stayed: messages wait, they do
//!   not cost each other work.
//! * **A full CPU**: the rate did not grow with twice the threads; which CPU was full. *Likely*.
//! * **A slow thread** of the near end, much slower than the mean; on which CPU.
//!
//! ## What it rests on
//!
//! * **A queue**: rate and mean round trip of two cases, paired by pass. *Sure* where the interval of the rates' ratio
//!   lies within 10 % of 1, *likely* within 25 %. Streams and open loops: W54.
//! * **A full CPU**: that interval lies below 1.1, and the pinned threads' CPU time above 90 %.
//! * **A slow thread**: the interval of the slowest thread's share of the mean rate lies below 80 %. Silent where
//!   another thread is slow each round.
//!
//! ## What to do
//!
//! * **A queue**: fewer in flight for shorter round trips; `msgpath preset threads-and-queues` shows which CPU is full.
//! * **A full CPU**: more CPUs: `--cpu 0,2:1,3`. Interrupts: W46.
//! * **A slow thread**: see who shares its CPU, give it another, or compare with `--cpu none`. A round lasts until the
//!   slowest is done.

use msgpath_core::plan::Plan;
use msgpath_core::units::three_digits;
use msgpath_stats::estimate::Estimate;

use super::wording::{finding, interval, measured, message};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};
use crate::threads::{arrangement, rates, ratio, time_ratio};

pub(super) const DETECTOR: Detector = Detector { code: "W108", detect };

/// A rate within this of 1 has stayed.
pub const STAYED: f64 = 0.1;
/// It may have with this.
pub const MAY_HAVE_STAYED: f64 = 0.25;

/// Two cases of which the second has more in flight and nothing else to tell them apart.
pub struct Deeper<'a> {
    /// The one with fewer.
    pub few: &'a CaseSummary,
    /// The one with more.
    pub many: &'a CaseSummary,
    /// Rate of the second divided by that of the first.
    pub rate: Estimate,
    /// Mean time likewise.
    pub time: Estimate,
}

impl Deeper<'_> {
    /// How many times as many messages are in flight.
    pub fn depth(&self) -> f64 {
        Plan::in_flight(&self.many.case) as f64 / Plan::in_flight(&self.few.case) as f64
    }

    /// Whether the whole interval of the rate lies within `margin` of 1.
    pub fn stayed(&self, margin: f64) -> bool {
        self.rate.low.zip(self.rate.high).is_some_and(|(low, high)| low > 1.0 - margin && high < 1.0 + margin)
    }
}

/// For every path and size the pair that is furthest apart: the deepest case against the shallowest at which the rate was
/// as high, or else against the shallowest of all.
pub fn deeper<'a>(
    plan: &Plan,
    cases: &[&'a CaseSummary],
    rounds: &[Vec<&msgpath_core::schema::RoundRecord>],
) -> Vec<Deeper<'a>> {
    if !plan.workload.is_echoed() {
        return Vec::new();
    }
    let mut out: Vec<Deeper<'a>> = Vec::new();
    let with = |case: &&&'a CaseSummary| case.threads.is_some();
    let pair = |few: &'a CaseSummary, many: &'a CaseSummary| pair(plan, rounds, few, many);
    for many in cases.iter().filter(with) {
        let alike = || cases.iter().filter(with).filter(|case| key(case) == key(many));
        let depth = |case: &CaseSummary| Plan::in_flight(&case.case);
        if alike().any(|other| depth(other) > depth(many)) {
            continue;
        }
        let mut shallower: Vec<&&CaseSummary> = alike().filter(|few| 2 * depth(few) <= depth(many)).collect();
        shallower.sort_by_key(|few| depth(few));
        let mut pairs: Vec<Deeper<'a>> = shallower.into_iter().filter_map(|few| pair(few, many)).collect();
        let at = pairs.iter().position(|pair| pair.stayed(MAY_HAVE_STAYED)).unwrap_or(0);
        if at < pairs.len() {
            out.push(pairs.swap_remove(at));
        }
    }
    out
}

/// What cases that are compared share.
fn key(case: &CaseSummary) -> impl PartialEq + use<> {
    let case = &case.case;
    (case.path.clone(), case.size, case.pieces, case.reply, case.dispatch)
}

fn pair<'a>(
    plan: &Plan,
    rounds: &[Vec<&msgpath_core::schema::RoundRecord>],
    few: &'a CaseSummary,
    many: &'a CaseSummary,
) -> Option<Deeper<'a>> {
    let (own, other) = (rounds.get(many.case.id as usize)?, rounds.get(few.case.id as usize)?);
    let rate = ratio(plan, &many.case, &few.case, &rates(plan, own), &rates(plan, other))?;
    let time = time_ratio(plan, &many.case, &few.case, own, other)?;
    Some(Deeper { few, many, rate, time })
}

/// Every step from one depth to the next that was measured, of the cases that are compared with `of`.
pub fn steps<'a>(
    plan: &Plan,
    cases: &[&'a CaseSummary],
    rounds: &[Vec<&msgpath_core::schema::RoundRecord>],
    of: &CaseSummary,
) -> Vec<Deeper<'a>> {
    let own = cases.iter().filter(|case| case.threads.is_some() && key(case) == key(of));
    let mut own: Vec<&'a CaseSummary> = own.copied().collect();
    own.sort_by_key(|case| Plan::in_flight(&case.case));
    let deeper = |two: &&[&CaseSummary]| Plan::in_flight(&two[0].case) < Plan::in_flight(&two[1].case);
    own.windows(2).filter(deeper).filter_map(|two| pair(plan, rounds, two[0], two[1])).collect()
}

/// `3.98 times (95 %: 3.9 to 4.1)`.
pub fn times(estimate: &Estimate) -> String {
    let times = format!("{} times", three_digits(estimate.value));
    interval(estimate.low, estimate.high, three_digits)
        .map_or_else(|| times.clone(), |ends| format!("{times} ({ends})"))
}

fn detect(input: &Input) -> Vec<Sentence> {
    let cases: Vec<&CaseSummary> = measured(input).filter(|case| case.rounds > 0).collect();
    deeper(input.plan, &cases, input.rounds).iter().filter_map(|pair| say(input, pair)).collect()
}

fn say(input: &Input, pair: &Deeper<'_>) -> Option<Sentence> {
    let confidence = if pair.stayed(STAYED) {
        Confidence::Sure
    } else if pair.stayed(MAY_HAVE_STAYED) {
        Confidence::Likely
    } else {
        return None;
    };
    let several =
        measured(input).any(|case| case.case.path != pair.many.case.path || case.case.size != pair.many.case.size);
    let prefix =
        if several { format!("{}, {}: ", pair.many.case.path, message(&pair.many.case)) } else { String::new() };
    let text = format!(
        "{prefix}from {} to {} the mean round trip became {} as long while the rate stayed ({}): a queue at a fixed \
         capacity, not contention",
        arrangement(&pair.few.case),
        arrangement(&pair.many.case),
        times(&pair.time),
        times(&pair.rate),
    );
    let bound = |end: Option<f64>| end.unwrap_or(f64::NAN);
    let numbers = [
        ("in_flight_ratio", pair.depth()),
        ("rate_ratio", pair.rate.value),
        ("rate_ratio_low", bound(pair.rate.low)),
        ("rate_ratio_high", bound(pair.rate.high)),
        ("time_ratio", pair.time.value),
        ("time_ratio_low", bound(pair.time.low)),
        ("time_ratio_high", bound(pair.time.high)),
    ];
    Some(finding("W108", confidence, super::wording::sentence(&text), numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::threads::testing::closed;

    #[test]
    fn speaks_where_the_rate_stays() {
        let texts = sentences(&closed(&[2, 4, 16], 2.0, 64), &super::DETECTOR);
        assert!(
            texts[0].starts_with(
                "sure: From 2 connections, a thread each to 16 connections, a thread each the mean round trip became 8."
            ) || texts[0].contains("became 7.9"),
            "{texts:?}"
        );
        assert!(texts[0].ends_with("): a queue at a fixed capacity, not contention") && texts.len() == 1, "{texts:?}");
        // One thread is slower than two, so the comparison begins where the capacity is reached.
        assert!(sentences(&closed(&[1, 2, 16], 2.0, 64), &super::DETECTOR)[0].contains("From 2 connections"));
    }

    #[test]
    fn is_silent_where_the_rate_grows_or_falls() {
        assert!(sentences(&closed(&[1, 2, 4, 8], 8.0, 32), &super::DETECTOR).is_empty());
        let mut falls = closed(&[1, 8], 1.0, 32);
        for round in falls.rounds.iter_mut().filter(|round| round.case == 1) {
            // Each message costs twice the work when there are eight.
            let mut slow = msgpath_core::Histogram::new();
            for (from, to, count) in round.latency.ranges() {
                slow.record_n(from + to, count);
            }
            round.latency = slow.to_sparse();
            round.near_mut().elapsed_ns *= 2;
        }
        assert!(sentences(&falls, &super::DETECTOR).is_empty());
    }
}
