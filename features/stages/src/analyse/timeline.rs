//! What a task did at any time, rebuilt from three scheduler events
//! (docs/method/attribution.md#the-state-of-a-receiver).

use msgpath_core::schema::{EventKind, KernelEvent};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// On a CPU.
    Running,
    /// On a run queue: it could run, and another task does.
    Runnable,
    /// Asleep.
    Blocked,
    /// Somebody has begun to wake it; it is not on a run queue yet.
    Waking,
}

impl State {
    /// All of them, in the order of `as usize`.
    pub const ALL: [State; 4] = [State::Running, State::Runnable, State::Blocked, State::Waking];

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Runnable => "runnable",
            State::Blocked => "blocked",
            State::Waking => "waking",
        }
    }
}

/// A task enters a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, ns since the start of the run.
    pub t_ns: u64,
    /// The state from then on.
    pub state: State,
    /// The CPU of the event: for [`State::Running`] the one on which the task runs.
    pub cpu: u16,
}

/// The states of one task in the order of time. Nothing is known before the first change.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The changes; two neighbours differ in state.
    pub changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub state: State,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Position of the change that began it in [`Timeline::changes`].
    pub at: usize,
}

impl Timeline {
    fn state(&self) -> Option<State> {
        self.changes.last().map(|change| change.state)
    }

    fn enter(&mut self, t_ns: u64, state: State, cpu: u16) {
        if self.state() != Some(state) {
            self.changes.push(Change { t_ns, state, cpu });
        }
    }

    /// The task was switched in. One that was blocked and that nobody woke never left the run queue: kernels since 5.18
    /// give a task that stays runnable because a signal is pending as asleep. `wakings`: `sched_waking` is recorded, so
    /// that its absence means something.
    fn switched_in(&mut self, t_ns: u64, cpu: u16, wakings: bool) {
        if let Some(asleep) = self.changes.pop_if(|last| wakings && last.state == State::Blocked) {
            self.enter(asleep.t_ns, State::Runnable, asleep.cpu);
        }
        self.enter(t_ns, State::Running, cpu);
    }

    /// The position of the last change at or before `t_ns`, looked for from `near` on: a reader that goes forward pays
    /// for the changes that it passes, not for all of them.
    pub fn before(&self, t_ns: u64, near: usize) -> Option<usize> {
        from(&self.changes, |change| change.t_ns <= t_ns, near).checked_sub(1)
    }

    /// Every nanosecond of `from_ns..to_ns` by state; nothing where the state at its start is not known. `near` is where
    /// to begin to look.
    pub fn stretches(&self, from_ns: u64, to_ns: u64, near: usize) -> impl Iterator<Item = Stretch> + '_ {
        let first = self.before(from_ns, near).unwrap_or(self.changes.len());
        let later = self.changes.get(first..).unwrap_or_default();
        later.iter().enumerate().take_while(move |(at, change)| *at == 0 || change.t_ns < to_ns).map(
            move |(at, change)| Stretch {
                state: change.state,
                from_ns: change.t_ns.max(from_ns),
                to_ns: later.get(at + 1).map_or(to_ns, |next| next.t_ns.min(to_ns)),
                at: first + at,
            },
        )
    }
}

/// The first position whose entry is not `before`, looked for from `near` on. `list` is sorted by what is asked.
pub(super) fn from<T>(list: &[T], before: impl Fn(&T) -> bool, near: usize) -> usize {
    /// So many steps are cheaper than a search.
    const STEPS: usize = 16;
    let near = near.min(list.len());
    if near > 0 && !before(&list[near - 1]) {
        return list[..near].partition_point(before);
    }
    let ahead = &list[near..];
    match ahead.iter().take(STEPS).position(|entry| !before(entry)) {
        Some(steps) => near + steps,
        None if ahead.len() <= STEPS => list.len(),
        None => near + ahead.partition_point(before),
    }
}

/// The timelines of `tasks` (thread ids, sorted) from the events of a round, which are in the order of time. `wakings`:
/// `sched_waking` is recorded.
pub fn timelines(events: &[KernelEvent], tasks: &[i32], wakings: bool) -> Vec<Timeline> {
    let mut lines = vec![Timeline::default(); tasks.len()];
    let find = |task: i32| tasks.binary_search(&task).ok();
    for event in events {
        match event.kind {
            EventKind::SchedSwitch => {
                if let Some(at) = find(event.tid) {
                    let state = if still_runnable(event) { State::Runnable } else { State::Blocked };
                    lines[at].enter(event.t_ns, state, event.cpu);
                }
                if let Some(at) = find(event.b as i32) {
                    lines[at].switched_in(event.t_ns, event.cpu, wakings);
                }
            }
            EventKind::SchedWaking => {
                if let Some(line) = find(event.b as i32).map(|at| &mut lines[at])
                    && line.state() == Some(State::Blocked)
                {
                    line.enter(event.t_ns, State::Waking, event.cpu);
                }
            }
            EventKind::SchedWakeup => {
                if let Some(line) = find(event.b as i32).map(|at| &mut lines[at])
                    && matches!(line.state(), Some(State::Blocked | State::Waking))
                {
                    line.enter(event.t_ns, State::Runnable, event.cpu);
                }
            }
            _ => {}
        }
    }
    lines
}

/// Whether the task that a switch takes from its CPU could go on: preempted, or in the state 0 (BPF gives the raw state,
/// perf and ftrace write 0x100 for preempted).
pub fn still_runnable(switch: &KernelEvent) -> bool {
    switch.flags & 1 != 0 || switch.a == 0 || switch.a == 0x100
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TASK: i32 = 70;

    fn event(t_ns: u64, kind: EventKind, tid: i32, a: u64, b: i32) -> KernelEvent {
        KernelEvent { t_ns, kind, tid, a, b: b as u32, cpu: 1, ..KernelEvent::default() }
    }

    fn states(events: &[KernelEvent]) -> Vec<(u64, State)> {
        timelines(events, &[TASK], true)[0].changes.iter().map(|change| (change.t_ns, change.state)).collect()
    }

    #[test]
    fn a_sleeper_is_woken() {
        let events = [
            event(10, EventKind::SchedSwitch, 5, 0, TASK),
            event(20, EventKind::SchedSwitch, TASK, 1, 0),
            event(30, EventKind::SchedWaking, 5, 0, TASK),
            event(40, EventKind::SchedWakeup, 0, 0, TASK),
            event(50, EventKind::SchedSwitch, 0, 0, TASK),
        ];
        use State::{Blocked, Runnable, Running, Waking};
        assert_eq!(states(&events), [(10, Running), (20, Blocked), (30, Waking), (40, Runnable), (50, Running)]);
        let line = &timelines(&events, &[TASK], true)[0];
        let charged: Vec<_> = line.stretches(25, 60, 0).map(|s| (s.state, s.to_ns - s.from_ns)).collect();
        assert_eq!(charged, [(Blocked, 5), (Waking, 10), (Runnable, 10), (Running, 10)]);
        assert_eq!(line.stretches(5, 60, 0).count(), 0, "nothing is known before the first switch");
        assert_eq!(line.stretches(55, 60, 4).map(|s| s.to_ns - s.from_ns).sum::<u64>(), 5);
    }

    #[test]
    fn the_preempted_are_not_woken() {
        let mut preempted = event(20, EventKind::SchedSwitch, TASK, 1, 8);
        preempted.flags = 1;
        let events = [
            event(10, EventKind::SchedSwitch, 5, 0, TASK),
            preempted,
            event(30, EventKind::SchedWaking, 5, 0, TASK),
            event(35, EventKind::SchedWakeup, 5, 0, TASK),
            event(90, EventKind::SchedSwitch, 8, 1, TASK),
        ];
        assert_eq!(states(&events), [(10, State::Running), (20, State::Runnable), (90, State::Running)]);
    }

    #[test]
    fn who_was_never_woken_never_slept() {
        let events = [
            event(10, EventKind::SchedSwitch, 5, 0, TASK),
            event(20, EventKind::SchedSwitch, TASK, 1, 8),
            event(90, EventKind::SchedSwitch, 8, 1, TASK),
        ];
        assert_eq!(states(&events)[1], (20, State::Runnable));
        // Without sched_waking its absence says nothing.
        assert_eq!(timelines(&events, &[TASK], false)[0].changes[1].state, State::Blocked);
    }

    proptest! {
        #[test]
        fn a_position_is_found_from_wherever_one_looks(
            mut list in prop::collection::vec(0_u32..200, 0..80),
            limit in 0_u32..200,
            near in 0_usize..90,
        ) {
            list.sort_unstable();
            prop_assert_eq!(from(&list, |x| *x < limit, near), list.partition_point(|x| *x < limit));
        }

        #[test]
        fn stretches_cover_every_nanosecond(
            steps in prop::collection::vec((1_u64..50, 0_u8..4, any::<bool>()), 1..60),
            start in 0_u64..100,
            length in 0_u64..2_000,
        ) {
            let mut t = 0;
            let events: Vec<KernelEvent> = steps
                .iter()
                .map(|(gap, what, preempted)| {
                    t += gap;
                    match what {
                        0 => event(t, EventKind::SchedSwitch, 5, 0, TASK),
                        1 => event(t, EventKind::SchedSwitch, TASK, u64::from(!preempted), 5),
                        2 => event(t, EventKind::SchedWaking, 5, 0, TASK),
                        _ => event(t, EventKind::SchedWakeup, 5, 0, TASK),
                    }
                })
                .collect();
            let line = &timelines(&events, &[TASK], true)[0];
            let parts: Vec<Stretch> = line.stretches(start, start + length, 3).collect();
            if line.changes.first().is_some_and(|first| first.t_ns <= start) {
                prop_assert_eq!(parts.iter().map(|part| part.to_ns - part.from_ns).sum::<u64>(), length);
                prop_assert!(parts.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
                prop_assert!(parts.windows(2).all(|pair| pair[0].state != pair[1].state));
            } else {
                prop_assert!(parts.is_empty());
            }
        }
    }
}
