//! Of W46: the CPU changed its speed.

use msgpath_core::schema::RoundRecord;
use msgpath_stats::association::association;
use msgpath_stats::describe::percentile;

use super::conditions::{End, ends, levels, measured_rounds};
use super::wording::{percent, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W46", detect };

/// A smaller change between the fastest and the slowest tenth of the rounds is not one.
const CHANGE: f64 = 0.01;
/// A smaller change of the measured level is not worth a sentence.
const WORTH_SAYING: f64 = 0.01;

fn detect(input: &Input) -> Vec<Sentence> {
    ends(input).iter().filter_map(|end| say(input, end)).collect()
}

/// The probe is noisy, above all on virtual machines: that its values differ says nothing. That the rounds are slow
/// where it is slow does, in both halves of the run.
fn say(input: &Input, end: &End) -> Option<Sentence> {
    let rounds = measured_rounds(input);
    let speeds = |round: &&RoundRecord| end.speed_ns(round).filter(|ns| *ns > 0).map(|ns| ns as f64);
    let (speeds, levels): (Vec<f64>, Vec<f64>) =
        rounds.iter().zip(levels(input, &rounds)).filter_map(|(round, level)| Some((speeds(round)?, level?))).unzip();
    let found = association(&speeds, &levels).filter(|found| found.rises())?;
    let at = |p: f64| percentile(&mut speeds.clone(), p);
    let (fast, slow, middle) = (at(0.1), at(0.9), at(0.5));
    let change = slow / fast - 1.0;
    // The level of the slower half of the rounds against that of the faster, by the probe.
    let half = |slower: bool| {
        let own = speeds.iter().zip(&levels).filter(|(speed, _)| (**speed > middle) == slower);
        let mut own: Vec<f64> = own.map(|(_, level)| *level).collect();
        if own.is_empty() { f64::NAN } else { percentile(&mut own, 0.5) }
    };
    let effect = (half(true) - half(false)).exp() - 1.0;
    if change <= CHANGE || effect.is_nan() || effect < WORTH_SAYING {
        return None;
    }
    let follows = if input.plan.workload.timed {
        format!("p50 is {} % higher in the slower half of them", percent(effect))
    } else {
        format!("throughput is {} % lower in the slower half of them", percent(1.0 - 1.0 / (1.0 + effect)))
    };
    let governor = match end.machine.facts.get("cpu governor") {
        Some(name) if !name.starts_with("n/a") => format!(" (governor {name})"),
        _ => String::new(),
    };
    Some(warning(
        "W46",
        format!(
            "the CPU of {} changed its speed between rounds{governor}: the same computing took {} % longer before the slowest tenth than before the fastest, and {follows}",
            end.name,
            percent(change)
        ),
        "of two cases, the faster one may be the one that found the faster CPU; the order of the rounds is random, so a comparison stands while absolute values shift",
        "a fixed clock rate: governor performance, turbo off; where the kernel lets it be set, msgpath doctor --fix prints the commands",
        [
            ("speed_change", change),
            ("level_change", effect),
            ("rank_correlation", found.rho),
            ("p", found.p),
            ("rounds", speeds.len() as f64),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences, slow_down};
    use msgpath_core::schema::NEAR;
    use msgpath_stats::simulate::normal;

    /// The probe takes 1 ms, with noise; every third round a share longer, and the rounds follow or not.
    fn run(slower: f64, noise: f64, follows: bool) -> msgpath_record::Run {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        let mut random = fastrand::Rng::with_seed(5);
        for (at, round) in run.rounds.iter_mut().enumerate() {
            let factor = if at % 3 == 0 { 1.0 + slower } else { 1.0 };
            round.end_mut(NEAR).speed_ns = Some((1e6 * factor * (noise * normal(&mut random)).exp()) as u64);
        }
        if follows {
            slow_down(&mut run, 1.0 + slower, |at| at % 3 == 0);
        }
        run
    }

    #[test]
    fn speaks_where_the_rounds_follow() {
        let mut run = run(0.1, 0.01, true);
        run.header.host_mut(NEAR).facts.insert("cpu governor".into(), "schedutil".into());
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].starts_with(
                "the CPU of the near end changed its speed between rounds (governor schedutil): the same computing took 1"
            ),
            "{texts:?}"
        );
        assert!(texts[0].contains("p50 is "), "{texts:?}");
    }

    #[test]
    fn a_noisy_probe_is_not_a_change() {
        assert!(sentences(&run(0.0, 0.08, false), &super::DETECTOR).is_empty());
        assert!(sentences(&run(0.1, 0.01, false), &super::DETECTOR).is_empty());
    }

    #[test]
    fn is_silent_without_a_probe_or_with_a_steady_cpu() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&run(0.004, 0.0005, true), &super::DETECTOR).is_empty());
    }
}
