//! The coordinator's end of the stream to an agent: greeted, kept alive, asked and answered.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use msgpath_agent::team::no_thread;
use msgpath_agent::wire::{self, FromEnd, ToEnd};
use msgpath_core::plan::ChannelOptions;
use msgpath_core::program::ProgramFacts;
use msgpath_core::schema::{Environment, EventFacts};
use msgpath_core::{Exit, Problem, Target, Unavailable};

use crate::launch::{self, Launcher as _, Stream};

/// An end gives up after this much silence.
const LEASE: Duration = Duration::from_secs(10);
/// Between two looks at who else must be kept alive.
const LOOK: Duration = Duration::from_millis(500);
/// How long an answer is waited for that takes no measuring.
const ANSWER: Duration = Duration::from_secs(15);

type Frame = io::Result<Option<(FromEnd, Vec<u8>)>>;

/// An end that answers.
pub struct Link {
    /// As the user reads it: `far end`.
    name: &'static str,
    to: Box<dyn Write + Send>,
    frames: Receiver<Frame>,
    child: Option<Child>,
    /// Its machine.
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

/// E17.
pub(crate) fn vanished(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new("E17", Exit::Unfinished, format!("the {name} vanished")).why(format!("{why}"))
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
        Self::greet("far end", launch::of(target, options).launch()?, ANSWER)
    }

    /// A near end that is started here.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(crate) fn near_here() -> Result<Self, Problem> {
        Self::near(launch::local::Local { end: "near" }.launch()?, ANSWER)
    }

    /// A near end that was started, and takes this long at most to greet.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(crate) fn near(stream: Stream, patience: Duration) -> Result<Self, Problem> {
        Self::greet("near end", stream, patience)
    }

    fn greet(
        name: &'static str,
        Stream { to, mut from, process: child, peer }: Stream,
        patience: Duration,
    ) -> Result<Self, Problem> {
        let (sender, frames) = channel();
        let reader = std::thread::Builder::new().name("link".into()).spawn(move || {
            loop {
                let frame = wire::read::<FromEnd>(&mut from);
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
            name,
            to,
            frames,
            child,
            environment: Environment::default(),
            cpus: Vec::new(),
            counters: Vec::new(),
            events: EventFacts::default(),
            peer,
            last_sent: Instant::now(),
        };
        let version = env!("CARGO_PKG_VERSION");
        link.send(&ToEnd::Hello { version: version.into(), lease_ms: LEASE.as_millis() as u64 })?;
        match link.answer_within(patience)? {
            (FromEnd::Hello { version: far, environment, cpus, counters, events }, _) => {
                if far != version {
                    return Err(Problem::new(
                        "E03",
                        Exit::CannotStart,
                        format!("the {name} is msgpath {far}, this is {version}"),
                    )
                    .hint("the same version at both ends"));
                }
                link.environment = *environment;
                link.cpus = cpus;
                link.counters = counters;
                link.events = *events;
                Ok(link)
            }
            (FromEnd::Busy { reason }, _) => Err(cannot_start(reason)),
            _ => Err(Problem::new("E03", Exit::CannotStart, format!("the {name} does not greet as msgpath does"))),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// E17.
    pub fn send(&mut self, message: &ToEnd) -> Result<(), Problem> {
        self.last_sent = Instant::now();
        wire::write(&mut self.to, message, &[]).map_err(|error| self.vanished(error))
    }

    /// Keeps the lease while something else goes on.
    ///
    /// # Errors
    /// E17 where the far end is gone.
    pub fn keep_alive(&mut self) -> Result<(), Problem> {
        if self.last_sent.elapsed() > LEASE / 5 {
            self.send(&ToEnd::Alive)?;
        }
        Ok(())
    }

    /// Waits for a frame, this long at most.
    ///
    /// # Errors
    /// E17 where none will come, E03 for what is none.
    pub fn hear(&mut self, wait: Duration) -> Result<Option<(FromEnd, Vec<u8>)>, Problem> {
        match self.frames.recv_timeout(wait) {
            Ok(Ok(Some(frame))) => Ok(Some(frame)),
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => Err(self.vanished("it closed the control channel")),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let what = format!("the {} does not speak this version's protocol: {error}", self.name);
                Err(Problem::new("E03", Exit::CannotStart, what).hint("the same version at both ends"))
            }
            Ok(Err(error)) => Err(self.vanished(error)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Waits for the answer to what was sent last.
    ///
    /// # Errors
    /// E17 where none comes.
    pub fn answer(&mut self) -> Result<(FromEnd, Vec<u8>), Problem> {
        self.answer_within(ANSWER)
    }

    fn answer_within(&mut self, patience: Duration) -> Result<(FromEnd, Vec<u8>), Problem> {
        let start = Instant::now();
        loop {
            match self.hear(LOOK)? {
                Some(frame) => return Ok(frame),
                None if start.elapsed() > patience => return Err(self.late()),
                None => self.keep_alive()?,
            }
        }
    }

    fn late(&self) -> Problem {
        self.vanished(format!("no answer for {} s", ANSWER.as_secs()))
    }

    /// E17: it is gone.
    pub fn vanished(&self, why: impl std::fmt::Display) -> Problem {
        vanished(self.name, why)
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
        let _ = wire::write(&mut self.to, &ToEnd::Bye, &[]);
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

/// Which of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that begins.
    Near,
    /// The one that answers.
    Far,
}

/// Both ends of a pair.
pub struct Pair {
    /// The end that begins: always a process on this machine.
    pub near: Link,
    /// The end that answers.
    pub far: Link,
    /// Programs of others at the far end, as they were started first.
    pub programs: BTreeMap<String, ProgramFacts>,
    /// The far end is a program on another machine, for which an agent on this one stands.
    pub away: bool,
}

impl Pair {
    /// Reaches the far end and starts a near end here.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub fn open(target: &Target, options: &ChannelOptions) -> Result<Self, Problem> {
        let far = Link::open(target, options)?;
        Ok(Self { near: Link::near_here()?, far, programs: BTreeMap::new(), away: false })
    }

    /// Whether both ends answer, as far as is known without waiting.
    pub fn is_there(&mut self) -> bool {
        !self.near.is_gone() && !self.far.is_gone()
    }

    /// Both read one CLOCK_MONOTONIC.
    pub fn one_machine(&self) -> bool {
        self.near.environment.boot_id == self.far.environment.boot_id
    }

    /// Keeps the leases of both while something else goes on.
    ///
    /// # Errors
    /// E17 where one is gone.
    pub fn keep_alive(&mut self) -> Result<(), Problem> {
        self.near.keep_alive()?;
        self.far.keep_alive()
    }

    /// Waits for the answer of one to what was sent to it last; the other is kept alive. The near end connects meanwhile,
    /// which takes as long as it takes.
    ///
    /// # Errors
    /// E17 where none comes.
    pub fn answer(&mut self, from: Side) -> Result<(FromEnd, Vec<u8>), Problem> {
        let start = Instant::now();
        loop {
            let heard = match from {
                Side::Near => self.near.hear(LOOK)?,
                Side::Far => self.far.hear(LOOK)?,
            };
            match heard {
                Some(frame) => return Ok(frame),
                None if from == Side::Far && start.elapsed() > ANSWER => return Err(self.far.late()),
                None => self.keep_alive()?,
            }
        }
    }
}
