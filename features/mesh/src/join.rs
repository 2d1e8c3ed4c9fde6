//! An agent that comes to the coordinator of a mesh, where whatever starts it gives no pipe to each: one srun, mpirun, a
//! Kubernetes Job. It dials; both sides prove that they have the token; then a process of its own is an agent whose pipe is the
//! connection. When that has ended it dials again, until the coordinator says that the mesh is over.
//!
//! A word that ends the agent, or makes it wait, counts from a coordinator that has proven itself. Whatever another listener says
//! at that address is a call that failed.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use msgpath_agent::greeting::{self, Heard};
use msgpath_agent::handshake::{Asked, Refusal, Roles, read_sealed_by};
use msgpath_agent::seal::{Sealing, Seals};
use msgpath_agent::token::Token;
use msgpath_agent::wire::{self, Addresses, FromDoor, Joining, Nonce, Opening, VERSION};
use msgpath_core::foreign::shown;
use msgpath_core::{Exit, Problem};

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
/// The code where nothing that speaks the protocol answers: usual before a coordinator is up.
const NOBODY: &str = "E01";

/// Whom a proof on the door of a mesh is to convince of what.
pub const JOIN: Roles = Roles { near: b"msgpath join", far: b"msgpath mesh" };

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
    Welcome(TcpStream, Box<Seals>),
    Over,
}

/// Why a call let no agent in.
enum Turned {
    /// Nobody has proven to be the coordinator, or it may let the agent in later: the agent calls again, within its time limit.
    Later(Problem),
    /// The coordinator has proven itself, and has no place for the agent.
    Away(Problem),
}

impl Caller {
    /// Comes, and is an agent as often as it is let in: `agent` is one whose pipe is the connection, until it ends. `note`
    /// hears why an answer at that address does not count; the agent goes on calling.
    ///
    /// # Errors
    /// E84 there is no place for it, E19 it could not be started. After `redial`, the last of: E01 nobody answers, E03
    /// something else does, E73 it does not prove that it has the token, E75 a translator is between.
    pub fn join(
        &self,
        mut agent: impl FnMut(TcpStream, &Seals) -> io::Result<()>,
        mut note: impl FnMut(&str),
    ) -> Result<Left, Problem> {
        let instance = Nonce::new().map_err(|error| self.nobody(&error.to_string()))?;
        let (mut pause, mut until) = (FIRST_PAUSE, Instant::now() + self.redial);
        let (mut lived, mut noted) = (false, String::new());
        loop {
            let problem = match self.call(instance, until) {
                Ok(Called::Over) => return Ok(Left::Over),
                Ok(Called::Welcome(stream, seals)) => {
                    let began = Instant::now();
                    let cannot = |error: io::Error| {
                        Problem::new("E19", Exit::CannotStart, format!("the agent could not be started: {error}"))
                    };
                    agent(stream, &seals).map_err(cannot)?;
                    if began.elapsed() > LIVED {
                        (pause, until, lived) = (FIRST_PAUSE, Instant::now() + self.redial, true);
                    }
                    self.nobody("the agent ends as soon as it begins")
                }
                Err(Turned::Away(problem)) => return Err(problem),
                Err(Turned::Later(problem)) => {
                    if Instant::now() < until {
                        if problem.code != NOBODY && problem.what != noted {
                            note(&problem.what);
                            noted.clone_from(&problem.what);
                        }
                        // Many come at the same time: not all of them again.
                        let jitter = Nonce::new().map_or(128, |Nonce(bytes)| bytes[0]);
                        std::thread::sleep(pause.mul_f64(0.5 + f64::from(jitter) / 255.0));
                        pause = (2 * pause).min(LONGEST_PAUSE);
                    }
                    problem
                }
            };
            if Instant::now() >= until {
                return if lived { Ok(Left::Alone) } else { Err(problem) };
            }
        }
    }

    fn nobody(&self, why: &str) -> Problem {
        let what = format!("no coordinator of a mesh lets this agent in at {}", self.to);
        Problem::new(NOBODY, Exit::CannotStart, what)
            .why(why)
            .hint(format!("msgpath mesh --listen {} --token-file FILE   there", self.to))
    }

    /// Calls every address in turn: a stranger at one of them does not hide the coordinator at another.
    fn call(&self, instance: Nonce, until: Instant) -> Result<Called, Turned> {
        let later = |error: io::Error| Turned::Later(self.nobody(&error.to_string()));
        let mut turned = later(io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address"));
        for (at, address) in self.to.to_socket_addrs().map_err(later)?.enumerate() {
            if at > 0 && Instant::now() >= until {
                break;
            }
            match self.call_at(address, instance) {
                Err(error @ Turned::Later(_)) => turned = error,
                ended => return ended,
            }
        }
        Err(turned)
    }

    fn call_at(&self, address: SocketAddr, instance: Nonce) -> Result<Called, Turned> {
        let (mut stream, seals) = self.proven(address).map_err(Turned::Later)?;
        let failed = |error: io::Error| Turned::Later(self.nobody(&error.to_string()));
        let own = || Ok(stream.local_addr()?.ip().to_canonical());
        let joining = Joining {
            name: self.name.clone(),
            rank: self.rank,
            instance,
            address: self.address.map_or_else(own, Ok).map_err(failed)?,
        };
        let mut to = Sealing::new(&stream, Some(seals.says));
        wire::write(&mut to, &joining, &[]).map_err(failed)?;
        let (says, mut hears) = (to.into_parts().1, Some(seals.hears));
        let answer = read_sealed_by(&mut stream, &mut hears, Instant::now() + TURN).map_err(failed)?.0;
        match answer {
            FromDoor::Welcome => {
                stream.set_write_timeout(None).map_err(failed)?;
                let lost = || failed(io::ErrorKind::InvalidData.into());
                let seals = Seals { says: says.ok_or_else(lost)?, hears: hears.ok_or_else(lost)?, ..seals };
                Ok(Called::Welcome(stream, Box::new(seals)))
            }
            FromDoor::Over => Ok(Called::Over),
            FromDoor::Unwanted { why } => {
                let what = format!("the mesh has no place for {}: {}", self.name, shown(&why));
                Err(Turned::Away(Problem::new("E84", Exit::CannotStart, what)))
            }
        }
    }

    /// A connection to a coordinator that has proven that it has the token. What is said before that decides nothing.
    fn proven(&self, address: SocketAddr) -> Result<(TcpStream, Seals), Problem> {
        let failed = |error: io::Error| self.nobody(&error.to_string());
        let stranger = |what: String| Problem::new("E03", Exit::CannotStart, what);
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        match greeting::listen(&mut stream, PATIENCE).map_err(failed)? {
            Heard::Greeting(VERSION) => {}
            Heard::Greeting(other) => {
                let what =
                    format!("the coordinator at {} speaks version {other} of the protocol, this is {VERSION}", self.to);
                return Err(stranger(what));
            }
            // A coordinator that has too many callers closes; one that has ended, too.
            Heard::End | Heard::Silence => return Err(self.nobody("it closed the connection, or said nothing")),
            Heard::Other(_) => {
                return Err(stranger(format!("what listens at {} is not the coordinator of a mesh", self.to)));
            }
        }
        let by = Instant::now() + PATIENCE;
        let asked = Asked::listen(&mut stream, by).map_err(failed)?;
        if asked.opening == Opening::Open {
            return Err(stranger(format!("the coordinator at {} does not ask who comes", self.to)));
        }
        let own = Addresses::of(&stream, true).map_err(failed)?;
        let seals = asked.prove(&mut stream, &self.token, JOIN, Some(own), by).map_err(|refusal| match refusal {
            Refusal::Io(error) => failed(error),
            refusal => refusal
                .problem(&format!("coordinator at {}", self.to), "msgpath mesh --listen HOST:PORT --token-file FILE"),
        })?;
        Ok((stream, seals))
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

    use msgpath_agent::greeting::GREETING;
    use msgpath_agent::handshake::{Question, read_by};
    use msgpath_agent::seal::Seal;
    use msgpath_agent::wire::{Admits, Frame, Proof, Proves};

    use super::*;
    use crate::run::door_tests::token;

    fn caller(listener: &TcpListener, redial: Duration) -> Caller {
        let to = listener.local_addr().unwrap().to_string();
        Caller { to, token: token(), name: "n1".into(), rank: Some(3), address: None, redial }
    }

    /// Takes one call up to the proof of the agent.
    fn taken(listener: &TcpListener) -> (TcpStream, Question, Proves) {
        let (mut stream, _) = listener.accept().unwrap();
        let (question, opening) = Question::new(true).unwrap();
        stream.write_all(&[&GREETING[..], &opening].concat()).unwrap();
        let (proves, _) = read_by::<Proves>(&mut stream, Instant::now() + PATIENCE).unwrap();
        (stream, question, proves)
    }

    /// The true coordinator, up to what it decides of an agent.
    fn admitted(listener: &TcpListener) -> (TcpStream, Seal) {
        let (mut stream, question, proves) = taken(listener);
        let seen = Addresses::of(&stream, false).unwrap();
        let (admits, seals) = question.judge(&token(), JOIN, &proves, Some(&seen));
        wire::write(&mut stream, &admits, &[]).unwrap();
        let seals = seals.unwrap();
        let mut hears = Some(seals.hears);
        let (joining, _) = read_sealed_by::<Joining>(&mut stream, &mut hears, Instant::now() + PATIENCE).unwrap();
        assert_eq!((joining.name.as_str(), joining.rank, joining.address.is_loopback()), ("n1", Some(3), true));
        (stream, seals.says)
    }

    /// One call to the true coordinator, which then says this.
    fn decided(listener: &TcpListener, answer: &FromDoor) {
        let (stream, says) = admitted(listener);
        wire::write(&mut Sealing::new(&stream, Some(says)), answer, &[]).unwrap();
    }

    /// What a caller makes of the coordinator that says this, with what it does as an agent.
    fn met(answer: FromDoor, agent: impl FnMut(TcpStream, &Seals) -> io::Result<()>) -> Result<Left, Problem> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = caller(&listener, Duration::from_millis(20));
        let door = std::thread::spawn(move || decided(&listener, &answer));
        let found = caller.join(agent, |_| ());
        door.join().unwrap();
        found
    }

    fn no_agent(_: TcpStream, _: &Seals) -> io::Result<()> {
        Err(io::Error::other("it would be an agent"))
    }

    #[test]
    fn verdicts_of_a_coordinator_with_the_token_count() {
        let problem = met(FromDoor::Welcome, no_agent).unwrap_err();
        assert!(problem.code == "E19" && problem.what.contains("it would be an agent"), "{problem:?}");
        assert_eq!(met(FromDoor::Over, no_agent), Ok(Left::Over));
        let unwanted = met(FromDoor::Unwanted { why: "full \u{1b}[2J".into() }, no_agent).unwrap_err();
        assert!(unwanted.code == "E84" && !unwanted.what.contains('\u{1b}'), "{unwanted:?}");
    }

    type FalseWord = Box<dyn Fn(&TcpListener) + Send>;

    /// Every word that a listener without the token can say: instead of a proof, behind a false one, or in between on the channel of
    /// a true one.
    fn false_words() -> Vec<FalseWord> {
        fn framed(frame: &impl Frame) -> Vec<u8> {
            wire::frame(frame, &[]).unwrap()
        }
        /// Until the caller hangs up: a reset would take the words with it.
        fn say(mut stream: TcpStream, words: &[u8]) {
            stream.write_all(words).unwrap();
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        let decisions = [FromDoor::Welcome, FromDoor::Over, FromDoor::Unwanted { why: "full".into() }];
        let mut all: Vec<FalseWord> = Vec::new();
        let first: [Vec<u8>; 4] = [
            b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
            [&GREETING[..7], &[VERSION + 1]].concat(),
            [&GREETING[..], &framed(&Admits::Refused)].concat(),
            [&GREETING[..], &framed(&FromDoor::Over)].concat(),
        ];
        for words in first {
            all.push(Box::new(move |listener| say(listener.accept().unwrap().0, &words)));
        }
        let instead = decisions.iter().map(framed).chain([framed(&Admits::Refused)]);
        for words in instead {
            all.push(Box::new(move |listener| say(taken(listener).0, &words)));
        }
        all.push(Box::new(|listener| {
            let (stream, ..) = taken(listener);
            let seen = Addresses { near: stream.local_addr().unwrap(), far: stream.local_addr().unwrap() };
            say(stream, &framed(&Admits::Elsewhere { seen }));
        }));
        for decision in decisions.iter().map(framed) {
            let (behind_false, reflected, between) = (decision.clone(), decision.clone(), decision);
            all.push(Box::new(move |listener| {
                let admits = framed(&Admits::Proven { proof: Proof([7; 32]) });
                say(taken(listener).0, &[&admits[..], &behind_false].concat());
            }));
            all.push(Box::new(move |listener| {
                let (stream, _, proves) = taken(listener);
                say(stream, &[&framed(&Admits::Proven { proof: proves.proof })[..], &reflected].concat());
            }));
            all.push(Box::new(move |listener| say(admitted(listener).0, &between)));
        }
        all
    }

    #[test]
    fn words_without_the_proof_of_the_coordinator_decide_nothing() {
        for word in false_words() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let caller = caller(&listener, REDIAL);
            let door = std::thread::spawn(move || {
                word(&listener);
                decided(&listener, &FromDoor::Over);
            });
            let mut notes = 0;
            let agent = |_: TcpStream, _: &Seals| panic!("an agent of a listener without the token");
            assert_eq!(caller.join(agent, |_| notes += 1), Ok(Left::Over));
            assert!(notes <= 1, "one note for one reason");
            door.join().unwrap();
        }
    }

    #[test]
    fn a_listener_without_the_token_is_called_for_the_time_limit_only() {
        for (at, word) in false_words().into_iter().enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // Over once the first call has failed.
            let caller = caller(&listener, Duration::ZERO);
            let door = std::thread::spawn(move || word(&listener));
            let problem = caller.join(no_agent, |_| ()).unwrap_err();
            assert!(["E01", "E03", "E73", "E75"].contains(&problem.code.as_ref()), "word {at}: {problem:?}");
            door.join().unwrap();
        }
    }

    #[test]
    fn an_agent_whose_coordinator_has_ended_has_done_its_work() {
        let lives = |_: TcpStream, _: &Seals| {
            std::thread::sleep(LIVED + Duration::from_millis(20));
            Ok(())
        };
        assert_eq!(met(FromDoor::Welcome, lives), Ok(Left::Alone));
        let problem = met(FromDoor::Welcome, |_, _| Ok(())).unwrap_err();
        assert_eq!(problem.code, "E01", "one that ends at once was none: {problem:?}");
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
