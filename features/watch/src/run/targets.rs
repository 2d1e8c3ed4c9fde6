//! What is watched: processes with their children, names of processes, cgroups, ports; and who listens here.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::{Exit, Problem};
use msgpath_sys::bpf::Missing;
use msgpath_sys::watch::Watch;

use super::WatchRequest;
use super::cgroup::Cgroup;

/// The most processes that are looked at.
const MOST_PROCESSES: usize = 65_536;
/// The most that are watched: what the programs' table holds.
const MOST_WATCHED: usize = 4_000;
/// The most sockets of a table, and descriptors of a process, that are read.
const MOST_SOCKETS: usize = 65_536;
const MOST_DESCRIPTORS: usize = 4_096;
/// The most network namespaces whose sockets are read.
const MOST_NAMESPACES: usize = 256;
/// Listening, in /proc/net/tcp.
const LISTENING: &str = "0A";
/// Sockets over IP, as /proc/PID/net has them.
const TCP: [&str; 2] = ["net/tcp", "net/tcp6"];
const UDP: [&str; 2] = ["net/udp", "net/udp6"];

pub(super) struct Targets {
    ports: Vec<u16>,
    pids: Vec<i32>,
    names: Vec<String>,
    cgroups: Vec<Cgroup>,
    command: Option<String>,
    /// Processes that the programs know.
    known: BTreeSet<i32>,
}

impl Targets {
    /// # Errors
    /// E61: nothing is there to be watched.
    pub(super) fn of(request: &WatchRequest) -> Result<Self, Problem> {
        let nothing = |what: String| Problem::new("E61", Exit::CannotStart, what);
        let processes = processes();
        for pid in &request.pids {
            if !processes.contains_key(pid) {
                return Err(nothing(format!("there is no process {pid}")).hint("pgrep -a NAME"));
            }
        }
        for name in &request.names {
            if !processes.values().any(|(comm, _)| comm == name) {
                return Err(nothing(format!("no process is called {name}"))
                    .why("names are those of /proc/PID/comm, at most 15 letters")
                    .hint("ps -eo pid,comm"));
            }
        }
        Ok(Self {
            ports: request.ports.clone(),
            pids: request.pids.clone(),
            names: request.names.clone(),
            cgroups: request.cgroups.iter().map(|typed| Cgroup::find(typed)).collect::<Result<_, _>>()?,
            command: request.command.first().map(|program| program.to_string_lossy().into_owned()),
            known: BTreeSet::new(),
        })
    }

    /// What is watched, in words.
    pub(super) fn words(&self) -> String {
        let mut words: Vec<String> = self.names.clone();
        words.extend(self.pids.iter().map(|pid| format!("process {pid}")));
        words.extend(self.cgroups.iter().map(Cgroup::words));
        words.extend(self.ports.iter().map(|port| format!("port {port}")));
        words.extend(self.command.clone());
        words.join(", ")
    }

    /// What cannot be seen of them is returned with the reason.
    ///
    /// # Errors
    /// E61: there are too many processes.
    pub(super) fn apply(&mut self, watch: &mut Watch) -> Result<Missing, Problem> {
        for port in &self.ports {
            watch.watch_port(*port);
        }
        for cgroup in &self.cgroups {
            watch.watch_cgroup(cgroup.id).map_err(|error| {
                Problem::new("E61", Exit::CannotStart, "so many cgroups cannot be watched").why(error.to_string())
            })?;
        }
        self.again(watch);
        let inside: Vec<i32> = self.cgroups.iter().flat_map(Cgroup::processes).collect();
        let folders = folders(self.known.iter().chain(&inside));
        let (listening, datagrams) = (ports(&folders, TCP, listens), ports(&folders, UDP, is_bound));
        listening.values().for_each(|port| watch.set_listening(*port));
        // What comes to a process is known by its port, before the process has seen it.
        let sockets: Vec<u64> = self.known.iter().flat_map(|pid| sockets(*pid)).collect();
        let own = |ports: &BTreeMap<u64, u16>| -> BTreeSet<u16> {
            sockets.iter().filter_map(|inode| ports.get(inode).copied()).collect()
        };
        let own_datagrams = own(&datagrams);
        let expected = !own_datagrams.is_empty() || datagrams.values().any(|port| self.ports.contains(port));
        own(&listening).into_iter().chain(own_datagrams).for_each(|port| watch.watch_port(port));
        // What a program will do that is not started yet, nobody knows; others may begin with datagrams later.
        let mut missing = if self.command.is_some() { watch.load_datagrams() } else { Missing::new() };
        missing.extend(watch.attach_datagrams(expected));
        if self.known.len() >= MOST_WATCHED {
            let what = format!("more than {MOST_WATCHED} processes are meant");
            return Err(Problem::new("E61", Exit::CannotStart, what).hint("fewer: --pid, --port"));
        }
        Ok(missing)
    }

    /// The command is watched from now on; it may have children from before.
    pub(super) fn started(&mut self, process: i32, watch: &mut Watch) {
        self.pids.push(process);
        self.again(watch);
    }

    /// Processes that have come meanwhile.
    pub(super) fn again(&mut self, watch: &mut Watch) {
        if !self.cgroups.is_empty() {
            // Tasks may have moved into them.
            watch.look_again();
        }
        if self.pids.is_empty() && self.names.is_empty() {
            return;
        }
        for pid in meant(&self.pids, &self.names, &processes()) {
            // Where there is no room, what is known stays known.
            if self.known.len() < MOST_WATCHED && self.known.insert(pid) && watch.watch_process(pid).is_err() {
                self.known.remove(&pid);
            }
        }
    }
}

/// These processes, those of these names, and the children of all of them.
fn meant(pids: &[i32], names: &[String], processes: &BTreeMap<i32, (String, i32)>) -> BTreeSet<i32> {
    let named = processes.iter().filter(|(_, (comm, _))| names.contains(comm)).map(|(pid, _)| *pid);
    let mut meant: BTreeSet<i32> = pids.iter().copied().chain(named).collect();
    let mut last = 0;
    while meant.len() > last {
        last = meant.len();
        let children = processes.iter().filter(|(_, (_, parent))| meant.contains(parent)).map(|(pid, _)| *pid);
        let children: Vec<i32> = children.collect();
        meant.extend(children);
    }
    meant
}

/// Name and parent of every process.
fn processes() -> BTreeMap<i32, (String, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .take(MOST_PROCESSES)
        .filter_map(|pid| Some((pid, name_and_parent(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// `42 (a name) S 7 ...`: the name may hold anything, brackets too.
fn name_and_parent(stat: &str) -> Option<(String, i32)> {
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let parent = stat.get(end + 1..)?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some((stat.get(begin + 1..end)?.to_owned(), parent))
}

/// Inodes of the sockets that a process has; none where it may not be looked into.
fn sockets(pid: i32) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().take(MOST_DESCRIPTORS);
    entries.filter_map(|entry| inode(std::fs::read_link(entry.path()).ok()?.to_str()?)).collect()
}

/// `socket:[4711]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Folders of /proc, one for this network namespace and for each of those of the processes.
fn folders<'a>(processes: impl Iterator<Item = &'a i32>) -> Vec<String> {
    let mut namespaces: BTreeSet<_> = std::fs::read_link("/proc/self/ns/net").into_iter().collect();
    let mut folders = vec!["/proc/self".to_owned()];
    for process in processes.take(MOST_PROCESSES) {
        let Ok(namespace) = std::fs::read_link(format!("/proc/{process}/ns/net")) else { continue };
        if folders.len() < MOST_NAMESPACES && namespaces.insert(namespace) {
            folders.push(format!("/proc/{process}"));
        }
    }
    folders
}

/// Ports of the sockets in these tables, by inode, as far as `of` a line has one.
fn ports(folders: &[String], tables: [&str; 2], of: fn(&str) -> Option<(u64, u16)>) -> BTreeMap<u64, u16> {
    folders
        .iter()
        .flat_map(|folder| tables.map(|table| format!("{folder}/{table}")))
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().skip(1).take(MOST_SOCKETS).filter_map(of).collect::<Vec<_>>())
        .collect()
}

/// Inode, port and state of a socket, of a line of /proc/net/tcp or udp.
fn socket(line: &str) -> Option<(u64, u16, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    Some((inode, u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?, state))
}

/// Of a socket that listens.
fn listens(line: &str) -> Option<(u64, u16)> {
    socket(line).filter(|(.., state)| *state == LISTENING).map(|(inode, port, _)| (inode, port))
}

/// Of a datagram socket.
fn is_bound(line: &str) -> Option<(u64, u16)> {
    socket(line).map(|(inode, port, _)| (inode, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_what_is_meant_are_meant() {
        let process = |name: &str, parent| (name.to_owned(), parent);
        let all = BTreeMap::from([
            (1, process("init", 0)),
            (5, process("nginx", 1)),
            (6, process("nginx: worker", 5)),
            (7, process("helper", 6)),
            (8, process("sshd", 1)),
        ]);
        assert_eq!(meant(&[], &["nginx".into()], &all), BTreeSet::from([5, 6, 7]));
        assert_eq!(meant(&[8], &[], &all), BTreeSet::from([8]));
    }

    #[test]
    fn proc_is_read() {
        assert_eq!(name_and_parent("42 (a) b (c) S 7 42"), Some(("a) b (c".into(), 7)));
        assert_eq!((name_and_parent("42 (a"), name_and_parent(")(")), (None, None));
        let line = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1";
        let other = line.replace(" 0A ", " 01 ");
        assert_eq!((listens(line), listens(&other), listens("")), (Some((4711, 6379)), None, None));
        assert_eq!((inode("socket:[4711]"), inode("socket:[x]"), inode("/dev/null")), (Some(4711), None, None));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = sockets(std::process::id() as i32);
        let listening = ports(&folders(std::iter::empty()), TCP, listens);
        assert!(listening.iter().any(|(inode, listens)| *listens == port && own.contains(inode)));
        let bound = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (port, own) = (bound.local_addr().unwrap().port(), sockets(std::process::id() as i32));
        let datagrams = ports(&folders(std::iter::empty()), UDP, is_bound);
        assert!(datagrams.iter().any(|(inode, bound)| *bound == port && own.contains(inode)));
        assert!(processes().contains_key(&(std::process::id() as i32)));
    }
}
