//! A round whose far end is a program of others: it is started, watched, and that is all.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use msgpath_core::Unavailable;
use msgpath_core::schema::{EndReport, EventCounts};

use super::kernel;
use super::round::host_of;
use crate::privileges::{Peer, Privilege};
use crate::program::{self, Programs};
use crate::wire::{FromEnd, RoundOrder};
use crate::{counters, speed};

/// A round with a program of others: it is watched, and that is all.
pub(super) struct Watched {
    order: Arc<RoundOrder>,
    speed_ns: u64,
    /// CPU time of its processes when the round began; `None`: it was not started here.
    cpu_ns: Option<u64>,
    before: counters::Sample,
}

/// A round with a program of others: makes it listen.
pub(super) fn watch(
    order: RoundOrder,
    peer: Peer,
    programs: &mut Programs,
    stop: &AtomicBool,
) -> Result<(Watched, FromEnd), Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    if !peer.may(Privilege::Programs) {
        return Err(Unavailable::new(
            "programs are started for whoever started this far end, and for nobody else",
            "start it there by hand: msgpath echo raw://HOST:PORT",
        ));
    }
    let host = host_of(&order, peer);
    let facts = programs.ready(&order, host.ip(), stop)?;
    let addresses = vec![facts.address.clone(); order.connections as usize];
    let offered = FromEnd::Offered { addresses, program: Some(Box::new(facts)) };
    let (speed_ns, before) = (speed::probe(), kernel().read());
    Ok((Watched { order: Arc::new(order), speed_ns, cpu_ns: None, before }, offered))
}

impl Watched {
    fn name(&self) -> &str {
        self.order.program.as_ref().map_or("", |program| &program.program.name)
    }

    pub(super) fn begin(&mut self, programs: &Programs) {
        self.before = kernel().read();
        self.cpu_ns = programs.cpu_time(&self.order);
    }

    /// What the program took. The CPU time is that of the whole round: of messages that were not measured as well.
    pub(super) fn end(self, programs: &mut Programs) -> FromEnd {
        let cpu_ns = programs.cpu_time(&self.order).zip(self.cpu_ns);
        let (kernel, watched_ns) = kernel().read().since(&self.before);
        if let Some(why) = programs.ended(&self.order) {
            return FromEnd::Failed(program::ended(self.name(), why).into());
        }
        let user_ns = cpu_ns.map_or(0, |(after, before)| after.saturating_sub(before));
        let report = Box::new(EndReport { user_ns, ..EndReport::default() });
        let (events, threads, stamps) = (EventCounts::new(), Vec::new(), Box::default());
        FromEnd::Done { report, kernel, watched_ns, speed_ns: self.speed_ns, events, threads, stamps, times: None }
    }
}
