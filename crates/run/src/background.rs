//! Traffic beside the rounds of another pair of ends: a round of a pair of its own that is begun and ended between theirs, and of
//! which nobody asks what it has measured.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_agent::wire::{FromEnd, ToEnd};
use msgpath_core::schema::DataRoute;
use msgpath_core::{Exit, Plan, Problem, Target};
use msgpath_paths::registry::traits;

use crate::link::{Pair, Side};
use crate::orders::Orders;
use crate::round::{RoundError, make_ready, out_of_turn};

/// Two ends that send to each other while others measure.
pub struct Background {
    pair: Pair,
    plan: Plan,
    messages: u64,
    goes: bool,
}

/// What it began with.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// Where its connections go; `None`: they stay on this machine, outside any namespace of a run.
    pub data: Option<DataRoute>,
    /// SO_COOKIE of the sockets of the near and the far end.
    pub cookies: [Vec<u64>; 2],
}

impl Background {
    /// Ends for the one case of `plan`, which sends so many messages on each connection at most. They live for `lease` while nobody looks.
    ///
    /// # Errors
    /// The plan cannot be, or an end does not answer.
    pub fn open(target: &Target, mut plan: Plan, messages: u64, lease: Duration) -> Result<Self, Problem> {
        plan.validate()?;
        plan.declare(traits);
        let mut pair = Pair::open(target, &plan.options)?;
        pair.near.lasts(lease)?;
        pair.far.lasts(lease)?;
        Ok(Self { pair, plan, messages, goes: false })
    }

    /// Begins to send.
    ///
    /// # Errors
    /// It cannot send here, or an end is gone.
    pub fn begin(&mut self, stop: &AtomicBool) -> Result<Begun, Problem> {
        let orders = Orders { plan: &self.plan, one_clock: true, spare: &[], stop };
        let case = &self.plan.cases[0];
        let (order, own) = (orders.round(case, self.messages, 0), orders.own(case, 1, 0, 0));
        let ready = make_ready(&mut self.pair, &order, &own).map_err(|error| match error {
            RoundError::Problem(problem) => problem,
            RoundError::Unavailable(reason) => {
                Problem::new("E05", Exit::CannotStart, format!("{}: {}", case.path, reason.why)).hint(reason.hint)
            }
            RoundError::Stopped => Problem::new("E15", Exit::Interrupted, "interrupted"),
        })?;
        self.pair.near.send(&ToEnd::Go)?;
        self.goes = true;
        let cookies = [ready.near_threads, ready.far_threads]
            .map(|threads| threads.into_iter().flat_map(|thread| thread.cookies).collect());
        Ok(Begun { data: self.pair.data.clone(), cookies })
    }

    /// Looks after both ends, without waiting.
    ///
    /// # Errors
    /// It does not send any more, or an end is gone.
    pub fn look(&mut self) -> Result<(), Problem> {
        self.pair.keep_alive()?;
        match self.pair.near.hear(Duration::ZERO)? {
            None => Ok(()),
            Some((FromEnd::Failed(failure), _)) => Err(failure.into()),
            Some((FromEnd::Unavailable(reason), _)) => {
                Err(Problem::new("E05", Exit::Unfinished, reason.why).hint(reason.hint))
            }
            Some((FromEnd::Over, _)) => {
                Err(Problem::new("E17", Exit::Unfinished, "the traffic beside the rounds ended by itself")
                    .why("one of its ends has closed, or all of its messages were sent"))
            }
            Some(_) => Err(out_of_turn()),
        }
    }

    /// Ends it: its connections are closed, first where what is under way goes to, so that it is dropped there.
    ///
    /// # Errors
    /// An end is gone.
    pub fn end(&mut self) -> Result<(), Problem> {
        if !std::mem::take(&mut self.goes) {
            return Ok(());
        }
        let sides = if self.plan.reverse { [Side::Near, Side::Far] } else { [Side::Far, Side::Near] };
        for side in sides {
            let link = if side == Side::Near { &mut self.pair.near } else { &mut self.pair.far };
            link.send(&ToEnd::Leave)?;
            // That its connection broke was said before.
            while !matches!(self.pair.answer(side)?.0, FromEnd::Left) {}
        }
        Ok(())
    }
}
