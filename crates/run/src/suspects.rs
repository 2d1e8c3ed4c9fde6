//! Which causes are worth an ablation: what the pilot of the one measured case makes suspicious.
//!
//! An ablation is that case once more with one thing changed, in short rounds between its own, so that a sentence about a
//! cause rests on having switched it off.

use msgpath_core::plan::{Ablation, CaseRole, Change, Load, Plan};
use msgpath_core::schema::{FAR, NEAR, RunHeader};
use msgpath_core::{Case, PathName};
use msgpath_paths::registry::{Entry, traits};

use crate::pilot::Pace;

/// A median from here on is no longer a matter of system calls, ns: a timer is at work.
const TIMER_NS: u64 = 30_000_000;
/// From this size on the memory that a message lies in matters, bytes.
const LARGE: u64 = 4096;
/// From this size on pacing matters, bytes.
const PACED: u64 = 16 << 10;
/// Largest memory that an ablation rotates buffers over at each end, bytes: every round fills it anew.
const MOST_WORKING_SET: u64 = 64 << 20;

/// The ablations of a plan with one measured case; none for any other.
pub fn ablations(header: &RunHeader, pace: &Pace) -> Vec<Case> {
    let plan = &header.plan;
    let mut measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let (Some(case), None) = (measured.next(), measured.next()) else { return Vec::new() };
    if !plan.try_causes || case.load != Load::Closed {
        return Vec::new();
    }
    let changes = changes(header, case, pace);
    let first = plan.cases.len() as u32;
    changes
        .into_iter()
        .filter_map(|change| {
            let path = match change {
                Change::Spin => PathName { wait: case.traits.spinning_wait.clone(), ..case.path.clone() },
                _ => case.path.clone(),
            };
            Entry::find(&path)?.probe().ok()?;
            Some((path, change))
        })
        .enumerate()
        .map(|(at, (path, change))| Case {
            id: first + at as u32,
            role: CaseRole::Ablation,
            traits: traits(&path),
            path,
            ablation: Some(Ablation { of: case.id, change }),
            ..case.clone()
        })
        .collect()
}

fn changes(header: &RunHeader, case: &Case, pace: &Pace) -> Vec<Change> {
    let plan: &Plan = &header.plan;
    let tcp = case.traits.segments;
    let slow = pace.median_ns.is_some_and(|ns| ns > TIMER_NS);
    let options = plan.options_of(case);
    let mut changes = Vec::new();
    if tcp && options.hold_cork {
        changes.push(Change::NoCork);
    } else if tcp && slow && !options.nodelay {
        changes.push(Change::NoDelay);
    }
    if plan.workload.is_echoed() && !slow && plan.service_time.is_none() {
        changes.extend(wakes(header, case));
    }
    if tcp && (!plan.workload.timed || case.size >= PACED) && paces(pace) && knows_cubic(header) {
        changes.push(Change::Congestion("cubic".into()));
    }
    let cache = header.floors.as_ref().and_then(|floors| floors.last_level_cache);
    if let Some(past) = cache.map(|bytes| 2 * bytes).filter(|past| *past <= MOST_WORKING_SET)
        && case.size >= LARGE
        && plan.working_set == 0
    {
        changes.push(Change::WorkingSet(past.max(8 * case.size).min(MOST_WORKING_SET)));
    }
    changes
}

/// Where both ends sleep: the same without waking a CPU, and without sleeping.
fn wakes(header: &RunHeader, case: &Case) -> Vec<Change> {
    let placement = &header.plan.placement;
    let sleeps = !case.traits.never_sleeps();
    let apart = placement.of(NEAR).first() != placement.of(FAR).first();
    if !sleeps || !header.one_machine() || !apart || case.threads > 1 {
        return Vec::new();
    }
    vec![Change::SameCpu, Change::Spin]
}

/// Whether the kernel granted a congestion control that paces its segments.
fn paces(pace: &Pace) -> bool {
    pace.granted.iter().any(|granted| granted.option == "TCP_CONGESTION" && granted.granted.starts_with("bbr"))
}

fn knows_cubic(header: &RunHeader) -> bool {
    let available = |facts: &std::collections::BTreeMap<String, String>| {
        facts.get("tcp available congestion control").is_some_and(|names| names.split(' ').any(|name| name == "cubic"))
    };
    available(&header.host(NEAR).facts) && available(&header.host(FAR).facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Workload;
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::{Floors, Granted};
    use msgpath_core::units::Pieces;

    fn header(path: &str, size: u32) -> RunHeader {
        let mut plan = Plan::new(Workload::ECHO, vec![Case::new(path.parse().unwrap(), Pieces::whole(size))]);
        plan.declare(traits);
        plan.try_causes = true;
        plan.placement = Placement::pair(vec![0], vec![1]);
        let mut header = RunHeader::new("test", "echo", plan);
        for end in &mut header.hosts {
            end.facts.insert("tcp available congestion control".into(), "reno cubic bbr".into());
        }
        header
    }

    fn pace(median_ns: u64, congestion: &str) -> Pace {
        let granted = Granted {
            end: "near".into(),
            option: "TCP_CONGESTION".into(),
            asked: "-".into(),
            granted: congestion.into(),
            same: true,
        };
        Pace {
            message_ns: 1e4,
            trim: 0,
            settling: None,
            batch: 1,
            granted: vec![granted],
            median_ns: Some(median_ns),
            around_ns: 0,
        }
    }

    fn tried(header: &RunHeader, pace: &Pace) -> Vec<Change> {
        ablations(header, pace).into_iter().map(|case| case.ablation.unwrap().change).collect()
    }

    #[test]
    fn a_sleeping_echo_is_tried_on_one_cpu_and_without_sleep() {
        assert_eq!(tried(&header("tcp:send", 64), &pace(8_000, "cubic")), [Change::SameCpu, Change::Spin]);
        assert_eq!(tried(&header("tcp:send/spin", 64), &pace(8_000, "cubic")), []);
        let mut one_cpu = header("tcp:send", 64);
        one_cpu.plan.placement.set(FAR, vec![0]);
        assert_eq!(tried(&one_cpu, &pace(8_000, "cubic")), []);
        let spin = &ablations(&header("tcp:send", 64), &pace(8_000, "cubic"))[1];
        assert_eq!((spin.id, spin.role, spin.path.to_string().as_str()), (2, CaseRole::Ablation, "tcp:send/spin"));
    }

    #[test]
    fn a_timer_is_answered_by_its_cure() {
        let mut nagle = header("tcp:writes", 64);
        nagle.plan.options.nodelay = false;
        assert_eq!(tried(&nagle, &pace(44_000_000, "cubic")), [Change::NoDelay]);
        nagle.plan.options.hold_cork = true;
        assert_eq!(tried(&nagle, &pace(208_000_000, "cubic")), [Change::NoCork]);
    }

    #[test]
    fn pacing_and_caches_matter_for_large_messages() {
        let mut large = header("tcp:send/spin", 65_536);
        assert_eq!(tried(&large, &pace(50_000, "bbr")), [Change::Congestion("cubic".into())]);
        large.floors = Some(Floors { last_level_cache: Some(32 << 20), ..Floors::default() });
        assert_eq!(tried(&large, &pace(50_000, "cubic")), [Change::WorkingSet(64 << 20)]);
        large.floors = Some(Floors { last_level_cache: Some(260 << 20), ..Floors::default() });
        assert_eq!(tried(&large, &pace(50_000, "cubic")), []);
    }

    #[test]
    fn only_a_single_closed_case_is_explained() {
        let mut two = header("tcp:send", 64);
        two.plan.cases.push(Case { id: 1, ..two.plan.cases[0].clone() });
        assert_eq!(tried(&two, &pace(8_000, "bbr")), []);
        let mut silent = header("tcp:send", 64);
        silent.plan.try_causes = false;
        assert_eq!(tried(&silent, &pace(8_000, "bbr")), []);
    }
}
