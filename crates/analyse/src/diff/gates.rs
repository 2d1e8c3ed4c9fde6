//! Gates: conditions that fail a comparison of two runs, only where they are surely met
//! (docs/method/two-runs.md#gates).

use msgpath_core::gate::{Gate, Limit, Side, Watched};
use msgpath_core::plan::Case;
use msgpath_stats::level::Level;
use msgpath_stats::verdict::holm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{both, name};

/// What a gate comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Surely on the good side.
    Passed,
    /// Surely on the bad side.
    Failed,
    /// The data do not decide; it does not fail.
    Undecided,
}

/// One gate on one case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "GateResult")]
pub struct Judged {
    /// The gate as it is printed.
    pub gate: String,
    /// Id of the case in the second run.
    pub case_b: u32,
    /// The case, as it is printed.
    pub case: String,
    /// What it comes to.
    pub state: GateState,
    /// What was judged: a ratio, or the second run's own value (ns, bit/s, a share).
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub low: Option<f64>,
    /// Its 95 % interval.
    pub high: Option<f64>,
    /// p-value of not lying beyond the limit.
    pub p: Option<f64>,
    /// Why it is undecided.
    pub why: Option<String>,
}

/// Where a gate begins to fail, on the scale of [`Level`]. A limit on the change never lies within the margin: what the
/// machine cannot resolve is no regression.
fn bound(gate: &Gate, margin: f64) -> f64 {
    let margin = (1.0 + margin).ln();
    match gate.limit {
        Limit::Value(share) if gate.watched == Watched::Loss => share,
        Limit::Value(value) => value.max(f64::MIN_POSITIVE).ln(),
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
    let mut out = Vec::new();
    let mut beyond = Vec::new();
    for gate in gates {
        for (one, two) in pairs {
            let levels = levels(one, two, gate.watched);
            let judged = match gate.limit {
                Limit::Change(_) => both(levels).map(|(a, b)| b.minus(a)),
                Limit::Value(_) => levels[1].clone(),
            };
            let plain = |at: f64| if gate.watched == Watched::Loss { at } else { at.exp() };
            let bound = bound(gate, margin);
            let mut row = Judged {
                gate: gate.to_string(),
                case_b: two.id,
                case: name(two),
                state: GateState::Undecided,
                value: None,
                low: None,
                high: None,
                p: None,
                why: None,
            };
            let mut fails = false;
            match judged {
                Ok(level) => {
                    let (low, high) = level.interval();
                    (row.value, row.low, row.high) = (Some(plain(level.at)), Some(plain(low)), Some(plain(high)));
                    let limit = match gate.limit {
                        Limit::Change(change) => (1.0 + change).ln(),
                        Limit::Value(_) => bound,
                    };
                    let (worse, passes, beyond) = match gate.side {
                        Side::Above => (level.at > bound, high <= limit, low > bound),
                        Side::Below => (level.at < bound, low >= limit, high < bound),
                    };
                    // On the good side of the bound nothing speaks for a failure.
                    row.p = Some(if worse { level.p(bound) } else { 1.0 });
                    fails = beyond;
                    if passes {
                        row.state = GateState::Passed;
                    } else {
                        row.why = Some("the interval does not decide: longer runs, or more of them, would".into());
                    }
                }
                Err(why) => row.why = Some(why),
            }
            out.push(row);
            beyond.push(fails);
        }
    }
    let stands = holm(&out.iter().map(|row| row.p).collect::<Vec<_>>());
    for (row, (stands, beyond)) in out.iter_mut().zip(stands.into_iter().zip(beyond)) {
        if stands && beyond {
            (row.state, row.why) = (GateState::Failed, None);
        } else if beyond {
            row.why = Some("one of many tests, and not sure among them: longer runs would decide".into());
        }
    }
    out
}
