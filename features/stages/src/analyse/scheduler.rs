//! The scheduler's table: what `perf sched timehist` shows for each thread, and the waiting that it does not count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::split::Host;
use super::timeline::State;

/// What one role of an end did in all traced rounds, between the first send and the last reply of each.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// `near end`, `far end`, with `, sends` or `, receives` where these are two threads.
    pub who: String,
    /// Threads of this role in a round.
    pub threads: u64,
    /// Messages that the times are shared by.
    pub messages: u64,
    /// On a CPU, ns.
    pub run_ns: u64,
    /// Asleep until somebody begins to wake it, ns.
    pub sleep_ns: u64,
    /// Being woken, ns.
    pub waking_ns: u64,
    /// Runnable after a wake-up: the 'sch delay' of `perf sched timehist`, ns.
    pub after_wakeup_ns: u64,
    /// Runnable after a preemption: part of its 'wait time', missing from its 'sch delay', ns.
    pub preempted_ns: u64,
    /// Times it was switched in.
    pub switches: u64,
    /// Times it was switched out while it could go on.
    pub preemptions: u64,
}

impl ThreadTimes {
    /// A sum for each message.
    pub fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.messages.max(1) as f64
    }

    /// Adds what the thread at this position of `host` did in `from_ns..to_ns`, by the clock there.
    pub(super) fn add(&mut self, host: &Host, thread: usize, (from_ns, to_ns): (u64, u64)) {
        let line = &host.lines[thread];
        // Before the first change nothing is known.
        let known = line.changes.first().map_or(to_ns, |first| first.t_ns.max(from_ns));
        let add = |sum: &mut u64, ns: u64| *sum = sum.saturating_add(ns);
        for stretch in line.stretches(known, to_ns, 0) {
            let ns = stretch.to_ns.saturating_sub(stretch.from_ns);
            let began = line.changes[stretch.at].t_ns >= from_ns;
            let before = stretch.at.checked_sub(1).map(|at| line.changes[at].state);
            match stretch.state {
                State::Running => {
                    add(&mut self.run_ns, ns);
                    self.switches += u64::from(began);
                }
                State::Blocked => add(&mut self.sleep_ns, ns),
                State::Waking => add(&mut self.waking_ns, ns),
                State::Runnable if before == Some(State::Running) => {
                    add(&mut self.preempted_ns, ns);
                    self.preemptions += u64::from(began);
                }
                State::Runnable => add(&mut self.after_wakeup_ns, ns),
            }
        }
    }
}
