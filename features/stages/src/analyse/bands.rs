//! Whole messages averaged by how slow they were: means of bands add up, percentiles of stages would not.

use std::collections::BTreeSet;

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::split::Split;
use super::stage::{Kind, LEG, Shape, StageDirection};
use super::timeline::State;
use msgpath_analyse::stages::{Band, ranks};

/// A row of the table of stages.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stage {
    /// Which way; `None`: at one of the ends, not on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<StageDirection>,
    /// What happens in it.
    pub kind: Kind,
    /// What it is called with the boundaries that this back end sees.
    pub name: String,
}

/// A message that is attributed, with what bands need of its row.
#[derive(Clone, Copy, Debug)]
pub struct Attributed {
    pub split: Split,
    /// Its round.
    pub pass: u32,
    /// It was the first of its connection.
    pub first: bool,
}

/// How much more time slow messages (p98.5 to p99.5) spend in a stage than usual ones (p45 to p55), both directions
/// together.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Growth {
    /// The stage that grew.
    pub kind: Kind,
    /// What it is called here.
    pub name: String,
    /// Mean of the usual messages, ns.
    pub usual_ns: f64,
    /// Mean of the slow messages, ns.
    pub slow_ns: f64,
    /// Interval of the difference at 95 %, over rounds drawn again, ns.
    pub low_ns: f64,
    /// Upper end, ns.
    pub high_ns: f64,
    /// It grew most of all stages in each half of the run.
    pub in_both_halves: bool,
}

impl Growth {
    /// The difference, ns.
    pub fn ns(&self) -> f64 {
        self.slow_ns - self.usual_ns
    }
}

/// Share of a message's time in which it was runnable and not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DelayShare {
    /// Share in the mean latency, 0 to 1.
    pub of_mean: f64,
    /// Per message, 10th percentile.
    pub p10: f64,
    /// Per message, median.
    pub p50: f64,
    /// Per message, 90th percentile.
    pub p90: f64,
}

/// How many messages found the receiver in each state when their data became readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AtReady {
    /// Messages that found it running on its CPU.
    pub running: u64,
    /// Messages that found it preempted, or woken already and not on its CPU yet.
    pub runnable: u64,
    /// Messages that found it asleep.
    pub blocked: u64,
    /// Messages that found it being woken, before any data were there.
    pub waking: u64,
}

impl AtReady {
    fn count(&mut self, state: State) {
        *match state {
            State::Running => &mut self.running,
            State::Runnable => &mut self.runnable,
            State::Blocked => &mut self.blocked,
            State::Waking => &mut self.waking,
        } += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.running + self.runnable + self.blocked + self.waking
    }
}

/// The stages in which any message spent time, in the order of time. A scheduling delay that is known to be 0 is shown.
pub fn stages(attributed: &[Attributed], shapes: &[Shape; 2]) -> Vec<Stage> {
    let mut used = [[false; LEG.len()]; 2];
    let (mut waiting, mut handler) = (false, false);
    for Attributed { split, .. } in attributed {
        waiting |= split.waiting > 0;
        handler |= split.handler > 0;
        for (used, leg) in used.iter_mut().zip(&split.legs) {
            used.iter_mut().zip(leg.ns).for_each(|(used, ns)| *used |= ns > 0);
        }
    }
    let named = |at: usize, direction, kind| Stage { direction, kind, name: shapes[at].name(kind).into() };
    let leg = |at: usize| {
        let known = !shapes[at].joined && shapes[at].receiver;
        let shown = move |(kind, used): &(Kind, bool)| *used || (*kind == Kind::Delay && known);
        let kinds = LEG.into_iter().zip(used[at]).filter(shown);
        kinds.map(|(kind, _)| named(at, Some(StageDirection::ALL[at]), kind)).collect::<Vec<_>>()
    };
    let mut stages = Vec::new();
    stages.extend(waiting.then(|| named(0, None, Kind::Waiting)));
    stages.extend(leg(0));
    stages.extend(handler.then(|| named(0, None, Kind::Handler)));
    stages.extend(leg(1));
    stages
}

fn ns(split: &Split, stage: &Stage) -> u64 {
    split.ns(usize::from(stage.direction == Some(StageDirection::Reply)), stage.kind)
}

/// The bands from usual to slowest, and all messages together as the last. `order`: positions in `attributed` by latency.
pub fn bands(attributed: &[Attributed], order: &[u32], stages: &[Stage]) -> Vec<Band> {
    let mut bands: Vec<Band> = ranks(attributed.len())
        .into_iter()
        .map(|(from, to, name)| band(order[from..to].iter().map(|at| &attributed[*at as usize]), stages, name))
        .collect();
    bands.push(band(attributed.iter(), stages, "all".into()));
    bands
}

/// The first message of each connection, where they are in the log.
pub fn first(attributed: &[Attributed], stages: &[Stage]) -> Option<Band> {
    let band = band(attributed.iter().filter(|attributed| attributed.first), stages, "first of a connection".into());
    (band.messages > 0).then_some(band)
}

fn band<'a>(members: impl Iterator<Item = &'a Attributed>, stages: &[Stage], name: String) -> Band {
    let mut sums = vec![0_u64; stages.len()];
    let mut messages = 0_u64;
    let mut total = 0_u64;
    let mut passes = BTreeSet::new();
    for Attributed { split, pass, .. } in members {
        messages += 1;
        total += split.total();
        passes.insert(*pass);
        sums.iter_mut().zip(stages).for_each(|(sum, stage)| *sum += ns(split, stage));
    }
    let mean = |sum: u64| sum as f64 / messages.max(1) as f64;
    let bursts = passes.len() as u64;
    Band {
        name,
        messages,
        bursts,
        claim: bursts >= u64::from(MIN_ROUNDS_FOR_CLAIMS),
        mean_ns: mean(total),
        parts_ns: sums.into_iter().map(mean).collect(),
    }
}

/// Which stages make slow messages slow, the one that grew most first. Nothing below 20 messages or 5 rounds in a band.
pub fn growth(attributed: &[Attributed], order: &[u32], shapes: &[Shape; 2], seed: u64) -> Vec<Growth> {
    const DRAWS: usize = 200;
    let n = attributed.len();
    let part = |from: f64, to: f64| &order[(from * n as f64) as usize..(to * n as f64) as usize];
    let (usual, slow) = (part(0.45, 0.55), part(0.985, 0.995));
    let kinds: Vec<Kind> = std::iter::once(Kind::Waiting)
        .chain(LEG)
        .chain([Kind::Handler])
        .filter(|kind| !(shapes.iter().all(|shape| shape.joined) && *kind == Kind::Delay))
        .collect();
    let (usual, slow) = (by_pass(attributed, usual, &kinds), by_pass(attributed, slow, &kinds));
    let enough = |sums: &[Sums]| {
        sums.iter().map(|sums| sums.messages).sum::<u64>() >= 20
            && sums.iter().filter(|sums| sums.messages > 0).count() >= MIN_ROUNDS_FOR_CLAIMS as usize
    };
    if !enough(&usual) || !enough(&slow) {
        return Vec::new();
    }
    let whole = |sums: &[Sums]| mean(sums.iter(), kinds.len());
    let (usual_ns, slow_ns) = (whole(&usual).unwrap_or_default(), whole(&slow).unwrap_or_default());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); kinds.len()];
    let mut draw = |sums: &[Sums]| mean((0..sums.len()).map(|_| &sums[random.usize(..sums.len())]), kinds.len());
    for _ in 0..DRAWS {
        let (Some(usual), Some(slow)) = (draw(&usual), draw(&slow)) else { continue };
        for (drawn, (slow, usual)) in drawn.iter_mut().zip(slow.iter().zip(&usual)) {
            drawn.push(slow - usual);
        }
    }
    let largest = |range: std::ops::Range<usize>| {
        let (usual, slow) = (mean(usual[range.clone()].iter(), kinds.len())?, mean(slow[range].iter(), kinds.len())?);
        (0..kinds.len()).max_by(|a, b| (slow[*a] - usual[*a]).total_cmp(&(slow[*b] - usual[*b])))
    };
    let halves = [largest(0..usual.len() / 2), largest(usual.len() / 2..usual.len())];
    let mut grown: Vec<Growth> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| Growth {
            kind: *kind,
            name: name(shapes, *kind),
            usual_ns: usual_ns[at],
            slow_ns: slow_ns[at],
            low_ns: msgpath_stats::describe::percentile(&mut drawn[at].clone(), 0.025),
            high_ns: msgpath_stats::describe::percentile(&mut drawn[at].clone(), 0.975),
            in_both_halves: halves == [Some(at); 2],
        })
        .collect();
    grown.sort_by(|a, b| b.ns().total_cmp(&a.ns()));
    grown
}

/// What a kind is called in both directions.
fn name(shapes: &[Shape; 2], kind: Kind) -> String {
    let [request, reply] = shapes.each_ref().map(|shape| shape.name(kind));
    if request == reply { request.into() } else { format!("{request} (request), {reply} (reply)") }
}

/// Sums of one round.
#[derive(Clone, Debug, Default)]
struct Sums {
    messages: u64,
    ns: Vec<u64>,
}

/// Sums by kind for each round of the run, in the order of passes; rounds without a message of the band are there.
fn by_pass(attributed: &[Attributed], members: &[u32], kinds: &[Kind]) -> Vec<Sums> {
    let passes = attributed.iter().map(|attributed| attributed.pass).max().map_or(0, |last| last as usize + 1);
    let mut sums = vec![Sums { messages: 0, ns: vec![0; kinds.len()] }; passes];
    for at in members {
        let Attributed { split, pass, .. } = &attributed[*at as usize];
        let own = &mut sums[*pass as usize];
        own.messages += 1;
        for (sum, kind) in own.ns.iter_mut().zip(kinds) {
            *sum += match kind {
                Kind::Waiting | Kind::Handler => split.ns(0, *kind),
                kind => split.ns(0, *kind) + split.ns(1, *kind),
            };
        }
    }
    sums
}

fn mean<'a>(sums: impl Iterator<Item = &'a Sums>, kinds: usize) -> Option<Vec<f64>> {
    let mut messages = 0_u64;
    let mut ns = vec![0_u64; kinds];
    for own in sums {
        messages += own.messages;
        ns.iter_mut().zip(&own.ns).for_each(|(sum, own)| *sum += own);
    }
    (messages > 0).then(|| ns.into_iter().map(|ns| ns as f64 / messages as f64).collect())
}

/// The receivers' states when data became readable: request, reply. None of a receiver that nobody traced.
pub fn at_ready(attributed: &[Attributed], shapes: &[Shape; 2]) -> [AtReady; 2] {
    let mut states = [AtReady::default(); 2];
    for Attributed { split, .. } in attributed {
        let seen = states.iter_mut().zip(&split.legs).zip(shapes).filter(|(_, shape)| shape.receiver);
        seen.for_each(|((states, leg), _)| states.count(leg.state));
    }
    states
}

/// How much of the time is scheduling delay, both directions together.
pub fn delay_share(attributed: &[Attributed]) -> Option<DelayShare> {
    let delay = |split: &Split| split.ns(0, Kind::Delay) + split.ns(1, Kind::Delay);
    let mut shares: Vec<f64> = attributed
        .iter()
        .map(|attributed| delay(&attributed.split) as f64 / attributed.split.total().max(1) as f64)
        .collect();
    let (sum, total) = attributed
        .iter()
        .fold((0, 0), |(sum, total), attributed| (sum + delay(&attributed.split), total + attributed.split.total()));
    if total == 0 {
        return None;
    }
    let mut at = |p| msgpath_stats::describe::percentile(&mut shares, p);
    Some(DelayShare { of_mean: sum as f64 / total as f64, p10: at(0.1), p50: at(0.5), p90: at(0.9) })
}
