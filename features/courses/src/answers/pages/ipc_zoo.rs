//! The page of the preset `ipc-zoo`: which local mechanism, at equal waiting.

use std::collections::BTreeSet;

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::PathName;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::size;
use msgpath_stats::quantile::Quantile;

use crate::answers::answered::{Answered, answer, answers, say};
use crate::answers::cell::{Cell, Table, Value};
use crate::answers::columns::{ns_or, number_or, quantile_cell, table};
use crate::answers::evidence::{above, below, beyond, counted_cpu_ns, extremes, left_out, median_of, over, p50};
use crate::answers::words::{decided, list, range_of, ratio_with, time, weakest};
use crate::answers::{Answer, Page, Part, part};

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
    tables.extend([placements(parts), limits(&runs), left_out(parts)]);
    let mut fastest: Vec<Answer> = runs
        .iter()
        .map(|(part, waiting)| answer(format!("Which mechanism is the fastest when {waiting}?"), fastest(part)))
        .collect();
    fastest.extend(answers(
        parts,
        &[
            ("What does spinning buy, and what does it cost?", price_of_spinning),
            ("Does it matter where the two ends run?", one_cpu),
        ],
    ));
    Page { tables, answers: fastest, ..Page::default() }
}

/// The cases of one size from the fastest median to the slowest.
fn by_speed<'a>(part: &Part<'a>, bytes: u64) -> Vec<(&'a CaseSummary, Value)> {
    let of_size = part.measured().filter(|case| case.case.size == bytes);
    let mut cases: Vec<_> = of_size.filter_map(|case| Some((case, median_of(case)?))).collect();
    cases.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    cases
}

fn sizes(part: &Part<'_>) -> BTreeSet<u64> {
    part.measured().map(|case| case.case.size).collect()
}

/// A path among the others of its size, or what the waiting alone takes.
enum Ranked<'a> {
    Path(&'a CaseSummary, String),
    Alone(f64, String),
}

impl Ranked<'_> {
    fn cell(&self, of_path: impl Fn(&CaseSummary) -> Cell) -> Cell {
        match self {
            Ranked::Path(case, _) => of_path(case),
            Ranked::Alone(..) => Cell::missing("no path"),
        }
    }
}

/// Every path of a run, by size and speed, with what the waiting alone takes beside them.
fn ranked(part: &Part<'_>, waiting: &str) -> Table {
    let mut rows: Vec<(u64, Ranked<'_>)> = Vec::new();
    for bytes in sizes(part) {
        let cases = by_speed(part, bytes);
        rows.extend(cases.iter().map(|(case, own)| (bytes, Ranked::Path(case, rank(own, &cases)))));
        let open = part.measured().filter(|case| case.case.size == bytes && median_of(case).is_none());
        rows.extend(open.map(|case| (bytes, Ranked::Path(case, "no interval".into()))));
        rows.extend(waiting_alone(part, bytes).map(|(ns, what)| (bytes, Ranked::Alone(ns, what))));
    }
    let to_pipe = |case: &CaseSummary| {
        let ratios = part.summary.comparison.iter().flat_map(|all| &all.ratios);
        match ratios.into_iter().find(|ratio| ratio.case == case.case.id) {
            _ if median_of(case).is_none() => Cell::missing("no interval"),
            Some(ratio) => Cell::Ratio(Value { value: ratio.ratio, low: ratio.low, high: ratio.high }),
            None if case.case.path == part.run.header.plan.baseline => Cell::Ratio(1.0.into()),
            None => Cell::missing("no pair"),
        }
    };
    let median = |case: &CaseSummary| match median_of(case) {
        Some(median) => Cell::Time(median),
        None => ns_or(p50(case).and_then(|median| median.ns), "no message"),
    };
    let odd: String = not_slower(part).into_iter().map(|one| format!(". {one}")).collect();
    table(format!("ipc-{}", part.name), format!("run {}: {waiting}", part.name), rows)
        .col("message", |(bytes, _)| Cell::size(*bytes))
        .col("path", |(_, row)| match row {
            Ranked::Path(case, _) => case.case.path.to_string(),
            Ranked::Alone(_, what) => what.clone(),
        })
        .col("rank", |(_, row)| match row {
            Ranked::Path(_, rank) => rank.clone(),
            Ranked::Alone(..) => "no path".into(),
        })
        .col("p50", |(_, row)| match row {
            Ranked::Path(case, _) => median(case),
            Ranked::Alone(ns, _) => Cell::Time((*ns).into()),
        })
        .col("p99", |(_, row)| row.cell(|case| quantile_cell(&case.latency.quantiles, 0.99)))
        .col("rate (1/s)", |(_, row)| match row {
            Ranked::Path(case, _) => number_or(case.rate_per_s.as_ref(), "no rate"),
            Ranked::Alone(ns, _) => Cell::Number((1e9 / ns).into()),
        })
        .col("CPU ns/msg, both ends", |(_, row)| row.cell(cpu))
        .col("to pipe, p50", |(_, row)| row.cell(to_pipe))
        .note(format!(
            "rank: places that the 95 % intervals of the medians leave open. CPU: user and system time of both ends; a \
             receiver that spins burns its CPU the whole time. In brackets: a bare loop of two threads, measured for some ms \
             when the run began, and a plain copy; a path whose wake-ups are quicker than those of a futex were then takes \
             less{odd}"
        ))
}

fn cpu(case: &CaseSummary) -> Cell {
    number_or(counted_cpu_ns(case), "not counted")
}

/// Where a larger message of a path has the smaller median: equal, unless the intervals lie apart.
fn not_slower(part: &Part<'_>) -> Vec<String> {
    let (mut output, mut seen) = (Vec::new(), Vec::new());
    for path in part.measured().map(|case| &case.case.path) {
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let own = part.measured().filter(|case| case.case.path == *path);
        let mut own: Vec<(u64, Value)> = own.filter_map(|case| Some((case.case.size, median_of(case)?))).collect();
        own.sort_unstable_by_key(|(bytes, _)| *bytes);
        for pair in own.windows(2).filter(|pair| pair[1].1.value < pair[0].1.value) {
            let ((small, one), (large, other)) = (pair[0], pair[1]);
            let how = if other.high.zip(one.low).is_some_and(|(high, low)| high < low) {
                "lie apart: between rounds of two cases more changed than the size"
            } else {
                "are equal: the intervals overlap"
            };
            let (one, other) = (time(one.value), time(other.value));
            output.push(format!("{path}: {one} at {} and {other} at {} {how}", size(small), size(large)));
        }
    }
    output
}

/// Why runs give nothing to compare: nothing was measured, or medians without an interval.
fn nothing_in(parts: &[&Part<'_>], otherwise: &str) -> String {
    let cases: Vec<&CaseSummary> = parts.iter().flat_map(|part| part.measured()).collect();
    let without: Vec<&Quantile> =
        cases.iter().filter_map(|case| p50(case).filter(|median| !median.is_interval())).collect();
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
    let measured = |name: &str, same: bool| {
        let placement = |part: &Part<'_>| part.run.header.plan.placement.clone();
        let fits = |part: &&Part<'_>| {
            let placement = placement(part);
            !placement.of(NEAR).is_empty() && (placement.of(NEAR) == placement.of(FAR)) == same
        };
        let runs: Vec<String> = parts.iter().filter(fits).map(|part| part.name.to_owned()).collect();
        let cpus = parts.iter().find(fits).map(placement);
        let cpus = cpus.map(|cpus| Cell::text(format!("{:?}, {:?}", cpus.of(NEAR), cpus.of(FAR))));
        let none = || Cell::missing("not run");
        (name.to_owned(), if runs.is_empty() { none() } else { list(&runs).into() }, cpus.unwrap_or_else(none))
    };
    let fact =
        |name: &str| parts.first().and_then(|part| part.run.header.host(NEAR).facts.get(name)).map(String::as_str);
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
    let missing = |name: &str, why: String| (name.to_owned(), Cell::missing("not run"), Cell::missing(why));
    let rows = [
        measured("one CPU", true),
        measured("two CPUs", false),
        missing("SMT siblings", smt),
        missing("two sockets", nodes),
    ];
    table("placements", "where the two ends ran", rows)
        .text("placement", |(name, ..)| name)
        .col("runs", |(_, runs, _)| runs.clone())
        .col("CPUs near, far", |(.., cpus)| cpus.clone())
        .into()
}

/// Largest messages as granted.
fn limits(runs: &[(Part<'_>, &str)]) -> Table {
    let queues = runs.iter().flat_map(|(part, _)| part.measured()).filter(|case| case.case.path.transport == "mq");
    let granted = queues.flat_map(|case| case.conditions.granted.iter().map(move |entry| (case, entry)));
    let mut seen = BTreeSet::new();
    let rows = granted.filter(|(case, entry)| {
        entry.option == "mq_msgsize" && seen.insert((case.case.path.to_string(), case.case.size, entry.end.clone()))
    });
    let rows: Vec<_> = rows.collect();
    table("granted-sizes", "what message queues were granted", rows)
        .col("path", |(case, _)| case.case.path.to_string())
        .col("message", |(case, _)| Cell::size(case.case.size))
        .col("end", |(_, entry)| &entry.end)
        .col("asked", |(_, entry)| &entry.asked)
        .col("granted", |(_, entry)| &entry.granted)
        .col("sent whole", |(case, entry)| {
            if entry.granted.parse::<u64>().is_ok_and(|granted| granted >= case.case.size) { "yes" } else { "no" }
        })
        .into()
}

fn fastest(part: &Part<'_>) -> Answered {
    let winners = part.summary.comparison.as_ref().map_or(&[][..], |comparison| &comparison.winners);
    let mut sure = 0;
    let mut output = Vec::new();
    for winner in winners.iter().filter(|winner| sizes(part).contains(&winner.size)) {
        let bytes = size(winner.size);
        let with_p50 = |path: &PathName| {
            let case = part.find(|case| case.case.path == *path && case.case.size == winner.size);
            format!("{path} with p50 {}", case.and_then(p50).map_or_else(|| "n/a".into(), range_of))
        };
        output.push(match &winner.path {
            Some(path) => {
                sure += 1;
                let margin = winner.margin.map_or_else(String::new, |margin| {
                    format!(", {margin:.2} times faster than the next, by the geometric means of the rounds")
                });
                format!("{bytes}: {} in this run{margin}", with_p50(path))
            }
            None => {
                let open: Vec<String> = winner.unbeaten.iter().map(with_p50).collect();
                format!("{bytes}: not decided between {} in this run", list(&open))
            }
        });
    }
    if output.is_empty() {
        return Err(nothing_in(&[part], "no two paths of one size were measured").into());
    }
    // Some sizes may be decided and others not; the sentence says which.
    Ok(say(decided(sure, output.len()), output.join("; ")))
}

/// What it costs to spin: time gained against CPU time burned.
fn price_of_spinning(parts: &[Part<'_>]) -> Answered {
    let both = part(parts, "block").zip(part(parts, "spin"));
    let (block, spin) = both.ok_or("the runs block and spin are not both there")?;
    let of = |asleep: &'_ CaseSummary| {
        let spinning = spin.case(&asleep.case.path.transport, "spin", SMALL)?;
        let (slow, fast) = (median_of(asleep)?, median_of(spinning)?);
        Some((slow, spinning, fast, over(slow, fast)))
    };
    let asleep = block.measured().filter(|case| case.case.size == SMALL);
    let mut rows: Vec<_> = asleep.filter_map(|case| Some((case, of(case)?))).collect();
    if rows.is_empty() {
        return Err(nothing_in(&[&block, &spin], "no transport was measured both asleep and spinning").into());
    }
    let title = format!("sleeping against spinning, {}", size(SMALL));
    let evidence: Table = table("spinning", title, &rows)
        .col("transport", |(asleep, _)| &asleep.case.path.transport)
        .col("p50 asleep", |(_, (slow, ..))| Cell::Time(*slow))
        .col("p50 spinning", |(_, (.., fast, _))| Cell::Time(*fast))
        .col("times faster", |(_, (.., gain))| Cell::Ratio(*gain))
        .col("CPU ns/msg asleep", |(asleep, _)| cpu(asleep))
        .col("CPU ns/msg spinning", |(_, (_, spinning, ..))| cpu(spinning))
        .into();
    rows.sort_by(|a, b| b.1.3.value.total_cmp(&a.1.3.value));
    let output = |(asleep, (_, spinning, _, gain)): &(&CaseSummary, (Value, &CaseSummary, Value, Value))| {
        let cpu =
            counted_cpu_ns(asleep).zip(counted_cpu_ns(spinning)).map_or_else(String::new, |(asleep, spinning)| {
                format!(" (CPU for a message: {} asleep, {} spinning)", time(asleep), time(spinning))
            });
        (asleep.case.path.transport.clone(), ratio_with(gain), cpu, beyond(gain, 1.0))
    };
    let (most, least) = (output(&rows[0]), output(&rows[rows.len() - 1]));
    let text = format!(
        "a receiver that spins makes {} {} times faster{}, and {} {} times{}. While nothing arrives it burns a whole CPU \
         at each end.",
        most.0, most.1, most.2, least.0, least.1, least.2
    );
    Ok(say(weakest([most.3, least.3]), text).with(evidence))
}

/// Both ends on one CPU against two.
fn one_cpu(parts: &[Part<'_>]) -> Answered {
    let both = part(parts, "block").zip(part(parts, "same-core"));
    let (two, one) = both.ok_or("the runs block and same-core are not both there")?;
    let of = |alone: &CaseSummary| {
        let path = &alone.case.path;
        let apart = two.case(&path.transport, &path.wait, SMALL)?;
        Some((path.transport.clone(), over(median_of(apart)?, median_of(alone)?)))
    };
    let ratios: Vec<(String, Value)> = one.measured().filter(|case| case.case.size == SMALL).filter_map(of).collect();
    let ends = extremes(&ratios, |(_, ratio)| ratio.value);
    let ((_, low), (_, high)) = ends.ok_or_else(|| nothing_in(&[&two, &one], "no path was measured both ways"))?;
    let those = |test: &dyn Fn(&Value) -> bool| -> Vec<String> {
        ratios.iter().filter(|(_, ratio)| test(ratio)).map(|(name, _)| name.clone()).collect()
    };
    let (faster, slower) = (those(&|ratio| above(ratio, 1.0)), those(&|ratio| below(ratio, 1.0)));
    let mut text = format!("with two CPUs p50 is {:.2} to {:.2} times that of one CPU", low.value, high.value);
    if !faster.is_empty() {
        text += &format!("; one CPU is faster for {}", list(&faster));
    }
    if !slower.is_empty() {
        text += &format!("; two CPUs are faster for {}", list(&slower));
    }
    let (done, all) = (faster.len() + slower.len(), ratios.len());
    if done < all {
        text += &format!("; for {} of {all} the intervals do not decide", all - done);
    }
    text += ". On one CPU no sleeping CPU has to be woken, and nothing overlaps.";
    let evidence = table("one-cpu", format!("two CPUs against one, receivers asleep, {}", size(SMALL)), &ratios)
        .col("transport", |(transport, _)| transport)
        .col("p50 of two CPUs to one", |(_, ratio)| Cell::Ratio(*ratio));
    Ok(say(decided(done, all), text).with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::Made;
    use msgpath_analyse::summary::Confidence;
    use msgpath_analyse::testing::Build;

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
        assert!(answer.text.contains(" in this run, "), "{}", answer.text);
        let spinning = page.answers.iter().find(|answer| answer.question.contains("spinning buy")).unwrap();
        assert!(spinning.text.contains("makes fifo ") && spinning.text.contains("and pipe "), "{}", spinning.text);
        assert_eq!(spinning.confidence, Confidence::Sure);
        assert_eq!(page.tables[0].rows.len(), 2);
        let ranks: Vec<_> = page.tables[0].rows.iter().map(|row| row[2].clone()).collect();
        assert_eq!(ranks, [Cell::text("1"), Cell::text("2")]);
    }

    #[test]
    fn a_path_is_named_with_its_own_time() {
        // The median of all messages of pipe is the least, and the mean of its rounds is not: fifo wins.
        let build = Build::echo(&["pipe:write", "fifo:write", "unix:send"], &[64]).factor(|case| match case.id {
            0 => 1.0,
            1 => 0.5,
            _ => 4.0,
        });
        let mut run = build.run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 0 && round.pass % 5 < 3) {
            let mut histogram = msgpath_core::Histogram::new();
            histogram.record_n(9_900, 200);
            round.latency = histogram.to_sparse();
        }
        let page = page(&Made::parts(&[Made::from("block", run)]));
        let first = &page.tables[0].rows[0];
        assert_eq!(first[1], Cell::text("pipe:write"), "{first:?}");
        let row = page.tables[0].rows.iter().find(|row| row[1] == Cell::text("fifo:write")).unwrap();
        let Cell::Time(p50) = &row[3] else { panic!("{row:?}") };
        let text = &page.answers[0].text;
        assert!(text.starts_with(&format!("64 B: fifo:write with p50 {} (", time(p50.value))), "{text}");
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
        let text = &page.answers[0].text;
        assert!(text.starts_with("64 B: not decided between ") && text.ends_with(" in this run"), "{text}");
        assert!(
            ["pipe:write with p50 ", " and ", "fifo:write with p50 "].iter().all(|part| text.contains(part)),
            "{text}"
        );
        assert_eq!(page.tables[0].rows[0][2], Cell::text("1 to 2"));
        assert!(page.answers[1].text.starts_with("cannot be answered on this path"), "{}", page.answers[1].text);
    }
}
