//! The last lines that a program says: all that it writes is read, so that it never waits for a reader, and little is kept.

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are kept.
const KEPT: usize = 2 << 10;
/// Lines that are shown.
const LINES: usize = 5;

/// What a program has said last.
#[derive(Clone, Default)]
pub(super) struct Output(Arc<Mutex<VecDeque<u8>>>);

impl Output {
    /// Reads until nobody can write any more.
    pub(super) fn follow(&self, mut from: PipeReader) {
        let mut buffer = [0; 4 << 10];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                return;
            }
            self.add(&buffer[..read]);
        }
    }

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let too_many = kept.len().saturating_sub(KEPT);
        kept.drain(..too_many);
    }

    /// Its last lines that say something, in one; `None`: it has said nothing.
    pub(super) fn last(&self) -> Option<String> {
        let bytes: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join(" | ");
        (!last.is_empty()).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_of_whatever_is_written() {
        let (output, (read, mut write)) = (Output::default(), std::io::pipe().unwrap());
        let (reads, follows) = (output.clone(), std::thread::spawn(move || Output::default().follow(read)));
        // More than a pipe holds, and nobody waits.
        write.write_all(&vec![b'x'; 1 << 20]).unwrap();
        drop(write);
        follows.join().unwrap();
        assert_eq!(reads.last(), None);
        output.add(&[b'y'; 5000]);
        output.add(b"\n\nTraceback\n  File\xff\nOSError: in use\n\n");
        assert_eq!(output.0.lock().unwrap().len(), KEPT);
        let last = reads.last().unwrap();
        assert!(last.ends_with("Traceback | File\u{fffd} | OSError: in use"), "{last}");
    }
}
