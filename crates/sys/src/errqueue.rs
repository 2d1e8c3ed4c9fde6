//! The error queue of a socket: zero-copy completions.
//!
//! `struct sock_extended_err { u32 errno; u8 origin, type, code, pad; u32 info; u32 data; }` (linux/errqueue.h). A
//! completion of MSG_ZEROCOPY covers the sends numbered `info..=data` of this socket; the numbers wrap at 2^32.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{check, cmsg};

const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Number of the first send.
    pub first: u32,
    /// Number of the last send.
    pub last: u32,
    /// The kernel copied after all.
    pub copied: bool,
}

impl Completion {
    /// How many sends it answers; right also where the numbers wrapped.
    pub fn count(self) -> u64 {
        u64::from(self.last.wrapping_sub(self.first)) + 1
    }
}

/// Finds a zero-copy completion in control bytes.
pub fn parse(control: &[u8]) -> Option<Completion> {
    cmsg::iter(control).find_map(|message| {
        let is_error = matches!(
            (message.level, message.kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        let data = message.data.get(..16).filter(|_| is_error)?;
        let u32_at = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().expect("four bytes"));
        (data[4] == SO_EE_ORIGIN_ZEROCOPY && u32_at(0) == 0).then(|| Completion {
            first: u32_at(8),
            last: u32_at(12),
            copied: data[6] & SO_EE_CODE_ZEROCOPY_COPIED != 0,
        })
    })
}

/// Reads one message from the error queue without waiting. `Ok(None)`: something else than a zero-copy completion.
///
/// # Errors
/// `WouldBlock` where the queue is empty.
pub fn read(fd: BorrowedFd<'_>) -> io::Result<Option<Completion>> {
    #[repr(C, align(8))]
    struct Space([u8; 128]);
    let mut control = Space([0; 128]);
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to `control` with its length, and to nothing else. MSG_ERRQUEUE never blocks.
    check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE) })?;
    let length = (header.msg_controllen as usize).min(control.0.len());
    Ok(parse(&control.0[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::{SendFlags, send};
    use crate::socket::{IntOption, set};
    use proptest::prelude::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn ranges_count_across_the_wrap() {
        assert_eq!(Completion { first: 3, last: 3, copied: true }.count(), 1);
        assert_eq!(Completion { first: u32::MAX, last: 1, copied: true }.count(), 3);
    }

    #[test]
    fn every_real_send_is_answered_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        if set(near.as_fd(), IntOption::Zerocopy, 1).is_err() {
            println!("skipped: no SO_ZEROCOPY here");
            return;
        }
        let message = vec![5_u8; 10_000];
        for _ in 0..20 {
            let sent = send(near.as_fd(), &message, SendFlags { zerocopy: true, more: false }).unwrap();
            far.read_exact(&mut vec![0; sent]).unwrap();
        }
        let mut answered = 0;
        for _ in 0..1000 {
            match read(near.as_fd()) {
                Ok(Some(completion)) => answered += completion.count(),
                Ok(None) => {}
                Err(_) if answered == 20 => break,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        assert_eq!(answered, 20);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            if let Some(completion) = parse(&bytes) {
                prop_assert!(completion.count() >= 1);
            }
        }
    }
}
