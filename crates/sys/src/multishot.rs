//! io_uring: a receive that stays armed (IORING_RECV_MULTISHOT, io_uring_prep_recv_multishot(3)) and takes its buffers from a ring of
//! them (io_uring_register_buf_ring(3)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::mapping::Mapping;

/// Buffers: a power of two.
const BUFFERS: u16 = 16;
/// Bytes of each: more than a datagram over IP has.
pub const BUFFER: usize = 64 << 10;
/// Bytes of an entry of the ring of buffers (`struct io_uring_buf`): address, length, id, and in the first one the tail.
const ENTRY: usize = 16;
const TAIL: usize = 14;
/// Where the buffers begin: the ring of their entries has a page of its own.
const FIRST: usize = 4096;
/// Completions: of the receive, of its cancellation.
const ARMED: u64 = 1;
const CANCEL: u64 = 2;

/// Bytes that have come and were not taken yet.
struct Left {
    buffer: u16,
    from: usize,
    to: usize,
}

/// A receive that stays armed, of the calling thread.
pub struct Multishot {
    ring: IoUring,
    /// `None` only while it is dropped.
    memory: Option<Mapping>,
    tail: u16,
    armed: bool,
    left: Option<Left>,
    enters: u64,
}

impl Multishot {
    /// A ring with its buffers; nothing is armed yet.
    ///
    /// # Errors
    /// As [`crate::uring::Uring::new`]; `EINVAL`: a kernel without rings of buffers (5.19).
    pub fn new() -> io::Result<Self> {
        let ring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8).or_else(|_| IoUring::new(8))?;
        let (_, memory) = Mapping::create_sealed("msgpath-multishot", FIRST + usize::from(BUFFERS) * BUFFER)?;
        // SAFETY: the mapping begins on a page, holds the entries, and stays until the ring is gone (see `drop`).
        unsafe { ring.submitter().register_buf_ring_with_flags(memory.base() as u64, BUFFERS, 0, 0) }?;
        let mut new = Self { ring, memory: Some(memory), tail: 0, armed: false, left: None, enters: 0 };
        (0..BUFFERS).for_each(|buffer| new.give(buffer));
        Ok(new)
    }

    /// Calls of io_uring_enter so far.
    pub fn enters(&self) -> u64 {
        self.enters
    }

    fn memory(&self) -> &Mapping {
        self.memory.as_ref().expect("it is there until the drop")
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, buffer: u16) {
        let memory = self.memory();
        let at = usize::from(self.tail & (BUFFERS - 1)) * ENTRY;
        let address = memory.base() as u64 + (FIRST + usize::from(buffer) * BUFFER) as u64;
        memory.u64_at(at).store(address, Ordering::Relaxed);
        memory.u32_at(at + 8).store(BUFFER as u32, Ordering::Relaxed);
        memory.u16_at(at + 12).store(buffer, Ordering::Relaxed);
        // The kernel reads the tail with acquire: what it finds before it is whole.
        let tail = self.tail.wrapping_add(1);
        memory.u16_at(TAIL).store(tail, Ordering::Release);
        self.tail = tail;
    }

    /// Receives once: what came next, as far as `into` has room. 0: the other end has closed. `WouldBlock` when `timeout` is over, if
    /// there is one; the receive stays armed. Always the same descriptor.
    ///
    /// # Errors
    /// As recv(2).
    #[inline]
    pub fn recv(&mut self, fd: BorrowedFd<'_>, into: &mut [u8], timeout: Option<Duration>) -> io::Result<usize> {
        loop {
            if let Some(left) = self.left.take() {
                return Ok(self.take(left, into));
            }
            if let Some(end) = self.completed()? {
                return Ok(end);
            }
            if self.left.is_some() {
                continue;
            }
            if !self.armed {
                self.push(&opcode::RecvMulti::new(Fd(fd.as_raw_fd()), 0).build().user_data(ARMED));
                self.armed = true;
            }
            if !self.enter(timeout)? {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
        }
    }

    /// Copies what is left of a buffer; where nothing is left any more, the kernel may fill it again.
    #[inline]
    fn take(&mut self, left: Left, into: &mut [u8]) -> usize {
        let bytes = into.len().min(left.to - left.from);
        let at = FIRST + usize::from(left.buffer) * BUFFER + left.from;
        self.memory().copy_to(at, &mut into[..bytes]);
        if left.from + bytes < left.to {
            self.left = Some(Left { from: left.from + bytes, ..left })
        } else {
            self.give(left.buffer)
        }
        bytes
    }

    /// Looks for the next completion: bytes become [`Left`]; `Some(0)`: the end.
    #[inline]
    fn completed(&mut self) -> io::Result<Option<usize>> {
        loop {
            let next = self.ring.completion().next();
            let Some(completion) = next else { return Ok(None) };
            if completion.user_data() != ARMED {
                continue;
            }
            self.armed = cqueue::more(completion.flags());
            match (completion.result(), cqueue::buffer_select(completion.flags())) {
                (0, buffer) => {
                    if let Some(buffer) = buffer {
                        self.give(buffer);
                    }
                    return Ok(Some(0));
                }
                (bytes @ 1.., Some(buffer)) if buffer < BUFFERS && bytes as usize <= BUFFER => {
                    self.left = Some(Left { buffer, from: 0, to: bytes as usize });
                    return Ok(None);
                }
                // All buffers were full: by now they were taken and given again.
                (code, _) if code == -libc::ENOBUFS || code == -libc::EINTR => {}
                (code, _) if code < 0 => return Err(io::Error::from_raw_os_error(-code)),
                (bytes, _) => return Err(io::Error::other(format!("{bytes} bytes in no buffer"))),
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entries of this file have no buffers of their own: the kernel takes those that are registered, which stay until
        // the ring is gone. Every entry is submitted at once, so there is room.
        unsafe { self.ring.submission().push(entry) }.expect("the submission queue is empty");
    }

    /// Submits what is queued and waits for a completion; `false` when the time is over. A signal may end the wait early.
    #[inline]
    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        self.enters += 1;
        let entered = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let time = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Multishot {
    /// The kernel may write into a buffer as long as the receive is armed: it is cancelled first. Where it does not end in time, the
    /// memory stays.
    fn drop(&mut self) {
        if self.armed {
            self.push(&opcode::AsyncCancel2::new(CancelBuilder::user_data(ARMED)).build().user_data(CANCEL));
        }
        for _ in 0..10 {
            if !self.armed || self.enter(Some(Duration::from_millis(10))).is_err() {
                break;
            }
            let armed =
                |completion: cqueue::Entry| completion.user_data() == ARMED && !cqueue::more(completion.flags());
            self.armed &= !self.ring.completion().any(armed);
        }
        if self.armed {
            std::mem::forget(self.memory.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    const SLICE: Option<Duration> = Some(Duration::from_millis(20));
    const LONG: Option<Duration> = Some(Duration::from_secs(10));

    fn ring() -> Option<Multishot> {
        Multishot::new().inspect_err(|error| println!("skipped: {error}")).ok()
    }

    #[test]
    fn more_bytes_than_all_buffers_hold_arrive_in_order() {
        let Some(mut ring) = ring() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let mut buffer = vec![0; 100_000];
        assert_eq!(ring.recv(far.as_fd(), &mut buffer, SLICE).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let all: Vec<u8> = (0..3 * usize::from(BUFFERS) * BUFFER).map(|at| (at * 7 / 5) as u8).collect();
        let sent = all.clone();
        let sender = std::thread::spawn(move || {
            near.write_all(&sent).unwrap();
        });
        let mut got = Vec::new();
        // Pieces of sizes that fit no buffer.
        for size in [1, 3_000, 65_537, 100_000].into_iter().cycle() {
            match ring.recv(far.as_fd(), &mut buffer[..size], LONG).unwrap() {
                0 => break,
                bytes => got.extend_from_slice(&buffer[..bytes]),
            }
        }
        sender.join().unwrap();
        assert!(got == all, "{} of {} bytes", got.len(), all.len());
    }

    #[test]
    fn datagrams_keep_their_borders_and_one_enter_serves_several() {
        let Some(mut ring) = ring() else { return };
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let mut buffer = vec![0; BUFFER];
        for size in [1, 100, 60_000] {
            near.send(&vec![size as u8; size]).unwrap();
        }
        let before = ring.enters();
        for size in [1, 100, 60_000] {
            assert_eq!(ring.recv(far.as_fd(), &mut buffer, LONG).unwrap(), size);
            assert!(buffer[..size].iter().all(|byte| *byte == size as u8));
        }
        assert!(ring.enters() - before < 3, "{} calls", ring.enters() - before);
        assert_eq!(ring.recv(far.as_fd(), &mut buffer, SLICE).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
