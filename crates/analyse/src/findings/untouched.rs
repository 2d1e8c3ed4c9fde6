//! W130: payload untouched by the far end
//!
//! ## What it says
//!
//! Which echoes came back from a far end that read nothing of them (`splice`): it moved the pages from the connection into a pipe of its
//! own and from there back. Where other paths were measured as well, it says that their far ends had each message in memory.
//!
//! ## What it is computed from
//!
//! The trait `untouched` of the path. The far end of such a path has no receive call: bytes go from descriptor to descriptor by splice(2), and
//! the near end compares what comes back.
//!
//! ## When it stays silent
//!
//! For every other path, also for those that lend pages to a receiver that reads them (W121).
//!
//! ## What to do
//!
//! Take the figure for what it is: the least that a proxy costs. A server has to read its messages; `write` over the same transport shows
//! what that adds.

use std::collections::BTreeSet;

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W130", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let of = |untouched: bool| {
        let cases = measured(input).filter(move |case| case.case.traits.untouched == untouched);
        Vec::from_iter(cases.map(|case| case.case.path.to_string()).collect::<BTreeSet<_>>())
    };
    let (paths, others) = (of(true), of(false));
    if paths.is_empty() {
        return Vec::new();
    }
    let beside = if others.is_empty() { "" } else { "; the far ends of the other paths had each message in memory" };
    vec![warning(
        "W130",
        format!("payload untouched by the far end with {}{beside}", list(&paths)),
        "the far end moved the pages from the connection into a pipe and back and read none of them: that is what a proxy can do, \
         not what a server can that looks at its messages",
        "to compare with paths on which the far end has the message, any other send method",
        [("paths", paths.len() as f64), ("others", others.len() as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_every_far_end_that_touched_nothing() {
        let run = Build::echo(&["pipe:write", "pipe:splice", "tcp:splice"], &[65_536]).run();
        let expected = "payload untouched by the far end with pipe:splice and tcp:splice; the far ends of the other paths had \
                        each message in memory";
        assert_eq!(sentences(&run, "W130"), [expected]);
        let alone = Build::echo(&["unix:splice"], &[64]).run();
        assert_eq!(sentences(&alone, "W130"), ["payload untouched by the far end with unix:splice"]);
    }

    #[test]
    fn is_silent_where_the_far_end_has_the_message() {
        assert!(sentences(&Build::echo(&["pipe:vmsplice", "tcp:sendfile"], &[65_536]).run(), "W130").is_empty());
    }
}
