//! `msgpath mesh`: many hosts, each measured with the others.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use msgpath_core::foreign::shown;
use msgpath_core::gate::Gate;
use msgpath_core::{Exit, Problem, units};
use msgpath_sys::say;
use msgpath_sys::standard::draw;
use msgpath_verbs::options::Look;
use msgpath_verbs::output;
use msgpath_verbs::problems::usage;
use msgpath_verbs::typed::{self, List, PathArg};
use msgpath_verbs::verb::Group;
use msgpath_verbs::{looks, runs};

use crate::gang::{self, Gang};
use crate::kept as meshes;
use crate::present::terminal::{self, Preview};
use crate::record::PairBlock;
use crate::request::{gate, mesh as planned};
use crate::run::{self as mesh, MeshProgress, schedule};
use crate::schema::{MeshHeader, PairPurpose};

/// Without --yes no mesh lasts longer or writes more.
const LONGEST: Duration = Duration::from_secs(2 * 3600);
const LARGEST: u64 = 10 << 30;
/// Frames of a round, both ends, bytes; and what is said of a host once.
const ROUND_FRAMES: u64 = 2_400;
const HELLO: u64 = 3_400;
const PILOT_ROUNDS: u64 = 9;
/// A block of a pair: its facts, and what a round adds.
const PAIR_BYTES: u64 = 260;
const ROUND_BYTES: u64 = 600;
/// What the coordinator keeps of a host, of a pair in its analysis, and itself.
const HOST_MEMORY: u64 = 96 << 10;
const PAIR_MEMORY: u64 = 320;
const OWN_MEMORY: u64 = 12 << 20;

/// Many hosts: which host or link is slow
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath mesh n[1-64]                       ssh, every pair, 2 s a pair
  msgpath mesh --hosts hosts.toml --dry-run  steps, time and bytes first
  msgpath mesh n[1-1000] --pairs k:24        a sample: slow hosts in a minute
  msgpath mesh n[1-8] --fail-if 'p99 > 1ms'  exit 1 where a pair surely is so
  msgpath mesh --resume @last                what is missing or failed
  msgpath mesh --expect 64 --print slurm     a script for sbatch

Exit codes: 0 every pair has a result, 1 a --fail-if holds, 4 a pair has none. See docs/mesh.md.")]
pub(crate) struct Arguments {
    /// Hosts as Slurm writes them: n[1-4,7],gpu[001-003]!n3, @FILE [default: those of --hosts, of SLURM_JOB_NODELIST]
    #[arg(value_name = "HOSTS")]
    pub(crate) hosts: Option<String>,
    /// Hosts with racks, addresses and limits (TOML)
    #[arg(long = "hosts", value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "resume")]
    pub(crate) hosts_file: Option<PathBuf>,
    /// What starts an agent on a host: ssh, slurm, docker, podman, kubectl, netns, mpi, or a template [default: ssh; in an
    /// allocation of Slurm slurm]
    #[arg(long, value_name = "LAUNCHER", conflicts_with = "listen")]
    pub(crate) launch: Option<String>,
    /// What msgpath is called on the hosts
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<String>,
    #[command(flatten)]
    pub(crate) gang: Gang,
    /// Which pairs: all, k:N (each host with N others), racks, A,B (each of one list with each of the other), @FILE (two hosts
    /// a line) [default: all; above 200 hosts k:24]
    #[arg(long, value_name = "PAIRS", conflicts_with = "resume")]
    pub(crate) pairs: Option<String>,
    /// Measure each pair twice, with each host as near end once
    #[arg(long)]
    pub(crate) both: bool,
    /// Pairs at a time [default: as many as fit; on a machine of several hosts one for two CPUs]
    #[arg(long, value_name = "N", value_parser = typed::number)]
    pub(crate) parallel: Option<u32>,
    /// How often a pair is measured again that is slower than its hosts explain
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    pub(crate) retest: u32,
    /// A random share of the pairs is measured once more alone: 5%
    #[arg(long, value_name = "SHARE", value_parser = typed::share)]
    pub(crate) check_interference: Option<f64>,
    /// Fail (exit 1) where this is surely so of a pair: 'p99 > 200us', 'loss > 0.01%'; repeatable
    #[arg(long, value_name = "GATE", value_parser = gate)]
    pub(crate) fail_if: Vec<Gate>,
    /// Paths, comma separated [default: tcp:send]
    #[arg(short = 'x', long = "path", value_name = "PATHS", hide_possible_values = true)]
    pub(crate) paths: Option<List<PathArg>>,
    /// Sizes of a message [default: 64]
    #[arg(short = 'l', long = "len", value_name = "SIZES", value_parser = typed::sizes)]
    pub(crate) len: Option<List<u64>>,
    /// Measuring time of a pair, all cases together [default: 2s]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    pub(crate) time: Option<u64>,
    /// Messages of each case of a pair, instead of a time
    #[arg(short = 'c', long, value_name = "N", value_parser = typed::count, conflicts_with = "time")]
    pub(crate) count: Option<u64>,
    /// Rounds of each case of a pair [default: 10]
    #[arg(short = 'r', long, value_name = "N", value_parser = typed::number)]
    pub(crate) rounds: Option<u32>,
    /// Reproduces pairs and steps [default: random, recorded]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Say what would be done: steps, time and bytes first
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    /// Go on with a mesh that was cut short: a name, a folder, @last
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
    /// Go ahead even if it takes more than 2 h or 10 GiB
    #[arg(long)]
    pub(crate) yes: bool,
    /// Name of the run [default: two random words]
    #[arg(long, value_name = "NAME", value_parser = typed::run_name)]
    pub(crate) name: Option<String>,
    /// Problems only
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// All findings, more hosts and pairs
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "mesh";
    const GROUP: Group = Group::Measure;
    const SHORT: Option<(&str, &str)> =
        Some(("hosts launch listen print pairs fail-if path len time dry-run resume", ""));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    let stop = msgpath_sys::signal::stop_flag();
    let mut progress = Live { quiet: arguments.quiet, terminal: std::io::stderr().is_terminal() };
    if let Some(name) = &arguments.resume {
        let folder = meshes::find(name)?;
        let agents = gang::again(arguments, &folder, &mut |text| progress.say(text), stop)?;
        let mut suspects = meshes::suspects;
        let (_, outcome) = mesh::resume(&folder, agents, &mut progress, &mut suspects, stop)?;
        progress.end();
        return ended(arguments, &folder, outcome);
    }
    if let Some(kind) = arguments.gang.print {
        let header = planned(arguments, words.clone(), gang::unnamed(arguments))?;
        let text = gang::text(kind, arguments, &words, &header, preview(&header)?.time_ns);
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (header, agents) = gang::come(arguments, words, &mut |text| progress.say(text), stop)?;
    let preview = preview(&header)?;
    if arguments.dry_run {
        let text = terminal::preview(&header, &preview, looks::stdout(&arguments.look));
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let too_much = Duration::from_nanos(preview.time_ns) > LONGEST || preview.record > LARGEST;
    if too_much && !arguments.yes {
        return Err(usage("this mesh takes more than 2 h, or more than 10 GiB")
            .why("--dry-run says how much")
            .hint("--pairs k:24, a shorter -t, or --yes")
            .into());
    }
    let (name, folder) = runs::new_place(arguments.name.as_deref())?;
    let header = MeshHeader { name, ..header };
    let mut suspects = meshes::suspects;
    let outcome = mesh::execute(header, &folder, agents, &mut progress, &mut suspects, stop)?;
    progress.end();
    ended(arguments, &folder, outcome)
}

/// Prints what the mesh in `folder` holds; the exit code says whether anything is missing or broken.
fn ended(arguments: &Arguments, folder: &std::path::Path, outcome: mesh::Outcome) -> Result<ExitCode> {
    let (header, summary) = meshes::kept(folder)?;
    if !arguments.quiet {
        output::print(meshes::text(&header, &summary, arguments.verbose, &arguments.look))?;
    }
    let broken: Vec<String> = summary
        .sla
        .iter()
        .filter(|sla| sla.broken > 0)
        .map(|sla| format!("{} of {} pairs", sla.gate, sla.broken))
        .collect();
    let problem = if outcome.stopped && summary.measured == 0 {
        Problem::new("E15", Exit::Interrupted, "interrupted before the first pair was measured")
    } else if outcome.stopped {
        Problem::new(
            "E82",
            Exit::Interrupted,
            format!("interrupted: {} of {} pairs are measured", summary.measured, summary.planned),
        )
        .hint(format!("msgpath mesh --resume {}", header.name))
    } else if !outcome.complete {
        let first = summary.missing.first().map(|missing| missing.problem.clone());
        let why = first.map_or(String::new(), |problem| problem.in_a_line());
        let missing = summary.missing.len();
        Problem::new("E82", Exit::Unfinished, format!("{missing} pairs have no result"))
            .why(why.trim().to_string())
            .hint(format!("msgpath mesh --resume {}", header.name))
    } else if broken.is_empty() {
        return Ok(ExitCode::SUCCESS);
    } else {
        Problem::new("E83", Exit::CheckFailed, format!("the limit is broken: {}", broken.join(", ")))
    };
    say!("{problem}");
    Ok(problem.exit.code().into())
}

/// What a mesh would do.
fn preview(header: &MeshHeader) -> Result<Preview, Problem> {
    let pairs = mesh::pairs(header)?;
    let resources = mesh::resources(header, header.order.parallel);
    let slots: Vec<_> = pairs.iter().map(|pair| schedule::slot(*pair, PairPurpose::Mesh, 0)).collect();
    let steps = schedule::steps(&slots, &resources, header.plan.seed, 0);
    let alone = schedule::alone(&pairs, header.order.alone_ppm, header.plan.seed).len();
    let each = mesh::time_of_a_pair(&header.plan).as_nanos() as u64;
    let (cases, rounds) = (header.plan.cases.len() as u64, u64::from(header.plan.rounds));
    let count = (pairs.len() + alone) as u64;
    let name = |at: u32| header.host(at).to_string();
    let hosts = header.hosts.len() as u64;
    let powers = [0.1, 0.3]
        .iter()
        .filter_map(|spread| crate::analyse::planned_power(&pairs, header.hosts.len() as u32, *spread));
    Ok(Preview {
        fewest: resources.fewest(&slots),
        widest: steps.iter().map(Vec::len).max().unwrap_or(0),
        alone,
        time_ns: (steps.len() + alone) as u64 * each,
        one_by_one_ns: count * each,
        control: hosts * HELLO + count * cases * (rounds + PILOT_ROUNDS) * ROUND_FRAMES,
        record: hosts * HELLO + count * (PAIR_BYTES + cases * rounds * ROUND_BYTES),
        memory: OWN_MEMORY + hosts * HOST_MEMORY + count * cases * PAIR_MEMORY,
        power: powers.collect(),
        first: steps
            .iter()
            .take(3)
            .map(|step| step.iter().map(|slot| (name(slot.near), name(slot.far))).collect())
            .collect(),
        steps: steps.len(),
    })
}

/// What happens, on standard error.
struct Live {
    quiet: bool,
    terminal: bool,
}

impl Live {
    /// Takes the last line away.
    fn end(&self) {
        if self.terminal && !self.quiet {
            draw("\r\x1b[K");
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.end();
            say!("{}", shown(text));
        }
    }
}

impl MeshProgress for Live {
    fn started(&mut self, up: usize, of: usize) {
        if up < of {
            self.say(&format!("note: {up} of {of} hosts answered"));
        }
    }

    fn step(&mut self, step: u32, of: u32, pairs: usize) {
        if self.terminal && !self.quiet {
            draw(&format!("\r\x1b[Kstep {} of {of}, {pairs} pair{}", step + 1, if pairs == 1 { "" } else { "s" }));
        }
    }

    fn pair(&mut self, header: &MeshHeader, block: &PairBlock) {
        if let PairBlock::Failed(failed) = block {
            let (near, far) = (header.host(failed.slot.near), header.host(failed.slot.far));
            let again = if failed.last { "" } else { "; it is tried again" };
            self.say(&format!("note: {near} to {far}: {}{again}", failed.problem.in_a_line()));
        }
    }
}
