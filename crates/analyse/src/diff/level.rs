//! What one run knows of one number of one case, with an error that contains the run's slow drift
//! ([`msgpath_stats::level`]).

use std::ops::Range;

use msgpath_core::SparseHistogram;
use msgpath_core::carried::Carried;
use msgpath_core::gate::Watched;
use msgpath_core::plan::{MIN_ROUNDS_FOR_CLAIMS, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::level::{self, Level, of_quantiles, of_values};

use crate::open_loop;
use crate::series::{per_second, receiver, sender};

/// The number in the rounds of one case, which are in the order of their passes.
///
/// # Errors
/// Why it is withheld.
pub(crate) fn level(plan: &Plan, rounds: &[&RoundRecord], watched: Watched, seed: u64) -> Result<Level, String> {
    if rounds.len() < MIN_ROUNDS_FOR_CLAIMS as usize {
        return Err(format!("an interval needs at least {MIN_ROUNDS_FOR_CLAIMS} rounds, have {}", rounds.len()));
    }
    if watched == Watched::Cpu && plan.workload.has_server() {
        return Err("a server does not report its CPU time".into());
    }
    if matches!(watched, Watched::Quantile(_) | Watched::Mean)
        && let Some(why) = open_loop::overloaded(plan, rounds)
    {
        return Err(why);
    }
    if watched == Watched::Rate
        && let Some(level) = open_loop::rate_level(plan, rounds)
    {
        return Ok(level);
    }
    if let Watched::Quantile(p) = watched {
        return quantiles(rounds, &[p], seed).remove(0);
    }
    let values: Option<Vec<f64>> = rounds.iter().map(|round| value(plan, round, watched)).collect();
    let values = values.ok_or_else(|| missing(watched))?;
    Ok(of_values(&values, &cuts(rounds)))
}

/// [`level()`] of many quantiles of the same rounds.
pub(super) fn quantiles(rounds: &[&RoundRecord], ps: &[f64], seed: u64) -> Vec<Result<Level, String>> {
    let latency: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.latency).collect();
    of_quantiles(&latency, &cuts(rounds), ps, seed)
}

/// The ways to cut the rounds into units.
pub(super) fn cuts(rounds: &[&RoundRecord]) -> Vec<Vec<Range<usize>>> {
    level::cuts(&rounds.iter().map(|round| round.restart).collect::<Vec<_>>())
}

/// The number of one round by itself, as a logarithm; a quantile is that of its own messages. Beside the same number of a round of
/// another run it tells of a shift; alone, of few messages, it is no quantile of the case.
pub(super) fn round_value(plan: &Plan, round: &RoundRecord, watched: Watched) -> Option<f64> {
    match watched {
        Watched::Quantile(p) => round.latency.quantile(p).flatten().filter(|ns| *ns > 0).map(|ns| (ns as f64).ln()),
        Watched::Loss => None,
        watched => value(plan, round, watched),
    }
}

fn missing(watched: Watched) -> String {
    match watched {
        Watched::Cpu => "the CPU time of some rounds is below what the kernel counts".into(),
        Watched::Mean => "some rounds have no mean: they lost a message, which is infinitely slow, or had none".into(),
        _ => format!("some rounds have no {watched}"),
    }
}

/// The number of one round: its logarithm, but for losses.
fn value(plan: &Plan, round: &RoundRecord, watched: Watched) -> Option<f64> {
    let timed = plan.workload.timed;
    let messages = if timed { round.near().delivery.sent } else { receiver(plan, round).delivery.received };
    let value = match watched {
        // Of all rounds together.
        Watched::Quantile(_) => return None,
        Watched::Mean => round.latency.mean().filter(|_| round.latency.lost() == 0)?,
        Watched::Cpu => {
            let time = [round.near(), round.far()].map(|end| end.user_ns + end.system_ns).iter().sum::<u64>();
            time as f64 / messages.max(1) as f64
        }
        Watched::Throughput => Carried::of(plan, round).bits_per_s()?,
        Watched::Rate if timed => per_second(arrived(round), round.near().elapsed_ns)?,
        Watched::Rate => Carried::of(plan, round).messages_per_s()?,
        Watched::Loss => return lost(plan, round),
    };
    (value > 0.0).then(|| value.ln())
}

/// Round trips of a round that arrived.
pub(crate) fn arrived(round: &RoundRecord) -> f64 {
    (round.latency.total() - round.latency.lost()) as f64 * f64::from(round.batch.max(1))
}

/// Share of the messages of a round that were lost. Of a stream the receiver cannot know that its end is missing.
fn lost(plan: &Plan, round: &RoundRecord) -> Option<f64> {
    let (sent, lost) = if plan.workload.timed {
        (round.near().delivery.sent, round.near().delivery.lost)
    } else {
        let sent = sender(plan, round).delivery.sent;
        let end = receiver(plan, round);
        (sent, end.delivery.lost.max(sent.saturating_sub(end.delivery.received)))
    };
    (sent > 0).then(|| lost as f64 / sent as f64)
}
