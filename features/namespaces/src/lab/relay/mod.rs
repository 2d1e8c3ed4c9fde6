//! msgpath's own relay: delay, loss, duplication and reordering where the kernel has no netem.
//!
//! The links of all places end in one namespace. A process there reads every frame (AF_PACKET), keeps it until it is due,
//! and sends it on to the port behind which its address is, or to all others. This file is the side of who makes the lab.

mod order;
mod process;
mod queue;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use msgpath_agent::role::Role;
use msgpath_core::units::Glyphs;
use msgpath_core::{Exit, Problem};
use msgpath_sys::child::MakerEnds;
use msgpath_sys::pidfd;

use super::Shape;
use msgpath_run::launch::local;

use order::Order;
pub use process::serve;
pub use queue::RelayedPackets;

/// What it is told to be ([`serve`]).
pub const ROLE: &str = "lab-relay";
/// Name of the process (`/proc/PID/comm`).
pub(super) const NAME: &str = "msgpath-relay";
/// Connections that are tried for one figure of [`added`].
const TRIES: usize = 31;
/// Most bytes of an answer.
const MOST_ANSWER: u64 = 4 << 10;

/// A relay that this process has started; it ends with this value, unless it was told to stay.
pub(super) struct Relay {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    stays: bool,
}

impl Relay {
    /// Starts it, in the namespace of a lab that has this name, or in a new one of its own. It ends with this process,
    /// whatever ends that; only the relay of a lab with a name may be told to stay.
    ///
    /// # Errors
    /// E40.
    pub fn start(lab: Option<(&str, &Path)>) -> Result<Self, Problem> {
        let (name, namespace) = lab.unzip();
        let mut command = local::program();
        command.args(name).current_dir("/").stderr(Stdio::null());
        let (child, input, output) =
            local::start(&mut command, MakerEnds::Kills, &Role::of(ROLE, &())).map_err(broken)?;
        let mut relay = Self { child, input, output: BufReader::new(output), stays: false };
        relay.order(&Order::Enter {
            namespace: namespace.map(Path::to_owned),
            parent: lab.is_none().then(std::process::id),
        })?;
        Ok(relay)
    }

    /// Its process, by which its namespace is named as well.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The links are there.
    ///
    /// # Errors
    /// E40.
    pub fn open_ports(&mut self, count: u32, mtu: Option<u32>) -> Result<(), Problem> {
        self.order(&Order::Ports { count, mtu }).map(drop)
    }

    /// What becomes of frames from now on.
    ///
    /// # Errors
    /// E40.
    pub fn shape(&mut self, shape: &Shape, seed: u64) -> Result<(), Problem> {
        self.order(&Order::Shape { shape: shape.clone(), seed }).map(drop)
    }

    /// What has become of them; `None`: it is gone.
    pub fn counts(&mut self) -> Option<RelayedPackets> {
        serde_json::from_str(&self.order(&Order::Count).ok()?).ok()
    }

    /// It lives on after this process.
    ///
    /// # Errors
    /// E40.
    pub fn stay(mut self, socket: PathBuf) -> Result<(), Problem> {
        self.order(&Order::Stay { socket })?;
        self.stays = true;
        Ok(())
    }

    fn order(&mut self, order: &Order) -> Result<String, Problem> {
        let line = serde_json::to_string(order).expect("plain values") + "\n";
        self.input.write_all(line.as_bytes()).map_err(broken)?;
        let mut answer = String::new();
        self.output.by_ref().take(MOST_ANSWER).read_line(&mut answer).map_err(broken)?;
        match answer.trim_end_matches('\n').split_once(' ') {
            Some(("ok", rest)) => Ok(rest.to_owned()),
            Some(("no", why)) => Err(broken(why)),
            _ => Err(broken("it ended without a word")),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.stays {
            // Our own child, which keeps nothing.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The relays of labs with names that run here: the lab's name, the process, and when that was started. They are found by
/// what they are, whatever is written down about them. Those of a container are that container's business.
pub(super) fn running() -> Vec<(String, u32, u64)> {
    let files = |process: &Path| std::fs::read_link(process.join("ns/mnt")).ok();
    let own = files(Path::new("/proc/self"));
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let relay = |entry: std::fs::DirEntry| {
        let (pid, process) = (entry.file_name().to_str()?.parse().ok()?, entry.path());
        let since = pidfd::started(pid).filter(|_| pidfd::name(pid).as_deref() == Some(NAME))?;
        let lab = lab_of(&std::fs::read(process.join("cmdline")).ok()?)?;
        (files(&process).is_some() && files(&process) == own).then_some((lab, pid, since))
    };
    processes.filter_map(relay).collect()
}

/// The name of the lab in the words (proc(5), cmdline) of its relay.
fn lab_of(words: &[u8]) -> Option<String> {
    let mut words = words.split(|byte| *byte == 0).skip(1);
    let lab = words.next().filter(|word| *word == local::VERB.as_bytes()).and(words.next())?;
    String::from_utf8(lab.to_vec()).ok().filter(|lab| !lab.is_empty())
}

/// A seed that no other relay has.
pub(super) fn seed() -> u64 {
    msgpath_sys::clock::now() ^ u64::from(std::process::id()) << 32
}

/// That the relay does it and what it costs: a sentence, and words for the end of a description.
pub(super) fn words(shape: &Shape, added_ns: Option<u64>) -> (String, String) {
    let why = if shape.netem == Some(false) { "not wanted" } else { "not in this kernel" };
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    match added_ns {
        Some(ns) => (
            format!("netem: {why}; by msgpath's relay, which adds about {} itself, each way", time(ns)),
            format!(", by msgpath's relay (about {} itself)", time(ns)),
        ),
        None => (
            format!("netem: {why}; by msgpath's relay; what it adds itself could not be measured"),
            ", by msgpath's relay".into(),
        ),
    }
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("msgpath's relay does not work here: {why}"))
        .why("this kernel has no netem, or --netem no was given, so the relay does what netem would do")
        .hint("without delay, loss, duplication and reordering")
}

/// Asks the relay of a lab that is up; `None`: it does not answer.
pub(super) fn ask(socket: &Path) -> Option<RelayedPackets> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    let mut text = String::new();
    Read::by_ref(&mut stream).take(MOST_ANSWER).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// What the relay adds to the way there by itself, ns: half of what a connection that is refused at once takes longer to
/// `far` than within the own namespace, medians. Measured from the calling thread's namespace, while the relay still passes
/// everything on at once. `None`: nothing came back.
pub(super) fn added(own: IpAddr, far: IpAddr) -> Option<u64> {
    let median = |to: IpAddr| {
        let mut times: Vec<u64> = (0..TRIES).filter_map(|_| refused(to)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    // The first asks for the MAC address (ARP).
    refused(far)?;
    Some(median(far)?.saturating_sub(median(own)?) / 2)
}

/// How long it takes until a connection is refused, ns.
fn refused(to: IpAddr) -> Option<u64> {
    // The port discard: nobody listens in a namespace that was just made.
    let begun = Instant::now();
    let result = TcpStream::connect_timeout(&SocketAddr::new(to, 9), Duration::from_millis(200));
    let took = begun.elapsed().as_nanos() as u64;
    matches!(result, Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_says_whose_it_is() {
        assert_eq!(lab_of(b"/proc/self/exe\0__agent\0lab2\0").as_deref(), Some("lab2"));
        for other in [&b""[..], b"msgpath\0__agent\0", b"msgpath\0__agent\0\0", b"cat\0lab2\0", b"__agent\0lab2\0"] {
            assert_eq!(lab_of(other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn the_relay_is_named_with_what_it_adds() {
        let shape = Shape::parse("delay=1ms").unwrap();
        let (note, words) = super::words(&shape, Some(21_300));
        assert_eq!(note, "netem: not in this kernel; by msgpath's relay, which adds about 21.3 µs itself, each way");
        assert_eq!(words, ", by msgpath's relay (about 21.3 µs itself)");
        let forced = Shape::parse("delay=1ms,netem=no").unwrap();
        assert!(super::words(&forced, None).0.starts_with("netem: not wanted; by msgpath's relay; what it adds"));
    }
}
