//! W62: what the clocks of two machines leave open
//!
//! * Clocks **could not be aligned**: no offset with a drift below 200 ppm and a few steps explains the stamps. On one
//!   machine: stamps out of order.
//! * A clock **was stepped**: by how much, when, within what. *Sure*: both bounds exclude no step.
//! * The clocks are **not known well enough**: the bound is more than a quarter of a leg, so request and reply path are
//!   one part.
//! * Offsets **do not add up around a loop** of machines.
//!
//! ## What it rests on
//!
//! Neither request nor reply arrives before it was sent: two bounds a call ([two
//! machines](docs/method/clocks.md#two-machines)).
//!
//! ## What to do
//!
//! See whether a clock was set or slewed (`chronyc tracking`); import logs as they were written. T4 − T1 and T3 − T2
//! need one clock each and stay true. A wide bound: some hundred calls of 64 bytes before, during and after narrow it
//! to about the fastest round trip.

use super::shared::{calls, counted, ends, log};
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W62", detect };

/// Pairs that are told one by one.
const GIVEN: usize = 3;

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    let stamped = |pair: u32| log(input).sample().iter().any(|row| row.pair == pair && row.received_ns.is_some());
    let wrong = rpc.clocks.iter().zip(&facts.pairs).filter(|(clock, _)| {
        // A server without stamps has no clock to align.
        clock.contradicting > 0 || (!clock.same && clock.pieces.is_empty() && stamped(clock.pair))
    });
    wrong
        .take(GIVEN)
        .map(|(clock, pair)| {
            let what = match (clock.same, clock.pieces.is_empty()) {
                (false, true) => clock.text.clone(),
                (true, _) => format!(
                    "{} have one clock, but the stamps of {} are not in the order of time",
                    ends(pair),
                    counted(clock.contradicting)
                ),
                (false, false) => format!(
                    "the stamps of {} are impossible whatever the clocks: they were left out of the alignment",
                    counted(clock.contradicting)
                ),
            };
            let text = if clock.same { what } else { format!("{}: {what}", ends(pair)) };
            warning(
                "W62",
                text,
                "a request cannot arrive before it was sent, nor a reply; where no offset of the clocks explains the stamps, \
                 the two ways of a call are not told apart",
                "look whether a clock was set during the run (chronyc tracking, timedatectl), and give the logs as they were \
                 written",
                [("contradicting_calls", clock.contradicting as f64), ("pair", f64::from(clock.pair))],
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, S};

    #[test]
    fn speaks_of_clocks_that_run_away_and_of_stray_calls() {
        let sentences = Calls::new(1, 0.0, 2_000e-6).pings(200, 4.0 * S).sentences(&super::DETECTOR);
        assert!(
            sentences[0].starts_with("10.9.0.1 and 10.9.0.2: clocks not aligned: only a drift of"),
            "{sentences:?}"
        );
        let mut calls = Calls::new(1, MS, 0.0).pings(100, S);
        calls.rows[40].received_ns = calls.rows[40].received_ns.map(|ns| ns + 50_000_000);
        calls.rows[40].replied_ns = calls.rows[40].replied_ns.map(|ns| ns + 50_000_000);
        let sentences = calls.sentences(&super::DETECTOR);
        assert!(sentences[0].contains("the stamps of 1 call are impossible whatever the clocks"), "{sentences:?}");
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine().pings(100, S);
        calls.rows[3].received_ns = Some(-2_000_000);
        assert!(
            calls.sentences(&super::DETECTOR)[0].contains("have one clock, but"),
            "{:?}",
            calls.sentences(&super::DETECTOR)
        );
    }

    #[test]
    fn is_silent_where_all_fits_and_where_a_server_gives_no_stamps() {
        assert!(Calls::new(1, -3.0 * MS, 50e-6).pings(100, S).sentences(&super::DETECTOR).is_empty());
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        calls.rows.iter_mut().for_each(|row| (row.received_ns, row.replied_ns) = (None, None));
        assert!(calls.sentences(&super::DETECTOR).is_empty());
    }
}
