//! Gates of one run (`--fail-if 'p99 > 1ms'`): conditions that fail it, only where they are surely met
//! (docs/method/two-runs.md#gates). Those of two runs are judged alike ([`crate::diff`]).

use msgpath_core::Delivery;
use msgpath_core::gate::{Gate, Limit, Side, Watched};
use msgpath_core::plan::{CaseRole, MIN_ROUNDS_FOR_CLAIMS};
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;
use msgpath_stats::level::Level;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::holm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::{level::level, name, seed};
use crate::summary::{CaseSummary, OpenLoop};

/// What a gate comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Surely on the good side.
    Passed,
    /// Surely on the bad side.
    Failed,
    /// The data do not decide; it does not fail.
    #[default]
    Undecided,
}

/// A gate of `--fail-if`, and what the run comes to.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct RunGate {
    /// The gate as it is typed: `p99 > 1ms`.
    pub gate: String,
    /// What it watches: `p99`, `mean`, `cpu`, `throughput`, `rate`, `loss`.
    pub watched: String,
    /// Unit of the limit and of the values: `ns`, `bit/s`, `1/s` or `share`.
    pub unit: String,
    /// Limit of the gate, in `unit`.
    pub limit: f64,
    /// On which side of the limit it fails.
    pub fails: Side,
    /// `failed` where a case failed, else `undecided` where one is undecided, or nothing was measured.
    pub state: GateState,
    /// Id of the worst case among those that are as `state` says; `None`: nothing was measured.
    pub worst: Option<u32>,
    /// Every measured case, in the order of the plan.
    pub cases: Vec<CaseGate>,
}

/// The result of a gate for one case.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CaseGate {
    /// Id of the case.
    pub case: u32,
    /// The case, as it is printed.
    pub name: String,
    /// Whether the gate is passed, failed or undecided.
    pub state: GateState,
    /// Measured value, in the gate's `unit`.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub low: Option<f64>,
    /// Its 95 % interval; `None` beside a lower end: it is a bound from below.
    pub high: Option<f64>,
    /// p-value of not lying beyond the limit.
    pub p: Option<f64>,
    /// Why it is undecided, or failed without a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl RunGate {
    pub fn worst(&self) -> Option<&CaseGate> {
        self.cases.iter().find(|case| Some(case.case) == self.worst)
    }
}

/// What an estimate comes to at a gate.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub(crate) state: GateState,
    pub(crate) value: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) p: Option<f64>,
    pub(crate) why: Option<String>,
    /// The whole interval lies beyond the bound; whether that stands, [`settle`] decides.
    beyond: bool,
}

impl Outcome {
    /// Of one estimate. It begins to fail at `bound` and passes up to `limit`, both on the scale of `level`; `undecided` is
    /// said where its interval has one of them in it.
    pub fn of(level: Level, gate: &Gate, bound: f64, limit: f64, undecided: &str) -> Self {
        let plain = |at: f64| if gate.watched == Watched::Loss { at.max(0.0) } else { at.exp() };
        let (low, high) = level.interval();
        let (worse, passes, beyond) = match gate.side {
            Side::Above => (level.at > bound, high <= limit, low > bound),
            Side::Below => (level.at < bound, low >= limit, high < bound),
        };
        Self {
            state: if passes { GateState::Passed } else { GateState::Undecided },
            value: Some(plain(level.at)),
            low: Some(plain(low)),
            high: Some(plain(high)),
            // On the good side of the bound nothing speaks for a failure.
            p: Some(if worse { level.p(bound) } else { 1.0 }),
            why: (!passes).then(|| undecided.into()),
            beyond,
        }
    }

    /// No time is below that of the fastest message, however far its range would reach (rounds that differ a thousandfold have
    /// one that begins at fractions of a ns), and whether or not it has one.
    fn is_at_least(&mut self, gate: &Gate, fastest: f64, bound: f64) {
        self.low = self.low.map(|low| low.max(self.value.map_or(fastest, |value| fastest.min(value))));
        if gate.side == Side::Above && fastest > bound {
            (self.beyond, self.p) = (true, Some(0.0));
            if self.value.is_none() {
                self.why = Some(format!("every message took longer: {} and more", Glyphs::Unicode.time(fastest)));
            }
        }
    }

    /// Whether anything was lost: a count, which needs no range.
    fn of_any_loss(delivery: Delivery) -> Self {
        if delivery.sent == 0 {
            return Self::unknown("nothing was sent".into());
        }
        let (lost, share) = (delivery.lost > 0, delivery.lost as f64 / delivery.sent as f64);
        Self {
            state: if lost { GateState::Undecided } else { GateState::Passed },
            value: Some(share),
            low: Some(share),
            high: Some(share),
            p: Some(if lost { 0.0 } else { 1.0 }),
            why: None,
            beyond: lost,
        }
    }

    /// Nothing is known, for this reason.
    pub fn unknown(why: String) -> Self {
        Self { why: Some(why), ..Self::default() }
    }
}

/// Fails what lies beyond its bound where the test of that stands after Holm over all of them.
pub fn settle(outcomes: &mut [Outcome]) {
    let stands = holm(&outcomes.iter().map(|outcome| outcome.p).collect::<Vec<_>>());
    for (outcome, stands) in outcomes.iter_mut().zip(stands).filter(|(outcome, _)| outcome.beyond) {
        if stands {
            outcome.state = GateState::Failed;
            outcome.why = outcome.why.take().filter(|_| outcome.value.is_none());
        } else {
            outcome.why = Some("one of many tests, and not sure among them: longer runs would decide".into());
        }
    }
}

/// The value of a limit on the scale of a level of what is watched.
pub fn scaled(value: f64, watched: Watched) -> f64 {
    if watched == Watched::Loss { value } else { value.max(f64::MIN_POSITIVE).ln() }
}

/// The gates of a run's plan on every measured case. `rounds` are those that make the headline of each case, `all` are all
/// of them, `cases` what is known of it.
pub(crate) fn judge(
    run: &Run,
    rounds: &[Vec<&RoundRecord>],
    all: &[Vec<&RoundRecord>],
    cases: &[CaseSummary],
) -> Vec<RunGate> {
    let gates: Vec<&Gate> = run.header.plan.gates.iter().filter(|gate| !gate.is_relative()).collect();
    let measured: Vec<usize> = (0..cases.len())
        .filter(|at| cases[*at].case.role == CaseRole::Measured && rounds.len() > *at && all.len() > *at)
        .collect();
    let pairs = gates.iter().flat_map(|gate| measured.iter().map(move |at| (gate, *at)));
    let mut outcomes: Vec<Outcome> =
        pairs.map(|(gate, at)| outcome(run, gate, &cases[at], &rounds[at], &all[at])).collect();
    settle(&mut outcomes);
    let mut outcomes = outcomes.into_iter();
    let named: Vec<(u32, String)> = measured.iter().map(|at| (cases[*at].case.id, name(&cases[*at].case))).collect();
    gates.iter().map(|gate| gathered(gate, &named, outcomes.by_ref().take(named.len()))).collect()
}

fn outcome(run: &Run, gate: &Gate, case: &CaseSummary, rounds: &[&RoundRecord], all: &[&RoundRecord]) -> Outcome {
    let plan = &run.header.plan;
    let Limit::Value(value) = gate.limit else { return Outcome::default() };
    let limit = scaled(value, gate.watched);
    if gate.watched == Watched::Loss && gate.side == Side::Above && value == 0.0 {
        return Outcome::of_any_loss(case.delivery);
    }
    let of = |watched| {
        // What was lost in disturbed rounds is lost as well.
        let rounds = if watched == Watched::Loss { all } else { rounds };
        level(plan, rounds, watched, seed(run, &case.case))
    };
    let timed = matches!(gate.watched, Watched::Quantile(_) | Watched::Mean);
    if let Some(why) = case.open.as_ref().and_then(OpenLoop::overloaded).filter(|_| timed) {
        // Its times grow as long as one measures, above any limit.
        let beyond = gate.side == Side::Above;
        return Outcome { beyond, p: beyond.then_some(0.0), ..Outcome::unknown(why.into()) };
    }
    let mut out = match of(gate.watched) {
        Ok(level) => Outcome::of(level, gate, limit, limit, "the range has the limit in it: a longer run would decide"),
        Err(why) => Outcome::unknown(why),
    };
    if let Watched::Quantile(p) = gate.watched {
        let latency: Vec<_> = rounds.iter().map(|round| &round.latency).collect();
        // A message that never arrived is slower than any limit. Whether so many are lost for sure, the losses say.
        if let (Some(None), Ok(loss)) = (Pooled::new(&latency).quantile(p), of(Watched::Loss)) {
            out.beyond = loss.interval().0 > 1.0 - p;
            out.p = Some(if loss.at > 1.0 - p { loss.p(1.0 - p) } else { 1.0 });
        }
    }
    let enough = rounds.len() >= MIN_ROUNDS_FOR_CLAIMS as usize;
    if let Some(fastest) = rounds.iter().filter_map(|round| round.latency.min()).min().filter(|_| timed && enough) {
        out.is_at_least(gate, fastest as f64, value);
    }
    // Where the rate may not have been sustained, its times may grow.
    if let Some(why) = case.open.as_ref().and_then(|open| open.why.as_ref()).filter(|_| timed)
        && out.state == GateState::Passed
    {
        (out.state, out.why) = (GateState::Undecided, Some(why.clone()));
    }
    out
}

/// A gate with what it comes to for each of these cases: their ids and names.
pub fn gathered(gate: &Gate, named: &[(u32, String)], outcomes: impl Iterator<Item = Outcome>) -> RunGate {
    let of_case = |((case, name), outcome): (&(u32, String), Outcome)| {
        let Outcome { state, value, low, high, p, why, .. } = outcome;
        CaseGate { case: *case, name: name.clone(), state, value, low, high, p, because: why }
    };
    let cases: Vec<CaseGate> = named.iter().zip(outcomes).map(of_case).collect();
    let some = |state| cases.iter().any(|case| case.state == state);
    let state = match (some(GateState::Failed), some(GateState::Undecided) || cases.is_empty()) {
        (true, _) => GateState::Failed,
        (false, true) => GateState::Undecided,
        (false, false) => GateState::Passed,
    };
    // How bad: the further towards the failing side, the worse; what has no value may be anywhere.
    let bad = |case: &&CaseGate| match gate.side {
        Side::Above => case.value.unwrap_or(f64::INFINITY),
        Side::Below => -case.value.unwrap_or(f64::NEG_INFINITY),
    };
    let alike = cases.iter().filter(|case| case.state == state);
    // Of equals the first.
    let worst = alike.rev().max_by(|a, b| bad(a).total_cmp(&bad(b))).map(|case| case.case);
    RunGate {
        gate: gate.to_string(),
        watched: gate.watched.to_string(),
        unit: gate.watched.unit().into(),
        limit: match gate.limit {
            Limit::Value(value) | Limit::Change(value) => value,
        },
        fails: gate.side,
        state,
        worst,
        cases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_core::Histogram;

    /// What the gates come to in a run, once they are put into its plan.
    fn judged(mut run: Run, gates: &[&str]) -> Vec<RunGate> {
        run.header.plan.gates = gates.iter().map(|text| text.parse().unwrap()).collect();
        summarise(&run).gates
    }

    fn states(gates: &[RunGate]) -> Vec<GateState> {
        gates.iter().map(|gate| gate.state).collect()
    }

    use GateState::{Failed, Passed, Undecided};

    #[test]
    fn a_limit_is_judged_by_the_whole_interval() {
        let run = || Build::echo(&["tcp:send"], &[64]).run();
        let found = judged(run(), &["p50 > 1ns", "p50 > 10s", "p99 > 1ms", "mean > 1us", "loss > 0.1%"]);
        assert_eq!(states(&found), [Failed, Passed, Passed, Failed, Passed], "{found:#?}");
        let p50 = &found[0].cases[0];
        let (low, value, high) = (p50.low.unwrap(), p50.value.unwrap(), p50.high.unwrap());
        assert!(low < value && value < high && p50.because.is_none(), "{p50:?}");
        assert_eq!((found[0].unit.as_str(), found[0].limit, found[0].fails), ("ns", 1.0, Side::Above));
        assert_eq!((found[0].worst, p50.name.as_str()), (Some(0), "tcp:send 64 B"));
        // The limit at the ends of the interval: on it is in it.
        for (limit, state) in [
            (low.floor() - 1.0, Failed),
            (low.ceil() + 1.0, Undecided),
            (high.floor() - 1.0, Undecided),
            (high.ceil() + 1.0, Passed),
        ] {
            let gate = format!("p50 > {limit}ns");
            assert_eq!(states(&judged(run(), &[&gate])), [state], "{gate}: {low} to {high}");
        }
        let within = judged(run(), &[&format!("p50 > {}ns", value.round())]);
        assert!(within[0].cases[0].because.as_ref().unwrap().contains("has the limit in it"), "{within:?}");
    }

    #[test]
    fn what_is_printed_is_what_is_judged() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.plan.gates = vec!["p50 > 1ms".parse().unwrap()];
        let summary = summarise(&run);
        let p50 = summary.cases[0].latency.quantiles[0].ns.unwrap() as f64;
        assert!((summary.gates[0].cases[0].value.unwrap() / p50 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn streams_have_throughput_and_rates_echoes_have_rates() {
        let stream = Build::stream(&["tcp:send"], &[1000]).run();
        let gates = ["throughput < 2 Gbit/s", "throughput < 1 Mbit/s", "rate < 1M msg/s", "rate < 1 msg/s"];
        let found = judged(stream, &gates);
        assert_eq!(states(&found), [Failed, Passed, Failed, Passed], "{found:#?}");
        assert!((found[0].cases[0].value.unwrap() / 1e9 - 1.0).abs() < 0.05, "{found:?}");
        let echo = Build::echo(&["tcp:send"], &[64]).run();
        let rate = summarise(&echo).cases[0].rate_per_s.as_ref().unwrap().value;
        let found = judged(echo, &["rate < 1 msg/s"]);
        assert_eq!(found[0].state, Passed, "{found:?}");
        assert!((found[0].cases[0].value.unwrap() / rate - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_gate_is_as_bad_as_its_worst_case() {
        let build = || Build::echo(&["tcp:send", "unix:send", "pipe:write"], &[64]).control(64);
        let run = || build().factor(|case| if case.path.transport == "unix" { 3.0 } else { 1.0 }).run();
        let found = judged(run(), &["p50 > 40us", "p50 > 10s", "p50 > 1us"]);
        assert_eq!(states(&found), [Failed, Passed, Failed]);
        assert!(found.iter().all(|gate| gate.worst == Some(1) && gate.cases.len() == 3), "{found:#?}");
        assert_eq!(found[0].cases.iter().map(|case| case.state).collect::<Vec<_>>(), [Passed, Failed, Passed]);
        assert_eq!(found[0].worst().unwrap().name, "unix:send 64 B");
    }

    #[test]
    fn what_is_not_known_is_undecided_with_its_reason() {
        let mut short = Build::echo(&["tcp:send"], &[64]).run();
        short.rounds.retain(|round| round.pass < 3);
        let found = judged(short, &["p50 > 1ns", "cpu > 1ns"]);
        assert_eq!(states(&found), [Undecided; 2]);
        assert!(found[0].cases[0].because.as_ref().unwrap().contains("at least 5 rounds, have 3"), "{found:?}");
        let none = judged(Build::echo(&["tcp:send"], &[64]).run(), &["cpu > 1us"]);
        assert!(none[0].cases[0].because.as_ref().unwrap().contains("CPU time"), "{none:?}");
        let mut nothing = Build::echo(&["tcp:send"], &[64]).run();
        nothing.rounds.clear();
        assert_eq!(judged(nothing, &["p50 > 1ns"])[0].state, Undecided);
        let relative = judged(Build::echo(&["tcp:send"], &[64]).run(), &["p50 > +5%"]);
        assert!(relative.is_empty(), "there is no earlier run: {relative:?}");
    }

    #[test]
    fn no_range_reaches_below_the_fastest_message() {
        // Messages of a few microseconds and of milliseconds, more of these or of those in turn: the range of their median
        // spans more than both.
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for round in &mut run.rounds {
            let mut histogram = Histogram::new();
            let slow = [1, 18, 8, 1, 19, 8, 3, 17, 12, 3][round.pass as usize % 10];
            histogram.record_n(9_000, 20 - slow);
            histogram.record_n(4_000_000, slow);
            round.latency = histogram.to_sparse();
        }
        run.rounds.retain(|round| round.pass < 10);
        let found = judged(run.clone(), &["p50 > 1us", "p50 > 1ms"]);
        assert_eq!(states(&found), [Failed, Undecided], "{found:#?}");
        assert!((8_900.0..=9_000.0).contains(&found[0].cases[0].low.unwrap()), "{found:#?}");
        // Where there is no range at all it is as sure.
        for round in &mut run.rounds {
            let mut histogram = Histogram::new();
            histogram.record_n([9_000, 4_000_000][usize::from(round.pass > 6)], 20);
            round.latency = histogram.to_sparse();
        }
        let found = judged(run, &["p99 > 1us", "p99 > 1ms"]);
        assert_eq!(states(&found), [Failed, Undecided], "{found:#?}");
        let because = found[0].cases[0].because.as_deref();
        assert!(because.is_some_and(|why| why.starts_with("every message took longer: 9.00 µs")), "{found:#?}");
    }

    /// A run of which every round loses `lost` of 200 messages.
    fn lossy(lost: u64) -> Run {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        for round in &mut run.rounds {
            let mut histogram = Histogram::new();
            histogram.record_n(20_000, 200 - lost);
            histogram.record_lost(lost);
            round.latency = histogram.to_sparse();
            let near = round.near_mut();
            (near.delivery.sent, near.delivery.received, near.delivery.lost) = (200, 200 - lost, lost);
        }
        run
    }

    #[test]
    fn one_lost_message_fails_a_gate_on_any_loss() {
        let mut one = lossy(0);
        one.rounds.truncate(1);
        assert_eq!(states(&judged(one.clone(), &["loss > 0%"])), [Passed]);
        let near = one.rounds[0].near_mut();
        (near.delivery.received, near.delivery.lost) = (199, 1);
        assert_eq!(states(&judged(one, &["loss > 0%", "loss > 0.1%"])), [Failed, Undecided]);
    }

    #[test]
    fn a_message_that_never_arrives_is_slower_than_any_limit() {
        let found = judged(lossy(20), &["p99 > 10s", "p50 > 10s", "loss > 5%", "loss > 50%", "mean > 10s"]);
        assert_eq!(states(&found), [Failed, Passed, Failed, Passed, Undecided], "{found:#?}");
        assert!(found[0].cases[0].because.as_ref().unwrap().contains("lost message"), "{found:?}");
        assert!(found[4].cases[0].because.as_ref().unwrap().contains("lost"), "{found:?}");
        let loss = &found[2].cases[0];
        assert!((loss.value.unwrap() - 0.1).abs() < 1e-9 && loss.low.unwrap() >= 0.0, "{loss:?}");
    }

    #[test]
    fn many_gates_are_judged_together() {
        // An interval just beyond a limit is sure alone, and not among forty.
        let run = Build::echo(&["tcp:send"], &[64]).run();
        let low = judged(run.clone(), &["p50 > 1ns"])[0].cases[0].low.unwrap();
        let close = format!("p50 > {}ns", low.floor() - 1.0);
        assert_eq!(judged(run.clone(), &[&close])[0].state, Failed);
        let mut many = vec![close.as_str(); 40];
        many.push("p50 > 1ns");
        let found = judged(run, &many);
        assert_eq!((found[0].state, found[40].state), (Undecided, Failed));
        assert!(found[0].cases[0].because.as_ref().unwrap().contains("one of many tests"), "{:?}", found[0]);
    }
}
