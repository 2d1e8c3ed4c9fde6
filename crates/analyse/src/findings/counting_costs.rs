//! Of W103: counting events costs.

use msgpath_core::{Case, Plan};
use msgpath_stats::estimate::mean_estimate;
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::halves_agree;

use super::wording::{percent, prefix, range, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W103", detect };

/// Less than this is not worth a sentence: it is below the margin of every comparison.
const LEAST: f64 = 0.02;

fn detect(input: &Input) -> Vec<Sentence> {
    let replicas = input.plan.cases.iter().filter(|case| input.plan.events_forced && Plan::counted(case));
    replicas.filter_map(|replica| say(input, replica)).collect()
}

fn say(input: &Input, replica: &Case) -> Option<Sentence> {
    let of = replica.ablation.as_ref()?.of as usize;
    let (counted, own) = (input.series.get(replica.id as usize)?, input.series.get(of)?);
    let d: Vec<f64> = log_ratios(counted, own).into_iter().map(|(_, d)| d).collect();
    let shift = mean_estimate(&d)?;
    let (center, low, high) = (shift.value, shift.low?, shift.high?);
    let slower = if input.plan.workload.timed { low > LEAST } else { high < -LEAST };
    if !slower || !halves_agree(&d) {
        return None;
    }
    let size = |d: f64| percent((d.exp() - 1.0).abs());
    let (near, far) = if center > 0.0 { (low, high) } else { (high, low) };
    let worse = if input.plan.workload.timed { "longer messages" } else { "less throughput" };
    let text = format!(
        "{}counting events costs here: the {} counted rounds had {} % {worse} than those beside them (95 %: {} %)",
        prefix(input, input.summary.cases.get(of)?),
        d.len(),
        size(center),
        range(size(near), size(far))
    );
    let numbers = [("log_ratio", center), ("low", low), ("high", high), ("counted_rounds", d.len() as f64)];
    let why = "their times are in no result; the counts are those of slower messages";
    Some(warning("W103", text, why, "-o events=auto", numbers))
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::Change;
    use msgpath_core::schema::{EventCount, NEAR};

    use crate::summarise;
    use crate::testing::{Build, sentences};

    /// A case, and its counted replica that takes so many times as long.
    fn run(factor: f64, forced: bool) -> msgpath_record::Run {
        let build = Build::echo(&["tcp:send"], &[64]).noise(0.005).ablation(0, Change::Counted);
        let mut run = build.factor(move |case| if case.id == 1 { factor } else { 1.0 }).run();
        run.header.plan.events_forced = forced;
        run.header.ends[NEAR].events.counted = vec!["cycles".into()];
        let plan = run.header.plan.clone();
        run.rounds.retain(|round| plan.measures_in(&plan.cases[round.case as usize], round.pass));
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            let count = EventCount { count: 200 * 70, enabled_ns: 1, running_ns: 1, user: None };
            round.end_mut(NEAR).events.insert("cycles".into(), count);
        }
        run
    }

    #[test]
    fn speaks_where_counted_rounds_are_slower_and_counting_was_asked_for() {
        let texts = sentences(&run(1.2, true), &super::DETECTOR);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("the 8 counted rounds had "), "{texts:?}");
        assert!(sentences(&run(1.2, false), &super::DETECTOR).is_empty());
    }

    #[test]
    fn is_silent_where_they_are_like_the_others() {
        assert!(sentences(&run(1.0, true), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }

    #[test]
    fn slower_counted_rounds_change_nothing_but_the_counts() {
        let with = run(1.3, false);
        let mut without = with.clone();
        without.header.plan.cases.truncate(1);
        without.rounds.retain(|round| round.case == 0);
        let (mut with, mut without) = (summarise(&with), summarise(&without));
        let cycles = with.cases[0].end(NEAR).events[0].per_message.as_ref().expect("counted").value;
        assert!((cycles - 70.0).abs() < 1e-6, "{cycles}");
        assert_eq!(with.cases.pop().map(|case| case.case.id), Some(1));
        for summary in [&mut with, &mut without] {
            summary.cases[0].end_mut(NEAR).events.clear();
            summary.totals.elapsed_ns = 0; // the counted rounds take their time
        }
        // Rounds of the case do not begin later for being alone.
        assert_eq!(with, without);
    }
}
