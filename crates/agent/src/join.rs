//! An agent that comes to the coordinator of a mesh, where whatever starts it gives no pipe to each: one srun, mpirun, a
//! Kubernetes Job. It dials; both sides prove that they have the token; then a process of its own is an agent whose pipe is the
//! connection. When that has ended it dials again, until the coordinator says that the mesh is over.

use std::io::{self, Read};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use msgpath_core::foreign::shown;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};

use crate::greeting::{self, Heard};
use crate::token::{Nonces, Prover, Token};
use crate::wire::{self, Frame, FromDoor, Incoming, Joining, Nonce, VERSION};

/// How long each step of coming in may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long an agent goes on dialling where nobody lets it in: a coordinator may not be up yet, or come back to resume.
pub const REDIAL: Duration = Duration::from_secs(60);
/// How long who has proven itself waits for its turn: many come at the same time.
const TURN: Duration = Duration::from_secs(60);
/// Between two calls: from here on, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// An agent that lived so long was an agent.
const LIVED: Duration = Duration::from_secs(1);

/// A frame that is whole before this time.
///
/// # Errors
/// `TimedOut`, `UnexpectedEof`; `InvalidData` for anything that is no such frame.
pub fn read_by<T: Frame>(stream: &mut (impl Read + AsFd), by: Instant) -> io::Result<T> {
    let mut incoming = Incoming::new::<T>();
    loop {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"));
        }
        match poll(stream.as_fd(), Interest::Read, i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1)) {
            Ok(true) if incoming.fill(stream)? == 0 => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
            }
            Ok(true) => {
                if let Some((frame, _)) = incoming.take()? {
                    return Ok(frame);
                }
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Who comes, and where to.
pub struct Caller {
    /// The coordinator: HOST:PORT.
    pub to: String,
    /// What both have.
    pub token: Token,
    /// What it is called.
    pub name: String,
    /// Its number among those that were started together.
    pub rank: Option<u32>,
    /// Where its data connections go; `None`: where it dials from.
    pub address: Option<IpAddr>,
    /// How long it goes on dialling where nobody lets it in: [`REDIAL`].
    pub redial: Duration,
}

/// How an agent left a mesh that it was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was told that the mesh is over.
    Over,
    /// Its coordinator has ended and did not come back.
    Alone,
}

/// How a call ended.
enum Called {
    Welcome(TcpStream),
    Over,
}

/// Why nobody was let in.
enum Turned {
    /// It may be otherwise later.
    Later(String),
    Away(Problem),
}

impl From<io::Error> for Turned {
    fn from(error: io::Error) -> Self {
        Turned::Later(error.to_string())
    }
}

impl Caller {
    /// Comes, and is an agent as often as it is let in: `agent` is one whose pipe is the connection, until it ends.
    ///
    /// # Errors
    /// E01 nobody answers, E03 something else does, E73 another token, E84 there is no place for it, E19 it could not be started.
    pub fn join(&self, mut agent: impl FnMut(TcpStream) -> io::Result<()>) -> Result<Left, Problem> {
        let instance = Nonce::new().map_err(|error| self.nobody(&error.to_string()))?;
        let (mut pause, mut until) = (FIRST_PAUSE, Instant::now() + self.redial);
        let mut lived = false;
        loop {
            let why = match self.call(instance) {
                Ok(Called::Over) => return Ok(Left::Over),
                Ok(Called::Welcome(stream)) => {
                    let began = Instant::now();
                    let cannot = |error: io::Error| {
                        Problem::new("E19", Exit::CannotStart, format!("the agent could not be started: {error}"))
                    };
                    agent(stream).map_err(cannot)?;
                    if began.elapsed() > LIVED {
                        (pause, until, lived) = (FIRST_PAUSE, Instant::now() + self.redial, true);
                    }
                    "the agent ends as soon as it begins".to_owned()
                }
                Err(Turned::Away(problem)) => return Err(problem),
                Err(Turned::Later(why)) => {
                    if Instant::now() < until {
                        // Many come at the same time: not all of them again.
                        let jitter = Nonce::new().map_or(128, |Nonce(bytes)| bytes[0]);
                        std::thread::sleep(pause.mul_f64(0.5 + f64::from(jitter) / 255.0));
                        pause = (2 * pause).min(LONGEST_PAUSE);
                    }
                    why
                }
            };
            if Instant::now() >= until {
                return if lived { Ok(Left::Alone) } else { Err(self.nobody(&why)) };
            }
        }
    }

    fn nobody(&self, why: &str) -> Problem {
        let what = format!("no coordinator of a mesh lets this agent in at {}", self.to);
        Problem::new("E01", Exit::CannotStart, what)
            .why(why)
            .hint(format!("msgpath mesh --listen {} --token-file FILE there", self.to))
    }

    fn call(&self, instance: Nonce) -> Result<Called, Turned> {
        let away = |code: &str, what: String| Turned::Away(Problem::new(code, Exit::CannotStart, what));
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address");
        let mut connected = None;
        for address in self.to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let Some(mut stream) = connected else { return Err(last.into()) };
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match greeting::listen(&mut stream, PATIENCE)? {
            Heard::Greeting(VERSION) => {}
            Heard::Greeting(other) => {
                let what =
                    format!("the coordinator at {} speaks version {other} of the protocol, this is {VERSION}", self.to);
                return Err(away("E03", what));
            }
            // A coordinator that has too many callers closes; one that has ended, too.
            Heard::End | Heard::Silence => {
                return Err(Turned::Later("it closed the connection, or said nothing".into()));
            }
            Heard::Other(_) => {
                return Err(away("E03", format!("what listens at {} is not the coordinator of a mesh", self.to)));
            }
        }
        let by = Instant::now() + PATIENCE;
        let FromDoor::Challenge { nonce: far } = read_by::<FromDoor>(&mut stream, by)? else {
            return Err(away("E03", format!("the coordinator at {} does not ask who comes", self.to)));
        };
        let nonces = Nonces { near: Nonce::new()?, far };
        let joining = Joining {
            name: self.name.clone(),
            rank: self.rank,
            instance,
            address: self.address.unwrap_or(stream.local_addr()?.ip().to_canonical()),
            nonce: nonces.near,
            proof: self.token.proof(Prover::Agent, &nonces),
        };
        wire::write(&mut stream, &joining, &[])?;
        match read_by::<FromDoor>(&mut stream, Instant::now() + TURN)? {
            FromDoor::Welcome { proof } if self.token.is_proven(Prover::Coordinator, &nonces, &proof) => {
                stream.set_write_timeout(None)?;
                Ok(Called::Welcome(stream))
            }
            FromDoor::Over => Ok(Called::Over),
            FromDoor::Unwanted { why } => {
                Err(away("E84", format!("the mesh has no place for {}: {}", self.name, shown(&why))))
            }
            FromDoor::Refused => {
                Err(away("E73", format!("the coordinator at {} has another token than this agent", self.to)))
            }
            FromDoor::Welcome { .. } | FromDoor::Challenge { .. } => {
                Err(away("E73", format!("what listens at {} cannot prove that it has the token", self.to)))
            }
        }
    }
}

/// What launchers of many processes say of one of them, by the variables of the environment that they set.
pub mod started_by {
    /// Of Slurm, Open MPI, MPICH and others, PMIx, Flux, an Indexed Job of Kubernetes.
    const RANKS: [&str; 6] =
        ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK", "JOB_COMPLETION_INDEX"];
    /// Of Slurm; of a manifest that says on which node a pod is.
    const NAMES: [&str; 2] = ["SLURMD_NODENAME", "MSGPATH_NODE"];

    /// The number of this process.
    pub fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
        RANKS.iter().find_map(|name| variable(name)?.parse().ok())
    }

    /// The name of its node.
    pub fn node(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        NAMES.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::greeting::GREETING;

    fn token(text: &str) -> Token {
        let thread = std::thread::current().id();
        let file = std::env::temp_dir().join(format!("msgpath-join-{}-{thread:?}-{text}", std::process::id()));
        std::fs::write(&file, format!("{text}-0123456789abcdef")).unwrap();
        let token = Token::read(&file).unwrap().0;
        std::fs::remove_file(file).unwrap();
        token
    }

    /// What a caller makes of a coordinator that answers its proof like this.
    fn met(answer: impl FnOnce(&Nonces, &Joining) -> FromDoor + Send + 'static) -> Result<Left, Problem> {
        met_by(|_| Err(io::Error::other("it would be an agent")), answer)
    }

    /// The same, with what it does as an agent.
    fn met_by(
        agent: impl FnMut(TcpStream) -> io::Result<()>,
        answer: impl FnOnce(&Nonces, &Joining) -> FromDoor + Send + 'static,
    ) -> Result<Left, Problem> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let door = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let far = Nonce::new().unwrap();
            stream.write_all(&GREETING).unwrap();
            wire::write(&mut stream, &FromDoor::Challenge { nonce: far }, &[]).unwrap();
            let joining: Joining = read_by(&mut stream, Instant::now() + PATIENCE).unwrap();
            let nonces = Nonces { near: joining.nonce, far };
            wire::write(&mut stream, &answer(&nonces, &joining), &[]).unwrap();
        });
        let redial = Duration::from_millis(20);
        let caller = Caller { to, token: token("ours"), name: "n1".into(), rank: Some(3), address: None, redial };
        let found = caller.join(agent);
        door.join().unwrap();
        found
    }

    #[test]
    fn both_prove_that_they_have_the_token_before_anything_is_ordered() {
        let welcome = |token: Token, who: Prover| {
            move |nonces: &Nonces, joining: &Joining| {
                assert_eq!((joining.name.as_str(), joining.rank, joining.address.is_loopback()), ("n1", Some(3), true));
                FromDoor::Welcome { proof: token.proof(who, nonces) }
            }
        };
        let problem = met(welcome(token("ours"), Prover::Coordinator)).unwrap_err();
        assert!(problem.what.contains("it would be an agent"), "{problem:?}");
        for (token, who) in [(token("other"), Prover::Coordinator), (token("ours"), Prover::Agent)] {
            assert_eq!(met(welcome(token, who)).unwrap_err().code, "E73", "another token, or its own proof sent back");
        }
        // What serve proves is not what a coordinator does.
        assert_eq!(met(welcome(token("ours"), Prover::Far)).unwrap_err().code, "E73");
        assert_eq!(met(|_, _| FromDoor::Over), Ok(Left::Over));
        assert_eq!(met(|_, _| FromDoor::Refused).unwrap_err().code, "E73");
        let unwanted = met(|_, _| FromDoor::Unwanted { why: "full \u{1b}[2J".into() }).unwrap_err();
        assert!(unwanted.code == "E84" && !unwanted.what.contains('\u{1b}'), "{unwanted:?}");
    }

    #[test]
    fn an_agent_whose_coordinator_has_ended_has_done_its_work() {
        let welcome = |nonces: &Nonces, _: &Joining| FromDoor::Welcome {
            proof: token("ours").proof(Prover::Coordinator, nonces),
        };
        let lives = |_| {
            std::thread::sleep(LIVED + Duration::from_millis(20));
            Ok(())
        };
        assert_eq!(met_by(lives, welcome), Ok(Left::Alone));
        let problem = met_by(|_| Ok(()), welcome).unwrap_err();
        assert_eq!(problem.code, "E01", "one that ends at once was none: {problem:?}");
    }

    #[test]
    fn a_frame_that_drips_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"mp").unwrap();
        let error = read_by::<Joining>(&mut far, Instant::now() + Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        near.write_all(&[b'm', b'p', VERSION, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(
            read_by::<Joining>(&mut far, Instant::now() + PATIENCE).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        drop(near);
    }

    #[test]
    fn the_launcher_says_who_it_is() {
        let of = |all: &'static [(&str, &str)]| {
            move |name: &str| all.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        };
        let slurm = of(&[("SLURMD_NODENAME", "n7"), ("SLURM_PROCID", "11")]);
        assert_eq!((started_by::node(slurm), started_by::rank(slurm)), (Some("n7".into()), Some(11)));
        let mpi = of(&[("OMPI_COMM_WORLD_RANK", "2"), ("MSGPATH_NODE", "")]);
        assert_eq!((started_by::node(mpi), started_by::rank(mpi)), (None, Some(2)));
        assert_eq!(started_by::rank(of(&[("PMI_RANK", "-1")])), None);
    }
}
