//! Which TCP sockets listen in this network namespace: sock_diag(7), filtered by the kernel. The inode of each tells in
//! `/proc/PID/fd` whose it is, and no connection is used up to find it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::netlink::{Family, Netlink, attributes};

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN as a bit of the states that are asked for.
const LISTEN: u32 = 1 << 10;
/// Bytes of `inet_diag_msg`.
const ANSWER: usize = 72;
/// INET_DIAG_SKV6ONLY.
const V6_ONLY: u16 = 11;

/// A TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Where; of a socket of IPv6 that takes IPv4 as well, its own address.
    pub address: SocketAddr,
    /// Its inode.
    pub inode: u64,
    /// A socket of IPv6 that takes no IPv4.
    pub v6_only: bool,
}

/// All of them.
///
/// # Errors
/// The kernel does not answer: it has no sock_diag, or a filter forbids it.
pub fn listening() -> io::Result<Vec<Listening>> {
    let netlink = Netlink::open(Family::SockDiag)?;
    let dump = |family: u8| {
        let mut question = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
        question.extend(LISTEN.to_ne_bytes());
        question.extend([0; 48]); // any address
        netlink.dump(BY_FAMILY, &question)
    };
    let mut found: Vec<Listening> = dump(libc::AF_INET as u8)?.iter().filter_map(|(_, answer)| read(answer)).collect();
    // A kernel may be without IPv6.
    found.extend(dump(libc::AF_INET6 as u8).unwrap_or_default().iter().filter_map(|(_, answer)| read(answer)));
    Ok(found)
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
        let Ok(all) = listening() else { return eprintln!("skipped: no sock_diag") };
        let address = socket.local_addr().unwrap();
        let own = all.iter().find(|one| one.address == address).expect("it listens");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        assert_eq!(link.to_str().unwrap(), format!("socket:[{}]", own.inode));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
