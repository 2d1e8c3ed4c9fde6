//! One way between ends that have no common clock: the far end's clock as the messages themselves bound it, and the two ways
//! of each message by it (docs/method/clocks.md#one-way-between-two-hosts).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::plan::{Case, Stamps as Taken};
use msgpath_core::schema::{MessageRow, NEAR, RoundRecord};
use msgpath_core::{Histogram, SparseHistogram};
use msgpath_record::{Messages, Rows, Run};
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{self, Quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clocks::{self, ClockPiece, Envelope, Stamps};
use crate::logs::Logs;
use crate::section;

const QUANTILES: [f64; 2] = [0.5, 0.99];

/// How the clocks of two ends without a common one stand to each other. theta(t), in pieces of time, is what must be added
/// to the far end's stamps.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FarClock {
    /// Pieces of time, each with its own line; empty where the stamps allow none.
    pub pieces: Vec<ClockPiece>,
    /// What was found, in a sentence: `offset +2978 µs, within ±41 µs`.
    pub text: String,
    /// Messages with the stamps of both ends in the log.
    pub messages: u64,
    /// Messages whose stamps contradict the bounds.
    pub contradicting: u64,
}

impl FarClock {
    /// The row with arrival and reply at the far end by the near end's clock, as one with a common clock has them. The two
    /// ways and the time between them add up to its latency. Without them where no line explains its stamps.
    pub fn aligned(&self, row: &MessageRow) -> MessageRow {
        let own = || {
            let (latency, received, replied) = (row.latency_ns?, row.received_ns?, row.replied_ns?);
            let sent = row.start_ns.checked_add(row.late_ns.unwrap_or(0))?;
            let back = row.start_ns.checked_add(latency)?;
            let piece = clocks::at(&self.pieces, sent)?;
            let arrived = received as f64 + piece.theta(sent);
            let left = replied as f64 + clocks::at(&self.pieces, back)?.theta(back);
            let (late, latency) = (row.late_ns.unwrap_or(0) as f64, latency as f64);
            // The resolution of the stamps, and no more.
            let slack = piece.within_ns.min(1e3);
            let possible = late - slack <= arrived && arrived <= left + slack && left <= latency + slack;
            let arrived = arrived.clamp(late, latency.max(late));
            possible.then(|| (arrived as u64, left.clamp(arrived, latency.max(arrived)) as u64))
        };
        let (far_ns, far_sent_ns) = own().unzip();
        MessageRow { far_ns: row.far_ns.or(far_ns), far_sent_ns: row.far_sent_ns.or(far_sent_ns), ..*row }
    }

    /// How far from the truth a way's time may be, ns, wherever in the run; `None`: nothing is known.
    pub fn within_ns(&self) -> Option<f64> {
        self.pieces.iter().map(|piece| piece.within_ns).reduce(f64::max)
    }
}

/// The two ways of the messages of a case whose ends have no common clock, and what the far end took between them.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Ways {
    /// Messages: those that the log holds with the stamps of both ends.
    pub messages: u64,
    /// From the send to the arrival at the far end: p50 and p99.
    pub request: Vec<Quantile>,
    /// From the arrival to the send of the reply, by the far end's clock alone: p50 and p99.
    pub far_end: Vec<Quantile>,
    /// From the send of the reply to its arrival: p50 and p99.
    pub reply: Vec<Quantile>,
    /// How far from the truth the times of either way may be, ns, because of the clocks: what one way gains by it the other
    /// loses, all messages alike.
    pub within_ns: f64,
}

/// What the log says of one way: the clock, and the times of each case and pass.
#[derive(Clone, Debug, Default)]
pub struct OneWay {
    /// The clock of the far end.
    pub clock: FarClock,
    rounds: BTreeMap<(u32, u32), [SparseHistogram; 3]>,
}

impl OneWay {
    /// Whether a run has both ways in its log: it is an echo, both ends took stamps, and they have no common clock.
    pub fn is_in(run: &Run) -> bool {
        let plan = &run.header.plan;
        plan.workload.is_echoed() && plan.stamps == Taken::Both && !run.header.one_clock()
    }

    /// From the log of such a run, which is gone through twice, one round at a time, and from what sections know beside it
    /// (`logs`). `None`: it is another one.
    pub fn of(run: &Run, logged: &dyn Messages, logs: &Logs) -> Option<Self> {
        if !Self::is_in(run) {
            return None;
        }
        // The step of the far end's clock was not asked for; it has the kernel's resolution as well.
        let allow = clocks::allowance(2 * run.header.end(NEAR).clock.step_ns.max(1));
        let mut envelope = Envelope::new(allow, clocks::KEPT);
        let mut messages = 0;
        logged.rounds(&|_, _| true, &mut |rows| {
            for stamps in rows.iter().filter_map(stamps) {
                messages += 1;
                envelope.add(Some(stamps));
            }
        });
        for section in section::all() {
            (section.exchanges)(run, logs, &mut |stamps| envelope.add(Some(stamps)));
        }
        let found = envelope.align("message");
        let contradicting = found.contradicting.unwrap_or(0);
        let clock = FarClock { pieces: found.pieces, text: found.text, messages, contradicting };
        let mut rounds = BTreeMap::new();
        logged.rounds(&|_, _| !clock.pieces.is_empty(), &mut |rows| {
            let mut ways = [(); 3].map(|()| Histogram::new());
            for row in rows.iter().map(|row| clock.aligned(row)) {
                let (Some(latency), Some(far), Some(sent)) = (row.latency_ns, row.far_ns, row.far_sent_ns) else {
                    continue;
                };
                let times = [far.saturating_sub(row.late_ns.unwrap_or(0)), sent - far, latency.saturating_sub(sent)];
                ways.iter_mut().zip(times).for_each(|(way, ns)| way.record(ns));
            }
            rounds.insert((rows[0].case, rows[0].pass), ways.map(|way| way.to_sparse()));
        });
        Some(Self { clock, rounds })
    }

    /// The ways of a case, from the rounds that make its headline; `None` where nothing is known of them.
    pub(crate) fn ways(&self, case: &Case, rounds: &[&RoundRecord]) -> Option<Ways> {
        let passes: BTreeSet<u32> = rounds.iter().map(|round| round.pass).collect();
        let own: Vec<&[SparseHistogram; 3]> =
            passes.iter().filter_map(|pass| self.rounds.get(&(case.id, *pass))).collect();
        let quantiles = |way: usize| -> Vec<Quantile> {
            let all: Vec<&SparseHistogram> = own.iter().map(|ways| &ways[way]).collect();
            let pooled = Pooled::new(&all);
            let of = |p: &f64| Some(quantile::estimate(&all, &pooled, *p)?.quantile);
            QUANTILES.iter().filter_map(of).collect()
        };
        let messages = own.iter().map(|ways| ways[0].total()).sum();
        let [request, far_end, reply] = [0, 1, 2].map(quantiles);
        let within_ns = self.clock.within_ns()?;
        (messages > 0).then_some(Ways { messages, request, far_end, reply, within_ns })
    }
}

/// A message timed from its actual send, where both ends stamped it.
fn stamps(row: &MessageRow) -> Option<Stamps> {
    let late = row.late_ns.unwrap_or(0);
    let since = |ns: i64| ns.checked_sub(i64::try_from(late).ok()?);
    Some(Stamps {
        start_ns: row.start_ns.checked_add(late)?,
        latency_ns: row.latency_ns?.checked_sub(late)?,
        received_ns: since(row.received_ns?)?,
        replied_ns: since(row.replied_ns?)?,
    })
}

/// A log by the near end's clock: what is known of a far end with another one stands in its rows as if there were one clock.
#[derive(Default)]
pub struct OnOneClock<L> {
    log: L,
    clock: Option<FarClock>,
}

impl<L> OnOneClock<L> {
    /// `clock`: that of the far end, where it is another one.
    pub fn new(log: L, clock: Option<FarClock>) -> Self {
        Self { log, clock }
    }
}

impl<L: Messages> Rows<MessageRow> for OnOneClock<L> {
    fn index(&self) -> Vec<(u32, u32, usize)> {
        self.log.index()
    }

    fn rounds(&self, wanted: &dyn Fn(u32, u32) -> bool, each: &mut dyn FnMut(&[MessageRow])) {
        let Some(clock) = &self.clock else { return self.log.rounds(wanted, each) };
        let mut aligned = Vec::new();
        self.log.rounds(wanted, &mut |rows| {
            aligned.clear();
            aligned.extend(rows.iter().map(|row| clock.aligned(row)));
            each(&aligned);
        });
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{FAR, TIME_NAMESPACE};
    use msgpath_record::NO_MESSAGES;
    use proptest::prelude::*;

    use super::*;
    use crate::summarise_with;
    use crate::testing::Build;

    /// An echo between two machines whose clocks differ by what is planted, and the request, the stay and the reply of each
    /// message.
    struct Planted {
        run: Run,
        rows: Vec<MessageRow>,
        truth: Vec<[u64; 3]>,
        theta: Box<dyn Fn(f64) -> f64>,
    }

    /// 40 rounds of so many messages; `least`: the fastest request and reply.
    fn planted(seed: u64, messages: u64, least: [f64; 2], theta: impl Fn(f64) -> f64 + 'static) -> Planted {
        let mut run = Build::echo(&["tcp:send"], &[64]).messages(messages).run();
        run.header.plan.stamps = Taken::Both;
        run.header.host_mut(FAR).boot_id = "two".into();
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut rows, mut truth) = (Vec::new(), Vec::new());
        for pass in 0..run.header.plan.rounds {
            let mut now = u64::from(pass) * 50_000_000;
            for sequence in 0..messages {
                let mut delay = |least: f64| (least - 3_000.0 * (1.0 - random.f64()).ln()) as u64;
                let [request, far, reply] = [delay(least[0]), delay(500.0), delay(least[1])];
                // What the far end's clock shows at a moment of the near end's.
                let shown = |ns: u64| ns as i64 - theta(ns as f64).round() as i64;
                rows.push(MessageRow {
                    pass,
                    sequence,
                    start_ns: now,
                    latency_ns: Some(request + far + reply),
                    received_ns: Some(shown(now + request) - now as i64),
                    replied_ns: Some(shown(now + request + far) - now as i64),
                    ..MessageRow::default()
                });
                truth.push([request, far, reply]);
                now += request + far + reply + 1_000;
            }
        }
        Planted { run, rows, truth, theta: Box::new(theta) }
    }

    impl Planted {
        fn found(&self) -> OneWay {
            OneWay::of(&self.run, &self.rows, &Logs::default()).expect("two clocks")
        }

        /// Times of each message by the clock that was found, with their sums and their distance from the truth checked.
        #[track_caller]
        fn assert_covered(&self) -> OneWay {
            let found = self.found();
            let within = found.clock.within_ns().expect("a line");
            for piece in &found.clock.pieces {
                for t in [piece.from_ns, piece.from_ns.midpoint(piece.to_ns), piece.to_ns] {
                    let (truth, estimate) = ((self.theta)(t as f64), piece.theta(t));
                    assert!((truth - estimate).abs() <= piece.within_ns, "{truth} at {t}: {piece:?}");
                }
            }
            for (row, [request, far, reply]) in self.rows.iter().zip(&self.truth) {
                let row = found.clock.aligned(row);
                let (arrived, left, latency) = (row.far_ns.unwrap(), row.far_sent_ns.unwrap(), row.latency_ns.unwrap());
                // Whole nanoseconds, and the drift while the message was on its way.
                let slack = 2.0 + clocks::DRIFT_LIMIT * latency as f64;
                assert!((arrived as f64 - *request as f64).abs() <= within + slack, "{row:?}");
                assert!(((latency - left) as f64 - *reply as f64).abs() <= within + slack, "{row:?}");
                assert!(((left - arrived) as f64 - *far as f64).abs() <= slack, "by one clock alone: {row:?}");
            }
            found
        }
    }

    #[test]
    fn both_ways_are_told_with_the_bound_of_half_the_fastest_round_trip() {
        // A minute ahead, and 30 ppm faster.
        let planted = planted(1, 500, [9_000.0, 6_000.0], |t| -60e9 + 30e-6 * t);
        let found = planted.assert_covered();
        let piece = found.clock.pieces[0];
        assert_eq!((found.clock.pieces.len(), found.clock.messages, found.clock.contradicting), (1, 20_000, 0));
        assert!(piece.drift_known && (piece.drift - 30e-6).abs() < 2e-6, "{piece:?}");
        let fastest = planted.truth.iter().map(|[request, _, reply]| request + reply).min().unwrap() as f64;
        assert!((piece.within_ns / (fastest / 2.0) - 1.0).abs() < 0.2, "{piece:?}, fastest {fastest}");
        let logs = Logs { one_way: Some(found), ..Logs::default() };
        let summary = summarise_with(&planted.run, &logs);
        let ways = summary.cases[0].transit.ways.as_ref().unwrap();
        let median = |way: usize| {
            let mut all: Vec<u64> = planted.truth.iter().map(|times| times[way]).collect();
            *all.select_nth_unstable(10_000).1 as f64
        };
        for (way, quantiles) in [(0, &ways.request), (2, &ways.reply)] {
            let p50 = quantiles[0].ns.unwrap() as f64;
            assert!((p50 - median(way)).abs() < ways.within_ns + 0.01 * p50 && quantiles[0].is_interval(), "{ways:?}");
        }
        assert!((ways.far_end[0].ns.unwrap() as f64 / median(1) - 1.0).abs() < 0.01, "{ways:?}");
        assert_eq!((ways.messages, summary.cases[0].transit.one_way.as_ref()), (20_000, None));
        assert_eq!(summary.far_clock.unwrap().pieces, [piece]);
    }

    #[test]
    fn a_path_that_is_slower_one_way_looks_like_an_offset_and_the_bound_holds() {
        let found = planted(2, 200, [40_000.0, 2_000.0], |_| 0.0).assert_covered();
        let piece = found.clock.pieces[0];
        // The middle takes both ways for alike.
        assert!((piece.offset_ns.abs() - 19_000.0).abs() < 500.0 && piece.within_ns > 20_000.0, "{piece:?}");
    }

    #[test]
    fn a_step_is_two_pieces_of_time() {
        let planted = planted(3, 200, [5_000.0, 5_000.0], |t| if t < 1e9 { 4e6 } else { -9e6 });
        let found = planted.found();
        let offsets: Vec<f64> = found.clock.pieces.iter().map(|piece| piece.offset_ns).collect();
        assert!(offsets.len() == 2 && (offsets[0] - 4e6).abs() < 1e4 && (offsets[1] + 9e6).abs() < 1e4, "{offsets:?}");
        assert!(found.clock.text.contains("stepped by −13"), "{}", found.clock.text);
    }

    #[test]
    fn what_is_decisive_says_all_that_the_messages_say() {
        let planted = planted(4, 100, [5_000.0, 5_000.0], |t| 7e6 - 100e-6 * t);
        let all: Vec<Stamps> = planted.rows.iter().filter_map(stamps).collect();
        let lines = |most: usize| {
            let mut envelope = Envelope::new(clocks::allowance(2), most);
            all.iter().for_each(|one| envelope.add(Some(*one)));
            envelope.align("message").pieces
        };
        let ([piece], [same]) = (&lines(usize::MAX)[..], &lines(500)[..]) else { panic!("one line") };
        // The first and the last decisive one are not the first and the last of all.
        let t = 1_000_000_000;
        assert!((piece.theta(t) - same.theta(t)).abs() < 1.0 && same.within_ns <= piece.within_ns + 1.0);
        assert!((piece.drift_least - same.drift_least).abs() + (piece.drift_most - same.drift_most).abs() < 1e-9);
    }

    #[test]
    fn an_open_loop_is_timed_from_its_actual_send() {
        let mut planted = planted(5, 200, [5_000.0, 5_000.0], |_| 1e9);
        for row in &mut planted.rows {
            let late = 30_000 + row.sequence;
            row.start_ns += 1_000_000 - late;
            row.late_ns = Some(late);
            let later = |ns: Option<i64>| ns.map(|ns| ns + late as i64 - 1_000_000);
            (row.received_ns, row.replied_ns) = (later(row.received_ns), later(row.replied_ns));
            row.latency_ns = row.latency_ns.map(|ns| ns + late);
        }
        // All that was sent a millisecond later was read a millisecond earlier by a clock that is as much behind.
        let found = planted.found();
        let (row, [request, ..]) = (found.clock.aligned(&planted.rows[7]), planted.truth[7]);
        let waited = row.far_ns.unwrap() - row.late_ns.unwrap();
        assert!((waited as f64 - request as f64).abs() <= found.clock.within_ns().unwrap() + 2.0, "{row:?}");
        let clock = found.clock.pieces[0];
        assert!((clock.offset_ns - 1.001e9).abs() <= clock.within_ns, "{clock:?}");
    }

    #[test]
    fn one_clock_and_missing_stamps_say_nothing() {
        let mut planted = planted(6, 100, [5_000.0, 5_000.0], |_| 1e9);
        planted.run.header.plan.stamps = Taken::Near;
        assert!(OneWay::of(&planted.run, &planted.rows, &Logs::default()).is_none());
        planted.run.header.plan.stamps = Taken::Both;
        let found = OneWay::of(&planted.run, &NO_MESSAGES, &Logs::default()).unwrap();
        assert!(
            found.clock.pieces.is_empty() && found.clock.text.starts_with("clocks not aligned: none of 0 messages")
        );
        assert_eq!(found.clock.aligned(&planted.rows[0]), planted.rows[0]);
        planted.run.header.host_mut(FAR).boot_id = "one".into();
        assert!(planted.run.header.one_clock() && OneWay::of(&planted.run, &planted.rows, &Logs::default()).is_none());
        // The same machine, in a time namespace that moves its clock.
        planted.run.header.host_mut(FAR).facts.insert(TIME_NAMESPACE.into(), "time:[2]".into());
        assert!(
            planted.run.header.one_machine() && OneWay::of(&planted.run, &planted.rows, &Logs::default()).is_some()
        );
    }

    #[test]
    fn hostile_stamps_do_no_harm() {
        let extremes = [i64::MIN, -1, 0, 1, i64::MAX];
        let mut planted = planted(7, 1, [5_000.0, 5_000.0], |_| 0.0);
        for received_ns in extremes.map(Some) {
            for replied_ns in extremes.map(Some) {
                for (start_ns, late_ns, latency_ns) in [(u64::MAX, None, Some(1)), (5, Some(u64::MAX), Some(u64::MAX))]
                {
                    let row =
                        MessageRow { received_ns, replied_ns, start_ns, late_ns, latency_ns, ..Default::default() };
                    planted.rows.push(row);
                }
            }
        }
        let found = planted.found();
        for row in planted.rows.iter().map(|row| found.clock.aligned(row)) {
            if let (Some(far), Some(sent), Some(latency)) = (row.far_ns, row.far_sent_ns, row.latency_ns) {
                assert!(row.late_ns.unwrap_or(0) <= far && far <= sent && sent <= latency, "{row:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_truth_lies_within_the_bound(
            seed: u64,
            messages in 1..40_u64,
            offset in -1e14..1e14f64,
            drift in -199e-6..199e-6f64,
            there in 100.0..200_000.0f64,
            back in 100.0..200_000.0f64,
        ) {
            planted(seed, messages, [there, back], move |t| offset + drift * t).assert_covered();
        }
    }
}
