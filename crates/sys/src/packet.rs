//! Raw Ethernet by AF_PACKET sockets (packet(7)): interfaces, a filter in the kernel, frames in and out.
//!
//! The sockets of [`open`] are of type SOCK_DGRAM: the kernel writes and removes the Ethernet header. What follows it belongs to this
//! program and begins with [`Head`], because a frame of less than 60 bytes is padded on a real link and a receiver cannot
//! tell the padding from the message.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::sockopt;

use crate::msg::MultiHeader;
use crate::scatter::Scatter;
use crate::{check, check_int};

/// Bytes of [`Head`] in a frame.
pub const HEAD: usize = 8;
/// Every NIC.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// What precedes a message in a frame: to whom it belongs, how long it is, who sent it. Big endian on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Random number of a connection and direction, or of a run: the kernel's filter looks for it.
    pub tag: u32,
    /// Bytes of the message.
    pub length: u16,
    /// Number of the sender, where several send under one tag.
    pub sender: u16,
}

impl Head {
    /// As it stands in the frame.
    pub fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.tag.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.length.to_be_bytes());
        bytes[6..].copy_from_slice(&self.sender.to_be_bytes());
        bytes
    }

    /// Out of a frame.
    pub fn read(bytes: [u8; HEAD]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            tag: u32::from_be_bytes([a, b, c, d]),
            length: u16::from_be_bytes([e, f]),
            sender: u16::from_be_bytes([g, h]),
        }
    }
}

/// A network interface of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: i32,
    pub mac: [u8; 6],
    /// Most bytes behind the Ethernet header.
    pub mtu: u32,
    /// IFF_UP: the administrator has switched it on.
    pub up: bool,
    /// IFF_RUNNING: there is a carrier.
    pub running: bool,
    pub loopback: bool,
    pub multicast: bool,
    /// Whether its frames have an Ethernet header (ARPHRD_ETHER, or loopback).
    pub ethernet: bool,
}

impl Interface {
    /// Looks an interface up (netdevice(7)).
    ///
    /// # Errors
    /// `NotFound` (ENODEV) where there is none of this name; a name longer than 15 bytes is `InvalidInput`.
    pub fn find(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").or_else(|_| std::net::UdpSocket::bind("[::1]:0"));
        let socket: OwnedFd = match socket {
            Ok(socket) => socket.into(),
            // A namespace whose lo is down has no address to bind to: any socket of the family will do.
            Err(_) => unbound()?,
        };
        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        ask(socket.as_fd(), libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled in this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        ask(socket.as_fd(), libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled in this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        ask(socket.as_fd(), libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled in this member.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        ask(socket.as_fd(), libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: SIOCGIFHWADDR has filled in this member.
        let hardware = unsafe { request.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
            *to = from as u8;
        }
        let loopback = flags & libc::IFF_LOOPBACK != 0;
        Ok(Self {
            name: name.into(),
            index,
            mac,
            mtu: mtu.max(0) as u32,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
            loopback,
            multicast: flags & libc::IFF_MULTICAST != 0,
            ethernet: loopback || hardware.sa_family == libc::ARPHRD_ETHER,
        })
    }

    /// The largest message of one frame, bytes.
    pub fn room(&self) -> usize {
        (self.mtu as usize).saturating_sub(HEAD).min(usize::from(u16::MAX))
    }
}

fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check_int(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` was just returned and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ask(socket: BorrowedFd<'_>, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read the name and write one member of the union of a whole ifreq.
    check_int(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, std::ptr::from_mut(request)) })?;
    Ok(())
}

/// Which frames reach a socket; everything else is dropped in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Frames with this tag.
    pub tag: u32,
    /// But not those of this sender: on loopback every socket sees each frame, its own included.
    pub not_from: Option<u16>,
}

// Classic BPF (linux/filter.h): loads are big endian and leave the filter with 0 where the frame is too short.
const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const LOAD_HALF: u16 = 0x28; // BPF_LD | BPF_H | BPF_ABS
const LOAD_LENGTH: u16 = 0x80; // BPF_LD | BPF_W | BPF_LEN
const ADD: u16 = 0x04; // BPF_ALU | BPF_ADD | BPF_K
const TO_X: u16 = 0x07; // BPF_MISC | BPF_TAX
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_ABOVE: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
const IF_AT_LEAST_X: u16 = 0x3d; // BPF_JMP | BPF_JGE | BPF_X
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
/// SKF_AD_OFF + SKF_AD_PKTTYPE: the packet type as [`crate::packet`] numbers it.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
/// PACKET_MULTICAST: above it are frames for other NICs, outgoing copies and the like.
const PACKET_MULTICAST: u32 = 2;
/// PACKET_OUTGOING: what programs of this machine send.
const PACKET_OUTGOING: u32 = 4;

/// The program: a frame for this NIC, with the tag, not from ourselves, at least as long as it claims to be.
fn program(wanted: Wanted) -> Vec<libc::sock_filter> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let own: &[libc::sock_filter] = match wanted.not_from {
        Some(sender) => &[step(LOAD_HALF, 0, 0, 6), step(IF_EQUAL, 6, 0, u32::from(sender))],
        None => &[],
    };
    let skip = own.len() as u8;
    let mut steps = vec![
        step(LOAD_WORD, 0, 0, PACKET_TYPE),
        step(IF_ABOVE, 8 + skip, 0, PACKET_MULTICAST),
        step(LOAD_WORD, 0, 0, 0),
        step(IF_EQUAL, 0, 6 + skip, wanted.tag),
    ];
    steps.extend_from_slice(own);
    steps.extend([
        step(LOAD_HALF, 0, 0, 4),
        step(ADD, 0, 0, HEAD as u32),
        step(TO_X, 0, 0, 0),
        step(LOAD_LENGTH, 0, 0, 0),
        step(IF_AT_LEAST_X, 0, 1, 0),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]);
    steps
}

/// Where frames go: interface, EtherType and MAC address.
#[derive(Clone, Copy)]
pub struct Destination(pub(crate) libc::sockaddr_ll);

// SAFETY: a sockaddr_ll is plain numbers.
unsafe impl Send for Destination {}

impl Destination {
    /// A MAC address behind an interface.
    pub fn new(interface: i32, ethertype: u16, mac: [u8; 6]) -> Self {
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = interface;
        address.sll_halen = 6;
        address.sll_addr[..6].copy_from_slice(&mac);
        Self(address)
    }
}

/// Opens a socket that receives nothing but the wanted frames of one EtherType from one interface. Needs CAP_NET_RAW.
///
/// # Errors
/// `PermissionDenied` without it; as socket(2), setsockopt(2) and bind(2).
pub fn open(interface: i32, ethertype: u16, wanted: Wanted) -> io::Result<OwnedFd> {
    filtered(libc::SOCK_DGRAM, &Destination::new(interface, ethertype, [0; 6]), &mut program(wanted))
}

/// Opens a socket of a kind, attaches the filter and binds it.
fn filtered(kind: libc::c_int, address: &Destination, steps: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    // Protocol 0: nothing arrives before the filter is there.
    // SAFETY: no pointers.
    let fd = check_int(unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` was just returned and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program points to `steps`, which outlives the call; the kernel copies and checks it.
    check_int(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    // SAFETY: the pointer and length describe a sockaddr_ll.
    check_int(unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address.0).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    })?;
    Ok(fd)
}

/// Opens a socket that hears whole frames of one EtherType on one interface, whoever sends them: those that come in, and those
/// that programs of this machine send out there. On loopback, where each of those comes in as well, only that one. `buffer`:
/// bytes that may wait in the kernel. Needs CAP_NET_RAW.
///
/// # Errors
/// As [`open`].
pub fn listen(interface: &Interface, ethertype: u16, buffer: usize) -> io::Result<OwnedFd> {
    // ETH_P_ALL: sockets of one EtherType do not hear what goes out.
    let address = Destination::new(interface.index, libc::ETH_P_ALL as u16, [0; 6]);
    let fd = filtered(libc::SOCK_RAW, &address, &mut listener(ethertype, interface.loopback))?;
    // Who may not go beyond the limit of the machine gets as much as that.
    sockopt::set_socket_recv_buffer_size_force(&fd, buffer)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, buffer))?;
    Ok(fd)
}

/// Frames of an EtherType; without those that go out, where asked for.
fn listener(ethertype: u16, without_outgoing: bool) -> Vec<libc::sock_filter> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = Vec::new();
    if without_outgoing {
        steps.extend([step(LOAD_WORD, 0, 0, PACKET_TYPE), step(IF_EQUAL, 3, 0, PACKET_OUTGOING)]);
    }
    steps.extend([
        step(LOAD_HALF, 0, 0, 12),
        step(IF_EQUAL, 0, 1, u32::from(ethertype)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]);
    steps
}

/// recvfrom(2) of one frame of [`listen`] that is there already, with its Ethernet header: how many bytes of it `buffer` has,
/// and whether it was going out.
///
/// # Errors
/// As the manual page; `WouldBlock` where there is none.
pub fn hear(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut from: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: pointers and lengths describe `buffer`, `from` and `length`, which nobody else touches during the call.
    let got = check(unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut from).cast(),
            &raw mut length,
        )
    })?;
    Ok((got, u32::from(from.sll_pkttype) == PACKET_OUTGOING))
}

/// sendto(2) of one buffer that begins with a [`Head`].
///
/// # Errors
/// As the manual page; `ENOBUFS` where the device's queue is full, EMSGSIZE above its MTU.
#[inline(always)]
pub fn send_to(fd: BorrowedFd<'_>, frame: &[u8], to: &Destination) -> io::Result<usize> {
    // SAFETY: both pointers and lengths describe what is borrowed for the call.
    check(unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const to.0).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
}

/// sendto(2) of a message in one buffer, with its head.
///
/// # Errors
/// As [`send_to`].
#[inline(always)]
pub fn send_whole(fd: BorrowedFd<'_>, message: &Scatter, to: &Destination) -> io::Result<usize> {
    send_to(fd, message.framed_piece(), to)
}

fn header(message: &Scatter, to: &Destination) -> libc::msghdr {
    let vectors = message.framed_vectors();
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = (&raw const to.0).cast_mut().cast();
    header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    header.msg_iov = vectors.as_ptr().cast_mut();
    header.msg_iovlen = vectors.len() as _;
    header
}

/// sendmsg(2) of a message in its pieces, with its head.
///
/// # Errors
/// As [`send_to`].
#[inline(always)]
pub fn sendmsg(fd: BorrowedFd<'_>, message: &Scatter, to: &Destination) -> io::Result<usize> {
    let header = header(message, to);
    // SAFETY: the header points to vectors of memory that `message` owns, and to the address.
    check(unsafe { libc::sendmsg(fd.as_raw_fd(), &header, 0) })
}

/// sendmmsg(2): each message in a frame of its own, in one call. Returns how many were handed over.
///
/// # Errors
/// As [`send_to`], when not even the first was sent.
pub fn sendmmsg(
    fd: BorrowedFd<'_>,
    messages: &[Scatter],
    headers: &mut Vec<MultiHeader>,
    to: &Destination,
) -> io::Result<usize> {
    headers.clear();
    headers.extend(messages.iter().map(|message| MultiHeader::new(header(message, to))));
    // SAFETY: MultiHeader is repr(transparent) over mmsghdr; vectors and address outlive the call.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), headers.len() as libc::c_uint, 0) };
    check(sent as libc::ssize_t)
}

/// recvmsg(2) of one frame: its head, and its message as far as `buffer` has room, without padding. `wait`: until one is
/// there or the receive timeout is over.
///
/// # Errors
/// As the manual page; `InvalidData` for a frame that is shorter than it says, which the filter of [`open`] keeps out.
#[inline(always)]
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], wait: bool) -> io::Result<(Head, usize)> {
    let mut head = [0_u8; HEAD];
    let mut vectors = [
        libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD },
        libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
    ];
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the vectors describe `head` and `buffer`, which nobody else touches during the call.
    let got = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) })?;
    let head = Head::read(head);
    match got.checked_sub(HEAD) {
        Some(room) if room >= usize::from(head.length).min(buffer.len()) => {
            Ok((head, usize::from(head.length).min(buffer.len())))
        }
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Frames that passed the filter and found no room in the socket's buffer, since the last call (PACKET_STATISTICS).
///
/// # Errors
/// As getsockopt(2).
pub fn dropped(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all-zero is a valid tpacket_stats.
    let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `statistics`.
    check_int(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(u64::from(statistics.tp_drops))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: u16 = 0x88b5;

    fn socket(wanted: Wanted) -> Option<(i32, OwnedFd)> {
        let lo = Interface::find("lo").unwrap();
        match open(lo.index, TYPE, wanted) {
            Ok(fd) => Some((lo.index, fd)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("skipped: no CAP_NET_RAW");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn frame(head: Head, body: &[u8]) -> Vec<u8> {
        [head.bytes().as_slice(), body].concat()
    }

    #[test]
    fn a_head_comes_back() {
        let head = Head { tag: 0x0102_0304, length: 0x0506, sender: 7 };
        assert_eq!(head.bytes(), [1, 2, 3, 4, 5, 6, 0, 7]);
        assert_eq!(Head::read(head.bytes()), head);
    }

    #[test]
    fn interfaces_are_found_or_named_missing() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.loopback && lo.index == 1 && lo.mac == [0; 6] && lo.mtu >= 1280, "{lo:?}");
        assert_eq!(Interface::find("nosuch0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        for bad in ["", "a-name-of-16-bytes", "a\0b"] {
            assert_eq!(Interface::find(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad:?}");
        }
    }

    #[test]
    fn only_what_is_wanted_arrives_once_and_without_padding() {
        let tag = 0x7000_0000 | std::process::id();
        let Some((index, far)) = socket(Wanted { tag, not_from: Some(3) }) else { return };
        let near = socket(Wanted { tag: !tag, not_from: None }).unwrap().1;
        let to = Destination::new(index, TYPE, BROADCAST);
        let head = Head { tag, length: 5, sender: 1 };
        send_to(near.as_fd(), &frame(Head { tag: tag ^ 1, ..head }, b"other"), &to).unwrap();
        send_to(near.as_fd(), &frame(Head { sender: 3, ..head }, b"mine!"), &to).unwrap();
        send_to(near.as_fd(), &frame(Head { length: 6, ..head }, b"short"), &to).unwrap();
        send_to(near.as_fd(), &head.bytes()[..3], &to).unwrap();
        send_to(near.as_fd(), &frame(head, b"hello with the padding of a link"), &to).unwrap();
        let mut buffer = [0; 64];
        let (got, length) = receive(far.as_fd(), &mut buffer, false).unwrap();
        assert_eq!((got, &buffer[..length]), (head, b"hello".as_slice()));
        assert_eq!(receive(far.as_fd(), &mut buffer, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(receive(near.as_fd(), &mut buffer, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_listener_hears_whole_frames_of_anybody_once() {
        // An EtherType of its own: nothing else of this machine uses it.
        const OTHER: u16 = 0x88b4;
        let lo = Interface::find("lo").unwrap();
        let listener = match listen(&lo, OTHER, 1 << 16) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return println!("skipped: no CAP_NET_RAW");
            }
            Err(error) => panic!("{error}"),
        };
        let sender = socket(Wanted { tag: 1, not_from: None }).unwrap().1;
        send_to(sender.as_fd(), b"another type", &Destination::new(lo.index, TYPE, BROADCAST)).unwrap();
        send_to(sender.as_fd(), b"hello", &Destination::new(lo.index, OTHER, BROADCAST)).unwrap();
        let mut buffer = [0; 64];
        let (length, outgoing) = hear(listener.as_fd(), &mut buffer).unwrap();
        assert_eq!(
            (&buffer[..6], &buffer[12..length], outgoing),
            ([0xff; 6].as_slice(), b"\x88\xb4hello".as_slice(), false)
        );
        assert_eq!(hear(listener.as_fd(), &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_found_no_room_is_counted() {
        let tag = 0x6000_0000 | std::process::id();
        let Some((index, far)) = socket(Wanted { tag, not_from: None }) else { return };
        let near = socket(Wanted { tag: !tag, not_from: None }).unwrap().1;
        let to = Destination::new(index, TYPE, [0; 6]);
        let frame = frame(Head { tag, length: 1000, sender: 0 }, &[0; 1000]);
        for _ in 0..2000 {
            send_to(near.as_fd(), &frame, &to).unwrap();
        }
        let mut arrived = 0;
        let mut buffer = [0; 1000];
        while receive(far.as_fd(), &mut buffer, false).is_ok() {
            arrived += 1;
        }
        let lost = dropped(far.as_fd()).unwrap();
        assert!(lost > 0 && arrived + lost == 2000, "{arrived} arrived, {lost} dropped");
        assert_eq!(dropped(far.as_fd()).unwrap(), 0, "counted once");
    }

    #[test]
    fn pieces_go_in_one_frame() {
        let tag = 0x5000_0000 | std::process::id();
        let Some((index, far)) = socket(Wanted { tag, not_from: None }) else { return };
        let to = Destination::new(index, TYPE, [0; 6]);
        let head = Head { tag, length: 6, sender: 0 };
        let mut message = Scatter::behind(&[3, 3], 2, &head.bytes());
        message.turn();
        message.piece_mut(0).copy_from_slice(b"abc");
        message.piece_mut(1).copy_from_slice(b"def");
        sendmsg(far.as_fd(), &message, &to).unwrap();
        let mut headers = Vec::new();
        assert_eq!(sendmmsg(far.as_fd(), std::slice::from_ref(&message), &mut headers, &to).unwrap(), 1);
        let mut buffer = [0; 16];
        for _ in 0..2 {
            assert_eq!(receive(far.as_fd(), &mut buffer, false).unwrap(), (head, 6));
            assert_eq!(&buffer[..6], b"abcdef");
        }
        let whole = Scatter::behind(&[4], 1, &Head { length: 4, ..head }.bytes());
        send_whole(far.as_fd(), &whole, &to).unwrap();
        assert_eq!(receive(far.as_fd(), &mut buffer, false).unwrap().1, 4);
    }
}
