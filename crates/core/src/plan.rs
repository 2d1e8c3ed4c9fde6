//! A plan: the cases and their rounds in a random order that a stored seed reproduces.

use serde::{Deserialize, Serialize};

use crate::path::PathName;
use crate::units::Pieces;

/// The largest message, 1 GiB.
pub const MAX_SIZE: u64 = 1 << 30;
/// The most rounds of all cases together; keeps memory and the run folder bounded.
pub const MAX_ROUNDS: u64 = 20_000;
/// The most connections of one case.
pub const MAX_CONNECTIONS: u32 = 256;
/// Rounds of a case when nothing is asked (method: the unit of evidence is the round).
pub const DEFAULT_ROUNDS: u32 = 40;
/// Below this many rounds no interval is claimed.
pub const MIN_ROUNDS_FOR_CLAIMS: u32 = 5;
/// Messages dropped at the start of every connection.
pub const DEFAULT_TRIM: u64 = 100;
/// Messages of one run that the per-message log keeps.
pub const DEFAULT_MESSAGE_LOG: u64 = 2_000_000;

/// What the messages do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// There and back.
    Echo,
    /// One way, acknowledged at the end.
    Stream,
}

/// Why a case is in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseRole {
    /// The user asked for it.
    Measured,
    /// The baseline once more, hidden in the comparison: what differs between the two is noise (A/A).
    Control,
    /// Bulk transfer on the same path, to compare others with.
    Yardstick,
}

/// One path, size, pieces, thread count and load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// Position in [`Plan::cases`].
    pub id: u32,
    /// Why it is here.
    pub role: CaseRole,
    /// The path.
    pub path: PathName,
    /// Bytes of a message.
    pub size: u64,
    /// Bytes of the reply (echo).
    pub reply: u64,
    /// How the message is cut into buffers; `count * size == size of the message`.
    pub pieces: Pieces,
    /// Connections, all of them together.
    pub connections: u32,
    /// Measuring threads at each end; each serves `connections / threads` connections in turn.
    pub threads: u32,
    /// Messages under way on a connection (closed loop).
    pub inflight: u32,
}

/// How long a case is measured, all rounds together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Nanoseconds; the pilot turns them into messages.
    Time(u64),
    /// Messages.
    Count(u64),
}

/// Address family asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Whatever the name resolves to; 127.0.0.1 on this machine.
    #[default]
    Any,
    /// `-4`.
    V4,
    /// `-6`.
    V6,
}

/// Options of the connection. `None` is 'leave it as the kernel has it'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelOptions {
    /// TCP_NODELAY; on unless asked otherwise.
    pub nodelay: bool,
    /// TCP_CORK around the pieces of a message.
    pub cork: bool,
    /// SO_SNDBUF in bytes, as asked (the kernel doubles it).
    pub send_buffer: Option<u64>,
    /// SO_RCVBUF in bytes, as asked (the kernel doubles it).
    pub receive_buffer: Option<u64>,
    /// SO_BUSY_POLL in microseconds, for the wait `busy-poll`.
    pub busy_poll_us: u32,
    /// Congestion control of TCP.
    pub congestion: Option<String>,
    /// Address family.
    pub family: Family,
    /// Local address of the near end's sockets.
    pub bind: Option<String>,
    /// After how many ns a datagram counts as lost.
    pub loss_timeout_ns: u64,
    /// After how many ns without progress a connection counts as dead.
    pub stall_timeout_ns: u64,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            cork: false,
            send_buffer: None,
            receive_buffer: None,
            busy_poll_us: 50,
            congestion: None,
            family: Family::Any,
            bind: None,
            loss_timeout_ns: 250_000_000,
            stall_timeout_ns: 10_000_000_000,
        }
    }
}

/// Where stamps are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// At the near end only: two clock readings a message.
    #[default]
    Near,
    /// The far end stamps each arrival as well, one clock reading more.
    Both,
}

/// Which CPUs the measuring threads run on. Empty: not pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// CPUs of the near end's threads, used in turn.
    pub near: Vec<u32>,
    /// CPUs of the far end's threads, used in turn.
    pub far: Vec<u32>,
}

/// Everything that decides what a run does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Echo or stream.
    pub workload: Workload,
    /// `-R`: the far end sends (stream).
    pub reverse: bool,
    /// The cases; ids are positions.
    pub cases: Vec<Case>,
    /// The path that the others are divided by.
    pub baseline: PathName,
    /// Rounds of each case, over all restarts.
    pub rounds: u32,
    /// Fresh processes of the far end: rounds are spread evenly over them.
    pub restarts: u32,
    /// Reproduces the order of every pass.
    pub seed: u64,
    /// How long each case is measured.
    pub extent: Extent,
    /// Warm-up of each case before its first round, in ns.
    pub warmup_ns: u64,
    /// Messages dropped at the start of each connection.
    pub trim: u64,
    /// Connection options.
    pub options: ChannelOptions,
    /// CPUs.
    pub placement: Placement,
    /// Where stamps are taken.
    pub stamps: Stamps,
    /// Messages kept one by one; histograms count every message whatever this says.
    pub message_log: u64,
}

impl Plan {
    /// Rounds of all cases together.
    pub fn total_rounds(&self) -> u64 {
        self.cases.len() as u64 * u64::from(self.rounds)
    }

    /// Checks what no parser can see: products that overflow, sizes without a byte, limits of the tool.
    ///
    /// # Errors
    /// A [`Problem`](crate::Problem) with exit code 2.
    pub fn validate(&self) -> Result<(), crate::Problem> {
        use crate::{Exit, Problem};
        let usage = |what: String, hint: &str| Err(Problem::new("E11", Exit::Usage, what).hint(hint));
        if self.cases.is_empty() {
            return usage("nothing to measure".into(), "name a path, for example -x tcp:send");
        }
        if self.rounds == 0 || self.restarts == 0 || self.restarts > self.rounds {
            return usage(
                format!("{} rounds cannot be spread over {} restarts", self.rounds, self.restarts),
                "use at least one round a restart, for example -r 40 --restarts 3",
            );
        }
        if self.total_rounds() > MAX_ROUNDS {
            return usage(
                format!(
                    "{} cases of {} rounds are {} rounds; the limit is {MAX_ROUNDS}",
                    self.cases.len(),
                    self.rounds,
                    self.total_rounds()
                ),
                "fewer sizes, paths or thread counts, or a smaller -r",
            );
        }
        for case in &self.cases {
            if case.size == 0 || (self.workload == Workload::Echo && case.reply == 0) {
                return usage("a message of 0 bytes cannot be timed: nothing would arrive".into(), "-l 1 or more");
            }
            if case.size > MAX_SIZE || case.reply > MAX_SIZE {
                return usage("a message is at most 1 GiB".into(), "-l 1G or less");
            }
            if case.pieces.total() != case.size {
                return usage(
                    format!("{} pieces are {} bytes, the message has {}", case.pieces, case.pieces.total(), case.size),
                    "leave out -l when --pieces is given",
                );
            }
            if case.threads == 0 || case.connections == 0 || case.inflight == 0 || case.connections % case.threads != 0
            {
                return usage(
                    format!("{} connections cannot be shared evenly by {} threads", case.connections, case.threads),
                    "make -P a multiple of -T",
                );
            }
            if case.connections > MAX_CONNECTIONS {
                return usage(
                    format!("{} connections; the limit is {MAX_CONNECTIONS}", case.connections),
                    "a smaller -P",
                );
            }
            if u64::from(case.inflight) > 4096 {
                return usage(
                    format!("{} messages in flight; the limit is 4096", case.inflight),
                    "a smaller --inflight",
                );
            }
        }
        if let Extent::Count(count) = self.extent {
            let bytes = self.cases.iter().map(|case| case.size.max(case.reply)).max().unwrap_or(0).checked_mul(count);
            if count == 0 || bytes.is_none_or(|bytes| bytes > 1 << 50) {
                return usage(format!("{count} messages of this size are no run (1 message to 1 PiB)"), "a smaller -c");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn plan() -> Plan {
        Plan {
            workload: Workload::Echo,
            reverse: false,
            cases: vec![Case {
                id: 0,
                role: CaseRole::Measured,
                path: PathName::new("tcp", "send", "block"),
                size: 64,
                reply: 64,
                pieces: Pieces::whole(64),
                connections: 1,
                threads: 1,
                inflight: 1,
            }],
            baseline: PathName::new("tcp", "send", "block"),
            rounds: 40,
            restarts: 1,
            seed: 1,
            extent: Extent::Time(1_000_000_000),
            warmup_ns: 0,
            trim: 100,
            options: ChannelOptions::default(),
            placement: Placement::default(),
            stamps: Stamps::Near,
            message_log: 0,
        }
    }

    #[track_caller]
    fn refused(change: impl Fn(&mut Plan), part: &str) {
        let mut plan = plan();
        change(&mut plan);
        let problem = plan.validate().unwrap_err();
        assert_eq!(problem.exit, crate::Exit::Usage);
        assert!(problem.what.contains(part), "{problem}");
    }

    #[test]
    fn plans_that_cannot_be_run_are_refused() {
        assert_eq!(plan().validate(), Ok(()));
        refused(|plan| plan.cases[0].size = 0, "0 bytes");
        refused(|plan| plan.cases.clear(), "nothing");
        refused(|plan| plan.restarts = 41, "restarts");
        refused(|plan| plan.rounds = u32::MAX, "limit");
        refused(|plan| plan.cases[0].threads = 2, "evenly");
        refused(|plan| plan.cases[0].pieces = Pieces { count: 2, size: 3 }, "pieces");
        refused(|plan| plan.extent = Extent::Count(u64::MAX), "no run");
        refused(|plan| plan.cases[0].inflight = 5000, "flight");
    }

    #[test]
    fn a_plan_survives_json() {
        let plan = plan();
        assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    }
}
