//! The page of imported texts of tracers: their sentences and tables, and threads in the course of time.

use std::fmt::Write;

use msgpath_present::answers::{self, Pictured};
use msgpath_present::html::figures::{HATCH, tick_name};
use msgpath_present::svg::{Anchor, Drawing, Scale, Svg, escape, round_step};
use msgpath_present::{counted, percent};

use super::{G, page};
use crate::analyse::{COLUMNS, Lane, Strip, TextSummary, TracersSummary};
use crate::parse::Tracer;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const LANE: f64 = 22.0;
/// Height of what is drawn in a lane.
const BAR: f64 = 17.0;
/// Characters of a thread's name that have room.
const NAME: usize = 26;
/// Ticks of the time axis.
const TICKS: f64 = 8.0;
/// Pixels of a letter, roughly.
const LETTER: f64 = 6.2;

/// The page as one HTML file that needs no network.
pub fn html(summary: &TracersSummary) -> String {
    let pictures: Vec<Pictured> = summary.texts.iter().enumerate().flat_map(of_text).collect();
    answers::html(&page(summary), &pictures)
}

fn of_text((number, text): (usize, &TextSummary)) -> Vec<Pictured> {
    let (question, how) = match text.tracer {
        Tracer::Timehist => (
            "When did threads run, and when did they wait for a CPU?",
            "A lane is a thread. Hatched: it was woken, and waited for a CPU; green: it ran; empty: it slept, or was preempted.",
        ),
        Tracer::Strace => (
            "When were threads in which calls?",
            "A lane is a thread, a colour a call; empty: the thread was in none that is drawn.",
        ),
    };
    let height = " Where several things share a column, their heights are their shares of its time.";
    let picture = |(at, strip): (usize, &Strip)| Pictured {
        name: format!("threads-{}-{}", number + 1, at + 1),
        title: match &strip.around {
            None => format!("{question} ({})", text.file),
            Some(what) => format!("What was around {what}?"),
        },
        how: format!("{how}{height}"),
        panels: vec![drawn(strip, text.tracer, (number, at) == (0, 0))],
    };
    text.strips.iter().enumerate().map(picture).collect()
}

/// Number of a kind's colour in the style sheet, and whether it is hatched.
fn look(tracer: Tracer, kind: usize) -> (usize, bool) {
    match (tracer, kind) {
        (Tracer::Timehist, 0) => (4, false),
        (Tracer::Timehist, _) => (3, true),
        (Tracer::Strace, _) => ([1, 3, 4, 5, 7, 2, 0][kind.min(6)], false),
    }
}

/// `hatch`: it is the first drawing of its page, and brings the pattern of what is hatched.
fn drawn(strip: &Strip, tracer: Tracer, hatch: bool) -> Svg {
    let bottom = TOP + LANE * strip.lanes.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 44.0);
    if hatch {
        drawing.raw(HATCH);
    }
    let right = WIDTH - RIGHT;
    legend(&mut drawing, strip, tracer);
    let length = (strip.to_ns - strip.from_ns).max(1) as f64;
    let x = Scale::linear((0.0, length), (LEFT, right));
    let step = round_step(length / TICKS);
    for tick in (0..=2 * TICKS as usize).map(|tick| tick as f64 * step).take_while(|tick| *tick <= length * 1.0001) {
        drawing.line("grid", (x.at(tick), TOP - 4.0), (x.at(tick), bottom));
        drawing.text("m", (x.at(tick), bottom + 16.0), Anchor::Middle, &tick_name(tick));
    }
    for (row, lane) in strip.lanes.iter().enumerate() {
        let y = TOP + LANE * row as f64;
        if row % 2 == 1 {
            drawing.rectangle("lane odd", (0.0, y), (right, LANE), 1.0, "");
        }
        let mut name: String = lane.name.chars().take(NAME).collect();
        if lane.name.chars().count() > NAME {
            name.pop();
            name.push('…');
        }
        drawing.text("small", (8.0, y + LANE / 2.0 + 4.0), Anchor::Start, &name);
        for (kind, name) in strip.kinds.iter().enumerate() {
            shapes(&mut drawing, lane, (kind, name.as_str()), look(tracer, kind), y);
        }
    }
    let mut below = match &strip.around {
        None => "since the first moment of the text".to_owned(),
        Some(_) => format!("since {} after the start", G.time(strip.from_ns as f64)),
    };
    if strip.left_out > 0 {
        let _ = write!(below, "; {} without a lane", counted(strip.left_out as u64, "thread"));
    }
    drawing.text("m", (right, bottom + 34.0), Anchor::End, &below);
    let what = strip.around.as_ref().map_or_else(|| "the whole text".to_owned(), |what| format!("around {what}"));
    drawing.finish(&format!("{} in the course of time, {what}", counted(strip.lanes.len() as u64, "thread")))
}

fn legend(drawing: &mut Drawing, strip: &Strip, tracer: Tracer) {
    let mut at = LEFT;
    for (kind, name) in strip.kinds.iter().enumerate() {
        let (colour, hatched) = look(tracer, kind);
        drawing.rectangle(&format!("stage st{colour}"), (at, 10.0), (14.0, 12.0), 1.0, "");
        if hatched {
            drawing.rectangle("hatched", (at, 10.0), (14.0, 12.0), 1.0, "");
        }
        let name: String = name.chars().take(NAME).collect();
        drawing.text("small", (at + 19.0, 20.0), Anchor::Start, &name);
        at += 36.0 + name.chars().count() as f64 * LETTER;
    }
}

/// All of a kind in a lane as one shape, which tells its sum when pointed at.
fn shapes(drawing: &mut Drawing, lane: &Lane, (kind, name): (usize, &str), (colour, hatched): (usize, bool), y: f64) {
    let column = (WIDTH - LEFT - RIGHT) / COLUMNS as f64;
    let bottom = y + (LANE + BAR) / 2.0;
    let mut path = String::new();
    for part in lane.parts.iter().filter(|part| part.kind == kind) {
        let (from, to) = (LEFT + column * part.from as f64, LEFT + column * part.to as f64);
        let (low, high) = (bottom - BAR * part.low, bottom - BAR * part.high);
        // Writing to a String cannot fail.
        let _ = write!(path, "M{from:.1} {low:.1}H{to:.1}V{high:.1}H{from:.1}Z");
    }
    if path.is_empty() {
        return;
    }
    let all: f64 = lane.sums_ns.iter().sum();
    let sum = lane.sums_ns[kind];
    let share = percent(if all > 0.0 { sum / all } else { 0.0 });
    let title = escape(&format!("{}, {name}: {}, {share} of what is drawn", lane.name, G.time(sum)));
    drawing.raw(&format!("<path class=\"st{colour}\" d=\"{path}\"><title>{title}</title></path>"));
    if hatched {
        drawing.raw(&format!("<path class=\"hatched\" d=\"{path}\"/>"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::tests::summary;

    #[test]
    fn the_page_has_lanes_and_answers() {
        let page = html(&summary());
        for part in [
            "When did threads run, and when did they wait for a CPU? (sched.txt)",
            "What was around the longest wait for a CPU, of planted[10]?",
            "When were threads in which calls? (trace.txt)",
            "woken, waiting for a CPU: 7.05 ms",
            "How long did threads wait for a CPU after they were woken?",
            "thread 8, clock_nanosleep: 1.00 ms",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("id=\"hatch\"").count(), 1);
    }

    #[test]
    fn what_others_named_stays_text() {
        let mut summary = summary();
        let hostile = "<script>alert(1)</script>";
        (summary.name, summary.texts[0].file) = (hostile.into(), hostile.into());
        summary.texts[0].strips[0].lanes[0].name = hostile.into();
        summary.texts[1].strips[0].kinds[0] = hostile.into();
        summary.texts[0].waits.as_mut().unwrap().worst[0].thread = hostile.into();
        assert!(!html(&summary).contains(hostile));
    }

    #[test]
    fn a_text_without_times_has_a_page_without_lanes() {
        let mut summary = summary();
        summary.texts.iter_mut().for_each(|text| text.strips.clear());
        assert!(html(&summary).contains("In which calls was the time?"));
    }
}
