//! One file per wait.

pub mod block;
pub mod busy_poll;
pub mod epoll;
pub mod futex;
pub mod poll;
pub mod spin;
pub mod uring;

use std::io;

/// What a wait returns when its slice is over.
fn slice_over() -> io::Error {
    io::Error::from(io::ErrorKind::WouldBlock)
}
