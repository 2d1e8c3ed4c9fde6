//! What is said on a new connection before the first call: who calls, which database, and statements to prepare.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use msgpath_core::counts::CallCounts;
use msgpath_core::foreign::shown;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};

use super::cluster::{self, Cluster};
use super::orders::{CallOrder, Login, Secret, Speaks};
use super::redis::{self, Redis};
use super::stream::Stream;
use super::wire::Frame;

/// What is said first.
#[derive(Clone, Debug)]
pub enum Greeting {
    /// Nothing: the first call begins.
    None,
    Redis(Login),
    #[cfg(feature = "postgres")]
    Postgres {
        /// Who calls.
        login: Login,
        database: String,
        /// Statements, each with the number of parameters that its calls give.
        statements: Vec<(String, usize)>,
    },
}

impl Greeting {
    /// Of a run.
    pub fn of(order: &CallOrder) -> Self {
        match &order.speaks {
            Speaks::Redis(login) => Greeting::Redis(login.clone()),
            #[cfg(feature = "postgres")]
            Speaks::Postgres { login, database } => {
                let parameters = |step: &msgpath_rpc::command::Step| {
                    usize::from(step.sent_key().is_some()) + usize::from(step.sent_value().is_some())
                };
                let statements = order.steps.iter().map(|step| (step.method.clone(), parameters(step))).collect();
                Greeting::Postgres { login: login.clone(), database: database.clone(), statements }
            }
            _ => Greeting::None,
        }
    }

    /// Asks for TLS where the protocol wants to be asked. The answer is one byte: what comes behind it belongs to TLS.
    ///
    /// # Errors
    /// E137: the server has none.
    pub fn ask_for_tls(&self, stream: &Stream, patience: Duration) -> Result<(), Problem> {
        match self {
            Greeting::None | Greeting::Redis(_) => {
                let _ = (stream, patience);
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Greeting::Postgres { .. } => ask_for_tls(stream, patience),
        }
    }

    /// Says it on a connection, and waits for the answers. Returns what the server calls itself, where it says so.
    ///
    /// # Errors
    /// E65: the server refuses, or does not answer in time. E146: it does not take a statement.
    pub fn say(&self, stream: &Stream, patience: Duration) -> Result<Option<String>, Problem> {
        match self {
            Greeting::None => Ok(None),
            Greeting::Redis(login) => login.say(stream, patience).map(|()| None),
            #[cfg(feature = "postgres")]
            Greeting::Postgres { login, database, statements } => {
                prepare(stream, patience, (login, database), statements)
            }
        }
    }
}

/// Asks PostgreSQL for TLS.
#[cfg(feature = "postgres")]
fn ask_for_tls(stream: &Stream, patience: Duration) -> Result<(), Problem> {
    const PORT: &str = "the port of a PostgreSQL server (5432, unless it was told otherwise)";
    let mut answer = [0];
    let asked = send(stream, &super::postgres::asks_for_tls());
    let (why, hint) = match asked.and_then(|()| receive(stream, &mut answer, patience)) {
        Ok(_) if answer == *b"S" => return Ok(()),
        Ok(_) if answer == *b"N" => {
            ("it speaks none".to_owned(), "ssl = on in its postgresql.conf; here sslmode=disable")
        }
        Ok(_) => ("what it answers is not PostgreSQL".to_owned(), PORT),
        Err(why) => (why, PORT),
    };
    Err(Problem::new("E137", Exit::CannotStart, "no TLS with the PostgreSQL server".to_owned()).why(why).hint(hint))
}

/// Makes a connection to PostgreSQL ready for calls.
#[cfg(feature = "postgres")]
fn prepare(
    stream: &Stream,
    patience: Duration,
    (login, database): (&Login, &str),
    statements: &[(String, usize)],
) -> Result<Option<String>, Problem> {
    use super::postgres::{Hello, Refused, Step};
    let refused = |why: Refused| refusal(why, login, database, statements);
    let user = login.user.as_deref().unwrap_or_default();
    let password = login.password.as_ref().map(|Secret(word)| word.as_str());
    let (mut hello, first) = Hello::new((user, password, database), statements).map_err(refused)?;
    let lost = |why: String| refused(Refused::Foreign(why));
    send(stream, &first).map_err(lost)?;
    let (mut bytes, mut part) = (bytes::BytesMut::new(), [0; 4096]);
    loop {
        while let Some(step) = hello.feed(&mut bytes).map_err(refused)? {
            match step {
                Step::Send(message) => send(stream, &message).map_err(lost)?,
                Step::Wait => {}
                Step::Ready => return Ok(hello.server),
            }
        }
        let got = receive(stream, &mut part, patience).map_err(lost)?;
        bytes.extend_from_slice(&part[..got]);
    }
}

/// What the user reads of a server that refuses.
#[cfg(feature = "postgres")]
fn refusal(why: super::postgres::Refused, login: &Login, database: &str, statements: &[(String, usize)]) -> Problem {
    use super::postgres::{Refused, advice};
    let user = shown(login.user.as_deref().unwrap_or_default());
    let problem = |what: String| Problem::new("E65", Exit::CannotStart, what);
    let statement = |at: usize| {
        let text = statements.get(at).map_or("", |(text, _)| text);
        format!("the server does not take the statement: {}", shown(&text.chars().take(60).collect::<String>()))
    };
    let of_statement = |at| Problem::new("E146", Exit::CannotStart, statement(at));
    match why {
        Refused::Says(text) => problem(format!("the server did not take user {user} in database {}", shown(database)))
            .why(format!("it says: {text}"))
            .hint(advice(&text).unwrap_or_default()),
        Refused::Statement(at, text) => {
            of_statement(at).why(format!("it says: {text}")).hint(advice(&text).unwrap_or_default())
        }
        Refused::Parameters(at, has, gets) => of_statement(at)
            .why(format!("it has {has} parameter(s), and a call gives {gets}"))
            .hint("-key gives $1 and -value the next one, as text; leave out what the statement has not"),
        Refused::NoPassword => problem(format!("the server wants a password of user {user}"))
            .hint("--password-file FILE, or PGPASSWORD in the environment"),
        Refused::Method(method) => problem(format!("the server wants to know user {user} by {}", shown(&method)))
            .why("spoken are trust, password, md5, SCRAM-SHA-256, and a certificate over TLS")
            .hint("another line of pg_hba.conf for this user and address"),
        Refused::Foreign(why) => problem("the server did not take the greeting of PostgreSQL".into())
            .why(why)
            .hint("the port of a PostgreSQL server (5432, unless it was told otherwise)"),
    }
}

impl Login {
    /// The commands, each with its name.
    fn commands(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut commands = Vec::new();
        if let Some(Secret(password)) = &self.password {
            let words = ["AUTH"].into_iter().chain(self.user.as_deref()).chain([password.as_str()]);
            commands.push(("AUTH", redis::array(&words.collect::<Vec<_>>())));
        }
        if self.database > 0 {
            commands.push(("SELECT", redis::array(&["SELECT", &self.database.to_string()])));
        }
        commands
    }

    /// Says it on a connection, and waits for the answers.
    ///
    /// # Errors
    /// E65: the server refuses, or does not answer in time.
    pub fn say(&self, stream: &Stream, patience: Duration) -> Result<(), Problem> {
        let commands = self.commands();
        if commands.is_empty() {
            return Ok(());
        }
        let failed = |what: &str, why: String| {
            Problem::new("E65", Exit::CannotStart, format!("the server did not take {what}")).why(why)
        };
        for (what, request) in commands {
            let reply = ask(stream, &request, patience).map_err(|why| failed(what, why))?;
            if let Some(remark) = reply.filter(|remark| remark.failed) {
                let hint = redis::advice(&remark.text).unwrap_or_default();
                return Err(failed(what, format!("it says: {}", shown(&remark.text))).hint(hint));
            }
        }
        Ok(())
    }
}

/// The nodes of the cluster that the server at `seed` belongs to.
///
/// # Errors
/// E65: it does not say.
pub fn cluster(stream: &Stream, seed: std::net::SocketAddr, patience: Duration) -> Result<Cluster, Problem> {
    let reply = answer(stream, &cluster::question(), patience);
    reply.and_then(|(bytes, _)| Cluster::of(bytes, seed)).map_err(|why| {
        Problem::new("E65", Exit::CannotStart, "the server does not say which nodes its cluster has")
            .why(why)
            .hint("leave out --cluster")
    })
}

/// A request and what is to be said of its reply.
fn ask(stream: &Stream, request: &[u8], patience: Duration) -> Result<Option<super::wire::Remark>, String> {
    let (bytes, redis) = answer(stream, request, patience)?;
    Ok(redis.reply(&bytes)?.remark)
}

/// A request and its reply.
fn answer(stream: &Stream, request: &[u8], patience: Duration) -> Result<(Bytes, Redis), String> {
    send(stream, request)?;
    let (mut bytes, mut part, mut redis) = (Vec::new(), [0; 4096], Redis::default());
    loop {
        let got = receive(stream, &mut part, patience)?;
        bytes.extend_from_slice(&part[..got]);
        let all = Bytes::from(bytes);
        if let Frame::Whole(whole) = redis.frame(&all)? {
            return Ok((all.slice(..whole), redis));
        }
        bytes = all.into();
        if bytes.len() > cluster::MOST_LIST {
            return Err("it answers with more than 1 MiB".into());
        }
    }
}

/// Sends a request on a new connection, which has room for one of this length.
fn send(stream: &Stream, request: &[u8]) -> Result<(), String> {
    stream.send(request, &mut CallCounts::default()).map_err(|error| error.to_string())
}

/// Bytes that came, at least one.
fn receive(stream: &Stream, part: &mut [u8], patience: Duration) -> Result<usize, String> {
    let text = |error: io::Error| error.to_string();
    let patience = patience.as_millis().try_into().unwrap_or(i32::MAX);
    loop {
        // First: what TLS has opened already, the kernel does not tell of.
        match stream.recv_now(part) {
            // Nothing, or of TLS a part, or what is none of the answer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) => return Err("it closed the connection".into()),
            got => return got.map_err(text),
        }
        if !poll(stream.as_fd(), Interest::Read, patience).map_err(text)? {
            return Err("it does not answer".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use super::*;

    fn login() -> Login {
        Login {
            user: Some("anna".into()),
            password: Some(Secret::new("s3cret word".into())),
            database: 2,
            cluster: false,
        }
    }

    #[test]
    fn user_password_and_database_are_said_in_this_order() {
        let said: Vec<u8> = login().commands().into_iter().flat_map(|(_, bytes)| bytes).collect();
        let expected = "*3\r\n$4\r\nAUTH\r\n$4\r\nanna\r\n$11\r\ns3cret word\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n";
        assert_eq!(String::from_utf8(said).unwrap(), expected);
        assert!(Login::default().commands().is_empty());
    }

    #[test]
    fn a_password_is_never_printed() {
        assert!(!format!("{:?}", login()).contains("s3cret"));
    }

    /// What is said of a server that answers so.
    fn told(answers: &'static [u8]) -> Result<(), Problem> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (mut other, _) = server.accept().unwrap();
        other.write_all(answers).unwrap();
        drop(other.shutdown(std::net::Shutdown::Write));
        login().say(&OwnedFd::from(stream).into(), Duration::from_secs(60))
    }

    #[test]
    fn refused_login_says_why() {
        told(b"+OK\r\n").unwrap_err();
        let problem = told(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n").unwrap_err();
        assert_eq!(problem.code, "E65");
        assert!(problem.to_string().contains("did not take AUTH") && problem.to_string().contains("WRONGPASS"));
        assert!(problem.hint.contains("--password-file") && !problem.to_string().contains("s3cret"));
    }
}
