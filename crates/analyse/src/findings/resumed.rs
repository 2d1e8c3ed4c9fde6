//! W115: the run was resumed on a machine that had changed
//!
//! ## What it says
//!
//! What was not as it had been when `msgpath resume --force` went on with the run: the boot, the kernel, the CPUs, the host, the
//! back end that traces, or the version of msgpath.
//!
//! ## What it is computed from
//!
//! `resumed` of the record, which has one entry for each time that the run went on ([resume.md](docs/resume.md)).
//!
//! ## When it stays silent
//!
//! Where a run was never cut short, or went on where nothing that is looked at had changed. Then its parts differ as restarts do:
//! V12 says by how much.
//!
//! ## What to do
//!
//! Measure again in one go. The numbers hold rounds of both states; the median of all of them is that of neither.

use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W115", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let changed: Vec<_> = input.run.header.resumed.iter().filter(|resumed| !resumed.differs.is_empty()).collect();
    let Some(first) = changed.first() else { return Vec::new() };
    let differs: Vec<&str> = changed.iter().flat_map(|resumed| &resumed.differs).map(String::as_str).collect();
    vec![warning(
        "W115",
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
        sentences(&run, "W115")
    }

    #[test]
    fn speaks_where_the_machine_changed() {
        let texts = resumed(&["the kernel was 6.1, now it is 6.2"]);
        assert_eq!(texts, ["the run was resumed although the kernel was 6.1, now it is 6.2"]);
    }

    #[test]
    fn is_silent_where_nothing_did() {
        assert!(resumed(&[]).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "W115").is_empty());
    }
}
