//! Receive calls that ask for more than a message: what has come of a connection and was not taken yet.

use std::io;

use msgpath_paths::{Channel, Wait};
use msgpath_sys::clock;

/// A buffer of whole messages, which is full or empty before it is used again: no byte is moved.
pub struct Ahead {
    buffer: Vec<u8>,
    message: usize,
    filled: usize,
    taken: usize,
}

impl Ahead {
    /// For messages of `message` bytes and calls that ask for up to `bytes`; `None` where that is no more than one message.
    pub fn new(message: usize, bytes: usize) -> Option<Self> {
        let messages = bytes / message;
        (messages > 1).then(|| {
            let mut buffer = vec![1; message * messages];
            buffer.fill(0); // touched: no page fault in the loop
            Self { buffer, message, filled: 0, taken: 0 }
        })
    }

    /// Whether a whole message is there.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.filled - self.taken >= self.message
    }

    /// Takes the next message, which is there.
    #[inline(always)]
    pub fn take(&mut self) {
        self.taken += self.message;
    }

    /// The message that was taken last.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.taken - self.message..self.taken]
    }

    /// Receives once, with `call`, which gets the buffer. `left`: messages that are still to come; what follows them is not read.
    ///
    /// # Errors
    /// As `call`; `UnexpectedEof`.
    #[inline(always)]
    pub fn read<C: Channel>(
        &mut self,
        channel: &mut C,
        left: u64,
        call: impl FnOnce(&mut C, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        }
        let room = ((self.buffer.len() - self.taken) / self.message) as u64;
        let until = self.taken + left.min(room) as usize * self.message;
        match call(channel, &mut self.buffer[self.filled..until])? {
            // No text: it would be allocated, and the other end may be done before this one.
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            more => self.filled += more,
        }
        match self.is_ready() {
            true => channel.counts().recv_full += 1,
            false => channel.counts().recv_short += 1,
        }
        Ok(())
    }

    /// Takes the next message, and waits for it.
    ///
    /// # Errors
    /// As the calls of the wait; the connection is dead.
    #[inline(always)]
    pub fn next<C: Channel, W: Wait<C>>(&mut self, channel: &mut C, wait: &mut W, left: u64) -> io::Result<&[u8]> {
        let mut since = None;
        while !self.is_ready() {
            match self.read(channel, left, |channel, buffer| wait.recv(channel, buffer)) {
                Ok(()) => since = None,
                Err(error) => channel.limits().again(error, *since.get_or_insert_with(clock::now))?,
            }
        }
        self.take();
        Ok(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::CallCounts;
    use msgpath_core::plan::ChannelOptions;
    use msgpath_core::schema::Granted;
    use msgpath_paths::Limits;
    use std::time::Duration;

    struct Nowhere {
        counts: CallCounts,
        limits: Limits,
    }

    impl Channel for Nowhere {
        fn counts(&mut self) -> &mut CallCounts {
            &mut self.counts
        }
        fn limits(&self) -> &Limits {
            &self.limits
        }
        fn framed(&self) -> bool {
            false
        }
        fn room(&self) -> Option<u64> {
            None
        }
        fn granted(&self, _: &str, _: &ChannelOptions) -> Vec<Granted> {
            Vec::new()
        }
    }

    /// Gives the bytes 0, 1, 2 ... in parts of these sizes, as far as a call has room; and says what it was asked for.
    struct Parts<'a>(&'a [usize], u8, Vec<usize>);

    impl Wait<Nowhere> for Parts<'_> {
        fn recv(&mut self, _: &mut Nowhere, buffer: &mut [u8]) -> io::Result<usize> {
            self.2.push(buffer.len());
            let Some((part, rest)) = self.0.split_first() else { return Ok(0) };
            self.0 = rest;
            let got = buffer.len().min(*part);
            for byte in &mut buffer[..got] {
                *byte = self.1;
                self.1 = self.1.wrapping_add(1);
            }
            Ok(got)
        }
    }

    fn nowhere() -> Nowhere {
        Nowhere { counts: CallCounts::default(), limits: Limits::new(Duration::from_secs(1), Duration::from_secs(1)) }
    }

    #[test]
    fn messages_come_whole_and_in_order_however_they_are_cut() {
        let (mut channel, mut wait) = (nowhere(), Parts(&[1, 9, 100, 3, 1, 100, 100], 0, Vec::new()));
        let mut ahead = Ahead::new(4, 15).unwrap();
        for message in 0..9_u8 {
            let bytes = ahead.next(&mut channel, &mut wait, 9 - u64::from(message)).unwrap();
            assert_eq!(bytes, [0, 1, 2, 3].map(|byte| 4 * message + byte));
        }
        // Three messages fit; a buffer is full or empty before it is used again; what follows the last message is not read.
        assert_eq!(wait.2, [12, 11, 2, 12, 9, 12, 8]);
        let counts = channel.counts;
        assert_eq!((counts.recv_full, counts.recv_short), (5, 2));
    }

    #[test]
    fn the_end_is_an_error_and_a_call_for_one_message_is_none_of_this() {
        assert!(Ahead::new(4, 7).is_none() && Ahead::new(4, 0).is_none() && Ahead::new(4, 8).is_some());
        let mut ahead = Ahead::new(4, 8).unwrap();
        let error = ahead.next(&mut nowhere(), &mut Parts(&[3], 0, Vec::new()), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
