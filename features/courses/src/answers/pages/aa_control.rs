//! The page of the preset `aa-control`: how small a difference this machine can show today.

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, MIN_ROUNDS_FOR_CLAIMS, Metric};
use msgpath_core::units::size;
use msgpath_stats::dependence::joined;
use msgpath_stats::describe::{deviation, mean, percentile};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::paired::{Series, log_ratios, paired};
use msgpath_stats::resample::{RESAMPLES, unit_count};
use msgpath_stats::verdict::{WIDEST_MARGIN, may_be_the_same};

use crate::answers::answered::{Answered, answer, sure, unsure};
use crate::answers::cell::Value;
use crate::answers::columns::{ratio_or, table};
use crate::answers::evidence::{beyond, distance, extremes};
use crate::answers::words::{percent, ratio_with};
use crate::answers::{Cell, Page, Part, Table};
use msgpath_analyse::series::same_cell;
use msgpath_analyse::summary::Confidence;

/// Numbers of rounds that the resolution is shown for.
const ROUNDS: [usize; 6] = [5, 10, 20, 40, 80, 160];
/// Differences that people publish.
const PUBLISHED: [f64; 5] = [0.001, 0.003, 0.01, 0.03, 0.1];
/// Two-sided 5 % and a power of 80 %: normal quantiles 1.960 + 0.842 (Cohen 1988, 2.4).
const DETECTED: f64 = 1.960 + 0.842;

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let pairs: Vec<Same> = parts.iter().flat_map(pairs).collect();
    let smallest = answer("How small a difference can this machine show today?", smallest(&pairs));
    if pairs.is_empty() {
        return Page { answers: vec![smallest], ..Page::default() };
    }
    let runs = answer("Are two runs one after the other as good as one run in turns?", one_after_the_other(parts));
    Page { tables: vec![resolutions(&pairs), needed(&pairs)], answers: vec![smallest, runs], ..Page::default() }
}

/// A path measured against itself: two cases in turn, with the logarithm of their ratio by pass.
struct Same {
    run: String,
    size: u64,
    d: Vec<f64>,
}

impl Same {
    /// Standard deviation of one pass: where neighbours resemble each other, what blocks of them say it would be if they did
    /// not.
    fn deviation(&self) -> f64 {
        let units = unit_count(&self.d);
        deviation(&joined(&self.d, units)) * (self.d.len() as f64 / units as f64).sqrt()
    }

    /// p95 of |A'/A - 1| over so many rounds: passes drawn with replacement, in blocks of four where neighbours resemble
    /// each other.
    fn resolution(&self, rounds: usize) -> f64 {
        let units = joined(&self.d, unit_count(&self.d));
        let draws = (rounds * units.len() / self.d.len()).max(1);
        let mut random = fastrand::Rng::with_seed(rounds as u64 ^ self.size);
        let mut errors: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let sum: f64 = (0..draws).map(|_| units[random.usize(..units.len())]).sum();
                ((sum / draws as f64).exp() - 1.0).abs()
            })
            .collect();
        percentile(&mut errors, 0.95)
    }

    /// Rounds after which a true difference of so much is shown four times in five.
    fn needed(&self, difference: f64) -> u64 {
        let rounds = (DETECTED * self.deviation() / difference.ln_1p()).powi(2).ceil();
        rounds.max(f64::from(MIN_ROUNDS_FOR_CLAIMS)) as u64
    }

    /// One divided by the other over all rounds.
    fn ratio(&self) -> Option<Value> {
        let paired = paired(&self.d, 1, self.size)?;
        let end = |sign: f64| paired.half.map(|half| (paired.mean + sign * half).exp());
        Some(Value { value: paired.mean.exp(), low: end(-1.0), high: end(1.0) })
    }
}

fn pairs(part: &Part<'_>) -> Vec<Same> {
    let cases = &part.run.header.plan.cases;
    let medians = |case: &Case| part.by_pass(Metric::P50, case);
    let of = |case: &Case| {
        let same =
            |other: &&Case| other.role == CaseRole::Measured && other.path == case.path && same_cell(other, case);
        let replica = cases.iter().find(same)?;
        let d: Vec<f64> = log_ratios(&medians(case), &medians(replica)).into_iter().map(|(_, d)| d).collect();
        let enough = d.len() >= 2 * MIN_ROUNDS_FOR_CLAIMS as usize;
        enough.then(|| Same { run: part.name.into(), size: case.size, d })
    };
    cases.iter().filter(|case| case.role == CaseRole::Control).filter_map(of).collect()
}

/// By number of rounds.
fn resolutions(pairs: &[Same]) -> Table {
    table("resolution", "resolution: |A'/A - 1| stays below it 19 times in 20", pairs)
        .col("run", |one| &one.run)
        .col("message", |one| Cell::size(one.size))
        .col("rounds", |one| Cell::count(one.d.len() as u64))
        .col("A'/A, p50", |one| ratio_or(one.ratio(), "no rounds"))
        .cols(ROUNDS, |rounds| format!("{rounds} rounds"), |one, rounds| Cell::Share(one.resolution(*rounds).into()))
        .note("more rounds than were measured: what they would resolve if they were like these")
}

/// By difference.
fn needed(pairs: &[Same]) -> Table {
    table("rounds-needed", "rounds that show a true difference of so much four times in five", pairs)
        .col("run", |one| &one.run)
        .col("message", |one| Cell::size(one.size))
        .cols(PUBLISHED, |by| format!("{} %", 100.0 * by), |one, by| Cell::count(one.needed(*by)))
        .into()
}

fn smallest(pairs: &[Same]) -> Answered {
    let worst = |of: &dyn Fn(&Same) -> f64| pairs.iter().map(of).fold(0.0, f64::max);
    let rounds = pairs.iter().map(|one| one.d.len()).min();
    let rounds = rounds.ok_or("no run measured a path against itself in enough rounds")?;
    let resolution = percent(worst(&|one| one.resolution(rounds)));
    let unseen = if may_be_the_same(worst(&|one| one.resolution(rounds))) {
        String::new()
    } else {
        format!(" Nothing can be told about differences below {resolution}, and nothing can be called the same here.")
    };
    let needs = worst(&|one| one.needed(0.003) as f64) as u64;
    let (published, needed) = (percent(0.003), needs.to_string());
    let verdict = if needs > rounds as u64 {
        format!(
            "a published difference of {published} cannot be shown here with {rounds} rounds; needed: {needed} rounds"
        )
    } else {
        format!("a difference of {published} can be shown with {rounds} rounds ({needed} are enough)")
    };
    Ok(sure(format!(
        "with {rounds} rounds taken in turn, measurements of the same path differ by up to {resolution} (p95 of |A'/A - 1|, the worse of \
         {} pairs): {verdict}.{unseen}",
        pairs.len()
    )))
}

/// What a comparison of two runs would have claimed.
fn one_after_the_other(parts: &[Part<'_>]) -> Answered {
    let [first, second, ..] = parts else { return Err("there are not two runs".into()) };
    let of = |case: &Case| {
        let same = |other: &&Case| other.role == case.role && other.path == case.path && same_cell(other, case);
        let other = first.run.header.plan.cases.iter().find(same)?;
        let logs = |series: Series| -> Vec<f64> { series.values().map(|value| value.ln()).collect() };
        let medians = |part: &Part<'_>, case| logs(part.by_pass(Metric::P50, case));
        let ratio = unpaired(&medians(second, case), &medians(first, other))?;
        Some((case.size, if case.role == CaseRole::Control { "A'" } else { "A" }, ratio))
    };
    let ratios: Vec<(u64, &str, Value)> = second.run.header.plan.cases.iter().filter_map(of).collect();
    let (_, (bytes, replica, ratio)) = extremes(&ratios, |(.., ratio)| distance(ratio.value))
        .ok_or("the two runs have no case in common with enough rounds")?;
    let apart = ratios.iter().filter(|(.., ratio)| beyond(ratio, 1.0) == Confidence::Sure).count();
    // How far from 1 a difference may lie that nobody would see.
    let reach =
        |ratio: &Value| [ratio.low, ratio.high].map(|end| end.map_or(f64::INFINITY, |end| end.ln().abs().exp_m1()));
    let unseen = ratios.iter().flat_map(|(.., ratio)| reach(ratio)).fold(0.0, f64::max);
    let all = ratios.len();
    let most = ratio_with(ratio);
    let widest = format!("{} {replica}", size(*bytes));
    let evidence = table("run-to-run", "the same case in the second run and in the first", &ratios)
        .col("message", |(bytes, ..)| Cell::size(*bytes))
        .col("replica", |(_, replica, _)| *replica)
        .col("second run to first, p50", |(.., ratio)| Cell::Ratio(*ratio));
    let output = match apart {
        0 if !may_be_the_same(unseen) => unsure(format!(
            "nothing can be told: none of {all} cases differs from run to run beyond its 95 % interval, but the intervals hold \
             differences of {} and more. The largest ratio is {most} ({widest}).",
            percent(WIDEST_MARGIN)
        )),
        0 => unsure(format!(
            "this time they are: none of {all} cases differs from run to run beyond its 95 % interval; the largest ratio is \
             {most} ({widest}). Another day it may differ."
        )),
        _ => sure(format!(
            "no: {apart} of {all} cases differ between the runs beyond their 95 % intervals although nothing was changed, at \
             most by a factor of {most} ({widest}). A comparison of two such runs would claim it."
        )),
    };
    Ok(if apart > 0 { output } else { output.next("msgpath preset aa-control") }.with(evidence))
}

/// Geometric means of two sets of rounds, one divided by the other, with Welch's 95 % interval on the logarithm, over
/// blocks where neighbours resemble each other.
fn unpaired(a: &[f64], b: &[f64]) -> Option<Value> {
    if a.len().min(b.len()) < 2 * MIN_ROUNDS_FOR_CLAIMS as usize {
        return None;
    }
    let [a, b] = [a, b].map(|values| joined(values, unit_count(values)));
    let part = |values: &[f64]| deviation(values).powi(2) / values.len() as f64;
    let (part_a, part_b) = (part(&a), part(&b));
    let freedom =
        (part_a + part_b).powi(2) / (part_a.powi(2) / (a.len() as f64 - 1.0) + part_b.powi(2) / (b.len() as f64 - 1.0));
    let difference = mean(&a) - mean(&b);
    let half = t_quantile(0.975, freedom) * (part_a + part_b).sqrt();
    let end = |at: f64| Some(at.exp()).filter(|ratio| ratio.is_finite());
    Some(Value { value: difference.exp(), low: end(difference - half), high: end(difference + half) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::testing::{Build, slow_down};

    fn made(noise: f64, spread: f64, second: f64) -> [Made; 2] {
        let build = Build::echo(&["tcp:send"], &[64]).control(64).noise(noise).spread(spread).rounds(40);
        let mut run = build.run();
        slow_down(&mut run, second, |_| true);
        [Made::of("a", &build), Made::from("b", run)]
    }

    #[test]
    fn a_noisy_machine_cannot_show_little() {
        let made = made(0.05, 0.1, 1.0);
        let page = page(&Made::parts(&made));
        let text = &page.answers[0].text;
        assert!(
            text.contains("a published difference of 0.300 % cannot be shown here with 40 rounds; needed: "),
            "{text}"
        );
        // 2.8 * 0.05 * sqrt 2 / 0.003 = 66: squared.
        let [Cell::Count { count: tenth }, Cell::Count { count }] = &page.tables[1].rows[0][2..4] else { panic!() };
        assert!((2_500..6_500).contains(count) && *tenth > 8 * count, "{tenth} {count}");
        assert_eq!(page.answers[1].confidence, Confidence::CantTell);
        assert!(page.answers[1].text.starts_with("this time they are"), "{}", page.answers[1].text);
    }

    #[test]
    fn where_the_noise_is_wide_nothing_can_be_told() {
        let made = made(0.5, 0.1, 1.0);
        let [smallest, runs] = &page(&Made::parts(&made)).answers[..] else { panic!() };
        assert!(smallest.text.contains("Nothing can be told about differences below "), "{}", smallest.text);
        assert!(runs.text.starts_with("nothing can be told: none of 2 cases"), "{}", runs.text);
        assert_eq!(runs.confidence, Confidence::CantTell);
    }

    #[test]
    fn a_steady_machine_can() {
        let made = made(0.0001, 0.0005, 1.0);
        let text = &page(&Made::parts(&made)).answers[0].text;
        assert!(text.contains("a difference of 0.300 % can be shown with 40 rounds"), "{text}");
    }

    #[test]
    fn runs_that_drift_apart_are_no_comparison() {
        let made = made(0.01, 0.1, 1.2);
        let answer = page(&Made::parts(&made)).answers.remove(1);
        assert_eq!(answer.confidence, Confidence::Sure);
        assert!(
            answer.text.starts_with("no: 2 of 2 cases") && answer.text.contains("factor of 1.2"),
            "{}",
            answer.text
        );
    }

    #[test]
    fn without_pairs_nothing_is_said() {
        let made = [Made::of("a", &Build::echo(&["tcp:send"], &[64]))];
        assert!(page(&Made::parts(&made)).answers[0].text.starts_with("cannot be answered on this path"));
    }
}
