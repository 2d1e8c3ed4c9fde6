//! The tables of traced cases: stages, who held the CPU, the scheduler, system calls.

use crate::analyse::{CaseStages, attribution};
use msgpath_analyse::Summary;
use msgpath_analyse::words::factor_in_words;
use msgpath_core::plan::Metric;

use msgpath_core::units::Glyphs;
use msgpath_present::html::page::{Cell, Page};
use msgpath_present::words;

use super::terminal::holder;

/// The tables of every traced case; nothing where nothing was traced.
pub(super) fn tables(page: &mut Page, summary: &Summary) {
    for stages in attribution(summary) {
        let case = summary.cases.iter().find(|case| case.case.id == stages.case);
        let name =
            case.map_or_else(String::new, |case| format!(", {} {}", case.case.path, words::message_at(&case.case)));
        page.section(&format!("Where the time goes{name}"));
        page.note(&known(stages));
        if let Some(why) = &stages.why {
            page.note(&format!("n/a: {why}."));
            continue;
        }
        split(page, stages);
        others(page, stages);
    }
}

/// Who says so, of how many messages, at what cost.
fn known(stages: &CaseStages) -> String {
    let mut text = match &stages.known_by {
        Some(backend) => format!("Known by {backend}, the {} set of events. ", stages.set.name()),
        None => "Nothing was traced. ".into(),
    };
    text += &format!(
        "{} of {} messages complete, residual {}.",
        stages.complete,
        stages.messages,
        Glyphs::Unicode.time(stages.residual_ns as f64)
    );
    if let Some(observer) = &stages.observer {
        let (factor, interval) = factor_in_words(&observer.ratio, Metric::P50);
        text += &format!(" Tracing makes p50 {factor} ({}).", interval.as_deref().unwrap_or("no interval"));
    }
    text
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn split(page: &mut Page, stages: &CaseStages) {
    let mut columns = heads(&["way", "stage"]);
    columns.extend(stages.bands.iter().map(|band| band.name.clone()));
    let time = |ns: f64| Cell::from(Glyphs::Unicode.time(ns));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (at, stage) in stages.stages.iter().enumerate() {
        let direction = stage.direction.map_or("", |direction| direction.name());
        let mut row: Vec<Cell> = vec![Cell::of("l", direction), Cell::of("l", stage.name.as_str())];
        row.extend(stages.bands.iter().map(|band| time(band.parts_ns[at])));
        rows.push(row);
    }
    let mut row: Vec<Cell> = vec![Cell::of("l", ""), Cell::of("l", "round trip")];
    row.extend(stages.bands.iter().map(|band| time(band.mean_ns)));
    rows.push(row);
    page.note("Each column averages whole messages of that slowness, so its rows add up to its last.");
    if let Some(within) = stages.within_ns {
        page.note(&words::between_hosts(&format!("±{}", Glyphs::Unicode.time(within))));
    }
    for (end, why) in &stages.untraced {
        page.note(&format!("The {end} was not traced: {why}."));
    }
    page.table(&columns, &rows);
}

fn others(page: &mut Page, stages: &CaseStages) {
    if !stages.occupants.all.is_empty() {
        let rows: Vec<Vec<Cell>> = stages
            .occupants
            .all
            .iter()
            .map(|one| vec![Cell::of("l", holder(one)), words::percent(one.share).into()])
            .collect();
        page.table(&heads(&["who held the CPU while the receiver was runnable", "share"]), &rows);
    }
    if !stages.threads.is_empty() {
        let columns = heads(&[
            "scheduler, per message",
            "run",
            "asleep",
            "waking",
            "ready, woken",
            "ready, preempted",
            "switches",
        ]);
        let rows: Vec<Vec<Cell>> = stages
            .threads
            .iter()
            .map(|thread| {
                let time = |ns: u64| Cell::from(Glyphs::Unicode.time(thread.each(ns)));
                vec![
                    Cell::of("l", thread.who.as_str()),
                    time(thread.run_ns),
                    time(thread.sleep_ns),
                    time(thread.waking_ns),
                    if stages.wakeups_joined { "n/a".into() } else { time(thread.after_wakeup_ns) },
                    time(thread.preempted_ns),
                    words::per_message(thread.each(thread.switches)).into(),
                ]
            })
            .collect();
        page.table(&columns, &rows);
    }
    if !stages.calls.is_empty() {
        let rows: Vec<Vec<Cell>> = stages
            .calls
            .iter()
            .map(|call| {
                vec![
                    Cell::of("l", call.who.as_str()),
                    Cell::of("l", call.name.as_str()),
                    words::per_message(call.per_message).into(),
                    Glyphs::Unicode.time(call.mean_ns).into(),
                    Glyphs::Unicode.time(call.ns_per_message).into(),
                ]
            })
            .collect();
        page.table(&heads(&["end", "system call", "per message", "mean time", "time per message"]), &rows);
    }
}
