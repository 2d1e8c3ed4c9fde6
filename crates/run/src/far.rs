//! The session at the far end: frames in, rounds measured, frames out. The same for the agent and for `serve`.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use msgpath_core::plan::Family;
use msgpath_core::schema::{EndReport, KernelCounts};
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_paths::Offer;
use msgpath_paths::registry::Entry;
use msgpath_sys::{affinity, clock};

use crate::observe::events;
use crate::team::{Own, Team, need, problem, thread_records};
use crate::wire::{self, RoundOrder, ToFar, ToNear};
use crate::{counters, doctor, environment, lab, place, speed};

/// How long the far end waits for connections that were announced.
const ACCEPT: Duration = Duration::from_secs(5);

/// Where the near end is, as far as the control channel tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Address of this end, for transports over IP.
    pub host: Option<IpAddr>,
    /// Address of the near end.
    pub address: Option<IpAddr>,
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
}

/// Serves one near end until it says bye or closes.
///
/// # Errors
/// As the streams; `InvalidData` for anything that is not this protocol. No thread is left behind.
pub fn session(from: &mut impl Read, to: &mut impl Write, peer: Peer, lease: &Lease) -> io::Result<()> {
    let mut prepared: Option<Prepared> = None;
    let mut team: Option<Started> = None;
    let mut counters = counters::Reader::new(&affinity::allowed());
    let result = loop {
        let message = match wire::read::<ToFar>(from) {
            Ok(Some((message, _))) => message,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        lease.renew();
        let answer = match message {
            ToFar::Hello { lease_ms, .. } => {
                lease.ns.store(lease_ms.clamp(100, 3_600_000) * 1_000_000, Ordering::Relaxed);
                Some((
                    ToNear::Hello {
                        version: env!("CARGO_PKG_VERSION").into(),
                        environment: Box::new(environment::read()),
                        cpus: place::cpu_order(),
                        counters: counters.names(),
                        events: Box::new(events::set().facts().clone()),
                    },
                    Vec::new(),
                ))
            }
            ToFar::Examine(mut order) => {
                order.peer = peer.address.or(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
                order.cpus.truncate(MOST_EXAMINED);
                let checks = doctor::examine(&order);
                lease.renew(); // the near end keeps quiet while it waits
                Some((ToNear::Examined { checks }, Vec::new()))
            }
            ToFar::Round(order) => {
                prepared = None;
                Some((
                    match prepare(*order, peer) {
                        Ok(ready) => {
                            let addresses = ready.offer.addresses();
                            prepared = Some(ready);
                            ToNear::Offered { addresses }
                        }
                        Err(reason) => ToNear::Unavailable(reason),
                    },
                    Vec::new(),
                ))
            }
            ToFar::Connect { locals } => Some((
                match prepared.take() {
                    Some(prepared) if locals.len() == prepared.order.connections as usize => {
                        let (may_be_cut, speed_ns) = (prepared.order.patience_ns > 0, prepared.speed_ns);
                        match accept(prepared, &locals) {
                            Ok((started, ready)) => {
                                let before = counters.read();
                                started.go();
                                let threads = started.traced().to_vec();
                                team = Some(Started { team: started, may_be_cut, speed_ns, before });
                                ToNear::Ready { granted: ready.granted, room: ready.room, threads }
                            }
                            Err(reason) => ToNear::Unavailable(reason),
                        }
                    }
                    _ => break Err(io::Error::new(io::ErrorKind::InvalidData, "a connection that was not prepared")),
                },
                Vec::new(),
            )),
            ToFar::Finish => match team.take() {
                Some(Started { team, may_be_cut, speed_ns, before }) => {
                    let kernel = counters.read().since(&before);
                    team.finish();
                    if may_be_cut {
                        team.abort(); // whoever still waits waits for messages that will not come
                    }
                    Some(bring_home(team, kernel, speed_ns))
                }
                None => break Err(io::Error::new(io::ErrorKind::InvalidData, "the end of a round that was not begun")),
            },
            ToFar::Alive => None,
            ToFar::Bye => break Ok(()),
        };
        if let Some((answer, bytes)) = answer
            && let Err(error) = wire::write(to, &answer, &bytes)
        {
            break Err(error);
        }
    };
    if let Some(Started { team, .. }) = team {
        team.abort();
        let _ = team.outcomes();
    }
    result
}

fn prepare(order: RoundOrder, peer: Peer) -> Result<Prepared, Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path).ok_or_else(|| {
        Unavailable::new(format!("the far end does not know {}", order.path), "the same version there")
    })?;
    let host = peer.host.unwrap_or(match order.options.family {
        Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    });
    let abort = Arc::new(AtomicBool::new(false));
    let need = need(&order, &entry, host, peer.address, Arc::clone(&abort));
    entry.transport.suits(&order.options, need.largest)?;
    let offer = entry
        .transport
        .offer(&need)
        .map_err(|error| Unavailable::new(format!("the far end cannot offer {}: {error}", order.path), ""))?;
    Ok(Prepared { order: Arc::new(order), speed_ns: speed::probe(), offer, abort })
}

fn accept(mut prepared: Prepared, locals: &[String]) -> Result<(Team, crate::thread::Ready), Unavailable> {
    let channels = prepared
        .offer
        .accept(locals, ACCEPT)
        .map_err(|error| Unavailable::new(format!("the far end could not accept: {error}"), ""))?;
    let own = Own { near: false, cpus: prepared.order.cpus.clone(), batch: 1, keep: 0, load: None };
    Team::start(&prepared.order, &own, channels, prepared.abort)
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
    std::thread::spawn(move || {
        while !watched.is_over() {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::process::exit(Exit::Unfinished.code().into());
    });
    match session(&mut io::stdin().lock(), &mut io::stdout().lock(), peer, &lease) {
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
            Ok(Peer { host: Some(address(own)?), address: Some(address(near)?) })
        }
        _ => Err(wrong()),
    }
}
