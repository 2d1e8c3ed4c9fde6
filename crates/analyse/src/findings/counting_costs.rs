//! W105: rounds in which events were counted are slower than their neighbours: what counting costs, measured in the run.

use msgpath_core::Workload;

use super::wording::{measured, percent, prefix, range, warning};
use super::{Detector, Input, Said};
use crate::stats::mean_estimate;
use crate::steady::halves_agree;
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W105", detect };

/// Less than this is not worth a sentence: it is below the margin of every comparison.
const LEAST: f64 = 0.02;

fn detect(input: &Input) -> Vec<Said> {
    measured(input).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Said> {
    let (rounds, series) = (&input.rounds[case.case.id as usize], &input.series[case.case.id as usize]);
    let is_counted = |pass: u32| {
        rounds
            .iter()
            .find(|round| round.pass == pass)
            .is_some_and(|round| !round.near_events.is_empty() || !round.far_events.is_empty())
    };
    // Neighbours share the slow changes of the machine.
    let d: Vec<f64> = series
        .iter()
        .filter(|(pass, _)| is_counted(**pass))
        .filter_map(|(pass, value)| {
            let beside = [pass.checked_sub(1), pass.checked_add(1)].into_iter().flatten();
            let beside: Vec<f64> =
                beside.filter(|pass| !is_counted(*pass)).filter_map(|pass| Some(series.get(&pass)?.ln())).collect();
            (!beside.is_empty()).then(|| value.ln() - crate::stats::mean(&beside))
        })
        .collect();
    let shift = mean_estimate(&d)?;
    let (center, low, high) = (shift.value, shift.low?, shift.high?);
    let slower = if input.plan.workload == Workload::Stream { high < -LEAST } else { low > LEAST };
    if !slower || !halves_agree(&d) {
        return None;
    }
    let size = |d: f64| percent((d.exp() - 1.0).abs());
    let (near, far) = if center > 0.0 { (low, high) } else { (high, low) };
    let worse = if input.plan.workload == Workload::Stream { "less throughput" } else { "longer messages" };
    let text = format!(
        "{}Counting events costs here: {} of {} rounds were counted and had {} % {worse} than their neighbours (95 %: {} %)",
        prefix(input, case),
        d.len(),
        rounds.len(),
        size(center),
        range(size(near), size(far))
    );
    let numbers = [("log_ratio", center), ("low", low), ("high", high), ("counted_rounds", d.len() as f64)];
    let why = "all of them are in the result, the same passes of every path: ratios between paths are fair";
    Some(warning("W105", text, why, "--events off", numbers))
}

#[cfg(test)]
mod tests {
    use msgpath_core::Histogram;
    use msgpath_core::schema::EventCount;

    use crate::testing::{Build, said};

    /// Every fourth round is counted and takes so many times as long.
    fn texts(factor: f64) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).noise(0.005).run();
        run.header.near_events.counted = vec!["cycles".into()];
        for round in run.rounds.iter_mut().filter(|round| round.pass % 4 == 0) {
            let count = EventCount { count: 1, enabled_ns: 1, running_ns: 1, user: None };
            round.near_events.insert("cycles".into(), count);
            let median = round.latency.quantile(0.5).flatten().unwrap() as f64;
            let mut slower = Histogram::new();
            (0..200).for_each(|at| slower.record((median * factor * (0.9 + 0.001 * f64::from(at))) as u64));
            round.latency = slower.to_sparse();
        }
        said(&run, "W105")
    }

    #[test]
    fn speaks_where_counted_rounds_are_slower() {
        let texts = texts(1.2);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("10 of 40 rounds were counted"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_they_are_like_their_neighbours() {
        assert!(texts(1.0).is_empty());
        assert!(said(&Build::echo(&["tcp:send"], &[64]).run(), "W105").is_empty());
    }
}
