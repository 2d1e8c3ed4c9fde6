//! The methods of the primitives lab side by side: what its page, its pictures and its files are made of.
//!
//! Throughput is payload of one direction, counted at its receiver on the receiver's clock, of streams and echoes alike.

use std::collections::BTreeSet;

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Metric, Plan};
use msgpath_core::schema::{DeviceKind, FAR, NEAR, RoundRecord, RunHeader};
use msgpath_core::units;
use msgpath_stats::control::Control;
use msgpath_stats::crossover::Crossing;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::{Series, log_ratios, paired};
use msgpath_stats::verdict::{Evidence, Verdict, holm_levels, judge};

use super::Part;
use super::cell::Value;
use super::evidence::{claim, cpu_ns, p50};
use super::words::{counted, verdict_word};
use msgpath_analyse::control::control;
use msgpath_analyse::results::Results;
use msgpath_analyse::series::seed;
use msgpath_analyse::series::{same_cell, series};
use msgpath_analyse::summary::{CaseSummary, EventRate};

/// A method of the lab: its name there, the send method that it is here, what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// `A1`, `A2`, `A3`; the two that the lab mixes with A1 have names of their own.
    pub name: &'static str,
    /// The send method.
    pub method: &'static str,
    /// In words.
    pub what: &'static str,
}

/// The three of the lab, then the two that tell calls from copies.
pub const METHODS: [Method; 5] = [
    Method { name: "A1", method: "flatten", what: "fields copied together, one call" },
    Method { name: "A2", method: "sendmsg", what: "one sendmsg over the fields" },
    Method { name: "A3", method: "zerocopy", what: "one sendmsg with MSG_ZEROCOPY, completions read" },
    Method { name: "8 calls", method: "writes", what: "one write a field" },
    Method { name: "contiguous", method: "send", what: "one buffer, one call" },
];

/// Events that the lab asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Cycles,
    /// Loads that missed the first-level data cache.
    L1,
    /// Loads that missed the last-level cache.
    LastLevel,
    /// Context switches.
    Switches,
}

impl Event {
    /// As perf(1) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::L1 => "L1-dcache-load-misses",
            Event::LastLevel => "LLC-load-misses",
            Event::Switches => "context-switches",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::L1 => "L1 misses",
            Event::LastLevel => "LLC misses",
            Event::Switches => "context switches",
        }
    }
}

/// One end of a case; as a number it is the position of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The near end: it sends streams and asks in echoes.
    Near = NEAR as isize,
    Far = FAR as isize,
}

impl End {
    pub const BOTH: [End; 2] = [End::Near, End::Far];

    /// `near`, `far`.
    pub fn name(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }
}

/// A case of the lab.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub method: Method,
    pub case: &'a CaseSummary,
    /// The run it belongs to.
    pub part: Part<'a>,
}

impl<'a> Row<'a> {
    /// Payload bits a second of one direction, at its receiver, over rounds.
    pub fn bits(&self) -> Option<Estimate> {
        if let Some(throughput) = &self.case.throughput {
            return Some(throughput.receiver_bits.clone());
        }
        let rounds = self.part.rounds(&self.case.case);
        let rates: Vec<f64> = series(self.plan(), Metric::Throughput, &rounds).into_values().collect();
        log_estimate(&rates)
    }

    /// Median round trip with its interval, ns.
    pub fn p50(&self) -> Option<Value> {
        let p50 = p50(self.case)?;
        claim(p50).or_else(|| Some((p50.ns? as f64).into()))
    }

    /// Messages that were in flight if the mean round trip and the throughput are both right (Little): in a closed loop
    /// the number of connections, so that the mean says nothing that the throughput does not.
    pub fn in_flight(&self) -> Option<f64> {
        let mean = self.case.latency.mean_ns?;
        let rounds = self.part.rounds(&self.case.case);
        // All messages by all the time: rounds that were slow weigh as much as in the mean.
        let messages: u64 = rounds.iter().map(|round| round.far().delivery.received).sum();
        let ns: u64 = rounds.iter().map(|round| round.far().elapsed_ns).sum();
        (ns > 0).then(|| messages as f64 / ns as f64 * mean)
    }

    /// Messages that the closed loop keeps in flight.
    pub fn kept_in_flight(&self) -> f64 {
        f64::from(self.case.case.connections * self.case.case.inflight)
    }

    /// An event of one end per message, all core types together; or why it was not counted.
    ///
    /// # Errors
    /// The reason.
    pub fn event(&self, end: End, event: Event) -> Result<Estimate, String> {
        let rates = &self.case.end(end as usize).events;
        per_message(rates, event).map_err(|why| why.unwrap_or_else(|| refused(&self.part.run.header, end, event)))
    }

    /// Of one end, divided by the payload of one direction.
    ///
    /// # Errors
    /// The reason.
    pub fn cycles_per_byte(&self, end: End) -> Result<Estimate, String> {
        let size = self.case.case.size.max(1) as f64;
        let each = self.event(end, Event::Cycles)?;
        Ok(Estimate {
            value: each.value / size,
            low: each.low.map(|low| low / size),
            high: each.high.map(|high| high / size),
        })
    }

    /// CPU time of both ends per message, ns.
    pub fn cpu_ns(&self) -> f64 {
        cpu_ns(self.case)
    }

    /// Send calls per message of the end that sends.
    pub fn send_calls(&self) -> Option<f64> {
        self.case.per_message(self.case.end(NEAR).calls.send_calls)
    }

    /// Share of the answered zero-copy sends that the kernel copied after all; `None` where none was answered.
    pub fn copied_share(&self) -> Option<f64> {
        let zero = self.case.copied.zerocopy?;
        let answered = zero.copied + zero.zero_copied;
        (answered > 0).then(|| zero.copied as f64 / answered as f64)
    }

    /// Why the threads of this case do not all run at once; `None`: they can.
    pub fn oversubscribed(&self) -> Option<String> {
        let header = &self.part.run.header;
        let threads = self.case.case.threads as usize;
        let one_machine = header.one_machine();
        let (needed, cpus) = if one_machine {
            let all: BTreeSet<u32> = header.host(NEAR).cpus.iter().chain(&header.host(FAR).cpus).copied().collect();
            (2 * threads, all.len())
        } else {
            (threads, header.host(NEAR).cpus.len().min(header.host(FAR).cpus.len()))
        };
        (cpus > 0 && needed > cpus).then(|| format!("oversubscribed: {needed} measuring threads on {cpus} CPUs"))
    }

    fn plan(&self) -> &'a Plan {
        &self.part.run.header.plan
    }
}

/// The cases of the lab in a run: by size, threads, then method. Controls are left out.
pub fn rows<'a>(part: Part<'a>) -> Vec<Row<'a>> {
    let mut rows: Vec<(usize, Row<'a>)> = Vec::new();
    for case in part.measured() {
        let at = METHODS.iter().position(|method| method.method == case.case.path.method);
        if let Some(at) = at.filter(|_| case.case.path.transport == "tcp") {
            rows.push((at, Row { method: METHODS[at], case, part }));
        }
    }
    rows.sort_by_key(|(at, row)| (row.case.case.size, row.case.case.threads, *at));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The row of a method, size and thread count.
pub fn find<'r, 'a>(rows: &'r [Row<'a>], name: &str, size: u64, threads: u32) -> Option<&'r Row<'a>> {
    let same =
        |row: &&Row<'_>| row.method.name == name && (row.case.case.size, row.case.case.threads) == (size, threads);
    rows.iter().find(same)
}

/// Sizes measured, ascending.
pub fn sizes(rows: &[Row<'_>]) -> Vec<u64> {
    rows.iter().map(|row| row.case.case.size).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Thread counts measured, ascending.
pub fn threads(rows: &[Row<'_>]) -> Vec<u32> {
    rows.iter().map(|row| row.case.case.threads).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The size measured that is nearest to `wanted`.
pub fn nearest(sizes: &[u64], wanted: u64) -> Option<u64> {
    sizes.iter().copied().min_by_key(|size| size.abs_diff(wanted))
}

/// Which way messages take, in words, where it is known: `veth`, `lo`.
pub fn manner(header: &RunHeader) -> Option<&'static str> {
    let kind = header.floors.as_ref().and_then(|floors| floors.route.as_ref()).map(|route| route.kind);
    match kind {
        Some(DeviceKind::Loopback) => Some("lo"),
        Some(DeviceKind::Veth) => Some("veth"),
        Some(DeviceKind::Nic) => Some("a NIC"),
        Some(DeviceKind::Tun | DeviceKind::Virtual) => Some("a virtual device"),
        _ => header.plan.options.between.as_ref().map(|_| "veth"),
    }
}

/// How often each byte that travels was copied, as far as known.
pub(super) fn copies(part: &Part<'_>, case: &CaseSummary) -> Option<f64> {
    let reply = if part.workload().timed { case.case.reply } else { 0 };
    Some(case.copied.bytes? / (case.case.size + reply) as f64)
}

/// `1 234 B (1 000 to 1 500 B)`: where a line of sizes crosses.
pub(super) fn crossing_at(crossing: &Crossing) -> Option<String> {
    let bytes = |size: f64| format!("{} B", (size.round().max(0.0) as u64));
    let within = crossing.low.zip(crossing.high).map(|(low, high)| format!(" ({} to {})", bytes(low), bytes(high)));
    Some(format!("{}{}", bytes(crossing.size?), within.unwrap_or_default()))
}

/// Sums the core types of an event: `cycles`, or `cpu_core/cycles/` and `cpu_atom/cycles/`. The ends of the intervals are
/// summed too, which errs on the wide side. The error is the reason that was recorded, if any.
fn per_message(rates: &[EventRate], event: Event) -> Result<Estimate, Option<String>> {
    let name = event.name();
    let is = |rate: &&EventRate| rate.name == name || rate.name.split('/').nth(1) == Some(name);
    let own: Vec<&EventRate> = rates.iter().filter(is).collect();
    let counted: Vec<&Estimate> = own.iter().filter_map(|rate| rate.per_message.as_ref()).collect();
    if counted.is_empty() {
        return Err(own.iter().find_map(|rate| rate.why.clone()));
    }
    let sum = |of: fn(&Estimate) -> Option<f64>| counted.iter().map(|estimate| of(estimate)).sum::<Option<f64>>();
    Ok(Estimate {
        value: counted.iter().map(|estimate| estimate.value).sum(),
        low: sum(|estimate| estimate.low),
        high: sum(|estimate| estimate.high),
    })
}

/// Why an event was refused at an end.
fn refused(header: &RunHeader, end: End, event: Event) -> String {
    let facts = &header.end(end as usize).events;
    let name = event.name();
    let is =
        |refused: &&(String, msgpath_core::Unavailable)| refused.0 == name || refused.0.split('/').nth(1) == Some(name);
    match facts.refused.iter().find(is) {
        Some((_, reason)) => reason.why.clone(),
        None => format!("{name} was not counted in this run"),
    }
}

/// A method against another in one cell, paired by pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// Size of the message, bytes.
    pub size: u64,
    pub threads: u32,
    /// The case's value divided by the other's.
    pub ratio: f64,
    /// Lower end: at 95 %, or at the level at which the ratio stands in its family.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What it means for the first of the two.
    pub verdict: Verdict,
}

impl Versus {
    /// As a value with its interval.
    pub fn value(&self) -> Value {
        Value { value: self.ratio, low: self.low, high: self.high }
    }

    /// `4 KiB 0.932 (0.914 to 0.950)`.
    pub fn words(&self) -> String {
        let threads = if self.threads > 1 { format!(" x{}", self.threads) } else { String::new() };
        let interval = self.low.zip(self.high).map(|(low, high)| format!(" ({low:.3} to {high:.3})"));
        format!("{}{threads} {:.3}{}", units::size(self.size), self.ratio, interval.unwrap_or_default())
    }
}

/// `faster in 2, not decided in 4 of 6 rows`: what rows are by their verdicts.
pub fn by_verdict<'a>(all: impl Iterator<Item = &'a Versus>) -> String {
    let all: Vec<Verdict> = all.map(|versus| versus.verdict).collect();
    let count = |verdict| all.iter().filter(|own| **own == verdict).count();
    let groups = [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::Undecided].map(|of| (of, count(of)));
    let groups = groups.into_iter().filter(|(_, count)| *count > 0);
    let groups: Vec<String> =
        groups.map(|(of, count)| format!("{} in {count}", verdict_word(of, "the same"))).collect();
    format!("{} of {}", groups.join(", "), counted(all.len(), "row"))
}

/// Why a run's differences are less sure than their intervals: its controls differ.
pub fn failed_control(control: &Control) -> String {
    format!(
        "the same path measured twice differs in this run, so differences count beyond {} % and are likely at most",
        units::three_digits(control.margin() * 100.0)
    )
}

/// Compares cases of one run by one metric.
pub struct Bench<'a> {
    part: Part<'a>,
    metric: Metric,
    series: Vec<Series>,
    /// What the hidden control pairs say at this metric.
    pub control: Control,
}

impl<'a> Bench<'a> {
    /// Cases of `part` by `metric` (not p99).
    pub fn new(part: Part<'a>, metric: Metric) -> Self {
        let plan = &part.run.header.plan;
        let rounds: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| part.rounds(case)).collect();
        let series: Vec<Series> = rounds.iter().map(|rounds| series(plan, metric, rounds)).collect();
        let results = Results { plan, cases: &part.summary.cases, rounds: &rounds, series: &series };
        let control = control(&results, metric);
        Self { part, metric, series, control }
    }

    /// The metric that the run compares by: p50 of echoes, throughput of streams.
    pub fn of_run(part: Part<'a>) -> Self {
        Self::new(part, part.run.header.plan.metric())
    }

    /// Whether larger is better.
    pub fn larger_is_better(&self) -> bool {
        self.metric.larger_is_better()
    }

    /// `p50`, `throughput`.
    pub fn metric_name(&self) -> &'static str {
        self.metric.name()
    }

    /// The send method `method` divided by `base` in every cell that has both: one family after Holm.
    pub fn versus(&self, method: &str, base: &str) -> Vec<Versus> {
        let pairs = self.pairs(|case, other| {
            case.path.method == method
                && other.path.method == base
                && case.path.transport == other.path.transport
                && case.path.wait == other.path.wait
                && same_cell(case, other)
        });
        self.judged(&pairs)
    }

    /// The same method and size with more threads divided by the fewest: what threads bring.
    pub fn scaling(&self, method: &str, size: u64) -> Vec<Versus> {
        let own = |case: &&Case| case.role == CaseRole::Measured && case.path.method == method && case.size == size;
        let fewest = self.part.run.header.plan.cases.iter().filter(own).map(|case| case.threads).min();
        let pairs = self.pairs(|case, other| {
            own(&case) && own(&other) && Some(other.threads) == fewest && case.threads > other.threads
        });
        self.judged(&pairs)
    }

    fn pairs(&self, belong: impl Fn(&'a Case, &'a Case) -> bool) -> Vec<(&'a Case, &'a Case)> {
        let cases = &self.part.run.header.plan.cases;
        let measured = || cases.iter().filter(|case| case.role == CaseRole::Measured);
        measured().filter_map(|case| Some((case, measured().find(|other| belong(case, other))?))).collect()
    }

    fn judged(&self, pairs: &[(&Case, &Case)]) -> Vec<Versus> {
        let plan = &self.part.run.header.plan;
        let own = |case: &Case| self.series.get(case.id as usize);
        let tests: Vec<_> = pairs
            .iter()
            .filter_map(|(case, other)| {
                let d: Vec<f64> = log_ratios(own(case)?, own(other)?).into_iter().map(|(_, d)| d).collect();
                Some((*case, paired(&d, pairs.len(), seed(plan, case, other))?))
            })
            .collect();
        let levels = holm_levels(&tests.iter().map(|(_, paired)| paired.p).collect::<Vec<_>>());
        let versus = |((case, paired), level): (&(&Case, msgpath_stats::paired::Paired), Option<f64>)| {
            let judged = judge(paired, level, self.control.margin(), self.larger_is_better());
            Versus {
                size: case.size,
                threads: case.threads,
                ratio: paired.center().exp(),
                low: judged.low,
                high: judged.high,
                verdict: judged.verdict,
            }
        };
        let mut all: Vec<Versus> = tests.iter().zip(levels).map(versus).collect();
        all.sort_by_key(|versus| (versus.threads, versus.size));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::Logs;
    use msgpath_analyse::summarise;
    use msgpath_analyse::testing::Build;

    fn rate(name: &str, value: f64) -> EventRate {
        let per_message = Some(Estimate { value, low: Some(value - 1.0), high: Some(value + 1.0) });
        EventRate { name: name.into(), per_message, ..EventRate::default() }
    }

    #[test]
    fn core_types_are_summed_and_reasons_kept() {
        let both = [rate("cpu_core/cycles/", 10.0), rate("cpu_atom/cycles/", 5.0), rate("cycles:u", 99.0)];
        let sum = per_message(&both, Event::Cycles).unwrap();
        assert_eq!((sum.value, sum.low, sum.high), (15.0, Some(13.0), Some(17.0)));
        let none = EventRate { name: "cycles".into(), why: Some("no PMU".into()), ..EventRate::default() };
        assert_eq!(per_message(&[none], Event::Cycles), Err(Some("no PMU".into())));
        assert_eq!(per_message(&[], Event::L1), Err(None));
    }

    #[test]
    fn methods_are_compared_in_their_own_cell() {
        // flatten is 20 % slower than sendmsg at 4 KiB, and as fast at 64 B.
        let build = Build::echo(&["tcp:flatten", "tcp:sendmsg"], &[64, 4096])
            .factor(|case| if case.path.method == "flatten" && case.size == 4096 { 1.2 } else { 1.0 });
        let run = build.run();
        let summary = summarise(&run);
        let logs = Logs::default();
        let part = Part { name: "grid", run: &run, summary: &summary, logs: &logs };
        let versus = Bench::of_run(part).versus("sendmsg", "flatten");
        assert_eq!(versus.iter().map(|one| one.size).collect::<Vec<_>>(), [64, 4096]);
        assert_ne!(versus[0].verdict, Verdict::Better);
        assert!(versus[1].verdict == Verdict::Better && (versus[1].ratio - 1.0 / 1.2).abs() < 0.02, "{versus:?}");
        // The same by throughput, where larger is better; without controls the margin is the least one.
        let rows = rows(part);
        assert_eq!((rows.len(), sizes(&rows), threads(&rows)), (4, vec![64, 4096], vec![1]));
        assert_eq!(rows[0].method.name, "A1");
        assert!(find(&rows, "A2", 4096, 1).is_some() && find(&rows, "A3", 4096, 1).is_none());
    }

    #[test]
    fn the_implied_messages_in_flight_are_those_of_the_loop() {
        let mut run = Build::echo(&["tcp:send"], &[1000]).run();
        for round in &mut run.rounds {
            let mean = round.latency.mean().unwrap();
            round.far_mut().elapsed_ns = (mean * round.far().delivery.received as f64) as u64;
        }
        let summary = summarise(&run);
        let logs = Logs::default();
        let part = Part { name: "grid", run: &run, summary: &summary, logs: &logs };
        let rows = rows(part);
        assert!((rows[0].in_flight().unwrap() - 1.0).abs() < 0.02, "{:?}", rows[0].in_flight());
        assert_eq!(rows[0].oversubscribed(), None);
        assert!(rows[0].event(End::Near, Event::Cycles).unwrap_err().contains("not counted"));
    }
}
