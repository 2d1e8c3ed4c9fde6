//! The open loop at the near end: for each connection one thread that sends when its schedule says so, whatever the
//! far end does, and one that receives. Three times per message: intended, actual send, receive
//! (docs/method/open-loop.md#three-times-of-a-message).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use msgpath_core::schedule::{Arrivals, Schedule, seed};
use msgpath_core::schema::OpenRound;
use msgpath_core::{Delivery, Histogram};
use msgpath_paths::{Channel, End, Method, Wait};
use msgpath_sys::schedstat::RunDelay;
use msgpath_sys::{clock, timer, usage};

use crate::lateness::{Account, Reading};
use crate::loops::{Inbox, LOST, LoopError, Messages, Row, check, record};

/// A sender alone on its CPU wakes this long before a message is due and spins.
const SPIN_ALONE_NS: u64 = 80_000;
/// One that shares its CPU with the receiver, and yields while it spins.
const SPIN_SHARED_NS: u64 = 10_000;
/// A shorter sleep is not worth it.
const LEAST_SLEEP_NS: u64 = 5_000;
/// Between two looks at whether there is room for another message under way.
const LOOK_NS: u64 = 20_000;
/// Between two looks at whether the round was given up.
const SLICE_NS: u64 = 250_000_000;
/// With so much time left before a message is due, the thread's times are read anew.
const CALM_NS: u64 = 50_000;
/// A late sender reads its times at most this often.
const READ_EVERY_NS: u64 = 100_000;
/// Within the clock's own cost a send is on time.
const ON_TIME_NS: u64 = 200;
/// TCP's least retransmission timeout: a longer gap is an idle connection to it (RFC 2861).
const IDLE_NS: u64 = 200_000_000;
/// Samples of the backlog in a round.
const SAMPLES: u64 = 64;
/// Most messages of one connection in a round, trimmed ones included: every one has its times in memory.
pub const MAX_MESSAGES: u64 = 1 << 22;

/// What one round's schedules are made of.
#[derive(Clone, Debug)]
pub struct Load {
    /// Mean gap between two messages of one connection, ns.
    pub gap_ns: f64,
    /// How gaps are distributed.
    pub arrivals: Arrivals,
    /// Seed of the plan, case and pass: with the connection they make the seed of a schedule.
    pub seed: (u64, u32, u32),
    /// CPUs that senders have for themselves, in turn; empty: each shares the CPU of its receiver.
    pub cpus: Vec<u32>,
    /// Messages under way on a connection before its sender is held up.
    pub most: u64,
}

/// What the two threads of a connection share.
pub struct Flow {
    /// Intended sends, ns since `start`; the trimmed messages come first.
    schedule: Vec<u64>,
    gap_ns: f64,
    start: AtomicU64,
    /// Just before each send call, ns; 0: not sent.
    sent: Vec<AtomicU64>,
    /// Number of the last message that is sent.
    last: AtomicU64,
    /// Messages below this number are not waited for any more: answered, or lost.
    settled: AtomicU64,
    most: u64,
    /// The sender has ended, for whatever reason.
    over: AtomicBool,
    trim: usize,
    /// The sender has no CPU of its own.
    shares_cpu: bool,
}

impl Flow {
    /// A connection's flow of `trim` and then `messages` messages.
    pub fn new(load: &Load, connection: u32, trim: u64, messages: u64) -> Self {
        let (plan, case, pass) = load.seed;
        let count = (trim + messages).min(MAX_MESSAGES) as usize;
        let schedule = Schedule::new(load.gap_ns, load.arrivals, seed(plan, case, pass, connection));
        Self {
            schedule: schedule.take(count).collect(),
            gap_ns: load.gap_ns,
            start: AtomicU64::new(0),
            sent: (0..count).map(|_| AtomicU64::new(0)).collect(),
            last: AtomicU64::new(count as u64 - 1),
            settled: AtomicU64::new(0),
            most: load.most,
            over: AtomicBool::new(false),
            trim: trim as usize,
            shares_cpu: load.cpus.is_empty(),
        }
    }

    /// Whether the last message comes before the schedule's end.
    pub fn is_cut(&self) -> bool {
        self.last.load(Ordering::Acquire) < self.count() - 1
    }

    /// Whether message number `sequence` may be under way as well.
    #[inline(always)]
    fn has_room(&self, sequence: u64) -> bool {
        sequence.saturating_sub(self.settled.load(Ordering::Acquire)) < self.most
    }

    /// When the messages went that have gone so far, in the order of their numbers.
    fn gone(&self) -> impl Iterator<Item = u64> {
        self.sent.iter().map(|sent| sent.load(Ordering::Acquire)).take_while(|sent| *sent > 0)
    }

    /// Messages of the schedule, trimmed ones included.
    pub fn count(&self) -> u64 {
        self.schedule.len() as u64
    }
}

/// The sender's clock work: waits until messages are due and keeps the account of its lateness.
pub struct Generator<'a> {
    flow: &'a Flow,
    account: Account,
    run_delay: Option<RunDelay>,
    /// What was noted on the way.
    noted: OpenRound,
}

impl<'a> Generator<'a> {
    /// A generator for the calling thread, whose timer slack it sets to 1 ns.
    pub fn new(flow: &'a Flow) -> Self {
        let _ = timer::set_timer_slack(1);
        let mut generator = Self {
            flow,
            account: Account::new(Reading::default()),
            run_delay: RunDelay::open().ok(),
            noted: OpenRound::default(),
        };
        generator.account = Account::new(generator.reading());
        generator
    }

    /// What was noted of trimmed messages is forgotten; their debt is not.
    pub fn forget(&mut self) {
        self.noted = OpenRound::default();
        self.account.forget();
    }

    #[cold]
    fn reading(&self) -> Reading {
        let run_delay = self.run_delay.as_ref().and_then(|delay| delay.ns().ok()).unwrap_or(0);
        let usage = usage::thread();
        Reading { now: clock::now(), cpu: usage.user_ns + usage.system_ns, run_delay }
    }

    /// Sleeps, then spins, until `due`. Returns the time: just before the send.
    #[inline(always)]
    fn wait_until<C: Channel>(&mut self, due: u64, channel: &C) -> std::io::Result<u64> {
        let now = clock::now();
        if now >= due { Ok(now) } else { self.wait(due, now, channel) }
    }

    #[inline(never)]
    fn wait<C: Channel>(&mut self, due: u64, mut now: u64, channel: &C) -> std::io::Result<u64> {
        let spin_ns = if self.flow.shares_cpu { SPIN_SHARED_NS } else { SPIN_ALONE_NS };
        if due - now > CALM_NS {
            let reading = self.reading();
            self.account.read(reading);
            now = clock::now();
        }
        while due > now + spin_ns + LEAST_SLEEP_NS {
            let until = (due - spin_ns).min(now + SLICE_NS);
            self.account.sleeps(until - now);
            timer::sleep_until(until)?;
            channel.limits().look()?;
            now = clock::now();
        }
        let begin = now;
        while now < due {
            if self.flow.shares_cpu {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            now = clock::now();
        }
        self.noted.spun_ns += now - begin;
        Ok(now)
    }

    /// Waits until one message less is under way. It sleeps, so that the account takes it for what it is: being held up.
    #[cold]
    fn wait_for_room<C: Channel>(&mut self, sequence: u64, channel: &C) -> std::io::Result<()> {
        let since = clock::now();
        while !self.flow.has_room(sequence) {
            timer::sleep_until(clock::now() + LOOK_NS)?;
            channel.limits().again(std::io::Error::from(std::io::ErrorKind::WouldBlock), since)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn sent(&mut self, due: u64, now: u64) {
        if now - due > ON_TIME_NS && now - self.account.read_at() > READ_EVERY_NS {
            let reading = self.reading();
            self.account.read(reading);
        }
        self.account.send(due, now);
    }

    /// The part of the round's account that the sender keeps.
    pub fn finish(self) -> OpenRound {
        let paid = self.account.paid;
        let (blocked_ns, not_running_ns) = (paid.blocked as u64, paid.not_running as u64);
        OpenRound { blocked_ns, not_running_ns, own_ns: paid.own as u64, ..self.noted }
    }
}

/// Sends messages `range` of the flow, each when it is due or at once if that is over; none is skipped. `until`: the
/// message that is due then or later is the last one (ns after the start; 0: no limit).
///
/// # Errors
/// [`LoopError`].
pub fn open_send<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    messages: &Messages<'_>,
    generator: &mut Generator<'_>,
    range: std::ops::Range<u64>,
    until: u64,
    delivery: &mut Delivery,
) -> Result<(), LoopError> {
    let End { channel, method, .. } = end;
    let flow = generator.flow;
    if range.start == 0 {
        flow.start.store(clock::now() + CALM_NS, Ordering::Release);
    }
    let start = flow.start.load(Ordering::Relaxed);
    let mut before = flow.schedule.get((range.start as usize).wrapping_sub(1)).copied().unwrap_or(0);
    for sequence in range {
        let due = start + flow.schedule[sequence as usize];
        if !flow.has_room(sequence) {
            generator.wait_for_room(sequence, channel)?;
        }
        channel.limits().look()?;
        messages.outgoing.number(method.slot(channel)?, sequence);
        let idle = due - start - before > IDLE_NS;
        before = due - start;
        let cwnd = if idle { channel.tcp_info().map(|info| info.snd_cwnd) } else { None };
        let now = generator.wait_until(due, channel)?;
        let last = until > 0 && now - start > until;
        if last {
            // Told before it goes: its answer ends the receiver.
            flow.last.store(sequence, Ordering::Release);
        }
        flow.sent[sequence as usize].store(now, Ordering::Release);
        method.send(channel)?;
        method.flush(channel)?;
        delivery.sent += 1;
        generator.sent(due, now);
        if idle {
            let idle_cwnd = cwnd.zip(channel.tcp_info()).map(|(before, after)| (before, after.snd_cwnd));
            generator.noted.add(&OpenRound { idle_gaps: 1, idle_cwnd, ..OpenRound::default() });
        }
        if last {
            break;
        }
    }
    Ok(())
}

/// Says that no further message will be sent.
pub fn sender_is_over(flow: &Flow) {
    flow.over.store(true, Ordering::Release);
}

/// Receives the answers to the messages `range` of a flow; where messages may be lost, to all of them. `arrived` gets the
/// time of each by its number (0: none). Ends with the last message's answer; where messages may be lost, when the sender
/// is over and nothing comes any more.
///
/// # Errors
/// [`LoopError`].
pub fn open_receive<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    messages: &Messages<'_>,
    inbox: &mut Inbox,
    flow: &Flow,
    range: std::ops::Range<u64>,
    arrived: &mut [u64],
    delivery: &mut Delivery,
) -> Result<(), LoopError> {
    let End { channel, wait, .. } = end;
    if !messages.lossy {
        for sequence in range {
            if sequence > flow.last.load(Ordering::Acquire) {
                break;
            }
            inbox.receive(channel, wait, false)?;
            arrived[sequence as usize] = clock::now();
            flow.settled.store(sequence + 1, Ordering::Release);
            check(messages.incoming, inbox.bytes(), sequence, delivery)?;
        }
        return Ok(());
    }
    let (mut highest, mut answered) = (0, 0);
    loop {
        // Asked before the wait: a slice of silence then follows the last message.
        let over = flow.over.load(Ordering::Acquire);
        if !inbox.receive(channel, wait, true)? {
            if over {
                return Ok(());
            }
            // Whatever was under way is lost.
            flow.settled.store(flow.gone().count() as u64, Ordering::Release);
            continue;
        }
        let now = clock::now();
        let sequence = messages.incoming.nearest(inbox.bytes(), highest);
        messages.incoming.compare(inbox.bytes(), sequence)?;
        delivery.verified += 1;
        let Some(slot) = arrived.get_mut(sequence as usize) else { continue };
        if *slot != 0 {
            delivery.duplicated += 1;
            continue;
        }
        *slot = now;
        delivery.reordered += u64::from(sequence < highest);
        highest = highest.max(sequence);
        flow.settled.fetch_max(highest + 1, Ordering::Release);
        answered += 1;
        if over && answered > flow.last.load(Ordering::Acquire) {
            return Ok(());
        }
    }
}

/// What a connection's times come to, trimmed messages apart.
#[derive(Debug)]
pub struct Settled {
    /// From the intended send.
    pub latency: Histogram,
    /// From the actual send.
    pub service: Histogram,
    /// From the intended to the actual send.
    pub lateness: Histogram,
    /// From the intended send, trimmed messages only.
    pub first: Histogram,
    /// The receiver's part of the account.
    pub open: OpenRound,
    /// Messages in the order of the schedule; `start` is the intended send.
    pub rows: Vec<Row>,
    /// How late each row's message was sent, ns.
    pub late: Vec<u64>,
    /// Measured messages that were sent, answered, and neither.
    pub delivery: Delivery,
    /// From the first intended send to the last answer, ns.
    pub elapsed_ns: u64,
}

/// Brings the three times of every message together; `keep` rows at most. Not measured.
pub fn settle(flow: &Flow, arrived: &[u64], keep: usize) -> Settled {
    let start = flow.start.load(Ordering::Acquire);
    let mut settled = Settled {
        latency: Histogram::new(),
        service: Histogram::new(),
        lateness: Histogram::new(),
        first: Histogram::new(),
        open: OpenRound { offered: (flow.schedule.len() - flow.trim) as u64, ..OpenRound::default() },
        rows: Vec::new(),
        late: Vec::new(),
        delivery: Delivery::default(),
        elapsed_ns: 0,
    };
    let sent: Vec<u64> = flow.gone().collect();
    let begin = start + flow.schedule.get(flow.trim).copied().unwrap_or(0);
    let mut last_arrival = begin;
    for (at, sent) in sent.iter().enumerate() {
        let due = start + flow.schedule[at];
        let arrival = arrived[at];
        let latency = if arrival == 0 { LOST } else { arrival - due };
        if at < flow.trim {
            record(&mut settled.first, latency);
            continue;
        }
        let late = sent - due;
        record(&mut settled.latency, latency);
        record(&mut settled.service, if arrival == 0 { LOST } else { arrival - sent });
        settled.lateness.record(late);
        settled.open.lateness_ns += late;
        settled.open.late += u64::from(late as f64 > flow.gap_ns);
        settled.delivery.sent += 1;
        match arrival {
            0 => settled.delivery.lost += 1,
            _ => settled.delivery.received += 1,
        }
        last_arrival = last_arrival.max(arrival);
        if settled.rows.len() < keep {
            settled.rows.push(Row { start: due, latency });
            settled.late.push(late);
        }
    }
    settled.elapsed_ns = last_arrival - begin;
    let last_due = flow.schedule.last().copied().unwrap_or(0);
    settled.open.span_ns = (start + last_due).saturating_sub(begin) + flow.gap_ns as u64;
    settled.open.sent_ns = sent.last().map_or(0, |last| last.saturating_sub(begin));
    let mut answers: Vec<u64> = arrived.iter().copied().filter(|arrival| *arrival > 0).collect();
    answers.sort_unstable();
    under_way(&mut settled.open, &sent, &answers, flow.trim);
    settled.open.backlog = (1..=SAMPLES)
        .map(|sample| {
            let at = settled.open.span_ns * sample / SAMPLES;
            let due = flow.schedule.partition_point(|due| start + due <= begin + at);
            let answered = answers.partition_point(|answer| *answer <= begin + at);
            (at, due.saturating_sub(answered) as u64)
        })
        .collect();
    settled
}

/// How many messages each measured send found under way.
fn under_way(open: &mut OpenRound, sent: &[u64], answers: &[u64], trim: usize) {
    let mut answered = 0;
    for (before, sent) in sent.iter().enumerate() {
        while answers.get(answered).is_some_and(|answer| answer <= sent) {
            answered += 1;
        }
        if before >= trim {
            let under_way = before.saturating_sub(answered) as u64;
            open.under_way_sum += under_way;
            open.under_way_most = open.under_way_most.max(under_way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(trim: u64, messages: u64) -> Flow {
        let load = Load { gap_ns: 1_000.0, arrivals: Arrivals::Constant, seed: (1, 0, 0), cpus: vec![], most: 2 };
        let mut flow = Flow::new(&load, 0, trim, messages);
        flow.schedule = (1..=trim + messages).map(|at| at * 1_000).collect();
        flow.start.store(1_000_000, Ordering::Release);
        flow
    }

    /// Sends `late` ns after they were due, answers `service` ns after that.
    fn settled(flow: &Flow, late: impl Fn(usize) -> u64, service: impl Fn(usize) -> Option<u64>) -> Settled {
        let mut arrived = vec![0; flow.schedule.len()];
        for (at, (due, arrived)) in flow.schedule.iter().zip(&mut arrived).enumerate() {
            let sent = 1_000_000 + due + late(at);
            flow.sent[at].store(sent, Ordering::Release);
            *arrived = service(at).map_or(0, |service| sent + service);
        }
        settle(flow, &arrived, 3)
    }

    #[test]
    fn the_three_times_are_kept_apart() {
        let settled = settled(&flow(2, 4), |at| at as u64 * 10, |_| Some(500));
        assert_eq!((settled.latency.min(), settled.latency.max()), (Some(520), Some(550)));
        assert_eq!((settled.service.min(), settled.service.max()), (Some(500), Some(500)));
        assert_eq!((settled.lateness.min(), settled.lateness.max()), (Some(20), Some(50)));
        assert_eq!((settled.first.total(), settled.first.max()), (2, Some(510)));
        assert_eq!(
            settled.rows,
            [520, 530, 540].map(|latency| Row { start: 1_000_000 + (latency - 500) * 100 + 1_000, latency })
        );
        assert_eq!(settled.late, [20, 30, 40]);
        let delivery = Delivery { sent: 4, received: 4, ..Delivery::default() };
        assert_eq!((settled.delivery, settled.elapsed_ns), (delivery, 3_550));
        let open = &settled.open;
        assert_eq!((open.offered, open.span_ns, open.sent_ns, open.late, open.lateness_ns), (4, 4_000, 3_050, 0, 140));
        assert_eq!((open.under_way_sum, open.under_way_most), (0, 0));
    }

    #[test]
    fn what_is_lost_is_infinite_and_stays_in_the_backlog() {
        let settled = settled(&flow(0, 4), |_| 0, |at| (at != 1).then_some(2_500));
        assert_eq!((settled.latency.lost(), settled.delivery.lost, settled.delivery.received), (1, 1, 3));
        // Sends at 1, 2, 3, 4 µs; answers at 3.5, 5.5 and 6.5: before the sends 0, 1, 2 and 2 are under way.
        assert_eq!((settled.open.under_way_sum, settled.open.under_way_most), (5, 2));
        // At the end of the schedule (5 µs) four were due and one was answered.
        assert_eq!(settled.open.backlog.last(), Some(&(4_000, 3)));
    }

    #[test]
    fn what_was_not_sent_is_offered_and_not_a_message() {
        let flow = flow(1, 4);
        for at in 0..3 {
            flow.sent[at].store(1_000_000 + flow.schedule[at], Ordering::Release);
        }
        let settled = settle(&flow, &[1_001_500, 1_002_500, 1_003_500, 0, 0], 10);
        assert_eq!((settled.open.offered, settled.delivery.sent, settled.latency.total()), (4, 2, 2));
        assert_eq!(settled.open.backlog.last(), Some(&(4_000, 2)));
    }

    #[test]
    fn a_sender_is_held_up_by_what_is_under_way() {
        let flow = flow(0, 4);
        assert!(flow.has_room(1) && !flow.has_room(2));
        flow.settled.store(1, Ordering::Release);
        assert!(flow.has_room(2) && !flow.has_room(3));
        flow.settled.store(9, Ordering::Release);
        assert!(flow.has_room(3));
    }

    #[test]
    fn a_schedule_is_reproduced_by_its_seed() {
        let load = Load { gap_ns: 1e5, arrivals: Arrivals::Poisson, seed: (9, 2, 3), cpus: vec![1], most: 2 };
        let one = Flow::new(&load, 0, 10, 90);
        assert_eq!((one.schedule.clone(), one.count()), (Flow::new(&load, 0, 10, 90).schedule, 100));
        assert_ne!(one.schedule, Flow::new(&load, 1, 10, 90).schedule);
    }
}
