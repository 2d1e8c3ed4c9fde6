//! One process of a periodic run: sets its components up, lets them send and receive, brings their rows home.
//!
//! It ends with its parent, whatever ends that: the kernel kills it (PR_SET_PDEATHSIG), and where the order never came
//! through, the end of its standard input ends it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;
use std::time::Duration;

use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{CallCounts, Exit, Unavailable};
use msgpath_sys::say;
use msgpath_sys::schedstat::RunDelay;
use msgpath_sys::{affinity, clock, sigio, signal, timer};

use super::engine::{self, Deliver, Incoming, Next, Outgoing};
use super::mac::{KEY, Mac};
use super::orders::{FromProcess, HEAD, Order, Reading, ReceivedRow, Report, SentRow, Start, ToProcess};
use crate::record::Component;
use msgpath_agent::team::no_thread;
use msgpath_agent::wire;

/// Calls of the authentication that are timed before the first message: the first of a process is cold.
const TIMED_CALLS: usize = 17;
/// How long a process waits for what its parent says next.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process, which began at `begun`; it is spoken to over standard input and output.
pub fn process(begun: u64) -> ExitCode {
    let _ = std::fs::write("/proc/self/comm", "msgpath-vehicle");
    let (output, orders) = channel();
    let listen = move || {
        let mut input = io::stdin().lock();
        while let Ok(Some((message, _))) = wire::read::<ToProcess>(&mut input) {
            if output.send(message).is_err() {
                break;
            }
        }
        // The parent has gone, or says nonsense: nobody wants what this process would still do.
        std::process::exit(Exit::Unfinished.code().into());
    };
    let listening = Builder::new().name("orders".into()).spawn(listen);
    let mut out = io::stdout();
    let mut say =
        |message: &FromProcess, bytes: &[u8]| wire::write(&mut out, message, bytes).and_then(|()| out.flush());
    match listening.map_err(|error| failed(no_thread(&error).why)).and_then(|_| run(begun, &orders, &mut say)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(last) => {
            let _ = say(&last, &[]);
            // What was said is read before the input ends.
            std::thread::sleep(Duration::from_millis(100));
            Exit::Unfinished.code().into()
        }
    }
}

type Say<'a> = &'a mut dyn FnMut(&FromProcess, &[u8]) -> io::Result<()>;

fn failed(what: impl std::fmt::Display) -> FromProcess {
    FromProcess::Failed(what.to_string())
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

/// Ends this process when it outlives its time.
fn end_after(life: Duration) -> Result<(), FromProcess> {
    let watch = Builder::new().name("life".into()).spawn(move || {
        std::thread::sleep(life);
        say!("msgpath: a process of a periodic run outlived its time and ends");
        std::process::exit(Exit::Unfinished.code().into());
    });
    watch.map(drop).map_err(|error| failed(no_thread(&error).why))
}

fn run(begun: u64, orders: &Receiver<ToProcess>, say: Say<'_>) -> Result<(), FromProcess> {
    let Ok(ToProcess::Order(order)) = orders.recv_timeout(PATIENCE) else { return Err(failed("no order came")) };
    signal::die_with_parent(order.parent).map_err(|error| failed(format!("PR_SET_PDEATHSIG: {error}")))?;
    let mut order = order;
    if let Some((namespace, _)) = &order.place {
        // This thread moves, and all that it starts from here on are where it is.
        msgpath_agent::namespace::enter(namespace).map_err(|problem| failed(problem.what))?;
    }
    if let (Some((_, beyond)), true) = (&order.place, order.path.transport == "eth") {
        let beyond: std::net::IpAddr = beyond.parse().map_err(failed)?;
        let route =
            msgpath_agent::route::to((beyond, 0)).map_err(|why| failed(format!("no way to {beyond}: {why}")))?;
        order.options.interface = route.device;
    }
    end_after(Duration::from_nanos(order.life_ns))?;
    let mut stages = Stages { since: order.spawned_ns, list: Vec::new() };
    stages.list.push(("process start".into(), begun.saturating_sub(order.spawned_ns)));
    stages.since = begun;
    stages.done("order");
    let mut key = [0; KEY];
    if order.mac != Mac::None {
        say(&FromProcess::Key, &[]).map_err(failed)?;
        match orders.recv_timeout(PATIENCE) {
            Ok(ToProcess::Key(fetched)) => key = fetched,
            _ => return Err(failed("no key came")),
        }
        stages.done("key fetch");
    }
    let components = (0..order.components).map(|at| {
        let own = if at == 0 { std::mem::take(&mut stages.list) } else { Vec::new() };
        set_up(&order, order.number(at), &key, own).map_err(FromProcess::Unavailable)
    });
    let components = components.collect::<Result<Vec<Ready>, _>>()?;
    let stop = AtomicBool::new(false);
    let reports = std::thread::scope(|scope| {
        let (done, finished) = channel();
        let (sent, senders_done) = channel();
        let mut begin_at = Vec::new();
        for component in components {
            let (go, begins) = channel();
            begin_at.push(go);
            let (order, stop, key, done, sent) = (&*order, &stop, &key, done.clone(), sent.clone());
            let name = format!("component {}", component.number);
            let started = Builder::new().name(name).spawn_scoped(scope, move || {
                let _ = done.send(component.work(order, key, begins, stop, &sent));
            });
            if let Err(error) = started {
                stop.store(true, Ordering::Relaxed);
                return Err(failed(no_thread(&error).why));
            }
        }
        drop((done, sent));
        // The receivers are at work once their threads have been started; what arrives before waits in their buffers.
        let ready = say(&FromProcess::Ready, &[]);
        let start = match (ready, order.start) {
            (Err(error), _) => Err(failed(error)),
            (Ok(()), Start::Storm) => Ok(0),
            (Ok(()), _) => match orders.recv_timeout(PATIENCE) {
                Ok(ToProcess::Go(start)) => Ok(start),
                _ => Err(failed("the start never came")),
            },
        };
        if start.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        for go in &begin_at {
            let _ = go.send(*start.as_ref().unwrap_or(&0));
        }
        start?;
        let mut reported = false;
        let mut reports = Vec::new();
        let mut senders = 0;
        // Ends with the components: each ends when it has everything, or when it was told to.
        while reports.len() < begin_at.len() {
            senders += senders_done.try_iter().count();
            if senders == begin_at.len() && !reported {
                reported = true;
                say(&FromProcess::Sent, &[]).map_err(failed)?;
            }
            if matches!(orders.try_recv(), Ok(ToProcess::Stop)) {
                stop.store(true, Ordering::Relaxed);
            }
            match finished.recv_timeout(Duration::from_millis(20)) {
                Ok(result) => reports.push(result.inspect_err(|_| stop.store(true, Ordering::Relaxed))),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(error) => return Err(failed(format!("a component ended without a word: {error}"))),
            }
        }
        if !reported {
            say(&FromProcess::Sent, &[]).map_err(failed)?;
        }
        Ok(reports)
    })?;
    let (mut list, mut rows) = (Vec::new(), Vec::new());
    let mut all = reports.into_iter().collect::<Result<Vec<_>, Unavailable>>().map_err(FromProcess::Unavailable)?;
    all.sort_by_key(|finished| finished.number);
    for Finished { report, sent, received, .. } in all {
        rows.extend(sent.iter().flat_map(|row| row.bytes()));
        rows.extend(received.iter().flat_map(|row| row.bytes()));
        list.push(report);
    }
    say(&FromProcess::Done(list), &rows).map_err(failed)
}

/// Makes one component: memory, sockets, the first calls of the authentication.
fn set_up(order: &Order, number: u32, key: &[u8; KEY], own: Vec<(String, u64)>) -> Result<Ready, Unavailable> {
    let mut stages = Stages { since: clock::now(), list: own };
    let peers = order.heard_by(number);
    // Touched here: a page fault belongs to the set-up, not to a message.
    let mut sent = vec![SentRow { due: 1, ..SentRow::default() }; order.messages as usize];
    let mut received = vec![ReceivedRow { made: 1, ..ReceivedRow::default() }; (order.messages * peers) as usize];
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
        order: &Order,
        key: &[u8; KEY],
        begins: Receiver<u64>,
        stop: &AtomicBool,
        sent_all: &std::sync::mpsc::Sender<()>,
    ) -> Result<Finished, Unavailable> {
        let Ready { number, setup, mac_calls, outgoing, incoming, message, sent, received, ready } = self;
        let (receiver, delay) = (affinity::thread_id(), RunDelay::open().ok());
        let sender = AtomicI32::new(0);
        let sent_last = AtomicBool::new(false);
        let mut inbox = Inbox {
            order,
            key,
            stop,
            sent: &sent_last,
            own: number,
            expected: received.capacity(),
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
                thread.store(affinity::thread_id(), Ordering::Relaxed);
                let start = begins.recv().unwrap_or(0);
                let sending = send(order, Sender { number, key, outgoing, message, rows: sent }, start, delay, stop);
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
        let (calls, overrun) = received?;
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
            spawned_ns: order.spawned_ns,
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
            receiver_delay_ns: run_delay(|pair| pair.1),
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
    expected: usize,
    rows: Vec<ReceivedRow>,
    readings: Vec<Reading>,
    slice: u32,
    forged: u64,
    handled: (u64, u64),
}

/// Numbers in the head of a message: when made, sender and number from 0. `None`: no message of this run.
fn head(bytes: &[u8], of: u32) -> Option<(u64, u32, u32)> {
    let made = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (sender, number) = (word(8)?.checked_sub(1)?, word(12)?.checked_sub(1)?);
    (sender < of).then_some((made, sender, number))
}

impl Deliver for Inbox<'_> {
    #[inline]
    fn message(&mut self, bytes: &[u8], calls: &CallCounts) {
        let received = clock::now();
        let Some((made, sender, number)) = head(bytes, self.order.of) else { return };
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
        if self.rows.len() < self.expected {
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
        match self.rows.len() < self.expected || !self.sent.load(Ordering::Relaxed) {
            false => Next::End,
            true if self.stop.load(Ordering::Relaxed) => Next::Drain,
            true => Next::Wait,
        }
    }
}

struct Sending {
    rows: Vec<SentRow>,
    readings: Vec<Reading>,
    delays: Vec<(u64, u64)>,
}

/// What a component sends with.
struct Sender<'a> {
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
    sender: Sender<'_>,
    start: u64,
    receiver: Option<RunDelay>,
    stop: &AtomicBool,
) -> Result<Sending, Unavailable> {
    let Sender { number, key, mut outgoing, mut message, mut rows } = sender;
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
    message[8..12].copy_from_slice(&(number + 1).to_le_bytes());
    readings.push(Reading::now(calls));
    read_delays(&mut delays);
    let mut slice = 0;
    for at in 0..order.messages {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let jitter = if order.jitter_ns == 0 { 0 } else { chance.next_u64() % (order.jitter_ns + 1) };
        let due = start + at * order.period_ns + jitter;
        timer::sleep_until(due).map_err(failed)?;
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
    use super::*;

    #[test]
    fn only_the_heads_of_this_run_are_read() {
        let mut bytes = 77_u64.to_le_bytes().to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        assert_eq!(head(&bytes, 15), Some((77, 2, 0)));
        assert_eq!(head(&bytes, 2), None, "a sender that there is not");
        assert_eq!(head(&bytes[..15], 15), None);
        bytes[8] = 0;
        assert_eq!(head(&bytes, 15), None);
    }

    #[test]
    fn no_two_messages_share_a_nonce() {
        let mut all: Vec<_> = (0..15).flat_map(|sender| (0..100).map(move |number| nonce(sender, number))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1500);
    }
}
