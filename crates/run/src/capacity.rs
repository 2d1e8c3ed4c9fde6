//! Rates that are shares of what a path takes: the capacity is found before the first round, by offering more than that.

use msgpath_core::plan::{Extent, Load, OfCapacity};
use msgpath_core::schedule::{Arrivals, MOST_IN_A_ROUND, MOST_PER_SECOND, Rate};
use msgpath_core::units::per_second;
use msgpath_core::{Case, Plan, Unavailable};

use crate::link::Pair;
use crate::orders::Orders;
use crate::round::RoundError;

/// Attempts of which the best is the capacity.
const ATTEMPTS: usize = 5;
/// An attempt lasts at least this long, ns.
const ATTEMPT_NS: u64 = 200_000_000;
/// An attempt gives up after this long, ns, and goes by what it has seen.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Messages by a schedule in the first attempt, which is repeated with four times as many until it lasts.
const FIRST: u64 = 256;
/// Messages by a schedule in an attempt at most.
const MOST: u64 = 1 << 20;
/// Messages in flight on a connection while more is offered than it takes: enough that nothing waits for the sender, and
/// few enough that no buffer overflows.
const UNDER_WAY: u32 = 64;

/// The case with the absolute rate that its share of the capacity is; a case without a share as it is.
///
/// # Errors
/// The capacity cannot be found, or no schedule can be made of the rate.
pub fn with_rate(pair: &mut Pair, orders: &Orders<'_>, case: &Case) -> Result<Case, RoundError> {
    let Some(of) = &case.of_capacity else { return Ok(case.clone()) };
    let known =
        orders.plan.cases.iter().find(|other| same_path(other, case)).and_then(|other| other.of_capacity.clone());
    let attempts = match known {
        Some(known) if !known.attempts.is_empty() => known.attempts,
        _ => attempts(pair, orders, case)?,
    };
    Ok(resolved(orders.plan, case, &OfCapacity { attempts, ..of.clone() })?)
}

/// Whether two cases have one capacity: all is the same but the rate.
fn same_path(a: &Case, b: &Case) -> bool {
    let bare = |case: &Case| Case { id: 0, load: Load::Closed, of_capacity: None, ..case.clone() };
    bare(a) == bare(b)
}

/// Messages a second that are answered while more are offered than the path takes, one entry an attempt, by size.
fn attempts(pair: &mut Pair, orders: &Orders<'_>, case: &Case) -> Result<Vec<Rate>, RoundError> {
    let rate = Rate::per_second(MOST_PER_SECOND).expect("a rate");
    let load = Load::Open { rate, arrivals: Arrivals::Constant };
    let flood = Case { load, inflight: case.inflight.min(UNDER_WAY), ..case.clone() };
    let mut measure = |messages: u64| {
        let mut order = orders.round(&flood, messages, 0);
        (order.traced, order.patience_ns) = (false, PATIENCE_NS);
        orders.measure(pair, &order, &orders.own(&flood, 1, 0, 0), None)
    };
    let sharing = u64::from(case.connections_a_schedule());
    let most = (MOST / sharing).max(1);
    let (mut messages, mut rates) = ((FIRST / sharing).max(1), Vec::new());
    while rates.len() < ATTEMPTS {
        let round = measure(messages)?;
        if round.near().elapsed_ns < ATTEMPT_NS && messages < most {
            messages = (4 * messages).min(most);
            continue;
        }
        let answered = 1e9 * round.near().delivery.received as f64 / round.near().elapsed_ns.max(1) as f64;
        rates.push(Rate::per_second(answered).ok_or_else(|| {
            Unavailable::new(
                "nothing was answered while more was offered than this path takes",
                "a rate in messages a second",
            )
        })?);
    }
    rates.sort_unstable();
    Ok(rates)
}

/// The case with its rate, where a schedule can be made of it (the limits are those of a rate that is typed).
fn resolved(plan: &Plan, case: &Case, of: &OfCapacity) -> Result<Case, Unavailable> {
    let capacity = of.capacity().ok_or_else(|| Unavailable::new("the capacity was not found", "--rate 10k"))?;
    let per_s = of.share() * capacity.value();
    let percent = 100.0 * of.share();
    let what = |why: String| format!("{percent:.0} % of the capacity of {capacity} is {}, {why}", per_second(per_s));
    let rate = Rate::per_second(per_s)
        .filter(|_| per_s <= MOST_PER_SECOND)
        .ok_or_else(|| Unavailable::new(what("more than one process can send".into()), "a smaller share"))?;
    if let Extent::Time(ns) = plan.extent {
        let messages = per_s * ns as f64 / 1e9 / f64::from(plan.rounds);
        let least = case.least_in_a_round();
        if messages < least {
            return Err(Unavailable::new(
                what(format!("too few for rounds of at least {least}")),
                "a longer -t, or a smaller -r",
            ));
        }
        if messages > MOST_IN_A_ROUND {
            return Err(Unavailable::new(
                what("more than 4 million in a round".into()),
                "a larger -r, or a shorter -t",
            ));
        }
    }
    let arrivals = match case.load {
        Load::Open { arrivals, .. } => arrivals,
        Load::Closed => Arrivals::default(),
    };
    Ok(Case { load: Load::Open { rate, arrivals }, of_capacity: Some(of.clone()), ..case.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::PathName;
    use msgpath_core::Workload;
    use msgpath_core::units::Pieces;

    fn resolve(share_ppm: u32, capacity: f64, extent: Extent) -> Result<f64, String> {
        let load = Load::Open { rate: Rate::per_second(1.0).unwrap(), arrivals: Arrivals::Constant };
        let case = Case { load, ..Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64)) };
        let plan = Plan { extent, ..Plan::new(Workload::ECHO, vec![case.clone()]) };
        let rate = |per_s: f64| Rate::per_second(per_s).unwrap();
        let attempts = vec![rate(capacity / 3.0), rate(capacity / 2.0), rate(capacity)];
        let case = resolved(&plan, &case, &OfCapacity { share_ppm, attempts }).map_err(|reason| reason.why)?;
        assert!(matches!(case.load, Load::Open { arrivals: Arrivals::Constant, .. }));
        Ok(case.load.rate().unwrap().value())
    }

    #[test]
    fn a_share_becomes_an_absolute_rate() {
        let second = Extent::Time(1_000_000_000);
        assert_eq!(resolve(250_000, 100_000.0, second), Ok(25_000.0));
        assert_eq!(resolve(1_100_000, 100_000.0, second), Ok(110_000.0));
    }

    #[test]
    fn the_limits_of_a_schedule_hold_after_resolving() {
        let second = Extent::Time(1_000_000_000);
        // 40 rounds of a second: 25 ms each.
        assert!(resolve(1_000, 100_000.0, second).unwrap_err().contains("too few for rounds of at least 5"));
        assert!(resolve(4_000_000, 5e6, second).unwrap_err().contains("more than one process can send"));
        assert!(resolve(1_000_000, 5e6, Extent::Time(60_000_000_000)).unwrap_err().contains("4 million in a round"));
    }

    #[test]
    fn cases_that_differ_in_their_rate_have_one_capacity() {
        let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
        let load = Load::Open { rate: Rate::per_second(9.0).unwrap(), arrivals: Arrivals::Poisson };
        assert!(same_path(&case, &Case { id: 3, load, ..case.clone() }));
        assert!(!same_path(&case, &Case { connections: 2, ..case.clone() }));
    }
}
