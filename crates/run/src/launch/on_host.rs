//! An agent on another host: a program that is started here, such as ssh, gives a pipe to it.

use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use msgpath_agent::last_output::LastOutput;
use msgpath_agent::launched::{MARK, MARK_OF_A_TERMINAL};
use msgpath_agent::role::{Found, Role, Surroundings};
use msgpath_agent::wire::{Frame, Incoming, VERSION};
use msgpath_core::foreign::shown_bytes;
use msgpath_core::{Exit, Launch, Problem};
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::signal;

use super::{Launcher, Stream, end_now, local, newest};

/// How long a host may take: to be reached, to log in, to give a job its place.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the agent may take for its first answer.
const ANSWER: Duration = Duration::from_secs(15);
/// How long the name of the host may take to be looked up once its agent waits for an order; it finds its address without it then.
const LOOK_UP: Duration = Duration::from_secs(2);
/// Between two looks at whether the user wants to go on.
const LOOK_MS: i32 = 100;
/// What a login shell may say before the agent does.
const MOST_BEFORE: usize = 64 << 10;
/// How long a launcher whose pipe has ended may take to end itself.
const END: Duration = Duration::from_secs(2);

/// What the agent is told by its command line: that something may be before it in the pipe.
const LAUNCHED: &str = "--launched";

pub struct OnHost<'a> {
    /// The host, and what starts an agent there.
    pub launch: &'a Launch,
}

impl Launcher for OnHost<'_> {
    fn launch(&self) -> Result<Stream, Problem> {
        let mut started = self.start()?;
        match self.greet(&mut started) {
            Ok(found) => self.stream(started, found),
            Err(problem) => {
                end_now(&mut started.child);
                Err(problem)
            }
        }
    }
}

/// A launcher that runs.
struct Started {
    child: Child,
    from: ChildStdout,
    errors: LastOutput,
}

impl OnHost<'_> {
    /// E19.
    fn cannot(&self, why: impl std::fmt::Display) -> Problem {
        let Launch { host, by, .. } = self.launch;
        Problem::new("E19", Exit::CannotStart, format!("no agent could be started on {host} by {by}: {why}"))
    }

    fn words(&self, agent: &[&str]) -> Vec<String> {
        // Not /proc/self/exe: a launcher is a process of its own.
        let this = std::env::current_exe().map_or_else(|_| "msgpath".into(), |path| path.display().to_string());
        self.launch.command(&this, agent)
    }

    fn start(&self) -> Result<Started, Problem> {
        let words = self.words(&[local::VERB, LAUNCHED]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C of the terminal is for this program, which ends the run in order.
        command.process_group(0);
        // It may pass on what it has of its environment, and this is about another session than its own.
        command.env_remove("SSH_CONNECTION");
        let spawned = child::own(&mut command, MakerEnds::ClosesInput).spawn();
        let mut child = spawned.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.cannot(format!("{} is not installed here", words[0])),
            _ => self.cannot(error),
        })?;
        let from = child.stdout.take().expect("piped");
        match LastOutput::by(child.stderr.take().expect("piped")) {
            Ok(errors) => Ok(Started { child, from, errors }),
            Err(error) => {
                end_now(&mut child);
                Err(self.cannot(error))
            }
        }
    }

    /// Waits for the agent's mark, tells it what it is, and hears where its data connections go.
    fn greet(&self, started: &mut Started) -> Result<Found, Problem> {
        let named = self.look_up();
        self.wait_for_the_mark(started)?;
        let named = named.and_then(|named| named.recv_timeout(LOOK_UP).ok()).unwrap_or_default();
        let role = Role::OnHost(Box::new(Surroundings::here(self.launch.address, named)));
        let to = started.child.stdin.as_mut().expect("piped");
        role.give(to).map_err(|error| self.cannot(error))?;
        self.answer(started)
    }

    /// What the host's name means here, found while the host is reached: a name server may be slow or silent, and an agent waits for its
    /// first order. `None`: the user gave the address.
    fn look_up(&self) -> Option<Receiver<Vec<IpAddr>>> {
        if self.launch.address.is_some() {
            return None;
        }
        let host = self.launch.host.rsplit('@').next().unwrap_or_default().to_owned();
        let (sender, named) = channel();
        let look_up = move || {
            let found = (host.as_str(), 0).to_socket_addrs().map(|all| all.map(|address| address.ip()).collect());
            let _ = sender.send(found.unwrap_or_default());
        };
        std::thread::Builder::new().name("look-up".into()).spawn(look_up).ok()?;
        Some(named)
    }

    /// Reads once; `None`: nothing came for a moment.
    fn read(
        &self,
        from: &mut ChildStdout,
        read: impl FnOnce(&mut ChildStdout) -> io::Result<usize>,
    ) -> Result<Option<usize>, Problem> {
        if signal::stop_flag().load(Ordering::Relaxed) {
            let what = format!("interrupted before {} answered", self.launch.host);
            return Err(Problem::new("E15", Exit::Interrupted, what));
        }
        match poll(from.as_fd(), Interest::Read, LOOK_MS) {
            Ok(false) => Ok(None),
            Ok(true) => read(from).map(Some).map_err(|error| self.cannot(error)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(self.cannot(error)),
        }
    }

    fn wait_for_the_mark(&self, started: &mut Started) -> Result<(), Problem> {
        let (begun, mut seen) = (Instant::now(), Vec::new());
        loop {
            let mut buffer = [0; 1024];
            match self.read(&mut started.from, |from| from.read(&mut buffer))? {
                Some(0) => return Err(self.ended(started, &seen)),
                Some(read) => seen.extend(&buffer[..read]),
                None => {}
            }
            let at = |mark: &[u8]| seen.windows(mark.len()).position(|bytes| bytes == mark);
            match at(&MARK).and_then(|at| seen.get(at + MARK.len())) {
                Some(&VERSION) => return Ok(()),
                Some(other) => {
                    let what = format!(
                        "msgpath on {} speaks version {other} of the protocol, this is {VERSION}",
                        self.launch.host
                    );
                    return Err(Problem::new("E03", Exit::CannotStart, what)
                        .hint("the same version there; --program names another one"));
                }
                None => {}
            }
            if at(&MARK_OF_A_TERMINAL).is_some() {
                return Err(self
                    .cannot("a terminal is in between, which changes bytes")
                    .hint(format!("leave out what asks {} for one: -t", self.launch.by)));
            }
            if seen.len() > MOST_BEFORE {
                return Err(self.not_msgpath(&seen, "no msgpath spoke"));
            }
            if begun.elapsed() > PATIENCE {
                let silence = format!("nothing came of msgpath for {} s", PATIENCE.as_secs());
                return Err(self.not_msgpath(&seen, &silence));
            }
        }
    }

    /// E19, with what came instead of an agent.
    fn not_msgpath(&self, seen: &[u8], what: &str) -> Problem {
        let why = match seen {
            [] => String::new(),
            seen => format!("it began with \"{}\"", shown_bytes(seen, 64)),
        };
        self.cannot(what).why(why).hint(self.by_hand())
    }

    /// What the user can try.
    fn by_hand(&self) -> String {
        self.words(&["--version"]).join(" ")
    }

    /// E19: the launcher has ended before an agent spoke.
    fn ended(&self, started: &mut Started, seen: &[u8]) -> Problem {
        let begun = Instant::now();
        let mut status = None;
        while status.is_none() && begun.elapsed() < END {
            status = started.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(10));
        }
        started.errors.settle();
        let code = status.and_then(|status| status.code());
        let Launch { host, program, .. } = self.launch;
        let what = match (code, status) {
            // As shells and container engines say it.
            (Some(126 | 127), _) => {
                let called = program.as_deref().unwrap_or("msgpath");
                let hint = format!("install it there, or --program with its path on {host}");
                let missing = self.cannot(format!("{called} is not there, or cannot be executed"));
                return missing.why(newest(&started.errors)).hint(hint);
            }
            (Some(code), _) => format!("it ended with code {code}"),
            (None, Some(status)) => status.to_string(),
            (None, None) => "it closed its output".into(),
        };
        let problem = self.not_msgpath(seen, &what);
        match newest(&started.errors) {
            text if text.is_empty() => problem,
            text => problem.why(text),
        }
    }

    /// The agent's first answer.
    fn answer(&self, started: &mut Started) -> Result<Found, Problem> {
        let (begun, mut incoming) = (Instant::now(), Incoming::new::<Found>());
        loop {
            let filled = self.read(&mut started.from, |from| incoming.fill(from))?;
            if filled == Some(0) {
                return Err(self.ended(started, &[]));
            }
            if let Some((found, _)) = take(&mut incoming).map_err(|error| self.cannot(error))? {
                return Ok(found);
            }
            if begun.elapsed() > ANSWER {
                return Err(self.cannot(format!("the agent did not answer for {} s", ANSWER.as_secs())));
            }
        }
    }

    fn stream(&self, started: Started, found: Found) -> Result<Stream, Problem> {
        let Started { mut child, from, errors } = started;
        let Some((address, by)) = found.address else {
            end_now(&mut child);
            return Err(self.no_address(&found.own));
        };
        let to = child.stdin.take().expect("piped");
        Ok(Stream {
            process: Some(child),
            peer: Some((address, 0).into()),
            found: Some(by),
            errors: Some(errors),
            ..Stream::new(from, to)
        })
    }

    /// E71: it is not known where data connections go.
    fn no_address(&self, own: &[IpAddr]) -> Problem {
        let own: Vec<String> = own.iter().map(ToString::to_string).collect();
        let has = if own.is_empty() { "none but loopback".into() } else { own.join(", ") };
        let host = &self.launch.host;
        let what = format!("no address of {host} is known by which its data connections could be reached");
        Problem::new("E71", Exit::CannotStart, what)
            .why(format!("its name means none of its addresses here, and no route leads back; it has {has}"))
            .hint("--address ADDR; of a file of hosts: address = \"ADDR\"")
    }
}

fn take<T: Frame>(incoming: &mut Incoming) -> io::Result<Option<(T, Vec<u8>)>> {
    incoming.take()
}
