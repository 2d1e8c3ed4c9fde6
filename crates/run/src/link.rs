//! The coordinator's end of the stream to an agent: greeted, kept alive, asked and answered.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use msgpath_agent::failure;
use msgpath_agent::last_output::LastOutput;
use msgpath_agent::role::FoundBy;
use msgpath_agent::seal::{Sealing, Seals, Veil};
use msgpath_agent::team::no_thread;
use msgpath_agent::wire::{self, FromEnd, Incoming, RoundOrder, ToEnd};
use msgpath_core::foreign::shown_bytes;
use msgpath_core::plan::{ChannelOptions, EndPlace};
use msgpath_core::program::ProgramFacts;
use msgpath_core::schema::{DataRoute, EndDevice, Environment, EventFacts, FAR};
use msgpath_core::{Exit, Problem, Target, Unavailable};

use serde::Serialize;

use crate::launch::{self, Launcher as _, Stream};
use crate::round::out_of_turn;

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
    name: String,
    to: Box<dyn Write + Send>,
    /// For the addresses that it offers, where its frames are sealed.
    veil: Option<Veil>,
    frames: Receiver<Frame>,
    child: Option<Child>,
    pub environment: Environment,
    /// Its CPUs, in the order in which it would use them.
    pub cpus: Vec<u32>,
    /// Kernel counters that it can read, by name.
    pub counters: Vec<String>,
    /// Events of CPU and kernel that its threads can count.
    pub events: EventFacts,
    /// Its address, where it was reached over IP.
    pub peer: Option<std::net::SocketAddr>,
    /// Other addresses that its name has.
    pub more: usize,
    /// How that was found, by an agent that a launcher started on a host.
    pub found: Option<FoundBy>,
    errors: Option<LastOutput>,
    /// This process started it, on this machine. What any other end says is a stranger's word.
    pub(crate) started_here: bool,
    last_sent: Instant,
    /// Then nothing is waited for any more.
    pub until: Option<Instant>,
}

/// E17.
pub fn vanished(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new("E17", Exit::Unfinished, format!("the {name} vanished")).why(format!("{why}"))
}

/// What an end says, if it is neither that something cannot be had, which is said as `what`, nor that it failed.
///
/// # Errors
/// E05, or what it says.
pub fn had(said: FromEnd, what: impl std::fmt::Display) -> Result<FromEnd, Problem> {
    match said {
        FromEnd::Unavailable(Unavailable { why, hint }) => {
            Err(Problem::new("E05", Exit::CannotStart, format!("{what}: {why}")).hint(hint))
        }
        FromEnd::Failed(failure) => Err(failure.into()),
        said => Ok(said),
    }
}

/// Between two looks at an interruption.
const GLANCE: Duration = Duration::from_millis(50);

/// Waits until the round of each of these ends, which were told to go, is over. `false`: `stop` was set before, so they were told to
/// end, and report unasked.
///
/// # Errors
/// E17 where one is gone, E18 after `limit`, E05 and others as one says.
pub fn until_over(ends: &mut [Link], limit: Option<Instant>, stop: &AtomicBool) -> Result<bool, Problem> {
    let (mut going, mut whole): (Vec<usize>, _) = ((0..ends.len()).collect(), true);
    while !going.is_empty() {
        if limit.is_some_and(|limit| Instant::now() > limit) {
            let why = format!("{} of {} are not over", going.len(), ends.len());
            return Err(Problem::new("E18", Exit::Unfinished, "the round takes too long").why(why));
        }
        if whole && stop.load(Ordering::Relaxed) {
            whole = false;
            ends.iter_mut().try_for_each(|end| end.send(&ToEnd::Finish))?;
        }
        let mut wait = GLANCE;
        for at in std::mem::take(&mut going) {
            let end = &mut ends[at];
            match end.hear(std::mem::take(&mut wait))? {
                None => going.push(at),
                Some((FromEnd::Over, _)) => {}
                Some((said, _)) => return Err(had(said, &end.name).err().unwrap_or_else(out_of_turn)),
            }
        }
    }
    Ok(whole)
}

/// E76: what came over the control channel is not what the other end has said.
fn changed(name: &str, error: &io::Error) -> Problem {
    Problem::new("E76", Exit::Unfinished, format!("the {name} has not said what came over its control channel"))
        .why(error.to_string())
        .hint("another way there: ssh, or --launch ssh")
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
    pub fn near_here() -> Result<Self, Problem> {
        Self::near(launch::local::Local { end: "near end" }.launch()?, ANSWER)
    }

    /// One of several near ends, started in its place or on its host.
    ///
    /// # Errors
    /// As [`Link::open`].
    fn client(place: &EndPlace, options: &ChannelOptions) -> Result<Self, Problem> {
        if let Some(launch) = options.launch_of(place) {
            let stream = launch::OnHost { launch: &launch }.launch()?;
            return Self::greet(format!("client on {}", place.name), stream, ANSWER);
        }
        if place.namespace.is_empty() {
            return Self::near_here();
        }
        let far = options.between.as_ref().map(|between| between.of(FAR).clone()).unwrap_or_default();
        Self::near(launch::local::end("near end", Some([place.clone(), far]))?, ANSWER)
    }

    /// A near end that was started, and takes this long at most to greet.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(crate) fn near(stream: Stream, patience: Duration) -> Result<Self, Problem> {
        Self::greet("near end", stream, patience)
    }

    /// An agent on a host, by whose name it is spoken of.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub fn of_host(host: &str, stream: Stream) -> Result<Self, Problem> {
        Self::greet(format!("agent of {host}"), stream, ANSWER)
    }

    /// A process that is started here for a role, in the first of two places where there are two, and not greeted: it gets its orders at
    /// once.
    ///
    /// # Errors
    /// E19, E56.
    pub fn ungreeted(name: String, places: Option<[EndPlace; 2]>) -> Result<Self, Problem> {
        Self::on(name.clone(), launch::local::end(&name, places)?)
    }

    fn on(
        name: String,
        Stream { to, mut from, process: child, peer, more, seals, found, errors, started_here }: Stream,
    ) -> Result<Self, Problem> {
        let (says, hears, veil) = match seals {
            Some(Seals { says, hears, veil }) => (Some(says), Some(hears), Some(veil)),
            None => (None, None, None),
        };
        let (sender, frames) = channel();
        let reader = std::thread::Builder::new().name("link".into()).spawn(move || {
            let mut incoming = Incoming::new::<FromEnd>().sealed(hears);
            loop {
                let frame = incoming.next::<FromEnd>(&mut from);
                let last = !matches!(frame, Ok(Some(_)));
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        if let Err(error) = reader {
            return Err(cannot_start(no_thread(&error)));
        }
        Ok(Self {
            name,
            to: Box::new(Sealing::new(to, says)),
            veil,
            frames,
            child,
            environment: Environment::default(),
            cpus: Vec::new(),
            counters: Vec::new(),
            events: EventFacts::default(),
            peer,
            more,
            found,
            errors,
            started_here,
            last_sent: Instant::now(),
            until: None,
        })
    }

    fn greet(name: impl Into<String>, stream: Stream, patience: Duration) -> Result<Self, Problem> {
        let mut link = Self::on(name.into(), stream)?;
        let version = env!("CARGO_PKG_VERSION");
        // What takes long to answer, as a program that is simulated does, takes long to listen as well.
        let lease_ms = LEASE.max(patience).as_millis() as u64;
        link.send(&ToEnd::Hello { version: version.into(), lease_ms })?;
        match link.answer_within(patience)? {
            (FromEnd::Hello { version: far, environment, cpus, counters, events }, _) => {
                if far != version {
                    return Err(Problem::new(
                        "E03",
                        Exit::CannotStart,
                        format!("the {} is msgpath {}, this is {version}", link.name, shown_bytes(far.as_bytes(), 40)),
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
            _ => {
                Err(Problem::new("E03", Exit::CannotStart, format!("the {} does not greet as msgpath does", link.name)))
            }
        }
    }

    /// Its lease from now on, where nothing is said to it for longer.
    ///
    /// # Errors
    /// E17 where it is gone.
    pub fn lasts(&mut self, lease: Duration) -> Result<(), Problem> {
        let version = env!("CARGO_PKG_VERSION").into();
        self.send(&ToEnd::Hello { version, lease_ms: LEASE.max(lease).as_millis() as u64 })?;
        self.answer().map(drop)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// E17.
    pub fn send(&mut self, message: &ToEnd) -> Result<(), Problem> {
        self.last_sent = Instant::now();
        wire::write(&mut self.to, message, &[]).map_err(|error| self.vanished(error))
    }

    /// Gives an order to a role of it.
    ///
    /// # Errors
    /// E17.
    pub fn order(&mut self, role: &str, order: &impl Serialize) -> Result<(), Problem> {
        let order = ToEnd::role(role, order).map_err(|error| self.vanished(error))?;
        self.send(&order)
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
    /// E17 where none will come, E03 for what is none, E76 where it was changed on its way.
    pub fn hear(&mut self, wait: Duration) -> Result<Option<(FromEnd, Vec<u8>)>, Problem> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            return Err(Problem::new(
                "E81",
                Exit::Unfinished,
                format!("the {} was cut off: its time was over", self.name),
            ));
        }
        match self.frames.recv_timeout(wait) {
            Ok(Ok(Some((FromEnd::Offered { addresses, program }, bytes)))) => {
                let shown = self.veil.as_mut().map_or_else(|| Ok(addresses.clone()), |veil| veil.show(&addresses));
                let addresses = shown.map_err(|error| changed(&self.name, &error))?;
                Ok(Some((FromEnd::Offered { addresses, program }, bytes)))
            }
            Ok(Ok(Some((said, bytes)))) => Ok(Some((self.parsed(said), bytes))),
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => Err(self.vanished("it closed the control channel")),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                let what = format!("the {} does not speak this version's protocol: {error}", self.name);
                Err(Problem::new("E03", Exit::CannotStart, what).hint("the same version at both ends"))
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Err(changed(&self.name, &error)),
            Ok(Err(error)) => Err(self.vanished(error)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// What it says of what failed or cannot be had, so that it can be printed.
    fn parsed(&self, said: FromEnd) -> FromEnd {
        let reason = |reason| match self.started_here {
            true => failure::reason(reason),
            false => failure::reason_of_far_end(reason),
        };
        match said {
            FromEnd::Failed(failure) if !self.started_here => FromEnd::Failed(failure.of_far_end()),
            FromEnd::Unavailable(said) => FromEnd::Unavailable(reason(said)),
            FromEnd::Busy { reason: said } => FromEnd::Busy { reason: reason(said) },
            said => said,
        }
    }

    /// Waits for the answer to what was sent last.
    ///
    /// # Errors
    /// E17 where none comes.
    pub fn answer(&mut self) -> Result<(FromEnd, Vec<u8>), Problem> {
        self.answer_within(ANSWER)
    }

    /// The same for an answer that may take longer.
    ///
    /// # Errors
    /// E17 where none comes.
    pub fn answer_within(&mut self, patience: Duration) -> Result<(FromEnd, Vec<u8>), Problem> {
        let start = Instant::now();
        loop {
            match self.hear(LOOK)? {
                Some(frame) => return Ok(frame),
                None if start.elapsed() > patience => return Err(self.late(patience)),
                None => self.keep_alive()?,
            }
        }
    }

    fn late(&self, patience: Duration) -> Problem {
        self.vanished(format!("no answer for {} s", patience.as_secs()))
    }

    /// E17: it is gone.
    pub fn vanished(&self, why: impl std::fmt::Display) -> Problem {
        match self.errors.as_ref().map(launch::newest).filter(|text| !text.is_empty()) {
            Some(text) => vanished(&self.name, format!("{why}; what started it says: {text}")),
            None => vanished(&self.name, why),
        }
    }

    /// Whether this process started it, on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.started_here
    }

    /// Its process, where it was started here.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Ends a far end that this process started: it is our own child. Its input ends first, so that it removes what it has made in the
    /// system; where it does not answer any more, it is killed.
    pub fn end_child(&mut self) {
        self.to = Box::new(io::sink());
        let Some(child) = self.child.as_mut() else { return };
        match self.found {
            None => launch::end_child(child),
            Some(_) if !launch::ends_by_itself(child) => launch::end_now(child),
            Some(_) => {}
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
        // Its input ends as well: a launcher may wait for that.
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
    /// Another one that begins, by its number.
    More(usize),
}

/// Both ends of a pair.
pub struct Pair {
    /// The end that begins: a process on this machine, or one of several clients on a host.
    pub near: Link,
    /// The end that answers.
    pub far: Link,
    /// Further ends that begin, where there are several.
    pub more: Vec<Link>,
    /// Programs of others at the far end, as they were started first.
    pub programs: BTreeMap<String, ProgramFacts>,
    /// The far end is a program on another machine, for which an agent on this one stands.
    pub away: bool,
    /// Where their data connections go, once there was one over IP.
    pub data: Option<DataRoute>,
    /// The devices by which their data leaves, of the near end and of the far end, once there was a connection over IP.
    pub devices: [Option<EndDevice>; 2],
}

impl Pair {
    /// Reaches the far end and starts a near end here.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub fn open(target: &Target, options: &ChannelOptions) -> Result<Self, Problem> {
        let far = Link::open(target, options)?;
        let mut nears = options
            .clients
            .iter()
            .map(|place| Link::client(place, options))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let near = nears.next().map_or_else(Link::near_here, Ok)?;
        Ok(Self { more: nears.collect(), ..Self::of(near, far) })
    }

    /// Two agents that run.
    pub fn of(near: Link, far: Link) -> Self {
        Self { near, far, more: Vec::new(), programs: BTreeMap::new(), away: false, data: None, devices: [None, None] }
    }

    /// The ends that begin a round: all that there are, or the first where a round has no connection for each, as a probe has.
    pub(crate) fn nears(&self, order: &RoundOrder) -> Vec<Side> {
        let all = 1 + self.more.len();
        let share = |count: u32| (count as usize).is_multiple_of(all) && count > 0;
        let more = if share(order.connections) && share(order.threads) { self.more.len() } else { 0 };
        std::iter::once(Side::Near).chain((0..more).map(Side::More)).collect()
    }

    /// An end.
    ///
    /// # Panics
    /// There is none of that number.
    pub(crate) fn link(&mut self, side: Side) -> &mut Link {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
            Side::More(at) => &mut self.more[at],
        }
    }

    /// Whether both ends answer, as far as is known without waiting.
    pub fn is_there(&mut self) -> bool {
        !self.near.is_gone() && !self.far.is_gone()
    }

    /// Both run on one machine.
    pub fn one_machine(&self) -> bool {
        self.near.environment.is_machine_of(&self.far.environment)
    }

    /// All read one CLOCK_MONOTONIC.
    pub fn one_clock(&self) -> bool {
        let mut nears = std::iter::once(&self.near).chain(&self.more);
        nears.all(|near| near.environment.shares_clock(&self.far.environment))
    }

    /// Keeps the leases of both while something else goes on.
    ///
    /// # Errors
    /// E17 where one is gone.
    pub fn keep_alive(&mut self) -> Result<(), Problem> {
        self.near.keep_alive()?;
        self.more.iter_mut().try_for_each(Link::keep_alive)?;
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
            match self.link(from).hear(LOOK)? {
                Some(frame) => return Ok(frame),
                None if from == Side::Far && start.elapsed() > ANSWER => return Err(self.far.late(ANSWER)),
                None => self.keep_alive()?,
            }
        }
    }
}
