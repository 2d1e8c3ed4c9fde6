//! Of W49: several checks of doctor warn.

use msgpath_core::doctor::CheckState;

use super::wording::{finding, list};
use super::{Detector, Input, Sentence};
use crate::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W49", detect };

/// So many are usual and need no sentence.
const USUAL: usize = 3;
/// More names than this are counted only.
const NAMED: usize = 5;

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(doctor) = &input.run.header.doctor else { return Vec::new() };
    let mut names: Vec<(u8, &str)> = doctor
        .checks
        .iter()
        .filter(|check| check.state == CheckState::Warn)
        .map(|check| (check.number, check.name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.len() <= USUAL || input.run.rounds.is_empty() {
        return Vec::new();
    }
    let mut named: Vec<String> = names.iter().take(NAMED).map(|(_, name)| (*name).to_string()).collect();
    if names.len() > NAMED {
        named.push(format!("{} more", names.len() - NAMED));
    }
    let text = format!(
        "{} doctor checks differ from those of a quiet machine: {}. Absolute values are those of this machine as it was.",
        names.len(),
        list(&named)
    );
    let numbers = [("checks_with_warnings", names.len() as f64)];
    vec![finding("W49", Confidence::Sure, text, numbers, vec!["msgpath doctor".into()])]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, doctor, sentences};
    use msgpath_core::doctor::CheckState::{Ok, Stop, Warn};

    fn texts(warned: &[u8]) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        let mut checks: Vec<_> = warned.iter().flat_map(|n| [(*n, "near", Warn, ""), (*n, "far", Warn, "")]).collect();
        checks.extend([(1, "near", Ok, ""), (20, "near", Stop, "")]);
        run.header.doctor = Some(doctor(&checks));
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_of_more_than_three() {
        assert_eq!(
            texts(&[3, 4, 9, 10]),
            [
                "sure: 4 doctor checks differ from those of a quiet machine: check 3, check 4, check 9 and check 10. Absolute values are those of this machine as it was."
            ]
        );
        assert!(texts(&[3, 4, 9, 10, 12, 14, 18])[0].contains("check 12 and 2 more"));
    }

    #[test]
    fn is_silent_about_three_and_about_stops() {
        assert!(texts(&[3, 4, 9]).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
