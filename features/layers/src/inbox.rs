//! The end that answers requests: what the library's handler gets comes into the loop that measures, and its answer goes back.

use std::io;

use bytes::Bytes;
use msgpath_paths::Layer;
use tokio::sync::{mpsc, oneshot};

use crate::runtime::{Driven, closed};

/// A request that waits for its answer.
pub(crate) struct Call {
    message: Bytes,
    answer: oneshot::Sender<Bytes>,
}

/// Where the handler of a library leaves requests.
#[derive(Clone)]
pub(crate) struct Calls(mpsc::UnboundedSender<io::Result<Call>>);

impl Calls {
    /// Leaves a request and waits for its answer; `None`: nobody answers any more.
    pub(crate) async fn answer(&self, message: Bytes) -> Option<Bytes> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Ok(Call { message, answer })).ok()?;
        answered.await.ok()
    }

    /// Says why no request will come any more.
    pub(crate) fn ended(&self, error: io::Error) {
        let _ = self.0.send(Err(error));
    }
}

/// The end: it lasts until the last [`Calls`] is gone.
pub(crate) struct Answering {
    driven: Driven,
    calls: mpsc::UnboundedReceiver<io::Result<Call>>,
    waiting: Option<oneshot::Sender<Bytes>>,
}

impl Answering {
    /// An end that `serve` serves: it starts what gets its requests.
    pub(crate) fn new(driven: Driven, serve: impl FnOnce(&Driven, Calls) -> io::Result<()>) -> io::Result<Self> {
        let (into, calls) = mpsc::unbounded_channel();
        serve(&driven, Calls(into))?;
        Ok(Self { driven, calls, waiting: None })
    }
}

impl Layer for Answering {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let nobody = || io::Error::new(io::ErrorKind::BrokenPipe, "no request waits for an answer");
        let waiting = self.waiting.take().ok_or_else(nobody)?;
        waiting.send(Bytes::copy_from_slice(message)).map_err(|_| nobody())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let calls = &mut self.calls;
        let Call { message, answer } =
            self.driven.run(async { calls.recv().await.unwrap_or_else(|| Err(closed())) })?;
        self.waiting = Some(answer);
        copy(&message, buffer, 0)
    }

    fn drain(&mut self) {
        let calls = &mut self.calls;
        // What the near end says while it closes is not a request, and no error of the round that is over.
        self.driven.drain(async { while calls.recv().await.is_some() {} });
    }
}

/// Copies a part of a message behind the first `at` bytes; where the next part goes.
pub(crate) fn copy(part: &[u8], buffer: &mut [u8], at: usize) -> io::Result<usize> {
    let (end, room) = (at + part.len(), buffer.len());
    let too_long =
        || io::Error::new(io::ErrorKind::InvalidData, format!("a message of more than {room} bytes arrived"));
    buffer.get_mut(at..end).ok_or_else(too_long)?.copy_from_slice(part);
    Ok(end)
}
