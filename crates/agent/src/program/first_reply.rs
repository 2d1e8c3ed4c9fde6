//! One message to a program of others before any is measured: whether it answers as it is expected to, and if not, how it
//! answers instead.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use msgpath_core::program::Framing;
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_paths::{AnyChannel, Limits};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};

use crate::payload::{Difference, Payload};
use crate::wire::ProgramOrder;
use crate::wire::RoundOrder;

/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks whether the round was given up.
const LOOK: Duration = Duration::from_millis(50);
/// After the replies nothing more may come for so long.
const QUIET_MS: i32 = 5;
/// The number of the message: none that is measured has it.
const NUMBER: u64 = 0x6d73_6770_6174_6800;

/// Sends one message over each connection and looks what comes back.
///
/// # Errors
/// How it answers instead.
pub(crate) fn answers(
    order: &RoundOrder,
    program: &ProgramOrder,
    channels: &[AnyChannel],
    limits: &Limits,
) -> Result<(), Unavailable> {
    let request = Payload::of_program(order.pieces, &program.talk, false);
    let reply = Payload::of_program(order.reply_pieces(), &program.talk, true);
    let fds: Vec<_> = channels.iter().filter_map(AnyChannel::socket).collect();
    for (at, fd) in fds.iter().enumerate() {
        let number = NUMBER.wrapping_add(at as u64 * 0x0101_0101);
        exchange(*fd, &request.message(number), &reply, number, limits).map_err(|fault| {
            let before = if at > 0 { format!(" (connection {} of {})", at + 1, fds.len()) } else { String::new() };
            let Unavailable { why, hint } = fault.given(order, program, at);
            Unavailable::new(format!("{why}{before}"), hint)
        })?;
    }
    std::thread::sleep(Duration::from_millis(QUIET_MS as u64));
    fds.iter().try_for_each(|fd| nothing_more(*fd).map_err(|fault| fault.given(order, program, 0)))
}

/// How a program answers instead.
#[derive(Debug)]
enum Fault {
    /// It does not take the message: it waits for somebody to read its reply.
    Full(usize),
    /// So many bytes came, and then none.
    Short(usize),
    /// It closed after so many bytes.
    Closed(usize),
    /// The reply is not the message.
    Different(Difference),
    /// More came than the reply.
    More,
    /// A call failed.
    Io(io::Error),
}

fn exchange(fd: BorrowedFd<'_>, message: &[u8], reply: &Payload, number: u64, limits: &Limits) -> Result<(), Fault> {
    // Other processes do not see the description, and the loops find it as it was.
    msgpath_sys::set_nonblocking(fd, true).map_err(Fault::Io)?;
    let exchanged = without_waiting(fd, message, reply, number, limits);
    msgpath_sys::set_nonblocking(fd, false).map_err(Fault::Io)?;
    exchanged
}

fn without_waiting(
    fd: BorrowedFd<'_>,
    message: &[u8],
    reply: &Payload,
    number: u64,
    limits: &Limits,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let ready = |interest| loop {
        limits.look().map_err(Fault::Io)?;
        let left = PATIENCE.saturating_sub(begun.elapsed());
        match poll(fd, interest, left.min(LOOK).as_millis() as i32) {
            Ok(false) if !left.is_zero() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(Fault::Io),
        }
    };
    let again = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    let mut sent = 0;
    while sent < message.len() {
        if !ready(Interest::Write)? {
            return Err(Fault::Full(sent));
        }
        match msg::send(fd, &message[sent..], SendFlags::default()) {
            Ok(more) => sent += more,
            Err(error) if again(&error) => {}
            Err(_) => return Err(Fault::Closed(0)),
        }
    }
    let (mut bytes, mut came) = (vec![0; reply.len()], 0);
    while came < bytes.len() {
        if !ready(Interest::Read)? {
            return Err(Fault::Short(came));
        }
        match msg::recv_now(fd, &mut bytes[came..]) {
            Ok(0) => return Err(Fault::Closed(came)),
            Ok(more) => came += more,
            Err(error) if again(&error) => {}
            Err(_) => return Err(Fault::Closed(came)),
        }
    }
    reply.compare(&bytes, number).map_err(Fault::Different)
}

/// Whether more has come over one of these connections than the replies that were waited for.
pub(crate) fn more_came(channels: &[AnyChannel]) -> bool {
    channels.iter().filter_map(AnyChannel::socket).any(|fd| matches!(nothing_more(fd), Err(Fault::More)))
}

/// E06: it did. Later replies may have been answers to earlier messages.
pub(crate) fn too_much() -> Problem {
    Problem::new("E06", Exit::Unfinished, "more came back than the replies to what was sent")
        .why("a reply that is longer than was said, or one too many, is taken for the answer to the next message")
        .hint("the whole length of a reply: --reply BYTES")
}

fn nothing_more(fd: BorrowedFd<'_>) -> Result<(), Fault> {
    match msg::recv_now(fd, &mut [0]) {
        Ok(0) => Err(Fault::Closed(usize::MAX)),
        Ok(_) => Err(Fault::More),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(Fault::Io(error)),
    }
}

impl Fault {
    /// What the user reads. `before`: connections that were answered.
    fn given(self, order: &RoundOrder, program: &ProgramOrder, before: usize) -> Unavailable {
        let (sent, reply, seconds) = (order.pieces.total(), order.reply, PATIENCE.as_secs());
        let framing = program.talk.framing;
        let frames = match framing {
            Framing::Bytes => "does it wait for a line, or for a length? -o frame=line, or -o frame=length",
            Framing::Line => "does it wait for bytes, or for a length? -o frame=length, or leave out -o frame",
            Framing::Length => "does it wait for a line, or for bytes? -o frame=line, or leave out -o frame",
        };
        let (why, hint) = match self {
            Fault::Full(taken) => (
                format!("it takes {taken} of the {sent} bytes of a message, and waits for its reply to be read"),
                "a smaller -l: it answers while it reads, and msgpath reads when it has sent the whole message",
            ),
            Fault::Short(0) if before > 0 => (
                format!("it does not answer within {seconds} s while another connection is open"),
                "does it serve one connection at a time? -P 1",
            ),
            Fault::Short(0) => (format!("it does not answer a message of {sent} bytes within {seconds} s"), frames),
            Fault::Short(came) => (
                format!("of a reply of {reply} bytes {came} came, and no more within {seconds} s"),
                "a server that answers with a length of its own: --reply BYTES",
            ),
            Fault::Closed(usize::MAX) => (
                "it closes the connection after one message".into(),
                "a server that keeps the connection: msgpath sends many messages over one",
            ),
            Fault::Closed(came) => {
                (format!("it closes the connection after {came} of {reply} bytes of a reply"), frames)
            }
            Fault::Different(Difference { byte, sent, got, .. }) => (
                format!("its reply is not an echo: byte {byte} was sent as {sent:#04x} and came back as {got:#04x}"),
                "a server whose replies have a length of their own: --reply BYTES",
            ),
            Fault::More => (
                format!("it sends more than the {reply} bytes of a reply"),
                "the whole length of a reply: --reply BYTES",
            ),
            Fault::Io(error) => (format!("a message to it failed: {error}"), ""),
        };
        Unavailable::new(why, hint)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use msgpath_core::program::Talk;
    use msgpath_core::units::Pieces;

    use super::*;

    /// What is told of a server that does this with each of its connections.
    fn given(talk: Talk, reply: u32, serves: fn(&mut UnixStream)) -> Result<(), String> {
        let program = ProgramOrder {
            program: msgpath_core::Program::parse("./server").unwrap(),
            talk: Talk { any_reply: reply != 64, ..talk },
        };
        let order = RoundOrder { reply: reply.into(), ..crate::memory::tests::order("tcp:send") };
        let request = Payload::of_program(Pieces::whole(64), &program.talk, false);
        let answer = Payload::of_program(Pieces::whole(reply), &program.talk, true);
        let (near, mut far) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || {
            serves(&mut far);
            far
        });
        let limits = Limits::new(PATIENCE, PATIENCE);
        let result = exchange(near.as_fd(), &request.message(NUMBER), &answer, NUMBER, &limits).and_then(|()| {
            let _far = served.join().unwrap();
            nothing_more(near.as_fd())
        });
        result.map_err(|fault| fault.given(&order, &program, 0).to_string())
    }

    fn read(stream: &mut UnixStream) -> [u8; 64] {
        let mut bytes = [0; 64];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_echo_passes_whatever_its_pieces() {
        for framing in Framing::ALL {
            let echo = given(Talk { framing, ..Talk::default() }, 64, |stream| {
                let bytes = read(stream);
                stream.write_all(&bytes[..7]).unwrap();
                stream.write_all(&bytes[7..]).unwrap();
            });
            assert_eq!(echo, Ok(()), "{framing:?}");
        }
        let fixed = given(Talk::default(), 5, |stream| {
            read(stream);
            stream.write_all(b"HTTP/").unwrap();
        });
        assert_eq!(fixed, Ok(()));
    }

    #[test]
    fn whatever_else_comes_is_named() {
        let text = |reply, serves| given(Talk::default(), reply, serves).unwrap_err();
        let closes = text(64, |stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
        assert!(closes.contains("closes the connection"), "{closes}");
        let silent = text(64, |stream| {
            read(stream);
        });
        assert!(silent.contains("does not answer") || silent.contains("closes"), "{silent}");
        let short = text(64, |stream| {
            read(stream);
            stream.write_all(b"hello").unwrap();
            std::thread::sleep(PATIENCE + Duration::from_millis(300));
        });
        assert!(short.contains("of a reply of 64 bytes 5 came"), "{short}");
        let upper = text(64, |stream| {
            let mut bytes = read(stream);
            bytes[9] ^= 1;
            stream.write_all(&bytes).unwrap();
        });
        assert!(upper.contains("not an echo: byte 9"), "{upper}");
        let twice = text(64, |stream| {
            let bytes = read(stream);
            stream.write_all(&bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        assert!(twice.contains("more than the 64 bytes"), "{twice}");
        let longer = text(5, |stream| {
            let bytes = read(stream);
            stream.write_all(&bytes).unwrap();
        });
        assert!(longer.contains("more than the 5 bytes"), "{longer}");
    }
}
