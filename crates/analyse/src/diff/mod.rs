//! Two runs that followed each other: did it change? And gates for CI (docs/method/two-runs.md).
//!
//! Cases of both runs are brought together by what was measured. A difference is judged with the errors of `level.rs`, which
//! contain the drift of each run; what changed between the runs cannot be seen from within them, so identity comes
//! first, and a gate fails only on a difference that is sure.

mod common;
mod difference;
mod events;
mod gates;
mod identity;
pub(crate) mod level;
mod naming;
pub mod shift;
#[cfg(test)]
mod tests;

use msgpath_core::gate::{Gate, Watched};
use msgpath_core::plan::{Case, CaseRole, Plan};
use msgpath_core::schema::{NEAR, RoundRecord, Status};
use msgpath_record::Run;
use msgpath_stats::level::Level;
use msgpath_stats::paired::Series;
use msgpath_stats::verdict::{self, LEAST_MARGIN, Verdict, holm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control;
use crate::results::Results;
use crate::series::series;
use crate::summary::CaseSummary;
use gates::judge;
use level::level;

pub use crate::gates::GateState;
pub use common::CommonShift;
pub use difference::Difference;
pub use gates::Judged;
pub use identity::{ORDER, identity};
pub use naming::name;
pub(crate) use naming::seed;

/// The version of [`Diff`] as JSON.
pub const SCHEMA: &str = "msgpath/diff/1";

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Diff {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// `ok` where both runs are whole; else a part was compared.
    pub status: Status,
    /// The first run.
    pub a: Compared,
    /// The second run.
    pub b: Compared,
    /// In what they differ, what refuses a comparison first.
    pub identity: Vec<Difference>,
    /// Verdicts need more than this: max(2 %, A/A resolution of both runs).
    pub margin: f64,
    /// What three and more cases have in common: one entry per metric.
    #[serde(default)]
    pub common: Vec<CommonShift>,
    /// One entry per case and metric.
    pub rows: Vec<DiffRow>,
    /// One entry per gate and case.
    pub gates: Vec<Judged>,
    /// Cases that only one of the runs has.
    pub unpaired: Vec<String>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "ComparedRun")]
pub struct Compared {
    /// Name of the run.
    pub name: String,
    /// When it started, UTC.
    pub started: String,
    /// Version of msgpath that recorded it.
    pub version: String,
    /// Hash of the program; `None` where the run does not tell.
    pub binary: Option<String>,
    /// What this run's hidden A/A could resolve; `None` without a control.
    pub resolution: Option<f64>,
    /// How it ended.
    pub status: Status,
}

/// One metric of one case in both runs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DiffRow {
    /// Id of the case in the first run.
    pub case_a: u32,
    /// Id of the case in the second run.
    pub case_b: u32,
    /// Path, size and load of the case, as tables print them.
    pub case: String,
    /// `p50`, `p99`, `mean`, `cpu`, `throughput`, or a hardware event and its end: `cycles, near`.
    pub metric: String,
    /// Unit of the values: `ns`, `bit/s`, `1/s`, `a message`.
    pub unit: String,
    /// In the first run: geometric mean of the rounds, or the quantile of all rounds together.
    pub a: Option<f64>,
    /// In the second run.
    pub b: Option<f64>,
    /// Second divided by first.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub low: Option<f64>,
    /// 95 % interval of the ratio.
    pub high: Option<f64>,
    /// p-value of no difference.
    pub p: Option<f64>,
    /// Whether it stands after Holm over all rows.
    pub holm: bool,
    /// Whether the second run is better, worse or the same.
    pub verdict: Verdict,
    /// Why there is no ratio.
    pub why: Option<String>,
}

impl Diff {
    /// What the runs must not be compared for.
    pub fn refusals(&self) -> Vec<&Difference> {
        self.identity.iter().filter(|difference| difference.refuses).collect()
    }

    pub fn gates_that(&self, state: GateState) -> Vec<&Judged> {
        self.gates.iter().filter(|gate| gate.state == state).collect()
    }
}

/// Compares `b` with `a`. Whatever differs in identity is in the result; refusing is the caller's business.
pub fn diff(a: &Run, b: &Run, gates: &[Gate]) -> Diff {
    let (run_a, run_b) = (compared(a), compared(b));
    let margin = [run_a.resolution, run_b.resolution].into_iter().flatten().fold(LEAST_MARGIN, f64::max);
    let (measured_a, measured_b) = (measured(a), measured(b));
    let pairs: Vec<(&Case, &Case)> = measured_b
        .iter()
        .filter_map(|two| Some((*measured_a.iter().find(|one| key(one) == key(two))?, *two)))
        .collect();
    let alone = |own: &[&Case], others: &[&Case], run: &str| -> Vec<String> {
        let alone = own.iter().filter(|case| others.iter().all(|other| key(other) != key(case)));
        alone.map(|case| format!("{} (only in {run})", name(case))).collect()
    };
    let mut unpaired = alone(&measured_a, &measured_b, &run_a.name);
    unpaired.extend(alone(&measured_b, &measured_a, &run_b.name));
    let of = |run: &Run, case: &Case, watched| level(&run.header.plan, &rounds(run, case), watched, seed(run, case));
    let rounds_a: Vec<_> = pairs.iter().map(|(one, _)| rounds(a, one)).collect();
    let rounds_b: Vec<_> = pairs.iter().map(|(_, two)| rounds(b, two)).collect();
    let plans = [&a.header.plan, &b.header.plan];
    let usual = metrics(plans[1], gates);
    Diff {
        schema: SCHEMA.into(),
        status: if run_a.status == Status::Ok { run_b.status } else { run_a.status },
        identity: identity(a, b),
        margin,
        common: common::shifts(plans, &pairs, [&rounds_a, &rounds_b], &usual, margin),
        rows: rows(&pairs, margin, |one, two| {
            let watched = usual
                .iter()
                .copied()
                .map(|watched| (watched.to_string(), watched.unit(), [of(a, one, watched), of(b, two, watched)]));
            let events = events::levels((a, one), (b, two)).into_iter();
            watched.chain(events.map(|(name, levels)| (name, "a message", levels))).collect()
        }),
        gates: judge(&pairs, gates, margin, |one, two, watched| [of(a, one, watched), of(b, two, watched)]),
        unpaired,
        a: run_a,
        b: run_b,
    }
}

/// What a run's hidden A/A can resolve: p95 of |A'/A - 1|. `None` without a control of at least 5 passes.
pub fn resolution(run: &Run) -> Option<f64> {
    let plan = &run.header.plan;
    let metric = plan.workload.metric;
    let rounds: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| rounds(run, case)).collect();
    let series: Vec<Series> = rounds.iter().map(|rounds| self::series(plan, metric, rounds)).collect();
    // What a median or a throughput is compared by needs no interval of its own.
    let cases: Vec<CaseSummary> = plan.cases.iter().cloned().map(CaseSummary::empty).collect();
    control::control(&Results { plan, cases: &cases, rounds: &rounds, series: &series }, metric).resolution
}

fn compared(run: &Run) -> Compared {
    let header = &run.header;
    let ended = run.end.as_ref().filter(|_| run.damage.is_none());
    Compared {
        name: header.name.clone(),
        started: header.started.clone(),
        version: header.version.clone(),
        binary: header.host(NEAR).facts.get("binary").cloned(),
        resolution: resolution(run),
        status: ended.map_or(Status::Partial, |end| end.status),
    }
}

fn measured(run: &Run) -> Vec<&Case> {
    run.header.plan.cases.iter().filter(|case| case.role == CaseRole::Measured).collect()
}

/// The rounds of a case in the order of their passes.
fn rounds<'a>(run: &'a Run, case: &Case) -> Vec<&'a RoundRecord> {
    crate::calm::rounds_of(run, case)
}

/// What two cases share when they are the same.
fn key(case: &Case) -> impl PartialEq + use<> {
    let message = (case.path.clone(), case.label.clone(), case.size, case.reply, case.pieces);
    (message, case.threads, case.connections, case.inflight, case.load)
}

/// What is shown: the usual metrics, and what a gate watches; losses have no ratio.
fn metrics(plan: &Plan, gates: &[Gate]) -> Vec<Watched> {
    let usual = [Watched::Quantile(0.5), Watched::Quantile(0.99), Watched::Throughput, Watched::Cpu];
    let mut metrics: Vec<Watched> = usual.into_iter().filter(|watched| plan.workload.has(*watched)).collect();
    for gate in gates {
        if gate.watched != Watched::Loss && !metrics.contains(&gate.watched) {
            metrics.push(gate.watched);
        }
    }
    metrics
}

/// Both runs' levels, or why one of them is withheld.
fn both([a, b]: [Result<Level, String>; 2]) -> Result<(Level, Level), String> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(why), Err(other)) if why == other => Err(format!("in both runs {why}")),
        (Err(why), _) => Err(format!("in the first run {why}")),
        (_, Err(why)) => Err(format!("in the second run {why}")),
    }
}

fn rows(
    pairs: &[(&Case, &Case)],
    margin: f64,
    metrics: impl Fn(&Case, &Case) -> Vec<(String, &'static str, [Result<Level, String>; 2])>,
) -> Vec<DiffRow> {
    let mut out = Vec::new();
    for (one, two) in pairs {
        for (metric, unit, levels) in metrics(one, two) {
            let value = |level: &Result<Level, String>| level.as_ref().ok().map(|level| level.at.exp());
            let (a, b) = (value(&levels[0]), value(&levels[1]));
            let (difference, why) = match both(levels) {
                Ok((a, b)) => (Some(b.minus(a)), None),
                Err(why) => (None, Some(why)),
            };
            let interval = difference.map(Level::interval);
            out.push(DiffRow {
                case_a: one.id,
                case_b: two.id,
                case: name(two),
                metric,
                unit: unit.into(),
                a,
                b,
                ratio: difference.map(|difference| difference.at.exp()),
                low: interval.map(|(low, _)| low.exp()),
                high: interval.map(|(_, high)| high.exp()),
                p: difference.map(|difference| difference.p(0.0)),
                holm: false,
                verdict: Verdict::Undecided,
                why,
            });
        }
    }
    let stands = holm(&out.iter().map(|row| row.p).collect::<Vec<_>>());
    for (row, stands) in out.iter_mut().zip(stands) {
        row.holm = stands;
        row.verdict = verdict(row, margin);
    }
    out
}

/// As in `compare`: beyond the margin and after Holm, or within it.
fn verdict(row: &DiffRow, margin: f64) -> Verdict {
    let (Some(low), Some(high)) = (row.low, row.high) else { return Verdict::Undecided };
    verdict::verdict((low.ln(), high.ln()), row.holm, margin, matches!(row.unit.as_str(), "bit/s" | "1/s"))
}
