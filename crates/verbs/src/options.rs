//! The options that the measuring verbs share. What was typed, each value checked alone.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use msgpath_core::Launch;
use msgpath_core::gate::Gate;
use msgpath_core::path::Setting;
use msgpath_core::plan::{Expectation, Metric, Placement, ServiceTime, StageSet, Stamps};
use msgpath_core::program::{Framing, Program};
use msgpath_core::schedule::{Arrivals, Rate};
use msgpath_core::units::{self, BitUnits, Pieces};

use crate::beside::Besides;
use crate::metrics::MetricsTo;
use crate::places::{Asked, Terms};
use crate::typed::{self, List, PathArg};

/// Options of `echo`, `stream` and `compare`.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// The message
    #[command(flatten)]
    pub message: MessageOptions,
    /// The evidence
    #[command(flatten)]
    pub evidence: EvidenceOptions,
    /// The far end
    #[command(flatten)]
    pub far: FarOptions,
    /// The connection
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// The result
    #[command(flatten)]
    pub result: ResultOptions,
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
    /// Size of the reply [default: as -l]; with --far the bytes of such replies are not compared
    #[arg(long, visible_alias = "reply-size", value_name = "SIZE", value_parser = units::parse_size)]
    pub reply: Option<u64>,
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
    /// A thread serves its connections from one epoll set, whichever is ready, at both ends; else it serves them in turn
    #[arg(long)]
    pub event_loop: bool,
    /// Messages in flight on a connection, or with echo a list: 1,4,16 [default: 1; with --rate at most 4096]
    #[arg(long, value_name = "N", value_parser = typed::numbers)]
    pub inflight: Option<List<u32>>,
    /// Messages a second, all connections together, sent by a schedule and timed from the intended send: 10k, 1k,5k or
    /// 1k..200k (steps of ×2), or shares of the capacity, which is found before: 50%, 10%..110%/12 (12 even steps); several
    /// make a load curve; k M are 1000
    #[arg(long, value_name = "RATES", value_parser = typed::rates)]
    pub rate: Option<List<typed::Offered>>,
    /// The same as a gap between messages: 100us
    #[arg(long, value_name = "TIME", value_parser = units::parse_gap, conflicts_with = "rate")]
    pub every: Option<Rate>,
    /// Gaps between the messages of a schedule: poisson (independent users) or constant [default: poisson]
    #[arg(long, value_enum, value_name = "DISTRIBUTION", hide_possible_values = true)]
    pub arrivals: Option<ArrivalsArg>,
    /// Service time: what the far end computes for each message before it answers, 5us, or exp:5us (exponential, with this mean) [default: none]
    #[arg(long, value_name = "TIME", value_parser = typed::service_time)]
    pub service_time: Option<ServiceTime>,
    /// Bytes over which each end rotates its message buffers, so that they leave the cache [default: one buffer]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub working_set: Option<u64>,
    /// The same as -x udp:send
    #[arg(short = 'u', long, conflicts_with_all = ["paths", "zerocopy"])]
    pub udp: bool,
    /// The same as -x tcp:zerocopy
    #[arg(short = 'Z', long, conflicts_with = "paths")]
    pub zerocopy: bool,
    /// Receivers spin (wait spin for every path that names no wait); costs a CPU at each end
    #[arg(long)]
    pub poll: bool,
    /// The far end sends and this end receives (stream)
    #[arg(short = 'R', long)]
    pub reverse: bool,
}

/// A program of the user's as the far end.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Your own program as the far end")]
pub struct FarOptions {
    /// Start this program as the far end: './server {port}', or with a name, new='./server {port}'; or raw://HOST:PORT for one
    /// that runs. {port} {host} {cpu} are filled in; without {port} its listening socket is looked for. No shell is between.
    /// With compare repeatable, and beside msgpath's own far end; a path names one with @: tcp:send@new
    #[arg(long, value_name = "PROGRAM", value_parser = typed::program)]
    pub far: Vec<Program>,
    /// What it takes for a message: bytes (as many as -l), line (text that ends with a newline), length (its length in 4 bytes
    /// before it, the most significant first) [default: bytes]
    #[arg(long, value_name = "FRAMING", value_parser = typed::framing)]
    pub frame: Option<Framing>,
    /// Send the bytes of FILE as every message; a reply of another length: --reply
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub request_file: Option<PathBuf>,
}

/// How much is measured.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Evidence")]
pub struct EvidenceOptions {
    /// Measuring time of each case; a bare number means seconds [default: 10s, compare 2s]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    pub time: Option<u64>,
    /// Messages of each case, instead of a time
    #[arg(short = 'c', long, visible_alias = "repeat", value_name = "N", value_parser = typed::count, conflicts_with = "time")]
    pub count: Option<u64>,
    /// Warm-up of each case [default: 1s, compare a tenth of -t]
    #[arg(short = 'w', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    pub warmup: Option<u64>,
    /// Rounds of each case: the unit of evidence [default: 40, stream 10; fewer and longer where it takes time to settle]
    #[arg(short = 'r', long, value_name = "N", value_parser = typed::number)]
    pub rounds: Option<u32>,
    /// Measure what a message takes at the begin of a round, on a fresh connection between CPUs that have just worked, instead
    /// of the steady state after it
    #[arg(long, conflicts_with = "count")]
    pub burst: bool,
    /// Fresh processes of the far end, with the rounds spread over them
    #[arg(long, value_name = "N", value_parser = typed::number, default_value_t = 1)]
    pub restarts: u32,
    /// Reproduces the random order of the rounds [default: random, recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The path that the others are divided by [default: the first]
    #[arg(long, value_name = "PATH", hide_possible_values = true)]
    pub baseline: Option<List<PathArg>>,
    /// What is compared: p50, p99, mean or cpu; streams: throughput or cpu [default: p50, throughput]
    #[arg(long, value_name = "METRIC", value_parser = typed::metric)]
    pub metric: Option<Metric>,
    /// Your estimate, typed before you look: 50us, or for a stream 10G bits a second
    #[arg(long, value_name = "VALUE", value_parser = typed::expectation)]
    pub expect: Option<Expectation>,
    /// Suspected causes are named, not tried in short rounds beside the case
    #[arg(long)]
    pub no_ablations: bool,
    /// The run does not go on where other work or the hypervisor disturbed more than a quarter of its rounds
    #[arg(long)]
    pub no_extend: bool,
    /// No sizes are added near a crossing (compare)
    #[arg(long)]
    pub no_refine: bool,
    /// Where messages are stamped
    #[arg(long, value_enum, value_name = "ENDS", default_value_t)]
    pub stamps: StampsArg,
    /// Split the time of messages into stages: each case is measured once more while the kernel is traced, with few events
    /// (light) or with the system calls and who else ran as well (full)
    #[arg(long, value_enum, value_name = "SET", hide_possible_values = true, default_value_t)]
    pub stages: StagesArg,
    /// Count events of CPU and kernel in the measuring threads of both ends: cycles, instructions, cache misses, switches.
    /// In rounds of their own, whose times are in no result. auto: where a CPU counts; on: everywhere; off
    #[arg(long, value_enum, value_name = "WHEN", hide_possible_values = true, default_value_t)]
    pub events: EventsArg,
    /// Afterwards the near end's loop of each case (the first 8) runs once more under valgrind's cachegrind, where that is
    /// installed: instructions and cache misses in user mode, simulated, without the kernel's copies
    #[arg(long)]
    pub simulate_cache: bool,
    #[command(flatten)]
    pub besides: Besides,
    /// Messages that the per-message log keeps; histograms count all of them [default: 2M]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    pub message_log: Option<u64>,
    /// Fail (exit 1) when a case loses a larger share of its messages: 0.1%
    #[arg(long, value_name = "SHARE", value_parser = typed::share)]
    pub max_loss: Option<f64>,
    /// Fail (exit 1) where this is surely so: 'p99 > 1ms', 'cpu > 20us', 'throughput < 5 Gbit/s', 'rate < 10k msg/s',
    /// 'loss > 0.1%'; repeatable
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
    /// Port of the far end [default: 5210]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port)]
    pub port: Option<u16>,
    /// Local address of this end's sockets
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<std::net::IpAddr>,
    /// IPv4 only
    #[arg(short = '4', long)]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, conflicts_with = "ipv4")]
    pub ipv6: bool,
    /// Places on this machine, for both
    #[command(flatten)]
    pub places: Asked<TwoEnds>,
    /// Speed of the wire between the ends in bits a second, where their devices do not tell it: 54M
    #[arg(long, value_name = "RATE", value_parser = units::parse_count)]
    pub wire: Option<u64>,
    /// What starts the far end
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// CPUs of the near and the far end: 0,1, or lists 0,2:1,3, or none: no thread is pinned [default: chosen and printed]
    #[arg(long, value_name = "NEAR,FAR", value_parser = typed::cpus)]
    pub cpu: Option<Placement>,
    /// Send small messages at once (TCP_NODELAY); this is the default
    #[arg(long, overrides_with = "no_nodelay")]
    pub nodelay: bool,
    /// Let the kernel hold small messages back (Nagle)
    #[arg(long, overrides_with = "nodelay")]
    pub no_nodelay: bool,
    /// Hold the pieces of a message together (TCP_CORK), released after each message
    #[arg(long)]
    pub cork: bool,
    /// A mistake, to be seen: TCP_CORK is set once and never released, so a message waits up to 200 ms
    #[arg(long, conflicts_with = "cork")]
    pub hold_cork: bool,
    /// Measure every TCP path once with each of these settings: nodelay, nagle, cork; the first one is the baseline's
    #[arg(long, value_name = "SETTINGS", value_parser = typed::settings, conflicts_with_all = ["nodelay", "no_nodelay", "cork", "hold_cork"])]
    pub vary: Option<List<Setting>>,
    /// Send buffer to ask for (SO_SNDBUF)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub sndbuf: Option<u64>,
    /// Receive buffer to ask for (SO_RCVBUF)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub rcvbuf: Option<u64>,
    /// Most bytes that a receive call asks for, so that one call takes several messages: 128K. Where message boundaries are
    /// preserved it is one message anyhow [default: the bytes of a message]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub read_size: Option<u64>,
    /// Congestion control of TCP: cubic, bbr ...
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Time a receive call polls the NIC, for the wait busy-poll
    #[arg(long, value_name = "µs", default_value_t = 50)]
    pub busy_poll_us: u32,
    /// Device of the transport eth [default: lo]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// EtherType of the transport eth, for both directions [default: 0x88b5 there, 0x88b6 back]
    #[arg(long, value_name = "NUMBER", value_parser = typed::ethertype)]
    pub ethertype: Option<u16>,
    /// MAC address that the transport eth sends to: 02:00:00:00:00:01 or broadcast [default: the far end's]
    #[arg(long, value_name = "MAC", value_parser = typed::mac_address)]
    pub mac_address: Option<String>,
    /// The wait sigio takes a queued real-time signal for every event (F_SETSIG), not SIGIO, of which one stands for many
    #[arg(long)]
    pub queued_signals: bool,
}

/// `--between` of two ends.
#[derive(Clone, Debug, Default)]
pub struct TwoEnds;

impl Terms for TwoEnds {
    const HELP: (&'static str, &'static str) = ("Network namespaces of the two ends: ", "");
    const EXCLUDES: &'static [&'static str] = &["bind", "port", "launch"];
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
    /// Write the result to FILE instead of the terminal
    #[arg(short = 'o', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Write one row per case and round to FILE
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Name of the run [default: two random words]
    #[arg(long, value_name = "NAME", value_parser = typed::run_name, conflicts_with = "no_save")]
    pub name: Option<String>,
    /// Keep no record of the run
    #[arg(long)]
    pub no_save: bool,
    /// Progress on standard error [default: block on a terminal, else none]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub progress: Option<ProgressStyle>,
    /// The result in a sentence or two and a line for each kind of warning; -qq: nothing but the exit code and files
    #[arg(short = 'q', long, action = ArgAction::Count)]
    pub quiet: u8,
    /// More: costs, steadiness, all findings and warnings, options, both machines
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Warnings in full
    #[arg(short = 'W', long)]
    pub warnings: bool,
    /// Units of throughput: si (Gbit/s = 10^9) or binary (Gibit/s = 2^30 beside it)
    #[arg(long, value_enum, value_name = "UNITS", default_value_t)]
    pub units: UnitsArg,
    /// One JSON object for each round on standard output, as soon as it is recorded, and as the last line what --json prints
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub jsonl: bool,
    /// Metrics for Prometheus while the run goes on: into a text file (metrics.prom), or for whoever asks at an address of
    /// this machine (127.0.0.1:9464)
    #[arg(long, value_name = "FILE|ADDR", value_parser = typed::metrics)]
    pub open_metrics: Option<MetricsTo>,
    /// How it looks
    #[command(flatten)]
    pub look: Look,
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
    /// ASCII only
    #[arg(long)]
    pub ascii: bool,
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

/// `--stamps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StampsArg {
    /// At this end: round trips
    #[default]
    Near,
    /// At both ends: one way as well; where they share no clock, with a bound
    Both,
}

impl From<StampsArg> for Stamps {
    fn from(stamps: StampsArg) -> Stamps {
        match stamps {
            StampsArg::Near => Stamps::Near,
            StampsArg::Both => Stamps::Both,
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

/// `--events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EventsArg {
    /// Where a CPU counts
    #[default]
    Auto,
    /// Everywhere, be it only what the kernel counts
    On,
    /// Nothing is
    Off,
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
