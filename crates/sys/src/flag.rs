//! A message and a flag in memory that two processes share: the least that hands a message over. Benchmarks compare the
//! ring with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::mapping::Mapping;

/// Bytes of the flag, before the message.
const FLAG: usize = 8;
/// Directions stand a page apart at least.
const PAGE: usize = 4096;

/// One end: one message at a time in each direction, all of one size.
pub struct Flagged {
    mapping: Mapping,
    size: usize,
    out: usize,
    sent: u64,
    taken: u64,
}

impl Flagged {
    fn stride(size: usize) -> usize {
        (size + FLAG).next_multiple_of(PAGE)
    }

    /// Makes the memory for messages of `size` bytes, and the end that created it.
    ///
    /// # Errors
    /// No memfd, or not enough memory.
    pub fn create(size: usize) -> io::Result<(OwnedFd, Self)> {
        let (fd, mapping) = Mapping::create_sealed("msgpath-flag", 2 * Self::stride(size))?;
        Ok((fd, Self { mapping, size, out: 0, sent: 0, taken: 0 }))
    }

    /// The other end.
    ///
    /// # Errors
    /// Not the memory of such messages.
    pub fn attach(fd: &OwnedFd, size: usize) -> io::Result<Self> {
        let mapping = Mapping::attach_sealed(fd, |length| length == 2 * Self::stride(size))?;
        let mapping = mapping.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { mapping, size, out: 1, sent: 0, taken: 0 })
    }

    fn bytes(&self, direction: usize) -> *mut u8 {
        self.mapping.base().wrapping_add(direction * Self::stride(self.size) + FLAG)
    }

    /// Puts a message in and raises the flag. The one before it must have been answered.
    ///
    /// # Panics
    /// A message of another size.
    #[inline(always)]
    pub fn send(&mut self, message: &[u8]) {
        assert_eq!(message.len(), self.size);
        // SAFETY: `size` bytes behind the flag lie inside the mapping; the source is a distinct borrowed slice.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), self.bytes(self.out), self.size) };
        self.sent += 1;
        self.mapping.u64_at(self.out * Self::stride(self.size)).store(self.sent, Ordering::Release);
    }

    /// Takes the message out, if the flag is up.
    ///
    /// # Panics
    /// A buffer of another size.
    #[inline(always)]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> bool {
        assert_eq!(buffer.len(), self.size);
        let from = 1 - self.out;
        if self.mapping.u64_at(from * Self::stride(self.size)).load(Ordering::Acquire) != self.taken + 1 {
            return false;
        }
        // SAFETY: as in `send`; the peer writes no more before it is answered, and the bytes are only data.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes(from), buffer.as_mut_ptr(), self.size) };
        self.taken += 1;
        true
    }

    /// The lower half of a direction's flag, which is what a thread can sleep on.
    fn word(&self, direction: usize) -> &AtomicU32 {
        self.mapping.u32_at(direction * Self::stride(self.size) + if cfg!(target_endian = "big") { 4 } else { 0 })
    }

    /// Wakes whoever sleeps in [`Flagged::recv_asleep`] at the other end.
    ///
    /// # Errors
    /// As futex(2).
    #[inline(always)]
    pub fn wake(&self) -> io::Result<()> {
        futex::wake(self.word(self.out), futex::Flags::empty(), 1)?;
        Ok(())
    }

    /// Takes the next message out, asleep on the flag until it is up.
    ///
    /// # Errors
    /// As futex(2).
    #[inline(always)]
    pub fn recv_asleep(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while !self.try_recv(buffer) {
            match futex::wait(self.word(1 - self.out), futex::Flags::empty(), self.taken as u32, None) {
                Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_crosses_and_comes_back() {
        let (fd, mut near) = Flagged::create(4096).unwrap();
        let mut far = Flagged::attach(&fd, 4096).unwrap();
        assert!(Flagged::attach(&fd, 64).is_err());
        let mut buffer = [0; 4096];
        for round in 0..5 {
            assert!(!far.try_recv(&mut buffer));
            near.send(&[round; 4096]);
            assert!(far.try_recv(&mut buffer) && buffer == [round; 4096]);
            far.send(&[round + 1; 4096]);
            assert!(near.try_recv(&mut buffer) && buffer == [round + 1; 4096]);
        }
    }

    #[test]
    fn whoever_sleeps_is_woken() {
        let (fd, mut near) = Flagged::create(64).unwrap();
        let mut far = Flagged::attach(&fd, 64).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 64];
                for round in 0..200 {
                    far.recv_asleep(&mut buffer).unwrap();
                    assert_eq!(buffer, [round; 64]);
                    far.send(&buffer);
                    far.wake().unwrap();
                }
            });
            let mut buffer = [0; 64];
            for round in 0..200 {
                near.send(&[round; 64]);
                near.wake().unwrap();
                near.recv_asleep(&mut buffer).unwrap();
                assert_eq!(buffer, [round; 64]);
            }
        });
    }
}
