//! Truth recovered: what was drawn is what is found, to the nanosecond.

use super::occupants::Occupant;
use super::*;
use crate::testing::{FAR, Found, HOG, Setup, Traced, Truth, summarised, traced};
use msgpath_core::plan::StageSet;
use proptest::prelude::*;

/// What each message was split into, in the order of the rows.
fn answers(traced: &Traced) -> Vec<Result<split::Split, Reason>> {
    let replica = &traced.run.header.plan.cases[1];
    let tracing = traced.run.header.tracing.as_ref().unwrap();
    let shapes = [Shape::new(replica, |kind| recorded(tracing, kind), tracing.wakeups_joined); 2];
    let mut out = Vec::new();
    let mut all = log(&traced.logs).events.clone();
    for (round, events) in traced.run.rounds.iter().filter(|round| round.case == 1).zip(all.here()) {
        let rows: Vec<MessageRow> =
            log(&traced.logs).messages.sample().iter().filter(|row| row.pass == round.pass).copied().collect();
        let trace = round.trace.as_ref().unwrap();
        let round = Round::new(Question { case: replica, shapes: &shapes, trace, events: &events.events, apart: None });
        let mut own = vec![Err(Reason::NoEvents); rows.len()];
        let mut seen = occupants::Seen::default();
        let mut watch = occupants::OfRound { seen: &mut seen, slow: &|_| false };
        round.split(&rows, &mut watch, |at, outcome| own[at] = outcome);
        out.extend(own);
    }
    out
}

fn truth_of(split: &split::Split) -> Truth {
    Truth { legs: split.legs.map(|leg| leg.ns), waiting: split.waiting, handler: split.handler, coalesced: false }
}

/// Every message is attributed, and to what was drawn.
#[track_caller]
fn recovered(setup: &Setup) -> Vec<split::Split> {
    let traced = traced(setup, 50);
    let answers = answers(&traced);
    assert_eq!(answers.len(), traced.truth.len());
    for (at, (answer, truth)) in answers.iter().zip(&traced.truth).enumerate() {
        let row = &log(&traced.logs).messages.sample()[at];
        match answer {
            Ok(split) => {
                assert_eq!(truth_of(split), *truth, "message {at} of {setup:?}: {row:?}");
                assert_eq!(Some(split.total()), row.latency_ns);
            }
            Err(reason) => assert!(truth.coalesced, "message {at}: {reason:?} {row:?}"),
        }
    }
    answers.into_iter().flatten().collect()
}

#[test]
fn every_transport_is_recovered() {
    for path in ["tcp:send", "udp:send", "eth:send", "unix:send", "pipe:write", "mq:send", "shm:ring/futex"] {
        for set in [StageSet::Light, StageSet::Full] {
            recovered(&Setup { set, ..Setup::over(path) });
        }
    }
}

#[test]
fn a_preempted_receiver_waits_without_a_wakeup() {
    use timeline::State;
    for path in ["tcp:send", "unix:send", "shm:ring/futex"] {
        let splits = recovered(&Setup { found: vec![Found::Asleep, Found::Preempted], ..Setup::over(path) });
        let preempted = splits.iter().flat_map(|split| split.legs).filter(|leg| leg.state == State::Runnable);
        assert!(preempted.clone().count() > splits.len() / 2);
        assert!(preempted.clone().all(|leg| leg.ns[stage::slot(Kind::WakeCall)] == 0));
    }
}

#[test]
fn a_receiver_that_spins_is_on_its_cpu() {
    for path in ["tcp:send/spin", "shm:ring/spin"] {
        let splits = recovered(&Setup { found: vec![Found::Running], ..Setup::over(path) });
        assert!(splits.iter().skip(1).all(|split| split.legs[1].state == timeline::State::Running));
    }
}

#[test]
fn a_receiver_is_woken_before_the_data() {
    let splits = recovered(&Setup { found: vec![Found::Woken], ..Setup::over("unix:send") });
    assert!(splits[1].legs.iter().all(|leg| leg.state == timeline::State::Waking));
}

#[test]
fn both_ends_on_one_core_wait_for_each_other() {
    let setup = Setup { same_core: true, set: StageSet::Full, ..Setup::over("tcp:send") };
    recovered(&setup);
    let traced = traced(&setup, 50);
    let attributed = &attribute(&traced.run, &traced.logs, &[])[0];
    assert!(attributed.occupants.all[0].own, "{:?}", attributed.occupants);
    assert!((attributed.occupants.all[0].share - 1.0).abs() < 1e-9);
}

#[test]
fn others_do_not_matter() {
    for path in ["tcp:send", "udp:send", "eth:send"] {
        recovered(&Setup { foreign: true, set: StageSet::Full, ..Setup::over(path) });
        recovered(&Setup { foreign: true, size: 1, ..Setup::over(path) });
        recovered(&Setup { foreign: true, size: 16_384, ..Setup::over(path) });
    }
}

#[test]
fn a_missing_tracepoint_joins_two_stages() {
    use EventKind::{NetifReceiveSkb, SchedWakeup, SkDataReady};
    for without in [NetifReceiveSkb, SkDataReady] {
        recovered(&Setup { without: vec![without], ..Setup::over("tcp:send") });
    }
    let joined = Setup { without: vec![SchedWakeup], joined: true, ..Setup::over("tcp:send") };
    recovered(&joined);
    let traced = traced(&joined, 50);
    let attributed = &attribute(&traced.run, &traced.logs, &[])[0];
    assert!(attributed.delay_share.is_none() && attributed.stages.iter().all(|stage| stage.kind != Kind::Delay));
    assert!(attributed.stages.iter().any(|stage| stage.name == "wake-up in flight and run-queue wait"));
}

#[test]
fn signals_that_coalesce_are_counted_apart() {
    let setup = Setup { coalesce: 50, ..Setup::over("eth:send/sigio") };
    assert_eq!(recovered(&setup).len(), 49 * 40);
    let traced = traced(&setup, 50);
    assert_eq!(attribute(&traced.run, &traced.logs, &[])[0].coalesced, 40);
    recovered(&Setup { found: vec![Found::Preempted], ..Setup::over("tcp:send/sigio") });
}

#[test]
fn a_packet_that_is_held_back_is_found() {
    let splits = recovered(&Setup { slow: Some(Kind::HeldBack), ..Setup::over("tcp:send") });
    assert_eq!(splits.iter().filter(|split| split.ns(0, Kind::HeldBack) == 40_000_000).count(), 80);
}

#[test]
fn an_open_loop_waits_first() {
    let splits = recovered(&Setup { open: true, set: StageSet::Full, ..Setup::over("tcp:send") });
    assert!(splits.iter().all(|split| split.waiting > 0));
}

#[test]
fn what_overlaps_or_is_lost_is_counted_and_not_split() {
    let mut traced = traced(&Setup::over("tcp:send"), 50);
    // The second message of the first round begins before the first has ended; the third got no reply.
    traced.log().messages.here()[1].start_ns -= 600;
    traced.log().messages.here()[2].latency_ns = None;
    traced.log().messages.here()[3].far_sent_ns = None;
    traced.log().messages.here()[4].far_ns = Some(u64::MAX);
    // Of the second round one CPU was full half way.
    let events = &mut traced.log().events.here()[1].events;
    let until = events[events.len() / 2].t_ns;
    events.retain(|event| event.t_ns <= until);
    let round = traced.run.rounds.iter_mut().find(|round| round.case == 1 && round.pass == 1).unwrap();
    round.trace.as_mut().unwrap().lost = 1;
    // The third has none, the fourth lacks the far end's thread.
    traced.log().events.here()[2].events.clear();
    let round = traced.run.rounds.iter_mut().find(|round| round.case == 1 && round.pass == 3).unwrap();
    round.trace.as_mut().unwrap().threads[1].clear();
    let answers = answers(&traced);
    assert_eq!(answers[..2], [Err(Reason::Overlap), Err(Reason::Overlap)]);
    assert_eq!(answers[2..5], [Err(Reason::NoReply), Err(Reason::NoStamps), Err(Reason::Disorder)]);
    assert!(answers[5].is_ok() && answers[50].is_ok());
    let lost = (50..100).filter(|at| answers[*at] == Err(Reason::Lost)).count();
    assert!((20..30).contains(&lost), "{lost}");
    assert!(answers[100..150].iter().all(|answer| *answer == Err(Reason::NoEvents)));
    assert!(answers[150..200].iter().all(|answer| *answer == Err(Reason::NoThread)));
    let attributed = &attribute(&traced.run, &traced.logs, &[])[0];
    assert_eq!((attributed.messages, attributed.events_lost, attributed.residual_ns), (2_000, 1, 0));
    assert_eq!(attributed.complete + attributed.not_attributed.values().sum::<u64>(), 2_000);
    assert!(attributed.why.as_ref().unwrap().contains("a split of less than 95 %"), "{:?}", attributed.why);
    assert!(attributed.stages.is_empty() && attributed.bands.is_empty());
}

#[test]
fn a_case_in_numbers() {
    let setup = Setup { slow: Some(Kind::InFlight), set: StageSet::Full, ..Setup::over("tcp:send") };
    let traced = traced(&setup, 50);
    let summary = summarised(&traced.run, &traced.logs);
    let [attributed] = attribution(&summary) else { panic!("{:?}", attribution(&summary)) };
    assert_eq!(
        (attributed.case, attributed.replica, attributed.set, attributed.why.as_deref()),
        (0, 1, StageSet::Full, None)
    );
    assert_eq!(
        (attributed.messages, attributed.complete, attributed.residual_ns, attributed.events_lost),
        (2_000, 2_000, 0, 0)
    );
    // Every band adds up to its mean.
    for band in &attributed.bands {
        assert!((band.parts_ns.iter().sum::<f64>() - band.mean_ns).abs() < 1e-6 * band.mean_ns, "{band:?}");
    }
    let all = attributed.band("all").unwrap();
    let mean =
        log(&traced.logs).messages.sample().iter().filter_map(|row| row.latency_ns).sum::<u64>() as f64 / 2_000.0;
    assert!((all.mean_ns - mean).abs() < 1e-6, "{} {mean}", all.mean_ns);
    let grown = &attributed.growth[0];
    assert_eq!((grown.kind, grown.in_both_halves), (Kind::InFlight, true));
    assert!(grown.low_ns > 50_000.0 && grown.low_ns < grown.ns() && grown.ns() < grown.high_ns, "{grown:?}");
    assert_eq!(attributed.at_ready.map(|states| (states.blocked, states.total())), [(2_000, 2_000); 2]);
    let share = attributed.delay_share.unwrap();
    assert!(share.p10 <= share.p50 && share.p50 <= share.p90 && share.of_mean > 0.02 && share.of_mean < 0.1);
    let observer = attributed.observer.as_ref().unwrap();
    assert!((observer.ratio.value - 1.05).abs() < 0.01 && (observer.added_ns - 1_000.0).abs() < 200.0, "{observer:?}");
    // Both ends sleep in the idle state 2 of their CPU.
    assert_eq!(attributed.idle.iter().map(|exit| exit.state).collect::<Vec<_>>(), [2]);
    let far = attributed.threads.iter().find(|thread| thread.who == "far end").unwrap();
    assert_eq!((far.threads, far.messages, far.preemptions, far.preempted_ns), (1, 2_000, 0, 0));
    assert!(far.switches >= 1_960 && far.sleep_ns > far.run_ns && far.after_wakeup_ns > 0, "{far:?}");
    assert!(
        attributed.calls.iter().any(|call| call.name == "sendto" && call.who == "near end"),
        "{:?}",
        attributed.calls
    );
}

#[test]
fn who_ran_instead_has_a_name() {
    let setup = Setup { slow: Some(Kind::Delay), ..Setup::over("tcp:send") };
    let traced = traced(&setup, 50);
    let attributed = &attribute(&traced.run, &traced.logs, &[])[0];
    let first = &attributed.occupants.slow[0];
    assert_eq!((first.name.as_str(), first.tid, first.own), ("ffmpeg", HOG, false));
    assert!(first.share > 0.9, "{:?}", attributed.occupants);
    assert_eq!(attributed.occupants.all.iter().map(|occupant| occupant.share).sum::<f64>().round(), 1.0);
    assert!(attributed.occupants.all.iter().all(|occupant| occupant.tid != FAR));
}

#[test]
fn what_is_not_traced_says_why() {
    let mut traced = traced(&Setup::over("tcp:send"), 3);
    let of = |traced: &Traced| attribute(&traced.run, &traced.logs, &[])[0].why.clone().unwrap_or_default();
    assert_eq!(of(&traced), "");
    traced.log().messages.here().truncate(60);
    assert_eq!(of(&traced), "60 messages are too few to average");
    traced.log().messages.here().clear();
    assert!(of(&traced).contains("-o message-log"));
    traced.run.header.tracing.as_mut().unwrap().backend = None;
    assert_eq!(of(&traced), "the kernel was not traced");
    traced.run.header.tracing = None;
    assert_eq!(of(&traced), "the kernel was not traced");
    assert!(
        attribute(&msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run(), &Logs::default(), &[]).is_empty()
    );
}

fn found() -> impl Strategy<Value = Found> {
    prop_oneof![Just(Found::Asleep), Just(Found::Preempted), Just(Found::Running)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_message_sums_exactly_and_the_truth_is_recovered(
        path in prop::sample::select(vec!["tcp:send", "udp:send", "eth:send", "unix:send", "pipe:write", "shm:ring/futex"]),
        found in prop::collection::vec(found(), 1..4),
        set in prop::sample::select(vec![StageSet::Light, StageSet::Full]),
        foreign: bool,
        open: bool,
        size in prop::sample::select(vec![1_u64, 20, 39, 64, 1_400]),
        seed in 0_u64..1_000,
    ) {
        recovered(&Setup { found, set, foreign, open, size, seed, ..Setup::over(path) });
    }

    #[test]
    fn nothing_that_a_record_may_hold_breaks_it(
        cut in prop::collection::vec((0_usize..2_000, 0_u8..5, any::<u64>()), 1..60),
    ) {
        let mut traced = traced(&Setup { set: StageSet::Full, ..Setup::over("tcp:send") }, 5);
        for (at, what, value) in cut {
            let events = &mut traced.log().events.here()[at % 40].events;
            let n = events.len().max(1);
            match what {
                0 if !events.is_empty() => drop(events.remove(at % n)),
                1 if value % 3 == 0 && !events.is_empty() => events[at % n].t_ns = value,
                1 if !events.is_empty() => events[at % n].a = value,
                2 if !events.is_empty() => events[at % n].b = value as u32,
                3 => traced.log().messages.here()[at % 200].start_ns = value,
                _ => traced.log().messages.here()[at % 200].latency_ns = Some(value),
            }
        }
        let attributed = attribute(&traced.run, &traced.logs, &[]).remove(0);
        prop_assert_eq!(attributed.residual_ns, 0);
        prop_assert_eq!(attributed.complete + attributed.not_attributed.values().sum::<u64>(), attributed.messages);
    }
}

#[test]
fn the_messages_are_those_of_the_rounds_that_make_the_headline() {
    let mut traced = traced(&Setup::over("tcp:send"), 50);
    for round in &mut traced.run.rounds {
        round.steal_ticks = Some(if round.pass < 10 { 3 } else { 0 });
    }
    let stages = attribute(&traced.run, &traced.logs, &[]).remove(0);
    assert_eq!((stages.messages, stages.complete), (30 * 50, 30 * 50));
    traced.run.rounds.iter_mut().for_each(|round| round.steal_ticks = Some(3));
    assert_eq!(attribute(&traced.run, &traced.logs, &[])[0].messages, 40 * 50, "where none is calm all count");
}

#[test]
fn a_task_that_ended_has_the_name_that_a_sample_saw() {
    let mut traced = traced(&Setup { found: vec![Found::Preempted], ..Setup::over("tcp:send") }, 50);
    for round in &mut traced.run.rounds {
        round.trace.iter_mut().for_each(|trace| drop(trace.tasks.remove(&HOG)));
    }
    let who = |run: &Run| attribute(run, &traced.logs, &[]).remove(0).occupants.all;
    let named = |occupants: &[Occupant], name: &str| occupants.iter().any(|one| one.tid == HOG && one.name == name);
    assert!(named(&who(&traced.run), "a task that has ended (666)"), "{:?}", who(&traced.run));
    let task = msgpath_core::schema::OtherTask { pid: HOG as u32, name: "cc1".into(), ..Default::default() };
    traced.run.header.others.push(task);
    assert!(named(&who(&traced.run), "cc1"), "{:?}", who(&traced.run));
}

/// The same run as two hosts see it: each has the events of its own CPU by its own clock, and threads, sockets and CPUs of
/// the far end have the numbers of the near end's. `theta`: what must be added to the far clock.
fn on_two_hosts(mut traced: Traced, theta: impl Fn(f64) -> f64) -> Traced {
    let shown = |ns: u64| ns as i64 - theta(ns as f64).round() as i64;
    let own = |tid: i32| if tid == FAR { crate::testing::NEAR } else { tid };
    let cookie =
        traced.run.rounds.iter().find_map(|round| Some(round.trace.as_ref()?.threads[0][0].cookies[0])).unwrap();
    traced.run.header.plan.stamps = msgpath_core::plan::Stamps::Both;
    traced.run.header.host_mut(msgpath_core::schema::FAR).boot_id = "two".into();
    let tracing = traced.run.header.tracing.clone();
    traced.run.header.ends[1].tracing = tracing;
    let mut origins = BTreeMap::new();
    for round in traced.run.rounds.iter_mut().filter(|round| round.case == 1) {
        let origin = shown(round.start_ns) - round.start_ns as i64;
        let trace = round.trace.as_mut().unwrap();
        let tasks = [(HOG, "bzip2".to_owned())].into();
        trace.apart = vec![msgpath_core::schema::EndTrace { end: 1, origin_ns: origin, tasks, ..Default::default() }];
        trace.threads[1][0] = trace.threads[0][0].clone();
        origins.insert(round.pass, origin);
    }
    for round in traced.log().events.here() {
        use EventKind::*;
        for event in &mut round.events {
            let far = match event.kind {
                // Loopback: the sender's CPU receives. Between two hosts it is the receiver's.
                NetifRx | NetifReceiveSkb | TcpProbe => event.cpu == 0,
                SkDataReady => event.b != cookie as u32,
                SchedWaking => event.b == FAR as u32,
                _ => event.cpu == 1,
            };
            event.end = far.into();
            if far {
                event.t_ns = (shown(event.t_ns) - origins[&round.pass]) as u64;
                event.tid = own(event.tid);
                match event.kind {
                    SkDataReady => event.b = cookie as u32,
                    SchedWaking | SchedWakeup | SchedSwitch => event.b = own(event.b as i32) as u32,
                    _ => {}
                }
            }
            event.cpu = 0;
        }
        round.events.sort_by_key(|event| event.t_ns);
    }
    for row in traced.log().messages.here() {
        let at = |ns: Option<u64>| Some(shown(row.start_ns + ns?) - row.start_ns as i64);
        (row.received_ns, row.replied_ns) = (at(row.far_ns.take()), at(row.far_sent_ns.take()));
    }
    let rows = log(&traced.logs).messages.clone();
    traced.logs.one_way = msgpath_analyse::one_way::OneWay::of(&traced.run, &rows, &traced.logs);
    traced
}

fn split_of(traced: &Traced) -> CaseStages {
    attribute(&traced.run, &traced.logs, &[]).remove(0)
}

/// Mean of the truth in a stage, ns.
fn drawn(traced: &Traced, way: usize, kinds: &[Kind]) -> f64 {
    let of = |truth: &Truth| kinds.iter().map(|kind| u64::from(truth.legs[way][stage::slot(*kind)])).sum::<u64>();
    traced.truth.iter().map(of).sum::<u64>() as f64 / traced.truth.len() as f64
}

#[test]
fn two_hosts_are_split_each_by_its_own_clock() {
    for set in [StageSet::Light, StageSet::Full] {
        for theta in [|_: f64| -86_400e9, |t: f64| 7e6 - 20e-6 * t] {
            let here = traced(&Setup { set, ..Setup::over("tcp:send") }, 50);
            let truth = here.truth.clone();
            let there = on_two_hosts(here, theta);
            let found = split_of(&there);
            assert_eq!(
                (found.messages, found.complete, found.residual_ns, found.why.as_ref()),
                (2_000, 2_000, 0, None)
            );
            assert_eq!(found.known_by.as_deref(), Some("near end: BPF tracepoints; far end: BPF tracepoints"));
            let within = found.within_ns.unwrap();
            let all = found.band("all").unwrap();
            assert_eq!((found.stages.len(), found.untraced.len()), (all.parts_ns.len(), 0));
            for (stage, ns) in found.stages.iter().zip(&all.parts_ns) {
                let Some(direction) = stage.direction else { continue };
                let way = usize::from(direction == StageDirection::Reply);
                let expected = drawn(&there, way, &[stage.kind]);
                // The drift within a message is nothing; what the clocks leave open is between the hosts.
                let may = if stage.kind == Kind::Device { within + 1.0 } else { 1.0 };
                assert!((ns - expected).abs() <= may, "{stage:?}: {ns} instead of {expected}, within {within}");
            }
            // The bound is that of the fastest ways between the hosts, not that of the fastest round trip.
            let least = |way: usize| {
                truth.iter().map(|truth| truth.legs[way][stage::slot(Kind::Device)]).min().unwrap_or_default()
            };
            assert!(within <= 1.5 * f64::from(least(0) + least(1)) / 2.0 + 200.0, "{within}");
            let without =
                msgpath_analyse::one_way::OneWay::of(&there.run, &log(&there.logs).messages, &Logs::default()).unwrap();
            assert!(without.clock.within_ns().unwrap() > 3.0 * within, "{:?} beside {within}", without.clock);
            assert!(found.threads.iter().all(|thread| thread.run_ns > 0) && found.threads.len() == 2);
        }
    }
}

#[test]
fn an_end_that_could_not_trace_costs_its_own_stages() {
    use msgpath_core::Unavailable;
    let at_receiver = [Kind::Softirq, Kind::WakeCall, Kind::InFlight, Kind::Delay, Kind::Return, Kind::Again];
    let at_sender = [Kind::SendCall, Kind::Transmit, Kind::HeldBack];
    for untraced in ["far end", "near end"] {
        let mut there = on_two_hosts(traced(&Setup::over("tcp:send"), 50), |_| 5e9);
        let refused = vec![("BPF tracepoints".to_owned(), Unavailable::new("no right to use BPF", "a right"))];
        let none = Some(Tracing { refused, ..Tracing::default() });
        let far = untraced == "far end";
        *(if far { &mut there.run.header.ends[1].tracing } else { &mut there.run.header.tracing }) = none;
        there.log().events.here().iter_mut().for_each(|round| round.events.retain(|event| (event.end == 1) != far));
        let traces = there.run.rounds.iter_mut().filter_map(|round| round.trace.as_mut());
        traces.filter(|_| far).for_each(|trace| trace.apart.clear());
        let rows = log(&there.logs).messages.clone();
        there.logs.one_way = msgpath_analyse::one_way::OneWay::of(&there.run, &rows, &there.logs);
        let found = split_of(&there);
        assert_eq!((found.complete, found.residual_ns, found.why.as_ref()), (2_000, 0, None), "{found:?}");
        assert_eq!(found.untraced, [(untraced.to_owned(), "BPF tracepoints: no right to use BPF".to_owned())]);
        let all = found.band("all").unwrap();
        let ns = |direction, kind| {
            let at = found.stages.iter().position(|stage| (stage.direction, stage.kind) == (Some(direction), kind));
            at.map(|at| (all.parts_ns[at], found.stages[at].name.as_str()))
        };
        // Who is traced sends one way and receives the other.
        let (sends, receives) = if far { (0, 1) } else { (1, 0) };
        let within = found.within_ns.unwrap() + 2.0;
        let way = |way: usize| StageDirection::ALL[way];
        let (between, name) = ns(way(sends), Kind::Device).unwrap();
        assert_eq!(name, "device, wire and the receiver's kernel");
        let expected = drawn(&there, sends, &[Kind::Device]) + drawn(&there, sends, &at_receiver);
        assert!((between - expected).abs() < within, "{between} {expected} ±{within}");
        let (between, name) = ns(way(receives), Kind::Device).unwrap();
        assert_eq!(name, "send call, transmit stack, device and wire");
        let expected = drawn(&there, receives, &[Kind::Device]) + drawn(&there, receives, &at_sender);
        assert!((between - expected).abs() < within, "{between} {expected} ±{within}");
        assert!((ns(way(sends), Kind::Transmit).unwrap().0 - drawn(&there, sends, &[Kind::Transmit])).abs() < 1.0);
        assert!(
            (ns(way(receives), Kind::InFlight).unwrap().0 - drawn(&there, receives, &[Kind::InFlight])).abs() < 1.0
        );
        assert_eq!((ns(way(sends), Kind::Return), ns(way(receives), Kind::Transmit)), (None, None));
        assert!(found.threads.len() == 1 && found.threads[0].who != untraced, "{:?}", found.threads);
        assert_eq!(found.at_ready[sends].total(), 0);
        let said = crate::testing::sentences(&there, "W92");
        assert!(said[0].contains(&format!("not at the {untraced} (BPF tracepoints: no right to use BPF)")), "{said:?}");
    }
    // With no kernel at all the stamps are all there is.
    let mut there = on_two_hosts(traced(&Setup::over("tcp:send"), 50), |_| 5e9);
    (there.run.header.tracing, there.run.header.ends[1].tracing) = (Some(Tracing::default()), Some(Tracing::default()));
    assert_eq!(split_of(&there).why.as_deref(), Some("the kernel was not traced"));
}

#[test]
fn stamps_of_a_far_end_that_make_no_sense_do_no_harm() {
    let there = on_two_hosts(traced(&Setup::over("tcp:send"), 10), |_| 5e9);
    let extremes = [i64::MIN, -1, 0, i64::MAX];
    for at in 0..12 {
        let mut there = there.copied();
        for (n, row) in there.log().messages.here().iter_mut().enumerate() {
            let value = Some(extremes[(n + at) % 4]);
            *(if at % 3 == 0 { &mut row.received_ns } else { &mut row.replied_ns }) = value;
        }
        for round in &mut there.run.rounds {
            if let Some(apart) = round.trace.as_mut().and_then(|trace| trace.apart.first_mut()) {
                apart.origin_ns = if at < 4 { apart.origin_ns } else { extremes[at % 4] };
            }
        }
        let rows = log(&there.logs).messages.clone();
        there.logs.one_way = msgpath_analyse::one_way::OneWay::of(&there.run, &rows, &there.logs);
        let found = split_of(&there);
        assert_eq!(found.residual_ns, 0);
        assert_eq!(found.complete + found.not_attributed.values().sum::<u64>(), found.messages);
    }
}
