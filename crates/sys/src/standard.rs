//! Standard output and standard error. A message never fails: a program that cannot speak goes on with its work. A result that
//! cannot be written is an error. The macros of the standard library panic in both cases.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a line to standard error, as [`say`] does.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::standard::say(::std::format_args!($($text)*)) };
}

/// Writes `text` and a line feed to standard error, with one system call, so that lines of several processes do not mix. What
/// cannot be written is lost.
pub fn say(text: fmt::Arguments<'_>) {
    draw(&format!("{text}\n"));
}

/// Writes `text` to standard error as it is, with one system call. What cannot be written is lost.
pub fn draw(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Standard output, not buffered: what could not be written is known at once, and not lost at the end of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if OUTPUT_WAS_CLOSED.load(Ordering::Relaxed) {
            return Err(rustix::io::Errno::BADF.into());
        }
        Ok(rustix::io::write(io::stdout().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a result to standard output. A reader that has left (`| head`) has what it wanted.
///
/// # Errors
/// As write(2), and EBADF where standard output was closed when the program started.
pub fn print(text: &[u8]) -> io::Result<()> {
    match Output.write_all(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether the program was started without a standard output (`>&-`).
static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The loader calls this before `main`. The runtime of the standard library opens /dev/null in the place of what is closed of 0, 1
/// and 2, so that no file or socket gets such a number; afterwards nothing tells that a result went nowhere.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_what_is_closed;

extern "C" fn note_what_is_closed() {
    // SAFETY: F_GETFD takes a number, whatever it stands for, and changes nothing.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0 {
        OUTPUT_WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}
