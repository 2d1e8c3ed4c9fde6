//! What a round takes of memory, and what a far end gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use msgpath_core::Unavailable;
use msgpath_core::plan::Stamps;
use msgpath_core::units::size;
use msgpath_paths::{Family, is_lossy, most_unread, traits, transport};
use msgpath_sys::memory;

use crate::thread::MAX_STAMPS;
use crate::wire::{MAX_BYTES, RoundOrder};

/// What a thread takes: its stack, as far as it is touched. Its histograms are pages that are not there until something is
/// recorded ([`memory::keep_little`]).
pub const PER_THREAD: u64 = 64 << 10;
/// What the process takes for itself beyond what it had when it began to listen: pages of the program, what sessions say.
const OWN: u64 = 16 << 20;
/// What a connection takes beside its messages: its socket and its descriptors in the kernel, what is known of it here.
pub const PER_CONNECTION: u64 = 16 << 10;

impl RoundOrder {
    /// Bytes that this end takes for the round, at most: what a limit is compared with before anything is taken.
    pub fn memory(&self) -> u64 {
        // A working set for each direction, each rounded up to a power of two, and what may be unread of pages that are lent.
        let unread = match transport(&self.path.transport).map(|transport| transport.meta().family) {
            Some(Family::Pipe) => self.options.send_buffer.unwrap_or(0),
            Some(Family::Socket) if traits(&self.path).lends && !self.is_bounded() => {
                most_unread(&self.options).unwrap_or(0)
            }
            Some(Family::Process) => 8 * self.largest().max(PER_CONNECTION),
            _ => 0,
        };
        let lent = unread.saturating_mul(2 * u64::from(self.connections));
        self.bytes(u64::from(self.inflight) + 3, self.working_set.saturating_mul(4).saturating_add(lent))
    }

    /// Bytes that it takes at least: most methods keep one buffer, whatever is in flight.
    pub fn least_memory(&self) -> u64 {
        self.bytes(2, self.working_set)
    }

    /// With so many buffers of a message on each connection.
    fn bytes(&self, buffers: u64, working_set: u64) -> u64 {
        let meta = transport(&self.path.transport).map(|transport| transport.meta());
        let message = self.largest().saturating_add(u64::from(self.pieces.count) * 64);
        // A method's buffers for what is in flight, an inbox, a batch of one call.
        let mut each = message.saturating_mul(buffers);
        each = each.saturating_add((message.saturating_mul(32)).min(1 << 20)).saturating_add(PER_CONNECTION);
        if meta.is_some_and(|meta| meta.family == Family::Ring) {
            // Two rings; a slot is padded to cache lines, their count to a power of two.
            let slots = u64::from(self.inflight.max(4)).next_power_of_two();
            each = each.saturating_add(message.saturating_add(256).saturating_mul(slots * 2));
        }
        let stamps = match self.stamps {
            Stamps::Both => self.messages.min(MAX_STAMPS) * if self.departures { 16 } else { 8 },
            Stamps::Near => 0,
        };
        each = each.saturating_add(stamps);
        if !self.workload.is_echoed() && is_lossy(&self.path.transport) {
            each = each.saturating_add(self.messages.saturating_add(self.trim).min(1 << 27) / 8); // one bit a message
        }
        each = each.saturating_add(self.options.read_size.unwrap_or(0));
        let threads = PER_THREAD.saturating_mul(u64::from(self.threads));
        // They are put together to be said, and once more as a frame.
        let said = stamps.saturating_mul(u64::from(self.connections)).min(MAX_BYTES as u64) * 2;
        let own = threads.saturating_add(said).saturating_add(working_set);
        each.saturating_mul(u64::from(self.connections)).saturating_add(own)
    }
}

/// What the rounds of all sessions share: memory in bytes, or CPUs.
#[derive(Debug)]
pub struct Budget {
    total: u64,
    taken: AtomicU64,
    /// What the process had in memory before its first round, where what it has counts as well.
    before: Option<u64>,
}

/// A part of a budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    amount: u64,
}

impl Budget {
    /// So much.
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total, taken: AtomicU64::new(0), before: None })
    }

    /// So many bytes of a process that does nothing else: what it has in memory counts as well, whatever keeps it.
    pub fn of_process(total: u64) -> Arc<Self> {
        Arc::new(Self { total, taken: AtomicU64::new(0), before: memory::resident() })
    }

    /// Bytes that the process has in memory beyond itself. What the allocator keeps is given back where that matters.
    fn held(&self, wanted: u64) -> u64 {
        let Some(before) = self.before else { return 0 };
        let held = || memory::resident().map_or(0, |now| now.saturating_sub(before.saturating_add(OWN)));
        let first = held();
        if first.saturating_add(wanted) <= self.total {
            return first;
        }
        memory::give_back();
        held()
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// It is more than there is, or more than others leave at the moment.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<Share, Unavailable> {
        if bytes > self.total {
            return Err(Unavailable::new(
                format!("the round takes {} at the far end, which gives {}", size(bytes), size(self.total)),
                "smaller or fewer messages in flight, fewer connections, or there: msgpath serve --memory SIZE",
            ));
        }
        self.share(bytes).map_err(|left| {
            Unavailable::new(
                format!(
                    "the far end is busy: the round takes {}, and others leave {} of {}",
                    size(bytes),
                    size(left),
                    size(self.total)
                ),
                "later again, or there: msgpath serve --memory SIZE",
            )
        })
    }

    /// Takes a part.
    ///
    /// # Errors
    /// What others leave.
    pub(crate) fn share(self: &Arc<Self>, amount: u64) -> Result<Share, u64> {
        let held = self.held(amount);
        let fits = |taken: u64| {
            let sum = taken.checked_add(amount)?;
            (sum.max(held.saturating_add(amount)) <= self.total).then_some(sum)
        };
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Share { budget: Arc::clone(self), amount }),
            Err(taken) => Err(self.total - taken),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

/// Asks the kernel whether so much memory can be had, and gives it back: a refusal is an answer, where the first buffer
/// that cannot be had would end the process.
///
/// # Errors
/// It cannot.
pub fn can_be_had(bytes: u64) -> Result<(), Unavailable> {
    match usize::try_from(bytes).is_ok_and(memory::can_be_had) {
        true => Ok(()),
        false => Err(Unavailable::new(
            format!("there are no {} of memory for the round", size(bytes)),
            "smaller or fewer messages in flight, fewer connections, or a higher limit (ulimit -v)",
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use msgpath_core::PathName;
    use msgpath_core::Workload;
    use msgpath_core::plan::{ChannelOptions, Dispatch};
    use msgpath_core::units::Pieces;

    /// An order of one message of 64 bytes on one connection.
    pub fn order(path: &str) -> RoundOrder {
        let mut parts = path.split([':', '/']);
        let mut part = |usual| parts.next().unwrap_or(usual).to_owned();
        let path = PathName::new(part("tcp"), part("send"), part("block"));
        RoundOrder {
            workload: Workload::ECHO,
            reverse: false,
            path,
            pieces: Pieces::whole(64),
            reply: 64,
            connections: 1,
            threads: 1,
            dispatch: Dispatch::Turns,
            inflight: 1,
            messages: 1,
            trim: 0,
            patience_ns: 0,
            timed: None,
            cpus: Vec::new(),
            stamps: Stamps::Near,
            departures: false,
            traced: false,
            urgent: false,
            events: false,
            options: ChannelOptions::default(),
            service_time: None,
            seed: 1,
            working_set: 0,
            program: None,
            parts: msgpath_core::parts::Parts::default(),
        }
    }

    #[test]
    fn what_a_round_takes_is_the_product_of_what_is_ordered() {
        let gib = RoundOrder { pieces: Pieces::whole(1 << 30), reply: 1 << 30, ..order("tcp:send") };
        assert!(gib.memory() > 2 << 30);
        let three = RoundOrder { connections: 3, threads: 3, ..gib.clone() };
        assert!(three.memory() >= 3 * (2 << 30), "each connection has its own");
        let flight =
            RoundOrder { connections: 256, inflight: 4096, pieces: Pieces::whole(1 << 20), ..order("tcp:send") };
        assert!(flight.memory() >= 1 << 40);
        assert!(RoundOrder { working_set: 1 << 30, ..order("tcp:send") }.memory() >= 1 << 30);
        let mut ahead = order("tcp:send");
        ahead.options.read_size = Some(16 << 20);
        assert!(ahead.memory() >= order("tcp:send").memory() + (16 << 20) * u64::from(ahead.connections));
        let many = RoundOrder { messages: 1 << 40, trim: 1 << 40, ..order("udp:send") };
        assert!(RoundOrder { workload: Workload::STREAM, ..many.clone() }.memory() >= 16 << 20, "one bit a message");
        let stamped = RoundOrder { stamps: Stamps::Both, ..many };
        assert!(stamped.memory() >= 3 * (2 << 20), "one stamp a message, put together and as a frame");
        let both = RoundOrder { departures: true, connections: 256, ..stamped };
        let kept = 256 * (4 << 20);
        assert!((kept + (128 << 20)..kept + (192 << 20)).contains(&both.memory()), "{}", both.memory());
        let usual = RoundOrder { connections: 16, threads: 16, inflight: 8, ..order("tcp:send") };
        assert!(usual.memory() < 4 << 20, "{}", usual.memory());
        let many = RoundOrder { connections: 10_000, ..order("tcp:send/epoll") };
        assert!(many.memory() < 256 << 20, "10,000 connections: {}", many.memory());
        let bulk = RoundOrder { workload: Workload::STREAM, pieces: Pieces::whole(1 << 20), ..usual };
        assert!(bulk.memory() < 256 << 20, "a stream of 1 MiB on 16 connections: {}", bulk.memory());
        let options =
            ChannelOptions { send_buffer: Some(1 << 20), receive_buffer: Some(1 << 20), ..Default::default() };
        let lent = RoundOrder { options, ..order("tcp:sendfile") };
        assert!(lent.memory() < 1 << 20, "who answers has read it: {}", lent.memory());
        let lent = RoundOrder { workload: Workload::STREAM, ..lent };
        assert!(lent.memory() > 4 << 20, "what both buffers hold is lent: {}", lent.memory());
    }

    #[test]
    fn a_share_comes_back_and_no_more_is_given_than_there_is() {
        let budget = Budget::new(100);
        let first = budget.take(60).unwrap();
        let busy = budget.take(60).unwrap_err();
        assert!(busy.why.contains("busy"), "{busy:?}");
        let never = budget.take(101).unwrap_err();
        assert!(!never.why.contains("busy") && never.hint.contains("--memory"), "{never:?}");
        drop(first);
        budget.take(100).unwrap();
        assert!(budget.take(u64::MAX).is_err());
    }

    #[test]
    fn what_a_process_has_in_memory_counts() {
        let budget = Arc::new(Budget { total: 64 << 20, taken: AtomicU64::new(0), before: Some(0) });
        let more = vec![1_u8; 96 << 20];
        let busy = budget.take(1 << 20).unwrap_err();
        assert!(busy.why.contains("busy") && more[1 << 20] == 1, "{busy:?}");
        assert!(Budget::of_process(1 << 40).take(1 << 20).is_ok());
    }

    #[test]
    fn what_cannot_be_had_is_an_answer() {
        can_be_had(1 << 20).unwrap();
        assert!(can_be_had(u64::MAX / 2).unwrap_err().why.contains("memory"));
    }
}
