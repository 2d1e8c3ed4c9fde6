//! Of W20: the share of bytes that were mapped.

use super::wording::{finding, measured, message, percent};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W20", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    measured(input).filter(|case| case.case.traits.maps).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let reports = input.all[case.case.id as usize].iter().flat_map(|round| [round.near(), round.far()]);
    let (mapped, all) =
        reports.fold((0, 0), |(mapped, all), report| (mapped + report.calls.mapped_bytes, all + report.bytes_received));
    if all == 0 {
        return None;
    }
    let share = (mapped as f64 / all as f64).min(1.0);
    let rest = match mapped {
        0 => "none of the bytes received were mapped: all were copied".to_owned(),
        _ => format!("{} % of the bytes received were mapped, the rest copied", percent(share)),
    };
    let text = format!("{} {}: {rest}", case.case.path, message(&case.case));
    let numbers = [("mapped", mapped as f64), ("received", all as f64)];
    Some(finding("W20", Confidence::Sure, text, numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn texts(path: &str, mapped: u64) -> Vec<String> {
        let mut run = Build::echo(&[path], &[65_536]).run();
        for round in &mut run.rounds {
            for end in round.reports_mut() {
                (end.calls.mapped_bytes, end.bytes_received) = (mapped, 200_000);
            }
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn says_what_was_mapped() {
        let half = "sure: tcp:zerocopy/zc-receive 64 KiB: 50 % of the bytes received were mapped, the rest copied";
        assert_eq!(texts("tcp:zerocopy/zc-receive", 100_000), [half]);
        let none = "sure: tcp:send/zc-receive 64 KiB: none of the bytes received were mapped: all were copied";
        assert_eq!(texts("tcp:send/zc-receive", 0), [none]);
    }

    #[test]
    fn is_silent_where_nothing_is_to_be_mapped() {
        assert!(texts("tcp:zerocopy", 0).is_empty());
    }
}
