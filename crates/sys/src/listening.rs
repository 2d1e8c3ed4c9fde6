//! Which sockets take connections or datagrams in this network namespace: of IP by sock_diag(7), filtered by the kernel; of the Unix
//! family by `/proc/net/unix`. The inode of each tells in `/proc/PID/fd` whose it is, and no connection is used up to find it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::netlink::{Family, Netlink, attributes};

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN, and TCP_CLOSE, which a UDP socket has that is not connected, as bits of the states that are asked for.
const LISTEN: u32 = 1 << 10;
const UNCONNECTED: u32 = 1 << 7;
/// `__SO_ACCEPTCON`: a Unix socket that listens.
const ACCEPTS: u32 = 1 << 16;
/// Bytes of `inet_diag_msg`.
const ANSWER: usize = 72;
/// INET_DIAG_SKV6ONLY.
const V6_ONLY: u16 = 11;

/// Protocols over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Sockets that listen.
    Tcp,
    /// Sockets that are bound and not connected.
    Udp,
}

/// Kinds of Unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Stream,
    /// SOCK_DGRAM.
    Datagram,
    /// SOCK_SEQPACKET.
    Packets,
}

/// A socket of IP that takes connections or datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Where; of a socket of IPv6 that takes IPv4 as well, its own address.
    pub address: SocketAddr,
    pub inode: u64,
    /// A socket of IPv6 that takes no IPv4.
    pub v6_only: bool,
}

/// All of them.
///
/// # Errors
/// The kernel does not answer: it has no sock_diag, or a filter forbids it.
pub fn listening(protocol: Protocol) -> io::Result<Vec<Listening>> {
    let netlink = Netlink::open(Family::SockDiag)?;
    let dump = |family: u8| {
        let (protocol, states) = match protocol {
            Protocol::Tcp => (libc::IPPROTO_TCP, LISTEN),
            Protocol::Udp => (libc::IPPROTO_UDP, UNCONNECTED),
        };
        let mut question = vec![family, protocol as u8, 0, 0];
        question.extend(states.to_ne_bytes());
        question.extend([0; 48]); // any address
        netlink.dump(BY_FAMILY, &question)
    };
    let mut found: Vec<Listening> = dump(libc::AF_INET as u8)?.iter().filter_map(|(_, answer)| read(answer)).collect();
    // A kernel may be without IPv6.
    found.extend(dump(libc::AF_INET6 as u8).unwrap_or_default().iter().filter_map(|(_, answer)| read(answer)));
    Ok(found)
}

/// Unix sockets with a path that take connections, or datagrams: the path and the inode of each.
///
/// # Errors
/// `/proc/net/unix` cannot be read.
pub fn listening_at_paths(kind: Kind) -> io::Result<Vec<(String, u64)>> {
    let text = std::fs::read("/proc/net/unix")?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(|line| read_line(line, kind)).collect())
}

/// A line of `/proc/net/unix` of this kind: `ffff.: 00000002 00000000 00010000 0001 01 4711 /run/x.sock`.
fn read_line(line: &str, kind: Kind) -> Option<(String, u64)> {
    let mut cells = line.split_ascii_whitespace().skip(3);
    let flags = u32::from_str_radix(cells.next()?, 16).ok()?;
    let (number, accepts) = match kind {
        Kind::Stream => ("0001", ACCEPTS),
        Kind::Datagram => ("0002", 0),
        Kind::Packets => ("0005", ACCEPTS),
    };
    let is_it = cells.next()? == number && flags & ACCEPTS == accepts;
    let inode = cells.nth(1)?.parse().ok()?;
    let path = line.split_once(" /").map(|(_, path)| format!("/{path}"))?;
    is_it.then_some((path, inode))
}

/// One answer; `None`: it is cut, or of another family.
fn read(answer: &[u8]) -> Option<Listening> {
    let whole = answer.get(..ANSWER)?;
    let port = u16::from_be_bytes([whole[4], whole[5]]);
    let ip: IpAddr = match i32::from(whole[0]) {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(&whole[8..12]).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(&whole[8..24]).ok()?).into(),
        _ => return None,
    };
    let v6_only = attributes(&answer[ANSWER..]).any(|(kind, value)| kind == V6_ONLY && value.first() == Some(&1));
    let inode = u32::from_ne_bytes(whole[68..72].try_into().ok()?).into();
    Some(Listening { address: SocketAddr::new(ip, port), inode, v6_only })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_socket_that_listens_is_found_by_its_inode() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let Ok(all) = listening(Protocol::Tcp) else { return eprintln!("skipped: no sock_diag") };
        let address = socket.local_addr().unwrap();
        let own = all.iter().find(|one| one.address == address).expect("it listens");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        assert_eq!(link.to_str().unwrap(), format!("socket:[{}]", own.inode));
    }

    #[test]
    fn unix_sockets_are_found_by_their_paths() {
        let line = "ffff8f1: 00000002 00000000 00010000 0001 01 4711 /run/x y.sock";
        assert_eq!(read_line(line, Kind::Stream), Some(("/run/x y.sock".into(), 4711)));
        assert_eq!((read_line(line, Kind::Datagram), read_line(line, Kind::Packets)), (None, None));
        let connected = line.replace("00010000", "00000000");
        assert_eq!(read_line(&connected, Kind::Stream), None);
        let datagrams = "ffff8f1: 00000002 00000000 00000000 0002 01 12 /dev/log";
        assert_eq!(read_line(datagrams, Kind::Datagram), Some(("/dev/log".into(), 12)));
        for other in ["Num RefCount Protocol Flags Type St Inode Path", "", "f: 2 0 00010000 0001 01 7 @abstract"] {
            assert_eq!(read_line(other, Kind::Stream), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
