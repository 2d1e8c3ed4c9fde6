//! SO_COOKIE: the number by which the kernel, and so a tracing program, knows a socket.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::sockopt;

/// The socket's cookie; never 0, and no other socket of this boot has it. The kernel gives the number at the first call, so
/// that call comes before the round in which events are told apart by it.
///
/// # Errors
/// Not a socket, or a kernel before 4.12.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(sockopt::socket_cookie(fd)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn every_socket_keeps_a_number_of_its_own() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (near, far) = UnixDatagram::pair().unwrap();
        let cookies = [udp.as_fd(), near.as_fd(), far.as_fd()].map(|fd| cookie(fd).unwrap());
        assert!(cookies.iter().all(|cookie| *cookie != 0));
        assert!(cookies[0] != cookies[1] && cookies[1] != cookies[2] && cookies[0] != cookies[2]);
        assert_eq!(cookie(near.as_fd()).unwrap(), cookies[1]);
    }

    #[test]
    fn what_is_no_socket_has_none() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert_eq!(cookie(pipe.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
