//! W20: what was to be saved was copied all the same
//!
//! ## What it says
//!
//! **Copied**: Of the sends that asked for zero copy the kernel copied this share after all, so the rows measure copying plus
//! bookkeeping. With `--strict` this is an error (exit 5).
//!
//! **Ignored**: How many sends carried MSG_ZEROCOPY on sockets without SO_ZEROCOPY, and that the kernel answered none of them. With
//! `--strict` this is an error (exit 5).
//!
//! **Mapped**: How much of what a receiver with `/zc-receive` took was mapped into its memory, and how much the kernel copied all the same. Every call
//! succeeds either way.
//!
//! ## What it is computed from
//!
//! **Copied**: What the kernel said: the *copied* flag of MSG_ZEROCOPY completions on the error queue, and the usage report of
//! io_uring's zero-copy sends. Sends without an answer at the end of their round are counted apart.
//!
//! **Ignored**: The paths with the method `zerocopy-unset`, which makes this mistake on purpose: it sets the flag and never the socket
//! option. Its sends are counted, and so are the completions on the error queue, of which there must be none.
//!
//! **Mapped**: Bytes that TCP_ZEROCOPY_RECEIVE said it had mapped (`mapped_bytes`), divided by the bytes received, both ends together.
//!
//! ## When it stays silent
//!
//! **Copied**: Without zero-copy paths; below 1 % copied; where no send was answered.
//!
//! **Ignored**: For every other method; where the kernel answered a send after all. Sends of `tcp:zerocopy` that were copied, or had no
//! answer yet, are the copied ones.
//!
//! **Mapped**: For every other wait.
//!
//! ## What to do
//!
//! **Copied**: Messages that stay on one machine (loopback, veth, containers) are always copied: measure between two machines or two
//! NICs. Between machines: check scatter-gather with `ethtool -k`, stop packet captures, keep datagrams below the MTU.
//!
//! **Ignored**: On TCP and UDP: set SO_ZEROCOPY, check that it is on, and read the error queue, as the path `tcp:zerocopy` does. Unix
//! sockets refuse the option and accept the flag: there is no zero copy to be had, and shared memory (`shm:ring`) saves the
//! copy through the kernel instead.
//!
//! **Mapped**: Only pages that hold nothing but payload, aligned as pages are, can be mapped. On one machine the sender decides: `send` puts messages where there is
//! room in a page, `zerocopy` hands over pages of its own. From a network the device must split headers from payload, and the segment
//! size must be a multiple of a page (TCP_MAXSEG 4108 with timestamps). Messages of less than a page are copied.

use msgpath_core::ZeroCopyCounts;

use super::ignored_zero_copy::unset;
use super::wording::{evidence, list, measured, percent};
use super::{Detector, Input, Sentence};
use crate::summary::Warning;

pub(super) const DETECTOR: Detector = Detector { code: "W20", detect };

/// A copy here and there does not change what the rows mean.
const WORTH_SAYING: f64 = 0.01;

/// The zero-copy bookkeeping of all cases that asked for it, and their paths; without those whose sockets do not have
/// the option (W20).
pub(super) fn totals(input: &Input) -> Option<(ZeroCopyCounts, String)> {
    let mut paths: Vec<String> = Vec::new();
    let mut sum = ZeroCopyCounts::default();
    for (case, counts) in
        measured(input).filter(|case| !unset(case)).filter_map(|case| Some((case, case.copied.zerocopy?)))
    {
        sum.add(&counts);
        let path = case.case.path.to_string();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    (!paths.is_empty()).then(|| (sum, list(&paths)))
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((counts, paths)) = totals(input) else { return Vec::new() };
    let answered = counts.copied + counts.zero_copied;
    if answered == 0 || (counts.copied as f64) < WORTH_SAYING * answered as f64 {
        return Vec::new();
    }
    let share = counts.copied as f64 / answered as f64;
    let mut text =
        format!("the kernel copied {} % of zero-copy sends ({} of {})", percent(share), counts.copied, answered);
    if counts.unanswered > 0 {
        text.push_str(&format!("; {} more had no answer when their round ended", counts.unanswered));
    }
    let here = input.run.header.one_machine();
    let meaning = format!("so the {paths} rows measure copying plus bookkeeping, not zero copy");
    let (why, fix) = if here {
        (
            format!("messages that stay on this machine are always copied (loopback, veth, containers), {meaning}"),
            "to measure it for real: a second machine, or two NICs joined by a link",
        )
    } else {
        (
            format!(
                "a device without scatter-gather, a tunnel, a datagram larger than the MTU or a packet capture makes the kernel copy, {meaning}"
            ),
            "check the device with ethtool -k, stop packet captures, keep datagrams below the MTU",
        )
    };
    vec![Sentence::Warning(Warning {
        code: "W20".into(),
        text,
        why,
        fix: fix.into(),
        evidence: evidence([
            ("asked", counts.asked as f64),
            ("copied", counts.copied as f64),
            ("zero_copied", counts.zero_copied as f64),
            ("unanswered", counts.unanswered as f64),
            ("copied_share", share),
        ]),
        strict: true,
    })]
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};
    use msgpath_core::ZeroCopyCounts;
    use msgpath_core::schema::FAR;

    fn run(zero_copied: u64, copied: u64) -> msgpath_record::Run {
        let mut run = Build::echo(&["tcp:send", "tcp:zerocopy"], &[65_536]).messages(20).run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            round.near_mut().zerocopy = ZeroCopyCounts {
                asked: 50,
                zero_copied,
                copied,
                unanswered: 50 - zero_copied - copied,
                ..Default::default()
            };
        }
        run
    }

    #[test]
    fn speaks_with_the_counts() {
        assert_eq!(
            sentences(&run(0, 50), &super::DETECTOR),
            ["the kernel copied 100 % of zero-copy sends (2000 of 2000)"]
        );
        let warning = summarise(&run(25, 20)).warnings.remove(0);
        assert!(
            warning.strict && warning.why.contains("loopback, veth") && warning.why.contains("tcp:zerocopy rows"),
            "{warning:?}"
        );
        assert!(
            warning.text.contains("44 %") && warning.text.ends_with("200 more had no answer when their round ended"),
            "{warning:?}"
        );
        let mut far = run(0, 50);
        far.header.host_mut(FAR).boot_id = "two".into();
        assert!(summarise(&far).warnings[0].fix.contains("MTU"));
    }

    #[test]
    fn is_silent_where_nothing_was_copied_or_asked() {
        assert!(sentences(&run(50, 0), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
