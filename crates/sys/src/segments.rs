//! Datagrams that go through the kernel as one: handed over together (UDP_SEGMENT), and taken out together (UDP_GRO), udp(7).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::scatter::Scatter;
use crate::{check, check_int, cmsg, socket};

/// Most datagrams that are handed over together (UDP_MAX_SEGMENTS of older kernels).
pub const MOST: usize = 64;
/// Most bytes of them: those of a packet over IPv4.
pub const MOST_BYTES: usize = 65_507;
/// Most buffers of one call (UIO_MAXIOV).
pub const MOST_BUFFERS: usize = 1024;
/// Bytes of a buffer that holds what comes together.
const BUFFER: usize = 1 << 16;

/// Bytes of a datagram that fit into a packet of the way that this connected socket takes.
///
/// # Errors
/// Not connected.
pub fn fitting(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // A socket of IPv4 has no option of IPv6.
    let (mtu, headers) = match socket::option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU) {
        Ok(mtu) => (mtu, 48),
        Err(_) => (socket::option(fd, libc::IPPROTO_IP, libc::IP_MTU)?, 28),
    };
    Ok(u64::try_from(mtu).unwrap_or(0).saturating_sub(headers))
}

/// From now on what one call hands over goes as datagrams of so many bytes: UDP_SEGMENT.
///
/// # Errors
/// `ENOPROTOOPT`: a kernel before 4.18.
pub fn segment(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set(fd, libc::UDP_SEGMENT, bytes.into())
}

fn set(fd: BorrowedFd<'_>, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`.
    check_int(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_UDP, name, (&raw const value).cast(), length) })
        .map(drop)
}

/// The buffers of a call that hands several messages over.
#[derive(Default)]
pub struct Together(Vec<libc::iovec>);

// SAFETY: the pointers inside are only used during a call, which makes them anew from borrowed messages.
unsafe impl Send for Together {}

impl Together {
    /// With room for so many buffers.
    pub fn new(buffers: usize) -> Self {
        Self(Vec::with_capacity(buffers))
    }

    /// sendmsg(2) of all messages, one behind the other.
    ///
    /// # Errors
    /// As the manual page; `EINVAL`: a datagram does not fit into a packet.
    #[inline]
    pub fn send(&mut self, fd: BorrowedFd<'_>, messages: &[Scatter]) -> io::Result<usize> {
        self.0.clear();
        messages.iter().for_each(|message| self.0.extend_from_slice(message.vectors()));
        // SAFETY: all-zero is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = self.0.as_mut_ptr();
        header.msg_iovlen = self.0.len() as _;
        // SAFETY: the header points to vectors that describe memory of the messages; no address, no control data.
        check(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) })
    }
}

/// What came together and is given out one by one.
pub struct Joined {
    buffer: Vec<u8>,
    left: Range<usize>,
    /// Bytes of each datagram but the last.
    size: usize,
}

impl Joined {
    /// Asks for it on this socket: UDP_GRO.
    ///
    /// # Errors
    /// `ENOPROTOOPT`: a kernel before 5.0.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        set(fd, libc::UDP_GRO, 1)?;
        Ok(Self { buffer: vec![0; BUFFER], left: 0..0, size: 0 })
    }

    /// Whether nothing is left of what came last: the next datagram takes a call.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next datagram, as far as `into` has room. Waits as the socket does.
    ///
    /// # Errors
    /// As recvmsg(2); `WouldBlock` after SO_RCVTIMEO.
    #[inline]
    pub fn recv(&mut self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            self.receive(fd)?;
        }
        let datagram = self.left.start..self.left.end.min(self.left.start + self.size);
        self.left.start = datagram.end;
        let bytes = datagram.len().min(into.len());
        into[..bytes].copy_from_slice(&self.buffer[datagram][..bytes]);
        Ok(bytes)
    }

    fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // Aligned as control messages are.
        let mut control = [0_u64; 8];
        let mut vector = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // SAFETY: all-zero is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header points to a vector that describes the buffer, and to `control` with its length.
        let got = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, 0) })?;
        let words = control.map(u64::to_ne_bytes);
        let length = (header.msg_controllen as usize).min(size_of_val(&words));
        self.size = size_of_each(&words.as_flattened()[..length]).unwrap_or(got).max(1);
        self.left = 0..got.min(self.buffer.len());
        Ok(())
    }
}

/// What the control messages of a receive call say of the size of each datagram; `None`: one came alone.
fn size_of_each(control: &[u8]) -> Option<usize> {
    let joined = |message: &cmsg::Control<'_>| (message.level, message.kind) == (libc::SOL_UDP, libc::UDP_GRO);
    let number = i32::from_ne_bytes(*cmsg::iter(control).find(joined)?.data.first_chunk()?);
    usize::try_from(number).ok().filter(|size| *size > 0)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [near, far] = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        (near, far)
    }

    fn messages(count: usize, size: usize) -> Vec<Scatter> {
        let filled = |at| {
            let mut message = Scatter::new(2, size / 2);
            (0..2).for_each(|piece| message.piece_mut(piece).fill(at as u8));
            message
        };
        (0..count).map(filled).collect()
    }

    #[test]
    fn what_is_handed_over_together_comes_as_datagrams_and_with_one_call_where_asked() {
        let (near, far) = pair();
        if let Err(error) = segment(near.as_fd(), 100) {
            return println!("skipped: {error}");
        }
        let mut together = Together::new(2 * MOST);
        let mut buffer = [0; 200];
        assert_eq!(together.send(near.as_fd(), &messages(5, 100)).unwrap(), 500);
        for at in 0..5 {
            assert_eq!((far.recv(&mut buffer).unwrap(), buffer[99]), (100, at));
        }
        let mut joined = Joined::new(far.as_fd()).unwrap();
        assert_eq!(together.send(near.as_fd(), &messages(MOST, 100)).unwrap(), 100 * MOST);
        let mut calls = 0;
        for at in 0..MOST {
            calls += usize::from(joined.is_empty());
            assert_eq!((joined.recv(far.as_fd(), &mut buffer).unwrap(), buffer[99]), (100, at as u8));
        }
        assert!(calls <= MOST && joined.is_empty(), "{calls} calls");
        assert_eq!(joined.recv(far.as_fd(), &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // One alone; one that is longer than there is room is cut.
        near.send(&[7; 60]).unwrap();
        assert_eq!((joined.recv(far.as_fd(), &mut buffer).unwrap(), joined.is_empty()), (60, true));
        near.send(&[7; 90]).unwrap();
        assert_eq!((joined.recv(far.as_fd(), &mut buffer[..10]).unwrap(), joined.is_empty()), (10, true));
    }

    #[test]
    fn the_way_says_what_fits() {
        let (near, far) = pair();
        assert!(fitting(near.as_fd()).unwrap() > 1000);
        assert!(fitting(far.as_fd()).is_err(), "it is not connected");
    }

    #[test]
    fn nonsense_in_a_control_message_is_no_size() {
        assert_eq!(size_of_each(&[]), None);
        for (number, size) in [(100, Some(100)), (0, None), (-1, None)] {
            let mut bytes = 20_usize.to_ne_bytes().to_vec();
            [libc::SOL_UDP, libc::UDP_GRO, number].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
            assert_eq!(size_of_each(&bytes), size);
        }
    }
}
