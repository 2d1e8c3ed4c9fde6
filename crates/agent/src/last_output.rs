//! The last lines that a program says: all that it writes is read, so that it never waits for a reader, and little is kept.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that are kept.
const KEPT: usize = 2 << 10;
/// What a program has said is whole when all that could say more have closed their ends of the pipe. Whoever it leaves behind may hold
/// one for ever.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Heard {
    bytes: VecDeque<u8>,
    over: bool,
}

/// What a program has said last.
#[derive(Clone, Default)]
pub struct LastOutput(Arc<(Mutex<Heard>, Condvar)>);

impl LastOutput {
    /// Reads in a thread until nobody can write any more.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn by(from: impl Read + Send + 'static) -> std::io::Result<Self> {
        let output = Self::default();
        let follows = output.clone();
        std::thread::Builder::new().name("last-output".into()).spawn(move || follows.follow(from))?;
        Ok(output)
    }

    fn follow(&self, mut from: impl Read) {
        let mut buffer = [0; 4 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            self.add(&buffer[..read]);
        }
        self.heard().over = true;
        self.0.1.notify_all();
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: &[u8]) {
        let kept = &mut self.heard().bytes;
        kept.extend(bytes);
        let too_many = kept.len().saturating_sub(KEPT);
        kept.drain(..too_many);
    }

    /// Of a program that has ended: waits until its last words have come through the pipe, at most a second.
    pub fn settle(&self) {
        let _ = self.0.1.wait_timeout_while(self.heard(), PATIENCE, |heard| !heard.over);
    }

    /// The last lines that say something, at most so many, in their order.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let bytes: Vec<u8> = self.heard().bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_of_whatever_is_written() {
        let (read, mut write) = std::io::pipe().unwrap();
        let output = LastOutput::by(read).unwrap();
        // More than a pipe holds, and nobody waits.
        write.write_all(&vec![b'x'; 1 << 20]).unwrap();
        write.write_all(b"\n\nTraceback\r\n  File\xff\nOSError: in use\n\n").unwrap();
        drop(write);
        output.settle();
        assert_eq!(output.heard().bytes.len(), KEPT);
        assert_eq!(output.lines(3), ["Traceback", "File\u{fffd}", "OSError: in use"]);
        assert_eq!(output.lines(1), ["OSError: in use"]);
        assert!(LastOutput::default().lines(2).is_empty());
    }
}
