//! The replicas of measured cases: the same once more, in rounds of their own, while the kernel is traced or events are
//! counted. Stages and counts come from the replica, and the ratio of the two says what watching costs; the case itself is
//! measured untouched.

use msgpath_core::Case;
use msgpath_core::plan::{Ablation, CaseRole, Change, Load, MAX_ROUNDS, Plan, StageSet};
use msgpath_core::schema::EventFacts;

use msgpath_agent::events;

/// Events of a message, there and back, that room is made for.
const EVENTS: [(StageSet, u64); 2] = [(StageSet::Light, 24), (StageSet::Full, 96)];
/// Room for a round at least: what else runs on these CPUs is traced as well.
const LEAST_ROOM: u64 = 1 << 16;

/// A replica for each measured case whose messages can be told apart in what the kernel says: echoes with one message under
/// way on a connection, or sent by a schedule. Without a common clock: over a device.
pub fn traced(plan: &Plan, one_clock: bool) -> Vec<Case> {
    let Some(set) = plan.stages else { return Vec::new() };
    let apart = |case: &Case| case.load != Load::Closed || case.inflight == 1;
    // Where each end traces itself, a message is what left one and came to the other.
    let seen = |case: &Case| one_clock || case.traits.stack.has_device();
    replicas(plan, &Change::Traced(set), |case| plan.workload.stages.is_ok() && apart(case) && seen(case))
}

/// A replica for each measured case of a phase in whose rounds events are counted. None where the plan has no room left for
/// their rounds.
pub fn counted(plan: &Plan, phase: u32) -> Vec<Case> {
    if !plan.events {
        return Vec::new();
    }
    let replicas = replicas(plan, &Change::Counted, |case| case.phase == phase);
    let with = Plan { cases: plan.cases.iter().chain(&replicas).cloned().collect(), ..plan.clone() };
    if with.total_rounds() > MAX_ROUNDS { Vec::new() } else { replicas }
}

fn replicas(plan: &Plan, change: &Change, suits: impl Fn(&Case) -> bool) -> Vec<Case> {
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured && suits(case));
    let replica = |(id, case): (u32, &Case)| Case {
        id,
        role: CaseRole::Ablation,
        ablation: Some(Ablation { of: case.id, change: change.clone() }),
        ..case.clone()
    };
    (plan.cases.len() as u32..).zip(measured).map(replica).collect()
}

/// What of the events that both ends can count is counted: all where it was asked for or where one end has a CPU that
/// counts, else none. What is refused keeps its reason. Returns whether any is.
pub fn choose_events(forced: bool, ends: [&mut EventFacts; 2]) -> bool {
    let on = forced || ends.iter().any(|facts| facts.counted.iter().any(|name| events::is_hardware(name)));
    if !on {
        ends.into_iter().for_each(|facts| facts.counted.clear());
    }
    on
}

/// Events that a round of so many messages may have.
pub fn room(set: StageSet, messages: u64) -> usize {
    let each = EVENTS.iter().find(|(own, _)| *own == set).map_or(0, |(_, events)| *events);
    (messages * each).max(LEAST_ROOM) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Unavailable;
    use msgpath_core::Workload;
    use msgpath_core::traits::Stack;
    use msgpath_core::units::Pieces;

    fn plan(stages: Option<StageSet>) -> Plan {
        let case = |path: &str| Case::new(path.parse().unwrap(), Pieces::whole(64));
        let mut window = case("unix:send");
        window.inflight = 8;
        let cases = [case("tcp:send"), window, case("udp:send")];
        let cases = cases.into_iter().enumerate().map(|(at, case)| Case { id: at as u32, ..case }).collect();
        Plan { stages, ..Plan::new(Workload::ECHO, cases) }
    }

    #[test]
    fn each_case_that_can_be_split_has_a_replica() {
        assert_eq!(traced(&plan(None), true), []);
        let replicas = traced(&plan(Some(StageSet::Light)), true);
        let of: Vec<(u32, u32)> =
            replicas.iter().map(|replica| (replica.id, replica.ablation.as_ref().unwrap().of)).collect();
        assert_eq!(of, [(3, 0), (4, 2)], "messages of a window cannot be told apart");
        assert!(replicas.iter().all(|replica| Plan::traced(replica) == Some(StageSet::Light)));
        let stream = Plan { workload: Workload::STREAM, ..plan(Some(StageSet::Full)) };
        assert_eq!(traced(&stream, true), []);
        let mut apart = plan(Some(StageSet::Light));
        apart.cases[0].traits.stack = Stack::Network;
        let replicas = traced(&apart, false);
        assert!(replicas.len() == 1 && replicas[0].path == apart.cases[0].path, "{replicas:?}");
    }

    #[test]
    fn events_are_counted_in_rounds_of_their_own() {
        let mut plan = plan(None);
        let replicas = counted(&plan, 0);
        assert!(replicas.iter().all(Plan::counted) && replicas.len() == 3, "{replicas:?}");
        assert_eq!(counted(&plan, 1), [], "each phase has its own");
        plan.cases.extend(replicas);
        assert_eq!(plan.validate(), Ok(()));
        let passes = |case: usize| (0..plan.rounds).filter(|pass| plan.measures_in(&plan.cases[case], *pass)).count();
        assert_eq!((passes(0), passes(3)), (40, 8));
        assert_eq!(plan.total_rounds(), 3 * 40 + 3 * 8);
        plan.rounds = 8;
        assert_eq!(plan.total_rounds(), 6 * 8);
        (plan.cases, plan.rounds) = (plan.cases[..3].to_vec(), 6_000);
        assert_eq!(counted(&plan, 0), [], "there is no room for more rounds");
        (plan.rounds, plan.events) = (40, false);
        assert_eq!(counted(&plan, 0), []);
    }

    #[test]
    fn without_a_cpu_that_counts_only_a_wish_turns_counting_on() {
        let facts = |names: &[&str]| EventFacts {
            counted: names.iter().map(|name| (*name).to_owned()).collect(),
            refused: vec![("cycles".into(), Unavailable::new("no PMU driver: ENOENT", ""))],
            user_only: false,
        };
        let software = facts(&["context-switches", "page-faults"]);
        let (mut near, mut far) = (software.clone(), software.clone());
        assert!(!choose_events(false, [&mut near, &mut far]));
        assert!(near.counted.is_empty() && far.counted.is_empty() && near.refused.len() == 1);
        let (mut near, mut far) = (software.clone(), software.clone());
        assert!(choose_events(true, [&mut near, &mut far]) && near == software);
        let (mut near, mut far) = (software, facts(&["cpu_core/instructions/"]));
        assert!(choose_events(false, [&mut near, &mut far]) && !near.counted.is_empty());
    }

    #[test]
    fn room_follows_the_set() {
        assert_eq!(room(StageSet::Light, 10), LEAST_ROOM as usize);
        assert!(room(StageSet::Full, 10_000) > room(StageSet::Light, 10_000));
    }
}
