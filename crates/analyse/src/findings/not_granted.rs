//! W22: an option was granted otherwise than asked
//!
//! ## What it says
//!
//! Which option, at which end, what was asked and what the kernel granted.
//!
//! ## What it is computed from
//!
//! Every option is read back after it was set (`getsockopt`, `fcntl`, `mq_getattr`). The record keeps asked and granted
//! for each case.
//!
//! ## When it stays silent
//!
//! For options that nobody asked for; where the answer is what was asked; where the answer is too small for a whole
//! message (W34 says that).
//!
//! ## What to do
//!
//! As the sentence says: usually raise a limit (`net.core.wmem_max`, `net.core.rmem_max`, `fs.mqueue.msg_max`), or ask
//! for less.

use std::collections::{BTreeMap, BTreeSet};

use super::busy_poll_without_queue::NAPI;
use super::copied_frames::MODE;
use super::fell_back::MPTCP;
use super::other_size::too_small;
use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W22", detect };

/// Who got an answer: ends and paths.
type Who = (BTreeSet<String>, BTreeSet<String>);

fn detect(input: &Input) -> Vec<Sentence> {
    // The same answer (option, asked, granted) in many cases is one sentence.
    let mut refused: BTreeMap<[&str; 3], Who> = BTreeMap::new();
    for case in measured(input) {
        let other = [NAPI, MPTCP, MODE]; // which have a sentence of their own
        let asked = case.conditions.granted.iter().filter(|entry| !entry.same && entry.asked != "-");
        let refusals = asked.filter(|entry| !other.contains(&entry.option.as_str()));
        // What is too small for a whole message is more than a refusal: W34 says it.
        let entries = refusals.filter(|entry| !too_small(case, entry));
        for entry in entries {
            let who = refused.entry([&entry.option, &entry.asked, &entry.granted]).or_default();
            who.0.insert(format!("the {} end", entry.end));
            who.1.insert(case.case.path.to_string());
        }
    }
    let say = |([option, asked, granted], (ends, paths)): ([&str; 3], Who)| {
        let (ends, paths) = (Vec::from_iter(ends), Vec::from_iter(paths));
        let (why, fix) = meaning(option);
        let text = format!("{option} on {}: asked for {asked}, got {granted} ({})", list(&ends), list(&paths));
        warning("W22", text, why, fix, [("paths", paths.len() as f64)])
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
    use crate::testing::{Build, sentences};
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
        sentences(&run, "W22")
    }

    #[test]
    fn speaks_once_for_the_same_answer() {
        assert_eq!(
            texts("8388608", false),
            ["SO_SNDBUF on the far end and the near end: asked for 8388608, got 425984 (tcp:send and tcp:writev)"]
        );
    }

    #[test]
    fn is_silent_where_granted_or_not_asked() {
        assert!(texts("425984", true).is_empty());
        assert!(texts("-", false).is_empty());
    }
}
