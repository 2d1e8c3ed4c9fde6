//! The classic trial table: a handful of messages per size, shown one by one, with their spread.
//!
//! Consecutive messages are not independent (docs/method/rounds.md#the-unit-of-evidence), so the test here answers only
//! the question the classic table raises, "is this column really slower than that one?", and for a comparison that must
//! hold, paths and sizes are compared by rounds instead.

use msgpath_core::plan::Case;
use msgpath_core::schema::MessageRow;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided level of [`Difference::differs`].
pub const LEVEL: f64 = 0.05;

/// The trials of one case and their spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Id of the case.
    pub case: u32,
    /// Bytes of a message.
    pub size: u64,
    /// The trials in the order they were made, ns; `None`: lost.
    pub trials_ns: Vec<Option<u64>>,
    /// Over the trials that arrived; `None`: none did.
    pub spread: Option<Spread>,
    /// Mean of the trials that arrived, the first trial aside: it finds caches and connection cold, ns.
    pub after_first_ns: Option<f64>,
}

/// Mean, median and spread of the trials that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Trials that arrived.
    pub arrived: u64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// Middle trial, or the mean of the two in the middle, ns.
    pub median_ns: f64,
    /// Standard deviation of the sample (divisor n - 1), ns; `None` with a single trial.
    pub deviation_ns: Option<f64>,
    /// Fastest, ns.
    pub min_ns: u64,
    /// Slowest, ns.
    pub max_ns: u64,
}

/// Two columns compared: Welch's t with the Welch-Satterthwaite degrees of freedom, and a permutation test, which asks
/// nothing of the shape of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Position of one column.
    pub first: usize,
    /// Position of the other.
    pub second: usize,
    /// `(mean of first - mean of second) / standard error`.
    pub t: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Share of the ways to deal the trials to the two columns whose means differ at least as much.
    pub permutation_p: f64,
}

impl Difference {
    /// Whether the means differ at [`LEVEL`], by both tests.
    pub fn differs(&self) -> bool {
        self.p < LEVEL && self.permutation_p < LEVEL
    }

    /// The verdict in words.
    pub fn verdict(&self) -> &'static str {
        if self.differs() { "differs" } else { "no difference shown" }
    }
}

/// A trial table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// One column per case, in the order of the cases.
    pub columns: Vec<Column>,
    /// One entry per pair of neighbouring columns with at least two trials each and any spread at all.
    pub differences: Vec<Difference>,
}

/// The trial table of `cases` from their messages. Within a case, trials are ordered by pass, connection and sequence.
pub fn trials(cases: &[Case], rows: &[MessageRow]) -> Trials {
    let columns: Vec<Column> = cases.iter().map(|case| column(case, rows)).collect();
    let differences = (1..columns.len()).filter_map(|second| difference(&columns, second - 1, second)).collect();
    Trials { columns, differences }
}

fn column(case: &Case, rows: &[MessageRow]) -> Column {
    let mut own: Vec<&MessageRow> = rows.iter().filter(|row| row.case == case.id).collect();
    own.sort_by_key(|row| (row.pass, row.connection, row.sequence));
    let trials_ns: Vec<Option<u64>> = own.iter().map(|row| row.latency_ns).collect();
    let arrived = |trials: &[Option<u64>]| spread(trials.iter().flatten().copied().collect());
    let after_first_ns = trials_ns.get(1..).and_then(arrived).map(|spread| spread.mean_ns);
    Column { case: case.id, size: case.size, spread: arrived(&trials_ns), after_first_ns, trials_ns }
}

fn spread(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let (&min_ns, &max_ns) = (values.first()?, values.last()?);
    let n = values.len();
    let mean_ns = values.iter().map(|value| *value as f64).sum::<f64>() / n as f64;
    let median_ns = (values[(n - 1) / 2] as f64 + values[n / 2] as f64) / 2.0;
    let squares: f64 = values.iter().map(|value| (*value as f64 - mean_ns).powi(2)).sum();
    let deviation_ns = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
    Some(Spread { arrived: n as u64, mean_ns, median_ns, deviation_ns, min_ns, max_ns })
}

/// Two columns compared; `None` where one has fewer than two trials that arrived, or neither has any spread.
///
/// # Panics
/// There is no such column.
pub fn difference(columns: &[Column], first: usize, second: usize) -> Option<Difference> {
    let (a, b) = (columns[first].spread?, columns[second].spread?);
    let of_mean = |s: &Spread| Some((s.deviation_ns?.powi(2) / s.arrived as f64, (s.arrived - 1) as f64));
    let ((va, ka), (vb, kb)) = (of_mean(&a)?, of_mean(&b)?);
    if va + vb <= 0.0 {
        return None;
    }
    let t = (a.mean_ns - b.mean_ns) / (va + vb).sqrt();
    let degrees = (va + vb).powi(2) / (va.powi(2) / ka + vb.powi(2) / kb);
    let p = 2.0 * StudentsT::new(0.0, 1.0, degrees).ok()?.cdf(-t.abs());
    let arrived = |at: usize| columns[at].trials_ns.iter().flatten().map(|ns| *ns as f64).collect::<Vec<f64>>();
    let permutation_p = permutation(&arrived(first), &arrived(second));
    Some(Difference { first, second, t, degrees, p, permutation_p })
}

/// Up to so many values all ways to deal them are tried.
const EXACT: usize = 20;
/// Random ways to deal more of them.
const DEALS: usize = 9_999;

/// Two-sided p-value of the difference of two means under exchange of the values: all ways to deal up to `EXACT` values,
/// else `DEALS` random ones of a fixed seed, with p = (1 + hits) / (1 + deals).
pub fn permutation(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (n, total) = (all.len(), all.iter().sum::<f64>());
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    // The sum of the first column decides the difference of the means.
    let expected = total * a.len() as f64 / n as f64;
    let observed = (a.iter().sum::<f64>() - expected).abs() - 1e-9 * total.abs();
    let extreme = |sum: f64| (sum - expected).abs() >= observed;
    if n <= EXACT {
        let (mut hits, mut deals) = (0_u64, 0_u64);
        let mut chosen = (1_u64 << a.len()) - 1;
        while chosen < 1 << n {
            let sum = all.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, value)| value).sum();
            (hits, deals) = (hits + u64::from(extreme(sum)), deals + 1);
            // The next larger number with as many bits set (Gosper).
            let lowest = chosen & chosen.wrapping_neg();
            let ripple = chosen + lowest;
            chosen = ripple | ((chosen ^ ripple) / lowest) >> 2;
        }
        return hits as f64 / deals as f64;
    }
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut dealt = all;
    let mut once = || {
        random.shuffle(&mut dealt);
        extreme(dealt[..a.len()].iter().sum())
    };
    (1 + (0..DEALS).filter(|_| once()).count()) as f64 / (1 + DEALS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::PathName;

    use msgpath_core::units::Pieces;
    use proptest::prelude::*;

    fn case(id: u32, size: u64) -> Case {
        Case { id, ..Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(size as u32)) }
    }

    fn rows(case: u32, values: &[u64]) -> Vec<MessageRow> {
        let row = |(at, value): (usize, &u64)| MessageRow {
            case,
            pass: 0,
            connection: 0,
            sequence: at as u64,
            start_ns: at as u64 * 1000,
            latency_ns: (*value > 0).then_some(*value),
            ..MessageRow::default()
        };
        values.iter().enumerate().map(row).collect()
    }

    #[test]
    fn ten_small_against_ten_large_messages_show_no_difference() {
        // Means 6.1 and 4.9, one outlier in the first column: the 'larger is faster' that a class once reported.
        let mut all = rows(0, &[5, 5, 6, 5, 5, 6, 12, 4, 5, 8]);
        all.extend(rows(1, &[4, 5, 5, 6, 4, 5, 7, 4, 4, 5]));
        let table = trials(&[case(0, 10), case(1, 1000)], &all);
        let first = table.columns[0].spread.unwrap();
        assert_eq!((first.mean_ns, first.median_ns, first.min_ns, first.max_ns), (6.1, 5.0, 4, 12));
        let verdict = table.differences[0];
        // By numeric integration elsewhere: variances 5.4333 and 0.9889, t 1.4974, 12.171 degrees, p 0.1598.
        assert!((verdict.t - 1.4974).abs() < 0.001, "{verdict:?}");
        assert!((verdict.degrees - 12.171).abs() < 0.01, "{verdict:?}");
        assert!((verdict.p - 0.1598).abs() < 0.001, "{verdict:?}");
        assert_eq!(verdict.verdict(), "no difference shown");
        // 184 756 ways to deal 20 values.
        assert!((0.1..0.3).contains(&verdict.permutation_p), "{verdict:?}");
    }

    #[test]
    fn deals_are_those_of_the_definition() {
        // 2 of the 20 ways to deal six values put the three smallest, or the three largest, into one column.
        assert_eq!(permutation(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1);
        assert_eq!(permutation(&[1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(permutation(&[], &[1.0]), 1.0);
        // Random deals agree with all of them.
        let column = |from: u64, n: u64| (0..n).map(|at| (from + at * at % 7) as f64).collect::<Vec<f64>>();
        let exact = permutation(&column(3, 10), &column(4, 10));
        let (wide, other) = (column(3, 11), column(4, 10));
        assert!((permutation(&wide, &other) - exact).abs() < 0.15, "{exact} {}", permutation(&wide, &other));
    }

    #[test]
    fn a_real_difference_is_told() {
        let mut all = rows(0, &[100, 101, 99, 100, 102]);
        all.extend(rows(1, &[200, 201, 198, 199, 202]));
        let table = trials(&[case(0, 10), case(1, 10_000)], &all);
        assert_eq!(table.differences[0].verdict(), "differs");
        assert!(table.differences[0].t < 0.0);
    }

    #[test]
    fn what_cannot_be_computed_is_left_out() {
        let mut all = rows(0, &[7]);
        all.extend(rows(1, &[0, 0]));
        let table = trials(&[case(0, 1), case(1, 2), case(2, 3)], &all);
        assert_eq!(table.columns[0].spread.unwrap().deviation_ns, None);
        assert_eq!(table.columns[1].trials_ns, [None, None]);
        assert_eq!((table.columns[1].spread, table.columns[2].spread), (None, None));
        assert!(table.differences.is_empty());
        // Two constant columns have no spread to judge by.
        let mut flat = rows(0, &[5, 5]);
        flat.extend(rows(1, &[6, 6]));
        assert!(trials(&[case(0, 1), case(1, 2)], &flat).differences.is_empty());
    }

    proptest! {
        #[test]
        fn spread_is_ordered(values in prop::collection::vec(1_u64..1 << 40, 1..50)) {
            let table = trials(&[case(0, 1)], &rows(0, &values));
            let spread = table.columns[0].spread.unwrap();
            prop_assert!(spread.min_ns as f64 <= spread.median_ns && spread.median_ns <= spread.max_ns as f64);
            prop_assert!(spread.min_ns as f64 <= spread.mean_ns * (1.0 + 1e-12) && spread.mean_ns <= spread.max_ns as f64 * (1.0 + 1e-12));
            prop_assert_eq!(spread.arrived as usize, values.len());
        }
    }
}
