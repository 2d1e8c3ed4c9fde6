//! Claims about calls, reads, units and single runs, from streams in pieces and stamped calls.

use msgpath_analyse::Logs;
use msgpath_analyse::testing::{Build, grant, route};
use msgpath_core::schema::{DeviceKind, MessageRow, RoundRecord, TcpInfo};
use msgpath_record::Run;

use super::Example;
use crate::answers::Outcome::{CannotTell, DoesNotHold, Holds};
use crate::answers::testing::{Made, shapes};

const PIECES: [(u32, u32); 2] = [(15, 100), (60, 25)];

/// Two shapes by many writes, one writev and one write; what each round then says.
fn written(change: impl Fn(&mut RoundRecord)) -> Run {
    let build = shapes(&["tcp:writes", "tcp:writev", "tcp:send"], &PIECES);
    let mut run = build.rates(|case, _| if case < 2 { 1e8 } else { 4e9 }).run();
    run.rounds.iter_mut().for_each(change);
    run
}

fn one(run: Run) -> Vec<Made> {
    vec![Made::from("shapes", run)]
}

/// Segments with data of a round; as many read calls as `reads`; segments retransmitted of each round of `writes`, of others.
fn segments(each: u64, reads: u64, again: (u64, u64)) -> Run {
    written(|round| {
        let tcp = TcpInfo {
            data_segs_in: each,
            data_segs_out: each,
            total_retrans: if round.case < 2 { again.0 } else { again.1 },
            rtt_us: 20,
            ..TcpInfo::default()
        };
        (round.near_mut().tcp, round.far_mut().tcp) = (Some(tcp), Some(tcp));
        round.near_mut().calls.send_calls = 3_000;
        round.far_mut().calls.recv_calls = reads;
    })
}

/// TCP's own round trip by that of the round.
fn round_trips(of: fn(case: u32, round_us: u64) -> u64) -> Vec<Made> {
    one(written(|round| {
        let rtt_us = of(round.case, round.near().elapsed_ns / 1_000) as u32;
        round.near_mut().tcp = Some(TcpInfo { rtt_us, ..TcpInfo::default() });
    }))
}

/// Only many writes, of which each round sends some again.
fn without_one_call() -> Vec<Made> {
    let mut run = shapes(&["tcp:writes"], &PIECES).run();
    run.rounds.iter_mut().for_each(|round| {
        round.near_mut().tcp = Some(TcpInfo { data_segs_out: 100, total_retrans: 3, ..TcpInfo::default() });
        round.near_mut().calls.send_calls = 3_000;
    });
    one(run)
}

/// Over 1 Gbit/s: what many writes carry, and how many times that one writev does.
fn on_a_wire(writes: f64, writev: f64) -> Vec<Made> {
    let build = shapes(&["tcp:writes", "tcp:writev", "tcp:send"], &PIECES);
    let rate = move |case: usize, pass: u32| {
        let noise = 1.0 + 0.002 * f64::from((pass * 5 + case as u32) % 7);
        writes * noise * if (2..4).contains(&case) { writev } else { 1.0 }
    };
    let mut run = build.rates(rate).run();
    route(&mut run, DeviceKind::Nic, "eth0", "10.0.0.2");
    let floors = run.header.floors.as_mut().expect("a route");
    floors.route.as_mut().expect("a route").bits_per_s = Some(1_000_000_000);
    one(run)
}

/// Both clocks alike, and a socket's buffer of so many bytes.
fn both_clocks(buffer: Option<&str>) -> Vec<Made> {
    let mut run = written(|round| round.near_mut().elapsed_ns = round.far().elapsed_ns);
    for case in 0..6 {
        if let Some(bytes) = buffer {
            grant(&mut run, case, "SO_SNDBUF", "-", bytes);
        }
    }
    one(run)
}

/// Every second round of a case takes so many times as long.
fn every_second(times: f64) -> Vec<Made> {
    one(written(|round| {
        if round.pass % 2 == 1 {
            round.far_mut().elapsed_ns = (round.far().elapsed_ns as f64 * times) as u64;
        }
    }))
}

/// Stamped calls: how long the round trips of a pass take, and what share of each the send call has.
fn calls(round_trip: fn(pass: u64) -> u64, send: f64) -> Vec<Made> {
    let row = move |at: u64| {
        let latency = round_trip(at / 10) + at % 7;
        MessageRow {
            pass: (at / 10) as u32,
            sequence: at,
            latency_ns: Some(latency),
            sent_ns: Some((latency as f64 * send) as u64),
            ..Default::default()
        }
    };
    let logs = Logs { traced: (0..100).map(row).collect::<Vec<_>>().into(), ..Logs::default() };
    vec![Made::with("calls", Build::echo(&["tcp:send"], &[1000]).run(), logs)]
}

fn steady(_: u64) -> u64 {
    20_000
}

fn jumping(pass: u64) -> u64 {
    [12_000, 31_000][pass as usize % 2]
}

/// 4 KiB in 20 µs are 1.63 Gbit/s; what a flow of them carries.
fn flow(rate: f64) -> Vec<Made> {
    let flow = Build::stream(&["tcp:send"], &[4096]).rates(move |_, _| rate).run();
    vec![Made::from("flow", flow), Made::of("each-1", &Build::echo(&["tcp:send"], &[4096]))]
}

pub(super) const EXAMPLES: &[Example] = &[
    (8, Holds, "99.5 % of it", || calls(steady, 0.995)),
    (8, DoesNotHold, "25.0 % of it", || calls(steady, 0.25)),
    (8, CannotTell, "send call takes", || calls(jumping, 0.97)),
    (9, Holds, "99.5 % of the round trip", || calls(steady, 0.005)),
    (9, DoesNotHold, "75.0 % of the round trip", || calls(steady, 0.25)),
    (9, CannotTell, "of the round trip", || calls(jumping, 0.03)),
    (11, Holds, "surely more in 0 of 1", || flow(1.63e9)),
    (11, DoesNotHold, "surely more in 1 of 1", || flow(16.3e9)),
    (11, CannotTell, "surely more in 0 of 1", || flow(1.598e9)),
    (22, Holds, "and yet writev carries 1.08", || on_a_wire(9e8, 1.08)),
    (22, DoesNotHold, "on eth0 the fastest row uses 9", || on_a_wire(9.4e8, 1.0)),
    (22, CannotTell, "no wire limits them", || one(written(|_| ()))),
    (23, Holds, "segment takes 1.00 to 1.00 read calls", || one(segments(200, 200, (0, 0)))),
    (23, DoesNotHold, "segment takes 5.00 to 5.00 read calls", || one(segments(40, 200, (0, 0)))),
    (23, CannotTell, "were not counted", || one(written(|_| ()))),
    (24, DoesNotHold, "4.00 Gbit/s, which is 3.73 Gibit/s", || one(written(|_| ()))),
    (25, Holds, "off the receiver's rate", || both_clocks(Some("2000"))),
    (25, DoesNotHold, "at most 10.0 % off", || one(written(|_| ()))),
    (25, CannotTell, "How much its buffer holds is not known", || both_clocks(None)),
    (26, Holds, "1.00 to 1.00 times as long", || round_trips(|_, round| round)),
    (26, DoesNotHold, "It is the completion time of a transfer", || round_trips(|_, _| 20)),
    (26, CannotTell, "TCP's own round trip was not read", || one(written(|_| ()))),
    (27, DoesNotHold, "uses 9582", || one(written(|_| ()))),
    (28, Holds, "of which 2400 were retransmitted (one call a message: 0 of", || one(segments(40, 200, (30, 0)))),
    (28, DoesNotHold, "of which 0 were retransmitted", || one(segments(40, 200, (0, 0)))),
    (28, CannotTell, "Nothing with one call a message", without_one_call),
    (39, Holds, "a single run of each would do", || one(written(|_| ()))),
    (39, DoesNotHold, "3 % from a single run of each is nothing", || every_second(1.1)),
    (39, CannotTell, "of 0.1 to 3 %", || every_second(1.01)),
];
