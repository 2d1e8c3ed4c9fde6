//! What the processes of client and server spend in a round, read from outside before it and after it.

use std::net::{IpAddr, SocketAddr};

use msgpath_core::schema::ProcessSpent;
use msgpath_sys::listening::{Protocol, listening};
use msgpath_sys::process;
use msgpath_sys::spent::{self, Spent};

/// A process with those that it has started.
pub(super) struct Watched {
    pids: Vec<u32>,
    before: Option<Spent>,
}

impl Watched {
    /// Of one process.
    pub(super) fn alone(pid: Option<u32>) -> Self {
        Self { pids: pid.into_iter().collect(), before: None }
    }

    /// Of a server with all that it has started by now; `None`: nobody is known, and nothing is read.
    pub(super) fn server(pid: Option<u32>) -> Self {
        Self { pids: pid.map(process::tree).unwrap_or_default(), before: None }
    }

    pub(super) fn begin(&mut self) {
        self.before = spent::of(&self.pids);
    }

    /// What was spent since.
    pub(super) fn end(&self) -> Option<ProcessSpent> {
        Some(since(&spent::of(&self.pids)?, self.before.as_ref()?))
    }
}

fn since(after: &Spent, before: &Spent) -> ProcessSpent {
    let io = after.io.zip(before.io);
    let switches = after.switches_since(before);
    ProcessSpent {
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        voluntary_switches: switches.0,
        involuntary_switches: switches.1,
        minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
        major_faults: after.major_faults.saturating_sub(before.major_faults),
        disk_read_bytes: io.map(|(after, before)| after.0.saturating_sub(before.0)),
        disk_written_bytes: io.map(|(after, before)| after.1.saturating_sub(before.1)),
    }
}

/// The process that listens at an address of this machine, as far as this one may see it.
pub(super) fn who_listens(at: SocketAddr) -> Option<u32> {
    let is_it = |address: SocketAddr, v6_only: bool| {
        let any = address.ip().is_unspecified() && (address.is_ipv4() == at.is_ipv4() || !v6_only);
        address.port() == at.port() && (any || canonical(address.ip()) == canonical(at.ip()))
    };
    let all = listening(Protocol::Tcp).ok()?;
    let found = all.iter().find(|one| is_it(one.address, one.v6_only))?;
    process::holder(found.inode)
}

fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_server_of_this_machine_is_found_by_its_address() {
        let any = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = any.local_addr().unwrap().port();
        if listening(Protocol::Tcp).is_err() {
            return eprintln!("skipped: no sock_diag");
        }
        assert_eq!(who_listens(SocketAddr::from(([127, 0, 0, 1], port))), Some(std::process::id()));
        drop(any);
        assert_eq!(who_listens(SocketAddr::from(([127, 0, 0, 1], port))), None);
    }

    #[test]
    fn a_round_has_what_was_spent_in_it() {
        let mut own = Watched::alone(Some(std::process::id()));
        assert_eq!(own.end(), None);
        own.begin();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let spent = own.end().unwrap();
        assert!(spent.voluntary_switches > 0 && spent.cpu_ns > 0, "{spent:?}");
        let mut nobody = Watched::server(None);
        nobody.begin();
        assert_eq!(nobody.end(), None);
    }
}
