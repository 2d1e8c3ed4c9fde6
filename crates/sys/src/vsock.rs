//! Addresses of vsock(7), which neither the standard library nor rustix has.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check_int;

/// VMADDR_CID_LOCAL: this machine, over the loopback transport.
pub const LOCAL: u32 = 1;
/// VMADDR_PORT_ANY: the kernel chooses.
const ANY: u32 = u32::MAX;

fn address(cid: u32, port: u32) -> libc::sockaddr_vm {
    // SAFETY: all-zero is a valid sockaddr_vm.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    (address.svm_cid, address.svm_port) = (cid, port);
    address
}

const LENGTH: libc::socklen_t = size_of::<libc::sockaddr_vm>() as libc::socklen_t;

/// A stream socket.
///
/// # Errors
/// `EAFNOSUPPORT`: this kernel has no vsock.
pub fn stream() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check_int(unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` was just returned and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to this machine, at a port that the kernel chooses; the port.
///
/// # Errors
/// `EADDRNOTAVAIL`: there is no loopback transport.
pub fn bind_local(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut own = address(LOCAL, ANY);
    // SAFETY: pointer and length describe `own`.
    check_int(unsafe { libc::bind(fd.as_raw_fd(), (&raw const own).cast(), LENGTH) })?;
    let mut length = LENGTH;
    // SAFETY: `own` and `length` are valid to write to, and `length` is the size of `own`.
    check_int(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut own).cast(), &raw mut length) })?;
    Ok(own.svm_port)
}

/// Connects to a port of this machine. Only where [`bind_local`] has worked: without the loopback transport the kernel sends what
/// is for this machine to the hypervisor.
///
/// # Errors
/// As connect(2).
pub fn connect_local(fd: BorrowedFd<'_>, port: u32) -> io::Result<()> {
    let to = address(LOCAL, port);
    // SAFETY: pointer and length describe `to`.
    check_int(unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), LENGTH) }).map(drop)
}
