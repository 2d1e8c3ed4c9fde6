//! Racks that are slow: all of their hosts, their uplink, or the network between two of them.
//!
//! The model gives what pairs of a rack with other racks have in common to its hosts. A slow uplink and slow hosts differ inside the
//! rack: there a slow uplink adds nothing, slow hosts add as much as both of them do (docs/method/mesh.md#racks).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_analyse::summary::Confidence;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::three_digits;
use msgpath_stats::describe::median;
use msgpath_stats::distributions::{normal_quantile, t_quantile};

use super::additive::{Effect, MEDIAN_ERROR};
use super::answers::{judged, judged_above, judged_without, push, times};
use super::model::{Added, Model, SURE, rack_of, values};
use super::waits::Usual;
use super::{MeshSummary, PairValues};
use crate::schema::MeshHeader;

/// This share of the hosts of a slow rack is slow, in percent.
const OF_A_RACK: usize = 80;
/// A rack with fewer slow hosts is its hosts.
const LEAST_OF_A_RACK: usize = 3;
/// Two racks have one link, which is that of both: an uplink needs a third one.
const LEAST_RACKS: usize = 3;
/// Fewer pairs between two racks say nothing of the racks.
const LEAST_BETWEEN: usize = 4;
/// One or two switches more may cost as much between the only two racks.
const USUAL_BETWEEN: f64 = 2.0;

/// What makes a rack slow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    Uplink,
    Hosts,
    /// With the reason.
    Unknown(&'static str),
}

/// A rack of which most hosts are slow.
#[derive(Clone, Debug)]
pub(super) struct SlowRack {
    pub(super) name: String,
    /// Hosts that were judged, and those of them that are slow.
    hosts: [usize; 2],
    confidence: Confidence,
    /// Logarithm of the factor of a host, in the median.
    log: f64,
    cause: Cause,
    inside: Inside,
}

/// The pairs of a rack.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    /// Number of pairs inside it.
    pairs: usize,
    /// Number of pairs with other racks.
    outside: usize,
    /// Logarithm of how much slower pairs inside it are than pairs inside other racks, with its standard error; `None`: not measured.
    excess: Option<(f64, f64)>,
}

impl SlowRack {
    /// Logarithm of what its uplink adds to each pair with another rack; `None`: its uplink is not known to be slow.
    pub(super) fn uplink(&self) -> Option<f64> {
        let (inside, _) = self.inside.excess.filter(|_| self.cause == Cause::Uplink)?;
        Some(if self.inside.is_slow() { self.log - inside / 2.0 } else { self.log })
    }

    /// Whether it has a sentence of its own; otherwise its hosts have.
    pub(super) fn is_named(&self) -> bool {
        self.cause != Cause::Hosts || self.hosts[1] >= LEAST_OF_A_RACK
    }

    /// Its sentence.
    pub(super) fn say(&self, several: &str, summary: &mut MeshSummary) {
        let Self { name, hosts: [judged, slow], inside, .. } = self;
        let factor = |log: f64| three_digits(log.exp());
        let waits = match self.confidence {
            Confidence::CantTell => "; their threads waited for CPUs, which may explain all of it",
            _ => "",
        };
        let counted = |pairs: usize| if pairs == 1 { "1 pair".into() } else { format!("{pairs} pairs") };
        let within = inside.excess.map_or_else(String::new, |(log, _)| factor(log));
        let log = self.uplink().unwrap_or(self.log);
        let text = match self.cause {
            Cause::Uplink => {
                let within = if inside.is_slow() {
                    format!("it is {within} times slower as well ({})", counted(inside.pairs))
                } else {
                    format!("it is normal ({within} times, {})", counted(inside.pairs))
                };
                format!(
                    "the uplink of rack {name} is {} times slower: its {} with other racks are; inside the rack {within}{several}{waits}",
                    factor(log),
                    counted(inside.outside)
                )
            }
            cause => {
                let why = match cause {
                    Cause::Unknown(why) => format!("; {why}"),
                    _ if inside.excess.is_some() => {
                        format!(", also inside it ({within} times, {}): it is not its uplink", counted(inside.pairs))
                    }
                    _ => String::new(),
                };
                let slower = factor(log);
                format!(
                    "rack {name} is {slower} times slower to everyone: {slow} of its {judged} hosts are{why}{several}{waits}"
                )
            }
        };
        let mut evidence = vec![("factor", log.exp()), ("hosts", *slow as f64)];
        evidence.extend(inside.excess.map(|(log, _)| ("inside", log.exp())));
        push(summary, "M02", self.confidence, text, &evidence, &[]);
    }
}

impl Inside {
    /// Whether pairs inside it are slower than pairs inside other racks.
    fn is_slow(&self) -> bool {
        self.excess.is_some_and(|(log, error)| judged(|share| log - normal_quantile(share) * error).is_some())
    }
}

/// The racks of which most hosts are slow, of hosts that were judged so.
pub(super) fn slow_racks(
    header: &MeshHeader,
    model: &Model,
    pairs: &[PairValues],
    slow: &[(usize, Confidence)],
) -> Vec<SlowRack> {
    let mut racks: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for at in 0..header.hosts.len() {
        if let Some(rack) = rack_of(header, at as u32).filter(|_| model.fitted.effects[at].is_some()) {
            let counts = racks.entry(rack).or_default();
            counts[0] += 1;
            counts[1] += usize::from(slow.iter().any(|(host, _)| *host == at));
        }
    }
    let several = racks.len() >= LEAST_RACKS;
    racks.retain(|_, [judged, slow]| *slow >= 2 && *slow * 100 >= *judged * OF_A_RACK);
    let names: BTreeSet<&str> = racks.keys().copied().collect();
    let found = racks.into_iter().map(|(name, hosts)| {
        let of_rack = || slow.iter().filter(|(at, _)| rack_of(header, *at as u32) == Some(name));
        let logs: Vec<f64> = of_rack().filter_map(|(at, _)| Some(model.fitted.effects[*at]?.log)).collect();
        // More than half of its hosts are at least so sure.
        let mut confidences: Vec<Confidence> = of_rack().map(|(_, confidence)| *confidence).collect();
        confidences.sort_unstable_by_key(|confidence| *confidence as u8);
        let confidence = confidences[confidences.len() / 2];
        let log = median(&logs);
        let inside = inside(header, model, pairs, name, &names);
        let cause = if several { cause(model, log, &inside) } else { Cause::Hosts };
        SlowRack { name: name.into(), hosts, confidence, log, cause, inside }
    });
    found.collect()
}

/// What pairs inside a rack have beyond those inside racks that are not slow.
fn inside(header: &MeshHeader, model: &Model, pairs: &[PairValues], name: &str, slow: &BTreeSet<&str>) -> Inside {
    let fitted = &model.fitted;
    let effect = |at: u32| fitted.effects[at as usize].map_or(0.0, |effect| effect.log);
    let (mut within, mut reference, mut outside) = (Vec::new(), Vec::new(), 0);
    for (at, residual) in model.of.iter().zip(&fitted.residuals) {
        let slot = pairs[*at].slot;
        let excess = residual + effect(slot.near) + effect(slot.far);
        match (rack_of(header, slot.near), rack_of(header, slot.far)) {
            (near, far) if near == Some(name) && far == near => within.push(excess),
            (near, far) if near == Some(name) || far == Some(name) => outside += 1,
            (Some(near), Some(far)) if near == far && !slow.contains(near) => reference.push(excess),
            _ => {}
        }
    }
    let excess = (!within.is_empty() && !reference.is_empty()).then(|| {
        let count = |values: &[f64]| 1.0 / values.len() as f64;
        let error = MEDIAN_ERROR * fitted.spread * (count(&within) + count(&reference)).sqrt();
        (median(&within) - median(&reference), error)
    });
    Inside { pairs: within.len(), outside, excess }
}

/// Slow hosts make pairs inside the rack slower by twice what they add to pairs with other racks, a slow uplink by nothing.
fn cause(model: &Model, log: f64, inside: &Inside) -> Cause {
    if inside.outside == 0 {
        return Cause::Hosts;
    }
    let Some((excess, error)) = inside.excess else {
        return Cause::Unknown(match inside.pairs {
            0 => "no pair inside it was measured, so it may be its uplink or its hosts",
            _ => "no pair inside a rack that is not slow was measured, so it may be its uplink or its hosts",
        });
    };
    let half = t_quantile(SURE, model.free()) * error;
    if excess + half < log {
        Cause::Uplink
    } else if excess - half > log {
        Cause::Hosts
    } else {
        Cause::Unknown("its pairs inside scatter too much to tell its uplink from its hosts")
    }
}

/// What the link between the only two racks adds to each of its pairs. It is said where it is more than some switches add.
pub(super) fn between_two(
    header: &MeshHeader,
    model: &Model,
    case: u32,
    several: &str,
    summary: &mut MeshSummary,
) -> Option<Added> {
    let names: BTreeSet<Option<&str>> = model
        .of
        .iter()
        .flat_map(|at| [summary.pairs[*at].slot.near, summary.pairs[*at].slot.far])
        .map(|at| rack_of(header, at))
        .collect();
    let [Some(a), Some(b)] = names.into_iter().collect::<Vec<_>>()[..] else { return None };
    let [mut inside_a, mut inside_b, mut between] = [const { Vec::new() }; 3];
    for (at, value) in values(&summary.pairs, case) {
        let slot = summary.pairs[at].slot;
        match (rack_of(header, slot.near), rack_of(header, slot.far)) {
            (near, far) if near != far => between.push(value),
            (near, _) if near == Some(a) => inside_a.push(value),
            _ => inside_b.push(value),
        }
    }
    if [&inside_a, &inside_b, &between].iter().any(|values| values.is_empty()) || !model.fitted.spread.is_finite() {
        return None;
    }
    // Whatever the hosts of a rack add, they add half of it to pairs with the other rack.
    let log = median(&between) - f64::midpoint(median(&inside_a), median(&inside_b));
    let share = |values: &[f64]| 1.0 / values.len() as f64;
    let variance = share(&between) + (share(&inside_a) + share(&inside_b)) / 4.0;
    let error = MEDIAN_ERROR * model.fitted.spread * variance.sqrt();
    let effect = Effect { log, error, pairs: model.free() as u32 + 1, camp: 0 };
    if let Some(confidence) = judged_above(USUAL_BETWEEN.ln(), |share| effect.at_least(share)) {
        let text = format!(
            "between racks {a} and {b} it is {} than inside them, over {} pairs; with two racks it cannot be told whose uplink it is{several}",
            times(effect.factor()),
            between.len()
        );
        push(summary, "M03", confidence, text, &[("factor", log.exp()), ("pairs", between.len() as f64)], &[]);
    }
    let mut added = Added::default();
    added.link((a, b), log);
    Some(added)
}

/// Pairs of racks between which, or racks inside which, everything is slow beyond what hosts and uplinks explain.
pub(super) fn slow_rack_pairs(
    header: &MeshHeader,
    model: &Model,
    usual: &Usual,
    slow: &BTreeSet<String>,
    several: &str,
    summary: &mut MeshSummary,
) -> BTreeSet<(String, String)> {
    let mut between: BTreeMap<(&str, &str), [Vec<f64>; 2]> = BTreeMap::new();
    for (at, residual) in model.of.iter().zip(&model.fitted.residuals) {
        let slot = summary.pairs[*at].slot;
        if let (Some(a), Some(b)) = (rack_of(header, slot.near), rack_of(header, slot.far)) {
            let [residuals, shifts] = between.entry((a.min(b), a.max(b))).or_default();
            residuals.push(*residual);
            shifts.push(usual.shift(&summary.pairs[*at], &[NEAR, FAR]));
        }
    }
    let mut found = BTreeSet::new();
    if between.len() < 3 {
        return found;
    }
    for ((a, b), [residuals, shifts]) in between {
        if residuals.len() < LEAST_BETWEEN || slow.contains(a) || slow.contains(b) {
            continue;
        }
        let log = median(&residuals);
        let error = MEDIAN_ERROR * model.fitted.spread / (residuals.len() as f64).sqrt();
        let effect = Effect { log, error, pairs: residuals.len() as u32, camp: 0 };
        if let Some(confidence) = judged_without(|share| effect.at_least(share), median(&shifts)) {
            let slower = times(effect.factor());
            let place = if a == b {
                format!("inside rack {a} it is {slower} than inside other racks")
            } else {
                format!("between racks {a} and {b} it is {slower} than between other racks")
            };
            let waits = match confidence {
                Confidence::CantTell => "; threads waited for CPUs there, which may explain all of it",
                _ => "",
            };
            let text =
                format!("{place}, beyond what the hosts explain, over {} pairs{several}{waits}", residuals.len());
            push(summary, "M03", confidence, text, &[("factor", log.exp()), ("pairs", residuals.len() as f64)], &[]);
            found.insert((a.to_string(), b.to_string()));
        }
    }
    found
}
