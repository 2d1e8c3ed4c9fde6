//! A round on its way: prepared by the far end, dialled by the near end, going on at either.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use msgpath_core::plan::Family;
use msgpath_core::schema::EndDevice;
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_paths::transport::Need;
use msgpath_paths::{AnyChannel, Offer};
use msgpath_sys::limits::{allow_all_open_files, remedy};
use msgpath_sys::{clock, mark};

use super::Terms;
use super::lease::Lease;
use crate::memory::Share;
use crate::presence::Presence;
use crate::privileges::{Peer, Privilege, Reach};
use crate::program::first_reply;
use crate::team::{Team, need};
use crate::wire::{Dial, FromEnd, Own, RoundOrder};
use crate::{confine, counters, route, speed, works};

/// How long the far end waits for connections that were announced.
pub(super) const ACCEPT: Duration = Duration::from_secs(8);
/// Connections for which the usual limit of 1024 descriptors is enough: each takes up to four.
const USUAL_CONNECTIONS: u32 = 128;

pub(super) struct Prepared {
    pub(super) shares: Shares,
    pub(super) order: Arc<RoundOrder>,
    pub(super) speed_ns: u64,
    pub(super) offer: Box<dyn Offer>,
    pub(super) abort: Arc<AtomicBool>,
}

/// Memory and CPUs that a round has taken. They go back when it is over.
pub(super) type Shares = [Option<Share>; 2];

/// The near end of a round, connected.
pub(super) struct Dialled {
    pub(super) order: Arc<RoundOrder>,
    pub(super) own: Own,
    pub(super) stall: Duration,
    pub(super) speed_ns: u64,
    pub(super) channels: Vec<AnyChannel>,
    /// Connections to a program of others, kept until its end has told what the round took there.
    pub(super) kept: Vec<AnyChannel>,
    pub(super) abort: Arc<AtomicBool>,
}

/// A round that is going on.
pub(super) struct Started {
    pub(super) team: Team,
    pub(super) may_be_cut: bool,
    /// The near end's, which goes by itself and says when it is over: how long all threads may stand still.
    pub(super) stall: Option<Duration>,
    /// Its threads were told to go, and nobody was told yet that they have ended.
    pub(super) running: bool,
    pub(super) speed_ns: u64,
    pub(super) before: counters::Sample,
    pub(super) since: Instant,
    pub(super) looks: Looks,
    pub(super) _shares: Shares,
    /// The kernel is traced meanwhile.
    pub(super) traced: bool,
    /// See [`Dialled::kept`]; and whether every message that was sent has been waited for.
    pub(super) kept: Vec<AnyChannel>,
    pub(super) answered: bool,
}

/// When a session last looked after its round. It comes back soon, unless its process is stopped.
pub(super) struct Looks {
    last: Instant,
    longest: Duration,
}

impl Looks {
    pub(super) fn begin() -> Self {
        Self { last: Instant::now(), longest: Duration::ZERO }
    }

    pub(super) fn look(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }

    /// The longest time between two looks, ns.
    pub(super) fn longest_ns(&self) -> u64 {
        self.longest.as_nanos() as u64
    }
}

impl Started {
    /// Whether the round has lasted for longer than this far end gives it.
    pub(super) fn is_too_long(&self, terms: &Terms) -> bool {
        terms.round.is_some_and(|most| self.since.elapsed() > most)
    }
}

/// Whether a round takes nothing but the network: no program, and no path that stays on a machine or puts frames on a device.
pub(super) fn runs_over_ip(order: &RoundOrder) -> bool {
    order.program.is_none() && Entry::find(&order.path).is_some_and(|entry| entry.transport.meta().inet)
}

pub(super) fn lasted_too_long(terms: &Terms) -> Problem {
    let most = terms.round.map_or(0, |most| most.as_secs());
    Problem::new("E18", Exit::Unfinished, format!("a round took longer than the {most} s that the far end allows"))
        .hint("shorter rounds: more of them with -r, or fewer messages with -c")
}

pub(super) fn prepare(
    order: RoundOrder,
    peer: Peer,
    terms: &Terms,
    presence: &Presence,
) -> Result<Prepared, Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path).ok_or_else(|| {
        Unavailable::new(format!("the far end does not know {}", order.path), "the same version there")
    })?;
    peer.may_order(&order, entry.transport.meta())?;
    let memory = terms.budget.as_ref().map(|budget| budget.take(order.memory())).transpose()?;
    let cpus = if peer.may(Privilege::Spinning) { None } else { terms.spinning.take(&order)? };
    allow_descriptors(&order);
    let host = host_of(&order, peer);
    let abort = presence.round();
    // Whoever gave the order by a pipe may have any address here: a translator, or a host on which it logged in first.
    let near = peer.address.filter(|_| !matches!(peer.reach, Reach::Own | Reach::Joined));
    let need = Need { data_ports: terms.data_ports, ..need(&order, &entry, host, near, Arc::clone(&abort)) };
    entry.transport.suits(&order.options, need.largest)?;
    let offer = entry.transport.offer(&need).map_err(|error| {
        Unavailable::new(format!("the far end cannot offer {}: {error}", order.path), remedy(&error))
    })?;
    Ok(Prepared { shares: [memory, cpus], order: Arc::new(order), speed_ns: speed::probe(), offer, abort })
}

/// Raises the limit on descriptors where there are many connections: what is refused is said by who needs one.
fn allow_descriptors(order: &RoundOrder) {
    if order.connections > USUAL_CONNECTIONS {
        let _ = allow_all_open_files();
    }
}

/// The address of this end.
pub(super) fn host_of(order: &RoundOrder, peer: Peer) -> SocketAddr {
    peer.host.unwrap_or(match order.options.family {
        Family::V6 => (Ipv6Addr::LOCALHOST, 0).into(),
        _ => (Ipv4Addr::LOCALHOST, 0).into(),
    })
}

/// A far end's part of a round that waits for messages.
pub(super) struct Accepted {
    pub(super) team: Team,
    pub(super) ready: crate::thread::Ready,
    pub(super) shares: Shares,
    /// From where the first connection comes, and by which device what goes back leaves, over IP.
    pub(super) seen: Option<IpAddr>,
    pub(super) device: Option<Box<EndDevice>>,
}

pub(super) fn accept(prepared: Prepared, locals: Vec<String>, told: &mut bool) -> Result<Accepted, Unavailable> {
    let mut offer = prepared.offer;
    // `procvm` tries here to read the memory of the other end, which threads that listen may not.
    let accepted = confine::outside(move || {
        let channels = offer.accept(&locals, ACCEPT);
        let listening = offer.listening();
        (offer, channels, listening)
    });
    let refused = |error: io::Error| Unavailable::new(format!("the far end could not accept: {error}"), remedy(&error));
    let (_offer, channels, listening) = accepted.map_err(refused)?;
    let channels = channels.map_err(refused)?;
    let listening = if works::find(prepared.order.workload).is_some() { listening.map_err(refused)? } else { None };
    let (seen, device) = (channels.first().and_then(AnyChannel::peer), device(&channels, told));
    let own = Own { near: false, cpus: prepared.order.cpus.clone(), batch: 1, keep: 0, load: None };
    let (team, ready) = Team::start(&prepared.order, &own, channels, prepared.abort, listening)?;
    Ok(Accepted { team, ready, shares: prepared.shares, seen, device })
}

/// The device by which the packets of the first of these connections leave, over IP. A session tells it once: all devices of the
/// machine are asked for.
pub(super) fn device(channels: &[AnyChannel], told: &mut bool) -> Option<Box<EndDevice>> {
    let Some(AnyChannel::Socket(socket)) = channels.first().filter(|_| !*told) else { return None };
    let bound = mark::bound_device(socket.fd()).ok().filter(|name| !name.is_empty());
    let device = route::device(socket.peer()?, bound.as_deref())?;
    *told = true;
    Some(Box::new(device))
}

/// Connects the near end of a round to the far end, which is prepared.
pub(super) fn dial(order: Dial, lease: &Lease, presence: &Presence) -> Result<(Dialled, FromEnd), Unavailable> {
    let Dial { order, own, peer, addresses } = order;
    order.check().map_err(|what| Unavailable::new(format!("the near end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", order.path), "msgpath paths"))?;
    allow_descriptors(&order);
    let speed_ns = speed::probe();
    let abort = presence.round();
    let need = need(&order, &entry, (Ipv4Addr::LOCALHOST, 0).into(), peer, Arc::clone(&abort));
    let (mut channels, mut locals, mut connect_ns) = (Vec::new(), Vec::new(), 0);
    for address in &addresses {
        let start = clock::now();
        let connected = match &order.program {
            None => entry.transport.connect(address, &need),
            Some(_) => entry.transport.connect_to_program(address, &need).map(|channel| (channel, String::new())),
        };
        let (channel, local) =
            connected.map_err(|error| Unavailable::new(format!("{}: {error}", order.path), remedy(&error)))?;
        connect_ns = connect_ns.max(clock::now() - start);
        lease.renew(); // lost handshakes take seconds each
        channels.push(channel);
        locals.push(local);
    }
    let mut kept = Vec::new();
    if let Some(program) = &order.program {
        first_reply::answers(&order, program, &channels, &need.limits)?;
        lease.renew();
        kept = channels;
        let twice = kept.iter().map(AnyChannel::duplicate).collect::<io::Result<_>>();
        channels = twice.map_err(|error| Unavailable::new(format!("a second descriptor: {error}"), remedy(&error)))?;
    }
    let stall = need.limits.stall;
    let dialled = Dialled { order: Arc::new(order), own, stall, speed_ns, channels, kept, abort };
    Ok((dialled, FromEnd::Connected { locals, connect_ns }))
}
