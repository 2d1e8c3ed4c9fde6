//! A connection that neither waits to read nor to write: what a server with many of them calls.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{check, check_int, cmsg};

/// Several buffers in one sendmsg(2), without waiting. A short count means that the socket is full.
///
/// # Errors
/// `WouldBlock` where nothing could be taken; otherwise as the manual page.
#[inline]
pub fn send_parts_now(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_ptr().cast_mut().cast(); // IoSlice has the layout of iovec by its documentation
    header.msg_iovlen = parts.len() as _;
    // SAFETY: the vectors describe borrowed memory that outlives the call and is only read.
    check(unsafe { libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) })
}

/// One buffer in one send(2), without waiting. A short count means that the socket is full.
///
/// # Errors
/// As [`send_parts_now`].
#[inline]
pub fn send_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    check(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// SO_TIMESTAMPNS: the kernel notes when it received each segment, CLOCK_REALTIME.
///
/// # Errors
/// Not a socket.
pub fn stamp_received(fd: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and length describe `on`.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check_int(done).map(drop)
}

/// recvmsg(2) without waiting: how many bytes, and the kernel's receive stamp (ns since 1970-01-01 UTC) of the last
/// segment among them; `None` where it told none. Needs [`stamp_received`].
///
/// # Errors
/// `WouldBlock` at once where nothing is there.
pub fn recv_stamped_now(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    #[repr(C, align(8))]
    struct Space([u8; 128]);
    let mut control = Space([0; 128]);
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to `vector`, which describes `bytes`, and to `control` with its length.
    let got = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) })?;
    let length = (header.msg_controllen as usize).min(control.0.len());
    Ok((got, stamp(&control.0[..length])))
}

/// The receive stamp among control messages: two 64-bit numbers, seconds and nanoseconds.
fn stamp(control: &[u8]) -> Option<u64> {
    cmsg::iter(control).find_map(|message| {
        let ours = message.level == libc::SOL_SOCKET && message.kind == libc::SCM_TIMESTAMPNS;
        let data = message.data.get(..16).filter(|_| ours)?;
        let number = |at: usize| i64::from_ne_bytes(data[at..at + 8].try_into().expect("eight bytes"));
        let (seconds, nanoseconds) = (u64::try_from(number(0)).ok()?, u64::try_from(number(8)).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds).filter(|stamp| *stamp > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{SystemTime, UNIX_EPOCH};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn wall_ns() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn parts_arrive_in_order_and_a_full_socket_says_so() {
        let (near, far) = pair();
        let sent = send_parts_now(near.as_fd(), &[IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")]);
        assert_eq!(sent.unwrap(), 7);
        assert_eq!(send_now(near.as_fd(), b"!").unwrap(), 1);
        let mut bytes = [0; 16];
        let mut got = 0;
        while got < 8 {
            got += crate::msg::recv(far.as_fd(), &mut bytes[got..]).unwrap();
        }
        assert_eq!(&bytes[..8], b"one two!");
        let much = vec![0; 1 << 20];
        let full = (0..1000).find_map(|_| send_now(near.as_fd(), &much).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_stamp_lies_between_sending_and_reading() {
        let (near, far) = pair();
        stamp_received(far.as_fd()).unwrap();
        let before = wall_ns();
        send_now(near.as_fd(), b"x").unwrap();
        crate::poll::poll(far.as_fd(), crate::poll::Interest::Read, 1000).unwrap();
        let (got, stamp) = recv_stamped_now(far.as_fd(), &mut [0; 8]).unwrap();
        let after = wall_ns();
        assert_eq!(got, 1);
        let Some(stamp) = stamp else {
            println!("skipped: this kernel tells no stamp for TCP");
            return;
        };
        assert!((before..=after).contains(&stamp), "{before} {stamp} {after}");
        let empty = recv_stamped_now(far.as_fd(), &mut [0; 8]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }
}
