//! W24: the baseline differed from itself
//!
//! The comparison is void: the baseline, measured twice under two names, differed from itself.
//!
//! ## What it rests on
//!
//! The hidden control. Its interval lies wholly outside 2 % and its test stands after Holm over the controls.
//!
//! ## What to do
//!
//! Use no ratio of this run. Find what changes between rounds, choose CPUs with `--cpu`, run again.

use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W24", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    match &input.summary.comparison {
        Some(comparison) if comparison.control_failed => vec![warning(
            "W24",
            format!("{} measured twice in this run differed from itself: the comparison is void", comparison.baseline),
            "what makes two equal cases differ makes any two cases differ; no ratio of this run can be trusted",
            "find what changes between rounds, pin the CPUs, run again",
            [("resolution", comparison.resolution.unwrap_or(f64::NAN))],
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::CaseRole;

    fn run(control: f64) -> msgpath_record::Run {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64]).control(64);
        build.factor(move |case| if case.role == CaseRole::Control { control } else { 1.0 + f64::from(case.id) }).run()
    }

    #[test]
    fn speaks_and_silences_the_comparison() {
        let run = run(1.2);
        assert!(sentences(&run, "W24")[0].starts_with("tcp:send measured twice"));
        for code in ["V04", "V05", "V06"] {
            assert!(sentences(&run, code).is_empty());
        }
    }

    #[test]
    fn is_silent_where_the_control_agrees() {
        assert!(sentences(&run(1.0), "W24").is_empty());
        assert_eq!(sentences(&run(1.0), "V04").len(), 1);
    }
}
