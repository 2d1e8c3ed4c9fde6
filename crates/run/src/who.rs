//! Who answers at a port, asked so that no server is harmed (docs/who-answers.md has the order and its reasons).
//!
//! 1. Listen: `serve` greets, and so do SSH, SMTP and many others. Nothing is sent.
//! 2. One short line, [`LINE`]: Redis, HTTP and an echo each answer it in a way of their own. It is shorter than a marker
//!    of the RPC lab, whose server4 ends at a marker that is none but not at a part of one.
//! 3. The end of what we send: a server that attends to us closes now. One that is busy with another client does not.
//! 4. Only to a server that closed: the pings of features, each on a fresh connection. A busy server4 would answer the lab's to a
//!    connection that is gone, and end of the reset.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use msgpath_core::Problem;
use msgpath_core::foreign::shown_bytes;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::plugged::Plugged;
use msgpath_sys::poll::{Interest, poll};

use crate::launch::connect;
use msgpath_agent::greeting::{self, Heard};

/// A line that is a command of Redis, no request of HTTP, and what an echo sends back.
const LINE: &[u8] = b"PING\r\n";
/// How long each step waits.
const STEP: Duration = Duration::from_millis(300);
/// How long the answer to a ping is waited for: its connection must not be closed before the answer was read.
const PING: Duration = Duration::from_secs(2);
/// Bytes of an answer that are looked at.
const LOOKED_AT: usize = 256;

/// Who answers at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Msgpath,
    /// What this says: it answered a ping of a feature.
    Pinged(&'static str),
    /// Something that speaks HTTP.
    Http,
    /// Redis, or something that speaks as it does.
    Redis,
    /// Something that sends back what it gets.
    Echo,
    /// Something that says this, its first bytes.
    Other(String),
    /// Something that closes the connection at once, or after a line.
    Closes,
    /// Something that takes a connection and says nothing.
    Silent,
}

/// What a feature makes of servers of others.
pub struct Measures {
    /// The command that measures what was found at a host and a port, but for `msgpath`; `None`: it has none.
    pub verb: fn(&Who, &str, u16) -> Option<String>,
    /// What is asked of a server that attends to us and says nothing.
    pub ping: Option<Ping>,
}

/// A question that only one kind of server answers.
pub struct Ping {
    /// Who answers it.
    pub who: &'static str,
    pub message: fn() -> Vec<u8>,
    /// Whether this begins an answer.
    pub answered: fn(&[u8]) -> bool,
}

static MEASURES: Plugged<Measures> = Plugged::new();

/// Makes known what a feature measures.
pub fn add(measures: &'static Measures) {
    MEASURES.add(measures);
}

impl Who {
    /// The command that measures what is found there: empty where there is none.
    pub fn verb(&self, host: &str, port: u16) -> String {
        let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let own = (*self == Who::Msgpath).then(|| format!("echo {place}"));
        let verb = own.or_else(|| MEASURES.all().find_map(|one| (one.verb)(self, host, port)));
        verb.map_or_else(String::new, |verb| format!("msgpath {verb}"))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Msgpath => f.write_str("msgpath serve"),
            Who::Pinged(who) => write!(f, "{who}: it answered a ping"),
            Who::Http => f.write_str("an HTTP server"),
            Who::Redis => f.write_str("Redis, or a server that speaks as it does"),
            Who::Echo => f.write_str("an echo server"),
            Who::Other(heard) => write!(f, "a server that says \"{heard}\""),
            Who::Closes => f.write_str("something that closes the connection"),
            Who::Silent => f.write_str(
                "something that says nothing: a server that is busy with another client, or one that waits for more",
            ),
        }
    }
}

/// Asks who listens at a port. Takes at most 3 s after the connection is made.
///
/// # Errors
/// E01: nobody listens.
pub fn who(host: &str, port: u16, options: &ChannelOptions) -> Result<Who, Problem> {
    let mut stream = connect(host, port, options)?.0;
    let Ok(found) = by_line(&mut stream) else { return Ok(Who::Closes) };
    let attends = match found {
        Some(found) => return Ok(found),
        None => stream.shutdown(Shutdown::Write).and_then(|()| hear(&mut stream, STEP)),
    };
    drop(stream);
    match attends {
        // Some answer only when they know that nothing follows.
        Ok((heard, _)) if !heard.is_empty() => Ok(by_words(&heard)),
        Ok((_, true)) => {
            let answers = |ping: &Ping| {
                connect(host, port, options).is_ok_and(|(mut stream, _)| ping.is_answered(&mut stream).unwrap_or(false))
            };
            let mut pings = MEASURES.all().filter_map(|one| one.ping.as_ref());
            Ok(pings.find(|ping| answers(ping)).map_or(Who::Silent, |ping| Who::Pinged(ping.who)))
        }
        _ => Ok(Who::Silent),
    }
}

/// What is said without being asked, or about a line. `None`: nothing, and the connection stands.
fn by_line(stream: &mut TcpStream) -> io::Result<Option<Who>> {
    match greeting::listen(stream, STEP)? {
        Heard::Greeting(_) => return Ok(Some(Who::Msgpath)),
        Heard::Other(mut heard) => {
            heard.extend(hear(stream, Duration::from_millis(50))?.0);
            return Ok(Some(by_words(&heard)));
        }
        Heard::End => return Ok(Some(Who::Closes)),
        Heard::Silence => {}
    }
    stream.write_all(LINE)?;
    let (heard, ended) = hear(stream, STEP)?;
    Ok(match (heard.is_empty(), ended) {
        (false, _) => Some(by_words(&heard)),
        (true, true) => Some(Who::Closes),
        (true, false) => None,
    })
}

/// Reads until the other side ends, the time is over, or enough was said; and whether it ended.
fn hear(stream: &mut (impl Read + AsFd), patience: Duration) -> io::Result<(Vec<u8>, bool)> {
    let deadline = Instant::now() + patience;
    let (mut heard, mut buffer) = (Vec::new(), [0; LOOKED_AT]);
    while heard.len() < LOOKED_AT {
        let left = deadline.saturating_duration_since(Instant::now());
        if !poll(stream.as_fd(), Interest::Read, i32::try_from(left.as_millis()).unwrap_or(i32::MAX))? {
            return Ok((heard, false));
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok((heard, true)),
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok((heard, true)),
            Err(error) => return Err(error),
        }
    }
    Ok((heard, false))
}

/// Who says so.
fn by_words(heard: &[u8]) -> Who {
    let text = String::from_utf8_lossy(heard).to_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if heard.starts_with(&greeting::GREETING[..7]) {
        Who::Msgpath
    } else if heard == LINE {
        Who::Echo
    } else if begins(&["+pong", "-err", "-noauth", "-denied", "-loading", "-misconf"]) {
        Who::Redis
    // A server of HTTP answers a line that is not a request with 400, in the form of HTTP/0.9 without a head.
    } else if begins(&["http/", "<!doctype html", "<html"]) {
        Who::Http
    } else {
        let line = heard.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        Who::Other(shown_bytes(line, 60))
    }
}

impl Ping {
    fn is_answered(&self, stream: &mut (impl Read + Write + AsFd)) -> io::Result<bool> {
        let message = (self.message)();
        stream.write_all(&message)?;
        let deadline = Instant::now() + PING;
        let mut heard = Vec::new();
        while heard.len() < message.len() && Instant::now() < deadline {
            let (more, ended) = hear(stream, Duration::from_millis(20))?;
            heard.extend(more);
            if ended {
                break;
            }
        }
        Ok((self.answered)(&heard))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    use msgpath_rpc::{Header, MARKER_BYTES, Marker, RPC_HEADER_BYTES};

    use super::*;

    static LAB: Measures = Measures {
        verb: |_, _, _| None,
        ping: Some(Ping {
            who: "the lab",
            message: || {
                let marker = Marker { header: RPC_HEADER_BYTES as u32, body: 0 }.to_bytes();
                [&marker[..], &Header::default().to_bytes()].concat()
            },
            answered: |heard| heard.first_chunk().is_some_and(|marker| Marker::parse(marker).is_ok()),
        }),
    };

    /// What a server does with a connection; returns what it read.
    type Serve = fn(TcpStream) -> Vec<u8>;

    /// Asks a server of the test, and gives what it read of each connection.
    fn asked(serve: Serve, connections: usize) -> (Who, Vec<Vec<u8>>) {
        add(&LAB);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, read): (_, Receiver<Vec<u8>>) = channel();
        let server = std::thread::spawn(move || {
            for _ in 0..connections {
                let (stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                sender.send(serve(stream)).unwrap();
            }
        });
        let found = who("127.0.0.1", port, &ChannelOptions::default()).unwrap();
        server.join().unwrap();
        (found, read.into_iter().collect())
    }

    fn rest(mut stream: TcpStream) -> Vec<u8> {
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read);
        read
    }

    /// Reads a line and answers it.
    fn line(mut stream: TcpStream, answer: &[u8]) -> Vec<u8> {
        let mut read = vec![0; LINE.len()];
        stream.read_exact(&mut read).unwrap();
        stream.write_all(answer).unwrap();
        read.extend(rest(stream));
        read
    }

    /// As server4 serves a connection: it ends at a marker that is none, and closes where the client does.
    fn server4(mut stream: TcpStream) -> Vec<u8> {
        let (mut read, mut byte) = (Vec::new(), [0; 1]);
        while matches!(stream.read(&mut byte), Ok(1)) {
            read.push(byte[0]);
            if read.len() == MARKER_BYTES {
                Marker::parse(read.first_chunk().unwrap()).expect("Invalid marker received");
            }
            if read.len() == MARKER_BYTES + RPC_HEADER_BYTES {
                stream.write_all(&read).expect("the client waits for its reply");
            }
        }
        read
    }

    #[test]
    fn msgpath_serve_is_sent_nothing() {
        let (found, read) = asked(
            |mut stream| {
                stream.write_all(&greeting::GREETING).unwrap();
                rest(stream)
            },
            1,
        );
        assert_eq!((found, read), (Who::Msgpath, vec![vec![]]));
    }

    #[test]
    fn a_server_of_the_lab_survives_and_is_known() {
        let (found, read) = asked(server4, 2);
        assert_eq!(
            (found, &read[0][..], read[1].len()),
            (Who::Pinged("the lab"), LINE, MARKER_BYTES + RPC_HEADER_BYTES)
        );
        assert!(LINE.len() < MARKER_BYTES, "a whole marker would end it");
    }

    #[test]
    fn a_server_that_is_busy_gets_no_ping() {
        // The listener takes the connection, nobody reads: what server4 does with a second client.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(who("127.0.0.1", port, &ChannelOptions::default()).unwrap(), Who::Silent);
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(server4(stream), LINE, "part of a marker and the end: it waits for the next client");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a second connection");
    }

    #[test]
    fn others_are_known_by_what_they_say_of_a_line() {
        let known: [(Serve, Who); 6] = [
            (|stream| line(stream, b"+PONG\r\n"), Who::Redis),
            (|stream| line(stream, b"-NOAUTH Authentication required.\r\n"), Who::Redis),
            (|stream| line(stream, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), Who::Http),
            (|stream| line(stream, b"<!DOCTYPE HTML>\n<html lang=\"en\">Error code: 400"), Who::Http),
            (|stream| line(stream, LINE), Who::Echo),
            (|stream| line(stream, b"ERROR\r\n"), Who::Other("ERROR".into())),
        ];
        for (serve, who) in known {
            let (found, read) = asked(serve, 1);
            assert_eq!((found, &read[0][..]), (who, LINE));
        }
    }

    #[test]
    fn closers_and_silent_ones_are_known() {
        let closed = |stream: TcpStream| {
            drop(stream);
            Vec::new()
        };
        assert_eq!(asked(closed, 1).0, Who::Closes);
        let after_a_line = |mut stream: TcpStream| {
            let mut read = vec![0; LINE.len()];
            stream.read_exact(&mut read).unwrap();
            read
        };
        assert_eq!(asked(after_a_line, 1).0, Who::Closes);
        let banner = |mut stream: TcpStream| {
            stream.write_all(b"SSH-2.0-\x1b[2J\r\n").unwrap();
            rest(stream)
        };
        assert_eq!(asked(banner, 1), (Who::Other("SSH-2.0-\\u{1b}[2J".into()), vec![vec![]]));
        // Reads all there is, says nothing, closes after us: it gets the lab's ping and does not answer it.
        let (found, read) = asked(rest, 2);
        assert_eq!((found, read.len()), (Who::Silent, 2));
    }
}
