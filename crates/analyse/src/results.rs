//! What was measured, and what it says about one case divided by another.

use msgpath_core::Case;
use msgpath_core::plan::{Metric, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::describe::percentile;
use msgpath_stats::paired::{Series, log_ratios, paired};
use msgpath_stats::quantile::Quantile;
use msgpath_stats::tails::{Pass, TAIL, Tail};
use msgpath_stats::verdict::Evidence;

use crate::series::{redraw_seed, seed};
use crate::summary::CaseSummary;

/// What was measured, case by case: positions are ids of cases.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    pub plan: &'a Plan,
    /// The numbers of each case: which quantiles are claims, which rates were sustained.
    pub cases: &'a [CaseSummary],
    /// The rounds of each case in the order of their passes.
    pub rounds: &'a [Vec<&'a RoundRecord>],
    /// The plan's metric of each case.
    pub series: &'a [Series],
}

impl<'a> Results<'a> {
    /// What `metric` says of `case` divided by `base`, in a family of `family` such ratios. `None` without a pass that
    /// both have, and of tails where one of the two p99 has no interval.
    pub(crate) fn evidence(
        &self,
        metric: Metric,
        case: &Case,
        base: &Case,
        family: usize,
    ) -> Option<Box<dyn Evidence>> {
        if metric == Metric::P99 {
            self.claimed_tail(case).and(self.claimed_tail(base))?;
            let (own, other) = (self.rounds.get(case.id as usize)?, self.rounds.get(base.id as usize)?);
            let passes = |rounds: &[&'a RoundRecord]| -> Vec<Pass<'a>> {
                rounds.iter().map(|round| (round.pass, &round.latency)).collect()
            };
            let seed = redraw_seed(self.plan, case);
            return Some(Box::new(Tail::new(&passes(own), &passes(other), TAIL, family, seed)?));
        }
        let d = log_ratios(self.series.get(case.id as usize)?, self.series.get(base.id as usize)?);
        let d: Vec<f64> = d.into_iter().map(|(_, d)| d).collect();
        Some(Box::new(paired(&d, family, seed(self.plan, case, base))?))
    }

    /// A typical value of the metric: the p50 that is printed of the case, its p99, or else the median of the rounds.
    pub(crate) fn typical(&self, case: &Case) -> Option<f64> {
        match self.plan.metric() {
            Metric::P99 => return Some(self.claimed_tail(case)?.ns? as f64),
            Metric::P50 => {
                let quantiles = &self.cases.get(case.id as usize)?.latency.quantiles;
                return Some(quantiles.iter().find(|quantile| quantile.p == 0.5)?.ns? as f64);
            }
            _ => {}
        }
        let mut values: Vec<f64> = self.series.get(case.id as usize)?.values().copied().collect();
        (!values.is_empty()).then(|| percentile(&mut values, 0.5))
    }

    fn claimed_tail(&self, case: &Case) -> Option<&Quantile> {
        let quantiles = &self.cases.get(case.id as usize)?.latency.quantiles;
        quantiles.iter().find(|quantile| quantile.p == TAIL && quantile.is_interval() && quantile.ns.is_some())
    }
}
