//! One process of a periodic run, as a role of a session: sets its components up, lets them send and receive, brings their rows home.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::schedstat::RunDelay;
use msgpath_sys::{affinity, clock, sigio, timer};

use super::engine::{self, Deliver, Incoming, Next, Outgoing, Received};
use super::mac::{KEY, Mac};
use super::orders::{FromProcess, HEAD, Order, ROLE, Reading, ReceivedRow, Report, SentRow, Start, ToProcess};
use crate::record::Component;
use msgpath_agent::roles::{Context, Goes, ListedRole, SessionRole};
use msgpath_agent::route;
use msgpath_agent::team::no_thread;
use msgpath_agent::wire::{self, Body, FromEnd};

/// Calls of the authentication that are timed before the first message: the first of a process is cold.
const TIMED_CALLS: usize = 17;
/// Between two looks at whether the round goes on.
const LOOK: Duration = Duration::from_millis(20);
/// How much after the last send of all a message may still arrive: what has not by then is lost.
const GRACE: Duration = Duration::from_millis(500);

/// Messages that come again and are kept.
const DUPLICATES: usize = 1024;

pub const SESSION: ListedRole = ListedRole { name: ROLE, begin: || Box::new(Process::default()) };

/// The process, as far as it has been told what to do.
#[derive(Default)]
struct Process {
    /// Its order, until the key has come.
    keyless: Option<(Box<Order>, Stages)>,
    /// When the first period begins, ns; 0: at once.
    start: u64,
    team: Option<Team>,
}

impl SessionRole for Process {
    fn order(&mut self, body: &Body, context: &Context<'_>) -> io::Result<FromEnd> {
        let asked_ns = clock::now();
        match body.read()? {
            ToProcess::Order(order) => {
                context.silence_is_fine();
                let _ = std::fs::write("/proc/self/comm", "msgpath-vehicle");
                let mut stages = Stages { since: order.spawned_ns.unwrap_or_else(clock::now), list: Vec::new() };
                if order.spawned_ns.is_some() {
                    stages.done("process start");
                }
                if order.mac != Mac::None {
                    self.keyless = Some((order, stages));
                    return FromEnd::role(&FromProcess::Key);
                }
                Ok(self.set_up(*order, [0; KEY], stages))
            }
            ToProcess::Key(key) => {
                let unasked = || io::Error::new(io::ErrorKind::InvalidData, "a key that nobody asked for");
                let (order, mut stages) = self.keyless.take().ok_or_else(unasked)?;
                stages.done("key fetch");
                Ok(self.set_up(*order, key, stages))
            }
            ToProcess::Begin(start) => {
                self.start = start;
                Ok(FromEnd::ready())
            }
            ToProcess::Clock => FromEnd::role(&FromProcess::Clock { asked_ns, answered_ns: clock::now() }),
        }
    }

    fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
        let team = self.team.as_mut().filter(|team| !team.begins.is_empty())?;
        Some(team.send(self.start, goes).map_or_else(FromEnd::Unavailable, |()| FromEnd::Over))
    }

    fn report(&mut self, mut to: &mut dyn Write) -> io::Result<bool> {
        let Some(team) = self.team.take().filter(|team| team.begins.is_empty()) else { return Ok(false) };
        match team.home() {
            Ok((reports, rows)) => wire::write(&mut to, &FromEnd::role(&FromProcess::Done(reports))?, &rows)?,
            Err(reason) => wire::write(&mut to, &FromEnd::Unavailable(reason), &[])?,
        }
        Ok(true)
    }
}

impl Process {
    fn set_up(&mut self, order: Order, key: [u8; KEY], stages: Stages) -> FromEnd {
        match Team::new(order, key, stages.list) {
            Ok(team) => {
                self.team = Some(team);
                FromEnd::ready()
            }
            Err(reason) => FromEnd::Unavailable(reason),
        }
    }
}

/// What the threads of a process share.
struct Shared {
    order: Order,
    key: [u8; KEY],
    /// Nothing more is sent, and what has arrived is all.
    stop: AtomicBool,
}

/// The components of a process: their receivers are at work, their senders wait for the word to go.
struct Team {
    shared: Arc<Shared>,
    /// Tells each sender when the first period begins; empty once they were told.
    begins: Vec<Sender<u64>>,
    /// A word of each sender that has sent its last message.
    sent: Receiver<()>,
    finished: Receiver<Result<Finished, Unavailable>>,
    home: Vec<Finished>,
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Team {
    fn new(mut order: Order, key: [u8; KEY], mut own: Vec<(String, u64)>) -> Result<Self, Unavailable> {
        if order.options.between.is_some() && order.path.transport == "eth" {
            order.options.interface = match order.beyond {
                Some(beyond) => {
                    let route = route::to((beyond, 0));
                    route.map_err(|why| Unavailable::new(format!("no way to {beyond}: {why}"), ""))?.device
                }
                // Frames need no address; then there is one device that they can go through.
                None => route::only_device().map_err(|why| Unavailable::new(why, "an address at both places"))?,
            };
        }
        let ready = (0..order.components).map(|at| set_up(&order, order.number(at), &key, std::mem::take(&mut own)));
        let ready = ready.collect::<Result<Vec<Ready>, _>>()?;
        let shared = Arc::new(Shared { order, key, stop: AtomicBool::new(false) });
        let ((sent_last, sent), (done, finished)) = (channel(), channel());
        let mut team = Self { shared, begins: Vec::new(), sent, finished, home: Vec::new() };
        for component in ready {
            let (begin, begins) = channel();
            team.begins.push(begin);
            let (shared, done, sent) = (Arc::clone(&team.shared), done.clone(), sent_last.clone());
            let thread = Builder::new().name(format!("component {}", component.number));
            let work = move || drop(done.send(component.work(&shared, begins, &sent)));
            // What arrives before waits in their buffers.
            thread.spawn(work).map_err(|error| no_thread(&error))?;
        }
        Ok(team)
    }

    /// Lets all send until the last one has, or until the round ends early.
    fn send(&mut self, start: u64, goes: &mut dyn FnMut() -> Goes) -> Result<(), Unavailable> {
        let mut sending = self.begins.len();
        for begin in self.begins.drain(..) {
            let _ = begin.send(start);
        }
        while sending > 0 {
            match self.sent.recv_timeout(LOOK) {
                Ok(()) => sending -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for finished in self.finished.try_iter() {
                self.home.push(finished?);
            }
            if goes() != Goes::On {
                self.shared.stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        Ok(())
    }

    /// What the components have to report and the bytes of their rows, once all have received everything or no more will come.
    fn home(mut self) -> Result<(Vec<Report>, Vec<u8>), Unavailable> {
        let until = Instant::now() + GRACE;
        while self.home.len() < self.shared.order.components as usize {
            let stopped = self.shared.stop.load(Ordering::Relaxed);
            let wait = if stopped { LOOK } else { until.saturating_duration_since(Instant::now()) };
            match self.finished.recv_timeout(wait) {
                Ok(finished) => self.home.push(finished?),
                Err(RecvTimeoutError::Timeout) => self.shared.stop.store(true, Ordering::Relaxed),
                Err(error) => {
                    return Err(Unavailable::new(format!("a component ended without a word: {error}"), ""));
                }
            }
        }
        let mut home = std::mem::take(&mut self.home);
        home.sort_by_key(|finished| finished.number);
        let mut rows = Vec::new();
        for Finished { sent, received, .. } in &home {
            rows.extend(sent.iter().flat_map(|row| row.bytes()));
            rows.extend(received.iter().flat_map(|row| row.bytes()));
        }
        Ok((home.into_iter().map(|finished| finished.report).collect(), rows))
    }
}

/// Names the stages of the set-up and times them.
struct Stages {
    since: u64,
    list: Vec<(String, u64)>,
}

impl Stages {
    fn done(&mut self, name: &str) {
        let now = clock::now();
        self.list.push((name.into(), now - self.since));
        self.since = now;
    }
}

/// One component, set up and not yet started.
struct Ready {
    number: u32,
    setup: Vec<(String, u64)>,
    mac_calls: Vec<u64>,
    outgoing: Outgoing,
    incoming: Incoming,
    message: Vec<u8>,
    sent: Vec<SentRow>,
    received: Vec<ReceivedRow>,
    ready: u64,
}

/// Makes one component: memory, sockets, the first calls of the authentication.
fn set_up(order: &Order, number: u32, key: &[u8; KEY], own: Vec<(String, u64)>) -> Result<Ready, Unavailable> {
    let mut stages = Stages { since: clock::now(), list: own };
    let peers = order.heard_by(number);
    // Touched here: a page fault belongs to the set-up, not to a message.
    let messages = if order.sends(number) { order.messages as usize } else { 0 };
    let mut sent = vec![SentRow { due: 1, ..SentRow::default() }; messages];
    let rows = (order.messages * peers) as usize + DUPLICATES;
    let mut received = vec![ReceivedRow { made: 1, ..ReceivedRow::default() }; rows];
    sent.clear();
    received.clear();
    let mut message = vec![0; order.size as usize];
    message.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
    stages.done("buffer pools");
    let (outgoing, incoming) = engine::open(order, number)?;
    stages.done("open engine");
    let mut mac_calls = Vec::new();
    if order.mac != Mac::None {
        for call in 0..TIMED_CALLS as u64 {
            let begin = clock::now();
            order.mac.seal(key, nonce(u32::MAX, call as u32), &mut message);
            mac_calls.push(clock::now() - begin);
        }
        stages.done("first MACs");
    }
    let ready = clock::now();
    Ok(Ready { number, setup: stages.list, mac_calls, outgoing, incoming, message, sent, received, ready })
}

/// The number that is used once: sender and message.
fn nonce(sender: u32, number: u32) -> [u8; 8] {
    (u64::from(sender) << 32 | u64::from(number)).to_be_bytes()
}

struct Finished {
    number: u32,
    report: Report,
    sent: Vec<SentRow>,
    received: Vec<ReceivedRow>,
}

impl Ready {
    /// Receives in this thread and sends from another one.
    fn work(
        self,
        Shared { order, key, stop }: &Shared,
        begins: Receiver<u64>,
        sent_all: &Sender<()>,
    ) -> Result<Finished, Unavailable> {
        let Ready { number, setup, mac_calls, outgoing, incoming, message, sent, received, ready } = self;
        let (receiver, delay) = (affinity::thread_id(), RunDelay::open().ok());
        let sender = AtomicI32::new(0);
        // Who receives alone has no sender beside it that reads how long it was runnable.
        let (delay, own_delay) = if order.sends(number) { (delay, None) } else { (None, delay) };
        let runnable = || own_delay.as_ref().and_then(|delay| delay.ns().ok());
        let runnable_before = runnable();
        let sends_to = match &outgoing {
            Outgoing::Group(sender) => Some(sender.facts.clone()),
            _ => None,
        };
        let sent_last = AtomicBool::new(false);
        let mut inbox = Inbox {
            order,
            key,
            stop,
            sent: &sent_last,
            own: number,
            expected: (order.messages * order.heard_by(number)) as usize,
            arrived: 0,
            seen: vec![0; (u64::from(order.of) * order.messages).div_ceil(64) as usize],
            rows: received,
            readings: Vec::with_capacity(order.slices as usize + 1),
            slice: 0,
            forged: 0,
            handled: (0, 0),
        };
        inbox.readings.push(Reading::now(CallCounts::default()));
        let (sending, received) = std::thread::scope(|scope| {
            let (thread, sent_last) = (&sender, &sent_last);
            let sends = move || {
                let start = begins.recv().unwrap_or(0);
                let sending = if order.sends(number) {
                    thread.store(affinity::thread_id(), Ordering::Relaxed);
                    send(order, Sends { number, key, outgoing, message, rows: sent }, start, delay, stop)
                } else {
                    Ok(Sending::default())
                };
                sent_last.store(true, Ordering::Relaxed);
                let _ = sent_all.send(());
                sending
            };
            let sending = Builder::new().spawn_scoped(scope, sends).map_err(|error| no_thread(&error))?;
            let received = engine::receive(incoming, order, &mut inbox);
            if received.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            Ok::<_, Unavailable>((sending.join(), received))
        })?;
        let Received { calls, overrun, joined } = received?;
        let runnable_for = runnable().zip(runnable_before).map(|(after, before)| after.saturating_sub(before));
        let Sending { rows: sent, readings: sending, delays } =
            sending.map_err(|_| Unavailable::new("a sender panicked", ""))??;
        inbox.readings.push(Reading::now(calls));
        let late = sent.iter().map(|row| row.made.saturating_sub(row.due));
        let run_delay = |pick: fn(&(u64, u64)) -> u64| {
            Some(pick(delays.last()?).saturating_sub(pick(delays.first()?))).filter(|_| delays.len() > 1)
        };
        let component = Component {
            process: order.process,
            pid: std::process::id() as i32,
            sender: sender.load(Ordering::Relaxed),
            receiver,
            spawned_ns: order.spawned_ns.unwrap_or(0),
            setup,
            ready_ns: ready,
            mac_calls,
            sent: sent.len() as u64,
            late: late.clone().filter(|late| *late > order.period_ns).count() as u64,
            latest_ns: late.max().unwrap_or(0),
            received: inbox.rows.len() as u64,
            missed: 0, // known at home, where the senders' times are
            forged: inbox.forged,
            overrun,
            handled: inbox.handled,
            sender_delay_ns: run_delay(|pair| pair.0),
            receiver_delay_ns: runnable_for.or_else(|| run_delay(|pair| pair.1)),
            sends: sends_to,
            joined,
        };
        let report = Report {
            component,
            sent: sent.len() as u32,
            received: inbox.rows.len() as u32,
            sending,
            receiving: inbox.readings,
            delays,
        };
        Ok(Finished { number, report, sent, received: inbox.rows })
    }
}

/// What the receiver keeps.
struct Inbox<'a> {
    order: &'a Order,
    key: &'a [u8; KEY],
    stop: &'a AtomicBool,
    /// The component has sent its last message. Its socket ends with the receiver, so the receiver stays until then.
    sent: &'a AtomicBool,
    own: u32,
    /// Messages that are to come, and those that have.
    expected: usize,
    arrived: usize,
    /// A bit for each of them.
    seen: Vec<u64>,
    rows: Vec<ReceivedRow>,
    readings: Vec<Reading>,
    slice: u32,
    forged: u64,
    handled: (u64, u64),
}

/// Numbers in the head of a message: when made, sender and number from 0. `None`: no message of this session, which has `of` components and
/// this tag: another run may send to the same group.
fn head(bytes: &[u8], of: u32, tag: u32) -> Option<(u64, u32, u32)> {
    let made = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (sender, number) = ((word(8)? ^ tag).checked_sub(1)?, word(12)?.checked_sub(1)?);
    (sender < of).then_some((made, sender, number))
}

impl Deliver for Inbox<'_> {
    #[inline]
    fn message(&mut self, bytes: &[u8], calls: &CallCounts) {
        let received = clock::now();
        let Some((made, sender, number)) = head(bytes, self.order.of, self.order.tag) else { return };
        if sender == self.own
            || !super::orders::crosses(self.order.border, sender, self.own)
            || u64::from(number) >= self.order.messages
            || bytes.len() != self.order.size as usize
        {
            return;
        }
        let mut delivered = received;
        if self.order.mac != Mac::None {
            if !self.order.mac.fits(self.key, nonce(sender, number), bytes) {
                self.forged += 1;
                return;
            }
            delivered = clock::now();
        }
        let bit = u64::from(sender) * self.order.messages + u64::from(number);
        let (word, mask) = ((bit / 64) as usize, 1 << (bit % 64));
        self.arrived += usize::from(self.seen[word] & mask == 0);
        self.seen[word] |= mask;
        if self.rows.len() < self.rows.capacity() {
            self.rows.push(ReceivedRow { sender, number, made, received, delivered });
        }
        let signal = sigio::handled();
        if signal != 0 && received > signal {
            self.handled = (self.handled.0 + 1, self.handled.1 + (received - signal));
        }
        let slice = self.order.slice(number.into());
        if slice > self.slice {
            // Once a slice, between messages.
            self.slice = slice;
            self.readings.push(Reading::now(*calls));
        }
    }

    #[inline]
    fn next(&self) -> Next {
        match (self.sent.load(Ordering::Relaxed), self.arrived < self.expected) {
            (true, false) => Next::End,
            (true, true) if self.stop.load(Ordering::Relaxed) => Next::Drain,
            _ => Next::Wait,
        }
    }
}

#[derive(Default)]
struct Sending {
    rows: Vec<SentRow>,
    readings: Vec<Reading>,
    delays: Vec<(u64, u64)>,
}

/// What a component sends with.
struct Sends<'a> {
    /// Of the component.
    number: u32,
    key: &'a [u8; KEY],
    outgoing: Outgoing,
    message: Vec<u8>,
    /// Empty, with room for all messages.
    rows: Vec<SentRow>,
}

/// Sends one message a period, from `start` on (0: now). `receiver` is whose run delay is read beside the own.
fn send(
    order: &Order,
    sender: Sends<'_>,
    start: u64,
    receiver: Option<RunDelay>,
    stop: &AtomicBool,
) -> Result<Sending, Unavailable> {
    let Sends { number, key, mut outgoing, mut message, mut rows } = sender;
    let failed = |error: io::Error| Unavailable::new(format!("{}: {error}", order.path), "");
    // The kernel may wake a sleeper 50 µs late to save power: that would be part of every message's lateness.
    timer::set_timer_slack(1).map_err(failed)?;
    let mut chance = SplitMix64::new(order.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let phase = match order.start {
        Start::Staggered => order.period_ns * u64::from(number) / u64::from(order.of),
        Start::Barrier | Start::Storm => 0,
    };
    let start = if start == 0 { clock::now() } else { start } + phase;
    let mut calls = CallCounts::default();
    let mut readings = Vec::with_capacity(order.slices as usize + 1);
    let mut delays = Vec::with_capacity(order.slices as usize + 1);
    let own = RunDelay::open().ok();
    let read_delays = |delays: &mut Vec<(u64, u64)>| {
        let ns = |delay: &Option<RunDelay>| delay.as_ref()?.ns().ok();
        delays.extend(ns(&own).zip(ns(&receiver)));
    };
    message[8..12].copy_from_slice(&((number + 1) ^ order.tag).to_le_bytes());
    readings.push(Reading::now(calls));
    read_delays(&mut delays);
    let mut slice = 0;
    for at in 0..order.messages {
        let jitter = if order.jitter_ns == 0 { 0 } else { chance.next_u64() % (order.jitter_ns + 1) };
        let due = start + at * order.period_ns + jitter;
        timer::sleep_until(due).map_err(failed)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let made = clock::now();
        message[..8].copy_from_slice(&made.to_le_bytes());
        message[12..HEAD].copy_from_slice(&(at as u32 + 1).to_le_bytes());
        let mut call = made;
        if order.mac != Mac::None {
            order.mac.seal(key, nonce(number, at as u32), &mut message);
            call = clock::now();
        }
        let returned = match outgoing.send(&message, &mut calls) {
            Ok(()) => clock::now(),
            // A queue that is full loses the message; it is counted with the lost ones.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(NO_BUFFERS) => 0,
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(failed(error));
            }
        };
        rows.push(SentRow { due, made, call, returned });
        if at + 1 < order.messages && order.slice(at + 1) > slice {
            slice = order.slice(at + 1);
            readings.push(Reading::now(calls));
            read_delays(&mut delays);
        }
    }
    readings.push(Reading::now(calls));
    read_delays(&mut delays);
    Ok(Sending { rows, readings, delays })
}

/// ENOBUFS.
const NO_BUFFERS: i32 = 105;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use msgpath_agent::Reach;
    use msgpath_agent::roles::testing::{hears, says, session};
    use msgpath_agent::wire::ToEnd;

    use super::super::engine::tests::order;
    use super::super::orders::{GroupOrder, ROW};
    use super::*;

    static ROLES: [ListedRole; 1] = [SESSION];

    fn asks(control: &mut UnixStream, told: &ToEnd) -> (FromEnd, Vec<u8>) {
        says(control, told);
        hears(control)
    }

    #[test]
    fn the_components_of_a_process_hear_one_another() {
        let (mut control, ended) = session(&ROLES, Reach::Own);
        let own = Order { components: 3, mac: Mac::Hmac, first: 0, ..order("block") };
        let told = |told: &ToProcess| ToEnd::role(ROLE, told).unwrap();
        let wants = asks(&mut control, &told(&ToProcess::Order(Box::new(own)))).0;
        assert_eq!(wants.of_role(), Ok(FromProcess::Key));
        assert_eq!(asks(&mut control, &told(&ToProcess::Key([7; KEY]))).0, FromEnd::ready());
        assert_eq!(asks(&mut control, &told(&ToProcess::Begin(clock::now()))).0, FromEnd::ready());
        let clock_lies_between = |control: &mut UnixStream| {
            let before = clock::now();
            let Ok(FromProcess::Clock { asked_ns, answered_ns }) = asks(control, &told(&ToProcess::Clock)).0.of_role()
            else {
                panic!("no clock")
            };
            assert!([before, asked_ns, answered_ns, clock::now()].is_sorted());
        };
        clock_lies_between(&mut control);
        assert_eq!(asks(&mut control, &ToEnd::Go).0, FromEnd::Over);
        let (said, rows) = asks(&mut control, &ToEnd::Finish);
        let Ok(FromProcess::Done(reports)) = said.of_role() else { panic!("no report") };
        let counted: Vec<_> = reports.iter().map(|one| (one.sent, one.received, one.component.forged)).collect();
        assert_eq!((counted, rows.len()), (vec![(10, 20, 0); 3], 3 * 30 * ROW));
        clock_lies_between(&mut control);
        says(&mut control, &ToEnd::Finish);
        assert!(ended.join().unwrap().is_err(), "it was reported");
    }

    #[test]
    fn of_a_group_one_component_sends_and_the_others_receive() {
        let (mut control, ended) = session(&ROLES, Reach::Own);
        let plain = order("epoll");
        let group = format!("239.255.78.1%lo:{}", plain.port).parse().unwrap();
        let group = Some(GroupOrder { group, hops: 1, looped: true, join: None, place: String::new() });
        let own = Order { components: 3, border: 1, tag: 77, group, ..plain };
        let told = ToEnd::role(ROLE, &ToProcess::Order(Box::new(own))).unwrap();
        match asks(&mut control, &told).0 {
            FromEnd::Unavailable(reason) => return println!("skipped: {reason}"),
            said => assert_eq!(said, FromEnd::ready()),
        }
        assert_eq!(asks(&mut control, &ToEnd::Go).0, FromEnd::Over);
        let (said, rows) = asks(&mut control, &ToEnd::Finish);
        let Ok(FromProcess::Done(reports)) = said.of_role() else { panic!("no report") };
        let counted: Vec<_> = reports.iter().map(|one| (one.sent, one.received)).collect();
        assert_eq!((counted, rows.len()), (vec![(10, 0), (0, 10), (0, 10)], 30 * ROW));
        let sends = reports[0].component.sends.as_ref().unwrap();
        assert_eq!((sends.device.as_str(), sends.hops, sends.looped), ("lo", 1, true));
        for report in &reports[1..] {
            let joined = report.component.joined.as_ref().unwrap();
            assert_eq!((joined.device.as_str(), joined.hops, joined.came_by.as_ref()), ("lo", Some((1, 1)), None));
            assert_eq!((joined.member, joined.overflowed.unwrap_or(0)), (Some(true), 0));
        }
        says(&mut control, &ToEnd::Finish);
        assert!(ended.join().unwrap().is_err(), "it was reported");
    }

    #[test]
    fn a_process_ends_early_with_what_has_arrived_and_is_told_in_turn() {
        let (mut control, ended) = session(&ROLES, Reach::Own);
        let own = Order { messages: 1_000, period_ns: 200_000_000, components: 3, ..order("poll") };
        let order = ToEnd::role(ROLE, &ToProcess::Order(Box::new(own))).unwrap();
        assert_eq!(asks(&mut control, &order).0, FromEnd::ready());
        says(&mut control, &ToEnd::Go);
        assert_eq!(asks(&mut control, &ToEnd::Finish).0, FromEnd::Over);
        let said = hears(&mut control).0;
        let reports = match said.of_role() {
            Ok(FromProcess::Done(reports)) => reports,
            other => panic!("no report: {other:?}"),
        };
        assert!(reports.len() == 3 && reports.iter().all(|report| report.sent < 1_000));
        says(&mut control, &ToEnd::role(ROLE, &ToProcess::Key([0; KEY])).unwrap());
        assert!(ended.join().unwrap().is_err(), "nobody asked for a key");
    }

    #[test]
    fn only_the_heads_of_this_run_are_read() {
        let mut bytes = 77_u64.to_le_bytes().to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        assert_eq!(head(&bytes, 15, 0), Some((77, 2, 0)));
        assert_eq!(head(&bytes, 2, 0), None, "a sender that there is not");
        assert_eq!(head(&bytes, 15, 0x1234_5678), None, "another session");
        assert_eq!(head(&bytes[..15], 15, 0), None);
        bytes[8] = 0;
        assert_eq!(head(&bytes, 15, 0), None);
    }

    #[test]
    fn no_two_messages_share_a_nonce() {
        let mut all: Vec<_> = (0..15).flat_map(|sender| (0..100).map(move |number| nonce(sender, number))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1500);
    }
}
