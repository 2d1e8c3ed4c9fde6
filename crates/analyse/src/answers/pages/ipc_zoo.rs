//! The page of the preset `ipc-zoo`: which local mechanism, at equal waiting.

use std::collections::BTreeSet;

use msgpath_core::units::size;

use crate::answers::cell::{Cell, Table, Value};
use crate::answers::rows::{
    above, below, beyond, cpu_ns, find, left_out, list, measured, over, p50, quantile, ratio_with, time, time_with,
    weakest,
};
use crate::answers::{Answer, Page, Part, part};
use crate::summary::{CaseSummary, Confidence};

/// Runs whose cases are ranked: name and waiting.
const RUNS: [(&str, &str); 3] = [
    ("block", "receivers sleep, two CPUs"),
    ("spin", "receivers spin, two CPUs"),
    ("same-core", "receivers sleep, one CPU"),
];
/// The size that sentences are about.
const SMALL: u64 = 64;

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let runs: Vec<(Part<'_>, &str)> =
        RUNS.iter().filter_map(|(name, waiting)| Some((part(parts, name)?, *waiting))).collect();
    let mut tables: Vec<Table> = runs.iter().map(|(part, waiting)| ranked(part, waiting)).collect();
    tables.push(placements(parts));
    tables.push(limits(&runs));
    tables.push(left_out(parts));
    let mut answers: Vec<Answer> = runs.iter().map(|(part, waiting)| fastest(part, waiting)).collect();
    answers.push(price_of_spinning(parts));
    answers.push(one_cpu(parts));
    Page { tables, answers, ..Page::default() }
}

/// The cases of one size from the fastest median to the slowest.
fn by_speed<'a>(part: &Part<'a>, bytes: u64) -> Vec<(&'a CaseSummary, Value)> {
    let of_size = measured(part.summary).filter(|case| case.case.size == bytes);
    let mut cases: Vec<_> = of_size.filter_map(|case| Some((case, p50(case)?))).collect();
    cases.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    cases
}

fn sizes(part: &Part<'_>) -> BTreeSet<u64> {
    measured(part.summary).map(|case| case.case.size).collect()
}

/// Every path of a run, by size and speed, with what the waiting alone takes beside them.
fn ranked(part: &Part<'_>, waiting: &str) -> Table {
    let mut table = Table::new(
        &format!("ipc-{}", part.name),
        format!("run {}: {waiting}", part.name),
        &["message", "path", "rank", "p50", "p99", "msg/s", "CPU ns/msg, both ends", "to pipe, p50"],
    );
    for bytes in sizes(part) {
        let cases = by_speed(part, bytes);
        for (case, own) in &cases {
            let ratio = part.summary.comparison.as_ref();
            let ratio = ratio.and_then(|all| all.ratios.iter().find(|ratio| ratio.case == case.case.id));
            let to_pipe = match ratio {
                Some(ratio) => Cell::Ratio(Value { value: ratio.ratio, low: ratio.low, high: ratio.high }),
                None if case.case.path == part.run.header.plan.baseline => Cell::Ratio(1.0.into()),
                None => Cell::missing("no pair"),
            };
            table.row([
                Cell::size(bytes),
                Cell::text(case.case.path.to_string()),
                Cell::text(rank(own, &cases)),
                Cell::Time(*own),
                quantile(&case.quantiles, 0.99),
                Cell::or_missing(case.rate_per_s.as_ref(), Cell::Number, "no rate"),
                Cell::or_missing(cpu_ns(case), Cell::Number, "not counted"),
                to_pipe,
            ]);
        }
        for case in measured(part.summary).filter(|case| case.case.size == bytes && p50(case).is_none()) {
            let median = case.quantiles.iter().find(|quantile| quantile.p == 0.5).and_then(|median| median.ns);
            table.row([
                Cell::size(bytes),
                Cell::text(case.case.path.to_string()),
                Cell::text("no interval"),
                Cell::or_missing(median.map(|ns| ns as f64), Cell::Time, "no message"),
                quantile(&case.quantiles, 0.99),
                Cell::or_missing(case.rate_per_s.as_ref(), Cell::Number, "no rate"),
                Cell::or_missing(cpu_ns(case), Cell::Number, "not counted"),
                Cell::missing("no interval"),
            ]);
        }
        if let Some((ns, what)) = waiting_alone(part, bytes) {
            let none = || Cell::missing("no path");
            table.row([
                Cell::size(bytes),
                Cell::text(what),
                Cell::text("no path"),
                Cell::Time(ns.into()),
                none(),
                Cell::Number((1e9 / ns).into()),
                none(),
                none(),
            ]);
        }
    }
    let odd = not_slower(part);
    let odd = if odd.is_empty() { String::new() } else { format!(". {}", odd.join(". ")) };
    table.note(format!(
        "rank: places that the 95 % intervals of the medians leave open. CPU: user and system time of both ends; a receiver \
         that spins burns its CPU the whole time. In brackets: a bare loop of two threads, measured for some ms when the run \
         began, and a plain copy; a path whose wake-ups are quicker than those of a futex were then takes less{odd}"
    ))
}

/// Where a larger message of a path has the smaller median: equal, unless the intervals lie apart.
fn not_slower(part: &Part<'_>) -> Vec<String> {
    let mut said = Vec::new();
    let mut paths: Vec<_> = measured(part.summary).map(|case| &case.case.path).collect();
    paths.dedup();
    let mut seen = Vec::new();
    for path in paths {
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let mut own: Vec<(u64, Value)> = measured(part.summary)
            .filter(|case| case.case.path == *path)
            .filter_map(|case| Some((case.case.size, p50(case)?)))
            .collect();
        own.sort_unstable_by_key(|(bytes, _)| *bytes);
        for pair in own.windows(2) {
            let ((small, one), (large, other)) = (pair[0], pair[1]);
            if other.value >= one.value {
                continue;
            }
            let apart = other.high.zip(one.low).is_some_and(|(high, low)| high < low);
            said.push(format!(
                "{path}: {} at {} and {} at {} {}",
                time(one.value),
                size(small),
                time(other.value),
                size(large),
                if apart {
                    "lie apart: between rounds of two cases more changed than the size"
                } else {
                    "are equal: the intervals overlap"
                }
            ));
        }
    }
    said
}

/// Why runs give nothing to compare: nothing was measured, or medians without an interval.
fn nothing_in(parts: &[&Part<'_>], otherwise: &str) -> String {
    let cases: Vec<&CaseSummary> = parts.iter().flat_map(|part| measured(part.summary)).collect();
    let median = |case: &&CaseSummary| {
        case.quantiles.iter().find(|quantile| quantile.p == 0.5 && !quantile.is_interval()).cloned()
    };
    let without: Vec<_> = cases.iter().filter_map(median).collect();
    match without.iter().find_map(|median| median.why.clone()) {
        Some(why) => format!(
            "{} of {} medians have no 95 % interval ({why}): more time, or a calmer machine",
            without.len(),
            cases.len()
        ),
        None => otherwise.to_owned(),
    }
}

/// The places that a median may have among the others: those whose interval lies apart are faster or slower.
fn rank(own: &Value, all: &[(&CaseSummary, Value)]) -> String {
    let faster = all.iter().filter(|(_, other)| own.low.zip(other.high).is_some_and(|(low, high)| high < low)).count();
    let slower = all.iter().filter(|(_, other)| own.high.zip(other.low).is_some_and(|(high, low)| low > high)).count();
    let (first, last) = (faster + 1, all.len() - slower);
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

/// What two threads that do nothing but wait for each other take, with one copy in each direction, and its name. It is
/// no floor: a pipe wakes its reader quicker than a futex does on some machines.
fn waiting_alone(part: &Part<'_>, bytes: u64) -> Option<(f64, String)> {
    let floors = part.run.header.floors.as_ref()?;
    let (waiting, what) = match part.name {
        "spin" => (floors.spin_round_trip_ns?, "a cache line there and back"),
        "same-core" => (floors.switch_round_trip_ns?, "two switches by futex"),
        _ => (floors.wake_round_trip_ns?, "two wake-ups by futex"),
    };
    let copies = 2.0 * bytes as f64 * 1e9 / floors.copy_bytes_per_s.filter(|speed| *speed > 0.0)?;
    Some((waiting + copies, format!("({what}, two copies)")))
}

/// Which CPUs the ends were on, and which placements this machine does not have.
fn placements(parts: &[Part<'_>]) -> Table {
    let mut table = Table::new("placements", "where the two ends ran", &["placement", "runs", "CPUs near, far"]);
    let runs = |same: bool| -> Vec<&Part<'_>> {
        let fits = |part: &&Part<'_>| {
            let placement = &part.run.header.plan.placement;
            !placement.near.is_empty() && (placement.near == placement.far) == same
        };
        parts.iter().filter(fits).collect()
    };
    for (name, same) in [("one CPU", true), ("two CPUs", false)] {
        let runs = runs(same);
        let names: Vec<String> = runs.iter().map(|part| part.name.to_owned()).collect();
        let cpus = runs.first().map(|part| &part.run.header.plan.placement);
        table.row([
            Cell::text(name),
            if names.is_empty() { Cell::missing("not run") } else { Cell::text(list(&names)) },
            match cpus {
                Some(cpus) => Cell::text(format!("{:?}, {:?}", cpus.near, cpus.far)),
                None => Cell::missing("not run"),
            },
        ]);
    }
    let fact = |name: &str| parts.first().and_then(|part| part.run.header.near.facts.get(name)).map(String::as_str);
    let smt = match fact("smt") {
        Some("on") => "SMT is on: --cpu with two CPUs of one thread_siblings_list".to_owned(),
        Some(state) => format!("this machine has none (smt control: {state})"),
        None => "not known".into(),
    };
    let nodes = match fact("numa nodes") {
        Some(nodes) if nodes.contains(['-', ',']) => format!("nodes {nodes}: --cpu with CPUs of two of them"),
        Some(nodes) if !nodes.starts_with("n/a") => format!("this machine has one node ({nodes})"),
        _ => "not known".into(),
    };
    for (name, why) in [("SMT siblings", smt), ("two sockets", nodes)] {
        table.row([Cell::text(name), Cell::missing("not run"), Cell::missing(why)]);
    }
    table
}

/// Largest messages as granted.
fn limits(runs: &[(Part<'_>, &str)]) -> Table {
    let mut table = Table::new(
        "granted-sizes",
        "what message queues were granted",
        &["path", "message", "end", "asked", "granted", "sent whole"],
    );
    let mut seen = BTreeSet::new();
    for (part, _) in runs {
        for case in measured(part.summary).filter(|case| case.case.path.transport == "mq") {
            for entry in case.granted.iter().filter(|entry| entry.option == "mq_msgsize") {
                if !seen.insert((case.case.path.to_string(), case.case.size, entry.end.clone())) {
                    continue;
                }
                let whole = entry.granted.parse::<u64>().is_ok_and(|granted| granted >= case.case.size);
                table.row([
                    Cell::text(case.case.path.to_string()),
                    Cell::size(case.case.size),
                    Cell::text(&entry.end),
                    Cell::text(&entry.asked),
                    Cell::text(&entry.granted),
                    Cell::text(if whole { "yes" } else { "no" }),
                ]);
            }
        }
    }
    table
}

fn fastest(part: &Part<'_>, waiting: &str) -> Answer {
    let question = format!("Which mechanism is the fastest when {waiting}?");
    let winners = part.summary.comparison.as_ref().map_or(&[][..], |comparison| &comparison.winners);
    let mut confidences = Vec::new();
    let mut said = Vec::new();
    for winner in winners.iter().filter(|winner| sizes(part).contains(&winner.size)) {
        let cases = by_speed(part, winner.size);
        let (Some((best, time)), Some((second, _))) = (cases.first(), cases.get(1)) else { continue };
        let bytes = size(winner.size);
        match &winner.path {
            Some(path) => {
                confidences.push(Confidence::Sure);
                let margin = winner.margin.map_or_else(String::new, |margin| format!(", {margin:.2} times ahead"));
                said.push(format!("{bytes}: {path} with p50 {}{margin}", time_with(time)));
            }
            None => {
                confidences.push(Confidence::CantTell);
                let (a, b) = (&best.case.path, &second.case.path);
                said.push(format!("{bytes}: none stands out ({a} {}, then {b})", self::time(time.value)));
            }
        }
    }
    if said.is_empty() {
        return Answer::cannot(question, nothing_in(&[part], "no two paths of one size were measured"));
    }
    // Some sizes may be decided and others not; the sentence says which.
    let decided = confidences.iter().filter(|one| **one == Confidence::Sure).count();
    let confidence = match decided {
        0 => Confidence::CantTell,
        all if all == confidences.len() => Confidence::Sure,
        _ => Confidence::Likely,
    };
    Answer::new(question, confidence, format!("{}.", said.join("; ")))
}

/// What it costs to spin: time gained against CPU time burned.
fn price_of_spinning(parts: &[Part<'_>]) -> Answer {
    let question = "What does spinning buy, and what does it cost?";
    let (Some(block), Some(spin)) = (part(parts, "block"), part(parts, "spin")) else {
        return Answer::cannot(question, "the runs block and spin are not both there");
    };
    let mut table = Table::new(
        "spinning",
        format!("sleeping against spinning, {}", size(SMALL)),
        &["transport", "p50 asleep", "p50 spinning", "times faster", "CPU ns/msg asleep", "CPU ns/msg spinning"],
    );
    let mut gains = Vec::new();
    for asleep in measured(block.summary).filter(|case| case.case.size == SMALL) {
        let transport = asleep.case.path.transport.as_str();
        let Some(spinning) = find(&spin, transport, "spin", SMALL) else { continue };
        let (Some(slow), Some(fast)) = (p50(asleep), p50(spinning)) else { continue };
        let gain = over(slow, fast);
        gains.push((transport, gain, cpu_ns(asleep).zip(cpu_ns(spinning))));
        table.row([
            Cell::text(transport),
            Cell::Time(slow),
            Cell::Time(fast),
            Cell::Ratio(gain),
            Cell::or_missing(cpu_ns(asleep), Cell::Number, "not counted"),
            Cell::or_missing(cpu_ns(spinning), Cell::Number, "not counted"),
        ]);
    }
    if gains.is_empty() {
        return Answer::cannot(
            question,
            nothing_in(&[&block, &spin], "no transport was measured both asleep and spinning"),
        );
    }
    gains.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let (most, least) = (&gains[0], &gains[gains.len() - 1]);
    let confidence = weakest([beyond(&most.1, 1.0), beyond(&least.1, 1.0)]);
    let cpu = |cpu: &Option<(f64, f64)>| {
        cpu.map_or_else(String::new, |(asleep, spinning)| {
            format!(" (CPU for a message: {} asleep, {} spinning)", time(asleep), time(spinning))
        })
    };
    let text = format!(
        "a receiver that spins makes {} {} times as fast{}, and {} {} times{}. While nothing arrives it burns a whole CPU \
         at each end.",
        most.0,
        ratio_with(&most.1),
        cpu(&most.2),
        least.0,
        ratio_with(&least.1),
        cpu(&least.2)
    );
    Answer::new(question, confidence, text).with(table)
}

/// Both ends on one CPU against two.
fn one_cpu(parts: &[Part<'_>]) -> Answer {
    let question = "Does it matter where the two ends run?";
    let (Some(two), Some(one)) = (part(parts, "block"), part(parts, "same-core")) else {
        return Answer::cannot(question, "the runs block and same-core are not both there");
    };
    let mut ratios = Vec::new();
    for alone in measured(one.summary).filter(|case| case.case.size == SMALL) {
        let path = &alone.case.path;
        let Some(apart) = find(&two, &path.transport, &path.wait, SMALL) else { continue };
        if let Some((apart, alone)) = p50(apart).zip(p50(alone)) {
            ratios.push((path.transport.clone(), over(apart, alone)));
        }
    }
    if ratios.is_empty() {
        return Answer::cannot(question, nothing_in(&[&two, &one], "no path was measured both ways"));
    }
    let mut table = Table::new(
        "one-cpu",
        format!("two CPUs against one, receivers asleep, {}", size(SMALL)),
        &["transport", "p50 of two CPUs to one"],
    );
    for (transport, ratio) in &ratios {
        table.row([Cell::text(transport), Cell::Ratio(*ratio)]);
    }
    let faster: Vec<String> =
        ratios.iter().filter(|(_, ratio)| above(ratio, 1.0)).map(|(name, _)| name.clone()).collect();
    let slower: Vec<String> =
        ratios.iter().filter(|(_, ratio)| below(ratio, 1.0)).map(|(name, _)| name.clone()).collect();
    let (low, high) = ratios
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), (_, ratio)| (low.min(ratio.value), high.max(ratio.value)));
    let mut text = format!("with two CPUs p50 is {low:.2} to {high:.2} times that of one CPU");
    if !faster.is_empty() {
        text.push_str(&format!("; one CPU is faster for {}", list(&faster)));
    }
    if !slower.is_empty() {
        text.push_str(&format!("; two CPUs are faster for {}", list(&slower)));
    }
    let decided = faster.len() + slower.len();
    if decided < ratios.len() {
        text.push_str(&format!("; for {} of {} the intervals do not decide", ratios.len() - decided, ratios.len()));
    }
    text.push_str(". On one CPU no sleeping CPU has to be woken, and nothing overlaps.");
    let confidence = match decided {
        0 => Confidence::CantTell,
        all if all == ratios.len() => Confidence::Sure,
        _ => Confidence::Likely,
    };
    Answer::new(question, confidence, text).with(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::rows::testing::Made;
    use crate::testing::Build;

    fn block(factor: f64) -> Made {
        Made::of(
            "block",
            &Build::echo(&["pipe:write", "fifo:write"], &[64])
                .factor(move |case| if case.path.transport == "fifo" { factor } else { 1.0 }),
        )
    }

    fn spin() -> Made {
        Made::of("spin", &Build::echo(&["pipe:write/spin", "fifo:write/spin"], &[64]).factor(|_| 0.25))
    }

    #[test]
    fn the_fastest_is_named_where_it_is_one() {
        let made = [block(2.0), spin()];
        let page = page(&Made::parts(&made));
        let answer = &page.answers[0];
        assert_eq!(answer.confidence, Confidence::Sure);
        assert!(answer.text.starts_with("64 B: pipe:write with p50 "), "{}", answer.text);
        let spinning = page.answers.iter().find(|answer| answer.question.contains("spinning buy")).unwrap();
        assert!(spinning.text.contains("makes fifo ") && spinning.text.contains("and pipe "), "{}", spinning.text);
        assert_eq!(spinning.confidence, Confidence::Sure);
        assert_eq!(page.tables[0].rows.len(), 2);
        let ranks: Vec<_> = page.tables[0].rows.iter().map(|row| row[2].clone()).collect();
        assert_eq!(ranks, [Cell::text("1"), Cell::text("2")]);
    }

    #[test]
    fn nothing_is_called_a_floor_and_equal_sizes_are_said_to_be() {
        let rows = |factor: f64| {
            let build = Build::echo(&["shm:ring/spin"], &[1024, 4096])
                .noise(0.05)
                .factor(move |case| if case.size == 4096 { factor } else { 1.0 });
            let mut run = build.run();
            // 12.3 ms of waiting: more than any path here.
            run.header.floors = Some(msgpath_core::schema::Floors {
                spin_round_trip_ns: Some(12_300_000.0),
                copy_bytes_per_s: Some(1e10),
                ..Default::default()
            });
            page(&Made::parts(&[Made::from("spin", run)])).tables.remove(0)
        };
        let table = rows(0.995);
        assert!(table.rows.iter().all(|row| row[2] != Cell::text("floor")), "{table:?}");
        let note = table.note.unwrap();
        assert!(note.contains("are equal: the intervals overlap") && note.contains("at 4 KiB"), "{note}");
        assert!(rows(0.5).note.unwrap().contains("lie apart"));
        assert!(!rows(1.5).note.unwrap().contains("shm:ring/spin"));
    }

    #[test]
    fn equals_share_their_places() {
        let made = [block(1.0)];
        let page = page(&Made::parts(&made));
        assert_eq!(page.answers[0].confidence, Confidence::CantTell);
        assert!(page.answers[0].text.contains("none stands out"), "{}", page.answers[0].text);
        assert_eq!(page.tables[0].rows[0][2], Cell::text("1 to 2"));
        assert!(page.answers[1].text.starts_with("cannot be answered on this path"), "{}", page.answers[1].text);
    }
}
