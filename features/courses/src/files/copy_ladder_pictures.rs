//! The six pictures of the primitives lab. One whose data cannot be had is a frame with the reason.

use crate::answers::ladder::{self, End, Event, METHODS, Method, Row};
use crate::answers::{Part, part};
use msgpath_core::units::{self, Glyphs, three_digits};
use msgpath_stats::estimate::Estimate;

use msgpath_present::answers::Pictured;
use msgpath_present::html::figures::chart::{Axis, Chart, Line, Point, extent};
use msgpath_present::html::figures::tick_name;
use msgpath_present::svg::{self, Anchor, Drawing, Scale, Svg};

const PANEL: (f64, f64) = (540.0, 300.0);
/// The lines: as many as there are colours. The contiguous buffer is in the tables.
const SHOWN: usize = 4;

pub(super) fn draw(parts: &[Part<'_>]) -> Vec<Pictured> {
    let rows = part(parts, "grid").map(ladder::rows).unwrap_or_default();
    let sizes = ladder::sizes(&rows);
    let threads = ladder::threads(&rows);
    let crowded = rows.iter().find_map(Row::oversubscribed).map_or_else(String::new, |why| {
        let from = rows.iter().filter(|row| row.oversubscribed().is_some()).map(|row| row.case.case.threads).min();
        format!(" From {} threads on: {why}; that is queueing, not scaling.", from.unwrap_or_default())
    });
    let bars = "Bars are 95 % intervals over rounds; a hollow point has none.";
    let by_size = |threads: u32| by_size(&rows, threads, &format!("throughput, {} (log)", counted(threads)), bits);
    vec![
        pictured(
            "throughput-size",
            "1. Throughput against message size",
            format!("One panel for each thread count, both axes logarithmic. {bars}{crowded}"),
            threads.iter().map(|threads| by_size(*threads)).collect(),
        ),
        pictured(
            "latency-threads",
            "2. Latency against threads",
            format!("Median round trip, one panel for each size, both axes logarithmic. {bars}{crowded}"),
            sizes.iter().map(|size| by_threads(&rows, *size, "median round trip", p50)).collect(),
        ),
        pictured(
            "scaling-threads",
            "3. Throughput against threads",
            format!("All threads together, one panel for each size, both axes logarithmic. {bars}{crowded}"),
            sizes.iter().map(|size| by_threads(&rows, *size, "throughput", bits)).collect(),
        ),
        pictured(
            "bars",
            "4. A1, A2, A3 side by side",
            format!(
                "Throughput; bars begin at 0, and every panel has a scale of its own. Lines are 95 % intervals.{crowded}"
            ),
            sizes.iter().map(|size| bars_of(&rows, *size)).collect(),
        ),
        pictured(
            "cache-misses",
            "5. Cache misses against message size",
            format!("Misses per message of the far end, with the fewest and the most threads. {bars}"),
            misses(&rows, &threads),
        ),
        pictured(
            "cycles-per-byte",
            "6. Cycles per byte",
            format!("Cycles of one end by the payload of one direction, fewest threads. {bars}"),
            End::BOTH.iter().map(|end| cycles(&rows, *end, threads.first().copied().unwrap_or(1))).collect(),
        ),
    ]
}

/// Two panels a row; where there is none, a frame that says so.
fn pictured(name: &str, title: &str, how: String, panels: Vec<Svg>) -> Pictured {
    let panels = if panels.is_empty() { vec![frame(title, "the grid was not measured")] } else { panels };
    Pictured { name: name.into(), title: title.into(), how, panels: vec![svg::grid(&panels, 2)] }
}

fn counted(threads: u32) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

fn throughput(bits: f64) -> String {
    units::bits_per_second(bits, units::BitUnits::Si)
}

/// A value with its interval and how it is printed, or why there is none.
type Value = Result<(f64, Option<f64>, Option<f64>, String), String>;

fn of_estimate(estimate: Estimate, print: impl Fn(f64) -> String) -> Value {
    Ok((estimate.value, estimate.low, estimate.high, print(estimate.value)))
}

fn bits(row: &Row<'_>) -> Value {
    of_estimate(row.bits().ok_or("no rate")?, throughput)
}

fn p50(row: &Row<'_>) -> Value {
    let p50 = row.p50().ok_or("no median")?;
    Ok((p50.value, p50.low, p50.high, Glyphs::Unicode.time(p50.value)))
}

fn name_of(method: &Method) -> String {
    if method.name.starts_with('A') { format!("{} {}", method.name, method.method) } else { method.name.into() }
}

/// The lines of the methods over some of the rows, and the first reason for a value that is not there.
fn lines<'r, 'a: 'r>(
    rows: impl Iterator<Item = &'r Row<'a>> + Clone,
    x: impl Fn(&Row<'_>) -> f64,
    value: impl Fn(&Row<'_>) -> Value,
) -> (Vec<Line>, Option<String>) {
    let mut why = None;
    let mut line = |method: &Method| {
        let mut points = Vec::new();
        for row in rows.clone().filter(|row| row.method == *method) {
            match value(row) {
                Ok((y, low, high, text)) => {
                    let case = &row.case.case;
                    let name = format!("{}, {}, {}", name_of(method), units::size(case.size), counted(case.threads));
                    let hollow = low.is_none() && high.is_none();
                    points.push(Point { x: x(row), y, low, high, hollow, title: format!("{name}: {text}") });
                }
                Err(reason) => why = why.take().or(Some(reason)),
            }
        }
        Line { label: name_of(method), points, ..Line::default() }
    };
    (METHODS.iter().take(SHOWN).map(&mut line).collect(), why)
}

fn by_size(rows: &[Row<'_>], threads: u32, name: &str, value: impl Fn(&Row<'_>) -> Value) -> Svg {
    let own = rows.iter().filter(|row| row.case.case.threads == threads);
    let (lines, why) = lines(own.clone(), |row| row.case.case.size as f64, value);
    let Some(extent) = extent(&lines) else {
        return frame(name, &why.unwrap_or_else(|| "nothing was measured".into()));
    };
    let x = Axis::sizes(own.map(|row| row.case.case.size));
    let y = if name.starts_with("throughput") {
        Axis::throughputs(name, extent)
    } else {
        Axis::values(name, extent, three_digits)
    };
    let mut chart = Chart::new(PANEL, &x, &y);
    chart.lines(&lines);
    chart.finish(name)
}

fn by_threads(rows: &[Row<'_>], size: u64, what: &str, value: fn(&Row<'_>) -> Value) -> Svg {
    let own = rows.iter().filter(|row| row.case.case.size == size);
    let (lines, why) = lines(own.clone(), |row| f64::from(row.case.case.threads), value);
    let name = format!("{what}, {} (log)", units::size(size));
    let Some(extent) = extent(&lines) else { return frame(&name, &why.unwrap_or_default()) };
    let x = Axis::counts("threads (log)", own.map(|row| row.case.case.threads));
    let y = if what.starts_with("throughput") {
        Axis::throughputs(&name, extent)
    } else {
        Axis::values(&name, extent, tick_name)
    };
    let mut chart = Chart::new(PANEL, &x, &y);
    chart.lines(&lines);
    chart.finish(&name)
}

fn misses(rows: &[Row<'_>], threads: &[u32]) -> Vec<Svg> {
    let (Some(fewest), Some(most)) = (threads.first(), threads.last()) else { return Vec::new() };
    let counts = if fewest == most { vec![*fewest] } else { vec![*fewest, *most] };
    let panel = |event: Event, threads: u32| {
        let name = format!("{} a message, {} (log)", event.words(), counted(threads));
        by_size(rows, threads, &name, |row| of_estimate(row.event(End::Far, event)?, three_digits))
    };
    let of = |event: Event| counts.iter().map(move |threads| (event, *threads));
    of(Event::L1).chain(of(Event::LastLevel)).map(|(event, threads)| panel(event, threads)).collect()
}

fn cycles(rows: &[Row<'_>], end: End, threads: u32) -> Svg {
    let name = format!("cycles a byte, {} end, {} (log)", end.name(), counted(threads));
    by_size(rows, threads, &name, |row| of_estimate(row.cycles_per_byte(end)?, three_digits))
}

/// What stands where a picture would.
fn frame(name: &str, why: &str) -> Svg {
    let (width, height) = PANEL;
    let mut drawing = Drawing::new(width, height);
    drawing.rectangle("cell empty", (8.0, 20.0), (width - 16.0, height - 40.0), 1.0, "");
    drawing.text("b", (width / 2.0, height / 2.0 - 12.0), Anchor::Middle, name);
    for (at, line) in wrapped(&format!("n/a: {why}"), 72).iter().take(4).enumerate() {
        drawing.text("m", (width / 2.0, height / 2.0 + 10.0 + 17.0 * at as f64), Anchor::Middle, line);
    }
    drawing.finish(&format!("{name}: n/a: {why}"))
}

/// Lines of at most so many characters, where words allow it.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= most {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

const LEFT: f64 = 120.0;
const ROW: f64 = 16.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 40.0;

/// Bars of the three methods for each thread count.
fn bars_of(rows: &[Row<'_>], size: u64) -> Svg {
    let own: Vec<(&Row<'_>, Estimate)> = rows
        .iter()
        .filter(|row| row.case.case.size == size && row.method.name.starts_with('A'))
        .filter_map(|row| Some((row, row.bits()?)))
        .collect();
    let name = format!("throughput, {}", units::size(size));
    let most = own.iter().map(|(_, bits)| bits.high.unwrap_or(bits.value)).fold(0.0, f64::max);
    if most <= 0.0 {
        return frame(&name, "no rate");
    }
    let width = PANEL.0;
    let height = TOP + own.len() as f64 * ROW + 5.0 * 8.0 + 8.0;
    let mut drawing = Drawing::new(width, height);
    let scale = Scale::linear((0.0, most), (LEFT, width - RIGHT));
    drawing.text("b", (8.0, 20.0), Anchor::Start, &name);
    let mut y = TOP;
    let mut before = None;
    for (row, bits) in &own {
        let threads = row.case.case.threads;
        if before.replace(threads).is_some_and(|before| before != threads) {
            y += 8.0;
        }
        let at = METHODS.iter().position(|method| *method == row.method).unwrap_or(0);
        let label = format!("{} x{threads}", name_of(&row.method));
        drawing.text("small m", (LEFT - 6.0, y + 11.0), Anchor::End, &label);
        let text = throughput(bits.value);
        let end = scale.at(bits.value);
        drawing.rectangle(
            &format!("f{at}"),
            (LEFT, y + 1.0),
            (end - LEFT, ROW - 4.0),
            0.8,
            &format!("{label}: {text}"),
        );
        let mut right = end;
        if let Some((low, high)) = bits.low.zip(bits.high) {
            right = scale.at(high).max(end);
            let middle = y + ROW / 2.0 - 1.0;
            drawing.line("axis", (scale.at(low), middle), (scale.at(high), middle));
        }
        drawing.text("small", (right + 5.0, y + 11.0), Anchor::Start, &text);
        y += ROW;
    }
    drawing.finish(&format!("{name}: bars of A1, A2 and A3 for each thread count"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::copy_ladder::testing;

    #[test]
    fn six_pictures_and_reasons_where_nothing_was_counted() {
        testing::with_parts(|parts| {
            let pictures = draw(parts);
            assert_eq!(pictures.len(), 6);
            for picture in &pictures {
                let file = picture.file();
                assert!(!file.contains("NaN") && !file.contains("inf\""), "{}", picture.name);
                assert!(file.starts_with("<svg"), "{}", picture.name);
            }
            let names: Vec<&str> = pictures.iter().map(|picture| picture.name.as_str()).collect();
            assert_eq!(names[4..], ["cache-misses", "cycles-per-byte"]);
            for picture in &pictures[4..] {
                assert!(picture.file().contains("n/a: "), "{}", picture.name);
            }
            assert_eq!(pictures[0].file().matches("throughput, 1 thread (log)").count(), 2, "a name and a label");
            assert!(pictures[0].how.contains("oversubscribed: 4 measuring threads on 2 CPUs"), "{}", pictures[0].how);
        });
    }

    #[test]
    fn without_the_grid_there_are_frames() {
        let pictures = draw(&[]);
        assert_eq!(pictures.len(), 6);
        assert!(pictures.iter().all(|picture| picture.file().contains("the grid was not measured")
            || picture.file().contains("nothing was measured")));
    }
}
