//! `--open-metrics`: where the metrics of a run go. A text file for the textfile collector, replaced whole; or whoever asks
//! over HTTP at an address of this machine.
//!
//! The listener has no thread: it looks at its sockets between rounds, when no end measures, and never waits for any of
//! them. A client that says nothing, or too much, or does not read, costs a place in a short list for a few seconds.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use msgpath_agent::crowd::first_to_go;
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::{Case, Exit, Plan, Problem};
use msgpath_present::open_metrics::OpenMetrics;
use msgpath_run::Progress;
use msgpath_sys::say;
use msgpath_sys::socket::set_backlog;

use crate::output::{can_be_written, write_typed};

/// Clients at the same time, half of them from one address; the oldest goes where there are more.
const CLIENTS: usize = 16;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;
/// Bytes of a request.
const REQUEST: usize = 8 << 10;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the file is written.
const OFTEN: Duration = Duration::from_secs(1);
/// How long the last answers may take when the run is over.
const LAST: Duration = Duration::from_millis(200);
/// The type of the answer.
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What was typed after `--open-metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsTo {
    /// A text file.
    File(PathBuf),
    /// An address of this machine.
    Address(SocketAddr),
}

/// What can be told as it is now.
pub trait Exposition {
    fn text(&self) -> String;
}

impl Exposition for OpenMetrics {
    fn text(&self) -> String {
        OpenMetrics::text(self)
    }
}

/// Metrics and where they go.
pub struct Metrics<G: Exposition = OpenMetrics> {
    pub given: G,
    to: To,
}

enum To {
    File { path: PathBuf, written: Option<Instant>, failed: bool },
    Http(Listener),
}

impl<G: Exposition + Default> Metrics<G> {
    /// Opens it, before anything is measured.
    ///
    /// # Errors
    /// The file cannot be written, or the address cannot be listened at.
    pub fn open(to: &MetricsTo) -> Result<Self, Problem> {
        let given = G::default();
        let to = match to {
            MetricsTo::File(path) => {
                can_be_written(path)?;
                write_typed(path, given.text())?;
                To::File { path: path.clone(), written: None, failed: false }
            }
            MetricsTo::Address(address) => To::Http(Listener::open(*address).map_err(|error| {
                Problem::new("E05", Exit::CannotStart, format!("cannot listen at {address}: {error}"))
                    .hint("another port; port 0 takes a free one")
            })?),
        };
        Ok(Self { given, to })
    }
}

impl<G: Exposition> Metrics<G> {
    /// Now and then, while nothing is measured.
    pub fn serve(&mut self, last: bool) {
        match &mut self.to {
            To::File { path, written, failed } => {
                if !*failed && (last || written.is_none_or(|at| at.elapsed() >= OFTEN)) {
                    *written = Some(Instant::now());
                    // A full disk is not a reason to stop measuring; it is said once.
                    if let Err(problem) = write_typed(path, self.given.text()) {
                        *failed = true;
                        say!("warning: {problem}");
                    }
                }
            }
            To::Http(listener) => listener.serve(&self.given),
        }
    }

    /// The last word, also for those who have just asked.
    pub fn end(&mut self) {
        self.serve(true);
        if let To::Http(listener) = &mut self.to {
            let begun = Instant::now();
            while !listener.clients.is_empty() && begun.elapsed() < LAST {
                std::thread::sleep(Duration::from_millis(5));
                listener.serve(&self.given);
            }
        }
    }
}

impl Metrics {
    /// Told of the same rounds as `shown`.
    pub fn beside(self, shown: Box<dyn Progress>) -> Beside {
        Beside { metrics: self, shown }
    }
}

/// Metrics beside what is shown.
pub struct Beside {
    metrics: Metrics,
    shown: Box<dyn Progress>,
}

impl Progress for Beside {
    fn started(&mut self, header: &RunHeader) {
        self.shown.started(header);
        self.metrics.given.started(header);
        self.metrics.serve(false);
    }

    fn planned(&mut self, plan: &Plan) {
        self.shown.planned(plan);
        self.metrics.given.planned(plan);
    }

    fn warming(&mut self, case: &Case, done: usize, of: usize) {
        self.shown.warming(case, done, of);
        self.metrics.serve(false);
    }

    fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        self.shown.round(round, done, of);
        self.metrics.given.round(round, done, of);
        self.metrics.serve(false);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.metrics.end();
    }
}

/// A client, what it has said and what it has yet to be told.
struct Client {
    stream: TcpStream,
    from: IpAddr,
    since: Instant,
    heard: Vec<u8>,
    answer: Option<(Vec<u8>, usize)>,
}

struct Listener {
    socket: TcpListener,
    clients: Vec<Client>,
}

impl Listener {
    fn open(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        set_backlog(socket.as_fd(), BACKLOG)?;
        say!("note: metrics at http://{}/metrics", socket.local_addr()?);
        Ok(Self { socket, clients: Vec::new() })
    }

    /// Whoever came, whatever was said, whatever can be told: without waiting for anybody.
    fn serve(&mut self, given: &impl Exposition) {
        // Made once for all who ask between the same two rounds.
        let mut text = None;
        let mut text = || text.get_or_insert_with(|| given.text()).clone();
        self.clients.retain_mut(|client| client.goes_on(&mut text));
        // All that wait, so that nobody who asks stands behind those who say nothing: its request is there already.
        for _ in 0..BACKLOG {
            let Ok((stream, from)) = self.socket.accept() else { break };
            let from = from.ip().to_canonical();
            let mut client = Client { stream, from, since: Instant::now(), heard: Vec::new(), answer: None };
            if client.stream.set_nonblocking(true).is_err() || !client.goes_on(&mut text) {
                continue;
            }
            let waiting = self.clients.iter().map(|client| &client.from);
            if let Some(at) = first_to_go(waiting, &from, CLIENTS, CLIENTS / 2) {
                self.clients.remove(at);
            }
            self.clients.push(client);
        }
    }
}

impl Client {
    /// Whether it has something left to say or to hear.
    fn goes_on(&mut self, text: &mut impl FnMut() -> String) -> bool {
        if self.since.elapsed() > PATIENCE {
            return false;
        }
        if self.answer.is_none() {
            let mut room = [0; 2048];
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(count) => self.heard.extend_from_slice(&room[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return true,
                Err(_) => return false,
            }
            let whole = self.heard.windows(4).any(|end| end == b"\r\n\r\n");
            if self.heard.len() > REQUEST {
                self.answer = Some((answer("431 Request Header Fields Too Large", "too long\n"), 0));
            } else if whole {
                self.answer = Some((reply(&self.heard, text), 0));
            } else {
                return true;
            }
        }
        let Some((bytes, given)) = &mut self.answer else { return true };
        while *given < bytes.len() {
            match self.stream.write(&bytes[*given..]) {
                Ok(0) => return false,
                Ok(count) => *given += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return true,
                Err(_) => return false,
            }
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Write); // it may have gone already
        false
    }
}

/// The answer to a request whose head is whole.
fn reply(heard: &[u8], text: &mut impl FnMut() -> String) -> Vec<u8> {
    let line = heard.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(path)) => match path.split(|byte| *byte == b'?').next() {
            Some(b"/" | b"/metrics") => answer("200 OK", &text()),
            _ => answer("404 Not Found", "/metrics\n"),
        },
        _ => answer("405 Method Not Allowed", "GET /metrics\n"),
    }
}

fn answer(status: &str, text: &str) -> Vec<u8> {
    let kind = if status.starts_with("200") { TYPE } else { "text/plain; charset=utf-8" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> (Listener, SocketAddr) {
        let listener = Listener::open(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.socket.local_addr().unwrap();
        (listener, address)
    }

    /// What a client hears of a listener that is looked after a hundred times.
    fn heard(listener: &mut Listener, mut client: TcpStream) -> String {
        let given = OpenMetrics::default();
        client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut out = Vec::new();
        for _ in 0..100 {
            listener.serve(&given);
            let mut room = [0; 4096];
            match client.read(&mut room) {
                Ok(0) => break,
                Ok(count) => out.extend_from_slice(&room[..count]),
                Err(_) => {}
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn who_asks_is_told() {
        let (mut listener, address) = listener();
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
            ("GET /?x HTTP/1.0\r\n\r\n", "200 OK"),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\0\u{1}\r\n\r\n", "405"),
        ] {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            let text = heard(&mut listener, client);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {text}");
            assert_eq!(text.ends_with("# EOF\n"), status == "200 OK");
        }
        assert!(listener.clients.is_empty());
    }

    #[test]
    fn hostile_clients_cost_a_place_and_no_time() {
        let (mut listener, address) = listener();
        let given = OpenMetrics::default();
        // Silent ones, one that sends too much, one that leaves at once.
        let silent: Vec<TcpStream> = (0..3 * CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        for _ in 0..4 {
            listener.serve(&given);
        }
        assert_eq!(listener.clients.len(), CLIENTS / 2, "half of them from one address");
        // One look is enough for who has asked, however many say nothing.
        let more: Vec<TcpStream> = (0..8 * CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut asks = TcpStream::connect(address).unwrap();
        asks.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        listener.serve(&given);
        drop(more);
        let mut answer = String::new();
        asks.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        asks.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
        drop(TcpStream::connect(address).unwrap());
        let mut flood = TcpStream::connect(address).unwrap();
        flood.write_all(&vec![b'a'; 2 * REQUEST]).unwrap();
        let text = heard(&mut listener, flood);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        assert!(heard(&mut listener, client).contains("200 OK"), "others are still served");
        assert!(begun.elapsed() < Duration::from_secs(20) && listener.clients.len() <= CLIENTS);
        drop(silent);
    }
}
