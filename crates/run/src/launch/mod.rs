//! How an agent is reached: started here, in a network namespace, on another host by a program that gives a pipe to it, or
//! there already.
//!
//! A launcher gives a stream of bytes to an agent and a way to end it; whatever is said over the stream is the same for all.
//! To add one: a file with its type, and a line in [`of`].

mod listening;
pub mod local;
mod namespace;
mod on_host;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Child;
use std::time::{Duration, Instant};

use msgpath_agent::last_output::LastOutput;
use msgpath_agent::role::FoundBy;
use msgpath_agent::seal::Seals;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::{Problem, Target};

pub(crate) use listening::connect;
pub use on_host::OnHost;

/// Starts an agent, or finds one.
pub trait Launcher {
    /// A stream to an agent that waits for its first order.
    ///
    /// # Errors
    /// E01 nobody answers, E03 another program does, E15 interrupted, E19 it could not be started.
    fn launch(&self) -> Result<Stream, Problem>;
}

/// A stream of bytes to an agent. The agent ends with it.
pub struct Stream {
    pub to: Box<dyn Write + Send>,
    pub from: Box<dyn Read + Send>,
    /// What was started for it and is ended where it does not end by itself: the agent, or what carries the stream.
    pub process: Option<Child>,
    /// Its address, where it was reached over IP: where its data connections go.
    pub peer: Option<SocketAddr>,
    /// Other addresses that its name has.
    pub more: usize,
    /// Its frames are sealed: both ends have proven to have a token.
    pub seals: Option<Seals>,
    /// How that was found, by an agent that a launcher started on a host.
    pub found: Option<FoundBy>,
    /// What that launcher writes to its standard error.
    pub(crate) errors: Option<LastOutput>,
    /// This process started the agent, on this machine: it is this program.
    pub(crate) started_here: bool,
}

impl Stream {
    /// A stream, and nothing else that is known of the agent.
    pub fn new(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        let (to, from) = (Box::new(to), Box::new(from));
        Self {
            to,
            from,
            process: None,
            peer: None,
            more: 0,
            seals: None,
            found: None,
            errors: None,
            started_here: false,
        }
    }
}

/// How long what was started may take to end after its pipe, and after it was asked.
const ENDS_BY_ITSELF: Duration = Duration::from_secs(1);
const ENDS_WHEN_ASKED: Duration = Duration::from_secs(2);

fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether what was started ends, now that its pipe is closed.
pub(crate) fn ends_by_itself(child: &mut Child) -> bool {
    drop(child.stdin.take());
    ends_within(child, ENDS_BY_ITSELF)
}

/// Ends a process of this program that this one started. It ignores what asks it to end; where it does not see the end of its input
/// it is killed.
pub fn end_child(child: &mut Child) {
    if !ends_by_itself(child) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Ends what a launcher started: it is asked, and then killed. srun ends its step when it is asked, and leaves it behind when it is
/// killed.
pub(crate) fn end_now(child: &mut Child) {
    msgpath_sys::signal::ask_to_end(child.id());
    if !ends_within(child, ENDS_WHEN_ASKED) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

pub fn of<'a>(target: &'a Target, options: &'a ChannelOptions) -> Box<dyn Launcher + 'a> {
    match (target, &options.between, &options.launch) {
        (Target::Local, None, _) => Box::new(local::Local { end: "far end" }),
        (Target::Local, Some(between), _) => Box::new(namespace::Namespace(between)),
        (Target::Host { .. }, _, Some(launch)) => Box::new(OnHost { launch }),
        (target, _, _) => Box::new(listening::Listening { target, options }),
    }
}
/// The last two lines that a launcher said, the last one first: that is where a program says why it ends.
pub(crate) fn newest(output: &LastOutput) -> String {
    let mut lines = output.lines(2);
    lines.reverse();
    lines.join(" | ")
}
