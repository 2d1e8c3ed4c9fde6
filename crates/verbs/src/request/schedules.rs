//! Open loops: the rates that were asked for, and rounds that their schedules fill.

use msgpath_core::plan::{Extent, Load, OfCapacity};
use msgpath_core::schedule::{MOST_IN_A_ROUND, MOST_PER_SECOND, Rate};
use msgpath_core::{Case, Problem};

use super::{Effort, plural};
use crate::options::Options;
use crate::problems::usage;
use crate::typed::{List, Offered};

/// How messages are offered: back to back, at each of the rates, or at each share of a capacity that is not known yet. Until
/// it is, the rate of such a case is that of a capacity of one message a second.
pub(super) fn loads(options: &Options) -> Result<Vec<(Load, Option<OfCapacity>)>, Problem> {
    let Some(List(offered)) = options.timed.rate.clone() else { return Ok(vec![(Load::Closed, None)]) };
    if options.evidence.count.is_some() && offered.iter().any(|one| matches!(one, Offered::Share(_))) {
        return Err(usage(
            "-c has no meaning with a share of the capacity: how long it would take is not known before",
        )
        .hint("-t 5s"));
    }
    let rates: Vec<(Rate, Option<OfCapacity>)> = offered
        .into_iter()
        .map(|one| match one {
            Offered::Rate(rate) => (rate, None),
            Offered::Share(share_ppm) => {
                let rate = Rate::per_second(f64::from(share_ppm) / 1e6).expect("a share of at least 0.1 %");
                (rate, Some(OfCapacity { share_ppm, attempts: Vec::new() }))
            }
        })
        .collect();
    if let Some((rate, _)) = rates.iter().find(|(rate, _)| rate.value() > MOST_PER_SECOND) {
        return Err(usage(format!("{rate} is more than one process can send (at most 10M/s)"))
            .why("every message takes at least a system call or a cache line that moves, some 100 ns")
            .hint("--rate 1M, or without --rate to see how much this path takes"));
    }
    let arrivals = options.settings.arrivals.unwrap_or_default();
    Ok(rates.into_iter().map(|(rate, of_capacity)| (Load::Open { rate, arrivals }, of_capacity)).collect())
}

/// Rounds whose schedules have neither too few messages to say anything nor more than memory is taken for.
pub(super) fn fit_schedules(
    cases: &[Case],
    options: &Options,
    effort: &mut Effort,
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    // The messages of all rounds, and the fewest of one round, for the case that allows the fewest rounds.
    // A share of the capacity is fitted when that is known (crates/run/src/capacity.rs).
    let known = cases.iter().filter(|case| case.of_capacity.is_none());
    let open = known.filter_map(|case| Some((case.load.rate()?, case)));
    let planned = |rate: Rate| match effort.extent {
        Extent::Time(ns) => rate.value() * ns as f64 / 1e9,
        Extent::Count(count) => count as f64,
    };
    let sizes: Vec<(Rate, f64, f64)> =
        open.map(|(rate, case)| (rate, planned(rate), case.least_in_a_round())).collect();
    let Some((rate, messages, least)) = sizes.iter().min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2))).copied() else {
        return Ok(());
    };
    if messages < least {
        return Err(usage(format!("at {rate} there are {messages:.0} messages in that time; a round needs {least}"))
            .hint(format!("-t {:.0}s or more, or a higher --rate", (least / rate.value()).ceil())));
    }
    let most = (messages / least) as u32;
    if effort.rounds > most {
        if let Some(typed) = options.evidence.rounds {
            return Err(usage(format!(
                "{messages:.0} messages at {rate} do not fill {typed} rounds of at least {least}"
            ))
            .hint(format!("-r {most} or less, or a longer -t")));
        }
        notes.push(format!(
            "{most} {} instead of {}: {rate} has no more messages",
            plural(most, "round"),
            effort.rounds
        ));
        effort.rounds = most;
    }
    let longest = sizes.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rate, messages, _)| (*rate, *messages));
    if let Some((rate, messages)) =
        longest.filter(|(_, messages)| messages / f64::from(effort.rounds) > MOST_IN_A_ROUND)
    {
        return Err(usage(format!("a round at {rate} would have more than 4 million messages"))
            .why("the schedule of a round is computed before it starts")
            .hint(format!("-r {:.0}, or a shorter -t", (messages / MOST_IN_A_ROUND).ceil())));
    }
    Ok(())
}
