//! A far end that is not msgpath's own: a program that the run starts, or one that runs already.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::group::check_one_peer;
use crate::launch::joined;
use crate::path::is_end_name;
use crate::target::BadTarget;

/// The scheme of a program that runs already.
const RAW: &str = "raw://";
/// The same at a Unix socket.
const RAW_UNIX: &str = "raw+unix:";
/// The scheme of a server that comes with msgpath.
const EXAMPLE: &str = "example:";
/// The most words of a command line, and the most bytes of them all.
const MOST_WORDS: usize = 256;
const MOST_BYTES: usize = 16 << 10;
/// The largest request that is read from a file: it travels in an order.
pub const MAX_REQUEST: usize = 8 << 10;

/// Where a far end of others is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The run starts it: its command line, with placeholders such as `{port}`.
    Command(Vec<String>),
    /// It runs already: `HOST:PORT`.
    Address(String),
    /// It runs already, at a Unix socket with this path.
    Socket(String),
    /// A small server in another language that comes with msgpath, by the name of the language. It is built before the run,
    /// and then is a command.
    Example(String),
    /// An example that could not be built here.
    Missing {
        /// Its language.
        example: String,
        /// Why.
        why: String,
        /// What helps.
        hint: String,
    },
}

/// A far end of others, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct Program {
    /// What stands behind the `@` of its paths.
    pub name: String,
    /// How it is reached: a command that the run starts, or an address.
    pub source: Source,
    /// The folder in which it is started, so that a run that goes on starts the same one; empty: it runs already.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
}

/// How the messages to a program of others are bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Bytes: so many go, so many come back.
    #[default]
    Bytes,
    /// Lines: text, and a newline as the last byte.
    Line,
    /// The length of the rest in 4 bytes, the most significant first.
    Length,
}

impl Framing {
    pub const ALL: [Framing; 3] = [Framing::Bytes, Framing::Line, Framing::Length];

    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Framing::Bytes => "bytes",
            Framing::Line => "line",
            Framing::Length => "length",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|framing| framing.name() == name)
    }

    /// The shortest message that is framed so.
    pub fn least(self) -> u64 {
        match self {
            Framing::Bytes | Framing::Line => 1,
            Framing::Length => 5,
        }
    }

    /// Whether messages are as they are between ends of our own.
    pub fn is_plain(&self) -> bool {
        *self == Framing::Bytes
    }
}

/// What the messages to programs of others are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Talk {
    /// How messages are bounded.
    #[serde(skip_serializing_if = "Framing::is_plain")]
    pub framing: Framing,
    /// The request, hexadecimal; empty: msgpath makes the messages.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Replies are of a known length and their bytes are not compared: they are not an echo.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_reply: bool,
    /// How long a program may take until it listens, ms; 0: 10 s.
    #[serde(skip_serializing_if = "is_zero")]
    pub patience_ms: u32,
}

fn is_none_more(more: &usize) -> bool {
    *more == 0
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Talk {
    /// Whether messages are as they are between ends of our own.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// How long a program may take until it listens.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(if self.patience_ms == 0 { 10_000 } else { self.patience_ms.into() })
    }

    /// The bytes of the request; `None`: there is none, or what the record has is none.
    pub fn request(&self) -> Option<Vec<u8>> {
        let text = self.request.as_bytes();
        if text.is_empty() || !text.len().is_multiple_of(2) || text.len() > 2 * MAX_REQUEST {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
    }

    #[must_use]
    pub fn with_request(self, bytes: &[u8]) -> Self {
        Self { request: bytes.iter().map(|byte| format!("{byte:02x}")).collect(), ..self }
    }
}

/// What was seen of a program: written into the header when it has been started.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramFacts {
    /// Its name.
    pub name: String,
    /// The command line as it was started; empty: it ran already.
    pub command: Vec<String>,
    /// The files of the command line and the program itself, with their SHA-256 (hexadecimal).
    pub files: Vec<(String, String)>,
    /// Where it listens.
    pub address: String,
    /// Other addresses that its name has.
    #[serde(skip_serializing_if = "is_none_more")]
    pub more: usize,
    /// From its start until it listened, ns; `None`: it ran already.
    pub ready_ns: Option<u64>,
}

/// A program that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProgram {
    /// No word in it.
    #[error("an empty command line")]
    Empty,
    /// A quotation mark without its other.
    #[error("a quotation mark that is not closed")]
    Quote,
    /// More than is taken.
    #[error("a command line of more than {MOST_WORDS} words or {MOST_BYTES} bytes")]
    Long,
    /// No words that are typed mean this: a record has it that msgpath did not write.
    #[error("a program that nobody can have typed")]
    Untypable,
    /// `raw+unix:` without a path that a socket can have.
    #[error("{RAW_UNIX} is followed by the path of a socket, at most 107 bytes that begin with /")]
    Path,
    /// `raw://` without host and port.
    #[error("{RAW} is followed by HOST:PORT")]
    Address,
    /// `raw://` with an address that stands for many.
    #[error(transparent)]
    Peer(#[from] BadTarget),
}

impl Source {
    /// As typed: `raw://HOST:PORT`, `raw+unix:/PATH`, or a command line whose words are taken as a shell takes them: apart by blanks, together
    /// within quotation marks, and nothing else has a meaning.
    ///
    /// # Errors
    /// [`BadProgram`].
    pub fn parse(text: &str) -> Result<Self, BadProgram> {
        if let Some(address) = text.strip_prefix(RAW) {
            let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
            let known = port.and_then(|port| port.parse::<u16>().ok()).is_some_and(|port| port > 0);
            let plain = address.len() <= 300 && !address.chars().any(|c| c.is_whitespace() || c == '/');
            if !known || !plain {
                return Err(BadProgram::Address);
            }
            check_one_peer(address.rsplit_once(':').map_or(address, |(host, _)| host))?;
            return Ok(Source::Address(address.into()));
        }
        if let Some(path) = text.strip_prefix(RAW_UNIX) {
            let path = path.strip_prefix("//").unwrap_or(path);
            let fine = path.starts_with('/') && path.len() <= 107 && !path.chars().any(char::is_control);
            return if fine { Ok(Source::Socket(path.into())) } else { Err(BadProgram::Path) };
        }
        if let Some(name) = text.strip_prefix(EXAMPLE).filter(|name| is_end_name(name)) {
            return Ok(Source::Example(name.into()));
        }
        let words = words(text)?;
        match words.first() {
            Some(first) if !first.is_empty() => Ok(Source::Command(words)),
            _ => Err(BadProgram::Empty),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Command(words) => f.write_str(&words.join(" ")),
            Source::Address(address) => write!(f, "{RAW}{address}"),
            Source::Socket(path) => write!(f, "{RAW_UNIX}{path}"),
            Source::Example(name) | Source::Missing { example: name, .. } => write!(f, "{EXAMPLE}{name}"),
        }
    }
}

impl Program {
    /// As typed: `NAME=SOURCE`, or the source alone, which then names it: its file without the folder.
    ///
    /// # Errors
    /// [`BadProgram`].
    pub fn parse(text: &str) -> Result<Self, BadProgram> {
        match text.split_once('=') {
            Some((name, source)) if is_end_name(name) => {
                Ok(Self { name: name.into(), source: Source::parse(source)?, folder: String::new() })
            }
            _ => {
                let source = Source::parse(text)?;
                Ok(Self { name: Self::named_by(&source), source, folder: String::new() })
            }
        }
    }

    /// As it is typed, with its name.
    pub fn typed(&self) -> String {
        match &self.source {
            Source::Command(words) => format!("{}={}", self.name, joined(words)),
            source => format!("{}={source}", self.name),
        }
    }

    /// Whether a program that was read from a record is one that could have been typed.
    ///
    /// # Errors
    /// [`BadProgram`].
    pub fn check(&self) -> Result<(), BadProgram> {
        let parsed = Self::parse(&self.typed())?;
        let example = matches!((&self.source, &parsed.source), (Source::Missing { .. }, Source::Example(_)));
        let folder = self.folder.is_empty() || self.folder.starts_with('/');
        match parsed.name == self.name && (parsed.source == self.source || example) && folder {
            true => Ok(()),
            false => Err(BadProgram::Untypable),
        }
    }

    /// The name of a program that has none: its file's; the script's, where a program of the search path runs one.
    fn named_by(source: &Source) -> String {
        let words = match source {
            Source::Command(words) => words,
            Source::Address(_) | Source::Socket(_) => return "raw".into(),
            Source::Example(name) | Source::Missing { example: name, .. } => return name.clone(),
        };
        let is_script = |word: &&String| !word.starts_with('-') && word.contains('.') && !word.contains(['{', '=']);
        let script = words.iter().skip(1).find(is_script).filter(|_| !words[0].contains('/'));
        let file = script.unwrap_or(&words[0]).rsplit('/').next().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = file.chars().map(|c| if fits(c) { c } else { '_' }).take(32).collect();
        if is_end_name(&name) { name } else { "program".into() }
    }
}

/// The words of a command line, as a shell takes them: apart by blanks, together within quotation marks, and nothing else has a meaning.
///
/// # Errors
/// It is too long, or a quotation mark is not closed.
pub fn words(text: &str) -> Result<Vec<String>, BadProgram> {
    if text.len() > MOST_BYTES {
        return Err(BadProgram::Long);
    }
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match (quote, words.len()) {
        (Some(_), _) => Err(BadProgram::Quote),
        (None, MOST_WORDS..) => Err(BadProgram::Long),
        _ => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(text: &str) -> Vec<String> {
        let Source::Command(words) = Source::parse(text).unwrap() else { panic!("{text}") };
        words
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(command("./server --port {port}"), ["./server", "--port", "{port}"]);
        assert_eq!(command("  'a b'c  \"\" d\"'\"e"), ["a bc", "", "d'e"]);
        assert_eq!(Source::parse("   "), Err(BadProgram::Empty));
        assert_eq!(Source::parse("'' x"), Err(BadProgram::Empty));
        assert_eq!(Source::parse("a 'b"), Err(BadProgram::Quote));
        assert_eq!(Source::parse(&"a ".repeat(300)), Err(BadProgram::Long));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(Source::parse("raw://localhost:7"), Ok(Source::Address("localhost:7".into())));
        assert_eq!(Source::parse("raw://[::1]:7").unwrap().to_string(), "raw://[::1]:7");
        for bad in ["raw://", "raw://host", "raw://:7", "raw://host:0", "raw://host:70000", "raw://h/x:7"] {
            assert_eq!(Source::parse(bad), Err(BadProgram::Address), "{bad}");
        }
        for group in ["raw://239.1.1.1:7", "raw://[ff15::1%eth0]:7", "raw://255.255.255.255:7"] {
            assert!(matches!(Source::parse(group), Err(BadProgram::Peer(BadTarget::Group { .. }))), "{group}");
        }
        assert_eq!(Source::parse("raw+unix:///run/x"), Ok(Source::Socket("/run/x".into())));
        for bad in ["raw+unix:", "raw+unix:x", "raw+unix://x"] {
            assert_eq!(Source::parse(bad), Err(BadProgram::Path), "{bad}");
        }
    }

    #[test]
    fn a_program_is_named_by_its_file() {
        let name = |text: &str| Program::parse(text).unwrap().name;
        assert_eq!(name("./build/server {port}"), "server");
        assert_eq!(name("./server --config my.conf {port}"), "server");
        assert_eq!(name("python3 -u examples/echo.py {port}"), "echo.py");
        assert_eq!(name("java -cp out Echo {port}"), "java");
        assert_eq!(name("new=./server {port}"), "new");
        assert_eq!(name("raw://localhost:7"), "raw");
        assert_eq!((name("example:go"), name("mine=example:go")), ("go".into(), "mine".into()));
        assert_eq!(name("./a+b {port}"), "a_b");
        // What stands before the sign is not a name: the whole is a command.
        assert_eq!(command("env X=1 ./server"), ["env", "X=1", "./server"]);
        assert_eq!(name("env X=1 ./server"), "server");
    }

    #[test]
    fn a_program_of_a_record_is_one_that_can_be_typed() {
        for text in ["./server {port}", "new=./a 'b c' \"d'e\"", "raw://n2:7", "raw+unix:/run/x", "example:go"] {
            let program = Program::parse(text).unwrap();
            assert_eq!(
                (Program::parse(&program.typed()).unwrap(), program.check()),
                (program.clone(), Ok(())),
                "{text}"
            );
        }
        let good = Program::parse("./server {port}").unwrap();
        for wrong in [
            Program { name: "a/b".into(), ..good.clone() },
            Program { source: Source::Command(Vec::new()), ..good.clone() },
            Program { source: Source::Address("x/y".into()), ..good.clone() },
            Program { folder: "here".into(), ..good.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_request_survives_its_text() {
        let talk = Talk::default().with_request(b"GET\r\n\0\xff");
        assert_eq!(talk.request().unwrap(), b"GET\r\n\0\xff");
        assert_eq!(Talk::default().request(), None);
        for bad in ["0", "zz", "\u{e9}"] {
            assert_eq!(Talk { request: bad.into(), ..Talk::default() }.request(), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = Program::parse(&text);
            let _ = Talk { request: text, ..Talk::default() }.request();
        }
    }
}
