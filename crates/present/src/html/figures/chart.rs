//! Lines with intervals in a frame with two axes: what several figures share.

use msgpath_analyse::summary::CaseSummary;
use msgpath_core::units;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::Quantile;

use super::super::G;
use super::{HUES, SERIES, hue, short, tick_name};
use crate::svg::{Anchor, Drawing, Scale, Svg, label_positions, round_step, time_ticks};
use crate::words;

const LEFT: f64 = 76.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;

/// An axis: logarithmic, with its ticks.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it says.
    pub name: String,
    range: (f64, f64),
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Sizes of messages, bytes, one tick each.
    pub fn sizes(sizes: impl Iterator<Item = u64> + Clone) -> Self {
        let name = |size| (size as f64, units::size_short(size));
        Self::of("message size in bytes (log)", sizes.map(name))
    }

    /// Counts such as threads, one tick each.
    pub fn counts(name: &str, counts: impl Iterator<Item = u32> + Clone) -> Self {
        Self::of(name, counts.map(|count| (f64::from(count), count.to_string())))
    }

    fn of(name: &str, ticks: impl Iterator<Item = (f64, String)>) -> Self {
        let mut ticks: Vec<_> = ticks.collect();
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ticks.dedup_by(|a, b| a.0 == b.0);
        let range = range(ticks.iter().map(|tick| tick.0)).unwrap_or((1.0, 2.0));
        Self { name: name.into(), range: (range.0 * 0.93, range.1 * 1.07), ticks }
    }

    /// Values that are positive, with ticks at 1, 2 and 5 times the powers of ten.
    pub fn values(name: &str, (low, high): (f64, f64), print: impl Fn(f64) -> String) -> Self {
        let range = (low * 0.85, high * 1.18);
        Self { name: name.into(), range, ticks: decades(range, print) }
    }

    /// Times, ns.
    pub fn times(name: &str, range: (f64, f64)) -> Self {
        Self::values(name, range, tick_name)
    }

    /// Throughputs, bits per second.
    pub fn throughputs(name: &str, range: (f64, f64)) -> Self {
        Self::values(name, range, |bits| words::chosen(&words::throughput(bits, Default::default())))
    }

    /// Ratios, as changes from 1.
    pub fn ratios(name: &str, (low, high): (f64, f64)) -> Self {
        let range = (low.min(0.97) * 0.95, high.max(1.03) * 1.05);
        let wanted = [
            0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0,
        ];
        // The line at 1 first, then as many others as have room.
        let mut ticks: Vec<f64> = vec![1.0];
        for tick in wanted.into_iter().filter(|tick| (range.0..range.1).contains(tick)) {
            let gap = (range.1 / range.0).ln() / 14.0;
            if ticks.iter().all(|other| (tick / other).ln().abs() >= gap) {
                ticks.push(tick);
            }
        }
        let text = |ratio: f64| if ratio == 1.0 { "the same".into() } else { words::change(ratio) };
        Self { name: name.into(), range, ticks: ticks.into_iter().map(|tick| (tick, text(tick))).collect() }
    }

    fn scale(&self, pixels: (f64, f64)) -> Scale {
        Scale::log(self.range, pixels)
    }
}

/// Ticks of a time axis, ns.
pub fn times_between(low: f64, high: f64) -> Vec<(f64, String)> {
    decades((low, high), tick_name)
}

/// Ticks at 1, 2 and 5 times the powers of ten, also below 1; in even steps where that would be fewer than three.
fn decades((low, high): (f64, f64), print: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    // The ticks of times begin at 1.
    let lift = if low < 1.0 { 1e6 } else { 1.0 };
    let mut ticks: Vec<f64> = time_ticks(low * lift, high * lift).into_iter().map(|tick| tick / lift).collect();
    if ticks.len() < 4 {
        // Closer ones where the axis is short.
        let power = 10_f64.powf((low * lift).log10().floor());
        let close = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 70.0, 100.0];
        let inside = close.map(|factor| factor * power / lift).into_iter().filter(|tick| (low..=high).contains(tick));
        let more: Vec<f64> = inside.collect();
        if more.len() > ticks.len() && high / low < 80.0 {
            ticks = more;
        }
    }
    if ticks.len() < 3 {
        let step = round_step((high - low) / 4.0);
        ticks = ((low / step).ceil() as u64..=(high / step).floor() as u64).map(|at| at as f64 * step).collect();
    }
    ticks.into_iter().map(|tick| (tick, print(tick))).collect()
}

/// The positive range of values.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

/// A value with its interval, somewhere on the first axis.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Where it stands on the first axis.
    pub x: f64,
    pub y: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Drawn with a hole: not a claim, or not reached.
    pub hollow: bool,
    /// What it tells when pointed at.
    pub title: String,
}

impl Point {
    /// A quantile of a case; `None` where it is a lost message, or beyond what was observed.
    pub fn quantile(x: f64, quantile: &Quantile, name: &str) -> Option<Self> {
        let title = format!(
            "{name}, {}: {}, {}",
            words::quantile_name(quantile.p),
            words::quantile_value(quantile, G),
            words::quantile_range(quantile, G)
        );
        Some(Self {
            x,
            y: quantile.observed()? as f64,
            low: quantile.lo_ns.map(|ns| ns as f64),
            high: quantile.hi_ns.map(|ns| ns as f64),
            hollow: !quantile.is_interval(),
            title,
        })
    }

    pub fn estimate(x: f64, estimate: &Estimate, name: &str, print: impl Fn(f64) -> String) -> Self {
        let interval = words::estimate_interval(estimate, &print);
        Self {
            x,
            y: estimate.value,
            low: estimate.low,
            high: estimate.high,
            hollow: estimate.low.is_none() && estimate.high.is_none(),
            title: format!("{name}: {}, {interval}", print(estimate.value)),
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What stands at its end.
    pub label: String,
    /// From left to right.
    pub points: Vec<Point>,
    /// It has the colour of the line at this position, thin: the same in an earlier run.
    pub of: Option<usize>,
}

/// Adds the lines of an earlier run to those of the same label, as far as their points lie within `across`.
pub fn beside(lines: &mut Vec<Line>, earlier: impl IntoIterator<Item = Line>, across: (f64, f64)) {
    let later = lines.len();
    for mut line in earlier {
        line.of = lines[..later].iter().position(|known| known.label == line.label);
        line.label = format!("{}, earlier", line.label);
        line.points.retain(|point| (across.0..=across.1).contains(&point.x));
        lines.extend(line.of.is_some().then_some(line));
    }
}

/// The ends of all points on the first axis.
pub fn across(lines: &[Line]) -> (f64, f64) {
    let places = lines.iter().flat_map(|line| &line.points).map(|point| point.x);
    places.fold((f64::INFINITY, 0.0), |(low, high), x| (low.min(x), high.max(x)))
}

/// The range of all values, intervals included.
pub fn extent(lines: &[Line]) -> Option<(f64, f64)> {
    let points = lines.iter().flat_map(|line| &line.points);
    range(points.flat_map(|point| [Some(point.y), point.low, point.high]).flatten())
}

/// The frame with its axes, ready for lines and for what a figure adds.
pub struct Chart {
    /// For what is added.
    pub drawing: Drawing,
    /// The first axis.
    pub x: Scale,
    /// The second.
    pub y: Scale,
    size: (f64, f64),
    names: Vec<String>,
}

impl Chart {
    /// A frame of this size in pixels.
    pub fn new(size: (f64, f64), x: &Axis, y: &Axis) -> Self {
        let (width, height) = size;
        let mut drawing = Drawing::new(width, height);
        let (left, right, top, bottom) = (LEFT, width - RIGHT, TOP, height - BOTTOM);
        let (across, up) = (x.scale((left, right)), y.scale((bottom, top)));
        for (value, text) in &y.ticks {
            drawing.line("grid", (left, up.at(*value)), (right, up.at(*value)));
            drawing.text("m", (left - 7.0, up.at(*value) + 4.0), Anchor::End, text);
        }
        let mut free = f64::MIN;
        for (value, text) in &x.ticks {
            let at = across.at(*value);
            drawing.line("grid", (at, top), (at, bottom));
            if at > free {
                drawing.text("m", (at, bottom + 17.0), Anchor::Middle, text);
                free = at + 34.0;
            }
        }
        drawing.line("axis", (left, bottom), (right, bottom));
        drawing.text("m", (left, top - 10.0), Anchor::Start, &y.name);
        drawing.text("m", ((left + right) / 2.0, height - 6.0), Anchor::Middle, &x.name);
        Self { drawing, x: across, y: up, size, names: Vec::new() }
    }

    /// Left, right, top and bottom of the frame.
    pub fn frame(&self) -> (f64, f64, f64, f64) {
        (LEFT, self.size.0 - RIGHT, TOP, self.size.1 - BOTTOM)
    }

    /// Every line is a path: what is chosen in one figure is bold in all of these.
    pub fn paths(&mut self) {
        self.drawing.attribute("data-paths", "");
    }

    /// The lines with their intervals, each labelled where it ends. An interval that leaves the frame is cut there, with an
    /// arrow.
    pub fn lines(&mut self, lines: &[Line]) {
        let (_, right, top, bottom) = self.frame();
        // Each with the position that gives it its colour; those of an earlier run lie behind the others.
        let all = || lines.iter().enumerate().map(|(at, line)| (line.of.unwrap_or(at), line));
        let shown: Vec<(usize, &Line)> = all()
            .filter(|(_, line)| line.of.is_some())
            .chain(all().filter(|(_, line)| line.of.is_none()).take(SERIES))
            .collect();
        // Intervals at the same place lie beside each other.
        let step = (24.0 / shown.len().max(1) as f64).min(3.0);
        for (number, (position, line)) in shown.iter().enumerate() {
            let at = hue(*position);
            let more = match line.of {
                Some(_) => " was",
                None if *position >= HUES => " again",
                None => "",
            };
            let aside = (number as f64 - (shown.len() - 1) as f64 / 2.0) * step;
            let place = |point: &Point| (self.x.at(point.x) + aside, self.y.at(point.y));
            // Where an end is not a claim, the way there is dotted.
            for pair in line.points.windows(2) {
                let class = if pair.iter().any(|point| point.hollow) { "noclaim t" } else { "ln s" };
                self.drawing.path(&format!("{class}{at}{more}"), &[place(&pair[0]), place(&pair[1])]);
            }
            for point in &line.points {
                let (x, y) = place(point);
                if let (Some(low), Some(high)) = (point.low, point.high) {
                    let (low, high) = (self.y.at(low), self.y.at(high));
                    let class = format!("whisker t{at}{more}");
                    self.drawing.line(&class, (x, low.min(bottom)), (x, high.max(top)));
                    // Arrow heads where an end lies outside.
                    for (end, edge, tip) in [(low > bottom, bottom, -5.0), (high < top, top, 5.0)] {
                        if end {
                            self.drawing.line(&class, (x, edge), (x - 2.0, edge + tip));
                            self.drawing.line(&class, (x, edge), (x + 2.0, edge + tip));
                        }
                    }
                }
                let class = if point.hollow { format!("hollow t{at}") } else { format!("f{at}") };
                let radius = match (line.of, point.hollow) {
                    (Some(_), _) => 2.2,
                    (None, true) => 3.4,
                    (None, false) => 3.2,
                };
                self.drawing.dot(&class, (x, y), radius, &point.title);
            }
        }
        let ends: Vec<f64> =
            shown.iter().map(|(_, line)| line.points.last().map_or(bottom, |point| self.y.at(point.y))).collect();
        for ((position, line), place) in shown.iter().zip(label_positions(&ends, 15.0, (top, bottom))) {
            if !line.points.is_empty() {
                let class = if line.of.is_some() { "f" } else { "b name f" };
                self.drawing.text(
                    &format!("{class}{}", hue(*position)),
                    (right + 8.0, place + 4.0),
                    Anchor::Start,
                    &short(&line.label),
                );
            }
        }
        self.names.extend(shown.iter().map(|(_, line)| line.label.clone()));
    }

    /// The picture of these lines: `what` says what is shown of them.
    pub fn finish(self, what: &str) -> Svg {
        self.drawing.finish(&format!("{what}: {}", self.names.join(", ")))
    }
}

/// What a figure says where it shows some of the lines only.
pub(crate) fn and_more(all: usize) -> String {
    if all > SERIES { format!("{} more are in the numbers below.", all - SERIES) } else { String::new() }
}

/// The receiver's throughput of a stream, or the messages a second of an echo.
pub(crate) fn rate(case: &CaseSummary) -> Option<&Estimate> {
    case.throughput.as_ref().map(|throughput| &throughput.receiver_bits).or(case.rate_per_s.as_ref())
}

/// `20 Gbit/s`, `50 k/s`.
pub(crate) fn rate_text(case: &CaseSummary) -> fn(f64) -> String {
    if case.throughput.is_some() { |bits| words::throughput(bits, Default::default()) } else { words::per_second }
}
