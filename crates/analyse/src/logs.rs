//! What a run has beside its rounds, as far as somebody read it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use msgpath_core::schema::MessageRow;
use msgpath_record::{OfCase, RoundLog, Rows};

use crate::one_way::OneWay;
use crate::sample;

/// Rows of a record that are looked at one by one, at most.
pub const SAMPLED: usize = 1 << 16;

/// Rows of the logs of a run. Empty logs cost the sentences and tables that need them, nothing else.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Messages of an echo with a case of several threads, as many as the log kept of them.
    pub echoes: Pulled<MessageRow>,
    /// The messages of a run of few trials that are shown one by one (`--each`).
    pub trials: Vec<MessageRow>,
    /// The two ways of an echo's messages, where its ends have no common clock.
    pub one_way: Option<OneWay>,
    /// Logs of features ([`Logs::own`]).
    pub features: Own,
}

/// Logs of features, one of each type.
#[derive(Clone, Default)]
pub struct Own(Vec<Arc<dyn Any + Send + Sync>>);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} logs of features", self.0.len())
    }
}

impl Logs {
    /// The log of a feature; `None`: nobody read one.
    pub fn own<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.features.0.iter().find_map(|log| log.downcast_ref())
    }

    /// Adds the log of a feature.
    pub fn add<T: Any + Send + Sync>(&mut self, log: T) {
        self.features.0.push(Arc::new(log));
    }

    /// The same, for what is built in one expression.
    pub fn with<T: Any + Send + Sync>(mut self, log: T) -> Self {
        self.add(log);
        self
    }

    /// The log of a feature, to be changed.
    #[cfg(any(test, feature = "testing"))]
    pub fn own_mut<T: Any + Send + Sync>(&mut self) -> &mut T {
        let log = self.features.0.iter_mut().find_map(|log| Arc::get_mut(log)?.downcast_mut());
        log.expect("a log that nobody else has")
    }
}

/// Rows of a log, pulled round by round and as often as somebody asks.
#[derive(Clone, Debug)]
pub enum Pulled<T> {
    /// In memory.
    Here(Vec<T>),
    /// In a record, and the sample of them once somebody wanted it.
    Recorded(Arc<RoundLog<T>>, OnceLock<Vec<T>>),
}

impl<T> Default for Pulled<T> {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl<T> From<Vec<T>> for Pulled<T> {
    fn from(rows: Vec<T>) -> Self {
        Self::Here(rows)
    }
}

impl<T> From<RoundLog<T>> for Pulled<T> {
    fn from(log: RoundLog<T>) -> Self {
        Self::Recorded(Arc::new(log), OnceLock::new())
    }
}

impl<T: OfCase + Copy> Pulled<T> {
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Here(rows) => rows.is_empty(),
            Self::Recorded(log, _) => log.index().is_empty(),
        }
    }

    /// Rows for what looks at single ones, in the order of the log: all of them, or of a record at most [`SAMPLED`]. Cases
    /// with few rows keep theirs, the others share evenly what is left, and of their rows every n-th is taken.
    pub fn sample(&self) -> &[T] {
        match self {
            Self::Here(rows) => rows,
            Self::Recorded(log, sample) => sample.get_or_init(|| evenly(log.as_ref(), SAMPLED)),
        }
    }

    /// Those in memory, to be changed.
    #[cfg(any(test, feature = "testing"))]
    pub fn here(&mut self) -> &mut Vec<T> {
        match self {
            Self::Here(rows) => rows,
            Self::Recorded(..) => panic!("they are in a record"),
        }
    }
}

impl<T: OfCase + Copy> Rows<T> for Pulled<T> {
    fn index(&self) -> Vec<(u32, u32, usize)> {
        match self {
            Self::Here(rows) => Rows::<T>::index(rows),
            Self::Recorded(log, _) => log.index(),
        }
    }

    fn rounds(&self, wanted: &dyn Fn(u32, u32) -> bool, each: &mut dyn FnMut(&[T])) {
        match self {
            Self::Here(rows) => rows.rounds(wanted, each),
            Self::Recorded(log, _) => log.rounds(wanted, each),
        }
    }
}

/// At most `limit` rows, evenly from each case.
fn evenly<T: OfCase + Copy>(log: &dyn Rows<T>, limit: usize) -> Vec<T> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    log.index().into_iter().for_each(|(case, _, rows)| *counts.entry(case).or_default() += rows);
    let shares = sample::shares(&counts.values().copied().collect::<Vec<_>>(), limit);
    // Of each case its rows, those that are taken, and those that passed.
    let mut cases: BTreeMap<u32, (usize, usize, usize)> =
        counts.into_iter().zip(shares).map(|((case, count), share)| (case, (count, share, 0))).collect();
    let mut taken = Vec::with_capacity(cases.values().map(|(_, share, _)| share).sum());
    log.rounds(&|_, _| true, &mut |rows| {
        for row in rows {
            let Some((count, share, at)) = cases.get_mut(&row.place().0) else { continue };
            *at += 1;
            if *at * *share / *count > (*at - 1) * *share / *count {
                taken.push(*row);
            }
        }
    });
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_even_and_keeps_the_rows_of_rare_cases() {
        let row = |case, sequence| MessageRow { case, sequence, ..MessageRow::default() };
        let rows: Vec<MessageRow> = (0..1_000).map(|at| row(0, at)).chain((0..5).map(|at| row(1, at))).collect();
        let taken = evenly(&rows, 105);
        let of = |case| taken.iter().filter(|row| row.case == case).map(|row| row.sequence).collect::<Vec<_>>();
        assert_eq!((of(0).len(), of(1)), (100, vec![0, 1, 2, 3, 4]));
        assert!(of(0).windows(2).all(|pair| pair[1] - pair[0] == 10));
        assert_eq!(evenly(&rows, 5_000), rows);
    }
}
