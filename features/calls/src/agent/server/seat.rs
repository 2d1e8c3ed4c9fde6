//! The places of connections: which one is given up where another connection comes and there is none. Whoever asks nothing, or
//! has asked half of something, for longer than a moment goes before somebody who comes is turned away.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The place of one connection. It is free when its thread has let go of it.
#[derive(Debug)]
pub struct Seat {
    /// Whom it is counted to.
    pub source: IpAddr,
    /// The thread that has it.
    pub post: usize,
    /// When a call was answered last, or it was accepted, ns.
    answered_ns: AtomicU64,
    /// How its thread names it; [`u64::MAX`]: it has not taken it yet.
    pub token: AtomicU64,
    /// It is to end, for another one.
    ended: AtomicBool,
}

impl Seat {
    /// Just accepted.
    pub fn new(source: IpAddr, post: usize, now_ns: u64) -> Arc<Self> {
        let (answered_ns, token) = (AtomicU64::new(now_ns), AtomicU64::new(u64::MAX));
        Arc::new(Self { source, post, answered_ns, token, ended: AtomicBool::new(false) })
    }

    /// Whether another connection has its place.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// A call was answered.
    pub fn answered(&self, now_ns: u64) {
        self.answered_ns.store(now_ns, Ordering::Relaxed);
    }
}

/// Whether there is a place.
#[derive(Debug)]
pub enum Room {
    Free,
    /// There is once this connection was ended.
    After(Arc<Seat>),
    /// All are in use.
    None,
}

/// All places that are taken.
pub struct Seats {
    taken: Vec<Arc<Seat>>,
    most: usize,
    /// How long who asks nothing has a place for sure, ns.
    sure_ns: u64,
}

impl Seats {
    /// So many.
    pub fn new(most: usize, sure: Duration) -> Self {
        Self { taken: Vec::new(), most, sure_ns: u64::try_from(sure.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Whether there is a place for a connection from `source`. An address beyond loopback has half of them at most.
    pub fn room(&mut self, source: IpAddr, now_ns: u64) -> Room {
        let most_of_one = if source.is_loopback() { usize::MAX } else { self.most.div_ceil(2) };
        if self.taken.len() < self.most.min(most_of_one) {
            return Room::Free;
        }
        self.taken.retain(|seat| Arc::strong_count(seat) > 1);
        let of_one = self.taken.iter().filter(|seat| seat.source == source).count() >= most_of_one;
        if !of_one && self.taken.len() < self.most {
            return Room::Free;
        }
        let answered = |seat: &Seat| seat.answered_ns.load(Ordering::Relaxed);
        let idle = |seat: &Seat| now_ns.saturating_sub(answered(seat)) >= self.sure_ns;
        let goes = self.taken.iter().enumerate().filter(|(_, seat)| idle(seat) && (!of_one || seat.source == source));
        match goes.min_by_key(|(_, seat)| answered(seat)).map(|(at, _)| at) {
            Some(at) => {
                let seat = self.taken.swap_remove(at);
                seat.ended.store(true, Ordering::Relaxed);
                Room::After(seat)
            }
            None => Room::None,
        }
    }

    pub fn take(&mut self, seat: &Arc<Seat>) {
        self.taken.push(Arc::clone(seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_idle_goes_and_an_address_has_half() {
        let mut seats = Seats::new(4, Duration::from_nanos(100));
        let [greedy, other, here] = [[192, 0, 2, 1], [192, 0, 2, 2], [127, 0, 0, 1]].map(IpAddr::from);
        let mut all = Vec::new();
        let mut comes = |seats: &mut Seats, source, now| {
            let room = seats.room(source, now);
            if !matches!(room, Room::None) {
                let seat = Seat::new(source, 0, now);
                seat.token.store(all.len() as u64, Ordering::Relaxed);
                seats.take(&seat);
                all.push(seat);
            }
            match room {
                Room::Free => "free".to_owned(),
                Room::After(seat) => format!("after {}", seat.token.load(Ordering::Relaxed)),
                Room::None => "none".to_owned(),
            }
        };
        assert_eq!([0, 1, 2].map(|now| comes(&mut seats, greedy, now)), ["free", "free", "none"]);
        assert_eq!([3, 4, 5].map(|now| comes(&mut seats, here, now)), ["free", "free", "none"]);
        assert_eq!(comes(&mut seats, greedy, 102), "after 0", "its own, though all are taken");
        assert_eq!(comes(&mut seats, other, 103), "after 1", "the longest idle of all");
        assert_eq!(comes(&mut seats, other, 103), "after 2");
        assert_eq!(comes(&mut seats, other, 104), "none", "half of them, and none is idle");
        all[4].answered(200);
        drop(all.split_off(5));
        assert!(matches!(seats.room(other, 201), Room::Free), "those that have ended are free");
    }
}
