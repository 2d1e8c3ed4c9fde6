//! W56: the memory that messages use
//!
//! * **The cache**: what it is worth that the same buffers serve every message, as a ratio to buffers rotated beyond
//!   the last-level cache. *Sure* where both halves agree.
//! * **Page faults**: how many in rounds read from disk or swap, and which end touches memory for the first time.
//!   *Likely*.
//!
//! ## What it rests on
//!
//! * **The cache**: an ablation with `-o working-set` above the cache, from 4 KiB messages on, where the case's buffers
//!   fit into it.
//! * **Page faults**: `getrusage` of the measuring threads around measured messages: any with I/O, or more than one
//!   without in 100 messages and 20.
//!
//! ## What to do
//!
//! * **The cache**: if your data come from memory, measure with `-o working-set=64M`, or more than the cache.
//! * **Page faults**: with I/O: free memory, or switch swap off. First touches: memory that the kernel or a library
//!   takes anew; huge pages, `splice`, a map that grows (`msgpath doctor`, check 12).

use msgpath_core::plan::Change;
use msgpath_core::units::{size, size_short};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::{halves_agree, halves_within};
use msgpath_stats::verdict::Verdict;

use super::wording::{about_size, again_set, finding, measured, message};
use super::{Detector, Input, Sentence};
use crate::summary::{AblationResult, CaseSummary, Confidence};
use crate::words::paired_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "W56", detect };

/// Below it a message costs calls and wake-ups, not copies.
const LEAST: u64 = 4096;

fn detect(input: &Input) -> Vec<Sentence> {
    let floors = input.run.header.floors.as_ref();
    let Some(cache) = floors.and_then(|floors| floors.last_level_cache) else { return Vec::new() };
    if input.plan.working_set != 0 {
        return Vec::new();
    }
    measured(input).filter_map(|case| say(input, case, cache)).collect()
}

fn say(input: &Input, case: &CaseSummary, cache: u64) -> Option<Sentence> {
    let own = &case.case;
    let buffers = own.size.saturating_mul(u64::from(own.connections)).saturating_mul(2);
    if own.size < LEAST || buffers > cache {
        return None;
    }
    let past = |ablation: &&AblationResult| matches!(ablation.change, Change::WorkingSet(bytes) if bytes > cache);
    let ablation = input.summary.ablations.iter().filter(|ablation| ablation.of == own.id).find(past)?;
    let Change::WorkingSet(bytes) = ablation.change else { return None };
    let d = log_ratios(&input.series[ablation.case as usize], &input.series[ablation.of as usize]);
    let d: Vec<f64> = d.into_iter().map(|(_, d)| d).collect();
    let (low, high) = (ablation.ratio.low?, ablation.ratio.high?);
    let ratio = paired_in_words(&ablation.ratio, input.plan.metric());
    let metric = if input.plan.workload.timed { "time" } else { "throughput" };
    let margin =
        input.summary.comparison.as_ref().map_or(msgpath_stats::verdict::LEAST_MARGIN, |comparison| comparison.margin);
    let buffers_in = format!(
        "{}, {}: its buffers always lie in the cache. From buffers rotated over {}, past the {} of the last-level cache",
        own.path,
        message(own),
        size(bytes),
        about_size(cache as f64)
    );
    let (text, next) = match ablation.verdict {
        Verdict::Worse if halves_agree(&d) => (
            format!(
                "{buffers_in}, the {metric} differs ({ratio}): expect that for a program whose data is not in the cache."
            ),
            vec![again_set(&input.run.header, &format!("working-set={}", size_short(bytes)))],
        ),
        Verdict::Equivalent if halves_within(&d, margin) => {
            (format!("{buffers_in}, the {metric} is the same ({ratio}): the cache does not flatter it."), Vec::new())
        }
        _ => return None,
    };
    let numbers = [
        ("ratio", ablation.ratio.value),
        ("low", low),
        ("high", high),
        ("working_set_bytes", bytes as f64),
        ("buffer_bytes", buffers as f64),
        ("last_level_cache_bytes", cache as f64),
    ];
    Some(finding("W56", Confidence::Sure, text, numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};
    use msgpath_core::plan::{CaseRole, Change};
    use msgpath_core::schema::Floors;
    use msgpath_record::Run;

    fn run(size: u64, rotated: u64, factor: f64) -> Run {
        let build = Build::echo(&["tcp:send"], &[size]).ablation(0, Change::WorkingSet(rotated));
        let mut run = build.factor(move |case| if case.role == CaseRole::Ablation { factor } else { 1.0 }).run();
        run.header.floors = Some(Floors { last_level_cache: Some(32 << 20), ..Default::default() });
        run
    }

    #[test]
    fn speaks_with_the_ratio() {
        let finding = summarise(&run(65_536, 64 << 20, 1.6)).findings.into_iter().find(|finding| finding.code == "W56");
        let finding = finding.unwrap();
        assert!(
            finding.text.starts_with(
                "tcp:send, 64 KiB: its buffers always lie in the cache. From buffers rotated over 64 MiB, past the 32.0 MiB of the last-level cache, the time differs (paired by pass 1."
            ),
            "{finding:?}"
        );
        assert_eq!(
            (finding.confidence.word(), finding.next.as_slice()),
            ("sure", &["msgpath echo -t 10s -o working-set=64M".to_string()][..])
        );
    }

    #[test]
    fn says_where_it_does_not_matter() {
        let texts = sentences(&run(65_536, 64 << 20, 1.0), &super::DETECTOR);
        assert!(texts[0].contains("the time is the same (") && texts[0].ends_with("does not flatter it."), "{texts:?}");
    }

    #[test]
    fn claims_nothing_without_an_ablation_past_the_cache() {
        let mut bare = Build::echo(&["tcp:send"], &[65_536]).run();
        bare.header.floors = Some(Floors { last_level_cache: Some(32 << 20), ..Default::default() });
        assert!(sentences(&bare, &super::DETECTOR).is_empty());
        assert!(sentences(&run(65_536, 16 << 20, 1.6), &super::DETECTOR).is_empty());
        let mut unknown = run(65_536, 64 << 20, 1.6);
        unknown.header.floors = None;
        assert!(sentences(&unknown, &super::DETECTOR).is_empty());
    }

    #[test]
    fn is_silent_about_small_messages_and_those_past_the_cache() {
        assert!(sentences(&run(1_024, 64 << 20, 1.6), &super::DETECTOR).is_empty());
        assert!(sentences(&run(32 << 20, 64 << 20, 1.6), &super::DETECTOR).is_empty());
        let mut rotated = run(65_536, 64 << 20, 1.6);
        rotated.header.plan.working_set = 64 << 20;
        assert!(sentences(&rotated, &super::DETECTOR).is_empty());
    }
}
