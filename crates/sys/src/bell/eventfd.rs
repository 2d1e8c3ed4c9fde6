//! Bells of eventfd(2): one descriptor for each direction.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::early;
use crate::poll::{Interest, poll};
use crate::{check_int, msg};

/// The eventfd that an end writes and the one that it reads.
pub struct Eventfds {
    rung: OwnedFd,
    slept_at: OwnedFd,
}

fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check_int(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: `fd` was just returned and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Eventfds {
    pub(super) fn create() -> io::Result<(Self, Vec<OwnedFd>)> {
        let (rung, slept_at) = (eventfd()?, eventfd()?);
        let fds = vec![rung.try_clone()?, slept_at.try_clone()?];
        Ok((Self { rung, slept_at }, fds))
    }

    /// What one end rings, the other sleeps at.
    pub(super) fn attach(slept_at: OwnedFd, rung: OwnedFd) -> Self {
        Self { rung, slept_at }
    }

    pub(super) fn duplicate(&self) -> io::Result<Self> {
        Ok(Self { rung: self.rung.try_clone()?, slept_at: self.slept_at.try_clone()? })
    }

    pub(super) fn ring(&self) -> io::Result<()> {
        msg::write(self.rung.as_fd(), &1_u64.to_ne_bytes()).map(drop)
    }

    pub(super) fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        if let Some(timeout) = timeout {
            match poll(self.slept_at.as_fd(), Interest::Read, timeout.as_millis() as i32) {
                Ok(true) => {}
                other => return early(other.map(drop)),
            }
        }
        early(msg::read(self.slept_at.as_fd(), &mut [0; 8]).map(drop))
    }
}
