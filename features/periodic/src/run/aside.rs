//! Messages by a clock beside the rounds of another run: its processes start anew each time it begins, on this machine, wherever the far
//! end of that run is.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::wire::{FromEnd, ToEnd};
use msgpath_core::parts::Part;
use msgpath_core::{Exit, Plan, Problem, Workload};
use msgpath_run::traffic::{Begun, Sent, Traffic, TrafficKind, Wanted, ended_by_itself};
use msgpath_run::{had, out_of_turn};

use super::collected::{Place, join};
use super::{Fleet, Periodic, across, available};
use crate::agent::orders::MAX_ROWS;
use crate::workload::PERIODIC;

/// For how long there are messages, ns: it begins before a round and ends after it.
const FOR_NS: u64 = 30_000_000_000;
/// A round with what is around it is over after this long, ns.
const LEAST_NS: u64 = 12_000_000_000;
/// What is still under way at the end is waited for this long, as at the end of a run of its own; what comes later is lost.
const GRACE: Duration = Duration::from_millis(500);

pub static KIND: Kind = Kind;

/// See [`TrafficKind`].
pub struct Kind;

impl Part for Periodic {
    const NAME: &'static str = "periodic";
}

/// Messages of each component beside another run, where all of them, so many, send one a period.
///
/// # Errors
/// A process cannot keep the times of so many.
pub fn messages(period_ns: u64, all: u32, components: u32) -> Result<u64, Problem> {
    let kept = MAX_ROWS / (u64::from(all) * u64::from(components)).max(1);
    let messages = (FOR_NS / period_ns.max(1)).clamp(1, kept);
    if messages.saturating_mul(period_ns) < LEAST_NS {
        let what = format!("{all} components with this period send more than a process keeps while a round lasts");
        return Err(Problem::new("E11", Exit::Usage, what).hint("a longer --period or a smaller -n"));
    }
    Ok(messages)
}

impl TrafficKind for Kind {
    fn workload(&self) -> &'static Workload {
        &PERIODIC
    }

    fn open(&self, wanted: Wanted<'_>) -> Result<Box<dyn Traffic>, Problem> {
        let mut plan = wanted.plan;
        plan.validate()?;
        plan.declare(msgpath_paths::traits);
        across(&mut plan.options);
        let periodic = wanted.parts.get::<Periodic>().cloned().ok_or_else(out_of_turn)?;
        let case = &plan.cases[0];
        periodic.validate(case.size)?;
        available(case, &plan.options, periodic.group.is_some()).map_err(|reason| {
            Problem::new("E05", Exit::CannotStart, format!("{}: {}", case.path, reason.why)).hint(reason.hint)
        })?;
        Ok(Box::new(Going { plan, periodic, begun: 0, fleet: None, over: Vec::new() }))
    }
}

/// It, and its processes while it goes on.
struct Going {
    plan: Plan,
    periodic: Periodic,
    /// How often it has begun.
    begun: u32,
    /// With when the first message was due.
    fleet: Option<(Fleet, Option<u64>)>,
    /// Processes whose round is over: those of a group that only receive say so at once, and go on receiving.
    over: Vec<bool>,
}

impl Traffic for Going {
    fn begin(&mut self, stop: &AtomicBool) -> Result<Begun, Problem> {
        let mut fleet = Fleet::start(&self.periodic, &self.plan, &self.plan.cases[0], self.begun)?;
        self.begun += 1;
        let go = fleet.go(&self.periodic, stop)?;
        self.over = vec![false; fleet.links.len()];
        self.fleet = Some((fleet, go));
        Ok(Begun::default())
    }

    fn look(&mut self) -> Result<(), Problem> {
        let Some((fleet, _)) = &mut self.fleet else { return Ok(()) };
        for (at, link) in fleet.links.iter_mut().enumerate() {
            let Some((said, _)) = link.hear(Duration::ZERO)? else { continue };
            match had(said, &fleet.names[at])? {
                FromEnd::Over if self.periodic.group.is_some() && at > 0 => self.over[at] = true,
                FromEnd::Over => return Err(ended_by_itself()),
                _ => return Err(out_of_turn()),
            }
        }
        Ok(())
    }

    fn measured(&mut self) -> Result<Vec<Sent>, Problem> {
        let Some((mut fleet, go)) = self.fleet.take() else { return Ok(Vec::new()) };
        // They go on sending meanwhile: what is under way waits behind what it would wait behind.
        std::thread::sleep(GRACE);
        fleet.all_told(&ToEnd::Finish)?;
        for at in (0..fleet.links.len()).filter(|at| !self.over[*at]) {
            let FromEnd::Over = fleet.answer(at)?.0 else { return Err(out_of_turn()) };
        }
        let all_collected = fleet.home(&self.periodic)?;
        let case = &self.plan.cases[0];
        let border = self.periodic.border(case, &self.plan.options);
        let place = Place { restart: 0, position: 0, begin: 0, go, border };
        let (rounds, _) = join(&self.periodic, case, all_collected, &place);
        let rows = rounds.into_iter().flat_map(|(_, rows)| rows);
        Ok(rows.map(|row| Sent { at_ns: row.start_ns, took_ns: row.latency_ns }).collect())
    }

    fn end(&mut self) -> Result<(), Problem> {
        // Dropped, they end.
        let Some((mut fleet, _)) = self.fleet.take() else { return Ok(()) };
        fleet.all_told(&ToEnd::Bye)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_messages_for_longer_than_a_round() {
        assert_eq!(messages(10_000_000, 4, 1).unwrap(), 3_000);
        // 64 components keep 23,437 messages each, which are 12 s from a period of 0.52 ms on.
        assert_eq!(messages(1_000_000, 64, 1).unwrap(), MAX_ROWS / 64);
        assert!(messages(500_000, 64, 1).is_err());
        assert_eq!(messages(60_000_000_000, 2, 1).unwrap(), 1);
    }
}
