//! V10: warm-up or slow-down inside the run
//!
//! ## What it says
//!
//! That the run settled on a level, but on another than it began with: from which round on, and by how much (*sure*). A
//! *warm-up* ends faster than it began, a *slow-down* ends slower. Up and down again is called a change of level.
//!
//! Where rounds that say so were disturbed (by other work, a hypervisor or a quota), it is *likely* at most; where half of them were,
//! *can't tell*, with how many there were.
//!
//! ## What it is computed from
//!
//! The median of each round (streams: its throughput), in the order of the rounds, at least 20 of them. PELT finds the change
//! points on the logarithms: least squares around levels of at least 5 rounds, with a penalty of 3 s² ln B for each change;
//! levels closer than 1 % are one. s² is the long-run variance of the differences of neighbours, so that rounds that resemble
//! their neighbours a little are not taken for levels. The change points count only where at most 1 of 199 random orders of
//! the same rounds can be split as well. The change is the last level against all rounds before it, with a 95 % interval by
//! Welch's t on the logarithms. With `-o restarts`, levels are looked for within restarts (V12 is about those between).
//!
//! ## When it stays silent
//!
//! On one level (V02); where the rounds never settled (W45); below 20 rounds; in a comparison, where rounds are paired.
//!
//! ## What to do
//!
//! Warm-up: measure with the `--warmup` that is printed. Slow-down: measure for longer, as printed, to see where it ends; look
//! at CPU frequency and heat, and at what else began to run.

use msgpath_stats::steady::{SteadyClass, ratio, stretches};

use super::conditions::undisturbed;
use super::wording::{again, again_for, finding, interval, measured, percent, prefix, seconds_measured, sentence};
use super::{Detector, Input, Sentence};
use crate::settled::timed;
use crate::summary::{CaseSummary, Confidence};
use crate::words::levels_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "V10", detect };

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
    Some(finding("V10", confidence, text, numbers, vec![next]))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, ramp, relevel, sentences};

    #[test]
    fn speaks_of_a_warm_up_and_of_a_slow_down() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| if pass < 9 { 25_000.0 } else { 20_000.0 });
        let texts = sentences(&run, "V10");
        assert!(
            texts[0].starts_with("sure: Warm-up inside the run: from round 10 of 40 on, p50 is 20 % lower than before"),
            "{texts:?}"
        );
        let finding = summarise(&run).findings.into_iter().find(|finding| finding.code == "V10").unwrap();
        assert_eq!(finding.next, ["msgpath echo -t 10s --warmup 1s"]);
        relevel(&mut run, |pass| if pass < 12 { 20_000.0 } else { 25_000.0 });
        let texts = sentences(&run, "V10");
        assert!(texts[0].contains("Slow-down inside the run: from round 13 of 40 on, p50 is 25 % higher"), "{texts:?}");
        let stream = Build::stream(&["tcp:send"], &[65_536])
            .rates(|_, pass| if pass < 12 { 2e9 } else { 1e9 } * (1.0 + 0.001 * f64::from(pass % 3)))
            .run();
        assert!(
            sentences(&stream, "V10")[0].contains("throughput is 50 % lower than before"),
            "{:?}",
            sentences(&stream, "V10")
        );
    }

    #[test]
    fn rounds_that_were_disturbed_make_no_level_sure() {
        let warmed_up = |disturbed: usize| {
            let mut run = Build::echo(&["tcp:send"], &[64]).run();
            relevel(&mut run, |pass| if pass < 16 { 25_000.0 } else { 20_000.0 });
            run.rounds.iter_mut().take(disturbed).for_each(|round| round.steal_ticks = Some(9));
            sentences(&run, "V10").remove(0)
        };
        let most = warmed_up(38);
        assert!(most.starts_with("can't tell: Warm-up inside the run: from round 17 of 40 on"), "{most}");
        assert!(most.ends_with("; 38 of 40 rounds were disturbed, which may explain it."), "{most}");
        assert!(warmed_up(0).starts_with("sure: ") && warmed_up(4).starts_with("sure: "), "they are left out");
    }

    #[test]
    fn is_silent_on_one_level_on_none_and_in_comparisons() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V10").is_empty());
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        assert!(sentences(&run, "V10").is_empty());
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        relevel(&mut run, |pass| if pass < 9 { 25_000.0 } else { 20_000.0 });
        assert!(sentences(&run, "V10").is_empty());
    }
}
