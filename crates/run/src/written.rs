//! What every run writes alike, whoever orders its rounds: the begin of its header, the conditions of a round, how it ended.

use std::collections::BTreeMap;

use msgpath_core::plan::Plan;
use msgpath_core::schema::{Granted, NEAR, RoundRecord, RunEnd, RunHeader, UnavailableCase};
use msgpath_core::{Case, Exit, Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_record::RunWriter;

/// The header of a run of this plan that begins now.
pub fn header(name: String, verb: &str, command: Vec<String>, target: String, plan: Plan) -> RunHeader {
    RunHeader {
        started: msgpath_record::utc::now(),
        command,
        version: env!("CARGO_PKG_VERSION").into(),
        target,
        ..RunHeader::new(name, verb, plan)
    }
}

/// What carries a case, where its messages fit in. `over_v6`: what goes over IP goes over IPv6.
///
/// # Errors
/// There is no such path, or its messages are smaller.
pub fn carrier(case: &Case, over_v6: bool) -> Result<Entry, Unavailable> {
    let entry = Entry::find(&case.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", case.path), "msgpath paths"))?;
    let largest = case.size.max(case.reply);
    let limit = if over_v6 { entry.transport.max_message() } else { entry.transport.max_message_v4() };
    if let Some(limit) = limit.filter(|limit| largest > *limit) {
        let transport = entry.transport.meta().meta.name;
        return Err(Unavailable::new(
            format!("{largest} bytes do not fit in one {transport} message (largest here: {limit} bytes)"),
            "a smaller -l",
        ));
    }
    Ok(entry)
}

/// Takes the cases that cannot be measured here out of a plan.
///
/// # Errors
/// E05: none is left.
pub fn leave_out(
    plan: &mut Plan,
    available: impl Fn(&Case) -> Result<(), Unavailable>,
) -> Result<Vec<UnavailableCase>, Problem> {
    let mut out = Vec::new();
    plan.cases.retain(|case| match available(case) {
        Ok(()) => true,
        Err(reason) => {
            out.push(UnavailableCase { case: case.clone(), reason });
            false
        }
    });
    let left: Vec<u32> = plan.cases.iter().map(|case| case.id).collect();
    plan.cases.retain(|case| case.ablation.as_ref().is_none_or(|ablation| left.contains(&ablation.of)));
    renumber(plan, &out)?;
    Ok(out)
}

/// Gives the cases that are left their ids, and the ablations those of the cases that they explain.
///
/// # Errors
/// E05: none is left.
pub(crate) fn renumber(plan: &mut Plan, unavailable: &[UnavailableCase]) -> Result<(), Problem> {
    let ids: Vec<u32> = plan.cases.iter().map(|case| case.id).collect();
    for (id, case) in plan.cases.iter_mut().enumerate() {
        case.id = id as u32;
        if let Some(ablation) = &mut case.ablation
            && let Some(of) = ids.iter().position(|id| *id == ablation.of)
        {
            ablation.of = of as u32;
        }
    }
    if !plan.cases.iter().any(|case| case.path == plan.baseline)
        && let Some(first) = plan.cases.first()
    {
        plan.baseline = first.path.clone();
    }
    match (plan.cases.is_empty(), unavailable.first()) {
        (true, Some(first)) => {
            let what = format!("{} cannot be measured here: {}", first.case.path, first.reason.why);
            Err(Problem::new("E05", Exit::CannotStart, what).hint(first.reason.hint.clone()))
        }
        _ => Ok(()),
    }
}

/// Whether its histograms hold a round.
///
/// # Errors
/// E20.
pub fn held(round: &RoundRecord) -> Result<(), Problem> {
    let RoundRecord { latency, service, first, .. } = round;
    match latency.beyond() + service.beyond() + first.beyond() {
        0 => Ok(()),
        _ => Err(Problem::new("E20", Exit::Unfinished, "a message took longer than 18 minutes")
            .why("no histogram holds it, and nothing is clipped")),
    }
}

/// Conditions that were lost while a round ran that is whole, but for these.
pub fn flags(round: &RoundRecord, cut_short: bool) -> Vec<String> {
    // USER_HZ is 100 on Linux: a tick is 10 ms. One tick of a short round says nothing.
    let ticks = round.steal_ticks.filter(|ticks| *ticks > 1).unwrap_or(0);
    let stolen = ticks as f64 * 1e7 > 0.005 * round.ends[NEAR].watched_ns.unwrap_or(0) as f64;
    let lost = [(cut_short, "cut short"), (ticks > 0 && stolen, "steal")];
    lost.into_iter().filter(|(lost, _)| *lost).map(|(_, name)| name.to_owned()).collect()
}

/// Ends a record as its rounds went: to the last one or not, or with a problem. `granted`: the options of each case.
///
/// # Errors
/// That problem, where the record cannot be ended; else why not. A disk that is full cannot take the last block either: the first
/// error is the one that matters.
pub fn ended(
    writer: &mut RunWriter,
    result: &Result<bool, Problem>,
    granted: BTreeMap<u32, Vec<Granted>>,
) -> Result<RunEnd, Problem> {
    let whole = result.as_ref().map(|whole| *whole);
    let end = RunEnd { granted, ..RunEnd::of(whole, msgpath_record::utc::now()) };
    writer.finish(end).map_err(|error| result.clone().err().unwrap_or_else(|| error.into()))
}
