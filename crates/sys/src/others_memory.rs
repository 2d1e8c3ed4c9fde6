//! Memory of another process: process_vm_readv(2), and who may read this one's.

use std::io;

use crate::check;

/// Lets this process, and whom it has started, read and write this one's memory where Yama (kernel.yama.ptrace_scope = 1) would refuse
/// it to all but parents: PR_SET_PTRACER. Where there is no Yama, it need not be let.
pub fn let_in(process: i32) {
    // SAFETY: numbers only. EINVAL without Yama.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, process as libc::c_ulong, 0, 0, 0) };
}

/// Reads from `address` of another process as many bytes as `into` has. They are the other process's to say: what stands there, and
/// whether anything does.
///
/// # Errors
/// `EFAULT`: not all of it is memory there; `EPERM`: it may not be read; `ESRCH`: it has ended.
#[inline(always)]
pub fn read(process: i32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: into.len() };
    // SAFETY: the local vector describes `into`, which nobody else touches during the call; the remote one is the kernel's to check.
    let read = check(unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) })?;
    if read == into.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_stands_there_is_read_and_nothing_else() {
        let own = std::process::id() as i32;
        let there = vec![7_u8; 10_000];
        let mut got = vec![0; 10_000];
        match read(own, there.as_ptr().addr() as u64, &mut got) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return println!("skipped: {error}"),
            result => result.unwrap(),
        }
        assert_eq!(got, there);
        // The first page belongs to nobody.
        assert_eq!(read(own, 8, &mut got).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert!(read(own, u64::MAX, &mut got).is_err());
        assert_eq!(read(i32::MAX, 8, &mut got).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
