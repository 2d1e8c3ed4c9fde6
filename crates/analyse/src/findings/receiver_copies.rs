//! W21: the receiver still copies
//!
//! ## What it says
//!
//! Zero copy at the sender removes one of two copies.
//!
//! ## What it is computed from
//!
//! The same answers of the kernel as W20: at least one send was really not copied.
//!
//! ## When it stays silent
//!
//! Where nothing was sent without a copy.
//!
//! ## What to do
//!
//! Nothing: this is how the system call works. Do not expect the cost to vanish.

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
        sentences(&run, "W21")
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
