//! How pages and claims look at the cases of a run, and how they put a number into a sentence.

use msgpath_core::plan::CaseRole;
use msgpath_core::schema::UnavailableCase;
use msgpath_core::units::{Glyphs, size, three_digits};
use msgpath_stats::quantile::{Quantile, Range};

use super::Part;
use super::cell::{Cell, Table, Value};
use crate::summary::{CaseSummary, Confidence, Summary};

/// The cases that were asked for and measured.
pub(super) fn measured(summary: &Summary) -> impl Iterator<Item = &CaseSummary> {
    summary.cases.iter().filter(|case| case.case.role == CaseRole::Measured && case.rounds > 0)
}

/// A case of a run by the parts of its path and its size.
pub(super) fn find<'a>(part: &Part<'a>, transport: &str, wait: &str, size: u64) -> Option<&'a CaseSummary> {
    let named = |case: &&CaseSummary| {
        let path = &case.case.path;
        path.transport == transport && path.wait == wait && case.case.size == size
    };
    measured(part.summary).find(named)
}

/// A quantile of a case, where it has an interval.
pub(super) fn claimed(quantiles: &[Quantile], p: f64) -> Option<Value> {
    quantiles
        .iter()
        .find(|quantile| quantile.p == p && quantile.is_interval() && quantile.ns.is_some())
        .map(Value::from)
}

/// The median of a case, where it has an interval.
pub(super) fn p50(case: &CaseSummary) -> Option<Value> {
    claimed(&case.quantiles, 0.5)
}

/// A quantile as a cell, with its range.
pub(super) fn quantile(quantiles: &[Quantile], p: f64) -> Cell {
    match quantiles.iter().find(|quantile| quantile.p == p) {
        Some(found) if found.range == Range::NotYet => Cell::missing("too few messages"),
        Some(found) => Cell::Time(found.into()),
        None => Cell::missing("no message"),
    }
}

/// CPU time of both ends for a message, ns, spinning included; `None`: not counted.
pub(super) fn cpu_ns(case: &CaseSummary) -> Option<f64> {
    let cost = [&case.near_cost, &case.far_cost];
    let ns: f64 = cost.iter().map(|cost| cost.user_ns + cost.system_ns).sum();
    (ns > 0.0).then_some(ns)
}

/// `a` divided by `b`. The interval is that of the ends of both (Bonferroni: at least 90 %, wider than need be), so where
/// it excludes 1 the two intervals lie apart.
pub(super) fn over(a: Value, b: Value) -> Value {
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    Value { value: a.value / b.value, low: ratio(a.low, b.high), high: ratio(a.high, b.low) }
}

/// Whether the whole interval lies above a bound.
pub(super) fn above(value: &Value, bound: f64) -> bool {
    value.low.is_some_and(|low| low > bound)
}

/// Whether the whole interval lies below a bound.
pub(super) fn below(value: &Value, bound: f64) -> bool {
    value.high.is_some_and(|high| high < bound)
}

/// *Sure* where the interval lies on one side of a bound, else *can't tell*.
pub(super) fn beyond(value: &Value, bound: f64) -> Confidence {
    if above(value, bound) || below(value, bound) { Confidence::Sure } else { Confidence::CantTell }
}

/// The least sure of them; nothing at all cannot be told.
pub(super) fn weakest(all: impl IntoIterator<Item = Confidence>) -> Confidence {
    let rank = |confidence: &Confidence| match confidence {
        Confidence::CantTell => 0,
        Confidence::Likely => 1,
        Confidence::Sure => 2,
    };
    all.into_iter().min_by_key(rank).unwrap_or(Confidence::CantTell)
}

/// `12.1 µs`.
pub(super) fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

/// `12.1 µs (95 %: 11.8 µs to 12.4 µs)`.
pub(super) fn time_with(value: &Value) -> String {
    with(value, time)
}

/// `3.41 (2.98 to 3.90)`.
pub(super) fn ratio_with(value: &Value) -> String {
    match value.low.zip(value.high) {
        Some((low, high)) => {
            format!("{} ({} to {})", three_digits(value.value), three_digits(low), three_digits(high))
        }
        None => three_digits(value.value),
    }
}

fn with(value: &Value, print: impl Fn(f64) -> String) -> String {
    match value.low.zip(value.high) {
        Some((low, high)) => format!("{} (95 %: {} to {})", print(value.value), print(low), print(high)),
        None => print(value.value),
    }
}

/// `10.5k/s`.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        1e6.. => format!("{}M/s", three_digits(per_s / 1e6)),
        1e3.. => format!("{}k/s", three_digits(per_s / 1e3)),
        _ => format!("{}/s", three_digits(per_s)),
    }
}

/// `4.00`: three digits.
pub(super) fn three(value: f64) -> String {
    three_digits(value)
}

/// `31.2 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", three_digits(100.0 * share))
}

/// `1 234`.
pub(super) fn number(count: u64) -> String {
    Glyphs::Unicode.thousands(count)
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// What was not measured, with its reason; without a row where everything was.
pub(super) fn left_out(parts: &[Part<'_>]) -> Table {
    let mut table =
        Table::new("left-out", "what was not measured, and why", &["run", "path", "message", "rate", "reason"]);
    for part in parts {
        for UnavailableCase { case, reason } in &part.summary.unavailable {
            if case.role != CaseRole::Measured {
                continue;
            }
            table.row([
                Cell::text(part.name),
                Cell::text(case.path.to_string()),
                Cell::text(size(case.size)),
                case.load.rate().map_or_else(|| Cell::text("closed loop"), |rate| Cell::text(rate.to_string())),
                Cell::text(&reason.why),
            ]);
        }
    }
    table
}

#[cfg(test)]
pub(super) mod testing {
    use msgpath_record::Run;

    use super::super::Part;
    use crate::testing::Build;
    use crate::{Logs, Summary};

    /// A run of a preset, analysed.
    pub(crate) struct Made {
        name: &'static str,
        run: Run,
        summary: Summary,
        logs: Logs,
    }

    impl Made {
        /// As it was built.
        pub(crate) fn of(name: &'static str, build: &Build) -> Self {
            Self::from(name, build.run())
        }

        /// Of rounds that were altered.
        pub(crate) fn from(name: &'static str, run: Run) -> Self {
            Self::with(name, run, Logs::default())
        }

        /// With logs.
        pub(crate) fn with(name: &'static str, run: Run, logs: Logs) -> Self {
            let summary = crate::summarise_with(&run, &logs);
            Self { name, run, summary, logs }
        }

        /// As pages look at them.
        pub(crate) fn parts(made: &[Self]) -> Vec<Part<'_>> {
            made.iter()
                .map(|one| Part { name: one.name, run: &one.run, summary: &one.summary, logs: &one.logs })
                .collect()
        }
    }
}
