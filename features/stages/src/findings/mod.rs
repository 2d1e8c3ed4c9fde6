//! Computed sentences on the stages of messages, one file each: the condition, the sentence, a test where it must speak and a test
//! where it must stay silent.

use msgpath_analyse::findings::wording::percent;
use msgpath_analyse::findings::{Detector, Input};

mod coalesced;
mod cold;
mod growth;
mod held_back;
mod incomplete;
mod observer;
mod preempted;
mod slow_stage;
mod woken_early;

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[
    slow_stage::DETECTOR,
    preempted::DETECTOR,
    cold::DETECTOR,
    held_back::DETECTOR,
    observer::DETECTOR,
    woken_early::DETECTOR,
    coalesced::DETECTOR,
    incomplete::DETECTOR,
];

/// Who else held a receiver's CPU longest in the traced rounds while the receiver was runnable, as a clause of a sentence.
pub fn holder(input: &Input<'_>) -> Option<String> {
    let held = growth::traced(input).flat_map(|(_, stages)| &stages.occupants.all);
    let others = held.filter(|task| !task.own && task.tid > 0 && task.share >= 0.01 && !task.name.is_empty());
    let task = others.max_by_key(|task| task.ns)?;
    let share = percent(task.share);
    Some(format!(
        ", mostly {} (thread {}, {share} % of the receivers' scheduling delay where it was traced)",
        task.name, task.tid
    ))
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::OtherTask;

    use crate::testing::{Found, Setup, sentences, traced};

    #[test]
    fn who_held_the_cpu_in_traced_rounds_is_named_where_samples_name_nobody() {
        let mut traced = traced(&Setup { found: vec![Found::Preempted], ..Setup::over("tcp:send") }, 50);
        let header = &mut traced.run.header;
        header.plan.placement = Placement::pair(vec![0], vec![1]);
        header.others_unseen = Some("/proc hides the tasks of others".into());
        for round in &mut traced.run.rounds {
            round.near_mut().involuntary_switches = 1000;
        }
        let texts = sentences(&traced, "W46");
        assert!(texts[0].contains(", mostly ffmpeg (thread 666, "), "{texts:?}");
        assert!(!texts[0].contains("n/a"), "{texts:?}");
        let task = OtherTask { pid: 4_711, name: "cc1plus".into(), share: 0.61, ..OtherTask::default() };
        traced.run.header.others = vec![task];
        let texts = sentences(&traced, "W46");
        assert!(texts[0].contains(", mostly cc1plus (pid 4711, 61 % of a CPU)"), "samples know the share: {texts:?}");
    }
}
