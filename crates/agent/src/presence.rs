//! Whether the control channel of a session still stands. A thread that does nothing else sees its end, whatever the session
//! is doing, and ends every wait of it: flags that the waits look at, and calls that are interrupted.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Builder;
use std::time::Duration;

use msgpath_sys::poll::{is_closed, until_closed};
use msgpath_sys::{affinity, signal};

/// Between two kicks at a session that is to end.
const KICK_EVERY: Duration = Duration::from_millis(10);

/// What the waits of a session look at.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    gone: Arc<AtomicBool>,
    /// The flags of its rounds that are not over.
    rounds: Mutex<Vec<Weak<AtomicBool>>>,
}

impl Presence {
    /// Whether the control channel has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Set when the control channel has ended.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.gone
    }

    /// The flag that gives up one round: set by its own end, or with that of the control channel.
    pub(crate) fn round(&self) -> Arc<AtomicBool> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.retain(|round| round.strong_count() > 0);
        // Under the lock: `end` either finds this flag in the list, or has set `gone` before.
        let round = Arc::new(AtomicBool::new(self.is_gone()));
        rounds.push(Arc::downgrade(&round));
        round
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        let rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.iter().filter_map(Weak::upgrade).for_each(|round| round.store(true, Ordering::Relaxed));
    }
}

/// Does the work of a session while the end of its control channel is watched for.
///
/// # Errors
/// There is no thread or descriptor for the watch; nothing was done.
pub(crate) fn watched<T>(control: BorrowedFd<'_>, work: impl FnOnce(&Presence) -> T) -> io::Result<T> {
    let presence = Presence::default();
    let (over, ends) = io::pipe()?;
    let (done, finished) = channel::<()>();
    let session = affinity::thread_id();
    std::thread::scope(|scope| {
        let (presence, over) = (&presence, &over);
        let watch = move || {
            if until_closed(control, over.as_fd()).unwrap_or(false) {
                presence.end();
                kick_until(session, &finished);
            }
        };
        Builder::new().name("control".into()).spawn_scoped(scope, watch)?;
        let result = work(presence);
        drop((ends, done));
        Ok(result)
    })
}

/// Interrupts the calls of a thread until it says that it is through: it may have been about to begin one.
fn kick_until(thread: i32, finished: &Receiver<()>) {
    loop {
        signal::kick(thread);
        if finished.recv_timeout(KICK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// What a session says. Nothing more goes out once its control channel has ended: a peer that has closed its sending half and
/// reads nothing keeps no session.
pub(crate) struct Says<'a, W> {
    pub(crate) to: W,
    pub(crate) presence: &'a Presence,
}

impl<W: Write> Write for Says<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.presence.is_gone() {
            true => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            false => self.to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether the other end of a connection has closed it.
pub(crate) fn has_closed(connection: impl AsFd) -> bool {
    is_closed(connection.as_fd()).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn closed_control_channel_sets_all_flags_and_interrupts_calls() {
        let (control, other) = UnixStream::pair().unwrap();
        let (mut waiting, _silent) = UnixStream::pair().unwrap();
        let mut rounds = Vec::new();
        let read = watched(control.as_fd(), |presence| {
            rounds.push(presence.round());
            assert!(!presence.is_gone());
            drop(other);
            let read = msgpath_sys::msg::read(waiting.as_fd(), &mut [0]);
            rounds.push(presence.round());
            assert!(presence.is_gone());
            read
        });
        assert_eq!(read.unwrap().unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert!(rounds.iter().all(|round| round.load(Ordering::Relaxed)));
        waiting.write_all(b"still a connection").unwrap();
    }

    #[test]
    fn session_that_ends_by_itself_is_not_waited_for() {
        let (control, _other) = UnixStream::pair().unwrap();
        assert!(!watched(control.as_fd(), |presence| presence.is_gone()).unwrap());
    }
}
