//! The session at the far end: frames in, rounds measured, frames out. The same for the agent and for `serve`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use msgpath_core::plan::Family;
use msgpath_core::schema::{EndReport, KernelCounts};
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_paths::{Offer, TransportMeta};
use msgpath_sys::limits::remedy;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::{affinity, clock};

use crate::memory::{Budget, Share};
use crate::observe::events;
use crate::team::{Own, Team, need, no_thread, problem, thread_records};
use crate::wire::{self, Incoming, RoundOrder, ToFar, ToNear};
use crate::{counters, doctor, environment, lab, place, speed};

/// How long the far end waits for connections that were announced.
const ACCEPT: Duration = Duration::from_secs(8);
/// Between two looks at the lease and at the time of a round.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a round ends, when its threads are waited for.
const SHORT_LOOK: Duration = Duration::from_millis(20);
/// The longest lease that is given.
const LONGEST_LEASE_MS: u64 = 60_000;

/// Where the near end is, as far as the control channel tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Address of this end, for transports over IP.
    pub host: Option<IpAddr>,
    /// Address of the near end.
    pub address: Option<IpAddr>,
    /// What it may order.
    pub reach: Reach,
}

/// How far the control channel reaches: what whoever is at its other end may order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// A pipe from the process that started this one, or a Unix socket of the same user: everything.
    #[default]
    Own,
    /// A program on this machine, perhaps another user's, perhaps the end of a tunnel: nothing that puts frames on a
    /// device. The other paths between processes ask for themselves who connects.
    Machine,
    /// Anybody: what runs over IP and no more, which they could send themselves.
    Network,
}

impl Reach {
    /// Whether paths of this transport may be ordered.
    fn allows(self, meta: &TransportMeta) -> Result<(), Unavailable> {
        let name = meta.meta.name;
        let refused = |why| Err(Unavailable::new(why, format!("both ends on one machine: msgpath echo -x {name}")));
        match self {
            Reach::Machine if meta.device => {
                refused(format!("{name} sends to a network device: not for whoever may connect to this far end"))
            }
            Reach::Network if !meta.inet => {
                refused(format!("{name} does not run over IP, and this far end was reached over a network"))
            }
            _ => Ok(()),
        }
    }
}

/// What a far end gives to a session.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The memory of its rounds; nothing: as much as they want.
    pub budget: Option<Arc<Budget>>,
    /// The longest that a round may last; nothing: as long as the near end lives.
    pub round: Option<Duration>,
}

/// A session's sign of life: when the last frame came, and how long silence may last.
#[derive(Debug)]
pub struct Lease {
    last: AtomicU64,
    ns: AtomicU64,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(length: Duration) -> Self {
        let lease = Self { last: AtomicU64::new(0), ns: AtomicU64::new(length.as_nanos() as u64) };
        lease.renew();
        lease
    }

    /// Whether the near end has been silent for too long.
    pub fn is_over(&self) -> bool {
        let ns = self.ns.load(Ordering::Relaxed);
        ns > 0 && clock::now().saturating_sub(self.last.load(Ordering::Relaxed)) > ns
    }

    fn renew(&self) {
        self.last.store(clock::now(), Ordering::Relaxed);
    }
}

/// CPUs that are examined at most: each costs a thread.
const MOST_EXAMINED: usize = 64;

struct Prepared {
    share: Option<Share>,
    order: Arc<RoundOrder>,
    speed_ns: u64,
    offer: Box<dyn Offer>,
    abort: Arc<AtomicBool>,
}

/// A round that is going on.
struct Started {
    team: Team,
    may_be_cut: bool,
    speed_ns: u64,
    before: counters::Sample,
    since: Instant,
    /// Goes back when the round is over.
    _share: Option<Share>,
}

impl Started {
    /// Whether the round has lasted for longer than this far end gives it.
    fn is_too_long(&self, terms: &Terms) -> bool {
        terms.round.is_some_and(|most| self.since.elapsed() > most)
    }
}

/// The control channel, read without ever waiting for the rest of a frame.
struct Control<'a, F> {
    from: &'a mut F,
    incoming: Incoming,
    lease: &'a Lease,
}

/// What came over it.
enum Heard {
    Message(ToFar),
    Nothing,
    /// The near end has closed it.
    End,
}

impl<F: Read + AsFd> Control<'_, F> {
    /// Listens for so long at most.
    fn hear(&mut self, wait: Duration) -> io::Result<Heard> {
        match poll(self.from.as_fd(), Interest::Read, wait.as_millis() as i32) {
            Ok(true) => {}
            Ok(false) => return self.nothing(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.nothing(),
            Err(error) => return Err(error),
        }
        match self.incoming.fill(self.from) {
            Ok(0) if self.incoming.is_empty() => return Ok(Heard::End),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match self.incoming.take()? {
            Some((message, _)) => {
                self.lease.renew();
                Ok(Heard::Message(message))
            }
            None => self.nothing(),
        }
    }

    fn nothing(&self) -> io::Result<Heard> {
        match self.lease.is_over() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "the near end was silent for too long")),
            false => Ok(Heard::Nothing),
        }
    }

    /// Waits for the threads of a round. They end early when the near end goes, and when the round takes too long.
    fn wait_for(&mut self, started: &mut Started, terms: &Terms) -> io::Result<()> {
        while !started.team.wait(SHORT_LOOK) {
            match self.hear(Duration::ZERO)? {
                Heard::Nothing | Heard::Message(ToFar::Alive) => {}
                Heard::Message(_) | Heard::End => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
            if started.is_too_long(terms) {
                started.team.abort();
                started.team.kick();
            }
        }
        Ok(())
    }
}

/// The kernel's counters, read by all sessions of this process through the same files.
fn kernel() -> MutexGuard<'static, counters::Reader> {
    static KERNEL: OnceLock<Mutex<counters::Reader>> = OnceLock::new();
    let reader = KERNEL.get_or_init(|| Mutex::new(counters::Reader::new(&affinity::allowed())));
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one near end until it says bye or closes. `first`: what it has said already.
///
/// # Errors
/// As the streams; `InvalidData` for anything that is not this protocol. No thread is left behind.
pub fn session(
    from: &mut (impl Read + AsFd),
    to: &mut impl Write,
    first: Option<ToFar>,
    peer: Peer,
    terms: &Terms,
    lease: &Lease,
) -> io::Result<()> {
    let mut team: Option<Started> = None;
    let mut control = Control { from, incoming: Incoming::new::<ToFar>(), lease };
    let result = converse(&mut control, to, first, peer, terms, &mut team);
    match team.is_none_or(|started| started.team.abandon()) {
        true => result,
        false => Err(io::Error::other("a measuring thread does not end")),
    }
}

fn converse<F: Read + AsFd>(
    control: &mut Control<'_, F>,
    to: &mut impl Write,
    mut first: Option<ToFar>,
    peer: Peer,
    terms: &Terms,
    team: &mut Option<Started>,
) -> io::Result<()> {
    let out_of_turn = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut prepared: Option<Prepared> = None;
    loop {
        let message = match first.take() {
            Some(message) => message,
            None => match control.hear(LOOK)? {
                Heard::Message(message) => message,
                Heard::End => return Ok(()),
                Heard::Nothing => {
                    if let Some(started) = team.as_ref().filter(|started| started.is_too_long(terms)) {
                        started.team.abort();
                        started.team.kick();
                    }
                    continue;
                }
            },
        };
        let (answer, bytes) = match message {
            ToFar::Hello { lease_ms, .. } => {
                control.lease.ns.store(lease_ms.clamp(100, LONGEST_LEASE_MS) * 1_000_000, Ordering::Relaxed);
                let hello = ToNear::Hello {
                    version: env!("CARGO_PKG_VERSION").into(),
                    environment: Box::new(environment::read()),
                    cpus: place::cpu_order(),
                    counters: kernel().names(),
                    events: Box::new(events::set().facts().clone()),
                };
                (hello, Vec::new())
            }
            ToFar::Examine(mut order) => {
                order.peer = peer.address.or(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
                order.cpus.truncate(MOST_EXAMINED);
                let checks = doctor::examine(&order);
                control.lease.renew(); // the near end keeps quiet while it waits
                (ToNear::Examined { checks }, Vec::new())
            }
            ToFar::Round(order) => {
                prepared = None;
                let answer = match prepare(*order, peer, terms) {
                    Ok(ready) => {
                        let addresses = ready.offer.addresses();
                        prepared = Some(ready);
                        ToNear::Offered { addresses }
                    }
                    Err(reason) => ToNear::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToFar::Connect { locals } => {
                let Some(prepared) = prepared.take().filter(|one| locals.len() == one.order.connections as usize)
                else {
                    return out_of_turn("a connection that was not prepared");
                };
                if let Some(before) = team.take() {
                    before.team.abandon(); // a round that nobody finished
                }
                let (may_be_cut, speed_ns) = (prepared.order.patience_ns > 0, prepared.speed_ns);
                let answer = match accept(prepared, &locals) {
                    Ok((started, ready, share)) => {
                        let before = kernel().read();
                        started.go();
                        let (threads, since) = (started.traced().to_vec(), Instant::now());
                        *team = Some(Started { team: started, may_be_cut, speed_ns, before, since, _share: share });
                        ToNear::Ready { granted: ready.granted, room: ready.room, threads }
                    }
                    Err(reason) => ToNear::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToFar::Finish => {
                let Some(started) = team else { return out_of_turn("the end of a round that was not begun") };
                let counted = kernel().read().since(&started.before);
                started.team.finish();
                if started.may_be_cut {
                    started.team.abort(); // whoever still waits waits for messages that will not come
                }
                control.wait_for(started, terms)?;
                let too_long = started.is_too_long(terms);
                match team.take() {
                    Some(_) if too_long => (ToNear::Failed(lasted_too_long(terms)), Vec::new()),
                    Some(Started { team, speed_ns, .. }) => bring_home(team, counted, speed_ns),
                    None => return out_of_turn("the end of a round that was not begun"),
                }
            }
            ToFar::Alive => continue,
            ToFar::Bye => return Ok(()),
        };
        wire::write(to, &answer, &bytes)?;
    }
}

fn lasted_too_long(terms: &Terms) -> Problem {
    let most = terms.round.map_or(0, |most| most.as_secs());
    Problem::new("E18", Exit::Unfinished, format!("a round took longer than the {most} s that the far end allows"))
        .hint("shorter rounds: more of them with -r, or fewer messages with -c")
}

fn prepare(order: RoundOrder, peer: Peer, terms: &Terms) -> Result<Prepared, Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path).ok_or_else(|| {
        Unavailable::new(format!("the far end does not know {}", order.path), "the same version there")
    })?;
    peer.reach.allows(entry.transport.meta())?;
    let share = terms.budget.as_ref().map(|budget| budget.take(order.memory())).transpose()?;
    let host = peer.host.unwrap_or(match order.options.family {
        Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    });
    let abort = Arc::new(AtomicBool::new(false));
    let need = need(&order, &entry, host, peer.address, Arc::clone(&abort));
    entry.transport.suits(&order.options, need.largest)?;
    let offer = entry.transport.offer(&need).map_err(|error| {
        Unavailable::new(format!("the far end cannot offer {}: {error}", order.path), remedy(&error))
    })?;
    Ok(Prepared { share, order: Arc::new(order), speed_ns: speed::probe(), offer, abort })
}

type Accepted = (Team, crate::thread::Ready, Option<Share>);

fn accept(mut prepared: Prepared, locals: &[String]) -> Result<Accepted, Unavailable> {
    let channels = prepared
        .offer
        .accept(locals, ACCEPT)
        .map_err(|error| Unavailable::new(format!("the far end could not accept: {error}"), remedy(&error)))?;
    let own = Own { near: false, cpus: prepared.order.cpus.clone(), batch: 1, keep: 0, load: None };
    let (team, ready) = Team::start(&prepared.order, &own, channels, prepared.abort)?;
    Ok((team, ready, prepared.share))
}

fn bring_home(team: Team, kernel: KernelCounts, speed_ns: u64) -> (ToNear, Vec<u8>) {
    match team.outcomes() {
        Ok(outcomes) => {
            let mut report = EndReport::default();
            let mut stamps = Vec::new();
            let mut bytes = Vec::new();
            for (at, outcome) in outcomes.iter().enumerate() {
                match at {
                    0 => report = outcome.report,
                    _ => report.add(&outcome.report),
                }
                // A frame is limited; what does not fit is not sent, and the near end sees how many there are.
                let columns = if outcome.stamps.left.is_empty() { 1 } else { 2 };
                let room = (wire::MAX_BYTES - bytes.len()) / 8 / columns;
                let sent = outcome.stamps.arrived.len().min(room);
                stamps.push(sent as u32);
                // The stamps of a message that was cut off before its reply are of different length.
                let column = |stamps: &[u64]| stamps.iter().copied().chain(std::iter::repeat(0)).take(sent).collect();
                let mut all: Vec<u64> = column(&outcome.stamps.arrived);
                if columns == 2 {
                    all.extend(column(&outcome.stamps.left) as Vec<u64>);
                }
                bytes.extend(all.into_iter().flat_map(u64::to_le_bytes));
            }
            let events = events::together(outcomes.iter().map(|outcome| &outcome.events));
            let threads = thread_records(&outcomes);
            (ToNear::Done { report: Box::new(report), kernel, speed_ns, events, threads, stamps }, bytes)
        }
        Err(error) => (ToNear::Failed(problem(&error, "far")), Vec::new()),
    }
}

/// The agent: a session over standard input and output. Ends when its parent does (the input ends then), or when the
/// lease is over; in both cases it tidies up, which a signal would not let it do.
///
/// `place`: the file of a network namespace to move to, the own address there, and that of the near end; nothing to stay
/// where it was started.
pub fn agent(place: &[String]) -> std::process::ExitCode {
    msgpath_sys::signal::ignore_interrupt();
    let peer = match peer_at(place) {
        Ok(peer) => peer,
        Err(problem) => {
            eprintln!("{problem}");
            return problem.exit.code().into();
        }
    };
    // It was started as /proc/self/exe, which is no name to find it by.
    let _ = std::fs::write("/proc/self/comm", "msgpath");
    let lease = Arc::new(Lease::new(Duration::from_secs(10)));
    let watched = Arc::clone(&lease);
    let watch = std::thread::Builder::new().name("lease".into()).spawn(move || {
        while !watched.is_over() {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::process::exit(Exit::Unfinished.code().into());
    });
    if let Err(error) = watch {
        let _ = wire::write(&mut io::stdout().lock(), &ToNear::Busy { reason: no_thread(&error) }, &[]);
        return Exit::CannotStart.code().into();
    }
    // Not through a buffer of its own: what is to be read is what poll(2) sees.
    let input = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(input) => input,
        Err(error) => {
            eprintln!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
            return Exit::Unfinished.code().into();
        }
    };
    match session(&mut File::from(input), &mut io::stdout().lock(), None, peer, &Terms::default(), &lease) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
            Exit::Unfinished.code().into()
        }
    }
}

/// Moves to a place and says who is where.
fn peer_at(place: &[String]) -> Result<Peer, Problem> {
    let wrong = || Problem::new("E19", Exit::CannotStart, "the place of the agent is not what it should be");
    match place {
        [] => Ok(Peer::default()),
        [namespace, own, near] => {
            lab::enter_namespace(namespace)?;
            let address = |text: &String| text.parse::<IpAddr>().map_err(|_| wrong());
            Ok(Peer { host: Some(address(own)?), address: Some(address(near)?), reach: Reach::Own })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, channel};

    use msgpath_core::plan::{Dispatch, Workload};
    use msgpath_core::units::Pieces;
    use msgpath_paths::registry::TRANSPORTS;
    use msgpath_paths::{AnyChannel, Channel, Driver, End, Layout, Method, Wait, transport, with_ends};

    use super::*;
    use crate::memory::tests::order;
    use crate::payload::{Payload, pattern};

    /// A limit that only a session which does not end reaches.
    const NEVER: Duration = Duration::from_secs(30);

    /// The near end of a session, by hand.
    struct Near {
        control: UnixStream,
        ended: Receiver<io::Result<()>>,
        lease: Arc<Lease>,
    }

    impl Near {
        fn new(reach: Reach, terms: Terms) -> Self {
            let (control, mut far) = UnixStream::pair().unwrap();
            let (done, ended) = channel();
            let lease = Arc::new(Lease::new(Duration::from_secs(60)));
            let kept = Arc::clone(&lease);
            std::thread::spawn(move || {
                let mut write = far.try_clone().unwrap();
                let peer = Peer { reach, ..Peer::default() };
                let _ = done.send(session(&mut far, &mut write, None, peer, &terms, &kept));
            });
            Self { control, ended, lease }
        }

        fn say(&mut self, message: &ToFar) {
            wire::write(&mut self.control, message, &[]).unwrap();
        }

        fn asks(&mut self, message: &ToFar) -> ToNear {
            self.say(message);
            wire::read(&mut self.control).unwrap().unwrap().0
        }

        fn orders(&mut self, order: &RoundOrder) -> ToNear {
            self.asks(&ToFar::Round(Box::new(order.clone())))
        }

        /// Begins a round; this end's channels.
        fn begins(&mut self, order: &RoundOrder) -> Vec<AnyChannel> {
            let ToNear::Offered { addresses } = self.orders(order) else { panic!("{}: no offer", order.path) };
            let entry = Entry::find(&order.path).unwrap();
            let need = need(order, &entry, IpAddr::V4(Ipv4Addr::LOCALHOST), None, Arc::default());
            let connected = addresses.iter().map(|address| entry.transport.connect(address, &need).unwrap());
            let (channels, locals) = connected.unzip();
            let ready = self.asks(&ToFar::Connect { locals });
            assert!(matches!(ready, ToNear::Ready { .. }), "{}: {ready:?}", order.path);
            channels
        }
    }

    /// Sends, or receives, until it cannot any more; counts what came.
    struct Traffic {
        sends: bool,
        came: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    }

    impl Driver for Traffic {
        type Out = ();
        fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
            let End { channel, method, wait } = &mut ends[0];
            let (mut bytes, payload) = ([0; 64], Payload::new(Pieces::whole(64)));
            while !self.stop.load(Ordering::Relaxed) {
                let sequence = self.came.load(Ordering::Relaxed);
                let done = match self.sends {
                    true => method
                        .slot(channel)
                        .map(|slot| payload.number(slot, sequence))
                        .and_then(|()| method.send(channel))
                        .map(|()| 1),
                    false => wait.recv(channel, &mut bytes),
                };
                match done {
                    Ok(0) => return,
                    Ok(_) => drop(self.came.fetch_add(1, Ordering::Relaxed)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    }

    /// The round that never ends by itself: an echo server that waits, a receiver in a flood, a sender.
    fn endless(path: &msgpath_core::PathName, role: &str) -> RoundOrder {
        RoundOrder {
            path: path.clone(),
            workload: if role == "echo" { Workload::Echo } else { Workload::Stream },
            reverse: role == "sender",
            messages: 1 << 39,
            ..order("tcp:send")
        }
    }

    /// Nothing must run on when the control channel has closed, whatever the near end does with its data connections.
    /// How long it took: until the session had ended, and until the last message came.
    fn ends_with_its_control_channel(order: &RoundOrder, role: &str, finishing: bool) -> Duration {
        let what = format!("{} {role}, finishing: {finishing}", order.path);
        let mut near = Near::new(Reach::Own, Terms::default());
        let channels = near.begins(order);
        let (came, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let traffic = Traffic { sends: role == "receiver", came: Arc::clone(&came), stop: Arc::clone(&stop) };
        let (path, options) = (order.path.clone(), order.options.clone());
        let mut kept = None;
        if role == "echo" {
            kept = Some(channels); // open and silent
        } else {
            // Left behind where nothing ends a full queue that nobody reads.
            std::thread::spawn(move || {
                let layout = Layout { pieces: Pieces::whole(64), inflight: 1, copies: 1, content: pattern };
                let _ = with_ends(&path, channels, layout, &options, traffic);
            });
            let begun = Instant::now();
            while came.load(Ordering::Relaxed) < 100 && begun.elapsed() < NEVER {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(came.load(Ordering::Relaxed) >= 100, "{what}: nothing came");
        }
        if finishing {
            near.say(&ToFar::Finish);
        }
        drop(near.control);
        let closed = Instant::now();
        let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{what}: it goes on"));
        let left = ended.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!left.contains("does not end"), "{what}: {left}");
        let mut took = closed.elapsed();
        // What lies in the kernel's buffers still comes, and then nothing more.
        let (mut seen, mut quiet) = (came.load(Ordering::Relaxed), Instant::now());
        let begun = Instant::now();
        while role == "sender" && quiet.elapsed() < Duration::from_millis(100) {
            assert!(begun.elapsed() < NEVER, "{what}: messages keep coming");
            std::thread::sleep(Duration::from_millis(5));
            let now = came.load(Ordering::Relaxed);
            if now != seen {
                (seen, quiet, took) = (now, Instant::now(), closed.elapsed());
            }
        }
        stop.store(true, Ordering::Relaxed);
        drop(kept);
        println!(
            "{:<16} {role:<9} {}{:.1} ms",
            order.path.to_string(),
            if finishing { "finishing " } else { "" },
            took.as_secs_f64() * 1e3
        );
        took
    }

    /// Every transport and role, and the longest that one of them took.
    fn all_end_with_their_control_channel() -> Duration {
        let mut longest = Duration::ZERO;
        for transport in TRANSPORTS {
            let meta = transport.meta();
            let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
            if let Err(reason) = transport.probe() {
                eprintln!("skipped: {path}: {}", reason.why);
                continue;
            }
            for role in ["echo", "receiver", "sender"] {
                for finishing in [false, true] {
                    longest = longest.max(ends_with_its_control_channel(&endless(&path, role), role, finishing));
                }
            }
        }
        let spin = "shm:ring/spin".parse::<msgpath_core::path::PathSpec>().unwrap();
        let spin = msgpath_paths::resolve(&spin, None).unwrap();
        longest = longest.max(ends_with_its_control_channel(&endless(&spin, "echo"), "echo", true));
        let epoll = msgpath_core::PathName::new("tcp", "send", "epoll");
        let looping = RoundOrder { dispatch: Dispatch::EventLoop, ..endless(&epoll, "echo") };
        longest.max(ends_with_its_control_channel(&looping, "echo", true))
    }

    #[test]
    fn nothing_runs_on_when_the_control_channel_has_closed() {
        all_end_with_their_control_channel();
    }

    #[test]
    #[ignore = "a time limit, for a quiet machine: docs/serve.md names the command"]
    fn everything_ends_within_500_ms_of_its_control_channel() {
        let longest = all_end_with_their_control_channel();
        println!("the longest: {:.1} ms", longest.as_secs_f64() * 1e3);
        assert!(longest < Duration::from_millis(500), "{longest:?}");
    }

    #[test]
    fn who_came_over_a_network_gets_paths_over_ip_only() {
        for (reach, wanted) in [(Reach::Network, "does not run over IP"), (Reach::Machine, "network device")] {
            let mut near = Near::new(reach, Terms::default());
            for transport in TRANSPORTS {
                let meta = transport.meta();
                let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
                let answer = near.orders(&RoundOrder { path, ..order("tcp:send") });
                let refused = matches!(&answer, ToNear::Unavailable(reason) if reason.why.contains(wanted));
                let must = if reach == Reach::Network { !meta.inet } else { meta.device };
                assert_eq!(refused, must, "{reach:?} {}: {answer:?}", meta.meta.name);
            }
        }
        assert!(Reach::Own.allows(transport("eth").unwrap().meta()).is_ok());
        assert!(transport("eth").unwrap().meta().device && !transport("eth").unwrap().meta().inet);
    }

    #[test]
    fn memory_is_promised_before_it_is_taken() {
        let terms = Terms { budget: Some(Budget::new(8 << 20)), round: None };
        let (mut first, mut second) = (Near::new(Reach::Network, terms.clone()), Near::new(Reach::Network, terms));
        let large = RoundOrder { connections: 3, threads: 3, pieces: Pieces::whole(1 << 30), ..order("tcp:send") };
        let ToNear::Unavailable(reason) = first.orders(&large) else { panic!("it was taken") };
        assert!(reason.hint.contains("--memory"), "{reason:?}");
        let half = RoundOrder { pieces: Pieces::whole(1 << 20), reply: 1 << 20, ..order("tcp:send") };
        assert!(matches!(first.orders(&half), ToNear::Offered { .. }));
        let ToNear::Unavailable(reason) = second.orders(&half) else { panic!("it was taken") };
        assert!(reason.why.contains("busy"), "{reason:?}");
        // What the first one does not want any more, the second one gets; it has lost nothing by the answer.
        assert!(matches!(first.orders(&order("tcp:send")), ToNear::Offered { .. }));
        assert!(matches!(second.orders(&half), ToNear::Offered { .. }));
    }

    #[test]
    fn a_round_ends_when_its_time_is_over() {
        let terms = Terms { budget: None, round: Some(Duration::from_millis(30)) };
        for role in ["echo", "sender"] {
            let mut near = Near::new(Reach::Network, terms.clone());
            let _channels = near.begins(&endless(&order("tcp:send").path, role));
            let ToNear::Failed(problem) = near.asks(&ToFar::Finish) else { panic!("{role}: it lasted") };
            assert!(problem.to_string().contains("longer than"), "{problem}");
            assert!(matches!(near.orders(&order("tcp:send")), ToNear::Offered { .. }), "the session goes on");
        }
    }

    #[test]
    fn a_lease_is_short_and_silence_ends_a_session() {
        let mut near = Near::new(Reach::Network, Terms::default());
        near.asks(&ToFar::Hello { version: String::new(), lease_ms: 3_600_000 });
        assert_eq!(near.lease.ns.load(Ordering::Relaxed), 60_000_000_000);
        near.asks(&ToFar::Hello { version: String::new(), lease_ms: 1 });
        let ended = near.ended.recv_timeout(NEVER).expect("it ends");
        assert!(ended.unwrap_err().to_string().contains("silent"));
    }
}
