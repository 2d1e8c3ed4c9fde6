//! The traced twins of measured cases: the same once more, in rounds of their own, while the kernel is traced. Stages come
//! from the twin, and the ratio of the two says what tracing costs; the case itself is measured untouched.

use msgpath_core::plan::{CaseRole, Change, Load, Plan, StageSet, Trial, Workload};
use msgpath_core::schema::Tracing;
use msgpath_core::{Case, Unavailable};

/// Events of a message, there and back, that room is made for.
const EVENTS: [(StageSet, u64); 2] = [(StageSet::Light, 24), (StageSet::Full, 96)];
/// Room for a round at least: what else runs on these CPUs is traced as well.
const LEAST_ROOM: u64 = 1 << 16;

/// A twin for each measured case whose messages can be told apart in what the kernel says: echoes with one message under
/// way on a connection, or sent by a schedule.
pub fn twins(plan: &Plan) -> Vec<Case> {
    let Some(set) = plan.stages else { return Vec::new() };
    let first = plan.cases.len() as u32;
    let apart = |case: &&Case| case.load != Load::Closed || case.inflight == 1;
    plan.cases
        .iter()
        .filter(|case| case.role == CaseRole::Measured && plan.workload == Workload::Echo)
        .filter(apart)
        .enumerate()
        .map(|(at, case)| Case {
            id: first + at as u32,
            role: CaseRole::Trial,
            trial: Some(Trial { of: case.id, change: Change::Traced(set) }),
            ..case.clone()
        })
        .collect()
}

/// Events that a round of so many messages may have.
pub fn room(set: StageSet, messages: u64) -> usize {
    let each = EVENTS.iter().find(|(own, _)| *own == set).map_or(0, |(_, events)| *events);
    (messages * each).max(LEAST_ROOM) as usize
}

/// Why nothing is traced where the ends are on two machines.
pub fn two_machines() -> Tracing {
    let reason = Unavailable::new(
        "the ends run on two machines, and only this one could be traced",
        "both ends on one machine, in two network namespaces if need be",
    );
    Tracing { refused: vec![("kernel tracing".into(), reason)], ..Tracing::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::units::Pieces;

    fn plan(stages: Option<StageSet>) -> Plan {
        let case = |path: &str| Case::new(path.parse().unwrap(), Pieces::whole(64));
        let mut window = case("unix:send");
        window.inflight = 8;
        let cases = [case("tcp:send"), window, case("udp:send")];
        let cases = cases.into_iter().enumerate().map(|(at, case)| Case { id: at as u32, ..case }).collect();
        Plan { stages, ..Plan::new(Workload::Echo, cases) }
    }

    #[test]
    fn each_case_that_can_be_split_has_a_twin() {
        assert_eq!(twins(&plan(None)), []);
        let twins = twins(&plan(Some(StageSet::Light)));
        let of: Vec<(u32, u32)> = twins.iter().map(|twin| (twin.id, twin.trial.as_ref().unwrap().of)).collect();
        assert_eq!(of, [(3, 0), (4, 2)], "messages of a window cannot be told apart");
        assert!(twins.iter().all(|twin| Plan::traced(twin) == Some(StageSet::Light)));
        let stream = Plan { workload: Workload::Stream, ..plan(Some(StageSet::Full)) };
        assert_eq!(super::twins(&stream), []);
    }

    #[test]
    fn room_follows_the_set() {
        assert_eq!(room(StageSet::Light, 10), LEAST_ROOM as usize);
        assert!(room(StageSet::Full, 10_000) > room(StageSet::Light, 10_000));
    }
}
