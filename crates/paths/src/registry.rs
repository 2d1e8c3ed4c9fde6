//! The registry: every transport, send method and wait, each one line. What the rest of the program knows of paths
//! comes from here.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use msgpath_core::path::nearest;
use msgpath_core::{Exit, PathName, PathSpec, Problem, Traits, Unavailable};

use crate::channel::Channel;
use crate::end::{AnyMethod, AnyWait, End, Layout, Method, Wait};
use crate::meta::{Family, Meta, Part, TransportMeta, Wakes};
use crate::transport::{Need, Transport};

/// What is done with the ends of a path, written once for all paths. The call is generic: the send method is called
/// directly, and so is the wait where no call enters the kernel ([`FamilyParts::waits_directly`]).
pub trait Driver {
    /// What comes out.
    type Out;
    /// Runs with the ends of one thread, in the order of its connections.
    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, ends: Vec<End<C, S, W>>) -> Self::Out;
}

/// [`Driver`] for a loop that only sends: what it has to wait for is called through a table.
pub trait SenderDriver {
    /// What comes out.
    type Out;
    /// Runs with the ends of one thread, in the order of its connections.
    fn drive<C: Channel, S: Method<C>>(self, ends: Vec<End<C, S, AnyWait<C>>>) -> Self::Out;
}

/// [`Driver`] for a loop that only receives: what it has to send is called through a table.
pub trait ReceiverDriver {
    /// What comes out.
    type Out;
    /// Runs with the ends of one thread, in the order of its connections.
    fn drive<C: Channel, W: Wait<C>>(self, ends: Vec<End<C, AnyMethod<C>, W>>) -> Self::Out;
}

type Fits = fn(&TransportMeta) -> Result<(), &'static str>;

/// A send method or a wait, as the registry lists it.
#[derive(Clone, Copy)]
pub struct Listed {
    /// Its texts.
    pub meta: &'static Meta,
    /// Whether it makes sense on a transport.
    pub fits: Fits,
    /// Whether it serves an event loop: [`Part::IN_EVENT_LOOP`].
    pub in_event_loop: bool,
    /// Adds what is true of it.
    pub mark: fn(&mut Traits),
    /// It keeps its CPU: [`Part::SPINS`].
    pub spins: bool,
    /// How it is woken: [`Part::WAKES`].
    pub wakes: Wakes,
    /// It gathers: [`Part::JOINS`].
    pub joins: bool,
    /// The far end of an echo does not receive: [`Part::UNTOUCHED`].
    pub untouched: bool,
    /// It waits in the call: [`Part::IN_CALL`].
    pub in_call: bool,
}

impl Listed {
    /// Why this send method does not go with a wait.
    fn goes_with(&self, wait: &Listed) -> Result<(), &'static str> {
        match self.untouched && !wait.in_call {
            true => Err("what it moves past the program it waits for in its own call, as block does"),
            false => Ok(()),
        }
    }
}

/// The parts of one family of channels.
pub struct FamilyParts {
    pub family: Family,
    pub methods: &'static [Listed],
    pub waits: &'static [Listed],
    /// Whether each wait has an instance of the measured loop with each send method. Else all of them share one, which
    /// calls them through a table: 1 to 2 ns a message, beside a system call that takes hundreds.
    pub waits_directly: bool,
}

impl FamilyParts {
    /// Instances of a loop in which both sending and waiting are measured.
    pub fn instances(&self) -> usize {
        self.methods.len() * if self.waits_directly { self.waits.len() } else { 1 }
    }
}

/// Makes a registry out of its lists; `waits(direct)` and `waits(table)` say what [`FamilyParts::waits_directly`] says.
/// Exported so that a test can make one with a part more; the program's own follows.
#[macro_export]
macro_rules! registry {
    (
        transports: [$($transport:expr),* $(,)?];
        $($family:ident($channel:ty): methods $methods:tt, waits($how:ident) $waits:tt;)*
    ) => {
        /// Every transport, in the order of the documentation.
        pub static TRANSPORTS: &[&dyn $crate::Transport] = &[$(&$transport),*];

        /// The send methods and waits of every family, in the order of the documentation.
        pub static FAMILIES: &[$crate::registry::FamilyParts] = &[$($crate::registry::FamilyParts {
            family: $crate::Family::$family,
            methods: $crate::registry!(@list $methods),
            waits: $crate::registry!(@list $waits),
            waits_directly: $crate::registry!(@is_direct $how),
        }),*];

        $crate::registry!(@with [
            /// Makes the ends of a path out of the channels of one thread and runs the driver with them: for loops in
            /// which both sending and waiting are measured.
            ///
            /// # Errors
            /// What the path cannot have here, and why.
        ] with_ends Driver pairs; $($family($channel) $methods $how $waits)*);
        $crate::registry!(@with [
            /// [`with_ends`] with waits that are called through a table: for a loop that sends only.
            ///
            /// # Errors
            /// As [`with_ends`].
        ] with_senders SenderDriver senders; $($family($channel) $methods $how $waits)*);
        $crate::registry!(@with [
            /// [`with_ends`] with send methods that are called through a table: for a loop that receives only.
            ///
            /// # Errors
            /// As [`with_ends`].
        ] with_receivers ReceiverDriver receivers; $($family($channel) $methods $how $waits)*);
    };
    (@with [$(#[$doc:meta])*] $name:ident $driver:ident $kind:ident;
     $($family:ident($channel:ty) $methods:tt $how:ident $waits:tt)*) => {
        $(#[$doc])*
        pub fn $name<D: $crate::$driver>(
            path: &msgpath_core::PathName,
            channels: Vec<$crate::AnyChannel>,
            layout: $crate::Layout,
            options: &msgpath_core::plan::ChannelOptions,
            driver: D,
        ) -> Result<D::Out, msgpath_core::Unavailable> {
            let family = channels.first().map(|channel| channel.family());
            $(if family == Some($crate::Family::$family) {
                let channels = $crate::registry!(@own $family, $channel, channels);
                $crate::registry!(@$kind $how $channel, $methods, $waits, (path, channels, layout, options, driver));
                return Err($crate::registry::no_such(path));
            })*
            Err($crate::registry::no_such(path))
        }
    };
    (@is_direct direct) => { true };
    (@is_direct table) => { false };
    (@list [$($part:ty),* $(,)?]) => {
        &[$($crate::registry::Listed {
            meta: const { &<$part as $crate::Part>::META },
            fits: <$part as $crate::Part>::fits,
            in_event_loop: <$part as $crate::Part>::IN_EVENT_LOOP,
            mark: $crate::registry::mark::<$part>,
            spins: <$part as $crate::Part>::SPINS,
            wakes: <$part as $crate::Part>::WAKES,
            joins: <$part as $crate::Part>::JOINS,
            untouched: <$part as $crate::Part>::UNTOUCHED,
            in_call: <$part as $crate::Part>::IN_CALL,
        }),*]
    };
    (@own $family:ident, $channel:ty, $channels:ident) => {
        $channels
            .into_iter()
            .filter_map(|channel| match channel {
                $crate::AnyChannel::$family(channel) => Some(channel),
                _ => None,
            })
            .collect::<Vec<$channel>>()
    };
    (@pairs table $channel:ty, $methods:tt, $waits:tt, $call:tt) => {
        $crate::registry!(@senders table $channel, $methods, $waits, $call);
    };
    (@pairs direct $channel:ty, [$($method:ty),* $(,)?], $waits:tt, $call:tt) => {
        $($crate::registry!(@waits $channel, $method, $waits, $call);)*
    };
    (@waits $channel:ty, $method:ty, [$($wait:ty),* $(,)?],
     ($path:ident, $channels:ident, $layout:ident, $options:ident, $driver:ident)) => {
        if $path.method == <$method as $crate::Part>::META.name {
            $(if $path.wait == <$wait as $crate::Part>::META.name {
                let end = |channel| $crate::End::<$channel, $method, $wait>::new(channel, $layout, $options);
                return Ok($driver.drive($crate::registry::ends($channels, end)?));
            })*
        }
    };
    (@wait $channel:ty, [$($wait:ty),* $(,)?], $path:ident, $of:ident, $options:ident) => {
        $(if $path.wait == <$wait as $crate::Part>::META.name {
            return Ok(Box::new(<$wait as $crate::NewWait<$channel>>::new($of, $options)?));
        })*
    };
    (@method $channel:ty, [$($method:ty),* $(,)?], $path:ident, $of:ident, $layout:ident, $options:ident) => {
        $(if $path.method == <$method as $crate::Part>::META.name {
            return Ok(Box::new(<$method as $crate::NewMethod<$channel>>::new($of, $layout, $options)?));
        })*
    };
    (@senders $how:ident $channel:ty, [$($method:ty),* $(,)?], $waits:tt,
     ($path:ident, $channels:ident, $layout:ident, $options:ident, $driver:ident)) => {
        let wait = |of: &mut $channel| -> Result<$crate::AnyWait<$channel>, msgpath_core::Unavailable> {
            $crate::registry!(@wait $channel, $waits, $path, of, $options);
            Err($crate::registry::no_such($path))
        };
        $(if $path.method == <$method as $crate::Part>::META.name {
            let end = |mut channel| {
                let method = <$method as $crate::NewMethod<$channel>>::new(&mut channel, $layout, $options)?;
                let wait = wait(&mut channel)?;
                Ok($crate::End { channel, method, wait })
            };
            return Ok($driver.drive($crate::registry::ends($channels, end)?));
        })*
    };
    (@receivers $how:ident $channel:ty, $methods:tt, [$($wait:ty),* $(,)?],
     ($path:ident, $channels:ident, $layout:ident, $options:ident, $driver:ident)) => {
        let method = |of: &mut $channel| -> Result<$crate::AnyMethod<$channel>, msgpath_core::Unavailable> {
            $crate::registry!(@method $channel, $methods, $path, of, $layout, $options);
            Err($crate::registry::no_such($path))
        };
        $(if $path.wait == <$wait as $crate::Part>::META.name {
            let end = |mut channel| {
                let method = method(&mut channel)?;
                let wait = <$wait as $crate::NewWait<$channel>>::new(&mut channel, $options)?;
                Ok($crate::End { channel, method, wait })
            };
            return Ok($driver.drive($crate::registry::ends($channels, end)?));
        })*
    };
}

#[doc(hidden)]
pub fn no_such(path: &PathName) -> Unavailable {
    Unavailable::new(format!("{path} is not a message path"), "msgpath paths   lists them")
}

#[doc(hidden)]
pub fn ends<C, E>(channels: Vec<C>, mut end: impl FnMut(C) -> Result<E, Unavailable>) -> Result<Vec<E>, Unavailable> {
    // A plain loop: as a chain of iterators it was an eighth of all that the loops of the registry are made of.
    let mut ends = Vec::with_capacity(channels.len());
    for channel in channels {
        ends.push(end(channel)?);
    }
    Ok(ends)
}

/// Adds what is true of a send method or a wait.
#[doc(hidden)]
pub fn mark<P: Part>(traits: &mut Traits) {
    traits.spins |= P::SPINS;
    traits.polls_device |= P::POLLS_DEVICE;
    traits.polled |= P::POLLED;
    traits.signals |= P::SIGNALS;
    traits.apart |= P::APART;
    traits.asks_in_vain |= P::ASKS_IN_VAIN;
    traits.pages |= P::PAGES;
    traits.lends |= P::LENDS;
    traits.untouched |= P::UNTOUCHED;
    traits.coalesces |= P::COALESCES;
    traits.maps |= P::MAPS;
}

/// What is true of a path, as its parts declare it; of their part nothing where one of them is not known.
pub fn traits(path: &PathName) -> Traits {
    Traits { program: path.program.is_some(), ..of_parts(path) }
}

fn of_parts(path: &PathName) -> Traits {
    let Some(transport) = transport(&path.transport) else { return Traits::default() };
    let meta = transport.meta();
    let mut traits = Traits {
        framed: meta.framed,
        lossy: meta.lossy,
        connects: meta.connects,
        inet: meta.inet,
        device: meta.device,
        segments: meta.segments,
        stack: meta.stack,
        headers: meta.headers.to_vec(),
        copies: meta.copies,
        over: transport.over().to_owned(),
        ..Traits::default()
    };
    for parts in FAMILIES.iter().filter(|parts| parts.family == meta.family) {
        let method = parts.methods.iter().filter(|listed| listed.meta.name == path.method);
        let wait = parts.waits.iter().filter(|listed| listed.meta.name == path.wait);
        method.chain(wait).for_each(|listed| (listed.mark)(&mut traits));
        let fits = |listed: &&Listed| (listed.fits)(meta).is_ok();
        let other = |listed: Option<&Listed>, own: &str| match listed {
            Some(listed) if listed.meta.name != own => listed.meta.name.to_owned(),
            _ => String::new(),
        };
        traits.joined_method = other(parts.methods.iter().filter(fits).find(|listed| listed.joins), &path.method);
        let own = parts.methods.iter().find(|listed| listed.meta.name == path.method);
        let goes = |wait: &&Listed| own.is_none_or(|method| method.goes_with(wait).is_ok());
        traits.spinning_wait = match traits.spins {
            true => String::new(),
            false => other(parts.waits.iter().filter(fits).filter(goes).find(|listed| listed.spins), &path.wait),
        };
    }
    traits
}

mod program {
    use crate::channel::{Packet, Pipe, ProcessEnd, Queue, RingEnd, Socket, SysvQueues, XskEnd};
    use crate::layer::Layered;
    use crate::methods::{
        fetch::Fetch, flatten::Flatten, gso::Gso, ring::RingCopy, send::Send, sendfile::Sendfile, sendmmsg::Sendmmsg,
        sendmsg::Sendmsg, splice::Splice, uring, uring_zc::UringZc, vmsplice::Vmsplice, write::Write, writes::Writes,
        writev::Writev, zerocopy::ZeroCopy, zerocopy_unset::ZeroCopyUnset,
    };
    use crate::transports::{
        eth::Eth, eth_ring::EthRing, fifo::Fifo, mptcp::Mptcp, mq::Mq, netlink::Netlink, pipe::Pipes,
        pipe_packet::PacketPipes, procvm::ProcessMemory, shm::Shm, sockmap::Sockmap, sysvmsg::SysvMessages, tcp::Tcp,
        udp::Udp, unix::Unix, unixgram::UnixGram, unixseq::UnixSeq, xdp::Xdp,
    };
    use crate::waits::{
        block::Block, busy_poll::BusyPoll, epoll::Epoll, eventfd::Eventfd, futex::Futex, gro::Gro, poll::Poll,
        quickack::QuickAck, semaphore::Semaphore, sigio::SigIo, signalfd::Signalfd, sigqueue::Sigqueue, spin::Spin,
        sysv_semaphore::SysvSemaphore, uring::Uring, uring_fixed::UringFixed, uring_futex::UringFutex,
        uring_message::UringMessage, uring_multishot::UringMultishot, uring_sqpoll::UringSqpoll, zc_receive::ZcReceive,
    };

    crate::registry! {
        transports: [
            Tcp, Mptcp, Sockmap, Udp, Unix, UnixGram, UnixSeq, Netlink, Pipes, PacketPipes, Fifo, Mq,
            SysvMessages, Shm, ProcessMemory, Eth, EthRing, Xdp
        ];
        Socket(Socket):
            methods [
                Send, Write, Writes, Writev, Sendmsg, Flatten, Splice, Sendfile, ZeroCopy, ZeroCopyUnset, Sendmmsg, Gso,
                uring::Uring, UringZc
            ],
            waits(table) [
                Block, Spin, Poll, Epoll, BusyPoll, Uring, UringFixed, UringSqpoll, UringMultishot, SigIo, QuickAck, Gro,
                ZcReceive
            ];
        Pipe(Pipe):
            methods [Write, Writes, Writev, Flatten, Vmsplice, Splice, uring::Uring],
            waits(table) [Block, Spin, Poll, Epoll, Uring, UringFixed, UringSqpoll, SigIo];
        Queue(Queue):
            methods [Send],
            waits(table) [Block, Spin, Poll, Epoll];
        SystemV(SysvQueues):
            methods [Send],
            waits(table) [Block, Spin];
        Ring(RingEnd):
            methods [RingCopy],
            waits(direct) [Futex, Spin, Eventfd, Semaphore, SysvSemaphore, Sigqueue, Signalfd, UringMessage, UringFutex];
        Process(ProcessEnd):
            methods [Fetch],
            waits(table) [Futex, Spin];
        Packet(Packet):
            methods [Send, Sendmsg, Sendmmsg],
            waits(table) [Block, Spin, Poll, Epoll, SigIo];
        PacketRing(Packet):
            methods [Send],
            waits(table) [Poll, Spin, Epoll, SigIo];
        Xsk(XskEnd):
            methods [Send],
            waits(table) [Poll, Spin, Epoll];
        Layer(Layered):
            methods [Send],
            waits(table) [Block];
    }
}

pub use program::{FAMILIES, TRANSPORTS, with_ends, with_receivers, with_senders};

static ADDED: OnceLock<&'static [&'static dyn Transport]> = OnceLock::new();

/// Lists the transports of another crate behind these, before anything asks for one; a second call changes nothing.
pub fn add(transports: &'static [&'static dyn Transport]) {
    ADDED.get_or_init(|| transports);
}

/// Every transport, those of another crate last.
pub fn transports() -> impl Iterator<Item = &'static dyn Transport> {
    TRANSPORTS.iter().chain(ADDED.get().copied().unwrap_or_default()).copied()
}

pub fn transport(name: &str) -> Option<&'static dyn Transport> {
    transports().find(|transport| transport.meta().meta.name == name)
}

/// Whether messages over a transport may be lost. Of one that is not known nobody says that they may not.
pub fn is_lossy(name: &str) -> bool {
    transport(name).is_none_or(|transport| transport.meta().lossy)
}

fn distinct(lists: impl Fn(&'static FamilyParts) -> &'static [Listed]) -> Vec<&'static Meta> {
    let mut out: Vec<&'static Meta> = Vec::new();
    for listed in FAMILIES.iter().flat_map(lists) {
        if !out.iter().any(|meta| meta.name == listed.meta.name) {
            out.push(listed.meta);
        }
    }
    out
}

/// Every send method once.
pub fn methods() -> Vec<&'static Meta> {
    distinct(|parts| parts.methods)
}

/// Every wait once.
pub fn waits() -> Vec<&'static Meta> {
    distinct(|parts| parts.waits)
}

/// One path of the registry.
#[derive(Clone)]
pub struct Entry {
    pub name: PathName,
    pub transport: &'static dyn Transport,
    pub method: &'static Meta,
    pub wait: &'static Meta,
}

/// The send methods and the waits that make sense on a transport; not each goes with each.
fn fitting(meta: &TransportMeta) -> (Vec<&'static Listed>, Vec<&'static Listed>) {
    let pick = |lists: fn(&'static FamilyParts) -> &'static [Listed]| -> Vec<&'static Listed> {
        let own = FAMILIES.iter().filter(|parts| parts.family == meta.family).flat_map(lists);
        own.filter(|listed| (listed.fits)(meta).is_ok()).collect()
    };
    (pick(|parts| parts.methods), pick(|parts| parts.waits))
}

/// Every path that makes sense, in the order of the registry.
pub fn all() -> Vec<Entry> {
    let mut out = Vec::new();
    for transport in transports() {
        let (methods, waits) = fitting(transport.meta());
        for method in methods {
            let waits = waits.iter().filter(|wait| method.goes_with(wait).is_ok());
            out.extend(waits.map(|wait| Entry::new(transport, method.meta, wait.meta)));
        }
    }
    out
}

impl Entry {
    fn new(transport: &'static dyn Transport, method: &'static Meta, wait: &'static Meta) -> Self {
        let name = PathName::new(transport.meta().meta.name, method.name, wait.name);
        Self { name, transport, method, wait }
    }

    /// The entry of a full name. Asked in every round, so it looks at the parts of one transport only.
    pub fn find(name: &PathName) -> Option<Entry> {
        let transport = transport(&name.transport)?;
        let (methods, waits) = fitting(transport.meta());
        let method = methods.into_iter().find(|listed| listed.meta.name == name.method)?;
        let wait = waits.into_iter().find(|listed| listed.meta.name == name.wait)?;
        method.goes_with(wait).ok()?;
        Some(Self::new(transport, method.meta, wait.meta))
    }

    /// What both ends must prepare for this path: how senders wake receivers.
    pub fn wakes(&self) -> Wakes {
        let own = FAMILIES.iter().filter(|parts| parts.family == self.transport.meta().family);
        let mut waits = own.flat_map(|parts| parts.waits);
        waits.find(|listed| listed.meta.name == self.wait.name).map_or(Wakes::Nobody, |listed| listed.wakes)
    }

    /// Whether one event loop can serve many connections of this path.
    ///
    /// # Errors
    /// Why not.
    pub fn event_loop(&self) -> Result<(), Unavailable> {
        let listed = |list: fn(&'static FamilyParts) -> &'static [Listed], meta: &Meta| {
            let mut own = FAMILIES.iter().filter(|parts| parts.family == self.transport.meta().family).flat_map(list);
            own.any(|listed| listed.meta.name == meta.name && listed.in_event_loop)
        };
        let why = if self.transport.meta().lossy {
            format!("{} may lose messages, and an event loop waits for every reply", self.name.transport)
        } else if !listed(|parts| parts.waits, self.wait) {
            format!("the wait {} serves one connection at a time", self.wait.name)
        } else if !listed(|parts| parts.methods, self.method) {
            format!("{} does not go on where it found no room", self.method.name)
        } else {
            return Ok(());
        };
        Err(Unavailable::new(
            format!("no event loop over {}: {why}", self.name),
            "tcp:send/epoll, or leave out --event-loop",
        ))
    }

    /// Tries the real thing on this machine: makes a connection and both ends, and sends a message across.
    ///
    /// # Errors
    /// Why it does not work here.
    pub fn probe(&self) -> Result<(), Unavailable> {
        static KNOWN: OnceLock<Mutex<HashMap<PathName, Result<(), Unavailable>>>> = OnceLock::new();
        let known = KNOWN.get_or_init(Mutex::default);
        if let Some(result) = known.lock().expect("no panic while held").get(&self.name) {
            return result.clone();
        }
        let result = self.try_it();
        known.lock().expect("no panic while held").insert(self.name.clone(), result.clone());
        result
    }

    fn try_it(&self) -> Result<(), Unavailable> {
        // Both ends of a layer talk before the first message, those of AF_XDP are on two devices: their own probes know.
        if matches!(self.transport.meta().family, Family::Layer | Family::Xsk) {
            return self.transport.probe();
        }
        let failed = |error: std::io::Error| Unavailable::new(error.to_string(), "");
        // The transport's own probe knows what stands behind the error of a call.
        let explained = |error| self.transport.probe().err().unwrap_or_else(|| failed(error));
        let mut need = Need::local(64);
        need.wakes = self.wakes();
        let mut offer = self.transport.offer(&need).map_err(explained)?;
        let addresses = offer.addresses();
        let (near, local) = self.transport.connect(&addresses[0], &need).map_err(explained)?;
        let far = offer.accept(&[local], std::time::Duration::from_secs(1)).map_err(failed)?;
        let layout = Layout { pieces: msgpath_core::units::Pieces::of(1, 64), inflight: 1, copies: 1, content: &|_| 0 };
        let receive = || with_receivers(&self.name, far, layout, &need.options, ReceiveOne);
        let received = with_senders(&self.name, vec![near], layout, &need.options, SendOne(receive))?;
        let received = received.map_err(failed)??.map_err(failed)?;
        if received == 64 { Ok(()) } else { Err(Unavailable::new(format!("{received} of 64 bytes arrived"), "")) }
    }
}

/// Sends a message and does what it holds while the end is still there: what was sent may be lent.
struct SendOne<F>(F);

impl<F: FnOnce() -> O, O> SenderDriver for SendOne<F> {
    type Out = std::io::Result<O>;
    fn drive<C: Channel, S: Method<C>>(self, mut ends: Vec<End<C, S, AnyWait<C>>>) -> Self::Out {
        let End { channel, method, .. } = &mut ends[0];
        method.slot(channel)?;
        method.send(channel)?;
        method.flush(channel)?;
        Ok((self.0)())
    }
}

struct ReceiveOne;

impl ReceiverDriver for ReceiveOne {
    type Out = std::io::Result<usize>;
    fn drive<C: Channel, W: Wait<C>>(self, mut ends: Vec<End<C, AnyMethod<C>, W>>) -> Self::Out {
        let End { channel, wait, .. } = &mut ends[0];
        wait.recv(channel, &mut [0; 64])
    }
}

/// The full name of what was typed. A bare word is a transport, or else a send method on `transport`.
///
/// # Errors
/// E09 with the nearest known name; exit code 2.
pub fn resolve(spec: &PathSpec, default_transport: Option<&str>) -> Result<PathName, Problem> {
    let typed = || {
        let method = spec.method.as_ref().map(|method| format!(":{method}")).unwrap_or_default();
        let wait = spec.wait.as_ref().map(|wait| format!("/{wait}")).unwrap_or_default();
        format!("{}{method}{wait}", spec.transport.as_deref().unwrap_or_default())
    };
    let unknown = |typed: String, why: String| {
        let names: Vec<String> = all().iter().map(|entry| entry.name.to_string()).collect();
        let words: Vec<&str> = transports().map(|transport| transport.meta().meta.name).collect();
        let near = nearest(&typed, names.iter().map(String::as_str).chain(words));
        let problem = Problem::new("E09", Exit::Usage, format!("{typed:?} is not a message path")).why(why);
        match near {
            Some(name) => problem.hint(format!("{name}        list: msgpath paths")),
            None => problem.hint("msgpath paths   lists them"),
        }
    };
    let first = spec.transport.as_deref().unwrap_or_default();
    let (transport_name, method) = match (&spec.method, transport(first)) {
        (Some(method), _) => (first, Some(method.as_str())),
        (None, Some(_)) => (first, None),
        (None, None) => (default_transport.unwrap_or("tcp"), Some(first)),
    };
    let Some(transport) = transport(transport_name) else { return Err(unknown(typed(), String::new())) };
    let meta = transport.meta();
    let name = PathName::new(
        transport_name,
        method.unwrap_or(meta.default_method),
        spec.wait.as_deref().unwrap_or(meta.default_wait),
    );
    if Entry::find(&name).is_some() {
        return Ok(name);
    }
    // Known parts that do not go together deserve their reason rather than a guess at a typing mistake.
    let listed: Vec<&Listed> = FAMILIES.iter().flat_map(|parts| parts.methods.iter().chain(parts.waits)).collect();
    for part in [&name.method, &name.wait] {
        if let Some(Err(why)) = listed.iter().find(|listed| listed.meta.name == part).map(|listed| (listed.fits)(meta))
        {
            return Err(unknown(name.to_string(), format!("{part} does not work on {transport_name}: {why}")));
        }
    }
    let (methods, waits) = fitting(meta);
    for (part, own) in [(&name.method, &methods), (&name.wait, &waits)] {
        let known = listed.iter().any(|listed| listed.meta.name == part);
        if known && !own.iter().any(|listed| listed.meta.name == part) {
            let names: Vec<&str> = own.iter().map(|listed| listed.meta.name).collect();
            let why = format!("{part} is not made for {transport_name}, which has {}", names.join(", "));
            return Err(unknown(name.to_string(), why));
        }
    }
    let method = methods.iter().find(|listed| *listed.meta.name == name.method);
    let wait = waits.iter().find(|listed| *listed.meta.name == name.wait);
    if let Some(Err(why)) = method.zip(wait).map(|(method, wait)| method.goes_with(wait)) {
        return Err(unknown(name.to_string(), format!("{} does not go with {}: {why}", name.method, name.wait)));
    }
    Err(unknown(name.to_string(), String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(resolve(&text.parse().unwrap(), None).unwrap().to_string(), expected);
    }

    #[test]
    fn parts_that_are_missing_get_their_defaults() {
        check("tcp", "tcp:send");
        check("pipe", "pipe:write");
        check("shm/spin", "shm:ring/spin");
        check("shm", "shm:ring/futex");
        check("writev", "tcp:writev");
        check("mq", "mq:send");
        let unix = resolve(&"writev/epoll".parse().unwrap(), Some("unix")).unwrap();
        assert_eq!(unix.to_string(), "unix:writev/epoll");
    }

    #[test]
    fn an_unknown_path_names_the_nearest() {
        let problem = resolve(&"tcp:sned".parse().unwrap(), None).unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), ("E09", Exit::Usage));
        assert!(problem.hint.starts_with("tcp:send "), "{problem}");
        let reason = resolve(&"unix:zerocopy".parse().unwrap(), None).unwrap_err();
        assert!(reason.why.contains("ignored"), "{reason}");
        let reason = resolve(&"tcp:splice/epoll".parse().unwrap(), None).unwrap_err();
        assert!(reason.why.contains("in its own call"), "{reason}");
    }

    #[test]
    fn names_are_words_and_texts_have_their_form() {
        let metas = TRANSPORTS.iter().map(|transport| &transport.meta().meta).chain(methods()).chain(waits());
        for meta in metas {
            assert!(meta.name.parse::<PathSpec>().is_ok(), "{}", meta.name);
            assert!(!meta.summary.is_empty() && !meta.summary.ends_with('.'), "{}", meta.name);
            assert!(meta.manual.ends_with('.') && !meta.manual.contains("  "), "{}", meta.name);
        }
        let all = all();
        let mut names: Vec<_> = all.iter().map(|entry| entry.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_default_is_a_path() {
        for transport in TRANSPORTS {
            let meta = transport.meta();
            let name = PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
            assert!(Entry::find(&name).is_some(), "{name}");
        }
    }
}
