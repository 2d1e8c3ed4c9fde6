//! W21: what a path does not do, or does elsewhere
//!
//! * **The receiver still copies**: zero copy at the sender removes one of two copies.
//! * **Pages are lent** (`vmsplice`, `sendfile`, `procvm:fetch`): what the program writes into the buffer later is what
//!   the receiver reads. No call fails.
//! * **The server does not touch the payload** (`splice`): pages go through a pipe and back.
//! * **A kernel thread polls** for each end's io_uring (`/uring-sqpoll`): its CPU time a message, beside the cheapest
//!   other wait.
//!
//! ## What it rests on
//!
//! Zero-copy sends that were not copied (W20); the traits `lends` and `untouched` of the path, which tests check on the
//! running kernel; CPU time of the ends' threads and of the polling threads (`/proc/self/fdinfo` names them), both in
//! the CPU column. `zerocopy` lends too, but the kernel says when it is done.
//!
//! ## What to do
//!
//! * Do not expect the copy to vanish: the receive call makes its own.
//! * Lent pages: rotate as many buffers as messages can be unread: what a pipe holds (`F_GETPIPE_SZ`), or the send
//!   buffer and the peer's receive buffer. Acknowledged is not read; a reply is proof. Else copy (`write`, `send`).
//! * Untouched payload is the least that a proxy costs; compare `write` for what reading adds.
//! * A polling thread pays where one thread submits much. With one message in flight the receiver sleeps anyway.

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
