//! `msgpath serve`: the far end for people who start it by hand. Each near end gets a session of its own.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};

use crate::far::{Lease, Peer, session};
use crate::greeting::GREETING;
use crate::place::service_name;

/// Where `serve` listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeAddress {
    /// TCP; `host` `None`: loopback, both families.
    Tcp {
        /// Address or name.
        host: Option<String>,
        /// Port.
        port: u16,
    },
    /// A socket in the file system, removed at the end.
    Unix(PathBuf),
    /// An abstract name on this machine.
    Name(String),
}

/// How `serve` behaves.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Near ends at the same time; more are turned away.
    pub sessions: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { sessions: 64 }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Option<PathBuf>),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, Some(path)) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

pub(crate) fn cannot(place: &str, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another port with -p, or stop the program that listens there",
        io::ErrorKind::PermissionDenied => "a port from 1024 on",
        io::ErrorKind::AddrNotAvailable => "an address of this machine",
        _ => "",
    };
    Problem::new("E01", Exit::CannotStart, format!("cannot listen at {place} ({error})")).hint(hint)
}

fn listen(address: &ServeAddress) -> Result<Vec<(Listener, String)>, Problem> {
    match address {
        ServeAddress::Tcp { host, port } => {
            let hosts = match host {
                Some(host) => vec![host.clone()],
                None => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
            };
            let mut out = Vec::new();
            let mut failed = None;
            let mut port = *port;
            for host in hosts {
                let place = format!("{host}, port {port}");
                let resolved = (host.as_str(), port).to_socket_addrs().map_err(|error| cannot(&place, &error))?;
                for address in resolved {
                    match TcpListener::bind(address) {
                        Ok(listener) => {
                            let local = listener.local_addr().unwrap_or(address);
                            port = local.port(); // port 0 in a test: the same one for both families
                            out.push((Listener::Tcp(listener), local.to_string()));
                        }
                        Err(error) => failed = Some(cannot(&address.to_string(), &error)),
                    }
                }
            }
            // Loopback without IPv6 is still loopback; but a port that is taken must be said.
            match (out.is_empty(), failed) {
                (true, Some(problem)) => Err(problem),
                (true, None) => Err(Problem::new("E01", Exit::CannotStart, "no address to listen at")),
                (false, _) => Ok(out),
            }
        }
        ServeAddress::Unix(path) => {
            let place = path.display().to_string();
            remove_dead(path);
            let listener = UnixListener::bind(path).map_err(|error| cannot(&place, &error))?;
            Ok(vec![(Listener::Unix(listener, Some(path.clone())), place)])
        }
        ServeAddress::Name(name) => {
            let listener = std::os::unix::net::SocketAddr::from_abstract_name(service_name(name))
                .and_then(|address| UnixListener::bind_addr(&address))
                .map_err(|error| cannot(name, &error))?;
            Ok(vec![(Listener::Unix(listener, None), name.clone())])
        }
    }
}

/// A socket file that a killed `serve` left behind; one that answers is left alone.
fn remove_dead(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    let refused = UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && refused {
        let _ = std::fs::remove_file(path);
    }
}

/// Answers until `stop` is set. `log` gets one line for each event.
///
/// # Errors
/// E01 where it cannot listen.
pub fn serve(
    address: &ServeAddress,
    options: ServeOptions,
    log: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let listeners = listen(address)?;
    for (_, place) in &listeners {
        log(&format!("serving at {place}   Ctrl-C stops"));
    }
    let active = Arc::new(AtomicUsize::new(0));
    let (lines_in, lines) = channel::<String>();
    while !stop.load(Ordering::Relaxed) {
        for (listener, _) in &listeners {
            let wait = 200 / listeners.len() as i32;
            match listener {
                Listener::Tcp(listener) => {
                    if poll(listener.as_fd(), Interest::Read, wait).unwrap_or(false)
                        && let Ok((stream, from)) = listener.accept()
                    {
                        admit(&active, options, &lines_in, from.to_string(), || tcp_session(stream, from));
                    }
                }
                Listener::Unix(listener, _) => {
                    if poll(listener.as_fd(), Interest::Read, wait).unwrap_or(false)
                        && let Ok((stream, _)) = listener.accept()
                    {
                        admit(&active, options, &lines_in, "this machine".into(), || unix_session(stream));
                    }
                }
            }
        }
        lines.try_iter().for_each(|line| log(&line));
    }
    Ok(())
}

type Closer = Box<dyn Fn() + Send>;
type Streams = (Box<dyn Read + Send>, Box<dyn Write + Send>, Peer, Closer);

fn tcp_session(mut stream: TcpStream, from: SocketAddr) -> io::Result<Streams> {
    stream.set_nodelay(true)?;
    stream.write_all(&GREETING)?; // a new connection has room for it: this never waits
    let plain = |ip: IpAddr| ip.to_canonical();
    let peer = Peer { host: Some(plain(stream.local_addr()?.ip())), address: Some(plain(from.ip())) };
    let (read, close) = (stream.try_clone()?, stream.try_clone()?);
    let closer = Box::new(move || drop(close.shutdown(std::net::Shutdown::Both)));
    Ok((Box::new(read), Box::new(stream), peer, closer))
}

fn unix_session(mut stream: UnixStream) -> io::Result<Streams> {
    stream.write_all(&GREETING)?;
    let (read, close) = (stream.try_clone()?, stream.try_clone()?);
    let closer = Box::new(move || drop(close.shutdown(std::net::Shutdown::Both)));
    Ok((Box::new(read), Box::new(stream), Peer::default(), closer))
}

/// Starts a session in a thread of its own, with another that closes it when its lease is over.
fn admit(
    active: &Arc<AtomicUsize>,
    options: ServeOptions,
    lines: &Sender<String>,
    from: String,
    open: impl FnOnce() -> io::Result<Streams>,
) {
    if active.load(Ordering::Relaxed) >= options.sessions {
        let _ = lines.send(format!("{from}: turned away, {} sessions are open", options.sessions));
        return;
    }
    let Ok((mut read, mut write, peer, close)) = open() else { return };
    active.fetch_add(1, Ordering::Relaxed);
    let (active, lines) = (Arc::clone(active), lines.clone());
    let lease = Arc::new(Lease::new(Duration::from_secs(10)));
    let over = Arc::new(AtomicBool::new(false));
    let (watched, ended) = (Arc::clone(&lease), Arc::clone(&over));
    std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            if watched.is_over() {
                return close();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    std::thread::spawn(move || {
        let _ = lines.send(format!("{from}: begins"));
        let ended = session(&mut read, &mut write, peer, &lease);
        over.store(true, Ordering::Relaxed);
        active.fetch_sub(1, Ordering::Relaxed);
        let _ = lines.send(match ended {
            Ok(()) => format!("{from}: ends"),
            Err(error) => format!("{from}: ended: {error}"),
        });
    });
}
