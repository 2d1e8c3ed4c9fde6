//! The additive model over the pairs of a mesh ([`super::additive`]), and what it can find.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_stats::describe::median;
use schemars::JsonSchema;
use serde::Serialize;

use super::PairValues;
use super::additive::{self, Additive, Between};
use crate::schema::{MeshHeader, PairPurpose, Pairs, Slot};

/// Whoever is slower than by this factor is worth a sentence.
pub const LEAST_FACTOR: f64 = 1.1;
/// Confidence of what is called sure.
pub(super) const SURE: f64 = 0.99;
/// Confidence of what is called likely.
pub(super) const LIKELY: f64 = 0.9;
/// A pair is measured again whose residual is beyond so many standard deviations.
const SUSPECT: f64 = 3.0;
/// At least so many pairs may be measured again, and at least this share of all.
const SUSPECTS: usize = 10;
const SHARE_OF_SUSPECTS: usize = 25;
/// Below this noise a difference is too small to look for, whatever it is in standard deviations.
pub(super) const LEAST_SPREAD: f64 = 0.01;

/// Which slow host is found.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshPower {
    /// Number of pairs of a host, in the median.
    pub pairs: u32,
    /// Noise of a pair (of the logarithm).
    pub spread: f64,
    /// A host that is slower by this factor is found with `share`.
    pub factor: f64,
    /// Probability, 0 to 1, that such a host is found.
    pub share: f64,
}

/// The power that is asked for.
const POWER: f64 = 0.98;

pub(super) fn power(pairs: u32, spread: f64) -> MeshPower {
    let spread = spread.max(LEAST_SPREAD);
    MeshPower { pairs, spread, factor: additive::detectable(POWER, LEAST_FACTOR, SURE, pairs, spread), share: POWER }
}

/// The power of a mesh that is not measured yet, should its pairs scatter so; `None`: no rule says how many pairs a host has.
pub fn planned_power(pairs: &[(u32, u32)], hosts: u32, spread: f64) -> Option<MeshPower> {
    let mut of = vec![0_u32; hosts as usize];
    for (a, b) in pairs {
        of[*a as usize] += 1;
        of[*b as usize] += 1;
    }
    of.sort_unstable();
    of.get(of.len() / 2).filter(|pairs| **pairs > 0).map(|pairs| power(*pairs, spread))
}

/// The model of one case, with the pairs that it rests on: positions among all.
pub(super) struct Model {
    pub(super) fitted: Additive,
    pub(super) of: Vec<usize>,
    pub(super) names: Vec<&'static str>,
}

impl Model {
    /// Pairs beyond those that fix the effects of hosts: degrees of freedom of the spread.
    pub(super) fn free(&self) -> f64 {
        let hosts = self.fitted.effects.iter().flatten().count();
        self.of.len().saturating_sub(hosts).max(1) as f64
    }
}

/// Logarithms of what the network adds to pairs of different racks: taken off before hosts are judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Added {
    uplinks: BTreeMap<String, f64>,
    between: BTreeMap<(String, String), f64>,
}

impl Added {
    /// The link between two racks.
    pub(super) fn link(&mut self, (a, b): (&str, &str), log: f64) {
        self.between.insert((a.min(b).into(), a.max(b).into()), log);
    }

    /// The uplink of a rack.
    pub(super) fn uplink(&mut self, rack: &str, log: f64) {
        *self.uplinks.entry(rack.into()).or_default() += log;
    }

    fn of(&self, header: &MeshHeader, slot: &Slot) -> f64 {
        let (Some(a), Some(b)) = (rack_of(header, slot.near), rack_of(header, slot.far)) else { return 0.0 };
        if a == b {
            return 0.0;
        }
        let uplink = |rack: &str| self.uplinks.get(rack).copied().unwrap_or(0.0);
        let between = self.between.get(&(a.min(b).into(), a.max(b).into())).copied().unwrap_or(0.0);
        uplink(a) + uplink(b) + between
    }
}

/// The rack of a host.
pub(super) fn rack_of(header: &MeshHeader, at: u32) -> Option<&str> {
    header.hosts.get(at as usize).and_then(|host| host.spec.rack.as_deref())
}

/// The names of the levels of pairs.
pub(super) fn levels(header: &MeshHeader) -> Vec<&'static str> {
    if header.hosts.iter().any(|host| host.spec.rack.is_some()) {
        vec!["same rack", "other rack"]
    } else {
        vec!["all pairs"]
    }
}

/// The level of a pair.
pub(super) fn level(header: &MeshHeader, near: u32, far: u32) -> u32 {
    u32::from(rack_of(header, near) != rack_of(header, far))
}

/// The logarithm of what each pair of a case took, ns, with its position among all. Retests stand for the pair that they repeat.
pub(super) fn values(pairs: &[PairValues], case: u32) -> Vec<(usize, f64)> {
    let mut again: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair.case == case && pair.slot.purpose == PairPurpose::Retest) {
        again.entry((pair.slot.near, pair.slot.far)).or_default().extend(log(pair));
    }
    let own = pairs.iter().enumerate().filter(|(_, pair)| pair.case == case && pair.slot.purpose == PairPurpose::Mesh);
    let value = |(at, pair): (usize, &PairValues)| {
        let first = log(pair)?;
        let value = match again.get(&(pair.slot.near, pair.slot.far)) {
            Some(others) => median(&others.iter().copied().chain([first]).collect::<Vec<_>>()),
            None => first,
        };
        Some((at, value))
    };
    own.filter_map(value).collect()
}

/// Fits the medians of a case, without what the network adds.
pub(super) fn model(header: &MeshHeader, pairs: &[PairValues], case: u32, added: &Added) -> Model {
    model_without(header, pairs, case, (added, &BTreeSet::new()))
}

/// The same without the pairs of these hosts.
pub(super) fn model_without(
    header: &MeshHeader,
    pairs: &[PairValues],
    case: u32,
    (added, hosts): (&Added, &BTreeSet<u32>),
) -> Model {
    let kept = |slot: &Slot| !hosts.contains(&slot.near) && !hosts.contains(&slot.far);
    let values = values(pairs, case).into_iter().filter(|(at, _)| kept(&pairs[*at].slot));
    fit(header, pairs, values.map(|(at, value)| (at, value - added.of(header, &pairs[at].slot))))
}

/// Fits values of pairs: the position of each pair, and its value.
pub(super) fn fit(header: &MeshHeader, pairs: &[PairValues], values: impl Iterator<Item = (usize, f64)>) -> Model {
    let between = |(at, value): (usize, f64)| {
        let (near, far) = (pairs[at].slot.near, pairs[at].slot.far);
        (at, Between { a: near, b: far, level: level(header, near, far), value })
    };
    let (of, values): (Vec<usize>, Vec<Between>) = values.map(between).unzip();
    let names = levels(header);
    Model { fitted: additive::fit(header.hosts.len(), names.len(), &values), of, names }
}

/// The logarithm of a pair's median.
pub(super) fn log(pair: &PairValues) -> Option<f64> {
    pair.p50.map(|value| value.ns.max(1.0).ln())
}

/// What a residual must exceed to be worth a second look.
pub(super) fn suspicious(spread: f64) -> f64 {
    (SUSPECT * spread.max(LEAST_SPREAD)).max(LEAST_FACTOR.ln())
}

/// The pairs of all cases that are slower than their hosts explain, the worst first, as the first measurement saw them.
pub(super) fn suspects(header: &MeshHeader, pairs: &[PairValues]) -> Vec<(u32, u32)> {
    let first: Vec<PairValues> = pairs.iter().filter(|pair| pair.slot.purpose == PairPurpose::Mesh).cloned().collect();
    let mut found: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for case in 0..header.plan.cases.len() as u32 {
        let Model { fitted, of, .. } = model(header, &first, case, &Added::default());
        if !finds_links(header, of.len()) {
            continue;
        }
        let limit = suspicious(fitted.spread);
        for (at, residual) in of.into_iter().zip(&fitted.residuals).filter(|(_, residual)| **residual > limit) {
            let worst = found.entry((first[at].slot.near, first[at].slot.far)).or_insert(*residual);
            *worst = worst.max(*residual);
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    found.truncate(SUSPECTS.max(first.len() / SHARE_OF_SUSPECTS));
    found.into_iter().map(|(pair, _)| pair).collect()
}

/// Whether single links can be judged: each host has many pairs, and there are more pairs than the model has numbers. A
/// random sample has one measurement in many for a link, so that it finds hosts, not links.
pub(super) fn finds_links(header: &MeshHeader, values: usize) -> bool {
    !matches!(header.order.pairs, Pairs::Sample { .. }) && values >= 2 * header.hosts.len()
}
