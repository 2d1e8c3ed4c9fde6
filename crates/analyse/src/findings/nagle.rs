//! W25: messages that wait 40 ms for an acknowledgement: Nagle meets delayed ACK (method.md, trap 34).

use msgpath_core::SparseHistogram;
use msgpath_core::units::Glyphs;

use super::wording::{again_over, finding, measured, percent, prefix, sentence};
use super::{Detector, Input, Said};
use crate::pooled::Pooled;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W25", detect };

/// The kernel delays an acknowledgement by 40 ms; with what comes on top, the mode lies here.
const MODE_NS: std::ops::Range<u64> = 32_000_000..48_000_000;
/// Where request and reply both wait, it lies at twice that.
const BOTH_WAYS_NS: std::ops::Range<u64> = 64_000_000..96_000_000;
/// Fewer messages than this in the mode are an accident.
const SHARE: f64 = 0.05;

fn detect(input: &Input) -> Vec<Said> {
    if input.plan.options.nodelay || input.plan.options.cork {
        return Vec::new();
    }
    measured(input).filter(|case| hands_over_in_parts(case)).filter_map(|case| say(input, case)).collect()
}

/// TCP, and more than one send call for a message.
fn hands_over_in_parts(case: &CaseSummary) -> bool {
    let path = &case.case.path;
    path.transport == "tcp" && path.method == "writes" && case.case.pieces.count > 1
}

fn say(input: &Input, case: &CaseSummary) -> Option<Said> {
    let rounds: Vec<&SparseHistogram> =
        input.rounds[case.case.id as usize].iter().map(|round| &round.latency).collect();
    let pooled = Pooled::new(&rounds);
    if pooled.total() == 0 {
        return None;
    }
    let count = |mode: &std::ops::Range<u64>| pooled.count_between(mode.start, mode.end);
    let share = (count(&MODE_NS) + count(&BOTH_WAYS_NS)) as f64 / pooled.total() as f64;
    let both_ways = count(&BOTH_WAYS_NS) > count(&MODE_NS);
    let most = if both_ways { BOTH_WAYS_NS } else { MODE_NS };
    if share < SHARE {
        return None;
    }
    let waiting: Vec<f64> = pooled
        .bins()
        .iter()
        .filter(|bin| most.contains(&bin.value()))
        .flat_map(|bin| [bin.value() as f64, bin.count as f64])
        .collect();
    let count: f64 = waiting.chunks(2).map(|bin| bin[1]).sum();
    let mode = waiting.chunks(2).map(|bin| bin[0] * bin[1]).sum::<f64>() / count;
    let mut text = format!(
        "{}{} % of the messages wait, most of them about {}{}: each is handed over in several sends with TCP_NODELAY off, and the \
         later ones wait for a delayed acknowledgement of the first (Nagle meets delayed ACK)",
        prefix(input, case),
        percent(share),
        Glyphs::Unicode.time(mode),
        if both_ways { " (once in each direction)" } else { "" }
    );
    // The same message in one send, where the run has it.
    let joined = measured(input)
        .filter(|other| {
            other.case.path.transport == "tcp" && other.case.size == case.case.size && !hands_over_in_parts(other)
        })
        .find_map(|other| {
            let p50 = other.quantiles.iter().find(|q| q.p == 0.5 && q.claim)?.ns?;
            (p50 < MODE_NS.start / 4).then_some((&other.case.path, p50))
        });
    if let Some((path, p50)) = joined {
        text.push_str(&format!(". In this run {path}, with one send, has p50 {}", Glyphs::Unicode.time(p50 as f64)));
    }
    let numbers =
        [("share", share), ("mode_ns", mode), ("one_send_p50_ns", joined.map_or(f64::NAN, |(_, p50)| p50 as f64))];
    text.push_str(". Any one of these ends it: one send (tcp:writev), TCP_NODELAY, a cork");
    let next = again_over(&input.run.header, "tcp:writev").into_iter().collect();
    Some(finding("W25", Confidence::Likely, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, said};
    use msgpath_core::units::Pieces;

    fn in_pieces(paths: &[&str], median_ms: f64, change: impl Fn(&mut Build)) -> Vec<String> {
        let mut build = Build::echo(paths, &[64]).factor(move |case| if case.id == 0 { median_ms * 50.0 } else { 1.0 });
        build.plan.options.nodelay = false;
        build.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces { count: 2, size: 32 });
        change(&mut build);
        said(&build.run(), "W25")
    }

    #[test]
    fn speaks_of_the_mode() {
        let texts = in_pieces(&["tcp:writes"], 42.0, |_| ());
        assert!(texts[0].starts_with("likely: "), "{texts:?}");
        assert!(texts[0].contains("most of them about 4") && texts[0].contains("Nagle meets delayed ACK"), "{texts:?}");
    }

    #[test]
    fn speaks_of_a_delay_in_each_direction() {
        let texts = in_pieces(&["tcp:writes"], 84.0, |_| ());
        assert!(texts[0].contains("about 8") && texts[0].contains("once in each direction"), "{texts:?}");
    }

    #[test]
    fn names_the_path_that_does_not_wait() {
        let texts = in_pieces(&["tcp:writes", "tcp:writev"], 42.0, |_| ());
        assert!(texts[0].contains("In this run tcp:writev, with one send, has p50 20."), "{texts:?}");
    }

    #[test]
    fn is_silent_where_one_cause_is_missing() {
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.options.nodelay = true).is_empty());
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.options.cork = true).is_empty());
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.cases[0].pieces = Pieces::whole(64)).is_empty());
        assert!(in_pieces(&["tcp:writes"], 0.03, |_| ()).is_empty());
        assert!(in_pieces(&["tcp:writev"], 42.0, |_| ()).is_empty());
        assert!(in_pieces(&["unix:writes"], 42.0, |_| ()).is_empty());
    }
}
