//! Of W108: twice the threads and no more, because a CPU is full.

use msgpath_stats::estimate::Estimate;

use super::queueing::times;
use super::wording::{finding, measured, message, percent, sentence, threads};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};
use crate::threads::{CoreUse, rates, ratio};

pub(super) const DETECTOR: Detector = Detector { code: "W108", detect };

/// The whole interval of the factor lies below this: twice the threads did not bring a tenth more.
const GREW: f64 = 1.1;
/// A CPU of which the whole interval lies above this is full: a thread that never waits reaches some 98 %.
const FULL: f64 = 0.9;

fn detect(input: &Input) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let cases: Vec<&CaseSummary> = measured(input).filter(|case| case.threads.is_some() && case.rounds > 0).collect();
    for few in &cases {
        let twice = |many: &&&CaseSummary| {
            let (few, many) = (&few.case, &many.case);
            many.threads == 2 * few.threads
                && (&many.path, many.size, many.pieces, many.reply) == (&few.path, few.size, few.pieces, few.reply)
                && (many.inflight, many.dispatch) == (few.inflight, few.dispatch)
        };
        let Some(many) = cases.iter().find(twice) else { continue };
        let Some((factor, core, busy)) = stuck(input, few, many) else { continue };
        let several = cases.iter().any(|case| case.case.path != few.case.path || case.case.size != few.case.size);
        let prefix = if several { format!("{}, {}: ", few.case.path, message(&few.case)) } else { String::new() };
        let end = if core.end.is_empty() { String::new() } else { format!(" of the {} end", core.end) };
        let text = format!(
            "{prefix}from {} to {} the rate did not grow ({}): CPU {}{end} is full, its {} ran {} % of the time",
            threads(few.case.threads),
            many.case.threads,
            times(&factor),
            core.cpu,
            threads(core.threads as u32),
            percent(busy.value.min(1.0))
        );
        let numbers = [
            ("rate_ratio", factor.value),
            ("rate_ratio_high", factor.high.unwrap_or(f64::NAN)),
            ("cpu", f64::from(core.cpu)),
            ("busy", busy.value),
            ("busy_low", busy.low.unwrap_or(f64::NAN)),
        ];
        sentences.push(finding("W108", Confidence::Likely, sentence(&text), numbers, Vec::new()));
    }
    sentences
}

/// The factor of the rate and the CPU that is full already with the fewer threads, or with the more.
fn stuck<'a>(input: &Input, few: &CaseSummary, many: &'a CaseSummary) -> Option<(Estimate, &'a CoreUse, Estimate)> {
    let (own, other) = (input.rounds.get(many.case.id as usize)?, input.rounds.get(few.case.id as usize)?);
    let factor = ratio(input.plan, &many.case, &few.case, &rates(input.plan, own), &rates(input.plan, other))?;
    factor.high.filter(|high| *high < GREW)?;
    let full = many.threads.as_ref()?.cores.iter().filter_map(|core| {
        let busy = core.busy.clone()?;
        (busy.low? > FULL).then_some((core, busy))
    });
    let (core, busy) = full.max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    Some((factor, core, busy))
}

#[cfg(test)]
mod tests {
    use crate::testing::sentences;
    use crate::threads::testing::closed;

    #[test]
    fn speaks_where_a_core_is_full() {
        let texts = sentences(&closed(&[1, 2], 1.0, 2), &super::DETECTOR);
        assert!(
            texts[0].starts_with("likely: From 1 thread to 2 the rate did not grow (")
                && texts[0].ends_with("): CPU 0 is full, its 2 threads ran 98 % of the time")
                || texts[0].ends_with("CPU 1 is full, its 2 threads ran 98 % of the time"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_where_the_rate_grew_or_no_core_is_full() {
        assert!(sentences(&closed(&[1, 2], 2.0, 8), &super::DETECTOR).is_empty());
        let mut idle = closed(&[1, 2], 1.0, 2);
        for round in &mut idle.rounds {
            for thread in round.ends.iter_mut().flat_map(|end| &mut end.threads) {
                thread.report.system_ns /= 2;
            }
        }
        assert!(sentences(&idle, &super::DETECTOR).is_empty());
    }
}
