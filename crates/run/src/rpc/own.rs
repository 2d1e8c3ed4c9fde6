//! `msgpath rpc here`: a server of one's own for one run. It is a child of the client and a program of its own, at a port
//! that the kernel chose, in a place of its own where there is one; it ends with the run, whatever ends that.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::EndPlace;
use msgpath_core::{Exit, Problem};
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::signal;

use super::server::{Event, Server, ServerOptions};
use crate::lab;
use crate::team::thread_problem;

/// How long the server may take until it listens, ms.
const PATIENCE_MS: i32 = 10_000;
/// How long it may take to end when it was asked to, in steps of 10 ms.
const FAREWELL: u32 = 100;

/// A server that answers as long as this value lives.
pub struct OwnServer {
    child: Child,
    /// Its end is the server's end.
    input: Option<ChildStdin>,
    address: SocketAddr,
}

impl OwnServer {
    /// Starts it: `options` are those of `msgpath serve --rpc`, `place` is where it runs. Called before the process has any
    /// other thread: the server ends with the thread that started it.
    ///
    /// # Errors
    /// E52: it could not be started, or said nothing.
    pub fn start(options: &[String], place: Option<&EndPlace>) -> Result<Self, Problem> {
        let cannot = |why: String| {
            Problem::new("E52", Exit::CannotStart, "the server of this run could not be started")
                .why(why)
                .hint("msgpath serve --rpc in another terminal, and its address instead of here")
        };
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", "--rpc", place.map_or("127.0.0.1", |place| &place.address), "--for"]);
        command.arg(std::process::id().to_string());
        if let Some(place) = place {
            command.args(["--namespace", &place.namespace]);
        }
        command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            child::own(&mut command, MakerEnds::Kills).spawn().map_err(|error| cannot(error.to_string()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        // From here on it is ended with this value.
        let mut own = Self { child, input, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let mut line = String::new();
        if poll(output.as_fd(), Interest::Read, PATIENCE_MS).map_err(|error| cannot(error.to_string()))? {
            let read = BufReader::new(output).take(256).read_line(&mut line);
            read.map_err(|error| cannot(error.to_string()))?;
        }
        own.address = line.trim().parse().map_err(|_| match line.trim() {
            "" => cannot("it ended, or said nothing for 10 s; what it says stands above".into()),
            other => cannot(other.into()),
        })?;
        Ok(own)
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.input = None;
        for _ in 0..FAREWELL {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // It is our own child.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's side: answers until its standard input ends. `parent` is who started it, `namespace` where it moves first;
/// `wrong` gets what goes wrong.
///
/// # Errors
/// What kept it from listening; it was told to the parent as well.
pub fn serve_for(
    parent: i32,
    namespace: Option<&str>,
    options: ServerOptions,
    wrong: &mut dyn FnMut(&str),
) -> Result<(), Problem> {
    // The run decides when it ends: an interrupt of the terminal reaches the client too.
    signal::ignore_interrupt();
    let began = namespace.map_or(Ok(()), lab::enter_namespace).and_then(|()| {
        // After the namespace: credentials that change would take this back.
        signal::die_with_parent(parent).map_err(|error| {
            Problem::new("E52", Exit::CannotStart, format!("nobody waits for this server: {error}"))
        })?;
        Server::bind(ServerOptions { port: 0, may_quit: true, ..options })
    });
    let mut out = io::stdout();
    let mut say = |line: &dyn std::fmt::Display| writeln!(out, "{line}").and_then(|()| out.flush());
    let server = match began {
        Ok(server) => server,
        Err(problem) => {
            let _ = say(&problem.what);
            return Err(problem);
        }
    };
    // A parent that is gone closes standard input as well, and that ends the server.
    let _ = say(&server.address());
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let watch = std::thread::Builder::new().name("parent".into()).spawn(move || {
        let _ = io::stdin().lock().read(&mut [0]);
        ended.store(true, Ordering::Relaxed);
    });
    watch.map_err(|error| thread_problem(&error))?;
    server.run_saying(&over, &mut |event| {
        if let Event::Wrong(line) = event
            && !line.starts_with("warning: ")
        {
            wrong(line);
        }
    })?;
    Ok(())
}
