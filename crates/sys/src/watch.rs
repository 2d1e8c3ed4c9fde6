//! The programs of `bpf/watch.bpf.c`: requests of other programs, split in the kernel.
//!
//! As with the programs of `bpf`, everything lives in file descriptors: when the process ends, however it ends, nothing stays
//! attached. `struct control`, `struct service` and `struct row` of the source are repeated here as offsets.

mod calls;
mod event;
mod extra;

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use aya::maps::{HashMap, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Btf, Ebpf, EbpfLoader};
use msgpath_core::watch::{Culprit, RequestRow, STAGES, ServiceCounts, Stages, Times, by};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::bpf::{Loaded, Missing, PAYLOAD_SUFFIX, Refusal, kernel_types, mapped, object, other, program, programs};
use crate::mapping::Mapping;
use calls::SENDING;
pub use calls::{CallKind, calls};
pub use event::{Event, KINDS, PARTS, Role, What};
use extra::Extra;

/// Packed by `build.rs`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// These are there since kernel 6.3.
const NEWER: [&str; 3] = ["sk_data_ready", "sock_recv_length", "sock_send_length"];
/// They tell of TCP within this machine where those are not.
const OLDER: [&str; 2] = ["tcp_probe", "tcp_rcv_space_adjust"];
/// Without it there are no stages.
const SWITCHES: &str = "sched_switch";
const HOOKS: [&str; 19] = [
    "sk_data_ready",
    "sock_recv_length",
    "sock_send_length",
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    SEND_BEGINS,
    "inet_sock_set_state",
    "sched_process_exit",
    "sched_process_fork",
    "page_fault_user",
    "rss_stat",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "local_timer_entry",
    "local_timer_exit",
    "signal_generate",
];
/// What goes on between windows: who receives, who comes and goes.
const COUNTING: [&str; 5] =
    ["sock_recv_length", "inet_sock_set_state", "sched_process_exit", "sched_process_fork", "signal_generate"];
/// Tells when a TCP send begins, since kernel 6.16.
const SEND_BEGINS: &str = "tcp_sendmsg_locked";
/// Those that copy the first bytes of what is sent have a second program, which does so.
const COPYING: [&str; 2] = [SEND_BEGINS, "sk_data_ready"];

/// What `on` of the programs can be.
const OFF: u32 = 0;
const SHUT: u32 = 1;
const CLOSING: u32 = 2;
const OPEN: u32 = 3;

const ON: usize = 0;
const FOLLOW: usize = 4;
const EPOCH: usize = 8;
const PAYLOAD: usize = 12;
const CONNECTIONS: usize = 16;
const SILENT: usize = 28;
const LOST: usize = 32;
const NO_ROOM: usize = 40;
const APART: usize = 60;
const STEAL: usize = 64;
const DATAGRAMS: usize = 68;
const ADDRESSES: usize = 72;
const AMBIGUOUS: usize = 76;
const WINDOW: usize = 80;
const CALL_KINDS: usize = 88;
const CALLS: usize = 512;
const HOLES: usize = CALL_KINDS + CALLS + 8;
const UNDER_WAY: usize = HOLES + 8;
const CONTROL_SIZE: usize = UNDER_WAY + 8;
/// A bit of `payload`.
const RECOGNISES: u32 = 2;
/// Bits of `follow`.
const PROCESSES: u32 = 1;
const CGROUPS: u32 = 2;
/// A bit of `addresses`.
const WANTED: u32 = 1;

/// Servers that are told apart; the last stands for all further ones.
pub const SERVICES: usize = 32;
const SLOW: usize = 0;
const EVERY: usize = 8;
const COUNTS: usize = 16;
const HISTOGRAM: usize = 88;
const SERVICE_SIZE: usize = HISTOGRAM + Times::BUCKETS * 8;

const PORTS_SIZE: usize = (1 << 16) / 8;
/// The first bytes of a request that a row has.
pub const HEAD: usize = 48;
const CULPRITS: usize = 5;
const ROW_SIZE: usize = 72 + STAGES * 8 + CULPRITS * 32 + 32 + HEAD;

/// What was counted of all connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that were seen.
    pub connections: u64,
    /// Rows that found no room.
    pub lost: u64,
    /// Threads and connections that found none.
    pub no_room: u64,
    /// Pairs of addresses of datagrams that hosts in several network namespaces have.
    pub ambiguous: u64,
    /// Events of connections that are looked into that found no room.
    pub holes: u64,
}

/// What is known of a connection once its messages were looked at; its number in the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its protocol is not known: it is paired by turns.
    Unknown = 1,
    /// Several requests are in flight: user space pairs them.
    Several = 2,
    /// One at a time is: turns are right.
    One = 3,
    /// It speaks HTTP/2 and cannot be followed: its turns are no requests.
    Untold = 4,
}

/// A request as the kernel split it, and its first bytes; zeros where none were copied.
pub type Headed = (RequestRow, [u8; HEAD]);

/// What the programs are to do. The verifier takes out what they need not do, which is a good part of the time that it takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// They may copy the first bytes of what is sent; else none of them can.
    pub payload: bool,
    /// Sockets are watched by the cgroup in which they were made.
    pub cgroups: bool,
    /// Tracepoints that are left out, as if this kernel were older.
    pub without: &'a [String],
}

/// Loaded programs, their maps and their rows.
pub struct Watch {
    ebpf: Ebpf,
    loaded: Loaded,
    /// Of what is taken away for a while: names of the programs.
    following: Vec<(String, BtfTracePointLinkId)>,
    /// What is not taken away runs.
    counting: bool,
    /// Without the tracepoints that are there since kernel 6.3.
    older: bool,
    datagrams: Extra,
    addresses: Extra,
    control: Mapping,
    services: Mapping,
    ports: Mapping,
    listening: Mapping,
    rows: RingBuf<MapData>,
    events: RingBuf<MapData>,
    /// Tells when one of them is a quarter full.
    filling: OwnedFd,
}

/// The object with the programs of every tracepoint that there is; `older`: those that do where there are none of [`NEWER`].
fn load(wanted: Wanted<'_>, older: bool, btf: &Btf) -> Result<(Ebpf, Loaded, Missing), Refusal> {
    let Wanted { payload, cgroups, without } = wanted;
    let globals = [("looks_into", payload), ("unix_sockets", !older), ("by_cgroup", cgroups)];
    let globals = globals.map(|(name, set)| (name, u32::from(set)));
    let mut loader = EbpfLoader::new();
    for (name, set) in &globals {
        loader.override_global(name, set, true);
    }
    let mut ebpf = object(&mut loader, btf, OBJECT)?;
    let copying: &[&str] = if payload { &COPYING } else { &[] };
    let newer = |name: &&&str| NEWER.contains(*name) || **name == SEND_BEGINS;
    let mut hooks: Vec<&'static str> = HOOKS.iter().filter(|name| !older || !newer(name)).copied().collect();
    if older {
        hooks.extend(OLDER);
    }
    let (loaded, mut missing) = programs(&mut ebpf, &hooks, copying, without, btf)?;
    if older {
        missing.push((SEND_BEGINS, "of no use without the others".into()));
    }
    Ok((ebpf, loaded, missing))
}

impl Watch {
    /// Loads the programs; none is attached yet. Beside it: tracepoints that this kernel lacks, with the reason.
    ///
    /// # Errors
    /// What is needed could not be loaded.
    pub fn open(wanted: Wanted<'_>) -> Result<(Self, Missing), Refusal> {
        let btf = kernel_types()?;
        let without = wanted.without;
        let (mut ebpf, mut loaded, mut missing) = load(wanted, false, &btf)?;
        let lacks = |missing: &Missing, names: &[&str]| -> Vec<(&'static str, String)> {
            missing.iter().filter(|(name, _)| names.contains(name)).cloned().collect()
        };
        let newer = lacks(&missing, &NEWER);
        if !newer.is_empty() {
            (ebpf, loaded, missing) = load(Wanted { payload: false, ..wanted }, true, &btf)?;
        }
        let needed = lacks(&missing, &[&OLDER[..], &[SWITCHES]].concat());
        if let Some((_, why)) = needed.first() {
            let names = |all: &Missing| all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let instead = if newer.is_empty() {
                String::new()
            } else {
                format!("tracepoints that are there since 6.3: {}; and ", names(&newer))
            };
            return Err(Refusal::Other(format!("this kernel lacks {instead}{} ({why})", names(&needed))));
        }
        let older = !newer.is_empty();
        missing.extend(newer);
        let control = mapped(&ebpf, "control", CONTROL_SIZE)?;
        let services = mapped(&ebpf, "services", SERVICES * SERVICE_SIZE)?;
        let ports = mapped(&ebpf, "ports", PORTS_SIZE)?;
        let listening = mapped(&ebpf, "listening", PORTS_SIZE)?;
        let datagrams = Extra::of_datagrams(without);
        let addresses = Extra::of_addresses(without);
        let mut ring = |name: &str| {
            let map = ebpf.take_map(name).ok_or_else(|| Refusal::Other(format!("the object has no map {name}")))?;
            RingBuf::try_from(map).map_err(|error| other(&error))
        };
        let (rows, events) = (ring("rows")?, ring("events")?);
        let copies = COPYING
            .iter()
            .all(|name| loaded.iter().any(|(_, program)| *program == format!("on_{name}{PAYLOAD_SUFFIX}")));
        control.u32_at(PAYLOAD).store(u32::from(copies), Ordering::Relaxed);
        let silent = missing.iter().any(|(name, _)| *name == SEND_BEGINS);
        control.u32_at(SILENT).store(u32::from(silent), Ordering::Relaxed);
        let filling = filling([&rows, &events]).map_err(|error| other(&error))?;
        let mut watch = Self {
            ebpf,
            loaded,
            following: Vec::new(),
            counting: false,
            older,
            datagrams,
            addresses,
            control,
            services,
            ports,
            listening,
            rows,
            events,
            filling,
        };
        calls().into_iter().for_each(|(call, _, kind)| watch.set_kind(call, kind));
        // Until somebody says otherwise, every request has a row.
        (0..SERVICES).for_each(|service| watch.set_sampling(service as u32, u64::MAX, 1));
        Ok((watch, missing))
    }

    /// Attaches every program. Those that the kernel does not attach are returned with the reason.
    pub fn attach(&mut self) -> Missing {
        let mut missing = Vec::new();
        for (tracepoint, name) in &self.loaded {
            let counts = COUNTING.contains(tracepoint);
            if counts && self.counting {
                continue;
            }
            match program(&mut self.ebpf, name).and_then(BtfTracePoint::attach) {
                Ok(link) if !counts => self.following.push((name.clone(), link)),
                Ok(_) => {}
                Err(error) => missing.push((*tracepoint, error.to_string())),
            }
        }
        self.counting = true;
        missing
    }

    /// Takes away what follows requests, while a window is shut; what is left counts. [`attach`](Self::attach) brings it back.
    pub fn detach(&mut self) {
        for (name, link) in std::mem::take(&mut self.following) {
            // One that is not attached any more is what is wanted.
            let _ = program(&mut self.ebpf, &name).and_then(|program| program.detach(link));
        }
    }

    /// Loads what datagrams need, so that it is there without delay. What cannot be had is returned with the reason.
    pub fn load_datagrams(&mut self) -> Missing {
        self.datagrams.load(&mut self.ebpf)
    }

    /// Attaches what datagrams need, once a datagram socket is watched, or is `expected` to be. What cannot be had is returned with the
    /// reason, once.
    pub fn attach_datagrams(&mut self, expected: bool) -> Missing {
        let set = |at: usize| self.control.u32_at(at).load(Ordering::Relaxed);
        let (met, wanted) = (expected || set(DATAGRAMS) != 0, set(ADDRESSES) & WANTED != 0);
        let mut missing = Missing::new();
        if met {
            missing.extend(self.datagrams.attach(&mut self.ebpf));
        }
        if wanted {
            missing.extend(self.addresses.attach(&mut self.ebpf));
        }
        missing
    }

    /// Recording on or off.
    pub fn switch(&self, on: bool) {
        self.control.u32_at(ON).store(if on { OPEN } else { OFF }, Ordering::SeqCst);
    }

    /// Follows requests that begin from now on. What a thread or a connection did before the window is not known.
    pub fn open_window(&self) {
        self.control.u32_at(UNDER_WAY).store(0, Ordering::SeqCst);
        let window = self.control.u32_at(WINDOW);
        // 0 says that there was no window yet.
        window.store(window.load(Ordering::Relaxed).wrapping_add(1).max(1), Ordering::SeqCst);
        self.switch(true);
    }

    /// Follows the requests that are under way to their end, and none that begins.
    pub fn close_window(&self) {
        self.control.u32_at(ON).store(CLOSING, Ordering::SeqCst);
    }

    /// Follows nothing: what servers receive is counted.
    pub fn shut_window(&self) {
        self.control.u32_at(ON).store(SHUT, Ordering::SeqCst);
    }

    /// Requests that began in this window and are not over. 0 before there was a window.
    pub fn under_way(&self) -> u32 {
        self.control.u32_at(UNDER_WAY).load(Ordering::Relaxed)
    }

    /// Whether requests can be followed in windows of time: not where what waits at a datagram socket is followed by its place in a queue,
    /// and not where a kernel tells of what was read by a place in the stream (before 6.3).
    pub fn has_windows(&self) -> bool {
        self.control.u32_at(DATAGRAMS).load(Ordering::Relaxed) == 0 && !self.older
    }

    /// What it means to block in a call, and whether a packet may be its work.
    fn set_kind(&mut self, call: i16, kind: Option<CallKind>) {
        let sends = if SENDING.contains(&libc::c_long::from(call)) { SENDS_DATA } else { 0 };
        if let Some(call) = usize::try_from(call).ok().filter(|call| *call < CALLS) {
            self.control.write(CALL_KINDS + call, &[kind.map_or(0, |kind| kind as u8) | sends]);
        }
    }

    /// Connections to and from this port are watched.
    pub fn watch_port(&self, port: u16) {
        set_bit(&self.ports, port);
        self.look_again();
    }

    /// Somebody listens on this port: its end of a connection is the server.
    pub fn set_listening(&self, port: u16) {
        set_bit(&self.listening, port);
    }

    /// Connections of this process (its id in the first pid namespace) are watched, and those of its children to come.
    ///
    /// # Errors
    /// There are too many.
    pub fn watch_process(&mut self, process: i32) -> io::Result<()> {
        let map = self.ebpf.map_mut("processes").ok_or(io::ErrorKind::NotFound)?;
        let mut map = HashMap::<_, i32, u32>::try_from(map).map_err(io::Error::other)?;
        map.insert(process, 1, 0).map_err(io::Error::other)?;
        self.follow(PROCESSES);
        Ok(())
    }

    /// Connections of the tasks of this cgroup (version 2; the inode of its folder) and of those below it are watched.
    ///
    /// # Errors
    /// There are too many.
    pub fn watch_cgroup(&mut self, id: u64) -> io::Result<()> {
        let map = self.ebpf.map_mut("cgroups").ok_or(io::ErrorKind::NotFound)?;
        let mut map = HashMap::<_, u64, u32>::try_from(map).map_err(io::Error::other)?;
        map.insert(id, 1, 0).map_err(io::Error::other)?;
        self.follow(CGROUPS);
        Ok(())
    }

    /// Only the ends that are meant are watched, as if the other ones were on other hosts.
    pub fn leave_peers_alone(&self) {
        self.control.u32_at(APART).store(1, Ordering::SeqCst);
    }

    fn follow(&self, what: u32) {
        self.control.u32_at(FOLLOW).fetch_or(what, Ordering::Relaxed);
        self.look_again();
    }

    /// Sockets that were not interesting are looked at again.
    pub fn look_again(&self) {
        self.control.u32_at(EPOCH).fetch_add(1, Ordering::SeqCst);
    }

    /// Which requests of a server have a row: those that take `slow` ns, and one in `every`.
    pub fn set_sampling(&self, service: u32, slow: u64, every: u64) {
        let at = service as usize % SERVICES * SERVICE_SIZE;
        self.services.u64_at(at + SLOW).store(slow, Ordering::Relaxed);
        self.services.u64_at(at + EVERY).store(every, Ordering::Relaxed);
    }

    /// What was counted of each server so far.
    pub fn services(&self) -> Vec<ServiceCounts> {
        let numbers = self.ebpf.map("numbers").and_then(|map| HashMap::<_, [u64; 3], u32>::try_from(map).ok());
        let mut keys: Vec<(u32, [u64; 3])> = numbers
            .iter()
            .flat_map(|map| map.iter().filter_map(Result::ok))
            .map(|(key, number)| (number, key))
            .collect();
        keys.sort_unstable();
        keys.dedup_by_key(|(number, _)| *number);
        keys.into_iter()
            .filter(|(number, _)| (*number as usize) < SERVICES)
            .map(|(n, key)| self.service(n, key))
            .collect()
    }

    fn service(&self, number: u32, key: [u64; 3]) -> ServiceCounts {
        let at = number as usize * SERVICE_SIZE;
        let count = |n: usize| self.services.u64_at(at + COUNTS + n * 8).load(Ordering::Relaxed);
        let bucket = |n: usize| self.services.u64_at(at + HISTOGRAM + n * 8).load(Ordering::Relaxed);
        let (port, process, host) = server(key);
        let datagrams = key[2] >> 32 != 0;
        let times = (0..Times::BUCKETS).map(|n| (n as u16, bucket(n))).filter(|(_, count)| *count > 0).collect();
        let [requests, torn, incomplete, in_flight, unasked, followed, missed, tls, handshakes] =
            [0, 1, 2, 3, 4, 5, 6, 7, 8].map(count);
        let times = Times(times);
        ServiceCounts {
            service: number,
            port,
            process,
            host,
            datagrams,
            requests,
            torn,
            incomplete,
            in_flight,
            unasked,
            framed: 0,
            followed,
            missed,
            tls,
            handshakes,
            times,
        }
    }

    /// Whether the kernel tells of single CPUs what a hypervisor takes; known once a thread that is watched was switched.
    pub fn tells_steal(&self) -> bool {
        self.control.u32_at(STEAL).load(Ordering::Relaxed) != 0
    }

    /// What was counted of all.
    pub fn totals(&self) -> Totals {
        let [connections, lost, no_room, holes] =
            [CONNECTIONS, LOST, NO_ROOM, HOLES].map(|at| self.control.u64_at(at).load(Ordering::Relaxed));
        let ambiguous = u64::from(self.control.u32_at(AMBIGUOUS).load(Ordering::Relaxed));
        Totals { connections, lost, no_room, ambiguous, holes }
    }

    /// Returns when one of the rings is a quarter full, or the time is over.
    ///
    /// # Errors
    /// None is expected: the descriptors are our own.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        let mut which = Vec::with_capacity(2);
        match epoll::wait(&self.filling, spare_capacity(&mut which), Some(&most)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the rows that there are, at most `most`.
    pub fn drain(&mut self, most: usize, rows: &mut Vec<Headed>) {
        for _ in 0..most {
            let Some(item) = self.rows.next() else { return };
            if let Ok(bytes) = <&[u8; ROW_SIZE]>::try_from(&*item) {
                rows.push(parse(bytes));
            }
        }
    }

    /// Takes the events of connections that are looked into, at most `most`.
    pub fn events(&mut self, most: usize, events: &mut Vec<Event>) {
        for _ in 0..most {
            let Some(item) = self.events.next() else { return };
            events.extend(event::parse(&item));
        }
    }

    /// TLS and HTTP/2 are recognised by their first bytes: handshakes are counted apart, and turns of HTTP/2 are left to who reads the log.
    pub fn recognise(&self) {
        let copies = u32::from(self.copies());
        self.control.u32_at(PAYLOAD).store(copies * (1 | RECOGNISES), Ordering::Relaxed);
    }

    /// Whether the first bytes of what is sent can be had: not asked for, or this kernel does not give them.
    pub fn copies(&self) -> bool {
        self.control.u32_at(PAYLOAD).load(Ordering::Relaxed) != 0
    }

    /// Says what is known of a connection. Where there is no room, its log goes on as it was.
    pub fn judge(&mut self, connection: u64, verdict: Verdict) {
        let map = self.ebpf.map_mut("verdicts").and_then(|map| HashMap::<_, u64, u32>::try_from(map).ok());
        if let Some(mut map) = map {
            let _ = map.insert(connection, verdict as u32, 0);
        }
    }

    /// CPU time of the programs and how often they ran, while the kernel counted ([`count_run_time`]).
    ///
    /// # Errors
    /// /proc does not tell.
    pub fn run_time(&mut self) -> io::Result<(u64, u64)> {
        let (mut ns, mut runs) = (0, 0);
        let extra = self.datagrams.attached().chain(self.addresses.attached());
        let attached: Vec<String> =
            self.loaded.iter().map(|(_, name)| name.clone()).chain(extra.map(String::from)).collect();
        for name in attached {
            let fd = program(&mut self.ebpf, &name).and_then(|program| Ok(program.fd()?.try_clone()?));
            let fd = fd.map_err(io::Error::other)?;
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
            let field = |name: &str| -> u64 {
                let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
            };
            ns += field("run_time_ns");
            runs += field("run_cnt");
        }
        Ok((ns, runs))
    }
}

#[cfg(test)]
impl Watch {
    /// Instructions that the verifier has walked through of each program: what loading it costs.
    fn verified(&mut self) -> Vec<(String, u32)> {
        let names: Vec<String> = self.ebpf.programs().map(|(name, _)| name.to_owned()).collect();
        let mut count = |name: &str| program(&mut self.ebpf, name).ok()?.info().ok()?.verified_instruction_count();
        names.into_iter().filter_map(|name| count(&name).map(|verified| (name, verified))).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.switch(false);
    }
}

/// Where a ring holds anything it can be read; what is told is that the programs wake whoever reads (`wakes` of the source).
fn filling(rings: [&RingBuf<MapData>; 2]) -> io::Result<OwnedFd> {
    let filling = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for ring in rings {
        epoll::add(&filling, ring, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    }
    Ok(filling)
}

/// Lets the kernel count the run time of all BPF programs, until this is dropped.
///
/// # Errors
/// No right to (CAP_SYS_ADMIN).
pub fn count_run_time() -> io::Result<OwnedFd> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| error.io_error)
}

/// Port, process where there is none, and address of a server on another host: `struct address` of the programs, without its kind.
fn server([hi, lo, port]: [u64; 3]) -> (u32, i32, String) {
    match (hi | lo, port as u32) {
        (_, 0) => (0, lo as u32 as i32, String::new()),
        (0, port) => (port, 0, String::new()),
        (_, port) => {
            let mut octets = [0; 16];
            octets[..8].copy_from_slice(&hi.to_ne_bytes());
            octets[8..].copy_from_slice(&lo.to_ne_bytes());
            (port, 0, Ipv6Addr::from(octets).to_canonical().to_string())
        }
    }
}

fn set_bit(map: &Mapping, number: u16) {
    map.u64_at(usize::from(number) / 64 * 8).fetch_or(1 << (number % 64), Ordering::Relaxed);
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn name_at(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes[at..at + 16].try_into().expect("sixteen bytes")
}

fn culprit_at(bytes: &[u8], at: usize) -> Culprit {
    let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
    Culprit {
        ns: u64_at(bytes, at),
        pid: u32_at(bytes, at + 8) as i32,
        call: half(at + 12) as i16,
        kind: 0,
        cpu: half(at + 14),
        name: name_at(bytes, at + 16),
    }
}

/// Bits of the number of a block's call; the kind of the block is above them.
const CALL_BITS: u32 = 11;
/// The number where there is no call: a page fault.
const NO_CALL: i16 = (1 << CALL_BITS) - 1;
/// Of a call, beside its kind: it sends.
const SENDS_DATA: u8 = 0x80;

/// The longest block. In a page fault there is no call.
fn block_at(bytes: &[u8], at: usize) -> Culprit {
    let block = culprit_at(bytes, at);
    let call = Some(block.call & NO_CALL).filter(|call| *call != NO_CALL).unwrap_or(-1);
    // Where a tracepoint tells of timers alone, other interrupts are those of devices.
    let pid = if block.pid == by::DEVICE && !cfg!(target_arch = "x86_64") { by::INTERRUPT } else { block.pid };
    Culprit { call, kind: (block.call >> CALL_BITS) as u8, pid, ..block }
}

fn parse(bytes: &[u8; ROW_SIZE]) -> Headed {
    let (u64_at, u32_at) = (|at: usize| u64_at(bytes, at), |at: usize| u32_at(bytes, at));
    let stages = 72;
    let culprits = stages + STAGES * 8;
    let culprit = |number: usize| culprit_at(bytes, culprits + number * 32);
    let names = culprits + CULPRITS * 32;
    let row = RequestRow {
        t0_ns: u64_at(0),
        total_ns: u64_at(8),
        connection: u64_at(16),
        service: u32_at(24),
        flags: u32_at(28),
        weight: u32_at(32),
        turn: u32_at(36),
        bytes_there: u32_at(40),
        bytes_back: u32_at(44),
        server: u32_at(48) as i32,
        server_process: u32_at(52) as i32,
        client: u32_at(56) as i32,
        client_process: u32_at(60) as i32,
        faults: u32_at(64),
        port: u32_at(68),
        stages: Stages(std::array::from_fn(|stage| u64_at(stages + stage * 8))),
        run_there: culprit(0),
        block: block_at(bytes, culprits + 32),
        run_work: culprit(2),
        run_back: culprit(3),
        stop: culprit(4),
        server_name: name_at(bytes, names),
        client_name: name_at(bytes, names + 16),
        what: [0; 16],
    };
    (row, bytes[names + 32..].try_into().expect("the rest is the head"))
}

#[cfg(test)]
mod tests {
    use super::extra::State;
    use super::*;
    use msgpath_core::watch::Stage;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let mut bytes = [0; ROW_SIZE];
        for (word, chunk) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *chunk = (word as u32 + 1).to_ne_bytes();
        }
        let (row, head) = parse(&bytes);
        let wide = |word: u64| word | (word + 1) << 32;
        assert_eq!((row.t0_ns, row.connection, row.service, row.flags), (wide(1), wide(5), 7, 8));
        assert_eq!((row.server, row.client_process, row.faults, row.port), (13, 16, 17, 18));
        assert_eq!((row.stages[0], row.stages[STAGES - 1]), (wide(19), wide(17 + 2 * STAGES as u64)));
        let after = 19 + 2 * STAGES as u64;
        assert_eq!(
            (row.run_there.ns, row.run_there.pid, row.run_there.call),
            (wide(after), after as i32 + 2, after as i16 + 3)
        );
        assert_eq!((row.block.ns, row.run_back.ns), (wide(after + 8), wide(after + 24)));
        assert_eq!(row.stop.ns, wide(after + 32));
        let names = after as u32 + 8 * CULPRITS as u32;
        assert_eq!(
            (&row.client_name[12..], &head[..4]),
            (&(names + 7).to_ne_bytes()[..], &(names + 8).to_ne_bytes()[..])
        );
    }

    #[test]
    fn a_block_is_of_a_call_and_of_a_kind() {
        let block = |call: i16| {
            let mut bytes = [0; 32];
            bytes[12..14].copy_from_slice(&call.to_ne_bytes());
            let block = block_at(&bytes, 0);
            (block.call, block.stage())
        };
        assert_eq!(block(9 << CALL_BITS | 74), (74, Some(Stage::WorkDisk)));
        assert_eq!(block(12 << CALL_BITS | 61), (61, Some(Stage::WorkOther)));
        assert_eq!(block(11 << CALL_BITS | NO_CALL), (-1, Some(Stage::WorkFault)));
        assert_eq!(block(9 << CALL_BITS | NO_CALL), (-1, Some(Stage::WorkDisk)));
        assert_eq!(block(74), (74, None));
    }

    #[test]
    fn a_server_is_a_port_a_process_or_an_address() {
        let text = |parts: (u32, i32, String)| format!("{} {} {}", parts.0, parts.1, parts.2);
        let v4 = u64::from_ne_bytes([0, 0, 0xff, 0xff, 10, 66, 0, 2]);
        let v6 = [u64::from_ne_bytes([0xfd, 1, 0, 0, 0, 0, 0, 0]), u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 9])];
        let servers =
            [[0, 0, 6379 | 1 << 32], [0, 812, 0], [0, v4, 80], [v6[0], v6[1], 443]].map(|key| text(server(key)));
        assert_eq!(servers, ["6379 0 ", "0 812 ", "80 0 10.66.0.2", "443 0 fd01::9"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = ["sk_data_ready", "sock_send_length", "tcp_probe"].map(String::from);
        match Watch::open(Wanted { without: &without, ..Wanted::default() }) {
            Err(Refusal::Other(why)) => {
                assert!(why.contains("since 6.3: sk_data_ready, sock_send_length; and tcp_probe (left out)"), "{why}");
            }
            Err(refusal) => println!("skipped: {refusal:?}"),
            Ok(_) => panic!("it cannot do without"),
        }
    }

    /// Where the newer tracepoints are not there, TCP's own do.
    #[test]
    fn the_programs_for_older_kernels_load() {
        let without = NEWER.map(String::from);
        let (mut watch, missing) = match Watch::open(Wanted { payload: true, cgroups: true, without: &without }) {
            Ok(opened) => opened,
            Err(refusal) => return println!("skipped: {refusal:?}"),
        };
        assert!(missing.iter().any(|(name, _)| *name == SEND_BEGINS) && !watch.copies(), "{missing:?}");
        assert!(NEWER.iter().all(|name| missing.contains(&(*name, "left out".into()))), "{missing:?}");
        assert_eq!(watch.attach(), Missing::new());
        assert_eq!(watch.attach_datagrams(true).len(), 1);
        watch.verified().into_iter().for_each(|(name, count)| println!("{name}: {count} instructions verified"));
    }

    /// Every program of the object passes the verifier of this kernel, or its tracepoint is not there.
    #[test]
    fn the_programs_load_and_count_nothing_that_is_not_watched() {
        let older = ["sched_switch", SEND_BEGINS].map(String::from);
        for (payload, cgroups, without) in
            [(false, false, &older[..0]), (true, true, &older[..0]), (true, false, &older[..])]
        {
            let (mut watch, missing) = match Watch::open(Wanted { payload, cgroups, without }) {
                Ok(opened) => opened,
                Err(refusal) => return println!("skipped: {refusal:?}"),
            };
            println!("missing: {missing:?}, copies: {}", watch.copies());
            assert!(payload || !watch.copies());
            assert!(without.is_empty() || missing.contains(&(SEND_BEGINS, "left out".into())));
            assert_eq!(watch.attach(), Missing::new());
            assert_eq!((watch.attach_datagrams(true), watch.datagrams.state), (Missing::new(), State::Attached));
            let addresses = watch.addresses.attach(&mut watch.ebpf);
            assert_eq!((addresses, watch.addresses.state), (Missing::new(), State::Attached));
            watch.verified().into_iter().for_each(|(name, count)| println!("{name}: {count} instructions verified"));
            let (begin, attached) = (std::time::Instant::now(), watch.following.len());
            watch.detach();
            let middle = begin.elapsed();
            assert!(watch.following.is_empty() && attached > 5);
            assert_eq!((watch.attach(), watch.following.len()), (Missing::new(), attached));
            println!("{attached} programs detached in {middle:?}, attached in {:?}", begin.elapsed() - middle);
            watch.switch(true);
            let (mut one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            io::Write::write_all(&mut one, b"a").unwrap();
            io::Read::read_exact(&mut other, &mut [0]).unwrap();
            assert_eq!((watch.totals(), watch.services()), (Totals::default(), Vec::new()));
            let mut events = Vec::new();
            watch.events(1, &mut events);
            assert_eq!(events, []);
        }
    }
}
