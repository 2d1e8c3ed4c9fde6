//! V12: whether restarts matter
//!
//! Whether fresh server processes differ by more than rounds of one process. *Dominate*: only more restarts help.
//! *Matter*: both count, with the best number of rounds a restart. *Do not matter*: they differ by at most so much.
//! Else *can't tell*. Disturbed rounds weaken it as in V02.
//!
//! ## What it rests on
//!
//! The variances of round medians within and between restarts ([formulas](docs/method/steadiness.md#restarts)): an F
//! test at 5 %; *dominate* where the variance between is the larger one; *do not matter* where the spread between is,
//! with 97.5 %, at most that within, or 2 %. Silent with one restart, fewer than two rounds each, and in a comparison.
//!
//! ## What to do
//!
//! Where restarts dominate: at least 10 of them, and the interval over restarts (`--json`: `restarts.p50_ns`). The
//! usual cause is where the kernel puts memory and threads: pin with `--cpu`.

use msgpath_core::plan::MAX_ROUNDS;
use msgpath_stats::restarts::{most_between, p_value};
use msgpath_stats::verdict::{LEAST_MARGIN, LEVEL};

use super::conditions::undisturbed;
use super::wording::{again, finding, measured, percent, prefix, sentence, without_key};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V12", detect };

/// So many restarts show how much they differ.
const MANY: u64 = 10;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.is_some() {
        return Vec::new();
    }
    measured(input).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let found = case.repeats.restarts.as_ref()?;
    let rounds = case.rounds as f64;
    let p = p_value(found, rounds)?;
    let most = most_between(found, rounds);
    let within = format!("rounds of one by {} %", percent(found.within));
    let differ = format!("fresh processes differ by {} % (standard deviation), {within}", percent(found.between));
    let more = |per_restart: u64| {
        let restarts = if found.restarts < MANY { MANY } else { 2 * found.restarts };
        let rounds = (restarts * per_restart).max(u64::from(input.plan.rounds));
        let possible = rounds * input.plan.cases.len() as u64 <= MAX_ROUNDS;
        let options = format!("-o restarts={restarts} -r {rounds}");
        let header = without_key(&input.run.header, "restarts");
        possible.then(|| again(&header, &["-r", "--rounds"], &options)).into_iter().collect()
    };
    let (confidence, text, next) = if p < LEVEL && found.dominate {
        let text = format!("restarts dominate: {differ}; more rounds will not help, more restarts will");
        (Confidence::Sure, text, more(2))
    } else if p < LEVEL {
        let best = found.best_rounds.map_or_else(String::new, |rounds| {
            format!("; {rounds} round{} a restart use the time best", if rounds == 1 { "" } else { "s" })
        });
        (Confidence::Sure, format!("restarts matter: {differ}{best}"), more(found.best_rounds.unwrap_or(2).max(2)))
    } else if most <= found.within.max(LEAST_MARGIN) {
        let text = format!(
            "restarts do not matter: fresh processes differ by at most {} % (standard deviation, 97.5 %), {within}",
            percent(most)
        );
        (Confidence::Sure, text, vec![])
    } else {
        let text = format!(
            "whether restarts matter: fresh processes differ by at most {} % (standard deviation, 97.5 %), \
             {within}; more restarts would tell",
            percent(most)
        );
        (Confidence::CantTell, text, more(2))
    };
    let numbers = [
        ("restarts", found.restarts as f64),
        ("within", found.within),
        ("between", found.between),
        ("between_at_most", most),
        ("p", p),
        ("best_rounds", found.best_rounds.map_or(f64::NAN, |rounds| rounds as f64)),
    ];
    let (confidence, why) = undisturbed(input, case, confidence);
    Some(finding("V12", confidence, sentence(&format!("{}{text}{why}", prefix(input, case))) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, relevel, sentences};

    fn levels(restarts: u32, levels: &'static [f64]) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).restarts(restarts).run();
        relevel(&mut run, |pass| 20_000.0 * levels[(pass * restarts / 40) as usize]);
        sentences(&run, "V12")
    }

    #[test]
    fn speaks_of_restarts_that_dominate() {
        let texts = levels(4, &[1.0, 1.3, 0.9, 1.1]);
        assert!(texts[0].starts_with("sure: Restarts dominate: fresh processes differ by 1"), "{texts:?}");
        assert!(texts[0].ends_with("more rounds will not help, more restarts will."), "{texts:?}");
        let mut run = Build::echo(&["tcp:send"], &[64]).restarts(4).run();
        relevel(&mut run, |pass| 20_000.0 * [1.0, 1.3, 0.9, 1.1][pass as usize / 10]);
        let finding = summarise(&run).findings.into_iter().find(|finding| finding.code == "V12").unwrap();
        assert_eq!(finding.next, ["msgpath echo -t 10s -o restarts=10 -r 40"]);
    }

    #[test]
    fn speaks_of_restarts_that_do_not_matter_and_of_doubt() {
        let texts = levels(10, &[1.0; 10]);
        assert!(texts[0].starts_with("sure: Restarts do not matter: "), "{texts:?}");
        // Two restarts bound nothing.
        let noisy = Build::echo(&["tcp:send"], &[64]).restarts(2).noise(0.1).run();
        assert!(
            sentences(&noisy, "V12")[0].starts_with("can't tell: Whether restarts matter"),
            "{:?}",
            sentences(&noisy, "V12")
        );
    }

    #[test]
    fn is_silent_with_a_single_restart_and_in_comparisons() {
        assert!(levels(1, &[1.0]).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).restarts(4).run(), "V12").is_empty());
    }
}
