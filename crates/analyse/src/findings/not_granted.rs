//! W22: a path is not what was asked for
//!
//! * **An option** was granted otherwise than asked: which, where, both values.
//! * **Busy polling had no queue to poll**: the messages came from no device queue.
//! * **MPTCP fell back** to TCP. An error with `--strict`.
//! * **AF_XDP copies each frame**, or its program runs in generic mode.
//! * **The verdict program** of `sockmap` ran for fewer messages than there were. An error with `--strict`.
//!
//! ## What it rests on
//!
//! Options are read back after they were set (`getsockopt`, `fcntl`, `mq_getattr`); for `-o tos` the server reads the
//! class of the first packet. SO_INCOMING_NAPI_ID is 0 where no queue was polled. TCP_IS_MPTCP (kernel 6.9) or
//! MPTCP_INFO; XDP_OPTIONS; the verdict program counts its runs, at least one a message, and data segments in TCP_INFO
//! went through TCP. A limit too small for a whole message: W34.
//!
//! ## What to do
//!
//! * An option: raise the limit (`net.core.wmem_max`, `net.core.rmem_max`, `fs.mqueue.msg_max`) or ask for less. A lost
//!   traffic class: routers, `tc` filters, firewalls.
//! * Busy polling: a link with queues ([paths on a device](docs/paths.md#a-queue-that-is-polled)), a NIC that has them,
//!   or `spin`.
//! * MPTCP: an MPTCP socket at the other end (`net.mptcp.enabled`, `mptcpize run`); firewalls that strip TCP options.
//! * AF_XDP: a virtual link has no zero copy; generic mode makes a packet of each frame first. Neither shows what a NIC
//!   can do.
//! * Verdict program: a socket obeys one map; another program has it (`bpftool prog`, `bpftool map`). Until then the
//!   rows mix two ways.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::schema::{ARRIVED, Granted};

use super::other_size::too_small;
use super::wording::{evidence, list, measured, warning};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Warning};

pub(super) const DETECTOR: Detector = Detector { code: "W22", detect };

/// What the kernel says of a connection that is another one than its path promises, though no call failed.
struct Answer {
    option: &'static str,
    is_other: fn(&Granted) -> bool,
    /// With the paths and the ends.
    text: fn(&str, &str) -> String,
    why: &'static str,
    fix: &'static str,
    strict: bool,
}

const ANSWERS: [Answer; 4] = [
    Answer {
        option: "TCP_IS_MPTCP",
        is_other: |entry| !entry.same,
        text: |paths, ends| format!("the connections of {paths} fell back to plain TCP, as the kernel says at {ends}"),
        why: "no call fails and SO_PROTOCOL still says MPTCP, but the other end or something on the way does not speak it: the rows measure \
              TCP",
        fix: "a far end with MPTCP sockets (net.mptcp.enabled, mptcpize run), and nothing on the way that strips TCP options",
        strict: true,
    },
    // The id of the device queue that a packet came from.
    Answer {
        option: "NAPI",
        is_other: |entry| entry.granted == "0",
        text: |paths, _| format!("busy polling had no device queue to poll ({paths})"),
        why: "loopback and plain virtual links have no queue behind the socket, and the kernel says nothing: the rows measure an ordinary wait",
        fix: "--between lab --link napi=on, which gives both ends of a virtual link a queue (root); a second machine with a NIC whose driver \
              has one; or the wait spin",
        strict: false,
    },
    Answer {
        option: "XDP_OPTIONS",
        is_other: |entry| entry.granted == "copy",
        text: |paths, _| format!("AF_XDP copies each frame ({paths})"),
        why: "bind() asks for zero copy and silently does without where the driver has none, such as a virtual link: the frames bypass the \
              stack and are copied at each end",
        fix: "a NIC whose driver has AF_XDP with zero copy; what is measured here is AF_XDP on a device without",
        strict: false,
    },
    Answer {
        option: "XDP mode",
        is_other: |entry| entry.granted == "generic",
        text: |paths, ends| format!("the XDP program of {paths} runs in generic mode at {ends}"),
        why: "in generic mode the kernel has made a packet of each frame before the program sees it",
        fix: "a NIC whose driver runs XDP programs",
        strict: false,
    },
];

/// Who got an answer: ends and paths.
#[derive(Default)]
struct Who {
    ends: BTreeSet<String>,
    paths: BTreeSet<String>,
}

impl Who {
    fn add(&mut self, entry: &Granted, case: &CaseSummary) {
        self.ends.insert(format!("the {} end", entry.end));
        self.paths.insert(case.case.path.to_string());
    }

    fn ends(&self) -> String {
        list(&Vec::from_iter(self.ends.iter().cloned()))
    }

    fn paths(&self) -> String {
        list(&Vec::from_iter(self.paths.iter().cloned()))
    }
}

fn detect(input: &Input) -> Vec<Sentence> {
    ANSWERS.iter().filter_map(|answer| answered(input, answer)).chain(refused(input)).collect()
}

fn answered(input: &Input, answer: &Answer) -> Option<Sentence> {
    let mut who = Who::default();
    for case in measured(input) {
        let entries = case.conditions.granted.iter().filter(|entry| entry.option == answer.option);
        entries.filter(|entry| (answer.is_other)(entry)).for_each(|entry| who.add(entry, case));
    }
    (!who.paths.is_empty()).then(|| {
        Sentence::Warning(Warning {
            code: "W22".into(),
            text: (answer.text)(&who.paths(), &who.ends()),
            why: answer.why.into(),
            fix: answer.fix.into(),
            evidence: evidence([("paths", who.paths.len() as f64), ("ends", who.ends.len() as f64)]),
            strict: answer.strict,
        })
    })
}

/// Options that were granted otherwise than asked.
fn refused(input: &Input) -> Vec<Sentence> {
    // The same answer (option, asked, granted) in many cases is one sentence.
    let mut refused: BTreeMap<[&str; 3], Who> = BTreeMap::new();
    for case in measured(input) {
        let asked = case.conditions.granted.iter().filter(|entry| !entry.same && entry.asked != "-");
        let refusals = asked.filter(|entry| ANSWERS.iter().all(|answer| answer.option != entry.option));
        // What is too small for a whole message is more than a refusal: W34 says it.
        for entry in refusals.filter(|entry| !too_small(case, entry)) {
            refused.entry([&entry.option, &entry.asked, &entry.granted]).or_default().add(entry, case);
        }
    }
    let say = |([option, asked, granted], who): ([&str; 3], Who)| {
        let (why, fix) = meaning(option);
        let text = format!("{option} on {}: asked for {asked}, got {granted} ({})", who.ends(), who.paths());
        warning("W22", text, why, fix, [("paths", who.paths.len() as f64)])
    };
    refused.into_iter().map(say).collect()
}

/// What a refused option changes, and the cure.
fn meaning(option: &str) -> (&'static str, &'static str) {
    match option {
        "SO_SNDBUF" => {
            ("a full send buffer blocks the sender earlier than planned", "raise net.core.wmem_max, or ask for less")
        }
        "SO_RCVBUF" => (
            "a full receive buffer drops datagrams or stops the sender earlier than planned",
            "raise net.core.rmem_max, or ask for less",
        ),
        "TCP_NODELAY" => {
            ("small messages may wait for an acknowledgement", "leave TCP_NODELAY on, as it is by default")
        }
        "F_GETPIPE_SZ" => (
            "the pipe holds another number of bytes than planned, so its writer blocks at another point",
            "ask for a power of two of at most fs.pipe-max-size",
        ),
        ARRIVED => (
            "something on the way cleared or changed it, so nothing behind that treats the packets as asked",
            "look at the routers and switches between the ends, and at tc filters and firewall rules of both machines",
        ),
        "TCP_CORK" => {
            ("pieces of a message leave in other packets than planned", "use tcp:writev, which needs no cork")
        }
        "TCP_CONGESTION" => (
            "the rows measure another congestion control than asked for",
            "load the module, or add it to net.ipv4.tcp_allowed_congestion_control",
        ),
        "SO_BUSY_POLL" | "SO_PREFER_BUSY_POLL" => {
            ("the receiver waits by interrupt, not by polling", "run with CAP_NET_ADMIN, or use the wait spin")
        }
        option if option.starts_with("mq_") => (
            "the queue is shorter or its messages smaller than planned",
            "raise fs.mqueue.msg_max and fs.mqueue.msgsize_max",
        ),
        _ => (
            "the rows measure what was granted, not what was asked",
            "ask for what is granted, or change the limit that stands in the way",
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, sentences};
    use msgpath_core::schema::Granted;

    fn texts(asked: &str, same: bool) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        let granted = |end: &str| Granted {
            end: end.into(),
            option: "SO_SNDBUF".into(),
            asked: asked.into(),
            granted: "425984".into(),
            same,
        };
        let all = &mut run.end.as_mut().unwrap().granted;
        all.insert(0, vec![granted("near"), granted("far")]);
        all.insert(1, vec![granted("near")]);
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_once_for_the_same_answer() {
        assert_eq!(
            texts("8388608", false),
            ["SO_SNDBUF on the far end and the near end: asked for 8388608, got 425984 (tcp:send and tcp:writev)"]
        );
    }

    #[test]
    fn a_traffic_class_that_was_cleared_on_the_way_is_named() {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        let arrived = Granted {
            end: "far".into(),
            option: msgpath_core::schema::ARRIVED.into(),
            asked: "0xb8".into(),
            granted: "0x00".into(),
            same: false,
        };
        run.end.as_mut().unwrap().granted.insert(0, vec![arrived]);
        assert_eq!(
            sentences(&run, &super::DETECTOR),
            ["traffic class on arrival on the far end: asked for 0xb8, got 0x00 (udp:send)"]
        );
    }

    #[test]
    fn is_silent_where_granted_or_not_asked() {
        assert!(texts("425984", true).is_empty());
        assert!(texts("-", false).is_empty());
    }

    #[test]
    fn what_is_another_path_than_its_name_says_has_a_sentence_of_its_own() {
        for (path, [option, asked, other, same], expected) in [
            (
                "mptcp:send",
                ["TCP_IS_MPTCP", "1", "0", "1"],
                "the connections of mptcp:send fell back to plain TCP, as the kernel says at the near end",
            ),
            (
                "tcp:send/busy-poll",
                ["NAPI", "-", "0", "8193"],
                "busy polling had no device queue to poll (tcp:send/busy-poll)",
            ),
            ("xdp:send/poll", ["XDP_OPTIONS", "-", "copy", "zero copy"], "AF_XDP copies each frame (xdp:send/poll)"),
            (
                "xdp:send/poll",
                ["XDP mode", "native", "generic", "native"],
                "the XDP program of xdp:send/poll runs in generic mode at the near end",
            ),
        ] {
            let said = |granted: &str| {
                let mut run = Build::echo(&["unix:send", path], &[64]).run();
                grant(&mut run, 1, option, asked, granted);
                sentences(&run, &super::DETECTOR)
            };
            assert_eq!(said(other), [expected]);
            assert!(said(same).is_empty(), "{option}");
        }
    }
}
