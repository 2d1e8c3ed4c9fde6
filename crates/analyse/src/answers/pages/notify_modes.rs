//! The page of the preset `notify-modes`: what the ways cost by which a receiver learns of a message.

use crate::answers::cell::{Cell, Table, Value};
use crate::answers::rows::{
    above, below, beyond, left_out, list, measured, number, over, p50, quantile, ratio_with, three, time_with, weakest,
};
use crate::answers::{Answer, Page, Part, part};
use crate::summary::{CaseSummary, Confidence};

/// The runs: name and what they do.
const RUNS: [(&str, &str); 3] =
    [("closed", "one message under way"), ("rate", "by a schedule"), ("flood", "32 messages under way")];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let runs: Vec<(Part<'_>, &str)> =
        RUNS.iter().filter_map(|(name, about)| Some((part(parts, name)?, *about))).collect();
    let mut tables: Vec<Table> = runs.iter().map(|(part, about)| modes(part, about)).collect();
    tables.push(left_out(parts));
    Page { tables, answers: vec![wake_up(parts), sleeping(parts), at_rates(parts), frames(parts)], ..Page::default() }
}

/// The case that differs from `case` in its wait alone.
fn other_wait<'a>(part: &Part<'a>, case: &CaseSummary, wait: &str) -> Option<&'a CaseSummary> {
    measured(part.summary).find(|other| {
        other.case.path.transport == case.case.path.transport
            && other.case.path.wait == wait
            && other.case.load == case.case.load
    })
}

/// Share of one CPU that both ends together use in the rounds that make the headline: CPU time by wall time; 2 is two whole
/// CPUs.
fn busy(part: &Part<'_>, case: &CaseSummary) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for round in crate::calm::rounds_of(part.run, &case.case) {
        let cpu = |end: &msgpath_core::schema::EndReport| (end.user_ns + end.system_ns) as f64;
        sums.0 += cpu(&round.near) + cpu(&round.far);
        sums.1 += round.near.elapsed_ns.max(round.far.elapsed_ns) as f64;
    }
    (sums.0 > 0.0 && sums.1 > 0.0).then(|| sums.0 / sums.1)
}

/// Messages received by both ends for each time a thread gave its CPU up to wait.
fn per_wake_up(case: &CaseSummary) -> Option<f64> {
    let waits = case.near_cost.voluntary + case.far_cost.voluntary;
    (waits > 0.005).then(|| 2.0 / waits)
}

/// Messages received by both ends, and the signals that told of them.
fn signals(case: &CaseSummary) -> Option<(u64, u64)> {
    let signals = case.near_calls.signals + case.far_calls.signals;
    (case.case.path.wait == "sigio" && signals > 0).then_some((2 * case.delivery.received, signals))
}

fn modes(part: &Part<'_>, about: &str) -> Table {
    let mut table = Table::new(
        &format!("notify-{}", part.name),
        format!("run {}: {about}", part.name),
        &["path", "offered", "p50", "p99", "to spin, p50", "CPU, both ends", "calls/msg", "msg/wake-up", "msg/signal"],
    );
    for case in measured(part.summary) {
        let spin = other_wait(part, case, "spin").and_then(p50);
        let to_spin = match (p50(case), spin) {
            (Some(own), Some(spin)) => Cell::Ratio(over(own, spin)),
            _ => Cell::missing("no spin"),
        };
        let per_signal = signals(case).map(|(messages, signals)| messages as f64 / signals as f64);
        table.row([
            Cell::text(case.case.path.to_string()),
            Cell::text(case.case.load.rate().map_or_else(|| "closed loop".into(), |rate| rate.to_string())),
            quantile(&case.quantiles, 0.5),
            quantile(&case.quantiles, 0.99),
            to_spin,
            Cell::or_missing(busy(part, case), Cell::Share, "not counted"),
            Cell::Number((case.near_cost.calls + case.far_cost.calls).into()),
            Cell::or_missing(per_wake_up(case), Cell::Number, "never slept"),
            Cell::or_missing(per_signal, Cell::Number, "no signals"),
        ]);
    }
    table.note("CPU: CPU time of the measuring threads by wall time, 200 % is a whole CPU at each end")
}

/// What it costs to sleep and be woken, by transport.
fn wake_up(parts: &[Part<'_>]) -> Answer {
    let question = "What does it cost to be woken?";
    let Some(closed) = part(parts, "closed") else { return Answer::cannot(question, "the run closed is missing") };
    let (mut said, mut ratios) = (Vec::new(), Vec::new());
    for blocked in measured(closed.summary).filter(|case| case.case.path.wait == "block") {
        let Some(spinning) = other_wait(&closed, blocked, "spin") else { continue };
        let Some((slow, fast)) = p50(blocked).zip(p50(spinning)) else { continue };
        let ratio = over(slow, fast);
        let cost = (slow.value - fast.value) / 2.0;
        let cpu = busy(&closed, blocked).zip(busy(&closed, spinning)).map_or_else(String::new, |(asleep, spin)| {
            format!(", CPU {:.0} % against {:.0} %", 100.0 * asleep, 100.0 * spin)
        });
        said.push(format!(
            "{}: p50 {} asleep and {} spinning, {} times{cpu}: {} for each of the two wake-ups",
            blocked.case.path.transport,
            time_with(&slow),
            time_with(&fast),
            ratio_with(&ratio),
            match cost > 0.0 {
                true => crate::answers::rows::time(cost),
                false => "nothing".into(),
            }
        ));
        ratios.push(ratio);
    }
    if ratios.is_empty() {
        return Answer::cannot(question, "no transport was measured both asleep and spinning with a claim at p50");
    }
    let confidence = weakest(ratios.iter().map(|ratio| beyond(ratio, 1.0)));
    Answer::new(question, confidence, format!("{}.", said.join("; ")))
}

/// The ways that sleep, against a blocking call.
fn sleeping(parts: &[Part<'_>]) -> Answer {
    let question = "Of the ways that sleep, which is the cheapest?";
    let Some(closed) = part(parts, "closed") else { return Answer::cannot(question, "the run closed is missing") };
    let (mut slower, mut faster, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for case in measured(closed.summary) {
        let wait = case.case.path.wait.as_str();
        if !["epoll", "sigio", "busy-poll"].contains(&wait) {
            continue;
        }
        let blocked = other_wait(&closed, case, "block").and_then(p50);
        let Some((own, blocked)) = p50(case).zip(blocked) else { continue };
        let ratio = over(own, blocked);
        let text = format!("{}/{wait} {}", case.case.path.transport, ratio_with(&ratio));
        match (above(&ratio, 1.0), below(&ratio, 1.0)) {
            (true, _) => slower.push(text),
            (_, true) => faster.push(text),
            _ => open.push(text),
        }
    }
    let decided = slower.len() + faster.len();
    if decided + open.len() == 0 {
        return Answer::cannot(question, "no way that sleeps was measured beside a blocking call with a claim at p50");
    }
    let mut said = Vec::new();
    for (what, which) in [
        ("slower than a blocking call at p50", &slower),
        ("faster than a blocking call at p50", &faster),
        ("not told apart from a blocking call", &open),
    ] {
        if !which.is_empty() {
            said.push(format!("{what}: {}", list(which)));
        }
    }
    let confidence = match (decided, open.len()) {
        (0, _) => Confidence::CantTell,
        (_, 0) => Confidence::Sure,
        _ => Confidence::Likely,
    };
    Answer::new(question, confidence, format!("{} (times, with intervals).", said.join("; ")))
}

/// Whether a sleeping receiver is slower where messages are rare.
fn at_rates(parts: &[Part<'_>]) -> Answer {
    let question = "Does a message take longer where messages are rare?";
    let Some(rate) = part(parts, "rate") else { return Answer::cannot(question, "the run rate is missing") };
    let mut table = Table::new(
        "rare",
        "p50 at the lowest rate against the highest",
        &["path", "lowest rate", "p50", "highest rate", "p50", "lowest to highest"],
    );
    let mut ratios: Vec<(String, Value)> = Vec::new();
    for rare in measured(rate.summary) {
        let same = |case: &&CaseSummary| case.case.path == rare.case.path;
        let key = |case: &&CaseSummary| case.case.load.rate();
        let lowest = measured(rate.summary).filter(same).min_by_key(key);
        let Some(often) = measured(rate.summary).filter(same).max_by_key(key) else { continue };
        if lowest.is_none_or(|lowest| lowest.case.id != rare.case.id) || often.case.id == rare.case.id {
            continue;
        }
        let Some((slow, fast)) = p50(rare).zip(p50(often)) else { continue };
        let ratio = over(slow, fast);
        let rate =
            |case: &CaseSummary| Cell::text(case.case.load.rate().map_or_else(String::new, |rate| rate.to_string()));
        table.row([
            Cell::text(rare.case.path.to_string()),
            rate(rare),
            Cell::Time(slow),
            rate(often),
            Cell::Time(fast),
            Cell::Ratio(ratio),
        ]);
        ratios.push((rare.case.path.to_string(), ratio));
    }
    if ratios.is_empty() {
        return Answer::cannot(question, "no path has a claim at p50 at two rates");
    }
    let count = |test: &dyn Fn(&Value) -> bool| ratios.iter().filter(|(_, ratio)| test(ratio)).count();
    let (longer, shorter) = (count(&|ratio| above(ratio, 1.0)), count(&|ratio| below(ratio, 1.0)));
    let all = ratios.len();
    let most = ratios.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value)).expect("there is one");
    let text = format!(
        "of {all} paths {longer} are slower at the lowest rate than at the highest, {shorter} faster, {} not told apart; \
         largest ratio {} ({}).",
        all - longer - shorter,
        ratio_with(&most.1),
        most.0
    );
    let confidence = match (longer, shorter) {
        (0, 0) => Confidence::CantTell,
        (longer, shorter) if longer == all || shorter == all => Confidence::Sure,
        _ => Confidence::Likely,
    };
    Answer::new(question, confidence, text).with(table)
}

/// How many messages one signal stands for.
fn frames(parts: &[Part<'_>]) -> Answer {
    let question = "Does every message have its signal?";
    let mut table =
        Table::new("signals", "messages and signals", &["run", "path", "offered", "messages", "signals", "msg/signal"]);
    let (mut merged, mut all) = (Vec::new(), 0);
    for part in parts {
        for case in measured(part.summary) {
            let Some((messages, signals)) = signals(case) else { continue };
            all += 1;
            table.row([
                Cell::text(part.name),
                Cell::text(case.case.path.to_string()),
                Cell::text(case.case.load.rate().map_or_else(|| "closed loop".into(), |rate| rate.to_string())),
                Cell::count(messages),
                Cell::count(signals),
                Cell::Number((messages as f64 / signals as f64).into()),
            ]);
            // A round's ends may part a message from its signal: one in a hundred is no merging.
            if signals as f64 <= 0.99 * messages as f64 {
                merged.push(format!(
                    "{} in the run {}: {} messages with {} signals, {} a signal",
                    case.case.path,
                    part.name,
                    number(messages),
                    number(signals),
                    three(messages as f64 / signals as f64)
                ));
            }
        }
    }
    match (all, merged.is_empty()) {
        (0, _) => Answer::cannot(question, "no path took signals here"),
        (_, true) => Answer::new(
            question,
            Confidence::Likely,
            format!("here it has: in all {all} cases as many signals as messages; more must be under way at once to see them merge."),
        )
        .with(table),
        (_, false) => Answer::new(question, Confidence::Sure, format!("no. {}.", merged.join("; "))).with(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::rows::testing::Made;
    use crate::testing::Build;

    fn closed(signals: u64, spin: f64) -> Made {
        let paths = ["udp:send", "udp:send/sigio", "udp:send/spin"];
        let build = Build::echo(&paths, &[64]).factor(move |case| if case.path.wait == "spin" { spin } else { 1.0 });
        let mut run = build.run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            (round.near.calls.signals, round.far.calls.signals) = (signals, signals);
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
            let lasted = round.near.elapsed_ns.max(round.far.elapsed_ns);
            (round.near.system_ns, round.near.user_ns) = (if at < 10 { 1 } else { lasted / 2 }, 0);
            (round.far.system_ns, round.far.user_ns) = (0, 0);
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
