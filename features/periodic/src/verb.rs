//! `msgpath periodic`: several processes, each sending one message a period to all others.

use std::process::ExitCode;

use crate::run::aside::messages;
use crate::run::{Mac, Periodic, Request, SendTo, Start};
use anyhow::Result;
use clap::{Args, ValueEnum};
use msgpath_core::foreign::shown;
use msgpath_core::gate::Gate;
use msgpath_core::group::Group;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{DEFAULT_MESSAGE_LOG, Extent, Stamps};
use msgpath_core::target::BadTarget;
use msgpath_core::units::{self, Pieces};
use msgpath_core::{Case, Launch, Plan, Problem};
use msgpath_sys::say;

use msgpath_verbs::options::{Options, ResultOptions};
use msgpath_verbs::places::{Asked, Terms};
use msgpath_verbs::request::{channel_of, random_seed, resolve};
use msgpath_verbs::settings::Set;
use msgpath_verbs::typed::{self, CountOrNames, List, PathArg};
use msgpath_verbs::verb::{self, Aside, Planned};
use msgpath_verbs::{gates, looks, measure, progress};

/// Messages every period, from each to all
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// A multicast group, which one process sends to and the others receive from: udp://239.1.1.1, 239.1.1.1%eth0:5999,
    /// udp://[ff15::1%eth0]
    #[arg(value_name = "GROUP", value_parser = group)]
    group: Option<Group>,
    /// Engines, comma separated: eth, udp (waits block, spin, poll, epoll, sigio) and shm (futex, spin) [default: eth/sigio,shm; of a
    /// group udp]
    #[arg(short = 'x', long = "path", value_name = "PATHS", hide_possible_values = true)]
    paths: Option<List<PathArg>>,
    /// Processes [default: 15]
    #[arg(short = 'n', long, value_name = "N", value_parser = typed::number, conflicts_with = "group")]
    processes: Option<u32>,
    /// Receivers of the group: how many, or with --launch their hosts: hosta,hostb [default: 4]
    #[arg(long, value_name = "RECEIVERS", value_parser = receivers, requires = "group")]
    receivers: Option<CountOrNames>,
    /// Start each receiver on its host by ssh, slurm, docker, podman, kubectl, netns or mpi, or by a template of words in which {host} and
    /// {program} stand for what they say
    #[arg(long, value_name = "LAUNCHER", value_parser = typed::launch, requires = "receivers", conflicts_with = "between")]
    launch: Option<Launch>,
    /// With --launch: what msgpath is called on those hosts [default: msgpath]
    #[arg(long, value_name = "PROGRAM", requires = "launch")]
    program: Option<String>,
    /// TTL (IPv4) or hop limit (IPv6) of what is sent to the group: each router on the way takes one away [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), requires = "group")]
    ttl: Option<u8>,
    /// Device on which the receivers join the group, where it is not the one named behind the group
    #[arg(long, value_name = "DEVICE", requires = "group")]
    join: Option<String>,
    /// Components in each process, each with a sending and a receiving thread
    #[arg(short = 'T', long, value_name = "N", value_parser = typed::number, default_value_t = 1, conflicts_with = "group")]
    threads: u32,
    /// Time between two messages of a component
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, default_value = "10ms")]
    period: u64,
    /// Delay each message by a random time up to this; less than the period
    #[arg(long, value_name = "TIME", value_parser = jitter, default_value = "0")]
    jitter: u64,
    /// Bytes of a message, 16 of head and the tag of --mac included
    #[arg(short = 'l', long = "len", value_name = "SIZE", value_parser = units::parse_size, default_value = "256")]
    len: u64,
    /// Messages of each component
    #[arg(short = 'c', long, value_name = "N", value_parser = typed::count, default_value = "1000")]
    count: u64,
    /// Show the first N messages of each component separately
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "50")]
    first: u64,
    /// When components begin: all at one time, spread over a period, or each as soon as it is ready
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    start: StartArg,
    /// Authentication of every message: none, hmac (HMAC-SHA-256) or poly1305 (with a key derived for each message)
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    mac: MacArg,
    /// Rounds: slices of a session
    #[arg(short = 'r', long, value_name = "N", value_parser = typed::number, default_value_t = 10)]
    rounds: u32,
    /// Fail (exit 1) where this is surely so: 'p99 > 1ms', 'cpu > 20us', 'loss > 0.1%'; repeatable
    #[arg(long, value_name = "GATE", value_parser = typed::gate)]
    fail_if: Vec<Gate>,
    #[command(flatten, next_help_heading = "Connection and place")]
    places: Asked<Processes>,
    #[command(flatten, next_help_heading = "Connection and place")]
    set: Set,
    #[command(flatten)]
    result: ResultOptions,
}

/// Processes, unless they are counted.
const PROCESSES: u32 = 15;
/// The same beside another run.
const ASIDE_PROCESSES: u32 = 4;
/// Receivers of a group, unless they are counted.
const RECEIVERS: u32 = 4;
/// `--receivers`: so many on this machine, or one on each of these hosts.
fn receivers(text: &str) -> Result<CountOrNames, Problem> {
    if text.parse::<u64>().is_ok() {
        let usage = |error: units::ParseError| msgpath_verbs::problems::usage(error.to_string());
        return typed::number(text).map(CountOrNames::Count).map_err(|error| usage(error).hint("--receivers 4"));
    }
    Ok(CountOrNames::named(text))
}

/// Keys of `-o` that say nothing of a group.
const NOT_OF_GROUPS: [&str; 3] = ["device", "ethertype", "mac"];

/// `GROUP`.
fn group(text: &str) -> Result<Group, Problem> {
    text.parse().map_err(|error: BadTarget| {
        let problem = match error {
            BadTarget::Port { .. } => msgpath_verbs::problems::bad_target(text, &error),
            _ => msgpath_verbs::problems::usage(format!("{text:?} is not a multicast group"))
                .why("groups are 224.0.0.0 to 239.255.255.255 and ff00::/8; the processes of a run without one are started here"),
        };
        problem.hint("udp://239.1.1.1, udp://239.1.1.1%eth0:5999 or udp://[ff15::1%eth0]")
    })
}

/// Keys of `-o` that it takes.
const KEYS: [&str; 8] = ["rcvbuf", "queued-signals", "device", "ethertype", "mac", "restarts", "seed", "message-log"];

/// `--start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum StartArg {
    /// All at one time, when the last one is ready
    #[default]
    Barrier,
    /// The same, spread evenly over the first period
    Staggered,
    /// Each as soon as it is ready itself
    Storm,
}

/// `--mac`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum MacArg {
    /// No authentication
    #[default]
    None,
    /// HMAC-SHA-256
    Hmac,
    /// Poly1305 with a key derived for each message
    Poly1305,
}

/// `--jitter`: a time, or 0.
fn jitter(text: &str) -> Result<u64, units::ParseError> {
    if text == "0" { Ok(0) } else { units::parse_time(text) }
}

impl Arguments {
    fn periodic(&self) -> Result<Periodic, Problem> {
        let hosts = self.launches()?;
        Ok(Periodic {
            processes: match &self.group {
                Some(_) => self.receivers.as_ref().map_or(RECEIVERS, CountOrNames::count).saturating_add(1),
                None => self.processes.unwrap_or(PROCESSES),
            },
            group: self.group.clone().map(|group| SendTo {
                group,
                hops: self.ttl.unwrap_or(1),
                join: self.join.clone(),
                hosts,
            }),
            components: self.threads,
            period_ns: self.period,
            jitter_ns: self.jitter,
            messages: self.count,
            first: self.first.min(self.count / 2),
            slices: u32::try_from((self.count - self.first.min(self.count / 2)).max(1))
                .map_or(self.rounds, |most| most.min(self.rounds)),
            start: match self.start {
                StartArg::Barrier => Start::Barrier,
                StartArg::Staggered => Start::Staggered,
                StartArg::Storm => Start::Storm,
            },
            mac: match self.mac {
                MacArg::None => Mac::None,
                MacArg::Hmac => Mac::Hmac,
                MacArg::Poly1305 => Mac::Poly1305,
            },
        })
    }

    /// What it is planned for.
    pub(super) fn planned(&self) -> Planned {
        let cases = self.engines().len() as u64;
        let session = (self.period.saturating_mul(self.count)).saturating_add(1_000_000_000);
        Planned::Time { cases, ns: cases * u64::from(self.set.settings().restarts) * session }
    }

    fn engines(&self) -> Vec<PathArg> {
        let named = |text: &str| PathArg::Spec(text.parse().expect("a path"));
        match (&self.paths, &self.group) {
            (Some(List(paths)), _) => paths.clone(),
            (None, Some(_)) => vec![named("udp:send/block")],
            (None, None) => ["eth/sigio", "shm"].map(named).into(),
        }
    }

    /// The options that other verbs have as well, where the shared code looks for them.
    fn shared(&self) -> Options {
        let mut options = Options { result: self.result.clone(), settings: self.set.settings(), ..Options::default() };
        // The last line is the object that --json prints.
        options.result.look.json |= options.result.jsonl;
        options
    }

    /// What starts each receiver on its host; none where they are counted.
    ///
    /// # Errors
    /// Hosts without a launcher, a launcher without hosts, a host that is none.
    fn launches(&self) -> Result<Vec<Launch>, Problem> {
        use msgpath_verbs::problems::usage;
        let hosts = self.receivers.as_ref().map_or(&[][..], CountOrNames::names);
        let Some(launch) = &self.launch else {
            return match hosts {
                [] => Ok(Vec::new()),
                _ => Err(usage(format!("{} is no number of receivers", hosts.join(",")))
                    .hint("--receivers 4, or hosts with what starts them there: --receivers hosta,hostb --launch ssh")),
            };
        };
        if hosts.is_empty() {
            return Err(usage("what is launched on hosts needs their names").hint("--receivers hosta,hostb"));
        }
        let launch = Launch { program: self.program.clone(), ..launch.clone() };
        let on =
            |host: &String| launch.on(host).map_err(|error| usage(error.to_string()).hint("--receivers hosta,hostb"));
        hosts.iter().map(on).collect()
    }

    fn plan(&self, periodic: &Periodic, options: &Options) -> Result<Plan, Problem> {
        periodic.validate(self.len)?;
        gates::of_one_run(&self.fail_if, &crate::workload::PERIODIC)?;
        let settings = &options.settings;
        settings.only("periodic", &KEYS)?;
        if settings.is_typed("device") && self.places.is_asked() {
            return Err(msgpath_verbs::problems::usage("-o device cannot be used with --between, which has its own")
                .hint("leave out one of the two"));
        }
        let size = u32::try_from(self.len).map_err(|_| msgpath_verbs::problems::usage("a message is at most 1 MiB"))?;
        let mut cases: Vec<Case> = Vec::new();
        if let (true, Some(key)) = (self.group.is_some(), NOT_OF_GROUPS.iter().find(|key| settings.is_typed(key))) {
            return Err(msgpath_verbs::problems::usage(format!("-o {key} has no meaning for a multicast group"))
                .why("the device stands behind the group: udp://239.1.1.1%eth0")
                .hint(format!("leave out -o {key}")));
        }
        for path in &self.engines() {
            let PathArg::Spec(spec) = path else {
                return Err(msgpath_verbs::problems::usage("periodic takes engines by their names")
                    .hint("-x eth/sigio,shm,udp"));
            };
            let path = resolve(spec, None, &msgpath_core::Target::Local)?;
            if cases.iter().any(|case| case.path == path) {
                continue;
            }
            let of = periodic.processes * self.threads;
            let label = Some(path.transport.clone());
            cases.push(Case {
                id: cases.len() as u32,
                connections: of,
                threads: of,
                label,
                ..Case::new(path, Pieces::whole(size))
            });
        }
        let paths: Vec<_> = cases.iter().map(|case| case.path.clone()).collect();
        settings.fit(&paths)?;
        if cases.is_empty() {
            return Err(msgpath_verbs::problems::usage("nothing to measure").hint("-x eth/sigio,shm"));
        }
        let plan = Plan {
            rounds: periodic.slices.saturating_mul(settings.restarts),
            restarts: settings.restarts,
            seed: settings.seed.unwrap_or_else(random_seed),
            extent: Extent::Count(self.count),
            trim: periodic.first,
            options: channel_of(settings)?,
            stamps: Stamps::Both,
            gates: self.fail_if.clone(),
            message_log: settings.message_log.unwrap_or(DEFAULT_MESSAGE_LOG),
            ..Plan::new(&crate::workload::PERIODIC, cases)
        };
        plan.validate()?;
        Ok(plan)
    }
}

/// `--between` of processes.
#[derive(Clone, Debug)]
struct Processes;

impl Terms for Processes {
    const HELP: (&'static str, &'static str) = (
        "Network namespaces of the two halves of the processes: ",
        ". Frames of eth cross the link between them; shm knows no network. Of a group: the sender's, and those of the receivers, as many as \
         there are",
    );
    const EXCLUDES: &'static [&'static str] = &[];
    const MOST: usize = 64;
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "periodic";
    const GROUP: verb::Group = verb::Group::Measure;
    const ASIDE: &[&str] = &[
        "group",
        "path",
        "processes",
        "receivers",
        "ttl",
        "join",
        "threads",
        "period",
        "jitter",
        "len",
        "start",
        "mac",
    ];
    const SHORT: Option<(&str, &str)> = Some((
        "group path processes receivers launch ttl join period len count first start mac rounds between json verbose",
        "Examples:
  msgpath periodic                           15 processes: eth/sigio and shm
  msgpath periodic -x eth,udp -n 8           two engines, 8 processes
  msgpath periodic udp://239.1.1.1 --receivers 4 --between lab   a multicast group
  msgpath periodic udp://239.1.1.1 --receivers hosta,hostb --launch ssh
  msgpath periodic --start storm --first 50  the start, and what is steady",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }

    fn planned(&self) -> Result<Option<Planned>, Problem> {
        Ok(Some(Arguments::planned(self)))
    }

    /// A few processes over one engine, for as long as it goes on.
    fn aside(&self) -> Result<Aside, Problem> {
        let mut own = self.clone();
        own.processes = own.processes.or(own.group.is_none().then_some(ASIDE_PROCESSES));
        if own.paths.is_none() && own.group.is_none() {
            own.paths = Some(List(vec![PathArg::Spec("shm".parse().expect("a path"))]));
        }
        let periodic = own.periodic()?;
        own.count = messages(own.period, periodic.processes.saturating_mul(periodic.components), periodic.components)?;
        (own.first, own.rounds) = (0, 1);
        let periodic = own.periodic()?;
        let plan = own.plan(&periodic, &own.shared())?;
        Ok(Aside { plan, parts: Parts::default().with(periodic) })
    }
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    let (options, periodic) = (arguments.shared(), arguments.periodic()?);
    let mut plan = arguments.plan(&periodic, &options)?;
    if arguments.places.is_asked() && periodic.processes < 2 {
        return Err(msgpath_verbs::problems::usage("one process is at one side of a link only")
            .hint("-n 2 or more")
            .into());
    }
    // Before the process may move into a namespace.
    let metrics = progress::open(&options.result)?;
    let named = arguments.places.named().map_or(0, |named| named.split(',').count());
    if named > 2 && periodic.group.is_none() {
        return Err(msgpath_verbs::problems::usage("a run without a group has two sides").hint("--between A,B").into());
    }
    // Before there is any other thread.
    let places = arguments.places.find()?;
    if let Some(places) = &places {
        for note in &places.notes {
            say!("note: {}", shown(note));
        }
        plan.options.between = Some(places.between.clone());
    }
    if let Some(caution) = arguments.group.as_ref().and_then(Group::caution) {
        say!(
            "note: {}: {caution}",
            arguments.group.as_ref().map_or_else(String::new, |group| group.address.to_string())
        );
    }
    let quiet = options.result.quiet > 0 || options.result.look.json;
    let glyphs = looks::glyphs();
    let ended = measure::recorded("periodic", false, &options, |place, stop| {
        let request = Request {
            plan,
            periodic,
            command: std::iter::once("msgpath".into()).chain(words).collect(),
            name: place.name.clone(),
            folder: place.folder.clone(),
        };
        let mut notify = |what: &str| {
            if !quiet {
                let what = if glyphs == units::Glyphs::Ascii { what.replace('µ', "u") } else { what.to_owned() };
                say!("note: {}", shown(&what));
            }
        };
        let mut progress = progress::quietly(&options.result, metrics);
        crate::run::execute(request, &mut notify, progress.as_mut(), stop).map(drop)
    });
    drop(places);
    ended
}
