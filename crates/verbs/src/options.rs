//! The options that the measuring verbs share. What was typed, each value checked alone.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use msgpath_core::Launch;
use msgpath_core::gate::Gate;
use msgpath_core::plan::{Expectation, Metric, Placement, StageSet};
use msgpath_core::program::Program;
use msgpath_core::schedule::Arrivals;
use msgpath_core::units::{self, BitUnits, Pieces};

use crate::beside::Besides;
use crate::metrics::MetricsTo;
use crate::places::{Asked, Terms};
use crate::settings::{Set, Settings};
use crate::typed::{self, List, PathArg};

/// What a measuring verb was told. Each flattens the groups that have a meaning for it; what it does not take has its default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The message and its path.
    pub message: MessageOptions,
    /// Messages that are answered one by one.
    pub timed: TimedOptions,
    /// What the server is.
    pub server: ServerOptions,
    /// Flow in one direction.
    pub flow: FlowOptions,
    /// What is compared.
    pub compared: ComparedOptions,
    /// The evidence.
    pub evidence: EvidenceOptions,
    /// The connection.
    pub connection: ConnectionOptions,
    /// Rare settings.
    pub settings: Settings,
    /// The result.
    pub result: ResultOptions,
}

impl Options {
    /// With these units of throughput.
    #[must_use]
    pub fn in_units(mut self, units: UnitsArg) -> Self {
        self.result.units = units;
        self
    }
}

/// What `echo`, `stream`, `compare` and `explain` have in common.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    #[command(flatten)]
    message: MessageOptions,
    #[command(flatten)]
    evidence: EvidenceOptions,
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    result: ResultOptions,
}

impl Common {
    /// With the defaults of what only some verbs take.
    pub fn options(&self) -> Options {
        let Self { message, evidence, connection, result } = self.clone();
        Options { message, evidence, connection, settings: self.settings(), result, ..Options::default() }
    }

    /// The rare settings; a quick run leaves out what takes rounds of its own.
    pub fn settings(&self) -> Settings {
        let settings = self.connection.set.settings();
        if self.evidence.quick { settings.quick() } else { settings }
    }

    /// What the result is held to.
    pub fn evidence(&self) -> &EvidenceOptions {
        &self.evidence
    }
}

/// What is sent, by which path.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Message and path")]
pub struct MessageOptions {
    /// Paths, comma separated: transport:send-method, /wait where it is not the default [default: tcp:send]
    #[arg(short = 'x', long = "path", value_name = "PATHS", hide_possible_values = true)]
    pub paths: Option<List<PathArg>>,
    /// Sizes of a message: 64, 64,4K or 64..1M (steps of ×4); K M G are 1024
    #[arg(short = 'l', long = "len", value_name = "SIZES", value_parser = typed::sizes)]
    pub len: Option<List<u64>>,
    /// Hand a message over as COUNT buffers of SIZE bytes: 15x100,30x50; or BYTES as COUNT buffers, what does not divide in
    /// the last: 8/1003
    #[arg(long, value_name = "COUNTxSIZE", value_parser = typed::pieces, conflicts_with = "len")]
    pub pieces: Option<List<Pieces>>,
    /// Connections [default: one a thread]
    #[arg(short = 'P', long, value_name = "N", value_parser = typed::number)]
    pub connections: Option<u32>,
    /// Measuring threads at each end, or a list of thread counts: 1,2,4 [default: one a connection; with --event-loop 1]
    #[arg(short = 'T', long, value_name = "N", value_parser = typed::numbers)]
    pub threads: Option<List<u32>>,
}

/// Messages that are answered one by one.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Message and path")]
pub struct TimedOptions {
    /// Size of the reply [default: as -l]; with --server the bytes of such replies are not compared
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub reply: Option<u64>,
    /// Messages in flight on a connection, or with echo a list: 1,4,16 [default: 1; with --rate at most 4096]
    #[arg(long, value_name = "N", value_parser = typed::numbers)]
    pub inflight: Option<List<u32>>,
    /// Messages a second, all connections together, sent by a schedule and timed from the intended send: 10k, 1k,5k or
    /// 1k..200k (steps of ×2), or shares of the capacity, which is found before: 50%, 10%..110%/12 (12 even steps); several
    /// make a load curve; k M are 1000
    #[arg(long, value_name = "RATES", value_parser = typed::rates)]
    pub rate: Option<List<typed::Offered>>,
    /// Split the time of messages into stages: each case is measured once more while the kernel is traced, with few events
    /// (light) or with the system calls and who else ran as well (full)
    #[arg(
        long,
        value_enum,
        value_name = "SET",
        hide_possible_values = true,
        default_value_t,
        help_heading = "Evidence"
    )]
    pub stages: StagesArg,
}

/// What the server is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Message and path")]
pub struct ServerOptions {
    /// A thread serves its connections from one epoll set, whichever is ready, at both ends; else it serves them in turn
    #[arg(long)]
    pub event_loop: bool,
    /// Start this program as the server: './server {port}', or with a name, new='./server {port}'; or raw://HOST:PORT for one
    /// that runs. {port} {host} {cpu} are filled in; without {port} its listening socket is looked for. No shell is between.
    /// With compare repeatable, and beside msgpath's own server; a path names one with @: tcp:send@new
    #[arg(long = "server", value_name = "PROGRAM", value_parser = typed::program)]
    pub programs: Vec<Program>,
}

/// Flow in one direction.
#[derive(Args, Clone, Debug, Default)]
pub struct FlowOptions {
    /// The far end sends and this end receives
    #[arg(short = 'R', long, help_heading = "Message and path")]
    pub reverse: bool,
    /// Units of throughput: si (Gbit/s = 10^9) or binary (Gibit/s = 2^30 beside it)
    #[arg(long, value_enum, value_name = "UNITS", default_value_t, help_heading = "Result")]
    pub units: UnitsArg,
}

/// What is compared.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Evidence")]
pub struct ComparedOptions {
    /// The path that the others are divided by [default: the first]
    #[arg(long, value_name = "PATH", hide_possible_values = true)]
    pub baseline: Option<List<PathArg>>,
    /// What is compared: p50, p99, mean or cpu; streams: throughput or cpu [default: p50, throughput]
    #[arg(long, value_name = "METRIC", value_parser = typed::metric)]
    pub metric: Option<Metric>,
}

/// How much is measured.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Evidence")]
pub struct EvidenceOptions {
    /// The time you wait for each case, warm-up and what-ifs included; a bare number means seconds [default: 10s, compare 2s]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    pub time: Option<u64>,
    /// Messages of each case, instead of a time
    #[arg(short = 'c', long, value_name = "N", value_parser = typed::count, conflicts_with = "time")]
    pub count: Option<u64>,
    /// Warm-up of each case [default: a tenth of -t, at most 1s]
    #[arg(short = 'w', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    pub warmup: Option<u64>,
    /// Rounds of each case: the unit of evidence [default: 40, stream 10; fewer and longer where it takes time to settle]
    #[arg(short = 'r', long, value_name = "N", value_parser = typed::number)]
    pub rounds: Option<u32>,
    /// A rough answer in about 3 s (compare: two sizes, a few seconds more): few short rounds, no what-ifs
    #[arg(long, conflicts_with_all = ["time", "count", "rounds", "warmup"])]
    pub quick: bool,
    /// Your estimate, typed before you look: 50us, or for a stream 10G bits a second
    #[arg(long, value_name = "VALUE", value_parser = typed::expectation)]
    pub expect: Option<Expectation>,
    #[command(flatten)]
    pub besides: Besides,
    /// Fail (exit 1) where this is surely so: 'p99 > 1ms', 'cpu > 20us', 'throughput < 5 Gbit/s', 'rate < 10k msg/s',
    /// 'loss > 0.1%', 'loss > 0%' (one lost message); repeatable
    #[arg(long, value_name = "GATE", value_parser = typed::gate)]
    pub fail_if: Vec<Gate>,
    /// A result that is not what it claims to be is an error (exit 5), and so is a gate that cannot be decided
    #[arg(long)]
    pub strict: bool,
}

/// How the two ends are connected, and where they run.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection and place")]
pub struct ConnectionOptions {
    /// Places on this machine, for both
    #[command(flatten)]
    pub places: Asked<TwoEnds>,
    /// What starts the far end
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// CPUs of the near and the far end: 0,1, or lists 0,2:1,3, or none: no thread is pinned [default: chosen and printed]
    #[arg(long, value_name = "NEAR,FAR", value_parser = typed::cpus)]
    pub cpu: Option<Placement>,
    /// Rare settings
    #[command(flatten)]
    pub set: Set,
}

impl ConnectionOptions {
    /// Whether an end is started on another host or in a namespace.
    pub fn is_elsewhere(&self) -> bool {
        self.launch.launch.is_some() || self.places.is_asked()
    }
}

/// `--between` of two ends.
#[derive(Clone, Debug, Default)]
pub struct TwoEnds;

impl Terms for TwoEnds {
    const HELP: (&'static str, &'static str) = ("Network namespaces of the two ends: ", "");
    const EXCLUDES: &'static [&'static str] = &["launch"];
}

/// How the far end gets to its host, where nobody started it there.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection and place")]
pub struct LaunchOptions {
    /// Start the far end on the host TARGET by ssh, slurm, docker, podman, kubectl, netns or mpi, or by a template of words
    /// in which {host} and {program} stand for what they say: 'ssh -J gate {host} {program}'
    #[arg(long, value_name = "LAUNCHER", value_parser = typed::launch)]
    pub launch: Option<Launch>,
    /// The token that the far end asks for: a copy of the file of its msgpath serve --token-file [default: the file that
    /// MSGPATH_TOKEN_FILE names]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "launch")]
    pub token_file: Option<PathBuf>,
    /// With --launch: what msgpath is called on that host [default: msgpath]
    #[arg(long, value_name = "PROGRAM", requires = "launch")]
    pub program: Option<String>,
    /// With --launch: address of that host for data connections [default: found there and printed]
    #[arg(long, value_name = "ADDRESS", requires = "launch")]
    pub address: Option<std::net::IpAddr>,
}

/// Where the result goes and how it looks.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Result")]
pub struct ResultOptions {
    /// Name of the run [default: two random words]
    #[arg(long, value_name = "NAME", value_parser = typed::run_name, conflicts_with = "no_save")]
    pub name: Option<String>,
    /// Keep no record of the run
    #[arg(long)]
    pub no_save: bool,
    /// Progress on standard error [default: block on a terminal, else a line every 10 s]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub progress: Option<ProgressStyle>,
    /// The result in a sentence or two and a line for each kind of warning; -qq: nothing but the exit code and files
    #[arg(short = 'q', long, action = ArgAction::Count)]
    pub quiet: u8,
    /// More: costs, steadiness, all findings and warnings, options, both machines
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Warnings in full
    #[arg(short = 'W', long, hide = true)]
    pub warnings: bool,
    /// One JSON object for each round on standard output, as soon as it is recorded, and as the last line what --json prints
    #[arg(long, conflicts_with = "json")]
    pub jsonl: bool,
    /// Metrics for Prometheus while the run goes on: into a text file (metrics.prom), or for whoever asks at an address of
    /// this machine (127.0.0.1:9464)
    #[arg(long, value_name = "FILE|ADDR", value_parser = typed::metrics)]
    pub open_metrics: Option<MetricsTo>,
    /// How it looks
    #[command(flatten)]
    pub look: Look,
    /// Units of throughput, where a verb takes them
    #[arg(skip)]
    pub units: UnitsArg,
}

/// How text looks: shared with the verbs that only read.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Result")]
pub struct Look {
    /// One JSON object on standard output
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: When,
}

/// `--arrivals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsArg {
    /// Exponential gaps: independent users
    Poisson,
    /// Equal gaps from a random phase
    Constant,
}

impl From<ArrivalsArg> for Arrivals {
    fn from(arrivals: ArrivalsArg) -> Arrivals {
        match arrivals {
            ArrivalsArg::Poisson => Arrivals::Poisson,
            ArrivalsArg::Constant => Arrivals::Constant,
        }
    }
}

/// `--stages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StagesArg {
    /// Nothing is traced
    #[default]
    Off,
    /// The events that bound the stages
    Light,
    /// The system calls, and who else ran, as well
    Full,
}

impl From<StagesArg> for Option<StageSet> {
    fn from(stages: StagesArg) -> Option<StageSet> {
        match stages {
            StagesArg::Off => None,
            StagesArg::Light => Some(StageSet::Light),
            StagesArg::Full => Some(StageSet::Full),
        }
    }
}

/// `--units`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnitsArg {
    /// Gbit/s = 10^9 bit/s
    #[default]
    Si,
    /// Gibit/s = 2^30 bit/s beside it
    Binary,
}

impl From<UnitsArg> for BitUnits {
    fn from(units: UnitsArg) -> BitUnits {
        match units {
            UnitsArg::Si => BitUnits::Si,
            UnitsArg::Binary => BitUnits::Binary,
        }
    }
}

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// `--progress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// Nothing
    None,
    /// One line a second
    Line,
    /// A block redrawn in place, at most four times a second
    Block,
}
