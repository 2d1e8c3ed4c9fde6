//! Terminals.

use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// Columns of the terminal behind a descriptor; `None` where it is none, or does not know.
pub fn columns(fd: impl AsFd) -> Option<u16> {
    tcgetwinsize(fd).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}
