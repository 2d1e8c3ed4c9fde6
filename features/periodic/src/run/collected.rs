//! What the processes bring home becomes rounds and messages: every message that was sent, beside each receiver's row.

use std::collections::{HashMap, HashSet};

use msgpath_core::foreign::shown_bytes;
use msgpath_core::schema::{EndReport, MessageRow, RoundRecord};
use msgpath_core::{CallCounts, Case, Delivery, Histogram};

use super::Periodic;
use crate::agent::orders::{self, ROW, Reading, ReceivedRow, Report, SentRow, Start};
use crate::record::{Component, JoinedGroup, PeriodicSession};

/// One component's report with its rows.
pub(super) struct Collected {
    pub(super) report: Report,
    pub(super) sent: Vec<SentRow>,
    pub(super) received: Vec<ReceivedRow>,
}

/// The components of one process, out of its last frame. The process is a child, but what it says is checked all the same.
///
/// # Errors
/// Counts that do not fit the bytes.
pub(super) fn unpack(reports: Vec<Report>, bytes: &[u8]) -> Result<Vec<Collected>, String> {
    let mut rest = bytes;
    let mut rows = |count: u32| -> Result<_, String> {
        let length = count as usize * ROW;
        let (own, after) = rest.split_at_checked(length).ok_or("fewer rows than it claims")?;
        rest = after;
        Ok(own.chunks_exact(ROW))
    };
    let mut all_collected = Vec::new();
    for report in reports {
        let sent = rows(report.sent)?.map(SentRow::read).collect();
        let received = rows(report.received)?.map(ReceivedRow::read).collect();
        all_collected.push(Collected { report, sent, received });
    }
    if rest.is_empty() { Ok(all_collected) } else { Err("more rows than it claims".into()) }
}

/// Most bytes that another host's name of a device or a router has where it is printed.
const MOST_NAME: usize = 40;
/// Stages of a set-up, as far as another host is believed to have them.
const MOST_STAGES: usize = 16;
/// More than any counter and time of a host comes to; as ns, 2 years.
const MOST: u64 = 1 << 56;

/// What came from another host: its words are made harmless, its numbers bounded, and its place is the one that was asked for.
pub(super) fn of_another_host(collected: &mut Collected, host: &str) {
    let name = |text: &mut String| *text = shown_bytes(text.as_bytes(), MOST_NAME);
    let Report { component, sending, receiving, delays, .. } = &mut collected.report;
    component.setup.truncate(MOST_STAGES);
    component.setup.iter_mut().for_each(|(stage, ns)| {
        name(stage);
        *ns = (*ns).min(MOST);
    });
    for number in [&mut component.handled.0, &mut component.handled.1, &mut component.missed, &mut component.forged] {
        *number = (*number).min(MOST);
    }
    component.receiver_delay_ns = component.receiver_delay_ns.map(|ns| ns.min(MOST));
    component.mac_calls.iter_mut().for_each(|ns| *ns = (*ns).min(MOST));
    if let Some(joined) = &mut component.joined {
        joined.place = host.to_owned();
        let others = [&mut joined.came_by, &mut joined.igmp, &mut joined.router];
        std::iter::once(&mut joined.device).chain(others.into_iter().flatten()).for_each(name);
    }
    // It receives alone.
    (component.sends, component.sender_delay_ns, component.sent, component.late) = (None, None, 0, 0);
    (collected.sent, *sending, *delays) = (Vec::new(), Vec::new(), Vec::new());
    if receiving.iter().any(|reading| !plausible(reading)) {
        receiving.clear();
    }
}

fn plausible(reading: &Reading) -> bool {
    let Reading { read_ns, calls, cpu_ns, switches, faults } = reading;
    let pairs = [cpu_ns, switches, faults].into_iter().flat_map(|(one, other)| [*one, *other]);
    let CallCounts {
        send_calls,
        recv_calls,
        wait_calls,
        other_calls,
        recv_full,
        recv_short,
        recv_empty,
        send_short,
        copied_bytes,
        signals,
        dropped,
        redirected,
        mapped_bytes,
    } = *calls;
    let calls = [send_calls, recv_calls, wait_calls, other_calls, recv_full, recv_short, recv_empty, send_short];
    let rest = [*read_ns, copied_bytes, signals, dropped, redirected, mapped_bytes];
    pairs.chain(calls).chain(rest).all(|number| number < MOST)
}

/// Where a session stands in the run.
pub(super) struct Place {
    pub(super) restart: u32,
    pub(super) position: u32,
    /// Start of the run, ns of the monotonic clock.
    pub(super) begin: u64,
    /// When the processes were told to start.
    pub(super) go: Option<u64>,
    /// [`crate::agent::orders::Order::border`].
    pub(super) border: u32,
}

/// One slice of a session while it is put together.
#[derive(Default)]
struct Slice {
    start: u64,
    end: u64,
    latency: Histogram,
    first: Histogram,
    one_way: Histogram,
    lateness: Histogram,
    near: EndReport,
    far: EndReport,
    rows: Vec<MessageRow>,
}

impl Slice {
    /// One message to one receiver; no row: it was lost. `first`: of the start, which is counted apart.
    fn count(&mut self, sent: &SentRow, row: Option<&ReceivedRow>, first: bool, size: u64) {
        self.start = self.start.min(sent.made);
        let histogram = if first { &mut self.first } else { &mut self.latency };
        let near = &mut self.near.delivery;
        near.sent += 1;
        let Some(row) = row else {
            histogram.record_lost(1);
            near.lost += 1;
            return;
        };
        self.end = self.end.max(row.delivered);
        histogram.record(row.delivered.saturating_sub(sent.made));
        if !first {
            self.one_way.record(row.received.saturating_sub(sent.made));
        }
        near.received += 1;
        near.verified += 1;
        self.far.bytes_received += size;
    }
}

impl Slice {
    /// The round of the record that it is, with its messages.
    fn recorded(mut self, case: &Case, place: &Place, slices: u32, at: u32) -> (RoundRecord, Vec<MessageRow>) {
        let elapsed = self.end.saturating_sub(self.start);
        (self.near.elapsed_ns, self.far.elapsed_ns) = (elapsed, elapsed);
        let near = self.near.delivery;
        self.far.delivery = Delivery { sent: 0, received: near.received, lost: near.lost, ..Delivery::default() };
        self.rows.sort_unstable_by_key(|row| (row.start_ns, row.connection, row.sequence));
        let record = RoundRecord {
            case: case.id,
            pass: place.restart * slices + at,
            restart: place.restart,
            position: place.position,
            start_ns: self.start.saturating_sub(place.begin),
            batch: 1,
            ends: vec![self.near.into(), self.far.into()],
            latency: self.latency.to_sparse(),
            one_way: self.one_way.to_sparse(),
            lateness: self.lateness.to_sparse(),
            first: self.first.to_sparse(),
            ..RoundRecord::default()
        };
        (record, self.rows)
    }
}

/// What one component received, by sender and number.
struct Got<'a> {
    /// The first row of a message counts; a second one of the same number is a duplicate.
    rows: HashMap<(u32, u32), &'a ReceivedRow>,
    /// How often each came again.
    again: HashMap<(u32, u32), u64>,
    /// Those that came behind a newer one of their sender.
    reordered: HashSet<(u32, u32)>,
}

impl<'a> Got<'a> {
    fn of(collected: &'a Collected, senders: usize) -> Self {
        let rows = HashMap::with_capacity(collected.received.len());
        let mut got = Self { rows, again: HashMap::new(), reordered: HashSet::new() };
        let mut newest = vec![0; senders];
        for row in &collected.received {
            let id = (row.sender, row.number);
            if got.rows.contains_key(&id) {
                *got.again.entry(id).or_default() += 1;
                continue;
            }
            got.rows.insert(id, row);
            if let Some(newest) = newest.get_mut(row.sender as usize) {
                if row.number < *newest {
                    got.reordered.insert(id);
                }
                *newest = (*newest).max(row.number);
            }
        }
        got
    }
}

/// What a receiver of a group had of the messages.
#[derive(Clone, Copy, Default)]
struct Seen {
    delivered: u64,
    lost: u64,
    in_a_row: u64,
    most_in_a_row: u64,
    reordered: u64,
    duplicated: u64,
}

impl Seen {
    fn count(&mut self, lost: bool, again: u64, reordered: bool) {
        self.delivered += u64::from(!lost);
        self.lost += u64::from(lost);
        self.in_a_row = if lost { self.in_a_row + 1 } else { 0 };
        self.most_in_a_row = self.most_in_a_row.max(self.in_a_row);
        self.reordered += u64::from(reordered);
        self.duplicated += again;
    }

    fn of(self, joined: JoinedGroup) -> JoinedGroup {
        let Self { delivered, lost, most_in_a_row, reordered, duplicated, .. } = self;
        JoinedGroup { delivered, lost, lost_in_a_row: most_in_a_row, reordered, duplicated, ..joined }
    }
}

/// Rounds with their messages, and the facts of the session. A message is one row for every receiver; its latency runs from
/// when it was made to its delivery there.
pub(super) fn join(
    periodic: &Periodic,
    case: &Case,
    all_collected: Vec<Collected>,
    place: &Place,
) -> (Vec<(RoundRecord, Vec<MessageRow>)>, PeriodicSession) {
    let slices = periodic.slices;
    let of = all_collected.len() as u32;
    let since = |at: u64| at.saturating_sub(place.begin);
    let mut out: Vec<Slice> = (0..slices).map(|_| Slice { start: u64::MAX, ..Slice::default() }).collect();
    let mut before_ready = 0;
    let mut missed = vec![0; all_collected.len()];
    let mut seen = vec![Seen::default(); all_collected.len()];
    for (receiver, collected) in all_collected.iter().enumerate() {
        let got = Got::of(collected, all_collected.len());
        for (sender, other) in all_collected.iter().enumerate() {
            if sender == receiver || !orders::crosses(place.border, sender as u32, receiver as u32) {
                continue;
            }
            for (number, sent) in other.sent.iter().enumerate() {
                let id = (sender as u32, number as u32);
                let row = got.rows.get(&id).filter(|row| row.made == sent.made).copied();
                let unready = periodic.start == Start::Storm && sent.made < collected.report.component.ready_ns;
                if row.is_none() && unready {
                    before_ready += 1;
                    continue;
                }
                let at = orders::slice(number as u64, periodic.first, periodic.messages, slices);
                let slice = &mut out[at as usize];
                missed[receiver] +=
                    u64::from(row.is_some_and(|row| row.delivered.saturating_sub(sent.due) > periodic.period_ns));
                slice.count(sent, row, (number as u64) < periodic.first, case.size);
                let again = row.map_or(0, |_| got.again.get(&id).copied().unwrap_or(0));
                let reordered = row.is_some() && got.reordered.contains(&id);
                slice.near.delivery.duplicated += again;
                slice.near.delivery.reordered += u64::from(reordered);
                seen[receiver].count(row.is_none(), again, reordered);
                slice.rows.push(MessageRow {
                    case: case.id,
                    pass: place.restart * slices + at,
                    connection: receiver as u32 * of + sender as u32,
                    sequence: number as u64,
                    start_ns: since(sent.made),
                    latency_ns: row.map(|row| row.delivered.saturating_sub(sent.made)),
                    late_ns: Some(sent.call.saturating_sub(sent.made)),
                    far_ns: row.map(|row| row.received.saturating_sub(sent.made)),
                    far_sent_ns: None,
                    sent_ns: (sent.returned != 0).then(|| sent.returned.saturating_sub(sent.made)),
                    ..MessageRow::default()
                });
            }
        }
    }
    for collected in &all_collected {
        for (number, sent) in collected.sent.iter().enumerate() {
            let at = orders::slice(number as u64, periodic.first, periodic.messages, slices) as usize;
            out[at].lateness.record(sent.made.saturating_sub(sent.due));
            out[at].near.bytes_sent += case.size;
        }
        add_readings(&mut out, &collected.report.sending, |slice| &mut slice.near);
        add_readings(&mut out, &collected.report.receiving, |slice| &mut slice.far);
        add_delays(&mut out, &collected.report.delays);
    }
    let session = PeriodicSession {
        case: case.id,
        restart: place.restart,
        go_ns: place.go.map(since),
        before_ready,
        components: all_collected
            .into_iter()
            .zip(missed.into_iter().zip(seen))
            .map(|(collected, (missed, seen))| {
                let component = collected.report.component;
                Component {
                    joined: component.joined.map(|joined| seen.of(joined)),
                    spawned_ns: since(component.spawned_ns),
                    ready_ns: since(component.ready_ns),
                    missed,
                    ..component
                }
            })
            .collect(),
    };
    let rounds = out.into_iter().enumerate().filter(|(_, slice)| !slice.rows.is_empty());
    (rounds.map(|(at, slice)| slice.recorded(case, place, slices, at as u32)).collect(), session)
}

/// Spreads the readings of one thread over the slices they lie between.
fn add_readings(out: &mut [Slice], readings: &[Reading], end: impl Fn(&mut Slice) -> &mut EndReport) {
    for (slice, pair) in out.iter_mut().zip(readings.windows(2)) {
        let [before, after] = pair else { continue };
        let report = end(slice);
        let since = |pick: fn(&Reading) -> u64| pick(after).saturating_sub(pick(before));
        report.calls.add(&after.calls.since(&before.calls));
        report.metered_ns = Some(report.metered_ns.unwrap_or(0) + since(|reading| reading.read_ns));
        report.user_ns += since(|reading| reading.cpu_ns.0);
        report.system_ns += since(|reading| reading.cpu_ns.1);
        report.voluntary_switches += since(|reading| reading.switches.0);
        report.involuntary_switches += since(|reading| reading.switches.1);
        report.minor_faults += since(|reading| reading.faults.0);
        report.major_faults += since(|reading| reading.faults.1);
    }
}

/// Run delays of sender and receiver. A slice without a reading has none: `None` is not 0.
fn add_delays(out: &mut [Slice], delays: &[(u64, u64)]) {
    for (slice, pair) in out.iter_mut().zip(delays.windows(2)) {
        let [before, after] = pair else { continue };
        let add = |sum: &mut Option<u64>, ns: u64| *sum = Some(sum.unwrap_or(0) + ns);
        add(&mut slice.near.run_delay_ns, after.0.saturating_sub(before.0));
        add(&mut slice.far.run_delay_ns, after.1.saturating_sub(before.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::mac::Mac;
    use crate::record::Component;
    use msgpath_core::PathName;
    use msgpath_core::units::Pieces;

    #[test]
    fn what_another_host_says_is_bounded_and_harmless() {
        let joined =
            JoinedGroup { device: "v0\u{1b}[2J".repeat(50), place: "elsewhere".into(), ..JoinedGroup::default() };
        let component = Component {
            joined: Some(joined),
            setup: vec![("x\u{1b}".into(), u64::MAX); 100],
            handled: (u64::MAX, 1),
            receiver_delay_ns: Some(u64::MAX),
            ..Component::default()
        };
        let wild = Reading { cpu_ns: (0, u64::MAX), ..Reading::default() };
        let report = Report { component, receiving: vec![wild; 2], ..Report::default() };
        let mut one = Collected { report, sent: vec![SentRow::default()], received: Vec::new() };
        of_another_host(&mut one, "hosta");
        let Report { component, receiving, .. } = &one.report;
        let joined = component.joined.as_ref().unwrap();
        assert!(joined.place == "hosta" && joined.device.chars().count() <= MOST_NAME + 1, "{joined:?}");
        assert!(!joined.device.contains('\u{1b}') && component.setup.iter().all(|(name, _)| !name.contains('\u{1b}')));
        assert_eq!((component.setup.len(), component.handled, one.sent.len()), (MOST_STAGES, (MOST, 1), 0));
        assert!(receiving.is_empty() && component.receiver_delay_ns == Some(MOST));
        let tame = Reading { read_ns: 5, ..Reading::default() };
        assert!(plausible(&tame) && !plausible(&wild));
    }

    fn periodic(start: Start) -> Periodic {
        Periodic {
            processes: 3,
            components: 1,
            period_ns: 1_000,
            jitter_ns: 0,
            messages: 4,
            first: 2,
            slices: 2,
            start,
            mac: Mac::None,
            group: None,
        }
    }

    /// Three components whose messages take 10 ns more for every receiver number.
    fn all_collected() -> Vec<Collected> {
        let sent = |sender: u64| -> Vec<SentRow> {
            (0..4)
                .map(|n| n * 1_000 + 5_000 + sender)
                .map(|at| SentRow { due: at, made: at + 1, call: at + 2, returned: at + 3 })
                .collect()
        };
        (0..3_u32)
            .map(|receiver| {
                let received: Vec<ReceivedRow> = (0..4)
                    .flat_map(|number| (0..3).map(move |sender| (sender, number)))
                    .filter(|(sender, _)| *sender != receiver)
                    .map(|(sender, number)| {
                        let made = sent(sender.into())[number as usize].made;
                        let received = made + 10 * (u64::from(receiver) + 1);
                        ReceivedRow { sender, number, made, received, delivered: received + 1 }
                    })
                    .collect();
                let reading = |cpu: u64| Reading { cpu_ns: (cpu, 0), ..Reading::default() };
                let report = Report {
                    component: Component { ready_ns: 4_000, ..Component::default() },
                    sent: 4,
                    received: received.len() as u32,
                    sending: vec![reading(1), reading(4), reading(9)],
                    receiving: Vec::new(),
                    delays: vec![(0, 0), (7, 70)],
                };
                Collected { report, sent: sent(receiver.into()), received }
            })
            .collect()
    }

    fn place(border: u32) -> Place {
        Place { restart: 1, position: 0, begin: 1_000, go: Some(5_000), border }
    }

    #[test]
    fn messages_of_one_side_of_a_link_are_neither_delivered_nor_lost() {
        let case = Case::new(PathName::new("eth", "send", "sigio"), Pieces::whole(64));
        let mut all_collected = all_collected();
        // The first two are at one side, the third at the other.
        for (receiver, collected) in all_collected.iter_mut().enumerate() {
            collected.received.retain(|row| orders::crosses(2, row.sender, receiver as u32));
        }
        let (rounds, _) = join(&periodic(Start::Barrier), &case, all_collected, &place(2));
        let delivery = rounds[0].0.near().delivery;
        assert_eq!((delivery.sent, delivery.received, delivery.lost), (12, 12, 0));
    }

    fn joined(start: Start, all_collected: Vec<Collected>) -> (Vec<(RoundRecord, Vec<MessageRow>)>, PeriodicSession) {
        let case = Case::new(PathName::new("eth", "send", "sigio"), Pieces::whole(64));
        join(&periodic(start), &case, all_collected, &place(0))
    }

    #[test]
    fn every_message_is_a_row_for_every_receiver() {
        let (rounds, session) = joined(Start::Barrier, all_collected());
        assert_eq!(rounds.iter().map(|(round, _)| (round.pass, round.restart)).collect::<Vec<_>>(), [(2, 1), (3, 1)]);
        // The first two messages and the third are in the first slice: 3 senders × 2 receivers each.
        let ((early, early_rows), (late, late_rows)) = (&rounds[0], &rounds[1]);
        assert_eq!((early.first.total(), early.latency.total(), early_rows.len()), (12, 6, 18));
        assert_eq!((late.first.total(), late.latency.total(), late_rows.len()), (0, 6, 6));
        assert_eq!((early.latency.min(), early.latency.max()), (Some(11), Some(31)));
        assert_eq!((early.near().user_ns, late.near().user_ns), (9, 15));
        assert_eq!(
            (early.near().run_delay_ns, early.far().run_delay_ns, late.far().run_delay_ns),
            (Some(21), Some(210), None)
        );
        assert_eq!((session.go_ns, session.components[0].ready_ns, session.before_ready), (Some(4_000), 3_000, 0));
        let row = early_rows.iter().find(|row| row.connection == 2 * 3).unwrap();
        assert_eq!((row.start_ns, row.latency_ns, row.far_ns), (4_001, Some(31), Some(30)));
        assert_eq!((row.late_ns, row.sent_ns), (Some(1), Some(2)));
    }

    #[test]
    fn what_did_not_arrive_is_lost_and_what_came_twice_is_a_duplicate() {
        let mut all_collected = all_collected();
        all_collected[0].received.remove(0);
        let twice = all_collected[1].received[0];
        all_collected[1].received.push(twice);
        all_collected[2].received[0].made += 1; // not the message that was sent
        let (rounds, session) = joined(Start::Barrier, all_collected);
        let delivery = rounds[0].0.near().delivery;
        assert_eq!((delivery.sent, delivery.received, delivery.lost, delivery.duplicated), (18, 16, 2, 1));
        assert_eq!((rounds[0].0.first.lost(), rounds[1].0.near().delivery.lost), (2, 0));
        assert_eq!(session.components.iter().map(|component| component.missed).sum::<u64>(), 0);
    }

    #[test]
    fn a_storm_loses_nothing_to_who_is_not_there_yet() {
        let mut all_collected = all_collected();
        all_collected[1].report.component.ready_ns = 6_500;
        all_collected[1].received.retain(|row| row.made >= 6_500);
        let (rounds, session) = joined(Start::Storm, all_collected);
        assert_eq!((session.before_ready, rounds[0].0.near().delivery.lost), (4, 0));
    }

    #[test]
    fn a_delivery_after_the_next_one_was_due_is_missed() {
        let mut all_collected = all_collected();
        all_collected[2].received[0].delivered += 2_000;
        let (_, session) = joined(Start::Barrier, all_collected);
        assert_eq!(session.components.iter().map(|component| component.missed).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn rows_that_do_not_fit_their_bytes_are_refused() {
        let report = Report { sent: 1, received: 1, ..Report::default() };
        assert!(unpack(vec![report.clone()], &[0; 2 * ROW]).is_ok());
        for bytes in [0, ROW, 2 * ROW - 1, 2 * ROW + 1] {
            assert!(unpack(vec![report.clone()], &vec![0; bytes]).is_err(), "{bytes}");
        }
        let many = Report { sent: u32::MAX, ..Report::default() };
        assert!(unpack(vec![many], &[0; 64]).is_err());
    }
}
