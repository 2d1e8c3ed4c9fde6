//! How an end traces its own kernel during the rounds of a session.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;

use msgpath_core::Unavailable;
use msgpath_core::schema::Tracing;

use super::control::SHORT_LOOK;
use crate::observe::{self, Tracer};
use crate::presence::Presence;
use crate::privileges::{Peer, Privilege};
use crate::team::{Team, no_thread};
use crate::wire::{RoundOrder, TraceOrder};

/// Makes a tracer ready, for whoever started this end. It sees more of this machine than a message: who runs when.
pub(super) fn trace(order: TraceOrder, peer: Peer, presence: &Presence) -> (Option<Tracer>, Tracing) {
    if peer.may(Privilege::Tracing) {
        return tracer(order, presence);
    }
    let why = "a far end traces its kernel for whoever started it, and for nobody else";
    let refused =
        vec![(observe::KERNEL.to_owned(), Unavailable::new(why, "--launch: msgpath starts the far end there"))];
    (None, Tracing { refused, ..Tracing::default() })
}

/// The same by a thread of its own: reading the types of a kernel and loading programs into it takes longer than a session may
/// outlive its control channel, and cannot be interrupted. Where nobody waits for it any more, the thread ends with what it has
/// made.
fn tracer(order: TraceOrder, presence: &Presence) -> (Option<Tracer>, Tracing) {
    let (room, stop) = (order.room.min(observe::MAX_CARRIED), Arc::clone(presence.flag()));
    let (done, opened) = channel();
    let opens = move || drop(done.send(Tracer::open_unless(order.set, room, &stop)));
    let refused = |why: Unavailable| Tracing { refused: vec![(observe::KERNEL.to_owned(), why)], ..Tracing::default() };
    if let Err(error) = Builder::new().name("tracer".into()).spawn(opens) {
        return (None, refused(no_thread(&error)));
    }
    loop {
        match opened.recv_timeout(SHORT_LOOK) {
            Ok(opened) => return opened,
            Err(RecvTimeoutError::Timeout) if !presence.is_gone() => {}
            Err(_) => return (None, refused(Unavailable::new("it was not waited for", ""))),
        }
    }
}

/// Begins to trace the threads of this end, where the round is one that is traced here. Whether it is.
pub(super) fn begin(tracer: &mut Option<Tracer>, order: &RoundOrder, team: &Team) -> Result<bool, Unavailable> {
    let Some(tracer) = tracer.as_mut().filter(|_| order.traced) else { return Ok(false) };
    let begun = tracer.begin(&[], team.traced(), observe::least_packet(order));
    begun.map_err(|error| observe::refused(&error))?;
    Ok(true)
}
