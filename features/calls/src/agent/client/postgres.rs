//! PostgreSQL by its protocol, version 3: a statement that was prepared on each connection, carried out once a call. No I/O.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use msgpath_core::foreign::{shown, shown_bytes};
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{self, ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;

use super::maker::{Draws, Maker};
use super::wire::{Frame, MAX_REPLY, Remark, Reply, Sent};

/// Bytes of the longest message before the first call: the columns of a statement.
const MOST_HELLO: usize = 1 << 20;
/// Messages before the first call, at most: notices and settings are as many as the server likes.
const MOST_MESSAGES: usize = 10_000;

/// One connection's PostgreSQL: the statements of the run, and how far the reply in progress is.
#[derive(Clone, Debug, Default)]
pub struct Postgres {
    /// As typed; the position is the name that each was prepared under.
    statements: Vec<String>,
    /// The one that is called now.
    current: usize,
    /// A call of it without parameters, which is always the same.
    call: Vec<u8>,
    /// Bytes of the reply in progress whose messages are whole.
    seen: usize,
    /// What the server calls itself; the first reply tells it.
    server: Option<String>,
}

/// The name of a prepared statement.
fn name(at: usize) -> String {
    format!("s{at}")
}

impl Postgres {
    pub fn new(statements: Vec<String>) -> Self {
        let mut new = Self { statements, ..Self::default() };
        new.prepare();
        new
    }

    /// The server calls itself so.
    pub fn met(&mut self, server: Option<String>) {
        self.server = server;
    }

    /// Calls of this statement follow.
    pub fn turn_to(&mut self, statement: &str) {
        self.current = self.statements.iter().position(|other| other == statement).unwrap_or(0);
        self.prepare();
    }

    fn prepare(&mut self) {
        self.call = request(&name(self.current), &[]).unwrap_or_default();
    }

    /// Puts a call together: Bind, Execute and Sync; key and value are its parameters.
    pub fn build(&self, maker: &mut Maker, draws: &mut Draws, out: &mut Vec<u8>) -> Sent {
        let mut sent = Sent::default();
        if maker.key_bytes().is_none() && maker.value_bytes().is_none() {
            out.extend_from_slice(&self.call);
        } else {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            maker.put_key(&mut key, draws);
            sent.drawn = maker.drawn(draws);
            maker.put_value(&mut value, draws);
            let given = [(maker.key_bytes(), &key), (maker.value_bytes(), &value)];
            let parameters: Vec<&[u8]> =
                given.iter().filter(|(there, _)| there.is_some()).map(|(_, text)| &text[..]).collect();
            out.extend_from_slice(&request(&name(self.current), &parameters).unwrap_or_default());
            // Behind the kind, the length, the two names, one format, the number of parameters and the length of the first.
            let first = 5 + 1 + name(self.current).len() + 1 + 2 + 2 + 2 + 4;
            if !key.is_empty() {
                sent.key = first..first + key.len();
            }
        }
        sent.rpcid = draws.id();
        Sent { bytes: out.len(), ..sent }
    }

    /// How far the reply is: it ends with ReadyForQuery. What the server says unasked in front of it belongs to it.
    ///
    /// # Errors
    /// Not the protocol, more than is taken, or a statement that waits for data.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Frame, String> {
        let mut at = self.seen.min(bytes.len());
        loop {
            self.seen = at;
            let Some((tag, end)) = next(bytes, at)? else { return Ok(Frame::More(at + 5)) };
            if end > MAX_REPLY {
                return Err(format!("a reply of more than {MAX_REPLY} bytes"));
            }
            if tag == backend::COPY_IN_RESPONSE_TAG {
                return Err("the statement copies from its client (COPY FROM STDIN), which rpc does not speak".into());
            }
            if end > bytes.len() {
                return Ok(Frame::More(end));
            }
            at = end;
            if tag == backend::READY_FOR_QUERY_TAG {
                self.seen = 0;
                return Ok(Frame::Whole(at));
            }
        }
    }

    /// Takes a whole reply apart. Status 1: an error of the server.
    ///
    /// # Errors
    /// Not the protocol.
    pub fn reply(&mut self, bytes: &[u8]) -> Result<Reply, String> {
        let error = said(bytes, backend::ERROR_RESPONSE_TAG)?;
        let status = u32::from(error.is_some());
        let remark = error.map(|text| Remark { text, failed: true });
        Ok(Reply { status, body: 0..bytes.len(), remark, server: self.server.take(), ..Reply::default() })
    }

    /// Whether bytes behind a reply are what a server may say unasked: a notice, a setting, a notification, its end.
    pub fn is_unasked(rest: &[u8]) -> bool {
        let unasked = [
            backend::NOTICE_RESPONSE_TAG,
            backend::PARAMETER_STATUS_TAG,
            backend::NOTIFICATION_RESPONSE_TAG,
            backend::ERROR_RESPONSE_TAG,
        ];
        rest.first().is_none_or(|tag| unasked.contains(tag))
    }

    /// Why the server ended the connection, where it said so.
    pub fn parting(bytes: &[u8]) -> Option<String> {
        said(bytes, backend::ERROR_RESPONSE_TAG).ok().flatten()
    }
}

/// A call of a prepared statement; `None`: its parameters do not fit into a message.
fn request(statement: &str, parameters: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = BytesMut::new();
    let put = |value: &&[u8], out: &mut BytesMut| {
        out.extend_from_slice(value);
        Ok(IsNull::No)
    };
    // One format holds for all parameters, and one for all columns: text.
    frontend::bind("", statement, [0], parameters, put, [0], &mut out).ok()?;
    frontend::execute("", 0, &mut out).ok()?;
    frontend::sync(&mut out);
    Some(out.to_vec())
}

/// The kind of the message at `at`, and where it ends; `None`: that is not there yet.
fn next(bytes: &[u8], at: usize) -> Result<Option<(u8, usize)>, String> {
    let rest = bytes.get(at..).unwrap_or_default();
    let odd = || format!("no message of PostgreSQL begins with \"{}\"", shown_bytes(rest, 16));
    if rest.first().is_some_and(|tag| !TAGS.contains(tag)) {
        return Err(odd());
    }
    let Some(header) = Header::parse(rest).map_err(|_| odd())? else { return Ok(None) };
    let length = usize::try_from(header.len()).map_err(|_| odd())?;
    Ok(Some((header.tag(), at + 1 + length)))
}

/// What a message of a server may begin with once calls are made.
const TAGS: &[u8] = b"123ACcDdEGHIKNnRSsTtZ";

/// The first error or notice among whole messages, as it is counted: its SQLSTATE and its text.
fn said(bytes: &[u8], kind: u8) -> Result<Option<String>, String> {
    let mut at = 0;
    while let Some((tag, end)) = next(bytes, at)? {
        let Some(message) = bytes.get(at..end) else { break };
        if tag == kind {
            let parsed = Message::parse(&mut BytesMut::from(message)).map_err(|error| error.to_string())?;
            let Some(Message::ErrorResponse(body)) = parsed else { return Ok(None) };
            return Ok(Some(text_of(&body)));
        }
        at = end;
    }
    Ok(None)
}

/// `42P01: relation "x" does not exist`.
fn text_of(body: &ErrorResponseBody) -> String {
    let (mut state, mut text) = (String::new(), String::new());
    let mut fields = body.fields();
    while let Ok(Some(field)) = fields.next() {
        match field.type_() {
            b'C' => state = shown_bytes(field.value_bytes(), 8),
            b'M' => text = shown_bytes(field.value_bytes(), 160),
            _ => {}
        }
    }
    match state.is_empty() {
        true => format!("an error without SQLSTATE: {text}"),
        false => format!("{state}: {text}"),
    }
}

/// What helps against an error of PostgreSQL, which begins with its SQLSTATE.
pub fn advice(text: &str) -> Option<&'static str> {
    Some(match text.split(':').next()? {
        "28P01" | "28000" => {
            "the password (--password-file FILE, or PGPASSWORD), the user (postgres://USER@HOST), or pg_hba.conf of the server"
        }
        "3D000" => "a database that is there: postgres://USER@HOST/DATABASE   (psql -l lists them)",
        "53300" => "fewer connections (-P), or a larger max_connections of the server",
        "57P03" => "the server still starts: wait until psql gets in",
        "42P01" => "another database (postgres://USER@HOST/DATABASE), or the name of the table with its schema",
        "42501" => "a user who may do that: postgres://USER@HOST",
        "25006" => "this server is a standby or the session is read-only: call its primary",
        "25P02" => "an earlier call left a transaction open: a statement that needs no BEGIN",
        "22P02" => "-key is $1 and -value is $2, as text: what the type of the parameter takes",
        _ => return None,
    })
}

/// Why a connection does not become ready for calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server refuses, in its words.
    Says(String),
    /// It refuses a statement, in its words.
    Statement(usize, String),
    /// A statement has another number of parameters than the calls give: has, and gets.
    Parameters(usize, usize, usize),
    /// It wants a password, and there is none.
    NoPassword,
    /// It wants to know the user in another way than is spoken here.
    Method(String),
    /// What came is not the protocol.
    Foreign(String),
}

/// A connection until it is ready for calls: who calls, then the statements. It is fed what the server says.
pub struct Hello<'a> {
    user: &'a str,
    password: Option<&'a str>,
    /// Each with the number of its parameters.
    statements: &'a [(String, usize)],
    scram: Option<ScramSha256>,
    /// The statement that is being prepared; `None`: the server does not know yet who calls.
    at: Option<usize>,
    messages: usize,
    /// What the server calls itself.
    pub server: Option<String>,
}

/// What follows from a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Send(Vec<u8>),
    /// More is awaited.
    Wait,
    /// Calls may begin.
    Ready,
}

impl<'a> Hello<'a> {
    /// A connection that begins, and what is sent first.
    ///
    /// # Errors
    /// A user or database with a zero byte.
    pub fn new(
        (user, password, database): (&'a str, Option<&'a str>, &str),
        statements: &'a [(String, usize)],
    ) -> Result<(Self, Vec<u8>), Refused> {
        let parameters =
            [("user", user), ("database", database), ("application_name", "msgpath"), ("client_encoding", "UTF8")];
        let first = made(|out| frontend::startup_message(parameters, out))?;
        Ok((Self { user, password, statements, scram: None, at: None, messages: 0, server: None }, first))
    }

    /// Takes the next whole message from what was read, which is bounded before memory is taken for it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn feed(&mut self, bytes: &mut BytesMut) -> Result<Option<Step>, Refused> {
        let foreign = |why: String| Refused::Foreign(why);
        match next(bytes, 0).map_err(foreign)? {
            Some((_, end)) if end > MOST_HELLO => {
                return Err(foreign(format!("a message of {end} bytes before the first call")));
            }
            Some((_, end)) if bytes.len() >= end => {}
            _ => return Ok(None),
        }
        self.messages += 1;
        if self.messages > MOST_MESSAGES {
            return Err(foreign(format!("more than {MOST_MESSAGES} messages before the first call")));
        }
        let message = Message::parse(bytes).map_err(|error| foreign(error.to_string()))?;
        message.map(|message| self.take(message)).transpose()
    }

    fn take(&mut self, message: Message) -> Result<Step, Refused> {
        match message {
            Message::ErrorResponse(body) => Err(match self.at {
                Some(at) => Refused::Statement(at, text_of(&body)),
                None => Refused::Says(text_of(&body)),
            }),
            Message::ParameterStatus(body) => {
                if body.name().is_ok_and(|name| name == "server_version") {
                    self.server =
                        body.value().ok().map(|version| shown(&format!("PostgreSQL {version:.60}")).into_owned());
                }
                Ok(Step::Wait)
            }
            Message::ParameterDescription(body) => {
                let at = self.at.unwrap_or_default();
                let has = body.parameters().count().map_err(|error| Refused::Foreign(error.to_string()))?;
                match self.statements.get(at) {
                    Some((_, gets)) if *gets != has => Err(Refused::Parameters(at, has, *gets)),
                    _ => Ok(Step::Wait),
                }
            }
            Message::ReadyForQuery(_) => {
                let at = self.at.map_or(0, |at| at + 1);
                self.at = Some(at);
                let Some((statement, _)) = self.statements.get(at) else { return Ok(Step::Ready) };
                made(|out| {
                    frontend::parse(&name(at), statement, [], out)?;
                    frontend::describe(b'S', &name(at), out)?;
                    frontend::sync(out);
                    Ok(())
                })
                .map(Step::Send)
            }
            message => self.authenticate(message),
        }
    }

    /// What the server wants to know of who calls; anything else is passed over.
    fn authenticate(&mut self, message: Message) -> Result<Step, Refused> {
        let password = || self.password.ok_or(Refused::NoPassword);
        let io = |error: std::io::Error| Refused::Foreign(error.to_string());
        let send = |text: &[u8]| made(|out| frontend::password_message(text, out)).map(Step::Send);
        let other = |method: &str| Err(Refused::Method(method.into()));
        match message {
            Message::AuthenticationCleartextPassword => send(password()?.as_bytes()),
            Message::AuthenticationMd5Password(body) => {
                send(md5_hash(self.user.as_bytes(), password()?.as_bytes(), body.salt()).as_bytes())
            }
            Message::AuthenticationSasl(body) => {
                let offered: Vec<&str> = body.mechanisms().collect().map_err(io)?;
                if !offered.contains(&SCRAM_SHA_256) {
                    return other(&format!("SASL {}", shown(&offered.join(" "))));
                }
                let scram = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                let first = made(|out| frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out));
                self.scram = Some(scram);
                first.map(Step::Send)
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or_else(|| Refused::Foreign("SCRAM that was not begun".into()))?;
                scram.update(body.data()).map_err(io)?;
                made(|out| frontend::sasl_response(scram.message(), out)).map(Step::Send)
            }
            Message::AuthenticationSaslFinal(body) => {
                let scram = self.scram.as_mut().ok_or_else(|| Refused::Foreign("SCRAM that was not begun".into()))?;
                scram.finish(body.data()).map_err(io)?;
                Ok(Step::Wait)
            }
            Message::AuthenticationGss | Message::AuthenticationGssContinue(_) => other("GSSAPI"),
            Message::AuthenticationSspi => other("SSPI"),
            Message::AuthenticationKerberosV5 => other("Kerberos"),
            Message::AuthenticationScmCredential => other("SCM credentials"),
            _ => Ok(Step::Wait),
        }
    }
}

/// What asks for TLS before anything else is said.
pub fn asks_for_tls() -> Vec<u8> {
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    out.to_vec()
}

/// A message to the server.
fn made(put: impl FnOnce(&mut BytesMut) -> std::io::Result<()>) -> Result<Vec<u8>, Refused> {
    let mut out = BytesMut::new();
    put(&mut out).map_err(|error| Refused::Foreign(error.to_string()))?;
    Ok(out.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::command::parse;
    use proptest::prelude::*;

    /// A message of a server.
    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    fn joined(messages: &[(u8, &[u8])]) -> Vec<u8> {
        messages.iter().flat_map(|(tag, body)| message(*tag, body)).collect()
    }

    fn one(statement: &str) -> Postgres {
        Postgres::new(vec![statement.into()])
    }

    const READY: (u8, &[u8]) = (b'Z', b"I");
    const ERROR: (u8, &[u8]) = (b'E', b"SERROR\0VERROR\0C42P01\0Mrelation \"x\" does not exist\0\0");

    #[test]
    fn a_call_binds_executes_and_syncs() {
        let made = |line: &[&str]| {
            let script = parse(line).unwrap();
            let (mut out, mut draws) = (Vec::new(), Draws::of(1, 1).remove(0));
            let sent = one(line[0]).build(&mut Maker::new(&script.steps[0], 0, 1), &mut draws, &mut out);
            assert_eq!(sent.bytes, out.len());
            (out[sent.key].to_vec(), out)
        };
        let bind = |parameters: &[u8]| message(b'B', &[b"\0s0\0\0\x01\0\0", parameters, b"\0\x01\0\0"].concat());
        let rest = joined(&[(b'E', b"\0\0\0\0\0"), (b'S', b"")]);
        assert_eq!(made(&["SELECT 1"]), (Vec::new(), [bind(b"\0\0"), rest.clone()].concat()));
        let two = made(&["SELECT $1, $2", "-key", "41", "+", "-value", "v"]);
        assert_eq!(two, (b"41".to_vec(), [bind(b"\0\x02\0\0\0\x0241\0\0\0\x01v"), rest].concat()));
    }

    #[test]
    fn replies_are_whole_at_ready_for_query() {
        let bound: (u8, &[u8]) = (b'2', b"");
        let done: (u8, &[u8]) = (b'C', b"SELECT 1\0");
        let notice: (u8, &[u8]) = (b'N', b"SNOTICE\0C00000\0Mhear\0\0");
        for (messages, remark) in [
            (&[bound, (b'D', b"\0\x01\0\0\0\x011"), done, READY][..], None),
            // A column that is NULL, no row at all, an empty statement.
            (&[bound, (b'D', b"\0\x01\xff\xff\xff\xff"), done, READY], None),
            (&[bound, (b'C', b"SELECT 0\0"), READY], None),
            (&[bound, (b'I', b""), READY], None),
            // What is said unasked.
            (&[(b'S', b"TimeZone\0UTC\0"), notice, bound, notice, done, READY], None),
            (&[(b'A', b"\0\0\0\x01a\0b\0"), bound, done, READY], None),
            (&[ERROR, READY], Some("42P01: relation \"x\" does not exist")),
            (&[bound, (b'E', b"C22012\0Mdivision by zero\0\0"), READY], Some("22012: division by zero")),
            (&[(b'E', b"\0"), READY], Some("an error without SQLSTATE: ")),
            (&[bound, (b'H', b"\0\0\0"), (b'd', b"x"), (b'c', b""), done, READY], None),
        ] {
            let bytes = joined(messages);
            let mut wire = one("SELECT 1");
            for cut in 0..bytes.len() {
                assert!(matches!(wire.frame(&bytes[..cut]), Ok(Frame::More(more)) if more > cut), "{messages:?} {cut}");
            }
            assert_eq!(wire.frame(&bytes), Ok(Frame::Whole(bytes.len())), "{messages:?}");
            // The next one begins anew.
            assert_eq!(wire.frame(&[&bytes[..], &bytes].concat()), Ok(Frame::Whole(bytes.len())));
            let reply = wire.reply(&bytes).unwrap();
            assert_eq!(
                (reply.status > 0, reply.remark.map(|remark| remark.text).as_deref()),
                (remark.is_some(), remark)
            );
        }
    }

    #[test]
    fn hostile_lengths_and_kinds_are_refused() {
        for bytes in [
            &b"Z\0\0\0\x03"[..],
            b"D\xff\xff\xff\xff",
            b"D\x80\0\0\0",
            b"D\x7f\xff\xff\xff",
            b"D\x04\0\0\0",
            b"HTTP/1.1 400",
            b"x",
            b"G\0\0\0\x07\0\0\0",
        ] {
            assert!(one("x").frame(bytes).is_err(), "{bytes:?}");
        }
        let error = one("x").frame(b"G\0\0\0\x07\0\0\0").unwrap_err();
        assert!(error.contains("COPY FROM STDIN"), "{error}");
    }

    #[test]
    fn the_end_of_a_connection_has_its_reason() {
        let end = joined(&[(b'E', b"SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0")]);
        assert_eq!(Postgres::parting(&end).unwrap(), "57P01: terminating connection due to administrator command");
        assert_eq!(Postgres::parting(&end[..end.len() - 1]), None);
        assert!(Postgres::is_unasked(&end) && Postgres::is_unasked(b"") && !Postgres::is_unasked(b"Z"));
    }

    /// What comes of a hello that is answered so.
    fn told(password: Option<&str>, messages: &[(u8, &[u8])]) -> Result<Vec<Step>, Refused> {
        let statements = [("SELECT 1".to_owned(), 0)];
        let (mut hello, first) = Hello::new(("anna", password, "db"), &statements).unwrap();
        assert!(first[4..].starts_with(b"\0\x03\0\0user\0anna\0database\0db\0"));
        let mut bytes = BytesMut::from(&joined(messages)[..]);
        let mut steps = Vec::new();
        while let Some(step) = hello.feed(&mut bytes)? {
            steps.push(step);
        }
        Ok(steps.into_iter().filter(|step| *step != Step::Wait).collect())
    }

    #[test]
    fn who_calls_is_told_as_the_server_asks() {
        let prepare = Step::Send(joined(&[(b'P', b"s0\0SELECT 1\0\0\0"), (b'D', b"Ss0\0"), (b'S', b"")]));
        let ok: (u8, &[u8]) = (b'R', b"\0\0\0\0");
        let prepared: [(u8, &[u8]); 4] = [(b'1', b""), (b't', b"\0\0"), (b'n', b""), READY];
        let ready = [ok, (b'S', b"server_version\x0017\0"), (b'K', b"\0\0\0\x01\0\0\0\x02"), READY];
        let trusted = told(None, &[&ready[..], &prepared].concat()).unwrap();
        assert_eq!(trusted, [prepare, Step::Ready]);
        let cleartext: (u8, &[u8]) = (b'R', b"\0\0\0\x03");
        assert_eq!(told(Some("s3cret"), &[cleartext]).unwrap(), [Step::Send(message(b'p', b"s3cret\0"))]);
        let md5: (u8, &[u8]) = (b'R', b"\0\0\0\x05salt");
        let hash = md5_hash(b"anna", b"s3cret", *b"salt") + "\0";
        assert_eq!(told(Some("s3cret"), &[md5]).unwrap(), [Step::Send(message(b'p', hash.as_bytes()))]);
        assert_eq!(told(None, &[md5]), Err(Refused::NoPassword));
        let sasl: (u8, &[u8]) = (b'R', b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let first = told(Some("s3cret"), &[sasl]).unwrap();
        assert!(matches!(&first[..], [Step::Send(bytes)] if bytes[5..].starts_with(b"SCRAM-SHA-256\0")), "{first:?}");
    }

    #[test]
    fn hellos_that_are_refused_say_why() {
        let refused = |messages: &[(u8, &[u8])]| told(Some("s3cret"), messages).unwrap_err();
        let ok: (u8, &[u8]) = (b'R', b"\0\0\0\0");
        assert_eq!(refused(&[ERROR]), Refused::Says("42P01: relation \"x\" does not exist".into()));
        assert!(matches!(refused(&[ok, READY, ERROR]), Refused::Statement(0, _)));
        assert_eq!(refused(&[ok, READY, (b'1', b""), (b't', b"\0\x01\0\0\0\x17")]), Refused::Parameters(0, 1, 0));
        assert_eq!(refused(&[(b'R', b"\0\0\0\x07")]), Refused::Method("GSSAPI".into()));
        assert_eq!(refused(&[(b'R', b"\0\0\0\x0aPLAIN\0\0")]), Refused::Method("SASL PLAIN".into()));
        for foreign in [
            (b'R', &b"\0\0\0\x63"[..]),
            (b'R', b"\0\0\0\x0br=x,s=c2FsdA==,i=1"),
            (b'R', b"\0\0\0\x05sa"),
            (b'x', b""),
            (b't', b"\0\x01"),
        ] {
            assert!(matches!(refused(&[foreign]), Refused::Foreign(_)), "{foreign:?}");
        }
        // A length that no greeting has ends it before memory is taken.
        let statements = [];
        let (mut hello, _) = Hello::new(("a", None, "b"), &statements).unwrap();
        let mut bytes = BytesMut::from(&b"S\x7f\xff\xff\xff"[..]);
        assert!(matches!(hello.feed(&mut bytes), Err(Refused::Foreign(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), tag in prop::sample::select(TAGS)) {
            let typed = [&[tag, 0, 0, 0, bytes.len() as u8 + 4][..], &bytes, b"Z\0\0\0\x05I"].concat();
            for bytes in [&bytes, &typed] {
                let mut wire = one("x");
                if let Ok(Frame::Whole(whole)) = wire.frame(bytes) {
                    prop_assert!(whole <= bytes.len());
                    let _ = wire.reply(&bytes[..whole]);
                }
                let statements = [("x".to_owned(), 1)];
                let (mut hello, _) = Hello::new(("a", Some("b"), "c"), &statements).unwrap();
                let mut fed = BytesMut::from(&bytes[..]);
                while let Ok(Some(_)) = hello.feed(&mut fed) {}
            }
        }
    }
}
