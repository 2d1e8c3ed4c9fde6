//! The control channel of a session, as the end that is told what to do has it.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use msgpath_sys::poll::{Interest, poll};

use super::Terms;
use super::lease::Lease;
use super::round::Started;
use crate::memory::{Budget, Share};
use crate::presence::Presence;
use crate::wire::{Incoming, ToEnd};

/// Between two looks at it while something else is waited for.
pub(super) const SHORT_LOOK: Duration = Duration::from_millis(20);
/// Bytes of a frame whose memory counts, and how much more it takes once it is read.
const LARGE_FRAME: u64 = 64 << 10;
const READ_FRAME: u64 = 5;

/// The control channel, read without ever waiting for the rest of a frame.
pub(super) struct Control<'a, F> {
    pub(super) from: &'a mut F,
    pub(super) incoming: Incoming,
    pub(super) lease: &'a Lease,
    pub(super) presence: &'a Presence,
    pub(super) budget: Option<&'a Arc<Budget>>,
    /// The memory of a large frame, until the next one comes.
    pub(super) frame: Option<Share>,
}

/// What came over it.
pub(super) enum Heard {
    Message(ToEnd),
    Nothing,
    /// The near end has closed it.
    End,
}

impl<F: Read + AsFd> Control<'_, F> {
    /// Listens for so long at most.
    pub(super) fn hear(&mut self, wait: Duration) -> io::Result<Heard> {
        match poll(self.from.as_fd(), Interest::Read, wait.as_millis() as i32) {
            Ok(true) => {}
            Ok(false) => return self.nothing(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.nothing(),
            Err(error) => return Err(error),
        }
        if self.incoming.is_empty() {
            self.frame = None;
        }
        match self.incoming.fill(self.from) {
            Ok(0) if self.incoming.is_empty() => return Ok(Heard::End),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let announced = self.incoming.announced() as u64;
        if let Some(budget) = self.budget.filter(|_| announced > LARGE_FRAME && self.frame.is_none()) {
            let taken = budget.take(announced.saturating_mul(READ_FRAME));
            self.frame = Some(taken.map_err(|reason| io::Error::new(io::ErrorKind::OutOfMemory, reason.why))?);
        }
        match self.incoming.take()? {
            Some((message, _)) => {
                self.lease.renew();
                Ok(Heard::Message(message))
            }
            None => self.nothing(),
        }
    }

    fn nothing(&self) -> io::Result<Heard> {
        match self.lease.is_over() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "the near end was silent for too long")),
            false => Ok(Heard::Nothing),
        }
    }

    /// Waits for the threads of a round. They end early when the near end goes, and when the round takes too long.
    pub(super) fn wait_for(&mut self, started: &mut Started, terms: &Terms) -> io::Result<()> {
        while !started.team.wait(SHORT_LOOK) {
            started.looks.look();
            match self.hear(Duration::ZERO)? {
                Heard::Nothing | Heard::Message(ToEnd::Alive) => {}
                Heard::Message(_) | Heard::End => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
            if started.is_too_long(terms) {
                started.team.abort();
            }
        }
        Ok(())
    }
}
