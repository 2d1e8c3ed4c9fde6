//! Privileges of a session: what the client at the other end of the control channel may order. docs/serve.md#who-may-order-what has
//! the same table for people.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use msgpath_core::Unavailable;
use msgpath_core::doctor::Examine;
use msgpath_paths::{TransportMeta, traits};
use msgpath_sys::affinity;

use crate::memory::{Budget, Share};
use crate::wire::RoundOrder;

/// The client, as far as the control channel tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Address of this end, for transports over IP.
    pub host: Option<SocketAddr>,
    /// Address of the client.
    pub address: Option<SocketAddr>,
    /// From where it came.
    pub reach: Reach,
    /// It has proven that it has the token of this server.
    pub proven: bool,
}

/// From where the client came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// A pipe from the process that started this one, or a Unix socket of the same user.
    #[default]
    Own,
    /// The coordinator that this agent came to by itself, which has proven to have its token.
    Joined,
    /// A program on this machine, perhaps another user's, perhaps the end of a tunnel.
    Machine,
    /// Any host.
    Network,
}

/// What can be ordered beside messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// Programs are started.
    Programs,
    /// The kernel is traced.
    Tracing,
    /// Lower bounds are measured.
    LowerBounds,
    /// A role of a feature is played: it connects to whatever its orders name.
    Roles,
    /// The client names the address of the other end; a coordinator has none that others see.
    OtherAddress,
    /// This end connects to an address that the client names.
    Connecting,
    /// The same over IP, without a program of others.
    ConnectingOverIp,
    /// CPUs on which this process does not run by itself: those that taskset(1) took from it.
    OtherCpus,
    /// nice -20 for the measuring threads.
    Priority,
    /// Threads that keep their CPUs, without a limit on their number.
    Spinning,
}

impl Peer {
    /// The table.
    pub(crate) fn may(self, privilege: Privilege) -> bool {
        let parent = self.reach == Reach::Own;
        match privilege {
            Privilege::Programs
            | Privilege::Tracing
            | Privilege::LowerBounds
            | Privilege::Roles
            | Privilege::OtherAddress
            | Privilege::Connecting
            | Privilege::OtherCpus => parent,
            Privilege::ConnectingOverIp => parent || self.reach == Reach::Joined,
            Privilege::Priority | Privilege::Spinning => parent || self.reach == Reach::Joined || self.proven,
        }
    }

    /// Whether this round may be ordered.
    ///
    /// # Errors
    /// Why not, and what to do instead.
    pub(crate) fn may_order(self, order: &RoundOrder, meta: &TransportMeta) -> Result<(), Unavailable> {
        self.reach.allows(meta)?;
        if order.urgent && !self.may(Privilege::Priority) {
            return Err(Unavailable::new(
                "the far end gives a higher priority (nice -20) to who started it or has its token",
                WITH_TOKEN,
            ));
        }
        if !self.may(Privilege::OtherCpus) {
            let allowed = affinity::allowed();
            if let Some(other) = order.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(Unavailable::new(
                    format!("the far end does not run on CPU {other}"),
                    "other CPUs with --cpu",
                ));
            }
        }
        Ok(())
    }
}

impl Reach {
    /// Whether paths of this transport may be ordered.
    fn allows(self, meta: &TransportMeta) -> Result<(), Unavailable> {
        let name = meta.meta.name;
        let refused = |why| Err(Unavailable::new(why, format!("both ends on one machine: msgpath echo -x {name}")));
        match self {
            Reach::Machine if meta.device => {
                refused(format!("{name} sends to a network device: not for whoever may connect to this far end"))
            }
            Reach::Joined | Reach::Network if !meta.inet => {
                refused(format!("{name} does not run over IP, and this far end was reached over a network"))
            }
            _ => Ok(()),
        }
    }
}

/// How a client gets the privileges of the user who started `serve`.
const WITH_TOKEN: &str = "there msgpath serve --token-file FILE, and --token-file FILE here";

impl RoundOrder {
    /// Threads of this end that keep a CPU while no message is there, and the kernel's that do so for it.
    fn spinning(&self) -> u64 {
        let traits = traits(&self.path);
        let own = traits.spins || traits.polls_device || self.service_time.is_some();
        let kernel = if traits.polled { self.connections } else { 0 };
        u64::from(if own { self.threads } else { 0 }) + u64::from(kernel)
    }
}

/// The CPUs that clients without a token may keep busy: all but one of this process, and where it has one only, that one. Every
/// session of a `serve` shares them; a round gives them back at its end, which the limit on its length brings.
#[derive(Clone, Debug)]
pub struct Spinning {
    cpus: u64,
    free: Arc<Budget>,
    /// One examination at a time: each spins as well.
    examining: Arc<Mutex<()>>,
}

impl Default for Spinning {
    fn default() -> Self {
        Self::new(affinity::allowed().len() as u64)
    }
}

impl Spinning {
    /// On a machine with so many CPUs.
    pub fn new(cpus: u64) -> Self {
        let cpus = cpus.saturating_sub(1).max(1);
        Self { cpus, free: Budget::new(cpus), examining: Arc::default() }
    }

    /// Takes the CPUs of a round.
    ///
    /// # Errors
    /// They are more than there are, or than others leave at the moment.
    pub(crate) fn take(&self, order: &RoundOrder) -> Result<Option<Share>, Unavailable> {
        let threads = order.spinning();
        if threads == 0 {
            return Ok(None);
        }
        self.free.share(threads).map(Some).map_err(|left| {
            let cpus = self.cpus;
            Unavailable::new(
                format!(
                    "the round keeps {threads} CPUs of the far end busy; clients without a token get {cpus} together, of which \
                     {left} are free"
                ),
                format!("a wait that sleeps, fewer threads, or {WITH_TOKEN}"),
            )
        })
    }

    /// Makes an examination one that may be: of CPUs that this process has, of which one stays free. Others wait until it has ended.
    pub(crate) fn examine(&self, order: &mut Examine) -> MutexGuard<'_, ()> {
        let allowed = affinity::allowed();
        order.end = "far".into(); // the other one would also spin on a CPU of this end's peer
        order.cpus.retain(|cpu| allowed.contains(cpu));
        order.cpus.truncate(self.cpus as usize);
        self.examining.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
