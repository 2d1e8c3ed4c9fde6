//! The open loop at the near end: for each connection one thread that sends when its schedule says so, whatever the
//! far end does, and one that receives; or one event loop for many connections ([`crate::event_loop::open_echo`]). Three times per message: intended, actual send, receive
//! (docs/method/open-loop.md#three-times-of-a-message).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use msgpath_core::schedule::{Arrivals, Schedule, seed_of, taken_up};
use msgpath_core::schema::OpenRound;
use msgpath_core::{Delivery, Histogram};
use msgpath_paths::{Channel, End, Method, Wait};
use msgpath_sys::{clock, timer};

use crate::loops::{Inbox, LOST, LoopError, Row, Traffic, check, record};
use crate::pacer::Pacer;
use crate::wire::{Debt, Load};

/// Between two looks at whether there is room for another message in flight.
const LOOK_NS: u64 = 20_000;
/// A schedule begins so long after its first message was made ready.
const CALM_NS: u64 = 50_000;
/// TCP's least retransmission timeout: a longer gap is an idle connection to it (RFC 2861).
const IDLE_NS: u64 = 200_000_000;
/// Samples of the backlog in a round.
const SAMPLES: u64 = 64;
/// Most messages of one connection in a round, trimmed ones included: every one has its times in memory.
pub const MAX_MESSAGES: u64 = 1 << 22;

/// What the two threads of a connection share.
pub struct Flow {
    /// Intended sends, ns since `start`; the trimmed messages come first.
    schedule: Vec<u64>,
    gap_ns: f64,
    arrivals: Arrivals,
    /// What the rounds before left.
    debt: Debt,
    /// What has become due since then, while the far end stood still, ns.
    stood_still: AtomicU64,
    /// The begin of the round, ns.
    begun: AtomicU64,
    /// The origin of the schedule, ns: before `begun` by the debt.
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
        let schedule = Schedule::new(load.gap_ns, load.arrivals, seed_of(load.arrivals, plan, case, pass, connection));
        Self {
            schedule: schedule.take(count).collect(),
            gap_ns: load.gap_ns,
            arrivals: load.arrivals,
            debt: Debt::default(),
            stood_still: AtomicU64::new(0),
            begun: AtomicU64::new(0),
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

    /// The flow after rounds that left this debt.
    pub fn after(self, debt: Debt) -> Self {
        Self { debt, ..self }
    }

    /// The far end stood still for so long since the rounds before, ns.
    pub fn owes(&self, ns: u64) {
        self.stood_still.store(ns, Ordering::Release);
    }

    /// What the round begins with, ns.
    fn owed_ns(&self) -> u64 {
        self.debt.ns.saturating_add(self.stood_still.load(Ordering::Acquire))
    }

    /// The flow of an event loop: one schedule for all its connections, which its messages take in turn; `trim` and
    /// `messages` are those of each.
    pub fn of_event_loop(load: &Load, thread: u32, connections: u64, trim: u64, messages: u64) -> Self {
        let load = Load { gap_ns: load.gap_ns / connections as f64, ..load.clone() };
        Self::new(&load, thread, trim * connections, messages * connections)
    }

    /// Messages at its begin that are not measured.
    pub fn trim(&self) -> u64 {
        self.trim as u64
    }

    /// Messages in flight on a connection before its sender is held up.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// When message `number` is due, ns of the monotonic clock.
    #[inline(always)]
    pub fn due(&self, number: u64) -> u64 {
        self.start.load(Ordering::Relaxed) + self.schedule[number as usize]
    }

    /// Number of the last message that is sent.
    #[inline(always)]
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Message `number` is handed over now, ns. Whether it is the last one: more than `until` ns since the begin are over
    /// (0: no limit).
    #[inline(always)]
    pub fn goes(&self, number: u64, now: u64, until: u64) -> bool {
        let last = until > 0 && now.saturating_sub(self.begun.load(Ordering::Relaxed)) > until;
        if last {
            // Told before it goes: its answer ends the receiver.
            self.last.store(number, Ordering::Release);
        }
        self.sent[number as usize].store(now, Ordering::Release);
        last
    }

    /// Whether the last message comes before the schedule's end.
    pub fn is_cut(&self) -> bool {
        self.last() < self.count() - 1
    }

    /// The round begins at this time, ns: the schedule began before, by what it is behind.
    pub fn begin(&self, at: u64) {
        self.begun.store(at, Ordering::Release);
        self.start.store(at.saturating_sub(self.owed_ns()), Ordering::Release);
    }

    /// When each message is due, ns after the begin.
    pub fn schedule(&self) -> &[u64] {
        &self.schedule
    }

    /// Messages that are not waited for any more.
    #[inline(always)]
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// One message more was answered, of those that are answered in their order.
    #[inline(always)]
    pub fn settle_one(&self) {
        self.settled.fetch_add(1, Ordering::Release);
    }

    /// Whether message number `sequence` may be in flight as well.
    #[inline(always)]
    pub fn has_room(&self, sequence: u64) -> bool {
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

    /// Where the schedule stands after a round in which `sent` messages were sent, answered at the times `answers` (in
    /// their order), the quickest after `quickest` ns; notes what the round adds to the line of the case.
    ///
    /// The far end is free again when the last reply has left it: what has become due by then is owed. A reply is under
    /// way for a time in which the next message would be under way too, at most as long as the quickest reply took.
    pub fn close(&self, open: &mut OpenRound, answers: &[u64], (sent, quickest): (usize, Option<u64>)) -> Debt {
        let (begun, start) = (self.begun.load(Ordering::Acquire), self.start.load(Ordering::Acquire));
        let quickest_ns = [quickest.unwrap_or(0), self.debt.quickest_ns].into_iter().filter(|ns| *ns > 0).min();
        let quickest_ns = quickest_ns.unwrap_or(0);
        let last = sent.checked_sub(1).map_or(0, |last| self.schedule[last]);
        let due = taken_up(self.arrivals, self.gap_ns, sent as u64, last);
        let end = answers.last().map_or(0, |answer| answer.saturating_sub(quickest_ns)).max(start + due).max(begun);
        let ns = end - start - due;
        open.debt_ns = [self.owed_ns(), ns];
        open.schedule_ns = due;
        let by = |at: u64| {
            let beyond = at.saturating_sub(start + due) as f64 / self.gap_ns;
            let due = self.schedule[..sent].partition_point(|due| start + due <= at) + beyond as usize;
            due.saturating_sub(answers.partition_point(|answer| *answer <= at)) as u64
        };
        let at = |sample: u64| (end - begun) * sample / SAMPLES;
        open.backlog = (1..=SAMPLES).map(|sample| (at(sample), by(begun + at(sample)))).collect();
        Debt { ns, quickest_ns }
    }
}

/// What a sender works with: its flow, and the clock work.
pub struct Generator<'a> {
    pub flow: &'a Flow,
    /// The message that goes then or later is the last one, ns after the begin; 0: no limit.
    until: u64,
    /// Once it is set, the next message is the last one.
    told: Option<&'a AtomicBool>,
    /// The clock work.
    pub pacer: Pacer,
    /// What was noted on the way.
    noted: OpenRound,
}

impl<'a> Generator<'a> {
    /// A generator for the calling thread, whose timer slack it sets to 1 ns.
    pub fn new(flow: &'a Flow) -> Self {
        Self { flow, until: 0, told: None, pacer: Pacer::of_this_thread(flow.shares_cpu), noted: OpenRound::default() }
    }

    /// The message that goes at `until` or later is the last one, ns after the begin; 0: no limit.
    pub fn until(self, until: u64) -> Self {
        Self { until, ..self }
    }

    /// Once this is set, the next message is the last one.
    pub fn told(self, told: &'a AtomicBool) -> Self {
        Self { told: Some(told), ..self }
    }

    /// When the message that goes then or later is the last one, ns after the begin; 0: never.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u64 {
        match self.told {
            Some(told) if told.load(Ordering::Relaxed) => 1,
            _ => self.until,
        }
    }

    /// What was noted of trimmed messages is forgotten; their debt is not.
    pub fn forget(&mut self) {
        self.noted = OpenRound::default();
        self.pacer.forget();
    }

    /// Waits until one message less is in flight. It sleeps, so that the account takes it for what it is: being held up.
    /// `look` is asked whether the round was given up; it gets the begin of the wait.
    ///
    /// # Errors
    /// As `look`.
    #[cold]
    pub fn wait_for_room(
        &mut self,
        sequence: u64,
        mut look: impl FnMut(u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let since = clock::now();
        while !self.flow.has_room(sequence) {
            timer::sleep_until(clock::now() + LOOK_NS)?;
            look(since)?;
        }
        Ok(())
    }

    /// Lets the round begin in a moment.
    pub fn begin(&mut self) {
        self.flow.begin(clock::now() + CALM_NS);
        self.owes();
    }

    /// The round has begun with a debt: the far end has made it.
    pub fn owes(&mut self) {
        self.pacer.owes(self.flow.start.load(Ordering::Relaxed), self.flow.owed_ns());
    }

    /// The part of the round's account that the sender keeps.
    pub fn finish(self) -> OpenRound {
        let Self { pacer, mut noted, .. } = self;
        pacer.finish(&mut noted);
        noted
    }
}

/// Sends messages `range` of the flow, each when it is due or at once if that is over; none is skipped.
///
/// # Errors
/// [`LoopError`].
pub fn open_send<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    traffic: Traffic<'_>,
    generator: &mut Generator<'_>,
    range: std::ops::Range<u64>,
) -> Result<(), LoopError> {
    let Traffic { messages, delivery } = traffic;
    let End { channel, method, .. } = end;
    let flow = generator.flow;
    if range.start == 0 {
        generator.begin();
    }
    let start = flow.start.load(Ordering::Relaxed);
    let mut before = flow.schedule.get((range.start as usize).wrapping_sub(1)).copied().unwrap_or(0);
    for sequence in range {
        let due = start + flow.schedule[sequence as usize];
        if !flow.has_room(sequence) {
            let again = |since| channel.limits().again(std::io::ErrorKind::WouldBlock.into(), since);
            generator.wait_for_room(sequence, again)?;
        }
        channel.limits().look()?;
        messages.outgoing.number(method.slot(channel)?, sequence);
        let idle = due - start - before > IDLE_NS;
        before = due - start;
        let cwnd = if idle { channel.tcp_info().map(|info| info.snd_cwnd) } else { None };
        let now = generator.pacer.wait_until(due, || channel.limits().look())?;
        let last = flow.goes(sequence, now, generator.limit());
        method.send(channel)?;
        method.flush(channel)?;
        delivery.sent += 1;
        generator.pacer.sent(due, now);
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
/// time of each by its number (0: none). Ends when all are answered; where messages may be lost, also when the sender is
/// over and nothing comes any more.
///
/// # Errors
/// [`LoopError`].
pub fn open_receive<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    flow: &Flow,
    range: std::ops::Range<u64>,
    arrived: &mut [u64],
) -> Result<(), LoopError> {
    let Traffic { messages, delivery } = traffic;
    let End { channel, wait, .. } = end;
    if !messages.lossy {
        for sequence in range {
            if sequence > flow.last() {
                break;
            }
            let bytes = inbox.next_of(0, channel, wait, u64::MAX)?;
            arrived[sequence as usize] = clock::now();
            flow.settled.store(sequence + 1, Ordering::Release);
            check(messages.incoming, bytes, sequence, delivery)?;
        }
        return Ok(());
    }
    let (mut highest, mut answered) = (0, 0);
    loop {
        // Asked before the wait: where one is lost, a slice of silence then follows the last message.
        let over = flow.over.load(Ordering::Acquire);
        if !inbox.receive(channel, wait, true)? {
            if over {
                return Ok(());
            }
            // Whatever was in flight is lost.
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
        if answered > flow.last() {
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
    /// From the first intended send, or the begin of the round where that is later, to the last answer, ns.
    pub elapsed_ns: u64,
    /// What the next round begins with.
    pub debt: Debt,
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
        debt: Debt::default(),
    };
    let sent: Vec<u64> = flow.gone().collect();
    let first_due = start + flow.schedule.get(flow.trim).copied().unwrap_or(0);
    let begin = first_due.max(flow.begun.load(Ordering::Acquire));
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
    settled.open.span_ns = (start + last_due).saturating_sub(first_due) + flow.gap_ns as u64;
    settled.open.sent_ns = sent.last().map_or(0, |last| last.saturating_sub(begin));
    let mut answers: Vec<u64> = arrived.iter().copied().filter(|arrival| *arrival > 0).collect();
    answers.sort_unstable();
    in_flight(&mut settled.open, &sent, &answers, flow.trim);
    let quickest = sent.iter().zip(arrived).filter(|(_, arrival)| **arrival > 0);
    let quickest = quickest.map(|(sent, arrival)| arrival.saturating_sub(*sent)).min();
    settled.debt = flow.close(&mut settled.open, &answers, (sent.len(), quickest));
    settled
}

/// How many messages each measured send found in flight.
fn in_flight(open: &mut OpenRound, sent: &[u64], answers: &[u64], trim: usize) {
    let mut answered = 0;
    for (before, sent) in sent.iter().enumerate() {
        while answers.get(answered).is_some_and(|answer| answer <= sent) {
            answered += 1;
        }
        if before >= trim {
            let in_flight = before.saturating_sub(answered) as u64;
            open.in_flight_sum += in_flight;
            open.in_flight_most = open.in_flight_most.max(in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::schedule::Arrivals;

    use super::*;

    fn flow(trim: u64, messages: u64) -> Flow {
        let load = Load {
            gap_ns: 1_000.0,
            arrivals: Arrivals::Constant,
            seed: (1, 0, 0),
            cpus: vec![],
            most: 2,
            debts: vec![],
        };
        let mut flow = Flow::new(&load, 0, trim, messages);
        flow.schedule = (1..=trim + messages).map(|at| at * 1_000).collect();
        flow.begin(1_000_000);
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
        assert_eq!((open.in_flight_sum, open.in_flight_most), (0, 0));
    }

    #[test]
    fn what_is_lost_is_infinite_and_stays_in_the_backlog() {
        let settled = settled(&flow(0, 4), |_| 0, |at| (at != 1).then_some(2_500));
        assert_eq!((settled.latency.lost(), settled.delivery.lost, settled.delivery.received), (1, 1, 3));
        // Sends at 1, 2, 3, 4 µs; answers at 3.5, 5.5 and 6.5: before the sends 0, 1, 2 and 2 are in flight.
        assert_eq!((settled.open.in_flight_sum, settled.open.in_flight_most), (5, 2));
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
        // The line goes on with the message that was not sent.
        assert_eq!((settled.open.backlog.last(), settled.open.schedule_ns), (Some(&(3_000, 1)), 3_000));
    }

    #[test]
    fn what_becomes_due_while_the_far_end_stands_still_is_owed() {
        // A reply takes 500 ns; from the third message on the far end stands still until 9 µs.
        let first = settled(&flow(0, 4), |_| 0, |at| Some(if at < 2 { 500 } else { 9_000 - (at as u64 + 1) * 1_000 }));
        assert_eq!(first.debt, Debt { ns: 4_500, quickest_ns: 500 });
        assert_eq!((first.open.debt_ns, first.open.schedule_ns), ([0, 4_500], 4_000));
        assert_eq!(first.open.backlog.last(), Some(&(8_500, 6)), "two of its own and four that follow");
        // The next round begins at 20 µs: its messages were due from 16.5 µs on and go at once, a reply after the other.
        let next = flow(0, 4).after(first.debt);
        next.begin(20_000);
        let due: Vec<u64> = (0..4).map(|number| next.due(number)).collect();
        assert_eq!(due, [16_500, 17_500, 18_500, 19_500]);
        let mut arrived = [0; 4];
        for (at, arrived) in arrived.iter_mut().enumerate() {
            assert!(!next.goes(at as u64, 20_000, 1_000), "the time of the round counts from its begin");
            *arrived = 20_500 + 100 * at as u64;
        }
        let next = settle(&next, &arrived, 9);
        assert_eq!(
            (next.latency.max(), next.latency.min(), next.lateness.max()),
            (Some(4_000), Some(1_300), Some(3_500))
        );
        // The far end is free again at 20.3 µs; the next message is due at 20.5 µs.
        assert_eq!((next.debt.ns, next.elapsed_ns), (800, 800));
        assert_eq!(next.open.debt_ns, [4_500, 800]);
    }

    #[test]
    fn a_reply_that_is_long_under_way_is_no_debt() {
        let far = settled(&flow(0, 8), |_| 0, |_| Some(50_000));
        assert_eq!(far.debt, Debt { ns: 0, quickest_ns: 50_000 });
        // One message alone does not show how long it is under way; those before it did.
        let alone = flow(0, 1).after(Debt { ns: 0, quickest_ns: 500 });
        alone.begin(1_000_000);
        assert_eq!(settled(&alone, |_| 0, |_| Some(9_000)).debt.ns, 8_500);
    }

    #[test]
    fn a_sender_is_held_up_by_what_is_in_flight() {
        let flow = flow(0, 4);
        assert!(flow.has_room(1) && !flow.has_room(2));
        flow.settled.store(1, Ordering::Release);
        assert!(flow.has_room(2) && !flow.has_room(3));
        flow.settled.store(9, Ordering::Release);
        assert!(flow.has_room(3));
    }

    #[test]
    fn a_schedule_is_reproduced_by_its_seed() {
        let load =
            Load { gap_ns: 1e5, arrivals: Arrivals::Poisson, seed: (9, 2, 3), cpus: vec![1], most: 2, debts: vec![] };
        let one = Flow::new(&load, 0, 10, 90);
        assert_eq!((one.schedule.clone(), one.count()), (Flow::new(&load, 0, 10, 90).schedule, 100));
        assert_ne!(one.schedule, Flow::new(&load, 1, 10, 90).schedule);
    }
}
