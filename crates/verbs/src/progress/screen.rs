//! The part of a terminal that the block is drawn on. A frame is one write, so that it does not flicker, and a few columns
//! at the right stay free: what a terminal echoes of Ctrl-C fits there, and is cleared with the block.

use std::fmt::Write as _;

use msgpath_sys::standard::draw;

/// Columns that stay free.
const FREE: usize = 4;

/// Standard error.
#[derive(Default)]
pub(super) struct Screen {
    /// Lines of the frame that is seen; the cursor stands at the end of the last.
    lines: usize,
}

impl Screen {
    /// Columns for a frame on a terminal of so many.
    pub(super) fn room(columns: usize) -> usize {
        columns.saturating_sub(FREE).max(20)
    }

    /// Draws `text` in the place of the frame before. Its lines are cut, so that none takes two of the terminal.
    pub(super) fn draw(&mut self, text: &str, columns: usize) {
        let frame = self.frame(text, Self::room(columns));
        draw(&frame);
    }

    /// What is written for it.
    fn frame(&mut self, text: &str, room: usize) -> String {
        let mut out = String::new();
        if self.lines > 1 {
            // Writing to a String cannot fail.
            let _ = write!(out, "\x1b[{}A", self.lines - 1);
        }
        let before = std::mem::take(&mut self.lines);
        for line in text.lines() {
            let cut: String = line.trim_end().chars().take(room).collect();
            out += if self.lines == 0 { "\r" } else { "\r\n" };
            out += &cut;
            out += "\x1b[K";
            self.lines += 1;
        }
        if self.lines == 0 {
            out += "\r";
        }
        if before > self.lines || self.lines == 0 {
            out += "\x1b[J"; // what is left of a longer one
        }
        out
    }
}

impl Drop for Screen {
    /// Nothing of it stays.
    fn drop(&mut self) {
        if self.lines > 0 {
            self.draw("", FREE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_replaces_the_one_before() {
        let mut screen = Screen::default();
        assert_eq!(screen.frame("one\ntwo and more", 5), "\rone\x1b[K\r\ntwo a\x1b[K");
        assert_eq!(screen.frame("three", 9), "\x1b[1A\rthree\x1b[K\x1b[J");
        assert_eq!(screen.frame("", 9), "\r\x1b[J");
        assert_eq!(screen.lines, 0, "nothing is left to be cleared");
    }
}
