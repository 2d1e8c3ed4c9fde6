//! One file per transport; what several of them share is here.

pub mod eth;
pub mod fifo;
pub mod mq;
pub mod pipe;
pub mod shm;
pub mod tcp;
pub mod udp;
pub mod unix;
pub mod unixgram;
pub mod unixseq;

use std::hash::{BuildHasher, Hasher};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use msgpath_core::plan::ChannelOptions;
use msgpath_sys::poll::{Interest, poll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Applies the buffer sizes that were asked for.
pub(crate) fn set_buffers(fd: BorrowedFd<'_>, options: &ChannelOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(fd, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(fd, bytes as usize)?;
    }
    Ok(())
}

/// A name that no other run uses and that nobody can guess.
pub(crate) fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = || std::hash::RandomState::new().build_hasher().finish();
    format!("msgpath-{}-{count}-{:016x}{:016x}", std::process::id(), random(), random())
}

/// A number that nobody can guess.
pub(crate) fn unique_number() -> u32 {
    std::hash::RandomState::new().build_hasher().finish() as u32
}

/// Waits until `listener` has a connection and accepts it.
pub(crate) fn accept_within(listener: BorrowedFd<'_>, timeout: Duration) -> io::Result<OwnedFd> {
    let start = Instant::now();
    while start.elapsed() < timeout {
        let left = (timeout - start.elapsed()).as_millis().clamp(1, 60_000) as i32;
        match poll(listener, Interest::Read, left) {
            Ok(true) => return Ok(net::accept_with(listener, SocketFlags::CLOEXEC)?),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the near end did not connect"))
}

/// A socket of the Unix family that listens under an abstract name: nothing is left in the file system, whatever ends
/// the process.
pub(crate) struct LocalListener {
    fd: OwnedFd,
    name: String,
}

impl LocalListener {
    pub(crate) fn new(kind: SocketType) -> io::Result<Self> {
        let name = unique_name();
        let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        net::bind(&fd, &net::SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        net::listen(&fd, 1024)?;
        Ok(Self { fd, name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Accepts a connection of this user (or of root); anyone else is turned away.
    pub(crate) fn accept(&self, timeout: Duration) -> io::Result<OwnedFd> {
        for _ in 0..16 {
            let fd = accept_within(self.fd.as_fd(), timeout)?;
            let peer = sockopt::socket_peercred(&fd)?.uid;
            if peer == rustix::process::geteuid() || peer.is_root() {
                return Ok(fd);
            }
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "only other users connected"))
    }
}

/// Connects to a [`LocalListener`].
pub(crate) fn connect_local(name: &str, kind: SocketType) -> io::Result<OwnedFd> {
    let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    net::connect(&fd, &net::SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(fd)
}

/// Sends descriptors over a Unix socket (SCM_RIGHTS).
pub(crate) fn pass(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = net::SendAncillaryBuffer::new(&mut space);
    if !control.push(net::SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    net::sendmsg(socket, &[IoSlice::new(&[1])], &mut control, net::SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives exactly `N` descriptors that [`pass`] sent.
pub(crate) fn take<const N: usize>(socket: &OwnedFd) -> io::Result<[OwnedFd; N]> {
    if !poll(socket.as_fd(), Interest::Read, 5_000)? {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = net::RecvAncillaryBuffer::new(&mut space);
    net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, net::RecvFlags::CMSG_CLOEXEC)?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            net::RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    fds.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the far end passed other descriptors"))
}

/// The number in a one-number file of /proc.
pub(crate) fn proc_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The largest datagram that the send buffer of a new Unix socket takes: its size less the kernel's 32 bytes.
pub(crate) fn unix_datagram_limit() -> Option<u64> {
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    Some(sockopt::socket_send_buffer_size(&fd).ok()? as u64 - 32)
}
