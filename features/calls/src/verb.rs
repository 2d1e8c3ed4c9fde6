//! `msgpath rpc`: calls of a key-value server, in the grammar of the RPC lab.
//!
//! The lab writes long options with one dash and takes a word after a key for its length. No general parser reads that,
//! so the words are sorted first: the lab's go to [`msgpath_rpc::command`], the others to clap.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::agent::server::ServerOptions;
use crate::analyse::{RpcKind, RpcSummary};
use crate::record::RpcFacts;
use crate::record::RpcRow;
use crate::run::client::{Connected, Listener, Protocol, Record, RpcRequest, RpcTarget, call, without_password};
use crate::run::own::OwnServer;
use anyhow::Result;
use clap::{Args, ValueEnum};
use msgpath_analyse::Summary;
use msgpath_core::foreign::shown;
use msgpath_core::gate::Gate;
use msgpath_core::path::nearest;
use msgpath_core::plan::{Load, OPEN_INFLIGHT};
use msgpath_core::schedule::Rate;
use msgpath_core::schema::{DeviceKind, FAR, NEAR, Route};
use msgpath_core::target::BadTarget;
use msgpath_core::units::{self, Glyphs};
use msgpath_core::{Exit, Problem};
use msgpath_record::Run;
use msgpath_rpc::command::{self, CommandError, METHODS, Script, THEN};
use msgpath_rpc::console::{self, Tally};
use msgpath_sys::say;

use msgpath_verbs::measure::{self, View};
use msgpath_verbs::options::{ArrivalsArg, Options, ResultOptions};
use msgpath_verbs::output::{self, OutputFile};
use msgpath_verbs::place::Place;
use msgpath_verbs::places::{Asked, Places, Terms};
use msgpath_verbs::problems::{self, cannot_write, nothing_came, usage};
use msgpath_verbs::request::random_seed;
use msgpath_verbs::verb::Group;
use msgpath_verbs::{cli, gates, input, looks, progress, runs, typed, verdict as held_to};

use crate::agent::client::orders::{Checks, Identity, MOST_BODY, MOST_ROOTS, Secret};
use crate::agent::client::{TLS, http, lacking, redis};
use crate::findings::failed::QUIT;
use crate::serve;

/// Most calls of a round that lasts a time.
const MOST_TIMED: u64 = 100_000;
/// The target that stands for a server of this run.
const HERE: &str = "here";

const EXAMPLES: &str = "\
Examples
  msgpath rpc here -k 1000 ping
  msgpath rpc here --between lab --serve '--lock-hog 2ms/10ms' -k 100 write -key k + -value v 1000000
  msgpath rpc 10.0.0.2:12345 ping
  msgpath rpc 10.0.0.2 12345 -k 10 ping -value vvvvv 100000
  msgpath rpc 10.0.0.2 -k 10 write -key kkkkk + -value vvvvv + 1000000 --expect 10ms
  msgpath rpc 10.0.0.2 -k 10 write -key k0 + -value v 4096 --then -k 10 read -key k0 +  --verify
  msgpath rpc 10.0.0.2 -k 20000 ping -P 8 --rate 10k
  msgpath rpc 10.0.0.2 -seed1 -k 10 read -key kkkkk + --legacy --lab-log client.log
  msgpath rpc redis://10.0.0.2 -k 1000 SET -key k0 + -value v 64 --then -k 1000 GET -key k0 +
  msgpath rpc http://10.0.0.2:8000/file -k 100 GET
  msgpath rpc https://10.0.0.2/file --http2 --inflight 20 -k 10000 GET --cacert ca.pem
  msgpath rpc postgres://anna@10.0.0.2/db -k 1000 'SELECT 1'

The command, in the words of the lab, in any order
  COMMAND                  ping write read sink delete chksum stats reset quit, or any other name
                           (quit: only a server of --allow-quit ends, any other msgpath server fails it)
  -k N                     calls in a row [default: 1]
  -rep N                   rows [default: 1]
  -waitms N                pause after each row, in milliseconds
  -key BASE [+] [PADLEN]   the key; + counts it up after every call, PADLEN pads it to so many bytes
  -value BASE [+] [PADLEN] the value of a write, sink or ping, made in the same way
  -seed1                   the same bytes in every run, those of the lab
  -verbose                 a line for every message, in the form of the lab
  --expect TIME            your estimate of the median of this command, typed before you look
  --then                   another command follows, in the same run and over the same connections
Two dashes are taken as well (--key), but for --verbose, which has its own meaning. A COMMAND that comes right after \
BASE or + would be taken for PADLEN; the lab does so silently, msgpath refuses and says why.

Targets
  here                     a server that is started for this run and ends with it
  HOST[:PORT], HOST PORT   msgpath serve --rpc, or the lab's server4 [default port: 12345]
  redis://HOST[:PORT]      Redis: PING, SET (or write), GET (read), DEL (delete)
  redis://USER@HOST/2      the same as a user of its access list, in database 2: --password-file
  redis+unix:///run/x.sock the same at a Unix socket (USER@ in front, ?db=2 behind it)
  rediss://, https://      the same over TLS, in builds that have it: --cacert, --cert and --cert-key, --insecure-tls
  rediss+unix://, https+unix://  the same at a Unix socket; the certificate names localhost
  postgres://USER@HOST/DB  PostgreSQL, where it was built in: COMMAND is a statement, prepared once a connection; -key is $1, -value the next
  ...DB?sslmode=require    the same over TLS, any certificate; verify-ca, verify-full check it
  postgres://USER@/DB?host=/run/postgresql   the same at the Unix socket of that folder
  http://HOST[:PORT]/PATH  GET, HEAD, PUT, POST, PATCH, DELETE or OPTIONS of PATH; with -key of PATH/KEY; the body is -value, or --body
  http+unix:///run/x.sock:/PATH, http+unix://%2Frun%2Fx.sock/PATH   the same at a Unix socket";

/// Calls of a server: RPC lab, Redis, HTTP
#[derive(Args, Debug)]
#[command(override_usage = "msgpath rpc TARGET COMMAND [OPTIONS]", after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Who is called: HOST, HOST:PORT, HOST PORT, redis://HOST, http://HOST/PATH, postgres://USER@HOST/DB; here: a server of this run
    #[arg(value_name = "TARGET", value_parser = target)]
    target: RpcTarget,
    /// What is called, in the words of the lab: -k 10 write -key kkkkk + -value vvvvv + 1000000
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., allow_hyphen_values = true)]
    words: Vec<String>,
    /// Port of the server, where the target names none
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port, help_heading = "Calls")]
    port: Option<u16>,
    /// Connections; the calls of a command are dealt to them in turn [default: 1]
    #[arg(short = 'P', long, value_name = "N", value_parser = typed::number, help_heading = "Calls")]
    connections: Option<u32>,
    /// Threads [default: one a CPU where each can keep several connections busy, else one a connection]
    #[arg(short = 'T', long, value_name = "N", value_parser = typed::number, help_heading = "Calls")]
    threads: Option<u32>,
    /// Calls a second, all connections together, sent by a schedule and timed from the intended send: 10k
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Calls")]
    rate: Option<Rate>,
    /// How long each command is called, in place of -k and -rep: 10s
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_or_seconds, help_heading = "Calls")]
    duration: Option<u64>,
    /// Gaps between the calls of a schedule: poisson (independent users) or constant [default: poisson]
    #[arg(
        long,
        value_enum,
        value_name = "DISTRIBUTION",
        hide_possible_values = true,
        requires = "rate",
        help_heading = "Calls"
    )]
    arrivals: Option<ArrivalsArg>,
    /// Calls in flight on a connection, at most: without --rate so many are kept in flight (pipelining) [default: 1, with --rate 4096]
    #[arg(long, value_name = "N", value_parser = typed::number, help_heading = "Calls")]
    inflight: Option<u32>,
    /// Compare every byte of a reply: pings with what was sent, reads with what this run has written
    #[arg(long, conflicts_with = "rate", help_heading = "Calls")]
    verify: bool,
    /// Of Redis and PostgreSQL: the password is the first line of FILE; else that of the environment: REDISCLI_AUTH, PGPASSWORD
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Calls")]
    password_file: Option<PathBuf>,
    /// With redis://: each key is called at the node of the cluster that has it, of those that the server lists at the start
    #[arg(long, help_heading = "Calls")]
    cluster: bool,
    /// With http://: a head field more, 'NAME: VALUE', or @FILE with one a line, which the record does not show; repeatable
    #[arg(long, value_name = "FIELD", value_parser = http_fields, help_heading = "Calls")]
    header: Vec<String>,
    /// With http://: the body of requests that have one and no -value: FILE, or - for standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Calls")]
    body: Option<PathBuf>,
    /// With http://: a new connection for each call (Connection: close); connecting and TLS are no part of T4 - T1
    #[arg(long, help_heading = "Calls")]
    no_keepalive: bool,
    /// HTTP/2: calls in flight are streams of one connection; https:// agrees on it by ALPN, http:// takes it for granted
    #[arg(long, conflicts_with_all = ["no_keepalive", "verify"], help_heading = "Calls")]
    http2: bool,
    /// With TLS: trust the certificates in FILE (PEM), and no others
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Calls")]
    cacert: Option<PathBuf>,
    /// With TLS: take any certificate, whoever shows it
    #[arg(long, conflicts_with = "cacert", help_heading = "Calls")]
    insecure_tls: bool,
    /// With TLS: the certificate that the client shows where the server asks for one (PEM), with its key where --cert-key is not typed
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Calls")]
    cert: Option<PathBuf>,
    /// With TLS: the private key of --cert (PEM); it is neither printed nor recorded
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "cert", help_heading = "Calls")]
    cert_key: Option<PathBuf>,
    /// How long a reply may take
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_or_seconds, default_value = "10s", help_heading = "Calls")]
    timeout: u64,
    /// How long connecting may take
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_or_seconds, default_value = "5s", help_heading = "Calls")]
    connect_timeout: u64,
    #[command(flatten, next_help_heading = "Calls")]
    places: Asked<ClientAndServer>,
    /// With the target here: options of the server, as of msgpath serve --rpc: "--lock-hog 2ms/5ms --threads 1"
    #[arg(long, value_name = "OPTIONS", value_parser = server_options, allow_hyphen_values = true, help_heading = "Calls")]
    serve: Option<ServerOptions>,
    /// Share of the calls that may fail or have no reply; a larger one is exit 1: 0.1% [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = typed::share, help_heading = "Calls")]
    max_loss: Option<f64>,
    /// Fail (exit 1) where this is surely so: 'p99 > 1ms', 'rate < 10k msg/s', 'loss > 0.1%'; repeatable
    #[arg(long, value_name = "GATE", value_parser = typed::gate, conflicts_with = "legacy", help_heading = "Calls")]
    fail_if: Vec<Gate>,
    /// A result that is not what it claims to be is an error (exit 5): calls that failed are, and gates that cannot be
    /// decided
    #[arg(long, help_heading = "Calls")]
    strict: bool,
    /// CPUs of the threads, in turn: 0 or 0,2 [default: not pinned]
    #[arg(long, value_name = "CPUS", value_delimiter = ',', help_heading = "Calls")]
    cpu: Vec<u32>,
    /// Rounds of each command: the unit of evidence [default: 40; fewer with fewer than 2000 calls]
    #[arg(short = 'r', long, value_name = "N", value_parser = typed::number, help_heading = "Calls")]
    rounds: Option<u32>,
    /// Reproduces keys, values, ids and schedules [default: random, recorded]
    #[arg(long, value_name = "N", help_heading = "Calls")]
    seed: Option<u64>,
    /// Speed of the wire in bits a second, for the estimate of the time on it: 1G [default: the link's]
    #[arg(long, value_name = "RATE", value_parser = units::parse_count, help_heading = "Calls")]
    wire: Option<u64>,
    /// Print what the lab's client prints, on one stream, in its order
    #[arg(long, conflicts_with_all = ["json", "jsonl"], help_heading = "Result")]
    legacy: bool,
    /// Write the lab's binary log to FILE; with an empty FILE its name is made as in the lab
    #[arg(long, value_name = "FILE", value_parser = file_or_none, value_hint = clap::ValueHint::FilePath, help_heading = "Result")]
    lab_log: Option<PathBuf>,
    /// Print a histogram as well: log2 (powers of two of a microsecond)
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true, help_heading = "Result")]
    histogram: Option<HistogramArg>,
    #[command(flatten)]
    result: ResultOptions,
}

/// `--histogram`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistogramArg {
    /// Powers of two of a microsecond
    Log2,
}

/// Whether a target is one of PostgreSQL.
fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// A target of PostgreSQL that is refused by name.
fn no_postgres(text: &str) -> Result<(), Problem> {
    #[cfg(not(feature = "postgres"))]
    if is_postgres(text) {
        return Err(usage("this build has no PostgreSQL").hint("cargo build --release --features postgres"));
    }
    let _ = text;
    Ok(())
}

fn target(text: &str) -> Result<RpcTarget, Problem> {
    no_postgres(text)?;
    #[cfg(feature = "postgres")]
    let with_mode = match is_postgres(text) {
        true => crate::run::client::postgres::with_mode(text, std::env::var("PGSSLMODE").ok().as_deref())?,
        false => text.to_owned(),
    };
    #[cfg(feature = "postgres")]
    let text = with_mode.as_str();
    text.parse().map_err(|error: BadTarget| match &error {
        BadTarget::Port { .. } | BadTarget::Group { .. } => problems::bad_target(text, &error),
        BadTarget::Text(_) if is_postgres(text) => usage(error.to_string())
            .hint("postgres://USER@HOST:PORT/DATABASE, or postgres://USER@/DATABASE?host=/FOLDER"),
        BadTarget::Text(_) => usage(error.to_string()).hint(
            "HOST:PORT, redis://HOST:PORT or http://HOST:PORT/PATH; redis+unix:///SOCKET or http+unix:///SOCKET:/PATH; \
             with TLS rediss://, https://, rediss+unix://, https+unix://",
        ),
    })
}

/// `--header`: fields as they are sent, each with its line end.
fn http_fields(text: &str) -> Result<String, Problem> {
    let lines = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file).map_err(|error| usage(format!("cannot read {file}: {error}")))?,
        None => text.to_owned(),
    };
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let mut fields = String::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let fine = line.split_once(':').filter(|(name, _)| !name.is_empty() && name.chars().all(token));
        let (name, value) = fine.filter(|(_, value)| !value.chars().any(char::is_control)).ok_or_else(|| {
            usage(format!("{:?} is not a head field", shown(line.split(':').next().unwrap_or_default())))
                .hint("--header 'Accept: text/html'")
        })?;
        if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(usage(format!("{name} follows from the call, and is not set by hand")));
        }
        fields += &format!("{name}: {}\r\n", value.trim());
    }
    Ok(fields)
}

/// The text of certificates or of a key.
fn pem(file: &Path) -> Result<String, Problem> {
    let read = input::read(file, MOST_ROOTS as u64);
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not text: PEM is wanted".into()));
    text.map_err(|why| usage(format!("{} cannot be read: {why}", file.display())))
}

/// A file name that may be empty.
fn file_or_none(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// `--serve`: words of `msgpath serve --rpc` that parse.
fn server_options(text: &str) -> Result<ServerOptions, Problem> {
    let words: Vec<String> = text.split_whitespace().map(Into::into).collect();
    if let Some(word) = words.iter().find(|word| {
        ["--rpc", "--port", "--bind", "--help", "-h"].iter().any(|own| word.starts_with(own))
            || word.starts_with("-p")
            || word.starts_with("-B")
    }) {
        return Err(usage(format!("--serve: {word} is not for a server of one run: it says itself where it listens")));
    }
    let whole = ["msgpath", "serve", "--rpc"].into_iter().map(String::from).chain(words.iter().cloned());
    let (typed, usual) = cli::serve::typed(whole.map(OsString::from).collect())?;
    serve::asked(&typed, &usual)
}

fn rate(text: &str) -> Result<Rate, Problem> {
    match units::parse_rates(text).map_err(|error| problems::bad_value("--rate", error.to_string()))?[..] {
        [rate] => Ok(rate),
        _ => Err(usage(format!("rpc measures one rate a run, got {text:?}")).hint("one run for each rate")),
    }
}

/// E33: what was typed is not a command of the lab.
fn no_command(error: &CommandError) -> Problem {
    Problem::new("E33", Exit::Usage, error.to_string()).why(error.why()).hint(error.hint())
}

/// Sorts the words after `msgpath rpc`, so that clap can read them: its own options first, then `--`, the target with
/// its port, and the words of the lab. Other verbs stay as they are.
///
/// # Errors
/// An option that neither knows.
fn sorted(arguments: Vec<OsString>) -> Result<Vec<OsString>, Problem> {
    let words: Vec<String> = arguments[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let verb = &Arguments::augment_args(clap::Command::new("rpc"));
    let (mut own, mut lab) = (Vec::new(), Vec::new());
    let mut target: Option<String> = None;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let lab_option = command::option(word).filter(|_| word != "--verbose");
        if let Some(option) = lab_option {
            let taken = command::extent(option, &words[at..]);
            lab.extend_from_slice(&words[at..at + taken]);
            at += taken;
        } else if word == THEN {
            lab.push(word.clone());
            at += 1;
        } else if word == "--" {
            lab.extend_from_slice(&words[at + 1..]);
            break;
        } else if word.len() > 1 && word.starts_with('-') {
            let taken = 1 + usize::from(takes_next(verb, word)?);
            own.extend(words[at..].iter().take(taken).cloned());
            at += taken;
        } else if target.is_none() {
            // The lab's habit: the port is a word of its own, right after the host.
            let port =
                words.get(at + 1).filter(|next| !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit()));
            let names_none = word.parse::<RpcTarget>().is_ok_and(|target| target.typed_port.is_none());
            let host = if word.contains(':') && !word.contains("://") { format!("[{word}]") } else { word.clone() };
            match port.filter(|_| names_none && !word.contains("://")) {
                Some(port) => {
                    target = Some(format!("{}:{port}", host.replace("[[", "[").replace("]]", "]")));
                    at += 2;
                }
                None => {
                    target = Some(word.clone());
                    at += 1;
                }
            }
        } else {
            lab.push(word.clone());
            at += 1;
        }
    }
    let asks_for_help = own.iter().any(|word| word == "-h" || word == "--help");
    if let (Some(_), true, false) = (&target, lab.is_empty(), asks_for_help) {
        return Err(no_command(&CommandError::NoCommand));
    }
    let separator = (target.is_some() || !lab.is_empty()).then(|| "--".to_owned());
    let rest = own.into_iter().chain(separator).chain(target).chain(lab).map(OsString::from);
    Ok(arguments[..2].iter().cloned().chain(rest).collect())
}

/// Whether an option of clap's has its value in the next word.
///
/// # Errors
/// It does not exist; the nearest one is named.
fn takes_next(verb: &clap::Command, word: &str) -> Result<bool, Problem> {
    let unknown = || {
        let longs = verb.get_arguments().filter_map(clap::Arg::get_long).map(|long| format!("--{long}"));
        let names: Vec<String> = longs.chain(command::OPTIONS.map(String::from)).chain([THEN.into()]).collect();
        // Dashes are not part of the name: the lab has one where others have two.
        let bare = |name: &str| name.trim_start_matches('-').to_owned();
        let bares: Vec<String> = names.iter().map(|name| bare(name)).collect();
        let near = nearest(&bare(word), bares.iter().map(String::as_str));
        let near = near.and_then(|near| names.iter().find(|name| bare(name) == near));
        let near = near.map_or_else(|| "msgpath rpc --help".to_owned(), Clone::clone);
        usage(format!("{word} is not an option of rpc")).hint(near)
    };
    let takes = |arg: &clap::Arg| arg.get_action().takes_values();
    if let Some(long) = word.strip_prefix("--") {
        let (name, attached) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        if name == "help" {
            return Ok(false);
        }
        let found = verb.get_arguments().find(|arg| arg.get_long() == Some(name)).ok_or_else(unknown)?;
        return Ok(takes(found) && !attached);
    }
    let mut letters = word.chars().skip(1);
    while let Some(letter) = letters.next() {
        if letter == 'h' {
            continue;
        }
        let found = verb.get_arguments().find(|arg| arg.get_short() == Some(letter)).ok_or_else(unknown)?;
        if takes(found) {
            return Ok(letters.next().is_none());
        }
    }
    Ok(false)
}

impl Arguments {
    fn load(&self) -> Load {
        let arrivals = self.arrivals.map_or_else(Default::default, Into::into);
        self.rate.map_or(Load::Closed, |rate| Load::Open { rate, arrivals })
    }

    /// Whether the run starts the server itself.
    fn is_here(&self) -> bool {
        let target = &self.target;
        target.protocol == Protocol::Lab && target.host == HERE && target.typed_port.is_none() && self.port.is_none()
    }

    /// The server of this run, in its place, and the target that it is. Moves this process to the near place. Called before
    /// there is any other thread.
    fn own_server(&self) -> Result<Option<(OwnServer, Option<Places>, RpcTarget)>, Problem> {
        if !self.is_here() {
            let option = self.places.named().map(|_| "--between").or(self.serve.as_ref().map(|_| "--serve"));
            return match option {
                Some(option) => Err(usage(format!("{option} is about a server that this run starts itself"))
                    .hint(format!("msgpath rpc here ... {option}"))),
                None => Ok(None),
            };
        }
        let places = self.places.find()?;
        for note in places.iter().flat_map(|places| &places.notes) {
            say!("note: {}", shown(note));
        }
        let options = self.serve.clone().unwrap_or_default();
        let server = OwnServer::start(&options, places.as_ref().map(|places| places.between.of(FAR)))?;
        let address = server.address();
        let target =
            RpcTarget { host: address.ip().to_string(), typed_port: Some(address.port()), ..self.target.clone() };
        Ok(Some((server, places, target)))
    }

    /// The password of a login: that of a file, of the target as typed, or of the environment.
    fn password(&self, target: &RpcTarget) -> Result<Option<Secret>, Problem> {
        let typed = target.login.password.clone();
        let variable = password_variable(target.protocol);
        if let Some(file) = &self.password_file {
            if variable.is_none() {
                return Err(usage("--password-file is for Redis and PostgreSQL").hint("redis://HOST"));
            }
            let text = std::fs::read_to_string(file)
                .map_err(|error| usage(format!("cannot read {}: {error}", file.display())))?;
            return Ok(Some(Secret::new(text.lines().next().unwrap_or_default().to_owned())));
        }
        if typed.is_some() {
            say!(
                "note: whoever lists the processes of this machine reads a password in the target; --password-file hides it"
            );
        }
        let of_environment = |name| std::env::var(name).ok().filter(|text| !text.is_empty()).map(Secret::new);
        Ok(typed.or_else(|| variable.and_then(of_environment)))
    }

    /// The target with `-p` and the password put in.
    fn target(&self) -> Result<RpcTarget, Problem> {
        let mut target = self.target.clone();
        self.fits_tls(&target)?;
        target.login.password = self.password(&target)?;
        target.login.cluster = self.cluster;
        if self.cluster && (target.protocol != Protocol::Redis || target.socket.is_some() || target.login.database > 0)
        {
            return Err(usage("--cluster is for Redis over TCP, and a cluster has no databases")
                .hint("redis://HOST:PORT --cluster"));
        }
        #[cfg(feature = "postgres")]
        if target.protocol == Protocol::Postgres {
            crate::run::client::postgres::complete(&mut target, |name| std::env::var(name).ok())?;
        }
        match (target.typed_port, self.port) {
            (None, Some(_)) if target.socket.is_some() => {
                Err(usage(format!("{target} is a Unix socket and has no port")).hint("leave out -p"))
            }
            (Some(typed), Some(port)) if typed != port => {
                Err(usage(format!("the target names port {typed}, -p names {port}")).hint("name the port once"))
            }
            (typed, port) => {
                target.typed_port = typed.or(port);
                Ok(target)
            }
        }
    }

    /// The calls of commands that are called for a time: all that are due of a schedule, else the most of a round.
    fn lasts(&self, script: &mut Script) -> Result<(), Problem> {
        let Some(ns) = self.duration else { return Ok(()) };
        if ns < 1_000_000 {
            return Err(usage("--duration is at least 1ms").hint("--duration 10s"));
        }
        for step in &mut script.steps {
            if (step.k, step.rep, step.wait_ms) != (1, 1, 0) {
                return Err(usage("--duration says how long, -k, -rep and -waitms say how many and when")
                    .hint("leave out one of them"));
            }
            let due = self.rate.map(|rate| (rate.value() * ns as f64 / 1e9).ceil() as u64);
            step.k = due.unwrap_or(MOST_TIMED).clamp(1, command::MAX_CALLS);
        }
        Ok(())
    }

    /// Whether this build speaks what the target and the options ask for.
    fn fits_tls(&self, target: &RpcTarget) -> Result<(), Problem> {
        let needs = match (target.tls, self.http2) {
            (true, _) => Some(match target.protocol {
                Protocol::Redis => "rediss://",
                #[cfg(feature = "postgres")]
                Protocol::Postgres => "an sslmode that requires TLS",
                _ => "https://",
            }),
            (false, true) => Some("--http2"),
            (false, false) => None,
        };
        if let Some(what) = needs.filter(|_| !TLS) {
            return Err(lacking(what));
        }
        let of_tls = [
            (self.cacert.is_some(), "--cacert"),
            (self.insecure_tls, "--insecure-tls"),
            (self.cert.is_some(), "--cert"),
        ];
        match of_tls.into_iter().find(|(typed, _)| *typed && !target.tls) {
            Some((_, option)) => Err(usage(format!("{option} is for TLS"))
                .hint("https://HOST/PATH, rediss://HOST or postgres://HOST/DB?sslmode=verify-full")),
            None => Ok(()),
        }
    }

    /// The certificates of `--cacert`.
    fn roots(&self) -> Result<Option<String>, Problem> {
        self.cacert.as_deref().map(pem).transpose()
    }

    /// What is checked of the server's certificate: as typed, else as the target has it. A file of authorities is there to be used.
    fn checks(&self, target: &RpcTarget) -> Checks {
        match target.checks {
            _ if self.insecure_tls => Checks::Nothing,
            Checks::Nothing if self.cacert.is_some() => Checks::Signature,
            checks => checks,
        }
    }

    /// The certificate that the client shows.
    fn identity(&self) -> Result<Option<Identity>, Problem> {
        let Some(cert) = &self.cert else { return Ok(None) };
        let certificates = pem(cert)?;
        let key = self.cert_key.as_deref().map_or_else(|| Ok(certificates.clone()), pem)?;
        Ok(Some(Identity { certificates, key: Secret::new(key) }))
    }

    /// The commands, checked for the protocol, and what is odd about them.
    fn script(&self, protocol: Protocol) -> Result<(Script, Vec<String>), Problem> {
        let mut script = command::parse(&self.words).map_err(|error| no_command(&error))?;
        self.lasts(&mut script)?;
        let mut notes = Vec::new();
        for step in &script.steps {
            if self.rate.is_some() && step.wait_ms > 0 {
                return Err(usage("-waitms has no meaning with --rate: a schedule says when calls are sent")
                    .hint("leave out one of them"));
            }
            match protocol {
                Protocol::Lab => {
                    command::check(step).map_err(|error| no_command(&error))?;
                    if !METHODS.contains(&step.method.as_str()) {
                        let near = nearest(&step.method, METHODS)
                            .map_or_else(String::new, |near| format!(" (nearest: {near})"));
                        notes.push(format!("{:?} is not a method of the lab{near}; it is sent as it is", step.method));
                    }
                }
                Protocol::Redis => check_redis(step)?,
                Protocol::Http => check_http(step, self.body.is_some())?,
                #[cfg(feature = "postgres")]
                Protocol::Postgres => check_postgres(step, self.verify)?,
            }
        }
        let of_http = [(!self.header.is_empty(), "--header"), (self.body.is_some(), "--body")];
        let of_http = of_http.into_iter().chain([(self.no_keepalive, "--no-keepalive"), (self.http2, "--http2")]);
        if let Some((_, option)) = of_http.into_iter().find(|(typed, _)| *typed && protocol != Protocol::Http) {
            return Err(usage(format!("{option} is for HTTP")).hint("http://HOST/PATH"));
        }
        if self.body.is_some() && !script.steps.iter().any(|step| http::has_body(&step.method)) {
            return Err(usage("no request of this run has a body").hint("POST, PUT or PATCH with --body"));
        }
        self.fits_in_flight(protocol, &script)?;
        if protocol != Protocol::Lab && (self.legacy || self.lab_log.is_some() || script.verbose) {
            return Err(usage(format!(
                "--legacy, --lab-log and -verbose are about the lab's messages, not {}",
                protocol.name()
            ))
            .hint("leave them out"));
        }
        Ok((script, notes))
    }
}

impl Arguments {
    /// Calls in flight on a connection, at most.
    fn in_flight(&self, protocol: Protocol) -> u32 {
        let one = (protocol == Protocol::Http && !self.http2) || self.cluster;
        let usual = if self.rate.is_some() && !one { OPEN_INFLIGHT } else { 1 };
        self.inflight.unwrap_or(usual)
    }

    /// Whether so many calls can be in flight on a connection.
    fn fits_in_flight(&self, protocol: Protocol, script: &Script) -> Result<(), Problem> {
        let many = self.in_flight(protocol) > 1;
        if many && protocol == Protocol::Http && !self.http2 {
            return Err(usage("over a connection of HTTP/1.1 one call goes after the other")
                .hint("-P N for more at once, or --http2"));
        }
        if many && self.cluster {
            return Err(usage(
                "in a cluster one call of a connection goes after the other, each to the node of its key",
            )
            .hint("-P N for more at once"));
        }
        let many = many || self.http2;
        if !many || self.rate.is_some() {
            return Ok(());
        }
        if self.verify {
            return Err(
                usage("--verify compares a reply with the one call that is in flight").hint("leave out --inflight")
            );
        }
        if script.steps.iter().any(|step| step.wait_ms > 0) {
            return Err(usage(
                "-waitms pauses between calls, and --inflight or --http2 sends the next before the reply",
            )
            .hint("leave out one of them"));
        }
        match (self.connections, self.threads) {
            (Some(connections), Some(threads)) if connections != threads => {
                Err(usage("with --inflight or --http2 a thread serves one connection").hint("leave out -T"))
            }
            _ => Ok(()),
        }
    }

    /// The bytes of `--body`.
    fn body(&self) -> Result<Option<Vec<u8>>, Problem> {
        let Some(file) = &self.body else { return Ok(None) };
        let source = if file.as_os_str() == "-" { Path::new("/dev/stdin") } else { file };
        let read = input::read(source, MOST_BODY as u64);
        read.map(Some).map_err(|why| usage(format!("{} cannot be read: {why}", file.display())))
    }
}

fn check_redis(step: &command::Step) -> Result<(), Problem> {
    let name = step.method.to_ascii_lowercase();
    let missing = |option| Err(no_command(&CommandError::Missing { method: step.method.clone(), option }));
    match name.as_str() {
        "ping" => Ok(()),
        "get" | "read" | "del" | "delete" | "set" | "write" if step.key.is_none() => missing("-key"),
        "set" | "write" if step.value.is_none() => missing("-value"),
        "get" | "read" | "del" | "delete" | "set" | "write" => Ok(()),
        _ => {
            Err(usage(format!("{} is not a command that rpc speaks to Redis", step.method))
                .hint("PING, SET, GET or DEL"))
        }
    }
}

#[cfg(feature = "postgres")]
fn check_postgres(step: &command::Step, verify: bool) -> Result<(), Problem> {
    use crate::agent::client::orders::MOST_STATEMENT;
    if verify {
        return Err(usage("--verify knows nothing of what a statement gives").hint("leave out --verify"));
    }
    if step.method.len() > MOST_STATEMENT || step.method.contains('\0') {
        return Err(usage(format!("a statement has {MOST_STATEMENT} bytes at most, and no zero byte")));
    }
    Ok(())
}

/// The variable of the environment that has the password, as the protocol's own client reads it; `None`: there is no login.
fn password_variable(protocol: Protocol) -> Option<&'static str> {
    match protocol {
        Protocol::Redis => Some("REDISCLI_AUTH"),
        #[cfg(feature = "postgres")]
        Protocol::Postgres => Some("PGPASSWORD"),
        _ => None,
    }
}

/// What helps against an error that a server gave to a call.
fn advice(text: &str) -> Option<&'static str> {
    #[cfg(feature = "postgres")]
    if let Some(advice) = crate::agent::client::postgres::advice(text) {
        return Some(advice);
    }
    redis::advice(text)
}

fn check_http(step: &command::Step, has_body: bool) -> Result<(), Problem> {
    let name = step.method.to_ascii_lowercase();
    match name.as_str() {
        "get" | "read" | "head" | "options" | "delete" | "post" | "patch" => Ok(()),
        "put" | "write" if step.value.is_none() && !has_body => {
            Err(no_command(&CommandError::Missing { method: step.method.clone(), option: "-value" }))
        }
        "put" | "write" => Ok(()),
        _ => Err(usage(format!("{} is not a method that rpc speaks over HTTP", step.method))
            .hint("GET, HEAD, PUT, POST, PATCH, DELETE or OPTIONS")),
    }
}

/// The lab's log and what is printed while a run goes on.
struct Console {
    legacy: bool,
    verbose: bool,
    log: Option<(PathBuf, BufWriter<File>)>,
    connected: Option<Connected>,
    texts: Vec<String>,
}

impl Console {
    /// The log is whole on the disk, which is said.
    fn end_log(&mut self, quiet: u8) -> Result<(), Problem> {
        let Some((file, mut log)) = self.log.take() else { return Ok(()) };
        log.flush().map_err(|error| cannot_write(&file, &error))?;
        match self.legacy {
            true => output::print(format!("\n{} written\n", file.display()))?,
            false if quiet == 0 => say!("{} written", file.display()),
            false => {}
        }
        Ok(())
    }

    fn line(&self, text: &str) {
        match self.legacy {
            // What cannot be printed now is no reason to stop measuring: the result at the end tells.
            true => drop(output::print(format!("{text}\n"))),
            false => say!("{text}"),
        }
    }
}

impl Listener for Console {
    fn connected(&mut self, connected: &Connected) {
        if self.legacy {
            let to = connected.to.tcp();
            let ip = match to.map(|to| to.ip()) {
                Some(std::net::IpAddr::V4(ip)) => ip.into(),
                _ => 0,
            };
            self.line(&console::server_line(ip, to.map_or(0, |to| to.port())));
        }
        self.connected = Some(connected.clone());
    }

    fn server_text(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    fn records(&mut self, records: &[Record]) -> Result<(), Problem> {
        for Record { request, reply } in records {
            let offset = msgpath_sys::clock::utc_offset(request.header.t[0].div_euclid(1_000_000));
            for (sends, message) in std::iter::once((true, request)).chain(reply.iter().map(|reply| (false, reply))) {
                if self.verbose {
                    let bytes = message.length as usize;
                    let shown = &message.data[..bytes.min(message.data.len())];
                    self.line(&console::verbose(sends, &message.header, bytes, shown, offset));
                }
                if let Some((file, log)) = &mut self.log {
                    log.write_all(&message.to_bytes()).map_err(|error| cannot_write(file, &error))?;
                }
            }
        }
        // Whatever ends the program, the calls of whole rounds are on disk.
        match &mut self.log {
            Some((file, log)) => log.flush().map_err(|error| cannot_write(file, &error)),
            None => Ok(()),
        }
    }
}

/// Creates the lab's log; an empty name is made as the lab makes it.
fn lab_log(file: &Path) -> Result<(PathBuf, BufWriter<File>), Problem> {
    let file = if file.as_os_str().is_empty() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let local = now as i64 + msgpath_sys::clock::utc_offset(now as i64);
        let host = msgpath_agent::environment::read().host;
        OutputFile::Named(console::log_name("msgpath", local, &host, std::process::id()).into())
    } else {
        OutputFile::Typed(file.to_path_buf())
    };
    let log = file.open()?.in_place().map_err(|error| cannot_write(file.path(), &error))?;
    Ok((file.path().to_path_buf(), BufWriter::new(log)))
}

/// `--between` of a client and the server of its run.
#[derive(Debug)]
struct ClientAndServer;

impl Terms for ClientAndServer {
    const HELP: (&'static str, &'static str) = ("With the target here: network namespaces of client and server: ", "");
    const EXCLUDES: &'static [&'static str] = &[];
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "rpc";
    const GROUP: Group = Group::Measure;
    const SHORT: Option<(&str, &str)> = Some((
        "port connections rate verify timeout between serve fail-if rounds legacy json verbose",
        "Examples:
  msgpath rpc here -k 1000 ping              a server of this run
  msgpath rpc HOST:12345 -k 10 write -key k + -value v + 1000000
  msgpath rpc HOST -k 20000 ping -P 8 --rate 10k
  msgpath rpc redis://HOST -k 1000 SET -key k0 + -value v 64
  msgpath rpc http://HOST:8000/file -k 100 GET

The words of a command, and more examples: msgpath rpc --help.",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }

    fn sorted(words: Vec<OsString>) -> Result<Vec<OsString>, Problem> {
        sorted(words)
    }
}

/// What a run says, kept beside it.
fn kept(run: &mut Run, result: &ResultOptions) -> Result<Summary> {
    let summary = runs::summarise(run)?;
    if result.no_save {
        run.folder.clear(); // nothing may name a folder that is about to be removed
    } else {
        msgpath_record::write_summary(&run.folder, &serde_json::to_vec_pretty(&summary)?).map_err(Problem::from)?;
    }
    Ok(summary)
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    let mut result = arguments.result.clone();
    // The last line is the object that --json prints.
    result.look.json |= result.jsonl;
    let result = &result;
    let target = arguments.target()?;
    gates::of_one_run(&arguments.fail_if, &crate::workload::CALLS)?;
    let (script, mut notes) = arguments.script(target.protocol)?;
    // Before the process may move into a namespace.
    let metrics = progress::open(result)?;
    // Both live until the run is over.
    let own = arguments.own_server()?;
    let between = own.as_ref().and_then(|(_, places, _)| Some(places.as_ref()?.between.clone()));
    let target = own.as_ref().map_or(target, |(.., own)| own.clone());
    if own.is_some() && !arguments.legacy {
        notes.push(format!("a server of this run answers at {target} and ends with it"));
    }
    if result.quiet == 0 {
        notes.iter().for_each(|note| say!("note: {}", shown(note)));
    }
    let connections = arguments.connections.or(arguments.threads).unwrap_or(1);
    let place = if result.no_save { Place::temporary()? } else { Place::kept(result.name.as_deref())? };
    let verbose = script.verbose;
    let request = RpcRequest {
        target: target.clone(),
        script,
        connections,
        own_threads: arguments.threads,
        load: arguments.load(),
        inflight: arguments.in_flight(target.protocol),
        fields: arguments.header.concat(),
        body: arguments.body()?,
        closes: arguments.no_keepalive,
        http2: arguments.http2,
        roots: arguments.roots()?,
        checks: arguments.checks(&target),
        identity: arguments.identity()?,
        verify: arguments.verify,
        timeout_ns: arguments.timeout.max(1_000_000),
        connect_timeout_ns: arguments.connect_timeout.max(1_000_000),
        plain: arguments.legacy,
        records: verbose || arguments.lab_log.is_some(),
        wire: arguments.wire.filter(|bits| *bits > 0),
        duration_ns: arguments.duration,
        rounds: arguments.rounds,
        counts_system_calls: result.verbose,
        gates: arguments.fail_if.clone(),
        seed: arguments.seed.unwrap_or_else(random_seed),
        cpus: arguments.cpu.clone(),
        between,
        server: own.as_ref().and_then(|(own, ..)| own.pid()),
        command: std::iter::once("msgpath".into()).chain(words.iter().map(|word| without_password(word))).collect(),
        name: place.name.clone(),
        folder: place.folder.clone(),
    };
    let log = arguments.lab_log.as_deref().map(lab_log).transpose()?;
    let mut console = Console { legacy: arguments.legacy, verbose, log, connected: None, texts: Vec::new() };
    let glyphs = looks::glyphs();
    let stop = msgpath_sys::signal::stop_flag();
    let mut progress = match arguments.legacy || verbose {
        true => progress::quietly(result, metrics),
        false => progress::progress(result, metrics),
    };
    let called = call(request, progress.as_mut(), &mut console, stop);
    drop(progress);
    let outcome = called?;

    let mut run = runs::read(&place.folder)?;
    let rows: Vec<RpcRow> = crate::record::calls(&place.folder).map_err(Problem::from)?.map_while(Result::ok).collect();
    let summary = kept(&mut run, result)?;
    let text = if arguments.legacy {
        legacy(&rows, &console.texts)
    } else {
        let view = View {
            trials: None,
            whole: None,
            quiet: result.quiet,
            verbose: result.verbose,
            warnings: result.warnings,
            units: result.units.into(),
            look: &result.look,
        };
        let mut text = measure::text(&run, &summary, &view);
        if !result.look.json && result.quiet == 0 {
            text += &sums(arguments, &run, &rows, &console, &outcome, glyphs);
        }
        text
    };
    output::print(&text)?;
    console.end_log(result.quiet)?;
    let name = (!result.no_save).then_some(run.header.name.as_str());
    let facts = run.header.parts.get::<RpcFacts>().cloned().unwrap_or_default();
    let held = verdict(arguments, result, (&summary, &facts, name), outcome.problem);
    Ok(measure::code_of(held, &summary.gates, result.quiet))
}

/// Whether the run is what was asked for. The name is that under which it is kept.
fn verdict(
    arguments: &Arguments,
    result: &ResultOptions,
    (summary, facts, name): (&Summary, &RpcFacts, Option<&str>),
    problem: Option<Problem>,
) -> Result<(), Problem> {
    let mut options = Options { result: result.clone(), ..Options::default() };
    options.evidence.strict = arguments.strict;
    match (problem, name) {
        (Some(problem), Some(name)) if problem.hint.is_empty() => {
            Err(problem.hint(format!("msgpath show {name}   for what was measured before")))
        }
        (Some(problem), _) => Err(problem),
        (None, _) => held_to::of(&crate::workload::CALLS, summary, &options)
            .and_then(|()| succeeded(summary, facts, arguments.max_loss))
            .and_then(|()| gates::verdict(&summary.gates, arguments.strict)),
    }
}

/// Whether enough calls succeeded: one of each command at least, and all but the share that `--max-loss` lets fail.
fn succeeded(summary: &Summary, facts: &RpcFacts, max_loss: Option<f64>) -> Result<(), Problem> {
    let kinds = summary.sections.get::<RpcSummary>().map_or(&[][..], |rpc| &rpc.kinds);
    let sum = |of: fn(&RpcKind) -> u64| kinds.iter().map(of).sum::<u64>();
    let (calls, bad) = (sum(|kind| kind.calls), sum(|kind| kind.failed + kind.unanswered));
    if let Some(kind) = kinds.iter().find(|kind| kind.calls > 0 && kind.failed + kind.unanswered == kind.calls) {
        return Err(none_succeeded(kind, kinds.len() > 1, facts));
    }
    if bad as f64 <= max_loss.unwrap_or(0.0) * calls as f64 {
        return Ok(());
    }
    let allowed = max_loss.map_or_else(String::new, |limit| format!("; --max-loss allows {} %", limit * 100.0));
    let what = format!("{bad} of {calls} calls failed or had no reply{allowed}");
    Err(Problem::new("E16", Exit::CheckFailed, what)
        .why("the times are those of the calls that succeeded")
        .hint("where some may fail, say how many: --max-loss 1%"))
}

/// Nothing was measured of a command.
fn none_succeeded(kind: &RpcKind, named: bool, facts: &RpcFacts) -> Problem {
    let what = match kind.calls {
        1 => "the call did not succeed".to_owned(),
        calls => format!("none of {calls} calls succeeded"),
    };
    let what = if named { format!("{}: {what}", kind.method) } else { what };
    let remarks = facts.remarks.iter().filter(|remark| remark.failed && remark.case == kind.case);
    if let Some(remark) = remarks.max_by_key(|remark| remark.calls) {
        let why = format!("the server says: {}", shown(&remark.text));
        return nothing_came(what, why).hint(advice(&remark.text).unwrap_or_default());
    }
    if kind.method.eq_ignore_ascii_case("quit") && kind.failed > 0 {
        return nothing_came(what, QUIT).hint("msgpath serve --rpc --allow-quit");
    }
    nothing_came(what, "nothing was measured of what was asked for: every call failed or had no reply")
}

/// Of the calls with a reply; those without one are none.
fn tally<'a>(rows: impl IntoIterator<Item = &'a RpcRow>) -> Tally {
    let mut tally = Tally::default();
    for (row, latency_ns) in rows.into_iter().filter_map(|row| Some((row, row.latency_ns?))) {
        tally.add(latency_ns, row.request_bytes, row.reply_bytes);
    }
    tally
}

/// The lab's text: the first round trips, what `stats` said, the histogram and the sums.
fn legacy(rows: &[RpcRow], texts: &[String]) -> String {
    let tally = tally(rows);
    let mut out = tally.first();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    for text in texts {
        out += text;
        out.push('\n');
    }
    out + &tally.histogram()
}

/// The path, the sums of every kind of call, and what the server said.
fn sums(
    arguments: &Arguments,
    run: &msgpath_record::Run,
    rows: &[RpcRow],
    console: &Console,
    outcome: &crate::run::client::Outcome,
    glyphs: Glyphs,
) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    lines.extend(console.connected.iter().flat_map(path_lines));
    lines.extend(console.connected.iter().filter_map(|connected| cluster_line(&connected.nodes)));
    for case in &run.header.plan.cases {
        let own: Vec<&RpcRow> = rows.iter().filter(|row| row.case == case.id).collect();
        if own.is_empty() {
            continue;
        }
        let tally = tally(own.iter().copied());
        let name = case.label.as_deref().unwrap_or("calls");
        let failed = own.iter().filter(|row| row.status != 0).count() as u64;
        let unanswered = own.iter().filter(|row| row.latency_ns.is_none()).count() as u64;
        lines.push(tally.ends(name, failed, unanswered));
        let tally = self::tally(own.into_iter().filter(|row| row.is_good()));
        if tally.calls > 0 {
            lines.push(tally.first_trips(name, glyphs));
        }
        if arguments.histogram == Some(HistogramArg::Log2) {
            lines.extend(tally.log2(name, glyphs));
        }
    }
    if let Some(not_kept) = run.header.parts.get::<RpcFacts>().map(|rpc| rpc.not_kept).filter(|calls| *calls > 0) {
        lines.push(format!("{} more calls are in the histograms, not in the log of calls.", not_kept));
    }
    if arguments.verify {
        lines.push(format!(
            "verified: every byte of {} of {} replies (pings, and reads of what this run had written)",
            outcome.verified, outcome.answered
        ));
    }
    lines.extend(console.texts.iter().map(|text| format!("the server says: {}", shown(text))));
    lines.join("\n") + "\n"
}

fn cluster_line(nodes: &[std::net::SocketAddr]) -> Option<String> {
    let shown: Vec<String> = nodes.iter().take(4).map(ToString::to_string).collect();
    let more = nodes.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let plural = if nodes.len() == 1 { "" } else { "s" };
    (!nodes.is_empty()).then(|| {
        format!(
            "cluster  {} node{plural}, a connection to each for each of -P, made before the first call: {}{more}",
            nodes.len(),
            shown.join(", ")
        )
    })
}

/// What leads to the server, and whether that is a network.
fn path_lines(connected: &Connected) -> Vec<String> {
    let (Some(to), Some(from)) = (connected.to.tcp(), connected.from) else {
        return vec![format!("path     {} is a Unix socket of this machine: no network was measured", connected.to)];
    };
    let (to, from) = (to.ip(), from.ip());
    if let Some(between) = &connected.between {
        let device = |route| device(route, &between.properties);
        let through = connected.route.as_ref().map_or_else(|why| format!("a device that is n/a: {why}"), device);
        return vec![
            format!("path     {from} to {to} through {through}"),
            format!(
                "         {} and {}: two network namespaces of one machine. One clock, so nothing is aligned.",
                between.of(NEAR).name,
                between.of(FAR).name
            ),
        ];
    }
    let Some(_) = connected.same_machine() else {
        return vec![match &connected.route {
            Ok(route) => format!("path     {from} to {to} through {}", device(route, "")),
            Err(why) => format!("path     {from} to {to}; device n/a: {why}"),
        }];
    };
    let mut lines =
        vec![format!("path     {to} is this machine: the route is the loopback device, no network was measured")];
    if !to.is_loopback() {
        lines.push(format!(
            "         A route added for {to} changes nothing: rule 0, the local table, comes before all others."
        ));
    }
    lines.push("         For a network: two machines, or two network namespaces.".into());
    lines
}

/// `link`: what shapes the link between two namespaces, in words; empty: nothing does.
fn device(route: &Route, link: &str) -> String {
    if route.kind == DeviceKind::Veth && !link.is_empty() {
        return format!("{} (veth, a link between network namespaces that is shaped: {link})", route.device);
    }
    let kind = match route.kind {
        DeviceKind::Loopback => "loopback",
        DeviceKind::Veth => "veth, a pair between network namespaces: no wire",
        DeviceKind::Tun => "tun or tap: a program",
        DeviceKind::Virtual => "virtual",
        DeviceKind::Nic => "a NIC",
        DeviceKind::Unknown => "of unknown kind",
    };
    let speed = route.bits_per_s.filter(|_| route.kind == DeviceKind::Nic);
    let speed = speed
        .map_or_else(String::new, |bits| format!(", {}", units::bits_per_second(bits as f64, units::BitUnits::Si)));
    format!("{} ({kind}{speed})", route.device)
}

#[cfg(test)]
mod tests {
    use msgpath_core::parts::Parts;

    use super::*;
    use crate::agent::client::orders::Endpoint;

    fn words(line: &str) -> Result<String, Problem> {
        let arguments = ["msgpath", "rpc"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        let sorted = sorted(arguments)?;
        Ok(sorted[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn calls_that_all_failed_are_no_success() {
        let code = |calls, failed, unanswered, limit| {
            let kind = RpcKind { calls, failed, unanswered, ..RpcKind::default() };
            let kinds = vec![kind, RpcKind { calls: 0, ..RpcKind::default() }];
            let sections = Parts::default().with(RpcSummary { kinds, ..RpcSummary::default() });
            let summary = Summary { sections, ..Summary::empty("calm-heron", "rpc", msgpath_core::schema::Status::Ok) };
            succeeded(&summary, &RpcFacts::default(), limit).map_or_else(|problem| problem.exit.code(), |()| 0)
        };
        assert_eq!([code(10, 10, 0, None), code(10, 3, 7, None), code(1, 1, 0, None)], [4; 3]);
        assert_eq!([code(10, 9, 0, None), code(10, 0, 1, None), code(10, 0, 0, None)], [1, 1, 0]);
        assert_eq!(code(10, 9, 0, Some(1.0)), 0);
        assert_eq!([code(100, 1, 0, Some(0.01)), code(100, 1, 1, Some(0.01)), code(100, 0, 0, Some(0.0))], [0, 1, 0]);
    }

    #[test]
    fn head_fields_are_checked() {
        assert_eq!(http_fields("Accept:text/html").unwrap(), "Accept: text/html\r\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "Authorization: Bearer abc\r\nX-A: b\n\n").unwrap();
        let read = http_fields(&format!("@{}", file.path().display())).unwrap();
        assert_eq!(read, "Authorization: Bearer abc\r\nX-A: b\r\n");
        for bad in ["Accept", ": x", "A b: c", "A: b\u{7}", "Content-Length: 5", "@/nowhere"] {
            assert_eq!(http_fields(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
        let secret = http_fields("Bad Name: s3cret").unwrap_err().to_string();
        assert!(!secret.contains("s3cret"), "{secret}");
    }

    #[test]
    fn refused_quit_is_an_error_that_says_why() {
        let kinds = vec![RpcKind { method: "quit".into(), calls: 1, failed: 1, ..RpcKind::default() }];
        let sections = Parts::default().with(RpcSummary { kinds, ..RpcSummary::default() });
        let summary = Summary { sections, ..Summary::empty("calm-heron", "rpc", msgpath_core::schema::Status::Ok) };
        let problem = succeeded(&summary, &RpcFacts::default(), None).unwrap_err().to_string();
        assert!(problem.contains("quits only where it was started with --allow-quit"), "{problem}");
    }

    #[test]
    fn words_are_sorted() {
        for (typed, sorted) in [
            ("h:1 ping", "-- h:1 ping"),
            ("h 1 ping", "-- h:1 ping"),
            ("h ping", "-- h ping"),
            ("::1 12 ping", "-- [::1]:12 ping"),
            (
                "--json h 12345 -k 10 write -key k + -value v + 9 -P 4 --timeout=3s",
                "--json -P 4 --timeout=3s -- h:12345 -k 10 write -key k + -value v + 9",
            ),
            ("h -key kkk write", "-- h -key kkk write"),
            ("h -verbose --verbose ping", "--verbose -- h -verbose ping"),
            ("h -qJ ping --then read -key --json", "-qJ -- h ping --then read -key --json"),
            ("redis://h 12 ping", "-- redis://h 12 ping"),
            ("h:1 12 ping", "-- h:1 12 ping"),
            ("--help", "--help"),
            ("-h h", "-h -- h"),
            ("", ""),
        ] {
            assert_eq!(words(typed).unwrap(), sorted, "{typed}");
        }
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        for (typed, near) in [
            ("h ping -kye x", "-key"),
            ("h ping --verfy", "--verify"),
            ("h ping --vale x", "-value"),
            ("h ping -wait 3", "-waitms"),
        ] {
            let problem = words(typed).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage);
            assert!(problem.what.contains("not an option") && problem.hint.contains(near), "{typed}: {problem}");
        }
        assert_eq!(words("h").unwrap_err().code, "E33");
    }

    #[test]
    fn the_path_says_when_there_is_no_network() {
        let across = |to: &str, from: &str, kind, bits_per_s, between| {
            let route = Route { device: "eth0".into(), kind, bits_per_s, ..Route::default() };
            let (to, from) = (to.parse().unwrap(), from.parse().unwrap());
            let to = Endpoint::Tcp(to);
            let nodes = Vec::new();
            path_lines(&Connected { to, more: 0, from: Some(from), route: Ok(route), between, nodes }).join("\n")
        };
        let connected = |to: &str, from: &str, kind, bits_per_s| across(to, from, kind, bits_per_s, None);
        let own = connected("192.0.2.7:1", "192.0.2.7:2", DeviceKind::Loopback, None);
        assert!(
            own.contains("no network was measured") && own.contains("rule 0") && own.contains("namespaces"),
            "{own}"
        );
        let local = connected("127.0.0.1:1", "127.0.0.1:2", DeviceKind::Loopback, None);
        assert!(local.contains("no network was measured") && !local.contains("rule 0"), "{local}");
        let far = connected("192.0.2.8:1", "192.0.2.7:2", DeviceKind::Nic, Some(1_000_000_000));
        assert_eq!(far, "path     192.0.2.7 to 192.0.2.8 through eth0 (a NIC, 1.00 Gbit/s)");
        let lab = |link: &str| {
            let between = msgpath_core::plan::Between { ends: Vec::new(), link: None, properties: link.into() };
            across("10.66.0.2:1", "10.66.0.1:2", DeviceKind::Veth, None, Some(between))
        };
        assert!(lab("").contains("(veth, a pair between network namespaces: no wire)"), "{}", lab(""));
        let shaped = lab("1.00 Gbit/s, delay 2.00 ms");
        assert!(
            shaped.contains("that is shaped: 1.00 Gbit/s, delay 2.00 ms)") && !shaped.contains("no wire"),
            "{shaped}"
        );
    }
}
