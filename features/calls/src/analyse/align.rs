//! Clocks of a client and a server machine, from the calls between them.

use super::PairClock;
use crate::record::{RpcPair, RpcRow};
use msgpath_analyse::clocks::{self, Envelope, Stamps, words};

/// Exchanges that are kept of all pairs together.
const KEPT: usize = 1 << 20;
/// Exchanges that are kept of a pair at least.
const LEAST: usize = 1 << 10;

/// The calls of a pair, as far as they say how its two clocks stand to each other.
pub(crate) struct Pair<'a> {
    pair: &'a RpcPair,
    allow: i64,
    envelope: Envelope,
    disordered: u64,
}

impl<'a> Pair<'a> {
    /// No call yet. `of`: pairs there are; `step_ns`: the smallest steps of both clocks added.
    pub(crate) fn new(pair: &'a RpcPair, of: usize, step_ns: u64) -> Self {
        let allow = clocks::allowance(step_ns);
        let most = (KEPT / of.max(1)).clamp(LEAST, clocks::KEPT);
        Self { pair, allow, envelope: Envelope::new(allow, most), disordered: 0 }
    }

    /// Takes a call.
    pub(crate) fn add(&mut self, row: &RpcRow) {
        self.disordered += u64::from(in_order(row, self.allow) == Some(false));
        if self.pair.same_machine.is_none() {
            self.envelope.add(stamps(row));
        }
    }

    /// How the clocks stand to each other. `position`: that of the pair.
    pub(crate) fn finish(self, position: u32) -> PairClock {
        let clock = PairClock { pair: position, same: self.pair.same_machine.is_some(), ..PairClock::default() };
        if let Some(why) = &self.pair.same_machine {
            let contradicting = self.disordered;
            return PairClock { text: words::same(why, contradicting), contradicting, ..clock };
        }
        let found = self.envelope.align("call");
        let contradicting = found.contradicting.unwrap_or(self.disordered);
        PairClock { pieces: found.pieces, text: found.text, contradicting, ..clock }
    }
}

/// Without stamps of both ends a call says nothing; nothing is filled in.
fn stamps(row: &RpcRow) -> Option<Stamps> {
    let (received_ns, replied_ns) = (row.received_ns?, row.replied_ns?);
    Some(Stamps { start_ns: row.start_ns, latency_ns: row.latency_ns?, received_ns, replied_ns })
}

/// Whether the stamps of a call are in the order of time as they were read, up to the resolution; `None`: not all known.
fn in_order(row: &RpcRow, allow: i64) -> Option<bool> {
    let (received, replied, latency) = (row.received_ns?, row.replied_ns?, i64::try_from(row.latency_ns?).ok()?);
    Some(received >= -allow && replied <= latency.saturating_add(allow))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyse::RpcStage;
    use crate::testing::{Calls, MS, S, US};

    #[test]
    fn pings_with_a_shifted_clock_that_drifts() {
        // The server is 3 ms behind and drifts.
        let calls = Calls::new(1, 3.0 * MS, -50e-6).pings(120, 2.0 * S);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        let piece = clock.pieces[0];
        let fastest = calls.rows.iter().filter_map(|row| row.latency_ns).min().unwrap() as f64;
        assert!(piece.within_ns < fastest, "{clock:?} {fastest}");
        assert!(piece.drift_least <= -50e-6 && -50e-6 <= piece.drift_most, "{piece:?}");
        assert!(clock.text.starts_with("offset +2948 µs, within ±179 µs; drift"), "{}", clock.text);
        assert!(clock.text.contains("what is not known"), "{}", clock.text);
    }

    #[test]
    fn the_bound_is_narrower_than_the_smallest_round_trip_where_the_data_allow_it() {
        // The fastest request and the fastest reply are of different calls, so no call is as fast as both together. A thousand
        // pairs of clocks, each known at the time of each call.
        let mut narrower = 0;
        for seed in 0..1_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let spread = 60.0 * US;
            let (offset, drift) = ((random.f64() - 0.5) * 20.0 * MS, (random.f64() - 0.5) * 200e-6);
            let mut calls = Calls::with(seed, 1, move |t| offset + drift * t);
            for _ in 0..60 {
                let (there, back) = (calls.delay(20.0 * US, spread), calls.delay(20.0 * US, spread));
                calls.call(5.0 * MS, there, 4.0 * US, back);
            }
            let clock = calls.clock();
            calls.assert_covered(&clock);
            let piece = &clock.pieces[0];
            let trips = calls
                .rows
                .iter()
                .map(|row| row.latency_ns.unwrap() as i64 + row.received_ns.unwrap() - row.replied_ns.unwrap());
            let (_, narrowest) = piece.narrowest.unwrap();
            narrower += u32::from(2.0 * narrowest < trips.min().unwrap() as f64);
            for row in &calls.rows {
                let (received, _, within) = clock.aligned(row).unwrap();
                let truth = row.received_ns.unwrap() as f64 + (offset + drift * row.start_ns as f64);
                assert!((received - truth).abs() <= within, "{seed}: {row:?} in {piece:?}");
            }
        }
        assert!(narrower > 900, "{narrower} of 1000");
    }

    #[test]
    fn large_writes_claim_no_drift() {
        // A server that is 3 ms behind and drifts, and one whose clock agrees.
        for (offset, drift) in [(3.0 * MS, -50e-6), (0.0, 0.0)] {
            let calls = Calls::new(2, offset, drift).writes(10);
            let clock = calls.clock();
            calls.assert_covered(&clock);
            let piece = clock.pieces[0];
            assert!(!piece.drift_known && piece.drift == 0.0, "{piece:?}");
            assert!(clock.text.contains("drift not determined"), "{}", clock.text);
            assert!(piece.within_ns > 4.0 * MS && piece.within_ns < 6.0 * MS);
            // Neither leg can be drawn.
            let band = &calls.rpc().kinds[0].bands[0];
            assert!(band.parts.iter().any(|part| part.stage == RpcStage::BothPaths), "{band:?}");
            assert!(!band.parts.iter().any(|part| part.stage == RpcStage::RequestPath), "{band:?}");
        }
    }

    #[test]
    fn one_machine_is_left_alone() {
        // Test 4.
        let calls = Calls::new(3, 0.0, 0.0).same_machine().writes(10);
        let clock = calls.clock();
        assert!(clock.same && clock.pieces.is_empty() && clock.contradicting == 0);
        assert!(clock.text.starts_with("same machine (both addresses are the same): one clock"), "{}", clock.text);
        for row in &calls.rows {
            let read = (row.received_ns.unwrap() as f64, row.replied_ns.unwrap() as f64, 0.0);
            assert_eq!(clock.aligned(row), Some(read));
        }
    }

    #[test]
    fn one_call_gives_an_interval() {
        // Test 5: T1 - T2 and T4 - T3 are 2880 and 3110 µs.
        let mut calls = Calls::new(4, 3.0 * MS, 0.0);
        calls.call(0.0, 120.0 * US, 4.0 * US, 110.0 * US);
        let clock = calls.clock();
        let piece = clock.pieces[0];
        let (low, high) = (piece.offset_ns - piece.within_ns, piece.offset_ns + piece.within_ns);
        assert!((low - 2_878.0 * US).abs() < 0.2 * US && (high - 3_112.0 * US).abs() < 0.2 * US, "{piece:?}");
        assert!(!piece.drift_known && piece.drift == 0.0);
        assert!(clock.text.contains("one call gives an interval and no drift"), "{}", clock.text);
        let (received, replied, _) = clock.aligned(&calls.rows[0]).unwrap();
        assert!((replied - received - 4.0 * US).abs() < 1e-6);
    }

    #[test]
    fn nothing_is_invented_where_stamps_are_missing() {
        // Test 6: records without a reply, or without the server's stamps, say nothing of the clocks.
        let mut calls = Calls::new(5, -MS, 0.0).pings(20, S);
        let before = calls.clock();
        for _ in 0..3 {
            calls.call(MS, 10.0, 10.0, 10.0).latency_ns = None;
            calls.call(MS, 10.0, 10.0, 10.0).received_ns = None;
        }
        assert_eq!(calls.clock(), before);
        calls.rows.drain(..20);
        let clock = calls.clock();
        assert!(clock.pieces.is_empty() && clock.text.contains("none of 6 calls"), "{}", clock.text);
        assert_eq!(clock.aligned(&calls.rows[0]), None);
    }

    #[test]
    fn a_step_is_found() {
        // Test 7: 10 ms half way.
        let calls = Calls::with(6, 1_000, |t| if t < S { 3.0 * MS } else { -7.0 * MS }).pings(120, 2.0 * S);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        assert_eq!((clock.pieces.len(), clock.contradicting), (2, 0), "{clock:?}");
        assert!((clock.pieces[1].from_ns as f64 - S).abs() < 40.0 * MS, "{clock:?}");
        let (step, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
        assert!((step + 10.0 * MS).abs() < within && within < MS, "{step} {within}");
        assert!(clock.text.contains("stepped by −10"), "{}", clock.text);
    }

    #[test]
    fn a_stray_call_is_no_step() {
        let mut calls = Calls::new(7, 3.0 * MS, 20e-6).pings(120, 2.0 * S);
        let row = &mut calls.rows[60];
        row.received_ns = row.received_ns.map(|ns| ns + 40_000_000);
        row.replied_ns = row.replied_ns.map(|ns| ns + 40_000_000);
        let clock = calls.clock();
        calls.assert_covered(&clock);
        assert_eq!((clock.pieces.len(), clock.contradicting), (1, 1), "{clock:?}");
        assert!(clock.text.contains("the stamps of 1 call contradict it"), "{}", clock.text);
    }

    #[test]
    fn impossible_clocks_are_not_aligned() {
        let runs_away = Calls::new(8, 0.0, 2_000e-6).pings(200, 4.0 * S);
        let clock = runs_away.clock();
        assert!(
            clock.pieces.is_empty() && clock.text.contains("only a drift of +1935 ppm to +2064 ppm"),
            "{}",
            clock.text
        );
        // A server that takes longer than the whole call.
        let mut calls = Calls::new(9, 0.0, 0.0);
        calls.call(0.0, 10.0 * US, 10.0 * US, 10.0 * US).replied_ns = Some(90_000_000);
        let clock = calls.clock();
        assert!((clock.contradicting, clock.pieces.is_empty()) == (1, true), "{clock:?}");
        assert!(clock.text.contains("longer than the whole call"), "{}", clock.text);
        // Random stamps.
        let mut calls = Calls::new(10, 0.0, 0.0).pings(500, S);
        for row in &mut calls.rows {
            let noise = fastrand::Rng::with_seed(u64::from(row.rpcid)).i64(-50_000_000..50_000_000);
            row.received_ns = row.received_ns.map(|ns| ns + noise);
            row.replied_ns = row.replied_ns.map(|ns| ns + noise);
        }
        let clock = calls.clock();
        assert!(clock.pieces.is_empty() && clock.text.contains("contradict each other"), "{clock:?}");
    }

    #[test]
    fn hostile_stamps_do_no_harm() {
        let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        let mut rows = Vec::new();
        for received in extremes {
            for replied in extremes {
                for (start, latency) in [(0, u64::MAX), (u64::MAX, 1), (1 << 60, 1 << 60), (5, 0)] {
                    rows.push(RpcRow {
                        start_ns: start,
                        latency_ns: Some(latency),
                        received_ns: Some(received),
                        replied_ns: Some(replied),
                        ..RpcRow::default()
                    });
                }
            }
        }
        for step in [0, 1_000, u64::MAX] {
            let pair = RpcPair::default();
            let mut pair = Pair::new(&pair, 1, step);
            rows.iter().for_each(|row| pair.add(row));
            let clock = pair.finish(0);
            assert!(clock.pieces.iter().all(|piece| piece.within_ns.is_finite() && piece.offset_ns.is_finite()));
        }
    }

    #[test]
    fn a_million_calls_take_no_time() {
        let calls = Calls::with(11, 1, |t| -5.0 * S + 30e-6 * t).pings(1_000_000, 600.0 * S);
        let begin = std::time::Instant::now();
        let clock = calls.clock();
        let took = begin.elapsed();
        calls.assert_covered(&clock);
        assert!(clock.pieces[0].drift_known && (clock.pieces[0].drift - 30e-6).abs() < 1e-6, "{clock:?}");
        // A debug build on a busy machine; the release build is far below a tenth of it.
        assert!(took.as_secs() < 120, "{took:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_truth_lies_within_the_bound(
            seed: u64,
            offset in -1e13..1e13f64,
            drift in -199e-6..199e-6f64,
            count in 1..150usize,
            spread in 0.0..1e6f64,
            gap in 0.0..1e8f64,
            step in prop::sample::select(vec![1u64, 1_000, 1_000_000]),
        ) {
            let mut calls = Calls::with(seed, step, move |t| offset + drift * t);
            for _ in 0..count {
                let (there, work, back) = (calls.delay(1e4, spread), calls.delay(0.0, spread), calls.delay(2e4, spread));
                calls.call(gap, there, work, back);
            }
            let clock = calls.clock();
            prop_assert_eq!((clock.pieces.len(), clock.contradicting), (1, 0), "{:?}", clock);
            calls.assert_covered(&clock);
            let piece = clock.pieces[0];
            let slack = 1e-9 + 1e-3 / (piece.to_ns - piece.from_ns).max(1) as f64;
            prop_assert!(piece.drift_least - slack <= drift && drift <= piece.drift_most + slack, "{:?}", piece);
        }

        #[test]
        fn steps_leave_the_truth_within_the_bounds(seed: u64, step in 1e6..1e9f64, down: bool, at in 0.2..0.8f64) {
            let step = if down { -step } else { step };
            let calls = Calls::with(seed, 1_000, move |t| if t < at * 2e9 { 0.0 } else { step }).pings(150, 2.0 * S);
            let clock = calls.clock();
            prop_assert_eq!(clock.pieces.len(), 2, "{:?}", clock);
            let (found, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
            prop_assert!((found - step).abs() <= within, "{} {}", found, within);
        }

        #[test]
        fn a_step_of_any_size_is_not_told_wrongly(seed: u64, step in -1e6..1e6f64) {
            // Small steps may go unseen; what is told of them holds.
            let calls = Calls::with(seed, 1, move |t| if t < S { 0.0 } else { step }).pings(150, 2.0 * S);
            let clock = calls.clock();
            if clock.pieces.len() == 2 {
                let (found, within) = words::step(&clock.pieces[0], &clock.pieces[1]);
                prop_assert!((found - step).abs() <= within, "{} {} {}", found, within, step);
            }
        }

        #[test]
        fn a_drift_beyond_the_limit_is_never_reported(seed: u64, drift in 500e-6..0.05f64, down: bool) {
            let drift = if down { -drift } else { drift };
            let calls = Calls::with(seed, 1_000, move |t| drift * t).pings(400, 8.0 * S);
            let clock = calls.clock();
            prop_assert!(clock.pieces.is_empty(), "{:?}", clock);
        }
    }
}
