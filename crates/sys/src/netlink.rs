//! Questions to the kernel over netlink(7): one message out, the answers back. The messages themselves are bytes here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with, sockopt,
};

const HEADER: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Most answers that are kept; a dump that has more is cut.
const MOST: usize = 10_000;

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// NETLINK_ROUTE: routes, devices, queueing disciplines.
    Route,
    /// NETLINK_NETFILTER: needs CAP_NET_ADMIN.
    Netfilter,
    /// NETLINK_SOCK_DIAG: sockets.
    SockDiag,
}

/// One answer: its message type and what follows the header.
pub type Answer = (u16, Vec<u8>);

pub struct Netlink {
    fd: OwnedFd,
}

impl Netlink {
    /// Opens it. An answer that does not come within a second is an error.
    ///
    /// # Errors
    /// As socket(2): no such family in this kernel, a seccomp filter.
    pub fn open(family: Family) -> io::Result<Self> {
        let protocol = match family {
            Family::Route => None, // NETLINK_ROUTE is 0
            Family::Netfilter => Some(netlink::NETFILTER),
            Family::SockDiag => Some(netlink::SOCK_DIAG),
        };
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Self { fd })
    }

    /// Asks about one thing. `body` is what follows the header: the fixed part and the attributes.
    ///
    /// # Errors
    /// What the kernel answers: `ENODEV`, `ENETUNREACH`, `EPERM`.
    pub fn get(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
        self.ask(kind, NLM_F_REQUEST | NLM_F_ACK, body)
    }

    /// Makes something that is not there yet.
    ///
    /// # Errors
    /// As [`Netlink::get`]; `EEXIST`.
    pub fn create(&self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.ask(kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, body).map(drop)
    }

    /// Asks for all there is.
    ///
    /// # Errors
    /// As [`Netlink::get`].
    pub fn dump(&self, kind: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
        self.ask(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
    }

    fn ask(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Answer>> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]); // sequence and port: one question at a time on a socket of its own
        message.extend_from_slice(body);
        send(self.fd.as_fd(), &message, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            let (length, _) = recv(self.fd.as_fd(), &mut buffer[..], RecvFlags::empty())?;
            if length == 0 || split(&buffer[..length], &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Adds the messages of one datagram; true when the answer is whole.
fn split(mut bytes: &[u8], answers: &mut Vec<Answer>) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "a cut netlink message");
    while bytes.len() >= HEADER {
        let length = u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
        let kind = u16::from_ne_bytes(bytes[4..6].try_into().expect("two bytes"));
        let body = bytes.get(HEADER..length).ok_or_else(cut)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = i32::from_ne_bytes(body.get(..4).ok_or_else(cut)?.try_into().expect("four bytes"));
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) };
            }
            _ if answers.len() >= MOST => return Ok(true),
            _ => answers.push((kind, body.to_vec())),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Adds an attribute to a message body.
pub fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes in these bytes, without the nesting and byte-order bits of their types. Ends at the first that does
/// not fit.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_come_back_as_they_were_written() {
        let mut body = Vec::new();
        push_attribute(&mut body, 3, b"eth0\0");
        push_attribute(&mut body, 4 | 0x8000, &7_u32.to_ne_bytes());
        let read: Vec<_> = attributes(&body).collect();
        assert_eq!(read, [(3, &b"eth0\0"[..]), (4, &7_u32.to_ne_bytes()[..])]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            assert!(attributes(&bytes).count() <= bytes.len() / 4);
            let mut answers = Vec::new();
            let _ = split(&bytes, &mut answers);
        }
    }

    #[test]
    fn the_kernel_answers_about_its_devices() {
        let Ok(netlink) = Netlink::open(Family::Route) else { return };
        let mut all = netlink.dump(18, &[0; 16]).unwrap(); // RTM_GETLINK
        all.retain(|(_, body)| attributes(&body[16..]).any(|(kind, name)| kind == 3 && name == b"lo\0"));
        assert_eq!(all.len(), 1, "one device is called lo");
        let mut nothing = vec![0; 16];
        nothing[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        assert!(netlink.get(18, &nothing).is_err());
    }
}
