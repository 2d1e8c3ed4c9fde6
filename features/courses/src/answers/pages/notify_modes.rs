//! The page of the preset `notify-modes`: what the ways cost by which a receiver learns of a message.

use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::three_digits;

use crate::answers::answered::{Answered, OfRuns, answers, likely, say, sure};
use crate::answers::cell::{Cell, Value};
use crate::answers::columns::{number_or, quantile_cell, ratio_or, share_or, table};
use crate::answers::evidence::{above, below, beside_one, beyond, left_out, median_of, offered, over};
use crate::answers::words::{decided, list, ratio_with, time, time_with, weakest};
use crate::answers::{Page, Part, Table, part};

/// The runs: name and what they do.
const RUNS: [(&str, &str); 3] =
    [("closed", "one message in flight"), ("rate", "by a schedule"), ("flood", "32 messages in flight")];
const QUESTIONS: &[(&str, OfRuns)] = &[
    ("What does it cost to be woken?", wake_up),
    ("Of the ways that sleep, which is the cheapest?", sleeping),
    ("Does a message take longer where messages are rare?", at_rates),
    ("Does every message have its signal?", frames),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let runs = RUNS.iter().filter_map(|(name, about)| Some(modes(&part(parts, name)?, about)));
    let tables = runs.chain([left_out(parts)]).collect();
    Page { tables, answers: answers(parts, QUESTIONS), ..Page::default() }
}

/// The case that differs from `case` in its wait alone.
fn other_wait<'a>(part: &Part<'a>, case: &CaseSummary, wait: &str) -> Option<&'a CaseSummary> {
    let path = &case.case.path;
    let load = case.case.load;
    part.find(|other| {
        let own = &other.case.path;
        (own.transport.as_str(), own.wait.as_str()) == (&*path.transport, wait) && other.case.load == load
    })
}

/// CPUs that both ends together keep busy in the rounds that make the headline.
fn busy(part: &Part<'_>, case: &CaseSummary) -> Option<f64> {
    let threads = f64::from(case.case.threads);
    let both = |round: &msgpath_core::schema::RoundRecord| Some(threads * (round.near().busy()? + round.far().busy()?));
    let each: Vec<f64> = part.rounds(&case.case).into_iter().filter_map(both).collect();
    (!each.is_empty()).then(|| msgpath_stats::describe::mean(&each)).filter(|busy| *busy > 0.0)
}

/// Messages received by both ends for each time a thread gave its CPU up to wait.
fn per_wake_up(case: &CaseSummary) -> Option<f64> {
    let waits = case.end(NEAR).cost.voluntary + case.end(FAR).cost.voluntary;
    (waits > 0.005).then(|| 2.0 / waits)
}

/// Messages received by both ends, and the signals that told of them.
fn signals(case: &CaseSummary) -> Option<(u64, u64)> {
    let signals = case.end(NEAR).calls.signals + case.end(FAR).calls.signals;
    (case.case.path.wait == "sigio" && signals > 0).then_some((2 * case.delivery.received, signals))
}

fn modes(part: &Part<'_>, about: &str) -> Table {
    let to_spin = |case: &CaseSummary| {
        let spin = other_wait(part, case, "spin").and_then(median_of);
        median_of(case).zip(spin).map(|(own, spin)| over(own, spin))
    };
    let per_signal = |case| signals(case).map(|(messages, signals)| messages as f64 / signals as f64);
    table(format!("notify-{}", part.name), format!("run {}: {about}", part.name), part.measured())
        .col("path", |case| case.case.path.to_string())
        .col("offered", |case| offered(&case.case))
        .col("p50", |case| quantile_cell(&case.latency.quantiles, 0.5))
        .col("p99", |case| quantile_cell(&case.latency.quantiles, 0.99))
        .col("to spin, p50", |case| ratio_or(to_spin(case), "no spin"))
        .col("CPU, both ends", |case| share_or(busy(part, case), "not counted"))
        .col("calls/msg", |case| Cell::Number((case.end(NEAR).cost.calls + case.end(FAR).cost.calls).into()))
        .col("msg/wake-up", |case| number_or(per_wake_up(case), "never slept"))
        .col("msg/signal", |case| number_or(per_signal(case), "no signals"))
        .note("CPU: CPU time of the measuring threads by wall time, 200 % is a whole CPU at each end")
}

/// What it costs to sleep and be woken, by transport.
fn wake_up(parts: &[Part<'_>]) -> Answered {
    let closed = part(parts, "closed").ok_or("the run closed is missing")?;
    let (mut clauses, mut ratios) = (Vec::new(), Vec::new());
    for blocked in closed.measured().filter(|case| case.case.path.wait == "block") {
        let Some(spinning) = other_wait(&closed, blocked, "spin") else { continue };
        let Some((slow, fast)) = median_of(blocked).zip(median_of(spinning)) else { continue };
        let ratio = over(slow, fast);
        let cost = (slow.value - fast.value) / 2.0;
        let cpu = busy(&closed, blocked).zip(busy(&closed, spinning)).map_or_else(String::new, |(asleep, spin)| {
            format!(", CPU {:.0} % against {:.0} %", 100.0 * asleep, 100.0 * spin)
        });
        clauses.push(format!(
            "{}: p50 {} asleep and {} spinning, {} times{cpu}: {} for each of the two wake-ups",
            blocked.case.path.transport,
            time_with(&slow),
            time_with(&fast),
            ratio_with(&ratio),
            if above(ratio, 1.0) { time(cost) } else { "nothing that is shown".into() }
        ));
        ratios.push(ratio);
    }
    if ratios.is_empty() {
        return Err("no transport was measured both asleep and spinning with a claim at p50".into());
    }
    Ok(say(weakest(ratios.iter().map(|ratio| beyond(ratio, 1.0))), clauses.join("; ")))
}

/// The ways that sleep, against a blocking call.
fn sleeping(parts: &[Part<'_>]) -> Answered {
    let closed = part(parts, "closed").ok_or("the run closed is missing")?;
    let mut groups: [Vec<String>; 3] = Default::default();
    for case in closed.measured().filter(|case| ["epoll", "sigio", "busy-poll"].contains(&&*case.case.path.wait)) {
        let blocked = other_wait(&closed, case, "block").and_then(median_of);
        let Some((own, blocked)) = median_of(case).zip(blocked) else { continue };
        let path = &case.case.path;
        let ratio = over(own, blocked);
        groups[beside_one(ratio, 0, 1, 2)].push(format!("{}/{} {}", path.transport, path.wait, ratio_with(&ratio)));
    }
    let all = groups.iter().map(Vec::len).sum::<usize>();
    if all == 0 {
        return Err("no way that sleeps was measured beside a blocking call with a claim at p50".into());
    }
    let what = [
        "slower than a blocking call at p50",
        "faster than a blocking call at p50",
        "not told apart from a blocking call",
    ];
    let clauses = what.iter().zip(&groups).filter(|(_, which)| !which.is_empty());
    let clauses: Vec<String> = clauses.map(|(what, which)| format!("{what}: {}", list(which))).collect();
    Ok(say(decided(all - groups[2].len(), all), format!("{} (times, with intervals)", clauses.join("; "))))
}

/// Whether a sleeping receiver is slower where messages are rare.
fn at_rates(parts: &[Part<'_>]) -> Answered {
    let rate = part(parts, "rate").ok_or("the run rate is missing")?;
    let mut ratios: Vec<(&CaseSummary, Value, &CaseSummary, Value, Value)> = Vec::new();
    for rare in rate.measured() {
        let same = || rate.measured().filter(|case| case.case.path == rare.case.path);
        let key = |case: &&CaseSummary| case.case.load.rate();
        let (lowest, Some(often)) = (same().min_by_key(key), same().max_by_key(key)) else { continue };
        if lowest.is_none_or(|lowest| lowest.case.id != rare.case.id) || often.case.id == rare.case.id {
            continue;
        }
        let Some((slow, fast)) = median_of(rare).zip(median_of(often)) else { continue };
        ratios.push((rare, slow, often, fast, over(slow, fast)));
    }
    let most = ratios.iter().max_by(|a, b| a.4.value.total_cmp(&b.4.value));
    let (rare, .., most) = most.ok_or("no path has a claim at p50 at two rates")?;
    let count = |test: &dyn Fn(&Value) -> bool| ratios.iter().filter(|(.., ratio)| test(ratio)).count();
    let (longer, shorter) = (count(&|ratio| above(ratio, 1.0)), count(&|ratio| below(ratio, 1.0)));
    let all = ratios.len();
    let text = format!(
        "of {all} paths {longer} are slower at the lowest rate than at the highest, {shorter} faster, {} not told apart; \
         largest ratio {} ({})",
        all - longer - shorter,
        ratio_with(most),
        rare.case.path
    );
    let confidence = match (longer, shorter) {
        (0, 0) => Confidence::CantTell,
        (longer, shorter) if longer == all || shorter == all => Confidence::Sure,
        _ => Confidence::Likely,
    };
    let rate = |case: &CaseSummary| case.case.load.rate().map_or_else(String::new, |rate| rate.to_string());
    let evidence = table("rare", "p50 at the lowest rate against the highest", &ratios)
        .col("path", |(rare, ..)| rare.case.path.to_string())
        .col("lowest rate", |(rare, ..)| rate(rare))
        .col("p50", |(_, slow, ..)| Cell::Time(*slow))
        .col("highest rate", |(_, _, often, ..)| rate(often))
        .col("p50", |(.., fast, _)| Cell::Time(*fast))
        .col("lowest to highest", |(.., ratio)| Cell::Ratio(*ratio));
    Ok(say(confidence, text).with(evidence))
}

/// How many messages one signal stands for.
fn frames(parts: &[Part<'_>]) -> Answered {
    let cases = parts.iter().flat_map(|part| part.measured().map(move |case| (part.name, case)));
    let all: Vec<(&str, &CaseSummary, (u64, u64))> =
        cases.filter_map(|(run, case)| Some((run, case, signals(case)?))).collect();
    let each = |(messages, signals): &(u64, u64)| *messages as f64 / *signals as f64;
    // A round's ends may part a message from its signal: one in a hundred is not merging.
    let merged = all.iter().filter(|(.., (messages, signals))| *signals as f64 <= 0.99 * *messages as f64);
    let merged: Vec<String> = merged
        .map(|(run, case, counts)| {
            let (messages, signals) = (counts.0.to_string(), counts.1.to_string());
            let path = &case.case.path;
            let each = three_digits(each(counts));
            format!("{path} in the run {run}: {messages} messages with {signals} signals, {each} a signal")
        })
        .collect();
    let evidence = table("signals", "messages and signals", &all)
        .col("run", |(run, ..)| *run)
        .col("path", |(_, case, _)| case.case.path.to_string())
        .col("offered", |(_, case, _)| offered(&case.case))
        .col("messages", |(.., counts)| Cell::count(counts.0))
        .col("signals", |(.., counts)| Cell::count(counts.1))
        .col("msg/signal", |(.., counts)| Cell::Number(each(counts).into()));
    match (all.len(), merged.is_empty()) {
        (0, _) => Err("no path took signals here".into()),
        (all, true) => Ok(likely(format!(
            "here it has: in all {all} cases as many signals as messages; more must be in flight at once to see them merge"
        ))
        .with(evidence)),
        (_, false) => Ok(sure(format!("no. {}.", merged.join("; "))).with(evidence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::testing::Build;

    fn closed(signals: u64, spin: f64) -> Made {
        let paths = ["udp:send", "udp:send/sigio", "udp:send/spin"];
        let build = Build::echo(&paths, &[64]).factor(move |case| if case.path.wait == "spin" { spin } else { 1.0 });
        let mut run = build.run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            (round.near_mut().calls.signals, round.far_mut().calls.signals) = (signals, signals);
        }
        Made::from("closed", run)
    }

    #[test]
    fn a_wake_up_costs_what_spinning_saves() {
        let made = [closed(200, 0.25)];
        let page = page(&Made::parts(&made));
        let wake_up = &page.answers[0];
        assert_eq!(wake_up.confidence, Confidence::Sure);
        assert!(wake_up.text.starts_with("udp: p50 ") && wake_up.text.contains("for each of the two"), "{wake_up:?}");
        let slow = [closed(200, 1.0)];
        assert_eq!(super::page(&Made::parts(&slow)).answers[0].confidence, Confidence::CantTell);
    }

    #[test]
    fn the_use_of_cpus_is_that_of_the_rounds_of_the_times() {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if at < 10 { 3 } else { 0 });
            // Half of a CPU of both; while the hypervisor takes its time next to none.
            let lasted = round.near().elapsed_ns.max(round.far().elapsed_ns);
            (round.near_mut().system_ns, round.near_mut().user_ns) = (if at < 10 { 1 } else { lasted / 2 }, 0);
            (round.far_mut().system_ns, round.far_mut().user_ns) = (0, 0);
        }
        let made = [Made::from("closed", run)];
        let part = Made::parts(&made)[0];
        let busy = busy(&part, &part.summary.cases[0]).unwrap();
        assert!((busy - 0.5).abs() < 0.001, "{busy}");
    }

    #[test]
    fn signals_that_merge_are_counted() {
        let made = [closed(50, 0.25)];
        let text = &page(&Made::parts(&made)).answers[3].text;
        assert!(
            text.starts_with("no. udp:send/sigio in the run closed: ") && text.ends_with("4.00 a signal."),
            "{text}"
        );
        let each = [closed(200, 0.25)];
        let answer = super::page(&Made::parts(&each)).answers.remove(3);
        assert!(answer.text.starts_with("here it has") && answer.confidence == Confidence::Likely, "{}", answer.text);
    }
}
