//! Events of CPU and kernel per message, and what follows from them: cycles per byte, instructions a cycle.
//!
//! A figure is there because it was counted (perf_event_open(2)) or because it was simulated (cachegrind); the two have
//! entries of their own and are never added or divided by one another. What is neither has a reason and no number.

use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::{EndReport, EventCounts, EventFacts, RoundRecord, Simulated};
use msgpath_record::Run;
use msgpath_stats::estimate::{Estimate, mean_estimate};

use crate::cost::handled;
use crate::summary::{CaseSummary, EventRate};

pub const CYCLES: &str = "cycles";
/// Instructions that retired.
pub const INSTRUCTIONS: &str = "instructions";
/// Reads that missed the first-level data cache.
pub const L1D_MISSES: &str = "L1-dcache-load-misses";
/// Reads that missed the last-level cache.
pub const LAST_LEVEL_MISSES: &str = "LLC-load-misses";
/// What simulated figures are, wherever they are shown.
pub const SIMULATED: &str = "simulated (cachegrind, user mode only: the kernel's copies are not in it)";

/// The rounds of a case whose events count for it, in the order of passes: those of its counted replica. In a record of an
/// older version that is the case itself.
pub(crate) fn rounds_of<'a>(run: &'a Run, case: &Case) -> Vec<&'a RoundRecord> {
    let is_replica = |replica: &&Case| {
        Plan::counted(replica) && replica.ablation.as_ref().is_some_and(|ablation| ablation.of == case.id)
    };
    crate::calm::all_rounds(run, run.header.plan.cases.iter().find(is_replica).unwrap_or(case))
}

/// The events of one end of a case: those that were counted, in the order of the header, those that were not, with the
/// reason, then those that were simulated.
pub(crate) fn rates<'a>(
    facts: &EventFacts,
    rounds: impl Iterator<Item = (&'a EndReport, &'a EventCounts)> + Clone,
    simulated: Option<&Simulated>,
) -> Vec<EventRate> {
    let counted = facts.counted.iter().map(|name| rate(name, rounds.clone()));
    let refused = facts.refused.iter().map(|(name, reason)| EventRate {
        name: name.clone(),
        why: Some(reason.why.clone()),
        ..EventRate::default()
    });
    counted.chain(refused).chain(simulated.into_iter().flat_map(simulated_rates)).collect()
}

/// One event: the mean over rounds of its count per message, with the 95 % t interval.
fn rate<'a>(name: &str, rounds: impl Iterator<Item = (&'a EndReport, &'a EventCounts)>) -> EventRate {
    let mut each = Vec::new();
    let mut user = 0.0;
    let mut split = 0.0;
    let mut enabled = 0.0;
    let mut running = 0.0;
    for (end, counts) in rounds {
        let (messages, Some(count)) = (handled(end), counts.get(name)) else { continue };
        if messages == 0 {
            continue;
        }
        each.push(count.count as f64 / messages as f64);
        if let Some(in_user) = count.user {
            user += in_user as f64;
            split += count.count as f64;
        }
        enabled += count.enabled_ns as f64;
        running += count.running_ns as f64;
    }
    EventRate {
        name: name.into(),
        why: each.is_empty().then(|| "it had no counter in any round".into()),
        // No count is below 0.
        per_message: mean_estimate(&each)
            .map(|estimate| Estimate { low: estimate.low.map(|low| low.max(0.0)), ..estimate }),
        user_share: (split > 0.0).then(|| user / split),
        running_share: (enabled > 0.0).then(|| (running / enabled).min(1.0)),
        simulated: false,
    }
}

/// Two runs of different length differ by their messages only: start and end are in both.
fn simulated_rates(simulated: &Simulated) -> Vec<EventRate> {
    let [few, many] = simulated.messages;
    if let Some(reason) = &simulated.why {
        let name = INSTRUCTIONS.into();
        return vec![EventRate { name, simulated: true, why: Some(reason.why.clone()), ..EventRate::default() }];
    }
    let one = |(name, [less, more]): (&String, &[u64; 2])| {
        let messages = many.checked_sub(few).filter(|messages| *messages > 0);
        let value = messages.zip(more.checked_sub(*less)).map(|(messages, count)| count as f64 / messages as f64);
        EventRate {
            name: name.clone(),
            per_message: value.map(|value| Estimate { value, low: None, high: None }),
            user_share: value.map(|_| 1.0),
            simulated: true,
            why: value.is_none().then(|| "the longer run had fewer of them".into()),
            ..EventRate::default()
        }
    };
    simulated.counts.iter().map(one).collect()
}

/// An event per message at one end of a case, as counted: `cycles`, or `cpu_core/cycles/` alone. Core types are summed; the
/// interval of a sum is that of its parts added, which is never too narrow.
///
/// # Errors
/// Why there is none, as it is printed after `n/a: `.
pub fn find(case: &CaseSummary, end: usize, event: &str) -> Result<Estimate, String> {
    look_up(case, end, event, false)
}

/// The same, as simulated by cachegrind: to be shown as [`SIMULATED`] and never beside counted figures without it.
///
/// # Errors
/// As [`find`].
pub fn find_simulated(case: &CaseSummary, end: usize, event: &str) -> Result<Estimate, String> {
    look_up(case, end, event, true)
}

fn look_up(case: &CaseSummary, end: usize, event: &str, simulated: bool) -> Result<Estimate, String> {
    let rates = &case.end(end).events;
    let is_it = |name: &str| name == event || base(name) == event;
    let own: Vec<&EventRate> = rates.iter().filter(|rate| rate.simulated == simulated && is_it(&rate.name)).collect();
    let parts: Vec<&Estimate> = own.iter().filter_map(|rate| rate.per_message.as_ref()).collect();
    let Some((first, rest)) = parts.split_first() else {
        let why = own.iter().find_map(|rate| rate.why.clone());
        let none = if simulated {
            "it was not simulated (-o simulate-cache=yes)"
        } else {
            "no events were counted (-o events=off)"
        };
        return Err(why.unwrap_or_else(|| none.into()));
    };
    // Threads run on cores of every type that there is, so a type that is not counted leaves a hole.
    if let Some(hole) = own.iter().find(|rate| rate.per_message.is_none()) {
        return Err(format!("{}: {}", hole.name, hole.why.as_deref().unwrap_or("not counted")));
    }
    let plus = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    Ok(rest.iter().fold((*first).clone(), |sum, part| Estimate {
        value: sum.value + part.value,
        low: plus(sum.low, part.low),
        high: plus(sum.high, part.high),
    }))
}

/// Whether the CPU counts it, not the kernel.
pub fn is_hardware(event: &str) -> bool {
    [CYCLES, INSTRUCTIONS, L1D_MISSES, LAST_LEVEL_MISSES].contains(&base(event))
}

/// `cycles` of `cpu_core/cycles/`.
fn base(name: &str) -> &str {
    name.strip_suffix('/').and_then(|name| name.split_once('/')).map_or(name, |(_, event)| event)
}

/// Payload bytes of a message at one end: with the reply, but in a stream, which has none.
fn bytes_of(case: &CaseSummary) -> f64 {
    let reply = if case.throughput.is_some() { 0 } else { case.case.reply };
    (case.case.size + reply) as f64
}

/// Cycles for each payload byte that this end sent or received.
///
/// # Errors
/// Why there is none.
pub fn cycles_per_byte(case: &CaseSummary, end: usize) -> Result<Estimate, String> {
    let cycles = find(case, end, CYCLES)?;
    let bytes = bytes_of(case);
    let each = |value: f64| value / bytes;
    Ok(Estimate { value: each(cycles.value), low: cycles.low.map(each), high: cycles.high.map(each) })
}

/// Instructions for each cycle. No interval: both counts of a round rise and fall together.
///
/// # Errors
/// Why there is none.
pub fn instructions_per_cycle(case: &CaseSummary, end: usize) -> Result<Estimate, String> {
    let (instructions, cycles) = (find(case, end, INSTRUCTIONS)?, find(case, end, CYCLES)?);
    if cycles.value > 0.0 { Ok((instructions.value / cycles.value).into()) } else { Err("no cycle was counted".into()) }
}

/// Why there are no hardware counts at an end, where there are none: one reason for all of them.
pub fn no_hardware(case: &CaseSummary, end: usize) -> Option<String> {
    let reasons = [CYCLES, INSTRUCTIONS, L1D_MISSES, LAST_LEVEL_MISSES].map(|event| find(case, end, event).err());
    let [Some(first), ..] = &reasons else { return None };
    reasons.iter().all(|reason| reason.as_ref() == Some(first)).then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use msgpath_core::Unavailable;
    use msgpath_core::schema::{EventCount, FAR, NEAR};

    use super::*;
    use crate::summarise;
    use crate::testing::Build;

    /// A run whose near end counted `per_message` of each event in every round.
    fn counted(events: &[(&str, f64)]) -> CaseSummary {
        let mut run = Build::echo(&["tcp:send"], &[1000]).run();
        run.header.ends[NEAR].events = EventFacts {
            counted: events.iter().map(|(name, _)| (*name).to_owned()).collect(),
            refused: vec![("LLC-load-misses".into(), Unavailable::new("this PMU does not have it: ENOENT", ""))],
            user_only: false,
        };
        run.header.ends[FAR].events.refused = vec![("cycles".into(), Unavailable::new("no PMU driver: ENOENT", ""))];
        for round in &mut run.rounds {
            let messages = round.near().delivery.sent as f64;
            // Rounds differ, so that there is an interval.
            let wave = 1.0 + 0.01 * f64::from(round.pass % 3) - 0.01;
            for (name, each) in events {
                let count = (each * messages * wave).round() as u64;
                let count = EventCount { count, user: Some(count / 4), enabled_ns: 1000, running_ns: 500 };
                round.end_mut(NEAR).events.insert((*name).into(), count);
            }
        }
        summarise(&run).cases.remove(0)
    }

    #[test]
    fn counts_become_rates_with_an_interval() {
        let case = counted(&[("cycles", 4000.0), ("instructions", 6000.0)]);
        let cycles = find(&case, NEAR, "cycles").unwrap();
        assert!((cycles.value - 4000.0).abs() < 10.0, "{cycles:?}");
        assert!(cycles.low.unwrap() < cycles.value && cycles.value < cycles.high.unwrap(), "{cycles:?}");
        let rate = &case.end(NEAR).events[0];
        assert!((rate.user_share.unwrap() - 0.25).abs() < 1e-3 && rate.running_share == Some(0.5), "{rate:?}");
        // 1000 bytes there and 1000 back.
        let per_byte = cycles_per_byte(&case, NEAR).unwrap();
        assert!((per_byte.value - 2.0).abs() < 0.01 && per_byte.low.is_some());
        assert!((instructions_per_cycle(&case, NEAR).unwrap().value - 1.5).abs() < 0.01);
        assert_eq!(no_hardware(&case, NEAR), None);
    }

    #[test]
    fn what_was_not_counted_has_a_reason_and_no_number() {
        let case = counted(&[("cycles", 4000.0)]);
        assert_eq!(find(&case, NEAR, LAST_LEVEL_MISSES), Err("this PMU does not have it: ENOENT".into()));
        assert_eq!(find(&case, FAR, CYCLES), Err("no PMU driver: ENOENT".into()));
        assert_eq!(find(&case, NEAR, INSTRUCTIONS), Err("no events were counted (-o events=off)".into()));
        assert_eq!(cycles_per_byte(&case, FAR), Err("no PMU driver: ENOENT".into()));
        assert!(find_simulated(&case, NEAR, CYCLES).is_err(), "a counted figure is not a simulated one");
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.ends[NEAR].events.counted = vec!["cycles".into()];
        let case = summarise(&run).cases.remove(0);
        assert_eq!(find(&case, NEAR, CYCLES), Err("it had no counter in any round".into()));
    }

    #[test]
    fn types_of_cores_are_summed_unless_one_is_missing() {
        let case = counted(&[("cpu_core/cycles/", 300.0), ("cpu_atom/cycles/", 100.0)]);
        let (sum, core) = (find(&case, NEAR, CYCLES).unwrap(), find(&case, NEAR, "cpu_core/cycles/").unwrap());
        assert!((sum.value - 400.0).abs() < 2.0 && (core.value - 300.0).abs() < 2.0);
        assert!(sum.high.unwrap() - sum.value > core.high.unwrap() - core.value);
        let mut hole = case;
        hole.end_mut(NEAR).events[1] =
            EventRate { name: "cpu_atom/cycles/".into(), why: Some("not there".into()), ..EventRate::default() };
        assert_eq!(find(&hole, NEAR, CYCLES), Err("cpu_atom/cycles/: not there".into()));
    }

    #[test]
    fn simulated_figures_are_the_difference_of_two_runs() {
        let counts =
            BTreeMap::from([(INSTRUCTIONS.to_owned(), [1_000_000, 1_500_000]), (L1D_MISSES.to_owned(), [500, 400])]);
        let simulated = Simulated { messages: [100, 1100], counts, by: "valgrind-3.19.0".into(), why: None };
        let mut case = CaseSummary::empty(counted(&[]).case);
        case.end_mut(NEAR).events = rates(&EventFacts::default(), std::iter::empty(), Some(&simulated));
        assert_eq!(find_simulated(&case, NEAR, INSTRUCTIONS).unwrap().value, 500.0);
        assert!(find_simulated(&case, NEAR, L1D_MISSES).unwrap_err().contains("fewer"));
        assert!(find(&case, NEAR, INSTRUCTIONS).is_err(), "never taken for a counted one");
    }
}
