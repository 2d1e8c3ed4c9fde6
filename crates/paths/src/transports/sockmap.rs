//! TCP sockets of one machine that BPF joins (sockmap): what is sent into one is received from the other, past TCP. The near end
//! makes both sockets and passes the far end's over a Unix socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::Unavailable;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::sockmap;
use rustix::net::{self, SocketFlags, SocketType};

use super::tcp::{local_address, socket, tune};
use super::{Listening, connect_local, pass, set_buffers, take};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Sockmap;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "sockmap",
        summary: "a TCP connection of this machine whose messages BPF hands from socket to socket, past TCP",
        manual: "The same program with the same sockets as over tcp: a BPF program at each send call puts the message \
                 into the receive queue of the other socket (sockmap, BPF_SK_MSG_VERDICT). Segments, loopback device and \
                 softirq fall away, and tcpdump and TCP_INFO see nothing. The program counts what it hands over: \
                 msgpath compares that with the messages (W22). Nothing holds a fast sender back, all that is not \
                 received lies in kernel memory, so there are no streams over it. Needs CAP_BPF, CAP_NET_ADMIN and \
                 kernel 5.5.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    // Both sockets are of one kernel.
    inet: false,
    device: false,
    // Maps and programs are made with it: nothing that stands for the connection of a program.
    connects: false,
    segments: false,
    stack: Stack::Local,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// Two TCP sockets of this process, connected with one another.
fn pair(need: &Need) -> io::Result<[OwnedFd; 2]> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = socket(any, SocketType::STREAM, Some(any))?;
    set_buffers(listener.as_fd(), &need.options)?;
    net::listen(&listener, 1)?;
    let near = socket(any, SocketType::STREAM, None)?;
    set_buffers(near.as_fd(), &need.options)?;
    net::connect(&near, &local_address(&listener)?)?;
    let (far, peer) = net::acceptfrom_with(&listener, SocketFlags::CLOEXEC)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    if peer != Some(local_address(&near)?) {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "another program came first"));
    }
    tune(&near, need)?;
    tune(&far, need)?;
    Ok([near, far])
}

/// One message across, and whether the program says that it handed it over.
fn try_it() -> io::Result<()> {
    let [near, far] = pair(&Need::local(64))?;
    let joined = sockmap::Sockmap::join([near.as_fd(), far.as_fd()])?;
    msg::send(near.as_fd(), &[1], SendFlags::default())?;
    match (msg::recv_now(far.as_fd(), &mut [0])?, joined.runs()) {
        (1, Some([1, 0])) => Ok(()),
        _ => Err(io::Error::other("the verdict program did not run for a message")),
    }
}

impl Transport for Sockmap {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn streams(&self) -> Result<(), Unavailable> {
        let why = "nothing holds its sender back: a stream would measure how fast memory fills";
        Err(Unavailable::new(why, "echo, or a stream over another transport"))
    }

    fn probe(&self) -> Result<(), Unavailable> {
        try_it().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Unavailable::new(
                format!("BPF is not allowed here: {error}"),
                "CAP_BPF and CAP_NET_ADMIN: sudo setcap cap_bpf,cap_net_admin+ep on msgpath",
            ),
            _ => Unavailable::new(
                format!("no redirecting between sockets here: {error}"),
                "a kernel with BPF and maps of sockets (CONFIG_BPF_SYSCALL, CONFIG_NET_SOCK_MSG), 5.5 or newer",
            ),
        })
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        if need.stream {
            self.streams().map_err(|reason| io::Error::new(io::ErrorKind::Unsupported, reason.why))?;
        }
        let channel = |local: OwnedFd, need: &Need| {
            let [fd, map] = take::<2>(&local, &need.limits)?;
            let socket = Socket::new(fd, false, need.limits.clone())?;
            Ok(AnyChannel::Socket(socket.joined_by(sockmap::Sockmap::kept(map))))
        };
        Ok(Box::new(Listening::local(SocketType::STREAM, need, channel)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let local = connect_local(address, SocketType::STREAM)?;
        let [near, far] = pair(need)?;
        let joined = sockmap::Sockmap::join([near.as_fd(), far.as_fd()])?;
        pass(&local, &[far.as_fd(), joined.map(1)])?;
        let socket = Socket::new(near, false, need.limits.clone())?;
        Ok((AnyChannel::Socket(socket.joined_by(joined)), String::new()))
    }
}
