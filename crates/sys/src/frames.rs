//! Whole Ethernet frames of a network device, in and out (packet(7), SOCK_RAW): what a switch in user space needs.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::packet::{Destination, Interface, dropped};
use crate::{check, check_int};

/// Room for frames that have arrived and are not yet read, bytes of kernel memory.
const ROOM: usize = 8 << 20;
/// ETH_P_ALL.
const ALL: u16 = 3;

/// A device of which every frame that arrives is seen, and over which frames are sent as they are.
///
/// Frames are whole only where the sending device has its offloads off: else checksums are left to be filled in, and one
/// frame stands for many.
pub struct Port {
    fd: OwnedFd,
}

impl Port {
    /// Opens a device of the calling thread's network namespace. Needs CAP_NET_RAW there.
    ///
    /// # Errors
    /// `NotFound`-like (ENODEV), `PermissionDenied`, or as socket(2) and bind(2).
    pub fn open(device: &str) -> io::Result<Self> {
        let interface = Interface::find(device)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0: nothing arrives before it is bound.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let on: libc::c_int = 1;
        // SAFETY: the pointer and length describe `on`.
        check_int(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_IGNORE_OUTGOING,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })?;
        // The first needs CAP_NET_ADMIN; the second is cut to net.core.rmem_max.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, ROOM).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&fd, ROOM)?;
        }
        let address = Destination::new(interface.index, ALL, [0; 6]);
        // SAFETY: the pointer and length describe a sockaddr_ll.
        check_int(unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address.0).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
        })?;
        Ok(Self { fd })
    }

    /// The next frame that has arrived, Ethernet header included: its length, which exceeds the buffer where that was too
    /// small.
    ///
    /// # Errors
    /// `WouldBlock`: there is none. ENETDOWN once when the device goes down or away.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: pointer and length describe `buffer`; MSG_TRUNC changes the returned length only.
        check(unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) })
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// `WouldBlock` and ENOBUFS: no room; ENETDOWN, ENXIO: the device is down or gone; EMSGSIZE above its MTU.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe `frame`.
        check(unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) }).map(drop)
    }

    /// Frames that found no room in the socket since the last call.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn dropped(&self) -> io::Result<u64> {
        dropped(self.fd.as_fd())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until one of `watched` can be read, has ended or has an error, or `timeout_ns` are over; says which. The wait is
/// as exact as the thread's timer slack.
///
/// # Errors
/// As ppoll(2); a signal is not an error, but nothing is ready then.
pub fn wait(watched: &[BorrowedFd<'_>], timeout_ns: Option<u64>, ready: &mut Vec<bool>) -> io::Result<()> {
    let mut entries: Vec<PollFd<'_>> = watched.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout =
        timeout_ns.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ });
    let result = rustix::event::poll(&mut entries, timeout.as_ref());
    ready.clear();
    match result {
        Ok(_) => ready.extend(entries.iter().map(|entry| !entry.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => ready.resize(watched.len(), false),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_ends_with_its_time_or_with_something_to_read() {
        use std::io::Write;
        let (a, mut b) = UnixStream::pair().unwrap();
        let (c, _d) = UnixStream::pair().unwrap();
        let mut ready = Vec::new();
        let begun = crate::clock::now();
        wait(&[a.as_fd(), c.as_fd()], Some(2_000_000), &mut ready).unwrap();
        assert!(crate::clock::now() - begun >= 2_000_000);
        assert_eq!(ready, [false, false]);
        b.write_all(b"x").unwrap();
        wait(&[c.as_fd(), a.as_fd()], None, &mut ready).unwrap();
        assert_eq!(ready, [false, true]);
        drop(b);
        wait(&[a.as_fd()], None, &mut ready).unwrap();
        assert_eq!(ready, [true], "the end is something to read");
    }

    #[test]
    fn frames_are_seen_whole_and_sent_as_they_are() {
        let (port, other) = match (Port::open("lo"), Port::open("lo")) {
            (Ok(port), Ok(other)) => (port, other),
            (Err(error), _) | (_, Err(error)) => return eprintln!("skipped: {error}"),
        };
        // Unknown EtherType on loopback: nobody but the taps takes it.
        let mut frame = vec![0_u8; 60];
        frame[12..14].copy_from_slice(&[0x88, 0xb6]);
        frame[14..30].copy_from_slice(format!("{:016x}", crate::clock::now()).as_bytes());
        port.send(&frame).unwrap();
        let mut buffer = vec![0; 100];
        let mut ready = Vec::new();
        for _ in 0..10_000 {
            wait(&[other.as_fd()], Some(1_000_000_000), &mut ready).unwrap();
            assert_eq!(ready, [true], "the frame never came");
            match other.receive(&mut buffer) {
                Ok(length) if buffer[..length.min(100)] == frame[..] => return,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        panic!("too much traffic on lo");
    }

    #[test]
    fn there_is_no_port_without_a_device() {
        assert!(Port::open("nosuch0").is_err());
    }
}
