//! The coordinator's side of a session that reads queues.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use msgpath_agent::wire::{FromEnd, ToEnd};
use msgpath_core::Problem;
use msgpath_run::{Link, had, out_of_turn};

use crate::agent::{Order, QUEUES};
use crate::record::QueueLog;

/// A session that reads the queues at one end.
pub struct Watcher(Link);

impl Watcher {
    /// A session over this link, which lives for `lease` while nobody looks.
    ///
    /// # Errors
    /// It is gone.
    pub fn new(mut link: Link, lease: Duration) -> Result<Self, Problem> {
        link.lasts(lease)?;
        Ok(Self(link))
    }

    /// Tells it what to read; the first look.
    ///
    /// # Errors
    /// It is gone.
    pub fn watch(&mut self, peer: &str, cookies: Vec<u64>) -> Result<QueueLog, Problem> {
        self.ask(&Order::Watch { peer: address(peer), cookies })
    }

    /// One more look.
    ///
    /// # Errors
    /// It is gone.
    pub fn look(&mut self) -> Result<QueueLog, Problem> {
        self.ask(&Order::Look)
    }

    /// It reads all the while from now on.
    ///
    /// # Errors
    /// It is gone.
    pub fn begin(&mut self) -> Result<(), Problem> {
        self.0.order(QUEUES.name, &Order::Ready)?;
        match self.answer()? {
            FromEnd::Ready { .. } => self.0.send(&ToEnd::Go),
            _ => Err(out_of_turn()),
        }
    }

    /// What it has read since then.
    ///
    /// # Errors
    /// It is gone.
    pub fn end(&mut self) -> Result<QueueLog, Problem> {
        self.0.send(&ToEnd::Finish)?;
        match self.answer()? {
            FromEnd::Over => self.said(),
            _ => Err(out_of_turn()),
        }
    }

    /// Keeps it waiting while something else goes on.
    ///
    /// # Errors
    /// It is gone.
    pub fn keep_alive(&mut self) -> Result<(), Problem> {
        self.0.keep_alive()
    }

    fn ask(&mut self, order: &Order) -> Result<QueueLog, Problem> {
        self.0.order(QUEUES.name, order)?;
        self.said()
    }

    fn said(&mut self) -> Result<QueueLog, Problem> {
        self.answer()?.of_role().map_err(|_| out_of_turn())
    }

    fn answer(&mut self) -> Result<FromEnd, Problem> {
        had(self.0.answer()?.0, "the queues cannot be read")
    }
}

/// The address of the other end; loopback where its connections stay on this machine.
fn address(peer: &str) -> IpAddr {
    let parsed = peer.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| peer.parse());
    parsed.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_their_port() {
        assert_eq!(address("10.66.0.2:4000"), address("10.66.0.2"));
        assert_eq!(address("[fe80::1]:4000").to_string(), "fe80::1");
        assert!(address("").is_loopback());
    }
}
