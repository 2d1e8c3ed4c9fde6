//! The first bytes of a control channel: `serve` says them as soon as it has taken a connection, and a near end sends
//! nothing before it has read them. So no other server that listens at a port ever reads a byte of ours.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use msgpath_core::foreign::shown_bytes;
use msgpath_core::{Exit, Problem, Target};
use msgpath_sys::poll::{Interest, poll};

use crate::wire::VERSION;

const NAME: &[u8; 7] = b"msgpath";
/// What `serve` says first: its name, and the version of the frames that follow.
pub const GREETING: [u8; 8] = [NAME[0], NAME[1], NAME[2], NAME[3], NAME[4], NAME[5], NAME[6], VERSION];
/// How long a near end waits for it: longer than a busy machine keeps a server from its CPU.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What came from a listener to which nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The greeting, with the version of its frames.
    Greeting(u8),
    /// Something else: its first bytes, as many as the greeting has.
    Other(Vec<u8>),
    /// The end of the stream, or a reset.
    End,
    Silence,
}

impl Heard {
    fn of(bytes: &[u8], otherwise: Self) -> Self {
        match bytes {
            [] => otherwise,
            [name @ .., version] if name == NAME => Heard::Greeting(*version),
            other => Heard::Other(other.to_vec()),
        }
    }
}

/// Listens until as many bytes came as the greeting has, the other side ends, or the time is over.
pub fn listen(stream: &mut (impl Read + AsFd), patience: Duration) -> io::Result<Heard> {
    let deadline = Instant::now() + patience;
    let (mut buffer, mut had) = ([0; GREETING.len()], 0);
    while had < buffer.len() {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        match poll(stream.as_fd(), Interest::Read, i32::try_from(left).unwrap_or(i32::MAX)) {
            Ok(true) => {}
            Ok(false) => return Ok(Heard::of(&buffer[..had], Heard::Silence)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match stream.read(&mut buffer[had..]) {
            Ok(0) => break,
            Ok(count) => had += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Heard::of(&buffer[..had], Heard::End))
}

/// Waits for the greeting of the `serve` at `target`. Nothing was sent to it yet, and nothing will be where it fails.
///
/// # Errors
/// E03: something else listens there, or another version.
pub fn expect(stream: &mut (impl Read + AsFd), target: &Target) -> Result<(), Problem> {
    let problem = |what: String| Problem::new("E03", Exit::CannotStart, what);
    let heard = listen(stream, PATIENCE)
        .map_err(|error| Problem::new("E17", Exit::Unfinished, "the far end vanished").why(error.to_string()))?;
    let why = match heard {
        Heard::Greeting(VERSION) => return Ok(()),
        Heard::Greeting(other) => {
            return Err(problem(format!(
                "the msgpath serve at {target} speaks version {other} of the protocol, this is {VERSION}"
            ))
            .hint("the same version of msgpath at both ends"));
        }
        Heard::Other(bytes) => format!("it began with \"{}\"", shown_bytes(&bytes, 64)),
        Heard::End => "it closed the connection without a word".into(),
        Heard::Silence => format!("it said nothing for {} s", PATIENCE.as_secs()),
    };
    let problem = problem(format!("something listens at {target}, but it is not msgpath serve"))
        .why(format!("{why}; msgpath sent it nothing"));
    // Only a server that is reached over TCP can be asked who it is.
    Err(match target {
        Target::Host { .. } => problem.hint(format!("msgpath doctor {target}   says who answers there")),
        _ => problem,
    })
}

/// The abstract socket name of a `serve` under a name.
pub fn service_name(name: &str) -> String {
    format!("msgpath-serve-{name}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn text(bytes: &[u8], ends: bool) -> (Heard, UnixStream) {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_all(bytes).unwrap();
        if ends {
            far.shutdown(std::net::Shutdown::Write).unwrap();
        }
        (listen(&mut near, Duration::from_millis(5)).unwrap(), far)
    }

    #[test]
    fn the_greeting_is_told_from_everything_else() {
        assert_eq!(text(&GREETING, false).0, Heard::Greeting(VERSION));
        assert_eq!(text(b"msgpath\xff and more", true).0, Heard::Greeting(255));
        assert_eq!(text(b"SSH-2.0-OpenSSH", false).0, Heard::Other(b"SSH-2.0-".to_vec()));
        assert_eq!(text(b"msgpath", true).0, Heard::Other(b"msgpath".to_vec()), "no version came");
        assert_eq!(text(b"", true).0, Heard::End);
        assert_eq!(text(b"", false).0, Heard::Silence);
    }

    #[test]
    fn nothing_is_sent_to_who_does_not_greet() {
        for (bytes, why) in [(&b"220 smtp"[..], "\"220 smtp\""), (b"\x1b[2J", "\\u{1b}[2J"), (b"", "without a word")] {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            far.write_all(bytes).unwrap();
            far.shutdown(std::net::Shutdown::Write).unwrap();
            let problem = expect(&mut near, &"10.0.0.2:80".parse().unwrap()).unwrap_err();
            assert!(problem.what.contains("not msgpath serve") && problem.why.contains(why), "{problem:?}");
            assert_eq!(problem.hint, "msgpath doctor 10.0.0.2:80   says who answers there");
            drop(near);
            let mut read = Vec::new();
            far.read_to_end(&mut read).unwrap();
            assert!(read.is_empty(), "{read:?}");
        }
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"msgpath\xfe").unwrap();
        let problem = expect(&mut near, &"unix:/a".parse().unwrap()).unwrap_err();
        assert!(problem.what.contains("version 254"), "{problem:?}");
    }
}
