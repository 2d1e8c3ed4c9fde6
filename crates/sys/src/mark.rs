//! What packets of a socket carry beside their bytes: the traffic class (IPv4: type of service; DSCP in its upper six bits), and the
//! device that they must take.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::{AddressFamily, sockopt};

use crate::{check_int, cmsg};

/// Control messages that are looked at, bytes.
const CONTROL: usize = 128;

fn is_v4(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sockopt::socket_domain(fd)? == AddressFamily::INET)
}

/// IP_TOS or IPV6_TCLASS.
///
/// # Errors
/// Not a socket of IP.
pub fn set_traffic_class(fd: BorrowedFd<'_>, class: u8) -> io::Result<()> {
    let set = if is_v4(fd)? { sockopt::set_ip_tos(fd, class) } else { sockopt::set_ipv6_tclass(fd, class.into()) };
    Ok(set?)
}

/// The traffic class of what this socket sends.
///
/// # Errors
/// Not a socket of IP.
pub fn traffic_class(fd: BorrowedFd<'_>) -> io::Result<u8> {
    Ok(if is_v4(fd)? { sockopt::ip_tos(fd)? } else { sockopt::ipv6_tclass(fd)? as u8 })
}

/// Asks for the traffic class of what arrives: IP_RECVTOS or IPV6_RECVTCLASS.
///
/// # Errors
/// Not a socket of IP.
pub fn report_traffic_class(fd: BorrowedFd<'_>) -> io::Result<()> {
    let set = if is_v4(fd)? { sockopt::set_ip_recvtos(fd, true) } else { sockopt::set_ipv6_recvtclass(fd, true) };
    Ok(set?)
}

/// Takes the datagram that waits; its traffic class, where that was asked for.
///
/// # Errors
/// As recvmsg(2).
pub fn take_with_traffic_class(fd: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    let (mut byte, mut control) = ([0_u8; 1], [0_u8; CONTROL]);
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // SAFETY: a msghdr of zeros is one without a name, parts and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL as _);
    // SAFETY: the header describes `byte` and `control`, which live until the call returns.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(class_in(&control[..(header.msg_controllen as usize).min(CONTROL)]))
}

/// The traffic class of the packet that opened a TCP connection which this end accepted.
///
/// # Errors
/// As getsockopt(2).
pub fn traffic_class_of_handshake(fd: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    // linux/in.h, linux/in6.h
    const IP_PKTOPTIONS: libc::c_int = 9;
    const IPV6_2292PKTOPTIONS: libc::c_int = 6;
    report_traffic_class(fd)?;
    let (level, name) =
        if is_v4(fd)? { (libc::IPPROTO_IP, IP_PKTOPTIONS) } else { (libc::IPPROTO_IPV6, IPV6_2292PKTOPTIONS) };
    let mut control = [0_u8; CONTROL];
    let mut length = CONTROL as libc::socklen_t;
    // SAFETY: the pointer and length describe `control`; the kernel writes at most `length` bytes.
    check_int(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, control.as_mut_ptr().cast(), &raw mut length) })?;
    Ok(class_in(&control[..(length as usize).min(CONTROL)]))
}

/// One byte, or an int in the machine's order.
fn class_in(control: &[u8]) -> Option<u8> {
    let is_class = |one: &cmsg::Control<'_>| {
        [(libc::IPPROTO_IP, libc::IP_TOS), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)].contains(&(one.level, one.kind))
    };
    let data = cmsg::iter(control).find(is_class)?.data;
    match <[u8; 4]>::try_from(data) {
        Ok(int) => u8::try_from(i32::from_ne_bytes(int)).ok(),
        Err(_) => data.first().copied(),
    }
}

/// SO_BINDTODEVICE: packets take this device alone, whatever the routes say.
///
/// # Errors
/// `ENODEV`; `EPERM` where the socket has another device.
pub fn bind_to_device(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: the pointer and length describe `name`.
    check_int(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// The device of SO_BINDTODEVICE; empty: none.
///
/// # Errors
/// As getsockopt(2).
pub fn bound_device(fd: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0_u8; libc::IFNAMSIZ];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: the pointer and length describe `name`; the kernel writes at most `length` bytes.
    check_int(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    let name = name[..(length as usize).min(name.len())].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn the_traffic_class_of_a_datagram_and_of_a_handshake_is_read_at_the_other_end() {
        for host in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((host, 0)) else { continue };
            let to = listener.local_addr().unwrap();
            let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let near = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
            set_traffic_class(near.as_fd(), 0xb8).unwrap();
            assert_eq!(traffic_class(near.as_fd()).unwrap(), 0xb8);
            rustix::net::connect(&near, &to).unwrap();
            let (far, _) = listener.accept().unwrap();
            assert_eq!(traffic_class_of_handshake(far.as_fd()).unwrap(), Some(0xb8), "{host}");

            let (near, far) = (UdpSocket::bind((host, 0)).unwrap(), UdpSocket::bind((host, 0)).unwrap());
            report_traffic_class(far.as_fd()).unwrap();
            set_traffic_class(near.as_fd(), 0x2e).unwrap();
            near.send_to(b"x", far.local_addr().unwrap()).unwrap();
            far.peek(&mut [0]).unwrap();
            assert_eq!(take_with_traffic_class(far.as_fd()).unwrap(), Some(0x2e), "{host}");
            assert_eq!(take_with_traffic_class(far.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_device_is_read_back_and_an_unknown_one_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(bound_device(near.as_fd()).unwrap(), "");
        assert_eq!(bind_to_device(near.as_fd(), "nodevice0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        bind_to_device(near.as_fd(), "lo").unwrap();
        assert_eq!(bound_device(near.as_fd()).unwrap(), "lo");
    }
}
