//! A mesh: which hosts, racks and links are slow. Pairs come one by one from the record; what is kept of each is small.

pub mod additive;
mod answers;
mod diff;
pub(crate) use diff::times;
mod model;
mod racks;
mod stalls;
#[cfg(test)]
mod tests;
mod verify;
mod waits;

use std::collections::{BTreeMap, HashSet};

use msgpath_analyse::summary::Finding;
use msgpath_core::gate::{Gate, Limit, Watched};
use msgpath_core::schema::{RunEnd, Status};
use msgpath_core::{Problem, SparseHistogram, Unavailable};
use msgpath_record::Damage;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile;
use schemars::JsonSchema;
use serde::Serialize;

use crate::record::PairBlock;
use crate::schema::{MeshHeader, PairCase, PairPurpose, Slot};

pub use diff::{ComparedMesh, HostChange, LinkChange, MeshCaseChange, MeshDiff, diff};
pub use model::{LEAST_FACTOR, MeshPower, planned_power};
pub use stalls::Stalls;
pub use verify::MeshCheck;
pub use waits::{Waited, WaitedFor};

/// Name and version of what `--json` prints of a mesh.
pub const MESH_RESULT: &str = "msgpath/mesh-result/1";

/// A number with the interval that its rounds give it; equal where there are too few of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PairTime {
    /// The value, ns.
    pub ns: f64,
    /// At least, ns.
    pub lo_ns: f64,
    /// At most, ns; `None`: not known.
    pub hi_ns: Option<f64>,
}

/// One case of one measurement of a pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairValues {
    /// Which measurement of which pair.
    #[serde(flatten)]
    pub slot: Slot,
    /// The case.
    pub case: u32,
    /// Rounds.
    pub rounds: u32,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost.
    pub lost: u64,
    /// Failed tries before.
    pub tries: u32,
    /// The median; `None`: nothing was measured.
    pub p50: Option<PairTime>,
    /// The 99th percentile; `None`: not seen, or a lost message.
    pub p99: Option<PairTime>,
    /// The fastest round trip, ns.
    pub min_ns: Option<u64>,
    /// The slowest, ns.
    pub max_ns: Option<u64>,
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    /// Round trips that took far longer than the median; `None`: nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// What the model does not explain of the median, as a factor; `None`: it is not in the model.
    pub residual: Option<f64>,
    /// How long the near and the far end waited for a CPU; `None`: not known.
    pub waited: Option<[Waited; 2]>,
    /// Which of the limits are surely broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<bool>,
    /// Why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
}

/// A pair without a result.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MissingPair {
    #[serde(flatten)]
    pub slot: Slot,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last of them failed.
    pub problem: Problem,
}

/// What a host adds to all of its pairs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct HostEffect {
    /// Name of the host.
    pub host: String,
    /// Its rack; only where the racks of hosts are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Times slower than the host in the middle, with a 95 % interval; `None`: too few of its pairs were
    /// measured, or none.
    pub factor: Option<[f64; 3]>,
    /// Number of pairs from which the factor is computed.
    pub pairs: u32,
    /// Number of its pairs without a result.
    pub failed: u32,
    /// Share of the time that its threads waited for a CPU, where they waited as nobody does on an idle machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
}

/// A kind of pair: the same rack, another rack.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshLevel {
    /// `same rack`, `other rack`, `all pairs`.
    pub name: String,
    /// Number of pairs.
    pub pairs: u32,
    /// Median over its pairs of their p50, ns; `None`: no pair has one.
    pub p50_ns: Option<f64>,
    /// Median over its pairs of their p99, ns; `None`: no pair has one.
    pub p99_ns: Option<f64>,
}

/// The result of one case over all pairs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshCase {
    /// Id of the case.
    pub case: u32,
    /// Path and size: `tcp:send 64 B`.
    pub name: String,
    /// The hosts, in the order in which they were named.
    pub hosts: Vec<HostEffect>,
    /// Pairs within a rack and between racks; all pairs where no rack is known.
    pub levels: Vec<MeshLevel>,
    /// Robust standard deviation of what the model does not explain (of the logarithm: 0.1 is 10 %); `None`: too few pairs.
    pub spread: Option<f64>,
    /// Which slow host would have been found; `None`: too few pairs.
    pub power: Option<MeshPower>,
}

/// Whether a limit that was asked for is kept.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshLimit {
    /// What a pair fails by: `p99 > 200us`.
    #[schemars(with = "String")]
    pub gate: Gate,
    /// Number of pairs that surely break it.
    pub broken: u32,
    /// Number of pairs that were checked.
    pub of: u32,
}

/// What was measured between many hosts.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "Mesh")]
pub struct MeshSummary {
    /// Name and version of this schema.
    #[schemars(extend("const" = MESH_RESULT))]
    pub schema: String,
    /// Name of the run.
    pub name: String,
    pub status: Status,
    /// When it began: UTC, RFC 3339.
    pub started: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of pairs that were asked for.
    pub planned: u64,
    /// Number of pairs with a result.
    pub measured: u64,
    /// Number of steps in which pairs were measured.
    pub steps: u32,
    /// How long it took until the last pair began, ns.
    pub took_ns: u64,
    /// Number of further measurements: of slow pairs again, and of pairs alone.
    pub retests: u32,
    /// Number of pairs that were measured alone as well.
    pub alone: u32,
    /// What was found, the surest first.
    pub findings: Vec<Finding>,
    /// The result of each case.
    pub cases: Vec<MeshCase>,
    /// The limits of `--fail-if`, and which pairs break them.
    pub sla: Vec<MeshLimit>,
    /// Pairs without a result.
    pub missing: Vec<MissingPair>,
    /// Where the record stops being whole.
    #[serde(skip)]
    pub damage: Option<Damage>,
    /// Every measurement.
    #[serde(skip)]
    pub pairs: Vec<PairValues>,
}

/// Takes in a mesh, block by block.
#[derive(Debug, Default)]
pub struct Fold {
    pairs: Vec<PairValues>,
    seen: HashSet<(u32, u32, PairPurpose, u32)>,
    failed: BTreeMap<(u32, u32, PairPurpose, u32), MissingPair>,
    sla: Vec<Gate>,
    steps: HashSet<u32>,
    last_ns: u64,
}

impl Fold {
    /// For a mesh that is held to these limits.
    pub fn new(sla: &[Gate]) -> Self {
        Self { sla: sla.to_vec(), ..Self::default() }
    }

    /// Takes in a block.
    pub fn take(&mut self, block: &PairBlock) {
        let slot = *block.slot();
        self.steps.insert(slot.step);
        match block {
            PairBlock::Failed(failed) => {
                let tries = failed.attempt + 1;
                let problem = failed.problem.clone();
                self.failed.insert(slot.key(), MissingPair { slot, tries, problem });
                self.last_ns = self.last_ns.max(failed.start_ns);
            }
            PairBlock::Pair(pair) => {
                self.last_ns = self.last_ns.max(pair.start_ns);
                if self.seen.insert(slot.key()) {
                    self.failed.remove(&slot.key());
                    let values = pair.cases.iter().map(|case| values(slot, pair.tries, case, &self.sla));
                    self.pairs.extend(values.collect::<Vec<_>>());
                }
            }
        }
    }

    /// Pairs that are slower than their hosts explain: worth a second look.
    pub fn suspects(&self, header: &MeshHeader) -> Vec<(u32, u32)> {
        model::suspects(header, &self.pairs)
    }

    /// What it all says.
    pub fn finish(mut self, header: &MeshHeader, end: Option<&RunEnd>, damage: Option<&Damage>) -> MeshSummary {
        self.pairs.retain(|pair| (pair.case as usize) < header.plan.cases.len());
        let count = |purpose: PairPurpose| self.seen.iter().filter(|(_, _, own, _)| *own == purpose).count();
        let missing: Vec<MissingPair> = self.failed.into_values().collect();
        let status = match end {
            Some(end) if end.status == Status::Ok && !missing.is_empty() => Status::Partial,
            Some(end) => end.status,
            None => Status::Partial,
        };
        let mut summary = MeshSummary {
            schema: MESH_RESULT.into(),
            name: header.name.clone(),
            status,
            started: header.started.clone(),
            hosts: header.hosts.len() as u32,
            planned: header.planned,
            measured: count(PairPurpose::Mesh) as u64,
            steps: self.steps.len() as u32,
            took_ns: self.last_ns,
            retests: count(PairPurpose::Retest) as u32,
            alone: count(PairPurpose::Alone) as u32,
            findings: Vec::new(),
            cases: Vec::new(),
            sla: Vec::new(),
            missing,
            damage: damage.cloned(),
            pairs: self.pairs,
        };
        for (at, gate) in header.sla.iter().enumerate() {
            let asked =
                summary.pairs.iter().filter(|pair| pair.slot.purpose == PairPurpose::Mesh && pair.p50.is_some());
            let (mut broken, mut of) = (0, 0);
            for pair in asked {
                of += 1;
                broken += u32::from(pair.breaks.get(at) == Some(&true));
            }
            summary.sla.push(MeshLimit { gate: *gate, broken, of });
        }
        answers::fill(header, &mut summary);
        summary
    }
}

/// What is kept of a case of a pair.
fn values(slot: Slot, tries: u32, case: &PairCase, sla: &[Gate]) -> PairValues {
    let histograms: Vec<&SparseHistogram> = case.rounds.iter().map(|round| &round.latency).collect();
    let pooled = Pooled::new(&histograms);
    let (sent, lost) = case.rounds.iter().fold((0, 0), |(sent, lost), round| (sent + round.sent, lost + round.lost));
    let at = |p: f64| {
        let found = quantile::estimate(&histograms, &pooled, p)?.quantile;
        let ns = found.observed()? as f64;
        Some(PairTime { ns, lo_ns: found.lo_ns.map_or(ns, |lo| lo as f64), hi_ns: found.hi_ns.map(|hi| hi as f64) })
    };
    let mean_ns = quantile::mean_ns(&histograms);
    let breaks = |gate: &Gate| {
        let Limit::Value(limit) = gate.limit else { return false };
        match gate.watched {
            Watched::Quantile(p) => at(p).is_some_and(|value| value.lo_ns > limit),
            Watched::Mean => mean_ns.is_some_and(|mean| mean > limit),
            Watched::Loss => sent > 0 && lost as f64 / sent as f64 > limit,
            _ => false,
        }
    };
    let p50 = at(0.5);
    PairValues {
        slot,
        case: case.case,
        rounds: case.rounds.len() as u32,
        sent,
        lost,
        tries,
        p50,
        p99: at(0.99),
        min_ns: pooled.min(),
        max_ns: pooled.max(),
        mean_ns,
        stalls: p50.map(|p50| Stalls::of(&case.rounds, p50.ns)),
        residual: None,
        waited: waits::waited(case),
        breaks: sla.iter().map(breaks).collect(),
        unavailable: case.unavailable.clone(),
    }
}
