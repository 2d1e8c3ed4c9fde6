//! Carries out one turn: each tool once for each case, its server and its client started, waited for and ended.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use msgpath_agent::program::free_port;
use msgpath_core::Unavailable;
use msgpath_sys::{child, listening, process};

use super::{Commands, Exchange, Over, Ports, Tool};
use crate::log::{MAX_TOOL_OUTPUT, ToolRun};

/// How long a server may take until it listens.
const READY: Duration = Duration::from_secs(10);
/// How often a server is started that ends at once.
const STARTS: u32 = 3;
/// How long a client may take beyond the time that it measures.
const LATE: Duration = Duration::from_secs(10);
/// Between two looks, ...
const LOOK: Duration = Duration::from_millis(2);
/// ... and while a client measures: whoever wakes up often keeps its CPU from sleeping deep, and what the tool measures short.
const LOOK_AT_CLIENT: Duration = Duration::from_millis(50);
/// How long a server may take to end when it was asked to.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long what a process wrote last may be on its way.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// One turn of the tools.
pub struct Turn<'a> {
    /// Which, from 0.
    pub number: u32,
    /// The pass of ours that it follows.
    pub pass: u32,
    /// Cases of ours, and what they do.
    pub work: &'a [(u32, Exchange)],
    /// Who was asked for.
    pub tools: &'a [&'static Tool],
    /// How long each measures, s.
    pub seconds: u32,
    /// CPUs of the client.
    pub near: &'a [u32],
    /// CPUs of the server.
    pub far: &'a [u32],
}

impl Turn<'_> {
    /// Runs them one after the other; each turn begins with another one. What cannot run says why. `alive` is called all the while.
    pub fn take(&self, stop: &AtomicBool, alive: &mut dyn FnMut()) -> Vec<ToolRun> {
        let pairs =
            self.work.iter().flat_map(|(case, exchange)| self.tools.iter().map(move |tool| (case, exchange, tool)));
        let mut pairs: Vec<_> = pairs.filter(|(_, exchange, tool)| tool.does(exchange)).collect();
        let first = self.number as usize % pairs.len().max(1);
        pairs.rotate_left(first);
        let mut runs = Vec::new();
        for (case, exchange, tool) in pairs {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let own = ToolRun {
                turn: self.number,
                pass: self.pass,
                case: *case,
                tool: tool.name.into(),
                ..ToolRun::default()
            };
            runs.push(self.one(tool, exchange, own, stop, alive));
        }
        runs
    }

    fn one(
        &self,
        tool: &Tool,
        exchange: &Exchange,
        mut own: ToolRun,
        stop: &AtomicBool,
        alive: &mut dyn FnMut(),
    ) -> ToolRun {
        let ran = self.server_of(tool, exchange, &mut own, stop, alive);
        match ran.and_then(|(server, client)| self.ask(server, &client, stop, alive)) {
            Ok(output) => own.output = output,
            Err(Unavailable { why, hint }) => (own.why, own.hint) = (why, hint),
        }
        own
    }

    /// Its server, which listens, and the words of the client. Another program may take a port between our look and the
    /// server's: a server that ends at once is started again elsewhere.
    fn server_of(
        &self,
        tool: &Tool,
        exchange: &Exchange,
        own: &mut ToolRun,
        stop: &AtomicBool,
        alive: &mut dyn FnMut(),
    ) -> Result<(Started, Vec<String>), Unavailable> {
        for again in (0..STARTS).rev() {
            let ports = ports()?;
            let none = || Unavailable::new("it does not do that", "");
            let commands = (tool.commands)(exchange, &ports, self.seconds).ok_or_else(none)?;
            if [&commands.server, &commands.client].into_iter().any(|words| !installed(&words[0])) {
                return Err(Unavailable::new("not installed", tool.install));
            }
            (own.server, own.client) = (commands.server.clone(), commands.client.clone());
            let begun = Instant::now();
            match self.listens(&commands, &ports, stop, alive) {
                Ok(server) => return Ok((server, commands.client)),
                Err(_) if again > 0 && begun.elapsed() < READY && !stop.load(Ordering::Relaxed) => {}
                Err(why) => return Err(why),
            }
        }
        unreachable!("the last start ends the loop")
    }

    /// Starts a server and waits until it listens.
    fn listens(
        &self,
        commands: &Commands,
        ports: &Ports,
        stop: &AtomicBool,
        alive: &mut dyn FnMut(),
    ) -> Result<Started, Unavailable> {
        let mut server = Started::new(&commands.server, self.far)?;
        let begun = Instant::now();
        while !ready(commands.listens, ports.0[0]) {
            if let Some(status) = server.ended() {
                return Err(failed("its server", status, &server.output()));
            }
            if begun.elapsed() > READY || stop.load(Ordering::Relaxed) {
                return Err(Unavailable::new("its server does not listen", commands.server.join(" ")));
            }
            alive();
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// What its client printed, while its server runs.
    fn ask(
        &self,
        _server: Started,
        words: &[String],
        stop: &AtomicBool,
        alive: &mut dyn FnMut(),
    ) -> Result<String, Unavailable> {
        let mut client = Started::new(words, self.near)?;
        let most = Duration::from_secs(self.seconds.into()) + LATE;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = client.ended() {
                break status;
            }
            if begun.elapsed() > most || stop.load(Ordering::Relaxed) {
                let why = format!("its client did not end within {} s", most.as_secs());
                return Err(Unavailable::new(why, words.join(" ")));
            }
            alive();
            std::thread::sleep(LOOK_AT_CLIENT);
        };
        let output = client.output();
        if status.success() { Ok(output) } else { Err(failed("its client", status, &output)) }
    }
}

/// How a process failed, with what it said last.
fn failed(who: &str, status: ExitStatus, output: &str) -> Unavailable {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "ended".into(),
    };
    let last = output.lines().rfind(|line| !line.trim().is_empty());
    let last: String = last.unwrap_or("nothing").trim().chars().take(160).collect();
    Unavailable::new(format!("{who} {how}; it said: {last}"), "")
}

/// Two ports that nobody uses, be it with TCP or with UDP.
fn ports() -> Result<Ports, Unavailable> {
    const TRIES: usize = 20;
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let port = free_port(host)?;
        if !found.contains(&port) {
            found.push(port);
        }
        if let [one, other] = found[..] {
            return Ok(Ports([one, other]));
        }
    }
    Err(Unavailable::new("there are no two free ports", ""))
}

/// Whether a program of this name can be started.
pub fn installed(program: &str) -> bool {
    let runs = |path: &std::path::Path| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| runs(&folder.join(program)))
}

/// Whether somebody has this port: it was free before the server was started.
fn ready(over: Over, port: u16) -> bool {
    match over {
        Over::Tcp => match listening::listening(listening::Protocol::Tcp) {
            Ok(all) => all.iter().any(|one| one.address.port() == port),
            Err(_) => taken("tcp", port) || taken("tcp6", port),
        },
        Over::Udp => taken("udp", port) || taken("udp6", port),
    }
}

/// Whether a table of /proc/net has a socket with this local port.
fn taken(table: &str, port: u16) -> bool {
    let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    let end = format!(":{port:04X}");
    text.lines().skip(1).any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end)))
}

/// A program of others, as long as this value lives: then its whole group ends.
struct Started {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Started {
    fn new(words: &[String], cpus: &[u32]) -> Result<Self, Unavailable> {
        let cannot =
            |error: io::Error| Unavailable::new(format!("{} could not be started: {error}", words[0]), words.join(" "));
        let (read, write) = io::pipe().map_err(cannot)?;
        let mut command = Command::new(&words[0]);
        // Numbers with a point, whatever the user's language.
        command.args(&words[1..]).env("LC_ALL", "C").stdin(Stdio::null());
        command.stdout(write.try_clone().map_err(cannot)?).stderr(write);
        let child = child::of_others(&mut command, cpus).and_then(Command::spawn).map_err(cannot)?;
        drop(command); // the ends of the pipe that are here
        let mut started = Self { child, output: Arc::default(), reader: None };
        let output = Arc::clone(&started.output);
        let reader = std::thread::Builder::new().name("tool".into()).spawn(move || follow(read, &output));
        started.reader = Some(reader.map_err(cannot)?);
        Ok(started)
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What it has written, whole where it has ended; not waited for where a child of it holds the pipe.
    fn output(&self) -> String {
        let begun = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && begun.elapsed() < LAST_OUTPUT {
            std::thread::sleep(LOOK);
        }
        String::from_utf8_lossy(&self.output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Reads until nobody can write any more, so that nobody waits for a reader; the beginning is kept.
fn follow(mut from: PipeReader, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_TOOL_OUTPUT - kept.len();
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let pid = self.child.id();
        process::end_group(pid, false);
        let asked = Instant::now();
        while asked.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // The group is there as long as one of its processes is.
        process::end_group(pid, true);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::Printed;
    use crate::tests::ECHO;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn sh(script: &str) -> Vec<String> {
        vec!["sh".into(), "-c".into(), script.into()]
    }

    fn turn() -> Turn<'static> {
        Turn { number: 0, pass: 0, work: &[], tools: &[], seconds: 1, near: &[], far: &[] }
    }

    /// A client beside a server that is there: a socket of this test.
    fn client(script: &str) -> Result<String, Unavailable> {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = Ports([own.local_addr().unwrap().port(), 1]);
        let commands = Commands { server: sh("sleep 60"), client: sh(script), listens: Over::Udp };
        let server = turn().listens(&commands, &ports, &STOP, &mut || ())?;
        turn().ask(server, &commands.client, &STOP, &mut || ())
    }

    #[test]
    fn what_a_client_says_is_kept_up_to_a_limit_and_its_failure_is_told() {
        assert_eq!(client("echo one; echo two >&2").unwrap(), "one\ntwo\n");
        assert_eq!(client("head -c 1000000 /dev/zero").unwrap().len(), MAX_TOOL_OUTPUT);
        assert_eq!(client("echo refused; exit 3").unwrap_err().why, "its client ended with status 3; it said: refused");
        assert!(client("kill -9 $$").unwrap_err().why.contains("signal 9"));
        // A child that holds the pipe keeps nobody waiting, and ends with its group.
        let begun = Instant::now();
        assert_eq!(client("sleep 60 & echo done").unwrap(), "done\n");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_server_whose_port_was_taken_meanwhile_is_started_again_elsewhere() {
        static TAKEN: Tool = Tool {
            name: "taken",
            install: "",
            commands: |_, ports, _| {
                static STARTED: AtomicU32 = AtomicU32::new(0);
                let server = match STARTED.fetch_add(1, Ordering::Relaxed) {
                    0 => "exit 1".to_owned(),
                    _ => format!(
                        "exec python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"127.0.0.1\", {})); s.recv(1)'",
                        ports.0[0]
                    ),
                };
                Some(Commands { server: sh(&server), client: sh("echo done"), listens: Over::Udp })
            },
            read: |_, _| Ok(Printed::default()),
            means: |_| "nothing",
        };
        if !installed("python3") {
            eprintln!("skipped: no python3");
            return;
        }
        let runs = Turn { tools: &[&TAKEN], work: &[(3, ECHO)], ..turn() }.take(&STOP, &mut || ());
        assert_eq!((&*runs[0].output, &*runs[0].why), ("done\n", ""));
    }

    #[test]
    fn a_server_that_ends_says_why_and_what_is_not_installed_is_named() {
        let ports = ports().unwrap();
        let commands = Commands { server: sh("echo in use; exit 1"), client: sh("true"), listens: Over::Tcp };
        let why = turn().listens(&commands, &ports, &STOP, &mut || ()).err().unwrap().why;
        assert_eq!(why, "its server ended with status 1; it said: in use");
        assert!(installed("sh") && !installed("no-such-tool-at-all") && !installed(""));
        static ABSENT: Tool = Tool {
            name: "absent",
            install: "sudo apt install absent",
            commands: |_, _, _| {
                let words = vec!["no-such-tool-at-all".to_owned()];
                Some(Commands { server: words.clone(), client: words, listens: Over::Tcp })
            },
            read: |_, _| Ok(Printed::default()),
            means: |_| "nothing",
        };
        let runs = Turn { tools: &[&ABSENT], work: &[(3, ECHO)], ..turn() }.take(&STOP, &mut || ());
        let [run] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((run.case, &*run.why, &*run.hint), (3, "not installed", "sudo apt install absent"));
        assert!(
            Turn { tools: &[&ABSENT], work: &[(3, ECHO)], ..turn() }
                .take(&AtomicBool::new(true), &mut || ())
                .is_empty()
        );
    }

    #[test]
    fn a_port_that_somebody_has_is_seen() {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        assert!(ready(Over::Udp, udp.local_addr().unwrap().port()));
        assert!(ready(Over::Tcp, tcp.local_addr().unwrap().port()));
        // Whatever else runs on this machine may take one of them meanwhile: not ten times.
        assert!((0..10).any(|_| {
            let Ports([one, other]) = ports().unwrap();
            one != other && !ready(Over::Udp, one) && !ready(Over::Tcp, other)
        }));
    }
}
