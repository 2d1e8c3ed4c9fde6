//! What pages ask of the rounds of a run: its cases, any two of them against each other, paired by pass and
//! judged together as `compare` does it, and cases of different runs against each other.

use std::collections::BTreeMap;

use msgpath_analyse::series::seed;
use msgpath_analyse::series::series;
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::Case;
use msgpath_core::Workload;
use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::schema::{DeviceKind, FAR, NEAR, RoundRecord, Route, UnavailableCase};
use msgpath_core::units::size;
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::{Paired, Series, log_ratios, paired};
use msgpath_stats::quantile::Quantile;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict, holm_levels, judge};

use super::Part;
use super::cell::{Table, Value};
use super::columns::{Columns, ratio_or, table};
use super::words::{range, verdict_word};

impl<'a> Part<'a> {
    /// The cases that were asked for and measured between ends of msgpath: what is said of both ends is known of them.
    pub(super) fn measured(&self) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
        self.with_programs().filter(|case| !case.case.traits.program)
    }

    /// The same with those whose far end is a program of others.
    pub(super) fn with_programs(&self) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
        self.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0)
    }

    /// One of them.
    pub(super) fn find(&self, is_it: impl Fn(&CaseSummary) -> bool) -> Option<&'a CaseSummary> {
        self.measured().find(|case| is_it(case))
    }

    /// By the parts of its path and its size.
    pub(super) fn case(&self, transport: &str, wait: &str, size: u64) -> Option<&'a CaseSummary> {
        self.find(|one| one.case.path.transport == transport && one.case.path.wait == wait && one.case.size == size)
    }

    /// The rounds of a case in the order of their passes.
    pub(super) fn rounds(&self, case: &Case) -> Vec<&'a RoundRecord> {
        msgpath_analyse::calm::rounds_of(self.run, case)
    }

    pub(super) fn by_pass(&self, metric: Metric, case: &Case) -> Series {
        series(&self.run.header.plan, metric, &self.rounds(case))
    }

    /// What its messages do.
    pub(super) fn workload(&self) -> &'static Workload {
        self.run.header.plan.workload
    }

    /// The way between the ends.
    pub(super) fn route(&self) -> Option<&'a Route> {
        self.run.header.floors.as_ref()?.route.as_ref()
    }

    /// Whether both ends are on one machine, as their boot ids say.
    fn one_machine(&self) -> bool {
        let header = &self.run.header;
        !header.host(NEAR).boot_id.is_empty() && header.one_machine()
    }

    /// What carries the packets between the ends; `None`: not known. Two ends on one machine without a namespace of their
    /// own have the loopback device between them, also where no route was asked for.
    pub(super) fn device(&self) -> Option<DeviceKind> {
        match self.route() {
            Some(route) => Some(route.kind),
            None if self.one_machine() && self.run.header.plan.options.between.is_none() => Some(DeviceKind::Loopback),
            None => None,
        }
    }

    /// `both ends are on one machine, over the loopback device`: what lies between the ends.
    pub(super) fn between(&self) -> String {
        let name = self.route().map(|route| route.device.as_str()).unwrap_or_default();
        let over = match self.device() {
            Some(DeviceKind::Loopback) => ", over the loopback device".to_owned(),
            Some(DeviceKind::Veth) => format!(", between namespaces over the virtual pair {name}"),
            Some(DeviceKind::Nic) => format!(", over the NIC {name}"),
            Some(_) if !name.is_empty() => format!(", over {name}"),
            _ => String::new(),
        };
        let ends = if self.one_machine() { "both ends are on one machine" } else { "the ends are on two machines" };
        format!("{ends}{over}")
    }

    /// What a kernel counter rose by in all rounds of a case: of both ends together where they surely count different
    /// events, else once. `None`: it could not be read.
    pub(super) fn rose(&self, case: &CaseSummary, name: &str) -> Option<u64> {
        let header = &self.run.header;
        let of = |known: &[String], counts: &BTreeMap<String, u64>| {
            known.iter().any(|known| known == name).then(|| counts.get(name).copied().unwrap_or(0))
        };
        let near = of(&header.end(NEAR).counters, &case.end(NEAR).kernel);
        let far = of(&header.end(FAR).counters, &case.end(FAR).kernel);
        let apart = !self.one_machine() || self.device() == Some(DeviceKind::Veth);
        match (near, far) {
            (Some(near), Some(far)) => Some(if apart { near + far } else { near.max(far) }),
            (one, other) => one.or(other),
        }
    }
}

pub(super) fn quantile(case: &CaseSummary, p: f64) -> Option<&Quantile> {
    case.latency.quantiles.iter().find(|quantile| quantile.p == p)
}

pub(super) fn p50(case: &CaseSummary) -> Option<&Quantile> {
    quantile(case, 0.5)
}

/// A quantile where it has an interval.
pub(super) fn claimed(quantiles: &[Quantile], p: f64) -> Option<Value> {
    quantiles.iter().find(|quantile| quantile.p == p).and_then(claim)
}

/// The same of one.
pub(super) fn claim(quantile: &Quantile) -> Option<Value> {
    (quantile.is_interval() && quantile.ns.is_some()).then(|| quantile.into())
}

/// The median of a case where it has an interval.
pub(super) fn median_of(case: &CaseSummary) -> Option<Value> {
    claimed(&case.latency.quantiles, 0.5)
}

/// CPU time of both ends for a message, ns, spinning included.
pub(super) fn cpu_ns(case: &CaseSummary) -> f64 {
    [&case.end(NEAR).cost, &case.end(FAR).cost].iter().map(|cost| cost.user_ns + cost.system_ns).sum()
}

/// The same where it was counted.
pub(super) fn counted_cpu_ns(case: &CaseSummary) -> Option<f64> {
    Some(cpu_ns(case)).filter(|ns| *ns > 0.0)
}

/// `a` divided by `b`. The interval is that of the ends of both (Bonferroni: at least 90 %, wider than need be), so where
/// it excludes 1 the two intervals lie apart.
pub(super) fn over(a: Value, b: Value) -> Value {
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    Value { value: a.value / b.value, low: ratio(a.low, b.high), high: ratio(a.high, b.low) }
}

/// Whether the whole interval lies above a bound.
pub(super) fn above(value: impl Into<Value>, bound: f64) -> bool {
    value.into().low.is_some_and(|low| low > bound)
}

/// Whether the whole interval lies below a bound.
pub(super) fn below(value: impl Into<Value>, bound: f64) -> bool {
    value.into().high.is_some_and(|high| high < bound)
}

/// *Sure* where the interval lies on one side of a bound, else *can't tell*.
pub(super) fn beyond(value: impl Into<Value>, bound: f64) -> Confidence {
    let value = value.into();
    if above(value, bound) || below(value, bound) { Confidence::Sure } else { Confidence::CantTell }
}

/// What is said of an interval that lies above 1, of one below, and of one that does not decide.
pub(super) fn beside_one<T>(value: impl Into<Value>, higher: T, lower: T, open: T) -> T {
    let value = value.into();
    match (above(value, 1.0), below(value, 1.0)) {
        (true, _) => higher,
        (_, true) => lower,
        _ => open,
    }
}

/// The least and the most of them by a number.
pub(super) fn extremes<T>(all: &[T], by: impl Fn(&T) -> f64) -> Option<(&T, &T)> {
    let order = |a: &&T, b: &&T| by(a).total_cmp(&by(b));
    all.iter().min_by(order).zip(all.iter().max_by(order))
}

/// How far from 1 a ratio lies, whichever way.
pub(super) fn distance(ratio: f64) -> f64 {
    ratio.ln().abs()
}

/// Two cases of one run against each other.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The first divided by the second, with the interval that the verdict was read from.
    pub(super) ratio: Estimate,
    /// Of the first against the second, after Holm over the family.
    pub(super) verdict: Verdict,
}

impl Judged {
    /// How sure a sentence about this ratio is.
    pub(super) fn confidence(&self) -> Confidence {
        if self.verdict == Verdict::Undecided { Confidence::CantTell } else { Confidence::Sure }
    }

    /// `0.620 (0.600 to 0.640)`.
    pub(super) fn text(&self) -> String {
        range(&self.ratio, |ratio| format!("{ratio:.3}"))
    }
}

pub(super) type Pair<'a> = (&'a CaseSummary, &'a CaseSummary);

/// Pairs of one run that are judged together: the first of each divided by the second, paired by pass.
pub(super) struct Family<'a> {
    /// Each pair, and what was found; `None` where the two have no pass in common.
    pub(super) all: Vec<(&'a CaseSummary, &'a CaseSummary, Option<Judged>)>,
}

/// A family whose differences count beyond the least margin.
pub(super) fn judged<'a>(part: &Part<'_>, metric: Metric, pairs: &[Pair<'a>]) -> Family<'a> {
    judged_by(part, metric, &|_| LEAST_MARGIN, pairs, &|_, _| true)
}

/// The same with a margin for each pair, by its second case, and of the rounds that `counts` alone.
pub(super) fn judged_by<'a>(
    part: &Part<'_>,
    metric: Metric,
    margin: &dyn Fn(&CaseSummary) -> f64,
    pairs: &[Pair<'a>],
    counts: &dyn Fn(&CaseSummary, u32) -> bool,
) -> Family<'a> {
    let plan = &part.run.header.plan;
    let one = |(a, b): &Pair<'_>| {
        let d = log_ratios(&part.by_pass(metric, &a.case), &part.by_pass(metric, &b.case));
        let d: Vec<f64> =
            d.into_iter().filter(|(pass, _)| counts(a, *pass) && counts(b, *pass)).map(|(_, d)| d).collect();
        paired(&d, pairs.len(), seed(plan, &a.case, &b.case))
    };
    let evidence: Vec<Option<Paired>> = pairs.iter().map(one).collect();
    let levels = holm_levels(&evidence.iter().map(|paired| paired.as_ref()?.p).collect::<Vec<_>>());
    let of = |paired: &Option<Paired>, level: Option<f64>, other: &CaseSummary| {
        let paired = paired.as_ref()?;
        let judged = judge(paired, level, margin(other), metric.larger_is_better());
        let ratio = Estimate { value: paired.mean.exp(), low: judged.low, high: judged.high };
        Some(Judged { ratio, verdict: judged.verdict })
    };
    let all = evidence.iter().zip(levels).zip(pairs);
    Family { all: all.map(|((paired, level), (one, other))| (*one, *other, of(paired, level, other))).collect() }
}

impl<'a> Family<'a> {
    /// The pairs of which something was found.
    pub(super) fn found(&self) -> impl Iterator<Item = (&'a CaseSummary, &'a CaseSummary, &Judged)> {
        self.all.iter().filter_map(|(one, other, judged)| Some((*one, *other, judged.as_ref()?)))
    }

    /// How many have this verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.found().filter(|(.., judged)| judged.verdict == verdict).count()
    }

    /// A table of all pairs: what each is, then more columns, then [`Rows::judged`].
    pub(super) fn table(&self, name: &str, title: &str) -> Rows<'_, 'a> {
        table(name, title, &self.all)
    }
}

/// The rows of a family.
pub(super) type Rows<'f, 'a> = Columns<&'f (&'a CaseSummary, &'a CaseSummary, Option<Judged>)>;

/// Columns of what a family was judged by.
pub(super) trait Verdicts {
    /// The ratio under this head, and its verdict; `same`: what one within the margin is called.
    fn judged(self, head: &str, same: &'static str) -> Self;
}

impl Verdicts for Rows<'_, '_> {
    fn judged(self, head: &str, same: &'static str) -> Self {
        let ratio = |judged: &Option<Judged>| ratio_or(judged.as_ref().map(|judged| &judged.ratio), "too few rounds");
        let word = |judged: &Option<Judged>| judged.as_ref().map_or("-", |judged| verdict_word(judged.verdict, same));
        self.col(head, |row| ratio(&row.2)).col("verdict", |row| word(&row.2))
    }
}

/// Two cases of two runs against each other: the ratio of their geometric means over rounds with Welch's 95 % interval.
/// What changed on the machine between the runs is in it.
pub(super) fn unpaired(a: &Series, b: &Series) -> Option<Estimate> {
    let logs = |series: &Series| independent(&series.values().map(|value| value.ln()).collect::<Vec<_>>()).0;
    let (a, b) = (logs(a), logs(b));
    if a.len() < 5 || b.len() < 5 {
        return None;
    }
    let of_mean = |values: &[f64]| deviation(values).powi(2) / values.len() as f64;
    let (va, vb) = (of_mean(&a), of_mean(&b));
    let degrees = (va + vb).powi(2) / (va.powi(2) / (a.len() - 1) as f64 + vb.powi(2) / (b.len() - 1) as f64);
    let half = if va + vb > 0.0 { t_quantile(0.975, degrees) * (va + vb).sqrt() } else { 0.0 };
    let center = mean(&a) - mean(&b);
    Some(Estimate { value: center.exp(), low: Some((center - half).exp()), high: Some((center + half).exp()) })
}

/// The geometric mean of a metric over its passes.
pub(super) fn over_passes(series: &Series) -> Option<Estimate> {
    log_estimate(&series.values().copied().collect::<Vec<_>>())
}

/// The mean of values of passes, one each, with its 95 % t interval; values that resemble their neighbours are joined.
/// `None` below five of them.
pub(super) fn mean_of_passes(values: &[f64]) -> Option<Estimate> {
    (values.len() >= 5).then(|| t_interval(mean(values), &independent(values).0))
}

/// The mean of single trials with its 95 % t interval; `None` below two. Trials of one connection are not independent, so
/// the interval is the classic one, which is too narrow.
pub(super) fn mean_of_trials(values: &[f64]) -> Option<Estimate> {
    (values.len() >= 2).then(|| t_interval(mean(values), values))
}

fn t_interval(value: f64, units: &[f64]) -> Estimate {
    let half = t_quantile(0.975, units.len() as f64 - 1.0) * deviation(units) / (units.len() as f64).sqrt();
    Estimate { value, low: Some(value - half), high: Some(value + half) }
}

/// What was not measured, with its reason; without a row where everything was.
pub(super) fn left_out(parts: &[Part<'_>]) -> Table {
    let rows = parts.iter().flat_map(|part| part.summary.unavailable.iter().map(move |one| (part.name, one)));
    let rows = rows.filter(|(_, one): &(&str, &UnavailableCase)| one.case.role == CaseRole::Measured);
    table("left-out", "what was not measured, and why", rows)
        .col("run", |(run, _)| *run)
        .col("path", |(_, one)| one.case.path.to_string())
        .col("message", |(_, one)| size(one.case.size))
        .col("rate", |(_, one)| offered(&one.case))
        .col("reason", |(_, one)| &*one.reason.why)
        .into()
}

/// The rate that messages of a case are offered at.
pub(super) fn offered(case: &Case) -> String {
    case.load.rate().map_or_else(|| "closed loop".into(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::{of, shapes};
    use msgpath_analyse::Logs;

    #[test]
    fn pairs_are_judged_as_a_family() {
        let build =
            shapes(&["tcp:writes", "tcp:send"], &[(15, 100)]).rates(|case, _| if case == 0 { 1e9 } else { 2e9 });
        of(&[("shapes", build.run(), Logs::default())], |parts| {
            let cases: Vec<&CaseSummary> = parts[0].measured().collect();
            let found = judged(&parts[0], Metric::Throughput, &[(cases[0], cases[1]), (cases[1], cases[1])]);
            let (slow, same) = (found.all[0].2.as_ref().unwrap(), found.all[1].2.as_ref().unwrap());
            assert!((slow.ratio.value - 0.5).abs() < 0.01 && slow.verdict == Verdict::Worse, "{slow:?}");
            assert_eq!(same.verdict, Verdict::Equivalent);
            assert_eq!(parts[0].between(), "both ends are on one machine, over the loopback device");
        });
    }

    #[test]
    fn runs_of_their_own_are_compared_without_pairs() {
        let series = |center: f64| (0..20).map(|pass| (pass, center * (1.0 + f64::from(pass % 3) / 100.0))).collect();
        let ratio = unpaired(&series(2.0), &series(1.0)).unwrap();
        assert!(
            (ratio.value - 2.0).abs() < 1e-9 && ratio.low.unwrap() > 1.97 && ratio.high.unwrap() < 2.03,
            "{ratio:?}"
        );
        assert!(unpaired(&series(2.0), &[(0, 1.0)].into()).is_none());
        assert_eq!(mean_of_passes(&[1.0; 4]), None);
        let trials = mean_of_trials(&[1.0, 2.0, 3.0]).unwrap();
        // t(0.975, 2) = 4.303, deviation 1, n 3.
        assert!((trials.high.unwrap() - 2.0 - 4.303 / 3.0_f64.sqrt()).abs() < 1e-3, "{trials:?}");
    }
}
