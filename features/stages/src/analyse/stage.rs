//! The stages of a message, in the order of time, and what they are called where boundaries between them are missing.

use msgpath_core::schema::EventKind;
use msgpath_core::{Case, traits::Stack};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use msgpath_analyse::stages::Kind;

/// The kinds that a direction has, in the order of time.
pub const LEG: [Kind; LEGS] = [
    Kind::SendCall,
    Kind::Transmit,
    Kind::HeldBack,
    Kind::Device,
    Kind::Softirq,
    Kind::Signal,
    Kind::WakeCall,
    Kind::InFlight,
    Kind::Delay,
    Kind::Again,
    Kind::Return,
    Kind::Deliver,
];
/// How many they are.
pub const LEGS: usize = 12;

/// Position of a kind in [`LEG`].
pub(super) const fn slot(kind: Kind) -> usize {
    // `Waiting` stands before them.
    kind as usize - 1
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageDirection {
    /// Near end to far end.
    Request,
    /// Far end to near end.
    Reply,
}

impl StageDirection {
    /// Both, in the order of time.
    pub const ALL: [StageDirection; 2] = [StageDirection::Request, StageDirection::Reply];

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            StageDirection::Request => "request",
            StageDirection::Reply => "reply",
        }
    }
}

/// Which boundaries the events of a case show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What carries the messages.
    pub stack: Stack,
    /// `sys_enter`.
    pub calls: bool,
    /// `net_dev_start_xmit` of the senders (not with PACKET_QDISC_BYPASS).
    pub xmit: bool,
    /// `netif_rx`, which can stand for it.
    pub arrival: bool,
    /// `netif_receive_skb`.
    pub receive: bool,
    /// `sk_data_ready`.
    pub ready: bool,
    /// `sched_waking`.
    pub waking: bool,
    /// Wake-up in flight and scheduling delay are one number.
    pub joined: bool,
    /// The receiver waits for signals.
    pub signals: bool,
    /// Sender and receiver traced themselves, on a host each as far as anybody knows.
    pub apart: bool,
    /// When a packet leaves the sender is seen.
    pub sender: bool,
    /// What the receiver does is seen.
    pub receiver: bool,
}

impl Shape {
    /// The shape of a case where these events are recorded.
    pub fn new(case: &Case, recorded: impl Fn(EventKind) -> bool, joined: bool) -> Self {
        Self {
            stack: case.traits.stack,
            calls: recorded(EventKind::SysEnter),
            xmit: recorded(EventKind::NetDevStartXmit),
            arrival: recorded(EventKind::NetifRx),
            receive: recorded(EventKind::NetifReceiveSkb),
            ready: recorded(EventKind::SkDataReady),
            waking: recorded(EventKind::SchedWaking),
            joined,
            signals: case.traits.signals && recorded(EventKind::SignalGenerate),
            apart: false,
            sender: true,
            receiver: true,
        }
    }

    /// One direction between ends that traced themselves, from what each would show; `None`: it traces nothing.
    pub fn between(from: Option<&Shape>, to: Option<&Shape>, case: &Case) -> Self {
        let none = Shape::new(case, |_| false, false);
        let (sender, receiver) = (from.unwrap_or(&none), to.unwrap_or(&none));
        Self {
            calls: sender.calls,
            xmit: sender.xmit,
            apart: true,
            sender: sender.xmit,
            receiver: to.is_some(),
            // The packet is known by the socket that it makes readable.
            receive: receiver.receive && receiver.ready,
            ..*receiver
        }
    }

    /// What a stage is called here.
    pub fn name(&self, kind: Kind) -> &'static str {
        let device = self.stack.has_device();
        match kind {
            Kind::Waiting => "waiting to be sent",
            Kind::SendCall => "send call",
            Kind::Transmit if !device && self.stack.has_ready() => "send call until data ready",
            Kind::Transmit if !device => "send call",
            Kind::Transmit if !self.xmit && !self.arrival && !self.receive => "send call until data ready",
            Kind::Transmit if !self.xmit && !self.arrival && self.calls => "transmit stack and device",
            Kind::Transmit if !self.xmit && !self.arrival => "send call, transmit stack and device",
            Kind::Transmit if self.calls => "transmit stack",
            Kind::Transmit => "send call and transmit stack",
            Kind::HeldBack => "held back after the send call",
            Kind::Device if self.apart => match (self.sender, self.receiver, self.receive) {
                (true, true, true) => "device and wire",
                (true, true, false) => "device, wire and receive softirq",
                (true, false, _) => "device, wire and the receiver's kernel",
                (false, true, true) => "send call, transmit stack, device and wire",
                (false, true, false) => "send call, device, wire and receive softirq",
                (false, false, _) => "from one end to the other",
            },
            Kind::Device if !self.receive => "device, wire and receive softirq",
            Kind::Device => "device and wire",
            Kind::Softirq if !self.ready => "receive softirq and wake-up call",
            Kind::Softirq => "receive softirq",
            Kind::Signal => "data ready until the signal",
            Kind::WakeCall if !self.waking => "wake-up call and wake-up in flight",
            Kind::WakeCall if !self.stack.has_ready() => "send call until the wake-up",
            Kind::WakeCall => "wake-up call",
            Kind::InFlight if self.joined => "wake-up in flight and run-queue wait",
            Kind::InFlight => "wake-up in flight",
            Kind::Delay => "scheduling delay",
            Kind::Again => "receiver asleep again",
            Kind::Return if self.stack == Stack::Memory => "receiver on its CPU: load",
            Kind::Return if self.signals => "receiver on its CPU",
            Kind::Return => "receive call returns",
            Kind::Deliver => "signal until the handler's stamp",
            Kind::Handler => "handler",
        }
    }
}
