//! Claims about one way, tails, signals, clocks and load.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::plan::{Load, Workload};
use msgpath_core::schema::{EndReport, FAR, NEAR, RoundRecord};
use msgpath_core::units::{size, three_digits};
use msgpath_stats::pooled::Pooled;

use super::Claim;
use super::measured::all;
use super::ruling::{Ruling, all_of, decided, fails, holds, open, same};
use crate::answers::Part;
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::table;
use crate::answers::evidence::{above, below, claim, claimed, extremes, median_of, over};
use crate::answers::words::{list, percent, rate, ratio_with, time, time_with};

pub(super) const CLAIMS: &[Claim] = &[
    (10, "One way is half of the round trip", one_way),
    (32, "Outliers may be dropped (above 1 s, at most 0, or beyond 1.5 IQR)", outliers),
    (34, "SIGIO delivers one signal per frame", sigio),
    (38, "T2 before T1: the message took negative time", negative),
    (40, "The mean of a closed loop is the latency under load", closed),
];

/// Fewer messages than these have no quartiles worth the name.
const FEWEST: u64 = 20;

/// Echoes in a closed loop. Only they have a way back: the median of a periodic case is itself one way, that of a call has the
/// server in it.
fn closed_echoes<'a>(parts: &[Part<'a>]) -> impl Iterator<Item = (Part<'a>, &'a CaseSummary)> {
    all(parts).filter(|(part, case)| part.workload() == Workload::Echo && case.case.load == Load::Closed)
}

/// The way there as a share of the round trip, from stamps of one clock at both ends.
fn one_way(parts: &[Part<'_>]) -> Option<Ruling> {
    let of = |case: &CaseSummary| Some((claim(case.one_way.as_ref()?)?, median_of(case)?));
    let rows: Vec<_> = closed_echoes(parts)
        .filter_map(|(_, case)| of(case).map(|(there, whole)| (case, there, whole, over(there, whole))))
        .collect();
    let (_, (case, .., share)) = extremes(&rows, |(.., share)| (share.value - 0.5).abs())?;
    // Half, within the least margin of it.
    let half = |share: &Value| {
        let twice = |part: f64| 2.0 * part;
        same(Value { value: twice(share.value), low: share.low.map(twice), high: share.high.map(twice) })
    };
    let unequal = rows.iter().filter(|(.., share)| half(share) == Some(false)).count();
    let interval = share
        .low
        .zip(share.high)
        .map_or_else(String::new, |(low, high)| format!(" ({} to {})", percent(low), percent(high)));
    let text = format!(
        "in {unequal} of {} cases the way there is surely not half at p50. Farthest from it is {} with {} there and {} back: {}\
         {interval} of the round trip, so half of it is wrong by {} of itself",
        rows.len(),
        case.case.path,
        size(case.case.size),
        size(case.case.reply),
        percent(share.value),
        percent(((share.value - 0.5) / 0.5).abs())
    );
    let evidence = table("one-way", "the way there, from stamps at both ends on one clock", &rows)
        .col("path", |(case, ..)| case.case.path.to_string())
        .col("message", |(case, ..)| Cell::size(case.case.size))
        .col("reply", |(case, ..)| Cell::size(case.case.reply))
        .col("round trip, p50", |(_, _, whole, _)| Cell::Time(*whole))
        .col("there, p50", |(_, there, ..)| Cell::Time(*there))
        .col("there of the round trip", |(.., share)| Cell::Share(*share));
    let ruling = decided(all_of(rows.iter().map(|(.., share)| half(share))), text).with(evidence);
    Some(ruling.next_if_open("msgpath echo -x tcp:send -l 64K --reply 64 --stamps both"))
}

type Test = fn(&RoundRecord) -> bool;
/// What may have fallen on a round, and whether it did.
const CAUSES: [(&str, Test); 4] = [
    ("stolen by the hypervisor", |round| round.flags.iter().any(|flag| flag == "steal")),
    ("taken off the CPU", |round| round.near().involuntary_switches + round.far().involuntary_switches > 0),
    ("page faults", |round| round.near().minor_faults + round.far().minor_faults > 0),
    ("ready and not running for a tenth of its time", |round| {
        let waited = |end: &EndReport| end.run_delay_ns.unwrap_or(0) * 10 > end.elapsed_ns;
        waited(round.near()) || waited(round.far())
    }),
];

/// What is slow stays, and what fell on those rounds.
fn outliers(parts: &[Part<'_>]) -> Option<Ruling> {
    let share = |case: &CaseSummary| case.time_share_over_10x.unwrap_or(0.0);
    let (part, case) =
        closed_echoes(parts).filter(|(_, case)| case.messages > 0).max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    let rounds = part.rounds(&case.case);
    let (path, run) = (&case.case.path, part.name);
    if case.messages < FEWEST {
        return Some(open(format!(
            "{path} in the run {run}: {} messages are too few to tell any as an outlier",
            case.messages
        )));
    }
    let pooled = Pooled::new(&rounds.iter().map(|round| &round.latency).collect::<Vec<_>>());
    let quartile = |p: f64| pooled.quantile(p).flatten().map(|ns| ns as f64);
    let (first, median, third) = (quartile(0.25)?, quartile(0.5)?, quartile(0.75)?);
    let fence = third + 1.5 * (third - first);
    let (time_beyond, share_beyond) = pooled.above(fence)?;
    let beyond: u64 = pooled.count_between(fence as u64 + 1, u64::MAX);
    let slow = pooled.count_between((10.0 * median) as u64 + 1, u64::MAX);
    let is_slow = |round: &&&RoundRecord| round.latency.max().is_some_and(|max| max as f64 > 10.0 * median);
    let (with, without): (Vec<&&RoundRecord>, Vec<&&RoundRecord>) = rounds.iter().partition(is_slow);
    let rows = CAUSES.map(|(name, test)| {
        let count = |rounds: &[&&RoundRecord]| rounds.iter().filter(|round| test(round)).count();
        (name, count(&with), count(&without))
    });
    let causes: Vec<String> =
        rows.iter().filter(|row| row.1 > 0).map(|(name, slow, _)| format!("{name} in {slow}")).collect();
    let title =
        format!("rounds of {path} in the run {run}: what else happened in those with a message slower than 10 medians");
    let evidence = table("outliers", title, rows)
        .col("what", |(name, ..)| *name)
        .col("rounds with it", |(_, slow, other)| Cell::count((slow + other) as u64))
        .col("of rounds with slow messages", |(_, slow, _)| format!("{slow} of {}", with.len()))
        .col("rounds without slow ones that have it", |(.., other)| format!("{other} of {}", without.len()));
    let slowest = |ns: Option<u64>| ns.map_or_else(|| "unknown".into(), |ns| time(ns as f64));
    let beside = case.beside.as_ref().map_or_else(String::new, |beside| {
        format!(" {} disturbed rounds stand beside these (slowest {}).", beside.rounds, slowest(beside.slowest_ns))
    });
    let all = pooled.total().to_string();
    if beyond == 0 {
        let text =
            format!("of {all} messages of {path} none lies beyond 1.5 IQR, so nothing would be dropped.{beside}");
        return Some(holds(text).with(evidence));
    }
    let start = case.first.as_ref().map_or_else(String::new, |first| {
        let (messages, slowest) = (first.messages.to_string(), slowest(first.slowest_ns));
        format!(" The first {messages} messages of the connections are apart (slowest {slowest}).")
    });
    let classified = match (with.len(), causes.is_empty()) {
        (0, _) => String::new(),
        (rounds, true) => format!(" None of the causes looked for was seen in the {rounds} rounds that have them."),
        (rounds, false) => format!(" Of the {rounds} rounds that have them: {}.", list(&causes)),
    };
    let text = format!(
        "{path} in the run {run}: beyond 1.5 IQR lie {} of {all} messages ({}), {} of all the time; \
         the slowest took {}, which would be hidden. They are kept: {} are slower than 10 medians.{classified}{start}{beside} No time is 0 or less: \
         both stamps are of one monotonic clock.",
        beyond,
        percent(share_beyond),
        percent(time_beyond),
        time(pooled.max().unwrap_or(0) as f64),
        slow
    );
    Some(fails(text).with(evidence))
}

/// Messages and signals of every path that took signals.
fn sigio(parts: &[Part<'_>]) -> Option<Ruling> {
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (part, case) in all(parts).filter(|(part, _)| !part.run.header.plan.options.queued_signals) {
        let signals = case.end(NEAR).calls.signals + case.end(FAR).calls.signals;
        if case.case.path.wait != "sigio" || signals == 0 {
            continue;
        }
        // An echo is received at both ends; a periodic message once.
        let ends = if part.run.header.periodic.is_some() { 1 } else { 2 };
        let messages = ends * case.delivery.received;
        let each = messages as f64 / signals as f64;
        let text = format!(
            "{} in the run {}: {} messages with {} signals, {} a signal",
            case.case.path,
            part.name,
            messages,
            signals,
            three_digits(each)
        );
        seen.push((each, text));
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, text) = seen.first()?;
    let least = seen.last().filter(|_| seen.len() > 1).map_or_else(String::new, |(_, text)| format!("; {text}"));
    let ruling = match *most {
        1.01.. => fails(format!("standard signals merge while one is pending: {text}{least}")),
        0.99.. => holds(format!(
            "{text}{least}. Signals merge only while one is pending: messages closer together would show it"
        )),
        _ => open(format!("{text}{least}: other events have signals too, so that they outnumber the messages")),
    };
    Some(if *most > 1.01 { ruling } else { ruling.next("msgpath echo -x udp:send/sigio --inflight 32") })
}

/// Stamps of two clocks as they were read.
fn negative(parts: &[Part<'_>]) -> Option<Ruling> {
    let (part, summary) = parts.iter().find_map(|part| Some((part, part.summary.rpc.as_ref()?)))?;
    let stamped: Vec<i64> = part.logs.rpcs.sample().iter().filter_map(|row| row.received_ns).collect();
    if stamped.is_empty() {
        return None;
    }
    let impossible = stamped.iter().filter(|ns| **ns < 0).count();
    let ends = part.logs.rpcs.sample().iter().filter_map(|row| row.replied_ns.zip(row.latency_ns));
    let late = ends.filter(|(replied, latency)| *replied > *latency as i64).count();
    let contradicting: u64 = summary.clocks.iter().map(|clock| clock.contradicting).sum();
    let clocks = summary.clocks.iter().map(|clock| clock.text.clone()).filter(|text| !text.is_empty());
    let clocks = list(&clocks.collect::<Vec<_>>());
    let one_clock = summary.clocks.iter().all(|clock| clock.same);
    let what = format!(
        "of {} calls {} have T2 before T1 and {} T3 after T4, as the two clocks were read",
        (stamped.len() as u64),
        (impossible as u64),
        (late as u64)
    );
    let after = format!("{} calls contradict the bound", contradicting);
    Some(match (one_clock, impossible + late) {
        (true, 0) => fails(format!("{what}: both ends are on one machine and read one clock, so none can")),
        (true, _) => open(format!("{what}, although both ends read one clock: the stamps are wrong or were altered")),
        (false, 0) => open(format!("{what}; the clocks: {clocks}; {after}")),
        (false, _) => fails(format!(
            "no time is negative, it is the offset of the clocks: {what}; the offset that all calls allow: {clocks}; {after}"
        )),
    })
}

/// A closed loop beside an open one on the same path and size.
fn closed(parts: &[Part<'_>]) -> Option<Ruling> {
    let mut pairs = Vec::new();
    for (_, closed) in all(parts).filter(|(_, case)| case.case.load == Load::Closed) {
        let Some(closed99) = claimed(&closed.quantiles, 0.99) else { continue };
        let key = |case: &CaseSummary| (case.case.path.clone(), case.case.size, case.case.reply);
        for (_, case) in all(parts).filter(|(_, case)| key(case) == key(closed)) {
            let Some(open) = case.open.as_ref().filter(|open| open.sustained) else { continue };
            let both = claimed(&case.quantiles, 0.99).zip(claimed(&open.service, 0.99));
            pairs.extend(both.map(|(intended, actual)| (closed, case, closed99, intended, actual)));
        }
    }
    // Of equals the first.
    pairs.reverse();
    let (_, (closed, case, closed99, intended, actual)) = extremes(&pairs, |pair| pair.3.value / pair.2.value)?;
    let mean = closed.mean_ns.map_or_else(String::new, |ns| format!("mean {}, ", time(ns)));
    let offered = case.case.load.rate().map_or_else(String::new, |at| rate(at.value()));
    let (to_closed, to_actual) = (over(*intended, *closed99), over(*intended, *actual));
    let omitted = match above(to_actual, 1.0) {
        true => ": the time from the actual send leaves the waiting out (coordinated omission)",
        false => "; that the two sends differ is not shown",
    };
    let text = format!(
        "{}, {}: the closed loop says {mean}p99 {}. At {offered} by a schedule p99 is {} from the intended send, {} times that, \
         and {} from the actual send{omitted}",
        case.case.path,
        size(case.case.size),
        time_with(closed99),
        time_with(intended),
        ratio_with(&to_closed),
        time_with(actual)
    );
    let ruling = match same(to_closed) {
        _ if above(to_closed, 1.0) => fails(text),
        Some(true) => holds(text),
        _ if below(to_closed, 1.0) => holds(format!("{text}. At this rate it is not more than that")),
        _ => open(format!("{text}. No difference is shown at the rates that were sustained")),
    };
    Some(ruling.next_if_open("msgpath preset load-curve -- -t 20s"))
}
