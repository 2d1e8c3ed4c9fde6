//! The receive ring of a packet socket (TPACKET_V2, packet(7)): the kernel puts frames into memory that this process sees, and the
//! receiver looks there instead of asking.
//!
//! Version 2 and not 3: that hands over whole blocks, when they are full or a timer ends, so one message waits for the timer.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::check_int;
use crate::mapping::Mapping;
use crate::packet::{HEAD, Head};

// linux/if_packet.h
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V2: libc::c_int = 1;
const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
/// Offsets in `struct tpacket2_hdr`.
const SNAP_LENGTH: usize = 8;
const NET: usize = 14;
/// What stands before the bytes of a frame: the header, an address, room for alignment.
const BEFORE: usize = 96;
/// Fewest frames of a ring.
const FEWEST: usize = 8;

/// `struct tpacket_req`.
#[repr(C)]
struct Request {
    block_size: u32,
    block_nr: u32,
    frame_size: u32,
    frame_nr: u32,
}

fn set<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, and the kernel only reads it.
    check_int(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, std::ptr::from_ref(value).cast(), length)
    })
    .map(drop)
}

/// The ring of one socket of [`crate::packet::open`]. The socket's own receive calls find nothing any more.
pub struct PacketRing {
    memory: Mapping,
    frame: usize,
    frames: usize,
    /// Where the next frame will be.
    next: usize,
}

impl PacketRing {
    /// Gives a socket a ring of about so many bytes for frames of at most `longest` bytes behind the Ethernet header.
    ///
    /// # Errors
    /// As setsockopt(2) and mmap(2): no memory in one piece for a frame, no such option.
    pub fn new(fd: BorrowedFd<'_>, longest: usize, bytes: usize) -> io::Result<Self> {
        let frame = (BEFORE + longest).next_power_of_two();
        let frames = (bytes / frame).max(FEWEST).next_power_of_two();
        // A block is memory in one piece, with whole frames.
        let block = frame.max(rustix::param::page_size());
        let request = Request {
            block_size: block as u32,
            block_nr: (frames * frame).div_ceil(block) as u32,
            frame_size: frame as u32,
            frame_nr: (frames * frame).next_multiple_of(block).div_euclid(frame) as u32,
        };
        set(fd, PACKET_VERSION, &TPACKET_V2)?;
        set(fd, PACKET_RX_RING, &request)?;
        let memory = Mapping::new(fd, block * request.block_nr as usize)?;
        Ok(Self { memory, frame, frames: request.frame_nr as usize, next: 0 })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// The next frame, where there is one: its head, and its message as far as `buffer` has room, without padding. No system call.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; `InvalidData` for a frame that is shorter than it says, which the socket's filter keeps out.
    #[inline(always)]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(Head, usize)> {
        let at = self.next * self.frame;
        let status = self.memory.u32_at(at);
        // Acquire: what the kernel wrote before it gave the frame away is seen after this.
        if status.load(Ordering::Acquire) & STATUS_USER == 0 {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let length = self.memory.u32_at(at + SNAP_LENGTH).load(Ordering::Relaxed) as usize;
        let bytes = at + usize::from(self.memory.u16_at(at + NET).load(Ordering::Relaxed));
        let received = match length.checked_sub(HEAD) {
            Some(room) => {
                let mut head = [0; HEAD];
                self.memory.copy_to(bytes, &mut head);
                let head = Head::read(head);
                let wanted = usize::from(head.length).min(buffer.len());
                if wanted <= room {
                    self.memory.copy_to(bytes + HEAD, &mut buffer[..wanted]);
                    Ok((head, wanted))
                } else {
                    Err(io::Error::from(io::ErrorKind::InvalidData))
                }
            }
            None => Err(io::Error::from(io::ErrorKind::InvalidData)),
        };
        // Release: the frame is the kernel's again only after it was read.
        status.store(STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.frames { 0 } else { self.next + 1 };
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Destination, Interface, Wanted, dropped, open, send_to};
    use crate::poll::{Interest, poll};
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::{Duration, Instant};

    const TYPE: u16 = 0x88b5;

    fn ring(tag: u32, bytes: usize) -> Option<(OwnedFd, PacketRing, Destination)> {
        let lo = Interface::find("lo").unwrap();
        let fd = match open(lo.index, TYPE, Wanted { tag, not_from: None }) {
            Ok(fd) => fd,
            Err(error) => {
                println!("skipped: no packet sockets here ({error})");
                return None;
            }
        };
        let ring = PacketRing::new(fd.as_fd(), lo.mtu as usize, bytes).unwrap();
        Some((fd, ring, Destination::new(lo.index, TYPE, [0; 6])))
    }

    fn frame(tag: u32, body: &[u8]) -> Vec<u8> {
        [Head { tag, length: body.len() as u16, sender: 0 }.bytes().as_slice(), body].concat()
    }

    #[test]
    fn frames_come_in_order_round_and_round_without_a_call() {
        let tag = 0x4000_0000 | std::process::id();
        let Some((fd, mut ring, to)) = ring(tag, 0) else { return };
        let mut buffer = [0; 64];
        assert_eq!(ring.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!poll(fd.as_fd(), Interest::Read, 0).unwrap());
        for n in 0..100_u8 {
            // Padding of a link is not part of the message.
            send_to(fd.as_fd(), &[frame(tag, &[n; 5]), vec![0xee; 40]].concat(), &to).unwrap();
            assert!(poll(fd.as_fd(), Interest::Read, 20_000).unwrap(), "a frame wakes who polls");
            let (head, length) = ring.receive(&mut buffer).unwrap();
            assert_eq!((head.tag, &buffer[..length]), (tag, [n; 5].as_slice()));
        }
        assert_eq!(ring.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(dropped(fd.as_fd()).unwrap(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let tag = 0x3000_0000 | std::process::id();
        let Some((fd, mut ring, to)) = ring(tag, 0) else { return };
        for _ in 0..2 * ring.frames {
            send_to(fd.as_fd(), &frame(tag, b"hello"), &to).unwrap();
        }
        // A busy machine delivers a little later.
        let mut lost = 0;
        let until = Instant::now() + Duration::from_secs(20);
        while lost < ring.frames as u64 && Instant::now() < until {
            lost += dropped(fd.as_fd()).unwrap();
        }
        let mut arrived = 0;
        while ring.receive(&mut [0; 8]).is_ok() {
            arrived += 1;
        }
        assert_eq!((arrived, lost), (ring.frames, ring.frames as u64));
    }
}
