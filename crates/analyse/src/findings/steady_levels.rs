//! Of V02: warm-up or slow-down inside the run.

use msgpath_stats::steady::{SteadyClass, ratio, stretches};

use super::conditions::undisturbed;
use super::wording::{again, again_for, finding, interval, measured, percent, prefix, seconds_measured, sentence};
use super::{Detector, Input, Sentence};
use crate::settled::timed;
use crate::summary::{CaseSummary, Confidence};
use crate::words::levels_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "V02", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.is_some() {
        return Vec::new();
    }
    measured(input).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let found = case.steadiness.as_ref()?;
    if !matches!(found.class, SteadyClass::WarmUp | SteadyClass::SlowDown) {
        return None;
    }
    let own = &input.rounds[case.case.id as usize];
    let times: Vec<f64> = timed(input.plan, &case.case, own).into_iter().map(|(_, ns)| ns).collect();
    let last = stretches(found, times.len()).last()?.start;
    let (before, after) = times.split_at(last);
    // A throughput is the inverse of the time per message.
    let (what, change) =
        if input.plan.workload.timed { ("p50", ratio(before, after)?) } else { ("throughput", ratio(after, before)?) };
    let (low, high) = (change.low?, change.high?);
    let from = format!("from round {} of {} on", last + 1, times.len());
    let text = if low > 1.0 || high < 1.0 {
        let name = found.class.words();
        let direction = if change.value > 1.0 { "higher" } else { "lower" };
        let away = |ratio: f64| format!("{} %", percent((ratio - 1.0).abs()));
        let (least, most) = if change.value > 1.0 { (low, high) } else { (high, low) };
        format!(
            "{name} inside the run: {from}, {what} is {} {direction} than before ({})",
            away(change.value),
            interval(Some(least), Some(most), away).unwrap_or_default()
        )
    } else {
        // Up and down again.
        format!("the level changed inside the run, for the last time {from}: {}", levels_in_words(found))
    };
    let numbers = [
        ("rounds_before", last as f64),
        ("levels", found.levels as f64),
        ("last_level_to_before", change.value),
        ("low", low),
        ("high", high),
    ];
    let header = &input.run.header;
    let next = match found.class {
        SteadyClass::WarmUp => {
            // Until then, as this run went.
            let start = |round: usize| own.get(round).map_or(0, |round| round.start_ns);
            let seconds = (start(last).saturating_sub(start(0)) as f64 / 1e9).ceil().max(1.0);
            again(header, &["--warmup"], &format!("--warmup {seconds}s"))
        }
        _ => again_for(header, 4.0 * seconds_measured(input, case)),
    };
    let (confidence, why) = undisturbed(input, case, Confidence::Sure);
    let text = sentence(&format!("{}{text}{why}", prefix(input, case))) + ".";
    Some(finding("V02", confidence, text, numbers, vec![next]))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, ramp, relevel, sentences};

    #[test]
    fn speaks_of_a_warm_up_and_of_a_slow_down() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| if pass < 9 { 25_000.0 } else { 20_000.0 });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with("sure: Warm-up inside the run: from round 10 of 40 on, p50 is 20 % lower than before"),
            "{texts:?}"
        );
        let finding = summarise(&run).findings.into_iter().find(|finding| finding.code == "V02").unwrap();
        assert_eq!(finding.next, ["msgpath echo -t 10s --warmup 1s"]);
        relevel(&mut run, |pass| if pass < 12 { 20_000.0 } else { 25_000.0 });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].contains("Slow-down inside the run: from round 13 of 40 on, p50 is 25 % higher"), "{texts:?}");
        let stream = Build::stream(&["tcp:send"], &[65_536])
            .rates(|_, pass| if pass < 12 { 2e9 } else { 1e9 } * (1.0 + 0.001 * f64::from(pass % 3)))
            .run();
        assert!(
            sentences(&stream, &super::DETECTOR)[0].contains("throughput is 50 % lower than before"),
            "{:?}",
            sentences(&stream, &super::DETECTOR)
        );
    }

    #[test]
    fn rounds_that_were_disturbed_make_no_level_sure() {
        let warmed_up = |disturbed: usize| {
            let mut run = Build::echo(&["tcp:send"], &[64]).run();
            relevel(&mut run, |pass| if pass < 16 { 25_000.0 } else { 20_000.0 });
            run.rounds.iter_mut().take(disturbed).for_each(|round| round.steal_ticks = Some(9));
            sentences(&run, &super::DETECTOR).remove(0)
        };
        let most = warmed_up(38);
        assert!(most.starts_with("can't tell: Warm-up inside the run: from round 17 of 40 on"), "{most}");
        assert!(most.ends_with("; 38 of 40 rounds were disturbed, which may explain it."), "{most}");
        assert!(warmed_up(0).starts_with("sure: ") && warmed_up(4).starts_with("sure: "), "they are left out");
    }

    #[test]
    fn is_silent_on_one_level_on_none_and_in_comparisons() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        relevel(&mut run, |pass| if pass < 9 { 25_000.0 } else { 20_000.0 });
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
