//! The tables: eight of the lab, then the two that tell calls from copies.

use msgpath_core::plan::Metric;
use msgpath_core::units;
use msgpath_stats::verdict::Verdict;

use super::Ladder;
use crate::answers::cell::Value;
use crate::answers::ladder::{self, Bench, End, Event, METHODS, Row, Versus, find, nearest, sizes, threads};
use crate::answers::{Cell, Part, Table};

/// The methods of the lab itself.
const OF_THE_LAB: [&str; 3] = ["A1", "A2", "A3"];

/// What is said below a table with thread counts that the CPUs cannot run at once.
fn crowded(rows: &[Row<'_>]) -> Option<String> {
    let crowded: Vec<&Row<'_>> = rows.iter().filter(|row| row.oversubscribed().is_some()).collect();
    let fewest = crowded.iter().map(|row| row.case.case.threads).min()?;
    let why = crowded.iter().find(|row| row.case.case.threads == fewest)?.oversubscribed()?;
    Some(format!("From {fewest} threads on the rows are {why}: they show queueing for a CPU, not scaling."))
}

pub(super) fn all(ladder: &Ladder<'_>) -> Vec<Table> {
    let rows = &ladder.rows;
    let mut tables = Vec::new();
    if let Some(grid) = ladder.grid {
        tables.extend([throughput(rows), latency(rows)]);
        tables.push(misses(
            rows,
            Event::L1,
            "3-l1-misses",
            "L1 data-cache load misses per message, and in all, M",
            1e6,
        ));
        tables.push(misses(rows, Event::LastLevel, "4-llc-misses", "LLC load misses per message, and in all, K", 1e3));
        tables.push(scaling(grid, rows));
        tables.push(l1_by_threads(rows));
        tables.push(against(
            grid,
            "7-a2-against-a1",
            "A2 against A1: one sendmsg over the fields, against copying first",
            "sendmsg",
            None,
        ));
        let most = threads(rows).last().copied();
        let title = format!("A3 against A1 with {} threads", most.unwrap_or(1));
        tables.push(against(grid, "8-a3-against-a1", &title, "zerocopy", most));
    }
    tables.extend(ladder.parts().map(|(part, what)| split(part, &what)).filter(|table| !table.rows.is_empty()));
    tables.extend(ladder.parts().map(|(part, what)| steps(part, &what)).filter(|table| !table.rows.is_empty()));
    tables
}

/// One row per size and thread count, one column for each method of the lab.
fn pivot(rows: &[Row<'_>], mut table: Table, cells: impl Fn(&Row<'_>) -> Vec<Cell>, width: usize) -> Table {
    for size in sizes(rows) {
        for threads in threads(rows) {
            let own: Vec<Option<&Row<'_>>> = OF_THE_LAB.iter().map(|name| find(rows, name, size, threads)).collect();
            if own.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![Cell::size(size), Cell::count(u64::from(threads))];
            for one in own {
                row.extend(one.map_or_else(|| vec![Cell::missing("not measured"); width], &cells));
            }
            table.row(row);
        }
    }
    table
}

fn noted(mut table: Table, rows: &[Row<'_>], before: &str) -> Table {
    let crowded = crowded(rows).unwrap_or_default();
    let note = format!("{before} {crowded}");
    table.note = Some(note.trim().to_owned()).filter(|note| !note.is_empty());
    table
}

fn throughput(rows: &[Row<'_>]) -> Table {
    let table =
        Table::new("1-throughput", "1. Throughput, all threads together", &["size", "threads", "A1", "A2", "A3"]);
    let cells = |row: &Row<'_>| vec![Cell::or_missing(row.bits().as_ref(), Cell::Bits, "no rate")];
    let note = "Payload of one direction, counted by its receiver (the far end) on its own clock: Gbit/s = 10^9 bit/s.";
    noted(pivot(rows, table, cells, 1), rows, note)
}

fn latency(rows: &[Row<'_>]) -> Table {
    let heads = ["size", "threads", "A1 p50", "A1 in flight", "A2 p50", "A2 in flight", "A3 p50", "A3 in flight"];
    let table = Table::new("2-latency", "2. Latency: median round trip", &heads);
    let cells = |row: &Row<'_>| {
        vec![
            Cell::or_missing(row.p50(), Cell::Time, "no median"),
            Cell::or_missing(row.in_flight(), Cell::Number, "no mean"),
        ]
    };
    let note = "From the send call to the whole reply, per message. In flight = throughput x mean round trip / size: where \
                it is the number of threads, the mean adds nothing to the throughput, and only quantiles do.";
    noted(pivot(rows, table, cells, 2), rows, note)
}

/// Misses of both ends; one row that says why where nothing was counted.
fn misses(rows: &[Row<'_>], event: Event, name: &str, title: &str, unit: f64) -> Table {
    let number = if event == Event::L1 { 3 } else { 4 };
    let letter = if event == Event::L1 { "M" } else { "K" };
    let heads = ["size", "threads", "end", "A1", "A2", "A3"].map(str::to_owned).into_iter();
    let heads: Vec<String> = heads.chain(OF_THE_LAB.map(|name| format!("{name} in all, {letter}"))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(name, format!("{number}. {title}"), &heads);
    for size in sizes(rows) {
        for threads in threads(rows) {
            for end in End::BOTH {
                let own: Vec<_> = OF_THE_LAB
                    .iter()
                    .map(|name| {
                        let row = find(rows, name, size, threads).ok_or_else(|| "not measured".to_owned())?;
                        Ok((row.event(end, event)?, row.case.messages as f64))
                    })
                    .collect::<Vec<Result<_, String>>>();
                if own.iter().all(Result::is_err) {
                    continue;
                }
                let mut row = vec![Cell::size(size), Cell::count(u64::from(threads)), Cell::text(end.name())];
                row.extend(own.iter().map(|one| match one {
                    Ok((each, _)) => Cell::Number(each.into()),
                    Err(why) => Cell::missing(why),
                }));
                row.extend(own.iter().map(|one| match one {
                    Ok((each, messages)) => Cell::Number((each.value * messages / unit).into()),
                    Err(why) => Cell::missing(why),
                }));
                table.row(row);
            }
        }
    }
    if table.rows.is_empty() {
        for end in End::BOTH {
            let why = rows.first().map_or_else(String::new, |row| row.event(end, event).err().unwrap_or_default());
            let mut row = vec![Cell::text("all"), Cell::text("all"), Cell::text(end.name())];
            row.extend(vec![Cell::missing(why); 6]);
            table.row(row);
        }
    }
    table
}

fn scaling(grid: Part<'_>, rows: &[Row<'_>]) -> Table {
    let size = nearest(&sizes(rows), 1024).unwrap_or(1024);
    let title = format!("5. Scaling at {}: throughput, and its ratio to the fewest threads", units::size(size));
    let heads = ["threads", "A1", "A1 ratio", "A2", "A2 ratio", "A3", "A3 ratio"];
    let mut table = Table::new("5-scaling", title, &heads);
    let bench = Bench::new(grid, Metric::Throughput);
    let ratios: Vec<Vec<Versus>> = METHODS.iter().take(3).map(|method| bench.scaling(method.method, size)).collect();
    for threads in threads(rows) {
        let mut row = vec![Cell::count(u64::from(threads))];
        for (name, ratios) in OF_THE_LAB.iter().zip(&ratios) {
            let Some(own) = find(rows, name, size, threads) else {
                row.extend(vec![Cell::missing("not measured"); 2]);
                continue;
            };
            row.push(Cell::or_missing(own.bits().as_ref(), Cell::Bits, "no rate"));
            let ratio = ratios.iter().find(|versus| versus.threads == threads);
            row.push(match (own.oversubscribed(), ratio) {
                (Some(why), _) => Cell::missing(why),
                (None, Some(versus)) => Cell::Ratio(versus.value()),
                (None, None) => Cell::Ratio(1.0.into()),
            });
        }
        table.row(row);
    }
    table.note("Ratios are paired by pass. A thread has a partner at the other end, so n threads keep 2n busy.")
}

fn l1_by_threads(rows: &[Row<'_>]) -> Table {
    let size = nearest(&sizes(rows), 64).unwrap_or(64);
    let title = format!("6. L1 misses per message against threads at {}", units::size(size));
    let mut table = Table::new("6-l1-threads", title, &["threads", "end", "A1", "A2", "A3"]);
    for threads in threads(rows) {
        for end in End::BOTH {
            let mut row = vec![Cell::count(u64::from(threads)), Cell::text(end.name())];
            row.extend(OF_THE_LAB.iter().map(|name| match find(rows, name, size, threads) {
                Some(own) => own.event(end, Event::L1).map_or_else(Cell::missing, |each| Cell::Number((&each).into())),
                None => Cell::missing("not measured"),
            }));
            table.row(row);
        }
    }
    table
}

/// A method against A1: the median round trip and the throughput, at all thread counts or at one.
fn against(grid: Part<'_>, name: &str, title: &str, method: &str, only: Option<u32>) -> Table {
    let number = &name[..1];
    let heads = ["size", "threads", "p50 ratio", "shown", "throughput ratio", "shown"];
    let mut table = Table::new(name, format!("{number}. {title}"), &heads);
    let times = Bench::of_run(grid);
    let rates = Bench::new(grid, Metric::Throughput);
    let of_rates = rates.versus(method, "flatten");
    for versus in times.versus(method, "flatten") {
        if only.is_some_and(|only| only != versus.threads) {
            continue;
        }
        let rate = of_rates.iter().find(|rate| (rate.size, rate.threads) == (versus.size, versus.threads));
        table.row([
            Cell::size(versus.size),
            Cell::count(u64::from(versus.threads)),
            Cell::Ratio(versus.value()),
            Cell::text(shown(versus.verdict)),
            Cell::or_missing(rate.map(Versus::value), Cell::Ratio, "no rate"),
            Cell::text(rate.map_or("", |rate| shown(rate.verdict))),
        ]);
    }
    let margin = |bench: &Bench<'_>| units::three_digits(bench.control.margin() * 100.0);
    let note = format!(
        "Round trips: below 1 is faster than A1; throughput: above 1 is. Intervals are those at which all differences that \
         are shown hold together. A difference counts beyond {} % (p50) and {} % (throughput), which is what the hidden \
         A/A pairs resolve here, at least 2 %.",
        margin(&times),
        margin(&rates)
    );
    table.note(note)
}

/// What a verdict is called in a table.
pub(super) fn shown(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equivalent => "the same",
        Verdict::Undecided => "no difference shown",
    }
}

/// Calls and copies per message of all five methods, with one thread.
fn split(part: Part<'_>, what: &str) -> Table {
    let heads = [
        "size",
        "method",
        "send calls",
        "bytes copied",
        "copies",
        "throughput",
        "p50",
        "CPU of both ends",
        "copied after all",
    ];
    let title = format!("Calls and copies per message, {what}, 1 thread");
    let mut table = Table::new(&format!("split-{}", part.name), title, &heads);
    let rows = ladder::rows(part);
    for row in rows.iter().filter(|row| row.case.case.threads == 1) {
        let echo = row.case.throughput.is_none();
        let travelled = (row.case.case.size + if echo { row.case.case.reply } else { 0 }) as f64;
        let copies = row.case.copied_bytes.map(|bytes| bytes / travelled);
        table.row([
            Cell::size(row.case.case.size),
            Cell::text(format!("{}: {}", row.method.name, row.method.what)),
            Cell::or_missing(row.send_calls(), Cell::Number, "no message"),
            Cell::or_missing(row.case.copied_bytes, Cell::Number, &row.case.copied_why),
            Cell::or_missing(copies, Cell::Number, &row.case.copied_why),
            Cell::or_missing(row.bits().as_ref(), Cell::Bits, "no rate"),
            Cell::or_missing(row.p50(), Cell::Time, "a stream has no round trips"),
            Cell::Time(Value::from(row.cpu_ns())),
            match row.copied_share() {
                Some(share) => Cell::Share(share.into()),
                None => Cell::text("-"),
            },
        ]);
    }
    table.note(
        "Send calls of the near end, bytes by program and kernel of both ends and all directions, copies = those bytes by \
         the bytes that travelled. CPU time is user and kernel time of both ends' threads, of the whole message.",
    )
}

/// A step of the split: from one method to another, and what changes.
struct Step {
    from: &'static str,
    to: &'static str,
    what: &'static str,
}

const STEPS: [Step; 4] = [
    Step { from: "writes", to: "flatten", what: "8 calls -> 1, one copy more" },
    Step { from: "flatten", to: "send", what: "the copy in the program away" },
    Step { from: "flatten", to: "sendmsg", what: "the copy away, an array of 8 for the kernel to walk" },
    Step { from: "sendmsg", to: "zerocopy", what: "MSG_ZEROCOPY: pinning and completions" },
];

/// What each step is worth, by the metric of the run.
fn steps(part: Part<'_>, what: &str) -> Table {
    let bench = Bench::of_run(part);
    let metric = bench.metric_name();
    let title =
        format!("What is calls, what is copies, {what}, 1 thread: {metric} after the step by {metric} before it");
    let heads = ["size", "step", "what changes", "ratio", "the step is"];
    let mut table = Table::new(&format!("steps-{}", part.name), title, &heads);
    let name = |method: &str| METHODS.iter().find(|one| one.method == method).map_or("", |one| one.name);
    let mut rows = Vec::new();
    for (at, step) in STEPS.iter().enumerate() {
        for versus in bench.versus(step.to, step.from).into_iter().filter(|versus| versus.threads == 1) {
            rows.push((versus.size, at, step, versus));
        }
    }
    rows.sort_by_key(|(size, at, ..)| (*size, *at));
    for (size, _, step, versus) in rows {
        table.row([
            Cell::size(size),
            Cell::text(format!("{} -> {}", name(step.from), name(step.to))),
            Cell::text(step.what),
            Cell::Ratio(versus.value()),
            Cell::text(shown(versus.verdict)),
        ]);
    }
    let better = if bench.larger_is_better() { "Above 1 the step is a gain" } else { "Below 1 the step is a gain" };
    let margin = units::three_digits(bench.control.margin() * 100.0);
    table.note(format!("{better}; one family of tests for each step; differences count beyond {margin} %."))
}
