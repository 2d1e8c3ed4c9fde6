//! What the processes of a periodic run are told in their role, and what they answer.

use std::net::IpAddr;

use msgpath_core::group::Group;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::{CallCounts, PathName};
use msgpath_sys::usage::Usage;
use serde::{Deserialize, Serialize};

use super::mac::{KEY, Mac};
use crate::record::Component;

/// The role of such a process.
pub const ROLE: &str = "periodic";
/// Bytes at the start of every message: when it was made (ns), by whom (from 1), which one (from 1).
pub const HEAD: usize = 16;
/// Most components of all processes together.
pub const MAX_COMPONENTS: u32 = 64;
/// Most rows of one process: what it sends and what it receives.
pub const MAX_ROWS: u64 = 1_500_000;

/// When components begin to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// All at one time, when the last one is ready.
    #[default]
    Barrier,
    /// The same, spread evenly over the first period.
    Staggered,
    /// Each as soon as it is ready itself.
    Storm,
}

impl Start {
    /// As typed and recorded.
    pub fn name(self) -> &'static str {
        match self {
            Start::Barrier => "barrier",
            Start::Staggered => "staggered",
            Start::Storm => "storm",
        }
    }
}

/// Everything a process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub process: u32,
    /// Components in each process.
    pub components: u32,
    /// Components of all processes together.
    pub of: u32,
    /// The engine.
    pub path: PathName,
    pub options: ChannelOptions,
    /// Bytes of a message, head and tag included.
    pub size: u32,
    /// Messages of each component.
    pub messages: u64,
    /// The first so many are a slice of their own kind: no slice border lies in them.
    pub first: u64,
    /// Slices of the rest.
    pub slices: u32,
    /// Time between two messages, ns.
    pub period_ns: u64,
    /// Most that chance adds to a message's time, ns.
    pub jitter_ns: u64,
    /// Chance.
    pub seed: u64,
    /// How components begin.
    pub start: Start,
    /// Authentication.
    pub mac: Mac,
    /// Ethernet: the tag of this session's frames.
    pub tag: u32,
    /// UDP: all sockets have this port, on addresses 127.a.b.(number + 1).
    pub port: u16,
    /// UDP: a and b.
    pub network: [u8; 2],
    /// An address that is reached through the link of the process's namespace.
    pub beyond: Option<IpAddr>,
    /// Number of the first component at the far side of a link that the messages cross; 0: there is none, and all hear all.
    pub border: u32,
    /// Shared memory: where the parent's descriptor can be opened.
    pub area: Option<String>,
    /// The multicast group: then component 0 sends to it alone, and the others receive alone.
    pub group: Option<GroupOrder>,
    /// When the process was started, ns of the monotonic clock; `None`: its clock is another one.
    pub spawned_ns: Option<u64>,
}

/// What a process does with a multicast group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOrder {
    /// The group, with the sender's device.
    pub group: Group,
    /// TTL or hop limit.
    pub hops: u8,
    /// Receivers are in the sender's network namespace.
    pub looped: bool,
    /// The device that receivers join on, where it is another.
    pub join: Option<String>,
    /// The place of this process; empty: that of the run.
    pub place: String,
}

impl Order {
    /// The slice of message `number`.
    pub fn slice(&self, number: u64) -> u32 {
        slice(number, self.first, self.messages, self.slices)
    }

    /// How many components are heard by component `number`.
    pub fn heard_by(&self, number: u32) -> u64 {
        let heard = |other: &u32| *other != number && self.sends(*other) && crosses(self.border, *other, number);
        (0..self.of).filter(heard).count() as u64
    }

    /// Whether component `number` sends.
    pub fn sends(&self, number: u32) -> bool {
        self.group.is_none() || number == 0
    }

    /// Number of the process's component `at` among all.
    pub fn number(&self, at: u32) -> u32 {
        self.process * self.components + at
    }
}

/// Whether a message of `sender` reaches `receiver`: with a border, those of one side do not hear one another.
pub fn crosses(border: u32, sender: u32, receiver: u32) -> bool {
    border == 0 || (sender < border) != (receiver < border)
}

/// The slice of message `number` (from 0): the first ones belong to the first slice, the rest is cut evenly.
pub fn slice(number: u64, first: u64, messages: u64, slices: u32) -> u32 {
    match (number.checked_sub(first), messages.saturating_sub(first)) {
        (Some(steady), rest) if rest > 0 => {
            ((u128::from(steady) * u128::from(slices) / u128::from(rest)) as u32).min(slices.saturating_sub(1))
        }
        _ => 0,
    }
}

/// What the coordinator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToProcess {
    /// What to do.
    Order(Box<Order>),
    /// The group's key.
    Key([u8; KEY]),
    /// The first period begins then, ns of the monotonic clock.
    Begin(u64),
    /// What its clock says.
    Clock,
}

/// What a process says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromProcess {
    /// The key, please.
    Key,
    /// When it was asked for its clock and when it answers, ns of that clock.
    Clock { asked_ns: u64, answered_ns: u64 },
    /// The end; the rows follow as bytes: for each component its sent ones, then its received ones.
    Done(Vec<Report>),
}

/// One component at its end. Times are ns of the monotonic clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What goes to the record as it is, but for the times, which are made relative.
    pub component: Component,
    /// Rows sent.
    pub sent: u32,
    /// Rows received.
    pub received: u32,
    /// State of the sender at the start and at the end of each slice: slices + 1, fewer where it was stopped.
    pub sending: Vec<Reading>,
    /// The same of the receiver.
    pub receiving: Vec<Reading>,
    /// Run delays of sender and receiver, read by the sender at the same points; empty: not readable.
    pub delays: Vec<(u64, u64)>,
}

/// What a thread has used and called so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// When, ns of the monotonic clock.
    pub read_ns: u64,
    /// System calls and the like.
    pub calls: CallCounts,
    /// CPU time in user mode and in the kernel, ns.
    pub cpu_ns: (u64, u64),
    /// Voluntary and involuntary context switches.
    pub switches: (u64, u64),
    /// Page faults without and with I/O.
    pub faults: (u64, u64),
}

impl Reading {
    /// Now, in the calling thread.
    pub fn now(calls: CallCounts) -> Self {
        let Usage { user_ns, system_ns, voluntary, involuntary, minor_faults, major_faults } =
            msgpath_sys::usage::thread();
        Self {
            read_ns: msgpath_sys::clock::now(),
            calls,
            cpu_ns: (user_ns, system_ns),
            switches: (voluntary, involuntary),
            faults: (minor_faults, major_faults),
        }
    }
}

/// A message that was sent: when it was due, made, handed to the engine, and when the engine returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentRow {
    /// When it was to be made, ns of the monotonic clock, like the others.
    pub due: u64,
    /// When it was made.
    pub made: u64,
    /// Just before the send call: after the authentication.
    pub call: u64,
    /// The send call returned; 0: it failed.
    pub returned: u64,
}

/// A message that was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedRow {
    /// Its sender, from 0.
    pub sender: u32,
    /// Its number, from 0.
    pub number: u32,
    /// When it was made, as it says itself.
    pub made: u64,
    /// The receive call returned.
    pub received: u64,
    /// Its authentication was checked.
    pub delivered: u64,
}

/// Bytes of a row on the way home.
pub const ROW: usize = 32;

fn words(words: [u64; 4]) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u64::to_le_bytes)
}

fn read(bytes: &[u8]) -> [u64; 4] {
    let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    [word(0), word(8), word(16), word(24)]
}

impl SentRow {
    /// On the way home.
    pub fn bytes(self) -> impl Iterator<Item = u8> {
        words([self.due, self.made, self.call, self.returned])
    }

    /// At home.
    pub fn read(bytes: &[u8]) -> Self {
        let [due, made, call, returned] = read(bytes);
        Self { due, made, call, returned }
    }
}

impl ReceivedRow {
    /// On the way home.
    pub fn bytes(self) -> impl Iterator<Item = u8> {
        words([u64::from(self.sender) << 32 | u64::from(self.number), self.made, self.received, self.delivered])
    }

    /// At home.
    pub fn read(bytes: &[u8]) -> Self {
        let [who, made, received, delivered] = read(bytes);
        Self { sender: (who >> 32) as u32, number: who as u32, made, received, delivered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_messages_have_no_border_and_the_rest_is_even() {
        let counts = |first, messages| {
            let mut counts = [0; 4];
            (0..messages).for_each(|number| counts[slice(number, first, messages, 4) as usize] += 1);
            counts
        };
        assert_eq!(counts(50, 1050), [300, 250, 250, 250]);
        assert_eq!(counts(0, 6), [2, 1, 2, 1]);
        assert_eq!(counts(5, 5), [5, 0, 0, 0]);
        assert_eq!(counts(9, 5), [5, 0, 0, 0]);
    }

    #[test]
    fn with_a_border_only_the_other_side_is_heard() {
        assert!(crosses(0, 1, 2) && crosses(2, 1, 2) && crosses(2, 3, 0));
        assert!(!crosses(2, 0, 1) && !crosses(2, 2, 3));
    }

    proptest! {
        #[test]
        fn rows_come_back(a in any::<u64>(), b in any::<u64>(), c in any::<u32>(), d in any::<u32>()) {
            let sent = SentRow { due: a, made: b, call: a ^ b, returned: !a };
            prop_assert_eq!(SentRow::read(&sent.bytes().collect::<Vec<_>>()), sent);
            let received = ReceivedRow { sender: c, number: d, made: a, received: b, delivered: !b };
            prop_assert_eq!(ReceivedRow::read(&received.bytes().collect::<Vec<_>>()), received);
        }

        #[test]
        fn a_row_that_is_cut_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (SentRow::read(&bytes), ReceivedRow::read(&bytes));
        }
    }
}
