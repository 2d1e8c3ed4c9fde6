//! Of W49: a debug build was measured.

use super::wording::warning;
use super::{Detector, Input, Sentence};
use msgpath_core::schema::{FAR, NEAR};

pub(super) const DETECTOR: Detector = Detector { code: "W49", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let header = &input.run.header;
    let debug =
        |facts: &std::collections::BTreeMap<String, String>| facts.get("build").is_some_and(|build| build == "debug");
    // How a program of others was built is not known.
    let ours = header.plan.cases.iter().any(|case| !case.traits.program);
    let end = match (debug(&header.host(NEAR).facts), ours && debug(&header.host(FAR).facts)) {
        (true, true) => "both ends are",
        (true, false) => "the near end is",
        (false, true) => "the far end is",
        (false, false) => return Vec::new(),
    };
    if input.run.rounds.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "W49",
        format!("{end} a debug build"),
        "its own code is several times slower than that of a release build and is part of every time",
        "build with cargo build --release",
        [],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::{FAR, NEAR};

    #[test]
    fn speaks_of_a_debug_build() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.host_mut(NEAR).facts.insert("build".into(), "debug".into());
        assert_eq!(sentences(&run, &super::DETECTOR), ["the near end is a debug build"]);
        run.header.host_mut(FAR).facts.insert("build".into(), "debug".into());
        assert_eq!(sentences(&run, &super::DETECTOR), ["both ends are a debug build"]);
        run.header.plan.cases[0].traits.program = true;
        assert_eq!(sentences(&run, &super::DETECTOR), ["the near end is a debug build"]);
    }

    #[test]
    fn is_silent_on_a_release_build() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.host_mut(NEAR).facts.insert("build".into(), "release".into());
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
