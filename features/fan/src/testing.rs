//! Runs of several clients whose truth is known.

use msgpath_analyse::testing::Build;
use msgpath_core::plan::EndPlace;
use msgpath_core::schema::{ClientRound, KeptQuantiles, Slots};
use msgpath_record::Run;

use crate::section::SECTION;

pub const MS: u64 = 1_000_000;
/// Length of a slot, and of a round in slots.
const SLOT: u64 = 5 * MS;
const SLOTS: u64 = 64;

/// Ten rounds of these clients.
#[derive(Clone)]
pub struct Bed {
    /// Bytes a second of each.
    pub rates: Vec<f64>,
    /// Median round trip of each, ns; empty: a stream.
    pub p50_ns: Vec<u64>,
    pub timeouts: Option<u64>,
    pub namespace: Option<u64>,
}

impl Bed {
    pub fn stream(rates: &[f64]) -> Self {
        Self { rates: rates.into(), p50_ns: Vec::new(), timeouts: Some(0), namespace: Some(0) }
    }

    pub fn echo(p50_ns: &[u64]) -> Self {
        let rates = p50_ns.iter().map(|ns| 64e9 / *ns as f64).collect();
        Self { rates, p50_ns: p50_ns.into(), timeouts: Some(0), namespace: Some(0) }
    }

    pub fn run(&self) -> Run {
        msgpath_analyse::section::add(&SECTION);
        let build = if self.p50_ns.is_empty() {
            Build::stream(&["tcp:send"], &[1024])
        } else {
            Build::echo(&["tcp:send"], &[64])
        };
        let mut run = build.rounds(10).run();
        run.header.plan.options.clients = vec![EndPlace::default(); self.rates.len()];
        for (pass, round) in run.rounds.iter_mut().enumerate() {
            round.clients = (0..self.rates.len()).map(|at| self.client(at, pass as u64)).collect();
        }
        run
    }

    /// Each begins 1 ms after the one before, and goes on for as long; what comes before and after counts less.
    fn client(&self, at: usize, pass: u64) -> ClientRound {
        let begin_ns = 1_000 * MS * (pass + 1) + at as u64 % 16 * MS;
        let mut slots = Slots::new(SLOT, begin_ns, (SLOTS / 10 * SLOT, SLOTS * SLOT));
        // A little more in odd rounds, so that there is a spread.
        let rate = self.rates[at] * if pass % 2 == 1 { 1.001 } else { 1.0 };
        for ms in 0..SLOTS * SLOT / MS {
            let warming = if ms < 20 { 0.3 } else { 1.0 };
            slots.add(begin_ns + ms * MS, (warming * rate / 1e3).round() as u64);
        }
        let latency = self.p50_ns.get(at).map_or_else(KeptQuantiles::default, |ns| KeptQuantiles {
            count: 1_000,
            quantiles_ns: vec![Some(*ns); 64],
            p50_ns: Some(*ns),
            p99_ns: Some(2 * ns),
        });
        ClientRound {
            slots,
            latency,
            timeouts: self.timeouts,
            namespace_timeouts: self.namespace,
            retransmitted: Some(0),
            connect_ns: 50_000,
            ..ClientRound::default()
        }
    }
}
