//! SO_TIMESTAMPING: when a message passed the stack, without any privilege.
//!
//! The points of a sent message come back on the socket's error queue, one notification each; the point of a received message
//! comes as a control message of its receive call. All stamps are CLOCK_REALTIME. Reception is stamped for every packet of the
//! machine as soon as one socket asks for it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{check, check_int, cmsg};

/// Largest control area of a notification: stamps, an extended error with an address, and room to spare.
const CONTROL: usize = 512;

const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
const SOL_PACKET: i32 = 263;
const PACKET_TX_TIMESTAMP: i32 = 16;

/// Where a stamp was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before the queue of the device: the protocol is done.
    Scheduled,
    /// The driver has the packet.
    Sent,
    /// The peer's TCP has acknowledged it.
    Acknowledged,
}

/// A notification of the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which point.
    pub point: Point,
    /// Which message: for TCP the number of its last byte, counted from 0 where the stamps were turned on; for others the
    /// number of the send. Wraps at 2^32.
    pub number: u32,
    /// CLOCK_REALTIME, ns.
    pub realtime_ns: u64,
}

/// Asks for stamps of everything that this socket sends (`transmit`) and receives (`receive`). `bytes`: the socket is a TCP
/// connection, whose numbers count bytes.
///
/// # Errors
/// `EINVAL`: the kernel cannot number TCP bytes from here (before 6.2), or the connection is not established.
pub fn enable(fd: BorrowedFd<'_>, transmit: bool, receive: bool, bytes: bool) -> io::Result<()> {
    let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE;
    if transmit {
        flags |= libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        if bytes {
            flags |= libc::SOF_TIMESTAMPING_TX_ACK | libc::SOF_TIMESTAMPING_OPT_ID_TCP;
        }
    }
    if receive {
        flags |= libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    set(fd, flags)
}

/// Asks for no stamps any more.
///
/// # Errors
/// Not a socket.
pub fn disable(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, 0)
}

fn set(fd: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    // SAFETY: the pointer and length describe `flags`.
    check_int(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// The software stamp in control bytes, CLOCK_REALTIME in ns: the first of three timespecs.
pub fn realtime(control: &[u8]) -> Option<u64> {
    cmsg::iter(control).find_map(|message| {
        let wanted = (message.level, message.kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
        let data = message.data.get(..16).filter(|_| wanted)?;
        let seconds = i64::from_ne_bytes(data[..8].try_into().ok()?);
        let ns = i64::from_ne_bytes(data[8..].try_into().ok()?);
        let (seconds, ns) = (u64::try_from(seconds).ok()?, u64::try_from(ns).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(ns).filter(|time| *time != 0)
    })
}

/// A notification of a sent message in the control bytes of the error queue.
pub fn parse(control: &[u8]) -> Option<Stamp> {
    let realtime_ns = realtime(control)?;
    cmsg::iter(control).find_map(|message| {
        let is_error = matches!(
            (message.level, message.kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) | (SOL_PACKET, PACKET_TX_TIMESTAMP)
        );
        // struct sock_extended_err { u32 errno; u8 origin, type, code, pad; u32 info; u32 data; }
        let data = message.data.get(..16).filter(|_| is_error)?;
        let u32_at = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().expect("four bytes"));
        if data[4] != SO_EE_ORIGIN_TIMESTAMPING {
            return None;
        }
        let point = match u32_at(8) {
            0 => Point::Sent,
            1 => Point::Scheduled,
            2 => Point::Acknowledged,
            _ => return None,
        };
        Some(Stamp { point, number: u32_at(12), realtime_ns })
    })
}

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

fn receive(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut Control,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to one vector over `bytes` and to `control`, with their lengths; all outlive the call.
    let received = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) })?;
    Ok((received, (header.msg_controllen as usize).min(control.0.len())))
}

/// Reads one notification from the error queue without waiting. `Ok(None)`: it was something else.
///
/// # Errors
/// `WouldBlock` where the queue is empty.
pub fn next(fd: BorrowedFd<'_>) -> io::Result<Option<Stamp>> {
    let mut control = Control([0; CONTROL]);
    let (_, length) = receive(fd, &mut [], &mut control, libc::MSG_ERRQUEUE)?;
    Ok(parse(&control.0[..length]))
}

/// recvmsg(2): how many bytes came, and when the device handed over the packet that ended them, CLOCK_REALTIME in ns.
///
/// # Errors
/// As the manual page.
pub fn recv(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; CONTROL]);
    let (received, length) = receive(fd, bytes, &mut control, 0)?;
    Ok((received, realtime(&control.0[..length])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::{SendFlags, send};
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    /// Everything in the error queue, until `expected` have come or two seconds are over.
    fn drain(fd: BorrowedFd<'_>, expected: usize) -> Vec<Stamp> {
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut stamps = Vec::new();
        while stamps.len() < expected && Instant::now() < deadline {
            match next(fd) {
                Ok(stamp) => stamps.extend(stamp),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
        stamps
    }

    fn at(stamps: &[Stamp], point: Point, number: u32) -> u64 {
        let found: Vec<_> = stamps.iter().filter(|stamp| stamp.point == point && stamp.number == number).collect();
        assert_eq!(found.len(), 1, "{point:?} of {number} in {stamps:?}");
        found[0].realtime_ns
    }

    #[test]
    fn every_point_of_a_tcp_message_is_stamped_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nodelay(true).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        if let Err(error) = enable(near.as_fd(), true, false, true) {
            println!("skipped: stamps of TCP: {error}");
            return;
        }
        enable(far.as_fd(), false, true, true).unwrap();
        // The kernel turns reception stamps on when it comes to it: packets pass without one until then.
        let mut arrivals = 0;
        for message in 0..400_u32 {
            if arrivals == 5 {
                break;
            }
            let before = now();
            assert_eq!(send(near.as_fd(), &[5; 100], SendFlags::default()).unwrap(), 100);
            let mut buffer = [0; 100];
            let (received, stamp) = recv(far.as_fd(), &mut buffer).unwrap();
            let after = now();
            assert_eq!(received, 100);
            let number = message * 100 + 99;
            let stamps = drain(near.as_fd(), 3);
            let scheduled = at(&stamps, Point::Scheduled, number);
            let sent = at(&stamps, Point::Sent, number);
            assert!(before <= scheduled && scheduled <= sent && sent <= after, "{stamps:?}");
            assert!(at(&stamps, Point::Acknowledged, number) >= sent);
            match stamp {
                Some(arrived) => {
                    assert!(sent <= arrived && arrived <= after);
                    arrivals += 1;
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        assert_eq!(arrivals, 5, "no stamps on reception");
        disable(near.as_fd()).unwrap();
        send(near.as_fd(), &[5; 100], SendFlags::default()).unwrap();
        assert_eq!(next(near.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn datagrams_are_numbered_by_their_sends() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        enable(near.as_fd(), true, false, false).unwrap();
        for message in 0..5 {
            near.send(&[1; 32]).unwrap();
            assert_eq!(recv(far.as_fd(), &mut [0; 64]).unwrap().0, 32);
            let stamps = drain(near.as_fd(), 2);
            assert!(at(&stamps, Point::Scheduled, message) <= at(&stamps, Point::Sent, message));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = parse(&bytes);
            let _ = realtime(&bytes);
        }
    }
}
