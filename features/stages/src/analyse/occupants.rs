//! Who held the CPU while a receiver was runnable, and which idle state its CPU left.

use std::collections::BTreeMap;

use msgpath_core::schema::OtherTask;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bands::Attributed;
use super::split::{AWAKE, Host, Watch};
use super::stage::Kind;
use super::timeline::{State, Stretch};

/// Occupants that are named; the rest is one entry.
const NAMED: usize = 8;

/// A task that ran while a receiver was runnable.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Occupant {
    /// Its name; empty: several that are too small to name.
    pub name: String,
    /// Its thread id; 0: the CPU was idle.
    pub tid: i32,
    /// It is an end of this measurement.
    pub own: bool,
    /// Time for which it held the CPU, ns, all messages together.
    pub ns: u64,
    /// Share of the receivers' scheduling delay.
    pub share: f64,
}

/// Who held the CPU.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Occupants {
    /// While receivers of any message waited, the largest first.
    pub all: Vec<Occupant>,
    /// While receivers of slow messages waited (from p98.5 on).
    pub slow: Vec<Occupant>,
}

/// Adds up who ran, round by round.
#[derive(Debug, Default)]
pub(super) struct Seen {
    all: BTreeMap<Task, u64>,
    slow: BTreeMap<Task, u64>,
    names: BTreeMap<Task, (String, bool)>,
}

/// The end that traced it, and its thread id there.
type Task = (u8, i32);

/// A round's view of [`Seen`].
pub(super) struct OfRound<'a> {
    pub seen: &'a mut Seen,
    /// Whether a row of the round belongs to a slow message.
    pub slow: &'a dyn Fn(u32) -> bool,
}

impl Watch for OfRound<'_> {
    /// Each switch on the receiver's CPU names the task that held it until then; the last is the one that lets the
    /// receiver in.
    fn runnable(&mut self, host: &Host, receiver: usize, stretch: Stretch, row: u32) {
        let line = &host.lines[receiver];
        let Some(next) = line.changes.get(stretch.at + 1).filter(|next| next.state == State::Running) else { return };
        let Some(switches) = host.index.switches.get(&next.cpu) else { return };
        let first = switches.partition_point(|switch| switch.t_ns <= stretch.from_ns);
        let mut since = stretch.from_ns;
        let slow = (self.slow)(row);
        for switch in switches[first..].iter().take_while(|switch| switch.t_ns <= stretch.to_ns) {
            let ns = switch.t_ns - since;
            let task = (host.end, switch.previous);
            add(&mut self.seen.all, task, ns);
            if slow {
                add(&mut self.seen.slow, task, ns);
            }
            since = switch.t_ns;
        }
    }
}

fn add(held: &mut BTreeMap<Task, u64>, task: Task, ns: u64) {
    let sum = held.entry(task).or_default();
    *sum = sum.saturating_add(ns);
}

impl Seen {
    /// Names of a round's tasks as `end` traced them; `own`: the ends of the measurement.
    pub(super) fn name(&mut self, end: u8, tasks: &BTreeMap<i32, String>, own: &[i32]) {
        for (tid, name) in tasks {
            let own = own.binary_search(tid).is_ok();
            // Two hosts may run programs of the same name.
            let name = || if end > 0 && !own { format!("{name} (far end)") } else { name.clone() };
            self.names.entry((end, *tid)).or_insert_with(|| (name(), own));
        }
        for tid in own {
            self.names.entry((end, *tid)).or_insert_with(|| (String::new(), true)).1 = true;
        }
    }

    /// `others`: who used the CPUs as samples tell, for the names of tasks that had ended when the round was over.
    pub(super) fn finish(mut self, others: &[OtherTask]) -> Occupants {
        for OtherTask { pid, name, .. } in others {
            self.names.entry((0, *pid as i32)).or_insert_with(|| (name.clone(), false));
        }
        Occupants { all: self.ranked(&self.all), slow: self.ranked(&self.slow) }
    }

    fn ranked(&self, held: &BTreeMap<Task, u64>) -> Vec<Occupant> {
        let total: u64 = held.values().sum();
        // Restarts give an end another thread id; one program may have many threads: by name.
        let mut by_name: BTreeMap<(String, bool), (i32, u64, u64)> = BTreeMap::new();
        for (task, ns) in held {
            let tid = &task.1;
            let (name, own) = match self.names.get(task) {
                _ if *tid == 0 => ("idle".into(), false),
                Some((name, own)) => (name.clone(), *own),
                None => (format!("a task that has ended ({tid})"), false),
            };
            let entry = by_name.entry((name, own)).or_insert((*tid, 0, 0));
            if *ns > entry.2 {
                (entry.0, entry.2) = (*tid, *ns);
            }
            entry.1 += ns;
        }
        let share = |ns: u64| ns as f64 / total.max(1) as f64;
        let mut ranked: Vec<Occupant> = by_name
            .into_iter()
            .filter(|(_, (_, ns, _))| *ns > 0)
            .map(|((name, own), (tid, ns, _))| Occupant { name, tid, own, ns, share: share(ns) })
            .collect();
        ranked.sort_by_key(|occupant| std::cmp::Reverse(occupant.ns));
        let rest: u64 = ranked.iter().skip(NAMED).map(|occupant| occupant.ns).sum();
        ranked.truncate(NAMED);
        if rest > 0 {
            ranked.push(Occupant { name: String::new(), tid: -1, own: false, ns: rest, share: share(rest) });
        }
        ranked
    }
}

/// What was seen of wake-ups out of one idle state.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct IdleExit {
    /// Number of the idle state, as the kernel's driver counts them: 0 is the shallowest.
    pub state: u8,
    /// Wake-ups out of it.
    pub wakeups: u64,
    /// Mean time of the wake-up in flight, ns.
    pub in_flight_ns: f64,
    /// Share of the wake-ups of slow messages (from p98.5 on) that left this state.
    pub share_of_slow: f64,
    /// Share of the wake-ups of all other messages.
    pub share_of_others: f64,
}

/// Wake-ups by the idle state that they ended; empty where no idle state was seen. `slow`: by position in `attributed`.
pub(super) fn idle_exits(attributed: &[Attributed], slow: impl Fn(usize) -> bool) -> Vec<IdleExit> {
    let mut states: BTreeMap<u8, (u64, u64, [u64; 2])> = BTreeMap::new();
    let mut wakeups = [0_u64; 2];
    for (at, Attributed { split, .. }) in attributed.iter().enumerate() {
        let slow = usize::from(slow(at));
        for direction in [0, 1] {
            if !matches!(split.legs[direction].state, State::Blocked | State::Waking) {
                continue;
            }
            wakeups[slow] += 1;
            let idle = split.legs[direction].idle;
            if idle != AWAKE {
                let (count, ns, groups) = states.entry(idle).or_default();
                *count += 1;
                *ns += split.ns(direction, Kind::InFlight);
                groups[slow] += 1;
            }
        }
    }
    states
        .into_iter()
        .map(|(state, (count, ns, groups))| IdleExit {
            state,
            wakeups: count,
            in_flight_ns: ns as f64 / count.max(1) as f64,
            share_of_slow: groups[1] as f64 / wakeups[1].max(1) as f64,
            share_of_others: groups[0] as f64 / wakeups[0].max(1) as f64,
        })
        .collect()
}
