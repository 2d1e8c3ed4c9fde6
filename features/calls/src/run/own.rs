//! `msgpath rpc here`: a server of one's own for one run. It is a child of the client and a program of its own, at a port
//! that the kernel chose, in a place of its own where there is one; it ends with the run, whatever ends that.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::EndPlace;
use msgpath_core::{Exit, Problem};
use msgpath_sys::child::MakerEnds;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::signal;

use crate::agent::server::{Server, ServerOptions};
use msgpath_agent::namespace;
use msgpath_agent::role::Role;
use msgpath_agent::serve::Event;
use msgpath_agent::team::thread_problem;
use msgpath_run::launch::{self, local};
use serde::{Deserialize, Serialize};

/// How long the server may take until it listens, ms.
const PATIENCE_MS: i32 = 10_000;

/// The server, as its process is named.
pub const PROCESS: &str = "calls-server";

/// What it is told.
#[derive(Serialize, Deserialize)]
pub struct ServerOrder {
    /// Who started it: it ends with that.
    parent: i32,
    /// The namespace that it moves to first.
    namespace: Option<String>,
    /// How it behaves.
    options: ServerOptions,
}

/// A server that answers as long as this value lives.
pub struct OwnServer {
    child: Child,
    /// Its end is the server's end.
    input: Option<ChildStdin>,
    address: SocketAddr,
}

impl OwnServer {
    /// Starts it; `place` is where it runs. Called before the process has any
    /// other thread: the server ends with the thread that started it.
    ///
    /// # Errors
    /// E52: it could not be started, or said nothing.
    pub fn start(options: &ServerOptions, place: Option<&EndPlace>) -> Result<Self, Problem> {
        let cannot = |why: String| {
            Problem::new("E52", Exit::CannotStart, "the server of this run could not be started")
                .why(why)
                .hint("msgpath serve --rpc   in another terminal, and its address instead of here")
        };
        let order = ServerOrder {
            parent: std::process::id() as i32,
            namespace: place.map(|place| place.namespace.clone()),
            options: ServerOptions {
                host: Some(place.map_or("127.0.0.1".into(), |place| place.address.clone())),
                ..options.clone()
            },
        };
        let started = local::start(&mut local::program(), MakerEnds::Kills, &Role::of(PROCESS, &order));
        let (child, input, output) = started.map_err(|error| cannot(error.to_string()))?;
        // From here on it is ended with this value.
        let mut own = Self { child, input: Some(input), address: SocketAddr::from(([0, 0, 0, 0], 0)) };
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

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.input = None;
        launch::end_child(&mut self.child);
    }
}

/// The server's side: answers until its standard input ends. `wrong` gets what goes wrong.
///
/// # Errors
/// What kept it from listening; it was told to the parent as well.
pub fn serve_for(order: ServerOrder, wrong: &mut dyn FnMut(&str)) -> Result<(), Problem> {
    let ServerOrder { parent, namespace, options } = order;
    let began = namespace.as_deref().map_or(Ok(()), namespace::enter).and_then(|()| {
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
