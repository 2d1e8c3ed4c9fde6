//! What the two ends count while they measure. Plain numbers; nothing here is derived.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// System calls and their outcome, counted where they are made, measured messages only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CallCounts {
    /// Calls that hand bytes over (`send`, `writev`, `io_uring_enter` for a send, futex wakes of a ring).
    pub send_calls: u64,
    /// Calls that take bytes out.
    pub recv_calls: u64,
    /// Calls that only wait (`poll`, `epoll_wait`, futex waits).
    pub wait_calls: u64,
    /// Calls for bookkeeping: reading completions, setting and clearing a cork.
    pub other_calls: u64,
    /// Receive calls that returned all that was missing of the message.
    pub recv_full: u64,
    /// Receive calls that returned fewer bytes than asked for.
    pub recv_short: u64,
    /// Receive calls that returned nothing (`EAGAIN`).
    pub recv_empty: u64,
    /// Send calls that took only a part of the bytes.
    pub send_short: u64,
    /// Bytes the program itself copied to put pieces together (`flatten`).
    pub copied_bytes: u64,
    /// Signals that the receiver's handler took (wait `sigio`). One may stand for several messages.
    #[serde(default)]
    pub signals: u64,
    /// Frames for this socket that the kernel dropped because its buffer was full (transport `eth`).
    #[serde(default)]
    pub dropped: u64,
    /// Messages of both directions that a BPF program handed from socket to socket (transport `sockmap`), as the program
    /// counts them; a long one counts more than once.
    #[serde(default)]
    pub redirected: u64,
    /// Bytes that were mapped into the receiver, not copied by the kernel (wait `zc-receive`).
    #[serde(default)]
    pub mapped_bytes: u64,
}

impl CallCounts {
    /// Adds another end's or thread's counts.
    pub fn add(&mut self, other: &CallCounts) {
        self.send_calls += other.send_calls;
        self.recv_calls += other.recv_calls;
        self.wait_calls += other.wait_calls;
        self.other_calls += other.other_calls;
        self.recv_full += other.recv_full;
        self.recv_short += other.recv_short;
        self.recv_empty += other.recv_empty;
        self.send_short += other.send_short;
        self.copied_bytes += other.copied_bytes;
        self.signals += other.signals;
        self.dropped += other.dropped;
        self.redirected += other.redirected;
        self.mapped_bytes += other.mapped_bytes;
    }

    /// What was counted since `before`; nothing of what another process says to have become fewer.
    pub fn since(&self, before: &CallCounts) -> CallCounts {
        CallCounts {
            send_calls: self.send_calls.saturating_sub(before.send_calls),
            recv_calls: self.recv_calls.saturating_sub(before.recv_calls),
            wait_calls: self.wait_calls.saturating_sub(before.wait_calls),
            other_calls: self.other_calls.saturating_sub(before.other_calls),
            recv_full: self.recv_full.saturating_sub(before.recv_full),
            recv_short: self.recv_short.saturating_sub(before.recv_short),
            recv_empty: self.recv_empty.saturating_sub(before.recv_empty),
            send_short: self.send_short.saturating_sub(before.send_short),
            copied_bytes: self.copied_bytes.saturating_sub(before.copied_bytes),
            signals: self.signals.saturating_sub(before.signals),
            dropped: self.dropped.saturating_sub(before.dropped),
            redirected: self.redirected.saturating_sub(before.redirected),
            mapped_bytes: self.mapped_bytes.saturating_sub(before.mapped_bytes),
        }
    }

    /// All system calls.
    pub fn total_calls(&self) -> u64 {
        self.send_calls + self.recv_calls + self.wait_calls + self.other_calls
    }
}

/// What the kernel said about zero-copy sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ZeroCopyCounts {
    /// Sends that asked for zero copy.
    pub asked: u64,
    /// Completions that said: not copied.
    pub zero_copied: u64,
    /// Completions that said: copied after all.
    pub copied: u64,
    /// Sends without an answer when the round ended. Neither of the two.
    pub unanswered: u64,
    /// Notifications read (one may answer many sends).
    pub notifications: u64,
    /// Sends the kernel refused for lack of `optmem` (`ENOBUFS`) and that were repeated.
    pub no_buffers: u64,
}

impl ZeroCopyCounts {
    /// Adds another end's or thread's counts.
    pub fn add(&mut self, other: &ZeroCopyCounts) {
        self.asked += other.asked;
        self.zero_copied += other.zero_copied;
        self.copied += other.copied;
        self.unanswered += other.unanswered;
        self.notifications += other.notifications;
        self.no_buffers += other.no_buffers;
    }
}

/// What became of the messages of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Delivery {
    /// Handed to the transport.
    pub sent: u64,
    /// Arrived (echo: whose reply arrived) in time.
    pub received: u64,
    /// Never arrived, or later than the loss timeout. Infinite in the quantiles.
    pub lost: u64,
    /// Arrived a second time.
    pub duplicated: u64,
    /// Arrived after a message that was sent later.
    pub reordered: u64,
    /// Arrived after they had been counted as lost.
    pub late: u64,
    /// Messages whose every byte was compared with what was sent.
    pub verified: u64,
}

impl Delivery {
    /// Adds another thread's counts.
    pub fn add(&mut self, other: &Delivery) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.late += other.late;
        self.verified += other.verified;
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Delivery) -> Delivery {
        Delivery {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            lost: self.lost - before.lost,
            duplicated: self.duplicated - before.duplicated,
            reordered: self.reordered - before.reordered,
            late: self.late - before.late,
            verified: self.verified - before.verified,
        }
    }
}
