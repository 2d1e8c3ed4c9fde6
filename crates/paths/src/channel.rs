//! Channels: what the transports make and the methods and waits work on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::{ARRIVED, Granted, TcpInfo};
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::sockmap::Sockmap;
use msgpath_sys::{clock, mark, mqueue, msg, ring, socket, sysvmsg};
use rustix::net::sockopt;

use crate::layer::Layered;
use crate::meta::Family;
pub use crate::transports::procvm::ProcessEnd;
pub use crate::transports::sysvmsg::SysvQueues;

mod packet;
mod xsk;

pub use packet::Packet;
pub use xsk::{MODE, XskEnd};

/// How long a channel waits, and who may end the waiting.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A wait returns `WouldBlock` after this long, so that the caller can look around.
    pub slice: Duration,
    /// Whether that also holds inside the kernel's own waits. Arming a timer for every message costs a blocking receive
    /// some 2 %; where nothing can be lost, the end of the connection (or [`Breaker`]) ends the wait instead.
    pub timed: bool,
    /// Without progress for this long, a connection is dead.
    pub stall: Duration,
    /// Set by whoever wants every wait of this channel to end.
    pub abort: Arc<AtomicBool>,
}

impl Limits {
    /// Limits with timed waits and a flag of their own.
    pub fn new(slice: Duration, stall: Duration) -> Self {
        Self { slice, timed: true, stall, abort: Arc::default() }
    }

    /// The slice as poll(2) takes it: -1 where waits are not timed.
    pub fn poll_ms(&self) -> i32 {
        if self.timed { self.slice.as_millis() as i32 } else { -1 }
    }

    /// Whether the round was given up meanwhile.
    ///
    /// # Errors
    /// `ConnectionAborted` if so.
    #[inline(always)]
    pub fn look(&self) -> io::Result<()> {
        match self.abort.load(Ordering::Relaxed) {
            true => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            false => Ok(()),
        }
    }

    /// After a call came back without progress at `since` (ns of the monotonic clock): try again, or the error.
    ///
    /// # Errors
    /// `error` itself if it is neither `Interrupted` nor `WouldBlock`; `TimedOut` after a stall; `ConnectionAborted`.
    #[cold]
    pub fn again(&self, error: io::Error, since: u64) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
            _ => return Err(error),
        }
        self.look()?;
        if clock::now() - since > self.stall.as_nanos() as u64 {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        Ok(())
    }
}

/// Ends every wait in a channel from outside.
pub enum Breaker {
    /// Shuts a socket down for both directions; whoever waits in it sees the end.
    Socket(OwnedFd),
    /// Removes queues; whoever waits at one sees the end.
    Queues([sysvmsg::Queue; 2]),
}

impl Breaker {
    /// Ends them.
    pub fn shut(&self) {
        match self {
            Breaker::Socket(fd) => drop(rustix::net::shutdown(fd, rustix::net::Shutdown::Both)),
            Breaker::Queues(queues) => queues.iter().for_each(|queue| queue.remove()),
        }
    }

    /// What TCP knows of a connection whose oldest segment was sent again so often that it must be lost on the way each time.
    pub fn unanswered(&self) -> Option<socket::TcpInfo> {
        /// 0.2, 0.4 and 0.8 s after one another.
        const LOST: u8 = 3;
        let Breaker::Socket(fd) = self else { return None };
        socket::tcp_info(fd.as_fd()).ok().filter(|info| info.unacked > 0 && info.retransmits >= LOST)
    }

    /// The connection ends with a reset, which the other end sees though nothing that was sent before arrives.
    pub fn reset(&self) {
        if let Breaker::Socket(fd) = self {
            let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
    }
}

/// What all channels have.
pub trait Channel: Send + 'static {
    /// System calls so far; methods and waits add to it.
    fn counts(&mut self) -> &mut CallCounts;
    /// Adds what the channel itself has counted. Called before the counts are read, never in a loop.
    fn settle_counts(&mut self) {}
    /// Waiting.
    fn limits(&self) -> &Limits;
    /// Whether message boundaries are preserved.
    fn framed(&self) -> bool;
    /// Bytes that can wait in this direction without a reader, as far as the kernel tells.
    fn room(&self) -> Option<u64>;
    /// TCP_INFO, where this is a TCP socket.
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }
    /// Path MTU in bytes, where this is a connected socket of IP.
    fn path_mtu(&self) -> Option<u32> {
        None
    }
    /// SO_COOKIE, where this is a socket: how the kernel names it while it is traced.
    fn cookie(&self) -> Option<u64> {
        None
    }
    /// Where the kernel was asked to poll a device's queue in the receive call: the id of the queue by which the last packet came;
    /// 0: by none, and nothing is polled.
    fn polled_queue(&self) -> Option<u32> {
        None
    }
    /// Bytes of the message in flight that were handed over before there was no room; only where sending never waits.
    #[inline(always)]
    fn begun(&self) -> usize {
        0
    }
    /// Remembers that so many bytes were; 0: the message is through. `false`: this channel waits for room instead.
    fn pause(&mut self, _done: usize) -> bool {
        false
    }
    /// Every option that was asked for or that bounds the numbers, as the kernel granted it. `end` is `near` or `far`.
    fn granted(&self, end: &str, options: &ChannelOptions) -> Vec<Granted>;
}

/// The option of [`Granted`] that says by which device queue packets come, where that is to be polled.
pub const NAPI: &str = "NAPI";
/// The option of [`Granted`] that says whether a connection that was to be one of MPTCP is.
const MPTCP: &str = "TCP_IS_MPTCP";
/// That which says that a BPF program hands the messages over.
const REDIRECTED: &str = "BPF_SK_MSG_VERDICT";

pub(crate) fn grant(end: &str, option: &str, asked: Option<String>, granted: String) -> Granted {
    let same = asked.as_ref().is_none_or(|asked| *asked == granted);
    Granted { end: end.into(), option: option.into(), asked: asked.unwrap_or_else(|| "-".into()), granted, same }
}

/// A channel that can be received from by a call.
pub trait Receive: Channel {
    /// Prepares the channel for [`Receive::recv_now`].
    ///
    /// # Errors
    /// As fcntl(2).
    fn never_block(&mut self) -> io::Result<()>;
    /// One receive call that waits, at most a slice where the kernel can limit it.
    ///
    /// # Errors
    /// `WouldBlock` when the slice is over.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// One receive call that does not wait.
    ///
    /// # Errors
    /// `WouldBlock` where nothing is there.
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A channel for which descriptors stand that can be polled.
pub trait Polled: Receive {
    /// What to poll.
    fn recv_fd(&self) -> BorrowedFd<'_>;
    /// Neither sending nor receiving waits from now on, where the channel can do that: see [`Channel::pause`].
    ///
    /// # Errors
    /// As fcntl(2).
    fn never_wait(&mut self) -> io::Result<()> {
        self.never_block()
    }
    /// What to poll for room to send.
    fn room_fd(&self) -> BorrowedFd<'_> {
        self.recv_fd()
    }
}

/// A channel with descriptors that write(2) and read(2) work on.
pub trait Fds: Polled {
    fn write_fd(&self) -> BorrowedFd<'_>;
}

/// A connected socket.
pub struct Socket {
    fd: OwnedFd,
    framed: bool,
    counts: CallCounts,
    limits: Limits,
    /// Whether the connection ends with this value; false for a duplicate.
    ends: bool,
    /// Where sending never waits: bytes of the message in flight that were handed over.
    begun: Option<usize>,
    /// What joins it with the other end's socket, past TCP.
    joined: Option<Sockmap>,
    /// The traffic class with which the first packet came, where one was asked for.
    arrived: Option<u8>,
}

impl Socket {
    /// Takes a connected socket and, where waits are timed, sets its timeouts to the slice.
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn new(fd: OwnedFd, framed: bool, limits: Limits) -> io::Result<Self> {
        if limits.timed {
            socket::set_timeouts(fd.as_fd(), limits.slice, limits.slice)?;
        }
        Ok(Self {
            fd,
            framed,
            counts: CallCounts::default(),
            limits,
            ends: true,
            begun: None,
            joined: None,
            arrived: None,
        })
    }

    /// Remembers the traffic class with which the first packet came.
    #[must_use]
    pub fn with_arrived(mut self, arrived: Option<u8>) -> Self {
        self.arrived = arrived;
        self
    }

    /// Keeps what joins it with the other end's socket as long as this.
    #[must_use]
    pub fn joined_by(mut self, joined: Sockmap) -> Self {
        self.joined = Some(joined);
        self
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The address of the other end, over IP.
    pub fn peer(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok()??).ok()
    }

    /// The socket alone, for who goes on with it: the connection stays.
    ///
    /// # Errors
    /// As dup(2).
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        let fd = self.fd.try_clone()?;
        self.ends = false;
        Ok(fd)
    }
}

impl Drop for Socket {
    /// The other end sees the end now, also while a [`Breaker`] holds the socket.
    fn drop(&mut self) {
        if self.ends {
            let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
        }
    }
}

impl Channel for Socket {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn settle_counts(&mut self) {
        if let Some(runs) = self.joined.as_ref().and_then(Sockmap::runs) {
            self.counts.redirected = runs.iter().sum();
        }
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        self.framed
    }
    fn room(&self) -> Option<u64> {
        // Half: the other half is the kernel's own bookkeeping (socket(7)).
        sockopt::socket_send_buffer_size(&self.fd).ok().map(|bytes| bytes as u64 / 2)
    }
    fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(self.fd())
    }
    fn path_mtu(&self) -> Option<u32> {
        socket::path_mtu(self.fd()).ok()
    }
    fn cookie(&self) -> Option<u64> {
        msgpath_sys::cookie::cookie(self.fd()).ok()
    }
    fn polled_queue(&self) -> Option<u32> {
        let read = |option| socket::get(self.fd(), option).unwrap_or(0);
        (read(socket::IntOption::BusyPoll) != 0).then(|| read(socket::IntOption::NapiId) as u32)
    }
    #[inline(always)]
    fn begun(&self) -> usize {
        self.begun.unwrap_or(0)
    }
    fn pause(&mut self, done: usize) -> bool {
        self.begun.as_mut().map(|begun| *begun = done).is_some()
    }
    fn granted(&self, end: &str, options: &ChannelOptions) -> Vec<Granted> {
        let mut list = Vec::new();
        // The kernel doubles what is asked for, for its own bookkeeping (socket(7)): granted is the half that was asked.
        let mut buffer = |option, asked: Option<u64>, granted: Result<usize, rustix::io::Errno>| {
            if let Ok(bytes) = granted {
                let granted = if asked.is_some() { bytes / 2 } else { bytes };
                list.push(grant(end, option, asked.map(|bytes| bytes.to_string()), granted.to_string()));
            }
        };
        buffer("SO_SNDBUF", options.send_buffer, sockopt::socket_send_buffer_size(&self.fd));
        buffer("SO_RCVBUF", options.receive_buffer, sockopt::socket_recv_buffer_size(&self.fd));
        if self.tcp_info().is_some() {
            if let Ok(on) = sockopt::tcp_nodelay(&self.fd) {
                list.push(grant(end, "TCP_NODELAY", Some(options.nodelay.to_string()), on.to_string()));
            }
            // Accepted sockets have it from the one that listened.
            if let Some(on) =
                sockopt::socket_reuseport(&self.fd).ok().filter(|on| *on || options.reuse_port && end == "far")
            {
                let asked = (options.reuse_port && end == "far").then(|| "true".to_owned());
                list.push(grant(end, "SO_REUSEPORT", asked, on.to_string()));
            }
            if let Ok(name) = sockopt::tcp_congestion(&self.fd) {
                list.push(grant(end, "TCP_CONGESTION", options.congestion.clone(), name));
            }
        }
        if let Some(queue) = self.polled_queue() {
            let busy = socket::get(self.fd(), socket::IntOption::BusyPoll).unwrap_or(0);
            list.push(grant(end, "SO_BUSY_POLL", Some(options.busy_poll_us.to_string()), busy.to_string()));
            // As far as anything has come by now.
            list.push(grant(end, NAPI, None, queue.to_string()));
        }
        if let Some(class) = options.traffic_class {
            // Of TCP the lower two bits are the kernel's: congestion notification.
            let bits = if self.framed { 0xff } else { 0xfc };
            let text = |class: u8| format!("{:#04x}", class & bits);
            if let Ok(granted) = mark::traffic_class(self.fd()) {
                list.push(grant(end, "traffic class", Some(text(class)), text(granted)));
            }
            if let Some(arrived) = self.arrived {
                list.push(grant(end, ARRIVED, Some(text(class)), text(arrived)));
            }
        }
        if let Ok(device) = mark::bound_device(self.fd())
            && !device.is_empty()
        {
            list.push(grant(end, "SO_BINDTODEVICE", options.through.clone(), device));
        }
        if let Ok(Some(is)) = socket::is_mptcp(self.fd()) {
            list.push(grant(end, MPTCP, Some("1".into()), u8::from(is).to_string()));
        }
        if self.joined.as_ref().is_some_and(|joined| joined.runs().is_some()) {
            list.push(grant(end, REDIRECTED, None, "a verdict program a socket".into()));
        }
        list
    }
}

impl Receive for Socket {
    fn never_block(&mut self) -> io::Result<()> {
        Ok(()) // MSG_DONTWAIT in recv_now; sending keeps blocking
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        msg::recv(self.fd.as_fd(), buffer)
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        msg::recv_now(self.fd.as_fd(), buffer)
    }
}

impl Polled for Socket {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
    fn never_wait(&mut self) -> io::Result<()> {
        self.begun = Some(0);
        msgpath_sys::set_nonblocking(self.fd.as_fd(), true)
    }
}

impl Fds for Socket {
    #[inline(always)]
    fn write_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Two pipes, or two FIFOs. A read waits without limit: it ends when the other end closes or dies.
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    counts: CallCounts,
    limits: Limits,
    /// As that of a socket.
    begun: Option<usize>,
    /// Each write is a packet (O_DIRECT).
    packets: bool,
}

impl Pipe {
    /// A descriptor to read and one to write.
    pub fn new(read: OwnedFd, write: OwnedFd, limits: Limits) -> Self {
        Self { read, write, counts: CallCounts::default(), limits, begun: None, packets: false }
    }

    /// The same where pipes are in packet mode.
    #[must_use]
    pub fn in_packets(self) -> Self {
        Self { packets: true, ..self }
    }
}

impl Channel for Pipe {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        self.packets
    }
    fn room(&self) -> Option<u64> {
        rustix::pipe::fcntl_getpipe_size(&self.write).ok().map(|bytes| bytes as u64)
    }
    #[inline(always)]
    fn begun(&self) -> usize {
        self.begun.unwrap_or(0)
    }
    fn pause(&mut self, done: usize) -> bool {
        self.begun.as_mut().map(|begun| *begun = done).is_some()
    }
    fn granted(&self, end: &str, options: &ChannelOptions) -> Vec<Granted> {
        let asked = options.send_buffer.map(|bytes| bytes.to_string());
        self.room().map(|bytes| grant(end, "F_GETPIPE_SZ", asked, bytes.to_string())).into_iter().collect()
    }
}

impl Receive for Pipe {
    fn never_block(&mut self) -> io::Result<()> {
        msgpath_sys::set_nonblocking(self.read.as_fd(), true)
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        msg::read(self.read.as_fd(), buffer)
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        msg::read(self.read.as_fd(), buffer)
    }
}

impl Polled for Pipe {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
    fn never_wait(&mut self) -> io::Result<()> {
        self.begun = Some(0);
        msgpath_sys::set_nonblocking(self.write.as_fd(), true)?;
        self.never_block()
    }
    fn room_fd(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }
}

impl Fds for Pipe {
    #[inline(always)]
    fn write_fd(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }
}

/// Two message queues.
pub struct Queue {
    read: mqueue::Queue,
    write: mqueue::Queue,
    /// mq_receive wants room for the largest message of the queue, whatever arrives.
    deadline: mqueue::Deadline,
    counts: CallCounts,
    limits: Limits,
}

impl Queue {
    pub fn new(read: mqueue::Queue, write: mqueue::Queue, limits: Limits) -> Self {
        let deadline = mqueue::Deadline::after(limits.slice.as_nanos() as u64);
        Self { read, write, deadline, counts: CallCounts::default(), limits }
    }

    #[inline(always)]
    pub fn outgoing(&self) -> &mqueue::Queue {
        &self.write
    }
}

impl Channel for Queue {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        let limits = self.write.attributes().ok()?;
        Some((limits.max_messages * limits.max_size) as u64)
    }
    fn granted(&self, end: &str, _: &ChannelOptions) -> Vec<Granted> {
        let Ok(limits) = self.write.attributes() else { return Vec::new() };
        vec![
            grant(end, "mq_maxmsg", None, limits.max_messages.to_string()),
            grant(end, "mq_msgsize", None, limits.max_size.to_string()),
        ]
    }
}

impl Receive for Queue {
    fn never_block(&mut self) -> io::Result<()> {
        self.read.set_nonblocking(true)
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The deadline is absolute and set anew only when it has passed: no clock reading per message.
        let received = self.read.receive_within(buffer, &self.deadline);
        if received.is_err() {
            self.deadline = mqueue::Deadline::after(self.limits.slice.as_nanos() as u64);
        }
        received
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read.receive(buffer)
    }
}

impl Polled for Queue {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// A channel whose receiver looks into shared memory, and sleeps on a word there.
pub trait Looks: Channel {
    /// Whether a sender wakes a receiver that sleeps.
    fn wakes(&self) -> bool;
    /// Takes a message, if one is there.
    ///
    /// # Errors
    /// What stands there is no message, or one longer than the buffer.
    fn look(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
    /// Sleeps until one may be there or the time is over; `None`: without a limit in time.
    ///
    /// # Errors
    /// As futex(2).
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()>;
}

impl Looks for RingEnd {
    fn wakes(&self) -> bool {
        self.ring.notifies()
    }
    #[inline(always)]
    fn look(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.ring.try_recv(buffer)
    }
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.ring.sleep_for_message(timeout)
    }
}

/// One end of two rings in shared memory.
pub struct RingEnd {
    pub ring: ring::Ring,
    counts: CallCounts,
    limits: Limits,
}

impl RingEnd {
    /// Takes a ring's end.
    pub fn new(ring: ring::Ring, limits: Limits) -> Self {
        Self { ring, counts: CallCounts::default(), limits }
    }

    /// Makes sure that the other end can be woken by a bell. Both ends have theirs by now.
    ///
    /// # Errors
    /// There is no bell, or this end may not ring it.
    pub(crate) fn meet(&mut self) -> Result<(), Unavailable> {
        let Some(bell) = self.ring.bell() else { return Err(Unavailable::new("the ring was made without a bell", "")) };
        bell.meet().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Unavailable::new(error.to_string(), "CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0")
            }
            _ => Unavailable::new(error.to_string(), ""),
        })
    }
}

impl Channel for RingEnd {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn settle_counts(&mut self) {
        (self.counts.send_calls, self.counts.wait_calls) = self.ring.wake_calls();
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        Some(self.ring.capacity() as u64)
    }
    fn granted(&self, end: &str, _: &ChannelOptions) -> Vec<Granted> {
        vec![grant(end, "ring bytes", None, self.ring.capacity().to_string())]
    }
}

/// A channel of any family, before the generic code takes it.
pub enum AnyChannel {
    Socket(Socket),
    Pipe(Pipe),
    Queue(Queue),
    /// System V message queues.
    SystemV(SysvQueues),
    /// Shared-memory rings.
    Ring(RingEnd),
    /// Memory of both processes.
    Process(ProcessEnd),
    /// Raw Ethernet.
    Packet(Packet),
    /// Raw Ethernet, received out of a ring.
    PacketRing(Packet),
    /// Raw Ethernet past the stack.
    Xsk(XskEnd),
    /// A protocol that a library speaks over a socket.
    Layer(Layered),
}

impl AnyChannel {
    /// What ends the waits of this channel from outside, where something does.
    pub fn breaker(&self) -> Option<Breaker> {
        match self {
            AnyChannel::Socket(socket) => socket.fd.try_clone().ok().map(Breaker::Socket),
            AnyChannel::Layer(layer) => layer.socket.try_clone().ok().map(Breaker::Socket),
            AnyChannel::SystemV(queues) => Some(Breaker::Queues(queues.both())),
            _ => None,
        }
    }

    /// Its socket, where it is one.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            AnyChannel::Socket(socket) => Some(socket.fd()),
            _ => None,
        }
    }

    /// The address at the other end, over IP.
    pub fn peer(&self) -> Option<IpAddr> {
        let AnyChannel::Socket(socket) = self else { return None };
        Some(socket.peer()?.ip().to_canonical())
    }

    /// The same channel once more, so that one thread sends and another receives. Made before the first message. The
    /// connection ends with `self`, not with the duplicate.
    ///
    /// # Errors
    /// As dup(2).
    pub fn duplicate(&self) -> io::Result<AnyChannel> {
        Ok(match self {
            AnyChannel::Socket(Socket { fd, framed, limits, .. }) => AnyChannel::Socket(Socket {
                fd: fd.try_clone()?,
                framed: *framed,
                counts: CallCounts::default(),
                limits: limits.clone(),
                ends: false,
                begun: None,
                joined: None,
                arrived: None,
            }),
            AnyChannel::Pipe(Pipe { read, write, limits, packets, .. }) => AnyChannel::Pipe(Pipe {
                packets: *packets,
                ..Pipe::new(read.try_clone()?, write.try_clone()?, limits.clone())
            }),
            AnyChannel::Queue(queue) => {
                AnyChannel::Queue(Queue::new(queue.read.try_clone()?, queue.write.try_clone()?, queue.limits.clone()))
            }
            AnyChannel::SystemV(queues) => AnyChannel::SystemV(queues.duplicate()),
            AnyChannel::Process(end) => AnyChannel::Process(end.duplicate()?),
            AnyChannel::Ring(end) => AnyChannel::Ring(RingEnd::new(end.ring.duplicate()?, end.limits.clone())),
            AnyChannel::Layer(_) | AnyChannel::Xsk(_) => return Err(io::Error::from(io::ErrorKind::Unsupported)),
            AnyChannel::Packet(packet) => AnyChannel::Packet(packet.duplicate()?),
            AnyChannel::PacketRing(packet) => AnyChannel::PacketRing(packet.duplicate()?),
        })
    }

    pub fn family(&self) -> Family {
        match self {
            AnyChannel::Socket(_) => Family::Socket,
            AnyChannel::Pipe(_) => Family::Pipe,
            AnyChannel::Queue(_) => Family::Queue,
            AnyChannel::SystemV(_) => Family::SystemV,
            AnyChannel::Ring(_) => Family::Ring,
            AnyChannel::Process(_) => Family::Process,
            AnyChannel::Packet(_) => Family::Packet,
            AnyChannel::PacketRing(_) => Family::PacketRing,
            AnyChannel::Xsk(_) => Family::Xsk,
            AnyChannel::Layer(_) => Family::Layer,
        }
    }
}

/// TCP_INFO of a socket, where it is one of TCP.
pub fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpInfo> {
    let info = socket::tcp_info(fd).ok()?;
    Some(TcpInfo {
        segs_out: info.segs_out.into(),
        segs_in: info.segs_in.into(),
        data_segs_out: info.data_segs_out.into(),
        data_segs_in: info.data_segs_in.into(),
        total_retrans: info.total_retrans.into(),
        rtt_us: info.rtt_us,
        min_rtt_us: info.min_rtt_us,
        snd_cwnd: info.snd_cwnd,
        snd_mss: info.snd_mss,
        bytes_retrans: info.bytes_retrans,
        ato_us: info.ato,
        rcv_space: info.rcv_space,
        busy_us: info.busy_time,
        rwnd_limited_us: info.rwnd_limited,
        sndbuf_limited_us: info.sndbuf_limited,
        out_of_order: info.rcv_ooopack.map(u64::from),
        timeouts: info.total_rto.map(u64::from),
        pacing_rate: Some(info.pacing_rate).filter(|rate| *rate != u64::MAX),
    })
}
