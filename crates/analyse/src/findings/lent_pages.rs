//! W121: pages that are lent, and what a program that fills them again sends.

use std::collections::BTreeSet;

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W121", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let lending = measured(input).filter(|case| case.case.traits.lends).map(|case| case.case.path.to_string());
    let paths = Vec::from_iter(lending.collect::<BTreeSet<_>>());
    if paths.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "W121",
        format!("with {} pages are lent: what is written into a buffer after the call is what arrives", list(&paths)),
        "one message in flight hides it, because the reply proves that the message was read; a stream that fills one \
         buffer again and again sends other bytes than it meant, without an error. msgpath uses as many buffers in turn as \
         messages can be on their way unread",
        "do the same in your own program, or use write() or send(), which copy",
        [("paths", paths.len() as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_every_path_that_lends() {
        let run = Build::echo(&["tcp:sendfile", "procvm:fetch/futex"], &[64]).run();
        let expected = "with procvm:fetch/futex and tcp:sendfile pages are lent: what is written into a buffer after the call is what \
                        arrives";
        assert_eq!(sentences(&run, "W121"), [expected]);
        let run = Build::echo(&["pipe:write", "pipe:vmsplice", "fifo:vmsplice/spin"], &[65_536]).run();
        let expected = "with fifo:vmsplice/spin and pipe:vmsplice pages are lent: what is written into a buffer after the \
                        call is what arrives";
        assert_eq!(sentences(&run, "W121"), [expected]);
    }

    #[test]
    fn is_silent_where_the_kernel_copies() {
        assert!(sentences(&Build::echo(&["pipe:write", "tcp:zerocopy"], &[65_536]).run(), "W121").is_empty());
    }
}
