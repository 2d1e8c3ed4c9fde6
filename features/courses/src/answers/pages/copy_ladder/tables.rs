//! The tables: eight of the lab, then the two that tell calls from copies.

use msgpath_core::plan::Metric;
use msgpath_core::units;
use msgpath_stats::verdict::Verdict;

use super::Ladder;
use crate::answers::columns::{Columns, bits_or, number_or, ratio_or, table, time_or};
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

/// One row per size and thread count that was measured.
fn grid(rows: &[Row<'_>], name: &str, title: &str) -> Columns<(u64, u32)> {
    let cells = sizes(rows).into_iter().flat_map(|size| threads(rows).into_iter().map(move |threads| (size, threads)));
    let measured = |cell: &(u64, u32)| OF_THE_LAB.iter().any(|name| find(rows, name, cell.0, cell.1).is_some());
    table(name, title, cells.filter(measured))
        .col("size", |(size, _)| Cell::size(*size))
        .col("threads", |(_, threads)| Cell::count(u64::from(*threads)))
}

/// What a method has there.
fn cell(rows: &[Row<'_>], name: &str, size: u64, threads: u32, of: impl Fn(&Row<'_>) -> Cell) -> Cell {
    find(rows, name, size, threads).map_or_else(|| Cell::missing("not measured"), of)
}

/// With a line below, and what is said of thread counts that the CPUs cannot run at once.
fn noted(table: Columns<(u64, u32)>, rows: &[Row<'_>], before: &str) -> Table {
    let note = format!("{before} {}", crowded(rows).unwrap_or_default());
    table.note(note.trim())
}

fn throughput(rows: &[Row<'_>]) -> Table {
    let table = grid(rows, "1-throughput", "1. Throughput, all threads together").cols(
        OF_THE_LAB,
        |name| (*name).into(),
        |(size, threads), name| cell(rows, name, *size, *threads, |row| bits_or(row.bits().as_ref(), "no rate")),
    );
    let note = "Payload of one direction, counted by its receiver (the far end) on its own clock: Gbit/s = 10^9 bit/s.";
    noted(table, rows, note)
}

fn latency(rows: &[Row<'_>]) -> Table {
    let columns = OF_THE_LAB.iter().flat_map(|name| [(*name, "p50"), (*name, "in flight")]);
    let table = grid(rows, "2-latency", "2. Latency: median round trip").cols(
        columns,
        |(name, what)| format!("{name} {what}"),
        |(size, threads), (name, what)| {
            cell(rows, name, *size, *threads, |row| match *what {
                "p50" => time_or(row.p50(), "no median"),
                _ => number_or(row.in_flight(), "no mean"),
            })
        },
    );
    let note = "From the send call to the whole reply, per message. In flight = throughput x mean round trip / size: where \
                it is the number of threads, the mean adds nothing to the throughput, and only quantiles do.";
    noted(table, rows, note)
}

/// Misses of both ends; one row that says why where nothing was counted.
fn misses(rows: &[Row<'_>], event: Event, name: &str, title: &str, unit: f64) -> Table {
    let (number, letter) = if event == Event::L1 { (3, "M") } else { (4, "K") };
    type Counted = Vec<Result<(f64, Cell), String>>;
    let mut cells: Vec<(Cell, Cell, End, Counted)> = Vec::new();
    for size in sizes(rows) {
        for (threads, end) in threads(rows).into_iter().flat_map(|threads| End::BOTH.map(|end| (threads, end))) {
            let of = |name: &&str| {
                let row = find(rows, name, size, threads).ok_or_else(|| "not measured".to_owned())?;
                let each = row.event(end, event)?;
                Ok((each.value * row.case.messages as f64 / unit, Cell::Number((&each).into())))
            };
            let own: Counted = OF_THE_LAB.iter().map(of).collect();
            if own.iter().any(Result::is_ok) {
                cells.push((Cell::size(size), Cell::count(u64::from(threads)), end, own));
            }
        }
    }
    if cells.is_empty() {
        let why = |end| rows.first().map_or_else(String::new, |row| row.event(end, event).err().unwrap_or_default());
        let none = |end| (Cell::text("all"), Cell::text("all"), end, vec![Err(why(end)); 3]);
        cells.extend(End::BOTH.map(none));
    }
    let missing = |why: &String| Cell::missing(why);
    table(name, format!("{number}. {title}"), cells)
        .col("size", |(size, ..)| size.clone())
        .col("threads", |(_, threads, ..)| threads.clone())
        .col("end", |(_, _, end, _)| end.name())
        .cols(
            0..3,
            |at| OF_THE_LAB[*at].into(),
            |(.., own), at| match &own[*at] {
                Ok((_, each)) => each.clone(),
                Err(why) => missing(why),
            },
        )
        .cols(
            0..3,
            |at| format!("{} in all, {letter}", OF_THE_LAB[*at]),
            |(.., own), at| match &own[*at] {
                Ok((all, _)) => Cell::Number((*all).into()),
                Err(why) => missing(why),
            },
        )
        .into()
}

fn scaling(part: Part<'_>, rows: &[Row<'_>]) -> Table {
    let size = nearest(&sizes(rows), 1024).unwrap_or(1024);
    let title = format!("5. Scaling at {}: throughput, and its ratio to the fewest threads", units::size(size));
    let bench = Bench::new(part, Metric::Throughput);
    let ratios: Vec<Vec<Versus>> = METHODS.iter().take(3).map(|method| bench.scaling(method.method, size)).collect();
    let ratio = |own: &Row<'_>, at: usize, threads: u32| match (
        own.oversubscribed(),
        ratios[at].iter().find(|versus| versus.threads == threads),
    ) {
        (Some(why), _) => Cell::missing(why),
        (None, Some(versus)) => Cell::Ratio(versus.value()),
        (None, None) => Cell::Ratio(1.0.into()),
    };
    table("5-scaling", title, threads(rows))
        .col("threads", |threads| Cell::count(u64::from(*threads)))
        .cols(
            (0..3).flat_map(|at| [(at, ""), (at, " ratio")]),
            |(at, what)| format!("{}{what}", OF_THE_LAB[*at]),
            |threads, (at, what)| {
                cell(rows, OF_THE_LAB[*at], size, *threads, |own| match *what {
                    "" => bits_or(own.bits().as_ref(), "no rate"),
                    _ => ratio(own, *at, *threads),
                })
            },
        )
        .note("Ratios are paired by pass. A thread has a partner at the other end, so n threads keep 2n busy.")
}

fn l1_by_threads(rows: &[Row<'_>]) -> Table {
    let size = nearest(&sizes(rows), 64).unwrap_or(64);
    let title = format!("6. L1 misses per message against threads at {}", units::size(size));
    let each =
        |row: &Row<'_>, end| row.event(end, Event::L1).map_or_else(Cell::missing, |each| Cell::Number((&each).into()));
    let cells = threads(rows).into_iter().flat_map(|threads| End::BOTH.map(|end| (threads, end)));
    table("6-l1-threads", title, cells)
        .col("threads", |(threads, _)| Cell::count(u64::from(*threads)))
        .col("end", |(_, end)| end.name())
        .cols(
            OF_THE_LAB,
            |name| (*name).into(),
            |(threads, end), name| cell(rows, name, size, *threads, |row| each(row, *end)),
        )
        .into()
}

/// A method against A1: the median round trip and the throughput, at all thread counts or at one.
fn against(part: Part<'_>, name: &str, title: &str, method: &str, only: Option<u32>) -> Table {
    let (times, rates) = (Bench::of_run(part), Bench::new(part, Metric::Throughput));
    let of_rates = rates.versus(method, "flatten");
    let rows = times.versus(method, "flatten").into_iter().filter(|one| only.is_none_or(|only| only == one.threads));
    let rows = rows.map(|one| {
        let rate = of_rates.iter().find(|rate| (rate.size, rate.threads) == (one.size, one.threads));
        (one, rate)
    });
    let margin = |bench: &Bench<'_>| units::three_digits(bench.control.margin() * 100.0);
    table(name, format!("{}. {title}", &name[..1]), rows)
        .col("size", |(one, _)| Cell::size(one.size))
        .col("threads", |(one, _)| Cell::count(u64::from(one.threads)))
        .col("p50 ratio", |(one, _)| Cell::Ratio(one.value()))
        .col("shown", |(one, _)| shown(one.verdict))
        .col("throughput ratio", |(_, rate)| ratio_or(rate.map(Versus::value), "no rate"))
        .col("shown", |(_, rate)| rate.map_or("", |rate| shown(rate.verdict)))
        .note(format!(
            "Round trips: below 1 is faster than A1; throughput: above 1 is. Intervals are those at which all differences \
             that are shown hold together. A difference counts beyond {} % (p50) and {} % (throughput), which is what the \
             hidden A/A pairs resolve here, at least 2 %.",
            margin(&times),
            margin(&rates)
        ))
}

/// What a verdict is called in a table.
pub(super) fn shown(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equivalent => "the same",
        Verdict::Undecided => "not decided",
    }
}

/// Calls and copies per message of all five methods, with one thread.
fn split(part: Part<'_>, what: &str) -> Table {
    let rows = ladder::rows(part);
    let name = format!("split-{}", part.name);
    let why = |row: &Row<'_>| row.case.copied.why.clone();
    let single = rows.iter().filter(|row| row.case.case.threads == 1);
    table(name, format!("Calls and copies per message, {what}, 1 thread"), single)
        .col("size", |row| Cell::size(row.case.case.size))
        .col("method", |row| format!("{}: {}", row.method.name, row.method.what))
        .col("send calls", |row| number_or(row.send_calls(), "no message"))
        .col("bytes copied", |row| number_or(row.case.copied.bytes, &why(row)))
        .col("copies", |row| number_or(ladder::copies(&row.part, row.case), &why(row)))
        .col("throughput", |row| bits_or(row.bits().as_ref(), "no rate"))
        .col("p50", |row| time_or(row.p50(), "a stream has no round trips"))
        .col("CPU of both ends", |row| Cell::Time(row.cpu_ns().into()))
        .col("copied after all", |row| {
            row.copied_share().map_or_else(|| Cell::text("-"), |share| Cell::Share(share.into()))
        })
        .note(
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
    let name = |method: &str| METHODS.iter().find(|one| one.method == method).map_or("", |one| one.name);
    let mut rows = Vec::new();
    for (at, step) in STEPS.iter().enumerate() {
        for versus in bench.versus(step.to, step.from).into_iter().filter(|versus| versus.threads == 1) {
            rows.push((versus.size, at, step, versus));
        }
    }
    rows.sort_by_key(|(size, at, ..)| (*size, *at));
    let better = if bench.larger_is_better() { "Above 1 the step is a gain" } else { "Below 1 the step is a gain" };
    let margin = units::three_digits(bench.control.margin() * 100.0);
    table(format!("steps-{}", part.name), title, rows)
        .col("size", |(size, ..)| Cell::size(*size))
        .col("step", |(_, _, step, _)| format!("{} -> {}", name(step.from), name(step.to)))
        .col("what changes", |(_, _, step, _)| step.what)
        .col("ratio", |(.., versus)| Cell::Ratio(versus.value()))
        .col("the step is", |(.., versus)| shown(versus.verdict))
        .note(format!("{better}; one family of tests for each step; differences count beyond {margin} %."))
}
