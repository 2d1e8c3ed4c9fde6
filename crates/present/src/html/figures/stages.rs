//! Stages by how slow the message was: where does the time go, and does the tail go elsewhere?

use msgpath_analyse::stages::{Stage, Stages, stages};
use msgpath_core::Workload;
use msgpath_core::units::three_digits;

use super::super::G;
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene, chosen};
use crate::svg::{Anchor, Drawing, Svg};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "stages",
    question: "Where does the time go, and does the tail go elsewhere?",
    how: "Each bar averages whole messages of that slowness, so the parts add up to the mean on the right.",
    draw: picture,
};

const WIDTH: f64 = 520.0;
const LEFT: f64 = 118.0;
const RIGHT: f64 = 68.0;
const TOP: f64 = 26.0;
const BAR: f64 = 44.0;
const GAP: f64 = 18.0;
const KEY: f64 = 20.0;

const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"1.6\" height=\"7\" fill=\"#fff\" opacity=\".6\"/></pattern></defs>";

/// Number of a stage's colour in the style sheet.
pub(super) fn colour(stage: Stage) -> usize {
    match stage {
        Stage::Waiting => 0,
        Stage::Request => 8,
        Stage::Reply => 9,
        Stage::Whole => 10,
    }
}

/// Stages in which a sleeping program is woken are hatched, so that they can be told without colours.
fn hatched(stage: Stage) -> bool {
    stage == Stage::Reply
}

/// Its column in the CSV.
fn column(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting_ns",
        Stage::Request => "request_ns",
        Stage::Reply => "reply_ns",
        Stage::Whole => "send_to_reply_ns",
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let cases = scene.measured();
    let (shown, _) = chosen(scene.summary, &cases);
    if scene.run.header.plan.workload == Workload::Stream || shown.is_empty() {
        return Drawn::Nothing;
    }
    let all: Vec<_> = shown
        .iter()
        .take(super::SERIES)
        .map(|(label, case)| (label, stages(scene.run, &case.case, scene.messages.logged)))
        .collect();
    let mut why = None;
    let found: Vec<(&String, Stages)> = all
        .into_iter()
        .filter_map(|(label, stages)| match stages {
            Ok(stages) if !stages.bands.is_empty() => Some((label, stages)),
            Ok(_) => None,
            Err(reason) => {
                why.get_or_insert(reason);
                None
            }
        })
        .collect();
    if found.is_empty() {
        return Drawn::Unavailable(why.unwrap_or_else(|| "too few messages were logged to average them".into()));
    }
    let logged: u64 = found.iter().map(|(_, stages)| stages.messages).sum();
    let mut note = format!("From {}.", words::counted(logged, "logged message", G));
    if scene.messages.not_kept > 0 {
        note += &format!(" The log was full: {} were not kept.", G.thousands(scene.messages.not_kept));
    }
    let named = found.len() > 1;
    let mut panels: Vec<Svg> = Vec::new();
    for (label, stages) in &found {
        panels.push(draw(stages, label, named, panels.is_empty()));
    }
    Drawn::Picture(Picture { panels, data: numbers(&found), note, ..Picture::default() })
}

fn numbers(found: &[(&String, Stages)]) -> DataTable {
    let mut table =
        DataTable::new(&[("case", "case"), ("messages", "band"), ("how many", "messages"), ("in rounds", "rounds")]);
    let used: Vec<Stage> =
        Stage::ALL.into_iter().filter(|stage| found.iter().any(|(_, stages)| stages.stages.contains(stage))).collect();
    used.iter().for_each(|stage| table.head(stage.name(), column(*stage)));
    table.head("mean", "mean_ns");
    for (label, stages) in found {
        for band in &stages.bands {
            let part = |stage: &Stage| {
                let at = stages.stages.iter().position(|own| own == stage);
                at.map_or(Datum::Missing, |at| Datum::ns(band.parts_ns[at]))
            };
            let head = [
                label.as_str().into(),
                band.name.as_str().into(),
                Datum::count(band.messages),
                Datum::count(band.bursts),
            ];
            table.row(head.into_iter().chain(used.iter().map(part)).chain([Datum::ns(band.mean_ns)]));
        }
    }
    table
}

/// The name stands above the bars where there are several drawings; the first of them has the pattern of the hatch.
fn draw(stages: &Stages, label: &str, named: bool, first: bool) -> Svg {
    let keys = TOP + stages.bands.len() as f64 * (BAR + GAP) + 4.0;
    let mut drawing = Drawing::new(WIDTH, keys + KEY * stages.stages.len() as f64);
    if first {
        drawing.raw(HATCH);
    }
    let title = if named { label } else { "share of the time, by how slow the message was" };
    drawing.text("m", (LEFT, 12.0), Anchor::Start, title);
    drawing.text("m", (WIDTH - RIGHT + 8.0, 12.0), Anchor::Start, "mean");
    for (row, band) in stages.bands.iter().enumerate() {
        let y = TOP + row as f64 * (BAR + GAP);
        let middle = y + BAR / 2.0 + 4.0;
        drawing.text("m", (LEFT - 8.0, middle), Anchor::End, &band.name);
        if !band.claim {
            let rounds = words::counted(band.bursts, "round", G);
            drawing.text("m small", (LEFT - 8.0, middle + 14.0), Anchor::End, &format!("{rounds}: no claim"));
        }
        let mut x = LEFT;
        for (stage, ns) in stages.stages.iter().zip(&band.parts_ns) {
            let share = if band.mean_ns > 0.0 { ns / band.mean_ns } else { 0.0 };
            let width = share * (WIDTH - LEFT - RIGHT);
            let percent = format!("{} %", three_digits(100.0 * share));
            let title = format!("{}, {}: {} ({percent})", band.name, stage.name(), G.time(*ns));
            segment(&mut drawing, *stage, (x, y), (width, BAR), &title);
            let text = format!("{:.0} %", 100.0 * share);
            if width > 30.0 {
                let class = format!("on on{}", colour(*stage));
                drawing.text(&class, (x + width / 2.0, middle), Anchor::Middle, &text);
            }
            x += width;
        }
        drawing.text("b", (WIDTH - RIGHT + 8.0, middle), Anchor::Start, &G.time(band.mean_ns));
    }
    for (at, stage) in stages.stages.iter().enumerate() {
        let y = keys + KEY * at as f64;
        segment(&mut drawing, *stage, (LEFT, y), (14.0, 12.0), "");
        drawing.text("m", (LEFT + 20.0, y + 10.0), Anchor::Start, stage.name());
    }
    drawing.finish(&format!("Share of the time by stage for messages of {label}, from usual to slowest"))
}

fn segment(drawing: &mut Drawing, stage: Stage, at: (f64, f64), size: (f64, f64), title: &str) {
    if size.0 <= 0.0 {
        return;
    }
    drawing.rectangle(&format!("stage st{}", colour(stage)), at, size, 1.0, title);
    if hatched(stage) {
        drawing.rectangle("hatched", at, size, 1.0, "");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;
    use crate::html::Messages;
    use msgpath_core::schema::MessageRow;

    /// 2000 messages over 8 rounds: one in 50 is slow on its way there.
    fn rows() -> Vec<MessageRow> {
        let row = |at: u64| {
            let far = if at % 50 == 3 { 90_000 } else { 8_000 } + at % 7;
            let (pass, latency) = ((at / 250) as u32, far + 11_000 + at % 13 * 100);
            MessageRow {
                pass,
                start_ns: at * 50_000,
                latency_ns: Some(latency),
                far_ns: Some(far),
                ..MessageRow::default()
            }
        };
        (0..2_000).map(row).collect()
    }

    #[test]
    fn with_stamps_at_both_ends() {
        let (run, summary) = fixture::echo();
        let rows = rows();
        let messages = Messages { logged: &rows, not_kept: 70_000, ..Messages::default() };
        let scene = Scene { messages, ..Scene::new(&run, &summary) };
        insta::assert_snapshot!("stages", drawn(&FIGURE, &scene));
    }

    #[test]
    fn without_stamps_it_says_what_to_type() {
        let (mut run, summary) = fixture::echo();
        run.header.plan.message_log = 10;
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.far_ns = None);
        let messages = Messages { logged: &rows, ..Messages::default() };
        let text = drawn(&FIGURE, &Scene { messages, ..Scene::new(&run, &summary) });
        assert_eq!(text, "n/a: the far end took no stamps; this command records them: msgpath echo --stamps both");
        let (stream, summary) = fixture::shapes();
        assert_eq!(drawn(&FIGURE, &Scene::new(&stream, &summary)), "nothing");
    }
}
