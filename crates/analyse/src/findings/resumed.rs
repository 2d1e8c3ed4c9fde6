//! Of W49: the run was resumed on a machine that had changed.

use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W49", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let changed: Vec<_> = input.run.header.resumed.iter().filter(|resumed| !resumed.differs.is_empty()).collect();
    let Some(first) = changed.first() else { return Vec::new() };
    let differs: Vec<&str> = changed.iter().flat_map(|resumed| &resumed.differs).map(String::as_str).collect();
    vec![warning(
        "W49",
        format!("the run was resumed although {}", differs.join("; ")),
        "its rounds before and after do not belong to one state of the machine; both are in every number",
        "measure it again in one go",
        [("rounds_before", first.rounds as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use msgpath_core::resume::Resumption;

    use crate::testing::{Build, sentences};

    fn resumed(differs: &[&str]) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        let differs = differs.iter().map(|text| (*text).to_owned()).collect();
        run.header.resumed.push(Resumption { rounds: 7, differs, ..Resumption::default() });
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_the_machine_changed() {
        let texts = resumed(&["the kernel was 6.1, now it is 6.2"]);
        assert_eq!(texts, ["the run was resumed although the kernel was 6.1, now it is 6.2"]);
    }

    #[test]
    fn is_silent_where_nothing_did() {
        assert!(resumed(&[]).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
