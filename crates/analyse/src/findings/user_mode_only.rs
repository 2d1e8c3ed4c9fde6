//! Of W103: only user mode was counted.

use super::wording::{finding, measured};
use super::{Detector, Input, Sentence};
use crate::summary::Confidence;
use msgpath_core::schema::{FAR, NEAR};

pub(super) const DETECTOR: Detector = Detector { code: "W103", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let header = &input.run.header;
    let end = match (header.end(NEAR).events.user_only, header.end(FAR).events.user_only) {
        (false, false) => return Vec::new(),
        (true, true) => "both ends",
        (true, false) => "the near end",
        (false, true) => "the far end",
    };
    // The share of the kernel in the CPU time is known whatever may be counted: it says how much is missing.
    let cases: Vec<_> = measured(input).collect();
    let sum = |of: fn(&crate::summary::Cost) -> f64| -> f64 {
        cases.iter().map(|case| of(&case.end(NEAR).cost) + of(&case.end(FAR).cost)).sum()
    };
    let (user, system) = (sum(|cost| cost.user_ns), sum(|cost| cost.system_ns));
    let share = if user + system > 0.0 { system / (user + system) } else { f64::NAN };
    let missing = if share.is_finite() {
        format!("; of the CPU time {} % is the kernel's", super::wording::percent(share))
    } else {
        String::new()
    };
    let text = format!(
        "Only user mode was counted at {end}: what the kernel does for a message, its copies too, is in none of the \
         counts{missing}."
    );
    let next = vec!["sudo sysctl kernel.perf_event_paranoid=1".into()];
    vec![finding("W103", Confidence::Sure, text, [("kernel_share_of_cpu", share)], next)]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::FAR;

    #[test]
    fn speaks_where_the_kernel_is_not_counted() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.ends[FAR].events.user_only = true;
        for round in &mut run.rounds {
            (round.near_mut().user_ns, round.near_mut().system_ns) = (1_000_000, 3_000_000);
            (round.far_mut().user_ns, round.far_mut().system_ns) = (1_000_000, 3_000_000);
        }
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].contains("at the far end") && texts[0].contains("75 % is the kernel's"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_both_modes_are() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
