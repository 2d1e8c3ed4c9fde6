//! V09: too few to say
//!
//! The first quantile without an interval, why, and how long a run would have one.
//!
//! ## What it rests on
//!
//! How many independent messages this run is worth at the quantile, against the ln 0.025 / ln p that an upper end needs
//! ([quantiles](docs/method/quantiles.md#what-is-printed-where-there-is-no-interval)); slower messages must lie in at
//! least 5 rounds. Silent in a comparison and where the rounds never settled (W45).
//!
//! ## What to do
//!
//! Run the printed command, or do without this quantile. Where a longer run would not help, the rounds drift: compare
//! within one run.

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{Range, estimate, estimate_queued, name};

use super::wording::{again_for, again_with_rounds, finding, measured, prefix, seconds_measured};
use super::{Detector, Input, Sentence};
use crate::settled::unsettled;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V09", detect };

/// Nobody waits longer than a day for a quantile.
const LONGEST_S: f64 = 86_400.0;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.is_some() {
        return Vec::new();
    }
    // Of a case that never settled W45 speaks, of a rate that was not sustained W52: no time would be enough.
    let sustained = |case: &&CaseSummary| !case.is_overloaded();
    measured(input)
        .filter(sustained)
        .filter(|case| unsettled(case).is_none())
        .filter_map(|case| say(input, case))
        .collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let open = case.latency.quantiles.iter().find(|quantile| !quantile.is_interval())?;
    let why = match open.range {
        Range::NotYet => ": too few messages so far".into(),
        _ => format!(" has no 95 % interval ({})", open.why.as_deref()?),
    };
    let rounds: Vec<&SparseHistogram> =
        input.rounds[case.case.id as usize].iter().map(|round| &round.latency).collect();
    let estimate = if case.open.is_some() { estimate_queued } else { estimate };
    let estimated = estimate(&rounds, &Pooled::new(&rounds), open.p)?;
    let header = &input.run.header;
    let head = format!("{}{}{why}", prefix(input, case), name(open.p));
    let numbers = |seconds: f64| {
        [
            ("needed_messages", estimated.needed),
            ("effective_messages", estimated.effective.unwrap_or(f64::NAN)),
            ("bursts", open.bursts as f64),
            ("seconds", seconds),
        ]
    };
    let Some(effective) = estimated.effective else {
        let next = vec![again_with_rounds(header, 40)];
        return Some(finding("V09", Confidence::CantTell, format!("{head}."), numbers(f64::NAN), next));
    };
    if effective >= estimated.needed && open.bursts >= u64::from(MIN_ROUNDS_FOR_CLAIMS) {
        // Enough of everything, so the rounds drift: time does not cure that.
        let text = format!("{head}. A longer run would not settle it; a comparison within one run still holds.");
        return Some(finding("V09", Confidence::CantTell, text, numbers(f64::NAN), vec![]));
    }
    // Evidence grows with time as it did so far; a tail not yet seen in any round counts as seen in one.
    let by_messages = estimated.needed / effective.max(1.0);
    let by_bursts = f64::from(MIN_ROUNDS_FOR_CLAIMS) / open.bursts.max(1) as f64;
    let seconds = by_messages.max(by_bursts) * seconds_measured(input, case);
    if seconds > LONGEST_S {
        let text = format!("{head}; it would take more than a day at this rate.");
        return Some(finding("V09", Confidence::CantTell, text, numbers(seconds), vec![]));
    }
    let next = again_for(header, seconds);
    let text = format!("{head}; about {} would do.", duration(seconds));
    Some(finding("V09", Confidence::CantTell, text, numbers(seconds), vec![next]))
}

fn duration(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, ramp, relevel, sentences};

    #[test]
    fn speaks_of_the_first_that_is_open() {
        // 8,000 independent messages carry p99.9 (3,688 needed) but not p99.99 (36,887).
        let run = Build::echo(&["tcp:send"], &[64]).noise(0.0).run();
        let texts = sentences(&run, "V09");
        assert!(texts[0].starts_with("can't tell: p99.99: too few messages so far; about "), "{texts:?}");
        let finding = summarise(&run).findings.into_iter().find(|finding| finding.code == "V09").unwrap();
        assert!((47.0..60.0).contains(&finding.evidence["seconds"]), "{finding:?}");
        assert!(finding.next[0].starts_with("msgpath echo -t 5"), "{finding:?}");
    }

    #[test]
    fn too_few_rounds_are_cured_by_rounds() {
        let run = Build::echo(&["tcp:send"], &[64]).rounds(3).run();
        assert!(sentences(&run, "V09")[0].contains("p50 has no 95 % interval (3 rounds)."));
    }

    #[test]
    fn is_silent_on_streams_comparisons_and_what_never_settled() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        assert!(sentences(&run, "V09").is_empty());
        assert!(sentences(&Build::stream(&["tcp:send"], &[64]).run(), "V09").is_empty());
        assert!(sentences(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).run(), "V09").is_empty());
    }
}
