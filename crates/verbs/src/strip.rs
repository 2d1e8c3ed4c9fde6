//! The live strip: latency over time in five rows while an `echo` runs, newest column at the right.

use std::collections::BTreeMap;

use msgpath_core::units::{Glyphs, per_second};
use msgpath_core::{Histogram, SparseHistogram};

/// Rows of the strip.
const ROWS: usize = 5;
/// Columns at most.
const COLUMNS: usize = 44;
/// Characters of a time label.
const LABEL: usize = 7;
/// Characters of the numbers beside the strip.
const BESIDE: usize = 28;
/// Fine steps of time per factor of two; the rows are made of them.
const FINE: f64 = 8.0;
/// Fewer slower messages than this, and a quantile is not shown even as a first look.
const FEWEST_BEYOND: f64 = 10.0;

/// What one case has shown so far.
#[derive(Clone, Default)]
pub(crate) struct Strip {
    /// Messages of each round by fine step of time.
    rounds: Vec<BTreeMap<usize, u64>>,
    all: Histogram,
    /// Time inside rounds, ns.
    elapsed_ns: u64,
    lost: u64,
}

impl Strip {
    /// Adds a round that took `elapsed_ns`.
    pub(crate) fn add(&mut self, latency: &SparseHistogram, elapsed_ns: u64) {
        let mut steps = BTreeMap::new();
        for (from, to, count) in latency.ranges() {
            let middle = (from + (to - from) / 2).max(1) as f64;
            *steps.entry((middle.log2() * FINE) as usize).or_default() += count;
        }
        self.rounds.push(steps);
        self.all.merge_sparse(latency);
        self.elapsed_ns += elapsed_ns;
        self.lost += latency.lost();
    }

    /// The strip with its numbers, at most `width` characters wide; nothing before the first message, and none on a
    /// terminal too narrow for it.
    pub(crate) fn lines(&self, width: usize, glyphs: Glyphs) -> Vec<String> {
        let room = width.min(100).saturating_sub(LABEL + 2 + 2 + BESIDE);
        let keys = || self.rounds.iter().flat_map(BTreeMap::keys).copied();
        let (Some(low), Some(high)) = (keys().min(), keys().max()) else { return Vec::new() };
        if room < 8 {
            return Vec::new();
        }
        // As many rounds to a column as all of them need.
        let each = self.rounds.len().div_ceil(room.min(COLUMNS)).max(1);
        let columns: Vec<&[BTreeMap<usize, u64>]> = self.rounds.chunks(each).collect();
        let edge = |row: usize| low as f64 + (high + 1 - low) as f64 * row as f64 / ROWS as f64;
        let count = |column: &[BTreeMap<usize, u64>], row: usize| -> u64 {
            let inside = |step: usize| (edge(row)..edge(row + 1)).contains(&(step as f64));
            column.iter().flatten().filter(|(step, _)| inside(**step)).map(|(_, count)| count).sum()
        };
        let grid: Vec<Vec<u64>> =
            (0..ROWS).rev().map(|row| columns.iter().map(|column| count(column, row)).collect()).collect();
        let most = grid.iter().flatten().copied().max().unwrap_or(1);
        let (axis, shades) = if glyphs == Glyphs::Ascii { ('|', " .:=*#") } else { ('┤', " ·░▒▓█") };
        let shades: Vec<char> = shades.chars().collect();
        let beside = self.beside(glyphs);
        grid.iter()
            .zip((0..ROWS).rev())
            .zip(beside)
            .map(|((counts, row), beside)| {
                let label = short(glyphs.time((edge(row) / FINE).exp2()));
                let pad = " ".repeat(LABEL.saturating_sub(label.chars().count()));
                let cells: String = counts.iter().map(|count| shades[shade(*count, most, shades.len() - 1)]).collect();
                let fill = " ".repeat(room.min(COLUMNS) + 2 - columns.len());
                format!(" {pad}{label}{axis}{cells}{fill}{beside}").trim_end().to_owned()
            })
            .collect()
    }

    /// Numbers so far: a quick look, without intervals.
    fn beside(&self, glyphs: Glyphs) -> [String; ROWS] {
        let quantile = |p: f64| {
            let enough = self.all.total() as f64 * (1.0 - p) >= FEWEST_BEYOND;
            match self.all.quantile(p).filter(|_| enough) {
                Some(Some(ns)) => glyphs.time(ns as f64),
                Some(None) => "lost".into(),
                None => "too few yet".into(),
            }
        };
        let slowest = self.all.max().map_or_else(String::new, |ns| glyphs.time(ns as f64));
        let rate = self.all.total() as f64 * 1e9 / self.elapsed_ns.max(1) as f64;
        [
            format!("slowest  {slowest}"),
            format!("p99.9    {}", quantile(0.999)),
            format!("p99      {}", quantile(0.99)),
            format!("p50      {}", quantile(0.5)),
            format!("{}   lost {}", per_second(rate), self.lost),
        ]
    }
}

/// Log count as a shade: nothing for 0, the least for a single message.
fn shade(count: u64, most: u64, last: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let share = if most > 1 { (count as f64).ln() / (most as f64).ln() } else { 1.0 };
    1 + (share * (last - 1) as f64).round() as usize
}

/// `25 µs`: an edge of a row has no more digits than that.
fn short(text: String) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') && number.len() > 3 => {
            format!("{} {unit}", number[..3].trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(rounds: u64) -> Strip {
        let mut strip = Strip::default();
        for round in 0..rounds {
            let mut latency = Histogram::new();
            (0..1_000).for_each(|n| latency.record(20_000 + n * 3));
            if round % 7 == 3 {
                latency.record(4_100_000);
            }
            strip.add(&latency.to_sparse(), 25_000_000);
        }
        strip
    }

    #[test]
    fn a_single_slow_message_is_seen() {
        let lines = strip(20).lines(100, Glyphs::Unicode);
        assert_eq!(lines.len(), ROWS);
        assert!(lines[0].contains("┤   ·      ·      ·"), "{lines:#?}");
        assert!(lines[0].ends_with("slowest  4.10 ms"), "{lines:#?}");
        assert!(lines[4].contains("┤████████████████████ ") && lines[4].ends_with("40.0 k/s   lost 0"), "{lines:#?}");
        assert!(lines[1].ends_with("p99.9    23.0 µs") && lines[3].contains("p50      21.5 µs"), "{lines:#?}");
    }

    #[test]
    fn the_strip_fits_the_terminal() {
        for width in [60, 72, 80, 100, 300] {
            for rounds in [1, 40, 43, 500] {
                let lines = strip(rounds).lines(width, Glyphs::Ascii);
                assert_eq!(lines.len(), ROWS, "{width}");
                for line in lines {
                    assert!(line.is_ascii() && line.len() <= width.min(100), "{width}: {line}");
                }
            }
        }
        assert!(strip(3).lines(40, Glyphs::Unicode).is_empty());
        assert!(strip(0).lines(100, Glyphs::Unicode).is_empty());
    }

    #[test]
    fn few_messages_have_no_far_quantile() {
        let mut latency = Histogram::new();
        (0..100).for_each(|_| latency.record(9_000));
        latency.record_lost(50);
        let mut strip = Strip::default();
        strip.add(&latency.to_sparse(), 1_000_000);
        let text = strip.lines(100, Glyphs::Unicode).join("\n");
        assert!(
            text.contains("p99.9    too few yet") && text.contains("lost 50") && text.contains("p50      9"),
            "{text}"
        );
    }
}
