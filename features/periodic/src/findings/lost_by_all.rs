//! W179: every receiver of a group lost the same share
//!
//! At least two receivers lost messages, each as many as the other within a tenth, and no socket dropped them: they were lost before the
//! network made a copy for each receiver, at the sender or on its link. *Likely*: how many is counted, where is concluded.
//!
//! ## What it rests on
//!
//! What each receiver lost, and the drops of its socket (SO_MEMINFO).
//!
//! ## What to do
//!
//! `tc -s qdisc` and `ip -s link` of the sender's device; a larger `--period`; a receiver on the sender's own switch.

use super::group;
use crate::analyse::Engine;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W179", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    group::engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let all = &engine.receivers;
    let lost = || all.iter().map(|one| one.lost);
    let (least, most) = (lost().min()?, lost().max()?);
    let dropped: u64 = all.iter().filter_map(|one| one.overflowed).sum();
    let heard = all.iter().all(|one| one.messages > 0);
    if all.len() < 2 || least == 0 || !heard || most - least > most / 10 || dropped * 10 >= lost().sum() {
        return None;
    }
    let expected = all.iter().map(|one| one.expected()).max().unwrap_or(1).max(1);
    let text = format!(
        "{}all {} receivers lost as many messages, {} to {} ({} %): lost before the network copied them, at the sender or on its link",
        prefix(input, case),
        all.len(),
        least,
        most,
        percent(most as f64 / expected as f64)
    );
    let numbers = [("least_lost", least as f64), ("most_lost", most as f64), ("receivers", all.len() as f64)];
    Some(finding("W179", Confidence::Likely, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{group, joined, sentences};

    #[test]
    fn the_same_loss_everywhere_is_before_the_copies() {
        let both = |dropped| {
            move |facts: &mut crate::record::PeriodicFacts| {
                for number in [1, 2] {
                    let own = joined(facts, number);
                    (own.delivered, own.lost, own.overflowed) = (900, 98 + number as u64, Some(dropped));
                }
            }
        };
        let said = sentences(&group(both(0)), &super::DETECTOR);
        assert!(
            said.len() == 1 && said[0].contains("All 2 receivers lost as many messages, 99 to 100 (10 %)"),
            "{said:?}"
        );
        assert!(sentences(&group(both(50)), &super::DETECTOR).is_empty(), "their sockets dropped them");
        assert!(sentences(&group(|_| ()), &super::DETECTOR).is_empty(), "one had all");
    }
}
