//! What a launcher writes to its standard error: the last of it, for whoever is to be told why there is no agent.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are kept.
const MOST: usize = 2 << 10;

/// The end of a text that another thread reads.
#[derive(Clone, Default)]
pub(crate) struct Errors(Arc<Mutex<VecDeque<u8>>>);

impl Errors {
    /// Reads until whoever writes has ended.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn of(mut from: impl Read + Send + 'static) -> std::io::Result<Self> {
        let errors = Self::default();
        let kept = errors.clone();
        std::thread::Builder::new().name("errors".into()).spawn(move || {
            let mut buffer = [0; 512];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                kept.keep(&buffer[..read]);
            }
        })?;
        Ok(errors)
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(MOST);
        kept.drain(..over);
    }

    /// The last lines, the last one first: that is where a program says why it ends.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept.iter().copied().collect::<Vec<u8>>()).into_owned();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
        lines.take(2).collect::<Vec<_>>().join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let errors = Errors::default();
        errors.keep(&[b'x'; 2 * MOST]);
        errors.keep(b"\nWarning: added\r\n\nPermission denied\n");
        assert_eq!(errors.text(), "Permission denied | Warning: added");
        assert_eq!(errors.0.lock().unwrap().len(), MOST);
        assert_eq!(Errors::default().text(), "");
    }
}
