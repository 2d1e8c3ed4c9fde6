//! Of W62: the clocks are not known well enough for the legs.

use msgpath_core::units::Glyphs;

use super::shared::{calls, ends};
use crate::analyse::RpcStage;
use msgpath_analyse::findings::wording::{list, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W62", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    let widest = rpc.clocks.iter().filter(|clock| !clock.same && !clock.pieces.is_empty()).max_by(|a, b| {
        let within =
            |clock: &crate::analyse::PairClock| clock.pieces.iter().map(|piece| piece.within_ns).fold(0.0, f64::max);
        within(a).total_cmp(&within(b))
    });
    let Some((clock, pair)) = widest.and_then(|clock| Some((clock, facts.pairs.get(clock.pair as usize)?))) else {
        return Vec::new();
    };
    let joined: Vec<String> = rpc
        .kinds
        .iter()
        .filter(|kind| {
            kind.bands.first().is_some_and(|band| band.parts.iter().any(|part| part.stage == RpcStage::BothPaths))
        })
        .map(|kind| kind.method.clone())
        .collect();
    if joined.is_empty() {
        return Vec::new();
    }
    let within = clock.pieces.iter().map(|piece| piece.within_ns).fold(0.0, f64::max);
    let drift =
        if clock.pieces.iter().all(|piece| piece.drift_known) { "" } else { ", and their drift is not determined" };
    vec![warning(
        "W62",
        format!(
            "±{} is what the clocks of {} leave open{drift}: for {} the request and the reply path are not told apart",
            Glyphs::Unicode.time(within),
            ends(pair),
            list(&joined)
        ),
        "a leg is drawn by itself only where the clocks leave it uncertain by at most a quarter; T4 - T1 and T3 - T2 are \
         durations of one clock and hold as they are",
        "small calls decide, since a large body delays one way only: some hundred pings of 64 bytes on the same path before, \
         during and after (msgpath rpc TARGET ping -k 300)",
        [("within_ns", within), ("kinds", joined.len() as f64), ("pair", f64::from(clock.pair))],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, S};

    #[test]
    fn speaks_where_only_large_writes_tell_of_the_clocks() {
        let sentences = Calls::new(1, 3.0 * MS, -50e-6).writes(10).sentences(&super::DETECTOR);
        // The number first: a line that is cut has it.
        assert!(sentences[0].starts_with('±'), "{sentences:?}");
        assert!(sentences[0].contains("is what the clocks of 10.9.0.1 and 10.9.0.2 leave open"), "{sentences:?}");
        assert!(
            sentences[0].contains("drift is not determined: for ping the request and the reply path"),
            "{sentences:?}"
        );
    }

    #[test]
    fn is_silent_where_the_legs_are_long_or_the_clock_is_one() {
        let mut calls = Calls::new(1, 3.0 * MS, -50e-6).pings(100, S);
        calls.rows.iter_mut().for_each(|row| row.case = 1);
        for _ in 0..20 {
            calls.call(MS, 9.0 * MS, MS, 9.0 * MS);
        }
        let (run, logs) = calls.run(&["write", "other"], 10);
        let sentences = msgpath_analyse::testing::said_with(&run, &logs, &super::DETECTOR);
        // The pings themselves are shorter than the bound; the long calls are not in the sentence.
        assert!(sentences.iter().all(|text| !text.contains("for write")), "{sentences:?}");
        assert!(Calls::new(1, 0.0, 0.0).same_machine().writes(10).sentences(&super::DETECTOR).is_empty());
    }
}
