//! W133: rounds are too short
//!
//! * **Not steady**: how long a case takes until it is steady, and how long its rounds last.
//! * **Swallowed by buffers**: in how many rounds a stream's throughput is only a lower bound.
//! * **Shorter than planned**: what a round of the worst case measured and was planned to.
//!
//! ## What it rests on
//!
//! * **Not steady**: the pilot's settling time ([settling](docs/method/rounds.md#settling)); a round throws it away, at
//!   most half of itself.
//! * **Swallowed**: from first byte to last acknowledgement takes over 5 % longer than the receiver's time, in over a
//!   quarter of the rounds ([throughput](docs/method/rounds.md#throughput)).
//! * **Shorter**: `elapsed_ns` below half of the plan: messages took longer in the pilot than in the rounds.
//!
//! Not for rounds of a count (`-c`).
//!
//! ## What to do
//!
//! Longer rounds: a larger `-t`, a smaller `-r`. `-o burst=yes` makes the beginning the result. Shorter than planned:
//! measure on idle CPUs, or by count.

use msgpath_core::plan::FEWEST_ROUNDS;
use msgpath_core::settling::Settling;
use msgpath_core::units::Glyphs;

use super::wording::{again_for, again_with_rounds, measured, prefix, so_in_others, warning};
use super::{Detector, Input, Sentence};
use crate::settled::cut_short;
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W133", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let header = &input.run.header;
    let mut affected: Vec<(&CaseSummary, Settling)> =
        measured(input).filter_map(|case| Some((case, cut_short(header, &case.case)?))).collect();
    affected.sort_by_key(|(_, settling)| std::cmp::Reverse(settling.ns()));
    let Some((case, settling)) = affected.first().copied() else { return Vec::new() };
    let plan = input.plan;
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let round = plan.spans(&case.case, None).map_or(0, |spans| spans.measured);
    let settles = match settling {
        Settling::WithinNs(ns) => format!("it takes {} until it is steady", time(ns)),
        Settling::NotWithinNs(ns) => format!("within {} it did not become steady", time(ns)),
    };
    let others = so_in_others(affected.len());
    let text = format!("{}{settles}, and a round lasts {}{others}", prefix(input, case), time(round));
    // Half of each round is measured.
    let whole = (round * u64::from(plan.rounds)) / (2 * settling.ns()).max(1);
    let fix = if plan.fewest_rounds == 0 && whole >= u64::from(FEWEST_ROUNDS) && whole < u64::from(plan.rounds) {
        again_with_rounds(header, whole)
    } else {
        let longer = 2.0 * settling.ns() as f64 * f64::from(plan.rounds) / 1e9;
        again_for(header, longer.max(2.0 * round as f64 * f64::from(plan.rounds) / 1e9))
    };
    let why = "the first part of a round is thrown away, at most half of it; what is measured after it is still on the way to what a \
               program sees that talks for long";
    let numbers = [
        ("settling_ns", settling.ns() as f64),
        ("round_ns", round as f64),
        ("rounds", f64::from(plan.rounds)),
        ("cases", affected.len() as f64),
    ];
    vec![warning("W133", text, why, &fix, numbers)]
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::Extent;
    use msgpath_core::resume::Pilot;
    use msgpath_core::settling::{Settling, State};

    use crate::testing::{Build, sentences};

    fn of(settling: Settling, ms: u64, state: State) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.plan.extent = Extent::Time(ms * 1_000_000);
        run.header.plan.state = state;
        run.header.pilots = vec![Pilot { settling: Some(settling), ..Pilot::default() }];
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn rounds_that_are_too_short_are_named_with_both_times() {
        // 40 rounds of 12.5 ms.
        let texts = of(Settling::WithinNs(50_000_000), 500, State::Steady);
        assert!(texts[0].contains("it takes 50.0 ms until it is steady, and a round lasts 12.5 ms"), "{texts:?}");
        let texts = of(Settling::NotWithinNs(150_000_000), 10_000, State::Steady);
        assert!(texts[0].contains("within 150 ms it did not become steady, and a round lasts 250 ms"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_rounds_are_long_enough_or_meant_to_be_short() {
        assert!(of(Settling::WithinNs(50_000_000), 10_000, State::Steady).is_empty());
        assert!(of(Settling::WithinNs(50_000_000), 500, State::Burst).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
