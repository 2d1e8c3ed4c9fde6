//! Was a round measured in peace? Told from its conditions alone: time that the hypervisor took, a CPU quota that stopped
//! the ends, other work on the measuring CPUs. Never from its latency, so that to prefer calm rounds chooses no result.
//! The same judgement serves a run that goes on (whether it has enough calm rounds) and its analysis.

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::CheckState;
use crate::plan::{Case, Plan};
use crate::schema::{FAR, KernelCounts, NEAR, QUOTA, RoundRecord, RunHeader};

/// USER_HZ is 100 on Linux: a tick of `/proc/stat` is 10 ms.
pub const TICK_NS: u64 = 10_000_000;
/// One tick of a short round is rounding; two and more must be this share of the round as well.
pub const STOLEN: f64 = 0.01;
/// A quota that stopped the group for less than this share of the round did not disturb it.
pub const THROTTLED: f64 = 0.01;
/// CPU time of others on the measuring CPUs, beyond that of the quiet rounds of the case: ticks ...
const FOREIGN_TICKS: f64 = 2.0;
/// ... and share of the round. The kernel counts this time by sampling, so less is not evidence.
const FOREIGN: f64 = 0.1;
/// A pinned thread that nobody disturbs is taken off its CPU some ten times a second, by kernel threads.
pub const PREEMPTED_PER_S: f64 = 100.0;
/// A thread waits for its CPU after every wake-up, for as long as an idle CPU takes to get going. A wait of a scheduler's
/// slice is another matter.
pub const SLICE_NS: f64 = 200_000.0;
/// A share of its time that a thread may wait for a CPU, beyond that of the quiet rounds of the case.
pub const WAITING: f64 = 0.1;
/// The same where `doctor` saw that CPUs were short before the run.
const WAITING_IN_A_CROWD: f64 = 0.05;
/// A run has too few calm rounds where they are less than this share of the planned ones.
const ENOUGH: f64 = 0.75;
/// The quiet rounds of a case are its quietest quarter.
pub const QUIET: f64 = 0.25;

/// What disturbed one end in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// The hypervisor took time of the measuring CPUs (of all CPUs, where it is not known of each).
    pub stolen: bool,
    /// The CPU quota of its control group stopped the end.
    pub throttled: bool,
    /// Other work ran on its measuring CPUs: its threads waited for them, were taken off them, or others used them.
    pub shared: bool,
}

impl Disturbed {
    pub fn any(self) -> bool {
        self.stolen || self.throttled || self.shared
    }
}

/// Near and far end of a round.
pub type Ends = [Disturbed; 2];

/// Conditions of a round, as [`Watch::conditions`] found them: all that [`classify`] asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    pub case: u32,
    pub pass: u32,
    ends: [End; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct End {
    stolen: bool,
    throttled: bool,
    preempted: bool,
    /// Share of the time that its threads were runnable and did not run.
    waiting: Option<f64>,
    /// They waited for slices of the scheduler, not for wake-ups.
    slices: bool,
    /// `doctor` saw that CPUs were short.
    crowd: bool,
    /// Ticks and share of the round that others used of its CPUs.
    foreign: Option<(f64, f64)>,
}

/// What has to be known of a run to judge its rounds.
#[derive(Clone, Debug)]
pub struct Watch {
    one_machine: bool,
    ends: [Known; 2],
    /// By id of case.
    cases: Vec<Shape>,
}

#[derive(Clone, Debug)]
struct Known {
    counters: BTreeSet<String>,
    crowd: bool,
}

#[derive(Clone, Debug)]
struct Shape {
    threads: f64,
    /// Pinned to CPUs of which no two of its threads share one.
    alone: bool,
    /// No fewer CPUs than threads, wherever they run.
    room: bool,
    /// CPUs of its threads by end; empty: not pinned.
    cpus: [Vec<u32>; 2],
}

impl Watch {
    /// For the rounds of the run with this header.
    pub fn new(header: &RunHeader) -> Self {
        let one_machine = header.one_machine();
        let crowd = |end: &str| {
            let check = header.doctor.as_ref().and_then(|doctor| doctor.check(8, end).or(doctor.check(8, "both")));
            check.is_some_and(|check| check.state >= CheckState::Warn)
        };
        let known = |end, counters: &[String]| Known {
            counters: counters.iter().filter(|name| is_a_condition(name)).cloned().collect(),
            crowd: crowd(end),
        };
        let plan = &header.plan;
        Self {
            one_machine,
            ends: [known("near", &header.end(NEAR).counters), known("far", &header.end(FAR).counters)],
            cases: plan.cases.iter().map(|case| shape(header, plan, case, one_machine)).collect(),
        }
    }

    /// Conditions of a round of this run. Of a case that the run does not have there are none: it is calm.
    pub fn conditions(&self, round: &RoundRecord) -> Conditions {
        let ends = [0, 1]
            .map(|at| self.cases.get(round.case as usize).map_or(End::default(), |shape| self.end(round, shape, at)));
        Conditions { case: round.case, pass: round.pass, ends }
    }

    fn end(&self, round: &RoundRecord, shape: &Shape, at: usize) -> End {
        let report = round.end(at).report;
        let watched = round.end(at).watched_ns.unwrap_or(0) as f64;
        let metered = report.metered_ns.unwrap_or(0) as f64;
        let switches = (report.voluntary_switches + report.involuntary_switches).max(1) as f64;
        let stolen = self.stolen_ticks(round, shape, at).unwrap_or(0);
        let throttled_ns = self.grew(round, at, QUOTA[1]).unwrap_or(0) as f64 * 1e3;
        let times = self.grew(round, at, QUOTA[0]).unwrap_or(0);
        // A thread that a quota stops is taken off its CPU as well.
        let off = report.involuntary_switches.saturating_sub(times) as f64;
        End {
            stolen: stolen > 1 && stolen as f64 * TICK_NS as f64 > STOLEN * watched,
            throttled: times > 0 && (throttled_ns == 0.0 || throttled_ns > THROTTLED * watched),
            // Where its own threads share CPUs they take them from each other.
            preempted: shape.alone && off >= 2.0 && off > PREEMPTED_PER_S * metered / 1e9,
            waiting: round.end(at).waiting_share().filter(|_| shape.alone || (shape.room && shape.cpus[at].is_empty())),
            slices: report.run_delay_ns.unwrap_or(0) as f64 / switches >= SLICE_NS,
            crowd: self.ends[at].crowd,
            foreign: self.foreign(round, shape, at),
        }
    }

    /// Ticks stolen from the end's CPUs; from all of its machine where they are not known one by one.
    fn stolen_ticks(&self, round: &RoundRecord, shape: &Shape, at: usize) -> Option<u64> {
        let each = shape.cpus[at].iter().map(|cpu| self.grew(round, at, &steal_of(*cpu))).sum::<Option<u64>>();
        each.filter(|_| !shape.cpus[at].is_empty()).or_else(|| {
            let counted = self.grew(round, at, "stat.steal");
            // Both ends of one machine see the same theft: it is told once, of the near end.
            if at == 0 { round.steal_ticks.max(counted) } else { counted.filter(|_| !self.one_machine) }
        })
    }

    /// What was used of the end's CPUs, less what its threads used of them: as much of the time of the warm-up, in which
    /// they are not metered, as of that of the measured messages.
    fn foreign(&self, round: &RoundRecord, shape: &Shape, at: usize) -> Option<(f64, f64)> {
        let cpus = &shape.cpus[at];
        let watched = round.end(at).watched_ns.filter(|ns| *ns > 0 && !cpus.is_empty())? as f64;
        let busy = cpus.iter().map(|cpu| self.grew(round, at, &busy_of(*cpu))).sum::<Option<u64>>()? as f64;
        let report = |at: usize| &round.end(at).report;
        let used = |at: usize| report(at).busy().unwrap_or(0.0) * shape.threads * watched;
        let together = self.one_machine && cpus.iter().any(|cpu| shape.cpus[1 - at].contains(cpu));
        let own = used(at) + if together { used(1 - at) } else { 0.0 };
        let foreign = (busy - own / TICK_NS as f64).max(0.0);
        Some((foreign, foreign * TICK_NS as f64 / (watched * cpus.len() as f64)))
    }

    /// How much a kernel counter grew; `None` where it could not be read.
    fn grew(&self, round: &RoundRecord, at: usize, name: &str) -> Option<u64> {
        let KernelCounts(counts) = &round.end(at).kernel;
        counts.get(name).copied().or_else(|| self.ends[at].counters.contains(name).then_some(0))
    }
}

/// The kernel counter of the ticks stolen from one CPU.
pub fn steal_of(cpu: u32) -> String {
    format!("stat.cpu{cpu}.steal")
}

/// The kernel counter of the ticks in which one CPU ran programs or the kernel for them.
pub fn busy_of(cpu: u32) -> String {
    format!("stat.cpu{cpu}.busy")
}

fn is_a_condition(name: &str) -> bool {
    name.starts_with("stat.") || name.starts_with("cgroup.")
}

fn shape(header: &RunHeader, plan: &Plan, case: &Case, one_machine: bool) -> Shape {
    let pinned = plan.placement_of(case);
    // An end that is not pinned has a known CPU only where it is the only one.
    let of = |pinned: &[u32], allowed: &[u32]| -> Vec<u32> {
        match (pinned, allowed) {
            ([], [only]) => vec![*only; case.threads as usize],
            ([], _) => Vec::new(),
            (pinned, _) => (0..case.threads as usize).map(|thread| pinned[thread % pinned.len()]).collect(),
        }
    };
    let all = [NEAR, FAR].map(|end| of(pinned.of(end), &header.host(end).cpus));
    let distinct = |cpus: &[u32]| cpus.iter().collect::<BTreeSet<_>>().len() == cpus.len();
    let apart = !one_machine || all[0].iter().all(|cpu| !all[1].contains(cpu));
    let alone = apart && all.iter().all(|cpus| !cpus.is_empty() && distinct(cpus));
    let ends = if one_machine { 2 } else { 1 };
    let room = [NEAR, FAR].map(|end| &header.host(end).cpus);
    let room = room.iter().all(|cpus| cpus.is_empty() || cpus.len() >= ends * case.threads as usize);
    let cpus = all.map(|cpus| cpus.into_iter().collect::<BTreeSet<_>>().into_iter().collect());
    Shape { threads: f64::from(case.threads.max(1)), alone, room, cpus }
}

/// What disturbed each of these rounds of a run, in their order. How long threads wait and what others use of the CPUs is
/// set against the quietest quarter of the rounds of the same case: wake-ups, and what always runs.
pub fn classify(rounds: &[Conditions]) -> Vec<Ends> {
    let mut usual: BTreeMap<u32, [[f64; 2]; 2]> = BTreeMap::new();
    let mut own: BTreeMap<u32, Vec<&Conditions>> = BTreeMap::new();
    rounds.iter().for_each(|round| own.entry(round.case).or_default().push(round));
    for (case, own) in own {
        let quiet = |of: fn(&End) -> Option<f64>, at: usize| quiet(own.iter().filter_map(|round| of(&round.ends[at])));
        let waiting = |end: &End| end.waiting;
        let foreign = |end: &End| end.foreign.map(|(_, share)| share);
        usual.insert(case, [0, 1].map(|at| [quiet(waiting, at), quiet(foreign, at)]));
    }
    rounds.iter().map(|round| [0, 1].map(|at| judge(&round.ends[at], usual[&round.case][at]))).collect()
}

/// Whether a run that planned so many rounds of the cases that were asked for has too few calm ones. It goes on then: a rule for
/// stopping that looks at conditions only, never at a result, biases none.
pub fn too_few(calm: u64, planned: u64) -> bool {
    (calm as f64) < ENOUGH * planned as f64
}

/// Whether a run that has too few calm rounds would have too few after twice its rounds as well: at the share of calm ones
/// so far. To go on would take its time and change nothing. A disturbance has no memory that a run could know of, so the
/// share so far is the best guess of that to come.
pub fn out_of_reach(calm: u64, rounds: u64, planned: u64) -> bool {
    let (share, more) = (calm as f64 / rounds.max(1) as f64, (2 * planned).saturating_sub(rounds) as f64);
    calm as f64 + share * more < ENOUGH * planned as f64
}

/// How many of these rounds nothing disturbed.
pub fn calm_ones(rounds: &[Conditions]) -> u64 {
    classify(rounds).iter().filter(|ends| !ends.iter().any(|end| end.any())).count() as u64
}

fn quiet(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get((values.len().saturating_sub(1) as f64 * QUIET) as usize).copied().unwrap_or(0.0)
}

fn judge(end: &End, [usual_waiting, usual_foreign]: [f64; 2]) -> Disturbed {
    let waited = end.waiting.is_some_and(|share| {
        let slices = share >= WAITING && end.slices;
        let more = share >= usual_waiting + WAITING && share >= 3.0 * usual_waiting;
        slices || more || (end.crowd && share >= WAITING_IN_A_CROWD)
    });
    let used = end.foreign.is_some_and(|(ticks, share)| ticks >= FOREIGN_TICKS && share >= usual_foreign + FOREIGN);
    Disturbed { stolen: end.stolen, throttled: end.throttled, shared: end.preempted || waited || used }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pieces;
    use crate::workload::Workload;

    fn seen(rounds: u32, stolen: impl Fn(u32) -> bool) -> Vec<Conditions> {
        let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
        let watch = Watch::new(&RunHeader::new("quiet-otter", "echo", Plan::new(Workload::ECHO, vec![case])));
        let round = |pass| {
            let mut round = RoundRecord { pass, ..RoundRecord::default() };
            round.end_mut(NEAR).watched_ns = Some(40_000_000);
            round.steal_ticks = Some(if stolen(pass) { 2 } else { 1 });
            round
        };
        (0..rounds).map(|pass| watch.conditions(&round(pass))).collect()
    }

    #[test]
    fn a_run_goes_on_while_too_few_of_its_rounds_are_calm() {
        assert!(!too_few(calm_ones(&seen(40, |_| false)), 40));
        assert!(!too_few(calm_ones(&seen(40, |pass| pass % 4 == 0)), 40), "three quarters are enough");
        assert!(too_few(calm_ones(&seen(40, |pass| pass % 2 == 0)), 40));
        let every_other = |rounds| calm_ones(&seen(rounds, |pass| pass % 2 == 0));
        assert!(too_few(every_other(58), 40) && !too_few(every_other(60), 40));
    }

    #[test]
    fn a_run_does_not_go_on_for_what_it_cannot_reach() {
        // 30 of 40 are wanted; 80 rounds have them where 15 of 40 are calm.
        assert!(out_of_reach(0, 40, 40) && out_of_reach(14, 40, 40) && !out_of_reach(15, 40, 40));
        // On the way the share may fall.
        assert!(!out_of_reach(20, 50, 40) && out_of_reach(17, 50, 40));
        assert!(!out_of_reach(30, 80, 40) && out_of_reach(29, 80, 40) && out_of_reach(0, 0, 1));
    }

    #[test]
    fn a_round_of_a_case_that_is_not_known_is_calm() {
        let watch = Watch::new(&RunHeader::new(
            "quiet-otter",
            "echo",
            Plan::new(Workload::ECHO, vec![Case::new("tcp:send".parse().unwrap(), Pieces::whole(64))]),
        ));
        let round = RoundRecord { case: 9, steal_ticks: Some(100), ..RoundRecord::default() };
        assert_eq!(classify(&[watch.conditions(&round)]), [Ends::default()]);
    }
}
