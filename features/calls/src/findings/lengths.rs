//! Of W63: byte counts that are estimates.

use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_record::Rows;

use super::shared::{calls, counted, log};
use crate::record::Wire;
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W63", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    let mut estimated = 0;
    log(input).rounds(&|_, _| true, &mut |rows| {
        estimated += rows.iter().filter(|row| row.lengths_estimated).count() as u64;
    });
    if estimated == 0 {
        return Vec::new();
    }
    let on_wire =
        rpc.kinds.iter().filter_map(|kind| kind.wire_ns).map(|wire| wire.request + wire.reply).fold(0.0, f64::max);
    let wire = match &facts.wire {
        Some(Wire { bits_per_s: bits, from }) if on_wire > 0.0 => format!(
            "; the time on the wire (up to {} a call) is computed from them and from {} ({from})",
            Glyphs::Unicode.time(on_wire),
            bits_per_second(*bits as f64, BitUnits::Si)
        ),
        _ => String::new(),
    };
    vec![warning(
        "W63",
        format!("the byte counts of {} are estimates, within 4.5 %{wire}", counted(estimated)),
        "the lab's log keeps a length as one byte, ten times its logarithm to base 2; what is computed from it was not measured, \
         and neither are the white lines of its viewer",
        "run the calls with msgpath rpc, which keeps exact lengths",
        [("estimated", estimated as f64), ("wire_ns", if on_wire > 0.0 { on_wire } else { f64::NAN })],
    )]
}

#[cfg(test)]
mod tests {
    use crate::record::Wire;
    use crate::testing::{Calls, S};

    #[test]
    fn speaks_of_lengths_from_a_log() {
        let mut calls = Calls::new(1, 0.0, 0.0).writes(20);
        calls.rows.iter_mut().for_each(|row| row.lengths_estimated = true);
        assert_eq!(calls.sentences(&super::DETECTOR), ["the byte counts of 20 calls are estimates, within 4.5 %"]);
        calls.facts.wire = Some(Wire { bits_per_s: 1_000_000_000, from: "--wire".into() });
        let sentences = calls.sentences(&super::DETECTOR);
        assert!(
            sentences[0].contains("the time on the wire (up to 8.00 ms a call)")
                && sentences[0].contains("1.00 Gbit/s (--wire)"),
            "{sentences:?}"
        );
    }

    #[test]
    fn is_silent_where_lengths_are_exact() {
        assert!(Calls::new(1, 0.0, 0.0).pings(20, S).sentences(&super::DETECTOR).is_empty());
    }
}
