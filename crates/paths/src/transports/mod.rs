//! One file per transport; what several of them share is here.

mod admission;
pub mod eth;
pub mod eth_ring;
pub mod fifo;
pub mod mptcp;
pub mod mq;
pub mod netlink;
pub mod pipe;
pub mod pipe_packet;
pub mod procvm;
pub mod shm;
pub mod sockmap;
pub mod sysvmsg;
pub mod tcp;
pub mod udp;
pub mod unix;
pub mod unixgram;
pub mod unixseq;
pub mod xdp;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use msgpath_core::plan::ChannelOptions;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::{mark, random};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

pub use admission::Admission;

use crate::channel::{AnyChannel, Limits};
use crate::transport::{Need, Offer};

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

/// Marks what a socket of IP sends, as asked. At the near end it is also bound to the device that was asked for.
pub(crate) fn mark(fd: BorrowedFd<'_>, options: &ChannelOptions, near: bool) -> io::Result<()> {
    if let Some(class) = options.traffic_class {
        mark::set_traffic_class(fd, class)?;
    }
    match &options.through {
        Some(device) if near => mark::bind_to_device(fd, device)
            .map_err(|error| io::Error::new(error.kind(), format!("-o device={device}: {error}"))),
        _ => Ok(()),
    }
}

/// A name that no other run uses and that nobody can guess: [`check_name`] has its form.
pub(crate) fn unique_name() -> io::Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = u128::from_le_bytes(random::bytes()?);
    Ok(format!("{PREFIX}{}-{count}-{random:032x}", std::process::id()))
}

/// How every name of [`unique_name`] begins.
const PREFIX: &str = "msgpath-";

/// A name that the other end gave, if it has the form of [`unique_name`]. It leads to what an msgpath made: to no file by its path, and
/// to no socket or queue of another program.
///
/// # Errors
/// `InvalidData`.
pub(crate) fn check_name(text: &str) -> io::Result<&str> {
    let number = |text: &str| (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let random = |text: &str| text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts = text.strip_prefix(PREFIX).map(|rest| rest.split('-').collect::<Vec<_>>());
    match parts.as_deref() {
        Some([pid, count, bytes]) if number(pid) && number(count) && random(bytes) => Ok(text),
        _ => {
            let what = format!("the other end named {text:?}, which is no name that msgpath makes");
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}

/// A number that nobody can guess.
pub(crate) fn unique_number() -> io::Result<u32> {
    random::bytes().map(u32::from_le_bytes)
}

/// Connections that wait in a listening socket: who offers more lets them in meanwhile ([`crate::Offer::admission`]).
pub(crate) const BACKLOG: i32 = 1024;

/// Connections that come to a listening socket; each becomes a channel.
pub(crate) struct Listening<F> {
    admission: Admission,
    place: String,
    need: Need,
    channel: F,
}

impl<F> Listening<F>
where
    F: Fn(OwnedFd, &Need) -> io::Result<AnyChannel> + Send,
{
    /// At sockets that listen at `place`, one unless they share the port. `may`: whether whoever connected may at all.
    pub(crate) fn at(
        listeners: Vec<OwnedFd>,
        place: String,
        need: &Need,
        may: fn(&OwnedFd) -> bool,
        channel: F,
    ) -> io::Result<Self> {
        Ok(Self { admission: Admission::new(listeners, need.connections, may)?, place, need: need.clone(), channel })
    }

    /// At a socket of the Unix family that listens under an abstract name: nothing is left in the file system, whatever
    /// ends the process. Only this user (or root) is let in; anyone else is turned away.
    pub(crate) fn local(kind: SocketType, need: &Need, channel: F) -> io::Result<Self> {
        let name = unique_name()?;
        let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        net::bind(&fd, &net::SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        net::listen(&fd, BACKLOG)?;
        Self::at(vec![fd], name, need, |fd| msgpath_sys::socket::is_own(fd.as_fd()), channel)
    }
}

impl<F> Offer for Listening<F>
where
    F: Fn(OwnedFd, &Need) -> io::Result<AnyChannel> + Send,
{
    fn addresses(&self) -> Vec<String> {
        self.admission.addresses(&self.place)
    }

    fn admission(&mut self) -> Option<&mut Admission> {
        Some(&mut self.admission)
    }

    fn listening(&self) -> io::Result<Option<OwnedFd>> {
        self.admission.listening().map(Some)
    }

    fn accept(&mut self, _: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        let accepted = self.admission.accept(timeout, &self.need.limits)?.into_iter();
        accepted.map(|fd| (self.channel)(fd, &self.need)).collect()
    }
}

/// Connects to an address of [`Listening::local`].
pub(crate) fn connect_local(address: &str, kind: SocketType) -> io::Result<OwnedFd> {
    let (name, key) = admission::parse(address)?;
    let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    net::connect(&fd, &net::SocketAddrUnix::new_abstract_name(check_name(name)?.as_bytes())?)?;
    // Whoever listens there gets the key, and perhaps descriptors.
    msgpath_sys::socket::check_peer(fd.as_fd())?;
    admission::introduce(&fd, &key)?;
    Ok(fd)
}

/// How long the other end of a new connection may take to say what it passes.
const FIRST_WORDS: Duration = Duration::from_secs(5);
/// Between two looks whether the round was given up.
const LOOK_MS: i32 = 50;
/// Most descriptors that are passed at once.
const MOST_PASSED: usize = 3;

/// Sends descriptors over a Unix socket (SCM_RIGHTS).
pub(crate) fn pass(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut control = net::SendAncillaryBuffer::new(&mut space);
    if !control.push(net::SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    net::sendmsg(socket, &[IoSlice::new(&[1])], &mut control, net::SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits until the other end of a new connection has said something.
fn until_it_speaks(socket: &OwnedFd, limits: &Limits) -> io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < FIRST_WORDS {
        limits.look()?;
        match poll(socket.as_fd(), Interest::Read, LOOK_MS) {
            Ok(true) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

/// Receives exactly `N` descriptors that [`pass`] sent.
pub(crate) fn take<const N: usize>(socket: &OwnedFd, limits: &Limits) -> io::Result<[OwnedFd; N]> {
    take_all(socket, limits)?.try_into().map_err(|_| other_descriptors())
}

/// The other end did not pass what it should.
pub(crate) fn other_descriptors() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end passed other descriptors")
}

/// Receives the descriptors of one [`pass`].
pub(crate) fn take_all(socket: &OwnedFd, limits: &Limits) -> io::Result<Vec<OwnedFd>> {
    until_it_speaks(socket, limits)?;
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut control = net::RecvAncillaryBuffer::new(&mut space);
    net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, net::RecvFlags::CMSG_CLOEXEC)?;
    let passed = control.drain().filter_map(|message| match message {
        net::RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(passed.flatten().collect())
}

/// Says some numbers over a Unix socket.
pub(crate) fn tell<const N: usize>(socket: &OwnedFd, numbers: [u64; N]) -> io::Result<()> {
    let bytes = numbers.map(u64::to_le_bytes);
    let bytes = bytes.as_flattened();
    match net::send(socket, bytes, net::SendFlags::NOSIGNAL)? == bytes.len() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::WriteZero)),
    }
}

/// Hears the numbers that the other end [`tell`]s.
pub(crate) fn hear<const N: usize>(socket: &OwnedFd, limits: &Limits) -> io::Result<[u64; N]> {
    let mut bytes = [[0; size_of::<u64>()]; N];
    let mut done = 0;
    while done < size_of_val(&bytes) {
        until_it_speaks(socket, limits)?;
        match net::recv(socket, &mut bytes.as_flattened_mut()[done..], net::RecvFlags::DONTWAIT)?.0 {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            more => done += more,
        }
    }
    Ok(bytes.map(u64::from_le_bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_msgpath_makes_are_taken() {
        let made = unique_name().unwrap();
        assert_eq!(check_name(&made).unwrap(), made);
        let random = "0123456789abcdef0123456789abcdef";
        let others = [
            String::new(),
            "/tmp/.X11-unix/X0".into(),
            "/etc".into(),
            "msgpath-serve-demo".into(),
            format!("msgpath-1-0-{}", &random[1..]),
            format!("msgpath-1-0-{}A", &random[1..]),
            format!("msgpath-1-0-0-{random}"),
            format!("msgpath-+1-0-{random}"),
            format!("msgpath-1--{random}"),
            format!("msgpath-1-99999999999-{random}"),
            format!("../msgpath-1-0-{random}"),
            format!("msgpath-1-0-{random}/.."),
            format!("msgpath-1-0-{random}\0"),
        ];
        for name in others {
            assert_eq!(check_name(&name).unwrap_err().kind(), io::ErrorKind::InvalidData, "{name:?}");
        }
    }

    #[test]
    fn no_socket_of_another_name_is_connected_to() {
        let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let name = format!("other-{}", unique_name().unwrap());
        net::bind(&listener, &net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        net::listen(&listener, 1).unwrap();
        msgpath_sys::set_nonblocking(listener.as_fd(), true).unwrap();
        let address = format!("{name} {:032x}", 1);
        assert_eq!(connect_local(&address, SocketType::STREAM).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(net::accept(&listener).unwrap_err(), rustix::io::Errno::AGAIN, "nobody came");
    }

    #[test]
    fn a_listener_of_another_user_gets_no_key() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can become another user");
        }
        let name = unique_name().unwrap();
        let at = net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let listens = || {
            // Of this thread alone.
            let other = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(other, other, other).unwrap();
            let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            net::bind(&fd, &at).unwrap();
            net::listen(&fd, 1).unwrap();
            fd
        };
        let listener = std::thread::scope(|scope| scope.spawn(listens).join().unwrap());
        let error = connect_local(&format!("{name} {:032x}", 1), SocketType::STREAM).unwrap_err();
        assert_eq!(error.to_string(), "user 65534 is at the other end, not this user or root");
        let accepted = net::accept(&listener).unwrap();
        assert_eq!(net::recv(&accepted, &mut [0_u8; 1], net::RecvFlags::empty()).unwrap().0, 0, "nothing was sent");
    }
}
