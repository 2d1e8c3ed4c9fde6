//! What the header of a run by a clock has beside: who sent, when each was ready, what each counted.

use msgpath_core::parts::Part;
use serde::{Deserialize, Serialize};

impl Part for PeriodicFacts {
    const NAME: &str = "periodic";
}

/// What is known of a periodic run as a whole. Its latencies run from the time when a message was made to its delivery,
/// both on the one CLOCK_MONOTONIC of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodicFacts {
    pub processes: u32,
    /// Components (a sending and a receiving thread each) in every process.
    pub components: u32,
    /// Time between two messages of a component, ns.
    pub period_ns: u64,
    /// A message is made up to so many ns after its time, by chance from the seed of the plan.
    pub jitter_ns: u64,
    /// Messages of a component in a session.
    pub messages: u64,
    /// The first so many of them are apart from the steady rest ([`RoundRecord::first`](msgpath_core::schema::RoundRecord::first)).
    pub first: u64,
    /// How the components start: `barrier`, `staggered`, `storm`.
    pub start: String,
    /// Authentication of messages: `none`, `hmac`, `poly1305`.
    pub mac: String,
    /// CPUs that all of them share.
    pub cpus: u32,
    /// The multicast group, where there is one: then the first component sends alone, and the others receive alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
    /// One entry per engine and restart, in the order in which they ran.
    pub sessions: Vec<PeriodicSession>,
}

impl PeriodicFacts {
    /// Components that receive: of a group all but the sender.
    pub fn receivers(&self) -> u32 {
        self.processes.saturating_mul(self.components).saturating_sub(u32::from(self.group.is_some()))
    }

    /// CPUs that all receivers share; `None`: they are on other hosts.
    pub fn shared_cpus(&self) -> Option<u32> {
        let on_hosts = self.group.as_ref().is_some_and(|group| !group.hosts.is_empty());
        (!on_hosts).then_some(self.cpus)
    }

    /// What people call a component: its number from 1; the receivers of a group are counted without the sender.
    pub fn called(&self, component: u32) -> u32 {
        if self.group.is_some() { component } else { component + 1 }
    }
}

/// The multicast group of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFacts {
    /// As typed, with its port: `udp://239.1.1.1%eth0:5210`.
    pub group: String,
    /// TTL (IPv4) or hop limit (IPv6) that was asked for.
    pub hops: u8,
    /// The device that receivers were told to join on; `None`: that of the group, or of their route.
    pub join: Option<String>,
    /// Hosts of the receivers, one each, where a launcher started them there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// How the component that sends to a group sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendsToGroup {
    /// The device that its datagrams leave by.
    pub device: String,
    /// Its place (`--between`); empty: that of the run.
    pub place: String,
    /// TTL or hop limit as the kernel granted it.
    pub hops: u32,
    /// Whether receivers in the same network namespace hear it (IP_MULTICAST_LOOP), as granted.
    pub looped: bool,
}

/// What a component that receives from a group saw of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedGroup {
    /// The device on which it joined.
    pub device: String,
    /// Its place (`--between`) or its host; empty: that of the run.
    pub place: String,
    /// SO_RCVBUF as granted, bytes with the kernel's own part.
    pub buffer: u64,
    /// Datagrams that its socket had no room for; `None`: the kernel does not count them.
    pub overflowed: Option<u64>,
    /// Smallest and largest TTL or hop limit that arrived; `None`: nothing arrived.
    pub hops: Option<(u8, u8)>,
    /// The device by which the last datagram came, where it is another.
    pub came_by: Option<String>,
    /// Whether the kernel listed the membership when the last message was due; `None`: its list could not be read.
    pub member: Option<bool>,
    /// The version of IGMP that the kernel speaks on the device (`V3`); `None`: IPv6, or not listed.
    pub igmp: Option<String>,
    /// The router on its way back to the sender; `None`: none, or no way is known.
    pub router: Option<String>,
    /// Messages that arrived, each once.
    pub delivered: u64,
    /// Messages that did not arrive.
    pub lost: u64,
    /// Most of them in a row.
    pub lost_in_a_row: u64,
    /// Messages that came behind a newer one.
    pub reordered: u64,
    /// Messages that came again.
    pub duplicated: u64,
    /// How its clock stands to the sender's; `None`: it is the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<OtherClock>,
}

/// The clock of a receiver on another host, as it was read over the control channel before and after a session. The times of this receiver
/// are recorded by the sender's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherClock {
    /// What was added to its clock at the start of the session, ns.
    pub offset_ns: i64,
    /// How far from the truth that, and what was added later, can be, ns.
    pub within_ns: u64,
}

/// All processes of one engine, from their start to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodicSession {
    /// Case: the engine.
    pub case: u32,
    pub restart: u32,
    /// When the processes were told to start, ns since the start of the run; `None`: each when it was ready (storm).
    pub go_ns: Option<u64>,
    /// Messages that were made before their receiver was ready (storm): neither delivered nor lost.
    pub before_ready: u64,
    /// The components, by number.
    pub components: Vec<Component>,
}

/// One component of a periodic run: a sending and a receiving thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Process, from 0.
    pub process: u32,
    /// Its process id.
    pub pid: i32,
    /// Thread id of the sender.
    pub sender: i32,
    /// Thread id of the receiver.
    pub receiver: i32,
    /// When the process was started, ns since the start of the run.
    pub spawned_ns: u64,
    /// The stages of its set-up in order, and how long each took, ns.
    pub setup: Vec<(String, u64)>,
    /// When it was ready to receive, ns since the start of the run.
    pub ready_ns: u64,
    /// The first calls of the message authentication, timed one by one, ns: the first one is cold.
    pub mac_calls: Vec<u64>,
    /// Messages sent.
    pub sent: u64,
    /// Messages made more than a period after their time: the sender missed its own deadline.
    pub late: u64,
    /// The latest of them, ns after its time.
    pub latest_ns: u64,
    /// Messages that this component received.
    pub received: u64,
    /// Messages delivered more than a period after the time at which they were due to be made.
    pub missed: u64,
    /// Messages whose authentication did not fit; they are not delivered.
    pub forged: u64,
    /// Slots that were overwritten before this component read them (shared memory).
    pub overrun: u64,
    /// Signals of which the handler's stamp is known, and the time from there to the receive call's return, ns, summed.
    pub handled: (u64, u64),
    /// Time from the first to the last message that the sender was runnable and did not run, ns; `None`: not readable.
    pub sender_delay_ns: Option<u64>,
    /// The same of the receiver.
    pub receiver_delay_ns: Option<u64>,
    /// How it sends to the group; `None`: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends: Option<SendsToGroup>,
    /// What it saw of the group; `None`: it did not join one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedGroup>,
}
