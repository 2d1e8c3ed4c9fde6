//! Hosts that stall or have a long tail: their medians are as those of others, some of their messages are not.
//!
//! The model of medians ([`super::model`]) fitted to two other values of a pair: the share of its time that passes in stalls, and its
//! p99 (docs/method/mesh.md#stalls).

use std::collections::BTreeMap;

use msgpath_analyse::summary::Confidence;
use msgpath_core::SparseHistogram;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::describe::median;
use serde::Serialize;

use super::additive::{Effect, MEDIAN_ERROR};
use super::answers::{judged_above, may_explain, push};
use super::model::{LEAST_SPREAD, Model, fit};
use super::waits::Waits;
use super::{MeshSummary, PairValues, Waited};
use crate::schema::{MeshHeader, PairPurpose, PairRound};

/// A round trip is a stall that takes longer than this, ns ...
const STALL_NS: f64 = 1e6;
/// ... and than so many medians of its pair.
const STALL_MEDIANS: f64 = 5.0;
/// A host stalls where it adds more than this share to the time of its pairs.
const LEAST_SHARE: f64 = 0.02;
/// A host has a long tail where its p99 is longer by more than this factor.
const LEAST_TAIL: f64 = 1.5;

/// Round trips of a pair that took far longer than its median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// Stalls a second.
    pub per_s: f64,
    /// What a stall takes beyond the median, in the mean, ns; 0: there is none.
    pub mean_ns: f64,
    /// Share of the time of the pair that they take.
    pub share: f64,
}

impl Stalls {
    /// Of the rounds of a pair with this median, ns.
    pub(super) fn of(rounds: &[PairRound], p50_ns: f64) -> Self {
        let limit = STALL_NS.max(STALL_MEDIANS * p50_ns);
        let ranges = rounds.iter().flat_map(|round| round.latency.ranges());
        let stalls = ranges.filter(|(low, ..)| *low as f64 > limit);
        let (count, ns) = stalls.fold((0, 0.0), |(count, ns), (low, high, messages)| {
            (count + messages, ns + messages as f64 * (low.midpoint(high) as f64 - p50_ns))
        });
        let total: f64 = rounds.iter().map(|round| SparseHistogram::sum(&round.latency) as f64).sum();
        let elapsed_s: f64 = rounds.iter().map(|round| round.elapsed_ns as f64 / 1e9).sum();
        if count == 0 || elapsed_s <= 0.0 {
            return Self::default();
        }
        let share = (ns / total.max(1.0)).clamp(0.0, 1.0);
        Self { per_s: count as f64 / elapsed_s, mean_ns: ns / count as f64, share }
    }

    /// The logarithm of how much longer they make the pair whose ends waited so for busy CPUs, which may have been stalls; shares of
    /// two hosts add up in it.
    fn log(self, waited: Option<[Waited; 2]>) -> f64 {
        let waits: f64 = waited.iter().flatten().filter(|end| end.busy).map(|end| end.share).sum();
        -(1.0 - (self.share - waits).clamp(0.0, 0.99)).ln()
    }
}

/// How sure it is that an effect lies above `least`.
fn judged(effect: Effect, least: f64) -> Option<Confidence> {
    judged_above(least, |share| effect.at_least(share))
}

/// The effects of hosts; a spread of nearly nothing is not believed.
fn effects(model: &Model) -> Vec<Option<Effect>> {
    let least = |effect: Effect| {
        let error = MEDIAN_ERROR * LEAST_SPREAD / f64::from(effect.pairs.max(1)).sqrt();
        Effect { error: effect.error.max(error), ..effect }
    };
    model.fitted.effects.iter().map(|effect| effect.filter(|_| model.fitted.spread.is_finite()).map(least)).collect()
}

/// A host with stalls or a long tail.
struct Slow {
    host: u32,
    confidence: Confidence,
    text: String,
    /// It stalls, else it has a long tail.
    stalls: bool,
    evidence: [(&'static str, f64); 3],
}

/// The hosts that stall, and those with a long tail.
pub(super) fn say(
    header: &MeshHeader,
    case: u32,
    busy: &BTreeMap<u32, Waits>,
    several: &str,
    summary: &mut MeshSummary,
) {
    let pairs: Vec<usize> = (0..summary.pairs.len())
        .filter(|at| {
            let pair = &summary.pairs[*at];
            pair.case == case && pair.slot.purpose == PairPurpose::Mesh
        })
        .collect();
    let mut found = stalling(header, &summary.pairs, &pairs);
    for slow in long_tails(header, &summary.pairs, &pairs) {
        if found.iter().all(|other| other.host != slow.host) {
            found.push(slow);
        }
    }
    for Slow { host, mut confidence, mut text, stalls, evidence } in found {
        text += several;
        if busy.contains_key(&host) {
            // Waits of its threads are not in its stalls, those of the kernel's threads are; both are in its tail.
            confidence = match confidence {
                Confidence::Sure if stalls => Confidence::Likely,
                Confidence::Sure => Confidence::CantTell,
                _ => continue,
            };
            let its = pairs.iter().map(|at| &summary.pairs[*at]);
            let ends: Vec<Waited> = its.filter_map(|pair| Some(pair.waited?[pair.slot.end_of(host)?])).collect();
            text += &may_explain(header, confidence, &ends, &[host]);
        }
        let next = [format!("msgpath doctor   # on {}", header.host(host))];
        push(summary, "M09", confidence, text, &evidence, &next);
    }
}

/// Hosts that were judged, with how sure it is.
type Judged = BTreeMap<u32, Confidence>;

/// Medians over pairs.
struct Medians<'a> {
    pairs: Vec<&'a PairValues>,
}

impl<'a> Medians<'a> {
    /// Of the pairs of a host.
    fn of(pairs: &'a [PairValues], model: &Model, host: u32) -> Self {
        Self::kept(pairs, model, |near, far| near == host || far == host)
    }

    /// Of pairs of none of these hosts.
    fn others(pairs: &'a [PairValues], model: &Model, hosts: &Judged) -> Self {
        Self::kept(pairs, model, |near, far| !hosts.contains_key(&near) && !hosts.contains_key(&far))
    }

    fn kept(pairs: &'a [PairValues], model: &Model, keep: impl Fn(u32, u32) -> bool) -> Self {
        let all = model.of.iter().map(|at| &pairs[*at]);
        Self { pairs: all.filter(|pair| keep(pair.slot.near, pair.slot.far)).collect() }
    }

    /// `None`: there is no such pair.
    fn get(&self, number: impl Fn(&PairValues) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.pairs.iter().map(|pair| number(pair)).collect();
        (!values.is_empty()).then(|| median(&values))
    }
}

fn percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

fn stalling(header: &MeshHeader, pairs: &[PairValues], positions: &[usize]) -> Vec<Slow> {
    let values = positions.iter().filter_map(|at| Some((*at, pairs[*at].stalls?.log(pairs[*at].waited))));
    let model = fit(header, pairs, values);
    let judge = |(host, effect): (u32, Option<Effect>)| Some((host, judged(effect?, -(1.0 - LEAST_SHARE).ln())?));
    let slow: Judged = (0..).zip(effects(&model)).filter_map(judge).collect();
    let stalls = |pair: &PairValues| pair.stalls.unwrap_or_default();
    let others = Medians::others(pairs, &model, &slow).get(|pair| stalls(pair).share);
    let others = others.map_or_else(String::new, |others| format!(", of other pairs {}", percent(others)));
    let say = |(host, confidence): (&u32, &Confidence)| {
        let its = Medians::of(pairs, &model, *host);
        let share = its.get(|pair| stalls(pair).share)?;
        let (per_s, ns) = (its.get(|pair| stalls(pair).per_s)?, its.get(|pair| stalls(pair).mean_ns)?);
        let text = format!(
            "{} stalls {} times a second for {}: {} of the time of its {} pairs passes so{others}",
            header.host(*host),
            three_digits(per_s),
            Glyphs::Unicode.time(ns),
            percent(share),
            its.pairs.len(),
        );
        let evidence = [("share", share), ("per_s", per_s), ("ns", ns)];
        Some(Slow { host: *host, confidence: *confidence, text, stalls: true, evidence })
    };
    slow.iter().filter_map(say).collect()
}

/// Hosts whose p99 is longer than that of others, and not only because their median is.
fn long_tails(header: &MeshHeader, pairs: &[PairValues], positions: &[usize]) -> Vec<Slow> {
    let log = |pair: &PairValues| Some((pair.p99?.ns.max(1.0).ln(), pair.p50?.ns.max(1.0).ln()));
    let tail = fit(header, pairs, positions.iter().filter_map(|at| Some((*at, log(&pairs[*at])?.0))));
    let beyond = positions.iter().filter_map(|at| log(&pairs[*at]).map(|(p99, p50)| (*at, p99 - p50)));
    let beyond = fit(header, pairs, beyond);
    let judge = |(host, (tail, beyond)): (u32, (Option<Effect>, Option<Effect>))| {
        let [tail, beyond] = [judged(tail?, LEAST_TAIL.ln())?, judged(beyond?, LEAST_TAIL.ln())?];
        Some((host, if tail as u8 > beyond as u8 { tail } else { beyond }))
    };
    let slow: Judged = (0..).zip(effects(&tail).into_iter().zip(effects(&beyond))).filter_map(judge).collect();
    let p99 = |pair: &PairValues| pair.p99.map_or(0.0, |value| value.ns);
    let ratio = |pair: &PairValues| pair.p50.map_or(0.0, |value| p99(pair) / value.ns.max(1.0));
    let others = Medians::others(pairs, &beyond, &slow);
    let others = others.get(p99).zip(others.get(ratio)).map_or_else(String::new, |(ns, ratio)| {
        format!("; of other pairs it is {}, {} times", Glyphs::Unicode.time(ns), three_digits(ratio))
    });
    let say = |(host, confidence): (&u32, &Confidence)| {
        let its = Medians::of(pairs, &beyond, *host);
        let (ns, of_median) = (its.get(p99)?, its.get(ratio)?);
        let text = format!(
            "{} has a long tail: p99 of its {} pairs is {}, {} times p50{others}",
            header.host(*host),
            its.pairs.len(),
            Glyphs::Unicode.time(ns),
            three_digits(of_median),
        );
        let evidence = [("p99_ns", ns), ("of_p50", of_median), ("pairs", its.pairs.len() as f64)];
        Some(Slow { host: *host, confidence: *confidence, text, stalls: false, evidence })
    };
    slow.iter().filter_map(say).collect()
}
