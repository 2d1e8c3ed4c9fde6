//! From values to pixels.

/// A line between two values and two pixels, linear or logarithmic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// A linear scale: `from` lies at pixel `start`, `to` at pixel `end`.
    pub fn linear((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        Self { from, to, start, end, log: false }
    }

    /// A logarithmic scale. Values below the smallest positive number are drawn at the start.
    pub fn log((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        let ln = |value: f64| value.max(f64::MIN_POSITIVE).ln();
        Self { from: ln(from), to: ln(to), start, end, log: true }
    }

    /// The pixel of a value; the middle where the scale has no extent. Always finite.
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (value - self.from) / (self.to - self.from);
        self.start + (self.end - self.start) * if share.is_finite() { share } else { 0.5 }
    }
}

/// Ticks at 1, 2 and 5 times the powers of ten between two positive times in ns, at most thirteen: where there would
/// be more, only the powers of ten.
pub fn time_ticks(from_ns: f64, to_ns: f64) -> Vec<f64> {
    let inside = |factors: &[f64]| {
        let mut ticks = Vec::new();
        for power in 0..13 {
            ticks.extend(
                factors
                    .iter()
                    .map(|factor| factor * 10_f64.powi(power))
                    .filter(|tick| (from_ns..=to_ns).contains(tick)),
            );
        }
        ticks
    };
    let all = inside(&[1.0, 2.0, 5.0]);
    if all.len() <= 13 { all } else { inside(&[1.0]) }
}

/// The step of an axis with even ticks: the next 1, 2 or 5 times a power of ten from `rough` (> 0) on.
pub fn round_step(rough: f64) -> f64 {
    let unit = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= rough).unwrap_or(rough)
}

/// Where a percentile lies on the stretched axis: `u = -log10(1 - p)`, so 90, 99 and 99.9 are equally far apart.
pub fn stretch(p: f64) -> f64 {
    -(1.0 - p).max(1e-12).log10()
}

/// The percentile at a place of the stretched axis.
pub fn unstretch(u: f64) -> f64 {
    1.0 - 10_f64.powf(-u)
}

/// Positions for labels that want to be at `wanted` (pixels, in any order) and need `gap` between them, kept in the
/// order of the wishes, within `low..=high` as far as they fit.
pub fn label_positions(wanted: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = vec![0.0; wanted.len()];
    let mut next = low;
    for at in &order {
        places[*at] = wanted[*at].max(next);
        next = places[*at] + gap;
    }
    let mut limit = high;
    for at in order.iter().rev() {
        places[*at] = places[*at].min(limit);
        limit = places[*at] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hit_their_ends() {
        let linear = Scale::linear((0.0, 10.0), (100.0, 200.0));
        assert_eq!((linear.at(0.0), linear.at(5.0), linear.at(10.0)), (100.0, 150.0, 200.0));
        let log = Scale::log((1.0, 100.0), (0.0, 50.0));
        assert!((log.at(10.0) - 25.0).abs() < 1e-9 && (log.at(100.0) - 50.0).abs() < 1e-9);
        assert!(log.at(0.0).is_finite() && log.at(-1.0).is_finite());
        assert_eq!(Scale::linear((3.0, 3.0), (0.0, 10.0)).at(3.0), 5.0);
    }

    #[test]
    fn even_steps_are_one_two_five() {
        assert_eq!((round_step(3_000.0), round_step(125_000.0), round_step(98.75)), (5_000.0, 200_000.0, 100.0));
        assert_eq!((round_step(0.125), round_step(1.0)), (0.2, 1.0));
    }

    #[test]
    fn ticks_are_one_two_five() {
        assert_eq!(time_ticks(9_000.0, 120_000.0), [10_000.0, 20_000.0, 50_000.0, 100_000.0]);
        assert_eq!(time_ticks(900.0, 2e7), [1e3, 1e4, 1e5, 1e6, 1e7]);
    }

    #[test]
    fn percentiles_stretch_and_return() {
        assert!((stretch(0.999) - 3.0).abs() < 1e-9);
        assert!((unstretch(stretch(0.9)) - 0.9).abs() < 1e-12);
        assert_eq!(stretch(1.0), 12.0);
    }

    #[test]
    fn labels_do_not_overlap() {
        let places = label_positions(&[50.0, 52.0, 10.0, 99.0], 14.0, (0.0, 100.0));
        assert_eq!(places, [50.0, 64.0, 10.0, 99.0]);
        let crowded = label_positions(&[100.0, 100.0], 14.0, (0.0, 100.0));
        assert_eq!(crowded, [86.0, 100.0]);
    }
}
