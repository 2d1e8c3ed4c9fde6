//! UDP sockets of a multicast group (ip(7), ipv6(7)): by which device and how far datagrams go, who joins where, and what is known of one
//! that arrived: its TTL, its device, what the socket had no room for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::socket::{option, set_option};
use crate::{check, check_int, cmsg};

// linux/in.h, linux/in6.h, asm-generic/socket.h
const IP_MULTICAST_ALL: libc::c_int = 49;
const IPV6_MULTICAST_ALL: libc::c_int = 29;
const SO_MEMINFO: libc::c_int = 55;
/// linux/sock_diag.h: drops in what SO_MEMINFO fills in.
const SK_MEMINFO_DROPS: usize = 8;
/// Control messages of a datagram, bytes: three of at most 40.
const CONTROL: usize = 160;

/// What the kernel says of a datagram beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// TTL (IPv4) or hop limit (IPv6) as it came; `None`: not reported.
    pub hops: Option<u8>,
    /// Number of the device by which it came.
    pub device: Option<u32>,
}

/// A socket bound to a group and port, beside others of this host. Only datagrams to that group reach it.
///
/// # Errors
/// As socket(2) and bind(2): `EADDRINUSE` where a socket has the port alone.
pub fn receiver(group: IpAddr, port: u16, device: u32) -> io::Result<OwnedFd> {
    let fd = socket(group)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    net::bind(&fd, &with_scope(group, port, device))?;
    match group {
        IpAddr::V4(address) => {
            set_option(fd_of(&fd), libc::IPPROTO_IP, IP_MULTICAST_ALL, 0)?;
            sockopt::set_ip_add_membership_with_ifindex(&fd, &address, &Ipv4Addr::UNSPECIFIED, device)?;
            set_option(fd_of(&fd), libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
            set_option(fd_of(&fd), libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        }
        IpAddr::V6(address) => {
            // Since Linux 4.20; before it the bound address alone keeps other groups away.
            let _ = set_option(fd_of(&fd), libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
            sockopt::set_ipv6_add_membership(&fd, &address, device)?;
            set_option(fd_of(&fd), libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            set_option(fd_of(&fd), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
    }
    Ok(fd)
}

/// How a sender's datagrams go, as the kernel granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// TTL or hop limit.
    pub hops: u32,
    /// Whether receivers in this network namespace get them as well.
    pub looped: bool,
}

/// A socket that sends to a group by a device, connected to it. `hops`: TTL or hop limit; `looped`: receivers of this network namespace
/// are to hear it.
///
/// # Errors
/// As the calls: `ENETUNREACH` where nothing can be sent to a group by this device.
pub fn sender(group: IpAddr, port: u16, device: u32, hops: u8, looped: bool) -> io::Result<(OwnedFd, Sending)> {
    let fd = socket(group)?;
    let granted = match group {
        IpAddr::V4(_) => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_multicast_if_with_ifindex(&fd, &any, &any, device)?;
            sockopt::set_ip_multicast_ttl(&fd, hops.into())?;
            sockopt::set_ip_multicast_loop(&fd, looped)?;
            Sending { hops: sockopt::ip_multicast_ttl(&fd)?, looped: sockopt::ip_multicast_loop(&fd)? }
        }
        IpAddr::V6(_) => {
            sockopt::set_ipv6_multicast_if(&fd, device)?;
            sockopt::set_ipv6_multicast_hops(&fd, hops.into())?;
            sockopt::set_ipv6_multicast_loop(&fd, looped)?;
            Sending { hops: sockopt::ipv6_multicast_hops(&fd)?, looped: sockopt::ipv6_multicast_loop(&fd)? }
        }
    };
    net::connect(&fd, &with_scope(group, port, device))?;
    Ok((fd, granted))
}

fn socket(group: IpAddr) -> io::Result<OwnedFd> {
    let family = if group.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// A group of IPv6 is one of a device.
fn with_scope(group: IpAddr, port: u16, device: u32) -> SocketAddr {
    match group {
        IpAddr::V4(_) => SocketAddr::new(group, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, device).into(),
    }
}

fn fd_of(fd: &OwnedFd) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(fd)
}

/// recvmsg(2) of one datagram, and what is known of it; `now`: `WouldBlock` at once where none is there.
///
/// # Errors
/// As the manual page.
#[inline]
pub fn recv(fd: BorrowedFd<'_>, bytes: &mut [u8], now: bool) -> io::Result<(usize, Arrival)> {
    let mut control = [0_u8; CONTROL];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr of zeros is one without a name, parts and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL as _);
    let flags = if now { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: the header describes `bytes` and `control`, which live until the call returns and which nobody else touches.
    let length = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) })?;
    Ok((length, arrival_in(&control[..(header.msg_controllen as usize).min(CONTROL)])))
}

fn arrival_in(control: &[u8]) -> Arrival {
    let int = |data: &[u8], at: usize| Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let mut arrival = Arrival::default();
    for message in cmsg::iter(control) {
        match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                arrival.hops = int(message.data, 0).and_then(|hops| u8::try_from(hops).ok());
            }
            // struct in_pktinfo begins with the number of the device; it follows the address in struct in6_pktinfo.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => arrival.device = int(message.data, 0),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => arrival.device = int(message.data, 16),
            _ => {}
        }
    }
    arrival
}

/// Datagrams that this socket had no room for since it was made (SO_MEMINFO, Linux 4.12).
///
/// # Errors
/// `ENOPROTOOPT` on an older kernel.
pub fn overflowed(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut values = [0_u32; 16];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the pointer and length describe `values`; the kernel writes at most `length` bytes.
    check_int(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, values.as_mut_ptr().cast(), &raw mut length)
    })?;
    if (length as usize) <= SK_MEMINFO_DROPS * size_of::<u32>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(values[SK_MEMINFO_DROPS])
}

/// Whether a socket hears groups that it has not joined; `None`: the kernel cannot keep them away.
pub fn hears_all(fd: BorrowedFd<'_>) -> Option<bool> {
    let (level, name) = match sockopt::socket_domain(fd).ok()? {
        AddressFamily::INET => (libc::IPPROTO_IP, IP_MULTICAST_ALL),
        _ => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
    };
    option(fd, level, name).ok().map(|on| on != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    /// Both ends of a group on the loopback device; its port is one that the process chose.
    fn both(group: IpAddr) -> io::Result<(OwnedFd, OwnedFd)> {
        let port = 20_000 + (std::process::id() % 20_000) as u16;
        let to = receiver(group, port, 1)?;
        let (from, granted) = sender(group, port, 1, 3, true)?;
        assert_eq!(granted, Sending { hops: 3, looped: true });
        Ok((from, to))
    }

    #[test]
    fn a_datagram_on_the_loopback_device_says_how_it_came() {
        let Ok((from, to)) = both(IpAddr::from([239, 255, 77, 1])) else {
            return println!("skipped: no multicast on lo here");
        };
        assert_eq!(hears_all(to.as_fd()), Some(false));
        assert_eq!(rustix::net::send(&from, b"hello", net::SendFlags::empty()).unwrap(), 5);
        let mut bytes = [0; 16];
        let (length, arrival) = recv(to.as_fd(), &mut bytes, false).unwrap();
        assert_eq!((&bytes[..length], arrival), (&b"hello"[..], Arrival { hops: Some(3), device: Some(1) }));
        assert_eq!(recv(to.as_fd(), &mut bytes, true).unwrap_err().kind(), io::ErrorKind::WouldBlock, "it came once");
    }

    #[test]
    fn what_has_no_room_is_counted_for_its_socket() {
        let Ok((from, to)) = both(IpAddr::from([239, 255, 77, 2])) else {
            return println!("skipped: no multicast on lo here");
        };
        crate::socket::set(to.as_fd(), crate::socket::IntOption::ReceiveBuffer, 1).unwrap();
        for _ in 0..200 {
            rustix::net::send(&from, &[0; 500], net::SendFlags::empty()).unwrap();
        }
        let Ok(lost) = overflowed(to.as_fd()) else { return println!("skipped: no SO_MEMINFO") };
        let mut arrived = 0;
        while recv(to.as_fd(), &mut [0; 500], true).is_ok() {
            arrived += 1;
        }
        assert!(lost > 0 && arrived + lost == 200, "{arrived} arrived, {lost} had no room");
    }

    proptest! {
        #[test]
        fn any_control_message_ends(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            arrival_in(&bytes);
        }
    }
}
