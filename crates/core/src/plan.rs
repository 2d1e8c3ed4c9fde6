//! A plan: the cases and their rounds in a random order that a stored seed reproduces.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::explained::{self, Explained};
use crate::gate::Gate;
use crate::launch::Launch;
use crate::parts::Parts;
use crate::path::{PathName, Setting};
use crate::program::{Program, Talk};
use crate::schedule::{Arrivals, LEAST_IN_A_ROUND, Rate};
use crate::schema::NEAR;
use crate::settling::State;
use crate::traits::Traits;
use crate::units::Pieces;
use crate::workload::Workload;

/// The largest message, 1 GiB.
pub const MAX_SIZE: u64 = 1 << 30;
/// Most bytes that a receive call may be told to ask for.
pub const MAX_READ_SIZE: u64 = 16 << 20;
/// The most rounds of all cases together; keeps memory and the run folder bounded.
pub const MAX_ROUNDS: u64 = 20_000;
/// The most connections of one case.
pub const MAX_CONNECTIONS: u32 = 10_000;
/// The most measuring threads of one case at an end.
pub const MAX_THREADS: u32 = 256;
/// The longest work for a message, 10 s.
pub const MAX_SERVICE_TIME_NS: u64 = 10_000_000_000;
/// The most bytes that buffers rotate over, 1 GiB.
pub const MAX_WORKING_SET: u64 = 1 << 30;
/// The largest share of a capacity that can be asked for, millionths.
pub const MAX_SHARE_PPM: u32 = 4_000_000;
/// Messages in flight on a connection of an open loop before its sender is held up.
pub const OPEN_INFLIGHT: u32 = 4096;
/// Rounds of a case when nothing is asked.
pub const DEFAULT_ROUNDS: u32 = 40;
/// So many the pilot leaves of them where it makes them longer (echo).
pub const FEWEST_ROUNDS: u32 = 10;
/// Below this many rounds no interval is claimed.
pub const MIN_ROUNDS_FOR_CLAIMS: u32 = 5;
/// What explains a case is measured in one of so many passes.
const COUNTED_EVERY: u32 = 5;
/// It is measured in at least so many passes, where there are so many: fewer pairs would show nothing (docs/method/comparison.md).
const FEWEST_COUNTED: u32 = 7;
/// Messages dropped at the start of every connection.
pub const DEFAULT_TRIM: u64 = 100;
/// Messages of one run that the per-message log keeps.
pub const DEFAULT_MESSAGE_LOG: u64 = 2_000_000;

/// EtherTypes of the transport eth, there and back: IEEE 802 sets both aside for local experiments.
pub const ETHERTYPES: (u16, u16) = (0x88b5, 0x88b6);

/// How much of the kernel is traced to split a message's time into stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageSet {
    /// The few events that bound the stages: what costs least.
    Light,
    /// Every event, the system calls and who else ran on these CPUs as well.
    Full,
}

impl StageSet {
    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            StageSet::Light => "light",
            StageSet::Full => "full",
        }
    }
}

/// Why a case is in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseRole {
    /// The user asked for it.
    Measured,
    /// The baseline once more, hidden in the comparison: what differs between the two is noise (A/A).
    Control,
    /// Bulk transfer on the same path, to compare others with.
    Reference,
    /// A measured case with one suspected cause changed, measured beside it ([`Case::ablation`]).
    Ablation,
}

/// How messages are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// The next message goes when a reply has come.
    #[default]
    Closed,
    /// Messages go when a schedule says so, whatever the far end does.
    Open {
        /// Messages a second, all connections together.
        #[serde(rename = "rate_per_s", alias = "rate")]
        rate: Rate,
        /// How the gaps between them are distributed.
        arrivals: Arrivals,
    },
}

impl Load {
    /// The rate of an open loop.
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Load::Closed => None,
            Load::Open { rate, .. } => Some(*rate),
        }
    }
}

/// How a thread serves several connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// In turn: it waits for each of them.
    #[default]
    Turns,
    /// Whichever is ready, from one epoll set, at both ends.
    EventLoop,
}

impl Dispatch {
    /// Whether connections are served in turn.
    pub fn is_turns(&self) -> bool {
        *self == Dispatch::Turns
    }
}

/// A load whose rate is a share of the capacity of its path. The capacity is found before the first round, and the rate of
/// the case is then the absolute one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct OfCapacity {
    /// Share of the capacity, 1 for all of it; kept in millionths.
    #[serde(rename = "share", alias = "share_ppm", with = "share")]
    #[schemars(with = "f64")]
    pub share_ppm: u32,
    /// Messages a second that were answered while more were offered than the path takes, one entry an attempt, by size: the last
    /// is the capacity. Empty: not found yet, and the rate of the case means nothing.
    #[serde(rename = "attempts_per_s", alias = "attempts")]
    pub attempts: Vec<Rate>,
}

/// A share in millionths, written as a fraction.
mod share {
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub fn serialize<S: Serializer>(ppm: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(*ppm) / 1e6)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        u32::try_from(crate::schedule::fraction(deserializer, 1e6)?).map_err(D::Error::custom)
    }
}

impl OfCapacity {
    /// The share, 1 for all of it.
    pub fn share(&self) -> f64 {
        f64::from(self.share_ppm) / 1e6
    }

    /// The capacity: the best of the attempts, because what others take of the machine only makes them worse; `None`: not
    /// found yet.
    pub fn capacity(&self) -> Option<Rate> {
        self.attempts.last().copied()
    }
}

/// What the far end computes for each message before it answers: a server with a known service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct ServiceTime {
    /// Mean service time, ns.
    pub mean_ns: u64,
    /// How it is distributed.
    pub distribution: Distribution,
}

/// How service times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All the same.
    Constant,
    /// Exponential, from the seed of the plan.
    Exponential,
}

/// What an ablation changes of the case it explains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AblationChange")]
pub enum Change {
    /// TCP_NODELAY on.
    NoDelay,
    /// No cork.
    NoCork,
    /// Another congestion control.
    Congestion(String),
    /// Both ends on the near end's CPU.
    SameCpu,
    /// The wait `spin` at both ends.
    Spin,
    /// The wait `busy-poll` at both ends.
    BusyPoll,
    /// A higher priority of the measuring threads (nice -20).
    Priority,
    /// Buffers rotated over so many bytes at each end.
    #[serde(rename = "working_set_bytes", alias = "working_set")]
    WorkingSet(u64),
    /// A service time of so many ns for every message at the far end: a difference of known size. With 0 the case is
    /// measured against itself.
    ServiceTime(u64),
    /// Traced: from its rounds come the stages, and from the ratio to the case what tracing costs.
    Traced(StageSet),
    /// Events of CPU and kernel are counted in its rounds, and in no others.
    Counted,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::NoDelay => f.write_str("TCP_NODELAY"),
            Change::NoCork => f.write_str("no cork"),
            Change::Congestion(name) => f.write_str(name),
            Change::SameCpu => f.write_str("both ends on one CPU"),
            Change::Spin => f.write_str("spin"),
            Change::BusyPoll => f.write_str("busy-poll"),
            Change::Priority => f.write_str("nice -20"),
            Change::WorkingSet(bytes) => write!(f, "buffers over {}", crate::units::size(*bytes)),
            Change::Traced(set) => write!(f, "tracing ({})", set.name()),
            Change::Counted => f.write_str("counting events"),
            Change::ServiceTime(ns) => write!(f, "service time {}", crate::units::Glyphs::Unicode.time(*ns as f64)),
        }
    }
}

/// An ablation: a measured case once more with one thing changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct Ablation {
    /// Id of the case that it explains.
    pub of: u32,
    /// What is changed.
    pub change: Change,
}

/// What is compared, one number per round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Median, ns.
    P50,
    /// 99th percentile, ns: over passes drawn again, because a round has no tail of its own.
    P99,
    /// Mean, ns (the reciprocal of the rate of a closed loop).
    Mean,
    /// CPU time of both ends per message, ns.
    Cpu,
    /// The receiver's payload bits per second.
    Throughput,
}

impl Metric {
    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Metric::P50 => "p50",
            Metric::P99 => "p99",
            Metric::Mean => "mean",
            Metric::Cpu => "cpu",
            Metric::Throughput => "throughput",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        [Metric::P50, Metric::P99, Metric::Mean, Metric::Cpu, Metric::Throughput].into_iter().find(|m| m.name() == name)
    }

    /// Whether more is better.
    pub fn larger_is_better(self) -> bool {
        self == Metric::Throughput
    }
}

/// The user's estimate, typed before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// Median round trip, ns (echo).
    #[serde(rename = "time_ns", alias = "time")]
    Time(u64),
    /// Bits per second (stream).
    #[serde(rename = "bits_per_s", alias = "bits")]
    Bits(u64),
}

/// One path, size, pieces, thread count and load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = crate::explained::schema)]
pub struct Case {
    /// Position in [`Plan::cases`].
    pub id: u32,
    /// Why the case is measured.
    pub role: CaseRole,
    /// Transport, send method and wait: `tcp:send/epoll`.
    pub path: PathName,
    /// What is true of it, as its parts declare it: see [`Plan::declare`].
    pub traits: Traits,
    /// Bytes of a message; 1 stands for what is not known, see [`Case::has_size`].
    #[serde(rename = "size_bytes", alias = "size", deserialize_with = "one_for_null")]
    #[schemars(with = "Option<u64>")]
    pub size: u64,
    /// Bytes of the reply (echo).
    #[serde(rename = "reply_bytes", alias = "reply", deserialize_with = "one_for_null")]
    #[schemars(with = "Option<u64>")]
    pub reply: u64,
    /// How the message is cut into buffers; `count * size == size of the message`.
    #[serde(deserialize_with = "whole_for_null")]
    #[schemars(with = "Option<Pieces>")]
    pub pieces: Pieces,
    /// Connections, all of them together.
    pub connections: u32,
    /// Measuring threads at each end; each serves `connections / threads` connections.
    pub threads: u32,
    /// How it serves them.
    #[serde(default, skip_serializing_if = "Dispatch::is_turns")]
    pub dispatch: Dispatch,
    /// Messages in flight on a connection: as many as that in a closed loop, at most that many in an open one.
    pub inflight: u32,
    /// How messages are offered.
    pub load: Load,
    /// Set where the rate of the load is a share of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_capacity: Option<OfCapacity>,
    /// Set for the role [`CaseRole::Ablation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ablation: Option<Ablation>,
    /// 0: planned from the start; 1: added near a crossing after the first phase. The rounds of phase s have the passes
    /// from `s * rounds` on.
    pub phase: u32,
    /// Service time of the far end, where it is not the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time: Option<ServiceTime>,
    /// What the case is called beside its path: the method of an RPC (`write`), the engine of a periodic run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

fn one_for_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(1))
}

fn whole_for_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pieces, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(Pieces::whole(1)))
}

impl Explained for Case {
    fn hide(&self, object: &mut Value) {
        ["size_bytes", "reply_bytes", "pieces"].iter().for_each(|field| object[*field] = Value::Null);
    }

    fn reason(&self, _: &str) -> Cow<'_, str> {
        "the file of another program does not tell it".into()
    }
}

impl Serialize for Case {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.has_size() {
            return Self::serialize(self, serializer);
        }
        explained::serialize(self, Self::serialize(self, serde_json::value::Serializer), serializer)
    }
}

impl<'de> Deserialize<'de> for Case {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl Case {
    /// Whether it is known how long messages were: files of other programs do not always tell.
    pub fn has_size(&self) -> bool {
        self.path.is_told()
    }

    /// Cases of one block are measured one after the other in each pass: size, threads, connections, label.
    pub fn block(&self) -> (u64, u32, u32, Option<&str>) {
        (self.size, self.threads, self.connections, self.label.as_deref())
    }

    /// Connections over which one schedule of an open loop sends: all of an event loop's, else each has its own.
    pub fn connections_a_schedule(&self) -> u32 {
        match self.dispatch {
            Dispatch::Turns => 1,
            Dispatch::EventLoop => self.connections / self.threads.max(1),
        }
    }

    /// Schedules by which an open loop sends.
    pub fn schedules(&self) -> u32 {
        self.connections / self.connections_a_schedule().max(1)
    }

    /// Messages that a round must have at least to say something: some for each schedule, one on each connection.
    pub fn least_in_a_round(&self) -> f64 {
        (LEAST_IN_A_ROUND * f64::from(self.schedules())).max(f64::from(self.connections))
    }

    /// A measured case with id 0: one connection, one thread, one message in flight, replies as long as messages.
    pub fn new(path: PathName, pieces: Pieces) -> Self {
        Self {
            id: 0,
            role: CaseRole::Measured,
            path,
            traits: Traits::default(),
            size: pieces.total(),
            reply: pieces.total(),
            pieces,
            connections: 1,
            threads: 1,
            dispatch: Dispatch::Turns,
            inflight: 1,
            load: Load::Closed,
            of_capacity: None,
            ablation: None,
            phase: 0,
            service_time: None,
            label: None,
        }
    }
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
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Whether an address is of this family.
    pub fn admits(self, address: std::net::IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

/// Where an end runs: a network namespace of this machine, or, by its name alone, a host on which the launcher of the run starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EndPlace {
    /// As the user reads it.
    pub name: String,
    /// The file by which it is entered; of a place that was made for the run it is gone afterwards.
    pub namespace: String,
    /// Its address there; empty: it has none, and frames need none.
    pub address: String,
    /// All addresses that it has, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// The ends on this machine, each in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    /// Where each end is.
    pub ends: Vec<EndPlace>,
    /// What the run asked of the link that was made for it, in words; `None`: nothing, or the link was there.
    pub link: Option<String>,
    /// What the link does to what passes, for people; empty: nothing but carry it.
    pub properties: String,
}

impl Between {
    /// Where an end is; nowhere where it is not told.
    pub fn of(&self, end: usize) -> &EndPlace {
        static NONE: LazyLock<EndPlace> = LazyLock::new(EndPlace::default);
        self.ends.get(end).unwrap_or(&NONE)
    }

    /// Takes for all ends an address of one family, of that which was asked for, else IPv4 where all have it.
    pub fn choose(&mut self, family: Family) {
        let has = |place: &EndPlace, family: Family| {
            place.addresses.iter().find(|text| text.parse().is_ok_and(|address| family.admits(address))).cloned()
        };
        for one in [Family::V4, Family::V6].into_iter().filter(|one| [*one, Family::Any].contains(&family)) {
            let found: Option<Vec<String>> = self.ends.iter().map(|place| has(place, one)).collect();
            if let Some(found) = found {
                self.ends.iter_mut().zip(found).for_each(|(place, address)| place.address = address);
                return;
            }
        }
    }

    /// Whether the places of a run outlive it: they are namespaces with names, not held by processes of the run.
    pub fn is_kept(&self) -> bool {
        self.ends.len() == 2 && self.ends.iter().all(|place| place.namespace.starts_with("/run/netns/"))
    }
}

/// Options of the connection. `None` is 'leave it as the kernel has it'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelOptions {
    /// TCP_NODELAY; on unless asked otherwise.
    pub nodelay: bool,
    /// TCP_CORK around the pieces of a message.
    pub cork: bool,
    /// TCP_CORK set once and never released: the mistake that costs 200 ms, to be seen.
    pub hold_cork: bool,
    /// SO_SNDBUF in bytes, as asked (the kernel doubles it).
    pub send_buffer: Option<u64>,
    /// SO_RCVBUF in bytes, as asked (the kernel doubles it).
    pub receive_buffer: Option<u64>,
    /// SO_BUSY_POLL in microseconds, for the wait `busy-poll`.
    pub busy_poll_us: u32,
    /// Congestion control of TCP.
    pub congestion: Option<String>,
    pub family: Family,
    /// Local address of the near end's sockets.
    pub bind: Option<String>,
    /// Traffic class of the packets of both ends (IP_TOS, IPV6_TCLASS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<u8>,
    /// Device that packets of the near end take (SO_BINDTODEVICE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The network namespaces of the two ends; `None`: both in that of the user.
    pub between: Option<Between>,
    /// What starts the far end on its host; `None`: it is started here, or was started by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// The file of the token that a far end which was started by hand asks for; `None`: what the environment names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// After how many ns a datagram counts as lost.
    pub loss_timeout_ns: u64,
    /// After how many ns without progress a connection counts as dead.
    pub stall_timeout_ns: u64,
    /// Device of the transport eth.
    #[serde(default = "loopback")]
    pub interface: String,
    /// EtherType of the transport eth; `None`: [`ETHERTYPES`], one for each direction.
    pub ethertype: Option<u16>,
    /// MAC address that frames of the transport eth go to, as typed; `None`: the one that the other end names.
    pub mac_address: Option<String>,
    /// The wait sigio asks for a queued real-time signal (F_SETSIG) instead of SIGIO.
    pub queued_signals: bool,
    /// Most bytes that a receive call asks for, where message boundaries are not preserved; `None`: those of the message.
    pub read_size: Option<u64>,
    /// Near ends of each round where there are several, each a process of its own: its place, or nothing where it runs where the user is.
    /// Empty: one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<EndPlace>,
    /// The far end listens on a socket for each of its threads at one port (SO_REUSEPORT), and the kernel chooses among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse_port: bool,
    /// Receivers of a byte stream are woken when a whole message is there, or 16 KiB of it (SO_RCVLOWAT), not for each segment: for traffic
    /// that goes on until it is ended, is not timed and is to take little of the CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_messages: bool,
}

/// Whether a text is an address, perhaps with the device of its link.
fn is_address(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, device)) => address.parse::<std::net::Ipv6Addr>().is_ok() && !device.is_empty(),
        None => text.parse::<std::net::IpAddr>().is_ok(),
    }
}

/// The device of [`ChannelOptions::interface`] when nothing is asked.
pub const LOOPBACK: &str = "lo";

fn loopback() -> String {
    LOOPBACK.into()
}

impl ChannelOptions {
    /// What starts an agent on the host that a client is to run on; `None`: it runs on this machine, or that is no host.
    pub fn launch_of(&self, client: &EndPlace) -> Option<Launch> {
        let is_host = !client.name.is_empty() && client.namespace.is_empty();
        let launch = self.launch.as_ref().filter(|_| is_host)?.on(&client.name).ok()?;
        // What was said of an address is of the far end.
        Some(Launch { address: None, ..launch })
    }

    /// Whether clients run on hosts.
    pub fn has_hosts(&self) -> bool {
        self.clients.iter().any(|client| self.launch_of(client).is_some())
    }
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            cork: false,
            hold_cork: false,
            send_buffer: None,
            receive_buffer: None,
            busy_poll_us: 50,
            congestion: None,
            family: Family::Any,
            bind: None,
            traffic_class: None,
            through: None,
            between: None,
            launch: None,
            token_file: None,
            loss_timeout_ns: 250_000_000,
            stall_timeout_ns: 10_000_000_000,
            interface: loopback(),
            ethertype: None,
            mac_address: None,
            queued_signals: false,
            read_size: None,
            clients: Vec::new(),
            reuse_port: false,
            whole_messages: false,
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

/// Which CPUs the measuring threads of each end run on, used in turn. Empty: not pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(pub Vec<Vec<u32>>);

impl Placement {
    /// Of the near and the far end of a pair.
    pub fn pair(near: impl Into<Vec<u32>>, far: impl Into<Vec<u32>>) -> Self {
        Self(vec![near.into(), far.into()])
    }

    /// CPUs of an end.
    pub fn of(&self, end: usize) -> &[u32] {
        self.0.get(end).map_or(&[], Vec::as_slice)
    }

    pub fn set(&mut self, end: usize, cpus: Vec<u32>) {
        if self.0.len() <= end {
            self.0.resize(end + 1, Vec::new());
        }
        self.0[end] = cpus;
    }
}

/// Everything that decides what a run does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the messages do.
    #[serde(deserialize_with = "crate::workload::by_name")]
    pub workload: &'static Workload,
    /// `-R`: the far end sends (stream).
    pub reverse: bool,
    /// The cases; ids are positions.
    pub cases: Vec<Case>,
    /// The path that the others are divided by.
    pub baseline: PathName,
    /// Rounds of each case, over all restarts.
    pub rounds: u32,
    /// The pilot may make them fewer and longer, down to so many, where a round is too short to become steady; 0: it may not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fewest_rounds: u32,
    /// The state that is measured.
    #[serde(default, skip_serializing_if = "State::is_steady")]
    pub state: State,
    /// Fresh processes of the far end: rounds are spread evenly over them.
    pub restarts: u32,
    /// Reproduces the order of every pass.
    pub seed: u64,
    /// How long each case is measured. A time is what the user waits for a case ([`Plan::wait_ns`]).
    pub extent: Extent,
    /// Other traffic goes on beside its rounds. It may take their packets, so a round whose connections are not made is tried again; and
    /// it takes a time to be ready, which the pilot has seen: it comes out of that of the cases, but on top of schedules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// Of the time of each case what its rounds may take, ns: what pilots, what-ifs and the work around rounds leave of it
    /// (docs/method/rounds.md#the-time-you-wait). `None`: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds_ns: Option<u64>,
    /// Warm-up of each case before its first round, in ns.
    pub warmup_ns: u64,
    /// Messages dropped at the start of each connection.
    pub trim: u64,
    pub options: ChannelOptions,
    pub placement: Placement,
    /// An empty placement is meant: no thread is pinned. Else CPUs are chosen for an end that has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpinned: bool,
    /// Where stamps are taken.
    pub stamps: Stamps,
    /// Messages kept one by one; histograms count every message whatever this says.
    pub message_log: u64,
    /// Service time of the far end for each message.
    pub service_time: Option<ServiceTime>,
    /// Bytes over which each end rotates its message buffers; 0: always the same buffer, which stays in the cache.
    pub working_set: u64,
    /// Speed of what lies between the ends, as the user says it, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<u64>,
    /// What is compared; `None`: that of the workload.
    pub metric: Option<Metric>,
    /// The user's estimate.
    pub expect: Option<Expectation>,
    /// What the result is held to (`--fail-if`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// Suspected causes may be tried in short rounds beside the case.
    pub try_causes: bool,
    /// Sizes may be added near a crossing whose interval is wide.
    pub refine: bool,
    /// With too few calm rounds ([`crate::calm::too_few`]) the run goes on after `rounds`, up to twice as many.
    pub extend: bool,
    /// Each case is measured once more while the kernel is traced.
    pub stages: Option<StageSet>,
    /// Events of CPU and kernel are counted in the measuring threads, where a CPU counts: in rounds of their own
    /// ([`Change::Counted`]), whose times are in no result.
    pub events: bool,
    /// They are counted even where the kernel alone counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub events_forced: bool,
    /// After the rounds the near end of each case runs once more under cachegrind.
    pub simulate: bool,
    /// What each layer adds is the result. The cases are the same message over ever fewer layers, in this order; or paths with
    /// protocols on top, of which each knows what it stands on ([`Plan::is_ladder`]).
    pub layers: bool,
    /// Programs of others that are far ends of some of the cases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// What the messages to them are.
    #[serde(default, skip_serializing_if = "Talk::is_plain")]
    pub talk: Talk,
    /// What the workload of a feature must know besides.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Plan {
    /// A plan of these cases with every default; the first case is the baseline.
    ///
    /// # Panics
    /// Without a case.
    pub fn new(workload: &'static Workload, cases: Vec<Case>) -> Self {
        Self {
            workload,
            reverse: false,
            baseline: cases[0].path.clone(),
            cases,
            rounds: DEFAULT_ROUNDS,
            fewest_rounds: 0,
            state: State::Steady,
            restarts: 1,
            seed: 1,
            extent: Extent::Time(10_000_000_000),
            beside: false,
            rounds_ns: None,
            warmup_ns: 0,
            trim: DEFAULT_TRIM,
            options: ChannelOptions::default(),
            placement: Placement::default(),
            unpinned: false,
            stamps: Stamps::Near,
            message_log: DEFAULT_MESSAGE_LOG,
            service_time: None,
            working_set: 0,
            wire: None,
            metric: None,
            expect: None,
            gates: Vec::new(),
            try_causes: false,
            refine: false,
            extend: false,
            stages: None,
            events: true,
            events_forced: false,
            simulate: false,
            layers: false,
            programs: Vec::new(),
            talk: Talk::default(),
            parts: Parts::default(),
        }
    }

    /// The program at the far end of a case; `None`: msgpath itself.
    pub fn program_of(&self, case: &Case) -> Option<&Program> {
        let name = case.path.program.as_ref()?;
        self.programs.iter().find(|program| program.name == *name)
    }

    /// Whether what protocols add to the paths beneath them is the result.
    pub fn is_ladder(&self) -> bool {
        self.layers && self.cases.iter().any(|case| case.traits.is_layer())
    }

    /// Notes for every case what is true of its path.
    pub fn declare(&mut self, traits: impl Fn(&PathName) -> Traits) {
        self.cases.iter_mut().for_each(|case| case.traits = traits(&case.path));
    }

    /// Whether a case is an open loop: its rounds are parts of one schedule.
    pub fn has_schedules(&self) -> bool {
        self.cases.iter().any(|case| case.load != Load::Closed)
    }

    /// What is compared.
    pub fn metric(&self) -> Metric {
        self.metric.unwrap_or(self.workload.metric)
    }

    /// Connection options of a case: those of the plan, with the setting of its path and with what an ablation changes.
    pub fn options_of(&self, case: &Case) -> ChannelOptions {
        let mut options = self.options.clone();
        if let Some(setting) = case.path.setting {
            options.nodelay = setting != Setting::Nagle;
            (options.cork, options.hold_cork) = (setting == Setting::Cork, false);
        }
        match case.ablation.as_ref().map(|ablation| &ablation.change) {
            Some(Change::NoDelay) => options.nodelay = true,
            Some(Change::NoCork) => (options.cork, options.hold_cork) = (false, false),
            Some(Change::Congestion(name)) => options.congestion = Some(name.clone()),
            _ => {}
        }
        options
    }

    /// Service time of the far end for each message of a case.
    pub fn service_time_of(&self, case: &Case) -> Option<ServiceTime> {
        match case.ablation.as_ref().map(|ablation| &ablation.change) {
            Some(Change::ServiceTime(0)) => None,
            Some(Change::ServiceTime(ns)) => Some(ServiceTime { mean_ns: *ns, distribution: Distribution::Constant }),
            _ => case.service_time.or(self.service_time),
        }
    }

    /// CPUs of a case.
    pub fn placement_of(&self, case: &Case) -> Placement {
        match case.ablation.as_ref().map(|ablation| &ablation.change) {
            Some(Change::SameCpu) => Placement(vec![self.placement.of(NEAR).to_vec(); self.placement.0.len()]),
            _ => self.placement.clone(),
        }
    }

    /// Whether the measuring threads of a case get a higher priority.
    pub fn urgent(case: &Case) -> bool {
        case.ablation.as_ref().is_some_and(|ablation| ablation.change == Change::Priority)
    }

    /// What is traced while a case is measured.
    pub fn traced(case: &Case) -> Option<StageSet> {
        match case.ablation.as_ref()?.change {
            Change::Traced(set) => Some(set),
            _ => None,
        }
    }

    /// Whether events are counted while a case is measured.
    pub fn counted(case: &Case) -> bool {
        case.ablation.as_ref().is_some_and(|ablation| ablation.change == Change::Counted)
    }

    /// A case has a round in one of so many passes. Counts and what-ifs need few rounds: they are taken in every fifth pass,
    /// or in as many as show anything; every other case is measured in each.
    fn every(&self, case: &Case) -> u32 {
        let few = case.ablation.is_some() && Self::traced(case).is_none();
        if few { (self.rounds / FEWEST_COUNTED).clamp(1, COUNTED_EVERY) } else { 1 }
    }

    /// Whether a case has a round in a pass.
    pub fn measures_in(&self, case: &Case, pass: u32) -> bool {
        (pass % self.rounds).is_multiple_of(self.every(case))
    }

    /// Bytes over which the buffers of a case rotate.
    pub fn working_set_of(&self, case: &Case) -> u64 {
        match case.ablation.as_ref().map(|ablation| &ablation.change) {
            Some(Change::WorkingSet(bytes)) => *bytes,
            _ => self.working_set,
        }
    }

    /// Messages that a case has in flight at a time, all connections together: what rate times time must be in a closed
    /// loop. A thread that serves its connections in turn, one message each, has one.
    pub fn in_flight(case: &Case) -> u64 {
        match (case.dispatch, case.inflight) {
            (Dispatch::Turns, 1) => case.threads.into(),
            (_, inflight) => u64::from(case.connections) * u64::from(inflight),
        }
    }

    /// Rounds of all cases together.
    pub fn total_rounds(&self) -> u64 {
        self.cases.iter().map(|case| u64::from(self.rounds.div_ceil(self.every(case)))).sum()
    }

    /// Checks that programs, launcher and places are such as can be typed: a plan may come from a record.
    fn validate_ends(&self) -> Result<(), crate::Problem> {
        let usage = |what: String| crate::Problem::new("E11", crate::Exit::Usage, what);
        let options = &self.options;
        for program in &self.programs {
            program.check().map_err(|error| usage(format!("a program of the plan cannot be: {error}")))?;
        }
        if let Some(launch) = &options.launch {
            launch.check().map_err(|error| usage(format!("the launcher of the plan cannot be: {error}")))?;
            if !self.programs.is_empty() {
                return Err(usage("a program of others is started on this machine, and --launch names another".into()));
            }
        }
        let places = options.between.iter().flat_map(|between| &between.ends);
        for place in places {
            if place.name.starts_with('-') || place.name.contains('/') || !place.namespace.starts_with('/') {
                return Err(usage(format!("{:?} is no network namespace", place.name)));
            }
            let over_ip = self.cases.iter().find(|case| case.traits.inet).filter(|_| place.address.is_empty());
            if let Some(case) = over_ip {
                let what = format!("{} has no address, and {} needs one", place.name, case.path);
                let hint = format!("ip -n {} addr add fd00::1/64 dev DEVICE; -x eth needs none", place.name);
                return Err(usage(what).hint(hint));
            }
            if place.address.parse().is_ok_and(|address| !options.family.admits(address)) {
                let what =
                    format!("-o ip asks for another family than {}, the address of {}", place.address, place.name);
                return Err(usage(what).hint("leave out -o ip, or name places that have such an address"));
            }
        }
        if options.bind.as_ref().is_some_and(|bind| !is_address(bind)) {
            return Err(usage("the local address of the plan is none".into()));
        }
        // As the kernel takes them: IFNAMSIZ and TCP_CA_NAME_MAX, each with a zero at its end.
        let short = |name: &str| (1..=15).contains(&name.len()) && !name.contains(['/', '\0', ' ']);
        if !short(&options.interface) || options.through.as_deref().is_some_and(|name| !short(name)) {
            return Err(usage(format!("{:?} is not the name of a device", options.interface)));
        }
        match options.congestion.as_ref().filter(|name| !short(name)) {
            Some(name) => Err(usage(format!("{name:?} is not the name of a congestion control"))),
            None => Ok(()),
        }
    }

    fn validate_case(&self, case: &Case) -> Result<(), crate::Problem> {
        use crate::{Exit, Problem};
        let usage = |what: String, hint: &str| Err(Problem::new("E11", Exit::Usage, what).hint(hint));
        if let (Some(name), None) = (&case.path.program, self.program_of(case)) {
            return usage(format!("{} names the program {name}, which is not given", case.path), "--server");
        }
        if case.size == 0 || (self.workload.is_echoed() && case.reply == 0) {
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
        let none = case.threads == 0 || case.connections == 0 || case.inflight == 0;
        if none || !case.connections.is_multiple_of(case.threads) {
            return usage(
                format!("{} connections cannot be shared evenly by {} threads", case.connections, case.threads),
                "make -P a multiple of -T",
            );
        }
        if case.connections > MAX_CONNECTIONS {
            return usage(format!("{} connections; the limit is {MAX_CONNECTIONS}", case.connections), "a smaller -P");
        }
        if case.threads > MAX_THREADS {
            return usage(
                format!("{} threads at each end; the limit is {MAX_THREADS}", case.threads),
                "several connections a thread: -T 1 --event-loop, over a path with /epoll",
            );
        }
        let of = case.ablation.as_ref().map(|ablation| ablation.of as usize);
        if (case.role == CaseRole::Ablation) != of.is_some() || of.is_some_and(|of| of >= self.cases.len()) {
            return usage("an ablation that explains no case".into(), "");
        }
        let turns = case.dispatch == Dispatch::Turns;
        if case.load != Load::Closed && turns && case.threads != case.connections {
            return usage(
                format!("in an open loop each of the {} connections has a thread", case.connections),
                "leave out -T, or --event-loop over a path with /epoll",
            );
        }
        if !turns && !self.workload.timed {
            return usage("an event loop serves echoes and calls".into(), "leave out --event-loop");
        }
        if let Some(of) = &case.of_capacity
            && (case.load == Load::Closed || !(1..=MAX_SHARE_PPM).contains(&of.share_ppm))
        {
            return usage("a share of the capacity is a rate above 0 % and up to 400 %".into(), "--rate 50%");
        }
        if case.load != Load::Closed && !self.workload.timed {
            return usage("a stream has no rate: it sends as fast as the path takes".into(), "msgpath echo --rate 10k");
        }
        if u64::from(case.inflight) > 4096 {
            return usage(format!("{} messages in flight; the limit is 4096", case.inflight), "a smaller --inflight");
        }
        Ok(())
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
        if self.rounds == 0 || self.restarts == 0 || self.restarts > self.rounds || self.fewest_rounds > self.rounds {
            return usage(
                format!("{} rounds cannot be spread over {} restarts", self.rounds, self.restarts),
                "use at least one round a restart, for example -r 40 -o restarts=3",
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
        self.validate_ends()?;
        for (at, program) in self.programs.iter().enumerate() {
            if self.programs[..at].iter().any(|other| other.name == program.name) {
                return usage(
                    format!("two programs are called {}", program.name),
                    "a name before each: --server 'new=./server {port}'",
                );
            }
        }
        self.cases.iter().try_for_each(|case| self.validate_case(case))?;
        let times = self.cases.iter().filter_map(|case| case.service_time).chain(self.service_time);
        if times.into_iter().any(|time| time.mean_ns > MAX_SERVICE_TIME_NS) {
            return usage("a service time is at most 10 s".into(), "-o service-time=10s or less");
        }
        if let Some(bytes) = self.options.read_size {
            if !self.workload.in_rounds {
                return usage("-o read-size is about echoes and streams".into(), "leave out -o read-size");
            }
            if !(1..=MAX_READ_SIZE).contains(&bytes) {
                return usage("a receive call asks for 1 byte to 16 MiB".into(), "-o read-size=128K");
            }
        }
        if self.working_set > MAX_WORKING_SET {
            return usage("buffers are rotated over at most 1 GiB".into(), "-o working-set=1G or less");
        }
        if let Extent::Count(count) = self.extent {
            let bytes = self.cases.iter().map(|case| case.size.max(case.reply)).max().unwrap_or(0).checked_mul(count);
            if count == 0 || bytes.is_none_or(|bytes| bytes > 1 << 50) {
                return usage(
                    format!("{count} messages of this size are not a run (1 message to 1 PiB)"),
                    "a smaller -c",
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
        Plan { extent: Extent::Time(1_000_000_000), ..Plan::new(Workload::ECHO, vec![case]) }
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
    fn size_that_is_not_known_is_null_with_its_reason() {
        let case = Case::new(PathName::untold("tcp"), Pieces::whole(1));
        let json = serde_json::to_value(&case).unwrap();
        for field in ["size_bytes", "reply_bytes", "pieces"] {
            assert!(json[field].is_null() && json["why"][field].is_string(), "{json:#}");
        }
        assert_eq!(serde_json::from_value::<Case>(json).unwrap(), case);
        let known = plan().cases.remove(0);
        let json = serde_json::to_value(&known).unwrap();
        assert_eq!((&json["size_bytes"], json.get("why")), (&64.into(), None));
        assert_eq!(serde_json::from_value::<Case>(json).unwrap(), known);
    }

    #[test]
    fn plans_that_cannot_be_run_are_refused() {
        assert_eq!(plan().validate(), Ok(()));
        refused(|plan| plan.cases[0].size = 0, "0 bytes");
        refused(|plan| plan.cases.clear(), "nothing");
        refused(|plan| plan.restarts = 41, "restarts");
        refused(|plan| plan.rounds = u32::MAX, "limit");
        refused(|plan| plan.cases[0].threads = 2, "evenly");
        refused(|plan| plan.cases[0].pieces = Pieces::of(2, 3), "pieces");
        refused(|plan| plan.extent = Extent::Count(u64::MAX), "not a run");
        refused(|plan| plan.cases[0].inflight = 5000, "flight");
        refused(|plan| plan.cases[0].of_capacity = Some(OfCapacity { share_ppm: 5, attempts: Vec::new() }), "400 %");
        let program = || Program::parse("./a {port}").unwrap();
        refused(|plan| plan.programs = vec![Program { name: "../a".into(), ..program() }], "program of the plan");
        let ssh = || Launch::parse("ssh").unwrap();
        refused(|plan| plan.options.launch = Some(Launch { host: "-oProxyCommand=x".into(), ..ssh() }), "launcher");
        refused(
            |plan| plan.options.launch = Some(Launch { host: "n2".into(), words: vec!["x".into()], ..ssh() }),
            "launcher",
        );
        refused(
            |plan| (plan.programs, plan.options.launch) = (vec![program()], Some(ssh().on("n2").unwrap())),
            "this machine",
        );
        let place =
            |name: &str| EndPlace { name: name.into(), namespace: "/run/netns/x".into(), ..EndPlace::default() };
        for name in ["../x", "-x"] {
            let between = Between { ends: vec![place(name)], ..Between::default() };
            refused(|plan| plan.options.between = Some(between.clone()), "no network namespace");
        }
        let v4 = EndPlace { address: "10.7.0.2".into(), ..place("b") };
        refused(
            |plan| {
                plan.options.between = Some(Between { ends: vec![v4.clone(), v4.clone()], ..Between::default() });
                plan.options.family = Family::V6;
            },
            "another family than 10.7.0.2",
        );
        refused(|plan| plan.options.interface = "../../x".into(), "device");
        refused(|plan| plan.options.congestion = Some("a/b".into()), "congestion");
        refused(|plan| plan.options.bind = Some("n2".into()), "local address");
    }

    #[test]
    fn places_take_addresses_of_one_family() {
        let place = |all: &[&str]| EndPlace {
            address: all.first().copied().unwrap_or_default().into(),
            addresses: all.iter().map(|one| (*one).into()).collect(),
            ..EndPlace::default()
        };
        let chosen = |ends: [&[&str]; 2], family| {
            let mut between = Between { ends: ends.map(place).into(), ..Between::default() };
            between.choose(family);
            [0, 1].map(|end| between.of(end).address.clone())
        };
        let both: [&[&str]; 2] = [&["10.7.0.1", "fd00::1"], &["fd00::2", "10.7.0.2"]];
        assert_eq!(chosen(both, Family::Any), ["10.7.0.1", "10.7.0.2"]);
        assert_eq!(chosen(both, Family::V6), ["fd00::1", "fd00::2"]);
        assert_eq!(chosen([both[0], &["fd00::2"]], Family::Any), ["fd00::1", "fd00::2"]);
        // No address of that family: the plan refuses the one that is there.
        assert_eq!(chosen([both[0], &["10.7.0.2"]], Family::V6), ["10.7.0.1", "10.7.0.2"]);
        assert_eq!(chosen([&[], &[]], Family::Any), ["", ""]);
    }

    #[test]
    fn the_capacity_is_the_best_of_its_attempts() {
        let rate = |per_s: f64| Rate::per_second(per_s).unwrap();
        let mut of = OfCapacity { share_ppm: 250_000, attempts: Vec::new() };
        assert_eq!((of.share(), of.capacity()), (0.25, None));
        of.attempts = vec![rate(90.0), rate(100.0), rate(400.0)];
        assert_eq!(of.capacity(), Some(rate(400.0)));
    }

    #[test]
    fn the_setting_of_a_path_stands_over_the_plan_and_under_an_ablation() {
        let mut plan = plan();
        (plan.options.hold_cork, plan.options.nodelay) = (true, false);
        let of = |plan: &Plan| {
            let options = plan.options_of(&plan.cases[0]);
            (options.nodelay, options.cork, options.hold_cork)
        };
        assert_eq!(of(&plan), (false, false, true));
        for (setting, expected) in Setting::ALL.into_iter().zip([(true, false), (false, false), (true, true)]) {
            plan.cases[0].path.setting = Some(setting);
            assert_eq!(of(&plan), (expected.0, expected.1, false), "{setting:?}");
        }
        plan.cases[0].path.setting = Some(Setting::Nagle);
        plan.cases[0].ablation = Some(Ablation { of: 0, change: Change::NoDelay });
        assert_eq!(of(&plan), (true, false, false));
    }

    #[test]
    fn a_plan_survives_json() {
        let mut plan = plan();
        plan.gates = vec!["p99 > 1ms".parse().unwrap(), "loss > 0.1%".parse().unwrap()];
        assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    }
}
