//! Rounds that are built again from single messages.

use std::collections::BTreeMap;

use msgpath_core::schema::RoundRecord;
use msgpath_core::{Histogram, SparseHistogram};
use msgpath_record::{Messages, Run};

use super::check::Check;
use crate::summary::CaseSummary;

/// Width of a bin of the histogram, as a share of its value: the middle of the bin stands for all of it.
const BIN: f64 = 1.0 / 1024.0;

/// What a round's messages say of the numbers of its case.
pub(super) struct Tally {
    pub(super) pass: u32,
    pub(super) messages: u64,
    pub(super) arrived: u64,
    pub(super) sum_ns: u128,
    pub(super) fastest_ns: Option<u64>,
    pub(super) slowest_ns: Option<u64>,
    /// For each of [`quantiles`]: the messages that are as fast, or nearly; and those that are clearly faster.
    pub(super) up_to: Vec<[u64; 2]>,
}

/// The quantiles of a case that are compared with its messages: share, and value; a lost message is infinite.
pub(super) fn quantiles(case: &CaseSummary) -> Vec<(f64, u64)> {
    let compared = case.latency.quantiles.iter().filter(|quantile| [0.5, 0.99].contains(&quantile.p));
    compared.map(|quantile| (quantile.p, quantile.ns.unwrap_or(u64::MAX))).collect()
}

/// Rounds that are built again from single messages, and compared with what is stored of them.
pub struct Rebuilt<'r, 'c> {
    run: &'r Run,
    check: &'c mut Check,
    /// Quantiles of the summary, by case.
    cases: BTreeMap<u32, Vec<(f64, u64)>>,
    rounds: BTreeMap<(u32, u32), &'r RoundRecord>,
    /// Rounds that a log holds whole, by case.
    pub(super) whole: BTreeMap<u32, Vec<Tally>>,
    histogram: Histogram,
}

impl<'r, 'c> Rebuilt<'r, 'c> {
    pub(super) fn new(run: &'r Run, cases: &[CaseSummary], check: &'c mut Check) -> Self {
        Self {
            run,
            check,
            cases: cases.iter().map(|case| (case.case.id, quantiles(case))).collect(),
            rounds: run.rounds.iter().map(|round| ((round.case, round.pass), round)).collect(),
            whole: BTreeMap::new(),
            histogram: Histogram::new(),
        }
    }

    pub fn round(&self, case: u32, pass: u32) -> Option<&'r RoundRecord> {
        self.rounds.get(&(case, pass)).copied()
    }

    /// A number of a round must be what the log says.
    pub fn same<T: PartialEq + std::fmt::Debug>(&mut self, round: &RoundRecord, what: &str, stored: T, computed: T) {
        self.check.same(|| format!("case {}, pass {}: {what}", round.case, round.pass), stored, computed);
    }

    /// Two histograms of a round must be equal.
    fn same_histogram(&mut self, round: &RoundRecord, what: &str, stored: &SparseHistogram, built: &SparseHistogram) {
        self.same(round, what, outline(stored), outline(built));
    }

    /// The histogram of these latencies; `None`: lost.
    fn built(&mut self, latencies: impl Iterator<Item = Option<u64>>) -> SparseHistogram {
        self.histogram.clear();
        latencies.for_each(|latency| match latency {
            Some(ns) => self.histogram.record(ns),
            None => self.histogram.record_lost(1),
        });
        self.histogram.to_sparse()
    }

    /// A log holds all messages of a round: these are their latencies, ns; `None`: lost. `what` says so: `latencies against the
    /// messages`.
    pub fn latencies(&mut self, round: &RoundRecord, what: &str, latencies: impl Iterator<Item = Option<u64>> + Clone) {
        let built = self.built(latencies.clone());
        let slack = |ns: u64| if ns == u64::MAX { 0 } else { (ns as f64 * BIN) as u64 + 1 };
        let mut up_to = Vec::new();
        for (_, stored) in self.cases.get(&round.case).into_iter().flatten() {
            let counts = latencies.clone().fold([0, 0], |[near, faster], latency| {
                let ns = latency.unwrap_or(u64::MAX);
                let (low, high) = (ns.saturating_sub(slack(ns)), ns.saturating_add(slack(ns)));
                [near + u64::from(low <= *stored), faster + u64::from(high < *stored)]
            });
            up_to.push(counts);
        }
        self.whole.entry(round.case).or_default().push(Tally {
            pass: round.pass,
            messages: built.total(),
            arrived: built.total() - built.lost(),
            sum_ns: latencies.flatten().map(u128::from).sum(),
            fastest_ns: built.min(),
            slowest_ns: built.max(),
            up_to,
        });
        self.same_histogram(round, what, &round.latency, &built);
    }

    /// What the messages say of the rounds that their log holds whole.
    pub(super) fn messages(&mut self, messages: &dyn Messages) {
        // The first messages of what fans out are in the log, and in a histogram of their own.
        let plan = &self.run.header.plan;
        let first = if plan.workload.fans_out { plan.trim } else { 0 };
        messages.rounds(&|_, _| true, &mut |rows| {
            let Some(round) = self.round(rows[0].case, rows[0].pass) else { return };
            let rows = || rows.iter().filter(|row| row.sequence >= first);
            if (rows().count() as u64) < round.latency.total() {
                return;
            }
            self.latencies(round, "latencies against the messages", rows().map(|row| row.latency_ns));
            if round.one_way.total() > 0 {
                let built = self.built(rows().filter_map(|row| row.far_ns).map(Some));
                self.same_histogram(round, "one-way times against the messages", &round.one_way, &built);
            }
        });
    }
}

/// What two equal histograms share, short enough to be printed where they differ.
fn outline(histogram: &SparseHistogram) -> (u64, u64, Option<u64>, Option<u64>, u32) {
    let bins: Vec<u8> =
        histogram.ranges().flat_map(|(from, _, count)| [from, count]).flat_map(u64::to_le_bytes).collect();
    // FNV-1a of all bins.
    let hash = bins.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (histogram.total(), histogram.lost(), histogram.min(), histogram.max(), hash)
}
