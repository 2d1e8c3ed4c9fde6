//! Of W46: interrupts on a CPU that measures.

use std::collections::BTreeSet;

use msgpath_core::schema::RoundRecord;

use super::conditions::{End, contrast, ends, measured_rounds, of_rounds, one_machine};
use super::wording::warning;
use super::{Detector, Input, Sentence};
use msgpath_core::units::per_second;

pub(super) const DETECTOR: Detector = Detector { code: "W46", detect };

/// The tick of the scheduler, at most: HZ = 1000.
const TICK_PER_S: f64 = 1_000.0;
/// Interrupts that a message is expected to cost the CPU it is handled on: it is woken by the other end, or by the NIC,
/// and its own packet is reported as sent. More of them where a message is more than one segment.
const PER_MESSAGE: f64 = 2.0;
/// Bytes that are handed on at a time at least.
const SEGMENT: f64 = 16_384.0;
/// Beyond what is expected, this many a second; at 1 to 2 µs each they take a hundredth of the CPU.
const EXCESS_PER_S: f64 = 5_000.0;
/// And this much more than expected.
const EXCESS: f64 = 1.5;

fn detect(input: &Input) -> Vec<Sentence> {
    ends(input)
        .iter()
        .flat_map(|end| {
            let cpus: BTreeSet<u32> = end.pinned.iter().copied().collect();
            cpus.into_iter().filter_map(|cpu| say(input, end, cpu)).collect::<Vec<_>>()
        })
        .collect()
}

/// Interrupts that the messages of a round and the tick explain on each CPU of an end.
fn expected(input: &Input, end: &End, round: &RoundRecord) -> f64 {
    let case = &input.plan.cases[round.case as usize];
    let messages = messages(input, end, round);
    // A thread that spins on this machine is never woken.
    let woken = if case.traits.spins && one_machine(input) { 0.0 } else { PER_MESSAGE };
    let segments = 1.0 + (case.size + case.reply) as f64 / SEGMENT;
    messages * woken * segments + TICK_PER_S * end.watched_ns(round) / 1e9
}

/// Messages while the interrupts of a round were counted, those of the warm-up too, for each CPU of an end.
fn messages(input: &Input, end: &End, round: &RoundRecord) -> f64 {
    let delivery = &end.report(round).delivery;
    let cpus = end.pinned.iter().collect::<BTreeSet<_>>().len().max(1);
    let connections = u64::from(input.plan.cases[round.case as usize].connections);
    let warm_up = round.first.total().max(input.plan.trim * connections);
    (delivery.sent.max(delivery.received) + warm_up) as f64 / cpus as f64
}

fn say(input: &Input, end: &End, cpu: u32) -> Option<Sentence> {
    let name = format!("irq.cpu{cpu}");
    let counted: Vec<&RoundRecord> =
        measured_rounds(input).into_iter().filter(|round| end.grew(round, &name).is_some()).collect();
    let excess = |round: &RoundRecord| {
        let (seen, expected) = (end.grew(round, &name).unwrap_or(0) as f64, expected(input, end, round));
        seen > EXCESS * expected && seen - expected > EXCESS_PER_S * end.watched_ns(round) / 1e9
    };
    let some: Vec<&RoundRecord> = counted.iter().copied().filter(|round| excess(round)).collect();
    // Only what goes on in a good part of the rounds is a property of this CPU.
    if some.len() < 3 || some.len() * 10 < counted.len() {
        return None;
    }
    let sum = |of: &dyn Fn(&RoundRecord) -> f64| some.iter().map(|round| of(round)).sum::<f64>();
    let (seen, lasted) =
        (sum(&|round| end.grew(round, &name).unwrap_or(0) as f64), sum(&|round| end.watched_ns(round)) / 1e9);
    let (messages, expected) = (sum(&|round| messages(input, end, round)), sum(&|round| expected(input, end, round)));
    let contrast = contrast(input, &counted, excess);
    Some(warning(
        "W46",
        format!(
            "interrupts on CPU {cpu}, which {} measures on: {} in {}, where its messages and the tick explain at most {}; {}",
            end.name,
            per_second(seen / lasted),
            of_rounds(some.len(), counted.len()),
            per_second(expected / lasted),
            contrast.clause
        ),
        "an interrupt takes its time from whoever runs on that CPU, here from one end only",
        "another CPU (--cpu), or move the interrupts away: stop irqbalance, write /proc/irq/N/smp_affinity",
        [
            ("interrupts_per_s", seen / lasted),
            ("expected_per_s", expected / lasted),
            ("interrupts_per_message", if messages > 0.0 { seen / messages } else { f64::NAN }),
            ("rounds_affected", some.len() as f64),
            ("rounds", counted.len() as f64),
            ("level_ratio", contrast.level),
            ("slow_share_affected", contrast.slow_with),
            ("slow_share_others", contrast.slow_without),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences, stalls};
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::NEAR;

    /// Rounds of 40 ms, 200 messages and 100 of the warm-up: 600 interrupts by messages and 40 by the tick are expected.
    fn run(path: &str, interrupts: impl Fn(usize) -> u64) -> msgpath_record::Run {
        let mut build = Build::echo(&[path], &[64]);
        build.plan.placement = Placement::pair(vec![2], vec![3]);
        let mut run = build.run();
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.end_mut(NEAR).kernel.0.insert("irq.cpu2".into(), interrupts(at));
        }
        run
    }

    #[test]
    fn speaks_of_more_than_messages_and_tick_explain() {
        let mut run = run("tcp:send", |at| if at % 4 == 0 { 4_000 } else { 400 });
        run.rounds.iter_mut().step_by(4).for_each(|round| stalls(round, 8, 60_000));
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 1);
        assert!(
            texts[0].starts_with(
                "interrupts on CPU 2, which the near end measures on: 100 k/s in 10 of 40 rounds, where its messages and the tick explain at most 16"
            ),
            "{texts:?}"
        );
        assert!(texts[0].contains("% of their messages are as slow as the p99"), "{texts:?}");
    }

    #[test]
    fn wake_ups_and_ticks_are_expected_but_not_where_a_thread_spins() {
        assert!(sentences(&run("tcp:send", |_| 450), &super::DETECTOR).is_empty());
        assert_eq!(sentences(&run("tcp:send/spin", |_| 450), &super::DETECTOR).len(), 1);
        assert!(sentences(&run("tcp:send/spin", |_| 45), &super::DETECTOR).is_empty());
    }

    /// 400 connections: most messages are of the warm-up, and the measured part is short.
    #[test]
    fn the_warm_up_is_part_of_what_is_counted() {
        let mut run = run("tcp:send", |_| 8_000);
        run.header.plan.cases[0].connections = 40;
        for round in &mut run.rounds {
            (round.near_mut().elapsed_ns, round.far_mut().elapsed_ns) = (1_000_000, 1_000_000);
        }
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        run.rounds.iter_mut().for_each(|round| *round.end_mut(NEAR).kernel.0.get_mut("irq.cpu2").unwrap() = 20_000);
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].contains(": 500 k/s in 40 of 40 rounds"), "{texts:?}");
    }

    #[test]
    fn is_silent_about_other_cpus_and_uncounted_ones() {
        let mut other = run("tcp:send", |_| 0);
        other.rounds.iter_mut().for_each(|round| {
            round.end_mut(NEAR).kernel.0.insert("irq.cpu0".into(), 90_000);
        });
        assert!(sentences(&other, &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&run("tcp:send", |at| if at == 7 { 90_000 } else { 0 }), &super::DETECTOR).is_empty());
    }
}
