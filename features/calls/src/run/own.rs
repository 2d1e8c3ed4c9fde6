//! `msgpath rpc here`: a server of one's own for one run. It is a role of an agent that the client starts, at a port that the kernel
//! chose, in a place of its own where there is one; it ends with the run, whatever ends that.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use msgpath_agent::roles::{Context, Goes, ListedRole, SessionRole};
use msgpath_agent::serve::Event;
use msgpath_agent::wire::{Body, FromEnd, ToEnd};
use msgpath_core::plan::EndPlace;
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_run::{Link, out_of_turn};
use msgpath_verbs::log::Log;

use crate::agent::server::{Server, ServerOptions};

/// The role of such an agent; its order is how the server behaves, and its answer where.
const ROLE: &str = "calls-server";

pub const SESSION: ListedRole = ListedRole { name: ROLE, begin: || Box::new(Serving::default()) };

/// A server that answers as long as this value lives.
pub struct OwnServer {
    agent: Link,
    address: SocketAddr,
}

impl OwnServer {
    /// Starts it; `place` is where it runs.
    ///
    /// # Errors
    /// E52: it could not be started, or said nothing.
    pub fn start(options: &ServerOptions, place: Option<&EndPlace>) -> Result<Self, Problem> {
        let cannot = |why: String| {
            Problem::new("E52", Exit::CannotStart, "the server of this run could not be started")
                .why(why)
                .hint("msgpath serve --rpc   in another terminal, and its address instead of here")
        };
        let places = place.map(|place| [place.clone(), place.clone()]);
        let mut agent = Link::ungreeted("server of this run".into(), places).map_err(|problem| cannot(problem.what))?;
        let host = Some(place.map_or("127.0.0.1".into(), |place| place.address.clone()));
        agent.order(ROLE, &ServerOptions { host, ..options.clone() })?;
        let address = match agent.answer()?.0 {
            FromEnd::Unavailable(reason) => return Err(cannot(reason.why)),
            said => said.of_role().map_err(|_| out_of_turn())?,
        };
        agent.send(&ToEnd::Go)?;
        Ok(Self { agent, address })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> Option<u32> {
        self.agent.pid()
    }
}

/// The server's side.
#[derive(Default)]
struct Serving {
    server: Option<Server>,
    /// The run has ended.
    gone: Arc<AtomicBool>,
}

impl SessionRole for Serving {
    fn order(&mut self, body: &Body, context: &Context<'_>) -> io::Result<FromEnd> {
        context.silence_is_fine();
        self.gone = Arc::clone(context.gone);
        match Server::bind(ServerOptions { port: 0, may_quit: true, ..body.read()? }) {
            Ok(server) => {
                let address = server.address();
                self.server = Some(server);
                FromEnd::role(&address)
            }
            Err(problem) => Ok(FromEnd::Unavailable(Unavailable::new(problem.what, problem.hint))),
        }
    }

    fn go(&mut self, _: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
        let server = self.server.take()?;
        let mut log = Log::new(Instant::now());
        let mut wrong = |event: Event<'_>| {
            if let Event::Wrong(line) = event
                && !line.starts_with("warning: ")
            {
                log.say(&format!("server: {line}"));
            }
        };
        Some(match server.run_saying(&self.gone, &mut wrong) {
            Ok(_) => FromEnd::Over,
            Err(problem) => FromEnd::Failed(problem.into()),
        })
    }

    fn report(&mut self, _: &mut dyn Write) -> io::Result<bool> {
        Ok(false)
    }
}
