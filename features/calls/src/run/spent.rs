//! What the processes of client and server spend in a round, read from outside before it and after it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use msgpath_core::schema::ProcessSpent;
use msgpath_sys::count::SystemCalls;
use msgpath_sys::listening::{Protocol, listening};
use msgpath_sys::process;
use msgpath_sys::spent::{self, Spent};

/// A process with those that it has started.
pub(super) struct Watched {
    pids: Vec<u32>,
    before: Option<Spent>,
    /// In a round in which system calls are counted: their counters, and what these said when it began.
    counters: Option<(SystemCalls, u64)>,
}

impl Watched {
    /// Of one process.
    pub(super) fn alone(pid: Option<u32>) -> Self {
        Self { pids: pid.into_iter().collect(), before: None, counters: None }
    }

    /// Of a server with all that it has started by now; `None`: nobody is known, and nothing is read.
    pub(super) fn server(pid: Option<u32>) -> Self {
        Self { pids: pid.map(process::tree).unwrap_or_default(), before: None, counters: None }
    }

    /// System calls are counted from here to the end of the next round: the counters slow every system call a little.
    ///
    /// # Errors
    /// As [`SystemCalls::of`].
    pub(super) fn count_system_calls(&mut self) -> io::Result<()> {
        if !self.pids.is_empty() {
            self.counters = Some((SystemCalls::of(&self.pids)?, 0));
        }
        Ok(())
    }

    pub(super) fn begin(&mut self) {
        self.before = spent::of(&self.pids);
        self.counters = self.counters.take().and_then(|(calls, _)| calls.count().ok().map(|count| (calls, count)));
    }

    /// What was spent since.
    pub(super) fn end(&mut self) -> Option<ProcessSpent> {
        let counters = self.counters.take();
        let system_calls = counters.and_then(|(calls, before)| Some(calls.count().ok()?.saturating_sub(before)));
        let spent = since(&spent::of(&self.pids)?, self.before.as_ref()?);
        Some(ProcessSpent { system_calls, ..spent })
    }
}

fn since(after: &Spent, before: &Spent) -> ProcessSpent {
    let io = after.io.zip(before.io);
    let switches = after.switches_since(before);
    let memory = after.memory.zip(before.memory);
    let grown = |after: u64, before: u64| i64::try_from(i128::from(after) - i128::from(before)).ok();
    ProcessSpent {
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        voluntary_switches: switches.0,
        involuntary_switches: switches.1,
        minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
        major_faults: after.major_faults.saturating_sub(before.major_faults),
        disk_read_bytes: io.map(|(after, before)| after.0.saturating_sub(before.0)),
        disk_written_bytes: io.map(|(after, before)| after.1.saturating_sub(before.1)),
        run_queue_ns: after.run_delay_since(before),
        system_calls: None,
        resident_growth_bytes: memory.and_then(|(after, before)| grown(after.resident, before.resident)),
        data_growth_bytes: memory.and_then(|(after, before)| grown(after.data, before.data)),
        peak_resident_bytes: after.memory.map(|memory| memory.peak),
    }
}

/// Why system calls are not counted.
pub(super) fn uncounted(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "counting needs root, or CAP_PERFMON and a tracefs that may be read".into(),
        io::ErrorKind::NotFound => "tracefs is not mounted, or a process has ended".into(),
        io::ErrorKind::OutOfMemory => "more than 256 threads".into(),
        _ => format!("perf: {error}"),
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
        assert!(spent.peak_resident_bytes.unwrap() > 0 && spent.data_growth_bytes.is_some(), "{spent:?}");
        assert_eq!(spent.system_calls, None, "they are counted where that was asked for");
        if let Err(error) = own.count_system_calls() {
            println!("skipped: system calls: {error}");
        } else {
            own.begin();
            assert!(own.end().unwrap().system_calls.is_some());
            own.begin();
            assert_eq!(own.end().unwrap().system_calls, None, "in one round");
        }
        let mut nobody = Watched::server(None);
        nobody.begin();
        assert_eq!(nobody.end(), None);
    }
}
