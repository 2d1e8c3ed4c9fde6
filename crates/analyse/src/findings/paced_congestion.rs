//! Of W39: a congestion control that paces, inside one machine.

use msgpath_core::plan::Change;
use msgpath_core::schema::DeviceKind;
use msgpath_stats::verdict::Verdict;

use super::slow_start_after_idle::congestion;
use super::trying::{ablation, from_to, halves_agree};
use super::wording::{again_set, finding, measured, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};
use crate::words::paired_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "W39", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    if !stays_here(input) {
        return Vec::new();
    }
    measured(input).filter(|case| case.case.traits.segments).filter_map(|case| say(input, case)).collect()
}

/// Whether the packets stay on this machine. Two ends on one machine may still be joined by a link.
fn stays_here(input: &Input) -> bool {
    let header = &input.run.header;
    let kind = header.floors.as_ref().and_then(|floors| Some(floors.route.as_ref()?.kind));
    let leaves = matches!(kind, Some(DeviceKind::Nic | DeviceKind::Tun));
    !leaves && header.one_machine()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let own = congestion(input, case)?;
    let ablation = ablation(input, case, |change| matches!(change, Change::Congestion(_)))?;
    let Change::Congestion(other) = &ablation.change else { return None };
    if !own.starts_with("bbr") || own == other {
        return None;
    }
    let ratio = &ablation.ratio;
    let (low, high) = (ratio.low?, ratio.high?);
    let better = match ablation.verdict {
        Verdict::Better => true,
        Verdict::Worse => false,
        Verdict::Equivalent | Verdict::Undecided => return None,
    };
    let meaning = if better {
        format!("{own} paces what it sends, and inside one machine there is no queue that this protects")
    } else {
        format!("here the pacing of {own} does not cost, it helps")
    };
    let text = format!(
        "{}tried here: {other} in the place of {own} brings {} ({}): {meaning}",
        prefix(input, case),
        from_to(input, ablation),
        paired_in_words(ratio, input.plan.metric()),
    );
    let agree = halves_agree(input, ablation);
    let numbers = [("ratio", ratio.value), ("low", low), ("high", high), ("p", ablation.p.unwrap_or(f64::NAN))];
    let next = if better { vec![again_set(&input.run.header, &format!("congestion={other}"))] } else { Vec::new() };
    let confidence = if agree { Confidence::Sure } else { Confidence::Likely };
    Some(finding("W39", confidence, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, route, sentences};
    use msgpath_core::plan::{CaseRole, Change};
    use msgpath_core::schema::{DeviceKind, FAR};
    use msgpath_record::Run;

    /// bbr, and an ablation of cubic with so much of its time.
    fn run(control: &str, factor: f64) -> Run {
        let build = Build::echo(&["tcp:send"], &[65_536]).ablation(0, Change::Congestion("cubic".into()));
        let mut run = build.factor(move |case| if case.role == CaseRole::Ablation { factor } else { 1.0 }).run();
        grant(&mut run, 0, "TCP_CONGESTION", "-", control);
        run
    }

    #[test]
    fn speaks_of_what_was_tried_with_ratio_and_interval() {
        let texts = sentences(&run("bbr", 0.7), &super::DETECTOR);
        assert!(
            texts[0].starts_with(
                "sure: Tried here: cubic in the place of bbr brings p50 from 20.0 µs to 14.0 µs (paired by pass 1.4"
            ),
            "{texts:?}"
        );
        assert!(
            texts[0].contains("times faster, 95 %: 1.4") && texts[0].contains("no queue that this protects"),
            "{texts:?}"
        );
        assert!(sentences(&run("bbr", 1.3), &super::DETECTOR)[0].contains("does not cost, it helps"));
    }

    #[test]
    fn is_silent_where_nothing_was_shown_or_tried() {
        assert!(sentences(&run("bbr", 1.0), &super::DETECTOR).is_empty());
        let mut untried = run("bbr", 0.7);
        untried.rounds.retain(|round| round.case == 0);
        assert!(sentences(&untried, &super::DETECTOR).is_empty());
        assert!(sentences(&run("reno", 0.7), &super::DETECTOR).is_empty());
    }

    #[test]
    fn is_silent_where_the_path_leaves_the_machine() {
        let mut link = run("bbr", 0.7);
        route(&mut link, DeviceKind::Nic, "eth0", "10.0.0.2");
        assert!(sentences(&link, &super::DETECTOR).is_empty());
        let mut away = run("bbr", 0.7);
        away.header.host_mut(FAR).boot_id = "two".into();
        assert!(sentences(&away, &super::DETECTOR).is_empty());
    }
}
