//! Anatomy of one message: where it is at every moment, from the near program to the far one and back. A lane for each
//! place, time to scale; the request above, the reply below. Views from the usual message to the slowest.

use msgpath_analyse::attribution::CaseStages;
use msgpath_analyse::attribution::bands::Stage;
use msgpath_analyse::attribution::stage::{Direction, Kind};
use msgpath_analyse::stages::Band;

use super::super::G;
use super::stages::{HATCH, colour, hatched};
use super::{DataTable, Datum, Drawn, Figure, Picture, Scene};
use crate::svg::{Anchor, Drawing, Scale, Svg, round_step};
use crate::words;

pub(super) const FIGURE: Figure = Figure {
    name: "anatomy",
    question: "Where is a message at every moment?",
    how: "Time runs to the right, to scale; the message goes down from the near program to the far one and on to the near program again. A bar is a stage, a mean over whole messages of that slowness, so the bars add up to the time on top. Hatched: waiting for a CPU.",
    draw: picture,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 122.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const LANE: f64 = 34.0;
const BAR: f64 = 22.0;
/// Ticks of the time axis at most.
const TICKS: usize = 8;
/// Pixels of a letter, roughly.
const LETTER: f64 = 6.2;
/// Cases at most; the others have their rows in the table of stages.
const CASES: usize = 4;

/// The lanes from top to bottom.
const LANES: [&str; 9] = [
    "near program",
    "near kernel",
    "link",
    "far kernel",
    "far program",
    "far kernel",
    "link",
    "near kernel",
    "near program",
];
const FAR_PROGRAM: usize = 4;

/// Where a stage happens.
fn lane(stage: &Stage) -> usize {
    let request = match stage.kind {
        Kind::Waiting | Kind::SendCall => 0,
        Kind::Transmit | Kind::HeldBack => 1,
        Kind::Device => 2,
        Kind::Softirq | Kind::Signal | Kind::WakeCall | Kind::InFlight | Kind::Delay | Kind::Return => 3,
        Kind::Again | Kind::Deliver | Kind::Handler => FAR_PROGRAM,
    };
    match stage.direction {
        Some(Direction::Reply) => request + FAR_PROGRAM,
        _ => request,
    }
}

fn picture(scene: &Scene<'_>) -> Drawn {
    let traced = || {
        scene
            .summary
            .attribution
            .iter()
            .filter(|attributed| attributed.why.is_none() && bands(attributed).next().is_some())
    };
    if traced().next().is_none() {
        return Drawn::Nothing;
    }
    let (mut panels, mut views) = (Vec::new(), Vec::new());
    let mut data = DataTable::new(&[
        ("case", "case"),
        ("messages", "band"),
        ("way", "direction"),
        ("stage", "stage"),
        ("where", "lane"),
        ("mean", "mean_ns"),
        ("share", "share"),
    ]);
    let several = traced().nth(1).is_some();
    for attributed in traced().take(CASES) {
        let case = scene.summary.cases.iter().find(|case| case.case.id == attributed.case);
        let name = case.map_or_else(String::new, |case| format!("{}, {}", case.case.path, words::message(&case.case)));
        for band in bands(attributed) {
            let title = if several { format!("{name}: {}", band.name) } else { band.name.clone() };
            views.push((title, 1));
            panels.push(draw(attributed, band, panels.is_empty()));
            for (stage, ns) in attributed.stages.iter().zip(&band.parts_ns) {
                let share = if band.mean_ns > 0.0 { ns / band.mean_ns } else { 0.0 };
                data.row([
                    name.as_str().into(),
                    band.name.as_str().into(),
                    stage.direction.map_or("", Direction::name).into(),
                    stage.name.as_str().into(),
                    LANES[lane(stage)].into(),
                    Datum::ns(*ns),
                    Datum::Number(share, words::percent(share)),
                ]);
            }
        }
    }
    let known = traced().find_map(|attributed| attributed.known_by.as_deref()).unwrap_or("stamps");
    let mut note = format!("Known by {known}.");
    if traced().count() > CASES {
        note += &format!(" {} more cases are in the tables.", traced().count() - CASES);
    }
    Drawn::Picture(Picture { panels, views, data, note, ..Picture::default() })
}

/// From the usual message to the slowest.
fn bands(attributed: &CaseStages) -> impl Iterator<Item = &Band> {
    attributed.bands.iter().filter(|band| band.name != "all" && band.mean_ns > 0.0)
}

fn draw(attributed: &CaseStages, band: &Band, first: bool) -> Svg {
    // The lanes in which nothing of any message happens are left out: a pipe has no link.
    let happens = |at: &usize| attributed.stages.iter().any(|stage| lane(stage) == *at);
    let used: Vec<usize> = (0..LANES.len()).filter(|at| at % FAR_PROGRAM == 0 || happens(at)).collect();
    let height = TOP + LANE * used.len() as f64 + 30.0;
    let (right, bottom) = (WIDTH - RIGHT, height - 30.0);
    let mut drawing = Drawing::new(WIDTH, height);
    if first {
        drawing.raw(HATCH);
    }
    let rounds = words::counted(band.bursts, "round", G);
    let doubt = if band.claim { String::new() } else { format!(", from {rounds} only") };
    let head = format!(
        "{}: {} there and back, mean of {}{doubt}",
        band.name,
        G.time(band.mean_ns),
        words::counted(band.messages, "message", G)
    );
    drawing.text("b", (0.0, 16.0), Anchor::Start, &head);
    let x = Scale::linear((0.0, band.mean_ns), (LEFT, right));
    let step = round_step(band.mean_ns / TICKS as f64);
    let mut ticks = 0;
    while ticks as f64 * step <= band.mean_ns * 1.0001 && ticks <= 2 * TICKS {
        let at = x.at(ticks as f64 * step);
        drawing.line("grid", (at, TOP - 6.0), (at, bottom));
        drawing.text("m", (at, bottom + 18.0), Anchor::Middle, &super::tick_name(ticks as f64 * step));
        ticks += 1;
    }
    for (row, at) in used.iter().enumerate() {
        let y = TOP + LANE * row as f64;
        let class = if at % 2 == 0 { "lane" } else { "lane odd" };
        drawing.rectangle(class, (0.0, y), (right, LANE), 1.0, "");
        drawing.text("m", (8.0, y + LANE / 2.0 + 4.0), Anchor::Start, LANES[*at]);
    }
    // Where each lane's labels end, so that two do not lie over each other.
    let mut from = 0.0;
    let spans: Vec<(f64, f64)> = band
        .parts_ns
        .iter()
        .map(|ns| {
            let span = (x.at(from), x.at(from + ns));
            from += ns;
            span
        })
        .collect();
    let program = |row: usize| TOP + LANE * row as f64 + LANE / 2.0;
    let (begin, end) = ((LEFT, program(0)), (right, program(used.len() - 1)));
    drawing.dot("f0", begin, 4.0, "the send call of the near program");
    drawing.dot("f0", end, 4.0, "its receive call has returned");
    drawing.text("small", (begin.0 + 9.0, begin.1 + 4.0), Anchor::Start, "sends");
    drawing.text("small", (end.0 - 9.0, end.1 + 4.0), Anchor::End, "has the reply");
    let mut before: Option<(f64, f64)> = Some(begin);
    for ((stage, ns), (start, end)) in attributed.stages.iter().zip(&band.parts_ns).zip(&spans) {
        let Some(row) = used.iter().position(|at| *at == lane(stage)) else { continue };
        let (y, wide) = (TOP + LANE * row as f64 + (LANE - BAR) / 2.0, (end - start).max(0.0));
        let middle = y + BAR / 2.0;
        // The step from one lane to the next.
        if let Some((x, from_y)) = before.filter(|(_, from_y)| (from_y - middle).abs() > 1.0) {
            drawing.line("axis", (x, from_y), (x, middle));
        }
        before = Some((*end, middle));
        let share = words::percent(ns / band.mean_ns);
        let title = format!("{}: {}, {share}", stage.name, G.time(*ns));
        let title = stage.direction.map_or(title.clone(), |direction| format!("{}, {title}", direction.name()));
        let number = colour(stage.kind);
        drawing.rectangle(&format!("stage st{number}"), (*start, y), (wide.max(0.6), BAR), 1.0, &title);
        if hatched(stage.kind) && wide > 2.0 {
            drawing.rectangle("hatched", (*start, y), (wide, BAR), 1.0, "");
        }
    }
    if let Some((x, y)) = before {
        drawing.line("axis", (x, y), (x, end.1));
    }
    labels(&mut drawing, attributed, band, &used, &spans);
    drawing.finish(&format!("Where a message of {} is at every moment, {}", band.name, G.time(band.mean_ns)))
}

/// A label on its bar where it fits, else behind it where its lane is free; what finds no room there stands together before
/// the first bar of the lane, or behind the last.
fn labels(drawing: &mut Drawing, attributed: &CaseStages, band: &Band, used: &[usize], spans: &[(f64, f64)]) {
    let right = WIDTH - RIGHT;
    let wide = |text: &str| text.chars().count() as f64 * LETTER;
    for (row, at) in used.iter().enumerate() {
        let middle = TOP + LANE * row as f64 + LANE / 2.0 + 4.0;
        let own: Vec<usize> = (0..attributed.stages.len())
            .filter(|stage| lane(&attributed.stages[*stage]) == *at && band.parts_ns[*stage] >= 0.004 * band.mean_ns)
            .collect();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
        let (begin, mut end_of_all) = (spans[*first].0, spans[*last].1);
        let mut left_over: Vec<String> = Vec::new();
        for (n, stage) in own.iter().enumerate() {
            let (start, end) = spans[*stage];
            let text = format!("{} {}", attributed.stages[*stage].name, G.time(band.parts_ns[*stage]));
            let until = own.get(n + 1).map_or(right, |next| spans[*next].0);
            if end - start > wide(&text) + 8.0 {
                let class = format!("on on{}", colour(attributed.stages[*stage].kind));
                drawing.text(&class, ((start + end) / 2.0, middle), Anchor::Middle, &text);
            } else if end + 5.0 + wide(&text) <= until {
                drawing.text("small", (end + 5.0, middle), Anchor::Start, &text);
                end_of_all = end_of_all.max(end + 5.0 + wide(&text));
            } else {
                left_over.push(text);
            }
        }
        // As many of them as there is room for; all of them have a note and a row in the numbers.
        let room = (begin - 6.0 - LEFT).max(right - end_of_all - 8.0);
        while wide(&left_over.join(", ")) > room && !left_over.is_empty() {
            left_over.remove(0);
        }
        let text = left_over.join(", ");
        if text.is_empty() {
            continue;
        }
        if begin - 6.0 - wide(&text) >= LEFT {
            drawing.text("small", (begin - 6.0, middle), Anchor::End, &text);
        } else if end_of_all + 8.0 + wide(&text) <= right {
            drawing.text("small", (end_of_all + 8.0, middle), Anchor::Start, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::fixture;

    #[test]
    fn a_view_for_each_slowness_to_scale() {
        let (run, summary) = fixture::explained();
        let Drawn::Picture(picture) = picture(&Scene::new(&run, &summary)) else { panic!("a picture") };
        assert!(picture.views.len() >= 2 && picture.panels.len() == picture.views.len());
        insta::assert_snapshot!("anatomy", picture.panels[0].markup());
        let (run, summary) = fixture::echo();
        assert_eq!(drawn(&FIGURE, &Scene::new(&run, &summary)), "nothing");
    }

    #[test]
    fn the_way_back_mirrors_the_way_there() {
        let at = |kind, direction| lane(&Stage { kind, direction, name: String::new() });
        assert_eq!(LANES[at(Kind::Transmit, Some(Direction::Request))], "near kernel");
        assert_eq!(LANES[at(Kind::Transmit, Some(Direction::Reply))], "far kernel");
        assert_eq!(LANES[at(Kind::InFlight, Some(Direction::Request))], "far kernel");
        assert_eq!(LANES[at(Kind::InFlight, Some(Direction::Reply))], "near kernel");
        assert_eq!((at(Kind::Handler, None), at(Kind::Again, Some(Direction::Reply))), (FAR_PROGRAM, 8));
    }

    #[test]
    fn ticks_are_few_and_even() {
        let step = |span: f64| round_step(span / TICKS as f64);
        assert_eq!((step(24_000.0), step(1e6), step(790.0)), (5_000.0, 200_000.0, 100.0));
        assert_eq!(step(1.0), 0.2);
    }
}
