//! How the far end is reached: an agent started on this machine, or a `msgpath serve`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use msgpath_core::plan::{Between, ChannelOptions, Family, Placement};
use msgpath_core::schema::{Environment, EventFacts};
use msgpath_core::{Exit, Problem, Target, Unavailable};
use msgpath_sys::affinity;
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::limits::remedy;

use crate::greeting;
use crate::team::no_thread;
use crate::wire::{self, ToFar, ToNear};

/// The far end gives up after this much silence.
const LEASE: Duration = Duration::from_secs(10);
/// How long the near end waits for an answer that takes no measuring.
const ANSWER: Duration = Duration::from_secs(15);

type Frame = io::Result<Option<(ToNear, Vec<u8>)>>;

/// A far end that answers.
pub struct Link {
    to: Box<dyn Write + Send>,
    frames: Receiver<Frame>,
    child: Option<Child>,
    /// The machine of the far end.
    pub environment: Environment,
    /// Its CPUs, in the order in which it would use them.
    pub cpus: Vec<u32>,
    /// Kernel counters that it can read, by name.
    pub counters: Vec<String>,
    /// Events of CPU and kernel that its threads can count.
    pub events: EventFacts,
    /// Its address, where it was reached over IP.
    pub peer: Option<std::net::IpAddr>,
    last_sent: Instant,
}

fn vanished(why: impl std::fmt::Display) -> Problem {
    Problem::new("E17", Exit::Unfinished, "the far end vanished").why(format!("{why}"))
}

/// E56: there is no room for a session now, at one end or the other.
fn cannot_start(reason: Unavailable) -> Problem {
    Problem::new("E56", Exit::CannotStart, reason.why).hint(reason.hint)
}

impl Link {
    /// Reaches the far end and greets it.
    ///
    /// # Errors
    /// E01 nobody answers, E03 another version or another program, E17 it ended at once.
    pub fn open(target: &Target, options: &ChannelOptions) -> Result<Self, Problem> {
        match target {
            Target::Local => Self::spawn(options.between.as_ref()),
            Target::Host { host, port, .. } => {
                let mut stream = connect(host, *port, options)?;
                greeting::expect(&mut stream, target)?;
                let read = stream.try_clone().map_err(vanished)?;
                let _ = stream.set_nodelay(true);
                let peer = stream.peer_addr().ok().map(|address| address.ip());
                let mut link = Self::greet(Box::new(read), Box::new(stream), None)?;
                link.peer = peer;
                Ok(link)
            }
            Target::Socket { path, .. } => Self::over(UnixStream::connect(path), target),
            Target::Name { name, .. } => {
                let address = std::os::unix::net::SocketAddr::from_abstract_name(service_name(name));
                Self::over(address.and_then(|address| UnixStream::connect_addr(&address)), target)
            }
        }
    }

    fn over(stream: io::Result<UnixStream>, target: &Target) -> Result<Self, Problem> {
        let mut stream =
            stream.map_err(|error| nobody(&target.to_string(), &error, &format!("msgpath serve {target}")))?;
        greeting::expect(&mut stream, target)?;
        let read = stream.try_clone().map_err(vanished)?;
        Self::greet(Box::new(read), Box::new(stream), None)
    }

    /// Starts the agent as a child of this process: the same program, whatever has happened to its file meanwhile. `between`:
    /// it moves to its place first.
    fn spawn(between: Option<&Between>) -> Result<Self, Problem> {
        let cannot = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::WouldBlock => no_thread(&error).hint,
                _ => remedy(&error).into(),
            };
            Problem::new("E19", Exit::CannotStart, format!("the far end could not be started: {error}")).hint(hint)
        };
        let place: Vec<&String> = between
            .map(|Between { near, far, .. }| vec![&far.namespace, &far.address, &near.address])
            .unwrap_or_default();
        let mut command = Command::new("/proc/self/exe");
        command.arg("__agent").args(place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child::own(&mut command, MakerEnds::ClosesInput).spawn().map_err(cannot)?;
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut link = Self::greet(Box::new(from), Box::new(to), Some(child))?;
        link.peer = between.and_then(|between| between.far.address.parse().ok());
        Ok(link)
    }

    /// Greets a far end at standard input and output.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(crate) fn at_standard_streams() -> Result<Self, Problem> {
        Self::greet(Box::new(io::stdin()), Box::new(io::stdout()), None)
    }

    fn greet(mut from: Box<dyn Read + Send>, to: Box<dyn Write + Send>, child: Option<Child>) -> Result<Self, Problem> {
        let (sender, frames) = channel();
        let reader = std::thread::Builder::new().name("link".into()).spawn(move || {
            loop {
                let frame = wire::read::<ToNear>(&mut from);
                let last = !matches!(frame, Ok(Some(_)));
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        if let Err(error) = reader {
            return Err(cannot_start(no_thread(&error)));
        }
        let mut link = Self {
            to,
            frames,
            child,
            environment: Environment::default(),
            cpus: Vec::new(),
            counters: Vec::new(),
            events: EventFacts::default(),
            peer: None,
            last_sent: Instant::now(),
        };
        let version = env!("CARGO_PKG_VERSION");
        link.send(&ToFar::Hello { version: version.into(), lease_ms: LEASE.as_millis() as u64 })?;
        match link.answer()? {
            (ToNear::Hello { version: far, environment, cpus, counters, events }, _) => {
                if far != version {
                    return Err(Problem::new(
                        "E03",
                        Exit::CannotStart,
                        format!("the far end is msgpath {far}, this is {version}"),
                    )
                    .hint("the same version at both ends"));
                }
                link.environment = *environment;
                link.cpus = cpus;
                link.counters = counters;
                link.events = *events;
                Ok(link)
            }
            (ToNear::Busy { reason }, _) => Err(cannot_start(reason)),
            _ => Err(Problem::new("E03", Exit::CannotStart, "the far end does not greet as msgpath does")),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// E17.
    pub fn send(&mut self, message: &ToFar) -> Result<(), Problem> {
        self.last_sent = Instant::now();
        wire::write(&mut self.to, message, &[]).map_err(vanished)
    }

    /// Keeps the lease while something else goes on.
    ///
    /// # Errors
    /// E17 where the far end is gone.
    pub fn keep_alive(&mut self) -> Result<(), Problem> {
        if self.last_sent.elapsed() > LEASE / 5 {
            self.send(&ToFar::Alive)?;
        }
        Ok(())
    }

    /// Waits for the answer to what was sent last.
    ///
    /// # Errors
    /// E17 where none comes.
    pub fn answer(&mut self) -> Result<(ToNear, Vec<u8>), Problem> {
        let start = Instant::now();
        loop {
            match self.frames.recv_timeout(Duration::from_millis(500)) {
                Ok(Ok(Some(frame))) => return Ok(frame),
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(vanished("it closed the control channel"));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    let what = format!("the far end does not speak this version's protocol: {error}");
                    return Err(Problem::new("E03", Exit::CannotStart, what).hint("the same version at both ends"));
                }
                Ok(Err(error)) => return Err(vanished(error)),
                Err(RecvTimeoutError::Timeout) if start.elapsed() > ANSWER => {
                    return Err(vanished(format!("no answer for {} s", ANSWER.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => self.keep_alive()?,
            }
        }
    }

    /// Ends a far end that this process started and that does not answer: it is our own child.
    pub fn end_child(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether the far end has closed, without waiting. A frame that comes unasked is a breach of the protocol.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.frames.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = wire::write(&mut self.to, &ToFar::Bye, &[]);
        let Some(child) = &mut self.child else { return };
        // It ends by itself; if it does not within a second, it is ended: it is our own child.
        for _ in 0..100 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end_child();
    }
}

/// The abstract socket name of a `serve` under a name.
pub fn service_name(name: &str) -> String {
    format!("msgpath-serve-{name}")
}

fn nobody(place: &str, error: &io::Error, serve: &str) -> Problem {
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

pub(crate) fn connect(host: &str, port: u16, options: &ChannelOptions) -> Result<TcpStream, Problem> {
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let resolved = (host, port).to_socket_addrs().map_err(|error| {
        Problem::new("E01", Exit::CannotStart, format!("{host:?} is no host that this machine knows"))
            .why(error.to_string())
    })?;
    let addresses: Vec<SocketAddr> = resolved
        .filter(|address| match options.family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        })
        .collect();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address of this family");
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    if last.kind() == io::ErrorKind::AddrNotAvailable {
        return Err(Problem::new("E01", Exit::CannotStart, format!("{host} has no address of the family asked for"))
            .hint("without -4 or -6, or an address instead of the name"));
    }
    let serve = if host == "localhost" || host.starts_with("127.") || host == "::1" {
        "msgpath serve".to_owned()
    } else {
        format!("msgpath serve {host}")
    };
    Err(nobody(&place, &last, &serve))
}

/// The CPUs of this process, one of each core first, hyper-threads of the same core last.
pub fn cpu_order() -> Vec<u32> {
    let allowed = affinity::allowed();
    let core_of = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        std::fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
    };
    let (mut first, mut rest, mut seen) = (Vec::new(), Vec::new(), std::collections::HashSet::new());
    for cpu in allowed {
        if seen.insert(core_of(cpu)) { first.push(cpu) } else { rest.push(cpu) }
    }
    first.extend(rest);
    first
}

/// Where the threads of both ends run when the user has not said it: in turn on different cores. `near` and `far` are
/// the CPUs of the ends; on one machine they are the same ones.
pub fn placement(near: &[u32], far: &[u32], one_machine: bool, threads: u32) -> Placement {
    let take = |cpus: &[u32], skip: usize, step: usize| -> Vec<u32> {
        cpus.iter().skip(skip).step_by(step).take(threads.max(1) as usize).copied().collect()
    };
    match (one_machine, near.len()) {
        (true, 0 | 1) => Placement { near: near.to_vec(), far: near.to_vec() },
        (true, _) => Placement { near: take(near, 0, 2), far: take(near, 1, 2) },
        (false, _) => Placement { near: take(near, 0, 1), far: take(far, 0, 1) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_on_different_cpus_where_there_are_two() {
        let two = placement(&[0, 1], &[0, 1], true, 1);
        assert_eq!((two.near, two.far), (vec![0], vec![1]));
        let four = placement(&[0, 1, 2, 3], &[], true, 2);
        assert_eq!((four.near, four.far), (vec![0, 2], vec![1, 3]));
        let crowded = placement(&[0, 1], &[0, 1], true, 4);
        assert_eq!((crowded.near, crowded.far), (vec![0], vec![1]));
        let one = placement(&[5], &[5], true, 1);
        assert_eq!((one.near, one.far), (vec![5], vec![5]));
        let apart = placement(&[0, 1], &[7, 8], false, 1);
        assert_eq!((apart.near, apart.far), (vec![0], vec![7]));
    }
}
