//! The lab: network namespaces on this machine, joined by virtual links, with addresses of their own.
//!
//! Two kinds. A lab that somebody puts up by hand has names (`/run/netns/NAME`) and stays until it is taken down. A lab
//! that a run makes for itself has none: its namespaces are held by the processes of the run and end with them, whatever
//! ends these, so nothing can be left behind.

mod held;
mod iproute;
mod kept;
mod napi;
mod offloads;
mod relay;
pub mod shape;
mod spec;

pub(crate) use held::{HOLDER, HeldLab, hold};
pub(crate) use iproute::addresses;
pub(crate) use kept::{KeptLab, LabRelay, LabState, LostRelay};
pub(crate) use relay::{ROLE as RELAY, RelayedPackets, serve as relay};
pub(crate) use shape::Shape;
pub(crate) use spec::LabSpec;

/// Whether what is asked takes msgpath's relay. Called where new namespaces may be made.
fn needs_relay(shape: &Shape) -> bool {
    shape.wants_netem() && (shape.netem == Some(false) || !iproute::has_netem())
}
