//! The distribution as a small bar chart beside the percentile table: time in log bins, length by count.

use msgpath_core::units::Glyphs;
use msgpath_stats::shape::ShapeBin;

use super::page::{Paint, Span, Style, width};

/// Rows at most.
const ROWS: usize = 12;
/// Characters of the longest bar.
const BAR: usize = 20;
/// Characters before the bar.
const LABEL: usize = 8;

/// One line per bin, at most 12. Where there are more, neighbours are joined until the first 11 hold 95 % of the
/// messages, and the last line is everything above.
pub(crate) fn shape(bins: &[ShapeBin], style: Style) -> Vec<Vec<Span>> {
    let (rows, above) = fit(bins);
    let mut edges: Vec<String> = rows.iter().map(|bin| two_digits(bin.from_ns, style.glyphs)).collect();
    if edges.windows(2).any(|pair| pair[0] == pair[1]) {
        edges = rows.iter().map(|bin| style.glyphs.time(bin.from_ns as f64)).collect();
    }
    let tallest = rows.iter().map(|bin| bin.count).max().unwrap_or(0);
    let mut lines: Vec<Vec<Span>> = rows
        .iter()
        .zip(&edges)
        .map(|(bin, edge)| {
            let paint = if bin.count == tallest { Paint::Blue } else { Paint::Plain };
            vec![label(edge), paint.span(bar(bin.count, tallest, style.glyphs))]
        })
        .collect();
    if let Some(bin) = above {
        let messages = format!(" {} message{}", bin.count, if bin.count == 1 { "" } else { "s" });
        let from = label(&format!(">{}", two_digits(bin.from_ns, style.glyphs)));
        lines.push(vec![from, bar(bin.count, tallest, style.glyphs).into(), messages.into()]);
    }
    lines
}

fn label(text: &str) -> Span {
    format!("{}{text} ", " ".repeat(LABEL.saturating_sub(width(text)))).into()
}

fn fit(bins: &[ShapeBin]) -> (Vec<ShapeBin>, Option<ShapeBin>) {
    let mut rows = bins.to_vec();
    let total: u64 = rows.iter().map(|bin| bin.count).sum();
    while rows.len() > ROWS {
        let kept: u64 = rows[..ROWS - 1].iter().map(|bin| bin.count).sum();
        if kept as f64 >= 0.95 * total as f64 {
            // Empty bins before the rest say nothing that its edge does not say.
            let last = rows[..ROWS - 1].iter().rposition(|bin| bin.count > 0).unwrap_or(ROWS - 2);
            let above = rows.split_off(last + 1);
            let count = above.iter().map(|bin| bin.count).sum();
            let tail = ShapeBin { from_ns: above[0].from_ns, to_ns: above[above.len() - 1].to_ns, count };
            return (rows, Some(tail));
        }
        rows = rows
            .chunks(2)
            .map(|pair| ShapeBin {
                from_ns: pair[0].from_ns,
                to_ns: pair[pair.len() - 1].to_ns,
                count: pair.iter().map(|bin| bin.count).sum(),
            })
            .collect();
    }
    (rows, None)
}

/// A bin's edge: three digits are more than a bin of this width has.
fn two_digits(ns: u64, glyphs: Glyphs) -> String {
    let text = glyphs.time(ns as f64);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') && number.len() == 4 => {
            format!("{} {unit}", &number[..3].trim_end_matches('.'))
        }
        _ => text,
    }
}

fn bar(count: u64, tallest: u64, glyphs: Glyphs) -> String {
    if count == 0 || tallest == 0 {
        return String::new();
    }
    bar_of(count as f64 / tallest as f64, BAR, glyphs)
}

/// A bar of at most `cells` characters, and never of none.
pub fn bar_of(share: f64, cells: usize, glyphs: Glyphs) -> String {
    let eighths = ((share.clamp(0.0, 1.0) * (cells * 8) as f64).round() as usize).max(1);
    let (full, part) = (eighths / 8, eighths % 8);
    if glyphs == Glyphs::Ascii {
        return if full == 0 && part < 4 { ".".into() } else { "#".repeat(full + usize::from(part >= 4)) };
    }
    let mut out = "█".repeat(full);
    if part > 0 {
        out.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][part - 1]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(counts: &[u64]) -> Vec<ShapeBin> {
        counts
            .iter()
            .enumerate()
            .map(|(at, count)| ShapeBin { from_ns: 1000 << at, to_ns: 2000 << at, count: *count })
            .collect()
    }

    #[test]
    fn a_single_message_still_shows() {
        assert_eq!(bar(1, 1_000_000, Glyphs::Unicode), "▏");
        assert_eq!(bar(1, 1_000_000, Glyphs::Ascii), ".");
        assert_eq!(bar(0, 5, Glyphs::Unicode), "");
        assert_eq!(bar(5, 5, Glyphs::Ascii), "#".repeat(BAR));
    }

    #[test]
    fn narrow_bins_are_told_apart() {
        let bin = |from_ns| ShapeBin { from_ns, to_ns: from_ns + 200, count: 1 };
        let text = |bins: &[ShapeBin]| -> Vec<String> {
            shape(bins, Style::default()).iter().map(|line| line[0].text.trim().to_owned()).collect()
        };
        assert_eq!(text(&[bin(20_100), bin(20_300)]), ["20.1 µs", "20.3 µs"]);
        assert_eq!(text(&[bin(20_100), bin(23_000)]), ["20 µs", "23 µs"]);
    }

    #[test]
    fn no_message_is_lost_by_fitting() {
        let many = bins(&[5; 30]);
        let (rows, above) = fit(&many);
        assert!(rows.len() + usize::from(above.is_some()) <= ROWS);
        assert_eq!(rows.iter().chain(&above).map(|bin| bin.count).sum::<u64>(), 150);
        let mut tail = bins(&[1000; 11]);
        tail.extend(bins(&[1; 9]));
        let (rows, above) = fit(&tail);
        assert_eq!((rows.len(), above.unwrap().count), (11, 9));
    }
}
