//! One program: started, waited for until it listens, ended.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_core::program::ProgramFacts;
use msgpath_core::{Exit, Problem, Program, Unavailable, units};
use msgpath_sys::listening::Kind;
use msgpath_sys::pidfd::{self, Process};
use msgpath_sys::{child, clock, process, random};
use sha2::{Digest, Sha256};

use super::listens::{Over, State, Told, free_port, state};
use crate::last_output::LastOutput;
use crate::team::no_thread;

/// Between two looks whether it does.
const LOOK: Duration = Duration::from_millis(1);
/// How long it may take to end when it was asked to: with all that it has started it is gone within half a second.
const FAREWELL: Duration = Duration::from_millis(250);
/// How long it may take from giving up its descriptors until it has ended.
const LAST_STEP: Duration = Duration::from_millis(200);
/// Files of a command line that are larger are not read.
const LARGEST_FILE: u64 = 256 << 20;
/// How long another may hold the port of a program that has just been started.
const STRANGER: Duration = Duration::from_secs(1);
/// Lines of what it said that are shown.
const LINES: usize = 5;
/// The variable in the environment of a program by which what it starts is known, wherever that goes.
const MARK: &str = "MSGPATH_PROGRAM";
/// What to do about a program that has ended.
pub(super) const AGAIN: &str = "start it by hand and look what it says";

/// A program that listens, as long as this value lives.
pub(super) struct Running {
    child: Child,
    /// What its environment has of [`MARK`].
    mark: String,
    /// The process of it that listens, once it does.
    server: Option<u32>,
    output: LastOutput,
    /// Goes with it.
    _socket: SocketFolder,
    pub(super) facts: ProgramFacts,
}

/// Where a program runs and how it is reached.
pub(super) struct Place<'a> {
    /// What it takes messages with.
    pub over: Over,
    /// The address of this end.
    pub host: IpAddr,
    pub cpus: &'a [u32],
    /// How long it may take until it listens.
    pub patience: Duration,
}

impl Place<'_> {
    /// Where a program of these words is told to listen.
    fn told(&self, words: &[String]) -> Result<Told, Unavailable> {
        let has = |what: &str| words.iter().any(|word| word.contains(what));
        match self.over {
            Over::Tcp | Over::Udp if has("{port}") => Ok(Told::Port(free_port(self.host)?)),
            Over::Unix(_) if has("{socket}") => own_socket()
                .map(|path| Told::Path(path.display().to_string()))
                .map_err(|error| Unavailable::new(format!("there is no folder for its socket: {error}"), "")),
            Over::Tcp | Over::Udp if has("{socket}") => {
                Err(Unavailable::new("{socket} is the path of a Unix socket, which this path is not", "-x unix:send"))
            }
            Over::Unix(_) if has("{port}") => {
                Err(Unavailable::new("{port} is a port of TCP or UDP, and this path is a Unix socket", "{socket}"))
            }
            _ => Ok(Told::Nothing),
        }
    }

    /// A word of the command line with its placeholders filled in.
    fn filled(&self, word: &str, told: &Told) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        let word = match told {
            Told::Port(port) => word.replace("{port}", &port.to_string()),
            Told::Path(path) => word.replace("{socket}", path),
            Told::Nothing => word.to_owned(),
        };
        word.replace("{host}", &self.host.to_string()).replace("{cpu}", &cpus.join(","))
    }
}

/// A path for a Unix socket, in a folder that is new and that others cannot enter.
fn own_socket() -> io::Result<PathBuf> {
    let name = u64::from_le_bytes(random::bytes()?);
    let folder = std::env::temp_dir().join(format!("msgpath-{name:016x}"));
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder.join("socket"))
}

/// The folder of a Unix socket that a program was told; it is removed when this is dropped.
#[derive(Default)]
struct SocketFolder(Option<PathBuf>);

impl SocketFolder {
    fn of(told: &Told) -> Self {
        match told {
            Told::Path(path) => Self(Path::new(path).parent().map(Into::into)),
            _ => Self::default(),
        }
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// E63: the program at the far end has ended in the middle of a run.
pub fn ended(name: &str, why: String) -> Problem {
    Problem::new("E63", Exit::Unfinished, format!("the far end {name} ended: {why}")).hint(AGAIN)
}

impl Running {
    /// Starts it and waits until it listens, or until `stop` is set.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not listen. No process is left behind.
    pub(super) fn start(
        program: &Program,
        words: &[String],
        place: &Place<'_>,
        stop: &AtomicBool,
    ) -> Result<Self, Unavailable> {
        let told = place.told(words)?;
        let socket = SocketFolder::of(&told);
        let command: Vec<String> = words.iter().map(|word| place.filled(word, &told)).collect();
        let cannot = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "the path of the program, ./server where it is in this folder",
                io::ErrorKind::PermissionDenied => {
                    "a file that may be executed: chmod +x, or its interpreter before it"
                }
                _ => AGAIN,
            };
            Unavailable::new(format!("{} could not be started: {error}", command[0]), hint)
        };
        // Whoever puts itself into the background stays a descendant.
        let _ = process::adopt_orphans();
        let (read, write) = io::pipe().map_err(cannot)?;
        let mut start = Command::new(&command[0]);
        start.args(&command[1..]).stdin(Stdio::null());
        if !program.folder.is_empty() {
            start.current_dir(&program.folder);
        }
        start.stdout(write.try_clone().map_err(cannot)?).stderr(write);
        let (begun, began) = (Instant::now(), clock::now());
        let value = format!("{}-{began}", std::process::id());
        start.env(MARK, &value);
        let child = child::of_others(&mut start, place.cpus).and_then(Command::spawn).map_err(cannot)?;
        drop(start); // the ends of the pipe that are here
        let facts = ProgramFacts { name: program.name.clone(), command, ..ProgramFacts::default() };
        // From here on it is ended with this value.
        let mark = format!("{MARK}={value}");
        let mut running = Self { child, mark, server: None, output: LastOutput::default(), _socket: socket, facts };
        running.output = LastOutput::by(read).map_err(|error| no_thread(&error))?;
        running.facts.address = running.listens(&told, place, begun, stop)?;
        running.facts.ready_ns = Some(clock::now() - began);
        running.facts.files =
            files(running.server.unwrap_or(running.child.id()), &program.folder, &running.facts.command);
        Ok(running)
    }

    /// Waits until it listens, and where.
    fn listens(
        &mut self,
        told: &Told,
        place: &Place<'_>,
        begun: Instant,
        stop: &AtomicBool,
    ) -> Result<String, Unavailable> {
        loop {
            // Asked before: what ended after it has listened is told from what never did.
            let over = self.ended();
            match state(&self.processes(), told, place.over, place.host)? {
                State::Listens(address, server) => {
                    self.server = server;
                    return Ok(address);
                }
                State::Taken if over.is_none() && begun.elapsed() > STRANGER => {
                    return Err(Unavailable::new("another program listens at its port", "again"));
                }
                State::NotYet if begun.elapsed() > STRANGER => self.listens_otherwise(told, place)?,
                State::Taken | State::NotYet => {}
            }
            match over {
                Some(why) => return Err(Unavailable::new(format!("{why}, and never listened"), AGAIN)),
                None if begun.elapsed() > place.patience => return Err(self.never_listened(told, place)),
                None if stop.load(Ordering::Relaxed) => return Err(Unavailable::new("it was not waited for", "")),
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// Whether it listens at its port, but with the other protocol.
    fn listens_otherwise(&self, told: &Told, place: &Place<'_>) -> Result<(), Unavailable> {
        let (Told::Port(port), Some((other, name, path))) = (told, place.over.other()) else { return Ok(()) };
        match state(&self.processes(), told, other, place.host)? {
            State::Listens(..) => Err(Unavailable::new(
                format!("it listens at {name} port {port}, and this path is none of {name}"),
                path,
            )),
            _ => Ok(()),
        }
    }

    fn never_listened(&self, told: &Told, place: &Place<'_>) -> Unavailable {
        let (kind, given) = match place.over {
            Over::Tcp => ("TCP port", "{port}"),
            Over::Udp => ("UDP port", "{port}"),
            Over::Unix(Kind::Stream) => ("Unix socket", "{socket}"),
            Over::Unix(Kind::Datagram) => ("Unix socket of datagrams", "{socket}"),
            Over::Unix(Kind::Packets) => ("Unix socket of packets", "{socket}"),
        };
        let at = match told {
            Told::Nothing => format!("any {kind}"),
            Told::Port(port) => format!("{kind} {port}"),
            Told::Path(_) => format!("the {kind} that it was told"),
        };
        let hint = match told {
            Told::Nothing => format!("{given} in its command line; -o patience=1m where it takes longer"),
            _ => format!("-o patience=1m where it takes longer; else {AGAIN}"),
        };
        let waited = units::Glyphs::Ascii.time(place.patience.as_nanos() as f64);
        Unavailable::new(format!("it does not listen at {at} after {waited}{}", self.text()), hint)
    }

    fn text(&self) -> String {
        match self.output.lines(LINES) {
            lines if lines.is_empty() => "; it said nothing".into(),
            lines => format!("; it said: {}", lines.join(" | ")),
        }
    }

    /// The program and what it has started, also what has left its tree as a daemon does: that is then a child of this process.
    fn processes(&self) -> Vec<u32> {
        let mut own = process::tree(self.child.id());
        let adopted = process::tree(std::process::id()).into_iter().skip(1);
        let adopted = adopted.filter(|pid| !own.contains(pid) && process::has_variable(*pid, &self.mark));
        own.extend(adopted.collect::<Vec<_>>());
        own
    }

    /// Whether it has put itself into the background: what listens, or may yet, is another process than was started.
    fn goes_on(&self) -> bool {
        let is_there = |pid: u32| pid != self.child.id() && process::has_variable(pid, &self.mark);
        self.server.map_or_else(|| self.processes().into_iter().any(is_there), is_there)
    }

    /// How it has ended; `None`: it has not.
    pub(super) fn ended(&mut self) -> Option<String> {
        let asked = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                // Its connections break a moment before it can be waited for, and then this is asked.
                Ok(None) if is_ending(self.child.id()) && asked.elapsed() < LAST_STEP => std::thread::sleep(LOOK),
                _ => return None,
            }
        };
        if status.success() && self.goes_on() {
            return None;
        }
        self.output.settle();
        Some(format!("it {}{}", ending(status), self.text()))
    }

    /// CPU time of all its processes, ns.
    pub(super) fn cpu_time(&self) -> u64 {
        process::cpu_time_of(&self.processes())
    }
}

impl Drop for Running {
    /// Asks the group to end, and ends it where it does not, with what has left the group.
    fn drop(&mut self) {
        let pid = self.child.id();
        let left: Vec<(u32, Option<u64>, Option<String>)> =
            self.processes().into_iter().skip(1).map(|pid| (pid, pidfd::started(pid), pidfd::name(pid))).collect();
        process::end_group(pid, false);
        let asked = Instant::now();
        while asked.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // The group is there as long as one of its processes is.
        process::end_group(pid, true);
        let _ = self.child.kill();
        let _ = self.child.wait();
        // All are killed before one is waited for: what is killed needs its last step only.
        let find = |(pid, started, name): (u32, Option<u64>, Option<String>)| Process::find(pid, started?, &name?).ok();
        let left: Vec<Process> = left.into_iter().filter_map(find).collect();
        left.iter().for_each(|process| drop(process.end(0)));
        let until = Instant::now() + LAST_STEP;
        for process in left {
            let _ = process.end(until.saturating_duration_since(Instant::now()).as_nanos() as u64);
        }
    }
}

/// Whether a process has no table of descriptors any more, which only one that is ending has not (`FDSize`,
/// proc_pid_status(5)).
fn is_ending(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .is_ok_and(|status| status.lines().any(|line| line == "FDSize:\t0"))
}

/// How a process ended, in words.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "ended".into(),
    }
}

/// The program itself and the files of its command line, with their SHA-256.
fn files(pid: u32, folder: &str, command: &[String]) -> Vec<(String, String)> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let named = command.iter().skip(1).map(|word| Path::new(folder).join(word));
    let mut files = Vec::new();
    for path in program.into_iter().chain(named) {
        let small = |path: &Path| fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST_FILE);
        let shown = path.display().to_string();
        if files.iter().all(|(other, _)| *other != shown)
            && small(&path)
            && let Ok(sum) = sha256(&path)
        {
            files.push((shown, sum));
        }
    }
    files
}

/// The SHA-256 of a file, hexadecimal.
///
/// # Errors
/// As reading it.
pub fn sha256(path: &Path) -> io::Result<String> {
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    // The path may come from a record: a pipe or a device could be waited for without an end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut file = File::open(path)?.take(LARGEST_FILE);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => sum.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn at(cpus: &[u32]) -> Place<'_> {
        Place { over: Over::Tcp, host: HERE, cpus, patience: Duration::from_secs(10) }
    }

    fn start(words: &[&str]) -> Result<Running, Unavailable> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let source = msgpath_core::program::Source::Command(words.clone());
        let program = Program { name: "it".into(), source, folder: String::new() };
        Running::start(&program, &words, &at(&[]), &AtomicBool::new(false))
    }

    #[test]
    fn the_folder_of_a_socket_goes_with_its_program_or_with_the_try() {
        let place = Place { over: Over::Unix(Kind::Stream), ..at(&[]) };
        let told = place.told(&["{socket}".into()]).unwrap();
        let Told::Path(path) = &told else { panic!("{told:?}") };
        let folder = Path::new(path).parent().unwrap().to_path_buf();
        assert!(folder.is_dir());
        drop(SocketFolder::of(&told));
        assert!(!folder.exists());
    }

    #[test]
    fn placeholders_are_filled_in_wherever_they_stand() {
        assert_eq!(at(&[]).filled("--listen={host}:{port}", &Told::Port(7)), "--listen=127.0.0.1:7");
        assert_eq!(at(&[]).filled("--at={socket}", &Told::Path("/x".into())), "--at=/x");
        assert_eq!(at(&[1, 3]).filled("{cpu}", &Told::Nothing), "1,3");
        assert_eq!(at(&[]).filled("{port}", &Told::Nothing), "{port}", "what is not known stays");
    }

    #[test]
    fn what_cannot_be_started_or_ends_says_why() {
        let why = |words: &[&str]| {
            let Unavailable { why, hint } = start(words).err().expect("it cannot be used");
            format!("{why}: {hint}")
        };
        assert!(why(&["/nowhere/server", "{port}"]).contains("could not be started"));
        assert!(why(&["/dev/null", "{port}"]).contains("executed"));
        let text = why(&["sh", "-c", "echo one; echo two >&2; exit 3", "{port}"]);
        assert!(text.contains("ended with status 3") && text.contains("it said: one | two"), "{text}");
        let killed = why(&["sh", "-c", "kill -9 $$"]);
        assert!(killed.contains("was ended by signal 9") && killed.contains("said nothing"), "{killed}");
    }

    #[test]
    fn a_process_that_has_given_up_its_descriptors_is_seen_to_end() {
        for _ in 0..20 {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            child.kill().unwrap();
            while !is_ending(child.id()) {
                std::thread::yield_now();
            }
            let (output, facts) = (LastOutput::default(), ProgramFacts::default());
            let mut running =
                Running { child, mark: MARK.into(), server: None, output, _socket: SocketFolder::default(), facts };
            assert!(running.ended().is_some_and(|how| how.contains("signal 9")));
        }
    }

    #[test]
    fn daemon_goes_on_behind_its_starter_and_is_ended_with_it() {
        process::adopt_orphans().unwrap();
        let mark = format!("{MARK}=daemon-{}", std::process::id());
        let mut start = Command::new("sh");
        start.args(["-c", "setsid sleep 600 & exit 0"]).env(MARK, mark.split_once('=').unwrap().1);
        let child = start.spawn().unwrap();
        let (output, facts) = (LastOutput::default(), ProgramFacts::default());
        let mut running =
            Running { child, mark: mark.clone(), server: None, output, _socket: SocketFolder::default(), facts };
        running.child.wait().unwrap();
        // What the shell left is in no tree but that of this process.
        assert_eq!(running.ended(), None, "the daemon may listen yet");
        let daemon = running.processes().into_iter().find(|pid| process::has_variable(*pid, &mark)).unwrap();
        running.server = Some(daemon);
        assert_eq!(running.ended(), None);
        drop(running);
        assert!(!process::has_variable(daemon, &mark), "it is left behind");
    }

    #[test]
    fn a_file_has_the_sum_that_sha256sum_prints() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let path = std::env::temp_dir().join(format!("msgpath-sum-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let shown = path.display().to_string();
        let files = files(std::process::id(), "", &["x".into(), shown.clone(), shown.clone()]);
        fs::remove_file(&path).unwrap();
        assert_eq!(files.last(), Some(&(shown, empty.to_owned())));
        assert_eq!(files.len(), 2, "the program and the file, each once: {files:?}");
    }
}
