//! `msgpath compat`: the clients of courses, and the options of `msgpath serve --compat`, their servers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::classic::css432::{self, Classic, MESSAGE, Order, REPETITIONS_END, Row, Shape};
use crate::classic::lines::{classic_table, table};
use crate::classic::primitives::Primitive;
use crate::peers::css432 as shapes;
use crate::peers::{Event, Protocol, Server, ServerOptions, Target, discard, echo, primitives};
use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use msgpath_agent::ServeAddress;
use msgpath_core::target::{BadTarget, parse_port};
use msgpath_core::units::{self, BitUnits, Glyphs, bits_per_second};
use msgpath_core::{Exit, Problem};
use msgpath_sys::say;

use msgpath_verbs::log::Log;
use msgpath_verbs::options::Look;
use msgpath_verbs::output;
use msgpath_verbs::problems::{bad_target, bad_value, check_one_peer, usage};
use msgpath_verbs::servers::{self, Usual, reached_by_others};
use msgpath_verbs::verb::Group;
use msgpath_verbs::{looks, typed};

/// The longest file that `compat read` takes, bytes.
const MOST_TEXT: u64 = 64 << 20;
/// The most connections of a course's server.
const MOST_CONNECTIONS: u32 = 1024;
/// The most trials of one size.
const MOST_TRIALS: u32 = 10_000;

/// Be the client of a course's program
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath compat css432 csslab5 12864 20000 100 15 1     100 writes of 15 bytes
  msgpath compat echo hostB 12345 10,1000,10000          the table of ten trials
  msgpath compat primitives 10.0.0.1 9000 1024 4 3       client of A1, A2, A3
  msgpath compat frames eth0 -c 1500                     receives raw frames

The servers: msgpath serve --compat NAME.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    peer: Peer,
}

#[derive(Subcommand, Debug)]
enum Peer {
    /// Write shapes of CSS 432 and CSS 503: multiple writes, writev, single write
    Css432(Css432),
    /// Lines of zero bytes that come back, timed one by one
    Echo(Echo),
    /// Bytes one way, as `dd | nc` sends them
    Discard(Discard),
    /// Client of A1, A2 and A3, the network I/O primitives
    Primitives(Primitives),
    /// Receive raw Ethernet frames of vehicle programs
    Frames(super::frames::Frames),
    /// Read rows that a client of CSS 432 printed, and name their unit
    Read(Read),
}

/// What all clients share.
#[derive(Args, Debug)]
struct Common {
    /// Use a port above 65535 as programs do that keep 16 bits of it: 78400 is 12864
    #[arg(long)]
    wrap_port: bool,
    /// How long connecting, or one step of the conversation, may take
    #[arg(long, value_name = "TIME", value_parser = patience, default_value = "10s")]
    timeout: Duration,
    #[command(flatten)]
    look: Look,
}

impl Common {
    fn target(&self, host: &str, port: &str) -> Result<Target, Problem> {
        check_one_peer(host)?;
        let port = match parse_port(port) {
            Ok(port) => port,
            Err(BadTarget::Port { typed, wraps_to }) if self.wrap_port && typed > 65_535 && wraps_to > 0 => {
                say!("note: port {typed} does not exist, {wraps_to} is used: it has the same 16 bits");
                wraps_to
            }
            Err(error @ BadTarget::Port { typed, wraps_to }) if typed > 65_535 => {
                return Err(bad_target(port, &error).hint(format!("--wrap-port to use {wraps_to}, or another port")));
            }
            Err(_) => return Err(usage(format!("{port:?} is not a port (1 to 65535)"))),
        };
        Ok(Target { host: host.to_owned(), port, timeout: self.timeout })
    }

    fn glyphs(&self) -> Glyphs {
        looks::glyphs()
    }

    fn print(&self, text: &str, json: &serde_json::Value, stop: &AtomicBool) -> Result<ExitCode> {
        print(&self.look, text, json, stop)
    }
}

/// Prints the text, or the values as JSON. Ends with 130 where somebody interrupted.
pub(super) fn print(look: &Look, text: &str, json: &serde_json::Value, stop: &AtomicBool) -> Result<ExitCode> {
    match look.json {
        true => output::print(format!("{json}\n"))?,
        false => output::print(text)?,
    }
    Ok(if stop.load(Ordering::Relaxed) { Exit::Interrupted.code().into() } else { ExitCode::SUCCESS })
}

pub(super) fn patience(text: &str) -> Result<Duration, units::ParseError> {
    let ns = units::parse_time_or_seconds(text)?;
    match ns {
        1..=3_600_000_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err(units::ParseError { what: "a time above 0 and up to 60m, such as 10s".into(), input: text.into() }),
    }
}

/// A whole number within a range, in words that name what it is.
fn within(name: &str, text: &str, least: u64, most: u64) -> Result<u64, Problem> {
    let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| usage(format!("{name} is a number from {least} to {most}, got {text:?}")))
}

/// A list of sizes, none larger than `most`.
fn sizes(text: &str, most: u64) -> Result<Vec<u64>, Problem> {
    let sizes = units::parse_sizes(text).map_err(|error| usage(error.to_string()))?;
    match sizes.iter().find(|size| **size > most) {
        Some(size) => Err(usage(format!("{size} bytes are too many (largest here: {most})"))),
        None => Ok(sizes),
    }
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "compat";
    const GROUP: Group = Group::Measure;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = msgpath_sys::signal::stop_flag();
    match &arguments.peer {
        Peer::Css432(peer) => peer.run(stop),
        Peer::Echo(peer) => peer.run(stop),
        Peer::Discard(peer) => peer.run(stop),
        Peer::Primitives(peer) => peer.run(stop),
        Peer::Frames(peer) => peer.run(stop),
        Peer::Read(peer) => peer.run(stop),
    }
}

/// `--order`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// Little endian, as most programs send it
    #[default]
    Host,
    /// Big endian: htonl()
    Network,
}

/// `--classic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ClassicArg {
    /// Seconds, and throughput in 2^30 bits
    #[default]
    Seconds,
    /// Microseconds, and throughput in 10^9 bits
    Usec,
}

#[derive(Args, Debug)]
struct Css432 {
    /// SERVER PORT REPETITION NBUFS BUFSIZE TYPE; with --older PORT REPETITION NBUFS BUFSIZE SERVER TYPE
    #[arg(value_names = ["SERVER", "PORT", "REPETITION", "NBUFS", "BUFSIZE", "TYPE"], num_args = 6, required = true)]
    words: Vec<String>,
    /// The older form: repetitions are not sent, and the server stands behind the sizes
    #[arg(long)]
    older: bool,
    /// In which order the repetitions are sent
    #[arg(long, value_enum, value_name = "ORDER", default_value_t, conflicts_with = "older")]
    order: OrderArg,
    /// The form of the row
    #[arg(long, value_enum, value_name = "FORM", default_value_t, conflicts_with = "older")]
    classic: ClassicArg,
    /// Bytes of an iteration that the server reads, which NBUFS x BUFSIZE must make
    #[arg(long, value_name = "BYTES", default_value_t = MESSAGE as u64)]
    message: u64,
    /// Turn Nagle's algorithm off; the course's clients leave it on
    #[arg(long)]
    nodelay: bool,
    #[command(flatten)]
    common: Common,
}

impl Css432 {
    fn asked(&self) -> Result<shapes::Asked, Problem> {
        let word = |at: usize| self.words[at].as_str();
        let ([server, port], [repetition, nbufs, bufsize], kind) = match self.older {
            false => ([word(0), word(1)], [word(2), word(3), word(4)], word(5)),
            true => ([word(4), word(0)], [word(1), word(2), word(3)], word(5)),
        };
        let repetition = within("REPETITION", repetition, 1, u64::from(REPETITIONS_END) - 1)?;
        let nbufs = within("NBUFS", nbufs, 1, u64::from(units::MAX_PIECES))?;
        let bufsize = within("BUFSIZE", bufsize, 1, shapes::MOST_MESSAGE as u64)?;
        if nbufs * bufsize != self.message {
            return Err(usage(format!("{nbufs} x {bufsize} is {}, not {}", nbufs * bufsize, self.message))
                .why("the server reads so many bytes for each iteration, and would wait for ever")
                .hint(format!("--message {} at both ends", nbufs * bufsize)));
        }
        let shape = within("TYPE", kind, 1, 3)? as u32;
        Ok(shapes::Asked {
            target: self.common.target(server, port)?,
            repetition: repetition as u32,
            nbufs: nbufs as u32,
            bufsize: bufsize as u32,
            shape: Shape::of(shape).ok_or_else(|| usage("TYPE is 1, 2 or 3"))?,
            order: (!self.older).then_some(match self.order {
                OrderArg::Host => Order::Host,
                OrderArg::Network => Order::Network,
            }),
            nodelay: self.nodelay,
        })
    }

    fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        let sent = shapes::run(&self.asked()?, stop)?;
        let classic = (!self.older).then_some(match self.classic {
            ClassicArg::Seconds => Classic::Seconds,
            ClassicArg::Usec => Classic::Usec,
        });
        let row = classic.map_or_else(|| sent.older(), |classic| sent.newer(classic));
        let text = format!("{row}\n{}", sent.say(classic, self.common.glyphs()));
        self.common.print(&text, &serde_json::json!({ "classic": row, "measured": sent }), stop)
    }
}

#[derive(Args, Debug)]
struct Echo {
    /// Where the server is
    #[arg(value_name = "ADDRESS")]
    host: String,
    /// Its port
    #[arg(value_name = "PORT")]
    port: String,
    /// Zero bytes of a line: 10, or 10,1000,10000
    #[arg(value_name = "SIZES")]
    sizes: String,
    /// Trials of each size
    #[arg(short = 'n', long, value_name = "N", value_parser = typed::number, default_value_t = 10)]
    trials: u32,
    /// A size includes the end of the line
    #[arg(long)]
    with_newline: bool,
    /// All trials of a size on one connection, instead of a new one for each
    #[arg(long)]
    one_connection: bool,
    #[command(flatten)]
    common: Common,
}

impl Echo {
    fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        if self.trials > MOST_TRIALS {
            return Err(bad_value("--trials", format!("1 to {MOST_TRIALS}, got {}", self.trials)).into());
        }
        let asked = echo::Asked {
            target: self.common.target(&self.host, &self.port)?,
            sizes: sizes(&self.sizes, echo::MOST_LINE)?.into_iter().map(|size| size as usize).collect(),
            trials: self.trials,
            with_newline: self.with_newline,
            one_connection: self.one_connection,
        };
        let columns = echo::run(&asked, stop)?;
        let glyphs = self.common.glyphs();
        let (_, step_ns) = msgpath_sys::clock::measure(10_000);
        let per = if self.one_connection { "one connection for each size" } else { "a new connection for each trial" };
        let text = format!(
            "{}\nthe same, {per}; connecting is not in the exchange; the clock has steps of {}\n\n{}",
            classic_table(&columns),
            glyphs.time(step_ns as f64),
            table(&columns, glyphs)
        );
        let json =
            serde_json::json!({ "one_connection": self.one_connection, "clock_step_ns": step_ns, "sizes": columns });
        self.common.print(&text, &json, stop)
    }
}

#[derive(Args, Debug)]
struct Discard {
    /// Where the server is
    #[arg(value_name = "ADDRESS")]
    host: String,
    /// Its port
    #[arg(value_name = "PORT")]
    port: String,
    /// Bytes that are sent; k M G are 1000
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "1G")]
    bytes: u64,
    /// Bytes of one call; dd bs=160000 is the course's
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, default_value = "160000")]
    block: u64,
    #[command(flatten)]
    common: Common,
}

impl Discard {
    fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        if !(1..=discard::MOST_BLOCK).contains(&self.block) {
            return Err(bad_value("--block", format!("1 to 64M, got {}", units::size(self.block))).into());
        }
        let target = self.common.target(&self.host, &self.port)?;
        let sent = discard::run(&discard::Asked { target, bytes: self.bytes, block: self.block }, stop)?;
        self.common.print(&sent.say(self.common.glyphs()), &serde_json::to_value(&sent)?, stop)
    }
}

#[derive(Args, Debug)]
struct Primitives {
    /// Where the server is
    #[arg(value_name = "SERVER_IP")]
    host: String,
    /// Its port
    #[arg(value_name = "PORT")]
    port: String,
    /// Bytes of a message, the server's MSGSIZE
    #[arg(value_name = "MSGSIZE", value_parser = units::parse_size)]
    size: u64,
    /// Threads, each with a connection
    #[arg(value_name = "THREADS")]
    threads: String,
    /// For how long, seconds
    #[arg(value_name = "SECONDS", value_parser = patience)]
    seconds: Duration,
    #[command(flatten)]
    common: Common,
}

impl Primitives {
    fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        let asked = primitives::Asked {
            target: self.common.target(&self.host, &self.port)?,
            size: message_size("MSGSIZE", self.size)?,
            threads: within("THREADS", &self.threads, 1, primitives::MOST_THREADS.into())? as u32,
            time: self.seconds,
        };
        let (totals, measured) = primitives::run(&asked, stop)?;
        let mut text = primitives::say(&totals, &measured, self.common.glyphs());
        if stop.load(Ordering::Relaxed) {
            text += "  interrupted: the first line divides by seconds that were not waited for\n";
        }
        let json = serde_json::json!({ "classic": totals.line(), "totals": totals, "measured": measured });
        self.common.print(&text, &json, stop)
    }
}

fn message_size(name: &str, size: u64) -> Result<usize, Problem> {
    match size {
        1..=primitives::MOST_SIZE => Ok(size as usize),
        _ => Err(usage(format!("{name} is 1 to 64M, got {}", units::size(size)))),
    }
}

#[derive(Args, Debug)]
struct Read {
    /// A text with rows such as `Test (1): time = 0.312501 sec, #reads = 22978, throughput 0.715255 Gbps`
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Bytes that each row sent: repetition x nbufs x bufsize
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "30M")]
    bytes: u64,
    #[command(flatten)]
    look: Look,
}

impl Read {
    fn run(&self, stop: &AtomicBool) -> Result<ExitCode> {
        let cannot = |what: String| {
            Problem::new("E50", Exit::CannotStart, format!("cannot read {}: {what}", self.file.display()))
        };
        let bytes = msgpath_verbs::input::read(&self.file, MOST_TEXT).map_err(cannot)?;
        let text = String::from_utf8_lossy(&bytes);
        let rows: Vec<Row> = text.lines().filter_map(Row::parse).collect();
        if rows.is_empty() {
            return Err(cannot("it has no row of such a client".into())
                .hint("a row begins with Test (1): time = ...")
                .into());
        }
        let glyphs = looks::glyphs();
        let mut out = format!("rows of {} bytes each; throughput in 10^9 bits per second\n", self.bytes);
        let mut json = Vec::new();
        for row in &rows {
            let (rate, unit) = (row.rate(self.bytes), row.unit(self.bytes));
            let printed = match (row.throughput, unit) {
                (Some((value, digits)), Some(unit)) => {
                    format!("printed {value:.digits$} in {}", unit.name(), digits = digits as usize)
                }
                _ => "no throughput printed".to_owned(),
            };
            let rate_text = rate.map_or("n/a".to_owned(), |bits| bits_per_second(bits, BitUnits::Si));
            let reads = row.reads.map_or(String::new(), |reads| format!("   {} reads", reads));
            out += &format!(
                "type {}   {:>8}   {:>11}   {printed}{reads}\n",
                row.test,
                glyphs.time(row.time_ns as f64),
                rate_text
            );
            json.push(serde_json::json!({ "row": row, "bits_per_second": rate, "unit": unit }));
        }
        print(&self.look, &out, &serde_json::json!({ "bytes": self.bytes, "rows": json }), stop)
    }
}

/// Whom `serve` is compatible with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compat {
    /// Write shapes of CSS 432: reads, counts its reads, answers the number
    Css432,
    /// Lines that come back unchanged
    Echo,
    /// Bytes that are read and counted, as `nc -l > /dev/null` does
    Discard,
    /// Network I/O primitives: eight fields copied into one buffer, send()
    A1,
    /// The same with sendmsg() of eight buffers
    A2,
    /// The same with MSG_ZEROCOPY
    A3,
}

/// `--reads`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ReadsArg {
    /// Every read
    #[default]
    All,
    /// Those that returned less than was asked for
    Short,
}

/// Options of `serve --compat`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Servers of courses")]
struct ServerArguments {
    /// Be the server of a course's program instead [default: loopback only, port 5210]
    ///
    /// Their own clients work against it; msgpath's are `msgpath compat`. --connections (default 64), --idle-timeout
    /// (default 1m) and --message-timeout (default 10s, and 10 µs a byte) apply. Nobody is asked who they are.
    #[arg(long, value_enum, value_name = "NAME")]
    compat: Option<Compat>,
    /// a1, a2, a3: bytes of a message, MSGSIZE [required there]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, requires = "compat")]
    size: Option<u64>,
    /// echo: the longest line [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, requires = "compat")]
    longest_line: Option<u64>,
    /// css432: bytes that are read for each iteration [default: 1500]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, requires = "compat")]
    iteration: Option<u64>,
    /// css432: the older form, whose clients do not send so many repetitions
    #[arg(long, value_name = "REPETITION", requires = "compat")]
    older: Option<String>,
    /// css432: which reads the answer counts [default: all]
    #[arg(long, value_enum, value_name = "WHICH", requires = "compat")]
    reads: Option<ReadsArg>,
    /// discard: do not tell the figures when a stream has ended
    #[arg(long, requires = "compat")]
    tell_nothing: bool,
}

/// The servers of courses, as `msgpath serve` has them.
pub(super) struct OfCourses;

impl servers::Server for OfCourses {
    fn options(&self, serve: Command) -> Command {
        ServerArguments::augment_args(serve)
    }

    fn option(&self) -> &'static str {
        "--compat"
    }

    fn name(&self) -> &'static str {
        "the servers of courses"
    }

    fn is_asked(&self, typed: &ArgMatches) -> bool {
        typed.try_get_one::<Compat>("compat").is_ok_and(|compat| compat.is_some())
    }

    fn serve(&self, typed: &ArgMatches, usual: Usual) -> Result<ExitCode> {
        ServerArguments::from_arg_matches(typed)?.serve(usual)
    }
}

impl ServerArguments {
    /// Options of other servers than the one that was asked for.
    fn misplaced(&self, asked: Compat) -> Option<(&'static str, &'static str)> {
        let primitives = [Compat::A1, Compat::A2, Compat::A3];
        let given = [
            ("--size", self.size.is_some(), &primitives[..], "a1, a2 and a3"),
            ("--longest-line", self.longest_line.is_some(), &[Compat::Echo], "echo"),
            ("--iteration", self.iteration.is_some(), &[Compat::Css432], "css432"),
            ("--older", self.older.is_some(), &[Compat::Css432], "css432"),
            ("--reads", self.reads.is_some(), &[Compat::Css432], "css432"),
            ("--tell-nothing", self.tell_nothing, &[Compat::Discard], "discard"),
        ];
        let wrong = given.into_iter().find(|(_, given, whose, _)| *given && !whose.contains(&asked));
        wrong.map(|(option, _, _, whose)| (option, whose))
    }

    fn protocol(&self, asked: Compat) -> Result<Protocol, Problem> {
        if let Some((option, whose)) = self.misplaced(asked) {
            return Err(usage(format!("{option} belongs to --compat {whose}")).hint(format!("leave out {option}")));
        }
        let primitive = |primitive| {
            let size = self.size.ok_or_else(|| {
                usage("this server must know the size of a message: there is no framing")
                    .hint("--size 1024, the client's MSGSIZE")
            })?;
            message_size("--size", size).map(|size| Protocol::Primitives { primitive, size })
        };
        let limited = |option: &str, size: Option<u64>, usual: u64, most: u64| match size.unwrap_or(usual) {
            size if (1..=most).contains(&size) => Ok(size as usize),
            size => Err(bad_value(option, format!("1 to {}, got {}", units::size_short(most), units::size(size)))),
        };
        Ok(match asked {
            Compat::Css432 => Protocol::Css432(shapes::Serving {
                message: limited("--iteration", self.iteration, css432::MESSAGE as u64, shapes::MOST_MESSAGE as u64)?,
                older: match &self.older {
                    Some(text) => Some(within("--older", text, 1, u64::from(REPETITIONS_END) - 1)? as u32),
                    None => None,
                },
                counted: match self.reads.unwrap_or_default() {
                    ReadsArg::All => shapes::Counted::All,
                    ReadsArg::Short => shapes::Counted::Short,
                },
            }),
            Compat::Echo => {
                Protocol::Echo { longest: limited("--longest-line", self.longest_line, 1 << 20, echo::MOST_LINE)? }
            }
            Compat::Discard => Protocol::Discard { tells: !self.tell_nothing },
            Compat::A1 => primitive(Primitive::A1)?,
            Compat::A2 => primitive(Primitive::A2)?,
            Compat::A3 => primitive(Primitive::A3)?,
        })
    }

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// Options that do not fit together; E01 where it cannot listen.
    fn serve(&self, usual: Usual) -> Result<ExitCode> {
        let ServeAddress::Tcp { host, port } = usual.listen.address()? else {
            let problem = usage("the servers of courses speak TCP");
            return Err(problem.hint("an address HOST:PORT, or -p PORT").into());
        };
        let reached = "whoever reaches it can make it send and compute";
        reached_by_others(usual.insecure, host.as_deref(), port, reached)?;
        let asked = self.compat.ok_or_else(|| usage("--compat names a server"))?;
        let connections = usual.connections.unwrap_or(64);
        if connections > MOST_CONNECTIONS {
            return Err(bad_value("--connections", format!("1 to {MOST_CONNECTIONS} here: each has a thread")).into());
        }
        let server = Server::bind(ServerOptions {
            host,
            port,
            connections: connections as usize,
            idle: usual.idle.unwrap_or(Duration::from_secs(60)),
            sure: Duration::from_secs(1),
            message: usual.message.unwrap_or(Duration::from_secs(10)),
            protocol: self.protocol(asked)?,
        })?;
        let mut console = Log::new(std::time::Instant::now());
        if !server.address().ip().to_canonical().is_loopback() {
            console.say(&format!(
                "warning: {} is not loopback: whoever reaches it can make it send and compute, and nobody is asked who they are",
                server.address()
            ));
        }
        server.run(msgpath_sys::signal::stop_flag(), &mut |event| match event {
            Event::Course(line) if !usual.quiet => console.say(line),
            Event::Course(_) => {}
            Event::Wrong(line) => console.say(line),
            Event::Classic(line) => {
                // Where nobody reads standard output any more, the server goes on.
                let _ = output::print(format!("{line}\n"));
            }
        });
        Ok(ExitCode::SUCCESS)
    }
}
