//! `msgpath watch`: where the time goes in programs that nobody changed.

use msgpath_sys::say;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use msgpath_core::gate::Gate;
use msgpath_core::watch::ServiceCounts;
use msgpath_core::{Exit, Problem, units};
use msgpath_present::Style;
use msgpath_sys::user::{User, is_root};

use msgpath_sys::standard::draw;
use msgpath_verbs::metrics::{Metrics, MetricsTo};
use msgpath_verbs::options::Look;
use msgpath_verbs::output::{self, can_be_written, write_typed};
use msgpath_verbs::place::Place;
use msgpath_verbs::problems::usage;
use msgpath_verbs::verb::Group;
use msgpath_verbs::{gates, looks, runs, typed};

use crate::analyse::{Choice, WatchSummary, summarise};
use crate::present::{self, SLOWEST, WatchMetrics};
use crate::record::{MOST_ROWS, WATCHED, WatchHeader, named, read};
use crate::run::{Framing, Live, WatchRequest, watch};

/// The longest that programs are watched.
const LONGEST: u64 = 24 * 3600 * 1_000_000_000;

/// Where the time of other programs goes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  sudo msgpath watch --port 6379               whoever answers on this port
  sudo msgpath watch --comm redis-server       all processes of a name
  sudo msgpath watch --pid 812 -t 30s --slowest 10
  sudo msgpath watch --cgroup system.slice/nginx.service
  sudo msgpath watch -- ./server --threads 4   start a program, watch it
  msgpath watch brisk-otter                    a record of this kind again

Requests and replies on TCP, UDP and Unix sockets, paired by turns: what a client sends before it is answered is one \
request. Of connections to other hosts this machine's share is split. Needs CAP_BPF and CAP_PERFMON, kernel 6.3 with BTF.")]
pub(crate) struct Arguments {
    /// A record: a name, or a folder. Left out: programs are watched now
    #[arg(value_name = "RUN", conflicts_with_all = ["pid", "port", "comm", "cgroup", "command"])]
    run: Option<String>,
    /// Processes, with their children; comma separated
    #[arg(short = 'p', long, value_name = "PIDS", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// TCP and UDP ports, either end; comma separated
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Names of processes, as in /proc/PID/comm; comma separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    comm: Vec<String>,
    /// Cgroups (version 2) with those below them: containers, units of systemd; folders, or names as in /proc/PID/cgroup; comma
    /// separated
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    cgroup: Vec<String>,
    /// Watch only the ends that are meant, not the other ends of their connections: as if these were on other hosts
    #[arg(long)]
    no_peers: bool,
    /// Tracepoints to leave out, as if this kernel were older: for tests
    #[arg(long, value_name = "TRACEPOINTS", value_delimiter = ',', hide = true)]
    without: Vec<String>,
    /// With COMMAND: run it as this user [default: who started sudo, where that started msgpath]
    #[arg(long, value_name = "NAME", requires = "command", conflicts_with = "as_root")]
    user: Option<String>,
    /// With COMMAND: run it as root where msgpath runs as root, by sudo too
    #[arg(long, requires = "command")]
    as_root: bool,
    /// A program to start and watch; what it prints goes to standard error
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How long; a bare number is seconds [default: 10s; with COMMAND: until it ends]
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    time: Option<u64>,
    /// Requests that take at least this long are slow [default: those around p99]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    slow: Option<u64>,
    /// Follow every request, whatever it costs: else above 10,000 a second only those in windows of time, and the others are counted
    #[arg(long)]
    all: bool,
    /// List the N slowest requests of each server
    #[arg(long, value_name = "N", value_parser = typed::number)]
    slowest: Option<u32>,
    /// Stop when N requests have a row
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value_t = MOST_ROWS)]
    rows: u64,
    /// How messages are told apart: auto, http, http2, resp, postgres, rpc, line, or a length in front of each: u32be, 2:u16le-4.
    /// auto recognises the first five, and goes by turns elsewhere
    #[arg(long, value_name = "FRAMING", default_value = "auto", conflicts_with = "no_payload")]
    framing: Framing,
    /// Read nothing of what is sent: messages are turns, and have no names
    #[arg(long)]
    no_payload: bool,
    /// Write a page with pictures into FILE as well
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    report: Option<PathBuf>,
    /// Fail (exit 1) where this is surely so of a server: 'p99 > 1ms', 'mean > 200us', 'rate < 10k msg/s'; repeatable
    #[arg(long, value_name = "GATE", value_parser = typed::gate, conflicts_with = "run")]
    fail_if: Vec<Gate>,
    /// A gate that cannot be decided is an error (exit 5)
    #[arg(long)]
    strict: bool,
    /// Metrics for Prometheus meanwhile: into a text file (metrics.prom), or for whoever asks at an address of this machine
    /// (127.0.0.1:9464)
    #[arg(long, value_name = "FILE|ADDR", value_parser = typed::metrics, conflicts_with = "run")]
    open_metrics: Option<MetricsTo>,
    /// Name of the record [default: two random words]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Keep no record
    #[arg(long, conflicts_with = "name")]
    no_save: bool,
    /// No live view
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    look: Look,
}

impl Arguments {
    /// What was typed, else what was asked for when the programs were watched.
    fn choice(&self, header: &WatchHeader) -> Choice {
        let asked = Choice::asked(header);
        Choice {
            slow_ns: self.slow.unwrap_or(asked.slow_ns),
            slowest: self.slowest.map_or(asked.slowest, |count| count as usize),
        }
    }

    /// The user that the command runs as; `None`: that of this process.
    fn run_as(&self) -> Result<Option<User>, Problem> {
        if self.command.is_empty() || self.as_root {
            return Ok(None);
        }
        let known = |name: &str| {
            let found =
                User::named(name).map_err(|error| usage(format!("the list of users cannot be read: {error}")))?;
            found.ok_or_else(|| usage(format!("there is no user {name:?}")).hint("--user NAME, or --as-root"))
        };
        match &self.user {
            Some(name) => known(name).map(Some),
            None if !is_root() => Ok(None),
            None => invoker(|name| std::env::var(name).ok(), known),
        }
    }

    fn request(&self, place: &Place, words: Vec<String>) -> Result<WatchRequest, Problem> {
        let chosen = [self.pid.len(), self.port.len(), self.comm.len(), self.cgroup.len(), self.command.len()];
        if chosen == [0; 5] {
            return Err(usage("nothing to watch")
                .hint("msgpath watch --port 6379, --pid PID, --comm NAME, --cgroup PATH, or -- COMMAND"));
        }
        let default = if self.command.is_empty() { 10_000_000_000 } else { LONGEST };
        let time = self.time.unwrap_or(default);
        if time == 0 || time > LONGEST {
            return Err(usage("-t must be more than 0 and at most 24 hours"));
        }
        if self.rows == 0 || self.rows > MOST_ROWS {
            return Err(usage(format!("--rows must be 1 to {MOST_ROWS}")));
        }
        Ok(WatchRequest {
            pids: self.pid.clone(),
            ports: self.port.clone(),
            names: self.comm.clone(),
            cgroups: self.cgroup.clone(),
            no_peers: self.no_peers,
            without: self.without.clone(),
            command: self.command.clone(),
            user: self.run_as()?,
            time: Duration::from_nanos(time),
            rows: self.rows,
            slow_ns: self.slow.unwrap_or(0),
            all: self.all,
            slowest: self.slowest.unwrap_or(0),
            gates: self.fail_if.clone(),
            framing: (!self.no_payload).then_some(self.framing),
            name: place.name.clone(),
            folder: place.folder.clone(),
            typed: std::iter::once("msgpath".into()).chain(words).collect(),
        })
    }
}

/// Who started sudo, where that started this process, as its variables say; they must be those of one user. `None`: nobody, or root.
fn invoker(
    variable: impl Fn(&str) -> Option<String>,
    known: impl Fn(&str) -> Result<User, Problem>,
) -> Result<Option<User>, Problem> {
    let Some(uid) = variable("SUDO_UID") else { return Ok(None) };
    let (name, gid) = (variable("SUDO_USER").unwrap_or_default(), variable("SUDO_GID").unwrap_or_default());
    let user = known(&name)?;
    if (user.uid.to_string(), user.gid.to_string()) != (uid.clone(), gid.clone()) {
        let what = format!("SUDO_USER names {name:?}, whose numbers are not SUDO_UID {uid:?} and SUDO_GID {gid:?}");
        return Err(usage(what)
            .why("a command that root watches runs as the user who started sudo")
            .hint("--user NAME, or --as-root"));
    }
    Ok(Some(user).filter(|user| user.uid != 0))
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "watch";
    const GROUP: Group = Group::Understand;
    const SHORT: Option<(&str, &str)> =
        Some(("pid port comm cgroup time slow all slowest framing no-payload report fail-if json", ""));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    if let Some(file) = &arguments.report {
        can_be_written(file)?;
    }
    if let Some(name) = &arguments.run {
        return shown(&runs::find_kind(name, &WATCHED)?, arguments);
    }
    gates::of_watched(&arguments.fail_if)?;
    let place = if arguments.no_save { Place::temporary()? } else { Place::kept(arguments.name.as_deref())? };
    let request = arguments.request(&place, words)?;
    if let (Some(user), None) = (&request.user, &arguments.user) {
        say!("note: the command runs as {}, who started sudo (--as-root: as root)", user.name);
    }
    let stop = msgpath_sys::signal::stop_flag();
    let mut view = LiveView::new(arguments);
    let mut metrics = arguments.open_metrics.as_ref().map(Metrics::<WatchMetrics>::open).transpose()?;
    if let Some(metrics) = &mut metrics {
        (metrics.given.run, metrics.given.target) = (request.name.clone(), request.typed.join(" "));
    }
    let mut live = |live: &Live| {
        view.show(live);
        if let Some(metrics) = &mut metrics {
            tell(&mut metrics.given, live);
            metrics.serve(false);
        }
    };
    let watched = watch(&request, &mut live, stop);
    view.clear();
    if let Some(metrics) = &mut metrics {
        metrics.end();
    }
    watched?;
    if place.is_kept() {
        keep_summary(&place.folder)?;
    }
    shown(&place.folder, arguments)
}

/// Keeps what is printed beside the record, for `verify`.
fn keep_summary(folder: &Path) -> Result<()> {
    let watched = read(folder).map_err(Problem::from)?;
    let summary = summarise(&watched, Choice::asked(&watched.header));
    msgpath_record::write_summary(folder, &serde_json::to_vec_pretty(&summary)?).map_err(Problem::from)?;
    Ok(())
}

/// What was counted so far. Names come with rows, of which a second may have none.
fn tell(metrics: &mut WatchMetrics, live: &Live) {
    let name = |counts: &ServiceCounts| {
        let of_row = live.rows.iter().rev().find(|row| row.service == counts.service);
        let before = || metrics.servers.iter().find(|(_, one)| one.service == counts.service);
        of_row
            .map(|row| named(counts, &row.server_name))
            .or_else(|| before().map(|(name, _)| name.clone()))
            .unwrap_or_default()
    };
    let servers = live.services.iter().map(|counts| (name(counts), counts.clone())).collect();
    (metrics.seconds, metrics.servers) = (live.elapsed.as_secs_f64(), servers);
}

/// Prints what a record says, and writes its page.
fn shown(folder: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let watched = read(folder).map_err(Problem::from)?;
    let choice = arguments.choice(&watched.header);
    let summary = summarise(&watched, choice);
    print(&summary, &arguments.look)?;
    if let Some(file) = &arguments.report {
        let page = present::page(&summarise(&watched, Choice { slowest: choice.slowest.max(SLOWEST), ..choice }));
        write_typed(file, page)?;
    }
    gates::verdict(&summary.gates, arguments.strict)?;
    gates::note_undecided(&summary.gates);
    Ok(code(&summary))
}

/// Where no request was seen, that is a failure.
pub(crate) fn code(summary: &WatchSummary) -> ExitCode {
    match summary.servers.iter().any(|server| server.requests + server.in_flight > 0) {
        true => ExitCode::SUCCESS,
        false => Exit::Unfinished.code().into(),
    }
}

pub(crate) fn print(summary: &WatchSummary, look: &Look) -> Result<()> {
    let text = match look.json {
        true => present::json(summary) + "\n",
        false => present::text(summary, looks::stdout(look)),
    };
    output::print(&text)?;
    Ok(())
}

/// The view while programs are watched, on standard error: drawn over itself on a terminal.
struct LiveView {
    style: Option<Style>,
    lines: usize,
}

impl LiveView {
    fn new(arguments: &Arguments) -> Self {
        let wanted = std::io::stderr().is_terminal() && !arguments.quiet;
        let style = looks::file();
        Self { style: wanted.then(|| Style { width: looks::stderr_columns() as u16, ..style }), lines: 0 }
    }

    fn show(&mut self, live: &Live) {
        let Some(style) = self.style else { return };
        self.clear();
        let text = present::live(live.elapsed.as_secs_f64(), live.services, live.rows, style);
        self.lines = text.lines().count();
        draw(&text);
    }

    fn clear(&mut self) {
        draw(&"\x1b[1A\x1b[2K".repeat(std::mem::take(&mut self.lines)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invoker_is_the_user_whose_numbers_sudo_names() {
        let root = User::named("root").unwrap().expect("every system has one");
        let other = User { name: "ada".into(), uid: 1000, gid: 1001, ..root.clone() };
        let known = |name: &str| match name {
            "ada" => Ok(other.clone()),
            "root" => Ok(root.clone()),
            name => Err(usage(format!("there is no user {name:?}"))),
        };
        let sudo = |user: &'static str, uid: &'static str, gid: &'static str| {
            invoker(
                move |name| {
                    let value = match name {
                        "SUDO_USER" => user,
                        "SUDO_UID" => uid,
                        "SUDO_GID" => gid,
                        _ => "",
                    };
                    (!value.is_empty()).then(|| value.to_owned())
                },
                known,
            )
        };
        assert_eq!(sudo("ada", "1000", "1001").unwrap(), Some(other.clone()));
        assert_eq!(sudo("", "", "").unwrap(), None, "not by sudo");
        assert_eq!(sudo("root", "0", "0").unwrap(), None, "root started sudo");
        for (user, uid, gid) in [
            ("ada", "0", "1001"),
            ("ada", "1000", "0"),
            ("ada", "1000", ""),
            ("root", "1000", "1001"),
            ("eve", "1000", "1001"),
            ("", "1000", "1001"),
            ("ada", "+1000", "1001"),
        ] {
            assert!(sudo(user, uid, gid).is_err(), "{user} {uid} {gid}");
        }
    }
}
