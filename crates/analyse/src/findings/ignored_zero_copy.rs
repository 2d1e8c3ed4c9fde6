//! Of W20: the zero-copy flag was ignored.

use std::collections::BTreeSet;

use msgpath_core::traits::Stack;

use super::wording::{evidence, list, measured};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Warning};

pub(super) const DETECTOR: Detector = Detector { code: "W20", detect };

/// Whether a case sends with the flag on sockets that do not have the option.
pub(super) fn unset(case: &CaseSummary) -> bool {
    case.case.traits.asks_in_vain
}

fn detect(input: &Input) -> Vec<Sentence> {
    [false, true].into_iter().filter_map(|unix| say(input, unix)).collect()
}

/// One sentence for the transports that have zero copy, one for those that do not.
fn say(input: &Input, unix: bool) -> Option<Sentence> {
    let mut sends = 0;
    let mut paths = BTreeSet::new();
    for case in measured(input).filter(|case| unset(case) && (case.case.traits.stack == Stack::Local) == unix) {
        // An answer would show that the kernel knows of the option after all.
        let Some(counts) = case.copied.zerocopy.filter(|counts| counts.zero_copied + counts.copied == 0) else {
            continue;
        };
        sends += counts.asked;
        paths.insert(case.case.path.to_string());
    }
    if sends == 0 {
        return None;
    }
    let paths = list(&Vec::from_iter(paths));
    let text =
        format!("MSG_ZEROCOPY was ignored in all {} sends of {paths}: none was answered on the error queue", sends);
    let (why, fix) = if unix {
        (
            "Unix sockets have no zero copy, and a send with the flag succeeds all the same: the rows measure copying",
            "leave the flag out; to save the copy on one machine, pass the bytes through shared memory (shm:ring)",
        )
    } else {
        (
            "without SO_ZEROCOPY on the socket the kernel copies and says nothing: the rows measure copying",
            "set SO_ZEROCOPY, check that it is on, and read the error queue, as tcp:zerocopy does",
        )
    };
    Some(Sentence::Warning(Warning {
        code: "W20".into(),
        text,
        why: why.into(),
        fix: fix.into(),
        evidence: evidence([("asked", sends as f64), ("answered", 0.0)]),
        strict: true,
    }))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};
    use msgpath_core::ZeroCopyCounts;
    use msgpath_record::Run;

    fn run(path: &str, copied: u64) -> Run {
        let mut run = Build::echo(&[path], &[65_536]).messages(20).run();
        for round in &mut run.rounds {
            round.near_mut().zerocopy =
                ZeroCopyCounts { asked: 20, copied, unanswered: 20 - copied, ..ZeroCopyCounts::default() };
        }
        run
    }

    #[test]
    fn speaks_where_the_flag_was_ignored() {
        assert_eq!(
            sentences(&run("tcp:zerocopy-unset", 0), &super::DETECTOR),
            ["MSG_ZEROCOPY was ignored in all 800 sends of tcp:zerocopy-unset: none was answered on the error queue"]
        );
        let warnings = summarise(&run("unix:zerocopy-unset", 0)).warnings;
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(warning.code == "W20" && warning.strict && warning.why.contains("Unix sockets have no zero copy"));
    }

    #[test]
    fn its_sends_are_no_part_of_what_zero_copy_paths_say() {
        let mut run = Build::echo(&["tcp:zerocopy", "tcp:zerocopy-unset"], &[65_536]).messages(20).run();
        for round in &mut run.rounds {
            let copied = if round.case == 0 { 20 } else { 0 };
            round.near_mut().zerocopy =
                ZeroCopyCounts { asked: 20, copied, unanswered: 20 - copied, ..Default::default() };
        }
        assert_eq!(
            sentences(&run, &crate::findings::copied_zero_copy::DETECTOR),
            ["the kernel copied 100 % of zero-copy sends (800 of 800)"],
            "W20 took the unanswered sends for its own"
        );
        assert_eq!(sentences(&run, &super::DETECTOR).len(), 1);
    }

    #[test]
    fn is_silent_where_the_kernel_answered_or_nothing_was_asked() {
        assert!(sentences(&run("tcp:zerocopy-unset", 1), &super::DETECTOR).is_empty());
        assert!(sentences(&run("tcp:zerocopy", 0), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:zerocopy-unset"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
