//! TLS records that the kernel makes and opens (TCP_ULP "tls"), with keys that everybody knows.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check_int;

// linux/tls.h and linux/tcp.h; the version is that of TLS 1.2.
const VERSION: u16 = 0x0303;

/// Encrypts what is sent on a connected TCP socket from now on, and opens what comes. The keys are the same for everybody and both
/// directions: nothing is protected by them.
///
/// # Errors
/// `ENOENT`: not in this kernel; `ENOTCONN`; what the kernel grants is another cipher.
pub fn begin(fd: BorrowedFd<'_>) -> io::Result<()> {
    let name = b"tls";
    // SAFETY: the pointer and length describe `name`.
    check_int(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_ULP,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    })?;
    // SAFETY: all-zero is a valid tls12_crypto_info_aes_gcm_128.
    let mut keys: libc::tls12_crypto_info_aes_gcm_128 = unsafe { std::mem::zeroed() };
    (keys.info.version, keys.info.cipher_type) = (VERSION, libc::TLS_CIPHER_AES_GCM_128);
    (keys.key, keys.iv, keys.salt) = ([1; _], [2; _], [3; _]);
    let length = size_of_val(&keys) as libc::socklen_t;
    for direction in [libc::TLS_TX, libc::TLS_RX] {
        // SAFETY: the pointer and length describe `keys`.
        check_int(unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_TLS, direction, (&raw const keys).cast(), length)
        })?;
    }
    let granted = crate::socket::option(fd, libc::SOL_TLS, libc::TLS_TX)?.to_ne_bytes();
    let asked = [VERSION.to_ne_bytes(), libc::TLS_CIPHER_AES_GCM_128.to_ne_bytes()];
    match granted == asked.as_flattened() {
        true => Ok(()),
        false => Err(io::Error::other("the kernel grants another cipher than was asked for")),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_is_sent_is_opened_or_the_kernel_says_that_it_has_no_such_thing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        match begin(near.as_fd()) {
            Ok(()) => begin(far.as_fd()).unwrap(),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
                return println!("skipped: {error}");
            }
        }
        near.write_all(b"in records").unwrap();
        let mut got = [0; 10];
        far.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"in records");
    }
}
