//! Unix datagram sockets: a pair, of which the near end passes one to the far end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_sys::socket::is_own;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::unix::connect_to_path;
use super::{Listening, connect_local, other_descriptors, pass, set_buffers, take, unix_datagram_limit};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct UnixGram;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "unixgram",
        summary: "Unix datagrams between two connected sockets: nothing is lost, a full queue blocks the sender",
        manual: "One datagram a message on one machine. The queue holds net.unix.max_dgram_qlen messages; then the \
                 sender blocks. A message is at most as large as the send buffer.",
    },
    family: Family::Socket,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Local,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

fn end(fd: OwnedFd, need: &Need) -> io::Result<AnyChannel> {
    set_buffers(fd.as_fd(), &need.options)?;
    Ok(AnyChannel::Socket(Socket::new(fd, true, need.limits.clone())?))
}

/// The far end of a pair, which comes over a Unix socket. It connects to no name that it was told: the kernel shows who sends a datagram
/// to whoever receives it, and what a server of root's sends to a socket of others would be root's word.
fn far(socket: OwnedFd, need: &Need) -> io::Result<AnyChannel> {
    let [fd] = take::<1>(&socket, &need.limits)?;
    let is_datagram =
        sockopt::socket_domain(&fd)? == AddressFamily::UNIX && sockopt::socket_type(&fd)? == SocketType::DGRAM;
    // Of a pair the kernel knows who made it; of a socket that was connected to a name it does not.
    match is_datagram && is_own(fd.as_fd()) {
        true => end(fd, need),
        false => Err(other_descriptors()),
    }
}

impl Transport for UnixGram {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        unix_datagram_limit()
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Listening::local(SocketType::STREAM, need, far)?))
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        connect_to_path(address, SocketType::DGRAM, true, need)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let (near, far) = net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        pass(&socket, &[far.as_fd()])?;
        Ok((end(near, need)?, String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::unique_name;
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::time::Duration;

    /// What the server answers to a client that passes this socket.
    fn passed(fd: impl AsFd) -> io::Result<()> {
        let need = Need::local(64);
        let mut offer = UnixGram.offer(&need)?;
        let socket = connect_local(&offer.addresses()[0], SocketType::STREAM)?;
        pass(&socket, &[fd.as_fd()])?;
        offer.accept(&[String::new()], Duration::from_secs(5)).map(drop)
    }

    #[test]
    fn a_socket_that_is_connected_to_a_name_is_refused() {
        let folder = std::env::temp_dir().join(format!("msgpath-unixgram-{}", std::process::id()));
        let _victim = UnixDatagram::bind(&folder).unwrap();
        let connected = UnixDatagram::unbound().unwrap();
        connected.connect(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let stream = std::os::unix::net::UnixStream::pair().unwrap().0;
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for fd in [connected.as_fd(), stream.as_fd(), udp.as_fd(), file.as_fd()] {
            assert!(passed(fd).is_err(), "{fd:?}");
        }
        passed(UnixDatagram::pair().unwrap().0).unwrap();
    }

    #[test]
    fn the_server_connects_to_no_name_of_the_client() {
        let name = unique_name().unwrap();
        let _victim = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let mut offer = UnixGram.offer(&Need::local(64)).unwrap();
        assert!(offer.accept(&[name], Duration::from_millis(1)).is_err(), "nobody came");
    }
}
