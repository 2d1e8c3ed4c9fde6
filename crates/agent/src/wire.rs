//! The framed protocol between the coordinator and an end: over standard input and output, or a socket.
//!
//! A frame is magic `mp`, version, kind (all in 4 bytes), the lengths of its two parts (u32 little-endian each), the
//! CRC-32 of both, then JSON, then bytes; one of the kind [`SEALED`] ends with its seal. Parts are limited; nothing is
//! allocated before the length was checked.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use msgpath_core::doctor::{Examine, Observation};
use msgpath_core::foreign::shown_bytes;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{ChannelOptions, Dispatch, MAX_CONNECTIONS, ServiceTime, StageSet, Stamps};
use msgpath_core::program::ProgramFacts;
use msgpath_core::program::{Program, Talk};
use msgpath_core::schedule::Arrivals;
use msgpath_core::schema::{
    ClockFacts, EndDevice, EndReport, Environment, EventCounts, EventFacts, Floors, Granted, KernelCounts, OpenRound,
    Slots, ThreadRecord, TracedThread, Tracing,
};
use msgpath_core::units::Pieces;
use msgpath_core::workload::Workload;
use msgpath_core::{Histogram, PathName, SparseHistogram, Unavailable};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::seal::{SEAL, Seal};

/// Both ends must speak the same version.
pub const VERSION: u8 = 12;
/// Most bytes that follow the JSON in an answer.
pub const MAX_BYTES: usize = 64 << 20;
/// A greeting is short: nothing larger is taken from somebody of whom nothing is known.
pub const MAX_HELLO: usize = 4 << 10;
/// A frame is read in parts of this size at most: memory grows with what really arrives.
const PART: usize = 1 << 20;
const MAGIC: [u8; 2] = *b"mp";
const HEADER: usize = 16;
/// Where the kind of a frame is in its header.
pub const KIND: usize = 3;
/// The kind of a frame that ends with a seal.
pub const SEALED: u8 = 1;
const PLAIN: u8 = 0;

/// A random number that is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub [u8; 16]);

/// That whoever says this has the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof(pub [u8; 32]);

/// What can be in a frame, and how large it may be.
pub trait Frame: Serialize + DeserializeOwned {
    /// Most bytes of JSON.
    const MAX_JSON: usize;
    /// Most bytes that follow it.
    const MAX_BYTES: usize;
}

impl Frame for ToEnd {
    // The addresses of the largest round have room; orders carry no bulk.
    const MAX_JSON: usize = 1 << 20;
    const MAX_BYTES: usize = 0;
}

impl Frame for FromEnd {
    // What all threads of the largest round counted has room.
    const MAX_JSON: usize = 2 << 20;
    const MAX_BYTES: usize = MAX_BYTES;
}

/// What whoever listens says right after its greeting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// No token is asked for.
    Open,
    /// Prove that you have the token.
    Challenge {
        /// Of the end that listens.
        nonce: Nonce,
        /// The proof is to cover both addresses of the channel.
        addresses: bool,
    },
}

/// Both addresses of a control channel, as one end sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Of the end that came.
    pub near: SocketAddr,
    /// Of the end that listens.
    pub far: SocketAddr,
}

/// Answer to a challenge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proves {
    /// Of the end that came.
    pub nonce: Nonce,
    /// Both addresses, where the proof is to cover them.
    pub addresses: Option<Addresses>,
    /// That it has the token.
    pub proof: Proof,
}

/// Answer to a proof. What follows is sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admits {
    /// Come in.
    Proven {
        /// That the end that listens has the token, too.
        proof: Proof,
    },
    /// That was another token, or the proof of another channel.
    Refused,
    /// The proof covers other addresses than these.
    Elsewhere {
        /// As the end that listens sees them.
        seen: Addresses,
    },
}

/// What the coordinator says to an agent that comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromDoor {
    /// Be an agent: orders follow.
    Welcome,
    /// There is no place in this mesh for it.
    Unwanted { why: String },
    /// The mesh has ended.
    Over,
}

/// What an agent says of itself, once both have proven to have the token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joining {
    /// What it is called.
    pub name: String,
    /// Its number among those that were started together, which tells it from others of the same name.
    pub rank: Option<u32>,
    /// The same each time that it comes.
    pub instance: Nonce,
    /// Where its data connections go.
    pub address: IpAddr,
}

macro_rules! first_words {
    ($($frame:ty),*) => {$(
        impl Frame for $frame {
            const MAX_JSON: usize = MAX_HELLO;
            const MAX_BYTES: usize = 0;
        }
    )*};
}

first_words!(Opening, Proves, Admits, FromDoor, Joining);

/// What an end is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToEnd {
    /// First: who am I. The agent ends when it has heard nothing for `lease_ms`.
    Hello {
        /// Version of msgpath.
        version: String,
        lease_ms: u64,
    },
    /// Examine your machine.
    Examine(Examine),
    /// Measure what no message is faster than on your machine.
    Measure(FloorsOrder),
    /// Trace your own kernel in rounds that are traced.
    Trace(TraceOrder),
    /// The far end: prepare a round.
    Round(Box<RoundOrder>),
    /// The near end: connect to the far end, which is prepared.
    Dial(Box<Dial>),
    /// The far end: the near end has connected from these addresses.
    Connect {
        /// One a connection; empty texts where the transport needs none.
        #[serde(deserialize_with = "one_a_connection")]
        locals: Vec<String>,
    },
    /// The near end, in a role of a feature: what only that understands.
    For {
        role: String,
        body: Body,
    },
    /// The near end: make the threads ready.
    Start,
    /// The near end, before `Go`: the far end stood still while the round was made ready, so schedules are behind by so much more.
    Owes {
        ns: u64,
    },
    /// The near end: the threads may begin. Answered when their part is over.
    Go,
    /// The near end: the round does not take place.
    Leave,
    /// The near end's part of the round is over: report. Rounds of a role may be told before they are over, and end then.
    Finish,
    /// Nothing new, but alive.
    Alive,
    Bye,
}

/// What an end says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromEnd {
    /// Answer to `Hello`.
    Hello {
        /// Version of msgpath.
        version: String,
        environment: Box<Environment>,
        /// CPUs of the agent in the order in which it would use them.
        cpus: Vec<u32>,
        /// Kernel counters that can be read here, by name.
        counters: Vec<String>,
        /// Events of CPU and kernel that its threads can count.
        events: Box<EventFacts>,
    },
    /// Answer to `Hello` where there is no room for a session now.
    Busy {
        /// Why, and what may help.
        reason: Unavailable,
    },
    /// Answer to `Examine`.
    Examined {
        /// What was seen, by number; [`parse_report`](msgpath_core::doctor::parse_report) reads it.
        checks: Vec<Observation>,
    },
    /// Answer to `Measure`.
    Measured {
        /// What no message is faster than.
        floors: Box<Floors>,
        /// What reading the clock costs.
        clock: ClockFacts,
    },
    /// Answer to `Trace`: by what, and why not by something better or not at all. Where there is a back end, `Events` and
    /// `Traced` come before `Done` of every round that is traced.
    Tracing(Box<Tracing>),
    /// Kernel events of a round follow (`observe`, 32 bytes each).
    Events {
        /// How many.
        count: u32,
    },
    /// All kernel events of a round were said. Fields as in `observe::Traced`.
    Traced {
        /// Events that found no room.
        lost: u64,
        /// Names of tasks.
        tasks: BTreeMap<i32, String>,
        /// Switches that nobody saw.
        unseen: BTreeMap<i32, u64>,
    },
    /// Answer to `Round`: connect here.
    Offered {
        /// One a connection.
        addresses: Vec<String>,
        /// What is known of the program of others that listens there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<Box<ProgramFacts>>,
    },
    /// Answer to `Dial`.
    Connected {
        /// Where each connection comes from; empty texts where the transport needs none.
        locals: Vec<String>,
        /// The slowest connect, ns.
        connect_ns: u64,
    },
    /// Of a role: answer to `For`, or to `Finish` of one of its rounds. Bytes may follow.
    For {
        /// What it says.
        body: Body,
    },
    /// Answer to `Leave`.
    Left,
    /// Answer to `Go`: the near end's part of the round is over, well or not.
    Over,
    /// Before `Done`, once for each thread of the near end: its rows. Columns follow, each as long as said (u64
    /// little-endian each): starts, latencies, lateness, and when send calls had returned.
    Rows {
        /// Lengths of the columns.
        counts: [u32; 4],
    },
    /// Answer to `Connect` and to `Start`, and of a role that has made a round ready: the threads wait for messages, or for the word to go.
    Ready {
        /// Options of the first connection.
        granted: Vec<Granted>,
        /// Bytes that a reply can wait in without a reader.
        room: Option<u64>,
        /// The far end: from where its first connection comes, over IP.
        seen: Option<IpAddr>,
        /// The device by which the packets of its first connection leave, over IP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Box<EndDevice>>,
        /// The measuring threads, for whoever traces them.
        threads: Vec<TracedThread>,
    },
    /// Answer to `Finish`, followed by the arrival stamps where they were asked for.
    Done {
        /// What happened here.
        report: Box<EndReport>,
        /// Kernel counters that changed during the round.
        kernel: KernelCounts,
        /// How long they were watched, ns.
        watched_ns: u64,
        /// Time of a fixed piece of computing just before the round, ns.
        speed_ns: u64,
        /// Events that its threads counted, all together.
        events: EventCounts,
        /// The threads one by one, where there are several.
        threads: Vec<ThreadRecord>,
        /// How many arrival stamps follow for each thread (u64 little-endian each). Where departures are stamped as well as
        /// many of the moments just before each reply was sent follow them.
        stamps: Box<[u32]>,
        /// The near end's, whose histograms follow instead.
        times: Option<Box<Times>>,
    },
    /// This cannot be measured here.
    Unavailable(Unavailable),
    /// The round failed here.
    Failed(Failure),
}

/// What only a role understands: JSON, as long as a frame at most, that nobody has looked into before. Read from there it takes no more
/// memory than in its frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(Box<RawValue>);

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl ToEnd {
    /// An order to a role.
    ///
    /// # Errors
    /// As [`Body::of`].
    pub fn role(role: &str, order: &impl Serialize) -> io::Result<Self> {
        Ok(Self::For { role: role.into(), body: Body::of(order)? })
    }
}

impl FromEnd {
    /// What a role says.
    ///
    /// # Errors
    /// As [`Body::of`].
    pub fn role(said: &impl Serialize) -> io::Result<Self> {
        Ok(Self::For { body: Body::of(said)? })
    }

    /// A role has made a round ready.
    pub fn ready() -> Self {
        Self::Ready { granted: Vec::new(), room: None, seen: None, device: None, threads: Vec::new() }
    }

    /// What a role has said.
    ///
    /// # Errors
    /// Anything else, as it is.
    pub fn of_role<T: DeserializeOwned>(self) -> Result<T, Self> {
        match &self {
            Self::For { body } => body.read().map_err(|_| self),
            _ => Err(self),
        }
    }
}

impl Body {
    /// What a role says.
    ///
    /// # Errors
    /// `InvalidInput`: it cannot be said in JSON.
    pub fn of(said: &impl Serialize) -> io::Result<Self> {
        serde_json::value::to_raw_value(said)
            .map(Self)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// What it says to its role.
    ///
    /// # Errors
    /// `InvalidData`: nothing.
    pub fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        let nothing = |error| invalid(format!("a role is told nothing: {}", bounded(&error)));
        serde_json::from_str(self.0.get()).map_err(nothing)
    }
}

/// What no message is faster than: between whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorsOrder {
    /// CPU of the near end.
    pub near: Option<u32>,
    /// CPU of the far end.
    pub far: Option<u32>,
    /// Both ends are on one machine.
    pub one_machine: bool,
    /// Bytes of a message.
    pub size: u64,
    /// Where packets go, if any.
    pub peer: Option<SocketAddr>,
    /// A message whose handing over is taken apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Pieces>,
}

/// How an end traces its own kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceOrder {
    /// How much.
    pub set: StageSet,
    /// Room for the events of a round; no more than [`MAX_CARRIED`](crate::observe::MAX_CARRIED) is given.
    pub room: usize,
}

/// What only one end knows of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// At the near end.
    pub near: bool,
    /// CPUs of the threads, in turn.
    pub cpus: Vec<u32>,
    /// Messages per stamp pair.
    pub batch: u64,
    /// Rows each thread keeps.
    pub keep: usize,
    /// The schedules, where this end sends by one: one connection a thread then, or an event loop.
    pub load: Option<Load>,
}

/// What one round's schedules are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Mean gap between two messages of one connection, ns.
    pub gap_ns: f64,
    /// How gaps are distributed.
    pub arrivals: Arrivals,
    /// Seed of the plan, case and pass: with the connection they make the seed of a schedule.
    pub seed: (u64, u32, u32),
    /// CPUs that senders have for themselves, in turn; empty: each shares the CPU of its receiver.
    pub cpus: Vec<u32>,
    /// Messages in flight on a connection before its sender is held up.
    pub most: u64,
    /// Where each schedule stands after the rounds before; beyond the last: on time.
    #[serde(default)]
    pub debts: Vec<Debt>,
}

impl Load {
    /// Where this schedule stands after the rounds before.
    pub fn debt(&self, schedule: usize) -> Debt {
        self.debts.get(schedule).copied().unwrap_or_default()
    }
}

/// Everything the near end must know of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dial {
    /// As the far end knows it.
    pub order: RoundOrder,
    /// What only this end knows.
    pub own: Own,
    /// Where the far end is, where it was reached over IP.
    pub peer: Option<SocketAddr>,
    /// What the far end offers, one a connection.
    pub addresses: Vec<String>,
}

/// What the end that times messages has timed, all threads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Bytes of the histograms: round trips; those of the messages that were trimmed; of an open loop from the actual
    /// send, and from the intended to the actual send.
    pub histograms: [u32; 4],
    /// Open loop: the rest of its account.
    pub open: Option<OpenRound>,
    /// Open loop: where each schedule stands afterwards.
    #[serde(default)]
    pub debts: Vec<Debt>,
    /// What the workload of a feature has to say, one for each thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Parts>,
}

/// Where a schedule stands between two rounds of a case (docs/method/open-loop.md#one-schedule-for-a-case).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// The next message is due so long before the next round begins, ns, less its gap.
    pub ns: u64,
    /// The quickest reply of the case so far, from the actual send, ns; 0: there was none.
    pub quickest_ns: u64,
}

/// Adds histograms to the bytes of a frame. Returns the length of each.
pub fn put_histograms<const N: usize>(histograms: [&Histogram; N], bytes: &mut Vec<u8>) -> [u32; N] {
    histograms.map(|histogram| {
        let encoded = histogram.to_sparse().to_bytes();
        bytes.extend_from_slice(&encoded);
        encoded.len() as u32
    })
}

/// Histograms of these lengths, and nothing else; `None`: something else.
pub fn read_histograms<const N: usize>(lengths: [u32; N], mut bytes: &[u8]) -> Option<[Histogram; N]> {
    let mut all = [(); N].map(|()| Histogram::new());
    for (histogram, length) in all.iter_mut().zip(lengths) {
        let (own, rest) = bytes.split_at_checked(length as usize)?;
        histogram.merge_sparse(&SparseHistogram::from_bytes(own)?);
        bytes = rest;
    }
    bytes.is_empty().then_some(all)
}

/// Everything the far end must know of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundOrder {
    /// One that is carried out in rounds.
    #[serde(deserialize_with = "msgpath_core::workload::by_name")]
    pub workload: &'static Workload,
    /// The far end sends (stream).
    pub reverse: bool,
    pub path: PathName,
    pub pieces: Pieces,
    /// Bytes of the reply (echo).
    pub reply: u64,
    /// Connections in all.
    pub connections: u32,
    pub threads: u32,
    /// How a thread serves its connections.
    pub dispatch: Dispatch,
    /// Messages in flight on a connection.
    pub inflight: u32,
    /// Measured messages on each connection.
    pub messages: u64,
    /// Messages before them that are not measured.
    pub trim: u64,
    /// The near end of an echo stops early after this long, ns; 0: never; [`UNTIL_TOLD`]: when it is told to finish. Then the
    /// far end's last message does not come, and that is not an error.
    pub patience_ns: u64,
    /// The round goes on for a time instead of a number of messages: there are several near ends, and each is to send all the while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<Timed>,
    /// CPUs of the threads, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    pub stamps: Stamps,
    /// The far end of an echo stamps each reply before it sends it as well: the kernel is traced, or the ends have no common
    /// clock.
    #[serde(default)]
    pub departures: bool,
    /// Both ends stamp before and after their calls, because the kernel is traced.
    pub traced: bool,
    /// The measuring threads get a higher priority.
    pub urgent: bool,
    /// They count events of CPU and kernel.
    pub events: bool,
    pub options: ChannelOptions,
    /// Service time of each message before it is answered (echo).
    pub service_time: Option<ServiceTime>,
    /// Seed of the service times.
    pub seed: u64,
    /// Bytes over which message buffers rotate; 0: one buffer.
    pub working_set: u64,
    /// The far end is a program of others, which the agent of the far end starts and watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramOrder>>,
    /// What the workload of a feature must know besides.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
}

/// A round that goes on for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// From its first message to its end, ns.
    pub ns: u64,
    /// At its begin, not measured, ns.
    pub lead_ns: u64,
    /// Length of the slots in which a receiver counts, ns.
    pub slot_ns: u64,
}

impl Timed {
    /// The longest of such rounds, ns.
    pub const MOST_NS: u64 = 600_000_000_000;

    fn is_possible(self) -> bool {
        (1..=Self::MOST_NS).contains(&self.ns) && self.lead_ns < self.ns && self.slot_ns >= self.ns / Slots::MOST as u64
    }
}

/// Buffers that a method may keep in flight where the load is open: the schedule decides how many messages are.
pub const OPEN_BUFFERS: u32 = 64;

/// [`RoundOrder::patience_ns`] of a round that goes on until `Finish` comes: traffic beside the rounds of others.
pub const UNTIL_TOLD: u64 = u64::MAX;

impl RoundOrder {
    /// Whether never more messages are in flight than `inflight` says: not in a stream, and of a schedule only those below
    /// [`OPEN_BUFFERS`] are told.
    pub fn is_bounded(&self) -> bool {
        self.workload.is_echoed() && self.inflight < OPEN_BUFFERS
    }

    /// The reply: cut like the message where it is as long.
    pub fn reply_pieces(&self) -> Pieces {
        if self.reply == self.pieces.total() { self.pieces } else { Pieces::whole(self.reply as u32) }
    }

    /// Bytes of the larger of message and reply.
    pub fn largest(&self) -> u64 {
        if self.workload.is_echoed() { self.pieces.total().max(self.reply) } else { self.pieces.total() }
    }

    /// Limits that an honest near end keeps; anything else is refused.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        use msgpath_core::plan::{MAX_READ_SIZE, MAX_SERVICE_TIME_NS, MAX_SIZE, MAX_THREADS, MAX_WORKING_SET};
        let size = |bytes: u64| (1..=MAX_SIZE).contains(&bytes);
        if !self.workload.in_rounds {
            return Err("a workload that is not carried out in rounds");
        }
        if !size(self.pieces.total()) || (self.workload.is_echoed() && !size(self.reply)) {
            return Err("a size out of range");
        }
        if !(1..=msgpath_core::units::MAX_PIECES).contains(&self.pieces.count) {
            return Err("no number of pieces");
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections)
            || !(1..=MAX_THREADS).contains(&self.threads)
            || !self.connections.is_multiple_of(self.threads)
            || !(1..=4096).contains(&self.inflight)
        {
            return Err("connections, threads or messages in flight out of range");
        }
        if self.messages == 0 || self.messages > 1 << 40 || self.trim > 1 << 40 {
            return Err("a number of messages out of range");
        }
        if self.service_time.is_some_and(|time| time.mean_ns > MAX_SERVICE_TIME_NS)
            || self.working_set > MAX_WORKING_SET
        {
            return Err("service time or working set out of range");
        }
        if self.timed.is_some_and(|timed| !timed.is_possible())
            || self.timed.is_some() && (self.dispatch == Dispatch::EventLoop || self.traced || self.program.is_some())
        {
            return Err("a round that goes on for a time as no round can");
        }
        if self.options.read_size.is_some_and(|bytes| !(1..=MAX_READ_SIZE).contains(&bytes)) {
            return Err("bytes of a receive call out of range");
        }
        if self.program.is_some() && (!self.workload.is_echoed() || self.traced || self.service_time.is_some()) {
            return Err("a program of others answers echoes, untraced and in its own time");
        }
        Ok(())
    }
}

/// What an end must know of the program of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramOrder {
    pub program: Program,
    /// What the messages are.
    pub talk: Talk,
}

/// Texts of a frame, no more than there can be connections: an empty text takes ten times its bytes in memory.
fn one_a_connection<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Texts;
    impl<'de> serde::de::Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "at most {MAX_CONNECTIONS} texts")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut texts: A) -> Result<Vec<String>, A::Error> {
            let mut all = Vec::new();
            while let Some(text) = texts.next_element()? {
                if all.len() == MAX_CONNECTIONS as usize {
                    return Err(serde::de::Error::custom("more texts than connections"));
                }
                all.push(text);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(Texts)
}

/// Writes one frame with one call, as [`Sealing`](crate::seal::Sealing) expects.
///
/// # Errors
/// As the writer.
pub fn write<T: Frame>(out: &mut impl Write, message: &T, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&frame(message, bytes)?)?;
    out.flush()
}

/// One frame.
///
/// # Errors
/// It is beyond its limit.
pub fn frame<T: Frame>(message: &T, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    if json.len() > T::MAX_JSON || bytes.len() > T::MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame beyond its limit"));
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&json);
    crc.update(bytes);
    let mut frame = Vec::with_capacity(HEADER + json.len() + bytes.len());
    frame.extend(MAGIC);
    frame.extend([VERSION, PLAIN]);
    frame.extend((json.len() as u32).to_le_bytes());
    frame.extend((bytes.len() as u32).to_le_bytes());
    frame.extend(crc.finalize().to_le_bytes());
    frame.extend(&json);
    frame.extend(bytes);
    Ok(frame)
}

/// What a parser says, which may quote all of what was sent.
fn bounded(error: &serde_json::Error) -> String {
    shown_bytes(error.to_string().as_bytes(), 200)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A frame that arrives, as far as it has. It is put together without waiting, so that whoever sends half a frame stops
/// nobody.
pub struct Incoming {
    buffer: Vec<u8>,
    /// Limits of both parts.
    most: (usize, usize),
    /// Frames must be sealed.
    seal: Option<Seal>,
}

impl Incoming {
    pub fn new<T: Frame>() -> Self {
        Self { buffer: Vec::new(), most: (T::MAX_JSON, T::MAX_BYTES), seal: None }
    }

    /// For a greeting.
    pub fn hello() -> Self {
        Self { buffer: Vec::new(), most: (MAX_HELLO, 0), seal: None }
    }

    /// For frames that are sealed, where there is a seal.
    #[must_use]
    pub fn sealed(self, seal: Option<Seal>) -> Self {
        Self { seal, ..self }
    }

    /// The seal of the frames that follow.
    pub fn into_seal(self) -> Option<Seal> {
        self.seal
    }

    /// Whether nothing of a frame has come.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Bytes behind the two parts.
    fn end(&self) -> usize {
        if self.seal.is_some() { SEAL } else { 0 }
    }

    /// Bytes of the frame that is coming, as its header says; 0: that has not come.
    pub fn announced(&self) -> usize {
        self.lengths().ok().flatten().map_or(0, |(json, bytes)| json + bytes)
    }

    /// Lengths of the two parts, once they are known.
    fn lengths(&self) -> io::Result<Option<(usize, usize)>> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if header[..2] != MAGIC {
            return Err(invalid("not msgpath at the other end".into()));
        }
        if header[2] != VERSION {
            return Err(invalid(format!("the other end speaks version {}, this is version {VERSION}", header[2])));
        }
        if header[KIND] != if self.seal.is_some() { SEALED } else { PLAIN } {
            return Err(not_said());
        }
        let (json, bytes) = (word(4) as usize, word(8) as usize);
        if json > self.most.0 || bytes > self.most.1 {
            return Err(invalid("a frame beyond its limit".into()));
        }
        Ok(Some((json, bytes)))
    }

    /// Reads once, and nothing that follows the frame. 0: the other end has closed.
    ///
    /// # Errors
    /// As the reader; `InvalidData` for anything that is not a frame of this version.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        let whole = self.lengths()?.map_or(HEADER, |(json, bytes)| HEADER + json + bytes + self.end());
        let had = self.buffer.len();
        self.buffer.resize(whole.min(had + PART), 0);
        let read = loop {
            match from.read(&mut self.buffer[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(had + *read.as_ref().unwrap_or(&0));
        read
    }

    /// The frame, if it is whole.
    ///
    /// # Errors
    /// `InvalidData`; `PermissionDenied` where the other end has not said it.
    pub fn take<T: Frame>(&mut self) -> io::Result<Option<(T, Vec<u8>)>> {
        self.whole()?.map(parse).transpose()
    }

    /// The bytes of the frame without its seal, if it is whole.
    ///
    /// # Errors
    /// As [`Incoming::take`].
    pub fn whole(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((json, bytes)) = self.lengths()? else { return Ok(None) };
        let length = HEADER + json + bytes;
        if self.buffer.len() < length + self.end() {
            return Ok(None);
        }
        let mut frame = std::mem::take(&mut self.buffer);
        let seal = frame.split_off(length);
        if self.seal.as_mut().is_some_and(|own| !own.opens(&frame, &seal)) {
            return Err(not_said());
        }
        let crc = u32::from_le_bytes(frame[12..HEADER].try_into().expect("four bytes"));
        if crc32fast::hash(&frame[HEADER..]) != crc {
            return Err(invalid("a frame with a wrong checksum".into()));
        }
        Ok(Some(frame))
    }

    /// Reads until a frame is whole. `Ok(None)`: the other end closed between two frames.
    ///
    /// # Errors
    /// As [`read`].
    pub fn next<T: Frame>(&mut self, from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
        loop {
            if self.fill(from)? == 0 {
                return if self.is_empty() { Ok(None) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) };
            }
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
        }
    }
}

/// What a whole frame says.
///
/// # Errors
/// `InvalidData`.
pub fn parse<T: Frame>(mut frame: Vec<u8>) -> io::Result<(T, Vec<u8>)> {
    let length = frame.get(4..8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
    let json = frame.get(HEADER..HEADER + length).unwrap_or_default();
    let message = serde_json::from_slice(json)
        .map_err(|error| invalid(format!("a frame that says nothing: {}", bounded(&error))))?;
    frame.drain(..HEADER + length);
    Ok((message, frame))
}

/// A frame that whoever has proven to have the token has not said, or not now.
fn not_said() -> io::Error {
    let what = "a frame that the other end has not said: something between the two changes the control channel";
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// Reads one frame. `Ok(None)`: the other end closed between two frames.
///
/// # Errors
/// `InvalidData` for anything that is not a frame of this version; `UnexpectedEof` for half a frame.
pub fn read<T: Frame>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    Incoming::new::<T>().next(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_cross_and_damage_is_seen() {
        let mut bytes = Vec::new();
        let message = FromEnd::Offered { addresses: vec!["a".into(), "b".into()], program: None };
        write(&mut bytes, &message, &[1, 2, 3]).unwrap();
        let (read_back, extra) = read::<FromEnd>(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!((read_back, extra), (message, vec![1, 2, 3]));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read::<FromEnd>(&mut damaged.as_slice()).is_err(), "byte {at}");
        }
        for length in 1..bytes.len() {
            assert!(read::<FromEnd>(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(read::<FromEnd>(&mut [].as_slice()).unwrap().is_none());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Vec::new();
        write(&mut bytes, &ToEnd::Bye, &[]).unwrap();
        bytes[2] = VERSION + 1;
        let other = format!("version {}", VERSION + 1);
        assert!(read::<ToEnd>(&mut bytes.as_slice()).unwrap_err().to_string().contains(&other));
    }

    #[test]
    fn what_a_near_end_says_is_short() {
        let mut bytes = Vec::new();
        assert!(write(&mut bytes, &ToEnd::Alive, &[1]).is_err(), "no bulk");
        write(&mut bytes, &ToEnd::Alive, &[]).unwrap();
        for (at, length) in [(8, 1_u32), (8, 64 << 20), (4, ToEnd::MAX_JSON as u32 + 1)] {
            let mut large = bytes.clone();
            large[at..at + 4].copy_from_slice(&length.to_le_bytes());
            let error = read::<ToEnd>(&mut large.as_slice()).unwrap_err();
            assert!(error.to_string().contains("beyond its limit"), "{at} {length}: {error}");
        }
        let mut bytes = Vec::new();
        let locals = vec!["x".repeat(MAX_HELLO)];
        write(&mut bytes, &ToEnd::Connect { locals }, &[]).unwrap();
        let mut hello = Incoming::hello();
        let mut from = bytes.as_slice();
        hello.fill(&mut from).unwrap();
        assert!(hello.fill(&mut from).is_err(), "too much for a greeting");
    }

    #[test]
    fn the_addresses_of_the_largest_round_have_room_and_no_more_are_taken() {
        let connect = |connections: u32| {
            let mut bytes = Vec::new();
            let local = "[2001:db8:1111:2222:3333:4444:5555:6666]:54321".to_owned();
            write(&mut bytes, &ToEnd::Connect { locals: vec![local; connections as usize] }, &[]).unwrap();
            read::<ToEnd>(&mut bytes.as_slice())
        };
        assert!(matches!(connect(MAX_CONNECTIONS), Ok(Some((ToEnd::Connect { .. }, _)))));
        assert!(connect(MAX_CONNECTIONS + 1).unwrap_err().to_string().contains("more texts than connections"));
    }

    #[test]
    fn a_frame_is_put_together_from_whatever_comes() {
        let mut bytes = Vec::new();
        write(&mut bytes, &ToEnd::Alive, &[]).unwrap();
        write(&mut bytes, &ToEnd::Bye, &[]).unwrap();
        let (mut incoming, mut seen) = (Incoming::new::<ToEnd>(), Vec::new());
        for byte in bytes {
            assert_eq!(incoming.fill(&mut [byte].as_slice()).unwrap(), 1);
            seen.extend(incoming.take::<ToEnd>().unwrap().map(|(message, _)| message));
        }
        assert_eq!(seen, [ToEnd::Alive, ToEnd::Bye]);
        assert!(incoming.is_empty());
    }

    #[test]
    fn sealed_frames_are_read_as_they_were_said_and_nothing_else_is() {
        let key = crate::seal::Key([3; 32]);
        let [mut near, far] = [true, false].map(|near| crate::seal::Seals::new(&key, near));
        let mut said = Vec::new();
        let mut out = crate::seal::Sealing::new(&mut said, Some(near.says.clone()));
        write(&mut out, &ToEnd::Alive, &[]).unwrap();
        write(&mut out, &ToEnd::Bye, &[]).unwrap();
        let hear = |bytes: &[u8]| -> io::Result<Vec<ToEnd>> {
            let (mut incoming, mut from) = (Incoming::new::<ToEnd>().sealed(Some(far.hears.clone())), bytes);
            std::iter::from_fn(|| {
                incoming.next::<ToEnd>(&mut from).map(|frame| frame.map(|(message, _)| message)).transpose()
            })
            .collect()
        };
        assert_eq!(hear(&said).unwrap(), [ToEnd::Alive, ToEnd::Bye]);
        for at in 0..said.len() {
            let mut changed = said.clone();
            changed[at] ^= 1;
            assert!(hear(&changed).is_err(), "byte {at}");
        }
        let first = said.len() - said.len() / 2;
        let first = (first - 16..first + 16).find(|at| said[*at..].starts_with(b"mp")).unwrap();
        assert!(hear(&said[first..]).is_err(), "without the first");
        assert!(hear(&[&said[..first], &said[..first]].concat()).is_err(), "the first twice");
        let mut plain = said[..first].to_vec();
        write(&mut plain, &ToEnd::Bye, &[]).unwrap();
        assert_eq!(hear(&plain).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "one without a seal");
        assert!(read::<ToEnd>(&mut said.as_slice()).is_err(), "no seal is expected");
        near.says.seal(b"one more");
    }

    #[test]
    fn the_seeds_of_the_fuzz_target_are_messages() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/wire");
        let seeds = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let seeds: Vec<_> = seeds.filter(|seed| seed.to_string_lossy().ends_with("_json")).collect();
        assert!(seeds.len() > 8, "{seeds:?}");
        let why = |seed: &std::path::PathBuf| {
            let text = std::fs::read_to_string(seed).unwrap();
            let to = serde_json::from_str::<ToEnd>(&text).err()?;
            let from = serde_json::from_str::<FromEnd>(&text).err()?;
            let role = serde_json::from_str::<crate::role::Role>(&text).err()?;
            let opening = serde_json::from_str::<Opening>(&text).err()?;
            let proves = serde_json::from_str::<Proves>(&text).err()?;
            let admits = serde_json::from_str::<Admits>(&text).err()?;
            let joining = serde_json::from_str::<Joining>(&text).err()?;
            Some(format!("{}: {to}; {from}; {role}; {opening}; {proves}; {admits}; {joining}", seed.display()))
        };
        assert_eq!(seeds.iter().filter_map(why).collect::<Vec<_>>(), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read::<FromEnd>(&mut bytes.as_slice());
        }
    }
}
