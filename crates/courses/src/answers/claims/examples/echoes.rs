//! Claims about threads, waiting and counting, from echoes.

use msgpath_analyse::testing::{Build, count, route, slow_down};
use msgpath_analyse::testing_queue::{Queue, late, run};
use msgpath_analyse::threads::testing::{closed, serve};
use msgpath_core::path::Setting;
use msgpath_core::plan::Stamps;
use msgpath_core::schema::{DeviceKind, RoundRecord, TcpInfo};
use msgpath_record::Run;
use msgpath_stats::simulate::lognormal_rounds;

use super::Example;
use crate::answers::Outcome::{CannotTell, DoesNotHold, Holds};
use crate::answers::testing::{Made, in_pieces};

fn one(run: Run) -> Vec<Made> {
    vec![Made::from("echo", run)]
}

/// One and two connections whose rate is so many times lower than their round trips say.
fn misfit(times: u64) -> Vec<Made> {
    let mut run = closed(&[1, 2], 1.0, 32);
    run.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| round.near_mut().elapsed_ns *= times);
    one(run)
}

/// Eight threads with nothing in their way, where one alone is slow.
fn faster_together() -> Vec<Made> {
    let mut run = closed(&[1, 8], 8.0, 32);
    // The first case of every pass has one thread.
    slow_down(&mut run, 2.0, |at| at % 2 == 0);
    one(run)
}

/// Eight connections whose messages cost each other work.
fn contending() -> Vec<Made> {
    let mut run = closed(&[1, 8], 1.0, 32);
    let case = run.header.plan.cases[1].clone();
    run.rounds.iter_mut().filter(|round| round.case == 1).for_each(|round| serve(round, &case, 0.5));
    one(run)
}

/// Eight connections whose rate is another in every second round.
fn unsteady_rate() -> Vec<Made> {
    let mut run = closed(&[1, 8], 1.0, 32);
    for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
        let times = [0.3, 3.0][round.pass as usize % 2];
        round.near_mut().elapsed_ns = (round.near().elapsed_ns as f64 * times) as u64;
    }
    one(run)
}

/// Requests of one and of two writes: ms that two writes with Nagle take, with each condition but that of an acknowledgement
/// at once taken away, and with that one.
fn nagle(slow: f64, others: f64, quick: f64) -> Vec<Made> {
    let paths = ["tcp:writes+nodelay", "tcp:writes+nagle", "tcp:writes+cork", "tcp:writes/quickack+nagle"];
    let build = Build::echo(&paths, &[512, 512]).factor(move |case| {
        let nagle = case.path.setting == Some(Setting::Nagle) && case.pieces.count > 1;
        50.0 * match (nagle, case.path.wait.as_str()) {
            (true, "block") => slow,
            (true, _) => quick,
            _ => others,
        }
    });
    let mut run = in_pieces(build, &[(1, 512), (2, 256)]).run();
    count(&mut run, 3, "TcpExt.DelayedACKs", 200);
    vec![Made::from("requests", run)]
}

/// Zero copy and a plain send at two sizes of which the second takes four times as long: switches of a round by its time and
/// messages, of zero copy.
fn switching(of: fn(ns: u64, messages: u64) -> u64) -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send", "tcp:zerocopy"], &[64, 65_536]).run();
    for round in &mut run.rounds {
        round.near_mut().elapsed_ns = if round.case % 2 == 0 { 10_000_000 } else { 40_000_000 };
        let (ns, messages) = (round.near().elapsed_ns, round.near().delivery.sent);
        round.near_mut().voluntary_switches = if round.case < 2 { messages } else { of(ns, messages) };
    }
    one(run)
}

/// Segments of a round over the loopback device: with data, and all.
fn segments(data: u64, all: u64) -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send"], &[64]).run();
    route(&mut run, DeviceKind::Loopback, "lo", "127.0.0.1");
    let tcp = TcpInfo {
        data_segs_out: data,
        data_segs_in: data,
        segs_out: all,
        segs_in: all,
        snd_mss: 32_741,
        ..Default::default()
    };
    run.rounds.iter_mut().for_each(|round| round.near_mut().tcp = Some(tcp));
    one(run)
}

/// System calls and switches of a round.
fn counted(of: fn(&RoundRecord) -> (u64, u64)) -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send"], &[64]).run();
    for round in &mut run.rounds {
        (round.near_mut().calls.send_calls, round.near_mut().voluntary_switches) = of(round);
    }
    one(run)
}

/// The way there as a share of the round trip.
fn there(share: f64) -> Vec<Made> {
    let mut run = Build::echo(&["tcp:send"], &[64]).run();
    run.header.plan.stamps = Stamps::Both;
    for (at, round) in run.rounds.iter_mut().enumerate() {
        round.one_way = lognormal_rounds(at as u64, 1, 200, 20_000.0 * share, 0.1, 0.01).remove(0);
    }
    one(run)
}

/// An open loop beside a closed one whose round trips are so many times 20 µs; how late sends are, ns.
fn open_loop(closed: f64, lateness: u64) -> Vec<Made> {
    let mut open = run(&[Queue::mm1(0.3, 600, 100, 9)]);
    if lateness > 0 {
        late(&mut open, lateness, 15);
    }
    let closed = Build::echo(&["tcp:send/epoll"], &[64]).messages(400).factor(move |_| closed);
    vec![Made::of("closed", &closed), Made::from("open", open)]
}

pub(super) const EXAMPLES: &[Example] = &[
    (7, Holds, "nearly always one is", || misfit(2)),
    (7, DoesNotHold, "as long as 8 messages in flight make it", || one(closed(&[1, 8], 2.0, 32))),
    (7, CannotTell, "the two do not fit", || misfit(4)),
    (10, Holds, "0 of 1 cases", || there(0.5)),
    (10, DoesNotHold, "1 of 1 cases", || there(0.8)),
    (10, CannotTell, "0 of 1 cases", || there(0.49)),
    (12, Holds, "1 thread to 8 threads", faster_together),
    (12, DoesNotHold, "while time / count became 0.", || one(closed(&[1, 8], 2.0, 32))),
    (12, CannotTell, "no difference of the round trips", || one(closed(&[1, 8], 8.0, 32))),
    (13, Holds, "The capacity itself fell", contending),
    (13, DoesNotHold, "a queue. 8.00 times as many", || one(closed(&[1, 8], 1.0, 32))),
    (13, CannotTell, "the rate is not known well enough", unsteady_rate),
    (14, Holds, "Not gone with TCP_NODELAY", || nagle(44.0, 44.0, 44.0)),
    (14, DoesNotHold, "they are gone: TCP_NODELAY", || nagle(44.0, 0.02, 0.03)),
    (14, CannotTell, "nothing waits for a delayed", || nagle(0.03, 0.02, 0.03)),
    (15, Holds, "switches come with the messages", || switching(|_, messages| 300 * messages)),
    (15, DoesNotHold, "a timer or a sleep loop", || switching(|ns, _| ns / 100_000)),
    (15, CannotTell, "neither constant a second nor a message", || switching(|ns, messages| messages + ns / 100_000)),
    (16, Holds, "none of them with data", || segments(0, 20)),
    (16, DoesNotHold, "left in 1.00 TCP segments", || segments(200, 200)),
    (16, CannotTell, "counted no segment", || segments(0, 0)),
    (17, Holds, "1.00 (1.00 to 1.00) times as many calls", || counted(|_| (200, 200))),
    (17, DoesNotHold, "4.00 (4.00 to 4.00) times as many calls", || counted(|_| (800, 200))),
    (17, CannotTell, "times as many calls as switches", || counted(|round| (200, [100, 390][round.pass as usize % 2]))),
    (40, Holds, "At this rate it is not more than that", || open_loop(100.0, 0)),
    (40, DoesNotHold, "coordinated omission", || open_loop(0.3, 60_000)),
    (40, CannotTell, "No difference is shown", || open_loop(0.265, 0)),
];
