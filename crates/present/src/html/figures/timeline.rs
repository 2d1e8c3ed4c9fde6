//! The message timeline: what happened to each message. The figure is a canvas that the script of the page draws; this
//! gives it the messages, and a table of the slowest for everybody.

use msgpath_analyse::stages::Stage;
use msgpath_core::Plan;
use msgpath_core::plan::Case;
use serde::Serialize;

use super::super::embed::{Embedded, embed};
use super::super::encode::json_block;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::escape;
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "timeline",
    heading: "Timeline of messages",
    how: "Zoomed out, height is the slowest message that starts in that pixel (log scale) and colour the stage that took most of its time. \
          Zoomed in, each message shows its stages; time after the arrival at the far end lies lower. Gaps are between rounds. \
          Aligned by percentile, each row is the mean of the messages at that percentile.",
    draw: picture,
};

/// Messages in the table.
const SLOWEST: usize = 20;

/// What the script must know to read the log.
#[derive(Serialize)]
struct Info<'a> {
    stages: Vec<StageInfo>,
    cases: Vec<CaseInfo<'a>>,
    /// The rows of the table: position of the case in `cases`, position of the message in the case.
    slowest: Vec<(usize, usize)>,
}

#[derive(Serialize)]
struct StageInfo {
    name: &'static str,
    /// Token of the style sheet.
    colour: &'static str,
    /// Drawn as a thin line.
    waiting: bool,
    /// Drawn lower.
    far: bool,
}

#[derive(Serialize)]
struct CaseInfo<'a> {
    id: u32,
    name: &'a str,
    kept: usize,
    logged: usize,
    weight: f64,
    connections: u32,
    /// Messages per entry; an entry's time is their mean.
    batch: u32,
}

fn colour(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "--s0",
        Stage::Request => "--s8",
        Stage::Reply | Stage::Return => "--s9",
        Stage::FarEnd => "--s4",
        Stage::Whole => "--s10",
    }
}

/// Its column in the CSV.
fn column(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting_ns",
        Stage::Request => "request_ns",
        Stage::Reply => "reply_ns",
        Stage::FarEnd => "far_end_ns",
        Stage::Return => "return_ns",
        Stage::Whole => "send_to_reply_ns",
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    // Calls have a timeline of their own.
    if !scene.run.header.plan.workload.logged {
        return Drawn::Nothing;
    }
    let cases = scene.measured();
    let shown = shown(scene);
    let ids: Vec<u32> = shown.iter().map(|case| case.id).collect();
    let embedded = embed(scene.messages.logged, &ids, scene.messages.embed);
    if embedded.kept() == 0 {
        return Drawn::Unavailable(missing(scene));
    }
    let names: Vec<String> = embedded.cases.iter().map(|one| name(scene, &shown, one.case)).collect();
    let slowest = slowest(&embedded);
    let batch = |case: u32| cases.iter().find(|one| one.case.id == case).map_or(1, |one| one.batch.max(1));
    let info = Info {
        stages: (embedded.stages.iter())
            .map(|stage| StageInfo {
                name: stage.name(),
                colour: colour(*stage),
                waiting: *stage == Stage::Waiting,
                far: matches!(stage, Stage::Reply | Stage::FarEnd | Stage::Return),
            })
            .collect(),
        cases: (embedded.cases.iter().zip(&names))
            .map(|(one, name)| CaseInfo {
                id: one.case,
                name,
                kept: one.kept,
                logged: one.logged,
                weight: one.weight,
                connections: one.connections,
                batch: batch(one.case),
            })
            .collect(),
        slowest: slowest.clone(),
    };
    let mut after = controls(&embedded, &names);
    after.push_str(&json_block("data-timeline", &info));
    after.push_str(&format!("<script type=\"text/plain\" id=\"log\">{}</script>\n", embedded.text));
    let batched = cases.iter().find_map(|case| words::batch(case));
    let replicas = shown.len() > cases.len() && embedded.stages.len() > 1;
    let split = replicas.then(|| {
        "The messages of traced rounds are split by the stamps of both ends; the others have no stamps between send and reply."
            .to_owned()
    });
    Drawn::Picture(Picture {
        data: table(scene.timed().name, &embedded, &names, &slowest),
        note: [Some(which(scene, &embedded)), split, batched].into_iter().flatten().collect::<Vec<_>>().join(" "),
        after,
        ..Picture::default()
    })
}

/// The cases that it shows: those measured, and before each its traced replica, whose messages have stamps at both ends.
fn shown<'a>(scene: &Scene<'a>) -> Vec<&'a Case> {
    let replica = |of: u32| {
        let is_its = |case: &&Case| case.ablation.as_ref().is_some_and(|ablation| ablation.of == of);
        scene.run.header.plan.cases.iter().filter(|case| Plan::traced(case).is_some()).find(is_its)
    };
    scene.measured().into_iter().flat_map(|one| replica(one.case.id).into_iter().chain([&one.case])).collect()
}

/// Why there is nothing to show, and what to type.
fn missing(scene: &Scene<'_>) -> String {
    if !scene.messages.logged.index().is_empty() && scene.messages.embed == 0 {
        "no messages in this file. Make it without --embed 0".into()
    } else if scene.run.rounds.is_empty() {
        "no round was finished, so no message was measured".into()
    } else if scene.run.header.plan.message_log == 0 {
        "the run kept no messages, only histograms. Measure without -o message-log=0".into()
    } else {
        "the run's message log holds no message".into()
    }
}

/// Which of the messages are in the file.
fn which(scene: &Scene<'_>, embedded: &Embedded) -> String {
    let (kept, logged) = (embedded.kept() as u64, embedded.logged() as u64);
    let mut text = if kept == logged {
        format!("{} in this file: all that the log has.", words::counted(kept, "message"))
    } else {
        format!(
            "{} of {} logged messages are in this file: of each case the slowest 1 % and the lost, those within 1 ms of \
             the 20 slowest, as far as there is room, and an even sample of the rest (--embed N).",
            kept, logged
        )
    };
    if scene.messages.not_kept > 0 {
        text += &format!(
            " The log was full: {} were measured and not logged (-o message-log=N).",
            words::counted(scene.messages.not_kept, "message")
        );
    }
    text
}

/// A name that tells the case from the others.
fn name(scene: &Scene<'_>, shown: &[&Case], id: u32) -> String {
    let cases = scene.measured();
    let Some(case) = shown.iter().find(|case| case.id == id) else { return String::new() };
    let mut name = format!("{}, {}", case.path, words::message(case));
    if cases.iter().any(|one| one.case.threads != case.threads) {
        name += &format!(", {}", words::counted(case.threads.into(), "thread"));
    }
    if cases.iter().any(|one| one.case.load != case.load) {
        name += &format!(", {}", words::load(case));
    }
    if Plan::traced(case).is_some() {
        name += ", traced";
    }
    name
}

/// Position of the case and of the message in it: the slowest that arrived, or the first lost ones where none did.
fn slowest(embedded: &Embedded) -> Vec<(usize, usize)> {
    let mut all: Vec<(Option<u64>, usize, usize)> = (embedded.cases.iter().enumerate())
        .flat_map(|(case, one)| one.rows.iter().enumerate().map(move |(at, (row, _))| (row.latency_ns, case, at)))
        .collect();
    all.sort_by_key(|(ns, case, at)| (std::cmp::Reverse(*ns), *case, *at));
    let arrived = all.iter().take_while(|(ns, ..)| ns.is_some()).count();
    let shown = if arrived > 0 { arrived.min(SLOWEST) } else { SLOWEST };
    all.into_iter().take(shown).map(|(_, case, at)| (case, at)).collect()
}

/// `time`: what the times of messages are.
fn table(time: &str, embedded: &Embedded, names: &[String], slowest: &[(usize, usize)]) -> DataTable {
    let mut table =
        DataTable::new(&[("slowest messages", "case"), ("connection", "connection"), ("sent at", "start_ns")]);
    table.head(time, "latency_ns");
    // With a single stage its time is the message's.
    let stages = if embedded.stages.len() > 1 { embedded.stages.as_slice() } else { &[] };
    stages.iter().for_each(|stage| table.head(stage.name(), column(*stage)));
    for (case, at) in slowest {
        let (row, _) = &embedded.cases[*case].rows[*at];
        let seconds = format!("{:.6} s", row.start_ns as f64 / 1e9);
        let mut cells = vec![
            names[*case].as_str().into(),
            Datum::count(row.connection.into()),
            Datum::Number(row.start_ns as f64, seconds),
            row.latency_ns.map_or_else(|| "lost".into(), |ns| Datum::ns(ns as f64)),
        ];
        cells.extend(stages.iter().map(|stage| Datum::ns(stage.ns(row) as f64)));
        table.row(cells);
    }
    table
}

/// Buttons, key of the colours, canvas and the line below it, which stay hidden until the script is ready.
fn controls(embedded: &Embedded, names: &[String]) -> String {
    let mut out = String::from(
        "<div id=\"timeline\">\n<div class=\"tl-tools\"><span role=\"group\" aria-label=\"Order of the messages\"><button type=\"button\" data-mode=\"wall\" aria-pressed=\"true\">by time</button><button type=\"button\" data-mode=\"rank\" aria-pressed=\"false\">aligned by percentile</button></span>\n",
    );
    if names.len() > 1 {
        let options: String = names
            .iter()
            .enumerate()
            .map(|(at, name)| format!("<option value=\"{at}\">{}</option>", escape(name)))
            .collect();
        out += &format!("<select id=\"tl-case\" aria-label=\"Case\">{options}</select>\n");
    }
    for (action, text) in [("in", "zoom in"), ("out", "zoom out"), ("all", "everything"), ("next", "next slowest")] {
        out += &format!("<button type=\"button\" data-do=\"{action}\">{text}</button>\n");
    }
    out += "</div>\n<p class=\"tl-keys\">";
    for stage in &embedded.stages {
        out += &format!(
            "<span class=\"tl-key\"><i style=\"background:var({})\"></i>{}</span>",
            colour(*stage),
            stage.name()
        );
    }
    out += "<span class=\"tl-key\"><b class=\"na\">×</b> lost</span></p>\n\
        <canvas id=\"tl-strip\" aria-hidden=\"true\"></canvas>\n\
        <canvas id=\"tl-main\" tabindex=\"0\" role=\"application\" aria-label=\"Timeline of the messages. The slowest are in the table below.\" aria-describedby=\"tl-help\"></canvas>\n\
        <p id=\"tl-help\" class=\"mut\">Keys: ← → move, + − zoom, Home everything, n next slowest; ↑ ↓ when aligned. Drag moves, Shift-drag measures, the wheel zooms with Ctrl or after a click.</p>\n\
        <div id=\"tl-detail\" aria-live=\"polite\"></div>\n</div>\n\
        <noscript><p class=\"na\">The timeline needs JavaScript. Everything else in this report does without; the slowest messages are in the table below.</p></noscript>\n";
    out
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
