//! When it was slow: messages by time and latency.
//!
//! A round is a block of time and its histogram has every message, so a column is a round, or several where there are
//! more rounds than columns. Where the per-message log kept every message of the case, rounds are cut into finer columns.

use msgpath_core::schema::RoundRecord;
use msgpath_core::{Histogram, SparseHistogram};
use msgpath_record::{Messages, Run};

/// Most columns.
pub const COLUMNS: usize = 300;
/// Rows, evenly spaced in the logarithm of time.
pub const ROWS: usize = 96;
/// A round is not cut finer than this many messages a column: a p99 rests on two of them then.
const FEWEST: u64 = 200;
/// Fewer messages in a column have no p99 to be drawn.
const FEWEST_FOR_P99: u64 = 100;

/// Messages by time and latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The columns, in the order of time.
    pub columns: Vec<Column>,
    /// Lower edge of the lowest row, ns.
    pub low_ns: f64,
    /// Upper edge of the highest row, ns.
    pub high_ns: f64,
    /// Columns of a whole round each are cut into this many; 1: whole rounds.
    pub cut: usize,
}

/// A block of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its start, ns since the start of the run.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The first of its rounds, as a position among the rounds of the case.
    pub round: usize,
    /// Messages of each row, the lowest first.
    pub counts: Vec<u64>,
    /// Messages that were lost.
    pub lost: u64,
    /// Median of the messages that arrived, ns.
    pub p50_ns: Option<u64>,
    /// Their p99, ns, where there are at least 100.
    pub p99_ns: Option<u64>,
}

impl Heat {
    /// Most messages in one cell.
    pub fn most(&self) -> u64 {
        self.columns.iter().flat_map(|column| &column.counts).copied().max().unwrap_or(0)
    }

    /// Lower edge of a row, ns; `ROWS` is the upper edge of the last.
    pub fn edge_ns(&self, row: usize) -> f64 {
        self.low_ns * (self.high_ns / self.low_ns).powf(row as f64 / ROWS as f64)
    }
}

/// The rounds of a case in the order of time.
pub(crate) fn by_time(run: &Run, case: u32) -> Vec<&RoundRecord> {
    let mut rounds: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case).collect();
    rounds.sort_by_key(|round| round.start_ns);
    rounds
}

/// How long a round lasted, ns.
fn lasted_ns(round: &RoundRecord) -> u64 {
    round.near().elapsed_ns.max(round.far().elapsed_ns).max(1)
}

/// The fastest and the slowest message of these cases, ns; `None` where no message was timed.
pub fn extent(run: &Run, cases: &[u32]) -> Option<(u64, u64)> {
    let rounds = || run.rounds.iter().filter(|round| cases.contains(&round.case));
    let fastest = rounds().filter_map(|round| round.latency.min()).min()?;
    Some((fastest, rounds().filter_map(|round| round.latency.max()).max()?))
}

/// The heat map of a case; `None` where no message was timed. `logged`: the per-message log, of all cases; may be empty.
/// `within`: from where to where its rows reach at least, so that several maps have one scale.
pub fn heat(run: &Run, case: u32, logged: &dyn Messages, within: Option<(u64, u64)>) -> Option<Heat> {
    let rounds = by_time(run, case);
    let own = extent(run, &[case])?;
    let within = within.unwrap_or(own);
    let fastest = own.0.min(within.0).max(1) as f64;
    let slowest = own.1.max(within.1).max(1) as f64;
    // At least a factor of 2 from bottom to top: below, rows would be finer than the bins of the histograms.
    let widen = (2.0 / (slowest / fastest)).max(1.0).sqrt() * 1.02;
    let rows = Rows { low_ns: fastest / widen, high_ns: slowest * widen };
    let total: u64 = rounds.iter().map(|round| round.latency.total()).sum();
    let cut = (COLUMNS / rounds.len()).min((total / (rounds.len() as u64 * FEWEST)) as usize).max(1);
    let fine = if cut > 1 { from_messages(&rounds, (case, total), logged, cut, &rows) } else { None };
    let cut = if fine.is_some() { cut } else { 1 };
    let columns = fine.unwrap_or_else(|| from_rounds(&rounds, &rows));
    Some(Heat { columns, low_ns: rows.low_ns, high_ns: rows.high_ns, cut })
}

struct Rows {
    low_ns: f64,
    high_ns: f64,
}

impl Rows {
    fn of(&self, ns: f64) -> usize {
        let share = (ns.max(1.0) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        ((share * ROWS as f64) as usize).min(ROWS - 1)
    }
}

fn from_rounds(rounds: &[&RoundRecord], rows: &Rows) -> Vec<Column> {
    let together = rounds.len().div_ceil(COLUMNS).max(1);
    let mut all = Histogram::new();
    let column = |(at, group): (usize, &[&RoundRecord])| {
        let mut counts = vec![0; ROWS];
        for (from, to, count) in group.iter().flat_map(|round| round.latency.ranges()) {
            counts[rows.of((from + (to - from) / 2) as f64)] += count;
        }
        let last = group[group.len() - 1];
        let (lost, p50_ns, p99_ns) = match group {
            [one] => quantiles(&one.latency),
            several => {
                all.clear();
                several.iter().for_each(|round| all.merge_sparse(&round.latency));
                quantiles(&all.to_sparse())
            }
        };
        Column {
            from_ns: group[0].start_ns,
            to_ns: last.start_ns + lasted_ns(last),
            round: at * together,
            counts,
            lost,
            p50_ns,
            p99_ns,
        }
    };
    rounds.chunks(together).enumerate().map(column).collect()
}

/// Lost messages, and the median and p99 of those that arrived.
fn quantiles(of: &SparseHistogram) -> (u64, Option<u64>, Option<u64>) {
    let arrived = of.total() - of.lost();
    // A quantile of those that arrived is a smaller one of all.
    let at = |p: f64| of.quantile(p * arrived as f64 / of.total().max(1) as f64).flatten();
    let p50 = if arrived > 0 { at(0.5) } else { None };
    (of.lost(), p50, if arrived >= FEWEST_FOR_P99 { at(0.99) } else { None })
}

/// Each round cut into this many columns; `None` where the log does not hold all `total` messages of the case.
fn from_messages(
    rounds: &[&RoundRecord],
    (case, total): (u32, u64),
    logged: &dyn Messages,
    cut: usize,
    rows: &Rows,
) -> Option<Vec<Column>> {
    let index = logged.index().into_iter().filter(|(own, ..)| *own == case);
    if index.map(|(.., count)| count as u64).sum::<u64>() != total {
        return None;
    }
    let position: std::collections::HashMap<u32, usize> =
        rounds.iter().enumerate().map(|(at, round)| (round.pass, at)).collect();
    let mut columns: Vec<Vec<Column>> = vec![Vec::new(); rounds.len()];
    let mut values: Vec<Vec<u64>> = vec![Vec::new(); cut];
    logged.rounds(&|own, _| own == case, &mut |messages| {
        let Some(round) = position.get(&messages[0].pass).copied() else { return };
        // From the first send to the last.
        let starts = || messages.iter().map(|row| row.start_ns);
        let (from, to) = (starts().min().unwrap_or(0), starts().max().unwrap_or(0) + 1);
        let edge = |slice: usize| from + (to - from) * slice as u64 / cut as u64;
        let blank = Column { from_ns: 0, to_ns: 0, round, counts: vec![0; ROWS], lost: 0, p50_ns: None, p99_ns: None };
        columns[round] =
            (0..cut).map(|slice| Column { from_ns: edge(slice), to_ns: edge(slice + 1), ..blank.clone() }).collect();
        values.iter_mut().for_each(Vec::clear);
        for row in messages {
            let slice = ((row.start_ns - from) as u128 * cut as u128 / (to - from) as u128) as usize;
            match row.latency_ns {
                Some(ns) => {
                    columns[round][slice].counts[rows.of(ns as f64)] += 1;
                    values[slice].push(ns);
                }
                None => columns[round][slice].lost += 1,
            }
        }
        for (column, values) in columns[round].iter_mut().zip(&mut values) {
            let n = values.len();
            let mut at = |p: f64| *values.select_nth_unstable(((p * n as f64).ceil() as usize).clamp(1, n) - 1).1;
            if n > 0 {
                column.p50_ns = Some(at(0.5));
            }
            if n as u64 >= FEWEST_FOR_P99 {
                column.p99_ns = Some(at(0.99));
            }
        }
    });
    Some(columns.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, stalls};
    use msgpath_core::schema::MessageRow;
    use msgpath_record::NO_MESSAGES;

    fn total(heat: &Heat) -> u64 {
        heat.columns.iter().map(|column| column.counts.iter().sum::<u64>() + column.lost).sum()
    }

    #[test]
    fn every_message_is_in_one_cell_and_a_stall_stands_out() {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        let slow = run.rounds.iter().position(|round| round.case == 1 && round.pass == 7).unwrap();
        stalls(&mut run.rounds[slow], 3, 5_000_000);
        let heat = heat(&run, 1, &NO_MESSAGES, None).unwrap();
        assert_eq!((heat.columns.len(), heat.cut, total(&heat)), (40, 1, 8_003));
        let top = heat.columns.iter().position(|column| column.counts[ROWS - 20..].iter().sum::<u64>() > 0).unwrap();
        assert_eq!((top, heat.columns[top].round), (7, 7));
        assert_eq!(heat.columns[top].from_ns, run.rounds[slow].start_ns);
        assert!(heat.columns[7].p99_ns > Some(1_000_000) && heat.columns[6].p99_ns < Some(40_000));
        assert!(heat.edge_ns(0) < 20_000.0 && heat.edge_ns(ROWS) > 5e6);
    }

    #[test]
    fn many_rounds_share_a_column() {
        let run = Build::echo(&["tcp:send"], &[64]).rounds(700).messages(20).run();
        let heat = heat(&run, 0, &NO_MESSAGES, None).unwrap();
        assert_eq!((heat.columns.len(), total(&heat)), (234, 14_000));
        assert!(heat.columns.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
        assert!(heat.columns.iter().all(|column| column.p99_ns.is_none() && column.p50_ns.is_some()));
    }

    /// The log of a run: every message of a round, evenly in time.
    fn log(run: &Run) -> Vec<MessageRow> {
        let mut rows = Vec::new();
        for round in &run.rounds {
            let values = round.latency.ranges().flat_map(|(from, _, count)| vec![Some(from); count as usize]);
            let values: Vec<_> = values.chain(vec![None; round.latency.lost() as usize]).collect();
            for (at, latency_ns) in values.iter().enumerate() {
                let start_ns = round.start_ns + 40_000_000 * at as u64 / values.len() as u64;
                rows.push(MessageRow {
                    case: round.case,
                    pass: round.pass,
                    start_ns,
                    latency_ns: *latency_ns,
                    ..MessageRow::default()
                });
            }
        }
        rows
    }

    #[test]
    fn a_whole_log_makes_the_columns_finer_and_a_part_of_one_does_not() {
        let mut run = Build::echo(&["tcp:send"], &[64]).messages(2_000).run();
        let mut lossy = Histogram::new();
        lossy.merge_sparse(&run.rounds[3].latency);
        lossy.record_lost(5);
        run.rounds[3].latency = lossy.to_sparse();
        let mut rows = log(&run);
        let fine = heat(&run, 0, &rows, None).unwrap();
        assert_eq!((fine.cut, fine.columns.len(), total(&fine)), (7, 280, 80_005));
        assert_eq!(fine.columns[3 * 7 + 6].lost, 5, "they are at the end of their round");
        // Latencies rise within each round here: the fine columns show it.
        assert!(fine.columns[0].p50_ns < fine.columns[6].p50_ns && fine.columns[7].p50_ns < fine.columns[6].p50_ns);
        rows.pop();
        assert_eq!(heat(&run, 0, &rows, None).unwrap().cut, 1);
    }

    #[test]
    fn nothing_but_lost_messages_has_no_heat() {
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(5).run();
        let mut lost = Histogram::new();
        lost.record_lost(9);
        run.rounds.iter_mut().for_each(|round| round.latency = lost.to_sparse());
        assert_eq!(heat(&run, 0, &NO_MESSAGES, None), None);
        // Where some arrived, the median is theirs.
        lost.record(1_000);
        run.rounds[0].latency = lost.to_sparse();
        let heat = heat(&run, 0, &NO_MESSAGES, None).unwrap();
        assert_eq!((heat.columns[0].p50_ns, heat.columns[0].lost, heat.columns[1].p50_ns), (Some(1_000), 9, None));
    }
}
