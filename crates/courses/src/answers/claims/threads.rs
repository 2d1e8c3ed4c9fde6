//! Claims about threads and queues.

use msgpath_analyse::findings::queueing::{MAY_HAVE_STAYED, STAYED, deeper, steps, times};
use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::threads::{arrangement, medians_by_thread, rates, ratio};
use msgpath_core::plan::{Metric, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::three_digits;

use super::Claim;
use super::measured::{Measured, echoes};
use super::ruling::{Ruling, fails, holds, open, same};
use crate::answers::columns::{number_or, table, time_or};
use crate::answers::evidence::{above, below, beside_one, extremes, p50};
use crate::answers::words::{counted, time};
use crate::answers::{Cell, Part};

pub(super) const CLAIMS: &[Claim] = &[
    (7, "latency = time / count", time_by_count),
    (12, "Latency falls with threads", falls_with_threads),
    (13, "Latency grows with threads = contention", grows_by_contention),
];

/// The time by the count is the reciprocal of the rate; a message takes as many of these as are in flight.
fn time_by_count(parts: &[Part<'_>]) -> Option<Ruling> {
    let several = echoes(parts).into_iter().filter(|one| Plan::in_flight(one.case()) > 1);
    let all: Vec<_> = several.filter_map(|one| Some((one.summary.threads.as_ref()?.implied.clone()?, one))).collect();
    let (_, (implied, deepest)) = extremes(&all, |(implied, _)| implied.value)?;
    let text = format!(
        "{}: time / count is {}, a round trip takes {} on average, {} as long",
        deepest.name(),
        time(1e9 / deepest.rate()?),
        time(deepest.summary.mean_ns?),
        times(implied)
    );
    let known = all.iter().filter_map(|(implied, one)| Some((implied, one, one.rate()?, one.summary.mean_ns?)));
    let evidence = table("time-by-count", "Time / count beside the round trip", known)
        .col("case", |(_, one, ..)| one.name())
        .col("time / count", |(.., rate, _)| Cell::Time((1e9 / rate).into()))
        .col("mean round trip", |(.., mean)| Cell::Time((*mean).into()))
        .col("the one in the other", |(implied, ..)| Cell::Number((*implied).into()))
        .col("in flight", |(_, one, ..)| Cell::count(Plan::in_flight(one.case())));
    let in_flight = Plan::in_flight(deepest.case());
    let ruling = match same(implied) {
        Some(true) => holds(format!("{text}, though {in_flight} messages may be in flight: nearly always one is")),
        Some(false) if above(implied, 1.0) => fails(format!(
            "{text}: as long as {in_flight} messages in flight make it. Time / count is one over the rate; only with one message \
             in flight is it the mean round trip"
        )),
        Some(false) => open(format!("{text}, which is below one message in flight: the two do not fit")),
        None => {
            open(format!("{text}, which does not exclude that they are the same; more rounds would settle it (-r 40)"))
        }
    };
    Some(ruling.with(evidence))
}

/// The fewest and the most threads of a run that measured several, with nothing else to tell them apart.
fn fewest_and_most<'a>(all: &'a [Measured<'a>]) -> Option<(&'a Measured<'a>, &'a Measured<'a>)> {
    let key = |one: &Measured<'_>| {
        let case = one.case();
        (one.part.name.to_owned(), case.path.clone(), case.size, case.pieces, case.inflight, case.dispatch)
    };
    let a_thread_each = |one: &Measured<'_>| one.case().connections == one.case().threads;
    let most = all.iter().max_by_key(|one| one.case().threads)?;
    let alike = all.iter().filter(|one| key(one) == key(most) && a_thread_each(one) && a_thread_each(most));
    let few = alike.min_by_key(|one| one.case().threads)?;
    (few.case().threads < most.case().threads).then_some((few, most))
}

/// Whether round trips get shorter with threads, beside what time / count does.
fn falls_with_threads(parts: &[Part<'_>]) -> Option<Ruling> {
    let all = echoes(parts);
    let (few, most) = fewest_and_most(&all)?;
    let plan = &few.part.run.header.plan;
    let medians = |one: &Measured<'_>| one.part.by_pass(Metric::P50, one.case());
    let longer = ratio(plan, most.case(), few.case(), &medians(most), &medians(few))?;
    let rate = ratio(plan, most.case(), few.case(), &rates(plan, &most.rounds), &rates(plan, &few.rounds))?;
    let what = format!(
        "from {} to {} the median round trip became {} as long, while time / count became {} as long",
        counted(few.case().threads as usize, "thread"),
        counted(most.case().threads as usize, "thread"),
        times(&longer),
        three_digits(1.0 / rate.value)
    );
    let unsettled = format!("{what}; no difference of the round trips is shown, and more rounds would settle it");
    let ruling = beside_one(&longer, fails(&what), holds(&what).likely(), open(unsettled));
    let rows = all.iter().filter(|one| one.part.name == few.part.name && one.case().path == few.case().path);
    let end = |one: &Measured<'_>, pick: fn(f64, f64) -> f64| {
        let value = medians_by_thread(one.part.logs.echoes.sample(), one.case()).into_iter().reduce(pick);
        time_or(value, "the message log has too few of a thread's messages")
    };
    let evidence = table("median-by-threads", "The median round trip of each thread", rows)
        .col("threads", |one| Cell::count(one.case().threads.into()))
        .col("all together", |one| time_or(p50(one.summary), "no median"))
        .col("fastest thread", |one| end(one, f64::min))
        .col("slowest thread", |one| end(one, f64::max))
        .col("time / count", |one| time_or(one.rate().map(|rate| 1e9 / rate), "no rate"));
    Some(ruling.with(evidence))
}

/// Whether longer round trips with more in flight are a queue at a fixed capacity or messages that cost each other work.
fn grows_by_contention(parts: &[Part<'_>]) -> Option<Ruling> {
    let mut pairs = Vec::new();
    for part in parts {
        let plan = &part.run.header.plan;
        let rounds: Vec<Vec<&RoundRecord>> = plan.cases.iter().map(|case| part.rounds(case)).collect();
        let cases: Vec<&CaseSummary> = part.measured().collect();
        let longer = deeper(plan, &cases, &rounds).into_iter().filter(|pair| above(&pair.time, 1.0));
        pairs.extend(longer.map(|pair| {
            // A rate that fell at one step and stayed at the others: the pair alone would not show it.
            let steps = steps(plan, &cases, &rounds, pair.many);
            let several = steps.len() > 1;
            let fell = steps.into_iter().filter(|step| several && below(&step.rate, 1.0 - STAYED));
            let fell = fell.min_by(|a, b| a.rate.value.total_cmp(&b.rate.value));
            (pair, fell)
        }));
    }
    let (_, (pair, fell)) = extremes(&pairs, |(pair, _)| pair.time.value)?;
    let what = format!(
        "from {} to {} the mean round trip became {} as long and the rate {} as high",
        arrangement(&pair.few.case),
        arrangement(&pair.many.case),
        times(&pair.time),
        times(&pair.rate)
    );
    let depth = three_digits(pair.depth());
    let queue = format!("{what}: a queue. {depth} times as many were in flight at the same capacity");
    let ruling = match (&pair.rate, fell) {
        (_, Some(step)) => holds(format!(
            "partly a queue: {what}. From {} to {} the rate became {} as high, so messages cost each other work there",
            arrangement(&step.few.case),
            arrangement(&step.many.case),
            times(&step.rate)
        ))
        .likely(),
        _ if pair.stayed(STAYED) => fails(queue),
        _ if pair.stayed(MAY_HAVE_STAYED) => fails(queue).likely(),
        (rate, _) if below(rate, 1.0) => holds(format!(
            "partly a queue: {what}. The capacity itself fell, so messages cost each other work here"
        ))
        .likely(),
        (rate, _) if above(rate, 1.0) => fails(format!(
            "{what}. The capacity was not reached with the fewer, so the time grew less than the number in flight ({depth} times)"
        ))
        .likely(),
        _ => open(format!("{what}; the rate is not known well enough, and more rounds would settle it")),
    };
    let figures = |case: &'_ CaseSummary| case.threads.clone();
    let rows = [(pair.few, figures(pair.few)?), (pair.many, figures(pair.many)?)];
    let evidence = table("depth-and-rate", "Depth, rate and time", rows)
        .col("case", |(case, _)| arrangement(&case.case))
        .col("in flight", |(_, figures)| Cell::count(figures.in_flight))
        .col("rate (1/s)", |(case, _)| number_or(case.rate_per_s.as_ref(), "no rate"))
        .col("mean round trip", |(case, _)| time_or(case.mean_ns, "no mean"))
        .col("implied in flight", |(_, figures)| number_or(figures.implied.as_ref(), "no mean"))
        .col("CPUs busy", |(_, figures)| number_or(figures.busy_cpus.as_ref(), "no CPU time"));
    Some(ruling.with(evidence))
}
