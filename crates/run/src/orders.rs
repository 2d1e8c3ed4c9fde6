//! What each end is told of a round: from plan, case and pass to the order for the far end and the near end's own.

use msgpath_core::schema::{FAR, NEAR};
use std::sync::atomic::AtomicBool;

use msgpath_core::Case;
use msgpath_core::plan::{ChannelOptions, Load, Plan, Stamps};
use msgpath_core::schedule::seed;

use crate::link::Pair;
use crate::round::{Round, RoundError, round};
use msgpath_agent::observe::Tracer;
use msgpath_agent::wire::{self, OPEN_BUFFERS, Own, ProgramOrder, RoundOrder};
use msgpath_sys::say;

/// A round beside other traffic whose connections are not made is tried again so often.
const TRIES: u32 = 3;

/// Makes the orders of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Orders<'a> {
    pub plan: &'a Plan,
    /// Both ends read one CLOCK_MONOTONIC.
    pub one_clock: bool,
    /// CPUs that are neither end's: the senders of open loops run there.
    pub spare: &'a [u32],
    /// Set when the user interrupts.
    pub stop: &'a AtomicBool,
    /// How long a round of an open loop usually takes to make ready, ns, where that is known.
    pub usual_ns: Option<u64>,
}

impl Orders<'_> {
    /// What the far end is told.
    pub fn round(&self, case: &Case, messages: u64, trim: u64) -> RoundOrder {
        let plan = self.plan;
        let traced = Plan::traced(case).is_some();
        RoundOrder {
            workload: plan.workload,
            reverse: plan.reverse,
            path: case.path.clone(),
            pieces: case.pieces,
            reply: case.reply,
            connections: case.connections,
            threads: case.threads,
            dispatch: case.dispatch,
            inflight: match case.load {
                Load::Closed => case.inflight,
                Load::Open { .. } => case.inflight.min(OPEN_BUFFERS),
            },
            messages,
            trim,
            patience_ns: 0,
            timed: None,
            cpus: plan.placement_of(case).of(FAR).to_vec(),
            stamps: if traced { Stamps::Both } else { plan.stamps },
            departures: traced || !self.one_clock,
            traced,
            urgent: Plan::urgent(case),
            events: Plan::counted(case),
            // What starts the ends and lets them in is not theirs to know.
            options: ChannelOptions { launch: None, token_file: None, clients: Vec::new(), ..plan.options_of(case) },
            service_time: plan.service_time_of(case),
            seed: seed(plan.seed, case.id, 0, u32::MAX),
            working_set: plan.working_set_of(case),
            program: plan
                .program_of(case)
                .map(|program| Box::new(ProgramOrder { program: program.clone(), talk: plan.talk.clone() })),
            parts: plan.parts.clone(),
        }
    }

    /// What the near end knows for itself; of an open loop without what rounds before have left.
    pub fn own(&self, case: &Case, batch: u64, keep: usize, pass: u32) -> Own {
        let load = match case.load {
            Load::Closed => None,
            Load::Open { rate, arrivals } => Some(wire::Load {
                gap_ns: rate.gap_ns() * f64::from(case.connections),
                arrivals,
                seed: (self.plan.seed, case.id, pass),
                cpus: self.spare.to_vec(),
                most: case.inflight.into(),
                debts: Vec::new(),
            }),
        };
        Own { near: true, cpus: self.plan.placement_of(case).of(NEAR).to_vec(), batch, keep, load }
    }

    /// Measures a round; `tracer` listens to the kernel meanwhile.
    ///
    /// # Errors
    /// As `round`.
    pub fn measure(
        &self,
        pair: &mut Pair,
        order: &RoundOrder,
        own: &Own,
        mut tracer: Option<&mut Tracer>,
    ) -> Result<Round, RoundError> {
        let mut tried = 0;
        loop {
            match round(pair, order, own, (self.one_clock, self.usual_ns), tracer.as_deref_mut(), self.stop) {
                Err(RoundError::Unavailable(reason)) if self.plan.beside && tried < TRIES => {
                    tried += 1;
                    say!("note: {}: {}; tried again ({tried} of {TRIES})", order.path, reason.why);
                }
                done => return done,
            }
        }
    }
}
