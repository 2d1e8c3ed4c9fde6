//! Two single-producer single-consumer rings in one memfd, one for each direction, with optional wake-ups: by futex, or by a
//! [`Bell`].
//!
//! Layout: one page of header, then the slots of direction 0, then those of direction 1. A slot holds one message: a word,
//! then its bytes. The word is the number of the message (its low 32 bits, counted from 1) and its length; it is stored
//! last, so whoever sees it sees the bytes. Number and first bytes arrive with one cache line: no position has to be read
//! before. As slots begin with their word and nothing else is ever written there, a word of an earlier message is never
//! taken for the next. In the header the words of each direction stand 128 bytes apart (two cache lines: adjacent-line
//! prefetch counts as sharing). The peer may write nonsense: every length and position is checked before it is used.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use crate::bell::Bell;
use crate::mapping::Mapping;

const PAGE: usize = 4096;
const LINE: usize = 128;
/// Bytes of a slot before its message.
const WORD: usize = 8;
/// Fewest bytes of one direction. Both fit into the first cache of a CPU: an echo goes around the ring again and again.
const MIN_CAPACITY: usize = 8 * 1024;
/// Most bytes of one direction.
const MAX_CAPACITY: usize = 1 << 31;

/// Slots of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Bytes of a slot, a multiple of [`LINE`].
    slot: usize,
    /// How many there are: a power of two.
    count: usize,
}

impl Shape {
    /// For `messages` messages of up to `size` bytes; `None`: more than a ring can have.
    fn new(size: usize, messages: usize) -> Option<Self> {
        let slot = size.checked_add(WORD)?.checked_next_multiple_of(LINE)?;
        let count = messages.max(MIN_CAPACITY / slot).max(1).checked_next_power_of_two()?;
        Self { slot, count }.checked()
    }

    /// Of memory of `length` bytes whose maker says that a slot has `slot` bytes.
    fn of(length: usize, slot: u64) -> Option<Self> {
        let slot = usize::try_from(slot).ok().filter(|slot| *slot > 0 && slot.is_multiple_of(LINE))?;
        let shape = Self { slot, count: length.checked_sub(PAGE)? / 2 / slot };
        shape.checked().filter(|shape| shape.length() == length)
    }

    fn checked(self) -> Option<Self> {
        let capacity = self.slot.checked_mul(self.count)?;
        (self.count.is_power_of_two() && (MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity)).then_some(self)
    }

    fn capacity(self) -> usize {
        self.slot * self.count
    }

    /// Bytes of the whole memory.
    fn length(self) -> usize {
        PAGE + 2 * self.capacity()
    }
}

struct Memory {
    mapping: Mapping,
    shape: Shape,
}

impl Memory {
    fn position(&self, direction: usize, word: usize) -> &AtomicU64 {
        self.mapping.u64_at((direction * WORDS + word) * LINE)
    }

    fn flag(&self, direction: usize, word: usize) -> &AtomicU32 {
        self.mapping.u32_at((direction * WORDS + word) * LINE)
    }

    /// The slot of a message by its number. Inside the mapping: the number is taken modulo the count of slots.
    #[inline(always)]
    fn slot(&self, direction: usize, number: u64) -> NonNull<u8> {
        let Shape { slot, count } = self.shape;
        let at = direction * self.shape.capacity() + (number as usize & (count - 1)) * slot;
        NonNull::new(self.mapping.base().wrapping_add(PAGE + at)).expect("an address inside a mapping")
    }
}

/// The word of a message; the numbers of two messages that can stand in one slot at the same time differ.
#[inline(always)]
fn word_of(number: u64, length: usize) -> u64 {
    (number + 1) << 32 | length as u64
}

/// The length in a word, if it is that of this message.
#[inline(always)]
fn length_in(word: u64, number: u64) -> Option<usize> {
    ((word >> 32) as u32 == (number + 1) as u32).then_some(word as u32 as usize)
}

// Words of one direction in the header, a line each.
/// How many messages were taken out.
const HEAD: usize = 0;
const DATA_WAITER: usize = 1;
const SPACE_WAITER: usize = 2;
const WORDS: usize = 3;
/// Behind those of both directions: the bytes of a slot.
const SLOT: usize = 2 * WORDS * LINE;
/// Behind that: a line for the word of each direction's bell, then `PLACE` bytes for it.
const BELLS: usize = SLOT + LINE;
/// Bytes that a bell may have in the header of the ring.
pub(crate) const PLACE: usize = LINE;

const _: () = assert!(BELLS + 2 * (LINE + PLACE) <= PAGE);

/// What the bell of one direction has in the header.
#[derive(Clone)]
pub(crate) struct Place {
    memory: Arc<Memory>,
    direction: usize,
}

impl Place {
    fn begin(&self) -> usize {
        BELLS + self.direction * (LINE + PLACE)
    }

    /// Which direction: 0 or 1.
    pub(crate) fn direction(&self) -> u16 {
        self.direction as u16
    }

    /// A word of its own.
    pub(crate) fn word(&self) -> &AtomicU32 {
        self.memory.mapping.u32_at(self.begin())
    }

    /// [`PLACE`] bytes, aligned to as many.
    pub(crate) fn room(&self) -> *mut u8 {
        self.memory.mapping.base().wrapping_add(self.begin() + LINE)
    }

    /// The word by which the receiver says that it sleeps.
    pub(crate) fn sleeper(&self) -> &AtomicU32 {
        self.memory.flag(self.direction, DATA_WAITER)
    }
}

/// The next slot of one direction and the word of its header that belongs to the receiver. Both are found when the slot
/// before is done with, not when the next message waits for them.
struct Cursor {
    number: u64,
    slot: NonNull<u8>,
    head: NonNull<u64>,
}

// SAFETY: both point into the mapping, which belongs to the process, not to a thread, and which the end with this cursor keeps.
unsafe impl Send for Cursor {}

impl Cursor {
    fn new(memory: &Memory, direction: usize, number: u64) -> Self {
        let head = NonNull::from(memory.position(direction, HEAD)).cast();
        Self { number, slot: memory.slot(direction, number), head }
    }

    /// On to the next slot.
    #[inline(always)]
    fn step(&mut self, memory: &Memory, direction: usize) {
        self.number += 1;
        self.slot = memory.slot(direction, self.number);
    }

    /// The word with which the slot begins.
    #[inline(always)]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: a slot lies inside the mapping and is aligned to 128; every process accesses this word as an atomic only.
        unsafe { AtomicU64::from_ptr(self.slot.as_ptr().cast()) }
    }

    /// The bytes behind it.
    #[inline(always)]
    fn bytes(&self) -> *mut u8 {
        self.slot.as_ptr().wrapping_add(WORD)
    }

    /// How many messages the receiver has taken out.
    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: made of a reference to this word, which lives as long as the mapping.
        unsafe { AtomicU64::from_ptr(self.head.as_ptr()) }
    }
}

/// One process's end of the two rings.
pub struct Ring {
    memory: Arc<Memory>,
    out: usize,
    /// Where the next message is put; its number is that of messages put in.
    tail: Cursor,
    /// Where the next message is taken out; the shared word is a copy of its number for the peer.
    head: Cursor,
    /// What the peer had taken out when it was looked at: the shared word is read only when there is no room.
    peer_head: u64,
    /// Bytes of the message that was taken out last, and the word of one as long that comes next.
    length: usize,
    expected: u64,
    /// The peer is told of slots given back when none of these bits is set in their number: a quarter of the ring at once.
    given: u64,
    /// Most bytes of a message.
    max_message: usize,
    slots: u64,
    notify: bool,
    /// Instead of the futex, for messages.
    bell: Option<Box<Bell>>,
    wakes: u64,
    sleeps: u64,
}

impl Ring {
    /// Makes the memory for `messages` messages of up to `size` bytes, sealed against resizing, and the end that created
    /// it. `notify`: a sender wakes a sleeping receiver by futex (both ends must agree).
    ///
    /// # Errors
    /// More than a ring can hold, no memfd, or not enough memory.
    pub fn create(size: usize, messages: usize, notify: bool) -> io::Result<(OwnedFd, Self)> {
        let shape = Shape::new(size, messages).ok_or(io::ErrorKind::InvalidInput)?;
        let (fd, mapping) = Mapping::create_sealed("msgpath-ring", shape.length())?;
        mapping.u64_at(SLOT).store(shape.slot as u64, Ordering::Release);
        Ok((fd, Self::with(Memory { mapping, shape }, 0, notify)))
    }

    /// The other end, from the descriptor that [`Ring::create`] returned in the other process.
    ///
    /// # Errors
    /// Not such a descriptor: the size is not a ring's, or it could be shrunk.
    pub fn attach(fd: &OwnedFd, notify: bool) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a ring of msgpath");
        let lengths = PAGE + 2 * MIN_CAPACITY..=PAGE + 2 * MAX_CAPACITY;
        let mapping = Mapping::attach_sealed(fd, |length| lengths.contains(&length))?.ok_or_else(invalid)?;
        // Read once: whatever the other end writes there later, the shape stays.
        let slot = mapping.u64_at(SLOT).load(Ordering::Acquire);
        let shape = Shape::of(mapping.len(), slot).ok_or_else(invalid)?;
        Ok(Self::with(Memory { mapping, shape }, 1, notify))
    }

    fn with(memory: Memory, out: usize, notify: bool) -> Self {
        Self::on(Arc::new(memory), out, notify)
    }

    fn on(memory: Arc<Memory>, out: usize, notify: bool) -> Self {
        let (tail, head) = (Cursor::new(&memory, out, 0), Cursor::new(&memory, 1 - out, 0));
        let Shape { slot, count } = memory.shape;
        Self {
            memory,
            out,
            tail,
            head,
            peer_head: 0,
            length: 0,
            expected: word_of(0, 0),
            given: (count as u64 / 4).max(1) - 1,
            max_message: slot - WORD,
            slots: count as u64,
            notify,
            bell: None,
            wakes: 0,
            sleeps: 0,
        }
    }

    /// The same end once more, for a second thread: one of the two sends, the other receives. Made before the first
    /// message; positions are not shared.
    ///
    /// # Errors
    /// Its bell cannot be had twice.
    pub fn duplicate(&self) -> io::Result<Self> {
        debug_assert!(self.tail.number == 0 && self.head.number == 0, "a ring is divided before it is used");
        let bell = self.bell.as_deref().map(Bell::duplicate).transpose()?.map(Box::new);
        Ok(Self { bell, ..Self::on(Arc::clone(&self.memory), self.out, self.notify) })
    }

    /// Slots of one direction: that many messages can be in it.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Where this process has it: the same bytes stand there as where the other end has it.
    pub fn address(&self) -> u64 {
        self.memory.mapping.base().addr() as u64
    }

    /// For messages that only say where more is to be read: one more of those taken out was read. A ring without a bell.
    #[inline(always)]
    pub fn note_read(&self) {
        self.memory.mapping.u32_at(BELLS + (1 - self.out) * (LINE + PLACE)).fetch_add(1, Ordering::Release);
    }

    /// Messages that were put in and are not noted by the other end as read.
    pub fn unread(&self) -> u32 {
        let read = self.memory.mapping.u32_at(BELLS + self.out * (LINE + PLACE)).load(Ordering::Acquire);
        (self.tail.number as u32).wrapping_sub(read)
    }

    /// Where the bells of this end have theirs: of the direction in which it sends, and of the other.
    pub(crate) fn places(&self) -> [Place; 2] {
        [self.out, 1 - self.out].map(|direction| Place { memory: Arc::clone(&self.memory), direction })
    }

    /// From now on a sleeping receiver of messages is woken by this, and not by futex. The ring is one that notifies.
    pub fn hang(&mut self, bell: Bell) {
        self.bell = Some(Box::new(bell));
    }

    /// The bell, where it has one.
    pub fn bell(&mut self) -> Option<&mut Bell> {
        self.bell.as_deref_mut()
    }

    /// Bytes of one direction.
    pub fn capacity(&self) -> usize {
        self.memory.shape.capacity()
    }

    /// Most bytes of a message.
    #[inline(always)]
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// Whether a sender wakes a sleeping receiver.
    pub fn notifies(&self) -> bool {
        self.notify
    }

    /// Calls of this end so far that wake and that sleep, by futex or bell.
    pub fn wake_calls(&self) -> (u64, u64) {
        (self.wakes, self.sleeps)
    }

    /// Puts a whole message in, if there is room. The receiver is woken if it sleeps and this ring notifies.
    ///
    /// # Errors
    /// A message that never fits; a peer that wrote an impossible position; a bell that cannot be rung.
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<bool> {
        if message.len() > self.max_message {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        if self.tail.number - self.peer_head >= self.slots && !self.has_room()? {
            return Ok(false);
        }
        // SAFETY: the message fits into its slot, which lies inside the mapping; the peer has given the slot back, and the
        // source is a distinct borrowed slice.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), self.tail.bytes(), message.len()) };
        self.tail.word().store(word_of(self.tail.number, message.len()), Ordering::Release);
        self.tail.step(&self.memory, self.out);
        if self.notify {
            self.wake(self.out, DATA_WAITER)?;
        }
        Ok(true)
    }

    /// Looks how much the peer has taken out meanwhile.
    #[cold]
    fn has_room(&mut self) -> io::Result<bool> {
        let head = self.tail.head().load(Ordering::Acquire);
        if head > self.tail.number || head < self.peer_head {
            return Err(nonsense());
        }
        self.peer_head = head;
        Ok(self.tail.number - head < self.slots)
    }

    /// Takes a whole message out, if there is one. Returns its length.
    ///
    /// # Errors
    /// A message longer than `buffer`, or a peer that wrote an impossible length.
    #[inline(always)]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let word = self.head.word().load(Ordering::Acquire);
        // Most messages are as long as the one before. Its length is known already, so that the processor need not wait for
        // the word before it asks for the bytes; they may stand in another cache line.
        let length = if word == self.expected {
            self.length
        } else {
            match length_in(word, self.head.number) {
                None => return Ok(None),
                Some(length) if length > self.max_message => return Err(nonsense()),
                Some(length) => length,
            }
        };
        let Some(buffer) = buffer.get_mut(..length) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message longer than expected"));
        };
        // SAFETY: the length is at most that of a slot, which lies inside the mapping; the buffer is a distinct borrowed
        // slice. A hostile peer may change the bytes meanwhile: they are only data, and whatever arrives is verified.
        unsafe { std::ptr::copy_nonoverlapping(self.head.bytes(), buffer.as_mut_ptr(), length) };
        self.head.step(&self.memory, 1 - self.out);
        (self.length, self.expected) = (length, word_of(self.head.number, length));
        if self.head.number & self.given == 0 {
            self.head.head().store(self.head.number, Ordering::Release);
            if self.notify {
                self.wake(1 - self.out, SPACE_WAITER)?;
            }
        }
        Ok(Some(length))
    }

    /// Sleeps until a message may be there or the time is over; `None`: without a limit in time.
    ///
    /// # Errors
    /// As futex(2), without `EAGAIN`, `EINTR` and `ETIMEDOUT`, which all mean: look again.
    pub fn sleep_for_message(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let is_there = |ring: &Self| length_in(ring.head.word().load(Ordering::SeqCst), ring.head.number).is_some();
        self.sleep(1 - self.out, DATA_WAITER, timeout, is_there)
    }

    /// [`Ring::sleep_for_message`] at the bell; `None`: without a limit in time.
    ///
    /// # Errors
    /// As the bell's calls; `Unsupported` without a bell.
    pub fn sleep_at_bell(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let bell = self.bell.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        bell.arm()?;
        let flag = self.memory.flag(1 - self.out, DATA_WAITER);
        flag.store(1, Ordering::SeqCst);
        // As in `sleep`.
        fence(Ordering::SeqCst);
        if length_in(self.head.word().load(Ordering::SeqCst), self.head.number).is_some() {
            flag.store(0, Ordering::Relaxed);
            return Ok(());
        }
        self.sleeps += 1;
        bell.sleep(timeout)
    }

    /// Sleeps until there may be room or the time is over.
    ///
    /// # Errors
    /// As [`Ring::sleep_for_message`].
    pub fn sleep_for_space(&mut self, timeout: Duration) -> io::Result<()> {
        let is_there = |ring: &Self| ring.tail.head().load(Ordering::SeqCst) != ring.peer_head;
        self.sleep(self.out, SPACE_WAITER, Some(timeout), is_there)
    }

    fn sleep(
        &mut self,
        direction: usize,
        word: usize,
        timeout: Option<Duration>,
        ready: impl Fn(&Self) -> bool,
    ) -> io::Result<()> {
        let flag = self.memory.flag(direction, word);
        flag.store(1, Ordering::SeqCst);
        // The store above and the load below pair with publish-then-load in `wake`: one of the two sees the other.
        fence(Ordering::SeqCst);
        if ready(self) {
            flag.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let time = timeout.map(|of| futex::Timespec { tv_sec: of.as_secs() as _, tv_nsec: of.subsec_nanos() as _ });
        self.sleeps += 1;
        match futex::wait(flag, futex::Flags::empty(), 1, time.as_ref()) {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(always)]
    fn wake(&mut self, direction: usize, word: usize) -> io::Result<()> {
        fence(Ordering::SeqCst);
        let flag = self.memory.flag(direction, word);
        if flag.load(Ordering::Relaxed) != 0 {
            flag.store(0, Ordering::Relaxed);
            self.wakes += 1;
            match &mut self.bell {
                Some(bell) if word == DATA_WAITER => bell.ring()?,
                _ => drop(futex::wake(flag, futex::Flags::empty(), 1)),
            }
        }
        Ok(())
    }
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end wrote an impossible length or position into the ring")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages from thread to thread; enough under Miri to go around the ring.
    const MESSAGES: u64 = if cfg!(miri) { 500 } else { 20_000 };

    #[test]
    fn messages_of_all_sizes_cross_and_wrap() {
        let (fd, mut near) = Ring::create(60_000, 4, false).unwrap();
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
        assert!(near.try_send(&vec![0; near.max_message() + 1]).is_err());
    }

    /// Numbers in a slot are 32 bits wide: nothing is lost or doubled where they wrap, whatever the messages contain.
    #[test]
    fn numbers_wrap_and_no_message_looks_like_the_next() {
        let (fd, mut near) = Ring::create(8, 1, false).unwrap();
        let mut far = Ring::attach(&fd, false).unwrap();
        let start = (1 << 32) - 600;
        near.peer_head = start;
        far.expected = word_of(start, 0);
        (near.tail, far.head) = (Cursor::new(&near.memory, 0, start), Cursor::new(&far.memory, 0, start));
        let mut buffer = [0; 8];
        for number in start..start + 1500 {
            assert_eq!(far.try_recv(&mut buffer).unwrap(), None, "{number}");
            assert!(near.try_send(&word_of(number + 1, 8).to_ne_bytes()).unwrap());
            assert_eq!(far.try_recv(&mut buffer).unwrap(), Some(8), "{number}");
        }
    }

    #[test]
    fn what_is_no_ring_is_refused() {
        for (size, messages) in [(0, 0), (64, 4), (8191, 1), (1 << 20, 5)] {
            let shape = Shape::new(size, messages).unwrap();
            assert!(shape.slot >= size + WORD && shape.count >= messages, "{shape:?}");
            assert_eq!(Shape::of(shape.length(), shape.slot as u64), Some(shape));
        }
        assert_eq!((Shape::new(usize::MAX, 1), Shape::new(1 << 20, 1 << 20)), (None, None));
        let length = Shape::new(64, 4).unwrap().length();
        for slot in [0, 1, 127, 384, u64::MAX, length as u64] {
            assert_eq!(Shape::of(length, slot), None, "{slot}");
        }
        let (fd, _near) = Ring::create(64, 4, false).unwrap();
        let mapping = Mapping::attach_sealed(&fd, |_| true).unwrap().unwrap();
        mapping.u64_at(SLOT).store(129, Ordering::SeqCst);
        assert!(Ring::attach(&fd, false).is_err());
    }

    #[test]
    fn a_full_ring_says_so_and_two_threads_lose_nothing() {
        let (fd, mut near) = Ring::create(4096, 16, true).unwrap();
        let mut far = Ring::attach(&fd, true).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut sum = 0_u64;
            for at in 0..MESSAGES {
                let length = loop {
                    match far.try_recv(&mut buffer).unwrap() {
                        Some(length) => break length,
                        None => far.sleep_for_message(Some(Duration::from_millis(100))).unwrap(),
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
        assert_eq!(receiver.join().unwrap(), (0..MESSAGES).map(|at| at % 4000 + 1).sum::<u64>());
    }

    #[test]
    fn a_peer_that_lies_is_an_error() {
        let (fd, near) = Ring::create(1000, 64, false).unwrap();
        let mut far = Ring::attach(&fd, false).unwrap();
        near.tail.word().store(word_of(7, 16), Ordering::SeqCst);
        assert_eq!(far.try_recv(&mut [0; 16]).unwrap(), None, "another message's number");
        near.tail.word().store(word_of(0, u32::MAX as usize), Ordering::SeqCst);
        assert!(far.try_recv(&mut [0; 16]).is_err());
        near.tail.word().store(word_of(0, 17), Ordering::SeqCst);
        assert!(far.try_recv(&mut [0; 16]).is_err());
        near.memory.position(1, HEAD).store(1 << 40, Ordering::SeqCst);
        for _ in 0..=far.memory.shape.count {
            match far.try_send(&[0; 1000]) {
                Ok(true) => {}
                Ok(false) => panic!("an impossible head was believed"),
                Err(_) => return,
            }
        }
        panic!("more messages than slots");
    }
}
