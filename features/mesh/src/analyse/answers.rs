//! The sentences of a mesh: slow hosts, racks and links, what parallel measurement cost, what is missing, and what would
//! have been found.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::{range, size, three_digits};
use msgpath_stats::describe::median;
use msgpath_stats::distributions::{normal_quantile, normal_share, t_quantile};
use msgpath_stats::estimate::mean_estimate;

use super::additive::Effect;
use super::model::{
    Added, LEAST_FACTOR, LEAST_SPREAD, LIKELY, MeshPower, Model, SURE, finds_links, log, model, model_without, power,
    rack_of, suspicious,
};
use super::racks::{self, SlowRack, slow_rack_pairs};
use super::stalls;
use super::waits::{Usual, Waits, percent};
use super::{HostEffect, MeshCase, MeshLevel, MeshSummary, PairTime, PairValues, Waited};
use crate::hosts::fold;
use crate::schema::{Directions, MeshHeader, PairPurpose};

/// A residual that was seen three times is real from so many standard deviations on.
const SEEN_AGAIN: f64 = 2.5;
/// So many links, at most, may be slow each time by chance where one is called surely slow.
const MOST_BY_CHANCE: f64 = 0.01;
/// Slow links that have a sentence of their own.
const MOST_LINKS: usize = 20;

/// Where only a host that is slower by more than this would have been found, none is called absent.
const WORTH_SAYING: f64 = 10.0;

/// Fits every case and says what follows.
pub(super) fn fill(header: &MeshHeader, summary: &mut MeshSummary) {
    missing(header, summary);
    for case in &header.plan.cases {
        let name = format!("{} {}", case.path, size(case.size));
        let several = if header.plan.cases.len() > 1 { format!(" ({name})") } else { String::new() };
        let usual = Usual::of(&summary.pairs, case.id);
        let busy = usual.busy_hosts(&summary.pairs, case.id);
        let found = judge(header, case.id, (&usual, &busy), &several, summary);
        let Model { fitted, of, names } = &found.model;
        for (at, residual) in of.iter().zip(&fitted.residuals) {
            summary.pairs[*at].residual = Some(residual.exp());
        }
        let typical = fitted.effects.iter().flatten().map(|effect| f64::from(effect.pairs)).collect::<Vec<_>>();
        let pairs_of_a_host = if typical.is_empty() { 0 } else { median(&typical) as u32 };
        let known = fitted.spread.is_finite();
        let power = (known && pairs_of_a_host > 0).then(|| power(pairs_of_a_host, fitted.spread));
        let mut failed = vec![0; header.hosts.len()];
        for slot in summary.missing.iter().map(|one| one.slot).filter(|slot| slot.purpose == PairPurpose::Mesh) {
            failed[slot.near as usize] += 1;
            failed[slot.far as usize] += 1;
        }
        let hosts = (0..).zip(&header.hosts).zip(&fitted.effects).zip(&failed);
        let hosts = hosts.map(|(((at, host), effect), failed)| HostEffect {
            host: host.spec.name.clone(),
            rack: host.spec.rack.clone(),
            factor: effect.filter(|_| known).map(|effect| effect.factor()),
            pairs: effect.map_or(0, |effect| effect.pairs),
            failed: *failed,
            busy: busy.get(&at).map(|waits: &Waits| waits.share),
        });
        let hosts: Vec<HostEffect> = hosts.collect();
        let mut said = slow_hosts(header, &found, &several, summary);
        said.extend(found.uplinks.iter().cloned());
        let slow_between = slow_rack_pairs(header, &found.model, &usual, &said, &several, summary);
        slow_links(header, &found.model, &usual, &slow_between, &several, summary);
        stalls::say(header, case.id, &busy, &several, summary);
        busy_hosts(header, &busy, &several, summary);
        alone(&summary.pairs, case.id, &several).into_iter().for_each(|finding| summary.findings.push(finding));
        let levels = levels_of(header, &summary.pairs, case.id, names);
        summary.cases.push(MeshCase {
            case: case.id,
            name,
            hosts,
            levels,
            spread: known.then_some(fitted.spread),
            power,
        });
    }
    let silent = summary.findings.iter().all(|finding| finding.code == "M08");
    if silent && summary.cases.iter().all(|case| case.spread.is_none()) && summary.measured > 0 {
        let text = "so few pairs do not tell which host is slow: a mesh of four hosts or more does".into();
        push(summary, "M06", Confidence::CantTell, text, &[], &[]);
    }
    let culprit = |finding: &Finding| ["M01", "M02", "M03", "M04", "M09"].contains(&finding.code.as_str());
    if !summary.findings.iter().any(culprit)
        && let Some(power) = summary.cases.iter().filter_map(|case| case.power).next()
    {
        let (confidence, text) = nobody_found(power);
        push(summary, "M06", confidence, text, &[("factor", power.factor), ("spread", power.spread)], &[]);
    }
    let rank = |finding: &Finding| (finding.confidence as u8, finding.code != "M05");
    summary.findings.sort_by_key(|finding| (finding.code == "M06", rank(finding)));
}

/// What it means that nothing slow was found: how slow it would have to be.
fn nobody_found(power: MeshPower) -> (Confidence, String) {
    let share = power.share * 100.0;
    if power.factor > WORTH_SAYING {
        let least = if power.factor > 100.0 { "more than 100".into() } else { three_digits(power.factor) };
        let text = format!(
            "the pairs differ too much to tell whether a host, rack or link is slower than the others: a host would have to be \
             {least} times slower to be found with {share:.0} %"
        );
        return (Confidence::CantTell, text);
    }
    let text = format!(
        "no host, rack or link is found to be more than {LEAST_FACTOR} times slower than the others; a host that is {} times \
         slower would have been found with {share:.0} %",
        three_digits(power.factor)
    );
    (Confidence::Likely, text)
}

pub(super) fn push(
    summary: &mut MeshSummary,
    code: &str,
    confidence: Confidence,
    text: String,
    evidence: &[(&str, f64)],
    next: &[String],
) {
    let evidence = evidence.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    summary.findings.push(Finding { code: code.into(), confidence, text, evidence, next: next.to_vec() });
}

/// `1.90 times slower (95 %: 1.70 to 2.10)`.
pub(super) fn times([low, value, high]: [f64; 3]) -> String {
    format!("{} times slower (95 %: {})", three_digits(value), range(three_digits(low), three_digits(high)))
}

/// How sure it is that the bound of a confidence lies above the least factor.
pub(super) fn judged(at_least: impl Fn(f64) -> f64) -> Option<Confidence> {
    judged_above(LEAST_FACTOR.ln(), at_least)
}

/// How sure it is that the bound of a confidence lies above this.
pub(super) fn judged_above(least: f64, at_least: impl Fn(f64) -> f64) -> Option<Confidence> {
    match (at_least(SURE) > least, at_least(LIKELY) > least) {
        (true, _) => Some(Confidence::Sure),
        (_, true) => Some(Confidence::Likely),
        _ => None,
    }
}

/// The same for what waits for a CPU may have made slower by this (`shift`, 0 or less): how sure it is without them. What they
/// may explain is not known.
pub(super) fn judged_without(at_least: impl Fn(f64) -> f64, shift: f64) -> Option<Confidence> {
    let with = judged(&at_least)?;
    match judged(|share| at_least(share) + shift) {
        Some(without) => Some(if without as u8 > with as u8 { without } else { with }),
        None => Some(Confidence::CantTell),
    }
}

/// The pairs of a host that the model rests on, with the end that it is of each.
fn pairs_of<'a>(model: &'a Model, pairs: &'a [PairValues], host: u32) -> impl Iterator<Item = (&'a PairValues, usize)> {
    model.of.iter().map(|at| &pairs[*at]).filter_map(move |pair| Some((pair, pair.slot.end_of(host)?)))
}

/// What is said where waits may explain a part of it, or all.
pub(super) fn may_explain(header: &MeshHeader, confidence: Confidence, ends: &[Waited], hosts: &[u32]) -> String {
    let waits = Waits::of(ends);
    let part = if confidence == Confidence::CantTell { "all" } else { "most" };
    let cause = waits.cause(header, hosts);
    format!(
        "; its threads waited {} of the time for a CPU ({cause}), which may explain {part} of it",
        percent(waits.share)
    )
}

/// Hosts that a CPU quota stopped. The time for which they stand still falls on whichever pair is measured then, so these pairs say
/// nothing of the other host.
struct Stopped {
    hosts: BTreeSet<u32>,
    /// Of the pairs of the other hosts among each other; `None`: no host was stopped.
    others: Option<Model>,
}

impl Stopped {
    fn of(header: &MeshHeader, pairs: &[PairValues], case: u32, busy: &BTreeMap<u32, Waits>, added: &Added) -> Self {
        let hosts: BTreeSet<u32> = busy.iter().filter(|(_, waits)| waits.by_quota()).map(|(host, _)| *host).collect();
        let others = (!hosts.is_empty()).then(|| model_without(header, pairs, case, (added, &hosts)));
        Self { hosts, others }
    }

    /// How sure it is that a host is slow, of which all pairs say so with this confidence.
    fn judge(&self, host: usize, confidence: Confidence) -> Confidence {
        let Some(others) = self.others.as_ref().filter(|_| !self.hosts.contains(&(host as u32))) else {
            return confidence;
        };
        let without = others.fitted.effects[host].and_then(|effect| judged(|share| effect.at_least(share)));
        let without = without.filter(|_| others.fitted.spread.is_finite()).unwrap_or(Confidence::CantTell);
        if without as u8 > confidence as u8 { without } else { confidence }
    }
}

/// Who was measured on a busy machine, whatever came of it. A quota is a sentence of its own.
fn busy_hosts(header: &MeshHeader, busy: &BTreeMap<u32, Waits>, several: &str, summary: &mut MeshSummary) {
    let (stopped, busy): (BTreeMap<u32, &Waits>, BTreeMap<u32, &Waits>) =
        busy.iter().map(|(host, waits)| (*host, waits)).partition(|(_, waits)| waits.by_quota());
    for (host, waits) in stopped {
        let text = format!("{} waited for a CPU: {}{several}", header.host(host), waits.cause(header, &[host]));
        let next = ["raise cpu.max of its control group, and measure again".to_string()];
        push(summary, "M08", Confidence::Sure, text, &[("hosts", 1.0), ("share", waits.share)], &next);
    }
    let Some(most) = busy.values().max_by(|a, b| a.share.total_cmp(&b.share)) else { return };
    let hosts: Vec<u32> = busy.keys().copied().collect();
    let names = fold(hosts.iter().map(|at| header.host(*at)));
    let text = format!(
        "the CPUs of {names} ({} of {} hosts) were busy: threads that measured waited up to {} of the time for one ({}){several}",
        hosts.len(),
        header.hosts.len(),
        percent(most.share),
        most.cause(header, &hosts)
    );
    let evidence = [("hosts", hosts.len() as f64), ("share", most.share)];
    push(summary, "M08", Confidence::Sure, text, &evidence, &["the same mesh when they are idle".to_string()]);
}

/// The hosts that are slow to everyone, and how sure it is.
fn judged_hosts(model: &Model, stopped: &Stopped, usual: &Usual, pairs: &[PairValues]) -> Vec<(usize, Confidence)> {
    let judge = |(at, effect): (usize, &Option<Effect>)| {
        let effect = (*effect)?;
        let shifts: Vec<f64> = pairs_of(model, pairs, at as u32).map(|(pair, end)| usual.shift(pair, &[end])).collect();
        let shift = if shifts.is_empty() { 0.0 } else { median(&shifts) };
        let confidence = judged_without(|share| effect.at_least(share), shift)?;
        Some((at, stopped.judge(at, confidence)))
    };
    model.fitted.effects.iter().enumerate().filter_map(judge).collect()
}

/// A case, without what the network between racks adds.
struct Judged {
    model: Model,
    stopped: Stopped,
    slow: Vec<(usize, Confidence)>,
    /// Racks of which most hosts are slow.
    racks: Vec<SlowRack>,
    /// Racks whose uplink was found to be slow.
    uplinks: BTreeSet<String>,
}

/// Judges the hosts and racks of a case, and says which uplinks are slow.
fn judge(
    header: &MeshHeader,
    case: u32,
    (usual, busy): (&Usual, &BTreeMap<u32, Waits>),
    several: &str,
    summary: &mut MeshSummary,
) -> Judged {
    let first = model(header, &summary.pairs, case, &Added::default());
    let mut added = racks::between_two(header, &first, case, several, summary).unwrap_or_default();
    let mut uplinks = BTreeSet::new();
    // The second time without the uplinks that the first one finds.
    loop {
        let model = model(header, &summary.pairs, case, &added);
        let stopped = Stopped::of(header, &summary.pairs, case, busy, &added);
        let slow = judged_hosts(&model, &stopped, usual, &summary.pairs);
        let racks = racks::slow_racks(header, &model, &summary.pairs, &slow);
        let found: Vec<(&SlowRack, f64)> = racks.iter().filter_map(|rack| Some((rack, rack.uplink()?))).collect();
        if found.is_empty() || !uplinks.is_empty() {
            return Judged { model, stopped, slow, racks, uplinks };
        }
        for (rack, log) in found {
            rack.say(several, summary);
            added.uplink(&rack.name, log);
            uplinks.insert(rack.name.clone());
        }
    }
}

/// Racks and hosts that are slow to everyone. The racks that are said.
fn slow_hosts(header: &MeshHeader, judged_case: &Judged, several: &str, summary: &mut MeshSummary) -> BTreeSet<String> {
    let Judged { model, stopped, slow, racks, .. } = judged_case;
    let named: Vec<&SlowRack> = racks.iter().filter(|rack| rack.is_named()).collect();
    named.iter().for_each(|rack| rack.say(several, summary));
    let named: BTreeSet<String> = named.into_iter().map(|rack| rack.name.clone()).collect();
    let mut slow = slow.clone();
    slow.retain(|(at, _)| rack_of(header, *at as u32).is_none_or(|rack| !named.contains(rack)));
    let log_of = |at: usize| model.fitted.effects[at].map_or(0.0, |effect| effect.log);
    slow.sort_by(|(a, _), (b, _)| log_of(*b).total_cmp(&log_of(*a)));
    for (at, confidence) in slow {
        let Some(effect) = model.fitted.effects[at] else { continue };
        let name = &header.hosts[at].spec.name;
        let factor = effect.factor();
        let mut text = format!("{name} is {} to everyone, over {} pairs{several}", times(factor), effect.pairs);
        let with = judged(|share| effect.at_least(share));
        if with != Some(confidence) && stopped.judge(at, Confidence::Sure) == confidence {
            let names = fold(stopped.hosts.iter().map(|at| header.host(*at)));
            text += &format!("; this rests on its pairs with {names}, which a CPU quota stopped");
        } else if with != Some(confidence) {
            let ends = pairs_of(model, &summary.pairs, at as u32);
            let ends: Vec<Waited> = ends.filter_map(|(pair, end)| Some(pair.waited?[end])).collect();
            text += &may_explain(header, confidence, &ends, &[at as u32]);
        }
        let next = [format!("msgpath doctor   # on {name}")];
        push(summary, "M01", confidence, text, &[("factor", factor[1]), ("pairs", f64::from(effect.pairs))], &next);
    }
    named
}

/// Links that are slow, seen each time they were measured.
fn slow_links(
    header: &MeshHeader,
    model: &Model,
    usual: &Usual,
    slow_between: &BTreeSet<(String, String)>,
    several: &str,
    summary: &mut MeshSummary,
) {
    if !finds_links(header, model.of.len()) {
        return;
    }
    let spread = model.fitted.spread.max(LEAST_SPREAD);
    let case = model.of.first().map(|at| summary.pairs[*at].case);
    let least = (SEEN_AGAIN * spread).max(LEAST_FACTOR.ln());
    let mut measurements: BTreeMap<(u32, u32), Vec<&PairValues>> = BTreeMap::new();
    for pair in summary.pairs.iter().filter(|pair| Some(pair.case) == case && pair.slot.purpose != PairPurpose::Alone) {
        measurements.entry((pair.slot.near, pair.slot.far)).or_default().extend(log(pair).map(|_| pair));
    }
    let measured: BTreeMap<(u32, u32), &PairValues> =
        model.of.iter().map(|at| &summary.pairs[*at]).map(|pair| ((pair.slot.near, pair.slot.far), pair)).collect();
    let residual_of: BTreeMap<(u32, u32), f64> = model
        .of
        .iter()
        .zip(&model.fitted.residuals)
        .map(|(at, residual)| ((summary.pairs[*at].slot.near, summary.pairs[*at].slot.far), *residual))
        .collect();
    let again = || measurements.iter().filter(|(_, seen)| seen.len() >= 3);
    let confirmed: BTreeMap<(u32, u32), Confidence> = again()
        .filter_map(|(pair, seen)| Some((*pair, SeenAgain::new(seen, model, *residual_of.get(pair)?)?.judge(model)?)))
        .collect();
    // Something passes this share of the measurements; three in a row of so many pairs.
    let passing = (again().count() - confirmed.len()) as f64 + 0.5;
    let by_chance = passing.powi(3) / (model.of.len() as f64).powi(2);
    let mut slow: Vec<((u32, u32), f64)> = residual_of
        .iter()
        .filter(|(_, residual)| **residual > least)
        .map(|(pair, residual)| (*pair, *residual))
        .collect();
    slow.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let rack = |at: u32| header.hosts[at as usize].spec.rack.clone().unwrap_or_default();
    let mut said = Vec::new();
    for ((near, far), residual) in slow.into_iter().take(MOST_LINKS) {
        let (a, b) = (rack(near), rack(far));
        if slow_between.contains(&(a.clone().min(b.clone()), a.max(b))) {
            continue;
        }
        let seen = measurements.get(&(near, far)).map_or(&[][..], Vec::as_slice);
        let times_seen = seen.len();
        let confidence = match times_seen {
            3.. => match confirmed.get(&(near, far)) {
                Some(Confidence::Sure) if by_chance > MOST_BY_CHANCE => Confidence::Likely,
                Some(confidence) => *confidence,
                None => continue,
            },
            // Once is chance in one pair of some hundreds: it is said where it is beyond what is measured again.
            _ if header.order.retests == 0 && residual > suspicious(spread) => Confidence::CantTell,
            2 => Confidence::Likely,
            _ => continue,
        };
        // Retests are of other times, in which other work had the CPUs, or the same.
        let pair = measured.get(&(near, far));
        let shift = pair.map_or(0.0, |pair| usual.shift(pair, &[NEAR, FAR]));
        let left = residual + shift > least;
        let confidence = if left { confidence } else { Confidence::CantTell };
        let waits = match pair.and_then(|pair| pair.waited).filter(|_| !left) {
            Some(ends) => may_explain(header, confidence, &ends, &[near, far]).replacen("its", "their", 1),
            None => String::new(),
        };
        let (near_name, far_name) = (header.host(near), header.host(far));
        let factor = three_digits(residual.exp());
        let back = residual_of.get(&(far, near)).filter(|_| header.order.directions == Directions::Both);
        let text = match back {
            Some(back) if *back < residual / 2.0 => {
                format!(
                    "{near_name} to {far_name} is {factor} times slower than its hosts explain, {far_name} to {near_name} is not"
                )
            }
            _ => format!("between {near_name} and {far_name} it is {factor} times slower than the hosts explain"),
        };
        let often = if times_seen > 1 { format!(", measured {times_seen} times") } else { ", measured once".into() };
        let evidence = [("factor", residual.exp()), ("times", times_seen as f64)];
        said.push((confidence, format!("{text}{often}{several}{waits}"), evidence));
    }
    for (confidence, text, evidence) in said {
        push(summary, "M04", confidence, text, &evidence, &[]);
    }
}

/// A pair that was measured several times.
struct SeenAgain<'a> {
    seen: &'a [&'a PairValues],
    /// What its hosts explain of its logarithm.
    explained: f64,
    /// The standard error of that.
    error: f64,
}

impl<'a> SeenAgain<'a> {
    fn new(seen: &'a [&'a PairValues], model: &Model, residual: f64) -> Option<Self> {
        let slot = seen.first()?.slot;
        let error = |at: u32| model.fitted.effects[at as usize].map_or(0.0, |effect| effect.error);
        let logs: Vec<f64> = seen.iter().filter_map(|pair| log(pair)).collect();
        Some(Self { seen, explained: median(&logs) - residual, error: error(slot.near).hypot(error(slot.far)) })
    }

    /// How sure it is that it is slow. One of its measurements was picked because it was slow, and something that passes may be there
    /// in another one: sure is what was slow in each.
    fn judge(&self, model: &Model) -> Option<Confidence> {
        let spread = model.fitted.spread.max(LEAST_SPREAD);
        let beyond = t_quantile(normal_share(SEEN_AGAIN), model.free()) * spread.hypot(self.error);
        let least = LEAST_FACTOR.ln() + normal_quantile(SURE) * self.error;
        let values = |pairs: &mut dyn Iterator<Item = &PairTime>, get: fn(&PairTime) -> f64| {
            pairs.map(|time| get(time).max(1.0).ln() - self.explained).collect::<Vec<f64>>()
        };
        let all = || self.seen.iter().filter_map(|pair| pair.p50.as_ref());
        let lows = values(&mut all(), |time| time.lo_ns);
        if values(&mut all(), |time| time.ns).iter().all(|value| *value > least.max(beyond))
            && lows.iter().all(|low| *low > LEAST_FACTOR.ln())
        {
            return Some(Confidence::Sure);
        }
        let again = self.seen.iter().filter(|pair| pair.slot.purpose == PairPurpose::Retest);
        let again = values(&mut again.filter_map(|pair| pair.p50.as_ref()), |time| time.ns);
        let mean = again.iter().sum::<f64>() / again.len() as f64;
        (mean > (SEEN_AGAIN * spread).max(LEAST_FACTOR.ln()) && again.iter().all(|value| *value > LEAST_FACTOR.ln()))
            .then_some(Confidence::Likely)
    }
}

/// What it costs that pairs are measured together.
fn alone(pairs: &[PairValues], case: u32, several: &str) -> Option<Finding> {
    let of = |purpose: PairPurpose| {
        let own = pairs.iter().filter(move |pair| pair.case == case && pair.slot.purpose == purpose);
        own.filter_map(|pair| Some(((pair.slot.near, pair.slot.far), log(pair)?))).collect::<BTreeMap<_, _>>()
    };
    let together = of(PairPurpose::Mesh);
    let ratios: Vec<f64> =
        of(PairPurpose::Alone).iter().filter_map(|(pair, alone)| Some(together.get(pair)? - alone)).collect();
    let found = mean_estimate(&ratios)?;
    let percent = |log: f64| format!("{:.1}", (log.exp() - 1.0) * 100.0);
    let (Some(low), Some(high)) = (found.low, found.high) else {
        let text = format!(
            "{} pairs were measured alone as well: too few to say what parallel steps cost{several}",
            ratios.len()
        );
        return Some(Finding {
            code: "M05".into(),
            confidence: Confidence::CantTell,
            text,
            evidence: BTreeMap::new(),
            next: Vec::new(),
        });
    };
    let interval = format!("(95 %: {} %, {} pairs alone)", range(percent(low), percent(high)), ratios.len());
    let (confidence, text) = match (low > 0.0, high < 0.0) {
        (true, _) => {
            (Confidence::Sure, format!("pairs in parallel are {} % slower {interval}{several}", percent(found.value)))
        }
        (_, true) => {
            (Confidence::Sure, format!("pairs in parallel are {} % faster {interval}{several}", percent(-found.value)))
        }
        _ => (Confidence::Likely, format!("pairs in parallel do not disturb each other {interval}{several}")),
    };
    let next = if low > 0.02 { vec!["--parallel with half as many".to_string()] } else { Vec::new() };
    let evidence = BTreeMap::from([("log_ratio".to_string(), found.value)]);
    Some(Finding { code: "M05".into(), confidence, text, evidence, next })
}

/// Pairs without a result, by what they have in common.
fn missing(header: &MeshHeader, summary: &mut MeshSummary) {
    if summary.missing.is_empty() {
        return;
    }
    let mut of: BTreeMap<u32, usize> = BTreeMap::new();
    for slot in summary.missing.iter().map(|one| one.slot) {
        *of.entry(slot.near).or_default() += 1;
        *of.entry(slot.far).or_default() += 1;
    }
    let mut measured = BTreeSet::new();
    for pair in summary.pairs.iter().filter(|pair| pair.p50.is_some()) {
        measured.extend([pair.slot.near, pair.slot.far]);
    }
    let dead: Vec<&str> = of.keys().filter(|at| !measured.contains(at)).map(|at| header.host(*at)).collect();
    let why = &summary.missing[0].problem;
    let count = summary.missing.len();
    let pairs = if count == 1 { "1 pair has".into() } else { format!("{count} pairs have") };
    let text = if dead.is_empty() {
        format!("{pairs} no result: {}", why.in_a_line())
    } else {
        format!("{pairs} no result: nothing was measured with {}: {}", fold(dead.iter().copied()), why.in_a_line())
    };
    let next = [format!("msgpath mesh --resume {}", header.name)];
    push(summary, "M07", Confidence::Sure, text.trim().into(), &[("pairs", count as f64)], &next);
}

/// Medians over the pairs of each level.
fn levels_of(header: &MeshHeader, pairs: &[PairValues], case: u32, names: &[&str]) -> Vec<MeshLevel> {
    let of = |number: usize| {
        let own = |pair: &&PairValues| {
            let level = super::model::level(header, pair.slot.near, pair.slot.far) as usize;
            pair.case == case && pair.slot.purpose == PairPurpose::Mesh && level.min(names.len() - 1) == number
        };
        let own: Vec<&PairValues> = pairs.iter().filter(own).collect();
        let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
        MeshLevel {
            name: names[number].into(),
            pairs: own.len() as u32,
            p50_ns: middle(own.iter().filter_map(|pair| Some(pair.p50?.ns)).collect()),
            p99_ns: middle(own.iter().filter_map(|pair| Some(pair.p99?.ns)).collect()),
        }
    };
    (0..names.len()).map(of).collect()
}
