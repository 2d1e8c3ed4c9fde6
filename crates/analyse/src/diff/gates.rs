//! Gates: conditions that fail a comparison of two runs, only where they are surely met
//! (docs/method/two-runs.md#gates).

use msgpath_core::gate::{Gate, Limit, Side, Watched};
use msgpath_core::plan::Case;
use msgpath_stats::level::Level;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{both, name};
use crate::gates::{GateState, Outcome, scaled, settle};

/// One gate on one case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "GateResult")]
pub struct Judged {
    /// The condition that fails, as tables print it: `p99 > +5%`.
    pub gate: String,
    /// Id of the case in the second run.
    pub case_b: u32,
    /// Path, size and load of the case, as tables print them.
    pub case: String,
    /// Whether the gate is passed, failed or undecided.
    pub state: GateState,
    /// What was judged: a ratio, or the second run's own value (ns, bit/s, 1/s, a share).
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub low: Option<f64>,
    /// Its 95 % interval.
    pub high: Option<f64>,
    /// p-value of not lying beyond the limit.
    pub p: Option<f64>,
    /// Why it is undecided; `None`: it is decided.
    pub why: Option<String>,
}

/// Where a gate begins to fail, on the scale of [`Level`]. A limit on the change never lies within the margin: what the
/// machine cannot resolve is not a regression.
fn bound(gate: &Gate, margin: f64) -> f64 {
    let margin = (1.0 + margin).ln();
    match gate.limit {
        Limit::Value(value) => scaled(value, gate.watched),
        Limit::Change(change) => {
            let limit = (1.0 + change).ln();
            match gate.side {
                Side::Above if limit >= 0.0 => limit.max(margin),
                // An improvement is demanded: it must be missed by more than the margin.
                Side::Above => limit + margin,
                Side::Below if limit <= 0.0 => limit.min(-margin),
                Side::Below => limit - margin,
            }
        }
    }
}

/// Every gate on every case that has what it watches. It fails where the whole interval lies beyond its bound, and the
/// test of that stands after Holm over all gates and cases.
pub(super) fn judge(
    pairs: &[(&Case, &Case)],
    gates: &[Gate],
    margin: f64,
    levels: impl Fn(&Case, &Case, Watched) -> [Result<Level, String>; 2],
) -> Vec<Judged> {
    let outcome = |gate: &Gate, one: &Case, two: &Case| {
        let levels = levels(one, two, gate.watched);
        let judged = match gate.limit {
            Limit::Change(_) => both(levels).map(|(a, b)| b.minus(a)),
            Limit::Value(_) => levels[1].clone(),
        };
        let bound = bound(gate, margin);
        let limit = match gate.limit {
            Limit::Change(change) => (1.0 + change).ln(),
            Limit::Value(_) => bound,
        };
        let undecided = "the interval does not decide: longer runs, or more of them, would";
        judged.map_or_else(Outcome::unknown, |level| Outcome::of(level, gate, bound, limit, undecided))
    };
    let all = || gates.iter().flat_map(|gate| pairs.iter().map(move |(one, two)| (gate, *one, *two)));
    let mut outcomes: Vec<Outcome> = all().map(|(gate, one, two)| outcome(gate, one, two)).collect();
    settle(&mut outcomes);
    let rows = all().zip(outcomes).map(|((gate, _, two), Outcome { state, value, low, high, p, why, .. })| Judged {
        gate: gate.to_string(),
        case_b: two.id,
        case: name(two),
        state,
        value,
        low,
        high,
        p,
        why,
    });
    rows.collect()
}
