//! W20: what was to be saved was copied all the same
//!
//! * **Copied**: the share of zero-copy sends that the kernel copied after all. An error with `--strict`.
//! * **Ignored**: sends with MSG_ZEROCOPY on a socket without SO_ZEROCOPY; the kernel answered none. An error with
//!   `--strict`.
//! * **Mapped**: with `/zc-receive`, how much was mapped and how much was copied. Every call succeeds either way.
//!
//! ## What it rests on
//!
//! * **Copied**: the *copied* flag of completions on the error queue, and io_uring's usage report; from 1 % on. Sends
//!   without an answer are counted apart.
//! * **Ignored**: the path `zerocopy-unset`, which makes this mistake on purpose: its sends, and its completions, of
//!   which there are none.
//! * **Mapped**: bytes that TCP_ZEROCOPY_RECEIVE mapped, by bytes received.
//!
//! ## What to do
//!
//! * **Copied**: within one machine (loopback, veth, containers) everything is copied: measure between two. There,
//!   check scatter-gather (`ethtool -k`), stop packet captures, keep datagrams below the MTU.
//! * **Ignored**: set SO_ZEROCOPY and read the error queue. Unix sockets have no zero copy; `shm:ring` avoids the
//!   kernel's copy.
//! * **Mapped**: only aligned pages of pure payload can be mapped. On one machine use the sender `zerocopy`; from a
//!   network the device must split headers, with segments of whole pages (TCP_MAXSEG 4108 with timestamps).

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
