//! The measured calls: send, write, writev, sendmsg, sendmmsg, recv, read.
//!
//! Each is one system call and returns what the kernel returned. No retry, no loop.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;
use crate::scatter::Scatter;

/// Flags of `send` and `sendmsg` that msgpath uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// MSG_ZEROCOPY: the kernel may read the buffer until a completion arrives on the error queue.
    pub zerocopy: bool,
    /// MSG_MORE: more data follows.
    pub more: bool,
}

impl SendFlags {
    #[inline(always)]
    fn bits(self) -> libc::c_int {
        // MSG_NOSIGNAL: do not raise SIGPIPE when the peer has closed; the error EPIPE is still returned.
        libc::MSG_NOSIGNAL
            | if self.zerocopy { libc::MSG_ZEROCOPY } else { 0 }
            | if self.more { libc::MSG_MORE } else { 0 }
    }
}

/// send(2).
///
/// # Errors
/// As the manual page; `WouldBlock` after SO_SNDTIMEO.
#[inline(always)]
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `bytes`, which outlives the call; with MSG_ZEROCOPY the caller keeps the
    // buffer until its completion (paths/methods/zerocopy.rs), and a violation garbles data, not memory safety: the
    // kernel holds its own reference to the pages.
    check(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags.bits()) })
}

/// recv(2), blocking as the socket is; `WouldBlock` after SO_RCVTIMEO.
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn recv(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `bytes`, which nobody else touches during the call.
    check(unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) })
}

/// recv(2) with MSG_DONTWAIT: `WouldBlock` at once where nothing is there.
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn recv_now(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: as in `recv`.
    check(unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) })
}

/// write(2).
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    check(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// vmsplice(2) of one buffer: its pages go into the pipe as they are. Until the reader has them, whatever is written into the
/// buffer is what the reader sees.
///
/// # Errors
/// As the manual page; `EBADF` where it is not a pipe.
#[inline(always)]
pub fn vmsplice(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the vector describes `bytes`, which are only read; the kernel holds its own reference to their pages, so a buffer
    // that is changed or freed too early garbles data, not memory safety.
    check(unsafe { libc::vmsplice(fd.as_raw_fd(), &vector, 1, 0) })
}

/// sendfile(2): pages of a file go into a socket as they are. Until the receiver has them, whatever is written into the file is what
/// the receiver sees.
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn sendfile(to: BorrowedFd<'_>, file: BorrowedFd<'_>, from: u64, bytes: usize) -> io::Result<usize> {
    let mut offset = from as libc::off_t;
    // SAFETY: `offset` is valid to read and to write to.
    check(unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), &raw mut offset, bytes) })
}

/// splice(2) of up to so many bytes; one of the two is a pipe. What lies in between is moved page by page, not copied to the program.
/// 0: nobody writes any more.
///
/// # Errors
/// As the manual page; `WouldBlock` after SO_RCVTIMEO or SO_SNDTIMEO.
#[inline(always)]
pub fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    let no_offset = std::ptr::null_mut();
    // SAFETY: no offsets; the rest are numbers.
    check(unsafe { libc::splice(from.as_raw_fd(), no_offset, to.as_raw_fd(), no_offset, most, libc::SPLICE_F_MOVE) })
}

/// read(2).
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn read(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `bytes`, which nobody else touches during the call.
    check(unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) })
}

/// writev(2) of a whole message.
///
/// # Errors
/// As the manual page.
#[inline(always)]
pub fn writev(fd: BorrowedFd<'_>, message: &Scatter) -> io::Result<usize> {
    let vectors = message.vectors();
    // SAFETY: the vectors describe memory that `message` owns; at most IOV_MAX of them (core::units::MAX_PIECES).
    check(unsafe { libc::writev(fd.as_raw_fd(), vectors.as_ptr(), vectors.len() as libc::c_int) })
}

/// writev(2) of what follows the first `done` bytes of a message: the rest of a short write.
///
/// # Errors
/// As the manual page.
#[cold]
pub fn writev_rest(fd: BorrowedFd<'_>, message: &Scatter, done: usize) -> io::Result<usize> {
    let vectors = message.vectors_after(done);
    // SAFETY: as in `writev`.
    check(unsafe { libc::writev(fd.as_raw_fd(), vectors.as_ptr(), vectors.len() as libc::c_int) })
}

/// sendmsg(2) of a whole message, one iovec a piece.
///
/// # Errors
/// As the manual page; `ENOBUFS` with MSG_ZEROCOPY when `optmem_max` is exhausted.
#[inline(always)]
pub fn sendmsg(fd: BorrowedFd<'_>, message: &Scatter, flags: SendFlags) -> io::Result<usize> {
    sendmsg_vectors(fd, message.vectors(), flags)
}

/// sendmsg(2) of what follows the first `done` bytes of a message.
///
/// # Errors
/// As [`sendmsg`].
#[cold]
pub fn sendmsg_rest(fd: BorrowedFd<'_>, message: &Scatter, done: usize, flags: SendFlags) -> io::Result<usize> {
    sendmsg_vectors(fd, &message.vectors_after(done), flags)
}

#[inline(always)]
fn sendmsg_vectors(fd: BorrowedFd<'_>, vectors: &[libc::iovec], flags: SendFlags) -> io::Result<usize> {
    let header = message_header(vectors);
    // SAFETY: the header points to vectors that describe memory of the caller's `Scatter`; no address, no control data.
    check(unsafe { libc::sendmsg(fd.as_raw_fd(), &header, flags.bits()) })
}

#[inline(always)]
fn message_header(vectors: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_ptr().cast_mut();
    header.msg_iovlen = vectors.len() as _;
    header
}

/// sendmmsg(2): each message whole, in one call. Returns how many were handed over.
///
/// # Errors
/// As the manual page, when not even the first was sent.
pub fn sendmmsg(fd: BorrowedFd<'_>, messages: &[Scatter], headers: &mut Vec<MultiHeader>) -> io::Result<usize> {
    headers.clear();
    headers.extend(
        messages
            .iter()
            .map(|message| MultiHeader(libc::mmsghdr { msg_hdr: message_header(message.vectors()), msg_len: 0 })),
    );
    // SAFETY: MultiHeader is repr(transparent) over mmsghdr; the array holds `len` of them, and the vectors they point
    // to belong to `messages`, which outlives the call.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            headers.len() as libc::c_uint,
            libc::MSG_NOSIGNAL as _,
        )
    };
    check(sent as libc::ssize_t)
}

/// One entry of the array of [`sendmmsg`], kept by the caller so that no call allocates.
#[repr(transparent)]
pub struct MultiHeader(libc::mmsghdr);

impl MultiHeader {
    pub(crate) fn new(header: libc::msghdr) -> Self {
        Self(libc::mmsghdr { msg_hdr: header, msg_len: 0 })
    }
}

// SAFETY: the pointers inside are only used during `sendmmsg`, which rebuilds them from borrowed messages.
unsafe impl Send for MultiHeader {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// What a reader finds of a page that is handed over as `hand_over` does and then changed.
    fn after_a_change(hand_over: impl Fn(BorrowedFd<'_>, &[u8]) -> io::Result<usize>) -> u8 {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut message = Scatter::new(1, 4096);
        message.piece_mut(0).fill(b'A');
        assert_eq!(hand_over(writer.as_fd(), message.piece(0)).unwrap(), 4096);
        message.piece_mut(0).fill(b'B');
        let mut buffer = [0; 4096];
        assert_eq!(read(reader.as_fd(), &mut buffer).unwrap(), 4096);
        buffer[4000]
    }

    #[test]
    fn a_page_that_is_lent_is_seen_as_it_is_when_it_is_read() {
        assert_eq!(after_a_change(write), b'A', "write() copies");
        assert_eq!(after_a_change(vmsplice), b'B', "vmsplice() copied");
    }

    /// What a receiver on this machine finds of a page of a file that is sent and then changed.
    fn after_a_change_of_the_file(from: impl AsFd, to: impl AsFd) -> u8 {
        let (file, mut message) = Scatter::in_file(4096, 2).unwrap();
        message.turn();
        message.piece_mut(0).fill(b'A');
        assert_eq!(message.offset(), 4096);
        assert_eq!(sendfile(from.as_fd(), file.as_fd(), message.offset(), 4096).unwrap(), 4096);
        message.piece_mut(0).fill(b'B');
        let mut buffer = [0; 4096];
        let mut got = 0;
        while got < buffer.len() {
            got += recv(to.as_fd(), &mut buffer[got..]).unwrap();
        }
        buffer[4000]
    }

    #[test]
    fn a_file_that_is_sent_is_seen_as_it_is_when_it_is_received() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert_eq!(after_a_change_of_the_file(near, far), b'B', "sendfile() copied");
        // Unix sockets take pages since 6.5.
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!([b'A', b'B'].contains(&after_a_change_of_the_file(near, far)));
    }

    #[test]
    fn what_is_spliced_goes_on_as_it_came() {
        let ((reader, writer), (last, first)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        assert_eq!(write(writer.as_fd(), b"two parts").unwrap(), 9);
        assert_eq!(splice(reader.as_fd(), first.as_fd(), 4).unwrap(), 4);
        assert_eq!(splice(reader.as_fd(), first.as_fd(), 100).unwrap(), 5);
        drop(writer);
        assert_eq!(splice(reader.as_fd(), first.as_fd(), 100).unwrap(), 0);
        let mut buffer = [0; 16];
        assert_eq!((read(last.as_fd(), &mut buffer).unwrap(), &buffer[..9]), (9, b"two parts".as_slice()));
    }
}
