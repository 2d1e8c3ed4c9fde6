//! One message in lanes: time to the right, to scale; a bar for each stage, in the lane of where it happens.

use super::super::G;
use super::stages::HATCH;
use crate::svg::{Anchor, Drawing, Scale, Svg, round_step};
use crate::words;

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
/// Stages of less than this share have no label.
const LEAST: f64 = 0.004;

/// A stage.
pub struct Bar {
    /// Its lane, counted from the top; `None`: it is not drawn.
    pub lane: Option<usize>,
    /// On the bar, and when pointed at.
    pub name: String,
    pub title: String,
    pub ns: f64,
    /// Number of its colour in the style sheet.
    pub colour: usize,
    /// Waiting for a CPU is hatched: it can be told without colours.
    pub hatched: bool,
}

/// The drawing of one message.
pub struct Lanes<'a> {
    pub head: String,
    /// From top to bottom; whether it is shaded.
    pub names: Vec<(&'a str, bool)>,
    /// In the order of time, one after the other.
    pub bars: Vec<Bar>,
    pub total_ns: f64,
    /// What happens at the beginning, in the first lane, and at the end, in the last one: in short, and when pointed at.
    pub begins: (&'a str, &'a str),
    pub ends: (&'a str, &'a str),
    /// It is the first drawing of its page: it brings the pattern of what is hatched.
    pub hatch: bool,
    pub label: String,
}

impl Lanes<'_> {
    pub fn draw(&self) -> Svg {
        let height = TOP + LANE * self.names.len() as f64 + 30.0;
        let (right, bottom) = (WIDTH - RIGHT, height - 30.0);
        let mut drawing = Drawing::new(WIDTH, height);
        if self.hatch {
            drawing.raw(HATCH);
        }
        drawing.text("b", (0.0, 16.0), Anchor::Start, &self.head);
        let x = Scale::linear((0.0, self.total_ns), (LEFT, right));
        let step = round_step(self.total_ns / TICKS as f64);
        let mut ticks = 0;
        while ticks as f64 * step <= self.total_ns * 1.0001 && ticks <= 2 * TICKS {
            let at = x.at(ticks as f64 * step);
            drawing.line("grid", (at, TOP - 6.0), (at, bottom));
            drawing.text("m", (at, bottom + 18.0), Anchor::Middle, &super::tick_name(ticks as f64 * step));
            ticks += 1;
        }
        for (row, (name, shaded)) in self.names.iter().enumerate() {
            let y = TOP + LANE * row as f64;
            let class = if *shaded { "lane odd" } else { "lane" };
            drawing.rectangle(class, (0.0, y), (right, LANE), 1.0, "");
            drawing.text("m", (8.0, y + LANE / 2.0 + 4.0), Anchor::Start, name);
        }
        let mut from = 0.0;
        let span = |bar: &Bar| {
            let span = (x.at(from), x.at(from + bar.ns));
            from += bar.ns;
            span
        };
        let spans: Vec<(f64, f64)> = self.bars.iter().map(span).collect();
        let middle = |row: usize| TOP + LANE * row as f64 + LANE / 2.0;
        let (begin, end) = ((LEFT, middle(0)), (right, middle(self.names.len().saturating_sub(1))));
        drawing.dot("f0", begin, 4.0, self.begins.1);
        drawing.dot("f0", end, 4.0, self.ends.1);
        // Where bars stand in their place the dots have their notes only.
        let free = |row: usize, from: f64, to: f64| {
            let own = self.bars.iter().zip(&spans).filter(|(bar, _)| bar.lane == Some(row));
            own.map(|(_, span)| span).all(|span| span.1 <= from || to <= span.0)
        };
        if free(0, begin.0, begin.0 + 9.0 + wide(self.begins.0)) {
            drawing.text("small", (begin.0 + 9.0, begin.1 + 4.0), Anchor::Start, self.begins.0);
        }
        if free(self.names.len().saturating_sub(1), end.0 - 9.0 - wide(self.ends.0), end.0) {
            drawing.text("small", (end.0 - 9.0, end.1 + 4.0), Anchor::End, self.ends.0);
        }
        let mut before: Option<(f64, f64)> = Some(begin);
        for (bar, (start, end)) in self.bars.iter().zip(&spans) {
            let Some(row) = bar.lane else { continue };
            let y = TOP + LANE * row as f64 + (LANE - BAR) / 2.0;
            let long = (end - start).max(0.0);
            let middle = y + BAR / 2.0;
            // The step from one lane to the next.
            if let Some((x, from_y)) = before.filter(|(_, from_y)| (from_y - middle).abs() > 1.0) {
                drawing.line("axis", (x, from_y), (x, middle));
            }
            before = Some((*end, middle));
            let title = format!("{}: {}, {}", bar.title, G.time(bar.ns), words::percent(bar.ns / self.total_ns));
            let class = format!("stage st{}", bar.colour);
            drawing.rectangle(&class, (*start, y), (long.max(0.6), BAR), 1.0, &title);
            if bar.hatched && long > 2.0 {
                drawing.rectangle("hatched", (*start, y), (long, BAR), 1.0, "");
            }
        }
        if let Some((x, y)) = before {
            drawing.line("axis", (x, y), (x, end.1));
        }
        self.labels(&mut drawing, &spans);
        drawing.finish(&self.label)
    }

    /// A label on its bar where it fits, else behind it where its lane is free; what finds no room there stands together before
    /// the first bar of the lane, or behind the last.
    fn labels(&self, drawing: &mut Drawing, spans: &[(f64, f64)]) {
        let right = WIDTH - RIGHT;
        for row in 0..self.names.len() {
            let middle = TOP + LANE * row as f64 + LANE / 2.0 + 4.0;
            let own: Vec<usize> = (0..self.bars.len())
                .filter(|at| self.bars[*at].lane == Some(row) && self.bars[*at].ns >= LEAST * self.total_ns)
                .collect();
            let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
            let (begin, mut end_of_all) = (spans[*first].0, spans[*last].1);
            let mut left_over: Vec<String> = Vec::new();
            for (n, at) in own.iter().enumerate() {
                let (start, end) = spans[*at];
                let bar = &self.bars[*at];
                let text = format!("{} {}", bar.name, G.time(bar.ns));
                let until = own.get(n + 1).map_or(right, |next| spans[*next].0);
                if end - start > wide(&text) + 8.0 {
                    let class = format!("on on{}", bar.colour);
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
}

/// About how wide a label is, pixels.
pub fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_even() {
        let step = |span: f64| round_step(span / TICKS as f64);
        assert_eq!((step(24_000.0), step(1e6), step(790.0)), (5_000.0, 200_000.0, 100.0));
        assert_eq!(step(1.0), 0.2);
    }
}
