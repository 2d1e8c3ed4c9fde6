//! Traffic that is a round of a pair of ends of its own, begun and ended between the rounds of another pair. Where its messages are timed,
//! it says what became of each when it ends.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::loops::{LOST, Row};
use msgpath_agent::wire::{FromEnd, ToEnd, UNTIL_TOLD};
use msgpath_core::{Exit, Plan, Problem};
use msgpath_paths::registry::traits;

use crate::link::{Pair, Side};
use crate::orders::Orders;
use crate::round::{RoundError, make_ready, near_report, out_of_turn};
use crate::traffic::{self, Begun, Sent, Traffic, Wanted};

/// Most messages whose times are kept of each thread, the first ones.
const KEPT: usize = 1 << 19;

/// Two ends that send to each other while others measure.
pub(crate) struct Background {
    pair: Pair,
    plan: Plan,
    messages: u64,
    goes: bool,
}

impl Background {
    /// # Errors
    /// The plan cannot be, or an end does not answer.
    pub(crate) fn open(wanted: Wanted<'_>) -> Result<Self, Problem> {
        let Wanted { target, mut plan, messages, lease, .. } = wanted;
        plan.validate()?;
        plan.declare(traits);
        let mut pair = Pair::open(target, &plan.options)?;
        pair.near.lasts(lease)?;
        pair.far.lasts(lease)?;
        Ok(Self { pair, plan, messages, goes: false })
    }

    fn leave(&mut self, side: Side) -> Result<(), Problem> {
        self.pair.link(side).send(&ToEnd::Leave)?;
        // That its connection broke was said before.
        while !matches!(self.pair.answer(side)?.0, FromEnd::Left) {}
        Ok(())
    }
}

impl Traffic for Background {
    fn begin(&mut self, stop: &AtomicBool) -> Result<Begun, Problem> {
        let orders = Orders { plan: &self.plan, one_clock: true, spare: &[], stop, usual_ns: None };
        let case = &self.plan.cases[0];
        let (mut order, own) = (orders.round(case, self.messages, 0), orders.own(case, 1, KEPT, 0));
        if self.plan.workload.timed {
            order.patience_ns = UNTIL_TOLD;
        }
        let ready = make_ready(&mut self.pair, &order, &own).map_err(|error| match error {
            RoundError::Problem(problem) => problem,
            RoundError::Unavailable(reason) => {
                Problem::new("E05", Exit::CannotStart, format!("{}: {}", case.path, reason.why)).hint(reason.hint)
            }
            RoundError::Stopped => interrupted(),
        })?;
        self.pair.near.send(&ToEnd::Go)?;
        self.goes = true;
        let cookies = [ready.near_threads, ready.far_threads]
            .map(|threads| threads.into_iter().flat_map(|thread| thread.cookies).collect());
        Ok(Begun { data: self.pair.data.clone(), cookies })
    }

    fn look(&mut self) -> Result<(), Problem> {
        self.pair.keep_alive()?;
        match self.pair.near.hear(Duration::ZERO)? {
            None => Ok(()),
            Some((FromEnd::Failed(failure), _)) => Err(failure.into()),
            Some((FromEnd::Unavailable(reason), _)) => {
                Err(Problem::new("E05", Exit::Unfinished, reason.why).hint(reason.hint))
            }
            Some((FromEnd::Over, _)) => Err(traffic::ended_by_itself()),
            Some(_) => Err(out_of_turn()),
        }
    }

    fn measured(&mut self) -> Result<Vec<Sent>, Problem> {
        if !std::mem::take(&mut self.goes) {
            return Ok(Vec::new());
        }
        self.pair.near.send(&ToEnd::Finish)?;
        let report = near_report(&mut self.pair, Side::Near).map_err(|error| match error {
            RoundError::Problem(problem) => problem,
            RoundError::Unavailable(reason) => Problem::new("E05", Exit::Unfinished, reason.why).hint(reason.hint),
            RoundError::Stopped => interrupted(),
        })?;
        self.leave(Side::Far)?;
        let sent = |row: &Row| Sent { at_ns: row.start, took_ns: (row.latency != LOST).then_some(row.latency) };
        Ok(report.rows.iter().flat_map(|rows| rows.rows.iter().map(sent)).collect())
    }

    /// Its connections are closed, first where what is under way goes to, so that it is dropped there.
    fn end(&mut self) -> Result<(), Problem> {
        if !std::mem::take(&mut self.goes) {
            return Ok(());
        }
        let sides = if self.plan.reverse { [Side::Near, Side::Far] } else { [Side::Far, Side::Near] };
        sides.into_iter().try_for_each(|side| self.leave(side))
    }
}

fn interrupted() -> Problem {
    Problem::new("E15", Exit::Interrupted, "interrupted")
}
