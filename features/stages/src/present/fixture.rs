//! TEST DATA: a traced case with stages that nobody measured.

use crate::analyse::bands::{AtReady, DelayShare, Growth, Stage};
use crate::analyse::calls::CallTimes;
use crate::analyse::occupants::{IdleExit, Occupant, Occupants};
use crate::analyse::scheduler::ThreadTimes;
use crate::analyse::stage::{Kind, StageDirection};
use crate::analyse::{Attribution, CaseStages, Observer};
use msgpath_analyse::Summary;
use msgpath_analyse::stages::Band;
use msgpath_core::plan::StageSet;
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

/// One case of `echo` with its stages: slow messages wait for a wake-up.
pub fn explained() -> (Run, Summary) {
    let (run, mut summary) = msgpath_present::fixture::echo();
    summary.sections.set(Attribution(vec![stages()]));
    (run, summary)
}

pub fn change(summary: &mut Summary, change: impl FnOnce(&mut CaseStages)) {
    change(&mut summary.sections.get_mut::<Attribution>().unwrap().0[0]);
}

/// Name, and mean at p50, at p99, of the slowest and of all, ns.
const REQUEST: [(Kind, &str, [f64; 4]); 7] = [
    (Kind::Transmit, "send call and transmit stack", [2_100.0, 2_200.0, 2_300.0, 2_110.0]),
    (Kind::Device, "device and wire", [1_200.0, 1_250.0, 1_300.0, 1_210.0]),
    (Kind::Softirq, "receive softirq", [1_800.0, 1_900.0, 2_000.0, 1_820.0]),
    (Kind::WakeCall, "wake-up call", [460.0, 480.0, 500.0, 462.0]),
    (Kind::InFlight, "wake-up in flight", [4_000.0, 41_000.0, 1_400_000.0, 4_400.0]),
    (Kind::Delay, "scheduling delay", [850.0, 3_200.0, 310_000.0, 900.0]),
    (Kind::Return, "receive call returns", [2_600.0, 2_700.0, 2_800.0, 2_610.0]),
];

fn stages() -> CaseStages {
    let leg =
        |direction| REQUEST.map(|(kind, name, ns)| (Stage { direction: Some(direction), kind, name: name.into() }, ns));
    let handler = Stage { direction: None, kind: Kind::Handler, name: "handler".into() };
    let rows: Vec<(Stage, [f64; 4])> = leg(StageDirection::Request)
        .into_iter()
        .chain([(handler, [44.0, 46.0, 50.0, 44.0])])
        .chain(leg(StageDirection::Reply).map(|(stage, ns)| (stage, ns.map(|ns| ns * 0.75))))
        .collect();
    let band = |at: usize, name: &str, messages: u64, bursts: u64| {
        let parts_ns: Vec<f64> = rows.iter().map(|(_, ns)| ns[at]).collect();
        Band { name: name.into(), messages, bursts, claim: bursts >= 5, mean_ns: parts_ns.iter().sum(), parts_ns }
    };
    let growth = Growth {
        kind: Kind::InFlight,
        name: "wake-up in flight".into(),
        usual_ns: 7_000.0,
        slow_ns: 71_750.0,
        low_ns: 60_000.0,
        high_ns: 70_000.0,
        in_both_halves: true,
    };
    let occupant = |name: &str, tid, own, share| Occupant { name: name.into(), tid, own, ns: 1_000, share };
    let thread = |who: &str, run_ns| ThreadTimes {
        who: who.into(),
        threads: 1,
        messages: 2_000,
        run_ns,
        sleep_ns: 30_000_000,
        waking_ns: 8_800_000,
        after_wakeup_ns: 1_800_000,
        preempted_ns: 60_000,
        switches: 2_012,
        preemptions: 12,
    };
    let call = |who: &str, name: &str, ns: f64| CallTimes {
        who: who.into(),
        name: name.into(),
        calls: 2_000,
        per_message: 1.0,
        mean_ns: ns,
        ns_per_message: ns,
    };
    CaseStages {
        known_by: Some("BPF tracepoints".into()),
        self_test: "2800 of 2800 events seen on CPUs 0 and 1".into(),
        messages: 2_000,
        complete: 1_998,
        not_attributed: [("the receiver's state is not known".to_owned(), 2)].into(),
        events_per_message: 30.01,
        observer: Some(Observer {
            ratio: Estimate { value: 1.061, low: Some(1.055), high: Some(1.068) },
            untraced_ns: 22_600.0,
            traced_ns: 24_000.0,
            added_ns: 1_379.0,
            added_high_ns: 1_537.0,
        }),
        bands: vec![
            band(0, "p45–55", 200, 8),
            band(1, "p98.5–99.5", 20, 8),
            band(2, "slowest 10", 10, 3),
            band(3, "all", 1_998, 8),
        ],
        stages: rows.iter().map(|(stage, _)| stage.clone()).collect(),
        growth: vec![growth],
        at_ready: [
            AtReady { running: 0, runnable: 12, blocked: 1_986, waking: 0 },
            AtReady { running: 4, runnable: 0, blocked: 1_994, waking: 0 },
        ],
        delay_share: Some(DelayShare { of_mean: 0.062, p10: 0.04, p50: 0.058, p90: 0.081 }),
        occupants: Occupants {
            all: vec![
                occupant("", 0, false, 0.61),
                occupant("test-hog", 4_711, false, 0.34),
                occupant("msgpath", 100, true, 0.05),
            ],
            slow: vec![occupant("test-hog", 4_711, false, 0.93), occupant("", 0, false, 0.07)],
        },
        idle: vec![IdleExit {
            state: 2,
            wakeups: 3_900,
            in_flight_ns: 4_400.0,
            share_of_slow: 0.92,
            share_of_others: 0.04,
        }],
        threads: vec![thread("near end", 8_000_000), thread("far end", 7_000_000)],
        calls: vec![
            call("near end", "recvfrom", 12_000.0),
            call("near end", "sendto", 7_800.0),
            call("far end", "recvfrom", 14_000.0),
            call("far end", "sendto", 6_400.0),
        ],
        ..CaseStages::empty(0, 1, StageSet::Full)
    }
}
