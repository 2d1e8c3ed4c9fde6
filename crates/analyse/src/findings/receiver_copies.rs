//! W21: what a path does not do, or does elsewhere
//!
//! ## What it says
//!
//! * **The receiver still copies**: zero copy at the sender removes one of two copies.
//! * **Pages are lent, not copied** (`vmsplice`, `sendfile`, `procvm:fetch`): nothing is copied at the call, and what the program writes into
//!   the buffer afterwards is what the receiver reads. No call fails.
//! * **The payload is untouched by the far end** (`splice`), which moves pages from the connection into a pipe of its own and back.
//! * **A thread of the kernel polls** for each end's io_uring (`/uring-sqpoll`): how much CPU time a message takes, and how much less with the
//!   cheapest other wait over the same transport and send method, where that was measured beside it.
//!
//! ## What it is computed from
//!
//! At least one zero-copy send that the kernel did not copy (as W20). The traits `lends` and `untouched` of the path: tests prove on the
//! kernel that they run on that the reader of a page finds what it was changed to, and the far end of an untouched payload has no receive call.
//! CPU time of the ends' threads (getrusage) and of the polling threads, which each ring names in `/proc/self/fdinfo`
//! (`/proc/self/task/TID/schedstat`); both are in the CPU column.
//!
//! ## When it stays silent
//!
//! For every other path; where nothing was sent without a copy; where the CPU time of an end is not known. `zerocopy` lends as well, but the
//! kernel says when it is done, and msgpath waits for that.
//!
//! ## What to do
//!
//! * Do not expect the cost of a copy to vanish: the receive call makes its own.
//! * Lent pages: as many buffers in turn as messages can be on their way unread, and compare contents, not lengths. For a pipe that is what it
//!   holds (`F_GETPIPE_SZ`; a slot holds one page, however little of it is used); for a TCP connection within a machine the send buffer and the
//!   receive buffer of the other end: acknowledged is not read. An answer that proves that a message was read frees its buffer. Where that is
//!   too much, `write()` and `send()` copy.
//! * An untouched payload is the least that a proxy costs. A server reads its messages; `write` over the same transport shows what that adds.
//! * A polling thread pays where one thread submits much; with one message in flight the receiver sleeps in the kernel until the reply is
//!   there. Another wait, or one more CPU for each end and connection.

use super::wording::warning;
use super::{Detector, Input, Sentence, copied_zero_copy};

pub(super) const DETECTOR: Detector = Detector { code: "W21", detect };

/// Only where some sends really were not copied: else there is nothing that it could be mistaken for.
fn detect(input: &Input) -> Vec<Sentence> {
    match copied_zero_copy::totals(input) {
        Some((counts, paths)) if counts.zero_copied > 0 => vec![warning(
            "W21",
            format!("the receiver still copies: {paths} removes one of two copies"),
            "the sender's copy is saved, the receive call copies as always",
            "none: it is how the system call works",
            [("zero_copied", counts.zero_copied as f64)],
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::ZeroCopyCounts;

    fn texts(zero_copied: u64) -> Vec<String> {
        let mut run = Build::echo(&["tcp:zerocopy"], &[65_536]).messages(20).run();
        for round in &mut run.rounds {
            round.near_mut().zerocopy =
                ZeroCopyCounts { asked: 50, zero_copied, copied: 50 - zero_copied, ..Default::default() };
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_sends_were_not_copied() {
        assert_eq!(texts(50), ["the receiver still copies: tcp:zerocopy removes one of two copies"]);
    }

    #[test]
    fn is_silent_where_all_were() {
        assert!(texts(0).is_empty());
    }
}
