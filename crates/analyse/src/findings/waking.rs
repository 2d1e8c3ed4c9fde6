//! V13: waking a sleeping CPU dominates
//!
//! Which part of p50 goes away when no sleeping CPU has to be woken: p50 beside that with a receiver that spins, or
//! with both ends on one CPU; and how long a wake-up takes here. *Sure* if the change is better after Holm, its
//! interval takes away more than half, and both halves agree.
//!
//! ## What it rests on
//!
//! Ablations: the same case in the same passes with `spin`, or with the server on the client's CPU. The wake-up is
//! measured before the run by a futex between two threads. Both changes save a little more than the wake-up. *Can't
//! tell* where others kept the CPUs busy (W46): then no CPU slept. Silent for streams and below 20 % of p50.
//!
//! ## What to do
//!
//! `-o wait=spin`, if the latency is worth a CPU; `--cpu 1,1`, if the ends talk in turn. Otherwise nothing: a program
//! that sleeps has this time.

use msgpath_core::PathName;
use msgpath_core::path::DEFAULT_WAIT;
use msgpath_core::plan::{Change, Metric};
use msgpath_core::schema::NEAR;
use msgpath_core::units::Glyphs;
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::halves_agree;
use msgpath_stats::verdict::Verdict;

use super::conditions::{ends, of_rounds, used_by_others};
use super::wording::{again, again_over, again_set, finding, measured, percent, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{AblationResult, CaseSummary, Confidence};
use crate::words::{paired_in_words, range_in_words};

pub(super) const DETECTOR: Detector = Detector { code: "V13", detect };

/// A smaller part of p50 is not worth a sentence.
const PART: f64 = 0.2;
/// Above this share of p50 the wake-up dominates.
const MOST: f64 = 0.5;
/// Share of the time of a CPU that others may use, and it still sleeps between two messages.
const OTHERS: f64 = 0.2;

fn detect(input: &Input) -> Vec<Sentence> {
    if !input.plan.workload.is_echoed() {
        return Vec::new();
    }
    measured(input).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let own = input.summary.ablations.iter().filter(|ablation| ablation.of == case.case.id);
    let tried: Vec<&AblationResult> =
        own.filter(|ablation| matches!(ablation.change, Change::SameCpu | Change::Spin)).collect();
    // Of what helped, what helped most.
    let better = tried.iter().filter(|ablation| ablation.verdict == Verdict::Better);
    let best = *better.min_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value))?;
    let saved = 1.0 - best.ratio.value;
    if saved < PART {
        return None;
    }
    if let Some(others) = others(input, case) {
        return Some(say_who_cannot_tell(input, case, best, others));
    }
    let agree = |ablation: &AblationResult| {
        let d = log_ratios(&input.series[ablation.case as usize], &input.series[ablation.of as usize]);
        halves_agree(&d.into_iter().map(|(_, d)| d).collect::<Vec<_>>())
    };
    let sure = best.ratio.high.is_some_and(|high| 1.0 - high > MOST) && agree(best);
    let how_much = if saved > MOST { "most" } else { "a part" };
    let time = |ns| Glyphs::Unicode.time(ns);
    let measured_beside: Vec<String> = tried.iter().map(|ablation| beside(ablation)).collect();
    let p50 = case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5);
    let mut text = format!(
        "{}waking a sleeping CPU is {how_much} of the time ({} %): in this run p50 is {}{}, against {}",
        prefix(input, case),
        percent(saved),
        time(best.case_value),
        p50.and_then(range_in_words).map_or_else(String::new, |range| format!(" ({range})")),
        measured_beside.join(", ")
    );
    let floor = input.run.header.floors.as_ref().and_then(|floors| floors.wake_round_trip_ns);
    if let Some(floor) = floor {
        text.push_str(&format!(". Waking the other CPU and being woken by it takes {} here", time(floor)));
    }
    let of = |change: &Change, value: fn(&AblationResult) -> f64| {
        tried.iter().find(|ablation| ablation.change == *change).map_or(f64::NAN, |ablation| value(ablation))
    };
    let numbers = [
        ("p50_ns", best.case_value),
        ("share_of_p50", saved),
        ("spin_p50_ns", of(&Change::Spin, |ablation| ablation.value)),
        ("spin_ratio", of(&Change::Spin, |ablation| ablation.ratio.value)),
        ("same_cpu_p50_ns", of(&Change::SameCpu, |ablation| ablation.value)),
        ("same_cpu_ratio", of(&Change::SameCpu, |ablation| ablation.ratio.value)),
        ("wake_round_trip_ns", floor.unwrap_or(f64::NAN)),
    ];
    let confidence = if sure { Confidence::Sure } else { Confidence::Likely };
    Some(finding("V13", confidence, sentence(&text) + ".", numbers, next(input, case, best)))
}

/// Why the CPUs of a case did not sleep: others were on them. A what-if that spins or shares a CPU then escapes the run queue
/// as well as the wake-up.
fn others(input: &Input, case: &CaseSummary) -> Option<String> {
    let rounds = &input.rounds[case.case.id as usize];
    let shared = rounds.iter().filter(|round| input.calm.disturbed(round).iter().any(|end| end.shared)).count();
    let used = ends(input).iter().filter_map(|end| used_by_others(input, end, rounds)).fold(f64::NAN, f64::max);
    if used > OTHERS {
        Some(format!("others used {} % of the time of a measuring CPU", percent(used.min(1.0))))
    } else if 2 * shared > rounds.len() {
        Some(format!("other work was on the measuring CPUs in {}", of_rounds(shared, rounds.len())))
    } else {
        None
    }
}

fn say_who_cannot_tell(input: &Input, case: &CaseSummary, best: &AblationResult, others: String) -> Sentence {
    let text = format!(
        "{}how much of the time is waking a sleeping CPU is not known: in this run p50 is {}, against {}, but {others}, and who waits in the queue of a busy CPU gains the same",
        prefix(input, case),
        Glyphs::Unicode.time(best.case_value),
        beside(best)
    );
    let numbers = [("p50_ns", best.case_value), ("share_of_p50", 1.0 - best.ratio.value)];
    finding("V13", Confidence::CantTell, sentence(&text) + ".", numbers, vec!["msgpath doctor".into()])
}

/// `8.10 µs where the receiver spins (paired by pass 2.94 times faster, 95 %: 2.86 to 3.03)`.
fn beside(ablation: &AblationResult) -> String {
    let how = if ablation.change == Change::Spin { "where the receiver spins" } else { "with both ends on one CPU" };
    format!("{} {how} ({})", Glyphs::Unicode.time(ablation.value), paired_in_words(&ablation.ratio, Metric::P50))
}

/// The command that keeps what helped.
fn next(input: &Input, case: &CaseSummary, best: &AblationResult) -> Vec<String> {
    let header = &input.run.header;
    if best.change == Change::SameCpu {
        let cpus: Vec<String> = input.plan.placement.of(NEAR).iter().map(u32::to_string).collect();
        let pair = match cpus.as_slice() {
            [] => return Vec::new(),
            [one] => format!("{one},{one}"),
            _ => format!("{0}:{0}", cpus.join(",")),
        };
        return vec![again(header, &["--cpu"], &format!("--cpu {pair}"))];
    }
    // The setting is for paths that name no wait.
    let path = &case.case.path;
    if path.wait == DEFAULT_WAIT {
        return vec![again_set(header, "wait=spin")];
    }
    let spinning = PathName { wait: case.case.traits.spinning_wait.clone(), ..path.clone() };
    again_over(header, &spinning.to_string()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};
    use msgpath_core::plan::{Case, Change};
    use msgpath_core::schema::{Floors, NEAR};

    fn build(path: &str, spin: f64, same: f64) -> Build {
        let mut build = Build::echo(&[path], &[64]).ablation(0, Change::Spin).ablation(0, Change::SameCpu);
        build.plan.placement.set(NEAR, vec![1]);
        build.factor(move |case: &Case| match case.ablation.as_ref().map(|ablation| &ablation.change) {
            Some(Change::Spin) => spin,
            Some(Change::SameCpu) => same,
            _ => 1.0,
        })
    }

    #[test]
    fn is_sure_where_more_than_half_goes_away() {
        let mut run = build("tcp:send", 0.3, 0.45).run();
        run.header.floors = Some(Floors { wake_round_trip_ns: Some(12_300.0), ..Default::default() });
        let finding = summarise(&run).findings.into_iter().find(|finding| finding.code == "V13").unwrap();
        let text = format!("{}: {}", finding.confidence.word(), finding.text);
        assert!(
            text.starts_with("sure: Waking a sleeping CPU is most of the time (70 %): in this run p50 is 20."),
            "{text}"
        );
        assert!(text.contains(" µs (95 %: 19.") || text.contains(" µs (95 %: 20."), "p50 with its range: {text}");
        assert!(text.contains(" µs where the receiver spins (paired by pass 3.3"), "{text}");
        assert!(text.contains(" times faster, 95 %: 3."), "{text}");
        assert!(text.contains("with both ends on one CPU (paired by pass 2.2"), "{text}");
        assert!(text.ends_with(" Waking the other CPU and being woken by it takes 12.3 µs here."), "{text}");
        assert_eq!(finding.next, ["msgpath echo -t 10s -o wait=spin"]);
    }

    #[test]
    fn is_not_sure_of_a_smaller_part() {
        let texts = sentences(&build("tcp:send", 0.7, 1.0).run(), "V13");
        assert!(texts[0].starts_with("likely: Waking a sleeping CPU is a part of the time (30 %)"), "{texts:?}");
    }

    /// A busy loop on each CPU: no CPU sleeps, and both what-ifs escape the queue behind the loop.
    #[test]
    fn a_cpu_that_others_keep_busy_does_not_sleep() {
        let run = |busy_ticks: u64| {
            let mut run = build("tcp:send", 0.3, 0.45).run();
            run.header.ends.iter_mut().for_each(|end| end.counters.push("stat.cpu1.busy".into()));
            for round in &mut run.rounds {
                round.end_mut(NEAR).kernel.0.insert("stat.cpu1.busy".into(), busy_ticks);
                round.near_mut().system_ns = 18_000_000;
            }
            run
        };
        let texts = sentences(&run(4), "V13");
        assert!(
            texts[0].starts_with(
                "can't tell: How much of the time is waking a sleeping CPU is not known: in this run p50 is 20."
            ) && texts[0].contains("but others used 55 % of the time of a measuring CPU"),
            "{texts:?}"
        );
        assert!(sentences(&run(2), "V13")[0].starts_with("sure: Waking a sleeping CPU"));
        let mut taken_off = build("tcp:send", 0.3, 0.45).run();
        taken_off.header.plan.placement = msgpath_core::plan::Placement::pair(vec![1], vec![2]);
        taken_off.rounds.iter_mut().for_each(|round| round.near_mut().involuntary_switches = 20);
        assert!(
            sentences(&taken_off, "V13")[0].contains("but other work was on the measuring CPUs in 40 of 40 rounds"),
            "{:?}",
            sentences(&taken_off, "V13")
        );
    }

    #[test]
    fn repeats_what_helped() {
        let next = |run| summarise(&run).findings.into_iter().find(|finding| finding.code == "V13").unwrap().next;
        assert_eq!(next(build("tcp:send", 1.0, 0.4).run()), ["msgpath echo -t 10s --cpu 1,1"]);
        assert_eq!(next(build("tcp:send/epoll", 0.4, 1.0).run()), ["msgpath echo -t 10s -x tcp:send/spin"]);
    }

    #[test]
    fn is_silent_without_an_ablation_that_helped() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V13").is_empty());
        assert!(sentences(&build("tcp:send", 1.0, 1.3).run(), "V13").is_empty());
        assert!(sentences(&build("tcp:send", 0.9, 1.0).run(), "V13").is_empty());
        assert!(sentences(&build("tcp:send", 0.3, 0.3).rounds(4).run(), "V13").is_empty());
    }
}
