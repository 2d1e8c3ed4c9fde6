//! The terminal on standard output.

use rustix::termios::tcgetwinsize;

/// Columns of the terminal on standard output; `None` where it is none, or does not know.
pub fn columns() -> Option<u16> {
    tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}
