//! The classic trial table: a handful of messages per size, shown one by one, with their spread.
//!
//! Consecutive messages are not independent (docs/method/rounds.md#the-unit-of-evidence), so the test here answers only
//! the question the classic table raises, "is this column really slower than that one?", and for a comparison that must
//! hold, paths and sizes are compared by rounds instead.

use msgpath_core::plan::Case;
use msgpath_core::schema::MessageRow;
use msgpath_stats::two_samples::{LEVEL, Spread, Welch, permutation, spread, welch};
use serde::{Deserialize, Serialize};

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

/// Two columns compared; `None` where one has fewer than two trials that arrived, or neither has any spread.
///
/// # Panics
/// There is no such column.
pub fn difference(columns: &[Column], first: usize, second: usize) -> Option<Difference> {
    let (a, b) = (columns[first].spread?, columns[second].spread?);
    let Welch { t, degrees, p } = welch(&a, &b)?;
    let arrived = |at: usize| columns[at].trials_ns.iter().flatten().map(|ns| *ns as f64).collect::<Vec<f64>>();
    let permutation_p = permutation(&arrived(first), &arrived(second));
    Some(Difference { first, second, t, degrees, p, permutation_p })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::PathName;
    use msgpath_core::units::Pieces;

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
}
