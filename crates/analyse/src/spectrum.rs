//! The whole range of percentiles of one case, each place with its interval, for the percentile spectrum.

use msgpath_core::SparseHistogram;
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Quantile, Range};

use crate::calm::rounds_of;
use crate::settled;
use crate::summary::CaseSummary;

/// Steps of the stretched axis.
const STEPS: u32 = 200;

#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// On the stretched axis: `-log10(1 - p)`.
    pub u: f64,
    /// The quantile there; at `u` = 0 the fastest message, which has no range.
    pub quantile: Quantile,
}

fn latency<'a>(rounds: &[&'a RoundRecord]) -> Vec<&'a SparseHistogram> {
    rounds.iter().map(|round| &round.latency).collect()
}

/// 201 places from 0 to `end` on the stretched axis, as far as the number of messages resolves them. Empty where no
/// message arrived, and where the rate was not sustained.
pub fn spectrum(run: &Run, case: &CaseSummary, end: f64) -> Vec<Place> {
    if case.is_overloaded() {
        return Vec::new();
    }
    let own = rounds_of(run, &case.case);
    let rounds = latency(&own);
    let pooled = Pooled::new(&rounds);
    let Some(fastest) = pooled.min() else { return Vec::new() };
    let resolved = (pooled.total() as f64).log10() + 1e-9;
    let all = (1..=STEPS).map(|step| end * f64::from(step) / f64::from(STEPS));
    let axis: Vec<f64> = all.take_while(|u| *u <= resolved).collect();
    let places: Vec<f64> = axis.iter().map(|u| 1.0 - 10_f64.powf(-u)).collect();
    let first = Quantile {
        ns: Some(fastest),
        beyond: pooled.total() - 1,
        bursts: rounds.len() as u64,
        range: Range::Few,
        ..Quantile::default()
    };
    let mut quantiles = quantile::curve(&rounds, &pooled, &places, case.open.is_some());
    let levels =
        settled::levels(&run.header.plan, &case.case, &own, case.steadiness.as_ref()).into_iter().map(|level| {
            let level = latency(&level);
            quantile::curve(&level, &Pooled::new(&level), &places, false)
        });
    quantile::widen(&mut quantiles, &levels.collect::<Vec<_>>());
    let axis = std::iter::once(0.0).chain(axis);
    axis.zip(std::iter::once(first).chain(quantiles)).map(|(u, quantile)| Place { u, quantile }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::{Build, ramp, relevel};

    #[test]
    fn the_spectrum_passes_through_the_quantiles_of_the_summary() {
        let run = Build::echo(&["tcp:send"], &[64]).spread(0.3).noise(0.05).run();
        let case = &summarise(&run).cases[0];
        let places = spectrum(&run, case, 5.0);
        // 8000 messages resolve no more than u = log10 8000 = 3.9.
        assert!(places.len() == 157 && places[0].quantile.ns == case.latency.fastest_ns, "{}", places.len());
        for (u, at) in [(1.0, 1), (2.0, 2), (3.0, 3)] {
            let place = places.iter().find(|place| (place.u - u).abs() < 1e-9).unwrap();
            let (found, known) = (&place.quantile, &case.latency.quantiles[at]);
            assert!((found.p - known.p).abs() < 1e-12);
            assert_eq!((found.ns, found.lo_ns, found.hi_ns), (known.ns, known.lo_ns, known.hi_ns));
            assert_eq!((found.range, found.lo_ns, found.hi_ns), (known.range, known.lo_ns, known.hi_ns));
        }
        assert!(places.windows(2).all(|pair| pair[0].quantile.ns <= pair[1].quantile.ns));
    }

    #[test]
    fn what_never_settled_spans_its_levels_everywhere() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        let case = &summarise(&run).cases[0];
        let places = spectrum(&run, case, 5.0);
        assert!(places.iter().all(|place| !place.quantile.is_interval()));
        let spans = |place: &Place| {
            let Quantile { ns, lo_ns, hi_ns, .. } = place.quantile;
            lo_ns.is_some() && lo_ns <= ns && ns <= hi_ns
        };
        assert!(places[1..].iter().filter(|place| place.quantile.p < 0.9).all(spans), "{places:?}");
        run.rounds.clear();
        assert!(spectrum(&run, case, 5.0).is_empty());
    }
}
