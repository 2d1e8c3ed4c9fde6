//! An agent that somebody started by hand: `msgpath serve`, over TCP or a Unix socket.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use msgpath_agent::greeting::{self, service_name};
use msgpath_agent::handshake::{Asked, SERVE};
use msgpath_agent::names;
use msgpath_agent::seal::Seals;
use msgpath_agent::token::{self, Token};
use msgpath_agent::wire::{Addresses, Opening};
use msgpath_core::plan::ChannelOptions;
use msgpath_core::{Exit, Problem, Target};
use msgpath_sys::files::is_trusted_user;
use msgpath_sys::{address, mark, socket};

use super::{Launcher, Stream};
use crate::link::vanished;

/// How long a host may take to answer.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes of a segment of the control channel: what IPv4 carries everywhere (RFC 9293, 3.7.1).
const SEGMENT: u16 = 536;
/// How long the first words of a far end are waited for.
const ANSWER: Duration = Duration::from_secs(15);

/// Where it listens.
pub struct Listening<'a> {
    pub target: &'a Target,
    /// Address family and bind address of the way there.
    pub options: &'a ChannelOptions,
}

impl Launcher for Listening<'_> {
    fn launch(&self) -> Result<Stream, Problem> {
        let credential = self.credential()?;
        let over = |stream: io::Result<UnixStream>| {
            let problem = |error| nobody(&self.target.to_string(), &error, &format!("msgpath serve {}", self.target));
            let mut stream = stream.map_err(problem)?;
            check_user(&stream, self.target)?;
            greeting::expect(&mut stream, self.target)?;
            let seals = admitted(&mut stream, None, credential.as_ref())?;
            let read = stream.try_clone().map_err(|error| vanished("far end", error))?;
            Ok(Stream { seals, ..Stream::new(read, stream) })
        };
        match self.target {
            Target::Local => Err(Problem::new("E01", Exit::CannotStart, "nobody listens at this process")),
            // What asks for its far end takes it for one before.
            Target::Program { .. } => {
                let what = format!("{} is a program of others, not a msgpath serve", self.target);
                Err(Problem::new("E10", Exit::Usage, what).hint("msgpath echo, or msgpath compare"))
            }
            Target::Host { host, port, .. } => {
                let (mut stream, more) = connect(host, *port, self.options)?;
                greeting::expect(&mut stream, self.target)?;
                let _ = stream.set_nodelay(true);
                let own = Addresses::of(&stream, true).map_err(|error| vanished("far end", error))?;
                let seals = admitted(&mut stream, Some(own), credential.as_ref())?;
                let read = stream.try_clone().map_err(|error| vanished("far end", error))?;
                let peer = stream.peer_addr().ok();
                Ok(Stream { peer, more, seals, ..Stream::new(read, stream) })
            }
            Target::Socket { path, .. } => over(UnixStream::connect(path)),
            Target::Name { name, .. } => {
                let address = std::os::unix::net::SocketAddr::from_abstract_name(service_name(name));
                over(address.and_then(|address| UnixStream::connect_addr(&address)))
            }
        }
    }
}

/// What a near end can prove.
#[derive(Clone, Debug)]
struct Credential {
    token: Token,
    /// Whoever answers must ask for it: the user says so.
    expected: bool,
}

/// Hears whether a token is asked for, and proves to have it; the seals of what follows then.
///
/// # Errors
/// E73, E75, E17; E03 for something else.
fn admitted(
    stream: &mut (impl Read + Write + AsFd),
    own: Option<Addresses>,
    credential: Option<&Credential>,
) -> Result<Option<Seals>, Problem> {
    let refused = |what: &str| Problem::new("E73", Exit::CannotStart, what);
    let by = Instant::now() + ANSWER;
    let asked = Asked::listen(stream, by).map_err(|error| vanished("far end", error))?;
    match (&asked.opening, credential) {
        (Opening::Open, Some(Credential { expected: true, .. })) => {
            Err(refused("the far end does not ask for a token, so it may be anybody's")
                .hint("msgpath serve --token-file FILE there, or no --token-file here"))
        }
        (Opening::Open, _) => Ok(None),
        (Opening::Challenge { .. }, None) => Err(refused("the far end asks for a token")
            .why("it was started with --token-file: only who has the same file is let in")
            .hint(format!("--token-file with a copy of that file, or {}=FILE", token::ENVIRONMENT))),
        (Opening::Challenge { .. }, Some(Credential { token, .. })) => {
            let seals = asked.prove(stream, token, SERVE, own, by);
            seals.map(Some).map_err(|refusal| refusal.problem("far end", "msgpath serve"))
        }
    }
}

impl Listening<'_> {
    /// The token that was named. What the environment names is used only where it is asked for.
    fn credential(&self) -> Result<Option<Credential>, Problem> {
        let typed = self.options.token_file.as_deref();
        let Some(file) = token::file(typed) else { return Ok(None) };
        match Token::read(&file) {
            Ok((token, _)) => Ok(Some(Credential { token, expected: typed.is_some() })),
            Err(problem) if typed.is_some() => Err(problem),
            Err(problem) => Err(problem.why(format!("{} names it", token::ENVIRONMENT))),
        }
    }
}

/// Who listens under a name of this machine, before anything is said to it: any user can take a name that is free.
///
/// # Errors
/// E95: it is neither this user nor root.
fn check_user(stream: &UnixStream, target: &Target) -> Result<(), Problem> {
    let user = socket::peer_user(stream.as_fd()).map_err(|error| vanished("far end", error))?;
    if is_trusted_user(user) {
        return Ok(());
    }
    Err(Problem::new("E95", Exit::CannotStart, format!("user {user} listens at {target}, not this user or root"))
        .why("any user of a machine can listen under a name; msgpath sent it nothing")
        .hint("both ends as the same user, or over an address: msgpath serve 127.0.0.1 --token-file FILE"))
}

fn nobody(place: &str, error: &io::Error, serve: &str) -> Problem {
    if let Some(problem) = names::no_port(error) {
        return problem;
    }
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "the machine is up; no program listens there",
        io::ErrorKind::NotFound => "there is no such socket",
        io::ErrorKind::TimedOut => "no answer at all: the machine is off, or something in between drops the packets",
        _ => "",
    };
    let what = error.to_string().to_lowercase();
    let what = what.split(" (os error").next().unwrap_or(&what);
    Problem::new("E01", Exit::CannotStart, format!("nobody answers at {place} ({what})"))
        .why(why)
        .hint(format!("on the far machine run   {serve}"))
}

/// An address to which no route of this machine leads: it may belong to the link of a device, or to a VRF.
fn elsewhere(problem: Problem) -> Problem {
    let devices = msgpath_agent::route::devices();
    let problem = problem.why("no route of this machine leads there, or no host has the address on its link");
    match devices.is_empty() {
        true => problem.hint("ip route"),
        false => {
            problem.hint(format!("-o device=NAME   if it is behind a VRF or another device: {}", devices.join(", ")))
        }
    }
}

/// A connection to a host, and how many other addresses its name has.
///
/// # Errors
/// E01.
pub(crate) fn connect(host: &str, port: u16, options: &ChannelOptions) -> Result<(TcpStream, usize), Problem> {
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let addresses = names::addresses(host, port, options.family)?;
    // Small segments pass where the network drops those of its own MTU: the far end can still say what it has seen.
    // The far end takes data from the address of the control channel alone, so both are bound alike.
    let bind = options.bind.as_deref().and_then(address::parse);
    if let Some(Err(error)) = bind.map(UdpSocket::bind) {
        let what = format!("-o bind={} cannot be had here: {error}", options.bind.as_deref().unwrap_or_default());
        return Err(Problem::new("E01", Exit::CannotStart, what).hint("an address of this machine: ip addr"));
    }
    let through = options.through.as_deref();
    let bound = |device| mark::bind_to_device(UdpSocket::bind("0.0.0.0:0")?.as_fd(), device);
    if let Some(device) = through
        && let Err(error) = bound(device)
    {
        let what = format!("-o device={device} cannot be had here: {error}");
        let hint = format!("a network device of this machine: {}", msgpath_agent::route::devices().join(", "));
        return Err(Problem::new("E01", Exit::CannotStart, what).hint(hint));
    }
    let prepare = |fd: &OwnedFd| {
        socket::limit_segments(fd.as_fd(), SEGMENT)?;
        through.map_or(Ok(()), |device| mark::bind_to_device(fd.as_fd(), device))?;
        bind.map_or(Ok(()), |address| socket::bind(fd.as_fd(), address))
    };
    match socket::connect_any(&addresses, CONNECT, &AtomicBool::new(false), prepare) {
        Ok(fd) => Ok((fd.into(), addresses.len() - 1)),
        Err(error) => {
            let local = host == "localhost" || host.starts_with("127.") || host == "::1";
            let serve = match local {
                true => "msgpath serve".to_owned(),
                false => format!("msgpath serve {host} --token-file FILE"),
            };
            let problem = nobody(&place, &error, &serve);
            Err(match error.kind() {
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable if through.is_none() => {
                    elsewhere(problem)
                }
                _ => problem,
            })
        }
    }
}
