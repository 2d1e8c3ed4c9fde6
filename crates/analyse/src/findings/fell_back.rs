//! W120: MPTCP fell back to TCP
//!
//! ## What it says
//!
//! Which paths asked for MPTCP and got connections of plain TCP, and at which end the kernel says so. With `--strict` this is an error
//! (exit 5).
//!
//! ## What it is computed from
//!
//! The socket option TCP_IS_MPTCP (kernel 6.9), else whether MPTCP_INFO can be had, read from the connection before the first message.
//! Nothing else tells: every call succeeds, and SO_PROTOCOL still says 262.
//!
//! ## When it stays silent
//!
//! Where the kernel says that the connection is one of MPTCP; for other transports.
//!
//! ## What to do
//!
//! The other end must listen with an MPTCP socket: `sysctl net.mptcp.enabled` there, or start the program with `mptcpize run`. A
//! firewall or NAT that strips TCP options has the same effect. What was measured is TCP.

use std::collections::{BTreeMap, BTreeSet};

use super::wording::{evidence, list, measured};
use super::{Detector, Input, Sentence};
use crate::summary::Warning;

pub(super) const DETECTOR: Detector = Detector { code: "W120", detect };

/// The option of the granted ones by which the kernel says whether a connection of an MPTCP socket is one of MPTCP.
pub(super) const MPTCP: &str = "TCP_IS_MPTCP";

fn detect(input: &Input) -> Vec<Sentence> {
    let mut fell_back: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in measured(input) {
        for entry in case.conditions.granted.iter().filter(|entry| entry.option == MPTCP && !entry.same) {
            fell_back.entry(case.case.path.to_string()).or_default().insert(format!("the {} end", entry.end));
        }
    }
    if fell_back.is_empty() {
        return Vec::new();
    }
    let ends = list(&Vec::from_iter(fell_back.values().flatten().cloned().collect::<BTreeSet<_>>()));
    let paths = list(&Vec::from_iter(fell_back.keys().cloned()));
    vec![Sentence::Warning(Warning {
        code: "W120".into(),
        text: format!("the connections of {paths} fell back to plain TCP, as the kernel says at {ends}"),
        why: "no call fails and SO_PROTOCOL still says MPTCP, but the other end or something on the way does not speak it: \
              the rows measure TCP"
            .into(),
        fix: "a far end with MPTCP sockets (net.mptcp.enabled, mptcpize run), and nothing on the way that strips TCP options"
            .into(),
        evidence: evidence([("paths", fell_back.len() as f64)]),
        strict: true,
    })]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, sentences};

    fn texts(granted: &str) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send", "mptcp:send"], &[64]).run();
        grant(&mut run, 1, "TCP_IS_MPTCP", "1", granted);
        assert!(sentences(&run, "W22").is_empty(), "two sentences about one thing");
        sentences(&run, "W120")
    }

    #[test]
    fn speaks_where_the_kernel_says_that_it_is_tcp() {
        let expected = "the connections of mptcp:send fell back to plain TCP, as the kernel says at the near end";
        assert_eq!(texts("0"), [expected]);
    }

    #[test]
    fn is_silent_where_it_is_mptcp_or_nobody_asked() {
        assert!(texts("1").is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "W120").is_empty());
    }
}
