//! Of W28: both ends run on one CPU.

use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::units::Glyphs;

use super::conditions::one_machine;
use super::wording::{measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W28", detect };

/// The CPUs on which both threads of every connection run, where that is so: pinned alike, or only one to run on.
pub(super) fn shared_cpus(input: &Input) -> Option<Vec<u32>> {
    let plan = input.plan;
    let header = &input.run.header;
    let threads = measured(input).filter(|case| case.rounds > 0).map(|case| case.case.threads).max()?;
    if !one_machine(input) {
        return None;
    }
    // An unpinned end has a known CPU only where it is the only one.
    let cpu = |pinned: &[u32], allowed: &[u32], thread: u32| match (pinned, allowed) {
        ([], [only]) => Some(*only),
        ([], _) => None,
        (pinned, _) => Some(pinned[thread as usize % pinned.len()]),
    };
    let mut shared: Vec<u32> = (0..threads)
        .map(|thread| {
            let near = cpu(plan.placement.of(NEAR), &header.host(NEAR).cpus, thread)?;
            (cpu(plan.placement.of(FAR), &header.host(FAR).cpus, thread)? == near).then_some(near)
        })
        .collect::<Option<_>>()?;
    shared.sort_unstable();
    shared.dedup();
    Some(shared)
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(cpus) = shared_cpus(input) else { return Vec::new() };
    let only = input.run.header.host(NEAR).cpus.len() == 1;
    let floor = input.run.header.floors.as_ref().and_then(|floors| floors.switch_round_trip_ns);
    let mut text = match cpus.as_slice() {
        [cpu] if only => format!("both ends run on CPU {cpu}, the only one this program may use"),
        [cpu] => format!("both ends are pinned to CPU {cpu}"),
        _ => "both ends of every connection are pinned to one CPU".into(),
    };
    text.push_str(": the numbers are those of one core");
    if let Some(ns) = floor {
        text.push_str(&format!(", where a switch to the other end and back takes {}", Glyphs::Unicode.time(ns)));
    }
    let mut why = String::from(
        "the ends run in turn: a message costs a switch instead of a wake-up of another CPU, and nothing overlaps",
    );
    if measured(input).any(|case| case.case.traits.never_sleeps()) {
        why.push_str("; a wait that spins is hopeless there, it keeps the other end from answering");
    }
    let fix = if only {
        "more CPUs (taskset, cpuset of the container), if that is not how the program will run"
    } else {
        "two CPUs, for example --cpu 0,1, if that is not what you asked for"
    };
    let numbers = [("cpus", cpus.len() as f64), ("switch_round_trip_ns", floor.unwrap_or(f64::NAN))];
    vec![warning("W28", text, &why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::{FAR, NEAR};

    fn texts(pinned: (&[u32], &[u32]), cpus: &[u32], change: impl Fn(&mut msgpath_record::Run)) -> Vec<String> {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        build.plan.placement = Placement::pair(pinned.0.to_vec(), pinned.1.to_vec());
        let mut run = build.run();
        (run.header.host_mut(NEAR).cpus, run.header.host_mut(FAR).cpus) = (cpus.to_vec(), cpus.to_vec());
        change(&mut run);
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_where_both_ends_share_a_core() {
        assert_eq!(
            texts((&[2], &[2]), &[0, 1, 2], |_| ()),
            ["both ends are pinned to CPU 2: the numbers are those of one core"]
        );
        assert_eq!(texts((&[2, 3], &[2, 3]), &[2, 3], |_| ()).len(), 1);
        let texts = texts((&[], &[]), &[5], |run| {
            run.header.floors =
                Some(msgpath_core::schema::Floors { switch_round_trip_ns: Some(3_100.0), ..Default::default() });
        });
        assert_eq!(
            texts,
            [
                "both ends run on CPU 5, the only one this program may use: the numbers are those of one core, where a switch to the other end and back takes 3.10 µs"
            ]
        );
    }

    #[test]
    fn says_that_spinning_is_hopeless_there() {
        let mut build = Build::echo(&["tcp:send/spin"], &[64]);
        build.plan.placement = Placement::pair(vec![1], vec![1]);
        let warnings = crate::summarise(&build.run()).warnings;
        assert!(
            warnings.iter().any(|warning| warning.code == "W28" && warning.why.contains("hopeless")),
            "{warnings:?}"
        );
    }

    #[test]
    fn is_silent_on_two_cpus_and_on_two_machines() {
        assert!(texts((&[0], &[1]), &[0, 1], |_| ()).is_empty());
        assert!(texts((&[], &[]), &[0, 1], |_| ()).is_empty());
        assert!(texts((&[0], &[0]), &[0, 1], |run| run.header.host_mut(FAR).boot_id = "two".into()).is_empty());
    }
}
