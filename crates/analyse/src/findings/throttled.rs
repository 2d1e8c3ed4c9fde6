//! Of W41: a CPU quota stopped the run.

use msgpath_core::schema::{LIMITED_GROUP, QUOTA, QUOTA_FACT, RoundRecord};
use msgpath_core::units::Glyphs;

use super::conditions::{End, contrast, ends, measured_rounds, of_rounds, one_machine};
use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W41", detect };

/// The counters of `cpu.stat`.
const TIMES: &str = QUOTA[0];
const USEC: &str = QUOTA[1];

fn detect(input: &Input) -> Vec<Sentence> {
    let mut throttled: Vec<End> = ends(input).into_iter().filter(|end| total(input, end, TIMES) > 0).collect();
    if one_machine(input) {
        // Both ends mostly live in one group, which would be told twice: the one that was stopped more often speaks.
        throttled.sort_by_key(|end| std::cmp::Reverse(total(input, end, TIMES)));
        throttled.truncate(1);
    }
    throttled.iter().map(|end| say(input, end)).collect()
}

fn total(input: &Input, end: &End, name: &str) -> u64 {
    measured_rounds(input).iter().filter_map(|round| end.grew(round, name)).sum()
}

fn say(input: &Input, end: &End) -> Sentence {
    let rounds = measured_rounds(input);
    let stopped = |round: &RoundRecord| end.grew(round, TIMES).unwrap_or(0) > 0;
    let some = rounds.iter().filter(|round| stopped(round)).count();
    let (times, usec) = (total(input, end, TIMES), total(input, end, USEC));
    let quota = quota_of(end);
    let contrast = contrast(input, &rounds, stopped);
    let lasted = if usec > 0 { format!(", {} in all", Glyphs::Unicode.time(usec as f64 * 1e3)) } else { String::new() };
    let limit = limit(end);
    warning(
        "W41",
        format!(
            "a CPU quota of its cgroup, or of one above it, stopped {} {}{lasted}, in {}{limit}; {}",
            end.name,
            often(times),
            of_rounds(some, rounds.len()),
            contrast.clause
        ),
        "a throttled group stands still for the rest of its period: a stall that no path causes",
        "raise cpu.max, measure outside of the group, or use fewer threads and a wait that sleeps",
        [
            ("throttled_times", times as f64),
            ("throttled_ns", if usec > 0 { usec as f64 * 1e3 } else { f64::NAN }),
            ("throttled_rounds", some as f64),
            ("rounds", rounds.len() as f64),
            ("quota_us", quota.map_or(f64::NAN, |(quota, _)| quota as f64)),
            ("period_us", quota.map_or(f64::NAN, |(_, period)| period as f64)),
            ("level_ratio", contrast.level),
            ("slow_share_throttled", contrast.slow_with),
            ("slow_share_others", contrast.slow_without),
        ],
    )
}

fn often(times: u64) -> String {
    if times == 1 { "once".into() } else { format!("{times} times") }
}

fn quota_of(end: &End) -> Option<(u64, u64)> {
    end.machine.facts.get(QUOTA_FACT).and_then(|text| quota(text))
}

/// ` (the quota of /sys/fs/cgroup/a: 50 ms of CPU time every 100 ms)`; empty where it is not known.
fn limit(end: &End) -> String {
    let group = end.machine.facts.get(LIMITED_GROUP).map_or(String::new(), |group| format!(" of {group}"));
    let time = |usec: u64| Glyphs::Unicode.time(usec as f64 * 1e3);
    quota_of(end).map_or(String::new(), |(quota, period)| {
        format!(" (the quota{group}: {} of CPU time every {})", time(quota), time(period))
    })
}

/// Which CPU quota kept an end from a CPU and how often, where one did: the end that was stopped most often.
pub fn stopped_by_quota(input: &Input) -> Option<String> {
    let ends = ends(input);
    let times = |end: &End| total(input, end, TIMES);
    let end = ends.iter().max_by_key(|end| times(end)).filter(|end| times(end) > 0)?;
    Some(format!("a CPU quota stopped {} {}{}", end.name, often(times(end)), limit(end)))
}

/// Quota and period of `cpu.max`, µs; `None` for `max` or what is not one.
fn quota(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences, stalls};
    use msgpath_core::schema::{FAR, NEAR};

    fn run(times: u64) -> msgpath_record::Run {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.ends[NEAR].counters = vec!["cgroup.nr_throttled".into(), "cgroup.throttled_usec".into()];
        run.header.ends[FAR].counters = run.header.end(NEAR).counters.clone();
        for round in run.rounds.iter_mut().step_by(4).filter(|_| times > 0) {
            for end in [NEAR, FAR] {
                let counts = &mut round.end_mut(end).kernel;
                counts.0.insert("cgroup.nr_throttled".into(), times);
                counts.0.insert("cgroup.throttled_usec".into(), 45_000 * times);
            }
            stalls(round, 5, 45_000_000);
        }
        run
    }

    #[test]
    fn speaks_with_quota_and_the_stalls_it_made() {
        let mut run = run(2);
        let facts = [(super::QUOTA_FACT, "50000 100000"), (super::LIMITED_GROUP, "/sys/fs/cgroup/a")];
        run.header.host_mut(NEAR).facts.extend(facts.map(|(name, value)| (name.into(), value.into())));
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 1);
        assert!(
            texts[0].starts_with(
                "a CPU quota of its cgroup, or of one above it, stopped the near end 20 times, 900 ms in all, in 10 of 40 rounds (the quota of /sys/fs/cgroup/a: 50.0 ms of CPU time every 100 ms); "
            ),
            "{texts:?}"
        );
        assert!(texts[0].contains("% of their messages are as slow as the p99"), "{texts:?}");
    }

    #[test]
    fn speaks_of_both_of_two_machines() {
        let mut run = run(1);
        run.header.host_mut(FAR).boot_id = "two".into();
        assert_eq!(sentences(&run, &super::DETECTOR).len(), 2);
    }

    #[test]
    fn a_limit_that_was_never_reached_is_not_mentioned() {
        let mut run = run(0);
        run.header.host_mut(NEAR).facts.insert(super::QUOTA_FACT.into(), "200000 100000".into());
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        assert_eq!((super::quota("max 100000"), super::quota("n/a: no such file")), (None, None));
    }
}
