//! Shared memory that several processes write, each its own part, and all read: one writer to many readers.
//!
//! Layout of the memfd: a page of header; a line of 128 bytes per writer with the number of messages it has published; then
//! per writer a ring of slots. A slot is a version, a length and the bytes. The version is odd while the slot is written,
//! and 2n+2 when it holds message n: a reader that sees another one before or after its copy has been overrun, and counts
//! it. Every word is an atomic, so a reader that is overrun reads stale or torn numbers, never undefined ones. A receiver
//! that sleeps does so on one futex word that every writer moves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

use crate::mapping::Mapping;

const PAGE: usize = 4096;
const LINE: usize = 128;
const MAGIC: u64 = u64::from_be_bytes(*b"mparea01");
/// Most writers.
pub const MAX_WRITERS: usize = 256;
/// Most bytes of a message.
pub const MAX_SIZE: usize = 1 << 20;
/// Most bytes of an area.
const MAX_BYTES: usize = 1 << 30;

/// Numbers that decide where everything stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    writers: usize,
    /// Slots of a writer, a power of two.
    slots: usize,
    /// Bytes of a slot's message, a multiple of 8.
    size: usize,
}

impl Shape {
    fn slot(self) -> usize {
        self.size + 16
    }

    /// Bytes of the whole area; `None`: a shape that is none.
    fn bytes(self) -> Option<usize> {
        let sane = (1..=MAX_WRITERS).contains(&self.writers)
            && self.slots.is_power_of_two()
            && (8..=MAX_SIZE).contains(&self.size)
            && self.size.is_multiple_of(8);
        let rings = self.slot().checked_mul(self.slots)?.checked_mul(self.writers)?;
        sane.then(|| PAGE + self.writers * LINE + rings).filter(|bytes| *bytes <= MAX_BYTES)
    }
}

struct Memory {
    mapping: Mapping,
    shape: Shape,
}

impl Memory {
    /// The word at a place that is a multiple of 8.
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        self.mapping.u64_at(at)
    }

    /// Moves with every message; sleepers wait on it.
    fn generation(&self) -> &AtomicU32 {
        self.mapping.u32_at(LINE)
    }

    fn sleepers(&self) -> &AtomicU32 {
        self.mapping.u32_at(2 * LINE)
    }

    fn published(&self, writer: usize) -> &AtomicU64 {
        self.word(PAGE + writer * LINE)
    }

    fn slot(&self, writer: usize, message: u64) -> usize {
        let shape = self.shape;
        let at = (message as usize) & (shape.slots - 1);
        PAGE + shape.writers * LINE + (writer * shape.slots + at) * shape.slot()
    }
}

/// The area as one process has it mapped.
#[derive(Clone)]
pub struct Area(Arc<Memory>);

impl Area {
    /// Makes the memory, sealed against resizing: `slots` (rounded up to a power of two) messages of at most `size` bytes
    /// for each writer.
    ///
    /// # Errors
    /// Too large (1 GiB at most), no memfd, not enough memory.
    pub fn create(writers: usize, slots: usize, size: usize) -> io::Result<(OwnedFd, Self)> {
        let shape = Shape { writers, slots: slots.max(1).next_power_of_two(), size: size.next_multiple_of(8) };
        let length = shape.bytes().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{writers} writers of {slots} × {size} bytes"))
        })?;
        let (fd, mapping) = Mapping::create_sealed("msgpath-area", length)?;
        let memory = Memory { mapping, shape };
        for (at, number) in [MAGIC, writers as u64, shape.slots as u64, shape.size as u64].into_iter().enumerate() {
            memory.word(8 * at).store(number, Ordering::Relaxed);
        }
        Ok((fd, Self(Arc::new(memory))))
    }

    /// The area that another process made.
    ///
    /// # Errors
    /// Not such a descriptor: its header does not fit its size, or it could be shrunk.
    pub fn attach(fd: &OwnedFd) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not an area of msgpath");
        let whole = |length| (PAGE..=MAX_BYTES).contains(&length);
        let mapping = Mapping::attach_sealed(fd, whole)?.ok_or_else(invalid)?;
        let number = |at: usize| mapping.u64_at(at).load(Ordering::Relaxed);
        let (magic, writers, slots, size) = (number(0), number(8), number(16), number(24));
        let shape = Shape { writers: writers as usize, slots: slots as usize, size: size as usize };
        if magic != MAGIC || shape.bytes() != Some(mapping.len()) {
            return Err(invalid());
        }
        Ok(Self(Arc::new(Memory { mapping, shape })))
    }

    /// The end of a writer, which must be the only one of its number.
    ///
    /// # Panics
    /// Beyond the number of writers.
    pub fn writer(&self, number: usize) -> Writer {
        assert!(number < self.0.shape.writers);
        Writer { sent: self.0.published(number).load(Ordering::Relaxed), area: self.0.clone(), number, wakes: 0 }
    }

    /// The end of a reader of all messages that are published from now on, but for those of `own`.
    pub fn reader(&self, own: usize) -> Reader {
        let writers = self.0.shape.writers;
        let read = (0..writers).map(|writer| self.0.published(writer).load(Ordering::Acquire)).collect();
        Reader { area: self.0.clone(), own, read, turn: 0, overrun: 0, sleeps: 0 }
    }
}

/// Writes the slots of one writer.
pub struct Writer {
    area: Arc<Memory>,
    number: usize,
    sent: u64,
    wakes: u64,
}

impl Writer {
    /// Publishes a message and wakes whoever sleeps.
    ///
    /// # Errors
    /// `InvalidInput`: longer than a slot.
    pub fn publish(&mut self, bytes: &[u8]) -> io::Result<()> {
        let area = &*self.area;
        if bytes.len() > area.shape.size {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let slot = area.slot(self.number, self.sent);
        let version = area.word(slot);
        version.store(2 * self.sent + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        area.word(slot + 8).store(bytes.len() as u64, Ordering::Relaxed);
        for (at, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            area.word(slot + 16 + 8 * at).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        version.store(2 * self.sent + 2, Ordering::Release);
        self.sent += 1;
        area.published(self.number).store(self.sent, Ordering::Release);
        // Moved before the look at the sleepers, who count themselves before they look: one of the two sees the other.
        area.generation().fetch_add(1, Ordering::SeqCst);
        if area.sleepers().load(Ordering::SeqCst) > 0 {
            self.wakes += 1;
            futex::wake(area.generation(), futex::Flags::empty(), i32::MAX as u32)?;
        }
        Ok(())
    }

    /// Calls of futex(2) so far.
    pub fn wakes(&self) -> u64 {
        self.wakes
    }
}

/// Reads what others have written.
pub struct Reader {
    area: Arc<Memory>,
    own: usize,
    /// Messages of each writer that were read or missed.
    read: Vec<u64>,
    turn: usize,
    overrun: u64,
    sleeps: u64,
}

impl Reader {
    /// The next message of any writer in turn, as far as `buffer` has room: its writer and length.
    #[inline]
    pub fn next(&mut self, buffer: &mut [u8]) -> Option<(usize, usize)> {
        let writers = self.read.len();
        for step in 0..writers {
            let writer = (self.turn + step) % writers;
            if writer == self.own {
                continue;
            }
            if let Some(length) = self.next_of(writer, buffer) {
                self.turn = writer + 1;
                return Some((writer, length));
            }
        }
        None
    }

    fn next_of(&mut self, writer: usize, buffer: &mut [u8]) -> Option<usize> {
        let area = &*self.area;
        let published = area.published(writer).load(Ordering::Acquire);
        let oldest = published.saturating_sub(area.shape.slots as u64);
        if self.read[writer] < oldest {
            self.overrun += oldest - self.read[writer];
            self.read[writer] = oldest;
        }
        // Bounded by the slots: a writer that laps this reader is overrun counted, not chased.
        for _ in 0..area.shape.slots {
            let message = self.read[writer];
            if message >= published {
                return None;
            }
            self.read[writer] = message + 1;
            let slot = area.slot(writer, message);
            let whole = message.wrapping_mul(2).wrapping_add(2);
            if area.word(slot).load(Ordering::Acquire) == whole {
                let length = (area.word(slot + 8).load(Ordering::Relaxed) as usize).min(area.shape.size);
                let length = length.min(buffer.len());
                for (at, chunk) in buffer[..length].chunks_mut(8).enumerate() {
                    let word = area.word(slot + 16 + 8 * at).load(Ordering::Relaxed).to_ne_bytes();
                    chunk.copy_from_slice(&word[..chunk.len()]);
                }
                fence(Ordering::Acquire);
                if area.word(slot).load(Ordering::Relaxed) == whole {
                    return Some(length);
                }
            }
            self.overrun += 1;
        }
        None
    }

    /// Sleeps until something may have been published or the time is over.
    ///
    /// # Errors
    /// As futex(2), without `EAGAIN`, `EINTR` and `ETIMEDOUT`, which all mean: look again.
    pub fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        let area = &*self.area;
        let generation = area.generation().load(Ordering::SeqCst);
        area.sleepers().fetch_add(1, Ordering::SeqCst);
        let nothing = (0..self.read.len())
            .all(|writer| writer == self.own || area.published(writer).load(Ordering::SeqCst) <= self.read[writer]);
        let time = futex::Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        let result = if nothing {
            self.sleeps += 1;
            futex::wait(area.generation(), futex::Flags::empty(), generation, Some(&time))
        } else {
            Ok(())
        };
        area.sleepers().fetch_sub(1, Ordering::SeqCst);
        match result {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Messages that were overwritten before they were read.
    pub fn overrun(&self) -> u64 {
        self.overrun
    }

    /// Calls of futex(2) so far.
    pub fn sleeps(&self) -> u64 {
        self.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_sees_every_message_of_the_others_in_order() {
        let (fd, area) = Area::create(3, 64, 21).unwrap();
        let again = Area::attach(&fd).unwrap();
        let (mut a, mut b) = (area.writer(0), again.writer(2));
        let mut readers = [again.reader(0), area.reader(1)];
        for n in 0..50_u8 {
            a.publish(&[n; 21]).unwrap();
            b.publish(&[100 + n; 3]).unwrap();
        }
        let mut buffer = [0; 64];
        let mut got = |reader: &mut Reader| {
            let mut all = Vec::new();
            while let Some((writer, length)) = reader.next(&mut buffer) {
                all.push((writer, length, buffer[0]));
                assert!(buffer[..length].iter().all(|byte| *byte == buffer[0]));
            }
            all
        };
        let first = got(&mut readers[0]);
        assert_eq!(first, (0..50).map(|n| (2, 3, 100 + n)).collect::<Vec<_>>());
        let second = got(&mut readers[1]);
        assert_eq!(second.len(), 100);
        assert!(second.iter().filter(|(writer, ..)| *writer == 0).map(|(_, _, n)| *n).eq(0..50));
        assert!(a.publish(&[0; 25]).is_err(), "longer than a slot");
    }

    #[test]
    fn a_slow_reader_counts_what_it_missed() {
        let (_fd, area) = Area::create(2, 8, 8).unwrap();
        let (mut writer, mut reader) = (area.writer(0), area.reader(1));
        (0..20_u64).for_each(|n| writer.publish(&n.to_ne_bytes()).unwrap());
        let mut buffer = [0; 8];
        let mut last = Vec::new();
        while reader.next(&mut buffer).is_some() {
            last.push(u64::from_ne_bytes(buffer));
        }
        assert_eq!((last, reader.overrun()), ((12..20).collect(), 12));
    }

    #[test]
    fn sleepers_are_woken_all_together() {
        let (_fd, area) = Area::create(3, 8, 8).unwrap();
        std::thread::scope(|scope| {
            for own in [1, 2] {
                let mut reader = area.reader(own);
                scope.spawn(move || {
                    let mut buffer = [0; 8];
                    let begin = std::time::Instant::now();
                    while reader.next(&mut buffer).is_none() {
                        reader.sleep(Duration::from_secs(100)).unwrap();
                        assert!(begin.elapsed() < Duration::from_secs(80));
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            area.writer(0).publish(&[1]).unwrap();
        });
    }

    #[test]
    fn what_is_no_area_is_refused() {
        assert!(Area::create(0, 1, 8).is_err() && Area::create(1, 1 << 30, 1 << 19).is_err());
        let file: OwnedFd = std::fs::File::open("/proc/self/exe").unwrap().into();
        assert!(Area::attach(&file).is_err());
        let (fd, _mapping) = Mapping::create_sealed("msgpath-test", 8192).unwrap();
        assert!(Area::attach(&fd).is_err(), "no header");
    }
}
