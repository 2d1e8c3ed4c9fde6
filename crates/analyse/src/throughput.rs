//! Throughput of a stream: what the receiver counted, on the receiver's clock
//! (docs/method/rounds.md#means-over-rounds).

use msgpath_core::Case;
use msgpath_core::carried::Carried;
use msgpath_core::plan::{CaseRole, Plan};
use msgpath_core::schema::{EndReport, RoundRecord};
use msgpath_stats::describe::mean;
use msgpath_stats::estimate::{Estimate, log_estimate_in_time};
use msgpath_stats::paired::{self, Series, paired};

use crate::series::seed;
use crate::series::{per_second, receiver, sender};
use crate::summary::Throughput;

/// Throughput over the rounds of one case; `None` for an echo or where no round has a rate.
/// `series[i]` is the throughput of `plan.cases[i]`, for the reference.
pub fn throughput(plan: &Plan, case: &Case, rounds: &[&RoundRecord], series: &[Series]) -> Option<Throughput> {
    if plan.workload.timed {
        return None;
    }
    let rate = |of: &dyn Fn(&RoundRecord) -> Option<f64>| {
        log_estimate_in_time(&rounds.iter().filter_map(|round| of(round)).collect::<Vec<_>>())
    };
    let elapsed =
        |of: &dyn Fn(&RoundRecord) -> u64| mean(&rounds.iter().map(|round| of(round) as f64).collect::<Vec<_>>());
    Some(Throughput {
        receiver_bits: rate(&|round| Carried::of(plan, round).bits_per_s())?,
        sender_bits: rate(&|round| {
            let end = sender(plan, round);
            per_second(end.bytes_sent as f64 * 8.0, end.elapsed_ns)
        })?,
        messages: rate(&|round| Carried::of(plan, round).messages_per_s())?,
        bounds: rounds.iter().filter(|round| Carried::of(plan, round).at_least).count() as u64,
        beginning_bits: rate(&|round| beginning(receiver(plan, round))),
        beginning_ns: beginning_ns(plan, rounds),
        sender_ns: elapsed(&|round| sender(plan, round).elapsed_ns),
        receiver_ns: elapsed(&|round| receiver(plan, round).elapsed_ns),
        of_reference: reference(plan, case).and_then(|reference| share(plan, case, reference, series)),
    })
}

/// Bits per second of what was trimmed; `None`: nothing was.
fn beginning(end: &EndReport) -> Option<f64> {
    per_second(end.trimmed_bytes as f64 * 8.0, end.trimmed_ns)
}

fn beginning_ns(plan: &Plan, rounds: &[&RoundRecord]) -> Option<f64> {
    let each: Vec<f64> = rounds.iter().map(|round| receiver(plan, round).trimmed_ns as f64).collect();
    Some(mean(&each)).filter(|ns| *ns > 0.0)
}

/// ln(time per bit in the beginning / in the rest) of every round that has both.
pub(crate) fn log_ratios(plan: &Plan, rounds: &[&RoundRecord]) -> Vec<f64> {
    let ratio =
        |round: &&RoundRecord| Some((Carried::of(plan, round).bits_per_s()? / beginning(receiver(plan, round))?).ln());
    rounds.iter().filter_map(ratio).collect()
}

/// The reference that suits a case: of the same path, else of the same transport, else any; of the same thread count
/// first.
fn reference<'a>(plan: &'a Plan, case: &Case) -> Option<&'a Case> {
    if case.role == CaseRole::Reference {
        return None;
    }
    plan.cases.iter().filter(|other| other.role == CaseRole::Reference).max_by_key(|other| {
        let same = |same: bool, weight: u32| if same { weight } else { 0 };
        same(other.path == case.path, 4)
            + same(other.path.transport == case.path.transport, 2)
            + same(other.threads == case.threads, 1)
    })
}

/// Case divided by reference, paired by pass.
fn share(plan: &Plan, case: &Case, reference: &Case, series: &[Series]) -> Option<Estimate> {
    let d = paired::log_ratios(series.get(case.id as usize)?, series.get(reference.id as usize)?);
    Some(paired(&d.into_iter().map(|(_, d)| d).collect::<Vec<_>>(), 1, seed(plan, case, reference))?.ratio())
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::Build;

    #[test]
    fn the_receiver_counts() {
        // 1 MiB messages at 5.47 Gbit/s on the receiver's clock; the sender, who buffers, believes in 10 % more.
        let run = Build::stream(&["tcp:send"], &[1 << 20]).rates(|_, _| 5.47e9).run();
        let throughput = summarise(&run).cases[0].throughput.clone().unwrap();
        assert!((throughput.receiver_bits.value / 5.47e9 - 1.0).abs() < 1e-3, "{throughput:?}");
        assert!((throughput.sender_bits.value / throughput.receiver_bits.value - 1.1).abs() < 1e-2);
        assert!((throughput.messages.value * 8.0 * 1_048_576.0 / throughput.receiver_bits.value - 1.0).abs() < 1e-6);
        assert!(throughput.receiver_bits.low.is_some() && throughput.of_reference.is_none());
    }

    #[test]
    fn reversed_streams_are_counted_at_the_near_end() {
        let run = Build::stream(&["tcp:send"], &[1 << 20]).reverse().rates(|_, _| 2e9).run();
        let throughput = summarise(&run).cases[0].throughput.clone().unwrap();
        assert!((throughput.receiver_bits.value / 2e9 - 1.0).abs() < 1e-3, "{throughput:?}");
    }

    #[test]
    fn the_reference_is_divided_by_in_the_same_pass() {
        // The machine's speed changes from pass to pass; the share does not.
        let run = Build::stream(&["tcp:send"], &[64])
            .reference(1 << 20)
            .rates(|case, pass| (1.0 + f64::from(pass % 7)) * if case == 0 { 1e8 } else { 4e8 });
        let share = summarise(&run.run()).cases[0].throughput.clone().unwrap().of_reference.unwrap();
        assert!((share.value - 0.25).abs() < 1e-3 && share.high.unwrap() - share.low.unwrap() < 0.01, "{share:?}");
    }
}
