//! What pages and claims ask of the rounds of a run: any two of its cases against each other, paired by pass and judged
//! together as `compare` does it; cases of different runs against each other; and how numbers stand in sentences.

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::schema::{DeviceKind, RoundRecord, Route};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, three_digits};
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::{Paired, Series, log_ratios, paired};
use msgpath_stats::quantile::Quantile;
use msgpath_stats::verdict::{Verdict, holm_levels, judge};

use super::Part;
use crate::compare::seed;
use crate::series::series;
use crate::summary::{CaseSummary, Confidence};
use crate::words::range_in_words;

/// The cases of a run that were asked for and measured.
pub(super) fn measured<'a>(part: &Part<'a>) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
    part.summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0)
}

/// The rounds of a case in the order of their passes.
pub(super) fn rounds<'a>(part: &Part<'a>, case: &Case) -> Vec<&'a RoundRecord> {
    crate::calm::rounds_of(part.run, case)
}

/// A metric of a case by pass.
pub(super) fn by_pass(part: &Part<'_>, metric: Metric, case: &Case) -> Series {
    series(&part.run.header.plan, metric, &rounds(part, case))
}

/// The p50 of a case.
pub(super) fn p50(case: &CaseSummary) -> Option<&Quantile> {
    quantile(case, 0.5)
}

/// A quantile of a case.
pub(super) fn quantile(case: &CaseSummary, p: f64) -> Option<&Quantile> {
    case.quantiles.iter().find(|quantile| quantile.p == p)
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

    /// `0.62 (0.60 to 0.64)`.
    pub(super) fn text(&self) -> String {
        range(&self.ratio, &|ratio| format!("{ratio:.3}"))
    }
}

/// A family of pairs of one run: the first divided by the second, paired by pass. `None` where they have no pass in
/// common.
pub(super) fn judged(
    part: &Part<'_>,
    metric: Metric,
    margin: f64,
    pairs: &[(&CaseSummary, &CaseSummary)],
) -> Vec<Option<Judged>> {
    judged_by(part, metric, &|_| margin, pairs, &|_, _| true)
}

/// The same with a margin for each pair, by its second case, and of the rounds that `counts` alone.
pub(super) fn judged_by(
    part: &Part<'_>,
    metric: Metric,
    margin: &dyn Fn(&CaseSummary) -> f64,
    pairs: &[(&CaseSummary, &CaseSummary)],
    counts: &dyn Fn(&CaseSummary, u32) -> bool,
) -> Vec<Option<Judged>> {
    let plan = &part.run.header.plan;
    let one = |(a, b): &(&CaseSummary, &CaseSummary)| {
        let d = log_ratios(&by_pass(part, metric, &a.case), &by_pass(part, metric, &b.case));
        let d: Vec<f64> =
            d.into_iter().filter(|(pass, _)| counts(a, *pass) && counts(b, *pass)).map(|(_, d)| d).collect();
        paired(&d, pairs.len(), seed(plan, &a.case, &b.case))
    };
    let evidence: Vec<Option<Paired>> = pairs.iter().map(one).collect();
    let levels = holm_levels(&evidence.iter().map(|paired| paired.as_ref()?.p).collect::<Vec<_>>());
    let of = |paired: &Option<Paired>, level: Option<f64>, other: &CaseSummary| {
        let (paired, margin) = (paired.as_ref()?, margin(other));
        let judged = judge(paired, level, margin, metric.larger_is_better());
        let ratio = Estimate { value: paired.mean.exp(), low: judged.low, high: judged.high };
        Some(Judged { ratio, verdict: judged.verdict })
    };
    evidence.iter().zip(levels).zip(pairs).map(|((paired, level), (_, other))| of(paired, level, other)).collect()
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

/// The mean of values of passes, one each, with its 95 % t interval; values that resemble their neighbours are joined.
/// `None` below five of them.
pub(super) fn mean_of_passes(values: &[f64]) -> Option<Estimate> {
    if values.len() < 5 {
        return None;
    }
    let (units, _) = independent(values);
    let half = t_quantile(0.975, units.len() as f64 - 1.0) * deviation(&units) / (units.len() as f64).sqrt();
    let center = mean(values);
    Some(Estimate { value: center, low: Some(center - half), high: Some(center + half) })
}

/// The mean of single trials with its 95 % t interval; `None` below two. Trials of one connection are not independent, so
/// the interval is the classic one, which is too narrow.
pub(super) fn mean_of_trials(values: &[f64]) -> Option<Estimate> {
    if values.len() < 2 {
        return None;
    }
    let degrees = values.len() as f64 - 1.0;
    let half = t_quantile(0.975, degrees) * deviation(values) / (values.len() as f64).sqrt();
    let center = mean(values);
    Some(Estimate { value: center, low: Some(center - half), high: Some(center + half) })
}

/// The way between the ends of a run.
pub(super) fn route<'a>(part: &Part<'a>) -> Option<&'a Route> {
    part.run.header.floors.as_ref()?.route.as_ref()
}

/// Whether both ends are on one machine, as their boot ids say.
pub(super) fn one_machine(part: &Part<'_>) -> bool {
    let header = &part.run.header;
    !header.near.boot_id.is_empty() && header.near.boot_id == header.far.boot_id
}

/// What carries the packets between the ends; `None`: not known. Two ends on one machine without a namespace of their own
/// have the loopback device between them, also where no route was asked for.
pub(super) fn device(part: &Part<'_>) -> Option<DeviceKind> {
    match route(part) {
        Some(route) => Some(route.kind),
        None if one_machine(part) && part.run.header.plan.options.between.is_none() => Some(DeviceKind::Loopback),
        None => None,
    }
}

/// `both ends are on one machine, over the loopback device`: what lies between the ends.
pub(super) fn between(part: &Part<'_>) -> String {
    let name = route(part).map(|route| route.device.as_str()).unwrap_or_default();
    let over = match device(part) {
        Some(DeviceKind::Loopback) => ", over the loopback device".to_owned(),
        Some(DeviceKind::Veth) => format!(", between namespaces over the virtual pair {name}"),
        Some(DeviceKind::Card) => format!(", over the card {name}"),
        Some(_) if !name.is_empty() => format!(", over {name}"),
        _ => String::new(),
    };
    let ends = if one_machine(part) { "both ends are on one machine" } else { "the ends are on two machines" };
    format!("{ends}{over}")
}

/// What a kernel counter rose by in all rounds of a case: of both ends together where they surely count different events,
/// else once. `None`: it could not be read.
pub(super) fn rose(part: &Part<'_>, case: &CaseSummary, name: &str) -> Option<u64> {
    let header = &part.run.header;
    let of = |known: &[String], counts: &std::collections::BTreeMap<String, u64>| {
        known.iter().any(|known| known == name).then(|| counts.get(name).copied().unwrap_or(0))
    };
    let near = of(&header.near_counters, &case.near_kernel);
    let far = of(&header.far_counters, &case.far_kernel);
    let apart = !one_machine(part) || device(part) == Some(DeviceKind::Veth);
    match (near, far) {
        (Some(near), Some(far)) => Some(if apart { near + far } else { near.max(far) }),
        (one, other) => one.or(other),
    }
}

/// A time as printed.
pub(super) fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

/// A rate as printed.
pub(super) fn bits(bits: f64) -> String {
    bits_per_second(bits, BitUnits::Si)
}

/// A share as printed.
pub(super) fn share(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// A count as printed.
pub(super) fn count(count: u64) -> String {
    Glyphs::Unicode.thousands(count)
}

/// `1.23 (1.20 to 1.26)`; without an interval the number alone.
pub(super) fn range(estimate: &Estimate, print: &dyn Fn(f64) -> String) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", print(estimate.value), print(low), print(high)),
        _ => print(estimate.value),
    }
}

/// The same of a quantile.
pub(super) fn range_of(quantile: &Quantile) -> String {
    match (quantile.ns, quantile.lo_ns, quantile.hi_ns) {
        (Some(ns), Some(low), Some(high)) if quantile.is_interval() => {
            format!("{} ({} to {})", time(ns as f64), time(low as f64), time(high as f64))
        }
        (Some(ns), ..) => match range_in_words(quantile) {
            Some(range) => format!("{} ({range})", time(ns as f64)),
            None => time(ns as f64),
        },
        (None, ..) => "lost".into(),
    }
}

/// `1 row`, `3 rows`.
pub(super) fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(super) mod tests {
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    use super::*;
    use crate::answers::{Answer, Page};
    use crate::testing::Build;
    use crate::{Logs, summarise_with};

    /// What `make` says of these runs, each with its name and its logs.
    pub(in crate::answers) fn of<T>(runs: &[(&str, Run, Logs)], make: impl Fn(&[Part<'_>]) -> T) -> T {
        let summaries: Vec<_> = runs.iter().map(|(_, run, logs)| summarise_with(run, logs)).collect();
        let with = runs.iter().zip(&summaries);
        let parts: Vec<Part<'_>> = with.map(|((name, run, logs), summary)| Part { name, run, summary, logs }).collect();
        make(&parts)
    }

    /// The answer to the question that begins so.
    #[track_caller]
    pub(in crate::answers) fn answer<'a>(page: &'a Page, question: &str) -> &'a Answer {
        page.answers.iter().find(|answer| answer.question.starts_with(question)).expect("an answer")
    }

    /// Each path in each of these pieces, as a stream.
    pub(in crate::answers) fn shapes(paths: &[&str], pieces: &[(u32, u32)]) -> Build {
        in_pieces(Build::stream(paths, &vec![1500; pieces.len()]), pieces)
    }

    /// Gives the cases of each path these pieces.
    pub(in crate::answers) fn in_pieces(mut build: Build, pieces: &[(u32, u32)]) -> Build {
        for (case, (count, size)) in build.plan.cases.iter_mut().zip(pieces.iter().cycle()) {
            case.pieces = Pieces { count: *count, size: *size };
            case.size = case.pieces.total();
        }
        build
    }

    #[test]
    fn pairs_are_judged_as_a_family() {
        let build =
            shapes(&["tcp:writes", "tcp:send"], &[(15, 100)]).rates(|case, _| if case == 0 { 1e9 } else { 2e9 });
        of(&[("shapes", build.run(), Logs::default())], |parts| {
            let cases: Vec<&CaseSummary> = measured(&parts[0]).collect();
            let found = judged(&parts[0], Metric::Throughput, 0.02, &[(cases[0], cases[1]), (cases[1], cases[1])]);
            let (slow, same) = (found[0].as_ref().unwrap(), found[1].as_ref().unwrap());
            assert!((slow.ratio.value - 0.5).abs() < 0.01 && slow.verdict == Verdict::Worse, "{slow:?}");
            assert_eq!(same.verdict, Verdict::Equivalent);
            assert_eq!(between(&parts[0]), "both ends are on one machine, over the loopback device");
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
