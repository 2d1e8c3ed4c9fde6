//! W121: pages are lent, not copied
//!
//! ## What it says
//!
//! Which paths hand the pages of a message over as they are (`vmsplice`, `sendfile`, `procvm:fetch`): nothing is copied at the call, and what
//! the program writes into the buffer afterwards is what the receiver reads. No call fails.
//!
//! ## What it is computed from
//!
//! The trait `lends` of the path, which tests of `crates/sys` and `crates/paths` prove on the kernel that they run on: a page is handed over,
//! changed, and read; after `write()` the reader finds what was sent, after `vmsplice()`, after `sendfile()` over loopback and from the memory of
//! another process what it was changed to.
//!
//! ## When it stays silent
//!
//! For every other path. `zerocopy` lends as well, but the kernel says when it is done, and msgpath waits for that.
//!
//! ## What to do
//!
//! Use as many buffers in turn as messages can be on their way unread, and compare contents, not lengths. For a pipe that is what it holds
//! (`F_GETPIPE_SZ`; one slot holds one page, however little of it is used). For a TCP connection within a machine it is the send buffer and
//! the receive buffer of the other end: that the bytes were acknowledged does not mean that they were read. Where an answer proves that a
//! message was read, its buffer is free again. Where that is too much, `write()` and `send()` copy.

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
