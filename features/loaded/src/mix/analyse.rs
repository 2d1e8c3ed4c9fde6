//! What each of a mix does to the other (docs/method/mix.md#an-effect).

use std::borrow::Cow;

use msgpath_analyse::Summary;
use msgpath_analyse::series::series;
use msgpath_analyse::summary::Confidence;
use msgpath_core::explained;
use msgpath_core::explained::Explained;
use msgpath_core::plan::Metric;
use msgpath_core::schema::RoundRecord;
use msgpath_core::workload::Answer;
use msgpath_core::{Case, Plan, units};
use msgpath_record::Run;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{MixFacts, MixRound, OtherRound};
use super::setting::Setting;

/// What goes on at once, and what each does to the other.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = explained::schema)]
pub struct MixSummary {
    /// What goes on beside the cases of the run.
    pub besides: Vec<OtherFigures>,
    /// Each case of the run that is measured alone and beside them.
    pub mains: Vec<Main>,
    /// Rounds of what goes on beside that were looked at.
    pub looked_at: u64,
    /// Those of them that began before its streams were steady.
    pub unsteady: u64,
}

impl Explained for MixSummary {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        if path.ends_with(".low") || path.ends_with(".high") {
            return "too few rounds for an interval".into();
        }
        match path.rsplit('.').next().unwrap_or_default() {
            "p50_ns" | "p99_ns" => "a stream has no messages that are timed, or half of them were lost",
            "bits" => "the throughput of an echo is not counted, or no TCP socket of the stream was found",
            _ => "no round was recorded",
        }
        .into()
    }
}

explained!(read MixSummary);

/// What goes on beside the cases of a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OtherFigures {
    /// Its verb, with its number where several have the same.
    pub name: String,
    /// The workload, as typed with `--beside`.
    pub text: String,
    /// It in the rounds in which the cases of the run are switched off.
    pub off: OtherMeans,
}

/// Means over rounds of what went on.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OtherMeans {
    /// Number of rounds.
    pub rounds: u64,
    /// Median of a round, ns.
    pub p50_ns: Option<Estimate>,
    /// Its 99th percentile, ns.
    pub p99_ns: Option<Estimate>,
    /// Messages that were lost.
    pub lost: u64,
    /// Payload bits a second that came through.
    pub bits: Option<Estimate>,
}

/// A case of the run, and what it and the others do to each other.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Main {
    /// Name of the case, as tables print it.
    pub name: String,
    /// Id of its case alone.
    pub alone: Option<u32>,
    /// Id of its case beside everything.
    pub beside: Option<u32>,
    /// The others while everything goes on.
    pub others: Vec<OtherMeans>,
    /// What is done by whom to whom.
    pub effects: Vec<Effect>,
}

/// The number of a round that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Of an echo: its median.
    P50,
    /// Of messages that nothing answers: their median, one way.
    OneWayP50,
    /// Of a stream: what came through.
    Throughput,
}

impl Compared {
    fn of(plan: &Plan) -> Self {
        match (plan.workload.timed, plan.workload.answer) {
            (false, _) => Self::Throughput,
            (true, Answer::None) => Self::OneWayP50,
            (true, _) => Self::P50,
        }
    }

    /// What stands behind the name of who has it: ` p50`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::P50 => " p50",
            Self::OneWayP50 => " one-way p50",
            Self::Throughput => "",
        }
    }

    fn metric(self) -> Metric {
        match self {
            Self::P50 | Self::OneWayP50 => Metric::P50,
            Self::Throughput => Metric::Throughput,
        }
    }
}

/// What one does to another: rounds with everything beside rounds of the same pass in which one is switched off.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Effect {
    /// Who is slowed down.
    pub on: String,
    /// Who is switched off.
    pub by: String,
    /// What is compared.
    pub metric: Compared,
    /// While that one is switched off: ns, or bits a second.
    pub without: Option<Estimate>,
    /// While everything goes on.
    pub with: Option<Estimate>,
    /// The second by the first, of rounds of one pass.
    pub ratio: Estimate,
    /// Passes that have both.
    pub passes: u64,
    /// Whether its interval excludes that nothing is done.
    pub confidence: Confidence,
    /// Whether it is the case of the run that is slowed down.
    pub of_run: bool,
}

impl Effect {
    fn of(on: &str, by: &str, metric: Compared, [without, with]: [&Series; 2]) -> Option<Self> {
        let pairs: Vec<f64> = with.iter().filter_map(|(pass, with)| Some(with / without.get(pass)?)).collect();
        let ratio = log_estimate(&pairs)?;
        let confidence = match (ratio.low, ratio.high) {
            (Some(low), Some(high)) if low > 1.0 || high < 1.0 => Confidence::Sure,
            _ => Confidence::CantTell,
        };
        Some(Self {
            on: on.into(),
            by: by.into(),
            metric,
            without: mean(without),
            with: mean(with),
            ratio,
            passes: pairs.len() as u64,
            confidence,
            of_run: false,
        })
    }
}

/// The geometric mean over rounds.
fn mean(series: &Series) -> Option<Estimate> {
    log_estimate(&series.values().copied().collect::<Vec<f64>>())
}

/// All of it.
pub fn summarise(run: &Run, facts: &MixFacts, rounds: &[MixRound], summary: &Summary) -> MixSummary {
    let plan = &run.header.plan;
    let off = |at: usize| figures(rounds.iter().filter(|round| round.case.is_none()), at);
    let besides = facts.besides.iter().enumerate();
    let besides = besides
        .map(|(at, other)| OtherFigures { name: other.name.clone(), text: other.text.clone(), off: off(at) })
        .collect();
    let mut mains: Vec<Main> = Vec::new();
    let mut seen: Vec<Case> = Vec::new();
    for case in &plan.cases {
        let bare = Case { id: 0, label: None, ..case.clone() };
        if Setting::labelled(case.label.as_deref()).is_some() && !seen.contains(&bare) {
            let own = |other: &&Case| Case { id: 0, label: None, ..(*other).clone() } == bare;
            let group: Vec<&Case> = plan.cases.iter().filter(own).collect();
            mains.push(of_case(run, facts, rounds, &group, &name(plan, summary, case)));
            seen.push(bare);
        }
    }
    MixSummary {
        besides,
        mains,
        looked_at: rounds.len() as u64,
        unsteady: rounds.iter().filter(|round| !round.steady).count() as u64,
    }
}

/// What a case of the run is called: the verb where there is one path, and what tells cases of one path apart.
fn name(plan: &Plan, summary: &Summary, case: &Case) -> String {
    let differs = |of: fn(&Case, &Case) -> bool| plan.cases.iter().any(|other| of(other, case));
    let mut name = match differs(|other, case| other.path != case.path) {
        true => case.path.to_string(),
        false => summary.verb.clone(),
    };
    if differs(|other, case| other.size != case.size) {
        name = format!("{name} {}", units::size(case.size));
    }
    if let Some(rate) = case.load.rate().filter(|_| differs(|other, case| other.load != case.load)) {
        name = format!("{name} {rate}");
    }
    if differs(|other, case| other.connections != case.connections || other.threads != case.threads) {
        name = format!("{name} -P {} -T {}", case.connections, case.threads);
    }
    name
}

/// A case in all its settings.
fn of_case(run: &Run, facts: &MixFacts, rounds: &[MixRound], group: &[&Case], name: &str) -> Main {
    let (plan, count) = (&run.header.plan, facts.besides.len());
    let metric = Compared::of(plan);
    let id = |setting| {
        group.iter().find(|case| Setting::labelled(case.label.as_deref()) == Some(setting)).map(|case| case.id)
    };
    let own = |setting| {
        let case = id(setting);
        let own: Vec<&RoundRecord> = run.rounds.iter().filter(|round| Some(round.case) == case).collect();
        series(plan, metric.metric(), &own)
    };
    let other = |at: usize, case: Option<u32>| {
        let metric = Compared::of(&facts.besides[at].plan);
        let rounds = rounds.iter().filter(|round| round.case == case);
        let value = |round: &MixRound| Some((round.pass, value(metric, round.others.get(at)?.as_ref()?)?));
        (metric, rounds.filter_map(value).collect::<Series>())
    };
    let all = own(Setting::All);
    let mut effects = Vec::new();
    for (at, by) in facts.besides.iter().enumerate() {
        let effect = Effect::of(name, &by.name, metric, [&own(Setting::off(at, count)), &all]);
        effects.extend(effect.map(|effect| Effect { of_run: true, ..effect }));
    }
    for (at, on) in facts.besides.iter().enumerate() {
        let Some(case) = id(Setting::All) else { continue };
        let (metric, all) = other(at, Some(case));
        effects.extend(Effect::of(&on.name, name, metric, [&other(at, None).1, &all]));
        for (off, by) in facts.besides.iter().enumerate().filter(|(off, _)| *off != at) {
            let Some(without) = id(Setting::Without(off)) else { continue };
            effects.extend(Effect::of(&on.name, &by.name, metric, [&other(at, Some(without)).1, &all]));
        }
    }
    let beside = id(Setting::All);
    let of_all = || rounds.iter().filter(|round| beside.is_some() && round.case == beside);
    Main {
        name: name.into(),
        alone: id(Setting::Alone),
        beside,
        others: (0..count).map(|at| figures(of_all(), at)).collect(),
        effects,
    }
}

/// The number of a round that effects are made of.
fn value(metric: Compared, round: &OtherRound) -> Option<f64> {
    let value = match metric {
        Compared::Throughput => round.bits,
        Compared::P50 | Compared::OneWayP50 => round.p50_ns.map(|ns| ns as f64),
    };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// Means of what went on beside these rounds.
fn figures<'a>(rounds: impl Iterator<Item = &'a MixRound>, at: usize) -> OtherMeans {
    let own: Vec<&OtherRound> = rounds.filter_map(|round| round.others.get(at)?.as_ref()).collect();
    let over = |value: fn(&OtherRound) -> Option<f64>| {
        log_estimate(&own.iter().filter_map(|round| value(round)).collect::<Vec<f64>>())
    };
    OtherMeans {
        rounds: own.len() as u64,
        p50_ns: over(|round| round.p50_ns.map(|ns| ns as f64)),
        p99_ns: over(|round| round.p99_ns.map(|ns| ns as f64)),
        lost: own.iter().map(|round| round.lost).sum(),
        bits: over(|round| round.bits),
    }
}

impl MixSummary {
    /// The case of the run that suffers least of those that are compared, with what it suffers.
    pub fn least(&self) -> Option<(&Main, &Effect)> {
        let suffers = |main| Some((main, worst(main)?));
        let all: Vec<(&Main, &Effect)> = self.mains.iter().filter_map(suffers).collect();
        let harm = |effect: &Effect| {
            if effect.metric == Compared::Throughput { 1.0 / effect.ratio.value } else { effect.ratio.value }
        };
        all.into_iter().min_by(|a, b| harm(a.1).total_cmp(&harm(b.1)))
    }
}

/// What a case of the run suffers.
pub fn worst(main: &Main) -> Option<&Effect> {
    main.effects.iter().find(|effect| effect.of_run)
}
