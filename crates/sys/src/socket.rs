//! Socket options beyond the standard library, and TCP_INFO.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{self, sockopt};

use crate::check_int;
use crate::files::is_trusted_user;

/// Options that neither the standard library nor rustix covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOption {
    /// SO_ZEROCOPY: without it MSG_ZEROCOPY is silently ignored.
    Zerocopy,
    /// SO_BUSY_POLL, microseconds. Raising it needs CAP_NET_ADMIN.
    BusyPoll,
    /// SO_INCOMING_NAPI_ID, read only: 0 where no device queue stands behind the socket.
    NapiId,
    /// SO_RCVBUF, bytes, as asked: the kernel doubles it.
    ReceiveBuffer,
    /// SO_RCVBUFFORCE: the same beyond net.core.rmem_max, with CAP_NET_ADMIN.
    ReceiveBufferForce,
}

impl IntOption {
    fn raw(self) -> libc::c_int {
        match self {
            IntOption::Zerocopy => libc::SO_ZEROCOPY,
            IntOption::BusyPoll => libc::SO_BUSY_POLL,
            IntOption::NapiId => libc::SO_INCOMING_NAPI_ID,
            IntOption::ReceiveBuffer => libc::SO_RCVBUF,
            IntOption::ReceiveBufferForce => libc::SO_RCVBUFFORCE,
        }
    }
}

/// setsockopt(SOL_SOCKET) with an int.
///
/// # Errors
/// As the manual page: `ENOPROTOOPT`, `EOPNOTSUPP`, `EPERM`.
pub fn set(fd: BorrowedFd<'_>, option: IntOption, value: i32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, option.raw(), value)
}

/// setsockopt(2) with an int.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    check_int(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// getsockopt(SOL_SOCKET) of an int.
///
/// # Errors
/// As the manual page.
pub fn get(fd: BorrowedFd<'_>, option: IntOption) -> io::Result<i32> {
    self::option(fd, libc::SOL_SOCKET, option.raw())
}

/// Whether whoever connected this Unix socket was this user, or root.
pub fn is_own(fd: BorrowedFd<'_>) -> bool {
    check_peer(fd).is_ok()
}

/// The user at the other end of this Unix socket as it was when that connected or began to listen (SO_PEERCRED).
///
/// # Errors
/// As getsockopt(2).
pub fn peer_user(fd: BorrowedFd<'_>) -> io::Result<u32> {
    peer(fd).map(|peer| peer.uid)
}

/// Whether the other end of this Unix socket is this user's or root's.
///
/// # Errors
/// `PermissionDenied`: it is another user's, who is named; as getsockopt(2).
pub fn check_peer(fd: BorrowedFd<'_>) -> io::Result<()> {
    match peer_user(fd)? {
        user if is_trusted_user(user) => Ok(()),
        user => {
            let what = format!("user {user} is at the other end, not this user or root");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
    }
}

/// The process at the other end of this Unix socket; `None`: it is in another process namespace.
pub fn peer_process(fd: BorrowedFd<'_>) -> Option<i32> {
    peer(fd).ok().map(|peer| peer.pid).filter(|pid| *pid > 0)
}

/// SO_PEERCRED. Read as it is: to a peer in another process namespace the kernel gives the number 0, which types that know process
/// numbers do not have.
fn peer(fd: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` and `length` are valid to write to, and `length` is the size of `peer`.
    check_int(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut length)
    })?;
    Ok(peer)
}

/// SO_RCVTIMEO and SO_SNDTIMEO.
///
/// # Errors
/// Not a socket.
pub fn set_timeouts(fd: BorrowedFd<'_>, receive: Duration, send: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(fd, sockopt::Timeout::Recv, Some(receive))?;
    Ok(sockopt::set_socket_timeout(fd, sockopt::Timeout::Send, Some(send))?)
}

/// How many connections wait at most until they are accepted: listen(2) may be called again, with another number.
///
/// # Errors
/// As listen(2).
pub fn set_backlog(listener: BorrowedFd<'_>, most: i32) -> io::Result<()> {
    Ok(rustix::net::listen(listener, most)?)
}

/// TCP_CORK.
///
/// # Errors
/// Not a TCP socket.
#[inline]
pub fn cork(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_cork(fd, on)?)
}

/// TCP_QUICKACK: acknowledgements go at once, until the kernel leaves the mode by itself.
///
/// # Errors
/// Not a TCP socket.
#[inline]
pub fn quickack(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(fd, true)?)
}

// linux/tcp.h and linux/mptcp.h
const TCP_IS_MPTCP: libc::c_int = 43;
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;

/// Whether the connection of a socket of MPTCP is one of MPTCP, or fell back to TCP; `None`: the socket is no such one.
/// TCP_IS_MPTCP (kernel 6.9), else whether MPTCP_INFO can be had (5.16).
///
/// # Errors
/// A kernel that does not tell.
pub fn is_mptcp(fd: BorrowedFd<'_>) -> io::Result<Option<bool>> {
    // After a fallback as well: it is what was asked for.
    if sockopt::socket_protocol(fd)? != Some(net::ipproto::MPTCP) {
        return Ok(None);
    }
    let unknown = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP));
    match option(fd, libc::IPPROTO_TCP, TCP_IS_MPTCP) {
        Err(error) if unknown(&error) => {}
        is => return Ok(Some(is? != 0)),
    }
    match option(fd, SOL_MPTCP, MPTCP_INFO) {
        Ok(_) => Ok(Some(true)),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

/// The first four bytes of an option.
pub(crate) fn option(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` and `length` are valid to write to, and `length` is the size of `value`: of a longer option the kernel
    // writes no more.
    check_int(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) })?;
    Ok(value)
}

/// The fields of TCP_INFO that msgpath keeps. Fields that this kernel does not have are beyond `length` and 0, or `None`.
/// The names are those of `struct tcp_info` in linux/tcp.h.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub total_retrans: u32,
    pub rtt_us: u32,
    pub min_rtt_us: u32,
    pub snd_cwnd: u32,
    pub snd_mss: u32,
    pub bytes_retrans: u64,
    pub ato: u32,
    pub rcv_space: u32,
    pub pacing_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub rcv_ooopack: Option<u32>,
    pub total_rto: Option<u16>,
    /// Of the oldest segment that is not acknowledged, in a row.
    pub retransmits: u8,
    pub unacked: u32,
    pub pmtu: u32,
}

/// getsockopt(TCP_INFO). Offsets are those of `struct tcp_info` in linux/tcp.h, which only ever grows.
///
/// # Errors
/// Not a TCP socket, or a kernel whose struct ends before `tcpi_data_segs_out` (before 4.6).
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut raw = [0_u8; 256];
    let mut length = raw.len() as libc::socklen_t;
    // SAFETY: the pointer and length describe `raw`; the kernel writes at most `length` bytes.
    check_int(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &raw mut length)
    })?;
    if length < 160 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    let u32_at = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_ne_bytes(raw[at..at + 8].try_into().expect("eight bytes"));
    Ok(TcpInfo {
        snd_mss: u32_at(16),
        rtt_us: u32_at(68),
        snd_cwnd: u32_at(80),
        total_retrans: u32_at(100),
        segs_out: u32_at(136),
        segs_in: u32_at(140),
        min_rtt_us: u32_at(148),
        data_segs_in: u32_at(152),
        data_segs_out: u32_at(156),
        bytes_retrans: u64_at(208),
        ato: u32_at(12),
        rcv_space: u32_at(96),
        pacing_rate: u64_at(104),
        busy_time: u64_at(168),
        rwnd_limited: u64_at(176),
        sndbuf_limited: u64_at(184),
        // Since Linux 5.4.
        rcv_ooopack: (length >= 228).then(|| u32_at(224)),
        // Since Linux 6.7.
        total_rto: (length >= 248).then(|| u16::from_ne_bytes(raw[240..242].try_into().expect("two bytes"))),
        retransmits: raw[2],
        unacked: u32_at(24),
        pmtu: u32_at(60),
    })
}

/// Bytes of the largest packet that goes through to the peer of this connected socket, as far as the kernel has learned: IPV6_MTU, IP_MTU.
///
/// # Errors
/// Not a connected socket of IP.
pub fn path_mtu(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // A socket of IPv4 has no option of IPv6.
    let bytes =
        option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU).or_else(|_| option(fd, libc::IPPROTO_IP, libc::IP_MTU))?;
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// How often `stop` is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Connects within `timeout`, unless `stop` is set meanwhile. The socket then blocks.
///
/// # Errors
/// As connect(2); `TimedOut`; `Interrupted`: `stop` was set.
pub fn connect(address: SocketAddr, timeout: Duration, stop: &AtomicBool) -> io::Result<OwnedFd> {
    let begun = Instant::now();
    let fd = begin(address, |_| Ok(()))?;
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        let wait = left.min(LOOK).as_millis() as i32 + 1;
        match crate::poll::poll(fd.as_fd(), crate::poll::Interest::Write, wait) {
            Ok(true) => break net::sockopt::socket_error(&fd)??,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ if stop.load(Ordering::Relaxed) => return Err(io::ErrorKind::Interrupted.into()),
            _ if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            _ => {}
        }
    }
    crate::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

/// Connects to a Unix stream socket in the file system within `timeout`, unless `stop` is set meanwhile.
///
/// # Errors
/// As [`connect`]; a path that is too long for an address.
pub fn connect_unix(path: &Path, timeout: Duration, stop: &AtomicBool) -> io::Result<OwnedFd> {
    /// The kernel does not say when a full queue of connections has room again.
    const AGAIN: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    let address = net::SocketAddrUnix::new(path)?;
    let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
    let fd = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, flags, None)?;
    loop {
        match net::connect(&fd, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::AGAIN) if stop.load(Ordering::Relaxed) => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Err(rustix::io::Errno::AGAIN) if begun.elapsed() > timeout => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::AGAIN) => std::thread::sleep(AGAIN),
            Err(error) => return Err(error.into()),
        }
    }
    crate::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

/// Ends both directions of a connection: whoever waits for it goes on.
///
/// # Errors
/// As shutdown(2).
pub fn shut_down(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(net::shutdown(fd, net::Shutdown::Both)?)
}

/// Between two attempts, the second begins while the first waits (RFC 8305, 5: Connection Attempt Delay).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the first of these addresses that answers. The next one is tried where the one before has failed, or has not answered
/// within 250 ms. `prepare` gets each socket before it connects. The socket then blocks.
///
/// # Errors
/// That of the address that failed last; `TimedOut` where one has not answered within `timeout`; `Interrupted`: `stop` was set.
pub fn connect_any(
    addresses: &[SocketAddr],
    timeout: Duration,
    stop: &AtomicBool,
    prepare: impl Fn(&OwnedFd) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let begun = Instant::now();
    let mut waiting: Vec<OwnedFd> = Vec::new();
    let (mut next, mut due) = (0, begun);
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    while begun.elapsed() < timeout {
        if next < addresses.len() && (waiting.is_empty() || Instant::now() >= due) {
            match begin(addresses[next], &prepare) {
                Ok(fd) => waiting.push(fd),
                Err(error) => last = error,
            }
            (next, due) = (next + 1, Instant::now() + STAGGER);
        }
        if waiting.is_empty() && next == addresses.len() {
            return Err(last);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let until = if next < addresses.len() { due } else { begun + timeout };
        let until = until.min(Instant::now() + LOOK);
        let wait = until.saturating_duration_since(Instant::now()).as_millis() as i64 + 1;
        let wait = rustix::time::Timespec { tv_sec: wait / 1000, tv_nsec: wait % 1000 * 1_000_000 };
        let mut polled: Vec<_> = waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)).collect();
        match rustix::event::poll(&mut polled, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        for at in (0..ready.len()).rev().filter(|at| ready[*at]) {
            let fd = waiting.remove(at);
            match net::sockopt::socket_error(&fd)? {
                Ok(()) => {
                    crate::set_nonblocking(fd.as_fd(), false)?;
                    return Ok(fd);
                }
                Err(error) => last = error.into(),
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// A socket that is connecting, or connected.
fn begin(address: SocketAddr, prepare: impl Fn(&OwnedFd) -> io::Result<()>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, net::SocketType::STREAM, flags, None)?;
    prepare(&fd)?;
    match net::connect(&fd, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(crate::ports::explained(error)),
    }
}

/// Binds a socket to a local address before it connects.
///
/// # Errors
/// As bind(2): another family, no such address.
pub fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    Ok(net::bind(fd, &address)?)
}

/// SO_RCVLOWAT: who waits to receive is woken when so many bytes are there; of TCP at most half of what may wait.
///
/// # Errors
/// Not a socket.
pub fn wake_for(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes.min(i32::MAX as u64) as i32)
}

/// TCP_MAXSEG before a connection is made: neither end sends larger segments.
///
/// # Errors
/// Not a TCP socket, or a size below 88.
pub fn limit_segments(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())
}

/// IP_BIND_ADDRESS_NO_PORT before a socket is bound to an address: its port is chosen when it connects, and may be one that connections to
/// elsewhere have.
///
/// # Errors
/// Not a socket of IP.
pub fn choose_port_late(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn tcp_info_counts_the_segments_of_a_real_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.set_nodelay(true).unwrap();
        let mut byte = [0];
        for _ in 0..7 {
            near.write_all(&[1]).unwrap();
            far.read_exact(&mut byte).unwrap();
        }
        let (near, far) = (tcp_info(near.as_fd()).unwrap(), tcp_info(far.as_fd()).unwrap());
        assert_eq!((near.data_segs_out, far.data_segs_in), (7, 7));
        // Loopback keeps the order; a kernel before 5.4 does not count.
        assert_eq!((near.rcv_ooopack.unwrap_or(0), far.rcv_ooopack.unwrap_or(0)), (0, 0));
        assert!(near.segs_out >= 9 && near.snd_mss > 500 && near.snd_cwnd > 0 && near.min_rtt_us < 1_000_000);
    }

    #[test]
    fn the_next_address_is_tried_where_one_is_refused_or_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connect = |addresses: &[SocketAddr]| {
            connect_any(addresses, Duration::from_secs(20), &AtomicBool::new(false), |_| Ok(()))
        };
        let peer = |fd: OwnedFd| TcpStream::from(fd).peer_addr().unwrap();
        assert_eq!(peer(connect(&[closed, answers]).unwrap()), answers);
        assert_eq!(connect(&[closed]).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect(&[]).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        // A listener whose queue is full drops what comes: it is silent.
        let full = TcpListener::bind("127.0.0.1:0").unwrap();
        set_backlog(full.as_fd(), 0).unwrap();
        let silent = full.local_addr().unwrap();
        let _queued = TcpStream::connect(silent).unwrap();
        assert_eq!(peer(connect(&[silent, answers]).unwrap()), answers);
    }

    #[test]
    fn a_connection_of_mptcp_is_told_from_one_that_fell_back() {
        let flags = net::SocketFlags::CLOEXEC;
        let new =
            || net::socket_with(net::AddressFamily::INET, net::SocketType::STREAM, flags, Some(net::ipproto::MPTCP));
        let Ok(listener) = new() else { return println!("skipped: no MPTCP here") };
        net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        net::listen(&listener, 1).unwrap();
        let both = new().unwrap();
        net::connect(&both, &SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap()).unwrap();
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let alone = new().unwrap();
        net::connect(&alone, &plain.local_addr().unwrap()).unwrap();
        let asked = is_mptcp(both.as_fd());
        if asked.is_err() {
            return println!("skipped: a kernel that does not tell ({asked:?})");
        }
        assert_eq!((asked.unwrap(), is_mptcp(alone.as_fd()).unwrap()), (Some(true), Some(false)));
        assert_eq!(is_mptcp(plain.as_fd()).unwrap(), None);
    }

    #[test]
    fn zerocopy_is_read_back() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(get(socket.as_fd(), IntOption::Zerocopy).unwrap(), 0);
        if set(socket.as_fd(), IntOption::Zerocopy, 1).is_ok() {
            assert_eq!(get(socket.as_fd(), IntOption::Zerocopy).unwrap(), 1);
        }
    }
}
