//! Of W62: offsets that do not add up around a loop.

use msgpath_core::units::Glyphs;

use super::shared::calls;
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W62", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((_, rpc)) = calls(input) else { return Vec::new() };
    let open = rpc.loops.iter().filter(|one| !one.closes);
    let Some(worst) = open.max_by(|a, b| a.error_ns.abs().total_cmp(&b.error_ns.abs())) else { return Vec::new() };
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    vec![warning(
        "W62",
        format!(
            "the clock offsets around {} add up to {}, and their bounds allow ±{}: at least one of these pairs is wrong",
            worst.machines.join(", "),
            time(worst.error_ns),
            time(worst.within_ns)
        ),
        "each machine has one clock, so the offsets around a loop add up to nothing; a clock that was set between the runs, or \
         stamps that were altered, break that",
        "take all pairs at the same time, and look whether a clock was set",
        [
            ("error_ns", worst.error_ns),
            ("within_ns", worst.within_ns),
            ("loops", rpc.loops.len() as f64),
            ("open_loops", rpc.loops.iter().filter(|one| !one.closes).count() as f64),
        ],
    )]
}

#[cfg(test)]
mod tests {

    use crate::record::RpcPair;
    use crate::testing::{Calls, MS, S, US};

    /// Three machines that call each other in a ring. The clock of b is 2 ms and that of c 5 ms behind a's.
    fn ring(wrong: f64) -> Calls {
        let pair =
            |client: &str, server: &str| RpcPair { client: client.into(), server: server.into(), same_machine: None };
        let theta = [2.0 * MS, 3.0 * MS, -5.0 * MS + wrong];
        let mut calls = Calls::new(1, 0.0, 0.0);
        calls.facts.pairs = vec![pair("a", "b"), pair("b", "c"), pair("c", "a")];
        for at in 0..300 {
            let (there, back) = (calls.delay(100.0 * US, 20.0 * US), calls.delay(100.0 * US, 20.0 * US));
            let row = calls.call(S / 300.0, there, 5.0 * US, back);
            row.pair = at % 3;
            let theta = theta[row.pair as usize] as i64;
            row.received_ns = row.received_ns.map(|ns| ns - theta);
            row.replied_ns = row.replied_ns.map(|ns| ns - theta);
        }
        calls
    }

    #[test]
    fn speaks_where_a_loop_does_not_close() {
        let sentences = ring(4.0 * MS).sentences(&super::DETECTOR);
        assert!(
            sentences[0].contains("add up to") && sentences[0].contains("at least one of these pairs is wrong"),
            "{sentences:?}"
        );
    }

    #[test]
    fn is_silent_where_it_closes_and_solves_all_machines_together() {
        let calls = ring(0.0);
        assert!(calls.sentences(&super::DETECTOR).is_empty());
        let rpc = calls.rpc();
        assert!(rpc.loops.len() == 1 && rpc.loops[0].closes && rpc.loops[0].machines.len() == 3, "{:?}", rpc.loops);
        let truth = [("b", 2.0 * MS), ("c", 5.0 * MS)];
        assert_eq!(rpc.machines.len(), 2);
        for (machine, (address, offset)) in rpc.machines.iter().zip(truth) {
            assert_eq!((machine.address.as_str(), machine.base.as_str()), (address, "a"));
            assert!((machine.offset_ns - offset).abs() < machine.within_ns && machine.within_ns < MS, "{machine:?}");
        }
    }
}
