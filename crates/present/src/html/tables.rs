//! The tables of the report: every number of the summary that a picture does not carry.

use msgpath_analyse::Summary;
use msgpath_analyse::gates::{CaseGate, RunGate};
use msgpath_analyse::summary::{CaseSummary, Comparison};
use msgpath_core::CaseRole;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units;
use msgpath_record::Run;
use msgpath_stats::verdict::Verdict;

use super::G;
use super::page::{Cell, Page};
use crate::columns::{self, CALLS, ECHO, STREAM};
use crate::terminal::{absolute, cost_cells, metric_name, resolution};
use crate::view::{self, Grid};
use crate::{programs, words};

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Path, message and threads of a case.
fn label(case: &CaseSummary) -> String {
    let threads = words::counted(u64::from(case.case.threads), "thread");
    let role = if case.case.role == CaseRole::Reference { "reference: " } else { "" };
    format!("{role}{}, {}, {threads}", case.case.path, words::message_at(&case.case))
}

/// Ratios to the baseline, one table per thread count.
pub(crate) fn comparison(page: &mut Page, grid: &Grid, comparison: &Comparison) {
    page.section(&format!("Against {}", comparison.baseline));
    page.note(&words::legend(&comparison.metric, comparison.margin));
    for threads in &grid.threads {
        page.raw(&format!(
            "<h3>{}, {}</h3>\n",
            metric_name(&comparison.metric, grid.timed()),
            words::counted(u64::from(*threads), "thread")
        ));
        let mut columns = vec![String::new()];
        columns.extend(grid.shapes.iter().map(|shape| grid.head(*shape, false)));
        let rows: Vec<Vec<Cell>> = grid
            .paths
            .iter()
            .map(|path| {
                let cells = grid.shapes.iter().map(|shape| match grid.case(path, *shape, *threads) {
                    None => "n/a".into(),
                    Some(case) if **path == comparison.baseline => absolute(case, &comparison.metric, G).into(),
                    Some(case) => view::ratio(comparison, case).map_or_else(
                        || "n/a".into(),
                        |ratio| {
                            let range = words::ends(ratio.low, ratio.high, words::change);
                            let class = match ratio.verdict {
                                Verdict::Better => "better",
                                Verdict::Worse => "worse",
                                Verdict::Equivalent => "",
                                Verdict::Undecided => "undecided",
                            };
                            Cell::of(class, format!("{} {}", words::mark(ratio), words::change(ratio.ratio)))
                                .with_note(range.unwrap_or_else(|| "no interval".into()))
                        },
                    ),
                });
                std::iter::once(Cell::from(path.to_string())).chain(cells).collect()
            })
            .collect();
        page.table(&columns, &rows);
    }
    page.note(&resolution(comparison));
}

/// What each layer adds to what it stands on.
pub(crate) fn layers(page: &mut Page, summary: &Summary) {
    use crate::terminal::ladder::{beneath, interval, name, rows, what_it_adds};
    let several = rows(summary).any(|(_, case)| rows(summary).any(|(_, other)| other.case.size != case.case.size));
    let cells: Vec<Vec<Cell>> = rows(summary)
        .map(|(layer, case)| {
            let size = if several { format!(", {}", units::size(case.case.size)) } else { String::new() };
            let (adds, times) = (layer.adds.as_ref(), layer.times.as_ref());
            let class = match times.map(|times| times.verdict) {
                Some(Verdict::Undecided) => "undecided",
                _ => "",
            };
            let added = adds.map_or_else(String::new, |adds| what_it_adds(adds, G));
            let range = adds.map_or_else(String::new, |adds| interval(adds, G));
            let ratio = times.map_or_else(String::new, |times| units::three_digits(times.ratio));
            vec![
                format!("{}{size}", name(summary, layer)).into(),
                words::quantile_value(&layer.median, G).into(),
                words::quantile_range(&layer.median, G).into(),
                Cell::of(class, added),
                Cell::of(class, range),
                Cell::of(class, ratio),
                beneath(summary, layer).map_or_else(String::new, |beneath| name(summary, beneath)).into(),
            ]
        })
        .collect();
    if cells.is_empty() {
        return;
    }
    page.section("What each layer adds");
    page.note(
        "A layer adds its p50 less that of the layer named last, in the same pass; both in the same interleaved run. At most: the \
         interval includes 0, and this is its end.",
    );
    page.table(&heads(&["layer", "p50", "range, 95 %", "adds", "95 %", "times", "to"]), &cells);
}

/// Percentiles of every case that timed messages.
pub(crate) fn latency(page: &mut Page, run: &Run, cases: &[&CaseSummary]) {
    let timed: Vec<_> = cases.iter().filter(|case| case.latency.fastest_ns.is_some()).collect();
    let Some(first) = timed.first() else { return };
    let time_is = run.header.plan.workload.duration(first.open.is_some());
    page.section(&format!("{} of every case", time_is.many));
    page.note(time_is.what);
    let columns: Vec<String> = ["case".to_owned()].into_iter().chain(columns::page_heads(ECHO)).collect();
    let rows: Vec<Vec<Cell>> = timed
        .iter()
        .map(|case| [label(case).into()].into_iter().chain(columns::cells(ECHO, case, G)).collect())
        .collect();
    page.long_table(&columns, &rows);
    let mut notes = Vec::new();
    for case in &timed {
        if let Some(text) = words::batch(case) {
            view::push_new(&mut notes, text);
        }
        for text in words::bounds("", &case.latency.quantiles) {
            view::push_new(&mut notes, text);
        }
    }
    notes.iter().for_each(|note| page.note(note));
}

/// Throughput, reads and segments of every stream, the reference among them.
pub(crate) fn throughput(page: &mut Page, summary: &Summary) {
    let shown = |case: &&CaseSummary| case.case.role != CaseRole::Ablation;
    let streams = summary.cases.iter().filter(shown);
    let streams: Vec<_> = streams.filter(|case| case.throughput.is_some()).collect();
    if streams.is_empty() {
        return;
    }
    page.section("Throughput");
    page.note(&format!(
        "Counted by the receiver on its clock; the sender's clock runs {}. Gbit/s = 10⁹ bit/s.",
        words::senders_until(streams.iter().map(|case| &case.case))
    ));
    let heads = columns::page_heads(STREAM).chain(columns::page_heads(CALLS));
    let columns: Vec<String> = ["case".to_owned()].into_iter().chain(heads).collect();
    let rows: Vec<Vec<Cell>> = streams
        .iter()
        .map(|case| {
            let cells = columns::cells(STREAM, case, G).chain(columns::cells(CALLS, case, G));
            [label(case).into()].into_iter().chain(cells).collect()
        })
        .collect();
    page.table(&columns, &rows);
}

/// Programs of others at the far end, and the files that they were started from.
pub(crate) fn programs(page: &mut Page, run: &Run, summary: &Summary) {
    let rows = programs::rows(run, summary, G);
    if rows.is_empty() {
        return;
    }
    page.heading("Programs at the far end");
    page.note(
        "CPU time of a message, all processes of the program together; that is all that is seen of it from outside.",
    );
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|[path, far, near, ready, which]| {
            vec![path.into(), far.into(), near.into(), ready.into(), Cell::of("w l", which)]
        })
        .collect();
    page.table(&heads(&programs::HEADS), &rows);
    let files = run.header.programs.iter().flat_map(|facts| {
        let row = |(path, sum): &(String, String)| {
            vec![facts.name.clone().into(), Cell::of("w l", path.clone()), Cell::of("w l", sum.clone())]
        };
        facts.files.iter().map(row).collect::<Vec<Vec<Cell>>>()
    });
    let files: Vec<Vec<Cell>> = files.collect();
    if !files.is_empty() {
        page.long_table(&heads(&["program", "file", "SHA-256"]), &files);
    }
}

/// What a message costs at both ends.
pub(crate) fn costs(page: &mut Page, cases: &[&CaseSummary]) {
    page.section("What a message costs");
    let columns = heads(&[
        "case",
        "end",
        "cpu user",
        "cpu system",
        "system calls",
        "voluntary switches",
        "forced",
        "page faults",
        "run-queue delay",
        "copied",
        "what that counts",
    ]);
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for case in cases {
        for (at, end) in case.ends.iter().enumerate() {
            let mut row: Vec<Cell> = vec![label(case).into(), end.name.clone().into()];
            row.extend(cost_cells(&end.cost, G).map(Cell::from));
            if at == NEAR {
                row.push(case.copied.bytes.map_or_else(|| "n/a".into(), words::about_size).into());
                row.push(Cell::of("w l", case.copied.why.clone()));
            } else {
                row.extend([Cell::default(), Cell::of("w l", "")]);
            }
            rows.push(row);
        }
    }
    page.note("Per message, mean over all rounds.");
    for why in words::why_unread(cases.iter().copied()) {
        page.note(&format!("n/a: {why}."));
    }
    page.long_table(&columns, &rows);
}

/// What CPU and kernel counted at both ends, event by event, and what was simulated.
pub(crate) fn events(page: &mut Page, cases: &[&CaseSummary]) {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for case in cases.iter().filter(|case| case.rounds > 0) {
        for end in &case.ends {
            // What was refused stands below, once.
            for rate in end.events.iter().filter(|rate| rate.per_message.is_some()) {
                let [value, interval, user, running, what] = words::events::cells(rate);
                let mut row: Vec<Cell> = vec![label(case).into(), end.name.clone().into(), rate.name.clone().into()];
                row.extend([value, interval, user, running].map(Cell::from));
                row.push(Cell::of("w l", what));
                rows.push(row);
            }
        }
    }
    let reasons = words::events::reasons(cases);
    if rows.is_empty() && reasons.is_empty() {
        return;
    }
    page.section("What CPU and kernel counted");
    page.note("Per message, from the first to the last measured one, in the measuring threads only: mean over rounds.");
    if !rows.is_empty() {
        let columns = ["case", "end", "event", "a message", "95 % interval", "in user mode", "time counted", ""];
        page.long_table(&heads(&columns), &rows);
    }
    for reason in reasons {
        page.note(&format!("{reason}."));
    }
}

/// What the result was to be held to, every gate on every case.
pub(crate) fn gates(page: &mut Page, summary: &Summary) {
    let of_gate = |gate: &RunGate| {
        let row = |case: &CaseGate| {
            let judged = words::gates::judged(case, &gate.unit, G);
            vec![
                words::gates::state(case.state).into(),
                Cell::of("l", gate.gate.as_str()),
                Cell::of("l", case.name.as_str()),
                Cell::of("w l", judged),
            ]
        };
        gate.cases.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<Cell>> = summary.gates.iter().flat_map(of_gate).collect();
    if !rows.is_empty() {
        page.heading("Gates");
        page.long_table(&heads(&["", "gate", "case", "what was measured"]), &rows);
    }
}

/// Cases that could not be measured, with the reason.
pub(crate) fn unavailable(page: &mut Page, summary: &Summary) {
    let rows: Vec<Vec<Cell>> = view::unavailable(summary)
        .into_iter()
        .map(|(path, why, hint)| vec![path.into(), Cell::of("w l", why), Cell::of("w l", hint)])
        .collect();
    if !rows.is_empty() {
        page.section("Not measured");
        page.table(&heads(&["path", "why", "what helps"]), &rows);
    }
}

/// Options asked and granted, lost conditions, and the machines of both ends.
pub(crate) fn environment(page: &mut Page, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
    page.section("Under which conditions");
    let mut refused = Vec::new();
    for granted in cases.iter().flat_map(|case| &case.conditions.granted).filter(|granted| !granted.same) {
        let row = [&granted.end, &granted.option, &granted.asked, &granted.granted].map(Clone::clone);
        view::push_new(&mut refused, row);
    }
    if !refused.is_empty() {
        let rows: Vec<Vec<Cell>> = refused.into_iter().map(|row| row.map(Cell::from).to_vec()).collect();
        page.table(&heads(&["asked and not granted", "option", "asked", "granted"]), &rows);
    }
    for line in view::lost_conditions(cases) {
        page.note(&line);
    }
    if let Some(text) = view::calm(run, summary) {
        page.note(&text);
    }
    let beside = view::beside(&summary.cases, G);
    if !beside.is_empty() {
        let rows: Vec<Vec<Cell>> = beside.iter().map(|line| vec![Cell::of("w l", line)]).collect();
        page.table(&heads(&["disturbed rounds, left out of the numbers"]), &rows);
    }
    let header = &run.header;
    let mut rows: Vec<Vec<Cell>> = vec![
        vec![
            "plan".into(),
            Cell::of("w l", format!("{} rounds a case, seed {}", header.plan.rounds, header.plan.seed)),
        ],
        vec![
            "clock".into(),
            Cell::of(
                "w l",
                format!(
                    "{} a reading, smallest step {}",
                    G.time(header.end(NEAR).clock.cost_ns),
                    G.time(header.end(NEAR).clock.step_ns as f64)
                ),
            ),
        ],
    ];
    for (end, place) in [("near", header.host(NEAR)), ("far", header.host(FAR))] {
        let main = [("host", &place.host), ("kernel", &place.kernel), ("cpu", &place.cpu)];
        let facts = main.into_iter().chain(place.facts.iter().map(|(name, value)| (name.as_str(), value)));
        rows.extend(facts.map(|(name, value)| vec![format!("{end}: {name}").into(), Cell::of("w l", value.as_str())]));
    }
    page.raw("<details><summary>Plan, clock and the machines of both ends</summary>\n");
    page.table(&heads(&["", ""]), &rows);
    page.raw("</details>\n");
}
