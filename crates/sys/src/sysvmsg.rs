//! Message queues of System V: msgget(2), msgsnd(2), msgrcv(2). No descriptor stands for one, and the kernel keeps it until it is removed.

use std::io;

use crate::scatter::Scatter;
use crate::{check, check_int};

/// Bytes before a message: its type.
pub const HEAD: usize = size_of::<libc::c_long>();

/// A message is one of the first type; one of the second says that no more come.
const MESSAGE: libc::c_long = 1;
static END: libc::c_long = 2;

/// What stands before each message that is sent.
pub fn head() -> [u8; HEAD] {
    MESSAGE.to_ne_bytes()
}

/// A queue, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(libc::c_int);

impl Queue {
    /// A new one, for this user only.
    ///
    /// # Errors
    /// `ENOSPC`: kernel.msgmni; `ENOSYS`: not in this kernel.
    pub fn create() -> io::Result<Self> {
        // SAFETY: no pointers.
        check_int(unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600) }).map(Self)
    }

    /// That of another process, by its number: one of the same user, who could use it without this as well.
    pub fn of(number: i32) -> Self {
        Self(number)
    }

    pub fn number(self) -> i32 {
        self.0
    }

    /// Removes it, and what is in it. Whoever waits at it is woken. One that is gone stays so.
    pub fn remove(self) {
        // SAFETY: no pointers. Numbers are not used again soon (msgget(2)).
        unsafe { libc::msgctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }

    /// Bytes of messages that it holds at most.
    ///
    /// # Errors
    /// It is gone.
    pub fn room(self) -> io::Result<u64> {
        // SAFETY: all-zero is a valid msqid_ds.
        let mut state: libc::msqid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: `state` is valid to write to.
        check_int(unsafe { libc::msgctl(self.0, libc::IPC_STAT, &raw mut state) })?;
        Ok(state.msg_qbytes as u64)
    }

    /// Sends a message of one buffer with [`head`] before it; waits for room.
    ///
    /// # Errors
    /// `BrokenPipe`: the queue is gone; `Interrupted`.
    #[inline(always)]
    pub fn send(self, message: &Scatter) -> io::Result<()> {
        let bytes = message.framed_piece();
        // SAFETY: the buffer is a type and as many bytes as are named.
        check_int(unsafe { libc::msgsnd(self.0, bytes.as_ptr().cast(), bytes.len() - HEAD, 0) })
            .map(drop)
            .map_err(|error| if is_gone(&error) { io::ErrorKind::BrokenPipe.into() } else { error })
    }

    /// Says that no more messages come, as far as there is room to say so.
    pub fn end(self) {
        // SAFETY: the buffer is a type and no bytes.
        unsafe { libc::msgsnd(self.0, (&raw const END).cast(), 0, libc::IPC_NOWAIT) };
    }

    /// Receives a message into `bytes` behind its first [`HEAD`] bytes. 0: no more come, or the queue is gone.
    ///
    /// # Errors
    /// `E2BIG`: it has more bytes than there is room; `WouldBlock`: none is there and it is not waited for; `Interrupted`.
    #[inline(always)]
    pub fn receive(self, bytes: &mut [u8], wait: bool) -> io::Result<usize> {
        assert!(bytes.len() >= HEAD, "room for the type");
        let flags = if wait { 0 } else { libc::IPC_NOWAIT };
        // SAFETY: the buffer has room for a type and as many bytes as are named.
        let got = check(unsafe { libc::msgrcv(self.0, bytes.as_mut_ptr().cast(), bytes.len() - HEAD, 0, flags) });
        got.or_else(|error| match error.raw_os_error() {
            _ if is_gone(&error) => Ok(0),
            Some(libc::ENOMSG) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(error),
        })
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIDRM | libc::EINVAL))
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::print_stdout)]
mod tests {
    use super::*;

    fn queue() -> Option<Queue> {
        Queue::create().inspect_err(|error| println!("skipped: {error}")).ok()
    }

    #[test]
    fn messages_keep_their_borders_and_the_end_comes_last() {
        let Some(queue) = queue() else { return };
        let mut inbox = [0; HEAD + 64];
        assert_eq!(queue.receive(&mut inbox, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for size in [1, 64] {
            let mut message = Scatter::behind(&[size], 1, &head());
            message.piece_mut(0).fill(size as u8);
            queue.send(&message).unwrap();
        }
        queue.end();
        for size in [1, 64] {
            assert_eq!(queue.receive(&mut inbox, true).unwrap(), size);
            assert!(inbox[HEAD..][..size].iter().all(|byte| *byte == size as u8));
        }
        assert_eq!(queue.receive(&mut inbox, true).unwrap(), 0);
        queue.send(&Scatter::behind(&[65], 1, &head())).unwrap();
        assert!(queue.receive(&mut inbox, true).is_err(), "a message that is too long is not cut");
        assert!(queue.room().unwrap() >= 65);
        queue.remove();
        assert_eq!(queue.receive(&mut inbox, true).unwrap(), 0);
        let gone = queue.send(&Scatter::behind(&[1], 1, &head())).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn whoever_waits_is_woken_when_it_is_removed() {
        let Some(queue) = queue() else { return };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || queue.receive(&mut [0; HEAD + 8], true));
            std::thread::sleep(std::time::Duration::from_millis(5));
            queue.remove();
            assert_eq!(waiting.join().unwrap().unwrap(), 0);
        });
    }
}
