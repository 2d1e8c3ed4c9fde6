//! Two meshes of the same hosts: which hosts and links changed, and what all pairs have in common.
//!
//! The change of a pair is the ratio of its medians. The model of a mesh ([`super::model`]) is fitted to the changes: what all have
//! in common, what each host adds to its pairs, and what is left to a link.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::schema::{FAR, NEAR, Status};
use msgpath_core::units::{range, three_digits};
use msgpath_stats::describe::median;
use msgpath_stats::distributions::normal_quantile;
use msgpath_stats::estimate::mean_estimate;
use schemars::JsonSchema;
use serde::Serialize;

use super::additive::{self, Between};
use super::answers::{judged, judged_without, may_explain};
use super::model::{LEAST_FACTOR, finds_links, values};
use super::waits::Usual;
use super::{MeshSummary, PairValues, Waited};
use crate::hosts::fold;
use crate::schema::{Directions, MeshHeader};

/// Name and version of what `--json` prints of two meshes.
pub const MESH_DIFF: &str = "msgpath/mesh-diff/1";
/// So many links are called changed by chance in two meshes alike, at most, on average.
const BY_CHANCE: f64 = 0.05;
/// Changed links that have a sentence of their own.
const MOST_LINKS: usize = 20;
/// A change of all pairs below this factor is not worth a sentence.
const LEAST_OF_ALL: f64 = 1.02;

/// One of two meshes.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ComparedMesh {
    /// Name of the run.
    pub name: String,
    /// When it began: UTC, RFC 3339.
    pub started: String,
    pub status: Status,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of pairs with a result.
    pub measured: u64,
}

/// How a host changed, beyond what all pairs have in common.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct HostChange {
    /// Name of the host.
    pub host: String,
    /// Times slower than before, with a 95 % interval; `None`: too few pairs.
    pub factor: Option<[f64; 3]>,
    /// Number of pairs from which the factor is computed.
    pub pairs: u32,
}

/// How a link changed, beyond what its hosts explain.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LinkChange {
    /// One host; with both directions in both meshes the near one.
    pub near: String,
    /// The other host.
    pub far: String,
    /// Median of the pair before, ns.
    pub before_ns: f64,
    /// Median of the pair after, ns.
    pub after_ns: f64,
    /// Times slower than its hosts explain.
    pub factor: f64,
}

/// How one case changed between two meshes.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshCaseChange {
    /// Path and size: `tcp:send 64 B`.
    pub name: String,
    /// Number of pairs with a result in both.
    pub pairs: u32,
    /// Times slower, all pairs, with a 95 % interval over the hosts; `None`: no pair in common.
    pub all: Option<[f64; 3]>,
    /// Robust standard deviation of what the model does not explain, of the logarithm; `None`: too few pairs.
    pub spread: Option<f64>,
    /// The hosts of both, by their names.
    pub hosts: Vec<HostChange>,
    /// The links that changed most.
    pub links: Vec<LinkChange>,
}

/// Two meshes compared.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeshDiff {
    /// Name and version of this schema.
    #[schemars(extend("const" = MESH_DIFF))]
    pub schema: String,
    /// Always `ok`: what cannot be compared is an error.
    pub status: Status,
    /// The mesh before.
    pub a: ComparedMesh,
    /// The mesh after.
    pub b: ComparedMesh,
    /// What else differs between them, a sentence each.
    pub differs: Vec<String>,
    /// What was found, the surest first.
    pub findings: Vec<Finding>,
    /// Each case of both.
    pub cases: Vec<MeshCaseChange>,
}

/// A mesh as it was read.
type Read<'a> = (&'a MeshHeader, &'a MeshSummary);

/// Compares two meshes.
pub fn diff(a: Read<'_>, b: Read<'_>) -> MeshDiff {
    let side = |(header, summary): Read<'_>| ComparedMesh {
        name: summary.name.clone(),
        started: summary.started.clone(),
        status: summary.status,
        hosts: header.hosts.len() as u32,
        measured: summary.measured,
    };
    let mut found = MeshDiff {
        schema: MESH_DIFF.into(),
        status: Status::Ok,
        a: side(a),
        b: side(b),
        differs: differs(a.0, b.0),
        findings: Vec::new(),
        cases: Vec::new(),
    };
    for case in &a.1.cases {
        let Some(other) = b.1.cases.iter().find(|other| other.name == case.name) else { continue };
        let several = if a.1.cases.len() > 1 { format!(" ({})", case.name) } else { String::new() };
        let change = compared(a, b, [case.case, other.case], &several, &mut found.findings);
        found.cases.push(MeshCaseChange { name: case.name.clone(), ..change });
    }
    lost(a, b, &mut found.findings);
    if found.findings.is_empty() && found.cases.iter().any(|case| case.pairs > 0) {
        let text =
            format!("no host or link is found to be more than {LEAST_FACTOR} times slower or faster than before");
        found.findings.push(finding("M15", Confidence::Likely, text, &[]));
    }
    found.findings.sort_by_key(|finding| finding.confidence as u8);
    found
}

fn finding(code: &str, confidence: Confidence, text: String, evidence: &[(&str, f64)]) -> Finding {
    let evidence = evidence.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    Finding { code: code.into(), confidence, text, evidence, next: Vec::new() }
}

/// What differs beside the numbers and may be their cause.
fn differs(a: &MeshHeader, b: &MeshHeader) -> Vec<String> {
    let mut found = Vec::new();
    let mut one = |what: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{what}: {a} → {b}"));
        }
    };
    one("msgpath", a.version.clone(), b.version.clone());
    one("launcher", a.launch.by.clone(), b.launch.by.clone());
    one("rounds", a.plan.rounds.to_string(), b.plan.rounds.to_string());
    one("pairs at a time", format!("{:?}", a.order.parallel), format!("{:?}", b.order.parallel));
    let names = |header: &MeshHeader| header.hosts.iter().map(|host| host.spec.name.clone()).collect::<BTreeSet<_>>();
    let (of_a, of_b) = (names(a), names(b));
    for (only, of) in [(&of_a - &of_b, "before"), (&of_b - &of_a, "after")] {
        if !only.is_empty() {
            found.push(format!("hosts only {of}: {}", fold(only.iter().map(String::as_str))));
        }
    }
    let facts = |header: &MeshHeader, get: fn(&msgpath_core::schema::Environment) -> &String| {
        let of = header.hosts.iter().filter_map(|host| Some((host.spec.name.clone(), host.environment.as_ref()?)));
        of.map(|(name, environment)| (name, get(environment).clone())).collect::<BTreeMap<_, _>>()
    };
    for (what, get) in [
        ("kernel", (|found| &found.kernel) as fn(&msgpath_core::schema::Environment) -> &String),
        ("CPU", |found| &found.cpu),
    ] {
        let (before, after) = (facts(a, get), facts(b, get));
        let other: Vec<&str> = before
            .iter()
            .filter(|(name, value)| after.get(*name).is_some_and(|now| now != *value))
            .map(|(name, _)| name.as_str())
            .collect();
        if !other.is_empty() {
            found.push(format!("another {what}: {}", fold(other)));
        }
    }
    found
}

/// What is known of a pair: the logarithm of its median, and one of its measurements.
type Pairs<'a> = BTreeMap<(&'a str, &'a str), (f64, &'a PairValues)>;

/// A pair of both meshes: its hosts, and what is known of it before and after.
type Both<'a> = ((&'a str, &'a str), [(f64, &'a PairValues); 2]);

/// The pairs of a case by the names of their hosts; `directed`: near end first.
fn by_name<'a>((header, summary): Read<'a>, case: u32, directed: bool) -> Pairs<'a> {
    let mut found = Pairs::new();
    for (at, value) in values(&summary.pairs, case) {
        let pair = &summary.pairs[at];
        let (near, far) = (header.host(pair.slot.near), header.host(pair.slot.far));
        let key = if directed { (near, far) } else { (near.min(far), near.max(far)) };
        // Where one mesh has both directions and the other has one, a pair is what they have in common.
        found.entry(key).and_modify(|(before, _)| *before = f64::midpoint(*before, value)).or_insert((value, pair));
    }
    found
}

/// Pairs that have a result in one only although both meshes have their hosts.
fn lost(a: Read<'_>, b: Read<'_>, findings: &mut Vec<Finding>) {
    let measured = |mesh: Read<'_>| -> BTreeSet<(String, String)> {
        let own = mesh.1.pairs.iter().filter(|pair| pair.p50.is_some());
        let names = own.map(|pair| (mesh.0.host(pair.slot.near).to_owned(), mesh.0.host(pair.slot.far).to_owned()));
        names.map(|(near, far)| if near < far { (near, far) } else { (far, near) }).collect()
    };
    let has = |mesh: Read<'_>, name: &str| mesh.0.hosts.iter().any(|host| host.spec.name == name);
    let (before, after) = (measured(a), measured(b));
    for (gone, other, kept, text) in [
        (&before - &after, b, &after, "had a result before and have none now"),
        (&after - &before, a, &before, "have a result now and had none before"),
    ] {
        let gone: Vec<_> = gone.iter().filter(|(near, far)| has(other, near) && has(other, far)).collect();
        if gone.is_empty() {
            continue;
        }
        let in_kept: BTreeSet<&str> = kept.iter().flat_map(|(near, far)| [near.as_str(), far.as_str()]).collect();
        let hosts: BTreeSet<&str> = gone.iter().flat_map(|(near, far)| [near.as_str(), far.as_str()]).collect();
        let dead: Vec<&str> = hosts.into_iter().filter(|name| !in_kept.contains(name)).collect();
        let of = if dead.is_empty() { String::new() } else { format!(": all that {} has", fold(dead)) };
        let text = format!("{} pairs {text}{of}", gone.len());
        findings.push(finding("M14", Confidence::Sure, text, &[("pairs", gone.len() as f64)]));
    }
}

/// `1.90 times slower (95 %: 1.70 to 2.10)`, or faster.
pub(crate) fn times([low, value, high]: [f64; 3]) -> String {
    let (word, [low, value, high]) =
        if value >= 1.0 { ("slower", [low, value, high]) } else { ("faster", [high, value, low].map(f64::recip)) };
    format!("{} times {word} (95 %: {})", three_digits(value), range(three_digits(low), three_digits(high)))
}

/// Compares a case of both: the one of `a` has the number `before`, that of `b` has `after`.
fn compared(
    a: Read<'_>,
    b: Read<'_>,
    [before, after]: [u32; 2],
    several: &str,
    findings: &mut Vec<Finding>,
) -> MeshCaseChange {
    let directed = [a, b].iter().all(|(header, _)| header.order.directions == Directions::Both);
    let (of_a, of_b) = (by_name(a, before, directed), by_name(b, after, directed));
    let both: Vec<Both<'_>> = of_a.iter().filter_map(|(key, was)| Some((*key, [*was, *of_b.get(key)?]))).collect();
    let mut names: Vec<&str> = a.0.hosts.iter().map(|host| host.spec.name.as_str()).collect();
    names.retain(|name| b.0.hosts.iter().any(|host| host.spec.name == *name));
    let position: BTreeMap<&str, u32> = (0..).zip(&names).map(|(at, name)| (*name, at)).collect();
    let between: Vec<Between> = both
        .iter()
        .map(|((near, far), [was, is])| Between { a: position[near], b: position[far], level: 0, value: is.0 - was.0 })
        .collect();
    let fitted = additive::fit(names.len(), 1, &between);
    let known = fitted.spread.is_finite();
    let usual = [Usual::of(&a.1.pairs, before), Usual::of(&b.1.pairs, after)];
    // What waits for a CPU may have added, after where it is slower and before where it is faster.
    let waits = |at: usize, slower: bool, name: Option<&str>| -> (f64, Vec<Waited>) {
        let (header, pair, usual) =
            if slower { (b.0, both[at].1[1].1, &usual[1]) } else { (a.0, both[at].1[0].1, &usual[0]) };
        let is_its = |end: &usize| {
            let host = header.host(if *end == NEAR { pair.slot.near } else { pair.slot.far });
            name.is_none_or(|name| name == host)
        };
        let ends: Vec<usize> = [NEAR, FAR].into_iter().filter(is_its).collect();
        (usual.shift(pair, &ends), ends.iter().filter_map(|end| Some(pair.waited?[*end])).collect())
    };
    let mut hosts = Vec::new();
    for (name, effect) in names.iter().zip(&fitted.effects) {
        let effect = effect.filter(|_| known);
        let factor = effect.map(|effect| effect.factor());
        hosts.push(HostChange { host: (*name).into(), factor, pairs: effect.map_or(0, |effect| effect.pairs) });
        let (Some(effect), Some(factor)) = (effect, factor) else { continue };
        let slower = effect.log >= 0.0;
        let turned = additive::Effect { log: effect.log.abs(), ..effect };
        let own = (0..both.len()).filter(|at| both[*at].0.0 == *name || both[*at].0.1 == *name);
        let own: Vec<_> = own.map(|at| waits(at, slower, Some(name))).collect();
        let shift = median(&own.iter().map(|(shift, _)| *shift).collect::<Vec<_>>());
        let Some(confidence) = judged_without(|share| turned.at_least(share), shift) else { continue };
        let mut text = format!(
            "{name} is {} than before, beyond what all have in common, over {} pairs{several}",
            times(factor),
            effect.pairs
        );
        if judged(|share| turned.at_least(share)) != Some(confidence) {
            let ends: Vec<Waited> = own.into_iter().flat_map(|(_, ends)| ends).collect();
            let header = if slower { b.0 } else { a.0 };
            let at = header.hosts.iter().position(|host| host.spec.name == *name).unwrap_or(0) as u32;
            text += &may_explain(header, confidence, &ends, &[at]);
        }
        findings.push(finding("M11", confidence, text, &[("factor", factor[1]), ("pairs", f64::from(effect.pairs))]));
    }
    let mut links: Vec<(usize, f64)> = fitted.residuals.iter().copied().enumerate().filter(|_| known).collect();
    links.sort_by(|(_, a), (_, b)| b.abs().total_cmp(&a.abs()));
    links.truncate(MOST_LINKS);
    if finds_links(a.0, both.len()) && finds_links(b.0, both.len()) {
        let by_chance = normal_quantile(1.0 - BY_CHANCE / (2.0 * both.len().max(1) as f64));
        let least = (by_chance * fitted.spread.max(0.01)).max(LEAST_FACTOR.ln());
        for (at, residual) in links.iter().filter(|(_, residual)| residual.abs() > least) {
            let (near, far) = both[*at].0;
            let (shift, ends) = waits(*at, *residual > 0.0, None);
            let left = residual.abs() + shift > least;
            let to = if directed { format!("{near} to {far}") } else { format!("between {near} and {far} it") };
            let change = residual.abs().exp();
            let word = if *residual > 0.0 { "slower" } else { "faster" };
            let share = ends.iter().map(|end| end.share).fold(0.0, f64::max);
            let waited = if left {
                String::new()
            } else {
                format!(
                    "; threads waited {:.0} % of the time for a CPU there, which may explain all of it",
                    share * 100.0
                )
            };
            let text = format!(
                "{to} is {} times {word} than before, beyond what its hosts explain{several}{waited}",
                three_digits(change)
            );
            let confidence = if left { Confidence::Likely } else { Confidence::CantTell };
            findings.push(finding("M12", confidence, text, &[("factor", residual.exp())]));
        }
    }
    let links = links.into_iter().map(|(at, residual)| {
        let ((near, far), [was, is]) = both[at];
        let (before_ns, after_ns) = (was.0.exp(), is.0.exp());
        LinkChange { near: near.into(), far: far.into(), before_ns, after_ns, factor: residual.exp() }
    });
    let links = links.collect();
    let all = in_common(&between, names.len());
    if let Some([low, value, high]) = all
        && (low > LEAST_OF_ALL || high < LEAST_OF_ALL.recip())
    {
        let text = format!("all pairs are {} than before{several}", times([low, value, high]));
        // Two meshes are two moments: what differs from one day to the next is not in the interval.
        findings.push(finding("M13", Confidence::Likely, text, &[("factor", value)]));
    }
    let spread = known.then_some(fitted.spread);
    MeshCaseChange { name: String::new(), pairs: both.len() as u32, all, spread, hosts, links }
}

/// The factor by which all pairs are slower: the mean over the hosts of the median of each one's pairs, with the interval that the
/// hosts give it.
fn in_common(between: &[Between], hosts: usize) -> Option<[f64; 3]> {
    let mut of: Vec<Vec<f64>> = vec![Vec::new(); hosts];
    for pair in between {
        of[pair.a as usize].push(pair.value);
        of[pair.b as usize].push(pair.value);
    }
    let medians: Vec<f64> = of.iter().filter(|own| !own.is_empty()).map(|own| median(own)).collect();
    let found = mean_estimate(&medians)?;
    Some([found.low?, found.value, found.high?].map(f64::exp))
}
