//! Lines that come back: the server, and the client with its trials.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use crate::classic::lines::{Column, Lines, TooLong, Trial, message};
use crate::classic::shown;
use msgpath_core::{Exit, Problem};
use msgpath_sys::{clock, socket};

use super::server::{End, Guest};
use super::{Target, Watch, receive, receive_all, send_all, unclear, watched};

/// The longest line that a server can be told to take, and a client to send, bytes.
pub const MOST_LINE: u64 = 64 << 20;
/// What is read at once, bytes.
const PART: usize = 64 << 10;

/// One connection of the server.
pub(super) fn answer(longest: usize, guest: &Guest<'_>) -> End {
    let mut lines = Lines::default();
    let mut part = vec![0; PART];
    let (mut count, mut bytes) = (0_u64, 0_u64);
    loop {
        loop {
            match lines.next_line(longest) {
                Ok(Some(line)) => {
                    guest.is_within(line.len());
                    if let Err(error) = send_all(&guest.stream, line) {
                        return End::Broken(error);
                    }
                    count += 1;
                    bytes += line.len() as u64;
                    guest.may_idle();
                }
                Ok(None) => break,
                Err(TooLong) => return End::Refused(format!("a line is longer than {longest} bytes")),
            }
        }
        let midway = lines.pending() > 0;
        match receive(&guest.stream, &mut part) {
            Ok(0) if guest.is_over() => return End::Refused("it was ended from here".into()),
            Ok(0) => {
                let rest = match lines.pending() {
                    0 => String::new(),
                    rest => format!(", and {rest} bytes without an end of line, which were not"),
                };
                guest.say(&format!("{count} lines with {bytes} bytes were echoed{rest}"));
                return End::Well;
            }
            Ok(got) => {
                // From its first byte on a line may take so long, however often something of it comes.
                if !midway {
                    guest.is_within(longest);
                }
                lines.push(&part[..got]);
            }
            Err(error) => return End::Broken(error),
        }
    }
}

/// What the client is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where the server is.
    pub target: Target,
    /// Sizes of the message, bytes.
    pub sizes: Vec<usize>,
    /// Trials of each size.
    pub trials: u32,
    /// The size includes the end of the line.
    pub with_newline: bool,
    /// All trials of a size on one connection.
    pub one_connection: bool,
}

/// Sends a line and waits until it is back, so many times for each size.
///
/// # Errors
/// E49: nobody answers there. E50: the server went away, took too long, or sent back something else.
pub fn run(asked: &Asked, stop: &AtomicBool) -> Result<Vec<Column>, Problem> {
    let mut columns = Vec::with_capacity(asked.sizes.len());
    for &size in &asked.sizes {
        let line = message(size, asked.with_newline);
        let mut trials = Vec::with_capacity(asked.trials as usize);
        if asked.one_connection {
            let (stream, connect_ns) = asked.target.connect(stop)?;
            on_connection(asked, &stream, stop, &line, asked.trials, &mut trials)?;
            // Connecting belongs to the first trial alone.
            trials.first_mut().into_iter().for_each(|first: &mut Trial| first.connect_ns = Some(connect_ns));
        } else {
            for _ in 0..asked.trials {
                let (stream, connect_ns) = asked.target.connect(stop)?;
                on_connection(asked, &stream, stop, &line, 1, &mut trials)?;
                trials.last_mut().into_iter().for_each(|last: &mut Trial| last.connect_ns = Some(connect_ns));
            }
        }
        columns.push(Column { size, trials });
    }
    Ok(columns)
}

fn on_connection(
    asked: &Asked,
    stream: &TcpStream,
    stop: &AtomicBool,
    line: &[u8],
    count: u32,
    trials: &mut Vec<Trial>,
) -> Result<(), Problem> {
    let watch = Watch::default();
    watch.expect(asked.target.timeout);
    let broken = |what: &str, error: std::io::Error| asked.target.broken(what, &error, &watch, stop);
    watched(&[stream], &[&watch], stop, Duration::ZERO, || {
        let mut back = vec![0; line.len()];
        let mut sent_again = 0;
        for _ in 0..count {
            if stop.load(Ordering::Relaxed) {
                return Err(Problem::new("E50", Exit::Interrupted, "interrupted between two trials"));
            }
            watch.expect(asked.target.timeout);
            let begun = clock::now();
            exchange(stream, line, &mut back, &watch, asked).map_err(|error| broken("waiting for the echo", error))?;
            let exchange_ns = clock::now() - begun;
            if back != line {
                let at = back.iter().zip(line).position(|(back, sent)| back != sent).unwrap_or(0);
                return Err(unclear(format!(
                    "what came back differs from byte {at} on: \"{}\"",
                    shown(&back[at..back.len().min(at + 40)])
                )));
            }
            let all = socket::tcp_info(stream.as_fd()).ok().map(|info| u64::from(info.total_retrans));
            let retransmitted = all.map(|all| all.saturating_sub(sent_again));
            sent_again = all.unwrap_or(0);
            trials.push(Trial { connect_ns: None, exchange_ns, retransmitted });
        }
        Ok(())
    })
}

/// A long line may come back while it is still being sent: where both sockets are full, a thread sends and another one
/// receives. A short one needs no second thread.
fn exchange(stream: &TcpStream, line: &[u8], back: &mut [u8], watch: &Watch, asked: &Asked) -> std::io::Result<()> {
    const FITS: usize = 64 << 10;
    if line.len() <= FITS {
        send_all(stream, line)?;
        return receive_all(stream, back).map(drop);
    }
    std::thread::scope(|scope| {
        let sender = Builder::new().spawn_scoped(scope, || send_all(stream, line))?;
        let mut done = 0;
        while done < back.len() {
            match receive(stream, &mut back[done..])? {
                0 => return Err(super::closed_after(done, back.len())),
                got => done += got,
            }
            watch.expect(asked.target.timeout);
        }
        sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sending thread failed")))
    })
}
