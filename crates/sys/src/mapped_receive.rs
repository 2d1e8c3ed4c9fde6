//! Receiving by mapping: pages of packets that hold nothing but payload are mapped into the program instead of copied
//! (TCP_ZEROCOPY_RECEIVE, kernel 4.18).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::{check_int, msg};

const PAGE: usize = 4096;
/// Bytes of the window into which pages are mapped.
const WINDOW: usize = 1 << 20;

/// The first fields of `struct tcp_zerocopy_receive` in linux/tcp.h, as the first kernels had it.
#[repr(C)]
struct Asked {
    address: u64,
    length: u32,
    /// Bytes that must be received by a call before there is more to map.
    skip: u32,
}

/// A window of the address space into which pages of a socket are mapped.
pub struct Window {
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Window {}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub bytes: usize,
    /// Those of them that were mapped, not copied by the kernel.
    pub mapped: usize,
}

impl Window {
    /// Of a connected TCP socket.
    ///
    /// # Errors
    /// `ENODEV`: it is none.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), WINDOW, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: NonNull::new(base.cast()).expect("mmap does not return null") })
    }

    /// Receives what is there without waiting: whole pages by mapping them, and anything else by a receive call. What is mapped is
    /// copied from there, once.
    ///
    /// # Errors
    /// As recv(2): `WouldBlock` where nothing is there; `ENOPROTOOPT`: not in this kernel.
    #[inline]
    pub fn recv_now(&mut self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Received> {
        let whole = into.len().min(WINDOW) / PAGE * PAGE;
        let mut most = into.len();
        if whole > 0 {
            let (mapped, skip) = self.map(fd, whole)?;
            if mapped > 0 {
                // SAFETY: the kernel has mapped so many bytes from the first on, at most as many as were asked for; they stay until
                // this window is mapped anew. `into` has room for them and is other memory.
                unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), into.as_mut_ptr(), mapped) };
                return Ok(Received { bytes: mapped, mapped });
            }
            if skip > 0 {
                most = most.min(skip);
            }
        }
        msg::recv_now(fd, &mut into[..most]).map(|bytes| Received { bytes, mapped: 0 })
    }

    /// Bytes that were mapped of the first `most`, and those that a receive call must take.
    fn map(&mut self, fd: BorrowedFd<'_>, most: usize) -> io::Result<(usize, usize)> {
        let mut asked = Asked { address: self.base.as_ptr().addr() as u64, length: most as u32, skip: 0 };
        let mut length = size_of::<Asked>() as libc::socklen_t;
        // SAFETY: `asked` and `length` are valid to read and to write to; the address is that of this window, which has room for
        // what is asked for, and of which no reference exists.
        check_int(unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_ZEROCOPY_RECEIVE,
                (&raw mut asked).cast(),
                &raw mut length,
            )
        })?;
        Ok(((asked.length as usize).min(most), asked.skip as usize))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: base and length are those of mmap; no reference into the mapping exists.
        unsafe { libc::munmap(self.base.as_ptr().cast(), WINDOW) };
    }
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::print_stdout)]
mod tests {
    use super::*;
    use crate::msg::SendFlags;
    use crate::poll::{Interest, poll};
    use crate::scatter::Scatter;
    use crate::socket::{IntOption, set};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    /// Bytes mapped of so many sent as `flags` say, all of which must arrive.
    fn mapped(flags: SendFlags, bytes: usize) -> Option<usize> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        set(near.as_fd(), IntOption::Zerocopy, 1).unwrap();
        let mut window = Window::new(far.as_fd()).inspect_err(|error| println!("skipped: {error}")).ok()?;
        let mut message = Scatter::new(1, bytes);
        message.piece_mut(0).iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
        let mut sent = 0;
        let mut got = vec![0; bytes];
        let mut mapped = 0;
        let mut have = 0;
        while have < bytes {
            if sent < bytes {
                sent += msg::send(near.as_fd(), &message.piece(0)[sent..], flags).unwrap();
            }
            if poll(far.as_fd(), Interest::Read, 5_000).unwrap() {
                match window.recv_now(far.as_fd(), &mut got[have..]) {
                    Ok(received) => {
                        assert!(received.bytes > 0, "it has closed");
                        (have, mapped) = (have + received.bytes, mapped + received.mapped);
                    }
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
                }
            }
        }
        assert_eq!(got, message.piece(0));
        Some(mapped)
    }

    #[test]
    fn whole_pages_are_mapped_and_everything_arrives() {
        let zerocopy = SendFlags { zerocopy: true, more: false };
        let Some(small) = mapped(SendFlags::default(), 100) else { return };
        assert_eq!(small, 0, "less than a page");
        let all = mapped(zerocopy, 1 << 20).expect("as above");
        println!(
            "{all} of {} bytes mapped, {:?} of those that were copied",
            1 << 20,
            mapped(SendFlags::default(), 1 << 20)
        );
        assert!(all > 0, "nothing was mapped");
    }

    #[test]
    fn what_is_no_tcp_socket_has_no_window() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Window::new(socket.as_fd()).is_err());
    }
}
