use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A thread with its totals, as the kernel keeps them.
#[derive(Clone)]
struct Thread {
    pid: i32,
    t: u64,
    totals: [u64; KINDS],
    last: (u64, [u64; KINDS]),
}

impl Thread {
    fn new(pid: i32) -> Self {
        Self { pid, t: 1_000, totals: [0; KINDS], last: (0, [0; KINDS]) }
    }

    /// Until then it does this.
    fn until(&mut self, kind: usize, t: u64) {
        self.totals[kind] += t.saturating_sub(self.t);
        self.t = self.t.max(t);
    }

    fn works(&mut self, ns: u64) {
        self.until(ON_CPU, self.t + ns);
    }
}

/// Both ends of a connection, and what the kernel would log.
struct Simulated {
    client: Thread,
    server: Thread,
    events: Vec<Event>,
    turns: u32,
    paired: bool,
}

impl Simulated {
    fn new(paired: bool) -> Self {
        Self { client: Thread::new(6), server: Thread::new(5), events: Vec::new(), turns: 0, paired }
    }

    fn event(&mut self, what: What, role: Role, bytes: usize, payload: &[u8]) {
        let thread = if role == Role::Client { &mut self.client } else { &mut self.server };
        let (last, totals) = thread.last;
        let since = |kinds: std::ops::Range<usize>| kinds.map(|kind| thread.totals[kind] - totals[kind]).sum::<u64>();
        let (blocked, stopped) = (since(BLOCKED..STOPPED), since(STOPPED..KINDS));
        let parts = [blocked, since(WAKING..BLOCKED), since(RUNNABLE..WAKING), since(ON_CPU..RUNNABLE), stopped];
        self.events.push(Event {
            connection: 1,
            t: thread.t,
            last: if what == What::Read { last } else { 0 },
            run_ended: 0,
            totals: thread.totals,
            since: parts,
            seq: self.events.len() as u32,
            turns: self.turns,
            pid: thread.pid,
            process: thread.pid,
            bytes: bytes as u32,
            service: Some(3),
            port: 6379,
            what,
            role,
            fresh: self.events.is_empty(),
            born: self.events.is_empty(),
            whole: false,
            paired: self.paired,
            faults: 0,
            run: Culprit::default(),
            block: Culprit::default(),
            name: [0; 16],
            payload: payload.to_vec(),
            left_out: Vec::new(),
        });
        if matches!(what, What::Sent | What::Read) {
            thread.last = (thread.t, thread.totals);
        }
    }

    /// A send call of 300 ns; the data is ready after 200 of them.
    fn sends(&mut self, role: Role, bytes: &[u8]) {
        let reader = if role == Role::Client { Role::Server } else { Role::Client };
        self.event(What::Begin, role, bytes.len(), bytes);
        let thread = if role == Role::Client { &mut self.client } else { &mut self.server };
        thread.works(200);
        let ready = thread.t;
        let other = if role == Role::Client { &mut self.server } else { &mut self.client };
        other.until(BLOCKED, ready);
        self.event(What::Ready, reader, 0, b"");
        let thread = if role == Role::Client { &mut self.client } else { &mut self.server };
        thread.works(100);
        self.event(What::Sent, role, bytes.len(), b"");
    }

    fn reads(&mut self, role: Role, bytes: usize, kind: usize) {
        let other = if role == Role::Client { self.server.t } else { self.client.t };
        let thread = if role == Role::Client { &mut self.client } else { &mut self.server };
        thread.until(kind, other.max(thread.t) + 50);
        self.event(What::Read, role, bytes, b"");
    }
}

/// Requests that are sent together, how long the server works on each, and how the bytes travel.
#[derive(Clone, Debug)]
struct Batch {
    works: Vec<u64>,
    /// One send call for all requests, one receive call for all of them, one send call for all replies.
    together: [bool; 3],
}

fn batch() -> impl Strategy<Value = Batch> {
    (vec(1_u64..100_000, 1..6), any::<[bool; 3]>()).prop_map(|(works, together)| Batch { works, together })
}

const REQUEST: &[u8] = b"get a\n";
const REPLY: &[u8] = b"value\n";

fn simulated(batches: &[Batch], paired: bool) -> Simulated {
    let mut all = Simulated::new(paired);
    for Batch { works, together: [sent, read, answered] } in batches {
        let count = works.len();
        match sent {
            true => all.sends(Role::Client, &REQUEST.repeat(count)),
            false => (0..count).for_each(|_| all.sends(Role::Client, REQUEST)),
        }
        if *read {
            all.reads(Role::Server, REQUEST.len() * count, RUNNABLE);
        }
        for work in works {
            if !read {
                all.reads(Role::Server, REQUEST.len(), WAKING);
            }
            all.server.works(*work);
            if !answered {
                all.sends(Role::Server, REPLY);
            }
        }
        if *answered {
            all.sends(Role::Server, &REPLY.repeat(count));
        }
        all.reads(Role::Client, REPLY.len() * count, RUNNABLE);
        all.turns += 1;
    }
    all
}

fn found(events: Vec<Event>) -> (Found, Pairing) {
    let mut pairing = Pairing::new(Framing::Line);
    (pairing.take(events), pairing)
}

proptest! {
    /// Every request has its reply, its stages add up, and the work of those that are answered one by one is what was planted.
    #[test]
    fn requests_in_flight_are_paired(batches in vec(batch(), 1..8), order in vec(any::<prop::sample::Index>(), 0..20)) {
        let mut events = simulated(&batches, true).events;
        // Events of several CPUs come a little out of order.
        for at in order {
            let at = at.index(events.len() - 1);
            if at > 0 {
                events.swap(at, at + 1);
            }
        }
        let (found, _) = found(events);
        let works: Vec<u64> = batches.iter().flat_map(|batch| batch.works.clone()).collect();
        prop_assert_eq!(found.rows.len(), works.len());
        prop_assert!(found.torn.is_empty() && found.in_flight.is_empty() && found.incomplete.is_empty());
        prop_assert!(found.rows.iter().all(|row| row.adds_up() && row.service == 3 && row.what.starts_with(b"get a\0")));
        let several = batches.iter().any(|batch| batch.works.len() > 1);
        prop_assert_eq!(found.verdicts.contains(&(1, Verdict::Several)), several);
        let mut rows = found.rows.iter();
        for batch in &batches {
            for (row, work) in rows.by_ref().take(batch.works.len()).zip(&batch.works) {
                if !batch.together[2] {
                    prop_assert_eq!(row.stage(Stage::WorkOnCpu), *work);
                }
            }
        }
    }

    /// Where the kernel counts turns, and one request at a time is in flight, nothing is counted twice.
    #[test]
    fn turns_that_the_kernel_counts_are_left_to_it(works in vec(1_u64..1000, 1..20), from in 0_u32..30) {
        let batches: Vec<Batch> = works.iter().map(|work| Batch { works: vec![*work], together: [true; 3] }).collect();
        let mut events = simulated(&batches, false).events;
        events.iter_mut().filter(|event| event.turns >= from).for_each(|event| event.paired = true);
        let (found, _) = found(events);
        prop_assert_eq!(found.rows.len(), works.len().saturating_sub(from as usize));
        let enough = works.len() as u32 > LOOKED_AT.max(from);
        prop_assert_eq!(found.verdicts.as_slice(), if enough { &[(1, Verdict::One)][..] } else { &[] });
    }

    /// Before the kernel has heard that several requests are in flight it counts a turn as one: the others are counted here.
    #[test]
    fn no_request_of_a_turn_that_the_kernel_counts_is_missing(batches in vec(batch(), 1..12), from in 0_u32..14) {
        let mut events = simulated(&batches, false).events;
        events.iter_mut().filter(|event| event.turns >= from).for_each(|event| event.paired = true);
        let (found, _) = found(events);
        let all: usize = batches.iter().map(|batch| batch.works.len()).sum();
        let by_kernel = batches.len().min(from as usize);
        prop_assert_eq!(found.rows.len() + by_kernel, all);
        prop_assert!(found.torn.is_empty() && found.in_flight.is_empty());
    }

    #[test]
    fn any_events_are_answered(events in vec((0_u8..5, any::<bool>(), 0_u32..30, 0_u32..20, vec(any::<u8>(), 0..20), any::<[bool; 4]>()), 0..60)) {
        let mut all = Simulated::new(true);
        for (what, client, bytes, _, payload, _) in &events {
            let what = [What::Begin, What::Sent, What::Ready, What::Read, What::Gone][usize::from(*what)];
            let role = if *client { Role::Client } else { Role::Server };
            all.client.works(1);
            all.event(what, role, *bytes as usize, payload);
        }
        for (event, (.., seq, _, [fresh, born, whole, paired])) in all.events.iter_mut().zip(&events) {
            (event.seq, event.fresh, event.born, event.whole, event.paired) = (*seq, *fresh, *born, *whole, *paired);
        }
        for framing in ["auto", "line", "u8", "resp", "http2"] {
            let mut pairing = Pairing::new(framing.parse().unwrap());
            let found = pairing.take(all.events.clone());
            prop_assert!(found.rows.iter().all(RequestRow::adds_up));
        }
    }
}

#[test]
fn events_for_which_there_was_no_room_leave_turns_that_are_counted() {
    let batches = vec![Batch { works: vec![5; 16], together: [true; 3] }; 20];
    let mut events = simulated(&batches, true).events;
    let third = events.iter().position(|event| event.turns == 3).unwrap();
    events.remove(third);
    let (mut seen, mut pairing) = found(events.clone());
    assert_eq!((seen.rows.len(), seen.in_flight.len()), (3 * 16, 0));
    seen = pairing.end();
    assert_eq!((seen.rows.len(), seen.in_flight.get(&3)), (0, Some(&17)), "20 turns, 3 of them paired");
    // The first event is among them: no request of the connection can be paired.
    let (seen, mut pairing) = found(events.split_off(1));
    assert_eq!(
        (seen.rows.len(), seen.in_flight.get(&3), seen.verdicts.as_slice()),
        (0, Some(&20), &[(1, Verdict::Unknown)][..])
    );
    assert!(pairing.end().in_flight.is_empty());
    // Nothing is missing where all events came.
    let (_, mut pairing) = found(simulated(&batches, true).events);
    assert!(pairing.end().in_flight.is_empty());
}

#[test]
fn http2_that_cannot_be_followed_is_not_left_to_turns() {
    let mut all = Simulated::new(true);
    all.sends(Role::Client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing like frames");
    let found = Pairing::new(Framing::Auto).take(all.events);
    assert_eq!(found.verdicts, [(1, Verdict::Untold)]);
}

#[test]
fn what_is_missing_or_unknown_is_given_up() {
    let batches = vec![Batch { works: vec![5, 6], together: [false; 3] }; 3];
    let mut events = simulated(&batches, true).events;
    // The end of a send call tells how much of it was taken.
    let sent = events.iter_mut().find(|event| event.what == What::Sent).unwrap();
    sent.bytes = 3;
    let (partly, _) = found(events);
    assert!(partly.rows.len() < 6);

    let mut events = simulated(&batches, true).events;
    events[0].payload = b"\x16\x03\x01".to_vec();
    events.retain(|event| event.seq != 7);
    let mut auto = Pairing::new(Framing::Auto);
    assert_eq!(auto.take(events).verdicts, [(1, Verdict::Unknown)]);
    assert!(auto.streams.is_empty());
    // The kernel leaves turns to us until it hears of that.
    let mut all = simulated(&batches, true);
    let first = all.events.len();
    for turn in [4, 4, 5, 7] {
        all.turns = turn;
        all.sends(Role::Client, REQUEST);
    }
    assert_eq!(auto.take(all.events.drain(first..)).in_flight.get(&3), Some(&3), "of three turns");
    all.event(What::Gone, Role::Client, 0, b"");
    assert!(auto.take(all.events.drain(first..)).in_flight.is_empty() && auto.left.is_empty());

    // The connection ends with a request that nobody has answered.
    let mut all = simulated(&batches, true);
    all.sends(Role::Client, REQUEST);
    all.event(What::Gone, Role::Client, 0, b"");
    let (left, pairing) = found(all.events);
    assert_eq!((left.rows.len(), left.incomplete.get(&3)), (6, Some(&1)));
    assert!(pairing.streams.is_empty());
}

#[test]
fn what_is_not_remembered_of_a_thread_is_in_one_piece() {
    let batches = vec![Batch { works: vec![5, 6], together: [true, false, false] }; 2];
    let mut events = simulated(&batches, true).events;
    events.iter_mut().for_each(|event| event.since = event.since.map(|ns| ns / 2));
    let (found, _) = found(events);
    assert_eq!((found.rows.len(), found.torn.len()), (4, 0));
    assert!(found.rows.iter().all(RequestRow::adds_up));
    assert!(found.rows.iter().any(|row| row.stage(Stage::OtherThread) > 0));
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Three streams in flight, answered from the last to the first; one more is given up.
#[test]
fn replies_to_streams_come_in_any_order() {
    let mut all = Simulated::new(true);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    all.sends(Role::Client, &[&preface[..], &frame(4, 0, 0, b"")].concat());
    all.reads(Role::Server, preface.len() + 9, RUNNABLE);
    for stream in [1, 3, 5, 7] {
        all.sends(Role::Client, &frame(1, 5, stream, b"\x82"));
        all.reads(Role::Server, 10, RUNNABLE);
    }
    all.sends(Role::Client, &frame(3, 0, 7, &[0; 4]));
    for stream in [5, 3, 1] {
        all.server.works(1_000_000);
        all.sends(Role::Server, &frame(1, 5, stream, b"\x88"));
        all.reads(Role::Client, 10, RUNNABLE);
    }
    let mut pairing = Pairing::new(Framing::Auto);
    let found = pairing.take(all.events);
    assert_eq!((found.rows.len(), found.incomplete.get(&3), found.torn.len()), (3, Some(&1), 0));
    assert_eq!(found.verdicts, [(1, Verdict::Several)]);
    for (row, millis) in found.rows.iter().zip(1..) {
        assert!(row.adds_up() && row.what.starts_with(b"GET\0"));
        assert_eq!(row.stage(Stage::WorkOnCpu) / 1_000_000, millis, "not behind the reply before it: {row:?}");
    }
    assert!(found.rows.is_sorted_by_key(|row| std::cmp::Reverse(row.t0_ns)));
}

/// Of a reply in several buffers only their beginnings were copied.
#[test]
fn frames_are_found_in_the_beginnings_of_buffers() {
    let mut all = Simulated::new(true);
    all.sends(Role::Client, &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(1, 5, 1, b"\x82")[..]].concat());
    all.reads(Role::Server, 34, RUNNABLE);
    let pieces = [frame(1, 4, 1, b"\x88"), frame(0, 0, 1, &[7; 16_384]), frame(0, 1, 1, &[7; 500])];
    let (bytes, begin) = (pieces.concat().len(), all.events.len());
    all.sends(Role::Server, &pieces.concat());
    let event = &mut all.events[begin];
    event.payload = [&pieces[0][..], &pieces[1][..521], &pieces[2]].concat();
    event.left_out = vec![(10, 0), (531, 16_384 - 512), (531 + 509, 0)];
    all.reads(Role::Client, bytes, RUNNABLE);
    let (mut cut, partly) = (Pairing::new(Framing::Auto), all.events.clone());
    let found = Pairing::new(Framing::Auto).take(all.events);
    assert_eq!(found.rows.iter().map(|row| row.bytes_back as usize).collect::<Vec<_>>(), [bytes]);
    // The call took less than it was given.
    let mut events = partly;
    events.iter_mut().skip(begin).filter(|event| event.what == What::Sent).for_each(|event| event.bytes = 9000);
    assert!(cut.take(events).rows.is_empty() && cut.streams.len() == 1);
}

/// A stream that never ends is given up, and those beside it are paired on.
#[test]
fn a_stream_without_an_end_keeps_little() {
    let mut all = Simulated::new(true);
    all.sends(Role::Client, &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(1, 4, 1, b"\x83")[..]].concat());
    let beside = MOST_CALLS as u32 + 1000;
    for n in 0..beside {
        all.sends(Role::Client, &frame(1, 5, 3 + 2 * n, b"\x82"));
        all.reads(Role::Server, if n == 0 { 44 } else { 10 }, RUNNABLE);
        all.sends(Role::Server, &frame(1, 5, 3 + 2 * n, b"\x88"));
        all.reads(Role::Client, 10, RUNNABLE);
    }
    let mut pairing = Pairing::new(Framing::Auto);
    let found = pairing.take(all.events);
    let stream = pairing.streams.values().next().expect("it is followed");
    let kept = stream.ways.iter().flatten().map(|way| way.sends.len().max(way.reads.len())).max();
    assert_eq!((found.rows.len(), found.incomplete.get(&3), kept), (beside as usize, Some(&1), Some(0)));
}
