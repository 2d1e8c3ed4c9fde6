//! Whole distributions, each with and without what goes on beside it: for a picture.

use msgpath_analyse::calm::rounds_of;
use msgpath_core::{Case, Plan, SparseHistogram};
use msgpath_record::Run;
use msgpath_stats::pooled::Pooled;

use crate::analyse::LoadedSummary;
use crate::mix::analyse::{Main, MixSummary};
use crate::mix::record::{MixFacts, MixRound};

/// Points of a curve.
const STEPS: u32 = 100;

/// What part of the messages took up to how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// While what goes on: `idle`, `down`; `alone`, `beside`.
    pub name: String,
    /// Time, ns, and the part, in the order of both; ends before 1 where messages were lost.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    fn of(name: &str, rounds: &[&SparseHistogram]) -> Option<Self> {
        let pooled = Pooled::new(rounds);
        let first = pooled.min()?;
        let parts = (1..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
        let rest = parts.map_while(|part| Some((pooled.quantile(part)?? as f64, part)));
        let points: Vec<(f64, f64)> = std::iter::once((first as f64, 0.0)).chain(rest).collect();
        Some(Self { name: name.into(), points })
    }

    /// Of rounds of a case of the run.
    fn of_case(name: &str, run: &Run, case: &Case) -> Option<Self> {
        Self::of(name, &rounds_of(run, case).into_iter().map(|round| &round.latency).collect::<Vec<_>>())
    }
}

/// A workload with its curves.
pub type Shape = (String, Vec<Curve>);

fn case(plan: &Plan, id: Option<u32>) -> Option<&Case> {
    plan.cases.iter().find(|case| Some(case.id) == id)
}

/// The echo of a loaded run, idle and in each direction.
pub fn loaded(run: &Run, summary: &LoadedSummary) -> Vec<Shape> {
    let directions = summary.directions.iter().map(|under| (under.direction.name(), Some(under.case)));
    let all = std::iter::once(("idle", summary.idle)).chain(directions);
    let curves = all.filter_map(|(name, id)| Curve::of_case(name, run, case(&run.header.plan, id)?)).collect();
    vec![("echo".into(), curves)]
}

/// Each workload of a mix whose messages are timed: those of the run alone and beside the others, the others without and with those.
pub fn mixed(run: &Run, facts: &MixFacts, rounds: &[MixRound], summary: &MixSummary) -> Vec<Shape> {
    let plan = &run.header.plan;
    let of_main = |main: &Main| -> Shape {
        let own = [("alone", main.alone), ("beside", main.beside)];
        let curves = own.into_iter().filter_map(|(name, id)| Curve::of_case(name, run, case(plan, id)?));
        (main.name.clone(), curves.collect())
    };
    let mains = summary.mains.iter().filter(|_| plan.workload.timed).map(of_main);
    let of_other = |at: usize, case: Option<u32>, name: &str| {
        let own = rounds.iter().filter(|round| round.case == case);
        let own: Vec<&SparseHistogram> =
            own.filter_map(|round| Some(&round.others.get(at)?.as_ref()?.latency)).collect();
        Curve::of(name, &own)
    };
    let others = facts.besides.iter().enumerate().filter(|(_, other)| other.plan.workload.timed);
    let others = others.map(|(at, other)| -> Shape {
        let with = summary.mains.iter().filter(|main| main.beside.is_some());
        let with = with.filter_map(|main| of_other(at, main.beside, &format!("with {}", main.name)));
        (other.name.clone(), of_other(at, None, "without").into_iter().chain(with).collect())
    });
    mains.chain(others).filter(|(_, curves): &Shape| !curves.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::record::OtherRound;
    use crate::section::Mixed;
    use crate::testing::{Bed, MS, MixBed};
    use msgpath_core::Histogram;

    #[test]
    fn a_loaded_run_has_a_curve_for_each_of_its_cases() {
        let (run, logs) = Bed { queue_bytes: 151_400, added_ns: 121.12 * MS, ..Bed::default() }.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let shapes = loaded(&run, summary.sections.get::<LoadedSummary>().unwrap());
        let names: Vec<&str> = shapes[0].1.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["idle", "down"]);
        for curve in &shapes[0].1 {
            assert_eq!((curve.points.len(), curve.points.last().unwrap().1), (1 + STEPS as usize, 1.0));
            assert!(curve.points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1), "{curve:?}");
        }
        assert!(shapes[0].1[1].points[50].0 > 100.0 * shapes[0].1[0].points[50].0);
    }

    #[test]
    fn others_of_a_mix_have_curves_where_they_are_timed() {
        let (run, logs) = MixBed { slower: 12.0, ..MixBed::default() }.run();
        let mut facts = run.header.parts.get::<MixFacts>().unwrap().clone();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let rounds = logs.own::<Mixed>().unwrap().0.clone();
        let mix = summary.sections.get::<MixSummary>().unwrap().clone();
        let shapes = mixed(&run, &facts, &rounds, &mix);
        assert_eq!(shapes.len(), 1, "a stream has no times: {shapes:?}");
        facts.besides[0].plan.workload = msgpath_core::Workload::ECHO;
        let mut times = Histogram::new();
        times.record_n(1_000, 90);
        times.record_lost(10);
        let latency = times.to_sparse();
        let timed = rounds.into_iter().map(|round| MixRound {
            others: vec![Some(OtherRound { latency: latency.clone(), ..OtherRound::default() })],
            ..round
        });
        let shapes = mixed(&run, &facts, &timed.collect::<Vec<_>>(), &mix);
        let names: Vec<&str> = shapes[1].1.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!((shapes.len(), names), (2, vec!["without", "with echo"]));
        let last = shapes[1].1[0].points.last().unwrap();
        assert!((last.1 - 0.9).abs() < 1e-9, "a tenth was lost: {last:?}");
    }
}
