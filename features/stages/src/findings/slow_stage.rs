//! W80: messages are slow in one stage
//!
//! Slow messages are slow because of one stage: which, how much of the extra time, and what it takes in slow and in
//! usual messages. Where an ablation removed a wait for a CPU, what came of it. *Sure* where the interval excludes what
//! tracing adds, and both halves agree.
//!
//! | because | stages | what to do |
//! |---|---|---|
//! | a sleeping thread had to be woken | wake-up call, wake-up in flight | spin or busy-poll; both ends on one CPU |
//! | another task had the receiver's CPU | scheduling delay | CPUs of its own (`--cpu`, isolcpus), a higher priority |
//! | a CPU quota kept the receiver (W41) | scheduling delay | a larger `cpu.max`, fewer threads |
//! | the softirq ran on another core | device, softirq | the queue's interrupt on the receiver's CPU (rps_cpus, smp_affinity) |
//! | device or softirq took longer | device, softirq | less other traffic; netfilter rules and packet sockets see every packet |
//! | the server's program took longer | between receive and send | a profile (`perf record`), its locks |
//! | the send call took longer | send call, transmit stack | `--stages full`; a larger send buffer, fewer pieces |
//! | they waited to be sent | schedule of an open loop | a smaller rate, a sender a connection |
//! | the receiver slept again | message not whole | one segment, MSG_WAITALL, SO_RCVLOWAT |
//! | the signal took longer | signal, delivery | a wait in a system call (epoll) |
//! | the receiver took longer on its CPU | receive call returns | no interrupts there, huge pages |
//!
//! * **Idle states** (*likely*): half of the slow messages' wake-ups left one idle state, twice as often as others.
//!   `cpupower idle-set -D`, or /dev/cpu_dma_latency at 0; both cost power.
//! * **The first message of a connection** (*likely*): 1.5 times the mean or more, mostly in one stage. Touch buffers
//!   and fetch keys at start-up.
//!
//! ## What it rests on
//!
//! Stages of messages from p98.5 to p99.5 against p45 to p55
//! ([attribution](docs/method/attribution.md#which-stage-makes-messages-slow)); idle states from `cpu_idle` (`--stages
//! full`). Silent where slow messages take less than a fifth longer, no stage has 30 % of that, or its interval
//! contains 0.
//!
//! ## What to do
//!
//! The third column. Packets held back after the send call: W88.

use msgpath_core::units::Glyphs;

use super::growth::{Slow, against_waiting, holders, slow};
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::throttled::stopped_by_quota;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W80", detect };

/// Share of the slow messages that are so: fewer are not the rule.
const MOST: f64 = 0.5;
/// An idle state is so many times as frequent among slow messages as among others.
const TIMES: f64 = 2.0;

/// Stages that are one reason, what the sentence calls it, and what may help.
struct Reason {
    kinds: &'static [Kind],
    because: &'static str,
    to_try: &'static str,
}

const WAKING: Reason = Reason {
    kinds: &[Kind::WakeCall, Kind::InFlight],
    because: "a sleeping thread had to be woken",
    to_try: "a receiver that spins or busy-polls, for the price of a CPU; both ends on one CPU where they talk in turn",
};

const RUN_QUEUE: Reason = Reason {
    kinds: &[Kind::Delay],
    because: "the receiver was ready to run and another task ran",
    to_try: "CPUs of its own for the receiver (--cpu, isolcpus), a higher priority for it (chrt, nice), the others elsewhere (taskset)",
};

/// Instead of its row where the softirq ran on another CPU.
const ANOTHER_CORE: Reason = Reason {
    kinds: &[Kind::Device, Kind::Softirq],
    because: "the receive softirq ran on another core",
    to_try: "the receive queue and its interrupt on the receiver's CPU (rps_cpus, smp_affinity), or steering off",
};

const OTHERS: [Reason; 7] = [
    Reason {
        kinds: &[Kind::Handler],
        because: "the far end's program took longer between receive and send",
        to_try: "a profile of the handler (perf record), its locks and its allocations",
    },
    Reason {
        kinds: &[Kind::SendCall, Kind::Transmit],
        because: "the send call took longer",
        to_try: "--stages full, which splits it at the queue of the device; a larger send buffer where the sender is held up; fewer pieces \
                 a message (writev)",
    },
    Reason {
        kinds: &[Kind::Waiting],
        because: "they waited to be sent",
        to_try: "a smaller rate; a sender of its own for each connection",
    },
    Reason {
        kinds: &[Kind::Device, Kind::Softirq],
        because: "the device or the receive softirq took longer",
        to_try: "other traffic off this machine; netfilter rules and packet sockets that see every packet",
    },
    Reason {
        kinds: &[Kind::Again],
        because: "the receiver slept again before its message was whole",
        to_try: "messages in one segment, or a receive that waits for all of it (MSG_WAITALL, SO_RCVLOWAT)",
    },
    Reason {
        kinds: &[Kind::Signal, Kind::Deliver],
        because: "the signal took longer",
        to_try: "a wait in a system call instead (epoll)",
    },
    Reason {
        kinds: &[Kind::Return],
        because: "the receiver's own time on its CPU was longer",
        to_try: "interrupts off its CPU; huge pages; no page faults",
    },
];

fn detect(input: &Input) -> Vec<Sentence> {
    let slow = slow(input);
    let stages = slow.iter().filter_map(|slow| say(input, slow));
    stages.chain(slow.iter().filter_map(|slow| idle(input, slow))).collect()
}

fn say(input: &Input, slow: &Slow) -> Option<Sentence> {
    let kind = slow.growth.kind;
    let is_of = |reason: &&Reason| reason.kinds.contains(&kind);
    let elsewhere = Some(slow.stages.softirq_elsewhere_slow).filter(|share| *share >= MOST);
    let elsewhere = elsewhere.filter(|_| is_of(&&ANOTHER_CORE));
    let reason = if elsewhere.is_some() {
        &ANOTHER_CORE
    } else {
        [&WAKING, &RUN_QUEUE].into_iter().chain(&OTHERS).find(is_of)?
    };
    let quota = Some(kind).filter(|kind| *kind == Kind::Delay).and_then(|_| stopped_by_quota(input));
    let because = if quota.is_some() {
        "the receiver was ready to run and a CPU quota kept it from running"
    } else {
        reason.because
    };
    let mut text = slow.says(input, because);
    if let Some(quota) = quota {
        text += &format!(". Meanwhile {quota}");
    }
    let holders = holders(&slow.stages.occupants.slow);
    match kind {
        Kind::Delay if !holders.is_empty() => text += &format!(". Meanwhile ran: {holders}"),
        Kind::Handler => text += ". The way there and back is not the cause",
        _ => {}
    }
    if let Some(share) = elsewhere {
        text +=
            &format!(". In {} % of them the receive softirq ran on another CPU than the one that sent", percent(share));
    }
    let waits = is_of(&&WAKING) || is_of(&&RUN_QUEUE);
    let (to_try, next) = if waits {
        against_waiting(input, slow.case, reason.to_try)
    } else {
        (format!(". To try: {}", reason.to_try), Vec::new())
    };
    let [a, b, c, d, e, f, g] = slow.numbers();
    let numbers = [a, b, c, d, e, f, g, ("elsewhere_share", elsewhere.unwrap_or(f64::NAN))];
    Some(finding("W80", slow.confidence(), text + &to_try + ".", numbers, next))
}

/// The CPU of slow messages left a deeper idle state.
fn idle(input: &Input, slow: &Slow) -> Option<Sentence> {
    let exit = slow
        .stages
        .idle
        .iter()
        .rev()
        .filter(|_| WAKING.kinds.contains(&slow.growth.kind))
        .find(|exit| exit.share_of_slow >= MOST && exit.share_of_slow >= TIMES * exit.share_of_others)?;
    let text = format!(
        "{}the CPU that slept was in idle state {}: true of {} % of the wake-ups of slow messages, {} % of others; the \
         wake-up out of it is {} in flight. To try: cpupower idle-set -D with a limit below its exit time, or \
         /dev/cpu_dma_latency held open at 0; both cost power",
        prefix(input, slow.case),
        exit.state,
        percent(exit.share_of_slow),
        percent(exit.share_of_others),
        Glyphs::Unicode.time(exit.in_flight_ns),
    );
    let numbers = [
        ("idle_state", f64::from(exit.state)),
        ("share_of_slow", exit.share_of_slow),
        ("share_of_others", exit.share_of_others),
        ("in_flight_ns", exit.in_flight_ns),
    ];
    Some(finding("W80", Confidence::Likely, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{FAR, Found, Setup, Traced, sentences, traced};
    use msgpath_core::Case;
    use msgpath_core::plan::{Ablation, CaseRole, Change, StageSet};
    use msgpath_core::schema::EventKind;

    fn grown(kind: Kind) -> Traced {
        traced(&Setup { slow: Some(kind), ..Setup::over("tcp:send") }, 50)
    }

    /// Every round of a case of `from` gets these times, ns.
    fn retime(traced: &mut Traced, case: u32, ns: impl Fn(u32, u64) -> u64) {
        for round in traced.run.rounds.iter_mut().filter(|round| round.case == case) {
            let mut histogram = msgpath_core::Histogram::new();
            (0..200).for_each(|at| histogram.record(ns(round.pass, at)));
            round.latency = histogram.to_sparse();
        }
    }

    #[test]
    fn speaks_of_the_stage_that_grew() {
        for (kind, words) in [
            (Kind::InFlight, ["because a sleeping thread had to be woken: ", " is wake-up in flight ("]),
            (Kind::Delay, ["another task ran: ", "Meanwhile ran: ffmpeg (thread 666, "]),
            (Kind::Transmit, ["because the send call took longer: ", " is send call and transmit stack ("]),
            (Kind::Device, ["the device or the receive softirq took longer: ", " of the extra "]),
            (Kind::Return, ["the receiver's own time on its CPU was longer: ", "To try: interrupts off its CPU"]),
        ] {
            let texts = sentences(&grown(kind), &super::DETECTOR);
            assert!(texts.len() == 1 && words.iter().all(|words| texts[0].contains(words)), "{texts:?}");
        }
        let texts = sentences(&grown(Kind::InFlight), &super::DETECTOR);
        assert!(
            texts[0].starts_with("sure: Slow messages are slow because ") && texts[0].contains("To try: "),
            "{texts:?}"
        );
        let open = Setup { slow: Some(Kind::Waiting), open: true, ..Setup::over("tcp:send") };
        assert!(sentences(&traced(&open, 50), &super::DETECTOR)[0].contains("they waited to be sent: "));
        // One message in 50 works for 60 µs.
        let texts = sentences(&traced(&Setup { cold: 1_000.0, ..Setup::over("unix:send") }, 50), &super::DETECTOR);
        assert!(texts[0].contains("the far end's program took longer between receive and send: "), "{texts:?}");
    }

    #[test]
    fn nobody_is_woken_who_spins_or_is_slow_elsewhere() {
        let spins = Setup { found: vec![Found::Running], ..Setup::over("tcp:send") };
        for traced in [traced(&spins, 50), grown(Kind::Delay)] {
            let texts = sentences(&traced, &super::DETECTOR);
            assert!(texts.iter().all(|text| !text.contains("had to be woken")), "{texts:?}");
        }
    }

    #[test]
    fn names_the_quota_that_stopped_the_run() {
        let mut traced = grown(Kind::Delay);
        for end in [0, 1] {
            traced.run.header.ends[end].counters = vec!["cgroup.nr_throttled".into()];
        }
        traced.run.header.host_mut(0).facts.insert(msgpath_core::schema::QUOTA_FACT.into(), "20000 100000".into());
        for round in &mut traced.run.rounds {
            round.end_mut(0).kernel.0.insert("cgroup.nr_throttled".into(), 3);
        }
        let texts = sentences(&traced, &super::DETECTOR);
        let words = [
            "a CPU quota kept it from running",
            "a CPU quota stopped the near end ",
            "20.0 ms of CPU time every 100 ms",
        ];
        assert!(words.iter().all(|words| texts[0].contains(words)), "{texts:?}");
    }

    #[test]
    fn speaks_of_another_core() {
        let mut traced = traced(&Setup { slow: Some(Kind::Device), ..Setup::over("udp:send") }, 50);
        assert!(!sentences(&traced, &super::DETECTOR)[0].contains("another core"), "the same core");
        let softirq = [EventKind::NetifReceiveSkb, EventKind::SkDataReady];
        for event in traced.log().events.here().iter_mut().flat_map(|events| &mut events.events) {
            event.cpu = if softirq.contains(&event.kind) { 3 } else { event.cpu };
        }
        let texts = sentences(&traced, &super::DETECTOR);
        assert!(texts[0].contains("the receive softirq ran on another core: "), "{texts:?}");
        assert!(texts[0].contains("In 100 % of them"), "{texts:?}");
    }

    #[test]
    fn is_not_sure_where_tracing_costs_more() {
        let mut traced = grown(Kind::InFlight);
        retime(&mut traced, 0, |_, at| 4_000_000 + at * 500);
        // The replica takes 100 us more than its case of 4 ms.
        retime(&mut traced, 1, |_, at| 4_400_000 + at * 500);
        assert!(sentences(&traced, &super::DETECTOR)[0].starts_with("likely: "));
    }

    #[test]
    fn what_was_tried_replaces_the_guess() {
        let mut traced = grown(Kind::InFlight);
        let ablation = Some(Ablation { of: 0, change: Change::Spin });
        let case = traced.run.header.plan.cases[0].clone();
        traced.run.header.plan.cases.push(Case { id: 2, role: CaseRole::Ablation, ablation, ..case });
        let rounds: Vec<_> = traced.run.rounds.iter().filter(|round| round.case == 0).cloned().collect();
        traced.run.rounds.extend(rounds.into_iter().map(|mut round| {
            round.case = 2;
            round
        }));
        retime(&mut traced, 2, |pass, at| 8_000 + u64::from(pass % 3) * 40 + at);
        let text = &sentences(&traced, &super::DETECTOR)[0];
        assert!(
            text.contains("Tried here: spin, p50 ") && text.contains(" to 8.1") && !text.contains("To try"),
            "{text}"
        );
    }

    #[test]
    fn names_the_idle_state() {
        let setup = Setup { slow: Some(Kind::InFlight), set: StageSet::Full, ..Setup::over("tcp:send") };
        let mut traced = traced(&setup, 50);
        assert_eq!(sentences(&traced, &super::DETECTOR).len(), 1, "every wake-up leaves the same state");
        for events in traced.log().events.here() {
            // The far end's wake-up of every slow message leaves the state 3.
            for at in 0..events.events.len() {
                let event = events.events[at];
                if event.kind == EventKind::CpuIdle && event.cpu == 1 && event.a < 5 {
                    let wakeup = events.events[at..]
                        .iter()
                        .find(|e| e.kind == EventKind::SchedSwitch && e.b == FAR as u32)
                        .map(|e| e.t_ns - event.t_ns);
                    events.events[at].a = if wakeup.is_some_and(|ns| ns > 60_000) { 3 } else { 1 };
                }
            }
        }
        let texts = sentences(&traced, &super::DETECTOR);
        assert!(texts[1].starts_with("likely: The CPU that slept was in idle state 3: true of 50 % of"), "{texts:?}");
    }
}
