//! Of W21: pages that are lent instead of copied, and a payload that the far end never touches.

use std::collections::BTreeSet;

use msgpath_core::traits::Traits;

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W21", detect };

/// A trait of a path that makes its numbers those of something else than handing a copy over.
struct Row {
    has: fn(&Traits) -> bool,
    /// With the paths that have it, and whether there are others.
    text: fn(&str, bool) -> String,
    why: &'static str,
    fix: &'static str,
}

const ROWS: [Row; 2] = [
    Row {
        has: |traits| traits.lends,
        text: |paths, _| {
            format!("with {paths} pages are lent: what is written into a buffer after the call is what arrives")
        },
        why: "one message in flight hides it, because the reply proves that the message was read; a stream that fills one \
              buffer again and again sends other bytes than it meant, without an error. msgpath uses as many buffers in turn as \
              messages can be on their way unread",
        fix: "do the same in your own program, or use write() or send(), which copy",
    },
    Row {
        has: |traits| traits.untouched,
        text: |paths, others| {
            let beside = if others { "; the far ends of the other paths had each message in memory" } else { "" };
            format!("payload untouched by the far end with {paths}{beside}")
        },
        why: "the far end moved the pages from the connection into a pipe and back and read none of them: that is what a proxy can do, \
              not what a server can that looks at its messages",
        fix: "to compare with paths on which the far end has the message, any other send method",
    },
];

fn detect(input: &Input) -> Vec<Sentence> {
    ROWS.iter().filter_map(|row| say(input, row)).collect()
}

fn say(input: &Input, row: &Row) -> Option<Sentence> {
    let of = |has: bool| {
        let cases = measured(input).filter(move |case| (row.has)(&case.case.traits) == has);
        Vec::from_iter(cases.map(|case| case.case.path.to_string()).collect::<BTreeSet<_>>())
    };
    let (paths, others) = (of(true), of(false));
    let numbers = [("paths", paths.len() as f64), ("others", others.len() as f64)];
    let text = || (row.text)(&list(&paths), !others.is_empty());
    (!paths.is_empty()).then(|| warning("W21", text(), row.why, row.fix, numbers))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_every_path_that_lends() {
        let run = Build::echo(&["tcp:sendfile", "procvm:fetch/futex"], &[64]).run();
        let expected = "with procvm:fetch/futex and tcp:sendfile pages are lent: what is written into a buffer after the call is what \
                        arrives";
        assert_eq!(sentences(&run, &super::DETECTOR), [expected]);
        let run = Build::echo(&["pipe:write", "pipe:vmsplice", "fifo:vmsplice/spin"], &[65_536]).run();
        let expected = "with fifo:vmsplice/spin and pipe:vmsplice pages are lent: what is written into a buffer after the \
                        call is what arrives";
        assert_eq!(sentences(&run, &super::DETECTOR), [expected]);
    }

    #[test]
    fn is_silent_where_the_kernel_copies() {
        assert!(sentences(&Build::echo(&["pipe:write", "tcp:zerocopy"], &[65_536]).run(), &super::DETECTOR).is_empty());
    }

    #[test]
    fn speaks_of_every_far_end_that_touched_nothing() {
        let run = Build::echo(&["pipe:write", "pipe:splice", "tcp:splice"], &[65_536]).run();
        let expected = "payload untouched by the far end with pipe:splice and tcp:splice; the far ends of the other paths had \
                        each message in memory";
        assert_eq!(sentences(&run, &super::DETECTOR), [expected]);
        let alone = Build::echo(&["unix:splice"], &[64]).run();
        assert_eq!(sentences(&alone, &super::DETECTOR), ["payload untouched by the far end with unix:splice"]);
    }

    #[test]
    fn is_silent_of_far_ends_that_have_the_message() {
        let said = sentences(&Build::echo(&["pipe:vmsplice", "tcp:sendfile"], &[65_536]).run(), &super::DETECTOR);
        assert!(said.iter().all(|text| !text.contains("untouched")), "{said:?}");
    }
}
