//! Whether what a far end reports can be: it is compared with what the near end knows itself. A far end that is broken, or
//! lies, ends the run; its figures never become results.

use msgpath_core::schema::{EndReport, Slots, ThreadRecord};
use msgpath_core::{Exit, Problem};
use msgpath_paths::is_lossy;

use crate::thread::Role;
use crate::wire::RoundOrder;

/// Clocks of two machines differ, and a thread's CPU time is counted in ticks.
const TOLERANCE_NS: u64 = 100_000_000;
/// No clock of a machine that is up shows more, ns: 73 years.
const LATEST_NS: u64 = 1 << 61;
/// No memory moves bytes faster than this: a terabyte a second.
const MOST_BYTES_PER_NS: u128 = 1000;

/// What the near end knows of a round.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Messages that it sent and received itself, measured ones only.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// It sent by a schedule.
    pub open: bool,
    /// From the moment at which the far end was told to begin to its report, ns.
    pub span_ns: u64,
}

/// Compares a report, and those of its threads, with what is known.
///
/// # Errors
/// E57 with the first figure that cannot be.
pub fn check(order: &RoundOrder, known: &Known, far: &EndReport, threads: &[ThreadRecord]) -> Result<(), Problem> {
    let wrong = impossible(order, known, far).or_else(|| not_their_sum(order, far, threads));
    match wrong.or_else(|| wrong_slots(order, known, threads)) {
        None => Ok(()),
        Some(what) => Err(Problem::new("E57", Exit::Unfinished, format!("the far end reports what cannot be: {what}"))
            .why("a result that rests on a wrong report is worthless, so the run stopped")
            .hint("the same build of msgpath at both ends")),
    }
}

fn impossible(order: &RoundOrder, known: &Known, far: &EndReport) -> Option<String> {
    let lossy = is_lossy(&order.path.transport);
    let (sent, received) = (far.delivery.sent, far.delivery.received);
    let ordered = order.messages.saturating_mul(order.connections.into());
    // What a link doubles arrives twice at an echo, and is answered twice; and what is lost of the messages before the
    // measured ones moves the border between them.
    let doubled = ordered.saturating_add(order.trim.saturating_mul(order.connections.into())).saturating_mul(2);
    let echoed = order.workload.is_echoed();
    let most = if echoed && lossy {
        doubled
    } else if order.timed.is_some() || echoed && known.open {
        ordered
    } else {
        known.sent
    };
    let role = Role::of(order, false);
    if role != Role::Sender && received > most {
        return Some(format!("{received} messages received of {most}"));
    }
    // What loses nothing has brought whatever was answered here, and all of a stream.
    let least = match role {
        _ if lossy => 0,
        // What stands in buffers when its time is over does not arrive.
        Role::Receiver if order.timed.is_some() => 0,
        Role::Receiver => known.sent,
        Role::Sender => 0,
        _ => known.received,
    };
    if received < least {
        return Some(format!("{received} messages received, and at least {least} arrived there"));
    }
    let most = if lossy && echoed { doubled } else { ordered };
    if sent > most {
        return Some(format!("{sent} messages sent of {most}"));
    }
    if (role == Role::Sender || (role != Role::Receiver && !lossy)) && known.received > sent {
        return Some(format!("{sent} messages sent, of which {} arrived here", known.received));
    }
    let bytes = |messages: u64, size: u64| u128::from(messages) * u128::from(size);
    let back = if echoed { order.reply } else { order.pieces.total() };
    let (arrived, left) = (bytes(received, order.pieces.total()), bytes(sent, back));
    // A receiver whose clock is started by a message of each connection does not count their bytes.
    let most_untimed = if echoed { 0 } else { received.min(order.connections.into()) };
    if far.untimed > most_untimed {
        return Some(format!("{} messages that started a clock, of {most_untimed}", far.untimed));
    }
    if u128::from(far.bytes_received) + bytes(far.untimed, order.pieces.total()) != arrived {
        return Some(format!("{} bytes received in {received} messages", far.bytes_received));
    }
    if role != Role::Receiver && u128::from(far.bytes_sent) != left {
        return Some(format!("{} bytes sent in {sent} messages", far.bytes_sent));
    }
    let span = known.span_ns.saturating_add(known.span_ns / 1000).saturating_add(TOLERANCE_NS);
    let ms = |ns: u64| ns as f64 / 1e6;
    if far.elapsed_ns > span {
        return Some(format!("{:.1} ms within the {:.1} ms of the round", ms(far.elapsed_ns), ms(known.span_ns)));
    }
    let trimmed = bytes(order.trim.saturating_mul(order.connections.into()), order.pieces.total());
    if far.trimmed_ns.max(far.drain_ns) > span || u128::from(far.trimmed_bytes) > trimmed {
        return Some(format!("{} bytes trimmed in {:.1} ms", far.trimmed_bytes, ms(far.trimmed_ns)));
    }
    if u128::from(far.bytes_received.max(far.bytes_sent)) > u128::from(far.elapsed_ns) * MOST_BYTES_PER_NS {
        let most = far.bytes_received.max(far.bytes_sent);
        return Some(format!("{most} bytes in {} ns: faster than memory", far.elapsed_ns));
    }
    let threads = span.saturating_mul(order.threads.into());
    let connections = (span / 1000).saturating_mul(order.connections.into());
    let tcp = far.tcp.unwrap_or_default();
    let shares = [
        ("of CPU time", far.user_ns.saturating_add(far.system_ns), threads),
        ("of waiting for a CPU", far.run_delay_ns.unwrap_or(0), threads),
        ("of time that was metered", far.metered_ns.unwrap_or(0), threads),
        ("of sending", tcp.busy_us, connections),
        ("of waiting for the receiver's window", tcp.rwnd_limited_us, connections),
        ("of waiting for the send buffer", tcp.sndbuf_limited_us, connections),
    ];
    let (what, share, most) = shares.into_iter().find(|(_, share, most)| share > most)?;
    Some(format!("{:.0} % {what}", share as f64 * 100.0 / most.max(1) as f64))
}

/// What the threads of an end count together; `None`: one of them does not know.
fn counted(report: &EndReport) -> [(&'static str, Option<u64>); 16] {
    let (delivery, calls) = (&report.delivery, &report.calls);
    [
        ("messages sent", Some(delivery.sent)),
        ("messages received", Some(delivery.received)),
        ("messages lost", Some(delivery.lost)),
        ("bytes sent", Some(report.bytes_sent)),
        ("bytes received", Some(report.bytes_received)),
        ("messages that started a clock", Some(report.untimed)),
        ("ns of user CPU time", Some(report.user_ns)),
        ("ns of system CPU time", Some(report.system_ns)),
        ("ns of waiting for a CPU", report.run_delay_ns),
        ("ns that were metered", report.metered_ns),
        ("voluntary switches", Some(report.voluntary_switches)),
        ("involuntary switches", Some(report.involuntary_switches)),
        ("send calls", Some(calls.send_calls)),
        ("receive calls", Some(calls.recv_calls)),
        ("wait calls", Some(calls.wait_calls)),
        ("other calls", Some(calls.other_calls)),
    ]
}

/// In what the report of an end is not that of its threads, which are listed where there are several.
fn not_their_sum(order: &RoundOrder, far: &EndReport, threads: &[ThreadRecord]) -> Option<String> {
    let expected = if order.threads > 1 { order.threads as usize } else { 0 };
    if threads.len() != expected {
        return Some(format!("{} threads listed of {}", threads.len(), order.threads));
    }
    if threads.is_empty() {
        return None;
    }
    let longest = threads.iter().map(|thread| thread.report.elapsed_ns).max().unwrap_or(0);
    if longest != far.elapsed_ns {
        return Some(format!("{} ns in all, and {longest} ns of its slowest thread", far.elapsed_ns));
    }
    counted(far).into_iter().enumerate().find_map(|(at, (what, all))| {
        let all = all?;
        let sum: u128 = threads.iter().map(|thread| u128::from(counted(&thread.report)[at].1.unwrap_or(0))).sum();
        (sum != u128::from(all)).then(|| format!("{all} {what} in all, and {sum} by its threads"))
    })
}

/// Slots of time that no receiver of this round counts in.
fn wrong_slots(order: &RoundOrder, known: &Known, threads: &[ThreadRecord]) -> Option<String> {
    let width = order.timed.map_or(0, |timed| timed.slot_ns);
    let span = u128::from(known.span_ns) + u128::from(TOLERANCE_NS);
    threads.iter().filter_map(|thread| thread.slots.as_ref()).find_map(|slots| {
        let bytes: u128 = slots.bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        let shaped = width > 0 && slots.width_ns == width && slots.bytes.len() <= Slots::MOST;
        let timed = slots.begin_ns <= LATEST_NS && slots.first == slots.begin_ns / width.max(1);
        if shaped
            && timed
            && order.timed.is_some_and(|timed| (timed.lead_ns, timed.ns) == (slots.lead_ns, slots.span_ns))
        {
            return (bytes > span * MOST_BYTES_PER_NS).then(|| format!("{bytes} bytes in slots of a round"));
        }
        Some(format!("{} slots of {} ns from {} ns on", slots.bytes.len(), slots.width_ns, slots.begin_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::order;
    use msgpath_core::Workload;
    use msgpath_core::schema::TcpInfo;

    /// An honest report of 1000 messages of 64 bytes, and what the near end knows of them.
    fn honest(workload: &'static Workload) -> (RoundOrder, Known, EndReport) {
        let order = RoundOrder { workload, messages: 1000, trim: 10, ..order("tcp:send") };
        let known = Known { sent: 1000, received: 1000, open: false, span_ns: 1_000_000_000 };
        let mut far = EndReport { elapsed_ns: 900_000_000, bytes_received: 64_000, ..EndReport::default() };
        far.delivery.received = 1000;
        if workload.is_echoed() {
            (far.delivery.sent, far.bytes_sent) = (1000, 64_000);
        }
        (order, known, far)
    }

    fn refused(workload: &'static Workload, change: impl Fn(&mut EndReport), says: &str) {
        let (order, known, mut far) = honest(workload);
        check(&order, &known, &far, &[]).unwrap();
        change(&mut far);
        let problem = check(&order, &known, &far, &[]).unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), ("E57", Exit::Unfinished));
        assert!(problem.to_string().contains(says), "{problem}");
    }

    #[test]
    fn slots_are_those_of_the_round() {
        use crate::wire::Timed;
        let (order, known, _) = honest(Workload::STREAM);
        let timed = Timed { ns: 640_000_000, lead_ns: 64_000_000, slot_ns: 10_000_000 };
        let order = RoundOrder { timed: Some(timed), ..order };
        let good = Slots { bytes: vec![5; 64], ..Slots::new(timed.slot_ns, 77, (timed.lead_ns, timed.ns)) };
        let wrong = |order: &RoundOrder, slots: Slots| {
            wrong_slots(order, &known, &[ThreadRecord { slots: Some(slots), ..ThreadRecord::default() }])
        };
        assert_eq!(wrong(&order, good.clone()), None);
        assert!(wrong(&RoundOrder { timed: None, ..order.clone() }, good.clone()).is_some(), "of no such round");
        for slots in [
            Slots { bytes: vec![1; Slots::MOST + 1], ..good.clone() },
            Slots { first: u64::MAX, ..good.clone() },
            Slots { begin_ns: u64::MAX, first: u64::MAX / timed.slot_ns, ..good.clone() },
            Slots { width_ns: 0, ..good.clone() },
            Slots { bytes: vec![u64::MAX; 3], ..good.clone() },
            Slots { span_ns: 1, ..good.clone() },
        ] {
            assert!(wrong(&order, slots.clone()).is_some(), "{slots:?}");
        }
    }

    #[test]
    fn figures_that_cannot_be_are_named() {
        for workload in [Workload::ECHO, Workload::STREAM] {
            refused(workload, |far| far.delivery.received = 1001, "1001 messages received of 1000");
            refused(workload, |far| far.bytes_received = 64_001, "64001 bytes received in 1000 messages");
            refused(workload, |far| far.bytes_received = u64::MAX, "bytes received in 1000 messages");
            refused(workload, |far| far.bytes_received = 62_000, "62000 bytes received");
            refused(workload, |far| far.elapsed_ns = 2_000_000_000, "2000.0 ms within the 1000.0 ms");
            refused(workload, |far| far.elapsed_ns = u64::MAX, "within the 1000.0 ms");
            refused(workload, |far| far.elapsed_ns = 1, "faster than memory");
            refused(workload, |far| far.elapsed_ns = 0, "faster than memory");
            refused(workload, |far| far.user_ns = 3_000_000_000, "% of CPU time");
            refused(workload, |far| far.system_ns = u64::MAX, "% of CPU time");
            refused(workload, |far| far.run_delay_ns = Some(u64::MAX), "% of waiting for a CPU");
            for (field, says) in [(0, "of sending"), (1, "receiver's window"), (2, "send buffer")] {
                let lie = |far: &mut EndReport| {
                    let mut us = [0; 3];
                    us[field] = 22_000_000_000;
                    let [busy_us, rwnd_limited_us, sndbuf_limited_us] = us;
                    far.tcp = Some(TcpInfo { busy_us, rwnd_limited_us, sndbuf_limited_us, ..TcpInfo::default() });
                };
                refused(workload, lie, says);
            }
        }
        refused(Workload::ECHO, |far| far.delivery.sent = 1001, "1001 messages sent of 1000");
        refused(Workload::ECHO, |far| far.bytes_sent = 1, "1 bytes sent in 1000 messages");
    }

    #[test]
    fn what_loses_nothing_has_brought_what_was_answered() {
        let fewer = |far: &mut EndReport| (far.delivery.received, far.bytes_received) = (999, 999 * 64);
        for workload in [Workload::ECHO, Workload::STREAM] {
            refused(workload, fewer, "999 messages received, and at least 1000 arrived there");
            let (mut order, known, mut far) = honest(workload);
            order.path.transport = "udp".into();
            fewer(&mut far);
            check(&order, &known, &far, &[]).unwrap();
        }
        let unanswered = |far: &mut EndReport| (far.delivery.sent, far.bytes_sent) = (1, 64);
        refused(Workload::ECHO, unanswered, "1 messages sent, of which 1000 arrived here");
        // The near end gave up before the replies had come.
        let (order, known, far) = honest(Workload::ECHO);
        check(&order, &Known { received: 900, ..known }, &far, &[]).unwrap();
    }

    #[test]
    fn threads_make_up_their_end() {
        let (mut order, mut known, _) = honest(Workload::ECHO);
        (order.threads, order.connections) = (2, 2);
        (known.sent, known.received) = (2000, 2000);
        let (_, _, one) = honest(Workload::ECHO);
        let one = EndReport { voluntary_switches: 3, run_delay_ns: Some(5), ..one };
        let two = EndReport { elapsed_ns: 800_000_000, ..one };
        let mut far = one;
        far.add(&two);
        let thread = |report| ThreadRecord { report, ..ThreadRecord::default() };
        let honest = vec![thread(one), thread(two)];
        check(&order, &known, &far, &honest).unwrap();
        // Where one thread could not read its wait, the end has none.
        let mut unread = honest.clone();
        unread[1].report.run_delay_ns = None;
        check(&order, &known, &EndReport { run_delay_ns: None, ..far }, &unread).unwrap();
        type Lie = fn(&mut Vec<ThreadRecord>);
        let lies: [(Lie, &str); 6] = [
            (Vec::clear, "0 threads listed of 2"),
            (|threads| threads.push(threads[0].clone()), "3 threads listed of 2"),
            (|threads| threads[0].report.delivery.received = 10, "2000 messages received in all, and 1010 by"),
            (|threads| threads[1].report.voluntary_switches = u64::MAX, "6 voluntary switches in all"),
            (|threads| threads[1].report.run_delay_ns = Some(6), "10 ns of waiting for a CPU in all, and 11"),
            (|threads| threads[1].report.elapsed_ns = u64::MAX, "of its slowest thread"),
        ];
        for (lie, says) in lies {
            let mut threads = honest.clone();
            lie(&mut threads);
            let problem = check(&order, &known, &far, &threads).unwrap_err();
            assert!(problem.to_string().contains(says), "{problem}");
        }
    }

    #[test]
    fn a_sender_at_the_far_end_has_sent_what_arrived() {
        let (mut order, known, mut far) = honest(Workload::STREAM);
        order.reverse = true;
        far = EndReport { bytes_received: 0, bytes_sent: 64_000, ..far };
        (far.delivery.received, far.delivery.sent) = (0, 1000);
        check(&order, &known, &far, &[]).unwrap();
        (far.delivery.sent, far.bytes_sent) = (999, 999 * 64);
        assert!(check(&order, &known, &far, &[]).unwrap_err().to_string().contains("of which 1000 arrived here"));
    }

    #[test]
    fn what_a_link_doubles_and_a_first_message_that_starts_the_clock_are_no_lies() {
        let (mut order, mut known, mut far) = honest(Workload::ECHO);
        order.path.transport = "udp".into();
        known.sent = 900; // the patience was over
        check(&order, &known, &far, &[]).unwrap();
        let (order, known, stream) = honest(Workload::STREAM);
        far = EndReport { bytes_received: stream.bytes_received - 64, untimed: 1, ..stream };
        check(&order, &known, &far, &[]).unwrap();
    }

    #[test]
    fn messages_that_start_a_clock_are_at_most_one_a_connection() {
        refused(Workload::STREAM, |far| far.bytes_received -= 64, "63936 bytes received in 1000 messages");
        refused(Workload::STREAM, |far| far.untimed = 1, "64000 bytes received in 1000 messages");
        let two = |far: &mut EndReport| (far.untimed, far.bytes_received) = (2, far.bytes_received - 128);
        refused(Workload::STREAM, two, "2 messages that started a clock, of 1");
        let one = |far: &mut EndReport| (far.untimed, far.bytes_received) = (1, far.bytes_received - 64);
        refused(Workload::ECHO, one, "1 messages that started a clock, of 0");
    }
}
