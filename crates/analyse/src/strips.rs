//! What else happened during the rounds of a case: one value a round each, for the strips under the heat map.
//!
//! A strip follows the slow rounds where the two rise together, in both halves of the run, beyond what looking at so
//! many strips would show by chance (Bonferroni).

use msgpath_core::schema::{Counted, FAR, KernelCounts, NEAR, RoundRecord};
use msgpath_record::Run;
use msgpath_stats::association::{Association, association};

use crate::heat::by_time;

/// One value a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    /// What was counted: `lost`, `near: waiting for the CPU`, `near: TcpExt.DelayedACKs`.
    pub name: String,
    /// Whether the values are times, ns; else they are counts.
    pub time: bool,
    /// By round, in the order of time; `None`: not counted.
    pub values: Vec<Option<f64>>,
    /// Rank correlation with how slow the rounds were, -1 to 1; `None`: too few rounds, or one of the two does not vary.
    pub rho: Option<f64>,
    /// It rises with the slow rounds.
    pub follows: bool,
}

/// All strips of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strips {
    /// Those that vary: what follows the slow rounds first, the strongest first.
    pub varying: Vec<Strip>,
    /// Names of what was counted and was 0 in every round.
    pub zero: Vec<String>,
    /// Names of what could not be counted in any round.
    pub unknown: Vec<String>,
}

/// A level that differs by less between rounds is level.
const LEVEL: f64 = 0.01;
/// The level of evidence, of all strips together.
const EVIDENCE: f64 = 0.05;

type Value = fn(&RoundRecord) -> Option<f64>;

/// Everything but the kernel counters: name, whether it is a time, value.
const KNOWN: [(&str, bool, Value); 14] = [
    ("lost", false, |round| Some(round.near().delivery.lost.max(round.far().delivery.lost) as f64)),
    ("replies later than the loss timeout", false, |round| Some(round.near().delivery.late as f64)),
    ("late sends", false, |round| Some(round.open.as_ref()?.late as f64)),
    ("segments retransmitted", false, |round| {
        let of = |tcp: Option<msgpath_core::schema::TcpInfo>| tcp.map(|tcp| tcp.total_retrans as f64);
        Some(of(round.near().tcp)? + of(round.far().tcp)?)
    }),
    ("segments received out of order", false, |round| {
        let count = |tcp: Option<msgpath_core::schema::TcpInfo>| tcp?.out_of_order.map(|count| count as f64);
        Some(count(round.near().tcp)? + count(round.far().tcp)?)
    }),
    ("CPU time stolen, ticks", false, |round| round.steal_ticks.map(|ticks| ticks as f64)),
    ("near: waiting for the CPU", true, |round| round.near().run_delay_ns.map(|ns| ns as f64)),
    ("far: waiting for the CPU", true, |round| round.far().run_delay_ns.map(|ns| ns as f64)),
    ("near: forced switches", false, |round| Some(round.near().involuntary_switches as f64)),
    ("far: forced switches", false, |round| Some(round.far().involuntary_switches as f64)),
    ("near: page faults", false, |round| Some((round.near().minor_faults + round.near().major_faults) as f64)),
    ("far: page faults", false, |round| Some((round.far().minor_faults + round.far().major_faults) as f64)),
    ("near: a fixed computation before the round", true, |round| round.end(NEAR).speed_ns.map(|ns| ns as f64)),
    ("far: a fixed computation before the round", true, |round| round.end(FAR).speed_ns.map(|ns| ns as f64)),
];

/// What else happened during the rounds of a case. A kernel counter is listed only where it follows the slow rounds:
/// there are too many of them, and most rise with every message.
pub fn strips(run: &Run, case: u32) -> Strips {
    let rounds = by_time(run, case);
    let slow: Vec<Option<f64>> = rounds.iter().map(|round| slowness(round)).collect();
    let mut out = Strips::default();
    if rounds.is_empty() {
        return out;
    }
    let counters = counters(run, &rounds);
    let tried = KNOWN.len() + counters.len();
    let case = run.header.plan.cases.iter().find(|own| own.id == case);
    let [near, far] = case.map_or([true; 2], |case| {
        run.header.counted(case).map(|counted| matches!(counted, Counted::All | Counted::AllButCalls))
    });
    let unread = |name: &str| (!near && name.starts_with("near: ")) || (!far && name.starts_with("far: "));
    for (name, time, value) in KNOWN {
        let values: Vec<Option<f64>> = rounds.iter().map(|round| value(round).filter(|_| !unread(name))).collect();
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let most = known.iter().copied().fold(0.0, f64::max);
        let least = known.iter().copied().fold(f64::INFINITY, f64::min);
        if known.is_empty() {
            // A closed loop has no schedule, and only TCP has segments: nothing is missing there.
            let concerns = !matches!(name, "late sends" | "segments retransmitted" | "segments received out of order");
            out.unknown.extend(concerns.then(|| name.to_owned()));
        } else if most == 0.0 {
            out.zero.push(name.to_owned());
        } else if most > least * (1.0 + LEVEL) {
            out.varying.push(strip(name.to_owned(), time, values, &slow, tried));
        }
    }
    let counters = counters.into_iter().map(|(name, values)| strip(name, false, values, &slow, tried));
    out.varying.extend(counters.filter(|strip| strip.follows));
    out.varying.sort_by(|a, b| {
        let key = |strip: &Strip| if strip.follows { strip.rho.unwrap_or(0.0) } else { 0.0 };
        key(b).total_cmp(&key(a))
    });
    out
}

/// How slow a round was: its p99, or its median where it has too few messages. Lost messages are slower than any.
fn slowness(round: &RoundRecord) -> Option<f64> {
    let p = if round.latency.total() >= 100 { 0.99 } else { 0.5 };
    round.latency.quantile(p).map(|ns| ns.map_or(f64::MAX, |ns| ns as f64))
}

fn strip(name: String, time: bool, values: Vec<Option<f64>>, slow: &[Option<f64>], tried: usize) -> Strip {
    let (x, y): (Vec<f64>, Vec<f64>) =
        values.iter().zip(slow).filter_map(|(value, slow)| Some(((*value)?, (*slow)?))).unzip();
    let found: Option<Association> = association(&x, &y);
    Strip {
        name,
        time,
        values,
        rho: found.map(|found| found.rho),
        follows: found.is_some_and(|found| found.rises() && found.p * tried as f64 <= EVIDENCE),
    }
}

/// A counter's name and its value of each round.
type Counter = (String, Vec<Option<f64>>);

/// The kernel counters that changed in any round, per message, so that a long round is not a busy one. In one network
/// namespace both ends count the same events: those of the near end are taken.
fn counters(run: &Run, rounds: &[&RoundRecord]) -> Vec<Counter> {
    let one_machine = run.header.one_machine();
    let of = |end: &str, pick: fn(&RoundRecord) -> &KernelCounts| {
        let mut names: Vec<&String> = rounds.iter().flat_map(|round| pick(round).0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let values = |name: &String| {
            let value = |round: &&RoundRecord| {
                let messages = round.latency.total().max(1) as f64;
                Some(pick(round).0.get(name).copied().unwrap_or(0) as f64 / messages)
            };
            (format!("{end}: {name} a message"), rounds.iter().map(value).collect())
        };
        names.into_iter().map(values).collect::<Vec<Counter>>()
    };
    let mut all = of("near", |round| &round.end(NEAR).kernel);
    if !one_machine {
        all.extend(of("far", |round| &round.end(FAR).kernel));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, count, slow_down};

    #[test]
    fn what_moves_with_the_slow_rounds_comes_first() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        let slow = |at: usize| at % 5 == 2;
        slow_down(&mut run, 3.0, slow);
        count(&mut run, 0, "TcpExt.DelayedACKs", 1);
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if slow(at) { 4 } else { 0 });
            round.near_mut().run_delay_ns = Some(1_000 + (at as u64 * 7_919) % 500);
            round.end_mut(NEAR).kernel.0.insert("irq.RES".into(), if slow(at) { 900 } else { 20 });
        }
        let strips = strips(&run, 0);
        let names: Vec<_> = strips.varying.iter().map(|strip| (strip.name.as_str(), strip.follows)).collect();
        let first: Vec<&str> = names.iter().filter(|(_, follows)| *follows).map(|(name, _)| *name).collect();
        assert_eq!(names[..2].iter().filter(|(_, follows)| *follows).count(), 2, "{names:?}");
        assert!(first.contains(&"CPU time stolen, ticks") && first.contains(&"near: irq.RES a message"), "{names:?}");
        assert_eq!(names[2..], [("near: waiting for the CPU", false)]);
        assert!(strips.zero.iter().any(|name| name == "lost"));
        assert!(strips.unknown.iter().any(|name| name == "far: waiting for the CPU"));
        assert!(!strips.unknown.iter().chain(&strips.zero).any(|name| name == "late sends"));
    }

    #[test]
    fn what_varies_by_itself_rarely_follows() {
        let follows = (0..100).filter(|seed| {
            let mut build = Build::echo(&["tcp:send"], &[64]).noise(0.1);
            build.plan.seed = 300 + seed;
            let mut run = build.run();
            let mut random = fastrand::Rng::with_seed(*seed);
            for round in &mut run.rounds {
                for name in 0..20 {
                    round.end_mut(NEAR).kernel.0.insert(format!("c{name}"), random.u64(0..1_000));
                }
            }
            strips(&run, 0).varying.iter().any(|strip| strip.follows)
        });
        let follows = follows.count();
        assert!(follows <= 8, "{follows} of 100");
    }
}
