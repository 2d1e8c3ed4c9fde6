//! Sockets of AF_XDP (Documentation/networking/af_xdp): frames of one queue of a device, past the stack, in memory that this process
//! and the kernel share.
//!
//! The memory (UMEM) is cut into frames. Their addresses go round in four rings of two parties: the fill ring gives empty frames to the
//! kernel, the receive ring brings them back with what arrived; the send ring gives full ones away, the completion ring brings them
//! back. Which of its rings a party writes and which it reads is fixed, so a load with acquire and a store with release are enough.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::mapping::Mapping;
use crate::packet::{HEAD, Head};
use crate::scatter::Scatter;
use crate::{check, check_int};

/// Bytes of a frame in the memory: one page.
const FRAME: usize = 4096;
/// Frames for what arrives, and as many for what is sent: powers of two.
const FRAMES: u32 = 512;
/// Bytes that the kernel leaves free before what arrives (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// The longest frame that it takes, Ethernet header included.
pub const LONGEST: usize = FRAME - HEADROOM;

/// One of the four rings.
struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    /// The own index: of the next entry that is written or read.
    at: u32,
}

impl Ring {
    fn new(fd: BorrowedFd<'_>, offset: u64, place: &libc::xdp_ring_offset, entry: usize) -> io::Result<Self> {
        let bytes = place.desc as usize + FRAMES as usize * entry;
        let memory = Mapping::new_at(fd, bytes.next_multiple_of(rustix::param::page_size()), offset)?;
        let (producer, consumer) = (place.producer as usize, place.consumer as usize);
        Ok(Self { memory, producer, consumer, entries: place.desc as usize, at: 0 })
    }

    /// Where the entry of the own index is.
    #[inline(always)]
    fn entry(&self, bytes: usize) -> usize {
        self.entries + (self.at & (FRAMES - 1)) as usize * bytes
    }

    /// Whether the kernel has written the entry of the own index.
    #[inline(always)]
    fn is_there(&self) -> bool {
        self.memory.u32_at(self.producer).load(Ordering::Acquire) != self.at
    }

    /// The entry was read: it is the kernel's again.
    #[inline(always)]
    fn read(&mut self) {
        self.at = self.at.wrapping_add(1);
        self.memory.u32_at(self.consumer).store(self.at, Ordering::Release);
    }

    /// The entry was written: the kernel may read it.
    #[inline(always)]
    fn written(&mut self) {
        self.at = self.at.wrapping_add(1);
        self.memory.u32_at(self.producer).store(self.at, Ordering::Release);
    }

    /// An address into a ring of addresses. There are never more of them than entries.
    #[inline(always)]
    fn give(&mut self, address: u64) {
        self.memory.u64_at(self.entry(8)).store(address, Ordering::Relaxed);
        self.written();
    }
}

/// What a socket has lost, and what the kernel found wrong (XDP_STATISTICS), since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames for which there was no room: no empty frame, or the receive ring was full.
    pub dropped: u64,
    /// Descriptors that the kernel refused: a defect of this program.
    pub invalid: u64,
}

/// A socket bound to queue 0 of a device, with its memory.
pub struct Xsk {
    fd: OwnedFd,
    memory: Mapping,
    fill: Ring,
    received: Ring,
    sent: Ring,
    completed: Ring,
    /// Addresses of frames that nothing is sent from now.
    free: Vec<u64>,
}

fn set<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, and the kernel only reads it.
    check_int(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, std::ptr::from_ref(value).cast(), length)
    })
    .map(drop)
}

/// Reads an option that is a structure of integers.
///
/// # Safety
/// All-zero is a valid `T`, and any bytes are.
unsafe fn get<T>(fd: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    // SAFETY: the caller's.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which is the caller's to be written as bytes.
    check_int(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, (&raw mut value).cast(), &raw mut length)
    })?;
    // A kernel before 5.4 fills in a shorter structure, of other fields.
    if length as usize == size_of::<T>() { Ok(value) } else { Err(io::Error::from(io::ErrorKind::Unsupported)) }
}

impl Xsk {
    /// Opens a socket, gives it memory and binds it to queue 0 of an interface of the calling thread's network namespace; zero copy
    /// where the driver has it. Nothing arrives before a program hands frames over: [`crate::xdp::hand_over`]. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// `PermissionDenied`; EAFNOSUPPORT without CONFIG_XDP_SOCKETS; EBUSY: the queue has a socket; ENOBUFS: RLIMIT_MEMLOCK.
    pub fn open(interface: i32) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check_int(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: `fd` was just returned and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let (_, memory) = Mapping::create_sealed("msgpath-frames", 2 * FRAMES as usize * FRAME)?;
        let registered = libc::xdp_umem_reg {
            addr: memory.base().addr() as u64,
            len: memory.len() as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // The memory outlives the socket: fields are dropped in the order of their declaration, and the kernel holds its pages itself.
        set(fd.as_fd(), libc::XDP_UMEM_REG, &registered)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(fd.as_fd(), ring, &FRAMES)?;
        }
        // SAFETY: a structure of integers.
        let places: libc::xdp_mmap_offsets = unsafe { get(fd.as_fd(), libc::XDP_MMAP_OFFSETS) }?;
        let descriptor = size_of::<libc::xdp_desc>();
        let mut fill = Ring::new(fd.as_fd(), libc::XDP_UMEM_PGOFF_FILL_RING, &places.fr, 8)?;
        let completed = Ring::new(fd.as_fd(), libc::XDP_UMEM_PGOFF_COMPLETION_RING, &places.cr, 8)?;
        let received = Ring::new(fd.as_fd(), libc::XDP_PGOFF_RX_RING as u64, &places.rx, descriptor)?;
        let sent = Ring::new(fd.as_fd(), libc::XDP_PGOFF_TX_RING as u64, &places.tx, descriptor)?;
        let addresses = |from: u32| (from..from + FRAMES).map(|at| u64::from(at) * FRAME as u64);
        addresses(0).for_each(|address| fill.give(address));
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: 0,
            sxdp_ifindex: interface as u32,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the pointer and length describe a sockaddr_xdp.
        check_int(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Self { fd, memory, fill, received, sent, completed, free: addresses(FRAMES).collect() })
    }

    /// Whether the driver reads and writes the frames where they are (XDP_OPTIONS). Else the kernel copies each.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        // SAFETY: a structure of integers.
        let options: libc::xdp_options = unsafe { get(self.fd.as_fd(), libc::XDP_OPTIONS) }?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// What was lost.
    ///
    /// # Errors
    /// As getsockopt(2); `Unsupported` before kernel 5.9.
    pub fn statistics(&self) -> io::Result<Statistics> {
        // SAFETY: a structure of integers.
        let counts: libc::xdp_statistics = unsafe { get(self.fd.as_fd(), libc::XDP_STATISTICS) }?;
        Ok(Statistics {
            dropped: counts.rx_dropped + counts.rx_ring_full,
            invalid: counts.rx_invalid_descs + counts.tx_invalid_descs,
        })
    }

    /// The next frame, where there is one: its head behind the Ethernet header, and its message as far as `buffer` has room, without
    /// padding. No system call.
    ///
    /// # Errors
    /// `WouldBlock` where there is none; `InvalidData` for a frame that is shorter than it says.
    #[inline(always)]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(Head, usize)> {
        if !self.received.is_there() {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let entry = self.received.entry(size_of::<libc::xdp_desc>());
        let address = self.received.memory.u64_at(entry).load(Ordering::Relaxed);
        let length = self.received.memory.u32_at(entry + 8).load(Ordering::Relaxed) as usize;
        let message = match length.checked_sub(ETHERNET + HEAD) {
            Some(room) => {
                let mut head = [0; HEAD];
                let begins = address as usize + ETHERNET;
                self.memory.copy_to(begins, &mut head);
                let head = Head::read(head);
                let wanted = usize::from(head.length).min(buffer.len());
                if wanted <= room {
                    self.memory.copy_to(begins + HEAD, &mut buffer[..wanted]);
                    Ok((head, wanted))
                } else {
                    Err(io::Error::from(io::ErrorKind::InvalidData))
                }
            }
            None => Err(io::Error::from(io::ErrorKind::InvalidData)),
        };
        self.received.read();
        self.fill.give(address & !(FRAME as u64 - 1));
        message
    }

    /// Puts a message behind its head, of which an Ethernet header is a part, into the send ring. The kernel looks there when it is
    /// [kicked](Xsk::kick).
    ///
    /// # Errors
    /// `WouldBlock`: all frames are on their way; `InvalidInput`: it is longer than a frame.
    #[inline(always)]
    pub fn post(&mut self, message: &Scatter) -> io::Result<()> {
        while self.completed.is_there() {
            let address = self.completed.memory.u64_at(self.completed.entry(8)).load(Ordering::Relaxed);
            self.free.push(address);
            self.completed.read();
        }
        let bytes = message.framed_piece();
        if bytes.len() > LONGEST {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let Some(address) = self.free.pop() else { return Err(io::Error::from(io::ErrorKind::WouldBlock)) };
        self.memory.write(address as usize, bytes);
        let entry = self.sent.entry(size_of::<libc::xdp_desc>());
        self.sent.memory.u64_at(entry).store(address, Ordering::Relaxed);
        self.sent.memory.u32_at(entry + 8).store(bytes.len() as u32, Ordering::Relaxed);
        self.sent.memory.u32_at(entry + 12).store(0, Ordering::Relaxed);
        self.sent.written();
        Ok(())
    }

    /// sendto(2) without bytes: the kernel sends what is in the ring.
    ///
    /// # Errors
    /// As the manual page. EAGAIN, EBUSY and ENOBUFS: the device had no room for some of it.
    #[inline(always)]
    pub fn kick(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no bytes and no address.
        check(unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) }).map(drop)
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Interface;
    use crate::poll::{Interest, poll};
    use crate::{veth, xdp};

    const TYPE: u16 = 0x88b5;
    const TAG: u32 = 0x8000_0007;

    fn message(tag: u32, body: &[u8]) -> Scatter {
        let head = Head { tag, length: body.len() as u16, sender: 0 };
        let mut frame = vec![0xff; 12];
        frame.extend(TYPE.to_be_bytes());
        frame.extend(head.bytes());
        let mut message = Scatter::behind(&[body.len()], 1, &frame);
        message.turn().piece_mut(0).copy_from_slice(body);
        message
    }

    /// Sends messages from one device to the other, and replies to each; what was counted at both.
    fn there_and_back(messages: u32) -> io::Result<[Statistics; 2]> {
        veth::with_pair(["mps0", "mps1"], || {
            let index = |name: &str| Interface::find(name).unwrap().index;
            let (mut near, mut far) = (Xsk::open(index("mps0"))?, Xsk::open(index("mps1"))?);
            let _links = [
                xdp::hand_over(index("mps0"), TYPE, TAG, near.as_fd())?,
                xdp::hand_over(index("mps1"), TYPE, TAG, far.as_fd())?,
            ];
            assert_eq!(Xsk::open(index("mps0")).map(drop).unwrap_err().raw_os_error(), Some(libc::EBUSY));
            assert!(!near.is_zero_copy()?, "a pair of virtual devices copies");
            let pass = |from: &mut Xsk, to: &mut Xsk, body: &[u8]| {
                // What has another tag goes on to the stack.
                for tag in [TAG ^ 1, TAG] {
                    from.post(&message(tag, body)).unwrap();
                }
                while let Err(error) = from.kick() {
                    assert!(
                        matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)),
                        "{error}"
                    );
                }
                assert!(poll(to.as_fd(), Interest::Read, 20_000).unwrap(), "nothing arrived");
                let mut buffer = [0; 2000];
                let (head, length) = to.receive(&mut buffer).unwrap();
                assert_eq!((head.tag, &buffer[..length]), (TAG, body));
                assert_eq!(to.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            };
            for n in 0..messages {
                pass(&mut near, &mut far, &n.to_ne_bytes());
                pass(&mut far, &mut near, &[n as u8; 1400]);
            }
            Ok([near.statistics()?, far.statistics()?])
        })?
    }

    #[test]
    fn frames_go_there_and_back_round_and_round() {
        // More than a ring has entries.
        match there_and_back(2 * FRAMES) {
            Ok(counts) => assert_eq!(counts, [Statistics::default(); 2]),
            Err(error) => println!("skipped: no AF_XDP here ({error})"),
        }
    }
}
