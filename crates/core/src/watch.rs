//! Requests of programs that nobody changed, as the programs in the kernel tell of them (`msgpath_sys::watch`): a row each, and what was
//! counted of each server.

use std::ops::{Deref, DerefMut};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! stages {
    ($($stage:ident $words:literal,)*) => {
        /// A part of a request's time, in the order of time. Those of one request add up to it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[schemars(rename = "WatchedStage")]
        #[repr(u8)]
        pub enum Stage {
            $($stage,)*
        }

        impl Stage {
            /// All of them, in the order of time.
            pub const ALL: [Stage; STAGES] = [$(Stage::$stage,)*];

            /// What people read.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Stage::$stage => $words,)*
                }
            }
        }

        /// Stages there are.
        pub const STAGES: usize = [$(Stage::$stage,)*].len();
    };
}

// The table of stages; those of work are in the order of the kinds of what a thread does (crates/sys/bpf/watch/types.h).
stages! {
    Send "send call to data ready",
    SendOut "send call, to another host",
    Softirq "receive softirq",
    Queued "queued behind other requests",
    WakeUp "wake-up call",
    InFlight "wake-up in flight",
    RunQueue "run-queue delay",
    Receive "server receives, on CPU",
    Stopped "server stopped",
    OtherThread "waiting for a thread",
    WorkOnCpu "work: on CPU",
    WorkInterrupts "work: interrupts",
    WorkPageFaults "work: page faults",
    WorkStolen "work: taken by the hypervisor",
    WorkRunnable "work: runnable, no CPU",
    WorkWaking "work: wake-ups",
    WorkPoll "work: poll",
    WorkSocket "work: socket call",
    WorkLock "work: lock (futex)",
    WorkDisk "work: disk",
    WorkSleep "work: sleep",
    WorkFault "work: page fault that blocks",
    WorkOther "work: another call",
    WorkStopped "work: stopped",
    WorkElsewhere "work: in a thread not followed",
    Held "reply held back",
    Away "link and the other host",
    Reply "reply's send call to data ready",
    ReplyOut "reply's send call, to another host",
    ClientSoftirq "back: receive softirq",
    ClientQueued "client busy with other replies",
    ClientWakeUp "back: wake-up call",
    ClientInFlight "back: wake-up in flight",
    ClientRunQueue "back: run-queue delay",
    ClientReceive "back: client receives, on CPU",
    ClientStopped "back: client stopped",
    ClientOtherThread "back: another thread receives",
    Rest "rest of the reply",
}

/// Times by [`Stage`], ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages(pub [u64; STAGES]);

impl Default for Stages {
    fn default() -> Self {
        Self([0; STAGES])
    }
}

impl Deref for Stages {
    type Target = [u64; STAGES];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Stages {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// What kept a thread from going on, and for how long: who woke it, who had the CPU before it, or who stopped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// How long the thread waited, ns; 0: it did not.
    pub ns: u64,
    /// Thread id. No thread woke it: [`by`] says what did.
    pub pid: i32,
    /// Of a block: number of the call; negative: none. Of a wait for a CPU: [`QUOTA`], or negative. Of a stop: the signal; 0: a tracer;
    /// negative: a freezer.
    pub call: i16,
    /// Of a block: the stage of work that it is part of, counted from [`Stage::WorkOnCpu`]; 0: not known.
    pub kind: u8,
    /// Where the waker ran, or the CPU that was waited for.
    pub cpu: u16,
    /// Name, up to the first 0.
    pub name: [u8; 16],
}

/// In the place of a call: the thread was kept from a CPU by the quota of its group.
pub const QUOTA: i16 = -2;

/// What ended a block, where no thread did: numbers in the place of its id.
pub mod by {
    /// An interrupt, of a timer or of a device.
    pub const INTERRUPT: i32 = 0;
    /// The interrupt or the softirq of a timer.
    pub const TIMER: i32 = -1;
    /// The softirq that received a packet.
    pub const PACKET: i32 = -2;
    /// The interrupt of a device, or a softirq behind it.
    pub const DEVICE: i32 = -3;
}

impl Culprit {
    /// Of a block: the stage of work that it is part of.
    pub fn stage(&self) -> Option<Stage> {
        let at = Stage::WorkOnCpu as usize + usize::from(self.kind);
        Stage::ALL.get(at).copied().filter(|stage| self.kind > 0 && *stage < Stage::WorkElsewhere)
    }
}

/// One request and its reply. The columns of its record say what each field is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRow {
    /// CLOCK_MONOTONIC, ns.
    pub t0_ns: u64,
    pub total_ns: u64,
    pub connection: u64,
    pub service: u32,
    pub flags: u32,
    /// How many requests this one of the sample stands for.
    pub weight: u32,
    pub turn: u32,
    pub bytes_there: u32,
    pub bytes_back: u32,
    pub server: i32,
    pub server_process: i32,
    pub client: i32,
    pub client_process: i32,
    pub faults: u32,
    pub port: u32,
    /// By [`Stage`], ns.
    pub stages: Stages,
    /// The wait for a CPU before the request was read, the longest block and the longest wait for a CPU while it was worked on,
    /// the client's wait for a CPU, and the last time that one of both was stopped.
    pub run_there: Culprit,
    pub block: Culprit,
    pub run_work: Culprit,
    pub run_back: Culprit,
    pub stop: Culprit,
    pub server_name: [u8; 16],
    pub client_name: [u8; 16],
    /// What was asked for, where the protocol is known: `GET`, `POST /login`, `SELECT`.
    pub what: [u8; 16],
}

impl RequestRow {
    /// The time of a stage, ns.
    pub fn stage(&self, stage: Stage) -> u64 {
        self.stages[stage as usize]
    }

    /// Whether the stages add up to the whole.
    pub fn adds_up(&self) -> bool {
        self.stages.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns)) == self.total_ns
    }
}

/// What was counted of one server: all requests, whether they have a row or not.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ServiceCounts {
    /// The number that rows name it by.
    pub service: u32,
    /// TCP or UDP port; 0: Unix sockets.
    pub port: u32,
    /// Process, where there is no port.
    pub process: i32,
    /// Address of the server, where it is on another host.
    #[serde(default)]
    pub host: String,
    /// Its requests and replies are datagrams.
    #[serde(default)]
    pub datagrams: bool,
    /// Requests that were split.
    pub requests: u64,
    /// Requests whose copies of a thread's totals did not fit together.
    pub torn: u64,
    /// Requests that were not seen from beginning to end.
    pub incomplete: u64,
    /// Turns on connections on which several requests were in flight.
    pub in_flight: u64,
    /// Data from the server that nobody had asked for.
    pub unasked: u64,
    /// Requests among `requests` that were told apart by their protocol; the others are turns.
    #[serde(default)]
    pub framed: u64,
    /// Times that the server received data while requests were followed.
    #[serde(default)]
    pub followed: u64,
    /// The same while none was: there were too many (windows of time).
    #[serde(default)]
    pub missed: u64,
    /// Connections that speak TLS.
    #[serde(default)]
    pub tls: u64,
    /// Turns of them that are no requests: flights of handshakes, and ends.
    #[serde(default)]
    pub handshakes: u64,
    /// Times of all requests that were split.
    pub times: Times,
}

impl ServiceCounts {
    /// Whether at most one turn in twenty was on a connection on which several requests were in flight and not told apart.
    pub fn is_told_apart(&self) -> bool {
        let turns = [self.requests, self.incomplete, self.in_flight, self.torn]
            .iter()
            .fold(0, |sum: u64, n| sum.saturating_add(*n));
        self.in_flight.saturating_mul(20) <= turns
    }

    /// Requests that were not followed: as many for each time that the server received data as those that were. 0: all were followed.
    pub fn not_followed(&self) -> u64 {
        if self.followed == 0 {
            return self.missed;
        }
        (self.missed as f64 * self.requests as f64 / self.followed as f64).round() as u64
    }
}

/// How many requests took how long: buckets that hold any, by number. 128 of them double the time, so a bucket is at most 0.8 %
/// wide; below 128 ns each holds one value.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Times(pub Vec<(u16, u64)>);

impl Times {
    /// Buckets that there may be.
    pub const BUCKETS: usize = 4480;

    /// The times of a bucket, ns: the least, and the least of the next.
    pub fn range(bucket: u16) -> (u64, u64) {
        let bucket = u64::from(bucket).min(Self::BUCKETS as u64 - 1);
        if bucket < 128 {
            return (bucket, bucket + 1);
        }
        let (octave, part) = (bucket / 128 - 1, bucket % 128);
        ((128 + part) << octave, (129 + part) << octave)
    }

    pub fn bucket(ns: u64) -> u16 {
        let bits = 63 - ns.max(1).leading_zeros();
        let octave = bits.saturating_sub(7);
        let bucket = u64::from(octave) * 128 + (ns >> octave);
        bucket.min(Self::BUCKETS as u64 - 1) as u16
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Times) {
        let mut all: std::collections::BTreeMap<u16, u64> = self.0.iter().copied().collect();
        other.0.iter().for_each(|(bucket, count)| *all.entry(*bucket).or_default() += count);
        self.0 = all.into_iter().collect();
    }

    /// What was counted after `before` was.
    #[must_use]
    pub fn since(&self, before: &Times) -> Times {
        let mut left: std::collections::BTreeMap<u16, u64> = self.0.iter().copied().collect();
        for (bucket, count) in &before.0 {
            left.entry(*bucket).and_modify(|now| *now = now.saturating_sub(*count));
        }
        Times(left.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// Requests counted.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The middle of the bucket in which the quantile `p` lies, ns. `None`: nothing was counted.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let rank = (p * self.total() as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.0.iter().find_map(|(bucket, count)| {
            seen = seen.saturating_add(*count);
            let (from, to) = Self::range(*bucket);
            (seen >= rank).then_some((from + to - 1) as f64 / 2.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_numbered_in_their_order() {
        assert!(Stage::ALL.iter().enumerate().all(|(at, stage)| *stage as usize == at));
    }

    #[test]
    fn buckets_follow_each_other_and_quantiles_lie_in_theirs() {
        for bucket in 0..Times::BUCKETS as u16 - 1 {
            let ((from, to), (next, _)) = (Times::range(bucket), Times::range(bucket + 1));
            assert!(
                to == next && (to - from) as f64 <= 1.0_f64.max(from as f64 / 127.0),
                "{bucket}: {from}..{to}, {next}"
            );
            assert_eq!([from, to - 1, to].map(Times::bucket), [bucket, bucket, bucket + 1]);
        }
        assert_eq!(usize::from(Times::bucket(u64::MAX)), Times::BUCKETS - 1);
        let mut sum = Times(vec![(3, 1), (9, 2)]);
        sum.add(&Times(vec![(1, 5), (9, 1)]));
        assert_eq!(sum, Times(vec![(1, 5), (3, 1), (9, 3)]));
        assert_eq!(sum.since(&Times(vec![(3, 1), (9, 1)])), Times(vec![(1, 5), (9, 2)]));
        let times = Times(vec![(100, 98), (1000, 1), (2000, 1)]);
        assert_eq!((times.total(), times.quantile(0.5), Times::default().quantile(0.5)), (100, Some(100.0), None));
        let (from, to) = Times::range(1000);
        assert!(times.quantile(0.99).is_some_and(|ns| (from as f64..to as f64).contains(&ns)));
    }

    #[test]
    fn a_row_adds_up_or_not() {
        let mut row = RequestRow { total_ns: 5, ..RequestRow::default() };
        row.stages[3] = 5;
        assert!(row.adds_up());
        row.stages[4] = u64::MAX;
        assert!(!row.adds_up());
    }
}
