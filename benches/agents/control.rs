//! A control channel on which frames and bytes are counted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use msgpath_agent::seal::SEAL;

/// Bytes of a frame before what it says, where the lengths of its two parts stand (`agent::wire`).
const HEADER: usize = 16;
const LENGTHS: [std::ops::Range<usize>; 2] = [4..8, 8..12];

/// What went over the control channels of all agents, both ways.
#[derive(Default)]
pub(super) struct Counted {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Counted {
    /// Frames and bytes so far.
    pub(super) fn now(&self) -> [u64; 2] {
        [&self.frames, &self.bytes].map(|count| count.load(Ordering::Relaxed))
    }
}

/// One way of a channel.
pub(super) struct Control {
    stream: TcpStream,
    head: Vec<u8>,
    /// Bytes of the frame that are still to come.
    left: usize,
    counted: Arc<Counted>,
}

impl Control {
    pub(super) fn new(stream: TcpStream, counted: &Arc<Counted>) -> Self {
        Self { stream, head: Vec::with_capacity(HEADER), left: 0, counted: Arc::clone(counted) }
    }

    /// The connection, for whoever is to end it.
    pub(super) fn stream(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    fn saw(&mut self, mut bytes: &[u8]) {
        self.counted.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - skipped, &bytes[skipped..]);
            let taken = bytes.len().min(HEADER - self.head.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.head.len() == HEADER {
                let length = |at: std::ops::Range<usize>| u32::from_le_bytes(self.head[at].try_into().expect("four"));
                self.left = LENGTHS.map(length).iter().sum::<u32>() as usize + SEAL;
                self.head.clear();
                self.counted.frames.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Read for Control {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let got = self.stream.read(bytes)?;
        self.saw(&bytes[..got]);
        Ok(got)
    }
}

impl Write for Control {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let put = self.stream.write(bytes)?;
        self.saw(&bytes[..put]);
        Ok(put)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
