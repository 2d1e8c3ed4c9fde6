//! The one number of a run that a list has room for, from the summary that is kept beside it.

use msgpath_core::plan::{Case, CaseRole};
use msgpath_stats::quantile::Quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Throughput;

/// The best case of a run: what came through the fastest, or whose median is the shortest.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Headline {
    /// Path of the best case: `tcp:send`.
    pub path: String,
    /// The method of its calls, the engine of its messages; null: it is called by its path alone.
    pub label: Option<String>,
    /// Length of its messages, bytes.
    pub bytes: u64,
    /// Median time, ns; null: throughput was measured.
    pub p50_ns: Option<u64>,
    /// Bits a second that came through; null: times were measured.
    pub bits_per_s: Option<f64>,
    /// Measured cases that have such a number.
    pub cases: u64,
}

/// Of a stored summary.
#[derive(Deserialize)]
struct Stored {
    cases: Vec<StoredCase>,
}

#[derive(Deserialize)]
struct StoredCase {
    case: Case,
    quantiles: Vec<Quantile>,
    throughput: Option<Throughput>,
}

impl StoredCase {
    fn headline(self) -> Option<Headline> {
        let bits_per_s = self.throughput.map(|throughput| throughput.receiver_bits.value);
        let median = self.quantiles.iter().find(|quantile| quantile.p == 0.5).and_then(Quantile::observed);
        let p50_ns = median.filter(|_| bits_per_s.is_none());
        let Case { path, label, size: bytes, .. } = self.case;
        (p50_ns.is_some() || bits_per_s.is_some()).then(|| Headline {
            path: path.to_string(),
            label,
            bytes,
            p50_ns,
            bits_per_s,
            cases: 1,
        })
    }
}

/// The less, the better.
fn rank(headline: &Headline) -> f64 {
    headline.bits_per_s.map_or_else(|| headline.p50_ns.map_or(f64::INFINITY, |ns| ns as f64), |bits| -bits)
}

/// The headline of a stored summary; `None`: nothing was measured, or it cannot be read.
pub fn headline(stored: &[u8]) -> Option<Headline> {
    let stored: Stored = serde_json::from_slice(stored).ok()?;
    let measured = stored.cases.into_iter().filter(|case| case.case.role == CaseRole::Measured);
    let all: Vec<Headline> = measured.filter_map(StoredCase::headline).collect();
    let cases = all.len() as u64;
    let best = all.into_iter().min_by(|a, b| rank(a).total_cmp(&rank(b)))?;
    Some(Headline { cases, ..best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::{Build, relevel};

    #[test]
    fn the_shortest_median_is_the_headline() {
        let mut run = Build::echo(&["tcp:send", "unix:send"], &[64]).run();
        relevel(&mut run, |_| 20_000.0);
        let mut summary = summarise(&run);
        let fast = summary.cases.iter_mut().find(|case| case.case.path.transport == "unix").unwrap();
        fast.latency.quantiles.iter_mut().for_each(|quantile| quantile.ns = quantile.ns.map(|ns| ns / 2));
        let found = headline(&serde_json::to_vec(&summary).unwrap()).unwrap();
        assert_eq!((found.path.as_str(), found.bytes, found.cases), ("unix:send", 64, 2));
        assert!(found.p50_ns.unwrap().abs_diff(10_000) < 300 && found.bits_per_s.is_none(), "{found:?}");
    }

    #[test]
    fn what_is_no_summary_has_none() {
        assert_eq!(headline(b"{"), None);
        let mut summary = summarise(&Build::echo(&["tcp:send"], &[64]).run());
        summary.cases.clear();
        assert_eq!(headline(&serde_json::to_vec(&summary).unwrap()), None);
    }
}
