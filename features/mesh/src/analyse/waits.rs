//! What a busy machine may have added: an end that waits for its CPU makes its host look slow, and says nothing of the host or
//! its links. Told from what the kernel says of the ends, never from a latency.

use std::collections::BTreeMap;

use msgpath_core::calm::{PREEMPTED_PER_S, QUIET, SLICE_NS, STOLEN, THROTTLED, WAITING};
use msgpath_core::schema::{FAR, NEAR};
use serde::Serialize;

use super::PairValues;
use crate::hosts::fold;
use crate::schema::{EndWait, MeshHeader, PairCase};

/// At least half of the messages are slower by what the median is slower by, so the median is slower by twice the mean wait at
/// most.
const OF_THE_MEDIAN: f64 = 2.0;
/// So much of a median is left at least, whatever was waited.
const LEAST_LEFT: f64 = 0.01;

/// What kept an end from its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitedFor {
    /// Other work on it: its threads were runnable.
    #[default]
    Others,
    /// The hypervisor.
    Hypervisor,
    /// The CPU quota of its control group.
    Quota,
}

/// How long one end of a pair waited for its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waited {
    /// For each message, ns.
    pub ns: f64,
    /// Share of the time of the rounds.
    pub share: f64,
    /// The part of it for which a CPU quota stopped the end.
    pub throttled: f64,
    /// Most of it; a quota where it stopped the end for more than a moment.
    pub on: WaitedFor,
    /// As nobody waits for a CPU that is idle: for slices of the scheduler, or taken off it again and again.
    pub busy: bool,
}

/// What the ends of a case of a pair waited; `None`: the record does not say.
pub(super) fn waited(case: &PairCase) -> Option<[Waited; 2]> {
    let elapsed = case.rounds.iter().map(|round| round.elapsed_ns).sum::<u64>() as f64;
    let messages = case.rounds.iter().map(|round| round.received).sum::<u64>() as f64;
    if elapsed <= 0.0 || messages <= 0.0 || case.rounds.iter().any(|round| round.ends.len() != 2) {
        return None;
    }
    let of = |end: usize| {
        let sum = |get: fn(&EndWait) -> u64| case.rounds.iter().map(|round| get(&round.ends[end]) as f64).sum::<f64>();
        let others = sum(|end| end.wait_ns.unwrap_or(0));
        let (stolen, throttled) = (sum(|end| end.stolen_ns), sum(|end| end.throttled_ns));
        let slices = others > WAITING * elapsed && others >= SLICE_NS * sum(|end| end.switches).max(1.0);
        let preempted = sum(|end| end.preempted);
        let all = others + stolen + throttled;
        Waited {
            ns: all / messages,
            share: all / elapsed,
            throttled: throttled / elapsed,
            // An end that its quota stops is late for its CPU as well once it may run again.
            on: if throttled > (THROTTLED * elapsed).max(stolen) {
                WaitedFor::Quota
            } else if stolen > others {
                WaitedFor::Hypervisor
            } else {
                WaitedFor::Others
            },
            busy: slices
                || (preempted >= 2.0 && preempted > PREEMPTED_PER_S * elapsed / 1e9)
                || stolen > STOLEN * elapsed
                || throttled > THROTTLED * elapsed,
        }
    };
    Some([of(NEAR), of(FAR)])
}

/// What is usual in a mesh: the wait of the quietest quarter of its ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    ns: f64,
    share: f64,
}

impl Usual {
    /// Of a case.
    pub(super) fn of(pairs: &[PairValues], case: u32) -> Self {
        let own = || pairs.iter().filter(|pair| pair.case == case).filter_map(|pair| pair.waited).flatten();
        let quiet = |mut values: Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            values.get((values.len().saturating_sub(1) as f64 * QUIET) as usize).copied().unwrap_or(0.0)
        };
        Self { ns: quiet(own().map(|end| end.ns).collect()), share: quiet(own().map(|end| end.share).collect()) }
    }

    /// What an end waited that it would not have waited on an idle machine, ns a message; nothing where it waited as others
    /// do: every wake-up of an idle CPU takes a while.
    fn excess(&self, end: Waited) -> f64 {
        if end.busy {
            end.ns
        } else if end.share >= self.share + WAITING && end.share >= 3.0 * self.share {
            (end.ns - self.ns).max(0.0)
        } else {
            0.0
        }
    }

    /// Whether an end waited so.
    fn is_busy(&self, end: Waited) -> bool {
        self.excess(end) > 0.0
    }

    /// What the logarithm of a pair's median would be lower by at most, had these ends not waited: 0 or less.
    pub(super) fn shift(&self, pair: &PairValues, ends: &[usize]) -> f64 {
        let (Some(waited), Some(p50)) = (pair.waited, pair.p50) else { return 0.0 };
        let excess: f64 = ends.iter().map(|end| self.excess(waited[*end])).sum();
        (1.0 - OF_THE_MEDIAN * excess / p50.ns.max(1.0)).max(LEAST_LEFT).ln()
    }

    /// The hosts whose ends waited so in half of their pairs and more, by position.
    pub(super) fn busy_hosts(&self, pairs: &[PairValues], case: u32) -> BTreeMap<u32, Waits> {
        let mut of: BTreeMap<u32, (u32, Vec<Waited>)> = BTreeMap::new();
        for pair in pairs.iter().filter(|pair| pair.case == case) {
            let Some(waited) = pair.waited else { continue };
            for (host, end) in [pair.slot.near, pair.slot.far].into_iter().zip(waited) {
                let own = of.entry(host).or_default();
                own.0 += 1;
                own.1.extend(Some(end).filter(|end| self.is_busy(*end)));
            }
        }
        let busy = of.into_iter().filter(|(_, (of, busy))| !busy.is_empty() && 2 * busy.len() >= *of as usize);
        busy.map(|(host, (_, busy))| (host, Waits::of(&busy))).collect()
    }
}

/// What is said of waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Share of the time.
    pub(super) share: f64,
    throttled: f64,
    on: WaitedFor,
}

impl Waits {
    pub(super) fn of(ends: &[Waited]) -> Self {
        let most = ends.iter().max_by(|a, b| a.share.total_cmp(&b.share)).copied().unwrap_or_default();
        let mean = |get: fn(&Waited) -> f64| ends.iter().map(get).sum::<f64>() / ends.len().max(1) as f64;
        let (share, throttled) = (mean(|end| end.share), mean(|end| end.throttled));
        let quota = ends.iter().filter(|end| end.on == WaitedFor::Quota).count();
        let on = if quota > 0 && 2 * quota >= ends.len() { WaitedFor::Quota } else { most.on };
        Self { share, throttled, on }
    }

    /// Whether a CPU quota stopped them.
    pub(super) fn by_quota(&self) -> bool {
        self.on == WaitedFor::Quota
    }

    /// Which wait it was, for the hosts at these positions.
    pub(super) fn cause(&self, header: &MeshHeader, hosts: &[u32]) -> String {
        let machine = |at: u32| header.hosts.get(at as usize)?.environment.as_ref().map(|found| found.boot_id.as_str());
        let own: Vec<_> = hosts.iter().filter_map(|at| machine(*at)).collect();
        let beside = (0..header.hosts.len() as u32)
            .filter(|at| !hosts.contains(at) && machine(*at).is_some_and(|machine| own.contains(&machine)));
        let beside: Vec<&str> = beside.map(|at| header.host(at)).collect();
        let together = own.iter().collect::<std::collections::BTreeSet<_>>().len() < own.len();
        match self.on {
            WaitedFor::Hypervisor => "the hypervisor took it".into(),
            WaitedFor::Quota => format!("its CPU quota stopped it for {} of the time", percent(self.throttled)),
            WaitedFor::Others if beside.is_empty() && together => {
                "other work had it, or the agents of each other".into()
            }
            WaitedFor::Others if beside.is_empty() => "other work had it".into(),
            WaitedFor::Others => {
                format!("other work had it, or the agents of {} on the same machine", fold(beside.into_iter()))
            }
        }
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).min(100.0))
}
