//! Two single-producer single-consumer rings in one memfd, one for each direction, with optional futex wake-ups.
//!
//! Layout: one page of header, then the bytes of direction 0, then those of direction 1. Each direction's words stand
//! 128 bytes apart (two cache lines: adjacent-line prefetch counts as sharing). A message is `u32 length`, its bytes,
//! padded to 8. Positions only grow; their low bits are the place in the ring. The peer may write nonsense: every
//! length and position is checked against the capacity before it is used.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use crate::mapping::Mapping;

const PAGE: usize = 4096;
const LINE: usize = 128;
/// Smallest ring of one direction, bytes.
pub const MIN_CAPACITY: usize = 64 * 1024;
/// Largest ring of one direction, bytes.
pub const MAX_CAPACITY: usize = 1 << 31;

/// Bytes that a message of `size` takes in the ring.
fn space(size: usize) -> u64 {
    (size as u64 + 4).next_multiple_of(8)
}

/// The capacity that holds `messages` messages of `size` bytes: a power of two.
pub fn capacity_for(size: usize, messages: usize) -> usize {
    (space(size) as usize).saturating_mul(messages.max(1)).next_power_of_two().clamp(MIN_CAPACITY, MAX_CAPACITY)
}

struct Memory {
    mapping: Mapping,
    capacity: usize,
}

impl Memory {
    fn word(&self, direction: usize, word: usize) -> *mut u8 {
        self.mapping.base().wrapping_add((direction * 4 + word) * LINE)
    }

    fn position(&self, direction: usize, word: usize) -> &AtomicU64 {
        // SAFETY: inside the header page, aligned to 128; every process accesses this word as an atomic only.
        unsafe { AtomicU64::from_ptr(self.word(direction, word).cast()) }
    }

    fn flag(&self, direction: usize, word: usize) -> &AtomicU32 {
        // SAFETY: as in `position`.
        unsafe { AtomicU32::from_ptr(self.word(direction, word).cast()) }
    }

    fn bytes(&self, direction: usize) -> *mut u8 {
        self.mapping.base().wrapping_add(PAGE + direction * self.capacity)
    }
}

const TAIL: usize = 0;
const HEAD: usize = 1;
const DATA_WAITER: usize = 2;
const SPACE_WAITER: usize = 3;

/// One process's end of the two rings.
pub struct Ring {
    memory: Arc<Memory>,
    out: usize,
    /// Own positions; the shared words are copies for the peer.
    tail: u64,
    head: u64,
    /// The peer's positions as last seen: the shared word is read only when they do not suffice.
    peer_head: u64,
    peer_tail: u64,
    notify: bool,
    wakes: u64,
    sleeps: u64,
}

impl Ring {
    /// Makes the memory, sealed against resizing, and the end that created it. `notify`: a sender wakes a sleeping
    /// receiver by futex (both ends must agree).
    ///
    /// # Errors
    /// No memfd, or not enough memory.
    pub fn create(capacity: usize, notify: bool) -> io::Result<(OwnedFd, Self)> {
        let capacity = capacity.next_power_of_two().clamp(MIN_CAPACITY, MAX_CAPACITY);
        let (fd, mapping) = Mapping::create_sealed("msgpath-ring", PAGE + 2 * capacity)?;
        Ok((fd, Self::with(Memory { mapping, capacity }, 0, notify)))
    }

    /// The other end, from the descriptor that [`Ring::create`] returned in the other process.
    ///
    /// # Errors
    /// Not such a descriptor: the size is no ring's, or it could be shrunk.
    pub fn attach(fd: &OwnedFd, notify: bool) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a ring of msgpath");
        let capacity = |size: usize| size.saturating_sub(PAGE) / 2;
        let whole = |size| {
            let capacity = capacity(size);
            capacity.is_power_of_two()
                && (MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity)
                && PAGE + 2 * capacity == size
        };
        let mapping = Mapping::attach_sealed(fd, whole)?.ok_or_else(invalid)?;
        let capacity = capacity(mapping.len());
        Ok(Self::with(Memory { mapping, capacity }, 1, notify))
    }

    fn with(memory: Memory, out: usize, notify: bool) -> Self {
        let memory = Arc::new(memory);
        Self { memory, out, tail: 0, head: 0, peer_head: 0, peer_tail: 0, notify, wakes: 0, sleeps: 0 }
    }

    /// The same end once more, for a second thread: one of the two sends, the other receives. Made before the first
    /// message; positions are not shared.
    #[must_use]
    pub fn twin(&self) -> Self {
        debug_assert!(self.tail == 0 && self.head == 0, "a ring is divided before it is used");
        Self { memory: Arc::clone(&self.memory), wakes: 0, sleeps: 0, ..*self }
    }

    /// Bytes of one direction.
    pub fn capacity(&self) -> usize {
        self.memory.capacity
    }

    /// Most bytes of a message.
    pub fn max_message(&self) -> usize {
        self.capacity() - 8
    }

    /// Whether a sender wakes a sleeping receiver.
    pub fn notifies(&self) -> bool {
        self.notify
    }

    /// Futex wakes and futex waits of this end so far.
    pub fn futex_calls(&self) -> (u64, u64) {
        (self.wakes, self.sleeps)
    }

    /// Puts a whole message in, if there is room. The receiver is woken if it sleeps and this ring notifies.
    ///
    /// # Errors
    /// A message that never fits; a peer that wrote an impossible position.
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<bool> {
        let need = space(message.len());
        let capacity = self.memory.capacity as u64;
        if need > capacity {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        if self.tail - self.peer_head + need > capacity {
            let head = self.memory.position(self.out, HEAD).load(Ordering::Acquire);
            if head > self.tail || head < self.peer_head {
                return Err(nonsense());
            }
            self.peer_head = head;
            if self.tail - head + need > capacity {
                return Ok(false);
            }
        }
        self.copy_in(self.tail, &(message.len() as u32).to_ne_bytes());
        self.copy_in(self.tail + 4, message);
        self.tail += need;
        self.memory.position(self.out, TAIL).store(self.tail, Ordering::Release);
        if self.notify {
            self.wake(self.out, DATA_WAITER);
        }
        Ok(true)
    }

    /// Takes a whole message out, if there is one. Returns its length.
    ///
    /// # Errors
    /// A message longer than `buffer`, or a peer that wrote an impossible length or position.
    #[inline(always)]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let from = 1 - self.out;
        if self.peer_tail == self.head {
            let tail = self.memory.position(from, TAIL).load(Ordering::Acquire);
            if tail == self.head {
                return Ok(None);
            }
            if tail < self.head || tail - self.head > self.memory.capacity as u64 {
                return Err(nonsense());
            }
            self.peer_tail = tail;
        }
        let mut length = [0; 4];
        self.copy_out(self.head, &mut length);
        let length = u32::from_ne_bytes(length) as usize;
        if space(length) > self.peer_tail - self.head {
            return Err(nonsense());
        }
        let Some(buffer) = buffer.get_mut(..length) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message longer than expected"));
        };
        self.copy_out(self.head + 4, buffer);
        self.head += space(length);
        self.memory.position(from, HEAD).store(self.head, Ordering::Release);
        if self.notify {
            self.wake(from, SPACE_WAITER);
        }
        Ok(Some(length))
    }

    /// Sleeps until a message may be there or the time is over.
    ///
    /// # Errors
    /// As futex(2), without `EAGAIN`, `EINTR` and `ETIMEDOUT`, which all mean: look again.
    pub fn sleep_for_message(&mut self, timeout: Duration) -> io::Result<()> {
        let from = 1 - self.out;
        let head = self.head;
        self.sleep(from, DATA_WAITER, timeout, |memory| memory.position(from, TAIL).load(Ordering::SeqCst) != head)
    }

    /// Sleeps until there may be room or the time is over.
    ///
    /// # Errors
    /// As [`Ring::sleep_for_message`].
    pub fn sleep_for_space(&mut self, timeout: Duration) -> io::Result<()> {
        let (out, seen) = (self.out, self.peer_head);
        self.sleep(out, SPACE_WAITER, timeout, |memory| memory.position(out, HEAD).load(Ordering::SeqCst) != seen)
    }

    fn sleep(
        &mut self,
        direction: usize,
        word: usize,
        timeout: Duration,
        ready: impl Fn(&Memory) -> bool,
    ) -> io::Result<()> {
        let flag = self.memory.flag(direction, word);
        flag.store(1, Ordering::SeqCst);
        // The store above and the load below pair with publish-then-load in `wake`: one of the two sees the other.
        fence(Ordering::SeqCst);
        if ready(&self.memory) {
            flag.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let time = futex::Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        self.sleeps += 1;
        match futex::wait(flag, futex::Flags::empty(), 1, Some(&time)) {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    fn wake(&mut self, direction: usize, word: usize) {
        fence(Ordering::SeqCst);
        let flag = self.memory.flag(direction, word);
        if flag.load(Ordering::Relaxed) != 0 {
            flag.store(0, Ordering::Relaxed);
            self.wakes += 1;
            let _ = futex::wake(flag, futex::Flags::empty(), 1);
        }
    }

    #[inline(always)]
    fn copy_in(&self, position: u64, bytes: &[u8]) {
        let at = (position as usize) & (self.memory.capacity - 1);
        let first = bytes.len().min(self.memory.capacity - at);
        let base = self.memory.bytes(self.out);
        // SAFETY: at + first <= capacity, inside the bytes of this direction; the caller checked that the peer has
        // given this space back, and the source is a distinct borrowed slice.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.wrapping_add(at), first) };
        if first < bytes.len() {
            // SAFETY: the rest starts at the beginning and is shorter than the capacity (message <= capacity).
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().wrapping_add(first), base, bytes.len() - first) };
        }
    }

    #[inline(always)]
    fn copy_out(&self, position: u64, bytes: &mut [u8]) {
        let at = (position as usize) & (self.memory.capacity - 1);
        let first = bytes.len().min(self.memory.capacity - at);
        let base = self.memory.bytes(1 - self.out);
        // SAFETY: as in `copy_in`. A hostile peer may change the bytes meanwhile: they are only data, and whatever
        // arrives is verified.
        unsafe { std::ptr::copy_nonoverlapping(base.wrapping_add(at), bytes.as_mut_ptr(), first) };
        if first < bytes.len() {
            let rest = &mut bytes[first..];
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(base, rest.as_mut_ptr(), rest.len()) };
        }
    }
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end wrote an impossible position into the ring")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages from thread to thread; enough under Miri to go around the ring.
    const MESSAGES: u64 = if cfg!(miri) { 500 } else { 20_000 };

    #[test]
    fn messages_of_all_sizes_cross_and_wrap() {
        let (fd, mut near) = Ring::create(MIN_CAPACITY, false).unwrap();
        let mut far = Ring::attach(&fd, false).unwrap();
        let mut buffer = vec![0; near.max_message()];
        for round in 0..if cfg!(miri) { 10 } else { 3000_usize } {
            let size = [1, 7, 64, 4096, 60_000][round % 5];
            let message = vec![round as u8; size];
            assert!(near.try_send(&message).unwrap());
            assert_eq!(far.try_recv(&mut buffer).unwrap(), Some(size));
            assert_eq!(&buffer[..size], &message[..]);
            assert!(far.try_send(&message[..1]).unwrap());
            assert_eq!(near.try_recv(&mut buffer).unwrap(), Some(1));
        }
        assert_eq!(far.try_recv(&mut buffer).unwrap(), None);
        assert!(near.try_send(&vec![0; MIN_CAPACITY]).is_err());
    }

    #[test]
    fn a_full_ring_says_so_and_two_threads_lose_nothing() {
        let (fd, mut near) = Ring::create(MIN_CAPACITY, true).unwrap();
        let mut far = Ring::attach(&fd, true).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut sum = 0_u64;
            for at in 0..MESSAGES {
                let length = loop {
                    match far.try_recv(&mut buffer).unwrap() {
                        Some(length) => break length,
                        None => far.sleep_for_message(Duration::from_millis(100)).unwrap(),
                    }
                };
                assert_eq!(length as u64, at % 4000 + 1);
                assert_eq!(buffer[0], at as u8);
                sum += length as u64;
            }
            sum
        });
        for at in 0..MESSAGES {
            let message = vec![at as u8; (at % 4000) as usize + 1];
            while !near.try_send(&message).unwrap() {
                near.sleep_for_space(Duration::from_millis(100)).unwrap();
            }
        }
        assert_eq!(receiver.join().unwrap(), (0..MESSAGES).map(|at| at % 4000 + 1).sum());
    }

    #[test]
    fn a_peer_that_lies_is_an_error() {
        let (fd, near) = Ring::create(MIN_CAPACITY, false).unwrap();
        let mut far = Ring::attach(&fd, false).unwrap();
        near.memory.position(0, TAIL).store(u64::MAX, Ordering::SeqCst);
        assert!(far.try_recv(&mut [0; 16]).is_err());
        near.memory.position(0, TAIL).store(8, Ordering::SeqCst);
        near.copy_in(0, &u32::MAX.to_ne_bytes());
        assert!(far.try_recv(&mut [0; 16]).is_err());
        near.memory.position(1, HEAD).store(1 << 40, Ordering::SeqCst);
        while far.tail < MIN_CAPACITY as u64 {
            match far.try_send(&[0; 1000]) {
                Ok(true) => {}
                Ok(false) => panic!("an impossible head was believed"),
                Err(_) => return,
            }
        }
    }
}
